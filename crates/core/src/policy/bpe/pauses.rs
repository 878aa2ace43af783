//! Pauses of long counts, in which others may work.
//!
//! A text may be one piece of some megabytes without a place at which it could be cut and still have the same tokens. So
//! it is encoded as a whole, and only the work is cut.

use std::cell::RefCell;

/// Steps between two pauses: bytes that are looked at, and parts that are joined. They take about 10 ms.
const STEPS: usize = 1 << 16;

thread_local! {
    /// What the count of this thread calls between two pieces of its work; none without one.
    static PAUSE: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Counts with pauses: calls `pause` on this thread after each piece of bounded work. The result is the same.
pub fn with_pauses<T>(pause: impl FnMut() + 'static, count: impl FnOnce() -> T) -> T {
    /// Ends the pauses, after a panic as well.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            PAUSE.with_borrow_mut(Option::take);
        }
    }
    PAUSE.set(Some(Box::new(pause)));
    let _end = End;
    count()
}

/// The work since the last pause.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    steps: usize,
}

impl Pauses {
    /// Adds work, and pauses if it is enough.
    pub(super) fn pass(&mut self, steps: usize) {
        self.steps += steps;
        if self.steps < STEPS {
            return;
        }
        self.steps = 0;
        PAUSE.with_borrow_mut(|pause| {
            if let Some(pause) = pause {
                pause();
            }
        });
    }
}

//! A number of passes, for which those who wait take turns by tenant and access token.

use super::queue::Queue;
use super::share::Share;
use futures::task::AtomicWaker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// A gate that some may have passed at a time.
pub(crate) struct Gate {
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: Queue<Arc<Seat>>,
    is_closed: bool,
}

/// One that waits.
#[derive(Default)]
struct Seat {
    /// True once it has a pass, or the gate is closed. Written under the lock of the gate.
    is_called: AtomicBool,
    /// True once nobody waits there any more. Used under the lock of the gate.
    is_left: AtomicBool,
    waker: AtomicWaker,
}

/// A pass, until it is dropped.
pub(crate) struct Pass<'g>(&'g Gate);

/// A place at a gate, of one that passes it again and again.
pub(crate) struct Place {
    gate: Arc<Gate>,
    /// Present while it waits.
    seat: Option<Arc<Seat>>,
}

impl Gate {
    /// A gate with this number of passes.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { free: count, waiting: Queue::default(), is_closed: false }) })
    }

    /// A pass, when it is this share's turn; none once the gate is closed.
    pub(crate) async fn pass(self: &Arc<Self>, share: &Share) -> Option<Pass<'_>> {
        let mut place = Place::at(self.clone());
        std::future::poll_fn(|context| place.poll_pass(share, false, context)).await.then(|| Pass(self))
    }

    /// Refuses those who wait, and everybody from now on.
    pub(crate) fn close(&self) {
        let mut waiting = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        while let Some((_, seat)) = waiting.pop() {
            seat.call();
        }
    }

    /// True once it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Gives a pass to the next one who waits.
    fn give_back(&self) {
        let next = {
            let mut state = self.state();
            loop {
                match state.waiting.pop() {
                    Some((_, seat)) if seat.is_left.load(Ordering::Relaxed) => {}
                    Some((_, seat)) => {
                        seat.is_called.store(true, Ordering::Release);
                        break Some(seat);
                    }
                    None => {
                        state.free += 1;
                        break None;
                    }
                }
            }
        };
        if let Some(seat) = next {
            seat.waker.wake();
        }
    }

    /// The state is consistent at any time, so a poisoned lock does no harm.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Place {
    pub(crate) fn at(gate: Arc<Gate>) -> Self {
        Self { gate, seat: None }
    }

    /// True with a pass, which its taker has to wrap ([`Self::pass`]); false if the gate is closed. One that `has_begun`
    /// comes before those of its share that have not.
    pub(crate) fn poll_pass(&mut self, share: &Share, has_begun: bool, context: &mut Context<'_>) -> Poll<bool> {
        if let Some(seat) = &self.seat {
            seat.waker.register(context.waker());
            if !seat.is_called.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            self.seat = None;
            return Poll::Ready(!self.gate.is_closed());
        }
        let mut state = self.gate.state();
        if state.is_closed {
            return Poll::Ready(false);
        }
        if state.free > 0 {
            state.free -= 1;
            return Poll::Ready(true);
        }
        let seat = Arc::new(Seat::default());
        seat.waker.register(context.waker());
        match has_begun {
            true => state.waiting.push_begun(share, seat.clone()),
            false => state.waiting.push(share, seat.clone()),
        }
        drop(state);
        self.seat = Some(seat);
        Poll::Pending
    }

    /// The pass that this place got.
    pub(crate) fn pass(&self) -> Pass<'_> {
        Pass(&self.gate)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let has_pass = {
            let state = self.gate.state();
            seat.is_left.store(true, Ordering::Relaxed);
            seat.is_called.load(Ordering::Relaxed) && !state.is_closed
        };
        if has_pass {
            self.gate.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn share(tenant: &str) -> Share {
        Share::new(tenant.into(), "token".into())
    }

    #[test]
    fn passes_go_round_and_who_leaves_is_left_out() {
        let gate = Gate::new(1);
        let (loud, quiet) = (share("loud"), share("quiet"));
        let held = gate.pass(&loud).now_or_never().flatten().expect("one is free");
        let mut of_loud: Vec<_> = (0..1_000).map(|_| Box::pin(gate.pass(&loud))).collect();
        assert!(of_loud.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let mut of_quiet = Box::pin(gate.pass(&quiet));
        assert!((&mut of_quiet).now_or_never().is_none());
        drop(held);
        assert!((&mut of_quiet).now_or_never().is_none(), "one of the other tenant is before it");
        let first = of_loud.remove(0).now_or_never().flatten().expect("its turn");
        // One that waited, and one that was called, leave.
        drop(of_loud.remove(0));
        drop(first);
        let pass = of_quiet.now_or_never().flatten().expect("the next turn");
        drop(pass);
        drop(of_loud);
        assert!(gate.pass(&quiet).now_or_never().flatten().is_some(), "nobody holds anything");
    }

    #[test]
    fn a_gate_that_is_closed_refuses_those_who_wait() {
        let gate = Gate::new(1);
        let of = share("any");
        let held = gate.pass(&of).now_or_never().flatten().expect("one is free");
        let mut waiting = Box::pin(gate.pass(&of));
        assert!((&mut waiting).now_or_never().is_none());
        gate.close();
        assert!(waiting.now_or_never().expect("an answer").is_none());
        drop(held);
        assert!(gate.pass(&of).now_or_never().expect("an answer").is_none());
    }
}

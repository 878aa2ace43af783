//! Computation in the background: a few at a time, on threads whose priority is so low that each gets about a tenth of a
//! processor that others want, or a quarter where it decides whether there is work, and all that nobody wants.
//!
//! Only computation goes there: who waits for one of these threads waits for everybody else. So none of them holds a lock,
//! a transaction or a connection for which calls wait.

use crate::{limits, turns};
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZeroUsize;
use std::sync::LazyLock;
use std::thread::available_parallelism;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The name of the threads.
pub const THREAD: &str = "background";

/// The threads for summaries. None if they cannot be started.
static THREADS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| start(count(), limits::BACKGROUND_NICENESS));
/// The thread for what decides whether there is work: it is short, and never behind a summary.
static DECIDER: LazyLock<Option<ThreadPool>> = LazyLock::new(|| start(1, limits::DECIDER_NICENESS));

fn start(threads: usize, niceness: i32) -> Option<ThreadPool> {
    let threads = ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| THREAD.to_owned());
    let threads = threads.start_handler(move |_| yield_to_others(niceness)).build();
    threads.inspect_err(|error| tracing::warn!(%error, "the background has the priority of other work")).ok()
}

/// Number of the threads for summaries: as many as half of the processors.
pub fn count() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get).div_ceil(2)
}

/// Computes on one of these threads; for a call, which somebody waits for, in place.
///
/// The task waits in its own thread, so that the computation may borrow. Other tasks of the runtime go on meanwhile, if it
/// has several threads.
pub fn compute<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    compute_on(&THREADS, work)
}

/// The same for what is short, and what others wait for: it does not wait for summaries.
pub fn decide<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    compute_on(&DECIDER, work)
}

fn compute_on<T: Send>(threads: &LazyLock<Option<ThreadPool>>, work: impl FnOnce() -> T + Send) -> T {
    if turns::is_call() {
        return work();
    }
    let Some(threads) = threads.as_ref() else { return work() };
    let span = tracing::Span::current();
    let aside = || threads.install(|| span.in_scope(work));
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(aside),
        _ => aside(),
    }
}

/// Lets all threads go before the calling one that are not as nice, by so much more than it was. Elsewhere than on Linux
/// the whole process would.
#[cfg(target_os = "linux")]
pub fn yield_to_others(niceness: i32) {
    let own = rustix::process::getpriority_process(None);
    if let Err(error) = own.and_then(|own| rustix::process::setpriority_process(None, own + niceness)) {
        tracing::debug!(%error, "a thread of the background has the priority of other work");
    }
}

/// Every thread has the process's priority.
#[cfg(not(target_os = "linux"))]
pub fn yield_to_others(_: i32) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::{Share, Turns};
    use std::thread;

    fn thread_name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    /// The niceness of the calling thread.
    #[cfg(target_os = "linux")]
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("the thread");
        let (_, fields) = stat.rsplit_once(") ").expect("its name");
        fields.split(' ').nth(16).and_then(|field| field.parse().ok()).expect("a number")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_of_the_background_yield_to_all_others() {
        let own = niceness();
        assert_eq!(compute(niceness), (own + limits::BACKGROUND_NICENESS).min(19));
        assert_eq!(niceness(), own, "of whoever waits");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_go_on_while_one_computes() {
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (end, ends) = std::sync::mpsc::channel();
        let computing = tokio::spawn(async move {
            compute(move || {
                begun.send(thread_name()).expect("somebody waits");
                ends.recv().expect("another task goes on");
            });
        });
        assert_eq!(begins.await.expect("it begins").as_deref(), Some(THREAD));
        tokio::spawn(async move { end.send(()) }).await.expect("a task").expect("it computes");
        computing.await.expect("it ends");
    }

    #[tokio::test]
    async fn a_call_computes_in_its_own_thread() {
        let turn = Turns::new(1, 1, 10).begin(&Share::default()).expect("room");
        let here = thread_name();
        assert_eq!(turn.take_turns(async { compute(thread_name) }).await, here);
        assert_eq!(compute(thread_name).as_deref(), Some(THREAD));
    }

    #[test]
    fn a_decision_does_not_wait_for_summaries() {
        let decided = std::sync::Barrier::new(count() + 1);
        let begun = std::sync::Barrier::new(count() + 1);
        thread::scope(|scope| {
            for _ in 0..count() {
                scope.spawn(|| {
                    compute(|| {
                        begun.wait();
                        decided.wait();
                    });
                });
            }
            begun.wait();
            assert_eq!(decide(thread_name).as_deref(), Some(THREAD));
            decided.wait();
        });
    }

    #[test]
    fn a_panic_is_that_of_whoever_waits() {
        let panic = std::panic::catch_unwind(|| compute(|| panic!("over the numbers"))).expect_err("a panic");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"over the numbers"));
        assert_eq!(compute(|| 7), 7, "the thread goes on");
    }
}

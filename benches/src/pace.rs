//! Start times of calls at a fixed rate, independent of the progress of earlier calls.

use async_channel::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sends each call's intended start when it has come, for this time. The thread ends with the last one.
pub(crate) fn start(began: Instant, rate: f64, time: Duration) -> (Receiver<Instant>, JoinHandle<()>) {
    let (ticks, queue) = async_channel::unbounded::<Instant>();
    // A thread of its own, because the runtime's timers have a resolution of a millisecond.
    #[expect(clippy::disallowed_methods, reason = "it is no thread of the runtime")]
    let pacer = std::thread::spawn(move || {
        let mut index = 0_u32;
        loop {
            let intended = began + Duration::from_secs_f64(f64::from(index) / rate);
            if intended > began + time {
                break;
            }
            std::thread::sleep(intended.saturating_duration_since(Instant::now()));
            ticks.try_send(intended).expect("somebody calls");
            index += 1;
        }
    });
    (queue, pacer)
}

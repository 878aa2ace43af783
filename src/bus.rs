//! The bus: memory only signals that there are newer events; subscriptions read them from the log.
//!
//! Catching up, following and replaying are therefore one code path, and a slow reader delays nobody else.
//!
//! Many subscriptions are woken less often, and then have several events each: a thousand tasks that are woken at every
//! commit would leave no processor for the calls that commit.

use crate::limits;
use crate::model::Seq;
use crate::store::{EventFilter, PagedEvent, Result, Store};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// Announces new events to subscriptions.
pub struct Bus {
    announced: watch::Receiver<Seq>,
}

impl Bus {
    /// Starts the task that announces the store's events. It ends when the store is closed.
    pub fn start(store: &Store) -> Self {
        let head = store.watch_head();
        let (announcing, announced) = watch::channel(*head.borrow());
        tokio::spawn(announce(head, announcing));
        Self { announced }
    }

    /// A subscription to the events after `after`, with progress at least at this interval.
    pub fn subscribe(&self, store: Store, filter: EventFilter, after: Seq, progress: Duration) -> Subscription {
        let (committed, announced) = (store.head_seq(), self.announced.clone());
        Subscription { store, filter, cursor: Arc::new(AtomicI64::new(after)), committed, announced, progress }
    }
}

/// Passes on the newest number: at once, unless the last time was just before.
async fn announce(mut head: watch::Receiver<Seq>, announcing: watch::Sender<Seq>) {
    while head.changed().await.is_ok() {
        announcing.send_replace(*head.borrow_and_update());
        let pause = pause(announcing.receiver_count());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

/// The time between two announcements to a number of subscriptions.
fn pause(subscriptions: usize) -> Duration {
    let pause = Duration::from_micros(limits::STREAM_WAKE_MICROS) * u32::try_from(subscriptions).unwrap_or(u32::MAX);
    // Timers have a resolution of a millisecond, and this much work delays nobody.
    if pause < Duration::from_millis(1) { Duration::ZERO } else { pause }
}

/// A position in the log that moves with its reader.
pub struct Subscription {
    store: Store,
    filter: EventFilter,
    /// Sequence number up to which all events were read.
    cursor: Arc<AtomicI64>,
    /// The newest event when the subscription began, which may not have been announced yet.
    committed: Seq,
    announced: watch::Receiver<Seq>,
    progress: Duration,
}

/// The next result of a subscription.
#[derive(Debug, Clone)]
pub enum Next {
    /// Events that match, in order.
    Events {
        /// The events; never empty.
        events: Vec<PagedEvent>,
    },
    /// Nothing more matches up to the cursor.
    Idle,
    /// The store is closing.
    Closed,
}

impl Subscription {
    /// Sequence number up to which all events were delivered or did not match.
    pub fn cursor(&self) -> Seq {
        self.cursor.load(Ordering::Relaxed)
    }

    /// The cursor, for others to watch while the subscription exists.
    pub fn watched_cursor(&self) -> Weak<AtomicI64> {
        Arc::downgrade(&self.cursor)
    }

    /// Waits for the next result. Nothing is lost when the future is dropped: the cursor moves only with a result.
    pub async fn next(&mut self) -> Result<Next> {
        let idle = tokio::time::sleep(self.progress);
        tokio::pin!(idle);
        loop {
            let head = self.committed.max(*self.announced.borrow_and_update());
            while self.cursor() < head {
                let page = self.store.tail(&self.filter, self.cursor(), head).await?;
                self.cursor.store(page.scanned, Ordering::Relaxed);
                if !page.events.is_empty() {
                    return Ok(Next::Events { events: page.events });
                }
                if idle.is_elapsed() {
                    return Ok(Next::Idle);
                }
            }
            tokio::select! {
                () = &mut idle => return Ok(Next::Idle),
                changed = self.announced.changed() => if changed.is_err() { return Ok(Next::Closed) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_subscriptions_hear_of_every_commit_and_many_of_several_at_a_time() {
        for (subscriptions, paused) in [(10, false), (1_000, true)] {
            let (committing, head) = watch::channel(0);
            let (announcing, announced) = watch::channel(0);
            let mut heard: Vec<_> = (0..subscriptions).map(|_| announced.clone()).collect();
            let task = tokio::spawn(announce(head, announcing));
            committing.send_replace(1);
            heard[0].changed().await.expect("announced at once");
            assert_eq!(*heard[0].borrow_and_update(), 1);
            committing.send_replace(2);
            let next = tokio::time::timeout(Duration::from_millis(1), heard[0].changed()).await;
            assert_eq!(next.is_err(), paused, "{subscriptions}");
            committing.send_replace(3);
            heard[0].wait_for(|seq| *seq == 3).await.expect("announced");
            drop(committing);
            task.await.expect("it ends with the store");
            assert!(heard[0].changed().await.is_err());
        }
    }
}

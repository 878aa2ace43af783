//! The bus: memory only signals that there are newer events; subscriptions read them from the log.
//!
//! Catching up, following and replaying are therefore one code path, and a slow reader delays nobody else.
//!
//! Each of many subscriptions pauses behind a page, and then has several events at once: a thousand tasks that are woken
//! at every commit would leave no processor for the calls that commit.

use crate::limits;
use crate::model::Seq;
use crate::store::{EventFilter, PagedEvent, Result, Store};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The subscriptions of a store.
#[derive(Default)]
pub struct Bus {
    /// Shared with every subscription, to count them.
    open: Arc<()>,
}

impl Bus {
    /// A subscription to the events after `after`, with progress at least at this interval.
    pub fn subscribe(&self, store: Store, filter: EventFilter, after: Seq, progress: Duration) -> Subscription {
        let (cursor, head) = (Arc::new(AtomicI64::new(after)), store.log().watch_events());
        Subscription { store, filter, cursor, head, progress, open: self.open.clone(), pause_end: Instant::now() }
    }
}

/// The pause of each of a number of subscriptions behind the newest event.
fn pause(subscriptions: usize) -> Duration {
    let pause = Duration::from_micros(limits::STREAM_PAUSE_MICROS) * u32::try_from(subscriptions).unwrap_or(u32::MAX);
    // Timers have a resolution of a millisecond, and this much work delays nobody.
    if pause < Duration::from_millis(1) { Duration::ZERO } else { pause }
}

/// A position in the log that moves with its reader.
pub struct Subscription {
    store: Store,
    filter: EventFilter,
    /// Sequence number up to which all events were read.
    cursor: Arc<AtomicI64>,
    head: watch::Receiver<Seq>,
    progress: Duration,
    open: Arc<()>,
    /// The next page is not read before.
    pause_end: Instant,
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
        let idle_end = Instant::now() + self.progress;
        loop {
            if self.pause_end > Instant::now() {
                tokio::time::sleep_until(self.pause_end).await;
            }
            let head = *self.head.borrow_and_update();
            while self.cursor() < head {
                let page = self.store.log().tail(&self.filter, self.cursor(), head).await?;
                self.cursor.store(page.scanned, Ordering::Relaxed);
                // One that catches up reads page after page.
                if page.scanned == head {
                    self.pause_end = Instant::now() + pause(Arc::strong_count(&self.open) - 1);
                }
                if !page.events.is_empty() {
                    return Ok(Next::Events { events: page.events });
                }
                if Instant::now() >= idle_end {
                    return Ok(Next::Idle);
                }
            }
            tokio::select! {
                () = tokio::time::sleep_until(idle_end) => return Ok(Next::Idle),
                changed = self.head.changed() => if changed.is_err() { return Ok(Next::Closed) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::model::usage::ModelWindow;
    use crate::store::{CheckedInput, CreateSession, Durability, Options, PolicyText, Requester};

    async fn commit(store: &Store) {
        let new = CreateSession {
            tenant: "".into(),
            client_id: None,
            title: String::new(),
            policy: PolicyText { preset: "pi@1.5".to_owned(), json: "{}".to_owned() },
            window: ModelWindow::default(),
            metadata_json: None,
            parent: None,
            keeps_erased: false,
        };
        store.sessions().create(CheckedInput::trusted(new), Requester::default()).await.expect("created");
    }

    /// The number of events that a subscription gets within a time.
    async fn received(subscription: &mut Subscription, within: Duration) -> usize {
        match tokio::time::timeout(within, subscription.next()).await {
            Ok(Ok(Next::Events { events })) => events.len(),
            Ok(other) => panic!("{other:?}"),
            Err(_) => 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_subscriptions_pause_and_few_do_not() {
        let directory = tempfile::tempdir().expect("a temporary folder");
        let options = Options { directory: directory.path().join("store"), durability: Durability::ProcessCrash };
        let (store, writer) = Store::open(options, Clock::default()).await.expect("the store opens");
        // In a runtime of its own: the timers of the writer would move this one's clock.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        std::thread::spawn(move || runtime.block_on(writer));
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(1));
        for (subscriptions, pauses) in [(1, false), (49, false), (1_000, true)] {
            let bus = Bus::default();
            let subscribe = || bus.subscribe(store.clone(), EventFilter::default(), store.log().head_seq(), long * 10);
            let mut open: Vec<_> = (0..subscriptions).map(|_| subscribe()).collect();
            commit(&store).await;
            assert_eq!(received(&mut open[0], short).await, 1, "the first event comes at once");
            commit(&store).await;
            commit(&store).await;
            assert_eq!(received(&mut open[0], short).await, if pauses { 0 } else { 2 }, "{subscriptions}");
            if pauses {
                assert_eq!(received(&mut open[0], long).await, 2, "both come behind the pause");
            }
        }
    }
}

//! The bus: memory only signals that there are newer events; subscriptions read them from the log.
//!
//! Catching up, following and replaying are therefore one code path, and a slow reader delays nobody else.

use crate::model::Seq;
use crate::store::{EventFilter, PagedEvent, Result, Store};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// A position in the log that moves with its reader.
pub struct Subscription {
    store: Store,
    filter: EventFilter,
    /// Sequence number up to which all events were read.
    cursor: Arc<AtomicI64>,
    head: watch::Receiver<Seq>,
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
    /// A subscription to the events after `after`.
    pub fn new(store: Store, filter: EventFilter, after: Seq, progress: Duration) -> Self {
        let head = store.watch_head();
        Self { store, filter, cursor: Arc::new(AtomicI64::new(after)), head, progress }
    }

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
            let head = *self.head.borrow_and_update();
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
                changed = self.head.changed() => if changed.is_err() { return Ok(Next::Closed) },
            }
        }
    }
}

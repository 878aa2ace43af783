//! Memory and connections that clients hold, bounded and counted, and what the daemon refused or cut off.

mod memory;
mod request;

pub use memory::{MemoryBudget, Reservation};
pub use request::RequestMemory;

use crate::limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Counters of the transport. They start at zero with the daemon.
#[derive(Debug)]
pub struct Traffic {
    /// Bytes of answers that are not yet written.
    pub answers: Arc<MemoryBudget>,
    /// Bytes of small requests that are not yet answered.
    pub small_requests: Arc<MemoryBudget>,
    /// Bytes of larger requests that are not yet answered.
    pub requests: Arc<MemoryBudget>,
    /// Bytes of requests of clients without authentication.
    pub strangers: Arc<MemoryBudget>,
    /// Bytes of large views in construction, and of all views that wait for their clients.
    pub views: Arc<MemoryBudget>,
    /// Open connections.
    pub connections: Count,
    /// Connections that were refused because there were too many.
    pub refused_connections: Count,
    /// Connections that could not be accepted because the system had no descriptor or memory left.
    pub failed_accepts: Count,
    /// Connections that the daemon ended: their clients read nothing, sent no request, sent one in too many pieces, or
    /// had no authentication when others needed the place.
    pub dropped_connections: Count,
    /// Answers that were cut off because their clients did not read them.
    pub stalled_answers: Count,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            answers: MemoryBudget::new(limits::ANSWERS_BYTES_MAX),
            small_requests: MemoryBudget::new(limits::SMALL_REQUESTS_BYTES_MAX),
            requests: MemoryBudget::new(limits::REQUESTS_BYTES_MAX),
            strangers: MemoryBudget::new(limits::STRANGERS_BYTES_MAX),
            views: MemoryBudget::new(limits::VIEWS_BYTES_MAX),
            connections: Count::default(),
            refused_connections: Count::default(),
            failed_accepts: Count::default(),
            dropped_connections: Count::default(),
            stalled_answers: Count::default(),
        }
    }
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficState {
    /// Open connections.
    pub connections: i64,
    /// Connections that were refused.
    pub refused_connections: i64,
    /// Connections that could not be accepted.
    pub failed_accepts: i64,
    /// Connections that were ended.
    pub dropped_connections: i64,
    /// Answers that were cut off.
    pub stalled_answers: i64,
    /// Bytes of answers that are not yet written.
    pub answer_bytes: usize,
    /// Bytes of requests that are not yet answered.
    pub request_bytes: usize,
    /// Bytes of views.
    pub view_bytes: usize,
}

impl Traffic {
    /// A snapshot of the counters.
    pub fn state(&self) -> TrafficState {
        TrafficState {
            connections: self.connections.get(),
            refused_connections: self.refused_connections.get(),
            failed_accepts: self.failed_accepts.get(),
            dropped_connections: self.dropped_connections.get(),
            stalled_answers: self.stalled_answers.get(),
            answer_bytes: self.answers.held_bytes(),
            request_bytes: self.small_requests.held_bytes() + self.requests.held_bytes() + self.strangers.held_bytes(),
            view_bytes: self.views.held_bytes(),
        }
    }
}

/// A counter shared by many tasks.
#[derive(Debug, Default)]
pub struct Count(AtomicI64);

impl Count {
    /// Adds a number to the counter.
    pub fn add(&self, number: i64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// The current value.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

//! Facts about an answer besides its bytes, so that the transport can end an answer that its client does not take.

use crate::traffic::Reservation;
use http::HeaderMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The facts, in the extensions of an answer.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// Memory reserved for the rest of the answer, besides its encoded bytes.
    held: Option<Arc<Reservation>>,
    /// The cursor after everything that was produced; none if nothing of the answer can be resumed.
    cursor: Option<Arc<Mutex<Option<String>>>>,
}

/// Makes the trailers of an answer that is cut off, from the reason and the cursor after what was sent.
pub type Trailers = fn(CutOff, Option<&str>) -> HeaderMap;

/// Reason for cutting an answer off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CutOff {
    /// The client took nothing for this time.
    #[error("the client took nothing of what waited for it for {} ms", .0.as_millis())]
    Stalled(Duration),
    /// Other clients needed the memory.
    #[error("the client took nothing of what waited for it while others needed memory")]
    Crowded,
    /// The daemon stops.
    #[error("the daemon is stopping")]
    Stopping,
}

impl Delivery {
    /// An answer that can be resumed behind its cursor.
    pub fn resumable() -> Self {
        Self { cursor: Some(Arc::default()), ..Self::default() }
    }

    /// An answer with a reservation.
    pub fn with_reservation(held: Option<Arc<Reservation>>) -> Self {
        Self { held, ..Self::default() }
    }

    /// Records the cursor after everything that was produced so far; none if nothing of it can be resumed.
    pub fn record_produced(&self, cursor: Option<&str>) {
        if let Some(known) = &self.cursor {
            *known.lock().unwrap_or_else(PoisonError::into_inner) = cursor.map(str::to_owned);
        }
    }

    /// The cursor after everything that was produced so far.
    pub(super) fn cursor(&self) -> Option<String> {
        self.cursor.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that the client took this many bytes.
    pub(super) fn record_taken(&self, bytes: usize) {
        if let Some(held) = &self.held {
            held.touch();
            held.shrink(bytes);
        }
    }

    /// True if the answer has to end because others need its memory.
    pub(super) fn is_revoked(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_revoked())
    }
}

//! Memory for views. A large view waits for memory before it is made. Its size is only known once it was read, so a read
//! that turns out to be large is abandoned and repeated with memory for it. Every view is counted while it waits for its
//! client.

use super::error::{Error, Reason, Result};
use super::nouns::Views;
use crate::limits;
use crate::model::Revision;
use crate::store::{self, SessionKey, Source};
use crate::traffic::Reservation;
use std::sync::Arc;
use std::time::Duration;

/// Factor by which the reservation grows each time a view turns out to be larger.
const GROWTH: usize = 2;

/// Copies of a view's content in memory: the messages with the view, which share it, and the frames encoded from it.
const COPIES: usize = 2;

/// The bytes of a view's messages that the reservation is for.
pub(super) fn view_bytes(held: &Reservation) -> usize {
    held.bytes() / COPIES
}

/// The rows of a view, with its reservation; small views need none.
pub(super) type ReservedSource = (Source, Option<Arc<Reservation>>);

impl Views<'_> {
    /// The rows of a view at a revision, once there is memory for it; the newest revision for none. The caller keeps
    /// the reservation until the last of the view is gone.
    pub(super) async fn reserved_source(self, key: SessionKey, at: Option<Revision>) -> Result<ReservedSource> {
        let mut bytes = limits::LARGE_VIEW_BYTES;
        let mut reservation = None;
        loop {
            match self.caller.store().views().source_within(key, at, bytes).await {
                Ok(source) => return Ok((source, reservation)),
                Err(store::Error::LimitExceeded { what: store::VIEW_BYTES, .. }) if bytes < limits::VIEW_BYTES_MAX => {
                    // The memory reserved so far is not enough; it is released before the larger one is awaited.
                    drop(reservation.take());
                    bytes = bytes.saturating_mul(GROWTH).min(limits::VIEW_BYTES_MAX);
                    reservation = Some(self.reservation_for_view(bytes).await?);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Counts the bytes of a finished view until its client has taken them, or has to give up.
    pub(super) fn count_until_taken(self, held: Option<Arc<Reservation>>, bytes: usize) -> Arc<Reservation> {
        let held = held.unwrap_or_else(|| Arc::new(self.caller.shared.entrance.traffic().views.hold(0)));
        held.wait_for_client(bytes);
        held
    }

    /// Memory for the messages of a view and for the view made from them.
    async fn reservation_for_view(self, bytes: usize) -> Result<Arc<Reservation>> {
        let wait = Duration::from_millis(limits::VIEW_WAIT_MS_MAX);
        let reservation = self.caller.shared.entrance.traffic().views.wait_for(bytes.saturating_mul(COPIES), wait);
        let reservation = self.caller.shared.unless_stopping(reservation).await?.ok_or_else(|| {
            Error::new(Reason::TooManyViews, "the memory for large views is taken by others that are being read")
                .with("limit", limits::VIEWS_BYTES_MAX)
        })?;
        reservation.exempt();
        Ok(Arc::new(reservation))
    }
}

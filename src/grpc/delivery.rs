//! Facts about an answer for the transport, besides its bytes, so that the transport can end an answer that its client
//! does not take.

use crate::app::memory::Reservation;
use crate::app::{Error, Reason};
use http::HeaderMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonic::Status;

/// The facts, in the extensions of an answer.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    progress: Arc<Mutex<Progress>>,
    /// Memory reserved for the rest of the answer, besides its encoded bytes.
    held: Option<Arc<Reservation>>,
}

/// Progress of an event stream's client.
#[derive(Debug, Default)]
struct Progress {
    /// Frames that the client has not taken whole: the end of each among the answer's bytes, and the cursor after it.
    ahead: VecDeque<(usize, String)>,
    sent_bytes: usize,
    taken_bytes: usize,
    /// The cursor after the frames that the client has taken; empty for none.
    cursor: String,
}

/// Reason for cutting an answer off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOff {
    /// The client took nothing for this time.
    Stalled(Duration),
    /// Other clients needed the memory.
    Crowded,
    /// The daemon stops.
    Stopping,
}

impl Delivery {
    /// An answer with a reservation.
    pub(super) fn holding(held: Option<Arc<Reservation>>) -> Self {
        Self { held, ..Self::default() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a frame of this many bytes was sent, with the cursor after it; none if the cursor stays as it was.
    pub(super) fn sent(&self, bytes: usize, cursor: Option<&str>) {
        let mut progress = self.progress();
        progress.sent_bytes += bytes;
        if let Some(cursor) = cursor {
            let end = progress.sent_bytes;
            progress.ahead.push_back((end, cursor.to_owned()));
        }
    }

    /// Records that the client took this many bytes.
    pub fn taken(&self, bytes: usize) {
        if let Some(held) = &self.held {
            held.touch();
            held.shrink(bytes);
        }
        let mut progress = self.progress();
        progress.taken_bytes += bytes;
        while let Some((end, _)) = progress.ahead.front()
            && *end <= progress.taken_bytes
        {
            progress.cursor = progress.ahead.pop_front().map(|(_, cursor)| cursor).unwrap_or_default();
        }
    }

    /// Resolves when the answer has to end because others need its memory.
    pub async fn revoked(&self) {
        match &self.held {
            Some(held) => held.revoked().await,
            None => std::future::pending().await,
        }
    }

    /// The trailers of an answer that is cut off at this point.
    pub fn cut_off(&self, why: CutOff) -> HeaderMap {
        let error = match why {
            CutOff::Stalled(wait) => {
                let message = format!("the client took nothing of what waited for it for {} ms", wait.as_millis());
                Error::new(Reason::ReaderStalled, message)
            }
            CutOff::Crowded => Error::new(
                Reason::ReaderStalled,
                "the client took nothing of what waited for it while others needed memory",
            ),
            CutOff::Stopping => Error::new(Reason::ShuttingDown, "the daemon is stopping"),
        };
        let progress = self.progress();
        let error = if progress.cursor.is_empty() { error } else { error.with("cursor", &progress.cursor) };
        let mut trailers = HeaderMap::new();
        if let Err(error) = Status::from(error).add_header(&mut trailers) {
            tracing::debug!(%error, "an answer ends without saying why");
        }
        trailers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::StatusExt as _;

    fn cursor(delivery: &Delivery) -> Option<String> {
        let status = Status::from_header_map(&delivery.cut_off(CutOff::Crowded)).expect("a status");
        let details = status.get_error_details();
        let info = details.error_info().expect("an error info");
        assert_eq!((info.reason.as_str(), status.code()), ("READER_STALLED", tonic::Code::ResourceExhausted));
        info.metadata.get("cursor").cloned()
    }

    #[test]
    fn the_cursor_is_the_one_behind_the_last_frame_that_was_taken_whole() {
        let delivery = Delivery::default();
        delivery.sent(10, Some("a"));
        delivery.sent(5, None);
        delivery.sent(10, Some("b"));
        assert_eq!(cursor(&delivery), None);
        delivery.taken(9);
        assert_eq!(cursor(&delivery), None, "not whole yet");
        delivery.taken(1);
        assert_eq!(cursor(&delivery).as_deref(), Some("a"));
        delivery.taken(14);
        assert_eq!(cursor(&delivery).as_deref(), Some("a"));
        delivery.taken(1);
        assert_eq!(cursor(&delivery).as_deref(), Some("b"));
    }
}

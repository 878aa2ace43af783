//! Facts about an answer for the transport, besides its bytes, so that the transport can end an answer that its client
//! does not take.

use crate::app::room::Held;
use crate::app::{Error, Reason};
use http::HeaderMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonic::Status;

/// The facts, in the extensions of an answer.
#[derive(Debug, Clone, Default)]
pub struct Outlet {
    marks: Arc<Mutex<Marks>>,
    /// Room held for the rest of the answer, besides its encoded bytes.
    held: Option<Arc<Held>>,
}

/// Progress of an event stream's client.
#[derive(Debug, Default)]
struct Marks {
    /// Frames that the client has not taken whole: the end of each among the answer's bytes, and the cursor after it.
    ahead: VecDeque<(usize, String)>,
    given_bytes: usize,
    taken_bytes: usize,
    /// The cursor after the frames that the client has taken; empty for none.
    cursor: String,
}

/// Reason for cutting an answer off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOff {
    /// The client took nothing for this time.
    Stalled(Duration),
    /// Other clients needed the room.
    Crowded,
    /// The daemon stops.
    Stopping,
}

impl Outlet {
    /// An answer that holds room.
    pub(super) fn holding(held: Option<Arc<Held>>) -> Self {
        Self { held, ..Self::default() }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a frame of this many bytes was sent, with the cursor after it; none if the cursor stays as it was.
    pub(super) fn gave(&self, bytes: usize, cursor: Option<&str>) {
        let mut marks = self.marks();
        marks.given_bytes += bytes;
        if let Some(cursor) = cursor {
            let end = marks.given_bytes;
            marks.ahead.push_back((end, cursor.to_owned()));
        }
    }

    /// Records that the client took this many bytes.
    pub fn took(&self, bytes: usize) {
        if let Some(held) = &self.held {
            held.touch();
            held.shrink(bytes);
        }
        let mut marks = self.marks();
        marks.taken_bytes += bytes;
        while let Some((end, _)) = marks.ahead.front()
            && *end <= marks.taken_bytes
        {
            marks.cursor = marks.ahead.pop_front().map(|(_, cursor)| cursor).unwrap_or_default();
        }
    }

    /// Resolves when the answer has to end because others need its room.
    pub async fn has_to_give_up(&self) {
        match &self.held {
            Some(held) => held.has_to_give_up().await,
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
                "the client took nothing of what waited for it while others needed room",
            ),
            CutOff::Stopping => Error::new(Reason::ShuttingDown, "the daemon is stopping"),
        };
        let marks = self.marks();
        let error = if marks.cursor.is_empty() { error } else { error.with("cursor", &marks.cursor) };
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

    fn cursor(outlet: &Outlet) -> Option<String> {
        let status = Status::from_header_map(&outlet.cut_off(CutOff::Crowded)).expect("a status");
        let details = status.get_error_details();
        let info = details.error_info().expect("an error info");
        assert_eq!((info.reason.as_str(), status.code()), ("READER_STALLED", tonic::Code::ResourceExhausted));
        info.metadata.get("cursor").cloned()
    }

    #[test]
    fn the_cursor_is_the_one_behind_the_last_frame_that_was_taken_whole() {
        let outlet = Outlet::default();
        outlet.gave(10, Some("a"));
        outlet.gave(5, None);
        outlet.gave(10, Some("b"));
        assert_eq!(cursor(&outlet), None);
        outlet.took(9);
        assert_eq!(cursor(&outlet), None, "not whole yet");
        outlet.took(1);
        assert_eq!(cursor(&outlet).as_deref(), Some("a"));
        outlet.took(14);
        assert_eq!(cursor(&outlet).as_deref(), Some("a"));
        outlet.took(1);
        assert_eq!(cursor(&outlet).as_deref(), Some("b"));
    }
}

//! What the transport is told of an answer beside its bytes, so that it can end one that its client does not take.

use crate::app::room::Held;
use crate::app::{Error, Reason};
use http::HeaderMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonic::Status;

/// Goes along in an answer's extensions.
#[derive(Debug, Clone, Default)]
pub struct Outlet {
    marks: Arc<Mutex<Marks>>,
    /// Room that the rest of the answer takes beside its bytes on the wire.
    held: Option<Arc<Held>>,
}

/// How far a client of an event stream is.
#[derive(Debug, Default)]
struct Marks {
    /// Frames that the client has not taken whole: where each ends among the answer's bytes, and the cursor behind it.
    ahead: VecDeque<(usize, String)>,
    given_bytes: usize,
    taken_bytes: usize,
    /// The cursor behind what the client has taken; empty for none.
    cursor: String,
}

/// Why an answer is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOff {
    /// Its client took nothing for so long.
    Stalled(Duration),
    /// Others needed the room.
    Crowded,
    /// The daemon stops.
    Stopping,
}

impl Outlet {
    /// An answer that takes room.
    pub(super) fn holding(held: Option<Arc<Held>>) -> Self {
        Self { held, ..Self::default() }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A frame of so many bytes was given out, behind which this cursor resumes; none for the cursor before it.
    pub(super) fn gave(&self, bytes: usize, cursor: Option<&str>) {
        let mut marks = self.marks();
        marks.given_bytes += bytes;
        if let Some(cursor) = cursor {
            let end = marks.given_bytes;
            marks.ahead.push_back((end, cursor.to_owned()));
        }
    }

    /// The client's window took so many bytes.
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

    /// The trailers of an answer that is cut off here.
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

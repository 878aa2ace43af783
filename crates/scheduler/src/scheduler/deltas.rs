//! Delta frames of summaries in progress, for subscribers. They are sent beside the log, best effort: nothing waits for
//! them, and no view contains them.

use super::request_log::RequestLog;
use crate::limits;
use crate::model::ids::CompactionId;
use crate::store::SessionKey;
use crate::summarizer::{Observer, RequestRecord};
use std::sync::{Mutex, PoisonError};
use tokio::sync::broadcast;

/// Text of a summary, as it comes from its summarizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryDelta {
    /// The session.
    pub session: SessionKey,
    /// The compaction that the summary is written for.
    pub compaction: CompactionId,
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// Bytes of the summary before this text. Zero means that it starts again: earlier text is void.
    pub offset: i64,
    /// The text; empty at the start of a summary.
    pub delta: String,
}

/// The channel of the delta frames.
#[derive(Clone)]
pub(super) struct DeltaChannel {
    watchers: broadcast::Sender<SummaryDelta>,
}

impl Default for DeltaChannel {
    fn default() -> Self {
        Self { watchers: broadcast::channel(limits::DELTA_FRAMES_MAX).0 }
    }
}

impl DeltaChannel {
    /// The delta frames from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<SummaryDelta> {
        self.watchers.subscribe()
    }
}

/// Notifies the subscribers of one compaction's summary, and the request log.
pub(super) struct Notifier<'a> {
    deltas: &'a DeltaChannel,
    request_log: &'a RequestLog,
    session: SessionKey,
    compaction: CompactionId,
    /// The current summarizer, and the bytes of its text that were sent.
    sent: Mutex<(String, i64)>,
}

impl<'a> Notifier<'a> {
    /// A notifier that has sent nothing yet.
    pub(super) fn new(
        deltas: &'a DeltaChannel,
        request_log: &'a RequestLog,
        session: SessionKey,
        compaction: CompactionId,
    ) -> Self {
        Self { deltas, request_log, session, compaction, sent: Mutex::default() }
    }

    fn notify(&self, summarizer: &str, offset: i64, delta: &str) {
        let (summarizer, delta) = (summarizer.to_owned(), delta.to_owned());
        let Self { session, compaction, .. } = *self;
        // It is not an error if there are no subscribers.
        drop(self.deltas.watchers.send(SummaryDelta { session, compaction, summarizer, offset, delta }));
    }
}

impl Observer for Notifier<'_> {
    fn on_start(&self, summarizer: &str) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        *sent = (summarizer.to_owned(), 0);
        self.notify(summarizer, 0, "");
    }

    fn on_text(&self, words: &str) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        self.notify(&sent.0, sent.1, words);
        sent.1 += i64::try_from(words.len()).unwrap_or(i64::MAX);
    }

    fn on_request(&self, call: &RequestRecord) {
        self.request_log.record(call);
    }
}

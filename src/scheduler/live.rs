//! The words of summaries while they are written, for whoever watches. They travel beside the log, best effort: nothing
//! waits for them, and no view contains them.

use super::SchedulerHandle;
use super::books::Books;
use crate::limits;
use crate::model::ids::CompactionId;
use crate::store::SessionKey;
use crate::summarizer::{Call, Witness};
use std::sync::{Mutex, PoisonError};
use tokio::sync::broadcast;

/// Words of a summary, as they come from its summarizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryDelta {
    /// The session.
    pub session: SessionKey,
    /// The reduction that the summary is written for.
    pub compaction: CompactionId,
    /// Who writes, by its name in the configuration.
    pub summarizer: String,
    /// Bytes of the summary before these words. With zero it begins anew, and what came before is void.
    pub offset: i64,
    /// The words; empty where a summary begins.
    pub delta: String,
}

/// Where the words go.
#[derive(Clone)]
pub(super) struct Live {
    watchers: broadcast::Sender<SummaryDelta>,
}

impl Default for Live {
    fn default() -> Self {
        Self { watchers: broadcast::channel(limits::LIVE_FRAMES_MAX).0 }
    }
}

impl SchedulerHandle {
    /// The words of all summaries from now on. Who is too slow misses the oldest.
    pub fn summary_words(&self) -> broadcast::Receiver<SummaryDelta> {
        self.live.watchers.subscribe()
    }
}

/// Tells the watchers of one reduction's summary, and the books of the requests for it.
pub(super) struct Teller<'a> {
    live: &'a Live,
    books: &'a Books,
    session: SessionKey,
    compaction: CompactionId,
    /// Who writes, and how many bytes were told.
    told: Mutex<(String, i64)>,
}

impl<'a> Teller<'a> {
    /// Nothing is told before a summarizer begins.
    pub(super) fn new(live: &'a Live, books: &'a Books, session: SessionKey, compaction: CompactionId) -> Self {
        Self { live, books, session, compaction, told: Mutex::default() }
    }

    fn tell(&self, summarizer: &str, offset: i64, delta: &str) {
        let (summarizer, delta) = (summarizer.to_owned(), delta.to_owned());
        let Self { session, compaction, .. } = *self;
        // Nobody watching is not an error.
        drop(self.live.watchers.send(SummaryDelta { session, compaction, summarizer, offset, delta }));
    }
}

impl Witness for Teller<'_> {
    fn begins(&self, summarizer: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = (summarizer.to_owned(), 0);
        self.tell(summarizer, 0, "");
    }

    fn hears(&self, words: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell(&told.0, told.1, words);
        told.1 += i64::try_from(words.len()).unwrap_or(i64::MAX);
    }

    fn called(&self, call: &Call) {
        self.books.note(call);
    }
}

//! The clients' own record: each request with its answer, each message as it was sent, each view as it was served.
//! Checks hold the store against it and know nothing else.

use super::content;
use super::reasons::Refusal;
use super::rpc::{Told, View};
use longhand::pb;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Findings that are kept; a fault that shows everywhere says nothing new after so many.
const FINDINGS_MAX: usize = 200;
/// Views that are asked for again.
const VIEWS_MAX: usize = 4_000;
/// Messages of a session that rewriters choose from.
const RECENT_MAX: usize = 300;

/// Takes a lock. A task that panicked ends the attack anyway.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session as its clients know it.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The server's id.
    pub(super) id: String,
    /// The policy that it started with, for people.
    pub(super) policy: String,
    /// The newest revision that any client was told.
    pub(super) revision: AtomicI64,
    /// Messages that were acknowledged lately.
    pub(super) recent: Mutex<VecDeque<String>>,
    /// Open messages that their writers gave up.
    pub(super) abandoned: Mutex<Vec<Arc<OpenMessage>>>,
    /// Compactions that clients know of.
    pub(super) compactions: Mutex<VecDeque<String>>,
}

impl Session {
    /// Notes a message that rewriters may choose.
    pub(super) fn note_message(&self, id: &str) {
        let mut recent = lock(&self.recent);
        recent.push_back(id.to_owned());
        if recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }

    /// Notes a compaction that rewriters may choose.
    pub(super) fn note_compaction(&self, id: &str) {
        let mut known = lock(&self.compactions);
        if !known.iter().any(|there| there == id) {
            known.push_back(id.to_owned());
        }
        if known.len() > 20 {
            known.pop_front();
        }
    }
}

/// An open message as its writer knows it.
#[derive(Debug)]
pub(super) struct OpenMessage {
    /// The server's id.
    pub(super) id: String,
    /// Its state; whoever writes to it holds the lock.
    pub(super) state: tokio::sync::Mutex<OpenState>,
}

/// The acknowledged state of an open message.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenState {
    /// The message with its closed parts.
    pub(super) message: pb::NewMessage,
    /// Its drafts, in the order in which they began.
    pub(super) drafts: Vec<pb::Draft>,
    /// The client ids of the drafts.
    pub(super) draft_names: Vec<Option<String>>,
    /// Whether it is sealed, with `message.finish`.
    pub(super) is_sealed: bool,
}

/// A message as it has to be found.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// The fingerprint of the whole message.
    Whole(u64),
    /// The fingerprint of the parts of a message that an edit made.
    Edit(u64),
    /// A message that was written bit by bit.
    Open(Arc<OpenMessage>),
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// Sent, and not answered yet.
    Open,
    /// Acknowledged.
    Done(Told),
    /// Refused: nothing of it may be in the store.
    Refused(Refusal),
}

/// A request with what came of it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The method.
    pub(super) rpc: &'static str,
    /// The newest event that anybody had been told of when it was first sent.
    pub(super) after_seq: i64,
    /// The precondition that it named.
    pub(super) expected_revision: Option<i64>,
    /// What became of it.
    pub(super) fate: Fate,
}

/// A view that was served.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The session's id.
    pub(super) session: String,
    /// The view's revision.
    pub(super) revision: i64,
    /// Its hash.
    pub(super) hash: Vec<u8>,
    /// Its bytes: messages, covered ranges and omissions.
    pub(super) fingerprint: u64,
    /// Its tokens by the policy's estimate.
    pub(super) estimated_tokens: i64,
    /// Where it was served.
    pub(super) origin: &'static str,
}

impl Seen {
    /// The record of a view.
    pub(super) fn of(session: &str, view: &View, origin: &'static str) -> Self {
        Self {
            session: session.to_owned(),
            revision: view.header.revision,
            hash: view.header.view_hash.clone(),
            fingerprint: content::view(&view.messages, &view.end),
            estimated_tokens: view.header.estimated_tokens,
            origin,
        }
    }
}

/// The beginning of a stream that was a snapshot.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// The session's id.
    pub(super) session: String,
    /// The newest event that the snapshot holds.
    pub(super) head_seq: i64,
    /// Its messages.
    pub(super) messages: Vec<pb::ContextMessage>,
}

/// A watcher's stream, put together from all its connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched {
    /// The watcher.
    pub(super) name: String,
    /// Only these sessions; none for all.
    pub(super) sessions: Vec<String>,
    /// Only these kinds; none for all.
    pub(super) kinds: Vec<i32>,
    /// Events behind this one belong to the stream.
    pub(super) after_seq: i64,
    /// Everything up to this one was seen.
    pub(super) to_seq: i64,
    /// The events as they came: number and fingerprint.
    pub(super) events: Vec<(i64, u64)>,
    /// The last event of each frame that said that its mutation was complete.
    pub(super) frame_ends: Vec<i64>,
    /// How often it was connected.
    pub(super) connections: u64,
}

/// Numbers for people.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Requests that were answered.
    pub(super) answered: AtomicU64,
    /// Requests that were refused.
    pub(super) refused: AtomicU64,
    /// Attempts that got no answer.
    pub(super) lost: AtomicU64,
    /// Requests that were repeated after their answer.
    pub(super) repeated: AtomicU64,
    /// Views that were checked.
    pub(super) views: AtomicU64,
    /// Views that were asked for again.
    pub(super) views_again: AtomicU64,
    /// Summaries that clients brought.
    pub(super) client_summaries: AtomicU64,
    /// How often a watcher connected.
    pub(super) connections: AtomicU64,
    /// Refusals by reason.
    pub(super) reasons: Mutex<HashMap<(&'static str, String), u64>>,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Everything that clients remember.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Broken promises, one sentence each.
    pub(super) findings: Mutex<Vec<String>>,
    /// Findings that were not kept.
    pub(super) more_findings: AtomicU64,
    /// The newest event that anybody was told of.
    pub(super) newest_seq: AtomicI64,
    /// Requests, by session and request id.
    pub(super) asked: Mutex<HashMap<(String, String), Asked>>,
    /// Messages, by their ids.
    pub(super) messages: Mutex<HashMap<String, Expected>>,
    /// Views.
    pub(super) views: Mutex<Vec<Seen>>,
    /// Snapshots.
    pub(super) snapshots: Mutex<Vec<Snapshot>>,
    /// Streams.
    pub(super) watched: Mutex<Vec<Watched>>,
    /// Summaries that clients were told would be committed, by compaction.
    pub(super) summaries: Mutex<HashMap<String, Vec<String>>>,
    /// Heads that were exported.
    pub(super) heads: Mutex<Vec<pb::Head>>,
    /// Numbers.
    pub(super) counts: Counts,
}

impl Record {
    /// Notes a broken promise.
    pub(super) fn finding(&self, text: impl Into<String>) {
        let text = text.into();
        let mut findings = lock(&self.findings);
        if findings.len() < FINDINGS_MAX {
            eprintln!("FINDING {text}");
            findings.push(text);
        } else {
            count(&self.more_findings);
        }
    }

    /// Notes the newest event of an answer.
    pub(super) fn told_seq(&self, seq: i64) {
        self.newest_seq.fetch_max(seq, Ordering::SeqCst);
    }

    /// Notes a message as it has to be found from now on.
    pub(super) fn expect(&self, message_id: &str, expected: Expected) {
        lock(&self.messages).insert(message_id.to_owned(), expected);
    }

    /// Notes a view; `place` is a random number that chooses which one it replaces when there are too many.
    pub(super) fn saw(&self, seen: Seen, place: usize) {
        let mut views = lock(&self.views);
        if views.len() < VIEWS_MAX {
            views.push(seen);
        } else {
            let place = place % VIEWS_MAX;
            views[place] = seen;
        }
    }
}

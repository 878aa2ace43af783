//! The clients' own record: each request with its answer, each message as it was sent, each view as it was served.
//! The checks compare the store with this record and know nothing else.

use super::agreement::{Observation, Written};
use super::content::{self, PartPrints, Prints};
use super::markers::{self, Marker, Markers};
use super::reasons::Refusal;
use super::rpc::{End, Promised, View};
use super::run_watches::Followed;
use super::stores::{self, Heads, Stores, store_of};
use super::trees::TreeCancel;
use longhand::pb;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of findings kept; beyond it, a fault that shows everywhere adds no information.
const FINDINGS_MAX: usize = 200;
/// Maximum number of views kept to be requested again.
const VIEWS_MAX: usize = 4_000;
/// Maximum number of messages that searches choose from.
const SEARCHABLE_MAX: usize = 200;
/// Maximum number of messages of a session that rewriters choose from.
const RECENT_MAX: usize = 300;
/// Maximum number of calls of a session that front ends choose from.
const CALLS_MAX: usize = 20;

/// Takes a lock, poisoned or not: a task that panicked ends the attack anyway.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session from the clients' side.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The server's id.
    pub(super) id: String,
    /// Name of the policy it started with, for messages to people.
    pub(super) policy: String,
    /// The newest revision in any answer to a client.
    pub(super) revision: AtomicI64,
    /// Ids of recently acknowledged messages.
    pub(super) recent: Mutex<VecDeque<String>>,
    /// Open messages abandoned by their writers.
    pub(super) abandoned: Mutex<Vec<Arc<OpenMessage>>>,
    /// Prompts that a list of those that wait showed last.
    pub(super) prompts: Mutex<Vec<String>>,
    /// Calls that agents left to front ends, whose results come as prompts.
    pub(super) calls: Mutex<VecDeque<FrontCall>>,
    /// Ids of compactions that clients know of.
    pub(super) compactions: Mutex<VecDeque<String>>,
    /// True if its erasure was acknowledged.
    pub(super) is_erased: AtomicBool,
}

impl Session {
    /// Adds a message to those that rewriters choose from.
    pub(super) fn note_message(&self, id: &str) {
        let mut recent = lock(&self.recent);
        recent.push_back(id.to_owned());
        if recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }

    /// Adds a call to those that front ends know of.
    pub(super) fn note_call(&self, call: FrontCall) {
        let mut calls = lock(&self.calls);
        calls.push_back(call);
        if calls.len() > CALLS_MAX {
            calls.pop_front();
        }
    }

    /// Adds a compaction to those that rewriters choose from.
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

/// A call that an agent left to front ends. Nothing but prompts answers it, and no other call has its id.
#[derive(Debug, Clone)]
pub(super) struct FrontCall {
    /// Its id.
    pub(super) call_id: String,
    /// The message that made it.
    pub(super) message_id: String,
}

/// An open message from its writer's side.
#[derive(Debug)]
pub(super) struct OpenMessage {
    /// The server's id.
    pub(super) id: String,
    /// State of the message; every writer to it holds this lock.
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
    /// True if the message is sealed, with `message.finish`.
    pub(super) is_sealed: bool,
    /// The run on whose behalf it is written; its end seals the message.
    pub(super) epoch: Option<i64>,
    /// Drafts with words that may be in the store, because the first answer to them was lost and the second one was a
    /// refusal, each with its position among the drafts, behind the last one if it is new. Not more than one is right.
    pub(super) doubts: Vec<(usize, pb::Draft)>,
}

impl OpenState {
    /// The drafts that the store can have: the acknowledged ones, or those with words in doubt.
    pub(super) fn possible_drafts(&self) -> Vec<Vec<pb::Draft>> {
        let with = |(index, draft): &(usize, pb::Draft)| {
            let mut drafts = self.drafts.clone();
            drafts.truncate(*index);
            drafts.push(draft.clone());
            drafts.extend(self.drafts.iter().skip(index + 1).cloned());
            drafts
        };
        std::iter::once(self.drafts.clone()).chain(self.doubts.iter().map(with)).collect()
    }
}

/// The content that a message must have when it is read.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// Fingerprints of the whole message.
    Whole(Prints),
    /// Fingerprints of the parts of a message made by an edit.
    Edit(PartPrints),
    /// A message written in several steps.
    Open(Arc<OpenMessage>),
    /// A prompt that a run took.
    Prompt(SentPrompt),
}

/// What the message of a prompt must be.
#[derive(Debug, Clone)]
pub(super) struct SentPrompt {
    /// Fingerprints of its parts.
    pub(super) parts: PartPrints,
    /// Its metadata.
    pub(super) metadata_json: Option<String>,
    /// The messages of the calls that its results answer, in order; none of a user's words.
    pub(super) callers: Vec<String>,
}

impl SentPrompt {
    /// That of a prompt as it was sent.
    pub(super) fn of(prompt: pb::Prompt) -> Self {
        let (parts, callers) = (PartPrints::of(&prompt.parts), content::callers(&prompt.parts));
        Self { parts, metadata_json: prompt.metadata_json, callers }
    }
}

/// Outcome of a request.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// Sent, and not answered yet.
    Open,
    /// Acknowledged.
    Done(Promised),
    /// Refused: nothing of it may be in the store.
    Refused(Refusal),
}

/// A request with its outcome.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The method.
    pub(super) rpc: &'static str,
    /// The newest event that any client knew of when the request was first sent.
    pub(super) after_seq: i64,
    /// The precondition in the request.
    pub(super) expected_revision: Option<i64>,
    /// The end that the conversation is to have, if the request rewinds.
    pub(super) new_end: Option<End>,
    /// The run on whose behalf it is made.
    pub(super) epoch: Option<i64>,
    /// The time at which it was first sent, by the record's clock.
    pub(super) sent: u64,
    /// The events that the answer reports.
    pub(super) changes: Vec<pb::event::Body>,
    /// Outcome of the request.
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
    /// Kind of read that returned the view, for messages to people.
    pub(super) origin: &'static str,
    /// The newest event that any client knew of when the view was asked for.
    pub(super) after_seq: i64,
}

impl Seen {
    /// The record of a view.
    pub(super) fn of(session: &str, view: &View, origin: &'static str, after_seq: i64) -> Self {
        Self {
            after_seq,
            session: session.to_owned(),
            revision: view.header.revision,
            hash: view.header.view_hash.clone(),
            fingerprint: content::view(&view.messages, &view.end),
            estimated_tokens: view.header.estimated_tokens,
            origin,
        }
    }
}

/// The snapshot at the start of a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// The session's id.
    pub(super) session: String,
    /// The newest event of its store included in the snapshot.
    pub(super) head_seq: i64,
    /// Its messages.
    pub(super) messages: Vec<pb::ViewMessage>,
    /// The active run.
    pub(super) run: Option<String>,
    /// The prompts that wait, in order.
    pub(super) prompts: Vec<String>,
    /// The questions that wait.
    pub(super) approvals: Vec<String>,
}

/// A watcher's stream, joined from all its connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched {
    /// Name of the watcher.
    pub(super) name: String,
    /// Session filter; empty for all sessions.
    pub(super) sessions: Vec<String>,
    /// The root of the tree whose sessions are followed; empty for none.
    pub(super) root: String,
    /// Filter of event kinds; empty for all kinds.
    pub(super) kinds: Vec<i32>,
    /// Events after these belong to the stream; none before its first frame.
    pub(super) after: Option<Heads>,
    /// Events up to and including these were received.
    pub(super) to: Heads,
    /// The events in the order received: number and fingerprints.
    pub(super) events: Vec<(i64, (u64, u64))>,
    /// The last event of each frame that stated that its mutation was complete.
    pub(super) frame_ends: Vec<i64>,
    /// Number of connections.
    pub(super) connections: u64,
}

/// Counters for the report.
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
    /// Views that were requested again.
    pub(super) views_again: AtomicU64,
    /// Summaries written by clients.
    pub(super) client_summaries: AtomicU64,
    /// Answers about runs, prompts and approvals that were compared with the log.
    pub(super) observations: AtomicU64,
    /// Connections made by watchers.
    pub(super) connections: AtomicU64,
    /// Connections made by agents that follow their runs.
    pub(super) run_connections: AtomicU64,
    /// Erasures that were acknowledged.
    pub(super) erasures: AtomicU64,
    /// Of these, those whose first answer was lost.
    pub(super) erasures_again: AtomicU64,
    /// Kills while an erasure was asked for and not answered.
    pub(super) erasures_killed: AtomicU64,
    /// Times that all files were read for what was erased.
    pub(super) file_scans: AtomicU64,
    /// Markers that were in files before their erasure.
    pub(super) seen_in_files: AtomicU64,
    /// Searches whose answers were checked.
    pub(super) searches: AtomicU64,
    /// Refusals by reason.
    pub(super) reasons: Mutex<HashMap<(&'static str, String), u64>>,
}

/// Increments a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Everything that the clients record.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Broken promises, one sentence each.
    pub(super) findings: Mutex<Vec<String>>,
    /// Number of findings beyond the maximum.
    pub(super) more_findings: AtomicU64,
    /// The stores, and which of them each session is in.
    pub(super) stores: Stores,
    /// The newest events in any answer.
    pub(super) newest: Mutex<Heads>,
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
    /// Streams of runs.
    pub(super) followed: Mutex<Vec<Followed>>,
    /// Requests to stop the runs of trees.
    pub(super) tree_cancels: Mutex<Vec<TreeCancel>>,
    /// Texts of summaries that clients wrote, by compaction.
    pub(super) summaries: Mutex<HashMap<String, Vec<String>>>,
    /// Exported heads of hash chains.
    pub(super) heads: Mutex<Vec<pb::Head>>,
    /// What clients wrote of prompts and approvals, and the leases that they hold.
    pub(super) written: Mutex<Written>,
    /// Answers about runs, prompts and approvals, each with the time at which it came.
    pub(super) observations: Mutex<Vec<(u64, Observation)>>,
    /// A clock that advances with each request that is sent and each answer that comes.
    pub(super) clock: AtomicU64,
    /// Who wrote which markers, and which are erased.
    pub(super) markers: Markers,
    /// Acknowledged erasures: session, revision and number of the event.
    pub(super) erased_answers: Mutex<Vec<(String, i64, i64)>>,
    /// Messages that were acknowledged a moment ago, with one of their markers and the number of their event.
    pub(super) searchable: Mutex<VecDeque<Searchable>>,
    /// Erasures that are asked for and not answered.
    pub(super) erasing: AtomicI64,
    /// Erasures that were asked for.
    pub(super) erasures_begun: AtomicU64,
    /// Counters.
    pub(super) counts: Counts,
}

/// A message that a search must find.
#[derive(Debug, Clone)]
pub(super) struct Searchable {
    /// The word.
    pub(super) word: String,
    /// The session.
    pub(super) session: String,
    /// The message.
    pub(super) message: String,
    /// The number of its event.
    pub(super) seq: i64,
}

impl Record {
    /// Records a broken promise.
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

    /// The next time of the record's clock.
    pub(super) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// The newest event of a session's store in any answer.
    pub(super) fn newest_of(&self, session: &str) -> i64 {
        lock(&self.newest).of(self.stores.of(session))
    }

    /// The number of an event of a session.
    pub(super) fn number(&self, session: &str, seq: i64) -> i64 {
        stores::number(self.stores.of(session), seq)
    }

    /// Numbers the events of a list or stream that goes on behind these positions, and moves them behind the last one.
    pub(super) fn number_events<'a>(&self, before: &mut Heads, events: impl IntoIterator<Item = &'a mut pb::Event>) {
        for event in events {
            match self.stores.number_of(before, (&event.cursor, event.seq)) {
                Some(number) => {
                    self.stores.learn(&event.session_id, store_of(number));
                    event.seq = number;
                    before.join(&self.stores.heads(&event.cursor));
                }
                None => {
                    self.finding(format!("P6: the cursor of event {} is not behind it: {}", event.seq, event.cursor))
                }
            }
        }
    }

    /// Finds what was erased before a time in what came after it.
    pub(super) fn check_erased(&self, what: &str, bytes: &[u8], time: u64) {
        for marker in self.markers.risen(bytes, time) {
            let (name, around) = (self.markers.named(&marker), markers::around(bytes, &marker));
            self.finding(format!("P2: {name} was erased, and is in an answer to {what}: {around}"));
        }
    }

    /// Puts a view in place of the one that was served before an erasure.
    pub(super) fn saw_again(&self, before: &Seen, again: Seen, position: usize) {
        let mut views = lock(&self.views);
        let of = |seen: &Seen| (seen.session.clone(), seen.revision, seen.fingerprint);
        views.retain(|seen| of(seen) != of(before));
        drop(views);
        self.saw(again, position);
    }

    /// Notes a message that a search must find.
    pub(super) fn note_searchable(&self, found: Searchable) {
        let mut searchable = lock(&self.searchable);
        searchable.push_back(found);
        if searchable.len() > SEARCHABLE_MAX {
            searchable.pop_front();
        }
    }

    /// Notes the markers of a message.
    pub(super) fn note_markers(&self, message_id: &str, found: impl IntoIterator<Item = Marker>) {
        self.markers.wrote_message(message_id, found);
    }

    /// Records the content that a message must have from now on.
    pub(super) fn expect(&self, message_id: &str, expected: Expected) {
        // No two messages of clients are the same.
        let is_other = match (lock(&self.messages).get(message_id), &expected) {
            (Some(Expected::Whole(before)), Expected::Whole(now)) => before != now,
            _ => false,
        };
        if is_other {
            self.finding(format!("P1: two messages were acknowledged as {message_id}"));
        }
        lock(&self.messages).insert(message_id.to_owned(), expected);
    }

    /// Records a view; `position` is a random number that chooses the view to replace if there are too many.
    pub(super) fn saw(&self, seen: Seen, position: usize) {
        let mut views = lock(&self.views);
        if views.len() < VIEWS_MAX {
            views.push(seen);
        } else {
            let position = position % VIEWS_MAX;
            views[position] = seen;
        }
    }
}

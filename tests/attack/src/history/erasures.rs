//! A model of erasures: what each message lost according to the log, and whether an erasure reached nothing else.
//!
//! It is pure, and knows the protocol alone: events in, losses and faults out.

use longhand::pb;
use pb::event::Body;
use pb::{ErasedTarget, MessageKind};
use std::collections::{BTreeSet, HashMap, HashSet};

/// What a message lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lost {
    /// All its parts, its metadata, and the words about its end.
    All,
    /// These parts.
    Parts(BTreeSet<String>),
}

/// Adds what an event says that a message lost. False if it had lost all of that before.
pub(super) fn lose(lost: &mut HashMap<String, Lost>, erased: &pb::ErasedMessage) -> bool {
    let before = lost.entry(erased.message_id.clone()).or_insert_with(|| Lost::Parts(BTreeSet::new()));
    match before {
        Lost::All => false,
        Lost::Parts(_) if erased.part_ids.is_empty() => {
            *before = Lost::All;
            true
        }
        Lost::Parts(parts) => {
            let many = parts.len();
            parts.extend(erased.part_ids.iter().cloned());
            parts.len() > many
        }
    }
}

/// A message as its events describe it.
#[derive(Debug, Clone, Default)]
struct Known {
    /// The session that it was written to.
    session: String,
    kind: MessageKind,
    /// The key of a record, which its versions share.
    record: Option<String>,
    /// The message in whose place an edit put it.
    edited: Option<String>,
    /// The positions that a summary was written from: what it covers, and what it may quote behind that.
    sources: Vec<pb::RevisionRange>,
}

impl Known {
    fn is_derived(&self) -> bool {
        !matches!(self.kind, MessageKind::Normal | MessageKind::Record | MessageKind::Edit | MessageKind::Unspecified)
    }
}

/// All messages of a store, and what they lost.
#[derive(Debug, Default)]
pub(super) struct Erasures {
    messages: HashMap<String, Known>,
    lost: HashMap<String, Lost>,
    /// Sessions that were erased.
    sessions: HashSet<String>,
    /// Sessions that lost content, whose earlier events lost texts.
    touched: HashSet<String>,
    /// Events by their sessions that name nothing, until a fork loses something by the same erasure: what was named was
    /// gone, and the fork had replaced it since.
    empty: HashMap<String, i64>,
}

impl Erasures {
    /// What a message lost.
    pub(super) fn of(&self, message: &str) -> Option<&Lost> {
        self.lost.get(message)
    }

    /// The kind of a message.
    pub(super) fn kind(&self, message: &str) -> Option<MessageKind> {
        self.messages.get(message).map(|known| known.kind)
    }

    /// True if a session was erased.
    pub(super) fn is_erased(&self, session: &str) -> bool {
        self.sessions.contains(session)
    }

    /// True if the events of a session may have lost texts.
    pub(super) fn is_touched(&self, session: &str) -> bool {
        self.touched.contains(session)
    }

    /// The number of sessions, messages and parts that were erased.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let whole = self.lost.values().filter(|lost| **lost == Lost::All).count();
        (self.sessions.len(), whole, self.lost.len() - whole)
    }

    /// Goes on to the next event. `history` has the messages of the event's session with their revisions, inherited ones
    /// too. Returns what is wrong with it, one sentence each.
    pub(super) fn apply(&mut self, event: &pb::Event, history: impl FnOnce() -> Vec<(String, i64)>) -> Vec<String> {
        let mut faults = Vec::new();
        let session = &event.session_id;
        match &event.body {
            Some(Body::MessageAppended(body)) => self.appended(event, body),
            Some(Body::MessageEdited(body)) => {
                let message = body.replacement_message_id.as_ref().and_then(|id| self.messages.get_mut(id));
                message.into_iter().for_each(|message| message.edited = Some(body.message_id.clone()));
            }
            Some(Body::Compacted(body)) => self.compacted(body),
            Some(Body::Erased(body)) => {
                let history = history();
                let is_session = body.target() == ErasedTarget::Session;
                if is_session {
                    self.session_erased(event, body, &history, &mut faults);
                } else {
                    self.messages_erased(event, body, &history, &mut faults);
                }
                self.touched.insert(session.clone());
                let is_own = is_session && body.source_session_id.is_none() && !body.unfinished;
                if is_own && !self.sessions.insert(session.clone()) {
                    faults.push(format!("P2: {session} is erased twice, by event {}", event.seq));
                }
                return faults;
            }
            _ => {}
        }
        let is_end = matches!(&event.body, Some(Body::CompactionFailed(_) | Body::CompactionCancelled(_)));
        if self.is_erased(session) && !is_end {
            faults.push(format!("P2: {:?} changed {session}, which is erased", event.kind()));
        }
        faults
    }

    fn appended(&mut self, event: &pb::Event, body: &pb::MessageAppended) {
        let record = body.client_id.clone().filter(|_| body.kind() == MessageKind::Record);
        let (session, kind) = (event.session_id.clone(), body.kind());
        let known = Known { session, kind, record, ..Known::default() };
        self.messages.insert(body.message_id.clone(), known);
    }

    fn compacted(&mut self, body: &pb::Compacted) {
        let Some(outcome) = &body.outcome else { return };
        let summary = outcome.summary_message_id.as_ref().and_then(|id| self.messages.get_mut(id));
        let covered = &outcome.covered_ranges;
        let behind = covered.iter().map(|range| range.last_revision + 1).max().unwrap_or(0);
        let quoted =
            outcome.last_quoted_revision.map(|last| pb::RevisionRange { first_revision: behind, last_revision: last });
        let sources: Vec<_> = covered.iter().copied().chain(quoted).collect();
        summary.into_iter().for_each(|summary| summary.sources.clone_from(&sources));
    }

    fn session_erased(
        &mut self,
        event: &pb::Event,
        body: &pb::Erased,
        history: &[(String, i64)],
        faults: &mut Vec<String>,
    ) {
        let owner = body.source_session_id.as_ref().unwrap_or(&event.session_id);
        for (id, _) in history.iter().filter(|(_, revision)| holds(&body.ranges, *revision)) {
            // An edit goes with the message that it replaced, wherever either was made.
            let is_written = self.messages.get(id).is_some_and(|message| !message.is_derived());
            if is_written && self.replaced(id).all(|(_, message)| message.session != *owner) {
                faults.push(format!("P2: the erasure of {owner} took {id} of {} with it", event.session_id));
            }
            self.lost.insert(id.clone(), Lost::All);
        }
        // A large session goes in steps.
        if body.unfinished {
            return;
        }
        let is_left = |id: &&String| self.messages.get(*id).is_some_and(|message| message.session == *owner);
        let left: Vec<_> = history.iter().filter(|(_, at)| !holds(&body.ranges, *at)).map(|(id, _)| id).collect();
        if let Some(left) = left.into_iter().find(is_left) {
            faults.push(format!("P2: the erasure of {owner} left {left} in {}", event.session_id));
        }
    }

    fn messages_erased(
        &mut self,
        event: &pb::Event,
        body: &pb::Erased,
        history: &[(String, i64)],
        faults: &mut Vec<String>,
    ) {
        let there: HashMap<&str, i64> = history.iter().map(|(id, revision)| (id.as_str(), *revision)).collect();
        let mut families = BTreeSet::new();
        let mut written = 0;
        let mut summarized: Vec<&[pb::RevisionRange]> = Vec::new();
        for (index, erased) in body.messages.iter().enumerate() {
            let id = &erased.message_id;
            let Some((revision, message)) = there.get(id.as_str()).zip(self.messages.get(id)) else {
                faults.push(format!("P2: event {} erases {id}, which its session does not have", event.seq));
                continue;
            };
            if !holds(&body.ranges, *revision) {
                faults.push(format!("P2: event {} erases {id} at {revision}, outside of its positions", event.seq));
            }
            if message.is_derived() {
                // One that was named comes first. Others may go on from one that goes.
                let goes_on = |range| summarized.iter().any(|before| meets(before, range));
                let is_of_it = |range| meets(&body.ranges, range) || goes_on(range);
                let may_be_named = index == 0 || body.target() == ErasedTarget::Messages;
                if message.kind == MessageKind::Summary && !may_be_named && !message.sources.iter().any(is_of_it) {
                    faults.push(format!("P2: event {} erases {id}, a summary of other messages", event.seq));
                }
                summarized.push(&message.sources);
            } else {
                written += 1;
                families.insert(self.family(id));
            }
            let is_own = message.session == event.session_id;
            // Sessions that share a message name it as well.
            if !lose(&mut self.lost, erased) && is_own {
                faults.push(format!("P4: event {} erases {id} again, which has nothing left", event.seq));
            }
        }
        let owner = body.source_session_id.as_ref().unwrap_or(&event.session_id);
        if !body.messages.is_empty() && body.source_session_id.is_some() {
            self.empty.remove(owner);
        } else if body.source_session_id.is_none() {
            faults.extend(self.empty.remove(owner).map(erases_nothing));
            if body.messages.is_empty() {
                self.empty.insert(owner.clone(), event.seq);
            }
        }
        let is_part = body.target() == ErasedTarget::Part;
        let is_one = body.target() != ErasedTarget::Messages;
        if (is_one && families.len() > 1) || (is_part && written > 1) {
            faults.push(format!("P2: event {} erases {families:?}, which do not belong together", event.seq));
        }
    }

    /// What is wrong at the end of the log.
    pub(super) fn faults_at_end(&self) -> Vec<String> {
        self.empty.values().copied().map(erases_nothing).collect()
    }

    /// True if one message replaced the other one, or another one both.
    pub(super) fn are_related(&self, one: &str, other: &str) -> bool {
        self.family(one) == self.family(other)
    }

    /// A message, the one that it replaced, and so on. An edit is younger than what it replaces, so that this ends.
    fn replaced<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (&'a str, &'a Known)> {
        let known = |id: &'a str| Some((id, self.messages.get(id)?));
        std::iter::successors(known(id), move |(_, message)| known(message.edited.as_deref()?))
    }

    /// The message that another one replaced, and the one that this replaced, and so on to the first; itself if it
    /// replaced none.
    pub(super) fn original<'a>(&'a self, id: &'a str) -> &'a str {
        self.replaced(id).last().map_or(id, |(first, _)| first)
    }

    /// The name of a message with everything that replaced it.
    fn family(&self, id: &str) -> String {
        let (first, message) = self.replaced(id).last().unzip();
        let record = message.and_then(|message| message.record.as_ref().map(|key| (key, &message.session)));
        let name = || first.unwrap_or(id).to_owned();
        record.map_or_else(name, |(key, session)| format!("the record {key} of {session}"))
    }
}

fn erases_nothing(seq: i64) -> String {
    format!("P4: event {seq} erases nothing")
}

/// True if a revision is in one of some ranges.
pub(super) fn holds(ranges: &[pb::RevisionRange], revision: i64) -> bool {
    ranges.iter().any(|range| (range.first_revision..=range.last_revision).contains(&revision))
}

fn meets(ranges: &[pb::RevisionRange], range: &pb::RevisionRange) -> bool {
    ranges
        .iter()
        .any(|other| other.first_revision <= range.last_revision && range.first_revision <= other.last_revision)
}

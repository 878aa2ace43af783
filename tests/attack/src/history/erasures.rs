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
    /// The positions that a summary covers.
    covered: Vec<pb::RevisionRange>,
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
}

impl Erasures {
    /// What a message lost.
    pub(super) fn of(&self, message: &str) -> Option<&Lost> {
        self.lost.get(message)
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
                if is_session && body.source_session_id.is_none() && !self.sessions.insert(session.clone()) {
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
        summary.into_iter().for_each(|summary| summary.covered.clone_from(&outcome.covered_ranges));
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
            // An edit goes with the message that it replaced, wherever it was made.
            let message = self.messages.get(&self.family(id)).or_else(|| self.messages.get(id));
            if message.is_some_and(|message| message.session != *owner && !message.is_derived()) {
                faults.push(format!("P2: the erasure of {owner} took {id} of {} with it", event.session_id));
            }
            self.lost.insert(id.clone(), Lost::All);
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
        for erased in &body.messages {
            let id = &erased.message_id;
            let Some((revision, message)) = there.get(id.as_str()).zip(self.messages.get(id)) else {
                faults.push(format!("P2: event {} erases {id}, which its session does not have", event.seq));
                continue;
            };
            if !holds(&body.ranges, *revision) {
                faults.push(format!("P2: event {} erases {id} at {revision}, outside of its positions", event.seq));
            }
            if message.is_derived() {
                if message.kind == MessageKind::Summary
                    && !message.covered.iter().any(|range| meets(&body.ranges, range))
                {
                    faults.push(format!("P2: event {} erases {id}, a summary of other messages", event.seq));
                }
            } else {
                written += 1;
                families.insert(self.family(id));
            }
            let parts: BTreeSet<String> = erased.part_ids.iter().cloned().collect();
            self.lose(id, parts);
        }
        let is_part = body.target() == ErasedTarget::Part;
        if families.len() > 1 || (is_part && written > 1) {
            faults.push(format!("P2: event {} erases {families:?}, which do not belong together", event.seq));
        }
    }

    fn lose(&mut self, id: &str, parts: BTreeSet<String>) {
        let lost = self.lost.entry(id.to_owned()).or_insert_with(|| Lost::Parts(BTreeSet::new()));
        match lost {
            _ if parts.is_empty() => *lost = Lost::All,
            Lost::All => {}
            Lost::Parts(before) => before.extend(parts),
        }
    }

    /// True if one message replaced the other one, or another one both.
    pub(super) fn are_related(&self, one: &str, other: &str) -> bool {
        self.family(one) == self.family(other)
    }

    /// The name of a message with everything that replaced it.
    fn family(&self, id: &str) -> String {
        let mut id = id;
        // An edit is younger than what it replaces, so that this ends.
        while let Some(before) = self.messages.get(id).and_then(|message| message.edited.as_deref()) {
            id = before;
        }
        let record =
            self.messages.get(id).and_then(|message| message.record.as_ref().map(|key| (&message.session, key)));
        record.map_or_else(|| id.to_owned(), |(session, key)| format!("the record {key} of {session}"))
    }
}

fn holds(ranges: &[pb::RevisionRange], revision: i64) -> bool {
    ranges.iter().any(|range| (range.first_revision..=range.last_revision).contains(&revision))
}

fn meets(ranges: &[pb::RevisionRange], range: &pb::RevisionRange) -> bool {
    ranges
        .iter()
        .any(|other| other.first_revision <= range.last_revision && range.first_revision <= other.last_revision)
}

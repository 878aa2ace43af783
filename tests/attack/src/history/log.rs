//! The log, read from its first event on: dense, never altered, each compaction with one start and one end, each
//! request carried out once.

use super::client::Client;
use super::record::{Asked, Fate, Record, lock};
use longhand::pb;
use pb::EventKind;
use pb::event::Body;
use std::collections::{BTreeMap, HashMap};

/// Phase of a compaction according to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Proposed,
    Started,
    Ended,
}

/// A session according to the log.
#[derive(Debug, Clone, Default)]
pub(super) struct Ancestry {
    /// The parent session and the revision of the fork.
    pub(super) fork: Option<(String, i64)>,
    /// The session's newest revision.
    pub(super) revision: i64,
    /// The session's own events, as indexes into the log.
    pub(super) events: Vec<usize>,
    is_archived: bool,
    /// The compaction that has started and not ended.
    running: Option<String>,
}

/// The log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The events, without messages, in order.
    pub(super) events: Vec<pb::Event>,
    /// The sessions, by id.
    pub(super) sessions: HashMap<String, Ancestry>,
    compactions: HashMap<String, Phase>,
    /// Cursor of the next page.
    cursor: String,
    /// Number of events that have been compared with the clients' record.
    matched: usize,
}

/// True if an event changes history, marks, policy or window, which `expected_revision` guards.
fn changes_history(event: &pb::Event) -> bool {
    if let Some(Body::SessionUpdated(updated)) = &event.body {
        return updated.window.is_some();
    }
    !matches!(
        event.kind(),
        EventKind::SessionArchived
            | EventKind::SessionRestored
            | EventKind::UsageRecorded
            | EventKind::CompactionProposed
            | EventKind::CompactionStarted
            | EventKind::CompactionRetried
            | EventKind::CompactionFailed
            | EventKind::CompactionCancelled
    )
}

/// The compaction of an event, and the phase that the event leads to.
fn phase_of(body: &Body) -> Option<(&str, Phase)> {
    Some(match body {
        Body::CompactionProposed(body) => (&body.compaction_id, Phase::Proposed),
        Body::CompactionStarted(body) => (&body.compaction_id, Phase::Started),
        Body::Compacted(body) => (&body.compaction_id, Phase::Ended),
        Body::CompactionFailed(body) => (&body.compaction_id, Phase::Ended),
        Body::CompactionCancelled(body) => (&body.compaction_id, Phase::Ended),
        _ => return None,
    })
}

impl Log {
    /// Reads the events since the last call.
    pub(super) async fn follow(&mut self, client: &mut Client) {
        loop {
            let request = pb::ListEventsRequest {
                after_cursor: self.cursor.clone(),
                page_size: 1_000,
                ..pb::ListEventsRequest::default()
            };
            let page = match client.ask(&request).await {
                Ok(page) => page,
                Err(refusal) => return client.finding(format!("P6: the log was refused: {refusal:?}")),
            };
            let is_end = page.next_cursor.is_empty();
            if let Some(last) = page.events.last() {
                self.cursor.clone_from(&last.cursor);
            }
            for event in page.events {
                self.add(&client.shared.record, event);
            }
            if is_end {
                return;
            }
        }
    }

    /// P2: a segment of the log reads as it did before.
    pub(super) async fn read_again(&self, client: &mut Client, from: usize, many: usize) {
        let after_cursor = from.checked_sub(1).and_then(|at| self.events.get(at)).map(|event| event.cursor.clone());
        let mut request = pb::ListEventsRequest {
            after_cursor: after_cursor.unwrap_or_default(),
            page_size: 1_000,
            ..pb::ListEventsRequest::default()
        };
        let mut index = from;
        let end = self.events.len().min(from + many);
        while index < end {
            let Ok(page) = client.ask(&request).await else { return };
            for event in &page.events {
                if self.events.get(index).is_some_and(|before| before != event) {
                    client.finding(format!("P2: event {} is another one now", event.seq));
                }
                index += 1;
            }
            if page.next_cursor.is_empty() {
                break;
            }
            request.after_cursor = page.next_cursor;
        }
        if index < end {
            client.finding(format!("P2: the log ended at {index}, and had {end} events before"));
        }
    }

    fn add(&mut self, record: &Record, event: pb::Event) {
        let index = self.events.len();
        let (seq, id, revision) = (event.seq, event.session_id.clone(), event.revision);
        if seq != i64::try_from(index).unwrap_or(i64::MAX) + 1 {
            record.finding(format!("P3: event {seq} follows {index}"));
        }
        let fork = match &event.body {
            Some(Body::SessionForked(body)) => Some((body.source_session_id.clone(), body.source_revision)),
            _ => None,
        };
        let session = self.sessions.entry(id.clone()).or_insert_with(|| Ancestry {
            revision: fork.as_ref().map_or(0, |(_, at)| *at),
            fork,
            ..Ancestry::default()
        });
        if revision != session.revision + 1 {
            record.finding(format!("P3: revision {revision} of {id} follows {}", session.revision));
        }
        session.revision = revision;
        session.events.push(index);
        let kind = event.kind();
        match kind {
            EventKind::SessionArchived => session.is_archived = true,
            EventKind::SessionRestored => session.is_archived = false,
            // Ends of compactions that the archiving stopped.
            EventKind::CompactionFailed | EventKind::CompactionCancelled => {}
            _ if session.is_archived => record.finding(format!("P5: {kind:?} changed {id}, which is archived")),
            _ => {}
        }
        if let Some((compaction, phase)) = event.body.as_ref().and_then(phase_of) {
            compaction_event(record, session, self.compactions.get(compaction).copied(), &event, (compaction, phase));
            self.compactions.insert(compaction.to_owned(), phase);
        }
        if let Some(Body::CompactionRetried(body)) = &event.body
            && self.compactions.get(&body.compaction_id) != Some(&Phase::Started)
        {
            record.finding(format!("P7: {} is tried again, and does not run", body.compaction_id));
        }
        self.events.push(event);
    }

    /// P7: in an idle store every compaction that started has ended.
    pub(super) fn check_ends(&self, record: &Record) {
        for (compaction, phase) in &self.compactions {
            if *phase != Phase::Ended {
                record.finding(format!("P7: {compaction} is {phase:?} for ever"));
            }
        }
    }

    /// P1, P3, P4, P5, P14: the answers that clients got agree with the log, and the log contains no change that
    /// nobody requested. Considers only the requests of events that were not compared before.
    pub(super) fn check_requests(&mut self, record: &Record) {
        let mut groups: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (index, event) in self.events.iter().enumerate().skip(self.matched) {
            if !event.request_id.is_empty() {
                groups.entry((event.session_id.clone(), event.request_id.clone())).or_default().push(index);
            }
        }
        self.matched = self.events.len();
        let mut asked = lock(&record.asked);
        for (key, group) in &groups {
            match asked.remove(key) {
                Some(asked) => self.check_group(record, key, group, &asked),
                None => record
                    .finding(format!("P4: event {} is of {key:?}, which is over or was never asked", group[0] + 1)),
            }
        }
        for (key, asked) in asked.drain() {
            match asked.fate {
                Fate::Done(promised) if must_write(asked.rpc) && promised.existed_count == 0 => {
                    record.finding(format!(
                        "P1: {} {key:?} was acknowledged as {promised:?} and is not in the log",
                        asked.rpc
                    ));
                }
                Fate::Refused(refusal) if refusal.reason == "REVISION_MISMATCH" => {
                    self.check_mismatch(record, &key.0, &asked.expected_revision, &refusal.metadata)
                }
                Fate::Done(_) | Fate::Refused(_) | Fate::Open => {}
            }
        }
    }

    fn check_group(&self, record: &Record, key: &(String, String), group: &[usize], asked: &Asked) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let rpc = asked.rpc;
        if last - first + 1 != group.len() {
            record.finding(format!("P4: {rpc} {key:?} is in the log at {group:?}: done twice, or torn"));
        }
        let (first, last) = (&self.events[first], &self.events[last]);
        match &asked.fate {
            Fate::Done(promised) => {
                let answered = (promised.revision.unwrap_or(last.revision), promised.seq.unwrap_or(last.seq));
                if answered != (last.revision, last.seq) {
                    let there = (last.revision, last.seq);
                    record.finding(format!("P4: {rpc} {key:?} got {answered:?} in its answer, the log has {there:?}"));
                }
                if first.seq <= asked.after_seq {
                    let (seq, after) = (first.seq, asked.after_seq);
                    record.finding(format!("P3: {rpc} {key:?} is event {seq}, and was sent after the answer {after}"));
                }
                if let Some(expected) = asked.expected_revision {
                    self.check_expected(record, key, expected, first.revision);
                }
            }
            Fate::Refused(refusal) => {
                record.finding(format!("P14: {rpc} {key:?} was refused and is in the log: {refusal:?}"));
            }
            Fate::Open => {}
        }
    }

    /// The revisions of a session that changed its history, after one revision and before another.
    fn changes(&self, session: &str, after: i64, before: i64) -> Vec<i64> {
        let events = self.history(session, before - 1);
        let changes = events.iter().filter(|event| event.revision > after && changes_history(event));
        changes.map(|event| event.revision).collect()
    }

    fn check_expected(&self, record: &Record, key: &(String, String), expected: i64, at: i64) {
        let between = self.changes(&key.0, expected, at);
        if !between.is_empty() {
            record
                .finding(format!("P5: {key:?} expected revision {expected} and was taken at {at}, behind {between:?}"));
        }
    }

    fn check_mismatch(&self, record: &Record, session: &str, expected: &Option<i64>, facts: &HashMap<String, String>) {
        let (Some(expected), Some(current)) = (expected, facts.get("current_revision")) else { return };
        let current = current.parse::<i64>().unwrap_or(-1);
        if !self.changes(session, *expected, current + 1).contains(&current) {
            record.finding(format!("P5: {session} refused {expected} because of {current}, where nothing changed"));
        }
    }

    /// The events of a session's history up to a revision, inherited ones first.
    pub(super) fn history(&self, session: &str, to: i64) -> Vec<&pb::Event> {
        let mut events = Vec::new();
        let (mut session, mut to) = (session, to);
        while let Some(ancestry) = self.sessions.get(session) {
            let own = ancestry.events.iter().rev().map(|index| &self.events[*index]);
            events.extend(own.filter(|event| event.revision <= to));
            let Some((parent, at)) = &ancestry.fork else { break };
            (session, to) = (parent, to.min(*at));
        }
        events.reverse();
        events
    }

    /// The revision that a session had at an event.
    pub(super) fn revision_at(&self, session: &str, seq: i64) -> Option<i64> {
        let ancestry = self.sessions.get(session)?;
        let before = ancestry.events.iter().rev().map(|index| &self.events[*index]).find(|event| event.seq <= seq)?;
        Some(before.revision)
    }
}

/// True if an acknowledged request of this kind must have left an event: others may find nothing to change.
fn must_write(rpc: &str) -> bool {
    matches!(
        rpc,
        "AppendMessages"
            | "AppendParts"
            | "FinishMessage"
            | "RewindSession"
            | "EditMessage"
            | "UndoChange"
            | "RedoChange"
            | "SupplySummary"
    )
}

/// Checks P7 and P12 for one event.
fn compaction_event(
    record: &Record,
    session: &mut Ancestry,
    before: Option<Phase>,
    event: &pb::Event,
    (compaction, phase): (&str, Phase),
) {
    let supplied =
        matches!(&event.body, Some(Body::Compacted(body)) if body.trigger() == pb::CompactionTrigger::Supplied);
    let fits = match (before, phase) {
        (None, Phase::Proposed | Phase::Started) | (Some(Phase::Proposed), Phase::Started) => true,
        (Some(Phase::Started), Phase::Ended) => true,
        (Some(Phase::Proposed), Phase::Ended) => event.kind() != EventKind::Compacted,
        (None, Phase::Ended) => supplied,
        _ => false,
    };
    if !fits {
        record.finding(format!("P7: {compaction} goes from {before:?} to {:?} at event {}", event.kind(), event.seq));
    }
    match phase {
        Phase::Started => {
            if let Some(other) = session.running.replace(compaction.to_owned()) {
                record.finding(format!("P12: {compaction} begins while {other} runs, at event {}", event.seq));
            }
        }
        Phase::Ended if session.running.as_deref() == Some(compaction) => session.running = None,
        Phase::Ended | Phase::Proposed => {}
    }
}

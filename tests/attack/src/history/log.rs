//! The log, read from its first event on: dense, never altered, each compaction with one start and one end, each
//! request carried out once.

use super::agreement::{self, Observation, Written};
use super::client::Client;
use super::content;
use super::erasures::{Erasures, Lost};
use super::record::{Asked, Fate, Record, count, lock};
use super::rewinds;
use super::rpc::End;
use super::state::Replay;
use super::stores::{Heads, store_of};
use longhand::pb;
use pb::EventKind;
use pb::event::Body;
use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// What an erasure began in an archived session.
    erasing: Option<i64>,
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
    /// What was erased.
    pub(super) erasures: Erasures,
    /// Where each event is in `events`, by its number.
    places: HashMap<i64, usize>,
    /// The newest event of each store.
    pub(super) heads: Heads,
    /// Cursor of the next page.
    cursor: String,
    /// Number of events that have been compared with the clients' record.
    matched: usize,
    /// The runs, prompts and approvals of each session at `matched`.
    replays: HashMap<String, Replay>,
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
            | EventKind::RunStarted
            | EventKind::RunCancelRequested
            | EventKind::RunEnded
            | EventKind::PromptSubmitted
            | EventKind::PromptMoved
            | EventKind::PromptTaken
            | EventKind::PromptWithdrawn
            | EventKind::ApprovalRequested
            | EventKind::ApprovalEnded
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
            let mut page = match client.ask(&request).await {
                Ok(page) => page,
                Err(refusal) => return client.finding(format!("P6: the log was refused: {refusal:?}")),
            };
            let is_end = page.next_cursor.is_empty();
            let mut before = client.shared.record.stores.heads(&self.cursor);
            client.shared.record.number_events(&mut before, &mut page.events);
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
    pub(super) async fn read_again(&mut self, client: &mut Client, from: usize, many: usize) {
        let after_cursor = from.checked_sub(1).and_then(|at| self.events.get(at)).map(|event| event.cursor.clone());
        let mut request = pb::ListEventsRequest {
            after_cursor: after_cursor.unwrap_or_default(),
            page_size: 1_000,
            ..pb::ListEventsRequest::default()
        };
        let mut heads = client.shared.record.stores.heads(&request.after_cursor);
        let mut differing = Vec::new();
        let (mut count, many) = (0, many.min(self.events.len() - from.min(self.events.len())));
        while count < many {
            let Ok(mut page) = client.ask(&request).await else { return };
            let mut before = heads.clone();
            client.shared.record.number_events(&mut before, &mut page.events);
            for event in page.events {
                if event.seq != heads.of(store_of(event.seq)) + 1 {
                    client.finding(format!("P2: event {} is read behind {heads:?}", event.seq));
                }
                heads.note(event.seq);
                count += 1;
                if self.at(event.seq).is_some_and(|before| !self.is_same(before, &event)) {
                    differing.push(event);
                }
            }
            if page.next_cursor.is_empty() {
                break;
            }
            request.after_cursor = page.next_cursor;
        }
        if count < many {
            client.finding(format!("P2: the log ends {count} events behind {from}, and there were {many} before"));
        }
        if differing.is_empty() {
            return;
        }
        // The erasure that took their texts may have come meanwhile.
        self.follow(client).await;
        let is_other = |now: &&pb::Event| self.at(now.seq).is_some_and(|before| !self.is_same(before, now));
        for now in differing.iter().filter(is_other) {
            client.finding(format!("P2: event {} is another one now", now.seq));
        }
    }

    /// True if an event reads as it did before, less what an erasure took.
    pub(super) fn is_same(&self, before: &pb::Event, now: &pb::Event) -> bool {
        // A cursor of several stores has what was read of the others before it.
        let of_one = |event: &pb::Event| {
            let cursor = if event.cursor.contains('s') { String::new() } else { event.cursor.clone() };
            pb::Event { cursor, ..event.clone() }
        };
        let (before, now) = (&of_one(before), &of_one(now));
        before == now
            || self.erasures.is_touched(&now.session_id)
                && content::without_texts(before) == content::without_texts(now)
    }

    /// The fingerprint of an event that was read at some time, to be compared with that of another time.
    pub(super) fn print(&self, seq: i64, (whole, without): (u64, u64)) -> (i64, u64) {
        let event = self.at(seq);
        let is_touched = event.is_some_and(|event| self.erasures.is_touched(&event.session_id));
        (seq, if is_touched { without } else { whole })
    }

    /// The event with a number.
    pub(super) fn at(&self, number: i64) -> Option<&pb::Event> {
        self.places.get(&number).and_then(|index| self.events.get(*index))
    }

    /// The messages of a session with their revisions, inherited ones too.
    pub(super) fn positions(&self, session: &str) -> Vec<(String, i64)> {
        let appended = |event: &&pb::Event| match &event.body {
            Some(Body::MessageAppended(body)) => Some((body.message_id.clone(), event.revision)),
            _ => None,
        };
        self.history(session, i64::MAX).iter().filter_map(appended).collect()
    }

    /// The last position of a conversation with this end; none if it is not known.
    fn position_of_end(&self, session: &str, end: &End) -> Option<i64> {
        match end {
            End::ToStart(_) => Some(0),
            End::MessageId(id) => {
                let original = self.erasures.original(id);
                self.positions(session).into_iter().find(|(there, _)| there == original).map(|(_, revision)| revision)
            }
        }
    }

    /// What a message lost.
    pub(super) fn lost(&self, message: &str) -> Option<&Lost> {
        self.erasures.of(message)
    }

    /// Adds the next event.
    pub(super) fn add(&mut self, record: &Record, event: pb::Event) {
        let index = self.events.len();
        let (seq, id, revision) = (event.seq, event.session_id.clone(), event.revision);
        let head = self.heads.of(store_of(seq));
        if seq != head + 1 {
            record.finding(format!("P3: event {seq} follows {head}"));
        }
        self.heads.note(seq);
        self.places.insert(seq, index);
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
            EventKind::Erased => session.erasing = None,
            // An erasure ends what waits in a session before it takes the content.
            EventKind::PartsClosed
            | EventKind::MessageFinished
            | EventKind::PromptWithdrawn
            | EventKind::ApprovalEnded
                if session.is_archived && event.request_id.is_empty() =>
            {
                session.erasing = session.erasing.or(Some(seq));
            }
            _ if session.is_archived => record.finding(format!("P5: {kind:?} changed {id}, which is archived")),
            _ => {}
        }
        if let Some(begun) = session.erasing.filter(|_| kind != EventKind::Erased && !session.is_archived) {
            record.finding(format!("P5: event {begun} changed {id}, which is archived, and nothing was erased"));
            session.erasing = None;
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
        let mut erasures = std::mem::take(&mut self.erasures);
        let faults = erasures.apply(&self.events[index], || self.positions(&id));
        self.erasures = erasures;
        faults.into_iter().for_each(|fault| record.finding(fault));
    }

    /// P1: every erasure that was acknowledged is in the log where its answer says.
    pub(super) fn check_erased_answers(&self, record: &Record) {
        for (session, revision, seq) in std::mem::take(&mut *lock(&record.erased_answers)) {
            let event = self.at(seq);
            let fits = event.is_some_and(|event| {
                (event.kind(), &event.session_id, event.revision) == (EventKind::Erased, &session, revision)
            });
            if !fits {
                record.finding(format!(
                    "P1: an erasure was acknowledged as event {seq} of {session}, which is {event:?}"
                ));
            }
        }
    }

    /// P7: in an idle store every compaction that started has ended.
    pub(super) fn check_ends(&self, record: &Record) {
        for (compaction, phase) in &self.compactions {
            if *phase != Phase::Ended {
                record.finding(format!("P7: {compaction} is {phase:?} for ever"));
            }
        }
        self.erasures.faults_at_end().into_iter().for_each(|fault| record.finding(fault));
    }

    /// P5: what changed an archived session was an erasure.
    pub(super) fn check_archived(&self, record: &Record) {
        for (id, session) in self.sessions.iter().filter(|(_, session)| session.erasing.is_some()) {
            record.finding(format!("P5: event {:?} changed {id}, which is archived", session.erasing));
        }
    }

    /// Runs, prompts and approvals: the new events follow from each other, and the answers that clients got about them
    /// agree with the log. Comes before `check_requests`, which forgets the requests.
    pub(super) fn check_runs(&mut self, record: &Record) {
        let asked = lock(&record.asked);
        let request = |event: &pb::Event| asked.get(&(event.session_id.clone(), event.request_id.clone()));
        // What was sent after an answer had come is in the log behind everything that the answer was made from.
        let mut sent: HashMap<i64, Vec<(u64, i64)>> = HashMap::new();
        let mut events: HashMap<&str, Vec<(&pb::Event, Option<i64>)>> = HashMap::new();
        for event in &self.events[self.matched..] {
            let asked = if event.request_id.is_empty() { None } else { request(event) };
            let of_store = sent.entry(store_of(event.seq)).or_default();
            of_store.extend(asked.map(|asked| (asked.sent, event.seq)));
            events.entry(&event.session_id).or_default().push((event, asked.and_then(|asked| asked.epoch)));
        }
        for sent in sent.values_mut() {
            sent.sort_unstable();
            let mut least = i64::MAX;
            for (_, seq) in sent.iter_mut().rev() {
                least = least.min(*seq);
                *seq = least;
            }
        }
        let mut observed: HashMap<String, Vec<Observation>> = HashMap::new();
        for (answered, observation) in std::mem::take(&mut *lock(&record.observations)) {
            count(&record.counts.observations);
            let sent = sent.get(&record.stores.of(&observation.session)).map(Vec::as_slice).unwrap_or_default();
            let behind = sent.get(sent.partition_point(|(sent, _)| *sent < answered)).map_or(i64::MAX, |(_, seq)| *seq);
            let to_seq = observation.to_seq.min(behind.saturating_sub(1));
            observed.entry(observation.session.clone()).or_default().push(Observation { to_seq, ..observation });
        }
        let written = lock(&record.written);
        let ids: BTreeSet<String> = events.keys().map(|id| (*id).to_owned()).chain(observed.keys().cloned()).collect();
        for id in ids {
            let replay = self.replays.entry(id.clone()).or_default();
            replay.state.is_touched = self.erasures.is_touched(&id);
            let events = events.remove(id.as_str()).unwrap_or_default();
            let observations = observed.remove(&id).unwrap_or_default();
            let faults = agreement::read_on(replay, &events, observations, &written);
            faults.into_iter().for_each(|fault| record.finding(fault));
        }
    }

    /// True if a message was sealed by the end of its run or by an erasure: by the next event that is more than what ends
    /// with it.
    pub(super) fn is_sealed_by_end(&self, session: &str, message: &pb::Message, epoch: Option<i64>) -> bool {
        let events = self.history(session, i64::MAX);
        let mut behind = events.iter().filter(|event| Some(event.revision) >= message.sealed_revision);
        let of_end = |event: &&&&pb::Event| {
            matches!(
                event.kind(),
                EventKind::PartsClosed
                    | EventKind::MessageFinished
                    | EventKind::PromptWithdrawn
                    | EventKind::ApprovalEnded
            )
        };
        let is_end = |event: &&pb::Event| match &event.body {
            Some(Body::RunEnded(body)) => Some(body.epoch) == epoch,
            Some(Body::Erased(_)) => true,
            _ => false,
        };
        behind.by_ref().find(|event| !of_end(&event)).is_some_and(is_end)
    }

    /// The messages that runs made of prompts, with their prompts.
    pub(super) fn taken_prompts(&self, from: usize) -> impl Iterator<Item = &pb::PromptTaken> {
        self.events[from.min(self.events.len())..].iter().filter_map(|event| match &event.body {
            Some(Body::PromptTaken(body)) => Some(body),
            _ => None,
        })
    }

    /// Numbers of runs, prompts and approvals, for the report.
    pub(super) fn runs_text(&self, written: &Written) -> String {
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        let mut note = |what: String| *ends.entry(what).or_default() += 1;
        for event in &self.events {
            match &event.body {
                Some(Body::RunStarted(_)) => note("runs".to_owned()),
                Some(Body::RunEnded(body)) => note(format!("runs {}", text(body.reason().as_str_name()))),
                Some(Body::PromptSubmitted(body)) => {
                    note("prompts".to_owned());
                    let sent = written.prompts.get(&body.prompt_id);
                    if sent.is_some_and(|sent| !content::callers(&sent.parts).is_empty()) {
                        note("prompts with results".to_owned());
                    }
                    if rewinds::is_behind_own(self, event) {
                        note("prompts with a rewind".to_owned());
                    }
                }
                Some(Body::PromptTaken(_)) => note("prompts taken".to_owned()),
                Some(Body::PromptWithdrawn(_)) => note("prompts withdrawn".to_owned()),
                Some(Body::PromptMoved(_)) => note("prompts moved".to_owned()),
                Some(Body::ApprovalRequested(_)) => note("approvals".to_owned()),
                Some(Body::ApprovalEnded(body)) => note(format!("approvals {}", text(body.reason().as_str_name()))),
                _ => {}
            }
        }
        ends.iter().map(|(what, many)| format!("{many} {what}")).collect::<Vec<_>>().join(", ")
    }

    /// The runs, prompts and approvals of a session, as of the last check.
    pub(super) fn state(&self, session: &str) -> Option<&super::state::State> {
        self.replays.get(session).map(|replay| &replay.state)
    }

    /// Has what was read up to now, and what was asked for, compared no more.
    pub(super) fn skip(&mut self, record: &Record) {
        self.matched = self.events.len();
        lock(&record.asked).clear();
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
        let events: Vec<&pb::Event> = group.iter().map(|index| &self.events[*index]).collect();
        let expected = asked.new_end.as_ref().map(|end| self.position_of_end(&key.0, end));
        for fault in rewinds::faults(asked.rpc, expected, &events, &lock(&record.written)) {
            record.finding(format!("{fault}, of {} {key:?}", asked.rpc));
        }
        let (first, last) = (events[0], events[events.len() - 1]);
        let rpc = asked.rpc;
        if usize::try_from(last.seq - first.seq + 1) != Ok(group.len()) {
            record.finding(format!("P4: {rpc} {key:?} is in the log at {group:?}: done twice, or torn"));
        }
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
                self.check_changes(record, key, group, asked);
            }
            Fate::Refused(refusal) => {
                record.finding(format!("P14: {rpc} {key:?} was refused and is in the log: {refusal:?}"));
            }
            Fate::Open => {}
        }
    }

    /// Every change that an answer reported is an event of its request, once, and a run has made no message without a
    /// prompt.
    fn check_changes(&self, record: &Record, key: &(String, String), group: &[usize], asked: &Asked) {
        let bodies: Vec<Body> = group.iter().filter_map(|index| self.events[*index].body.clone()).collect();
        for change in &asked.changes {
            let is_touched = self.erasures.is_touched(&key.0);
            let matches = bodies.iter().filter(|body| is_reported(change, body, is_touched, &self.erasures)).count();
            if matches != 1 {
                let rpc = asked.rpc;
                record
                    .finding(format!("P4: {rpc} {key:?} was answered with {change:?}, and its events are {bodies:?}"));
            }
        }
        let of = |is_kind: fn(&Body) -> bool| bodies.iter().filter(|body| is_kind(body)).count();
        let messages = of(|body| matches!(body, Body::MessageAppended(_)));
        let prompts = of(|body| matches!(body, Body::PromptTaken(_)));
        if matches!(asked.rpc, "AcquireRun" | "TakePrompt") && messages != prompts {
            record.finding(format!("P4: {} {key:?} made {messages} messages of {prompts} prompts", asked.rpc));
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

    /// A session's own events, without inherited ones.
    pub(super) fn own_events(&self, session: &str) -> impl Iterator<Item = &pb::Event> {
        let own = self.sessions.get(session).map(|ancestry| ancestry.events.as_slice()).unwrap_or_default();
        own.iter().map(|index| &self.events[*index])
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

/// The last word of a value's name.
fn text(name: &str) -> String {
    name.rsplit('_').next().unwrap_or_default().to_lowercase()
}

/// True if an event is the change that an answer reported; the event may have lost texts since.
fn is_reported(change: &Body, body: &Body, is_touched: bool, erasures: &Erasures) -> bool {
    if let (Body::Erased(asked), Body::Erased(body)) = (change, body) {
        let is_named = |named: &pb::ErasedMessage| {
            body.messages.iter().any(|there| {
                let is_part = named.part_ids.iter().any(|id| there.part_ids.contains(id));
                // What has nothing to lose, because it was erased before, is not named; what replaced it is.
                let is_whole = there.part_ids.is_empty() && !named.message_id.is_empty();
                is_part || (is_whole && erasures.are_related(&there.message_id, &named.message_id))
            })
        };
        // Some of several may have been erased before, or all, and a fork has lost what replaced them.
        let mut named = asked.messages.iter();
        let is_there = match asked.target() {
            pb::ErasedTarget::Messages => named.any(is_named),
            _ => named.all(is_named),
        } || (body.messages.is_empty() && body.target() != pb::ErasedTarget::Session);
        return (asked.target, &asked.reason) == (body.target, &body.reason) && is_there;
    }
    let plain = |body: Body| content::without_texts(&pb::Event { body: Some(body), ..pb::Event::default() });
    let body = without_calls(body);
    body == *change || (is_touched && plain(body) == plain(change.clone()))
}

/// An event as an answer reports it: without the calls of a run that ended.
fn without_calls(body: &Body) -> Body {
    match body {
        Body::RunEnded(body) => Body::RunEnded(pb::RunEnded { interrupted_calls: Vec::new(), ..body.clone() }),
        body => body.clone(),
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
            | "AcquireRun"
            | "ReleaseRun"
            | "SubmitPrompt"
            | "TakePrompt"
            | "MovePrompt"
            | "WithdrawPrompt"
            | "RequestApproval"
            | "AnswerApproval"
            | "WithdrawApproval"
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

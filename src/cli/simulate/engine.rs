//! Simulation of one session under one policy, message by message: the decisions of a daemon, without a daemon.
//!
//! The view is the real one: compactions become marks, `model::layouts` derives the layout, and `policy` renders it.
//! The built-in summarizer writes the summaries, unless the caller passes another writer; a summary is refused for the
//! same reasons as by the scheduler. Only time is simplified: a compaction is active before the next message comes.

use crate::fold::guards::{self, Decision, GuardInput, Guards};
use crate::fold::{Fold, FoldInput};
use crate::limits;
use crate::model::Revision;
use crate::model::changes::{self, Row};
use crate::model::compaction::{
    Compaction, CompactionKind, CompactionRequest, Failure, FailureReason, Level, Outcome as CompactionOutcome, Trigger,
};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::{Layout, Placement, Span};
use crate::model::layouts;
use crate::model::mark::Mark;
use crate::model::message::{Finish, GivenView, Message, MessageKind, NewMessage, Role};
use crate::model::part::{NewPart, Part, PartBody};
use crate::model::time::Timestamp;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::{Counts, Pruned, SourceMessage, View};
use crate::policy::plan::{self, PlanningInput, SummaryPlan, Work, WrittenSummary, gain};
use crate::policy::{LevelPolicy, Policy, overflow, tokens};
use crate::summarizer::{SummaryInput, extract};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

/// An entry of a transcript that affects a simulation.
#[derive(Debug, Clone)]
pub enum TranscriptEntry {
    /// A written message.
    Message(Box<NewMessage>),
    /// A compaction by the agent itself: usage that later replies report is about a context that no policy here has
    /// made.
    Compaction,
}

/// A compaction that was applied or given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedCompaction {
    /// Number of messages written so far.
    pub message: usize,
    /// The level; none for maintenance and the last resort.
    pub level: Option<Level>,
    /// Kind of its strongest step.
    pub kind: CompactionKind,
    /// True if it was given up, because none of its steps freed enough.
    pub refused: bool,
    /// Context usage before it, in tokens; from reported usage if that was valid.
    pub context_tokens: i64,
    /// Size of the view before it, by the policy's estimate.
    pub before_tokens: i64,
    /// Size of the view after it, by the same estimate.
    pub after_tokens: i64,
    /// Original messages in the view after it, whole or shortened; summary and marker do not count.
    pub kept: usize,
    /// Parts that it shortened.
    pub cleared: usize,
    /// Messages that its summary covers.
    pub summarized: usize,
    /// Messages that it omitted.
    pub omitted: usize,
    /// Tokens of the view from the first change on, which no provider has in its cache.
    pub reread_tokens: i64,
}

/// Result of a simulation under one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Tokens at which the first level is due; none if nothing is automatic.
    pub due_tokens: Option<i64>,
    /// Compactions, applied or given up, in order.
    pub simulated: Vec<SimulatedCompaction>,
    /// Context usage after each message, and again after each compaction.
    pub context_usage: Vec<Point>,
}

/// Context usage at one point of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Number of messages written so far.
    pub message: usize,
    /// Tokens of the context.
    pub tokens: i64,
}

impl Outcome {
    /// Highest context usage, in tokens.
    pub(super) fn highest_tokens(&self) -> i64 {
        self.context_usage.iter().map(|point| point.tokens).max().unwrap_or_default()
    }

    /// Context usage at the end, in tokens.
    pub(super) fn final_tokens(&self) -> i64 {
        self.context_usage.last().map_or(0, |point| point.tokens)
    }

    /// The compactions that were applied.
    pub(super) fn compactions(&self) -> impl Iterator<Item = &SimulatedCompaction> {
        self.simulated.iter().filter(|compaction| !compaction.refused)
    }
}

/// The writer of a summary's text.
pub type WriteSummary<'a> = &'a dyn Fn(&SummaryInput) -> String;

/// Plays a conversation under a policy.
pub(super) fn simulate(policy: &Policy, window: &ModelWindow, entries: &[TranscriptEntry]) -> Outcome {
    let mut session = Session::new(policy, window, &extract);
    for entry in entries {
        session.play(entry);
    }
    Outcome {
        due_tokens: overflow::due_at(policy, window),
        simulated: session.simulated,
        context_usage: session.context_usage,
    }
}

/// The first summary that a policy puts in place of history.
#[derive(Debug, Clone)]
pub(in crate::cli) struct FirstSummary {
    /// Plan of the summary.
    pub(in crate::cli) plan: SummaryPlan,
    /// Messages before the first message of the tail.
    pub(in crate::cli) before: Vec<Message>,
    /// Those of them that an id in the view expands: covered or omitted messages, and messages with shortened parts.
    pub(in crate::cli) expandable: Vec<Message>,
}

/// Plays a conversation under a policy up to the first summary; none if there is no summary.
pub(in crate::cli) fn first_summary(
    policy: &Policy,
    window: &ModelWindow,
    entries: &[TranscriptEntry],
) -> Option<FirstSummary> {
    let mut session = Session::new(policy, window, &extract);
    for entry in entries {
        session.play(entry);
        if let Some(plan) = session.new_summary.take() {
            let stands_before = |message: &&Message| message.kind.is_inline() && message.revision < plan.tail_start;
            let before: Vec<Message> = session.history.values().filter(stands_before).cloned().collect();
            let covered = session.layout.covered.iter().flat_map(|covered| &covered.ranges);
            let behind: Vec<_> = covered.chain(session.layout.omitted.iter().map(|omitted| &omitted.range)).collect();
            let can_be_expanded = |message: &&Message| {
                behind.iter().any(|range| range.contains(message.revision))
                    || message.parts.iter().any(|part| session.pruned.contains_key(&part.id))
            };
            let expandable = before.iter().filter(can_be_expanded).cloned().collect();
            return Some(FirstSummary { plan, before, expandable });
        }
    }
    None
}

/// Input of a summarizer for a planned summary.
pub fn input_of(policy: &Policy, planned: &SummaryPlan) -> SummaryInput {
    SummaryInput {
        messages: planned.head.clone(),
        split_turn: planned.split_turn.clone(),
        previous: planned.previous.clone(),
        previous_is_supplied: false,
        rules: planned.rules.clone(),
        counting: policy.counting.clone(),
        instructions: String::new(),
        budget_tokens: planned.rules.max_tokens,
    }
}

/// State of a simulated session: the rows and the fold that a daemon has of it.
pub struct Session<'a> {
    policy: &'a Policy,
    window: &'a ModelWindow,
    writer: WriteSummary<'a>,
    /// All messages, derived ones too, by revision.
    history: BTreeMap<Revision, Message>,
    /// Token counts of the messages, if the policy counts by encoding each text.
    counts: BTreeMap<Revision, Arc<Counts>>,
    marks: Vec<Mark>,
    /// Parts shortened by prune marks.
    pruned: BTreeMap<PartId, Pruned>,
    layout: Layout,
    /// Messages in the view.
    sources: Vec<SourceMessage>,
    revision: Revision,
    now: Timestamp,
    /// Number of messages written so far.
    count: usize,
    /// Number of ids given out.
    ids: u128,
    /// Fold of the messages in the view.
    fold: Rc<Fold>,
    /// Compactions that ended, newest first.
    ended: Vec<Compaction>,
    /// Revision of the newest compaction, or change by the agent itself: usage from before it is not valid.
    changed_revision: Revision,
    simulated: Vec<SimulatedCompaction>,
    context_usage: Vec<Point>,
    /// The first summary applied since `take_summary` was called last.
    new_summary: Option<SummaryPlan>,
}

/// A compaction and its effect on the view, before it is applied.
struct PreparedCompaction {
    removals: Removals,
    summary: Option<(SummaryPlan, String)>,
    before: View,
    after: View,
}

impl PreparedCompaction {
    /// Tokens that it frees.
    fn gain(&self) -> i64 {
        self.before.estimated_tokens - self.after.estimated_tokens
    }
}

impl<'a> Session<'a> {
    /// A session without messages.
    pub fn new(policy: &'a Policy, window: &'a ModelWindow, writer: WriteSummary<'a>) -> Self {
        Self {
            policy,
            window,
            writer,
            history: BTreeMap::new(),
            counts: BTreeMap::new(),
            marks: Vec::new(),
            pruned: BTreeMap::new(),
            layout: Layout::everything(),
            sources: Vec::new(),
            revision: 0,
            now: Timestamp::default(),
            count: 0,
            ids: 0,
            fold: Rc::new(Fold::new(FoldInput { policy, messages: &[], changed_revision: 0 }, None)),
            ended: Vec::new(),
            changed_revision: 0,
            simulated: Vec::new(),
            context_usage: Vec::new(),
            new_summary: None,
        }
    }

    fn planning(&self) -> PlanningInput<'_> {
        PlanningInput {
            policy: self.policy,
            window: self.window,
            layout: &self.layout,
            sources: &self.sources,
            base: self.revision,
            now: self.now,
        }
    }

    /// Context usage, in tokens.
    pub fn context_tokens(&self) -> i64 {
        self.fold.context_tokens(self.window)
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.fold.view
    }

    /// The messages of the view, in the order of the layout.
    pub fn sources(&self) -> &[SourceMessage] {
        &self.sources
    }

    /// The compactions so far, also those given up.
    pub fn simulated(&self) -> &[SimulatedCompaction] {
        &self.simulated
    }

    /// The first summary applied since the last call.
    pub fn take_summary(&mut self) -> Option<SummaryPlan> {
        self.new_summary.take()
    }

    fn estimated_tokens(&self) -> i64 {
        self.fold.view.estimated_tokens
    }

    /// Folds the session from scratch, after a change of existing messages.
    fn fold_anew(&mut self) {
        let Self { policy, changed_revision, .. } = *self;
        self.fold = Rc::new(Fold::new(FoldInput { policy, messages: &self.sources, changed_revision }, None));
    }

    fn next_id(&mut self) -> Uuid {
        self.ids += 1;
        // As many different digits as a real id has: a placeholder may show the id, whose digits then count as tokens.
        Uuid::from_u128(self.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn next_revision(&mut self) -> Revision {
        self.revision += 1;
        self.revision
    }

    /// Writes a message into the history.
    fn store(&mut self, kind: MessageKind, role: Role, parts: Vec<NewPart>, finish: Finish) -> Message {
        let revision = self.next_revision();
        let parts = parts.into_iter().map(|part| {
            let NewPart { client_id, body, metadata_json } = part;
            Part { id: PartId(self.next_id()), client_id, revision, body, metadata_json }
        });
        let parts = parts.collect();
        let message = Message {
            id: MessageId(self.next_id()),
            session_id: SessionId(Uuid::nil()),
            client_id: None,
            revision,
            role,
            kind,
            parts,
            sealed_revision: Some(revision),
            finish,
            model: String::new(),
            provider: String::new(),
            create_time: self.now,
            origin_time: Some(self.now),
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        };
        if tokens::basis(self.policy).is_some() {
            let bodies: Vec<&PartBody> = message.parts.iter().map(|part| &*part.body).collect();
            self.counts.insert(revision, Arc::new(tokens::count(self.policy, role, &bodies)));
        }
        self.history.insert(revision, message.clone());
        message
    }

    /// Plays an entry of the transcript, and the compactions that the policy starts after it.
    fn play(&mut self, entry: &TranscriptEntry) {
        match entry {
            TranscriptEntry::Message(message) => {
                self.append(message, false);
                self.compact();
            }
            TranscriptEntry::Compaction => {
                // At least 2: up to the first revision, a session counts as never changed.
                self.changed_revision = self.revision.max(2);
                self.fold_anew();
            }
        }
    }

    /// Appends a message of a client. A reply may name the newest view as the one that it was given.
    pub fn append(&mut self, new: &NewMessage, names_view: bool) {
        self.now = new.origin_time.unwrap_or(self.now).max(self.now);
        let given = || GivenView {
            revision: self.revision,
            hash: self.fold.hash(),
            window: self.window.clone(),
            shortened: false,
        };
        let view = names_view.then(given);
        let finish = new.finish.clone().unwrap_or_default().with_view(view);
        let message = self.store(new.kind, new.role, new.parts.clone(), finish);
        self.count += 1;
        let kept = self.sources.len();
        self.sources.push(self.source(&message, None));
        let Self { policy, sources, changed_revision, fold, .. } = self;
        let rows = FoldInput { policy, messages: sources, changed_revision: *changed_revision };
        Rc::make_mut(fold).extend(rows, kept);
        self.note_context_usage();
    }

    fn note_context_usage(&mut self) {
        self.context_usage.push(Point { message: self.count, tokens: self.context_tokens() });
    }

    /// Applies the policy's automatic compactions until none is due.
    ///
    /// The loop ends: a level that makes no progress is not applied again until the view has grown, and every applied
    /// compaction makes the view smaller.
    fn compact(&mut self) {
        while self.compact_once() {}
    }

    /// Makes one decision. Returns true if a compaction was applied or failed, so that another decision follows.
    pub fn compact_once(&mut self) -> bool {
        let fold = self.fold.clone();
        let context_tokens = self.context_tokens();
        let past = GuardInput { ended: &self.ended, guard_revision: 0, undo_revision: None };
        let guards = Guards::new(self.planning(), &fold, past);
        match guards::decide(self.planning(), &fold, &guards) {
            Some(Decision::Steps(plan::Decision::Level(level))) => self.apply_level(level, context_tokens, &guards),
            Some(Decision::Steps(plan::Decision::Maintenance)) => {
                let least = gain::least(self.policy, self.window, &self.policy.maintenance, false);
                match self
                    .prepare(plan::maintenance(self.planning()).removals, None)
                    .filter(|prepared| prepared.gain() >= least)
                {
                    Some(prepared) => {
                        self.commit(prepared, Trigger::Maintenance, None, context_tokens, &guards);
                        true
                    }
                    // The steps of maintenance freed too little.
                    None => self.apply_last_resort(&fold, &guards),
                }
            }
            Some(Decision::LastResort) => self.apply_last_resort(&fold, &guards),
            None => false,
        }
    }

    /// Applies the last resort, or records once what fills the window. Returns true if a compaction was applied.
    fn apply_last_resort(&mut self, fold: &Fold, guards: &Guards) -> bool {
        let removals = guards::last_resort_removals(self.planning(), fold, guards);
        if let Some(prepared) = self.prepare(removals, None) {
            self.commit(prepared, Trigger::LastResort, None, fold.context_tokens(self.window), guards);
            return true;
        }
        if !fold.fits(self.window) && guards.reported_overhead.is_none() {
            let why = guards::last_resort_failure(self.planning(), fold, guards);
            self.end(Trigger::LastResort, None, CompactionKind::Omission, Err(why));
        }
        false
    }

    /// Applies a level's steps, with a smaller and smaller tail if a summary would free too little. Returns true if a
    /// compaction was applied or failed, so that another decision follows.
    fn apply_level(&mut self, level: Level, context_tokens: i64, guards: &Guards) -> bool {
        let policy = self.policy;
        let Some(level_policy) = policy.level(level) else { return false };
        let kind = plan::kind(&level_policy.steps);
        if let Some(why) = guards::overhead_failure(level_policy, self.window, guards) {
            self.end(Trigger::Threshold, Some(level), kind, Err(why));
            return true;
        }
        let tokens = context_tokens.max(self.estimated_tokens());
        let mut refused = None;
        let mut prepared_fallback = None;
        for candidate in plan::tail_fallbacks(level_policy) {
            let work = plan::apply(self.planning(), &candidate, tokens);
            if !gain::is_enough(self.planning(), &level_policy.steps, &work, tokens) {
                continue;
            }
            let is_summary = work.summary.is_some();
            let least = gain::least(policy, self.window, &level_policy.steps, is_summary);
            if let Some(prepared) = self.propose(&work, least) {
                self.commit(prepared, Trigger::Threshold, Some((level, level_policy)), context_tokens, guards);
                return true;
            }
            if is_summary {
                refused.get_or_insert(CompactionKind::Summary);
                prepared_fallback = prepared_fallback.or_else(|| self.prepare_fallback(work, least));
            }
        }
        if let Some(prepared) = prepared_fallback {
            self.commit(prepared, Trigger::Threshold, Some((level, level_policy)), context_tokens, guards);
            return true;
        }
        self.end(Trigger::Threshold, Some(level), kind, Err(Failure::new(FailureReason::NoGain, "")));
        self.simulated.push(SimulatedCompaction {
            message: self.count,
            level: Some(level),
            kind: refused.unwrap_or(kind),
            refused: true,
            context_tokens,
            before_tokens: self.estimated_tokens(),
            after_tokens: self.estimated_tokens(),
            kept: shown(&self.sources),
            cleared: 0,
            summarized: 0,
            omitted: 0,
            reread_tokens: 0,
        });
        true
    }

    /// A level's compaction with its summary written; none if it frees too little.
    fn propose(&self, work: &Work, least: i64) -> Option<PreparedCompaction> {
        let is_enough = |prepared: &PreparedCompaction| prepared.gain() >= least;
        let Some(planned) = &work.summary else { return self.prepare(work.removals.clone(), None).filter(is_enough) };
        let mut input = input_of(self.policy, planned);
        let limit = overflow::input_max(self.window).map(|limit| limit - self.window.overhead);
        let mut longest = None;
        for _ in 0..limits::SUMMARY_TRIES {
            let prepared =
                self.prepare(work.removals.clone(), Some((planned, (self.writer)(&input)))).filter(is_enough);
            match prepared {
                Some(prepared) if limit.is_none_or(|limit| prepared.after.estimated_tokens <= limit) => {
                    return Some(prepared);
                }
                prepared => longest = longest.or(prepared),
            }
            input.budget_tokens /= 2;
        }
        longest
    }

    /// Fallback for a summary that cannot be made: the policy's fallback, or the level's other steps alone.
    fn prepare_fallback(&self, work: Work, least: i64) -> Option<PreparedCompaction> {
        let summary = work.summary?;
        let fallback = plan::fallback(self.planning(), &summary.fallback);
        let mut others = work.removals;
        others.parts.retain(|(part, _)| !summary.removals.parts.iter().any(|(other, _)| other == part));
        let prepared = |removals| self.prepare(removals, None).filter(|prepared| prepared.gain() >= least);
        prepared(fallback.removals).or_else(|| prepared(others))
    }

    /// A compaction with `removals` and `summary`; none if it is empty, or the view would not shrink.
    fn prepare(&self, removals: Removals, summary: Option<(&SummaryPlan, String)>) -> Option<PreparedCompaction> {
        if removals.is_empty() && summary.is_none() {
            return None;
        }
        let before = plan::view(self.policy, &self.sources);
        let mut sources = plan::with_removals(&self.sources, &removals, CompactionId(Uuid::nil()));
        if let Some((planned, text)) = &summary {
            let (boundary, attachments) = (planned.boundary(), &planned.attachments);
            sources = plan::with_summary(self.policy, &self.layout, &sources, &boundary, text, attachments);
        }
        let after = plan::view(self.policy, &sources);
        let summary = summary.map(|(planned, text)| (planned.clone(), text));
        (after.estimated_tokens < before.estimated_tokens).then_some(PreparedCompaction {
            removals,
            summary,
            before,
            after,
        })
    }

    /// Applies a compaction, and records its effect.
    fn commit(
        &mut self,
        prepared: PreparedCompaction,
        trigger: Trigger,
        level_policy: Option<(Level, &LevelPolicy)>,
        context_tokens: i64,
        guards: &Guards,
    ) {
        let PreparedCompaction { removals, summary, before, after } = prepared;
        let same = usize::try_from(plan::first_changed(&before, &after)).unwrap_or(usize::MAX);
        let changed = after.messages.get(same..).unwrap_or_default();
        let covers = SummaryPlan::covered_count;
        let compaction = SimulatedCompaction {
            message: self.count,
            level: level_policy.map(|(level, _)| level),
            kind: kind(&removals, summary.is_some()),
            refused: false,
            context_tokens,
            before_tokens: before.estimated_tokens,
            after_tokens: after.estimated_tokens,
            kept: 0,
            cleared: removals.parts.len(),
            summarized: summary.as_ref().map_or(0, |(plan, _)| covers(plan).saturating_sub(plan.retained.len())),
            omitted: removals.omitted.len(),
            reread_tokens: tokens::estimate_messages(self.policy, changed),
        };
        if let Some((plan, _)) = &summary {
            self.new_summary.get_or_insert_with(|| plan.clone());
        }
        self.write(&removals, summary.as_ref());
        // Usage in later replies is about the view that the agent itself gave its model, which is no longer this view.
        self.changed_revision = self.revision;
        self.fold_anew();
        let outcome = CompactionOutcome {
            tokens_before: before.estimated_tokens,
            tokens_after: after.estimated_tokens,
            usage_before: guards.usage_tokens,
            overhead_tokens: guards.overhead.unseen_tokens,
            ..CompactionOutcome::default()
        };
        let asked = level_policy.map_or(&self.policy.maintenance, |(_, level_policy)| &level_policy.steps);
        let kind = if trigger == Trigger::LastResort { CompactionKind::Omission } else { plan::kind(asked) };
        self.end(trigger, level_policy.map(|(level, _)| level), kind, Ok(outcome));
        self.simulated.push(SimulatedCompaction { kept: shown(&self.sources), ..compaction });
        self.note_context_usage();
    }

    /// Records the end of a compaction.
    fn end(
        &mut self,
        trigger: Trigger,
        level: Option<Level>,
        kind: CompactionKind,
        end: Result<CompactionOutcome, Failure>,
    ) {
        let id = CompactionId(self.next_id());
        let request = CompactionRequest::new(kind, trigger, level);
        let ended = Compaction::ended(id, request, self.window.context, end, self.revision, self.now);
        self.ended.insert(0, ended);
        self.ended.truncate(usize::try_from(limits::GUARD_COMPACTIONS).unwrap_or(usize::MAX));
    }

    /// Writes a compaction into the history: as marks, from which the layout is derived.
    fn write(&mut self, removals: &Removals, summary: Option<&(SummaryPlan, String)>) {
        let compaction = CompactionId(self.next_id());
        let written = summary.map(|(plan, text)| WrittenSummary { plan, text, summarizer: "", usage: None });
        // No continuation follows the summary: the transcript goes on with its own messages.
        let changes = plan::changes(self.planning(), removals, written);
        for row in changes::rows(self.revision + 1, self.revision, compaction, changes) {
            match row {
                Row::Message { kind, role, bodies, metadata_json: _ } => {
                    let parts = bodies.into_iter().map(NewPart::new).collect();
                    self.store(kind, role, parts, Finish::default());
                }
                Row::Pruned(body, parts) => {
                    let revision = self.next_revision();
                    self.marks.push(Mark { revision, body });
                    let pruned =
                        |(_, part, truncation)| (part, Pruned { part, compaction, truncation: Some(truncation) });
                    self.pruned.extend(parts.into_iter().map(pruned));
                }
                Row::Compacted(body) => {
                    let revision = self.next_revision();
                    self.marks.push(Mark { revision, body });
                }
            }
        }
        self.layout = layouts::layout_at(&self.marks, self.revision);
        self.sources = self.shown_by_layout();
    }

    /// The messages that the layout shows, in its order.
    fn shown_by_layout(&self) -> Vec<SourceMessage> {
        let mut sources = Vec::new();
        for span in &self.layout.spans {
            match *span {
                Span::Inline { first, last } => {
                    let last = last.unwrap_or(Revision::MAX);
                    let range = if first <= last { first..=last } else { continue };
                    let inline = self.history.range(range).map(|(_, message)| message);
                    sources.extend(
                        inline.filter(|message| message.kind.is_inline()).map(|message| self.source(message, None)),
                    );
                }
                Span::Placed { revision, placement } => {
                    sources.extend(self.history.get(&revision).map(|message| self.source(message, Some(placement))));
                }
            }
        }
        sources
    }

    fn source(&self, message: &Message, placement: Option<Placement>) -> SourceMessage {
        let pruned = message.parts.iter().filter_map(|part| self.pruned.get(&part.id).cloned()).collect();
        let counts = self.counts.get(&message.revision).cloned();
        SourceMessage { message: message.clone().into(), placement, pruned, counts }
    }
}

/// Kind of the strongest step of a compaction.
fn kind(removals: &Removals, has_summary: bool) -> CompactionKind {
    match (has_summary, removals.omitted.is_empty()) {
        (true, _) => CompactionKind::Summary,
        (false, true) => CompactionKind::Prune,
        (false, false) => CompactionKind::Omission,
    }
}

/// Number of original messages among those of a view.
fn shown(sources: &[SourceMessage]) -> usize {
    sources.iter().filter(|source| !source.message.kind.is_derived()).count()
}

#[cfg(test)]
mod tests;

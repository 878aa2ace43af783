//! Simulation of one session under one policy, message by message: the decisions of a daemon, without a daemon.
//!
//! The view is the real one: `fold::attempt` makes the compactions, they become marks, `model::layouts` derives the
//! layout, and `policy` renders it. The built-in summarizer writes the summaries, unless the caller passes another
//! writer. Only time is simplified: a compaction is active before the next message comes.

use crate::fold::attempt::{Answer, Attempt, AttemptInput, AttemptStep, SummaryTask, Writer};
use crate::fold::form::{Form, FormedView};
use crate::fold::guards::{self, GuardInput, Guards, RecoveryRequest};
use crate::fold::{Fold, FoldInput, PreparedCompaction};
use crate::model::Revision;
use crate::model::changes::{self, Changes, Row};
use crate::model::compaction::{
    Compaction, CompactionKind, CompactionRequest, Failure, FailureReason, Level, Outcome as CompactionOutcome,
};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::{Layout, Placement, Span};
use crate::model::layouts;
use crate::model::limits::BREAKER_FAILURES_MAX;
use crate::model::mark::Mark;
use crate::model::message::{Finish, GivenView, Message, MessageKind, NewMessage, Role};
use crate::model::part::{NewPart, Part, PartBody};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::{Counts, PrunedPart, SourceMessage, View};
use crate::policy::plan::{PlanningInput, SummaryPlan, WrittenSummary};
use crate::policy::summary::SummaryInput;
use crate::policy::{Policy, overflow, tokens};
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
    pub fn highest_tokens(&self) -> i64 {
        self.context_usage.iter().map(|point| point.tokens).max().unwrap_or_default()
    }

    /// Context usage at the end, in tokens.
    pub fn final_tokens(&self) -> i64 {
        self.context_usage.last().map_or(0, |point| point.tokens)
    }

    /// The compactions that were applied.
    pub fn compactions(&self) -> impl Iterator<Item = &SimulatedCompaction> {
        self.simulated.iter().filter(|compaction| !compaction.refused)
    }
}

/// The writer of a summary's text.
pub type WriteSummary<'a> = &'a dyn Fn(&SummaryInput) -> String;

/// What a summary of an input covers, in the writer's own form, from which the next summary is made.
pub type DigestSummary<'a> = &'a dyn Fn(&SummaryInput) -> String;

/// Plays a conversation under a policy, with this writer of its summaries and its digests of what they cover.
pub fn simulate(
    policy: &Policy,
    window: &ModelWindow,
    entries: &[TranscriptEntry],
    writer: WriteSummary<'_>,
    digest: DigestSummary<'_>,
) -> Outcome {
    let mut session = Session { digest: Some(digest), ..Session::new(policy, window, writer) };
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
pub struct FirstSummary {
    /// Plan of the summary.
    pub plan: SummaryPlan,
    /// Messages before the first message of the tail.
    pub before: Vec<Message>,
    /// Those of them that an id in the view expands: covered or omitted messages, and messages with shortened parts.
    pub expandable: Vec<Message>,
}

/// Plays a conversation under a policy up to the first summary; none if there is no summary.
pub fn first_summary(
    policy: &Policy,
    window: &ModelWindow,
    entries: &[TranscriptEntry],
    writer: WriteSummary<'_>,
) -> Option<FirstSummary> {
    let mut session = Session::new(policy, window, writer);
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

/// State of a simulated session: the rows and the fold that a daemon has of it.
pub struct Session<'a> {
    policy: &'a Policy,
    window: &'a ModelWindow,
    writer: WriteSummary<'a>,
    digest: Option<DigestSummary<'a>>,
    /// The digests of what each summary covers.
    digests: BTreeMap<CompactionId, String>,
    /// All messages, derived ones too, by revision.
    history: BTreeMap<Revision, Message>,
    /// Token counts of the messages, if the policy counts by encoding each text.
    counts: BTreeMap<Revision, Arc<Counts>>,
    marks: Vec<Mark>,
    /// Parts shortened by prune marks.
    pruned: BTreeMap<PartId, PrunedPart>,
    layout: Layout,
    /// Messages in the view.
    sources: Vec<SourceMessage>,
    /// The form of the view for the window's provider.
    formed: FormedView,
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

impl<'a> Session<'a> {
    /// A session without messages.
    pub fn new(policy: &'a Policy, window: &'a ModelWindow, writer: WriteSummary<'a>) -> Self {
        Self {
            policy,
            window,
            writer,
            digest: None,
            digests: BTreeMap::new(),
            history: BTreeMap::new(),
            counts: BTreeMap::new(),
            marks: Vec::new(),
            pruned: BTreeMap::new(),
            layout: Layout::everything(),
            sources: Vec::new(),
            formed: FormedView::default(),
            revision: 0,
            now: Timestamp::default(),
            count: 0,
            ids: 0,
            fold: Rc::new(Fold::new(FoldInput { policy, messages: &[], changed_revision: 0, window }, None)),
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
            sources: self.formed.shown(&self.sources),
            covered: self.formed.covered(),
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
        let Self { policy, window, changed_revision, .. } = *self;
        self.formed = FormedView::new(Form::of_window(window), &self.layout, &self.sources);
        let rows = FoldInput { policy, messages: self.formed.shown(&self.sources), changed_revision, window };
        self.fold = Rc::new(Fold::new(rows, None));
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
            let NewPart { client_id, body, metadata_json, received: _ } = part;
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
        let Self { policy, window, layout, sources, formed, changed_revision, fold, .. } = self;
        let unchanged = formed.extend(|| Form::of_window(window), layout, sources, kept);
        let messages = formed.shown(sources);
        let rows = FoldInput { policy, messages, changed_revision: *changed_revision, window };
        Rc::make_mut(fold).extend(rows, unchanged);
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
        let past = GuardInput { ended: &self.ended, guard_revision: 0, undo_revision: None };
        let guards = Guards::new(self.planning(), &fold, past);
        let request = match guards::recovery(self.planning(), &fold, &guards, &self.ended, self.changed_revision) {
            Some(RecoveryRequest::Needed(request) | RecoveryRequest::Worthwhile(request)) => request,
            None => match guards::decide(self.planning(), &fold, &guards) {
                Some(decision) => decision.request(self.policy),
                None => return false,
            },
        };
        let (step, input) = self.attempt(&fold, &guards, &request);
        match step {
            AttemptStep::Done(prepared) => self.commit(*prepared, request, input, &guards),
            AttemptStep::Failed(failure) | AttemptStep::Retry { failure, .. } => {
                self.fail(request, failure, input.is_some())
            }
            AttemptStep::Nothing | AttemptStep::Write(_) => return false,
        }
        true
    }

    /// An attempt with the writer of this session, to its end, and the newest summary with its plan.
    fn attempt(
        &self,
        fold: &Fold,
        guards: &Guards,
        request: &CompactionRequest,
    ) -> (AttemptStep, Option<(SummaryPlan, SummaryInput)>) {
        let (planning, writer) = (self.planning(), Writer::BuiltIn);
        let mut attempt = Attempt::new(AttemptInput { planning, fold, guards, request, writer, is_last: true });
        let mut step = attempt.begin();
        let mut newest = None;
        while let AttemptStep::Write(task) = step {
            let SummaryTask { plan, budget_tokens, .. } = *task;
            let mut input = SummaryInput { budget_tokens, ..SummaryInput::from_plan(&plan, &self.policy.counting, "") };
            let covered = self.layout.covered.as_ref().filter(|_| plan.previous.is_some());
            input.previous_digest = covered.and_then(|covered| self.digests.get(&covered.compaction).cloned());
            step = attempt.answer(Answer::Written(WrittenSummary::new(&plan, &(self.writer)(&input))));
            newest = Some((plan, input));
        }
        (step, newest)
    }

    /// Applies a compaction, and records its effect.
    fn commit(
        &mut self,
        prepared: PreparedCompaction,
        request: CompactionRequest,
        written: Option<(SummaryPlan, SummaryInput)>,
        guards: &Guards,
    ) {
        let PreparedCompaction { changes, tokens_before, after, first_changed_index, .. } = prepared;
        let same = usize::try_from(first_changed_index).unwrap_or(usize::MAX);
        let changed = after.messages.get(same..).unwrap_or_default();
        let summary = changes.summary.as_ref();
        let kind = match (summary, changes.omitted.is_empty()) {
            (Some(_), _) => CompactionKind::Summary,
            (None, true) => CompactionKind::Prune,
            (None, false) => CompactionKind::Omission,
        };
        let summarized = summary.map_or(0, |summary| {
            usize::try_from(summary.covered_count).unwrap_or(usize::MAX).saturating_sub(summary.retained.len())
        });
        let compaction = SimulatedCompaction {
            message: self.count,
            level: request.level,
            kind,
            refused: false,
            context_tokens: self.context_tokens(),
            before_tokens: tokens_before,
            after_tokens: after.estimated_tokens,
            kept: 0,
            cleared: changes.parts.len(),
            summarized,
            omitted: usize::try_from(changes.omitted_count).unwrap_or(usize::MAX),
            reread_tokens: tokens::estimate_messages(self.policy, changed),
        };
        let mut digest = None;
        if let Some((plan, input)) = written.filter(|_| summary.is_some()) {
            digest = self.digest.map(|digest| digest(&input));
            self.new_summary = self.new_summary.take().or(Some(plan));
        }
        let outcome = CompactionOutcome {
            tokens_before,
            tokens_after: after.estimated_tokens,
            usage_before: guards.usage_tokens,
            overhead_tokens: guards.overhead.unseen_tokens,
            ..CompactionOutcome::default()
        };
        let base = self.revision;
        let compaction_id = self.write(changes);
        self.digests.extend(digest.map(|digest| (compaction_id, digest)));
        // Usage in later replies is about the view that the agent itself gave its model, which is no longer this view.
        self.changed_revision = self.revision;
        self.fold_anew();
        self.end(request, base, Ok(outcome));
        self.simulated.push(SimulatedCompaction { kept: shown(&self.sources), ..compaction });
        self.note_context_usage();
    }

    /// Records a compaction that failed. One of a level is listed among the compactions.
    fn fail(&mut self, request: CompactionRequest, failure: Failure, asked_for_summary: bool) {
        let is_listed = request.level.is_some() && failure.reason != FailureReason::FixedOverhead;
        if is_listed {
            self.simulated.push(SimulatedCompaction {
                message: self.count,
                level: request.level,
                kind: if asked_for_summary { CompactionKind::Summary } else { request.kind },
                refused: true,
                context_tokens: self.context_tokens(),
                before_tokens: self.estimated_tokens(),
                after_tokens: self.estimated_tokens(),
                kept: shown(&self.sources),
                cleared: 0,
                summarized: 0,
                omitted: 0,
                reread_tokens: 0,
            });
        }
        self.end(request, self.revision, Err(failure));
    }

    /// Records the end of a compaction of the view at `base`.
    fn end(&mut self, request: CompactionRequest, base: Revision, end: Result<CompactionOutcome, Failure>) {
        let id = CompactionId(self.next_id());
        let ended = Compaction::ended(id, request, self.window.context, end, self.revision, self.now);
        let ended = Compaction { base_revision: Some(base), ..ended };
        self.ended.insert(0, ended);
        guards::forget(&mut self.ended, usize::try_from(BREAKER_FAILURES_MAX).unwrap_or(usize::MAX));
    }

    /// Writes a compaction into the history: as marks, from which the layout is derived. No continuation follows a
    /// summary: the transcript goes on with its own messages.
    fn write(&mut self, changes: Changes) -> CompactionId {
        let compaction = CompactionId(self.next_id());
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
                        |(_, part, truncation)| (part, PrunedPart { part, compaction, truncation: Some(truncation) });
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
        compaction
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

/// Number of original messages among those of a view.
fn shown(sources: &[SourceMessage]) -> usize {
    sources.iter().filter(|source| !source.message.kind.is_derived()).count()
}

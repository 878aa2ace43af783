//! P8, P9, P10, P12 and P15 as laws of every preset, on generated conversations.
//!
//! Each decision is made from scratch, from the rows and the ended compactions alone. It is executed as rows, and the
//! view is folded from these. Only time is simpler than in a daemon: a compaction ends before the next step begins.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::Value;
use uuid::Uuid;

use crate::fold::attempt::{Answer, Attempt, AttemptInput, AttemptStep, Writer};
use crate::fold::guards::{self, Decision, GuardInput, Guards, RecoveryRequest};
use crate::fold::{Fold, FoldInput, PreparedCompaction};
use crate::model::Revision;
use crate::model::compaction::{
    Compaction, CompactionKind, CompactionRequest, Failure, FailureReason, Level, Outcome, Trigger,
};
use crate::model::ids::{CompactionId, MessageId};
use crate::model::layout::OmitReason;
use crate::model::layouts::Marks;
use crate::model::limits::BREAKER_FAILURES_MAX;
use crate::model::mark::{Mark, MarkBody};
use crate::model::message::{FinishReason, Message, MessageKind, Role};
use crate::model::part::PartBody;
use crate::model::usage::ModelWindow;
use crate::model::view::{PartShortening, SourceMessage, View, ViewKind};
use crate::policy::last_resort::Size;
use crate::policy::maintenance::MaintenanceLimits;
use crate::policy::plan::{self, PlanningInput, Work, WrittenSummary, gain};
use crate::policy::{Policy, last_resort, overflow, pairing, tokens, validate};
use crate::presets;

mod found;
mod stored_session;

use stored_session::{Provider, Snapshot, StoredChange, StoredSession, provider, step};

/// Most decisions after one step: a level can find more to do after a lower one, but not for ever.
const DECISIONS_MAX: usize = 8;

/// What `last_resort::fixed` counts without the messages that stay together with it.
const STAYS_WITH_PARTNERS: [&str; 3] = ["pinned messages", "open messages", "calls that run"];

/// Presets whose agents count before every request and never send more than their limit.
const CUTS_BEFORE_EVERY_REQUEST: [&str; 6] =
    ["qwen-agent@old", "qwen-agent@0.0.34", "qwen-agent@dialogue-retrieval", "joyagent", "suna@2025-07", "suna@2026"];

/// Most tokens that pairing adds to the messages that the last resort leaves: markers and interrupted results.
const PAIRING_TOKENS: i64 = 400;

/// A preset with all its large numbers divided, so that a short conversation reaches its thresholds like a long one.
fn small(policy: &Policy, divisor: u64) -> Policy {
    fn divide(value: &mut Value, divisor: u64) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(|value| divide(value, divisor)),
            Value::Array(items) => items.iter_mut().for_each(|value| divide(value, divisor)),
            Value::Number(number) => {
                if let Some(large) = number.as_u64().filter(|large| *large >= 400) {
                    *value = Value::from((large / divisor).max(16));
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    let mut value = serde_json::to_value(policy).expect("a policy is JSON");
    divide(&mut value, divisor);
    let small: Policy = serde_json::from_value(value).expect("still a policy");
    assert_eq!(validate::validate(&small), [], "{}", policy.preset);
    small
}

/// A conversation and its circumstances.
#[derive(Debug, Clone)]
struct Conversation {
    divisor: u64,
    context: i64,
    /// Tokens that no estimate includes, in percent of the window.
    overhead: i64,
    /// The length of the summaries; none if every summary is refused.
    summary: Option<usize>,
    provider: Provider,
    steps: Vec<StoredChange>,
}

fn conversation() -> impl Strategy<Value = Conversation> {
    let divisor = prop_oneof![1 => Just(1_u64), 4 => Just(40_u64)];
    let overhead = prop_oneof![3 => Just(0_i64), 1 => 0_i64..=120, 1 => Just(200_i64)];
    let summary = prop_oneof![4 => 1_usize..60, 1 => 60_usize..2_000, 1 => 2_000_usize..40_000];
    let summary = prop_oneof![5 => summary.prop_map(Some), 1 => Just(None)];
    let steps = prop::collection::vec(step(), 5..45);
    (divisor, 1_000_i64..9_000, overhead, summary, provider(), steps).prop_map(
        |(divisor, context, overhead, summary, provider, steps)| Conversation {
            divisor,
            context,
            overhead,
            summary,
            provider,
            steps,
        },
    )
}

/// Counts of the changes in all conversations under a preset.
#[derive(Debug, Default)]
struct Counts {
    shortened: usize,
    omitted: usize,
    summaries: usize,
    last_resorts: usize,
    refused: usize,
    most_decisions: usize,
}

/// The same messages with their estimates, as the store keeps them.
fn counted(policy: &Policy, sources: &[SourceMessage]) -> Vec<SourceMessage> {
    let with_counts = |source: &SourceMessage| {
        let bodies: Vec<_> = source.message.parts.iter().map(|part| &*part.body).collect();
        let counts = tokens::count(policy, source.message.role, &bodies);
        SourceMessage { counts: Some(Arc::new(counts)), ..source.clone() }
    };
    sources.iter().map(with_counts).collect()
}

/// A decision with its inputs.
struct Evaluated<'a> {
    planning: PlanningInput<'a>,
    fold: Fold,
    guards: Guards,
    decision: Option<Decision>,
}

/// An automatic compaction that was applied.
struct Automatic {
    freed: i64,
    at: Revision,
    /// True for a last resort that could not leave a twentieth of the window free.
    is_full: bool,
    /// The estimate of the view after the newest one that only usage demanded although the view fitted: by its estimate,
    /// it reached no threshold.
    by_usage: Option<i64>,
}

/// A session whose compactions are made as the scheduler makes them.
struct Session<'a> {
    stored: StoredSession,
    /// The compactions that ended, newest first.
    ended: Vec<Compaction>,
    /// The newest automatic compaction.
    newest: Option<Automatic>,
    snapshots: Vec<Snapshot>,
    counts: &'a mut Counts,
}

impl Session<'_> {
    fn play(mut self, steps: &[StoredChange]) {
        for step in steps {
            let wrote = self.stored.take(step);
            if matches!(step, StoredChange::Undo | StoredChange::Pin(_) | StoredChange::Erase(_)) {
                // Guards begin anew.
                self.newest = None;
            }
            if matches!(step, StoredChange::Erase(_)) {
                // The views before had what is gone.
                self.snapshots.clear();
            }
            let before = self.stored.current();
            accounted(&self.stored, &before);
            self.snapshots.push(before.clone());
            let mut burst = vec![before];
            match step {
                StoredChange::Prune => self.by_hand(None, &mut burst),
                StoredChange::ApplyLevel => {
                    let highest = self.stored.policy.levels().next_back().map(|(level, _)| level);
                    highest.into_iter().for_each(|level| self.by_hand(Some(level), &mut burst));
                }
                _ if wrote => self.compact(&mut burst),
                _ => {}
            }
            self.undo(&burst);
            self.snapshots.extend(burst.into_iter().skip(1));
        }
        self.reread_all();
        self.rewind_everywhere();
        self.undo_everything();
    }

    /// A rewind to any message of the conversation, or a fork behind it, shows a view that ends in that message, or
    /// reports that the summary at its end covers it.
    fn rewind_everywhere(&self) {
        let (now, mut marks) = (self.stored.current(), self.stored.marks.clone());
        let edited = |revision| {
            let at_its_position = |source: &&SourceMessage| plan::slot(source) == revision;
            now.sources.iter().find(at_its_position).map_or(revision, |source| source.message.revision)
        };
        let at = self.stored.revision + 1;
        for message in self.stored.originals() {
            let after = message.revision;
            marks.push(Mark { revision: at, body: MarkBody::Rewound { after, has_summary: false, of_fork: true } });
            let Snapshot { layout, sources, view, .. } = self.stored.snapshot(&marks, at);
            marks.pop();
            assert_eq!(pairing::violations(&view.messages), Vec::<String>::new(), "behind {after}");
            let ends = sources.last().is_some_and(|last| last.message.revision == edited(after));
            let covered = layout.covered.iter().any(|covered| covered.ranges.iter().any(|range| range.contains(after)));
            let has_replay = layout
                .omitted
                .iter()
                .any(|omitted| omitted.range.contains(after) && omitted.reason == OmitReason::Replayed);
            assert!(ends || covered || has_replay, "rewound to {after}: {:?}", layout);
        }
    }

    /// A policy whose agent cuts before every request keeps its views within its limit, unless nothing more may go.
    fn check_limit(&self, Evaluated { planning, fold, guards, .. }: &Evaluated<'_>) {
        let PlanningInput { policy, window, .. } = *planning;
        let by_estimate = fold.view.estimated_tokens.saturating_add(window.overhead);
        let is_held = !policy.trigger.auto || guards.holds_after_undo || guards.reported_overhead.is_some();
        // Qwen-Agent's pass can leave a token too many, and is not made on its own result.
        let newest = self.ended.first().and_then(|compaction| compaction.base_revision);
        let is_unchanged = newest.is_some_and(|base| fold.growth_since(*planning, base) == 0);
        let is_own_result = policy.guards.rearm_ratio > 0.0 && is_unchanged;
        if is_held || is_own_result || !CUTS_BEFORE_EVERY_REQUEST.contains(&&*policy.preset) {
            return;
        }
        let level_policy = policy.auto.as_ref().expect("a level");
        let tokens = fold.context_tokens(window);
        if level_policy.due_at(window).is_some_and(|due| tokens >= due && by_estimate >= due) {
            let freed = foreseen(*planning, &plan::apply(*planning, level_policy, tokens));
            assert!(freed < 1, "{tokens} tokens, by the estimate {by_estimate}, and {freed} could go: {guards:?}");
        }
    }

    /// The decision about a view, from scratch.
    fn decide<'a>(&self, planning: PlanningInput<'a>) -> Evaluated<'a> {
        let (guard_revision, undo_revision) = self.stored.changes();
        let past = GuardInput { ended: &self.ended, guard_revision, undo_revision };
        let changed_revision = self.stored.changed_revision();
        let PlanningInput { policy, sources: messages, window, .. } = planning;
        let rows = FoldInput { policy, messages, changed_revision, window };
        let fold = Fold::new(rows, None);
        let guards = Guards::new(planning, &fold, past);
        let decision = guards::decide(planning, &fold, &guards);
        let tokens = fold.context_tokens(window);
        if !MaintenanceLimits::from_policy(policy, window).are_exceeded(fold.maintenance_counts(window)) {
            let maintenance = |decision: plan::Decision| decision.level().is_none();
            let found = plan::decide(planning, tokens, maintenance, |_, _| true);
            assert_eq!(found, None, "there is maintenance although no count announces it");
        }
        Evaluated { planning, fold, guards, decision }
    }

    /// Makes automatic compactions until nothing is due.
    fn compact(&mut self, burst: &mut Vec<Snapshot>) {
        for decisions in 0.. {
            let before = self.stored.current();
            let planning = self.stored.planning(&before);
            let evaluated = self.decide(planning);
            let counted = counted(&self.stored.policy, planning.sources);
            let of_counts = self.decide(PlanningInput { sources: &counted, ..planning });
            assert_eq!(evaluated.decision, of_counts.decision, "counts change no decision");
            assert_eq!(evaluated.guards, of_counts.guards, "counts change no guard");
            self.check_decision(&evaluated);
            let request = match (self.recovery(&evaluated), evaluated.decision) {
                (Some(request), _) => request,
                (None, Some(decision)) => decision.request(&self.stored.policy),
                (None, None) => {
                    self.check_fit(&evaluated);
                    self.check_limit(&evaluated);
                    break;
                }
            };
            assert!(decisions < DECISIONS_MAX, "no end of it: {request:?}");
            self.counts.most_decisions = self.counts.most_decisions.max(decisions + 1);
            let (usage_before, overhead) = (evaluated.guards.usage_tokens, evaluated.guards.overhead.unseen_tokens);
            match self.attempt(&evaluated, &request) {
                AttemptStep::Done(prepared) => {
                    let outcome = Outcome {
                        tokens_before: before.view.estimated_tokens,
                        tokens_after: prepared.after.estimated_tokens,
                        usage_before,
                        overhead_tokens: overhead,
                        ..Outcome::default()
                    };
                    self.newest = Some(self.worthwhile(&evaluated, &request, &outcome));
                    self.counts.last_resorts += usize::from(request.trigger == Trigger::LastResort);
                    self.commit(&before, *prepared, request.trigger, burst);
                    self.end(request, Ok(outcome));
                }
                AttemptStep::Failed(failure) => {
                    self.counts.refused += 1;
                    self.end(request, Err(failure));
                }
                step => panic!("P7: {request:?} began, and ends in {step:?}"),
            }
        }
    }

    /// The recovery from an overflow that the newest reply reports.
    fn recovery(&self, Evaluated { planning, fold, guards, .. }: &Evaluated<'_>) -> Option<CompactionRequest> {
        let changed = self.stored.changed_revision();
        guards::recovery(*planning, fold, guards, &self.ended, changed).map(|recovery| match recovery {
            RecoveryRequest::Needed(request) | RecoveryRequest::Worthwhile(request) => request,
        })
    }

    /// P12: no two automatic compactions free little without a message of the user between them, and no usage makes a
    /// small view compact again.
    fn worthwhile(&self, evaluated: &Evaluated<'_>, request: &CompactionRequest, outcome: &Outcome) -> Automatic {
        let Evaluated { planning, fold, guards, .. } = evaluated;
        let PlanningInput { policy, window, base, .. } = *planning;
        // In the tokens of the request: usage can be a multiple of the estimate.
        let size = Size {
            context_tokens: fold.context_tokens(window),
            estimated_tokens: outcome.tokens_before,
            overhead_tokens: guards.overhead.unseen_tokens,
        };
        let left = size.context_tokens_of(outcome.tokens_after);
        let freed = size.context_tokens.saturating_sub(left).max(outcome.tokens_before - outcome.tokens_after);
        let usual = gain::least(policy, window, &[], true).min(window.context / 20);
        let is_users = |message: &&Message| message.role == Role::User && message.kind == MessageKind::Normal;
        let spoken = self.stored.originals().filter(is_users).map(|message| message.revision).max().unwrap_or(0);
        if let Some(before) = &self.newest {
            // What may not be removed can leave so little space that every message needs a last resort. A policy that keeps
            // a limit frees what exceeds it.
            let keeps_limit = CUTS_BEFORE_EVERY_REQUEST.contains(&&*policy.preset);
            let is_little = freed < usual && before.freed < usual && !before.is_full && !keeps_limit;
            assert!(!is_little || spoken > before.at, "{request:?} frees {freed} after {}", before.freed);
        }
        let estimate = fold.view.estimated_tokens;
        let by_estimate = estimate.saturating_add(window.overhead);
        let limit = window.input_max().unwrap_or(i64::MAX);
        let is_full = request.trigger == Trigger::LastResort && left > limit.saturating_sub(window.context / 20);
        let is_below = overflow::due_at(policy, window).is_none_or(|due| by_estimate < due);
        let is_small = fold.fits(window) && by_estimate <= limit && is_below;
        let earlier = self.newest.as_ref().and_then(|before| before.by_usage);
        if request.trigger == Trigger::Maintenance || !is_small {
            return Automatic { freed, at: base, is_full, by_usage: earlier.filter(|_| is_small) };
        }
        if let Some(earlier) = earlier {
            let (grown, freed) = (estimate - earlier, outcome.tokens_before - outcome.tokens_after);
            let is_worth_it = grown >= usual || freed >= usual;
            assert!(is_worth_it, "{request:?} frees {freed} after {grown} tokens: {:?}", fold.usage_sample());
        }
        Automatic { freed, at: base, is_full, by_usage: Some(outcome.tokens_after) }
    }

    /// An attempt of a compaction to its end, with the summaries of this conversation.
    fn attempt(&self, evaluated: &Evaluated<'_>, request: &CompactionRequest) -> AttemptStep {
        let Evaluated { planning, fold, guards, .. } = evaluated;
        let (planning, writer) = (*planning, Writer::BuiltIn);
        let mut attempt = Attempt::new(AttemptInput { planning, fold, guards, request, writer, is_last: true });
        let mut step = attempt.begin();
        while let AttemptStep::Write(task) = step {
            step = attempt.answer(match &self.stored.summary {
                Some(text) => Answer::Written(WrittenSummary::new(&task.plan, text)),
                None => Answer::Failed(Failure::new(FailureReason::SummarizerFailed, "it refuses every summary")),
            });
        }
        step
    }

    /// P15: after all decisions a view fits its window, or a guard names the reason why not.
    fn check_fit(&self, Evaluated { planning, fold, guards, .. }: &Evaluated<'_>) {
        let is_off = !planning.policy.trigger.auto || guards.holds_after_undo;
        let is_excepted = is_off || guards.reported_overhead.is_some();
        assert!(fold.fits(planning.window) || is_excepted, "it does not fit: {guards:?}");
        if !is_off {
            let left = guards::last_resort_removals(*planning, fold, guards);
            assert!(left.is_empty(), "what may be removed stays: {left:?} under {guards:?}");
            // Pins, open messages and running calls can have partners that stay with them.
            let fixed = last_resort::fixed(*planning);
            let is_bounded = is_bounded(planning, &fixed);
            // Twice the twentieth that the last resort leaves and that it must free, beside what it may not remove. Where
            // usage alone says that the view exceeds its window, it waits until the view has grown.
            let fixed = fixed.iter().map(|(_, tokens)| tokens).sum::<i64>();
            let waits = guards.growth_tokens.is_some() && fits_by_estimate(planning, fold);
            let (tokens, most) = (fold.view.estimated_tokens, fixed + planning.window.context / 10 + PAIRING_TOKENS);
            let is_small = tokens <= most || fold.fits(planning.window) || waits;
            assert!(is_small || !is_bounded, "{tokens} tokens, of which {fixed} are fixed");
        }
    }

    /// The first candidate that is worth its price is decided; none if there is none.
    fn check_decision(&self, Evaluated { planning, fold, guards, decision }: &Evaluated<'_>) {
        let (planning, policy) = (*planning, planning.policy);
        if !policy.trigger.auto || guards.holds_after_undo {
            assert_eq!(*decision, None);
            return;
        }
        let tokens = fold.context_tokens(planning.window);
        let reached =
            overflow::reached(policy, planning.window, tokens).filter(|(level, _)| guards.allow(policy, *level));
        let level_policies = reached.flat_map(|(level, level_policy)| {
            plan::tail_fallbacks(level_policy).into_iter().map(move |level_policy| (level, level_policy))
        });
        let works = level_policies.map(|(level, level_policy)| {
            let work = plan::apply(planning, &level_policy, tokens);
            (plan::Decision::Level(level), level_policy.steps, work)
        });
        let may_maintain = guards.allow_kind(plan::kind(&policy.maintenance));
        let maintenance = (plan::Decision::Maintenance, policy.maintenance.clone(), plan::maintenance(planning));
        for (candidate, steps, work) in works.chain(may_maintain.then_some(maintenance)) {
            let least = gain::least(policy, planning.window, work.figures(&steps), false);
            let freed = foreseen(planning, &work);
            if *decision == Some(Decision::Steps(candidate)) && plan::work_of(planning, candidate, tokens) == work {
                assert!(freed >= least, "{candidate:?} frees {freed} of {least}");
                return;
            }
            let is_free = policy.guards.max_reread_per_freed.is_none();
            let is_refused = !guards.accepts(planning, fold, candidate, freed);
            let passed_over = work.is_empty() || freed < least || !is_free || is_refused;
            assert!(passed_over, "{decision:?} and not {candidate:?}, which frees {freed} of {least}");
        }
        assert!(matches!(decision, None | Some(Decision::LastResort)), "{decision:?} came from nowhere");
    }

    /// A compaction by hand: of the highest level, or a prune.
    fn by_hand(&mut self, level: Option<Level>, burst: &mut Vec<Snapshot>) {
        let policy = &self.stored.policy;
        let kind =
            level.and_then(|level| policy.level(level)).map_or(CompactionKind::Prune, |it| plan::kind(&it.steps));
        let request = CompactionRequest::new(kind, Trigger::Manual, level);
        let before = self.stored.current();
        if let AttemptStep::Done(prepared) = self.attempt(&self.decide(self.stored.planning(&before)), &request) {
            let (tokens_before, tokens_after) = (before.view.estimated_tokens, prepared.after.estimated_tokens);
            self.newest = None;
            self.commit(&before, *prepared, Trigger::Manual, burst);
            self.end(request, Ok(Outcome { tokens_before, tokens_after, ..Outcome::default() }));
        }
    }

    /// Commits a compaction, and checks the resulting view against the laws.
    fn commit(&mut self, before: &Snapshot, prepared: PreparedCompaction, trigger: Trigger, burst: &mut Vec<Snapshot>) {
        let PreparedCompaction { changes, after, .. } = prepared;
        self.counts.shortened += usize::from(!changes.parts.is_empty());
        self.counts.omitted += usize::from(!changes.omitted.is_empty());
        self.counts.summaries += usize::from(changes.summary.is_some());
        self.stored.commit(before, changes);
        let snapshot = self.stored.current();
        assert_eq!(shown(&snapshot.view), shown(&after), "what was measured is what is in force");
        assert!(snapshot.view.estimated_tokens < before.view.estimated_tokens, "a compaction adds nothing");
        accounted(&self.stored, &snapshot);
        unfinished_stays(before, &snapshot, trigger == Trigger::LastResort);
        pairs_stay_together(before, &snapshot);
        burst.push(snapshot);
    }

    /// Records the end of a compaction, at a revision of its own.
    fn end(&mut self, request: CompactionRequest, end: Result<Outcome, Failure>) {
        let base_revision = Some(self.stored.revision);
        let end_revision = self.stored.tick();
        let (id, window, now) = (CompactionId(Uuid::nil()), &self.stored.window, self.stored.now);
        let ended = Compaction::ended(id, request, window.context, end, end_revision, now);
        self.ended.insert(0, Compaction { base_revision, ..ended });
        guards::forget(&mut self.ended, usize::try_from(BREAKER_FAILURES_MAX).expect("a small number"));
    }

    /// Undoes the newest compactions, the newest first, and checks each view against the earlier one.
    fn undo(&self, burst: &[Snapshot]) {
        let mut marks = self.stored.marks.clone();
        let mut at = self.stored.revision;
        for earlier in burst.iter().rev().skip(1) {
            let mark = Marks::at(&marks, at).newest_change().expect("a compaction to take back").target;
            at += 1;
            marks.push(Mark { revision: at, body: MarkBody::Undone { mark } });
            assert_eq!(self.stored.snapshot(&marks, at).view, earlier.view, "the view as it was before");
        }
    }

    /// Reads all earlier views again.
    fn reread_all(&self) {
        for snapshot in &self.snapshots {
            assert_eq!(&self.stored.snapshot(&self.stored.marks, snapshot.at), snapshot);
        }
    }

    /// Checks that the view without any compaction is the history.
    fn undo_everything(&mut self) {
        while let Some(found) = Marks::at(&self.stored.marks, self.stored.revision).newest_change() {
            self.stored.mark(MarkBody::Undone { mark: found.target });
        }
        let whole = self.stored.snapshot(&[], self.stored.revision);
        assert_eq!(self.stored.current().view, whole.view, "everything is there again");
    }
}

/// The tokens that the view loses by the result of steps, with a summary as long as the current one.
fn foreseen(planning: PlanningInput<'_>, work: &Work) -> i64 {
    let PlanningInput { policy, layout, sources, .. } = planning;
    let mut after = plan::with_removals(sources, &work.removals, CompactionId(Uuid::nil()));
    if let Some(summary) = &work.summary {
        let expected =
            summary.previous.as_ref().and_then(|_| plan::shown_summary(sources)).unwrap_or_else(|| " ".to_owned());
        after = plan::with_summary(policy, layout, &after, &summary.boundary(), &expected, &summary.attachments);
    }
    plan::view(policy, sources).estimated_tokens - plan::view(policy, &after).estimated_tokens
}

/// The role, the kind, and the parts with the shortening of each.
type Shown = (Role, ViewKind, Vec<(PartBody, Option<PartShortening>)>);

/// The contents of a view without the ids of its messages.
fn shown(view: &View) -> (i64, Vec<Shown>) {
    let messages = view.messages.iter().map(|message| {
        let parts = message.parts.iter().map(|part| ((*part.body).clone(), part.shortened)).collect();
        (message.role, message.kind, parts)
    });
    (view.estimated_tokens, messages.collect())
}

/// P9: a view that is shortened for one call is valid model input too, names what it leaves out, and fits unless what
/// the last resort may not remove does not.
fn shortened_is_valid(stored: &StoredSession, snapshot: &Snapshot) {
    let StoredSession { policy, window, .. } = stored;
    // No usage is of this view: the sizes are those of the estimate.
    let rows = FoldInput { policy, messages: &snapshot.sources, changed_revision: Revision::MAX, window };
    let whole = Fold::new(rows, None);
    for context in [stored.window.context / 2, stored.window.context / 8] {
        let window = ModelWindow { context, ..ModelWindow::default() };
        let planning = PlanningInput { window: &window, ..stored.planning(snapshot) };
        let shorter = whole.shortened(planning);
        assert_eq!(pairing::violations(&shorter.view.messages), Vec::<String>::new(), "in {context}");
        let shown: BTreeSet<Revision> = shorter.view.messages.iter().map(|message| message.revision).collect();
        for message in &whole.view.messages {
            let is_named = shorter.omitted.binary_search(&message.revision).is_ok();
            assert!(
                message.source.is_none() || is_named != shown.contains(&message.revision),
                "{message:?} in {context}"
            );
        }
        let fixed = last_resort::fixed(planning);
        let is_bounded = is_bounded(&planning, &fixed);
        let fixed = fixed.iter().map(|(_, tokens)| tokens).sum::<i64>() + PAIRING_TOKENS;
        let tokens = shorter.context_tokens;
        assert!(shorter.fits || tokens <= fixed || !is_bounded, "{tokens} in {context}, of which {fixed} are fixed");
    }
}

/// True if nothing that stays has partners that stay with it, so that what is fixed is all that may stay.
fn is_bounded(planning: &PlanningInput<'_>, fixed: &[(&str, i64)]) -> bool {
    // A call without a result can count nothing.
    let calls_run = !unanswered_calls(&planning.sources.iter().collect::<Vec<_>>()).is_empty();
    !calls_run && fixed.iter().all(|(what, tokens)| *tokens == 0 || !STAYS_WITH_PARTNERS.contains(what))
}

/// True if a request with the view fits the window by the view's own estimate.
fn fits_by_estimate(planning: &PlanningInput<'_>, fold: &Fold) -> bool {
    let tokens = fold.view.estimated_tokens.saturating_add(planning.window.overhead);
    planning.window.input_max().is_none_or(|limit| tokens <= limit)
}

/// P8 and P9: every message is shown, shortened, covered by the summary in the view, or omitted by a mark; and the view
/// is valid model input.
fn accounted(stored: &StoredSession, snapshot: &Snapshot) {
    let Snapshot { layout, sources, view, .. } = snapshot;
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    let summaries: Vec<Revision> = view
        .messages
        .iter()
        .filter(|message| message.kind == ViewKind::Summary)
        .map(|message| message.revision)
        .collect();
    match &layout.covered {
        Some(covered) => assert!(!summaries.is_empty() && summaries.iter().all(|summary| *summary == covered.summary)),
        None => assert!(summaries.is_empty(), "a summary without its mark"),
    }
    let shown: BTreeSet<MessageId> = view.messages.iter().filter_map(|message| message.source).collect();
    let mut found: HashMap<MessageId, &SourceMessage> = HashMap::new();
    for source in sources {
        assert!(found.insert(source.message.id, source).is_none(), "{:?} stands there twice", source.message);
    }
    for message in stored.originals().filter(|message| message.revision <= snapshot.at) {
        let revision = message.revision;
        let is_covered =
            layout.covered.iter().flat_map(|covered| &covered.ranges).any(|range| range.contains(revision));
        let is_omitted = layout.omitted.iter().any(|omitted| omitted.range.contains(revision));
        let is_pinned = layout.pinned.contains(&revision);
        let Some(source) = found.get(&message.id) else {
            assert!(!is_pinned, "{message:?} is pinned and gone");
            assert!(is_covered || is_omitted, "{message:?} is nowhere: {layout:?}");
            continue;
        };
        assert_eq!(is_covered, source.placement.is_some(), "{message:?} stands at {:?}: {layout:?}", source.placement);
        assert!(!is_omitted, "{message:?} is shown and left out: {layout:?}");
        assert!(!is_pinned || source.pruned.is_empty(), "{message:?} is pinned and shortened");
        let is_silent =
            |body: &PartBody| matches!(body, PartBody::Text(text) | PartBody::Reasoning(text) if text.is_empty());
        let mut speaking = source.message.parts.iter().filter(|part| !is_silent(&part.body));
        let is_shortened = speaking.all(|part| source.pruned_part(part.id).is_some());
        assert!(shown.contains(&message.id) || is_shortened, "{message:?} is not in the view");
    }
    inputs_are_json(stored, view);
    shortened_is_valid(stored, snapshot);
}

/// Checks that inputs of calls that were JSON are still JSON.
fn inputs_are_json(stored: &StoredSession, view: &View) {
    let parts = stored.messages.values().flat_map(|message| &message.parts);
    let originals: BTreeMap<_, _> = parts.map(|part| (part.id, &*part.body)).collect();
    let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    for part in view.messages.iter().flat_map(|message| &message.parts) {
        if let (PartBody::ToolCall(call), Some(id)) = (&*part.body, part.source)
            && let Some(PartBody::ToolCall(original)) = originals.get(&id)
            && is_json(&original.input_json)
        {
            assert!(is_json(&call.input_json), "{original:?} became {call:?}");
        }
    }
}

fn has_own_position(source: &&SourceMessage) -> bool {
    source.placement.is_none() && source.message.kind == MessageKind::Normal
}

/// The messages of the view that no compaction may remove: open ones, calls that still run, and messages that the model
/// has not answered yet. Of the unanswered ones, the last resort spares only the newest request.
fn unfinished(sources: &[SourceMessage], is_last_resort: bool) -> BTreeSet<Revision> {
    let inline: Vec<&SourceMessage> = sources.iter().filter(has_own_position).collect();
    let is_reply = |source: &&SourceMessage| {
        let message = &source.message;
        message.role == Role::Assistant
            && message.sealed_revision.is_some()
            && message.finish.reason != Some(FinishReason::Error)
    };
    let last_reply = inline.iter().rposition(is_reply);
    let unanswered = unanswered_calls(&inline);
    let newest_request = inline.iter().rposition(|source| source.message.role == Role::User);
    let mut unfinished = BTreeSet::new();
    for (index, source) in inline.iter().enumerate() {
        let is_open = source.message.sealed_revision.is_none();
        let is_unread =
            if is_last_resort { newest_request == Some(index) } else { last_reply.is_none_or(|reply| index > reply) };
        if is_open || is_unread || unanswered.contains(&index) && runs(&inline[index..]) {
            unfinished.insert(source.message.revision);
        }
    }
    unfinished
}

/// True if a call without a result in the first message still runs: the model has not replied since it received
/// something.
fn runs(inline: &[&SourceMessage]) -> bool {
    let has_result =
        |source: &SourceMessage| source.message.parts.iter().any(|part| matches!(*part.body, PartBody::ToolResult(_)));
    let heard = inline.iter().position(|source| source.message.role != Role::Assistant || has_result(source));
    heard.is_none_or(|heard| inline[heard + 1..].iter().all(|source| source.message.role != Role::Assistant))
}

/// The pairs of call and result by message index, and the indexes of messages with waiting calls.
fn answered_calls(messages: &[&SourceMessage]) -> (Vec<(usize, usize)>, BTreeSet<usize>) {
    let mut waiting: Vec<(&str, usize)> = Vec::new();
    let mut answered = Vec::new();
    for (index, source) in messages.iter().enumerate() {
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &*part.body {
                waiting.push((&call.call_id, index));
            } else if let PartBody::ToolResult(result) = &*part.body
                && let Some(at) = waiting.iter().rposition(|(id, _)| *id == result.call_id)
            {
                answered.push((waiting.remove(at).1, index));
            }
        }
    }
    (answered, waiting.into_iter().map(|(_, index)| index).collect())
}

fn unanswered_calls(messages: &[&SourceMessage]) -> BTreeSet<usize> {
    answered_calls(messages).1
}

/// Unfinished messages keep their positions, and open messages stay unchanged.
fn unfinished_stays(before: &Snapshot, after: &Snapshot, is_last_resort: bool) {
    let stays: HashMap<Revision, &SourceMessage> =
        after.sources.iter().filter(has_own_position).map(|source| (source.message.revision, source)).collect();
    for revision in unfinished(&before.sources, is_last_resort) {
        assert!(stays.contains_key(&revision), "{revision} was not finished, and is gone");
    }
    for source in before.sources.iter().filter(|source| source.message.sealed_revision.is_none()) {
        assert_eq!(stays.get(&source.message.revision), Some(&source), "an open message was shortened");
    }
}

/// No compaction separates a result from its call: both stay in the view or neither, except that pinned messages stay.
fn pairs_stay_together(before: &Snapshot, after: &Snapshot) {
    let messages: Vec<&SourceMessage> = before.sources.iter().collect();
    let there: BTreeSet<Revision> = after.sources.iter().map(|source| source.message.revision).collect();
    for (call, result) in answered_calls(&messages).0 {
        let (call, result) = (messages[call].message.revision, messages[result].message.revision);
        let is_pinned = [call, result].iter().any(|revision| after.layout.pinned.contains(revision));
        assert!(
            is_pinned || there.contains(&call) == there.contains(&result),
            "the call in {call} was parted from its result in {result}"
        );
    }
}

fn play(preset: &presets::Preset, conversation: &Conversation, counts: &mut Counts) {
    let window = ModelWindow {
        context: conversation.context,
        output: Some(conversation.context / 5),
        overhead: conversation.overhead * conversation.context / 100,
        ..ModelWindow::default()
    };
    let summary = conversation.summary.map(|length| "摘要 summary \u{1F680} ".chars().cycle().take(length).collect());
    let policy = small(&preset.policy(), conversation.divisor);
    let stored = StoredSession::new(policy, window, summary, conversation.provider);
    Session { stored, ended: Vec::new(), newest: None, snapshots: Vec::new(), counts }.play(&conversation.steps);
}

/// The number of conversations for each preset.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12)
}

#[test]
fn the_laws_hold_under_every_preset() {
    let mut failures = Vec::new();
    for preset in presets::all() {
        let counts = RefCell::new(Counts::default());
        let config = Config { cases: cases(), max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&conversation(), |conversation| {
            play(preset, &conversation, &mut counts.borrow_mut());
            Ok(())
        });
        match outcome {
            Ok(()) => println!("{} {:?}", preset.name, counts.borrow()),
            Err(TestError::Fail(why, conversation)) => {
                failures.push(format!("{}: {why}\n{conversation:?}", preset.name))
            }
            Err(TestError::Abort(why)) => failures.push(format!("{}: {why}", preset.name)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

//! One attempt of a compaction, from its plan to its changes.
//!
//! The scheduler's workers, previews, `simulate`, `evaluate` and the laws all make their compactions here, so that they
//! cannot differ. The writer of summaries is a parameter: an attempt stops at `AttemptStep::Write`, and continues with the
//! caller's `Answer`. It does nothing else than compute.
//!
//! A level's steps are tried with the policy's tail and with smaller ones, until a summary frees enough or a failure
//! ends the attempt. If the configured writer fails, the policy's fallback replaces its summary; without one the built-in
//! writer writes it, and if that fails too, the removals of the other steps replace it. If nothing can be removed, a compaction by hand has nothing to do, and for others the last resort follows.

use super::Fold;
use super::guards::{self, Guards};
use super::prepared::{PreparedCompaction, other_steps, policy_fallback};
use crate::model::compaction::{CompactionRequest, Failure, FailureReason, Trigger};
use crate::model::ids::CompactionId;
use crate::model::truncation::Removals;
use crate::model::view::SourceMessage;
use crate::policy::plan::{self, PlanningInput, SummaryPlan, Work, WrittenSummary, gain};
use crate::policy::replay::{self, Overflow};
use crate::policy::{LevelPolicy, PolicyStep};
use uuid::Uuid;

/// Number of summaries that the built-in writer writes for one plan, each with half the budget of the one before.
const TRIES: u32 = 3;

/// A writer of summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The summarizer that is configured for the level: asked once for each plan.
    Configured,
    /// The built-in summarizer, which is asked for shorter and shorter summaries.
    BuiltIn,
}

/// The circumstances of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct AttemptInput<'a> {
    /// The view at the base, with the policy and the window.
    pub planning: PlanningInput<'a>,
    /// The fold of that view.
    pub fold: &'a Fold,
    /// The guards at the base.
    pub guards: &'a Guards,
    /// The request.
    pub request: &'a CompactionRequest,
    /// The first writer of each summary. The built-in one follows a configured one that fails.
    pub writer: Writer,
    /// True if no other attempt follows.
    pub is_last: bool,
}

/// A summary to be written.
#[derive(Debug, Clone)]
pub struct SummaryTask {
    /// The plan of the summary.
    pub plan: SummaryPlan,
    /// The number of the plan in this attempt, from 1; tasks for the same plan have the same number.
    pub number: usize,
    /// The writer.
    pub writer: Writer,
    /// Maximum length of the summary, in tokens.
    pub budget_tokens: i64,
}

/// The next step of an attempt.
#[derive(Debug)]
pub enum AttemptStep {
    /// A summary is to be written; `Attempt::answer` continues.
    Write(Box<SummaryTask>),
    /// The compaction is ready to be committed.
    Done(Box<PreparedCompaction>),
    /// There is nothing to do.
    Nothing,
    /// The compaction fails.
    Failed(Failure),
    /// Another attempt may succeed.
    Retry {
        /// The reason.
        failure: Failure,
        /// Delay that a provider demands before its next request.
        retry_after_ms: Option<i64>,
    },
}

/// The answer to a task.
#[derive(Debug)]
pub enum Answer<'a> {
    /// A summary. Its plan may be an edited one.
    Written(WrittenSummary<'a>),
    /// A compaction with a client's summary, which `Attempt::check` accepted.
    Accepted(Box<PreparedCompaction>),
    /// The writer failed, and would fail again.
    Failed(Failure),
    /// The writer cannot be reached, or demands a delay.
    Unavailable {
        /// The reason.
        failure: Failure,
        /// The delay.
        retry_after_ms: Option<i64>,
    },
    /// The writer could not be asked.
    Interrupted(Failure),
    /// A hook refuses the compaction, or a required hook failed: nothing else may replace the summary.
    Refused(Failure),
}

/// An attempt in progress.
pub struct Attempt<'a> {
    input: AttemptInput<'a>,
    /// Removals before any step of the level, and the messages after them.
    removed: Removals,
    sources: Vec<SourceMessage>,
    /// The level with the tails that are still to be tried.
    variants: std::vec::IntoIter<LevelPolicy>,
    /// The plan whose summary is being written.
    candidate: Option<Candidate>,
    /// Number of plans whose summaries were asked for.
    plans: usize,
    /// The failure of a configured writer that cannot be waited for: the built-in one replaces it from then on.
    unavailable: Option<Failure>,
    /// The first fallback for a summary that could not be made.
    fallback: Option<PreparedCompaction>,
    /// The failure of the newest summary.
    failure: Option<Failure>,
}

/// Planned work with a summary that is being written.
struct Candidate {
    removals: Removals,
    plan: SummaryPlan,
    gain_min: i64,
    writer: Writer,
    budget_tokens: i64,
    /// Number of summaries of the built-in writer.
    tries: u32,
    /// The first compaction that frees enough although the view would still exceed its window.
    too_large: Option<PreparedCompaction>,
    failure: Failure,
}

impl<'a> Attempt<'a> {
    /// An attempt of a compaction.
    pub fn new(input: AttemptInput<'a>) -> Self {
        let mut attempt = Self {
            input,
            removed: Removals::default(),
            sources: Vec::new(),
            variants: Vec::new().into_iter(),
            candidate: None,
            plans: 0,
            unavailable: None,
            fallback: None,
            failure: None,
        };
        if let Some(level_policy) = attempt.level_policy() {
            // A view that a provider refused is compacted as if its media were gone, and loses them in the same
            // compaction. A reply that was cut off for lack of space is omitted itself.
            if input.request.trigger == Trigger::Overflow {
                attempt.removed = replay::given_up(input.planning);
            }
            attempt.sources = plan::with_removals(input.planning.sources, &attempt.removed, CompactionId(Uuid::nil()));
            let variants = match attempt.is_by_hand() {
                true => vec![plan::by_hand(level_policy)],
                false => plan::tail_fallbacks(level_policy),
            };
            attempt.variants = variants.into_iter();
        }
        attempt
    }

    /// Makes the attempt up to its first summary, or to its end.
    pub fn begin(&mut self) -> AttemptStep {
        match self.level_policy() {
            Some(_) => self.next_candidate(),
            None if self.input.request.trigger == Trigger::LastResort => self.last_resort(),
            None => self.removals_alone(),
        }
    }

    /// Continues with the answer to the newest task.
    pub fn answer(&mut self, answer: Answer<'_>) -> AttemptStep {
        let Some(mut candidate) = self.candidate.take() else { return self.end() };
        match answer {
            Answer::Accepted(prepared) => return self.done(*prepared),
            Answer::Refused(failure) => return AttemptStep::Failed(failure),
            Answer::Interrupted(failure) if !self.input.is_last => {
                return AttemptStep::Retry { failure, retry_after_ms: None };
            }
            Answer::Interrupted(failure) => {
                self.give_up(candidate, failure);
                return self.end();
            }
            Answer::Unavailable { failure, retry_after_ms } if self.may_wait() => {
                return AttemptStep::Retry { failure, retry_after_ms };
            }
            Answer::Unavailable { failure, .. } => {
                self.unavailable = Some(failure.clone());
                return self.without_writer(Candidate { failure, ..candidate });
            }
            Answer::Failed(failure) => return self.without_writer(Candidate { failure, ..candidate }),
            Answer::Written(written) if written.text.trim().is_empty() => {
                let failure = Failure::new(FailureReason::SummaryEmpty, "the summary is empty");
                return self.without_writer(Candidate { failure, ..candidate });
            }
            Answer::Written(written) => {
                let prepared =
                    PreparedCompaction::from_removals(self.input.planning, &candidate.removals, Some(written));
                match prepared {
                    Some(prepared) if prepared.gain() < candidate.gain_min => {
                        candidate.failure = no_gain(prepared.gain());
                    }
                    // A summary that cost money is used, even if the view then needs a second compaction.
                    Some(prepared) if candidate.writer == Writer::Configured || self.fits(&prepared) => {
                        return self.done(prepared);
                    }
                    Some(prepared) => drop(candidate.too_large.get_or_insert(prepared)),
                    None => candidate.failure = no_gain(0),
                }
            }
        }
        self.shorter(candidate)
    }

    /// The compaction of the newest task with this summary.
    ///
    /// # Errors
    ///
    /// The failure of a summary that frees too little.
    pub fn check(&self, written: WrittenSummary<'_>) -> Result<PreparedCompaction, Failure> {
        let candidate = self.candidate.as_ref().ok_or_else(|| no_gain(0))?;
        match PreparedCompaction::from_removals(self.input.planning, &candidate.removals, Some(written)) {
            Some(prepared) if prepared.gain() >= candidate.gain_min => Ok(prepared),
            prepared => Err(no_gain(prepared.map_or(0, |prepared| prepared.gain()))),
        }
    }

    /// The messages of the view after the removals of the newest task, as its summary is planned from them.
    pub fn shortened(&self) -> Vec<SourceMessage> {
        let nothing = Removals::default();
        let removals = self.candidate.as_ref().map_or(&nothing, |candidate| &candidate.removals);
        plan::with_removals(self.input.planning.sources, removals, CompactionId(Uuid::nil()))
    }

    /// A failure of this attempt that ends its compaction; also states why no other compaction follows.
    pub fn explain(&self, failure: Failure) -> Failure {
        match self.input.guards.failure_of_one_more(self.input.planning.policy) {
            Some(stopped) if failure.reason != FailureReason::FixedOverhead => {
                Failure { message: format!("{}; {}", failure.message, stopped.message), ..failure }
            }
            _ => failure,
        }
    }

    fn level_policy(&self) -> Option<&'a LevelPolicy> {
        let AttemptInput { planning, request, .. } = self.input;
        planning.policy.level(request.level?)
    }

    fn is_by_hand(&self) -> bool {
        self.input.request.trigger == Trigger::Manual
    }

    /// True if the compaction was requested by hand, or the session cannot go on without it: it then needs no minimum
    /// gain.
    fn is_needed(&self) -> bool {
        match self.input.request.trigger {
            Trigger::Threshold | Trigger::Maintenance => false,
            Trigger::Overflow => replay::overflow_of(self.input.planning) != Some(Overflow::Answered),
            Trigger::Manual | Trigger::Supplied | Trigger::LastResort => true,
        }
    }

    /// Minimum gain of these steps in tokens.
    fn gain_min(&self, steps: &[PolicyStep]) -> i64 {
        let PlanningInput { policy, window, .. } = self.input.planning;
        if self.is_needed() { 1 } else { gain::least(policy, window, steps, false) }
    }

    /// Tokens of the view for the steps of a level: the estimate, or the context usage if it is higher.
    fn tokens(&self) -> i64 {
        let AttemptInput { planning, fold, .. } = self.input;
        fold.view.estimated_tokens.max(fold.context_tokens(planning.window))
    }

    /// True if a failure may be left to a later attempt. There is none after the last one, and a session whose view
    /// exceeds its window cannot go on meanwhile.
    fn may_wait(&self) -> bool {
        let limit = self.input.planning.window.input_max();
        !self.input.is_last && limit.is_none_or(|limit| self.tokens() <= limit)
    }

    /// True if the view after a compaction fits the window, by its estimate.
    fn fits(&self, prepared: &PreparedCompaction) -> bool {
        let window = self.input.planning.window;
        let limit = window.input_max().map(|limit| limit - window.overhead);
        limit.is_none_or(|limit| prepared.after.estimated_tokens <= limit)
    }

    /// Plans with the next tail that leads to something.
    fn next_candidate(&mut self) -> AttemptStep {
        let Some(level_policy) = self.level_policy() else { return self.end() };
        while let Some(variant) = self.variants.next() {
            let work = self.work(&variant);
            // A summary that cannot free enough is not requested, so that it costs nothing.
            let freed = |work| gain::worthwhile(self.input.planning, &level_policy.steps, work, self.tokens());
            if !self.is_needed() && freed(&work).is_none() {
                continue;
            }
            let gain_min = self.gain_min(work.figures(&level_policy.steps));
            let Work { removals, summary } = work;
            let Some(plan) = summary else {
                match PreparedCompaction::of_removals(self.input.planning, &removals, gain_min) {
                    Some(prepared) => return self.done(prepared),
                    None => continue,
                }
            };
            self.plans += 1;
            let writer = if self.unavailable.is_some() { Writer::BuiltIn } else { self.input.writer };
            let (budget_tokens, failure) = (plan.rules.max_tokens, no_gain(0));
            return self.ask(Candidate {
                removals,
                plan,
                gain_min,
                writer,
                budget_tokens,
                tries: 0,
                too_large: None,
                failure,
            });
        }
        self.end()
    }

    /// The work of a level's steps.
    fn work(&self, level_policy: &LevelPolicy) -> Work {
        let AttemptInput { planning, request, .. } = self.input;
        let planning = PlanningInput { sources: &self.sources, ..planning };
        let mut work = match request.bounds.is_open() {
            true => plan::apply(planning, level_policy, self.tokens()),
            false => plan::summary_within(planning, level_policy, request.bounds),
        };
        let mut removals = self.removed.clone();
        plan::merge(&mut removals, std::mem::take(&mut work.removals));
        Work { removals, ..work }
    }

    fn ask(&mut self, candidate: Candidate) -> AttemptStep {
        let Candidate { ref plan, writer, budget_tokens, .. } = candidate;
        let task = SummaryTask { plan: plan.clone(), number: self.plans, writer, budget_tokens };
        self.candidate = Some(candidate);
        AttemptStep::Write(Box::new(task))
    }

    /// Goes on behind a writer that failed: with the policy's fallback for the configured one, if that frees enough.
    fn without_writer(&mut self, candidate: Candidate) -> AttemptStep {
        let fallback = match candidate.writer {
            Writer::Configured => policy_fallback(self.input.planning, &candidate.plan, candidate.gain_min),
            Writer::BuiltIn => None,
        };
        match fallback {
            Some(prepared) => self.done(prepared),
            None => self.shorter(candidate),
        }
    }

    /// Asks the built-in writer after a writer that failed, with half the budget each time: a session with little to
    /// cover may need a shorter summary, or the view a smaller one for its window.
    fn shorter(&mut self, candidate: Candidate) -> AttemptStep {
        let (tries, budget_tokens) = match candidate.writer {
            Writer::Configured => (0, candidate.budget_tokens),
            Writer::BuiltIn => (candidate.tries + 1, candidate.budget_tokens / 2),
        };
        if tries < TRIES {
            return self.ask(Candidate { writer: Writer::BuiltIn, tries, budget_tokens, ..candidate });
        }
        let Candidate { too_large, .. } = candidate;
        if let Some(prepared) = too_large {
            return self.done(prepared);
        }
        let failure = candidate.failure.clone();
        self.give_up(Candidate { too_large: None, ..candidate }, failure);
        self.next_candidate()
    }

    /// Notes the failure of a candidate, and its fallback.
    fn give_up(&mut self, candidate: Candidate, failure: Failure) {
        let Candidate { removals, plan, gain_min, .. } = candidate;
        if self.fallback.is_none() {
            self.fallback = policy_fallback(self.input.planning, &plan, gain_min)
                .or_else(|| other_steps(self.input.planning, &removals, &plan, gain_min));
        }
        self.failure = Some(failure);
    }

    /// The end of a level without a summary.
    fn end(&mut self) -> AttemptStep {
        match (self.fallback.take(), self.failure.take()) {
            (Some(prepared), _) => self.done(prepared),
            // The built-in writer failed too: the configured one may be back by the next attempt, which starts earlier
            // than a provider's delay may ask for.
            (None, Some(failure)) => match self.unavailable.take() {
                Some(failure) => AttemptStep::Retry { failure, retry_after_ms: None },
                None => AttemptStep::Failed(failure),
            },
            (None, None) if self.is_by_hand() => AttemptStep::Nothing,
            (None, None) => self.last_resort(),
        }
    }

    /// Maintenance, the removals for an overflow, or, by hand, every prune of any step of the policy.
    fn removals_alone(&mut self) -> AttemptStep {
        let planning = self.input.planning;
        let removals = match self.input.request.trigger {
            Trigger::Manual => plan::prune_all(planning).removals,
            Trigger::Overflow => replay::given_up(planning),
            Trigger::Threshold | Trigger::Maintenance | Trigger::Supplied | Trigger::LastResort => {
                plan::maintenance(planning).removals
            }
        };
        // A provider may refuse media that the policy counts as nothing.
        let is_of_media = self.input.request.trigger == Trigger::Overflow && !removals.parts.is_empty();
        let prepared = match is_of_media {
            true => PreparedCompaction::from_removals(planning, &removals, None),
            false => {
                let gain_min = self.gain_min(&planning.policy.maintenance);
                PreparedCompaction::of_removals(planning, &removals, gain_min)
            }
        };
        match prepared {
            Some(prepared) => self.done(prepared),
            None if self.is_by_hand() => AttemptStep::Nothing,
            None => self.last_resort(),
        }
    }

    /// The last resort, or the failure that names what fills the window, if it may remove nothing. It also follows
    /// steps that turned out to free nothing.
    fn last_resort(&mut self) -> AttemptStep {
        let AttemptInput { planning, fold, guards, .. } = self.input;
        let removals = guards::last_resort_removals(planning, fold, guards);
        match PreparedCompaction::of_removals(planning, &removals, 1) {
            Some(prepared) => self.done(prepared),
            None if fold.fits(planning.window) || guards.reported_overhead.is_some() => AttemptStep::Nothing,
            None => AttemptStep::Failed(guards::last_resort_failure(planning, fold, guards)),
        }
    }

    fn done(&self, prepared: PreparedCompaction) -> AttemptStep {
        AttemptStep::Done(Box::new(match self.input.request.trigger {
            Trigger::Overflow => prepared.with_replay(self.input.planning),
            Trigger::Threshold | Trigger::Maintenance | Trigger::Manual | Trigger::Supplied | Trigger::LastResort => {
                prepared
            }
        }))
    }
}

/// The failure of a summary that frees too few tokens.
fn no_gain(gain: i64) -> Failure {
    let message = match gain {
        0.. => format!("the summary would free {gain} tokens of the view, too few to be worth it"),
        _ => format!("the summary would enlarge the view by {} tokens", -gain),
    };
    Failure::new(FailureReason::NoGain, message)
}

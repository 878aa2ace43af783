//! One worker: looks at due sessions and carries out jobs.

use super::plan::{self, SummaryPlan};
use super::{Error, recover};
use crate::clock::Clock;
use crate::limits;
use crate::model::compaction::{CompactionKind, CompactionRequest, Failure, Trigger};
use crate::policy::{Policy, overflow};
use crate::store::{
    self, Breaker, Caller, Claim, Commit, Committed, Condition, DueSession, Evaluation, Reduction, Source, Store,
    SummaryCommit,
};
use crate::summarizer::{self, Extractive, Summarizer, SummaryInput, SummaryOutput};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// What a worker works with.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) summarizer: Arc<dyn Summarizer>,
    /// Names this start of the daemon in leases.
    pub(super) owner: Uuid,
}

/// Why a summary was not made.
enum Refusal {
    /// Another attempt may help; after this many milliseconds, if the other side said so.
    Retry(Failure, Option<i64>),
    /// It would not.
    Final(Failure),
}

fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure { reason: reason.to_owned(), message: message.into() }
}

/// Reads a stored policy.
fn policy_of(source: &Source) -> Result<Policy, Error> {
    serde_json::from_str(&source.policy.json)
        .map_err(|error| Error::Store(store::Error::Corrupt { table: "policy_text", detail: error.to_string() }))
}

fn breaker(policy: &Policy) -> Breaker {
    Breaker {
        failures_max: i64::from(policy.guards.breaker_failures),
        hold_turns: i64::from(policy.guards.breaker_turns),
    }
}

/// How often a job is tried, and what ends a loop.
#[derive(Clone, Copy)]
struct Terms {
    attempts_max: i64,
    breaker: Breaker,
}

impl Terms {
    fn of(policy: &Policy) -> Self {
        Self { attempts_max: i64::from(policy.guards.attempts_max), breaker: breaker(policy) }
    }

    /// For a job whose policy could not be read.
    fn unknown() -> Self {
        Self { attempts_max: recover::LOST_MAX, breaker: recover::NO_BREAKER }
    }
}

impl Worker {
    /// Looks at a due session: asks for the reduction that its policy wants, or finds that nothing is to be done.
    pub(super) async fn evaluate(&self, due: &DueSession) -> Result<(), Error> {
        let source = self.store.source(due.session, Some(due.revision)).await?;
        let policy = policy_of(&source)?;
        let view = plan::view(&policy, &source.messages);
        let tokens = due.usage_tokens.unwrap_or(view.estimated_tokens);
        let over = overflow::due_at(&policy, &due.window).is_some_and(|at| tokens >= at);
        let wanted = if !policy.trigger.auto || due.held {
            None
        } else if over && plan::can_summarize(&policy, &due.window, &source.layout, &source.messages, source.at) {
            Some((CompactionKind::Summary, Trigger::Threshold))
        } else if !plan::prune(&policy, &source.messages).is_empty() {
            Some((CompactionKind::Prune, Trigger::Routine))
        } else {
            None
        };
        if let Some((kind, trigger)) = wanted {
            let request = CompactionRequest { kind, trigger, instructions: String::new() };
            self.store.enqueue(due.session, Caller::default(), request, due.window.clone(), Condition::Due).await?;
        }
        let evaluation = Evaluation {
            at: due.revision,
            appended_tokens: due.appended_tokens,
            view_tokens: view.estimated_tokens,
            output_tokens: plan::output_tokens(&policy, &source.messages),
            held: due.held,
        };
        self.store.evaluated(due.session, evaluation).await?;
        Ok(())
    }

    /// Carries out a job, as long as its claim holds.
    pub(super) async fn run(&self, job: i64) -> Result<(), Error> {
        let until = self.clock.now().plus_millis(limits::LEASE_MS);
        let Some(claim) = self.store.claim(job, self.owner, until).await? else { return Ok(()) };
        let work = self.reduce(&claim);
        tokio::pin!(work);
        let mut beat = tokio::time::interval(Duration::from_millis(limits::HEARTBEAT_MS));
        beat.tick().await;
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = beat.tick() => {
                    let until = self.clock.now().plus_millis(limits::LEASE_MS);
                    match self.store.heartbeat(claim.clone(), until).await {
                        // Somebody cancelled it, or took it over: what this worker has is worth nothing.
                        Err(store::Error::LeaseLost) => return Ok(()),
                        // A full queue says nothing about the claim, which holds for two more beats.
                        Err(store::Error::Busy) => {}
                        other => other?,
                    }
                }
            }
        }
    }

    /// Carries out what was claimed. Whatever goes wrong, the job is ended or put back: nothing else would do it.
    async fn reduce(&self, claim: &Claim) -> Result<(), Error> {
        let mut terms = Terms::unknown();
        match self.carry_out(claim, &mut terms).await {
            Ok(()) | Err(Error::Store(store::Error::LeaseLost)) => Ok(()),
            Err(Error::Store(error)) => {
                let why = Refusal::Retry(failure("STORE", error.to_string()), None);
                self.end(claim, terms, why).await
            }
        }
    }

    async fn carry_out(&self, claim: &Claim, terms: &mut Terms) -> Result<(), Error> {
        let source = self.store.source(claim.session, Some(claim.base)).await?;
        let policy = policy_of(&source)?;
        *terms = Terms::of(&policy);
        match claim.request.kind {
            CompactionKind::Prune => self.prune(claim, &policy, &source).await,
            CompactionKind::Summary => self.summarize(claim, &policy, &source).await,
        }
    }

    async fn nothing(&self, claim: &Claim, policy: &Policy) -> Result<(), Error> {
        let why = failure("NOTHING_TO_COMPACT", "nothing in the view can be taken away");
        Ok(self.store.nothing_to_do(claim.clone(), why, breaker(policy)).await?)
    }

    async fn prune(&self, claim: &Claim, policy: &Policy, source: &Source) -> Result<(), Error> {
        let parts = plan::prune(policy, &source.messages);
        if parts.is_empty() {
            return self.nothing(claim, policy).await;
        }
        let after_sources = plan::with_prune(&source.messages, &parts, claim.compaction);
        let before = plan::view(policy, &source.messages);
        let after = plan::view(policy, &after_sources);
        let commit = Commit {
            claim: claim.clone(),
            rule: plan::rule(policy, &claim.window),
            reduction: Reduction::Prune(parts),
            tokens_before: before.estimated_tokens,
            tokens_after: after.estimated_tokens,
            output_tokens: plan::output_tokens(policy, &after_sources),
            first_changed_index: plan::first_changed(&before, &after),
            breaker: breaker(policy),
        };
        self.commit(commit).await
    }

    /// Makes the summary that the policy wants; when that would free too little, one with a smaller tail.
    async fn summarize(&self, claim: &Claim, policy: &Policy, source: &Source) -> Result<(), Error> {
        let mut refused = None;
        for narrowed in plan::narrowings(policy, claim.request.trigger) {
            let planned = plan::summary(&narrowed, &claim.window, &source.layout, &source.messages, source.at);
            let Some(planned) = planned else { continue };
            match self.propose(claim, policy, source, planned).await {
                Ok(commit) => return self.commit(commit).await,
                Err(Refusal::Final(why)) => refused = Some(why),
                Err(why @ Refusal::Retry(..)) => return self.end(claim, Terms::of(policy), why).await,
            }
        }
        match refused {
            Some(why) => self.end(claim, Terms::of(policy), Refusal::Final(why)).await,
            None => self.nothing(claim, policy).await,
        }
    }

    /// Has a planned summary written, and measures what it would do.
    async fn propose(
        &self,
        claim: &Claim,
        policy: &Policy,
        source: &Source,
        planned: SummaryPlan,
    ) -> Result<Commit, Refusal> {
        let before = plan::view(policy, &source.messages);
        let input = SummaryInput {
            messages: planned.head.clone(),
            split_turn: planned.split_turn.clone(),
            previous: planned.previous.clone(),
            rules: policy.summary.clone(),
            counting: policy.counting.clone(),
            instructions: claim.request.instructions.clone(),
            budget_tokens: policy.summary.max_tokens,
        };
        let measure = |output: &SummaryOutput| {
            let sources =
                plan::with_summary(policy, &source.layout, &source.messages, planned.tail_start, &output.text);
            (plan::view(policy, &sources), sources)
        };
        let least = policy.guards.minimum_gain_tokens;
        let accept = |output: &SummaryOutput| {
            let gain = before.estimated_tokens - measure(output).0.estimated_tokens;
            (gain >= least.max(1)).then_some(()).ok_or(gain)
        };
        let output = self.write(&input, accept).await?;
        let (after, after_sources) = measure(&output);
        let count = planned.head.len() + planned.split_turn.len();
        Ok(Commit {
            claim: claim.clone(),
            rule: plan::rule(policy, &claim.window),
            tokens_before: before.estimated_tokens,
            tokens_after: after.estimated_tokens,
            output_tokens: plan::output_tokens(policy, &after_sources),
            first_changed_index: plan::first_changed(&before, &after),
            breaker: breaker(policy),
            reduction: Reduction::Summary(SummaryCommit {
                text: output.text,
                marker_text: plan::marker_text(policy),
                tail_start: planned.tail_start,
                tail_message: planned.tail_message,
                covered: planned.covered,
                covered_count: i64::try_from(count).unwrap_or(i64::MAX),
                summarizer: output.summarizer,
                usage: output.usage,
            }),
        })
    }

    /// Has a summary written, and refuses one that is empty or frees too little. The built-in summarizer is tried again
    /// with half the room, since a session with little to cover may fit a shorter one.
    async fn write(
        &self,
        input: &SummaryInput,
        accept: impl Fn(&SummaryOutput) -> Result<(), i64>,
    ) -> Result<SummaryOutput, Refusal> {
        let mut why = match self.ask(self.summarizer.as_ref(), input).await {
            Ok(output) if output.text.trim().is_empty() => failure("SUMMARY_EMPTY", "the summary is empty"),
            Ok(output) => match accept(&output) {
                Ok(()) => return Ok(output),
                Err(gain) => no_gain(gain),
            },
            Err(refusal @ Refusal::Retry(..)) => return Err(refusal),
            Err(Refusal::Final(why)) => why,
        };
        let mut input = input.clone();
        for _ in 0..3 {
            if let Ok(output) = self.ask(&Extractive, &input).await {
                match accept(&output) {
                    Ok(()) => return Ok(output),
                    Err(gain) => why = no_gain(gain),
                }
            }
            input.budget_tokens /= 2;
        }
        Err(Refusal::Final(why))
    }

    async fn ask(&self, summarizer: &dyn Summarizer, input: &SummaryInput) -> Result<SummaryOutput, Refusal> {
        let limit = Duration::from_millis(limits::SUMMARIZE_MS_MAX);
        match tokio::time::timeout(limit, summarizer.summarize(input)).await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(summarizer::Error::Transient { message, retry_after_ms })) => {
                Err(Refusal::Retry(failure("SUMMARIZER_UNAVAILABLE", message), retry_after_ms))
            }
            Ok(Err(summarizer::Error::Permanent { message })) => {
                Err(Refusal::Final(failure("SUMMARIZER_FAILED", message)))
            }
            Err(_) => Err(Refusal::Retry(failure("SUMMARIZER_TIMEOUT", "the summarizer took too long"), None)),
        }
    }

    /// Commits, and tries again when the store is busy: the summary is not made twice for the sake of a full queue.
    async fn commit(&self, commit: Commit) -> Result<(), Error> {
        let compaction = commit.claim.compaction;
        let mut wait = limits::RETRY_MS_MIN;
        loop {
            match self.store.commit(commit.clone()).await {
                Ok(Committed::Done) => {
                    tracing::info!(%compaction, "reduction in force");
                    return Ok(());
                }
                Ok(Committed::Superseded) => {
                    tracing::info!(%compaction, "reduction superseded");
                    return Ok(());
                }
                Err(store::Error::Busy) if wait <= limits::RETRY_MS_MAX => {
                    tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
                    wait *= 2;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends a job without effect, or puts it back.
    async fn end(&self, claim: &Claim, terms: Terms, why: Refusal) -> Result<(), Error> {
        let Terms { attempts_max, breaker } = terms;
        match why {
            Refusal::Final(why) => self.store.fail_job(claim.clone(), why, false, breaker).await?,
            Refusal::Retry(why, _) if claim.attempt >= attempts_max => {
                self.store.fail_job(claim.clone(), why, true, breaker).await?;
            }
            Refusal::Retry(why, after) => {
                let wait = after.unwrap_or(0).max(backoff(claim.attempt));
                let at = self.clock.now().plus_millis(wait);
                self.store.retry_job(claim.clone(), why, at, breaker).await?;
            }
        }
        Ok(())
    }
}

fn no_gain(gain: i64) -> Failure {
    failure("NO_GAIN", format!("the summary would free {gain} tokens of the view, too few to be worth it"))
}

/// How long to wait before an attempt: twice as long each time, with jitter so that sessions do not come in step.
pub(super) fn backoff(attempt: i64) -> i64 {
    let doubled = limits::RETRY_MS_MIN << (attempt - 1).clamp(0, 16);
    let most = doubled.min(limits::RETRY_MS_MAX);
    rand::random_range(most / 2..=most)
}

/// What a job is told that was in hand when its daemon or its worker died.
pub(super) fn lost() -> Failure {
    failure("WORKER_LOST", "the daemon or the worker stopped while it ran")
}

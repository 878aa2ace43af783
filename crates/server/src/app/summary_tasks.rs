//! Summary tasks for callers: leasing, changing, completing and releasing them.

use super::error::{Error, Reason, Result};
use super::nouns::SummaryTasks;
use super::secrets::{ClientInput, ScreenedAnswer};
use super::validate;
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::{Compaction, Level};
use crate::model::ids::{CompactionId, MessageId, SessionId};
use crate::model::time::Timestamp;
use crate::model::view::SourceMessage;
use crate::policy::plan::PlanEdit;
use crate::policy::prompt::{self, Material, Scope};
use crate::store::{ScreenResult, SecretScreen};
use crate::summarizer::{Filter, TaskEdit, TaskRefusal};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

pub use crate::policy::prompt::Prompt;
pub use crate::summarizer::{Release, Task, TaskReply};

/// A request to lease a task.
#[derive(Debug, Clone, Default)]
pub struct LeaseRequest {
    /// Only of these sessions; none for all.
    pub sessions: Vec<String>,
    /// Only of these levels; none for all.
    pub levels: Vec<Level>,
    /// Maximum time to wait for a task; none for the default.
    pub wait: Option<Duration>,
    /// Duration of the lease; none for the default.
    pub lease: Option<Duration>,
    /// Window of the client's model, input and output together, in tokens; zero for the default.
    pub window_tokens: i64,
}

/// A task leased by a client.
#[derive(Debug, Clone)]
pub struct LeasedTask {
    /// The task.
    pub task: Arc<Task>,
    /// Token that proves the lease.
    pub token: String,
    /// End of the lease.
    pub end_time: Timestamp,
    /// The prompt for the client's model.
    pub prompt: Prompt,
}

/// A client's claim to hold a lease.
#[derive(Debug, Clone, Default)]
pub struct LeaseClaim {
    /// The compaction.
    pub compaction: String,
    /// Token that proves the lease.
    pub token: String,
    /// Refuses the call if the task is for another revision of the session than this.
    pub base_revision: Option<Revision>,
}

/// A client's changes to a task. Messages are named by id or client id.
#[derive(Debug, Clone, Default)]
pub struct NewEdit {
    /// The first message that stays verbatim; none for no change.
    pub tail_start: Option<String>,
    /// The messages before it that the view still shows; none for no change.
    pub retained: Option<Vec<String>>,
    /// Instructions for the summarizer; none for no change.
    pub instructions: Option<String>,
    /// Free JSON to be kept with the summary; none for no change.
    pub details_json: Option<String>,
    /// Window of the client's model, in tokens; zero for the default, whatever the lease request had.
    pub window_tokens: i64,
}

impl From<TaskRefusal> for Error {
    fn from(refused: TaskRefusal) -> Self {
        match refused {
            TaskRefusal::NotFound => {
                Self::new(Reason::SummaryTaskNotFound, "no client is asked to write a summary for this compaction")
            }
            TaskRefusal::LeaseLost => Self::new(Reason::SummaryLeaseLost, "the lease ended, or the token is not its"),
            TaskRefusal::Plan(why) => Self::new(Reason::BoundaryInvalid, why),
            TaskRefusal::Summary(failure) => {
                Self::new(Reason::SummaryRefused, failure.message).with("failure", failure.reason)
            }
            TaskRefusal::TooMany => Self::new(Reason::TooManyStreams, "as many callers wait for summary tasks as may")
                .with("limit", limits::SUMMARY_TASK_CALLERS_MAX),
        }
    }
}

/// The duration that a request names, or the default.
fn bounded_duration(
    field: &str,
    given: Option<Duration>,
    default_ms: u64,
    least: Duration,
    most_ms: u64,
) -> Result<Duration> {
    let most = Duration::from_millis(most_ms);
    match given {
        None => Ok(Duration::from_millis(default_ms)),
        Some(given) if given < least || given > most => {
            Err(Error::field(field, format!("is not between {least:?} and {most:?}")))
        }
        Some(given) => Ok(given),
    }
}

fn window(tokens: i64) -> Result<i64> {
    match tokens {
        0 => Ok(limits::SUMMARY_TASK_WINDOW_DEFAULT),
        tokens if tokens < 0 => Err(Error::field("window_tokens", "is negative")),
        tokens => Ok(tokens.min(limits::SUMMARY_TASK_WINDOW_MAX)),
    }
}

fn check_length(text: &str) -> Result<()> {
    if text.len() > limits::SUMMARY_BYTES_MAX {
        return Err(Error::limit("bytes of text", limits::SUMMARY_BYTES_MAX, text.len()));
    }
    Ok(())
}

fn lease_time(given: Option<Duration>) -> Result<Duration> {
    let least = Duration::from_secs(1);
    let (default, most) = (limits::SUMMARY_TASK_LEASE_MS_DEFAULT, limits::SUMMARY_TASK_LEASE_MS_MAX);
    bounded_duration("lease_timeout", given, default, least, most)
}

/// The prompt of a task for a model with this window: for its summary, or for the check of a summary that was written.
fn request(task: &Task, written: Option<&str>, window_tokens: i64) -> Prompt {
    let input = &task.input;
    let ask = |text: &str| {
        let request = prompt::Request {
            scope: Scope::History,
            material: Material::Whole(text),
            previous: input.previous.as_deref(),
            draft: written,
            instructions: &input.instructions,
            words: prompt::words_for_budget(input.budget_tokens),
        };
        prompt::prompt(&input.rules, &request)
    };
    let messages: Vec<&SourceMessage> = input.messages.iter().chain(&input.split_turn).collect();
    let empty = ask("");
    let around = prompt::estimated_tokens(&empty.system).saturating_add(prompt::estimated_tokens(&empty.user));
    let history_tokens = window_tokens.saturating_sub(around).saturating_sub(input.budget_tokens).max(1);
    ask(&prompt::whole(&input.rules.transcript, &messages, history_tokens))
}

impl ClientInput for NewEdit {
    fn validate(&self) -> Result<()> {
        validate::instructions(self.instructions.as_deref().unwrap_or_default())?;
        validate::json("details_json", self.details_json.as_deref(), limits::METADATA_BYTES_MAX)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.optional_text("instructions", &mut self.instructions)?;
        screen.optional_json("details_json", &mut self.details_json)
    }
}

impl ClientInput for TaskReply {
    fn validate(&self) -> Result<()> {
        validate::name("model", &self.model)?;
        self.usage.as_ref().map_or(Ok(()), |usage| validate::usage("usage", usage))?;
        check_length(&self.text)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text("text", &mut self.text)
    }
}

impl SummaryTasks<'_> {
    /// Waits for a task and leases it; none if there was none in time.
    pub async fn lease(self, wanted: LeaseRequest) -> Result<Option<LeasedTask>> {
        let tasks = self.caller.shared.scheduler.tasks();
        if wanted.sessions.len() > limits::SUBSCRIPTION_SESSIONS_MAX {
            return Err(Error::limit("session_ids", limits::SUBSCRIPTION_SESSIONS_MAX, wanted.sessions.len()));
        }
        let wait = bounded_duration(
            "wait_timeout",
            wanted.wait,
            limits::WAIT_MS_DEFAULT,
            Duration::ZERO,
            limits::WAIT_MS_MAX,
        )?;
        let lease = lease_time(wanted.lease)?;
        let window_tokens = window(wanted.window_tokens)?;
        let mut filter = Filter { levels: wanted.levels, sessions: Vec::new() };
        for id in &wanted.sessions {
            let key = self.caller.session_key(id).await?;
            filter.sessions.push(self.caller.store().sessions().get(key).await?.0.id);
        }
        if !tasks.are_offered() {
            let why = "the configuration has no client_wait_seconds: no client is asked to write summaries";
            return Err(Error::new(Reason::SummaryTasksOff, why));
        }
        let _slot = tasks.caller_slot()?;
        let leased = tokio::select! {
            biased;
            () = self.caller.shared.stopping.cancelled() => return Err(Error::stopping()),
            leased = tasks.lease(&filter, lease, |session| self.sees(session)) => leased,
            () = tokio::time::sleep(wait) => return Ok(None),
        };
        self.caller.named.add(&leased.task.session.to_string());
        let end_time = self.end_time(leased.lease);
        let prompt = request(&leased.task, None, window_tokens);
        Ok(Some(LeasedTask { task: leased.task, token: leased.token.simple().to_string(), end_time, prompt }))
    }

    /// Extends a lease; returns its end.
    pub async fn extend(self, hold: &LeaseClaim, lease: Option<Duration>) -> Result<Timestamp> {
        let lease = lease_time(lease)?;
        let (compaction, token) = self.checked_claim(hold).await?;
        Ok(self.end_time(self.caller.shared.scheduler.tasks().extend(compaction, token, lease)?))
    }

    /// Changes the plan of a leased task; returns the changed task and its prompt.
    pub async fn edit(self, hold: &LeaseClaim, edit: NewEdit) -> Result<ScreenedAnswer<(Arc<Task>, Prompt)>> {
        let edit = self.caller.check(edit)?;
        let window_tokens = window(edit.window_tokens)?;
        let retained = edit.retained.as_deref().unwrap_or_default();
        if retained.len() > limits::BATCH_MESSAGES_MAX {
            return Err(Error::limit("retained_message_ids", limits::BATCH_MESSAGES_MAX, retained.len()));
        }
        let (compaction, token) = self.checked_claim(hold).await?;
        let tasks = self.caller.shared.scheduler.tasks();
        let session = tasks.leased_task(compaction, token)?.session.to_string();
        let mut plan = PlanEdit::default();
        if let Some(id) = &edit.tail_start {
            plan.tail_start = Some(self.message_id(&session, id).await?);
        }
        if edit.retained.is_some() {
            let mut ids = Vec::new();
            for id in retained {
                ids.push(self.message_id(&session, id).await?);
            }
            plan.retained = Some(ids);
        }
        let (instructions, details_json) = (edit.instructions.clone(), edit.details_json.clone());
        let change = edit.with(TaskEdit { plan, instructions, details_json });
        let task = tasks.edit(compaction, token, change).await?;
        let prompt = request(&task, None, window_tokens);
        Ok(ScreenedAnswer::new((task, prompt), edit.into_parts().1))
    }

    /// The prompt by which a model checks the summary that it wrote; none if the policy has no check.
    pub async fn check(self, hold: &LeaseClaim, text: &str, window_tokens: i64) -> Result<Option<Prompt>> {
        let window_tokens = window(window_tokens)?;
        check_length(text)?;
        let (compaction, token) = self.checked_claim(hold).await?;
        let task = self.caller.shared.scheduler.tasks().leased_task(compaction, token)?;
        Ok(task.input.rules.verify.then(|| request(&task, Some(text), window_tokens)))
    }

    /// Completes a leased task with its summary. When this returns, the summary has passed every check, and is
    /// committed next.
    pub async fn complete(self, hold: &LeaseClaim, reply: TaskReply) -> Result<ScreenedAnswer<Compaction>> {
        let reply = self.caller.check(reply)?;
        let findings = reply.findings().clone();
        let (compaction, token) = self.checked_claim(hold).await?;
        self.caller.shared.scheduler.tasks().complete(compaction, token, reply).await?;
        Ok(ScreenedAnswer::new(Error::answer(self.caller.store().compactions().get(compaction).await)?, findings))
    }

    /// Releases a leased task without a summary.
    pub async fn release(self, hold: &LeaseClaim, release: Release) -> Result<()> {
        let (compaction, token) = self.checked_claim(hold).await?;
        Ok(self.caller.shared.scheduler.tasks().release(compaction, token, release).await?)
    }

    /// Parses a claim to a lease, and checks it against the current task.
    async fn checked_claim(self, hold: &LeaseClaim) -> Result<(CompactionId, Uuid)> {
        let not_found = || Error::from(TaskRefusal::NotFound).with("compaction_id", &hold.compaction);
        let compaction: CompactionId = hold.compaction.parse().map_err(|_| not_found())?;
        if let Some(session) = self.caller.shared.scheduler.tasks().session_of(compaction)
            && !self.caller.sees_id(session).await?
        {
            return Err(TaskRefusal::NotFound.into());
        }
        let token = Uuid::try_parse(&hold.token).map_err(|_| Error::from(TaskRefusal::LeaseLost))?;
        let task = self.caller.shared.scheduler.tasks().leased_task(compaction, token)?;
        self.caller.named.add(&task.session.to_string());
        match hold.base_revision {
            Some(expected) if expected != task.base => {
                Err(crate::store::Error::RevisionMismatch { expected, current: task.base }.into())
            }
            Some(_) | None => Ok((compaction, token)),
        }
    }

    /// True if the caller sees the session of a task; one that cannot be read is offered to others.
    async fn sees(self, session: SessionId) -> bool {
        self.caller.sees_id(session).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "it is not known whose a summary task is");
            false
        })
    }

    async fn message_id(self, session: &str, id: &str) -> Result<MessageId> {
        let key = self.caller.session_key(session).await?;
        Ok(self.caller.store().history().position(key, id).await?.message)
    }

    fn end_time(self, lease: Duration) -> Timestamp {
        let ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        self.caller.shared.clock.now().plus_millis(ms)
    }
}

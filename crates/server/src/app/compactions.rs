//! Compactions: requesting, supplying, listing and stopping them.

use super::error::{Error, Reason, Result};
use super::nouns::Compactions;
use super::secrets::{ClientInput, ScreenedAnswer};
use super::{page_size, validate, window_of_call};
use crate::limits;
use crate::loaded;
use crate::model::Revision;
use crate::model::changes::SummaryChange;
use crate::model::compaction::{
    Bounds, Compaction, CompactionKind, CompactionRequest, CompactionState, Level, Trigger,
};
use crate::model::ids::CompactionId;
use crate::model::summary_request::{Purpose, SummaryRequest};
use crate::model::usage::{ModelWindow, Usage, WindowSource};
use crate::model::view::SourceMessage;
use crate::policy::plan::{self, Boundary};
use crate::policy::provider_errors::{self, ProviderError};
use crate::policy::summary::{SummaryInput, SummaryOutput};
use crate::policy::{LevelPolicy, Policy, PolicyStep, replay};
use crate::scheduler::{self, SummaryInEffect, is_possible};
use crate::store::{
    CheckedInput, Condition, Receipt, Requester, ScreenResult, SecretScreen, SessionKey, Source, SuppliedSummary,
    UpdateSession, WindowUsage,
};

/// A request for a compaction by hand.
#[derive(Debug, Clone)]
pub struct NewCompaction {
    /// The kind of work. A summary applies a level of the policy, a prune every clearing that the policy has.
    pub kind: CompactionKind,
    /// The level; none for the ordinary one, or the thorough one if the policy has no other.
    pub level: Option<Level>,
    /// Instructions added to the summarizer's own; empty for none.
    pub instructions: String,
    /// The first message that the summary is made from; empty for the start of the view.
    pub head_start: String,
    /// The first message that stays verbatim after the summary; empty for the policy's choice.
    pub tail_start: String,
}

impl NewCompaction {
    /// A request for a kind of compaction with default parameters.
    pub fn of_kind(kind: CompactionKind) -> Self {
        Self { kind, level: None, instructions: String::new(), head_start: String::new(), tail_start: String::new() }
    }

    /// The level that it applies; none for a prune, and if the policy does not have it.
    fn level_policy<'a>(&self, policy: &'a Policy) -> Option<(Level, &'a LevelPolicy)> {
        let levels = match self.level {
            _ if self.kind == CompactionKind::Prune => &[][..],
            Some(level) => &[level],
            None => &[Level::Auto, Level::Deep, Level::Micro],
        };
        levels.iter().find_map(|&level| Some((level, policy.level(level)?)))
    }

    /// The request; none if the policy does not have the level.
    pub(super) fn request(&self, policy: &Policy, bounds: Bounds) -> Option<CompactionRequest> {
        let (kind, level) = match self.level_policy(policy) {
            Some((level, level_policy)) => (plan::kind(&level_policy.steps), Some(level)),
            None if self.kind == CompactionKind::Prune => (CompactionKind::Prune, None),
            None => return None,
        };
        let instructions = self.instructions.clone();
        Some(CompactionRequest { instructions, bounds, ..CompactionRequest::new(kind, Trigger::Manual, level) })
    }
}

/// A provider's refusal of a view.
#[derive(Debug, Clone, Default)]
pub struct Overflow {
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The provider's code or type of the error; may be empty.
    pub code: String,
    /// The provider's message or its whole answer.
    pub message: String,
    /// The window that the view was too large for; none for the session's.
    pub window: Option<ModelWindow>,
}

/// A finished summary that a client supplies.
#[derive(Debug, Clone, Default)]
pub struct NewSummary {
    /// The summary.
    pub text: String,
    /// The first message that stays verbatim; empty keeps none of the messages up to `until`.
    pub tail_start: String,
    /// The last message before the summary was made; empty for the newest message.
    pub until: String,
    /// The author, such as a model's name.
    pub summarizer: String,
    /// Usage of the summary's requests.
    pub usage: Option<Usage>,
    /// Refuses the summary if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
    /// Refuses the summary if its text is that of one that was erased.
    pub keep_erased: bool,
    /// Covers calls without a result too: whoever made them waits for none.
    pub includes_open_calls: bool,
}

fn from_receipt(receipt: &Receipt) -> Result<CompactionId> {
    let id = receipt.ids.first().ok_or_else(|| Error::internal("a receipt names no compaction"))?;
    Ok(CompactionId(*id))
}

impl ClientInput for NewCompaction {
    fn validate(&self) -> Result<()> {
        validate::instructions(&self.instructions)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text("instructions", &mut self.instructions)
    }
}

impl ClientInput for NewSummary {
    fn validate(&self) -> Result<()> {
        validate::summary(&self.text)?;
        validate::name("summarizer", &self.summarizer)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text("text", &mut self.text)
    }
}

impl Compactions<'_> {
    /// Requests a compaction by hand. The flag is true if the compaction existed already.
    pub async fn start(self, session: &str, wanted: NewCompaction) -> Result<ScreenedAnswer<(Compaction, bool)>> {
        let wanted = self.caller.check(wanted)?;
        let key = self.caller.session_key(session).await?;
        let (source, _held) = self.caller.views().reserved_source(key, None).await?;
        let policy = self.caller.parse_policy(&source.policy)?;
        let formed = loaded::formed(&source);
        let fold = loaded::fold(&policy, &source, &formed);
        let planning =
            scheduler::planning_input(&policy, &source.window, &source, &formed, self.caller.shared.clock.now());
        let bounds = match self.bounds(key, &source, &policy, &wanted).await {
            // A repeated request gets the same answer, wherever the messages are now.
            Err(_) if self.caller.store().sessions().kept_answer(key, &self.caller.requester).await?.is_some() => {
                Bounds::default()
            }
            found => found?,
        };
        let request = wanted.request(&policy, bounds);
        let is_possible = request.as_ref().is_some_and(|request| is_possible(planning, &fold, request));
        let usage = WindowUsage { window: source.window.clone(), context_tokens: fold.context_tokens(&source.window) };
        let condition = Condition::Possible(is_possible);
        // The store refuses an impossible request, unless it is a repetition.
        let request = request.unwrap_or_else(|| CompactionRequest::new(wanted.kind, Trigger::Manual, None));
        let (compactions, requester) = (self.caller.store().compactions(), self.caller.requester());
        let enqueued = compactions.enqueue(key, requester, wanted.with(request), usage, condition, None).await?;
        let enqueued = enqueued.ok_or_else(|| Error::internal("a request by hand was not taken"))?;
        self.caller.shared.scheduler.wake();
        let compaction = Error::answer(compactions.get(enqueued.compaction).await)?;
        Ok(ScreenedAnswer::new((compaction, enqueued.joined), wanted.into_parts().1))
    }

    /// The requested bounds of a summary, as positions in the view.
    pub(super) async fn bounds(
        self,
        key: SessionKey,
        source: &Source,
        policy: &Policy,
        wanted: &NewCompaction,
    ) -> Result<Bounds> {
        let sources = &source.messages;
        let level_policy = wanted.level_policy(policy).map(|(_, level_policy)| level_policy);
        let summarizes =
            |level_policy: &LevelPolicy| level_policy.steps.iter().any(|step| matches!(step, PolicyStep::Summarize(_)));
        let position = async |field: &str, id: &str, can_start: fn(&[SourceMessage], Revision) -> bool, why: &str| {
            if id.is_empty() {
                return Ok(None);
            }
            if !level_policy.is_some_and(summarizes) {
                return Err(Error::field(field, "is given, but no summary is asked for"));
            }
            let position = Some(self.caller.store().history().position(key, id).await?.first)
                .filter(|position| can_start(sources, *position));
            position.map(Some).ok_or_else(|| Error::new(Reason::BoundaryInvalid, why).with("message_id", id))
        };
        let no_head = "the view does not show that message, or has a summary already, which would stand in front of it, \
                       or a call before it has its result behind it";
        let no_tail = "the view does not show that message, or something before it is still being written or run, or a \
                       call before it has its result behind it";
        Ok(Bounds {
            head_start: position("covered_start_message_id", &wanted.head_start, plan::head_can_start, no_head).await?,
            tail_start: position("tail_start_message_id", &wanted.tail_start, plan::tail_can_start, no_tail).await?,
        })
    }

    /// The id of the message that the view shows at a position; empty for no position.
    async fn shown_message_id(self, session: &str, position: Option<Revision>) -> Result<String> {
        let Some(position) = position else { return Ok(String::new()) };
        let key = self.caller.session_key(session).await?;
        let (source, _held) = self.caller.views().reserved_source(key, None).await?;
        let boundary = source.messages.iter().find(|source| plan::slot(source) == position);
        let gone = || {
            Error::new(Reason::BoundaryInvalid, "the view does not show a message that it was to begin or to end at")
        };
        boundary.map(|source| source.message.id.to_string()).ok_or_else(gone)
    }

    /// The earlier answer of a repeated request for a compaction; none for a new request. Callers check it before
    /// anything that could refuse the request now.
    async fn repeated_answer(self, key: SessionKey) -> Result<Option<(Compaction, bool)>> {
        let Some(receipt) = self.caller.store().sessions().kept_answer(key, &self.caller.requester).await? else {
            return Ok(None);
        };
        let compaction = Error::answer(self.caller.store().compactions().get(from_receipt(&receipt)?).await)?;
        Ok(Some((compaction, receipt.existed_count > 0)))
    }

    /// Makes a view that a provider refused smaller by what was refused: its media, or all of it. A compaction works once
    /// for each user message, the removal of media as long as the view has any: after that the caller has to shorten the
    /// request or to use a model with a larger window.
    pub async fn report_overflow(self, session: &str, mut overflow: Overflow) -> Result<(Compaction, bool)> {
        validate::name("code", &overflow.code)?;
        validate::instructions(&overflow.message)?;
        if let Some(window) = &mut overflow.window {
            validate::window("window", window)?;
            self.caller.shared.models.complete(window);
        }
        let refusal = ProviderError { status: overflow.status, code: &overflow.code, message: &overflow.message };
        let recovery = provider_errors::kind(&refusal).and_then(provider_errors::Kind::recovery);
        let Some(recovery) = recovery else {
            return Err(Error::new(
                Reason::OverflowNotRecognized,
                "the error does not mean that the request or its media were too large or too many",
            ));
        };
        let key = self.caller.session_key(session).await?;
        if let Some(answer) = self.repeated_answer(key).await? {
            return Ok(answer);
        }
        self.apply_named_window(key, &overflow, provider_errors::window_tokens(&refusal)).await?;
        let (source, _held) = self.caller.views().reserved_source(key, None).await?;
        let window = window_of_call(&source.window, overflow.window.as_ref()).clone();
        let policy = self.caller.parse_policy(&source.policy)?;
        if !policy.trigger.auto {
            return Err(Error::new(Reason::AutomaticOff, "the policy lets nothing happen by itself"));
        }
        let before = self.caller.store().compactions().list(key, None, limits::OVERFLOW_COMPACTIONS_MAX).await?;
        let before: Vec<Compaction> = before.into_iter().map(|(_, compaction)| compaction).collect();
        let formed = loaded::formed(&source);
        let planning = scheduler::planning_input(&policy, &window, &source, &formed, self.caller.shared.clock.now());
        let context_tokens = loaded::fold(&policy, &source, &formed).context_tokens(&window);
        let request = replay::recovery_request(planning, context_tokens, recovery, &before);
        if request.is_none() && replay::has_recovered(&source.messages, &before) {
            let message =
                "the view was compacted for this request already: shorten the request, or take a larger window";
            return Err(Error::new(Reason::OverflowAgain, message));
        }
        let condition = Condition::Possible(request.is_some());
        // The store refuses the impossible request, unless it is a repetition that has been answered meanwhile.
        let request = request.unwrap_or_else(replay::of_media);
        let usage = WindowUsage { window, context_tokens };
        let enqueued = self
            .caller
            .store()
            .compactions()
            .enqueue(key, self.caller.requester(), CheckedInput::trusted(request), usage, condition, None)
            .await?;
        let enqueued = enqueued.ok_or_else(|| Error::internal("a report of an overflow was not taken"))?;
        self.caller.shared.scheduler.wake();
        Ok((Error::answer(self.caller.store().compactions().get(enqueued.compaction).await)?, enqueued.joined))
    }

    /// Sets the session's window to the limit that a provider named, unless a client knows better: it named the limits of
    /// the session, or the refused request was for another window.
    async fn apply_named_window(self, key: SessionKey, overflow: &Overflow, tokens: Option<i64>) -> Result<()> {
        let Some(context) = tokens.filter(|_| overflow.window.is_none()) else { return Ok(()) };
        let window = self.caller.store().sessions().get(key).await?.0.window;
        let is_client = window.source == WindowSource::Client && window.input_max().is_some();
        if is_client || window.context == context {
            return Ok(());
        }
        // Other limits were those of a larger window.
        let output = window.output.filter(|output| *output <= context / 4);
        let window = ModelWindow { context, input: None, output, source: WindowSource::ProviderError, ..window };
        let update = UpdateSession { window: Some(window), ..UpdateSession::default() };
        // The request's own id is that of the compaction.
        let requester = Requester { request: None, salted_hash: None, ..self.caller.requester() };
        self.caller.store().sessions().update(key, CheckedInput::trusted(update), requester).await?;
        Ok(())
    }

    /// Applies a finished summary.
    pub async fn supply_summary(self, session: &str, new: NewSummary) -> Result<ScreenedAnswer<(Compaction, Receipt)>> {
        let new = self.caller.check(new)?;
        let key = self.caller.session_key(session).await?;
        if let Some(receipt) = self.caller.store().sessions().kept_answer(key, &self.caller.requester).await? {
            return Ok(ScreenedAnswer::new(self.supplied_answer(receipt).await?, new.into_parts().1));
        }
        self.caller.count_append(1)?;
        // Compactions by the daemon are no change that a client could expect, and a new view tells what the summary covers.
        for _ in 0..limits::SUPPLY_TRIES_MAX {
            let planned = new.with(self.plan_supplied(key, &new).await?);
            if let Some(receipt) = self.caller.store().compactions().supply(planned).await? {
                return Ok(ScreenedAnswer::new(self.supplied_answer(receipt).await?, new.into_parts().1));
            }
        }
        Err(Error::new(Reason::RevisionMismatch, "compactions of the session were committed again and again meanwhile"))
    }

    /// A finished summary with what it covers in today's view. A compaction that is committed meanwhile makes the plan
    /// void.
    async fn plan_supplied(self, key: SessionKey, new: &NewSummary) -> Result<SuppliedSummary> {
        let (source, _held) = self.caller.views().reserved_source(key, None).await?;
        let policy = self.caller.parse_policy(&source.policy)?;
        let until = match new.until.as_str() {
            "" => source.at,
            id => self.caller.store().history().position(key, id).await?.last,
        };
        let (tail_start, tail_message) = match new.tail_start.as_str() {
            "" => (until + 1, None),
            id => {
                let position = self.caller.store().history().position(key, id).await?;
                (position.first, Some(position.message))
            }
        };
        let boundary_is_safe = plan::boundary_is_safe(&source.messages, tail_start, new.includes_open_calls);
        let (covered, covered_count) = plan::supplied(&source.layout, &source.messages, tail_start);
        let before = plan::view(&policy, &source.messages);
        let (messages, behind) = plan::split_at_tail(&source.messages, tail_start);
        let input = self.input_of_supplied(&source, &policy, messages).await?;
        let output = SummaryOutput::new(new.text.clone(), new.summarizer.clone());
        let written =
            SummaryInEffect::new(longhand_extractive::Covered::new(&input), output, (&behind, source.at), true)?;
        let SummaryInEffect { output, beside, digest, quoted_until, said_in } = written;
        let boundary = Boundary { tail_start, retained: &[], retained_first: false };
        let after = plan::with_summary(&policy, &source.layout, &source.messages, &boundary, &new.text, &beside);
        let summary = SummaryChange {
            text: new.text.clone(),
            marker_text: plan::marker_text(&policy),
            tail_start,
            tail_message,
            covered,
            covered_count,
            retained: Vec::new(),
            retained_first: false,
            attachments: beside,
            summarizer: new.summarizer.clone(),
            usage: new.usage,
            supplied: true,
            details_json: None,
            contradictions: output.contradictions,
            digest,
            quoted_until,
            said_in,
        };
        Ok(SuppliedSummary {
            session: key,
            caller: self.caller.requester(),
            expected_revision: new.expected_revision,
            summary,
            boundary_is_safe,
            until,
            measured_at: source.at,
            tokens_before: before.estimated_tokens,
            tokens_after: plan::view(&policy, &after).estimated_tokens,
            keeps_erased: new.keep_erased,
        })
    }

    /// What is known about the messages that a supplied summary covers anew, and about those before them, with what the
    /// policy lets follow a summary.
    async fn input_of_supplied(
        self,
        source: &Source,
        policy: &Policy,
        messages: Vec<SourceMessage>,
    ) -> Result<SummaryInput> {
        let rule = [Level::Auto, Level::Deep, Level::Micro].into_iter().find_map(|level| policy.summarize(level));
        let previous = plan::previous(&source.messages);
        let previous_digest = match source.layout.covered.as_ref().zip(previous.as_deref()) {
            Some((covered, text)) => {
                Some(scheduler::digest_of(self.caller.store(), source.session, covered, text).await?)
            }
            None => None,
        };
        Ok(SummaryInput {
            messages,
            split_turn: Vec::new(),
            previous,
            previous_digest,
            words: self.caller.store().views().words(source.session).await?,
            previous_is_supplied: false,
            rules: rule.map(|rule| rule.summary.clone()).unwrap_or_default(),
            counting: policy.counting.clone(),
            instructions: String::new(),
            budget_tokens: rule.map_or(0, |rule| rule.summary.max_tokens),
        })
    }

    /// The answer to a summary that was supplied: the same one when the request is repeated, from before any undo.
    async fn supplied_answer(self, receipt: Receipt) -> Result<(Compaction, Receipt)> {
        let compaction = Error::answer(self.caller.store().compactions().get(from_receipt(&receipt)?).await)?;
        Ok((Compaction { undone_revision: None, ..compaction }, receipt))
    }

    /// A compaction by its id.
    pub async fn get(self, id: &str) -> Result<Compaction> {
        self.caller.compaction(compaction_id(id)?).await
    }

    /// A compaction by its id, with the text of one of its requests to models, by its number from 1; 0 for none.
    pub async fn get_with(self, id: &str, texts_of: i64) -> Result<Compaction> {
        let mut compaction = self.get(id).await?;
        let index =
            usize::try_from(texts_of).map_err(|_| Error::field("text_request_number", "must not be negative"))?;
        if index > 0
            && let Some(request) = compaction.requests.get_mut(index - 1)
            && let Some(with_texts) = self.caller.store().compactions().request(compaction.id, texts_of).await?
        {
            *request = with_texts;
        }
        Ok(compaction)
    }

    /// A page of a session's compactions, newest first.
    pub async fn list(self, session: &str, size: i64, token: &str) -> Result<(Vec<Compaction>, String)> {
        let limit = page_size(size)?;
        let scope = format!("compactions {session}");
        let below = self.caller.page_start(token, &scope)?;
        let key = self.caller.session_key(session).await?;
        let mut rows = self.caller.store().compactions().list(key, below, limit + 1).await?;
        let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        if more {
            rows.pop();
        }
        let next = rows.last().filter(|_| more).map(|(row, _)| self.caller.page_token(*row, &scope));
        Ok((rows.into_iter().map(|(_, compaction)| compaction).collect(), next.unwrap_or_default()))
    }

    /// A page of a session's requests to models, newest first, each with its purpose. With texts a page holds one
    /// request, since a text may be long.
    pub async fn list_summary_requests(
        self,
        session: &str,
        size: i64,
        token: &str,
        with_texts: bool,
    ) -> Result<(Vec<(Purpose, SummaryRequest)>, String)> {
        let limit = if with_texts { page_size(size)?.min(1) } else { page_size(size)? };
        let scope = format!("summary requests {session}");
        let below = self.caller.page_start(token, &scope)?;
        let key = self.caller.session_key(session).await?;
        let mut rows = self.caller.store().compactions().requests(key, below, limit + 1, with_texts).await?;
        let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        if more {
            rows.pop();
        }
        let next = rows.last().filter(|_| more).map(|(row, ..)| self.caller.page_token(*row, &scope));
        let requests = rows.into_iter().map(|(_, purpose, request)| (purpose, request)).collect();
        Ok((requests, next.unwrap_or_default()))
    }

    /// Confirms a compaction that waits for confirmation, so that it begins.
    pub async fn confirm(self, id: &str) -> Result<Compaction> {
        let id = compaction_id(id)?;
        self.caller.require_compaction(id).await?;
        self.caller.store().compactions().confirm(id, self.caller.requester()).await?;
        self.caller.shared.scheduler.wake();
        Error::answer(self.caller.store().compactions().get(id).await)
    }

    /// Retries a compaction: one that waits for its next attempt is tried at once; for one that ended without effect, a
    /// new one with the same parameters begins. The flag is true if the compaction existed already.
    pub async fn retry(self, id: &str) -> Result<(Compaction, bool)> {
        let id = compaction_id(id)?;
        let before = self.caller.compaction(id).await?;
        let key = self.caller.session_key(&before.session_id.to_string()).await?;
        if let Some(answer) = self.repeated_answer(key).await? {
            return Ok(answer);
        }
        match before.state {
            CompactionState::Ready | CompactionState::Running => {
                self.caller.store().compactions().expedite(id, self.caller.requester()).await?;
                self.caller.shared.scheduler.wake();
                Ok((Error::answer(self.caller.store().compactions().get(id).await)?, true))
            }
            CompactionState::Done => {
                Err(Error::new(Reason::CompactionEnded, "the compaction did what it was asked for")
                    .with("compaction_id", id))
            }
            CompactionState::Failed
            | CompactionState::Cancelled
            | CompactionState::Superseded
            | CompactionState::Dead => {
                let CompactionRequest { kind, level, instructions, bounds, .. } = before.request;
                let session = before.session_id.to_string();
                let head_start = self.shown_message_id(&session, bounds.head_start).await?;
                let tail_start = self.shown_message_id(&session, bounds.tail_start).await?;
                let wanted = NewCompaction { kind, level, instructions, head_start, tail_start };
                Ok(self.start(&session, wanted).await?.answer)
            }
        }
    }

    /// Stops a compaction that is waiting or running.
    pub async fn cancel(self, id: &str) -> Result<Compaction> {
        let id = compaction_id(id)?;
        self.caller.require_compaction(id).await?;
        self.caller.store().compactions().cancel(id, self.caller.requester()).await?;
        self.caller.shared.scheduler.wake();
        Error::answer(self.caller.store().compactions().get(id).await)
    }
}

/// Parses a compaction's id.
fn compaction_id(text: &str) -> Result<CompactionId> {
    text.parse().map_err(|error| {
        Error::new(Reason::CompactionNotFound, format!("there is no compaction {text}: {error}"))
            .with("compaction_id", text)
    })
}

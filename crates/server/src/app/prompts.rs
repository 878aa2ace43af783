//! Prompts for callers: the queue of a session.

use super::append::RewindTo;
use super::error::{Error, Result};
use super::nouns::Prompts;
use super::secrets::{ClientInput, ScreenedAnswer};
use super::{page_size, receipt_id, validate};
use crate::model::Revision;
use crate::model::ids::PromptId;
use crate::model::part::{NewPart, PartBody};
pub use crate::model::prompt::{Delivery, Prompt};
use crate::model::run::Epoch;
use crate::store::{self, QueueChange, Receipt, ScreenResult, SecretScreen, SessionKey};

/// A prompt for a session's queue.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPrompt<'a> {
    /// The content.
    pub parts: Vec<NewPart>,
    /// The sender's wish.
    pub delivery: Delivery,
    /// Free JSON.
    pub metadata_json: Option<String>,
    /// Leaves everything after a message out of the conversation first, or everything, and ends the active run.
    pub rewind: Option<RewindTo<'a>>,
    /// Refuses the prompt if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
}

impl NewPrompt<'_> {
    /// A prompt that queues, with nothing beside its content.
    pub fn from_parts(parts: Vec<NewPart>) -> Self {
        Self { parts, delivery: Delivery::Queue, metadata_json: None, rewind: None, expected_revision: None }
    }
}

/// Which prompt a run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptChoice<'a> {
    /// The first of the queue.
    First,
    /// The first of the queue, if it steers.
    FirstSteering,
    /// The one with this id.
    Named(&'a str),
}

fn prompt_id(field: &str, id: &str) -> Result<PromptId> {
    id.parse().map_err(|error| Error::field(field, error))
}

impl ClientInput for store::NewPrompt {
    fn validate(&self) -> Result<()> {
        validate::prompt(&self.parts, self.metadata_json.as_deref())
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.parts_of_request("prompt", &mut self.parts)?;
        screen.optional_json("metadata_json", &mut self.metadata_json)
    }
}

impl Prompts<'_> {
    /// Adds a prompt to a session's queue.
    pub async fn submit(self, session: &str, new: NewPrompt<'_>) -> Result<ScreenedAnswer<(PromptId, Receipt)>> {
        let NewPrompt { parts, delivery, metadata_json, rewind, expected_revision } = new;
        let rewind = rewind.map(RewindTo::end).transpose()?;
        let new = store::NewPrompt { parts, delivery, metadata_json, rewind };
        let new = self.caller.check(new)?;
        let findings = new.findings().clone();
        if new.rewind.is_some() && new.parts.iter().any(|part| matches!(*part.body, PartBody::ToolResult(_))) {
            return Err(Error::field("rewind", "does not go with results of tools"));
        }
        let key = self.caller.session_key(session).await?;
        self.caller.count_append(1)?;
        let receipt =
            self.caller.store().runs().submit_prompt(key, self.caller.requester(), expected_revision, new).await?;
        Ok(ScreenedAnswer::new((PromptId(receipt_id(&receipt)?), receipt), findings))
    }

    /// Has a run take a prompt, and appends its message. Returns the prompt as it is then.
    pub async fn take(self, session: &str, epoch: Epoch, wanted: PromptChoice<'_>) -> Result<(Prompt, Receipt)> {
        let (prompt, steering_only) = match wanted {
            PromptChoice::First => (None, false),
            PromptChoice::FirstSteering => (None, true),
            PromptChoice::Named(id) => (Some(prompt_id("prompt_id", id)?), false),
        };
        let (key, receipt) = self.change(session, QueueChange::Take { epoch, prompt, steering_only }).await?;
        let prompt = self.caller.store().runs().prompt(key, PromptId(receipt_id(&receipt)?)).await;
        Ok((Error::answer(prompt)?, receipt))
    }

    /// Moves a prompt before another one, or to the end of the queue.
    pub async fn reorder(self, session: &str, prompt: &str, before: Option<&str>) -> Result<Receipt> {
        let prompt = prompt_id("prompt_id", prompt)?;
        let before = before.map(|before| prompt_id("before_prompt_id", before)).transpose()?;
        if before == Some(prompt) {
            return Err(Error::field("before_prompt_id", "is the prompt itself"));
        }
        Ok(self.change(session, QueueChange::Move(prompt, before)).await?.1)
    }

    /// Takes a prompt out of the queue, without a message.
    pub async fn withdraw(self, session: &str, prompt: &str) -> Result<Receipt> {
        let change = QueueChange::Withdraw(prompt_id("prompt_id", prompt)?);
        Ok(self.change(session, change).await?.1)
    }

    async fn change(self, session: &str, change: QueueChange) -> Result<(SessionKey, Receipt)> {
        let key = self.caller.session_key(session).await?;
        Ok((key, self.caller.store().runs().change_queue(key, self.caller.requester(), change).await?))
    }

    /// The prompts that wait in a session, in the order of the queue, or a page of all prompts, newest first; and the
    /// token of the next page.
    pub async fn list(self, session: &str, ended: bool, size: i64, token: &str) -> Result<(Vec<Prompt>, String)> {
        let limit = page_size(size)?;
        let scope = format!("prompts {session} {ended}");
        let start = self.caller.page_start(token, &scope)?;
        let key = self.caller.session_key(session).await?;
        let (prompts, next) = self.caller.store().runs().prompts(key, start, limit, ended).await?;
        Ok((prompts, next.map(|next| self.caller.page_token(next, &scope)).unwrap_or_default()))
    }
}

//! A session under other presets: its conversation played again, without writing anything.

use super::append::ListMessages;
use super::error::{Error, Reason, Result};
use super::nouns::Compactions;
use super::validate;
use crate::limits;
use crate::model::message::{Finish, Message, MessageKind, MessageState, NewMessage};
use crate::model::part::NewPart;
use crate::policy::Policy;
use crate::presets;
use crate::simulation::{Outcome, TranscriptEntry, simulate};
use tokio::sync::OwnedSemaphorePermit;

/// Messages of one page of the history.
const PAGE: i64 = 1_000;

/// What presets would have done with a session.
#[derive(Debug, Clone)]
pub struct Simulations {
    /// Preset by preset, by name; an empty one is the session's own policy.
    pub outcomes: Vec<(String, Outcome)>,
    /// Number of messages that were played.
    pub message_count: usize,
    /// The window, in tokens.
    pub window_tokens: i64,
}

impl Compactions<'_> {
    /// Plays a session's conversation under presets, by their names; an empty name is the session's own policy.
    ///
    /// # Errors
    ///
    /// `SESSION_NOT_FOUND`, `PRESET_NOT_FOUND`, `INVALID_FIELD` without names, `LIMIT_EXCEEDED` for too many names and
    /// for a session that is too long.
    pub async fn simulate_presets(self, session: &str, names: Vec<String>) -> Result<Simulations> {
        if names.is_empty() {
            return Err(Error::field("presets", "has none"));
        }
        validate::bound("presets", names.len(), limits::SIMULATED_PRESETS_MAX)?;
        let cached = self.caller.known(session).await?;
        let policies = names.into_iter().map(|name| match name.as_str() {
            "" => Ok((name, cached.policy.clone())),
            _ => {
                let unknown = || Error::new(Reason::PresetNotFound, format!("there is no preset {name}"));
                let preset = presets::find(&name).ok_or_else(|| unknown().with("preset", &name))?;
                Ok((preset.name.clone(), preset.policy()))
            }
        });
        let policies = policies.collect::<Result<Vec<(String, Policy)>>>()?;
        // One at a time: each has a conversation in memory and takes a processor.
        let permit = self.caller.shared.unless_stopping(self.caller.shared.simulations.clone().acquire_owned()).await?;
        let permit = permit.map_err(Error::internal)?;
        let entries = self.conversation(session).await?;
        let window = cached.window.clone();
        let message_count = entries.len();
        let window_tokens = window.context;
        let stopping = self.caller.shared.stopping.clone();
        let outcomes = aside(permit, move || {
            let play = |(name, policy): (String, Policy)| {
                (
                    name,
                    simulate(&policy, &window, &entries, &longhand_extractive::extract, &|input| {
                        longhand_extractive::Covered::new(input).digest().to_json()
                    }),
                )
            };
            // The process waits for the one that is played.
            policies.into_iter().take_while(|_| !stopping.is_cancelled()).map(play).collect()
        });
        let outcomes = self.caller.shared.unless_stopping(outcomes).await??;
        if self.caller.shared.stopping.is_cancelled() {
            return Err(Error::stopping());
        }
        Ok(Simulations { outcomes, message_count, window_tokens })
    }

    /// The messages of a session's conversation, as clients wrote them.
    async fn conversation(self, session: &str) -> Result<Vec<TranscriptEntry>> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut page_token = String::new();
        loop {
            let list = ListMessages { page_size: PAGE, page_token, ..ListMessages::default() };
            let page = self.caller.messages().list(session, list).await?;
            for (message, status) in page.messages.into_iter().zip(page.statuses) {
                let is_played = message.kind == MessageKind::Normal && message.sealed_revision.is_some();
                let is_out =
                    [MessageState::Rewound, MessageState::Removed, MessageState::Inactive].contains(&status.state);
                if !is_played || is_out {
                    continue;
                }
                let of_parts = message.parts.iter().map(|part| usize::try_from(part.body.growth_bytes()).unwrap_or(0));
                bytes += of_parts.sum::<usize>();
                entries.push(TranscriptEntry::Message(Box::new(written(message))));
                validate::bound("messages of a simulation", entries.len(), limits::SIMULATED_MESSAGES_MAX)?;
                validate::bound("bytes of a simulation", bytes, limits::SIMULATED_BYTES_MAX)?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(entries);
            }
        }
    }
}

/// Works on a thread apart, which a caller that leaves does not stop: the work has its permit until it ends.
async fn aside<Done: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> Done + Send + 'static,
) -> Result<Done> {
    let working = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    working.await.map_err(Error::internal)
}

/// A message as it was written, without its usage: that was measured in other views.
fn written(message: Message) -> NewMessage {
    let parts = message.parts.into_iter().map(|part| NewPart {
        client_id: None,
        body: part.body,
        metadata_json: part.metadata_json,
        received: None,
    });
    NewMessage {
        finish: Some(Finish { usage: None, ..message.finish.with_view(None) }),
        model: message.model,
        provider: message.provider,
        origin_time: Some(message.create_time),
        ..NewMessage::sealed(message.role, parts.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn work_has_its_permit_until_it_ends_though_its_caller_leaves() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.clone().try_acquire_owned().expect("free");
        let (go, wait) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let caller = tokio::spawn(aside(permit, move || {
            begin.send(()).expect("somebody waits");
            wait.recv().expect_err("the end of the test");
        }));
        begun.await.expect("it works");
        caller.abort();
        assert!(caller.await.is_err_and(|error| error.is_cancelled()));
        assert!(permits.try_acquire().is_err(), "it still works");
        drop(go);
        drop(permits.acquire().await.expect("it has ended"));
    }
}

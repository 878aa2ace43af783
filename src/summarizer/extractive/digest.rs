//! The history, read once: who said what, which tools ran, and how each ended.

use super::commands::{self, Purpose};
use super::text;
use super::tools::{self, Kind, Use};
use crate::model::message::{MessageKind, Role};
use crate::model::part::{PartBody, ResultStatus, ToolResult};
use crate::model::view::SourceMessage;
use crate::policy::calls::Calls;
use std::borrow::Cow;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// The user.
    User,
    /// The model, to the user.
    Assistant,
    /// The model, to itself.
    Thought,
}

/// Something that was said.
#[derive(Debug, Clone)]
pub(super) struct Said<'a> {
    /// In which message, counted from the start.
    pub(super) at: usize,
    /// Who said it.
    pub(super) speaker: Speaker,
    /// The words, harmless and without what an agent put around them.
    pub(super) text: Cow<'a, str>,
}

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It did what it was asked.
    Worked,
    /// It failed.
    Failed,
    /// Nobody let it end: the history stops before its result, or somebody stopped it.
    Unknown,
}

/// A tool call with its result.
#[derive(Debug, Clone)]
pub(super) struct Action<'a> {
    /// In which message, counted from the start.
    pub(super) at: usize,
    /// The tool's name.
    pub(super) tool: &'a str,
    /// What the call does.
    pub(super) call: Use,
    /// What its command is for, if it is one.
    pub(super) purpose: Option<Purpose>,
    /// What came back; empty when nothing did.
    pub(super) output: &'a str,
    /// How it ended.
    pub(super) outcome: Outcome,
}

/// A history, read.
#[derive(Debug, Default)]
pub(super) struct Digest<'a> {
    /// What was said, in order.
    pub(super) said: Vec<Said<'a>>,
    /// What was done, in order.
    pub(super) actions: Vec<Action<'a>>,
    /// How many messages there are.
    pub(super) length: usize,
}

impl<'a> Digest<'a> {
    /// Reads messages, oldest first.
    pub(super) fn read(messages: impl IntoIterator<Item = &'a SourceMessage>) -> Self {
        let messages: Vec<&SourceMessage> = messages.into_iter().collect();
        let mut digest = Self { length: messages.len(), ..Self::default() };
        let calls = Calls::of(messages.iter().copied());
        let by_call = calls.by_call();
        for (at, source) in messages.into_iter().enumerate() {
            for part in &source.message.parts {
                // Longhand's words about an abandoned branch are no user's, though they stand in a user's place.
                let is_branch = source.message.kind == MessageKind::Branch;
                let role = if is_branch { Role::Assistant } else { source.message.role };
                digest.read_part(at, role, &part.body, by_call.get(&part.id).map(|answer| answer.result));
            }
        }
        digest
    }

    fn read_part(&mut self, at: usize, role: Role, body: &'a PartBody, answer: Option<&'a ToolResult>) {
        match body {
            PartBody::Text(words) => match role {
                Role::User => self.say(at, Speaker::User, Cow::Owned(text::spoken(words))),
                Role::Assistant => self.say(at, Speaker::Assistant, text::clean(words)),
                // Standing instructions come with every view, and a tool's words come as results.
                Role::System | Role::Tool => {}
            },
            PartBody::Reasoning(words) => self.say(at, Speaker::Thought, text::clean(words)),
            PartBody::ToolCall(call) => {
                let understood = tools::understand(&call.tool, &call.input_json);
                let purpose = understood.command.as_deref().map(commands::purpose);
                let mut action =
                    Action { at, tool: &call.tool, call: understood, purpose, output: "", outcome: Outcome::Unknown };
                if let Some(result) = answer {
                    action.output = &result.output;
                    action.outcome = match result.status {
                        ResultStatus::Completed if failed_quietly(&action) => Outcome::Failed,
                        ResultStatus::Completed => Outcome::Worked,
                        ResultStatus::Error => Outcome::Failed,
                        ResultStatus::Interrupted => Outcome::Unknown,
                    };
                }
                self.actions.push(action);
            }
            // A call's result is read with the call.
            PartBody::ToolResult(_)
            | PartBody::Media(_)
            | PartBody::Marker(_)
            | PartBody::Step(_)
            | PartBody::Opaque(_)
            | PartBody::Record(_) => {}
        }
    }

    fn say(&mut self, at: usize, speaker: Speaker, text: Cow<'a, str>) {
        if text.chars().any(char::is_alphanumeric) {
            self.said.push(Said { at, speaker, text });
        }
    }

    /// How much something at this place still weighs: 1 at the end, half of that for every quarter of the history
    /// further back. A short history does not age.
    pub(super) fn recency(&self, at: usize) -> f64 {
        let half_life = (self.length as f64 / 4.0).max(12.0);
        let age = self.length.saturating_sub(at + 1) as f64;
        0.5_f64.powf(age / half_life)
    }

    /// The user's requests, in order. Interjections such as `continue` are not requests.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Said<'a>> {
        self.said.iter().filter(|said| said.speaker == Speaker::User && is_request(&said.text))
    }
}

fn failed_quietly(action: &Action<'_>) -> bool {
    match action.purpose {
        Some(Purpose::Verify | Purpose::Record | Purpose::Change) => commands::tells_failure(action.output),
        Some(Purpose::Look) | None => action.call.kind == Kind::Edit && action.output.starts_with("Error"),
    }
}

/// Words that only say "go on", or stop the agent.
fn is_request(words: &str) -> bool {
    let bare = words.trim().trim_end_matches(['.', '!', '?', '。', '！']).to_lowercase();
    const NUDGES: &[&str] = &[
        "continue",
        "go on",
        "go ahead",
        "yes",
        "y",
        "ok",
        "okay",
        "no",
        "proceed",
        "thanks",
        "thank you",
        "stop",
        "sleep",
        "please continue",
        "keep going",
        "next",
        "do it",
        "sure",
        "good",
        "great",
        "nice",
        "hi",
        "hello",
        "继续",
        "好",
        "好的",
        "是",
        "可以",
        "谢谢",
        "嗯",
    ];
    let is_slash = bare.starts_with('/') && !bare.contains(' ') && bare.matches('/').count() == 1;
    let is_notice = bare.starts_with("[request interrupted") || bare.starts_with("caveat:");
    bare.chars().filter(|letter| letter.is_alphanumeric()).count() > 1
        && !NUDGES.contains(&bare.as_str())
        && !is_slash
        && !is_notice
}

//! Required and forbidden texts in the summaries of small conversations.

mod claims;
mod facts;
mod file_lists;
mod laws;
mod pieces;
mod said;
mod sections;
mod states;

use super::{Covered, Digest, extract};
use longhand_core::policy::summary::SummaryInput;
use longhand_model::compaction::Level;
use longhand_model::ids::{MessageId, PartId, SessionId};
use longhand_model::mark::Words;
use longhand_model::message::{Finish, Message, MessageKind, Role};
use longhand_model::part::{Answers, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand_model::time::Timestamp;
use longhand_model::view::SourceMessage;
use longhand_presets as presets;
use uuid::Uuid;

/// The digest of what a summary of an input covers.
fn digest(input: &SummaryInput) -> Digest {
    Covered::new(input).digest()
}

fn id(revision: i64) -> MessageId {
    MessageId(Uuid::from_u128(revision.unsigned_abs().into()))
}

/// A builder of conversations.
#[derive(Debug, Clone, Default)]
struct Talk(Vec<SourceMessage>);

impl Talk {
    fn add(mut self, role: Role, parts: Vec<PartBody>) -> Self {
        let revision = self.0.len() as i64 + 1;
        let part = |(index, body): (usize, PartBody)| {
            let id = PartId(Uuid::from_u128(((self.0.len() as u128) << 64) | index as u128));
            Part { id, client_id: None, revision, body: body.into(), metadata_json: None }
        };
        let message = Message {
            id: id(revision),
            session_id: SessionId(Uuid::nil()),
            client_id: None,
            revision,
            role,
            kind: MessageKind::Normal,
            parts: parts.into_iter().enumerate().map(part).collect(),
            sealed_revision: Some(revision),
            finish: Finish::default(),
            model: String::new(),
            provider: String::new(),
            create_time: Timestamp::default(),
            origin_time: None,
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        };
        self.0.push(SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None });
        self
    }

    fn user(self, words: &str) -> Self {
        self.add(Role::User, vec![PartBody::Text(words.to_owned())])
    }

    fn model(self, words: &str) -> Self {
        self.add(Role::Assistant, vec![PartBody::Text(words.to_owned())])
    }

    fn tool(self, tool: &str, input: serde_json::Value, status: ResultStatus, output: &str) -> Self {
        let call_id = format!("call-{}", self.0.len());
        let result = ToolResult {
            call_id: call_id.clone(),
            status,
            output: output.to_owned(),
            attachments: Vec::new(),
            start_time: None,
            end_time: None,
            answers: Answers::Nearest,
        };
        let call = ToolCall { call_id, tool: tool.to_owned(), input_json: input.to_string(), ..ToolCall::default() };
        self.add(Role::Assistant, vec![PartBody::ToolCall(call)]).add(Role::Tool, vec![PartBody::ToolResult(result)])
    }

    fn works(self, tool: &str, input: serde_json::Value, output: &str) -> Self {
        self.tool(tool, input, ResultStatus::Completed, output)
    }

    fn fails(self, tool: &str, input: serde_json::Value, output: &str) -> Self {
        self.tool(tool, input, ResultStatus::Error, output)
    }

    /// Adds a command with its output.
    fn runs(self, command: &str, output: &str) -> Self {
        self.works("bash", serde_json::json!({ "command": command }), output)
    }

    fn input(self, preset: &str) -> SummaryInput {
        let policy = presets::policy(preset);
        SummaryInput {
            messages: self.0,
            split_turn: Vec::new(),
            previous: None,
            previous_digest: None,
            words: Words::new(),
            previous_is_supplied: false,
            rules: policy.summarize(Level::Auto).expect("a policy that summarizes").summary.clone(),
            counting: policy.counting,
            instructions: String::new(),
            budget_tokens: 3_600,
        }
    }

    fn summary(self) -> String {
        extract(&self.input("opencode@seed"))
    }
}

/// The lines of one section, bullets included.
fn section<'t>(text: &'t str, heading: &str) -> Vec<&'t str> {
    text.lines()
        .skip_while(|line| line.trim_start_matches('#').trim() != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| !line.is_empty())
        .collect()
}

#[track_caller]
fn assert_says(text: &str, heading: &str, words: &str) {
    let lines = section(text, heading);
    assert!(lines.iter().any(|line| line.contains(words)), "{heading:?} does not say {words:?}:\n{text}");
}

//! The text that a model reads for a summary: the history as a transcript.

use super::history::History;
use super::{Question, WHOLE_CHARACTERS, entry};
use crate::generate::Conversation;
use crate::report::Class;
use crate::session::without_margins;
use longhand::model::compaction::Level;
use longhand::model::part::{PartBody, ResultStatus};
use longhand::policy::prompt::{Detail, GAP, entries};
use longhand::presets;
use serde_json::{Value, json};
use std::sync::Arc;

/// The transcript of a history, which may contain media; no tail is kept, and there is no earlier summary.
pub(super) struct Transcript {
    history: History,
}

impl Transcript {
    pub(super) fn draw(conversation: &Conversation) -> Self {
        let mut history = History::draw(conversation, 0);
        // A failed tool returns no media in OpenCode.
        for part in history.messages.iter_mut().flat_map(|source| &mut source.message.parts) {
            match Arc::make_mut(&mut part.body) {
                PartBody::ToolResult(result) if result.status != ResultStatus::Completed => result.attachments.clear(),
                _ => {}
            }
        }
        Self { history }
    }
}

impl Question for Transcript {
    fn input(&self) -> Value {
        json!({"config": {"tail_turns": 0}, "messages": self.history.in_opencode().0, "text": true})
    }

    fn ours(&self) -> Value {
        let messages: Vec<_> = self.history.messages.iter().collect();
        let policy = presets::policy("opencode@1.18");
        let rules = policy.summarize(Level::Auto).map(|rule| &rule.summary.transcript);
        // OpenCode has no margins before quoted lines; without them, our transcript is its text.
        rules.map_or(Value::Null, |rules| {
            lines(&without_margins(&entries(rules, Detail::full(rules), &messages).join(GAP)))
        })
    }

    /// The surrounding text is OpenCode's own.
    fn theirs(&self, answer: &Value) -> Value {
        let request = answer["request"].as_str().unwrap_or_default();
        let inside = request.split_once("<conversation>\n").and_then(|(_, rest)| rest.rsplit_once("\n</conversation>"));
        inside.map_or(Value::Null, |(text, _)| lines(text))
    }

    fn explain(&self, theirs: &Value, _again: Option<&Value>) -> Option<&'static Class> {
        (whole(theirs) == self.ours()).then_some(WHOLE_CHARACTERS)
    }
}

/// The lines of a transcript without the half character that JavaScript leaves before the marker of a truncation.
pub(super) fn whole(transcript: &Value) -> Value {
    let texts: Vec<&str> = transcript.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    lines(&texts.join("\n").replace("\u{fffd}\n[truncated]", "\n[truncated]"))
}

/// A text as its lines, so that a difference has a position.
pub(super) fn lines(text: &str) -> Value {
    text.split('\n').collect()
}

/// OpenCode's request for a summary: the transcript as lines, and the previous summary.
pub(super) fn asked_of(event: &Value) -> Value {
    let texts = event["messages"].as_array().into_iter().flatten().map(entry);
    let text: Vec<String> = texts
        .flat_map(|message| message["texts"].as_array().cloned().unwrap_or_default())
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect();
    let text = text.join("\n\n");
    let between = |begin: &str, end: &str| {
        text.split_once(begin).and_then(|(_, rest)| rest.rsplit_once(end)).map(|(inside, _)| inside.to_owned())
    };
    let transcript_lines = between("<conversation>\n", "\n</conversation>").map_or(Value::Null, |text| lines(&text));
    json!({ "transcript": transcript_lines, "previous": between("<prior-summary>\n", "\n</prior-summary>") })
}

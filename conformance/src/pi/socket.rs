//! Scenarios through the daemon's socket: the real binary, its scheduler and its summarizer, with a simulated provider.

use super::scenario::{Made, Next, Scenario, Side, lines_of_prompt};
use super::scenarios::Scenarios;
use crate::daemon::{Daemon, Prompt, View};
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Report};
use longhand::model::message::Role;
use longhand::model::usage::Usage;
use longhand::model::view::SourceMessage;
use longhand::pb;
use serde_json::{Value, json};
use std::cell::Cell;

/// The same scenarios as with `fold` alone, in a daemon.
pub(crate) struct Socket(&'static Scenarios);

pub(crate) const V1_5: Socket = Socket(&super::scenarios::V1_5);

/// One of this number of scenarios also runs in the daemon, because every message waits for the daemon's decision.
const FOLD_SCENARIOS: u64 = 10;

impl System for Socket {
    fn name(&self) -> &'static str {
        "pi-1.5-socket"
    }

    fn packages(&self) -> &'static str {
        self.0.packages()
    }

    fn program(&self) -> &'static str {
        self.0.program()
    }

    fn classes(&self) -> &'static [Class] {
        self.0.classes()
    }

    fn run(&self, peer: &mut Peer, run: Run, report: &mut Report) -> Result<(), PeerFailure> {
        let daemon = Daemon::start(&std::env::temp_dir())?;
        for index in run.first..run.first.saturating_add(run.scenarios.div_ceil(FOLD_SCENARIOS)) {
            let scenario = self.0.draw(run.seed, index).with_sections().with_words();
            let words = Cell::new(0);
            let mut ours = InDaemon::start(&daemon, &scenario, &words)?;
            self.0.course(&mut *peer, &mut *report, &scenario).run(&mut ours, &words)?;
        }
        Ok(())
    }
}

/// Our side in a daemon.
struct InDaemon<'a> {
    daemon: &'a Daemon,
    scenario: &'a Scenario,
    words: &'a Cell<usize>,
    session_id: String,
    view: View,
    /// The index of the first message in the view, and the number of messages.
    first: usize,
    count: usize,
    /// The text of the active summary, and the compaction that wrote it.
    summary: Option<(String, String)>,
    /// True if the view has not been evaluated yet.
    is_new: bool,
}

impl<'a> InDaemon<'a> {
    fn start(daemon: &'a Daemon, scenario: &'a Scenario, words: &'a Cell<usize>) -> Result<Self, PeerFailure> {
        let session_id = daemon.create(pb::CreateSessionRequest {
            policy_json: scenario.policy_json(),
            window: Some(pb::ModelWindow { max_context_tokens: scenario.window.context, ..Default::default() }),
            ..Default::default()
        })?;
        let (view, summary) = (View::default(), None);
        Ok(Self { daemon, scenario, words, session_id, view, first: 0, count: 0, summary, is_new: false })
    }

    /// A compaction that the view shows, with the requests that the provider got for it.
    fn made(&mut self, id: String, text: String, prompts: Vec<Prompt>) -> Made {
        let inline: Vec<SourceMessage> =
            (self.first..self.count).map(|position| self.scenario.message(position).clone()).collect();
        let shown = self.view.messages.iter().flat_map(|message| &message.parts);
        let positions = shown.filter_map(|part| part.part.as_ref()?.metadata_json.as_ref()?.parse().ok());
        let first = positions.min().unwrap_or(self.count);
        let (head, _) = inline.split_at(first - self.first);
        let asks = |source: &SourceMessage| source.message.role == Role::User;
        let front = prompts.iter().any(|prompt| prompt.front).then(|| head.iter().rposition(asks)).flatten();
        let (head, front) = head.split_at(front.unwrap_or(head.len()));
        let mut transcripts = json!({ "history": null, "front": null, "previous": null });
        for prompt in &prompts {
            let (transcript, previous) = lines_of_prompt(&prompt.text);
            transcripts[if prompt.front { "front" } else { "history" }] = transcript;
            if !previous.is_null() {
                transcripts["previous"] = previous;
            }
        }
        let previous = self.summary.replace((text.clone(), id)).map(|(text, _)| text);
        let made = Made {
            text,
            transcripts,
            view: self.lines(),
            first,
            head: head.to_vec(),
            front: front.to_vec(),
            previous,
            inline,
        };
        self.first = first;
        made
    }
}

impl Side for InDaemon<'_> {
    fn append(&mut self, position: usize) -> Result<Value, PeerFailure> {
        let message = &self.scenario.message(position).message;
        let usage = self.scenario.usage(position, self.view.header.estimated_tokens);
        let words = self.scenario.words(self.words.get()).clone();
        self.daemon.provider(|provider| provider.words = words);
        let view_token = (message.role == Role::Assistant).then(|| self.view.header.view_token.clone());
        let new = pb::NewMessage {
            role: pb::Role::from(message.role).into(),
            kind: pb::MessageKind::Normal.into(),
            parts: message
                .parts
                .iter()
                .map(|part| pb::Part {
                    metadata_json: part.metadata_json.clone(),
                    body: Some((*part.body).clone().into()),
                    ..Default::default()
                })
                .collect(),
            finish: Some(pb::Finish {
                reason: pb::FinishReason::from(message.finish.reason).into(),
                usage: usage.as_ref().map(reported),
                view_token,
                ..Default::default()
            }),
            ..Default::default()
        };
        self.daemon.append(&self.session_id, new)?;
        self.count += 1;
        self.view = self.daemon.view(&self.session_id)?;
        self.is_new = true;
        Ok(self.scenario.raw(position, usage.as_ref()))
    }

    fn next(&mut self, _number: usize) -> Result<Option<Next>, PeerFailure> {
        if !std::mem::take(&mut self.is_new) {
            return Ok(None);
        }
        let prompts = self.daemon.provider(|provider| std::mem::take(&mut provider.prompts));
        let is_shortened =
            self.view.messages.iter().flat_map(|message| &message.parts).any(|part| part.shortening != 0);
        if is_shortened {
            return Ok(Some(Next::LastResort));
        }
        let summary = self.view.messages.iter().find_map(|message| {
            let words: String = message.parts.iter().filter_map(text_of).collect();
            message.provenance.as_ref().map(|it| (it.compaction_id.clone(), words))
        });
        let is_known = |id: &str| self.summary.as_ref().is_some_and(|(_, known)| known == id);
        match summary.filter(|(id, _)| !is_known(id)) {
            Some((id, shown)) => {
                let text = self.scenario.summary_in(&shown);
                Ok(Some(Next::Made(Box::new(self.made(id, text, prompts)))))
            }
            None if prompts.is_empty() => Ok(None),
            // The summary was written, and refused.
            None => Ok(Some(Next::Refused)),
        }
    }

    fn lines(&self) -> Value {
        self.view.messages.iter().flat_map(message_lines).collect()
    }
}

/// The content of a message of the view, a line for each part.
fn message_lines(message: &pb::ContextMessage) -> Vec<Value> {
    let role = match message.role() {
        pb::Role::Assistant => "assistant",
        pb::Role::Tool => "toolResult",
        pb::Role::System => "system",
        pb::Role::User | pb::Role::Unspecified => "user",
    };
    let is_paired = message.kind() == pb::ContextMessageKind::MissingResult;
    let line = |part: &pb::ContextPart| match part.part.as_ref()?.body.as_ref()? {
        pb::part::Body::Text(text) => Some(json!({ "role": role, "kind": "text", "text": text.text })),
        pb::part::Body::Reasoning(text) => Some(json!({ "role": role, "kind": "thinking", "text": text.text })),
        pb::part::Body::ToolCall(call) => {
            let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            Some(json!({ "role": role, "kind": "call", "id": call.call_id, "name": call.tool, "input": input }))
        }
        pb::part::Body::ToolResult(result) => {
            let (kind, images) = (if is_paired { "paired" } else { "result" }, result.attachments.len());
            Some(json!({ "role": role, "kind": kind, "id": result.call_id, "text": result.output, "images": images }))
        }
        pb::part::Body::Media(media) => Some(json!({ "role": role, "kind": "image", "mime": media.mime_type })),
        _ => None,
    };
    message.parts.iter().filter_map(line).collect()
}

fn text_of(part: &pb::ContextPart) -> Option<&str> {
    match part.part.as_ref()?.body.as_ref()? {
        pb::part::Body::Text(text) => Some(&text.text),
        _ => None,
    }
}

fn reported(usage: &Usage) -> pb::Usage {
    pb::Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        cache_read_tokens: usage.cache_read,
        ..Default::default()
    }
}

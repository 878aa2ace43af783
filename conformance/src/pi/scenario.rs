//! One scenario: its messages, and our side of it.

use super::session::{self, message_tokens};
use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile, Results, text};
use crate::harness::PeerFailure;
use crate::session::{Session, SummaryMade};
use longhand::model::Revision;
use longhand::model::compaction::Level;
use longhand::model::message::{Finish, FinishReason, MessageKind, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::SourceMessage;
use longhand::policy::prompt::{self, NO_HISTORY};
use longhand::policy::summary::{SummaryInput, SummaryOutput};
use longhand::policy::{Policy, files};
use longhand::simulation::WriteSummary;
use rand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

const PROFILE: Profile = Profile {
    turns: 6..=20,
    text_max: 2_000,
    output_max: 9_000,
    system: false,
    results: Results::MessageEach,
    tools: &["read", "write", "edit", "bash", "grep"],
    ..Profile::FULL
};

/// The same profile with tools that pi does not have, some of them named like pi's in other case.
const OTHER_TOOLS: Profile =
    Profile { tools: &["read", "write", "edit", "bash", "grep", "Read", "WRITE", "read_file", "Edit"], ..PROFILE };

/// One of this number of scenarios has these tools.
const OTHER_TOOLS_IN: u64 = 4;

/// A compaction must free at least one part of this number of the window.
const WINDOW_PARTS: i64 = 20;

/// The data of a scenario.
pub(super) struct Scenario {
    pub(super) index: u64,
    messages: Vec<SourceMessage>,
    /// Tokens that replies report besides the view and their own content.
    unseen: Vec<Option<i64>>,
    /// True for messages whose content is a text, not a list of blocks.
    plain: Vec<bool>,
    words: Vec<[String; 2]>,
    pub(super) window: ModelWindow,
    reserve_tokens: i64,
    pub(super) keep_tokens: i64,
    policy: Policy,
    is_early: bool,
}

/// The moments at which pi checks if a compaction is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    None,
    /// Between the requests of a run.
    Between,
    /// At the end of a run.
    End,
    /// Before a request of the user.
    Prompt,
}

impl Moment {
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Between => Some("between"),
            Self::End => Some("end"),
            Self::Prompt => Some("prompt"),
        }
    }
}

impl Scenario {
    /// Draws a scenario: its messages, and the settings of both sides.
    pub(super) fn draw(seed: u64, index: u64, policy: Policy, is_early: bool) -> Self {
        let profile = if index.is_multiple_of(OTHER_TOOLS_IN) { &OTHER_TOOLS } else { &PROFILE };
        let mut conversation = Conversation::generate(seed, index, profile);
        let mut dice = conversation.dice("scenario");
        for part in conversation.messages.iter_mut().flat_map(|source| &mut source.message.parts) {
            let PartBody::ToolCall(call) = Arc::make_mut(&mut part.body) else { continue };
            if !["Read", "WRITE", "read_file", "Edit"].contains(&call.tool.as_str()) {
                continue;
            }
            let field = if dice.random_bool(0.5) { "path" } else { "file_path" };
            call.input_json = json!({ field: format!("src/{}.rs", dice.random_range(0..20)) }).to_string();
        }
        for (position, source) in conversation.messages.iter_mut().enumerate() {
            source.message.parts.iter_mut().for_each(|part| part.metadata_json = Some(position.to_string()));
        }
        let context = dice.random_range(4_000..16_000);
        let reserve_tokens = dice.random_range(context / 20..context / 4);
        let keep_tokens = dice.random_range(context / 40..context / 3);
        let patch = json!({ "auto": {
            "threshold": { "limit": { "reserve_tokens": reserve_tokens } },
            "steps": { "0": { "summarize": { "tail": { "recent": { "keep_tokens": keep_tokens } } } } },
        } });
        let policy = policy.with_overrides(&patch.to_string()).unwrap_or_else(|error| panic!("{patch}: {error}"));
        let unseen = dice.random_range(0..context / 20);
        let messages = conversation.messages;
        let reports = |source: &SourceMessage, dice: &mut rand::rngs::StdRng| match source.message.finish.reason {
            Some(FinishReason::Error) => None,
            Some(FinishReason::Aborted) => None,
            _ => Some(unseen + dice.random_range(0..100)),
        };
        let unseen = messages.iter().map(|source| reports(source, &mut dice)).collect();
        let plain = messages.iter().map(|_| dice.random_bool(0.3)).collect();
        let words = (0..messages.len() + 1).map(|number| {
            let mut words = |what: &str| format!("{what} {number}: {} END", text(&mut dice, 600));
            [words("THE HISTORY"), words("THE FRONT")]
        });
        let words = words.collect();
        let window = ModelWindow { context, output: Some(1), ..ModelWindow::default() };
        Self { index, messages, unseen, plain, words, window, reserve_tokens, keep_tokens, policy, is_early }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn settings(&self) -> Value {
        json!({ "enabled": true, "reserveTokens": self.reserve_tokens, "keepRecentTokens": self.keep_tokens })
    }

    pub(super) fn words(&self, number: usize) -> &[String; 2] {
        &self.words[number.min(self.words.len() - 1)]
    }

    /// The summary from these texts, as a client composes it from two answers of its model; `past` replaces the history
    /// if only the beginning of a turn is summarized.
    fn composed(&self, number: usize, head: &[SourceMessage], front: &[SourceMessage], past: &str) -> String {
        let [history, of_front] = self.words(number);
        let rules = self.policy.summarize(Level::Auto).map(|rule| &rule.summary);
        let heading =
            rules.and_then(|rules| Some(rules.split_turn.as_ref()?.heading.as_str())).filter(|_| !front.is_empty());
        let past = if spoken(head).next().is_some() { history } else { past };
        heading.map_or_else(|| history.clone(), |heading| prompt::join(heading, past, of_front))
    }

    /// The summary as our own code completes it.
    pub(super) fn text(&self, number: usize, input: &SummaryInput) -> String {
        let past = input.previous.as_deref().unwrap_or(NO_HISTORY);
        let text = self.composed(number, &input.messages, &input.split_turn, past);
        let covered = longhand_extractive::Covered::new(input);
        longhand_extractive::completed(SummaryOutput::new(text, "conformance"), &covered, &[]).text
    }

    /// The answer to a request of the daemon.
    pub(super) fn answer(&self, number: usize, input: &SummaryInput) -> String {
        let [history, of_front] = self.words(number);
        if input.split_turn.is_empty() { history.clone() } else { of_front.clone() }
    }

    /// Our side before the first message.
    pub(super) fn ours<'a>(
        &'a self,
        daemon: Option<&'a Daemon>,
        writer: WriteSummary<'a>,
    ) -> Result<Ours<'a>, PeerFailure> {
        let session = Session::new(daemon, &self.policy, &self.window, writer)?;
        Ok(Ours { scenario: self, session, revisions: Vec::new(), seen: 0 })
    }

    /// The same scenario with summaries that have the requested sections: the daemon would refuse others.
    pub(super) fn with_sections(mut self) -> Self {
        for (number, words) in self.words.iter_mut().enumerate() {
            let facts = |what: &str| {
                (0..6).map(|at| format!("- {what} {number}.{at}: see src/part_{at}.rs\n")).collect::<String>()
            };
            let of_history = "## Goal\n{}\n## Constraints & Preferences\n{}\n## Progress\n\n### Done\n{}\n### In Progress\n- [ ] \
                              nothing\n\n### Blocked\n- nothing\n\n## Key Decisions\n{}\n## Next Steps\n1. go on\n\n\
                              ## Critical Context\n{}";
            let of_front = "## Original Request\n{}\n## Progress So Far\n{}\n## Context Needed to Continue\n{}";
            let fill = |form: &str, what| form.replace("{}", &facts(what)).trim().to_owned();
            *words = [fill(of_history, "history"), fill(of_front, "front")];
        }
        self
    }

    /// The same scenario with text in every request and reply. A daemon shows its boundary only through its view, which
    /// contains nothing of a message without text; and it asks no model about the beginning of a turn without text.
    pub(super) fn with_words(mut self) -> Self {
        for source in self.messages.iter_mut().filter(|source| source.message.role != Role::Tool) {
            let has_content =
                |body: &PartBody| !matches!(body, PartBody::Text(text) | PartBody::Reasoning(text) if text.is_empty());
            let has_words = source
                .message
                .parts
                .iter()
                .any(|part| has_content(&part.body) && !matches!(*part.body, PartBody::Media(_)));
            let text = source.message.parts.iter_mut().find(|part| matches!(*part.body, PartBody::Text(_)));
            if let Some(part) = text.filter(|_| !has_words) {
                part.body = PartBody::Text("so".to_owned()).into();
            }
        }
        self
    }

    /// The usage that the reply with this index reports, if any, for a view with this number of tokens.
    pub(super) fn usage(&self, position: usize, view_tokens: i64) -> Option<Usage> {
        let message = &self.messages[position].message;
        let unseen = self.unseen[position].filter(|_| message.role == Role::Assistant)?;
        let input = view_tokens + unseen;
        let output = message_tokens(message, self.is_early) + 1;
        Some(Usage { input: input - input / 2, cache_read: input / 2, output, ..Usage::default() })
    }

    /// The moment that a message causes.
    pub(super) fn moment(&self, position: usize) -> Moment {
        let message = &self.messages[position].message;
        let next = self.messages.get(position + 1).map(|next| next.message.role);
        match message.role {
            Role::User => Moment::Prompt,
            Role::Tool if next != Some(Role::Tool) => Moment::Between,
            Role::Assistant if message.finish.reason != Some(FinishReason::ToolCalls) => Moment::End,
            Role::Tool | Role::Assistant | Role::System => Moment::None,
        }
    }

    pub(super) fn is_aborted(&self, position: usize) -> bool {
        self.messages[position].message.finish.reason == Some(FinishReason::Aborted)
    }

    /// The tokens of messages by pi's estimate, computed without our functions.
    pub(super) fn tokens(&self, positions: Range<usize>) -> i64 {
        self.messages[positions].iter().map(|source| message_tokens(&source.message, self.is_early)).sum()
    }

    /// The tokens that a compaction must free.
    pub(super) fn least_gain(&self) -> i64 {
        (self.window.context / WINDOW_PARTS).max(1)
    }

    /// The tokens that a plan of pi's would free: the smaller one of the expected and the actual number.
    pub(super) fn freed(&self, prepared: &Value, number: usize) -> i64 {
        let Some(head) = prepared["headTokens"].as_i64() else { return 0 };
        let style = &self.policy.view;
        let frame = style.summary_prefix.encode_utf16().count() + style.summary_suffix.encode_utf16().count();
        let shown = |text: &str| ((frame + text.encode_utf16().count()) as i64 + 3) / 4;
        let before = prepared["previous"].as_str().map(shown);
        let after = prepared["summary"].as_str().map_or_else(|| shown(&self.words(number)[0]), shown);
        let positions = ["summarize", "prefix"].iter().flat_map(|list| prepared[list].as_array().into_iter().flatten());
        let positions = positions.filter_map(Value::as_u64).map(|position| position as usize);
        let head = head + self.open_calls(positions, 0..self.len()) * self.interrupted();
        let expected = head + before.unwrap_or(0) - before.unwrap_or_else(|| shown(" "));
        expected.min(head + before.unwrap_or(0) - after)
    }

    /// The tokens above which pi compacts.
    pub(super) fn threshold(&self) -> i64 {
        self.window.context - self.reserve_tokens
    }

    /// The tokens of the results that a view of these messages shows for calls without one.
    pub(super) fn interrupted_tokens(&self, positions: Range<usize>) -> i64 {
        self.open_calls(positions.clone(), positions) * self.interrupted()
    }

    /// The tokens of such a result.
    fn interrupted(&self) -> i64 {
        (self.policy.view.interrupted_text.len() as i64 + 3) / 4
    }

    /// Number of calls in messages without a result in `answers`.
    fn open_calls(&self, positions: impl Iterator<Item = usize>, answers: Range<usize>) -> i64 {
        let parts = |position: usize| self.messages[position].message.parts.iter().map(|part| &*part.body);
        let answered = |id: &str| {
            let mut results = answers.clone().flat_map(parts);
            results.any(|body| matches!(body, PartBody::ToolResult(result) if result.call_id == id))
        };
        let open = |body: &&PartBody| matches!(body, PartBody::ToolCall(call) if !answered(&call.call_id));
        positions.map(|position| parts(position).filter(open).count() as i64).sum()
    }

    /// The compaction with this boundary; none if it covers nothing.
    pub(super) fn boundary_at(&self, inline: &[SourceMessage], cut: usize, previous: Value) -> Option<Value> {
        let (head, tail) = inline.split_at(cut);
        let asks = |source: &SourceMessage| source.message.role == Role::User;
        let split = if tail.first().is_none_or(asks) { None } else { head.iter().rposition(asks) };
        let (summarize, prefix) = head.split_at(split.unwrap_or(cut));
        let first = tail.first().map_or(self.len(), position_of);
        (cut > 0).then(|| boundary_json(first, positions(summarize), positions(prefix), previous))
    }

    /// A message in pi's form, with the usage of its reply.
    pub(super) fn raw(&self, position: usize, usage: Option<&Usage>) -> Value {
        let mut message = (*self.messages[position].message).clone();
        message.finish.usage = usage.cloned();
        let mut raw = session::raw_message(&message, false);
        if message.role == Role::Assistant {
            (raw["provider"], raw["model"]) = (json!("test"), json!("model"));
            if message.finish.reason == Some(FinishReason::Error) {
                raw["errorMessage"] = json!("overloaded");
            }
        }
        let is_text = |block: &Value| block["type"] == "text";
        let texts: Option<&Vec<Value>> = raw["content"].as_array().filter(|blocks| blocks.iter().all(is_text));
        if let Some(text) =
            texts.filter(|blocks| blocks.len() == 1 && self.plain[position]).map(|it| it[0]["text"].clone())
            && message.role == Role::User
        {
            raw["content"] = text;
        }
        raw
    }
}

/// Our side of a scenario.
pub(super) struct Ours<'a> {
    scenario: &'a Scenario,
    session: Session<'a>,
    /// The revision of each message.
    revisions: Vec<Revision>,
    /// Number of compactions evaluated so far.
    seen: usize,
}

impl Ours<'_> {
    /// Appends the next message, and returns it in pi's form.
    pub(super) fn append(&mut self, position: usize) -> Result<Value, PeerFailure> {
        let scenario = self.scenario;
        let message = &scenario.messages[position].message;
        let is_reply = message.role == Role::Assistant;
        let usage = scenario.usage(position, self.session.view().estimated_tokens);
        let parts = message
            .parts
            .iter()
            .map(|part| NewPart { metadata_json: part.metadata_json.clone(), ..NewPart::new(part.body.clone()) });
        let new = NewMessage {
            finish: Some(Finish { reason: message.finish.reason, usage, ..Finish::default() }),
            origin_time: message.origin_time,
            ..NewMessage::sealed(message.role, parts.collect())
        };
        self.session.append(&new, is_reply)?;
        self.revisions.extend(self.session.sources().last().map(|source| source.message.revision));
        Ok(scenario.raw(position, usage.as_ref()))
    }

    /// The view, a line for each part.
    pub(super) fn lines(&self) -> Value {
        session::flat_view(self.session.view())
    }

    /// The next automatic action, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Next>, PeerFailure> {
        let inline: Vec<SourceMessage> =
            self.session.sources().iter().filter(|source| source.placement.is_none()).cloned().collect();
        let goes_on = self.session.compact_once()?;
        if self.session.is_over() {
            return Ok(Some(Next::Over));
        }
        let is_applied = self.session.simulated()[self.seen..].iter().any(|compaction| !compaction.refused);
        self.seen = self.session.simulated().len();
        Ok(match self.session.take_summary() {
            Some(summary) => Some(Next::Made(Box::new(self.made(summary, inline)))),
            None if is_applied => Some(Next::LastResort),
            None => goes_on.then_some(Next::Refused),
        })
    }

    fn made(&self, summary: SummaryMade, inline: Vec<SourceMessage>) -> Made {
        let SummaryMade { head, split_turn, previous, tail_start, material } = summary;
        let text = |text: &Option<String>| text.as_deref().map(lines);
        let transcripts = json!({
            "history": text(&material.history), "front": text(&material.front), "previous": material.previous,
        });
        let first = self.revisions.iter().position(|revision| *revision >= tail_start);
        let summary = self.session.sources().iter().find(|source| source.message.kind == MessageKind::Summary);
        let parts = summary.iter().flat_map(|summary| &summary.message.parts);
        let text = parts.filter_map(|part| match &*part.body {
            PartBody::Text(text) => Some(text.as_str()),
            _ => None,
        });
        Made {
            text: text.collect(),
            transcripts,
            view: self.lines(),
            inline,
            first: first.unwrap_or(self.revisions.len()),
            head,
            front: split_turn,
            previous,
        }
    }
}

/// An automatic action of Longhand.
pub(super) enum Next {
    /// A summary.
    Made(Box<Made>),
    /// A refused compaction, which would free too little.
    Refused,
    /// The last resort: outputs are truncated, or messages left out, so that the view fits its window.
    LastResort,
    /// A summary of the daemon's own, in place of ours.
    Over,
}

/// A compaction of ours.
pub(super) struct Made {
    pub(super) text: String,
    pub(super) transcripts: Value,
    /// The view after it, a line for each part.
    pub(super) view: Value,
    /// The messages that it could cover.
    pub(super) inline: Vec<SourceMessage>,
    pub(super) first: usize,
    pub(super) head: Vec<SourceMessage>,
    pub(super) front: Vec<SourceMessage>,
    pub(super) previous: Option<String>,
}

impl Made {
    /// Its boundary.
    pub(super) fn prepared(&self) -> Value {
        let previous = self.previous.clone().map_or(Value::Null, Value::from);
        boundary_json(self.first, positions(&self.head), positions(&self.front), previous)
    }

    /// The lists of files, as pi stores them with a summary.
    pub(super) fn details(&self) -> Value {
        let (read, modified) = files::parse_tags(&self.text);
        json!({ "readFiles": read, "modifiedFiles": modified })
    }

    /// The expected text of the summary, with the files that pi's own tools used, computed from the calls: in our form,
    /// or in one of pi's.
    pub(super) fn expected(&self, scenario: &Scenario, number: usize, form: Form) -> String {
        let previous = self.previous.as_deref().unwrap_or_default();
        let mut lists = ["read-files", "modified-files"].map(|tag| listed(previous, tag));
        for part in self.head.iter().chain(&self.front).flat_map(|source| &source.message.parts) {
            let PartBody::ToolCall(call) = &*part.body else { continue };
            let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            let path = input["path"].as_str();
            let position = match call.tool.as_str() {
                "read" => 0,
                "write" | "edit" => 1,
                _ => continue,
            };
            lists[position].extend(path.map(str::to_owned));
        }
        let [read, modified] = lists;
        let read: Vec<&str> = read.difference(&modified).map(String::as_str).collect();
        let modified: Vec<&str> = modified.iter().map(String::as_str).collect();
        let block = |tag: &str, paths: &[&str]| match paths {
            [] => String::new(),
            paths => format!("\n\n<{tag}>\n{}\n</{tag}>", paths.join("\n")),
        };
        let past = self.previous.as_deref().unwrap_or(NO_HISTORY);
        let past = match form {
            Form::Ours => without_lists(past),
            Form::Whole => past,
            Form::Forgotten => NO_HISTORY,
        };
        let words = scenario.composed(number, &self.head, &self.front, past);
        format!("{words}{}{}", block("read-files", &read), block("modified-files", &modified))
    }
}

/// A form of a summary's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Our form.
    Ours,
    /// With the whole previous summary, including its lists.
    Whole,
    /// Without the previous summary.
    Forgotten,
}

/// A summary without the lists at its end.
fn without_lists(text: &str) -> &str {
    let end = ["\n\n<read-files>\n", "\n\n<modified-files>\n"].iter().filter_map(|tag| text.rfind(tag)).min();
    end.map_or(text, |end| &text[..end])
}

/// The files in a list at the end of a summary.
fn listed(text: &str, tag: &str) -> BTreeSet<String> {
    let inside = text.rsplit_once(&format!("<{tag}>\n")).and_then(|(_, rest)| rest.split_once(&format!("\n</{tag}>")));
    inside.map(|(lines, _)| lines.split('\n').map(str::to_owned).collect()).unwrap_or_default()
}

/// The index of a message in its scenario; `usize::MAX` for messages that Longhand adds.
pub(super) fn position_of(source: &SourceMessage) -> usize {
    let metadata = source.message.parts.first().and_then(|part| part.metadata_json.as_deref());
    metadata.and_then(|position| position.parse().ok()).unwrap_or(usize::MAX)
}

fn positions(messages: &[SourceMessage]) -> Vec<usize> {
    messages.iter().map(position_of).collect()
}

fn spoken(messages: &[SourceMessage]) -> impl Iterator<Item = &SourceMessage> {
    messages.iter().filter(|source| source.message.role != Role::System)
}

fn boundary_json(first: usize, summarize: Vec<usize>, prefix: Vec<usize>, previous: Value) -> Value {
    json!({ "first": first, "summarize": summarize, "prefix": prefix, "previous": previous })
}

/// Lines without the half characters that pi 0.73 leaves where it truncates an output.
pub(super) fn whole_lines(lines: &Value) -> Value {
    let bare = |line: &Value| line.as_str().map(|text| text.strip_suffix('\u{fffd}').unwrap_or(text).to_owned());
    lines.as_array().map_or_else(|| lines.clone(), |lines| lines.iter().filter_map(bare).collect())
}

/// A text as its lines, so that a difference has a position.
pub(super) fn lines(text: &str) -> Value {
    text.split('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand::presets;

    #[test]
    fn calls_count_as_interrupted_until_their_results_are_there() {
        let mut checked = 0;
        for index in 0..20 {
            let scenario = Scenario::draw(1, index, presets::policy("pi@1.5"), false);
            let open = |end: usize| scenario.interrupted_tokens(0..end) / scenario.interrupted();
            for position in 0..scenario.len() {
                let parts = scenario.messages[position].message.parts.iter();
                let calls = parts.clone().filter(|part| matches!(*part.body, PartBody::ToolCall(_))).count() as i64;
                let results = parts.filter(|part| matches!(*part.body, PartBody::ToolResult(_))).count() as i64;
                assert_eq!(open(position + 1) - open(position), calls - results, "{index}: {position}");
                checked += results;
            }
        }
        assert!(checked > 0);
    }
}

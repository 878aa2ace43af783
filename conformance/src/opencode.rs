//! OpenCode: the published server works on the same histories, with a model that this run simulates.
//!
//! The questions about a conversation are the boundary of a summary by hand (`select`), the outputs that are cleared
//! after a prompt (`prune`), the state of the window (`overflow`), the messages sent to the model (`view`), and the
//! text that it reads for a summary (`transcript`). Histories may contain compactions, which OpenCode keeps as a pair
//! of messages and Longhand as a boundary.
//!
//! Only transcripts have media: elsewhere their token count is a value of the preset, not a decision.

mod history;
pub(crate) mod scenarios;
#[cfg(test)]
mod tests;
mod transcript;

use crate::generate::{Conversation, Profile, Results};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use history::{History, close_calls, is_failed, summary_text};
use longhand::model::layout::Layout;
use longhand::model::message::{Finish, FinishReason, Role};
use longhand::model::part::{PartBody, ResultStatus};
use longhand::model::time::Timestamp;
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::{PrunedPart, SourceMessage, ViewMessage};
use longhand::policy::plan::{self, PlanningInput};
use longhand::policy::{Policy, RESUME_TEXT};
use longhand::presets;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use transcript::Transcript;

pub(crate) struct OpenCode;

const TOOLS: [&str; 8] = ["bash", "read", "write", "edit", "grep", "glob", "skill", "webfetch"];

const PROFILE: Profile = Profile {
    turns: 1..=8,
    text_max: 4_000,
    output_max: 12_000,
    system: false,
    media: false,
    results: Results::WithCall,
    tools: &TOOLS,
    ..Profile::FULL
};

static CLASSES: [Class; 6] = [
    Class {
        name: "what nobody has answered stays",
        reason: Reason::P9,
        explanation: "OpenCode summarizes a last request or running calls when no tail holds them, and the model has \
                      nothing to answer to; we keep them beside the summary.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    Class {
        name: "a failed reply stays",
        reason: Reason::P8,
        explanation: "OpenCode leaves a reply that failed, or was stopped while it still thought, out of what the model \
                      is sent, and does not count it; we show its text.",
        test: ("conformance/src/opencode/tests.rs", "a_failed_reply_is_shown_and_counted"),
    },
    Class {
        name: "one summary at a time",
        reason: Reason::P8,
        explanation: "A tail that begins before an earlier compaction shows the model that one's marker and summary \
                      again in OpenCode; we show only the live summary.",
        test: ("conformance/src/opencode/tests.rs", "an_earlier_summary_is_not_shown_again"),
    },
    Class {
        name: "an empty view is never due",
        reason: Reason::P12,
        explanation: "Where the output limit leaves no space, OpenCode is due with no tokens at all, and goes on for \
                      ever; we need at least one.",
        test: ("crates/presets/tests/it/overflow.rs", "opencode_is_due_when_the_usable_window_is_reached"),
    },
    Class {
        name: "a character stays whole",
        reason: Reason::InvalidText,
        explanation: "JavaScript cuts a long output between the halves of a surrogate pair; we leave the whole \
                      character out.",
        test: ("crates/core/src/policy/truncate.rs", "a_character_is_never_split"),
    },
    Class {
        name: "a view begins with the user",
        reason: Reason::P9,
        explanation: "In OpenCode a reply may come first, or follow the summary at once; we put a line of the user before \
                      it.",
        test: ("crates/core/src/policy/render/tests.rs", "nobody_but_the_user_begins"),
    },
];
static UNANSWERED: &Class = &CLASSES[0];
static FAILED: &Class = &CLASSES[1];
static ONE_SUMMARY: &Class = &CLASSES[2];
static EMPTY: &Class = &CLASSES[3];
static WHOLE_CHARACTERS: &Class = &CLASSES[4];
static OPENING: &Class = &CLASSES[5];

/// Windows as context, input and output. OpenCode needs a folder for each pair of settings, so that there are few.
const WINDOWS: [(i64, Option<i64>, i64); 5] = [
    (32_000, None, 4_000),
    (64_000, None, 8_000),
    (200_000, None, 64_000),
    (128_000, Some(100_000), 16_000),
    (16_000, None, 32_000),
];

/// Tails as `tail_turns` and `preserve_recent_tokens`.
const TAILS: [(Option<u32>, Option<i64>); 6] =
    [(None, None), (Some(2), None), (Some(0), None), (None, Some(300)), (Some(1), Some(1_500)), (Some(3), Some(60))];

/// One conversation in this number is asked about clearing, and another about its transcript. The number is odd, so
/// that both positions of results occur.
const SOME: u64 = 5;

/// Lengths of outputs near OpenCode's limits: 40 000 tokens stay, more than 20 000 must go.
const OUTPUT_EDGES: [usize; 4] = [80_000, 80_002, 160_000, 40_000];

impl System for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for batch in run.batches() {
            let conversations: Vec<Conversation> = batch.map(|index| conversation(run.seed, index, &PROFILE)).collect();
            ask(peer, report, "select", "select", &conversations, Select::draw)?;
            // OpenCode's limits make these conversations long, and OpenCode slow.
            ask(peer, report, "prune", "prune", &every(&conversations, 0), Prune::draw)?;
            let with_media = Profile { media: true, ..PROFILE };
            let others = every(&conversations, 1);
            let others: Vec<Conversation> =
                others.iter().map(|it| conversation(run.seed, it.index, &with_media)).collect();
            ask(peer, report, "transcript", "select", &others, Transcript::draw)?;
            ask(peer, report, "overflow", "overflow", &conversations, Overflow::draw)?;
            ask(peer, report, "view", "view", &conversations, Viewed::draw)?;
        }
        Ok(())
    }
}

/// A question to both sides about one conversation.
trait Question {
    /// The question for the peer.
    fn input(&self) -> Value;
    /// Our answer.
    fn ours(&self) -> Value;
    /// The peer's answer, in our form.
    fn theirs(&self, answer: &Value) -> Value {
        answer.clone()
    }
    /// A second question to the peer, whose answer may explain a difference.
    fn again(&self) -> Option<Value> {
        None
    }
    /// The class of a difference, given the peer's answer to the second question.
    fn explain(&self, theirs: &Value, again: Option<&Value>) -> Option<&'static Class>;
}

/// One conversation in [`SOME`].
fn every(conversations: &[Conversation], remainder: u64) -> Vec<Conversation> {
    conversations.iter().filter(|it| it.index % SOME == remainder).cloned().collect()
}

/// Asks the peer's function about each conversation, and reports the answers under a name.
fn ask<Q: Question>(
    peer: &mut Peer,
    report: &mut Report,
    name: &'static str,
    function: &'static str,
    conversations: &[Conversation],
    draw: impl Fn(&Conversation) -> Q,
) -> Result<(), PeerFailure> {
    let questions: Vec<Q> = conversations.iter().map(draw).collect();
    let inputs: Vec<Value> = questions.iter().map(Question::input).collect();
    let calls = inputs.iter().map(|input| (function, input.clone())).collect();
    let answers = peer.call_all(calls)?;
    for (((conversation, question), input), answer) in conversations.iter().zip(&questions).zip(&inputs).zip(answers) {
        let theirs = answer.map(|answer| question.theirs(&answer));
        let ours = question.ours();
        let again = match question.again().filter(|_| theirs.as_ref().is_ok_and(|theirs| *theirs != ours)) {
            Some(input) => peer.call_all(vec![(function, input)])?.pop().and_then(Result::ok),
            None => None,
        };
        let again = again.map(|answer| question.theirs(&answer));
        let why = |_: &Value, theirs: &Value| question.explain(theirs, again.as_ref());
        report.compare(name, conversation.index, input, &ours, &theirs, why);
    }
    Ok(())
}

/// A conversation that OpenCode can represent: the calls of a reply are adjacent, and followed by their results, in the
/// same message or in a separate one.
fn conversation(seed: u64, index: u64, profile: &Profile) -> Conversation {
    let results = if index.is_multiple_of(2) { Results::WithCall } else { Results::MessageForAll };
    let mut conversation = Conversation::generate(seed, index, &Profile { results, ..profile.clone() });
    for source in &mut conversation.messages {
        source.message.parts.sort_by_key(|part| matches!(*part.body, PartBody::ToolResult(_)));
    }
    conversation
}

fn policy() -> Policy {
    presets::policy("opencode@1.18")
}

fn window((context, input, output): (i64, Option<i64>, i64)) -> ModelWindow {
    ModelWindow { context, input, output: Some(output), ..ModelWindow::default() }
}

fn limits((context, input, output): (i64, Option<i64>, i64)) -> Value {
    match input {
        Some(input) => json!({"context": context, "input": input, "output": output}),
        None => json!({"context": context, "output": output}),
    }
}

// ------------------------------------------------------------------------------------------------ select

/// The boundary of a summary by hand.
struct Select {
    history: History,
    window: (i64, Option<i64>, i64),
    tail: (Option<u32>, Option<i64>),
}

impl Select {
    fn draw(conversation: &Conversation) -> Self {
        let mut dice = conversation.dice("settings");
        let pair = dice.random_range(0..TAILS.len() * 2);
        let mut history = History::draw(conversation, 1);
        close_calls(&mut history.messages, false);
        let (window, tail) = (WINDOWS[pair % WINDOWS.len()], TAILS[pair % TAILS.len()]);
        Self { history, window, tail }
    }

    fn policy(&self) -> Policy {
        let (turns, budget) = self.tail;
        let mut tail = json!({});
        if let Some(turns) = turns {
            tail["turns"] = json!(turns);
        }
        if let Some(budget) = budget {
            tail["budget_ratio"] = json!(0);
            tail["minimum_budget_tokens"] = json!(budget);
            tail["max_budget_tokens"] = json!(budget);
        }
        let patch = json!({"auto": {"steps": {"0": {"summarize": {"tail": {"turns": tail}}}}}});
        policy().with_overrides(&patch.to_string()).unwrap_or_else(|error| panic!("{patch}: {error}"))
    }

    /// Our decision on these messages; indexes are those of the history.
    fn decide(&self, sources: &[SourceMessage]) -> Value {
        let policy = self.policy();
        let window = window(self.window);
        let layout = Layout::everything();
        let base = sources.iter().map(|source| source.message.revision).max().unwrap_or(0);
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout: &layout,
            sources,
            covered: &[],
            base,
            now: Timestamp(0),
        };
        let level_policy = policy.auto.as_ref().expect("the preset has a main level");
        let summary = plan::apply(planning, level_policy, 0).summary;
        let start = summary.as_ref().and_then(|summary| summary.tail_message);
        let tail = start.and_then(|id| self.history.messages.iter().position(|source| source.message.id == id));
        json!({"summarizes": summary.is_some(), "tail": tail})
    }

    /// The safe boundary nearest to that of an answer, as an answer.
    fn harmless(&self, answer: &Value) -> Value {
        let inline: Vec<SourceMessage> =
            self.history.sources().into_iter().filter(|source| source.placement.is_none()).collect();
        let position = |source: &SourceMessage| {
            self.history.messages.iter().position(|known| known.message.id == source.message.id)
        };
        let tail =
            answer["tail"].as_u64().and_then(|tail| inline.iter().position(|it| position(it) == Some(tail as usize)));
        let cut = harm::nearest(&inline, tail.unwrap_or(inline.len()));
        json!({"summarizes": cut > 0, "tail": inline.get(cut).filter(|_| cut > 0).and_then(position)})
    }

    /// The question about these messages.
    fn asked(&self, history: &History) -> Value {
        let mut config = json!({});
        if let Some(turns) = self.tail.0 {
            config["tail_turns"] = json!(turns);
        }
        if let Some(budget) = self.tail.1 {
            config["preserve_recent_tokens"] = json!(budget);
        }
        json!({"config": config, "limits": limits(self.window), "messages": history.in_opencode().0})
    }
}

impl Question for Select {
    fn input(&self) -> Value {
        self.asked(&self.history)
    }

    /// The same history without failures, so that OpenCode counts every reply.
    fn again(&self) -> Option<Value> {
        let mut history = self.history.clone();
        let failed: Vec<_> = history.messages.iter_mut().filter(|source| is_failed(source)).collect();
        let is_other = !failed.is_empty();
        failed.into_iter().for_each(|source| source.message.finish.reason = Some(FinishReason::Stop));
        is_other.then(|| self.asked(&history))
    }

    fn ours(&self) -> Value {
        self.decide(&self.history.sources())
    }

    fn theirs(&self, answer: &Value) -> Value {
        let positions = self.history.in_opencode().1;
        let tail =
            answer["tail"].as_u64().and_then(|tail| positions.iter().position(|&position| position as u64 == tail));
        json!({"summarizes": answer["called"], "tail": tail})
    }

    fn explain(&self, theirs: &Value, again: Option<&Value>) -> Option<&'static Class> {
        let ours = self.ours();
        let is_harmless = |theirs: &Value| self.harmless(theirs) == ours;
        match again {
            Some(again) if *again == ours => Some(FAILED),
            // Our boundary is the safe one nearest to theirs.
            again => (is_harmless(theirs) || again.is_some_and(is_harmless)).then_some(UNANSWERED),
        }
    }
}

// ------------------------------------------------------------------------------------------------ prune

/// The outputs cleared after a prompt.
struct Prune {
    history: History,
}

impl Prune {
    /// Draws outputs long enough for OpenCode's limits, which cannot be configured, and some outputs cleared earlier.
    fn draw(conversation: &Conversation) -> Self {
        let mut history = History::draw(conversation, 1);
        let mut dice = conversation.dice("outputs");
        let cleared = dice.random_range(0..6) == 0;
        for source in &mut history.messages {
            let mut pruned = Vec::new();
            for part in &mut source.message.parts {
                let PartBody::ToolResult(result) = Arc::make_mut(&mut part.body) else { continue };
                result.output = "x".repeat(length(&mut dice));
                if cleared && result.status == ResultStatus::Completed && dice.random_range(0..3) == 0 {
                    let compaction = longhand::model::ids::CompactionId(uuid::Uuid::from_u128(1));
                    pruned.push(PrunedPart { part: part.id, compaction, truncation: None });
                }
            }
            source.pruned.extend(pruned);
        }
        Self { history }
    }
}

fn length(dice: &mut StdRng) -> usize {
    match dice.random_range(0..4) {
        0 => dice.random_range(0..1_000),
        1 => (OUTPUT_EDGES.choose(dice).copied().unwrap_or(1) + dice.random_range(0..4)).saturating_sub(2),
        _ => dice.random_range(0..60_000),
    }
}

impl Question for Prune {
    fn input(&self) -> Value {
        json!({"messages": self.history.in_opencode().0})
    }

    /// OpenCode decides after the prompt and its reply, which follow the history.
    fn ours(&self) -> Value {
        let mut policy = policy();
        policy.maintenance = presets::policy("opencode@seed").maintenance;
        let mut sources = self.history.sources();
        let newest = sources.iter().map(|source| source.message.revision).max().unwrap_or(0);
        for (role, text, revision) in [(Role::User, "go", newest + 1), (Role::Assistant, "ok", newest + 2)] {
            let mut message = self.history.messages[0].clone();
            message.message.role = role;
            message.message.finish = Finish { reason: Some(FinishReason::Stop), ..Finish::default() };
            message.message.parts.truncate(1);
            message.message.parts.iter_mut().for_each(|part| part.body = PartBody::Text(text.to_owned()).into());
            (message.message.revision, message.message.sealed_revision) = (revision, Some(revision));
            sources.push(message);
        }
        let window = window(WINDOWS[2]);
        let layout = Layout::everything();
        let base = newest + 2;
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout: &layout,
            sources: &sources,
            covered: &[],
            base,
            now: Timestamp(0),
        };
        let cleared: HashSet<_> =
            plan::maintenance(planning).removals.parts.into_iter().map(|(part, _)| part).collect();
        let parts = self.history.messages.iter().flat_map(|source| &source.message.parts);
        let calls: Vec<&str> = parts
            .filter_map(|part| match &*part.body {
                PartBody::ToolResult(result) if cleared.contains(&part.id) => Some(result.call_id.as_str()),
                _ => None,
            })
            .collect();
        json!(calls)
    }

    fn theirs(&self, answer: &Value) -> Value {
        let written = self.history.in_opencode().0;
        let call = |position: &Value| {
            let (message, part) = position.as_str()?.split_once('.')?;
            let part: usize = part.parse().ok()?;
            Some(written.get(message.parse::<usize>().ok()?)?["parts"].get(part)?["call"].clone())
        };
        answer["pruned"].as_array().into_iter().flatten().filter_map(call).collect()
    }

    fn explain(&self, _theirs: &Value, _again: Option<&Value>) -> Option<&'static Class> {
        None
    }
}

// ------------------------------------------------------------------------------------------------ overflow

/// The state of the window: true if a compaction is due.
struct Overflow {
    window: (i64, Option<i64>, i64),
    auto: bool,
    usage: Usage,
    /// True if the usage is in the history, not in the reply to a prompt.
    at_start: bool,
}

/// OpenCode's own limit, whatever space the window has.
fn usable(window: &ModelWindow) -> i64 {
    policy().auto.map_or(0, |level| level.threshold.limit(window))
}

impl Overflow {
    fn draw(conversation: &Conversation) -> Self {
        let mut dice = conversation.dice("usage");
        let chosen = WINDOWS[dice.random_range(0..WINDOWS.len())];
        let usable = usable(&window(chosen));
        let count = match dice.random_range(0..3) {
            0 => dice.random_range(0..chosen.0 * 2),
            1 => 0,
            _ => (usable + dice.random_range(-2..=2)).max(0),
        };
        let at_start = dice.random_bool(0.5);
        let mut share = |of: i64| dice.random_range(0..=of);
        let output = share(count);
        let cache_read = share(count - output);
        let cache_write = if at_start { share(count - output - cache_read) } else { 0 };
        let input = count - output - cache_read - cache_write;
        let reasoning = share(2_000);
        // OpenCode ignores a provider's total for a reply, and computes it from the other two counts.
        let reply = input + cache_read + output + reasoning;
        let total = if at_start { (share(1) == 1).then(|| (count + share(4) - 2).max(0)) } else { Some(reply) };
        let usage = Usage { input, output, reasoning, cache_read, cache_write, total, ..Usage::default() };
        let auto = dice.random_range(0..10) > 0;
        Self { window: chosen, auto, usage, at_start }
    }
}

impl Question for Overflow {
    fn input(&self) -> Value {
        let Usage { input, output, reasoning, cache_read, cache_write, total, .. } = self.usage;
        let config = if self.auto { json!({}) } else { json!({"auto": false}) };
        let mut messages = vec![json!({"role": "user", "parts": [{"type": "text", "text": "Hello."}]})];
        let mut asked = json!({"config": config, "limits": limits(self.window)});
        if self.at_start {
            let mut tokens = json!({"input": input, "output": output, "reasoning": reasoning,
                "cache": {"read": cache_read, "write": cache_write}});
            if let Some(total) = total {
                tokens["total"] = json!(total);
            }
            messages.push(json!({"role": "assistant", "finish": "stop", "tokens": tokens,
                "parts": [{"type": "text", "text": "Hello."}]}));
        } else {
            asked["usage"] = json!({
                "prompt_tokens": input + cache_read,
                "completion_tokens": output + reasoning,
                "total_tokens": total,
                "prompt_tokens_details": {"cached_tokens": cache_read},
                "completion_tokens_details": {"reasoning_tokens": reasoning},
            });
        }
        asked["messages"] = json!(messages);
        asked
    }

    fn ours(&self) -> Value {
        let policy = policy();
        let tokens = policy.counting.usage.tokens(&self.usage);
        // The threshold itself: the rule that a level is due earlier if a view exceeds its window is no agent's.
        let due = policy.auto.filter(|_| self.auto).and_then(|level| level.threshold.due_at(&window(self.window)));
        json!({"compacted": due.is_some_and(|due| tokens >= due)})
    }

    fn explain(&self, theirs: &Value, _again: Option<&Value>) -> Option<&'static Class> {
        let tokens = policy().counting.usage.tokens(&self.usage);
        let is_empty = tokens == 0 && usable(&window(self.window)) == 0;
        (self.auto && is_empty && theirs["compacted"] == json!(true)).then_some(EMPTY)
    }
}

// ------------------------------------------------------------------------------------------------ view

/// The messages sent to the model without the line of the user that we put at the beginning, or behind the marker and
/// the summary.
fn without_opening(mut sent: Vec<Value>) -> Vec<Value> {
    let opening = json!({"role": "user", "texts": [RESUME_TEXT]});
    if let Some(at) = [0, 2].into_iter().find(|at| sent.get(*at) == Some(&opening)) {
        sent.remove(at);
    }
    sent
}

/// The messages sent to the model.
struct Viewed {
    history: History,
}

impl Viewed {
    fn draw(conversation: &Conversation) -> Self {
        let mut history = History::draw(conversation, 2);
        let mut dice = conversation.dice("cleared");
        for source in &mut history.messages {
            let completed = source.message.parts.iter().filter(
                |part| matches!(&*part.body, PartBody::ToolResult(result) if result.status == ResultStatus::Completed),
            );
            let compaction = longhand::model::ids::CompactionId(uuid::Uuid::from_u128(1));
            let cleared = completed.filter(|_| dice.random_range(0..8) == 0);
            source.pruned = cleared.map(|part| PrunedPart { part: part.id, compaction, truncation: None }).collect();
        }
        Self { history }
    }

    fn sent(&self, sources: &[SourceMessage]) -> Vec<Value> {
        let policy = policy();
        let view = plan::view(&policy, sources);
        let mut entries_sent: Vec<Value> = view.messages.iter().flat_map(entries).collect();
        entries_sent.push(json!({"role": "user", "texts": ["go"]}));
        in_order(entries_sent)
    }

    /// Our messages without failed replies and the results of their calls; none if more than that would be missing.
    fn without_failed(&self) -> Option<Vec<Value>> {
        let failed: Vec<&SourceMessage> = self.history.messages.iter().filter(|source| is_failed(source)).collect();
        let view = plan::view(&policy(), &self.history.sources());
        let mut entries_sent = Vec::new();
        for message in &view.messages {
            let own = failed.iter().find(|source| message.source == Some(source.message.id));
            let entries = entries(message);
            match own.map(|source| spoken(source)) {
                Some(words) if entries == [words.clone()] => {}
                Some(_) => return None,
                None => entries_sent.extend(entries),
            }
        }
        let calls: HashSet<&str> = failed
            .iter()
            .flat_map(|source| &source.message.parts)
            .filter_map(|part| match &*part.body {
                PartBody::ToolCall(call) => Some(call.call_id.as_str()),
                _ => None,
            })
            .collect();
        entries_sent
            .retain(|entry| entry["role"] != "tool" || !entry["id"].as_str().is_some_and(|id| calls.contains(id)));
        entries_sent.push(json!({"role": "user", "texts": ["go"]}));
        Some(in_order(entries_sent))
    }
}

/// The text of a stored reply, not rendered by our code.
fn spoken(source: &SourceMessage) -> Value {
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for part in &source.message.parts {
        match &*part.body {
            PartBody::Text(words) => text.push_str(words),
            PartBody::Reasoning(words) => reasoning.push_str(words),
            PartBody::ToolCall(call) => {
                let input: Value = serde_json::from_str(&call.input_json).unwrap_or(Value::Null);
                calls.push(json!({"id": call.call_id, "tool": call.tool, "input": input}));
            }
            _ => {}
        }
    }
    json!({"role": "assistant", "text": text, "reasoning": reasoning, "calls": calls})
}

/// The same entries, with the results after each reply ordered by id: they answer the reply's calls together, and their
/// order has no meaning.
fn in_order(mut entries_sent: Vec<Value>) -> Vec<Value> {
    for run in entries_sent.chunk_by_mut(|before, after| before["role"] == "tool" && after["role"] == "tool") {
        run.sort_by_key(|entry| entry["id"].to_string());
    }
    entries_sent
}

/// A message of a view, in the form of a chat completion's messages.
fn entries(message: &ViewMessage) -> Vec<Value> {
    let mut texts: Vec<&str> = Vec::new();
    let mut reasoning = String::new();
    let mut calls = Vec::new();
    let mut results = Vec::new();
    let mut media = 0;
    for part in &message.parts {
        match &*part.body {
            PartBody::Text(text) => texts.push(text),
            PartBody::Marker(marker) => texts.push(&marker.text),
            PartBody::Reasoning(text) => reasoning.push_str(text),
            PartBody::ToolCall(call) => {
                let input: Value = serde_json::from_str(&call.input_json).unwrap_or(Value::Null);
                calls.push(json!({"id": call.call_id, "tool": call.tool, "input": input}));
            }
            PartBody::ToolResult(result) => {
                results.push(json!({"role": "tool", "id": result.call_id, "text": result.output}));
            }
            PartBody::Media(_) => media += 1,
            PartBody::Step(_) | PartBody::Opaque(_) | PartBody::Record(_) => {}
        }
    }
    match message.role {
        Role::Tool => results,
        Role::Assistant => {
            vec![json!({"role": "assistant", "text": texts.concat(), "reasoning": reasoning, "calls": calls})]
        }
        Role::User | Role::System => vec![asked(json!(texts), media)],
    }
}

/// The text of a user message, with the number of its images if there are any.
fn asked(texts: Value, media: usize) -> Value {
    let mut asked = json!({"role": "user", "texts": texts});
    if media > 0 {
        asked["media"] = json!(media);
    }
    asked
}

/// A message of a chat completion in the same form.
fn entry(message: &Value) -> Value {
    let content = &message["content"];
    match message["role"].as_str() {
        Some("assistant") => {
            let calls: Vec<Value> = message["tool_calls"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|call| {
                    let function = &call["function"];
                    let input = function["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
                    json!({"id": call["id"], "tool": function["name"], "input": input.unwrap_or(Value::Null)})
                })
                .collect();
            let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
            let text = content.as_str().unwrap_or_default();
            json!({"role": "assistant", "text": text, "reasoning": reasoning, "calls": calls})
        }
        Some("tool") => json!({"role": "tool", "id": message["tool_call_id"], "text": content}),
        _ => {
            let items = content.as_array().map_or(&[][..], Vec::as_slice);
            let text_items = items.iter().filter(|item| item["text"].is_string());
            let texts = if content.is_array() {
                text_items.map(|item| item["text"].clone()).collect()
            } else {
                vec![content.clone()]
            };
            asked(json!(texts), items.iter().filter(|item| !item["text"].is_string()).count())
        }
    }
}

impl Question for Viewed {
    fn input(&self) -> Value {
        json!({"messages": self.history.in_opencode().0})
    }

    fn ours(&self) -> Value {
        json!(self.sent(&self.history.sources()))
    }

    fn theirs(&self, answer: &Value) -> Value {
        json!(in_order(answer["messages"].as_array().into_iter().flatten().map(entry).collect()))
    }

    fn explain(&self, theirs: &Value, _again: Option<&Value>) -> Option<&'static Class> {
        let theirs = theirs.as_array()?;
        let ours = without_opening(self.ours().as_array()?.clone());
        if ours == *theirs {
            return Some(OPENING);
        }
        let without_failed = self.without_failed().map(without_opening);
        if without_failed.as_ref() == Some(theirs) {
            return Some(FAILED);
        }
        // After the active marker and summary, theirs may have those of the compaction before.
        let earlier = self.history.compactions.len().checked_sub(2)?;
        let marker = json!({"role": "user", "texts": [policy().view.marker_text]});
        let mut behind = theirs.get(2..)?.windows(2);
        let at = 2 + behind.position(|it| it[0] == marker && it[1]["text"] == summary_text(earlier))?;
        let once = [&theirs[..at], &theirs[at + 2..]].concat();
        (without_failed.as_ref() == Some(&once) || once == ours).then_some(ONE_SUMMARY)
    }
}

//! Suna in July 2025 and in 2026: estimates of its messages, the content of a request, and the messages left out of it.
//!
//! Suna is not published as a package; the peer's source states the requirements. In 2025 its messages are plain texts,
//! and the results of tools are among them, as JSON or as text; in 2026 calls and results have their own forms.

use crate::generate::{self, Conversation, Profile, Results};
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use longhand::model::ids::{CompactionId, MessageId};
use longhand::model::layout::Layout;
use longhand::model::message::Role;
use longhand::model::part::PartBody;
use longhand::model::time::Timestamp;
use longhand::model::usage::ModelWindow;
use longhand::model::view::SourceMessage;
use longhand::policy::bpe::{self, Encoding};
use longhand::policy::plan::{self, PlanningInput};
use longhand::policy::tokens::RangeEstimate;
use longhand::policy::{Omission, Policy, PolicyStep, omission};
use longhand::presets;
use longhand::presets::suna::parameters::{ChatFormat, Groups, MiddleOut, Strip};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// One version of Suna.
pub(crate) struct Suna {
    name: &'static str,
    /// The environment variable with the path of its source.
    source: &'static str,
    preset: &'static str,
    /// Some conversations are about as long as the windows of the models.
    profile: Profile,
    /// Too many messages for truncation alone, for every fifth conversation.
    long: Profile,
    /// More messages than may stay, all of them short.
    many: Profile,
    /// The names of models, and their windows.
    models: &'static [(&'static str, i64)],
    /// The limit of `omit` in tokens, for the first of the models.
    omit_to: i64,
}

const PLAIN: Profile = Profile {
    turns: 0..=20,
    text_max: 20_000,
    reasoning: false,
    media: false,
    calls: false,
    interruptions: false,
    ..Profile::FULL
};

const CALLS: Profile = Profile {
    turns: 0..=20,
    text_max: 6_000,
    output_max: 20_000,
    system: false,
    calls: true,
    results: Results::MessageEach,
    // Their inputs are short, so that the estimate of a reply is that of its text.
    tools: &["read"],
    ..PLAIN
};

pub(crate) const V2025_07: Suna = Suna {
    name: "suna",
    source: "LONGHAND_SUNA_SOURCE",
    preset: "suna@2025-07",
    profile: PLAIN,
    long: Profile { turns: 60..=140, text_max: 8_000, ..PLAIN },
    many: Profile { turns: 100..=260, text_max: 12, ..PLAIN },
    // Most of them the one with the lowest limit, which depends on the name.
    models: &[("foo", 0), ("unknown-model", 0), ("foo", 0), ("foo", 0), ("gpt-4", 0), ("deepseek-chat", 0)],
    omit_to: 31_000,
};

pub(crate) const V2026: Suna = Suna {
    name: "suna-2026",
    source: "LONGHAND_SUNA_2026_SOURCE",
    preset: "suna@2026",
    profile: CALLS,
    long: CALLS,
    many: Profile { turns: 60..=120, text_max: 12, output_max: 12, ..CALLS },
    models: &[
        ("12000", 12_000),
        ("9000", 9_000),
        ("20000", 20_000),
        ("30000", 30_000),
        ("60000", 60_000),
        ("100000", 100_000),
    ],
    omit_to: 2_400,
};

static CLASSES: [Class; 1] = [Class {
    name: "a message without words is no message",
    reason: Reason::P9,
    explanation: "Suna counts messages without content; they are not in our views, and count nothing.",
    test: ("crates/presets/tests/it/tokens.rs", "a_chat_counts_its_texts_and_their_envelope"),
}];

impl System for Suna {
    fn name(&self) -> &'static str {
        self.name
    }

    fn program(&self) -> &'static str {
        "suna"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn missing(&self) -> Option<String> {
        let words = format!("{} does not say where Suna's context_manager.py is", self.source);
        std::env::var_os(self.source).is_none().then_some(words)
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for batch in run.batches() {
            let cases: Vec<Case> = batch.map(|index| Case::draw(self, run.seed, index)).collect();
            for (function, ours) in [
                ("count", Case::count as fn(&Case) -> Value),
                ("removeMeta", Case::remove_meta),
                ("middleOut", Case::middle_out),
                ("omit", Case::omit),
                ("compress", Case::compress),
            ] {
                let calls = cases.iter().map(|case| (function, case.question(function))).collect();
                for (case, theirs) in cases.iter().zip(peer.call_all(calls)?) {
                    let explain = |ours: &Value, theirs: &Value| case.explain(function, ours, theirs);
                    report.compare(function, case.index, &case.question(function), &ours(case), &theirs, explain);
                }
            }
        }
        Ok(())
    }
}

/// A conversation and a model.
struct Case {
    index: u64,
    /// The conversation as it was drawn, for counting.
    all: Vec<SourceMessage>,
    /// Its non-empty messages.
    messages: Vec<SourceMessage>,
    /// Another conversation, of many non-empty messages.
    many: Vec<SourceMessage>,
    model: (&'static str, i64),
    omit: (&'static str, i64),
    omit_to: i64,
    policy: Policy,
}

impl Case {
    fn draw(suna: &Suna, seed: u64, index: u64) -> Self {
        let profile = if index % 5 == 4 { &suna.long } else { &suna.profile };
        let conversation = Conversation::generate(seed, index, profile);
        let mut dice = conversation.dice("suna");
        let mut all: Vec<SourceMessage> = conversation.messages.into_iter().map(named).collect();
        for source in &mut all {
            write_results(source, &mut dice);
        }
        let many = Conversation::generate(seed, index, &suna.many).messages.into_iter().map(named);
        Self {
            index,
            messages: all.iter().filter(|source| speaks(source)).cloned().collect(),
            all,
            many: many.filter(speaks).collect(),
            model: suna.models[dice.random_range(0..suna.models.len())],
            omit: suna.models[0],
            omit_to: suna.omit_to,
            policy: policy(suna),
        }
    }

    fn question(&self, function: &str) -> Value {
        let messages = match function {
            "count" => &self.all,
            "middleOut" => &self.many,
            _ => &self.messages,
        };
        let messages: Vec<Value> = messages.iter().map(to_peer).collect();
        json!({ "messages": messages, "model": self.model.0, "max_tokens": self.omit_to })
    }

    fn count(&self) -> Value {
        // For litellm, an empty request still begins a reply.
        if self.messages.is_empty() {
            return json!(LIST_UNITS);
        }
        json!(RangeEstimate::from_messages(&self.policy, &self.all).tokens(0..self.all.len()))
    }

    fn explain(&self, function: &str, ours: &Value, theirs: &Value) -> Option<&'static Class> {
        // The name of a role is one token.
        let silent = (self.all.len() - self.messages.len()) as i64 * i64::from(message_units() + 1);
        let differ_by = theirs.as_i64()? - ours.as_i64()?;
        (function == "count" && silent > 0 && differ_by == silent).then_some(&CLASSES[0])
    }

    fn remove_meta(&self) -> Value {
        let after = self.after(&self.messages, |omission| omission.parameters::<Strip>().is_some());
        after.iter().map(shown).collect()
    }

    fn middle_out(&self) -> Value {
        let after = self.after(&self.many, |omission| omission.parameters::<MiddleOut>().is_some());
        after.iter().map(name).collect()
    }

    fn omit(&self) -> Value {
        // Suna's function first removes the arguments of tools.
        let stripped = self.after(&self.messages, |omission| omission.parameters::<Strip>().is_some());
        let after = self.after(&stripped, |omission| omission.parameters::<Groups>().is_some());
        after.iter().map(name).collect()
    }

    /// The messages after one of the steps, for the first of the models.
    fn after(&self, messages: &[SourceMessage], is_it: fn(&Omission) -> bool) -> Vec<SourceMessage> {
        let steps = self.policy.auto.iter().flat_map(|level_policy| &level_policy.steps);
        let mut rules = steps.filter_map(|step| match step {
            PolicyStep::Omit(omission) if is_it(omission) => Some(omission),
            PolicyStep::Omit(_) | PolicyStep::Prune(_) | PolicyStep::Summarize(_) => None,
        });
        let window = window(self.omit);
        let removals =
            rules.next().map(|rule| omission::removals(rule, &self.policy, &window, messages)).unwrap_or_default();
        plan::with_removals(messages, &removals, CompactionId(Uuid::nil()))
    }

    fn compress(&self) -> Value {
        let window = window(self.model);
        let layout = Layout::everything();
        let planning = PlanningInput {
            policy: &self.policy,
            window: &window,
            layout: &layout,
            sources: &self.messages,
            covered: &[],
            base: self.messages.len() as i64,
            now: Timestamp(0),
        };
        let tokens = plan::view(&self.policy, &self.messages).estimated_tokens;
        let decision = plan::decide(planning, tokens, |_| true, |_, _| true);
        let removals = decision.map(|decision| plan::work_of(planning, decision, tokens).removals).unwrap_or_default();
        let after = plan::with_removals(&self.messages, &removals, CompactionId(Uuid::nil()));
        after.iter().map(shown).collect()
    }
}

/// Tokens that litellm adds for a list of messages, and for each of them.
const LIST_UNITS: u32 = 3;
const MESSAGE_UNITS: u32 = 3;

/// Tokens of a message besides its role and its text, with the ids of these conversations instead of Suna's.
fn message_units() -> u32 {
    let id = bpe::count(Encoding::Cl100kBase, &message_id(1).to_string());
    MESSAGE_UNITS + u32::try_from(id).unwrap_or_default()
}

/// The preset, with the token count of these conversations' ids.
fn policy(suna: &Suna) -> Policy {
    let mut policy = presets::policy(suna.preset);
    policy.counting.per = ChatFormat { message_units: message_units() }.into();
    policy
}

fn window((model, context): (&str, i64)) -> ModelWindow {
    ModelWindow { model: model.to_owned(), context, output: Some(1), ..ModelWindow::default() }
}

/// An id with decimal digits only, so that all ids have the same token count.
fn message_id(revision: i64) -> MessageId {
    let digits = u128::from_str_radix(&format!("1{revision:031}"), 16).unwrap_or_default();
    MessageId(Uuid::from_u128(digits))
}

/// A message with such an id, and with one text besides its calls.
fn named(mut source: SourceMessage) -> SourceMessage {
    source.message.id = message_id(source.message.revision);
    let mut texts = 0;
    source.message.parts.retain(|part| {
        texts += usize::from(matches!(*part.body, PartBody::Text(_)));
        texts <= 1 || !matches!(*part.body, PartBody::Text(_))
    });
    source
}

/// True if a model sees any text, call or result of a message.
fn speaks(source: &SourceMessage) -> bool {
    source.message.parts.iter().any(|part| !matches!(&*part.body, PartBody::Text(text) if text.is_empty()))
}

/// Turns some messages into results of tools, in the forms in which Suna writes them.
fn write_results(source: &mut SourceMessage, dice: &mut StdRng) {
    let message = &mut *source.message;
    let text = match message.parts.first_mut().map(|part| Arc::make_mut(&mut part.body)) {
        Some(PartBody::Text(text)) if message.role != Role::System => text,
        Some(PartBody::ToolResult(result)) => &mut result.output,
        _ => return,
    };
    let arguments = json!({ "path": "src/a.rs", "text": generate::text(dice, 2_000), "list": [1, true, null] });
    let name = json!("create_file");
    let written = match dice.random_range(0..100) {
        0..8 => format!("ToolResult(success=True, output='{text}')"),
        8..20 => python(&json!({ "tool_execution": {
            "function_name": name, "arguments": arguments, "result": { "success": true, "output": text } } })),
        20..26 => python(&json!({ "tool_execution": { "arguments": arguments, "function_name": name }, "text": text })),
        26..28 => python(&json!({ "tool_execution": { "arguments": arguments } })),
        28..31 => python(&json!({ "interactive_elements": [{ "index": 1, "text": text }] })),
        31..33 => python(&json!({ "note": "interactive_elements", "content": text })),
        33..35 => python(&json!({ "content": text, "number": 17 })),
        35..36 => python(&json!(["tool_execution", text])),
        // Python would reformat a text that happens to be JSON, which is no behaviour to compare.
        _ if text.trim_start().starts_with('{') => format!("see {text}"),
        _ => return,
    };
    *text = written;
}

/// JSON as Python writes it: a blank after commas and colons, and only ASCII.
fn python(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", list(items.iter().map(python).collect())),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{}: {}", quoted(name), python(value));
            format!("{{{}}}", list(fields.iter().map(field).collect()))
        }
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let mut units = [0; 2];
    let escape = |character: char| match character {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        ' '..='~' => character.to_string(),
        _ => character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// A message in Suna's form, with every field that litellm counts, in any order.
fn to_peer(source: &SourceMessage) -> Value {
    let role = match source.message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    };
    let mut message = json!({ "role": role, "content": content(source), "message_id": name(source) });
    let mut calls = Vec::new();
    for part in &source.message.parts {
        match &*part.body {
            PartBody::ToolCall(call) => calls.push(json!({
                "id": call.call_id,
                "type": "function",
                "function": { "name": call.tool, "arguments": call.input_json },
            })),
            PartBody::ToolResult(result) => message["tool_call_id"] = json!(result.call_id),
            _ => {}
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}

fn name(source: &SourceMessage) -> Value {
    json!(source.message.id.to_string())
}

fn shown(source: &SourceMessage) -> Value {
    json!([name(source), content(source)])
}

/// The text of a message in a view, or its output.
fn content(source: &SourceMessage) -> Value {
    let text = source.message.parts.iter().find_map(|part| match &*part.body {
        PartBody::Text(text) => Some((part.id, text)),
        PartBody::ToolResult(result) => Some((part.id, &result.output)),
        _ => None,
    });
    let Some((id, text)) = text else { return json!("") };
    match source.pruned_part(id).and_then(|pruned| pruned.truncation.as_ref()) {
        Some(truncation) => json!(truncation.apply(text)),
        None => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_python_writes_it() {
        let value = json!({ "a": [1, true, null, "é😀\n\"\\\u{7f}"], "b": {} });
        assert_eq!(python(&value), r#"{"a": [1, true, null, "\u00e9\ud83d\ude00\n\"\\\u007f"], "b": {}}"#);
    }
}

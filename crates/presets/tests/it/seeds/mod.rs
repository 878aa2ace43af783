//! Tests of the presets against the documents that the project started from, statement by statement.
//!
//! A row has a statement in our words, with the document's value, and conversations on both sides of it with the
//! outcome of each. The outcomes are those of the driver of `longhand simulate`, which decides by the fold and its
//! guards message by message: no value is read back from a policy. If a preset differs on purpose, the row requires
//! that the preset names the difference among its deviations.

mod claude_code;
mod essay;
mod neovate;
mod opencode;
mod pi;

use crate::dsl;
use crate::fold::guards::{self, Decision, GuardInput, Guards};
use crate::fold::{Fold, FoldInput};
use crate::model::compaction::CompactionKind;
use crate::model::layout::{Layout, Placement};
use crate::model::message::{NewMessage, Role};
use crate::model::part::{NewPart, PartBody};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::{SourceMessage, View, ViewMessage};
use crate::policy::Policy;
use crate::policy::plan::{self, PlanningInput, Work};
use crate::policy::prompt::{self, Detail, GAP, Material, Prompt, Request, Scope};
use crate::policy::summary::SummaryInput;
use crate::presets::find;
use crate::simulation::{Session, SimulatedCompaction};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A preset with its window, before a conversation.
struct Stage {
    policy: Policy,
    window: ModelWindow,
    /// Text of every summary, before the number of summaries so far.
    summary: String,
    /// Times at which messages are written, in seconds, by name; the messages after one have its time.
    times: BTreeMap<&'static str, i64>,
}

/// A conversation that was played to its end.
struct Played {
    /// The compactions in order: `auto summary, micro prune`. A refused one is `auto refused`.
    compactions: String,
    /// The messages of the view by name, beside `marker` and `summary`.
    shown: String,
    /// The outputs of the view, by the ids of their calls.
    outputs: BTreeMap<String, String>,
    view: View,
    /// The inputs of all summaries, without further attempts with a smaller budget.
    asked: Vec<SummaryInput>,
}

impl Stage {
    fn new(preset: &str, context: i64) -> Self {
        let policy = find(preset).unwrap_or_else(|| panic!("no preset {preset}")).policy();
        let altered = ALTERED.with_borrow(|altered| altered.as_ref().filter(|(of, _)| of == preset).cloned());
        let policy = altered.map_or(policy.clone(), |(_, patch)| patched(&policy, &patch));
        let window = ModelWindow { context, ..ModelWindow::default() };
        Self { policy, window, summary: "SUMMARY".to_owned(), times: BTreeMap::new() }
    }

    /// The same with the name of the model.
    fn model(self, name: &str) -> Self {
        Self { window: ModelWindow { model: name.to_owned(), ..self.window }, ..self }
    }

    /// The same with the maximum number of output tokens of the model.
    fn output(self, tokens: i64) -> Self {
        Self { window: ModelWindow { output: Some(tokens), ..self.window }, ..self }
    }

    fn with(self, overrides: &str) -> Self {
        Self { policy: patched(&self.policy, overrides), ..self }
    }

    /// Plays a conversation message by message, with all automatic compactions after each message.
    fn play(&self, talk: &str) -> Played {
        let asked: RefCell<Vec<SummaryInput>> = RefCell::default();
        let writer = |input: &SummaryInput| {
            let mut asked = asked.borrow_mut();
            if input.budget_tokens == input.rules.max_tokens {
                asked.push(input.clone());
            }
            format!("{}{}", self.summary, asked.len())
        };
        let mut session = Session::new(&self.policy, &self.window, &writer);
        let mut names = BTreeMap::new();
        let mut now = Timestamp(0);
        for source in dsl::parse(talk) {
            let name = dsl::name(&source).to_owned();
            now = self.times.get(name.as_str()).map_or(now, |seconds| Timestamp(seconds * 1_000_000));
            session.append(&written(&source, now), source.message.role == Role::Assistant);
            names.extend(session.sources().last().map(|source| (source.message.revision, name)));
            while session.compact_once() {}
        }
        let name = |source: &SourceMessage| match (source.placement, names.get(&source.message.revision)) {
            (Some(Placement::Summary), _) => "summary".to_owned(),
            (Some(Placement::Marker), _) => "marker".to_owned(),
            (_, name) => name.cloned().unwrap_or_else(|| "?".to_owned()),
        };
        let view = session.view().clone();
        let room = self.window.input_max().unwrap_or(i64::MAX);
        Played {
            compactions: session
                .simulated()
                .iter()
                .map(|compaction| compaction_text(compaction, room))
                .collect::<Vec<_>>()
                .join(", "),
            shown: session.sources().iter().map(name).collect::<Vec<_>>().join(" "),
            outputs: outputs(&view),
            view,
            asked: asked.take(),
        }
    }

    /// The decision about a complete conversation, which may have marks, and the work of that decision.
    fn decide(&self, sources: &[SourceMessage]) -> (Option<Decision>, Work) {
        let Self { policy, window, .. } = self;
        let layout = Layout::everything();
        let base = sources.iter().map(|source| source.message.revision).max().unwrap_or(0);
        let planning =
            PlanningInput { policy, window, layout: &layout, sources, covered: &[], base, now: Timestamp(0) };
        let fold = Fold::new(FoldInput { policy, messages: sources, changed_revision: 0, window }, None);
        let guards = Guards::new(planning, &fold, GuardInput::default());
        let decision = guards::decide(planning, &fold, &guards);
        let work = match decision {
            Some(Decision::Steps(steps)) => plan::work_of(planning, steps, fold.context_tokens(window)),
            Some(Decision::LastResort) | None => Work::default(),
        };
        (decision, work)
    }

    /// The view after the decision about a complete conversation, one line for each message; summaries are not written.
    fn after(&self, talk: &str) -> Vec<String> {
        let sources = dsl::parse(talk);
        let (_, work) = self.decide(&sources);
        let after = plan::with_removals(&sources, &work.removals, dsl::PRUNED_BY);
        let view = plan::view(&self.policy, &after);
        view.messages.iter().filter_map(line).collect()
    }

    /// The calls whose outputs the decision about a conversation clears or truncates, newest first.
    fn cleared(&self, talk: &str) -> String {
        let sources = dsl::parse(talk);
        let (_, work) = self.decide(&sources);
        let names = dsl::part_names(&sources);
        let name = |part| names.get(part).map_or("?", |name| name.trim_end_matches(":result"));
        work.removals.parts.iter().map(|(part, _)| name(part)).collect::<Vec<_>>().join(" ")
    }
}

/// The first text or output of a message.
fn line(message: &ViewMessage) -> Option<String> {
    message.parts.iter().find_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text.clone()),
        PartBody::Marker(marker) => Some(marker.text.clone()),
        PartBody::ToolResult(result) => Some(result.output.clone()),
        _ => None,
    })
}

impl Played {
    /// The first text or output of each message of the view, in order.
    fn texts(&self) -> Vec<String> {
        self.view.messages.iter().filter_map(line).collect()
    }

    /// The request to a model for the summary with this number, from 0.
    fn prompt(&self, number: usize) -> Prompt {
        let input = self.asked.get(number).unwrap_or_else(|| panic!("no summary {number}: {}", self.compactions));
        asked(input, Scope::History, &input.messages, input.previous.as_deref())
    }
}

thread_local! {
    /// A preset and a patch on it, while `noticed` runs a test.
    static ALTERED: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

fn patched(policy: &Policy, patch: &str) -> Policy {
    policy.with_overrides(patch).unwrap_or_else(|error| panic!("{patch}: {error}"))
}

/// Requires that a test fails for each of these patches on a preset; each sets another value than the document's.
fn noticed(preset: &str, patches: &[(&str, fn())]) {
    for (patch, test) in patches {
        // An invalid patch would make any test fail.
        patched(&find(preset).unwrap_or_else(|| panic!("no preset {preset}")).policy(), patch);
        ALTERED.set(Some((preset.to_owned(), (*patch).to_owned())));
        let outcome = std::panic::catch_unwind(test);
        ALTERED.set(None);
        assert!(outcome.is_err(), "{preset} with {patch}: nobody notices");
    }
}

/// The request to a model about these messages.
fn asked(input: &SummaryInput, scope: Scope, messages: &[SourceMessage], previous: Option<&str>) -> Prompt {
    let messages: Vec<&SourceMessage> = messages.iter().collect();
    let rules = &input.rules.transcript;
    let transcript = prompt::entries(rules, Detail::full(rules), &messages).join(GAP);
    let material = Material::Whole(&transcript);
    let request = Request { scope, material, previous, draft: None, instructions: &input.instructions, words: 500 };
    prompt::prompt(&input.rules, &request)
}

/// A message of a conversation as a client writes it.
fn written(source: &SourceMessage, now: Timestamp) -> NewMessage {
    let message = &source.message;
    let part = |part: &crate::model::part::Part| NewPart::new((*part.body).clone());
    NewMessage {
        finish: Some(message.finish.clone().with_view(None)),
        origin_time: Some(now),
        ..NewMessage::sealed(message.role, message.parts.iter().map(part).collect())
    }
}

fn compaction_text(compaction: &SimulatedCompaction, room: i64) -> String {
    let by = match compaction.level {
        Some(level) => level.name(),
        None if compaction.context_tokens > room => "window",
        None => "maintenance",
    };
    let what = match compaction.kind {
        _ if compaction.refused => "refused",
        CompactionKind::Prune => "prune",
        CompactionKind::Omission => "omission",
        CompactionKind::Summary => "summary",
    };
    format!("{by} {what}")
}

fn outputs(view: &View) -> BTreeMap<String, String> {
    let bodies = view.messages.iter().flat_map(|message| &message.parts).map(|part| &*part.body);
    let results = bodies.filter_map(|body| match body {
        PartBody::ToolResult(result) => Some((result.call_id.clone(), result.output.clone())),
        _ => None,
    });
    results.collect()
}

/// A statement of a document, with conversations on both sides of it and the outcome of each.
struct Row {
    says: &'static str,
    cases: Vec<(String, String)>,
}

fn row<T: Into<String>, E: Into<String>>(says: &'static str, cases: impl IntoIterator<Item = (T, E)>) -> Row {
    Row { says, cases: cases.into_iter().map(|(talk, outcome)| (talk.into(), outcome.into())).collect() }
}

/// Plays the conversations of all rows, and names every row with another outcome.
fn check(outcome: impl Fn(&str) -> String, rows: &[Row]) {
    let mut wrong = Vec::new();
    for Row { says, cases } in rows {
        for (talk, expected) in cases {
            let found = outcome(talk);
            if found != *expected {
                let talk: String = talk.chars().take(400).collect();
                wrong.push(format!("{says}\n  of {talk:?}\n  expected {expected:?}\n  found    {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not as the document says:\n{}", wrong.join("\n"));
}

/// Requires that a preset names each of these deviations, by their beginnings.
fn deviates(preset: &str, beginnings: &[&str]) {
    let deviations = find(preset).unwrap_or_else(|| panic!("no preset {preset}")).deviations();
    for beginning in beginnings {
        assert!(
            deviations.iter().any(|deviation| deviation.starts_with(beginning)),
            "{preset} does not name: {beginning}"
        );
    }
}

/// Requires that a text contains these parts in this order.
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let found = rest.split_once(part);
        rest = found.unwrap_or_else(|| panic!("no {part:?}, or not in its place, in:\n{text}")).1;
    }
}

/// Outputs of calls, oldest first, each in a reply of its own within one turn, with the given number of turns after it;
/// the last reply reports this usage. An output is the name of a tool, unless that is bash, and the attributes of a
/// result: `skill out=5t error`.
fn tools(outputs: &[impl AsRef<str>], turns: usize, usage: &str) -> String {
    let reply = |(at, words): (usize, &str)| {
        let (tool, words) =
            if words.starts_with("out=") { ("bash", words) } else { words.split_once(' ').unwrap_or(("", "")) };
        let end = if words.ends_with(" error") { "" } else { " done" };
        format!("\na1x{0}\n  tool {tool}#c{0} in={{\"path\": \"a.ts\"}} {words}{end}", at + 1)
    };
    let replies: String = outputs.iter().map(AsRef::as_ref).enumerate().map(reply).collect();
    let behind: String = (2..2 + turns).map(|turn| format!("\nu{turn} \"x\"\na{turn} \"y\"")).collect();
    let usage = if usage.is_empty() { String::new() } else { format!(" usage={usage}") };
    format!("u1 \"x\"{replies}\na1 \"read\"{behind}{usage}")
}

/// A text with exactly this number of tokens in every byte pair encoding that presets use.
fn words(tokens: usize) -> String {
    vec!["a"; tokens].join(" ")
}

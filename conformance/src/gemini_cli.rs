//! Gemini CLI: estimates of contents, split points, truncation and masking of outputs, in the version of August 2025
//! and in the current one.

pub(crate) mod scenarios;

use crate::contents::{Contents, read, summary, with_short_failures};
use crate::generate::{self, Conversation, Profile, Results};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use longhand::model::ids::CompactionId;
use longhand::model::layout::Layout;
use longhand::model::part::{PartBody, ToolResult};
use longhand::model::time::Timestamp;
use longhand::model::truncation::Removals;
use longhand::model::usage::ModelWindow;
use longhand::model::view::SourceMessage;
use longhand::policy::plan::{self, Boundary, PlanningInput};
use longhand::policy::{
    Fraction, FractionBoundary, Keep, Omission, Policy, PolicyStep, Prune, Tail, omission, overflow, prune, select,
};
use longhand::presets;
use longhand::presets::gemini_cli::parameters::OutputBudget;
use rand::Rng;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

pub(crate) struct GeminiCli;

/// Outputs that are large enough for the budget of 50000 tokens. With tool names of four letters, the path of a file
/// that the original writes is as long as the id of a part.
const LARGE: Profile = Profile {
    turns: 0..=9,
    text_max: 3_000,
    output_max: 60_000,
    system: false,
    results: Results::Either,
    tools: &["read", "edit", "bash", "grep", "glob", "list", "task"],
    ..Profile::FULL
};

/// Many outputs of tools that masking recognizes.
const MANY: Profile = Profile {
    turns: 1..=12,
    text_max: 300,
    output_max: 6_000,
    tools: &["run_shell_command", "read_file", "write_file", "activate_skill", "run_shell_command", "glob"],
    ..LARGE
};

/// The window of every model without an entry of its own, in tokens.
const LIMIT: i64 = 1_048_576;

/// The model's answers to the request for a summary and to the second request.
const ANSWERS: [&str; 2] = ["the first summary", "the second summary"];

const CLASSES: [Class; 4] = [
    Class {
        name: "no summary of a summary alone",
        reason: Reason::P12,
        explanation: "Gemini CLI summarizes the summary before again when that alone has the share; we do nothing, or halve \
                      the tail until there is more.",
        test: (
            "crates/core/src/policy/select/fraction.rs",
            "the_current_summary_is_measured_and_never_summarized_alone",
        ),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::P9,
        explanation: "Gemini CLI summarizes requests that no reply has followed, and in August 2025 running calls too; \
                      we cut before them.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    Class {
        name: "no half characters",
        reason: Reason::InvalidText,
        explanation: "Gemini CLI cuts surrogate pairs; we leave the character out.",
        test: ("crates/core/src/policy/truncate.rs", "a_character_is_never_split"),
    },
    Class {
        name: "an id in place of a file",
        reason: Reason::Named("A masked output shows an excerpt of its words"),
        explanation: "A masked output names a file of Gemini CLI and shows its JSON; with us it names the part and \
                      shows its words, so that masking pays a little earlier or later.",
        test: ("crates/presets/src/gemini_cli/output_budget.rs", "a_truncation_names_its_part"),
    },
];
const ALONE: &Class = &CLASSES[0];
const UNANSWERED: &Class = &CLASSES[1];
const HALVES: &Class = &CLASSES[2];
const REFERENCE: &Class = &CLASSES[3];

impl System for GeminiCli {
    fn name(&self) -> &'static str {
        "gemini-cli"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for batch in run.batches() {
            let cases: Vec<Case> = batch.map(|index| Case::draw(run.seed, index)).collect();
            for ask in [Case::estimate, Case::split, Case::budget, Case::mask, Case::compress, Case::august] {
                let questions: Vec<Question> = cases.iter().map(ask).collect();
                let calls = questions.iter().map(|question| (question.function, question.input.clone())).collect();
                for ((case, question), theirs) in cases.iter().zip(&questions).zip(peer.call_all(calls)?) {
                    let Question { function, input, ours, theirs: reading } = question;
                    let theirs = theirs.map(|value| (reading.read)(case, value));
                    let estimates = match &theirs {
                        Ok(theirs) if *function == "mask" && theirs != ours => case.estimates(peer, ours, theirs)?,
                        _ => Value::Null,
                    };
                    let why = |ours: &Value, theirs: &Value| (reading.explain)(case, ours, theirs, &estimates);
                    report.compare(function, case.conversation.index, input, ours, &theirs, why);
                }
            }
        }
        Ok(())
    }
}

/// A question to both sides, our answer, and the reading of theirs.
struct Question {
    function: &'static str,
    input: Value,
    ours: Value,
    theirs: Reading,
}

struct Reading {
    read: fn(&Case, Value) -> Value,
    /// The last value is the estimates of the outputs that only one side masks.
    explain: fn(&Case, &Value, &Value, &Value) -> Option<&'static Class>,
}

/// For answers that must be equal.
const EXACT: Reading = Reading { read: |_, value| value, explain: |_, _, _, _| None };

/// A conversation with or without an earlier summary, and one with many outputs.
struct Case {
    conversation: Conversation,
    messages: Vec<SourceMessage>,
    many: Vec<SourceMessage>,
    /// The active summary, if there is one.
    summary: Option<SourceMessage>,
}

impl Case {
    fn draw(seed: u64, index: u64) -> Self {
        let conversation = Conversation::generate(seed, index, &LARGE);
        let messages = with_short_failures(conversation.messages.clone());
        let many = as_programs(&conversation, Conversation::generate(seed, index, &MANY).messages);
        let many = with_short_failures(many);
        let mut dice = conversation.dice("summary");
        let text = generate::text(&mut dice, 9_000);
        let live = if dice.random_bool(0.4) && !text.is_empty() { summary(&messages, text) } else { None };
        Self { conversation, messages, many, summary: live }
    }

    /// The history at the agent's decision.
    fn history(&self) -> &[SourceMessage] {
        &self.messages[..read(&self.messages)]
    }

    /// The same history as contents, after the active summary and its acknowledgement.
    fn contents(&self, policy: &Policy) -> Vec<Value> {
        let mut list = Vec::new();
        if let Some(summary) = &self.summary {
            let text = summary.message.parts.iter().filter_map(text_of).collect::<String>();
            list.push(json!({ "role": "user", "parts": [{ "text": text }] }));
            list.push(json!({ "role": "model", "parts": [{ "text": policy.view.acknowledgement }] }));
        }
        list.extend(Contents::of(self.history()).json());
        list
    }

    /// Number of contents before the messages.
    fn ahead(&self) -> usize {
        if self.summary.is_some() { 2 } else { 0 }
    }

    fn estimate(&self) -> Question {
        let policy = presets::policy("gemini-cli@0.26");
        let view = plan::view(&policy, &self.messages);
        let input = json!({ "parts": Contents::of_view(&view.messages).parts() });
        Question { function: "estimateTokenCountSync", input, ours: json!(view.estimated_tokens), theirs: EXACT }
    }

    fn split(&self) -> Question {
        let policy = presets::policy("gemini-cli@0.26");
        let mut dice = self.conversation.dice("split");
        let summarize_ratio = [0.1, 0.3, 0.5, 0.7, 0.7, 0.9, 0.99][dice.random_range(0..7)];
        let tail =
            Tail::Fraction(Fraction { summarize_ratio, boundary: FractionBoundary::Request, minimum_ratio: 0.0 });
        let window = ModelWindow::default();
        let ours = select::select_behind(&policy, &tail, &window, self.summary.as_ref(), &self.messages).head_end;
        let input = json!({ "contents": self.contents(&policy), "fraction": summarize_ratio });
        let reading = Reading {
            read: |case, value| case.message(&value),
            explain: |case, ours, theirs, _| case.explain_split(ours, theirs),
        };
        Question { function: "findCompressSplitPoint", input, ours: json!(ours), theirs: reading }
    }

    /// Explains our earlier boundary: theirs would cover messages that nothing has answered.
    fn explain_split(&self, ours: &Value, theirs: &Value) -> Option<&'static Class> {
        let theirs = theirs.as_u64()? as usize;
        let forced = harm::nearest(self.history(), theirs);
        (forced != theirs && *ours == json!(forced)).then_some(UNANSWERED)
    }

    /// Converts an index of contents to an index of messages.
    fn message(&self, index: &Value) -> Value {
        let index = index.as_u64().unwrap_or_default() as usize;
        let contents = Contents::of(self.history());
        json!(index.checked_sub(self.ahead()).map_or(0, |index| contents.message(index, self.history().len())))
    }

    fn budget(&self) -> Question {
        let policy = presets::policy("gemini-cli@0.26");
        let max_units = [100, 2_000, 10_000, 40_000][self.conversation.dice("budget").random_range(0..4)];
        let first = policy.auto.as_ref().and_then(|level_policy| level_policy.steps.first());
        let rule =
            if let Some(PolicyStep::Omit(omission)) = first { omission.parameters::<OutputBudget>() } else { None };
        let Some(rule) = rule else { return nothing("truncateHistoryToBudget") };
        let rule = Omission::from(OutputBudget { max_units, ..rule.clone() });
        let removals = omission::removals(&rule, &policy, &ModelWindow::default(), &self.messages);
        let input = json!({ "history": Contents::of(&self.messages).json(), "maxChars": max_units });
        let reading = Reading { read: |_, value| value, explain: |_, ours, theirs, _| halves(ours, theirs) };
        let ours = shown(&removals, &self.messages);
        Question { function: "truncateHistoryToBudget", input, ours, theirs: reading }
    }

    fn mask(&self) -> Question {
        let policy = presets::policy("gemini-cli@0.26");
        let Some(PolicyStep::Prune(rule)) = policy.maintenance.first() else { return nothing("mask") };
        let mut dice = self.conversation.dice("mask");
        let tokens = [100, 2_000, 10_000, 50_000][dice.random_range(0..4)];
        let minimum_tokens = [0, 50, 2_000, 30_000][dice.random_range(0..4)];
        let protects = dice.random_bool(0.8);
        let keep = Keep { tokens, messages: u32::from(protects), ..rule.keep.clone() };
        let rule = Prune { keep, minimum_tokens, ..rule.clone() };
        let removals = prune::select(&policy, &rule, &ModelWindow::default(), Timestamp(0), &self.many).removals;
        let input = json!({
            "history": Contents::of(&self.many[..read(&self.many)]).json(),
            "protectionThresholdTokens": tokens,
            "minPrunableThresholdTokens": minimum_tokens,
            "protectLatestTurn": protects,
        });
        let ours = json!(sorted(truncations_of(&removals, &self.many).map(|(result, _)| result.call_id.clone())));
        let read = |_: &Case, value: Value| {
            let ids = value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            json!(sorted(ids))
        };
        Question { function: "mask", input, ours, theirs: Reading { read, explain: Case::explain_mask } }
    }

    /// The estimates, by Gemini CLI's own function, of each output that only one side masks: whole, and as an excerpt
    /// of its text with the id of its part, made by Gemini CLI's own functions.
    fn estimates(&self, peer: &mut Peer, ours: &Value, theirs: &Value) -> Result<Value, PeerFailure> {
        let ids = only_one(ours, theirs);
        let parts = self.many.iter().flat_map(|source| &source.message.parts);
        let outputs = parts.filter_map(|part| Some((part.id, result_of(&part.body)?)));
        let outputs = outputs.filter(|(_, result)| ids.iter().any(|id| *id == result.call_id)).map(|(part, result)| {
            let alone = Contents::of(&self.many).response_of(&result.call_id);
            json!({ "part": alone, "reference": part.to_string() })
        });
        let question = json!({ "outputs": outputs.collect::<Vec<_>>() });
        let answer = peer.call_all(vec![("maskedEstimates", question)])?.pop();
        Ok(answer.and_then(Result::ok).unwrap_or_default())
    }

    /// Explains outputs that only one side masks, because our excerpt is made of the text: masking pays for those that
    /// we mask, and does not for those that only they mask.
    fn explain_mask(&self, ours: &Value, theirs: &Value, estimates: &Value) -> Option<&'static Class> {
        let ids = only_one(ours, theirs);
        let is_ours = |id: &Value| ours.as_array().is_some_and(|ids| ids.contains(id));
        let pays = |id: &Value| {
            let estimate = estimates.as_array()?.iter().find(|estimate| estimate["id"] == *id)?;
            Some(estimate["masked"].as_i64()? < estimate["whole"].as_i64()?)
        };
        ids.iter().all(|id| pays(id) == Some(is_ours(id))).then_some(REFERENCE)
    }

    fn compress(&self) -> Question {
        let policy = presets::policy("gemini-cli@0.26");
        let mut dice = self.conversation.dice("compress");
        let tokens = [LIMIT / 2 - 1, LIMIT / 2, LIMIT / 2 + 1, 900_000, 900_000][dice.random_range(0..5)];
        let input = json!({
            "history": self.contents(&policy), "originalTokenCount": tokens, "model": "gemini-2.5-pro",
            "threshold": null, "answers": ANSWERS,
        });
        let ours = self.compressed(&policy, tokens);
        let read = |_: &Case, value: Value| {
            if value["status"] != 1 {
                return json!({ "status": value["status"] });
            }
            let fields = ["status", "summarized", "kept", "summary", "answer", "changed"];
            let mut kept: Map<String, Value> =
                fields.iter().map(|&field| (field.to_owned(), value[field].clone())).collect();
            kept.insert("requests".to_owned(), json!(value["requests"].as_array().map(Vec::len)));
            Value::Object(kept)
        };
        let explain = |case: &Case, ours: &Value, theirs: &Value, _: &Value| {
            let cut = case.message(&theirs["summarized"]);
            if case.summary.is_some() && ours["status"] == 5 && cut == 0 {
                return Some(ALONE);
            }
            let own = if ours["status"] == 5 { json!(0) } else { case.message(&ours["summarized"]) };
            if own != cut {
                return case.explain_split(&own, &cut);
            }
            halves(&ours["changed"], &theirs["changed"])
        };
        Question { function: "compress", input, ours, theirs: Reading { read, explain } }
    }

    /// The result of our levels for a view with this number of tokens, as the agent would report it.
    fn compressed(&self, policy: &Policy, tokens: i64) -> Value {
        let window = ModelWindow { context: LIMIT, ..ModelWindow::default() };
        let history = self.history();
        let sources: Vec<SourceMessage> = self.summary.iter().chain(history).cloned().collect();
        let layout = Layout::everything();
        let base = sources.len() as i64 + 1;
        let planning = PlanningInput {
            policy,
            window: &window,
            layout: &layout,
            sources: &sources,
            covered: &[],
            base,
            now: Timestamp(0),
        };
        let due = overflow::due_at(policy, &window).is_some_and(|due| tokens >= due);
        let work = policy.auto.as_ref().filter(|_| due).map(|level_policy| plan::apply(planning, level_policy, tokens));
        let Some((work, plan)) = work.and_then(|work| work.summary.clone().map(|plan| (work, plan))) else {
            return json!({ "status": 5 });
        };
        let contents = Contents::of(history);
        let head = contents.before(plan.head.len());
        let truncated = plan::with_removals(&sources, &work.removals, CompactionId(Uuid::nil()));
        let boundary =
            Boundary { tail_start: plan.tail_start, retained: &plan.retained, retained_first: plan.retained_first };
        let after = plan::with_summary(policy, &layout, &truncated, &boundary, ANSWERS[1], &plan.attachments);
        let view = plan::view(policy, &after);
        let has_content = |index: usize| {
            view.messages.get(index).and_then(|message| match &*message.parts.first()?.body {
                PartBody::Text(text) => Some(text.clone()),
                _ => None,
            })
        };
        json!({
            "status": 1,
            "summarized": head + self.ahead(),
            "kept": contents.len() - head,
            "summary": has_content(0),
            "answer": has_content(1),
            "changed": shown(&work.removals, &history[plan.head.len()..]),
            "requests": if plan.rules.verify { 2 } else { 1 },
        })
    }

    fn august(&self) -> Question {
        let policy = presets::policy("gemini-cli@2025-08");
        let window = ModelWindow { context: LIMIT, ..ModelWindow::default() };
        let tokens = [734_003, 734_004, 100, 900_000, 900_000][self.conversation.dice("august").random_range(0..5)];
        let due = overflow::due_at(&policy, &window).is_some_and(|due| tokens >= due);
        let steps = policy.auto.iter().flat_map(|level_policy| &level_policy.steps);
        let mut tail = steps.filter_map(|step| match step {
            PolicyStep::Summarize(rule) => Some(&rule.tail),
            PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
        });
        let summary = self.summary.as_ref();
        let select = |tail| select::select_behind(&policy, tail, &window, summary, self.history()).head_end;
        let ours = tail.next_back().map(select).filter(|_| due && !self.contents(&policy).is_empty());
        let input = json!({ "history": self.contents(&policy), "tokens": [tokens, 10], "answer": ANSWERS[0] });
        let read = |case: &Case, value: Value| match value.as_object() {
            Some(split) => case.message(&split["summarized"]),
            None => Value::Null,
        };
        Question {
            function: "tryCompressChat",
            input,
            ours: json!(ours),
            theirs: Reading { read, explain: |case, ours, theirs, _| case.explain_split(ours, theirs) },
        }
    }
}

/// The ids in only one of two lists.
fn only_one(ours: &Value, theirs: &Value) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (ours, theirs) = (list(ours), list(theirs));
    ours.iter().chain(&theirs).filter(|id| !ours.contains(id) || !theirs.contains(id)).cloned().collect()
}

/// Some outputs in the form of the shell tool's.
fn as_programs(conversation: &Conversation, mut messages: Vec<SourceMessage>) -> Vec<SourceMessage> {
    let mut dice = conversation.dice("programs");
    for part in messages.iter_mut().flat_map(|source| &mut source.message.parts) {
        if let PartBody::ToolResult(result) = Arc::make_mut(&mut part.body)
            && dice.random_bool(0.3)
        {
            result.output = format!("Command: make\nOutput: {}\nError: (none)\nExit Code: 0", result.output);
        }
    }
    messages
}

/// A question that cannot be asked, which neither side answers.
fn nothing(function: &'static str) -> Question {
    Question { function, input: Value::Null, ours: json!("the preset has no such step"), theirs: EXACT }
}

/// The class of texts that differ only in half characters, and in numbers that follow from them.
fn halves(ours: &Value, theirs: &Value) -> Option<&'static Class> {
    let (ours, theirs) = (ours.as_object()?, theirs.as_object()?);
    let is_other = |character: &char| !(character.is_ascii_digit() || *character == ',' || *character == '\u{fffd}');
    let bare = |text: &Value| text.as_str().map(|text| text.chars().filter(is_other).collect::<String>());
    let same = |(id, text): (&String, &Value)| ours.get(id).is_some_and(|other| bare(other) == bare(text));
    let has_half = theirs.values().filter_map(Value::as_str).any(|text| text.contains('\u{fffd}'));
    (has_half && ours.len() == theirs.len() && theirs.iter().all(same)).then_some(HALVES)
}

/// The texts of the truncated outputs, by call id; `FILE` replaces the reference to the whole output.
fn shown(removals: &Removals, messages: &[SourceMessage]) -> Value {
    let texts = truncations_of(removals, messages).map(|(result, text)| (result.call_id.clone(), json!(text)));
    Value::Object(texts.collect())
}

fn truncations_of<'a>(
    removals: &'a Removals,
    messages: &'a [SourceMessage],
) -> impl Iterator<Item = (&'a ToolResult, String)> {
    let parts = messages.iter().flat_map(|source| &source.message.parts);
    parts.filter_map(|part| {
        let (id, truncation) = removals.parts.iter().find(|(id, _)| *id == part.id)?;
        let result = result_of(&part.body)?;
        Some((result, truncation.apply(&result.output).replace(&id.to_string(), "FILE")))
    })
}

fn result_of(body: &PartBody) -> Option<&ToolResult> {
    match body {
        PartBody::ToolResult(result) => Some(result),
        _ => None,
    }
}

fn text_of(part: &longhand::model::part::Part) -> Option<&str> {
    match &*part.body {
        PartBody::Text(text) => Some(text),
        _ => None,
    }
}

fn sorted(ids: impl Iterator<Item = String>) -> Vec<String> {
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    ids
}

//! Qwen Code: thresholds, split points with rounds of calls, clearing of old outputs, and the contents after a summary,
//! in the versions of August 2025, 0.15 and 0.24.

pub(crate) mod scenarios;

use crate::contents::{Contents, read, summary};
use crate::generate::{self, Conversation, Profile, Results};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use longhand::model::ids::PartId;
use longhand::model::layout::Layout;
use longhand::model::message::Role;
use longhand::model::part::{MediaSource, PartBody, ResultStatus};
use longhand::model::time::Timestamp;
use longhand::model::truncation::{Removals, Truncation};
use longhand::model::usage::ModelWindow;
use longhand::model::view::SourceMessage;
use longhand::policy::plan::{self, Boundary, PlanningInput};
use longhand::policy::{Attachments, Policy, PolicyStep, Prune, Tail, attachments, overflow, prune, select, tokens};
use longhand::policy::{Condition, Count, Keep};
use longhand::policy::{Fraction, FractionBoundary};
use longhand::presets;
use rand::Rng;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) struct QwenCode;

const PROFILE: Profile = Profile {
    turns: 0..=9,
    text_max: 2_000,
    output_max: 6_000,
    system: false,
    results: Results::Either,
    tools: &["read_file", "write_file", "edit", "grep_search", "run_shell_command", "skill", "save_memory", "agent"],
    ..Profile::FULL
};

/// The window of the model for the version of August 2025, in tokens.
const AUGUST_LIMIT: i64 = 1_048_576;

static CLASSES: [Class; 4] = [
    Class {
        name: "no summary of a summary alone",
        reason: Reason::P12,
        explanation: "Qwen Code summarizes the summary before again when that alone has the share; we do nothing.",
        test: (
            "crates/core/src/policy/select/fraction.rs",
            "the_current_summary_is_measured_and_never_summarized_alone",
        ),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::P9,
        explanation: "Qwen Code summarizes requests that no reply has followed, and running calls; we cut before them.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    Class {
        name: "no limit of nothing",
        reason: Reason::P12,
        explanation: "In windows of more than 33000 tokens Qwen Code's limits fall to nothing, and rise to where they \
                      were at 61050; ours stay there in between.",
        test: ("crates/presets/tests/it/overflow.rs", "the_limit_of_qwen_code_differs_only_where_its_deviation_says"),
    },
    Class {
        name: "a kept message stays itself",
        reason: Reason::P8,
        explanation: "Qwen Code puts running calls into the acknowledgement of a summary; with us they stay in their \
                      message, and somebody speaks in between.",
        test: ("crates/core/src/policy/render/tests.rs", "a_reply_behind_an_acknowledgement_is_asked_for"),
    },
];
const JOINED: &Class = &CLASSES[3];
const ALONE: &Class = &CLASSES[0];
const UNANSWERED: &Class = &CLASSES[1];
const CLIFF: &Class = &CLASSES[2];

impl System for QwenCode {
    fn name(&self) -> &'static str {
        "qwen-code"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for batch in run.batches() {
            let cases: Vec<Case> = batch.map(|index| Case::draw(run.seed, index)).collect();
            for ask in [
                Case::thresholds,
                Case::estimate,
                Case::split,
                Case::compress_15,
                Case::clear_15,
                Case::clear_idle,
                Case::clear_large,
                Case::carried,
                Case::compress_24,
                Case::august,
            ] {
                let questions: Vec<Question> = cases.iter().map(ask).collect();
                let calls = questions.iter().map(|question| (question.function, question.input.clone())).collect();
                for ((case, question), theirs) in cases.iter().zip(&questions).zip(peer.call_all(calls)?) {
                    let Question { function, input, ours, read, explain } = question;
                    let theirs = theirs.map(|value| read(case, value));
                    let why = |ours: &Value, theirs: &Value| explain(case, ours, theirs);
                    report.compare(function, case.conversation.index, input, ours, &theirs, why);
                }
            }
        }
        Ok(())
    }
}

/// A question to both sides, our answer, the reading of theirs, and the explanation of a difference.
struct Question {
    function: &'static str,
    input: Value,
    ours: Value,
    read: fn(&Case, Value) -> Value,
    explain: fn(&Case, &Value, &Value) -> Option<&'static Class>,
}

impl Question {
    /// A question whose answers must be equal.
    fn exact(function: &'static str, input: Value, ours: Value) -> Self {
        Self { function, input, ours, read: |_, value| value, explain: |_, _, _| None }
    }

    fn about_boundaries(function: &'static str, input: Value, ours: Value) -> Self {
        Self {
            read: |case, value| case.message(&value),
            explain: Case::explain_split,
            ..Self::exact(function, input, ours)
        }
    }
}

/// A conversation with or without an earlier summary.
struct Case {
    conversation: Conversation,
    summary: Option<SourceMessage>,
}

impl Case {
    fn draw(seed: u64, index: u64) -> Self {
        let mut conversation = Conversation::generate(seed, index, &PROFILE);
        as_qwen_holds_them(&mut conversation);
        let mut dice = conversation.dice("summary");
        let text = generate::text(&mut dice, 9_000);
        let live = if dice.random_bool(0.4) { summary(&conversation.messages, text) } else { None };
        Self { conversation, summary: live.filter(|live| !live.message.parts.is_empty()) }
    }

    fn messages(&self) -> &[SourceMessage] {
        &self.conversation.messages
    }

    /// The history at the agent's decision.
    fn history(&self) -> &[SourceMessage] {
        &self.messages()[..read(self.messages())]
    }

    /// The active summary and its acknowledgement.
    fn in_front(&self, policy: &Policy) -> Vec<Value> {
        let Some(summary) = &self.summary else { return Vec::new() };
        let text: String = summary.message.parts.iter().filter_map(|part| text_of(&part.body)).collect();
        let text = format!("{}{text}{}", policy.view.summary_prefix, policy.view.summary_suffix);
        vec![
            json!({ "role": "user", "parts": [{ "text": text }] }),
            json!({ "role": "model", "parts": [{ "text": policy.view.acknowledgement }] }),
        ]
    }

    fn contents(&self, policy: &Policy) -> Vec<Value> {
        let mut list = self.in_front(policy);
        list.extend(Contents::of(self.history()).json());
        list
    }

    fn with_call_ids(&self, policy: &Policy) -> Vec<Value> {
        let mut list = self.in_front(policy);
        list.extend(Contents::with_call_ids(self.history()).json());
        list
    }

    fn sources(&self) -> Vec<SourceMessage> {
        self.summary.iter().chain(self.history()).cloned().collect()
    }

    /// Converts an index of contents to an index of messages.
    fn message(&self, index: &Value) -> Value {
        let Some(index) = index.as_u64() else { return index.clone() };
        let ahead = if self.summary.is_some() { 2 } else { 0 };
        let contents = Contents::of(self.history());
        json!((index as usize).checked_sub(ahead).map_or(0, |index| contents.message(index, self.history().len())))
    }

    /// Explains our earlier boundary: theirs would cover messages that nothing has answered.
    fn explain_split(&self, ours: &Value, theirs: &Value) -> Option<&'static Class> {
        let theirs = theirs.as_u64()? as usize;
        let forced = harm::nearest(self.history(), theirs);
        (forced != theirs && *ours == json!(forced)).then_some(UNANSWERED)
    }

    fn thresholds(&self) -> Question {
        let policy = presets::policy("qwen-code@0.24");
        let mut dice = self.conversation.dice("window");
        let context: i64 = match dice.random_range(0..4) {
            0 => dice.random_range(1..33_002),
            1 => dice.random_range(33_000..70_000),
            _ => dice.random_range(60_000..2_000_000),
        };
        let window = ModelWindow { context, output: Some(1), ..ModelWindow::default() };
        let due = |level_policy: &Option<longhand::policy::LevelPolicy>| {
            level_policy.as_ref().and_then(|level_policy| level_policy.threshold.due_at(&window))
        };
        let ours = json!([due(&policy.micro), due(&policy.auto), due(&policy.deep)]);
        Question {
            // A whole number of tokens reaches a fractional limit at the next whole number, and an empty view reaches
            // none.
            read: |_, value| {
                let whole = |field: &str| value[field].as_f64().map(|tokens| (tokens.ceil() as i64).max(1));
                json!([whole("warn"), whole("auto"), whole("hard")])
            },
            explain: |_, ours, theirs| {
                let above =
                    |index: usize| ours[index].as_i64().zip(theirs[index].as_i64()).is_some_and(|(a, b)| a >= b);
                let falls = theirs[1].as_i64().is_some_and(|auto| auto < 28_050) && ours[1] == 28_050;
                (falls && (0..3).all(above)).then_some(CLIFF)
            },
            ..Question::exact("computeThresholds", json!({ "window": context }), ours)
        }
    }

    fn estimate(&self) -> Question {
        let policy = presets::policy("qwen-code@0.24");
        // Every call has an id there.
        let contents = Contents::with_call_ids(self.messages()).json();
        let ours = tokens::RangeEstimate::from_messages(&policy, self.messages()).tokens(0..self.messages().len());
        Question::exact("estimateContentTokens", json!({ "contents": contents }), json!(ours))
    }

    fn split(&self) -> Question {
        let policy = presets::policy("qwen-code@0.15");
        let mut dice = self.conversation.dice("split");
        let summarize_ratio = [0.1, 0.3, 0.5, 0.7, 0.7, 0.9, 0.99][dice.random_range(0..7)];
        let rounds = dice.random_range(0..4);
        let boundary = FractionBoundary::Rounds { rounds };
        let tail = Tail::Fraction(Fraction { summarize_ratio, boundary, minimum_ratio: 0.0 });
        let window = ModelWindow::default();
        let ours = select::select_behind(&policy, &tail, &window, self.summary.as_ref(), self.messages()).head_end;
        let input = json!({
            "contents": self.contents(&policy), "fraction": summarize_ratio, "retainCount": rounds,
        });
        Question::about_boundaries("findCompressSplitPoint15", input, json!(ours))
    }

    fn compress_15(&self) -> Question {
        let policy = presets::policy("qwen-code@0.15");
        let mut dice = self.conversation.dice("compress15");
        let context = dice.random_range(1_000..2_000_000);
        let at = (context as f64 * 0.7) as i64 + dice.random_range(-1..=1);
        let tokens = if dice.random_bool(0.3) { at } else { context };
        let usage = json!({ "promptTokenCount": 900_000, "candidatesTokenCount": 10 });
        let input = json!({
            "history": self.contents(&policy), "window": context, "originalTokenCount": tokens,
            "answers": [{ "text": "SUMMARY", "usageMetadata": usage }],
        });
        let ours = self.compressed(&policy, context, tokens);
        Question {
            read: |_, value| outcome(&value),
            explain: Case::explain_compress,
            ..Question::exact("compress15", input, ours)
        }
    }

    fn explain_compress(&self, ours: &Value, theirs: &Value) -> Option<&'static Class> {
        let cut = self.message(&theirs["summarized"]);
        if self.summary.is_some() && ours.is_null() && cut == 0 {
            return Some(ALONE);
        }
        let ours = if ours.is_null() { json!(0) } else { self.message(&ours["summarized"]) };
        self.explain_split(&ours, &cut)
    }

    /// The result of our levels for a view with this number of tokens, as the agent would report it; null for no
    /// action.
    fn compressed(&self, policy: &Policy, context: i64, tokens: i64) -> Value {
        let window = ModelWindow { context, output: Some(1), ..ModelWindow::default() };
        let (sources, layout) = (self.sources(), Layout::everything());
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
        let due = policy
            .auto
            .as_ref()
            .filter(|level_policy| level_policy.threshold.due_at(&window).is_some_and(|due| tokens >= due));
        let Some(plan) = due.and_then(|level_policy| plan::apply(planning, level_policy, tokens).summary) else {
            return Value::Null;
        };
        let boundary =
            Boundary { tail_start: plan.tail_start, retained: &plan.retained, retained_first: plan.retained_first };
        let after = plan::with_summary(policy, &layout, &sources, &boundary, "SUMMARY", &plan.attachments);
        let view = plan::view(policy, &after);
        let contents = Contents::of(self.history());
        let head = contents.before(plan.head.len());
        // The roles after the summary, up to the kept messages.
        let roles = view.messages.iter().take_while(|message| !self.is_kept(message.source, plan.head.len()));
        json!({
            "summarized": head + self.in_front(policy).len(),
            "kept": contents.len() - head,
            "roles": roles.map(|message| role(message.role)).collect::<String>(),
        })
    }

    /// True if a message of a view is one of the kept ones.
    fn is_kept(&self, id: Option<longhand::model::ids::MessageId>, head: usize) -> bool {
        self.history()[head..].iter().any(|source| Some(source.message.id) == id)
    }

    fn clear_15(&self) -> Question {
        let policy = presets::policy("qwen-code@0.15");
        let (prunes, settings, idle, now) = self.idle(&policy.maintenance);
        let input = json!({ "history": self.plain(), "idleMilliseconds": idle, "settings": settings });
        Question { read: read_cleared, ..Question::exact("microcompact15", input, self.cleared(&policy, &prunes, now)) }
    }

    fn clear_idle(&self) -> Question {
        let policy = presets::policy("qwen-code@0.24");
        let (prunes, mut settings, idle, now) = self.idle(&policy.maintenance[..3]);
        settings["toolResultsTotalCharsThreshold"] = json!(-1);
        let input = json!({ "history": self.plain(), "idleMilliseconds": idle, "settings": settings });
        Question { read: read_cleared, ..Question::exact("microcompact24", input, self.cleared(&policy, &prunes, now)) }
    }

    fn clear_large(&self) -> Question {
        let policy = presets::policy("qwen-code@0.24");
        let mut dice = self.conversation.dice("large");
        let above = [500, 5_000, 30_000][dice.random_range(0..3)];
        let items = dice.random_range(1..7);
        let prunes: Vec<Prune> = prunes(&policy.maintenance[3..])
            .map(|prune| Prune {
                condition: Condition::Length { above_units: above, down_to_units: above / 2 },
                keep: Keep { parts: Count::Fixed(items), ..prune.keep.clone() },
                ..prune.clone()
            })
            .collect();
        let settings = json!({
            "toolResultsThresholdMinutes": -1, "toolResultsNumToKeep": items, "toolResultsTotalCharsThreshold": above,
        });
        // Messages that no reply has followed are pending, and count.
        let pending = Contents::of(self.messages()).json().split_off(self.plain().len());
        let input = json!({
            "history": self.plain(), "idleMilliseconds": null, "settings": settings,
            "options": { "pendingContent": pending, "sizeOnly": true },
        });
        let ours = self.cleared(&policy, &prunes, Timestamp(0));
        Question { read: read_cleared, ..Question::exact("microcompact24", input, ours) }
    }

    /// The history without the active summary, as contents.
    fn plain(&self) -> Vec<Value> {
        Contents::of(self.history()).json()
    }

    /// Clearings after an idle time that may be long enough, with the equivalent settings for the peer.
    fn idle(&self, steps: &[PolicyStep]) -> (Vec<Prune>, Value, i64, Timestamp) {
        let mut dice = self.conversation.dice("idle");
        let minutes = dice.random_range(0..90_u32);
        let items = dice.random_range(1..7);
        let prunes = prunes(steps).map(|prune| Prune {
            condition: Condition::Idle { seconds: minutes * 60 },
            keep: Keep { parts: Count::Fixed(items), ..prune.keep.clone() },
            ..prune.clone()
        });
        let idle = i64::from(minutes) * 60_000 + [0, -1, 1_000, 86_400_000][dice.random_range(0..4)];
        let last = self.history().iter().rfind(|source| source.message.role == Role::Assistant);
        let now = last.map_or(Timestamp(0), |source| source.message.create_time.plus_millis(idle));
        let settings = json!({ "toolResultsThresholdMinutes": minutes, "toolResultsNumToKeep": items });
        (prunes.collect(), settings, idle, now)
    }

    /// The calls whose outputs are cleared, and the number of cleared media.
    fn cleared(&self, policy: &Policy, rules: &[Prune], now: Timestamp) -> Value {
        let removals = |rule| prune::select(policy, rule, &ModelWindow::default(), now, self.messages()).removals;
        let removals: Vec<Removals> = rules.iter().map(removals).collect();
        let parts: Vec<&(PartId, Truncation)> = removals.iter().flat_map(|removals| &removals.parts).collect();
        let is_cleared = |id: PartId| parts.iter().any(|(part, _)| *part == id);
        let all = self.messages().iter().flat_map(|source| &source.message.parts);
        let (mut calls, mut media) = (Vec::new(), 0);
        for part in all.filter(|part| is_cleared(part.id)) {
            match &*part.body {
                PartBody::ToolResult(result) => calls.push(result.call_id.clone()),
                _ => media += 1,
            }
        }
        calls.sort();
        json!({ "calls": calls, "media": media })
    }

    fn carried(&self) -> Question {
        let policy = presets::policy("qwen-code@0.24");
        let Some(mut rules) = rules(&policy) else {
            return Question::exact("restored", Value::Null, json!("no rules"));
        };
        let mut dice = self.conversation.dice("carried");
        (rules.files, rules.images) = (dice.random_range(0..7), dice.random_range(0..5));
        let ours = attachments::files(&rules, &policy, self.history());
        let images = attachments::attachments(&rules, &policy, self.history());
        let images = images.iter().filter(|part| matches!(part, PartBody::Media(_))).count();
        let whole: Vec<&String> = ours.whole.iter().map(|(path, _)| path).collect();
        let input = json!({
            "history": Contents::with_call_ids(self.history()).json(),
            "files": self.files(&rules),
            "maxFiles": rules.files,
            "maxImages": rules.images,
        });
        Question::exact("restored", input, json!({ "named": ours.named, "whole": whole, "images": images }))
    }

    /// Every file as the history last showed it; files not shown whole are too long to be included.
    fn files(&self, rules: &Attachments) -> Map<String, Value> {
        let all = Attachments { files: 1_000, file_tokens: 1 << 40, total_tokens: 1 << 40, ..rules.clone() };
        let policy = presets::policy("qwen-code@0.24");
        let shown = attachments::files(&all, &policy, self.history());
        let whole = shown.whole.iter().map(|(path, text)| (path.clone(), json!(text)));
        let named = shown.named.iter().map(|path| (path.clone(), json!("x".repeat(20_001))));
        whole.chain(named).collect()
    }

    fn compress_24(&self) -> Question {
        let policy = presets::policy("qwen-code@0.24");
        let mut dice = self.conversation.dice("compress24");
        let context = dice.random_range(70_000..1_000_000);
        let window = ModelWindow { context, output: Some(1), ..ModelWindow::default() };
        let due = policy.auto.as_ref().and_then(|level_policy| level_policy.threshold.due_at(&window)).unwrap_or(0);
        let tokens = due + [-1, 0, 1, 1_000][dice.random_range(0..4)];
        let usage = json!({ "promptTokenCount": tokens, "candidatesTokenCount": 10 });
        let input = json!({
            "history": self.with_call_ids(&policy), "window": context, "originalTokenCount": tokens,
            "answers": [{ "text": "SUMMARY", "usage": usage }], "files": rules(&policy).map(|rules| self.files(&rules)),
            // Twenty images would trigger a summary on their own.
            "settings": { "enableScreenshotTrigger": false },
        });
        let ours = self.compressed(&policy, context, tokens);
        Question {
            read: |_, value| outcome(&value),
            explain: |case, ours, theirs| {
                let same = |field: &str| ours[field] == theirs[field];
                let is_joined = same("summarized") && same("kept") && theirs["roles"] == "um" && ours["roles"] == "umu";
                if is_joined { Some(JOINED) } else { case.explain_compress(ours, theirs) }
            },
            ..Question::exact("compress24", input, ours)
        }
    }

    fn august(&self) -> Question {
        let policy = presets::policy("qwen-code@2025-08");
        let window = ModelWindow { context: AUGUST_LIMIT, ..ModelWindow::default() };
        let tokens = [734_003, 734_004, 100, 900_000, 900_000][self.conversation.dice("august").random_range(0..5)];
        let due = overflow::due_at(&policy, &window).is_some_and(|due| tokens >= due);
        let steps = policy.auto.iter().flat_map(|level_policy| &level_policy.steps);
        let mut tail = steps.filter_map(|step| match step {
            PolicyStep::Summarize(rule) => Some(&rule.tail),
            PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
        });
        let select =
            |tail| select::select_behind(&policy, tail, &window, self.summary.as_ref(), self.messages()).head_end;
        let contents = self.contents(&policy);
        let ours = tail.next_back().map(select).filter(|_| due && !contents.is_empty());
        let input = json!({ "history": contents, "tokens": [tokens, 10], "answer": "SUMMARY" });
        Question::about_boundaries("tryCompressChat", input, json!(ours))
    }
}

/// Renames paths to Qwen Code's field, and makes all media inline, because Qwen Code attaches no others to a summary.
pub(crate) fn as_qwen_holds_them(conversation: &mut Conversation) {
    let mut dice = conversation.dice("paths");
    for part in conversation.messages.iter_mut().flat_map(|source| &mut source.message.parts) {
        let PartBody::ToolCall(call) = Arc::make_mut(&mut part.body) else { continue };
        let Ok(Value::Object(mut input)) = serde_json::from_str(&call.input_json) else { continue };
        if let Some(path) = input.remove("path") {
            input.insert("file_path".to_owned(), path);
        }
        if dice.random_bool(0.7) {
            input.remove("offset");
        }
        call.input_json = Value::Object(input).to_string();
    }
    for part in conversation.messages.iter_mut().flat_map(|source| &mut source.message.parts) {
        let media = match Arc::make_mut(&mut part.body) {
            PartBody::Media(media) => std::slice::from_mut(media),
            // A failed result has no media.
            PartBody::ToolResult(result) if result.status != ResultStatus::Completed => {
                result.attachments.clear();
                &mut []
            }
            PartBody::ToolResult(result) => result.attachments.as_mut_slice(),
            _ => &mut [],
        };
        media.iter_mut().for_each(|media| media.source = MediaSource::Bytes(b"image".to_vec()));
    }
}

/// The rules for the attachments of a summary.
fn rules(policy: &Policy) -> Option<Attachments> {
    let steps = policy.auto.iter().flat_map(|level_policy| &level_policy.steps);
    let mut rules = steps.filter_map(|step| match step {
        PolicyStep::Summarize(rule) => rule.summary.attachments.clone(),
        PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
    });
    rules.next_back()
}

fn prunes(steps: &[PolicyStep]) -> impl Iterator<Item = &Prune> {
    steps.iter().filter_map(|step| match step {
        PolicyStep::Prune(prune) => Some(prune),
        PolicyStep::Omit(_) | PolicyStep::Summarize(_) => None,
    })
}

/// The number of summarized and of kept contents, and the roles in between; null if nothing was done.
fn outcome(value: &Value) -> Value {
    if value["summarized"].is_null() {
        return Value::Null;
    }
    json!({ "summarized": value["summarized"], "kept": value["kept"], "roles": value["roles"] })
}

/// The peer's answer in the common form, with the calls sorted.
fn read_cleared(_: &Case, value: Value) -> Value {
    let mut calls: Vec<String> =
        value["calls"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    calls.sort();
    json!({ "calls": calls, "media": value["media"] })
}

fn role(role: Role) -> char {
    match role {
        Role::Assistant => 'm',
        Role::User | Role::Tool | Role::System => 'u',
    }
}

fn text_of(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Text(text) => Some(text),
        _ => None,
    }
}

//! Scenarios of OpenCode: its published server runs its own loop, and a conversation grows in it message by message.
//!
//! The model's answers come from the scenario, the tool is OpenCode's own `webfetch`, whose pages are the scenario's outputs,
//! and the final text of a result is OpenCode's. If both sides compact alike, the session continues; if not, it is
//! replaced by a new session with our compaction, from the next request of the user on.

use super::history::{file, message as written};
use super::{entries, entry, in_order, limits, transcript, window, without_opening};
use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile};
use crate::harm;
use crate::harness::{Asker, Comparison, Peer, PeerFailure, Run, System, at_once};
use crate::report::{Class, Reason, Report};
use crate::session::{SUBSTANCE, Session, SummaryMade};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand::model::layout::Placement;
use longhand::model::message::{Finish, FinishReason, NewMessage, Role};
use longhand::model::part::{Answers, Media, MediaSource, NewPart, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::SourceMessage;
use longhand::policy::Policy;
use longhand::policy::summary::SummaryInput;
use longhand::presets;
use rand::Rng;
use serde_json::{Value, json};
use std::cell::Cell;

pub(crate) struct Scenarios;

const PROFILE: Profile = Profile {
    turns: 5..=12,
    text_max: 2_500,
    output_max: 2_500,
    media: true,
    interruptions: false,
    tools: &[TOOL],
    ..super::PROFILE
};

/// Windows as context, input and output, small enough for several compactions in a scenario.
const WINDOWS: [(i64, Option<i64>, i64); 2] = [(5_500, None, 3_000), (8_000, Some(3_500), 1_500)];

/// Tails as `tail_turns` and `preserve_recent_tokens`.
const TAILS: [(Option<u32>, Option<i64>); 4] =
    [(None, Some(600)), (None, Some(200)), (Some(1), Some(400)), (Some(2), Some(800))];

/// Number of concurrent scenarios: each waits only for its own server.
const AT_ONCE: usize = 16;

/// The last text of a model that has no further reply.
const DONE: &str = "Done.";

const MOMENT: Class = Class {
    name: "every message is a moment",
    reason: Reason::Named("The threshold is looked at after every message"),
    explanation: "With what was written since the last reply, by OpenCode's own measure of a text, the threshold is \
                  reached, but OpenCode goes by that reply's usage alone; we do not wait.",
    test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
};

const FITS: Class = Class {
    name: "a view fits its window",
    reason: Reason::P15,
    explanation: "Where the request exceeds the window OpenCode waits for the provider to refuse it; our last resort takes \
                  the longest outputs out, and the scenario ends there.",
    test: ("crates/core/src/policy/last_resort.rs", "outputs_and_inputs_go_first_then_what_is_old_then_what_is_new"),
};

const FREES: Class = Class {
    name: "what frees nothing is not done",
    reason: Reason::P12,
    explanation: "By OpenCode's measure the messages before an unanswered request were no larger than their summary, which we \
                  refused; we do not try again until the conversation has grown.",
    test: ("tests/it/guards.rs", "an_open_breaker_names_its_reason_and_the_kinds_it_allows"),
};

static CLASSES: [Class; 7] =
    [MOMENT, super::CLASSES[0], super::CLASSES[2], super::CLASSES[4], FITS, FREES, super::CLASSES[5]];
static UNANSWERED: &Class = &CLASSES[1];
static ONE_SUMMARY: &Class = &CLASSES[2];
static OPENING: &Class = &CLASSES[6];

impl System for Scenarios {
    fn name(&self) -> &'static str {
        "opencode-scenarios"
    }

    fn packages(&self) -> &'static str {
        "opencode"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        let compare = |made: Comparison| {
            report.compare(made.what, made.index, &made.input, &made.ours, &Ok(made.theirs), |_, _| made.why)
        };
        // The daemon's provider answers one session at a time.
        let width = if run.daemon.is_some() { 1 } else { AT_ONCE };
        let live = |index, asker: &mut Asker| Scenario::draw(run.seed, index).live(run.daemon, asker);
        at_once(peer, run.scenario_indexes(), width, live, compare)
    }
}

/// The data of a scenario.
struct Scenario {
    index: u64,
    turns: Vec<Turn>,
    window: (i64, Option<i64>, i64),
    tail: (Option<u32>, Option<i64>),
    /// Tokens of every request besides the messages.
    unseen: i64,
    policy: Policy,
}

/// A request of the user, and the replies to it; none if it is not answered.
struct Turn {
    request: String,
    images: Vec<Media>,
    replies: Vec<Reply>,
}

/// A reply of the model.
#[derive(Clone, Default)]
struct Reply {
    text: String,
    reasoning: String,
    /// The outputs of its calls by their ids; none for a call that fails.
    calls: Vec<(String, Option<String>)>,
    end: End,
    /// The tokens that it reports in addition to its text.
    output_tokens: i64,
}

/// The end of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    Whole,
    /// The model has reached its output limit.
    Cut,
    /// The user stops the model.
    Stopped,
    /// An error before any output.
    Failed,
}

impl Reply {
    /// Approximate tokens of its text and calls.
    fn tokens(&self) -> i64 {
        (units(&self.text) + units(&self.reasoning)) / 4 + CALL_TOKENS * self.calls.len() as i64
    }
}

impl Scenario {
    fn draw(seed: u64, index: u64) -> Self {
        let conversation = Conversation::generate(seed, index, &PROFILE);
        let mut dice = conversation.dice("scenario");
        let (window, tail) = (WINDOWS[dice.random_range(0..WINDOWS.len())], TAILS[dice.random_range(0..TAILS.len())]);
        Self {
            index,
            turns: turns(&conversation),
            window,
            tail,
            unseen: dice.random_range(0..300),
            policy: policy(tail),
        }
    }

    fn words(&self, number: usize) -> String {
        format!("Summary {number} of scenario {}. {SUBSTANCE}", self.index)
    }

    fn config(&self) -> Value {
        let mut config = json!({});
        if let Some(turns) = self.tail.0 {
            config["tail_turns"] = json!(turns);
        }
        if let Some(budget) = self.tail.1 {
            config["preserve_recent_tokens"] = json!(budget);
        }
        config
    }

    fn live(&self, daemon: Option<&Daemon>, asker: &mut Asker) -> Result<Vec<Comparison>, PeerFailure> {
        let window = window(self.window);
        let number = Cell::new(0);
        let writer = |_: &SummaryInput| self.words(number.get());
        let session = Session::new(daemon, &self.policy, &window, &writer)?;
        let mut course = Course {
            scenario: self,
            window: &window,
            number: &number,
            session,
            asker,
            pages: String::new(),
            comparisons: Vec::new(),
            has_usage: false,
            is_refused: false,
            is_over: false,
        };
        course.run()?;
        Ok(course.comparisons)
    }
}

/// The preset with a tail.
fn policy((turns, budget): (Option<u32>, Option<i64>)) -> Policy {
    let mut tail = json!({});
    if let Some(turns) = turns {
        tail["turns"] = json!(turns);
    }
    if let Some(budget) = budget {
        tail["budget_ratio"] = json!(0);
        tail["minimum_budget_tokens"] = json!(budget);
        tail["max_budget_tokens"] = json!(budget);
    }
    let patch = json!({
        "auto": { "steps": { "0": { "summarize": { "tail": { "turns": tail } } } } },
        "guards": { "minimum_gain_tokens": 1 },
    });
    presets::policy("opencode@1.18")
        .with_overrides(&patch.to_string())
        .unwrap_or_else(|error| panic!("{patch}: {error}"))
}

/// A text that OpenCode keeps unaltered: it removes trailing blanks and leaves out empty texts.
fn kept(text: &str) -> String {
    let text = text.trim_end_matches(|character: char| character.is_whitespace() || character == '\u{feff}');
    if text.trim().is_empty() { "so".to_owned() } else { text.to_owned() }
}

fn turns(conversation: &Conversation) -> Vec<Turn> {
    let mut dice = conversation.dice("turns");
    let mut turns: Vec<Turn> = Vec::new();
    for source in &conversation.messages {
        let message = &source.message;
        if message.role == Role::User {
            let texts = message.parts.iter().filter_map(|part| match &*part.body {
                PartBody::Text(text) => Some(text.as_str()),
                _ => None,
            });
            let request = kept(&texts.collect::<Vec<_>>().join("\n"));
            let has_image = message.parts.iter().any(|part| matches!(*part.body, PartBody::Media(_)));
            let images = has_image.then(image).into_iter().collect();
            turns.push(Turn { request, images, replies: Vec::new() });
            continue;
        }
        let Some(turn) = turns.last_mut() else { continue };
        let mut reply = Reply { output_tokens: dice.random_range(1..50), ..Reply::default() };
        for part in &message.parts {
            match &*part.body {
                PartBody::Text(text) => reply.text = kept(text),
                PartBody::Reasoning(text) => reply.reasoning = kept(text),
                PartBody::ToolCall(call) => reply.calls.push((call.call_id.clone(), None)),
                PartBody::ToolResult(result) if result.status == ResultStatus::Completed => {
                    let known = reply.calls.iter_mut().find(|(id, _)| *id == result.call_id);
                    known.into_iter().for_each(|(_, output)| *output = Some(kept(&result.output)));
                }
                _ => {}
            }
        }
        if reply.calls.is_empty() {
            match dice.random_range(0..20) {
                0 => reply = Reply { end: End::Failed, ..Reply::default() },
                1..3 => reply.end = End::Stopped,
                3..5 => reply.end = End::Cut,
                _ => {}
            }
        }
        turn.replies.push(reply);
    }
    turns
}

/// An image whose length in OpenCode's JSON equals our estimate for every image.
fn image() -> Media {
    let named = |name: &str| {
        let file = json!({ "type": "file", "mediaType": PNG, "filename": name, "data": format!("data:{PNG};base64,") });
        (name.to_owned(), IMAGE_UNITS - file.to_string().len())
    };
    // Three bytes are four characters in base64.
    let (name, characters) = (0..4)
        .map(|more| named(&format!("sho{}.png", "t".repeat(more + 1))))
        .find(|it| it.1 % 4 == 0)
        .unwrap_or_default();
    let mut bytes = STANDARD.decode(PIXEL).unwrap_or_default();
    bytes.resize(characters / 4 * 3, 0);
    Media { mime_type: PNG.to_owned(), name, source: MediaSource::Bytes(bytes) }
}

/// The tool of every call.
const TOOL: &str = "webfetch";

const PNG: &str = "image/png";
const IMAGE_UNITS: usize = 4_800;
const IMAGE_TOKENS: i64 = 1_200;

/// An image of one pixel. The bytes after it are ignored.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// A running scenario.
struct Course<'a> {
    scenario: &'a Scenario,
    window: &'a ModelWindow,
    /// Number of summaries so far.
    number: &'a Cell<usize>,
    session: Session<'a>,
    asker: &'a mut Asker,
    /// The address of the pages that the tool reads.
    pages: String,
    comparisons: Vec<Comparison>,
    /// True if a reply has reported usage in this session.
    has_usage: bool,
    /// True if our last attempt was refused, and what it would have summarized is no larger than its summary.
    is_refused: bool,
    /// True if the histories have diverged.
    is_over: bool,
}

/// A compaction of ours.
struct Made {
    plan: SummaryMade,
    /// The messages that it could cover.
    inline: Vec<SourceMessage>,
    /// OpenCode's estimate of the view before it.
    view_tokens: i64,
}

impl Course<'_> {
    fn run(&mut self) -> Result<(), PeerFailure> {
        let scenario = self.scenario;
        self.start(&[])?;
        for turn in &scenario.turns {
            self.turn(turn)?;
            if self.is_over {
                break;
            }
        }
        self.ask("scenarioEnd", json!({}))?;
        Ok(())
    }

    fn ask(&mut self, function: &'static str, mut arguments: Value) -> Result<Value, PeerFailure> {
        arguments["scenario"] = json!(self.scenario.index);
        Ok(match self.asker.ask(function, arguments)? {
            Ok(value) => value,
            Err(words) => json!({ "kind": "error", "problem": words }),
        })
    }

    fn record(&mut self, what: &'static str, input: Value, ours: Value, theirs: Value, why: Option<&'static Class>) {
        self.comparisons.push(Comparison { what, index: self.scenario.index, input, ours, theirs, why });
    }

    fn start(&mut self, messages: &[Value]) -> Result<(), PeerFailure> {
        let limits = limits(self.scenario.window);
        let question = json!({ "config": self.scenario.config(), "limits": limits, "messages": messages });
        let started = self.ask("scenarioStart", question)?;
        self.has_usage = false;
        self.is_refused = false;
        self.pages = started["url"].as_str().unwrap_or_default().to_owned();
        Ok(())
    }

    /// Continues after our compaction in a new session.
    fn restart(&mut self) -> Result<(), PeerFailure> {
        if self.is_over {
            return Ok(());
        }
        let sources = self.session.sources().to_vec();
        let mut messages = Vec::new();
        for source in &sources {
            match source.placement {
                Some(Placement::Marker) => {
                    messages.push(json!({ "role": "user", "parts": [{ "type": "compaction" }] }))
                }
                Some(Placement::Summary) => messages.push(json!({
                    "role": "assistant", "finish": "stop", "summary": true,
                    "parts": [{ "type": "text", "text": text_of(source) }],
                })),
                _ => messages.push(written(source, None)),
            }
        }
        self.start(&messages)
    }

    /// Runs a request of the user and everything that follows it.
    fn turn(&mut self, turn: &Turn) -> Result<(), PeerFailure> {
        let mut request = vec![PartBody::Text(turn.request.clone())];
        request.extend(turn.images.iter().cloned().map(PartBody::Media));
        self.append(Role::User, request, None, None)?;
        if let Some(made) = self.compacted()? {
            // The request comes after our compaction, and is not covered by it.
            self.late(made, "request")?;
            return self.restart();
        }
        if self.is_over {
            return Ok(());
        }
        let no_reply = turn.replies.is_empty();
        let files: Vec<Value> = turn.images.iter().map(file).collect();
        let mut event =
            self.ask("scenarioPrompt", json!({ "text": turn.request, "files": files, "noReply": no_reply }))?;
        let mut replies = turn.replies.iter();
        while event["kind"] == "reply" {
            self.compare_views(&event);
            let done = Reply { text: DONE.to_owned(), output_tokens: 3, ..Reply::default() };
            let reply = replies.next().cloned().unwrap_or(done);
            event = if reply.end == End::Stopped { self.stopped(&reply)? } else { self.reply(&reply, event)? };
            if event.is_null() {
                return Ok(());
            }
        }
        if event["kind"] != "end" || !event["problem"].is_null() {
            self.record("loop", json!({}), json!("end"), event, None);
            self.is_over = true;
        }
        Ok(())
    }

    /// A reply that the user stops, with the content that OpenCode keeps of it.
    fn stopped(&mut self, reply: &Reply) -> Result<Value, PeerFailure> {
        let event = self.ask("scenarioStop", json!({ "text": reply.text, "reasoning": reply.reasoning }))?;
        let kept = |kind: &str| -> String {
            let parts = event["parts"].as_array().into_iter().flatten().filter(|part| part["type"] == kind);
            parts.filter_map(|part| part["text"].as_str()).collect()
        };
        let kept = Reply { text: kept("text"), reasoning: kept("reasoning"), ..Reply::default() };
        let bodies = self.bodies(&kept, &Value::Null);
        self.append(Role::Assistant, bodies, Some(FinishReason::Aborted), None)?;
        if let Some(made) = self.compacted()? {
            self.late(made, "stop")?;
            self.restart()?;
            return Ok(Value::Null);
        }
        Ok(if self.is_over { Value::Null } else { event })
    }

    /// A reply on both sides, and the decisions after it; null if they end the turn.
    fn reply(&mut self, reply: &Reply, asked: Value) -> Result<Value, PeerFailure> {
        let input = self.session.view().estimated_tokens + self.scenario.unseen;
        let output = reply.tokens() + reply.output_tokens;
        let total = input + output;
        let calls: Vec<Value> = reply
            .calls
            .iter()
            .map(|(id, output)| json!({ "id": id, "tool": TOOL, "input": self.input(id), "page": output }))
            .collect();
        let answer = json!({
            "text": reply.text, "reasoning": reply.reasoning, "calls": calls, "fails": reply.end == End::Failed,
            "isCut": reply.end == End::Cut,
            "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": total },
        });
        let event = self.ask("scenarioAnswer", answer)?;
        let fails = reply.end == End::Failed;
        self.has_usage |= !fails;
        let usage = Usage { input, output, total: Some(total), ..Usage::default() };
        let reason = match reply {
            Reply { end: End::Failed, .. } => FinishReason::Error,
            Reply { end: End::Cut, .. } => FinishReason::Length,
            Reply { calls, .. } if calls.is_empty() => FinishReason::Stop,
            _ => FinishReason::ToolCalls,
        };
        let bodies = self.bodies(reply, &event["results"]);
        self.append(Role::Assistant, bodies, Some(reason), (!fails).then_some(usage))?;
        let figures = json!({ "total": total, "window": format!("{:?}", self.scenario.window) });
        match (self.compacted()?, event["kind"] == "summary") {
            _ if self.session.is_over() => Ok(Value::Null),
            _ if self.is_over => {
                let is_full = estimate(&asked["messages"]) + self.scenario.unseen + results_estimate(reply)
                    > self.scenario.window.0
                    || total + results_estimate(reply) > self.limit();
                self.record("moment", figures, json!("last resort"), json!(false), is_full.then_some(&CLASSES[4]));
                Ok(Value::Null)
            }
            (Some(made), true) => self.both(made, event),
            (Some(_), false) => {
                let (usable, most) = (self.usable(), total + results_estimate(reply));
                let why = (total < usable && most >= usable && !reply.calls.is_empty()).then_some(&CLASSES[0]);
                self.record("moment", figures, json!(true), json!(false), why);
                self.number.set(self.number.get() + 1);
                self.restart()?;
                Ok(Value::Null)
            }
            (None, true) => {
                let why = self.nothing_harmless()?;
                self.record("moment", figures, json!(false), json!(true), why);
                self.restart()?;
                Ok(Value::Null)
            }
            (None, false) => {
                self.record("moment", figures, json!(false), json!(false), None);
                Ok(event)
            }
        }
    }

    /// Both compact: compares them, and continues if their boundaries agree.
    fn both(&mut self, made: Made, event: Value) -> Result<Value, PeerFailure> {
        self.record("moment", json!({}), json!(true), json!(true), None);
        let words = self.scenario.words(self.number.get());
        self.number.set(self.number.get() + 1);
        let (ours, theirs) = (Self::summary_input(&made), transcript::asked_of(&event));
        let next = self.summarized(&words)?;
        let cut = made.inline.len() - next["kept"].as_u64().unwrap_or_default() as usize;
        let own = made.inline.iter().take_while(|source| source.message.revision < made.plan.tail_start).count();
        let forced = harm::nearest(&made.inline, cut);
        let why = (forced != cut && forced == own).then_some(UNANSWERED);
        let input = json!({ "messages": made.inline.len(), "tail": format!("{:?}", self.scenario.tail) });
        self.record("boundary", input.clone(), json!(own), json!(cut), why);
        if own != cut {
            self.restart()?;
            return Ok(Value::Null);
        }
        let why = (transcript::whole(&theirs["transcript"]) == ours["transcript"]
            && theirs["previous"] == ours["previous"])
            .then_some(&CLASSES[3]);
        self.record("transcripts", input, ours, theirs, why);
        if next["kind"] != "reply" {
            self.record("loop", json!({}), json!("a continuation"), next, None);
            self.is_over = true;
            return Ok(Value::Null);
        }
        // OpenCode's request to continue has its own text.
        let last = next["messages"].as_array().and_then(|messages| messages.last()).map(entry);
        let words = last.and_then(|last| last["texts"].as_array()?.last()?.as_str().map(str::to_owned));
        self.append(Role::User, vec![PartBody::Text(words.unwrap_or_default())], None, None)?;
        if let Some(made) = self.compacted()? {
            self.late(made, "continuation")?;
            self.restart()?;
            return Ok(Value::Null);
        }
        Ok(if self.is_over { Value::Null } else { next })
    }

    /// A compaction of ours after a message at which OpenCode makes no decision.
    fn late(&mut self, made: Made, what: &str) -> Result<(), PeerFailure> {
        let tokens = self.session.simulated().last().map_or(0, |compaction| compaction.context_tokens);
        let estimate = |source: &SourceMessage| {
            let images = source.message.parts.iter().filter(|part| matches!(*part.body, PartBody::Media(_))).count();
            let thoughts = source.message.parts.iter().filter_map(|part| match &*part.body {
                PartBody::Reasoning(text) => Some(units(&json!(text).to_string()) / 4 + FRAME_TOKENS),
                _ => None,
            });
            let words = units(&json!(text_of(source)).to_string()) / 4 + FRAME_TOKENS;
            words + thoughts.sum::<i64>() + IMAGE_TOKENS * images as i64
        };
        // OpenCode uses the newest usage, whatever was written since.
        let since = made.inline.iter().rev().take_while(|source| source.message.finish.usage.is_none());
        let last: i64 = since.map(estimate).sum();
        let usable = self.usable();
        // After a compaction of ours alone, OpenCode has no usage until the next reply. We round each message up.
        let view_tokens = made.view_tokens + made.inline.len() as i64;
        let is_due = if self.has_usage { tokens >= usable && tokens - last < usable } else { view_tokens >= usable };
        let why = is_due.then_some(&CLASSES[0]);
        self.number.set(self.number.get() + 1);
        self.record(
            "moment",
            json!({ "behind": what, "tokens": tokens, "usable": usable }),
            json!(true),
            json!(false),
            why,
        );
        Ok(())
    }

    /// The class if we do not compact although OpenCode does: there is no safe boundary up to theirs, or a compaction
    /// freed nothing and none is tried for a while.
    fn nothing_harmless(&mut self) -> Result<Option<&'static Class>, PeerFailure> {
        let inline = inline(&self.session);
        let kept = self.summarized(&self.scenario.words(self.number.get()))?["kept"].as_u64().unwrap_or_default();
        let cut = inline.len().saturating_sub(kept as usize);
        Ok(match harm::nearest(&inline, cut) {
            0 => Some(UNANSWERED),
            _ => self.is_refused.then_some(&CLASSES[5]),
        })
    }

    /// Answers their request for a summary; returns their next request, with the number of messages that they kept.
    fn summarized(&mut self, words: &str) -> Result<Value, PeerFailure> {
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 });
        self.ask("scenarioAnswer", json!({ "text": words, "usage": usage }))
    }

    /// Our next compaction, if there is one.
    fn compacted(&mut self) -> Result<Option<Made>, PeerFailure> {
        let inline = inline(&self.session);
        let view: Vec<Value> = self.session.view().messages.iter().flat_map(entries).collect();
        let view_tokens = units(&model_messages(&view).to_string()) / 4;
        let before = self.session.simulated().len();
        while self.session.compact_once()? {
            if self.session.is_over() {
                self.is_over = true;
                return Ok(None);
            }
            if let Some(plan) = self.session.take_summary() {
                self.is_refused = false;
                return Ok(Some(Made { plan, inline, view_tokens }));
            }
            self.is_refused = self.frees_nothing(&inline);
            // The last resort was applied.
            if self.session.simulated()[before..].iter().any(|compaction| !compaction.refused) {
                self.is_over = true;
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// True if the messages in front of the last safe boundary are plain texts and, by OpenCode's measure, no larger than
    /// their summary.
    fn frees_nothing(&self, inline: &[SourceMessage]) -> bool {
        let last = harm::nearest(inline, inline.len());
        let mut parts = inline[..last].iter().flat_map(|source| &source.message.parts);
        if !parts.all(|part| matches!(*part.body, PartBody::Text(_))) {
            return false;
        }
        let head: Vec<Value> =
            inline[..last].iter().map(|source| json!({ "role": "user", "texts": [text_of(source)] })).collect();
        let marker = json!({ "role": "user", "texts": [self.scenario.policy.view.marker_text] });
        let summary = json!({ "role": "assistant", "text": self.scenario.words(self.number.get()) });
        units(&model_messages(&head).to_string()) <= units(&model_messages(&[marker, summary]).to_string())
    }

    fn compare_views(&mut self, event: &Value) {
        let style = &self.scenario.policy.view;
        let ours = in_order(self.session.view().messages.iter().flat_map(entries).collect());
        let theirs: Vec<Value> = event["messages"].as_array().into_iter().flatten().map(entry).collect();
        let theirs = in_order(theirs);
        let marker = json!({ "role": "user", "texts": [style.marker_text] });
        // After the active marker and summary, theirs may have those of earlier compactions.
        let mut once = theirs.clone();
        while let Some(at) = (2..once.len().saturating_sub(1)).find(|&at| {
            once[at] == marker && once[at + 1]["text"].as_str().is_some_and(|text| text.starts_with("Summary "))
        }) {
            once.drain(at..at + 2);
        }
        let plain = without_opening(ours.clone());
        let why = match once.len() < theirs.len() {
            true => (once == plain).then_some(ONE_SUMMARY),
            false => (once == plain && plain.len() < ours.len()).then_some(OPENING),
        };
        self.record("view", json!({}), json!(ours), json!(theirs), why);
    }

    /// The transcript for our summarizer, and the previous summary.
    fn summary_input(made: &Made) -> Value {
        let text = made.plan.material.history.as_deref().unwrap_or_default();
        json!({ "transcript": transcript::lines(text), "previous": made.plan.previous })
    }

    fn input(&self, call_id: &str) -> Value {
        json!({ "url": format!("{}/{}/{call_id}", self.pages, self.scenario.index), "format": "text" })
    }

    /// The parts of a reply, with its results as OpenCode has them.
    fn bodies(&self, reply: &Reply, results: &Value) -> Vec<PartBody> {
        let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut bodies: Vec<PartBody> = non_empty(&reply.reasoning).map(PartBody::Reasoning).into_iter().collect();
        bodies.extend(non_empty(&reply.text).map(PartBody::Text));
        for (call_id, _) in &reply.calls {
            let input_json = self.input(call_id).to_string();
            let (call_id, tool) = (call_id.clone(), TOOL.to_owned());
            bodies.push(PartBody::ToolCall(ToolCall { call_id, tool, input_json, ..ToolCall::default() }));
        }
        for ((call_id, _), state) in reply.calls.iter().zip(results.as_array().into_iter().flatten()) {
            let is_done = state["status"] == "completed";
            let output = state[if is_done { "output" } else { "error" }].as_str().unwrap_or_default().to_owned();
            bodies.push(PartBody::ToolResult(ToolResult {
                call_id: call_id.clone(),
                answers: Answers::Nearest,
                status: if is_done { ResultStatus::Completed } else { ResultStatus::Error },
                output,
                attachments: Vec::new(),
                start_time: None,
                end_time: None,
            }));
        }
        bodies
    }

    fn append(
        &mut self,
        role: Role,
        bodies: Vec<PartBody>,
        reason: Option<FinishReason>,
        usage: Option<Usage>,
    ) -> Result<(), PeerFailure> {
        let new = NewMessage {
            finish: Some(Finish { reason, usage, ..Finish::default() }),
            ..NewMessage::sealed(role, bodies.into_iter().map(NewPart::new).collect())
        };
        self.session.append(&new, role == Role::Assistant)
    }

    /// OpenCode's limit, computed without our functions.
    fn usable(&self) -> i64 {
        let (context, input, output) = self.scenario.window;
        input.map_or(context - output, |input| input - output.min(20_000))
    }

    fn limit(&self) -> i64 {
        self.window.input_max().unwrap_or(0)
    }
}

/// Approximate tokens of a call.
const CALL_TOKENS: i64 = 40;

/// Maximum number of tokens of the JSON around a message.
const FRAME_TOKENS: i64 = 30;

fn units(text: &str) -> i64 {
    text.encode_utf16().count() as i64
}

/// Maximum number of tokens of a reply's results: every character escaped, and the JSON around each result.
fn results_estimate(reply: &Reply) -> i64 {
    let estimate = |output: &Option<String>| {
        let text = output.as_deref().map_or(200, |text| units(&json!(text).to_string()));
        (text + 200) / 4
    };
    reply.calls.iter().map(|(_, output)| estimate(output)).sum::<i64>() + FRAME_TOKENS
}

/// Tokens of a request by OpenCode's estimate: a quarter of the characters of its JSON.
fn estimate(messages: &Value) -> i64 {
    units(&messages.to_string()) / 4
}

/// A view as the messages whose JSON OpenCode estimates; all images have the same length.
fn model_messages(entries: &[Value]) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    let texts = |texts: &Value| -> Vec<Value> {
        texts.as_array().into_iter().flatten().map(|text| json!({ "type": "text", "text": text })).collect()
    };
    for entry in entries {
        let content = match entry["role"].as_str() {
            Some("assistant") => {
                let block = |kind: &str, text: &Value| (text != "").then(|| json!({ "type": kind, "text": text }));
                let mut content: Vec<Value> = block("reasoning", &entry["reasoning"]).into_iter().collect();
                content.extend(block("text", &entry["text"]));
                content.extend(entry["calls"].as_array().into_iter().flatten().map(|call| {
                    json!({ "type": "tool-call", "toolCallId": call["id"], "toolName": call["tool"], "input": call["input"] })
                }));
                content
            }
            Some("tool") => vec![json!({
                "type": "tool-result", "toolCallId": entry["id"], "toolName": TOOL,
                "output": { "type": "text", "value": entry["text"] },
            })],
            _ => {
                let mut content = texts(&entry["texts"]);
                let images = entry["media"].as_u64().unwrap_or_default();
                // The length of a JSON string is its characters and two quotes.
                content.extend((0..images).map(|_| json!("x".repeat(IMAGE_UNITS - 2))));
                content
            }
        };
        match messages.last_mut().filter(|last| last["role"] == "tool" && entry["role"] == "tool") {
            Some(last) => last["content"].as_array_mut().into_iter().for_each(|list| list.extend(content.clone())),
            None => messages.push(json!({ "role": entry["role"], "content": content })),
        }
    }
    json!(messages)
}

fn inline(session: &Session<'_>) -> Vec<SourceMessage> {
    session.sources().iter().filter(|source| source.placement.is_none()).cloned().collect()
}

fn text_of(source: &SourceMessage) -> String {
    let texts = source.message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

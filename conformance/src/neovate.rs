//! Neovate Code, of which no package is published: lives under both presets against its rules as `peers/neovate.mjs`
//! writes them out.
//!
//! A conversation grows message by message. Neovate decides before a request, from the usage of the last reply; so its
//! moment is the reply. Its window, its limits and what it protects are small shares of the real ones, so that a life has
//! several compressions.

use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use crate::session::{SUBSTANCE, Session, as_appended};
use longhand::model::compaction::CompactionKind;
use longhand::model::message::Role;
use longhand::model::part::PartBody;
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::{SourceMessage, View};
use longhand::policy::summary::SummaryInput;
use longhand::policy::{Policy, tokens};
use longhand::presets;
use longhand::simulation::SimulatedCompaction;
use rand::Rng;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

/// The lives under one preset.
pub(crate) struct Lives {
    name: &'static str,
    preset: &'static str,
    /// True for the rules of the design, false for those of the code.
    design: bool,
}

pub(crate) const CODE: Lives = Lives { name: "neovate", preset: "neovate@2026", design: false };
pub(crate) const DESIGN: Lives = Lives { name: "neovate-fixed", preset: "neovate@2026-fixed", design: true };

const PROFILE: Profile =
    Profile { tools: &["bash", "read", "write", "grep", "skill", "task"], ..Profile::SMALL_WINDOWS };

const MOMENT: Class = Class {
    name: "every message is a moment",
    reason: Reason::Named("The threshold is looked at after every message"),
    explanation: "The last usage and the tokens of what was written since reach the threshold, but Neovate goes by the \
                  usage alone; we do not wait.",
    test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
};

const UNANSWERED: Class = Class {
    name: "nothing unanswered is summarized",
    reason: Reason::Named("The last request, results that no reply has read"),
    explanation: "Neovate's history becomes one message; we keep the last request that no reply follows, unread results \
                  and running calls.",
    test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
};

const ESTIMATED: Class = Class {
    name: "what clearing leaves is estimated",
    reason: Reason::Named("What clearing leaves is estimated with the last reply"),
    explanation: "The last input without the cleared outputs is below the threshold, and with what the last reply wrote, \
                  which the next input has, it is not.",
    test: ("crates/presets/tests/it/seeds/neovate.rs", "a_summary_follows_only_where_clearing_was_not_enough"),
};

const GAIN: Class = Class {
    name: "a summary frees something",
    reason: Reason::Named("A compaction that would free less than"),
    explanation: "What is answered has no more tokens than the summary that would replace it; Neovate summarizes it with \
                  all the rest.",
    test: ("tests/it/guards.rs", "compactions_that_free_tokens_open_no_breaker"),
};

const WAITING: Class = Class {
    name: "a level that freed nothing waits",
    reason: Reason::P12,
    explanation: "A compaction before this message was refused because it freed nothing, and less than a quarter of the \
                  threshold was written since; Neovate has no such guard.",
    test: ("tests/it/usage.rs", "a_small_threshold_in_a_large_window_is_applied_again_and_again"),
};

const FITS: Class = Class {
    name: "a view fits",
    reason: Reason::P15,
    explanation: "What is unanswered exceeds the window, and our last resort truncates it; the life ends there.",
    test: ("tests/it/window_fit.rs", "the_last_resort_fits_a_view_that_the_policy_cannot"),
};

static CLASSES: [Class; 6] = [MOMENT, UNANSWERED, ESTIMATED, GAIN, WAITING, FITS];

impl System for Lives {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static str {
        "neovate"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.scenario_indexes() {
            let life = Life::draw(self, run.seed, index);
            Course { peer: &mut *peer, report: &mut *report, life: &life }.run(run.daemon)?;
        }
        Ok(())
    }
}

/// The data of a life.
struct Life {
    index: u64,
    messages: Vec<SourceMessage>,
    window: ModelWindow,
    /// Tokens of every request besides the messages.
    unseen: i64,
    /// The share of each reply's input that came from a cache.
    cached: Vec<f64>,
    policy: Policy,
    /// The same limits for the model.
    config: Value,
}

impl Life {
    fn draw(lives: &Lives, seed: u64, index: u64) -> Self {
        let mut conversation = Conversation::generate(seed, index, &PROFILE);
        let mut dice = conversation.dice("life");
        for source in &mut conversation.messages {
            ask_something(source);
        }
        let context = dice.random_range(3_000..16_000);
        let (protect, minimum) = (dice.random_range(0..context / 6), dice.random_range(0..context / 12));
        let floor = if lives.design { 0 } else { dice.random_range(0..context) };
        let ratio = f64::from(dice.random_range(500..900)) / 1_000.0;
        let (lines, bytes) = (dice.random_range(20..200), dice.random_range(500..5_000));
        let patch = json!({
            "auto": {
                "threshold": { "limit": { "ratio": ratio }, "minimum_tokens": floor },
                "steps": { "0": { "prune": { "keep": { "tokens": protect }, "minimum_tokens": minimum + 1 } } },
            },
            "truncate": { "max_lines": lines, "max_bytes": bytes },
            "guards": { "minimum_gain_tokens": 1 },
        });
        let policy = presets::policy(lives.preset).with_overrides(&patch.to_string());
        let policy = policy.unwrap_or_else(|error| panic!("{patch}: {error}"));
        let marker = policy.truncate.as_ref().map_or("", |rule| rule.marker.as_str());
        let config = json!({
            "design": lives.design, "ratio": ratio, "floor": floor, "protect": protect, "minimum": minimum, "turns": 2,
            "protectedTools": ["skill", "task"], "lines": lines, "bytes": bytes, "marker": marker,
            "placeholder": "[Output pruned at 2026-01-31T12:00:00.000Z]",
        });
        let cached = (0..conversation.messages.len()).map(|_| dice.random_range(0.0..1.0));
        let cached = cached.collect();
        let window = ModelWindow { context, ..ModelWindow::default() };
        let unseen = dice.random_range(0..context / 10);
        Self { index, messages: conversation.messages, window, unseen, cached, policy, config }
    }

    /// True under the design, which goes by the input; the code adds the output.
    fn is_prompt_counted(&self) -> bool {
        self.config["design"] == true
    }

    /// The usage of a reply to a view of this size.
    fn usage(&self, position: usize, view_tokens: i64) -> Usage {
        let input = view_tokens + self.unseen;
        let cache_read = (input as f64 * self.cached[position]) as i64;
        let output = tokens::estimate_source(&self.policy, &self.messages[position]);
        Usage { input: input - cache_read, cache_read, output, ..Usage::default() }
    }
}

/// Gives a request without words some, because nobody sends one without.
fn ask_something(source: &mut SourceMessage) {
    if source.message.role != Role::User {
        return;
    }
    for part in &mut source.message.parts {
        if let PartBody::Text(text) = &*part.body
            && text.trim().is_empty()
        {
            part.body = PartBody::Text("go on".to_owned()).into();
        }
    }
}

/// True if all but an earlier summary is unanswered.
fn has_nothing_to_summarize(sources: &[SourceMessage]) -> bool {
    let summaries = sources.iter().take_while(|source| source.message.kind.is_derived()).count();
    harm::nearest(sources, sources.len()) <= summaries
}

/// A life in progress.
struct Course<'a> {
    peer: &'a mut Peer,
    report: &'a mut Report,
    life: &'a Life,
}

impl Course<'_> {
    fn run(&mut self, daemon: Option<&Daemon>) -> Result<(), PeerFailure> {
        let life = self.life;
        let number = Cell::new(0);
        let writer = |_: &SummaryInput| {
            number.set(number.get() + 1);
            summary(life.index, number.get())
        };
        let mut session = Session::new(daemon, &life.policy, &life.window, &writer)?;
        for position in 0..life.messages.len() {
            let message = &life.messages[position].message;
            let is_reply = message.role == Role::Assistant;
            let usage = is_reply.then(|| life.usage(position, session.view().estimated_tokens));
            if usage.is_some_and(|usage| usage.input + usage.cache_read > life.window.context) {
                // A provider would refuse the request; these lives have no overflows.
                return Ok(());
            }
            session.append(&as_appended(&life.messages[position], usage), is_reply)?;
            self.compare_outputs(position, session.view())?;
            let before = session.sources().to_vec();
            let theirs = match &usage {
                Some(usage) => self.compress(&before, usage)?,
                None => json!({ "compresses": false }),
            };
            let context_tokens = session.context_tokens();
            let compacted = session.compact_once()?;
            if session.is_over() {
                return Ok(());
            }
            let input = json!({
                "place": position, "role": format!("{:?}", message.role), "usage": usage.map(|usage| usage.input + usage.cache_read),
                "output": usage.map(|usage| usage.output), "window": life.window.context, "config": life.config,
                "context": context_tokens, "theirs": theirs,
            });
            if compacted && session.simulated().last().is_some_and(|made| made.level.is_none()) {
                let why = (context_tokens > life.window.context).then_some(&CLASSES[5]);
                self.record("moment", &input, json!(true), json!(false), why);
                return Ok(());
            }
            let due = self.is_due(context_tokens);
            let why = match (compacted, &theirs["compresses"]) {
                (true, Value::Bool(false)) => (!is_reply && due).then_some(&CLASSES[0]),
                (false, Value::Bool(true)) if has_nothing_to_summarize(&before) => Some(&CLASSES[1]),
                (false, Value::Bool(true)) if self.frees_nothing(&before) => Some(&CLASSES[3]),
                (false, Value::Bool(true)) => self.waits(position, session.simulated()).then_some(&CLASSES[4]),
                _ => None,
            };
            self.record("moment", &input, json!(compacted), theirs["compresses"].clone(), why);
            if compacted {
                let is_theirs = theirs["compresses"] == true;
                self.compare(&input, &before, &mut session, is_theirs.then_some(&theirs))?;
                let mut tokens = session.context_tokens();
                while session.compact_once()? {
                    if session.is_over() {
                        return Ok(());
                    }
                    let input = json!({ "place": position, "tokens": tokens });
                    let mut made = session.simulated().iter().rev();
                    let (newest, earlier) = (made.next(), made.next());
                    if newest.is_some_and(|made| made.level.is_none()) {
                        let why = (tokens > life.window.context).then_some(&CLASSES[5]);
                        self.record("again", &input, json!(true), json!(false), why);
                        return Ok(());
                    }
                    let has_cleared = earlier.is_some_and(|made| made.cleared > 0);
                    let why = (has_cleared && self.is_due(tokens)).then_some(&CLASSES[2]);
                    self.record("again", &input, json!(true), json!(false), why);
                    session.take_summary();
                    tokens = session.context_tokens();
                }
            }
        }
        Ok(())
    }

    /// True if all that is answered has no more tokens than a summary.
    fn frees_nothing(&self, before: &[SourceMessage]) -> bool {
        let harmless = harm::nearest(before, before.len());
        let size = |text: &str| tokens::estimate_text(&self.life.policy.counting, text);
        tokens::estimate_sources(&self.life.policy, &before[..harmless]) <= size(&summary(self.life.index, 1))
    }

    /// True if the newest compaction was refused, and little was written since.
    fn waits(&self, position: usize, made: &[SimulatedCompaction]) -> bool {
        let Some(refused) = made.last().filter(|made| made.refused) else { return false };
        let since = &self.life.messages[refused.message.min(position)..=position];
        let share = self.life.config["ratio"].as_f64().unwrap_or_default();
        let threshold = self.life.window.context as f64 * share;
        (tokens::estimate_sources(&self.life.policy, since) as f64) < threshold / 4.0
    }

    /// True if this many tokens are above the threshold, by arithmetic of its own.
    fn is_due(&self, tokens: i64) -> bool {
        let share = |field: &str| self.life.config[field].as_f64().unwrap_or_default();
        tokens as f64 > self.life.window.context as f64 * share("ratio") && tokens as f64 >= share("floor")
    }

    fn record(&mut self, what: &'static str, input: &Value, ours: Value, theirs: Value, why: Option<&'static Class>) {
        self.report.compare(what, self.life.index, input, &ours, &Ok(theirs), |_, _| why);
    }

    fn compress(&mut self, sources: &[SourceMessage], usage: &Usage) -> Result<Value, PeerFailure> {
        let question = json!({
            "messages": messages(sources), "context": self.life.window.context, "config": self.life.config,
            "usage": { "input": usage.input, "cacheRead": usage.cache_read, "output": usage.output },
        });
        self.peer.ask("compress", question, |error| json!({ "error": error }))
    }

    /// Compares the outputs of the newest message in the view with what the plugin leaves of them.
    fn compare_outputs(&mut self, position: usize, view: &View) -> Result<(), PeerFailure> {
        let written = outputs(self.life.messages[position].message.parts.iter().map(|part| &*part.body));
        if written.is_empty() {
            return Ok(());
        }
        let shown = outputs(view.messages.iter().flat_map(|message| &message.parts).map(|part| &*part.body));
        let of_call = |(id, _): &(String, String)| shown.iter().rfind(|(other, _)| other == id).map(|(_, text)| text);
        let ours: Vec<_> = written.iter().map(of_call).collect();
        let texts: Vec<&str> = written.iter().map(|(_, text)| text.as_str()).collect();
        let question = json!({ "texts": texts, "config": self.life.config });
        let theirs = self.peer.ask("shown", question.clone(), |error| json!({ "error": error }))?;
        let counting = &self.life.policy.counting;
        let ours: Vec<_> = ours
            .into_iter()
            .map(|text| json!([text, text.map(|text| tokens::estimate_text(counting, text))]))
            .collect();
        self.record("shown", &question, json!(ours), theirs, None);
        Ok(())
    }

    /// Compares a compaction of ours with theirs of the same history.
    fn compare(
        &mut self,
        input: &Value,
        before: &[SourceMessage],
        session: &mut Session<'_>,
        theirs: Option<&Value>,
    ) -> Result<(), PeerFailure> {
        let Some(made) = session.simulated().last().cloned() else { return Ok(()) };
        let summarizes = made.kind == CompactionKind::Summary;
        let plan = session.take_summary();
        if let Some(theirs) = theirs {
            let cleared = theirs["cleared"].as_array().map_or(0, Vec::len);
            self.record("cleared", input, json!(made.cleared), json!(cleared), None);
            if !summarizes {
                let ours = pruned(session.sources()).difference(&pruned(before)).cloned().collect::<BTreeSet<_>>();
                let theirs = theirs["cleared"].as_array().into_iter().flatten().filter_map(Value::as_str);
                self.record("which", input, json!(ours), json!(theirs.collect::<BTreeSet<_>>()), None);
            }
            let left = theirs["left"].as_i64().unwrap_or_default() + input["output"].as_i64().unwrap_or_default();
            let why = (self.life.is_prompt_counted() && summarizes && self.is_due(left)).then_some(&CLASSES[2]);
            self.record("summarizes", input, json!(summarizes), theirs["summarizes"].clone(), why);
        }
        if let Some(plan) = plan {
            let kept = before.iter().filter(|source| source.message.revision >= plan.tail_start).count();
            let boundary = before.len() - kept;
            let harmless = harm::nearest(before, before.len());
            let why = (harmless != before.len() && boundary == harmless).then_some(&CLASSES[1]);
            self.record("boundary", input, json!(boundary), json!(before.len()), why);
        }
        Ok(())
    }
}

/// The text of a summary.
fn summary(life: u64, number: u64) -> String {
    format!("<context_summary>life {life}, summary {number}. {SUBSTANCE}</context_summary>")
}

/// The ids of the calls and the texts of their outputs.
fn outputs<'a>(bodies: impl Iterator<Item = &'a PartBody>) -> Vec<(String, String)> {
    let outputs = bodies.filter_map(|body| match body {
        PartBody::ToolResult(result) => Some((result.call_id.clone(), result.output.clone())),
        _ => None,
    });
    outputs.collect()
}

/// The ids of the calls whose outputs are pruned.
fn pruned(sources: &[SourceMessage]) -> BTreeSet<String> {
    let parts = sources.iter().flat_map(|source| source.message.parts.iter().map(move |part| (source, part)));
    let ids = parts.filter_map(|(source, part)| match &*part.body {
        PartBody::ToolResult(result) => {
            source.pruned.iter().any(|pruned| pruned.part == part.id).then(|| result.call_id.clone())
        }
        _ => None,
    });
    ids.collect()
}

/// Messages as the model has them.
fn messages(sources: &[SourceMessage]) -> Vec<Value> {
    let mut tools: HashMap<&str, &str> = HashMap::new();
    let mut messages = Vec::with_capacity(sources.len());
    for source in sources {
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &*part.body {
                tools.insert(&call.call_id, &call.tool);
            }
        }
        let parts = source.message.parts.iter().filter_map(|part| match &*part.body {
            PartBody::ToolResult(result) => Some(json!({
                "type": "result", "id": result.call_id, "tool": tools.get(result.call_id.as_str()),
                "text": result.output, "pruned": source.pruned.iter().any(|pruned| pruned.part == part.id),
            })),
            _ => None,
        });
        let role = match source.message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System => "system",
        };
        messages.push(json!({ "role": role, "parts": parts.collect::<Vec<_>>() }));
    }
    messages
}

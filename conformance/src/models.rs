//! Lives against models: agents of which no package can be asked, because none is published or a preset follows a
//! design. Their rules are written out in `peers/`, each as a program of its own.
//!
//! A conversation grows message by message. After each message, and after each compaction, the model gets the history as
//! the session has it then, and says what its agent does now: what it clears, which messages the next request has, and
//! what a summarizer reads. The window and all limits are small shares of the real ones, so that a life has several
//! compactions.

mod anthropic;
mod claude_code;
mod codex;
mod goose;
mod history;
mod joyagent;
mod opencode;
mod suna;

use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use crate::session::{SUBSTANCE, Session, as_appended};
use history::{Numbers, effect, frame, messages, outputs, pruned};
use longhand::model::compaction::{CompactionKind, Level};
use longhand::model::message::{FinishReason, MessageKind, Role};
use longhand::model::part::PartBody;
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::SourceMessage;
use longhand::policy::summary::SummaryInput;
use longhand::policy::{Policy, tokens};
use longhand::presets;
use longhand::simulation::SimulatedCompaction;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Maximum number of decisions after one message that are compared.
const DECISIONS_MAX: usize = 6;

/// The name of the class of decisions between two replies.
const MOMENT: &str = "every message is a moment";

/// The name of the class of what a threshold does not count once it is cleared.
const NO_LONGER_COUNTS: &str = "what is cleared no longer counts";

/// The name of the class of decisions during a cooldown.
const NO_COOLDOWN: &str = "an exceeded window does not wait";

/// The name of the class of summaries of ours under an agent that makes none; the life ends there.
const MAKES_NONE: &str = "what exceeds the window is summarized";

/// What follows a compaction of ours that was refused.
const REFUSED: &str = "refused";

/// A model in JavaScript cuts texts where its agent does.
const WHOLE_CHARACTERS: Class = Class {
    name: "a character stays whole",
    reason: Reason::InvalidText,
    explanation: "The agent cuts between the halves of a surrogate pair; we leave the whole character out.",
    test: ("crates/core/src/policy/truncate.rs", "a_character_is_never_split"),
};

/// A level that is due again at once.
const WAITS: Class = Class {
    name: "a filled level waits",
    reason: Reason::P12,
    explanation: "A compaction before this message freed nothing, or left the threshold reached, and less than a quarter of \
                  it was written since; the agent tries again.",
    test: ("tests/it/usage.rs", "a_small_threshold_in_a_large_window_is_applied_again_and_again"),
};

/// A summary that is not worth it.
const FREES: Class = Class {
    name: "a summary frees something",
    reason: Reason::P12,
    explanation: "What would be summarized has no more tokens than the summary in its place; the agent summarizes it.",
    test: ("tests/it/guards.rs", "compactions_that_free_tokens_open_no_breaker"),
};

/// The end of a life whose view the agent would not make fit.
const FITS: Class = Class {
    name: "a view fits",
    reason: Reason::P15,
    explanation: "What is unanswered exceeds the window, and our last resort truncates it; the life ends there.",
    test: ("tests/it/window_fit.rs", "the_last_resort_fits_a_view_that_the_policy_cannot"),
};

/// An agent with a model.
pub(crate) struct Agent {
    /// Its name, that of its program in `peers/`, and that of its preset.
    name: &'static str,
    preset: &'static str,
    /// The system whose packages the model uses.
    packages: &'static str,
    profile: Profile,
    classes: &'static [Class],
    /// Draws the limits of a life.
    draw: fn(&mut StdRng) -> Limits,
    /// The class of a difference.
    explain: fn(&Difference<'_>) -> Option<&'static Class>,
}

impl Agent {
    /// True for a summary of ours under an agent that makes none: nothing says what it would do with one.
    fn ends_at(&self, difference: &Difference<'_>) -> bool {
        let is_summary = difference.made.last().is_some_and(|made| made.kind == CompactionKind::Summary);
        difference.ours.is_string() && is_summary && self.classes.iter().any(|class| class.name == MAKES_NONE)
    }
}

/// The agents.
pub(crate) const OPENCODE: Agent = opencode::AGENT;
pub(crate) const CLAUDE_CODE: Agent = claude_code::AGENT;
pub(crate) const CODEX: Agent = codex::AGENT;
pub(crate) const SUNA: Agent = suna::AGENT;
pub(crate) const JOYAGENT: Agent = joyagent::AGENT;
pub(crate) const GOOSE: Agent = goose::AGENT;
pub(crate) const ANTHROPIC: Agent = anthropic::AGENT;

/// The limits of a life.
struct Limits {
    /// Over the preset.
    patch: Value,
    /// The same for the model.
    config: Value,
    window: ModelWindow,
    /// Tokens of every request besides the messages.
    unseen: i64,
}

/// A difference, with everything that an explanation may need.
struct Difference<'a> {
    /// What differs.
    what: &'static str,
    life: &'a Life,
    /// Index of the newest message.
    position: usize,
    /// The messages of the view before the decision.
    before: &'a [SourceMessage],
    /// What the model was asked, and its whole answer.
    question: &'a Value,
    answer: &'a Value,
    ours: &'a Value,
    theirs: &'a Value,
    /// Our context usage before the decision.
    context_tokens: i64,
    made: &'a [SimulatedCompaction],
}

impl Difference<'_> {
    /// The messages before the decision without a summary and its marker.
    fn history(&self) -> Vec<SourceMessage> {
        self.before.iter().filter(|source| !is_front(source)).cloned().collect()
    }

    /// The numbers or kinds of these messages.
    fn ids(&self) -> Vec<Value> {
        let all = self.question["messages"].as_array().into_iter().flatten().zip(self.before);
        all.filter(|(_, source)| !is_front(source)).map(|(message, _)| message["id"].clone()).collect()
    }

    /// The boundary next to theirs that does no harm, as an index of the history; theirs is the number of messages that
    /// do not stay.
    fn boundary(&self, theirs: usize) -> usize {
        harm::nearest(&self.history(), theirs)
    }

    /// True if what could be summarized has no more tokens than its summary.
    fn frees_nothing(&self, boundary: usize) -> bool {
        self.tokens(&self.history()[..boundary]) <= self.summary_tokens()
    }

    /// The tokens of a summary.
    fn summary_tokens(&self) -> i64 {
        tokens::estimate_text(&self.life.policy.counting, &summary(self.life.index, 1))
    }

    /// The class of a compaction that was refused: nothing answered is larger than its summary.
    fn refusal(&self, classes: &'static [Class]) -> Option<&'static Class> {
        let frees_nothing = self.frees_nothing(self.boundary(self.ids().len()));
        classes.iter().find(|class| class.name == "a summary frees something").filter(|_| frees_nothing)
    }

    /// True for a list of ours with the end of the history from a boundary that does no harm, because theirs leaves
    /// nothing to summarize or nothing that is larger than the summary.
    fn is_narrowed(&self, boundary: usize, ours: &[Value]) -> bool {
        let ids = self.ids();
        let cut = if self.what == "read" { ours.len() } else { ids.len().saturating_sub(ours.len()) };
        let is_end = if self.what == "read" { ids.starts_with(ours) } else { ids.ends_with(ours) };
        is_end && self.frees_nothing(boundary) && cut > boundary && harm::nearest(&self.history(), cut) == cut
    }

    /// The ids of the results and the names of the thoughts that no reply follows.
    fn unread(&self) -> Vec<Value> {
        let has_read = |source: &SourceMessage| {
            let message = &source.message;
            message.role == Role::Assistant && message.finish.reason != Some(FinishReason::Error)
        };
        let last = self.before.iter().rposition(has_read);
        let unread = &self.before[last.map_or(0, |last| last + 1)..];
        let parts = unread.iter().flat_map(|source| &source.message.parts);
        let ids = parts.filter_map(|part| match &*part.body {
            PartBody::ToolResult(result) => Some(json!(result.call_id)),
            PartBody::Reasoning(_) => Some(json!(history::thought(part.id))),
            _ => None,
        });
        ids.collect()
    }

    /// Tokens of some messages, by the policy's estimate.
    fn tokens(&self, sources: &[SourceMessage]) -> i64 {
        tokens::estimate_sources(&self.life.policy, sources)
    }

    fn context(&self) -> i64 {
        self.life.limits.window.context
    }

    /// True if the view exceeds its window.
    fn exceeds(&self) -> bool {
        self.context_tokens > self.context()
    }

    /// True if our last resort made this decision, because the view exceeds its window.
    fn is_last_resort(&self) -> bool {
        let is_without_level = self.made.last().is_some_and(|made| made.level.is_none()) && self.ours.is_string();
        is_without_level && (self.ours == "last resort" || self.theirs != "clear" && self.exceeds())
    }

    /// True if the newest compaction before this one was refused, or one that frees so much would leave the threshold
    /// reached, and less than a quarter of it was written since.
    fn waits(&self, threshold: i64, frees: i64) -> bool {
        let is_now = self.ours.is_string() && self.what == "moment";
        let earlier = &self.made[..self.made.len() - usize::from(is_now)];
        let leaves = |made: &&SimulatedCompaction| {
            let left = made.context_tokens - made.before_tokens + made.after_tokens;
            made.refused || left >= threshold || self.context_tokens - frees >= threshold
        };
        let Some(last) = earlier.last().filter(leaves) else { return false };
        let since = &self.life.messages[last.message.min(self.position)..=self.position];
        self.tokens(since) < threshold / 4
    }

    /// Tokens of the messages before a boundary, without an earlier summary.
    fn summarized(&self, boundary: usize) -> i64 {
        self.tokens(&self.history()[..boundary])
    }
}

/// True for a summary and its marker.
fn is_front(source: &SourceMessage) -> bool {
    matches!(source.message.kind, MessageKind::Summary | MessageKind::Marker)
}

impl System for Agent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static str {
        self.packages
    }

    fn program(&self) -> &'static str {
        self.name
    }

    fn classes(&self) -> &'static [Class] {
        self.classes
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.scenario_indexes() {
            let life = Life::draw(self, run, index);
            Course { agent: self, peer: &mut *peer, report: &mut *report, life: &life }.run(run.daemon)?;
        }
        Ok(())
    }
}

/// The data of a life.
struct Life {
    index: u64,
    messages: Vec<SourceMessage>,
    limits: Limits,
    /// The share of each reply's input that came from a cache.
    cached: Vec<f64>,
    policy: Policy,
}

impl Life {
    fn draw(agent: &Agent, run: Run<'_>, index: u64) -> Self {
        let mut conversation = Conversation::generate(run.seed, index, &agent.profile);
        if run.daemon.is_some() {
            conversation = conversation.without_pauses();
        }
        let mut dice = conversation.dice("life");
        for source in &mut conversation.messages {
            history::say_something(source);
            // The results of a reply follow its calls, also within one message.
            source.message.parts.sort_by_key(|part| matches!(&*part.body, PartBody::ToolResult(_)));
        }
        let mut limits = (agent.draw)(&mut dice);
        if run.daemon.is_some() && limits.config["cooldown"].is_number() {
            // A daemon goes by its own clock.
            limits.config["cooldown"] = json!(0);
            limits.patch["guards"]["cooldown_seconds"] = json!(0);
        }
        let policy = presets::policy(agent.preset).with_overrides(&limits.patch.to_string());
        let policy = policy.unwrap_or_else(|error| panic!("{}: {error}", limits.patch));
        let cached = (0..conversation.messages.len()).map(|_| dice.random_range(0.0..1.0)).collect();
        Self { index, messages: conversation.messages, limits, cached, policy }
    }

    /// The usage of a reply to a view of this size.
    fn usage(&self, position: usize, view_tokens: i64) -> Usage {
        let input = view_tokens + self.limits.unseen;
        let cache_read = (input as f64 * self.cached[position]) as i64;
        // Results in the reply itself are no output of the model.
        let source = &self.messages[position];
        let parts = source.message.parts.iter().enumerate();
        let written: Vec<usize> =
            parts.filter(|(_, part)| !matches!(&*part.body, PartBody::ToolResult(_))).map(|(index, _)| index).collect();
        let output = tokens::estimate_parts(&self.policy, source, &written);
        Usage { input: input - cache_read, cache_read, output, ..Usage::default() }
    }

    /// The tokens of some messages that were cleared.
    fn cleared(&self, sources: &[SourceMessage]) -> i64 {
        let is_pruned = |source: &&SourceMessage| !source.pruned.is_empty();
        let mut pruned: Vec<_> = sources.iter().filter(is_pruned).cloned().collect();
        let left = tokens::estimate_sources(&self.policy, &pruned);
        for source in &mut pruned {
            source.pruned.clear();
            source.counts = None;
        }
        tokens::estimate_sources(&self.policy, &pruned) - left
    }

    fn millis(&self, position: usize) -> i64 {
        self.messages[position].message.create_time.as_millis()
    }
}

/// The text of a summary.
fn summary(life: u64, number: u64) -> String {
    format!("life {life}, summary {number}. {SUBSTANCE}")
}

/// A life in progress.
struct Course<'a> {
    agent: &'a Agent,
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
        let mut session = Session::new(daemon, &life.policy, &life.limits.window, &writer)?;
        let (mut numbers, mut usage) = (Numbers::new(), None);
        let (mut times, mut places) = (BTreeMap::new(), BTreeMap::new());
        for position in 0..life.messages.len() {
            let is_reply = life.messages[position].message.role == Role::Assistant;
            let reported = is_reply.then(|| life.usage(position, session.view().estimated_tokens));
            if reported.is_some_and(|it| it.input + it.cache_read > life.limits.window.context) {
                // A provider would refuse the request; these lives have no overflows.
                return Ok(());
            }
            usage = reported.or(usage);
            session.append(&as_appended(&life.messages[position], reported), is_reply)?;
            numbers.extend(session.sources().last().map(|source| (source.message.revision, position)));
            self.compare_outputs(position, &session)?;
            for round in 0..DECISIONS_MAX {
                let question = json!({
                    "messages": messages(session.sources(), &numbers),
                    "usage": usage.map(|it| json!({
                        "input": it.input, "cacheRead": it.cache_read, "output": it.output,
                    })),
                    "replied": is_reply && round == 0,
                    "place": position, "round": round,
                    "size": session.view().estimated_tokens + life.limits.unseen,
                    "whole": session.view().estimated_tokens + life.cleared(session.sources()) + life.limits.unseen,
                    "now": life.millis(position), "times": times, "places": places,
                    "context": life.limits.window.context, "config": life.limits.config,
                });
                match self.decide(&question, position, &mut session, &numbers)? {
                    Next::End => return Ok(()),
                    Next::Message => break,
                    Next::Decision(level) => {
                        if level != "clear" {
                            usage = None;
                        }
                        // One that was refused is none, and begins no cooldown.
                        if level != REFUSED {
                            times.insert(level, life.millis(position));
                            places.insert(level, position);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares one decision and what follows from it.
    fn decide(
        &mut self,
        question: &Value,
        position: usize,
        session: &mut Session<'_>,
        numbers: &Numbers,
    ) -> Result<Next, PeerFailure> {
        let asked = self.ask(question)?;
        let before = session.sources().to_vec();
        let context_tokens = session.context_tokens();
        let compacted = session.compact_once()?;
        if session.is_over() {
            return Ok(Next::End);
        }
        let ours = match session.simulated().last().filter(|_| compacted) {
            None => Value::Null,
            Some(made) => json!(name(made)),
        };
        let after = session.sources().to_vec();
        let made = session.simulated().to_vec();
        let plan = session.take_summary();
        let difference = Difference {
            what: "moment",
            life: self.life,
            position,
            before: &before,
            question,
            answer: &asked,
            ours: &ours,
            theirs: &asked["acts"],
            context_tokens,
            made: &made,
        };
        let (moment, later) = self.later(&difference)?.unzip();
        self.record(&difference, moment);
        if difference.is_last_resort() || self.agent.ends_at(&difference) {
            return Ok(Next::End);
        }
        let answer = later.unwrap_or_else(|| asked.clone());
        let difference = Difference { answer: &answer, ..difference };
        if !compacted {
            return Ok(Next::Message);
        }
        if made.last().is_some_and(|made| made.refused) {
            let (ours, theirs) = (json!(true), json!(false));
            self.record(&Difference { what: "refusal", ours: &ours, theirs: &theirs, ..difference }, None);
            return Ok(Next::Decision(REFUSED));
        }
        if ours == answer["acts"] {
            let cleared: Vec<_> = pruned(&after).difference(&pruned(&before)).cloned().collect();
            let mut values = vec![
                ("cleared", json!(cleared), answer["cleared"].clone()),
                ("view", json!(effect(&after, numbers)), answer["view"].clone()),
            ];
            if let Some(plan) = plan {
                let read: Vec<_> = plan.head.iter().chain(&plan.split_turn).collect();
                let read: Vec<_> = read.iter().map(|source| numbers.get(&source.message.revision)).collect();
                values.push(("read", json!(read), answer["read"].clone()));
                values.push(("previous", json!(plan.previous.is_some()), answer["previous"].clone()));
            }
            for (what, ours, theirs) in &values {
                self.record(&Difference { what, ours, theirs, ..difference }, None);
            }
            self.compare_frame(position, session)?;
        }
        self.compare_cleared(&before, session)?;
        Ok(Next::Decision(made.last().map_or("", name)))
    }

    fn ask(&mut self, question: &Value) -> Result<Value, PeerFailure> {
        self.peer.ask("decide", question.clone(), |error| json!({ "error": error }))
    }

    /// The class and the answer if the model decides as we do once it is asked under our conditions: at a message that is
    /// no reply, by what the context has now, without what was cleared, without the cooldown that an exceeded window does
    /// not wait for, and without the level that we hold back for a reason of its own.
    fn later(&mut self, difference: &Difference<'_>) -> Result<Option<(&'static Class, Value)>, PeerFailure> {
        let Difference { question, ours, theirs, context_tokens, .. } = *difference;
        if ours.is_null() || ours == theirs {
            return Ok(None);
        }
        let mut question = question.clone();
        for name in [NO_LONGER_COUNTS, MOMENT, NO_COOLDOWN] {
            let Some(class) = self.agent.classes.iter().find(|class| class.name == name) else { continue };
            match name {
                NO_LONGER_COUNTS => question["whole"] = question["size"].clone(),
                MOMENT => {
                    // Without the texts that a view has in place of results that are still to come.
                    let unseen = question["whole"].as_i64().zip(question["size"].as_i64());
                    let cleared = unseen.map_or(0, |(whole, size)| whole - size);
                    question["size"] = json!(context_tokens);
                    question["whole"] = json!(context_tokens + cleared);
                    question["later"] = json!(true);
                    question["replied"] = json!(true);
                    question["usage"] = json!({ "input": context_tokens, "cacheRead": 0, "output": 0 });
                }
                _ if difference.exceeds() => question["times"] = json!({}),
                _ => continue,
            }
            let answer = self.ask(&question)?;
            if answer["acts"] == *ours {
                return Ok(Some((class, answer)));
            }
            let held = Difference { question: &question, answer: &answer, theirs: &answer["acts"], ..*difference };
            if let Some(reason) = (self.agent.explain)(&held) {
                let mut question = question.clone();
                question["without"] = answer["acts"].clone();
                let answer = self.ask(&question)?;
                if answer["acts"] == *ours {
                    return Ok(Some((if theirs.is_null() { class } else { reason }, answer)));
                }
            }
        }
        Ok(None)
    }

    fn record(&mut self, difference: &Difference<'_>, moment: Option<&'static Class>) {
        let Difference { what, question, ours, theirs, .. } = *difference;
        let explain = |_: &Value, _: &Value| match what {
            "refusal" => (self.agent.explain)(difference).or_else(|| difference.refusal(self.agent.classes)),
            _ => moment.or_else(|| (self.agent.explain)(difference)),
        };
        let mut input = history::brief(question, difference.answer, difference.context_tokens);
        input["made"] = difference.made.iter().rev().take(2).map(brief).collect();
        self.report.compare(what, self.life.index, &input, ours, &Ok(theirs.clone()), explain);
    }

    /// Compares what a model reads of the outputs of the newest message.
    fn compare_outputs(&mut self, position: usize, session: &Session<'_>) -> Result<(), PeerFailure> {
        let newest = &self.life.messages[position].message;
        let ids: Vec<_> = newest
            .parts
            .iter()
            .filter_map(|part| match &*part.body {
                PartBody::ToolResult(result) => Some(result.call_id.clone()),
                _ => None,
            })
            .collect();
        self.compare_texts(&ids, false, session)
    }

    /// Compares what stands in the place of outputs that were just cleared.
    fn compare_cleared(&mut self, before: &[SourceMessage], session: &Session<'_>) -> Result<(), PeerFailure> {
        let cleared = pruned(session.sources());
        let cleared: Vec<_> = cleared.difference(&pruned(before)).cloned().collect();
        self.compare_texts(&cleared, true, session)
    }

    fn compare_texts(&mut self, ids: &[String], cleared: bool, session: &Session<'_>) -> Result<(), PeerFailure> {
        let outputs = outputs(session.sources(), session.view(), ids);
        if outputs.is_empty() {
            return Ok(());
        }
        let written: Vec<_> = outputs.iter().map(|output| output.written.clone()).collect();
        let question = json!({ "outputs": written, "cleared": cleared, "config": self.life.limits.config });
        let theirs = self.peer.ask("shown", question.clone(), |error| json!({ "error": error }))?;
        if theirs.is_null() {
            return Ok(());
        }
        let ours: Vec<_> = outputs.into_iter().map(|output| output.shown).collect();
        let what = if cleared { "placeholders" } else { "shown" };
        let whole = self.agent.classes.iter().find(|class| class.name == WHOLE_CHARACTERS.name);
        for ((mut ours, theirs), written) in ours.into_iter().zip(theirs.as_array().into_iter().flatten()).zip(written)
        {
            // A model does not know all words; a star stands for the rest.
            if let Some(known) = theirs.as_str().and_then(|text| text.strip_suffix('*'))
                && ours.as_str().is_some_and(|text| text.starts_with(known))
            {
                ours = theirs.clone();
            }
            let halves = |ours: &Value, theirs: &Value| whole.filter(|_| history::has_half(ours, theirs));
            let input = json!({ "id": written["id"], "tool": written["tool"], "input": written["input"] });
            self.report.compare(what, self.life.index, &input, &ours, &Ok(theirs.clone()), halves);
        }
        Ok(())
    }

    /// Compares the messages that stand for a summary.
    fn compare_frame(&mut self, position: usize, session: &Session<'_>) -> Result<(), PeerFailure> {
        let Some((ours, text)) = frame(session.sources(), session.view(), self.life.index) else { return Ok(()) };
        let question = json!({ "summary": text, "place": position });
        let theirs = self.peer.ask("frame", question.clone(), |error| json!({ "error": error }))?;
        if !theirs.is_null() {
            self.report.compare("frame", self.life.index, &question, &ours, &Ok(theirs), |_, _| None);
        }
        Ok(())
    }
}

/// What a report shows of a compaction.
fn brief(made: &SimulatedCompaction) -> Value {
    json!({
        "message": made.message, "acts": name(made), "refused": made.refused, "context": made.context_tokens,
        "before": made.before_tokens, "after": made.after_tokens,
    })
}

/// What follows a decision.
enum Next {
    Message,
    Decision(&'static str),
    End,
}

/// The name of a compaction's level, as the models have it.
fn name(made: &SimulatedCompaction) -> &'static str {
    match (made.level, made.kind) {
        (Some(Level::Micro), _) => "micro",
        (Some(Level::Auto), _) => "auto",
        (Some(Level::Deep), _) => "deep",
        (None, CompactionKind::Prune) if made.after_tokens < made.before_tokens || made.cleared > 0 => "clear",
        (None, _) => "last resort",
    }
}

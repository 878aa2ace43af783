//! Scenarios of Qwen Code 0.24: a conversation grows message by message, and each side decides by itself when it clears old
//! outputs and when it compresses.
//!
//! Qwen Code decides when it sends a request: from the usage of the last prompt and reply, and from its estimate of the
//! messages not sent before. Its prompt is our view. It gives its model the contents themselves to summarize, so that
//! the boundary determines the input.

mod flat;

use super::{ALONE, JOINED, UNANSWERED, as_qwen_holds_them};
use crate::contents::{Contents, is_reply, without_made_up};
use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use crate::session::{SUBSTANCE, Session, as_appended};
use flat::Flat;
use longhand::model::Revision;
use longhand::model::message::Role;
use longhand::model::part::{PartBody, ResultStatus};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::{SourceMessage, ViewMessage};
use longhand::policy::Policy;
use longhand::policy::summary::SummaryInput;
use longhand::presets;
use rand::Rng;
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::ops::Range;

pub(crate) struct Scenarios;

const PROFILE: Profile = Profile { turns: 4..=16, ..super::PROFILE };

const MOMENT: Class = Class {
    name: "every message is a moment",
    reason: Reason::Named("The threshold is looked at after every message"),
    explanation: "The last prompt and reply with the estimate of what was written since, by Qwen Code's own functions, \
                  reach the threshold, but Qwen Code looks when the next request is sent, and at that alone; we do not wait.",
    test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
};

const PAIRED: Class = Class {
    name: "every call has a result",
    reason: Reason::P9,
    explanation: "Qwen Code keeps a call without a result; a view says that it was interrupted.",
    test: ("crates/core/src/policy/pairing/tests.rs", "an_interrupted_call_says_so"),
};

const CARRIED: Class = Class {
    name: "carried from what is summarized",
    reason: Reason::Named("Files and images are carried along from what is summarized"),
    explanation: "Qwen Code also carries along what the calls that stay name, and again the images that it carried before; \
                  what stays is there anyway.",
    test: ("crates/core/src/policy/attachments.rs", "the_files_used_last_are_shown_as_the_history_last_showed_them"),
};

const MEASURED: Class = Class {
    name: "a summary's saving is measured on the view",
    reason: Reason::Named("What a summary saves is measured on the view"),
    explanation: "Qwen Code holds what it carries along and what was not sent yet against the history alone, and refuses \
                  the summary; by its own estimate our view behind it is smaller.",
    test: ("tests/it/guards.rs", "an_open_breaker_names_its_reason_and_the_kinds_it_allows"),
};

const FREES: Class = Class {
    name: "what frees nothing is not done",
    reason: Reason::P12,
    explanation: "By Qwen Code's own estimate the history has no fewer tokens behind its summary, or behind its clearing \
                  but for the rounding of each output; we refuse the summary, or clear nothing.",
    test: ("tests/it/compaction.rs", "the_last_attempt_fails_where_the_built_in_summarizer_frees_nothing_too"),
};

const COUNTED: Class = Class {
    name: "a clearing counts at once",
    reason: Reason::Named("Usage from before a clearing says nothing"),
    explanation: "By its own estimate the history behind a clearing, without the words around a summary, does not reach Qwen \
                  Code's threshold, but it goes by the prompt from before; we estimate anew.",
    test: ("crates/core/src/fold/tests.rs", "the_newest_valid_usage_counts"),
};

static CLASSES: [Class; 9] =
    [MOMENT, super::CLASSES[1], super::CLASSES[3], PAIRED, CARRIED, MEASURED, FREES, COUNTED, super::CLASSES[0]];

/// The status of a compression that Qwen Code refuses because the history would become larger.
const INFLATED: i64 = 2;

/// The status of a finished compression.
const COMPRESSED: i64 = 1;

/// The end of every summary here.
const SUMMARY_END: &str = "</state_snapshot>";

impl System for Scenarios {
    fn name(&self) -> &'static str {
        "qwen-code-scenarios"
    }

    fn packages(&self) -> &'static str {
        "qwen-code"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.scenario_indexes() {
            let scenario = Scenario::draw(run, index);
            Course {
                peer: &mut *peer,
                report: &mut *report,
                scenario: &scenario,
                prompt: 0,
                output: 0,
                first: 0,
                has_cleared: false,
            }
            .run(run.daemon)?;
        }
        Ok(())
    }
}

/// The data of a scenario.
struct Scenario {
    index: u64,
    messages: Vec<SourceMessage>,
    /// Tokens of every request besides the messages.
    unseen: i64,
    /// The output tokens that each reply reports.
    outputs: Vec<i64>,
    window: ModelWindow,
    /// The share of the window at which a compression is due.
    share: f64,
    /// The characters of outputs above which old ones are cleared.
    units: i64,
    words: Vec<String>,
    policy: Policy,
}

impl Scenario {
    fn draw(run: Run<'_>, index: u64) -> Self {
        let mut conversation = Conversation::generate(run.seed, index, &PROFILE);
        if run.daemon.is_some() {
            conversation = conversation.without_pauses();
        }
        as_qwen_holds_them(&mut conversation);
        let mut dice = conversation.dice("scenario");
        // Larger windows have limits of 20 000 tokens and more.
        let context = dice.random_range(24_000..33_000);
        let share = f64::from(dice.random_range(24..80)) / 256.0;
        let units = dice.random_range(4_000..40_000);
        let limit = json!({ "buffered": { "ratio": share, "floor_ratio": share } });
        let beside = json!({ "threshold": { "limit": { "relative": { "limit": limit } } } });
        let large =
            json!({ "prune": { "condition": { "length": { "above_units": units, "down_to_units": units / 2 } } } });
        let patch = json!({
            "maintenance": { "3": large },
            "micro": { "threshold": beside["threshold"], "steps": { "0": large } },
            "auto": { "threshold": { "limit": limit } },
            "deep": beside,
            "guards": { "minimum_gain_tokens": 1 },
        });
        let policy = presets::policy("qwen-code@0.24").with_overrides(&patch.to_string());
        let words = (0..100)
            .map(|number| format!("<state_snapshot>scenario {index}, summary {number}. {SUBSTANCE}{SUMMARY_END}"));
        Self {
            index,
            unseen: dice.random_range(0..1_000),
            outputs: conversation.messages.iter().map(|source| estimate(source) + dice.random_range(1..50)).collect(),
            messages: conversation.messages,
            window: ModelWindow { context, output: Some(1), ..ModelWindow::default() },
            share,
            units,
            words: words.collect(),
            policy: policy.unwrap_or_else(|error| panic!("{patch}: {error}")),
        }
    }

    fn role(&self, position: usize) -> Option<Role> {
        self.messages.get(position).map(|source| source.message.role)
    }

    /// The messages up to an index that no request has included yet.
    fn pending(&self, position: usize) -> Range<usize> {
        match self.role(position) {
            Some(Role::User) => position..position + 1,
            Some(Role::Tool) => {
                let before = (0..position).rev().take_while(|&at| self.role(at) == Some(Role::Tool)).count();
                position - before..position + 1
            }
            _ => position + 1..position + 1,
        }
    }

    /// True if the next request is sent after the message with this index.
    fn sends(&self, position: usize) -> bool {
        match self.role(position) {
            Some(Role::User) => true,
            Some(Role::Tool) => self.role(position + 1) != Some(Role::Tool),
            _ => false,
        }
    }

    /// The time from the last reply before an index to the message there, in milliseconds.
    fn idle_milliseconds(&self, position: usize) -> Option<i64> {
        let time = |at: usize| self.messages[at].message.create_time.as_millis();
        let reply = (0..position).rev().find(|&at| is_reply(&self.messages[at]))?;
        Some(time(position) - time(reply))
    }

    /// The files on disk after the messages before an index: those that the last call read or wrote whole. Any other
    /// file is too long to be included.
    fn files(&self, position: usize) -> Map<String, Value> {
        let parts =
            || self.messages[..position].iter().flat_map(|source| &source.message.parts).map(|part| &*part.body);
        let mut files = Map::new();
        for call in parts().filter_map(|body| if let PartBody::ToolCall(call) = body { Some(call) } else { None }) {
            let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            let Some(path) = input["file_path"].as_str() else { continue };
            let result = parts().find_map(|body| match body {
                PartBody::ToolResult(result) if result.call_id == call.call_id => Some(result),
                _ => None,
            });
            if result.is_some_and(|result| result.status != ResultStatus::Completed) {
                continue;
            }
            let is_whole = input.as_object().is_some_and(|fields| fields.len() == 1);
            let text = match call.tool.as_str() {
                "read_file" => result.filter(|_| is_whole).map(|result| json!(result.output)),
                "write_file" => Some(input["content"].clone()).filter(Value::is_string),
                "edit" => None,
                _ => continue,
            };
            files.insert(path.to_owned(), text.unwrap_or_else(|| json!("x".repeat(20_001))));
        }
        files
    }

    fn words(&self, number: usize) -> &str {
        &self.words[number % self.words.len()]
    }
}

/// A running scenario.
struct Course<'a> {
    peer: &'a mut Peer,
    report: &'a mut Report,
    scenario: &'a Scenario,
    /// The tokens of the last prompt and of its reply, in Qwen Code's counters.
    prompt: i64,
    output: i64,
    /// Index of the first message after our last summary.
    first: usize,
    /// True if we have cleared outputs since the last reply.
    has_cleared: bool,
}

impl Course<'_> {
    fn run(&mut self, daemon: Option<&Daemon>) -> Result<(), PeerFailure> {
        let scenario = self.scenario;
        let number = Cell::new(0);
        let writer = |_: &SummaryInput| scenario.words(number.get()).to_owned();
        let mut session = Session::new(daemon, &scenario.policy, &scenario.window, &writer)?;
        let mut revisions: Vec<Revision> = Vec::new();
        for position in 0..scenario.messages.len() {
            let input = session.view().estimated_tokens + scenario.unseen;
            let is_reply = is_reply(&scenario.messages[position]);
            let usage = is_reply.then(|| Usage { input, output: scenario.outputs[position], ..Usage::default() });
            session.append(
                &as_appended(&scenario.messages[position], usage),
                scenario.role(position) == Some(Role::Assistant),
            )?;
            revisions.extend(session.sources().last().map(|source| source.message.revision));
            if is_reply {
                (self.prompt, self.output) = (input, scenario.outputs[position]);
                self.has_cleared = false;
            }
            let mut evaluation = self.evaluation(&session, &revisions, position);
            if scenario.sends(position) {
                evaluation.sent = Some(self.send(&mut evaluation, scenario.words(number.get()))?);
            }
            let mut summaries = 0;
            while session.compact_once()? {
                if session.is_over() {
                    return Ok(());
                }
                if let Some(plan) = session.take_summary() {
                    let first = revisions.iter().position(|revision| *revision >= plan.tail_start);
                    let first = first.unwrap_or(revisions.len());
                    let head = revisions[self.first..first].to_vec();
                    self.compare(&evaluation, (first, &head), &contents_of(&session), number.get())?;
                    number.set(number.get() + 1);
                    summaries += 1;
                    evaluation = self.evaluation(&session, &revisions, position);
                } else if session.simulated().last().is_some_and(|compaction| compaction.refused) {
                    return self.refused(&evaluation);
                } else {
                    self.has_cleared = true;
                }
            }
            if summaries == 0 {
                self.compare_clearing(&evaluation, &contents_of(&session))?;
                let sent = evaluation.sent.as_ref().map_or(Value::Null, |sent| sent.answer["status"].clone());
                let before = number.get().checked_sub(1).map_or("", |number| scenario.words(number));
                let why = if sent == COMPRESSED { self.refusal(&evaluation, &revisions, before)? } else { None };
                let mut input = evaluation.input(scenario);
                input["context"] = json!(session.context_tokens());
                self.record("moment", &input, json!(false), json!(sent == COMPRESSED), why);
            }
        }
        Ok(())
    }

    /// The moment after a message. Qwen Code's history is our view without the messages that it has not sent, and
    /// without the results that Longhand adds.
    fn evaluation(&self, session: &Session<'_>, revisions: &[Revision], position: usize) -> Evaluation {
        let pending = self.scenario.pending(position);
        let waits = |revision: &Revision| revisions.get(pending.clone()).is_some_and(|them| them.contains(revision));
        let shown: Vec<ViewMessage> =
            session.view().messages.iter().filter(|message| !waits(&message.revision)).cloned().collect();
        let history = Contents::of_some(shown.iter()).json();
        let history = without_made_up(&history, &self.scenario.policy.view.interrupted_text);
        Evaluation { position, view: contents_of(session), shown, history, sent: None }
    }

    /// The request after a message: the history after clearing, and the compression.
    fn send(&mut self, evaluation: &mut Evaluation, words: &str) -> Result<Sent, PeerFailure> {
        let scenario = self.scenario;
        let pending = self.pending(evaluation.position);
        let idle = scenario
            .idle_milliseconds(evaluation.position)
            .filter(|_| scenario.role(evaluation.position) == Some(Role::User));
        let settings = json!({ "toolResultsTotalCharsThreshold": scenario.units });
        let mut question = json!({ "history": evaluation.history, "pending": pending, "settings": settings });
        if let Some(idle) = idle {
            question["idleMilliseconds"] = json!(idle);
        }
        let cleared = self.ask("clear24", question)?;
        let held = cleared.as_array().cloned().unwrap_or_default();
        let is_cleared = held != evaluation.history;
        let answer = self.compress(&held, pending, evaluation.position, (words, false))?;
        Ok(Sent { held, is_cleared, answer })
    }

    /// The messages not sent before, as one content.
    fn pending(&self, position: usize) -> Value {
        let range = self.scenario.pending(position);
        let parts = Contents::with_call_ids(&self.scenario.messages[..range.end]).parts_since(range.start);
        json!({ "role": "user", "parts": parts })
    }

    fn compress(
        &mut self,
        history: &[Value],
        pending: Value,
        position: usize,
        (words, now): (&str, bool),
    ) -> Result<Value, PeerFailure> {
        let scenario = self.scenario;
        let question = json!({
            "history": history, "pending": pending, "prompt": self.prompt, "output": self.output,
            "window": scenario.window.context, "share": scenario.share, "words": words, "now": now,
            "files": scenario.files(scenario.pending(position).start),
        });
        self.ask("send24", question)
    }

    fn ask(&mut self, function: &str, arguments: Value) -> Result<Value, PeerFailure> {
        self.peer.ask(function, arguments, |error| json!({ "status": { "error": error } }))
    }

    fn record(&mut self, what: &'static str, input: &Value, ours: Value, theirs: Value, why: Option<&'static Class>) {
        self.report.compare(what, self.scenario.index, input, &ours, &Ok(theirs), |_, _| why);
    }

    /// Compares our compression with theirs, or with the one that they would make now.
    fn compare(
        &mut self,
        evaluation: &Evaluation,
        (first, head): (usize, &[Revision]),
        view: &[Value],
        number: usize,
    ) -> Result<(), PeerFailure> {
        let input = evaluation.input(self.scenario);
        let sent = evaluation.sent.as_ref().map(|sent| sent.answer.clone());
        let compresses = sent.as_ref().is_some_and(|answer| answer["status"] == COMPRESSED);
        let why = match &sent {
            Some(answer) if answer["status"] == INFLATED => self.measured(evaluation, view)?,
            Some(answer) if answer["status"] == COMPRESSED => None,
            _ => self.due(evaluation)?,
        };
        self.record("moment", &input, json!(true), json!(compresses), why);
        let words = self.scenario.words(number).to_owned();
        let theirs = match sent {
            Some(answer) if compresses => answer,
            _ => self.compress(
                &evaluation.history,
                self.pending(evaluation.position),
                evaluation.position,
                (&words, true),
            )?,
        };
        // Running calls stay, and messages not sent yet.
        let pending = self.scenario.pending(evaluation.position);
        let messages = &self.scenario.messages[self.first..pending.end];
        let waits = evaluation.history.last().is_some_and(|last| last["role"] == "model" && calls(last) > 0);
        let kept = if waits { self.last_reply(pending.start) } else { pending.start };
        let cut = kept.saturating_sub(self.first);
        let forced = harm::nearest(messages, cut);
        let ours = first - self.first;
        let why = (forced != cut && forced == ours).then_some(UNANSWERED);
        self.record("boundary", &input, json!(ours), json!(cut), why);
        if ours == cut {
            self.compare_views(&input, evaluation, (first, head), &theirs, view)?;
        }
        (self.prompt, self.output) = (theirs["newTokenCount"].as_i64().unwrap_or(self.prompt), 0);
        self.first = first;
        Ok(())
    }

    /// Contents without the text around their summary, which does not count with us.
    fn bare(&self, contents: &[Value]) -> Vec<Value> {
        let mut contents = contents.to_vec();
        if let Some(text) = contents.first().and_then(|summary| summary["parts"][0]["text"].as_str()) {
            let text = text.strip_suffix(&self.scenario.policy.view.summary_suffix).unwrap_or(text).to_owned();
            contents[0]["parts"][0]["text"] = json!(text);
        }
        contents
    }

    fn last_reply(&self, end: usize) -> usize {
        (0..end).rev().find(|&at| self.scenario.role(at) == Some(Role::Assistant)).unwrap_or(end)
    }

    fn compare_views(
        &mut self,
        input: &Value,
        evaluation: &Evaluation,
        (first, head): (usize, &[Revision]),
        theirs: &Value,
        view: &[Value],
    ) -> Result<(), PeerFailure> {
        let mut history = theirs["history"].as_array().cloned().unwrap_or_default();
        if !self.scenario.pending(evaluation.position).is_empty() {
            history.push(self.pending(evaluation.position));
        }
        let style = &self.scenario.policy.view;
        let (ours, theirs) = (Flat::of(view), Flat::of(&history));
        self.record("view", input, json!(ours.contents), json!(theirs.contents), {
            let bare = Flat::of(&without_made_up(view, &style.interrupted_text)).contents;
            let is_joined = || joined(&bare, style.resume_text.as_deref()) == joined(&theirs.contents, None);
            if bare == theirs.contents { Some(&CLASSES[3]) } else { is_joined().then_some(JOINED) }
        });
        let why =
            if ours.carried == theirs.carried { None } else { self.carried(evaluation, (first, head), &ours.carried)? };
        self.record("carried", input, ours.carried, theirs.carried, why);
        Ok(())
    }

    /// The class if our attachments differ: theirs would be ours if they used only the summarized messages.
    fn carried(
        &mut self,
        evaluation: &Evaluation,
        (first, head): (usize, &[Revision]),
        ours: &Value,
    ) -> Result<Option<&'static Class>, PeerFailure> {
        let summarized =
            evaluation.shown.iter().filter(|message| message.source.is_some() && head.contains(&message.revision));
        let files = self.scenario.files(first);
        let question = json!({
            "history": Contents::of_some(summarized).json(), "files": files, "maxFiles": 5, "maxImages": 3,
        });
        let theirs = self.ask("restored", question)?;
        Ok((theirs == *ours).then_some(&CLASSES[4]))
    }

    /// The class if we keep a summary that they refuse: by their own estimate our view is smaller after it.
    fn measured(&mut self, evaluation: &Evaluation, view: &[Value]) -> Result<Option<&'static Class>, PeerFailure> {
        let [before, after] = [self.bare(&evaluation.view), self.bare(view)];
        let before = self.ask("estimateContentTokens", json!({ "contents": before }))?;
        let after = self.ask("estimateContentTokens", json!({ "contents": after }))?;
        let is_smaller = before.as_i64().zip(after.as_i64()).is_some_and(|(before, after)| after < before);
        Ok(is_smaller.then_some(&CLASSES[5]))
    }

    /// The class if only we compress: by their own estimate of the messages since the last reply, it is due.
    fn due(&mut self, evaluation: &Evaluation) -> Result<Option<&'static Class>, PeerFailure> {
        let since = (0..=evaluation.position)
            .rev()
            .find(|&at| is_reply(&self.scenario.messages[at]))
            .map_or(0, |reply| reply + 1);
        let parts = Contents::with_call_ids(&self.scenario.messages[..=evaluation.position]).parts_since(since);
        let pending = json!({ "role": "user", "parts": parts });
        let asked = self.compress(&evaluation.history, pending, evaluation.position, ("", false))?;
        let is_due = asked["effective"].as_f64().zip(asked["auto"].as_f64()).is_some_and(|(now, due)| now >= due);
        Ok(is_due.then_some(&CLASSES[0]))
    }

    /// The class if only they compress: there is no safe boundary, it frees nothing, or it is not due after a clearing.
    /// `summary` is the current one.
    fn refusal(
        &mut self,
        evaluation: &Evaluation,
        revisions: &[Revision],
        summary: &str,
    ) -> Result<Option<&'static Class>, PeerFailure> {
        let pending = self.scenario.pending(evaluation.position);
        let messages = &self.scenario.messages[self.first..pending.end];
        let proposed = pending.start.saturating_sub(self.first);
        let harmless = harm::nearest(messages, proposed);
        if harmless == 0 {
            return Ok(Some(UNANSWERED));
        }
        let head = &revisions[self.first..self.first + harmless];
        if harmless < proposed && self.head_frees_nothing(evaluation, head, summary)? {
            return Ok(Some(UNANSWERED));
        }
        if self.first > 0 && Contents::of(&messages[..harmless]).len() == 0 {
            return Ok(Some(ALONE));
        }
        let Some(sent) = &evaluation.sent else { return Ok(None) };
        if self.frees_nothing(evaluation, &sent.answer)? {
            return Ok(Some(&CLASSES[6]));
        }
        let (mut held, auto) = (sent.held.clone(), sent.answer["auto"].as_f64());
        held.push(self.pending(evaluation.position));
        let tokens = self.ask("estimateContentTokens", json!({ "contents": self.bare(&held) }))?;
        let is_low = tokens.as_f64().zip(auto).is_some_and(|(tokens, auto)| tokens < auto);
        Ok((self.has_cleared && is_low).then_some(&CLASSES[7]))
    }

    /// Reports a compression that we refuse: theirs is refused too, or frees nothing.
    fn refused(&mut self, evaluation: &Evaluation) -> Result<(), PeerFailure> {
        let theirs = match &evaluation.sent {
            Some(sent) => sent.answer.clone(),
            None => self.compress(
                &evaluation.history,
                self.pending(evaluation.position),
                evaluation.position,
                (self.scenario.words(0), true),
            )?,
        };
        let why = self.frees_nothing(evaluation, &theirs)?.then_some(&CLASSES[6]);
        self.record(
            "refusal",
            &evaluation.input(self.scenario),
            json!(true),
            json!(theirs["status"] != COMPRESSED),
            why,
        );
        Ok(())
    }

    /// True if, by their own estimate, the history is no smaller with only these messages in a summary as long as the
    /// current one.
    fn head_frees_nothing(
        &mut self,
        evaluation: &Evaluation,
        head: &[Revision],
        summary: &str,
    ) -> Result<bool, PeerFailure> {
        let is_head = |message: &&ViewMessage| message.source.is_none() || head.contains(&message.revision);
        let summarized = Contents::of_some(evaluation.shown.iter().filter(is_head)).json();
        let rest = Contents::of_some(evaluation.shown.iter().filter(|message| !is_head(message))).json();
        let pending = self.pending(evaluation.position);
        let theirs = self.compress(&summarized, pending, evaluation.position, (summary, true))?;
        let mut after = theirs["history"].as_array().cloned().unwrap_or_default();
        after.extend(rest);
        Ok(theirs["status"] == INFLATED || self.is_not_smaller(&evaluation.history, &after)?)
    }

    /// True if their history after a summary is no smaller than before, by their own estimate.
    fn frees_nothing(&mut self, evaluation: &Evaluation, theirs: &Value) -> Result<bool, PeerFailure> {
        let after = theirs["history"].as_array().cloned().unwrap_or_default();
        self.is_not_smaller(&evaluation.history, &after)
    }

    /// Compares the clearing of both sides before a request.
    fn compare_clearing(&mut self, evaluation: &Evaluation, after: &[Value]) -> Result<(), PeerFailure> {
        let ours = cleared(&evaluation.view, after);
        let theirs = evaluation.sent.as_ref().map_or(Value::Null, |sent| cleared(&evaluation.history, &sent.held));
        let theirs = if theirs.is_null() { cleared(&[], &[]) } else { theirs };
        if evaluation.sent.is_some() || ours != theirs {
            let why = if ours == theirs { None } else { self.clears(evaluation, &ours)? };
            self.record("clear", &evaluation.input(self.scenario), ours, theirs, why);
        }
        Ok(())
    }

    /// The class if clearings differ: they make no decision here and would clear the same if they did, or their
    /// clearing frees nothing.
    fn clears(&mut self, evaluation: &Evaluation, ours: &Value) -> Result<Option<&'static Class>, PeerFailure> {
        let none = cleared(&[], &[]);
        if let Some(sent) = evaluation.sent.as_ref() {
            let read = self.without_unread(evaluation)?;
            let only_read = read.as_ref().map(|Clearing { before, after }| cleared(before, after));
            if only_read.as_ref() == Some(ours) {
                return Ok(Some(UNANSWERED));
            }
            if sent.is_cleared {
                let whole = || Clearing { before: evaluation.history.clone(), after: sent.held.clone() };
                let Clearing { before, after } = read.unwrap_or_else(whole);
                let rounding = cleared(&before, &after)["calls"].as_array().map_or(0, Vec::len) as i64;
                let frees_nothing = self.is_not_smaller_by(&before, &after, rounding)?
                    || self.is_not_smaller_by(&evaluation.history, &sent.held, rounding)?;
                return Ok((*ours == none && frees_nothing).then_some(&CLASSES[6]));
            }
        }
        let is_reply = is_reply(&self.scenario.messages[evaluation.position]);
        let has_failed =
            !is_reply && self.scenario.role(evaluation.position) == Some(Role::Assistant) && evaluation.position > 0;
        // A failed reply has read nothing, so that the results before it are still pending.
        let pending = self.pending(if has_failed { evaluation.position - 1 } else { evaluation.position });
        let waiting: Vec<Value> = pending["parts"].as_array().cloned().unwrap_or_default();
        let mut history = evaluation.history.clone();
        for content in &mut history {
            let parts = content["parts"].as_array().into_iter().flatten();
            content["parts"] = parts.filter(|part| !waiting.contains(part)).cloned().collect();
        }
        let settings = json!({ "toolResultsTotalCharsThreshold": self.scenario.units });
        let mut question = json!({ "history": history, "pending": pending, "settings": settings });
        if let Some(idle) = self.scenario.idle_milliseconds(evaluation.position).filter(|_| !is_reply) {
            question["idleMilliseconds"] = json!(idle);
        }
        let held = self.ask("clear24", question)?;
        let theirs = cleared(&history, held.as_array().map_or(&[], Vec::as_slice));
        let is_request = self.scenario.role(evaluation.position) == Some(Role::User);
        Ok((!is_request && theirs == *ours).then_some(&CLASSES[0]))
    }

    /// Their history without the results that no reply has read, before and after their clearing with these results
    /// pending; none if all are read.
    fn without_unread(&mut self, evaluation: &Evaluation) -> Result<Option<Clearing>, PeerFailure> {
        let since = (0..evaluation.position)
            .rev()
            .find(|&at| is_reply(&self.scenario.messages[at]))
            .map_or(0, |reply| reply + 1);
        let is_result = |part: &Value| part.get("functionResponse").is_some();
        let contents = Contents::with_call_ids(&self.scenario.messages[..=evaluation.position]);
        let unread: Vec<Value> = contents.parts_since(since).into_iter().filter(is_result).collect();
        if unread.is_empty() {
            return Ok(None);
        }
        let id = |part: &Value| part["functionResponse"]["id"].clone();
        let waits = |part: &&Value| is_result(part) && unread.iter().any(|other| id(other) == id(part));
        let mut history = evaluation.history.clone();
        for content in &mut history {
            let parts = content["parts"].as_array().into_iter().flatten();
            content["parts"] = parts.filter(|part| !waits(part)).cloned().collect();
        }
        let mut question = json!({
            "history": history, "pending": { "role": "user", "parts": unread },
            "settings": { "toolResultsTotalCharsThreshold": self.scenario.units },
        });
        if let Some(idle) = self.scenario.idle_milliseconds(evaluation.position) {
            question["idleMilliseconds"] = json!(idle);
        }
        let held = self.ask("clear24", question)?.as_array().cloned().unwrap_or_default();
        Ok(Some(Clearing { before: history, after: held }))
    }

    /// True if contents are no smaller after a change, by their own estimate.
    fn is_not_smaller(&mut self, before: &[Value], after: &[Value]) -> Result<bool, PeerFailure> {
        self.is_not_smaller_by(before, after, 0)
    }

    /// The same with an allowance for rounding: the sum of theirs is rounded once, and each part of ours.
    fn is_not_smaller_by(&mut self, before: &[Value], after: &[Value], rounding: i64) -> Result<bool, PeerFailure> {
        let before = self.ask("estimateContentTokens", json!({ "contents": before }))?;
        let after = self.ask("estimateContentTokens", json!({ "contents": after }))?;
        Ok(before.as_i64().zip(after.as_i64()).is_some_and(|(before, after)| after + rounding >= before))
    }
}

/// A message, and Qwen Code's side of it.
struct Evaluation {
    position: usize,
    /// Our view.
    view: Vec<Value>,
    /// The messages of our view that were sent before.
    shown: Vec<ViewMessage>,
    /// Their history without the messages not sent before.
    history: Vec<Value>,
    /// The request after it, if one is sent.
    sent: Option<Sent>,
}

impl Evaluation {
    fn input(&self, scenario: &Scenario) -> Value {
        let sent = self.sent.as_ref().map(|sent| (&sent.answer, sent.is_cleared));
        let figures = sent.map(|(answer, is_cleared)| {
            json!({ "status": answer["status"], "effective": answer["effective"], "auto": answer["auto"],
                "cleared": is_cleared, "now": null })
        });
        json!({ "place": self.position, "role": format!("{:?}", scenario.role(self.position)), "sent": figures })
    }
}

/// A history before and after a clearing.
struct Clearing {
    before: Vec<Value>,
    after: Vec<Value>,
}

struct Sent {
    /// The history after the clearing.
    held: Vec<Value>,
    is_cleared: bool,
    answer: Value,
}

/// Approximate tokens of a message: other numbers in replies would imply an overhead that does not exist.
fn estimate(source: &SourceMessage) -> i64 {
    let parts = json!(Contents::of(std::slice::from_ref(source)).parts());
    parts.to_string().encode_utf16().count() as i64 / 4
}

/// The view as contents, with the ids of calls.
fn contents_of(session: &Session<'_>) -> Vec<Value> {
    Contents::of_some(session.view().messages.iter()).json()
}

fn calls(content: &Value) -> usize {
    content["parts"].as_array().into_iter().flatten().filter(|part| part.get("functionCall").is_some()).count()
}

/// The calls whose results a clearing changes, and the number of changed media.
fn cleared(before: &[Value], after: &[Value]) -> Value {
    let parts = |contents: &[Value]| -> Vec<Value> {
        contents.iter().flat_map(|content| content["parts"].as_array().cloned().unwrap_or_default()).collect()
    };
    let (before, after) = (parts(before), parts(after));
    let mut calls: Vec<String> = Vec::new();
    let mut media = 0;
    for (_, now) in before.iter().zip(&after).filter(|(before, now)| before != now) {
        match now["functionResponse"]["id"].as_str() {
            Some(id) => calls.push(id.to_owned()),
            None => media += 1,
        }
    }
    calls.sort();
    json!({ "calls": calls, "media": media })
}

/// The same contents with running calls in the acknowledgement, and without the request to continue in between.
fn joined(contents: &[Value], resume: Option<&str>) -> Vec<Value> {
    let is_resume = |content: &Value| resume.is_some_and(|words| content["parts"] == json!([{ "text": words }]));
    let mut list: Vec<Value> = Vec::new();
    for content in contents.iter().filter(|content| !is_resume(content)) {
        let parts = content["parts"].as_array().cloned().unwrap_or_default();
        let is_model = content["role"] == "model";
        match list.last_mut().filter(|last| is_model && last["role"] == "model") {
            Some(last) => {
                let calls = parts.into_iter().filter(|part| part.get("functionCall").is_some());
                let all = last["parts"].as_array().cloned().unwrap_or_default().into_iter().chain(calls);
                last["parts"] = all.collect();
            }
            None => list.push(content.clone()),
        }
    }
    list
}

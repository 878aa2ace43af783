//! Scenarios of Gemini CLI: a conversation grows message by message, and each side decides by itself when it compresses.
//!
//! Gemini CLI decides when it sends the next request, from the history up to the last reply and that reply's prompt
//! tokens; so its moment is the reply. Its window cannot be configured, so its threshold is a small share of it. It
//! gives its model the contents themselves to summarize, so that the boundary determines the input.

use super::{ALONE, LIMIT, UNANSWERED};
use crate::contents::{Contents, is_reply, with_short_failures, without_made_up};
use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile, Results};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use crate::session::{SUBSTANCE, Session, as_appended};
use longhand::model::message::Role;
use longhand::model::part::{Part, PartBody};
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
    turns: 4..=16,
    text_max: 2_000,
    output_max: 6_000,
    system: false,
    results: Results::Either,
    tools: &["read_file", "write_file", "replace", "run_shell_command", "glob", "Read_File"],
    ..Profile::FULL
};

const MOMENT: Class = Class {
    name: "every message is a moment",
    reason: Reason::Named("What was written since the last reply counts too"),
    explanation: "The last prompt and the estimate of what was written since, by Gemini CLI's own functions, reach the \
                  threshold, but Gemini CLI goes by the prompt alone; we do not wait.",
    test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
};

const PAIRED: Class = Class {
    name: "every call has a result",
    reason: Reason::Named("A call that nobody has answered has a result that says so"),
    explanation: "Gemini CLI keeps a call without a result; a view says that it was interrupted.",
    test: ("crates/core/src/policy/pairing/tests.rs", "an_interrupted_call_says_so"),
};

const MEDIA: Class = Class {
    name: "media count the same everywhere",
    reason: Reason::Named("The estimate of an image or a document is the same wherever its bytes are"),
    explanation: "Gemini CLI refuses its own summary where its two estimates of media make the history behind it larger; \
                  ours has one.",
    test: ("crates/core/src/policy/tokens/tests.rs", "media_count_the_same_whatever_their_size"),
};

const REFUSED: Class = Class {
    name: "a summary frees something",
    reason: Reason::Named("A summary that frees nothing is refused"),
    explanation: "By Gemini CLI's own count the history behind the summary has no fewer tokens than before, but for the rounding of \
                  its parts, and it takes it; we refuse it, and the scenario ends, as no other is tried.",
    test: ("tests/it/guards.rs", "an_open_breaker_names_its_reason_and_the_kinds_it_allows"),
};

const GROWTH: Class = Class {
    name: "a filled level waits",
    reason: Reason::P12,
    explanation: "What no compression removes keeps the threshold reached although the messages alone are below it, and \
                  Gemini CLI compresses again at once; we wait until the messages have grown by a quarter of it.",
    test: ("tests/it/usage.rs", "a_small_threshold_in_a_large_window_is_applied_again_and_again"),
};

const BESIDES: Class = Class {
    name: "a request is more than its history",
    reason: Reason::Named("What usage showed of a request besides its history"),
    explanation: "Behind a compression the history with what usage showed besides it is at the threshold, and a second \
                  compression frees more; Gemini CLI goes by its history alone until the next reply.",
    test: ("tests/it/guards.rs", "usage_that_did_not_shrink_with_the_view_is_overhead"),
};

static CLASSES: [Class; 8] = [MOMENT, super::CLASSES[0], super::CLASSES[1], PAIRED, MEDIA, REFUSED, GROWTH, BESIDES];

/// The least tokens of a request besides the messages. Gemini CLI begins every request with a description of the
/// environment, and counts it with a compressed history; a prompt without it would be smaller than any of its own.
const ENVIRONMENT_TOKENS: i64 = 100;

/// The share of the characters that stays.
const KEPT_SHARE: f64 = 0.3;

/// Number of halvings of a tail.
const HALVINGS: u32 = 5;

/// The status of a compression that Gemini CLI refuses because the history would become larger.
const INFLATED: i64 = 2;

impl System for Scenarios {
    fn name(&self) -> &'static str {
        "gemini-cli-scenarios"
    }

    fn packages(&self) -> &'static str {
        "gemini-cli"
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        let environment = peer.call_all(vec![("environmentTokens", json!({}))])?;
        let fits = |tokens: &Result<Value, String>| {
            tokens.as_ref().is_ok_and(|tokens| tokens.as_i64().is_some_and(|tokens| tokens <= ENVIRONMENT_TOKENS))
        };
        let theirs = Ok(json!(environment.iter().all(fits)));
        report.compare(
            "environment",
            run.first,
            &json!({ "most": ENVIRONMENT_TOKENS }),
            &json!(true),
            &theirs,
            |_, _| None,
        );
        for index in run.scenario_indexes() {
            let scenario = Scenario::draw(run.seed, index);
            Course {
                peer: &mut *peer,
                report: &mut *report,
                scenario: &scenario,
                front: Vec::new(),
                first: 0,
                prompt: 0,
                compacted: None,
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
    /// The tokens at which a compression is due.
    threshold: i64,
    words: Vec<String>,
    policy: Policy,
}

impl Scenario {
    fn draw(seed: u64, index: u64) -> Self {
        let conversation = Conversation::generate(seed, index, &PROFILE);
        let mut dice = conversation.dice("scenario");
        let threshold = dice.random_range(1_500..8_000);
        let patch = json!({
            "auto": { "threshold": { "limit": { "ratio": share(threshold) } } },
            "guards": { "minimum_gain_tokens": 1 },
        });
        let policy = presets::policy("gemini-cli@0.26").with_overrides(&patch.to_string());
        let words = (0..100)
            .map(|number| format!("<state_snapshot>scenario {index}, summary {number}. {SUBSTANCE}</state_snapshot>"));
        Self {
            index,
            messages: with_short_failures(conversation.messages),
            unseen: ENVIRONMENT_TOKENS + dice.random_range(0..threshold / 4),
            threshold,
            words: words.collect(),
            policy: policy.unwrap_or_else(|error| panic!("{patch}: {error}")),
        }
    }
}

/// A number of tokens as a share of the window: exact, because the window is a power of two.
fn share(tokens: i64) -> f64 {
    tokens as f64 / LIMIT as f64
}

/// A running scenario.
struct Course<'a> {
    peer: &'a mut Peer,
    report: &'a mut Report,
    scenario: &'a Scenario,
    /// The contents that replace the summarized messages.
    front: Vec<Value>,
    /// Index of the first message after them.
    first: usize,
    /// The tokens of the last prompt, according to its reply.
    prompt: i64,
    /// Number of messages at our last compaction.
    compacted: Option<usize>,
}

impl Course<'_> {
    fn run(&mut self, daemon: Option<&Daemon>) -> Result<(), PeerFailure> {
        let scenario = self.scenario;
        let window = ModelWindow { context: LIMIT, ..ModelWindow::default() };
        let number = Cell::new(0);
        let writer = |_: &SummaryInput| scenario.words[number.get() % scenario.words.len()].clone();
        let mut session = Session::new(daemon, &scenario.policy, &window, &writer)?;
        let mut revisions = Vec::new();
        let mut end = 0;
        for position in 0..scenario.messages.len() {
            let is_reply = is_reply(&scenario.messages[position]);
            let input = session.view().estimated_tokens + scenario.unseen;
            let usage = is_reply.then(|| Usage { input, output: 1, ..Usage::default() });
            session.append(
                &as_appended(&scenario.messages[position], usage),
                scenario.messages[position].message.role == Role::Assistant,
            )?;
            revisions.extend(session.sources().last().map(|source| source.message.revision));
            if is_reply {
                (self.prompt, end) = (input, position + 1);
            }
            let words = scenario.words[number.get() % scenario.words.len()].clone();
            let theirs = if is_reply { self.compress(end, self.prompt, &words)? } else { Value::Null };
            let mut is_open = true;
            while session.compact_once()? {
                if session.is_over() {
                    return Ok(());
                }
                let Some(plan) = session.take_summary() else {
                    return self.refused(position, end, &words);
                };
                let first = revisions.iter().position(|revision| *revision >= plan.tail_start);
                let first = first.unwrap_or(revisions.len());
                let view = Contents::of_view(&session.view().messages).json();
                let words = scenario.words[number.get() % scenario.words.len()].clone();
                // After a compression, Gemini CLI uses its own estimate at its next decision.
                let theirs = if is_open { theirs.clone() } else { self.compress(end, self.prompt, &words)? };
                self.compare(position, end, &theirs, (first, view), &words, !is_open)?;
                number.set(number.get() + 1);
                is_open = false;
            }
            if is_open && is_reply {
                let compresses = theirs["status"] == 1;
                let why = if compresses { self.refusal(end, &theirs)? } else { None };
                let input = json!({
                    "place": position, "prompt": self.prompt, "threshold": scenario.threshold, "first": self.first,
                    "context": session.context_tokens(), "compactions": session.simulated().len(),
                });
                self.record("moment", &input, json!(false), json!(compresses), why);
            }
        }
        Ok(())
    }

    /// Gemini CLI's history: the contents of the summary, and those of the messages up to the last reply.
    fn history(&self, end: usize) -> Vec<Value> {
        let behind = Contents::of(self.messages(end)).json();
        self.front.iter().cloned().chain(behind).collect()
    }

    fn messages(&self, end: usize) -> &[SourceMessage] {
        &self.scenario.messages[self.first.min(end)..end]
    }

    fn compress(&mut self, end: usize, prompt: i64, words: &str) -> Result<Value, PeerFailure> {
        let question = json!({
            "history": self.history(end), "originalTokenCount": prompt, "threshold": share(self.scenario.threshold),
            "model": "gemini-2.5-pro", "answers": ["a draft", words], "whole": true,
        });
        self.ask("compress", question)
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
        position: usize,
        end: usize,
        theirs: &Value,
        (first, view): (usize, Vec<Value>),
        words: &str,
        is_second: bool,
    ) -> Result<(), PeerFailure> {
        let input = json!({
            "place": position, "prompt": self.prompt, "threshold": self.scenario.threshold, "status": theirs["status"],
            "role": format!("{:?}", self.scenario.messages[position].message.role), "end": end, "first": self.first,
        });
        let compresses = theirs["status"] == 1;
        let why = if compresses {
            None
        } else if theirs["status"] == INFLATED {
            self.inflated(end, words)?
        } else {
            self.due(end, position, is_second)?
        };
        self.record("moment", &input, json!(true), json!(compresses), why);
        let theirs = if compresses { theirs.clone() } else { self.compress(end, LIMIT, words)? };
        let cut = self.cut(end, &theirs);
        let ours = first - self.first;
        let forced = harm::nearest(self.messages(end), cut);
        let why = match cut == 0 && !self.front.is_empty() {
            true => (self.behind_summary(end)? == Some(ours)).then_some(ALONE),
            false => (forced != cut && forced == ours).then_some(UNANSWERED),
        };
        self.record("boundary", &input, json!(ours), json!(cut), why);
        if ours == cut {
            let bare = without_made_up(&view, &self.scenario.policy.view.interrupted_text);
            let answered = Contents::of(&self.scenario.messages[first.min(end)..end]).len();
            // Messages after the last reply are not in their history yet.
            let shown = json!(bare.iter().take(2 + answered).collect::<Vec<_>>());
            let has_made_up = bare != view;
            let why = (has_made_up && shown == theirs["history"]).then_some(&CLASSES[3]);
            let ours = if has_made_up { json!(view) } else { shown };
            self.record("view", &input, ours, theirs["history"].clone(), why);
        }
        self.prompt = theirs["newTokenCount"].as_i64().unwrap_or(self.prompt);
        self.compacted = Some(position + 1);
        // Both sides continue after our compression.
        self.front = view.iter().take(2).cloned().collect();
        self.first = first;
        Ok(())
    }

    /// The class if they refuse their own summary: the history after it includes the last reply, and the prompt that it
    /// is compared with does not; or it has media.
    fn inflated(&mut self, end: usize, words: &str) -> Result<Option<&'static Class>, PeerFailure> {
        if self.has_media(end) {
            return Ok(Some(&CLASSES[4]));
        }
        let reply = Contents::of(&self.scenario.messages[end - 1..end]).parts();
        let reply = self.ask("estimateTokenCountSync", json!({ "parts": reply }))?.as_i64().unwrap_or_default();
        let theirs = self.compress(end, self.prompt + reply, words)?;
        Ok((theirs["status"] == 1).then_some(&CLASSES[0]))
    }

    /// Reports a compression that we refuse: theirs is refused too, or frees nothing.
    fn refused(&mut self, position: usize, end: usize, words: &str) -> Result<(), PeerFailure> {
        let theirs = self.compress(end, self.prompt.max(self.scenario.threshold), words)?;
        let parts = |contents: &[Value]| -> Vec<Value> {
            contents.iter().flat_map(|content| content["parts"].as_array().cloned().unwrap_or_default()).collect()
        };
        let before = parts(&self.history(end));
        let after = parts(theirs["history"].as_array().map_or(&[], Vec::as_slice));
        // Each part of ours is rounded up, and the sum of theirs down.
        let rounding = after.len() as i64;
        let before = self.ask("estimateTokenCountSync", json!({ "parts": before }))?;
        let after = self.ask("estimateTokenCountSync", json!({ "parts": after }))?;
        let frees_nothing =
            before.as_i64().zip(after.as_i64()).is_some_and(|(before, after)| after + rounding >= before);
        let why = (theirs["status"] == 1 && frees_nothing).then_some(&CLASSES[5]);
        let input = json!({ "place": position, "prompt": self.prompt, "before": before, "after": after });
        self.record("refusal", &input, json!(true), json!(theirs["status"] != 1), why);
        Ok(())
    }

    /// True if a message up to the last reply has media.
    fn has_media(&self, end: usize) -> bool {
        let parts = self.messages(end).iter().flat_map(|source| &source.message.parts);
        parts.map(|part| &*part.body).any(|body| match body {
            PartBody::Media(_) => true,
            PartBody::ToolResult(result) => !result.attachments.is_empty(),
            _ => false,
        })
    }

    /// The boundary of their own function with the first smaller tail that has more in front of it than the summary.
    fn behind_summary(&mut self, end: usize) -> Result<Option<usize>, PeerFailure> {
        for halvings in 1..=HALVINGS {
            let fraction = 1.0 - KEPT_SHARE / f64::from(1_u32 << halvings);
            let question = json!({ "contents": self.history(end), "fraction": fraction });
            let summarized = self.ask("findCompressSplitPoint", question)?;
            let messages = self.messages(end);
            let at = summarized.as_u64().and_then(|at| (at as usize).checked_sub(self.front.len()));
            let cut = at.map_or(0, |at| Contents::of(messages).message(at, messages.len()));
            let harmless = harm::nearest(messages, cut);
            if harmless > 0 {
                return Ok(Some(harmless));
            }
        }
        Ok(None)
    }

    /// Their boundary as an index of messages.
    fn cut(&self, end: usize, theirs: &Value) -> usize {
        let summarized = theirs["summarized"].as_u64().unwrap_or_default() as usize;
        let messages = self.messages(end);
        summarized.checked_sub(self.front.len()).map_or(0, |at| Contents::of(messages).message(at, messages.len()))
    }

    /// The class if only we compress: the estimate of what no reply has read reaches the threshold, or directly behind
    /// another compression the history with what usage showed besides it does.
    fn due(&mut self, end: usize, position: usize, is_second: bool) -> Result<Option<&'static Class>, PeerFailure> {
        // The prompt is then their estimate of the compressed history.
        if is_second && self.prompt + self.scenario.unseen - ENVIRONMENT_TOKENS >= self.scenario.threshold {
            return Ok(Some(&CLASSES[7]));
        }
        let messages = &self.scenario.messages;
        let unread = end.checked_sub(1).map(|reply| unread_results(&messages[reply]));
        let later = messages[end..end.max(position + 1)].iter().cloned();
        let since: Vec<SourceMessage> = unread.into_iter().chain(later).collect();
        let is_new = since.iter().any(|source| !source.message.parts.is_empty());
        let since = Contents::of(&since);
        let answer = self.ask("estimateTokenCountSync", json!({ "parts": since.parts() }))?;
        let tokens = self.prompt + answer.as_i64().unwrap_or_default();
        if !is_new || tokens < self.scenario.threshold {
            return Ok(None);
        }
        if self.prompt < self.scenario.threshold {
            return Ok(Some(&CLASSES[0]));
        }
        // It was due before without anything to summarize; with the messages since then there is something. Their prompt
        // does not include these, and the history after their summary does.
        let mut theirs = self.compress(position + 1, self.prompt, &self.scenario.words[0])?;
        if theirs["status"] == INFLATED {
            if self.has_media(position + 1) {
                return Ok(Some(&CLASSES[4]));
            }
            theirs = self.compress(position + 1, tokens, &self.scenario.words[0])?;
        }
        Ok((theirs["status"] == 1).then_some(&CLASSES[0]))
    }

    /// Tokens of the next request by their own estimate of a compressed history, which counts of all that no history has
    /// only the environment.
    fn next_request(&self, theirs: &Value) -> i64 {
        theirs["newTokenCount"].as_i64().map_or(0, |tokens| tokens + self.scenario.unseen - ENVIRONMENT_TOKENS)
    }

    /// True if the messages alone are below the threshold, or what a compression leaves is still at it with what no
    /// history has, and the messages have grown by less than a quarter of the threshold since our last compaction.
    fn waits(&mut self, end: usize, theirs: &Value) -> Result<bool, PeerFailure> {
        let Scenario { threshold, unseen, .. } = *self.scenario;
        let is_filled = self.prompt - unseen < threshold || self.next_request(theirs) >= threshold;
        let Some(compacted) = self.compacted.filter(|_| is_filled) else { return Ok(false) };
        let since = Contents::of(&self.scenario.messages[compacted.min(end)..end]).parts();
        let growth = self.ask("estimateTokenCountSync", json!({ "parts": since }))?;
        Ok(growth.as_i64().is_some_and(|growth| growth < threshold / 4))
    }

    /// The class if only they compress: nothing follows the summary, or what follows it is unanswered or too small to
    /// free anything, or we wait.
    fn refusal(&mut self, end: usize, theirs: &Value) -> Result<Option<&'static Class>, PeerFailure> {
        if self.waits(end, theirs)? {
            return Ok(Some(&CLASSES[6]));
        }
        let cut = self.cut(end, theirs);
        if cut == 0 && !self.front.is_empty() {
            return Ok(Some(ALONE));
        }
        let harmless = harm::nearest(self.messages(end), cut);
        if harmless == 0 {
            return Ok(Some(UNANSWERED));
        }
        let parts = Contents::of(&self.messages(end)[..harmless]).parts();
        let summarized = self.ask("estimateTokenCountSync", json!({ "parts": parts }))?;
        // The minimum that replaces it: a summary of one letter, and its acknowledgement.
        let acknowledgement = json!({ "text": self.scenario.policy.view.acknowledgement });
        let least = json!({ "parts": [{ "text": "x" }, acknowledgement] });
        let least = self.ask("estimateTokenCountSync", least)?;
        let frees_nothing = summarized.as_i64().zip(least.as_i64()).is_some_and(|(before, after)| before <= after);
        Ok(frees_nothing.then_some(&CLASSES[5]))
    }
}

/// A reply with only those of its results that the model wrote nothing after.
fn unread_results(reply: &SourceMessage) -> SourceMessage {
    let is_silent = |part: &&Part| {
        let by_model = matches!(
            *part.body,
            PartBody::Text(_) | PartBody::Reasoning(_) | PartBody::ToolCall(_) | PartBody::Media(_)
        );
        !by_model
    };
    let count = reply.message.parts.iter().rev().take_while(is_silent).count();
    let mut message = (*reply.message).clone();
    message.parts.drain(..message.parts.len() - count);
    message.parts.retain(|part| matches!(*part.body, PartBody::ToolResult(_)));
    SourceMessage { message: message.into(), ..reply.clone() }
}

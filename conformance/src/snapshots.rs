//! Scenarios of the two agents that put a snapshot in place of the older share of a history's characters: Gemini CLI of
//! August 2025 and Qwen Code 0.15. A conversation grows message by message, and each side decides by itself when it
//! compresses.
//!
//! Both agents decide when they send the next request, from the history up to the last reply: Gemini CLI from a count of
//! all of it, Qwen Code from the tokens of the last prompt. So their moment is the reply. Their windows are those of
//! their models, so that the threshold is a small share.

use crate::contents::{Contents, is_reply, with_short_failures, without_made_up};
use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile, Results};
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::qwen_code::as_qwen_holds_them;
use crate::report::{Class, Reason, Report};
use crate::session::{SUBSTANCE, Session, as_appended};
use longhand::model::Revision;
use longhand::model::message::Role;
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::SourceMessage;
use longhand::policy::summary::SummaryInput;
use longhand::policy::{Policy, tokens};
use longhand::presets;
use rand::Rng;
use serde_json::{Value, json};
use std::cell::Cell;

/// The scenarios of one of the agents.
pub(crate) struct Scenarios {
    name: &'static str,
    packages: &'static str,
    preset: &'static str,
    tools: &'static [&'static str],
    is_qwen: bool,
}

pub(crate) const GEMINI_CLI: Scenarios = Scenarios {
    name: "gemini-cli-2025-08-scenarios",
    packages: "gemini-cli",
    preset: "gemini-cli@2025-08",
    tools: &["read_file", "write_file", "replace", "run_shell_command", "glob"],
    is_qwen: false,
};

pub(crate) const QWEN_CODE: Scenarios = Scenarios {
    name: "qwen-code-0.15-scenarios",
    packages: "qwen-code",
    preset: "qwen-code@0.15",
    tools: &["read_file", "write_file", "edit", "grep_search", "run_shell_command", "skill"],
    is_qwen: true,
};

const PROFILE: Profile = Profile {
    turns: 4..=16,
    text_max: 2_000,
    output_max: 6_000,
    system: false,
    media: false,
    results: Results::Either,
    ..Profile::FULL
};

/// The window of both, in tokens.
const LIMIT: i64 = 1_048_576;

static CLASSES: [Class; 7] = [
    Class {
        name: "every message is a moment",
        reason: Reason::Named("What was written since the last reply counts too"),
        explanation: "The count or the last prompt with the estimate of what was written since reach the threshold, and the \
                      agent looks only when it sends the next request; we do not wait.",
        test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
    },
    Class {
        name: "no summary of a summary alone",
        reason: Reason::P12,
        explanation: "The agent summarizes the summary before again, or nothing, when the first content alone has the share; \
                      we do nothing, or halve the tail until there is more.",
        test: (
            "crates/core/src/policy/select/fraction.rs",
            "the_current_summary_is_measured_and_never_summarized_alone",
        ),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::P9,
        explanation: "The agent summarizes requests that no reply has followed, and running calls; we cut before them.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    Class {
        name: "every call has a result",
        reason: Reason::P9,
        explanation: "The agent keeps a call without a result; a view says that it was interrupted.",
        test: ("crates/core/src/policy/pairing/tests.rs", "an_interrupted_call_says_so"),
    },
    Class {
        name: "a summary frees something",
        reason: Reason::P12,
        explanation: "By the later version's own estimate the history has no fewer tokens behind a summary of what is \
                      answered, but for the rounding of its parts, and the agent takes it; we refuse it, and halve the \
                      tail, or the scenario ends.",
        test: ("tests/it/guards.rs", "an_open_breaker_names_its_reason_and_the_kinds_it_allows"),
    },
    Class {
        name: "a filled level waits",
        reason: Reason::P12,
        explanation: "What no compression removes keeps the threshold reached, and the agent compresses again at once; we \
                      wait until the messages have grown by a quarter of it.",
        test: ("tests/it/usage.rs", "a_small_threshold_in_a_large_window_is_applied_again_and_again"),
    },
    Class {
        name: "a kept message stays itself",
        reason: Reason::P8,
        explanation: "Qwen Code puts running calls into the acknowledgement of a summary; with us they stay in their \
                      message, and somebody speaks in between.",
        test: ("crates/core/src/policy/render/tests.rs", "a_reply_behind_an_acknowledgement_is_asked_for"),
    },
];
static MOMENT: &Class = &CLASSES[0];
static ALONE: &Class = &CLASSES[1];
static UNANSWERED: &Class = &CLASSES[2];
static PAIRED: &Class = &CLASSES[3];
static FREES: &Class = &CLASSES[4];
static WAITS: &Class = &CLASSES[5];
static JOINED: &Class = &CLASSES[6];

/// The share of the characters that stays.
const KEPT_SHARE: f64 = 0.3;

/// Number of halvings of a tail.
const HALVINGS: u32 = 5;

/// Qwen Code's request between the acknowledgement and a reply, which has our words in our views.
const BRIDGE: &str = "Continue with the prior task using the context above.";

impl System for Scenarios {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static str {
        self.packages
    }

    fn classes(&self) -> &'static [Class] {
        &CLASSES
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.scenario_indexes() {
            let scenario = Scenario::draw(self, run.seed, index);
            Course {
                peer: &mut *peer,
                report: &mut *report,
                scenario: &scenario,
                front: Vec::new(),
                first: 0,
                tokens: 0,
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
    is_qwen: bool,
    messages: Vec<SourceMessage>,
    /// Tokens of every request besides the messages.
    unseen: i64,
    /// The tokens at which a compression is due.
    threshold: i64,
    policy: Policy,
}

impl Scenario {
    fn draw(scenarios: &Scenarios, seed: u64, index: u64) -> Self {
        let profile = Profile { tools: scenarios.tools, ..PROFILE };
        // After an hour without a reply Qwen Code clears outputs, which `qwen-code` compares on conversations.
        let mut conversation = Conversation::generate(seed, index, &profile).without_pauses();
        if scenarios.is_qwen {
            as_qwen_holds_them(&mut conversation);
        }
        let mut dice = conversation.dice("scenario");
        let threshold = dice.random_range(1_500..8_000);
        let patch = json!({
            "auto": { "threshold": { "limit": { "ratio": share(threshold) } } },
            "guards": { "minimum_gain_tokens": 1 },
        });
        let policy = presets::policy(scenarios.preset).with_overrides(&patch.to_string());
        Self {
            index,
            is_qwen: scenarios.is_qwen,
            messages: with_short_failures(conversation.messages),
            unseen: dice.random_range(0..threshold / 4),
            threshold,
            policy: policy.unwrap_or_else(|error| panic!("{patch}: {error}")),
        }
    }

    fn words(&self, number: usize) -> String {
        format!("<state_snapshot>scenario {}, summary {number}. {SUBSTANCE}</state_snapshot>", self.index)
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
    /// The tokens by which the agent decides.
    tokens: i64,
    /// Number of messages at our last compaction.
    compacted: Option<usize>,
}

/// A compression of theirs.
struct Theirs {
    /// The boundary as an index of the messages; none if they do not compress.
    cut: Option<usize>,
    /// The history after it.
    history: Vec<Value>,
    /// True if the only kept content is in the acknowledgement.
    is_joined: bool,
}

impl Course<'_> {
    fn run(&mut self, daemon: Option<&Daemon>) -> Result<(), PeerFailure> {
        let scenario = self.scenario;
        let window = ModelWindow { context: LIMIT, ..ModelWindow::default() };
        let number = Cell::new(0);
        let writer = |_: &SummaryInput| scenario.words(number.get());
        let mut session = Session::new(daemon, &scenario.policy, &window, &writer)?;
        let mut revisions: Vec<Revision> = Vec::new();
        let mut end = 0;
        for position in 0..scenario.messages.len() {
            let source = &scenario.messages[position];
            let is_reply = is_reply(&scenario.messages[position]);
            let input = session.view().estimated_tokens + scenario.unseen;
            let output = tokens::estimate_source(&scenario.policy, source);
            let usage = is_reply.then(|| Usage { input, output, ..Usage::default() });
            let names_view = source.message.role == Role::Assistant;
            session.append(&as_appended(&scenario.messages[position], usage), names_view)?;
            revisions.extend(session.sources().last().map(|source| source.message.revision));
            if is_reply {
                end = position + 1;
                self.tokens = if scenario.is_qwen { input } else { input + output };
            }
            let theirs = if is_reply { Some(self.compress(end, self.tokens, number.get())?) } else { None };
            let mut theirs = theirs.filter(|theirs| theirs.cut.is_some() || is_reply);
            let mut is_open = true;
            while session.compact_once()? {
                if session.is_over() {
                    return Ok(());
                }
                let Some(made) = session.take_summary() else { return self.refused(position, end, number.get()) };
                let first = revisions.iter().position(|revision| *revision >= made.tail_start);
                let view = Contents::of_view(&session.view().messages).json();
                // After a compression they count again at their next decision.
                let again =
                    if is_open { theirs.take() } else { Some(self.compress(end, self.tokens, number.get())?) };
                self.compare(position, end, again, (first.unwrap_or(revisions.len()), view), number.get())?;
                self.tokens = session.context_tokens();
                number.set(number.get() + 1);
                is_open = false;
            }
            if let Some(theirs) = theirs.filter(|_| is_open) {
                let compresses = theirs.cut.is_some();
                let why = if compresses { self.refusal(end, &theirs)? } else { None };
                let input = self.input(position, end);
                self.record("moment", &input, json!(false), json!(compresses), why);
            }
        }
        Ok(())
    }

    fn input(&self, position: usize, end: usize) -> Value {
        let role = format!("{:?}", self.scenario.messages[position].message.role);
        json!({
            "place": position, "role": role, "end": end, "first": self.first, "tokens": self.tokens,
            "threshold": self.scenario.threshold, "compacted": self.compacted,
        })
    }

    fn messages(&self, end: usize) -> &[SourceMessage] {
        &self.scenario.messages[self.first.min(end)..end]
    }

    /// Their history: the contents of the summary, and those of the messages up to the last reply.
    fn history(&self, end: usize) -> Vec<Value> {
        let behind = Contents::of(self.messages(end)).json();
        self.front.iter().cloned().chain(behind).collect()
    }

    /// Their compression of the history with this number of tokens.
    fn compress(&mut self, end: usize, tokens: i64, number: usize) -> Result<Theirs, PeerFailure> {
        let (history, words) = (self.history(end), self.scenario.words(number));
        let threshold = share(self.scenario.threshold);
        let answer = match self.scenario.is_qwen {
            true => {
                // The summary's own request tells them what it saves.
                let usage = json!({ "promptTokenCount": LIMIT, "candidatesTokenCount": 10 });
                let question = json!({
                    "history": history, "window": LIMIT, "originalTokenCount": tokens, "threshold": threshold,
                    "answers": [{ "text": words, "usageMetadata": usage }], "whole": true,
                });
                self.ask("compress15", question)?
            }
            false => {
                let question = json!({
                    "history": history, "tokens": [tokens, 10], "threshold": threshold, "answer": words, "whole": true,
                });
                self.ask("tryCompressChat", question)?
            }
        };
        let messages = self.messages(end);
        let cut = answer["summarized"].as_u64().map(|summarized| {
            let at = (summarized as usize).checked_sub(self.front.len());
            at.map_or(0, |at| Contents::of(messages).message(at, messages.len()))
        });
        let history = answer["history"].as_array().cloned().unwrap_or_default();
        Ok(Theirs { cut, history, is_joined: answer["joined"] == true })
    }

    fn ask(&mut self, function: &str, arguments: Value) -> Result<Value, PeerFailure> {
        let failed = |error: String| json!({ "summarized": 0, "history": [{ "error": error }] });
        self.peer.ask(function, arguments, failed)
    }

    fn record(&mut self, what: &'static str, input: &Value, ours: Value, theirs: Value, why: Option<&'static Class>) {
        self.report.compare(what, self.scenario.index, input, &ours, &Ok(theirs), |_, _| why);
    }

    /// Compares our compression with theirs, or with the one that they would make now.
    fn compare(
        &mut self,
        position: usize,
        end: usize,
        theirs: Option<Theirs>,
        (first, view): (usize, Vec<Value>),
        number: usize,
    ) -> Result<(), PeerFailure> {
        let input = self.input(position, end);
        let made = theirs.filter(|theirs| theirs.cut.is_some());
        let why = if made.is_some() { None } else { self.due(end, position)? };
        self.record("moment", &input, json!(true), json!(made.is_some()), why);
        let theirs = match made {
            Some(theirs) => theirs,
            None => self.compress(end, LIMIT, number)?,
        };
        let ours = first - self.first;
        let cut = theirs.cut.unwrap_or_default();
        let forced = harm::nearest(self.messages(end), cut);
        let why = if cut == 0 {
            (self.first_behind(0, end)? == Some(ours)).then_some(ALONE)
        } else if forced != cut && forced == ours {
            Some(UNANSWERED)
        } else if forced < ours && self.frees_nothing(&theirs, end)? {
            (self.first_behind(forced, end)? == Some(ours)).then_some(FREES)
        } else {
            None
        };
        self.record("boundary", &input, json!(ours), json!(theirs.cut), why);
        if theirs.cut == Some(ours) {
            self.compare_views(&input, first, end, &view, &theirs);
        }
        self.compacted = Some(position + 1);
        // Both sides continue after our compression.
        self.front = view.iter().take(2).cloned().collect();
        self.first = first;
        Ok(())
    }

    fn compare_views(&mut self, input: &Value, first: usize, end: usize, view: &[Value], theirs: &Theirs) {
        let style = &self.scenario.policy.view;
        let resume = style.resume_text.as_deref().unwrap_or_default();
        let of_user = |text: &str| json!({ "role": "user", "parts": [{ "text": text }] });
        let is_resumed = view.get(2) == Some(&of_user(resume));
        // Messages after the last reply are not in their history yet.
        let answered = Contents::of(&self.scenario.messages[first.min(end)..end]).len();
        let bare = without_made_up(view, &style.interrupted_text);
        let shown: Vec<Value> = bare.iter().take(2 + usize::from(is_resumed) + answered).cloned().collect();
        let mut history = theirs.history.clone();
        if let Some(bridge) = history.get_mut(2).filter(|content| **content == of_user(BRIDGE)) {
            *bridge = of_user(resume);
        }
        let why = if theirs.is_joined {
            (joined(&shown, resume) == joined(&history, resume)).then_some(JOINED)
        } else {
            (bare.len() != view.len() || bare != view).then_some(PAIRED).filter(|_| shown == history)
        };
        let ours = if bare == view { shown } else { view.to_vec() };
        self.record("view", input, json!(ours), json!(history), why);
    }

    /// The boundary of their own function with the first smaller tail that has more in front of it than a boundary; 0 is
    /// that behind the summary.
    fn first_behind(&mut self, boundary: usize, end: usize) -> Result<Option<usize>, PeerFailure> {
        for halvings in 1..=HALVINGS {
            let fraction = 1.0 - KEPT_SHARE / f64::from(1_u32 << halvings);
            let contents = self.history(end);
            let (function, question) = match self.scenario.is_qwen {
                true => {
                    let question = json!({ "contents": contents, "fraction": fraction, "retainCount": 2 });
                    ("findCompressSplitPoint15", question)
                }
                false => {
                    let preserve = KEPT_SHARE / f64::from(1_u32 << halvings);
                    let question =
                        json!({ "history": contents, "tokens": [LIMIT, 10], "preserve": preserve, "answer": "x" });
                    ("tryCompressChat", question)
                }
            };
            let answer = self.ask(function, question)?;
            let summarized = if self.scenario.is_qwen { answer } else { answer["summarized"].clone() };
            let messages = self.messages(end);
            let at = summarized.as_u64().and_then(|at| (at as usize).checked_sub(self.front.len()));
            let cut = at.map_or(0, |at| Contents::of(messages).message(at, messages.len()));
            let harmless = harm::nearest(messages, cut);
            if harmless > boundary {
                return Ok(Some(harmless));
            }
        }
        Ok(None)
    }

    /// The class if only we compress: with the estimate of what was written since the last reply it is due.
    fn due(&mut self, end: usize, position: usize) -> Result<Option<&'static Class>, PeerFailure> {
        // Qwen Code's prompt does not include the last reply either.
        let from = if self.scenario.is_qwen { end.saturating_sub(1) } else { end };
        let since = &self.scenario.messages[from..end.max(position + 1)];
        let (since, count) = (since.to_vec(), since.len());
        let tokens = self.tokens + self.estimate(&since)?;
        Ok((count > 0 && tokens >= self.scenario.threshold).then_some(MOMENT))
    }

    /// The tokens of messages by the agent's own estimate, in its later version.
    fn estimate(&mut self, messages: &[SourceMessage]) -> Result<i64, PeerFailure> {
        let answer = match self.scenario.is_qwen {
            true => {
                let contents = Contents::with_call_ids(messages).json();
                self.ask("estimateContentTokens", json!({ "contents": contents }))?
            }
            false => self.ask("estimateTokenCountSync", json!({ "parts": Contents::of(messages).parts() }))?,
        };
        Ok(answer.as_i64().unwrap_or_default())
    }

    /// The class if only they compress: we wait, or nothing answered can be summarized, or nothing that frees something.
    fn refusal(&mut self, end: usize, theirs: &Theirs) -> Result<Option<&'static Class>, PeerFailure> {
        let cut = theirs.cut.unwrap_or_default();
        if cut == 0 {
            return Ok(Some(ALONE));
        }
        let harmless = harm::nearest(self.messages(end), cut);
        if harmless == 0 {
            return Ok(Some(UNANSWERED));
        }
        let head = self.messages(end)[..harmless].to_vec();
        // The minimum that replaces it: a summary of one letter, and its acknowledgement.
        let acknowledgement = self.scenario.policy.view.acknowledgement.as_deref().map_or(0, str::len);
        if self.estimate(&head)? <= 1 + acknowledgement as i64 / 4 {
            return Ok(Some(FREES));
        }
        let Some(compacted) = self.compacted else { return Ok(None) };
        let since = self.scenario.messages[compacted.min(end)..end].to_vec();
        Ok((self.estimate(&since)? < self.scenario.threshold / 4).then_some(WAITS))
    }

    /// Reports a compression that we refuse: theirs frees nothing.
    fn refused(&mut self, position: usize, end: usize, number: usize) -> Result<(), PeerFailure> {
        let theirs = self.compress(end, LIMIT, number)?;
        let why = self.frees_nothing(&theirs, end)?.then_some(FREES);
        let input = self.input(position, end);
        self.record("refusal", &input, json!(true), json!(theirs.cut.is_none()), why);
        Ok(())
    }

    /// True if their compression frees nothing when what nobody has answered stays.
    fn frees_nothing(&mut self, theirs: &Theirs, end: usize) -> Result<bool, PeerFailure> {
        let parts = |contents: &[Value]| -> Vec<Value> {
            contents.iter().flat_map(|content| content["parts"].as_array().cloned().unwrap_or_default()).collect()
        };
        let before = self.history(end);
        let messages = self.messages(end);
        let cut = theirs.cut.unwrap_or_default();
        let harmless = harm::nearest(messages, cut);
        let stays = if (1..cut).contains(&harmless) { harmless..cut } else { cut..cut };
        let after = [theirs.history.clone(), Contents::of(&messages[stays]).json()].concat();
        // Each part of ours is rounded up, and the sum of theirs down.
        let rounding = parts(&after).len() as i64;
        let (function, before, after) = match self.scenario.is_qwen {
            true => ("estimateContentTokens", json!({ "contents": before }), json!({ "contents": after })),
            false => {
                let of = |contents: &[Value]| json!({ "parts": parts(contents) });
                ("estimateTokenCountSync", of(&before), of(&after))
            }
        };
        let (before, after) = (self.ask(function, before)?.as_i64(), self.ask(function, after)?.as_i64());
        Ok(before.zip(after).is_some_and(|(before, after)| after + rounding >= before))
    }
}

/// Contents with running calls in the acknowledgement, and without the request to continue in between.
fn joined(contents: &[Value], resume: &str) -> Vec<Value> {
    let is_resume = |content: &Value| content["parts"] == json!([{ "text": resume }]);
    let mut list: Vec<Value> = Vec::new();
    for content in contents.iter().filter(|content| !is_resume(content)) {
        match list.last_mut().filter(|last| last["role"] == "model" && content["role"] == "model") {
            Some(last) => {
                let mut parts = last["parts"].as_array().cloned().unwrap_or_default();
                let more = content["parts"].as_array().into_iter().flatten();
                parts.extend(more.filter(|part| part.get("functionCall").is_some()).cloned());
                last["parts"] = json!(parts);
            }
            None => list.push(content.clone()),
        }
    }
    list
}

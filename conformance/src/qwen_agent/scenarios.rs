//! Scenarios of Qwen-Agent: a conversation grows message by message, and each side decides by itself when it truncates,
//! and what.
//!
//! Qwen-Agent decides before every request, from the list that its application keeps. Here that list is our view, because
//! what we have truncated stays so. The limit is a share of the conversation, so that a scenario has several truncations.

use super::{Case, Kind, OMITTED_WORDS, PROFILE, QwenAgent, REFUSED, explain, is_system, name_media, pieces};
use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile};
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use crate::session::{Session, as_appended};
use longhand::model::ids::PartId;
use longhand::model::message::{Message, Role};
use longhand::model::part::{Part, PartBody};
use longhand::model::usage::ModelWindow;
use longhand::model::view::{SourceMessage, ViewKind};
use longhand::policy::bpe::{self, Encoding};
use longhand::policy::summary::SummaryInput;
use longhand::policy::tokens::estimate_source;
use longhand::policy::{Limit, Policy, RESUME_TEXT};
use longhand::presets;
use rand::Rng;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The scenarios of releases with one of the two algorithms.
pub(crate) struct Scenarios {
    name: &'static str,
    agent: &'static QwenAgent,
    classes: &'static [Class],
}

pub(crate) const OLD: Scenarios =
    Scenarios { name: "qwen-agent-old-scenarios", agent: &super::OLD, classes: &OLD_CLASSES };
pub(crate) const CURRENT: Scenarios =
    Scenarios { name: "qwen-agent-scenarios", agent: &super::CURRENT, classes: &CURRENT_CLASSES };

/// A truncation that is not worth it yet.
const LITTLE: Class = Class {
    name: "a little again waits",
    reason: Reason::P12,
    explanation: "The truncation before this one freed less than a twentieth of the window, no request came since, and this \
                  one would free as little without running calls; Qwen-Agent truncates before every request.",
    test: ("tests/it/usage.rs", "a_small_threshold_in_a_large_window_is_applied_again_and_again"),
};

/// The end of a scenario whose view Qwen-Agent would not make fit.
const FITS: Class = Class {
    name: "a view fits",
    reason: Reason::P15,
    explanation: "The view exceeds its window: we truncate once more at once, or our last resort does, and the scenario \
                  ends there.",
    test: ("tests/it/window_fit.rs", "the_last_resort_fits_a_view_that_the_policy_cannot"),
};

/// A truncation that frees nothing.
const NOTHING: Class = Class {
    name: "a truncation frees something new",
    reason: Reason::P12,
    explanation: "Nothing that counts was written since the truncation before, or what goes has no more tokens than the \
                  words in its place, such as those before a reply at the beginning of a view, or is a running call; \
                  Qwen-Agent truncates before every request.",
    test: ("tests/it/guards.rs", "levels_that_have_helped_cool_down_as_the_policy_says"),
};

/// What went before is counted once.
const TWICE: Class = Class {
    name: "what is gone frees nothing again",
    reason: Reason::Named("What is truncated and left out is recorded once and stays so"),
    explanation: "Qwen-Agent, given the words in place of what went before, counts them as freed once more, and its list \
                  exceeds the limit by as many tokens; it cuts as we do under a limit that is lower by these.",
    test: ("crates/presets/src/qwen_agent/turns_and_steps/tests.rs", "what_is_gone_already_frees_nothing_again"),
};

static CURRENT_CLASSES: [Class; 9] = [
    LITTLE,
    FITS,
    NOTHING,
    TWICE,
    super::CURRENT_CLASSES[2],
    super::CURRENT_CLASSES[3],
    super::CURRENT_CLASSES[4],
    super::CURRENT_CLASSES[5],
    super::CURRENT_CLASSES[6],
];

static OLD_CLASSES: [Class; 7] =
    [LITTLE, FITS, NOTHING, super::OLD_CLASSES[2], super::OLD_CLASSES[3], super::OLD_CLASSES[4], super::OLD_CLASSES[5]];

const GROWING: Profile = Profile { turns: 3..=14, ..PROFILE };

/// The window in limits: what nobody has answered may exceed the limit.
const WINDOW_LIMITS: i64 = 2;

/// A compaction frees one part of this number of the window, or little.
const WINDOW_PARTS: i64 = 20;

impl System for Scenarios {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static str {
        self.agent.name
    }

    fn classes(&self) -> &'static [Class] {
        self.classes
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.scenario_indexes() {
            let scenario = Scenario::draw(self.agent, run.seed, index);
            Course { classes: self.classes, peer: &mut *peer, report: &mut *report, scenario: &scenario }
                .run(run.daemon)?;
        }
        Ok(())
    }
}

/// The data of a scenario.
struct Scenario {
    conversation: Conversation,
    policy: Policy,
    max_tokens: i64,
}

impl Scenario {
    fn draw(agent: &QwenAgent, seed: u64, index: u64) -> Self {
        let mut conversation = Conversation::generate(seed, index, &GROWING);
        conversation.messages.iter_mut().for_each(name_media);
        let policy = presets::policy(agent.preset).with_overrides(r#"{"guards":{"minimum_gain_tokens":1}}"#);
        let mut policy = policy.unwrap_or_else(|error| panic!("{error}"));
        let estimate = |source: &SourceMessage| estimate_source(&policy, source);
        let instructions: i64 = conversation.messages.iter().filter(|source| is_system(source)).map(estimate).sum();
        let all: i64 = conversation.messages.iter().map(estimate).sum();
        let mut dice = conversation.dice("scenario");
        let max_tokens = instructions + ((all - instructions) / dice.random_range(2..8)).max(1);
        let level_policy = policy.auto.as_mut().expect("the preset has a level");
        level_policy.threshold.limit = Limit::Tokens(max_tokens);
        Self { conversation, policy, max_tokens }
    }

    /// The question about the messages of our view.
    fn case(&self, session: &Session<'_>) -> Case {
        self.flat(shown(session))
    }

    /// The question about some messages.
    fn flat(&self, messages: Vec<SourceMessage>) -> Case {
        let mut conversation = self.conversation.clone();
        conversation.messages = messages;
        let estimate = |source: &SourceMessage| estimate_source(&self.policy, source);
        let instructions: i64 = conversation.messages.iter().filter(|source| is_system(source)).map(estimate).sum();
        Case {
            pieces: pieces(&conversation.messages),
            conversation,
            policy: self.policy.clone(),
            text_tokens: 0,
            both: false,
            max_tokens: self.max_tokens,
            free_tokens: self.max_tokens - instructions,
        }
    }
}

/// The messages of our view, as they are shown, without the results that Longhand adds, and with those that say nothing,
/// which no view shows and Qwen-Agent's list has.
fn shown(session: &Session<'_>) -> Vec<SourceMessage> {
    let parts = session.view().messages.iter().flat_map(|message| &message.parts);
    let shown: HashMap<PartId, _> = parts.filter_map(|part| Some((part.source?, &part.body))).collect();
    let says_something = |part: &Part| match &*part.body {
        PartBody::Text(text) => !text.is_empty(),
        PartBody::Media(_) | PartBody::ToolCall(_) | PartBody::ToolResult(_) => true,
        _ => false,
    };
    let as_shown = |source: &SourceMessage| {
        let parts = source.message.parts.iter();
        let left =
            parts.clone().filter_map(|part| Some(Part { body: (*shown.get(&part.id)?).clone(), ..part.clone() }));
        let left: Vec<Part> = left.collect();
        if left.is_empty() && parts.clone().any(says_something) {
            return None;
        }
        let message = Message { parts: left, ..(*source.message).clone() };
        Some(SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None })
    };
    session.sources().iter().filter_map(as_shown).collect()
}

/// A running scenario.
struct Course<'a> {
    classes: &'static [Class],
    peer: &'a mut Peer,
    report: &'a mut Report,
    scenario: &'a Scenario,
}

impl Course<'_> {
    fn run(&mut self, daemon: Option<&Daemon>) -> Result<(), PeerFailure> {
        let scenario = self.scenario;
        let window = ModelWindow { context: WINDOW_LIMITS * scenario.max_tokens, ..ModelWindow::default() };
        let no_summary = |_: &SummaryInput| String::new();
        let mut session = Session::new(daemon, &scenario.policy, &window, &no_summary)?;
        for position in 0..scenario.conversation.messages.len() {
            let is_reply = scenario.conversation.messages[position].message.role == Role::Assistant;
            session.append(&as_appended(&scenario.conversation.messages[position], None), is_reply)?;
            if session.view().messages.iter().any(|message| message.kind == ViewKind::Filler) {
                // Qwen-Agent refuses a list that does not begin with a request.
                return Ok(());
            }
            let case = scenario.case(&session);
            let tokens = session.context_tokens();
            let made = session.simulated().len();
            let compacted = session.compact_once()?;
            let input = json!({ "place": position, "limit": scenario.max_tokens, "tokens": tokens });
            // A last resort that finds nothing is not among the compactions.
            let is_by_level = |session: &Session<'_>, made: usize| {
                session.simulated().get(made).is_some_and(|made| made.level.is_some())
            };
            let is_last_resort = !is_by_level(&session, made);
            if compacted && is_last_resort {
                let index = scenario.conversation.index;
                let why = self.class("a view fits").filter(|_| tokens > window.context);
                self.report.compare("moment", index, &input, &json!("last resort"), &Ok(json!(true)), |_, _| why);
                return Ok(());
            }
            self.compare(&case, &session, compacted, &input)?;
            // Its pass never runs on its own result.
            let exceeds = compacted && session.context_tokens() > window.context;
            let mut again = 0;
            while compacted && session.compact_once()? {
                again += 1;
                if !is_by_level(&session, made + again) {
                    return Ok(());
                }
            }
            if compacted {
                let index = scenario.conversation.index;
                let why = self.class(FITS.name).filter(|_| exceeds);
                self.report.compare("again", index, &input, &json!(again), &Ok(json!(0)), |_, _| why);
            }
        }
        Ok(())
    }

    /// Compares what is left of each message.
    fn compare(
        &mut self,
        case: &Case,
        session: &Session<'_>,
        compacted: bool,
        input: &Value,
    ) -> Result<(), PeerFailure> {
        let question = case.question("truncate");
        let answer = self.peer.call_all(vec![("truncate", question.clone())])?.pop();
        let answer = answer.unwrap_or_else(|| Err("no answer".to_owned()));
        let theirs = case.aligned(answer.clone());
        let is_refused = theirs.as_ref().is_err_and(|words| words == REFUSED);
        let untouched: Vec<Value> = (0..case.pieces.len()).map(|index| case.original(index)).collect();
        let ours = match is_refused && !compacted {
            true => json!({ "error": REFUSED }),
            false => case.states(session.view()),
        };
        let index = self.scenario.conversation.index;
        let classes = self.classes;
        let why = |ours: &Value, theirs: &Value| explain(classes, case, "truncate", ours, theirs);
        let states = theirs.as_ref().ok().filter(|states| **states != ours && !is_refused);
        let waits = match states {
            Some(states) if !compacted => {
                let before = self.counted(&question["messages"])?;
                let running = case.running().filter(|&index| states[index].is_null());
                let running: Vec<&Value> = running.map(|index| &question["messages"][index]).collect();
                let freed = before - self.counted(&answer.unwrap_or_default())? - self.counted(&json!(running))?;
                self.waits(case, session, states, freed, input)?
            }
            _ => None,
        };
        let is_twice = match states {
            Some(states) if waits.is_none() => self.counts_twice(case, &ours, states)?,
            _ => false,
        };
        let twice = self.class("what is gone frees nothing again").filter(|_| is_twice);
        if !is_refused {
            let acts = theirs.as_ref().map(|states| json!(*states != json!(untouched))).map_err(Clone::clone);
            let answer = theirs.clone().unwrap_or_else(|words| json!({ "error": words }));
            let class = why(&ours, &answer).or(waits).or(twice);
            self.report.compare("moment", index, input, &json!(compacted), &acts, |_, _| class);
        }
        if waits.is_none() {
            let why = |ours: &Value, theirs: &Value| why(ours, theirs).or(twice);
            self.report.compare("truncate", index, &question, &ours, &theirs, why);
        }
        Ok(())
    }

    fn class(&self, name: &str) -> Option<&'static Class> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// True if theirs is ours under a limit that is lower by the words in place of what went before, which it counts as
    /// freed in the turn that it cuts.
    fn counts_twice(&mut self, case: &Case, ours: &Value, theirs: &Value) -> Result<bool, PeerFailure> {
        let differs = |index: &usize| ours[*index] != theirs[*index];
        let Some(at) = (0..case.pieces.len()).find(differs) else { return Ok(false) };
        let kind = |index: usize| case.pieces[index].kind;
        let is_request = |index: &usize| kind(*index) == Kind::Request;
        let first = (0..=at).rev().find(is_request).unwrap_or(0);
        let end = (at + 1..case.pieces.len()).find(is_request).unwrap_or(case.pieces.len());
        let is_gone = |index: &usize| {
            let is_squeezed = *index < at && (kind(at) != Kind::Result || kind(*index) == Kind::Result)
                || kind(at) != Kind::Result && kind(*index) == Kind::Result;
            is_squeezed && case.original(*index)["text"] == OMITTED_WORDS && !theirs[*index].is_null()
        };
        let gone = (first..end).filter(is_gone).count();
        if gone == 0 {
            return Ok(false);
        }
        let mut question = case.question("truncate");
        question["max_tokens"] = json!(case.max_tokens - gone as i64);
        let answer = self.peer.call_all(vec![("truncate", question)])?.pop();
        let again = case.aligned(answer.unwrap_or_else(|| Err("no answer".to_owned())));
        // Under the lower limit a turn that is all words in place of others may go whole; ours has no tokens for that.
        let is_left = |index: usize, again: &Value| {
            (first..end).contains(&index) && again.is_null() && ours[index]["text"] == OMITTED_WORDS
        };
        Ok(again.is_ok_and(|again| {
            let same = |index| again[index] == ours[index] || is_left(index, &again[index]);
            (0..case.pieces.len()).all(same) || explain(self.classes, case, "truncate", ours, &again).is_some()
        }))
    }

    /// The class if only they truncate: nothing that counts was written since our newest truncation, or that freed little
    /// and no request came since, and theirs would free little now, or nothing in a view. Nothing frees a running call.
    fn waits(
        &mut self,
        case: &Case,
        session: &Session<'_>,
        theirs: &Value,
        freed: i64,
        input: &Value,
    ) -> Result<Option<&'static Class>, PeerFailure> {
        let position = input["place"].as_u64().unwrap_or_default() as usize;
        let nothing = self.class(NOTHING.name);
        let stays = |index: &usize| case.pieces[*index].kind != Kind::System && !theirs[*index].is_null();
        let begins_with_reply =
            (0..case.pieces.len()).find(stays).is_some_and(|first| case.pieces[first].kind != Kind::Request);
        let words = if begins_with_reply { bpe::count(Encoding::Qwen, RESUME_TEXT) } else { 0 };
        if freed <= words {
            return Ok(nothing);
        }
        let Some(newest) = session.simulated().last() else { return Ok(None) };
        let since = &self.scenario.conversation.messages[newest.message.min(position)..=position];
        let has_request = since.iter().any(|source| source.message.role == Role::User);
        let is_little = newest.refused || newest.before_tokens - newest.after_tokens < self.least();
        if is_little && (newest.refused || !has_request) && freed < self.least() {
            return Ok(self.class(LITTLE.name));
        }
        let since = self.scenario.flat(since.to_vec());
        let answer = self.peer.call_all(vec![("messageTokens", since.question("messageTokens"))])?.pop();
        let counted = answer.and_then(Result::ok).unwrap_or_default();
        let is_silent = |counts: &Value| counts["text"] == 0 && (self.ignores_calls() || counts["call"].is_null());
        Ok(nothing.filter(|_| counted.as_array().is_some_and(|counted| counted.iter().all(is_silent))))
    }

    /// Tokens of some messages as Qwen-Agent counts them: a call in place of the text beside it.
    fn counted(&mut self, messages: &Value) -> Result<i64, PeerFailure> {
        let left: Vec<&Value> =
            messages.as_array().into_iter().flatten().filter(|message| !message.is_null()).collect();
        let answer = self.peer.call_all(vec![("messageTokens", json!({ "messages": left }))])?.pop();
        let counts = answer.unwrap_or_else(|| Err("no answer".to_owned())).map_err(|words| PeerFailure::new(&words))?;
        let tokens = |counts: &Value| {
            let call = counts["call"].as_i64().filter(|_| !self.ignores_calls());
            call.or(counts["text"].as_i64()).unwrap_or_default()
        };
        Ok(counts.as_array().into_iter().flatten().map(tokens).sum())
    }

    /// True for the releases that count texts alone.
    fn ignores_calls(&self) -> bool {
        self.classes.len() == OLD_CLASSES.len()
    }

    /// The least that a truncation frees if the one before it freed less.
    fn least(&self) -> i64 {
        WINDOW_LIMITS * self.scenario.max_tokens / WINDOW_PARTS
    }
}

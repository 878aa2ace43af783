//! Scenarios of Qwen-Agent: a conversation grows message by message, and each side decides by itself when it truncates,
//! and what.
//!
//! Qwen-Agent decides before every request, from the list that its application keeps. Here that list is our view, because
//! what we have truncated stays so. The limit is a share of the conversation, so that a scenario has several truncations.

use super::{Case, PROFILE, QwenAgent, REFUSED, is_system, name_media, pieces};
use crate::daemon::Daemon;
use crate::generate::{Conversation, Profile};
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Report};
use crate::session::{Session, as_appended};
use longhand::model::message::Role;
use longhand::model::part::Part;
use longhand::model::usage::ModelWindow;
use longhand::model::view::{SourceMessage, ViewKind};
use longhand::policy::bpe::{self, Encoding};
use longhand::policy::summary::SummaryInput;
use longhand::policy::tokens::estimate_source;
use longhand::policy::{Limit, Policy, presets};
use rand::Rng;
use serde_json::{Value, json};

/// The scenarios of releases with one of the two algorithms.
pub(crate) struct Scenarios {
    name: &'static str,
    agent: &'static QwenAgent,
}

pub(crate) const OLD: Scenarios = Scenarios { name: "qwen-agent-old-scenarios", agent: &super::OLD };
pub(crate) const CURRENT: Scenarios = Scenarios { name: "qwen-agent-scenarios", agent: &super::CURRENT };

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
        self.agent.classes
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.scenario_indexes() {
            let scenario = Scenario::draw(self.agent, run.seed, index);
            Course { agent: self.agent, peer: &mut *peer, report: &mut *report, scenario: &scenario }
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
        let mut conversation = self.conversation.clone();
        conversation.messages = shown(session);
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

/// The messages of our view, as they are shown, without the results that Longhand adds.
fn shown(session: &Session<'_>) -> Vec<SourceMessage> {
    let mut messages: Vec<SourceMessage> = Vec::new();
    for message in session.view().messages.iter().filter(|message| message.kind == ViewKind::Shown) {
        let source = session.sources().iter().find(|source| source.message.revision == message.revision);
        let Some(mut source) = source.cloned() else { continue };
        let parts = message.parts.iter().filter_map(|part| {
            let stored = source.message.parts.iter().find(|stored| Some(stored.id) == part.source)?;
            Some(Part { body: part.body.clone(), ..stored.clone() })
        });
        source.message.parts = parts.collect();
        source.pruned.clear();
        source.counts = None;
        // A view may split a message around the results of its calls.
        match messages.iter_mut().find(|other| other.message.revision == message.revision) {
            Some(other) => other.message.parts.extend(source.message.parts.iter().cloned()),
            None => messages.push(source),
        }
    }
    messages
}

/// A running scenario.
struct Course<'a> {
    agent: &'static QwenAgent,
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
            let compacted = session.compact_once()?;
            let input = json!({ "place": position, "limit": scenario.max_tokens, "tokens": tokens });
            let is_last_resort = session.simulated().last().is_some_and(|made| made.level.is_none());
            if compacted && is_last_resort {
                let index = scenario.conversation.index;
                let why = self.class("a view fits").filter(|_| tokens > window.context);
                self.report.compare("moment", index, &input, &json!("last resort"), &Ok(json!(true)), |_, _| why);
                return Ok(());
            }
            if !self.compare(&case, &session, compacted, &input)? {
                return Ok(());
            }
            // Its pass never runs on its own result.
            let mut again = 0;
            while compacted && session.compact_once()? {
                if session.simulated().last().is_some_and(|made| made.level.is_none()) {
                    return Ok(());
                }
                again += 1;
            }
            if compacted {
                let index = scenario.conversation.index;
                self.report.compare("again", index, &input, &json!(again), &Ok(json!(0)), |_, _| None);
            }
        }
        Ok(())
    }

    /// Compares what is left of each message. False if the scenario ends here.
    fn compare(
        &mut self,
        case: &Case,
        session: &Session<'_>,
        compacted: bool,
        input: &Value,
    ) -> Result<bool, PeerFailure> {
        let question = case.question("truncate");
        let answer = self.peer.call_all(vec![("truncate", question.clone())])?.pop();
        let theirs = case.aligned(answer.unwrap_or_else(|| Err("no answer".to_owned())));
        let is_refused = theirs.as_ref().is_err_and(|words| words == REFUSED);
        let untouched: Vec<Value> = (0..case.pieces.len()).map(|index| case.original(index)).collect();
        let ours = match is_refused && !compacted {
            true => json!({ "error": REFUSED }),
            false => case.states(session.view()),
        };
        let index = self.scenario.conversation.index;
        let agent = self.agent;
        let why = |ours: &Value, theirs: &Value| agent.explain(case, "truncate", ours, theirs);
        let little = self.class("a little again waits");
        let waits = !compacted && theirs.as_ref().is_ok_and(|states| self.waits(case, session, states, input));
        if !is_refused {
            let acts = theirs.as_ref().map(|states| json!(*states != json!(untouched))).map_err(Clone::clone);
            let class = theirs.as_ref().ok().and_then(|theirs| why(&ours, theirs)).or(little.filter(|_| waits));
            self.report.compare("moment", index, input, &json!(compacted), &acts, |_, _| class);
        }
        if waits && theirs.as_ref().is_ok_and(|theirs| *theirs != ours) {
            return Ok(true);
        }
        self.report.compare("truncate", index, &question, &ours, &theirs, why);
        Ok(true)
    }

    fn class(&self, name: &str) -> Option<&'static Class> {
        self.agent.classes.iter().find(|class| class.name == name)
    }

    /// True if our newest truncation freed little, no request came since, and theirs would free little now.
    fn waits(&self, case: &Case, session: &Session<'_>, theirs: &Value, input: &Value) -> bool {
        let Some(newest) = session.simulated().last() else { return false };
        let least = WINDOW_LIMITS * self.scenario.max_tokens / WINDOW_PARTS;
        let since = self.scenario.conversation.messages.iter().skip(newest.message);
        let position = input["place"].as_u64().unwrap_or_default() as usize;
        let since = since.take((position + 1).saturating_sub(newest.message));
        let has_request = since.clone().any(|source| source.message.role == Role::User);
        let texts = |states: &Value| -> i64 {
            let states = states.as_array().into_iter().flatten();
            let text = |state: &Value| {
                let texts = [state["text"].as_str(), state["call"].as_str()];
                texts.into_iter().flatten().map(|text| bpe::count(Encoding::Qwen, text)).sum::<i64>()
            };
            states.map(text).sum()
        };
        let untouched: Vec<Value> = (0..case.pieces.len()).map(|index| case.original(index)).collect();
        let freed = texts(&json!(untouched)) - texts(theirs);
        let is_little = newest.refused || newest.before_tokens - newest.after_tokens < least;
        is_little && (newest.refused || !has_request) && freed < least
    }
}

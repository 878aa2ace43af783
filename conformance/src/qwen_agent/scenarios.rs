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
use crate::session::Session;
use longhand::model::message::{Finish, NewMessage, Role};
use longhand::model::part::{NewPart, Part};
use longhand::model::usage::ModelWindow;
use longhand::model::view::{SourceMessage, ViewKind};
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

/// A window that nothing reaches: a request fits if it is within Qwen-Agent's own limit.
const WINDOW_TOKENS: i64 = 1_000_000;

impl System for Scenarios {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static str {
        self.agent.name
    }

    fn program(&self) -> &'static str {
        self.agent.name
    }

    fn classes(&self) -> &'static [Class] {
        self.agent.classes
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.first..run.first.saturating_add(run.scenarios) {
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

    fn new_message(&self, position: usize) -> NewMessage<Option<String>> {
        let message = &self.conversation.messages[position].message;
        let parts = message.parts.iter().map(|part| NewPart::new(part.body.clone()));
        NewMessage {
            // Qwen-Agent does not look at usage.
            finish: Some(Finish { reason: message.finish.reason, ..Finish::default() }),
            origin_time: message.origin_time,
            ..NewMessage::sealed(message.role, parts.collect())
        }
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
        let window = ModelWindow { context: WINDOW_TOKENS, ..ModelWindow::default() };
        let no_summary = |_: &SummaryInput| String::new();
        let mut session = Session::new(daemon, &scenario.policy, &window, &no_summary)?;
        for position in 0..scenario.conversation.messages.len() {
            let is_reply = scenario.conversation.messages[position].message.role == Role::Assistant;
            session.append(&scenario.new_message(position), is_reply)?;
            if session.view().messages.iter().any(|message| message.kind == ViewKind::Filler) {
                // Qwen-Agent refuses a list that does not begin with a request.
                return Ok(());
            }
            let case = scenario.case(&session);
            let compacted = session.compact_once()?;
            self.compare(&case, &session, compacted)?;
            // Its pass never runs on its own result.
            let mut again = 0;
            while compacted && session.compact_once()? {
                again += 1;
            }
            if compacted {
                let index = scenario.conversation.index;
                let input = json!({ "place": position, "limit": scenario.max_tokens });
                self.report.compare("again", index, &input, &json!(again), &Ok(json!(0)), |_, _| None);
            }
        }
        Ok(())
    }

    /// Compares what is left of each message.
    fn compare(&mut self, case: &Case, session: &Session<'_>, compacted: bool) -> Result<(), PeerFailure> {
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
        if !is_refused {
            let acts = theirs.as_ref().map(|states| json!(*states != json!(untouched))).map_err(Clone::clone);
            let class = theirs.as_ref().ok().and_then(|theirs| why(&ours, theirs));
            self.report.compare("moment", index, &question, &json!(compacted), &acts, |_, theirs| {
                class.or_else(|| why(&ours, theirs))
            });
        }
        self.report.compare("truncate", index, &question, &ours, &theirs, why);
        Ok(())
    }
}

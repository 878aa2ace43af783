//! smolagents: the truncation of outputs, and the text of its steps in summary mode.

use crate::generate::{Conversation, Profile, Results};
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::Report;
use longhand::model::message::Role;
use longhand::model::part::{PartBody, ToolCall};
use longhand::model::view::SourceMessage;
use longhand::policy::{Policy, PolicyStep, Transcript, plan};
use longhand::presets;
use rand::Rng;
use serde_json::{Value, json};

pub(crate) struct Smolagents;

/// Outputs as long as the limit, and longer. A step of smolagents is a reply with its calls and their results.
const PROFILE: Profile = Profile {
    turns: 1..=5,
    text_max: 600,
    output_max: 30_000,
    media: false,
    interruptions: false,
    results: Results::WithCall,
    ..Profile::FULL
};

impl System for Smolagents {
    fn name(&self) -> &'static str {
        "smolagents"
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for batch in run.batches() {
            let cases: Vec<Case> = batch.map(|index| Case::draw(run.seed, index)).collect();
            for (function, question, ours) in [
                ("truncateContent", Case::texts as fn(&Case) -> Value, Case::truncated as fn(&Case) -> Value),
                ("toMessages", Case::steps, Case::written_out),
            ] {
                let calls = cases.iter().map(|case| (function, question(case))).collect();
                for (case, theirs) in cases.iter().zip(peer.call_all(calls)?) {
                    let index = case.conversation.index;
                    let theirs = if function == "toMessages" { lines(theirs) } else { theirs };
                    report.compare(function, index, &question(case), &ours(case), &theirs, |_, _| None);
                }
            }
        }
        Ok(())
    }
}

/// A conversation, and a limit on its outputs.
struct Case {
    conversation: Conversation,
    policy: Policy,
}

impl Case {
    fn draw(seed: u64, index: u64) -> Self {
        let conversation = Conversation::generate(seed, index, &PROFILE);
        let mut dice = conversation.dice("limits");
        let mut policy = presets::policy("smolagents");
        let rule = policy.truncate.as_mut().expect("the preset truncates");
        // Half of the cases have the default limit.
        if dice.random() {
            rule.max_units = (1.0 + dice.random_range(0.0..=10.0_f64).exp()) as u32;
        }
        Self { conversation, policy }
    }

    fn messages(&self) -> &[SourceMessage] {
        &self.conversation.messages
    }

    fn limit(&self) -> u32 {
        self.policy.truncate.as_ref().map_or(0, |rule| rule.max_units)
    }

    fn texts(&self) -> Value {
        let parts = self.messages().iter().flat_map(|source| &source.message.parts);
        let outputs = parts.filter_map(|part| match &*part.body {
            PartBody::ToolResult(result) => Some(result.output.as_str()),
            _ => None,
        });
        let texts: Vec<&str> = outputs.collect();
        if self.limit() == presets::policy("smolagents").truncate.map_or(0, |rule| rule.max_units) {
            return json!({ "texts": texts });
        }
        json!({ "texts": texts, "max": self.limit() })
    }

    /// The outputs in our view.
    fn truncated(&self) -> Value {
        let view = plan::view(&self.policy, self.messages());
        let parts = view.messages.into_iter().flat_map(|message| message.parts);
        let outputs = parts.filter_map(|part| match &*part.body {
            PartBody::ToolResult(result) => Some(result.output.clone()),
            _ => None,
        });
        outputs.collect()
    }

    /// The conversation as steps: in smolagents, a model's text before its calls is its thought, and its last text in a
    /// turn is a plan.
    fn steps(&self) -> Value {
        let steps: Vec<Value> = self.messages().iter().flat_map(steps).collect();
        json!({ "steps": steps, "summary_mode": true })
    }

    /// The text of the preset's transcript for a summary.
    fn written_out(&self) -> Value {
        let steps = self.policy.auto.iter().flat_map(|level_policy| &level_policy.steps);
        let mut transcripts = steps.filter_map(|step| match step {
            PolicyStep::Summarize(rule) => Some(&rule.summary.transcript),
            PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
        });
        let transcript = transcripts.next_back().expect("the preset summarizes");
        self.messages().iter().flat_map(|source| written(source, transcript)).collect()
    }
}

/// The steps of a message.
fn steps(source: &SourceMessage) -> Vec<Value> {
    let texts = texts(source);
    match source.message.role {
        Role::System => texts.iter().map(|text| json!({ "kind": "system", "prompt": text })).collect(),
        Role::User => texts.iter().map(|text| json!({ "kind": "task", "task": text })).collect(),
        Role::Assistant | Role::Tool => {
            let calls = calls(source);
            if calls.is_empty() {
                return texts.iter().map(|text| json!({ "kind": "planning", "plan": text })).collect();
            }
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| json!({ "name": call.tool, "arguments": call.input_json, "id": call.call_id }))
                .collect();
            vec![json!({
                "kind": "action",
                "model_output": texts.join("\n"),
                "tool_calls": calls,
                "observations": observations(source).join("\n"),
            })]
        }
    }
}

/// The transcript lines of a message: role and text, without the text of calls, which differs between agents.
fn written(source: &SourceMessage, transcript: &Transcript) -> Vec<Value> {
    let line = |role: &str, text: &str| json!([role, text]);
    let texts = texts(source);
    match source.message.role {
        Role::System => Vec::new(),
        Role::User => texts.iter().map(|text| line("user", &format!("New task:\n{text}"))).collect(),
        Role::Assistant | Role::Tool => {
            let thinks = texts.iter().filter(|_| transcript.reasoning).map(|text| line("assistant", text));
            let mut lines: Vec<Value> = thinks.collect();
            if !calls(source).is_empty() {
                lines.push(json!(["tool-call", null]));
                lines.push(line("tool-response", &format!("Observation:\n{}", observations(source).join("\n"))));
            }
            lines
        }
    }
}

/// The peer's messages in the same form.
fn lines(theirs: Result<Value, String>) -> Result<Value, String> {
    let line = |message: &Value| {
        let text = if message["role"] == "tool-call" { &Value::Null } else { &message["content"][0]["text"] };
        json!([message["role"], text])
    };
    theirs.map(|messages| messages.as_array().into_iter().flatten().map(line).collect())
}

fn texts(source: &SourceMessage) -> Vec<&str> {
    let texts = source.message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn calls(source: &SourceMessage) -> Vec<&ToolCall> {
    let calls = source.message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::ToolCall(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

fn observations(source: &SourceMessage) -> Vec<&str> {
    let outputs = source.message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::ToolResult(result) => Some(result.output.as_str()),
        _ => None,
    });
    outputs.collect()
}

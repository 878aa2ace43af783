//! An agent of the demo: requests the view before each reply, and appends the messages of its script.

use super::sample::{self, DemoTurn, ToolStep};
use crate::pb;
use anyhow::Context;
use longhand_client::{Client, Reason, View};
use std::time::Duration;

/// Timeout of a view request that waits for a pending compaction, in seconds.
const WAIT_SECONDS: i64 = 20;
/// Characters per token, by which the fictitious model counts its replies.
const CHARACTERS_PER_TOKEN: usize = 4;
/// Words that an agent with a pace writes in the time between two acts.
const WORDS_A_PACE: u32 = 12;
/// Part of the time of the agents that people have for an answer: a quarter.
const ANSWER_SHARE: u32 = 4;
/// Minimum time for an answer that the daemon accepts.
const ANSWER_TIME_MIN: Duration = Duration::from_secs(1);
/// Lease of a run, beside the time that people have for an answer.
const RUN_TIME: Duration = Duration::from_secs(120);

/// The messages that an agent wrote, and the views that it was given.
#[derive(Default)]
pub(super) struct AgentRecord {
    /// The messages, in the order of their acknowledgement.
    pub(super) sent: Vec<pb::NewMessage>,
    /// The views, in order.
    pub(super) views: Vec<View>,
}

/// Speed of agents that people watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time between two acts.
    act: Duration,
    /// Time that people have for an answer.
    answer: Duration,
}

impl Pace {
    /// The pace at which agents that take turns are done after about this time.
    pub(super) fn for_time(time: Duration, agents: &[&[DemoTurn]]) -> Self {
        let words = |turn: &DemoTurn| turn.conclusion.split_inclusive(' ').count() as u32;
        // The last act of a turn is to let the other one begin.
        let acts = |turn: &DemoTurn| turn.steps.len() as u32 + words(turn) / WORDS_A_PACE + 1;
        let acts: u32 = agents.iter().flat_map(|turns| *turns).map(acts).sum();
        let answer = time / ANSWER_SHARE;
        Self { act: (time - answer) / acts.max(1), answer: answer.max(ANSWER_TIME_MIN) }
    }
}

/// An agent at a front end.
pub(super) struct Agent {
    name: &'static str,
    client: Client,
    session_id: String,
    held: View,
    played: AgentRecord,
    /// Its speed; none for as fast as it can.
    pace: Option<Pace>,
}

impl Agent {
    /// An agent that works on a session over its own connection.
    pub(super) fn new(name: &'static str, client: Client, session_id: &str) -> Self {
        Self {
            name,
            client,
            session_id: session_id.to_owned(),
            held: View::default(),
            played: AgentRecord::default(),
            pace: None,
        }
    }

    /// The same agent, which takes its time.
    pub(super) fn at_pace(self, pace: Pace) -> Self {
        Self { pace: Some(pace), ..self }
    }

    /// Plays its turns.
    pub(super) async fn play(mut self, turns: &'static [DemoTurn]) -> anyhow::Result<AgentRecord> {
        for turn in turns {
            self.turn(turn).await.with_context(|| format!("the agent in the {} failed", self.name))?;
        }
        Ok(self.played)
    }

    async fn turn(&mut self, turn: &DemoTurn) -> anyhow::Result<()> {
        let epoch = self.begin_run().await?;
        self.work(turn).await?;
        if let Some(epoch) = epoch {
            let session_id = self.session_id.clone();
            let request = pb::ReleaseRunRequest { session_id, epoch, ..pb::ReleaseRunRequest::default() };
            self.client.call(request).await?;
            // The other one may be next.
            self.pause().await;
        }
        Ok(())
    }

    /// With a pace, agents take turns: waits until no other runs, and acquires a run.
    async fn begin_run(&mut self) -> anyhow::Result<Option<i64>> {
        let Some(pace) = self.pace else { return Ok(None) };
        loop {
            let request = pb::AcquireRunRequest {
                session_id: self.session_id.clone(),
                lease_timeout: prost_types::Duration::try_from(RUN_TIME + pace.answer).ok(),
                ..pb::AcquireRunRequest::default()
            };
            match self.client.call(request).await {
                Ok(acquired) => return Ok(acquired.run.map(|run| run.epoch)),
                Err(error) if error.reason() == Some(Reason::RunActive) => {
                    tokio::time::sleep(pace.act).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn work(&mut self, turn: &DemoTurn) -> anyhow::Result<()> {
        let request = sample::request(self.next_id(), turn.request);
        self.append(request).await?;
        for step in turn.steps {
            self.step(step).await?;
        }
        self.conclude(turn.conclusion).await
    }

    /// The client id of the next message.
    fn next_id(&self) -> String {
        format!("{}:{}", self.name, self.played.sent.len() + 1)
    }

    async fn step(&mut self, step: &ToolStep) -> anyhow::Result<()> {
        let id = self.next_id();
        let mut call = sample::call(id.clone(), step);
        call.finish = Some(self.ask(pb::FinishReason::ToolCalls, &call).await?);
        self.append(call).await?;
        self.pause().await;
        let is_allowed = self.is_allowed(&id, step).await?;
        let result = sample::result(self.next_id(), &id, step, is_allowed);
        self.append(result).await
    }

    /// With a pace, there are people who are asked, if the step has a question: waits for their answer.
    async fn is_allowed(&mut self, call_of: &str, step: &ToolStep) -> anyhow::Result<bool> {
        let (Some(pace), Some(question)) = (self.pace, step.question) else { return Ok(true) };
        let session_id = self.session_id.clone();
        let question = Some(sample::question(question, call_of, step, pace.answer));
        let request = pb::RequestApprovalRequest { session_id: session_id.clone(), question, ..Default::default() };
        let asked = self.client.call(request).await?.approval.unwrap_or_default();
        let request = pb::GetApprovalRequest { session_id, approval_id: asked.approval_id };
        loop {
            let answered = self.client.call(request.clone()).await?.approval;
            if let Some(end) = answered.and_then(|approval| approval.end) {
                return Ok(end.choice.as_deref() == Some(sample::ALLOWED));
            }
            tokio::time::sleep(pace.act).await;
        }
    }

    /// Writes the last reply of a turn as models do: opens it first, then appends the parts.
    async fn conclude(&mut self, text: &str) -> anyhow::Result<()> {
        let id = self.next_id();
        let mut reply = sample::conclusion(id.clone(), text);
        let finish = self.ask(pb::FinishReason::Stop, &reply).await?;
        let open = pb::NewMessage { parts: Vec::new(), open: true, finish: None, ..reply.clone() };
        self.write(open).await?;
        match self.pace {
            Some(pace) => self.speak(&id, text, pace).await?,
            None => self.append_parts(&id, &reply).await?,
        }
        let request = pb::FinishMessageRequest {
            session_id: self.session_id.clone(),
            message_id: id,
            finish: Some(finish.clone()),
            ..pb::FinishMessageRequest::default()
        };
        self.client.call(request).await?;
        reply.finish = Some(finish);
        self.played.sent.push(reply);
        Ok(())
    }

    /// Writes a text word by word, as a model does.
    async fn speak(&mut self, message_id: &str, text: &str, pace: Pace) -> anyhow::Result<()> {
        let mut offset_bytes = 0;
        for word in text.split_inclusive(' ') {
            let request = pb::AppendDraftRequest {
                session_id: self.session_id.clone(),
                message_id: message_id.to_owned(),
                client_id: Some(format!("{message_id}:text")),
                offset_bytes,
                delta: word.to_owned(),
                ..pb::AppendDraftRequest::default()
            };
            offset_bytes = self.client.call(request).await?.length_bytes;
            tokio::time::sleep(pace.act / WORDS_A_PACE).await;
        }
        Ok(())
    }

    async fn pause(&self) {
        if let Some(pace) = self.pace {
            tokio::time::sleep(pace.act).await;
        }
    }

    async fn append_parts(&mut self, id: &str, reply: &pb::NewMessage) -> anyhow::Result<()> {
        let parts = pb::AppendPartsRequest {
            session_id: self.session_id.clone(),
            message_id: id.to_owned(),
            parts: reply.parts.clone(),
            ..pb::AppendPartsRequest::default()
        };
        self.client.call(parts).await?;
        Ok(())
    }

    /// Requests the view, as before every reply. Returns the finish of the reply.
    async fn ask(&mut self, reason: pb::FinishReason, reply: &pb::NewMessage) -> anyhow::Result<pb::Finish> {
        let request = pb::GetViewRequest {
            session_id: self.session_id.clone(),
            overflow_action: pb::OverflowAction::Wait.into(),
            wait_timeout: Some(prost_types::Duration { seconds: WAIT_SECONDS, nanos: 0 }),
            ..pb::GetViewRequest::default()
        };
        self.held = self.client.refresh_view(request, &self.held).await?;
        let header = &self.held.header;
        let usage = pb::Usage {
            input_tokens: header.estimated_tokens,
            output_tokens: (characters(reply) / CHARACTERS_PER_TOKEN) as i64,
            ..pb::Usage::default()
        };
        let finish = pb::Finish {
            reason: reason.into(),
            usage: Some(usage),
            view_token: Some(header.view_token.clone()),
            ..pb::Finish::default()
        };
        self.played.views.push(self.held.clone());
        Ok(finish)
    }

    async fn append(&mut self, message: pb::NewMessage) -> anyhow::Result<()> {
        self.write(message.clone()).await?;
        self.played.sent.push(message);
        Ok(())
    }

    async fn write(&mut self, message: pb::NewMessage) -> anyhow::Result<()> {
        let request = pb::AppendMessagesRequest {
            session_id: self.session_id.clone(),
            messages: vec![message],
            ..pb::AppendMessagesRequest::default()
        };
        self.client.call(request).await?;
        Ok(())
    }
}

/// Number of characters that the model wrote for a reply.
fn characters(reply: &pb::NewMessage) -> usize {
    let of_part = |part: &pb::Part| match &part.body {
        Some(pb::part::Body::Text(text)) => text.text.chars().count(),
        Some(pb::part::Body::ToolCall(call)) => call.input_json.chars().count(),
        Some(_) | None => 0,
    };
    reply.parts.iter().map(of_part).sum()
}

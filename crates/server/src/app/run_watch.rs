//! What concerns a run, for its agent: a view of the events of its session.

use super::error::{Error, Result};
use super::events::{Frame, ServedEvent, Start, SubscribeRequest};
use super::feed::EventFeed;
use super::nouns::Runs;
use super::{Caller, cursor};
use crate::model::approval::Approval;
use crate::model::event::{EventBody, EventKind};
use crate::model::prompt::Prompt;
use crate::model::run::{Epoch, Run};
use crate::store::SessionKey;
use std::collections::VecDeque;

/// The kinds of events that may concern a run.
const KINDS: [EventKind; 4] =
    [EventKind::RunCancelRequested, EventKind::RunEnded, EventKind::PromptSubmitted, EventKind::ApprovalEnded];

/// A frame of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFrame {
    /// The position after the frame.
    pub cursor: String,
    /// What it says.
    pub signal: RunSignal,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq)]
pub enum RunSignal {
    /// A prompt came.
    Prompt(Box<Prompt>),
    /// The run is to stop, or has ended.
    Run(Box<Run>),
    /// A question of the run has ended.
    Approval(Box<Approval>),
    /// The stream is idle.
    Idle,
}

/// The frames of a run's stream, as its client takes them.
pub struct RunWatch {
    caller: Caller,
    feed: EventFeed,
    key: SessionKey,
    epoch: Epoch,
    waiting: VecDeque<ServedEvent>,
    /// The only frame of a stream that begins after the end of the run.
    last: Option<RunFrame>,
    is_over: bool,
}

impl RunWatch {
    /// The next frame, or the error that ends the stream; none after the end of the run.
    pub async fn next(&mut self) -> Option<Result<RunFrame>> {
        if let Some(last) = self.last.take() {
            self.is_over = true;
            return Some(Ok(last));
        }
        loop {
            if self.is_over {
                return None;
            }
            while let Some(event) = self.waiting.pop_front() {
                let signal = self.signal(&event).await.transpose();
                if let Some(signal) = signal {
                    self.is_over |= signal.is_err();
                    return Some(signal.map(|signal| RunFrame { cursor: event.cursor.to_string(), signal }));
                }
            }
            match self.feed.next().await? {
                Ok(Frame::Events { events, .. }) => self.waiting.extend(events),
                Ok(Frame::Progress { cursor, .. }) => {
                    return Some(Ok(RunFrame { cursor, signal: RunSignal::Idle }));
                }
                Ok(_) => {}
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// What an event means for the run; none if it does not concern it.
    async fn signal(&mut self, event: &ServedEvent) -> Result<Option<RunSignal>> {
        let runs = self.caller.store().runs();
        Ok(match &event.event.body {
            EventBody::PromptSubmitted { prompt, .. } => {
                Some(RunSignal::Prompt(Box::new(runs.prompt(self.key, *prompt).await?)))
            }
            EventBody::RunCancelRequested { epoch, .. } if *epoch == self.epoch => {
                Some(RunSignal::Run(Box::new(self.caller.runs().run_at_epoch(self.key, self.epoch).await?)))
            }
            EventBody::RunEnded { epoch, .. } if *epoch == self.epoch => {
                let run = self.caller.runs().run_at_epoch(self.key, self.epoch).await?;
                self.is_over = true;
                Some(RunSignal::Run(Box::new(run)))
            }
            EventBody::ApprovalEnded { approval, .. } => {
                let approval = runs.approval(self.key, *approval).await?;
                // Those of lost runs before it may be asked again.
                approval.epoch.is_some_and(|epoch| epoch <= self.epoch).then(|| RunSignal::Approval(Box::new(approval)))
            }
            _ => None,
        })
    }
}

impl Runs<'_> {
    /// Follows what concerns a run: from its beginning, or after a cursor.
    pub async fn watch(self, session: &str, epoch: Epoch, after: &str) -> Result<RunWatch> {
        let key = self.caller.session_key(session).await?;
        let run = self.run_at_epoch(key, epoch).await?;
        let after = match after {
            "" => {
                let event = self.caller.store().log().event_at(key, run.start_revision).await?;
                let event = event.ok_or_else(|| Error::internal("a run began without an event"))?;
                cursor::after_event(self.caller.store(), event.seq, &event.hash)
            }
            after => after.to_owned(),
        };
        let last = match &run.end {
            Some(end) => {
                let event = self.caller.store().log().event_at(key, end.revision).await?;
                let seq = event.ok_or_else(|| Error::internal("a run ended without an event"))?.seq;
                let is_behind = cursor::read(self.caller.store(), &after).await? >= seq;
                is_behind.then(|| RunFrame { cursor: after.clone(), signal: RunSignal::Run(Box::new(run)) })
            }
            None => None,
        };
        let request = SubscribeRequest {
            sessions: vec![session.to_owned()],
            kinds: KINDS.to_vec(),
            start: Start::After(after),
            ..SubscribeRequest::default()
        };
        let feed = self.caller.events().subscribe(request).await?.feed();
        Ok(RunWatch { caller: self.caller.clone(), feed, key, epoch, waiting: VecDeque::new(), last, is_over: false })
    }
}

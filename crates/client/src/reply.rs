//! A message that is written while it comes, as one stream.

use crate::attempts::Attempts;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::ids::random_id;
use longhand_protocol as v1;
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::JoinHandle;
use v1::write_message_request::Frame;

/// Frames that wait for the connection.
const WAITING_MAX: usize = 16;

/// A message that is open until its end. Drafts grow text by text; other parts come whole. A lost stream begins again with
/// its first frame; the daemon skips what it has.
#[derive(Debug)]
pub struct Reply {
    client: Client,
    client_id: String,
    view_token: Option<String>,
    /// Everything that was sent: until the end, nothing is acknowledged.
    frames: Vec<v1::WriteMessageRequest>,
    writer: Option<Writer>,
    /// The bytes of each draft.
    lengths: HashMap<String, i64>,
    has_calls: bool,
    resume_count: usize,
}

/// A call that takes the frames.
#[derive(Debug)]
struct Writer {
    frames: async_channel::Sender<v1::WriteMessageRequest>,
    /// The number of frames that it was given.
    given: usize,
    answer: JoinHandle<Result<v1::WriteMessageResponse>>,
}

impl Reply {
    pub(crate) async fn begin(
        client: Client,
        session_id: String,
        mut new: v1::NewMessage,
        view_token: Option<String>,
    ) -> Result<Self> {
        new.open = true;
        let client_id = new.client_id.get_or_insert_with(|| format!("rust-{}", random_id())).clone();
        let message = Some(v1::write_target::Message::NewMessage(new));
        let target = v1::WriteTarget { session_id, message, request_id: random_id() };
        let mut reply = Self {
            client,
            client_id,
            view_token,
            frames: Vec::new(),
            writer: None,
            lengths: HashMap::new(),
            has_calls: false,
            resume_count: 0,
        };
        reply.send(Frame::Target(target)).await?;
        Ok(reply)
    }

    /// The message's client id, by which it can be read while it is written.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// The number of times that the stream was lost.
    pub fn resume_count(&self) -> usize {
        self.resume_count
    }

    /// Adds text.
    ///
    /// # Errors
    ///
    /// What the call ends with, if another one cannot go on.
    pub async fn text(&mut self, delta: &str) -> Result<()> {
        let client_id = "text".to_owned();
        let kind = v1::DraftKind::Text.into();
        self.draft(v1::DraftText { client_id, kind, delta: delta.to_owned(), ..v1::DraftText::default() }).await
    }

    /// Adds text to the reasoning.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn reasoning(&mut self, delta: &str) -> Result<()> {
        let client_id = "reasoning".to_owned();
        let kind = v1::DraftKind::Reasoning.into();
        self.draft(v1::DraftText { client_id, kind, delta: delta.to_owned(), ..v1::DraftText::default() }).await
    }

    /// Adds text to the input of a call.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn tool_input(&mut self, call_id: &str, tool: &str, delta: &str) -> Result<()> {
        self.draft(v1::DraftText {
            client_id: format!("call:{call_id}"),
            kind: v1::DraftKind::ToolInput.into(),
            delta: delta.to_owned(),
            call_id: call_id.to_owned(),
            tool: tool.to_owned(),
            ..v1::DraftText::default()
        })
        .await
    }

    /// Adds text to a draft, which is named by its client id. Its offset is counted here.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn draft(&mut self, mut text: v1::DraftText) -> Result<()> {
        let length = self.lengths.entry(text.client_id.clone()).or_default();
        text.offset_bytes = Some(*length);
        *length += i64::try_from(text.delta.len()).unwrap_or(i64::MAX);
        self.has_calls |= text.kind() == v1::DraftKind::ToolInput;
        self.send(Frame::DraftText(text)).await
    }

    /// Closes a draft before the end of the message.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn end_draft(&mut self, end: v1::DraftEnd) -> Result<()> {
        self.send(Frame::DraftEnd(end)).await
    }

    /// Adds a whole part. It gets a client id if it has none, so that it can be sent again.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn part(&mut self, mut part: v1::Part) -> Result<()> {
        part.client_id.get_or_insert_with(|| format!("part:{}", random_id()));
        self.has_calls |= matches!(part.body, Some(v1::part::Body::ToolCall(_)));
        self.send(Frame::Part(part)).await
    }

    /// Keeps the message open while nothing else is written.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn heartbeat(&mut self) -> Result<()> {
        self.flush(&mut self.client.attempts(Duration::ZERO)).await?;
        if let Some(writer) = &self.writer {
            // A call that is over is noticed by the next frame, and the one after it is a sign of life itself.
            drop(writer.frames.try_send(frame(Frame::Heartbeat(v1::Heartbeat {}))));
        }
        Ok(())
    }

    /// Seals the message. The reason is that it waits for tools if it calls some, else that it has ended.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn finish(self, usage: Option<v1::Usage>) -> Result<v1::WriteMessageResponse> {
        let reason = if self.has_calls { v1::FinishReason::ToolCalls } else { v1::FinishReason::Stop };
        self.finish_as(v1::Finish { reason: reason.into(), usage, ..v1::Finish::default() }).await
    }

    /// Seals the message as broken off; the detail says why, in up to 1000 bytes.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn abort(self, mut detail: String) -> Result<v1::WriteMessageResponse> {
        detail.truncate(detail.floor_char_boundary(1_000));
        self.finish_as(v1::Finish { reason: v1::FinishReason::Aborted.into(), detail, ..v1::Finish::default() }).await
    }

    /// Seals the message. It answers the view that the session held when it was begun, unless the end names another one.
    ///
    /// # Errors
    ///
    /// As [`Reply::text`].
    pub async fn finish_as(mut self, mut finish: v1::Finish) -> Result<v1::WriteMessageResponse> {
        finish.view_token = finish.view_token.take().or(self.view_token.take());
        self.frames.push(frame(Frame::MessageEnd(v1::MessageEnd { finish: Some(finish), window: None })));
        let mut attempts = self.client.attempts(Duration::ZERO);
        loop {
            self.flush(&mut attempts).await?;
            match attempts.within(self.answer()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => self.lose(failure, &mut attempts).await?,
            }
        }
    }

    /// Nothing is lost if it is not waited for: the next frame takes it along.
    async fn send(&mut self, next: Frame) -> Result<()> {
        self.frames.push(frame(next));
        self.flush(&mut self.client.attempts(Duration::ZERO)).await
    }

    /// Gives a call what it has not got.
    async fn flush(&mut self, attempts: &mut Attempts) -> Result<()> {
        loop {
            let writer = self.writer.get_or_insert_with(|| Writer::open(self.client.clone()));
            let Some(frame) = self.frames.get(writer.given) else { return Ok(()) };
            let sending = async { Ok(writer.frames.send(frame.clone()).await.is_ok()) };
            if attempts.within(sending).await? {
                writer.given += 1;
                continue;
            }
            // The call is over before the message is.
            let failure = match attempts.within(self.answer()).await {
                Ok(_) => lost("the call ended early".to_owned()),
                Err(failure) => failure,
            };
            self.lose(failure, attempts).await?;
        }
    }

    /// Waits until another call may begin.
    async fn lose(&mut self, failure: Error, attempts: &mut Attempts) -> Result<()> {
        self.writer = None;
        self.resume_count += 1;
        tokio::time::sleep_until(attempts.next(failure, true)?).await;
        Ok(())
    }

    /// The call's answer, or why it ended.
    async fn answer(&mut self) -> Result<v1::WriteMessageResponse> {
        match &mut self.writer {
            Some(writer) => (&mut writer.answer).await.unwrap_or_else(|error| Err(lost(error.to_string()))),
            None => Err(lost("no call is open".to_owned())),
        }
    }
}

impl Writer {
    fn open(client: Client) -> Self {
        let (frames, taken) = async_channel::bounded(WAITING_MAX);
        Self { frames, given: 0, answer: tokio::spawn(async move { client.upload(taken).await }) }
    }
}

fn frame(frame: Frame) -> v1::WriteMessageRequest {
    v1::WriteMessageRequest { frame: Some(frame) }
}

fn lost(message: String) -> Error {
    Error::Lost { message, was_sent: true, is_lasting: false }
}

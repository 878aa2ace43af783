//! Streams that go on where they were when they are lost.

use crate::attempts::Attempts;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::stream::Stream;
use longhand_protocol as v1;
use longhand_protocol::call::ServerStreaming;
use longhand_protocol::reason::Reason;
use tokio::time::Instant;
use v1::subscribe_events_request::Start;
use v1::subscribe_events_response::Frame;

/// A request whose stream can begin where another one ended.
pub trait Resume: ServerStreaming {
    /// Has the next stream begin after this answer.
    fn resume_after(&mut self, answer: &Self::Answer);
}

impl Resume for v1::SubscribeEventsRequest {
    fn resume_after(&mut self, answer: &v1::SubscribeEventsResponse) {
        let cursor = match &answer.frame {
            Some(Frame::Events(batch)) => &batch.cursor,
            Some(Frame::Progress(progress)) => &progress.cursor,
            Some(Frame::SnapshotEnd(end)) => &end.cursor,
            // Within a snapshot there is no position, and it begins at `ready`, before the snapshot.
            Some(Frame::Ready(ready)) if !matches!(self.start, Some(Start::Snapshot(_))) => &ready.cursor,
            _ => return,
        };
        if !cursor.is_empty() {
            self.start = Some(Start::AfterCursor(cursor.clone()));
        }
    }
}

impl Resume for v1::WatchSessionsRequest {
    fn resume_after(&mut self, answer: &v1::WatchSessionsResponse) {
        if !answer.cursor.is_empty() {
            self.after_cursor.clone_from(&answer.cursor);
        }
    }
}

impl Resume for v1::WatchRunRequest {
    fn resume_after(&mut self, answer: &v1::WatchRunResponse) {
        if !answer.cursor.is_empty() {
            self.after_cursor.clone_from(&answer.cursor);
        }
    }
}

/// A stream that goes on where it was when it is lost.
#[derive(Debug)]
pub struct Follow<R: Resume> {
    client: Client,
    request: R,
    answers: Option<Stream<R::Answer>>,
    attempts: Attempts,
    /// True if the daemon has answered since the stream was lost.
    has_answered: bool,
    /// The time of the next attempt.
    pause: Option<Instant>,
    resume_count: usize,
}

impl Client {
    /// A stream that goes on where it was when it is lost, for as long as calls are tried again without an answer. Nothing
    /// is asked of the daemon before the first answer is.
    pub fn follow<R: Resume>(&self, request: R) -> Follow<R> {
        Follow {
            client: self.clone(),
            request,
            answers: None,
            attempts: self.stream_attempts(),
            has_answered: true,
            pause: None,
            resume_count: 0,
        }
    }
}

impl<R: Resume> Follow<R> {
    /// The request, as it would be sent after the last answer.
    pub fn request(&self) -> &R {
        &self.request
    }

    /// The number of times that the stream was lost.
    pub fn resume_count(&self) -> usize {
        self.resume_count
    }

    /// Begins the stream, if it has not begun or is lost, without waiting for an answer.
    ///
    /// # Errors
    ///
    /// As [`Follow::next`].
    pub async fn begin(&mut self) -> Result<()> {
        self.answers().await.map(drop)
    }

    /// The next answer; none at the end. Nothing is lost if it is not waited for.
    ///
    /// # Errors
    ///
    /// What the stream ends with, if another one cannot go on, or if none begins for as long as calls are tried again.
    pub async fn next(&mut self) -> Result<Option<R::Answer>> {
        loop {
            match self.answers().await?.next().await {
                Ok(Some(answer)) => {
                    self.has_answered = true;
                    self.request.resume_after(&answer);
                    return Ok(Some(answer));
                }
                Ok(None) => return Ok(None),
                Err(failure) => self.lose(failure)?,
            }
        }
    }

    async fn answers(&mut self) -> Result<&mut Stream<R::Answer>> {
        let answers = match self.answers.take() {
            Some(answers) => answers,
            None => self.open().await?,
        };
        Ok(self.answers.insert(answers))
    }

    async fn open(&mut self) -> Result<Stream<R::Answer>> {
        loop {
            if let Some(at) = self.pause {
                tokio::time::sleep_until(at).await;
                self.pause = None;
            }
            match self.client.stream(self.request.clone()).await {
                Ok(answers) => return Ok(answers),
                Err(failure) => self.lose(failure)?,
            }
        }
    }

    fn lose(&mut self, failure: Error) -> Result<()> {
        self.answers = None;
        if std::mem::take(&mut self.has_answered) {
            self.attempts.begin_again();
        }
        // The stream of a reader that was too slow goes on, too.
        let failure = match failure.reason() {
            Some(Reason::ReaderStalled) => {
                Error::Lost { message: failure.to_string(), was_sent: true, is_lasting: false }
            }
            _ => failure,
        };
        self.pause = Some(self.attempts.next(failure, true)?);
        self.resume_count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn after(request: &mut v1::SubscribeEventsRequest, frame: Frame) -> Option<Start> {
        request.resume_after(&v1::SubscribeEventsResponse { frame: Some(frame) });
        request.start.clone()
    }

    /// However long it has lasted before.
    #[tokio::test(start_paused = true)]
    async fn a_lost_stream_has_the_whole_time_to_come_back() {
        let client = Client::unconnected().with_retry(Duration::from_secs(5));
        let mut follow = client.follow(v1::SubscribeEventsRequest::default());
        let lost = || Error::Lost { message: "reset".to_owned(), was_sent: true, is_lasting: false };
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(60)).await;
            assert!(follow.lose(lost()).is_ok());
            tokio::time::advance(Duration::from_secs(4)).await;
            assert!(follow.lose(lost()).is_ok());
            tokio::time::advance(Duration::from_secs(2)).await;
            assert!(follow.lose(lost()).is_err());
            follow.has_answered = true;
        }
        assert_eq!(follow.resume_count(), 4);
    }

    #[test]
    fn a_stream_resumes_after_its_last_position() {
        let at = |cursor: &str| Some(Start::AfterCursor(cursor.to_owned()));
        let ready = || Frame::Ready(v1::Ready { cursor: "1".to_owned(), ..v1::Ready::default() });
        let batch = |cursor: &str| Frame::Events(v1::EventBatch { cursor: cursor.to_owned(), ..Default::default() });
        let mut request = v1::SubscribeEventsRequest::default();
        assert_eq!(after(&mut request, ready()), at("1"));
        assert_eq!(after(&mut request, batch("2")), at("2"));
        assert_eq!(after(&mut request, Frame::DraftDelta(v1::DraftDelta::default())), at("2"));
        let mut request =
            v1::SubscribeEventsRequest { start: Some(Start::Snapshot(true)), ..v1::SubscribeEventsRequest::default() };
        assert_eq!(after(&mut request, ready()), Some(Start::Snapshot(true)), "a lost snapshot begins anew");
        let end = v1::SnapshotEnd { cursor: "3".to_owned() };
        assert_eq!(after(&mut request, Frame::SnapshotEnd(end)), at("3"));
    }
}

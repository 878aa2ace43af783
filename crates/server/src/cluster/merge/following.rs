//! A stream of one shard, which goes on when the shard has another owner.

use super::shard::Shard;
use crate::limits;
use futures::stream::{self, BoxStream};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};

/// The frames of a shard, with its name.
pub(super) type Frames<Frame> = BoxStream<'static, (String, Result<Frame, Status>)>;

/// What is asked for a stream that can go on behind a cursor.
pub(super) trait Resumable: Clone + Send + 'static {
    type Frame: Send + 'static;
    /// What comes first and is not repeated when the stream goes on.
    type Begin;

    /// Opens the stream: behind a cursor if there is one, else where the request says.
    fn open(
        &self,
        shard: &Shard,
        after: Option<&str>,
    ) -> impl Future<Output = Result<(Self::Begin, Streaming<Self::Frame>), Status>> + Send;

    /// The position behind a frame; none if the stream cannot go on there.
    fn cursor(frame: &Self::Frame) -> Option<&str>;
}

/// The stream.
pub(super) struct FollowedShard<R: Resumable> {
    pub(super) shard: Shard,
    request: R,
    /// Behind what came; none as long as the stream cannot go on.
    pub(super) cursor: Option<String>,
    /// None while there is no owner.
    frames: Option<Streaming<R::Frame>>,
}

impl<R: Resumable> FollowedShard<R> {
    /// Opens the stream.
    pub(super) async fn begin(shard: Shard, request: R) -> Result<(R::Begin, Self), Status> {
        let (begin, frames) = request.open(&shard, None).await?;
        Ok((begin, Self { shard, request, cursor: None, frames: Some(frames) }))
    }

    /// The next frame of the stream as it was opened; none at its end.
    pub(super) async fn next_of_this(&mut self) -> Result<Option<R::Frame>, Status> {
        let Some(frames) = &mut self.frames else { return Ok(None) };
        let frame = frames.message().await?;
        if let Some(cursor) = frame.as_ref().and_then(R::cursor) {
            self.cursor = Some(cursor.to_owned());
        }
        Ok(frame)
    }

    /// The next frame. A stream that its owner ended, or that was lost with it, is opened again behind what came.
    pub(super) async fn next(&mut self) -> Result<R::Frame, Status> {
        let mut end = None;
        loop {
            let lost = match &self.frames {
                Some(_) => match self.next_of_this().await {
                    Ok(Some(frame)) => return Ok(frame),
                    Ok(None) => Status::unavailable("a stream of a shard ended"),
                    Err(status) => status,
                },
                None => match self.request.open(&self.shard, self.cursor.as_deref()).await {
                    Ok((_, frames)) => {
                        self.frames = Some(frames);
                        continue;
                    }
                    Err(status) => status,
                },
            };
            // What holds a store that is given up is dropped.
            self.frames = None;
            let cluster = &self.shard.cluster;
            let end = *end.get_or_insert_with(|| Instant::now() + Duration::from_millis(limits::OWNER_WAIT_MS));
            let is_over = Instant::now() >= end || cluster.stopping.is_cancelled() || self.cursor.is_none();
            if lost.code() != Code::Unavailable || is_over {
                return Err(lost);
            }
            // The last attempt is made at the end, news or not.
            cluster.learns(&mut cluster.survey.subscribe(), end).await;
        }
    }

    /// Its frames with the name of the shard, up to an error.
    pub(super) fn frames(self) -> Frames<R::Frame> {
        Box::pin(stream::unfold(Some(self), |following| async move {
            let mut following = following?;
            let name = following.shard.name.clone();
            let next = following.next().await;
            let rest = next.is_ok().then_some(following);
            Some(((name, next), rest))
        }))
    }
}

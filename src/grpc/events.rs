//! Events over gRPC.

use super::convert::event::{frames, page, read_list, read_subscribe};
use crate::app::Longhand;
use crate::app::events::EventStream;
use crate::pb;
use crate::pb::event_service_server::EventService;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use std::collections::VecDeque;
use tonic::{Request, Response, Status};

/// The events' service.
pub(super) struct Events {
    app: Longhand,
}

impl Events {
    pub(super) fn new(app: Longhand) -> Self {
        Self { app }
    }
}

type ResponseStream = BoxStream<'static, Result<pb::SubscribeEventsResponse, Status>>;

/// The stream's frames, pulled as the client takes them; an error is the last thing it says.
fn responses(stream: EventStream) -> ResponseStream {
    let begin = Some((stream, VecDeque::new()));
    stream::unfold(begin, async |state| {
        let (mut stream, mut waiting) = state?;
        loop {
            if let Some(frame) = waiting.pop_front() {
                return Some((Ok(frame), Some((stream, waiting))));
            }
            match stream.next().await {
                Ok(frame) => waiting.extend(frames(frame)),
                Err(error) => return Some((Err(error.into()), None)),
            }
        }
    })
    .boxed()
}

#[tonic::async_trait]
impl EventService for Events {
    type SubscribeEventsStream = ResponseStream;

    async fn subscribe_events(
        &self,
        request: Request<pb::SubscribeEventsRequest>,
    ) -> Result<Response<Self::SubscribeEventsStream>, Status> {
        let stream = self.app.subscribe(read_subscribe(request.into_inner())?).await?;
        Ok(Response::new(responses(stream)))
    }

    async fn list_events(
        &self,
        request: Request<pb::ListEventsRequest>,
    ) -> Result<Response<pb::ListEventsResponse>, Status> {
        let (events, next) = self.app.list_events(read_list(request.into_inner())?).await?;
        Ok(Response::new(page(events, next)))
    }
}

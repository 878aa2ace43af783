//! Events over gRPC.

use super::caller::GrpcDoor;
use super::convert::event::{frames, page, presence, read_list, read_subscribe};
use super::convert::run::run;
use crate::app::events::{BecomesText, SubscribeRequest};
use crate::app::feed::EventFeed;
use crate::pb;
use crate::pb::event_service_server::EventService;
use crate::pb::shared::{EventBatch, EventFrame, Frame};
use crate::transport::Delivery;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use std::collections::VecDeque;
use tonic::{Request, Response, Status};

/// The service of events.
pub(super) struct Events {
    door: GrpcDoor,
}

impl Events {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

type ResponseStream = BoxStream<'static, Result<EventFrame, Status>>;

/// The stream's frames as the client takes them; an error is the last one.
fn responses(feed: EventFeed, delivery: Delivery) -> ResponseStream {
    let begin = Some((feed, delivery, VecDeque::new()));
    stream::unfold(begin, async |state| {
        let (mut feed, delivery, mut waiting) = state?;
        loop {
            if let Some(frame) = waiting.pop_front() {
                if let Some(cursor) = cursor_behind(&frame) {
                    delivery.record_produced(Some(cursor).filter(|cursor| !cursor.is_empty()));
                }
                return Some((Ok(frame), Some((feed, delivery, waiting))));
            }
            match feed.next().await? {
                Ok(frame) => waiting.extend(frames(frame)),
                Err(error) => return Some((Err(error.into()), None)),
            }
        }
    })
    .boxed()
}

/// The cursor from which a client resumes after this frame: empty for none, and `None` for the cursor before it.
fn cursor_behind(frame: &EventFrame) -> Option<&str> {
    match frame.frame.as_ref()? {
        Frame::Ready(pb::Ready { cursor, .. })
        | Frame::Events(EventBatch { cursor, .. })
        | Frame::Progress(pb::Progress { cursor, .. })
        | Frame::SnapshotEnd(pb::SnapshotEnd { cursor }) => Some(cursor),
        // An incomplete snapshot is of no use: the client requests it again.
        Frame::SnapshotItem(_) => Some(""),
        Frame::DraftDelta(_) | Frame::SummaryDelta(_) | Frame::PresenceChanged(_) => None,
    }
}

#[tonic::async_trait]
impl EventService for Events {
    type SubscribeEventsStream = ResponseStream;

    async fn subscribe_events(
        &self,
        request: Request<pb::SubscribeEventsRequest>,
    ) -> Result<Response<Self::SubscribeEventsStream>, Status> {
        let caller = self.door.caller(&request)?;
        let text = request.extensions().get::<BecomesText>().is_some();
        let request = SubscribeRequest { text, ..read_subscribe(request.into_inner())? };
        let stream = caller.events().subscribe(request).await?;
        let delivery = Delivery::resumable();
        let mut response = Response::new(responses(stream.feed(), delivery.clone()));
        response.extensions_mut().insert(delivery);
        Ok(response)
    }

    async fn list_events(
        &self,
        request: Request<pb::ListEventsRequest>,
    ) -> Result<Response<pb::ListEventsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let (events, next) = caller.events().list(read_list(request.into_inner())?).await?;
        Ok(Response::new(page(events, next)))
    }

    async fn report_typing(
        &self,
        request: Request<pb::ReportTypingRequest>,
    ) -> Result<Response<pb::ReportTypingResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ReportTypingRequest { session_id, typing } = request.into_inner();
        caller.presence().report_typing(&session_id, typing).await?;
        Ok(Response::new(pb::ReportTypingResponse {}))
    }

    async fn get_presence(
        &self,
        request: Request<pb::GetPresenceRequest>,
    ) -> Result<Response<pb::GetPresenceResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let who = caller.presence().get(&request.into_inner().session_id).await?;
        let presences = who.present.into_iter().map(presence).collect();
        Ok(Response::new(pb::GetPresenceResponse { presences, run: who.run.map(run) }))
    }
}

//! Views over gRPC.

use super::caller::GrpcDoor;
use super::convert::view::{frames, read_request};
use crate::pb;
use crate::pb::view_service_server::ViewService;
use crate::transport::Delivery;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The service of views.
pub(super) struct Views {
    door: GrpcDoor,
}

impl Views {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl ViewService for Views {
    type GetViewStream = BoxStream<'static, Result<pb::GetViewResponse, Status>>;

    async fn get_view(&self, request: Request<pb::GetViewRequest>) -> Result<Response<Self::GetViewStream>, Status> {
        let caller = self.door.caller(&request)?;
        let mut request = request.into_inner();
        let session = std::mem::take(&mut request.session_id);
        let served = caller.views().get(&session, read_request(request)?).await?;
        let delivery = Delivery::with_reservation(served.held.clone());
        let mut response = Response::new(stream::iter(frames(served).map(Ok)).boxed());
        response.extensions_mut().insert(delivery);
        Ok(response)
    }
}

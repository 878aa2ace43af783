//! Views over gRPC.

use super::caller::GrpcDoor;
use super::convert::view::{frames, read_request};
use crate::pb;
use crate::pb::context_service_server::ContextService;
use crate::transport::Delivery;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The service of views.
pub(super) struct Contexts {
    door: GrpcDoor,
}

impl Contexts {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl ContextService for Contexts {
    type GetContextStream = BoxStream<'static, Result<pb::GetContextResponse, Status>>;

    async fn get_context(
        &self,
        request: Request<pb::GetContextRequest>,
    ) -> Result<Response<Self::GetContextStream>, Status> {
        let caller = self.door.caller(&request)?;
        let mut request = request.into_inner();
        let session = std::mem::take(&mut request.session_id);
        let context = caller.views().get(&session, read_request(request)?).await?;
        let delivery = Delivery::with_reservation(context.held.clone());
        let mut response = Response::new(stream::iter(frames(context).map(Ok)).boxed());
        response.extensions_mut().insert(delivery);
        Ok(response)
    }
}

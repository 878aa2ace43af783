//! Views over gRPC.

use super::convert::view::{frames, read_request};
use super::delivery::Delivery;
use crate::app::Longhand;
use crate::pb;
use crate::pb::context_service_server::ContextService;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The service of views.
pub(super) struct Contexts {
    app: Longhand,
}

impl Contexts {
    pub(super) fn new(app: Longhand) -> Self {
        Self { app }
    }
}

#[tonic::async_trait]
impl ContextService for Contexts {
    type GetContextStream = BoxStream<'static, Result<pb::GetContextResponse, Status>>;

    async fn get_context(
        &self,
        request: Request<pb::GetContextRequest>,
    ) -> Result<Response<Self::GetContextStream>, Status> {
        let mut request = request.into_inner();
        let session = std::mem::take(&mut request.session_id);
        let context = self.app.context(&session, read_request(request)?).await?;
        let delivery = Delivery::holding(context.held.clone());
        let mut response = Response::new(stream::iter(frames(context).map(Ok)).boxed());
        response.extensions_mut().insert(delivery);
        Ok(response)
    }
}

//! Search over gRPC.

use super::caller::GrpcDoor;
use super::convert;
use crate::pb;
use crate::pb::search_service_server::SearchService;
use tonic::{Request, Response, Status};

/// The service of search.
pub(super) struct Search {
    door: GrpcDoor,
}

impl Search {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl SearchService for Search {
    async fn search_history(
        &self,
        request: Request<pb::SearchHistoryRequest>,
    ) -> Result<Response<pb::SearchHistoryResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let wanted = convert::search::read_request(request.into_inner())?;
        let page = caller.history().search(&wanted).await?;
        Ok(Response::new(convert::search::page(page)))
    }
}

//! Erasures over gRPC.

use super::caller::GrpcDoor;
use super::convert::erase::{answer, read_request, retention_item};
use super::convert::session::durability;
use crate::pb;
use crate::pb::erase_service_server::EraseService;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The service of erasures.
pub(super) struct Erasures {
    door: GrpcDoor,
}

impl Erasures {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl EraseService for Erasures {
    async fn erase_content(
        &self,
        request: Request<pb::EraseContentRequest>,
    ) -> Result<Response<pb::EraseContentResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let tree = request.get_ref().tree;
        let (session_id, request) = read_request(request.into_inner())?;
        let erased = match tree {
            true => caller.content().erase_tree(&session_id, request).await?,
            false => caller.content().erase(&session_id, request).await?,
        };
        let durability = durability(caller.durability()).into();
        Ok(Response::new(pb::EraseContentResponse { durability, ..answer(erased) }))
    }

    type ApplyRetentionStream = BoxStream<'static, Result<pb::ApplyRetentionResponse, Status>>;

    async fn apply_retention(
        &self,
        request: Request<pb::ApplyRetentionRequest>,
    ) -> Result<Response<Self::ApplyRetentionStream>, Status> {
        let caller = self.door.caller(&request)?;
        let items = caller.content().apply_retention(request.get_ref().dry_run)?;
        let durability = durability(caller.durability()).into();
        let items = stream::unfold((items, durability), async |(mut items, durability)| {
            let item = items.recv().await?;
            let item = item.map(|item| pb::ApplyRetentionResponse { item: Some(retention_item(item)), durability });
            Some((item.map_err(Status::from), (items, durability)))
        });
        Ok(Response::new(items.boxed()))
    }
}

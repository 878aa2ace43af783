//! Archives over gRPC.

use super::caller::GrpcDoor;
use super::convert::session::{durability, session};
use crate::app::archives::ImportedArchive;
use crate::pb;
use crate::pb::archive_service_server::ArchiveService;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The service of archives.
pub(super) struct Archives {
    door: GrpcDoor,
}

impl Archives {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl ArchiveService for Archives {
    type ExportSessionStream = BoxStream<'static, Result<pb::ExportSessionResponse, Status>>;

    async fn export_session(
        &self,
        request: Request<pb::ExportSessionRequest>,
    ) -> Result<Response<Self::ExportSessionStream>, Status> {
        let caller = self.door.caller(&request)?;
        let pieces = caller.archives().export(&request.get_ref().session_id).await?;
        let pieces = stream::unfold(pieces, async |mut pieces| {
            let piece = pieces.recv().await?;
            let piece = piece.map(|data| pb::ExportSessionResponse { data }).map_err(Status::from);
            Some((piece, pieces))
        });
        Ok(Response::new(pieces.boxed()))
    }

    async fn import_session(
        &self,
        request: Request<pb::ImportSessionRequest>,
    ) -> Result<Response<pb::ImportSessionResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let ImportedArchive { info, written } = caller.archives().import(request.into_inner().data).await?;
        Ok(Response::new(pb::ImportSessionResponse {
            session: Some(session(info)),
            existed: written.is_empty(),
            session_ids: written.iter().map(ToString::to_string).collect(),
            durability: durability(caller.durability()).into(),
        }))
    }
}

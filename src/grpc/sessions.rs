//! Sessions over gRPC.

use super::caller::caller;
use super::convert::session::{durability, over_window, read_change, read_new, session};
use crate::app::Longhand;
use crate::app::sessions::{ForkPoint, SessionChanged};
use crate::pb;
use crate::pb::fork_session_request::Point;
use crate::pb::session_service_server::SessionService;
use tonic::{Request, Response, Status};

/// The service of sessions.
pub(super) struct Sessions {
    app: Longhand,
}

impl Sessions {
    pub(super) fn new(app: Longhand) -> Self {
        Self { app }
    }
}

#[tonic::async_trait]
impl SessionService for Sessions {
    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        let caller = caller(&request, "")?;
        let (info, existed) = self.app.create_session(read_new(request.into_inner()), caller).await?;
        Ok(Response::new(pb::CreateSessionResponse {
            session: Some(session(info)),
            existed,
            durability: durability(self.app.durability()).into(),
        }))
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let info = self.app.get_session(&request.get_ref().session_id).await?;
        let over_window = info.over_window.clone().map(over_window);
        Ok(Response::new(pb::GetSessionResponse { session: Some(session(info)), over_window }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let pb::ListSessionsRequest { page_size, page_token, parent_session_id, include_archived } =
            request.into_inner();
        let parent = parent_session_id.as_deref();
        let (sessions, next_page_token) =
            self.app.list_sessions(page_size.into(), &page_token, parent, include_archived).await?;
        let sessions = sessions.into_iter().map(session).collect();
        Ok(Response::new(pb::ListSessionsResponse { sessions, next_page_token }))
    }

    async fn update_session(
        &self,
        request: Request<pb::UpdateSessionRequest>,
    ) -> Result<Response<pb::UpdateSessionResponse>, Status> {
        let caller = caller(&request, &request.get_ref().request_id)?;
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.session_id);
        let SessionChanged { info, revision, seq } = self.app.update_session(&id, read_change(request), caller).await?;
        Ok(Response::new(pb::UpdateSessionResponse {
            session: Some(session(info)),
            revision,
            seq,
            durability: durability(self.app.durability()).into(),
        }))
    }

    async fn archive_session(
        &self,
        request: Request<pb::ArchiveSessionRequest>,
    ) -> Result<Response<pb::ArchiveSessionResponse>, Status> {
        let caller = caller(&request, &request.get_ref().request_id)?;
        let pb::ArchiveSessionRequest { session_id, restore, .. } = request.into_inner();
        let SessionChanged { info, revision, seq } = self.app.archive_session(&session_id, restore, caller).await?;
        Ok(Response::new(pb::ArchiveSessionResponse {
            session: Some(session(info)),
            revision,
            seq,
            durability: durability(self.app.durability()).into(),
        }))
    }

    async fn fork_session(
        &self,
        request: Request<pb::ForkSessionRequest>,
    ) -> Result<Response<pb::ForkSessionResponse>, Status> {
        let caller = caller(&request, "")?;
        let pb::ForkSessionRequest { session_id, point, client_id, title } = request.into_inner();
        let point = match point {
            Some(Point::MessageId(id)) => ForkPoint { message_id: Some(id), ..ForkPoint::default() },
            Some(Point::AsOfRevision(revision)) => ForkPoint { as_of_revision: Some(revision), ..ForkPoint::default() },
            None => ForkPoint::default(),
        };
        let (info, existed) = self.app.fork_session(&session_id, point, client_id, title, caller).await?;
        Ok(Response::new(pb::ForkSessionResponse {
            session: Some(session(info)),
            existed,
            durability: durability(self.app.durability()).into(),
        }))
    }
}

//! Sessions over gRPC.

use super::caller::GrpcDoor;
use super::convert::secret::secret_findings;
use super::convert::session::{
    durability, list_frame, over_window, read_change, read_conditions, read_list, read_new, session, words_stance,
};
use super::convert::view::provider_compaction;
use crate::app::secrets::ScreenedAnswer;
use crate::app::session_watch::SessionWatch;
use crate::app::sessions::{ForkPoint, SessionChanged};
use crate::model::ids::MessageId;
use crate::pb;
use crate::pb::fork_session_request::Point;
use crate::pb::session_service_server::SessionService;
use crate::transport::Delivery;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

/// The service of sessions.
pub(super) struct Sessions {
    door: GrpcDoor,
}

impl Sessions {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

type Frames = BoxStream<'static, Result<pb::WatchSessionsResponse, Status>>;

/// The stream's frames as the client takes them; an error is the last one.
fn frames(watch: SessionWatch, delivery: Delivery) -> Frames {
    stream::unfold((watch, delivery), async |(mut watch, delivery)| {
        let frame = watch.next().await?.map(list_frame);
        if let Ok(frame) = &frame {
            delivery.record_produced(Some(&frame.cursor).filter(|cursor| !cursor.is_empty()).map(String::as_str));
        }
        Some((frame.map_err(Status::from), (watch, delivery)))
    })
    .boxed()
}

#[tonic::async_trait]
impl SessionService for Sessions {
    type WatchSessionsStream = Frames;

    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let ScreenedAnswer { answer: (info, existed), secrets } =
            caller.sessions().create(read_new(request.into_inner())).await?;
        Ok(Response::new(pb::CreateSessionResponse {
            secret_findings: secret_findings(secrets),
            session: Some(session(info)),
            existed,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let (info, words) = caller.sessions().with_words(&request.get_ref().session_id).await?;
        let over_window = info.over_window.clone().map(over_window);
        let provider_compaction = info.provider_compaction.clone().map(provider_compaction);
        let id = |message: MessageId| message.to_string();
        let line = |(text, message): (String, Option<MessageId>)| pb::SaidLine { text, message_id: message.map(id) };
        let mark =
            |(message, stance)| pb::MarkedWords { message_id: id(message), stance: words_stance(Some(stance)).into() };
        Ok(Response::new(pb::GetSessionResponse {
            session: Some(session(info)),
            over_window,
            said_lines: words.lines.into_iter().map(line).collect(),
            marked_words: words.marked.into_iter().map(mark).collect(),
            provider_compaction,
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let has_tokens = request.get_ref().include_page_tokens;
        let listed = caller.sessions().list_with_tokens(&read_list(request.into_inner())?).await?;
        let (sessions, next_page_token) = listed;
        let (sessions, tokens): (_, Vec<_>) = sessions.into_iter().map(|(info, token)| (session(info), token)).unzip();
        let page_tokens = if has_tokens { tokens } else { Vec::new() };
        Ok(Response::new(pb::ListSessionsResponse { sessions, next_page_token, page_tokens }))
    }

    async fn watch_sessions(
        &self,
        request: Request<pb::WatchSessionsRequest>,
    ) -> Result<Response<Self::WatchSessionsStream>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::WatchSessionsRequest { parent_session_id, include_archived, filter, after_cursor } =
            request.into_inner();
        let conditions = read_conditions(parent_session_id, include_archived, filter)?;
        let after = Some(after_cursor.as_str()).filter(|cursor| !cursor.is_empty());
        let watch = caller.sessions().watch(&conditions, after).await?;
        let delivery = Delivery::resumable();
        let mut response = Response::new(frames(watch, delivery.clone()));
        response.extensions_mut().insert(delivery);
        Ok(response)
    }

    async fn add_label(&self, request: Request<pb::AddLabelRequest>) -> Result<Response<pb::AddLabelResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::AddLabelRequest { session_id, label, .. } = request.into_inner();
        let SessionChanged { info, revision, seq } = caller.sessions().add_label(&session_id, label).await?;
        Ok(Response::new(pb::AddLabelResponse {
            session: Some(session(info)),
            revision,
            seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn remove_label(
        &self,
        request: Request<pb::RemoveLabelRequest>,
    ) -> Result<Response<pb::RemoveLabelResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::RemoveLabelRequest { session_id, label, .. } = request.into_inner();
        let SessionChanged { info, revision, seq } = caller.sessions().remove_label(&session_id, label).await?;
        Ok(Response::new(pb::RemoveLabelResponse {
            session: Some(session(info)),
            revision,
            seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn update_session(
        &self,
        request: Request<pb::UpdateSessionRequest>,
    ) -> Result<Response<pb::UpdateSessionResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.session_id);
        let ScreenedAnswer { answer: SessionChanged { info, revision, seq }, secrets } =
            caller.sessions().update(&id, read_change(request)).await?;
        Ok(Response::new(pb::UpdateSessionResponse {
            secret_findings: secret_findings(secrets),
            session: Some(session(info)),
            revision,
            seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn archive_session(
        &self,
        request: Request<pb::ArchiveSessionRequest>,
    ) -> Result<Response<pb::ArchiveSessionResponse>, Status> {
        let caller = self.door.caller_with_id(&request, &request.get_ref().request_id)?;
        let pb::ArchiveSessionRequest { session_id, restore, .. } = request.into_inner();
        let changed = match restore {
            true => caller.sessions().restore(&session_id).await?,
            false => caller.sessions().archive(&session_id).await?,
        };
        let SessionChanged { info, revision, seq } = changed;
        Ok(Response::new(pb::ArchiveSessionResponse {
            session: Some(session(info)),
            revision,
            seq,
            durability: durability(caller.durability()).into(),
        }))
    }

    async fn fork_session(
        &self,
        request: Request<pb::ForkSessionRequest>,
    ) -> Result<Response<pb::ForkSessionResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let pb::ForkSessionRequest { session_id, point, client_id, title } = request.into_inner();
        let point = match point {
            Some(Point::MessageId(id)) => ForkPoint { message_id: Some(id), ..ForkPoint::default() },
            Some(Point::AsOfRevision(revision)) => ForkPoint { as_of_revision: Some(revision), ..ForkPoint::default() },
            None => ForkPoint::default(),
        };
        let ScreenedAnswer { answer: (info, existed), secrets } =
            caller.sessions().fork(&session_id, point, client_id, title).await?;
        Ok(Response::new(pb::ForkSessionResponse {
            secret_findings: secret_findings(secrets),
            session: Some(session(info)),
            existed,
            durability: durability(caller.durability()).into(),
        }))
    }
}

//! Which shard a call is for, by the method and by what its first message names.

use super::body::WatchedBody;
use super::call::{Head, ShardCall};
use super::forward::reason;
use super::opened::OpenedRequest;
use super::{Cluster, merge};
use crate::app::access_record::NamedSessions;
use crate::app::archives::sessions_in;
use crate::app::{Error, Reason};
use crate::grpc;
use crate::grpc::scopes;
use crate::model::access::Scope;
use crate::model::ids::SessionId;
use crate::pb;
use crate::postgres;
use http::{Request, Response};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use tonic::Status;
use tonic::body::Body;

/// The method that takes a message as a stream.
const WRITE_MESSAGE: &str = "MessageService/WriteMessage";

/// The scopes of methods, by which calls are known that change nothing.
static SCOPES: LazyLock<HashMap<String, Scope>> = LazyLock::new(scopes::scopes);

/// The field with which most requests begin: the id of a session or of a compaction.
#[derive(Clone, PartialEq, prost::Message)]
struct FirstField {
    #[prost(string, tag = "1")]
    id: String,
}

/// What the first message of a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedObject {
    /// A session, in its first field.
    Session,
    /// A session, in the target of what is written.
    Target,
    /// A session that is made.
    NewSession,
    /// The sessions of an archive.
    Archive,
    /// A compaction, in its first field.
    Compaction,
    /// Sessions of several shards, or shards.
    Several,
    /// Nothing but what the first shard has: access tokens and presets.
    Nothing,
}

impl NamedObject {
    fn from_method(method: &str) -> Self {
        match method {
            WRITE_MESSAGE => Self::Target,
            "SessionService/CreateSession" => Self::NewSession,
            "ArchiveService/ImportSession" => Self::Archive,
            "CompactionService/GetCompaction"
            | "CompactionService/ConfirmCompaction"
            | "CompactionService/RetryCompaction"
            | "CompactionService/CancelCompaction"
            | "SummaryTaskService/ExtendSummaryTask"
            | "SummaryTaskService/EditSummaryTask"
            | "SummaryTaskService/CheckSummaryTask"
            | "SummaryTaskService/CompleteSummaryTask"
            | "SummaryTaskService/FailSummaryTask"
            | "SummaryTaskService/DelegateSummaryTask" => Self::Compaction,
            method if merge::merges(method) => Self::Several,
            "AdminService/ListPresets" => Self::Nothing,
            method if method.starts_with("AccessService/") => Self::Nothing,
            _ => Self::Session,
        }
    }
}

impl Cluster {
    /// The answer to a call of a client.
    pub(super) async fn route(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        let access = grpc::access(&parts.extensions)?;
        let acting = parts.headers.get(pb::TENANT_HEADER).and_then(|value| value.to_str().ok());
        let tenant = acting.unwrap_or(&access.tenant).to_owned();
        let is_repeatable = SCOPES.get(parts.uri.path()) == Some(&Scope::Read);
        let streams = parts.uri.path().ends_with(WRITE_MESSAGE);
        let opened = OpenedRequest::read(body, streams).await?;
        let call = ShardCall { head: Head { parts, is_repeatable }, opened, access, tenant };
        let method = call.method();
        if follows_all_shards(&method, &call) {
            let (known, mut survey) = (self.shards().len(), self.survey.subscribe());
            let answer = self.route_to_shard(&method, call).await?;
            let added = async move {
                if survey.wait_for(|survey| survey.shards.len() > known).await.is_err() {
                    std::future::pending().await
                }
            };
            return Ok(answer.map(|body| Body::new(WatchedBody::of_all_shards(body, added))));
        }
        self.route_to_shard(&method, call).await
    }

    async fn route_to_shard(self: Arc<Self>, method: &str, call: ShardCall) -> Result<Response<Body>, Status> {
        // One shard has everything.
        if self.shards().len() < 2 && !merge::names_shards(method) {
            let home = self.home();
            return self.at_shard(&home, call).await;
        }
        match NamedObject::from_method(method) {
            NamedObject::Target => {
                let request: pb::WriteMessageRequest = call.opened.as_message();
                let session = match request.frame {
                    Some(pb::write_message_request::Frame::Target(target)) => target.session_id,
                    _ => String::new(),
                };
                self.at_session(&session, call).await
            }
            NamedObject::NewSession => {
                let request: pb::CreateSessionRequest = call.opened.as_message();
                let shard = self.shard_for_new(&call.tenant, &request).await?;
                self.at_shard(&shard, call).await
            }
            NamedObject::Archive => {
                let request: pb::ImportSessionRequest = call.opened.as_message();
                let shard = self.shard_for_archive(&request.data).await?;
                self.at_shard(&shard, call).await
            }
            NamedObject::Compaction => self.at_compaction(call).await,
            NamedObject::Several => merge::answer(self, method, call).await,
            NamedObject::Nothing => {
                let home = self.home();
                self.at_shard(&home, call).await
            }
            NamedObject::Session => {
                let FirstField { id } = call.opened.as_message();
                self.at_session(&id, call).await
            }
        }
    }

    /// The shard with what belongs to no session.
    pub(super) fn home(&self) -> String {
        postgres::shard_name(1)
    }

    pub(super) async fn at_shard(&self, shard: &str, mut call: ShardCall) -> Result<Response<Body>, Status> {
        Ok(self.answer_at(shard, &call.head, &mut call.opened).await)
    }

    /// The answer of the shard with a session.
    pub(super) async fn at_session(&self, id: &str, call: ShardCall) -> Result<Response<Body>, Status> {
        let shard = self.shard_of(&call.tenant, id).await?;
        if let Some(named) = call.head.parts.extensions.get::<NamedSessions>() {
            named.add(id);
        }
        self.at_shard(&shard, call).await
    }

    /// The shard with a session, by any of its ids. One that is nowhere is missed by the first shard.
    pub(super) async fn shard_of(&self, tenant: &str, id: &str) -> Result<String, Status> {
        if self.shards().len() < 2 {
            return Ok(self.home());
        }
        Ok(self.find_shard(tenant, id).await?.unwrap_or_else(|| self.home()))
    }

    async fn find_shard(&self, tenant: &str, id: &str) -> Result<Option<String>, Error> {
        if let Ok(SessionId(session)) = id.parse::<SessionId>() {
            if let Some(shard) = self.sessions.get(&session) {
                return Ok(Some(shard.to_string()));
            }
            if let Some(shard) = self.registry.shard_of(session).await? {
                self.sessions.insert(session, shard.as_str().into());
                return Ok(Some(shard));
            }
        }
        match id.is_empty() {
            true => Ok(None),
            false => Ok(self.registry.shard_of_client_id(tenant, id).await?),
        }
    }

    /// The shard for a new session: its parent's; else that which has its client id already; else any, but the same one for
    /// a client id at each time, so that a repetition finds what was made, or what was erased.
    async fn shard_for_new(&self, tenant: &str, request: &pb::CreateSessionRequest) -> Result<String, Status> {
        if let Some(parent) = &request.parent_session_id {
            return self.shard_of(tenant, parent).await;
        }
        let Some(client_id) = &request.client_id else { return Ok(self.any_shard(&rand::random::<[u8; 16]>())) };
        if let Some(shard) = self.registry.shard_of_client_id(tenant, client_id).await.map_err(Error::from)? {
            return Ok(shard);
        }
        let mut key = tenant.as_bytes().to_vec();
        key.push(0);
        key.extend_from_slice(client_id.as_bytes());
        Ok(self.any_shard(&key))
    }

    /// The shard for an archive: that with any of its sessions, which hang together.
    async fn shard_for_archive(&self, data: &[u8]) -> Result<String, Status> {
        let sessions = sessions_in(data);
        for session in &sessions {
            if let Some(shard) = self.find_shard("", session).await? {
                return Ok(shard);
            }
        }
        Ok(sessions.first().map_or_else(|| self.home(), |first| self.any_shard(first.as_bytes())))
    }

    /// One of the shards, evenly, and the same for equal bytes.
    fn any_shard(&self, key: &[u8]) -> String {
        let shards = self.shards();
        let digest = blake3::hash(key);
        let number = digest.as_bytes().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let index = usize::try_from(number % shards.len().max(1) as u64).unwrap_or(0);
        shards.get(index).cloned().unwrap_or_else(|| self.home())
    }

    /// The answer of the shard with a compaction: of the first that knows it. To ask the others changes nothing there.
    async fn at_compaction(&self, mut call: ShardCall) -> Result<Response<Body>, Status> {
        let FirstField { id } = call.opened.as_message();
        let known_shard = self.compactions.get(&id);
        let others = self.shards().into_iter().filter(|shard| Some(shard.as_str()) != known_shard.as_deref());
        let mut missed = None;
        for shard in known_shard.iter().map(|shard| shard.to_string()).chain(others) {
            let answer = self.answer_at(&shard, &call.head, &mut call.opened).await;
            match reason(answer.headers()) {
                Some(reason) if is_missing(&reason) => missed = missed.or(Some(answer)),
                _ => {
                    self.compactions.insert(id, shard.into());
                    return Ok(answer);
                }
            }
        }
        missed.ok_or_else(|| Error::internal("there is no shard").into())
    }
}

/// True for a stream of all shards that lasts: shards may be added meanwhile.
fn follows_all_shards(method: &str, call: &ShardCall) -> bool {
    match method {
        "SessionService/WatchSessions" => true,
        "EventService/SubscribeEvents" => {
            let request: pb::SubscribeEventsRequest = call.opened.as_message();
            request.root_session_id.is_none() && request.session_ids.is_empty()
        }
        _ => false,
    }
}

/// True for the reason of a shard that does not know a compaction or its task.
fn is_missing(reason: &str) -> bool {
    [Reason::CompactionNotFound, Reason::SummaryTaskNotFound].iter().any(|missing| missing.as_str() == reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_reflect::Kind;

    /// A new method is either in one of the lists, or says first which session it is about.
    #[test]
    fn every_method_names_what_leads_to_its_shard() {
        let pool = pb::DESCRIPTORS.clone();
        let mut seen = 0;
        for service in pool.services().filter(|service| service.parent_file().package_name() == "longhand.v1") {
            for method in service.methods() {
                let name = format!("{}/{}", service.name(), method.name());
                let first = match NamedObject::from_method(&name) {
                    NamedObject::Session => "session_id",
                    NamedObject::Compaction => "compaction_id",
                    _ => continue,
                };
                let field = method.input().get_field(1).unwrap_or_else(|| panic!("{name} names nothing"));
                assert!(field.name() == first && field.kind() == Kind::String && !field.is_list(), "{name}");
                seen += 1;
            }
        }
        assert!(seen > 40, "{seen}");
    }
}

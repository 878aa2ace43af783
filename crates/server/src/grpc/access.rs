//! Access tokens over gRPC.

use super::caller::GrpcDoor;
use super::convert::session::durability;
use crate::app;
use crate::app::Error;
use crate::app::access_tokens::NewAccessToken;
use crate::grpc::scopes;
use crate::grpc::wire;
use crate::model::access::{AccessToken, Scopes};
use crate::model::time::Timestamp;
use crate::pb;
use crate::pb::access_service_server::AccessService;
use tonic::{Request, Response, Status};

/// The service of access tokens.
pub(super) struct Access {
    door: GrpcDoor,
}

impl Access {
    pub(super) fn new(door: GrpcDoor) -> Self {
        Self { door }
    }
}

fn read_new_token(request: pb::CreateAccessTokenRequest) -> app::Result<NewAccessToken> {
    let scopes = request.scopes.iter().map(|number| {
        let scope = pb::Scope::try_from(*number).ok().and_then(scopes::read_scope);
        scope.ok_or_else(|| Error::field("scopes", format!("{number} is no scope")))
    });
    let micros = |time: prost_types::Timestamp| {
        time.seconds.checked_mul(1_000_000)?.checked_add(i64::from(time.nanos) / 1_000).map(Timestamp)
    };
    let expire_time = match request.expire_time {
        Some(time) => Some(micros(time).ok_or_else(|| Error::field("expire_time", "is out of range"))?),
        None => None,
    };
    Ok(NewAccessToken {
        principal: request.principal,
        tenant: request.tenant,
        scopes: scopes.collect::<app::Result<Scopes>>()?,
        project: request.project,
        root: request.root_session_id,
        expire_time,
    })
}

fn convert(token: AccessToken) -> pb::AccessToken {
    pb::AccessToken {
        access_token_id: token.id.to_string(),
        principal: token.principal,
        tenant: token.tenant,
        scopes: token.scopes.iter().map(|one| scopes::scope(one).into()).collect(),
        project: token.binding.project,
        root_session_id: token.binding.root.map(|root| root.to_string()),
        create_time: Some(wire::timestamp(token.create_time)),
        expire_time: token.expire_time.map(wire::timestamp),
        revoke_time: token.revoke_time.map(wire::timestamp),
    }
}

#[tonic::async_trait]
impl AccessService for Access {
    async fn create_access_token(
        &self,
        request: Request<pb::CreateAccessTokenRequest>,
    ) -> Result<Response<pb::CreateAccessTokenResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let (token, secret) = caller.access_tokens().create(read_new_token(request.into_inner())?).await?;
        let durability = durability(caller.durability()).into();
        Ok(Response::new(pb::CreateAccessTokenResponse { access_token: Some(convert(token)), secret, durability }))
    }

    async fn create_console_link(
        &self,
        request: Request<pb::CreateConsoleLinkRequest>,
    ) -> Result<Response<pb::CreateConsoleLinkResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let request = request.into_inner();
        let seconds = request.session_timeout.map(|timeout| timeout.seconds);
        let new = read_new_token(pb::CreateAccessTokenRequest {
            principal: request.principal,
            tenant: request.tenant,
            scopes: request.scopes,
            project: request.project,
            root_session_id: request.root_session_id,
            expire_time: None,
        })?;
        let (secret, expire_time) = caller.access_tokens().create_console_link(new, seconds).await?;
        let path = format!("/#login={secret}");
        Ok(Response::new(pb::CreateConsoleLinkResponse { path, expire_time: Some(wire::timestamp(expire_time)) }))
    }

    async fn list_access_tokens(
        &self,
        request: Request<pb::ListAccessTokensRequest>,
    ) -> Result<Response<pb::ListAccessTokensResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let access_tokens = caller.access_tokens().list().await?.into_iter().map(convert).collect();
        Ok(Response::new(pb::ListAccessTokensResponse { access_tokens }))
    }

    async fn revoke_access_token(
        &self,
        request: Request<pb::RevokeAccessTokenRequest>,
    ) -> Result<Response<pb::RevokeAccessTokenResponse>, Status> {
        let caller = self.door.caller(&request)?;
        let token = caller.access_tokens().revoke(&request.get_ref().access_token_id).await?;
        let durability = durability(caller.durability()).into();
        Ok(Response::new(pb::RevokeAccessTokenResponse { access_token: Some(convert(token)), durability }))
    }
}

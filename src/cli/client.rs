//! Connection to a daemon.

use super::address::Address;
use super::failure::Usage;
use super::socket;
use crate::pb::access_service_client::AccessServiceClient;
use crate::pb::admin_service_client::AdminServiceClient;
use crate::pb::approval_service_client::ApprovalServiceClient;
use crate::pb::archive_service_client::ArchiveServiceClient;
use crate::pb::compaction_service_client::CompactionServiceClient;
use crate::pb::context_service_client::ContextServiceClient;
use crate::pb::erase_service_client::EraseServiceClient;
use crate::pb::event_service_client::EventServiceClient;
use crate::pb::message_service_client::MessageServiceClient;
use crate::pb::prompt_service_client::PromptServiceClient;
use crate::pb::run_service_client::RunServiceClient;
use crate::pb::search_service_client::SearchServiceClient;
use crate::pb::session_service_client::SessionServiceClient;
use crate::pb::{ACTOR_HEADER, RUN_EPOCH_HEADER, TENANT_HEADER};
use std::error::Error;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

/// Maximum size of an accepted answer, in bytes; a page of messages stays well below.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Flow-control window of the connection and of each stream, in bytes: large, so that a page is one round trip.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Timeout for connecting; the daemon is on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection whose requests say who asks.
pub(super) type Connection = InterceptedService<Channel, Headers>;

/// Adds the actor's name and the access token to every request.
#[derive(Clone)]
pub(super) struct Headers {
    actor: MetadataValue<Ascii>,
    authorization: Option<MetadataValue<Ascii>>,
    tenant: Option<MetadataValue<Ascii>>,
    epoch: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(ACTOR_HEADER, self.actor.clone());
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        if let Some(tenant) = &self.tenant {
            request.metadata_mut().insert(TENANT_HEADER, tenant.clone());
        }
        if let Some(epoch) = &self.epoch {
            request.metadata_mut().insert(RUN_EPOCH_HEADER, epoch.clone());
        }
        Ok(request)
    }
}

/// The secrets are not printed.
impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Headers").field("actor", &self.actor).finish_non_exhaustive()
    }
}

/// What a client needs to reach a daemon and to prove who asks.
#[derive(Clone)]
pub(super) struct Target {
    /// The address.
    pub(super) address: Address,
    /// The access token; none on a Unix socket.
    pub(super) secret: Option<String>,
    /// Certificates in PEM of which the daemon's must be one; none for those that the system trusts.
    pub(super) authorities: Option<String>,
    /// The tenant in which to act; none for the caller's own.
    pub(super) tenant: Option<String>,
    /// The run on whose behalf changes are made.
    pub(super) epoch: Option<i64>,
}

/// No daemon answers.
#[derive(Debug, thiserror::Error)]
#[error("no daemon answers at {address} ({reason}); `longhand serve` starts one")]
pub(super) struct Unreachable {
    address: Address,
    reason: String,
}

/// The services of one daemon, over one connection.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) sessions: SessionServiceClient<Connection>,
    pub(super) messages: MessageServiceClient<Connection>,
    pub(super) contexts: ContextServiceClient<Connection>,
    pub(super) compactions: CompactionServiceClient<Connection>,
    pub(super) search: SearchServiceClient<Connection>,
    pub(super) events: EventServiceClient<Connection>,
    pub(super) runs: RunServiceClient<Connection>,
    pub(super) prompts: PromptServiceClient<Connection>,
    pub(super) approvals: ApprovalServiceClient<Connection>,
    pub(super) erasures: EraseServiceClient<Connection>,
    pub(super) admin: AdminServiceClient<Connection>,
    pub(super) archives: ArchiveServiceClient<Connection>,
    pub(super) access: AccessServiceClient<Connection>,
}

impl Target {
    /// A daemon whose socket this program's user owns.
    pub(super) fn local(address: &Address) -> Self {
        Self { address: address.clone(), secret: None, authorities: None, tenant: None, epoch: None }
    }
}

impl Client {
    /// Connects to a daemon. The daemon records the actor's name with every change made over this connection.
    pub(super) async fn connect(target: &Target, actor: &str) -> anyhow::Result<Self> {
        let Target { address, secret, authorities, tenant, epoch } = target;
        let name = actor.parse::<MetadataValue<Ascii>>().ok().filter(|_| actor.is_ascii());
        let name = name.ok_or_else(|| Usage(format!("--actor {actor:?} is not plain ASCII")))?;
        let authorization = match secret {
            Some(secret) => {
                let mut value: MetadataValue<Ascii> = format!("Bearer {secret}")
                    .parse()
                    .map_err(|_| Usage("the access token is not plain ASCII".to_owned()))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let tenant = tenant
            .as_ref()
            .map(|tenant| tenant.parse().map_err(|_| Usage(format!("--tenant {tenant:?} is not plain ASCII"))));
        let tenant = tenant.transpose()?;
        let authority = match address {
            Address::Unix(_) => "http://localhost".to_owned(),
            Address::Http(url) => url.clone(),
        };
        let mut endpoint = Endpoint::from_shared(authority)
            .map_err(|error| Usage(format!("{address} is no server address: {error}")))?
            .connect_timeout(CONNECT_TIMEOUT)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        if address.to_string().starts_with("https:") {
            let tls = match authorities {
                Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint = endpoint.tls_config(tls)?;
        }
        let connected = match address {
            Address::Unix(path) => socket::connect(&endpoint, path).await,
            Address::Http(_) => endpoint.connect().await,
        };
        let channel = connected.map_err(|error| Unreachable { address: address.clone(), reason: innermost(&error) })?;
        Ok(Self::over(InterceptedService::new(
            channel,
            Headers { actor: name, authorization, tenant, epoch: epoch.map(MetadataValue::from) },
        )))
    }

    fn over(connection: Connection) -> Self {
        Self {
            sessions: SessionServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            messages: MessageServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            contexts: ContextServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            compactions: CompactionServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            search: SearchServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            events: EventServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            runs: RunServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            prompts: PromptServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            approvals: ApprovalServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            erasures: EraseServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            access: AccessServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            archives: ArchiveServiceClient::new(connection.clone()).max_decoding_message_size(ANSWER_BYTES_MAX),
            admin: AdminServiceClient::new(connection).max_decoding_message_size(ANSWER_BYTES_MAX),
        }
    }
}

/// Message of the innermost cause, which is the system's own.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

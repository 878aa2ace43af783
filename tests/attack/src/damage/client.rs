//! A client of one daemon, and its record of acknowledged messages.

use crate::daemon::{Daemon, connect};
use anyhow::{Context as _, Result, bail, ensure};
use longhand::pb;
use pb::admin_service_client::AdminServiceClient;
use pb::message_service_client::MessageServiceClient;
use pb::session_service_client::SessionServiceClient;
use std::path::Path;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

/// Deadline of every wait.
const DEADLINE: Duration = Duration::from_secs(60);
/// Pause between two requests to a daemon whose state is expected to change.
const INTERVAL: Duration = Duration::from_millis(20);

/// An acknowledged message.
#[derive(Debug, Clone)]
pub(super) struct Acknowledged {
    pub(super) session: String,
    pub(super) id: String,
    pub(super) text: String,
}

/// A connection to one daemon.
pub(super) struct Client {
    channel: Channel,
}

/// The code of a refusal, its reason, and the row in its details.
pub(super) fn reason(status: &Status) -> (Code, String, Option<String>) {
    let info = status.get_details_error_info();
    let row = info.as_ref().and_then(|info| info.metadata.get("row").cloned());
    (status.code(), info.map(|info| info.reason).unwrap_or_default(), row)
}

fn text_part(text: &str) -> pb::Part {
    let body = Some(pb::part::Body::Text(pb::TextPart { text: text.to_owned() }));
    pb::Part { body, ..pb::Part::default() }
}

impl Client {
    pub(super) fn of(daemon: &Daemon) -> Self {
        Self::at(daemon.socket())
    }

    pub(super) fn at(socket: &Path) -> Self {
        Self { channel: connect(socket) }
    }

    pub(super) async fn create(&self) -> Result<String> {
        let mut client = SessionServiceClient::new(self.channel.clone());
        let created = client.create_session(pb::CreateSessionRequest::default()).await?.into_inner();
        Ok(created.session.context("no session")?.session_id)
    }

    /// Appends one text as a user message.
    pub(super) async fn append(&self, session: &str, text: &str, request_id: &str) -> Result<Acknowledged, Status> {
        let body = Some(pb::part::Body::Text(pb::TextPart { text: text.to_owned() }));
        let message = pb::NewMessage {
            role: pb::Role::User.into(),
            parts: vec![pb::Part { body, ..pb::Part::default() }],
            ..pb::NewMessage::default()
        };
        let request = pb::AppendMessagesRequest {
            session_id: session.to_owned(),
            messages: vec![message],
            request_id: request_id.to_owned(),
            ..pb::AppendMessagesRequest::default()
        };
        let mut client = MessageServiceClient::new(self.channel.clone());
        let appended = client.append_messages(request).await?.into_inner();
        let id = appended.message_ids.first().cloned().unwrap_or_default();
        Ok(Acknowledged { session: session.to_owned(), id, text: text.to_owned() })
    }

    /// Appends messages of the user, each with its parts, and leaves them open if so asked. Returns their ids.
    pub(super) async fn append_all(&self, session: &str, messages: &[Vec<String>], open: bool) -> Result<Vec<String>> {
        let new = |texts: &Vec<String>| pb::NewMessage {
            role: pb::Role::User.into(),
            parts: texts.iter().map(|text| text_part(text)).collect(),
            open,
            metadata_json: Some("{\"from\": \"damage\"}".to_owned()),
            ..pb::NewMessage::default()
        };
        let request = pb::AppendMessagesRequest {
            session_id: session.to_owned(),
            messages: messages.iter().map(new).collect(),
            ..pb::AppendMessagesRequest::default()
        };
        let mut client = MessageServiceClient::new(self.channel.clone());
        Ok(client.append_messages(request).await?.into_inner().message_ids)
    }

    /// Adds parts to an open message.
    pub(super) async fn add_parts(&self, session: &str, message: &str, texts: &[String]) -> Result<()> {
        let request = pb::AppendPartsRequest {
            session_id: session.to_owned(),
            message_id: message.to_owned(),
            parts: texts.iter().map(|text| text_part(text)).collect(),
            ..pb::AppendPartsRequest::default()
        };
        MessageServiceClient::new(self.channel.clone()).append_parts(request).await?;
        Ok(())
    }

    /// Seals an open message.
    pub(super) async fn finish(&self, session: &str, message: &str) -> Result<()> {
        let request = pb::FinishMessageRequest {
            session_id: session.to_owned(),
            message_id: message.to_owned(),
            ..pb::FinishMessageRequest::default()
        };
        MessageServiceClient::new(self.channel.clone()).finish_message(request).await?;
        Ok(())
    }

    /// Edits a message.
    pub(super) async fn edit(&self, session: &str, message: &str, text: &str) -> Result<()> {
        let request = pb::EditMessageRequest {
            session_id: session.to_owned(),
            message_id: message.to_owned(),
            parts: vec![text_part(text)],
            ..pb::EditMessageRequest::default()
        };
        MessageServiceClient::new(self.channel.clone()).edit_message(request).await?;
        Ok(())
    }

    /// Forks a session after one of its messages.
    pub(super) async fn fork(&self, session: &str, message: &str) -> Result<String> {
        let request = pb::ForkSessionRequest {
            session_id: session.to_owned(),
            point: Some(pb::fork_session_request::Point::MessageId(message.to_owned())),
            ..pb::ForkSessionRequest::default()
        };
        let mut client = SessionServiceClient::new(self.channel.clone());
        Ok(client.fork_session(request).await?.into_inner().session.context("no session")?.session_id)
    }

    /// Archives a session.
    pub(super) async fn archive(&self, session: &str) -> Result<()> {
        let request =
            pb::ArchiveSessionRequest { session_id: session.to_owned(), ..pb::ArchiveSessionRequest::default() };
        SessionServiceClient::new(self.channel.clone()).archive_session(request).await?;
        Ok(())
    }

    /// The text of a message.
    pub(super) async fn text(&self, acknowledged: &Acknowledged) -> Result<String, Status> {
        let request =
            pb::GetMessageRequest { session_id: acknowledged.session.clone(), message_id: acknowledged.id.clone() };
        let mut client = MessageServiceClient::new(self.channel.clone()).max_decoding_message_size(64 << 20);
        let message = client.get_message(request).await?.into_inner().message.unwrap_or_default();
        let texts = message.parts.into_iter().filter_map(|part| match part.body {
            Some(pb::part::Body::Text(text)) => Some(text.text),
            _ => None,
        });
        Ok(texts.collect())
    }

    /// Checks that every acknowledged message is present and unaltered.
    pub(super) async fn check(&self, acknowledged: &[Acknowledged]) -> Result<()> {
        for acknowledged in acknowledged {
            let found = self.text(acknowledged).await.with_context(|| format!("message {}", acknowledged.id))?;
            ensure!(found == acknowledged.text, "message {} was altered", acknowledged.id);
        }
        Ok(())
    }

    /// Number of messages of a session.
    pub(super) async fn count(&self, session: &str) -> Result<usize> {
        let request = pb::ListMessagesRequest {
            session_id: session.to_owned(),
            page_size: 1_000,
            ..pb::ListMessagesRequest::default()
        };
        let mut client = MessageServiceClient::new(self.channel.clone()).max_decoding_message_size(64 << 20);
        Ok(client.list_messages(request).await?.into_inner().messages.len())
    }

    pub(super) async fn info(&self) -> Result<pb::GetServerInfoResponse> {
        let mut client = AdminServiceClient::new(self.channel.clone());
        Ok(client.get_server_info(pb::GetServerInfoRequest {}).await?.into_inner())
    }

    /// Waits until the write state is as given.
    pub(super) async fn until(&self, state: pb::WriteState) -> Result<()> {
        self.until_info(|info| info.write_state() == state).await
    }

    /// Waits until the state of the checkpoints is as expected.
    pub(super) async fn until_checkpoint(&self, is_so: impl Fn(&pb::CheckpointState) -> bool) -> Result<()> {
        self.until_info(|info| info.checkpoint.as_ref().is_some_and(&is_so)).await
    }

    /// Waits until the state of the daemon is as expected.
    pub(super) async fn until_info(&self, is_so: impl Fn(&pb::GetServerInfoResponse) -> bool) -> Result<()> {
        let mut info = self.info().await?;
        let waited = tokio::time::timeout(DEADLINE, async {
            while !is_so(&info) {
                tokio::time::sleep(INTERVAL).await;
                info = self.info().await?;
            }
            anyhow::Ok(())
        });
        match waited.await {
            Ok(done) => done,
            Err(_) => bail!("the daemon stays at {info:?}"),
        }
    }

    /// Checks the health of the services that write, and of those that read.
    pub(super) async fn health(&self, writers: ServingStatus) -> Result<()> {
        let mut client = HealthClient::new(self.channel.clone());
        let expected = [
            ("", writers),
            (pb::message_service_server::SERVICE_NAME, writers),
            (pb::session_service_server::SERVICE_NAME, writers),
            (pb::view_service_server::SERVICE_NAME, ServingStatus::Serving),
            (pb::event_service_server::SERVICE_NAME, ServingStatus::Serving),
        ];
        for (service, expected) in expected {
            let waited = tokio::time::timeout(DEADLINE, async {
                loop {
                    let request = HealthCheckRequest { service: service.to_owned() };
                    if client.check(request).await?.into_inner().status() == expected {
                        return anyhow::Ok(());
                    }
                    tokio::time::sleep(INTERVAL).await;
                }
            });
            waited.await.with_context(|| format!("health never said {expected:?} of {service:?}"))??;
        }
        Ok(())
    }

    /// The sessions and revisions that the integrity check reports.
    pub(super) async fn findings(&self) -> Result<Vec<(String, i64)>> {
        let mut client = AdminServiceClient::new(self.channel.clone());
        let mut items = client.check_integrity(pb::CheckIntegrityRequest::default()).await?.into_inner();
        let mut findings = Vec::new();
        while let Some(item) = items.message().await? {
            match item.item {
                Some(pb::check_integrity_response::Item::Finding(found)) => {
                    findings.push((found.session_id, found.revision));
                }
                Some(pb::check_integrity_response::Item::End(_)) => return Ok(findings),
                None => {}
            }
        }
        bail!("the check has no end")
    }
}

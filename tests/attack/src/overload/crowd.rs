//! A crowd: one access token of another tenant has thousands of calls in flight, and each begins anew when it is answered.

use super::Target;
use super::bystander::{append, reason_of};
use super::faults::{Committed, Counts, count, soon};
use crate::daemon::connect;
use anyhow::{Context as _, Result};
use longhand::pb;
use longhand::pb::access_service_client::AccessServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::search_service_client::SearchServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::pb::view_service_client::ViewServiceClient;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// Maximum number of concurrent calls of one connection, as the daemon allows it.
const CALLS: usize = 250;
const TENANT: &str = "loud";
/// Sessions to which the calls are made.
const SESSIONS: usize = 16;

/// A member of the crowd.
#[derive(Clone)]
struct Member {
    channel: Channel,
    credentials: MetadataValue<Ascii>,
    session: String,
}

impl Member {
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.credentials.clone());
        request
    }

    /// Makes the call with this number: an append, a view or a search.
    async fn call(&self, number: usize, words: &str) -> Result<(), Status> {
        let (channel, session_id) = (self.channel.clone(), self.session.clone());
        match number % 3 {
            0 => {
                let request = self.request(append(&session_id, words));
                MessageServiceClient::new(channel).append_messages(request).await.map(drop)
            }
            1 => {
                let request = self.request(pb::GetViewRequest { session_id, ..Default::default() });
                let mut view = ViewServiceClient::new(channel).get_view(request).await?.into_inner();
                while view.message().await?.is_some() {}
                Ok(())
            }
            _ => {
                let query = words.split(' ').next().unwrap_or_default().to_owned();
                let request = pb::SearchHistoryRequest { query, session_id: Some(session_id), ..Default::default() };
                SearchServiceClient::new(channel).search_history(self.request(request)).await.map(drop)
            }
        }
    }
}

/// An access token of another tenant than the owner's, and sessions of that tenant.
async fn join(target: &Target) -> Result<(MetadataValue<Ascii>, Vec<String>)> {
    let owner = connect(target.daemon.socket());
    let token = pb::CreateAccessTokenRequest {
        principal: "crowd".to_owned(),
        tenant: Some(TENANT.to_owned()),
        scopes: vec![pb::Scope::Read.into(), pb::Scope::Write.into()],
        ..Default::default()
    };
    let made = AccessServiceClient::new(owner.clone()).create_access_token(token).await?.into_inner();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut request = Request::new(pb::CreateSessionRequest::default());
        request.metadata_mut().insert("longhand-tenant", MetadataValue::from_static(TENANT));
        let made = SessionServiceClient::new(owner.clone()).create_session(request).await?.into_inner();
        sessions.push(made.session.context("a session")?.session_id);
    }
    Ok((format!("Bearer {}", made.secret).parse()?, sessions))
}

pub(super) async fn crowd(target: &Target) -> Result<Committed> {
    let (credentials, sessions) = join(target).await?;
    let url = std::fs::read_to_string(target.directory.join("longhand.url"))?.trim().to_owned();
    let endpoint = Endpoint::from_shared(url)?;
    let mut channel = endpoint.connect().await?;
    let words = "words of a crowd that are in everybody's way ".repeat(10);
    // The whole crowd is there before its first member leaves.
    let end = Instant::now() + target.scale.hold + Duration::from_secs(1);
    let mut calling = JoinSet::new();
    for number in 0..target.scale.appends {
        if number % CALLS == 0 {
            channel = endpoint.connect().await?;
        }
        let session = sessions[number % SESSIONS].clone();
        let (member, words) =
            (Member { channel: channel.clone(), credentials: credentials.clone(), session }, words.clone());
        calling.spawn(async move {
            let mut answers = Counts::new();
            while Instant::now() < end {
                match member.call(number, &words).await {
                    Ok(()) => count(&mut answers, "answered"),
                    Err(status) => count(&mut answers, reason_of(&status)),
                }
            }
            answers
        });
    }
    let (mut answers, mut calls) = (Counts::new(), 0);
    while let Some(of_member) = soon("the crowd to leave", calling.join_next()).await? {
        for (what, number) in of_member? {
            calls += number;
            *answers.entry(what).or_default() += number;
        }
    }
    // It may be refused what is beyond its share, and nothing else.
    let known = |what: &&String| ["answered", "STORE_BUSY", "TOO_MANY_REQUESTS"].contains(&what.as_str());
    let broken = answers.keys().filter(|what| !known(what)).cloned().collect();
    Ok((calls, answers, broken))
}

//! A session, as one program uses it.

use crate::client::Client;
use crate::error::Result;
use crate::events::Events;
use crate::ids::random_id;
use crate::message::batches;
use crate::reply::Reply;
use crate::view::View;
use longhand_protocol as v1;
use longhand_protocol::reason::Reason;
use std::collections::HashMap;

/// Requests that find an erased session, or lose against another client, before one gives up.
const OPENINGS_MAX: usize = 8;

/// A session. It keeps its newest views, so that the daemon sends only what changed since.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    id: String,
    /// By their formats, and whether what a format cannot carry is left out.
    views: HashMap<(i32, bool), View>,
}

impl Client {
    /// A session by its id or client id. Nothing is asked of the daemon before its first use.
    pub fn session(&self, session_id: impl Into<String>) -> Session {
        Session { client: self.clone(), id: session_id.into(), views: HashMap::new() }
    }

    /// Creates a session, or finds the one that the same request with this client id made. Without a client id the session
    /// gets one by chance, so that a request whose answer was lost creates no second session.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn create_session(&self, mut new: v1::CreateSessionRequest) -> Result<Session> {
        new.client_id.get_or_insert_with(|| format!("rust-{}", random_id()));
        let session = self.call(new).await?.session.unwrap_or_default();
        Ok(self.session(session.session_id))
    }

    /// The session with this client id, whoever made it, however it has changed, and also if one before was erased.
    /// Everything but the client id is for the case that it must be made.
    ///
    /// # Errors
    ///
    /// What a call ends with.
    pub async fn open_session(&self, client_id: &str, new: v1::CreateSessionRequest) -> Result<Session> {
        let mut openings = 0;
        loop {
            openings += 1;
            let found = self.call(v1::GetSessionRequest { session_id: client_id.to_owned() }).await;
            match found {
                Ok(v1::GetSessionResponse { session: Some(session), .. })
                    if session.state() != v1::SessionState::Erased =>
                {
                    return Ok(self.session(session.session_id));
                }
                Ok(_) => {}
                Err(error) if error.reason() == Some(Reason::SessionNotFound) => {}
                Err(error) => return Err(error),
            }
            // An erased session's request makes no other one, so this one differs.
            let metadata_json = Some(with_mark(new.metadata_json.as_deref(), &random_id()));
            let request =
                v1::CreateSessionRequest { client_id: Some(client_id.to_owned()), metadata_json, ..new.clone() };
            match self.create_session(request).await {
                // Another client was faster.
                Err(error) if error.reason() == Some(Reason::ClientIdReused) && openings < OPENINGS_MAX => {}
                made => return made,
            }
        }
    }
}

impl Session {
    /// Its id or client id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What makes its calls. Every request of the protocol has its place for [`Session::id`].
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its current state.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn get(&self) -> Result<v1::Session> {
        let request = v1::GetSessionRequest { session_id: self.id.clone() };
        Ok(self.client.call(request).await?.session.unwrap_or_default())
    }

    /// Appends messages, all or none. More than one request takes, 500 messages or 8 MiB, are several changes, one after
    /// the other.
    ///
    /// # Errors
    ///
    /// What a call ends with; what an earlier one of several changes wrote stays.
    pub async fn append(
        &self,
        messages: impl IntoIterator<Item = v1::NewMessage>,
    ) -> Result<v1::AppendMessagesResponse> {
        let mut batches = batches(messages);
        if batches.is_empty() {
            // What has no messages is the daemon's to refuse.
            batches.push(Vec::new());
        }
        let mut joined = v1::AppendMessagesResponse::default();
        for messages in batches {
            let session_id = self.id.clone();
            let request = v1::AppendMessagesRequest { session_id, messages, ..v1::AppendMessagesRequest::default() };
            let mut answer = self.client.call(request).await?;
            answer.existed_count += joined.existed_count;
            for (all, more) in [
                (&mut joined.message_ids, &mut answer.message_ids),
                (&mut joined.erased_message_ids, &mut answer.erased_message_ids),
            ] {
                all.append(more);
                *more = std::mem::take(all);
            }
            joined.secret_findings.append(&mut answer.secret_findings);
            answer.secret_findings = joined.secret_findings;
            joined = answer;
        }
        Ok(joined)
    }

    /// What a model should see now.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn view(&mut self) -> Result<&View> {
        self.view_with(v1::GetViewRequest::default()).await
    }

    /// What a model should see now, as the messages of a provider's request, each with its JSON in [`View::formatted`].
    ///
    /// # Errors
    ///
    /// What the call ends with: `CONTENT_NOT_IN_FORMAT` for what the format cannot carry.
    pub async fn formatted_view(&mut self, format: v1::MessageFormat) -> Result<&View> {
        self.view_with(v1::GetViewRequest { format: format.into(), ..v1::GetViewRequest::default() }).await
    }

    /// What a model should see now, as the request asks for it; the session and what is known are filled in. The view of a
    /// revision is that of [`Client::view`].
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn view_with(&mut self, request: v1::GetViewRequest) -> Result<&View> {
        let held = self.views.entry((request.format, request.degrade)).or_default();
        let request = v1::GetViewRequest { session_id: self.id.clone(), ..request };
        *held = self.client.refresh_view(request, held).await?;
        Ok(held)
    }

    /// Begins a message that is written while it comes, such as the reply to the newest view of this session.
    ///
    /// # Errors
    ///
    /// None yet: the first failure ends a later call.
    pub async fn reply(&self, new: v1::NewMessage) -> Result<Reply> {
        let newest = self.views.values().max_by_key(|view| view.header.revision);
        let view_token = newest.map(|view| view.token().to_owned());
        Reply::begin(self.client.clone(), self.id.clone(), new, view_token).await
    }

    /// Its events from its first one on, and then as they come, without an end.
    pub fn events(&self) -> Events {
        self.client.events(v1::SubscribeEventsRequest {
            session_ids: vec![self.id.clone()],
            start: Some(v1::subscribe_events_request::Start::FromBeginning(true)),
            ..v1::SubscribeEventsRequest::default()
        })
    }

    /// Erases content for good, and forgets the views that may have it.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn erase(&mut self, request: v1::EraseContentRequest) -> Result<v1::EraseContentResponse> {
        self.views.clear();
        self.client.call(v1::EraseContentRequest { session_id: self.id.clone(), ..request }).await
    }
}

/// Metadata with one more entry.
fn with_mark(metadata_json: Option<&str>, mark: &str) -> String {
    let entry = format!("\"made\":\"{mark}\"");
    match metadata_json.map(str::trim).and_then(|metadata| metadata.strip_prefix('{')) {
        Some(rest) if !rest.trim_start().starts_with('}') => format!("{{{entry},{rest}"),
        Some(rest) => format!("{{{entry}{rest}"),
        // What is no object is the daemon's to refuse.
        None => metadata_json.map_or_else(|| format!("{{{entry}}}"), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_keep_what_they_have_beside_the_mark() {
        for (metadata, marked) in [
            (None, r#"{"made":"x"}"#),
            (Some("{}"), r#"{"made":"x"}"#),
            (Some(r#" { "project": "p" }"#), r#"{"made":"x", "project": "p" }"#),
            (Some("[1]"), "[1]"),
        ] {
            assert_eq!(with_mark(metadata, "x"), marked);
        }
    }
}

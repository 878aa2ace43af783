//! A session, as one program uses it.

use crate::client::Client;
use crate::error::Result;
use crate::events::Events;
use crate::message::batches;
use crate::reply::Reply;
use crate::view::View;
use longhand_protocol as v1;
use std::collections::HashMap;

/// A session. It keeps its newest views, so that the daemon sends only what changed since.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    id: String,
    /// By their formats, and whether what a format cannot carry is left out.
    views: HashMap<(i32, bool), View>,
}

impl Session {
    pub(crate) fn new(client: Client, id: String) -> Self {
        Self { client, id, views: HashMap::new() }
    }

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
        self.view_with(v1::GetContextRequest::default()).await
    }

    /// What a model should see now, as the messages of a provider's request, each with its JSON in [`View::formatted`].
    ///
    /// # Errors
    ///
    /// What the call ends with: `CONTENT_NOT_IN_FORMAT` for what the format cannot carry.
    pub async fn formatted_view(&mut self, format: v1::MessageFormat) -> Result<&View> {
        self.view_with(v1::GetContextRequest { format: format.into(), ..v1::GetContextRequest::default() }).await
    }

    /// What a model should see now, as the request asks for it; the session and what is known are filled in. The view of a
    /// revision is that of [`Client::view`].
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn view_with(&mut self, request: v1::GetContextRequest) -> Result<&View> {
        let held = self.views.entry((request.format, request.degrade)).or_default();
        let request = v1::GetContextRequest { session_id: self.id.clone(), ..request };
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

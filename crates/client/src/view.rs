//! What a model should see now. Only what changed comes over the wire.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::repeat::extra_time;
use crate::stream::Stream;
use longhand_protocol as v1;
use v1::get_view_response::Frame;

/// A whole view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Its facts: revision, tokens, whether it fits.
    pub header: v1::ViewHeader,
    /// Its messages, in order.
    pub messages: Vec<v1::ViewMessage>,
    /// Its messages in the format that was asked for, in place of `messages`.
    pub formatted: Vec<v1::FormattedMessage>,
    /// What it does not show, and why.
    pub end: v1::ViewEnd,
    /// The number of messages that the daemon did not send again.
    pub known_count: usize,
}

impl View {
    /// What a reply to this view carries, which makes its usage count.
    pub fn token(&self) -> &str {
        &self.header.view_token
    }

    /// Has the daemon send only what is not in this view. Of one that was shortened for a call, no revision brings it back.
    fn make_known(&self, request: &mut v1::GetViewRequest) {
        if !self.header.view_hash.is_empty() && !self.header.shortened {
            request.known_view_hash = Some(self.header.view_hash.clone());
            request.known_revision = Some(self.header.revision);
        }
    }

    /// Reads what is sent of a view.
    async fn read(mut frames: Stream<v1::GetViewResponse>) -> Result<Self> {
        let mut view = Self::default();
        while let Some(response) = frames.next().await? {
            match response.frame {
                Some(Frame::Header(header)) => view.header = header,
                Some(Frame::Messages(page)) => {
                    view.messages.extend(page.messages);
                    view.formatted.extend(page.formatted_messages);
                }
                Some(Frame::End(end)) => {
                    view.end = end;
                    return Ok(view);
                }
                None => {}
            }
        }
        let message = "the view ended before it was complete".to_owned();
        Err(Error::Lost { message, was_sent: true, is_lasting: false })
    }

    /// The whole view, after the messages that are known of the held one.
    fn after(mut self, held: &Self) -> Result<Self> {
        self.known_count = usize::try_from(self.header.known_message_count).unwrap_or_default();
        prepend(&mut self.messages, &held.messages, self.known_count);
        prepend(&mut self.formatted, &held.formatted, self.known_count);
        let (has, expected) = (self.messages.len() + self.formatted.len(), self.header.message_count);
        if usize::try_from(expected) == Ok(has) {
            return Ok(self);
        }
        let revision = self.header.revision;
        let message = format!("the view at revision {revision} should have {expected} messages and has {has}");
        Err(Error::Foreign { code: tonic::Code::DataLoss, message })
    }
}

impl Client {
    /// A whole view.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn view(&self, request: v1::GetViewRequest) -> Result<View> {
        self.refresh_view(request, &View::default()).await
    }

    /// The view that follows the held one: only what changed is sent. Do not hold a view of a revision, or one that was
    /// shortened for a call.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn refresh_view(&self, mut request: v1::GetViewRequest, held: &View) -> Result<View> {
        held.make_known(&mut request);
        let mut attempts = self.attempts(extra_time(&request));
        loop {
            let read = async { View::read(self.stream(request.clone()).await?).await };
            let failure = match attempts.within(read).await {
                Ok(view) => return view.after(held),
                Err(failure) => failure,
            };
            tokio::time::sleep_until(attempts.next(failure, true)?).await;
        }
    }
}

fn prepend<M: Clone>(messages: &mut Vec<M>, known: &[M], count: usize) {
    messages.splice(..0, known.iter().take(count).cloned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(known: i32, count: i32, ids: &[&str]) -> View {
        let message = |id: &&str| v1::ViewMessage { message_id: (*id).to_owned(), ..v1::ViewMessage::default() };
        let header = v1::ViewHeader {
            view_hash: vec![1],
            known_message_count: known,
            message_count: count,
            ..v1::ViewHeader::default()
        };
        View { header, messages: ids.iter().map(message).collect(), ..View::default() }
    }

    #[test]
    fn what_is_known_comes_before_what_is_sent() {
        let held = view(0, 3, &["a", "b", "c"]);
        let now = view(2, 3, &["d"]).after(&held).expect("a whole view");
        let ids: Vec<&str> = now.messages.iter().map(|message| message.message_id.as_str()).collect();
        assert_eq!((ids, now.known_count), (vec!["a", "b", "d"], 2));
        assert!(view(2, 4, &["d"]).after(&held).is_err(), "a message is missing");
    }

    #[test]
    fn a_shortened_view_is_not_known() {
        let known = |held: &View| {
            let mut request = v1::GetViewRequest::default();
            held.make_known(&mut request);
            request.known_view_hash.is_some()
        };
        let mut held = view(0, 1, &["a"]);
        assert!(known(&held) && !known(&View::default()));
        held.header.shortened = true;
        assert!(!known(&held));
    }
}

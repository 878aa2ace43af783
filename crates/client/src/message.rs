//! Messages that most programs write.

use longhand_protocol as v1;
use prost::Message as _;
use v1::part::Body;

/// Messages of one request, and their bytes; a request has 512 messages and 12 MiB at most.
const BATCH: (usize, usize) = (500, 8 << 20);

/// A part with text.
pub fn text_part(text: impl Into<String>) -> v1::Part {
    v1::Part { body: Some(Body::Text(v1::TextPart { text: text.into() })), ..v1::Part::default() }
}

/// A whole message of one text.
pub fn text(role: v1::Role, text: impl Into<String>) -> v1::NewMessage {
    v1::NewMessage { role: role.into(), parts: vec![text_part(text)], ..v1::NewMessage::default() }
}

/// What a user says.
pub fn user(words: impl Into<String>) -> v1::NewMessage {
    text(v1::Role::User, words)
}

/// What a model answered, as a whole; `Session::reply` writes it while it comes. `view_token` is that of the view that it
/// answers, which makes its usage count.
pub fn assistant(words: impl Into<String>, usage: Option<v1::Usage>, view_token: impl Into<String>) -> v1::NewMessage {
    let finish = v1::Finish {
        reason: v1::FinishReason::Stop.into(),
        usage,
        view_token: Some(view_token.into()).filter(|token| !token.is_empty()),
        ..v1::Finish::default()
    };
    v1::NewMessage { finish: Some(finish), ..text(v1::Role::Assistant, words) }
}

/// The messages in order, as many together as fit into one request. One that is too large alone is alone, and the daemon's
/// to refuse.
pub fn batches(messages: impl IntoIterator<Item = v1::NewMessage>) -> Vec<Vec<v1::NewMessage>> {
    let mut made: Vec<Vec<v1::NewMessage>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let size = message.encoded_len();
        match made.last_mut() {
            Some(batch) if batch.len() < BATCH.0 && bytes + size <= BATCH.1 => {
                batch.push(message);
                bytes += size;
            }
            _ => {
                made.push(vec![message]);
                bytes = size;
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_the_order_and_fit() {
        let sizes = |messages: Vec<v1::NewMessage>| batches(messages).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(Vec::new()), [0; 0]);
        assert_eq!(sizes(vec![user("a"); 1_001]), [500, 500, 1]);
        let large = || user("x".repeat(5 << 20));
        assert_eq!(sizes(vec![user("a"), large(), large(), user("b")]), [2, 2]);
        assert_eq!(sizes(vec![user("x".repeat(9 << 20)), user("b")]), [1, 1]);
    }
}

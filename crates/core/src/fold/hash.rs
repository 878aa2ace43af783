//! The running hash of a view.

use crate::model::ids::MessageId;
use crate::model::message::{FinishReason, Role};
use crate::model::part::{Media, MediaSource, PartBody};
use crate::model::time::Timestamp;
use crate::model::view::{OriginalFields, PartShortening, ViewKind, ViewMessage};
use std::collections::HashMap;

/// The hash of a view without messages.
pub(super) const EMPTY: [u8; 32] = [0; 32];

/// The running hash of a view after each message; the last is the view's. A view that continues another therefore
/// contains the other's hash.
pub fn hashes(messages: &[ViewMessage]) -> Vec<[u8; 32]> {
    let mut hashes = Vec::new();
    extend(&mut hashes, messages);
    hashes
}

/// Adds the missing hashes after those of the first messages.
pub(super) fn extend(hashes: &mut Vec<[u8; 32]>, messages: &[ViewMessage]) {
    let mut before = hashes.last().copied().unwrap_or(EMPTY);
    // The messages that pairing made from one original carry the same fields, which may be long.
    let mut digests: HashMap<MessageId, [u8; 32]> = HashMap::new();
    let known = hashes.len();
    hashes.extend(messages[known..].iter().map(|message| {
        let mut hasher = Hasher(blake3::Hasher::new());
        hasher.bytes(&before);
        hasher.message(message);
        if let (Some(id), Some(fields)) = (message.source, &message.original_fields) {
            hasher.bytes(digests.entry(id).or_insert_with(|| digest_of(fields)));
        }
        before = *hasher.0.finalize().as_bytes();
        before
    }));
}

/// The hash of the fields that a message carries from its original.
fn digest_of(fields: &OriginalFields) -> [u8; 32] {
    let OriginalFields { client_id, finish_reason, model, provider, create_time, origin_time, actor, metadata_json } =
        fields;
    let mut hasher = Hasher(blake3::Hasher::new());
    hasher.optional(client_id.as_deref());
    hasher.number(match finish_reason {
        None => 0,
        Some(FinishReason::Stop) => 1,
        Some(FinishReason::ToolCalls) => 2,
        Some(FinishReason::Length) => 3,
        Some(FinishReason::ContentFilter) => 4,
        Some(FinishReason::Error) => 5,
        Some(FinishReason::Aborted) => 6,
    });
    for name in [model, provider, actor] {
        hasher.bytes(name.as_bytes());
    }
    hasher.number(create_time.0);
    hasher.time(*origin_time);
    hasher.optional(metadata_json.as_deref());
    *hasher.0.finalize().as_bytes()
}

/// Feeds a view message to a hash; every field of variable length is preceded by its length.
struct Hasher(blake3::Hasher);

impl Hasher {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn number(&mut self, number: i64) {
        self.0.update(&number.to_le_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.number(i64::from(text.is_some()));
        self.bytes(text.unwrap_or_default().as_bytes());
    }

    fn time(&mut self, time: Option<Timestamp>) {
        self.number(i64::from(time.is_some()));
        self.number(time.map_or(0, |time| time.0));
    }

    fn message(&mut self, message: &ViewMessage) {
        self.bytes(message.source.map(|id| id.0.as_bytes().to_vec()).unwrap_or_default().as_slice());
        self.number(message.revision);
        self.number(match message.role {
            Role::User => 1,
            Role::Assistant => 2,
            Role::Tool => 3,
            Role::System => 4,
        });
        self.number(match message.kind {
            ViewKind::Shown => 1,
            ViewKind::Marker => 2,
            ViewKind::Summary => 3,
            ViewKind::Paired => 4,
            ViewKind::Filler => 5,
            ViewKind::Retrieved => 6,
            ViewKind::Branch => 7,
            ViewKind::Added => 8,
        });
        self.number(i64::try_from(message.parts.len()).unwrap_or(i64::MAX));
        for part in &message.parts {
            self.bytes(part.source.map(|id| id.0.as_bytes().to_vec()).unwrap_or_default().as_slice());
            match part.shortened {
                None => self.number(0),
                Some(PartShortening::Pruned { original_length }) => {
                    self.number(1);
                    self.number(original_length);
                }
                Some(PartShortening::Truncated { omitted_length }) => {
                    self.number(2);
                    self.number(omitted_length);
                }
                Some(PartShortening::Erased) => self.number(3),
            }
            self.optional(part.client_id.as_deref());
            self.optional(part.metadata_json.as_deref());
            self.body(&part.body);
        }
    }

    fn body(&mut self, body: &PartBody) {
        self.bytes(body.kind().as_bytes());
        match body {
            PartBody::Text(text) | PartBody::Reasoning(text) => self.bytes(text.as_bytes()),
            PartBody::ToolCall(call) => {
                for text in [&call.call_id, &call.tool, &call.input_json] {
                    self.bytes(text.as_bytes());
                }
                self.time(call.start_time);
                self.time(call.end_time);
            }
            PartBody::ToolResult(result) => {
                self.bytes(result.call_id.as_bytes());
                self.optional(result.answers.message());
                self.number(result.status as i64);
                self.bytes(result.output.as_bytes());
                self.time(result.start_time);
                self.time(result.end_time);
                self.number(i64::try_from(result.attachments.len()).unwrap_or(i64::MAX));
                for media in &result.attachments {
                    self.media(media);
                }
            }
            PartBody::Media(media) => self.media(media),
            PartBody::Marker(marker) => {
                self.bytes(marker.name.as_bytes());
                self.bytes(marker.text.as_bytes());
            }
            PartBody::Step(step) => self.bytes(step.finish_reason.as_bytes()),
            PartBody::Opaque(opaque) => {
                self.bytes(opaque.provider.as_bytes());
                self.bytes(opaque.kind.as_bytes());
                self.bytes(&opaque.data);
            }
            PartBody::Record(record) => {
                self.bytes(record.kind.as_bytes());
                self.bytes(record.data.as_bytes());
            }
        }
    }

    fn media(&mut self, media: &Media) {
        self.bytes(media.mime_type.as_bytes());
        self.bytes(media.name.as_bytes());
        match &media.source {
            MediaSource::Bytes(bytes) => self.bytes(bytes),
            MediaSource::Uri(uri) => self.bytes(uri.as_bytes()),
        }
    }
}

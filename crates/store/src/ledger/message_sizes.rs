//! The sizes of messages, by which memory, pages and frames are bounded.

use crate::model::message::{Finish, Message};
use crate::model::part::{Marker, Media, MediaSource, Opaque, Part, PartBody, Record, ReplyStep, ToolCall, ToolResult};

/// The approximate size of a message on the wire, in bytes: all that has no fixed length is counted.
pub fn message_bytes(message: &Message) -> usize {
    let Message {
        id: _,
        session_id: _,
        client_id,
        revision: _,
        role: _,
        kind: _,
        parts,
        sealed_revision: _,
        finish: Finish { reason: _, detail, usage: _, view },
        model,
        provider,
        create_time: _,
        origin_time: _,
        actor,
        metadata_json,
        replaces,
    } = message;
    let texts = [detail, model, provider, actor].map(String::len).iter().sum::<usize>();
    let (writer, shown) = (replaces.as_ref().map(|by| &by.writer), view.as_ref().map(|view| &view.window.model));
    let options = [client_id.as_ref(), metadata_json.as_ref(), writer, shown];
    let parts = parts.iter().map(|Part { id: _, client_id, revision: _, body, metadata_json }| {
        let texts = length(client_id.as_ref()) + length(metadata_json.as_ref());
        96 + texts + body_bytes(body)
    });
    256 + texts + options.map(length).iter().sum::<usize>() + parts.sum::<usize>()
}

/// The bytes of a part's content that have no fixed length.
pub fn body_bytes(body: &PartBody) -> usize {
    match body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.len(),
        PartBody::ToolCall(ToolCall { call_id, tool, input_json, start_time: _, end_time: _ }) => {
            call_id.len() + tool.len() + input_json.len()
        }
        PartBody::ToolResult(result) => {
            let ToolResult { call_id, answers, status: _, output, attachments, start_time: _, end_time: _ } = result;
            let attachments = attachments.iter().map(|media| size_of::<Media>() + media_bytes(media)).sum::<usize>();
            call_id.len() + answers.message().map_or(0, str::len) + output.len() + attachments
        }
        PartBody::Media(media) => media_bytes(media),
        PartBody::Marker(Marker { name, text }) => name.len() + text.len(),
        PartBody::Step(ReplyStep { finish_reason, usage: _ }) => finish_reason.len(),
        PartBody::Opaque(Opaque { provider, kind, data }) => provider.len() + kind.len() + data.len(),
        PartBody::Record(Record { kind, data }) => kind.len() + data.len(),
    }
}

fn media_bytes(Media { mime_type, name, source }: &Media) -> usize {
    let source = match source {
        MediaSource::Bytes(bytes) => bytes.len(),
        MediaSource::Uri(uri) => uri.len(),
    };
    mime_type.len() + name.len() + source
}

fn length(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{MessageId, PartId, SessionId};
    use crate::model::message::{MessageKind, ReplacedMessage, Role};
    use crate::model::part::{Answers, ResultStatus};
    use crate::model::time::Timestamp;
    use uuid::Uuid;

    #[test]
    fn every_text_of_a_message_counts() {
        let empty = Message {
            id: MessageId(Uuid::nil()),
            session_id: SessionId(Uuid::nil()),
            client_id: None,
            revision: 1,
            role: Role::User,
            kind: MessageKind::Normal,
            parts: vec![Part {
                id: PartId(Uuid::nil()),
                client_id: None,
                revision: 1,
                body: PartBody::Text(String::new()).into(),
                metadata_json: None,
            }],
            sealed_revision: Some(1),
            finish: Finish::default(),
            model: String::new(),
            provider: String::new(),
            create_time: Timestamp(0),
            origin_time: None,
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        };
        let texts = "t".repeat(1_000);
        let full = Message {
            client_id: Some(texts.clone()),
            model: texts.clone(),
            provider: texts.clone(),
            actor: texts.clone(),
            metadata_json: Some(texts.clone()),
            finish: Finish { detail: texts.clone(), ..Finish::default() },
            replaces: Some(ReplacedMessage { message: MessageId(Uuid::nil()), writer: texts.clone() }),
            ..empty.clone()
        };
        assert_eq!(message_bytes(&full), message_bytes(&empty) + 7 * 1_000);
        let media = || Media { mime_type: texts.clone(), name: texts.clone(), source: MediaSource::Uri(texts.clone()) };
        let (call_id, tool, kind) = (texts.clone(), texts.clone(), texts.clone());
        let result = ToolResult {
            call_id: texts.clone(),
            answers: Answers::In(texts.clone()),
            status: ResultStatus::Completed,
            output: texts.clone(),
            attachments: vec![media(), media()],
            start_time: None,
            end_time: None,
        };
        let bodies = [
            (PartBody::ToolCall(ToolCall { call_id, tool, input_json: texts.clone(), ..ToolCall::default() }), 3),
            (PartBody::ToolResult(result), 9),
            (PartBody::Media(media()), 3),
            (PartBody::Marker(Marker { name: texts.clone(), text: texts.clone() }), 2),
            (PartBody::Step(ReplyStep { finish_reason: texts.clone(), usage: None }), 1),
            (PartBody::Opaque(Opaque { provider: texts.clone(), kind, data: texts.clone().into_bytes() }), 3),
            (PartBody::Record(Record { kind: texts.clone(), data: texts.clone() }), 2),
        ];
        for (body, count) in bodies {
            let bytes = body_bytes(&body);
            assert!((count * 1_000..count * 1_000 + 3 * size_of::<Media>()).contains(&bytes), "{bytes} of {body:?}");
        }
    }
}

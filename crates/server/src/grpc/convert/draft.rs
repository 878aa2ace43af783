//! Conversion of drafts, and of messages that are written as streams.

use super::message::{read_draft_id, read_finish, read_new_message, read_part, read_status};
use super::session::read_window;
use super::{not_given, read_enum};
use crate::app::append::{DraftEnd, DraftName, NewDraftText};
use crate::app::writing::{DraftWords, MessageEnd, WriteFrame, WriteStart, WriteTarget};
use crate::app::{Error, Reason, Result};
use crate::limits;
use crate::model::draft::{Draft, DraftKind};
use crate::pb;
use crate::pb::write_message_request::Frame;
use crate::pb::write_target::Message as Target;
use prost::Message as _;

/// Kind of a draft's part.
pub(super) fn draft_kind(kind: &DraftKind) -> pb::DraftKind {
    match kind {
        DraftKind::Text => pb::DraftKind::Text,
        DraftKind::Reasoning => pb::DraftKind::Reasoning,
        DraftKind::ToolInput { .. } => pb::DraftKind::ToolInput,
        DraftKind::ToolOutput { .. } => pb::DraftKind::ToolOutput,
    }
}

/// The call and the tool that a draft is about; empty for kinds that have none.
pub(super) fn call_and_tool(kind: DraftKind) -> (String, String) {
    match kind {
        DraftKind::Text | DraftKind::Reasoning => Default::default(),
        DraftKind::ToolInput { call_id, tool } => (call_id, tool),
        DraftKind::ToolOutput { call_id, .. } => (call_id, String::new()),
    }
}

/// A part that is still being written.
pub(in crate::grpc) fn draft(draft: Draft) -> pb::Draft {
    let Draft { id, client_id, kind, text } = draft;
    let number = draft_kind(&kind).into();
    let (call_id, tool) = call_and_tool(kind);
    pb::Draft { part_id: id.to_string(), kind: number, text, client_id, call_id, tool }
}

/// Fields of the protocol that say what a draft becomes.
struct KindFields {
    kind: i32,
    call_id: String,
    tool: String,
    call_message: Option<String>,
}

impl KindFields {
    /// The kind; none if it is unspecified.
    fn into_kind(self) -> Result<Option<DraftKind>> {
        let Self { kind, call_id, tool, call_message } = self;
        let kind = match read_enum("kind", kind)? {
            pb::DraftKind::Unspecified => None,
            pb::DraftKind::Text => Some(DraftKind::Text),
            pb::DraftKind::Reasoning => Some(DraftKind::Reasoning),
            pb::DraftKind::ToolInput => return Ok(Some(DraftKind::ToolInput { call_id, tool })),
            pb::DraftKind::ToolOutput => return Ok(Some(DraftKind::ToolOutput { call_id, call_message })),
        };
        match call_id.is_empty() && tool.is_empty() && call_message.is_none() {
            true => Ok(kind),
            false => Err(Error::field("kind", "is no kind that has a call")),
        }
    }
}

/// Text for a draft.
pub(in crate::grpc) fn read_draft_words(request: pb::AppendDraftRequest) -> Result<NewDraftText> {
    let part = (!request.part_id.is_empty()).then(|| read_draft_id(&request.part_id)).transpose()?;
    let pb::AppendDraftRequest { client_id, offset_bytes: offset, delta, kind, call_id, tool, .. } = request;
    let kind = KindFields { kind, call_id, tool, call_message: request.call_message_id }.into_kind()?;
    Ok(NewDraftText { part, client_id, kind: kind.unwrap_or_default(), offset, delta })
}

/// The begin of a stream.
pub(in crate::grpc) fn read_write_start(request: Option<pb::WriteMessageRequest>) -> Result<WriteStart> {
    if let Some(request) = &request {
        check_length(request)?;
    }
    let Some(Frame::Target(target)) = request.and_then(|request| request.frame) else {
        return Err(Error::field("target", "is not given, and the first frame of a message names it"));
    };
    let pb::WriteTarget { session_id: session, message, request_id } = target;
    let target = match message {
        None => return Err(not_given("target.message")),
        Some(Target::MessageId(id)) => WriteTarget::Open(id),
        Some(Target::NewMessage(new)) => WriteTarget::New(Box::new(read_new_message("target.new_message", new)?)),
    };
    Ok(WriteStart { session, target, request_id })
}

/// Refuses a frame that is too long once it is decompressed.
fn check_length(request: &pb::WriteMessageRequest) -> Result<()> {
    let length = request.encoded_len();
    if length <= limits::WRITE_FRAME_BYTES {
        return Ok(());
    }
    let message = format!("a frame of {length} bytes is longer than any may be");
    Err(Error::new(Reason::RequestTooLarge, message).with("limit", limits::WRITE_FRAME_BYTES))
}

/// A frame behind the first one.
pub(in crate::grpc) fn read_write_frame(request: pb::WriteMessageRequest) -> Result<WriteFrame> {
    check_length(&request)?;
    Ok(match request.frame {
        None => return Err(not_given("frame")),
        Some(Frame::Target(_)) => return Err(Error::field("target", "is in the first frame alone")),
        Some(Frame::DraftText(text)) => {
            let pb::DraftText { client_id, kind, offset_bytes: offset, delta, call_id, tool, call_message_id } = text;
            let kind = KindFields { kind, call_id, tool, call_message: call_message_id }.into_kind()?;
            WriteFrame::Words(DraftWords { client_id, kind, offset, delta })
        }
        Some(Frame::Part(part)) => WriteFrame::Part(read_part("part", part)?),
        Some(Frame::DraftEnd(pb::DraftEnd { client_id, status, metadata_json })) => {
            let status = (status != 0).then(|| read_status("draft_end.status", status)).transpose()?;
            WriteFrame::DraftEnd(DraftEnd {
                draft: DraftName::Client(client_id),
                status,
                metadata_json,
                received: None,
            })
        }
        Some(Frame::Heartbeat(pb::Heartbeat {})) => WriteFrame::Heartbeat,
        Some(Frame::MessageEnd(end)) => {
            let hash = *blake3::hash(&end.encode_to_vec()).as_bytes();
            let pb::MessageEnd { finish, window } = end;
            let finish = read_finish("message_end.finish", finish)?;
            WriteFrame::End(Box::new(MessageEnd { finish, window: window.map(read_window), hash }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::PartId;
    use uuid::Uuid;

    #[test]
    fn words_begin_a_draft_or_add_to_one() {
        let words = pb::AppendDraftRequest {
            offset_bytes: 4,
            delta: "more".into(),
            client_id: Some("p1".into()),
            ..pb::AppendDraftRequest::default()
        };
        let client_id = Some("p1".to_owned());
        let begins = NewDraftText { part: None, client_id, kind: DraftKind::Text, offset: 4, delta: "more".into() };
        assert_eq!(read_draft_words(words.clone()), Ok(begins.clone()));
        let id = PartId(Uuid::from_u128(5));
        let goes_on =
            pb::AppendDraftRequest { part_id: id.to_string(), kind: pb::DraftKind::Reasoning.into(), ..words.clone() };
        assert_eq!(
            read_draft_words(goes_on),
            Ok(NewDraftText { part: Some(id), kind: DraftKind::Reasoning, ..begins })
        );
        let odd = pb::AppendDraftRequest { kind: 9, ..words.clone() };
        assert_eq!(read_draft_words(odd).expect_err("a refusal").metadata["field"], "kind");
        let nobody = pb::AppendDraftRequest { part_id: "x".into(), ..words.clone() };
        assert_eq!(read_draft_words(nobody).expect_err("no draft").reason, Reason::DraftNotFound);
        let call = pb::AppendDraftRequest { call_id: "c1".into(), tool: "bash".into(), ..words.clone() };
        assert_eq!(read_draft_words(call.clone()).expect_err("text has no call").metadata["field"], "kind");
        let input = pb::AppendDraftRequest { kind: pb::DraftKind::ToolInput.into(), ..call };
        let kind = DraftKind::ToolInput { call_id: "c1".into(), tool: "bash".into() };
        assert_eq!(read_draft_words(input).map(|words| words.kind), Ok(kind.clone()));
        let draft = draft(Draft { id, client_id: None, kind, text: "so far".into() });
        assert_eq!(
            (draft.kind(), draft.call_id.as_str(), draft.tool.as_str()),
            (pb::DraftKind::ToolInput, "c1", "bash")
        );
    }

    #[test]
    fn the_first_frame_names_the_message_and_no_other_does() {
        let frame = |frame| pb::WriteMessageRequest { frame };
        let target = |message| Some(Frame::Target(pb::WriteTarget { message, ..pb::WriteTarget::default() }));
        let named = || target(Some(Target::MessageId("a1".into())));
        assert!(read_write_start(Some(frame(named()))).is_ok());
        let field = |refused: Error| refused.metadata["field"].clone();
        for (first, name) in
            [(None, "target"), (Some(frame(None)), "target"), (Some(frame(target(None))), "target.message")]
        {
            assert_eq!(read_write_start(first).map(drop).map_err(field), Err(name.to_owned()));
        }
        assert_eq!(read_write_frame(frame(named())).map(drop).map_err(field), Err("target".to_owned()));
        assert_eq!(read_write_frame(frame(None)).map(drop).map_err(field), Err("frame".to_owned()));
        let long = pb::DraftText { delta: "x".repeat(limits::WRITE_FRAME_BYTES), ..pb::DraftText::default() };
        let refused = read_write_frame(frame(Some(Frame::DraftText(long)))).expect_err("longer than a frame");
        assert_eq!(refused.reason, Reason::RequestTooLarge);
        let text = pb::DraftText { kind: 9, ..pb::DraftText::default() };
        assert_eq!(read_write_frame(frame(Some(Frame::DraftText(text)))).map(drop).map_err(field), Err("kind".into()));
    }
}

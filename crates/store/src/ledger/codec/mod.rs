//! Disk formats of the encoded columns. The numbers here are on disks, and never change their meaning.

mod approvals;
mod columns;
mod drafts;
mod erasures;
mod events;
mod layouts;
mod marks;
mod messages;
mod parts;
mod received;
mod run_events;

pub(crate) use approvals::{decode_answer, decode_question, encode_answer, encode_question};
pub(crate) use columns::*;
pub(crate) use drafts::{decode_draft_kind, decode_draft_text, draft_kind, encode_draft_text};
pub(crate) use events::{decode_event, encode_event};
pub(crate) use layouts::{decode_layout, encode_layout, encode_layout_change, layout_base};
pub(crate) use marks::{decode_mark, decode_truncation, encode_mark, encode_truncation, mark_kind};
pub(crate) use messages::{MessageHead, decode_finish, decode_message_head, encode_finish};
pub(crate) use parts::{
    EncodedBlob, EncodedPart, StoredPart, commitment, decode_part, decode_parts, decompress, digest_of_part,
    encode_part, encode_parts, media_blobs,
};
pub(crate) use received::{ReceivedPart, decode_received, encode_received_part};

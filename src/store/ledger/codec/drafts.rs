//! Kinds of drafts in the columns of their rows.

use super::uuid;
use crate::model::draft::DraftKind;
use crate::model::ids::MessageId;
use crate::store::engine::Row;
use crate::store::error::{Error, Result};

const TEXT: i32 = 1;
const REASONING: i32 = 2;
const TOOL_INPUT: i32 = 3;
const TOOL_OUTPUT: i32 = 4;

/// The number of a kind.
pub(crate) fn draft_kind(kind: &DraftKind) -> i32 {
    match kind {
        DraftKind::Text => TEXT,
        DraftKind::Reasoning => REASONING,
        DraftKind::ToolInput { .. } => TOOL_INPUT,
        DraftKind::ToolOutput { .. } => TOOL_OUTPUT,
    }
}

/// The kind in a row whose columns `kind`, `call_id`, `tool` and `call_message` begin at this one.
pub(crate) fn decode_draft_kind(row: &Row, first: usize) -> Result<DraftKind> {
    let missing = |column| Error::corrupt("draft", format_args!("it has no {column}"));
    let call_id = || row.get::<Option<String>>(first + 1)?.ok_or_else(|| missing("call_id"));
    Ok(match row.get(first)? {
        TEXT => DraftKind::Text,
        REASONING => DraftKind::Reasoning,
        TOOL_INPUT => {
            let tool = row.get::<Option<String>>(first + 2)?.ok_or_else(|| missing("tool"))?;
            DraftKind::ToolInput { call_id: call_id()?, tool }
        }
        TOOL_OUTPUT => {
            let message = row.get::<Option<Vec<u8>>>(first + 3)?.map(|id| uuid(&id)).transpose()?;
            let call_message = message.map(|id| MessageId(id).to_string());
            DraftKind::ToolOutput { call_id: call_id()?, call_message }
        }
        other => return Err(Error::corrupt("draft", format_args!("its kind is {other}"))),
    })
}

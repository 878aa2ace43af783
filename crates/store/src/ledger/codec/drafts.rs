//! Kinds of drafts in the columns of their rows, and what drafts have beside their texts.

use super::columns::decode_plain;
use super::received::DiskReplaced;
use super::uuid;
use crate::engine::Row;
use crate::error::{Error, Result};
use crate::model::draft::DraftKind;
use crate::model::ids::MessageId;
use crate::secrets::{BegunMatch, DraftText, ReadingMode, ReadingState};
use prost::Message as _;

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

/// What a draft has beside its text, before it is encrypted.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskDraftText {
    #[prost(int32, tag = "1")]
    reading: i32,
    #[prost(uint32, optional, tag = "2")]
    before: Option<u32>,
    #[prost(string, tag = "3")]
    waiting: String,
    #[prost(message, repeated, tag = "4")]
    replaced: Vec<DiskReplaced>,
    #[prost(message, repeated, tag = "5")]
    begun: Vec<DiskBegun>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskBegun {
    #[prost(string, tag = "1")]
    rule: String,
    #[prost(uint64, tag = "2")]
    length: u64,
}

pub(crate) fn encode_draft_text(text: &DraftText) -> Vec<u8> {
    let reading = match text.place.reading {
        ReadingMode::Undecided => 1,
        ReadingMode::Text => 2,
        ReadingMode::Json => 3,
        ReadingMode::JsonString => 4,
    };
    let before = text.place.before.map(u32::from);
    let replaced = text.replaced.iter().map(Into::into).collect();
    let begun = |begun: &BegunMatch| DiskBegun {
        rule: begun.rule.clone(),
        length: u64::try_from(begun.length).unwrap_or(u64::MAX),
    };
    let begun = text.place.begun.iter().map(begun).collect();
    DiskDraftText { reading, before, waiting: text.waiting.clone(), replaced, begun }.encode_to_vec()
}

pub(crate) fn decode_draft_text(bytes: &[u8]) -> Result<DraftText> {
    let disk: DiskDraftText = decode_plain("draft", bytes)?;
    let reading = match disk.reading {
        1 => ReadingMode::Undecided,
        2 => ReadingMode::Text,
        3 => ReadingMode::Json,
        4 => ReadingMode::JsonString,
        other => return Err(Error::corrupt("draft", format_args!("it is read as {other}"))),
    };
    let before = disk.before.map(|before| {
        char::from_u32(before).ok_or_else(|| Error::corrupt("draft", format_args!("{before} is no character")))
    });
    let replaced = disk.replaced.iter().map(TryInto::try_into).collect::<Result<_>>()?;
    let begun = |DiskBegun { rule, length }| {
        let length = usize::try_from(length).map_err(|error| Error::corrupt("draft", error))?;
        Ok(BegunMatch { rule, length })
    };
    let begun = disk.begun.into_iter().map(begun).collect::<Result<_>>()?;
    let place = ReadingState { reading, before: before.transpose()?, begun };
    Ok(DraftText { place, waiting: disk.waiting, replaced })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{DIGEST_BYTES, ReplacedSecret};

    #[test]
    fn what_a_draft_has_beside_its_text_comes_back() {
        for reading in [ReadingMode::Undecided, ReadingMode::Text, ReadingMode::Json, ReadingMode::JsonString] {
            let begun = [("one", 7), ("two", 1)].map(|(rule, length)| BegunMatch { rule: rule.to_owned(), length });
            let text = DraftText {
                place: ReadingState { reading, before: Some('é'), begun: begun.to_vec() },
                waiting: "waits".to_owned(),
                replaced: vec![ReplacedSecret { at: 3, length: 30, received: 20, digest: [5; DIGEST_BYTES] }],
            };
            assert_eq!(decode_draft_text(&encode_draft_text(&text)).expect("it is whole"), text);
        }
    }
}

//! Compactions that providers make themselves: blocks in which a provider keeps what came before them, for itself alone.
//!
//! Anthropic answers with a block `compaction`, on demand or at a threshold; its text is null where the provider failed.
//! OpenAI answers with an item `compaction`, or, on demand, with an object `response.compaction`, whose output is a whole
//! window of items. Both are stored as opaque parts, byte for byte.

use super::Revision;
use super::compaction::RevisionRange;
use super::ids::{MessageId, PartId};
use super::part::{Opaque, PartBody};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The kind of a block in which a provider keeps what came before it.
const BLOCK: &str = "compaction";
/// The kind of an object with such an item and the messages of the user that the provider keeps beside it.
pub const WINDOW: &str = "response.compaction";

/// A provider that makes compactions itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compactor {
    /// Anthropic, in its Messages.
    Anthropic,
    /// OpenAI, in its Responses.
    OpenAi,
}

/// A provider's compaction that a view contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCompaction {
    /// The provider.
    pub compactor: Compactor,
    /// The message with its block.
    pub message: MessageId,
    /// The block.
    pub part: PartId,
    /// The messages that it stands for; sorted and disjoint.
    pub covered: Vec<RevisionRange>,
    /// The revision of the block.
    pub revision: Revision,
}

impl Compactor {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }
}

/// The members that tell whether a block has anything in it.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Vec<&'a RawValue>,
}

impl Opaque {
    /// The provider whose compaction the block is, be it one that failed; none for any other block.
    pub fn compactor(&self) -> Option<Compactor> {
        match (self.provider.as_str(), self.kind.as_str()) {
            ("anthropic", BLOCK) => Some(Compactor::Anthropic),
            ("openai" | "openai_responses", BLOCK | WINDOW) => Some(Compactor::OpenAi),
            _ => None,
        }
    }

    /// True for a provider's compaction that did not fail: it stands for what came before it.
    pub fn stands_for_history(&self) -> bool {
        let Some(compactor) = self.compactor() else { return false };
        let Ok(members) = serde_json::from_slice::<Members<'_>>(&self.data) else { return false };
        let says = |value: Option<&RawValue>| value.is_some_and(|value| !matches!(value.get(), "null" | "\"\""));
        match compactor {
            Compactor::Anthropic => says(members.content),
            Compactor::OpenAi if self.kind == WINDOW => {
                let item = |item: &RawValue| Opaque { kind: BLOCK.to_owned(), data: item.get().into(), ..self.clone() };
                members.output.last().is_some_and(|last| item(last).stands_for_history())
            }
            Compactor::OpenAi => says(members.encrypted_content),
        }
    }
}

impl PartBody {
    /// True for a provider's compaction that did not fail.
    pub fn stands_for_history(&self) -> bool {
        matches!(self, Self::Opaque(opaque) if opaque.stands_for_history())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(provider: &str, kind: &str, data: &str) -> Opaque {
        Opaque { provider: provider.to_owned(), kind: kind.to_owned(), data: data.into() }
    }

    #[test]
    fn a_block_stands_for_history_unless_its_provider_failed() {
        for (provider, kind, data, compactor, stands) in [
            (
                "anthropic",
                "compaction",
                r#"{"type":"compaction","content":"So far."}"#,
                Some(Compactor::Anthropic),
                true,
            ),
            ("anthropic", "compaction", r#"{"type":"compaction","content":null}"#, Some(Compactor::Anthropic), false),
            ("anthropic", "compaction", r#"{"type":"compaction"}"#, Some(Compactor::Anthropic), false),
            ("anthropic", "compaction", "broken", Some(Compactor::Anthropic), false),
            ("anthropic", "thinking", r#"{"content":"So far."}"#, None, false),
            ("openai_responses", "compaction", r#"{"encrypted_content":"x"}"#, Some(Compactor::OpenAi), true),
            ("openai", "compaction", r#"{"encrypted_content":""}"#, Some(Compactor::OpenAi), false),
            (
                "openai",
                WINDOW,
                r#"{"output":[{"type":"message"},{"encrypted_content":"x"}]}"#,
                Some(Compactor::OpenAi),
                true,
            ),
            ("openai", WINDOW, r#"{"output":[]}"#, Some(Compactor::OpenAi), false),
            ("ai_sdk", "compaction", r#"{"content":"x","encrypted_content":"x"}"#, None, false),
        ] {
            let block = block(provider, kind, data);
            assert_eq!((block.compactor(), block.stands_for_history()), (compactor, stands), "{provider} {data}");
        }
    }
}

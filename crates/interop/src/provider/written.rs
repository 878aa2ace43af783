//! What comes of writing a view in a format.

use super::format::Format;
use crate::compose::{ObjectWriter, list};
use longhand_model::ids::{MessageId, PartId};
use longhand_model::part::{Media, MediaSource};

/// The messages of a view in a format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WrittenView {
    /// What a request has apart from its messages, as JSON: Anthropic's `system`, Gemini's `systemInstruction`. None if the
    /// view has no instructions at its beginning, or if they are messages of the format.
    pub system_json: Option<String>,
    /// The messages, or the items of an input.
    pub messages: Vec<WrittenMessage>,
    /// What is not in them, although the view has it.
    pub left_out: Vec<LeftOut>,
}

/// A message of a format. It can be made of several messages of the view, and several can be made of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenMessage {
    /// The message, as JSON.
    pub json: String,
    /// The stored messages that it shows, in order.
    pub sources: Vec<MessageId>,
}

/// Something of a view that a format has no use for, and whose absence changes nothing that the format's model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The message of the view; none for one that pairing made.
    pub message: Option<MessageId>,
    /// Its part.
    pub part: Option<PartId>,
    /// The kind.
    pub kind: LeftOutKind,
}

/// The kind of what a format leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeftOutKind {
    /// Reasoning that another provider, or nobody, signed: the format takes only what its own provider wrote, and defines
    /// that requests without it are complete.
    Reasoning,
    /// What another format's block had beside the part's content: its signature, its id, its citations.
    Members,
    /// A text of white space, which the format refuses.
    Blank,
    /// A block of another format that is more than reasoning, or one that is damaged: a line of text stands for it.
    Block,
    /// Media that the format does not take, or not there: a line of text stands for it.
    Media,
    /// The name of a tool, in letters that the format allows.
    ToolName,
    /// A part that a message of its role cannot have, instructions behind the beginning, or a beginning that is no user's:
    /// a line of text, or the user's role, stands for it.
    Role,
}

/// Something of a view that a format cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the format {} cannot carry it: {kind}", .format.name())]
pub struct Refusal {
    /// The format.
    pub format: Format,
    /// The message of the view; none for one that pairing made.
    pub message: Option<MessageId>,
    /// Its part.
    pub part: Option<PartId>,
    /// The kind.
    pub kind: RefusalKind,
}

/// The kind of what a format cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalKind {
    /// A block of another format that is more than reasoning.
    #[error("a {kind} block of {provider}")]
    ForeignBlock {
        /// The format that it belongs to.
        provider: String,
        /// Its kind there.
        kind: String,
    },
    /// A block of the format itself that is no JSON object.
    #[error("a {kind} block that is no JSON object")]
    DamagedBlock {
        /// Its kind.
        kind: String,
    },
    /// Media of a type that the format does not take, or not from there.
    #[error("media of the type {mime_type}{}", if *.is_address { " behind an address" } else { "" })]
    Media {
        /// The MIME type.
        mime_type: String,
        /// True if the bytes are behind an address.
        is_address: bool,
    },
    /// Media in a message of a role that can have none.
    #[error("media in a message of the {role}")]
    MediaOfRole {
        /// The role: `assistant` or `system`.
        role: &'static str,
    },
    /// A part that is neither text nor media in a message of a role that can have none.
    #[error("reasoning, a call, a result or a block in a message of the {role}")]
    PartOfRole {
        /// The role: `system` or `user`.
        role: &'static str,
    },
    /// A name of a tool that the format does not allow.
    #[error("the tool name {name}")]
    ToolName {
        /// The name.
        name: String,
    },
    /// Instructions behind the beginning of the conversation.
    #[error("a system message behind the beginning of the conversation")]
    LateSystem,
    /// A conversation that does not begin with the user, because nothing else is left of its beginning.
    #[error("a conversation that does not begin with the user")]
    NoUserFirst,
}

impl RefusalKind {
    /// Its stable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ForeignBlock { .. } => "foreign_block",
            Self::DamagedBlock { .. } => "damaged_block",
            Self::Media { .. } => "media",
            Self::MediaOfRole { .. } => "media_of_role",
            Self::PartOfRole { .. } => "part_of_role",
            Self::ToolName { .. } => "tool_name",
            Self::LateSystem => "late_system",
            Self::NoUserFirst => "no_user_first",
        }
    }
}

/// Messages of a format in which neighbours of one role are one message.
#[derive(Default)]
pub(super) struct MergedMessages(Vec<Neighbours>);

struct Neighbours {
    role: &'static str,
    blocks: Vec<String>,
    sources: Vec<MessageId>,
}

impl MergedMessages {
    /// Adds the blocks of a message of the view.
    pub(super) fn add(&mut self, role: &'static str, blocks: Vec<String>, source: Option<MessageId>) {
        match self.0.last_mut().filter(|last| last.role == role) {
            Some(last) => {
                last.blocks.extend(blocks);
                last.sources.extend(source);
            }
            None => self.0.push(Neighbours { role, blocks, sources: source.into_iter().collect() }),
        }
    }

    /// The block that was added last.
    pub(super) fn last_block(&mut self) -> Option<&mut String> {
        self.0.last_mut()?.blocks.last_mut()
    }

    /// The messages, with their blocks in the member of that name.
    pub(super) fn end(self, content: &str) -> Vec<WrittenMessage> {
        let message = |Neighbours { role, blocks, sources }| WrittenMessage {
            json: ObjectWriter::default().text("role", role).json(content, list(&blocks)).end(),
            sources,
        };
        self.0.into_iter().map(message).collect()
    }
}

pub(super) fn media_refusal(media: &Media) -> RefusalKind {
    let is_address = matches!(media.source, MediaSource::Uri(_));
    RefusalKind::Media { mime_type: media.mime_type.clone(), is_address }
}

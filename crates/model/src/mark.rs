//! Marks: append-only statements about history.

use super::Revision;
use super::compaction::RevisionRange;
use super::ids::CompactionId;
use std::collections::BTreeMap;

/// A mark as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The revision at which it was made.
    pub revision: Revision,
    /// The statement.
    pub body: MarkBody,
}

/// The statement of a mark.
#[derive(Debug, Clone, PartialEq)]
pub enum MarkBody {
    /// A summary covers ranges of history.
    Compacted(CompactedMark),
    /// Parts are shortened, and messages omitted. The parts are listed beside the mark.
    Pruned {
        /// The compaction that made the mark.
        compaction: CompactionId,
        /// The number of parts.
        part_count: i64,
        /// The omitted messages; sorted and disjoint.
        omitted: Vec<RevisionRange>,
        /// The request that a replay replaces, because a provider found it too large.
        replay: Option<Replay>,
    },
    /// The messages after `after`, up to the mark, are no longer part of the conversation.
    Rewound {
        /// The last revision that still counts.
        after: Revision,
        /// True if the next revision is a summary of the abandoned branch. It is shown as long as the mark is active.
        has_summary: bool,
        /// True if a fork begins after `after`, and no client rewound anything. Such a mark cannot be undone.
        of_fork: bool,
    },
    /// A message is replaced by another, or omitted.
    Edited {
        /// The message that was edited: always the original, also when it is edited again.
        target: Revision,
        /// The replacement, at the position of the target; none omits the target from views.
        replacement: Option<Revision>,
    },
    /// A message must stay verbatim in every view.
    Pinned {
        /// The message.
        target: Revision,
    },
    /// What a message says is left out of the words of people that follow summaries, or stays among them.
    Words {
        /// The message: always the original.
        target: Revision,
        /// What becomes of its words; none leaves that to the summarizer again.
        stance: Option<WordsStance>,
    },
    /// An earlier mark is no longer active.
    Undone {
        /// The mark that is undone.
        mark: Revision,
    },
    /// The content of messages is erased. No summary that was written from them is active any more, and no mark undoes
    /// this one.
    Erased {
        /// The revisions of the messages; sorted and disjoint.
        ranges: Vec<RevisionRange>,
    },
}

impl MarkBody {
    /// The message that the mark replaces by another, and its replacement.
    pub fn replaced(&self) -> Option<(Revision, Revision)> {
        match self {
            Self::Edited { target, replacement } => replacement.map(|replacement| (*target, replacement)),
            Self::Pruned { replay, .. } => replay.map(|replay| (replay.target, replay.replacement)),
            Self::Compacted(_)
            | Self::Rewound { .. }
            | Self::Pinned { .. }
            | Self::Words { .. }
            | Self::Undone { .. }
            | Self::Erased { .. } => None,
        }
    }
}

/// What becomes of a message's words beside the summaries that cover it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordsStance {
    /// They are left out.
    Struck,
    /// They come first, also if the summarizer would leave them out.
    Kept,
}

/// What becomes of the words of messages, by the revisions of the originals.
pub type Words = BTreeMap<Revision, WordsStance>;

/// A summary and the ranges of history that it covers.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactedMark {
    /// The compaction that made the mark.
    pub compaction: CompactionId,
    /// The revision whose view was summarized; nothing after it is covered.
    pub base: Revision,
    /// All messages that the summary covers, including those of the summaries before it; sorted and disjoint.
    pub covered: Vec<RevisionRange>,
    /// The first message kept verbatim; every inline message from here on stays. `base + 1` keeps nothing old.
    pub tail_start: Revision,
    /// The marker message that introduces the summary, if the policy has one.
    pub marker: Option<Revision>,
    /// The summary message.
    pub summary: Revision,
    /// Covered messages that the view shows nevertheless, ascending.
    pub retained: Vec<Revision>,
    /// True if the retained messages come before the summary, false if after it.
    pub retained_first: bool,
    /// The continuation: the message that asks the model to go on, if the policy has one. It has its own position.
    pub continuation: Option<Revision>,
    /// The last revision of the messages from the tail on that the summary may quote, since it has a record of what
    /// happened until it took effect; none if it quotes none of them. Erasing one of them erases the summary.
    pub quoted_until: Option<Revision>,
    /// The message of each line of people's words that follow the summary.
    pub said_in: Vec<Revision>,
}

/// A request that is replaced by its replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// The request: always the original, even if an edit replaced it.
    pub target: Revision,
    /// The message that replaces it.
    pub replacement: Revision,
}

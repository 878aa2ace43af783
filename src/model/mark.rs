//! Marks: append-only statements about history.

use super::Revision;
use super::compaction::RevisionRange;
use super::ids::CompactionId;

/// A mark as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The revision at which it was made.
    pub revision: Revision,
    /// What it says.
    pub body: MarkBody,
}

/// What a mark says.
#[derive(Debug, Clone, PartialEq)]
pub enum MarkBody {
    /// A summary stands for ranges of history.
    Compacted(CompactedMark),
    /// Parts are shortened, and messages left out. The parts are listed beside the mark.
    Pruned {
        /// The reduction that did it.
        compaction: CompactionId,
        /// How many parts.
        part_count: i64,
        /// The messages that are left out; sorted and disjoint.
        omitted: Vec<RevisionRange>,
        /// The request that another message stands for, because a provider found it too large.
        replay: Option<Replay>,
    },
    /// What came after `after`, up to the mark, is no longer part of the conversation.
    Rewound {
        /// The last revision that still counts.
        after: Revision,
        /// Whether the next revision is a message that tells of what was left. It is shown as long as the mark holds.
        told: bool,
        /// Whether a fork begins behind `after`, and nothing was rewound by anybody: nobody can take that back.
        of_fork: bool,
    },
    /// A message is replaced by another, or left out.
    Edited {
        /// The message that was edited: always the original, also when it is edited again.
        target: Revision,
        /// The message that stands in its place; none leaves it out of views.
        replacement: Option<Revision>,
    },
    /// A message must stay verbatim in every view.
    Pinned {
        /// The message.
        target: Revision,
    },
    /// An earlier mark no longer holds.
    Undone {
        /// The mark that is taken back.
        mark: Revision,
    },
}

impl MarkBody {
    /// The message that the mark puts another in the place of, and that other.
    pub fn replaced(&self) -> Option<(Revision, Revision)> {
        match self {
            Self::Edited { target, replacement } => replacement.map(|replacement| (*target, replacement)),
            Self::Pruned { replay, .. } => replay.map(|replay| (replay.target, replay.replacement)),
            Self::Compacted(_) | Self::Rewound { .. } | Self::Pinned { .. } | Self::Undone { .. } => None,
        }
    }
}

/// A summary stands for ranges of history.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactedMark {
    /// The reduction that did it.
    pub compaction: CompactionId,
    /// The revision whose view was summarized; nothing after it is covered.
    pub base: Revision,
    /// Every message the summary stands for, those of the summaries before it included; sorted and disjoint.
    pub covered: Vec<RevisionRange>,
    /// The first message kept verbatim; every inline message from here on stays. `base + 1` keeps nothing old.
    pub tail_start: Revision,
    /// The marker message that introduces the summary, if the policy has one.
    pub marker: Option<Revision>,
    /// The summary message.
    pub summary: Revision,
    /// Covered messages that the view shows all the same, ascending.
    pub retained: Vec<Revision>,
    /// Whether the retained messages stand in front of the summary, rather than behind it.
    pub retained_first: bool,
    /// The message that asks the model to go on, if the policy wanted one. It stands at its own place.
    pub continuation: Option<Revision>,
}

/// A request that another message stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// The request: always the original, also where an edit stood in its place.
    pub target: Revision,
    /// The message that stands in its place.
    pub replacement: Revision,
}

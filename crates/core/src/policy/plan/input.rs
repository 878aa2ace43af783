//! The input of a plan, and its result.

use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::MessageId;
use crate::model::layout::Layout;
use crate::model::part::PartBody;
use crate::model::time::Timestamp;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::{Omission, Policy, PolicyStep, Summary};

/// Planning input: a view, its messages, and the rules.
#[derive(Debug, Clone, Copy)]
pub struct PlanningInput<'a> {
    /// The active policy.
    pub policy: &'a Policy,
    /// The window to which the view is compared.
    pub window: &'a ModelWindow,
    /// The layout of the view.
    pub layout: &'a Layout,
    /// The messages of the view, in the order of the layout.
    pub sources: &'a [SourceMessage],
    /// The messages of the layout that are not in the view because a provider's own compaction stands for them. A summary
    /// covers them too, and is made from them.
    pub covered: &'a [SourceMessage],
    /// The revision of the view.
    pub base: Revision,
    /// The current time, for placeholders that contain it and for conditions on idle time.
    pub now: Timestamp,
}

/// The result of the steps of a compaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// The truncations and omissions.
    pub removals: Removals,
    /// The summary to be made, from the messages after these truncations and omissions.
    pub summary: Option<SummaryPlan>,
}

impl Work {
    /// The steps that made it, as far as their own figures say what is worth it: none with a summary.
    pub fn figures<'a>(&self, steps: &'a [PolicyStep]) -> &'a [PolicyStep] {
        if self.summary.is_some() { &[] } else { steps }
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.summary.is_none()
    }
}

/// A summary to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryPlan {
    /// Messages before the range of a summary by hand; they stay in the view.
    pub(in crate::policy) front: Vec<SourceMessage>,
    /// Newly covered messages, oldest first.
    pub head: Vec<SourceMessage>,
    /// The front of a split turn, if the policy gives it a summary of its own; it follows `head`.
    pub split_turn: Vec<SourceMessage>,
    /// The text of the active summary, which the new one replaces; none if the policy does not carry it on.
    pub previous: Option<String>,
    /// The form of the summary.
    pub rules: Summary,
    /// All ranges that the new summary covers.
    pub covered: Vec<RevisionRange>,
    /// The first position kept verbatim.
    pub tail_start: Revision,
    /// The message at that position, if there is one.
    pub tail_message: Option<MessageId>,
    /// Covered messages that the view still shows, by revision, ascending.
    pub retained: Vec<Revision>,
    /// True if the retained messages are before the summary.
    pub retained_first: bool,
    /// The truncations of retained messages and of the tail.
    pub removals: Removals,
    /// The attachments of the summary.
    pub attachments: Vec<PartBody>,
    /// The steps if no summary can be made.
    pub fallback: Vec<Omission>,
}

impl SummaryPlan {
    /// Number of covered messages at their own positions before the tail.
    pub fn covered_count(&self) -> usize {
        self.front.len() + self.head.len() + self.split_turn.len()
    }

    /// The boundary of the summary, with the retained messages.
    pub fn boundary(&self) -> Boundary<'_> {
        Boundary { tail_start: self.tail_start, retained: &self.retained, retained_first: self.retained_first }
    }
}

/// The boundary of a summary, with the retained messages.
#[derive(Debug, Clone, Copy)]
pub struct Boundary<'a> {
    /// The first position kept verbatim.
    pub tail_start: Revision,
    /// Covered messages that stay in the view, by revision.
    pub retained: &'a [Revision],
    /// True if the retained messages are before the summary.
    pub retained_first: bool,
}

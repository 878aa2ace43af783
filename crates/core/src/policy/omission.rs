//! Truncation and omission of messages without a model, until the rest fits.
//!
//! Each strategy is in a file of its own; one that a single agent uses is supplied from above. The result is recorded as
//! marks, so that the next decision starts from the remaining messages.

mod last;
pub mod text;

use super::strategy::{OmissionBound, OmissionStrategy};
use super::{Omission, Policy, overflow};
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

/// The truncations and omissions of a strategy in `messages`, the inline messages of a view.
///
/// They never separate a result from its call and never touch an open message or a running call. The last request and
/// unanswered messages stay, truncated at most.
pub fn removals(omission: &Omission, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
    match omission {
        Omission::Last(rule) => last::removals(rule, messages),
        Omission::Named(named) => {
            named.omission().map_or_else(Removals::default, |strategy| strategy.removals(policy, window, messages))
        }
    }
}

impl Omission {
    /// What a view must exceed before the strategy can have anything to do.
    pub(super) fn bound(&self) -> OmissionBound {
        match self {
            Self::Last(rule) => OmissionBound::Messages(rule.messages),
            Self::Named(named) => named.omission().map_or(OmissionBound::Parts, OmissionStrategy::bound),
        }
    }

    /// True if only the number of messages decides, so that the evaluation is fast.
    pub(super) fn goes_by_number(&self) -> bool {
        matches!(self.bound(), OmissionBound::Messages(_))
    }

    /// True if it brings a view within the limit of its level: it frees what exceeds a measure of that limit, and no
    /// more.
    pub(super) fn goes_by_limit(&self) -> bool {
        matches!(self.bound(), OmissionBound::Limit(_))
    }
}

/// Tokens of a view up to which a strategy with a token limit has nothing to do; none for other strategies and for an
/// unknown window.
pub(super) fn limit_tokens(omission: &Omission, policy: &Policy, window: &ModelWindow) -> Option<i64> {
    match omission.bound() {
        OmissionBound::Limit(share) => overflow::message_target(policy, window, share),
        OmissionBound::Parts | OmissionBound::Messages(_) => None,
    }
}

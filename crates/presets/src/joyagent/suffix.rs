//! Keeps the newest messages that fit, starting with a request.
//!
//! This is JoyAgent's strategy: from the end back while messages fit, then forward to the next request, so that a
//! conversation always starts with one. The tokens of a system message at the beginning are subtracted in advance, and
//! once more if the walk reaches it.

use super::parameters::Suffix;
use crate::model::message::{MessageKind, Role};
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::tokens::estimate_source;
use crate::policy::turns::is_request;
use crate::policy::{Policy, overflow, select};

impl Parameters for Suffix {
    const NAME: &'static str = "suffix";
}

impl OmissionStrategy for Suffix {
    fn removals(&self, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(policy, window, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Limit(1.0)
    }
}

/// Omits everything that exceeds the limit of the policy's main level. The last request and everything after it always
/// stay.
fn removals(policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
    let is_instruction = |source: &&SourceMessage| source.message.role == Role::System;
    let estimate = |source: &SourceMessage| estimate_source(policy, source);
    let instructions = messages.first().filter(is_instruction).map_or(0, estimate);
    let mut room = overflow::message_room(policy, window, instructions);
    let mut start = messages.len();
    for (index, source) in messages.iter().enumerate().rev() {
        let tokens = estimate(source);
        if tokens > room {
            break;
        }
        room -= tokens;
        start = index;
    }
    let requests = || (0..messages.len()).filter(|&index| is_request(&messages[index].message));
    let Some(request) = requests().find(|&index| index >= start).or_else(|| requests().next_back()) else {
        return Removals::default();
    };
    // The omitted range ends before the request, or earlier if a call would be separated from its result.
    let end = Some(select::nearest_safe_boundary(messages, request)).filter(|&end| end <= request).unwrap_or(0);
    let goes = |source: &&SourceMessage| !is_instruction(source) && source.message.kind != MessageKind::Record;
    let omitted = messages[..end].iter().filter(goes).map(|source| source.message.revision).collect();
    Removals { parts: Vec::new(), omitted }
}

#[cfg(test)]
mod tests;

//! The newest messages that fit, from a request on.
//!
//! This is JoyAgent's cut: from the end back while messages fit, then forward to the next request, so that a
//! conversation always begins with one. Instructions at the beginning are charged in advance, and once more where the
//! walk meets them.

use crate::model::cut::Cuts;
use crate::model::message::{MessageKind, Role};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::tokens::estimate_source;
use crate::policy::turns::is_request;
use crate::policy::{Policy, select};

/// Leaves out what does not fit under the limit of the policy's main rung. The last request always stays, and so does
/// what follows it.
pub(super) fn cut(policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Cuts {
    let is_instruction = |source: &&SourceMessage| source.message.role == Role::System;
    let weigh = |source: &SourceMessage| estimate_source(policy, source);
    let instructions = messages.first().filter(is_instruction).map_or(0, weigh);
    let mut room = super::room(policy, window, instructions);
    let mut start = messages.len();
    for (index, source) in messages.iter().enumerate().rev() {
        let tokens = weigh(source);
        if tokens > room {
            break;
        }
        room -= tokens;
        start = index;
    }
    let requests = || (0..messages.len()).filter(|&index| is_request(&messages[index].message));
    let Some(request) = requests().find(|&index| index >= start).or_else(|| requests().next_back()) else {
        return Cuts::default();
    };
    // What is left out ends before the request, or earlier where a call would part from its result.
    let end = Some(select::nearest_safe_cut(messages, request)).filter(|&end| end <= request).unwrap_or(0);
    let goes = |source: &&SourceMessage| !is_instruction(source) && source.message.kind != MessageKind::Record;
    let omitted = messages[..end].iter().filter(goes).map(|source| source.message.revision).collect();
    Cuts { parts: Vec::new(), omitted }
}

#[cfg(test)]
mod tests;

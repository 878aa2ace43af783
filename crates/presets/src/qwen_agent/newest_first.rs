//! Keeps as much as fits, from the newest message back. A result that does not fit is truncated; the first other item
//! that does not fit ends the walk, and is truncated if it is a request.
//!
//! Qwen-Agent did this up to 0.0.29. A result is truncated to the remaining room, which stays the same for the messages
//! before it.

use super::items::{Items, Kind, Treatment};
use super::parameters::NewestFirst;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::{Policy, overflow};

impl Parameters for NewestFirst {
    const NAME: &'static str = "newest_first";
}

impl OmissionStrategy for NewestFirst {
    fn removals(&self, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(policy, window, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Limit(1.0)
    }
}

/// Brings the messages within the limit of the policy's main level.
///
/// If nothing at all would be left, nothing is removed: the original refuses such a list.
fn removals(policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
    let items = Items::from_messages(policy, messages);
    let mut room = overflow::message_room(policy, window, items.instructions);
    if room < 0 {
        return Removals::default();
    }
    let mut treatments = vec![Treatment::Goes; items.list.len()];
    for (index, item) in items.list.iter().enumerate().rev() {
        let is_newest = index + 1 == items.list.len();
        treatments[index] = match item.kind {
            _ if item.tokens <= room => {
                room -= item.tokens;
                Treatment::Stays
            }
            Kind::Request if !is_newest && !items.has_media(item) => Treatment::Beginning(room),
            Kind::Result if !items.has_media(item) => Treatment::BothSides(room),
            Kind::Request | Kind::Reply | Kind::Call | Kind::Result => Treatment::Goes,
        };
        if matches!(treatments[index], Treatment::Beginning(_) | Treatment::Goes) {
            break;
        }
    }
    // A request of which nothing is left is omitted.
    treatments
        .iter_mut()
        .filter(|treatment| **treatment == Treatment::Beginning(0))
        .for_each(|treatment| *treatment = Treatment::Goes);
    if treatments.iter().all(|treatment| *treatment == Treatment::Goes) {
        return Removals::default();
    }
    // The last request stays, truncated to the remaining room.
    let last_request = items.list.iter().rposition(|item| items.starts_turn(item));
    if let Some(request) = last_request.filter(|&request| treatments[request] == Treatment::Goes && room > 0) {
        treatments[request] = Treatment::Beginning(room);
    }
    items.removals(&treatments)
}

#[cfg(test)]
mod tests;

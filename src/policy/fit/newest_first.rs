//! From the newest message back, as much as fits: the request where it ends is cut, and results on the way are.
//!
//! This is what Qwen-Agent did up to 0.0.29. A result that is too long is cut to the room that is left, which stays as
//! large for what comes before it.

use super::items::{Fate, Items, Kind, Words};
use crate::model::cut::Cuts;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::Policy;
use crate::policy::validate::Check;
use serde::{Deserialize, Serialize};

/// From the newest message back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewestFirst {
    /// What stands between the two ends of a result that is cut.
    pub ellipsis: String,
    /// What stands in place of a text that goes while its message must stay.
    pub placeholder: String,
}

impl NewestFirst {
    /// Notes what is wrong with the rule.
    pub(in crate::policy) fn check(&self, check: &mut Check, path: &str) {
        check.that(!self.placeholder.is_empty(), &format!("{path}.placeholder"), "must have words");
    }
}

/// Brings the messages under the limit of the policy's main rung.
///
/// When nothing at all would be left, nothing is decided: the original refuses such a list.
pub(super) fn cut(rule: &NewestFirst, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Cuts {
    let items = Items::of(policy, messages);
    let mut room = super::room(policy, window, items.instructions);
    if room < 0 {
        return Cuts::default();
    }
    let mut fates = vec![Fate::Goes; items.list.len()];
    for (index, item) in items.list.iter().enumerate().rev() {
        let is_newest = index + 1 == items.list.len();
        fates[index] = match item.kind {
            _ if item.tokens <= room => {
                room -= item.tokens;
                Fate::Stays
            }
            Kind::Request if !is_newest && !items.has_media(item) => Fate::Beginning(room),
            Kind::Result if !items.has_media(item) => Fate::BothSides(room),
            Kind::Request | Kind::Reply | Kind::Call | Kind::Result => Fate::Goes,
        };
        if matches!(fates[index], Fate::Beginning(_) | Fate::Goes) {
            break;
        }
    }
    // A request of which nothing is left goes.
    fates.iter_mut().filter(|fate| **fate == Fate::Beginning(0)).for_each(|fate| *fate = Fate::Goes);
    if fates.iter().all(|fate| *fate == Fate::Goes) {
        return Cuts::default();
    }
    // The last request stays, in the room that is left.
    let last_request = items.list.iter().rposition(|item| items.starts_turn(item));
    if let Some(request) = last_request.filter(|&request| fates[request] == Fate::Goes && room > 0) {
        fates[request] = Fate::Beginning(room);
    }
    items.cuts(&fates, Words { ellipsis: &rule.ellipsis, placeholder: &rule.placeholder })
}

#[cfg(test)]
mod tests;

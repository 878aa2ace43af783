//! Shortening the messages of each role in turn, older ones first down to a note, until the rest fits.
//!
//! The strategy walks in tiers. A tier is left out when the messages fit by then; the passes of one tier are not. When
//! all tiers were not enough it walks again with half of every measure, as often as it may.

use super::texts::Texts;
use crate::model::cut::Cuts;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::Policy;
use crate::policy::tokens::Tally;
use crate::policy::validate::Check;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Shortening by role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerRole {
    /// The share of the main rung's limit down to which messages are shortened.
    pub target_ratio: f64,
    /// What is done, in this order.
    pub tiers: Vec<Tier>,
    /// How often it is done again with half of every measure.
    pub halvings: u32,
    /// Which messages bring the result of a tool, besides those that hold one.
    pub results: ResultSigns,
    /// Whether a text that is a JSON object is cut from its whole again in each round, and left whole after the last one.
    pub json_starts_over: bool,
}

/// Passes that are taken together or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// The passes, in order.
    pub passes: Vec<Pass>,
}

/// One walk over the messages of a role, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// Whose messages.
    pub of: Speaker,
    /// So many of the newest are spared.
    pub spared: u32,
    /// Only messages that weigh more tokens than this, each as a list of its own, are touched.
    pub above_tokens: i64,
    /// How much is kept of the beginning of the others, in units; a text that is not longer stays. With 0 the note
    /// stands in place of the message, and its media go too.
    pub keep_units: u32,
    /// What stands behind what is kept; `{id}` becomes the id by which the message can be read.
    pub note: String,
    /// How those that are spared are cut; absent: not at all.
    pub spared_cut: Option<BothEnds>,
}

/// Whose messages a pass is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Tools, whatever the role under which their results come.
    Tools,
    /// Everything in the role of the user.
    User,
    /// The model.
    Assistant,
}

/// A cut that keeps both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BothEnds {
    /// A text may have so many units for each token that all messages may have together …
    pub units_per_token: u32,
    /// … but at most so many units.
    pub max_units: u32,
    /// So many of them are set aside for the words around; half of the rest is kept of each end, of an odd number one
    /// more of the end.
    pub reserve_units: u32,
    /// What stands between the ends.
    pub middle: String,
    /// What stands behind them.
    pub after: String,
}

/// What tells that a text is the result of a tool, in agents that write them as plain messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultSigns {
    /// A text with one of these words.
    pub words: Vec<String>,
    /// A JSON object with one of these fields.
    pub fields: Vec<String>,
    /// A JSON object with one of these words anywhere.
    pub json_words: Vec<String>,
}

impl PerRole {
    /// Notes what is wrong with the parameters.
    pub(in crate::policy) fn check(&self, check: &mut Check, path: &str) {
        check.share(self.target_ratio, &format!("{path}.target_ratio"));
        check.that(!self.tiers.is_empty(), &format!("{path}.tiers"), "must have a tier");
        check.that(self.halvings <= 31, &format!("{path}.halvings"), "must be at most 31");
        for (index, tier) in self.tiers.iter().enumerate() {
            for (place, pass) in tier.passes.iter().enumerate() {
                check.not_negative(pass.above_tokens, &format!("{path}.tiers.{index}.passes.{place}.above_tokens"));
            }
        }
    }
}

/// Shortens messages until they fit. Open messages are left alone.
pub(super) fn cut(rule: &PerRole, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Cuts {
    let Some(goal) = super::goal(policy, window, rule.target_ratio) else { return Cuts::default() };
    let mut desk = Desk { policy, messages, changed: BTreeMap::new(), tally: Tally::of(policy, messages) };
    let json: Vec<usize> = match rule.json_starts_over {
        true if desk.tally.tokens() > goal => (0..messages.len()).filter(|&index| desk.is_json_object(index)).collect(),
        _ => Vec::new(),
    };
    for round in 0..=rule.halvings.min(31) {
        desk.restore(&json);
        for tier in &rule.tiers {
            if desk.tally.tokens() > goal {
                tier.passes.iter().for_each(|pass| desk.walk(rule, pass, round, goal));
            }
        }
        if round < rule.halvings && desk.tally.tokens() <= goal {
            return desk.cuts();
        }
    }
    desk.restore(&json);
    desk.cuts()
}

/// The messages while they are worked on.
struct Desk<'a> {
    policy: &'a Policy,
    messages: &'a [SourceMessage],
    changed: BTreeMap<usize, SourceMessage>,
    tally: Tally<'a>,
}

impl Desk<'_> {
    fn walk(&mut self, rule: &PerRole, pass: &Pass, round: u32, goal: i64) {
        let above = pass.above_tokens >> round;
        if (0..self.messages.len()).all(|index| self.tally.alone(index) <= above) {
            return;
        }
        let mut met = 0_u32;
        for index in (0..self.messages.len()).rev() {
            if !self.is_of(rule, pass.of, index) {
                continue;
            }
            met = met.saturating_add(1);
            let is_open = self.messages[index].message.sealed_revision.is_none();
            if is_open || self.tally.alone(index) <= above {
                continue;
            }
            let is_spared = met <= pass.spared;
            self.change(index, |id, texts| match &pass.spared_cut {
                Some(cut) if is_spared => keep_both_ends(cut, goal, texts),
                None if is_spared => {}
                _ if pass.keep_units == 0 => texts.replace(&pass.note.replace("{id}", id)),
                _ => texts.keep_head((pass.keep_units >> round) as usize, &pass.note.replace("{id}", id)),
            });
        }
    }

    fn is_of(&self, rule: &PerRole, speaker: Speaker, index: usize) -> bool {
        let message = &self.messages[index].message;
        match speaker {
            Speaker::User => message.role == Role::User,
            Speaker::Assistant => message.role == Role::Assistant,
            Speaker::Tools => {
                message.role == Role::Tool
                    || message.parts.iter().any(|part| matches!(*part.body, PartBody::ToolResult(_)))
                    || !rule.results.is_empty() && rule.results.are_in(&Texts::of(self.policy, self.current(index)))
            }
        }
    }

    fn current(&self, index: usize) -> &SourceMessage {
        self.changed.get(&index).unwrap_or(&self.messages[index])
    }

    fn is_json_object(&self, index: usize) -> bool {
        let texts = Texts::of(self.policy, &self.messages[index]);
        texts.only().is_some_and(|text| fields(text).is_some())
    }

    fn change(&mut self, index: usize, shorten: impl FnOnce(&str, &mut Texts<'_>)) {
        let source = self.current(index);
        let mut texts = Texts::of(self.policy, source);
        shorten(&source.message.id.to_string(), &mut texts);
        if let Some(changed) = texts.changed(source) {
            self.tally.recount(index, &changed);
            self.changed.insert(index, changed);
        }
    }

    /// Takes the changes of some messages back.
    fn restore(&mut self, indexes: &[usize]) {
        for &index in indexes {
            if self.changed.remove(&index).is_some() {
                self.tally.recount(index, &self.messages[index]);
            }
        }
    }

    fn cuts(self) -> Cuts {
        let mut parts = Vec::new();
        for (index, changed) in self.changed {
            let before = &self.messages[index];
            for pruned in changed.pruned {
                if before.pruned_part(pruned.part) != Some(&pruned) {
                    parts.extend(pruned.cut.map(|cut| (pruned.part, cut)));
                }
            }
        }
        Cuts { parts, omitted: Vec::new() }
    }
}

fn keep_both_ends(cut: &BothEnds, goal: i64, texts: &mut Texts<'_>) {
    let room = goal.saturating_mul(i64::from(cut.units_per_token)).min(i64::from(cut.max_units));
    let room = usize::try_from(room).unwrap_or(0);
    if texts.length() > room {
        let kept = room.saturating_sub(cut.reserve_units as usize);
        texts.keep_both_ends([kept / 2, kept - kept / 2], &cut.middle, &cut.after);
    }
}

impl ResultSigns {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.fields.is_empty() && self.json_words.is_empty()
    }

    fn are_in(&self, texts: &Texts<'_>) -> bool {
        let has = |text: &str, words: &[String]| words.iter().any(|word| text.contains(word.as_str()));
        if texts.shown().any(|text| has(text, &self.words)) {
            return true;
        }
        let Some(text) = texts.only() else { return false };
        // Reading JSON is the dearest of it, and most texts are none.
        has(text, &self.fields) | has(text, &self.json_words)
            && fields(text).is_some_and(|fields| {
                self.fields.iter().any(|name| fields.contains_key(name)) || has(text, &self.json_words)
            })
    }
}

/// The fields of a text that is a JSON object.
fn fields(text: &str) -> Option<BTreeMap<String, IgnoredAny>> {
    if text.trim_ascii_start().starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

#[cfg(test)]
mod tests;

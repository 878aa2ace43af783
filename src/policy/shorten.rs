//! The last resort for one call: truncation of a view until it fits a budget.
//!
//! It never fails and never separates a call from its result. It removes as little as possible, in this order, and
//! stops as soon as the view fits:
//!
//! 1. retrieved passages are removed;
//! 2. long tool outputs are truncated, the longest first;
//! 3. messages before the last user message are omitted, the oldest first, calls together with their results;
//! 4. messages after it are omitted in the same way, except for the newest;
//! 5. the rest is truncated further: outputs, then every other text that is not a summary or a system message.
//!
//! System messages, the marker and the summary stay as they are. The last user message and the newest calls stay,
//! truncated at most. Media and inputs of calls cannot be truncated. If all of these fit, the view therefore ends
//! within the budget, however long one turn, one text or one output is.

use super::{Policy, recall, tokens, truncate};
use crate::model::Revision;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::view::{Shortened, View, ViewKind, ViewMessage, ViewPart};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// Length of a truncated tool output in the first pass, in the policy's unit.
const OUTPUT_UNITS: usize = 1_000;

/// Length of a truncated tool output in the second pass, in the policy's unit.
const OUTPUT_UNITS_LEAST: usize = 200;

/// Lengths of other truncated texts if nothing else can be removed, in the policy's unit; tried in order, so that no
/// more is removed than necessary.
const TEXT_UNITS: [usize; 3] = [4_000, 1_000, 300];

/// Minimum length of any truncated text, in the policy's unit.
const UNITS_LEAST: usize = 60;

/// Text after a truncated output.
pub(super) const OUTPUT_MARKER: &str = "\n[Tool output truncated: omitted {omitted} chars]";

/// Text after any other truncated text.
pub(super) const TEXT_MARKER: &str = "\n[Text truncated: omitted {omitted} chars]";

/// A shortened view, with the messages that it omits.
#[derive(Debug, Clone, PartialEq)]
pub struct Shorter {
    /// The view.
    pub view: View,
    /// The revisions of the omitted messages, ascending.
    pub omitted: Vec<Revision>,
}

/// Shortens a view to at most `budget_tokens`, as far as possible.
pub fn shorten(policy: &Policy, view: View, budget_tokens: i64) -> Shorter {
    let total = tokens::estimate_messages(policy, &view.messages);
    let view = if total > budget_tokens { recall::forget(policy, view).0 } else { view };
    let total = tokens::estimate_messages(policy, &view.messages);
    let mut shortener = Shortener { policy, messages: view.messages, total, budget_tokens, omitted: Vec::new() };
    let last_request = shortener.messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
    shortener.truncate(Texts::Outputs, OUTPUT_UNITS);
    shortener.leave_out(0..last_request);
    let newest = newest_group(&shortener.messages);
    shortener.leave_out(group_end(&shortener.messages, last_request)..newest);
    shortener.truncate(Texts::Outputs, OUTPUT_UNITS_LEAST);
    for units in TEXT_UNITS {
        shortener.truncate(Texts::Others, units);
    }
    shortener.truncate(Texts::Outputs, UNITS_LEAST);
    shortener.truncate(Texts::Others, UNITS_LEAST);
    shortener.done()
}

/// The kind of texts to truncate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Texts {
    /// Outputs of tools.
    Outputs,
    /// Texts of people and models.
    Others,
}

/// State of the shortening of a view. An omitted message has no parts.
struct Shortener<'a> {
    policy: &'a Policy,
    messages: Vec<ViewMessage>,
    /// Current tokens. While messages change, this is a sum of messages; since the policy may measure ranges, the whole
    /// view is measured before the sum is used to stop.
    total: i64,
    budget_tokens: i64,
    omitted: Vec<Revision>,
}

impl Shortener<'_> {
    fn fits(&mut self) -> bool {
        if self.total <= self.budget_tokens {
            self.total = tokens::estimate_messages(self.policy, &self.messages);
        }
        self.total <= self.budget_tokens
    }

    /// Truncates texts to `units` units, the longest first, until the view fits.
    fn truncate(&mut self, texts: Texts, units: usize) {
        for (index, position) in longest(self.policy, &self.messages, texts) {
            if self.fits() {
                return;
            }
            let message = &mut self.messages[index];
            let before = tokens::estimate_message(self.policy, message);
            truncate_part(self.policy, &mut message.parts[position], units);
            self.total -= before - tokens::estimate_message(self.policy, message);
        }
    }

    /// Omits messages of a range, the oldest first, calls together with their results, until the view fits.
    fn leave_out(&mut self, range: Range<usize>) {
        let mut index = range.start;
        while index < range.end && !self.fits() {
            let end = group_end(&self.messages, index);
            if !is_fixed(&self.messages[index]) && end <= range.end {
                for message in &mut self.messages[index..end] {
                    self.total -= tokens::estimate_message(self.policy, message);
                    message.parts.clear();
                    if message.revision > 0 {
                        self.omitted.push(message.revision);
                    }
                }
            }
            index = end;
        }
    }

    fn done(self) -> Shorter {
        let Self { policy, mut messages, mut omitted, .. } = self;
        messages.retain(|message| !message.parts.is_empty());
        omitted.sort_unstable();
        omitted.dedup();
        let estimated_tokens = tokens::estimate_messages(policy, &messages);
        Shorter { view: View { messages, estimated_tokens }, omitted }
    }
}

/// True if a message stays as it is.
fn is_fixed(message: &ViewMessage) -> bool {
    message.role == Role::System || matches!(message.kind, ViewKind::Marker | ViewKind::Summary)
}

/// End of the group that begins at an index: an assistant message and the results after it go together.
fn group_end(messages: &[ViewMessage], start: usize) -> usize {
    let results = messages.iter().skip(start + 1).take_while(|message| message.role == Role::Tool);
    start + 1 + results.count()
}

/// Index of the first message of the last group.
fn newest_group(messages: &[ViewMessage]) -> usize {
    messages.iter().rposition(|message| message.role != Role::Tool).unwrap_or(0)
}

/// The message and part indexes of the texts that may be truncated, the longest first.
fn longest(policy: &Policy, messages: &[ViewMessage], texts: Texts) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| !is_fixed(message)) {
        for (position, part) in message.parts.iter().enumerate() {
            let Some((_, text)) = text_of(&part.body).filter(|(which, _)| *which == texts) else { continue };
            found.push((Reverse(tokens::length(policy.counting.unit, text)), index, position));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, index, position)| (index, position)).collect()
}

/// The text of a part, if it may be truncated.
fn text_of(body: &PartBody) -> Option<(Texts, &str)> {
    match body {
        PartBody::ToolResult(result) => Some((Texts::Outputs, &result.output)),
        PartBody::Text(text) | PartBody::Reasoning(text) => Some((Texts::Others, text)),
        PartBody::ToolCall(_)
        | PartBody::Media(_)
        | PartBody::Marker(_)
        | PartBody::Step(_)
        | PartBody::Opaque(_)
        | PartBody::Record(_) => None,
    }
}

/// Truncates the text of one part to `units` units, if that makes it shorter. Attachments of a truncated output are
/// removed too.
fn truncate_part(policy: &Policy, part: &mut ViewPart, units: usize) {
    let Some((texts, text)) = text_of(&part.body) else { return };
    let marker = match texts {
        Texts::Outputs => OUTPUT_MARKER,
        Texts::Others => TEXT_MARKER,
    };
    let unit = policy.counting.unit;
    let (rest, omitted_before) = without_marker(policy, text, part.shortened, marker);
    let (kept, kept_units) = truncate::prefix(unit, rest, units);
    let omitted_length = omitted_before + (tokens::length(unit, rest) - kept_units) as i64;
    let shorter = format!("{kept}{}", marker.replace(truncate::OMITTED, &omitted_length.to_string()));
    if kept.len() == rest.len() || shorter.len() >= text.len() {
        return;
    }
    match Arc::make_mut(&mut part.body) {
        PartBody::ToolResult(result) => {
            result.output = shorter;
            result.attachments.clear();
        }
        PartBody::Text(text) | PartBody::Reasoning(text) => {
            *text = shorter;
            // A provider's signature covers the words that were there.
            part.metadata_json = None;
        }
        _ => {}
    }
    part.shortened = Some(Shortened::Truncated { omitted_length });
}

/// The text without the marker of an earlier truncation, and the length that this had omitted.
fn without_marker<'a>(policy: &Policy, text: &'a str, shortened: Option<Shortened>, marker: &str) -> (&'a str, i64) {
    let Some(Shortened::Truncated { omitted_length }) = shortened else { return (text, 0) };
    let with_length = |marker: &str| marker.replace(truncate::OMITTED, &omitted_length.to_string());
    let ours = text.strip_suffix(with_length(marker).as_str());
    let theirs = policy.truncate.as_ref().and_then(|rule| text.strip_suffix(with_length(&rule.marker).as_str()));
    (ours.or(theirs).unwrap_or(text), omitted_length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{dsl, pairing, presets, render};

    fn shortened(text: &str, budget: i64) -> Shorter {
        let policy = presets::pi::v1_5();
        shorten(&policy, render::render(&policy, &dsl::parse(text)), budget)
    }

    const TALK: &str = "u1 \"first\"\na1 \"looking\"\n  tool bash#t1 in=10t out=3000t done\nu2 \"second\"\na2 \"more\"\n  \
                        tool bash#t2 in=10t out=500t done\nu3 \"third\"\na3 \"done\"\n";

    #[test]
    fn outputs_go_before_messages_and_the_longest_first() {
        let shorter = shortened(TALK, 1_000);
        assert!(shorter.omitted.is_empty());
        assert!(shorter.view.estimated_tokens <= 1_000);
        let is_truncated = |message: &ViewMessage| message.parts.iter().any(|part| part.shortened.is_some());
        assert_eq!(shorter.view.messages.iter().filter(|message| is_truncated(message)).count(), 1);
    }

    #[test]
    fn calls_go_together_with_their_results_and_the_last_request_stays() {
        let shorter = shortened(TALK, 40);
        assert_eq!(pairing::violations(&shorter.view.messages), Vec::<String>::new());
        assert!(!shorter.omitted.is_empty());
        let last = shorter.view.messages.iter().rfind(|message| message.role == Role::User);
        assert!(last.is_some_and(|message| *message.parts[0].body == PartBody::Text("third".to_owned())));
    }

    #[test]
    fn what_fits_is_left_alone() {
        let policy = presets::pi::v1_5();
        let view = render::render(&policy, &dsl::parse(TALK));
        let shorter = shorten(&policy, view.clone(), 1 << 40);
        assert_eq!(shorter, Shorter { view, omitted: Vec::new() });
    }

    /// One request with many calls; the dots represent the names of those in the middle.
    fn one_long_turn() -> String {
        let step = |step: usize| format!("a{step} \"step\"\n  tool bash#t{step} in=10t out=900t done\n");
        let steps: String = (1..=30).map(step).collect();
        format!("s1 \"be brief\"\nu1 3000t\na0 2000t\n{steps}")
    }

    #[test]
    fn one_long_turn_fits_whatever_it_takes() {
        for policy in [presets::pi::v1_5(), presets::opencode::seed()] {
            let whole = render::render(&policy, &dsl::parse(&one_long_turn()));
            let revisions = |view: &View| view.messages.iter().map(|message| message.revision).collect::<Vec<_>>();
            for budget in [20_000, 5_000, 3_500, 1_000, 250] {
                let shorter = shorten(&policy, whole.clone(), budget);
                let View { messages, estimated_tokens } = &shorter.view;
                assert!(*estimated_tokens <= budget, "{estimated_tokens} of {budget}");
                assert_eq!(*estimated_tokens, tokens::estimate_messages(&policy, messages));
                assert_eq!(pairing::violations(messages), Vec::<String>::new());
                let mut all = [revisions(&shorter.view), shorter.omitted.clone()].concat();
                all.sort_unstable();
                all.dedup();
                let mut before = revisions(&whole);
                before.dedup();
                assert_eq!(all, before, "what is not shown is named");
                assert!(messages.starts_with(&whole.messages[..1]), "a system message stays whole");
                assert_eq!(messages[1].role, Role::User);
                assert_eq!(revisions(&shorter.view).last(), before.last(), "the newest calls stay");
            }
        }
    }

    #[test]
    fn the_oldest_calls_of_the_last_turn_go_and_nothing_else_when_that_is_enough() {
        let policy = presets::pi::v1_5();
        let whole = render::render(&policy, &dsl::parse(&one_long_turn()));
        let shorter = shorten(&policy, whole.clone(), 5_000);
        let kept = shorter.view.messages.len() - 2;
        assert_eq!(shorter.view.messages[1], whole.messages[1], "the request is whole");
        let order =
            |view: &View| view.messages.iter().rev().take(kept).map(|message| message.source).collect::<Vec<_>>();
        assert_eq!(order(&shorter.view), order(&whole));
    }

    #[test]
    fn two_truncations_say_how_much_is_left_out_in_all() {
        let policy = presets::pi::v1_5();
        let text = "u1 \"go\"\na1 \"hm\"\n  tool bash#t1 in=10t out=3000t done\n";
        let original = render::render(&policy, &dsl::parse(text));
        let length = |view: &View| text_of(&view.messages[2].parts[0].body).map(|(_, text)| text.len()).unwrap_or(0);
        for budget in [500, 120] {
            let shorter = shorten(&policy, original.clone(), budget);
            let Some(Shortened::Truncated { omitted_length }) = shorter.view.messages[2].parts[0].shortened else {
                panic!("the output is cut");
            };
            let marker = OUTPUT_MARKER.replace(truncate::OMITTED, &omitted_length.to_string());
            assert_eq!(length(&shorter.view) - marker.len() + omitted_length as usize, length(&original));
        }
    }

    #[test]
    fn a_view_without_anybody_asking_is_shortened_by_whole_groups() {
        let text = "a1 \"one\"\n  tool bash#t1 in=10t out=900t done\na2 \"two\"\n  tool bash#t2 in=10t out=900t done\n";
        for budget in [0, 100, 300] {
            assert_eq!(pairing::violations(&shortened(text, budget).view.messages), Vec::<String>::new());
        }
        let empty = Shorter { view: View::default(), omitted: Vec::new() };
        assert_eq!(shorten(&presets::pi::v1_5(), View::default(), -1), empty);
    }
}

//! The last resort for one call: a view cut down until it fits a budget.
//!
//! It never fails and never breaks a pair. First the longest tool outputs are cut, then the oldest messages go, calls
//! together with their results. What introduces or is a summary, system messages, and everything from the last user
//! message on stay.

use super::{Policy, Truncate, tokens, truncate};
use crate::model::Revision;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::view::{Shortened, Standing, View, ViewMessage};

/// What is kept of a tool output that must be cut, in the policy's unit.
const OUTPUT_UNITS: u32 = 1_000;

/// A shortened view, and the messages that it leaves out.
#[derive(Debug, Clone, PartialEq)]
pub struct Shorter {
    /// The view.
    pub view: View,
    /// The revisions of the messages that were left out, ascending.
    pub omitted: Vec<Revision>,
}

/// Cuts a view down to at most `budget_tokens`, as far as that can be done.
pub fn shorten(policy: &Policy, view: View, budget_tokens: i64) -> Shorter {
    let mut messages = view.messages;
    let rule =
        Truncate { max_units: OUTPUT_UNITS, marker: "\n[Tool output truncated: omitted {omitted} chars]".to_owned() };
    let mut total = tokens::estimate_messages(policy, &messages);
    for (message, part) in longest_outputs(policy, &messages) {
        if total <= budget_tokens {
            break;
        }
        let before = tokens::estimate_message(policy, &messages[message]);
        cut(policy, &rule, &mut messages[message], part);
        total -= before - tokens::estimate_message(policy, &messages[message]);
    }
    let mut omitted = Vec::new();
    if total > budget_tokens {
        // The running sum above is per message; the policy may measure ranges, so the end is measured whole.
        let last_request = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        let mut keep = vec![true; messages.len()];
        let mut index = 0;
        while index < last_request && total > budget_tokens {
            let end = group_end(&messages, index);
            let fixed = messages[index].standing != Standing::Shown || messages[index].role == Role::System;
            if !fixed && end <= last_request {
                for position in index..end {
                    keep[position] = false;
                    total -= tokens::estimate_message(policy, &messages[position]);
                    if messages[position].revision > 0 {
                        omitted.push(messages[position].revision);
                    }
                }
            }
            index = end;
        }
        let mut keep = keep.into_iter();
        messages.retain(|_| keep.next().unwrap_or(true));
    }
    omitted.sort_unstable();
    omitted.dedup();
    let estimated_tokens = tokens::estimate_messages(policy, &messages);
    Shorter { view: View { messages, estimated_tokens }, omitted }
}

/// Where the group that begins at an index ends: an assistant message and the results behind it go together.
fn group_end(messages: &[ViewMessage], start: usize) -> usize {
    let mut end = start + 1;
    while messages.get(end).is_some_and(|message| message.role == Role::Tool) {
        end += 1;
    }
    end
}

/// Tool outputs, the longest first.
fn longest_outputs(policy: &Policy, messages: &[ViewMessage]) -> Vec<(usize, usize)> {
    let mut outputs = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for (position, part) in message.parts.iter().enumerate() {
            if let PartBody::ToolResult(result) = &part.body {
                outputs.push((tokens::length(policy.counting.unit, &result.output), index, position));
            }
        }
    }
    outputs.sort_by_key(|(length, index, position)| (std::cmp::Reverse(*length), *index, *position));
    outputs.into_iter().map(|(_, index, position)| (index, position)).collect()
}

fn cut(policy: &Policy, rule: &Truncate, message: &mut ViewMessage, part: usize) {
    let part = &mut message.parts[part];
    let PartBody::ToolResult(result) = &mut part.body else { return };
    if let Some((output, omitted)) = truncate::cut(rule, policy.counting.unit, &result.output) {
        result.output = output;
        result.attachments.clear();
        part.shortened = Some(Shortened::Truncated { omitted_length: omitted });
    }
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
        let cut = |message: &ViewMessage| message.parts.iter().any(|part| part.shortened.is_some());
        assert_eq!(shorter.view.messages.iter().filter(|message| cut(message)).count(), 1);
    }

    #[test]
    fn calls_go_together_with_their_results_and_the_last_request_stays() {
        let shorter = shortened(TALK, 40);
        assert_eq!(pairing::violations(&shorter.view.messages), Vec::<String>::new());
        assert!(!shorter.omitted.is_empty());
        let last = shorter.view.messages.iter().rfind(|message| message.role == Role::User);
        assert!(last.is_some_and(|message| message.parts[0].body == PartBody::Text("third".to_owned())));
    }

    #[test]
    fn what_fits_is_left_alone() {
        let policy = presets::pi::v1_5();
        let view = render::render(&policy, &dsl::parse(TALK));
        let shorter = shorten(&policy, view.clone(), 1 << 40);
        assert_eq!(shorter, Shorter { view, omitted: Vec::new() });
    }
}

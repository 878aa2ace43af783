//! A token budget for all tool outputs together: the newest outputs come first, and an output that does not fit is
//! truncated.
//!
//! Gemini CLI does this to a history before it summarizes it, so that the tail does not consist of outputs alone. A
//! smaller, older output may fit after a larger one did not. The rest of a truncated output counts too.

use super::parameters::OutputBudget;
use crate::model::ids::PartId;
use crate::model::part::{PartBody, ResultStatus, ToolResult};
use crate::model::truncation::{Removals, Truncation};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::Policy;
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::tokens::{estimate_text, length};
use crate::policy::truncate::{prefix, suffix};
use crate::policy::violation::Check;
use std::borrow::Cow;

impl Parameters for OutputBudget {
    const NAME: &'static str = "output_budget";

    fn check(&self, check: &mut Check, path: &str) {
        check.not_negative(self.budget_tokens, &format!("{path}.budget_tokens"));
        check.that(self.max_units >= 1, &format!("{path}.max_units"), "must be at least 1");
        check.share(self.head_ratio, &format!("{path}.head_ratio"));
    }
}

impl OmissionStrategy for OutputBudget {
    fn removals(&self, policy: &Policy, _window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(self, policy, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Parts
    }

    fn applies_to(&self, body: &PartBody) -> bool {
        matches!(body, PartBody::ToolResult(_))
    }
}

/// Truncates the outputs that exceed the budget, newest first. Outputs of open messages count and stay.
fn removals(rule: &OutputBudget, policy: &Policy, messages: &[SourceMessage]) -> Removals {
    let mut removals = Removals::default();
    let mut used = 0_i64;
    for source in messages.iter().rev() {
        for part in source.message.parts.iter().rev() {
            let PartBody::ToolResult(result) = &*part.body else { continue };
            let pruned = source.pruned_part(part.id);
            let shown = match pruned {
                None => Cow::Borrowed(result.output.as_str()),
                Some(pruned) => match &pruned.truncation {
                    Some(truncation) => Cow::Owned(truncation.apply(&result.output)),
                    None => Cow::Borrowed(policy.placeholder()),
                },
            };
            let tokens = estimate_text(&policy.counting, &result_text(result, &shown));
            let fits = used.saturating_add(tokens) <= rule.budget_tokens;
            let shorter = if fits || source.message.sealed_revision.is_none() {
                None
            } else {
                shorter(rule, policy, &shown, part.id)
            };
            let Some(shorter) = shorter else {
                used = used.saturating_add(tokens);
                continue;
            };
            let text = shorter.apply(&shown);
            used = used.saturating_add(estimate_text(&policy.counting, &text));
            // A truncation refers to the original text. If an earlier one hides it, a placeholder holds the new text.
            removals.parts.push((part.id, if pruned.is_some() { Truncation::placeholder(text) } else { shorter }));
        }
    }
    removals
}

/// The text that a model reads as the result: an error as a JSON object, on several lines.
fn result_text<'a>(result: &ToolResult, shown: &'a str) -> Cow<'a, str> {
    match result.status {
        ResultStatus::Completed => Cow::Borrowed(shown),
        ResultStatus::Error | ResultStatus::Interrupted => {
            Cow::Owned(format!("{{\n  \"error\": {}\n}}", serde_json::Value::from(shown)))
        }
    }
}

/// The truncation of an output to the limit; none if it is within. It never splits a character.
fn shorter(rule: &OutputBudget, policy: &Policy, text: &str, part: PartId) -> Option<Truncation> {
    let unit = policy.counting.unit;
    let max = rule.max_units as usize;
    let units = length(unit, text);
    if units <= max {
        return None;
    }
    let head_max = ((max as f64 * rule.head_ratio.clamp(0.0, 1.0)) as usize).min(max);
    let (head, head_units) = prefix(unit, text, head_max);
    let (tail, tail_units) = suffix(unit, text, max - head_max);
    let before = rule.before.replace("{head}", &grouped(head_units)).replace("{tail}", &grouped(tail_units));
    let omitted = units.saturating_sub(head_units).saturating_sub(tail_units);
    Some(Truncation {
        before: before.replace("{part}", &part.to_string()),
        head: head.len(),
        middle: rule.marker.replace("{omitted}", &grouped(omitted)),
        tail: tail.len(),
        after: String::new(),
    })
}

/// A number with a comma between its thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl;

    fn rule(budget_tokens: i64, max_units: u32) -> OutputBudget {
        OutputBudget {
            budget_tokens,
            max_units,
            head_ratio: 0.2,
            before: "[{head} and {tail} of {part}]\n".to_owned(),
            marker: "[-{omitted}]".to_owned(),
        }
    }

    /// The truncated outputs by name, with the units kept at both ends.
    fn truncations_of(rule: &OutputBudget, text: &str) -> Vec<(String, usize, usize)> {
        let policy = crate::policy("pi@1.5");
        let messages = dsl::parse(text);
        let names = dsl::part_names(&messages);
        let removals = removals(rule, &policy, &messages);
        let of = |(id, truncation): &(_, Truncation)| {
            (names[id].trim_end_matches(":result").to_owned(), truncation.head, truncation.tail)
        };
        removals.parts.iter().map(of).collect()
    }

    #[test]
    fn the_newest_outputs_have_the_budget_and_older_ones_may_fit_again() {
        let text =
            "u1 \"go\"\na1\n  tool bash#c1 out=10t done\n  tool bash#c2 out=60t done\n  tool bash#c3 out=50t done";
        assert_eq!(truncations_of(&rule(100, 40), text), [("c2".to_owned(), 8, 32)]);
        assert_eq!(truncations_of(&rule(120, 40), text), []);
    }

    #[test]
    fn what_is_left_of_an_output_counts_and_a_short_output_stays_whole() {
        // 50 of 60 are used; 90 characters become 40 and the text before them, and leave nothing for the output before.
        let text =
            "u1 \"go\"\na1\n  tool bash#c1 out=5t done\n  tool bash#c2 out=90c done\n  tool bash#c3 out=50t done";
        assert_eq!(truncations_of(&rule(60, 40), text), [("c2".to_owned(), 8, 32)]);
        assert_eq!(truncations_of(&rule(60, 15), text), [("c2".to_owned(), 3, 12), ("c1".to_owned(), 3, 12)]);
    }

    #[test]
    fn a_truncation_names_its_part() {
        let policy = crate::policy("pi@1.5");
        let messages = dsl::parse("u1 \"go\"\na1\n  tool bash#c1 out=5000c done");
        let removals = removals(&rule(10, 40), &policy, &messages).parts;
        let [(part, truncation)] = &removals[..] else { panic!("{removals:?}") };
        assert_eq!(truncation.before, format!("[8 and 32 of {part}]\n"));
        assert_eq!(truncation.middle, "[-4,960]");
    }

    #[test]
    fn an_output_that_was_truncated_before_is_measured_as_it_is_shown() {
        let text = "u1 \"go\"\na1\n  tool bash#c1 out=5000c done pruned\n  tool bash#c2 out=10t done";
        assert_eq!(truncations_of(&rule(10 + 9, 10), text), []);
        // The placeholder of 33 characters is 9 tokens, and is truncated if these do not fit.
        assert_eq!(truncations_of(&rule(10 + 8, 10), text), [("c1".to_owned(), 0, 0)]);
    }

    #[test]
    fn a_failure_counts_as_the_object_that_a_model_reads() {
        // Nine characters become 24 with the object around them.
        let text = "u1 \"go\"\na1\n  tool bash#c1 out=9c error";
        assert_eq!(truncations_of(&rule(7, 4), text), []);
        assert_eq!(truncations_of(&rule(6, 4), text), [("c1".to_owned(), 0, 4)]);
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}

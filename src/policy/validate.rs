//! What makes a policy unusable.

use super::{Policy, Tail, Threshold};
use std::collections::HashSet;

/// A value that a policy may not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field in the policy's JSON.
    pub field: String,
    /// What the value has to be, as a sentence fragment.
    pub message: String,
}

/// Everything that is wrong with the policy; empty when it can be used.
pub fn validate(policy: &Policy) -> Vec<Violation> {
    let mut check = Check::default();
    check.that(!policy.preset.is_empty(), "preset", "must name a preset");
    check.that(policy.render_version >= 1, "render_version", "must be at least 1");
    check.that(policy.counting.units_per_token >= 1, "counting.units_per_token", "must be at least 1");
    check_trigger(&mut check, &policy.trigger.threshold);
    if let Some(prune) = &policy.prune {
        check.not_negative(prune.protect_tokens, "prune.protect_tokens");
        check.not_negative(prune.minimum_tokens, "prune.minimum_tokens");
    }
    check_tail(&mut check, &policy.tail);
    check_summary(&mut check, policy);
    check.not_negative(policy.guards.minimum_gain_tokens, "guards.minimum_gain_tokens");
    check.that(policy.guards.breaker_failures >= 1, "guards.breaker_failures", "must be at least 1");
    check.that(policy.guards.attempts_max >= 1, "guards.attempts_max", "must be at least 1");
    check.violations
}

#[derive(Default)]
struct Check {
    violations: Vec<Violation>,
}

impl Check {
    fn that(&mut self, holds: bool, field: &str, message: &str) {
        if !holds {
            self.violations.push(Violation { field: field.to_owned(), message: message.to_owned() });
        }
    }

    fn not_negative(&mut self, value: i64, field: &str) {
        self.that(value >= 0, field, "must not be negative");
    }
}

fn check_trigger(check: &mut Check, threshold: &Threshold) {
    match threshold {
        Threshold::Usable { buffer_tokens, output_cap_tokens } => {
            check.not_negative(*buffer_tokens, "trigger.threshold.usable.buffer_tokens");
            check.not_negative(*output_cap_tokens, "trigger.threshold.usable.output_cap_tokens");
        }
        Threshold::Reserve { reserve_tokens } => {
            check.not_negative(*reserve_tokens, "trigger.threshold.reserve.reserve_tokens");
        }
    }
}

fn check_tail(check: &mut Check, tail: &Tail) {
    match tail {
        Tail::Turns { turns: _, budget_ratio, budget_min_tokens, budget_max_tokens } => {
            let is_share = (0.0..=1.0).contains(budget_ratio);
            check.that(is_share, "tail.turns.budget_ratio", "must be between 0 and 1");
            check.not_negative(*budget_min_tokens, "tail.turns.budget_min_tokens");
            let ordered = budget_max_tokens >= budget_min_tokens;
            check.that(ordered, "tail.turns.budget_max_tokens", "must not be less than budget_min_tokens");
        }
        Tail::Recent { keep_tokens } => check.not_negative(*keep_tokens, "tail.recent.keep_tokens"),
    }
}

fn check_summary(check: &mut Check, policy: &Policy) {
    let summary = &policy.summary;
    check.that(summary.max_tokens >= 1, "summary.max_tokens", "must be at least 1");
    let holds_something = summary.sections.iter().any(|section| section.holds.is_some());
    check.that(holds_something, "summary.sections", "must have a section that holds something");
    let mut topics = HashSet::new();
    for (index, section) in summary.sections.iter().enumerate() {
        let heading = section.heading.trim();
        let one_line = !heading.is_empty() && !heading.contains('\n');
        check.that(one_line, &format!("summary.sections.{index}.heading"), "must be one line with words in it");
        let repeated = section.holds.is_some_and(|topic| !topics.insert(topic));
        check.that(!repeated, &format!("summary.sections.{index}.holds"), "must not repeat an earlier section's");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::presets;

    /// Applies changes to a preset and names the fields that are then wrong.
    fn check(preset: &str, change: fn(&mut Policy), expected: &[&str]) {
        let mut policy = presets::find(preset).expect("a preset").policy();
        change(&mut policy);
        let fields: Vec<_> = validate(&policy).into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, expected);
    }

    #[test]
    fn every_preset_is_usable() {
        for preset in presets::all() {
            assert_eq!(validate(&preset.policy()), [], "{}", preset.name);
        }
    }

    #[test]
    fn each_bad_value_is_named_by_its_field() {
        check("pi@1.5", |policy| policy.counting.units_per_token = 0, &["counting.units_per_token"]);
        check("pi@1.5", |policy| policy.render_version = 0, &["render_version"]);
        check("pi@1.5", |policy| policy.preset.clear(), &["preset"]);
        check("pi@1.5", |policy| policy.summary.max_tokens = 0, &["summary.max_tokens"]);
        check("pi@1.5", |policy| policy.summary.sections.clear(), &["summary.sections"]);
        check("pi@1.5", |policy| policy.summary.sections[1].heading = " ".into(), &["summary.sections.1.heading"]);
        check(
            "pi@1.5",
            |policy| policy.summary.sections[1].holds = policy.summary.sections[0].holds,
            &["summary.sections.1.holds"],
        );
        check("pi@1.5", |policy| policy.guards.minimum_gain_tokens = -1, &["guards.minimum_gain_tokens"]);
        check("pi@1.5", |policy| policy.guards.attempts_max = 0, &["guards.attempts_max"]);
        check("pi@1.5", |policy| policy.guards.breaker_failures = 0, &["guards.breaker_failures"]);
        check("pi@1.5", |policy| policy.tail = Tail::Recent { keep_tokens: -1 }, &["tail.recent.keep_tokens"]);
        check(
            "pi@1.5",
            |policy| policy.trigger.threshold = Threshold::Reserve { reserve_tokens: -1 },
            &["trigger.threshold.reserve.reserve_tokens"],
        );
        check(
            "opencode@seed",
            |policy| policy.trigger.threshold = Threshold::Usable { buffer_tokens: -1, output_cap_tokens: -2 },
            &["trigger.threshold.usable.buffer_tokens", "trigger.threshold.usable.output_cap_tokens"],
        );
        check(
            "opencode@seed",
            |policy| {
                let prune = policy.prune.as_mut().expect("a prune rule");
                (prune.protect_tokens, prune.minimum_tokens) = (-1, -1);
            },
            &["prune.protect_tokens", "prune.minimum_tokens"],
        );
    }

    #[test]
    fn a_tail_budget_is_a_share_and_its_bounds_are_in_order() {
        for (ratio, min, max, expected) in [
            (1.5, 0, 1, Some("tail.turns.budget_ratio")),
            (-0.1, 0, 1, Some("tail.turns.budget_ratio")),
            (f64::NAN, 0, 1, Some("tail.turns.budget_ratio")),
            (0.5, -1, 1, Some("tail.turns.budget_min_tokens")),
            (0.5, 2, 1, Some("tail.turns.budget_max_tokens")),
            (0.0, 0, 0, None),
            (1.0, 5, 5, None),
        ] {
            let mut policy = presets::opencode::seed();
            policy.tail = Tail::Turns { turns: 1, budget_ratio: ratio, budget_min_tokens: min, budget_max_tokens: max };
            let fields: Vec<_> = validate(&policy).into_iter().map(|violation| violation.field).collect();
            assert_eq!(fields, expected.into_iter().collect::<Vec<_>>(), "{ratio} {min} {max}");
        }
    }
}

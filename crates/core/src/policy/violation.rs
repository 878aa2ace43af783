//! Violations of the rules for the values of a policy.

use super::WAIT_SECONDS_MAX;

/// An invalid value in a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field in the policy's JSON.
    pub field: String,
    /// The requirement for the value, as a sentence fragment.
    pub message: String,
}

/// Collects violations. Strategies check their own parameters with it.
#[derive(Default)]
pub struct Check {
    pub(super) violations: Vec<Violation>,
}

impl Check {
    /// Adds a violation unless `holds` is true.
    pub fn that(&mut self, holds: bool, field: &str, message: &str) {
        if !holds {
            self.violations.push(Violation { field: field.to_owned(), message: message.to_owned() });
        }
    }

    /// Adds a violation if a number is negative.
    pub fn not_negative(&mut self, value: i64, field: &str) {
        self.that(value >= 0, field, "must not be negative");
    }

    /// Adds a violation if a wait exceeds the maximum.
    pub fn wait(&mut self, seconds: u32, field: &str) {
        let message = format!("must be at most {WAIT_SECONDS_MAX} seconds");
        self.that(seconds <= WAIT_SECONDS_MAX, field, &message);
    }

    /// Adds a violation unless a number is between 0 and 1.
    pub fn share(&mut self, value: f64, field: &str) {
        self.that((0.0..=1.0).contains(&value), field, "must be between 0 and 1");
    }
}

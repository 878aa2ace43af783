//! What the rules for secrets found in a call.

use crate::secrets::{Action, Hit};
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

/// Secrets that a rule found in a text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFinding {
    /// The text, as errors name fields.
    pub field: String,
    /// The rule.
    pub rule: String,
    /// What happened to them.
    pub action: Action,
    /// Their number.
    pub count: i64,
}

/// What the rules found in the texts of a call so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Found(Arc<Mutex<Findings>>);

/// The findings of a call.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) list: Vec<SecretFinding>,
    /// True if a text was changed.
    pub(super) has_changed: bool,
    /// True for a call of several operations.
    pub(super) is_gathered: bool,
}

impl Found {
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Findings) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if a text of the call was changed.
    pub(super) fn has_changed(&self) -> bool {
        self.with(|findings| findings.has_changed)
    }
}

impl Findings {
    /// Begins an operation.
    pub(super) fn begin(&mut self) {
        if !self.is_gathered {
            *self = Self::default();
        }
    }

    pub(super) fn add(&mut self, field: impl Display, rule: &str, hit: Hit) {
        let (field, rule) = (field.to_string(), rule.to_owned());
        match self.list.iter_mut().find(|finding| finding.field == field && finding.rule == rule) {
            Some(finding) => finding.count += 1,
            None => self.list.push(SecretFinding { field, rule, action: hit.action, count: 1 }),
        }
    }
}

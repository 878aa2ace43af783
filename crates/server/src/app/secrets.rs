//! The rules for secrets: what callers send passes them, and answers have what they found.

use super::Caller;
use super::error::{Error, Reason, Result};
pub use crate::secrets::Action;
use crate::secrets::Hit;
pub use crate::store::SecretFinding;
use crate::store::{CheckedInput, Findings, RefusedSecret, ScreenResult, SecretScreen};
use std::ops::Deref;

/// A rule with its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRule {
    /// Its name.
    pub name: String,
    /// Its action.
    pub action: Action,
    /// What it found since the start of the daemon.
    pub found: i64,
}

/// The answer to a request, with what the rules found in its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenedAnswer<T> {
    /// The answer.
    pub answer: T,
    /// What the rules found, in their order.
    pub secrets: Vec<SecretFinding>,
}

impl<T> ScreenedAnswer<T> {
    pub(super) fn new(answer: T, found: Findings) -> Self {
        Self { answer, secrets: found.into_list() }
    }
}

impl<T> Deref for ScreenedAnswer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.answer
    }
}

/// What a client sends: its limits, and its texts.
pub(super) trait ClientInput {
    /// Checks everything that has a limit.
    fn validate(&self) -> Result<()>;

    /// Has every text read.
    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult;
}

/// A text that a request has beside what it is about.
pub(super) struct InputText {
    /// Its field, as errors name it.
    pub(super) field: &'static str,
    pub(super) text: String,
    pub(super) check: fn(&str) -> Result<()>,
}

impl ClientInput for InputText {
    fn validate(&self) -> Result<()> {
        (self.check)(&self.text)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text(self.field, &mut self.text)
    }
}

impl Caller {
    /// What the caller sends, as it may be written.
    pub(super) fn check<T: ClientInput>(&self, sent: T) -> Result<CheckedInput<T>> {
        CheckedInput::new(self.store().secrets(), sent, T::validate, T::screen)
    }

    /// What was found in a request, with what the store found in the text of drafts.
    pub(super) fn with_hits(&self, mut found: Findings, field: &str, hits: &[Hit]) -> Findings {
        found.add_hits(self.store().secrets(), field, hits);
        found
    }

    /// The rules with their use.
    pub(super) fn secret_rules(&self) -> Vec<SecretRule> {
        let rule = |(name, action, found): (String, Action, u64)| SecretRule {
            name,
            action,
            found: i64::try_from(found).unwrap_or(i64::MAX),
        };
        self.store().secrets().counts().into_iter().map(rule).collect()
    }
}

impl From<RefusedSecret> for Error {
    fn from(refused: RefusedSecret) -> Self {
        let RefusedSecret { field, rule } = refused;
        Self::new(Reason::SecretRefused, format!("the rule {rule:?} refuses what {field} has"))
            .with("field", field)
            .with("rule", rule)
    }
}

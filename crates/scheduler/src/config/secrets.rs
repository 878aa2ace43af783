//! The configuration of rules for secrets.

use crate::secrets::{Action, Rule, Rules};
use serde::Deserialize;
use std::path::PathBuf;

/// Rules for secrets in what clients send; none by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecretSettings {
    /// A file with rules: tables `rule` with `name`, `pattern` and `action`; without `pattern`, the built-in rule of that
    /// name gets the action.
    pub rules: Option<PathBuf>,
    /// What happens to what the built-in rules find.
    pub known: KnownSecrets,
}

/// What happens to what the built-in rules find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownSecrets {
    /// Nothing: it is not looked for.
    #[default]
    Off,
    /// It is stored, and answers say so.
    Warn,
    /// Placeholders are stored in its place.
    Redact,
    /// Requests with it are refused.
    Refuse,
}

impl KnownSecrets {
    /// The built-in rules with this action.
    pub(super) fn rules(self) -> Vec<Rule> {
        match self {
            Self::Off => Vec::new(),
            Self::Warn => Rules::built_in(Action::Warn),
            Self::Redact => Rules::built_in(Action::Redact),
            Self::Refuse => Rules::built_in(Action::Refuse),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    rule: Vec<Rule>,
}

/// The rules in the text of a file, unchecked.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, toml::de::Error> {
    toml::from_str(text).map(|file: RulesFile| file.rule)
}

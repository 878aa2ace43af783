//! The rules that a command for secrets applies.

use crate::cli::failure::Usage;
use crate::config::{Config, KnownSecrets};
use crate::secrets::Rules;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct RuleArguments {
    /// A file with rules
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Take the rules of a daemon's configuration
    #[arg(long, value_name = "FILE", conflicts_with = "rules")]
    config: Option<PathBuf>,
    /// Apply the built-in rules, too; the default without rules
    #[arg(long)]
    known: bool,
}

impl RuleArguments {
    pub(super) fn read_rules(&self) -> anyhow::Result<Rules> {
        let mut config = Config::load(self.config.as_deref())?;
        if self.rules.is_some() {
            config.secrets.rules.clone_from(&self.rules);
        }
        if config.secrets.known == KnownSecrets::Off && (self.known || config.secrets.rules.is_none()) {
            config.secrets.known = KnownSecrets::Warn;
        }
        Ok(config.read_secret_rules()?.ok_or_else(|| Usage("there are no rules".to_owned()))?)
    }
}

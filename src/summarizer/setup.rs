//! Summarizers as they are configured.

use super::provider::Provider;
use super::remote::Remote;
use super::secret::Secret;
use super::{Chain, Extractive, Summarizer};
use crate::clock::Clock;
use crate::config::{BUILT_IN, Config, Error, SummarizerSettings};
use crate::model::compaction::Level;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The summarizer for each rung of the ladder that uses one.
#[derive(Clone)]
pub struct Levels {
    /// For ordinary summaries.
    pub auto: Arc<dyn Summarizer>,
    /// For thorough ones.
    pub deep: Arc<dyn Summarizer>,
}

impl Levels {
    /// One summarizer for all of them.
    pub fn all(summarizer: Arc<dyn Summarizer>) -> Self {
        Self { auto: summarizer.clone(), deep: summarizer }
    }

    /// The summarizer for a rung.
    pub fn of(&self, level: Option<Level>) -> &dyn Summarizer {
        match level {
            Some(Level::Deep) => self.deep.as_ref(),
            Some(Level::Auto | Level::Micro) | None => self.auto.as_ref(),
        }
    }
}

/// Makes the summarizers of a configuration, and reads their keys. Nothing is asked of any provider yet.
pub fn levels(config: &Config, clock: &Clock) -> Result<Levels, Error> {
    let mut made: BTreeMap<&str, Arc<dyn Summarizer>> = BTreeMap::new();
    made.insert(BUILT_IN, Arc::new(Extractive));
    for (name, settings) in &config.summarizers {
        let invalid = |message: String| Error::Invalid(format!("summarizers.{name}: {message}"));
        let key = key(settings).map_err(invalid)?;
        let provider = Provider::new(name, settings, key, clock.clone()).map_err(invalid)?;
        made.insert(
            name,
            match provider {
                Some(provider) => Arc::new(Remote::new(provider, settings.window, settings.max_output)),
                None => Arc::new(Extractive),
            },
        );
    }
    let chosen = &config.summarizer;
    let level = |first: [&Option<String>; 2]| {
        let mut names: Vec<&str> = Vec::new();
        for name in first.into_iter().flatten().chain(&chosen.fallback) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let member = |name: &&str| {
            made.get(name).cloned().ok_or_else(|| Error::Invalid(format!("summarizer: {name:?} is not configured")))
        };
        names.iter().map(member).collect::<Result<Vec<_>, Error>>()
    };
    let auto = level([&chosen.auto, &None])?;
    // Where the thorough one fails, the ordinary one is better than none.
    let deep = level([&chosen.deep, &chosen.auto])?;
    Ok(Levels { auto: Arc::new(Chain::new(auto)), deep: Arc::new(Chain::new(deep)) })
}

/// The key that the settings point to.
fn key(settings: &SummarizerSettings) -> Result<Option<Secret>, String> {
    let key = match (&settings.api_key_env, &settings.api_key_file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err("api_key_env and api_key_file exclude each other".to_owned()),
        (Some(variable), None) => {
            std::env::var(variable).map_err(|_| format!("the variable {variable} holds no key"))?
        }
        (None, Some(file)) => {
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?
        }
    };
    let key = Secret::new(&key);
    if key.is_empty() { Err("the key is empty".to_owned()) } else { Ok(Some(key)) }
}

//! Summarizers, built from the configuration.

use super::built_in::Extractive;
use super::chain::Chain;
use super::provider::Provider;
use super::remote::Remote;
use super::secret::Secret;
use super::summary::{Gate, Summarizer};
use crate::clock::Clock;
use crate::config::{BUILT_IN, Config, Error, SummarizerSettings};
use crate::model::compaction::Level;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The summarizer for each level that uses one.
#[derive(Clone)]
pub struct Levels {
    /// For ordinary summaries.
    pub auto: Arc<dyn Summarizer>,
    /// For thorough summaries.
    pub deep: Arc<dyn Summarizer>,
}

impl Levels {
    /// One summarizer for all levels.
    pub fn same_for_all(summarizer: Arc<dyn Summarizer>) -> Self {
        Self { auto: summarizer.clone(), deep: summarizer }
    }

    /// Connection states of all providers that one of them may use, each once.
    pub fn gates(&self) -> Vec<Gate> {
        let mut gates = self.auto.gates();
        for gate in self.deep.gates() {
            if gates.iter().all(|known| known.summarizer != gate.summarizer) {
                gates.push(gate);
            }
        }
        gates
    }

    /// The summarizer for a level.
    pub fn for_level(&self, level: Option<Level>) -> &dyn Summarizer {
        match level {
            Some(Level::Deep) => self.deep.as_ref(),
            Some(Level::Auto | Level::Micro) | None => self.auto.as_ref(),
        }
    }
}

/// Builds the summarizers of a configuration, and reads their keys. No request is sent to any provider.
pub fn levels(config: &Config, clock: &Clock) -> Result<Levels, Error> {
    let mut made: BTreeMap<&str, Arc<dyn Summarizer>> = BTreeMap::new();
    made.insert(BUILT_IN, Arc::new(Extractive));
    let models = config.read_models()?;
    for (name, settings) in &config.summarizers {
        let invalid = |message: String| Error::Invalid(format!("summarizers.{name}: {message}"));
        let key = key(settings).map_err(invalid)?;
        let provider = Provider::new(name, settings, key, &models, clock.clone()).map_err(invalid)?;
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
        // If no summarizer was chosen for the level, the built-in one comes first: a fallback does not replace it.
        if first.iter().all(|name| name.is_none()) {
            names.push(BUILT_IN);
        }
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
    // If the thorough summarizer fails, the ordinary one is better than none.
    let deep = level([&chosen.deep, &chosen.auto])?;
    Ok(Levels { auto: Arc::new(Chain::new(auto)), deep: Arc::new(Chain::new(deep)) })
}

/// True if a text has the usual form of a variable's name: capital letters, digits and underscores.
fn is_variable(name: &str) -> bool {
    !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
}

/// The key that the settings point to.
fn key(settings: &SummarizerSettings) -> Result<Option<Secret>, String> {
    let key = match (&settings.api_key_env, &settings.api_key_file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err("api_key_env and api_key_file exclude each other".to_owned()),
        (Some(variable), None) => {
            std::env::var(variable).map_err(|_| match is_variable(variable) {
                true => format!("the environment variable {variable} is not set"),
                // The value may be the key itself, put in the wrong place.
                false => {
                    "api_key_env names no variable; it takes the name of one, such as ANTHROPIC_API_KEY".to_owned()
                }
            })?
        }
        (None, Some(file)) => {
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?
        }
    };
    let key = Secret::new(&key);
    if key.is_empty() { Err("the key is empty".to_owned()) } else { Ok(Some(key)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels_of_text(text: &str) -> Result<Levels, Error> {
        let model = "kind = \"openai-chat\"\nmodel = \"m\"\nwindow = 20000\nmax_output = 1000";
        let config: Config = toml::from_str(&format!("[summarizers.fake]\n{model}\n{text}")).expect(text);
        levels(&config, &Clock::default())
    }

    #[test]
    fn the_built_in_summarizer_is_the_default() {
        for (chosen, auto, deep) in [
            ("", BUILT_IN, BUILT_IN),
            ("fallback = [\"fake\"]", BUILT_IN, BUILT_IN),
            ("deep = \"fake\"\nfallback = [\"extractive\"]", BUILT_IN, "fake"),
            ("auto = \"fake\"", "fake", "fake"),
            ("auto = \"fake\"\ndeep = \"extractive\"", "fake", BUILT_IN),
        ] {
            let levels =
                levels_of_text(&format!("[summarizer]\n{chosen}")).map_err(|error| error.to_string()).expect(chosen);
            assert_eq!((levels.auto.name(), levels.deep.name()), (auto, deep), "{chosen}");
        }
    }

    #[test]
    fn a_key_instead_of_a_variable_is_not_printed() {
        let error_of = |value: &str| {
            let read = levels_of_text(&format!("api_key_env = \"{value}\""));
            read.err().map(|error| error.to_string()).unwrap_or_default()
        };
        for key in ["sk-very-secret-0123456789", "AIzaSyVerySecret", "0123456789ABCDEF", "SECRET KEY"] {
            let error = error_of(key);
            assert!(error.contains("api_key_env") && !error.contains(key), "{error}");
        }
        assert!(error_of("LONGHAND_NO_SUCH_VARIABLE_2").contains("LONGHAND_NO_SUCH_VARIABLE_2"));
    }
}

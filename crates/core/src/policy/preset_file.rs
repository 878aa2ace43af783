//! The file format of a policy, of presets and of users alike: TOML.
//!
//! `name`, `description`, `deviations`, `[sources]` (by the path of a field), and `[policy]` with the values that are no
//! defaults. A file with `extends` has the differences from another preset instead: `[policy]` is a merge patch, `remove`
//! lists the fields that the policy does not have (TOML has no null), deviations replace those of the other preset, and
//! its sources apply to all fields that the file does not change.

use super::preset::{Preset, covers, named};
use crate::policy::Policy;
use crate::policy::overrides::OverrideError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The reason why a text is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no TOML, or has another top-level field, or one of another type.
    #[error("line {line}: {message}")]
    Text {
        /// Number of the line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// It extends no known preset.
    #[error("extends: there is no preset {0:?}")]
    Base(String),
    /// The policy has an invalid value.
    #[error("policy.{}: {}", .0.field, .0.message)]
    Policy(#[from] OverrideError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    description: String,
    extends: Option<String>,
    #[serde(default)]
    remove: Vec<String>,
    deviations: Option<Vec<String>>,
    #[serde(default)]
    policy: Map<String, Value>,
    #[serde(default)]
    sources: BTreeMap<String, String>,
}

/// The preset of a text, which may extend one of these presets.
pub fn parse(text: &str, presets: &[Preset]) -> Result<Preset, Error> {
    let file: File = toml::from_str(text).map_err(|error| Error::Text {
        line: 1 + error.span().map_or(0, |span| text[..span.start].matches('\n').count()),
        message: error.message().to_owned(),
    })?;
    let base = match file.extends {
        Some(name) => named(presets, &name).cloned().ok_or(Error::Base(name))?,
        None => Preset::from(Policy::default()),
    };
    let (policy, changed) = Policy { preset: file.name.clone(), ..base.policy }.changed(&file.remove, file.policy)?;
    let mut sources = base.sources;
    sources.retain(|field, _| !changed.iter().any(|path| covers(path, field)));
    sources.extend(file.sources);
    let deviations = file.deviations.unwrap_or(base.deviations);
    Ok(Preset { name: file.name, description: file.description, deviations, sources, policy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::samples;
    use crate::policy::{Limit, Tail};

    fn check_error(text: &str, expected: &str) {
        let error = parse(text, &samples::all()).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }

    #[test]
    fn a_policy_has_the_defaults_beside_its_values() {
        let text = "name = 'mine'\n[policy.auto]\nthreshold.limit.ratio = 0.5\n\
                    [[policy.auto.steps]]\nsummarize.tail.last.messages = 4\n[sources]\n'auto.threshold' = 'a trial'";
        let preset = parse(text, &samples::all()).expect("a policy");
        let json = r#"{"preset": "mine", "auto": {"threshold": {"limit": {"ratio": 0.5}},
                       "steps": [{"summarize": {"tail": {"last": {"messages": 4}}}}]}}"#;
        assert_eq!(preset.policy, serde_json::from_str(json).expect("a policy"));
        assert_eq!(preset.source("auto.threshold.limit"), Some("a trial"));
    }

    #[test]
    fn a_file_extends_another_preset() {
        let text = "name = 'mine'\nextends = 'opencode@seed'\nremove = ['truncate', 'view.marker_text']\n\
                    [policy.auto]\nthreshold.limit.ratio = 0.5\nsteps.0.summarize.tail = 'nothing'\n\
                    [sources]\n'auto.threshold.limit' = 'a trial'";
        let (mine, seed) = (parse(text, &samples::all()).expect("a policy"), samples::preset("opencode@seed"));
        let level = mine.policy.auto.clone().expect("a level");
        assert_eq!((level.threshold.limit, level.threshold.inclusive), (Limit::Ratio(0.5), true));
        let summarize = mine.policy.summarize(crate::model::compaction::Level::Auto).expect("a summary");
        assert_eq!(summarize.tail, Tail::Nothing);
        assert_eq!((&mine.policy.truncate, &mine.policy.view.marker_text), (&None, &None));
        assert_eq!((&mine.policy.maintenance, mine.deviations()), (&seed.policy.maintenance, seed.deviations()));
        assert_eq!(mine.source("auto.threshold.limit"), Some("a trial"));
        assert_eq!(mine.source("auto.threshold.inclusive"), seed.source("auto.threshold.inclusive"));
        let tail = "auto.steps.0.summarize.tail.turns";
        assert!(seed.source(&format!("{tail}.turns")).is_some() && mine.source(tail).is_none(), "its field is changed");
    }

    #[test]
    fn an_error_names_the_line_or_the_field() {
        check_error("name = 'x'\nname = 'y'", "line 2: ");
        check_error("name = 'x'\ndescriptoin = 'y'", "line 2: unknown field `descriptoin`");
        check_error("description = 'y'", "missing field `name`");
        check_error("name = ''", "policy.preset: ");
        check_error("name = 'x'\nextends = 'nobody@1'", "extends: there is no preset \"nobody@1\"");
        check_error("name = 'x'\nremove = ['trunctae']", "policy.trunctae: there is no such item");
        check_error("name = 'x'\n[policy]\npreset = 'y'", "policy.preset: cannot be changed");
        check_error("name = 'x'\n[policy]\nguard = {}", "policy.guard: unknown field `guard`");
        check_error("name = 'x'\n[policy.guards]\nmax_attempts = 0", "policy.guards.max_attempts: ");
        check_error("name = 'x'\n[policy.guards]\nmax_attempts = 'y'", "policy.guards.max_attempts: invalid type");
    }
}

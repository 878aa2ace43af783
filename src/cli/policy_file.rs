//! Policies that users write: files in place of the name of a preset.

use super::failure::Usage;
use crate::policy::validate::validate;
use crate::presets::{self, Preset};
use anyhow::Context;
use std::path::Path;

/// The policy in a file, in the format of the presets (`.toml`) or whole as JSON (`.json`). None if the name has neither
/// ending: then it is that of a preset.
pub(super) fn read_policy(name: &str) -> anyhow::Result<Option<Preset>> {
    let parse = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
        Some("toml") => |text: &str| presets::parse(text).map_err(|error| error.to_string()),
        Some("json") => from_json,
        _ => return Ok(None),
    };
    let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
    let preset = parse(&text).map_err(|error| Usage(format!("{name}: {error}")))?;
    Ok(Some(preset))
}

fn from_json(text: &str) -> Result<Preset, String> {
    let policy = presets::read_policy(text).map_err(|error| error.to_string())?;
    match validate(&policy).into_iter().next() {
        Some(violation) => Err(format!("{}: {}", violation.field, violation.message)),
        None => Ok(Preset::from(policy)),
    }
}

/// The policy of a new session.
#[derive(Debug)]
pub(super) struct PolicyChoice {
    /// Name of the preset, or of the policy in the file; empty for the daemon's default.
    pub(super) name: String,
    /// The policy in the file; empty for a preset of the daemon.
    pub(super) policy_json: String,
}

impl PolicyChoice {
    /// The preset of this name, or the policy in the file of this name.
    pub(super) fn from_name(name: String) -> anyhow::Result<Self> {
        match read_policy(&name)? {
            Some(policy) => Ok(Self { policy_json: serde_json::to_string(&policy.policy())?, name: policy.name }),
            None => Ok(Self { name, policy_json: String::new() }),
        }
    }

    /// Name of the preset for a request; empty if the request has the whole policy.
    pub(super) fn preset(&self) -> String {
        if self.policy_json.is_empty() { self.name.clone() } else { String::new() }
    }
}

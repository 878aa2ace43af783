//! Presets: the agents whose behaviour Longhand can reproduce, and a policy of its own, one file in TOML for each version.
//!
//! A preset is a policy with a name and a version, in the format in which users write policies of their own. Strategies
//! that only one agent has are code, in a folder of the agent. If an agent has a defect that breaks one of Longhand's
//! promises, the preset keeps the promise, and names this in its deviations.

#[cfg(test)]
#[path = "../../core/tests/unit/dsl.rs"]
mod dsl;
pub mod gemini_cli;
pub mod joyagent;
pub mod qwen_agent;
pub mod suna;

use gemini_cli::parameters::{Excerpt, OutputBudget};
use joyagent::parameters::{Envelope, Suffix};
use longhand_core::policy;
use longhand_model as model;
pub use policy::preset::Preset;
use policy::preset::named;
pub use policy::preset_file::Error;
use policy::{Policy, Reader, Strategies, preset_file};
use qwen_agent::parameters::{CountedTexts, NewestFirst, TurnsAndSteps};
use std::sync::LazyLock;
use suna::parameters::{ChatFormat, Groups, MiddleOut, PerRole, Strip};

/// The strategies that only one agent has.
static STRATEGIES: Strategies = Strategies {
    omissions: &[
        Reader::omission::<OutputBudget>(),
        Reader::omission::<PerRole>(),
        Reader::omission::<Groups>(),
        Reader::omission::<MiddleOut>(),
        Reader::omission::<Strip>(),
        Reader::omission::<TurnsAndSteps>(),
        Reader::omission::<NewestFirst>(),
        Reader::omission::<Suffix>(),
    ],
    counts: &[Reader::count::<ChatFormat>(), Reader::count::<CountedTexts>(), Reader::count::<Envelope>()],
    excerpts: &[Reader::excerpt::<Excerpt>()],
};

/// The presets in the order of their files, in which a file is after the one that it extends.
static ALL: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    strategies().supply();
    FILES.iter().fold(Vec::new(), |mut presets, (file, text)| {
        let preset = preset_file::parse(text, &presets);
        presets.push(preset.unwrap_or_else(|error| panic!("the embedded file {file}: {error}")));
        presets
    })
});

macro_rules! files {
    ($($file:literal),* $(,)?) => { [$(($file, include_str!($file))),*] };
}

/// The files. A name without a version means the last file of its agent, which is not always the newest version.
const FILES: [(&str, &str); 25] = files![
    "anthropic-context-editing-2025-10.toml",
    "claude-code-observed.toml",
    "claude-code-seed.toml",
    "codex-2026-08.toml",
    "gemini-cli-2025-08.toml",
    "gemini-cli-0.26.toml",
    "qwen-code-2025-08.toml",
    "goose-0.8.toml",
    "joyagent.toml",
    "longhand-1.toml",
    "neovate-2026.toml",
    "neovate-2026-fixed.toml",
    "opencode-1.18.toml",
    "opencode-seed.toml",
    "pi-0.73.toml",
    "pi-1.5.toml",
    "qwen-agent-old.toml",
    "qwen-agent-dialogue-retrieval.toml",
    "qwen-agent-0.0.34.toml",
    "qwen-code-0.15.toml",
    "qwen-code-0.24.toml",
    "smolagents.toml",
    "suna-2025-04.toml",
    "suna-2025-07.toml",
    "suna-2026.toml",
];

/// All presets, by agent and version.
pub fn all() -> &'static [Preset] {
    &ALL
}

/// The preset with this name. Without a version it is the last of its name in the list.
pub fn find(name: &str) -> Option<&'static Preset> {
    named(all(), name)
}

/// The strategies of the agents, which the text of a policy can name once they are supplied.
pub fn strategies() -> &'static Strategies {
    &STRATEGIES
}

/// The policy of a text in JSON.
pub fn read_policy(json: &str) -> serde_json::Result<Policy> {
    strategies().supply();
    serde_json::from_str(json)
}

/// The preset of a file in TOML, which may extend one of these presets.
pub fn parse(text: &str) -> Result<Preset, Error> {
    preset_file::parse(text, all())
}

/// The file of the preset with this name, which is found as by [`find`].
pub fn text(name: &str) -> Option<&'static str> {
    let file = file_name(find(name)?);
    FILES.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
}

fn file_name(preset: &Preset) -> String {
    format!("{}.toml", preset.name.replace('@', "-"))
}

/// The preset of sessions and commands that name none.
pub const DEFAULT: &str = "longhand@1";

/// The policy of a preset that the code names. Panics if there is none.
pub fn policy(name: &str) -> Policy {
    find(name).unwrap_or_else(|| panic!("no preset {name}")).policy()
}

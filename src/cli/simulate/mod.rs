//! `longhand simulate`: plays a transcript under several policies, without a daemon and without a model.

mod plot;
mod report;

use super::Globals;
use super::failure::{Usage, note};
use super::policy_file;
use super::progress::Progress;
use super::tokens::some_tokens;
use crate::interop::{self, Entry, Options, Transcript};
use crate::limits;
use crate::model::usage::ModelWindow;
use crate::presets::{self, Preset};
use crate::simulation::{TranscriptEntry, simulate};
use anyhow::Context;
use report::SimulationReport;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session file of pi, or transcript of Claude Code; its current branch is simulated
    file: PathBuf,
    /// Preset, with or without its version, or a file with a policy (.toml or .json); may be repeated; default: all
    /// presets
    #[arg(long = "preset", value_name = "PRESET")]
    presets: Vec<String>,
    /// Model window, in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 200_000, value_parser = some_tokens)]
    window: i64,
    /// Maximum length of a reply, in tokens; default: unknown
    #[arg(long, value_name = "TOKENS", value_parser = some_tokens)]
    max_output: Option<i64>,
    /// Overhead of every request beside the messages, such as a system prompt and descriptions of tools, in tokens; the
    /// usage in the transcript includes it already
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..=limits::TOKENS_MAX))]
    overhead: i64,
    /// Name of the model, for presets that depend on it; default: the model of most replies in the transcript
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// File for a plot of the context usage over the conversation, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(super) fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let chosen = chosen(&arguments.presets)?;
    let path = &arguments.file;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let transcript =
        interop::parse(bytes.as_slice(), &Options::default()).with_context(|| path.display().to_string())?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for problem in &transcript.problems {
        note(&format!("{file}:{}: {}", problem.line, problem.message));
    }
    let entries = entries(transcript);
    let window = ModelWindow {
        model: arguments.model.unwrap_or_else(|| main_model(&entries)),
        context: arguments.window,
        output: arguments.max_output,
        overhead: arguments.overhead,
        ..ModelWindow::default()
    };
    let mut progress = Progress::new();
    let simulated = (1..).zip(&chosen).map(|(number, preset)| {
        progress.show(|| format!("simulates {}, preset {number} of {}", preset.name, chosen.len()));
        (
            preset.name.clone(),
            simulate(&preset.policy(), &window, &entries, &longhand_extractive::extract, &|input| {
                longhand_extractive::Covered::new(input).digest().to_json()
            }),
        )
    });
    let outcomes = simulated.collect();
    progress.clear();
    let messages = entries.iter().filter(|entry| matches!(entry, TranscriptEntry::Message(_))).count();
    let report = SimulationReport { file, messages, window, outcomes };
    if let Some(path) = &arguments.plot {
        std::fs::write(path, plot::svg(&report)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut output = globals.output();
    report.print(&mut output)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The presets with these names and the policies in these files, each once; all presets if there are no names.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<Preset>> {
    if names.is_empty() {
        return Ok(presets::all().to_vec());
    }
    let mut chosen: Vec<Preset> = Vec::new();
    for name in names {
        let known = || presets::all().iter().map(|preset| preset.name.as_str()).collect::<Vec<_>>().join(", ");
        let unknown = || Usage(format!("there is no preset {name:?}; there are {}", known()));
        let preset = match policy_file::read_policy(name)? {
            Some(policy) => policy,
            None => presets::find(name).cloned().ok_or_else(unknown)?,
        };
        if !chosen.contains(&preset) {
            chosen.push(preset);
        }
    }
    Ok(chosen)
}

/// Messages and compactions of a transcript's current branch. Records are left out, since no view contains them.
/// Messages have their original text, regardless of later edits.
pub(super) fn entries(transcript: Transcript) -> Vec<TranscriptEntry> {
    let main = transcript.branches.into_iter().next();
    let entries = main.into_iter().flat_map(|branch| branch.entries);
    entries
        .filter_map(|entry| match entry {
            Entry::Message { message, .. } => Some(TranscriptEntry::Message(Box::new(message))),
            Entry::Compaction(_) => Some(TranscriptEntry::Compaction),
            Entry::Record { .. } | Entry::Edit(_) => None,
        })
        .collect()
}

/// The model that wrote the most messages; on a tie, the one that came first. Empty if no message names a model.
pub(super) fn main_model(entries: &[TranscriptEntry]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for entry in entries {
        let TranscriptEntry::Message(message) = entry else { continue };
        match counts.iter_mut().find(|(model, _)| *model == message.model) {
            Some((_, count)) => *count += 1,
            None if message.model.is_empty() => {}
            None => counts.push((&message.model, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max();
    counts.iter().find(|(_, count)| Some(*count) == most).map_or(String::new(), |(model, _)| (*model).to_owned())
}

#[cfg(test)]
mod tests;

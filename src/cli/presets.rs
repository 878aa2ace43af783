//! `longhand presets`: the presets the daemon has.

use super::Globals;
use super::output::{Align, Output, Table, shorten};
use crate::pb;
use anyhow::anyhow;
use std::process::ExitCode;

/// How wide a description may be in the table.
const DESCRIPTION_WIDTH: usize = 90;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print a preset whole: its policy, and where its values come from
    Show {
        /// The preset's name, with or without its version
        name: String,
    },
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut client = globals.client().await?;
    let mut output = globals.output();
    let presets = client.admin.list_presets(pb::ListPresetsRequest {}).await?.into_inner().presets;
    match arguments.command {
        Some(Command::Show { name }) => {
            let unknown = || anyhow!("there is no preset {name:?}; `longhand presets` lists those there are");
            let preset = find(&presets, &name).ok_or_else(unknown)?;
            if output.json() { output.message(preset)? } else { print(&mut output, preset)? }
        }
        None if output.json() => presets.iter().try_for_each(|preset| output.message(preset))?,
        None => table(&presets).print(&mut output)?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A preset by its whole name, or by the name before the version: then the last version listed.
fn find<'a>(presets: &'a [pb::Preset], name: &str) -> Option<&'a pb::Preset> {
    let unversioned = |preset: &&pb::Preset| preset.name.split_once('@').is_some_and(|(base, _)| base == name);
    presets.iter().find(|preset| preset.name == name).or_else(|| presets.iter().rfind(unversioned))
}

fn table(presets: &[pb::Preset]) -> Table {
    let mut table = Table::new(&[("PRESET", Align::Left), ("", Align::Left), ("WHAT IT IS", Align::Left)]);
    for preset in presets {
        table.row(vec![
            preset.name.clone(),
            if preset.default_preset { "default" } else { "" }.to_owned(),
            shorten(&preset.description, DESCRIPTION_WIDTH),
        ]);
    }
    table
}

fn print(output: &mut Output, preset: &pb::Preset) -> anyhow::Result<()> {
    output.line(&format!("{}: {}", preset.name, preset.description))?;
    let policy: serde_json::Value = serde_json::from_str(&preset.policy_json)?;
    output.line(&serde_json::to_string_pretty(&policy)?)?;
    if !preset.notes.is_empty() {
        let mut notes = Table::new(&[("FIELD", Align::Left), ("SOURCE", Align::Left)]);
        preset.notes.iter().for_each(|note| notes.row(vec![note.field.clone(), note.source.clone()]));
        output.line("")?;
        notes.print(output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_with_and_without_a_version() {
        let presets =
            ["opencode@seed", "pi@1.4", "pi@1.5"].map(|name| pb::Preset { name: name.into(), ..Default::default() });
        for (name, found) in [
            ("opencode@seed", Some("opencode@seed")),
            ("opencode", Some("opencode@seed")),
            ("pi", Some("pi@1.5")),
            ("pi@1.4", Some("pi@1.4")),
            ("open", None),
        ] {
            assert_eq!(find(&presets, name).map(|preset| preset.name.as_str()), found);
        }
    }
}

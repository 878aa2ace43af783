//! `longhand presets`: lists the presets of the daemon, prints one whole, or compares two.
//!
//! Without a daemon, they are those that are compiled in.

use super::Globals;
use super::output::{BAD, DIMMED, GOOD, HEADING, Output, PLAIN, one_line, shorten, truncate};
use super::table::{Column, Table};
use crate::config::Config;
use crate::pb;
use crate::presets;
use anyhow::anyhow;
use longhand_client::Error;
use serde::Serialize;
use serde_json::Value;
use std::process::ExitCode;

/// The field under which a preset's notes name its deviations.
const DEVIATION: &str = "deviation";

/// Minimum width of a value on a terminal, in columns.
const VALUE_WIDTH_MIN: usize = 10;

/// Placeholder for a missing value.
const ABSENT: &str = "-";

/// Source of a value that is the default of every policy.
const DEFAULT: &str = "default: the agent has nothing of its own";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print a preset: every value with its source, and the deliberate deviations
    Show {
        /// Name of the preset, with or without its version
        name: String,
        /// Print its file instead, to begin a policy of your own with
        #[arg(long)]
        toml: bool,
    },
    /// Print the differences between two presets
    Diff {
        /// Name of the first preset, with or without its version
        from: String,
        /// Name of the second preset
        to: String,
    },
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut output = globals.output();
    if let Some(Command::Show { name, toml: true }) = &arguments.command {
        // A file is read by this program, not by the daemon, whose presets may be others.
        output.text(presets::text(name).ok_or_else(|| unknown(name))?)?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut presets = match globals.client().await {
        Ok(client) => client.call(pb::ListPresetsRequest::default()).await?.presets,
        Err(Error::Unreachable { .. }) => compiled_in()?,
        Err(error) => return Err(error.into()),
    };
    match arguments.command {
        Some(Command::Show { name, .. }) => {
            let preset = find(&presets, &name)?;
            if output.json() { output.message(preset)? } else { print(&mut output, preset)? }
        }
        Some(Command::Diff { from, to }) => {
            let (from, to) = (find(&presets, &from)?, find(&presets, &to)?);
            let difference = Difference { from: &from.name, to: &to.name, values: differences(from, to)? };
            if output.json() { output.value(&difference)? } else { difference.print(&mut output)? }
        }
        None if output.json() => presets.iter().try_for_each(|preset| output.message(preset))?,
        None => {
            // The sort is stable: the last version of an agent stays last. A name without a version means that one.
            presets.sort_by(|a, b| agent(a).cmp(agent(b)));
            table(&presets).print(&mut output)?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The presets that are compiled in, as a daemon with the default configuration lists them.
fn compiled_in() -> anyhow::Result<Vec<pb::Preset>> {
    let default = presets::find(&Config::default().default_preset).map(|preset| &preset.name);
    let note = |field: &str, source: &str| pb::PresetNote { field: field.to_owned(), source: source.to_owned() };
    let listed = |preset: &presets::Preset| {
        let sources = preset.sources.iter().map(|(field, source)| note(field, source));
        let deviations = preset.deviations().into_iter().map(|text| note(DEVIATION, text));
        Ok(pb::Preset {
            name: preset.name.clone(),
            description: preset.description.clone(),
            policy_json: serde_json::to_string(&preset.policy())?,
            notes: sources.chain(deviations).collect(),
            default_preset: default == Some(&preset.name),
            thresholds: Vec::new(),
        })
    };
    presets::all().iter().map(listed).collect()
}

/// The name of a preset without its version.
fn agent(preset: &pb::Preset) -> &str {
    preset.name.split('@').next().unwrap_or_default()
}

/// The preset with this full name; for a name without a version, the last listed version.
fn find<'a>(presets: &'a [pb::Preset], name: &str) -> anyhow::Result<&'a pb::Preset> {
    let unversioned = |preset: &&pb::Preset| preset.name.split_once('@').is_some_and(|(base, _)| base == name);
    let preset = presets.iter().find(|preset| preset.name == name).or_else(|| presets.iter().rfind(unversioned));
    preset.ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow!("there is no preset {name:?}; `longhand presets` lists the presets")
}

fn table(presets: &[pb::Preset]) -> Table {
    let mut table = Table::new(&[Column::word("PRESET"), Column::word(""), Column::text("WHAT IT IS")]);
    for preset in presets {
        table.row(vec![
            preset.name.clone(),
            if preset.default_preset { "default" } else { "" }.to_owned(),
            one_line(&preset.description),
        ]);
    }
    table
}

fn print(output: &mut Output, preset: &pb::Preset) -> anyhow::Result<()> {
    output.line(&format!("{}: {}", preset.name, preset.description))?;
    output.line("")?;
    match output.columns() {
        Some(columns) => print_groups(output, preset, columns)?,
        None => values_table(preset)?.print(output)?,
    }
    let deviations: Vec<&str> = notes(preset, DEVIATION).collect();
    if !deviations.is_empty() {
        output.line("")?;
        output.line("Deliberate deviations:")?;
        deviations.iter().try_for_each(|text| output.line(&format!("- {text}")))?;
    }
    Ok(())
}

/// The values in groups with the same source, as both do not fit a line of a terminal.
fn print_groups(output: &mut Output, preset: &pb::Preset, columns: usize) -> anyhow::Result<()> {
    let mut above = None;
    for (field, value) in values(preset)? {
        let source = source(preset, &field).unwrap_or(DEFAULT);
        if above != Some(source) {
            output.styled_line(&[(DIMMED, source)])?;
            above = Some(source);
        }
        let name = format!("  {field} ");
        let width = columns.saturating_sub(name.len()).max(VALUE_WIDTH_MIN);
        output.styled_line(&[(HEADING, name), (PLAIN, shorten(&value, width))])?;
    }
    Ok(())
}

/// Every value with its source.
fn values_table(preset: &pb::Preset) -> anyhow::Result<Table> {
    let mut table = Table::new(&[Column::word("FIELD"), Column::text("SOURCE"), Column::text("VALUE")]);
    for (field, value) in values(preset)? {
        let source = source(preset, &field).unwrap_or(DEFAULT).to_owned();
        table.row(vec![field, source, value]);
    }
    Ok(table)
}

fn notes<'a>(preset: &'a pb::Preset, field: &str) -> impl Iterator<Item = &'a str> {
    preset.notes.iter().filter(move |note| note.field == field).map(|note| note.source.as_str())
}

/// Source of a value: the note on its field, or else on the nearest field that contains it.
fn source<'a>(preset: &'a pb::Preset, field: &str) -> Option<&'a str> {
    let mut field = field;
    loop {
        if let Some(source) = notes(preset, field).next() {
            return Some(source);
        }
        field = field.rsplit_once('.')?.0;
    }
}

/// The values of a preset's policy, each with its path, in the order of the policy.
fn values(preset: &pb::Preset) -> anyhow::Result<Vec<(String, String)>> {
    let policy: Value = serde_json::from_str(&preset.policy_json)?;
    let mut values = Vec::new();
    flatten(String::new(), &policy, &mut values);
    Ok(values)
}

fn flatten(path: String, value: &Value, values: &mut Vec<(String, String)>) {
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| flatten(inside(name), value, values));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, value)| flatten(inside(&index.to_string()), value, values));
        }
        value => values.push((path, value.to_string())),
    }
}

/// Values in which two presets differ.
#[derive(Debug, Serialize)]
struct Difference<'a> {
    from: &'a str,
    to: &'a str,
    values: Vec<DifferentValue>,
}

/// A value in which two presets differ, as JSON; none for a preset without the field.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct DifferentValue {
    field: String,
    from: Option<String>,
    to: Option<String>,
}

/// The values that differ, in the order of the first policy, followed by those that only the second policy has.
fn differences(from: &pb::Preset, to: &pb::Preset) -> anyhow::Result<Vec<DifferentValue>> {
    let (from, to) = (values(from)?, values(to)?);
    let of = |values: &[(String, String)], field: &str| {
        values.iter().find(|(name, _)| name == field).map(|(_, value)| value.clone())
    };
    let only_to = to.iter().filter(|(field, _)| of(&from, field).is_none());
    let fields = from.iter().chain(only_to).map(|(field, _)| field);
    let values =
        fields.map(|field| DifferentValue { field: field.clone(), from: of(&from, field), to: of(&to, field) });
    // The names always differ.
    Ok(values.filter(|value| value.field != "preset" && value.from != value.to).collect())
}

impl Difference<'_> {
    fn print(&self, output: &mut Output) -> anyhow::Result<()> {
        if self.values.is_empty() {
            return Ok(output.line(&format!("{} and {} are the same policy", self.from, self.to))?);
        }
        output.line(&format!("from {} to {}", self.from, self.to))?;
        output.line("")?;
        let Some(columns) = output.columns() else { return Ok(self.table().print(output)?) };
        for value in &self.values {
            output.styled_line(&[(HEADING, &value.field)])?;
            for (style, sign, value) in [(BAD, "-", &value.from), (GOOD, "+", &value.to)] {
                let Some(value) = value else { continue };
                output.styled_line(&[(style, truncate(&format!("  {sign} {}", one_line(value)), columns))])?;
            }
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[Column::text("FIELD"), Column::text("FROM"), Column::text("TO")]);
        let text = |value: &Option<String>| value.as_deref().map_or(ABSENT.to_owned(), one_line);
        for value in &self.values {
            table.row(vec![value.field.clone(), text(&value.from), text(&value.to)]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(name: &str, policy_json: &str, notes: &[(&str, &str)]) -> pb::Preset {
        let note = |(field, source): &(&str, &str)| pb::PresetNote { field: (*field).into(), source: (*source).into() };
        pb::Preset {
            name: name.into(),
            policy_json: policy_json.into(),
            notes: notes.iter().map(note).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn presets_are_found_with_and_without_a_version() {
        let presets = ["opencode@seed", "pi@1.4", "pi@1.5"].map(|name| preset(name, "", &[]));
        for (name, found) in [
            ("opencode@seed", Some("opencode@seed")),
            ("opencode", Some("opencode@seed")),
            ("pi", Some("pi@1.5")),
            ("pi@1.4", Some("pi@1.4")),
            ("open", None),
        ] {
            assert_eq!(find(&presets, name).ok().map(|preset| preset.name.as_str()), found);
        }
    }

    #[test]
    fn the_default_is_our_own_and_cuts_nothing_in_views() {
        let compiled = compiled_in().expect("presets");
        let default: Vec<&pb::Preset> = compiled.iter().filter(|preset| preset.default_preset).collect();
        let [default] = default[..] else { panic!("{} defaults", default.len()) };
        assert_eq!(default.name, "longhand@1");
        let policy = presets::policy(&default.name);
        assert_eq!((policy.truncate, policy.maintenance), (None, Vec::new()));
        assert!(default.notes.iter().all(|note| note.field != DEVIATION), "it reproduces nobody");
    }

    #[test]
    fn every_value_has_the_nearest_source() {
        let policy = r#"{"a":{"b":1,"c":[{"d":"x y"},{"d":null}]},"ab":[],"e":{}}"#;
        let notes = [("a", "all of a"), ("a.c.0", "the first"), ("ab", "none there"), (DEVIATION, "on purpose")];
        let preset = preset("p@1", policy, &notes);
        let lines = values_table(&preset).expect("a policy").lines(None);
        let expected = [
            "FIELD    SOURCE                                     VALUE",
            "a.b      all of a                                   1",
            "a.c.0.d  the first                                  \"x y\"",
            "a.c.1.d  all of a                                   null",
            "ab       none there                                 []",
            "e        default: the agent has nothing of its own  {}",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn only_differences_are_listed() {
        let from = preset("p@1", r#"{"preset":"p@1","a":1,"b":{"c":"x","d":true},"e":[1,2]}"#, &[]);
        let to = preset("p@2", r#"{"preset":"p@2","a":1,"b":{"c":"y"},"e":[1],"f":null}"#, &[]);
        let difference = Difference { from: "p@1", to: "p@2", values: differences(&from, &to).expect("policies") };
        let expected =
            ["FIELD  FROM  TO", "b.c    \"x\"   \"y\"", "b.d    true  -", "e.1    2     -", "f      -     null"];
        assert_eq!(difference.table().lines(None), expected);
        assert_eq!(differences(&from, &from).expect("policies"), []);
    }
}

//! Report of a simulation: a table that compares the presets, and one for each preset with its compactions, or JSON.

use crate::cli::output::{Output, count};
use crate::cli::table::{Column, Table};
use crate::model::compaction::CompactionKind;
use crate::model::usage::ModelWindow;
use crate::simulation::{Outcome, SimulatedCompaction};
use serde::Serialize;

/// Results of a transcript under several presets.
#[derive(Debug)]
pub(super) struct SimulationReport {
    /// File name of the transcript, without its folder.
    pub(super) file: String,
    /// Number of its messages.
    pub(super) messages: usize,
    /// Model window of all simulations.
    pub(super) window: ModelWindow,
    /// Results by preset.
    pub(super) outcomes: Vec<(String, Outcome)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    prunes: usize,
    omissions: usize,
    summaries: usize,
    refused: usize,
    freed_tokens: i64,
    reread_tokens: i64,
}

impl Totals {
    fn from_outcome(outcome: &Outcome) -> Self {
        let mut totals = Self::default();
        for compaction in &outcome.simulated {
            let count = match (compaction.refused, compaction.kind) {
                (true, _) => &mut totals.refused,
                (false, CompactionKind::Prune) => &mut totals.prunes,
                (false, CompactionKind::Omission) => &mut totals.omissions,
                (false, CompactionKind::Summary) => &mut totals.summaries,
            };
            *count += 1;
            if compaction.refused {
                continue;
            }
            totals.freed_tokens += compaction.before_tokens - compaction.after_tokens;
            totals.reread_tokens += compaction.reread_tokens;
        }
        totals
    }

    /// Number of changes at the beginning of the view; each of them leaves less of it in a provider's cache.
    fn changed_prefixes(&self) -> usize {
        self.prunes + self.omissions + self.summaries
    }
}

impl SimulationReport {
    /// Prints the report as text or JSON.
    pub(super) fn print(&self, output: &mut Output) -> anyhow::Result<()> {
        if output.json() {
            return output.value(&self.json());
        }
        output.line(&self.title())?;
        output.line("")?;
        self.comparison().print(output)?;
        for (preset, outcome) in &self.outcomes {
            output.line("")?;
            output.line(&headline(preset, outcome))?;
            if !outcome.simulated.is_empty() {
                simulated_table(outcome).print(output)?;
            }
        }
        Ok(())
    }

    fn title(&self) -> String {
        let messages = count(i64::try_from(self.messages).unwrap_or(i64::MAX), "message");
        let output = self.window.output.map_or(String::new(), |output| format!(", {output} of them for a reply"));
        let model = if self.window.model.is_empty() { "no model named" } else { &self.window.model };
        format!("{}: {messages}, a window of {} tokens{output}, {model}", self.file, self.window.context)
    }

    fn comparison(&self) -> Table {
        let mut table = Table::new(&[
            Column::text("PRESET"),
            Column::number("THRESHOLD").optional(3),
            Column::number("PRUNES"),
            Column::number("OMISSIONS"),
            Column::number("SUMMARIES"),
            Column::number("REFUSED").optional(1),
            Column::number("PEAK").optional(4),
            Column::number("FINAL").optional(5),
            Column::number("FREED"),
            Column::number("CACHE BREAKS").optional(6),
            Column::number("UNCACHED").optional(2),
        ]);
        for (preset, outcome) in &self.outcomes {
            let totals = Totals::from_outcome(outcome);
            table.row(vec![
                (*preset).to_owned(),
                outcome.due_tokens.map_or_else(|| "-".to_owned(), |due| due.to_string()),
                totals.prunes.to_string(),
                totals.omissions.to_string(),
                totals.summaries.to_string(),
                totals.refused.to_string(),
                outcome.highest_tokens().to_string(),
                outcome.final_tokens().to_string(),
                totals.freed_tokens.to_string(),
                totals.changed_prefixes().to_string(),
                totals.reread_tokens.to_string(),
            ]);
        }
        table
    }

    fn json(&self) -> Json<'_> {
        let presets = self.outcomes.iter().map(|(preset, outcome)| {
            let totals = Totals::from_outcome(outcome);
            PresetJson {
                preset,
                due_tokens: outcome.due_tokens,
                highest_tokens: outcome.highest_tokens(),
                final_tokens: outcome.final_tokens(),
                freed_tokens: totals.freed_tokens,
                changed_prefixes: totals.changed_prefixes(),
                reread_tokens: totals.reread_tokens,
                compactions: outcome.simulated.iter().map(SimulatedCompactionJson::new).collect(),
                context_usage: outcome.context_usage.iter().map(|point| (point.message, point.tokens)).collect(),
            }
        });
        Json {
            file: &self.file,
            messages: self.messages,
            window_tokens: self.window.context,
            output_tokens: self.window.output,
            model: &self.window.model,
            presets: presets.collect(),
        }
    }
}

fn headline(preset: &str, outcome: &Outcome) -> String {
    let due = match outcome.due_tokens {
        Some(due) => format!("due at {due} tokens"),
        None => "never due".to_owned(),
    };
    match outcome.simulated.as_slice() {
        [] => format!("{preset}, {due}: nothing happens"),
        _ => format!("{preset}, {due}:"),
    }
}

fn simulated_table(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        Column::number("MESSAGE"),
        Column::word("LEVEL"),
        Column::word("WHAT"),
        Column::number("CONTEXT").optional(1),
        Column::number("BEFORE"),
        Column::number("AFTER"),
        Column::number("KEPT").optional(4),
        Column::number("CLEARED").optional(3),
        Column::number("SUMMARIZED"),
        Column::number("OMITTED").optional(2),
        Column::number("UNCACHED"),
    ]);
    for compaction in &outcome.simulated {
        table.row(vec![
            compaction.message.to_string(),
            level(compaction).to_owned(),
            if compaction.refused { format!("{}, refused", kind(compaction)) } else { kind(compaction).to_owned() },
            compaction.context_tokens.to_string(),
            compaction.before_tokens.to_string(),
            compaction.after_tokens.to_string(),
            compaction.kept.to_string(),
            compaction.cleared.to_string(),
            compaction.summarized.to_string(),
            compaction.omitted.to_string(),
            compaction.reread_tokens.to_string(),
        ]);
    }
    table
}

fn level(compaction: &SimulatedCompaction) -> &'static str {
    compaction.level.map_or("maintenance", |level| level.name())
}

fn kind(compaction: &SimulatedCompaction) -> &'static str {
    match compaction.kind {
        CompactionKind::Prune => "prune",
        CompactionKind::Omission => "omission",
        CompactionKind::Summary => "summary",
    }
}

#[derive(Debug, Serialize)]
struct Json<'a> {
    file: &'a str,
    messages: usize,
    window_tokens: i64,
    output_tokens: Option<i64>,
    model: &'a str,
    presets: Vec<PresetJson<'a>>,
}

#[derive(Debug, Serialize)]
struct PresetJson<'a> {
    preset: &'a str,
    due_tokens: Option<i64>,
    highest_tokens: i64,
    final_tokens: i64,
    freed_tokens: i64,
    changed_prefixes: usize,
    reread_tokens: i64,
    compactions: Vec<SimulatedCompactionJson>,
    /// Pairs of messages written so far and tokens of the context then.
    context_usage: Vec<(usize, i64)>,
}

#[derive(Debug, Serialize)]
struct SimulatedCompactionJson {
    message: usize,
    level: &'static str,
    kind: &'static str,
    given_up: bool,
    context_tokens: i64,
    before_tokens: i64,
    after_tokens: i64,
    kept_messages: usize,
    cleared_parts: usize,
    summarized_messages: usize,
    omitted_messages: usize,
    reread_tokens: i64,
}

impl SimulatedCompactionJson {
    fn new(compaction: &SimulatedCompaction) -> Self {
        Self {
            message: compaction.message,
            level: level(compaction),
            kind: kind(compaction),
            given_up: compaction.refused,
            context_tokens: compaction.context_tokens,
            before_tokens: compaction.before_tokens,
            after_tokens: compaction.after_tokens,
            kept_messages: compaction.kept,
            cleared_parts: compaction.cleared,
            summarized_messages: compaction.summarized,
            omitted_messages: compaction.omitted,
            reread_tokens: compaction.reread_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::compaction::Level;
    use crate::simulation::Point;

    fn compaction(message: usize, kind: CompactionKind, before_tokens: i64, after_tokens: i64) -> SimulatedCompaction {
        SimulatedCompaction {
            message,
            level: (kind == CompactionKind::Summary).then_some(Level::Auto),
            kind,
            refused: before_tokens == after_tokens,
            context_tokens: before_tokens + 5,
            before_tokens,
            after_tokens,
            kept: 3,
            cleared: 1,
            summarized: 2,
            omitted: 4,
            reread_tokens: after_tokens / 2,
        }
    }

    fn report() -> SimulationReport {
        let simulated = vec![
            compaction(7, CompactionKind::Prune, 900, 600),
            compaction(9, CompactionKind::Summary, 950, 200),
            compaction(11, CompactionKind::Summary, 990, 990),
        ];
        let context_usage = vec![
            Point { message: 1, tokens: 10 },
            Point { message: 9, tokens: 955 },
            Point { message: 12, tokens: 400 },
        ];
        let without_compactions = Outcome { due_tokens: None, simulated: Vec::new(), context_usage: Vec::new() };
        SimulationReport {
            file: "talk.jsonl".to_owned(),
            messages: 12,
            window: ModelWindow { model: "m".to_owned(), context: 1_000, output: Some(100), ..ModelWindow::default() },
            outcomes: vec![
                ("a@1".to_owned(), Outcome { due_tokens: Some(800), simulated, context_usage }),
                ("b@2".to_owned(), without_compactions),
            ],
        }
    }

    #[test]
    fn the_comparison_adds_up_what_came_into_force() {
        let report = report();
        let totals = Totals::from_outcome(&report.outcomes[0].1);
        let expected =
            Totals { prunes: 1, omissions: 0, summaries: 1, refused: 1, freed_tokens: 1_050, reread_tokens: 400 };
        assert_eq!(totals, expected);
        let lines = report.comparison().lines(None);
        let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["a@1", "800", "1", "0", "1", "1", "955", "400", "1050", "2", "400"]);
        assert_eq!(words[2], ["b@2", "-", "0", "0", "0", "0", "0", "0", "0", "0", "0"]);
        assert_eq!(report.title(), "talk.jsonl: 12 messages, a window of 1000 tokens, 100 of them for a reply, m");
    }

    #[test]
    fn every_compaction_has_a_line() {
        let report = report();
        let lines = simulated_table(&report.outcomes[0].1).lines(None);
        let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["7", "maintenance", "prune", "905", "900", "600", "3", "1", "2", "4", "300"]);
        assert!(lines[3].contains("summary, refused"), "{}", lines[3]);
        assert_eq!(headline("b@2", &report.outcomes[1].1), "b@2, never due: nothing happens");
    }

    #[test]
    fn programs_get_the_same_numbers() {
        let report = report();
        let json = serde_json::to_value(report.json()).expect("JSON");
        let first = &json["presets"][0];
        assert_eq!(
            (first["freed_tokens"].as_i64(), first["compactions"][2]["given_up"].as_bool()),
            (Some(1_050), Some(true))
        );
        assert_eq!(first["context_usage"][1], serde_json::json!([9, 955]));
        assert_eq!(json["presets"][1]["due_tokens"], serde_json::Value::Null);
    }
}

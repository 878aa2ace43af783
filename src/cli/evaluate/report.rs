//! Report of an evaluation: for each boundary a table of the kept facts with a line for each summarizer, or JSON.

use super::facts::KINDS;
use super::measures::History;
use crate::cli::output::{Output, count};
use crate::cli::table::{Column, Table};
use anyhow::Context;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Measures of one summary at one boundary.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// File name of the transcript, without its folder.
    pub(super) file: String,
    /// Kind of the boundary: `real` at the agent's own compaction, `simulated` where the preset would compact, `chosen`
    /// at the requested message.
    pub(super) boundary_kind: &'static str,
    /// Messages before the boundary.
    pub(super) messages_before: usize,
    /// Messages after the boundary.
    pub(super) messages_after: usize,
    /// The preset; none for the transcript's own summary.
    pub(super) preset: Option<String>,
    /// Author of the summary: `extractive`, a summarizer of the configuration, `transcript`, or `last words` for the
    /// end of the history at the same size.
    pub(super) summarizer: String,
    /// Size of the text, in tokens of four characters.
    pub(super) tokens: usize,
    /// Maximum size of the text, in tokens as its author counts; none for the transcript's own summary.
    #[serde(skip)]
    pub(super) size: Option<i64>,
    /// Kept facts, for each kind, out of those that are used again.
    pub(super) kept: BTreeMap<&'static str, KeptShare>,
    /// All kinds together.
    pub(super) named: KeptShare,
    /// Files and identifiers that the rest uses, out of those in the text that occur before the boundary.
    pub(super) precision: KeptShare,
    /// Share of bare lists of names in the text, in percent.
    pub(super) lists_percent: usize,
    /// Lines that contradict the last result of a check, and the claims that a compaction would report.
    pub(super) contradictions: Vec<String>,
    /// Mean number of messages since the names in its next steps were last used; none if they contain no names.
    pub(super) next_age: Option<usize>,
    /// Facts that are named, or that come back when ids in the view are expanded; none for a summary that was not made
    /// here, which has no ids in a view.
    pub(super) named_or_expandable: Option<KeptShare>,
    /// The facts that are not kept, for each kind; kinds without such facts are left out.
    pub(super) lost: BTreeMap<&'static str, Vec<String>>,
    /// Text of the summary.
    pub(super) text: String,
}

/// A number of kept items out of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct KeptShare {
    /// Number of kept items.
    pub(super) kept: usize,
    /// Number of all items.
    pub(super) all: usize,
}

impl KeptShare {
    fn count<'a>(facts: impl IntoIterator<Item = &'a String>, holds: impl Fn(&str) -> bool) -> Self {
        let mut sum = Self::default();
        for fact in facts {
            sum.all += 1;
            sum.kept += usize::from(holds(fact));
        }
        sum
    }

    /// Several numbers in a cell: one of them if all are equal, else the smallest and the largest.
    fn cell(several: &[Self]) -> String {
        let of = |value: fn(&Self) -> usize| several.iter().map(value);
        match of(|one| one.all).max() {
            None | Some(0) => "-".to_owned(),
            Some(_) => {
                let percent = of(|one| (one.kept * 100).checked_div(one.all).unwrap_or(0));
                format!("{}/{} {} %", span(of(|one| one.kept)), span(of(|one| one.all)), span(percent))
            }
        }
    }
}

/// Numbers in a cell: one if all are equal, else the smallest and the largest; `-` for none.
fn span(numbers: impl Iterator<Item = usize> + Clone) -> String {
    match (numbers.clone().min(), numbers.max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least}–{most}"),
        (None, _) | (_, None) => "-".to_owned(),
    }
}

/// Position at which a transcript is split.
#[derive(Debug, Clone)]
pub(super) struct SplitPoint {
    /// File name of the transcript, without its folder.
    pub(super) file: String,
    /// `real`, `simulated` or `chosen`.
    pub(super) kind: &'static str,
    /// Messages before it.
    pub(super) before: usize,
    /// Messages after it.
    pub(super) after: usize,
}

impl Row {
    /// Searches the facts in a summary's text, and in the originals that can be expanded.
    pub(super) fn measure(
        split: &SplitPoint,
        (preset, size): (Option<&str>, Option<i64>),
        (summarizer, text): (String, String),
        history: &History,
        expandable: Option<&str>,
    ) -> Self {
        let facts = &history.facts;
        let measures = history.measure(&text);
        let names = |fact: &str| text.contains(fact);
        let kept = KINDS.iter().zip(facts).map(|(kind, facts)| (*kind, KeptShare::count(facts, names))).collect();
        let lost = KINDS
            .iter()
            .zip(facts)
            .map(|(kind, facts)| (*kind, facts.iter().filter(|fact| !names(fact)).cloned().collect::<Vec<_>>()));
        let everything = || facts.iter().flatten();
        let comes_back =
            |originals: &str| KeptShare::count(everything(), |fact| names(fact) || originals.contains(fact));
        Self {
            file: split.file.clone(),
            boundary_kind: split.kind,
            messages_before: split.before,
            messages_after: split.after,
            preset: preset.map(str::to_owned),
            summarizer,
            tokens: text.chars().count() / 4,
            size,
            kept,
            named: KeptShare::count(everything(), names),
            precision: KeptShare { kept: measures.names_used, all: measures.names },
            lists_percent: measures.lists_percent,
            contradictions: measures.contradictions,
            next_age: measures.next_age,
            named_or_expandable: expandable.map(comes_back),
            lost: lost.filter(|(_, lost)| !lost.is_empty()).collect(),
            text,
        }
    }

    fn title(&self) -> String {
        let messages = |number: usize| count(i64::try_from(number).unwrap_or(i64::MAX), "message");
        let (before, after) = (messages(self.messages_before), messages(self.messages_after));
        match self.boundary_kind {
            "real" => format!("{}, boundary of its own compaction: {before} before, {after} after", self.file),
            "chosen" => format!("{}, chosen boundary: {before} before, {after} after", self.file),
            _ => format!("{}, boundary of the preset: {before} before, {after} after", self.file),
        }
    }

    /// The common fields of the rows of one line of the table.
    fn key(&self) -> (&str, Option<i64>) {
        (&self.summarizer, self.size)
    }
}

/// Cells of a line: the summaries of one summarizer at one size under all presets.
fn cells(rows: &[&Row]) -> Vec<String> {
    let share_cell = |of: &dyn Fn(&Row) -> Option<KeptShare>| {
        KeptShare::cell(&rows.iter().filter_map(|row| of(row)).collect::<Vec<_>>())
    };
    let presets: BTreeSet<&str> = rows.iter().filter_map(|row| row.preset.as_deref()).collect();
    let mut cells = vec![
        rows.first().map_or_else(String::new, |row| row.summarizer.clone()),
        match presets.len() {
            0 => "-".to_owned(),
            1 => presets.into_iter().collect(),
            several => format!("{several} presets"),
        },
        span(rows.iter().map(|row| row.tokens)),
        share_cell(&|row| Some(row.named)),
    ];
    cells.extend(KINDS.iter().map(|kind| share_cell(&|row| row.kept.get(kind).copied())));
    cells.push(share_cell(&|row| Some(row.precision)));
    cells.push(format!("{} %", span(rows.iter().map(|row| row.lists_percent))));
    cells.push(span(rows.iter().map(|row| row.contradictions.len())));
    cells.push(span(rows.iter().filter_map(|row| row.next_age)));
    cells.push(share_cell(&|row| row.named_or_expandable));
    cells
}

/// Items in groups with the same key. Groups and items stay in the order of their first occurrence.
fn groups<'a, K: PartialEq>(rows: impl Iterator<Item = &'a Row>, key: impl Fn(&'a Row) -> K) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
    for row in rows {
        let own = key(row);
        match groups.iter_mut().find(|(key, _)| *key == own) {
            Some((_, group)) => group.push(row),
            None => groups.push((own, vec![row])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Table of one boundary: a line for each summarizer and size.
fn table(rows: &[&Row]) -> Table {
    let mut table = Table::new(&[
        Column::word("SUMMARIZER"),
        Column::text("PRESET"),
        Column::number("TOKENS"),
        Column::number("NAMED"),
        Column::number("FILES").optional(2),
        Column::number("IDENTIFIERS").optional(3),
        Column::number("COMMANDS").optional(4),
        Column::number("ERRORS").optional(5),
        Column::number("FIGURES").optional(6),
        Column::number("TO-DOS").optional(7),
        Column::number("PRECISION").optional(1),
        Column::number("LISTS").optional(9),
        Column::number("CONTRADICTS").optional(8),
        Column::number("NEXT STEP AGE").optional(10),
        Column::number("WITH EXPAND").optional(11),
    ]);
    groups(rows.iter().copied(), Row::key).iter().for_each(|rows| table.row(cells(rows)));
    table
}

/// Writes each summary to a file of its own, named by transcript, row, preset, summarizer and size.
pub(super) fn write(folder: &Path, rows: &[Row]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (number, row) in (1..).zip(rows) {
        let stem = row.file.rsplit_once('.').map_or(row.file.as_str(), |(stem, _)| stem);
        let name = format!(
            "{stem}-{number:02}-{}-{}-{}.md",
            row.preset.as_deref().unwrap_or("own"),
            row.summarizer,
            row.tokens
        );
        let name: String = name.chars().map(|letter| if "/ \\:".contains(letter) { '-' } else { letter }).collect();
        let path = folder.join(name);
        std::fs::write(&path, &row.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Prints the rows: as JSON, one for each preset, or in a table for each boundary, with a line for each summarizer.
pub(super) fn print(output: &mut Output, rows: &[Row], with_text: bool) -> anyhow::Result<()> {
    if output.json() {
        return rows.iter().try_for_each(|row| output.value(row));
    }
    for rows in groups(rows.iter(), Row::title) {
        output.line(&rows[0].title())?;
        table(&rows).print(output)?;
        output.line("")?;
    }
    if with_text {
        for row in rows {
            output.line(&format!(
                "--- {}: {}, {} ---",
                row.file,
                row.preset.as_deref().unwrap_or("-"),
                row.summarizer
            ))?;
            output.block(&row.text)?;
            for (kind, lost) in &row.lost {
                output.line(&format!("--- missing {kind}: {}", lost.join(" · ")))?;
            }
            for line in &row.contradictions {
                output.line(&format!("--- contradicts the history: {line}"))?;
            }
            output.line("")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(preset: &str, summarizer: &str, size: i64, kept: usize) -> Row {
        let split = SplitPoint { file: "f.jsonl".to_owned(), kind: "chosen", before: 4, after: 2 };
        let written = (summarizer.to_owned(), "x".repeat(40));
        let mut row = Row::measure(&split, (Some(preset), Some(size)), written, &History::new(&[], &[]), None);
        row.named = KeptShare { kept, all: 10 };
        row
    }

    #[test]
    fn a_summarizer_has_one_line_under_all_presets() {
        let rows = [
            row("pi@1.5", "extractive", 100, 3),
            row("pi@1.5", "tail", 100, 2),
            row("codex@2026-08", "extractive", 100, 5),
            row("codex@2026-08", "tail", 100, 2),
            row("codex@2026-08", "extractive", 900, 7),
        ];
        let lines = table(&rows.iter().collect::<Vec<_>>()).lines(None);
        let begin = |line: &String| line.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
        let expected = [
            "SUMMARIZER PRESET TOKENS NAMED FILES IDENTIFIERS",
            "extractive 2 presets 10 3–5/10 30–50",
            "tail 2 presets 10 2/10 20",
            "extractive codex@2026-08 10 7/10 70 %",
        ];
        assert_eq!(lines.iter().map(begin).collect::<Vec<_>>(), expected);
    }
}

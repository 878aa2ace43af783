//! Report of an evaluation: for each boundary a table of the kept facts, or JSON.

use super::facts::KINDS;
use super::measures::History;
use crate::cli::output::{Align, Output, Table, count};
use anyhow::Context;
use serde::Serialize;
use std::collections::BTreeMap;
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
    pub(super) preset: Option<&'static str>,
    /// Author of the summary: `extractive`, a summarizer of the configuration, `transcript`, or `last words` for the
    /// end of the history at the same size.
    pub(super) summarizer: String,
    /// Size of the text, in tokens of four characters.
    pub(super) tokens: usize,
    /// Kept facts, for each kind, out of those that are used again.
    pub(super) kept: BTreeMap<&'static str, Kept>,
    /// All kinds together.
    pub(super) named: Kept,
    /// Files and identifiers that the rest uses, out of those in the text that occur before the boundary.
    pub(super) precision: Kept,
    /// Share of bare lists of names in the text, in percent.
    pub(super) lists_percent: usize,
    /// Lines that contradict the last result of a check, and the claims that a compaction would report.
    pub(super) contradictions: Vec<String>,
    /// Mean number of messages since the names in its next steps were last used; none if they contain no names.
    pub(super) next_age: Option<usize>,
    /// Facts that are named, or that come back when ids in the view are expanded; none for a summary that was not made
    /// here, which has no ids in a view.
    pub(super) named_or_expandable: Option<Kept>,
    /// The facts that are not kept, for each kind; kinds without such facts are left out.
    pub(super) lost: BTreeMap<&'static str, Vec<String>>,
    /// Text of the summary.
    pub(super) text: String,
}

/// A number of kept items out of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Kept {
    /// Number of kept items.
    pub(super) kept: usize,
    /// Number of all items.
    pub(super) all: usize,
}

impl Kept {
    fn of<'a>(facts: impl IntoIterator<Item = &'a String>, holds: impl Fn(&str) -> bool) -> Self {
        let mut sum = Self::default();
        for fact in facts {
            sum.all += 1;
            sum.kept += usize::from(holds(fact));
        }
        sum
    }

    fn cell(self) -> String {
        match self.all {
            0 => "-".to_owned(),
            all => format!("{}/{all} {} %", self.kept, self.kept * 100 / all),
        }
    }
}

/// Position at which a transcript is split.
#[derive(Debug, Clone)]
pub(super) struct Split {
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
    pub(super) fn of(
        split: &Split,
        preset: Option<&'static str>,
        (summarizer, text): (String, String),
        history: &History,
        expandable: Option<&str>,
    ) -> Self {
        let facts = &history.facts;
        let measures = history.measure(&text);
        let names = |fact: &str| text.contains(fact);
        let kept = KINDS.iter().zip(facts).map(|(kind, facts)| (*kind, Kept::of(facts, names))).collect();
        let lost = KINDS
            .iter()
            .zip(facts)
            .map(|(kind, facts)| (*kind, facts.iter().filter(|fact| !names(fact)).cloned().collect::<Vec<_>>()));
        let everything = || facts.iter().flatten();
        let comes_back = |originals: &str| Kept::of(everything(), |fact| names(fact) || originals.contains(fact));
        Self {
            file: split.file.clone(),
            boundary_kind: split.kind,
            messages_before: split.before,
            messages_after: split.after,
            preset,
            summarizer,
            tokens: text.chars().count() / 4,
            kept,
            named: Kept::of(everything(), names),
            precision: Kept { kept: measures.names_used, all: measures.names },
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

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            self.preset.unwrap_or("-").to_owned(),
            self.summarizer.clone(),
            self.tokens.to_string(),
            self.named.cell(),
        ];
        cells.extend(KINDS.iter().map(|kind| self.kept.get(kind).copied().unwrap_or_default().cell()));
        cells.push(self.precision.cell());
        cells.push(format!("{} %", self.lists_percent));
        cells.push(self.contradictions.len().to_string());
        cells.push(self.next_age.map_or("-".to_owned(), |age| age.to_string()));
        cells.push(self.named_or_expandable.map_or("-".to_owned(), Kept::cell));
        cells
    }
}

/// Writes each summary to a file of its own, named by transcript, row, preset, summarizer and size.
pub(super) fn write(folder: &Path, rows: &[Row]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (number, row) in (1..).zip(rows) {
        let stem = row.file.rsplit_once('.').map_or(row.file.as_str(), |(stem, _)| stem);
        let name = format!("{stem}-{number:02}-{}-{}-{}.md", row.preset.unwrap_or("own"), row.summarizer, row.tokens);
        let name: String = name.chars().map(|letter| if "/ \\:".contains(letter) { '-' } else { letter }).collect();
        let path = folder.join(name);
        std::fs::write(&path, &row.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Prints the rows: as JSON, or in a table for each boundary.
pub(super) fn print(output: &mut Output, rows: &[Row], with_text: bool) -> anyhow::Result<()> {
    if output.json() {
        return rows.iter().try_for_each(|row| output.value(row));
    }
    for group in rows.chunk_by(|one, other| one.title() == other.title()) {
        output.line(&group[0].title())?;
        let mut table = Table::new(&[
            ("PRESET", Align::Left),
            ("SUMMARIZER", Align::Left),
            ("TOKENS", Align::Right),
            ("NAMED", Align::Right),
            ("FILES", Align::Right),
            ("IDENTIFIERS", Align::Right),
            ("COMMANDS", Align::Right),
            ("ERRORS", Align::Right),
            ("FIGURES", Align::Right),
            ("TO-DOS", Align::Right),
            ("PRECISION", Align::Right),
            ("LISTS", Align::Right),
            ("CONTRADICTS", Align::Right),
            ("AGE OF NEXT", Align::Right),
            ("WITH EXPAND", Align::Right),
        ]);
        group.iter().for_each(|row| table.row(row.cells()));
        table.print(output)?;
        output.line("")?;
    }
    if with_text {
        for row in rows {
            output.line(&format!("--- {}: {}, {} ---", row.file, row.preset.unwrap_or("-"), row.summarizer))?;
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

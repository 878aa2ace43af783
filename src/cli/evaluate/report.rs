//! What an evaluation tells: for each cut a table of what was kept, or JSON.

use super::facts::KINDS;
use super::measures::History;
use crate::cli::output::{Align, Output, Table, count};
use anyhow::Context;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What one summary keeps of the facts that are used again.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// The transcript's file, without its folder.
    pub(super) file: String,
    /// Where it was cut: `real` where the agent compacted, `simulated` where the preset would, `chosen` where it was asked.
    pub(super) cut: &'static str,
    /// Messages before the cut.
    pub(super) messages_before: usize,
    /// Messages behind it.
    pub(super) messages_after: usize,
    /// The preset; none for the transcript's own summary.
    pub(super) preset: Option<&'static str>,
    /// Who wrote the summary: `extractive`, a summarizer of the configuration, `transcript`, or `last words` for the end of
    /// the history, cut to the same size.
    pub(super) summarizer: String,
    /// What is kept of the part before the cut, in tokens of four characters.
    pub(super) tokens: usize,
    /// For each kind of fact how many are kept, and how many are used again.
    pub(super) kept: BTreeMap<&'static str, Kept>,
    /// All kinds together.
    pub(super) named: Kept,
    /// Of the files and identifiers that it names and that stood before the cut, how many the rest uses.
    pub(super) precision: Kept,
    /// The share of its text that are bare lists of names, in percent.
    pub(super) lists_percent: usize,
    /// Its lines that contradict how a check ended last, and the claims that a compaction would report.
    pub(super) contradictions: Vec<String>,
    /// How many messages ago what it says comes next was last touched, on average; none where that names nothing.
    pub(super) next_age: Option<usize>,
    /// The facts that are named, or that come back when ids in the view are expanded; none for a summary that was not
    /// made here, which leaves no ids.
    pub(super) named_or_expandable: Option<Kept>,
    /// For each kind the facts that are not kept; kinds of which all are kept are left out.
    pub(super) lost: BTreeMap<&'static str, Vec<String>>,
    /// The summary.
    pub(super) text: String,
}

/// So many of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Kept {
    /// How many are kept.
    pub(super) kept: usize,
    /// How many there are.
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

/// Where a transcript was cut.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    /// The transcript's file, without its folder.
    pub(super) file: String,
    /// `real` or `simulated`.
    pub(super) kind: &'static str,
    /// Messages before it.
    pub(super) before: usize,
    /// Messages behind it.
    pub(super) after: usize,
}

impl Row {
    /// Looks for the facts in a summary's text, and in what can be expanded.
    pub(super) fn of(
        cut: &Cut,
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
            file: cut.file.clone(),
            cut: cut.kind,
            messages_before: cut.before,
            messages_after: cut.after,
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
        match self.cut {
            "real" => format!("{}, cut where it was compacted: {before} before, {after} behind", self.file),
            "chosen" => format!("{}, cut where it was asked: {before} before, {after} behind", self.file),
            _ => format!("{}, cut where the preset compacts: {before} before, {after} behind", self.file),
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

/// Prints the rows, for people in tables of those that are about the same cut.
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
                output.line(&format!("--- not named of the {kind}: {}", lost.join(" · ")))?;
            }
            for line in &row.contradictions {
                output.line(&format!("--- contradicts the history: {line}"))?;
            }
            output.line("")?;
        }
    }
    Ok(())
}

//! Names of models as others write them, beside the table: how often the window that is found is the one that they say.
//!
//! The rivals are the plainest ways to read a name: as it is, and as the last segment of its path.

use crate::report::Report;
use clap::Args;
use longhand::policy::models::Models;
use std::collections::HashMap;
use std::path::PathBuf;

/// The table that is built in.
const TABLE: &str = include_str!("../../crates/core/src/policy/models/table.tsv");

/// Models of others.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Lines of provider, name and context in tokens, separated by tabs; `benches/models` makes them.
    file: PathBuf,
}

/// Answers of one way.
#[derive(Debug, Default)]
struct Answers {
    same: f64,
    smaller: f64,
    larger: f64,
    unknown: f64,
}

impl Answers {
    /// Sources round: a window of 128 000 and one of 131 072 tokens are one.
    fn add(&mut self, said: i64, found: Option<i64>) {
        const ROUNDING: f64 = 0.05;
        let count = match found.map(|found| found as f64 / said as f64) {
            None => &mut self.unknown,
            Some(ratio) if ratio > 1.0 + ROUNDING => &mut self.larger,
            Some(ratio) if ratio < 1.0 - ROUNDING => &mut self.smaller,
            Some(_) => &mut self.same,
        };
        *count += 1.0;
    }
}

/// Compares the ways on all names, and on those that are no name of the table.
pub(crate) fn run(options: &Options, report: &mut Report) {
    let lines = std::fs::read_to_string(&options.file).expect("a file with models");
    let rows = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    let contexts: HashMap<&str, i64> = rows
        .map(|row| {
            let mut columns = row.split('\t');
            let name = columns.next().expect("a name");
            (name, columns.nth(1).and_then(|context| context.parse().ok()).expect("a context"))
        })
        .collect();
    let models = Models::built_in();
    for is_all in [true, false] {
        let mut ways: [(&str, Answers); 4] =
            ["with_provider", "by_name", "exact_name", "last_segment"].map(|way| (way, Answers::default()));
        for line in lines.lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let [provider, name, context] = columns[..] else { panic!("no model: {line}") };
            let (said, lower) = (context.parse().expect("tokens"), name.to_lowercase());
            let exact = |name: &str| contexts.get(name).copied();
            if !is_all && exact(&lower).is_some() {
                continue;
            }
            let found = |provider| models.find(provider, name).map(|model| model.context);
            let last = lower.rsplit('/').next().and_then(&exact);
            let answers = [found(provider), found(""), exact(&lower), exact(&lower).or(last)];
            ways.iter_mut().zip(answers).for_each(|((_, way), found)| way.add(said, found));
        }
        let names = if is_all { "all names" } else { "names that the table has not" };
        for (way, Answers { same, smaller, larger, unknown }) in ways {
            let figures = [("same", same), ("smaller", smaller), ("larger", larger), ("unknown", unknown)];
            report.figures(names, way, &figures);
        }
    }
}

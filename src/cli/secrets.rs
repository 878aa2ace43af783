//! `longhand secrets check`: tries the rules for secrets on files; `scan`: applies them to what is stored.

mod rules;
mod scan;

use super::Globals;
use super::failure::FINDINGS;
use super::output::count;
use crate::secrets::{Rules, Syntax};
use anyhow::Context as _;
use rules::RuleArguments;
use serde::Serialize;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: SecretsAction,
}

#[derive(Debug, clap::Subcommand)]
enum SecretsAction {
    /// Print where rules find secrets in files, without the secrets
    Check(Check),
    /// Print where rules find secrets in what is stored, without the secrets, and erase it
    Scan(scan::Scan),
}

#[derive(Debug, clap::Args)]
struct Check {
    /// The files, - for standard input: texts, or JSON lines if the name ends in .jsonl
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    rules: RuleArguments,
}

#[derive(Serialize)]
struct FoundSecret<'a> {
    file: String,
    line: usize,
    /// Characters before it in its line, and one.
    column: usize,
    rule: &'a str,
    action: &'a str,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        SecretsAction::Check(check) => self::check(globals, &check),
        SecretsAction::Scan(scan) => scan::run(globals, scan).await,
    }
}

fn check(globals: &Globals, check: &Check) -> anyhow::Result<ExitCode> {
    let rules = check.rules.read_rules()?;
    let mut output = globals.output();
    let mut findings: usize = 0;
    for file in &check.files {
        let text = read_text(file)?;
        let name = file.display().to_string();
        for (line, column, rule, action) in find_secrets(&rules, file, &text) {
            findings += 1;
            let secret = FoundSecret { file: name.clone(), line, column, rule, action };
            match output.json() {
                true => output.value(&secret)?,
                false => output.line(&format!("{name}:{line}:{column}: {rule} ({action})"))?,
            }
        }
    }
    if !output.json() {
        let (rules, findings) = (rules.count() as i64, findings as i64);
        output.line(&format!("{} by {}", count(findings, "finding"), count(rules, "rule")))?;
    }
    output.flush()?;
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) })
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(file).map(|read| bytes = read),
    }
    .with_context(|| format!("cannot read {}", file.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Line, column, rule and action of everything that is found.
fn find_secrets<'a>(rules: &'a Rules, file: &Path, text: &str) -> Vec<(usize, usize, &'a str, &'a str)> {
    let place = |first: usize, text: &str, at: usize| {
        let before = &text[..at];
        let begin = before.rfind('\n').map_or(0, |end| end + 1);
        (first + before.matches('\n').count(), before[begin..].chars().count() + 1)
    };
    let of = |first: usize, syntax: Syntax, text: &str| {
        let hits = rules.positions(syntax, text).into_iter().map(|(range, hit)| {
            let (line, column) = place(first, text, range.start);
            (line, column, rules.name(hit.rule), hit.action.name())
        });
        hits.collect::<Vec<_>>()
    };
    match file.extension().is_some_and(|extension| extension == "jsonl") {
        true => (1..).zip(text.lines()).flat_map(|(number, line)| of(number, Syntax::Json, line)).collect(),
        false => of(1, Syntax::Text, text),
    }
}

//! The sections that follow the text of every summary, whoever wrote it: corrections and facts from the history, and
//! lists of the files it touched.

use super::extractive::{self, Evidence, Room, clean, defuse, one_line};
use super::{SummaryInput, SummaryOutput};
use crate::model::compaction::Contradiction;
use crate::model::part::PartBody;
use crate::policy::files::{self, FileOperations};
use crate::policy::{Bullet, Contradictions, PromptStyle, Section, Summary, SummaryFormat, Topic};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Share of the budget that the file lists may take, in percent.
const LISTS_SHARE: usize = 25;

/// Share of the budget that corrections may take, in percent.
const CORRECTIONS_SHARE: i64 = 10;

/// Heading of the corrections that the history makes to a model's summary. The lines below it have the forms of the
/// built-in summarizer, which reads them back.
const CORRECTIONS: &str = "\n\n# Corrections from the record\n";

/// Heading of the facts that follow a model's summary.
const FACTS: &str = "# Facts from the record";

/// The summary with the sections that the policy appends. An empty one stays empty, for its caller to refuse.
pub(super) fn complete(input: &SummaryInput, evidence: &Evidence<'_>, output: SummaryOutput) -> SummaryOutput {
    if output.text.trim().is_empty() {
        return output;
    }
    // Lists that a model copied from the previous summary would be there twice.
    let mut text = if input.rules.file_tags { files::strip_tags(&output.text) } else { output.text };
    let contradictions = extractive::contradictions(evidence, &text);
    if output.summarizer != extractive::NAME {
        let corrections = corrections(input, &contradictions);
        let facts = facts(input).map(|facts| format!("\n\n{facts}")).unwrap_or_default();
        if !corrections.is_empty() || !facts.is_empty() {
            text = format!("{}{corrections}{facts}", text.trim_end());
        }
    }
    text.push_str(&file_lists(input));
    SummaryOutput { text, contradictions, ..output }
}

/// Tokens that the policy grants to corrections.
fn corrections_tokens(input: &SummaryInput) -> i64 {
    match input.rules.contradictions {
        Contradictions::Report => 0,
        Contradictions::Correct => input.budget_tokens.max(0).saturating_mul(CORRECTIONS_SHARE) / 100,
    }
}

/// One line per claim with the fact from the history, up to the limit; empty if the policy wants none.
fn corrections(input: &SummaryInput, contradictions: &[Contradiction]) -> String {
    let room = Room::of(&input.counting, corrections_tokens(input));
    let mut text = CORRECTIONS.to_owned();
    let mut lines = 0;
    for found in contradictions {
        let line = format!("\n- {}", defuse(&found.history));
        if room.measure(&text) + room.measure(&line) > room.units {
            break;
        }
        text.push_str(&line);
        lines += 1;
    }
    if lines == 0 { String::new() } else { text }
}

/// Maximum size of a model's summary with the appended sections, in tokens.
pub(super) fn most_tokens(input: &SummaryInput) -> i64 {
    let SummaryInput { rules, budget_tokens, .. } = input;
    let lists = if rules.file_tags { budget_tokens.saturating_mul(LISTS_SHARE as i64) / 100 } else { 0 };
    budget_tokens
        .saturating_add(rules.facts_tokens.max(0))
        .saturating_add(corrections_tokens(input))
        .saturating_add(lists)
}

/// The built-in summarizer's facts about files, commands, errors and open points; none if the policy wants none, or if
/// there are none.
fn facts(input: &SummaryInput) -> Option<String> {
    if input.rules.facts_tokens <= 0 {
        return None;
    }
    let section = |heading: &str, holds, bullet| Section { heading: heading.to_owned(), holds: Some(holds), bullet };
    let sections = vec![
        section("## Files and names", Topic::Files, Bullet::Dash),
        section("## Commands and changes", Topic::Done, Bullet::Dash),
        section("## Errors", Topic::Blocked, Bullet::Dash),
        section("## Open points", Topic::NextSteps, Bullet::Unchecked),
    ];
    let rules = Summary {
        format: SummaryFormat::Headings,
        sections,
        file_tags: false,
        split_turn_heading: None,
        prompt: PromptStyle::default(),
        ..input.rules.clone()
    };
    let budget_tokens = input.rules.facts_tokens;
    let text = extractive::write(&SummaryInput { rules, budget_tokens, ..input.clone() });
    let says_something = text.lines().any(|line| line.starts_with("- ") && line != format!("- {}", input.rules.filler));
    says_something.then(|| format!("{FACTS}\n\n{text}"))
}

/// The file lists that follow the text; empty if the policy has none. If not all paths fit, modified files come before
/// read ones, newer before older.
pub(super) fn file_lists(input: &SummaryInput) -> String {
    if !input.rules.file_tags {
        return String::new();
    }
    let room = Room::of(&input.counting, input.budget_tokens);
    let mut operations = FileOperations::default();
    let mut newest: HashMap<String, usize> = HashMap::new();
    if let Some(previous) = input.previous.as_ref().filter(|_| !input.previous_is_supplied) {
        let (read, modified) = files::parse_tags(previous);
        operations.inherit(read, modified);
    }
    for (at, source) in input.messages.iter().chain(&input.split_turn).enumerate() {
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &*part.body
                && let Some((_, path)) = files::operation(input.rules.file_tools, call)
            {
                operations.add(input.rules.file_tools, call);
                newest.insert(path, at + 1);
            }
        }
    }
    let (mut read, mut modified) = operations.lists();
    let frame = room.measure(&files::tags(&[String::new()], &[String::new()]));
    let mut left = (room.units * LISTS_SHARE / 100).saturating_sub(frame);
    for paths in [&mut modified, &mut read] {
        let mut order: Vec<&String> = paths.iter().filter(|path| is_plain(path)).collect();
        order.sort_by_key(|path| Reverse(newest.get(*path).copied().unwrap_or(0)));
        let mut kept: HashSet<String> = HashSet::new();
        for path in order {
            let cost = room.measure(path) + 1;
            if cost > left {
                break;
            }
            left -= cost;
            kept.insert(path.clone());
        }
        paths.retain(|path| kept.contains(path));
    }
    files::tags(&read, &modified)
}

/// True if a path is safe in a list of lines between tags. A path that could be taken for a tag, or for two paths, is
/// left out.
fn is_plain(path: &str) -> bool {
    one_line(&clean(path)) == path && !path.contains(['<', '>'])
}

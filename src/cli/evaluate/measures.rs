//! Quality of a summary's text beside the facts that it keeps: use of the names in it, share of bare lists,
//! contradictions of the last result of each check, and age of its next steps.
//!
//! None of these measures shows if work can continue from a summary. That takes an exam: questions about goals, state,
//! next steps, decisions, details and outdated facts; one party who answers them from the summary alone; and another
//! party who grades the answers without the summary.

use super::facts::{Facts, command_head, files, identifiers, used_again};
use crate::model::compaction::Contradiction;
use crate::model::message::Message;
use crate::model::part::{PartBody, ResultStatus};
use crate::model::view::SourceMessage;
use longhand_extractive::Evidence;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// A command that checks the work.
static CHECK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:^|[\s:/-])(?:tests?|pytest|jest|vitest|rspec|check|clippy|lint|credo|mypy|ruff|tsc|build|compile)(?:[\s:]|$)",
    )
});
/// An output that counts failures.
static FAILS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?m)\b[1-9]\d* (?:failed|failures?|errors?|failing)\b|^\s*error(?:\[\w+\])?:|\berror TS\d+|^npm ERR!")
});
/// Words that state that a check failed, or passed.
static SAYS_FAILED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\bfail(?:s|ed|ing)?\b|\bto pass\b|\bbroken\b|失败"));
static SAYS_PASSED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\bpass(?:es|ed|ing)?\b|\bgreen\b|\b0 failures\b|通过"));
/// A heading above next steps.
static NEXT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\bnext\b|next_step|pending|remain|current_plan|task_state|to-?do|下一步|待办"));
static HEADING: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*(?:#+ .*|<[a-z_]+>|\d+\. [^`]{1,60}:)\s*$"));
/// A word or name. A line with at most as many other words as names is a bare list.
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\p{L}\p{N}_./-]+"));

/// Reference for the measures of a summary: the part before a boundary, and its use in the rest.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// Facts from before the boundary that are used again.
    pub(super) facts: Facts,
    /// Every file and identifier before the boundary, with the index of the last message that contains it.
    known: HashMap<String, usize>,
    /// Those files and identifiers that the rest uses.
    used: BTreeSet<String>,
    /// Last result of each check, by command: true if it passed.
    checks: BTreeMap<String, bool>,
    /// All words, inputs and outputs, in order.
    raw: String,
    sources: Vec<SourceMessage>,
}

/// Measures of one summary's text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measures {
    /// Files and identifiers in it that occur before the boundary.
    pub(super) names: usize,
    /// Those that the rest uses.
    pub(super) names_used: usize,
    /// Share of bare lists of names in the text, in percent.
    pub(super) lists_percent: usize,
    /// Lines that contradict the last result of a check, and the claims that a compaction would report.
    pub(super) contradictions: Vec<String>,
    /// Mean number of messages since the names in its next steps were last used; none if they contain no names.
    pub(super) next_age: Option<usize>,
}

impl History {
    /// Reads the messages before and after a boundary.
    pub(super) fn new(before: &[Message], after: &[Message]) -> Self {
        let facts = used_again(before, after);
        let used = facts[..2].iter().flatten().cloned().collect();
        let mut history = Self {
            facts,
            known: HashMap::new(),
            used,
            checks: checks(before),
            raw: String::new(),
            sources: before.iter().map(source).collect(),
        };
        for (at, message) in before.iter().enumerate() {
            for body in message.parts.iter().map(|part| &*part.body) {
                let text = match body {
                    PartBody::Text(text) => text,
                    PartBody::ToolCall(call) => &call.input_json,
                    PartBody::ToolResult(result) => &result.output,
                    _ => continue,
                };
                let names = files(text).into_iter().chain(identifiers(text));
                history.known.extend(names.map(|name| (name, at)));
                history.raw.push_str(text);
                history.raw.push('\n');
            }
        }
        history
    }

    /// The end of the raw history, in tokens of four characters: a baseline that needs no summarizer.
    pub(super) fn tail(&self, tokens: i64) -> String {
        let chars = usize::try_from(tokens).unwrap_or(0).saturating_mul(4);
        let start = chars.checked_sub(1).and_then(|back| self.raw.char_indices().rev().nth(back));
        self.raw[start.map_or(0, |(at, _)| at)..].to_owned()
    }

    /// Measures a summary's text.
    pub(super) fn measure(&self, summary: &str) -> Measures {
        // Lists that a policy appends to every summary are not the writer's.
        let text = crate::policy::files::strip_tags(summary);
        let names = self.names_in(&text);
        let lists: usize = text.lines().filter(|line| self.is_list(line)).map(|line| line.chars().count()).sum();
        Measures {
            names: names.len(),
            names_used: names.intersection(&self.used).count(),
            lists_percent: lists * 100 / text.chars().count().max(1),
            contradictions: self.contradictions(&text),
            next_age: self.next_age(&text),
        }
    }

    fn names_in(&self, text: &str) -> BTreeSet<String> {
        let words = WORD.find_iter(text).map(|found| found.as_str().trim_end_matches('.'));
        let bases = words.filter_map(|word| word.rsplit('/').next()).map(str::to_owned);
        bases.chain(identifiers(text)).filter(|name| self.known.contains_key(name)).collect()
    }

    fn is_list(&self, line: &str) -> bool {
        let names = self.names_in(line).len();
        names > 0 && WORD.find_iter(line).count() <= 2 * names
    }

    fn contradictions(&self, text: &str) -> Vec<String> {
        let mut lines: Vec<String> = text.lines().filter_map(|line| self.contradiction(line)).collect();
        let evidence = Evidence { messages: self.sources.iter().collect(), ..Evidence::default() };
        for Contradiction { claim, history, .. } in longhand_extractive::contradictions(&evidence, text) {
            if !lines.iter().any(|line| line.contains(&claim)) {
                lines.push(format!("{claim} ({history})"));
            }
        }
        lines
    }

    /// The line, if it contradicts the last result of a check; of several checks in it, the longest counts.
    fn contradiction(&self, line: &str) -> Option<String> {
        let about = self.checks.iter().filter(|(command, _)| line.contains(&format!("`{command}`")));
        let (_, passed) = about.max_by_key(|(command, _)| command.len())?;
        let (fails, passes) = (SAYS_FAILED.is_match(line), SAYS_PASSED.is_match(line));
        let contradicts = if *passed { fails && !passes } else { passes && !fails };
        // A check that failed once and has passed since may be described as such.
        let states_both = line.contains("; then") || line.contains('→');
        (contradicts && !states_both).then(|| line.trim().to_owned())
    }

    fn next_age(&self, text: &str) -> Option<usize> {
        let mut is_next = false;
        let mut ages = Vec::new();
        for line in text.lines() {
            if HEADING.is_match(line) {
                is_next = NEXT.is_match(line);
            } else if is_next {
                let names = self.names_in(line);
                let newest = names.iter().filter_map(|name| self.known.get(name)).max();
                ages.extend(newest.map(|at| self.sources.len() - 1 - at));
            }
        }
        (!ages.is_empty()).then(|| ages.iter().sum::<usize>() / ages.len())
    }
}

/// Last result of each check, by command: true if it passed. Checks that were interrupted, and outputs that show
/// neither, are left out.
fn checks(messages: &[Message]) -> BTreeMap<String, bool> {
    let mut running: HashMap<&str, String> = HashMap::new();
    let mut ended = BTreeMap::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        match &*part.body {
            PartBody::ToolCall(call) => {
                let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
                let command = ["command", "cmd"].iter().find_map(|name| input.get(*name)).and_then(Value::as_str);
                // The output of several joined commands does not show to which of them it belongs.
                let single = command.filter(|command| !command.contains(';') && command.matches("&&").count() < 2);
                if let Some(head) = single.and_then(command_head).filter(|head| CHECK.is_match(head)) {
                    running.insert(&call.call_id, head);
                }
            }
            PartBody::ToolResult(result) => {
                let Some(command) = running.remove(result.call_id.as_str()) else { continue };
                let fails = FAILS.is_match(&result.output);
                match result.status {
                    ResultStatus::Error => ended.insert(command, false),
                    ResultStatus::Completed if fails => ended.insert(command, false),
                    ResultStatus::Completed if SAYS_PASSED.is_match(&result.output) => ended.insert(command, true),
                    ResultStatus::Completed | ResultStatus::Interrupted => ended.remove(&command),
                };
            }
            _ => {}
        }
    }
    ended
}

/// A message as a summarizer sees it.
pub(super) fn source(message: &Message) -> SourceMessage {
    SourceMessage { message: message.clone().into(), placement: None, pruned: Vec::new(), counts: None }
}

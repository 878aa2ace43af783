//! The sections that follow the text of every summary, whoever wrote it: corrections and facts from the history, and
//! lists of the files it touched.

use super::compose::Budget;
use super::contradictions::{self, Evidence};
use super::file_lists::{self, file_lists};
use super::text::defuse;
use super::write::{NAME, write};
use longhand_core::model::compaction::Contradiction;
use longhand_core::model::view::SourceMessage;
use longhand_core::policy::files;
use longhand_core::policy::summary::{SummaryInput, SummaryOutput};
use longhand_core::policy::{Bullet, Contradictions, PromptStyle, Section, Summary, SummaryFormat, Topic};

/// Share of the budget that corrections may take, in percent.
const CORRECTIONS_SHARE: i64 = 10;

/// Heading of the corrections that the history makes to a model's summary. The lines below it have the forms of the
/// built-in summarizer, which reads them back.
const CORRECTIONS: &str = "\n\n# Corrections from the record\n";

/// Heading of the facts that follow a model's summary.
const FACTS: &str = "# Facts from the record";

/// Returns a summary with its claims that the input contradicts, and with the sections that the policy appends: lists
/// of files to every summary, corrections and facts to a model's summary only.
pub fn completed(output: SummaryOutput, input: &SummaryInput) -> SummaryOutput {
    complete(input, &Evidence::of(input), output)
}

/// Like [`completed`], for a client's summary, which may also be based on messages after the covered ones.
pub fn completed_beside(output: SummaryOutput, input: &SummaryInput, behind: &[SourceMessage]) -> SummaryOutput {
    complete(input, &Evidence { behind: behind.iter().collect(), ..Evidence::of(input) }, output)
}

/// Maximum size of a summary, in tokens, including the sections that the policy appends to a model's text.
pub fn tokens_max(input: &SummaryInput, by_model: bool) -> i64 {
    if by_model { most_tokens(input) } else { input.budget_tokens }
}

/// The summary with the sections that the policy appends. An empty one stays empty, for its caller to refuse.
fn complete(input: &SummaryInput, evidence: &Evidence<'_>, output: SummaryOutput) -> SummaryOutput {
    if output.text.trim().is_empty() {
        return output;
    }
    // Lists that a model copied from the previous summary would be there twice.
    let mut text = if input.rules.file_lists.is_some() { files::strip_tags(&output.text) } else { output.text };
    let contradictions = contradictions::contradictions(evidence, &text);
    if output.summarizer != NAME {
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
    let budget = Budget::of(&input.counting, corrections_tokens(input));
    let mut text = CORRECTIONS.to_owned();
    let mut lines = 0;
    for found in contradictions {
        let line = format!("\n- {}", defuse(&found.history));
        if budget.measure(&text) + budget.measure(&line) > budget.units {
            break;
        }
        text.push_str(&line);
        lines += 1;
    }
    if lines == 0 { String::new() } else { text }
}

/// Maximum size of a model's summary with the appended sections, in tokens.
fn most_tokens(input: &SummaryInput) -> i64 {
    let SummaryInput { rules, budget_tokens, .. } = input;
    budget_tokens
        .saturating_add(rules.facts_tokens.max(0))
        .saturating_add(corrections_tokens(input))
        .saturating_add(file_lists::most_tokens(input))
}

/// The built-in summarizer's facts about files, commands, errors and open points; none if the policy wants none, or if
/// there are none.
fn facts(input: &SummaryInput) -> Option<String> {
    if input.rules.facts_tokens <= 0 {
        return None;
    }
    let sections = vec![
        Section::new("## Files and names", Topic::Files),
        Section::new("## Commands and changes", Topic::Done),
        Section::new("## Errors", Topic::Blocked),
        Section::new("## Open points", Topic::NextSteps).with(Bullet::Unchecked),
    ];
    let rules = Summary {
        format: SummaryFormat::Headings,
        sections,
        file_lists: None,
        split_turn: None,
        prompt: PromptStyle::default(),
        ..input.rules.clone()
    };
    let budget_tokens = input.rules.facts_tokens;
    let text = write(&SummaryInput { rules, budget_tokens, ..input.clone() });
    let says_something = text.lines().any(|line| line.starts_with("- ") && line != format!("- {}", input.rules.filler));
    says_something.then(|| format!("{FACTS}\n\n{text}"))
}

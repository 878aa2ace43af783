//! What follows the text of every summary: the record of what happened, and lists of the files that it touched.

use super::compose::{self, Budget, Form};
use super::write::{Covered, NAME};
use super::{claims, claims::Evidence, file_lists, file_lists::file_lists, lines, text};
use longhand_core::policy::summary::{RECORD_HEADING, SAID_HEADING, SummaryInput, SummaryOutput};
use longhand_core::policy::{Contradictions, Section, Summary, Topic, files};
use longhand_model::{Revision, compaction::Contradiction, view::SourceMessage};
use std::collections::HashMap;

/// Share of the budget for the record under a policy that asks for corrections, in percent.
const RECORD_SHARE: i64 = 10;

/// Returns a summary with its claims that the record contradicts, and with the sections that the policy appends: lists
/// of files to every summary, the record to a model's summary only, because the built-in summarizer's has its lines. If
/// it takes effect after the messages `behind` were written, the record has what happened in them.
pub fn completed(output: SummaryOutput, covered: &Covered<'_>, behind: &[SourceMessage]) -> SummaryOutput {
    // An empty one stays empty, for its caller to refuse.
    if output.text.trim().is_empty() {
        return output;
    }
    let input = covered.input;
    // Lists that a model copied from the previous summary would be there twice.
    let mut text = if input.rules.file_lists.is_some() { files::strip_tags(&output.text) } else { output.text };
    let (contradictions, record) = checked((&text, false), covered, behind, output.summarizer != NAME);
    if !record.is_empty() {
        text = format!("{}\n\n{record}", text.trim_end());
    }
    text.push_str(&file_lists(input));
    SummaryOutput { text, contradictions, ..output }
}

/// A summary that a client wrote on its own, with its claims that the record contradicts; its text stays as it is.
/// Beside it the record, with what happened in the messages `behind`, if the policy asks for it.
pub fn beside_supplied(
    output: SummaryOutput,
    covered: &Covered<'_>,
    behind: &[SourceMessage],
) -> (SummaryOutput, Option<String>) {
    let (contradictions, record) = checked((&output.text, true), covered, behind, true);
    (SummaryOutput { contradictions, ..output }, Some(record).filter(|record| !record.is_empty()))
}

/// The claims of a text that the record of what happened contradicts, until the end of the messages `behind`, and that
/// record as the policy asks for it. With true beside the text, its writer may know more.
fn checked(
    (text, knows_more): (&str, bool),
    covered: &Covered<'_>,
    behind: &[SourceMessage],
    with_record: bool,
) -> (Vec<Contradiction>, String) {
    let input = covered.input;
    let whole = (!behind.is_empty()).then(|| Covered::until(input, behind));
    let whole = whole.as_ref().unwrap_or(covered);
    let evidence = Evidence { knows_more, ..Evidence::from_input(input, behind) };
    let contradictions = claims::contradicted(&evidence, &whole.read().0, whole.earlier, text);
    (contradictions, if with_record { what_happened(whole, record_tokens(input)) } else { String::new() })
}

/// True if a summary by somebody else can quote messages behind those that it covers: in the record, or in a report.
pub fn may_quote(output: &SummaryOutput, rules: &Summary) -> bool {
    let has_record = rules.facts_tokens > 0 || rules.contradictions == Contradictions::Correct;
    output.summarizer != NAME && (has_record || !output.contradictions.is_empty())
}

/// The record of what happened, from the results of tools alone, in at most so many tokens: the last outcome of each
/// check, commits, files edited since the last commit and since the last check that passed, deletions, and the last
/// words of a person. Empty if there is nothing to say, or no room for it.
pub(super) fn what_happened(covered: &Covered<'_>, tokens: i64) -> String {
    let (record, turns) = covered.read();
    let budget = Budget::new(&covered.input.counting, tokens);
    let mut text = RECORD_HEADING.to_owned();
    let mut is_empty = true;
    for line in lines::outcomes(record, turns, budget.chars()) {
        let longer = format!("{text}\n- {}", text::defuse(&line));
        if budget.measure(&longer) <= budget.units {
            (text, is_empty) = (longer, false);
        }
    }
    if is_empty { String::new() } else { text }
}

/// What people typed, verbatim and in order, in at most so many tokens; above that, what adds most. Empty if nobody
/// typed anything, or there is no room for it. With the message of each line.
pub fn what_people_said(covered: &Covered<'_>, tokens: i64) -> (String, Vec<Revision>) {
    let budget = Budget::new(&covered.input.counting, tokens);
    let (record, turns) = covered.read();
    let sections = [Section::new(SAID_HEADING, Topic::Goal)];
    let (text, places) = compose::compose_typed(
        Form { sections: &sections, filler: "", root: None },
        budget,
        lines::typed(record, turns, budget.chars()),
    );
    let entries = covered.digest.entries.iter();
    let by_index: HashMap<i64, Revision> = entries.map(|entry| (entry.at, entry.revision)).collect();
    (text, places.into_iter().map(|place| by_index.get(&place.0).copied().unwrap_or_default()).collect())
}

fn record_tokens(input: &SummaryInput) -> i64 {
    let share = match input.rules.contradictions {
        Contradictions::Report => 0,
        Contradictions::Correct => input.budget_tokens.max(0).saturating_mul(RECORD_SHARE) / 100,
    };
    share.max(input.rules.facts_tokens.max(0))
}

/// Maximum size of a summary, in tokens, including the sections that the policy appends to a model's text.
pub fn tokens_max(input: &SummaryInput, by_model: bool) -> i64 {
    if !by_model {
        return input.budget_tokens;
    }
    let beside = record_tokens(input).saturating_add(input.rules.words_tokens.max(0));
    input.budget_tokens.saturating_add(beside).saturating_add(file_lists::most_tokens(input))
}

//! What follows the text of every summary: the record of what happened, and lists of the files that it touched.

use super::claims::{self, Evidence};
use super::compose::{self, Budget, Form};
use super::digest::Digest;
use super::file_lists::{self, file_lists};
use super::lines;
use super::record::Record;
use super::text;
use super::write::NAME;
use longhand_core::policy::summary::{RECORD_HEADING, SAID_HEADING, SummaryInput, SummaryOutput};
use longhand_core::policy::{Contradictions, Counting, Section, Summary, Topic, files};
use longhand_model::Revision;
use longhand_model::view::SourceMessage;
use std::collections::HashMap;

/// Share of the budget for the record under a policy that asks for corrections, in percent.
const RECORD_SHARE: i64 = 10;

/// Returns a summary with its claims that the record contradicts, and with the sections that the policy appends: lists
/// of files to every summary, the record to a model's summary only, because the built-in summarizer's has its lines. If
/// it takes effect after the messages `behind` were written, the record has what happened in them.
pub fn completed(output: SummaryOutput, input: &SummaryInput, behind: &[SourceMessage]) -> SummaryOutput {
    // An empty one stays empty, for its caller to refuse.
    if output.text.trim().is_empty() {
        return output;
    }
    // Lists that a model copied from the previous summary would be there twice.
    let mut text = if input.rules.file_lists.is_some() { files::strip_tags(&output.text) } else { output.text };
    let evidence = Evidence { behind: behind.iter().collect(), ..Evidence::from_input(input) };
    let contradictions = claims::contradictions(&evidence, &text);
    if output.summarizer != NAME {
        let record = record_of(&evidence, input);
        if !record.is_empty() {
            text = format!("{}\n\n{record}", text.trim_end());
        }
    }
    text.push_str(&file_lists(input));
    SummaryOutput { text, contradictions, ..output }
}

/// A summary that a client wrote on its own, with its claims that the record contradicts; its text stays as it is.
/// Beside it the record, with what happened in the messages `behind`, if the policy asks for it.
pub fn beside_supplied(
    output: SummaryOutput,
    input: &SummaryInput,
    behind: &[SourceMessage],
) -> (SummaryOutput, Option<String>) {
    let evidence = Evidence { behind: behind.iter().collect(), knows_more: true, ..Evidence::from_input(input) };
    let contradictions = claims::contradictions(&evidence, &output.text);
    let record = record_of(&evidence, input);
    (SummaryOutput { contradictions, ..output }, Some(record).filter(|record| !record.is_empty()))
}

/// True if a summary by somebody else can quote messages behind those that it covers: in the record, or in a report.
pub fn may_quote(output: &SummaryOutput, rules: &Summary) -> bool {
    let has_record = rules.facts_tokens > 0 || rules.contradictions == Contradictions::Correct;
    output.summarizer != NAME && (has_record || !output.contradictions.is_empty())
}

/// The record of all messages of the evidence, as the policy asks for it.
fn record_of(evidence: &Evidence<'_>, input: &SummaryInput) -> String {
    what_happened(&evidence.digest().with_words(&input.words), &input.counting, record_tokens(input))
}

/// The record of what happened, from the results of tools alone, in at most so many tokens: the last outcome of each
/// check, commits, files edited since the last commit and since the last check that passed, deletions, and the last
/// words of a person. Empty if there is nothing to say, or no room for it.
pub fn what_happened(digest: &Digest, counting: &Counting, tokens: i64) -> String {
    let budget = Budget::new(counting, tokens);
    let (record, turns) = Record::from_digest(digest);
    let mut text = RECORD_HEADING.to_owned();
    let mut is_empty = true;
    for line in lines::outcomes(&record, &turns, budget.chars()) {
        let longer = format!("{text}\n- {}", text::defuse(&line));
        if budget.measure(&longer) <= budget.units {
            (text, is_empty) = (longer, false);
        }
    }
    if is_empty { String::new() } else { text }
}

/// What people typed, verbatim and in order, in at most so many tokens; above that, what adds most. Empty if nobody
/// typed anything, or there is no room for it. With the message of each line.
pub fn what_people_said(digest: &Digest, counting: &Counting, tokens: i64) -> (String, Vec<Revision>) {
    let budget = Budget::new(counting, tokens);
    let (record, turns) = Record::from_digest(digest);
    let sections = [Section::new(SAID_HEADING, Topic::Goal)];
    let (text, places) = compose::compose_typed(
        Form { sections: &sections, filler: "", root: None },
        budget,
        lines::typed(&record, &turns, budget.chars()),
    );
    let by_index: HashMap<i64, Revision> = digest.entries.iter().map(|entry| (entry.at, entry.revision)).collect();
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

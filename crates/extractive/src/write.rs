//! The text of a summary: its facts from the record, its lines in the sections of the preset, within the budget.

use super::compose::{Budget, Form};
use super::digest::Digest;
use super::file_lists::file_lists;
use super::record::Record;
use super::statements;
use super::{compose, lines};
use longhand_core::policy::SplitTurn;
use longhand_core::policy::summary::SummaryInput;
use longhand_model::view::SourceMessage;

/// Name in events and lists.
pub const NAME: &str = "extractive";

/// Text of the history section if there is nothing but a split turn.
const NO_HISTORY: &str = "No prior history.";

/// Share of the budget for the first part of a split turn, in percent.
const SPLIT_TURN_SHARE: usize = 35;

/// Writes a summary of at most `input.budget_tokens`, with its file lists; the same input gives the same text.
pub fn extract(input: &SummaryInput) -> String {
    let mut text = write(input);
    text.push_str(&file_lists(input));
    text
}

/// Writes a summary that leaves space for the sections that follow it.
pub fn write(input: &SummaryInput) -> String {
    let budget = Budget::new(&input.counting, input.budget_tokens);
    let free = budget.with(budget.units.saturating_sub(budget.measure(&file_lists(input))));
    match &input.rules.split_turn {
        Some(rule) if !input.split_turn.is_empty() => split(input, rule, free),
        Some(_) | None => {
            let messages = input.messages.iter().chain(&input.split_turn);
            history(input, messages, Form::from_rules(&input.rules), true, free)
        }
    }
}

/// Summarizes the history and, separately, the first part of the turn that the boundary splits.
fn split(input: &SummaryInput, rule: &SplitTurn, budget: Budget<'_>) -> String {
    let bridge = format!("\n\n---\n\n{}\n\n", rule.heading);
    let free = budget.units.saturating_sub(budget.measure(&bridge));
    let has_history = !input.messages.is_empty() || input.previous.is_some();
    let least = |form: Form<'_>| compose::frame(form, budget);
    let form = Form::from_rules(&input.rules);
    let front_form = Form { sections: &rule.sections, root: None, ..form };
    if free < least(front_form) + if has_history { least(form) } else { NO_HISTORY.len() } {
        // A budget too small for two summaries gets one.
        let messages = input.messages.iter().chain(&input.split_turn);
        return history(input, messages, form, true, budget);
    }
    let share = if has_history {
        (free * SPLIT_TURN_SHARE / 100).max(least(front_form))
    } else {
        free.saturating_sub(NO_HISTORY.len())
    };
    let front = history(input, input.split_turn.iter(), front_form, false, budget.with(share));
    let rest = budget.with(free.saturating_sub(budget.measure(&front)));
    let past =
        if has_history { history(input, input.messages.iter(), form, true, rest) } else { NO_HISTORY.to_owned() };
    format!("{past}{bridge}{front}")
}

/// The digest of what a summary of this input covers: its messages, and what the summary before it covers.
pub fn digest(input: &SummaryInput) -> Digest {
    digest_of(input, input.messages.iter().chain(&input.split_turn), true)
}

/// The digest of messages. With `carries` it has what the previous summary covers: its originals, or its text.
fn digest_of<'a>(input: &SummaryInput, messages: impl Iterator<Item = &'a SourceMessage>, carries: bool) -> Digest {
    let of_originals = || input.previous_digest.as_deref().and_then(Digest::from_json);
    let of_text = || input.previous.as_deref().map(|text| Digest::default().with_summary(text));
    let earlier = if carries { of_originals().or_else(of_text) } else { None };
    earlier.unwrap_or_default().merged(Digest::from_messages(messages)).with_words(&input.words)
}

fn history<'a>(
    input: &SummaryInput,
    messages: impl Iterator<Item = &'a SourceMessage>,
    form: Form<'_>,
    carries: bool,
    budget: Budget<'_>,
) -> String {
    let digest = digest_of(input, messages, carries);
    let (record, turns) = Record::from_digest(&digest);
    let printed = statements::printed_texts(&digest);
    compose::compose(form, budget, lines::lines(&record, &turns, &printed, budget.chars()), &input.instructions)
}

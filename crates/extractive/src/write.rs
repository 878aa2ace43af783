//! The text of a summary: its facts from the record, its lines in the sections of the preset, within the budget.

use super::compose::{Budget, Form};
use super::file_lists::file_lists;
use super::record::Record;
use super::text::{self, Fingerprint};
use super::{compose, lines, previous};
use longhand_core::model::message::Role;
use longhand_core::model::view::SourceMessage;
use longhand_core::policy::presets::pi::parameters::SplitTurn;
use longhand_core::policy::summary::SummaryInput;

/// Name in events and lists.
pub const NAME: &str = "extractive";

/// Text of the history section if there is nothing but a split turn.
const NO_HISTORY: &str = "No prior history.";

/// Share of the budget for the first part of a split turn, in percent.
const SPLIT_TURN_SHARE: usize = 35;

/// Detail of the lines, in percent of the summary's limit; each value is tried until the text fills the limit.
const DETAIL_PERCENT: [usize; 4] = [100, 150, 225, 400];

/// Writes a summary of at most `input.budget_tokens`, with the file lists that follow every summary; the same input
/// gives the same text.
pub fn extract(input: &SummaryInput) -> String {
    let mut text = write(input);
    text.push_str(&file_lists(input));
    text
}

/// Writes a summary that leaves space for the sections that follow it.
pub fn write(input: &SummaryInput) -> String {
    let budget = Budget::of(&input.counting, input.budget_tokens);
    let free = Budget { units: budget.units.saturating_sub(budget.measure(&file_lists(input))), ..budget };
    match &input.rules.split_turn {
        Some(rule) if !input.split_turn.is_empty() => split(input, rule, free),
        Some(_) | None => {
            let messages = input.messages.iter().chain(&input.split_turn);
            history(input, messages, Form::of(&input.rules), input.previous.as_deref(), free)
        }
    }
}

/// Summarizes the history and, separately, the first part of the turn that the boundary splits.
fn split(input: &SummaryInput, rule: &SplitTurn, budget: Budget) -> String {
    let bridge = format!("\n\n---\n\n{}\n\n", rule.heading);
    let free = budget.units.saturating_sub(budget.measure(&bridge));
    let has_history = !input.messages.is_empty() || input.previous.is_some();
    let least = |form: Form<'_>| compose::frame(form, budget);
    let form = Form::of(&input.rules);
    let front_form = form.headings(&rule.sections);
    if free < least(front_form) + if has_history { least(form) } else { NO_HISTORY.len() } {
        // A budget too small for two summaries gets one.
        let messages = input.messages.iter().chain(&input.split_turn);
        return history(input, messages, form, input.previous.as_deref(), budget);
    }
    let share = if has_history {
        (free * SPLIT_TURN_SHARE / 100).max(least(front_form))
    } else {
        free.saturating_sub(NO_HISTORY.len())
    };
    let front = history(input, input.split_turn.iter(), front_form, None, Budget { units: share, ..budget });
    let rest = Budget { units: free - budget.measure(&front), ..budget };
    let past = if has_history {
        history(input, input.messages.iter(), form, input.previous.as_deref(), rest)
    } else {
        NO_HISTORY.to_owned()
    };
    format!("{past}{bridge}{front}")
}

fn history<'a>(
    input: &SummaryInput,
    messages: impl Iterator<Item = &'a SourceMessage>,
    form: Form<'_>,
    previous: Option<&str>,
    budget: Budget,
) -> String {
    let messages: Vec<&SourceMessage> = messages.collect();
    let mut record = Record::default();
    if let Some(summary) = previous {
        let goes_on = messages.iter().any(|source| source.message.role == Role::Assistant);
        previous::recall(&mut record, summary, &input.rules, goes_on);
    }
    record.read(messages);
    let focus = Fingerprint::of(&text::clean(&input.instructions));
    // If there are few facts for the limit, each is written in more detail.
    let mut text = String::new();
    for percent in DETAIL_PERCENT {
        text = compose::compose(form, budget, lines::lines(&record, budget.units * percent / 100), &focus);
        if budget.measure(&text) * 20 >= budget.units * 19 {
            break;
        }
    }
    text
}

//! The text of a summary: its facts from the record, its lines in the sections of the preset, within the budget.

use super::compose::{self, Budget, Form};
use super::statements::{self, Turn};
use super::{digest::Digest, file_lists::file_lists, lines, record::Record};
use longhand_core::policy::{SplitTurn, summary::SummaryInput};
use longhand_model::view::SourceMessage;
use std::cell::OnceCell;

/// Name in events and lists.
pub const NAME: &str = "extractive";

/// Text of the history section if there is nothing but a split turn.
const NO_HISTORY: &str = "No prior history.";

/// Share of the budget for the first part of a split turn, in percent.
const SPLIT_TURN_SHARE: usize = 35;

/// What a summary of an input covers, read once for its text, for the check of its claims and for its digest.
#[derive(Debug)]
pub struct Covered<'a> {
    /// The input.
    pub input: &'a SummaryInput,
    /// The number of messages that the summary before it covers.
    pub(super) earlier: i64,
    pub(super) digest: Digest,
    read: OnceCell<(Record, Vec<Turn>)>,
}

impl<'a> Covered<'a> {
    /// Reads the messages of an input, and what the summary before it covers: its originals, or its text.
    pub fn new(input: &'a SummaryInput) -> Self {
        Self::until(input, &[])
    }

    /// The same with the messages right behind it.
    pub(super) fn until(input: &'a SummaryInput, behind: &'a [SourceMessage]) -> Self {
        let of_originals = || input.previous_digest.as_deref().and_then(Digest::from_json);
        let of_text = || input.previous.as_deref().map(|text| Digest::default().with_summary(text));
        let earlier = of_originals().or_else(of_text).unwrap_or_default();
        let messages = input.messages.iter().chain(&input.split_turn).chain(behind);
        let length = earlier.length;
        let digest = earlier.merged(Digest::from_messages(messages)).with_words(&input.words);
        Self { input, earlier: length, digest, read: OnceCell::new() }
    }

    /// The digest of it.
    pub fn digest(self) -> Digest {
        self.digest
    }

    pub(super) fn read(&self) -> &(Record, Vec<Turn>) {
        self.read.get_or_init(|| Record::from_digest(&self.digest))
    }

    /// Writes a summary that leaves space for the sections that follow it; the same input gives the same text.
    pub fn write(&self) -> String {
        let input = self.input;
        let budget = Budget::new(&input.counting, input.budget_tokens);
        let free = budget.with(budget.units.saturating_sub(budget.measure(&file_lists(input))));
        match &input.rules.split_turn {
            Some(rule) if !input.split_turn.is_empty() => self.split(rule, free),
            Some(_) | None => self.history(Form::from_rules(&input.rules), free),
        }
    }

    /// Summarizes the history and, separately, the first part of the turn that the boundary splits.
    fn split(&self, rule: &SplitTurn, budget: Budget<'_>) -> String {
        let input = self.input;
        let bridge = format!("\n\n---\n\n{}\n\n", rule.heading);
        let free = budget.units.saturating_sub(budget.measure(&bridge));
        let has_history = !input.messages.is_empty() || input.previous.is_some();
        let least = |form: Form<'_>| compose::frame(form, budget);
        let form = Form::from_rules(&input.rules);
        let front_form = Form { sections: &rule.sections, root: None, ..form };
        if free < least(front_form) + if has_history { least(form) } else { NO_HISTORY.len() } {
            // A budget too small for two summaries gets one.
            return self.history(form, budget);
        }
        let share = if has_history {
            (free * SPLIT_TURN_SHARE / 100).max(least(front_form))
        } else {
            free.saturating_sub(NO_HISTORY.len())
        };
        let past = SummaryInput { split_turn: Vec::new(), ..input.clone() };
        let (messages, previous, previous_digest) = (input.split_turn.clone(), None, None);
        let front = SummaryInput { messages, previous, previous_digest, ..past.clone() };
        let front = Covered::new(&front).history(front_form, budget.with(share));
        let rest = budget.with(free.saturating_sub(budget.measure(&front)));
        let past = if has_history { Covered::new(&past).history(form, rest) } else { NO_HISTORY.to_owned() };
        format!("{past}{bridge}{front}")
    }

    fn history(&self, form: Form<'_>, budget: Budget<'_>) -> String {
        let (record, turns) = self.read();
        let printed = statements::printed_texts(&self.digest);
        compose::compose(form, budget, lines::lines(record, turns, &printed, budget.chars()), &self.input.instructions)
    }
}

/// Writes a summary of at most `input.budget_tokens`, with its file lists.
pub fn extract(input: &SummaryInput) -> String {
    Covered::new(input).write() + &file_lists(input)
}

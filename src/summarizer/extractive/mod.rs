//! The built-in summarizer: no model, no cost, and the same words for the same history.
//!
//! It reads the history once ([`digest`]), collects what was wanted, done, decided and left open ([`progress`],
//! [`statements`], [`plans`], [`problems`], [`references`]) and which files and names matter ([`ledger`]), adds what of
//! the previous summary still holds ([`previous`]), and fills the preset's sections with the best of it ([`compose`]).

mod catalogue;
mod commands;
mod compose;
mod digest;
mod item;
mod ledger;
mod names;
mod plans;
mod previous;
mod problems;
mod progress;
mod references;
mod statements;
#[cfg(test)]
mod tests;
mod text;
mod tools;

use super::{Error, Summarizer, SummaryInput, SummaryOutput, carried};
use crate::model::view::SourceMessage;
use crate::policy::Topic;
use compose::{Form, Material};
use digest::Digest;
use futures::future::{BoxFuture, FutureExt, ready};
use ledger::Ledger;
use previous::Previous;
use text::Fingerprint;

pub(super) use compose::Room;
pub(super) use text::{clean, one_line};

/// What events and lists call it.
pub(super) const NAME: &str = "extractive";

/// Writes summaries out of the history's own words.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extractive;

impl Summarizer for Extractive {
    fn name(&self) -> &str {
        NAME
    }

    fn summarize<'a>(&'a self, input: &'a SummaryInput) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        let output = SummaryOutput { text: write(input), summarizer: self.name().to_owned(), usage: None };
        ready(Ok(output)).boxed()
    }
}

/// What a history summary says where there is nothing but a split turn.
const NO_HISTORY: &str = "No prior history.";

/// Which part of the budget the front of a split turn gets, in percent.
const SPLIT_TURN_SHARE: usize = 35;

/// Writes a summary of at most `input.budget_tokens`, with what every summary carries along; the same input gives the
/// same text.
pub fn extract(input: &SummaryInput) -> String {
    let mut text = write(input);
    text.push_str(&carried::file_lists(input));
    text
}

/// Writes a summary that leaves room for what is put behind it.
pub(super) fn write(input: &SummaryInput) -> String {
    let room = Room::of(&input.counting, input.budget_tokens);
    let free = Room { units: room.units.saturating_sub(room.measure(&carried::file_lists(input))), ..room };
    match &input.rules.split_turn_heading {
        Some(heading) if !input.split_turn.is_empty() => split(input, heading, free),
        Some(_) | None => {
            let messages = input.messages.iter().chain(&input.split_turn);
            history(input, messages, Form::of(&input.rules), input.previous.as_deref(), free)
        }
    }
}

/// A summary of the history, and one of the front of the turn that the cut goes through.
fn split(input: &SummaryInput, heading: &str, room: Room) -> String {
    let bridge = format!("\n\n---\n\n{heading}\n\n");
    let free = room.units.saturating_sub(room.measure(&bridge));
    let has_history = !input.messages.is_empty() || input.previous.is_some();
    let least = |form: Form<'_>| compose::frame(form, room);
    let form = Form::of(&input.rules);
    let front_form = form.headings(&input.rules.prompt.split_turn_sections);
    if free < least(front_form) + if has_history { least(form) } else { NO_HISTORY.len() } {
        // A budget too small for two summaries gets one.
        let messages = input.messages.iter().chain(&input.split_turn);
        return history(input, messages, form, input.previous.as_deref(), room);
    }
    let share = if has_history {
        (free * SPLIT_TURN_SHARE / 100).max(least(front_form))
    } else {
        free.saturating_sub(NO_HISTORY.len())
    };
    let front = history(input, input.split_turn.iter(), front_form, None, Room { units: share, ..room });
    let rest = Room { units: free - room.measure(&front), ..room };
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
    room: Room,
) -> String {
    let digest = Digest::read(messages);
    let previous = previous.map(|summary| Previous::parse(summary, &input.rules)).unwrap_or_default();
    let mut ledger = Ledger::collect(&digest, Some(previous.names.as_str()).filter(|names| !names.is_empty()));
    ledger.annotate(&previous.notes);
    // A quotation grows with the room there is, up to the point where it is no longer one.
    let quote = (room.units / 24).clamp(120, 1_200);
    let mut items = Vec::new();
    plans::collect(&digest, &mut items);
    let has_plan = !items.is_empty();
    progress::collect(&digest, quote, previous.has_goal(), &mut items);
    statements::collect(&digest, &mut items);
    problems::collect(&digest, &mut items);
    references::collect(&digest, &mut items);
    items.extend(previous.items(&digest, has_plan, quote));
    if items.iter().all(|item| item.topic != Topic::NextSteps) {
        progress::next_steps(&digest, &mut items);
    }
    let focus = Fingerprint::of(&text::clean(&input.instructions));
    compose::compose(form, room, Material { items, ledger: &ledger, focus })
}

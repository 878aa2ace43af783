//! The built-in summarizer: no model, no cost, and the same words for the same history.
//!
//! It reads the history once ([`record`]) on top of what the summary before it knew ([`previous`]): tasks with what came of
//! them, checks with how they ended last ([`checks`]), the lines that are new in files and still stand ([`files`]), items
//! of a tracker with what they demand ([`items`]), and the words that say why ([`words`]). It tells these facts, the newest
//! in most detail ([`tell`]), and fills the preset's sections with the best of them, each as long as there is room for it
//! ([`compose`]).
//!
//! The same readers hold the claims of any summary against the history ([`mod@contradictions`]).

mod checks;
mod commands;
mod compose;
mod contradictions;
mod files;
mod items;
mod previous;
mod record;
mod tell;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod words;

use super::{Error, Summarizer, SummaryInput, SummaryOutput, carried};
use crate::model::message::Role;
use crate::model::view::SourceMessage;
use compose::Form;
use futures::future::{BoxFuture, FutureExt, ready};
use record::Record;
use text::Fingerprint;

pub(super) use compose::Room;
pub use contradictions::{Evidence, contradictions};
pub(super) use text::{clean, defuse, one_line};

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
        let output = SummaryOutput::new(write(input), self.name());
        ready(Ok(output)).boxed()
    }
}

/// What a history summary says where there is nothing but a split turn.
const NO_HISTORY: &str = "No prior history.";

/// Which part of the budget the front of a split turn gets, in percent.
const SPLIT_TURN_SHARE: usize = 35;

/// The detail that a summary is told in, in percent of its room, until it fills that.
const DETAIL_PERCENT: [usize; 4] = [100, 150, 225, 400];

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
    let messages: Vec<&SourceMessage> = messages.collect();
    let mut record = Record::new();
    if let Some(summary) = previous {
        let goes_on = messages.iter().any(|source| source.message.role == Role::Assistant);
        previous::recall(&mut record, summary, &input.rules, goes_on);
    }
    record.read(messages);
    let focus = Fingerprint::of(&text::clean(&input.instructions));
    // Where there is less to tell than room for it, each thing is told in more detail.
    let mut text = String::new();
    for percent in DETAIL_PERCENT {
        let wider = compose::compose(form, room, tell::tell(&record, room.units * percent / 100), &focus);
        if room.measure(&wider) >= room.measure(&text) {
            text = wider;
        }
        if room.measure(&text) * 20 >= room.units * 19 {
            break;
        }
    }
    text
}

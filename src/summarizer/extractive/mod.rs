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

use super::{Error, Summarizer, SummaryInput, SummaryOutput};
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::files::{self, FileOperations, FileTools};
use crate::policy::{Bullet, Section, Topic};
use compose::{Form, Material, Room};
use digest::Digest;
use futures::future::{BoxFuture, FutureExt, ready};
use ledger::Ledger;
use previous::Previous;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use text::Fingerprint;

/// Writes summaries out of the history's own words.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extractive;

impl Summarizer for Extractive {
    fn name(&self) -> &str {
        "extractive"
    }

    fn summarize<'a>(&'a self, input: &'a SummaryInput) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        let output = SummaryOutput { text: extract(input), summarizer: self.name().to_owned(), usage: None };
        ready(Ok(output)).boxed()
    }
}

/// What a history summary says where there is nothing but a split turn.
const NO_HISTORY: &str = "No prior history.";

/// Which part of the budget the front of a split turn gets, in percent.
const SPLIT_TURN_SHARE: usize = 35;

/// Which part of the budget the file tags may take, in percent.
const TAGS_SHARE: usize = 25;

/// Writes a summary of at most `input.budget_tokens`; the same input gives the same text.
pub fn extract(input: &SummaryInput) -> String {
    let room = Room::of(&input.counting, input.budget_tokens);
    let tags = if input.rules.file_tags { tags(input, room) } else { String::new() };
    let free = Room { units: room.units.saturating_sub(room.measure(&tags)), ..room };
    let mut text = match &input.rules.split_turn_heading {
        Some(heading) if !input.split_turn.is_empty() => split(input, heading, free),
        Some(_) | None => {
            let messages = input.messages.iter().chain(&input.split_turn);
            history(input, messages, Form::of(&input.rules), input.previous.as_deref(), free)
        }
    };
    text.push_str(&tags);
    text
}

/// A summary of the history, and one of the front of the turn that the cut goes through.
fn split(input: &SummaryInput, heading: &str, room: Room) -> String {
    let bridge = format!("\n\n---\n\n{heading}\n\n");
    let free = room.units.saturating_sub(room.measure(&bridge));
    let has_history = !input.messages.is_empty() || input.previous.is_some();
    let least = |form: Form<'_>| compose::frame(form, room);
    let form = Form::of(&input.rules);
    let front_sections = turn_sections();
    let front_form = form.headings(&front_sections);
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

/// The sections of a split turn's summary, as pi names them.
fn turn_sections() -> Vec<Section> {
    [
        ("## Original Request", Topic::Goal),
        ("## Progress So Far", Topic::Done),
        ("## Context Needed to Continue", Topic::Context),
    ]
    .into_iter()
    .map(|(heading, topic)| Section { heading: heading.to_owned(), holds: Some(topic), bullet: Bullet::Dash })
    .collect()
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
    let focus = Fingerprint::of(&text::clean(&input.instructions));
    compose::compose(form, room, Material { items, ledger: &ledger, focus })
}

/// The file lists that follow the text. Where not all fit, modified files come before read ones, newer before older.
fn tags(input: &SummaryInput, room: Room) -> String {
    let mut operations = FileOperations::default();
    let mut newest: HashMap<String, usize> = HashMap::new();
    if let Some(previous) = &input.previous {
        let (read, modified) = files::parse_tags(previous);
        operations.inherit(read, modified);
    }
    for (at, source) in input.messages.iter().chain(&input.split_turn).enumerate() {
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &part.body
                && let Some((_, path)) = files::operation(FileTools::Any, call)
            {
                operations.add(FileTools::Any, call);
                newest.insert(path, at + 1);
            }
        }
    }
    let (mut read, mut modified) = operations.lists();
    let frame = room.measure(&files::tags(&[String::new()], &[String::new()]));
    let mut left = (room.units * TAGS_SHARE / 100).saturating_sub(frame);
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

/// Whether a path is safe in a list of lines between tags: a name that could be taken for a tag, or for two names, is
/// left out.
fn is_plain(path: &str) -> bool {
    text::one_line(&text::clean(path)) == path && !path.contains(['<', '>'])
}

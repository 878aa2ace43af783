//! A summary whose originals are not at hand: what people typed, and its other lines as statements of their sections.

use super::commands;
use super::compose::REPLACED;
use super::headings::heading_topic;
use super::lines::{ANSWERED, ASKED, DERIVED, FIRST, LATEST};
use super::record::{Note, Record};
use super::statements::Turn;
use super::text;
use longhand_core::policy::{Summary, Topic, files};

/// Position of the facts from an earlier summary: before all new ones, in their order.
const BASE: i64 = -1_000_000;

/// Maximum number of bytes read of a previous summary. Summaries are far smaller; a larger text is no summary.
const READ_BYTES_MAX: usize = 262_144;

/// Reads a summary into an empty record, and returns what people typed according to it. With `goes_on` there is work after
/// it, so that its unfinished tasks are outdated.
pub(super) fn recall(record: &mut Record, summary: &str, rules: &Summary, goes_on: bool) -> Vec<Turn> {
    let cleaned = text::clean(commands::head(summary, READ_BYTES_MAX));
    let body = files::strip_tags(&cleaned);
    let (mut typed, mut topic) = (Vec::new(), Topic::Context);
    for (at, line) in (BASE..).zip(text::prose(&body)) {
        if let Some(found) = heading_topic(&line, &rules.sections) {
            topic = found;
            continue;
        }
        let plain = text::plain(line.text);
        let words = plain.trim();
        let is_structure = words == rules.filler || words.starts_with('<') && words.ends_with('>');
        // These lines are derived again from the facts.
        if is_structure || DERIVED.iter().any(|mark| words.starts_with(mark)) {
            continue;
        }
        if let Some((question, words)) = typed_in(words) {
            typed.push(Turn { answers: question, ..Turn::new(at, true, words) });
            continue;
        }
        let is_open = matches!(topic, Topic::InProgress | Topic::NextSteps | Topic::OpenDecisions);
        // The lines of a file hold, although the work goes on.
        if !goes_on || !is_open || words.contains("`: `") {
            record.notes.push(Note { topic, words: words.to_owned(), at });
        }
    }
    typed
}

/// What a person typed according to a line of ours, with the question that it answers.
fn typed_in(line: &str) -> Option<(Option<String>, String)> {
    let line = line.strip_suffix(REPLACED).unwrap_or(line);
    if let Some((question, answer)) = line.strip_prefix(ASKED).and_then(|rest| rest.split_once(ANSWERED)) {
        return Some((Some(question.to_owned()), answer.trim_end_matches('”').to_owned()));
    }
    let label = [FIRST, LATEST].into_iter().find_map(|label| line.strip_prefix(label));
    let quoted = label.unwrap_or(line).strip_prefix('“').map(|rest| rest.strip_suffix('”').unwrap_or(rest));
    quoted.or(label).map(|words| (None, words.to_owned()))
}

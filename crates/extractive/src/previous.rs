//! A summary whose originals are not at hand: what people typed, and its other lines as statements of their sections.

use super::commands;
use super::lines::{ANSWERED, ASKED, DERIVED, FIRST, LATEST, REPLACED};
use super::record::{Note, Record};
use super::statements::Turn;
use super::text::{self, Lead, Line};
use longhand_core::policy::{Section, Summary, Topic, files};

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
            typed.push(Turn { at, typed: true, text: words, ends_turn: false, answers: question });
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
    let quoted = label.unwrap_or(line).strip_prefix('“').and_then(|rest| rest.strip_suffix('”'));
    quoted.or(label).map(|words| (None, words.to_owned()))
}

/// The topic of a heading; none if the line is no heading. A heading over other headings stands for finished work until
/// the next.
pub(super) fn heading_topic(line: &Line<'_>, sections: &[Section]) -> Option<Topic> {
    let plain = text::plain(line.text);
    let words = plain.trim().trim_end_matches([':', '：']).trim();
    // A section may be an element with the heading as its name.
    if let Some(name) = plain.trim().strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return sections.iter().find(|section| section.heading == name).and_then(|section| section.topic);
    }
    let known = |section: &&Section| section.heading.trim_start_matches('#').trim().eq_ignore_ascii_case(words);
    if line.lead == Lead::Heading {
        return Some(match sections.iter().find(known) {
            Some(section) => section.topic.unwrap_or(Topic::Done),
            None => topic_by_words(words).unwrap_or(Topic::Context),
        });
    }
    let is_title = plain.trim().ends_with([':', '：']) && line.indent < 2 && words.chars().count() <= 60;
    if is_title && matches!(line.lead, Lead::Plain | Lead::Number) { topic_by_words(words) } else { None }
}

/// The topic for the usual words of a heading.
fn topic_by_words(heading: &str) -> Option<Topic> {
    const WORDS: &[(Topic, &str)] = &[
        (Topic::NextSteps, "next step|pending|to-do|todo|remaining|next move|下一步|待办"),
        (Topic::InProgress, "in progress|current work|active|ongoing|进行中|当前"),
        (Topic::Blocked, "blocked|blocker|阻塞"),
        (Topic::Constraints, "constraint|preference|instruction|约束|偏好|要求"),
        (Topic::OpenDecisions, "open decision|待决"),
        (Topic::Decisions, "decision|决策|决定"),
        (Topic::Files, "file|文件|artifact"),
        (Topic::Goal, "goal|request|intent|objective|user message|目标|任务"),
        (Topic::Context, "context|concept|error|fix|problem|knowledge|discover|上下文|错误|发现"),
        (Topic::Done, "done|completed|accomplished|progress|完成|进展"),
    ];
    let heading = heading.to_lowercase();
    WORDS.iter().find(|(_, words)| words.split('|').any(|word| heading.contains(word))).map(|(topic, _)| *topic)
}

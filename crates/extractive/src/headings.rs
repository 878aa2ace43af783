//! Headings of summaries: their topics, by the sections of the rules or by the usual words of such headings.

use super::text::{self, Lead, Line};
use longhand_core::policy::{Section, Topic};

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

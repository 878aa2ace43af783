//! The summary that is replaced: what of it still holds.
//!
//! It may be ours or a model's, so its sections are told by their headings as the rules spell them, and else by the
//! words that such headings usually have.

use super::commands;
use super::digest::{Digest, Outcome};
use super::item::{Item, ORDER_FIRST};
use super::names;
use super::statements;
use super::text::{self, Lead, Line};
use super::tools::Kind;
use crate::policy::{Section, Summary, Topic, files};
use regex::Regex;
use std::sync::LazyLock;

/// Earlier lines stand before everything new.
const ORDER_BASE: i64 = -1_000_000_000;

/// How much of a previous summary is read, in bytes. Summaries are far smaller; what is larger is no summary.
const READ_BYTES_MAX: usize = 262_144;

static GROUP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`([^`\s]+/)`: ([^;`]+)").expect("a fixed pattern"));
static NOTE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^`([^`]+)`\s*(?:—|–|-|:|\()\s*(.*)$").expect("a fixed pattern"));
static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`([^`]+)`").expect("a fixed pattern"));

/// A previous summary, taken apart.
#[derive(Debug, Default)]
pub(super) struct Previous {
    /// Its statements.
    entries: Vec<(Topic, String)>,
    /// What it said about files.
    pub(super) notes: Vec<(String, String)>,
    /// Its text with every path written out, to be read for names.
    pub(super) names: String,
}

impl Previous {
    /// Takes a summary apart.
    pub(super) fn parse(summary: &str, rules: &Summary) -> Self {
        let cleaned = text::clean(commands::head(summary, READ_BYTES_MAX));
        let body = files::strip_tags(&cleaned);
        let mut previous = Self { names: with_groups_written_out(&body), ..Self::default() };
        let mut topic = None;
        for line in text::prose(&body) {
            if let Some(found) = heading_topic(&line, &rules.sections) {
                topic = Some(found);
                continue;
            }
            previous.take(topic.unwrap_or(Topic::Context), &line, rules);
        }
        previous
    }

    fn take(&mut self, topic: Topic, line: &Line<'_>, rules: &Summary) {
        let plain = text::plain(line.text);
        let words = plain.trim();
        let bare = words.trim_matches(['(', ')', '.', ' ']).to_lowercase();
        let is_empty = words == rules.filler || matches!(bare.as_str(), "none" | "n/a" | "nothing" | "无");
        if is_empty || words.starts_with('<') && words.ends_with('>') {
            return;
        }
        if let Some(found) = NOTE.captures(words)
            && (names::is_path(&found[1]) || topic == Topic::Files)
        {
            let note = found[2].split("; names: ").next().unwrap_or_default().trim_end_matches(')');
            self.notes.push((found[1].to_owned(), text::clip(note, 160)));
            return;
        }
        if is_list(words) || is_framing(words) {
            return;
        }
        // What is indented belongs to the point above it.
        if line.indent >= 2
            && line.lead != Lead::Heading
            && let Some((above, parent)) = self.entries.last_mut()
            && *above == topic
            && parent.len() < 400
        {
            parent.push_str(if parent.ends_with([':', ';', '.']) { " " } else { "; " });
            parent.push_str(words);
            return;
        }
        self.entries.push((topic, words.to_owned()));
    }

    /// What still holds, as items that compete with what is new.
    pub(super) fn items(&self, digest: &Digest<'_>, has_plan: bool, limit: usize) -> Vec<Item> {
        let has_request = digest.requests().next().is_some();
        let has_work = !digest.actions.is_empty() || digest.said.iter().any(|said| said.at > 0);
        let count = self.entries.len().max(1) as f64;
        let mut items = Vec::new();
        let mut goal_seen = false;
        // A title with nothing under it says nothing.
        let entries = self.entries.iter().enumerate().filter(|(_, (_, words))| !words.ends_with([':', '：']));
        for (place, (topic, words)) in entries {
            // Of two old statements the newer one has had less time to become untrue.
            let age = 0.6 + 0.4 * (place as f64 / count);
            let order = ORDER_BASE + place as i64;
            let substance = statements::substance(words).min(1.2);
            let mut words = text::clip(words, limit);
            let (score, order) = match topic {
                Topic::Goal if !goal_seen => {
                    goal_seen = true;
                    (9.5, ORDER_FIRST)
                }
                Topic::Goal => {
                    if has_request && let Some(rest) = words.strip_prefix("Latest request: ") {
                        words = format!("Then: {rest}");
                    }
                    // What a request weighs as the latest one, it need not weigh as one of many.
                    words = text::clip(&words, limit / 3);
                    (0.5 * age, order)
                }
                Topic::Constraints => (0.9 * age, order),
                Topic::Decisions | Topic::Done => (0.6 * age * substance, order),
                Topic::Context | Topic::Files => (0.5 * age * substance, order),
                Topic::InProgress if has_work => continue,
                Topic::InProgress => (1.0, order),
                Topic::NextSteps if has_plan => continue,
                Topic::NextSteps => (0.6 * age, order),
                Topic::Blocked if is_settled(&words, digest) => continue,
                Topic::Blocked => (0.6 * age, order),
            };
            items.push(Item::placed(*topic, &words, score, order));
        }
        items
    }

    /// Whether it names a goal.
    pub(super) fn has_goal(&self) -> bool {
        self.entries.iter().any(|(topic, _)| *topic == Topic::Goal)
    }
}

/// What agents say around a summary, and titles with nothing under them.
fn is_framing(words: &str) -> bool {
    const FRAMES: [&str; 4] = [
        "This session is being continued",
        "Please continue the conversation",
        "If you need specific details from before",
        "Continue the conversation from where",
    ];
    FRAMES.iter().any(|frame| words.starts_with(frame)) || matches!(words, "Analysis:" | "Summary:")
}

/// Lists of names and files are made anew from the names in them.
fn is_list(words: &str) -> bool {
    use super::catalogue::{LABELS, ROOT_LABEL};
    words.starts_with(ROOT_LABEL) || LABELS.iter().any(|label| words.starts_with(label))
}

/// Whether something that failed has worked since: the same command, or the same tool on the same file.
fn is_settled(words: &str, digest: &Digest<'_>) -> bool {
    let quoted: Vec<&str> =
        CODE.captures_iter(words).filter_map(|found| found.get(1)).map(|found| found.as_str()).collect();
    digest.actions.iter().filter(|action| action.outcome == Outcome::Worked).any(|action| {
        let command = action.call.command.as_deref().map(commands::core).filter(|core| !core.is_empty());
        let by_command = command.is_some_and(|core| quoted.iter().any(|words| commands::core(words).starts_with(core)));
        let by_file = action.call.paths.iter().any(|(path, kind)| {
            matches!(kind, Kind::Edit | Kind::Write)
                && quoted.first().is_some_and(|words| *words == names::base_name(path))
        });
        by_command || by_file
    })
}

fn with_groups_written_out(body: &str) -> String {
    GROUP
        .replace_all(body, |found: &regex::Captures<'_>| {
            let directory = &found[1];
            let paths = found[2].split(',').map(|base| format!("{directory}{}", base.trim()));
            paths.collect::<Vec<_>>().join(", ")
        })
        .into_owned()
}

/// The topic of a heading, if the line is one. A heading over other headings announces finished work until the next.
fn heading_topic(line: &Line<'_>, sections: &[Section]) -> Option<Topic> {
    let plain = text::plain(line.text);
    let words = plain.trim().trim_end_matches([':', '：']).trim();
    // A section may be an element with the heading as its name.
    if let Some(name) = plain.trim().strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return sections.iter().find(|section| section.heading == name).and_then(|section| section.holds);
    }
    if line.lead == Lead::Heading {
        let known =
            sections.iter().find(|section| section.heading.trim_start_matches('#').trim().eq_ignore_ascii_case(words));
        return Some(match known.map(|section| section.holds) {
            Some(Some(topic)) => topic,
            Some(None) => Topic::Done,
            None => topic_by_words(words).unwrap_or(Topic::Context),
        });
    }
    let is_title = plain.trim().ends_with([':', '：']) && line.indent < 2 && words.chars().count() <= 60;
    if is_title && matches!(line.lead, Lead::Plain | Lead::Number) { topic_by_words(words) } else { None }
}

fn topic_by_words(heading: &str) -> Option<Topic> {
    const WORDS: &[(Topic, &[&str])] = &[
        (Topic::NextSteps, &["next step", "pending", "to-do", "todo", "remaining", "next move", "下一步", "待办"]),
        (Topic::InProgress, &["in progress", "current work", "active", "ongoing", "进行中", "当前"]),
        (Topic::Blocked, &["blocked", "blocker", "阻塞"]),
        (Topic::Constraints, &["constraint", "preference", "instruction", "约束", "偏好", "要求"]),
        (Topic::Decisions, &["decision", "决策", "决定"]),
        (Topic::Files, &["file", "文件", "artifact"]),
        (Topic::Goal, &["goal", "request", "intent", "objective", "user message", "目标", "任务"]),
        (
            Topic::Context,
            &["context", "concept", "error", "fix", "problem", "knowledge", "discover", "上下文", "错误", "发现"],
        ),
        (Topic::Done, &["done", "completed", "accomplished", "progress", "完成", "进展"]),
    ];
    let heading = heading.to_lowercase();
    WORDS.iter().find(|(_, words)| words.iter().any(|word| heading.contains(word))).map(|(topic, _)| *topic)
}

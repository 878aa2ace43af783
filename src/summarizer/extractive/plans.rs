//! Plans: to-do lists, check lists and numbered plans, and what of the newest one is still to be done.

use super::commands;
use super::digest::{Digest, Speaker};
use super::item::Item;
use super::statements;
use super::text::{self, Lead};
use super::tools::{Kind, Progress, Task, TaskStep};
use crate::policy::Topic;
use regex::Regex;
use std::sync::LazyLock;

/// How a list of things to be done is introduced.
static ANNOUNCES: LazyLock<Regex> = LazyLock::new(|| {
    let words = "plan|next steps?|next|remaining|to-?do|to do|steps|still (?:open|to do|needed)|follow-?ups?";
    Regex::new(&format!(r"\b(?:{words})\b[^.]{{0,40}}$|计划|步骤|下一步|接下来|待办")).expect("a fixed pattern")
});

/// How a list of things that were done is introduced, also when it speaks of steps.
static REPORTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:did|done|made|changes?|changed|summary|fixed|implemented|completed|tick|ensures?|means)\b|已")
        .expect("a fixed pattern")
});

/// A plan counts as being followed until another one is stated.
struct Plan {
    at: usize,
    tasks: Vec<Task>,
    /// Whether the plan itself says how far its tasks are.
    tracked: bool,
}

/// Collects the tasks of the newest plan.
pub(super) fn collect(digest: &Digest<'_>, items: &mut Vec<Item>) {
    let Some(plan) = newest(digest) else { return };
    let recency = digest.recency(plan.at);
    let weight = if plan.tracked { 2.0 } else { 0.9 * recency };
    if weight < 0.2 {
        return;
    }
    for (place, task) in plan.tasks.iter().enumerate() {
        let plain = text::plain(&task.text);
        let words = text::clip(&text::one_line(&plain), 240);
        let order = i64::try_from(plan.at + place).unwrap_or(super::item::ORDER_LAST);
        let falling = 1.0 - 0.02 * place.min(20) as f64;
        let (topic, score) = match task.progress {
            Progress::Pending => (Topic::NextSteps, weight * falling),
            Progress::Active => (Topic::InProgress, 1.2 * weight),
            Progress::Done if plan.tracked => (Topic::Done, 0.8 * weight * falling),
            Progress::Done | Progress::Dropped => continue,
        };
        items.push(Item::placed(topic, &words, score, order));
    }
}

/// A to-do list that a tool keeps is better than one in prose; otherwise the newest wins.
fn newest(digest: &Digest<'_>) -> Option<Plan> {
    if let Some(newest) = digest.actions.iter().rev().find(|action| action.call.kind == Kind::Tasks) {
        let tasks = if newest.call.tasks.is_empty() { kept_task_by_task(digest) } else { newest.call.tasks.clone() };
        return Some(Plan { at: newest.at, tasks, tracked: true });
    }
    let written = digest.actions.iter().rev().find_map(|action| {
        let listed = action.call.texts.iter().find(|words| words.contains("- [ ]"))?;
        Some(Plan { at: action.at, tasks: boxes(listed), tracked: true })
    });
    let mut said = None;
    for words in digest.said.iter().rev().filter(|said| said.speaker == Speaker::Assistant) {
        let tasks = boxes(&words.text);
        if !tasks.is_empty() {
            said = Some(Plan { at: words.at, tasks, tracked: true });
        } else if let Some(tasks) = numbered_plan(&words.text) {
            said = Some(Plan { at: words.at, tasks, tracked: false });
        }
        if said.is_some() {
            break;
        }
    }
    match (written, said) {
        (Some(written), Some(said)) => Some(if written.at >= said.at { written } else { said }),
        (written, said) => written.or(said),
    }
}

/// The list that single additions and moves make up.
fn kept_task_by_task(digest: &Digest<'_>) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for step in digest.actions.iter().filter_map(|action| action.call.task_step.as_ref()) {
        match step {
            TaskStep::Added(task) => tasks.push(task.clone()),
            TaskStep::Moved { number, progress } => {
                if let Some(task) = number.checked_sub(1).and_then(|place| tasks.get_mut(place)) {
                    task.progress = *progress;
                }
            }
        }
    }
    tasks
}

/// Whether a text states what is to be done, rather than what was done.
pub(super) fn states_plan(words: &str) -> bool {
    !boxes(words).is_empty() || numbered_plan(words).is_some()
}

/// The tasks of a check list; a text whose boxes are all ticked is a report.
fn boxes(words: &str) -> Vec<Task> {
    let mut tasks = Vec::new();
    for line in text::prose(commands::head(words, 16_000)) {
        let progress = match line.lead {
            Lead::Unchecked => Progress::Pending,
            Lead::Checked => Progress::Done,
            Lead::Plain | Lead::Heading | Lead::Bullet | Lead::Number => continue,
        };
        tasks.push(Task { text: line.text.to_owned(), progress });
    }
    if tasks.iter().any(|task| task.progress == Progress::Pending) { tasks } else { Vec::new() }
}

/// The points of a list that is introduced as something to be done.
fn numbered_plan(words: &str) -> Option<Vec<Task>> {
    let lines = text::prose(commands::head(words, 16_000));
    let start = lines.iter().position(|line| {
        let lower = line.text.to_lowercase();
        let announces = lower.ends_with([':', '：']) || line.lead == Lead::Heading;
        announces && ANNOUNCES.is_match(&lower) && !REPORTS.is_match(&lower)
    })?;
    let tasks: Vec<Task> = lines[start + 1..]
        .iter()
        .take_while(|line| matches!(line.lead, Lead::Number | Lead::Bullet) || line.indent > 0)
        .filter(|line| line.indent < 2 && line.lead != Lead::Plain)
        .map(|line| Task { text: line.text.to_owned(), progress: Progress::Pending })
        .collect();
    (tasks.len() >= 2).then_some(tasks)
}

/// Collects what the model last meant to do, as long as it has not said that it is done.
pub(super) fn last_intentions(digest: &Digest<'_>, from: usize, items: &mut Vec<Item>) {
    const INTENTIONS_MAX: usize = 4;
    let mut found = 0;
    for said in digest.said.iter().rev().take_while(|said| said.at >= from) {
        if said.speaker != Speaker::Assistant || found >= INTENTIONS_MAX {
            continue;
        }
        let lines = text::prose(commands::head(&said.text, 6_000));
        let Some(line) = lines.iter().rev().find(|line| line.lead == Lead::Plain) else { continue };
        let plain = text::plain(line.text);
        let sentences = text::sentences_of(&plain);
        let Some(sentence) = sentences.iter().rev().find(|sentence| statements::is_intention(sentence)) else {
            continue;
        };
        let step = text::clip(&statements::intended(sentence), 240);
        if step.chars().count() < 12 && !step.chars().any(text::is_wide) {
            continue;
        }
        items.push(Item::new(Topic::InProgress, &step, 1.2 - 0.25 * found as f64, said.at));
        found += 1;
    }
}

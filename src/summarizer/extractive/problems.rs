//! Problems: what failed, and whether and how it was put right.

use super::commands::{self, Purpose};
use super::digest::{Action, Digest, Outcome, Speaker};
use super::item::Item;
use super::names;
use super::statements;
use super::text;
use super::tools::Kind;
use crate::policy::Topic;
use std::collections::HashMap;

/// How many of the newest failures are looked at.
const FAILURES_MAX: usize = 200;

/// How many wordings of one program's commands are told apart.
const WORDINGS_MAX: usize = 64;

/// What makes two actions tries of the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Try<'d> {
    /// A command, by its first words; a longer one is tried again by a shorter one.
    Command(Vec<&'d str>),
    /// A tool on a file.
    File(&'d str),
}

fn try_of<'d>(action: &'d Action<'_>) -> Option<Try<'d>> {
    if let Some(command) = &action.call.command {
        let words: Vec<&str> = commands::core(command).split_whitespace().take(8).collect();
        return (!words.is_empty()).then_some(Try::Command(words));
    }
    action.call.paths.first().map(|(path, _)| Try::File(path.as_str()))
}

/// The later successes, by what is tried.
#[derive(Default)]
struct Successes<'d> {
    commands: HashMap<&'d str, Vec<(usize, Vec<&'d str>)>>,
    files: HashMap<&'d str, usize>,
}

impl<'d> Successes<'d> {
    fn add(&mut self, place: usize, tried: Try<'d>) {
        match tried {
            Try::Command(words) => {
                let of_program = self.commands.entry(words[0]).or_default();
                // One per wording, the newest: that is what keeps the list short.
                match of_program.iter().position(|(_, known)| *known == words) {
                    Some(known) => of_program[known].0 = place,
                    None if of_program.len() < WORDINGS_MAX => of_program.push((place, words)),
                    None => {}
                }
            }
            Try::File(path) => {
                self.files.insert(path, place);
            }
        }
    }

    /// Where the same thing worked after `place`.
    fn after(&self, place: usize, tried: &Try<'d>) -> Option<usize> {
        match tried {
            Try::Command(words) => {
                let of_program = self.commands.get(words[0])?;
                of_program
                    .iter()
                    .filter(|(at, known)| *at > place && (words.starts_with(known) || known.starts_with(words)))
                    .map(|(at, _)| *at)
                    .min()
            }
            Try::File(path) => self.files.get(path).copied().filter(|at| *at > place),
        }
    }
}

/// Collects failures: those that still stand as blockers, and those that were put right as lessons.
pub(super) fn collect(digest: &Digest<'_>, items: &mut Vec<Item>) {
    let mut successes = Successes::default();
    for (place, action) in digest.actions.iter().enumerate() {
        if action.outcome == Outcome::Worked
            && let Some(tried) = try_of(action)
        {
            successes.add(place, tried);
        }
    }
    let mut seen: HashMap<Try<'_>, usize> = HashMap::new();
    let failed = digest.actions.iter().enumerate().rev().filter(|(_, action)| action.outcome == Outcome::Failed);
    for (place, action) in failed.take(FAILURES_MAX) {
        let Some(tried) = try_of(action) else { continue };
        let fixed = successes.after(place, &tried);
        let later = seen.entry(tried).or_insert(0);
        *later += 1;
        let is_newest = *later == 1;
        if let Some(item) = describe(digest, place, action, fixed, is_newest) {
            items.push(item);
        }
    }
}

fn describe(
    digest: &Digest<'_>,
    place: usize,
    action: &Action<'_>,
    fixed: Option<usize>,
    is_newest: bool,
) -> Option<Item> {
    let error = text::clip(&commands::error_line(action.output)?, 200);
    let subject = match (&action.call.command, action.call.paths.first()) {
        (Some(command), _) => text::code(&text::clip(&commands::shown(command), 100)),
        (None, Some((path, _))) => format!("{} of {}", action.tool, text::code(names::base_name(path))),
        (None, None) => return None,
    };
    let recency = digest.recency(action.at);
    let error = text::code(&text::defuse(&error));
    let next = digest.actions[place + 1..].iter().take(12);
    let telling = action.purpose != Some(Purpose::Look) && action.call.kind != Kind::Read;
    let worth = if telling { 1.0 } else { 0.45 };
    if fixed.is_none() && is_newest && telling && recency > 0.25 {
        return Some(Item::new(
            Topic::Blocked,
            &format!("{subject} failed: {error}"),
            worth * (0.5 + recency),
            action.at,
        ));
    }
    let remedy = remedy(digest, action, next);
    // A misstep that needed no remedy teaches nothing.
    let remedy = remedy?;
    let score = worth * (0.35 + 0.65 * recency) * 1.1;
    Some(Item::new(Topic::Context, &format!("{subject} failed: {error}; then: {remedy}"), score, action.at))
}

/// What was said and changed right after a failure.
fn remedy<'d>(digest: &Digest<'_>, failed: &Action<'_>, next: impl Iterator<Item = &'d Action<'d>>) -> Option<String> {
    let start = digest.said.partition_point(|said| said.at < failed.at);
    let words = digest.said[start..]
        .iter()
        .skip_while(|said| said.at <= failed.at)
        .take_while(|said| said.at <= failed.at + 6)
        .find(|said| said.speaker == Speaker::Assistant)
        .and_then(|said| statements::gist(&said.text, 160).or_else(|| first_step(&said.text)));
    let mut changed: Vec<&str> = Vec::new();
    for action in next.take_while(|action| action.outcome != Outcome::Failed) {
        for (path, kind) in &action.call.paths {
            let base = names::base_name(path);
            if matches!(kind, Kind::Edit | Kind::Write) && !changed.contains(&base) && changed.len() < 3 {
                changed.push(base);
            }
        }
    }
    let changed: Vec<String> = changed.into_iter().map(text::code).collect();
    match (words, changed.is_empty()) {
        (Some(words), true) => Some(words),
        (Some(words), false) => Some(format!("{} ({})", words.trim_end_matches(['.', ':']), changed.join(", "))),
        (None, false) => Some(format!("changed {}", changed.join(", "))),
        (None, true) => None,
    }
}

fn first_step(words: &str) -> Option<String> {
    let line = text::prose(commands::head(words, 2_000)).into_iter().next()?;
    let plain = text::plain(line.text);
    let steps = text::sentences_of(&plain).into_iter().map(statements::intended);
    steps.map(|step| text::clip(&step, 160)).find(|step| step.chars().count() >= 20)
}

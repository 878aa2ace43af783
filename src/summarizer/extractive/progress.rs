//! Progress: what was asked, turn by turn, and what came of it.

use super::commands::{self, Purpose};
use super::digest::{Action, Digest, Outcome, Said, Speaker};
use super::item::{Item, ORDER_FIRST, ORDER_LAST};
use super::names;
use super::plans;
use super::statements;
use super::text;
use super::tools::Kind;
use crate::policy::Topic;
use std::collections::HashMap;

/// A request and what followed, up to the next request.
struct Episode<'d> {
    request: Option<&'d Said<'d>>,
    start: usize,
    end: usize,
    /// The words after the last tool call, if there are any.
    closing: Option<&'d Said<'d>>,
}

/// Collects goals, finished work and unfinished work. `limit` is how long a request may be quoted; `goes_on` says that
/// the goal is known from an earlier summary.
pub(super) fn collect(digest: &Digest<'_>, limit: usize, goes_on: bool, items: &mut Vec<Item>) {
    let episodes = episodes(digest);
    goals(digest, limit, goes_on, items);
    for (place, episode) in episodes.iter().enumerate() {
        outcome(digest, episode, place + 1 == episodes.len(), items);
    }
    records(digest, items);
    checks(digest, items);
    if let Some(last) = episodes.last() {
        unfinished(digest, last, items);
    }
}

fn episodes<'d>(digest: &'d Digest<'d>) -> Vec<Episode<'d>> {
    let mut starts: Vec<(usize, Option<&Said<'_>>)> = digest.requests().map(|said| (said.at, Some(said))).collect();
    if starts.first().is_none_or(|(at, _)| *at > 0) {
        starts.insert(0, (0, None));
    }
    let mut episodes = Vec::with_capacity(starts.len());
    for (place, (start, request)) in starts.iter().enumerate() {
        let end = starts.get(place + 1).map_or(digest.length, |(next, _)| *next);
        let actions = actions_between(digest, *start, end);
        let worked_until = actions.last().map_or(*start, |action| action.at);
        let first = digest.said.partition_point(|said| said.at < *start);
        let last = digest.said.partition_point(|said| said.at < end);
        let closing =
            digest.said[first..last].iter().rev().find(|said| said.speaker == Speaker::Assistant).filter(|said| {
                (said.at > worked_until || actions.is_empty()) && statements::gist(&said.text, 40).is_some()
            });
        episodes.push(Episode { request: *request, start: *start, end, closing });
    }
    episodes
}

fn actions_between<'d>(digest: &'d Digest<'d>, start: usize, end: usize) -> &'d [Action<'d>] {
    let first = digest.actions.partition_point(|action| action.at < start);
    let last = digest.actions.partition_point(|action| action.at < end);
    &digest.actions[first..last]
}

/// The first request, the latest one, and those between.
fn goals(digest: &Digest<'_>, limit: usize, goes_on: bool, items: &mut Vec<Item>) {
    let requests: Vec<&Said<'_>> = digest.requests().collect();
    let quote = |said: &Said<'_>, limit: usize| text::clip(&request_line(&said.text), limit);
    let mut later = requests.as_slice();
    if !goes_on && let Some((first, rest)) = requests.split_first() {
        items.push(Item::placed(Topic::Goal, &format!("First request: {}", quote(first, limit)), 9.0, ORDER_FIRST));
        later = rest;
    }
    let Some((latest, between)) = later.split_last() else { return };
    items.push(Item::placed(Topic::Goal, &format!("Latest request: {}", quote(latest, limit)), 10.0, ORDER_LAST));
    for said in between {
        let line = quote(said, limit / 3);
        // Long requests change the course; short ones adjust it.
        let weight = (line.chars().count().min(120) as f64 / 120.0).max(0.3);
        let score = weight * (0.3 + 0.7 * digest.recency(said.at));
        items.push(Item::new(Topic::Goal, &format!("Then: {line}"), score, said.at));
    }
}

/// A request on one line: its prose, point by point, without what was pasted into it as code.
fn request_line(words: &str) -> String {
    let mut line = String::new();
    for part in text::prose(commands::head(words, 8_000)) {
        if !line.is_empty() {
            let ended = line.ends_with(['.', '!', '?', ':', ';', ',', '。', '！', '？', '：']);
            line.push_str(if ended { " " } else { "; " });
        }
        line.push_str(&text::one_line(&text::plain(part.text)));
        if line.len() > 6_000 {
            break;
        }
    }
    if line.is_empty() { text::one_line(words) } else { line }
}

/// What a turn came to.
fn outcome(digest: &Digest<'_>, episode: &Episode<'_>, is_last: bool, items: &mut Vec<Item>) {
    let actions = actions_between(digest, episode.start, episode.end);
    let mut changed: Vec<String> = Vec::new();
    for action in actions.iter().filter(|action| action.outcome == Outcome::Worked) {
        for (path, kind) in &action.call.paths {
            let base = text::code(&text::defuse(names::base_name(path)));
            if matches!(kind, Kind::Write | Kind::Edit) && !changed.contains(&base) {
                changed.push(base);
            }
        }
    }
    let closing = episode.closing.filter(|said| !plans::states_plan(&said.text));
    let gist = closing.and_then(|said| statements::gist(&said.text, 200));
    if gist.is_none() && (changed.is_empty() || is_last) {
        return;
    }
    let request = episode.request.map(|said| text::clip(&request_line(&said.text), 90)).unwrap_or_default();
    let more = changed.len().saturating_sub(4);
    changed.truncate(4);
    let mut files = changed.join(", ");
    if more > 0 {
        files.push_str(&format!(" and {more} more"));
    }
    let result = match (gist, files.is_empty()) {
        (Some(gist), true) => gist,
        (Some(gist), false) => format!("{gist} [{files}]"),
        (None, _) => format!("changed {files}"),
    };
    let line = if request.is_empty() { result } else { format!("“{request}”: {result}") };
    let weight = if changed.is_empty() { 0.6 } else { 1.2 };
    items.push(Item::new(
        Topic::Done,
        &line,
        weight * (0.25 + 0.75 * digest.recency(episode.end - 1)),
        episode.end - 1,
    ));
}

/// Commits and other records, and changes made by commands.
fn records(digest: &Digest<'_>, items: &mut Vec<Item>) {
    for action in digest.actions.iter().filter(|action| action.outcome == Outcome::Worked) {
        let Some(command) = &action.call.command else { continue };
        let aged = 0.4 + 0.6 * digest.recency(action.at);
        match action.purpose {
            Some(Purpose::Record) => {
                let commits = commands::commits(action.output);
                for (branch, id, subject) in &commits {
                    let line =
                        format!("Committed {} on {}: {}", text::code(id), text::code(branch), text::clip(subject, 160));
                    items.push(Item::new(Topic::Done, &line, 1.8 * aged, action.at));
                }
                if commits.is_empty() {
                    let line = format!("Ran {}", text::code(&text::clip(&commands::shown(command), 120)));
                    items.push(Item::new(Topic::Done, &line, 0.5 * aged, action.at));
                }
            }
            Some(Purpose::Change) => {
                let shown = text::code(&text::clip(&commands::shown(command), 120));
                let result = commands::result_line(action.output).map(|line| text::clip(&line, 100));
                let line =
                    result.map_or_else(|| format!("Ran {shown}"), |line| format!("Ran {shown}: {}", text::code(&line)));
                items.push(Item::new(Topic::Done, &line, 0.45 * aged, action.at));
            }
            Some(Purpose::Verify | Purpose::Look) | None => {}
        }
    }
}

/// The last run of each test, build and check, by its place, with how often it ran.
fn last_runs(digest: &Digest<'_>) -> Vec<(usize, usize)> {
    let mut last: HashMap<&str, (usize, usize)> = HashMap::new();
    for (place, action) in digest.actions.iter().enumerate() {
        if action.purpose == Some(Purpose::Verify)
            && let Some(command) = &action.call.command
        {
            let entry = last.entry(commands::core(command)).or_insert((place, 0));
            *entry = (place, entry.1 + 1);
        }
    }
    let mut runs: Vec<(usize, usize)> = last.into_values().collect();
    runs.sort_unstable();
    runs
}

/// How the tests, builds and checks stand: the last run of each, and the exact command.
fn checks(digest: &Digest<'_>, items: &mut Vec<Item>) {
    for (place, count) in last_runs(digest) {
        let action = &digest.actions[place];
        if action.outcome != Outcome::Worked {
            continue;
        }
        let Some(command) = &action.call.command else { continue };
        let shown = text::code(&text::clip(&commands::shown(command), 140));
        let result = commands::result_line(action.output)
            .map_or_else(|| "passed".to_owned(), |line| format!("passed ({})", text::code(&text::clip(&line, 100))));
        let often = 1.0 + (count as f64).ln();
        let score = 0.6 * often * (0.2 + 0.8 * digest.recency(action.at));
        items.push(Item::new(Topic::Done, &format!("{shown} {result}"), score, action.at));
    }
}

/// What follows from how things stand, for a conversation in which nobody has said what comes next: the checks that
/// failed since one passed, and the newest check when files have changed since it passed.
pub(super) fn next_steps(digest: &Digest<'_>, items: &mut Vec<Item>) {
    const FAILING_MAX: usize = 3;
    let changes = |action: &Action<'_>| {
        let writes = action.call.paths.iter().any(|(_, kind)| matches!(kind, Kind::Write | Kind::Edit));
        writes && action.outcome == Outcome::Worked
    };
    let runs = last_runs(digest);
    let shown = |action: &Action<'_>| {
        action.call.command.as_deref().map(|command| text::code(&text::clip(&commands::shown(command), 140)))
    };
    let since = runs.iter().rev().map(|(place, _)| &digest.actions[*place]);
    let failing = since.take_while(|action| action.outcome != Outcome::Worked);
    for action in failing.filter(|action| action.outcome == Outcome::Failed).take(FAILING_MAX) {
        // Its error stands among what blocks.
        let Some(command) = shown(action) else { continue };
        let score = 0.3 + 0.7 * digest.recency(action.at);
        items.push(Item::new(Topic::NextSteps, &format!("Get {command} to pass"), score, action.at));
    }
    let Some((newest, _)) = runs.last() else { return };
    let action = &digest.actions[*newest];
    if action.outcome == Outcome::Worked
        && digest.actions[newest + 1..].iter().any(changes)
        && let Some(command) = shown(action)
    {
        let line = format!("Run {command} again: files have changed since it passed");
        items.push(Item::new(Topic::NextSteps, &line, 0.5, action.at));
    }
}

/// What the latest turn leaves open.
fn unfinished(digest: &Digest<'_>, last: &Episode<'_>, items: &mut Vec<Item>) {
    if let Some(said) = digest.said.last().filter(|said| said.speaker == Speaker::Assistant)
        && let Some(question) = text::prose(&said.text).last().filter(|line| line.text.ends_with(['?', '？']))
    {
        let plain = text::plain(question.text);
        let asked = text::sentences_of(&plain).last().map(|sentence| text::clip(sentence, 240)).unwrap_or_default();
        items.push(Item::placed(Topic::InProgress, &format!("Asked the user: {asked}"), 1.6, ORDER_LAST));
    }
    if last.closing.is_some() && last.end > last.start + 1 {
        return;
    }
    if let Some(request) = last.request {
        let line = text::clip(&request_line(&request.text), 200);
        items.push(Item::placed(Topic::InProgress, &format!("Working on: {line}"), 1.5, ORDER_FIRST));
    }
    plans::last_intentions(digest, last.start, items);
    let recorded = digest
        .actions
        .iter()
        .rev()
        .find(|action| action.purpose == Some(Purpose::Record) && action.outcome == Outcome::Worked)
        .map(|action| action.at);
    let since = recorded.unwrap_or(last.start).max(last.start);
    let mut changed: Vec<String> = Vec::new();
    for action in
        actions_between(digest, since, digest.length).iter().filter(|action| action.outcome == Outcome::Worked)
    {
        for (path, kind) in &action.call.paths {
            let base = text::code(&text::defuse(names::base_name(path)));
            if matches!(kind, Kind::Write | Kind::Edit) && !changed.contains(&base) {
                changed.push(base);
            }
        }
    }
    if !changed.is_empty() {
        let more = changed.len().saturating_sub(8);
        changed.truncate(8);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let when = if recorded.is_some() { "Changed since the last commit" } else { "Changed for this request" };
        items.push(Item::placed(Topic::InProgress, &format!("{when}: {}{rest}", changed.join(", ")), 1.4, ORDER_LAST));
    }
    for action in digest.actions.iter().rev().take(8).filter(|action| action.output.is_empty()) {
        if action.outcome != Outcome::Unknown {
            continue;
        }
        let what = action.call.command.as_deref().map(commands::shown);
        let what = what
            .or_else(|| action.call.paths.first().map(|(path, _)| path.clone()))
            .or_else(|| action.call.texts.first().map(|words| text::one_line(words)))
            .unwrap_or_default();
        let line = format!("No result yet: {} {}", action.tool, text::code(&text::clip(&what, 160)));
        items.push(Item::placed(Topic::InProgress, &line, 1.0, ORDER_LAST));
    }
}

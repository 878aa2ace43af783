//! References: what the things are that the user named by an id, such as issues and tickets.
//!
//! A request like "do ABC-12" says nothing without the line in which some output told what ABC-12 is.

use super::commands;
use super::digest::Digest;
use super::item::Item;
use super::text;
use crate::policy::Topic;
use std::collections::BTreeMap;

/// How many ids of the user's are looked up, newest first.
const IDS_MAX: usize = 8;

/// How many lines about them are offered.
const LINES_MAX: usize = 14;

/// How far into an output they are looked for, in bytes.
const READ_BYTES_MAX: usize = 32_768;

/// Collects the newest line about each id that the user named, and about what is numbered under it.
pub(super) fn collect(digest: &Digest<'_>, items: &mut Vec<Item>) {
    let ids = ids(digest);
    let mut found: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for action in &digest.actions {
        let output = commands::head(action.output, READ_BYTES_MAX);
        if !ids.iter().any(|id| output.contains(id)) {
            continue;
        }
        for line in output.lines().filter(|line| line.len() < 400) {
            if let Some(id) = ids.iter().find_map(|id| subject(line, id)) {
                found.insert(id, (action.at, line));
            }
        }
    }
    let mut lines: Vec<(usize, &str)> = found.into_values().collect();
    lines.sort_unstable();
    let skipped = lines.len().saturating_sub(LINES_MAX);
    for (at, line) in lines.into_iter().skip(skipped) {
        let score = 0.8 * (0.5 + 0.5 * digest.recency(at));
        let quoted = text::code(&text::clip(&text::one_line(&text::clean(line)), 200));
        items.push(Item::new(Topic::Context, &quoted, score, at));
    }
}

/// The words of the user's requests that are ids: letters and digits joined by hyphens, or numbered with `#`.
fn ids<'d>(digest: &'d Digest<'_>) -> Vec<&'d str> {
    let requests: Vec<_> = digest.requests().collect();
    let mut ids: Vec<&str> = Vec::new();
    for said in requests.iter().rev().take(12).chain(requests.first()) {
        for word in commands::head(&said.text, 2_000).split(|letter: char| letter.is_whitespace() || letter == ',') {
            let word = word.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '#');
            if is_id(word) && !ids.contains(&word) && ids.len() < IDS_MAX {
                ids.push(word);
            }
        }
    }
    ids
}

fn is_id(word: &str) -> bool {
    let is_numbered = word.strip_prefix('#').is_some_and(|rest| rest.bytes().all(|letter| letter.is_ascii_digit()));
    let is_joined =
        word.contains('-') && word.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"-._".contains(&letter));
    (5..=40).contains(&word.len()) && is_joined && !word.starts_with('-') || word.len() > 1 && is_numbered
}

/// The id, with what numbers it further, if the line is about it: nothing but signs stand before it, and words behind.
fn subject<'l>(line: &'l str, id: &str) -> Option<&'l str> {
    let start = line.find(id)?;
    if start > 24
        || line[..start].contains(|letter: char| letter.is_alphanumeric() || matches!(letter, '[' | '/' | '-' | '+'))
    {
        return None;
    }
    let rest = &line[start..];
    let end = rest.find(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_' | '#')));
    let found = rest[..end?].trim_end_matches(['.', '-']);
    let behind = &rest[found.len()..];
    let words =
        behind.split_whitespace().filter(|word| word.chars().filter(|letter| letter.is_alphabetic()).count() > 1);
    (!behind.starts_with(['/', '(', '=']) && words.count() >= 3).then_some(found)
}

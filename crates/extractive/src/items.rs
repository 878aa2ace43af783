//! Items of a tracker (issues, tickets, beads): title, status, and the requirements in their text.
//!
//! A request like "do ABC-12" is meaningless without that text, which was printed when the item was shown.

use super::commands;
use super::text::{self, Lead};
use super::tools::Progress;
use super::words;
use regex::Regex;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Maximum number of bytes read of an output that shows an item.
const READ_BYTES_MAX: usize = 65_536;

/// Maximum number of bytes read of any other output.
const LISTING_BYTES_MAX: usize = 8_192;

/// Maximum number of points kept of a text, and maximum length of each, in characters.
const POINTS_MAX: usize = 120;
const POINT_CHARS_MAX: usize = 260;

/// Maximum number of items.
const ITEMS_MAX: usize = 400;

/// A point of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Point {
    /// The heading over it, or empty.
    pub(super) group: String,
    /// Its text.
    pub(super) words: String,
}

/// An item, or a document with rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Item {
    /// Its id, without a `#`, or the name of the document.
    pub(super) id: String,
    /// Its title.
    pub(super) title: String,
    /// Its last status.
    pub(super) status: Progress,
    /// Position of that status.
    pub(super) at: i64,
    /// The requirements in its text.
    pub(super) points: Vec<Point>,
}

/// The items of a history.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// In the order of their first mention.
    pub(super) all: Vec<Item>,
    by_id: HashMap<String, usize>,
    /// The newest item beyond the maximum, until the next one.
    dropped: Option<Item>,
}

/// Effect of a command on items.
enum Effect {
    Show,
    Set(Progress),
    Make,
}

/// A status beside an id or in brackets, outside of titles.
static STATUS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)(?P<closed>\b(?:closed|done|completed|resolved|merged)\b|✓|✔|\[x\])
        |(?P<active>\bin[_\ -]progress\b|\bdoing\b|\bstarted\b|◐|◑)|(?P<open>\b(?:open|todo|reopened)\b|○|◯|\[\ \])",
    )
    .expect("a fixed pattern")
});
static BRACKETS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[[^\]]*\]|\([^)]*\)").expect("a fixed pattern"));
static STATUS_LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)^\W*(?:status|state)\W+(.*)$").expect("a fixed pattern"));

impl Items {
    /// Reads a simple command with its output; returns true if it concerns items.
    pub(super) fn command(&mut self, part: &str, output: &str, at: i64) -> bool {
        let Some((deed, ids)) = effect_of(part) else { return false };
        match deed {
            Effect::Make => self.make(part, output, at),
            Effect::Set(status) => {
                let known: Vec<String> = ids.into_iter().filter(|id| self.is_known(id)).collect();
                known.iter().for_each(|id| self.set(id, status, at));
                !known.is_empty()
            }
            Effect::Show => {
                self.show(&ids, &text::clean(commands::head(output, READ_BYTES_MAX)), at);
                true
            }
        }
    }

    /// Reads lines about known items, or about numbered parts of a known one.
    pub(super) fn listing(&mut self, output: &str, at: i64) {
        if self.all.is_empty() {
            return;
        }
        for line in text::clean(commands::head(output, LISTING_BYTES_MAX)).lines().filter(|line| line.len() < 500) {
            self.line(line, at);
        }
    }

    /// The first item with a title whose id is in a text.
    pub(super) fn named_in(&self, words: &str) -> Option<&Item> {
        let mut ids = words.split_whitespace().map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
        let found = ids.find_map(|id| self.by_id.get(id).filter(|position| !self.all[**position].title.is_empty()));
        found.map(|position| &self.all[*position])
    }

    /// An item, created if it is new. New items beyond the maximum are not kept.
    pub(super) fn item(&mut self, id: &str, at: i64) -> &mut Item {
        let id = id.trim_start_matches('#').to_owned();
        if let Some(position) = self.by_id.get(&id) {
            return &mut self.all[*position];
        }
        let item = Item { id, at, ..Item::default() };
        if self.all.len() >= ITEMS_MAX {
            return self.dropped.insert(item);
        }
        let position = self.all.len();
        self.by_id.insert(item.id.clone(), position);
        self.all.push(item);
        &mut self.all[position]
    }

    fn is_known(&self, id: &str) -> bool {
        let parent = id.rsplit_once('.').map(|(parent, _)| parent);
        self.by_id.contains_key(id) || parent.is_some_and(|parent| self.by_id.contains_key(parent))
    }

    /// Adds the item that an output reports as created.
    fn make(&mut self, part: &str, output: &str, at: i64) -> bool {
        static MADE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?i)(?:creat|add|open)ed\b[^\n]*?[\s#]([\w.-]+)\s*$|/issues/(\d+)\s*$")
                .expect("a fixed pattern")
        });
        static TITLE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r#"--title[= ]+["']([^"']+)["']|\s["']([^"']+)["']"#).expect("a fixed pattern")
        });
        let output = text::clean(commands::head(output, LISTING_BYTES_MAX));
        let found = output.lines().find_map(|line| MADE.captures(line.trim_end()));
        let id = found.and_then(|found| found.get(1).or_else(|| found.get(2)).map(|id| id.as_str().to_owned()));
        let Some(id) = id.filter(|id| is_id(id)) else { return false };
        let title = TITLE.captures(part).and_then(|found| found.get(1).or_else(|| found.get(2)));
        let title = text::clip(&text::one_line(title.map_or("", |title| title.as_str())), 160);
        let item = self.item(&id, at);
        (item.title, item.at) = (title, at);
        true
    }

    fn set(&mut self, id: &str, status: Progress, at: i64) {
        let item = self.item(id, at);
        (item.status, item.at) = (status, at);
    }

    /// Reads the texts of items: each begins with a line about it, and ends at the beginning of another's.
    fn show(&mut self, ids: &[String], output: &str, at: i64) {
        let lines: Vec<&str> = output.lines().collect();
        // The first line of a text is not indented; lists of related items are.
        let begins = |position: &usize| {
            Some(lines[*position]).filter(|line| !line.starts_with(char::is_whitespace)).and_then(first_id)
        };
        for id in ids {
            let found = (0..lines.len()).find(|position| begins(position).is_some_and(|(_, word)| word == *id));
            let Some(start) = found.or_else(|| (ids.len() == 1 && !lines.is_empty()).then_some(0)) else { continue };
            let is_rule = |line: &str| line.len() > 2 && line.chars().all(|letter| letter == '=');
            let kin = |word: &str| word != *id && word.split(['-', '.']).next() == id.split(['-', '.']).next();
            let ends =
                |position: &usize| is_rule(lines[*position]) || begins(position).is_some_and(|(_, word)| kin(word));
            let end = (start + 1..lines.len()).find(ends).unwrap_or(lines.len());
            let (head, body) = (lines[start], &lines[start + 1..end]);
            let titled = lines[start..end].iter().find_map(|line| line.strip_prefix("title:"));
            let title = titled.unwrap_or_else(|| title_of(head, id));
            let title = text::clip(&text::one_line(title), 160);
            let status = body.iter().find_map(|line| STATUS_LINE.captures(line)).and_then(|found| status_of(&found[1]));
            let status = status.or_else(|| status_beside(head, id));
            let item = self.item(id, at);
            (item.title, item.at, item.points) = (title, at, points(body));
            item.status = status.unwrap_or(item.status);
        }
        lines.iter().for_each(|line| self.line(line, at));
    }

    fn line(&mut self, line: &str, at: i64) {
        let Some((_, id)) = first_id(line).filter(|(_, id)| self.is_known(id)) else { return };
        let status = status_beside(line, id);
        let is_new = !self.by_id.contains_key(id);
        if status.is_none() && !is_new {
            return;
        }
        let title = text::clip(&text::one_line(title_of(line, id)), 160);
        let item = self.item(id, at);
        if item.title.is_empty() {
            item.title = title;
        }
        if let Some(status) = status {
            (item.status, item.at) = (status, at);
        }
    }
}

/// The effect of a simple command, and its items: a verb among its first words, and ids after it.
fn effect_of(part: &str) -> Option<(Effect, Vec<String>)> {
    const OTHERS: &str = "\
        git docker kubectl systemctl brew apt apt-get npm pnpm yarn cargo mix pip go service make cat grep rg ls \
        sed echo cd rm find python python3 node";
    let words: Vec<&str> = part.split_whitespace().collect();
    if words.first().is_none_or(|program| OTHERS.split(' ').any(|other| other == *program)) {
        return None;
    }
    let verb = (1..words.len().min(4)).find_map(|position| {
        Some((
            position,
            match words[position] {
                "show" | "view" => Effect::Show,
                "create" | "new" => Effect::Make,
                "close" | "done" | "resolve" | "complete" | "finish" => Effect::Set(Progress::Done),
                "reopen" => Effect::Set(Progress::Pending),
                "start" | "claim" | "take" => Effect::Set(Progress::Active),
                "update" | "edit" | "set" | "move" => {
                    let option = words.iter().skip_while(|word| !word.starts_with("--stat") && !word.starts_with("-s"));
                    Effect::Set(status_of(&option.take(2).copied().collect::<Vec<_>>().join(" "))?)
                }
                _ => return None,
            },
        ))
    });
    let (position, deed) = verb?;
    let behind = words[position + 1..].iter().take_while(|word| !word.starts_with('-'));
    let ids: Vec<String> =
        behind.filter(|word| is_id(word)).map(|word| word.trim_start_matches('#').to_owned()).collect();
    (matches!(deed, Effect::Make) || !ids.is_empty()).then_some((deed, ids))
}

/// True for letters and digits with a hyphen between them, such as `ABC-12`, and for a number of at most six digits.
pub(super) fn is_id(word: &str) -> bool {
    let bare = word.trim_start_matches('#');
    let is_number = bare.len() <= 6 && bare.bytes().all(|letter| letter.is_ascii_digit());
    let is_joined = bare.contains('-')
        && bare.contains(|letter: char| letter.is_ascii_alphabetic())
        && bare.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"-._".contains(&letter));
    (1..=40).contains(&bare.len()) && (is_number || is_joined && !bare.starts_with('-'))
}

/// The first word of a line that is an id, with its offset, among its first eight words.
fn first_id(line: &str) -> Option<(usize, &str)> {
    let mut at = 0;
    for word in line.split_inclusive(char::is_whitespace).take(8) {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        if !bare.is_empty() && is_id(bare) && bare.bytes().any(|letter| !letter.is_ascii_digit() && letter != b'.') {
            return Some((at + word.find(bare).unwrap_or(0), bare));
        }
        if let Some(number) = word.trim().strip_prefix('#').map(|rest| rest.trim_end_matches(':'))
            && !number.is_empty()
            && is_id(number)
        {
            return Some((at + 1, number));
        }
        at += word.len();
    }
    None
}

/// The text after an id, without the brackets at its beginning.
fn title_of<'l>(line: &'l str, id: &str) -> &'l str {
    let behind = line.find(id).map_or(line, |at| &line[at + id.len()..]);
    let mut rest = behind.trim_start_matches(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '[' | '('));
    while let Some(found) = BRACKETS.find(rest).filter(|found| found.start() == 0) {
        rest = rest[found.end()..].trim_start_matches([' ', '-', ':', '·']);
    }
    let end = ["   [", " (blocked", " ●", " [●"].iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
    rest[..end].trim()
}

fn status_of(words: &str) -> Option<Progress> {
    let found = STATUS.captures_iter(words).last()?;
    Some(match (found.name("closed"), found.name("active")) {
        (Some(_), _) => Progress::Done,
        (_, Some(_)) => Progress::Active,
        (None, None) => Progress::Pending,
    })
}

/// The status before an id, or in brackets on its line.
fn status_beside(line: &str, id: &str) -> Option<Progress> {
    let at = line.find(id)?;
    let bracketed = BRACKETS.find_iter(&line[at..]).filter(|found| !found.as_str().contains("block"));
    // A tick before words reports a success of another kind.
    let before = &line[..at];
    let is_report = before.contains(['✓', '✔']) && before.contains(char::is_alphabetic);
    let beside = || if is_report { None } else { status_of(before) };
    bracketed.filter_map(|found| status_of(found.as_str())).last().or_else(beside)
}

/// The points of a whole text.
pub(super) fn points_of(text: &str) -> Vec<Point> {
    points(&text.lines().collect::<Vec<_>>())
}

/// The points of a text, each with the heading of its group.
fn points(lines: &[&str]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut group: Option<&str> = None;
    for line in lines.iter().map(|line| unnumbered(line)) {
        // A quotation in a document is set apart, but applies as well.
        let line = line.trim_start().strip_prefix("> ").unwrap_or(line);
        let Some(part) = text::prose(line).into_iter().next() else { continue };
        let is_title = part.indent == 0 && part.text.len() < 60 && part.text.ends_with([':', '：']);
        let shouts = part.text.len() < 30 && part.text.chars().all(|letter| letter.is_uppercase() || letter == ' ');
        if part.lead == Lead::Heading || part.lead == Lead::Plain && (is_title || shouts) {
            group = Some(part.text.trim_end_matches([':', '：']));
            continue;
        }
        let is_relation = line.trim_start().starts_with(['→', '←', '↑', '↓', '↳']);
        // Lines before the first heading state author and time, unless they are rules.
        let is_label = part.lead == Lead::Plain && group.is_none() && !words::is_rule(part.text);
        // A line that leads to a nested list has no meaning alone.
        let leads = part.text.ends_with([':', '：']);
        if is_relation || is_label || leads || points.len() >= POINTS_MAX {
            continue;
        }
        let words = text::clip(&text::one_line(&text::plain(part.text)), POINT_CHARS_MAX);
        points.push(Point { group: group.map(text::one_line).unwrap_or_default(), words });
    }
    points
}

/// A line of a file without the number that some tools print before it.
fn unnumbered(line: &str) -> &str {
    let rest = line.trim_start().trim_start_matches(|letter: char| letter.is_ascii_digit());
    rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t').filter(|_| rest.len() < line.len())).unwrap_or(line)
}

/// The points of a text that fit, selected by their rank as requirements, in the order of the text, by group.
pub(super) fn joined(points: &[Point], limit: usize) -> String {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|at| (words::demand(&points[*at].group, &points[*at].words), *at));
    let mut left = limit;
    let mut kept: Vec<usize> = Vec::new();
    for at in order {
        let cost = points[at].words.chars().count() + 3;
        if cost <= left {
            left -= cost;
            kept.push(at);
        }
    }
    kept.sort_unstable();
    let mut joined = String::new();
    let mut group = "";
    for point in kept.into_iter().map(|at| &points[at]) {
        if !joined.is_empty() {
            joined.push_str("; ");
        }
        if point.group != group && !point.group.is_empty() {
            joined.push_str(&point.group);
            joined.push_str(": ");
        }
        group = &point.group;
        joined.push_str(point.words.trim_end_matches([';', '.']));
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_beyond_the_maximum_leave_the_others_alone() {
        let mut items = Items::default();
        for number in 0..ITEMS_MAX + 2 {
            let item = items.item(&format!("proj-{number}"), 1);
            (item.title, item.status) = (format!("title {number}"), Progress::Active);
        }
        assert_eq!(items.all.len(), ITEMS_MAX);
        let last = items.all.last().map(|item| (item.id.clone(), item.title.clone()));
        let number = ITEMS_MAX - 1;
        assert_eq!(last, Some((format!("proj-{number}"), format!("title {number}"))));
        assert!(items.all.iter().all(|item| item.id != format!("proj-{ITEMS_MAX}")));
    }
}

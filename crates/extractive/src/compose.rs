//! Composition: selects the lines that fit the budget, and renders the sections.

use super::text::{self, Fingerprint};
use longhand_core::policy::tokens::length_per_token;
use longhand_core::policy::{Bullet, Counting, LengthUnit, Section, Summary, SummaryFormat, Topic};
use std::collections::HashMap;

/// Each topic's share of the budget, in percent, in the order in which the remainder is offered to them. Files are
/// lists: they get no more than their share.
const SHARES: [(Topic, usize); 10] = [
    (Topic::Goal, 14),
    (Topic::InProgress, 18),
    (Topic::NextSteps, 11),
    (Topic::Files, 6),
    (Topic::Constraints, 25),
    (Topic::Blocked, 4),
    (Topic::Done, 22),
    (Topic::Context, 12),
    (Topic::Decisions, 8),
    (Topic::OpenDecisions, 4),
];

/// Maximum number of candidates of a topic. No budget holds more.
const CANDIDATES_MAX: usize = 250;

/// A topic's part of a budget of this length.
pub(super) fn part(topic: Topic, units: usize) -> usize {
    SHARES.iter().find(|(known, _)| *known == topic).map_or(0, |(_, share)| units * share / 100)
}

/// One line of a section, before the selection.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Its topic.
    pub(super) topic: Topic,
    /// Its text: one line without structure, and without a bullet.
    pub(super) text: String,
    /// Its shorter forms, in order of falling length.
    pub(super) shorter: Vec<String>,
    /// Its importance among the items of its topic.
    pub(super) score: f64,
    /// Its place among them, ascending.
    pub(super) order: Order,
}

/// The place of a line among those of its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Before all others.
    First,
    /// What comes next, before the lines that say why.
    Next,
    /// By the position of its fact in the history.
    At(i64),
    /// Behind the history, by rank.
    Rank(usize),
    /// The state at the end of the history.
    State,
    /// What the user did or was asked last.
    Last,
}

impl Item {
    /// Creates an item with its importance and order.
    pub(super) fn new(topic: Topic, text: &str, score: f64, order: Order) -> Self {
        Self { topic, text: text::defuse(text), shorter: Vec::new(), score, order }
    }

    /// Adds a shorter form, used if the longer ones do not fit.
    pub(super) fn or(mut self, shorter: &str) -> Self {
        self.shorter.push(text::defuse(shorter));
        self
    }
}

/// Format of the sections of a summary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    /// Its sections, in order.
    pub(super) sections: &'a [Section],
    /// Text of an empty section.
    filler: &'a str,
    /// The element around all sections, if sections are elements; otherwise they have headings.
    root: Option<&'a str>,
}

impl<'a> Form<'a> {
    /// The format that the rules ask for.
    pub(super) fn of(rules: &'a Summary) -> Self {
        let root = match &rules.format {
            SummaryFormat::Elements { root } => Some(root.as_str()),
            SummaryFormat::Headings | SummaryFormat::Prose => None,
        };
        Self { sections: &rules.sections, filler: &rules.filler, root }
    }

    /// The same filler with other sections under headings.
    pub(super) fn headings(self, sections: &'a [Section]) -> Self {
        Self { sections, filler: self.filler, root: None }
    }
}

/// A limit on the length of a text, with its unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// The unit of length.
    pub(crate) unit: LengthUnit,
    /// The number of units.
    pub(crate) units: usize,
}

impl Budget {
    /// The length limit for a number of tokens.
    pub(crate) fn of(counting: &Counting, tokens: i64) -> Self {
        let per_token = usize::try_from(length_per_token(counting)).unwrap_or(1);
        let units = usize::try_from(tokens.max(0)).unwrap_or(0).saturating_mul(per_token);
        Self { unit: counting.unit, units }
    }

    /// The length of a text.
    pub(crate) fn measure(self, text: &str) -> usize {
        match self.unit {
            LengthUnit::Utf16 => text.chars().map(char::len_utf16).sum(),
            LengthUnit::CodePoints => text.chars().count(),
            LengthUnit::Bytes => text.len(),
        }
    }
}

/// The length of an empty summary: its headings and fillers.
pub(super) fn frame(form: Form<'_>, budget: Budget) -> usize {
    budget.measure(&render(form, &HashMap::new()))
}

/// Writes a summary. It has every section, unless not even their headings fit.
pub(super) fn compose(form: Form<'_>, budget: Budget, items: Vec<Item>, focus: &Fingerprint) -> String {
    let free = budget.units.saturating_sub(frame(form, budget));
    let mut selection = Selection { sections: form.sections, budget, left: free, taken: Vec::new() };
    let mut candidates = ranked(items, focus);
    // The remainder is shared out in the same way, then offered to each topic in turn, but not to lists.
    for _ in 0..2 {
        let left = selection.left;
        for (topic, _) in SHARES {
            selection.fill(&mut candidates, topic, part(topic, left));
        }
    }
    for (topic, _) in SHARES.into_iter().filter(|(topic, _)| *topic != Topic::Files) {
        selection.restore_full_texts(topic);
        selection.fill(&mut candidates, topic, selection.left);
    }
    truncated_to(render(form, &selection.lines()), budget)
}

/// An item with a fingerprint of its text, to detect repetitions.
struct Candidate {
    item: Item,
    /// Its full text, if a shorter form was taken.
    wanted: Option<String>,
    fingerprint: Fingerprint,
}

/// Sorts by importance, which is doubled for items that match the custom instructions, and keeps the best of each
/// topic.
fn ranked(mut items: Vec<Item>, focus: &Fingerprint) -> Vec<Candidate> {
    items.retain(|item| !item.text.is_empty());
    if !focus.is_empty() {
        for item in items.iter_mut().filter(|item| Fingerprint::of(&item.text).touches(focus)) {
            item.score *= 2.0;
        }
    }
    let newest_first = |left: &Item, right: &Item| {
        let by_score = right.score.total_cmp(&left.score);
        by_score.then_with(|| right.order.cmp(&left.order)).then_with(|| left.text.cmp(&right.text))
    };
    items.sort_by(newest_first);
    let mut counts: HashMap<Topic, usize> = HashMap::new();
    items.retain(|item| {
        let count = counts.entry(item.topic).or_default();
        *count += 1;
        *count <= CANDIDATES_MAX
    });
    items.into_iter().map(|item| Candidate { fingerprint: Fingerprint::of(&item.text), wanted: None, item }).collect()
}

/// The lines selected so far, and the remaining budget.
struct Selection<'a> {
    sections: &'a [Section],
    budget: Budget,
    left: usize,
    taken: Vec<(usize, Candidate)>,
}

impl Selection<'_> {
    /// Moves the best items of a topic that fit into `limit` units from the candidates to the selection.
    fn fill(&mut self, candidates: &mut Vec<Candidate>, topic: Topic, limit: usize) {
        let Some(section) = section_for(self.sections, topic) else { return };
        let mut left = limit.min(self.left);
        let mut rest = Vec::with_capacity(candidates.len());
        for mut candidate in std::mem::take(candidates) {
            if candidate.item.topic != topic {
                rest.push(candidate);
                continue;
            }
            let fits = |text: &&String| self.cost(section, text) <= left;
            let text = std::iter::once(&candidate.item.text).chain(&candidate.item.shorter).find(fits).cloned();
            let Some(text) = text else {
                rest.push(candidate);
                continue;
            };
            // An item that does not fit now may fit into the remainder.
            candidate.wanted = Some(std::mem::replace(&mut candidate.item.text, text));
            let cost = self.cost(section, &candidate.item.text);
            if !self.taken.iter().any(|(place, other)| *place == section && repeats(&candidate, other)) {
                left -= cost;
                self.left -= cost;
                self.taken.push((section, candidate));
            }
        }
        *candidates = rest;
    }

    /// Restores the full text of selected items, in the order of their selection, as far as it fits.
    fn restore_full_texts(&mut self, topic: Topic) {
        for position in 0..self.taken.len() {
            let (section, candidate) = &self.taken[position];
            let Some(wanted) = candidate.wanted.as_ref().filter(|_| candidate.item.topic == topic) else { continue };
            let more = self.cost(*section, wanted).saturating_sub(self.cost(*section, &candidate.item.text));
            if more <= self.left {
                self.left -= more;
                let candidate = &mut self.taken[position].1;
                candidate.item.text = candidate.wanted.take().unwrap_or_default();
            }
        }
    }

    fn cost(&self, section: usize, text: &str) -> usize {
        let bullet = match self.sections[section].bullet {
            Bullet::Dash => 2,
            Bullet::Checked | Bullet::Unchecked => 6,
            Bullet::Number => 5,
        };
        self.budget.measure(text) + bullet + 1
    }

    /// The lines of each section, in their order.
    fn lines(mut self) -> HashMap<usize, Vec<String>> {
        self.taken.sort_by(|(left_section, left), (right_section, right)| {
            let position = |item: &Item| (item.topic as usize, item.order);
            let by_position =
                left_section.cmp(right_section).then_with(|| position(&left.item).cmp(&position(&right.item)));
            by_position.then_with(|| left.item.text.cmp(&right.item.text))
        });
        let mut lines: HashMap<usize, Vec<String>> = HashMap::new();
        for (section, candidate) in self.taken {
            lines.entry(section).or_default().push(candidate.item.text);
        }
        lines
    }
}

/// True if another item of the section already states the item's text. Only quoted statements are compared by their
/// words: other facts are unique by subject and may have similar wording.
fn repeats(candidate: &Candidate, other: &Candidate) -> bool {
    let is_words = matches!(candidate.item.topic, Topic::Constraints | Topic::Decisions | Topic::Context);
    candidate.item.text == other.item.text || is_words && candidate.fingerprint.is_restated_by(&other.fingerprint)
}

/// The index of a topic's section, or of the next best one that the rules have.
fn section_for(sections: &[Section], topic: Topic) -> Option<usize> {
    let next_best: &[Topic] = match topic {
        Topic::Goal => &[Topic::Context],
        Topic::Constraints => &[Topic::Goal, Topic::Context],
        Topic::Done => &[Topic::InProgress, Topic::Context],
        Topic::InProgress => &[Topic::NextSteps, Topic::Done, Topic::Context],
        Topic::Blocked => &[Topic::InProgress, Topic::NextSteps, Topic::Done, Topic::Context],
        Topic::Decisions => &[Topic::Context, Topic::Done],
        Topic::OpenDecisions => &[Topic::InProgress, Topic::NextSteps, Topic::Context],
        Topic::NextSteps => &[Topic::InProgress, Topic::Done, Topic::Context],
        Topic::Context => &[Topic::Files, Topic::Decisions, Topic::Done],
        Topic::Files => &[Topic::Context],
    };
    std::iter::once(&topic)
        .chain(next_best)
        .find_map(|wanted| sections.iter().position(|section| section.topic == Some(*wanted)))
}
/// Renders headings and lines. A section without lines has the filler.
fn render(form: Form<'_>, lines: &HashMap<usize, Vec<String>>) -> String {
    let sections: Vec<String> = form
        .sections
        .iter()
        .enumerate()
        .map(|(position, section)| {
            let body = body(section, form.filler, lines.get(&position));
            match form.root {
                None => format!("{}\n{body}", section.heading),
                Some(_) => format!("<{0}>\n{body}</{0}>\n", section.heading),
            }
        })
        .collect();
    match form.root {
        None => sections.join("\n").trim_end().to_owned(),
        Some(root) => format!("<{root}>\n{}</{root}>", sections.concat()),
    }
}

/// The lines of one section; one that only groups others has none.
fn body(section: &Section, filler: &str, lines: Option<&Vec<String>>) -> String {
    if section.topic.is_none() {
        return String::new();
    }
    let Some(lines) = lines else { return format!("- {filler}\n") };
    let line = |(number, line): (usize, &String)| match section.bullet {
        Bullet::Dash => format!("- {line}\n"),
        Bullet::Checked => format!("- [x] {line}\n"),
        Bullet::Unchecked => format!("- [ ] {line}\n"),
        Bullet::Number => format!("{}. {line}\n", number + 1),
    };
    lines.iter().enumerate().map(line).collect()
}

/// Truncates the text if the budget does not even hold the headings.
fn truncated_to(text: String, budget: Budget) -> String {
    if budget.measure(&text) <= budget.units {
        return text;
    }
    let mut used = 0;
    let end = text.char_indices().find_map(|(at, letter)| {
        used += budget.measure(letter.encode_utf8(&mut [0; 4]));
        (used > budget.units).then_some(at)
    });
    // A truncated heading would read as another heading.
    let kept = &text[..end.unwrap_or(text.len())];
    kept.rfind('\n').map_or_else(String::new, |line| kept[..line].trim_end().to_owned())
}

//! Composition: which items get the room there is, and how the text is put together.

use super::catalogue;
use super::item::{Item, ORDER_LAST};
use super::ledger::Ledger;
use super::text::Fingerprint;
use crate::policy::{Bullet, Counting, LengthUnit, Section, Summary, SummaryFormat, TextWeight, Topic};
use std::collections::HashMap;

/// Each topic's share of the room, in percent; what one leaves, the others may take. The rest is the catalogue's.
const SHARES: [(Topic, usize); 8] = [
    (Topic::Goal, 11),
    (Topic::InProgress, 7),
    (Topic::NextSteps, 7),
    (Topic::Blocked, 5),
    (Topic::Constraints, 7),
    (Topic::Decisions, 8),
    (Topic::Context, 12),
    (Topic::Done, 15),
];

/// The catalogue's share of the room, in percent.
const CATALOGUE_SHARE: usize = 28;

/// What weighs less says nothing.
const SCORE_MIN: f64 = 0.12;

/// How many items of a topic are looked at. No budget holds more.
const CANDIDATES_MAX: usize = 250;

/// What a token holds at least, by length, where tokens are counted exactly: names and numbers break into small ones.
const EXACT_UNITS: u32 = 2;

/// How the sections of a summary are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    /// Its sections, in order.
    pub(super) sections: &'a [Section],
    /// What an empty one says.
    filler: &'a str,
    /// The element around all of them, where sections are elements; otherwise they have headings.
    root: Option<&'a str>,
}

impl<'a> Form<'a> {
    /// The form that rules ask for.
    pub(super) fn of(rules: &'a Summary) -> Self {
        let root = match &rules.format {
            SummaryFormat::Elements { root } => Some(root.as_str()),
            SummaryFormat::Headings | SummaryFormat::Prose => None,
        };
        Self { sections: &rules.sections, filler: &rules.filler, root }
    }

    /// Headings over other sections, with the same filler.
    pub(super) fn headings(self, sections: &'a [Section]) -> Self {
        Self { sections, filler: self.filler, root: None }
    }
}

/// What a summary is made from.
pub(super) struct Material<'a> {
    /// The lines that compete.
    pub(super) items: Vec<Item>,
    /// Files and names.
    pub(super) ledger: &'a Ledger,
    /// What the person who asked wants the summary to dwell on.
    pub(super) focus: Fingerprint,
}

/// How long texts are, and how much there may be.
#[derive(Debug, Clone, Copy)]
pub(in crate::summarizer) struct Room {
    /// What a length counts.
    pub(in crate::summarizer) unit: LengthUnit,
    /// How many of those there may be.
    pub(in crate::summarizer) units: usize,
}

impl Room {
    /// The room that a number of tokens gives.
    pub(in crate::summarizer) fn of(counting: &Counting, tokens: i64) -> Self {
        let per_token = match &counting.text {
            TextWeight::Length | TextWeight::Mixed { .. } => counting.units_per_token.max(1),
            TextWeight::Bpe { .. } | TextWeight::Vocabulary { .. } => EXACT_UNITS,
        };
        let per_token = usize::try_from(per_token).unwrap_or(1);
        let units = usize::try_from(tokens.max(0)).unwrap_or(0).saturating_mul(per_token);
        Self { unit: counting.unit, units }
    }

    /// How long a text is.
    pub(in crate::summarizer) fn measure(self, text: &str) -> usize {
        match self.unit {
            LengthUnit::Utf16 => text.chars().map(char::len_utf16).sum(),
            LengthUnit::CodePoints => text.chars().count(),
            LengthUnit::Bytes => text.len(),
        }
    }
}

/// How long a summary is that says nothing: its headings and fillers.
pub(super) fn frame(form: Form<'_>, room: Room) -> usize {
    room.measure(&render(form, &HashMap::new()))
}

/// Writes a summary. It has every section, unless there is not even room for their headings.
pub(super) fn compose(form: Form<'_>, room: Room, material: Material<'_>) -> String {
    let measure = |text: &str| room.measure(text);
    let free = room.units.saturating_sub(frame(form, room));
    let mut selection = Selection::new(form.sections, free, &measure);
    let mut candidates = weigh(material.items, &material.focus);
    for (topic, share) in SHARES {
        selection.fill(&mut candidates, topic, free * share / 100);
    }
    // What the shares leave goes to statements and to the catalogue, half and half.
    let reserved = free * CATALOGUE_SHARE / 100;
    let mut spare = selection.left.saturating_sub(reserved) / 2;
    for (topic, _) in SHARES {
        let before = selection.left;
        selection.fill(&mut candidates, topic, spare * 2 / 3);
        spare -= before - selection.left;
    }
    for item in catalogue::compose(material.ledger, selection.left, &measure) {
        selection.force(item);
    }
    let text = render(form, &selection.sections());
    cut_to(text, room)
}

/// An item with what it says, to tell whether another says the same.
#[derive(Debug, Clone)]
struct Candidate {
    item: Item,
    says: Fingerprint,
}

/// Sorts by weight, what the summary is to dwell on first, and keeps the best of each topic.
fn weigh(mut items: Vec<Item>, focus: &Fingerprint) -> Vec<Candidate> {
    if !focus.is_empty() {
        for item in &mut items {
            if Fingerprint::of(&item.text).touches(focus) {
                item.score *= 2.0;
            }
        }
    }
    items.retain(|item| item.score >= SCORE_MIN && !item.text.is_empty());
    items.sort_by(|left, right| {
        right
            .score
            .total_cmp(&left.score)
            .then_with(|| left.order.cmp(&right.order))
            .then_with(|| left.text.cmp(&right.text))
    });
    let mut counts: HashMap<Topic, usize> = HashMap::new();
    items.retain(|item| {
        let count = counts.entry(item.topic).or_default();
        *count += 1;
        *count <= CANDIDATES_MAX
    });
    let mut candidates: Vec<Candidate> =
        items.into_iter().map(|item| Candidate { says: Fingerprint::of(&item.text), item }).collect();
    drop_finished(&mut candidates);
    candidates
}

/// Takes away next steps that something finished since then covers.
fn drop_finished(candidates: &mut Vec<Candidate>) {
    let done: Vec<(i64, Fingerprint)> = candidates
        .iter()
        .filter(|candidate| candidate.item.topic == Topic::Done)
        .map(|candidate| (candidate.item.order, candidate.says.clone()))
        .collect();
    candidates.retain(|candidate| {
        candidate.item.topic != Topic::NextSteps
            || !done.iter().any(|(at, says)| *at >= candidate.item.order && candidate.says.is_said_by(says))
    });
}

struct Selection<'a> {
    sections: &'a [Section],
    measure: &'a dyn Fn(&str) -> usize,
    left: usize,
    taken: Vec<(usize, Candidate)>,
}

impl<'a> Selection<'a> {
    fn new(sections: &'a [Section], left: usize, measure: &'a dyn Fn(&str) -> usize) -> Self {
        Self { sections, measure, left, taken: Vec::new() }
    }

    /// Takes the best items of a topic while `share` lasts. Items that are taken or repeat another are taken out.
    fn fill(&mut self, candidates: &mut Vec<Candidate>, topic: Topic, share: usize) {
        let Some(section) = section_for(self.sections, topic) else { return };
        let mut share = share.min(self.left);
        candidates.retain(|candidate| {
            if candidate.item.topic != topic {
                return true;
            }
            if self.taken.iter().any(|(_, other)| repeats(candidate, other)) {
                return false;
            }
            let cost = self.cost(section, &candidate.item.text);
            if cost > share {
                return true;
            }
            share -= cost;
            self.left -= cost;
            self.taken.push((section, candidate.clone()));
            false
        });
    }

    /// Takes an item if it fits at all.
    fn force(&mut self, item: Item) {
        let Some(section) = section_for(self.sections, item.topic) else { return };
        let cost = self.cost(section, &item.text);
        if cost <= self.left {
            self.left -= cost;
            self.taken.push((section, Candidate { says: Fingerprint::default(), item }));
        }
    }

    fn cost(&self, section: usize, text: &str) -> usize {
        let bullet = match self.sections[section].bullet {
            Bullet::Dash => 2,
            Bullet::Checked | Bullet::Unchecked => 6,
            Bullet::Number => 5,
        };
        (self.measure)(text) + bullet + 1
    }

    /// The lines of each section, in their order.
    fn sections(mut self) -> HashMap<usize, Vec<String>> {
        self.taken.sort_by(|(left_section, left), (right_section, right)| {
            let rank =
                |item: &Item| (item.order >= ORDER_LAST && item.topic != Topic::Goal, item.topic as usize, item.order);
            left_section
                .cmp(right_section)
                .then_with(|| rank(&left.item).cmp(&rank(&right.item)))
                .then_with(|| left.item.text.cmp(&right.item.text))
        });
        let mut lines: HashMap<usize, Vec<String>> = HashMap::new();
        for (section, candidate) in self.taken {
            lines.entry(section).or_default().push(candidate.item.text);
        }
        lines
    }
}

/// Whether an item says what another one says already. A request may be repeated as what is being worked on, and for
/// what it forbids: a goal fades behind later ones, and those must not fade with it.
fn repeats(candidate: &Candidate, other: &Candidate) -> bool {
    let may_repeat = matches!(
        (candidate.item.topic, other.item.topic),
        (Topic::InProgress, Topic::Goal) | (Topic::Constraints, Topic::Goal | Topic::InProgress)
    );
    if may_repeat {
        return false;
    }
    candidate.says.is_empty() || candidate.says.is_said_by(&other.says)
}

/// The section for a topic, or the next best one that the rules have.
fn section_for(sections: &[Section], topic: Topic) -> Option<usize> {
    let next_best: &[Topic] = match topic {
        Topic::Goal => &[Topic::Context],
        Topic::Constraints => &[Topic::Goal, Topic::Context],
        Topic::Done => &[Topic::InProgress, Topic::Context],
        Topic::InProgress => &[Topic::NextSteps, Topic::Done, Topic::Context],
        Topic::Blocked => &[Topic::InProgress, Topic::Context],
        Topic::Decisions => &[Topic::Context, Topic::Done],
        Topic::NextSteps => &[Topic::InProgress, Topic::Context],
        Topic::Context => &[Topic::Files, Topic::Decisions, Topic::Done],
        Topic::Files => &[Topic::Context],
    };
    std::iter::once(&topic)
        .chain(next_best)
        .find_map(|wanted| sections.iter().position(|section| section.holds == Some(*wanted)))
}

/// Puts headings and lines together. A section without lines says so.
fn render(form: Form<'_>, lines: &HashMap<usize, Vec<String>>) -> String {
    let sections: Vec<String> = form
        .sections
        .iter()
        .enumerate()
        .map(|(place, section)| {
            let body = body(section, form.filler, lines.get(&place));
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

/// The lines of one section; one that stands over others has none.
fn body(section: &Section, filler: &str, lines: Option<&Vec<String>>) -> String {
    if section.holds.is_none() {
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

/// The last resort for a budget that does not even hold the headings.
fn cut_to(text: String, room: Room) -> String {
    if room.measure(&text) <= room.units {
        return text;
    }
    let mut used = 0;
    let end = text.char_indices().find_map(|(at, letter)| {
        used += room.measure(letter.encode_utf8(&mut [0; 4]));
        (used > room.units).then_some(at)
    });
    // Half a heading would be a heading of its own.
    let cut = &text[..end.unwrap_or(text.len())];
    cut.rfind('\n').map_or_else(String::new, |line| cut[..line].trim_end().to_owned())
}

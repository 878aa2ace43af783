//! Composition: selects the lines that fit the budget, and renders the sections.
//!
//! What people typed comes first, within its share, and facts of tools in a share of the rest. What is left goes to any
//! lines. Each time, the lines that add most for their length come first ([`super::coverage`]).

use super::coverage::{Coverage, Terms};
use super::{denials, statements::head_of, text};
use longhand_core::policy::{Bullet, Counting, Section, Summary, SummaryFormat, Topic, tokens::text_units};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Shares of the budget, in percent: in which all that people typed stays, or else pieces of it before they compete
/// with other lines; and, of the rest, in which the newest work and changed states stay.
const TYPED_SHARE: usize = 60;
const STATES_SHARE: usize = 40;

/// Part of the budget in which the newest request stays whole if not all that people typed fits: a twelfth.
const NEWEST_PART: usize = 12;

/// Characters around each line that count in what it costs, and around a piece in the line of its neighbour.
const LINE_CHARS: f64 = 24.0;
const JOINT_CHARS: f64 = 5.0;

/// Weights of what people typed, of what a later statement replaces, and of what the requester's instructions mention;
/// and the worth of words that no other line has, relative to others, where tools work: what matters is named again.
const TYPED_WEIGHT: f64 = 1.5;
const REPLACED_WEIGHT: f64 = 0.15;
const FOCUS_WEIGHT: f64 = 2.0;
const SINGLE_WORTH: f64 = 0.4;

pub(super) const BETWEEN: &str = " · ";

/// The mark behind a statement that a later one replaces.
pub(super) const REPLACED: &str = " (replaced below)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Fact,
    /// A person, whose whole text it is, or a piece of it.
    Typed,
    TypedPiece,
    /// An agent, or a summary by somebody else.
    Said,
}

/// One line of a section, before the selection.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) topic: Topic,
    /// Its text: one line without structure, and without a bullet.
    pub(super) text: String,
    pub(super) score: f64,
    pub(super) order: Order,
    pub(super) origin: Origin,
    /// The statement without labels, if a later one may replace it.
    pub(super) statement: Option<String>,
    pub(super) kept: bool,
    /// True if it tells the newest work, or a new state of something: which of its known words still hold is news.
    pub(super) is_state: bool,
    /// What stands once before all lines that have it, which share one line; empty for none.
    pub(super) head: String,
}

/// The place of a line among those of its topic: the position of its fact in the history, and its number there. Of each
/// text of a person numbers begin anew at a multiple of `TEXT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Order(pub(super) i64, pub(super) usize);

pub(super) const TEXT: usize = 1 << 20;

impl Order {
    /// The text that a line is from.
    fn text(self) -> (i64, usize) {
        (self.0, self.1 / TEXT)
    }

    pub(super) fn at(at: i64) -> Self {
        Self(at, 0)
    }
}

impl Item {
    /// Creates a fact with its importance and order.
    pub(super) fn new(topic: Topic, text: &str, score: f64, order: Order) -> Self {
        let (text, origin, statement, head) = (text::defuse(text), Origin::Fact, None, String::new());
        Self { topic, text, score, order, origin, statement, kept: false, is_state: false, head }
    }

    /// Its words, with true if its pieces have them once more.
    fn words(&self) -> (&str, bool) {
        (self.statement.as_deref().unwrap_or(&self.text), self.origin == Origin::Typed)
    }

    /// The text of which it is a piece.
    fn piece_of(&self) -> Option<(i64, usize)> {
        matches!(self.origin, Origin::TypedPiece | Origin::Said).then_some(self.order.text())
    }

    /// The line of an earlier piece of the same text, with this one behind it.
    fn joined(&self, before: &Self, line: &str) -> Option<String> {
        if !self.head.is_empty() {
            return (self.head == before.head).then(|| format!("{line}{BETWEEN}{}", self.text));
        }
        if self.piece_of()? != before.piece_of()? {
            return None;
        }
        let mark = if self.text.ends_with(REPLACED) { REPLACED } else { "" };
        let (line, words) = (line.strip_suffix(mark)?, self.text.strip_suffix(mark)?);
        let quoted = words.strip_prefix('“').and_then(|words| Some((line.strip_suffix('”')?, words)));
        let (line, words) = quoted.unwrap_or((line, words));
        if line.ends_with(REPLACED) {
            return None;
        }
        let head = head_of(words);
        let words = if line.contains(head) { &words[head.len()..] } else { words };
        let between = if self.order.1 == before.order.1 + 1 { " " } else { " … " };
        Some(format!("{line}{between}{words}{mark}"))
    }

    /// The same line as the words of somebody, without labels and quotation marks in `statement`.
    pub(super) fn said_by(mut self, origin: Origin, statement: &str) -> Self {
        (self.origin, self.statement) = (origin, Some(statement.to_owned()));
        self
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) sections: &'a [Section],
    /// Text of an empty section. If it is empty too, such sections are left out.
    pub(super) filler: &'a str,
    /// The element around all sections, if sections are elements; otherwise they have headings.
    pub(super) root: Option<&'a str>,
}

impl<'a> Form<'a> {
    pub(super) fn from_rules(rules: &'a Summary) -> Self {
        let root = match &rules.format {
            SummaryFormat::Elements { root } => Some(root.as_str()),
            SummaryFormat::Headings | SummaryFormat::Prose => None,
        };
        Self { sections: &rules.sections, filler: &rules.filler, root }
    }
}

/// A limit on the length of a text, by the counting of a policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget<'a> {
    counting: &'a Counting,
    pub(crate) units: usize,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(counting: &'a Counting, tokens: i64) -> Self {
        let per_token = usize::try_from(counting.units_per_token.max(1)).unwrap_or(1);
        Self { counting, units: usize::try_from(tokens.max(0)).unwrap_or(0).saturating_mul(per_token) }
    }

    pub(crate) fn with(self, units: usize) -> Self {
        Self { units, ..self }
    }

    pub(crate) fn measure(self, text: &str) -> usize {
        usize::try_from(text_units(self.counting, text)).unwrap_or(0)
    }

    pub(crate) fn chars(self) -> usize {
        const SAMPLE: &str =
            "The importer in `src/reader.rs` reads 20 rows, then it closes the file and reports what failed.";
        self.units * SAMPLE.len() / self.measure(SAMPLE).max(1)
    }
}

/// The length of an empty summary: its headings and fillers.
pub(super) fn frame(form: Form<'_>, budget: Budget<'_>) -> usize {
    budget.measure(&render(form, &HashMap::new()))
}

/// Writes a summary. It has every section that the form asks for, unless not even their headings fit.
pub(super) fn compose(form: Form<'_>, budget: Budget<'_>, items: Vec<Item>, focus: &str) -> String {
    let mut selection = Selection::new(form, budget, items, focus);
    selection.typed(selection.left * TYPED_SHARE / 100);
    selection.states();
    selection.cover(|_| true);
    // Lines are measured one by one, and the whole may be shorter or longer.
    for _ in 0..3 {
        let used = budget.measure(&selection.fitting());
        selection.left = budget.units.saturating_sub(used);
        if selection.left * 100 <= budget.units {
            break;
        }
        selection.cover(|_| true);
    }
    truncated_to(selection.fitting(), budget)
}

/// Writes one section of what people typed, as much as fits by what it adds, with the places of its lines.
pub(super) fn compose_typed(form: Form<'_>, budget: Budget<'_>, items: Vec<Item>) -> (String, Vec<Order>) {
    let mut selection = Selection::new(form, budget, items, "");
    selection.typed(selection.left);
    let text = selection.fitting();
    let places = selection.placed().into_iter().map(|(_, place, _)| place).collect();
    if selection.order.is_empty() { Default::default() } else { (text, places) }
}

struct Candidate {
    item: Item,
    terms: Terms,
    weight: f64,
    /// The factor of words that no other line has.
    single: f64,
    /// Its section; none if the form has none for it.
    section: Option<usize>,
    size: f64,
    is_taken: bool,
}

struct Selection<'a> {
    form: Form<'a>,
    budget: Budget<'a>,
    left: usize,
    candidates: Vec<Candidate>,
    /// The candidates in the order in which they were taken.
    order: Vec<usize>,
    coverage: Coverage,
    /// The texts of which a piece is there.
    begun: HashSet<(i64, usize)>,
    heads: HashSet<String>,
}

impl<'a> Selection<'a> {
    fn new(form: Form<'a>, budget: Budget<'a>, mut items: Vec<Item>, focus: &str) -> Self {
        items.retain(|item| !item.text.is_empty());
        // Of lines that add as much, the more important one comes first.
        items.sort_by(|left, right| {
            let by_score = right.score.total_cmp(&left.score).then_with(|| right.order.cmp(&left.order));
            by_score.then_with(|| left.text.cmp(&right.text))
        });
        let (coverage, mut all) = Coverage::from_texts(items.iter().map(Item::words).chain([(focus, true)]));
        let focus = all.pop().unwrap_or_default();
        let has_facts = items.iter().any(|item| item.origin == Origin::Fact);
        let replaced = replaced(&items, &coverage, &all);
        replaced.iter().for_each(|at| items[*at].text.push_str(REPLACED));
        let candidate = |(at, (item, terms)): (usize, (Item, Terms))| {
            let is_typed = matches!(item.origin, Origin::Typed | Origin::TypedPiece);
            let typed = if is_typed { TYPED_WEIGHT } else { 1.0 };
            let stale = if replaced.contains(&at) { REPLACED_WEIGHT } else { 1.0 };
            let focus = if terms.iter().any(|term| focus.contains(term)) { FOCUS_WEIGHT } else { 1.0 };
            let section = section_for(form.sections, item.topic);
            let size = item.text.chars().count() as f64 + LINE_CHARS;
            let single = if has_facts && !is_typed { SINGLE_WORTH } else { 1.0 };
            let weight = item.score * typed * stale * focus;
            Candidate { item, terms, weight, single, section, size, is_taken: false }
        };
        let candidates: Vec<Candidate> = items.into_iter().zip(all).enumerate().map(candidate).collect();
        let left = budget.units.saturating_sub(frame(form, budget));
        let (order, begun, heads) = (Vec::new(), HashSet::new(), HashSet::new());
        Self { form, budget, left, candidates, order, coverage, begun, heads }
    }

    /// Takes what people typed, if all of it fits into so many units; else pieces of it by what they add. The newest
    /// request is there in any case, if it is short, and so is what a client keeps.
    fn typed(&mut self, limit: usize) {
        let others = std::mem::replace(&mut self.left, limit) - limit;
        let mut whole: Vec<usize> = (0..self.candidates.len()).collect();
        whole.retain(|at| self.candidates[*at].item.origin == Origin::Typed);
        let newest = whole.iter().copied().max_by_key(|at| self.candidates[*at].item.order);
        if let Some(at) = newest.filter(|at| self.cost(*at) <= self.budget.units / NEWEST_PART) {
            self.take(at);
        }
        let (kept, rest): (Vec<usize>, Vec<usize>) = whole.iter().partition(|at| self.candidates[**at].item.kept);
        kept.into_iter().for_each(|at| self.take(at));
        if rest.iter().map(|at| self.cost(*at)).fold(0, usize::saturating_add) <= self.left {
            rest.into_iter().for_each(|at| self.take(at));
        }
        whole.retain(|at| self.candidates[*at].is_taken);
        let taken: HashSet<_> = whole.iter().map(|at| self.candidates[*at].item.order.text()).collect();
        // Texts that are not there whole go, and so do the pieces of those that are.
        for candidate in &mut self.candidates {
            let is_whole = taken.contains(&candidate.item.order.text());
            let goes = match candidate.item.origin {
                Origin::Typed => !is_whole,
                Origin::TypedPiece => is_whole,
                Origin::Fact | Origin::Said => false,
            };
            candidate.section = candidate.section.filter(|_| !goes);
        }
        self.cover(|origin| origin == Origin::TypedPiece);
        self.left += others;
    }

    /// Takes the newest work and what changed its state, the most important first, as far as it fits into its part.
    fn states(&mut self) {
        let others = self.left - self.left * STATES_SHARE / 100;
        self.left -= others;
        for at in (0..self.candidates.len()).filter(|at| self.candidates[*at].item.is_state).collect::<Vec<_>>() {
            self.take(at);
        }
        self.left += others;
    }

    /// Takes the lines that add most for their length, until none fits.
    fn cover(&mut self, admits: impl Fn(Origin) -> bool) {
        // Gains are positive, so that their bits are in their order.
        let gain = |selection: &Self, at: usize| {
            let candidate = &selection.candidates[at];
            (selection.coverage.gain(&candidate.terms, candidate.single) * candidate.weight / candidate.size).to_bits()
        };
        let is_open = |at: &usize| {
            let candidate = &self.candidates[*at];
            !candidate.is_taken && candidate.section.is_some() && admits(candidate.item.origin)
        };
        let open: Vec<usize> = (0..self.candidates.len()).filter(is_open).collect();
        let items = open.iter().map(|at| (&self.candidates[*at].item, *at));
        let pieces = items.filter(|(item, _)| item.head.is_empty() && item.piece_of().is_some());
        let mut places: HashMap<Order, usize> = pieces.map(|(item, at)| (item.order, at)).collect();
        let mut heap: BinaryHeap<_> = open.into_iter().map(|at| (gain(self, at), Reverse(at))).collect();
        while let Some((_, Reverse(at))) = heap.pop() {
            let now = gain(self, at);
            if now == 0 {
                continue;
            }
            if heap.peek().is_some_and(|next| now < next.0) {
                heap.push((now, Reverse(at)));
                continue;
            }
            self.take(at);
            // A piece beside it goes into its line: it costs no line of its own, and the two say more together.
            let Order(text, number) = self.candidates[at].item.order;
            let beside = [number + 1, number.wrapping_sub(1)].map(|number| places.remove(&Order(text, number)));
            let is_taken = self.candidates[at].is_taken;
            for beside in beside.into_iter().flatten().filter(|_| is_taken) {
                let beside_it = &mut self.candidates[beside];
                beside_it.size = beside_it.item.text.chars().count() as f64 + JOINT_CHARS;
                heap.push((gain(self, beside), Reverse(beside)));
            }
        }
    }

    /// Takes a candidate, if it fits and is not there in the same words.
    fn take(&mut self, at: usize) {
        let cost = self.cost(at);
        let words = |at: usize| (&self.candidates[at].item.head, &self.candidates[at].item.text);
        let repeats = |other: &usize| words(*other) == words(at);
        if self.candidates[at].is_taken || cost > self.left || self.order.iter().any(repeats) {
            return;
        }
        self.left -= cost;
        self.begun.extend(self.candidates[at].item.piece_of());
        self.heads.insert(self.candidates[at].item.head.clone());
        self.order.push(at);
        self.candidates[at].is_taken = true;
        self.coverage.say(&self.candidates[at].terms);
    }

    /// The text without the last lines, if the budget does not hold them.
    fn fitting(&mut self) -> String {
        loop {
            let text = self.rendered();
            let mut beyond = self.budget.measure(&text).saturating_sub(self.budget.units);
            if beyond == 0 || self.order.is_empty() {
                return text;
            }
            while beyond > 0
                && let Some(last) = self.order.pop()
            {
                beyond = beyond.saturating_sub(self.budget.measure(&self.candidates[last].item.text));
                self.candidates[last].section = None;
            }
        }
    }

    /// The units that a line costs, with its bullet.
    fn cost(&self, at: usize) -> usize {
        let Candidate { item: Item { text, head, .. }, section: Some(section), .. } = &self.candidates[at] else {
            return usize::MAX;
        };
        // A piece goes into the line of the text that it is from.
        if self.candidates[at].item.piece_of().is_some_and(|text| self.begun.contains(&text)) {
            let head = self.candidates[at].item.statement.as_deref().map_or("", head_of);
            return (self.budget.measure(text) + 1).saturating_sub(self.budget.measure(head));
        }
        if !head.is_empty() && self.heads.contains(head) {
            return self.budget.measure(text) + self.budget.measure(BETWEEN);
        }
        self.budget.measure(&bulleted(self.form.sections[*section].bullet, 10, text)) + self.budget.measure(head)
    }

    fn rendered(&self) -> String {
        let mut lines: HashMap<usize, Vec<String>> = HashMap::new();
        for (section, _, line) in self.placed() {
            lines.entry(section).or_default().push(line);
        }
        render(self.form, &lines)
    }

    /// All lines by section, each with the place of its first item.
    fn placed(&self) -> Vec<(usize, Order, String)> {
        let items = self.order.iter().map(|at| &self.candidates[*at]);
        let mut taken: Vec<(usize, &Item)> = items.filter_map(|one| Some((one.section?, &one.item))).collect();
        let mut places: HashMap<&str, Order> = HashMap::new();
        for (_, item) in taken.iter().filter(|(_, item)| !item.head.is_empty()) {
            let place = places.entry(&item.head).or_insert(item.order);
            *place = (*place).min(item.order);
        }
        taken.sort_by_cached_key(|(section, item)| {
            // Lines with the same head stand where its first one does.
            let place = places.get(item.head.as_str()).copied().unwrap_or(item.order);
            (*section, item.topic as usize, place, item.head.clone(), item.order, item.text.clone())
        });
        let mut lines: Vec<(usize, Order, String)> = Vec::new();
        let mut before: Option<&Item> = None;
        for (section, item) in taken {
            let last = lines.last_mut().filter(|(other, ..)| *other == section);
            match last.zip(before).and_then(|((.., line), before)| Some((item.joined(before, line)?, line))) {
                Some((joined, line)) => *line = joined,
                None if item.head.is_empty() => lines.push((section, item.order, item.text.clone())),
                None => lines.push((section, item.order, format!("{} {}", item.head, item.text))),
            }
            before = Some(item);
        }
        lines
    }
}

/// The lines that a later one replaces or takes back, and the texts all of whose pieces are such lines.
fn replaced(items: &[Item], coverage: &Coverage, terms: &[Terms]) -> HashSet<usize> {
    let mut said: Vec<usize> = (0..items.len()).filter(|at| items[*at].statement.is_some()).collect();
    said.sort_by_key(|at| items[*at].order);
    let (whole, said): (Vec<usize>, Vec<usize>) = said.into_iter().partition(|at| items[*at].origin == Origin::Typed);
    let pieces: Vec<usize> = said.iter().copied().filter(|at| items[*at].piece_of().is_some()).collect();
    let again = coverage.replaced(&pieces.iter().map(|at| &terms[*at]).collect::<Vec<_>>());
    let denied = denials::taken_back(&said.iter().map(|at| items[*at].words().0).collect::<Vec<_>>());
    let found = pieces.iter().zip(again).chain(said.iter().zip(denied)).filter(|(_, is_found)| *is_found);
    let mut found: HashSet<usize> = found.map(|(at, _)| *at).collect();
    let text = |at: &usize| items[*at].order.text();
    let gone: HashSet<_> = found.iter().map(text).collect();
    let stay: HashSet<_> = said.iter().filter(|at| !found.contains(*at)).map(text).collect();
    found.extend(whole.into_iter().filter(|at| gone.contains(&text(at)) && !stay.contains(&text(at))));
    found
}

/// The index of a topic's section, or of the next best one that the rules have.
fn section_for(sections: &[Section], topic: Topic) -> Option<usize> {
    let next_best: &[Topic] = match topic {
        Topic::Goal | Topic::Constraints => &[Topic::Goal, Topic::Context],
        Topic::Done | Topic::InProgress | Topic::Blocked | Topic::OpenDecisions | Topic::NextSteps => {
            &[Topic::InProgress, Topic::NextSteps, Topic::Done, Topic::Context]
        }
        Topic::Decisions | Topic::Context | Topic::Files => {
            &[Topic::Context, Topic::Files, Topic::Decisions, Topic::Done]
        }
    };
    let mut wanted = std::iter::once(&topic).chain(next_best);
    wanted.find_map(|wanted| sections.iter().position(|section| section.topic == Some(*wanted)))
}

/// Renders headings and lines. A section without lines has the filler, or is left out.
fn render(form: Form<'_>, lines: &HashMap<usize, Vec<String>>) -> String {
    let shown = form.sections.iter().enumerate().filter(|(position, section)| {
        let mut inner = (position + 1..form.sections.len()).take_while(|at| form.sections[*at].topic.is_some());
        let groups = section.topic.is_none() && inner.any(|at| lines.contains_key(&at));
        !form.filler.is_empty() || form.root.is_some() || lines.contains_key(position) || groups
    });
    let sections: Vec<String> = shown
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
    lines.iter().enumerate().map(|(number, line)| bulleted(section.bullet, number + 1, line)).collect()
}

fn bulleted(bullet: Bullet, number: usize, line: &str) -> String {
    match bullet {
        Bullet::Dash => format!("- {line}\n"),
        Bullet::Checked => format!("- [x] {line}\n"),
        Bullet::Unchecked => format!("- [ ] {line}\n"),
        Bullet::Number => format!("{number}. {line}\n"),
    }
}

/// Takes back whole lines if the budget does not even hold the headings: a truncated one would read as another heading.
fn truncated_to(mut text: String, budget: Budget<'_>) -> String {
    while budget.measure(&text) > budget.units {
        text.truncate(text.rfind('\n').unwrap_or(0));
    }
    text.trim_end().to_owned()
}

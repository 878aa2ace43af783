//! Composition: selects the lines that fit the budget, and renders the sections.
//!
//! What people typed comes first, within its share, and facts of tools in a share of the rest. What is left goes to any
//! lines. Each time, the lines that add most for their length come first ([`super::coverage`]).

use super::coverage::{Coverage, Terms};
use super::statements::head_of;
use super::text;
use longhand_core::policy::tokens::text_units;
use longhand_core::policy::{Bullet, Counting, Section, Summary, SummaryFormat, Topic};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Share of the budget in which all that people typed stays, in percent.
const TYPED_SHARE: usize = 60;

/// Share of the budget in which pieces of it stay otherwise, before they compete with other lines, in percent.
const PIECES_SHARE: usize = 45;

/// Part of the budget in which the newest request stays whole if not all that people typed fits: a twelfth.
const NEWEST_PART: usize = 12;

/// Share of the rest in which the newest work and changed states stay, in percent.
const STATES_SHARE: usize = 40;

/// Characters around each line that count in what it costs.
const LINE_CHARS: f64 = 24.0;

/// Weights in coverage: of what people typed, and of what a later statement replaces.
const TYPED_WEIGHT: f64 = 1.5;
const REPLACED_WEIGHT: f64 = 0.15;

/// Worth of words that no other line has, relative to others, where tools work: what matters there is named again.
const SINGLE_WORTH: f64 = 0.4;

/// Weight of what the instructions of the requester mention.
const FOCUS_WEIGHT: f64 = 2.0;

/// What separates things of one line.
pub(super) const BETWEEN: &str = " · ";

/// The mark behind a statement that a later one replaces.
pub(super) const REPLACED: &str = " (replaced below)";

/// Where a line comes from.
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
    /// Its weight in coverage.
    pub(super) score: f64,
    /// Its place among them, ascending.
    pub(super) order: Order,
    /// Where it comes from.
    pub(super) origin: Origin,
    /// The statement without labels, if a later one may replace it.
    pub(super) statement: Option<String>,
    /// True if a client wants it to stay.
    pub(super) kept: bool,
    /// True if it tells the newest work, or the state of something that had another one before: its words may all be known,
    /// but not which of them still hold.
    pub(super) is_state: bool,
    /// What stands once before all lines that have it, which share one line; empty for none.
    pub(super) head: String,
}

/// The place of a line among those of its topic: the position of its fact in the history, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Order(pub(super) i64, pub(super) usize);

impl Order {
    /// Before all others; the state at the end of the history; and after all others.
    pub(super) const FIRST: Self = Self(i64::MIN, 0);
    pub(super) const STATE: Self = Self(i64::MAX, 0);
    pub(super) const LAST: Self = Self(i64::MAX, 1);

    /// The place of a fact at this position.
    pub(super) fn at(at: i64) -> Self {
        Self(at, 0)
    }
}

impl Item {
    /// Creates a fact with its importance and order.
    pub(super) fn new(topic: Topic, text: &str, score: f64, order: Order) -> Self {
        let text = text::defuse(text);
        Self {
            topic,
            text,
            score,
            order,
            origin: Origin::Fact,
            statement: None,
            kept: false,
            is_state: false,
            head: String::new(),
        }
    }

    /// The text of which it is a piece, by its position.
    fn piece_of(&self) -> Option<i64> {
        matches!(self.origin, Origin::TypedPiece | Origin::Said).then_some(self.order.0)
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

/// Format of the sections of a summary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) sections: &'a [Section],
    /// Text of an empty section. If it is empty too, such sections are left out.
    filler: &'a str,
    /// The element around all sections, if sections are elements; otherwise they have headings.
    root: Option<&'a str>,
}

impl<'a> Form<'a> {
    /// The format that the rules ask for.
    pub(super) fn from_rules(rules: &'a Summary) -> Self {
        let root = match &rules.format {
            SummaryFormat::Elements { root } => Some(root.as_str()),
            SummaryFormat::Headings | SummaryFormat::Prose => None,
        };
        Self { sections: &rules.sections, filler: &rules.filler, root }
    }

    /// Sections under headings, without those that have no line.
    pub(super) fn plain(sections: &'a [Section]) -> Self {
        Self { sections, filler: "", root: None }
    }

    /// The same filler with other sections under headings.
    pub(super) fn headings(self, sections: &'a [Section]) -> Self {
        Self { sections, filler: self.filler, root: None }
    }

    fn skips_empty(self) -> bool {
        self.filler.is_empty() && self.root.is_none()
    }
}

/// A limit on the length of a text, by the counting of a policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget<'a> {
    counting: &'a Counting,
    pub(crate) units: usize,
}

impl<'a> Budget<'a> {
    /// The limit of so many tokens.
    pub(crate) fn new(counting: &'a Counting, tokens: i64) -> Self {
        let per_token = usize::try_from(counting.units_per_token.max(1)).unwrap_or(1);
        Self { counting, units: usize::try_from(tokens.max(0)).unwrap_or(0).saturating_mul(per_token) }
    }

    /// The same counting with another limit.
    pub(crate) fn with(self, units: usize) -> Self {
        Self { units, ..self }
    }

    /// The length of a text.
    pub(crate) fn measure(self, text: &str) -> usize {
        usize::try_from(text_units(self.counting, text)).unwrap_or(0)
    }

    /// About how many characters fit.
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
    selection.typed(selection.left * TYPED_SHARE / 100, selection.left * PIECES_SHARE / 100);
    selection.states();
    selection.cover(|_| true);
    // Lines are measured one by one, and the whole may be shorter or longer.
    let mut text = render(form, &selection.lines());
    for _ in 0..3 {
        let used = budget.measure(&text);
        if used > budget.units {
            selection.drop_last(used - budget.units);
        } else if (budget.units - used) * 100 > budget.units {
            selection.left = budget.units - used;
            selection.cover(|_| true);
        } else {
            break;
        }
        text = render(form, &selection.lines());
    }
    while budget.measure(&text) > budget.units && selection.drop_last(1) {
        text = render(form, &selection.lines());
    }
    truncated_to(text, budget)
}

/// Writes one section of what people typed: all of it, or as much as fits, by what it adds. With the places of its lines.
pub(super) fn compose_typed(form: Form<'_>, budget: Budget<'_>, items: Vec<Item>) -> (String, Vec<Order>) {
    let mut selection = Selection::new(form, budget, items, "");
    selection.typed(selection.left, selection.left);
    let mut text = render(form, &selection.lines());
    while budget.measure(&text) > budget.units && selection.drop_last(1) {
        text = render(form, &selection.lines());
    }
    let places = selection.placed().into_iter().map(|(_, place, _)| place).collect();
    if selection.order.is_empty() { Default::default() } else { (text, places) }
}

/// An item in the selection.
struct Candidate {
    item: Item,
    terms: Terms,
    weight: f64,
    /// The factor of words that no other line has.
    single: f64,
    /// Its section; none if the form has none for it.
    section: Option<usize>,
    /// Its length in characters.
    size: f64,
    /// The units that it costs, if it is taken.
    taken: Option<usize>,
}

/// The lines selected so far, and the remaining budget.
struct Selection<'a> {
    form: Form<'a>,
    budget: Budget<'a>,
    left: usize,
    candidates: Vec<Candidate>,
    /// The candidates in the order in which they were taken.
    order: Vec<usize>,
    coverage: Coverage,
    opened: HashSet<usize>,
    /// The texts of which a piece is there.
    begun: HashSet<i64>,
    /// The heads that are there.
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
        let words = |item: &'_ Item| item.statement.clone().unwrap_or_else(|| item.text.clone());
        let texts: Vec<String> = items.iter().map(words).collect();
        let (coverage, all) = Coverage::from_texts(texts.iter().map(String::as_str));
        let has_facts = items.iter().any(|item| item.origin == Origin::Fact);
        let focus = coverage.terms(focus);
        let mut statements: Vec<usize> = (0..items.len()).filter(|at| items[*at].statement.is_some()).collect();
        statements.sort_by_key(|at| items[*at].order);
        let is_later_form = |at: &usize| items[*at].origin != Origin::Typed;
        let pieces: Vec<usize> = statements.iter().copied().filter(is_later_form).collect();
        let of: Vec<&Terms> = pieces.iter().map(|at| &all[*at]).collect();
        for (at, _) in pieces.iter().zip(coverage.replaced(&of, true)).filter(|(_, replaced)| *replaced) {
            if !items[*at].text.ends_with(REPLACED) {
                items[*at].text.push_str(REPLACED);
            }
        }
        let replaced = coverage.replaced(&of, false);
        let replaced: HashSet<usize> =
            pieces.iter().zip(replaced).filter(|(_, replaced)| *replaced).map(|(at, _)| *at).collect();
        let candidate = |(at, (item, terms)): (usize, (Item, Terms))| {
            let is_typed = matches!(item.origin, Origin::Typed | Origin::TypedPiece);
            let origin = if is_typed { TYPED_WEIGHT * item.score } else { item.score };
            let stale = if replaced.contains(&at) { REPLACED_WEIGHT } else { 1.0 };
            let focus = if terms.iter().any(|term| focus.contains(term)) { FOCUS_WEIGHT } else { 1.0 };
            let section = section_for(form.sections, item.topic);
            let size = item.text.chars().count() as f64 + LINE_CHARS;
            let single = if has_facts && !is_typed { SINGLE_WORTH } else { 1.0 };
            Candidate { terms, weight: origin * stale * focus, single, section, size, taken: None, item }
        };
        let candidates: Vec<Candidate> = items.into_iter().zip(all).enumerate().map(candidate).collect();
        let left = budget.units.saturating_sub(frame(form, budget));
        Self {
            form,
            budget,
            left,
            candidates,
            order: Vec::new(),
            coverage,
            opened: HashSet::new(),
            begun: HashSet::new(),
            heads: HashSet::new(),
        }
    }

    /// Takes what people typed, if all of it fits into its share; else the short texts, if they fit, and then pieces of
    /// the others by what they add. The newest request is there in any case.
    fn typed(&mut self, limit: usize, pieces: usize) {
        let all = self.left;
        let whole = |candidate: &Candidate| candidate.item.origin == Origin::Typed;
        let indexes: Vec<usize> = (0..self.candidates.len()).filter(|at| whole(&self.candidates[*at])).collect();
        let short = |at: &&usize| self.candidates[**at].item.text.chars().count() <= super::statements::STATEMENT_CHARS;
        let short: Vec<usize> = indexes.iter().filter(short).copied().collect();
        self.left = limit;
        let newest = indexes.iter().copied().max_by_key(|at| self.candidates[*at].item.order);
        if let Some(at) = newest.filter(|at| self.cost(*at) <= self.budget.units / NEWEST_PART) {
            self.take(at);
        }
        for at in indexes.iter().copied().filter(|at| self.candidates[*at].item.kept).collect::<Vec<_>>() {
            self.take(at);
        }
        let mut fits = None;
        for some in [&indexes, &short] {
            let open = some.iter().filter(|at| self.candidates[**at].taken.is_none());
            let cost: usize = open.map(|at| self.cost(*at)).sum();
            fits = fits.or_else(|| (cost <= self.left).then(|| some.clone()));
        }
        fits.into_iter().flatten().for_each(|at| self.take(at));
        let is_taken = |at: &&usize| self.candidates[**at].taken.is_some();
        let taken: HashSet<i64> = indexes.iter().filter(is_taken).map(|at| self.candidates[*at].item.order.0).collect();
        // Texts that are not there whole go, and so do the pieces of those that are.
        for candidate in &mut self.candidates {
            let is_whole = taken.contains(&candidate.item.order.0);
            let goes = match candidate.item.origin {
                Origin::Typed => !is_whole,
                Origin::TypedPiece => is_whole,
                Origin::Fact | Origin::Said => false,
            };
            candidate.section = candidate.section.filter(|_| !goes);
        }
        let used = limit - self.left;
        self.left = pieces.saturating_sub(used);
        let free = self.left;
        self.cover(|origin| origin == Origin::TypedPiece);
        self.left = all - used - (free - self.left);
    }

    /// Takes the newest work and what changed its state, the most important first, as far as it fits into its part.
    fn states(&mut self) {
        let all = self.left;
        self.left = all * STATES_SHARE / 100;
        let before = self.left;
        for at in (0..self.candidates.len()).filter(|at| self.candidates[*at].item.is_state).collect::<Vec<_>>() {
            self.take(at);
        }
        self.left = all - (before - self.left);
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
            candidate.taken.is_none() && candidate.section.is_some() && admits(candidate.item.origin)
        };
        let open = (0..self.candidates.len()).filter(is_open);
        let mut heap: BinaryHeap<(u64, Reverse<usize>)> = open.map(|at| (gain(self, at), Reverse(at))).collect();
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
        }
    }

    /// Takes a candidate, if it fits and is not there in the same words.
    fn take(&mut self, at: usize) {
        let Some(section) = self.candidates[at].section else { return };
        let cost = self.cost(at);
        let words = |at: usize| (&self.candidates[at].item.head, &self.candidates[at].item.text);
        let repeats = |other: &usize| words(*other) == words(at);
        if self.candidates[at].taken.is_some() || cost > self.left || self.order.iter().any(repeats) {
            return;
        }
        self.left -= cost;
        self.opened.insert(section);
        self.begun.extend(self.candidates[at].item.piece_of());
        self.heads.insert(self.candidates[at].item.head.clone());
        self.order.push(at);
        self.candidates[at].taken = Some(cost);
        self.coverage.say(&self.candidates[at].terms);
    }

    /// Takes back lines of at least so many units, the last ones first; false if there is none.
    fn drop_last(&mut self, units: usize) -> bool {
        let mut freed = 0;
        while freed < units
            && let Some(at) = self.order.pop()
        {
            freed += self.candidates[at].taken.take().unwrap_or_default();
            self.candidates[at].section = None;
        }
        freed > 0
    }

    /// True if a piece goes into the line of the text that it is from.
    fn joins(&self, at: usize) -> bool {
        self.candidates[at].item.piece_of().is_some_and(|text| self.begun.contains(&text))
    }

    /// The units that a line costs, with its bullet and with the heading of a section that is not there yet.
    fn cost(&self, at: usize) -> usize {
        let Candidate { item: Item { text, head, .. }, section: Some(section), .. } = &self.candidates[at] else {
            return usize::MAX;
        };
        let section = *section;
        let Section { heading, bullet, .. } = &self.form.sections[section];
        let opens = self.form.skips_empty() && !self.opened.contains(&section);
        let heading = if opens { self.budget.measure(heading) + self.budget.measure("\n\n") } else { 0 };
        if self.joins(at) {
            let head = self.candidates[at].item.statement.as_deref().map_or("", head_of);
            return (self.budget.measure(text) + 1).saturating_sub(self.budget.measure(head));
        }
        if !head.is_empty() && self.heads.contains(head) {
            return self.budget.measure(text) + self.budget.measure(BETWEEN);
        }
        self.budget.measure(&bulleted(*bullet, 10, text)) + self.budget.measure(head) + heading
    }

    /// The lines of each section, in their order.
    fn lines(&self) -> HashMap<usize, Vec<String>> {
        let mut lines: HashMap<usize, Vec<String>> = HashMap::new();
        for (section, _, line) in self.placed() {
            lines.entry(section).or_default().push(line);
        }
        lines
    }

    /// All lines by section, each with the place of its first item.
    fn placed(&self) -> Vec<(usize, Order, String)> {
        let mut taken: Vec<(usize, &Item)> = self
            .order
            .iter()
            .filter_map(|at| Some((self.candidates[*at].section?, &self.candidates[*at].item)))
            .collect();
        let mut places: HashMap<&str, Order> = HashMap::new();
        for (_, item) in taken.iter().filter(|(_, item)| !item.head.is_empty()) {
            let place = places.entry(&item.head).or_insert(item.order);
            *place = (*place).min(item.order);
        }
        taken.sort_by(|(left_section, left), (right_section, right)| {
            // Lines with the same head stand where its first one does.
            let place = |item: &Item| places.get(item.head.as_str()).copied().unwrap_or(item.order);
            let position = |item: &Item| (item.topic as usize, place(item), item.head.clone(), item.order);
            let by_position = left_section.cmp(right_section).then_with(|| position(left).cmp(&position(right)));
            by_position.then_with(|| left.text.cmp(&right.text))
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

/// Renders headings and lines. A section without lines has the filler, or is left out.
fn render(form: Form<'_>, lines: &HashMap<usize, Vec<String>>) -> String {
    let shown = form.sections.iter().enumerate().filter(|(position, section)| {
        let groups = section.topic.is_none()
            && form.sections[position + 1..].iter().enumerate().any(|(next, inner)| {
                let nested = form.sections[position + 1..=position + 1 + next].iter().all(|one| one.topic.is_some());
                nested && inner.topic.is_some() && lines.contains_key(&(position + 1 + next))
            });
        !form.skips_empty() || lines.contains_key(position) || groups
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

//! Rules: regular expressions with names, and what happens to what they match.

use super::hold::{self, Hold};
use super::known::KNOWN;
use super::limits;
use super::pattern::{self, Finding, Pattern};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};
use regex_syntax::hir::Hir;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What happens to a text that a rule matches. Of several rules that match at the same place, the last one here counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It is stored, and the answer says so.
    Warn,
    /// A placeholder is stored in its place.
    Redact,
    /// The request is refused.
    Refuse,
}

impl Action {
    /// The word for it in files, metrics and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Redact => "redact",
            Self::Refuse => "refuse",
        }
    }
}

/// A rule, as an operator writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The name, which placeholders, answers and errors have.
    pub name: String,
    /// The regular expression, in the syntax of the crate `regex`; empty for the built-in rule of this name, unless a rule
    /// before has it.
    #[serde(default)]
    pub pattern: String,
    /// What happens to what it matches.
    pub action: Action,
}

/// Why rules cannot be used. Patterns are not quoted: a careless one has a secret in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are too many rules.
    #[error("there are {actual} rules, over {limit}")]
    TooMany {
        /// The maximum.
        limit: usize,
        /// The number of rules.
        actual: usize,
    },
    /// A rule cannot be used.
    #[error("rule {index} ({name:?}) {why}")]
    Rule {
        /// The position in the file, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// The defect, as the rest of a sentence.
        why: String,
    },
    /// All rules together need too much memory.
    #[error("the patterns of all rules together are too large")]
    TooLarge,
}

/// A match whose begin is settled: the text goes on with its rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunMatch {
    /// The name of the rule.
    pub rule: String,
    /// Bytes of the rest.
    pub length: usize,
}

/// Rules, ready to be applied.
#[derive(Debug)]
pub struct Rules {
    names: Vec<(String, Action)>,
    patterns: Vec<Pattern>,
    words: Words,
    wordless: Option<Wordless>,
    /// Bytes of the longest match.
    longest: usize,
}

/// The words of all rules, which one pass finds: a pattern is tried only where one of its own is. So it costs a text
/// nothing that patterns are many, and none meets another one in an automaton.
#[derive(Debug)]
struct Words {
    /// In order.
    list: Vec<String>,
    /// The rules of each.
    rules: Vec<Vec<usize>>,
    automaton: Option<AhoCorasick>,
    longest: usize,
    /// How many bytes matches can have before a word, and which.
    before: BTreeSet<(usize, Vec<bool>)>,
}

/// Rules of one's own whose matches begin with any words.
#[derive(Debug)]
struct Wordless {
    rules: Vec<usize>,
    /// Every pattern at once, to know in one pass which of them may match at all.
    all: Regex,
    hold: Hold,
}

impl Rules {
    /// Rules for these patterns; none if there are none.
    ///
    /// # Errors
    ///
    /// If a name or a pattern cannot be used, or there is too much of either.
    pub fn new(rules: &[Rule]) -> Result<Option<Self>, Error> {
        if rules.is_empty() {
            return Ok(None);
        }
        if rules.len() > limits::SECRET_RULES_MAX {
            return Err(Error::TooMany { limit: limits::SECRET_RULES_MAX, actual: rules.len() });
        }
        let mut names: Vec<(String, Action)> = Vec::with_capacity(rules.len());
        let (mut patterns, mut wordless) = (Vec::with_capacity(rules.len()), Vec::new());
        for (index, rule) in rules.iter().enumerate() {
            let defect = |why: String| Error::Rule { index, name: rule.name.clone(), why };
            check_name(&rule.name).map_err(defect)?;
            let known = rule.pattern.is_empty().then(|| KNOWN.get(&rule.name));
            let same = names.iter().find(|(name, _)| *name == rule.name);
            let pattern = match (known, same) {
                // The first one counts: an operator's own are before the built-in ones.
                (Some(Some(_)), Some(_)) => continue,
                (None, Some(_)) => return Err(defect("has the name of another rule".to_owned())),
                (Some(None), _) => return Err(defect("has no pattern, and no built-in rule has its name".to_owned())),
                (Some(Some(known)), None) => Pattern::built_in(known).map_err(defect)?,
                (None, None) => {
                    let hir = parse(&rule.pattern).map_err(defect)?;
                    let pattern = Pattern::own(&hir).map_err(defect)?;
                    if pattern.words.is_none() {
                        wordless.push((patterns.len(), hir));
                    }
                    pattern
                }
            };
            names.push((rule.name.clone(), rule.action));
            patterns.push(pattern);
        }
        let longest = patterns.iter().map(|pattern| pattern.longest).max().unwrap_or(0);
        Ok(Some(Self { words: Words::new(&patterns)?, wordless: Wordless::new(wordless)?, names, patterns, longest }))
    }

    /// The built-in rules, with one action for all of them.
    pub fn built_in(action: Action) -> Vec<Rule> {
        let names = KNOWN.rules.iter().map(|known| known.name.clone());
        names.map(|name| Rule { name, pattern: String::new(), action }).collect()
    }

    /// The name of a rule.
    pub fn name(&self, rule: usize) -> &str {
        self.names.get(rule).map_or("", |(name, _)| name)
    }

    /// The action of a rule.
    pub fn action(&self, rule: usize) -> Action {
        self.names.get(rule).map_or(Action::Warn, |(_, action)| *action)
    }

    /// The number of rules.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Bytes of the longest match.
    #[cfg(test)]
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// What the rules match in a text from this byte on, in order and without overlaps. What is before it is only looked
    /// back at; `begun` is what began there.
    pub(super) fn find(&self, text: &str, from: usize, begun: Vec<Finding>) -> Vec<Finding> {
        self.merge(&self.matches(text, from, text.len(), begun))
    }

    /// The rests of matches that began before a byte.
    pub(super) fn rests(&self, text: &str, from: usize, begun: &[BegunMatch]) -> Vec<Finding> {
        let rest = |begun: &BegunMatch| {
            let rule = self.names.iter().position(|(name, _)| *name == begun.rule)?;
            let range = from..from.checked_add(begun.length)?;
            text.is_char_boundary(range.end).then_some(Finding { begin: from, range, rule })
        };
        begun.iter().filter_map(rest).collect()
    }

    /// The matches of each rule, in order, and of those that begin behind a byte some.
    fn matches(&self, text: &str, from: usize, until: usize, begun: Vec<Finding>) -> Vec<Finding> {
        let mut all = begun;
        let behind = |all: &[Finding], rule| {
            all.iter().filter(|found| found.rule == rule).map(|found| found.range.end).max().unwrap_or(from)
        };
        let words = self.words.find(text, from);
        // For each rule, where its next match may begin.
        let mut next: Vec<usize> = match words.is_empty() {
            true => Vec::new(),
            false => (0..self.patterns.len()).map(|rule| behind(&all, rule)).collect(),
        };
        for (word, rule) in words {
            let pattern = &self.patterns[rule];
            if word < next[rule] || word >= until.saturating_add(pattern.before()) {
                continue;
            }
            match pattern.match_at(text, next[rule], word, rule) {
                Some((found, true)) => {
                    next[rule] = found.range.end;
                    all.push(found);
                }
                // To try every word in it would take its length squared.
                Some((found, false)) if found.range.len() > limits::SECRET_REJECTED_BYTES => {
                    next[rule] = found.range.end;
                }
                _ => {}
            }
        }
        for rule in self.wordless.iter().flat_map(|wordless| wordless.which(text, from)) {
            let found: Vec<Finding> = self.patterns[rule].secrets(text, behind(&all, rule), rule).collect();
            all.extend(found);
        }
        all.sort_by_key(|finding| (finding.range.start, finding.rule));
        all
    }

    /// What begins in a text before a byte, and reaches behind it: what a name in JSON makes of its value. None if the
    /// text does not decide it, but for its end.
    pub(super) fn reaching(&self, text: &str, byte: usize, is_end: bool) -> Option<Vec<Finding>> {
        let end = text.floor_char_boundary((byte + self.words.longest).min(text.len()));
        let mut words = self.words.find(&text[..end], 0);
        words.retain(|(word, _)| *word < byte);
        words.dedup();
        if words.is_empty() {
            return Some(Vec::new());
        }
        let mut steps = limits::SECRET_HOLD_STEPS;
        let is_open = |(word, rule): &(usize, usize)| {
            !is_end && self.patterns[*rule].open_at(text, 0, *word, &mut steps).is_some()
        };
        if words.iter().any(is_open) {
            return None;
        }
        let found = words.iter().filter_map(|(word, rule)| self.patterns[*rule].match_at(text, 0, *word, *rule));
        let reaches = |found: &Finding| found.begin < byte && found.range.end > byte;
        Some(found.filter(|(found, is_secret)| *is_secret && reaches(found)).map(|(found, _)| found).collect())
    }

    /// The rule whose action counts, of those the first.
    fn strictest(&self, one: usize, other: usize) -> usize {
        [one, other].into_iter().max_by_key(|rule| (self.action(*rule), Reverse(*rule))).unwrap_or(one)
    }

    /// Matches that overlap as one. Where it would be longer than any match, another one begins, so that a chain of them
    /// has no need to wait for its end: what reaches into that is a match of both.
    fn merge(&self, matches: &[Finding]) -> Vec<Finding> {
        let mut merged: Vec<Finding> = Vec::with_capacity(matches.len());
        let mut of_last: Vec<&Finding> = Vec::new();
        for found in matches {
            let start = found.range.start;
            let mut new = found.clone();
            match merged.last_mut().filter(|last| start < last.range.end) {
                Some(last) if last.range.end.max(found.range.end) - last.range.start <= self.longest => {
                    last.range.end = last.range.end.max(found.range.end);
                    last.rule = self.strictest(last.rule, found.rule);
                }
                Some(last) => {
                    last.range.end = start;
                    of_last.retain(|other| other.range.end > start);
                    for other in &of_last {
                        new.range.end = new.range.end.max(other.range.end);
                        new.rule = self.strictest(new.rule, other.rule);
                    }
                    merged.push(new);
                }
                None => {
                    of_last.clear();
                    merged.push(new);
                }
            }
            of_last.push(found);
        }
        merged
    }

    /// The first byte from which on nothing is decided, because a match may begin there that goes on behind the text.
    fn open(&self, text: &str, from: usize) -> usize {
        // A match that began before would have ended.
        let from = text.floor_char_boundary(text.len().saturating_sub(self.longest)).max(from);
        let mut steps = limits::SECRET_HOLD_STEPS;
        let mut open = self.words.open(text, from);
        for (word, rule) in self.words.find(text, from) {
            if let Some(begin) = self.patterns[rule].open_at(text, from, word, &mut steps) {
                open = open.min(begin);
            }
        }
        self.wordless.as_ref().map_or(open, |wordless| wordless.hold.begin(text, from, &mut steps).min(open))
    }

    /// The byte up to which nothing that comes behind a text can change what is found in it, the findings before that,
    /// and the matches that go on behind it. The text from `from` on is looked at.
    pub(super) fn settle(
        &self,
        text: &str,
        from: usize,
        begun: Vec<Finding>,
    ) -> (usize, Vec<Finding>, Vec<BegunMatch>) {
        let rest = |settled: usize, found: &Finding| BegunMatch {
            rule: self.name(found.rule).to_owned(),
            length: found.range.end - settled,
        };
        let mut settled = self.open(text, from);
        let of_begun: Vec<BegunMatch> = begun.iter().map(|found| rest(from, found)).collect();
        if settled == from {
            return (from, Vec::new(), of_begun);
        }
        let mut matches = self.matches(text, from, settled, begun);
        // Others may still change.
        matches.retain(|found| found.begin < settled);
        let mut findings = self.merge(&matches);
        loop {
            let before = settled;
            // What reaches beyond the begin of a match that may go on waits with it, and a secret with what is before it
            // in its match.
            if let Some(last) = findings.pop_if(|last| last.range.end > settled) {
                settled = settled.min(last.range.start);
            }
            let parted = |found: &&Finding| found.begin < found.range.start && found.range.end > settled;
            let parted = matches.iter().filter(parted).map(|found| found.begin).filter(|begin| *begin < settled).min();
            settled = parted.unwrap_or(settled);
            if settled == before {
                break;
            }
        }
        if settled == from {
            return (from, Vec::new(), of_begun);
        }
        findings.retain(|found| found.range.start < settled);
        let goes_on = |found: &&Finding| found.range.start < settled && found.range.end > settled;
        (settled, findings, matches.iter().filter(goes_on).map(|found| rest(settled, found)).collect())
    }
}

impl Words {
    fn new(patterns: &[Pattern]) -> Result<Self, Error> {
        let mut all: Vec<(&str, usize)> = Vec::new();
        let mut before = BTreeSet::new();
        for (rule, words) in
            patterns.iter().enumerate().filter_map(|(rule, pattern)| Some((rule, pattern.words.as_ref()?)))
        {
            all.extend(words.list.iter().map(|word| (word.as_str(), rule)));
            if words.before > 0 {
                before.insert((words.before, words.bytes_before.clone()));
            }
        }
        all.sort_unstable();
        let (mut list, mut rules): (Vec<String>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        for (word, rule) in all {
            match rules.last_mut().filter(|_| list.last().is_some_and(|last| last == word)) {
                Some(of_last) => of_last.push(rule),
                None => {
                    list.push(word.to_owned());
                    rules.push(vec![rule]);
                }
            }
        }
        // A table of all states is the fastest, and for many words too large.
        let kind = (list.len() < limits::SECRET_TABLE_WORDS_MAX).then_some(AhoCorasickKind::DFA);
        let automaton = match list.is_empty() {
            true => None,
            false => {
                let mut builder = AhoCorasick::builder();
                Some(builder.ascii_case_insensitive(true).kind(kind).build(&list).map_err(|_| Error::TooLarge)?)
            }
        };
        let longest = list.iter().map(String::len).max().unwrap_or(0);
        Ok(Self { list, rules, automaton, longest, before })
    }

    /// Where words are in a text from a byte on, with the rules that they are of.
    fn find(&self, text: &str, from: usize) -> Vec<(usize, usize)> {
        // Most texts have no word, which a search for any is faster to tell than one for all.
        let Some(automaton) = &self.automaton else { return Vec::new() };
        let input = aho_corasick::Input::new(text).range(from..);
        let Some(first) = automaton.find(input.clone()) else { return Vec::new() };
        let begin = first.end().saturating_sub(self.longest).max(from);
        let words = automaton.find_overlapping_iter(input.range(begin..));
        let rules = words.flat_map(|word| self.rules[word.pattern()].iter().map(move |rule| (word.start(), *rule)));
        let mut found: Vec<(usize, usize)> = rules.collect();
        found.sort_unstable();
        found
    }

    /// Where the end of a text may be the begin of a word, or what a match has before one.
    fn open(&self, text: &str, from: usize) -> usize {
        let tail = text.floor_char_boundary(text.len().saturating_sub(self.longest.saturating_sub(1))).max(from);
        let end = text[tail..].to_ascii_lowercase();
        let is_begin = |at: &usize| {
            let next = self.list.partition_point(|word| word.as_str() < &end[*at..]);
            self.list.get(next).is_some_and(|word| word.starts_with(&end[*at..]))
        };
        let word = tail + end.char_indices().map(|(at, _)| at).find(is_begin).unwrap_or(end.len());
        let lengths = self.before.iter().map(|(most, bytes)| {
            let before = text.as_bytes()[from..word].iter().rev().take(*most);
            before.take_while(|byte| bytes[usize::from(**byte)]).count()
        });
        let before = lengths.max().unwrap_or(0);
        text.floor_char_boundary(word - before).max(from)
    }
}

impl Wordless {
    fn new(patterns: Vec<(usize, Hir)>) -> Result<Option<Self>, Error> {
        let (rules, patterns): (Vec<usize>, Vec<Hir>) = patterns.into_iter().unzip();
        if rules.is_empty() {
            return Ok(None);
        }
        let mut all = pattern::builder();
        all.configure(Regex::config().match_kind(MatchKind::All).which_captures(WhichCaptures::None));
        // Conditions on what is around take an automaton apart at letters that are not of ASCII.
        let free: Vec<Hir> = patterns.iter().map(hold::without_looks).collect();
        let all = all.build_many_from_hir(&free).map_err(|_| Error::TooLarge)?;
        Ok(Some(Self { rules, all, hold: Hold::new(&patterns).ok_or(Error::TooLarge)? }))
    }

    /// The rules that may match in a text from a byte on.
    fn which(&self, text: &str, from: usize) -> Vec<usize> {
        let input = || Input::new(text).range(from..);
        let mut which = PatternSet::new(self.rules.len());
        if self.all.is_match(input()) {
            self.all.which_overlapping_matches(&input(), &mut which);
        }
        which.iter().map(|rule| self.rules[rule.as_usize()]).collect()
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let most = limits::SECRET_RULE_NAME_BYTES_MAX;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match !name.is_empty() && name.len() <= most && name.bytes().all(fits) {
        true => Ok(()),
        false => Err(format!("has a name that is not 1 to {most} of the characters a-z, 0-9 and -")),
    }
}

/// Parses a pattern, and refuses one whose matches are too short or have no bound.
fn parse(pattern: &str) -> Result<Hir, String> {
    let hir = syntax::parse(pattern).map_err(|error| {
        let kind = match &error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            _ => "it cannot be read".to_owned(),
        };
        format!("has no regular expression: {kind}")
    })?;
    let (least, most) = (limits::SECRET_BYTES_MIN, limits::SECRET_BYTES_MAX);
    if hir.properties().minimum_len().is_none_or(|bytes| bytes < least) {
        return Err(format!("can match less than {least} bytes"));
    }
    if hir.properties().maximum_len().is_none_or(|bytes| bytes > most) {
        return Err(format!("can match more than {most} bytes: put a bound in place of * and +, such as {{1,200}}"));
    }
    Ok(hir)
}

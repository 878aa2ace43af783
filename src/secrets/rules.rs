//! Rules: regular expressions with names, and what happens to what they match.

use super::hold::Hold;
use super::known::KNOWN;
use crate::limits;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};
use regex_syntax::hir::Hir;
use serde::Deserialize;
use std::cmp::Reverse;
use std::ops::Range;

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
    /// The regular expression, in the syntax of the crate `regex`.
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

/// What a rule matched in a text, or several rules that overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The bytes of the text.
    pub(super) range: Range<usize>,
    /// The rule that names it: the one whose action counts, of those the first.
    pub(super) rule: usize,
}

/// A match whose begin is settled: the text goes on with its rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The name of the rule.
    pub rule: String,
    /// Bytes of the rest.
    pub length: usize,
}

/// Rules, ready to be applied.
#[derive(Debug)]
pub struct Rules {
    names: Vec<(String, Action)>,
    patterns: Vec<Regex>,
    /// Every pattern at once, to know in one pass which of them match at all.
    all: Regex,
    pub(super) hold: Hold,
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
        let mut parsed = Vec::with_capacity(rules.len());
        for (index, rule) in rules.iter().enumerate() {
            let defect = |why: String| Error::Rule { index, name: rule.name.clone(), why };
            check_name(&rule.name).map_err(defect)?;
            if rules[..index].iter().any(|other| other.name == rule.name) {
                return Err(defect("has the name of another rule".to_owned()));
            }
            parsed.push(parse(&rule.pattern).map_err(defect)?);
        }
        let mut patterns = Vec::with_capacity(rules.len());
        for (index, hir) in parsed.iter().enumerate() {
            let compiled = builder().build_many_from_hir(&[hir]);
            patterns.push(compiled.map_err(|_| Error::Rule {
                index,
                name: rules[index].name.clone(),
                why: "has a pattern that is too large".to_owned(),
            })?);
        }
        let mut all = builder();
        all.configure(Regex::config().match_kind(MatchKind::All));
        let all = all.build_many_from_hir(&parsed).map_err(|_| Error::TooLarge)?;
        let hold = Hold::new(&parsed).ok_or(Error::TooLarge)?;
        let names = rules.iter().map(|rule| (rule.name.clone(), rule.action)).collect();
        Ok(Some(Self { names, patterns, all, hold }))
    }

    /// The rules for well-known tokens, with one action for all of them.
    pub fn known(action: Action) -> Vec<Rule> {
        let rule =
            |(name, pattern): &(&str, &str)| Rule { name: (*name).to_owned(), pattern: (*pattern).to_owned(), action };
        KNOWN.iter().map(rule).collect()
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

    /// What the rules match in a text from this byte on, in order and without overlaps. What is before it is only looked
    /// back at; `begun` are matches that began there.
    pub(super) fn find(&self, text: &str, from: usize, begun: &[Begun]) -> Vec<Finding> {
        self.merge(&self.matches(text, from, begun))
    }

    /// The rests of matches that began before a byte.
    fn rests(&self, text: &str, from: usize, begun: &[Begun]) -> Vec<Finding> {
        let rest = |begun: &Begun| {
            let rule = self.names.iter().position(|(name, _)| *name == begun.rule)?;
            let range = from..from.checked_add(begun.length)?;
            text.is_char_boundary(range.end).then_some(Finding { range, rule })
        };
        begun.iter().filter_map(rest).collect()
    }

    /// The matches of each rule, in order.
    fn matches(&self, text: &str, from: usize, begun: &[Begun]) -> Vec<Finding> {
        let mut all = self.rests(text, from, begun);
        let input = |from| Input::new(text).range(from..);
        if !self.all.is_match(input(from)) {
            return all;
        }
        let mut which = PatternSet::new(self.patterns.len());
        self.all.which_overlapping_matches(&input(from), &mut which);
        for rule in which.iter().map(|rule| rule.as_usize()) {
            let begin = all.iter().find(|begun| begun.rule == rule).map_or(from, |begun| begun.range.end);
            let found = self.patterns[rule].find_iter(input(begin));
            all.extend(found.map(|found| Finding { range: found.range(), rule }));
        }
        all.sort_by_key(|finding| finding.range.start);
        all
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
                Some(last) if last.range.end.max(found.range.end) - last.range.start <= self.hold.longest() => {
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

    /// The byte up to which nothing that comes behind a text can change what is found in it, the findings before that,
    /// and the matches that go on behind it. The text from `from` on is looked at.
    pub(super) fn settle(&self, text: &str, from: usize, begun: &[Begun]) -> (usize, Vec<Finding>, Vec<Begun>) {
        let (open, may_match) = self.hold.begin(text, from);
        if open == from {
            return (from, Vec::new(), begun.to_vec());
        }
        // To look for matches takes longer than to see that there are none.
        let mut matches = if may_match { self.matches(text, from, begun) } else { self.rests(text, from, begun) };
        // Others may still change.
        matches.retain(|found| found.range.start < open);
        let mut findings = self.merge(&matches);
        // What reaches beyond the begin of a match that may go on waits with it.
        let settled = findings.pop_if(|last| last.range.end > open).map_or(open, |last| last.range.start);
        if settled == from {
            return (from, Vec::new(), begun.to_vec());
        }
        let goes_on = |found: &&Finding| found.range.start < settled && found.range.end > settled;
        let rest =
            |found: &Finding| Begun { rule: self.name(found.rule).to_owned(), length: found.range.end - settled };
        (settled, findings, matches.iter().filter(goes_on).map(rest).collect())
    }
}

fn builder() -> regex_automata::meta::Builder {
    let mut builder = Regex::builder();
    builder.configure(Regex::config().nfa_size_limit(Some(limits::SECRET_PATTERN_BYTES_MAX)));
    builder
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

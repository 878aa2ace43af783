//! The terms of a query.

use super::cut::{Column, Form, Placed, PlacedWords, cut};
use std::ops::Range;

/// A query: every term has to be in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The terms; one at least.
    pub terms: Vec<Term>,
}

/// What a query looks for: a word, or several words one directly after the other.
///
/// A term with one word is found in both columns, others in the column of whole words, or as their pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The words, one at least.
    pub whole: Vec<String>,
    /// The pieces of a name, which are found in their order too: so a name is found in every style. Empty, or two at
    /// least.
    pub pieces: Vec<String>,
    /// The last word may go on.
    pub is_prefix: bool,
}

/// The reason for which a query cannot be used; completes "query …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It has no word.
    #[error("has no letter and no digit")]
    Empty,
    /// A quotation has no end.
    #[error("has a quotation mark without another one")]
    Unclosed,
}

impl Query {
    /// Reads a query: words, phrases in `"…"`, and beginnings of words with a `*` behind them. What stands together
    /// without a blank, as a path or a version, is a phrase. There is no other syntax: other signs only separate words.
    ///
    /// # Errors
    ///
    /// If there is no word, or a quotation does not end.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let mut terms = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (term, behind) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or(QueryError::Unclosed)?,
                None => rest.split_at(rest.find(|end: char| end.is_whitespace() || end == '"').unwrap_or(rest.len())),
            };
            let is_quoted = rest.starts_with('"');
            let is_prefix = if is_quoted { behind.starts_with('*') } else { term.ends_with('*') };
            terms.extend(Term::of(term, is_prefix));
            rest = behind.trim_start_matches(|skipped: char| skipped.is_whitespace() || is_quoted && skipped == '*');
        }
        if terms.is_empty() { Err(QueryError::Empty) } else { Ok(Self { terms }) }
    }

    /// The number of its words.
    pub fn word_count(&self) -> usize {
        self.terms.iter().map(|term| term.whole.len()).sum()
    }

    /// The query without terms that every text has which has another one: `w*` beside `word`, and a term that is there twice.
    /// It is found in the same texts.
    #[must_use]
    pub fn without_implied(&self) -> Self {
        let mut terms: Vec<Term> = Vec::new();
        for term in &self.terms {
            if !terms.iter().any(|other| other.implies(term)) {
                terms.retain(|other| !term.implies(other));
                terms.push(term.clone());
            }
        }
        Self { terms }
    }

    /// True if a text has every term.
    pub fn matches(&self, text: &str, form: Form) -> bool {
        let words = PlacedWords::of(text, form);
        self.terms.iter().all(|term| !term.places(&words).is_empty())
    }
}

impl Term {
    /// The term that a text without blanks around it means; none without a word.
    fn of(text: &str, mut is_prefix: bool) -> Option<Self> {
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        cut(text, Form::Plain, &mut |column, word, _| match column {
            Column::Whole => whole.push(word.to_owned()),
            Column::Piece => pieces.push(word.to_owned()),
        });
        let [first, others @ ..] = &whole[..] else { return None };
        let is_alone = others.is_empty();
        if !is_alone || pieces.len() < 2 {
            pieces.clear();
        }
        // A single character of a script without blanks begins pairs.
        is_prefix |= is_alone && pieces.is_empty() && is_dense(first);
        Some(Self { whole, pieces, is_prefix })
    }

    /// What one of is in a text that has the term: words in one of the columns.
    fn alternatives(&self) -> impl Iterator<Item = (Column, &[String])> {
        let in_pieces = (self.whole.len() == 1).then_some((Column::Piece, &self.whole[..]));
        let pieces = (!self.pieces.is_empty()).then_some((Column::Piece, &self.pieces[..]));
        [Some((Column::Whole, &self.whole[..])), in_pieces, pieces].into_iter().flatten()
    }

    /// True if every text that has this term has the other one.
    fn implies(&self, other: &Self) -> bool {
        self.alternatives().all(|(column, words)| {
            let mut others = other.alternatives().filter(|(of, _)| *of == column);
            others.any(|(_, part)| has_part((words, self.is_prefix), (part, other.is_prefix)))
        })
    }

    /// The bytes of a text that match, ascending by their begin in each column.
    pub(super) fn places(&self, words: &PlacedWords) -> Vec<Range<usize>> {
        let mut places = phrases(&words.whole, &self.whole, self.is_prefix);
        if self.whole.len() == 1 {
            places.extend(phrases(&words.pieces, &self.whole, self.is_prefix));
        }
        if !self.pieces.is_empty() {
            places.extend(phrases(&words.pieces, &self.pieces, self.is_prefix));
        }
        places
    }
}

/// True if words that are found one directly after the other have others among them, in their order. The last ones may go on.
fn has_part((words, may_go_on): (&[String], bool), (part, is_prefix): (&[String], bool)) -> bool {
    let Some((last, before)) = part.split_last() else { return true };
    words.windows(part.len()).enumerate().any(|(at, window)| {
        let Some((end, begin)) = window.split_last() else { return false };
        let is_open = may_go_on && at + part.len() == words.len();
        let ends = if is_prefix { end.starts_with(last) } else { end == last && !is_open };
        ends && begin == before
    })
}

/// True for one character of a script without blanks.
fn is_dense(word: &str) -> bool {
    let mut column = None;
    // Twice the same character is a pair only in such a script.
    cut(&word.repeat(2), Form::Plain, &mut |found, _, _| column = Some(found));
    column == Some(Column::Piece) && word.chars().count() <= 2
}

/// The bytes of each occurrence of a phrase.
fn phrases(words: &[Placed], phrase: &[String], is_prefix: bool) -> Vec<Range<usize>> {
    let Some((last, before)) = phrase.split_last() else { return Vec::new() };
    let windows = words.windows(phrase.len());
    let matching = windows.filter(|window| {
        let Some((end, begin)) = window.split_last() else { return false };
        let ends = if is_prefix { end.word.starts_with(last) } else { end.word == *last };
        ends && begin.iter().zip(before).all(|(placed, word)| placed.word == *word)
    });
    let bytes = |window: &[Placed]| match window {
        [first, .., last] => first.bytes.start.min(last.bytes.start)..last.bytes.end,
        [one] => one.bytes.clone(),
        [] => 0..0,
    };
    matching.map(bytes).collect()
}

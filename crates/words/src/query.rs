//! The terms of a query.

use super::cut::{Column, Form, PlacedWord, PlacedWords, cut, is_dense, is_one_dense};
use std::fmt;
use std::ops::Range;

/// Pairs of characters that count as a word.
const PAIRS_OF_WORD: usize = 8;
/// The most clues of a query.
const CLUES_MAX: usize = 128;

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// What a text is found by, each by itself: first the terms as they were written, then the words of those that are
    /// joined without a blank, and the pieces of names. None is there twice.
    pub clues: Vec<Term>,
    /// How many of them are terms; one at least.
    pub terms: usize,
}

/// What a query looks for: a word, or several words one directly after the other.
///
/// A term with one word is found in the columns of whole words and pieces, others in the column of whole words, or as
/// their pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The words, one at least.
    pub whole: Vec<String>,
    /// The pieces of a name, which are found in their order too: so a name is found in every style. Empty, or two at
    /// least.
    pub pieces: Vec<String>,
    /// The form that the word has with all of its endings, by which it is found in every column; none where only the word
    /// itself counts, as in quotations and names.
    pub stem: Option<String>,
    /// The last word may go on.
    pub is_prefix: bool,
    /// It stood in quotation marks.
    pub is_quoted: bool,
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
    /// The words of a joined term and the pieces of a name are clues of their own if there are other terms: a query that is
    /// one name or one path looks for that alone. Pairs of a script without blanks are clues in any case.
    ///
    /// # Errors
    ///
    /// If there is no word, or a quotation does not end.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let mut clues: Vec<Term> = Vec::new();
        let mut joined = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (text, behind) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or(QueryError::Unclosed)?,
                None => rest.split_at(rest.find(|end: char| end.is_whitespace() || end == '"').unwrap_or(rest.len())),
            };
            let is_quoted = rest.starts_with('"');
            let is_prefix = if is_quoted { behind.starts_with('*') } else { text.ends_with('*') };
            if let Some(term) = Term::from_text(text, is_prefix, is_quoted) {
                if !is_quoted && !is_prefix {
                    joined.push((text, term.whole.iter().any(|word| is_dense(word))));
                }
                if !clues.contains(&term) {
                    clues.push(term);
                }
            }
            rest = behind.trim_start_matches(|skipped: char| skipped.is_whitespace() || is_quoted && skipped == '*');
        }
        let terms = clues.len();
        for (text, _) in joined.iter().filter(|(_, is_dense)| *is_dense || terms > 1) {
            for part in parts(text) {
                if clues.len() < CLUES_MAX && !clues.contains(&part) {
                    clues.push(part);
                }
            }
        }
        if terms == 0 { Err(QueryError::Empty) } else { Ok(Self { clues, terms }) }
    }

    /// The terms.
    pub fn terms(&self) -> &[Term] {
        &self.clues[..self.terms]
    }

    /// The number of words of its terms. In a script without blanks, about eight characters count as one.
    pub fn word_count(&self) -> usize {
        let words = |term: &Term| {
            let pairs = term.whole.iter().filter(|word| is_dense(word)).count();
            term.whole.len() - pairs + pairs.div_ceil(PAIRS_OF_WORD)
        };
        self.terms().iter().map(words).sum()
    }

    /// True if a text has every term.
    pub fn matches(&self, text: &str, form: Form) -> bool {
        self.often(text, form)[..self.terms].iter().all(|often| *often > 0)
    }

    /// True if a text has a clue.
    pub fn finds(&self, text: &str, form: Form) -> bool {
        self.often(text, form).iter().any(|often| *often > 0)
    }

    /// How often a text has each clue. More than once counts for single words alone.
    pub fn often(&self, text: &str, form: Form) -> Vec<u32> {
        let words = PlacedWords::from_text(text, form);
        self.clues.iter().map(|clue| clue.often(&words)).collect()
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.counted() {
            Some(word) => word.to_owned(),
            None => self.whole.join(" "),
        };
        let quote = if self.is_quoted { "\"" } else { "" };
        let star = if self.is_prefix { "*" } else { "" };
        write!(f, "{quote}{words}{quote}{star}")
    }
}

/// The words of a text and the pieces of its names, each as a term.
fn parts(text: &str) -> Vec<Term> {
    let mut parts = Vec::new();
    cut(text, Form::Plain, &mut |column, _, bytes| {
        if column != Column::Stem {
            parts.extend(Term::from_text(&text[bytes], false, false));
        }
    });
    // The last character of a run is in the pair before it.
    parts.retain(|part| !part.is_prefix);
    parts
}

impl Term {
    /// The term that a text without blanks around it means; none without a word.
    fn from_text(text: &str, mut is_prefix: bool, is_quoted: bool) -> Option<Self> {
        let (mut whole, mut pieces, mut stem) = (Vec::new(), Vec::new(), None);
        cut(text, Form::Plain, &mut |column, word, _| match column {
            Column::Whole => whole.push(word.to_owned()),
            Column::Piece => pieces.push(word.to_owned()),
            Column::Stem => stem = Some(word.to_owned()),
        });
        let [first, others @ ..] = &whole[..] else { return None };
        let is_alone = others.is_empty();
        if !is_alone || pieces.len() < 2 {
            pieces.clear();
        }
        // A single character of a script without blanks begins pairs.
        is_prefix |= is_alone && is_one_dense(first);
        let is_word = is_alone && pieces.is_empty() && !is_prefix && !is_quoted;
        // Latin letters that are no stem of another form are found with all endings as well.
        let stem = match stem {
            _ if !is_word => None,
            None if first.bytes().all(|byte| byte.is_ascii_lowercase()) => Some(first.clone()),
            stem => stem,
        };
        Some(Self { whole, pieces, stem, is_prefix, is_quoted })
    }

    /// The word that is counted, if the term is a single word: its stem, or itself.
    pub fn counted(&self) -> Option<&str> {
        match &self.whole[..] {
            [word] if !self.is_prefix && self.pieces.is_empty() => Some(self.stem.as_ref().unwrap_or(word)),
            _ => None,
        }
    }

    /// How often it is there.
    fn often(&self, words: &PlacedWords) -> u32 {
        let count = self.places(words).len();
        let most = if self.counted().is_some() { count } else { count.min(1) };
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// The bytes of every place where the term is.
    pub(super) fn places(&self, words: &PlacedWords) -> Vec<Range<usize>> {
        if let (Some(word), true) = (self.counted(), self.stem.is_some()) {
            let columns = [&words.whole, &words.pieces, &words.stems].into_iter().flatten();
            return columns.filter(|placed| placed.word == word).map(|placed| placed.bytes.clone()).collect();
        }
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

/// The bytes of each occurrence of a phrase.
fn phrases(words: &[PlacedWord], phrase: &[String], is_prefix: bool) -> Vec<Range<usize>> {
    let Some((last, before)) = phrase.split_last() else { return Vec::new() };
    let windows = words.windows(phrase.len());
    let matching = windows.filter(|window| {
        let Some((end, begin)) = window.split_last() else { return false };
        let ends = if is_prefix { end.word.starts_with(last) } else { end.word == *last };
        ends && begin.iter().zip(before).all(|(placed, word)| placed.word == *word)
    });
    let bytes = |window: &[PlacedWord]| match window {
        [first, .., last] => first.bytes.start.min(last.bytes.start)..last.bytes.end,
        [one] => one.bytes.clone(),
        [] => 0..0,
    };
    matching.map(bytes).collect()
}

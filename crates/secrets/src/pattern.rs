//! One rule, ready to be applied.

use super::check::Check;
use super::hold::Hold;
use super::known::{BuiltInRule, KNOWN};
use super::limits;
use super::words::Words;
use regex_automata::meta::{Builder, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind};
use std::ops::Range;
use std::sync::OnceLock;

/// What a rule matched in a text, or several rules that overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The first byte of the match, with what has to be before the secret.
    pub(super) begin: usize,
    /// The bytes of the secret.
    pub(super) range: Range<usize>,
    /// The rule that names it: the one whose action counts, of those the first.
    pub(super) rule: usize,
}

impl Finding {
    /// The same behind some more bytes.
    pub(super) fn moved(&self, bytes: usize) -> Self {
        let range = self.range.start + bytes..self.range.end + bytes;
        Self { begin: self.begin + bytes, range, rule: self.rule }
    }
}

/// A pattern with its conditions.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// The group that is the secret, if not all of a match is.
    secret: Option<usize>,
    /// No letter or digit is before a match.
    is_word: bool,
    check: Option<Check>,
    /// The words that every match has near its begin.
    pub(super) words: Option<Words>,
    /// Bytes of the longest match.
    pub(super) longest: usize,
    hir: Hir,
    /// Only drafts need it.
    hold: OnceLock<Option<Hold>>,
}

impl Pattern {
    /// A pattern of one's own.
    ///
    /// # Errors
    ///
    /// The defect, as the rest of a sentence.
    pub(super) fn own(hir: &Hir) -> Result<Self, String> {
        Self::new(&without_lazy_begin(hir), false, None)
    }

    /// That of a built-in rule.
    ///
    /// # Errors
    ///
    /// The same; a test tries all of them.
    pub(super) fn built_in(known: &BuiltInRule) -> Result<Self, String> {
        let ascii = syntax::Config::new().unicode(false);
        let hir = syntax::parse_with(&known.pattern(), &ascii).map_err(|error| error.to_string())?;
        Self::new(&hir, known.word, Some(KNOWN.check(known)))
    }

    fn new(hir: &Hir, is_word: bool, check: Option<Check>) -> Result<Self, String> {
        let too_large = "has a pattern that is too large";
        let mut built = builder();
        if check.is_none() {
            built.configure(Regex::config().which_captures(WhichCaptures::Implicit));
        }
        let regex = built.build_many_from_hir(&[hir]).map_err(|_| too_large.to_owned())?;
        let groups = regex.group_info();
        Ok(Self {
            secret: check.as_ref().and_then(|_| groups.to_index(regex_automata::PatternID::ZERO, "secret")),
            is_word,
            check,
            words: Words::from_pattern(hir),
            longest: hir.properties().maximum_len().unwrap_or(limits::SECRET_KEY_BYTES_MAX),
            hir: hir.clone(),
            hold: OnceLock::new(),
            regex,
        })
    }

    /// Bytes that a match can have before its word.
    pub(super) fn before(&self) -> usize {
        self.words.as_ref().map_or(0, |words| words.before)
    }

    /// True if a match can begin behind these bytes. A tool may have put an escape, a colour or an encoded character
    /// before a token, which end with letters.
    fn fits(&self, text: &str, at: usize) -> bool {
        !self.is_word
            || text.as_bytes()[..at].last().is_none_or(|byte| {
                !byte.is_ascii_alphanumeric()
                    || matches!(byte, b'0'..=b'9' | b'A'..=b'F' | b'd' | b'm' | b'n' | b'r' | b't')
            })
    }

    /// The first match that has a word here, from a byte on, and if its conditions make it a secret.
    pub(super) fn match_at(&self, text: &str, from: usize, word: usize, rule: usize) -> Option<(Finding, bool)> {
        if !self.fits(text, word) {
            return None;
        }
        let begin = text.floor_char_boundary(word.saturating_sub(self.before()).max(from));
        let (end, anchored) = match self.before() {
            0 => (text.len(), Anchored::Yes),
            _ => (text.floor_char_boundary(word.saturating_add(self.longest).min(text.len())), Anchored::No),
        };
        let input = Input::new(text).range(begin..end).anchored(anchored);
        // The end of a match is found faster than the groups in it.
        self.regex.search_half(&input)?;
        let (matched, range) = match self.secret {
            None => self.regex.search(&input).map(|found| (found.range(), found.range()))?,
            Some(group) => {
                let mut captures = self.regex.create_captures();
                self.regex.search_captures(&input, &mut captures);
                (captures.get_match()?.range(), captures.get_group(group)?.range())
            }
        };
        // What begins behind the word may go on behind what was looked at: it has a word of its own.
        let accepts = |check: &Check| check.accepts(&text[matched.clone()], &text[range.clone()]);
        let is_secret = self.check.as_ref().is_none_or(accepts);
        (matched.start <= word).then_some((Finding { begin: matched.start, range, rule }, is_secret))
    }

    /// All matches from a byte on, which are secrets as a whole.
    pub(super) fn secrets(&self, text: &str, from: usize, rule: usize) -> impl Iterator<Item = Finding> {
        let found = self.regex.find_iter(Input::new(text).range(from..));
        found.map(move |found| Finding { begin: found.start(), range: found.range(), rule })
    }

    /// The first byte at which a match may begin that has a word here, and that the text does not decide.
    pub(super) fn open_at(&self, text: &str, from: usize, word: usize, steps: &mut usize) -> Option<usize> {
        if !self.fits(text, word) {
            return None;
        }
        let begin = text.floor_char_boundary(word.saturating_sub(self.before()).max(from));
        // It is not larger than the pattern, which could be built.
        let Some(hold) = self.hold.get_or_init(|| Hold::new(std::slice::from_ref(&self.hir))) else {
            return Some(begin);
        };
        (begin..=word).find(|at| text.is_char_boundary(*at) && hold.is_open(text, *at, steps))
    }
}

/// A pattern without a begin that it may do without and has as little of as it can: it matches where the pattern does,
/// and its matches begin with words.
fn without_lazy_begin(pattern: &Hir) -> Hir {
    let is_lazy = |part: &Hir| matches!(part.kind(), HirKind::Repetition(begin) if begin.min == 0 && !begin.greedy);
    match pattern.kind() {
        HirKind::Concat(parts) if is_lazy(&parts[0]) => without_lazy_begin(&Hir::concat(parts[1..].to_vec())),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(without_lazy_begin).collect()),
        _ => pattern.clone(),
    }
}

pub(super) fn builder() -> Builder {
    let mut builder = Regex::builder();
    builder.configure(Regex::config().nfa_size_limit(Some(limits::SECRET_PATTERN_BYTES_MAX)));
    builder
}

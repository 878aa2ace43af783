//! What a match has to be to be a secret.

use aho_corasick::AhoCorasick;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use std::sync::Arc;

/// Words of which a secret has none, in letters of any case.
#[derive(Debug)]
pub(super) struct Words(Option<AhoCorasick>);

impl Words {
    pub(super) fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let words = words.into_iter().filter(|word| !word.is_empty());
        Self(AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok())
    }
}

/// Conditions on a match.
#[derive(Debug)]
pub(super) struct Check {
    /// Bits of a character of the secret: it has more.
    pub(super) entropy: f32,
    pub(super) has_digit: bool,
    /// What is no secret.
    pub(super) allow: Vec<Regex>,
    /// The match of what is none.
    pub(super) allow_match: Option<Regex>,
    pub(super) without: Arc<Words>,
}

/// Patterns as one, with the classes of ASCII; none if there are none.
pub(super) fn patterns(patterns: &[String]) -> Option<Regex> {
    let ascii = syntax::Config::new().unicode(false).utf8(false);
    let built = || Regex::builder().syntax(ascii).build_many(patterns).ok();
    if patterns.is_empty() { None } else { built() }
}

impl Check {
    /// True if a match makes it a secret.
    pub(super) fn accepts(&self, matched: &str, secret: &str) -> bool {
        (self.entropy == 0.0 || entropy(secret) > self.entropy)
            && (!self.has_digit || secret.bytes().any(|byte| byte.is_ascii_digit()))
            && !self.allow.iter().any(|allow| allow.is_match(secret))
            && !self.allow_match.as_ref().is_some_and(|allow| allow.is_match(matched))
            && !self.without.0.as_ref().is_some_and(|words| words.is_match(secret))
    }
}

/// Bits of a byte of a text, by how often each is in it.
fn entropy(text: &str) -> f32 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let share = |count: &u32| *count as f32 / text.len() as f32;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}

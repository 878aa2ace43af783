//! Which number of a refusal is the model's window.
//!
//! What was asked for is above what is allowed, so that of two sizes the window is the smaller one. Sums and parts of
//! requests make more than two; then the words before a number decide.

use super::sense;
use super::text::pattern;
use regex::Regex;
use std::sync::LazyLock;

/// Smaller windows than this are no conversation's, but a parameter's.
const WINDOW_MIN: u64 = 1_000;

/// The tokens that a model holds, from the sentences of an error that refuses a request as too long.
pub(super) fn tokens(sentences: &[String]) -> Option<u64> {
    // A plan's limit is not the model's.
    if sentences.iter().any(|sentence| sense::is_quota(sentence)) {
        return None;
    }
    sentences.iter().find_map(|sentence| of_sentence(sentence))
}

fn of_sentence(sentence: &str) -> Option<u64> {
    static OTHER: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"\bcharacters?\b|\bchars?\b|\bbytes?\b|\bstring\b|\bexpected max ?length\b|\b[kmg]i?b\b")
    });
    static CODE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"\b(?:code|error|status|http|line|port|id)\W{0,3}\d{3,18}\b|^\d{3,6}\b *[:-]|\b\d{4}-\d\d-\d\d\b")
    });
    static SIZE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b\d{3,18}\b"));
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"\btok(?:en)?s?\b"));
    // `asked > held`, where nothing is taken off what is held.
    static COMPARED: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\d(?: tok\w*)? ?> ?(\d{3,18})\b(?:( - \d)| tok\w*| max\w*)?"));
    // What is held, or what is exceeded.
    static BOUND: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?:\b(?:max\w*|limit\w*|only|supports?|configured|allowed|capacity|window|context (?:length|size)|n ctx|",
            r"truncate to|up to|at most|less than|accepts?)\b|<=|最大|上限|限制|最长|不能超过)\D{0,40}(\d{3,18})\b|",
            r"\b(\d{3,18})\b (?:tokens? )?\(?(?:max\w*|limit|allowed|available)\b|\bshould be \W{0,2}\d+, (\d{3,18})\b|",
            r"\bexceed(?:s|ed|ing)? (\d{3,18})\b"
        ))
    });
    static ASKED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:request|receiv|given|got\b|sent\b|actual|suppl)"));
    static EXCESS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"exceed|\btoo \w+|\bthan\b|\bover\b|\babove\b|at most|up to|max|limit|overflow|not enough|not fit|",
            r"cannot|must|<=?|>=?|超|大于|最大|上限|초과|maximal"
        ))
    });
    if OTHER.is_match(sentence) {
        return None;
    }
    let text = CODE.replace_all(sentence, " ");
    let of = |text: &str| text.parse().ok().filter(|size: &u64| *size >= WINDOW_MIN);
    let mut compared = COMPARED.captures_iter(&text).filter(|found| found.get(2).is_none());
    if let Some(held) = compared.find_map(|found| of(&found[1])) {
        return Some(held);
    }
    let mut sizes: Vec<u64> = SIZE.find_iter(&text).filter_map(|found| of(found.as_str())).collect();
    sizes.sort_unstable();
    sizes.dedup();
    match sizes[..] {
        [held, _] if EXCESS.is_match(&text) => return Some(held),
        // A number alone in brackets may be a code.
        [code] if text.contains(&format!("({code})")) && !TOKEN.is_match(&text) => return None,
        _ => {}
    }
    let bounds = BOUND.captures_iter(&text).filter(|found| !ASKED.is_match(&found[0]));
    let bounds = bounds.filter_map(|found| of(found.iter().skip(1).flatten().next()?.as_str()));
    let bounds: Vec<u64> = bounds.collect();
    bounds.iter().find(|bound| Some(*bound) != sizes.last()).or(bounds.first()).copied()
}

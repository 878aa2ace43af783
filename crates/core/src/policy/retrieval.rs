//! Search for passages of old dialogue that are relevant to a request: terms, passages, and the best of them.
//!
//! It supports prose; Chinese, Japanese and Korean, which have no blanks between words; and code, whose names are found
//! whole and by their pieces. Requests and history are split into the same terms.

use super::Counting;
use super::tokens::{estimate_text, estimate_text_within, length};
use super::truncate::{prefix, suffix};
use super::{LengthUnit, Retrieval};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Maximum characters of a term; a longer word is a number or a blob that no request contains, and is not indexed.
const TERM_CHARS_MAX: usize = 64;
/// BM25 parameter k1: saturation of repeated terms in a passage. The usual value.
const SATURATION: f64 = 1.2;
/// BM25 parameter b: weight of the length of a passage. The usual value.
const LENGTH_WEIGHT: f64 = 0.75;

/// The search terms of a text, in order, with repetitions.
///
/// Terms are in lower case. A name in code counts whole and, if it has several, by its pieces: `parse_JSONText` is
/// `parse_jsontext`, `parse`, `json` and `text`. In scripts without blanks each character counts, and each pair.
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let script = Script::from_char(first);
        let end = rest.find(|character| Script::from_char(character) != script).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        match script {
            Script::Blank => {}
            Script::Word => word_terms(run, &mut terms),
            Script::Dense => dense_terms(run, &mut terms),
        }
        rest = behind;
    }
    terms
}

/// The search terms of a request, each once; of a very long request those of its beginning and its end.
pub fn query(rule: &Retrieval, unit: LengthUnit, request: &str) -> Vec<String> {
    let units = rule.query_units as usize;
    // A request is measured without the blanks around it.
    let request = request.trim();
    let mut found = if length(unit, request) <= units {
        terms(request)
    } else {
        let front = units / 2;
        let ends = [prefix(unit, request, front).0, suffix(unit, request, units - front).0];
        ends.into_iter().flat_map(terms).collect()
    };
    let mut seen = HashSet::new();
    found.retain(|term| seen.insert(term.clone()));
    found
}

/// The text in passages of at most `max_tokens` tokens each, as byte ranges in order. They end at paragraphs if
/// possible, else at lines, else at sentences. Blank ones are left out.
pub fn passages(text: &str, max_tokens: i64, counting: &Counting) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    split(text, 0..text.len(), 0, max_tokens.max(1), counting, &mut pieces);
    let mut passages: Vec<(Range<usize>, i64)> = Vec::new();
    for (piece, tokens) in pieces {
        match passages.last_mut() {
            Some((passage, sum)) if sum.saturating_add(tokens) <= max_tokens => {
                passage.end = piece.end;
                *sum += tokens;
            }
            Some(_) | None => passages.push((piece, tokens)),
        }
    }
    let ranges = passages.into_iter().map(|(range, _)| range);
    ranges.filter(|range| !text[range.clone()].trim().is_empty()).collect()
}

/// Minimum score as a share of the best candidate's. Below it, a candidate has only terms in common with the query that
/// all texts have.
const SHARE_OF_BEST: f64 = 0.35;

/// The candidates worth showing within a budget, by index, ascending. Each is given by its terms, as returned by
/// [`terms`]; `size` returns the tokens of one if they are at most a number.
///
/// The score depends on the frequency of the query's terms in the candidate, their rarity among the candidates, and the
/// length of the candidate (BM25). The best come first until the budget is used up; of equals the later one. A
/// candidate without any of the terms, or with a low score beside the best one's, is never chosen.
pub fn best(
    query: &[String],
    candidates: &[Vec<String>],
    size: impl Fn(usize, i64) -> Option<i64>,
    budget_tokens: i64,
) -> Vec<usize> {
    let scores = scores(query, candidates);
    let least = scores.iter().copied().fold(0.0, f64::max) * SHARE_OF_BEST;
    let is_worth_it = |index: &usize| scores[*index] > 0.0 && scores[*index] >= least;
    let mut order: Vec<usize> = (0..candidates.len()).filter(is_worth_it).collect();
    order.sort_by(|&one, &other| scores[other].total_cmp(&scores[one]).then(other.cmp(&one)));
    let mut room = budget_tokens;
    let mut chosen = Vec::new();
    for index in order {
        if let Some(tokens) = size(index, room).filter(|_| room >= 0) {
            room -= tokens.max(0);
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    chosen
}

fn scores(query: &[String], candidates: &[Vec<String>]) -> Vec<f64> {
    let wanted: HashSet<&str> = query.iter().map(String::as_str).collect();
    let counts: Vec<HashMap<&str, u32>> = candidates.iter().map(|terms| counts(&wanted, terms)).collect();
    let mut holders: HashMap<&str, u32> = HashMap::new();
    counts.iter().flat_map(HashMap::keys).for_each(|term| *holders.entry(term).or_default() += 1);
    let total = candidates.len() as f64;
    let words: usize = candidates.iter().map(Vec::len).sum();
    let average = (words as f64 / total.max(1.0)).max(1.0);
    // In the order of the query, so that sums are the same in every run.
    let mut seen = HashSet::new();
    let unique: Vec<&str> = query.iter().map(String::as_str).filter(|term| seen.insert(*term)).collect();
    let score = |(terms, counts): (&Vec<String>, &HashMap<&str, u32>)| -> f64 {
        let length = terms.len() as f64 / average;
        let held =
            unique.iter().filter_map(|term| Some((f64::from(*counts.get(term)?), f64::from(*holders.get(term)?))));
        held.map(|(count, holders)| {
            let rarity = (1.0 + (total - holders + 0.5) / (holders + 0.5)).ln();
            let damping = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length);
            rarity * count * (SATURATION + 1.0) / (count + damping)
        })
        .sum()
    };
    candidates.iter().zip(&counts).map(score).collect()
}

/// The number of occurrences of each wanted term in a candidate.
fn counts<'a>(wanted: &HashSet<&str>, terms: &'a [String]) -> HashMap<&'a str, u32> {
    let mut counts = HashMap::new();
    for term in terms.iter().filter(|term| wanted.contains(term.as_str())) {
        let count: &mut u32 = counts.entry(term.as_str()).or_default();
        *count = count.saturating_add(1);
    }
    counts
}

/// The function of a character in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// It separates words.
    Blank,
    /// It forms a word with its neighbours.
    Word,
    /// It belongs to a script without blanks between words.
    Dense,
}

impl Script {
    fn from_char(character: char) -> Self {
        match character {
            // Kana, Hangul, and all blocks of Han.
            '\u{3005}'..='\u{3007}'
            | '\u{3041}'..='\u{30ff}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3ffff}' => Self::Dense,
            '_' => Self::Word,
            _ if character.is_alphanumeric() => Self::Word,
            _ => Self::Blank,
        }
    }
}

fn word_terms(run: &str, terms: &mut Vec<String>) {
    let word = run.trim_matches('_');
    if word.is_empty() || word.chars().count() > TERM_CHARS_MAX {
        return;
    }
    terms.push(word.to_lowercase());
    let pieces = name_pieces(word);
    if pieces.len() > 1 {
        terms.extend(pieces.into_iter().map(str::to_lowercase));
    }
}

/// The pieces of a name: between underscores, and from capitals that begin a new word.
fn name_pieces(name: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let characters: Vec<(usize, char)> = part.char_indices().collect();
        let mut start = 0;
        for index in 1..characters.len() {
            let (at, character) = characters[index];
            let before = characters[index - 1].1;
            let next_is_lower = characters.get(index + 1).is_some_and(|(_, next)| next.is_lowercase());
            if character.is_uppercase() && (!before.is_uppercase() || next_is_lower) {
                pieces.push(&part[start..at]);
                start = at;
            }
        }
        pieces.push(&part[start..]);
    }
    pieces
}

fn dense_terms(run: &str, terms: &mut Vec<String>) {
    let characters: Vec<char> = run.chars().collect();
    for (index, character) in characters.iter().enumerate() {
        terms.push(character.to_string());
        if let Some(next) = characters.get(index + 1) {
            terms.push([*character, *next].iter().collect());
        }
    }
}

/// Functions that return the split positions of a text, the best kind first.
const SPLITS: [fn(&str) -> Vec<usize>; 4] = [after_paragraphs, after_lines, after_sentences, in_the_middle];

/// Splits a range into the largest possible pieces that fit, with the tokens of each.
fn split(
    text: &str,
    range: Range<usize>,
    depth: usize,
    max_tokens: i64,
    counting: &Counting,
    pieces: &mut Vec<(Range<usize>, i64)>,
) {
    let own = &text[range.clone()];
    if own.is_empty() {
        return;
    }
    if let Some(tokens) = estimate_text_within(counting, own, max_tokens) {
        pieces.push((range, tokens));
        return;
    }
    let splits = SPLITS.get(depth).map(|split| split(own)).unwrap_or_default();
    if splits.is_empty() && depth + 1 >= SPLITS.len() {
        pieces.push((range, estimate_text(counting, own)));
        return;
    }
    // The split in the middle can be repeated.
    let deeper = if depth + 1 < SPLITS.len() { depth + 1 } else { depth };
    let mut start = range.start;
    for position in splits.into_iter().map(|split| range.start + split).chain([range.end]) {
        split(text, start..position, deeper, max_tokens, counting, pieces);
        start = position;
    }
}

fn after_paragraphs(text: &str) -> Vec<usize> {
    text.match_indices("\n\n").map(|(at, found)| at + found.len()).filter(|&at| at < text.len()).collect()
}

fn after_lines(text: &str) -> Vec<usize> {
    text.match_indices('\n').map(|(at, _)| at + 1).filter(|&at| at < text.len()).collect()
}

fn after_sentences(text: &str) -> Vec<usize> {
    let ends = text.char_indices().zip(text.chars().skip(1));
    let ends = ends.filter(|((_, character), next)| match character {
        '.' | '!' | '?' | ';' => next.is_whitespace(),
        '。' | '！' | '？' | '；' => true,
        _ => false,
    });
    ends.map(|((at, character), _)| at + character.len_utf8()).collect()
}

fn in_the_middle(text: &str) -> Vec<usize> {
    let middle = text.floor_char_boundary(text.len() / 2);
    let first = text.chars().next().map_or(0, char::len_utf8);
    [middle.max(first)].into_iter().filter(|&at| at < text.len()).collect()
}

#[cfg(test)]
mod tests;

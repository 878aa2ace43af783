//! The words that every match of a pattern begins with, or has near its begin: where there is none, nothing is tried.

use super::limits;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Bytes of a word from which on it needs no more of them.
const LONG_ENOUGH: usize = 12;

/// Characters of a class from which on it makes no words.
const CLASS_MAX: usize = 8;

/// The words of a pattern.
#[derive(Debug)]
pub(super) struct Words {
    /// In small letters of ASCII; other letters are as they are.
    pub(super) list: Vec<String>,
    /// Bytes that a match can have before a word.
    pub(super) before: usize,
    /// The bytes that they can be.
    pub(super) bytes_before: Vec<bool>,
}

impl Words {
    /// The words of a pattern; none if its matches begin with too many.
    pub(super) fn from_pattern(pattern: &Hir) -> Option<Self> {
        let mut parts = Vec::new();
        flatten(pattern, &mut parts);
        let (mut before, mut bytes_before) = (0, vec![false; 256]);
        for (at, part) in parts.iter().enumerate() {
            let begins = concatenation(parts[at..].iter().copied());
            if begins.words.iter().all(|word| word.len() >= 2) {
                return Some(Self { list: shortest(begins.words), before, bytes_before });
            }
            before += part.properties().maximum_len()?;
            if before > limits::SECRET_BYTES_BEFORE_WORDS_MAX {
                return None;
            }
            mark_bytes(part, &mut bytes_before);
        }
        None
    }
}

/// The parts of a pattern one behind the other, those of its groups too.
fn flatten<'a>(pattern: &'a Hir, parts: &mut Vec<&'a Hir>) {
    match pattern.kind() {
        HirKind::Concat(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        HirKind::Capture(capture) => flatten(&capture.sub, parts),
        _ => parts.push(pattern),
    }
}

/// What matches begin with.
struct Begins {
    words: Vec<String>,
    /// True if the words are whole matches, so that what comes behind them goes on with them.
    are_whole: bool,
}

impl Begins {
    /// Anything.
    fn any() -> Self {
        Self { words: vec![String::new()], are_whole: false }
    }

    fn nothing() -> Self {
        Self { words: vec![String::new()], are_whole: true }
    }

    /// These, and behind them those.
    fn then(self, next: &Self) -> Self {
        let is_long = self.words.iter().all(|word| word.len() >= LONG_ENOUGH);
        if !self.are_whole || is_long || self.words.len() * next.words.len() > limits::SECRET_WORDS_MAX {
            return Self { are_whole: false, ..self };
        }
        let pairs = self.words.iter().flat_map(|begin| next.words.iter().map(move |word| [begin.as_str(), word]));
        Self { words: pairs.map(|pair| pair.concat()).collect(), are_whole: next.are_whole }
    }
}

fn begins(pattern: &Hir) -> Begins {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => Begins::nothing(),
        HirKind::Literal(literal) => {
            let word = String::from_utf8_lossy(&literal.0).to_ascii_lowercase();
            Begins { words: vec![word], are_whole: true }
        }
        HirKind::Class(class) => characters(class).map_or_else(Begins::any, |words| Begins { words, are_whole: true }),
        HirKind::Capture(capture) => begins(&capture.sub),
        HirKind::Repetition(repetition) => repeated(repetition),
        HirKind::Concat(parts) => concatenation(parts.iter()),
        HirKind::Alternation(parts) => {
            let all: Vec<Begins> = parts.iter().map(begins).collect();
            let are_whole = all.iter().all(|begins| begins.are_whole);
            let words: Vec<String> = all.into_iter().flat_map(|begins| begins.words).collect();
            match words.len() <= limits::SECRET_WORDS_MAX {
                true => Begins { words, are_whole },
                false => Begins::any(),
            }
        }
    }
}

fn concatenation<'a>(parts: impl Iterator<Item = &'a Hir>) -> Begins {
    parts.fold(Begins::nothing(), |all, part| match all.are_whole {
        true => all.then(&begins(part)),
        false => all,
    })
}

fn repeated(repetition: &Repetition) -> Begins {
    let of_one = begins(&repetition.sub);
    if repetition.min == 0 {
        let mut words = of_one.words;
        words.push(String::new());
        return Begins { words, are_whole: of_one.are_whole && repetition.max == Some(1) };
    }
    let mut all = Begins::nothing();
    for _ in 0..repetition.min {
        all = all.then(&of_one);
        if !all.are_whole {
            return all;
        }
    }
    Begins { are_whole: repetition.max == Some(repetition.min), ..all }
}

/// The characters of a small class, each once for both its cases.
fn characters(class: &Class) -> Option<Vec<String>> {
    let all: Vec<char> = match class {
        Class::Unicode(class) => class.iter().flat_map(|range| range.start()..=range.end()).take(40).collect(),
        Class::Bytes(class) => {
            class.iter().flat_map(|range| range.start()..=range.end()).take(40).map(char::from).collect()
        }
    };
    let mut words: Vec<String> = all.iter().map(|character| character.to_ascii_lowercase().to_string()).collect();
    words.sort_unstable();
    words.dedup();
    (words.len() <= CLASS_MAX && all.len() < 40).then_some(words)
}

/// Words without those that begin with another one.
fn shortest(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup_by(|word, before| word.starts_with(before.as_str()));
    words
}

/// Marks the bytes that matches of a pattern can have.
fn mark_bytes(pattern: &Hir, bytes: &mut [bool]) {
    let mut mark = |from: u32, to: u32| {
        for byte in (0..256_u32).filter(|byte| (from..=to).contains(byte) || (*byte >= 0x80 && to >= 0x80)) {
            bytes[byte as usize] = true;
        }
    };
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => literal.0.iter().for_each(|byte| mark(u32::from(*byte), u32::from(*byte))),
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().for_each(|range| mark(u32::from(range.start()), u32::from(range.end())));
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().for_each(|range| mark(u32::from(range.start()), u32::from(range.end())));
        }
        HirKind::Capture(capture) => mark_bytes(&capture.sub, bytes),
        HirKind::Repetition(repetition) => mark_bytes(&repetition.sub, bytes),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().for_each(|part| mark_bytes(part, bytes)),
    }
}

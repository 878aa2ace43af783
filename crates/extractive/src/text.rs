//! Text: cleaning, splitting into sentences, shortening, and quoting.
//!
//! History is data. A quotation becomes one line without control characters, and cannot be mistaken for a heading, for
//! a file tag or for the end of the summary.

use longhand_model::harness;
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])").expect("a fixed pattern")
});

/// Tags that a reader of the summary could mistake for structure.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)<(/?(?:[a-z][a-z0-9]*[-_][a-z0-9_-]*|summary|conversation|system|user|assistant|human|tool)\b)")
        .expect("a fixed pattern")
});

static MARKUP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\*\*|__|~~").expect("a fixed pattern"));

/// Removes terminal escapes, control characters, and characters that reorder or hide text; line breaks stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter: char| letter != '\n' && (letter.is_control() || is_invisible(letter))) {
        return Cow::Borrowed(text);
    }
    let text = ESCAPE.replace_all(text, "");
    let mut cleaned = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => cleaned.push('\n'),
            '\t' => cleaned.push(' '),
            '\u{2028}' | '\u{2029}' | '\u{85}' => cleaned.push('\n'),
            other if other.is_control() || is_invisible(other) => {}
            other => cleaned.push(other),
        }
    }
    Cow::Owned(cleaned)
}

fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}')
}

/// A person's own text, without the text that an agent put around it.
pub(super) fn spoken(text: &str) -> String {
    harness::spoken(&clean(text))
}

/// The text on one line: each run of white space becomes one space.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// A line of the summary without tags and unclosed code quotes, whatever it quotes.
pub(crate) fn defuse(line: &str) -> String {
    let line = one_line(&clean(line));
    let mut line = TAG.replace_all(&line, "‹$1").into_owned();
    // A code quote that is never closed would include the text after it.
    if !line.matches('`').count().is_multiple_of(2) {
        line.push('`');
    }
    line
}

/// Quotes a text as code. The quotation marks are chosen so that the text cannot close them.
pub(super) fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// At most `limit` characters: truncated after a sentence if one ends late enough, else between words.
pub(super) fn clip(text: &str, limit: usize) -> String {
    let text = text.trim();
    let Some((end, _)) = text.char_indices().nth(limit) else { return text.to_owned() };
    let head = &text[..end];
    let least = end / 2;
    if let Some(end_of_sentence) = sentence_ends(head).filter(|at| *at >= least && *at < end).last() {
        return head[..end_of_sentence].trim_end().to_owned();
    }
    let blank = head.rfind(|letter: char| letter.is_whitespace() || is_wide(letter)).filter(|blank| *blank >= least);
    let last = || head.char_indices().last().map_or(0, |(at, _)| at);
    let clipped = head[..blank.unwrap_or_else(last)].trim_end();
    let quote = if clipped.matches('`').count().is_multiple_of(2) { "" } else { "`" };
    format!("{clipped}{quote}…")
}

/// True if a letter belongs to a script that is written without spaces.
pub(super) fn is_wide(letter: char) -> bool {
    let is_kana_or_hangul = matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{ac00}'..='\u{d7af}');
    // Thai, Lao, Burmese and Khmer.
    let is_southern = matches!(letter, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}');
    is_kana_or_hangul || is_southern || matches!(letter, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// The byte offsets right after each sentence of one line.
fn sentence_ends(line: &str) -> impl Iterator<Item = usize> + '_ {
    let mut letters = line.char_indices().peekable();
    let mut ticks = 0_usize;
    let mut previous = ' ';
    std::iter::from_fn(move || {
        while let Some((at, letter)) = letters.next() {
            let before = std::mem::replace(&mut previous, letter);
            ticks += usize::from(letter == '`');
            let next = letters.peek().map(|(_, next)| *next);
            let ends = match letter {
                '。' | '！' | '？' => true,
                '.' | '!' | '?' => {
                    next.is_none_or(char::is_whitespace)
                        && ticks.is_multiple_of(2)
                        && !is_abbreviation(line, at, before)
                }
                _ => false,
            };
            if ends {
                return Some(at + letter.len_utf8());
            }
        }
        None
    })
}

fn is_abbreviation(line: &str, at: usize, before: char) -> bool {
    let word = line[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
    let bare = word.trim_start_matches(|letter: char| !letter.is_alphanumeric());
    before.is_ascii_digit() && bare.len() <= 2
        || matches!(bare, "e.g" | "i.e" | "etc" | "vs" | "cf" | "approx" | "no" | "No" | "Mr" | "Dr")
}

pub(super) fn sentences_of(line: &str) -> Vec<&str> {
    let mut start = 0;
    let mut sentences = Vec::new();
    for end in sentence_ends(line).chain([line.len()]) {
        let sentence = line[start..end].trim();
        if sentence.chars().any(char::is_alphanumeric) {
            sentences.push(sentence);
        }
        start = end;
    }
    sentences
}

/// A line of prose, without its bullet or heading mark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line<'a> {
    /// The mark at its beginning.
    pub(super) lead: Lead,
    /// The rest.
    pub(super) text: &'a str,
}

/// The mark at the beginning of a line of prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// None, or a number.
    Plain,
    /// Hashes (`#`).
    Heading,
    /// A bullet, or a ticked check box.
    Bullet,
    /// An empty check box.
    Unchecked,
}

/// The lines of a text that are prose, without code blocks, quotations and tables.
pub(super) fn prose(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for raw in text.lines() {
        let trimmed = raw.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            // A block of one line is a command or a value, and no text that somebody can look up.
            match block.take() {
                None => block = Some(Vec::new()),
                Some(block) if block.len() == 1 && !block[0].starts_with('#') => {
                    lines.push(Line { lead: Lead::Plain, text: block[0] })
                }
                Some(_) => {}
            }
            continue;
        }
        if let Some(block) = block.as_mut() {
            block.extend(Some(trimmed).filter(|line| !line.is_empty()));
            continue;
        }
        if trimmed.is_empty() || trimmed.starts_with(['|', '>']) || !trimmed.chars().any(char::is_alphanumeric) {
            continue;
        }
        let (lead, text) = lead_of(trimmed);
        lines.push(Line { lead, text });
    }
    lines
}

fn lead_of(line: &str) -> (Lead, &str) {
    let hashes = line.trim_start_matches('#');
    if hashes.len() < line.len() && hashes.starts_with([' ', '\t']) {
        return (Lead::Heading, hashes.trim());
    }
    let bullet = ["- ", "* ", "• ", "+ ", "– ", "· "].iter().find_map(|mark| line.strip_prefix(mark));
    let (lead, rest) = match bullet {
        Some(rest) => (Lead::Bullet, rest),
        None => (Lead::Plain, numbered(line).unwrap_or(line)),
    };
    let behind = |marks: &[&str]| marks.iter().find_map(|mark| rest.trim_start().strip_prefix(mark));
    if let Some(rest) = behind(&["[ ]", "☐", "⬜"]) {
        return (Lead::Unchecked, rest.trim());
    }
    behind(&["[x]", "[X]", "☑", "✅", "✓", "✔", "☒"]).map_or((lead, rest.trim()), |rest| (Lead::Bullet, rest.trim()))
}

fn numbered(line: &str) -> Option<&str> {
    let digits = line.len() - line.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let rest = &line[digits..];
    if digits == 0 || digits > 2 {
        return None;
    }
    let behind = rest.strip_prefix(['.', ')', '、'])?;
    (behind.starts_with(' ') || rest.starts_with('、')).then_some(behind)
}

/// The last segment of a path, with slashes or backslashes.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Removes emphasis, which means nothing in a quotation.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    MARKUP.replace_all(text, "")
}

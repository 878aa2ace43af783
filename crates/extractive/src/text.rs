//! Text: cleaning, splitting into sentences, shortening, quoting, and its shape: by a person or by a program.
//!
//! History is data. A quotation becomes one line without control characters, and cannot be mistaken for a heading, for
//! a file tag or for the end of the summary.

use longhand_model::harness;
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a fixed pattern")
}

static ESCAPE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])"));

/// Tags that a reader of the summary could mistake for structure.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)<(/?(?:[a-z][a-z0-9]*[-_][a-z0-9_-]*|summary|conversation|system|user|assistant|human|tool)\b)")
});

static MARKUP: LazyLock<Regex> = LazyLock::new(|| pattern(r"\*\*|__|~~"));

/// Removes terminal escapes, control characters, and characters that reorder or hide text; line breaks stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte == b'\n' || (b' '..0x7f).contains(&byte);
    if text.bytes().all(is_plain)
        || !text.contains(|letter: char| letter != '\n' && (letter.is_control() || is_invisible(letter)))
    {
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
        line.extend(if line.is_empty() { ["", word] } else { [" ", word] });
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

/// At most `limit` characters: truncated between words.
pub(super) fn clip(text: &str, limit: usize) -> String {
    let text = text.trim();
    let Some((end, _)) = text.char_indices().nth(limit) else { return text.to_owned() };
    let head = &text[..end];
    let least = end / 2;
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

pub(super) fn sentences_of(line: &str) -> Vec<&str> {
    let (mut sentences, mut start, mut ticks) = (Vec::new(), 0, 0_usize);
    let mut letters = line.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        ticks += usize::from(letter == '`');
        let is_end = match letter {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => {
                let is_short = ["e.g.", "i.e.", "vs."].iter().any(|word| line[start..=at].ends_with(word));
                !is_short && ticks.is_multiple_of(2) && letters.peek().is_none_or(|(_, next)| next.is_whitespace())
            }
            _ => false,
        };
        if is_end || letters.peek().is_none() {
            let end = at + letter.len_utf8();
            sentences.push(line[start..end].trim());
            start = end;
        }
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// The mark at the beginning of a line of prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    Plain,
    Heading,
    /// A bullet, or a ticked check box.
    Bullet,
    Unchecked,
}

/// The lines of a text that are prose, each behind its mark, without code blocks, quotations and tables.
pub(super) fn prose(text: &str) -> Vec<(Lead, &str)> {
    let mut lines = Vec::new();
    let mut fenced = false;
    for raw in text.lines() {
        let trimmed = raw.trim();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        fenced ^= is_fence;
        if is_fence || fenced {
            continue;
        }
        if trimmed.is_empty() || trimmed.starts_with(['|', '>']) || !trimmed.chars().any(char::is_alphanumeric) {
            continue;
        }
        lines.push(lead_of(trimmed));
    }
    lines
}

fn lead_of(line: &str) -> (Lead, &str) {
    let hashes = line.trim_start_matches('#');
    if hashes.len() < line.len() && hashes.starts_with([' ', '\t']) {
        return (Lead::Heading, hashes.trim());
    }
    let bullet = ["- ", "* ", "• ", "+ ", "– ", "· "].iter().find_map(|mark| line.strip_prefix(mark));
    let digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let mut marks = [". ", ") ", "、"].iter().filter(|_| (1..=2).contains(&(line.len() - digits.len())));
    let numbered = marks.find_map(|mark| digits.strip_prefix(mark));
    let (lead, rest) = match bullet {
        Some(rest) => (Lead::Bullet, rest),
        None => (Lead::Plain, numbered.unwrap_or(line)),
    };
    let behind = |marks: &[&str]| marks.iter().find_map(|mark| rest.trim_start().strip_prefix(mark));
    if let Some(rest) = behind(&["[ ]", "☐", "⬜"]) {
        return (Lead::Unchecked, rest.trim());
    }
    behind(&["[x]", "[X]", "☑", "✅", "✓", "✔", "☒"]).map_or((lead, rest.trim()), |rest| (Lead::Bullet, rest.trim()))
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

pub(super) fn plain(text: &str) -> Cow<'_, str> {
    MARKUP.replace_all(text, "")
}

/// True for an output that is a text for people: the body of an issue, a page, the answer of another agent.
pub(super) fn is_prose(output: &str) -> bool {
    const LINES_MIN: usize = 4;
    const PROSE_PERCENT_MIN: usize = 60;
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).take(400).collect();
    let says = |line: &&&str| {
        let line = line.trim();
        let is_point =
            ["- ", "* ", "• ", "# ", "## "].iter().any(|mark| line.starts_with(mark)) || line.ends_with([':', '：']);
        let words =
            line.split_whitespace().filter(|word| word.chars().filter(|letter| letter.is_alphabetic()).count() > 1);
        is_point
            || !is_machine_made(line)
                && (words.count() >= 4 || line.chars().filter(|letter| is_wide(*letter)).count() > 8)
    };
    let said = lines.iter().filter(says).count();
    lines.len() >= LINES_MIN && 100 * said >= PROSE_PERCENT_MIN * lines.len()
}

/// True for a line of a log, of a table or of code: few letters, indented, or padded by a terminal.
pub(super) fn is_machine_made(line: &str) -> bool {
    const LETTERS_PERCENT_MIN: usize = 75;
    let words = line.trim();
    let is_indented = line.starts_with('\t') || line.starts_with("    ");
    if is_indented || line.ends_with("  ") || words.contains("    ") {
        return true;
    }
    let (mut all, mut letters) = (0, 0);
    for letter in words.chars() {
        all += 1;
        letters += usize::from(letter.is_alphabetic() || matches!(letter, ' ' | ',' | '.'));
    }
    100 * letters < LETTERS_PERCENT_MIN * all
}

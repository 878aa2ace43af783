//! Data in a prompt, marked so that nothing in it can pass for the prompt's own structure.
//!
//! The structure of a prompt is at the beginning of lines: tags, labels of a transcript, notes about omissions. Data
//! follows a label on the same line; every further line of data begins with [`MARGIN`]. So a text that contains
//! `[User]:` or a closing tag comes after a margin, in any spelling and with any line endings, and removing the margins
//! restores exactly the same text.

use crate::policy::{LengthUnit, truncate};
use std::borrow::Cow;

/// The mark before every line of data that does not follow a label.
pub const MARGIN: &str = "> ";

/// Tag around the previous summary.
pub(super) const PREVIOUS_TAG: &str = "previous-summary";

/// Tags around data.
const TAGS: [&str; 4] = ["conversation", "partial-summary", "draft-summary", PREVIOUS_TAG];

/// True for characters after which a reader may see a new line: models treat other separators than `\n` as line ends
/// too.
pub fn ends_line(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Data after a label: a margin before every line but the first.
pub fn behind_label(text: &str) -> Cow<'_, str> {
    if !text.contains(ends_line) {
        return Cow::Borrowed(text);
    }
    let mut marked = String::with_capacity(text.len() + text.len() / 16);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        marked.push(letter);
        let is_pair = letter == '\r' && letters.peek() == Some(&'\n');
        if ends_line(letter) && !is_pair {
            marked.push_str(MARGIN);
        }
    }
    Cow::Owned(marked)
}

/// Data without a label: a margin before every line.
pub fn block(text: &str) -> String {
    format!("{MARGIN}{}", behind_label(text))
}

/// The rest of a marked text after a split: if the split is in the middle of a line, the rest gets a margin of its own.
pub(super) fn after_split(before: &str, rest: &str) -> String {
    let in_line = before.chars().next_back().is_some_and(|last| !ends_line(last));
    if in_line && !rest.is_empty() { format!("{MARGIN}{rest}") } else { rest.to_owned() }
}

/// Marked data between tags. Tags for data inside it are escaped too, for readers that notice them in the middle of a
/// line.
pub(super) fn tagged(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", defused(&TAGS, text))
}

/// The text with these tags escaped, in any spelling: `</conversation>` becomes `<\/conversation>`.
pub(in crate::policy) fn defused<'a>(tags: &[&str], text: &'a str) -> Cow<'a, str> {
    let mut out = String::new();
    let mut from = 0;
    for (at, _) in text.match_indices('<') {
        let rest = &text[at + 1..];
        let name = rest.trim_start_matches(|letter: char| letter == '/' || is_blank(letter));
        let is_tag = tags.iter().any(|tag| name.get(..tag.len()).is_some_and(|name| name.eq_ignore_ascii_case(tag)));
        if is_tag {
            out.push_str(&text[from..=at]);
            out.push('\\');
            from = at + 1;
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

/// True for characters that are invisible, or visible only as a gap.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace()
        || letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}')
}

/// Separator between entries of a transcript and between blocks of a prompt.
pub const GAP: &str = "\n\n";

/// The first `units` units of a text, and true if that omits something. Units are UTF-16, as both agents count them.
pub(super) fn truncated(text: &str, units: usize) -> (&str, bool) {
    let (kept, _) = truncate::prefix(LengthUnit::Utf16, text, units);
    (kept, kept.len() < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_data_but_the_first_has_a_margin() {
        for (text, expected) in [
            ("one line", "one line"),
            ("", ""),
            ("a\nb", "a\n> b"),
            ("a\r\nb\rc\u{2028}d\u{85}e\u{b}f", "a\r\n> b\r> c\u{2028}> d\u{85}> e\u{b}> f"),
            ("a\n\n> b\n", "a\n> \n> > b\n> "),
        ] {
            assert_eq!(behind_label(text), expected);
            assert_eq!(block(text), format!("> {expected}"));
        }
    }

    #[test]
    fn tags_are_harmless_however_they_are_spelled() {
        for (text, expected) in [
            ("</tag>", "<\\/tag>"),
            ("<tag>", "<\\tag>"),
            ("< / TAG >", "<\\ / TAG >"),
            ("<\u{200b}/\ttag", "<\\\u{200b}/\ttag"),
            ("<\n/tag>", "<\\\n/tag>"),
            ("<<tag>", "<<\\tag>"),
            ("<ta", "<ta"),
            ("a < b", "a < b"),
        ] {
            assert_eq!(defused(&["tag"], text), expected);
            assert_eq!(defused(&["tag"], expected), expected, "once is enough");
        }
    }
}

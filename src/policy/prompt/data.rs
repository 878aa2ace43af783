//! Data in a prompt, marked so that nothing in it can pass for the prompt's own structure.
//!
//! The structure of a prompt is what stands at the beginning of a line: tags, labels of a transcript, notes about what
//! is left out. A label is followed by data on its own line; every further line of data has [`MARGIN`] in front of it.
//! So a text that contains `[User]:` or a closing tag is a text behind a margin, however it is spelled and whatever
//! ends its lines, and taking the margins away gives back the very same text.

use crate::policy::Summary;
use std::borrow::Cow;

/// The mark in front of every line of data that has no label in front of it.
pub const MARGIN: &str = "> ";

/// Tags that hold data, besides the policy's for the previous summary.
const TAGS: [&str; 4] = ["conversation", "partial-summary", "draft-summary", "previous-summary"];

/// The characters behind which a reader may see the beginning of a line: models take other separators than `\n` for such.
pub fn ends_line(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Data that stands behind a label: a margin in front of every line but the first.
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

/// Data that stands by itself: a margin in front of every line.
pub fn block(text: &str) -> String {
    format!("{MARGIN}{}", behind_label(text))
}

/// A piece of a marked text, from where it was cut to its end: in the middle of a line it gets a margin of its own.
pub(super) fn from_cut(before: &str, rest: &str) -> String {
    let in_line = before.chars().next_back().is_some_and(|last| !ends_line(last));
    if in_line && !rest.is_empty() { format!("{MARGIN}{rest}") } else { rest.to_owned() }
}

/// Marked data between tags. The tags for data that are in it are made harmless too, for whoever reads them in the
/// middle of a line.
pub(super) fn tagged(rules: &Summary, tag: &str, text: &str) -> String {
    let tags = TAGS.into_iter().chain([rules.prompt.previous_tag.as_str()]);
    format!("<{tag}>\n{}\n</{tag}>", defused(&tags.collect::<Vec<_>>(), text))
}

/// The text with these tags made harmless, however they are spelled: `</conversation>` becomes `<\/conversation>`.
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

/// Characters of which nothing is seen, or only a gap.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace()
        || letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}')
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

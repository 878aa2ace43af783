//! Characters that change how a text is shown without being seen: control characters, marks that reorder text, and
//! invisible characters. They are written as `\u{202e}`, so that no text looks like another one.

use std::borrow::Cow;

/// The text with such characters written out. Line feeds and tabs stay, and so do joiners, since scripts and emoji are
/// written with them.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        // The line ends of other systems are line ends.
        if letter == '\r' && letters.peek() == Some(&'\n') {
            continue;
        }
        if is_hidden(letter) { out.extend(letter.escape_unicode()) } else { out.push(letter) }
    }
    Cow::Owned(out)
}

/// The text on one line, with such characters written out.
pub(super) fn visible_line(text: &str) -> String {
    visible(&text.replace(['\n', '\t'], " ")).into_owned()
}

fn is_hidden(letter: char) -> bool {
    (letter.is_control() && !matches!(letter, '\n' | '\t'))
        || matches!(letter, '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_written_out() {
        for (text, expected) in [
            ("é 漢 👩\u{200d}🚀\tx\ny", "é 漢 👩\u{200d}🚀\tx\ny"),
            ("\u{202e}gnp.exe\u{2066}", "\\u{202e}gnp.exe\\u{2066}"),
            ("a\r\nb\rc\u{1b}[2J\u{9b}\0", "a\nb\\u{d}c\\u{1b}[2J\\u{9b}\\u{0}"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(visible_line("a\nb\u{85}"), "a b\\u{85}");
    }
}

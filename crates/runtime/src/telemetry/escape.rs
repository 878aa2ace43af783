//! Escaping of text from clients, models and tools for a terminal.
//!
//! A terminal obeys control characters in titles, outputs and names: an escape sequence rewrites lines that were
//! printed before, a carriage return overwrites its own line, a bidirectional override shows words in another order.
//! All such characters are written as `\u{1b}`; letters of any script stay as they are.

use std::borrow::Cow;
use std::io;

/// A text on one line: escapes every character that would start a new line or change how the text is shown. Tabs stay.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter != '\t' && is_active(letter))
}

/// A text on several lines: as `line`, but line feeds stay too.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| !matches!(letter, '\t' | '\n') && is_active(letter))
}

/// JSON text: such characters can only be in strings, where their JSON escapes mean the same.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_active(letter) {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, is_written_out: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_written_out) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_written_out(letter) { out.extend(letter.escape_unicode()) } else { out.push(letter) }
    }
    Cow::Owned(out)
}

/// Characters that a terminal does not simply show: control characters, separators of lines, characters that reorder
/// text, and invisible characters. Joiners stay, since scripts and emoji are written with them.
fn is_active(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Writes each event of the log on one line, whatever it contains. Each write must be a whole event.
pub(super) struct EventWriter<W>(pub(super) W);

impl<W: io::Write> io::Write for EventWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let event = text.strip_suffix('\n').unwrap_or(&text);
        writeln!(self.0, "{}", line(event))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    #[test]
    fn control_characters_are_escaped() {
        for (text, expected) in [
            ("plain é 漢 👩\u{200d}🚀", "plain é 漢 👩\u{200d}🚀"),
            ("\u{1b}[2J\u{1b}]0;t\u{7}", "\\u{1b}[2J\\u{1b}]0;t\\u{7}"),
            ("a\rb\u{8}c\u{7f}", "a\\u{d}b\\u{8}c\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}gnp.exe\u{2066}", "\\u{202e}gnp.exe\\u{2066}"),
            ("one\ntwo\u{2028}three\u{85}", "one\\u{a}two\\u{2028}three\\u{85}"),
            ("tab\tstays", "tab\tstays"),
        ] {
            assert_eq!(line(text), expected);
        }
        assert_eq!(lines("one\ntwo\r\n\u{1b}"), "one\ntwo\\u{d}\n\\u{1b}");
    }

    #[test]
    fn every_event_of_the_log_is_one_line() {
        let mut written = Vec::new();
        EventWriter(&mut written).write_all("INFO title=\u{1b}[31m\nINFO forged\n".as_bytes()).expect("written");
        assert_eq!(String::from_utf8(written).expect("UTF-8"), "INFO title=\\u{1b}[31m\\u{a}INFO forged\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn json_has_the_same_content_escaped(text in any::<String>(), more in "[\u{0}-\u{ff}\u{2028}-\u{202e}\u{e0020}]{0,20}") {
            let text = format!("{text}{more}");
            let written = serde_json::to_string(&text).expect("JSON");
            let escaped = json(&written);
            prop_assert!(!escaped.contains(is_active), "{escaped}");
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), text.clone());
            prop_assert!(!line(&text).contains(|letter| letter != '\t' && is_active(letter)));
        }
    }
}

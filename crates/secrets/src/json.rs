//! Strings of JSON without their escapes, and what is around them, also where the text breaks off.

use super::limits;
use std::borrow::Cow;

/// What is next outside of a string.
pub(super) enum Outside {
    /// A string, whose characters begin at this byte.
    String(usize),
    /// Something at this byte that is no JSON: a text only began like it.
    Text(usize),
    /// Nothing: what is from this byte on may become either.
    End(usize),
}

/// Passes over what is between strings.
pub(super) fn outside(text: &str, is_end: bool) -> Outside {
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        if *byte == b'"' {
            return Outside::String(at + 1);
        }
        if byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':') {
            at += 1;
            continue;
        }
        let is_of_scalar = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = text.as_bytes()[at..].iter().take_while(|byte| is_of_scalar(byte)).count();
        let is_open = !is_end && at + length == text.len();
        match is_scalar(&text[at..at + length], is_open) {
            true if is_open => return Outside::End(at),
            true => at += length,
            false => return Outside::Text(at),
        }
    }
    Outside::End(at)
}

/// True for numbers and the three words, or for what may become one.
fn is_scalar(token: &str, is_open: bool) -> bool {
    let is_word = |word: &&str| if is_open { word.starts_with(token) } else { *word == token };
    let is_number = token.starts_with(|first: char| first.is_ascii_digit() || first == '-')
        && token.len() <= limits::SECRET_NUMBER_BYTES_MAX
        && token.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    is_number || ["true", "false", "null"].iter().any(is_word)
}

/// What is behind a string.
pub(super) enum Behind {
    /// The string that it is the name of, whose characters begin at this byte.
    Value(usize),
    /// Nothing yet.
    End,
    /// Something else.
    Other,
}

/// Looks behind the closing quote of a string.
pub(super) fn behind(text: &str) -> Behind {
    let rest = text.trim_ascii_start();
    let value = rest.strip_prefix(':').map(str::trim_ascii_start);
    match value {
        _ if rest.is_empty() || value == Some("") => Behind::End,
        Some(value) if value.starts_with('"') => Behind::Value(text.len() - value.len() + 1),
        _ => Behind::Other,
    }
}

/// The rest of a string, up to its end or to where the text breaks off.
pub(super) struct JsonString<'a> {
    /// Its characters.
    pub(super) text: Cow<'a, str>,
    /// For each byte of it, the byte of the text as it was sent at which its character begins; none if they are the same.
    origins: Option<Vec<u32>>,
    /// Bytes as they were sent, without the closing quote or an escape that breaks off.
    pub(super) length: usize,
    /// True if the closing quote is there.
    pub(super) is_closed: bool,
}

impl JsonString<'_> {
    /// The byte of the text as it was sent, for a byte of the characters at which one begins, or for their end.
    pub(super) fn sent(&self, at: usize) -> usize {
        let Some(origins) = &self.origins else { return at };
        origins.get(at).and_then(|origin| usize::try_from(*origin).ok()).unwrap_or(self.length)
    }
}

/// Reads the rest of a string.
pub(super) fn string(sent: &str) -> JsonString<'_> {
    let plain = sent.find(['"', '\\']).unwrap_or(sent.len());
    if !sent[plain..].starts_with('\\') {
        let is_closed = plain < sent.len();
        return JsonString { text: Cow::Borrowed(&sent[..plain]), origins: None, length: plain, is_closed };
    }
    let (mut text, mut origins) = (String::new(), Vec::new());
    let mut add = |character: char, at: usize| {
        text.push(character);
        let origin = u32::try_from(at).unwrap_or(u32::MAX);
        origins.extend(std::iter::repeat_n(origin, character.len_utf8()));
    };
    let (mut at, mut is_closed) = (0, false);
    while let Some(character) = sent[at..].chars().next() {
        match character {
            '"' => {
                is_closed = true;
                break;
            }
            '\\' => match escape(&sent[at..]) {
                Some((character, length)) => {
                    add(character, at);
                    at += length;
                }
                None => break,
            },
            character => {
                add(character, at);
                at += character.len_utf8();
            }
        }
    }
    JsonString { text: Cow::Owned(text), origins: Some(origins), length: at, is_closed }
}

/// The character of an escape at the begin of a text, and the bytes that it takes; none if the text breaks off in it.
/// What is no escape is read as the character behind the backslash.
fn escape(sent: &str) -> Option<(char, usize)> {
    let character = sent[1..].chars().next()?;
    let plain = match character {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => return unicode(sent),
        other => other,
    };
    Some((plain, 1 + character.len_utf8()))
}

/// The same for `\u` and four digits, or two of them.
fn unicode(sent: &str) -> Option<(char, usize)> {
    let first = match unit(sent) {
        Unit::Whole(unit) => unit,
        Unit::Broken => return None,
        Unit::None => return Some(('u', 2)),
    };
    if !(0xD800..0xDC00).contains(&first) {
        return Some((char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6));
    }
    match unit(&sent[6..]) {
        Unit::Whole(second @ 0xDC00..0xE000) => {
            let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            Some((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12))
        }
        Unit::Broken => None,
        Unit::Whole(_) | Unit::None => Some((char::REPLACEMENT_CHARACTER, 6)),
    }
}

/// `\u` and four digits at the begin of a text.
enum Unit {
    Whole(u32),
    /// The text breaks off in it.
    Broken,
    None,
}

fn unit(sent: &str) -> Unit {
    let bytes = &sent.as_bytes()[..sent.len().min(6)];
    let fits = bytes.iter().zip(0..).all(|(byte, at)| match at {
        0 => *byte == b'\\',
        1 => *byte == b'u',
        _ => byte.is_ascii_hexdigit(),
    });
    match sent.get(2..6).filter(|_| fits) {
        Some(digits) => u32::from_str_radix(digits, 16).map_or(Unit::None, Unit::Whole),
        None if fits => Unit::Broken,
        None => Unit::None,
    }
}

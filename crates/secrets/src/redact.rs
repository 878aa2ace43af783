//! Texts as a whole: what rules find in them, and the texts without it.

use super::json::{self, Behind, JsonString, Outside};
use super::limits;
use super::pattern::Finding;
use super::rules::{Action, BegunMatch, Rules};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

/// The secret key of a store's placeholders and digests: equal secrets have equal ones, and nobody else can compute them.
#[derive(Clone)]
pub struct Salt(pub [u8; 32]);

impl std::fmt::Debug for Salt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Salt")
    }
}

/// How every placeholder begins.
pub const PLACEHOLDER: &str = "[secret:";

/// Hexadecimal digits of a placeholder's hash.
const HASH_DIGITS: usize = 12;

impl Salt {
    /// The salted digest of bytes that a client sent.
    pub fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.0, bytes).as_bytes()
    }

    /// What is stored in place of a secret. It has no character that means something in JSON.
    pub(super) fn placeholder(&self, rule: &str, secret: &str) -> String {
        let mut placeholder = format!("{PLACEHOLDER}{rule}:");
        for byte in &self.digest(secret.as_bytes())[..HASH_DIGITS / 2] {
            // Writing to a text never fails.
            let _ = write!(placeholder, "{byte:02x}");
        }
        placeholder.push(']');
        placeholder
    }
}

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// As it is.
    Text,
    /// As JSON if it begins like an object, a list or a string, behind white space that is no longer than a secret can
    /// be: each string of it, names too, is a text of its own, without its escapes, and a name is what is before its
    /// value. Numbers are no texts. Otherwise, and from the first byte on that no JSON can have, as it is.
    Json,
    /// As an address: the text of a `data:` URI in base64 without it, everything else as it is.
    Uri,
}

/// A secret that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The rule.
    pub rule: usize,
    /// Its action.
    pub action: Action,
}

/// What became of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedactedText {
    /// The text to store; none if it is stored as it came.
    pub text: Option<String>,
    /// What was found, in order.
    pub hits: Vec<Hit>,
}

/// Where a text stands that is read piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingState {
    /// How the text goes on.
    pub reading: ReadingMode,
    /// The character before, of the same string of JSON.
    pub before: Option<char>,
    /// The matches that go on, of rules that differ.
    pub begun: Vec<BegunMatch>,
}

/// How a text goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingMode {
    /// By its first character that is no white space.
    Undecided,
    /// As it is.
    Text,
    /// As JSON, outside of a string.
    Json,
    /// As JSON, within a string.
    JsonString,
}

impl ReadingState {
    /// The begin of a text.
    pub(super) fn begin(syntax: Syntax) -> Self {
        Self::new(if syntax == Syntax::Json { ReadingMode::Undecided } else { ReadingMode::Text })
    }

    fn new(reading: ReadingMode) -> Self {
        Self { reading, before: None, begun: Vec::new() }
    }

    fn decide(&mut self, text: &str) {
        if self.reading == ReadingMode::Undecided {
            let most = limits::SECRET_BYTES_MAX;
            self.reading = match text.bytes().take(most).find(|byte| !byte.is_ascii_whitespace()) {
                None if text.len() < most => ReadingMode::Undecided,
                Some(b'{' | b'[' | b'"') => ReadingMode::Json,
                None | Some(_) => ReadingMode::Text,
            };
        }
    }

    /// Passes over a text in which nothing is to be found.
    pub(super) fn pass(&mut self, text: &str) {
        self.decide(text);
        self.begun.clear();
        let mut rest = text;
        while matches!(self.reading, ReadingMode::Json | ReadingMode::JsonString) {
            if self.reading == ReadingMode::Json {
                match json::outside(rest, false) {
                    Outside::String(at) => (*self, rest) = (Self::new(ReadingMode::JsonString), &rest[at..]),
                    Outside::Text(at) => {
                        (*self, rest) = (Self::new(ReadingMode::Text), &rest[at..]);
                        break;
                    }
                    Outside::End(_) => return,
                }
            }
            let string = json::string(rest);
            if !string.is_closed {
                self.before = string.text.chars().next_back().or(self.before);
                return;
            }
            (*self, rest) = (Self::new(ReadingMode::Json), &rest[string.length + 1..]);
        }
        self.before = rest.chars().next_back().or(self.before);
    }
}

/// What was found in a text as it was sent.
pub(super) struct SecretMatch {
    /// The bytes of the text.
    pub(super) range: Range<usize>,
    pub(super) rule: usize,
    /// What matched, without escapes.
    pub(super) secret: String,
}

impl SecretMatch {
    fn at(range: Range<usize>, rule: usize, secret: String) -> Self {
        Self { range, rule, secret }
    }
}

/// The bytes of a placeholder, and those that it stands for.
pub(super) struct Placeholder {
    pub(super) shown: Range<usize>,
    pub(super) received: Range<usize>,
}

impl Rules {
    /// Reads a whole text.
    pub fn redact(&self, salt: &Salt, syntax: Syntax, text: &str) -> RedactedText {
        if syntax == Syntax::Uri
            && let Some((head, content)) = content_of_data_uri(text)
        {
            let RedactedText { text, hits } = self.redact(salt, Syntax::Text, &content);
            return RedactedText { text: text.map(|text| [head, &STANDARD.encode(text)].concat()), hits };
        }
        let (_, found) = self.scan(&mut ReadingState::begin(syntax), text, true);
        let hits = found.iter().map(|found| self.hit(found.rule)).collect();
        let is_changed = found.iter().any(|found| self.action(found.rule) != Action::Warn);
        RedactedText { text: is_changed.then(|| self.replace(salt, text, &found).0), hits }
    }

    /// What the rules find in a text, with its bytes.
    pub fn positions(&self, syntax: Syntax, text: &str) -> Vec<(Range<usize>, Hit)> {
        let (_, found) = self.scan(&mut ReadingState::begin(syntax), text, true);
        found.into_iter().map(|found| (found.range, self.hit(found.rule))).collect()
    }

    pub(super) fn hit(&self, rule: usize) -> Hit {
        Hit { rule, action: self.action(rule) }
    }

    /// A text with placeholders, and where they are.
    pub(super) fn replace(&self, salt: &Salt, text: &str, found: &[SecretMatch]) -> (String, Vec<Placeholder>) {
        let (mut replaced, mut ranges, mut copied) = (String::with_capacity(text.len()), Vec::new(), 0);
        for SecretMatch { range, rule, secret } in found.iter().filter(|found| self.action(found.rule) != Action::Warn)
        {
            replaced.push_str(&text[copied..range.start]);
            let begin = replaced.len();
            replaced.push_str(&salt.placeholder(self.name(*rule), secret));
            ranges.push(Placeholder { shown: begin..replaced.len(), received: range.clone() });
            copied = range.end;
        }
        replaced.push_str(&text[copied..]);
        (replaced, ranges)
    }

    /// Reads a text from a place in it on, up to where nothing that comes behind it can change what is found, or to its
    /// end if nothing comes. Returns how far that is, with what was found before it; the place is then there.
    pub(super) fn scan(&self, place: &mut ReadingState, text: &str, is_end: bool) -> (usize, Vec<SecretMatch>) {
        place.decide(text);
        if place.reading == ReadingMode::Undecided {
            if !is_end {
                return (0, Vec::new());
            }
            place.reading = ReadingMode::Text;
        }
        if place.reading == ReadingMode::Text {
            let mut found = Vec::new();
            let on_found = |range, rule, secret| found.push(SecretMatch { range, rule, secret });
            let settled = self.scan_text(place, text, is_end, &[], on_found);
            return (settled, found);
        }
        self.scan_json(place, text, is_end)
    }

    /// Reads text behind the character before it, with what its name makes of it. Returns how far it is settled.
    fn scan_text(
        &self,
        place: &mut ReadingState,
        text: &str,
        is_whole: bool,
        named: &[Finding],
        mut on_found: impl FnMut(Range<usize>, usize, String),
    ) -> usize {
        let with_before = match place.before {
            None => Cow::Borrowed(text),
            Some(before) => Cow::Owned(format!("{before}{text}")),
        };
        let from = with_before.len() - text.len();
        let mut begun = self.rests(&with_before, from, &place.begun);
        begun.extend(named.iter().map(|found| found.moved(from)));
        let (settled, findings, begun) = match is_whole {
            true => (with_before.len(), self.find(&with_before, from, begun), Vec::new()),
            false => self.settle(&with_before, from, begun),
        };
        for Finding { range, rule, .. } in findings {
            let secret = with_before[range.clone()].to_owned();
            on_found(range.start - from..range.end - from, rule, secret);
        }
        (place.before, place.begun) = (with_before[..settled].chars().next_back(), begun);
        settled - from
    }

    fn scan_json(&self, place: &mut ReadingState, text: &str, is_end: bool) -> (usize, Vec<SecretMatch>) {
        let (mut found, mut at) = (Vec::new(), 0);
        // A name before its value.
        let mut name: Option<Name> = None;
        loop {
            if place.reading == ReadingMode::Json {
                match json::outside(&text[at..], is_end) {
                    Outside::String(begin) => {
                        at += begin;
                        *place = ReadingState::new(ReadingMode::JsonString);
                    }
                    Outside::End(end) => return (at + end, found),
                    Outside::Text(begin) => {
                        at += begin;
                        *place = ReadingState::new(ReadingMode::Text);
                        let on_found = |range: Range<usize>, rule, secret| {
                            found.push(SecretMatch::at(at + range.start..at + range.end, rule, secret))
                        };
                        let settled = self.scan_text(place, &text[at..], is_end, &[], on_found);
                        return (at + settled, found);
                    }
                }
            }
            let string = json::string(&text[at..]);
            let of_value = name.take();
            if of_value.is_none() && string.is_closed {
                match self.named(&string, &text[at + string.length + 1..], is_end) {
                    // What it makes of its value is not known yet.
                    None => return (at, found),
                    Some(findings) if findings.is_empty() => {}
                    Some(findings) => {
                        name = Some(Name { at, place: place.clone(), found: found.len(), findings });
                    }
                }
            }
            let named = of_value.as_ref().map_or(&[] as &[Finding], |name| &name.findings);
            let settled =
                self.scan_text(place, &string.text, string.is_closed || is_end, named, |range, rule, secret| {
                    found.push(SecretMatch::at(
                        at + string.sent(range.start)..at + string.sent(range.end),
                        rule,
                        secret,
                    ));
                });
            if !string.is_closed {
                if let Some(name) =
                    of_value.filter(|name| name.findings.iter().any(|found| found.range.start >= settled))
                {
                    // A name waits with what it makes of its value.
                    found.truncate(name.found);
                    *place = name.place;
                    return (name.at, found);
                }
                return (if is_end { text.len() } else { at + string.sent(settled) }, found);
            }
            at += string.length + 1;
            *place = ReadingState::new(ReadingMode::Json);
        }
    }

    /// What a name, with the text behind its closing quote, makes of its value, as bytes of that; none if this depends
    /// on what comes.
    fn named(&self, name: &JsonString<'_>, behind: &str, is_end: bool) -> Option<Vec<Finding>> {
        let (value, is_whole) = match json::behind(behind) {
            _ if name.text.len() > limits::SECRET_KEY_NAME_BYTES_MAX => return Some(Vec::new()),
            Behind::Other => return Some(Vec::new()),
            Behind::End if is_end => return Some(Vec::new()),
            Behind::End => (None, false),
            Behind::Value(begin) => {
                let value = json::string(&behind[begin..]);
                let is_whole = value.is_closed || is_end;
                (Some(value.text), is_whole)
            }
        };
        let begin = name.text.len() + NAME_TO_VALUE.len();
        // Where nothing is behind the name yet, a value may come.
        let (text, quote) = (value.as_deref().unwrap_or_default(), if is_whole { "\"" } else { "" });
        let both = format!("{}{NAME_TO_VALUE}{text}{quote}", name.text);
        let end = begin + text.len();
        let reaching = self.reaching(&both, name.text.len(), is_whole)?;
        let of_value = |found: Finding| {
            let range = found.range.start.max(begin)..found.range.end.min(end);
            let range = range.start.checked_sub(begin)?..range.end.checked_sub(begin)?;
            (!range.is_empty()).then_some(Finding { begin: range.start, range, rule: found.rule })
        };
        Some(reaching.into_iter().filter_map(of_value).collect())
    }
}

/// The text in a `data:` URI, with what is before it; none if it is none in base64, or its bytes are no text.
fn content_of_data_uri(uri: &str) -> Option<(&str, String)> {
    let is_data = uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    let (head, content) = uri.split_at(uri.find(',')? + 1);
    let is_base64 = head.to_ascii_lowercase().split([';', ',']).skip(1).any(|word| word.trim() == "base64");
    let decoded = || LENIENT.decode(in_standard_base64(content)).ok();
    let bytes = (is_data && is_base64).then(decoded)??;
    String::from_utf8(bytes).ok().map(|content| (head, content))
}

/// Base64 with or without padding.
const LENIENT: GeneralPurpose = {
    let padding = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&alphabet::STANDARD, padding.with_decode_allow_trailing_bits(true))
};

/// Base64 in the characters of its first form, without white space and without what a URI writes with `%`.
fn in_standard_base64(content: &str) -> Vec<u8> {
    let hex = |digit: Option<u8>| char::from(digit?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = content.bytes();
    let mut plain = Vec::with_capacity(content.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'-' => b'+',
            b'_' => b'/',
            b'%' => match (hex(bytes.next()), hex(bytes.next())) {
                (Some(high), Some(low)) => high << 4 | low,
                (None, _) | (_, None) => b'%',
            },
            byte => byte,
        });
    }
    plain.retain(|byte| !byte.is_ascii_whitespace());
    plain
}

/// What is between a name and its value.
const NAME_TO_VALUE: &str = "\": \"";

/// A name in JSON whose value has a secret because of it.
struct Name {
    /// Its first byte.
    at: usize,
    /// The place there.
    place: ReadingState,
    /// The number of secrets before.
    found: usize,
    findings: Vec<Finding>,
}

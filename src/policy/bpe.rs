//! Exact token counts: byte-pair encodings, and cutting a text where its tokens end.
//!
//! Three encodings are built in. For any other, the user gives a [`Vocabulary`] in the text form that tiktoken reads;
//! reading the file is the caller's business. All of them take time that grows with the length of the text only: the
//! built-in ones linearly, a vocabulary by its logarithm more.
//!
//! Words that look like special tokens are plain text in OpenAI's encodings. In Qwen's, and in a vocabulary, they are
//! one token each, as Qwen-Agent counts them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bpe_openai::{Normalizable, Tokenizer};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use thiserror::Error;

/// An encoding that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// OpenAI's since GPT-4o; what Neovate Code counts with.
    O200kBase,
    /// OpenAI's of GPT-3.5 and GPT-4; what litellm counts with when it does not know a model.
    Cl100kBase,
    /// Qwen's: the same 151 643 tokens as the file `qwen.tiktoken` that Qwen-Agent brings along.
    Qwen,
}

impl Encoding {
    /// The tokenizer. The first use in a process unpacks its tables, which takes some milliseconds and stays.
    fn tokenizer(self) -> &'static Tokenizer {
        match self {
            Self::O200kBase => bpe_openai::o200k_base(),
            Self::Cl100kBase => bpe_openai::cl100k_base(),
            // Voyage AI uses Qwen's vocabulary and way of splitting; the tables are Qwen's, byte for byte.
            Self::Qwen => bpe_openai::voyage3_base(),
        }
    }

    /// The text as it is encoded: Qwen's is put into the composed normal form first.
    fn normal(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::O200kBase | Self::Cl100kBase => Cow::Borrowed(text),
            Self::Qwen => composed(text),
        }
    }

    /// Whether words that look like special tokens are tokens.
    fn knows_specials(self) -> bool {
        match self {
            Self::O200kBase | Self::Cl100kBase => false,
            Self::Qwen => true,
        }
    }

    /// The text with the places where its tokens end.
    pub fn tokenize(self, text: &str) -> Tokenized<'_> {
        let tokenizer = self.tokenizer();
        let text = self.normal(text);
        let mut ends = Vec::with_capacity(text.len() / 3);
        let mut end = 0;
        for segment in segments(&text, self.knows_specials()) {
            match segment {
                Segment::Special(word) => {
                    end += word.len();
                    ends.push(end);
                }
                Segment::Plain(plain) => {
                    for piece in tokenizer.split(plain) {
                        for token in tokenizer.bpe.encode_via_backtracking(piece.as_bytes()) {
                            end += tokenizer.bpe.token_len(token);
                            ends.push(end);
                        }
                    }
                }
            }
        }
        Tokenized { text, ends }
    }
}

/// The tokens of a text in a built-in encoding.
pub fn count(encoding: Encoding, text: &str) -> i64 {
    let tokenizer = encoding.tokenizer();
    let text = encoding.normal(text);
    let tokens: usize = segments(&text, encoding.knows_specials())
        .map(|segment| match segment {
            Segment::Special(_) => 1,
            Segment::Plain(plain) => tokenizer.split(plain).map(|piece| tokenizer.bpe.count(piece.as_bytes())).sum(),
        })
        .sum();
    tokens as i64
}

/// A text with the places where its tokens end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokenized<'a> {
    /// The text as it was encoded, which for Qwen is its composed normal form.
    text: Cow<'a, str>,
    /// The byte behind each token. It may stand inside a character, since a character can take several tokens.
    ends: Vec<usize>,
}

impl Tokenized<'_> {
    /// How many tokens there are.
    pub fn count(&self) -> i64 {
        self.ends.len() as i64
    }

    /// The whole text, as it was encoded.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of the first so many tokens. A character that would be cut in two is left out.
    pub fn prefix(&self, tokens: i64) -> &str {
        let end = self.end_of(usize::try_from(tokens).unwrap_or(0));
        &self.text[..self.text.floor_char_boundary(end)]
    }

    /// The text of the last so many tokens. A character that would be cut in two is left out.
    pub fn suffix(&self, tokens: i64) -> &str {
        let left_out = self.ends.len().saturating_sub(usize::try_from(tokens).unwrap_or(0));
        &self.text[self.text.ceil_char_boundary(self.end_of(left_out))..]
    }

    /// The text in at most so many tokens: the first and the last ones with a filler between them, as Qwen-Agent cuts a
    /// text on both sides. The filler's own tokens count; where there is no room beside it, the first tokens stay
    /// without it. Of an odd number the end gets one more.
    pub fn both_sides(&self, tokens: i64, filler: &str, filler_tokens: i64) -> Cow<'_, str> {
        if self.count() <= tokens {
            return Cow::Borrowed(self.text());
        }
        let room = tokens.saturating_sub(filler_tokens);
        if room <= 0 {
            return Cow::Borrowed(self.prefix(tokens));
        }
        let front = room / 2;
        Cow::Owned(format!("{}{filler}{}", self.prefix(front), self.suffix(room - front)))
    }

    /// The byte behind the first so many tokens.
    fn end_of(&self, tokens: usize) -> usize {
        match tokens.min(self.ends.len()) {
            0 => 0,
            tokens => self.ends[tokens - 1],
        }
    }
}

/// An encoding that the user gives: tokens with their ranks. Texts are normalised and split as Qwen's are.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    name: String,
    /// Tells it from another vocabulary of the same name.
    fingerprint: String,
    /// The rank of each token. Of two neighbours that could be joined, those with the lowest rank are joined first.
    ranks: HashMap<Box<[u8]>, u32>,
    /// The bytes of the longest token: what is longer needs no look-up.
    longest: usize,
    pieces: Regex,
}

/// Why a text is not a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VocabularyError {
    /// A line is not a token in base64, a blank and a rank.
    #[error("line {line} of the vocabulary is not a token in base64 and its rank")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// A token or a rank stands there twice.
    #[error("line {line} of the vocabulary repeats a token or a rank")]
    Repeated {
        /// Counted from 1.
        line: usize,
    },
    /// Some texts could not be encoded.
    #[error("the vocabulary has no token for the single byte {byte}")]
    MissingByte {
        /// The first such byte.
        byte: u8,
    },
}

/// How Qwen splits a text into pieces, each of which is encoded by itself. The original also has a white space run end
/// before the last character unless the text ends there; [`Vocabulary::next_piece`] does that.
const PIECE: &str = concat!(
    r"^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+)"
);

impl Vocabulary {
    /// Reads a vocabulary: a line for each token, with the token in base64 and its rank. Blank lines do not count.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, VocabularyError> {
        let mut ranks = HashMap::new();
        let mut seen = HashSet::new();
        let mut longest = 0;
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let (token, rank) = entry(line).ok_or(VocabularyError::Line { line: number })?;
            longest = longest.max(token.len());
            if !seen.insert(rank) || ranks.insert(token.into_boxed_slice(), rank).is_some() {
                return Err(VocabularyError::Repeated { line: number });
            }
        }
        if let Some(byte) = (0..=u8::MAX).find(|byte| !ranks.contains_key([*byte].as_slice())) {
            return Err(VocabularyError::MissingByte { byte });
        }
        let pieces = Regex::new(PIECE).expect("a constant pattern");
        let fingerprint = blake3::hash(bytes).to_hex().to_string();
        Ok(Self { name: name.to_owned(), fingerprint, ranks, longest, pieces })
    }

    /// The name under which a policy asks for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hash of the text it was read from.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The tokens of a text.
    pub fn count(&self, text: &str) -> i64 {
        let mut tokens = 0;
        self.each_end(&composed(text), |_| tokens += 1);
        tokens
    }

    /// The text with the places where its tokens end.
    pub fn tokenize<'a>(&self, text: &'a str) -> Tokenized<'a> {
        let text = composed(text);
        let mut ends = Vec::with_capacity(text.len() / 3);
        self.each_end(&text, |end| ends.push(end));
        Tokenized { text, ends }
    }

    /// Tells the byte behind each token.
    fn each_end(&self, text: &str, mut tell: impl FnMut(usize)) {
        let mut merger = Merger::default();
        let mut at = 0;
        for segment in segments(text, true) {
            match segment {
                Segment::Special(word) => {
                    at += word.len();
                    tell(at);
                }
                Segment::Plain(mut rest) => {
                    while !rest.is_empty() {
                        let (piece, behind) = rest.split_at(self.next_piece(rest));
                        merger.each_end(self, piece.as_bytes(), |end| tell(at + end));
                        at += piece.len();
                        rest = behind;
                    }
                }
            }
        }
    }

    /// How many bytes of a text that is not empty its first piece has.
    fn next_piece(&self, rest: &str) -> usize {
        // Every character fits one of the alternatives, so that there always is a piece.
        let piece = self.pieces.find(rest).map_or(rest, |found| found.as_str());
        let mut characters = piece.chars().rev();
        match characters.next() {
            // White space without a line break at its end is the last alternative. Its last character belongs to the
            // word behind it, unless that leaves nothing, or nothing is behind it.
            Some(last) if piece.len() < rest.len() && last.is_whitespace() && !matches!(last, '\r' | '\n') => {
                let without = piece.len() - last.len_utf8();
                if without == 0 { piece.len() } else { without }
            }
            _ => piece.len(),
        }
    }

    fn rank(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest { None } else { self.ranks.get(bytes).copied() }
    }
}

/// A token and its rank.
fn entry(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let token = BASE64_STANDARD.decode(fields.next()?).ok().filter(|token| !token.is_empty())?;
    let rank = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some((token, rank))
}

/// Joins the bytes of a piece to tokens: always the two neighbours whose union has the lowest rank, the first of
/// equals. Its buffers are used again for the next piece.
#[derive(Debug, Default)]
struct Merger {
    /// For the first byte of each current part, the byte behind it. 0 for all other bytes.
    ends: Vec<usize>,
    /// For the first byte of each current part, the first byte of the part before it.
    before: Vec<usize>,
    /// Unions that were possible when they were noted: rank, first byte, first byte of the second part, end.
    unions: BinaryHeap<Reverse<(u32, usize, usize, usize)>>,
}

impl Merger {
    fn each_end(&mut self, vocabulary: &Vocabulary, piece: &[u8], mut tell: impl FnMut(usize)) {
        // Most pieces are a token.
        if vocabulary.rank(piece).is_some() {
            return tell(piece.len());
        }
        self.ends.clear();
        self.ends.extend(1..=piece.len());
        self.before.clear();
        self.before.extend((0..piece.len()).map(|start| start.saturating_sub(1)));
        self.unions.clear();
        for start in 0..piece.len() {
            self.note(vocabulary, piece, start);
        }
        while let Some(Reverse((_, start, middle, end))) = self.unions.pop() {
            // One of its parts may have been joined to something else since.
            if self.ends[start] != middle || self.ends[middle] != end {
                continue;
            }
            self.ends[start] = end;
            self.ends[middle] = 0;
            if end < piece.len() {
                self.before[end] = start;
            }
            self.note(vocabulary, piece, start);
            if start > 0 {
                self.note(vocabulary, piece, self.before[start]);
            }
        }
        let mut end = 0;
        while end < piece.len() {
            end = self.ends[end];
            tell(end);
        }
    }

    /// Notes the union of the part that starts here with the one behind it, if it is a token.
    fn note(&mut self, vocabulary: &Vocabulary, piece: &[u8], start: usize) {
        let middle = self.ends[start];
        if middle < piece.len() {
            let end = self.ends[middle];
            if let Some(rank) = vocabulary.rank(&piece[start..end]) {
                self.unions.push(Reverse((rank, start, middle, end)));
            }
        }
    }
}

/// A stretch of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment<'a> {
    Plain(&'a str),
    /// One token.
    Special(&'a str),
}

/// The text in stretches, none of them empty.
fn segments(text: &str, specials: bool) -> impl Iterator<Item = Segment<'_>> {
    let mut rest = text;
    let mut pending = None;
    std::iter::from_fn(move || {
        if let Some(word) = pending.take() {
            return Some(Segment::Special(word));
        }
        if rest.is_empty() {
            return None;
        }
        let found = if specials { next_special(rest) } else { None };
        let (start, length) = found.unwrap_or((rest.len(), 0));
        let (plain, behind) = rest.split_at(start);
        let (word, behind) = behind.split_at(length);
        rest = behind;
        match (plain.is_empty(), word.is_empty()) {
            (true, _) => Some(Segment::Special(word)),
            (false, true) => Some(Segment::Plain(plain)),
            (false, false) => {
                pending = Some(word);
                Some(Segment::Plain(plain))
            }
        }
    })
}

/// Where the first special token of Qwen's is, and how long it is.
fn next_special(text: &str) -> Option<(usize, usize)> {
    text.match_indices("<|").find_map(|(start, _)| special_length(&text[start..]).map(|length| (start, length)))
}

/// How long the special token is with which the text begins.
fn special_length(text: &str) -> Option<usize> {
    const SPECIALS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
    const EXTRA: &str = "<|extra_";
    const EXTRAS: u32 = 205;
    if let Some(word) = SPECIALS.iter().find(|word| text.starts_with(**word)) {
        return Some(word.len());
    }
    let digits = text.strip_prefix(EXTRA)?;
    let (digits, _) = digits.split_at(digits.bytes().take(3).take_while(u8::is_ascii_digit).count());
    let word = format!("{EXTRA}{}|>", digits.parse().ok().filter(|number: &u32| *number < EXTRAS)?);
    text.starts_with(&word).then_some(word.len())
}

/// The composed normal form of a text.
fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.normalize(true).as_str().to_owned()) }
}

#[cfg(test)]
mod tests;

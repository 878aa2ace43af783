//! Exact token counts with byte-pair encodings, and truncation of texts at token boundaries.
//!
//! Three encodings are built in. For any other one, the user supplies a [`Vocabulary`] in the text form of tiktoken;
//! the caller reads the file. The run time depends on the length of the text only: linear for the built-in encodings,
//! and with an additional logarithmic factor for a vocabulary.
//!
//! Text that looks like a special token is plain text in OpenAI's encodings. In Qwen's encoding and in a vocabulary it
//! is one token, as Qwen-Agent counts it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bpe_openai::{Normalizable, Tokenizer};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use thiserror::Error;

/// A built-in encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// OpenAI's encoding since GPT-4o, with which Neovate Code counts.
    O200kBase,
    /// OpenAI's encoding of GPT-3.5 and GPT-4, with which litellm counts for unknown models.
    Cl100kBase,
    /// Qwen's encoding: the same 151 643 tokens as the file `qwen.tiktoken` of Qwen-Agent.
    Qwen,
}

impl Encoding {
    /// The tokenizer. Its first use in a process unpacks its tables, which takes some milliseconds; they stay in
    /// memory.
    fn tokenizer(self) -> &'static Tokenizer {
        match self {
            Self::O200kBase => bpe_openai::o200k_base(),
            Self::Cl100kBase => bpe_openai::cl100k_base(),
            // Voyage AI uses Qwen's vocabulary and splitting rules; the tables are Qwen's, byte for byte.
            Self::Qwen => bpe_openai::voyage3_base(),
        }
    }

    /// The text in the form in which it is encoded: for Qwen in the composed normal form.
    fn normal(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::O200kBase | Self::Cl100kBase => Cow::Borrowed(text),
            Self::Qwen => composed(text),
        }
    }

    /// True if text that looks like a special token is one.
    fn knows_specials(self) -> bool {
        match self {
            Self::O200kBase | Self::Cl100kBase => false,
            Self::Qwen => true,
        }
    }

    /// The text with the ends of its tokens.
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

/// The number of tokens of a text in a built-in encoding.
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

/// The least number of tokens that a text can have, in any encoding.
pub fn least(text: &str) -> i64 {
    i64::from(!text.is_empty())
}

/// The greatest number of tokens that a text can have, in any encoding: a token has a byte at least, and a composed
/// normal form is at most three times as long as the text.
pub fn most(text: &str) -> i64 {
    (text.len() as i64).saturating_mul(3)
}

/// A text with the ends of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokenized<'a> {
    /// The text as it was encoded; for Qwen its composed normal form.
    text: Cow<'a, str>,
    /// Byte offset of the end of each token. It may be inside a character, since a character can take several tokens.
    ends: Vec<usize>,
}

impl Tokenized<'_> {
    /// The number of tokens.
    pub fn count(&self) -> i64 {
        self.ends.len() as i64
    }

    /// The whole text, as it was encoded.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of the first `tokens` tokens, without a character that would be split at the end.
    pub fn prefix(&self, tokens: i64) -> &str {
        let end = self.end_of(usize::try_from(tokens).unwrap_or(0));
        &self.text[..self.text.floor_char_boundary(end)]
    }

    /// The text of the last `tokens` tokens, without a character that would be split at the start.
    pub fn suffix(&self, tokens: i64) -> &str {
        let left_out = self.ends.len().saturating_sub(usize::try_from(tokens).unwrap_or(0));
        &self.text[self.text.ceil_char_boundary(self.end_of(left_out))..]
    }

    /// The text in at most `tokens` tokens: the first and the last ones with a filler between them, as in Qwen-Agent's
    /// truncation on both sides. The tokens of the filler count. If there is no room beside the filler, the first
    /// tokens stay without it. An odd number gives the end one more token.
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

    /// Byte offset of the end of the first `tokens` tokens.
    fn end_of(&self, tokens: usize) -> usize {
        match tokens.min(self.ends.len()) {
            0 => 0,
            tokens => self.ends[tokens - 1],
        }
    }
}

/// An encoding supplied by the user: tokens with their ranks. Texts are normalised and split as for Qwen.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    name: String,
    /// Distinguishes the vocabulary from another one of the same name.
    fingerprint: String,
    /// The rank of each token. The adjacent pair whose union has the lowest rank is joined first.
    ranks: HashMap<Box<[u8]>, u32>,
    /// Bytes of the longest token; longer byte strings need no look-up.
    longest: usize,
    pieces: Regex,
}

/// The reason why a text is not a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VocabularyError {
    /// A line is not a token in base64, a blank and a rank.
    #[error("line {line} of the vocabulary is not a token in base64 and its rank")]
    Line {
        /// Line number, from 1.
        line: usize,
    },
    /// A token or a rank occurs twice.
    #[error("line {line} of the vocabulary repeats a token or a rank")]
    Repeated {
        /// Line number, from 1.
        line: usize,
    },
    /// A single byte has no token, so that some texts could not be encoded.
    #[error("the vocabulary has no token for the single byte {byte}")]
    MissingByte {
        /// The first such byte.
        byte: u8,
    },
}

/// Qwen's pattern for the pieces of a text, each of which is encoded separately. In the original, a run of white space
/// also ends before its last character unless the text ends there; [`Vocabulary::next_piece`] implements that.
const PIECE: &str = concat!(
    r"^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+)"
);

impl Vocabulary {
    /// Parses a vocabulary: one line per token, with the token in base64 and its rank. Blank lines are ignored.
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

    /// The name by which a policy refers to the vocabulary.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hash of the text from which the vocabulary was read.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The number of tokens of a text.
    pub fn count(&self, text: &str) -> i64 {
        let mut tokens = 0;
        self.each_end(&composed(text), |_| tokens += 1);
        tokens
    }

    /// The text with the ends of its tokens.
    pub fn tokenize<'a>(&self, text: &'a str) -> Tokenized<'a> {
        let text = composed(text);
        let mut ends = Vec::with_capacity(text.len() / 3);
        self.each_end(&text, |end| ends.push(end));
        Tokenized { text, ends }
    }

    /// Calls `emit` with the byte offset of the end of each token.
    fn each_end(&self, text: &str, mut emit: impl FnMut(usize)) {
        let mut merger = Merger::default();
        let mut at = 0;
        for segment in segments(text, true) {
            match segment {
                Segment::Special(word) => {
                    at += word.len();
                    emit(at);
                }
                Segment::Plain(mut rest) => {
                    while !rest.is_empty() {
                        let (piece, behind) = rest.split_at(self.next_piece(rest));
                        merger.each_end(self, piece.as_bytes(), |end| emit(at + end));
                        at += piece.len();
                        rest = behind;
                    }
                }
            }
        }
    }

    /// Length in bytes of the first piece of a text that is not empty.
    fn next_piece(&self, rest: &str) -> usize {
        // Every character matches one of the alternatives, so that there always is a piece.
        let piece = self.pieces.find(rest).map_or(rest, |found| found.as_str());
        let mut characters = piece.chars().rev();
        match characters.next() {
            // White space without a line break at its end matches the last alternative. Its last character belongs to
            // the next word, unless the piece would become empty or the text ends here.
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

/// Joins the bytes of a piece to tokens: always the adjacent pair whose union has the lowest rank, and the first of
/// equals. The buffers are reused for the next piece.
#[derive(Debug, Default)]
struct Merger {
    /// For the first byte of each current part, the end of the part; 0 for all other bytes.
    ends: Vec<usize>,
    /// For the first byte of each current part, the first byte of the previous part.
    before: Vec<usize>,
    /// Candidate unions at the time they were added: rank, first byte, first byte of the second part, end.
    unions: BinaryHeap<Reverse<(u32, usize, usize, usize)>>,
}

impl Merger {
    fn each_end(&mut self, vocabulary: &Vocabulary, piece: &[u8], mut emit: impl FnMut(usize)) {
        // Most pieces are one token.
        if vocabulary.rank(piece).is_some() {
            return emit(piece.len());
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
            // One of the two parts may have been joined to another one since.
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
            emit(end);
        }
    }

    /// Adds the union of the part that starts at `start` with the next one, if it is a token.
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

/// A segment of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment<'a> {
    Plain(&'a str),
    /// One token.
    Special(&'a str),
}

/// The segments of the text, none of them empty.
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

/// Position and length of the first special token of Qwen's encoding.
fn next_special(text: &str) -> Option<(usize, usize)> {
    text.match_indices("<|").find_map(|(start, _)| special_length(&text[start..]).map(|length| (start, length)))
}

/// Length of the special token at the start of the text; none without one.
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

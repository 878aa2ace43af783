//! Exact token counts with byte-pair encodings, and truncation of texts at token boundaries.
//!
//! Three encodings are built in. For any other one, the user supplies a [`Vocabulary`] in the text form of tiktoken;
//! the caller reads the file. The run time depends on the length of the text only, and is linear but for a logarithmic
//! factor in the length of a piece without a boundary.
//!
//! Text that looks like a special token is plain text in OpenAI's encodings. In Qwen's encoding and in a vocabulary it
//! is one token.
//!
//! Libraries for these encodings either lack Qwen's, or keep automata of 71 MB in the binary. The tables here are below
//! 2 MB, are unpacked within milliseconds, and count as fast.

mod known;
mod merge;
mod pauses;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use known::KnownCounts;
use merge::Merger;
pub use pauses::with_pauses;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::LazyLock;
use thiserror::Error;
use unicode_normalization::UnicodeNormalization as _;

/// A built-in encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// OpenAI's encoding since GPT-4o.
    O200kBase,
    /// OpenAI's encoding of GPT-3.5 and GPT-4.
    Cl100kBase,
    /// Qwen's encoding: the 151 643 tokens of its file `qwen.tiktoken`.
    Qwen,
}

impl Encoding {
    /// The table of the encoding. Its first use in a process unpacks it, which takes some milliseconds; it then stays
    /// in memory.
    fn table(self) -> &'static Table {
        static O200K_BASE: LazyLock<Table> = LazyLock::new(|| {
            Table::unpack(include_bytes!("bpe/o200k_base.zst"), O200K_PIECE, SpecialTokens::Text, Form::AsIs)
        });
        static CL100K_BASE: LazyLock<Table> = LazyLock::new(|| {
            Table::unpack(include_bytes!("bpe/cl100k_base.zst"), CL100K_PIECE, SpecialTokens::Text, Form::AsIs)
        });
        static QWEN: LazyLock<Table> = LazyLock::new(|| {
            Table::unpack(include_bytes!("bpe/qwen.zst"), QWEN_PIECE, SpecialTokens::Tokens, Form::Composed)
        });
        match self {
            Self::O200kBase => &O200K_BASE,
            Self::Cl100kBase => &CL100K_BASE,
            Self::Qwen => &QWEN,
        }
    }

    /// The text with the ends of its tokens.
    pub fn tokenize(self, text: &str) -> TokenizedText<'_> {
        self.table().tokenize(text)
    }

    /// The bytes of all tokens, by rank.
    pub fn tokens(self) -> Vec<&'static [u8]> {
        let table = self.table();
        let mut tokens: Vec<(u32, &[u8])> = table.ranks.iter().map(|(token, rank)| (*rank, &**token)).collect();
        tokens.sort_unstable();
        tokens.into_iter().map(|(_, token)| token).collect()
    }
}

/// The number of tokens of a text in a built-in encoding.
pub fn count(encoding: Encoding, text: &str) -> i64 {
    encoding.table().count(text)
}

/// The number of tokens of a text in a built-in encoding, or a smaller one above `enough`.
pub fn count_above(encoding: Encoding, text: &str, enough: i64) -> i64 {
    encoding.table().count_above(text, enough)
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
pub struct TokenizedText<'a> {
    /// The text as it was encoded; for Qwen its composed normal form.
    text: Cow<'a, str>,
    /// Byte offset of the end of each token. It may be inside a character, since a character can take several tokens.
    ends: Vec<usize>,
}

impl TokenizedText<'_> {
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

    /// The text in at most `tokens` tokens: the first and the last ones with a filler between them. The tokens of the filler count. If there is no room beside the filler, the first
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

// The patterns of the pieces of a text, each of which is encoded separately. In the originals, a run of white space also
// ends before its last character unless the text ends there; `Table::next_piece` implements that.

const QWEN_PIECE: &str = concat!(
    r"^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+)"
);

const CL100K_PIECE: &str = concat!(
    r"^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+)"
);

const O200K_PIECE: &str = concat!(
    r"^(?:[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+)"
);

/// The meaning of a text that looks like a special token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpecialTokens {
    /// Text like any other.
    Text,
    /// One token.
    Tokens,
}

/// The form in which a text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    AsIs,
    /// The composed normal form.
    Composed,
}

/// The tokens and the rules of an encoding.
#[derive(Debug)]
struct Table {
    /// The rank of each token. The adjacent pair whose union has the lowest rank is joined first.
    ranks: HashMap<Box<[u8]>, u32>,
    /// Bytes of the longest token; longer byte strings need no look-up.
    longest: usize,
    pieces: Regex,
    specials: SpecialTokens,
    form: Form,
    known: KnownCounts,
}

impl Table {
    fn new(
        ranks: HashMap<Box<[u8]>, u32>,
        piece: &str,
        specials: SpecialTokens,
        form: Form,
        known: KnownCounts,
    ) -> Self {
        let longest = ranks.keys().map(|token| token.len()).max().unwrap_or(0);
        let pieces = Regex::new(piece).expect("a constant pattern");
        Self { ranks, longest, pieces, specials, form, known }
    }

    /// Unpacks a built-in table: the tokens by rank, each after its length in one byte.
    fn unpack(packed: &[u8], piece: &str, specials: SpecialTokens, form: Form) -> Self {
        let tokens = zstd::decode_all(packed).expect("a constant table");
        let mut ranks = HashMap::with_capacity(tokens.len() / 8);
        let mut rest = tokens.as_slice();
        for rank in 0.. {
            let Some((length, behind)) = rest.split_first() else { break };
            let (token, behind) = behind.split_at(usize::from(*length));
            ranks.insert(token.into(), rank);
            rest = behind;
        }
        Self::new(ranks, piece, specials, form, KnownCounts::for_encoding(packed))
    }

    fn count(&self, text: &str) -> i64 {
        self.count_above(text, i64::MAX)
    }

    /// The number of tokens, or a smaller one above `enough`.
    fn count_above(&self, text: &str, enough: i64) -> i64 {
        self.known.count(text, enough, |enough| {
            let mut tokens = 0;
            self.each_end(&self.normal(text), |_| {
                tokens += 1;
                tokens <= enough
            });
            tokens
        })
    }

    fn tokenize<'a>(&self, text: &'a str) -> TokenizedText<'a> {
        let text = self.normal(text);
        let mut ends = Vec::with_capacity(text.len() / 3);
        self.each_end(&text, |end| {
            ends.push(end);
            true
        });
        TokenizedText { text, ends }
    }

    /// The text in the form in which it is encoded.
    fn normal<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.form {
            Form::Composed if !text.is_ascii() => Cow::Owned(text.nfc().collect()),
            Form::Composed | Form::AsIs => Cow::Borrowed(text),
        }
    }

    /// Calls `emit` with the byte offset of the end of each token, up to the piece with a token after which it returns
    /// false.
    fn each_end(&self, text: &str, mut emit: impl FnMut(usize) -> bool) {
        let mut merger = Merger::default();
        let (mut at, mut goes_on) = (0, true);
        for segment in segments(text, self.specials == SpecialTokens::Tokens) {
            match segment {
                Segment::Special(word) => {
                    at += word.len();
                    goes_on = emit(at);
                }
                Segment::Plain(mut rest) => {
                    while goes_on && !rest.is_empty() {
                        let (piece, behind) = rest.split_at(self.next_piece(rest));
                        merger.each_end(piece.as_bytes(), |token| self.rank(token), |end| goes_on &= emit(at + end));
                        at += piece.len();
                        rest = behind;
                    }
                }
            }
            if !goes_on {
                return;
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

/// An encoding supplied by the user: tokens with their ranks. Texts are normalised and split as for Qwen.
#[derive(Debug)]
pub struct Vocabulary {
    name: String,
    /// Distinguishes the vocabulary from another one of the same name.
    fingerprint: String,
    table: Table,
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

impl Vocabulary {
    /// Parses a vocabulary: one line per token, with the token in base64 and its rank. Blank lines are ignored.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, VocabularyError> {
        let mut ranks = HashMap::new();
        let mut seen = HashSet::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let (token, rank) = entry(line).ok_or(VocabularyError::Line { line: number })?;
            if !seen.insert(rank) || ranks.insert(token.into_boxed_slice(), rank).is_some() {
                return Err(VocabularyError::Repeated { line: number });
            }
        }
        if let Some(byte) = (0..=u8::MAX).find(|byte| !ranks.contains_key([*byte].as_slice())) {
            return Err(VocabularyError::MissingByte { byte });
        }
        let fingerprint = blake3::hash(bytes).to_hex().to_string();
        let known = KnownCounts::for_encoding(bytes);
        let table = Table::new(ranks, QWEN_PIECE, SpecialTokens::Tokens, Form::Composed, known);
        Ok(Self { name: name.to_owned(), fingerprint, table })
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
        self.table.count(text)
    }

    /// The number of tokens of a text, or a smaller one above `enough`.
    pub fn count_above(&self, text: &str, enough: i64) -> i64 {
        self.table.count_above(text, enough)
    }

    /// The text with the ends of its tokens.
    pub fn tokenize<'a>(&self, text: &'a str) -> TokenizedText<'a> {
        self.table.tokenize(text)
    }
}

/// A token and its rank.
fn entry(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let token = BASE64_STANDARD.decode(fields.next()?).ok().filter(|token| !token.is_empty())?;
    let rank = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some((token, rank))
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

#[cfg(test)]
mod tests;

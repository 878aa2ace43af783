//! The words of a text.

use super::stem::stem;
use std::ops::Range;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Maximum characters of an indexed word; a longer one counts by its beginning, in texts and in queries.
const WORD_CHARS_MAX: usize = 40;
/// Maximum characters of a name that is split into pieces; a longer one is data.
const NAME_CHARS_MAX: usize = 128;
/// Maximum number of pieces of a name.
const PIECES_MAX: usize = 16;
/// From this number on, pieces that are short on average show that a word is encoded data and no name.
const DATA_PIECES: usize = 4;
/// Minimum average length of such pieces, in characters.
const PIECE_CHARS: usize = 3;
/// Maximum characters of a word that is a name however short its pieces are: encoded data is longer.
const SHORT_NAME_CHARS: usize = 8;

/// The column of an index that a word belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The words of a text in their order, so that phrases can be found.
    Whole,
    /// The pieces of names in their order, and last characters of runs in a script without blanks.
    Piece,
    /// The stems of words and pieces that differ from them.
    Stem,
}

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text as it is.
    Plain,
    /// JSON: an escape stands for its character.
    Json,
}

impl Form {
    /// The form of a text of which nothing is known: JSON if it has the brackets of an object or a list around it.
    pub fn from_text(text: &str) -> Self {
        let text = text.trim();
        let is_within = |open, close| text.starts_with(open) && text.ends_with(close);
        if is_within('{', '}') || is_within('[', ']') { Self::Json } else { Self::Plain }
    }
}

/// A character of a text, with the bytes that stand for it.
#[derive(Debug, Clone, Copy)]
struct Unit {
    character: char,
    start: usize,
    end: usize,
}

/// The function of a character in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// It separates words.
    Blank,
    /// It forms a word with its neighbours.
    Word,
    /// It belongs to a script without blanks between words.
    Dense,
}

impl Script {
    fn from_char(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => Self::Word,
            '\0'..='\x7f' => Self::Blank,
            // Thai, Lao, Burmese and Khmer, Kana, Hangul with its letters, and all blocks of Han.
            '\u{e01}'..='\u{e3a}'
            | '\u{e40}'..='\u{e4e}'
            | '\u{e81}'..='\u{ece}'
            | '\u{edc}'..='\u{edf}'
            | '\u{1000}'..='\u{103f}'
            | '\u{1050}'..='\u{108f}'
            | '\u{1780}'..='\u{17d3}'
            | '\u{1100}'..='\u{11ff}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3041}'..='\u{30ff}'
            | '\u{3130}'..='\u{318f}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ffdc}'
            | '\u{20000}'..='\u{3ffff}' => Self::Dense,
            _ if character.is_alphanumeric() => Self::Word,
            _ => Self::Blank,
        }
    }
}

/// True for a character that belongs to the one before it: an accent, a sound mark of kana, a later letter of a syllable
/// of Hangul.
fn continues(character: char) -> bool {
    match character {
        '\0'..='\x7f' => false,
        '\u{ff9e}' | '\u{ff9f}' | '\u{1160}'..='\u{11ff}' => true,
        other => is_combining_mark(other),
    }
}

/// Calls `each` with every word of a text, its column and its bytes in the text, in the order of the text.
///
/// Words are in lower case and in one width (NFKC). A name counts whole and, if it has several, by its pieces:
/// `parse_JSONText2` is `parse_jsontext2`, and `parse`, `json`, `text` and `2`. Words that are no names, and pieces, count
/// by their English stems too, where those differ. In scripts without blanks each pair of characters counts, and a
/// character that stands alone or last. Everything else separates words, so a path is the sequence of its names. A word
/// consists of letters, digits, accents and `_` only.
pub fn cut(text: &str, form: Form, each: &mut impl FnMut(Column, &str, Range<usize>)) {
    cut_unstemmed(text, form, &mut |column, word, bytes, has_stem| {
        let stem = if has_stem { stem(word) } else { None };
        each(column, word, bytes.clone());
        if let Some(stem) = stem {
            each(Column::Stem, &stem, bytes);
        }
    });
}

/// The same without stems, for a caller that knows those of the words that it met before: `each` is told whether a word
/// counts by its stem too.
pub fn cut_unstemmed(text: &str, form: Form, each: &mut impl FnMut(Column, &str, Range<usize>, bool)) {
    let mut run = Run { units: Vec::new(), script: Script::Blank, folded: String::new() };
    let mut at = 0;
    while at < text.len() {
        // Most of a text: what is of ASCII and has nothing else behind it.
        if run.script == Script::Blank {
            let rest = &text.as_bytes()[at..];
            let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let bytes = rest.iter().position(|byte| !is_of_word(byte)).unwrap_or(rest.len());
            if !matches!(rest.get(bytes), Some(b'\\' | 0x80..)) {
                if bytes > 0 {
                    run.of_ascii(&text[at..at + bytes], at, each);
                }
                at += bytes.max(1);
                continue;
            }
        }
        let Some(character) = text[at..].chars().next() else { break };
        let plain = Unit { character, start: at, end: at + character.len_utf8() };
        let unit = match form {
            Form::Json if character == '\\' => json_escape(text, plain),
            Form::Plain | Form::Json => plain,
        };
        at = unit.end;
        run.add(unit, each);
    }
    run.end(each);
}

/// True for a word of ASCII that has one piece and consists of letters or of digits.
fn is_simple(word: &[u8]) -> bool {
    let Some((first, rest)) = word.split_first() else { return false };
    match first {
        b'0'..=b'9' => rest.iter().all(u8::is_ascii_digit),
        b'A'..=b'Z' => rest.iter().all(u8::is_ascii_lowercase) || rest.iter().all(u8::is_ascii_uppercase),
        _ => word.iter().all(u8::is_ascii_lowercase),
    }
}

/// The character that a backslash and what is behind it stand for in JSON.
fn json_escape(text: &str, plain: Unit) -> Unit {
    let start = plain.start;
    let rest = &text[start..];
    let of = |character, bytes: usize| Unit { character, start, end: start + bytes };
    match rest.as_bytes().get(1) {
        Some(b'u') => {
            let code = |at: usize| {
                let digits = rest.get(at..at + 4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                digits.and_then(|digits| u32::from_str_radix(digits, 16).ok())
            };
            match code(2) {
                Some(high @ 0xd800..=0xdbff) if rest.get(6..8) == Some("\\u") => match code(8) {
                    Some(low @ 0xdc00..=0xdfff) => {
                        let joined = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        of(char::from_u32(joined).unwrap_or(' '), 12)
                    }
                    _ => of(' ', 6),
                },
                Some(code) => of(char::from_u32(code).unwrap_or(' '), 6),
                None => plain,
            }
        }
        // Every other escape stands for a character that separates words.
        Some(byte) if byte.is_ascii() => of(' ', 2),
        _ => plain,
    }
}

/// Neighbouring characters with the same function in words.
struct Run {
    units: Vec<Unit>,
    script: Script,
    /// Memory for a folded word, which is used again.
    folded: String,
}

impl Run {
    fn add(&mut self, unit: Unit, each: &mut impl FnMut(Column, &str, Range<usize>, bool)) {
        let script = match Script::from_char(unit.character) {
            _ if self.script != Script::Blank && continues(unit.character) => self.script,
            script => script,
        };
        if script != self.script {
            self.end(each);
            self.script = script;
        }
        if script != Script::Blank {
            self.units.push(unit);
        }
    }

    /// Gives a run of letters, digits and underscores of ASCII.
    fn of_ascii(&mut self, word: &str, start: usize, each: &mut impl FnMut(Column, &str, Range<usize>, bool)) {
        if !is_simple(word.as_bytes()) {
            let unit = |(at, byte)| Unit { character: char::from(byte), start: at, end: at + 1 };
            self.units.extend((start..).zip(word.bytes()).map(unit));
            self.word(each);
            self.units.clear();
            return;
        }
        self.folded.clear();
        self.folded.push_str(&word[..word.len().min(WORD_CHARS_MAX)]);
        self.folded.make_ascii_lowercase();
        each(Column::Whole, &self.folded, start..start + word.len(), true);
    }

    fn end(&mut self, each: &mut impl FnMut(Column, &str, Range<usize>, bool)) {
        match self.script {
            Script::Blank => {}
            Script::Word => self.word(each),
            Script::Dense => self.dense(each),
        }
        self.units.clear();
        self.script = Script::Blank;
    }

    fn word(&mut self, each: &mut impl FnMut(Column, &str, Range<usize>, bool)) {
        let is_name = |unit: &Unit| unit.character != '_';
        let (Some(first), Some(last)) = (self.units.iter().position(is_name), self.units.iter().rposition(is_name))
        else {
            return;
        };
        let units = &self.units[first..=last];
        let pieces = pieces(units);
        give(Column::Whole, units, &mut self.folded, pieces.is_empty(), each);
        for piece in pieces {
            give(Column::Piece, piece, &mut self.folded, true, each);
        }
    }

    fn dense(&mut self, each: &mut impl FnMut(Column, &str, Range<usize>, bool)) {
        let starts = (0..self.units.len()).filter(|&at| at == 0 || !continues(self.units[at].character));
        let starts: Vec<usize> = starts.chain([self.units.len()]).collect();
        let column = if starts.len() == 2 { Column::Whole } else { Column::Piece };
        for pair in starts.windows(3) {
            give(Column::Whole, &self.units[pair[0]..pair[2]], &mut self.folded, false, each);
        }
        if let [.., start, end] = starts[..] {
            give(column, &self.units[start..end], &mut self.folded, false, each);
        }
    }
}

/// Gives a word; `folded` is it in the form of the index.
fn give(
    column: Column,
    units: &[Unit],
    folded: &mut String,
    has_stem: bool,
    each: &mut impl FnMut(Column, &str, Range<usize>, bool),
) {
    fold(units, folded);
    if !folded.is_empty() {
        each(column, folded, bytes(units), has_stem);
    }
}

/// True if a word is one character of a script without blanks.
pub(super) fn is_one_dense(word: &str) -> bool {
    let mut letters = word.chars().filter(|character| !continues(*character));
    letters.next().is_some_and(|first| Script::from_char(first) == Script::Dense) && letters.next().is_none()
}

/// True if a word is of a script without blanks.
pub(super) fn is_dense(word: &str) -> bool {
    word.chars().next().is_some_and(|first| Script::from_char(first) == Script::Dense)
}

/// The bytes of some characters, of which there is one at least.
fn bytes(units: &[Unit]) -> Range<usize> {
    let (first, last) = (units.first(), units.last());
    first.map_or(0, |unit| unit.start)..last.map_or(0, |unit| unit.end)
}

/// Writes a word in lower case and in one width, up to the maximum length.
fn fold(units: &[Unit], folded: &mut String) {
    folded.clear();
    if units.iter().all(|unit| unit.character.is_ascii()) {
        folded.extend(units.iter().take(WORD_CHARS_MAX).map(|unit| unit.character.to_ascii_lowercase()));
        return;
    }
    let characters = units.iter().map(|unit| unit.character);
    let lower = characters.nfkc().flat_map(char::to_lowercase);
    // One form of a few letters consists of several words, or has brackets.
    let is_of_word =
        |character: &char| *character == '_' || character.is_alphanumeric() || is_combining_mark(*character);
    folded.extend(lower.filter(is_of_word).take(WORD_CHARS_MAX));
}

/// The pieces of a name: between underscores, from capitals that begin a new word, and between letters and digits. None
/// if it has one piece only, or is data. Accents belong to their letters.
fn pieces(units: &[Unit]) -> Vec<&[Unit]> {
    let mut pieces = Vec::new();
    let letters = units.iter().filter(|unit| !continues(unit.character)).count();
    if !(2..=NAME_CHARS_MAX).contains(&letters) {
        return pieces;
    }
    // A hash turns from letters to digits again and again; a name with a number does so once.
    let digits = units.iter().map(|unit| unit.character.is_ascii_digit());
    let turns = digits.clone().zip(digits.skip(1)).filter(|(one, next)| one != next).count();
    let splits_digits = turns < 2 || !units.iter().all(|unit| unit.character.is_ascii_hexdigit());
    for part in units.split(|unit| unit.character == '_').filter(|part| !part.is_empty()) {
        let mut start = 0;
        let starts: Vec<usize> = (0..part.len()).filter(|&at| at == 0 || !continues(part[at].character)).collect();
        for (nth, &at) in starts.iter().enumerate().skip(1) {
            let (before, here) = (part[starts[nth - 1]].character, part[at].character);
            let next_is_lower = starts.get(nth + 1).is_some_and(|next| part[*next].character.is_lowercase());
            let begins_word = here.is_uppercase() && (!before.is_uppercase() || next_is_lower);
            let changes_kind = before.is_numeric() != here.is_numeric();
            if begins_word && !before.is_numeric() || splits_digits && changes_kind {
                pieces.push(&part[start..at]);
                start = at;
            }
        }
        pieces.push(&part[start..]);
        if pieces.len() > PIECES_MAX {
            break;
        }
    }
    let is_data = pieces.len() > PIECES_MAX
        || letters > SHORT_NAME_CHARS && pieces.len() >= DATA_PIECES && pieces.len() * PIECE_CHARS > letters;
    if is_data || pieces.len() == 1 {
        pieces.clear();
    }
    pieces
}

/// A word with its bytes in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedWord {
    pub(super) word: String,
    pub(super) bytes: Range<usize>,
}

/// The words of a text by column, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PlacedWords {
    pub(super) whole: Vec<PlacedWord>,
    pub(super) pieces: Vec<PlacedWord>,
    pub(super) stems: Vec<PlacedWord>,
}

impl PlacedWords {
    pub(super) fn from_text(text: &str, form: Form) -> Self {
        let mut all = Self::default();
        cut(text, form, &mut |column, word, bytes| {
            let placed = PlacedWord { word: word.to_owned(), bytes };
            match column {
                Column::Whole => all.whole.push(placed),
                Column::Piece => all.pieces.push(placed),
                Column::Stem => all.stems.push(placed),
            }
        });
        all
    }
}

/// The name of a tool as one word, by which a search is restricted to it: equal for equal names, whatever their
/// characters.
pub fn tool(name: &str) -> String {
    let digest = blake3::hash(name.as_bytes());
    digest.to_hex()[..12].to_owned()
}

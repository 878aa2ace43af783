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
    pub fn of(text: &str) -> Self {
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
    fn of(character: char) -> Self {
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
    let mut run = Run { units: Vec::new(), script: Script::Blank, folded: String::new() };
    match form {
        Form::Plain => {
            for (start, character) in text.char_indices() {
                run.add(Unit { character, start, end: start + character.len_utf8() }, each);
            }
        }
        Form::Json => {
            let mut at = 0;
            while let Some(unit) = json_unit(text, at) {
                at = unit.end;
                run.add(unit, each);
            }
        }
    }
    run.end(each);
}

/// The character at a position of JSON.
fn json_unit(text: &str, start: usize) -> Option<Unit> {
    let rest = &text[start..];
    let character = rest.chars().next()?;
    let plain = Unit { character, start, end: start + character.len_utf8() };
    if character != '\\' {
        return Some(plain);
    }
    let of = |character, bytes: usize| Some(Unit { character, start, end: start + bytes });
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
                None => Some(plain),
            }
        }
        // Every other escape stands for a character that separates words.
        Some(byte) if byte.is_ascii() => of(' ', 2),
        _ => Some(plain),
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
    fn add(&mut self, unit: Unit, each: &mut impl FnMut(Column, &str, Range<usize>)) {
        let script = match Script::of(unit.character) {
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

    fn end(&mut self, each: &mut impl FnMut(Column, &str, Range<usize>)) {
        match self.script {
            Script::Blank => {}
            Script::Word => self.word(each),
            Script::Dense => self.dense(each),
        }
        self.units.clear();
        self.script = Script::Blank;
    }

    fn word(&mut self, each: &mut impl FnMut(Column, &str, Range<usize>)) {
        let is_name = |unit: &Unit| unit.character != '_';
        let (Some(first), Some(last)) = (self.units.iter().position(is_name), self.units.iter().rposition(is_name))
        else {
            return;
        };
        let units = &self.units[first..=last];
        let pieces = pieces(units);
        give(Column::Whole, units, &mut self.folded, each);
        if pieces.is_empty() {
            give_stem(&self.folded, units, each);
        }
        for piece in pieces {
            give(Column::Piece, piece, &mut self.folded, each);
            give_stem(&self.folded, piece, each);
        }
    }

    fn dense(&mut self, each: &mut impl FnMut(Column, &str, Range<usize>)) {
        let starts = (0..self.units.len()).filter(|&at| at == 0 || !continues(self.units[at].character));
        let starts: Vec<usize> = starts.chain([self.units.len()]).collect();
        let column = if starts.len() == 2 { Column::Whole } else { Column::Piece };
        for pair in starts.windows(3) {
            give(Column::Whole, &self.units[pair[0]..pair[2]], &mut self.folded, each);
        }
        if let [.., start, end] = starts[..] {
            give(column, &self.units[start..end], &mut self.folded, each);
        }
    }
}

/// Gives a word; `folded` is it in the form of the index.
fn give(column: Column, units: &[Unit], folded: &mut String, each: &mut impl FnMut(Column, &str, Range<usize>)) {
    fold(units, folded);
    if !folded.is_empty() {
        each(column, folded, bytes(units));
    }
}

fn give_stem(folded: &str, units: &[Unit], each: &mut impl FnMut(Column, &str, Range<usize>)) {
    if let Some(stem) = stem(folded) {
        each(Column::Stem, &stem, bytes(units));
    }
}

/// True if a word is one character of a script without blanks.
pub(super) fn is_one_dense(word: &str) -> bool {
    let mut letters = word.chars().filter(|character| !continues(*character));
    letters.next().is_some_and(|first| Script::of(first) == Script::Dense) && letters.next().is_none()
}

/// True if a word is of a script without blanks.
pub(super) fn is_dense(word: &str) -> bool {
    word.chars().next().is_some_and(|first| Script::of(first) == Script::Dense)
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
pub(super) struct Placed {
    pub(super) word: String,
    pub(super) bytes: Range<usize>,
}

/// The words of a text by column, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PlacedWords {
    pub(super) whole: Vec<Placed>,
    pub(super) pieces: Vec<Placed>,
    pub(super) stems: Vec<Placed>,
}

impl PlacedWords {
    pub(super) fn of(text: &str, form: Form) -> Self {
        let mut all = Self::default();
        cut(text, form, &mut |column, word, bytes| {
            let placed = Placed { word: word.to_owned(), bytes };
            match column {
                Column::Whole => all.whole.push(placed),
                Column::Piece => all.pieces.push(placed),
                Column::Stem => all.stems.push(placed),
            }
        });
        all
    }
}

/// The words of a text by column, as an index takes them: separated by blanks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The words in their order.
    pub whole: String,
    /// The pieces of names.
    pub pieces: String,
    /// The stems of words and pieces.
    pub stems: String,
    /// The number of `whole`: the length of a part to the ranking.
    pub count: u32,
}

impl Words {
    /// Adds the words of a text.
    pub fn add(&mut self, text: &str, form: Form) {
        cut(text, form, &mut |column, word, _| {
            let line = match column {
                Column::Whole => {
                    self.count += 1;
                    &mut self.whole
                }
                Column::Piece => &mut self.pieces,
                Column::Stem => &mut self.stems,
            };
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        });
    }

    /// True if there is no word.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }
}

/// The name of a tool as one word, by which a search is restricted to it: equal for equal names, whatever their
/// characters.
pub fn tool(name: &str) -> String {
    let digest = blake3::hash(name.as_bytes());
    digest.to_hex()[..12].to_owned()
}

//! The size of a text by the classes of its characters: hundredths of a token, an upper estimate for natural languages,
//! code and encoded bytes that needs no tokenizer.
//!
//! A text is cut where OpenAI's encodings cut it: into words, numbers, marks and white space. Each piece costs a token,
//! and more the less likely it is to be one: letters beyond those of a short word, pieces inside a longer run of letters
//! and digits (identifiers, hashes, base64), and every letter of a script with fewer tokens of its own. The weights are
//! fitted to `o200k_base` on texts in 24 languages, code, logs, base64 and hexadecimal numbers, so that hardly a text of
//! some thousand characters has more tokens than this. Letters in random order have up to twice as many, and rare
//! characters of Chinese or Korean more: no class tells them from words.

/// Weights in hundredths of a token.
const WORD: i64 = 100;
/// A letter of a word beyond its first `SHORT`.
const LONG: i64 = 40;
const SHORT: usize = 5;
/// A piece of letters directly behind a letter, as in `camelCase`.
const JOINED: i64 = 108;
/// A piece of letters beside a digit, as in a hash.
const MIXED: i64 = 104;
/// A letter of a joined or a mixed piece beyond its first two.
const JOINED_LONG: i64 = 74;
/// A capital letter beyond the first of a piece.
const CAPITAL: i64 = 15;
/// Up to three digits.
const DIGITS: i64 = 100;
/// A run of ASCII marks, and each mark beyond the first.
const MARKS: i64 = 102;
const MARK: i64 = 12;
/// White space that does not belong to the word behind it.
const SPACE: i64 = 135;
/// Four bytes of white space beyond the first `SHORT_SPACE`, and a blank that is another one than that before it.
const BLANKS: i64 = 25;
const SHORT_SPACE: usize = 16;
const OTHER_BLANK: i64 = 50;
/// A mark beyond the first that is another one than that before it, in a run beyond the first `SHORT_MARKS`.
const OTHER_MARK: i64 = 75;
const SHORT_MARKS: usize = 4;

/// The greatest weight of a byte.
pub(super) const BYTE_MAX: i64 = 150;

/// The size of a text in hundredths of a token.
///
/// Appends count every text, so this is a table of what each byte adds behind those before it. Long pieces are counted by
/// their runs.
pub(super) fn text_units(text: &str) -> i64 {
    let bytes = text.as_bytes();
    let (mut at, mut units) = (0, 0_i64);
    let mut state = NOTHING;
    while let Some(byte) = bytes.get(at) {
        let (weight, next) = STEPS[usize::from(state) % STATES][usize::from(CLASSES[usize::from(*byte)]) % CLASS_COUNT];
        units += i64::from(weight);
        at += 1;
        state = next;
        if next >= LONG_PIECE {
            let (end, weight, behind) = match next {
                LONG_PIECE => long_piece(bytes, at),
                LONG_BLANKS => long_blanks(bytes, at),
                LONG_MARKS => long_marks(bytes, at),
                _ => other_letter(text, at - 1),
            };
            (at, state) = (end, behind);
            units += weight;
        }
    }
    units
}

/// The class of a byte: a letter, a digit, a blank that may belong to a word, another blank, a mark, or a byte of a
/// character that is not ASCII.
const SMALL: u8 = 0;
const CAPITAL_LETTER: u8 = 1;
const DIGIT: u8 = 2;
const BLANK: u8 = 3;
const BREAK: u8 = 4;
const MARK_SIGN: u8 = 5;
const OTHER: u8 = 6;
const CLASS_COUNT: usize = 8;
/// At least as many as there are: a power of two, so that no index is compared.
const STATES: usize = 64;

const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' => SMALL,
            b'A'..=b'Z' => CAPITAL_LETTER,
            b'0'..=b'9' => DIGIT,
            b' ' => BLANK,
            b'\t' | b'\n' | b'\r' => BREAK,
            _ => MARK_SIGN,
        };
        byte += 1;
    }
    classes
};

// What the bytes so far are for the next one. A piece of letters is capitals first, and small letters behind them.
const NOTHING: u8 = 0;
/// A first piece of one letter; those behind it have up to `LETTERS`.
const WORD_SMALL: u8 = 1;
const LETTERS: u8 = 12;
/// The same of capitals alone.
const WORD_CAPITALS: u8 = WORD_SMALL + LETTERS;
/// A piece directly behind letters: of one letter, of more, of one capital, of several.
const JOINED_SMALL: u8 = WORD_CAPITALS + LETTERS;
const JOINED_SMALLS: u8 = JOINED_SMALL + 1;
const JOINED_CAPITAL: u8 = JOINED_SMALL + 2;
/// The same behind a digit.
const MIXED_SMALL: u8 = JOINED_SMALL + 4;
const MIXED_SMALLS: u8 = MIXED_SMALL + 1;
const MIXED_CAPITAL: u8 = MIXED_SMALL + 2;
/// One digit; two; three.
const DIGITS_1: u8 = MIXED_SMALL + 4;
const DIGITS_2: u8 = DIGITS_1 + 1;
/// One blank, one break.
const BLANK_1: u8 = DIGITS_1 + 3;
const BREAK_1: u8 = BLANK_1 + 1;
/// One mark; those behind it have up to `SHORT_MARKS`.
const MARKS_1: u8 = BREAK_1 + 1;
const MARKS_LAST: u8 = BREAK_1 + SHORT_MARKS as u8;
/// A letter that is not ASCII.
const LETTER: u8 = MARKS_LAST + 1;
// What is counted by its run, and by its character.
const LONG_PIECE: u8 = LETTER + 1;
const LONG_BLANKS: u8 = LONG_PIECE + 1;
const LONG_MARKS: u8 = LONG_BLANKS + 1;
const OTHER_LETTER: u8 = LONG_MARKS + 1;

/// What a byte adds, and the state behind it, by the state before it and its class.
const STEPS: [[(i16, u8); CLASS_COUNT]; STATES] = {
    let mut steps = [[(0, NOTHING); CLASS_COUNT]; STATES];
    let mut state = 0;
    while state < LONG_PIECE {
        let mut class = 0;
        while class < CLASS_COUNT as u8 {
            let (weight, next) = step(state, class);
            steps[state as usize][class as usize] = (weight as i16, next);
            class += 1;
        }
        state += 1;
    }
    steps
};

/// What a byte of a class adds behind a state, and the state behind it.
const fn step(state: u8, class: u8) -> (i64, u8) {
    match (class, state) {
        (SMALL | CAPITAL_LETTER, _) => letter(state, class == CAPITAL_LETTER),
        // The letters before a digit are mixed with it.
        (DIGIT, WORD_SMALL..JOINED_SMALL) => (DIGITS + mixed((state - WORD_SMALL) % LETTERS + 1), DIGITS_1),
        (DIGIT, JOINED_SMALL..MIXED_SMALL) => (DIGITS + MIXED - JOINED, DIGITS_1),
        (DIGIT, DIGITS_1 | DIGITS_2) => (0, state + 1),
        // A single blank is part of the word behind it, but not of a number.
        (DIGIT, BLANK_1) => (SPACE + DIGITS, DIGITS_1),
        (DIGIT, _) => (DIGITS, DIGITS_1),
        (BLANK | BREAK, BLANK_1) => (SPACE, LONG_BLANKS),
        (BLANK | BREAK, BREAK_1) => (0, LONG_BLANKS),
        (BLANK, _) => (0, BLANK_1),
        (BREAK, _) => (SPACE, BREAK_1),
        (MARK_SIGN, MARKS_1..MARKS_LAST) => (MARK, state + 1),
        (MARK_SIGN, MARKS_LAST) => (MARK, LONG_MARKS),
        (MARK_SIGN, _) => (MARKS, MARKS_1),
        _ => (0, OTHER_LETTER),
    }
}

/// The same for a letter.
const fn letter(state: u8, is_capital: bool) -> (i64, u8) {
    let capital = if is_capital { CAPITAL } else { 0 };
    match state {
        // A capital behind a small letter begins a joined piece.
        WORD_SMALL..WORD_CAPITALS | JOINED_SMALL | JOINED_SMALLS | MIXED_SMALL | MIXED_SMALLS | LETTER
            if is_capital =>
        {
            (JOINED, JOINED_CAPITAL)
        }
        LETTER => (JOINED, JOINED_SMALL),
        WORD_SMALL..JOINED_SMALL => {
            let letters = (state - WORD_SMALL) % LETTERS + 1;
            if letters == LETTERS {
                return (0, LONG_PIECE);
            }
            let long = if letters as usize >= SHORT { LONG } else { 0 };
            (capital + long, letters + if is_capital { WORD_CAPITALS } else { WORD_SMALL })
        }
        JOINED_SMALL..DIGITS_1 => {
            let kind = if state < MIXED_SMALL { JOINED_SMALL } else { MIXED_SMALL };
            let long = if (state - kind) % 2 == 1 { JOINED_LONG } else { 0 };
            (capital + long, kind + if is_capital { 3 } else { 1 })
        }
        DIGITS_1..BLANK_1 => (MIXED, if is_capital { MIXED_CAPITAL } else { MIXED_SMALL }),
        _ => (WORD, if is_capital { WORD_CAPITALS } else { WORD_SMALL }),
    }
}

/// What a first piece costs more if it is mixed.
const fn mixed(letters: u8) -> i64 {
    let letters = letters as usize;
    MIXED + JOINED_LONG * beyond(letters, 2) - WORD - LONG * beyond(letters, SHORT)
}

/// The rest of a first piece of more than `LETTERS`, of which the next one was read: its end, its weight, and the state
/// behind it.
fn long_piece(bytes: &[u8], at: usize) -> (usize, i64, u8) {
    let start = at - 1 - usize::from(LETTERS);
    let mut end = at - 1;
    if bytes[end - 1].is_ascii_uppercase() {
        end += run(&bytes[end..], |byte| byte.is_ascii_uppercase());
    }
    let capitals = (end + 1 - at) as i64;
    end += run(&bytes[end..], |byte| byte.is_ascii_lowercase());
    let letters = end - start;
    let mut weight = CAPITAL * capitals + LONG * beyond(letters, usize::from(LETTERS));
    if bytes.get(end).is_some_and(u8::is_ascii_digit) {
        weight += MIXED + JOINED_LONG * beyond(letters, 2) - WORD - LONG * beyond(letters, SHORT);
    }
    // What comes behind it depends on nothing but its being a piece of letters.
    (end, weight, MIXED_SMALLS)
}

/// The same of blanks, two of which were read.
fn long_blanks(bytes: &[u8], at: usize) -> (usize, i64, u8) {
    let blanks = &bytes[at - 2..at + run(&bytes[at..], |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))];
    let weight = BLANKS * (beyond(blanks.len(), SHORT_SPACE) / 4) + OTHER_BLANK * changes(blanks, SHORT_SPACE);
    (at - 2 + blanks.len(), weight, NOTHING)
}

/// The same of marks, of which one more than `SHORT_MARKS` was read.
fn long_marks(bytes: &[u8], at: usize) -> (usize, i64, u8) {
    let start = at - 1 - SHORT_MARKS;
    let more = run(&bytes[at..], |byte| CLASSES[usize::from(byte)] == MARK_SIGN);
    let weight = MARK * more as i64 + OTHER_MARK * changes(&bytes[start..at + more], SHORT_MARKS);
    (at + more, weight, NOTHING)
}

/// The same of a character that is not ASCII.
fn other_letter(text: &str, at: usize) -> (usize, i64, u8) {
    let letter = text[at..].chars().next().unwrap_or_default();
    let (weight, is_letter) = other(letter);
    (at + letter.len_utf8(), weight, if is_letter { LETTER } else { NOTHING })
}

/// The number of bytes at the beginning that are of a class.
fn run(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is(**byte)).count()
}

/// The number of bytes beyond the first that differ from those before them.
fn changes(bytes: &[u8], first: usize) -> i64 {
    let behind = bytes.get(first.saturating_sub(1)..).unwrap_or_default();
    behind.windows(2).filter(|pair| pair[0] != pair[1]).count() as i64
}

/// What a length has beyond another one.
const fn beyond(length: usize, enough: usize) -> i64 {
    length.saturating_sub(enough) as i64
}

/// The weight of a character that is not ASCII, and whether it is a letter.
fn other(letter: char) -> (i64, bool) {
    match letter {
        // Latin letters with marks, which end a token of plain ones.
        '\u{80}'..='\u{36f}' | '\u{1e00}'..='\u{1eff}' => (48, true),
        // Greek.
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => (47, true),
        // Cyrillic.
        '\u{400}'..='\u{52f}' => (44, true),
        // Armenian, Hebrew.
        '\u{530}'..='\u{5ff}' => (49, true),
        // Arabic.
        '\u{600}'..='\u{77f}' => (46, true),
        // The scripts of India, Thai, Lao, Georgian and others between.
        '\u{900}'..='\u{10ff}' => (47, true),
        // Punctuation and symbols.
        '\u{2000}'..='\u{2bff}' => (75, false),
        '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}' => (76, false),
        // Kana.
        '\u{3040}'..='\u{30ff}' => (68, true),
        // Hangul.
        '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7a3}' => (86, true),
        // Han.
        '\u{3400}'..='\u{9fff}' => (110, true),
        // What has few tokens of its own: emoji, rare scripts.
        '\u{10000}'.. => (235, true),
        _ => (150, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::bpe::{self, Encoding};
    use crate::policy::tokens::estimate_messages;
    use crate::policy::{dsl, render, samples};
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use proptest::prelude::*;

    const PROSE: [&str; 8] = [
        include_str!("samples/arabic.txt"),
        include_str!("samples/chinese.txt"),
        include_str!("samples/english.txt"),
        include_str!("samples/german.txt"),
        include_str!("samples/hindi.txt"),
        include_str!("samples/japanese.txt"),
        include_str!("samples/korean.txt"),
        include_str!("samples/russian.txt"),
    ];
    const CODE: [&str; 4] = [
        include_str!("classes.rs"),
        include_str!("../tokens.rs"),
        include_str!("../../../../presets/src/claude-code-seed.toml"),
        include_str!("../../../Cargo.toml"),
    ];

    /// The size by the pieces of a text, as the rule says it.
    fn units_by_pieces(text: &str) -> i64 {
        let bytes = text.as_bytes();
        let (mut at, mut units) = (0, 0_i64);
        let mut before = Before::Nothing;
        while let Some(&first) = bytes.get(at) {
            let (length, weight, is) = match first {
                b'a'..=b'z' | b'A'..=b'Z' => {
                    let capitals = run(&bytes[at..], |byte| byte.is_ascii_uppercase());
                    let length = capitals + run(&bytes[at + capitals..], |byte| byte.is_ascii_lowercase());
                    let is_mixed = before == Before::Digit || bytes.get(at + length).is_some_and(u8::is_ascii_digit);
                    let letters = match before {
                        _ if is_mixed => MIXED + JOINED_LONG * beyond(length, 2),
                        Before::Letter => JOINED + JOINED_LONG * beyond(length, 2),
                        Before::Nothing | Before::Digit => WORD + LONG * beyond(length, SHORT),
                    };
                    (length, letters + CAPITAL * beyond(capitals, 1), Before::Letter)
                }
                b'0'..=b'9' => {
                    let length = run(&bytes[at..], |byte| byte.is_ascii_digit());
                    (length, DIGITS * length.div_ceil(3) as i64, Before::Digit)
                }
                b' ' | b'\t' | b'\n' | b'\r' => {
                    let length = run(&bytes[at..], is_blank);
                    // A single blank is part of the word behind it, but not of a number.
                    let is_of_word = length == 1 && first == b' ' && !bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
                    let blanks = &bytes[at..at + length];
                    let more = BLANKS * (beyond(length, SHORT_SPACE) / 4) + OTHER_BLANK * changes(blanks, SHORT_SPACE);
                    (length, if is_of_word { 0 } else { SPACE + more }, Before::Nothing)
                }
                0..0x80 => {
                    let is_mark = |byte: u8| byte.is_ascii() && !byte.is_ascii_alphanumeric() && !is_blank(byte);
                    let length = run(&bytes[at..], is_mark);
                    let others = OTHER_MARK * changes(&bytes[at..at + length], SHORT_MARKS);
                    (length, MARKS + MARK * beyond(length, 1) + others, Before::Nothing)
                }
                0x80.. => {
                    let letter = text[at..].chars().next().unwrap_or_default();
                    let (weight, is_letter) = other(letter);
                    (letter.len_utf8(), weight, if is_letter { Before::Letter } else { Before::Nothing })
                }
            };
            at += length;
            units += weight;
            before = is;
        }
        units
    }

    /// What a character is for the piece behind it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Before {
        Letter,
        Digit,
        Nothing,
    }

    fn is_blank(byte: u8) -> bool {
        matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
    }

    /// Parts of a text in another order: words, or clauses where words have no blanks between them.
    fn shuffled(text: &'static str) -> impl Strategy<Value = String> {
        let pieces: Vec<&str> = text.split_inclusive([' ', '\n', '，', '、', '。']).collect();
        let pieces = prop::collection::vec(prop::sample::select(pieces), 100..1_500);
        pieces.prop_map(|pieces| pieces.concat())
    }

    /// Lines of a file in another order.
    fn lines(text: &'static str) -> impl Strategy<Value = String> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        prop::collection::vec(prop::sample::select(lines), 40..300).prop_map(|lines| lines.concat())
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 1_000..5_000)
    }

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A text of one kind, long enough that no single word decides.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => prop::sample::select(&PROSE[..]).prop_flat_map(shuffled),
            2 => prop::sample::select(&CODE[..]).prop_flat_map(lines),
            1 => bytes().prop_map(|bytes| BASE64_STANDARD.encode(bytes)),
            1 => bytes().prop_map(|bytes| hexadecimal(&bytes)),
            1 => prop::collection::vec(prop::sample::select(&[" ", "\n", "\t", " \n", "    "][..]), 300..2_000)
                .prop_map(|blanks| blanks.concat()),
            1 => "[!-/:-@\\[-`{-~]{300,1500}",
            1 => prop::collection::vec(any::<u32>(), 300..900)
                .prop_map(|numbers| numbers.iter().map(|number| format!("{number} ")).collect()),
        ]
    }

    /// A message with a text, a call and its result, or reasoning; and its texts.
    fn message() -> impl Strategy<Value = (String, Vec<String>)> {
        (0..3_u8, text(), text()).prop_map(|(kind, first, second)| {
            let json = |text: &str| serde_json::to_string(text).expect("a string is JSON");
            match kind {
                0 => (format!("u {}\n", json(&first)), vec![first]),
                1 => {
                    let input = format!("{{\"path\":{}}}", json(&first));
                    let line = format!("a\n  tool read#c in={input} out={} done\n", json(&second));
                    (line, vec!["read".to_owned(), input, second])
                }
                _ => {
                    let line = format!("a {}\n  reasoning {}\n", json(&first), json(&second));
                    (line, vec![first, second])
                }
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// What says that it fits a window, fits by the tokenizer: in every script, in code and in encoded bytes.
        #[test]
        fn no_view_has_more_tokens_than_its_estimate(messages in prop::collection::vec(message(), 1..6)) {
            let policy = samples::policy("longhand@1");
            let talk: String = messages.iter().map(|(line, _)| line.as_str()).collect();
            let view = render::render(&policy, &dsl::parse(&talk));
            let texts = messages.iter().flat_map(|(_, texts)| texts);
            let tokens: i64 = texts.map(|text| bpe::count(Encoding::O200kBase, text)).sum();
            prop_assert_eq!(view.estimated_tokens, estimate_messages(&policy, &view.messages));
            prop_assert!(view.estimated_tokens >= tokens, "{} for {tokens}", view.estimated_tokens);
            // Blanks and marks in random order are nobody's text, and have runs that are tokens.
            prop_assert!(view.estimated_tokens <= tokens * 4, "{} for {tokens}", view.estimated_tokens);
        }

        #[test]
        fn the_table_counts_pieces(
            text in text(),
            mixed in "[a-cX-Z1-3 \n\t.,{é你。]{0,60}",
            letters in "[a-z]{0,3}[A-Z]{0,20}[a-z]{0,20}[A-Z]?[ -.]{0,8}[0-9]{0,4}[a-zA-Z]{0,3}",
        ) {
            for text in [text, mixed, letters] {
                prop_assert_eq!(text_units(&text), units_by_pieces(&text), "{:?}", text);
            }
        }

        #[test]
        fn no_byte_has_more_units_than_the_most(text in "\\PC{0,60}", ascii in "[ -~\n\t]{0,60}") {
            for text in [text, ascii] {
                prop_assert!(text_units(&text) <= BYTE_MAX * text.len() as i64, "{text:?}");
            }
        }
    }

    #[test]
    fn each_sample_has_no_more_tokens_than_units() {
        let mut least = i64::MAX;
        for text in PROSE.iter().chain(&CODE) {
            let (units, tokens) = (text_units(text), bpe::count(Encoding::O200kBase, text));
            println!(
                "{:>3} % {:>3} % {:?}",
                units / tokens,
                text.encode_utf16().count() as i64 * 25 / tokens,
                text.get(..30)
            );
            least = least.min(units / tokens);
        }
        assert!(least >= 100, "{least} %");
    }

    #[test]
    fn a_piece_has_its_weight() {
        for (text, units) in [
            ("", 0),
            ("word", WORD),
            (" a word", 2 * WORD),
            ("sentences", WORD + 4 * LONG),
            ("camelCase", WORD + JOINED + 2 * JOINED_LONG),
            ("HTTP", WORD + 3 * CAPITAL),
            ("a1b", MIXED + DIGITS + MIXED),
            ("1234567", 3 * DIGITS),
            ("in 12", WORD + SPACE + DIGITS),
            ("a, b", WORD + MARKS + WORD),
            ("{\n\n  }", MARKS + SPACE + MARKS),
            ("->;", MARKS + 2 * MARK),
            ("é", 48),
            ("你好。", 110 + 110 + 76),
            ("😀", 235),
        ] {
            assert_eq!(text_units(text), units, "{text:?}");
        }
    }
}

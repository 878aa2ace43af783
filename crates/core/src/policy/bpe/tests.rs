use super::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

const ALL: [Encoding; 3] = [Encoding::O200kBase, Encoding::Cl100kBase, Encoding::Qwen];

/// Tokens in o200k_base, cl100k_base and Qwen's encoding, as tiktoken 0.14 and qwen-agent 0.0.34 count them.
const COUNTS: [(&str, [i64; 3]); 13] = [
    ("", [0, 0, 0]),
    ("hello world", [2, 2, 2]),
    ("你好世界", [2, 5, 2]),
    ("The quick brown fox jumps over the lazy dog.", [10, 10, 10]),
    ("fn main() {\n    println!(\"{}\", 12345678);\n}\n", [13, 13, 18]),
    ("👨\u{200d}👩\u{200d}👧\u{200d}👦 😀", [12, 19, 11]),
    ("I'LL don't ſ'ſ", [8, 10, 9]),
    ("  \n\n   x   ", [4, 4, 4]),
    ("e\u{301}\u{1112}\u{1161}\u{11ab}", [11, 11, 2]),
    ("<|im_start|>user<|im_end|><|extra_204|><|extra_205|><|extra_007|>", [31, 31, 21]),
    ("<|endoftext|>", [7, 7, 1]),
    ("...", [1, 1, 1]),
    ("0123456789", [4, 4, 10]),
];

/// A vocabulary file with all single bytes and the given tokens, in the order of their ranks.
fn file(tokens: &[&str]) -> Vec<u8> {
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    let lines = bytes.chain(tokens.iter().map(|token| token.as_bytes().to_vec())).enumerate();
    lines.flat_map(|(rank, token)| format!("{} {rank}\n", BASE64_STANDARD.encode(token)).into_bytes()).collect()
}

fn vocabulary(tokens: &[&str]) -> Vocabulary {
    Vocabulary::parse("test", &file(tokens)).expect("a vocabulary")
}

fn pieces<'a>(tokenized: &'a TokenizedText<'_>) -> Vec<&'a str> {
    let starts = std::iter::once(0).chain(tokenized.ends.iter().copied());
    starts.zip(&tokenized.ends).map(|(start, end)| &tokenized.text[start..*end]).collect()
}

#[test]
fn the_counts_are_those_of_the_original_tokenizers() {
    for (text, expected) in COUNTS {
        assert_eq!(ALL.map(|encoding| count(encoding, text)), expected, "{text:?}");
        assert_eq!(ALL.map(|encoding| encoding.tokenize(text).count()), expected, "{text:?}");
    }
}

#[test]
fn the_names_of_the_encodings_are_those_of_tiktoken() {
    let names = ALL.map(|encoding| serde_json::to_value(encoding).expect("a name"));
    assert_eq!(names, ["o200k_base", "cl100k_base", "qwen"]);
}

#[test]
fn a_vocabulary_with_the_tokens_of_qwen_counts_as_qwen() {
    let line = |(rank, token): (usize, &&[u8])| format!("{} {rank}\n", BASE64_STANDARD.encode(token));
    let lines: String = Encoding::Qwen.tokens().iter().enumerate().map(line).collect();
    let own = Vocabulary::parse("qwen", lines.as_bytes()).expect("a vocabulary");
    for (text, [.., expected]) in COUNTS {
        assert_eq!(own.count(text), expected, "{text:?}");
    }
}

/// The ends of the tokens of one piece, joined one pair at a time according to the definition.
fn joined_slowly(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<usize> {
    let mut starts: Vec<usize> = (0..=piece.len()).collect();
    loop {
        let union = |at: usize| Some((vocabulary.table.rank(&piece[starts[at]..*starts.get(at + 2)?])?, at));
        match (0..starts.len()).filter_map(union).min() {
            Some((_, at)) => drop(starts.remove(at + 1)),
            None => return starts.split_off(1),
        }
    }
}

proptest! {
    #[test]
    fn a_count_is_the_same_when_it_is_known(text in "\\PC{0,200}", enough in 0_i64..100) {
        for encoding in ALL {
            let whole = encoding.tokenize(&text).count();
            for _ in 0..2 {
                let found = count_above(encoding, &text, enough);
                prop_assert!(found == whole || (found > enough && whole > enough), "{} of {}", found, whole);
                prop_assert_eq!(count(encoding, &text), whole);
            }
        }
    }

    #[test]
    fn pauses_change_no_count(text in "[a-c \\n]{0,9}|\\PC{0,40}", repeats in 1_usize..4_000) {
        let long = text.repeat(repeats);
        for encoding in ALL {
            let whole = encoding.tokenize(&long).count();
            let pauses = Rc::new(Cell::new(0));
            let paused = pauses.clone();
            let counted = with_pauses(move || paused.set(paused.get() + 1), || encoding.tokenize(&long).count());
            prop_assert_eq!(counted, whole);
            prop_assert!(pauses.get() > 0 || long.len() < 1 << 17, "{} bytes at once", long.len());
        }
    }

    #[test]
    fn neighbours_are_joined_by_their_rank(
        tokens in proptest::collection::btree_set("[ab]{2,5}", 0..20),
        shuffle in any::<u64>(),
        text in "[ab]{1,40}",
    ) {
        let mut tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let turn = shuffle as usize % tokens.len().max(1);
        tokens.rotate_left(turn);
        let own = vocabulary(&tokens);
        // A piece that is a token is one token, even if joining its parts gives others.
        prop_assume!(own.table.rank(text.as_bytes()).is_none());
        prop_assert_eq!(own.tokenize(&text).ends, joined_slowly(&own, text.as_bytes()));
    }

    #[test]
    fn a_truncated_text_is_a_piece_of_the_whole_text(text in "\\PC{0,30}", tokens in -2_i64..20) {
        for encoding in ALL {
            let whole = encoding.tokenize(&text);
            let (prefix, suffix) = (whole.prefix(tokens), whole.suffix(tokens));
            prop_assert!(whole.text().starts_with(prefix) && whole.text().ends_with(suffix));
            if tokens >= whole.count() {
                prop_assert_eq!((prefix, suffix), (whole.text(), whole.text()));
            } else {
                let front = whole.prefix(whole.count() - tokens.max(0));
                let characters = |text: &str| text.chars().count();
                let lost = characters(whole.text()).checked_sub(characters(front) + characters(suffix));
                prop_assert!(matches!(lost, Some(0 | 1)), "{:?} characters are lost", lost);
            }
        }
    }
}

/// A text without a boundary is one piece, which the work of a count has to be cut in.
#[test]
fn a_count_pauses_within_a_piece_without_a_boundary() {
    let text: String = (0_u32..1 << 20).map(|at| char::from(b'a' + (at.wrapping_mul(at) >> 7) as u8 % 26)).collect();
    for encoding in ALL {
        let pauses = Rc::new(Cell::new(0));
        let paused = pauses.clone();
        with_pauses(move || paused.set(paused.get() + 1), || encoding.tokenize(&text).count());
        assert!(pauses.get() > 20, "{encoding:?}: {}", pauses.get());
        encoding.tokenize(&text);
        assert!(Rc::strong_count(&pauses) == 1, "a later count has no pauses");
    }
}

#[test]
fn a_text_is_truncated_between_tokens() {
    let letters = "a b c d e f g h i j";
    // Text, tokens, and the text that qwen-agent keeps at the beginning, and at both ends.
    for (text, tokens, prefix, both) in [
        (letters, 5, "a b c d e", "a b... i j"),
        (letters, 1, "a", "a"),
        (letters, 2, "a b", "... j"),
        (letters, 10, letters, letters),
        (letters, 0, "", ""),
        ("你好世界😀😀再见朋友", 4, "你好世界😀😀", "你好...再见朋友"),
        ("e\u{301} a b c d", 4, "é a b c", "é... c d"),
    ] {
        let tokenized = Encoding::Qwen.tokenize(text);
        assert_eq!(tokenized.prefix(tokens), prefix);
        assert_eq!(tokenized.both_sides(tokens, "...", count(Encoding::Qwen, "...")), both);
    }
}

#[test]
fn a_character_of_several_tokens_is_left_out_rather_than_split() {
    let bytes = vocabulary(&[]);
    let tokenized = bytes.tokenize("aé€b");
    assert_eq!(tokenized.count(), 7);
    assert_eq!([1, 2, 3, 5, 6].map(|tokens| tokenized.prefix(tokens)), ["a", "a", "aé", "aé", "aé€"]);
    assert_eq!([1, 2, 3, 4, 5].map(|tokens| tokenized.suffix(tokens)), ["b", "b", "b", "€b", "€b"]);
    assert_eq!(tokenized.both_sides(5, "|", 1), "a|b");
}

#[test]
fn a_text_is_split_as_qwen_splits_it() {
    let whole = vocabulary(&[" b", "12", "  ", " \n", "ab", "'s", "!!", "!!\n"]);
    for (text, expected) in [
        ("ab b", &["ab", " b"][..]),
        ("ab  b", &["ab", " ", " b"]),
        ("ab   b", &["ab", "  ", " b"]),
        ("ab  ", &["ab", "  "]),
        ("12", &["1", "2"]),
        ("ab's", &["ab", "'s"]),
        (" \n b", &[" \n", " b"]),
        ("!!\nb", &["!!\n", "b"]),
        ("a<|im_start|>b", &["a", "<|im_start|>", "b"]),
    ] {
        assert_eq!(pieces(&whole.tokenize(text)), expected, "{text:?}");
    }
}

#[test]
fn a_broken_vocabulary_is_refused_with_its_line() {
    let good = file(&[]);
    let with = |line: &str| Vocabulary::parse("test", &[good.as_slice(), line.as_bytes()].concat()).map(|_| ());
    assert_eq!(with("\n \r\nYWI= 300\r\n"), Ok(()));
    for line in ["YWI=", "YWI= x", "YWI= -1", "YWI= 1 2", "YW!= 300", " 300", "\u{e9} 300"] {
        assert_eq!(with(line), Err(VocabularyError::Line { line: 257 }), "{line:?}");
    }
    assert_eq!(with("YWI= 255"), Err(VocabularyError::Repeated { line: 257 }));
    assert_eq!(with("\nYQ== 300"), Err(VocabularyError::Repeated { line: 258 }));
    assert_eq!(Vocabulary::parse("test", b"").map(|_| ()), Err(VocabularyError::MissingByte { byte: 0 }));
    assert_eq!(Vocabulary::parse("test", &[0xff]).map(|_| ()), Err(VocabularyError::Line { line: 1 }));
}

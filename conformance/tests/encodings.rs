//! The built-in encodings have the tokens of `bpe-openai`, and count and split as it does.

use bpe_openai::Tokenizer;
use longhand::policy::bpe::{self, Encoding};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Voyage AI uses Qwen's vocabulary and its rules for the pieces of a text.
fn pairs() -> [(Encoding, &'static Tokenizer, &'static str); 3] {
    [
        (Encoding::O200kBase, bpe_openai::o200k_base(), "o200k_base"),
        (Encoding::Cl100kBase, bpe_openai::cl100k_base(), "cl100k_base"),
        (Encoding::Qwen, bpe_openai::voyage3_base(), "qwen"),
    ]
}

fn tokens(tokenizer: &Tokenizer) -> Vec<Vec<u8>> {
    (0..tokenizer.bpe.num_tokens() as u32).map(|rank| tokenizer.bpe.token_bytes(rank).to_vec()).collect()
}

/// Each token after its length in one byte.
fn packed(tokens: &[Vec<u8>]) -> Vec<u8> {
    let length = |token: &Vec<u8>| u8::try_from(token.len()).expect("tokens are short");
    let entries = tokens.iter().flat_map(|token| std::iter::once(length(token)).chain(token.iter().copied()));
    let entries: Vec<u8> = entries.collect();
    zstd::bulk::compress(&entries, 19).expect("memory can be compressed")
}

/// With `LONGHAND_BLESS=1`, writes the tables.
#[test]
fn the_tokens_are_those_of_the_library() {
    for (encoding, tokenizer, name) in pairs() {
        let expected = tokens(tokenizer);
        if std::env::var_os("LONGHAND_BLESS").is_some_and(|value| value == "1") {
            let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/core/src/policy/bpe");
            fs::write(folder.join(format!("{name}.zst")), packed(&expected)).expect("the table can be written");
            continue;
        }
        let found = encoding.tokens();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (rank, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{name}, rank {rank}");
        }
    }
}

/// Texts with the borders of pieces in all combinations. No text looks like a special token, which the library counts
/// as text in every encoding.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[a-zA-Z]{0,12}",
        "[ \t\r\n\u{a0}\u{3000}]{0,4}",
        "[0-9.,;:/!?'\"<>_-]{0,6}",
        "[^|\\pC\u{fffd}]{0,6}",
        "[你好世界我们在这里说中文😀]{0,6}",
        "[ab]{100,300}",
        "'(ll|S|t|RE|ſ)",
        "[A-Z][a-z]{0,4}[A-Z]{1,4}\\p{M}?",
    ];
    prop::collection::vec(pieces, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn texts_count_as_in_the_library(text in texts(), tokens in 0..20_i64) {
        for (encoding, tokenizer, name) in pairs() {
            let ids = tokenizer.encode(text.as_str());
            prop_assert_eq!(bpe::count(encoding, &text), ids.len() as i64, "{}", name);
            let prefix = tokenizer.bpe.decode_tokens(&ids[..ids.len().min(tokens as usize)]);
            let tokenized = encoding.tokenize(&text);
            prop_assert_eq!(tokenized.count(), ids.len() as i64, "{}", name);
            // A character that a token would split is left out.
            let prefix = String::from_utf8_lossy(&prefix);
            prop_assert_eq!(tokenized.prefix(tokens), prefix.trim_end_matches('\u{fffd}'), "{}", name);
        }
    }
}

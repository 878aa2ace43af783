use super::*;
use crate::policy::samples;
use crate::policy::{CountPer, MediaUnits, Rounding, TextUnits, UsageCount};
use proptest::prelude::*;

/// A counting in which a character is a token.
fn characters() -> Counting {
    Counting {
        unit: LengthUnit::CodePoints,
        text: TextUnits::Length,
        units_per_token: 1,
        rounding: Rounding::Ceil,
        per: CountPer::Message,
        media: MediaUnits::same(0),
        usage: UsageCount::Total,
    }
}

#[test]
fn words_names_and_dense_scripts_are_searched_in_their_own_way() {
    for (text, expected) in [
        ("The Session, fails!", "the session fails"),
        ("résumé ÉCOLE", "résumé école"),
        ("parse_JSONText", "parse_jsontext parse json text"),
        ("HTTPServer2 x", "httpserver2 http server2 x"),
        ("__init__", "init"),
        ("src/store/chain.rs:42", "src store chain rs 42"),
        ("上下文", "上 上下 下 下文 文"),
        ("请fix这个bug", "请 fix 这 这个 个 bug"),
        ("カタカナ", "カ カタ タ タカ カ カナ ナ"),
        ("……!?\n", ""),
        ("", ""),
    ] {
        assert_eq!(terms(text).join(" "), expected, "{text}");
    }
    assert_eq!(terms(&"a".repeat(64)).len(), 1);
    assert_eq!(terms(&"a".repeat(65)).len(), 0);
}

#[test]
fn a_long_request_asks_with_both_of_its_ends() {
    let rule = Retrieval {
        query_units: 11,
        ..samples::policy("qwen-agent@dialogue-retrieval").retrieval.expect("a retrieval")
    };
    let asks = |request: &str| query(&rule, LengthUnit::CodePoints, request).join(" ");
    assert_eq!(asks("one two one"), "one two");
    assert_eq!(asks("first and then many words at last"), "first t last");
    assert_eq!(asks(" one two one \n"), "one two");
    assert_eq!(asks(""), "");
}

#[test]
fn passages_end_with_paragraphs_lines_or_sentences() {
    let check = |text: &str, max_tokens, expected: &[&str]| {
        let found: Vec<&str> =
            passages(text, max_tokens, &characters()).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected, "{text:?} in {max_tokens}");
    };
    check("one\n\ntwo\n\nthree", 10, &["one\n\ntwo\n\n", "three"]);
    check("one\ntwo\nthree\n\nfour", 9, &["one\ntwo\n", "three\n\n", "four"]);
    check("One is. Two is. Three", 8, &["One is.", " Two is.", " Three"]);
    check("一是。二是！三", 3, &["一是。", "二是！", "三"]);
    check("abcdefgh", 3, &["ab", "cd", "ef", "gh"]);
    check("日本語日本", 1, &["日", "本", "語", "日", "本"]);
    check("a\n\n   \n\n\n\nb", 3, &["a\n\n", "\n\nb"]);
    check("", 5, &[]);
    check("  \n", 1, &[]);
}

/// The best of these texts, if a character is a token.
fn best_of(question: &str, texts: &[&str], budget: i64) -> Vec<usize> {
    let candidates: Vec<Vec<String>> = texts.iter().map(|text| terms(text)).collect();
    let size = |index: usize, most| Some(texts[index].chars().count() as i64).filter(|size| *size <= most);
    best(&terms(question), &candidates, size, budget)
}

#[test]
fn the_rarest_words_decide_and_history_keeps_its_order() {
    let history = [
        "the token window is full",
        "the writer answers after the commit",
        "we renamed parse_header to read_header in src/http.rs",
        "the commit failed because the disk was full",
        "上下文窗口已满，需要压缩会话",
        "今天天气很好",
    ];
    for (question, budget, expected) in [
        ("readHeader?", 1_000, &[2][..]),
        ("where is readHeader?", 60, &[2]),
        ("why did the commit fail: disk full?", 45, &[3]),
        ("commit", 1_000, &[1, 3]),
        ("如何压缩上下文", 1_000, &[4]),
        ("天气", 1_000, &[5]),
        ("nothing of this", 0, &[]),
        ("unheard", 1_000, &[]),
    ] {
        assert_eq!(best_of(question, &history, budget), expected, "{question}");
    }
}

#[test]
fn a_rare_word_counts_for_more_than_a_common_one() {
    let history = ["dog dog dog dog", "ant", "dog cow", "dog bee", "dog elk"];
    assert_eq!(best_of("dog ant", &history, 15), [1]);
    assert_eq!(best_of("dog", &history, 15), [0]);
}

#[test]
fn of_equals_the_later_one_is_shown_and_what_is_too_large_is_passed_over() {
    let equal = ["same words", "same words", "same words"];
    assert_eq!(best_of("same", &equal, 20), [1, 2]);
    let history = ["needle needle needle in a long passage of hay", "needle"];
    assert_eq!(best_of("needle", &history, 10), [1]);
}

proptest! {
    #[test]
    fn passages_cover_every_word_once_within_their_size(text in "[a-c.\n 日。]{0,80}", max_tokens in 1_i64..20) {
        let counting = characters();
        let found = passages(&text, max_tokens, &counting);
        let mut end = 0;
        let mut left_out = String::new();
        for range in &found {
            prop_assert!(range.start >= end && range.end > range.start);
            prop_assert!(estimate_text(&counting, &text[range.clone()]) <= max_tokens);
            left_out.push_str(&text[end..range.start]);
            end = range.end;
        }
        left_out.push_str(&text[end..]);
        prop_assert!(left_out.trim().is_empty());
    }

    #[test]
    fn whatever_is_chosen_fits_and_is_asked_for(
        texts in proptest::collection::vec("[a-d ]{0,12}", 0..8),
        question in "[a-d ]{0,8}",
        budget in 0_i64..40,
    ) {
        let history: Vec<&str> = texts.iter().map(String::as_str).collect();
        let asked = terms(&question);
        let chosen = best_of(&question, &history, budget);
        prop_assert!(chosen.is_sorted());
        prop_assert!(chosen.iter().map(|&index| history[index].chars().count() as i64).sum::<i64>() <= budget);
        for &index in &chosen {
            prop_assert!(terms(history[index]).iter().any(|term| asked.contains(term)));
        }
        prop_assert_eq!(best_of(&question, &history, budget), chosen);
    }
}

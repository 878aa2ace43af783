use super::cut::{Column, Form, cut};
use super::{Query, QueryError, Scores, Statistics, snippet, tool};
use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;

/// The words of a text, and its pieces.
fn words(text: &str, form: Form) -> (String, String) {
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    cut(text, form, &mut |column, word, _| match column {
        Column::Whole => whole.push(word.to_owned()),
        Column::Piece => pieces.push(word.to_owned()),
        Column::Stem => {}
    });
    (whole.join(" "), pieces.join(" "))
}

#[test]
fn texts_are_cut_into_words_and_pieces() {
    for (text, whole, pieces) in [
        ("Where is the Deploy key?", "where is the deploy key", ""),
        ("parse_JSONText2 readHeader", "parse_jsontext2 readheader", "parse json text 2 read header"),
        (
            "HTTPServer x86_64 sha256sum utf8",
            "httpserver x86_64 sha256sum utf8",
            "http server x 86 64 sha 256 sum utf 8",
        ),
        ("__init__ _ SCREAMING_CASE", "init screaming_case", "screaming case"),
        ("src/store/mod.rs v1.18.3 a@b.example", "src store mod rs v1 18 3 a b example", "v 1"),
        ("ID3v2 utf_8 error_5_count", "id3v2 utf_8 error_5_count", "id 3 v 2 utf 8 error 5 count"),
        ("ที่นี่ ၁က", "ที่นี่ ၁ က", "นี่"),
        ("2a1fc6f8 aGVsbG8gd29ybGQhIQ", "2a1fc6f8 agvsbg8gd29ybgqhiq", ""),
        ("iPhone eBPF", "iphone ebpf", "i phone e bpf"),
        ("会话压缩 的", "会话 话压 压缩 的", "缩"),
        ("修复bug了", "修复 bug 了", "复"),
        ("ＡＢＣ　１２", "abc 12", ""),
        ("ｶﾞｷﾞ", "ガギ", "ギ"),
        ("e\u{301}t\u{e9} É", "été é", ""),
        ("한국어", "한국 국어", "어"),
        ("\u{1112}\u{1161}\u{11ab}국", "한국", "국"),
        ("… —!", "", ""),
    ] {
        assert_eq!(words(text, Form::Plain), (whole.to_owned(), pieces.to_owned()), "{text}");
    }
}

#[test]
fn escapes_of_json_stand_for_their_characters() {
    let json = r#"{"a": "one\ntwo\\new caf\u00e9 \ud83d\ude00\u4f1a\u8bdd \uzz"}"#;
    assert_eq!(words(json, Form::Json).0, "a one two new café 会话 uzz");
    assert_eq!(Form::from_text(" {\"a\": 1}\n"), Form::Json);
    assert_eq!(Form::from_text("[1]"), Form::Json);
    for plain in ["", "{", "{]", "C:\\new"] {
        assert_eq!(Form::from_text(plain), Form::Plain, "{plain}");
    }
    assert_eq!(words("C:\\new", Form::Plain).0, "c new");
}

#[test]
fn long_words_count_by_their_beginning() {
    let long = "x".repeat(1_000);
    let (whole, pieces) = words(&long, Form::Plain);
    assert_eq!((whole.len(), pieces.len()), (40, 0));
    assert!(Query::parse(&long).expect("a query").matches(&format!("a {long} b"), Form::Plain));
    let name = "a_backup_that_lets_the_log_grow_too_long_is_given_up";
    assert!(Query::parse("backup given").expect("a query").matches(name, Form::Plain));
}

/// True if a text has every term of a query.
fn has(query: &str, text: &str) -> bool {
    Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}")).matches(text, Form::Plain)
}

#[test]
fn queries_find_what_they_mean() {
    let text = "We renamed parse_header to readHeader in src/http/parser.rs (v1.18), 请把会话压缩的阈值改成 ok";
    for (query, expected) in [
        ("PARSE_HEADER", true),
        ("parseHeader", true),
        ("header", true),
        ("headers", true),
        ("\"headers\"", false),
        ("renaming", true),
        ("\"renaming\"", false),
        ("head*", true),
        ("head", false),
        ("src/http/parser.rs", true),
        ("http/parser", true),
        ("parser/http", false),
        ("parser http", true),
        ("\"in src\"", true),
        ("\"src in\"", false),
        ("\"parse_header to read\"*", true),
        ("1.18", false),
        ("v1.18", true),
        ("v1.1*", true),
        ("会话", true),
        ("话", true),
        ("会话压缩", true),
        ("压缩会话", false),
        ("成", true),
        ("renamed OR nothing", false),
        ("nothing", false),
        ("NOT (renamed)^2 {to} a:b", false),
        ("(renamed)", true),
    ] {
        assert_eq!(has(query, text), expected, "{query}");
    }
}

#[test]
fn names_are_found_in_every_style_and_no_other_name_is() {
    for (query, text, expected) in [
        ("error_5_count", "error_4_count", false),
        ("error_5_count", "Error5Count", true),
        ("utf8", "utf_8", true),
        ("utf_8", "UTF8", true),
        ("utf8", "utf16", false),
        ("id3v2", "ID3v2 tags", true),
        ("id3", "ID3v2 tags", true),
        ("id3", "id4v3", false),
        ("x86", "x86_64", true),
        ("face2", "face_2", true),
        ("bad_1", "bad1", true),
        ("abc_123", "abc123", true),
    ] {
        assert_eq!(has(query, text), expected, "{query} in {text}");
    }
}

#[test]
fn a_long_question_in_a_script_without_blanks_has_few_words() {
    for text in ["ครับ".repeat(28), "压缩会话".repeat(40)] {
        assert!(Query::parse(&text).expect("a query").word_count() < 32, "{text}");
    }
    assert_eq!(Query::parse("one two 压缩会话").expect("a query").word_count(), 3);
}

#[test]
fn accents_and_scripts_without_blanks_are_found() {
    for (query, text, expected) in [
        ("สวัสดี", "เขาพูดว่าสวัสดีครับ", true),
        ("ครับ", "เขาพูดว่าสวัสดีครับ", true),
        ("ที่", "อยู่ที่นี่", true),
        ("ครู", "เขาพูดว่าสวัสดีครับ", false),
        ("ភាសា", "ខ្ញុំនិយាយភាសាខ្មែរ", true),
        ("cafe", "das Café", true),
        ("cafés", "a cafe", true),
        ("\"cafe\"", "das Café", false),
        ("ca\u{301}fe\u{301}Bar", "cáféBar", true),
        ("हिन्दी", "यह हिन्दी है", true),
    ] {
        assert_eq!(has(query, text), expected, "{query} in {text}");
    }
}

#[test]
fn a_question_has_clues_and_one_name_or_path_has_itself() {
    let clues = |query: &str| {
        let query = Query::parse(query).expect("a query");
        (query.terms, query.clues.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(clues("src/parser.rs"), (1, vec!["src parser rs".to_owned()]));
    assert_eq!(clues("parse_header"), (1, vec!["parse_header".to_owned()]));
    let joined = ["what", "src parser rs", "src", "parser", "rs"].map(str::to_owned);
    assert_eq!(clues("what src/parser.rs what"), (2, joined.to_vec()));
    let name = ["call", "parse_header", "pars", "header"].map(str::to_owned);
    assert_eq!(clues("calls parse_header"), (2, name.to_vec()));
    assert_eq!(clues("会话压"), (1, ["会话 话压", "会话", "话压"].map(str::to_owned).to_vec()));
    let quoted = ["\"running fast\"", "begin*"].map(str::to_owned);
    assert_eq!(clues("\"running fast\" begin*"), (2, quoted.to_vec()));
    let long = (0..64).map(|at| format!("alpha{at}_beta{at}")).collect::<Vec<_>>().join(" ");
    assert_eq!(clues(&long).1.len(), 128);
}

#[test]
fn rare_clues_often_and_in_short_parts_say_more() {
    let statistics = Statistics { parts: 1_000, words: 20_000, having: vec![3, 900] };
    let scores = Scores::from_statistics(&statistics);
    assert!(scores.score(0, 1, 20) > scores.score(1, 9, 20));
    assert!(scores.score(0, 2, 20) > scores.score(0, 1, 20));
    assert!(scores.score(0, 1, 20) > scores.score(0, 1, 200));
    assert!(scores.score_max(0, 1) >= scores.score(0, 1, 0));
    let everywhere =
        Scores::from_statistics(&Statistics { parts: 1_000_000_000, words: 1, having: vec![1_000_000_000] });
    assert_eq!(everywhere.score(0, 1, 20), 1, "also what all parts have");
    // As BM25 says it: of an average part the rarity alone.
    let rarity = (1.0_f64 + (1_000.0 - 3.0 + 0.5) / 3.5).ln();
    assert_eq!(scores.score(0, 1, 20), (rarity * 1e6).round() as u64);
}

#[test]
fn queries_without_a_word_or_an_end_are_refused() {
    for empty in ["", " ", "*", "\"\"", "-- * ()"] {
        assert_eq!(Query::parse(empty), Err(QueryError::Empty), "{empty}");
    }
    assert_eq!(Query::parse("a \"b c"), Err(QueryError::Unclosed));
    assert_eq!(Query::parse("a\"b c\"d").expect("a query").terms, 3);
    assert_eq!(Query::parse("a \"b c\" d-e*").expect("a query").word_count(), 5);
}

#[test]
fn a_snippet_shows_the_most_terms_and_marks_them() {
    let filler = "lorem ipsum ".repeat(100);
    let text = format!("vault alone. {filler}the deploy key is in vault seven. {filler}");
    let query = Query::parse("vault key").expect("a query");
    let found = snippet(&query, &text, Form::Plain, 80);
    let marked: Vec<&str> = found.matches.iter().map(|bytes| &text[bytes.clone()]).collect();
    assert_eq!(marked, ["key", "vault"]);
    assert!(found.bytes.len() <= 80, "{found:?}");
    let shown = &text[found.bytes.clone()];
    assert!(shown.contains("deploy key is in vault"), "{shown}");
    assert!(!shown.starts_with(char::is_whitespace) && !shown.ends_with(char::is_whitespace), "{shown:?}");
    let nothing = snippet(&Query::parse("absent").expect("a query"), &text, Form::Plain, 10);
    assert_eq!((&text[nothing.bytes], nothing.matches), ("vault alon", Vec::new()));
    // A name and its pieces are marked once.
    let name = snippet(&Query::parse("readHeader").expect("a query"), "call readHeader", Form::Plain, 80);
    assert!(matches!(&name.matches[..], [only] if *only == (5..15)), "{:?}", name.matches);
}

#[test]
fn tools_have_one_word_each() {
    assert_ne!(tool("bash"), tool("Bash"));
    assert!(tool("mcp: a\"b").bytes().all(|byte| byte.is_ascii_alphanumeric()));
}

proptest! {
    #[test]
    fn words_are_within_the_text_and_need_no_quotes(text in "\\PC{0,60}", json: bool) {
        let form = if json { Form::Json } else { Form::Plain };
        let mut last = 0;
        cut(&text, form, &mut |column, word, bytes| {
            assert!(bytes.start < bytes.end && text.is_char_boundary(bytes.start) && text.is_char_boundary(bytes.end));
            if column == Column::Whole {
                assert!(bytes.start >= last, "in the order of the text");
                last = bytes.start;
            }
            assert!(!word.is_empty() && word.chars().count() <= 40, "{word:?}");
            let is_safe = |byte: u8| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte >= 0x80;
            assert!(word.bytes().all(is_safe), "{word:?}");
        });
    }

    #[test]
    fn every_text_is_found_by_what_stands_in_it(before in "\\PC{0,20}", text in "\\PC{1,20}", behind in "\\PC{0,20}") {
        let quoted = text.replace('"', " ");
        if let Ok(query) = Query::parse(&format!("\"{quoted}\"")) {
            let whole = format!("{before} {quoted} {behind}");
            prop_assert!(query.matches(&whole, Form::Plain), "{query:?}");
            let found = snippet(&query, &whole, Form::Plain, 30);
            prop_assert!(found.bytes.end <= whole.len() && !found.matches.is_empty());
            for bytes in &found.matches {
                prop_assert!(found.bytes.start <= bytes.start && bytes.end <= found.bytes.end);
                prop_assert!(whole.get(bytes.clone()).is_some());
            }
            prop_assert!(whole.get(found.bytes).is_some());
        }
    }
}

proptest! {
    #[test]
    fn accents_of_their_own_make_no_other_words(text in "[a-zA-Z0-9_éÉüñôåßÄが话ที่ี]{0,16}") {
        let composed: String = text.nfc().collect();
        let apart: String = text.nfd().collect();
        prop_assert_eq!(words(&composed, Form::Plain), words(&apart, Form::Plain));
    }

    #[test]
    fn escaped_text_is_cut_as_it_would_be_plain(text in "[a-zA-Z0-9_é ./-]{0,40}") {
        use std::fmt::Write as _;
        // Where all is escaped, each character goes by itself.
        let mut escaped = String::new();
        text.chars().for_each(|character| write!(escaped, "\\u{:04x}", u32::from(character)).expect("a string takes all"));
        prop_assert_eq!(words(&text, Form::Plain), words(&escaped, Form::Json));
    }

    #[test]
    fn a_word_is_found_whatever_its_ending(stem in "[a-z]{3,12}", ending in "(s|ed|ing|ly)") {
        let found = Query::parse(&stem).expect("a query").often(&stem, Form::Plain);
        prop_assert_eq!(found, vec![1]);
        // What has the same stem finds each other.
        let (one, other) = (format!("{stem}ing"), format!("{stem}{ending}"));
        let stems = [&one, &other].map(|word| Query::parse(word).expect("a query").clues[0].stem.clone());
        if stems[0] == stems[1] {
            prop_assert!(has(&one, &other) && has(&other, &one));
        }
    }
}

use super::cut::{Column, Form, cut};
use super::{Query, QueryError, Words, snippet, tool};
use proptest::prelude::*;

/// The words of a text, and its pieces.
fn words(text: &str, form: Form) -> (String, String) {
    let mut words = Words::default();
    words.add(text, form);
    (words.whole, words.pieces)
}

#[test]
fn texts_are_cut_into_words_and_pieces() {
    for (text, whole, pieces) in [
        ("Where is the Deploy key?", "where is the deploy key", ""),
        ("parse_JSONText2 readHeader", "parse_jsontext2 readheader", "parse json text read header"),
        ("HTTPServer x86_64 sha256sum utf8", "httpserver x86_64 sha256sum utf8", "http server 86 64 sha 256 sum utf"),
        ("__init__ _ SCREAMING_CASE", "init screaming_case", "screaming case"),
        ("src/store/mod.rs v1.18.3 a@b.example", "src store mod rs v1 18 3 a b example", ""),
        ("2a1fc6f8 aGVsbG8gd29ybGQhIQ", "2a1fc6f8 agvsbg8gd29ybgqhiq", ""),
        ("iPhone eBPF", "iphone ebpf", "phone bpf"),
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
    assert_eq!(Form::of(" {\"a\": 1}\n"), Form::Json);
    assert_eq!(Form::of("[1]"), Form::Json);
    for plain in ["", "{", "{]", "C:\\new"] {
        assert_eq!(Form::of(plain), Form::Plain, "{plain}");
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

#[test]
fn queries_find_what_they_mean() {
    let text = "We renamed parse_header to readHeader in src/http/parser.rs (v1.18), 请把会话压缩的阈值改成 ok";
    for (query, expected) in [
        ("PARSE_HEADER", true),
        ("parseHeader", true),
        ("header", true),
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
        let parsed = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(parsed.matches(text, Form::Plain), expected, "{query}: {parsed:?}");
    }
}

#[test]
fn queries_without_a_word_or_an_end_are_refused() {
    for empty in ["", " ", "*", "\"\"", "-- * ()"] {
        assert_eq!(Query::parse(empty), Err(QueryError::Empty), "{empty}");
    }
    assert_eq!(Query::parse("a \"b c"), Err(QueryError::Unclosed));
    assert_eq!(Query::parse("a\"b c\"d").expect("a query").terms.len(), 3);
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

/// A term of a few words that resemble each other.
fn term() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "w",
        "wo",
        "word",
        "words",
        "readHeader",
        "read_header",
        "readheader",
        "re",
        "会",
        "会话",
    ]);
    let name = prop::collection::vec(word, 1..4).prop_flat_map(|words| {
        let quoted = format!("\"{}\"", words.join(" "));
        prop::sample::select(vec![words.join("-"), words[0].to_owned(), quoted])
    });
    (name, any::<bool>()).prop_map(|(name, is_prefix)| if is_prefix { format!("{name}*") } else { name })
}

proptest! {
    #[test]
    fn a_query_without_implied_terms_is_found_in_the_same_texts(
        terms in prop::collection::vec(term(), 1..8),
        texts in prop::collection::vec(prop::collection::vec(term(), 0..8), 1..8),
    ) {
        let query = Query::parse(&terms.join(" ")).expect("a query");
        let shorter = query.without_implied();
        prop_assert!(shorter.terms.iter().all(|term| query.terms.contains(term)));
        for text in texts {
            let text = text.join(" ");
            prop_assert_eq!(query.matches(&text, Form::Plain), shorter.matches(&text, Form::Plain), "{:?}", text);
        }
        // A text of the shorter query's own words has all terms.
        let text = shorter.terms.iter().map(|term| term.whole.join(" ")).collect::<Vec<_>>().join(" . ");
        prop_assert!(query.matches(&text, Form::Plain), "{:?}: {:?}", text, shorter);
    }
}

#[test]
fn equal_and_overlapping_beginnings_are_one() {
    for (query, left) in [
        ("w* w* w*", 1),
        ("w* wo* word", 1),
        ("word wo* w*", 1),
        ("w \"a word b\" word", 2),
        ("\"a wo\"* \"a word\"", 1),
        ("word* word", 1),
        ("read* readHeader", 1),
        ("header readHeader", 2),
        ("readheader* read_header", 2),
        ("a b c", 3),
    ] {
        let query = Query::parse(query).expect("a query");
        assert_eq!(query.without_implied().terms.len(), left, "{query:?}");
    }
}

//! Rules on texts, whole and in pieces.

use super::known::KNOWN;
use super::pattern::Pattern;
use super::*;
use proptest::prelude::*;
use std::borrow::Cow;

const SALT: Salt = Salt([7; 32]);

fn rules(rules: &[(&str, &str, Action)]) -> Rules {
    let rule = |(name, pattern, action): &(&str, &str, Action)| Rule {
        name: (*name).to_owned(),
        pattern: (*pattern).to_owned(),
        action: *action,
    };
    Rules::new(&rules.iter().map(rule).collect::<Vec<_>>()).expect("they are valid").expect("there are some")
}

fn known(action: Action) -> Rules {
    Rules::new(&Rules::built_in(action)).expect("they are valid").expect("there are some")
}

/// Placeholders without their hashes.
fn plain(text: &str) -> String {
    let hash = regex::Regex::new(r"\[secret:([a-z0-9-]+):[0-9a-f]{12}\]").expect("a pattern");
    hash.replace_all(text, "<$1>").into_owned()
}

fn redacted(rules: &Rules, syntax: Syntax, text: &str) -> String {
    plain(&rules.redact(&SALT, syntax, text).text.unwrap_or_else(|| text.to_owned()))
}

/// A token that no reader of this file takes for one.
fn token(begin: &str, rest: &str) -> String {
    [begin, rest].concat()
}

#[test]
fn every_built_in_rule_can_be_used_and_begins_with_words_of_its_own() {
    let file: toml::Value = toml::from_str(include_str!("known.toml")).expect("it is TOML");
    assert_eq!(file["rule"].as_array().map(Vec::len), Some(KNOWN.rules.len()));
    for known in &KNOWN.rules {
        let pattern = Pattern::built_in(known).unwrap_or_else(|error| panic!("{}: {error}", known.name));
        let words = pattern.words.as_ref().unwrap_or_else(|| panic!("{} begins with any words", known.name));
        // What is before them waits in every draft.
        assert!(words.before < 33, "{} begins with more than its words: {:?}", known.name, words.list);
        assert!(known.allow.is_empty() || check::patterns(&known.allow).is_some(), "{}", known.name);
        let rule = Rule { name: known.name.clone(), pattern: String::new(), action: Action::Warn };
        assert!(Rules::new(&[rule]).is_ok_and(|rules| rules.is_some()));
    }
}

#[test]
fn well_known_tokens_are_found_and_what_only_looks_like_them_is_not() {
    let rules = known(Action::Redact);
    let letters = "zyxwvutsrqponmlkjihgfedcbaABCDEFGHIJ0123456789zyxwvutsrqponmlkjihgfedcba0123456789ghijabcdef";
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let key = format!("{} PRIVATE KEY-----\n{line}\n{line}\nQUJD\n-----END RSA PRIVATE KEY-----", "-----BEGIN RSA");
    let cases = [
        ("aws-access-token", token("AKIA", "Q4ZT7MRXW2KPLN5V")),
        ("github-pat", token("ghp_", &letters[..36])),
        ("github-fine-grained-pat", token("github_pat_", &letters[..82])),
        ("gitlab-pat", token("glpat-", &letters[..20])),
        ("gcp-api-key", token("AIza", &letters[..35])),
        ("huggingface-access-token", token("hf_", &letters[..34])),
        (
            "jwt",
            token("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"),
        ),
        ("npm-access-token", token("npm_", &letters[..36])),
        ("openai-api-key", token("sk-proj-", &letters[..48])),
        ("anthropic-api-key", token("sk-ant-api03-", &letters[..90])),
        ("slack-bot-token", token("xoxb-", "123456789012-abcdefghijkl")),
        ("stripe-access-token", token("sk_live_", &letters[..24])),
        ("private-key", key.clone()),
        ("private-key", key.replace('\n', "\\n")),
        ("private-key", key.split("-----END").next().unwrap_or_default().trim_end().to_owned()),
    ];
    for (name, secret) in cases {
        let text = format!("before \"{secret}\" behind");
        assert_eq!(redacted(&rules, Syntax::Text, &text), format!("before \"<{name}>\" behind"));
        let json = serde_json::json!({ "a": [1, secret], secret.clone(): "" }).to_string();
        let without = redacted(&rules, Syntax::Json, &json);
        assert_eq!(without, format!("{{\"a\":[1,\"<{name}>\"],\"<{name}>\":\"\"}}"));
    }
    for text in [
        "sk-learn",
        "AKIA",
        "MAKIAIOSFODNN7EXAMPLE",
        "ghp_short",
        "-----BEGIN PRIVATE KEY-----\nno",
        "xoxb",
        "eyJ.eyJ.x",
    ] {
        assert_eq!(redacted(&rules, Syntax::Text, text), text);
    }
}

#[test]
fn the_strictest_action_of_overlapping_rules_counts() {
    use Action::{Redact, Refuse, Warn};
    let rules =
        rules(&[("long", "key-[a-z]{4,20}", Warn), ("short", "cret-[0-9]{3}", Redact), ("end", "[0-9]{8}", Refuse)]);
    let hits =
        |text: &str| rules.redact(&SALT, Syntax::Text, text).hits.iter().map(|hit| hit.action).collect::<Vec<_>>();
    assert_eq!(redacted(&rules, Syntax::Text, "a key-abcd b"), "a key-abcd b");
    assert_eq!(hits("a key-abcd b"), [Warn]);
    assert_eq!(redacted(&rules, Syntax::Text, "a key-secret-123 b"), "a <short> b");
    assert_eq!(hits("a key-secret-123 b"), [Redact]);
    assert_eq!(hits("cret-123 12345678 key-abcd"), [Redact, Refuse, Warn]);
}

#[test]
fn equal_secrets_have_equal_placeholders_and_other_salts_other_ones() {
    let rules = rules(&[("key", "key-[0-9]{4}", Action::Redact)]);
    let text = |salt: &Salt, text: &str| rules.redact(salt, Syntax::Json, text).text.expect("there is a secret");
    let both = text(&SALT, "key-1234 key-1234 key-1235");
    let placeholders: Vec<&str> = both.split(' ').collect();
    assert_eq!(placeholders[0], placeholders[1]);
    assert_ne!(placeholders[0], placeholders[2]);
    assert_ne!(text(&Salt([8; 32]), "key-1234"), placeholders[0]);
    // The same without its escapes.
    assert_eq!(text(&SALT, r#"["key-\u0031234"]"#), format!("[\"{}\"]", placeholders[0]));
}

#[test]
fn json_keeps_its_form_and_is_read_string_by_string() {
    let rules = rules(&[("key", "key-[^x]{4}", Action::Redact), ("begin", "^start[0-9]", Action::Redact)]);
    for (json, expected) in [
        (r#"{"key-1234": "key-5678"}"#, r#"{"<key>": "<key>"}"#),
        (r#"{"a": "key-", "b": "1234"}"#, r#"{"a": "key-", "b": "1234"}"#),
        (r#"{"a": "key-\"\\\n\t", "b": 1}"#, r#"{"a": "<key>", "b": 1}"#),
        (r#"["key-\ud83d\ude00123 tail"]"#, r#"["<key> tail"]"#),
        (r#"["\ud83d key-1234 \q"]"#, r#"["\ud83d <key> \q"]"#),
        (r#"["start1", "no start1"]"#, r#"["<begin>", "no start1"]"#),
        (r#"["breaks off key-1234"#, r#"["breaks off <key>"#),
        (r#"["breaks off key-1234\u00"#, r#"["breaks off <key>\u00"#),
        ("  no JSON key-1234", "  no JSON <key>"),
        ("[12345678, true]", "[12345678, true]"),
    ] {
        assert_eq!(redacted(&rules, Syntax::Json, json), expected);
    }
}

#[test]
fn the_text_of_a_data_uri_is_read_and_encoded_again() {
    let rules = rules(&[("key", "key-[0-9]{4}", Action::Redact)]);
    let redacted = |uri: &str| rules.redact(&SALT, Syntax::Uri, uri);
    // "a key-1234 b", and the bytes FF FE.
    let found = redacted("data:application/octet-stream;BASE64,YSBrZXktMTIzNCBi");
    let text = found.text.expect("there is a secret");
    let content = text.strip_prefix("data:application/octet-stream;BASE64,").expect("the same head");
    assert!(content.starts_with("YSBbc2VjcmV0Omtl") && found.hits.len() == 1, "{text}");
    // Padded or not, in the characters of URIs, with white space, escaped: "key-1234?~" and "key-1234>".
    for content in
        ["a2V5LTEyMzQ/fg==", "a2V5LTEyMzQ_fg", "a2V5LTEyMzQ_fg==", "a2V5\nLTEyMzQ/fg", "a2V5LTEyMzQ%2Ffg%3D%3D"]
    {
        for head in ["data:text/plain;base64,", "data:text/plain;base64;charset=utf-8,"] {
            assert_eq!(redacted(&format!("{head}{content}")).hits.len(), 1, "{head}{content}");
        }
    }
    for uri in ["data:image/png;base64,//4=", "data:,key-12", "data:;base64,?", "file:///key"] {
        assert_eq!(redacted(uri), RedactedText::default(), "{uri}");
    }
    assert!(redacted("https://example.com/key-1234").text.is_some());
    assert!(redacted("data:text/plain,key-1234").text.is_some());
}

#[test]
fn a_built_in_rule_has_an_action_of_its_own() {
    let rule = |name: &str, action| Rule { name: name.to_owned(), pattern: String::new(), action };
    let own = Rule { pattern: "mine-[0-9]{6}".to_owned(), ..rule("npm-access-token", Action::Redact) };
    let all = [vec![rule("jwt", Action::Refuse), own], Rules::built_in(Action::Warn)].concat();
    let rules = Rules::new(&all).expect("they are valid").expect("there are some");
    let action = |name: &str| (0..rules.count()).find(|at| rules.name(*at) == name).map(|at| rules.action(at));
    assert_eq!((action("jwt"), action("github-pat")), (Some(Action::Refuse), Some(Action::Warn)));
    assert_eq!((rules.count(), action("npm-access-token")), (KNOWN.rules.len(), Some(Action::Redact)));
    // One of them alone.
    let alone = Rules::new(&[rule("jwt", Action::Redact)]).expect("it is valid").expect("there is one");
    assert_eq!((alone.count(), alone.name(0)), (1, "jwt"));
}

#[test]
fn what_only_begins_like_json_is_read_as_text_from_there_on() {
    let rules =
        rules(&[("key", "key-[0-9]{4}", Action::Redact), ("named", "pin[\": ]{1,4}(?:[0-9a-z]{6})", Action::Redact)]);
    for (text, expected) in [
        ("{'a': 'key-1234'}", "{'a': '<key>'}"),
        ("[INFO] key-1234", "[INFO] <key>"),
        ("[2026-11-29 10:00] true key-1234", "[2026-11-29 10:00] true <key>"),
        ("{\"a\": 1}\nand key-1234", "{\"a\": 1}\nand <key>"),
        ("{a: \"key-1234\"}", "{a: \"<key>\"}"),
        ("{\"pin\": \"12ab56\", \"pin\": 123456}", "{\"pin\": \"<named>\", \"pin\": 123456}"),
    ] {
        assert_eq!(redacted(&rules, Syntax::Json, text), expected);
    }
}

#[test]
fn a_string_of_json_takes_no_room_for_what_is_behind_it() {
    let json = format!("\\u0061\"{}", ",\"\\u0061\"".repeat(1_000));
    let string = json::string(&json);
    let (length, Cow::Owned(text)) = (string.length, string.text) else { panic!("it has an escape") };
    assert_eq!((length, text.as_str()), (6, "a"));
    assert!(text.capacity() < 100, "{}", text.capacity());
}

#[test]
fn rules_that_cannot_be_used_are_named() {
    let error = |name: &str, pattern: &str| {
        let rule = Rule { name: name.to_owned(), pattern: pattern.to_owned(), action: Action::Warn };
        Rules::new(&[rule]).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(error("a-1", "[a-z]{6}"), Ok(()));
    for (name, pattern, expected) in [
        ("", "[a-z]{6}", "a name that is not 1 to 48"),
        ("With Space", "[a-z]{6}", "a name that is not 1 to 48"),
        ("a", "", "no pattern, and no built-in rule has its name"),
        ("a", "([a-z]{6}", "no regular expression: unclosed group"),
        ("a", "(?-u:\\xff){6}", "no regular expression"),
        ("a", "[a-z]{5,6}", "can match less than 6 bytes"),
        ("a", "secret=[a-z]+", "can match more than 16384 bytes: put a bound"),
        ("a", "secret=[a-z]{1,20000}", "can match more than 16384 bytes"),
        ("a", "(?:\\pL{1,40}[a-z]{1,40}){1,80}secret", "a pattern that is too large"),
    ] {
        let error = error(name, pattern).expect_err(pattern);
        assert!(error.contains(expected) && error.starts_with("rule 0 ("), "{pattern}: {error}");
    }
    let rule = |name: &str| Rule { name: name.to_owned(), pattern: "[a-z]{6}".to_owned(), action: Action::Warn };
    assert!(
        Rules::new(&[rule("a"), rule("a")])
            .is_err_and(|error| error.to_string().contains("rule 1 (\"a\") has the name"))
    );
    let many: Vec<Rule> = (0..=limits::SECRET_RULES_MAX).map(|index| rule(&format!("a{index}"))).collect();
    assert!(matches!(Rules::new(&many), Err(Error::TooMany { .. })));
    assert!(Rules::new(&[]).is_ok_and(|rules| rules.is_none()));
}

/// A text in pieces: what is shown after each, and at the end.
fn in_pieces(rules: &Rules, syntax: Syntax, pieces: &[&str]) -> (String, DraftText) {
    let (mut draft, mut shown) = (DraftText::new(syntax), String::new());
    for piece in pieces {
        let received = draft.received(shown.len());
        let settled = draft.add(Some(rules), &SALT, shown.len(), piece, false).expect("nothing is refused");
        shown.push_str(&settled.text);
        assert_eq!(draft.received(shown.len()), received + piece.len());
        let escaped = if syntax == Syntax::Json { 6 } else { 1 };
        assert!(draft.waiting.len() <= escaped * (2 * rules.longest() + 4), "{:?}", draft.waiting);
    }
    let settled = draft.add(Some(rules), &SALT, shown.len(), "", true).expect("an end is never refused");
    shown.push_str(&settled.text);
    (shown, draft)
}

/// A text cut at these bytes, where characters begin.
fn pieces(text: &str, mut cuts: Vec<usize>) -> Vec<&str> {
    cuts.retain(|cut| text.is_char_boundary(*cut));
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}

#[test]
fn no_text_waits_for_ever() {
    let rules = rules(&[("a", "[a-z]{12}", Action::Redact), ("b", "[b-z]{9}", Action::Redact)]);
    let chain = "bcdefgh".repeat(500);
    let (shown, draft) = in_pieces(&rules, Syntax::Text, &pieces(&chain, (0..chain.len()).collect()));
    assert_eq!(plain(&shown).replace("<a>", ""), "hbcdefgh", "the end is too short for a match");
    assert!(draft.replaced.iter().all(|replaced| replaced.received <= 12));
    // White space may be the begin of JSON.
    let mut draft = DraftText::new(Syntax::Json);
    let space = " ".repeat(limits::SECRET_BYTES_MAX - 1);
    draft.add(Some(&rules), &SALT, 0, &space, false).expect("nothing is refused");
    assert_eq!(draft.waiting, space);
    assert_eq!(draft.clone().add(Some(&rules), &SALT, 0, "[", false).expect("JSON").text, format!("{space}["));
    assert_eq!(draft.add(Some(&rules), &SALT, 0, " [", false).expect("text").text, format!("{space} ["));
    assert_eq!((draft.place.reading, draft.waiting.as_str()), (ReadingMode::Text, ""));
}

#[test]
fn only_what_may_become_a_match_waits() {
    let rules = known(Action::Redact);
    for (text, waiting) in [
        ("plain words, ", ""),
        // What is around a match is not looked at, and some begin with any four characters.
        ("the words of a task", "task"),
        ("a word behind another s", "s"),
        ("this is sk-", "sk-"),
        ("this is sk-learn", "sk-learn"),
        ("this is sk-learn, a tool, ", ""),
        (&token("it is AKIA", "IOSFODNN7"), "AKIAIOSFODNN7"),
        (&token("it is AKIA", "IOSFODNN7EXAMPLE"), "AKIAIOSFODNN7EXAMPLE"),
        // The automaton knows of a match one byte behind it.
        (&token("it is AKIA", "IOSFODNN7EXAMPLE "), "AKIAIOSFODNN7EXAMPLE "),
        (&token("it is AKIA", "IOSFODNN7EXAMPLE, "), ""),
        ("a list: --", "--"),
    ] {
        let mut draft = DraftText::new(Syntax::Text);
        draft.add(Some(&rules), &SALT, 0, text, false).expect("nothing is refused");
        assert_eq!(draft.waiting, waiting, "{text}");
    }
}

#[test]
fn a_piece_that_completes_a_refused_match_changes_nothing() {
    let rules = rules(&[("key", "key-[0-9]{4}", Action::Refuse)]);
    let mut draft = DraftText::new(Syntax::Text);
    assert_eq!(draft.add(Some(&rules), &SALT, 0, "a key-12", false).map(|settled| settled.text), Ok("a ".to_owned()));
    let before = draft.clone();
    assert_eq!(draft.add(Some(&rules), &SALT, 2, "34 b", false), Err(0));
    assert_eq!(draft, before);
    // A match that was acknowledged while it could still grow is no reason to refuse what comes behind it.
    let grows = self::rules(&[("key", "key-[0-9]{4,8}", Action::Refuse)]);
    let mut growing = DraftText::new(Syntax::Text);
    assert_eq!(
        growing.add(Some(&grows), &SALT, 0, "a key-1234", false).map(|settled| settled.text),
        Ok("a ".to_owned())
    );
    assert_eq!(growing.clone().add(Some(&grows), &SALT, 2, "5 b", false), Err(0), "a piece that brings some of it");
    let settled = growing.add(Some(&grows), &SALT, 2, " ok", false).expect("the draft goes on");
    assert!(settled.text.starts_with("[secret:key:") && settled.text.ends_with("] o"), "{}", settled.text);
    // What was acknowledged is not lost at the end.
    draft.add(Some(&rules), &SALT, 2, "34", false).expect("it may go on");
    let end = draft.add(Some(&rules), &SALT, 2, "", true).expect("an end is never refused");
    assert_eq!((plain(&end.text), end.hits.len()), ("<key>".to_owned(), 1));
}

#[test]
fn text_that_is_sent_again_is_compared_with_what_was_received() {
    let rules = rules(&[("key", "key-[0-9]{4}", Action::Redact)]);
    let text = "one key-1234 two key-5678 three key-";
    let (mut draft, mut shown) = (DraftText::new(Syntax::Text), String::new());
    for piece in [&text[..7], &text[7..20], &text[20..]] {
        let settled = draft.add(Some(&rules), &SALT, shown.len(), piece, false).expect("nothing is refused");
        shown.push_str(&settled.text);
    }
    assert_eq!((plain(&shown).as_str(), draft.waiting.as_str()), ("one <key> two <key> three ", "key-"));
    for begin in 0..=text.len() {
        for end in begin..=text.len() {
            assert_eq!(draft.overlap(&SALT, &shown, begin, &text[begin..end]), Some(end - begin));
        }
        let more = format!("{}more", &text[begin..]);
        assert_eq!(draft.overlap(&SALT, &shown, begin, &more), Some(text.len() - begin));
    }
    assert_eq!(draft.overlap(&SALT, &shown, text.len() + 1, ""), None);
    for other in [
        "ONE",
        "one key-1235 two",
        "one key-1234 Two",
        "one key-1234 two key-5679",
        "one key-1234 two key-5678 three KEY",
    ] {
        assert_eq!(draft.overlap(&SALT, &shown, 0, other), None, "{other}");
    }
}

#[test]
fn rules_that_come_or_go_in_the_middle_of_a_text_are_no_error() {
    let rules = rules(&[("key", r"\bkey-[0-9]{4}", Action::Redact)]);
    let mut draft = DraftText::resumed(Syntax::Text, "was here: x");
    assert_eq!(
        draft.add(Some(&rules), &SALT, 11, "key-1234 key-12", false).map(|settled| plain(&settled.text)),
        Ok("key-1234 ".to_owned())
    );
    assert_eq!(
        draft.add(None, &SALT, 20, "34 key-1234", false).map(|settled| settled.text),
        Ok("key-1234 key-1234".to_owned())
    );
    let mut json = DraftText::resumed(Syntax::Json, r#"{"a": "x\""#);
    assert_eq!((json.place.reading, json.place.before), (ReadingMode::JsonString, Some('"')));
    assert_eq!(
        json.add(Some(&rules), &SALT, 10, "key-1234\"", false).map(|settled| plain(&settled.text)),
        Ok("<key>\"".to_owned())
    );
}

/// Texts in which the rules of `awkward` match, nearly match and overlap.
fn texts() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "key-1234",
        "key-",
        "12345678",
        "1",
        "aaaa",
        "aaaaaaaab",
        "b",
        "é",
        "\"",
        "\\",
        "\\u006b",
        "\\n",
        " ",
        "\n",
        "{",
        "[",
        "begin",
        "end",
        "begin12end",
        "𝕏",
        "cret-99",
        "xx",
        ",",
        ":",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

fn awkward() -> Rules {
    use Action::{Redact, Warn};
    rules(&[
        ("key", r"(?-u:\b)key-[0-9]{4,6}", Redact),
        ("digits", r"[0-9]{8}$", Redact),
        ("first", "^(?:key-12|begin1)", Redact),
        ("as", "a{6,9}b", Redact),
        ("lazy", "begin[^x]{0,12}?end", Redact),
        ("either", "key-12|key-1234 key", Redact),
        ("unicode", r"\b\w{3}-99\b", Warn),
        ("wide", "é.{2,4}𝕏", Redact),
        // What a name makes of its value, and what has words behind its begin.
        ("named", r#"(?:key-|cret-99)["': ]{1,4}[0-9]{1,9}[ab]{0,9}"#, Redact),
        ("behind", "[0-9]{2,5}begin1", Redact),
    ])
}

/// Rules whose matches overlap in chains, strict ones and others.
fn chaining() -> Rules {
    use Action::{Redact, Warn};
    rules(&[
        ("w1", "a[abc]{5,7}", Warn),
        ("r1", "b[ab]{6}", Redact),
        ("w2", "(?:ab|c){6,8}", Warn),
        ("r2", "ca[^ ]{4,6}?b", Redact),
    ])
}

proptest! {
    #[test]
    fn chains_of_matches_are_cut_the_same_and_nothing_of_a_secret_is_left(
        text in "[abc]{0,90} ?[abc]{0,9}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let rules = chaining();
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        let (shown, _) = in_pieces(&rules, Syntax::Text, &pieces(&text, cuts));
        prop_assert_eq!(shown, rules.redact(&SALT, Syntax::Text, &text).text.unwrap_or_else(|| text.clone()));
        let hidden: Vec<_> = rules
            .positions(Syntax::Text, &text)
            .into_iter()
            .filter(|(_, hit)| hit.action == Action::Redact)
            .flat_map(|(range, _)| range)
            .collect();
        for pattern in ["b[ab]{6}", "ca[^ ]{4,6}?b"] {
            for found in regex::Regex::new(pattern).expect("a pattern").find_iter(&text) {
                prop_assert!(found.range().all(|at| hidden.contains(&at)), "{} of {text}", found.as_str());
            }
        }
    }

    #[test]
    fn however_a_text_is_cut_it_becomes_the_same(
        text in texts(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        json in any::<bool>(),
    ) {
        let rules = awkward();
        let (syntax, text) = if json { (Syntax::Json, format!("{{\"{text}")) } else { (Syntax::Text, text) };
        let whole = rules.redact(&SALT, syntax, &text).text.unwrap_or_else(|| text.clone());
        let cuts = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        let pieces = pieces(&text, cuts);
        let (shown, draft) = in_pieces(&rules, syntax, &pieces);
        prop_assert_eq!(&shown, &whole);
        let mut offset = 0;
        for piece in pieces {
            prop_assert_eq!(draft.overlap(&SALT, &shown, offset, piece), Some(piece.len()));
            offset += piece.len();
        }
    }

    #[test]
    fn valid_json_stays_valid(value in texts(), name in texts()) {
        let json = serde_json::json!({ name: [value] }).to_string();
        let whole = awkward().redact(&SALT, Syntax::Json, &json).text.unwrap_or(json);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&whole).is_ok(), "{}", whole);
    }
}

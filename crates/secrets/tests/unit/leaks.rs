//! No byte of a secret of any kind, in anything that it may be wrapped in, comes out of a text, whole or cut anywhere.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

const SALT: Salt = Salt([7; 32]);

/// Letters and digits that look random and repeat nothing, drawn for a kind.
fn drawn(kind: u64, length: usize, alphabet: &str) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = kind.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        alphabet[(state >> 33) as usize % alphabet.len()]
    };
    (0..length).map(|_| next()).collect()
}

const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const SMALL: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Tokens of kinds that have a begin of their own.
fn tokens() -> Vec<String> {
    let of = |kind, begin: &str, length, alphabet| [begin, &drawn(kind, length, alphabet)].concat();
    let jwt = |kind: u64, length| {
        let part = |part: u64, length| drawn(kind * 8 + part, length, ALL);
        format!("eyJ{}.eyJ{}.{}", part(1, 33), part(2, length), part(3, 43))
    };
    vec![
        of(1, "ghp_", 36, ALL),
        of(2, "github_pat_", 82, ALL),
        of(3, "glpat-", 20, ALL),
        of(4, "AKIA", 16, BASE32),
        of(5, "AIza", 35, ALL),
        of(6, "sk-ant-api03-", 95, ALL),
        of(7, "sk-proj-", 120, ALL),
        of(8, "xoxb-1234567890-123456789012-", 24, ALL),
        of(9, "sk_live_", 24, ALL),
        of(10, "hf_", 34, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        of(11, "npm_", 36, ALL),
        of(12, "pypi-AgEIcHlwaS5vcmc", 70, ALL),
        of(13, "dop_v1_", 64, HEX),
        of(14, "SG.", 66, ALL),
        of(15, "glsa_", 32, ALL) + "_" + &drawn(16, 8, HEX),
        of(17, "hvs.", 100, ALL),
        of(18, "PMAK-", 24, HEX) + "-" + &drawn(19, 34, HEX),
        of(20, "tskey-auth-", 12, ALL) + "-" + &drawn(21, 32, ALL),
        of(22, "gsk_", 52, ALL),
        jwt(3, 60),
        jwt(4, 4_800),
    ]
}

/// Names and secrets that are some by their name.
fn named() -> Vec<(&'static str, String)> {
    vec![
        ("adafruit_key", drawn(31, 32, SMALL)),
        ("datadog_token", drawn(32, 40, SMALL)),
        ("TWITTER_API_SECRET", drawn(33, 50, SMALL)),
        ("db_password", drawn(34, 24, ALL)),
        ("clientSecret", drawn(35, 40, ALL)),
    ]
}

/// A private key of so many lines, without line ends.
fn key(kind: u64, lines: usize) -> Vec<String> {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
    let body = (0..lines as u64).map(|line| drawn(kind * 1_000 + line, 64, ALL)).chain([drawn(kind, 20, ALL) + "=="]);
    [begin].into_iter().chain(body).chain([end]).collect()
}

/// A token as tools print it, with something before and behind it.
const TOKEN_WRAPPINGS: &[(&str, &str)] = &[
    ("", ""),
    ("it is ", " behind"),
    ("\"", "\""),
    ("'", "',"),
    ("{'token': '", "'}"),
    ("[INFO] login with ", ", retry"),
    ("{\"a\": 1} and then ", "\n"),
    ("\u{1b}[32m", "\u{1b}[0m"),
    ("line\\n", "\\nline"),
    ("x%3D", "%26y"),
    ("id_", "\t"),
    ("> ", "\n> "),
    ("   12\u{2192}", "\n"),
    ("src/a.py:12:", "\n"),
    ("{\\\"token\\\": \\\"", "\\\"}"),
    ("https://example.com/?t=", "&b=1"),
    ("(", ")."),
];

/// A secret with a name before it.
const NAMED_WRAPPINGS: &[(&str, &str, &str)] = &[
    ("export ", "=", "\n"),
    ("", ": ", "\n"),
    ("{'", "': '", "'}"),
    ("{\"a\": \"b\", \"", "\": \"", "\", \"c\": []}"),
    ("{ \"", "\" : \"", "\"}"),
    ("{\\\"", "\\\": \\\"", "\\\"}"),
    ("[12:00] ", "=\"", "\" ok"),
    ("   7\t", " = '", "'\n"),
    ("\u{1b}[1m", "\u{1b}[0m=", " "),
    ("the ", " is ", "\n"),
    ("x?", "%3D", "%26"),
];

/// What is before each line of a key but the first, and between lines.
const KEY_WRAPPINGS: &[(&str, &str)] = &[
    ("\n", ""),
    ("\r\n", ""),
    ("\\n", ""),
    ("\\\\n", ""),
    ("%0A", ""),
    ("\n", "> "),
    ("\n", "     7\t"),
    ("\n", "    7\u{2192}"),
    ("\n", "12:"),
    ("\n", "keys/id_rsa.pem:12:"),
    ("\n", "keys/id_rsa.pem-12-"),
    ("\n", "+"),
    ("\n", "# "),
    ("\n", "// "),
    ("\\n\" +\n", "    \""),
    ("\",\n", "  \""),
    ("\u{1b}[0m\n", "\u{1b}[32m"),
    ("\n", "\u{2502} "),
];

fn rules() -> Rules {
    Rules::new(&Rules::built_in(Action::Redact)).expect("they are valid").expect("there are some")
}

/// True if a part of a secret is in a text.
fn leaks(secret: &str, text: &str) -> bool {
    // Of a long secret, parts that are further apart.
    let (least, step) = (8, 4.max(secret.len() / 50));
    (0..secret.len().saturating_sub(least)).step_by(step).any(|at| text.contains(&secret[at..at + least]))
}

/// Checks that nothing of the secrets is in the text as a whole, nor in what is shown of it when it comes in two pieces,
/// cut at every byte, or in many of this many bytes.
fn check(rules: &Rules, syntax: Syntax, text: &str, secrets: &[&str], cuts: impl Iterator<Item = usize>) {
    let whole = rules.redact(&SALT, syntax, text).text.unwrap_or_else(|| text.to_owned());
    let begin: String = text.chars().take(90).collect();
    for secret in secrets {
        assert!(!leaks(secret, &whole), "{syntax:?} {begin:?} leaks as a whole");
    }
    for cut in cuts.filter(|cut| text.is_char_boundary(*cut)) {
        let mut draft = DraftText::new(syntax);
        let mut shown = String::new();
        for (piece, is_end) in [(&text[..cut], false), (&text[cut..], false), ("", true)] {
            let settled = draft.add(Some(rules), &SALT, shown.len(), piece, is_end).expect("nothing is refused");
            shown.push_str(&settled.text);
            for secret in secrets {
                assert!(!leaks(secret, &shown), "{syntax:?} {begin:?} leaks, cut at {cut}");
            }
        }
        assert_eq!(shown, whole, "{syntax:?} {begin:?}, cut at {cut}");
    }
}

/// The same for a text as it is, and in one of three other forms in turn.
fn check_forms(rules: &Rules, text: &str, secrets: &[&str], step: usize, turn: usize) {
    let json = serde_json::json!({ "a": [text, 1], "content": text }).to_string();
    let other = [(Syntax::Json, text), (Syntax::Json, &json), (Syntax::Text, &json)][turn % 3];
    for (syntax, text) in [(Syntax::Text, text), other] {
        check(rules, syntax, text, secrets, (0..=text.len()).step_by(step));
    }
}

#[test]
fn nothing_of_a_token_gets_through() {
    let rules = rules();
    for (number, token) in tokens().into_iter().enumerate() {
        // One of 4,800 bytes is cut at fewer places.
        let step = if token.len() > 500 { 397 } else { 1 };
        for (turn, (before, behind)) in TOKEN_WRAPPINGS.iter().enumerate() {
            check_forms(&rules, &[before, token.as_str(), behind].concat(), &[&token], step, number + turn);
        }
    }
}

#[test]
fn nothing_of_a_secret_with_a_name_gets_through() {
    let rules = rules();
    for (number, (name, secret)) in named().into_iter().enumerate() {
        for (turn, (before, between, behind)) in NAMED_WRAPPINGS.iter().enumerate() {
            let text = [before, name, between, &secret, behind].concat();
            check_forms(&rules, &text, &[&secret], 1, number + turn);
        }
    }
}

#[test]
fn nothing_of_a_key_gets_through() {
    let rules = rules();
    for (turn, (end, begin)) in KEY_WRAPPINGS.iter().enumerate() {
        for lines in [3, 200] {
            let key = key(lines as u64, lines);
            let text = ["here:\n", begin, &key.join(&[*end, *begin].concat()), end, "\nand so on"].concat();
            let secrets: Vec<&str> = key[1..=lines].iter().map(String::as_str).collect();
            check_forms(&rules, &text, &secrets, if lines > 3 { 3_989 } else { 1 }, turn);
        }
    }
}

#[test]
fn nothing_gets_through_in_the_smallest_pieces() {
    let rules = rules();
    let token = &tokens()[0];
    let (name, secret) = &named()[0];
    let key = key(9, 3).join("\n     7\t");
    let json = serde_json::json!({ *name: secret, "b": [token, key] }).to_string();
    for (syntax, text) in [
        (Syntax::Text, format!("a {token} b\n{name}={secret}\n{key}\nthe end")),
        (Syntax::Json, json.clone()),
        (Syntax::Json, json + "\nand " + token),
        (Syntax::Json, format!("{{'token': '{token}', '{name}': '{secret}'}}")),
    ] {
        let (mut draft, mut shown) = (DraftText::new(syntax), String::new());
        let pieces = text.char_indices().map(|(at, character)| (&text[at..at + character.len_utf8()], false));
        for (piece, is_end) in pieces.chain([("", true)]) {
            let settled = draft.add(Some(&rules), &SALT, shown.len(), piece, is_end).expect("nothing is refused");
            shown.push_str(&settled.text);
        }
        assert_eq!(shown, rules.redact(&SALT, syntax, &text).text.unwrap_or_default());
        for secret in [token, secret] {
            assert!(!leaks(secret, &shown), "{shown}");
        }
    }
}

/// Texts in which built-in rules match, nearly match and overlap.
fn texts() -> impl Strategy<Value = String> {
    let token = ["ghp_", &drawn(1, 36, ALL)].concat();
    let key = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let (line, short) = (drawn(2, 64, ALL), drawn(3, 20, SMALL));
    let own = [token, key, line, short].into_iter();
    let plain =
        "api_key|password|token|adafruit|curl -u |://a:|@|eyJ|.eyJ| is |=|: |\"|\\\"|'|{|}|[|,|\n|\\n| |a|9|é|%3D";
    let words: Vec<String> = plain.split('|').map(str::to_owned).chain(own).collect();
    prop::collection::vec(prop::sample::select(words), 0..16).prop_map(|words| words.concat())
}

static RULES: LazyLock<Rules> = LazyLock::new(rules);

proptest! {
    #[test]
    fn however_a_text_is_cut_the_built_in_rules_find_the_same(
        text in texts(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        form in 0..3_usize,
    ) {
        let (syntax, begin) = [(Syntax::Text, ""), (Syntax::Json, ""), (Syntax::Json, "{\"")][form];
        let text = [begin, &text].concat();
        let whole = RULES.redact(&SALT, syntax, &text).text.unwrap_or_else(|| text.clone());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let (mut draft, mut shown) = (DraftText::new(syntax), String::new());
        let pieces = cuts.windows(2).map(|ends| (&text[ends[0]..ends[1]], false));
        for (piece, is_end) in pieces.chain([("", true)]) {
            let settled = draft.add(Some(&RULES), &SALT, shown.len(), piece, is_end).expect("nothing is refused");
            shown.push_str(&settled.text);
        }
        prop_assert_eq!(shown, whole);
    }
}

//! The text of an error without its wrappers.
//!
//! Gateways, clients and logs put errors into JSON in JSON, HTML, representations of objects, tracebacks and lists of
//! attempts. What is left of them here are statuses, codes, and the sentences of each error, in the order in which they
//! come.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// An error as it was said.
#[derive(Debug, Default)]
pub(super) struct ErrorText {
    /// HTTP statuses: the last one of the text, and those of its fields.
    pub(super) statuses: Vec<u16>,
    /// Codes and types, in lower case.
    pub(super) codes: Vec<String>,
    /// The errors, each as its sentences (`sentence`). The last error is what finally went wrong.
    pub(super) errors: Vec<Vec<String>>,
}

/// Characters that are read at each end of a message: what went wrong is said first or last, and a body may have any
/// size.
const END_CHARS: usize = 4_096;

/// Takes the place of what separates two errors.
const GAP: char = '\u{1e}';

/// A pattern that is part of the program.
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

pub(super) fn read_error(message: &str) -> ErrorText {
    let plain = unwrapped(&both_ends(message));
    let mut said = ErrorText { statuses: status(&plain).into_iter().collect(), ..ErrorText::default() };
    for (key, value) in fields(&plain) {
        match role(&key) {
            Role::Words => said.errors.extend(errors(value)),
            Role::Code => {
                let value = value.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
                match value.parse() {
                    Ok(status @ 400..600) => said.statuses.push(status),
                    _ if value.is_empty() => {}
                    // What follows the last field of an object is part of its value here.
                    _ => {
                        said.codes.extend(value.split(['"', '\'', ',', '}']).next().map(|code| code.trim().to_owned()))
                    }
                }
            }
            Role::Nothing => {}
        }
    }
    said
}

/// A sentence in lower case: without quotation marks, with words for identifiers, and numbers without separators.
pub(super) fn sentence(text: &str) -> String {
    static OUTPUT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?i)\bmax_?(?:completion|new|output|gen(?:eration)?)?_?(?:tokens|len)(?:_to_sample)?\b|",
            r"\bnum_predict\b"
        ))
    });
    static HUMPS: LazyLock<Regex> = LazyLock::new(|| pattern(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])"));
    static THOUSANDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\d)[,_](\d{3})\b"));
    static KILO: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\d{1,4})k\b"));
    // East Asian words have no blank before a word in Latin letters.
    static SEAM: LazyLock<Regex> = LazyLock::new(|| {
        let east = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]";
        pattern(&format!("({east})([A-Za-z0-9])|([A-Za-z0-9])({east})"))
    });
    // `max tokens` in words may mean any limit; the parameter means the output.
    let text = OUTPUT.replace_all(text, |found: &Captures<'_>| {
        if found[0].contains('_') || found[0].contains("Tokens") { " outcap " } else { " max tokens " }
    });
    let text = SEAM.replace_all(&text, "$1$3 $2$4");
    let text = SEAM.replace_all(&text, "$1$3 $2$4");
    let text = HUMPS.replace_all(&text, "$1$3 $2$4");
    let mut text =
        text.to_lowercase().replace(['"', '\'', '`', '\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}', '*'], "");
    for _ in 0..3 {
        text = THOUSANDS.replace_all(&text, "$1$2").into_owned();
    }
    let text = KILO.replace_all(&text.replace('_', " "), "${1}000").into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn both_ends(message: &str) -> String {
    let head = message.char_indices().nth(END_CHARS).map_or(message.len(), |(at, _)| at);
    let tail = message.char_indices().rev().nth(END_CHARS - 1).map_or(0, |(at, _)| at);
    if tail <= head { message.to_owned() } else { format!("{}{GAP}{}", &message[..head], &message[tail..]) }
}

/// A text without escapes, entities, tags and addresses.
fn unwrapped(text: &str) -> String {
    static TAG: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?is)<(?:script|style)\b.*?</(?:script|style)>|</?[a-z][a-z0-9]*(?:\s[^<>]{0,300})?/?>|",
            r"<!doctype[^<>]*>"
        ))
    });
    static DATA: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"(?i)data:(?:image|audio|video|application)/[^\s"'<>),\]}]{0,64}[^\s"'<>)\]}]*"#));
    static PICTURE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r#"(?i)\b[a-z]{2,5}://[^\s"'<>)\]}]*\.(?:png|jpe?g|gif|webp|bmp|pdf)\b[^\s"'<>)\]}]*"#)
    });
    static ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern(r#"\b[a-z]{2,5}://[^\s"'<>)\]}]+"#));
    let mut text = std::borrow::Cow::from(text);
    for _ in 0..2 {
        text = unescaped(&text).into();
    }
    let gap = GAP.to_string();
    let text = TAG.replace_all(&text, gap.as_str());
    let text = DATA.replace_all(&text, " image ");
    let text = PICTURE.replace_all(&text, " image ");
    let text = ADDRESS.replace_all(&text, " ");
    text.chars().map(narrow).collect()
}

/// A text with one layer of entities and all escapes replaced.
fn unescaped(text: &str) -> String {
    static ESCAPE: LazyLock<Regex> = LazyLock::new(|| pattern(r#"\\+(?:u([0-9a-fA-F]{4})|(["'/nrtb`]))"#));
    static ENTITY: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)&(?:amp;)*(quot|apos|lt|gt|nbsp|amp|#x?[0-9a-f]+);"));
    let text = ENTITY.replace_all(text, |found: &Captures<'_>| match found[1].to_lowercase().as_str() {
        "quot" | "#34" | "#x22" => "\"",
        "apos" | "#39" | "#x27" => "'",
        "lt" | "#60" => "<",
        "gt" | "#62" => ">",
        "amp" | "#38" => "&",
        _ => " ",
    });
    let text = ESCAPE.replace_all(&text, |found: &Captures<'_>| match (found.get(1), found.get(2)) {
        (Some(unit), _) => {
            u32::from_str_radix(unit.as_str(), 16).ok().and_then(char::from_u32).map(String::from).unwrap_or_default()
        }
        (None, Some(letter)) if "\"'/`".contains(letter.as_str()) => letter.as_str().to_owned(),
        _ => "\n".to_owned(),
    });
    text.into_owned()
}

/// The ASCII form of punctuation and letters that East Asian texts write wide.
fn narrow(letter: char) -> char {
    match letter {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
        '\u{3000}' | '\u{a0}' => ' ',
        '\u{3001}' => ',',
        _ => letter,
    }
}

/// The fields of all objects in a text, as key and value, and the text before them with an empty key.
fn fields(text: &str) -> Vec<(String, &str)> {
    static KEY: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r#"[{,(\[]\s*["']([A-Za-z_][\w.-]{0,40})["']\s*:|(?:[{(\[]|"#,
            r#",\s*\n)\s*([a-z][A-Za-z_]{1,40}):\s*(?:["'{\[]|\d)|[(,]\s*([a-z_]{2,20})=["']"#
        ))
    });
    let mut fields = Vec::new();
    let (mut key, mut begin) = (String::new(), 0);
    for found in KEY.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        let name = (1..=3).find_map(|group| found.get(group)).map_or("", |name| name.as_str());
        fields.push((std::mem::replace(&mut key, name.to_lowercase()), &text[begin..whole.start()]));
        begin = whole.end();
    }
    fields.push((key, &text[begin..]));
    fields
}

/// What the value of a field is.
enum Role {
    /// Words about what went wrong.
    Words,
    /// A code, a type or a status.
    Code,
    /// Anything else: ids, names, and what the user wrote, which is not about this request.
    Nothing,
}

fn role(key: &str) -> Role {
    match key {
        "code" | "type" | "status" | "error_type" | "errortype" | "error_code" | "errorcode" | "reason"
        | "statuscode" | "status_code" | "http_status" | "httpstatus" | "kind" => Role::Code,
        "content" | "text" | "input" | "input_value" | "inputs" | "prompt" | "messages" | "query" | "arguments"
        | "output" | "request" | "requestbody" | "requestbodyvalues" | "request_body" | "user" | "user_id" | "id"
        | "request_id" | "requestid" | "name" | "model" | "provider" | "provider_name" | "param" | "loc" | "url"
        | "path" | "role" | "timestamp" | "domain" | "object" | "headers" | "tools" | "system" => Role::Nothing,
        _ => Role::Words,
    }
}

/// The last HTTP status that a text names.
fn status(text: &str) -> Option<u16> {
    static STATUS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?i)(?:^\W*|\berror code\W{1,3}|\bapi ?error\W{0,4}|status(?:[_ ]?code)?\W{1,4}|",
            r"\bhttp(?:/[\d.]+)?\W{1,2}|error\W{1,3}|\W\()([45]\d\d)(?:[\s:,;)\]}\-]|$)"
        ))
    });
    // `400 Bad Request` and its like.
    static REASON: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?i)\b(4\d\d) (?:bad request|payload too large|request entity|content too large|too many requests)")
    });
    let last = |regex: &Regex| {
        regex.captures_iter(text).filter_map(|found| Some((found.get(1)?.start(), found[1].parse().ok()?))).last()
    };
    let found: Vec<(usize, u16)> = [last(&STATUS), last(&REASON)].into_iter().flatten().collect();
    found.into_iter().max().map(|(_, status)| status)
}

/// The errors in a value, each as its sentences.
fn errors(value: &str) -> Vec<Vec<String>> {
    // The name of an error, a new attempt, or a new line of a log begins another error.
    static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?i)\b(?:[\w.]*(?:error|exception|failure)|last error|caused by|error doing the fallback|",
            r"attempt \d+[^:]{0,20}|upstream\w*(?: said)?)\s*(?:\[\w+\]|\([^()]{0,40}\))?\s*:|",
            r"\n\s*\[?\d{4}-\d\d-\d\d[ T]|during handling of the above|traceback \(most recent"
        ))
    });
    static SENTENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"[.!?](?:\s+|$)|[\u{3002}]"));
    let value = without_quotations(&without_frames(value));
    let value = BEGIN.replace_all(&value, |found: &Captures<'_>| format!("{GAP}{}", &found[0]));
    let errors = value.split(GAP).map(|error| {
        SENTENCE.split(error).map(sentence).filter(|sentence| sentence.chars().any(char::is_alphabetic)).collect()
    });
    errors.filter(|sentences: &Vec<String>| !sentences.is_empty()).collect()
}

/// A text without the lines of a traceback that show code.
fn without_frames(text: &str) -> String {
    static FRAME: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r#"(?m)^\s*File "[^"\n]*", line \d+[^\n]*\n(?:[^\n]*\n)?(?:[\s~^]*\n)?|"#,
            r#"^\s*at [^\n]*[:(][^\n]*$|^(?:-+> ?|\s{2,})\d+ [^\n]*$"#
        ))
    });
    FRAME.replace_all(text, "\n").into_owned()
}

/// A text without what it quotes of a request: these are a user's words, not the provider's.
fn without_quotations(text: &str) -> String {
    static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r#"(?i)(\b(?:(?:your|users?|the|this|last) (?:message|prompt|input|query|question|text|content|"#,
            r#"request)|(?:invalid|unexpected|unknown|unrecognized|bad) (?:\w+ )?(?:value|type|string|text|"#,
            r#"input|token|argument|literal|tool|function|name|role)|input_value|value|got|received|"#,
            r#"literal|arguments?|near|pars(?:e|ing)|find|flagged|filtered|moderated|blocked|unexpected token \S{1,8} in|named?|called|said|"#,
            r#"wrote|contains?|containing|starting with)\s*[:=]?\s*)(?:"[^"\n]*\s[^"\n]*"|"#,
            r#"'[^'\n]*\s[^'\n]*'|\u{201c}[^\u{201d}]*\u{201d}|\u{300c}[^\u{300d}]*\u{300d}|"#,
            r#"`[^`\n]*\s[^`\n]*`)"#
        ))
    });
    QUOTED.replace_all(text, "$1 quoted ").into_owned()
}

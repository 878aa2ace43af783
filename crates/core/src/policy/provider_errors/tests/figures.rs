//! Recall and precision of the reading by sense, beside a list of phrases as other agents have it.

use super::super::{Kind, ProviderError, kind, kind_of_text};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A refusal as someone worded it, and what it is.
#[derive(Deserialize)]
pub(super) struct Wording {
    kind: What,
    pub(super) status: Option<u16>,
    pub(super) code: Option<String>,
    pub(super) text: String,
    /// True if the reading was not made with it.
    #[serde(default)]
    pub(super) held_back: bool,
    /// The model's window in tokens, if the text names it.
    pub(super) window: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Overflow,
    Media,
    Other,
}

/// The phrases by which agents recognise an overflow, in lower case: what pi, OpenCode and LiteLLM list, joined.
const PHRASES: [&str; 32] = [
    "prompt is too long",
    "input is too long for requested model",
    "exceeds the context window",
    "exceeds the maximum number of tokens",
    "input token count",
    "maximum prompt length is",
    "maximum context length",
    "reduce the length of the messages",
    "exceeds the limit of",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with",
    "model_context_window_exceeded",
    "prompt too long",
    "context_length_exceeded",
    "context length exceeded",
    "too many tokens",
    "token limit exceeded",
    "prompt exceeds max length",
    "range of input length should be",
    "request entity too large",
    "tokens in request more than max tokens allowed",
    "context length is only",
    "input length exceeds the context length",
    "string too long. expected a string with maximum length",
    "exceed context limit",
    "exceeds maximum input length",
    "exceed context window",
    "request_too_large",
    "payload size exceeds the limit",
];

/// The phrases by which agents recognise media that are too many or too large.
const MEDIA_PHRASES: [&str; 5] = [
    "image exceeds",
    "image dimensions exceed",
    "too many images",
    "exceeds the dimension limit",
    "could not process image",
];

/// The rival: any phrase of the list, but for messages about a rate.
fn by_phrases(text: &str) -> What {
    let text = text.to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    match () {
        () if has(&["rate limit", "too many requests", "throttling error"]) => What::Other,
        () if has(&MEDIA_PHRASES) => What::Media,
        () if has(&PHRASES) => What::Overflow,
        () => What::Other,
    }
}

fn what(kind: Option<Kind>) -> What {
    match kind {
        Some(Kind::TooLong | Kind::TooLarge) => What::Overflow,
        Some(Kind::Media) => What::Media,
        Some(Kind::Rate | Kind::Busy | Kind::Quota | Kind::Invalid) | None => What::Other,
    }
}

/// Right and wrong answers.
#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    found: usize,
    missed: usize,
    wrong: usize,
    media_found: usize,
    media_missed: usize,
}

impl Figures {
    fn add(&mut self, is: What, said: What) {
        match (is, said) {
            (What::Overflow, What::Overflow) => self.found += 1,
            (What::Overflow, _) => self.missed += 1,
            (_, What::Overflow) => self.wrong += 1,
            _ => {}
        }
        match (is, said) {
            (What::Media, What::Media) => self.media_found += 1,
            (What::Media, _) => self.media_missed += 1,
            _ => {}
        }
    }

    fn recall(&self) -> f64 {
        percent(self.found, self.missed)
    }

    fn precision(&self) -> f64 {
        percent(self.found, self.wrong)
    }

    fn media(&self) -> f64 {
        percent(self.media_found, self.media_missed)
    }
}

fn percent(of: usize, beside: usize) -> f64 {
    100.0 * of as f64 / (of + beside).max(1) as f64
}

fn read(lines: &str) -> Vec<Wording> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// The wordings of this repository.
pub(super) fn wordings() -> Vec<Wording> {
    read(include_str!("wordings.jsonl"))
}

/// The refusals of public reports, which are not part of the repository; none without them.
pub(super) fn public() -> Option<Vec<Wording>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/provider-errors.jsonl");
    let lines = std::fs::read_to_string(&path).ok();
    if lines.is_none() {
        println!("skipped: {} is missing", path.display());
    }
    lines.map(|lines| read(&lines))
}

/// What gateways, clients and logs make of a message.
fn wrapped(text: &str) -> [(&'static str, String); 9] {
    let body = |text: &str| serde_json::json!({ "error": { "message": text, "type": "x" } }).to_string();
    let frames =
        "  File \"/app/x.py\", line 3, in call\n    raise RateLimitError(\"rate limit exceeded\")\n".repeat(200);
    let page = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    [
        ("JSON", body(text)),
        ("JSON in JSON in JSON", body(&body(&body(text)))),
        ("client", format!("API Error: 400 {}", body(text))),
        ("gateway", format!("litellm.BadRequestError: OpenAIException - {text}\nReceived Model Group=x")),
        ("page", format!("<html><body><p>{page}</p></body></html>")),
        ("traceback", format!("Traceback (most recent call last):\n{frames}openai.BadRequestError: {text}")),
        ("frames", format!("AI_APICallError: {text}\n    at fn (/app/index.js:20:11)\n    at run (file:///x.js:3:2)")),
        ("attempts", format!("Attempt 1 failed: 429 rate limit exceeded, retrying. Last error: {text}")),
        ("end of a log", format!("{}Error: {text}", "x = 1\n".repeat(3_000))),
    ]
}

#[test]
fn wrappers_change_nothing() {
    for wording in wordings() {
        let expected = what(kind_of_text(&wording.text));
        for (wrapper, text) in wrapped(&wording.text) {
            assert_eq!(what(kind_of_text(&text)), expected, "{wrapper}: {}", wording.text);
        }
    }
}

/// Prints the figures of the reading, of the text alone, and of the rival; returns the first and the last.
fn compare<'a>(name: &str, wordings: impl Iterator<Item = &'a Wording>) -> (Figures, Figures) {
    let mut figures: BTreeMap<&str, Figures> = BTreeMap::new();
    for wording in wordings {
        let error = ProviderError {
            status: wording.status,
            code: wording.code.as_deref().unwrap_or(""),
            message: &wording.text,
        };
        let answers = [
            ("read", what(kind(&error))),
            ("text", what(kind_of_text(&wording.text))),
            ("rival", by_phrases(&wording.text)),
        ];
        for (way, said) in answers {
            figures.entry(way).or_default().add(wording.kind, said);
            if way == "read" && said != wording.kind {
                println!("{name}: {:?} was read as {said:?}: {}", wording.kind, wording.text);
            }
        }
    }
    for (way, of) in &figures {
        println!(
            "{name}, {way}: overflow recall {:.1}, precision {:.1}; media recall {:.1}",
            of.recall(),
            of.precision(),
            of.media()
        );
    }
    (figures["read"], figures["rival"])
}

fn check(name: &str, (ours, rival): (Figures, Figures)) {
    assert!(ours.recall() >= 90.0 && ours.precision() >= 95.0 && ours.media() >= 90.0, "{name}: {ours:?}");
    assert!(
        ours.recall() >= rival.recall() && ours.precision() >= rival.precision() && ours.media() >= rival.media(),
        "{name}: {ours:?} {rival:?}"
    );
}

#[test]
fn wordings_are_read_better_than_by_phrases() {
    let wordings = wordings();
    check("known", compare("known", wordings.iter().filter(|wording| !wording.held_back)));
    check("held back", compare("held back", wordings.iter().filter(|wording| wording.held_back)));
}

#[test]
fn refusals_of_public_reports_are_read_better_than_by_phrases() {
    let Some(refusals) = public() else { return };
    // Three of the look-alikes are refusals of embeddings, whose words are those of a refused view.
    let (ours, rival) = compare("public", refusals.iter());
    assert!(ours.recall() >= 95.0 && ours.precision() >= 94.0 && ours.media() >= 90.0, "{ours:?}");
    assert!(ours.recall() > rival.recall() && ours.precision() > rival.precision() && ours.media() > rival.media());
}

//! The check that a model's answer can replace the history that it summarizes.
//!
//! A summary replaces the messages that it covers, so an answer that only looks like a summary would lose them. An
//! answer must have the requested sections, or enough text for what it covers. It must not be a short refusal, by the
//! model or by a filter before it.

use super::chunks::estimated_tokens;
use super::scope::{Scope, sections};
use super::transcript::{Detail, entries};
use crate::model::compaction::{Failure, FailureReason};
use crate::model::view::SourceMessage;
use crate::policy::{Summary, SummaryFormat};
use regex::Regex;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Minimum share of the requested sections, in percent, for an answer to be a summary. Models leave out sections for
/// which they have no content, and translate headings.
pub const SECTIONS_PERCENT: usize = 50;

/// Covered tokens for each token that a summary without the sections must have, up to [`SUBSTANCE_TOKENS_MAX`].
pub const COVERED_PER_TOKEN: i64 = 50;

/// Upper limit of that minimum, in tokens: about three sentences.
pub const SUBSTANCE_TOKENS_MAX: i64 = 100;

/// Maximum length of a refusal, in tokens: a longer one has content, and counts as an answer.
const REFUSAL_TOKENS_MAX: i64 = 400;

/// Maximum length of a filter's note, in tokens.
const FILTER_TOKENS_MAX: i64 = 120;

/// Maximum length of a statement that there is no history, in tokens.
const NO_HISTORY_TOKENS_MAX: i64 = 60;

/// Requirements for an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerRequirements<'a> {
    /// The requested form.
    pub rules: &'a Summary,
    /// The requested part of the history.
    pub scope: Scope,
    /// Size of the summary's input, in tokens by [`estimated_tokens`].
    pub covered_tokens: i64,
    /// Approximate maximum number of words; 0 for no limit.
    pub words: i64,
}

impl<'a> AnswerRequirements<'a> {
    /// The requirements for a summary of this history.
    pub fn of_history(rules: &'a Summary, messages: &[&SourceMessage], previous: Option<&str>, words: i64) -> Self {
        let history = entries(&rules.transcript, Detail::full(&rules.transcript), messages);
        let history: i64 = history.iter().map(|entry| estimated_tokens(entry)).sum();
        let covered_tokens = history.saturating_add(previous.map_or(0, estimated_tokens));
        Self { rules, scope: Scope::History, covered_tokens, words }
    }

    /// Minimum number of tokens of an answer without the sections.
    pub fn least_tokens(&self) -> i64 {
        let least = (self.covered_tokens / COVERED_PER_TOKEN).clamp(1, SUBSTANCE_TOKENS_MAX);
        if self.words > 0 { least.min(self.words) } else { least }
    }

    /// Returns an error if a text cannot be the summary: `SUMMARY_DECLINED` or `SUMMARY_WITHOUT_SUBSTANCE`.
    pub fn check(&self, text: &str) -> Result<(), Failure> {
        let parts = self.parts(text);
        // The whole answer may be formatted as a heading.
        if is_refusal(&parts.body) || is_refusal(text) {
            return Err(failure(
                FailureReason::SummaryDeclined,
                format!("the model declined to write it: {}", start(text)),
            ));
        }
        if TEMPLATE.is_match(text) {
            let message = format!("the answer begins with the end of a turn: {}", start(text));
            return Err(failure(FailureReason::SummaryWithoutSubstance, message));
        }
        let has_words = parts.body.chars().any(char::is_alphanumeric);
        if has_words && parts.sections * 100 >= parts.asked * SECTIONS_PERCENT && parts.asked > 0 {
            return Ok(());
        }
        let (tokens, least) = (estimated_tokens(text.trim()), self.least_tokens());
        if has_words && tokens >= least {
            return Ok(());
        }
        let message = format!(
            "the summary has {} of {} sections and {tokens} tokens, for {} that it covers: {}",
            parts.sections,
            parts.asked,
            self.covered_tokens,
            start(text)
        );
        Err(failure(FailureReason::SummaryWithoutSubstance, message))
    }

    /// Splits an answer into sections and text.
    fn parts(&self, text: &str) -> Parts {
        let asked: Vec<String> = match self.rules.format {
            SummaryFormat::Prose if self.scope == Scope::History => Vec::new(),
            SummaryFormat::Prose | SummaryFormat::Headings | SummaryFormat::Elements { .. } => {
                let sections = sections(self.rules, self.scope);
                sections.iter().map(|section| bare(&section.heading)).collect()
            }
        };
        // An element may be on one line with its content.
        let (text, root) = match &self.rules.format {
            SummaryFormat::Elements { root } => (TAG.replace_all(text, "\n$0\n"), root.to_lowercase()),
            SummaryFormat::Headings | SummaryFormat::Prose => (Cow::Borrowed(text), String::new()),
        };
        let mut found = BTreeSet::new();
        let mut body = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words = bare(line);
            let named = asked.iter().find(|heading| {
                words
                    .strip_prefix(heading.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '：']))
            });
            let is_heading = line.starts_with('#') || is_emphasized(line) || is_tag(line);
            if is_heading || named.is_some() {
                found.insert(named.cloned().unwrap_or_else(|| words.clone()));
            }
            let says = match named {
                // `Goal: the words` has both on one line.
                Some(heading) => {
                    words.strip_prefix(heading.as_str()).unwrap_or_default().trim_start_matches([':', '：'])
                }
                None if is_heading => "",
                None => line,
            };
            if !is_nothing(says, &self.rules.filler) {
                body.push(says.trim().to_owned());
            }
        }
        found.retain(|name| !name.is_empty() && *name != root);
        Parts { asked: asked.len(), sections: found.len().min(asked.len()), body: body.join("\n") }
    }
}

/// The sections and the text of an answer.
struct Parts {
    /// Number of requested sections.
    asked: usize,
    /// Number of sections found, by their names or, in another language, by their headings.
    sections: usize,
    /// The text in the sections, without fillers.
    body: String,
}

fn failure(reason: FailureReason, message: String) -> Failure {
    Failure::new(reason, message)
}

/// The beginning of a text, on one line.
fn start(text: &str) -> String {
    const SHOWN: usize = 120;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The text of a heading, an element's tag or a list item without its markup, in lower case.
fn bare(line: &str) -> String {
    let marks = |letter: char| letter.is_whitespace() || "#*_-<>/.)".contains(letter);
    let words = line.trim_start_matches(|letter: char| marks(letter) || letter.is_ascii_digit());
    words.trim_end_matches(|letter: char| marks(letter) || letter == ':' || letter == '：').to_lowercase()
}

fn is_emphasized(line: &str) -> bool {
    let line = line.trim_end_matches([':', '：']);
    ["**", "__"].iter().any(|mark| line.len() > 4 && line.starts_with(mark) && line.ends_with(mark))
}

fn is_tag(line: &str) -> bool {
    line.starts_with('<') && line.ends_with('>') && !line.contains(char::is_whitespace)
}

/// True if the line is empty or states that there is no content.
fn is_nothing(line: &str, filler: &str) -> bool {
    let words = bare(line);
    let words = words.trim_matches(['(', ')', '[', ']', '`']);
    words.is_empty() || words == bare(filler).trim_matches(['(', ')', '[', ']', '`']) || NOTHING.contains(&words)
}

/// Statements that there is no content, in lower case.
const NOTHING: [&str; 8] = ["none", "n/a", "nothing", "none yet", "无", "keine", "aucun", "なし"];

/// True if the text only refuses to write a summary.
fn is_refusal(body: &str) -> bool {
    let tokens = estimated_tokens(body);
    if tokens > REFUSAL_TOKENS_MAX {
        return false;
    }
    // Quotation marks and emphasis around the text are ignored.
    let words = body.trim_start_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    let words = words.replace(['’', 'ʼ'], "'");
    REFUSALS.iter().any(|refusal| refusal.is_match(&words))
        || (tokens <= NO_HISTORY_TOKENS_MAX && NO_HISTORY.is_match(&words))
        || (tokens <= FILTER_TOKENS_MAX && FILTERS.iter().any(|filter| filter.is_match(&words)))
}

/// The beginnings of refusals, in lower case. Each states that the writer will not or cannot do something, and names
/// it. A text that only begins with regret, or only reports a failure, is no refusal.
static REFUSALS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let sorry = "(?:(?:(?:oh|well|hi|hello)[,.!]? )?(?:i'?m (?:\\w+ )?sorry|i am (?:\\w+ )?sorry|sorry|(?:my )?apologies\
                 |i apologi[sz]e|unfortunately|regrettably|thank you for [^.!]*[.!])[,.!:;]?(?: but| that)?\\W{0,3}.{0,60}?)?";
    let unable = "(?:i|we) (?:(?:really |simply |just )?(?:cannot|can ?not|can't|won't|will not)|(?:must|have to|need to) \
                  (?:respectfully |politely )?(?:decline|refuse)|(?:am|are) (?:unable|not (?:able|allowed|permitted|comfortable)))|\
                  i'm (?:unable|not (?:able|allowed|permitted|comfortable)|going to have to decline)|i (?:respectfully )?decline";
    let what = ".{0,60}?\\b(?:help|assist|comply|fulfil|provid|continu|engag|discuss|process|support|generat|creat|produc\
                |writ|summar|participat|complet|answer|respond|shar|do (?:that|this|so)|with (?:that|this)|that request|this request)";
    let patterns = [
        format!("^{sorry}(?:{unable}){what}"),
        "^as an? (?:ai|artificial|(?:large )?language)\\b.{0,120}?(?:cannot|can't|can not|unable|not able|must|won't|don't)"
            .to_owned(),
        "^(?:(?:i'm sorry|sorry|sure|of course|it (?:looks|seems|appears)|there (?:is|are|was)|i (?:don't|do not) \
         (?:see|have)|no (?:conversation|record))\\b.{0,200}?)?(?:please|could you|can you) (?:please )?\
         (?:provide|share|paste|send|give).{0,80}?(?:conversation|transcript|record|text|history|content)"
            .to_owned(),
        "^(?:es )?tut mir (?:\\w+ )?leid.{0,80}?(?:kann|darf|nicht|leider)".to_owned(),
        "^(?:leider )?(?:kann|darf) ich .{0,60}?nicht|^ich kann (?:dir |ihnen |euch )?(?:dabei|hierbei|damit|diese\\w*).{0,40}?nicht"
            .to_owned(),
        "^(?:(?:je suis (?:\\w+ )?)?désolée?.{0,40}?|malheureusement,? )?je ne (?:peux|suis|pourrai)(?: malheureusement)? pas"
            .to_owned(),
        "^(?:(?:lo siento|lamentablemente|disculpa|perdón).{0,40}?)?no (?:puedo|podemos) (?:ayudar|asist|proporcion|cumpl|\
         continuar|responder|generar|hacer|resum)"
            .to_owned(),
        "^(?:(?:desculpe?|sinto muito|lamento|infelizmente).{0,40}?)?não (?:posso|consigo) (?:ajud|fornec|cumpr|continuar|\
         responder|gerar|fazer|resum)"
            .to_owned(),
        "^(?:(?:mi dispiace|spiacente|purtroppo).{0,40}?)?non posso (?:aiut|assist|forn|continuare|rispondere|generare|fare|\
         riassum)"
            .to_owned(),
        "^(?:(?:извините|простите|к сожалению).{0,40}?)?я не (?:могу|смогу) (?:помочь|выполнить|предоставить|ответить|\
         продолж|обсуждать|сделать)"
            .to_owned(),
        "^(?:很|非常|十分|实在)?(?:抱歉|对不起|對不起|遗憾|不好意思).{0,30}?(?:无法|不能|無法|没办法|没有办法|不可以)".to_owned(),
        "^(?:作为.{0,20}(?:模型|助手|人工智能|ai).{0,10})?我(?:无法|不能|無法)(?:提供|协助|帮助|回答|满足|继续|完成|生成|幫|協)"
            .to_owned(),
        "^(?:大変|誠に)?(?:申し訳|すみません|恐れ入りますが|ごめんなさい).{0,80}?(?:できません|できかね|お答え|お手伝い)".to_owned(),
        "^(?:정말 )?죄송.{0,80}?(?:없습니다|어렵습니다|못합니다|못해)".to_owned(),
    ];
    compiled(&patterns)
});

/// The beginning of a statement that there is nothing to summarize, in lower case: what is summarized is not empty.
static NO_HISTORY: LazyLock<Regex> = LazyLock::new(|| {
    let what = "(?:conversation|history|messages?|context|dialogue|transcript|chat|discussion)";
    let of = "(?:prior|previous|earlier|past|preceding|existing|conversation|chat|message)";
    let pattern = format!(
        "^(?:(?:there (?:is|was|are|has been|have been)|this (?:conversation )?has|i (?:see|have|find)) )?(?:currently )?no \
         (?:{of} )+{what}\\b|^(?:there is nothing|nothing) to summari[sz]e|\
         ^the (?:{of} )*{what} (?:is|was|appears to be|seems to be) empty"
    );
    Regex::new(&pattern).expect("a constant pattern")
});

/// The begin or the end of a turn or of a text in the templates of chats, at the beginning of an answer: the model went on
/// with the chat in place of a summary.
static TEMPLATE: LazyLock<Regex> = LazyLock::new(|| {
    let ends = [
        r"<\|(?:im_start|im_end|eot_id|eom_id|end_of_text|begin_of_text|endoftext|start_header_id|end|user|assistant)\|>",
        r"<(?:start|end)_of_turn>|<｜[^｜]{1,30}｜>|</?s>|\[/?INST\]",
    ];
    Regex::new(&format!(r"^\s*(?:{})", ends.join("|"))).expect("a constant pattern")
});

/// The beginnings of filters' notes, in lower case.
static FILTERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let what = "(?:request|response|prompt|content|output|input|message|conversation|query|completion|generation|reply|\
                answer)s?";
    let why =
        "(?:polic|moderat|safety|guideline|filter|prohibit|inappropriate|unsafe|harmful|terms of|copyright|recitation)";
    let stopped = "(?:block|filter|flag|violat|reject|declin|moderat|prohibit|withheld|remov|stopp|suppress)";
    compiled(&[
        format!(
            "^(?:error\\W+)?(?:(?:the|this|that|your|our|my|all|generated|model) ){{0,2}}{what}\\b.{{0,60}}?{stopped}.{{0,160}}?{why}"
        ),
        format!("^(?:{stopped}\\w*|prohibited) {what}?.{{0,60}}?{why}"),
    ])
});

fn compiled(patterns: &[String]) -> Vec<Regex> {
    patterns.iter().map(|pattern| Regex::new(&format!("(?s){pattern}")).expect("a constant pattern")).collect()
}

static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"</?[\w-]+>").expect("a constant pattern"));

#[cfg(test)]
mod tests;

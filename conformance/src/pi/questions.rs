//! Questions about whole conversations: their transcript for a summarizer, their context usage, a provider's refusal,
//! the input of a branch summary, and the entry of each message in a context.

use super::scenario::{lines, whole_lines};
use super::scenarios::WHOLE;
use super::session::{self, Session, message_tokens};
use super::{OPENING, PAIRED, Pi, Question};
use crate::report::{Class, Reason};
use crate::session::without_margins;
use longhand::fold::{Fold, FoldInput};
use longhand::model::compaction::Level;
use longhand::model::message::{FinishReason, Role};
use longhand::model::part::PartBody;
use longhand::model::usage::ModelWindow;
use longhand::model::view::{SourceMessage, ViewKind, ViewMessage};
use longhand::policy::branch::{self, BranchRules};
use longhand::policy::files::FileOperations;
use longhand::policy::prompt::{Detail, GAP, entries};
use longhand::policy::{Policy, plan, provider_errors};
use longhand::presets;
use rand::Rng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) const STOPPED: Class = Class {
    name: "usage of a stopped reply counts",
    reason: Reason::Named("Usage that a stopped or failed reply reports counts"),
    explanation: "pi passes over what a stopped or failed reply reports; we take the newest report there is.",
    test: ("conformance/src/pi/questions.rs", "only_the_newest_report_explains_another_usage"),
};

pub(super) const UNREPORTED: Class = Class {
    name: "no usage is no usage of nothing",
    reason: Reason::Named("pi 0.73 takes it for one that read nothing"),
    explanation: "pi 0.73 takes a reply that reports no usage for one that read nothing; we pass over it.",
    test: ("conformance/src/pi/questions.rs", "only_the_newest_report_explains_another_usage"),
};

pub(super) const REFUSED: Class = Class {
    name: "refusals that other agents know",
    reason: Reason::Named("recognised by the sentences of other agents and of later versions too"),
    explanation: "pi does not know some sentences by which OpenCode, or a later pi, knows that a request was too long; we \
                  know them all.",
    test: ("conformance/src/pi/questions.rs", "sentences_are_classified"),
};

/// Providers' error messages about requests that are too long, in the list of every version of pi.
const TOO_LONG: [&str; 19] = [
    "prompt is too long: 213462 tokens > 200000 maximum",
    "413 {\"error\":{\"type\":\"request_too_large\",\"message\":\"Request exceeds the maximum size\"}}",
    "input is too long for requested model",
    "Your input exceeds the context window of this model.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion",
    "This endpoint's maximum context length is 200000 tokens. However, you requested about 250000 tokens",
    "prompt token count of 140000 exceeds the limit of 128000",
    "the request exceeds the available context size, try increasing it",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144",
    "Prompt contains 99999 tokens, too large for model with 65536 maximum context length",
    "model_context_window_exceeded",
    "prompt too long; exceeded max context length by 4 tokens",
    "context_length_exceeded",
    "too many tokens in the prompt",
    "token limit exceeded",
];

/// Providers' messages about other errors.
const OTHER_FAILURES: [&str; 8] = [
    "Throttling error: Too many tokens, please wait before trying again.",
    "Service unavailable: too many tokens in flight",
    "429 rate limit reached: token limit exceeded for this minute",
    "Too many requests, try again later (maximum context length is 5 tokens)",
    "529 overloaded_error",
    "terminated",
    "400 invalid_request_error: tool_use ids were found without tool_result blocks",
    "the context of this discussion is long",
];

/// Messages that OpenCode or a later version recognizes as such a refusal, and not every version of pi.
const KNOWN_ELSEWHERE: [&str; 6] = [
    "Prompt exceeds max length",
    "This request exceeds the model's maximum context length of 131072 tokens",
    "range of input length should be [1, 30720]",
    "request entity too large",
    "tokens in request more than max tokens allowed",
    "this model's context length is only 4096 tokens",
];

/// True if a provider's message means that a request was too long or too large.
fn is_too_long(text: &str) -> bool {
    use provider_errors::Kind;
    matches!(provider_errors::kind_of_text(text), Some(Kind::TooLong | Kind::TooLarge))
}

impl Pi {
    /// Asks for the transcript of a conversation for a summarizer.
    pub(super) fn transcript<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let messages: Vec<&SourceMessage> = session.messages().iter().collect();
        Question {
            read: |_, value| value.as_str().map_or(Value::Null, lines),
            explain: |_, ours, theirs| (*ours == whole_lines(theirs)).then_some(&WHOLE),
            ..Question::exact(
                session,
                "serializeConversation",
                json!({ "messages": session.raw_messages() }),
                transcript(policy, &messages),
            )
        }
    }

    /// Asks for the context usage.
    pub(super) fn context_usage<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let (messages, window) = (session.messages(), &ModelWindow::default());
        let fold = Fold::new(FoldInput { policy, messages, changed_revision: 0, window }, None);
        Question {
            read: |_, value| value["tokens"].clone(),
            explain: |session, ours, theirs| explain_usage(session, ours, theirs),
            ..Question::exact(
                session,
                "estimateContextTokens",
                json!({ "messages": session.raw_messages() }),
                json!(fold.context_tokens(window)),
            )
        }
    }

    /// Asks if a reply shows that its request was too long.
    pub(super) fn refusal<'a>(_policy: &Policy, session: &'a Session) -> Question<'a> {
        let mut dice = session.dice("refusal");
        let texts: &[&str] = match dice.random_range(0..10) {
            0..5 => &TOO_LONG,
            5..9 => &OTHER_FAILURES,
            _ => &KNOWN_ELSEWHERE,
        };
        let text = texts.choose(&mut dice).copied().unwrap_or_default();
        let window: i64 = dice.random_range(1_000..200_000);
        let near = [window, window + 1, window - 1, window * 99 / 100, window * 99 / 100 + 1, window / 2];
        let read = near[dice.random_range(0..near.len())];
        let cached = dice.random_range(0..=read);
        let usage = longhand::model::usage::Usage {
            input: read - cached,
            cache_read: cached,
            output: i64::from(dice.random_bool(0.5)),
            ..Default::default()
        };
        let reasons = [
            (FinishReason::Error, "error"),
            (FinishReason::Error, "error"),
            (FinishReason::Stop, "stop"),
            (FinishReason::Length, "length"),
            (FinishReason::ToolCalls, "toolUse"),
            (FinishReason::Aborted, "aborted"),
        ];
        let (reason, name) = reasons[dice.random_range(0..reasons.len())];
        let ours = match reason {
            FinishReason::Error => is_too_long(text),
            reason => provider_errors::is_silent(reason, &usage, window),
        };
        let message = json!({
            "role": "assistant", "content": [], "stopReason": name, "provider": "p", "model": "m",
            "errorMessage": text, "usage": session::usage(Some(&usage)),
        });
        let input = json!({ "message": message, "contextWindow": window });
        Question {
            input: input.clone(),
            explain: |session, ours, theirs| {
                let question = Self::refusal(&presets::policy("pi@1.5"), session);
                let text = question.input["message"]["errorMessage"].as_str()?;
                let is_named = KNOWN_ELSEWHERE.contains(&text) && question.input["message"]["stopReason"] == "error";
                (is_named && *ours == json!(true) && *theirs == json!(false)).then_some(&REFUSED)
            },
            ..Question::exact(session, "isContextOverflow", input, json!(ours))
        }
    }

    /// Asks for the messages in a branch summary, and the files that it lists.
    pub(super) fn branch_summary<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let (messages, entries) = session.branch();
        let context = session.dice("branch summary").random_range(16_500..60_000);
        let window = ModelWindow { context, output: Some(1), ..ModelWindow::default() };
        let rules = BranchRules::default();
        let mut inherited = FileOperations::default();
        if session.branch_inherits() {
            let (read, modified) = session.earlier_files();
            inherited.inherit(read, modified);
        }
        let plan = rules.plan(policy, rules.budget(&window), &messages, inherited);
        let covered: Vec<&SourceMessage> = plan.covered.iter().map(|&index| &messages[index]).collect();
        let (read, modified) = plan.files.lists();
        let summary = branch::text_of("BRANCH", &plan.files);
        let tags = longhand::policy::files::parse_tags(&summary);
        let ours = if covered.is_empty() {
            json!("nothing")
        } else {
            json!({ "transcript": transcript(policy, &covered), "read": read, "modified": modified, "tags": [tags.0, tags.1] })
        };
        let input = json!({
            "entries": entries, "model": { "contextWindow": context }, "reserveTokens": 16_384, "replies": ["BRANCH"],
        });
        Question {
            read: |_, value| read_branch(&value),
            explain: |_, ours, theirs| {
                let mut whole = theirs.clone();
                whole["transcript"] = whole_lines(&theirs["transcript"]);
                (*ours == whole).then_some(&WHOLE)
            },
            ..Question::exact(session, "generateBranchSummary", input, ours)
        }
    }

    /// Asks for the entry of each message in a context.
    pub(super) fn projection<'a>(policy: &Policy, session: &'a Session) -> Question<'a> {
        let view = plan::view(policy, session.sources());
        let revision =
            |id| session.sources().iter().find(|source| source.message.id == id).map(|it| it.message.revision);
        // A message that we add has no entry.
        let is_added = |message: &&ViewMessage| matches!(message.kind, ViewKind::Paired | ViewKind::Filler);
        let shown = view.messages.iter().filter(|message| !is_added(message));
        let ours = shown.map(|message| match message.source.and_then(revision) {
            Some(revision) if revision > 0 => json!(revision),
            _ => json!("summary"),
        });
        let mut ours: Vec<Value> = ours.collect();
        // A message that pairing splits is one entry.
        ours.dedup();
        Question {
            read: read_projection,
            ..Question::exact(session, "buildSessionProjection", json!({ "entries": session.entries() }), json!(ours))
        }
    }
}

/// The transcript of messages for a summarizer, as lines.
fn transcript(policy: &Policy, messages: &[&SourceMessage]) -> Value {
    let rules = policy.summarize(Level::Auto).map(|rule| &rule.summary.transcript);
    let spoken: Vec<&SourceMessage> =
        messages.iter().copied().filter(|source| source.message.role != Role::System).collect();
    rules.map_or(Value::Null, |rules| lines(&without_margins(&entries(rules, Detail::full(rules), &spoken).join(GAP))))
}

/// One side's rules of context usage.
struct UsageRules {
    /// True if the usage of a stopped or failed reply counts.
    trusts_all: bool,
    /// True if a reply without usage counts as zero usage.
    trusts_nothing: bool,
    /// True if a call without a result gets one, and a view that would begin with a reply a line of the user.
    makes_up: bool,
}

impl UsageRules {
    /// The newest reported usage, and the estimate of the messages after it.
    fn tokens(&self, session: &Session) -> i64 {
        let messages = session.messages();
        let reported = |source: &SourceMessage| {
            let finish = &source.message.finish;
            let is_bad = matches!(finish.reason, Some(FinishReason::Error | FinishReason::Aborted));
            if source.message.role != Role::Assistant || is_bad && !self.trusts_all {
                return None;
            }
            let tokens = finish.usage.as_ref().map_or(0, |usage| {
                let sum = usage.input + usage.output + usage.cache_read + usage.cache_write;
                usage.total.filter(|total| *total != 0).unwrap_or(sum)
            });
            Some(tokens).filter(|tokens| *tokens > 0 || self.trusts_nothing)
        };
        let newest = messages.iter().rposition(|source| reported(source).is_some());
        let behind = &messages[newest.map_or(0, |at| at + 1)..];
        let answered: HashSet<&str> = messages.iter().flat_map(|source| ids(source, false)).collect();
        let open = messages.iter().flat_map(|source| ids(source, true)).filter(|id| !answered.contains(id)).count();
        // After a report, only stored messages count.
        let adds = self.makes_up && newest.is_none();
        let opening = if begins_with_a_reply(session) { OPENING_TOKENS } else { 0 };
        let made_up = if adds { open as i64 * INTERRUPTED_TOKENS + opening } else { 0 };
        let estimate: i64 = behind.iter().map(|it| message_tokens(&it.message, session.is_early())).sum();
        newest.and_then(|at| reported(&messages[at])).unwrap_or(0) + estimate + made_up
    }
}

/// True if no message of the user comes before the first one that a view shows.
fn begins_with_a_reply(session: &Session) -> bool {
    let shown = |source: &&SourceMessage| {
        source.message.role != Role::System && message_tokens(&source.message, session.is_early()) > 0
    };
    session.messages().iter().find(shown).is_some_and(|source| source.message.role != Role::User)
}

/// The first rule that makes both context usages differ, after computing both anew.
fn explain_usage(session: &Session, ours: &Value, theirs: &Value) -> Option<&'static Class> {
    let early = session.is_early();
    let usage =
        |trusts_all, trusts_nothing, makes_up| UsageRules { trusts_all, trusts_nothing, makes_up }.tokens(session);
    if *ours != json!(usage(true, false, true)) || *theirs != json!(usage(false, early, false)) {
        return None;
    }
    Some(if usage(true, false, false) == usage(false, early, false) {
        if begins_with_a_reply(session) { &OPENING } else { &PAIRED }
    } else if usage(false, false, false) == usage(false, early, false) {
        &STOPPED
    } else {
        &UNREPORTED
    })
}

/// Tokens of the result added to a call without one: 43 characters.
const INTERRUPTED_TOKENS: i64 = 11;

/// Tokens of the line of the user before a reply: 33 characters.
const OPENING_TOKENS: i64 = 9;

/// The ids of a message's calls, or of its results.
fn ids(source: &SourceMessage, calls: bool) -> impl Iterator<Item = &str> {
    source.message.parts.iter().filter_map(move |part| match &*part.body {
        PartBody::ToolCall(call) if calls => Some(call.call_id.as_str()),
        PartBody::ToolResult(result) if !calls => Some(result.call_id.as_str()),
        _ => None,
    })
}

/// The transcript and the lists of files in the request to pi's model and in its answer. The text around an earlier
/// summary is pi's own.
fn read_branch(value: &Value) -> Value {
    let result = &value["result"];
    let Some(prompt) = value["calls"][0]["prompt"].as_str() else {
        return if result["summary"] == "No content to summarize" { json!("nothing") } else { value.clone() };
    };
    let text = prompt.strip_prefix("<conversation>\n").and_then(|rest| rest.rsplit_once("\n</conversation>\n\n"));
    let mut text = text.map_or_else(String::new, |(text, _)| text.to_owned());
    for (begin, end) in [
        (
            "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
            "\n</summary>",
        ),
        ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>"),
    ] {
        while let Some(at) = text.find(begin) {
            let Some(length) = text[at + begin.len()..].find(end) else { break };
            let inside = text[at + begin.len()..at + begin.len() + length].to_owned();
            text.replace_range(at..at + begin.len() + length + end.len(), &inside);
        }
    }
    let (read, modified) = longhand::policy::files::parse_tags(result["summary"].as_str().unwrap_or_default());
    json!({
        "transcript": lines(&text), "read": result["readFiles"], "modified": result["modifiedFiles"], "tags": [read, modified],
    })
}

/// The entries with non-empty messages, by revision. pi keeps instructions apart from the kept messages.
fn read_projection(session: &Session, value: Value) -> Value {
    let has_content = |message: &Value| match &message["content"] {
        Value::String(text) => !text.is_empty(),
        Value::Array(blocks) => blocks.iter().any(|block| {
            let words = block["text"].as_str().or_else(|| block["thinking"].as_str());
            message["role"] == "toolResult" || words.is_none_or(|words| !words.is_empty())
        }),
        _ => true,
    };
    let entries = value["entries"].as_array().into_iter().flatten();
    let mut shown: Vec<Value> = Vec::new();
    for entry in entries.filter(|entry| entry["messages"].as_array().is_some_and(|list| list.iter().any(has_content))) {
        let id = entry["id"].as_str().unwrap_or_default();
        match id.strip_prefix('m').and_then(|revision| revision.parse::<i64>().ok()) {
            Some(revision) => shown.push(json!(revision)),
            // The instructions precede the summary there, and belong to the compaction.
            None => {
                let retained = session.retained_instructions();
                shown.extend(retained.into_iter().map(Value::from));
                shown.push(json!("summary"));
            }
        }
    }
    json!(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Conversation;
    use longhand::presets;

    #[test]
    fn only_the_newest_report_explains_another_usage() {
        let profile = super::super::V1_5.profile.clone();
        let mut explained = 0;
        for index in 0..40 {
            let session = Session::draw(Conversation::generate(1, index, &profile), &presets::policy("pi@1.5"), true);
            let ours = Pi::context_usage(&presets::policy("pi@1.5"), &session).ours;
            assert_eq!(explain_usage(&session, &json!(-1), &ours), None);
            let others = (0..200).map(|theirs| json!(theirs));
            explained += others.filter(|theirs| explain_usage(&session, &ours, theirs).is_some()).count();
        }
        assert!(explained <= 40, "at most one answer of the other side is explained");
    }

    #[test]
    fn sentences_are_classified() {
        assert!(KNOWN_ELSEWHERE.iter().all(|text| is_too_long(text)));
        assert!(TOO_LONG.iter().all(|text| is_too_long(text)));
        assert!(!OTHER_FAILURES.iter().any(|text| is_too_long(text)));
    }
}

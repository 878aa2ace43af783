//! A reply as it comes in, and the checks that make it a summary.

use super::fault::{Class, Fault};
use crate::model::compaction::FailureReason;
use crate::model::usage::Usage;
use crate::policy::Section;
use crate::policy::prompt::{self, AnswerRequirements};
use crate::policy::provider_errors::{self, Kind};

/// Reason why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The reply is complete.
    Done,
    /// The output limit was reached.
    Length,
    /// The model called tools.
    ToolCalls,
    /// The model's window was full before the reply was complete.
    WindowFull,
    /// The model or a filter refused to go on; with the provider's word for it.
    Declined(String),
}

/// A reply, as far as it has come.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reply {
    /// The text so far.
    pub(super) text: String,
    /// Reason for its end; none while it goes on, or if the connection was cut.
    pub(super) stop: Option<Stop>,
    /// True if it contains a tool call.
    pub(super) calls_tools: bool,
    /// Reported usage.
    pub(super) usage: Option<Usage>,
    /// The model as the provider names it; empty until it is known.
    pub(super) model: String,
}

impl Reply {
    /// Adds a text, and passes it to the callback.
    pub(super) fn add_text(&mut self, words: &str, on_text: &mut dyn FnMut(&str)) {
        if !words.is_empty() {
            self.text.push_str(words);
            on_text(words);
        }
    }

    /// The usage so far, to be updated.
    pub(super) fn usage_mut(&mut self) -> &mut Usage {
        self.usage.get_or_insert_with(Usage::default)
    }

    /// The summary in a reply that has ended, without the wrapping that the policy asked for; refused if the text
    /// cannot be a summary.
    pub(super) fn summary(&self, expected: &AnswerRequirements<'_>) -> Result<String, Fault> {
        let refused = |message: &str| Err(Fault::new(Class::Refused, message));
        let text = bare(&self.text);
        match &self.stop {
            None => return Err(Fault::new(Class::Transient, "the connection was cut before the reply ended")),
            Some(Stop::ToolCalls) => return refused("the model called a tool instead of writing a summary"),
            Some(Stop::Length) => return refused("the summary was cut off by the output limit"),
            Some(Stop::WindowFull) => {
                return Err(Fault::new(Class::Overflow, "the model's window was full before the summary was done"));
            }
            Some(Stop::Declined(why)) => return refused(&format!("the model declined: {why}")),
            Some(Stop::Done) if self.calls_tools => {
                return refused("the model called a tool instead of writing a summary");
            }
            Some(Stop::Done) => {}
        }
        if text.is_empty() {
            return Err(Fault::refused(FailureReason::SummaryEmpty.as_str(), "the summary is empty"));
        }
        if let Some(class) = error_text(text, prompt::sections(expected.rules, expected.scope)) {
            let message = super::fault::shortened(&format!("the reply is an error message: {text}"));
            return Err(Fault::new(class, message));
        }
        let summary = prompt::answer(expected.rules, expected.scope, text);
        if summary.is_empty() {
            return Err(Fault::refused(
                FailureReason::SummaryEmpty.as_str(),
                "the reply holds thoughts and no summary",
            ));
        }
        match expected.check(&summary) {
            Ok(()) => Ok(summary),
            Err(failure) => Err(Fault::refused(failure.reason.as_str(), &failure.message)),
        }
    }
}

/// The text without the reasoning that some models write before it, and without a code fence around all of it.
fn bare(text: &str) -> &str {
    let mut text = text.trim();
    if let Some(rest) = text.strip_prefix("<think>") {
        // Reasoning that never ended has no answer after it.
        text = rest.split_once("</think>").map_or("", |(_, answer)| answer.trim());
    }
    let Some(inner) = text.strip_prefix("```") else { return text };
    let Some((language, inner)) = inner.split_once('\n') else { return text };
    let is_fence = ["", "markdown", "md", "text"].contains(&language.trim());
    match inner.trim_end().strip_suffix("```") {
        Some(inner) if is_fence && !inner.contains("```") => inner.trim(),
        Some(_) | None => text,
    }
}

/// Maximum length of an error message, in characters.
const ERROR_TEXT_MAX: usize = 600;

/// Maximum length, in characters, of an error message without a known beginning; such a message also has no headings.
const ERROR_TEXT_SHORT: usize = 150;

/// Beginnings of error messages that gateways return in place of a model's text, besides those of providers.
const ERROR_BEGINNINGS: [&str; 10] = [
    "error:",
    "[error",
    "error code:",
    "api error",
    "an error occurred",
    "an error has occurred",
    "upstream error",
    "internal server error",
    "request failed",
    "<!doctype html",
];

/// The class of a provider's error message; none if the text is a summary. A text with one of the requested headings is
/// a summary, whatever errors it mentions; so is one that only mentions errors, unless it is too short to contain
/// anything else.
fn error_text(text: &str, sections: &[Section]) -> Option<Class> {
    if sections.iter().any(|section| text.contains(section.heading.trim())) {
        return None;
    }
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(text)
        && let Some(fault) = Fault::of_value(&value)
    {
        return Some(fault.class);
    }
    if text.chars().count() > ERROR_TEXT_MAX {
        return None;
    }
    let small = text.to_lowercase();
    let begins = ERROR_BEGINNINGS.iter().any(|beginning| small.starts_with(beginning))
        || provider_errors::begins_with_error(text);
    let is_short = text.chars().count() <= ERROR_TEXT_SHORT && !text.lines().any(|line| line.starts_with('#'));
    if !begins && !is_short {
        return None;
    }
    match provider_errors::kind_of_text(text) {
        Some(Kind::TooLong | Kind::TooLarge) => Some(Class::Overflow),
        Some(Kind::Rate | Kind::Busy) => Some(Class::Transient),
        Some(Kind::Media | Kind::Quota | Kind::Invalid) | None => begins.then_some(Class::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::compaction::Level;
    use crate::policy::Summary;
    use crate::policy::prompt::Scope;
    use crate::presets;

    fn rules() -> Summary {
        presets::policy("opencode@seed").summarize(Level::Auto).expect("a summary").summary.clone()
    }

    /// Returns the summary of a reply about a history of this many tokens.
    fn summary(reply: &Reply, covered_tokens: i64) -> Result<String, Fault> {
        reply.summary(&AnswerRequirements { rules: &rules(), scope: Scope::History, covered_tokens, words: 0 })
    }

    fn check(text: &str, stop: Option<Stop>, expected: Result<&str, Class>) {
        let reply = Reply { text: text.to_owned(), stop, ..Reply::default() };
        let found = summary(&reply, 0).map_err(|fault| fault.class);
        assert_eq!(found.as_deref().map_err(|class| *class), expected, "{text:?}");
    }

    #[test]
    fn a_reply_is_a_summary_or_it_is_refused() {
        check("## Goal\n- fix it\n", Some(Stop::Done), Ok("## Goal\n- fix it"));
        check("a summary without headings", Some(Stop::Done), Ok("a summary without headings"));
        check("", Some(Stop::Done), Err(Class::Refused));
        check(" \n ", Some(Stop::Done), Err(Class::Refused));
        check("## Goal", None, Err(Class::Transient));
        check("## Goal", Some(Stop::Length), Err(Class::Refused));
        check("## Goal", Some(Stop::ToolCalls), Err(Class::Refused));
        check("## Goal", Some(Stop::WindowFull), Err(Class::Overflow));
        check("## Goal", Some(Stop::Declined("SAFETY".to_owned())), Err(Class::Refused));
        let calls = Reply { calls_tools: true, text: "## Goal".to_owned(), stop: Some(Stop::Done), ..Reply::default() };
        assert_eq!(summary(&calls, 0).expect_err("refused").class, Class::Refused);
    }

    #[test]
    fn wrappers_are_taken_off() {
        check("<think>\nhm\n</think>\n\n## Goal\n- x", Some(Stop::Done), Ok("## Goal\n- x"));
        check("<think>for ever", Some(Stop::Done), Err(Class::Refused));
        check("```markdown\n## Goal\n- x\n```", Some(Stop::Done), Ok("## Goal\n- x"));
        check("```rust\nfn f() {}\n```", Some(Stop::Done), Ok("```rust\nfn f() {}\n```"));
        check("```\na\n```\nb\n```\nc\n```", Some(Stop::Done), Ok("```\na\n```\nb\n```\nc\n```"));
        check("```", Some(Stop::Done), Err(Class::Refused));
    }

    #[test]
    fn a_refused_reply_has_a_reason() {
        let reply_with = |text: &str| Reply { text: text.to_owned(), stop: Some(Stop::Done), ..Reply::default() };
        let declined = summary(&reply_with("I'm sorry, but I cannot help with that."), 4_000).expect_err("refused");
        assert_eq!((declined.class, declined.reason.as_str()), (Class::Refused, "SUMMARY_DECLINED"));
        assert!(
            declined.to_string().starts_with("SUMMARY_DECLINED: ") && declined.to_string().contains("I'm sorry"),
            "{declined}"
        );
        let thin = summary(&reply_with("Done, more or less."), 4_000).expect_err("refused");
        assert_eq!((thin.class, thin.reason.as_str()), (Class::Refused, "SUMMARY_WITHOUT_SUBSTANCE"));
    }

    #[test]
    fn an_error_message_is_no_summary() {
        let done = || Some(Stop::Done);
        check("Error: something broke", done(), Err(Class::Refused));
        check("Rate limit reached for requests", done(), Err(Class::Transient));
        check(
            "{\"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}",
            done(),
            Err(Class::Transient),
        );
        check("{\"error\": {\"message\": \"prompt is too long\"}}", done(), Err(Class::Overflow));
        check("This model's maximum context length is 8192 tokens.", done(), Err(Class::Overflow));
        check("<!DOCTYPE html><html>502</html>", done(), Err(Class::Refused));
        let text = "## Goal\n- find out why the service says \"Error: rate limit, prompt is too long\"";
        check(text, done(), Ok(text));
        let text = "The client now waits and asks again when the service answers that a rate limit is reached or that it \
                    is overloaded. What is left is a test of the case that the prompt is too long for it.";
        check(text, done(), Ok(text));
        let text = "# Work\nThe service was overloaded.";
        check(text, done(), Ok(text));
        let text = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the \
                    messages, 1000 in the completion). Please reduce the length of the messages or completion.";
        check(text, done(), Err(Class::Overflow));
        let long = format!("Error: they say. {}", "The work went on. ".repeat(60));
        check(&long, done(), Ok(long.trim()));
    }
}

//! Detection of a turn that a compaction interrupted, so that the model must be asked to continue.

use super::turns::only_brings_results;
use crate::model::layout::Placement;
use crate::model::message::{FinishReason, Message, MessageKind, Role};
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;

/// True if the model was at work and is not done: the last message has results that no reply has read, or is a reply
/// that waits for tools.
///
/// A finished turn must not be started again, and an unanswered request needs no continuation. An open message will be
/// continued without a request.
pub fn is_interrupted(sources: &[SourceMessage]) -> bool {
    let in_conversation = |source: &&SourceMessage| {
        !matches!(source.placement, Some(Placement::Marker | Placement::Summary | Placement::Pinned))
            && source.message.kind != MessageKind::Record
    };
    let Some(last) = sources.iter().rev().find(in_conversation).map(|source| &source.message) else { return false };
    if last.sealed_revision.is_none() {
        return false;
    }
    match last.role {
        Role::Tool => true,
        Role::User => only_brings_results(last),
        Role::System => false,
        Role::Assistant => match last.finish.reason {
            Some(FinishReason::ToolCalls) => true,
            // Many clients give no reason: then a reply with calls continues, and one without calls is final.
            None => calls(last),
            Some(
                FinishReason::Stop
                | FinishReason::Length
                | FinishReason::ContentFilter
                | FinishReason::Error
                | FinishReason::Aborted,
            ) => false,
        },
    }
}

/// True while a model is at work: it writes, waits for tools, or has results to read.
pub fn is_in_run(sources: &[SourceMessage]) -> bool {
    let writes = |source: &SourceMessage| source.message.sealed_revision.is_none() && source.message.role != Role::User;
    is_interrupted(sources) || sources.last().is_some_and(writes)
}

fn calls(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(*part.body, PartBody::ToolCall(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::dsl;

    fn check(text: &str, reason: Option<FinishReason>, expected: bool) {
        let mut messages = dsl::parse(text);
        if let Some(last) = messages.last_mut().filter(|_| reason.is_some()) {
            last.message.finish.reason = reason;
        }
        assert_eq!(is_interrupted(&messages), expected, "{text} {reason:?}");
    }

    #[test]
    fn only_replies_and_results_of_a_turn_that_is_not_over_wait_for_more() {
        let call = "u1 \"x\"\na1\n  call bash#c1";
        check("", None, false);
        check("u1 \"x\"", None, false);
        check("u1 \"x\"\na1 \"y\"", None, false);
        check(call, None, true);
        let mut unsaid = dsl::parse(call);
        unsaid[1].message.finish.reason = None;
        assert!(is_interrupted(&unsaid), "calls without a reason to end go on");
        for (reason, expected) in [
            (FinishReason::ToolCalls, true),
            (FinishReason::Stop, false),
            (FinishReason::Length, false),
            (FinishReason::ContentFilter, false),
            (FinishReason::Error, false),
            (FinishReason::Aborted, false),
        ] {
            check(call, Some(reason), expected);
        }
        check("u1 \"x\"\na1\n  call bash#c1\nu2\n  result c1 out=\"ok\" done", None, true);
        check("u1 \"x\"\na1\n  call bash#c1\nu2\n  result c1 out=\"ok\" done\nu3 \"and this\"", None, false);
        check("u1 marker \"x\"\na1 summary \"y\"", None, false);
    }

    #[test]
    fn what_is_being_written_goes_on_by_itself() {
        let mut messages = dsl::parse("u1 \"x\"\na1\n  call bash#c1");
        messages[1].message.sealed_revision = None;
        assert!(!is_interrupted(&messages) && is_in_run(&messages));
    }

    #[test]
    fn nobody_is_asked_twice() {
        let mut messages = dsl::parse("u1 \"x\"\na1\n  call bash#c1\nu2 \"go on\"");
        (messages[2].message.kind, messages[2].placement) = (MessageKind::Continuation, Some(Placement::Continuation));
        assert!(!is_interrupted(&messages));
    }
}

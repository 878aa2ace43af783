//! Events as short sentences for people who watch: without ids of messages, parts and compactions.

use super::event_text::{failure, kind, level, outcome, sentence, trigger};
use super::message_text::role;
use super::message_text::special_kind;
use super::output::{BAD, DIMMED, GOOD, PENDING, PLAIN, context_usage, count, word};
use crate::pb;
use crate::pb::event::Body;
use anstyle::Style;

/// Description of an event in a short sentence. `event_text::sentence` has the ids too.
pub(super) fn brief(event: &pb::Event) -> String {
    let Some(body) = &event.body else { return sentence(event) };
    match body {
        Body::MessageAppended(appended) => message_appended(appended),
        Body::PartsClosed(closed) => format!("{} written", count(closed.part_ids.len() as i64, "part")),
        Body::MessageFinished(finished) => message_finished(finished),
        Body::MessageEdited(edited) if edited.replacement_message_id.is_none() => {
            "message left out of views".to_owned()
        }
        Body::MessageEdited(_) => "message replaced in views".to_owned(),
        Body::MessagePinned(_) => "message pinned".to_owned(),
        Body::MessageUnpinned(_) => "pin of a message removed".to_owned(),
        Body::CompactionProposed(proposed) => {
            let notice = if proposed.notice.is_empty() { "confirm it or refuse it" } else { &proposed.notice };
            format!("{}{} waits for confirmation: {notice}", kind(proposed.kind()), level(proposed.level()))
        }
        Body::CompactionStarted(started) => {
            let (kind, level, trigger) = (kind(started.kind()), level(started.level()), trigger(started.trigger()));
            let usage = context_usage(started.context_tokens, started.window_tokens);
            format!("{kind}{level} started ({trigger}) at {usage}")
        }
        Body::CompactionRetried(retried) => {
            let why = failure(retried.failure.as_ref());
            format!("compaction tries again after attempt {}: {why}", retried.attempt)
        }
        Body::PartsPruned(pruned) => {
            let omitted = if pruned.omitted_ranges.is_empty() { "" } else { ", messages omitted" };
            format!("{} shortened{omitted}", count(pruned.part_ids.len() as i64, "part"))
        }
        Body::Compacted(compacted) => {
            let numbers = compacted.outcome.as_ref().map(outcome).unwrap_or_default();
            let notice = if compacted.notice.is_empty() { String::new() } else { format!(" · {}", compacted.notice) };
            format!("{}{} done: {numbers}{notice}", kind(compacted.kind()), level(compacted.level()))
        }
        Body::CompactionFailed(failed) => format!("compaction failed: {}", failure(failed.failure.as_ref())),
        Body::CompactionCancelled(cancelled) => {
            format!("compaction cancelled: {}", failure(cancelled.failure.as_ref()))
        }
        Body::CompactionUndone(_) => "compaction undone".to_owned(),
        Body::CompactionRedone(_) => "compaction redone".to_owned(),
        Body::RewriteUndone(undone) => format!("{} undone", rewrite(undone.rewrite.as_ref())),
        Body::RewriteRedone(redone) => format!("{} redone", rewrite(redone.rewrite.as_ref())),
        Body::SessionCreated(_)
        | Body::SessionUpdated(_)
        | Body::SessionArchived(_)
        | Body::SessionRestored(_)
        | Body::SessionForked(_)
        | Body::PolicyChanged(_)
        | Body::UsageRecorded(_)
        | Body::SessionRewound(_) => sentence(event),
    }
}

/// Style of an event's sentence.
pub(super) fn style(event: &pb::Event) -> Style {
    match &event.body {
        Some(Body::CompactionStarted(_) | Body::CompactionProposed(_) | Body::CompactionRetried(_)) => PENDING,
        Some(Body::Compacted(_)) => GOOD,
        Some(Body::CompactionFailed(_) | Body::CompactionCancelled(_)) => BAD,
        Some(Body::UsageRecorded(_)) => DIMMED,
        Some(_) | None => PLAIN,
    }
}

fn rewrite(rewrite: Option<&pb::Rewrite>) -> String {
    rewrite.map_or("change".to_owned(), |rewrite| word(rewrite.kind().as_str_name(), "REWRITE_KIND_"))
}

fn message_appended(appended: &pb::MessageAppended) -> String {
    let what = special_kind(appended.kind()).unwrap_or_else(|| "message".to_owned());
    let verb = if appended.sealed { "appended" } else { "begun" };
    format!("{} {what} {verb}", role(appended.role))
}

fn message_finished(finished: &pb::MessageFinished) -> String {
    match (finished.reason(), finished.expired) {
        (_, true) => "message ended by the daemon, since nothing more was written to it".to_owned(),
        (pb::FinishReason::Unspecified, false) => "message ended".to_owned(),
        (reason, false) => format!("message ended: {}", word(reason.as_str_name(), "FINISH_REASON_")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_sentence_has_no_ids() {
        let message_id = || "msg_1".to_owned();
        let compaction_id = || "cmp_1".to_owned();
        let (kind, role) = (pb::CompactionKind::Summary.into(), pb::Role::Assistant.into());
        let outcome = Some(pb::CompactionOutcome {
            estimated_tokens_before: 48,
            estimated_tokens_after: 9,
            covered_count: 3,
            ..Default::default()
        });
        let started = pb::CompactionStarted {
            compaction_id: compaction_id(),
            kind,
            trigger: pb::CompactionTrigger::Manual.into(),
            context_tokens: 48,
            window_tokens: 64,
            ..Default::default()
        };
        let finished =
            pb::MessageFinished { message_id: message_id(), reason: pb::FinishReason::Length.into(), expired: false };
        let cases = [
            (
                Body::MessageAppended(pb::MessageAppended { message_id: message_id(), role, ..Default::default() }),
                "assistant message begun",
            ),
            (Body::MessageFinished(finished), "message ended: length"),
            (
                Body::MessageEdited(pb::MessageEdited { message_id: message_id(), ..Default::default() }),
                "message left out of views",
            ),
            (Body::CompactionStarted(started), "summary started (manual) at 48 of 64 tokens (75 %)"),
            (
                Body::Compacted(pb::Compacted { compaction_id: compaction_id(), kind, outcome, ..Default::default() }),
                "summary done: 48 → 9 tokens, 3 messages covered, 0 ms",
            ),
            (
                Body::CompactionFailed(pb::CompactionFailed { compaction_id: compaction_id(), failure: None }),
                "compaction failed: no reason given",
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(brief(&pb::Event { body: Some(body), ..pb::Event::default() }), expected);
        }
    }
}

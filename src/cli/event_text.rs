//! Events as sentences.

use super::message_text::special_kind;
use super::message_text::{role, usage_text};
use super::output::{context_usage, count, shorten, word};
use crate::pb;
use crate::pb::event::Body;

/// Maximum width of a title or a claim in a sentence, in characters.
const WORDS_WIDTH: usize = 80;
/// Maximum number of contradicted claims in a sentence; the JSON has all of them.
const CONTRADICTIONS_SHOWN: usize = 3;
/// Maximum width of a failure's message, in characters: the reason, and advice on what can be done.
const FAILURE_WIDTH: usize = 500;

/// Description of an event, in one line.
pub(super) fn sentence(event: &pb::Event) -> String {
    let Some(body) = &event.body else {
        let ignorable = if event.ignorable { ", ignorable" } else { "" };
        return format!("a change unknown to this version{ignorable}");
    };
    match body {
        Body::SessionCreated(created) => session_created(created),
        Body::SessionUpdated(updated) => format!("session updated: {}", updates(updated).join(", ")),
        Body::SessionArchived(_) => "session archived".to_owned(),
        Body::SessionRestored(_) => "session restored".to_owned(),
        Body::SessionForked(forked) => {
            let behind = forked.after_revision.map(|after| format!(", behind {after}")).unwrap_or_default();
            format!("session forked from {} at revision {}{behind}", forked.source_session_id, forked.source_revision)
        }
        Body::PolicyChanged(changed) => format!("policy changed, from preset {}", changed.preset),
        Body::MessageAppended(appended) => message_appended(appended),
        Body::PartsClosed(closed) => {
            format!("{} closed in {}", count(closed.part_ids.len() as i64, "part"), closed.message_id)
        }
        Body::MessageFinished(finished) => {
            let reason = word(finished.reason().as_str_name(), "FINISH_REASON_");
            let why = if finished.expired { ", expired" } else { "" };
            format!("message sealed: {} ({reason}{why})", finished.message_id)
        }
        Body::UsageRecorded(recorded) => usage_recorded(recorded),
        Body::SessionRewound(rewound) => format!("session rewound to revision {}", rewound.after_revision),
        Body::MessageEdited(edited) if edited.replacement_message_id.is_none() => {
            format!("message omitted: {}", edited.message_id)
        }
        Body::MessageEdited(edited) => {
            format!("message edited: {} replaces {}", edited.replacement_message_id(), edited.message_id)
        }
        Body::MessagePinned(pinned) => format!("message pinned: {}", pinned.message_id),
        Body::MessageUnpinned(unpinned) => format!("message unpinned: {}", unpinned.message_id),
        Body::CompactionProposed(proposed) => compaction_proposed(proposed),
        Body::CompactionStarted(started) => compaction_started(started),
        Body::CompactionRetried(retried) => {
            let why = failure(retried.failure.as_ref());
            format!("compaction retried: {} after attempt {}: {why}", retried.compaction_id, retried.attempt)
        }
        Body::PartsPruned(pruned) => {
            let omitted = if pruned.omitted_ranges.is_empty() { "" } else { ", messages omitted" };
            let parts = count(pruned.part_ids.len() as i64, "part");
            format!("{parts} shortened{omitted}: {}", pruned.compaction_id)
        }
        Body::Compacted(compacted) => {
            let numbers = compacted.outcome.as_ref().map(outcome).unwrap_or_default();
            let level = level(compacted.level());
            let notice = if compacted.notice.is_empty() { String::new() } else { format!(" · {}", compacted.notice) };
            format!("{}{level} done: {}: {numbers}{notice}", kind(compacted.kind()), compacted.compaction_id)
        }
        Body::CompactionFailed(failed) => {
            format!("compaction failed: {}: {}", failed.compaction_id, failure(failed.failure.as_ref()))
        }
        Body::CompactionCancelled(cancelled) => {
            format!("compaction cancelled: {}: {}", cancelled.compaction_id, failure(cancelled.failure.as_ref()))
        }
        Body::CompactionUndone(undone) => format!("compaction undone: {}", undone.compaction_id),
        Body::CompactionRedone(redone) => format!("compaction redone: {}", redone.compaction_id),
        Body::RewriteUndone(undone) => format!("{} undone", undone.rewrite.as_ref().map(rewrite).unwrap_or_default()),
        Body::RewriteRedone(redone) => format!("{} redone", redone.rewrite.as_ref().map(rewrite).unwrap_or_default()),
    }
}

/// Description of an earlier rewind or edit.
pub(super) fn rewrite(rewrite: &pb::Rewrite) -> String {
    let kind = word(rewrite.kind().as_str_name(), "REWRITE_KIND_");
    let message = rewrite.message_id.as_ref().map(|message| format!(" of {message}"));
    format!("{kind}{} at revision {}", message.unwrap_or_default(), rewrite.mark_revision)
}

fn session_created(created: &pb::SessionCreated) -> String {
    let parent = created.parent_session_id.as_ref().map(|parent| format!(", child of {parent}"));
    let title = shorten(&created.title, WORDS_WIDTH);
    format!("session created: {title:?}, preset {}{}", created.preset, parent.unwrap_or_default())
}

fn updates(updated: &pb::SessionUpdated) -> Vec<String> {
    let title = updated.title.as_ref().map(|title| format!("title {:?}", shorten(title, WORDS_WIDTH)));
    let window = updated.window.as_ref().map(|window| format!("window {} tokens", window.max_context_tokens));
    let metadata = updated.metadata_json.as_ref().map(|_| "metadata".to_owned());
    [title, window, metadata].into_iter().flatten().collect()
}

fn message_appended(appended: &pb::MessageAppended) -> String {
    let what = special_kind(appended.kind()).unwrap_or_else(|| "message".to_owned());
    let open = if appended.sealed { "" } else { ", open" };
    let parts = count(appended.part_count, "part");
    format!("{} {what} appended: {} ({parts}{open})", role(appended.role), appended.message_id)
}

fn usage_recorded(recorded: &pb::UsageRecorded) -> String {
    let usage = recorded.usage.as_ref().map(usage_text).unwrap_or_default();
    let window = recorded.window.as_ref().map_or(0, |window| window.max_context_tokens);
    if window > 0 { format!("usage: {usage}, of a window of {window} tokens") } else { format!("usage: {usage}") }
}

fn compaction_proposed(proposed: &pb::CompactionProposed) -> String {
    let (kind, level) = (kind(proposed.kind()), level(proposed.level()));
    format!("{kind}{level} proposed: {}: {}", proposed.compaction_id, proposed.notice)
}

/// The level in parentheses, as a suffix of the compaction's kind; empty for maintenance.
pub(super) fn level(level: pb::CompactionLevel) -> String {
    match level {
        pb::CompactionLevel::Unspecified => String::new(),
        level => format!(" ({})", word(level.as_str_name(), "COMPACTION_LEVEL_")),
    }
}

fn compaction_started(started: &pb::CompactionStarted) -> String {
    let (kind, trigger) = (kind(started.kind()), trigger(started.trigger()));
    let usage = context_usage(started.context_tokens, started.window_tokens);
    let level = level(started.level());
    format!("{kind}{level} started ({trigger}): {} at {usage}", started.compaction_id)
}

/// Outcome of a compaction, in numbers.
pub(super) fn outcome(outcome: &pb::CompactionOutcome) -> String {
    let mut text = format!("{} → {} tokens", outcome.estimated_tokens_before, outcome.estimated_tokens_after);
    if outcome.covered_count > 0 {
        text += &format!(", {} covered", count(outcome.covered_count, "message"));
    }
    if outcome.pruned_count > 0 {
        text += &format!(", {} shortened", count(outcome.pruned_count, "output"));
    }
    if outcome.omitted_count > 0 {
        text += &format!(", {} omitted", count(outcome.omitted_count, "message"));
    }
    if !outcome.summarizer.is_empty() {
        text += &format!(", by {}", outcome.summarizer);
    }
    if outcome.invalidated_tokens > 0 {
        let (first, tokens) = (outcome.first_changed_index, outcome.invalidated_tokens);
        text += &format!(", changed from message {first} on ({tokens} tokens of cache)");
    }
    text += &format!(", {} ms", outcome.duration_ms);
    text += &contradictions(&outcome.contradictions);
    match &outcome.stopped {
        Some(stopped) => format!("{text}; {}", failure(Some(stopped))),
        None => text,
    }
}

/// Claims of a summary that the history contradicts: their number, and the first of them.
fn contradictions(found: &[pb::Contradiction]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let shown = found.iter().take(CONTRADICTIONS_SHOWN).map(|found| {
        let (claim, history) = (shorten(&found.claim, WORDS_WIDTH), shorten(&found.history, WORDS_WIDTH));
        let message = found.message_id.as_ref().map(|message| format!(" ({message})")).unwrap_or_default();
        format!("“{claim}”, but {history}{message}")
    });
    let more = found.len().saturating_sub(CONTRADICTIONS_SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let shown = shown.collect::<Vec<_>>().join("; ");
    format!(
        "; {} the history: {shown}{more}",
        match found.len() {
            1 => "1 claim contradicts".to_owned(),
            others => format!("{others} claims contradict"),
        }
    )
}

/// Name of a kind of compaction.
pub(super) fn kind(kind: pb::CompactionKind) -> String {
    word(kind.as_str_name(), "COMPACTION_KIND_")
}

/// Name of the level that a compaction answers; a fixed text if it answers none, as maintenance does.
pub(super) fn level_name(level: pb::CompactionLevel) -> String {
    match level {
        pb::CompactionLevel::Unspecified => "no level".to_owned(),
        level => word(level.as_str_name(), "COMPACTION_LEVEL_"),
    }
}

/// Name of a compaction's trigger.
pub(super) fn trigger(trigger: pb::CompactionTrigger) -> String {
    word(trigger.as_str_name(), "COMPACTION_TRIGGER_")
}

/// Reason for which a compaction had no effect.
pub(super) fn failure(failure: Option<&pb::CompactionFailure>) -> String {
    failure.map_or_else(
        || "no reason given".to_owned(),
        |failure| format!("{} ({})", shorten(&failure.message, FAILURE_WIDTH), failure.reason),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence_of(body: Body) -> String {
        sentence(&pb::Event { body: Some(body), ..pb::Event::default() })
    }

    #[test]
    fn compaction_events_have_their_numbers() {
        let started = pb::CompactionStarted {
            compaction_id: "cmp_1".into(),
            kind: pb::CompactionKind::Summary.into(),
            trigger: pb::CompactionTrigger::Threshold.into(),
            context_tokens: 48,
            window_tokens: 64,
            ..pb::CompactionStarted::default()
        };
        assert_eq!(
            sentence_of(Body::CompactionStarted(started)),
            "summary started (threshold): cmp_1 at 48 of 64 tokens (75 %)"
        );
        let compacted = pb::Compacted {
            compaction_id: "cmp_1".into(),
            kind: pb::CompactionKind::Summary.into(),
            outcome: Some(pb::CompactionOutcome {
                estimated_tokens_before: 48,
                estimated_tokens_after: 9,
                covered_count: 1,
                summarizer: "extractive".into(),
                duration_ms: 3,
                ..pb::CompactionOutcome::default()
            }),
            ..pb::Compacted::default()
        };
        assert_eq!(
            sentence_of(Body::Compacted(compacted)),
            "summary done: cmp_1: 48 → 9 tokens, 1 message covered, by extractive, 3 ms"
        );
        let found = |claim: &str, message_id| pb::Contradiction {
            claim: claim.into(),
            history: "`mix test` failed".into(),
            message_id,
            ..pb::Contradiction::default()
        };
        let claims = [("`mix test` passes", Some("msg_1".to_owned())), ("b", None), ("c", None), ("d", None)];
        let shown = contradictions(&claims.map(|(claim, message)| found(claim, message)));
        let first = "; 4 claims contradict the history: “`mix test` passes”, but `mix test` failed (msg_1); “b”, but";
        assert!(shown.starts_with(first) && shown.ends_with("; and 1 more"), "{shown}");
        assert!(contradictions(&[found("b", None)]).starts_with("; 1 claim contradicts the history: “b”"));
        let failed = pb::CompactionFailed { compaction_id: "cmp_1".into(), failure: None };
        assert_eq!(sentence_of(Body::CompactionFailed(failed)), "compaction failed: cmp_1: no reason given");
    }

    #[test]
    fn usage_names_the_window_that_it_is_of() {
        let window = pb::ModelWindow { max_context_tokens: 9, ..pb::ModelWindow::default() };
        let recorded = pb::UsageRecorded { window: Some(window), ..pb::UsageRecorded::default() };
        assert!(sentence_of(Body::UsageRecorded(recorded)).ends_with(", of a window of 9 tokens"));
        assert!(!sentence_of(Body::UsageRecorded(pb::UsageRecorded::default())).contains("window"));
    }

    #[test]
    fn an_unknown_kind_states_if_it_may_be_skipped() {
        let unknown = pb::Event { ignorable: true, ..pb::Event::default() };
        assert!(sentence(&unknown).ends_with("ignorable"));
        assert!(!sentence(&pb::Event::default()).contains("ignorable"));
    }
}

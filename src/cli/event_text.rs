//! Events as sentences.

use super::detail::Detail;
use super::message_text::special_kind;
use super::message_text::{role, usage_text};
use super::output::{BAD, DIMMED, GOOD, PENDING, PLAIN, context_usage, count, shorten, word};
use super::run_text;
use crate::pb;
use crate::pb::event::Body;
use anstyle::Style;

/// Maximum width of a title or a claim in a sentence, in characters.
const WORDS_WIDTH: usize = 80;
/// Maximum number of contradicted claims in a sentence; the JSON has all of them.
const CONTRADICTIONS_SHOWN: usize = 3;
/// Maximum width of a failure's message, in characters: the reason, and advice on what can be done.
const FAILURE_WIDTH: usize = 500;

/// Description of an event, in one line.
pub(super) fn sentence(event: &pb::Event, detail: Detail) -> String {
    let Some(body) = &event.body else {
        let ignorable = if event.ignorable { ", ignorable" } else { "" };
        return format!("a change unknown to this version{ignorable}");
    };
    if let Some(sentence) = run_text::sentence(body, detail) {
        return sentence;
    }
    let id = |id: &str| detail.full(id);
    match body {
        Body::SessionCreated(created) => session_created(created),
        Body::SessionUpdated(updated) => format!("session updated: {}", updates(updated).join(", ")),
        Body::SessionArchived(_) => "session archived".to_owned(),
        Body::SessionRestored(_) => "session restored".to_owned(),
        Body::LabelAdded(added) => format!("label {:?} added", added.label),
        Body::LabelRemoved(removed) => format!("label {:?} removed", removed.label),
        Body::SessionForked(forked) => {
            let behind = forked.after_revision.map(|after| format!(", behind {after}")).unwrap_or_default();
            format!("session forked from {} at revision {}{behind}", forked.source_session_id, forked.source_revision)
        }
        Body::PolicyChanged(changed) => format!("policy changed, from preset {}", changed.preset),
        Body::MessageAppended(appended) => {
            let what = special_kind(appended.kind()).unwrap_or_else(|| "message".to_owned());
            let verb = if appended.sealed { "appended" } else { "begun" };
            let parts = detail.full(format_args!("({})", count(appended.part_count, "part")));
            format!("{} {what}{} {verb}{parts}", role(appended.role), id(&appended.message_id))
        }
        Body::PartsClosed(closed) => {
            let of = detail.full(format_args!("to {}", closed.message_id));
            format!("{} written{of}", count(closed.part_ids.len() as i64, "part"))
        }
        Body::MessageFinished(finished) => {
            let why = match (finished.reason(), finished.expired) {
                (_, true) => " by the daemon, since nothing more was written to it".to_owned(),
                (pb::FinishReason::Unspecified, false) => String::new(),
                (reason, false) => format!(": {}", word(reason.as_str_name(), "FINISH_REASON_")),
            };
            format!("message{} ended{why}", id(&finished.message_id))
        }
        Body::UsageRecorded(recorded) => usage_recorded(recorded),
        Body::SessionRewound(rewound) => format!("session rewound to revision {}", rewound.after_revision),
        Body::MessageEdited(edited) => match &edited.replacement_message_id {
            None => format!("message{} left out of views", id(&edited.message_id)),
            Some(other) => {
                let other = detail.full(format_args!("by {other}"));
                format!("message{} replaced in views{other}", id(&edited.message_id))
            }
        },
        Body::MessagePinned(pinned) => format!("message{} pinned", id(&pinned.message_id)),
        Body::MessageUnpinned(unpinned) => format!("message{} unpinned", id(&unpinned.message_id)),
        Body::WordsMarked(marked) => {
            let done = match marked.stance() {
                pb::WordsStance::Struck => "struck out of what people said",
                pb::WordsStance::Kept => "added to what people said",
                pb::WordsStance::Open | pb::WordsStance::Unspecified => "left to the summarizer in what people said",
            };
            format!("message{} {done}", id(&marked.message_id))
        }
        Body::CompactionProposed(proposed) => {
            let what = compaction(proposed.kind(), proposed.level());
            let notice = if proposed.notice.is_empty() { "confirm it or refuse it" } else { &proposed.notice };
            format!("{what}{} waits for confirmation: {notice}", id(&proposed.compaction_id))
        }
        Body::CompactionStarted(started) => {
            let what = compaction(started.kind(), started.level());
            let trigger = trigger(started.trigger());
            let usage = context_usage(started.context_tokens, started.window_tokens);
            format!("{what}{} started ({trigger}) at {usage}", id(&started.compaction_id))
        }
        Body::CompactionRetried(retried) => {
            let (attempt, why) = (retried.attempt, failure(retried.failure.as_ref()));
            format!("compaction{} tries again after attempt {attempt}: {why}", id(&retried.compaction_id))
        }
        Body::PartsPruned(pruned) => {
            let omitted = if pruned.omitted_ranges.is_empty() { "" } else { ", messages omitted" };
            let by = detail.full(format_args!("by {}", pruned.compaction_id));
            format!("{} shortened{omitted}{by}", count(pruned.part_ids.len() as i64, "part"))
        }
        Body::Compacted(compacted) => {
            let what = compaction(compacted.kind(), compacted.level());
            let numbers = compacted.outcome.as_ref().map(outcome).unwrap_or_default();
            let notice = if compacted.notice.is_empty() { String::new() } else { format!(" · {}", compacted.notice) };
            format!("{what}{} done: {numbers}{notice}", id(&compacted.compaction_id))
        }
        Body::CompactionFailed(failed) => {
            format!("compaction{} failed: {}", id(&failed.compaction_id), failure(failed.failure.as_ref()))
        }
        Body::CompactionCancelled(cancelled) => {
            format!("compaction{} cancelled: {}", id(&cancelled.compaction_id), failure(cancelled.failure.as_ref()))
        }
        Body::CompactionUndone(undone) => format!("compaction{} undone", id(&undone.compaction_id)),
        Body::CompactionRedone(redone) => format!("compaction{} redone", id(&redone.compaction_id)),
        Body::RewriteUndone(undone) => format!("{} undone", rewrite(undone.rewrite.as_ref(), detail)),
        Body::RewriteRedone(redone) => format!("{} redone", rewrite(redone.rewrite.as_ref(), detail)),
        Body::Erased(erased) => erasure(erased),
        of_run => unreachable!("{of_run:?} has a sentence already"),
    }
}

fn erasure(erased: &pb::Erased) -> String {
    let what = match erased.target() {
        pb::ErasedTarget::Session if erased.unfinished => "session erased in part".to_owned(),
        pb::ErasedTarget::Session => "session erased".to_owned(),
        pb::ErasedTarget::Part => "part erased".to_owned(),
        pb::ErasedTarget::Messages => "several messages erased".to_owned(),
        pb::ErasedTarget::Message | pb::ErasedTarget::Unspecified => "message erased".to_owned(),
    };
    let shared = if erased.source_session_id.is_some() { " in the session that this one was forked from" } else { "" };
    format!("{what}{shared}: {}", shorten(&erased.reason, WORDS_WIDTH))
}

/// Style of an event's sentence.
pub(super) fn style(event: &pb::Event) -> Style {
    match &event.body {
        Some(Body::CompactionStarted(_) | Body::CompactionProposed(_) | Body::CompactionRetried(_)) => PENDING,
        Some(Body::Compacted(_)) => GOOD,
        Some(Body::CompactionFailed(_) | Body::CompactionCancelled(_)) => BAD,
        Some(Body::RunEnded(ended)) => match ended.reason() {
            pb::RunEndReason::Lost | pb::RunEndReason::Failed => BAD,
            _ => PLAIN,
        },
        Some(Body::ApprovalRequested(_)) => PENDING,
        Some(Body::UsageRecorded(_)) => DIMMED,
        Some(_) | None => PLAIN,
    }
}

/// Description of an earlier rewind or edit.
pub(super) fn rewrite(rewrite: Option<&pb::Rewrite>, detail: Detail) -> String {
    let Some(rewrite) = rewrite else { return "change".to_owned() };
    let message = rewrite.message_id.as_ref().map(|message| format!("of {message} ")).unwrap_or_default();
    let of = detail.full(format_args!("{message}at revision {}", rewrite.mark_revision));
    format!("{}{of}", word(rewrite.kind().as_str_name(), "REWRITE_KIND_"))
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

fn usage_recorded(recorded: &pb::UsageRecorded) -> String {
    let usage = recorded.usage.as_ref().map(usage_text).unwrap_or_default();
    let window = recorded.window.as_ref().map_or(0, |window| window.max_context_tokens);
    if window > 0 { format!("usage: {usage}, of a window of {window} tokens") } else { format!("usage: {usage}") }
}

/// A compaction by its kind, with the level that it answers; without one for maintenance.
pub(super) fn compaction(of: pb::CompactionKind, level: pb::CompactionLevel) -> String {
    match level {
        pb::CompactionLevel::Unspecified => kind(of),
        level => format!("{} ({})", kind(of), word(level.as_str_name(), "COMPACTION_LEVEL_")),
    }
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
        sentence(&pb::Event { body: Some(body), ..pb::Event::default() }, Detail::Full)
    }

    #[test]
    fn a_brief_sentence_is_the_full_one_without_ids() {
        let (message_id, compaction_id) = (|| "msg_1".to_owned(), || "cmp_1".to_owned());
        let (kind, role) = (pb::CompactionKind::Summary.into(), pb::Role::Assistant.into());
        let outcome = Some(pb::CompactionOutcome {
            estimated_tokens_before: 48,
            estimated_tokens_after: 9,
            covered_count: 3,
            summarizer: "extractive".into(),
            duration_ms: 3,
            ..Default::default()
        });
        let started = pb::CompactionStarted {
            compaction_id: compaction_id(),
            kind,
            level: pb::CompactionLevel::Auto.into(),
            trigger: pb::CompactionTrigger::Threshold.into(),
            context_tokens: 48,
            window_tokens: 64,
            ..Default::default()
        };
        let appended =
            pb::MessageAppended { message_id: message_id(), role, part_count: 2, ..pb::MessageAppended::default() };
        let finished =
            pb::MessageFinished { message_id: message_id(), reason: pb::FinishReason::Length.into(), expired: false };
        let edited = pb::MessageEdited { message_id: message_id(), ..Default::default() };
        let replaced = pb::MessageEdited { replacement_message_id: Some("msg_2".to_owned()), ..edited.clone() };
        let pruned = pb::PartsPruned {
            compaction_id: compaction_id(),
            part_ids: vec!["prt_1".to_owned()],
            ..Default::default()
        };
        let rewrite =
            pb::Rewrite { kind: pb::RewriteKind::Edit.into(), message_id: Some(message_id()), mark_revision: 7 };
        for (body, brief, full) in [
            (Body::MessageAppended(appended), "assistant message begun", "assistant message msg_1 begun (2 parts)"),
            (Body::MessageFinished(finished), "message ended: length", "message msg_1 ended: length"),
            (Body::MessageEdited(edited), "message left out of views", "message msg_1 left out of views"),
            (Body::MessageEdited(replaced), "message replaced in views", "message msg_1 replaced in views by msg_2"),
            (Body::PartsPruned(pruned), "1 part shortened", "1 part shortened by cmp_1"),
            (
                Body::CompactionStarted(started),
                "summary (auto) started (threshold) at 48 of 64 tokens (75 %)",
                "summary (auto) cmp_1 started (threshold) at 48 of 64 tokens (75 %)",
            ),
            (
                Body::Compacted(pb::Compacted { compaction_id: compaction_id(), kind, outcome, ..Default::default() }),
                "summary done: 48 → 9 tokens, 3 messages covered, by extractive, 3 ms",
                "summary cmp_1 done: 48 → 9 tokens, 3 messages covered, by extractive, 3 ms",
            ),
            (
                Body::CompactionFailed(pb::CompactionFailed { compaction_id: compaction_id(), failure: None }),
                "compaction failed: no reason given",
                "compaction cmp_1 failed: no reason given",
            ),
            (
                Body::RewriteUndone(pb::RewriteUndone { rewrite: Some(rewrite) }),
                "edit undone",
                "edit of msg_1 at revision 7 undone",
            ),
        ] {
            let event = pb::Event { body: Some(body), ..pb::Event::default() };
            assert_eq!((sentence(&event, Detail::Brief), sentence(&event, Detail::Full)), (brief.into(), full.into()));
        }
    }

    #[test]
    fn claims_that_the_history_contradicts_are_counted_and_the_first_are_shown() {
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
        assert!(sentence(&unknown, Detail::Full).ends_with("ignorable"));
        assert!(!sentence(&pb::Event::default(), Detail::Full).contains("ignorable"));
    }
}

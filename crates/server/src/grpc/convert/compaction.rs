//! Conversion of compactions.

use super::session::{level, read_window};
use super::{count, id, range, read_enum};
use crate::app::Result;
use crate::app::compactions::{NewSummary, Overflow};
use crate::app::preview::{Plan, PlannedTruncation};
use crate::app::simulate::Simulations;
use crate::app::undo::ReversedChange;
use crate::grpc::wire;
use crate::model::compaction::{
    Compaction, CompactionKind, CompactionState, Contradiction, ContradictionKind, Failure, Outcome, Trigger,
};
use crate::model::event::{Rewrite, RewriteOf};
use crate::model::ids::MessageId;
use crate::model::summary_request::{Purpose, Spending, SummaryRequest};
use crate::pb;

/// A compaction from request to end.
pub(in crate::grpc) fn compaction(compaction: Compaction) -> pb::Compaction {
    let spending = Spending::sum(&compaction.requests);
    pb::Compaction {
        compaction_id: compaction.id.to_string(),
        session_id: compaction.session_id.to_string(),
        kind: kind(compaction.request.kind).into(),
        trigger: trigger(compaction.request.trigger).into(),
        state: state(compaction.state).into(),
        instructions: compaction.request.instructions,
        base_revision: compaction.base_revision,
        context_tokens: compaction.tokens_at_request,
        window_tokens: compaction.window_tokens,
        attempt_count: count(compaction.attempt),
        outcome: compaction.outcome.map(outcome),
        failure: compaction.failure.map(failure),
        undone_revision: compaction.undone_revision,
        actor: compaction.actor,
        create_time: Some(wire::timestamp(compaction.create_time)),
        end_time: compaction.end_time.map(wire::timestamp),
        level: level(compaction.request.level).into(),
        notice: compaction.request.notice,
        confirmation_end_time: compaction.proposed_until.map(wire::timestamp),
        next_attempt_time: compaction.next_attempt_time.map(wire::timestamp),
        spending: (spending.requests > 0).then(|| pb::SummarySpending {
            request_count: count(spending.requests),
            models: spending.models,
            usage: spending.usage.map(wire::usage),
            cost_micro_usd: spending.cost_micros,
            unpriced_count: count(spending.unpriced),
            duration_ms: spending.duration_ms,
        }),
    }
}

/// One request to a model.
pub(in crate::grpc) fn summary_request(request: SummaryRequest) -> pb::SummaryRequest {
    let (request_text, reply_text) = request.texts.unzip();
    pb::SummaryRequest {
        attempt: count(request.attempt),
        summarizer: request.summarizer,
        model: request.model,
        request_hash: request.request_hash.to_vec(),
        reply_hash: request.reply_hash.to_vec(),
        usage: request.usage.map(wire::usage),
        cost_micro_usd: request.cost_micros,
        duration_ms: request.duration_ms,
        failure: request.failure.unwrap_or_default(),
        end_time: Some(wire::timestamp(request.end_time)),
        request_text,
        reply_text,
        compaction_id: None,
        branch_message_id: None,
    }
}

/// One request to a model with its purpose.
pub(in crate::grpc) fn request_for((purpose, request): (Purpose, SummaryRequest)) -> pb::SummaryRequest {
    let mut converted = summary_request(request);
    match purpose {
        Purpose::Compaction(compaction) => converted.compaction_id = Some(compaction.to_string()),
        Purpose::Branch(message) => converted.branch_message_id = Some(message.to_string()),
    }
    converted
}

/// A change that was undone or redone.
pub(in crate::grpc) fn changed(reversed: ReversedChange) -> pb::Change {
    let change = match reversed {
        ReversedChange::Compaction(changed) => pb::change::Change::Compaction(compaction(*changed)),
        ReversedChange::Rewrite(changed) => pb::change::Change::Rewrite(rewrite(changed)),
    };
    pb::Change { change: Some(change) }
}

/// A rewind or an edit that was made earlier.
pub(super) fn rewrite(rewrite: Rewrite) -> pb::Rewrite {
    let (kind, message) = match rewrite.of {
        RewriteOf::Rewind => (pb::RewriteKind::Rewind, None),
        RewriteOf::Edit(message) => (pb::RewriteKind::Edit, Some(message)),
        RewriteOf::Words(message) => (pb::RewriteKind::Words, Some(message)),
    };
    pb::Rewrite { kind: kind.into(), mark_revision: rewrite.mark, message_id: id(message) }
}

/// What presets would have done.
pub(in crate::grpc) fn simulations(found: Simulations) -> pb::SimulatePresetsResponse {
    let simulations = found.outcomes.into_iter().map(|(preset, outcome)| pb::Simulation {
        preset,
        due_tokens: outcome.due_tokens,
        compactions: outcome
            .compactions()
            .map(|one| pb::SimulatedCompaction {
                message_count: count(one.message),
                kind: kind(one.kind).into(),
                level: level(one.level).into(),
                view_before_tokens: one.before_tokens,
                view_after_tokens: one.after_tokens,
                invalidated_tokens: one.reread_tokens,
            })
            .collect(),
        usages: outcome
            .context_usage
            .iter()
            .map(|point| pb::SimulatedUsage { message_count: count(point.message), context_tokens: point.tokens })
            .collect(),
    });
    pb::SimulatePresetsResponse {
        simulations: simulations.collect(),
        message_count: count(found.message_count),
        window_tokens: found.window_tokens,
    }
}

/// Kind of a compaction.
pub(in crate::grpc) fn kind(kind: CompactionKind) -> pb::CompactionKind {
    match kind {
        CompactionKind::Prune => pb::CompactionKind::Prune,
        CompactionKind::Summary => pb::CompactionKind::Summary,
        CompactionKind::Omission => pb::CompactionKind::Omission,
    }
}

/// The requested kind of compaction: a summary by default.
pub(in crate::grpc) fn read_kind(number: i32) -> Result<CompactionKind> {
    Ok(match read_enum("kind", number)? {
        pb::CompactionKind::Prune => CompactionKind::Prune,
        pb::CompactionKind::Omission => CompactionKind::Omission,
        pb::CompactionKind::Unspecified | pb::CompactionKind::Summary => CompactionKind::Summary,
    })
}

/// A provider's refusal of a view.
pub(in crate::grpc) fn read_overflow(request: pb::ReportOverflowRequest) -> Overflow {
    Overflow {
        status: u16::try_from(request.status_code).ok().filter(|status| *status > 0),
        code: request.code,
        message: request.message,
        window: request.window.map(read_window),
    }
}

/// Reason of a compaction's request.
pub(in crate::grpc) fn trigger(trigger: Trigger) -> pb::CompactionTrigger {
    match trigger {
        Trigger::Threshold => pb::CompactionTrigger::Threshold,
        Trigger::Maintenance => pb::CompactionTrigger::Maintenance,
        Trigger::Manual => pb::CompactionTrigger::Manual,
        Trigger::Supplied => pb::CompactionTrigger::Supplied,
        Trigger::Overflow => pb::CompactionTrigger::Overflow,
        Trigger::LastResort => pb::CompactionTrigger::LastResort,
    }
}

/// State of a compaction.
pub(in crate::grpc) fn state(state: CompactionState) -> pb::CompactionState {
    match state {
        CompactionState::Ready => pb::CompactionState::Ready,
        CompactionState::Running => pb::CompactionState::Running,
        CompactionState::Done => pb::CompactionState::Done,
        CompactionState::Failed => pb::CompactionState::Failed,
        CompactionState::Cancelled => pb::CompactionState::Cancelled,
        CompactionState::Superseded => pb::CompactionState::Superseded,
        CompactionState::Dead => pb::CompactionState::Dead,
    }
}

/// Result of a compaction, in numbers.
pub(super) fn outcome(outcome: Outcome) -> pb::CompactionOutcome {
    pb::CompactionOutcome {
        covered_ranges: outcome.covered.into_iter().map(range).collect(),
        covered_count: count(outcome.covered_count),
        tail_start_message_id: id(outcome.tail_start),
        summary_message_id: id(outcome.summary_message),
        pruned_count: count(outcome.pruned_count),
        omitted_count: count(outcome.omitted_count),
        estimated_tokens_before: outcome.tokens_before,
        estimated_tokens_after: outcome.tokens_after,
        first_changed_index: count(outcome.first_changed_index),
        summarizer: outcome.summarizer,
        usage: outcome.usage.map(wire::usage),
        duration_ms: outcome.duration_ms,
        supplied: outcome.supplied,
        stopped: outcome.stopped.map(failure),
        invalidated_tokens: outcome.invalidated_tokens,
        context_tokens_before: outcome.usage_before,
        overhead_tokens: outcome.overhead_tokens,
        contradictions: outcome.contradictions.into_iter().map(contradiction).collect(),
        last_quoted_revision: outcome.quoted_until,
    }
}

/// A claim that the history contradicts.
fn contradiction(found: Contradiction) -> pb::Contradiction {
    let Contradiction { kind, claim, history, message } = found;
    pb::Contradiction { kind: contradiction_kind(kind).into(), claim, history, message_id: id(message) }
}

/// The subject of a claim that the history contradicts.
pub(in crate::grpc) fn contradiction_kind(kind: ContradictionKind) -> pb::ContradictionKind {
    match kind {
        ContradictionKind::Check => pb::ContradictionKind::Check,
        ContradictionKind::Commit => pb::ContradictionKind::Commit,
        ContradictionKind::File => pb::ContradictionKind::File,
    }
}

/// The plan of a compaction by hand.
pub(in crate::grpc) fn plan(plan: Plan) -> pb::CompactionPlan {
    let forecast = plan.forecast.unwrap_or_default();
    let ids = |ids: Vec<MessageId>| ids.into_iter().map(|id| id.to_string()).collect();
    let truncation = |truncation: PlannedTruncation| pb::CompactionTruncation {
        message_id: truncation.message.to_string(),
        part_id: truncation.part.to_string(),
        original_bytes: truncation.original_bytes,
        shown_bytes: truncation.shown_bytes,
    };
    pb::CompactionPlan {
        kind: kind(plan.kind).into(),
        level: level(plan.level).into(),
        base_revision: plan.base,
        truncations: plan.truncations.into_iter().map(truncation).collect(),
        omitted_ranges: plan.omitted.into_iter().map(range).collect(),
        omitted_count: count(plan.omitted_count),
        covered_ranges: plan.covered.into_iter().map(range).collect(),
        covered_count: count(plan.covered_count),
        tail_start_message_id: id(plan.tail_start),
        retained_message_ids: ids(plan.retained),
        pinned_message_ids: ids(plan.pinned),
        estimated_tokens_before: plan.tokens_before,
        estimated_tokens_after: plan.tokens_after,
        max_summary_tokens: plan.summary_tokens,
        first_changed_index: count(plan.first_changed_index),
        summarizer: forecast.summarizer,
        requests: forecast
            .requests
            .into_iter()
            .map(|request| pb::PlannedRequest { system: request.system, user: request.user })
            .collect(),
        request_tokens: forecast.request_tokens,
        chunked: forecast.chunked,
        cost_micro_usd: forecast.cost_micros,
    }
}

/// Reason why a compaction ended without effect.
pub(super) fn failure(failure: Failure) -> pb::CompactionFailure {
    let Failure { reason, message, overhead_tokens } = failure;
    pb::CompactionFailure { reason: reason.as_str().to_owned(), message, overhead_tokens }
}

/// A finished summary that a client supplies.
pub(in crate::grpc) fn read_summary(request: pb::SupplySummaryRequest) -> NewSummary {
    NewSummary {
        text: request.text,
        tail_start: request.tail_start_message_id,
        until: request.until_message_id,
        summarizer: request.summarizer,
        usage: request.usage.map(wire::read_usage),
        expected_revision: request.expected_revision,
        keep_erased: request.keep_erased,
        includes_open_calls: request.include_open_calls,
    }
}

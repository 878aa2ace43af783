//! Conversion of sessions and windows.

use super::{count, id};
use crate::app::Durability;
use crate::app::append::ContextUsage;
use crate::app::sessions::{NewSession, SessionChange, SessionInfo};
use crate::model::session::{Guards, OverWindow, OverWindowReason, Session, SessionState};
use crate::model::usage::{ModelWindow, UsageDoubt};
use crate::pb;

/// A session with its policy.
pub(in crate::grpc) fn session(info: SessionInfo) -> pb::Session {
    let SessionInfo { session, policy_json, over_window: _ } = info;
    let Session { fork, window: current_window, .. } = session;
    let state = match session.state {
        SessionState::Active => pb::SessionState::Active,
        SessionState::Archived => pb::SessionState::Archived,
        SessionState::Erased => pb::SessionState::Erased,
    };
    pb::Session {
        session_id: session.id.to_string(),
        tenant: session.tenant,
        client_id: session.client_id,
        title: session.title,
        state: state.into(),
        parent_session_id: id(session.parent),
        source_session_id: id(fork.map(|(from, _)| from)),
        source_revision: fork.map(|(_, at)| at),
        preset: session.preset,
        policy_json,
        window: Some(window(current_window)),
        metadata_json: session.metadata_json,
        revision: session.revision,
        history_revision: session.history_revision,
        message_count: session.message_count,
        context_tokens: session.context.map(|context| context.tokens),
        context_revision: session.context.map(|context| context.revision),
        create_time: Some(pb::timestamp(session.create_time)),
        update_time: Some(pb::timestamp(session.update_time)),
        guard_state: Some(guard_state(session.guards)),
    }
}

/// The guards that hold a session's automatic compactions back.
fn guard_state(guards: Guards) -> pb::GuardState {
    pb::GuardState {
        failure_count: count(guards.failure_count),
        hold_turn_count: count(guards.hold_turns),
        hold_reason: hold_reason(&guards).into(),
        cooldown_end_time: guards.cooldown_end.map(pb::timestamp),
        overhead_tokens: guards.overhead_tokens,
    }
}

/// The cause of the wait for user messages.
fn hold_reason(guards: &Guards) -> pb::HoldReason {
    match (guards.hold_turns > 0, guards.breaker_open) {
        (false, _) => pb::HoldReason::None,
        (true, true) => pb::HoldReason::Breaker,
        (true, false) => pb::HoldReason::Undo,
    }
}

/// The token limits of a model.
pub(super) fn window(window: ModelWindow) -> pb::ModelWindow {
    pb::ModelWindow {
        model: window.model,
        max_context_tokens: window.context,
        max_input_tokens: window.input,
        max_output_tokens: window.output,
        overhead_tokens: window.overhead,
    }
}

/// The token limits of a model.
pub(in crate::grpc) fn read_window(window: pb::ModelWindow) -> ModelWindow {
    ModelWindow {
        model: window.model,
        context: window.max_context_tokens,
        input: window.max_input_tokens,
        output: window.max_output_tokens,
        overhead: window.overhead_tokens,
    }
}

/// The properties of a new session.
pub(in crate::grpc) fn read_new(request: pb::CreateSessionRequest) -> NewSession {
    NewSession {
        client_id: request.client_id,
        title: request.title,
        preset: request.preset,
        policy_json: request.policy_json,
        policy_override_json: request.policy_override_json,
        window: request.window.map(read_window).unwrap_or_default(),
        metadata_json: request.metadata_json,
        parent: request.parent_session_id,
    }
}

/// A change of a session.
pub(in crate::grpc) fn read_change(request: pb::UpdateSessionRequest) -> SessionChange {
    SessionChange {
        title: request.title,
        metadata_json: request.metadata_json,
        window: request.window.map(read_window),
        preset: request.preset,
        policy_json: request.policy_json,
        policy_override_json: request.policy_override_json,
        expected_revision: request.expected_revision,
    }
}

/// The context usage after a write.
pub(in crate::grpc) fn context_usage(context: &ContextUsage) -> pb::ContextUsage {
    let ContextUsage { context_tokens, window_tokens, due_tokens, due, pending, usage_doubt: doubt } = *context;
    let ratio = match context_tokens {
        // Token counts stay far below 2^53, up to which the division is exact.
        Some(tokens) if window_tokens > 0 => tokens as f64 / window_tokens as f64,
        _ => 0.0,
    };
    pb::ContextUsage {
        context_tokens,
        window_tokens,
        ratio,
        due_tokens: due_tokens.unwrap_or(0),
        pending_compaction_id: id(pending),
        compaction_due: due,
        usage_doubt: usage_doubt(doubt).into(),
    }
}

/// The reason for which reported usage is not believed.
pub(super) fn usage_doubt(doubt: Option<UsageDoubt>) -> pb::UsageDoubt {
    match doubt {
        None => pb::UsageDoubt::Unspecified,
        Some(UsageDoubt::NoInput) => pb::UsageDoubt::NoInput,
        Some(UsageDoubt::BelowView) => pb::UsageDoubt::BelowView,
        Some(UsageDoubt::AboveWindow) => pb::UsageDoubt::AboveWindow,
        Some(UsageDoubt::Sum) => pb::UsageDoubt::Sum,
        Some(UsageDoubt::Stale) => pb::UsageDoubt::Stale,
    }
}

/// The reason for which a view exceeds its window.
pub(in crate::grpc) fn over_window(found: OverWindow) -> pb::OverWindow {
    let reason = over_window_reason(found.reason).into();
    let wait_end_time = found.wait_end.map(pb::timestamp);
    pb::OverWindow { reason, message: found.message, wait_end_time }
}

/// The kind of reason for which a view exceeds its window.
pub(in crate::grpc) fn over_window_reason(reason: OverWindowReason) -> pb::OverWindowReason {
    match reason {
        OverWindowReason::Pending => pb::OverWindowReason::Pending,
        OverWindowReason::Confirmation => pb::OverWindowReason::Confirmation,
        OverWindowReason::Retry => pb::OverWindowReason::Retry,
        OverWindowReason::AutomaticOff => pb::OverWindowReason::AutomaticOff,
        OverWindowReason::UndoHold => pb::OverWindowReason::UndoHold,
        OverWindowReason::FixedContent => pb::OverWindowReason::FixedContent,
        OverWindowReason::LastResortFailed => pb::OverWindowReason::LastResortFailed,
        OverWindowReason::OtherWindow => pb::OverWindowReason::OtherWindow,
    }
}

/// Durability of an acknowledged write.
pub(in crate::grpc) fn durability(durability: Durability) -> pb::Durability {
    match durability {
        Durability::Full => pb::Durability::Full,
        Durability::ProcessCrash => pb::Durability::ProcessCrash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_hold_is_named_only_while_it_holds() {
        let of = |hold_turns, breaker_open| hold_reason(&Guards { hold_turns, breaker_open, ..Guards::default() });
        assert_eq!((of(0, false), of(0, true)), (pb::HoldReason::None, pb::HoldReason::None));
        assert_eq!((of(1, false), of(3, true)), (pb::HoldReason::Undo, pb::HoldReason::Breaker));
    }
}

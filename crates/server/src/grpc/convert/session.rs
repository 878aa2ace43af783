//! Conversion of sessions and windows.

use super::{count, id, not_given, read_enum, read_optional_time};
use crate::app::append::ContextUsage;
use crate::app::session_list::{ListSessions, SessionConditions, SessionOrder, TimeRange};
use crate::app::session_watch::ListFrame;
use crate::app::sessions::{NewSession, SessionChange, SessionInfo};
use crate::app::{Durability, Result};
use crate::grpc::wire;
use crate::model::compaction::{Level, LevelThreshold, UnmetLevel};
use crate::model::mark::WordsStance;
use crate::model::session::{Guards, OverWindow, OverWindowReason, Session, SessionState};
use crate::model::usage::{ModelWindow, UsageDoubt, UsageTotals, WindowSource};
use crate::pb;

/// A session with its policy.
pub(in crate::grpc) fn session(info: SessionInfo) -> pb::Session {
    let SessionInfo { session, policy_json, thresholds: due, .. } = info;
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
        create_time: Some(wire::timestamp(session.create_time)),
        update_time: Some(wire::timestamp(session.update_time)),
        guard_state: Some(guard_state(session.guards)),
        actor: session.actor,
        labels: session.labels,
        usage_total: Some(usage_totals(session.usage)),
        thresholds: thresholds(due),
        origin_start_time: session.origin.map(|times| wire::timestamp(times.start)),
        origin_end_time: session.origin.map(|times| wire::timestamp(times.end)),
    }
}

/// What becomes of a message's words.
pub(in crate::grpc) fn words_stance(stance: Option<WordsStance>) -> pb::WordsStance {
    match stance {
        None => pb::WordsStance::Open,
        Some(WordsStance::Struck) => pb::WordsStance::Struck,
        Some(WordsStance::Kept) => pb::WordsStance::Kept,
    }
}

pub(in crate::grpc) fn read_words_stance(field: &str, number: i32) -> Result<Option<WordsStance>> {
    match read_enum(field, number)? {
        pb::WordsStance::Unspecified => Err(not_given(field)),
        pb::WordsStance::Open => Ok(None),
        pb::WordsStance::Struck => Ok(Some(WordsStance::Struck)),
        pb::WordsStance::Kept => Ok(Some(WordsStance::Kept)),
    }
}

/// A level of the policy; unspecified for none.
pub(in crate::grpc) fn level(level: Option<Level>) -> pb::CompactionLevel {
    match level {
        None => pb::CompactionLevel::Unspecified,
        Some(Level::Micro) => pb::CompactionLevel::Micro,
        Some(Level::Auto) => pb::CompactionLevel::Auto,
        Some(Level::Deep) => pb::CompactionLevel::Deep,
    }
}

/// The level that a request names; none if it names none.
pub(in crate::grpc) fn read_level(number: i32) -> Result<Option<Level>> {
    Ok(match read_enum("level", number)? {
        pb::CompactionLevel::Unspecified => None,
        pb::CompactionLevel::Micro => Some(Level::Micro),
        pb::CompactionLevel::Auto => Some(Level::Auto),
        pb::CompactionLevel::Deep => Some(Level::Deep),
    })
}

/// Thresholds of a policy's levels.
pub(in crate::grpc) fn thresholds(due: Vec<LevelThreshold>) -> Vec<pb::LevelThreshold> {
    let threshold = |LevelThreshold { level, due_tokens, unmet }| pb::LevelThreshold {
        level: self::level(Some(level)).into(),
        due_tokens,
        unmet_message: unmet.map(|unmet: UnmetLevel| unmet.to_string()),
    };
    due.into_iter().map(threshold).collect()
}

fn usage_totals(totals: UsageTotals) -> pb::UsageTotals {
    let UsageTotals { input, output, reasoning, cache_read, cache_write, cost_micros } = totals;
    pb::UsageTotals {
        input_tokens: input,
        output_tokens: output,
        reasoning_tokens: reasoning,
        cache_read_tokens: cache_read,
        cache_write_tokens: cache_write,
        cost_micro_usd: cost_micros,
    }
}

/// Parameters of a page of sessions.
pub(in crate::grpc) fn read_list(request: pb::ListSessionsRequest) -> Result<ListSessions> {
    let pb::ListSessionsRequest {
        page_size,
        page_token,
        parent_session_id,
        include_archived,
        filter,
        order,
        detail,
        include_page_tokens: _,
    } = request;
    let order = match read_enum("order", order)? {
        pb::SessionOrder::Unspecified | pb::SessionOrder::NewestFirst => SessionOrder::NewestFirst,
        pb::SessionOrder::OldestFirst => SessionOrder::OldestFirst,
        pb::SessionOrder::LastChangedFirst => SessionOrder::LastChangedFirst,
        pb::SessionOrder::LastChangedLast => SessionOrder::LastChangedLast,
    };
    let has_policies = match read_enum("detail", detail)? {
        pb::SessionDetail::Unspecified | pb::SessionDetail::Basic => false,
        pb::SessionDetail::Full => true,
    };
    let conditions = read_conditions(parent_session_id, include_archived, filter)?;
    Ok(ListSessions { page_size: page_size.into(), page_token, conditions, order, has_policies })
}

/// Conditions on sessions.
pub(in crate::grpc) fn read_conditions(
    parent: Option<String>,
    archived: bool,
    filter: Option<pb::SessionFilter>,
) -> Result<SessionConditions> {
    let filter = filter.unwrap_or_default();
    let state = match read_enum("filter.state", filter.state)? {
        pb::SessionState::Unspecified => None,
        pb::SessionState::Active => Some(SessionState::Active),
        pb::SessionState::Archived => Some(SessionState::Archived),
        pb::SessionState::Erased => Some(SessionState::Erased),
    };
    let create_time = TimeRange {
        start: read_optional_time("filter.min_create_time", filter.min_create_time)?,
        end: read_optional_time("filter.max_create_time", filter.max_create_time)?,
    };
    let update_time = TimeRange {
        start: read_optional_time("filter.min_update_time", filter.min_update_time)?,
        end: read_optional_time("filter.max_update_time", filter.max_update_time)?,
    };
    let origin_time = TimeRange {
        start: read_optional_time("filter.min_origin_time", filter.min_origin_time)?,
        end: read_optional_time("filter.max_origin_time", filter.max_origin_time)?,
    };
    Ok(SessionConditions {
        root: filter.root_session_id,
        parent,
        project: filter.project,
        directory: filter.directory,
        labels: filter.labels,
        metadata: filter.metadata_terms,
        actor: filter.actor,
        state,
        archived,
        title_prefix: filter.title_prefix,
        client_id_prefix: filter.client_id_prefix,
        create_time,
        update_time,
        origin_time,
    })
}

/// A frame of a list that is followed.
pub(in crate::grpc) fn list_frame(frame: ListFrame) -> pb::WatchSessionsResponse {
    use pb::watch_sessions_response::Frame;
    let (cursor, frame) = match frame {
        ListFrame::Snapshot { sessions } => {
            let sessions = sessions.into_iter().map(session).collect();
            (String::new(), Frame::SnapshotPage(pb::ListedSessions { sessions }))
        }
        ListFrame::SnapshotEnd { cursor } => (cursor, Frame::SnapshotEnd(pb::SessionSnapshotEnd {})),
        ListFrame::Changes { sessions, removed, cursor } => {
            let changed_sessions = sessions.into_iter().map(session).collect();
            let removed_session_ids = removed.iter().map(ToString::to_string).collect();
            (cursor, Frame::Change(pb::SessionListChanges { changed_sessions, removed_session_ids }))
        }
        ListFrame::Progress { cursor } => (cursor, Frame::Progress(pb::SessionListProgress {})),
    };
    pb::WatchSessionsResponse { cursor, frame: Some(frame) }
}

/// The guards that hold a session's automatic compactions back.
fn guard_state(guards: Guards) -> pb::GuardState {
    pb::GuardState {
        failure_count: count(guards.failure_count),
        hold_turn_count: count(guards.hold_turns),
        hold_reason: hold_reason(&guards).into(),
        cooldown_end_time: guards.cooldown_end.map(wire::timestamp),
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
    let source = match window.source {
        _ if window.input_max().is_none() => pb::WindowSource::Unspecified,
        WindowSource::Client => pb::WindowSource::Client,
        WindowSource::Models => pb::WindowSource::Models,
        WindowSource::ProviderError => pb::WindowSource::ProviderError,
    };
    pb::ModelWindow {
        model: window.model,
        max_context_tokens: window.context,
        max_input_tokens: window.input,
        max_output_tokens: window.output,
        overhead_tokens: window.overhead,
        source: source.into(),
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
        source: WindowSource::Client,
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
        keep_erased: request.keep_erased,
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
    let wait_end_time = found.wait_end.map(wire::timestamp);
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

//! Which calls are carried out once, however often they are sent.

use crate::ids::random_id;
use longhand_protocol as v1;
use longhand_protocol::call::Call;
use std::any::Any;
use std::time::Duration;

/// The time for which the daemon waits if a view does not fit.
const VIEW_WAIT: Duration = Duration::from_secs(30);
/// What calls get more that have much to do.
const SLOW: Duration = Duration::from_secs(300);

/// Gives a change its `request_id`, so that it can be sent again.
pub(crate) fn identify<R: Call>(request: &mut R) {
    // The runs of a tree are several sessions', and no request of one of them.
    if downcast::<v1::CancelRunRequest>(request).is_some_and(|request| request.tree) {
        return;
    }
    if let Some(id) = request.request_id().filter(|id| id.is_empty()) {
        *id = random_id();
    }
}

/// False for a call that would make something else each time that it is sent, or end with another answer.
pub(crate) fn is_repeatable<R: Call>(request: &mut R) -> bool {
    if request.request_id().is_some_and(|id| !id.is_empty()) {
        return true;
    }
    let makes_another = downcast::<v1::CreateSessionRequest>(request).is_some_and(|new| new.client_id.is_none())
        || downcast::<v1::ForkSessionRequest>(request).is_some_and(|new| new.client_id.is_none())
        || downcast::<v1::CreateAccessTokenRequest>(request).is_some()
        || downcast::<v1::CreateConsoleLinkRequest>(request).is_some();
    // The next attempt takes another task, or finds none where the first one ended it.
    let ends_a_task = downcast::<v1::LeaseSummaryTaskRequest>(request).is_some()
        || downcast::<v1::CompleteSummaryTaskRequest>(request).is_some()
        || downcast::<v1::DelegateSummaryTaskRequest>(request).is_some()
        || downcast::<v1::FailSummaryTaskRequest>(request).is_some();
    !makes_another && !ends_a_task
}

/// The time that a request has the daemon wait for something, or work on it.
pub(crate) fn extra_time<R: Call>(request: &R) -> Duration {
    let wait = |asked: Option<prost_types::Duration>| asked.and_then(|asked| Duration::try_from(asked).ok());
    if let Some(view) = downcast::<v1::GetViewRequest>(request) {
        let waits = view.overflow_action() == v1::OverflowAction::Wait;
        return if waits { wait(view.wait_timeout).unwrap_or(VIEW_WAIT) } else { Duration::ZERO };
    }
    if let Some(lease) = downcast::<v1::LeaseSummaryTaskRequest>(request) {
        return wait(lease.wait_timeout).unwrap_or_default();
    }
    if let Some(search) = downcast::<v1::SearchHistoryRequest>(request) {
        return wait(search.wait_timeout).unwrap_or_default();
    }
    // Bytes leave the files before the answer; a model writes a summary.
    let is_slow = downcast::<v1::EraseContentRequest>(request).is_some()
        || downcast::<v1::RewindSessionRequest>(request).is_some_and(|rewind| rewind.branch_summary.is_some());
    if is_slow { SLOW } else { Duration::ZERO }
}

fn downcast<T: 'static>(request: &impl Any) -> Option<&T> {
    (request as &dyn Any).downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand_protocol::DESCRIPTORS;
    use std::collections::BTreeSet;

    #[test]
    fn a_change_gets_an_id_unless_it_has_one() {
        let mut append = v1::AppendMessagesRequest::default();
        identify(&mut append);
        let id = append.request_id.clone();
        assert_eq!(id.len(), 32);
        identify(&mut append);
        assert_eq!(append.request_id, id);
        let mut cancel = v1::CancelRunRequest { tree: true, ..v1::CancelRunRequest::default() };
        identify(&mut cancel);
        assert_eq!(cancel.request_id, "");
        let mut create = v1::CreateSessionRequest::default();
        assert!(!is_repeatable(&mut create));
        assert!(!is_repeatable(&mut v1::CompleteSummaryTaskRequest::default()));
        create.client_id = Some("mine".to_owned());
        assert!(is_repeatable(&mut create) && is_repeatable(&mut append));
    }

    /// A new method without a `request_id` is to be looked at: it belongs into this list, and perhaps into `is_repeatable`.
    #[test]
    fn every_change_without_an_id_is_known() {
        let methods = DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let scope = DESCRIPTORS.get_extension_by_name("longhand.v1.scope").expect("the protos declare it");
        let read = Some(v1::Scope::Read as i32);
        let changes = methods.filter(|method| {
            let is_more_than_reading = method.options().get_extension(&scope).as_enum_number() != read;
            is_more_than_reading
                && !method.is_server_streaming()
                && method.input().get_field_by_name("request_id").is_none()
        });
        let changes: BTreeSet<String> = changes.map(|method| method.name().to_owned()).collect();
        let known = [
            "AppendDraft",
            "CancelCompaction",
            "CheckSummaryTask",
            "CompleteSummaryTask",
            "ConfirmCompaction",
            "CreateAccessToken",
            "CreateConsoleLink",
            "CreateSession",
            "DelegateSummaryTask",
            "EditSummaryTask",
            "ExtendSummaryTask",
            "FailSummaryTask",
            "ForkSession",
            "GetCluster",
            "ImportSession",
            "LeaseSummaryTask",
            "ListAccessTokens",
            "ListHeads",
            "MoveShard",
            "RenewRun",
            "RevokeAccessToken",
            "WriteMessage",
        ];
        assert_eq!(changes.iter().map(String::as_str).collect::<Vec<_>>(), known);
    }
}

//! Trees of sessions: those that work for another one, at any depth, are listed, watched and stopped with it.

use super::client::Client;
use super::record::{Session, lock};
use longhand::pb;
use pb::event::Body;
use std::collections::HashSet;

/// A request to stop the runs of a tree, which was answered.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeCancel {
    /// The session at the root.
    pub(super) root: String,
    /// The newest event that any client knew of when the request was sent.
    pub(super) after_seq: i64,
    /// The newest event of its store a moment after the answer, or one behind it.
    pub(super) to_seq: i64,
    /// The runs of the answer.
    pub(super) runs: Vec<pb::Run>,
}

/// The sessions of a tree by the log. `with_forks` adds those that were forked from one of them.
pub(super) fn members(events: &[pb::Event], root: &str, with_forks: bool) -> HashSet<String> {
    let mut members = HashSet::from([root.to_owned()]);
    // A session is younger than the one that it works for.
    for event in events {
        let above = match &event.body {
            Some(Body::SessionCreated(body)) => body.parent_session_id.as_ref(),
            Some(Body::SessionForked(body)) => Some(&body.source_session_id).filter(|_| with_forks),
            _ => None,
        };
        if above.is_some_and(|above| members.contains(above)) {
            members.insert(event.session_id.clone());
        }
    }
    members
}

/// What is wrong with the answer to a request to stop the runs of a tree: it names runs of the tree that are to stop, and
/// none is left out that was active all the time and was not asked to stop.
pub(super) fn cancel_fault(events: &[pb::Event], cancel: &TreeCancel) -> Option<String> {
    let TreeCancel { root, after_seq, to_seq, runs } = cancel;
    let members = members(events, root, false);
    let mut active: HashSet<&str> = HashSet::new();
    let mut sessions: HashSet<(&str, &str)> = HashSet::new();
    for event in events.iter().filter(|event| event.seq <= *to_seq && members.contains(&event.session_id)) {
        match &event.body {
            Some(Body::RunStarted(body)) => {
                sessions.insert((&event.session_id, &body.run_id));
                // One that began meanwhile may have come too late.
                if event.seq <= *after_seq {
                    active.insert(&body.run_id);
                }
            }
            Some(Body::RunCancelRequested(body)) => drop(active.remove(body.run_id.as_str())),
            Some(Body::RunEnded(body)) => drop(active.remove(body.run_id.as_str())),
            _ => {}
        }
    }
    if !active.is_empty() {
        return Some(format!("run: the tree of {root} was stopped, and {active:?} was not asked to: {cancel:?}"));
    }
    let is_strange = |run: &&pb::Run| {
        let is_of_tree = sessions.iter().any(|(_, id)| *id == run.run_id);
        !is_of_tree || (run.cancel_revision.is_none() && run.end.is_none())
    };
    let strange = runs.iter().find(is_strange)?;
    Some(format!("run: the tree of {root} was stopped with {strange:?}, which is not of it, or not to stop"))
}

/// Stops the runs of a tree, as a person does.
pub(super) async fn cancel(client: &mut Client, session: &Session, force: bool) {
    let session_id = session.id.clone();
    let request = pb::CancelRunRequest { session_id, force, tree: true, ..pb::CancelRunRequest::default() };
    let lost = client.lost;
    let answer = client.ask(&request).await;
    let after_seq = client.asked_after(&session.id);
    match answer {
        // Whatever an attempt without an answer stopped is not in the answer to the next one, and is stopped.
        Ok(answer) => {
            let Ok(info) = client.ask(&pb::GetServerInfoRequest {}).await else { return };
            let runs = if client.lost > lost { Vec::new() } else { answer.runs };
            // Of several stores only the sum is known, which is beyond the end of each.
            let (root, to_seq) = (session.id.clone(), client.shared.record.number(&session.id, info.head_seq));
            lock(&client.shared.record.tree_cancels).push(TreeCancel { root, after_seq, to_seq, runs });
        }
        Err(refusal) => super::agents::note_refusal(
            client,
            session,
            "CancelRun",
            refusal,
            super::agreement::Refused::default(),
            &[],
        ),
    }
}

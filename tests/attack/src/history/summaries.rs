//! Clients that write summaries: they lease tasks, change them, complete them with good and bad texts, and lose
//! leases on purpose.

use super::client::{Client, NO_ANSWER};
use super::record::{count, lock};
use super::{content, markers};
use longhand::pb;
use rand::Rng as _;
use rand::seq::IteratorRandom as _;
use std::time::Duration;

/// Refusals that the holder of a task may get: every kill ends all leases.
const REFUSALS: [&str; 4] = ["SUMMARY_TASK_NOT_FOUND", "SUMMARY_LEASE_LOST", "REVISION_MISMATCH", NO_ANSWER];

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

/// Main loop of a summary client.
pub(super) async fn run(mut client: Client) {
    while !client.shared.is_stopping() {
        let request = pb::LeaseSummaryTaskRequest {
            wait_timeout: seconds(1),
            lease_timeout: seconds(1),
            ..pb::LeaseSummaryTaskRequest::default()
        };
        match client.ask(&request).await {
            Ok(pb::LeaseSummaryTaskResponse { task: Some(task), lease_token, .. }) => {
                work(&mut client, &task, lease_token).await;
            }
            Ok(_) => {}
            // The daemon was started without tasks for clients.
            Err(refusal) if refusal.reason == "SUMMARY_TASKS_OFF" => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(refusal) if refusal.reason == NO_ANSWER => {}
            Err(refusal) => client.finding(format!("P14: a wait for a task was refused: {refusal:?}")),
        }
    }
}

async fn work(client: &mut Client, task: &pb::SummaryTask, lease_token: String) {
    let compaction_id = task.compaction_id.clone();
    if client.rng.random_bool(0.15) {
        let request = pb::EditSummaryTaskRequest {
            compaction_id: compaction_id.clone(),
            lease_token: lease_token.clone(),
            instructions: Some("dwell on the tests".to_owned()),
            details_json: Some("{\"by\": \"client\"}".to_owned()),
            ..pb::EditSummaryTaskRequest::default()
        };
        if let Err(refusal) = client.ask(&request).await {
            return check(client, "a change of a task", &refusal.reason, &["BOUNDARY_INVALID"]);
        }
    }
    match client.rng.random_range(0..20) {
        0 => {
            // The lease has expired by now, and another client may have the task.
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            complete(client, task, lease_token, true).await;
        }
        1 => {
            let request = pb::ExtendSummaryTaskRequest {
                compaction_id: compaction_id.clone(),
                lease_token: lease_token.clone(),
                lease_timeout: seconds(2),
            };
            match client.ask(&request).await {
                Ok(_) => complete(client, task, lease_token, false).await,
                Err(refusal) => check(client, "an extension", &refusal.reason, &[]),
            }
        }
        2 => {
            let failure = if client.rng.random_bool(0.5) {
                pb::SummaryTaskFailure::Transient
            } else {
                pb::SummaryTaskFailure::Permanent
            };
            let request = pb::FailSummaryTaskRequest { compaction_id, lease_token, failure: failure.into() };
            if let Err(refusal) = client.ask(&request).await {
                check(client, "a failure", &refusal.reason, &[]);
            }
        }
        3 => {
            let request = pb::DelegateSummaryTaskRequest { compaction_id, lease_token, base_revision: None };
            if let Err(refusal) = client.ask(&request).await {
                check(client, "a delegation", &refusal.reason, &[]);
            }
        }
        // The client abandons the task.
        4 => {}
        5 => {
            bad(client, task, lease_token.clone()).await;
            complete(client, task, lease_token, false).await;
        }
        _ => complete(client, task, lease_token, false).await,
    }
}

fn check(client: &Client, what: &str, reason: &str, more: &[&str]) {
    if !REFUSALS.contains(&reason) && !more.contains(&reason) {
        client.finding(format!("P14: {what} of a summary task was refused with {reason}"));
    }
}

/// A summary with the sections that most policies require.
fn summary(client: &mut Client) -> String {
    let mut text = String::new();
    for section in ["Goal", "Instructions", "Discoveries", "Accomplished", "Relevant files"] {
        text.push_str(&format!("## {section}\n- {}\n", content::words(&mut client.rng, 40).replace('\n', " ")));
    }
    text
}

async fn complete(client: &mut Client, task: &pb::SummaryTask, lease_token: String, is_late: bool) {
    // A summary quotes what it covers, also earlier summaries.
    let quoted = markers::scan(task.prompt.as_bytes()).into_iter().choose(&mut client.rng);
    let quoted = quoted.map(|marker| format!("It said {}.\n", markers::text(&marker))).unwrap_or_default();
    let own = summary(client);
    client.shared.record.markers.wrote(&task.session_id, "CompleteSummaryTask", own.as_bytes());
    let text = own + &quoted;
    let request = pb::CompleteSummaryTaskRequest {
        compaction_id: task.compaction_id.clone(),
        lease_token,
        base_revision: client.rng.random_bool(0.5).then_some(task.base_revision),
        text: text.clone(),
        model: "a client's model".to_owned(),
        reason: pb::FinishReason::Stop.into(),
        ..pb::CompleteSummaryTaskRequest::default()
    };
    // Recorded before the answer: a request whose answer is lost may have been accepted.
    lock(&client.shared.record.summaries).entry(task.compaction_id.clone()).or_default().push(text);
    match client.ask(&request).await {
        Ok(_) => count(&client.shared.record.counts.client_summaries),
        // A summary may be too large for the space that a small window leaves.
        Err(refusal) => check(
            client,
            if is_late { "a late completion" } else { "a completion" },
            &refusal.reason,
            &["SUMMARY_REFUSED"],
        ),
    }
}

/// Completes a task with a text that cannot be a summary.
async fn bad(client: &mut Client, task: &pb::SummaryTask, lease_token: String) {
    let is_cut_off = client.rng.random_bool(0.5);
    let request = pb::CompleteSummaryTaskRequest {
        compaction_id: task.compaction_id.clone(),
        lease_token,
        text: if is_cut_off { summary(client) } else { "  \n".to_owned() },
        reason: if is_cut_off { pb::FinishReason::Length } else { pb::FinishReason::Stop }.into(),
        ..pb::CompleteSummaryTaskRequest::default()
    };
    match client.ask(&request).await {
        Ok(_) => client.finding(format!("P14: a bad summary was accepted: {request:?}")),
        Err(refusal) => check(client, "a bad completion", &refusal.reason, &["SUMMARY_REFUSED"]),
    }
}

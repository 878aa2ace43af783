//! Agents: they acquire runs, take prompts, ask questions, and write on behalf of their runs, also of those that they
//! lost.

use super::agreement::{Answer, Limit, Refused};
use super::client::{Client, NO_ANSWER};
use super::content;
use super::reasons::{self, Refusal};
use super::record::{FrontCall, Session, lock};
use super::rpc::Mutation;
use super::{open, people, run_watches, writers};
use longhand::pb;
use pb::{FinishReason, Role};
use rand::Rng as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::JoinSet;

/// A lease that does not run out within an attack.
const LONG_LEASE: Duration = Duration::from_secs(3_600);
/// Number of past runs that an agent remembers.
const PAST_MAX: usize = 12;

/// A run as its agent knows it.
#[derive(Clone)]
struct Held {
    session: Arc<Session>,
    epoch: i64,
    lease: Duration,
}

/// Main loop of an agent.
pub(super) async fn run(mut client: Client, pause_ms: u64) {
    let mut past: Vec<Held> = Vec::new();
    let mut follows = JoinSet::new();
    while !client.shared.is_stopping() {
        let Some(session) = client.some_session() else { return };
        match client.rng.random_range(0..100) {
            0..60 => {
                if let Some(held) = acquire(&mut client, &session).await {
                    if client.rng.random_bool(0.6) {
                        follows.spawn(run_watches::follow(client.another(), session.clone(), held.epoch));
                    }
                    work(&mut client, &held).await;
                    if past.len() >= PAST_MAX {
                        past.remove(0);
                    }
                    past.push(held);
                }
            }
            60..85 if !past.is_empty() => {
                let index = client.rng.random_range(0..past.len());
                let held = past[index].clone();
                come_back(&mut client, &held).await;
            }
            60..92 => people::read(&mut client, &session).await,
            _ => client.send_kept().await,
        }
        let pause = client.rng.random_range(0..=pause_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    while follows.join_next().await.is_some() {}
}

/// Sends a change of runs, prompts or approvals. A refusal is compared with the log later; it may have one of the
/// reasons in `more`.
pub(super) async fn change<M: Mutation>(
    client: &mut Client,
    session: &Session,
    request: M,
    refused: Refused,
    more: &[&str],
) -> Option<M::Answer> {
    match client.apply(session, request, None).await {
        Ok(answer) => Some(answer),
        Err(refusal) => {
            note_refusal(client, session, M::NAME, refusal, refused, more);
            None
        }
    }
}

/// Records a refusal to be compared with the log, and reports one that may not be.
pub(super) fn note_refusal(
    client: &Client,
    session: &Session,
    rpc: &'static str,
    refusal: Refusal,
    refused: Refused,
    more: &[&str],
) {
    let reason = refusal.reason.as_str();
    if reason == NO_ANSWER {
        return;
    }
    let in_run = reason == "RUN_LOST" && refused.epoch.is_some();
    if !reasons::is_closed(reason) && !in_run && !more.contains(&reason) {
        client.finding(format!("P14: {rpc} was refused: {refusal:?}"));
    }
    let Refused { epoch, subjects, is_steering_only, .. } = refused;
    let refused = Refused { epoch, subjects, is_steering_only, ..Refused::of(rpc, &refusal) };
    client.observe(&session.id, Answer::Refused(refused));
}

async fn acquire(client: &mut Client, session: &Arc<Session>) -> Option<Held> {
    let lease = match client.rng.random_range(0..3) {
        0 => LONG_LEASE,
        _ => Duration::from_millis(client.rng.random_range(1_000..3_000)),
    };
    let request = pb::AcquireRunRequest {
        session_id: session.id.clone(),
        lease_timeout: prost_types::Duration::try_from(lease).ok(),
        take_prompt: client.rng.random_bool(0.6),
        request_id: client.fresh_id(),
    };
    let from = SystemTime::now();
    let answer = change(client, session, request, Refused::default(), &["RUN_ACTIVE", "NO_PROMPT"]).await?;
    let epoch = answer.run.as_ref().map_or(0, |run| run.epoch);
    if epoch < 1 {
        client.finding(format!("run: an answer has no run: {answer:?}"));
        return None;
    }
    let held = Held { session: session.clone(), epoch, lease };
    note_lease(client, &held, from);
    Some(held)
}

fn note_lease(client: &Client, held: &Held, from: SystemTime) {
    let limit = Limit { from, length: held.lease };
    lock(&client.shared.record.written).leases.insert((held.session.id.clone(), held.epoch), limit);
}

/// Does a few steps of a run, then ends it, or leaves it to its lease.
async fn work(client: &mut Client, held: &Held) {
    for _ in 0..client.rng.random_range(1..9) {
        if client.shared.is_stopping() {
            break;
        }
        step(client, held).await;
        let pause = client.rng.random_range(0..30);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    if client.rng.random_bool(0.75) {
        release(client, held).await;
    }
}

/// One step on behalf of a run, which may be over.
async fn step(client: &mut Client, held: &Held) {
    match client.rng.random_range(0..100) {
        0..22 => take(client, held).await,
        22..34 => renew(client, held).await,
        34..52 => ask(client, held).await,
        52..56 => interrupt(client, held).await,
        kind => {
            client.epoch = Some(held.epoch);
            match kind {
                56..66 => open::stream(client, &held.session).await,
                66..72 => draft(client, held).await,
                _ => append(client, held).await,
            }
            client.epoch = None;
        }
    }
}

async fn take(client: &mut Client, held: &Held) {
    let session = &held.session;
    let mut request = pb::TakePromptRequest {
        session_id: session.id.clone(),
        epoch: held.epoch,
        request_id: client.fresh_id(),
        ..pb::TakePromptRequest::default()
    };
    match client.rng.random_range(0..4) {
        0 => request.steering_only = true,
        1 => request.prompt_id = people::some_prompt(client, session),
        _ => {}
    }
    let subjects = request.prompt_id.iter().cloned().collect();
    let is_steering_only = request.steering_only;
    let refused = Refused { epoch: Some(held.epoch), subjects, is_steering_only, ..Refused::default() };
    if client.rng.random_bool(0.5) {
        client.epoch = Some(held.epoch);
    }
    change(client, session, request, refused, &["NO_PROMPT", "PROMPT_ENDED"]).await;
    client.epoch = None;
}

async fn renew(client: &mut Client, held: &Held) {
    let request = pb::RenewRunRequest {
        session_id: held.session.id.clone(),
        epoch: held.epoch,
        lease_timeout: prost_types::Duration::try_from(held.lease).ok(),
    };
    let from = SystemTime::now();
    match client.ask(&request).await {
        Ok(answer) => {
            client.observe(&held.session.id, Answer::InRun(held.epoch));
            if answer.run.is_some_and(|run| run.cancel_revision.is_none() && run.end.is_none()) {
                note_lease(client, held, from);
            }
        }
        Err(refusal) => {
            let refused = Refused { epoch: Some(held.epoch), ..Refused::default() };
            note_refusal(client, &held.session, "RenewRun", refusal, refused, &[]);
        }
    }
}

async fn release(client: &mut Client, held: &Held) {
    let failure = client.rng.random_bool(0.15).then(|| content::words(&mut client.rng, 20));
    let (session_id, request_id) = (held.session.id.clone(), client.fresh_id());
    let request = pb::ReleaseRunRequest { session_id, epoch: held.epoch, failure, request_id };
    let refused = Refused { epoch: Some(held.epoch), ..Refused::default() };
    change(client, &held.session, request, refused, &[]).await;
}

/// Stops the own run, as an agent that is asked to by its person.
async fn interrupt(client: &mut Client, held: &Held) {
    let (session_id, request_id) = (held.session.id.clone(), client.fresh_id());
    let force = client.rng.random_bool(0.5);
    let request = pb::CancelRunRequest { session_id, epoch: Some(held.epoch), force, tree: false, request_id };
    let refused = Refused { epoch: Some(held.epoch), ..Refused::default() };
    change(client, &held.session, request, refused, &["RUN_NOT_FOUND"]).await;
}

/// Asks a question, mostly on behalf of the run, and asks again by the same request, as an agent that was restarted.
async fn ask(client: &mut Client, held: &Held) {
    let session = &held.session;
    let length = content::length(&mut client.rng).min(2_000);
    let timeout_ms: Option<u64> = client.rng.random_bool(0.4).then(|| client.rng.random_range(1_000..2_500));
    let choice = |id: &str| pb::Choice { id: id.to_owned(), label: format!("{id}!") };
    let question = pb::Question {
        text: content::words(&mut client.rng, 60),
        tool: "bash".to_owned(),
        call_id: client.fresh_id(),
        input_json: client
            .rng
            .random_bool(0.5)
            .then(|| serde_json::json!({ "command": content::words(&mut client.rng, length) }).to_string()),
        choices: vec![choice("yes"), choice("no"), choice("always")],
        accepts_text: client.rng.random_bool(0.5),
        default_choice: timeout_ms.map(|_| "no".to_owned()),
        answer_timeout: timeout_ms
            .and_then(|timeout| prost_types::Duration::try_from(Duration::from_millis(timeout)).ok()),
    };
    let (session_id, request_id) = (session.id.clone(), client.fresh_id());
    let request = pb::RequestApprovalRequest { session_id, question: Some(question.clone()), request_id };
    client.epoch = client.rng.random_bool(0.8).then_some(held.epoch);
    let refused = Refused { epoch: client.epoch, ..Refused::default() };
    let from = SystemTime::now();
    let answer = change(client, session, request.clone(), refused, &["LIMIT_EXCEEDED"]).await;
    if let Some(approval) = answer.and_then(|answer| answer.approval) {
        let (epoch, actor) = (client.epoch, client.name.clone());
        let id = approval.approval_id;
        let limit = timeout_ms.map(|timeout| (id.clone(), Limit { from, length: Duration::from_millis(timeout) }));
        lock(&client.shared.record.written).limits.extend(limit);
        let asked = pb::Approval { question: Some(question), epoch, actor, ..pb::Approval::default() };
        lock(&client.shared.record.written).approvals.insert(id, asked);
        let pause = client.rng.random_range(0..60);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        match client.ask(&request).await {
            Ok(pb::RequestApprovalResponse { approval: Some(again), .. }) => {
                client.observe(&session.id, Answer::Approval(Box::new(again)));
            }
            other => client.finding(format!("P4: a question that is asked again came to {other:?}")),
        }
    }
    client.epoch = None;
}

/// Appends a message on behalf of a run, mostly with calls that it leaves to front ends, or to the end of the run.
async fn append(client: &mut Client, held: &Held) {
    let mut parts = vec![content::text(content::words(&mut client.rng, 60))];
    let mut call_ids = Vec::new();
    if client.rng.random_bool(0.8) {
        call_ids.extend((0..client.rng.random_range(1..4)).map(|_| client.fresh_id()));
    }
    parts.extend(call_ids.iter().map(|call_id| content::call(&mut client.rng, call_id, call_id)));
    let message = writers::message(client, Role::Assistant, parts);
    match writers::append(client, &held.session, vec![message], None).await {
        Ok(ids) => {
            let message_id = ids.first().cloned().unwrap_or_default();
            let calls = call_ids.into_iter().map(|call_id| FrontCall { call_id, message_id: message_id.clone() });
            calls.for_each(|call| held.session.note_call(call));
        }
        Err(refusal) => writers::check_plain(client, "append of a run", &refusal),
    }
}

/// Begins a message, adds words by calls that leave no event, and leaves it open for the end of the run.
async fn draft(client: &mut Client, held: &Held) {
    let mut begun = writers::message(client, Role::Assistant, Vec::new());
    begun.finish = None;
    begun.open = true;
    let ids = match writers::append(client, &held.session, vec![begun], None).await {
        Ok(ids) => ids,
        Err(refusal) => return writers::check_plain(client, "append of a run's open message", &refusal),
    };
    let Some(open) = ids.first().and_then(|id| open::open_message(client, id)) else { return };
    for _ in 0..client.rng.random_range(1..5) {
        if !open::step(client, &held.session, &open).await {
            break;
        }
    }
    if client.rng.random_bool(0.4) {
        open::finish_as(client, &held.session, &open, FinishReason::Stop).await;
    }
}

/// Comes back to a run of the past, which is over more often than not, and goes on as if it were not.
async fn come_back(client: &mut Client, held: &Held) {
    for _ in 0..client.rng.random_range(1..4) {
        step(client, held).await;
    }
    if client.rng.random_bool(0.5) {
        release(client, held).await;
    }
}

//! People: they submit prompts, also with rewinds and with results of tools, move and withdraw them, answer questions,
//! several at once, and stop runs; and they read all of it meanwhile.

use super::agents::{change, note_refusal};
use super::agreement::{Answer, Refused};
use super::client::Client;
use super::content;
use super::record::{FrontCall, Session, lock};
use super::rpc::End;
use super::{rewriters, trees};
use longhand::pb;
use pb::Delivery;
use rand::Rng as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Main loop of two people, who often do the same at the same time.
pub(super) async fn run(mut client: Client, mut rival: Client, pause_ms: u64) {
    while !client.shared.is_stopping() {
        let Some(session) = client.some_session() else { return };
        match client.rng.random_range(0..100) {
            0..20 => submit(&mut client, &session).await,
            20..44 => bring_results(&mut client, &mut rival, &session).await,
            44..52 => move_prompt(&mut client, &session).await,
            52..56 => withdraw_prompt(&mut client, &session).await,
            56..68 => answer_both(&mut client, &mut rival, &session).await,
            68..72 => withdraw_approval(&mut client, &session).await,
            72..80 => cancel(&mut client, &session).await,
            80..96 => read(&mut client, &session).await,
            _ => client.send_kept().await,
        }
        let pause = client.rng.random_range(0..=pause_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// Submits a prompt of words: now and then with a rewind, as a person who sends a message again, or only if nothing
/// changed meanwhile.
async fn submit(client: &mut Client, session: &Session) {
    let length = content::length(&mut client.rng);
    let mut parts = vec![content::text(content::words(&mut client.rng, length))];
    if client.rng.random_bool(0.1) {
        let data = (0..client.rng.random_range(1..600)).map(|_| client.rng.random()).collect();
        let source = Some(pb::media_part::Source::Data(data));
        let (mime_type, name) = ("image/png".to_owned(), "shot.png".to_owned());
        parts.push(content::part(pb::part::Body::Media(pb::MediaPart { mime_type, name, source })));
    }
    let mut request = pb::SubmitPromptRequest { parts, ..pb::SubmitPromptRequest::default() };
    let again = client.rng.random_bool(0.25);
    if let Some(id) = rewriters::target(client, session).filter(|_| again) {
        let end = if client.rng.random_bool(0.03) { End::ToStart(true) } else { End::MessageId(id) };
        request.rewind = Some(pb::Rewind { target: Some(end) });
    }
    if again || client.rng.random_bool(0.15) {
        request.expected_revision = rewriters::precondition(client, session).await;
    }
    let parts = request.parts.clone();
    send(client, session, request, parts, &[]).await;
}

/// Sends a prompt. `parts` are those of the request, each result with the message of its call; `calls` are their ids.
async fn send(
    client: &mut Client,
    session: &Session,
    request: pb::SubmitPromptRequest,
    parts: Vec<pb::Part>,
    calls: &[String],
) {
    let delivery = match client.rng.random_range(0..20) {
        0..12 => Delivery::Queue,
        12..17 => Delivery::Steer,
        17..19 => Delivery::Interrupt,
        _ => Delivery::Unspecified,
    };
    let metadata_json = client.rng.random_bool(0.2).then(|| "{\"from\":  \"a person\"}".to_owned());
    let request = pb::SubmitPromptRequest {
        session_id: session.id.clone(),
        delivery: delivery.into(),
        metadata_json: metadata_json.clone(),
        request_id: client.fresh_id(),
        ..request
    };
    let (expected_revision, has_rewind) = (request.expected_revision, request.rewind.is_some());
    match client.apply(session, request, expected_revision).await {
        Ok(answer) => {
            let delivery = if delivery == Delivery::Unspecified { Delivery::Queue } else { delivery };
            let (delivery, actor) = (delivery.into(), client.name.clone());
            let prompt = pb::Prompt { parts, metadata_json, delivery, actor, ..pb::Prompt::default() };
            lock(&client.shared.record.written).prompts.insert(answer.prompt_id, prompt);
        }
        // The log shows whether the history changed, and an earlier rewind may have left the message out.
        Err(refusal) if refusal.reason == "REVISION_MISMATCH" && expected_revision.is_some() => {}
        Err(refusal) if refusal.reason == "BOUNDARY_INVALID" && has_rewind => {}
        Err(refusal) => {
            let more: &[&str] = match calls {
                [] => &["LIMIT_EXCEEDED"],
                _ => &["LIMIT_EXCEEDED", "CALL_ANSWERED", "CALL_NOT_FOUND"],
            };
            let refused = Refused { subjects: calls.to_vec(), ..Refused::default() };
            note_refusal(client, session, "SubmitPrompt", refusal, refused, more);
        }
    }
}

/// Brings results of calls that an agent left to front ends, often together with another front end that has the same.
async fn bring_results(client: &mut Client, rival: &mut Client, session: &Session) {
    let mut calls: Vec<FrontCall> = lock(&session.calls).iter().cloned().collect();
    if calls.is_empty() {
        return submit(client, session).await;
    }
    calls.shuffle(&mut client.rng);
    calls.truncate(client.rng.random_range(1..3));
    for call in &calls {
        let (session_id, message_id) = (session.id.clone(), call.message_id.clone());
        let Ok(found) = client.ask(&pb::GetMessageRequest { session_id, message_id }).await else { return };
        let revision = found.message.map_or(0, |message| message.revision);
        lock(&client.shared.record.written).calls.insert(call.call_id.clone(), revision);
    }
    match client.rng.random_bool(0.4) {
        true => drop(tokio::join!(results(client, session, &calls), results(rival, session, &calls))),
        false => results(client, session, &calls).await,
    }
}

async fn results(client: &mut Client, session: &Session, calls: &[FrontCall]) {
    let mut whole = Vec::new();
    for FrontCall { call_id, message_id } in calls {
        let length = content::length(&mut client.rng).min(2_000);
        let mut part = content::result(&mut client.rng, call_id, call_id, length);
        if let Some(pb::part::Body::ToolResult(result)) = &mut part.body {
            result.call_message_id = Some(message_id.clone());
        }
        whole.push(part);
    }
    // Some name the message of a call, and some leave it to the daemon to find it.
    let as_sent = |part: &pb::Part| if client.rng.random_bool(0.6) { part.clone() } else { content::sent(part) };
    let parts = whole.iter().map(as_sent).collect();
    let mut request = pb::SubmitPromptRequest { parts, ..pb::SubmitPromptRequest::default() };
    if client.rng.random_bool(0.15) {
        request.expected_revision = rewriters::precondition(client, session).await;
    }
    let call_ids: Vec<String> = calls.iter().map(|call| call.call_id.clone()).collect();
    send(client, session, request, whole, &call_ids).await;
}

/// The prompts that wait in a session.
async fn queue(client: &mut Client, session: &Session) -> Vec<String> {
    let request = pb::ListPromptsRequest {
        session_id: session.id.clone(),
        page_size: 1_000,
        ..pb::ListPromptsRequest::default()
    };
    let Ok(page) = client.ask(&request).await else { return Vec::new() };
    let ids = page.prompts.iter().map(|prompt| prompt.prompt_id.clone()).collect();
    if page.next_page_token.is_empty() {
        client.observe(&session.id, Answer::Queue(page.prompts));
    }
    ids
}

/// A prompt that waited a moment ago, or any other one.
pub(super) async fn a_prompt(client: &mut Client, session: &Session) -> Option<String> {
    let waiting = queue(client, session).await;
    waiting.choose(&mut client.rng).cloned()
}

/// A prompt that one of the last lists showed: it may be over.
pub(super) fn some_prompt(client: &mut Client, session: &Session) -> Option<String> {
    let known = lock(&session.prompts).clone();
    known.choose(&mut client.rng).cloned()
}

async fn move_prompt(client: &mut Client, session: &Session) {
    let Some(prompt_id) = a_prompt(client, session).await else { return };
    let known = lock(&session.prompts).clone();
    let before = known.choose(&mut client.rng).filter(|before| **before != prompt_id).cloned();
    let before_prompt_id = before.filter(|_| client.rng.random_bool(0.7));
    let (session_id, request_id) = (session.id.clone(), client.fresh_id());
    let subjects = std::iter::once(prompt_id.clone()).chain(before_prompt_id.clone()).collect();
    let request = pb::MovePromptRequest { session_id, prompt_id, before_prompt_id, request_id };
    change(client, session, request, Refused { subjects, ..Refused::default() }, &["PROMPT_ENDED"]).await;
}

async fn withdraw_prompt(client: &mut Client, session: &Session) {
    let Some(prompt_id) = a_prompt(client, session).await else { return };
    let (session_id, request_id) = (session.id.clone(), client.fresh_id());
    let refused = Refused { subjects: vec![prompt_id.clone()], ..Refused::default() };
    let request = pb::WithdrawPromptRequest { session_id, prompt_id, request_id };
    change(client, session, request, refused, &["PROMPT_ENDED"]).await;
}

/// A question that waits.
async fn question(client: &mut Client, session: &Session) -> Option<pb::Approval> {
    let request = pb::ListApprovalsRequest {
        session_id: session.id.clone(),
        page_size: 1_000,
        include_ended: client.rng.random_bool(0.1),
        ..pb::ListApprovalsRequest::default()
    };
    let page = client.ask(&request).await.ok()?;
    let found = page.approvals.choose(&mut client.rng).cloned();
    if page.next_page_token.is_empty() {
        let answer = match request.include_ended {
            true => Answer::Approvals(page.approvals),
            false => Answer::WaitingApprovals(page.approvals),
        };
        client.observe(&session.id, answer);
    }
    found
}

/// Answers a question, often together with another person who answers otherwise.
async fn answer_both(client: &mut Client, rival: &mut Client, session: &Session) {
    let Some(asked) = question(client, session).await else { return };
    if client.rng.random_bool(0.6) {
        tokio::join!(answer(client, session, &asked), answer(rival, session, &asked));
    } else {
        answer(client, session, &asked).await;
    }
}

async fn answer(client: &mut Client, session: &Session, asked: &pb::Approval) {
    let accepts_text = asked.question.as_ref().is_some_and(|question| question.accepts_text);
    let text = if accepts_text { format!("because of {}", client.fresh_id()) } else { String::new() };
    let has_choice = text.is_empty() || client.rng.random_bool(0.7);
    let choice = ["yes", "no", "always"].choose(&mut client.rng).filter(|_| has_choice).map(|id| (*id).to_owned());
    let approval_id = asked.approval_id.clone();
    let (session_id, request_id) = (session.id.clone(), client.fresh_id());
    let refused = Refused { subjects: vec![approval_id.clone()], ..Refused::default() };
    let fact = (choice.clone(), text.clone(), client.name.clone());
    let request = pb::AnswerApprovalRequest { session_id, approval_id: approval_id.clone(), choice, text, request_id };
    if change(client, session, request, refused, &["APPROVAL_ENDED"]).await.is_some() {
        let before = lock(&client.shared.record.written).answers.insert(approval_id, fact);
        if let Some(before) = before {
            client.finding(format!("approval: {} was answered twice, first with {before:?}", asked.approval_id));
        }
    }
}

async fn withdraw_approval(client: &mut Client, session: &Session) {
    let Some(asked) = question(client, session).await else { return };
    let (session_id, request_id) = (session.id.clone(), client.fresh_id());
    let refused = Refused { subjects: vec![asked.approval_id.clone()], ..Refused::default() };
    let request = pb::WithdrawApprovalRequest { session_id, approval_id: asked.approval_id, request_id };
    change(client, session, request, refused, &["APPROVAL_ENDED"]).await;
}

async fn cancel(client: &mut Client, session: &Session) {
    let force = client.rng.random_bool(0.4);
    if client.rng.random_bool(0.2) {
        return trees::cancel(client, session, force).await;
    }
    let request = pb::CancelRunRequest {
        session_id: session.id.clone(),
        force,
        request_id: client.fresh_id(),
        ..Default::default()
    };
    change(client, session, request, Refused::default(), &["RUN_NOT_FOUND"]).await;
}

/// Reads what happens in a session, to be compared with the log.
pub(super) async fn read(client: &mut Client, session: &Arc<Session>) {
    let session_id = session.id.clone();
    match client.rng.random_range(0..6) {
        0 => {
            if let Ok(found) = client.ask(&pb::GetRunRequest { session_id }).await {
                client.observe(&session.id, Answer::Run(Box::new(found)));
            }
        }
        1 => {
            let request = pb::ListRunsRequest { session_id: Some(session_id), page_size: 1_000, ..Default::default() };
            if let Ok(page) = client.ask(&request).await
                && page.next_page_token.is_empty()
            {
                client.observe(&session.id, Answer::Runs(page.runs));
            }
        }
        2 => {
            let request =
                pb::ListPromptsRequest { session_id, page_size: 1_000, include_ended: true, ..Default::default() };
            if let Ok(page) = client.ask(&request).await
                && page.next_page_token.is_empty()
            {
                client.observe(&session.id, Answer::Prompts(page.prompts));
            }
        }
        3 => {
            if let Some(asked) = question(client, session).await {
                let request = pb::GetApprovalRequest { session_id, approval_id: asked.approval_id };
                if let Ok(pb::GetApprovalResponse { approval: Some(found) }) = client.ask(&request).await {
                    client.observe(&session.id, Answer::Approval(Box::new(found)));
                }
            }
        }
        _ => {
            let waiting = queue(client, session).await;
            *lock(&session.prompts) = waiting;
        }
    }
}

/// Ends what would end by itself much later: most runs with a long lease.
pub(super) async fn settle(client: &mut Client, session: &Session) {
    let Ok(found) = client.ask(&pb::GetRunRequest { session_id: session.id.clone() }).await else { return };
    let Some(run) = found.run.filter(|run| run.end.is_none()) else { return };
    if is_long(&run) && run.cancel_revision.is_none() && client.rng.random_bool(0.5) {
        return;
    }
    if client.rng.random_bool(0.5) {
        let request = pb::CancelRunRequest {
            session_id: session.id.clone(),
            force: true,
            request_id: client.fresh_id(),
            ..pb::CancelRunRequest::default()
        };
        change(client, session, request, Refused::default(), &["RUN_NOT_FOUND"]).await;
    }
}

/// True if a run's lease does not end within the checks.
fn is_long(run: &pb::Run) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    run.lease_end_time.is_some_and(|end| u64::try_from(end.seconds).unwrap_or_default() > now + 600)
}

/// Number of leases and time limits that end soon.
pub(super) async fn limits(client: &mut Client, sessions: &[Arc<Session>]) -> usize {
    let mut count = 0;
    for session in sessions {
        let session_id = session.id.clone();
        if let Ok(found) = client.ask(&pb::GetRunRequest { session_id: session_id.clone() }).await {
            count += usize::from(found.run.is_some_and(|run| run.end.is_none() && !is_long(&run)));
        }
        let request = pb::ListApprovalsRequest { session_id, page_size: 1_000, ..pb::ListApprovalsRequest::default() };
        if let Ok(page) = client.ask(&request).await {
            count += page.approvals.iter().filter(|approval| approval.expire_time.is_some()).count();
        }
    }
    count
}

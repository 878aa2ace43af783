//! Writers: they append to shared sessions as agents do, concurrently, and never need a precondition.

use super::client::{Client, NO_ANSWER};
use super::content::{self, Prints};
use super::markers;
use super::reasons::Refusal;
use super::record::{Expected, OpenMessage, OpenState, Searchable, Session, lock};
use longhand::pb;
use pb::part::Body;
use pb::{FinishReason, MessageKind, Role};
use prost::Message as _;
use rand::Rng as _;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Refusals that a plain append may get. Another client may have sealed an open message, or erased what it is of.
const REFUSALS: [&str; 5] = ["SESSION_ARCHIVED", "SESSION_ERASED", "MESSAGE_SEALED", "MESSAGE_EXPIRED", NO_ANSWER];

/// A call that waits for its result.
struct Call {
    session: Arc<Session>,
    call_id: String,
    token: String,
    message_id: String,
}

/// Main loop of a writer.
pub(super) async fn run(mut client: Client, pause_ms: u64) {
    let mut calls: VecDeque<Call> = VecDeque::new();
    while !client.shared.is_stopping() {
        let Some(session) = client.some_session() else { return };
        match client.rng.random_range(0..100) {
            0..18 => request(&mut client, &session).await,
            18..34 => reply(&mut client, &session).await,
            34..50 => call(&mut client, &session, &mut calls).await,
            50..62 => answer(&mut client, &mut calls).await,
            62..72 => batch(&mut client, &session).await,
            72..84 => super::open::stream(&mut client, &session).await,
            84..88 => rare(&mut client, &session).await,
            88..91 => conditional(&mut client, &session).await,
            91..94 => invalid(&mut client, &session).await,
            94..96 => super::open::take_over(&mut client, &session).await,
            _ => client.send_kept().await,
        }
        if pause_ms > 0 {
            let pause = client.rng.random_range(0..pause_ms);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}

/// A message from a client, usually with a client id.
pub(super) fn message(client: &mut Client, role: Role, parts: Vec<pb::Part>) -> pb::NewMessage {
    let client_id = client.rng.random_bool(0.8).then(|| client.fresh_id());
    let metadata_json = client.rng.random_bool(0.1).then(|| "{\"z\":1, \"a\": [1.50, \"é\"]}".to_owned());
    let finish = (role == Role::Assistant).then(|| {
        let calls = parts.iter().any(|part| matches!(part.body, Some(Body::ToolCall(_))));
        let reason = if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        pb::Finish { reason: reason.into(), ..pb::Finish::default() }
    });
    let model = if role == Role::Assistant { "model-a".to_owned() } else { String::new() };
    pb::NewMessage {
        client_id,
        role: role.into(),
        kind: MessageKind::Normal.into(),
        parts,
        finish,
        model,
        metadata_json,
        ..pb::NewMessage::default()
    }
}

/// Appends messages, and records the acknowledged ones.
pub(super) async fn append(
    client: &mut Client,
    session: &Session,
    messages: Vec<pb::NewMessage>,
    expected_revision: Option<i64>,
) -> Result<Vec<String>, Refusal> {
    let request = pb::AppendMessagesRequest { messages, expected_revision, ..pb::AppendMessagesRequest::default() };
    send(client, session, request).await
}

/// Sends an append with whatever it asks for beside the messages, and records the acknowledged ones.
pub(super) async fn send(
    client: &mut Client,
    session: &Session,
    request: pb::AppendMessagesRequest,
) -> Result<Vec<String>, Refusal> {
    let (messages, expected_revision) = (request.messages.clone(), request.expected_revision);
    let (session_id, request_id) = (session.id.clone(), client.fresh_id());
    let request = pb::AppendMessagesRequest { session_id, request_id, ..request };
    let answer = client.apply(session, request, expected_revision).await?;
    if answer.message_ids.len() != messages.len() || answer.durability != client.shared.service.durability() as i32 {
        client.finding(format!("P1: {} messages were acknowledged as {answer:?}", messages.len()));
    }
    for (id, message) in answer.message_ids.iter().zip(&messages) {
        let found = markers::scan(&message.encode_to_vec());
        note_searchable(client, &answer, session, (id, message));
        client.shared.record.note_markers(id, found);
        if message.open {
            let state = OpenState { message: message.clone(), epoch: client.epoch, ..OpenState::default() };
            let open = OpenMessage { id: id.clone(), state: tokio::sync::Mutex::new(state) };
            client.shared.record.expect(id, Expected::Open(Arc::new(open)));
        } else {
            client.shared.record.expect(id, Expected::Whole(Prints::of(message, true)));
            session.note_message(id);
        }
    }
    Ok(answer.message_ids)
}

/// Notes a message that a search must find by the first word of its text.
fn note_searchable(
    client: &Client,
    answer: &pb::AppendMessagesResponse,
    session: &Session,
    (id, message): (&str, &pb::NewMessage),
) {
    let Some(Body::Text(text)) = message.parts.first().and_then(|part| part.body.as_ref()) else { return };
    let Some(word) = text.text.split_whitespace().find(|word| !markers::scan(word.as_bytes()).is_empty()) else {
        return;
    };
    let (word, session, message) = (word.to_owned(), session.id.clone(), id.to_owned());
    client.shared.record.note_searchable(Searchable { word, session, message, seq: answer.seq });
}

/// P5: a plain append is refused only because its session is archived, its open message sealed or expired, or the run
/// over on whose behalf it is made.
pub(super) fn check_plain(client: &Client, what: &str, refusal: &Refusal) {
    let is_over = client.epoch.is_some() && refusal.reason == "RUN_LOST";
    if !is_over && !REFUSALS.contains(&refusal.reason.as_str()) {
        client.finding(format!("P5: a plain {what} was refused: {refusal:?}"));
    }
}

async fn plain(client: &mut Client, session: &Session, messages: Vec<pb::NewMessage>) -> bool {
    match append(client, session, messages, None).await {
        Ok(_) => true,
        Err(refusal) => {
            check_plain(client, "append", &refusal);
            false
        }
    }
}

async fn request(client: &mut Client, session: &Session) {
    let length = content::length(&mut client.rng);
    let text = content::words(&mut client.rng, length);
    let message = message(client, Role::User, vec![content::text(text)]);
    plain(client, session, vec![message]).await;
}

/// The end of a reply with usage, as a provider might report it: with the token of the newest view, or without one.
async fn usage(client: &mut Client, session: &Session) -> pb::Finish {
    let mut finish = pb::Finish { reason: FinishReason::Stop.into(), ..pb::Finish::default() };
    if client.rng.random_bool(0.5) {
        let asked = pb::GetViewRequest { session_id: session.id.clone(), ..pb::GetViewRequest::default() };
        if let Ok(view) = client.ask(&asked).await {
            finish.view_token = Some(view.header.view_token);
        }
    }
    let input_tokens = client.rng.random_range(100..12_000);
    let output_tokens = client.rng.random_range(1..500);
    finish.usage =
        Some(pb::Usage { input_tokens, output_tokens, cost_micro_usd: Some(125_000), ..pb::Usage::default() });
    finish
}

async fn reply(client: &mut Client, session: &Session) {
    let length = content::length(&mut client.rng);
    let mut parts = vec![content::text(content::words(&mut client.rng, length))];
    if client.rng.random_bool(0.3) {
        parts.insert(
            0,
            content::part(Body::Reasoning(pb::ReasoningPart { text: content::words(&mut client.rng, 200) })),
        );
    }
    let mut message = message(client, Role::Assistant, parts);
    if client.rng.random_bool(0.4) {
        message.finish = Some(usage(client, session).await);
    } else if client.rng.random_bool(0.05) {
        let detail = "prompt is too long: 250000 tokens > 200000 maximum".to_owned();
        message.finish = Some(pb::Finish { reason: FinishReason::Error.into(), detail, ..pb::Finish::default() });
    }
    plain(client, session, vec![message]).await;
}

async fn call(client: &mut Client, session: &Arc<Session>, calls: &mut VecDeque<Call>) {
    let mut parts = vec![content::text(content::words(&mut client.rng, 80))];
    let mut made = Vec::new();
    for _ in 0..client.rng.random_range(1..4) {
        let token = client.fresh_id();
        // Agents number their calls from 1, so that several calls of one session have the same id.
        let is_taken = |id: &str| calls.iter().chain(&made).any(|call: &Call| call.call_id == id);
        let small = format!("call_{}", client.rng.random_range(1..5));
        let call_id = if client.rng.random_bool(0.4) && !is_taken(&small) { small } else { token.clone() };
        parts.push(content::call(&mut client.rng, &call_id, &token));
        made.push(Call { session: session.clone(), call_id, token, message_id: String::new() });
    }
    let message = message(client, Role::Assistant, parts);
    match append(client, session, vec![message], None).await {
        Ok(ids) => {
            let message_id = ids.first().cloned().unwrap_or_default();
            calls.extend(made.into_iter().map(|call| Call { message_id: message_id.clone(), ..call }));
            // A tool usually answers soon: most calls are answered next.
            if client.rng.random_bool(0.7) {
                answer(client, calls).await;
            }
        }
        Err(refusal) => check_plain(client, "append", &refusal),
    }
}

/// Answers the oldest calls of one session. Sometimes a call is never answered, or is answered twice, but only a call
/// whose id is unique: otherwise the result could belong to another call.
async fn answer(client: &mut Client, calls: &mut VecDeque<Call>) {
    let Some(first) = calls.front() else { return };
    let (session, has_own_id) = (first.session.clone(), first.call_id == first.token);
    let is_over = !lock(&client.shared.sessions).iter().any(|known| known.id == session.id);
    if is_over || (has_own_id && client.rng.random_bool(0.04)) {
        calls.pop_front();
        return;
    }
    let (mut parts, mut answered) = (Vec::new(), Vec::new());
    while parts.len() < 3
        && let Some(call) = calls.pop_front_if(|call| call.session.id == session.id)
    {
        let length = content::length(&mut client.rng);
        let mut part = content::result(&mut client.rng, &call.call_id, &call.token, length);
        if let Some(Body::ToolResult(result)) = &mut part.body
            && client.rng.random_bool(0.3)
        {
            result.call_message_id = Some(call.message_id.clone());
        }
        parts.push(part);
        if call.call_id == call.token && client.rng.random_bool(0.03) {
            calls.push_front(call);
            break;
        }
        answered.push(call);
    }
    let message = message(client, Role::Tool, parts);
    if !plain(client, &session, vec![message]).await {
        answered.into_iter().rev().for_each(|call| calls.push_front(call));
    }
}

/// Appends a turn in one request.
async fn batch(client: &mut Client, session: &Session) {
    let call_id = client.fresh_id();
    let request = content::text(content::words(&mut client.rng, 120));
    let length = content::length(&mut client.rng);
    let parts = [
        (Role::User, vec![request]),
        (Role::Assistant, vec![content::call(&mut client.rng, &call_id, &call_id)]),
        (Role::Tool, vec![content::result(&mut client.rng, &call_id, &call_id, length)]),
        (Role::Assistant, vec![content::text(content::words(&mut client.rng, 200))]),
    ];
    let messages = parts.into_iter().map(|(role, parts)| message(client, role, parts)).collect();
    plain(client, session, messages).await;
}

/// Appends records, parts that few clients send, and results without a call.
async fn rare(client: &mut Client, session: &Session) {
    let message = match client.rng.random_range(0..6) {
        number @ 0..2 => {
            let data = format!("{{\"x\": \"{}\"}}", client.fresh_id());
            let record = Body::Record(pb::RecordPart { kind: "entry".to_owned(), data });
            let mut message = message(client, Role::System, vec![content::part(record)]);
            message.kind = MessageKind::Record.into();
            if number == 1 {
                // All writers keep versions of one record.
                (message.client_id, message.replace_existing) = (Some("state".to_owned()), true);
            }
            message
        }
        2 => {
            let call_id = format!("nobody-{}", client.fresh_id());
            let part = content::result(&mut client.rng, &call_id, &call_id, 50);
            message(client, Role::Tool, vec![part])
        }
        3 => message(client, Role::User, vec![content::text(String::new())]),
        _ => {
            let role = if client.rng.random_bool(0.5) { Role::User } else { Role::Assistant };
            let part = content::rare(&mut client.rng);
            message(client, role, vec![content::text("see:".to_owned()), part])
        }
    };
    plain(client, session, vec![message]).await;
}

/// Appends with a precondition. The log shows later whether the answer was right.
async fn conditional(client: &mut Client, session: &Session) {
    let asked = pb::GetSessionRequest { session_id: session.id.clone() };
    let Ok(pb::GetSessionResponse { session: Some(found), .. }) = client.ask(&asked).await else { return };
    if found.revision < session.revision.load(Ordering::SeqCst) {
        // Another client may know a newer revision by now; only an older one is a fault.
        let again = client.ask(&asked).await.ok().and_then(|answer| answer.session);
        if again.is_some_and(|again| again.revision < found.revision) {
            client.finding("P3: a session's revision went back");
        }
    }
    let expected = if client.rng.random_bool(0.7) { found.revision } else { found.revision / 2 };
    let part = content::text(content::words(&mut client.rng, 60));
    let message = message(client, Role::User, vec![part]);
    if let Err(refusal) = append(client, session, vec![message], Some(expected)).await
        && !["REVISION_MISMATCH", "SESSION_ARCHIVED", "SESSION_ERASED", NO_ANSWER].contains(&refusal.reason.as_str())
    {
        client.finding(format!("P5: an append that expected revision {expected} was refused: {refusal:?}"));
    }
}

/// Sends an invalid request, which must be refused as a whole, whatever else it contains.
async fn invalid(client: &mut Client, session: &Session) {
    let good = content::text("good".to_owned());
    let good = message(client, Role::User, vec![good]);
    let mut bad = message(client, Role::Assistant, vec![content::text("bad".to_owned())]);
    match client.rng.random_range(0..6) {
        0 => bad.role = 0,
        1 => bad.parts.push(pb::Part { client_id: Some("y".repeat(129)), ..content::text("bad".to_owned()) }),
        2 => bad.client_id = Some("x".repeat(129)),
        3 => bad.metadata_json = Some("{not json".to_owned()),
        4 => bad.parts = vec![pb::Part::default()],
        _ => bad.finish.get_or_insert_default().view_token = Some("none of this store's".to_owned()),
    }
    match append(client, session, vec![good, bad.clone()], None).await {
        Ok(_) => client.finding(format!("P14: a request that cannot be taken was acknowledged: {bad:?}")),
        Err(refusal) => {
            let fits = [
                "INVALID_FIELD",
                "LIMIT_EXCEEDED",
                "VIEW_TOKEN_INVALID",
                "SESSION_ARCHIVED",
                "SESSION_ERASED",
                NO_ANSWER,
            ];
            if !fits.contains(&refusal.reason.as_str()) {
                client.finding(format!("P14: a request that cannot be taken was refused with {refusal:?}"));
            }
        }
    }
}

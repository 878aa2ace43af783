//! Open messages: written in several steps, across every kill, then finished, abandoned, or taken over by another
//! client.

use super::agreement::{Answer, Refused};
use super::client::{Client, NO_ANSWER};
use super::reasons::{self, Refusal};
use super::record::{Expected, OpenMessage, OpenState, Session, lock};
use super::rpc::Frames;
use super::writers::{append, check_plain, message};
use super::{content, markers};
use longhand::pb;
use pb::{DraftKind, FinishReason, Role};
use prost::Message as _;
use rand::Rng as _;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of abandoned open messages of one session; at this number a writer finishes its message instead.
const ABANDONED_MAX: usize = 3;

/// Writes one message as a model does: text in drafts, then parts, then an end.
pub(super) async fn stream(client: &mut Client, session: &Session) {
    let mut begun = message(client, Role::Assistant, vec![content::text("so".to_owned())]);
    begun.finish = None;
    begun.open = true;
    if client.rng.random_bool(0.5) {
        begun.parts.clear();
    }
    let ids = match append(client, session, vec![begun], None).await {
        Ok(ids) => ids,
        Err(refusal) => return check_plain(client, "append of an open message", &refusal),
    };
    let Some(open) = ids.first().and_then(|id| open_message(client, id)) else { return };
    let steps = client.rng.random_range(1..8);
    for _ in 0..steps {
        if !step(client, session, &open).await {
            lock(&session.abandoned).push(open);
            return;
        }
        let pause = client.rng.random_range(0..15);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    let is_crowded = lock(&session.abandoned).len() >= ABANDONED_MAX;
    if !is_crowded && client.rng.random_bool(0.1) {
        lock(&session.abandoned).push(open);
    } else {
        finish(client, session, &open).await;
    }
}

/// The state of an open message that a client knows.
pub(super) fn open_message(client: &Client, id: &str) -> Option<Arc<OpenMessage>> {
    match lock(&client.shared.record.messages).get(id) {
        Some(Expected::Open(open)) => Some(open.clone()),
        _ => None,
    }
}

/// Continues a message that its writer abandoned.
pub(super) async fn take_over(client: &mut Client, session: &Session) {
    let Some(open) = lock(&session.abandoned).pop() else { return };
    settle_doubt(client, session, &open).await;
    compare_drafts(client, session, &open).await;
    if client.rng.random_bool(0.5) {
        step(client, session, &open).await;
    }
    finish(client, session, &open).await;
}

/// Compares the daemon's drafts with the acknowledged ones.
async fn compare_drafts(client: &mut Client, session: &Session, open: &OpenMessage) {
    let state = open.state.lock().await;
    let asked = pb::GetMessageRequest { session_id: session.id.clone(), message_id: open.id.clone() };
    let Ok(found) = client.ask(&asked).await else { return };
    // The end of its run may have sealed it.
    let is_open = found.message.is_some_and(|message| message.sealed_revision.is_none());
    if !state.is_sealed && is_open && found.drafts != state.drafts {
        client.finding(format!("P1: drafts of {} are {:?} instead of {:?}", open.id, found.drafts, state.drafts));
    }
}

/// Finds out whether words are in the store whose first answer was lost.
async fn settle_doubt(client: &mut Client, session: &Session, open: &OpenMessage) {
    let mut state = open.state.lock().await;
    if state.doubts.is_empty() || state.is_sealed {
        return;
    }
    let asked = pb::GetMessageRequest { session_id: session.id.clone(), message_id: open.id.clone() };
    let Ok(found) = client.ask(&asked).await else { return };
    if found.message.is_some_and(|message| message.sealed_revision.is_some()) {
        return;
    }
    let is_like = |drafts: &Vec<pb::Draft>| {
        // The id of a draft that may be new is not known.
        let draft = |(found, draft): (&pb::Draft, &pb::Draft)| {
            found == &pb::Draft { part_id: found.part_id.clone(), ..draft.clone() }
        };
        found.drafts.len() == drafts.len() && found.drafts.iter().zip(drafts).all(draft)
    };
    if state.possible_drafts().iter().any(is_like) {
        state.draft_names = found.drafts.iter().map(|draft| draft.client_id.clone()).collect();
        state.drafts = found.drafts;
    }
    state.doubts.clear();
}

/// Adds text, adds a part, or closes a draft; false if the message cannot be continued.
pub(super) async fn step(client: &mut Client, session: &Session, open: &Arc<OpenMessage>) -> bool {
    let mut state = open.state.lock().await;
    match client.rng.random_range(0..10) {
        0..2 => begin_draft(client, session, open, &mut state).await,
        2..4 => write_draft(client, session, open, &mut state).await,
        4..7 if !state.drafts.is_empty() => extend_draft(client, session, open, &mut state).await,
        7 if !state.drafts.is_empty() => close_draft(client, session, open, &mut state).await,
        _ => add_parts(client, session, open, &mut state).await,
    }
}

async fn begin_draft(client: &mut Client, session: &Session, open: &OpenMessage, state: &mut OpenState) -> bool {
    let kind = if client.rng.random_bool(0.3) { DraftKind::Reasoning } else { DraftKind::Text };
    // Only a draft with a client id is created once if its answer is lost.
    let client_id = Some(client.fresh_id());
    let request = pb::AppendDraftRequest {
        session_id: session.id.clone(),
        message_id: open.id.clone(),
        kind: kind.into(),
        delta: content::words(&mut client.rng, 30),
        client_id: client_id.clone(),
        ..pb::AppendDraftRequest::default()
    };
    note_words(client, session, open, request.delta.as_bytes());
    match client.ask(&request).await {
        Ok(answer) => {
            note_draft(client, session);
            let (part_id, text) = (answer.part_id, request.delta);
            let draft =
                pb::Draft { part_id, kind: kind.into(), text, client_id: client_id.clone(), ..pb::Draft::default() };
            state.drafts.push(draft);
            state.draft_names.push(client_id);
            true
        }
        Err(refusal) => {
            let draft = pb::Draft { kind: kind.into(), text: request.delta, client_id, ..pb::Draft::default() };
            state.doubts = vec![(state.drafts.len(), draft)];
            check_draft(client, session, "AppendDraft", &refusal);
            false
        }
    }
}

async fn extend_draft(client: &mut Client, session: &Session, open: &OpenMessage, state: &mut OpenState) -> bool {
    let index = client.rng.random_range(0..state.drafts.len());
    let draft = &mut state.drafts[index];
    let length = draft.text.len();
    let request = pb::AppendDraftRequest {
        session_id: session.id.clone(),
        message_id: open.id.clone(),
        part_id: draft.part_id.clone(),
        offset_bytes: i64::try_from(length).unwrap_or(i64::MAX),
        delta: content::words(&mut client.rng, 30),
        ..pb::AppendDraftRequest::default()
    };
    note_words(client, session, open, request.delta.as_bytes());
    match client.ask(&request).await {
        Ok(answer) => {
            note_draft(client, session);
            draft.text.push_str(&request.delta);
            if answer.length_bytes != i64::try_from(draft.text.len()).unwrap_or(i64::MAX) {
                client.finding(format!("P4: a draft of {} bytes has {} now", draft.text.len(), answer.length_bytes));
            }
            true
        }
        Err(refusal) => {
            let text = format!("{}{}", draft.text, request.delta);
            state.doubts = vec![(index, pb::Draft { text, ..draft.clone() })];
            check_draft(client, session, "AppendDraft", &refusal);
            false
        }
    }
}

/// Writes text for a draft in one call of several frames. Some calls break off, and go on where the store is.
async fn write_draft(client: &mut Client, session: &Session, open: &OpenMessage, state: &mut OpenState) -> bool {
    let index = client.rng.random_range(0..=state.drafts.len());
    let known = state.drafts.get(index).cloned();
    let new = || pb::Draft { kind: DraftKind::Text.into(), client_id: Some(client.fresh_id()), ..pb::Draft::default() };
    let draft = known.clone().unwrap_or_else(new);
    // The text as it is behind each frame.
    let mut texts = vec![draft.text.clone()];
    for _ in 0..client.rng.random_range(1..6) {
        let text = format!("{}{}", texts.last().map_or("", String::as_str), content::words(&mut client.rng, 30));
        note_words(client, session, open, &text.as_bytes()[texts[texts.len() - 1].len()..]);
        texts.push(text);
    }
    let pause_ms = client.rng.random_range(0..8);
    let frames = |from: usize| frames(session, open, &draft, (&texts, from), pause_ms);
    let mut outcome = None;
    let mut from = 0;
    if client.rng.random_bool(0.4) {
        let most = Duration::from_millis(client.rng.random_range(0..30));
        outcome = tokio::time::timeout(most, client.ask(&frames(0))).await.ok();
        if outcome.is_none() {
            from = reached(client, session, open, known.is_some(), (&draft, &texts)).await;
        }
    }
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => client.ask(&frames(from)).await,
    };
    let all = |text: &String| pb::Draft { text: text.clone(), ..draft.clone() };
    match outcome {
        Ok(answer) => {
            note_draft(client, session);
            let text = &texts[texts.len() - 1];
            let [written] = answer.drafts.as_slice() else {
                client.finding(format!("P4: a call for one draft was answered {answer:?}"));
                return false;
            };
            let is_right = usize::try_from(written.length_bytes) == Ok(text.len())
                && Some(&written.client_id) == draft.client_id.as_ref()
                && known.is_none_or(|known| known.part_id == written.part_id);
            if !is_right || answer.sealed || answer.message_id != open.id {
                client.finding(format!("P4: text of {} bytes for {draft:?} was answered {answer:?}", text.len()));
            }
            let written = pb::Draft { part_id: written.part_id.clone(), ..all(text) };
            if index == state.drafts.len() {
                state.draft_names.push(written.client_id.clone());
                state.drafts.push(written);
            } else {
                state.drafts[index] = written;
            }
            true
        }
        Err(refusal) => {
            state.doubts = texts[1..].iter().map(|text| (index, all(text))).collect();
            check_draft(client, session, "WriteMessage", &refusal);
            false
        }
    }
}

/// The frames of a call that writes a draft from one of its texts on.
fn frames(
    session: &Session,
    open: &OpenMessage,
    draft: &pb::Draft,
    (texts, from): (&[String], usize),
    pause_ms: u64,
) -> Frames {
    use pb::write_message_request::Frame;
    let message = Some(pb::write_target::Message::MessageId(open.id.clone()));
    let target = pb::WriteTarget { session_id: session.id.clone(), message, ..pb::WriteTarget::default() };
    let texts = texts[from..].windows(2).map(|pair| {
        Frame::DraftText(pb::DraftText {
            client_id: draft.client_id.clone().unwrap_or_default(),
            kind: draft.kind,
            offset_bytes: i64::try_from(pair[0].len()).ok(),
            delta: pair[1][pair[0].len()..].to_owned(),
            ..pb::DraftText::default()
        })
    });
    let frames = std::iter::once(Frame::Target(target)).chain(texts);
    let frames = frames.map(|frame| pb::WriteMessageRequest { frame: Some(frame) }).collect();
    Frames { frames, pause_ms }
}

/// The text from which a call that broke off goes on: the one that the store has, or the last one but one, because a call
/// without text is not answered with its draft.
async fn reached(
    client: &mut Client,
    session: &Session,
    open: &OpenMessage,
    is_known: bool,
    (draft, texts): (&pb::Draft, &[String]),
) -> usize {
    let asked = pb::GetMessageRequest { session_id: session.id.clone(), message_id: open.id.clone() };
    let Ok(found) = client.ask(&asked).await else { return 0 };
    if found.message.is_none_or(|message| message.sealed_revision.is_some()) {
        return 0;
    }
    let there = found.drafts.iter().find(|found| found.client_id == draft.client_id);
    let position = there.and_then(|there| texts.iter().position(|text| *text == there.text));
    if position.is_none() && (there.is_some() || is_known) {
        client.finding(format!("P1: a call wrote {texts:?} in {}, and the draft is {there:?}", open.id));
    }
    position.unwrap_or(0).min(texts.len() - 2)
}

/// Notes the markers of words before they are sent.
fn note_words(client: &Client, session: &Session, open: &OpenMessage, words: &[u8]) {
    client.shared.record.markers.wrote(&session.id, "a draft", words);
    client.shared.record.note_markers(&open.id, markers::scan(words));
}

/// A draft leaves no event: that its run was active is compared with the log by the time of the answer.
fn note_draft(client: &Client, session: &Session) {
    if let Some(epoch) = client.epoch {
        client.observe(&session.id, Answer::InRun(epoch));
    }
}

fn check_draft(client: &Client, session: &Session, rpc: &'static str, refusal: &Refusal) {
    check_plain(client, "draft", refusal);
    if refusal.reason == "SESSION_ERASED" {
        client.observe(&session.id, Answer::Refused(Refused::of(rpc, refusal)));
    }
    if let Some(epoch) = client.epoch.filter(|_| refusal.reason == "RUN_LOST") {
        let refused = Refused { epoch: Some(epoch), ..Refused::of(rpc, refusal) };
        client.observe(&session.id, Answer::Refused(refused));
    }
}

/// The part that results from a draft.
pub(super) fn closed(draft: &pb::Draft, client_id: Option<String>) -> pb::Part {
    let text = draft.text.clone();
    let body = if draft.kind == DraftKind::Reasoning as i32 {
        pb::part::Body::Reasoning(pb::ReasoningPart { text })
    } else {
        pb::part::Body::Text(pb::TextPart { text })
    };
    pb::Part { client_id, ..content::part(body) }
}

async fn close_draft(client: &mut Client, session: &Session, open: &OpenMessage, state: &mut OpenState) -> bool {
    let index = client.rng.random_range(0..state.drafts.len());
    let draft = state.drafts[index].clone();
    let parts = vec![pb::Part { part_id: draft.part_id.clone(), ..pb::Part::default() }];
    if !append_parts(client, session, open, parts).await {
        return false;
    }
    state.drafts.remove(index);
    let name = state.draft_names.remove(index);
    state.message.parts.push(closed(&draft, name));
    true
}

async fn add_parts(client: &mut Client, session: &Session, open: &OpenMessage, state: &mut OpenState) -> bool {
    let length = content::length(&mut client.rng).min(3_000);
    let mut parts = vec![content::text(content::words(&mut client.rng, length))];
    if client.rng.random_bool(0.3) {
        let call_id = client.fresh_id();
        parts.push(content::call(&mut client.rng, &call_id, &call_id));
        parts.push(content::result(&mut client.rng, &call_id, &call_id, 200));
    }
    for part in &mut parts {
        part.client_id = client.rng.random_bool(0.5).then(|| client.fresh_id());
    }
    if !append_parts(client, session, open, parts.clone()).await {
        return false;
    }
    state.message.parts.extend(parts);
    true
}

async fn append_parts(client: &mut Client, session: &Session, open: &OpenMessage, parts: Vec<pb::Part>) -> bool {
    let request = pb::AppendPartsRequest {
        session_id: session.id.clone(),
        message_id: open.id.clone(),
        parts,
        request_id: client.fresh_id(),
    };
    client.shared.record.note_markers(&open.id, markers::scan(&request.encode_to_vec()));
    match client.apply(session, request, None).await {
        Ok(_) => true,
        Err(refusal) => {
            check_plain(client, "append of parts", &refusal);
            false
        }
    }
}

/// Seals a message; the text of its drafts becomes part of it.
pub(super) async fn finish(client: &mut Client, session: &Session, open: &Arc<OpenMessage>) {
    settle_doubt(client, session, open).await;
    let reason = if client.rng.random_bool(0.8) { FinishReason::Stop } else { FinishReason::Aborted };
    finish_as(client, session, open, reason).await;
}

/// Seals a message for a reason.
pub(super) async fn finish_as(client: &mut Client, session: &Session, open: &Arc<OpenMessage>, reason: FinishReason) {
    let mut state = open.state.lock().await;
    if state.is_sealed {
        return;
    }
    let usage = client.rng.random_bool(0.3).then(|| pb::Usage {
        input_tokens: client.rng.random_range(10..9_000),
        output_tokens: 7,
        ..pb::Usage::default()
    });
    let finish = pb::Finish { reason: reason.into(), usage, ..pb::Finish::default() };
    let request = pb::FinishMessageRequest {
        session_id: session.id.clone(),
        message_id: open.id.clone(),
        finish: Some(finish.clone()),
        request_id: client.fresh_id(),
        ..pb::FinishMessageRequest::default()
    };
    match client.apply(session, request, None).await {
        Ok(_) => {
            let state = &mut *state;
            let names = std::mem::take(&mut state.draft_names);
            let drafts = std::mem::take(&mut state.drafts);
            state.message.parts.extend(drafts.iter().zip(names).map(|(draft, name)| closed(draft, name)));
            state.message.finish = Some(finish);
            state.is_sealed = true;
            session.note_message(&open.id);
        }
        Err(refusal) if reasons::is_closed(&refusal.reason) => {
            // The message stays open until a client finds it after the session was restored.
            lock(&session.abandoned).push(open.clone());
        }
        Err(refusal) if refusal.reason == NO_ANSWER => {}
        Err(refusal) => check_plain(client, "seal", &refusal),
    }
}

//! Erasers: they erase parts, messages and whole sessions, while everybody else works, and look for what was erased.

use super::client::{Client, NO_ANSWER};
use super::markers::{self, Marker};
use super::record::{Session, count, lock};
use super::rewriters::{self, Policy};
use super::searches;
use longhand::pb;
use pb::erase_content_request::Target;
use prost::Message as _;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of past erasures that an eraser asks for again.
const PAST_MAX: usize = 20;
/// Sessions that stay.
const SESSIONS_MIN: usize = 3;

/// An erasure that was acknowledged.
struct Past {
    session: Arc<Session>,
    target: Target,
    answer: pb::EraseContentResponse,
}

/// Main loop of an eraser.
pub(super) async fn run(mut client: Client, policies: Arc<Vec<Policy>>, pause_ms: u64) {
    let mut past: Vec<Past> = Vec::new();
    while !client.shared.is_stopping() {
        let Some(session) = client.some_session() else { return };
        let erased = match client.rng.random_range(0..100) {
            0..28 => message(&mut client, &session).await,
            28..40 => message_set(&mut client, &session).await,
            40..66 => part(&mut client, &session).await,
            66..74 => open_message(&mut client, &session).await,
            74..79 => whole_session(&mut client, &session, &policies).await,
            79..92 if !past.is_empty() => {
                let index = client.rng.random_range(0..past.len());
                again(&mut client, &past[index]).await;
                None
            }
            _ => {
                client.send_kept().await;
                None
            }
        };
        past.extend(erased);
        if past.len() > PAST_MAX {
            past.remove(0);
        }
        let pause = client.rng.random_range(0..=pause_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// A message as it is read.
async fn read(client: &mut Client, session: &Session, id: &str) -> Option<pb::Message> {
    let asked = pb::GetMessageRequest { session_id: session.id.clone(), message_id: id.to_owned() };
    client.ask(&asked).await.ok()?.message
}

/// A message to erase: mostly a recent one of any writer, now and then one of a page of the history, also a derived one.
async fn some_message(client: &mut Client, session: &Session) -> Option<pb::Message> {
    if client.rng.random_bool(0.7) {
        let id = rewriters::target(client, session)?;
        return read(client, session, &id).await;
    }
    let newest = session.revision.load(Ordering::SeqCst).max(1);
    let request = pb::ListMessagesRequest {
        session_id: session.id.clone(),
        page_size: 50,
        as_of_revision: Some(client.rng.random_range(1..=newest)),
        include_derived: true,
        ..pb::ListMessagesRequest::default()
    };
    let page = client.ask(&request).await.ok()?;
    page.messages.choose(&mut client.rng).cloned()
}

/// What an erasure takes.
#[derive(Debug, Default)]
struct Going {
    markers: BTreeSet<Marker>,
    /// Some of them as words.
    words: Vec<String>,
}

impl Going {
    /// The markers that a message, or a part of it, has for itself; those in a derived one are of others.
    fn of(message: &pb::Message, bytes: &[u8]) -> Self {
        match message.origin() {
            pb::Origin::Derived => Self::default(),
            _ => Self { markers: markers::scan(bytes), words: markers::words(bytes) },
        }
    }

    fn of_message(client: &Client, message: &pb::Message) -> Self {
        let mut going = Self::of(message, &message.encode_to_vec());
        going.markers.extend(client.shared.record.markers.of_message(&message.message_id));
        going
    }
}

async fn message(client: &mut Client, session: &Arc<Session>) -> Option<Past> {
    let message = some_message(client, session).await?;
    let going = Going::of_message(client, &message);
    erase(client, session, Target::MessageId(message.message_id), going, None).await
}

/// Erases some messages of a page at once: those that the session owns, as far as it is a fork.
async fn message_set(client: &mut Client, session: &Arc<Session>) -> Option<Past> {
    let first = some_message(client, session).await?;
    let (mut going, mut message_ids) = (Going::of_message(client, &first), vec![first.message_id.clone()]);
    let mut is_sealed = first.sealed_revision.is_some();
    for _ in 0..client.rng.random_range(1..4) {
        let Some(next) = some_message(client, session).await else { continue };
        if next.session_id == first.session_id && !message_ids.contains(&next.message_id) {
            let next_going = Going::of_message(client, &next);
            going.markers.extend(next_going.markers);
            going.words.extend(next_going.words);
            is_sealed &= next.sealed_revision.is_some();
            message_ids.push(next.message_id);
        }
    }
    // The seal of an open message is a change before that of the erasure.
    let expected = if is_sealed { rewriters::precondition(client, session).await } else { None };
    erase(client, session, Target::MessageSet(pb::MessageSet { message_ids }), going, expected).await
}

async fn part(client: &mut Client, session: &Arc<Session>) -> Option<Past> {
    let message = some_message(client, session).await?;
    let part = message.parts.choose(&mut client.rng)?;
    let going = Going::of(&message, &part.encode_to_vec());
    erase(client, session, Target::PartId(part.part_id.clone()), going, None).await
}

/// Erases a message, or a part of it, that was left open by its writer and that another one may take over now.
async fn open_message(client: &mut Client, session: &Arc<Session>) -> Option<Past> {
    let id = lock(&session.abandoned).last().map(|open| open.id.clone())?;
    let found = read(client, session, &id).await?;
    if client.rng.random_bool(0.4)
        && let Some(part) = found.parts.choose(&mut client.rng)
    {
        let going = Going::of(&found, &part.encode_to_vec());
        return erase(client, session, Target::PartId(part.part_id.clone()), going, None).await;
    }
    let going = Going::of_message(client, &found);
    erase(client, session, Target::MessageId(id), going, None).await
}

async fn whole_session(client: &mut Client, session: &Arc<Session>, policies: &[Policy]) -> Option<Past> {
    let live = lock(&client.shared.sessions).iter().filter(|of| !of.is_erased.load(Ordering::SeqCst)).count();
    if live <= SESSIONS_MIN {
        return None;
    }
    let all = client.messages(&session.id, None, false).await.unwrap_or_default();
    let own = all.iter().filter(|message| message.session_id == session.id);
    let words = own.flat_map(|message| markers::words(&message.encode_to_vec())).collect();
    let going = Going { markers: client.shared.record.markers.of_session(&session.id), words };
    let erased = erase(client, session, Target::WholeSession(true), going, None).await?;
    if let Some(policy) = policies.choose(&mut client.rng) {
        let new = rewriters::create(client, policy).await;
        lock(&client.shared.sessions).extend(new);
    }
    Some(erased)
}

/// The files that have one of some markers.
fn in_files(client: &Client, wanted: &HashSet<Marker>) -> Vec<(String, Marker)> {
    count(&client.shared.record.counts.file_scans);
    match markers::in_files(client.shared.service.directory(), wanted) {
        Ok(found) => found,
        Err(error) => {
            client.finding(format!("the checker itself failed: {error}"));
            Vec::new()
        }
    }
}

async fn erase(
    client: &mut Client,
    session: &Arc<Session>,
    target: Target,
    going: Going,
    expected_revision: Option<i64>,
) -> Option<Past> {
    let wanted: HashSet<Marker> = going.markers.iter().copied().collect();
    // Until something was seen, each time: a short run has few erasures.
    let is_sample =
        client.rng.random_bool(0.1) || client.shared.record.counts.seen_in_files.load(Ordering::Relaxed) == 0;
    if !wanted.is_empty() && is_sample && !in_files(client, &wanted).is_empty() {
        count(&client.shared.record.counts.seen_in_files);
    }
    let request = pb::EraseContentRequest {
        session_id: session.id.clone(),
        target: Some(target.clone()),
        reason: "it was written by mistake".to_owned(),
        dry_run: false,
        request_id: client.fresh_id(),
        expected_revision,
        tree: false,
    };
    let shared = client.shared.clone();
    let record = &shared.record;
    let lost = client.lost;
    record.erasing.fetch_add(1, Ordering::SeqCst);
    record.erasures_begun.fetch_add(1, Ordering::SeqCst);
    let outcome = client.apply(session, request, expected_revision).await;
    record.erasing.fetch_sub(1, Ordering::SeqCst);
    let answer = match outcome {
        Ok(answer) => answer,
        Err(refusal) => {
            // Some messages have nothing to erase.
            let is_mismatch = refusal.reason == "REVISION_MISMATCH" && expected_revision.is_some();
            // An edit belongs to the session of what it replaced.
            let is_mixed = refusal.reason == "INVALID_FIELD" && matches!(target, Target::MessageSet(_));
            // A step of the erasure of its session, or of the one that a fork has it from, took it, and that goes on.
            let is_going = refusal.reason == "SESSION_ERASED" && !matches!(target, Target::WholeSession(_));
            let is_known = is_mismatch || is_mixed || is_going;
            if !is_known && ![NO_ANSWER, "NOTHING_TO_ERASE"].contains(&refusal.reason.as_str()) {
                client.finding(format!("P14: an erasure of {target:?} was refused: {refusal:?}"));
            }
            return None;
        }
    };
    count(&record.counts.erasures);
    if client.lost > lost {
        count(&record.counts.erasures_again);
    }
    let is_session = matches!(target, Target::WholeSession(_));
    if is_session {
        session.is_erased.store(true, Ordering::SeqCst);
        record.markers.session_erased(&session.id, record.now());
    }
    record.markers.erased(going.markers, record.now());
    let number = record.number(&answer.session_id, answer.seq);
    lock(&record.erased_answers).push((answer.session_id.clone(), answer.revision, number));
    look_for(client, session, &target, &answer, (&wanted, &going.words)).await;
    Some(Past { session: session.clone(), target, answer })
}

/// P2: looks everywhere for what was erased. Each answer is compared with the erased markers as it comes.
async fn look_for(
    client: &mut Client,
    session: &Session,
    target: &Target,
    answer: &pb::EraseContentResponse,
    (wanted, words): (&HashSet<Marker>, &[String]),
) {
    if answer.pending_files.is_empty() {
        for (file, marker) in in_files(client, wanted) {
            let name = client.shared.record.markers.named(&marker);
            client.finding(format!("P2: {name} was erased by {target:?}, and is in {file}"));
        }
    }
    let messages = match target {
        Target::MessageId(id) => std::slice::from_ref(id),
        Target::MessageSet(set) => &set.message_ids,
        Target::PartId(_) | Target::WholeSession(_) => &[],
    };
    for id in messages {
        if let Some(found) = read(client, session, id).await
            && found.parts.iter().any(|part| !part.erased)
        {
            client.finding(format!("P2: {id} was erased, and is {found:?}"));
        }
    }
    if let Target::PartId(id) = target
        && let Some(message) = read(client, session, id).await
        && message.parts.iter().any(|part| part.part_id == *id && !part.erased)
    {
        client.finding(format!("P2: {id} was erased, and is in {message:?}"));
    }
    drop(client.ask(&pb::GetViewRequest { session_id: session.id.clone(), ..Default::default() }).await);
    if client.rng.random_bool(0.3) {
        drop(client.messages(&session.id, None, true).await);
    }
    if let Some(word) = words.choose(&mut client.rng)
        && let Some(found) = searches::hits(client, word, (&session.id, answer.seq)).await
        && !found.hits.is_empty()
    {
        client.finding(format!("P2: {word} was erased by {target:?}, and is found in {:?}", found.hits));
    }
}

/// An erasure that is asked for once more, by another request. It takes what replaced the message since, and nothing
/// twice, which the log shows.
async fn again(client: &mut Client, past: &Past) {
    let request = pb::EraseContentRequest {
        session_id: past.session.id.clone(),
        target: Some(past.target.clone()),
        reason: "to be sure".to_owned(),
        dry_run: false,
        request_id: client.fresh_id(),
        expected_revision: None,
        tree: false,
    };
    match client.apply(&past.session, request, None).await {
        Ok(answer)
            if answer.seq > past.answer.seq && matches!(past.target, Target::MessageId(_) | Target::MessageSet(_)) => {}
        Ok(answer) if answer.existed && answer.seq >= past.answer.seq => {}
        other => client.finding(format!("P4: {:?} was erased again: {other:?}", past.target)),
    }
}

//! Readers: they request current and earlier views, whole and as differences, and request again what they got before.

use super::client::Client;
use super::content::PartPrints;
use super::record::{Seen, Session, count, lock};
use super::rpc::View;
use super::{rewriters, searches, views};
use longhand::pb;
use pb::OverflowAction;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The view that a client holds of a session.
struct Held {
    revision: i64,
    hash: Vec<u8>,
    messages: Vec<pb::ViewMessage>,
}

/// Main loop of a reader.
pub(super) async fn run(mut client: Client, pause_ms: u64) {
    let mut held: HashMap<String, Held> = HashMap::new();
    while !client.shared.is_stopping() {
        let Some(session) = client.some_session() else { return };
        match client.rng.random_range(0..100) {
            0..25 => now(&mut client, &session).await,
            25..45 => then(&mut client, &session).await,
            45..65 => difference(&mut client, &session, &mut held).await,
            65..73 => shortened(&mut client, &session).await,
            73..88 => {
                again(&mut client).await;
            }
            88..92 => expand(&mut client, &session).await,
            92..97 => search(&mut client).await,
            _ => heads(&mut client, &session).await,
        }
        let pause = client.rng.random_range(0..=pause_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// Requests a view; none, with a finding, if it is refused.
pub(super) async fn view(client: &mut Client, request: &pb::GetViewRequest) -> Option<View> {
    let newest = request.as_of_revision;
    match client.ask(request).await {
        Ok(view) => {
            count(&client.shared.record.counts.views);
            if newest.is_some_and(|at| view.header.revision != at) {
                client.finding(format!("P10: a view as of {newest:?} is of {}", view.header.revision));
            }
            let many = usize::try_from(view.header.message_count - view.header.known_message_count).unwrap_or(0);
            if many != view.messages.len() {
                client.finding(format!("P10: a header names {many} messages, {} came", view.messages.len()));
            }
            Some(view)
        }
        Err(refusal) => {
            client.finding(format!("P14: a view was refused: {refusal:?}"));
            None
        }
    }
}

/// Compares a whole view with the history at its revision.
pub(super) async fn check(client: &mut Client, session: &str, view: &View) {
    let after_seq = client.asked_after(session);
    let at = view.header.revision;
    let about = |text: String| format!("{text} in {session} at {at}");
    views::pairing(view).into_iter().chain(views::answers(view)).for_each(|text| client.finding(about(text)));
    let Ok(history) = client.messages(session, Some(at), false).await else { return };
    let (mut found, missing) = views::accounting(view, &history);
    found.extend(views::originals(view, &history));
    // What was erased between the two reads is in the first one alone.
    if !(found.is_empty() && missing.is_empty()) && client.is_erased_since(session, after_seq).await {
        return;
    }
    found.into_iter().for_each(|text| client.finding(about(text)));
    if missing.is_empty() {
        return;
    }
    // Between the two revisions of an edit, the replacement exists and the mark that shows it does not.
    let edited = edited_by(client, session, at).await;
    for message in missing {
        let is_unplaced = message.kind() == pb::MessageKind::Edit && !edited.contains(&message.message_id);
        if !is_unplaced {
            let (id, revision, kind) = (&message.message_id, message.revision, message.kind());
            client.finding(about(format!("P8: {kind:?} {id} of revision {revision} is nowhere")));
        }
    }
}

/// The messages that edits up to a revision put in place of others.
async fn edited_by(client: &mut Client, session: &str, at: i64) -> Vec<String> {
    let mut request = pb::ListEventsRequest {
        session_id: Some(session.to_owned()),
        kinds: vec![pb::EventKind::MessageEdited.into()],
        page_size: 1_000,
        to_revision: Some(at),
        ..pb::ListEventsRequest::default()
    };
    let mut edited = Vec::new();
    while let Ok(page) = client.ask(&request).await {
        for event in page.events {
            if let Some(pb::event::Body::MessageEdited(body)) = event.body {
                edited.extend(body.replacement_message_id);
            }
        }
        if page.next_cursor.is_empty() {
            break;
        }
        request.after_cursor = page.next_cursor;
    }
    edited
}

fn saw(client: &mut Client, session: &str, view: &View, origin: &'static str, after_seq: i64) {
    let position = client.rng.random_range(0..usize::MAX);
    client.shared.record.saw(Seen::of(session, view, origin, after_seq), position);
}

/// Requests the current view: it must contain everything acknowledged before the request.
async fn now(client: &mut Client, session: &Session) {
    let acknowledged = session.revision.load(Ordering::SeqCst);
    let mut request = pb::GetViewRequest { session_id: session.id.clone(), ..pb::GetViewRequest::default() };
    if client.rng.random_bool(0.1) {
        request.overflow_action = OverflowAction::Wait.into();
        request.wait_timeout = Some(prost_types::Duration { seconds: 0, nanos: 300_000_000 });
    }
    let Some(view) = view(client, &request).await else { return };
    let after_seq = client.asked_after(&session.id);
    if view.header.revision < acknowledged {
        client.finding(format!(
            "P1: a view of {} is of {}, after the answer {acknowledged}",
            session.id, view.header.revision
        ));
    }
    check(client, &session.id, &view).await;
    saw(client, &session.id, &view, "now", after_seq);
}

async fn then(client: &mut Client, session: &Session) {
    let newest = session.revision.load(Ordering::SeqCst).max(1);
    let at = client.rng.random_range(1..=newest);
    let request = pb::GetViewRequest {
        session_id: session.id.clone(),
        as_of_revision: Some(at),
        ..pb::GetViewRequest::default()
    };
    let Some(view) = view(client, &request).await else { return };
    let after_seq = client.asked_after(&session.id);
    check(client, &session.id, &view).await;
    saw(client, &session.id, &view, "then", after_seq);
}

/// Requests the messages that are new since the view that the client holds, and joins both.
async fn difference(client: &mut Client, session: &Session, held: &mut HashMap<String, Held>) {
    let known = held.get(&session.id);
    let request = pb::GetViewRequest {
        session_id: session.id.clone(),
        known_view_hash: known.map(|held| held.hash.clone()),
        known_revision: known.filter(|_| client.rng.random_bool(0.7)).map(|held| held.revision),
        ..pb::GetViewRequest::default()
    };
    let Some(mut view) = view(client, &request).await else { return };
    let prefix = usize::try_from(view.header.known_message_count).unwrap_or(usize::MAX);
    let there = held.get(&session.id).map(|held| held.messages.as_slice()).unwrap_or_default();
    let Some(prefix) = there.get(..prefix) else {
        return client.finding(format!("P10: {prefix} messages are taken for known, {} are", there.len()));
    };
    view.messages.splice(0..0, prefix.iter().cloned());
    view.header.known_message_count = 0;
    let pb::ViewHeader { revision, view_hash: hash, .. } = view.header.clone();
    saw(client, &session.id, &view, "put together", client.asked_after(&session.id));
    held.insert(session.id.clone(), Held { revision, hash, messages: view.messages });
}

/// Requests a view shortened for one call: it must account for its messages like any other.
async fn shortened(client: &mut Client, session: &Session) {
    let window = rewriters::window(client);
    let request = pb::GetViewRequest {
        session_id: session.id.clone(),
        window: Some(pb::ModelWindow { max_context_tokens: window.max_context_tokens / 3, ..window }),
        overflow_action: OverflowAction::Shorten.into(),
        ..pb::GetViewRequest::default()
    };
    if let Some(view) = view(client, &request).await {
        check(client, &session.id, &view).await;
    }
}

/// P10: a view that was served is served again, byte for byte, whatever came since.
pub(super) async fn again(client: &mut Client) -> bool {
    let seen = lock(&client.shared.record.views).choose(&mut client.rng).cloned();
    match seen {
        Some(seen) => ask_again(client, &seen).await,
        None => false,
    }
}

/// Requests a view again.
pub(super) async fn ask_again(client: &mut Client, seen: &Seen) -> bool {
    let request = pb::GetViewRequest {
        session_id: seen.session.clone(),
        as_of_revision: Some(seen.revision),
        ..pb::GetViewRequest::default()
    };
    let Some(view) = view(client, &request).await else { return false };
    count(&client.shared.record.counts.views_again);
    let again = Seen::of(&seen.session, &view, seen.origin, client.asked_after(&seen.session));
    let is_same = again.hash == seen.hash
        && again.fingerprint == seen.fingerprint
        && again.estimated_tokens == seen.estimated_tokens;
    if !is_same && client.is_erased_since(&seen.session, seen.after_seq).await {
        // Erased content is the only exception; from now on it is this view that is served again.
        let position = client.rng.random_range(0..usize::MAX);
        client.shared.record.saw_again(seen, again, position);
        return true;
    }
    if again.hash != seen.hash || again.fingerprint != seen.fingerprint {
        let what = match (again.hash != seen.hash, again.fingerprint != seen.fingerprint) {
            (true, true) => "bytes and a hash",
            (true, false) => "a hash",
            _ => "bytes",
        };
        client.finding(format!(
            "P10: the view ({}) of {} at {} has other {what} now",
            seen.origin, seen.session, seen.revision
        ));
    } else if again.estimated_tokens != seen.estimated_tokens {
        let (before, now) = (seen.estimated_tokens, again.estimated_tokens);
        client
            .finding(format!("P10: the view of {} at {} had {before} tokens, now {now}", seen.session, seen.revision));
    }
    true
}

/// All messages that an id expands to.
async fn expanded(client: &mut Client, session: &str, id: &str) -> Option<Vec<pb::Message>> {
    let mut request = pb::ExpandMessageRequest {
        session_id: session.to_owned(),
        id: id.to_owned(),
        page_size: 200,
        ..pb::ExpandMessageRequest::default()
    };
    let mut messages = Vec::new();
    loop {
        match client.ask(&request).await {
            Ok(page) => {
                messages.extend(page.messages);
                if page.next_page_token.is_empty() {
                    return Some(messages);
                }
                request.page_token = page.next_page_token;
            }
            Err(refusal) => {
                client
                    .finding(format!("P8: {id}, which stands in a view of {session}, cannot be expanded: {refusal:?}"));
                return None;
            }
        }
    }
}

/// P8: everything that a view shortens, covers or leaves out can be read by the id in its place.
async fn expand(client: &mut Client, session: &Session) {
    let request = pb::GetViewRequest { session_id: session.id.clone(), ..pb::GetViewRequest::default() };
    let Some(view) = view(client, &request).await else { return };
    let after_seq = client.asked_after(&session.id);
    let Ok(history) = client.messages(&session.id, Some(view.header.revision), false).await else { return };
    let mut found = Vec::new();
    if let Some(covered) = &view.end.covered {
        let behind = expanded(client, &session.id, &covered.summary_message_id).await.unwrap_or_default();
        let is_covered = |revision: i64| {
            covered.covered_ranges.iter().any(|range| (range.first_revision..=range.last_revision).contains(&revision))
        };
        // Records are in no view, so that no summary covers them.
        let covered_messages = history.iter().filter(|message| message.kind() != pb::MessageKind::Record);
        for message in covered_messages.filter(|message| is_covered(message.revision)) {
            let there = behind.iter().find(|there| there.message_id == message.message_id);
            if there.is_none_or(|there| !PartPrints::of(&there.parts).fit(&message.parts, None)) {
                found.push(format!(
                    "P8: {} is covered in {} at {} by {covered:?}; behind its summary is {there:?} instead of {message:?}",
                    message.message_id, session.id, view.header.revision
                ));
            }
        }
    }
    let shortened = view.messages.iter().flat_map(|message| &message.parts).filter(|part| part.shortening != 0);
    let ids: Vec<String> = shortened.filter_map(|part| part.part.as_ref()).map(|part| part.part_id.clone()).collect();
    for id in ids.iter().filter(|id| !id.is_empty()).take(3) {
        let behind = expanded(client, &session.id, id).await.unwrap_or_default();
        let original = history.iter().flat_map(|message| &message.parts).find(|part| part.part_id == *id);
        let there = behind.iter().flat_map(|message| &message.parts).find(|part| part.part_id == *id);
        if there.is_none() || original.is_some_and(|original| Some(original) != there) {
            found.push(format!("P8: part {id} of {} is expanded to something else", session.id));
        }
    }
    if !found.is_empty() && !client.is_erased_since(&session.id, after_seq).await {
        found.into_iter().for_each(|text| client.finding(text));
    }
}

/// A search for a message that was acknowledged a moment ago.
async fn search(client: &mut Client) {
    let wanted: Vec<_> = lock(&client.shared.record.searchable).iter().cloned().collect();
    if let Some(wanted) = wanted.choose(&mut client.rng) {
        searches::find(client, wanted).await;
    }
}

/// P13: exports heads, to compare them later.
async fn heads(client: &mut Client, session: &Arc<Session>) {
    let request = pb::ListHeadsRequest { session_id: Some(session.id.clone()), ..pb::ListHeadsRequest::default() };
    match client.ask(&request).await {
        Ok(page) => lock(&client.shared.record.heads).extend(page.heads),
        Err(refusal) => client.finding(format!("P13: heads were refused: {refusal:?}")),
    }
}

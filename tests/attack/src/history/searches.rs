//! Searches: they find what was acknowledged, and nothing that was erased.

use super::client::{Client, NO_ANSWER};
use super::record::{Searchable, count};
use longhand::pb;

/// The longest wait for the index, in seconds.
const WAIT_SECONDS: i64 = 20;

/// The answer to a search for a word, once the index has an event; none if there is no index now.
pub(super) async fn hits(
    client: &mut Client,
    query: &str,
    (session, min_seq): (&str, i64),
) -> Option<pb::SearchHistoryResponse> {
    let request = pb::SearchHistoryRequest {
        query: query.to_owned(),
        include_derived: true,
        page_size: 100,
        min_seq,
        // Events of several stores have no common numbers.
        session_id: client.shared.service.has_several().then(|| session.to_owned()),
        wait_timeout: Some(prost_types::Duration { seconds: WAIT_SECONDS, nanos: 0 }),
        ..pb::SearchHistoryRequest::default()
    };
    count(&client.shared.record.counts.searches);
    match client.ask(&request).await {
        Ok(answer) => Some(answer),
        Err(refusal) if ["SEARCH_UNAVAILABLE", NO_ANSWER].contains(&refusal.reason.as_str()) => None,
        Err(refusal) => {
            client.finding(format!("P14: a search for {query} was refused: {refusal:?}"));
            None
        }
    }
}

/// What is wrong with the answer to a search for the word of a message: it must have the message, and no other that a
/// client wrote.
pub(super) fn fault(answer: &pb::SearchHistoryResponse, wanted: &Searchable) -> Option<String> {
    let Searchable { word, message, seq, .. } = wanted;
    let is_written = |hit: &&pb::SearchHit| {
        matches!(hit.kind(), pb::MessageKind::Normal | pb::MessageKind::Edit | pb::MessageKind::Record)
    };
    let written: Vec<&String> = answer.hits.iter().filter(is_written).map(|hit| &hit.message_id).collect();
    if answer.indexed_seq < *seq {
        return Some(format!("search: the index reaches {} after a wait for {seq}", answer.indexed_seq));
    }
    (written != [message]).then(|| format!("search: {word} of {message} is found in {written:?}"))
}

/// Searches for the word of a message that was acknowledged.
pub(super) async fn find(client: &mut Client, wanted: &Searchable) {
    let Some(answer) = hits(client, &wanted.word, (&wanted.session, wanted.seq)).await else { return };
    // A daemon that took the shard fills an index of its own, behind all other work.
    if answer.indexed_seq < wanted.seq && client.shared.service.has_several() {
        return;
    }
    let Some(fault) = fault(&answer, wanted) else { return };
    // It may have been erased meanwhile.
    let asked = pb::GetMessageRequest { session_id: wanted.session.clone(), message_id: wanted.message.clone() };
    let found = client.ask(&asked).await.ok().and_then(|answer| answer.message);
    if found.is_some_and(|message| message.parts.iter().all(|part| !part.erased)) {
        client.finding(fault);
    }
}

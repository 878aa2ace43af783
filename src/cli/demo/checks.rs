//! Checks at the end of the demo.

use super::agent::AgentRecord;
use crate::cli::output::count;
use crate::cli::pairing;
use crate::pb;
use crate::pb::check_integrity_response::Item;
use crate::pb::event::Body;
use longhand_client::Client;
use serde::Serialize;
use std::collections::HashMap;

/// Messages or events requested per page.
const PAGE_SIZE: i32 = 200;

/// A check and its result.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// The checked statement.
    pub(super) what: &'static str,
    /// True if the statement holds.
    pub(super) holds: bool,
    /// The numbers, or the deviation.
    pub(super) detail: String,
}

fn check(what: &'static str, result: Result<String, String>) -> Check {
    match result {
        Ok(detail) => Check { what, holds: true, detail },
        Err(detail) => Check { what, holds: false, detail },
    }
}

/// Lists the history, and compares it with the messages that the agents sent.
pub(super) async fn history(client: &Client, session_id: &str, played: &[AgentRecord]) -> anyhow::Result<Check> {
    let stored = messages(client, session_id).await?;
    Ok(check("the history has every sent message once, in its writer's order", same_history(&stored, played)))
}

async fn messages(client: &Client, session_id: &str) -> anyhow::Result<Vec<pb::Message>> {
    let request = pb::ListMessagesRequest {
        session_id: session_id.to_owned(),
        page_size: PAGE_SIZE,
        ..pb::ListMessagesRequest::default()
    };
    Ok(client.pages(request).all(|page| page.messages).await?)
}

fn same_history(stored: &[pb::Message], played: &[AgentRecord]) -> Result<String, String> {
    let sent: usize = played.iter().map(|played| played.sent.len()).sum();
    if stored.len() != sent {
        return Err(format!("{sent} sent, {} stored", stored.len()));
    }
    // The messages that each agent sent, in order; their client ids begin with the agent's name.
    let mut queues: Vec<_> = played.iter().map(|played| played.sent.iter()).collect();
    for message in stored {
        let original = as_sent(message);
        let next = queues.iter_mut().find_map(|queue| {
            let same_writer = queue.as_slice().first().is_some_and(|next| next.client_id == original.client_id);
            if same_writer { queue.next() } else { None }
        });
        match next {
            None => return Err(format!("{:?} is out of order", message.client_id)),
            Some(next) if without_token(next) != original => {
                return Err(format!("{:?} was changed", message.client_id));
            }
            Some(_) => {}
        }
    }
    Ok(format!("{} compared", count(sent as i64, "message")))
}

/// A message as it was sent, without the token of the view that a reply was given: the daemon reads it and does not
/// store it.
fn without_token(sent: &pb::NewMessage) -> pb::NewMessage {
    let finish = sent.finish.clone().map(|finish| pb::Finish { view_token: None, ..finish });
    pb::NewMessage { finish, ..sent.clone() }
}

/// A stored message without the fields that the daemon added.
fn as_sent(message: &pb::Message) -> pb::NewMessage {
    let part = |part: &pb::Part| {
        let mut part = pb::Part { part_id: String::new(), revision: 0, ..part.clone() };
        if let Some(pb::part::Body::ToolResult(result)) = &mut part.body {
            // The demo's agents do not name the message with the call: the store finds it.
            result.call_message_id = None;
        }
        part
    };
    pb::NewMessage {
        client_id: message.client_id.clone(),
        role: message.role,
        kind: message.kind,
        parts: message.parts.iter().map(part).collect(),
        open: message.finish.is_none(),
        finish: message.finish.clone(),
        model: message.model.clone(),
        provider: message.provider.clone(),
        origin_time: message.origin_time,
        open_timeout: None,
        metadata_json: message.metadata_json.clone(),
        replace_existing: false,
    }
}

/// Lists the events, and compares them with those that the watcher received.
pub(super) async fn events(client: &Client, session_id: &str, watched: &[pb::Event]) -> anyhow::Result<Check> {
    let mut request = pb::ListEventsRequest {
        session_id: Some(session_id.to_owned()),
        page_size: PAGE_SIZE,
        to_revision: watched.last().map(|event| event.revision),
        ..pb::ListEventsRequest::default()
    };
    let mut listed = Vec::new();
    loop {
        let page = client.call(request.clone()).await?;
        listed.extend(page.events);
        if page.next_cursor.is_empty() {
            break;
        }
        request.after_cursor = page.next_cursor;
    }
    Ok(check("the watcher received every event once, in order", same_events(&listed, watched)))
}

fn same_events(listed: &[pb::Event], watched: &[pb::Event]) -> Result<String, String> {
    if let Some(gap) = listed.windows(2).find(|pair| pair[1].revision != pair[0].revision + 1) {
        return Err(format!("revision {} follows {}", gap[1].revision, gap[0].revision));
    }
    if listed != watched {
        return Err(format!("{} listed, {} received", listed.len(), watched.len()));
    }
    Ok(count(listed.len() as i64, "event"))
}

/// Checks that every view that an agent was given fits its window, and that its calls and results are paired.
pub(super) fn views(played: &[AgentRecord]) -> Check {
    let views = || played.iter().flat_map(|played| &played.views);
    let unfit = views().filter(|view| !view.header.fits).count();
    let faults: Vec<String> = views().flat_map(|view| pairing::faults(&view.messages)).collect();
    let result = match faults.first() {
        Some(fault) => Err(format!("{}: {fault}", count(faults.len() as i64, "fault"))),
        None if unfit > 0 => Err(format!("{} over the window", count(unfit as i64, "view"))),
        None => Ok(count(views().count() as i64, "view")),
    };
    check("every view fits its window and has a result after each call", result)
}

/// Requests every view that an agent was given again, by its revision.
pub(super) async fn same_views(client: &Client, session_id: &str, played: &[AgentRecord]) -> anyhow::Result<Check> {
    let mut wrong = Vec::new();
    let mut asked = 0;
    for served in played.iter().flat_map(|played| &played.views) {
        let request = pb::GetViewRequest {
            session_id: session_id.to_owned(),
            as_of_revision: Some(served.header.revision),
            ..pb::GetViewRequest::default()
        };
        let again = client.view(request).await?;
        asked += 1;
        let same_hash = again.header.view_hash == served.header.view_hash;
        if !same_hash || again.messages != served.messages || again.end != served.end {
            wrong.push(served.header.revision.to_string());
        }
    }
    let result = if wrong.is_empty() {
        Ok(format!("{} served again", count(asked, "view")))
    } else {
        Err(format!("other bytes at {}", wrong.join(", ")))
    };
    Ok(check("every view is the same when requested again by its revision", result))
}

/// Checks that there were compactions, and that each one that started has ended once.
pub(super) fn compactions(events: &[pb::Event]) -> Check {
    check("there were prunes and summaries, and each ended once", ended_once(events))
}

fn ended_once(events: &[pb::Event]) -> Result<String, String> {
    let (mut summaries, mut prunes) = (0, 0);
    let mut running: HashMap<&str, i64> = HashMap::new();
    for event in events {
        let (id, step) = match &event.body {
            Some(Body::CompactionStarted(started)) => (&started.compaction_id, 1),
            Some(Body::Compacted(compacted)) => {
                summaries += i64::from(compacted.kind() == pb::CompactionKind::Summary);
                prunes += i64::from(compacted.kind() == pb::CompactionKind::Prune);
                (&compacted.compaction_id, -1)
            }
            Some(Body::CompactionFailed(failed)) => (&failed.compaction_id, -1),
            Some(Body::CompactionCancelled(cancelled)) => (&cancelled.compaction_id, -1),
            Some(_) | None => continue,
        };
        let open = running.entry(id).or_default();
        *open += step;
        if !(0..=1).contains(open) {
            return Err(format!("{id} started or ended twice"));
        }
    }
    match running.iter().find(|(_, open)| **open != 0) {
        Some((id, _)) => Err(format!("{id} has not ended")),
        None if summaries == 0 || prunes == 0 => Err(format!("{prunes} pruned, {summaries} compacted")),
        None => Ok(format!("{}, {}", count(prunes, "prune"), count(summaries, "compaction"))),
    }
}

/// Lets the daemon check its hash chains.
pub(super) async fn integrity(client: &Client) -> anyhow::Result<Check> {
    let request = pb::CheckIntegrityRequest { session_id: None };
    let mut responses = client.stream(request).await?;
    let mut result = Err("the check ended before it was complete".to_owned());
    while let Some(response) = responses.next().await? {
        match response.item {
            Some(Item::Finding(finding)) => {
                result = Err(format!("#{}: {}", finding.revision, finding.message));
                break;
            }
            Some(Item::End(end)) => result = Ok(format!("{} checked", count(end.event_count, "event"))),
            None => {}
        }
    }
    Ok(check("the hash chain is whole", result))
}

/// Checks that the daemon stopped cleanly.
pub(super) fn stopped(cleanly: bool) -> Check {
    let result = if cleanly { Ok("on SIGTERM".to_owned()) } else { Err("killed, or failed".to_owned()) };
    check("the daemon stopped cleanly", result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: &str, text: &str) -> pb::NewMessage {
        let body = pb::part::Body::Text(pb::TextPart { text: text.into() });
        let part = pb::Part { body: Some(body), ..pb::Part::default() };
        let finish = Some(pb::Finish::default());
        pb::NewMessage { client_id: Some(id.into()), parts: vec![part], finish, ..pb::NewMessage::default() }
    }

    fn stored(sent: &pb::NewMessage, revision: i64) -> pb::Message {
        let part = |part: &pb::Part| pb::Part { part_id: "prt_1".into(), revision, ..part.clone() };
        pb::Message {
            message_id: "msg_1".into(),
            client_id: sent.client_id.clone(),
            revision,
            parts: sent.parts.iter().map(part).collect(),
            finish: sent.finish.clone(),
            ..pb::Message::default()
        }
    }

    #[test]
    fn a_lost_changed_or_disordered_message_is_found() {
        let (a, b, c) = (sent("x:1", "one"), sent("x:2", "two"), sent("y:1", "three"));
        let played = [
            AgentRecord { sent: vec![a.clone(), b.clone()], ..AgentRecord::default() },
            AgentRecord { sent: vec![c.clone()], ..AgentRecord::default() },
        ];
        let history = |messages: &[&pb::NewMessage]| {
            let stored: Vec<_> =
                messages.iter().zip(1..).map(|(message, revision)| stored(message, revision)).collect();
            same_history(&stored, &played)
        };
        assert!(history(&[&a, &c, &b]).is_ok());
        assert!(history(&[&b, &c, &a]).unwrap_err().contains("out of order"));
        assert!(history(&[&a, &b]).unwrap_err().contains("2 stored"));
        assert!(history(&[&a, &sent("x:2", "else"), &c]).unwrap_err().contains("changed"));
        assert!(history(&[&a, &a, &c]).unwrap_err().contains("out of order"));
    }

    fn event(revision: i64, body: Body) -> pb::Event {
        pb::Event { revision, body: Some(body), ..pb::Event::default() }
    }

    #[test]
    fn a_missing_or_doubled_event_is_found() {
        let events: Vec<_> =
            (1..=3).map(|revision| event(revision, Body::SessionArchived(pb::SessionArchived {}))).collect();
        assert!(same_events(&events, &events).is_ok());
        assert!(same_events(&events, &events[..2]).is_err());
        let doubled = [events[0].clone(), events[0].clone()];
        assert!(same_events(&doubled, &doubled).is_err());
    }

    #[test]
    fn a_compaction_that_does_not_end_once_is_found() {
        let id = |id: &str| id.to_owned();
        let started = |name: &str| {
            event(1, Body::CompactionStarted(pb::CompactionStarted { compaction_id: id(name), ..Default::default() }))
        };
        let done = |name: &str, kind: pb::CompactionKind| {
            event(
                2,
                Body::Compacted(pb::Compacted { compaction_id: id(name), kind: kind.into(), ..Default::default() }),
            )
        };
        let (summary, prune) = (pb::CompactionKind::Summary, pb::CompactionKind::Prune);
        let whole = [started("a"), done("a", prune), started("b"), done("b", summary)];
        assert!(ended_once(&whole).is_ok());
        assert!(ended_once(&whole[..2]).is_err());
        assert!(ended_once(&whole[..3]).unwrap_err().contains("not ended"));
        assert!(ended_once(&[started("a"), done("a", prune), done("a", prune)]).unwrap_err().contains("twice"));
        assert!(ended_once(&[done("a", summary)]).unwrap_err().contains("twice"));
    }
}

//! Rewinds that belong to a request: each is in the log once, in the mutation of its request, and to the end that was
//! asked for; it takes nothing out of the queue but results for what it leaves out, and views show none of that.

use super::agreement::Written;
use super::client::Client;
use super::log::Log;
use super::readers;
use super::rpc::View;
use longhand::pb;
use pb::event::Body;
use pb::{MessageKind, ViewMessageKind};
use rand::seq::IndexedRandom as _;
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Maximum number of views that are checked at the end of a round.
const VIEWS_MAX: usize = 40;

/// What is wrong with the events of one request, one sentence each. `asked` is set if the request rewinds: the last
/// position that it keeps, if that is known.
pub(super) fn faults(rpc: &str, asked: Option<Option<i64>>, events: &[&pb::Event], written: &Written) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut rewinds, mut withdrawn, mut prompts) = (Vec::new(), Vec::new(), 0);
    for event in events {
        match &event.body {
            Some(Body::SessionRewound(body)) => {
                if prompts > 0 {
                    faults.push("prompt: a rewind is behind its prompt".to_owned());
                }
                rewinds.push(body.after_revision);
            }
            Some(Body::PromptWithdrawn(body)) => withdrawn.push(&body.prompt_id),
            Some(Body::PromptSubmitted(_)) => prompts += 1,
            _ => {}
        }
    }
    let fits = match asked {
        None => rewinds.is_empty(),
        Some(position) => rewinds.len() == 1 && position.is_none_or(|position| rewinds == [position]),
    };
    if !fits {
        faults.push(format!("P5: the log has rewinds to {rewinds:?}, and {asked:?} was asked for"));
    }
    if prompts != usize::from(rpc == "SubmitPrompt") {
        faults.push(format!("P4: the log has {prompts} prompts"));
    }
    if !["WithdrawPrompt", "EraseContent"].contains(&rpc) {
        let is_left_out = |id: &str| written.answered(id).any(|(_, call)| rewinds.iter().any(|after| call > *after));
        let others = withdrawn.into_iter().filter(|id| !is_left_out(id));
        faults.extend(others.map(|id| format!("prompt: {id} was withdrawn, and nothing of it was left out")));
    }
    faults
}

/// True if the event before one of a prompt is the rewind of the same request.
pub(super) fn is_behind_own(log: &Log, prompt: &pb::Event) -> bool {
    let before = log.at(prompt.seq - 1);
    before.is_some_and(|before| {
        matches!(before.body, Some(Body::SessionRewound(_)))
            && (&before.session_id, &before.request_id) == (&prompt.session_id, &prompt.request_id)
    })
}

/// A message that a view shows at one of some positions. What clients did not write has none.
pub(super) fn shown_in(
    view: &View,
    positions: RangeInclusive<i64>,
    position: impl Fn(&str) -> Option<i64>,
) -> Option<&str> {
    let shown = view.messages.iter().filter(|message| message.kind() == ViewMessageKind::Shown);
    let mut ids = shown.map(|message| message.message_id.as_str());
    ids.find(|id| position(id).is_some_and(|position| positions.contains(&position)))
}

/// P8: the views at the ends of some mutations that rewound show nothing of what the rewinds left out.
pub(super) async fn check_views(client: &mut Client, log: &Log, from: usize) {
    let is_rewind = |event: &&pb::Event| {
        matches!(event.body, Some(Body::SessionRewound(_))) && !log.erasures.is_erased(&event.session_id)
    };
    let all: Vec<&pb::Event> = log.events[from.min(log.events.len())..].iter().filter(is_rewind).collect();
    for event in all.choose_multiple(&mut client.rng, VIEWS_MAX) {
        let Some(Body::SessionRewound(body)) = &event.body else { continue };
        let is_of_mutation = |next: &&pb::Event| next.revision >= event.revision && next.request_id == event.request_id;
        let last = log.own_events(&event.session_id).filter(is_of_mutation).map(|event| event.revision).max();
        let as_of_revision = Some(last.unwrap_or(event.revision));
        let session_id = event.session_id.clone();
        let request = pb::GetViewRequest { session_id, as_of_revision, ..pb::GetViewRequest::default() };
        let Some(view) = readers::view(client, &request).await else { continue };
        let positions: HashMap<String, i64> = log.positions(&event.session_id).into_iter().collect();
        let is_written = |id: &str| matches!(log.erasures.kind(id), Some(MessageKind::Normal | MessageKind::Edit));
        let position = |id: &str| positions.get(log.erasures.original(id)).copied().filter(|_| is_written(id));
        if let Some(id) = shown_in(&view, body.after_revision + 1..=event.revision, position) {
            client.finding(format!(
                "P8: {} of {} is shown behind the rewind to {} at {}",
                id, event.session_id, body.after_revision, event.revision
            ));
        }
    }
}

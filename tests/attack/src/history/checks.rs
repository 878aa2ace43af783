//! The checks of an idle store: histories, streams, snapshots and chains, compared with the clients' record and the
//! log.

use super::agreement::Answer;
use super::client::Client;
use super::content::{self, PartPrints, Prints};
use super::erasures::Lost;
use super::log::Log;
use super::record::{Expected, OpenState, Snapshot, Watched, count, lock};
use super::stores::store_of;
use super::{markers, open, readers, trees};
use longhand::pb;
use pb::event::Body;
use pb::{EventKind, MessageKind};
use rand::Rng as _;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Maximum time after which the files of an idle store have nothing that was erased.
const CLEAN_TIME_MAX: Duration = Duration::from_secs(20);

/// Checks everything about a session's history.
pub(super) async fn session(client: &mut Client, log: &Log, id: &str) {
    let newest = log.sessions.get(id).map_or(0, |ancestry| ancestry.revision);
    history(client, log, id, None, newest).await;
    for _ in 0..2 {
        let at = client.rng.random_range(1..=newest.max(1));
        history(client, log, id, Some(at), at).await;
    }
    events(client, log, id).await;
    runs(client, log, id).await;
    let request = pb::GetViewRequest { session_id: id.to_owned(), as_of_revision: Some(newest), ..Default::default() };
    if let Some(view) = readers::view(client, &request).await {
        readers::check(client, id, &view).await;
    }
    chain(client, Some(id)).await;
}

/// The ids of a session's messages at a revision, in order, according to the log. A fork leaves out messages that
/// were open at its fork point.
fn listed(log: &Log, id: &str, at: i64) -> Vec<String> {
    let events = log.history(id, at);
    let forks = forks(log, id);
    let mut sealed: HashMap<&str, i64> = HashMap::new();
    // An inherited message is in the fork only if it was sealed at the fork point.
    for event in log.history(id, i64::MAX) {
        match &event.body {
            Some(Body::MessageAppended(body)) if body.sealed => drop(sealed.insert(&body.message_id, event.revision)),
            Some(Body::MessageFinished(body)) => drop(sealed.insert(&body.message_id, event.revision)),
            _ => {}
        }
    }
    let messages = events.iter().filter_map(|event| match &event.body {
        Some(Body::MessageAppended(body)) => {
            let fork = forks.iter().find(|fork| event.revision <= **fork);
            let is_inherited =
                fork.is_none_or(|fork| sealed.get(body.message_id.as_str()).is_some_and(|at| at <= fork));
            is_inherited.then(|| body.message_id.clone())
        }
        _ => None,
    });
    messages.collect()
}

/// The revisions at which a session and its ancestors were forked, ascending.
fn forks(log: &Log, id: &str) -> Vec<i64> {
    let mut forks = Vec::new();
    let mut id = id;
    while let Some((parent, at)) = log.sessions.get(id).and_then(|ancestry| ancestry.fork.as_ref()) {
        let last = forks.last().copied().unwrap_or(i64::MAX);
        forks.push(last.min(*at));
        id = parent;
    }
    forks.reverse();
    forks
}

/// P1, P2, P3: the history is what was acknowledged, in the order of the log, byte for byte.
async fn history(client: &mut Client, log: &Log, id: &str, at: Option<i64>, revision: i64) {
    let Ok(found) = client.messages(id, at, true).await else { return };
    let ids: Vec<&String> = found.iter().map(|message| &message.message_id).collect();
    let expected = listed(log, id, revision);
    if ids != expected.iter().collect::<Vec<_>>() {
        let (there, wanted): (BTreeSet<&String>, BTreeSet<&String>) =
            (ids.into_iter().collect(), expected.iter().collect());
        let missing: Vec<_> = wanted.difference(&there).collect();
        let surplus: Vec<_> = there.difference(&wanted).collect();
        client.finding(format!(
            "P2: messages of {id} at {at:?}: {missing:?} are missing, {surplus:?} too many, or the order is wrong"
        ));
    }
    for message in &found {
        known(client, log, id, at, message).await;
    }
}

/// Compares one message with the answer that its client got.
async fn known(client: &mut Client, log: &Log, session: &str, at: Option<i64>, message: &pb::Message) {
    let id = &message.message_id;
    let expected = lock(&client.shared.record.messages).get(id).cloned();
    let lost = log.lost(id);
    let wrong = match expected {
        None if message.origin() == pb::Origin::Derived => {
            lost == Some(&Lost::All) && message.parts.iter().any(|part| !part.erased)
        }
        None => {
            client.finding(format!("P14: {id} is in {session}, and no client got an answer for it: {message:?}"));
            false
        }
        Some(Expected::Whole(prints)) => !prints.fit(message, lost),
        Some(Expected::Edit(prints)) => message.kind() != MessageKind::Edit || !prints.fit(&message.parts, lost),
        Some(Expected::Prompt(sent)) => {
            let role = if sent.callers.is_empty() { pb::Role::User } else { pb::Role::Tool };
            !sent.parts.fit(&message.parts, lost)
                || content::callers(&message.parts) != sent.callers
                || message.metadata_json != sent.metadata_json.filter(|_| lost != Some(&Lost::All))
                || (message.role(), message.kind()) != (role, MessageKind::Normal)
                || message.sealed_revision != Some(message.revision)
        }
        // As of an earlier revision, an open message has fewer parts.
        Some(Expected::Open(open)) => {
            let state = open.state.lock().await;
            let is_sealed = message.sealed_revision.is_some();
            if at.is_none() && is_sealed && !state.is_sealed {
                let is_ended = log.is_sealed_by_end(&message.session_id, message, state.epoch);
                !is_ended || !is_aborted(&state, message, lost)
            } else if at.is_none() && is_sealed {
                !Prints::of(&state.message, true).fit(message, lost)
            } else {
                let is_whole = at.is_some() || message.parts.len() == state.message.parts.len();
                // The end of its run, or an erasure, closes the drafts, and seals the message at the next revision.
                let is_aborted = !state.is_sealed && (is_sealed || at.is_some());
                let drafts = if is_aborted { state.possible_drafts() } else { vec![Vec::new()] };
                let is_written = drafts.iter().any(|drafts| {
                    let written: Vec<_> =
                        state.message.parts.iter().cloned().chain(drafts.iter().map(closed)).collect();
                    let written = &written[..message.parts.len().min(written.len())];
                    PartPrints::of(written).fit(&message.parts, lost)
                });
                !is_whole || !is_written
            }
        }
    };
    if wrong {
        client.finding(format!(
            "P2: message {id} of {session} at {at:?} is not what was acknowledged, less {lost:?}: {message:?}"
        ));
    }
}

/// The part that the end of a run makes of a draft.
fn closed(draft: &pb::Draft) -> pb::Part {
    open::closed(draft, draft.client_id.clone())
}

/// True if a message is what was acknowledged of it, sealed as aborted, less what was erased of it; words in doubt may be
/// there or not.
fn is_aborted(state: &OpenState, found: &pb::Message, lost: Option<&Lost>) -> bool {
    let aborted = |drafts: &[pb::Draft]| {
        let mut message = state.message.clone();
        message.parts.extend(drafts.iter().map(closed));
        message.finish = Some(pb::Finish { reason: pb::FinishReason::Aborted.into(), ..pb::Finish::default() });
        Prints::of(&message, true)
    };
    state.possible_drafts().iter().any(|drafts| aborted(drafts).fit(found, lost))
}

/// Runs, prompts and approvals of an idle store: all lists are what follows from the log.
pub(super) async fn runs(client: &mut Client, log: &Log, id: &str) {
    let session_id = id.to_owned();
    let Some(state) = log.state(id).cloned() else { return };
    let mut answers = Vec::new();
    for include_ended in [false, true] {
        let page_size = client.rng.random_range(1..40);
        let session_id = session_id.clone();
        let mut request = pb::ListPromptsRequest { session_id, include_ended, page_size, page_token: String::new() };
        let mut prompts = Vec::new();
        while let Ok(page) = client.ask(&request).await {
            prompts.extend(page.prompts);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        answers.push(if include_ended { Answer::Prompts(prompts) } else { Answer::Queue(prompts) });
        let session_id = request.session_id;
        let mut request = pb::ListApprovalsRequest { session_id, include_ended, page_size, page_token: String::new() };
        let mut approvals = Vec::new();
        while let Ok(page) = client.ask(&request).await {
            approvals.extend(page.approvals);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        answers.push(if include_ended { Answer::Approvals(approvals) } else { Answer::WaitingApprovals(approvals) });
    }
    let request = pb::ListRunsRequest { session_id: Some(session_id.clone()), ..pb::ListRunsRequest::default() };
    answers.push(Answer::Runs(listed_runs(client, request).await));
    if let Ok(found) = client.ask(&pb::GetRunRequest { session_id }).await {
        answers.push(Answer::Run(Box::new(found)));
    }
    let written = lock(&client.shared.record.written);
    for why in answers.iter().filter_map(|answer| answer.differs(&state, &written)) {
        client.finding(format!("of {id} at rest: {why}"));
    }
}

/// All pages of a list of runs.
async fn listed_runs(client: &mut Client, mut request: pb::ListRunsRequest) -> Vec<pb::Run> {
    request.page_size = client.rng.random_range(1..40);
    let mut runs = Vec::new();
    while let Ok(page) = client.ask(&request).await {
        runs.extend(page.runs);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    runs
}

/// The active runs of a tree of an idle store, or of all its sessions, are those that follow from the log.
pub(super) async fn active_runs(client: &mut Client, log: &Log, root: Option<&str>) {
    let request = pb::ListRunsRequest {
        session_id: root.map(str::to_owned),
        tree: root.is_some(),
        ..pb::ListRunsRequest::default()
    };
    let found: BTreeSet<String> = listed_runs(client, request).await.into_iter().map(|run| run.run_id).collect();
    let active = |id: &String| {
        let state = log.state(id)?;
        state.run(state.active()?).map(|run| run.id.clone())
    };
    let expected: BTreeSet<String> = match root {
        Some(root) => trees::members(&log.events, root, false).iter().filter_map(active).collect(),
        None => log.sessions.keys().filter_map(active).collect(),
    };
    if found != expected {
        client.finding(format!("run: {found:?} are active in the tree of {root:?}, and by the log {expected:?}"));
    }
}

/// P6: a session's list of events equals its events in the log, after the inherited ones.
async fn events(client: &mut Client, log: &Log, id: &str) {
    let mut request = pb::ListEventsRequest {
        session_id: Some(id.to_owned()),
        page_size: client.rng.random_range(50..1_000),
        ..pb::ListEventsRequest::default()
    };
    let mut found: Vec<(i64, u64)> = Vec::new();
    while let Ok(page) = client.ask(&request).await {
        let number = |event: &pb::Event| client.shared.record.number(&event.session_id, event.seq);
        found.extend(page.events.iter().map(|event| log.print(number(event), content::event(event))));
        if page.next_cursor.is_empty() {
            break;
        }
        request.after_cursor = page.next_cursor;
    }
    let expected: Vec<(i64, u64)> =
        log.history(id, i64::MAX).iter().map(|event| log.print(event.seq, content::event(event))).collect();
    if found != expected {
        client.finding(format!("P6: the {} events of {id} differ from the {} of the log", found.len(), expected.len()));
    }
}

/// P13: the hash chain of a session, or of all.
pub(super) async fn chain(client: &mut Client, id: Option<&str>) {
    match client.ask(&pb::CheckIntegrityRequest { session_id: id.map(str::to_owned) }).await {
        Ok((findings, end)) => {
            for finding in &findings {
                client.finding(format!("P13: {finding:?}"));
            }
            if usize::try_from(end.finding_count) != Ok(findings.len()) {
                client.finding(format!("P13: a check ended with {end:?}, and had {} findings", findings.len()));
            }
        }
        Err(refusal) => client.finding(format!("P13: a check was refused: {refusal:?}")),
    }
}

/// P13: exported heads are still valid, and equal those of the log.
pub(super) async fn heads(client: &mut Client, log: &Log) {
    let heads = std::mem::take(&mut *lock(&client.shared.record.heads));
    for head in &heads {
        let events = log.history(&head.session_id, head.revision);
        let there = events.last().filter(|event| event.revision == head.revision);
        if there.is_none_or(|event| event.hash != head.hash) {
            client.finding(format!("P13: the head of {} at {} is not in the log", head.session_id, head.revision));
        }
    }
    for chunk in heads.chunks(50) {
        let at: Vec<pb::Head> = chunk.iter().map(|head| pb::Head { hash: Vec::new(), ..head.clone() }).collect();
        match client.ask(&pb::ListHeadsRequest { at, page_size: 1_000, ..Default::default() }).await {
            Ok(page) if page.heads == chunk => {}
            Ok(_) => client.finding("P13: heads that were exported are others now"),
            Err(refusal) => client.finding(format!("P13: heads were refused: {refusal:?}")),
        }
    }
}

/// P6: the joined stream of a watcher equals the log under its filter, in order, each event once.
pub(super) fn watched(client: &Client, log: &Log, watched: &Watched) {
    let Some(after) = &watched.after else { return };
    let kinds: HashSet<i32> = watched.kinds.iter().copied().collect();
    let is_between = |event: &&pb::Event| {
        let store = store_of(event.seq);
        after.has(store) && event.seq > after.of(store) && event.seq <= watched.to.of(store)
    };
    let range = log.events.iter().filter(is_between);
    let tree = (!watched.root.is_empty()).then(|| trees::members(&log.events, &watched.root, true));
    let matches = |event: &&pb::Event| {
        tree.as_ref().is_none_or(|tree| tree.contains(&event.session_id))
            && (watched.sessions.is_empty() || watched.sessions.contains(&event.session_id))
            && (kinds.is_empty() || kinds.contains(&event.kind))
    };
    let print = |event: &pb::Event| log.print(event.seq, content::event(event));
    // Those of each store came in their order; between stores there is none.
    let mut expected: Vec<(i64, u64)> = range.filter(matches).map(print).collect();
    let mut there: Vec<(i64, u64)> = watched.events.iter().map(|(seq, prints)| log.print(*seq, *prints)).collect();
    expected.sort_unstable();
    there.sort_unstable();
    if there != expected {
        let found: BTreeSet<i64> = watched.events.iter().map(|(seq, _)| *seq).collect();
        let wanted: BTreeSet<i64> = expected.iter().map(|(seq, _)| *seq).collect();
        let missing: Vec<_> = wanted.difference(&found).take(10).collect();
        let surplus: Vec<_> = found.difference(&wanted).take(10).collect();
        client.finding(format!(
            "P6: the stream of {} from {:?} to {:?} over {} connections: {missing:?} are missing, {surplus:?} too many, of {} events",
            watched.name,
            after,
            watched.to,
            watched.connections,
            expected.len()
        ));
    }
    let shown: HashSet<i64> = expected.iter().map(|(seq, _)| *seq).collect();
    for end in &watched.frame_ends {
        if let Some(next) = mutation_goes_on(log, *end, &shown) {
            client.finding(format!("P6: a frame ends at {end}, and its mutation goes on at {next}"));
        }
    }
}

/// The next event of the same mutation within a stream, if there is one. Events of a client's mutation share its
/// request id; a compaction ends with its `Compacted` event.
fn mutation_goes_on(log: &Log, seq: i64, shown: &HashSet<i64>) -> Option<i64> {
    let event = log.at(seq)?;
    let behind = (seq + 1..).map_while(|seq| log.at(seq)).take_while(|next| next.session_id == event.session_id);
    let of_request = |next: &&pb::Event| !event.request_id.is_empty() && next.request_id == event.request_id;
    if let Some(next) = behind.clone().take_while(of_request).find(|next| shown.contains(&next.seq)) {
        return Some(next.seq);
    }
    let is_piece = |event: &pb::Event| match &event.body {
        Some(Body::PartsPruned(_)) => true,
        Some(Body::MessageAppended(body)) => matches!(
            body.kind(),
            MessageKind::Summary | MessageKind::Marker | MessageKind::Continuation | MessageKind::Replay
        ),
        _ => false,
    };
    if !is_piece(event) {
        return None;
    }
    behind
        .take_while(|next| is_piece(next) || next.kind() == EventKind::Compacted)
        .find(|next| shown.contains(&next.seq))
        .map(|next| next.seq)
}

/// P6: a snapshot is the session's state after the event that the snapshot names.
pub(super) async fn snapshot(client: &mut Client, log: &Log, snapshot: &Snapshot) {
    let Some(at) = log.revision_at(&snapshot.session, snapshot.head_seq) else { return };
    let request = pb::GetViewRequest {
        session_id: snapshot.session.clone(),
        as_of_revision: Some(at),
        ..pb::GetViewRequest::default()
    };
    let Some(view) = readers::view(client, &request).await else { return };
    let is_same = view.messages == snapshot.messages;
    if !is_same && !client.is_erased_since(&snapshot.session, snapshot.head_seq).await {
        let (session, head) = (&snapshot.session, snapshot.head_seq);
        client.finding(format!("P6: the snapshot of {session} at event {head} is not its view at {at}"));
    }
}

/// P2: a client's summary is in the history as the client wrote it.
pub(super) async fn client_summaries(client: &mut Client, log: &Log, from: usize) {
    let brought = std::mem::take(&mut *lock(&client.shared.record.summaries));
    for event in &log.events[from.min(log.events.len())..] {
        let Some(Body::Compacted(body)) = &event.body else { continue };
        let Some(outcome) = body.outcome.as_ref().filter(|outcome| outcome.summarizer.contains("client")) else {
            continue;
        };
        let Some(id) = &outcome.summary_message_id else { continue };
        let request = pb::GetMessageRequest { session_id: event.session_id.clone(), message_id: id.clone() };
        let Ok(pb::GetMessageResponse { message: Some(message), .. }) = client.ask(&request).await else { continue };
        if log.lost(&message.message_id).is_some() {
            continue;
        }
        let first = message.parts.first().and_then(|part| part.body.clone());
        let texts = brought.get(&body.compaction_id).map(Vec::as_slice).unwrap_or_default();
        let is_there = |supplied: &str| texts.iter().any(|text| supplied.contains(text.trim()));
        match first {
            Some(pb::part::Body::Text(text)) if is_there(&text.text) => {}
            other => client
                .finding(format!("P2: the summary of {} is not what its client wrote: {other:?}", body.compaction_id)),
        }
    }
}

/// P2: what the log says was erased is nowhere in the files of an idle store, and each acknowledged erasure is in the
/// log.
pub(super) async fn erased(client: &mut Client, log: &Log, from: usize) {
    let record = &client.shared.record;
    log.check_erased_answers(record);
    for event in &log.events[from.min(log.events.len())..] {
        let Some(Body::Erased(body)) = &event.body else { continue };
        let is_session = body.target() == pb::ErasedTarget::Session && !body.unfinished;
        if is_session && body.source_session_id.is_none() {
            record.markers.session_erased(&event.session_id, record.now());
        }
        for erased in body.messages.iter().filter(|erased| erased.part_ids.is_empty()) {
            record.markers.erased(record.markers.of_message(&erased.message_id), record.now());
        }
    }
    let erased = record.markers.all_erased();
    let began = Instant::now();
    loop {
        count(&record.counts.file_scans);
        let found = match markers::in_files(client.shared.service.directory(), &erased) {
            Ok(found) => found,
            Err(error) => return client.finding(format!("the checker itself failed: {error}")),
        };
        if found.is_empty() {
            return;
        }
        if began.elapsed() > CLEAN_TIME_MAX {
            let found: Vec<_> = found.iter().map(|(file, marker)| (file, record.markers.named(marker))).collect();
            return client.finding(format!("P2: files of an idle store have what was erased: {found:?}"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

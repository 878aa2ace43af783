//! Rewriters: they rewind, edit, pin, undo, redo, fork, archive, compact and change policies and windows, while
//! writers append.

use super::client::{Client, NO_ANSWER};
use super::content::{self, PartPrints};
use super::markers;
use super::reasons::{self, Refusal};
use super::record::{Expected, Session, lock};
use super::writers;
use longhand::pb;
use pb::fork_session_request::Point;
use pb::rewind_session_request::Target;
use pb::{CompactionKind, CompactionLevel};
use prost::Message as _;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum number of sessions of one round, forks included.
const SESSIONS_MAX: usize = 12;

/// Policies that sessions begin with and change between.
#[derive(Debug, Clone, Default)]
pub(super) struct Policy {
    /// Name for messages to people.
    pub(super) name: String,
    /// Name of a preset, or empty.
    pub(super) preset: String,
    /// A whole policy as JSON, or empty.
    pub(super) policy_json: String,
    /// JSON that is merged over the policy, or empty.
    pub(super) override_json: String,
}

/// Main loop of a rewriter.
pub(super) async fn run(mut client: Client, policies: Arc<Vec<Policy>>, pause_ms: u64) {
    while !client.shared.is_stopping() {
        let Some(session) = client.some_session() else { return };
        match client.rng.random_range(0..100) {
            0..6 => rewind(&mut client, &session).await,
            6..10 => replace(&mut client, &session).await,
            10..24 => edit(&mut client, &session).await,
            24..31 => pin(&mut client, &session).await,
            31..34 => words(&mut client, &session).await,
            34..44 => undo(&mut client, &session).await,
            44..50 => redo(&mut client, &session).await,
            50..56 => fork(&mut client, &session).await,
            56..62 => change_policy(&mut client, &session, &policies).await,
            62..68 => change_window(&mut client, &session).await,
            68..72 => archive(&mut client, &session).await,
            72..88 => compact(&mut client, &session).await,
            88..92 => supply(&mut client, &session).await,
            92..95 => overflow(&mut client, &session).await,
            _ => steer(&mut client, &session).await,
        }
        let pause = client.rng.random_range(0..=pause_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// A model window that a few turns fill.
pub(super) fn window(client: &mut Client) -> pb::ModelWindow {
    let max_context_tokens = client.rng.random_range(3_000..12_000);
    pb::ModelWindow {
        model: "model-a".to_owned(),
        max_context_tokens,
        max_output_tokens: client.rng.random_bool(0.5).then_some(500),
        overhead_tokens: if client.rng.random_bool(0.3) { 300 } else { 0 },
        ..pb::ModelWindow::default()
    }
}

/// Creates a session.
pub(super) async fn create(client: &mut Client, policy: &Policy) -> Option<Arc<Session>> {
    create_for(client, policy, None).await
}

/// Creates a session that works for another one, if one is given.
pub(super) async fn create_for(client: &mut Client, policy: &Policy, parent: Option<String>) -> Option<Arc<Session>> {
    let client_id = client.fresh_id();
    let request = pb::CreateSessionRequest {
        client_id: Some(client_id.clone()),
        title: format!("a session of {}", policy.name),
        preset: policy.preset.clone(),
        policy_json: policy.policy_json.clone(),
        policy_override_json: policy.override_json.clone(),
        window: Some(window(client)),
        metadata_json: Some("{\"project\": \"x\"}".to_owned()),
        parent_session_id: parent,
        keep_erased: false,
    };
    let made = client.ask(&request).await;
    let again = client.ask(&request).await;
    match (made, again) {
        (Ok(made), Ok(again)) => {
            let (made, again) = (made.session.unwrap_or_default(), again);
            let same = again.session.as_ref().is_some_and(|session| session.session_id == made.session_id);
            if !same || !again.existed {
                client.finding("P4: a session was made twice");
            }
            let id = made.session_id;
            client.learn_store(&id).await;
            Some(Arc::new(Session { id, policy: policy.name.clone(), ..Session::default() }))
        }
        (made, again) => {
            client.finding(format!("P4: CreateSession came to {made:?}, then {again:?}"));
            None
        }
    }
}

/// A message to rewrite: mostly a recent one, so that the session is not always rewound to its beginning.
pub(super) fn target(client: &mut Client, session: &Session) -> Option<String> {
    let recent = lock(&session.recent);
    let near = recent.len().saturating_sub(if client.rng.random_bool(0.7) { 12 } else { 200 });
    let index = client.rng.random_range(near.min(recent.len().saturating_sub(1))..recent.len().max(1));
    recent.get(index).cloned()
}

/// The precondition that a careful client sends with a rewrite: the revision that it read.
pub(super) async fn precondition(client: &mut Client, session: &Session) -> Option<i64> {
    if !client.rng.random_bool(0.3) {
        return None;
    }
    let asked = pb::GetSessionRequest { session_id: session.id.clone() };
    let found = client.ask(&asked).await.ok()?.session?;
    Some(if client.rng.random_bool(0.5) { found.history_revision } else { found.revision })
}

/// Reports a refusal that a rewrite may not get.
fn check(client: &Client, what: &str, refusal: &Refusal, expected: Option<i64>, more: &[&str]) {
    let reason = refusal.reason.as_str();
    let fits = reasons::is_closed(reason)
        || reason == NO_ANSWER
        || (reason == "REVISION_MISMATCH" && expected.is_some())
        || more.contains(&reason);
    if !fits {
        client.finding(format!("P14: {what} was refused: {refusal:?}"));
    }
}

async fn rewind(client: &mut Client, session: &Session) {
    let Some(message_id) = target(client, session) else { return };
    let target = if client.rng.random_bool(0.02) { Target::ToStart(true) } else { Target::MessageId(message_id) };
    let expected_revision = precondition(client, session).await;
    let has_summary = client.rng.random_bool(0.25);
    let request = pb::RewindSessionRequest {
        session_id: session.id.clone(),
        target: Some(target),
        expected_revision,
        request_id: client.fresh_id(),
        branch_summary: has_summary.then(pb::BranchSummary::default),
    };
    if let Err(refusal) = client.apply(session, request, expected_revision).await {
        // A change while the branch summary is written refuses the rewind, and not every policy writes summaries. A
        // message that an earlier rewind left out cannot be the target of a rewind.
        let fits: &[&str] = if has_summary {
            &["BOUNDARY_INVALID", "REVISION_MISMATCH", "INVALID_FIELD"]
        } else {
            &["BOUNDARY_INVALID"]
        };
        check(client, "a rewind", &refusal, expected_revision, fits);
    }
}

/// Rewinds and appends in one request, as a person who edits a message and sends it again.
async fn replace(client: &mut Client, session: &Session) {
    let Some(message_id) = target(client, session) else { return };
    let expected_revision = precondition(client, session).await;
    let expected_last_message_id = match client.rng.random_range(0..4) {
        0 => target(client, session),
        1 => Some(String::new()),
        _ => None,
    };
    let text = format!("rather: {}", content::words(&mut client.rng, 80));
    let has_title = client.rng.random_bool(0.2);
    let request = pb::AppendMessagesRequest {
        messages: vec![writers::message(client, pb::Role::User, vec![content::text(text)])],
        expected_revision,
        rewind: Some(pb::Rewind { target: Some(pb::rewind::Target::MessageId(message_id)) }),
        expected_last_message_id,
        title: has_title.then(|| content::words(&mut client.rng, 20)),
        ..pb::AppendMessagesRequest::default()
    };
    let expects_last = request.expected_last_message_id.is_some();
    if let Err(refusal) = writers::send(client, session, request).await {
        let fits: &[&str] =
            if expects_last { &["BOUNDARY_INVALID", "LAST_MESSAGE_MISMATCH"] } else { &["BOUNDARY_INVALID"] };
        check(client, "a replace", &refusal, expected_revision, fits);
    }
}

async fn edit(client: &mut Client, session: &Session) {
    let Some(message_id) = target(client, session) else { return };
    let expected_revision = precondition(client, session).await;
    let length = content::length(&mut client.rng).min(2_000);
    let parts = vec![content::text(format!("in other words: {}", content::words(&mut client.rng, length)))];
    let parts = if client.rng.random_bool(0.2) { Vec::new() } else { parts };
    let request = pb::EditMessageRequest {
        session_id: session.id.clone(),
        message_id,
        parts: parts.clone(),
        remove: parts.is_empty(),
        expected_revision,
        metadata_json: None,
        keep_erased: false,
        request_id: client.fresh_id(),
    };
    match client.apply(session, request, expected_revision).await {
        Ok(answer) if parts.is_empty() != answer.replacement_message_id.is_none() => {
            client.finding(format!("P4: an edit to {} parts was answered {answer:?}", parts.len()));
        }
        Ok(answer) if !parts.is_empty() => {
            client.shared.record.expect(answer.replacement_message_id(), Expected::Edit(PartPrints::of(&parts)));
            let found = parts.iter().flat_map(|part| markers::scan(&part.encode_to_vec()));
            client.shared.record.note_markers(answer.replacement_message_id(), found);
            session.note_message(answer.replacement_message_id());
        }
        Ok(_) => {}
        // A record cannot be edited.
        Err(refusal) => check(client, "an edit", &refusal, expected_revision, &["BOUNDARY_INVALID"]),
    }
}

async fn pin(client: &mut Client, session: &Session) {
    let Some(message_id) = target(client, session) else { return };
    let unpin = client.rng.random_bool(0.5);
    let request_id = client.fresh_id();
    let request = pb::PinMessageRequest { session_id: session.id.clone(), message_id, unpin, request_id };
    if let Err(refusal) = client.apply(session, request, None).await {
        check(client, "a pin", &refusal, None, &[]);
    }
}

async fn words(client: &mut Client, session: &Session) {
    let Some(message_id) = target(client, session) else { return };
    let stances = [pb::WordsStance::Open, pb::WordsStance::Struck, pb::WordsStance::Kept];
    let stance = stances[client.rng.random_range(0..stances.len())];
    let request_id = client.fresh_id();
    let session_id = session.id.clone();
    let request = pb::MarkWordsRequest { session_id, message_id, stance: stance.into(), request_id };
    if let Err(refusal) = client.apply(session, request, None).await {
        check(client, "a mark of words", &refusal, None, &["BOUNDARY_INVALID"]);
    }
}

async fn undo(client: &mut Client, session: &Session) {
    let expected_revision = precondition(client, session).await;
    let request_id = client.fresh_id();
    let request = pb::UndoChangeRequest { session_id: session.id.clone(), expected_revision, request_id };
    if let Err(refusal) = client.apply(session, request, expected_revision).await {
        check(client, "an undo", &refusal, expected_revision, &["NOTHING_TO_UNDO"]);
    }
}

async fn redo(client: &mut Client, session: &Session) {
    let expected_revision = precondition(client, session).await;
    let request_id = client.fresh_id();
    let request = pb::RedoChangeRequest { session_id: session.id.clone(), expected_revision, request_id };
    if let Err(refusal) = client.apply(session, request, expected_revision).await {
        check(client, "a redo", &refusal, expected_revision, &["NOTHING_TO_REDO", "REDO_OVERTAKEN"]);
    }
}

async fn fork(client: &mut Client, session: &Session) {
    if lock(&client.shared.sessions).len() >= SESSIONS_MAX {
        return;
    }
    let newest = session.revision.load(Ordering::SeqCst).max(1);
    let point = match client.rng.random_range(0..3) {
        0 => target(client, session).map(Point::MessageId),
        1 => Some(Point::AsOfRevision(client.rng.random_range(1..=newest))),
        _ => None,
    };
    let client_id = client.fresh_id();
    let request = pb::ForkSessionRequest {
        session_id: session.id.clone(),
        point,
        client_id: Some(client_id.clone()),
        title: "a fork".to_owned(),
    };
    let made = match client.ask(&request).await {
        Ok(made) => made.session.unwrap_or_default(),
        Err(refusal) => return check(client, "a fork", &refusal, None, &["BOUNDARY_INVALID"]),
    };
    match client.ask(&request).await {
        Err(refusal) if refusal.reason == "SESSION_ERASED" => return,
        Ok(again)
            if again.existed && again.session.as_ref().is_some_and(|there| there.session_id == made.session_id) => {}
        other => client.finding(format!("P4: a repeated fork came to {other:?} instead of {}", made.session_id)),
    }
    let id = made.session_id.clone();
    client.learn_store(&id).await;
    let fork = Session { id, policy: format!("fork of {}", session.policy), ..Session::default() };
    fork.revision.store(made.revision, Ordering::SeqCst);
    // Inherited messages can be rewound and edited in the fork, too.
    if let Ok(messages) = client.messages(&made.session_id, None, false).await {
        let known = messages.iter().rev().take(60).rev().filter(|message| message.sealed_revision.is_some());
        known.for_each(|message| fork.note_message(&message.message_id));
    }
    lock(&client.shared.sessions).push(Arc::new(fork));
}

/// A change of the session's properties, not of its history.
fn update(client: &mut Client, session: &Session) -> pb::UpdateSessionRequest {
    let request_id = client.fresh_id();
    pb::UpdateSessionRequest { session_id: session.id.clone(), request_id, ..pb::UpdateSessionRequest::default() }
}

async fn change_policy(client: &mut Client, session: &Session, policies: &[Policy]) {
    let Some(policy) = policies.choose(&mut client.rng).cloned() else { return };
    let mut request = update(client, session);
    let given = |text: String| (!text.is_empty()).then_some(text);
    if client.rng.random_bool(0.3) {
        request.policy_override_json = Some("{\"guards\": {\"minimum_gain_tokens\": 1}}".to_owned());
    } else {
        request.policy_override_json = given(policy.override_json);
        (request.preset, request.policy_json) = (given(policy.preset), given(policy.policy_json));
    }
    request.expected_revision = precondition(client, session).await;
    let expected = request.expected_revision;
    if let Err(refusal) = client.apply(session, request, expected).await {
        check(client, "a change of policy", &refusal, expected, &["POLICY_INVALID"]);
    }
}

async fn change_window(client: &mut Client, session: &Session) {
    let mut request = update(client, session);
    if client.rng.random_bool(0.7) {
        request.window = Some(window(client));
    }
    if client.rng.random_bool(0.3) {
        request.title = Some(content::words(&mut client.rng, 30));
        request.metadata_json = Some("{\"title\": \"changed\"}".to_owned());
    }
    if let Err(refusal) = client.apply(session, request, None).await {
        check(client, "a change of the window", &refusal, None, &["POLICY_INVALID"]);
    }
}

/// Archives a session for a short time.
async fn archive(client: &mut Client, session: &Session) {
    let request_id = client.fresh_id();
    let request = pb::ArchiveSessionRequest { session_id: session.id.clone(), restore: false, request_id };
    if let Err(refusal) = client.apply(session, request, None).await {
        check(client, "an archiving", &refusal, None, &[]);
    }
    let pause = client.rng.random_range(0..120);
    tokio::time::sleep(Duration::from_millis(pause)).await;
    if client.rng.random_bool(0.85) {
        restore(client, session).await;
    }
}

/// Takes a session out of the archive.
pub(super) async fn restore(client: &mut Client, session: &Session) {
    let request_id = client.fresh_id();
    let request = pb::ArchiveSessionRequest { session_id: session.id.clone(), restore: true, request_id };
    if let Err(refusal) = client.apply(session, request, None).await {
        check(client, "a restoring", &refusal, None, &[]);
    }
}

async fn compact(client: &mut Client, session: &Session) {
    let kind = [CompactionKind::Prune, CompactionKind::Summary, CompactionKind::Summary, CompactionKind::Omission];
    let level = [
        CompactionLevel::Unspecified,
        CompactionLevel::Unspecified,
        CompactionLevel::Micro,
        CompactionLevel::Auto,
        CompactionLevel::Deep,
    ];
    let kind = kind.choose(&mut client.rng).copied().unwrap_or(CompactionKind::Summary);
    let mut request = pb::StartCompactionRequest {
        session_id: session.id.clone(),
        kind: kind.into(),
        level: level.choose(&mut client.rng).copied().unwrap_or_default().into(),
        request_id: client.fresh_id(),
        ..pb::StartCompactionRequest::default()
    };
    if client.rng.random_bool(0.2) {
        request.instructions = "dwell on the parser".to_owned();
    }
    if kind == CompactionKind::Summary && client.rng.random_bool(0.3) {
        request.tail_start_message_id = target(client, session).unwrap_or_default();
    }
    if client.rng.random_bool(0.1) {
        request.validate_only = true;
        request.request_id.clear();
        match client.ask(&request).await {
            Ok(answer) if answer.plan.is_none() || answer.compaction.is_some() => {
                client.finding(format!("P16: a request for a plan was answered {answer:?}"));
            }
            Ok(_) => {}
            Err(refusal) => check(client, "a plan", &refusal, None, &COMPACT_REFUSALS),
        }
        return;
    }
    match client.apply(session, request, None).await {
        Ok(answer) => {
            let id = answer.compaction.unwrap_or_default().compaction_id;
            session.note_compaction(&id);
        }
        Err(refusal) => check(client, "a compaction by hand", &refusal, None, &COMPACT_REFUSALS),
    }
}

/// Refusals of compactions by hand.
const COMPACT_REFUSALS: [&str; 4] = ["NOTHING_TO_COMPACT", "BOUNDARY_INVALID", "INVALID_FIELD", "TOO_MANY_COMPACTIONS"];

async fn supply(client: &mut Client, session: &Session) {
    let expected_revision = precondition(client, session).await;
    let text = format!("A summary that a client brought.\n{}", content::words(&mut client.rng, 200));
    let request = pb::SupplySummaryRequest {
        session_id: session.id.clone(),
        text,
        tail_start_message_id: target(client, session).unwrap_or_default(),
        until_message_id: String::new(),
        summarizer: "the client".to_owned(),
        expected_revision,
        request_id: client.fresh_id(),
        ..pb::SupplySummaryRequest::default()
    };
    let text = request.text.clone();
    match client.apply(session, request, expected_revision).await {
        Ok(answer) => {
            let id = answer.compaction.unwrap_or_default().compaction_id;
            lock(&client.shared.record.summaries).entry(id).or_default().push(text);
        }
        // The view may change between its reading and the commit, even without a precondition.
        Err(refusal) => {
            check(
                client,
                "a supplied summary",
                &refusal,
                expected_revision,
                &["BOUNDARY_INVALID", "REVISION_MISMATCH"],
            );
        }
    }
}

async fn overflow(client: &mut Client, session: &Session) {
    let request = pb::ReportOverflowRequest {
        session_id: session.id.clone(),
        status_code: 413,
        message: "prompt is too long: 250000 tokens > 200000 maximum".to_owned(),
        request_id: client.fresh_id(),
        ..pb::ReportOverflowRequest::default()
    };
    match client.apply(session, request, None).await {
        Ok(answer) => session.note_compaction(&answer.compaction.unwrap_or_default().compaction_id),
        Err(refusal) => {
            let fits = ["AUTOMATIC_OFF", "OVERFLOW_AGAIN", "NOTHING_TO_COMPACT", "TOO_MANY_COMPACTIONS"];
            check(client, "a report of an overflow", &refusal, None, &fits);
        }
    }
}

/// Confirms, cancels or retries a compaction.
async fn steer(client: &mut Client, session: &Session) {
    let asked = pb::ListCompactionsRequest { session_id: session.id.clone(), page_size: 5, ..Default::default() };
    if let Ok(page) = client.ask(&asked).await {
        page.compactions.iter().for_each(|compaction| session.note_compaction(&compaction.compaction_id));
    }
    let known = lock(&session.compactions).iter().cloned().collect::<Vec<_>>();
    let Some(compaction_id) = known.choose(&mut client.rng).cloned() else { return };
    let fits = ["COMPACTION_ENDED", "NOTHING_TO_COMPACT", "BOUNDARY_INVALID", "TOO_MANY_COMPACTIONS"];
    let refused = match client.rng.random_range(0..3) {
        0 => client.ask(&pb::ConfirmCompactionRequest { compaction_id }).await.err(),
        1 => client.ask(&pb::CancelCompactionRequest { compaction_id }).await.err(),
        _ => {
            let request_id = client.fresh_id();
            client.ask(&pb::RetryCompactionRequest { compaction_id, request_id }).await.err()
        }
    };
    if let Some(refusal) = refused {
        check(client, "the steering of a compaction", &refusal, None, &fits);
    }
}

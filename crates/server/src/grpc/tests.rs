//! Every method, called through the services as a client calls them, without a network.

use super::{GuardedServices, HEALTH_NAMES, not_serving, router};
use crate::app::{self, Longhand};
use crate::clock::Clock;
use crate::pb;
use crate::pb::ACTOR_HEADER;
use crate::pb::admin_service_client::AdminServiceClient;
use crate::pb::compaction_service_client::CompactionServiceClient;
use crate::pb::event_service_client::EventServiceClient;
use crate::pb::message_service_client::MessageServiceClient;
use crate::pb::session_service_client::SessionServiceClient;
use crate::pb::view_service_client::ViewServiceClient;
use crate::scheduler::{self, Scheduler};
use crate::store::{self, Store};
use crate::summarizer::{Extractive, Levels};
use futures::StreamExt as _;
use pb::get_view_response::Frame as ViewFrame;
use pb::rewind_session_request::Target;
use pb::subscribe_events_response::Frame;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::HealthReporter;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt as _;

/// The services over a store of their own. No scheduler runs, so nothing happens by itself.
struct GrpcServer {
    routes: GuardedServices,
    health: HealthReporter,
    stopping: CancellationToken,
    _directory: TempDir,
}

impl GrpcServer {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary folder");
        let clock = Clock::default();
        let durability = store::Durability::ProcessCrash;
        let options = store::Options { directory: directory.path().join("store"), durability };
        let (store, writer) = Store::open(options, clock.clone()).await.expect("the store opens");
        tokio::spawn(writer);
        let workers = scheduler::Options {
            workers: NonZeroUsize::MIN,
            loaded_bytes: crate::limits::LOADED_MIB_DEFAULT << 20,
            ..scheduler::Options::default()
        };
        let scheduler =
            Scheduler::new(store.clone(), clock.clone(), Levels::same_for_all(Arc::new(Extractive)), workers);
        let stopping = CancellationToken::new();
        let options = app::Options {
            default_preset: "opencode@seed".to_owned(),
            defaults: Vec::new(),
            models: crate::policy::models::Models::built_in(),
            vocabularies: Vec::new(),
            entrance: app::entrance::Entrance::new(&clock),
            stopping: stopping.clone(),
        };
        let (routes, health) = router(Longhand::new(store, scheduler.handle(), &clock, options)).await;
        let routes = routes.in_process();
        Self { routes, health, stopping, _directory: directory }
    }

    fn sessions(&self) -> SessionServiceClient<GuardedServices> {
        SessionServiceClient::new(self.routes.clone())
    }

    fn messages(&self) -> MessageServiceClient<GuardedServices> {
        MessageServiceClient::new(self.routes.clone())
    }

    fn compactions(&self) -> CompactionServiceClient<GuardedServices> {
        CompactionServiceClient::new(self.routes.clone())
    }

    fn events(&self) -> EventServiceClient<GuardedServices> {
        EventServiceClient::new(self.routes.clone())
    }

    fn admin(&self) -> AdminServiceClient<GuardedServices> {
        AdminServiceClient::new(self.routes.clone())
    }

    async fn create(&self, client_id: &str) -> pb::Session {
        let request = pb::CreateSessionRequest { client_id: Some(client_id.into()), ..Default::default() };
        let made = self.sessions().create_session(request).await.expect("a session").into_inner();
        assert_eq!((made.existed, made.durability()), (false, pb::Durability::ProcessCrash));
        made.session.expect("a session")
    }

    async fn append(&self, session: &str, messages: Vec<pb::NewMessage>) -> pb::AppendMessagesResponse {
        let request = pb::AppendMessagesRequest { session_id: session.into(), messages, ..Default::default() };
        self.messages().append_messages(request).await.expect("an append").into_inner()
    }

    async fn view(&self, session: &str) -> Vec<ViewFrame> {
        let request = pb::GetViewRequest { session_id: session.into(), ..Default::default() };
        let stream = ViewServiceClient::new(self.routes.clone()).get_view(request).await.expect("a view");
        let frames: Vec<_> = stream.into_inner().collect().await;
        frames.into_iter().map(|frame| frame.expect("a frame").frame.expect("a known frame")).collect()
    }
}

fn text(text: &str) -> pb::Part {
    let body = pb::part::Body::Text(pb::TextPart { text: text.into() });
    pb::Part { body: Some(body), ..Default::default() }
}

fn new_message(role: pb::Role, client_id: &str, words: &str) -> pb::NewMessage {
    let client_id = Some(client_id.to_owned());
    pb::NewMessage { client_id, role: role.into(), parts: vec![text(words)], ..Default::default() }
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_session_is_made_changed_forked_and_put_away() {
    let served = GrpcServer::start().await;
    let mut sessions = served.sessions();
    let made = served.create("mine").await;
    assert!(made.session_id.starts_with("ses_") && made.policy_json.starts_with('{'));

    let request = pb::GetSessionRequest { session_id: "mine".into() };
    let got = sessions.get_session(request).await.expect("the session").into_inner();
    assert_eq!(got.session.as_ref(), Some(&made));

    let window = Some(pb::ModelWindow { max_context_tokens: 9_000, ..Default::default() });
    let title = Some("new".to_owned());
    let request = pb::UpdateSessionRequest { session_id: "mine".into(), title, window, ..Default::default() };
    let changed = sessions.update_session(request).await.expect("a change").into_inner();
    assert_eq!(changed.durability(), pb::Durability::ProcessCrash);
    let session = changed.session.expect("the session");
    assert_eq!((session.title.as_str(), session.window.expect("a window").max_context_tokens), ("new", 9_000));
    assert_eq!((session.revision, changed.seq), (changed.revision, 2));

    let request = pb::ForkSessionRequest { session_id: "mine".into(), title: "fork".into(), ..Default::default() };
    let forked = sessions.fork_session(request).await.expect("a fork").into_inner();
    assert_eq!(forked.durability(), pb::Durability::ProcessCrash);
    let fork = forked.session.expect("the fork");
    assert_eq!((fork.source_session_id, fork.source_revision), (Some(made.session_id.clone()), Some(changed.revision)));

    let request = pb::ArchiveSessionRequest { session_id: "mine".into(), ..Default::default() };
    let archived = sessions.archive_session(request).await.expect("an archive").into_inner();
    assert_eq!(archived.durability(), pb::Durability::ProcessCrash);
    assert_eq!(archived.session.expect("the session").state(), pb::SessionState::Archived);

    let list = |page_size, page_token: &str, include_archived| pb::ListSessionsRequest {
        page_size,
        page_token: page_token.into(),
        include_archived,
        ..Default::default()
    };
    let active = sessions.list_sessions(list(0, "", false)).await.expect("a list").into_inner();
    assert_eq!(active.sessions.iter().map(|session| session.title.as_str()).collect::<Vec<_>>(), ["fork"]);
    let first = sessions.list_sessions(list(1, "", true)).await.expect("a page").into_inner();
    let second = sessions.list_sessions(list(1, &first.next_page_token, true)).await.expect("a page").into_inner();
    assert_eq!((second.sessions[0].title.as_str(), second.next_page_token.as_str()), ("new", ""));
}

#[tokio::test]
async fn messages_are_appended_listed_pinned_edited_and_rewound() {
    let served = GrpcServer::start().await;
    let mut messages = served.messages();
    served.create("s").await;
    let record = pb::part::Body::Record(pb::RecordPart { kind: "k".into(), data: "d".into() });
    let record = pb::NewMessage {
        role: pb::Role::User.into(),
        kind: pb::MessageKind::Record.into(),
        parts: vec![pb::Part { body: Some(record), ..Default::default() }],
        ..Default::default()
    };
    let written = vec![new_message(pb::Role::User, "u1", "one"), record, new_message(pb::Role::Assistant, "a1", "two")];
    let appended = served.append("s", written).await;
    assert_eq!((appended.message_ids.len(), appended.existed_count), (3, 0));
    assert_eq!(appended.durability(), pb::Durability::ProcessCrash);
    assert!(appended.context_usage.expect("given").context_tokens > Some(0));

    let request = pb::GetMessageRequest { session_id: "s".into(), message_id: "u1".into() };
    let got = messages.get_message(request).await.expect("a message").into_inner().message.expect("a message");
    assert_eq!((got.message_id.as_str(), got.origin()), (appended.message_ids[0].as_str(), pb::Origin::Client));
    assert!(got.finish.is_some() && got.parts[0].part_id.starts_with("prt_"));

    let list =
        |exclude_records| pb::ListMessagesRequest { session_id: "s".into(), exclude_records, ..Default::default() };
    for (exclude_records, count) in [(false, 3), (true, 2)] {
        let page = messages.list_messages(list(exclude_records)).await.expect("a page").into_inner();
        assert_eq!((page.messages.len(), page.revision), (count, appended.revision));
    }

    let request = pb::PinMessageRequest { session_id: "s".into(), message_id: "u1".into(), ..Default::default() };
    let pinned = messages.pin_message(request).await.expect("a pin").into_inner();
    assert_eq!(pinned.durability(), pb::Durability::ProcessCrash);
    let request = pb::EditMessageRequest {
        session_id: "s".into(),
        message_id: "a1".into(),
        parts: vec![text("better")],
        expected_revision: Some(pinned.revision),
        ..Default::default()
    };
    let edited = messages.edit_message(request.clone()).await.expect("an edit").into_inner();
    assert_eq!(edited.durability(), pb::Durability::ProcessCrash);
    assert!(edited.replacement_message_id().starts_with("msg_") && edited.revision > pinned.revision);
    let stale = messages.edit_message(request).await.expect_err("a refusal");
    assert_eq!((stale.code(), reason(&stale).as_str()), (Code::Aborted, "REVISION_MISMATCH"));

    for (target, field) in [
        (None, "target"),
        (Some(Target::MessageId(String::new())), "message_id"),
        (Some(Target::ToStart(false)), "to_start"),
    ] {
        let request = pb::RewindSessionRequest { session_id: "s".into(), target, ..Default::default() };
        let refused = messages.rewind_session(request).await.expect_err("a refusal");
        assert_eq!(violation(&refused), field);
    }
    for (parts, remove, field) in [(Vec::new(), false, "parts"), (vec![text("better")], true, "remove")] {
        let (session_id, message_id) = ("s".into(), "a1".into());
        let request = pb::EditMessageRequest { session_id, message_id, parts, remove, ..Default::default() };
        let refused = messages.edit_message(request).await.expect_err("a refusal");
        assert_eq!(violation(&refused), field);
    }
    let request = pb::RewindSessionRequest {
        session_id: "s".into(),
        target: Some(Target::MessageId("u1".into())),
        ..Default::default()
    };
    let rewound = messages.rewind_session(request).await.expect("a rewind").into_inner();
    assert_eq!(rewound.durability(), pb::Durability::ProcessCrash);
    let frames = served.view("s").await;
    let [ViewFrame::Header(header), ViewFrame::Messages(shown), ViewFrame::End(end)] = frames.as_slice() else {
        panic!("{frames:?}");
    };
    assert_eq!((header.message_count, header.view_hash.len(), header.fits), (1, 32, true));
    assert_eq!(shown.messages[0].message_id, appended.message_ids[0]);
    assert!(end.omitted.iter().any(|omitted| omitted.reason() == pb::OmitReason::Rewound));
}

#[tokio::test]
async fn a_reply_carries_the_token_of_its_view_and_another_one_is_refused() {
    let served = GrpcServer::start().await;
    served.create("s").await;
    served.append("s", vec![new_message(pb::Role::User, "u1", "one")]).await;
    let ViewFrame::Header(header) = served.view("s").await.remove(0) else { panic!("no header") };
    let reply = |token: String| {
        let finish = Some(pb::Finish { view_token: Some(token), ..Default::default() });
        let messages = vec![pb::NewMessage { finish, ..new_message(pb::Role::Assistant, "a1", "two") }];
        pb::AppendMessagesRequest { session_id: "s".into(), messages, ..Default::default() }
    };
    let altered = format!("{}AAAA", header.view_token);
    let refused = served.messages().append_messages(reply(altered)).await.expect_err("a refusal");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::InvalidArgument, "VIEW_TOKEN_INVALID"));
    served.messages().append_messages(reply(header.view_token)).await.expect("an append");
    let request = pb::GetMessageRequest { session_id: "s".into(), message_id: "a1".into() };
    let got = served.messages().get_message(request).await.expect("the message").into_inner();
    let message = got.message.expect("a message");
    let given = message.given_view.expect("a view token");
    assert_eq!((given.revision, given.view_hash, given.shortened), (header.revision, header.view_hash, false));
    assert_eq!(message.finish.expect("it is sealed").view_token, None);
}

#[tokio::test]
async fn a_message_is_written_as_a_stream() {
    use pb::write_message_request::Frame;
    let served = GrpcServer::start().await;
    served.create("s").await;
    let frame = |frame| pb::WriteMessageRequest { frame: Some(frame) };
    let open = pb::NewMessage { open: true, parts: Vec::new(), ..new_message(pb::Role::Assistant, "a1", "") };
    let message = Some(pb::write_target::Message::NewMessage(open));
    let target = || {
        frame(Frame::Target(pb::WriteTarget {
            session_id: "s".into(),
            message: message.clone(),
            request_id: String::new(),
        }))
    };
    let words = |delta: &str, offset_bytes| {
        let text = pb::DraftText { client_id: "t".into(), delta: delta.into(), offset_bytes, ..Default::default() };
        frame(Frame::DraftText(text))
    };
    let mut messages = served.messages();
    let half = vec![target(), words("hm", None), words("m", None)];
    let left = messages.write_message(futures::stream::iter(half)).await.expect("left open").into_inner();
    assert_eq!((left.sealed, left.durability()), (false, pb::Durability::ProcessCrash));
    assert_eq!((left.drafts[0].client_id.as_str(), left.drafts[0].length_bytes), ("t", 3));
    assert!(left.context_usage.is_some() && left.revision > 0 && left.message_id.starts_with("msg_"));
    let gap = vec![target(), words("?", Some(9))];
    let gap = messages.write_message(futures::stream::iter(gap)).await.expect_err("a gap");
    assert_eq!((gap.code(), reason(&gap).as_str()), (Code::Aborted, "OFFSET_MISMATCH"));
    let metadata = gap.get_error_details().error_info().expect("a reason").metadata.clone();
    assert_eq!((metadata["length_bytes"].as_str(), metadata["message_id"].as_str()), ("3", left.message_id.as_str()));
    let nothing = messages.write_message(futures::stream::iter(Vec::new())).await.expect_err("no message");
    assert_eq!(reason(&nothing), "INVALID_FIELD");
    let bad = vec![target(), words("m!", Some(2)), pb::WriteMessageRequest::default()];
    let bad = messages.write_message(futures::stream::iter(bad)).await.expect_err("an empty frame");
    assert_eq!(reason(&bad), "INVALID_FIELD");
    let end = frame(Frame::MessageEnd(pb::MessageEnd::default()));
    let whole = vec![target(), words("hmm!", Some(0)), words("!", None), end];
    assert!(messages.write_message(futures::stream::iter(whole)).await.expect("sealed").into_inner().sealed);
    let request = pb::GetMessageRequest { session_id: "s".into(), message_id: "a1".into() };
    let got = messages.get_message(request).await.expect("a message").into_inner().message.expect("a message");
    assert_eq!(got.parts[0].body, text("hmm!!").body);
}

#[tokio::test]
async fn an_open_message_grows_by_parts_and_drafts() {
    let served = GrpcServer::start().await;
    let mut messages = served.messages();
    served.create("s").await;
    let request = pb::SubscribeEventsRequest { include_deltas: true, ..Default::default() };
    let mut live = served.events().subscribe_events(request).await.expect("a stream").into_inner();

    let open = pb::NewMessage { open: true, parts: Vec::new(), ..new_message(pb::Role::Assistant, "a1", "") };
    served.append("s", vec![open]).await;
    let parts =
        |parts| pb::AppendPartsRequest { session_id: "s".into(), message_id: "a1".into(), parts, ..Default::default() };
    let appended = messages.append_parts(parts(vec![text("one")])).await.expect("a part").into_inner();
    assert!(appended.part_ids[0].starts_with("prt_"));

    let words = |part_id: &str, offset_bytes, delta: &str| pb::AppendDraftRequest {
        session_id: "s".into(),
        message_id: "a1".into(),
        part_id: part_id.into(),
        kind: pb::DraftKind::Reasoning.into(),
        offset_bytes,
        delta: delta.into(),
        ..pb::AppendDraftRequest::default()
    };
    let draft = messages.append_draft(words("", 0, "hm")).await.expect("a draft").into_inner();
    let longer = messages.append_draft(words(&draft.part_id, 2, "m!")).await.expect("more").into_inner();
    assert_eq!((longer.part_id.as_str(), longer.length_bytes), (draft.part_id.as_str(), 4));
    let gap = messages.append_draft(words(&draft.part_id, 9, "?")).await.expect_err("a gap");
    assert_eq!((gap.code(), reason(&gap).as_str()), (Code::Aborted, "OFFSET_MISMATCH"));

    let request = pb::GetMessageRequest { session_id: "s".into(), message_id: "a1".into() };
    let got = messages.get_message(request.clone()).await.expect("a message").into_inner();
    assert_eq!(got.message.expect("a message").finish, None);
    assert_eq!((got.drafts[0].text.as_str(), got.drafts[0].kind()), ("hmm!", pb::DraftKind::Reasoning));

    let close = pb::Part { part_id: draft.part_id.clone(), ..Default::default() };
    let closed = messages.append_parts(parts(vec![close])).await.expect("a closed draft").into_inner();
    assert_eq!(closed.part_ids, std::slice::from_ref(&draft.part_id));
    assert_eq!(closed.durability(), pb::Durability::ProcessCrash);

    let reason = pb::FinishReason::Stop.into();
    let request = pb::FinishMessageRequest {
        session_id: "s".into(),
        message_id: "a1".into(),
        finish: Some(pb::Finish { reason, ..Default::default() }),
        ..Default::default()
    };
    let sealed = messages.finish_message(request).await.expect("a seal").into_inner();
    assert_eq!(sealed.durability(), pb::Durability::ProcessCrash);
    let request = pb::GetMessageRequest { session_id: "s".into(), message_id: "a1".into() };
    let got = messages.get_message(request).await.expect("a message").into_inner().message.expect("a message");
    assert_eq!((got.parts.len(), got.finish.expect("a finish").reason()), (2, pb::FinishReason::Stop));

    let mut deltas = Vec::new();
    while deltas.len() < 2 {
        let frame = live.next().await.expect("a frame").expect("a frame");
        if let Some(Frame::DraftDelta(delta)) = frame.frame {
            deltas.push((delta.offset_bytes, delta.delta));
        }
    }
    assert_eq!(deltas, [(0, "hm".to_owned()), (2, "m!".to_owned())]);
}

#[tokio::test]
async fn a_summary_is_supplied_and_taken_back() {
    let served = GrpcServer::start().await;
    let mut compactions = served.compactions();
    served.create("s").await;
    let written = vec![new_message(pb::Role::User, "u1", "one"), new_message(pb::Role::Assistant, "a1", "two")];
    served.append("s", written).await;
    served.append("s", vec![new_message(pb::Role::User, "u2", "three")]).await;
    let request = pb::SupplySummaryRequest {
        session_id: "s".into(),
        text: "they counted".into(),
        tail_start_message_id: "u2".into(),
        summarizer: "somebody".into(),
        ..Default::default()
    };
    let supplied = compactions.supply_summary(request).await.expect("a summary").into_inner();
    assert_eq!(supplied.durability(), pb::Durability::ProcessCrash);
    let compaction = supplied.compaction.expect("a compaction");
    assert_eq!(
        (compaction.state(), compaction.trigger()),
        (pb::CompactionState::Done, pb::CompactionTrigger::Supplied)
    );
    let summary = compaction.outcome.clone().expect("an outcome").summary_message_id;

    let frames = served.view("s").await;
    let Some(ViewFrame::End(end)) = frames.last() else { panic!("{frames:?}") };
    let covered = end.covered.clone().expect("covered history");
    assert_eq!((covered.compaction_id, Some(covered.summary_message_id)), (compaction.compaction_id.clone(), summary));

    let request = pb::GetCompactionRequest {
        compaction_id: compaction.compaction_id.clone(),
        ..pb::GetCompactionRequest::default()
    };
    let got = compactions.get_compaction(request).await.expect("the compaction").into_inner();
    assert_eq!(got.compaction, Some(compaction.clone()));
    let request = pb::ListCompactionsRequest { session_id: "s".into(), ..Default::default() };
    let list = compactions.list_compactions(request).await.expect("a list").into_inner();
    assert_eq!(list.compactions, std::slice::from_ref(&compaction));

    let request = pb::CancelCompactionRequest { compaction_id: compaction.compaction_id.clone() };
    let ended = compactions.cancel_compaction(request).await.expect_err("nothing to stop");
    assert_eq!((ended.code(), reason(&ended).as_str()), (Code::FailedPrecondition, "COMPACTION_ENDED"));
    let request = pb::UndoChangeRequest { session_id: "s".into(), ..Default::default() };
    let undone = compactions.undo_change(request).await.expect("an undo").into_inner();
    assert_eq!(undone.durability(), pb::Durability::ProcessCrash);
    let Some(pb::change::Change::Compaction(undone_compaction)) = undone.change.and_then(|change| change.change) else {
        panic!("another change")
    };
    assert_eq!(
        (&undone_compaction.compaction_id, undone_compaction.undone_revision),
        (&compaction.compaction_id, Some(undone.revision))
    );
    let request = pb::RedoChangeRequest { session_id: "s".into(), ..Default::default() };
    let redone = compactions.redo_change(request).await.expect("a redo").into_inner();
    assert_eq!(redone.durability(), pb::Durability::ProcessCrash);
    let again = redone.change.and_then(|change| change.change);
    assert_eq!(again, Some(pb::change::Change::Compaction(compaction)));
}

#[tokio::test]
async fn a_compaction_is_asked_for_joined_and_stopped() {
    let served = GrpcServer::start().await;
    let mut compactions = served.compactions();
    served.create("s").await;
    let request = pb::StartCompactionRequest { session_id: "s".into(), ..Default::default() };
    let nothing = compactions.start_compaction(request.clone()).await.expect_err("there is nothing");
    assert_eq!((nothing.code(), reason(&nothing).as_str()), (Code::FailedPrecondition, "NOTHING_TO_COMPACT"));

    let (user, assistant) = (pb::Role::User, pb::Role::Assistant);
    let words = [(user, "u1"), (assistant, "a1"), (user, "u2")].map(|(role, id)| new_message(role, id, "words"));
    served.append("s", words.to_vec()).await;
    let started = compactions.start_compaction(request.clone()).await.expect("a start").into_inner();
    assert_eq!(started.durability(), pb::Durability::ProcessCrash);
    let compaction = started.compaction.expect("a compaction");
    assert_eq!((compaction.kind(), compaction.state()), (pb::CompactionKind::Summary, pb::CompactionState::Ready));
    let again = compactions.start_compaction(request).await.expect("the same").into_inner();
    assert_eq!((again.compaction.as_ref(), started.joined, again.joined), (Some(&compaction), false, true));

    let request = pb::CancelCompactionRequest { compaction_id: compaction.compaction_id };
    let stopped = compactions.cancel_compaction(request).await.expect("a stop").into_inner();
    assert_eq!(stopped.durability(), pb::Durability::ProcessCrash);
    assert_eq!(stopped.compaction.expect("the compaction").state(), pb::CompactionState::Cancelled);
}

#[tokio::test]
async fn a_stream_begins_with_ready_and_ends_with_a_cursor() {
    let served = GrpcServer::start().await;
    let session = served.create("s").await;
    let mut request = Request::new(pb::AppendMessagesRequest {
        session_id: "s".into(),
        messages: vec![new_message(pb::Role::User, "u1", "one")],
        request_id: "r1".into(),
        ..Default::default()
    });
    request.metadata_mut().insert(ACTOR_HEADER, "somebody".parse().expect("a header"));
    served.messages().append_messages(request).await.expect("an append");

    let request = pb::SubscribeEventsRequest {
        start: Some(pb::subscribe_events_request::Start::FromBeginning(true)),
        include_content: true,
        ..Default::default()
    };
    let mut stream = served.events().subscribe_events(request).await.expect("a stream").into_inner();
    let ready = stream.next().await.expect("a frame").expect("a frame").frame;
    assert!(matches!(ready, Some(Frame::Ready(pb::Ready { head_seq: 2, .. }))), "{ready:?}");
    let Some(Frame::Events(batch)) = stream.next().await.expect("a frame").expect("a frame").frame else {
        panic!("no events");
    };
    let [created, appended] = batch.events.as_slice() else { panic!("{batch:?}") };
    assert_eq!((created.kind(), created.actor.as_str()), (pb::EventKind::SessionCreated, ""));
    assert_eq!((appended.actor.as_str(), appended.request_id.as_str()), ("somebody", "r1"));
    assert_eq!(appended.message.as_ref().expect("its content").client_id.as_deref(), Some("u1"));
    assert!(!batch.more);

    let request = pb::ListEventsRequest { session_id: Some("s".into()), page_size: 1, ..Default::default() };
    let page = served.events().list_events(request.clone()).await.expect("a page").into_inner();
    assert_eq!((page.events[0].session_id.as_str(), page.events.len()), (session.session_id.as_str(), 1));
    let request = pb::ListEventsRequest { after_cursor: page.next_cursor, ..request };
    let page = served.events().list_events(request).await.expect("a page").into_inner();
    assert_eq!((page.events[0].cursor.as_str(), page.next_cursor.as_str()), (appended.cursor.as_str(), ""));

    served.stopping.cancel();
    let end = stream.next().await.expect("an end").expect_err("the daemon stops");
    assert_eq!((end.code(), reason(&end).as_str()), (Code::Unavailable, "SHUTTING_DOWN"));
    let info = end.get_error_details().error_info().expect("an error info").clone();
    assert_eq!(info.metadata["cursor"], batch.cursor);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_request_id_answers_once_and_for_one_request() {
    let served = GrpcServer::start().await;
    served.create("s").await;
    let request = |words| pb::AppendMessagesRequest {
        session_id: "s".into(),
        messages: vec![pb::NewMessage { client_id: None, ..new_message(pb::Role::User, "", words) }],
        request_id: "r1".into(),
        ..Default::default()
    };
    let mut messages = served.messages();
    let first = messages.append_messages(request("one")).await.expect("an append").into_inner();
    let again = messages.append_messages(request("one")).await.expect("the same").into_inner();
    assert_eq!((again.message_ids, again.revision), (first.message_ids, first.revision));
    let other = messages.append_messages(request("two")).await.expect_err("another request");
    assert_eq!((other.code(), reason(&other).as_str()), (Code::InvalidArgument, "REQUEST_ID_REUSED"));
    // These two requests have the same bytes and different types.
    let (session_id, request_id) = ("s".to_owned(), "r2".to_owned());
    let archive = pb::ArchiveSessionRequest { session_id, request_id, ..Default::default() };
    served.sessions().archive_session(archive).await.expect("an archive");
    let (session_id, request_id) = ("s".to_owned(), "r2".to_owned());
    let undo = pb::UndoChangeRequest { session_id, request_id, ..Default::default() };
    let other = served.compactions().undo_change(undo).await.expect_err("another request");
    assert_eq!(reason(&other), "REQUEST_ID_REUSED");
}

/// The field that a refusal names.
fn violation(refused: &Status) -> String {
    let details = refused.get_error_details();
    details.bad_request().expect("a violation").field_violations[0].field.clone()
}

#[tokio::test]
async fn the_callers_name_is_ascii() {
    let served = GrpcServer::start().await;
    let mut request = Request::new(pb::CreateSessionRequest::default());
    let name = tonic::metadata::AsciiMetadataValue::try_from("jürgen".as_bytes()).expect("a header");
    request.metadata_mut().insert(ACTOR_HEADER, name);
    let refused = served.sessions().create_session(request).await.expect_err("a refusal");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    assert_eq!(violation(&refused), ACTOR_HEADER);
}

#[tokio::test]
async fn the_daemon_describes_itself() {
    let served = GrpcServer::start().await;
    let mut admin = served.admin();
    let session = served.create("s").await;
    let info = admin.get_server_info(pb::GetServerInfoRequest {}).await.expect("the daemon").into_inner();
    assert_eq!((info.version.as_str(), info.session_count), (env!("CARGO_PKG_VERSION"), 1));
    assert_eq!(
        (info.head_seq, info.durability(), info.write_state()),
        (1, pb::Durability::ProcessCrash, pb::WriteState::Accepted)
    );

    let presets = admin.list_presets(pb::ListPresetsRequest::default()).await.expect("presets").into_inner().presets;
    let default: Vec<&str> =
        presets.iter().filter(|preset| preset.default_preset).map(|preset| preset.name.as_str()).collect();
    assert_eq!(default, ["opencode@seed"]);
    assert!(presets.iter().all(|preset| preset.thresholds.is_empty()), "without a window");
    let window = pb::ModelWindow { max_context_tokens: 200_000, ..Default::default() };
    let request = pb::ListPresetsRequest { window: Some(window) };
    let presets = admin.list_presets(request).await.expect("presets").into_inner().presets;
    let without: Vec<&str> =
        presets.iter().filter(|preset| preset.thresholds.is_empty()).map(|preset| preset.name.as_str()).collect();
    assert_eq!(without, ["smolagents"], "presets without a threshold");
    let request =
        pb::ListPresetsRequest { window: Some(pb::ModelWindow { max_context_tokens: -1, ..Default::default() }) };
    assert_eq!(admin.list_presets(request).await.expect_err("no window").code(), tonic::Code::InvalidArgument);

    let request = pb::CheckIntegrityRequest { session_id: None };
    let items: Vec<_> = admin.check_integrity(request).await.expect("a check").into_inner().collect().await;
    let end = pb::IntegrityEnd { session_count: 1, event_count: 1, finding_count: 0 };
    let end = pb::CheckIntegrityResponse { item: Some(pb::check_integrity_response::Item::End(end)) };
    assert_eq!(items.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [end]);

    let heads = admin.list_heads(pb::ListHeadsRequest::default()).await.expect("heads").into_inner().heads;
    assert_eq!(
        (heads[0].session_id.as_str(), heads[0].revision, heads[0].hash.len()),
        (session.session_id.as_str(), 1, 32)
    );
    let beyond = pb::Head { revision: 7, hash: Vec::new(), ..heads[0].clone() };
    let request = pb::ListHeadsRequest { at: vec![heads[0].clone(), beyond.clone()], ..Default::default() };
    let at = admin.list_heads(request).await.expect("heads").into_inner().heads;
    assert_eq!(at, [heads[0].clone(), beyond]);
}

#[tokio::test]
async fn health_follows_the_daemon_to_its_end() {
    let served = GrpcServer::start().await;
    let mut client = HealthClient::new(served.routes.clone());
    for service in HEALTH_NAMES {
        let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await.expect(service);
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving, "{service}");
    }
    let watch = client.watch(HealthCheckRequest::default()).await.expect("a watch").into_inner();
    let mut watch = watch.map(|answer| answer.expect("a status").status());
    assert_eq!(watch.next().await, Some(ServingStatus::Serving));
    not_serving(&served.health).await;
    assert_eq!(watch.next().await, Some(ServingStatus::NotServing));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn watches_of_health_have_a_bound() {
    let served = GrpcServer::start().await;
    let mut client = HealthClient::new(served.routes.clone());
    let mut watches = Vec::new();
    for _ in 0..crate::limits::SIDE_CALLS_MAX {
        watches.push(client.watch(HealthCheckRequest::default()).await.expect("a watch").into_inner());
    }
    let refused = client.watch(HealthCheckRequest::default()).await.expect_err("one too many");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::InvalidArgument, "LIMIT_EXCEEDED"));
    client.check(HealthCheckRequest::default()).await.expect("a check is no watch");
    drop(watches.pop());
    client.watch(HealthCheckRequest::default()).await.expect("there is room again");
}

#[tokio::test]
async fn reflection_lists_every_service() {
    let served = GrpcServer::start().await;
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    let mut client = ServerReflectionClient::new(served.routes.clone());
    let requests = futures::stream::once(std::future::ready(request));
    let mut answers = client.server_reflection_info(requests).await.expect("an answer").into_inner();
    let answer = answers.next().await.expect("an answer").expect("an answer").message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("{answer:?}") };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in HEALTH_NAMES.into_iter().filter(|name| !name.is_empty()).chain(["grpc.health.v1.Health"]) {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}

#[tokio::test]
async fn a_request_may_be_larger_than_the_batch_limit_that_refuses_it() {
    let served = GrpcServer::start().await;
    served.create("s").await;
    let words = "x".repeat(crate::limits::BATCH_BYTES_MAX / 2);
    let messages = ["m1", "m2", "m3"].map(|id| new_message(pb::Role::User, id, &words[..words.len() / 4 * 3]));
    let request =
        pb::AppendMessagesRequest { session_id: "s".into(), messages: messages.to_vec(), ..Default::default() };
    let refused = served.messages().append_messages(request).await.expect_err("too much");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::InvalidArgument, "LIMIT_EXCEEDED"));
}

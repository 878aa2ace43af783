//! Retrieval: hidden passages come back when the last request asks for them, and the view stays a function of the
//! history.

use crate::database::Database;
use crate::support::{TestApp, conversation, soon, text, window};
use longhand::app::compactions::NewSummary;
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::views::{OverflowAction, ServedView, ViewRequest};
use longhand::app::{self, Caller, Longhand};
use longhand::clock::Clock;
use longhand::model::Revision;
use longhand::model::event::EventKind;
use longhand::model::message::Finish;
use longhand::model::part::PartBody;
use longhand::model::usage::ModelWindow;
use longhand::model::view::{ViewKind, ViewMessage};
use longhand::policy::pairing;
use longhand::scheduler::{self, Scheduler};
use longhand::store::{self, Durability, SessionKey, Store, Visibility};
use longhand::summarizer::{Extractive, Levels};
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// No automatic compactions, and space for about two passages.
const POLICY: &str = r#"{"trigger": {"auto": false}, "retrieval": {"budget_tokens": 60, "passage_tokens": 30,
    "query_units": 1000, "heading": "Earlier:"}}"#;

fn new_session(window: ModelWindow) -> NewSession {
    NewSession {
        preset: "opencode@seed".to_owned(),
        policy_override_json: POLICY.to_owned(),
        window,
        ..NewSession::default()
    }
}

async fn session(test: &TestApp) -> String {
    test.create(new_session(window(0, 0))).await
}

/// Supplies a summary of everything before a message.
async fn cover(app: &Caller, session: &str, tail_start: &str) {
    let summary =
        NewSummary { text: "We talked.".to_owned(), tail_start: tail_start.to_owned(), ..NewSummary::default() };
    app.compactions().supply_summary(session, summary).await.expect("supplied");
}

fn texts(message: &ViewMessage) -> Vec<String> {
    let text = |body: &PartBody| match body {
        PartBody::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    message.parts.iter().map(|part| text(&part.body)).collect()
}

/// The retrieved passages, without their heading; they precede the last user message.
fn recalled(view: &ServedView) -> Vec<String> {
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    let Some(at) = view.messages.iter().position(|message| message.kind == ViewKind::Retrieved) else {
        return Vec::new();
    };
    let last = view.messages.iter().rposition(|message| message.role == longhand::model::message::Role::User);
    assert_eq!(Some(at + 1), last, "right before the request");
    let mut texts = texts(&view.messages[at]);
    assert_eq!(texts.remove(0), "Earlier:");
    texts
}

async fn ask(test: &TestApp, session: &str, question: &str) -> Vec<String> {
    test.append(session, &format!("u \"{question}\"")).await;
    recalled(&test.view(session).await)
}

const TALK: &str = "u1 \"The deploy key is stored in vault seven.\"\n\
    a1 \"Noted: vault seven.\" call=c1\n\
    t1 result=c1:E0502-borrow-of-moved-value\n\
    u2 \"请把会话压缩的阈值改成百分之八十。\"\n\
    a2 \"好的，阈值已经改成百分之八十。\"\n\
    u3 \"Rename parse_header to readHeader in src/http/parser.rs.\"\n\
    a3 \"Renamed in both files.\"\n\
    u4 \"The weather is nice.\"\n\
    a4 \"Indeed it is.\"\n\
    u5 \"go on\"\n\
    a5 \"going on\"\n";

#[tokio::test]
async fn passages_that_match_the_request_are_retrieved() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    test.append(&session, TALK).await;
    assert_eq!(ask(&test, &session, "which vault?").await, Vec::<String>::new(), "nothing is hidden yet");
    cover(&test.app, &session, "u5").await;
    for (question, expected) in [
        ("Where is the deploy key?", &["user: The deploy key is stored in vault seven."][..]),
        ("error E0502", &["tool: E0502-borrow-of-moved-value"]),
        (
            "阈值改成了多少？",
            &["user: 请把会话压缩的阈值改成百分之八十。", "assistant: 好的，阈值已经改成百分之八十。"],
        ),
        ("parseHeader", &["user: Rename parse_header to readHeader in src/http/parser.rs."]),
        ("Did read_header() change?", &["user: Rename parse_header to readHeader in src/http/parser.rs."]),
        ("天气", &[]),
        ("going?", &[]),
        ("…", &[]),
    ] {
        assert_eq!(ask(&test, &session, question).await, expected, "{question}");
    }
    // The id beside a passage leads to its original part.
    ask(&test, &session, "Where is the deploy key?").await;
    let view = test.view(&session).await;
    let back = view.messages.iter().find(|message| message.kind == ViewKind::Retrieved).expect("it came back");
    let first = &test.history(&session).await[0];
    assert_eq!(back.parts[1].source, Some(first.parts[0].id));
    assert!(view.context_tokens >= view.estimated_tokens && view.estimated_tokens > 10);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_view_with_what_came_back_can_be_asked_for_again() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    test.append(&session, TALK).await;
    cover(&test.app, &session, "u5").await;
    let mut views: Vec<(Revision, [u8; 32], Vec<ViewMessage>)> = Vec::new();
    for (turn, question) in ["deploy key?", "阈值", "who renamed readHeader?", "weather"].iter().enumerate() {
        test.append(&session, &format!("q{turn} \"{question}\"").replace('q', "u9")).await;
        let view = test.view(&session).await;
        assert_ne!(recalled(&view), Vec::<String>::new(), "{question}");
        assert_eq!(test.view(&session).await.hash, view.hash);
        views.push((view.revision, view.hash, view.messages));
        test.append(&session, &format!("a \"the deploy key, 阈值, readHeader and the weather, said {turn}\"")).await;
    }
    cover(&test.app, &session, "u93").await;
    let again = async |test: &TestApp| {
        for (at, hash, messages) in &views {
            let view = test.view_as_of(&session, *at).await;
            assert_eq!((&view.hash, &view.messages), (hash, messages), "the view at {at}");
        }
    };
    again(&test).await;
    // The index is derived from the rows: without it the views are the same.
    let mut database = test.database();
    let forget = match database {
        Database::Sqlite(_) => "insert into search (search) values ('delete-all')",
        Database::Postgres(_) => "delete from search",
    };
    database.execute_batch(&format!("{forget}; delete from search_progress")).expect("forgotten");
    again(&test).await;
    again(&test.restart().await).await;
}

#[tokio::test]
async fn a_caller_who_holds_the_view_gets_what_is_new() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    test.append(&session, TALK).await;
    cover(&test.app, &session, "u5").await;
    test.append(&session, "u6 \"deploy key?\"").await;
    let view = test.view(&session).await;
    test.append(&session, "a6 \"in the vault\"").await;
    let request = ViewRequest {
        known_hash: Some(view.hash.to_vec()),
        known_revision: Some(view.revision),
        ..ViewRequest::default()
    };
    let next = test.app.views().get(&session, request).await.expect("a view");
    assert_eq!((next.known_count, next.messages.len()), (view.messages.len(), 1));
}

#[tokio::test]
async fn a_fork_finds_what_it_inherited_and_nothing_else() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    test.append(&session, TALK).await;
    let fork = async |of: &str, behind: &str| {
        let point = ForkPoint { message_id: Some(behind.to_owned()), ..ForkPoint::default() };
        let forked = test.app.sessions().fork(of, point, None, String::new()).await;
        forked.expect("forked").0.session.id.to_string()
    };
    let first = fork(&session, "a2").await;
    test.append(&session, "u \"The vault seven was moved to vault nine.\"").await;
    test.append(&first, "u6 \"The backup is in cellar three.\"\na6 \"Cellar three it is.\"").await;
    let second = fork(&first, "a6").await;
    test.append(&second, "u7 \"on\"\na7 \"and on\"").await;
    cover(&test.app, &second, "u7").await;
    assert_eq!(ask(&test, &second, "deploy key").await, ["user: The deploy key is stored in vault seven."]);
    assert_eq!(ask(&test, &second, "backup cellar").await, ["user: The backup is in cellar three."]);
    let back = ask(&test, &second, "vault nine moved").await;
    assert!(!back.iter().any(|passage| passage.contains("vault nine")), "that is behind the fork: {back:?}");
    assert_eq!(ask(&test, &second, "readHeader").await, Vec::<String>::new(), "that is behind the fork");
    cover(&test.app, &session, "u5").await;
    assert_eq!(ask(&test, &session, "backup cellar").await, Vec::<String>::new(), "nor does the parent see the fork's");
    assert_eq!(ask(&test, &session, "readHeader").await.len(), 1);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn nothing_that_was_rewound_or_edited_away_comes_back() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    let talk = "u1 \"The password is zebra.\"\na1 \"ok\"\nu2 \"The secret is giraffe.\"\na2 \"giraffe it is\"";
    test.append(&session, talk).await;
    test.app.messages().edit(&session, "u1", &[text("The password is lion.")], None).await.expect("edited");
    test.app.messages().rewind(&session, "a1", None).await.expect("rewound");
    test.append(&session, "u3 \"The animal is a hippo.\"\na3 \"fine\"\nu4 \"kept hippo\"\na4 \"x\"\nu5 \"go\"").await;
    test.app.messages().pin(&session, "u4").await.expect("pinned");
    cover(&test.app, &session, "u5").await;
    assert_eq!(ask(&test, &session, "password zebra").await, ["user: The password is lion."]);
    assert_eq!(ask(&test, &session, "secret giraffe").await, Vec::<String>::new());
    assert_eq!(ask(&test, &session, "hippo").await, ["user: The animal is a hippo."], "what is pinned is in view");
}

#[tokio::test]
async fn a_message_that_was_open_for_long_is_found_once_it_is_hidden() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    test.append(&session, "u1 \"one\"\na1 \"the first half of the otter\" open\nu2 \"two beavers\"\na2 \"ok\"").await;
    indexed(&test.longhand, &session).await;
    test.app.messages().finish(&session, "a1", Finish::default(), None).await.expect("sealed");
    test.append(&session, "u3 \"go\"").await;
    cover(&test.app, &session, "u3").await;
    assert_eq!(ask(&test, &session, "otter").await, ["assistant: the first half of the otter"]);
    assert_eq!(ask(&test, &session, "beavers").await, ["user: two beavers"]);
}

#[tokio::test]
async fn messages_that_qwen_agent_omits_are_retrieved() {
    let test = TestApp::start().await;
    let small = r#"{"auto": {"threshold": {"limit": {"tokens": 300}}},
        "retrieval": {"budget_tokens": 60, "passage_tokens": 30}}"#;
    let new = NewSession {
        preset: "qwen-agent@dialogue-retrieval".to_owned(),
        policy_override_json: small.to_owned(),
        window: window(1_000, 0),
        ..NewSession::default()
    };
    let session = test.create(new).await;
    let mut watch = test.watch().await;
    test.append(&session, "u1 \"The deploy key is stored in vault seven.\"\na1 \"noted\"").await;
    for turn in 2..6 {
        test.append(&session, &format!("u{turn} 300c\na{turn} 300c")).await;
    }
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    test.append(&session, "u8 \"Where is the deploy key?\"").await;
    let view = test.view(&session).await;
    let first = test.history(&session).await[0].revision;
    assert!(view.omitted.iter().any(|omitted| omitted.range.contains(first)), "{:?}", view.omitted);
    let back = view.messages.iter().find(|message| message.kind == ViewKind::Retrieved).expect("it came back");
    assert_eq!(texts(back)[1], "user: The deploy key is stored in vault seven.");
}

#[tokio::test]
async fn retrieved_passages_are_removed_first_from_a_view_that_does_not_fit() {
    let test = TestApp::start().await;
    let session = test.create(new_session(window(0, 0))).await;
    test.append(&session, TALK).await;
    cover(&test.app, &session, "u5").await;
    test.append(&session, "u6 \"Where is the deploy key?\"").await;
    let whole = test.view(&session).await;
    assert_ne!(recalled(&whole), Vec::<String>::new());
    let request = ViewRequest {
        window: Some(window(whole.estimated_tokens - 1, 0)),
        action: OverflowAction::Shorten,
        ..ViewRequest::default()
    };
    let shorter = test.app.views().get(&session, request).await.expect("a view");
    assert_eq!(recalled(&shorter), Vec::<String>::new());
    assert_eq!(shorter.messages.len() + 1, whole.messages.len(), "and nothing else went");
    assert!(shorter.fits && shorter.shortened_away.is_empty());
}

async fn key(longhand: &Longhand, session: &str) -> SessionKey {
    longhand.store().sessions().find(&Visibility::default(), session).await.expect("the session")
}

/// Waits until all messages are in the index.
async fn indexed(longhand: &Longhand, session: &str) {
    let app = longhand.caller(longhand::app::access::Access::owner(), String::new(), None).expect("a caller");
    let key = key(longhand, session).await;
    let mut head = longhand.store().log().watch_head();
    let done = async {
        loop {
            head.mark_unchanged();
            let newest = app.sessions().get(session).await.expect("the session").session.revision;
            if longhand.store().index().indexed_to(key).await.expect("read") == newest {
                return;
            }
            head.changed().await.expect("the writer runs");
        }
    };
    soon("the index to be filled", done).await;
}

#[tokio::test]
async fn the_index_is_filled_in_the_background_where_somebody_wants_it() {
    let test = TestApp::start().await;
    let (wanted, other) = (session(&test).await, test.manual_session().await);
    for _ in 0..3 {
        test.append(&wanted, TALK.replace("u1", "u").replace("a1", "a").as_str().lines().next().expect("a line")).await;
        test.append(&other, "u \"hello\"").await;
    }
    indexed(&test.longhand, &wanted).await;
    let indexed = match test.database() {
        Database::Sqlite(_) => "select count(*) from search_docsize",
        Database::Postgres(_) => "select count(distinct row_id) from search",
    };
    assert_eq!(test.number(indexed), 3);
    let key = key(&test.longhand, &other).await;
    assert_eq!(test.longhand.store().index().indexed_to(key).await.expect("read"), 0, "nobody searches there");
}

/// Nothing fills the index here, so that an append that waited for it would never end.
#[tokio::test]
async fn appends_do_not_wait_for_the_index() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let options = store::Options { directory: directory.path().join("store"), durability: Durability::ProcessCrash };
    let clock = Clock::default();
    let (store, writer) = Store::open(options, clock.clone()).await.expect("the store opens");
    tokio::spawn(writer);
    let workers = scheduler::Options {
        workers: NonZeroUsize::MIN,
        loaded_bytes: longhand::limits::LOADED_MIB_DEFAULT << 20,
        ..scheduler::Options::default()
    };
    let idle = Scheduler::new(store.clone(), clock.clone(), Levels::same_for_all(Arc::new(Extractive)), workers);
    let stopping = CancellationToken::new();
    let options = app::Options {
        default_preset: "opencode@seed".to_owned(),
        defaults: Vec::new(),
        models: longhand::policy::models::Models::built_in(),
        vocabularies: Vec::new(),
        entrance: longhand::app::entrance::Entrance::new(&clock),
        stopping: stopping.clone(),
    };
    let longhand = Longhand::new(store, idle.handle(), &clock, options);
    let app = longhand.caller(longhand::app::access::Access::owner(), String::new(), None).expect("a caller");
    let (info, _) = app.sessions().create(new_session(window(0, 0))).await.expect("a session").answer;
    let session = info.session.id.to_string();
    let key = key(&longhand, &session).await;
    for turn in 0..50 {
        let text = format!("u \"request {turn}\"\na \"answer {turn}\"");
        app.messages().append(&session, conversation(&text), None, None).await.expect("appended");
    }
    assert_eq!(longhand.store().index().indexed_to(key).await.expect("read"), 0);
    let tail = "u9 \"request 7?\"";
    app.messages().append(&session, conversation(tail), None, None).await.expect("appended");
    cover(&app, &session, "u9").await;
    assert_eq!(longhand.store().index().indexed_to(key).await.expect("read"), 0);
    // A search fills the index.
    let view = app.views().get(&session, ViewRequest::default()).await.expect("a view");
    assert!(recalled(&view).contains(&"user: request 7".to_owned()), "{view:?}");
    let filled = longhand.store().index().indexed_to(key).await.expect("read");
    assert!(filled > 100, "{filled}");
    // The scheduler indexes the rest.
    app.messages().append(&session, conversation("a \"more\""), None, None).await.expect("appended");
    let running = tokio::spawn(idle.run(stopping.clone()));
    indexed(&longhand, &session).await;
    stopping.cancel();
    soon("the scheduler to stop", running).await.expect("no panic");
}

#[tokio::test]
async fn a_request_is_searched_once_and_its_session_stays_in_memory() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    test.append(&session, TALK).await;
    cover(&test.app, &session, "u5").await;
    test.append(&session, "u6 \"Where is the deploy key?\"").await;
    let first = test.view(&session).await;
    assert_eq!(recalled(&first), ["user: The deploy key is stored in vault seven."]);
    indexed(&test.longhand, &session).await;
    let mut costs = Vec::new();
    for turn in 0..5 {
        test.append(&session, &format!("a \"step {turn}\"")).await;
        indexed(&test.longhand, &session).await;
        let before = test.longhand.store().upkeep().rows_read();
        let view = test.view(&session).await;
        costs.push(test.longhand.store().upkeep().rows_read() - before);
        assert_eq!(recalled(&view), recalled(&first));
        let again = test.view_as_of(&session, view.revision).await;
        assert_eq!((&again.hash, &again.messages), (&view.hash, &view.messages), "as from the rows");
        assert_eq!((again.context_tokens, again.estimated_tokens), (view.context_tokens, view.estimated_tokens));
    }
    // The store counts the rows of all readers: the scheduler's may be in some of the counts.
    assert_eq!(costs.into_iter().min(), Some(0));
    assert_eq!(ask(&test, &session, "weather?").await, ["user: The weather is nice."], "another request");
}

/// P11: the number of rows that a view with passages reads, once the index is filled.
async fn cost(test: &TestApp, count: usize) -> u64 {
    let session = session(test).await;
    let mut left = count;
    while left > 0 {
        let batch = left.min(200);
        let line = |index: usize| format!("u \"request about the parser and module {} of the build\"\n", left - index);
        test.append(&session, &(0..batch).map(line).collect::<String>()).await;
        left -= batch;
    }
    test.append(&session, "u8 \"the parser of module 17?\"").await;
    // Only appends start indexing in the background, so that the index may never reach the summary's revision.
    indexed(&test.longhand, &session).await;
    cover(&test.app, &session, "u8").await;
    let first = test.view(&session).await;
    assert!(recalled(&first).iter().any(|found| found.contains("module 17 ")), "{:?}", recalled(&first));
    test.settled().await;
    let mut costs = Vec::new();
    for _ in 0..5 {
        let before = test.longhand.store().upkeep().rows_read();
        // A view of an earlier revision is not in memory.
        assert_eq!(test.view_as_of(&session, first.revision).await.hash, first.hash);
        costs.push(test.longhand.store().upkeep().rows_read() - before);
    }
    // The store counts the rows of all readers: the scheduler's heartbeat may be in one of the counts.
    costs.into_iter().min().expect("five of them")
}

#[tokio::test]
async fn a_search_costs_the_same_whatever_lies_behind_it() {
    let test = TestApp::start().await;
    let (small, large) = (cost(&test, 200).await, cost(&test, 4_000).await);
    assert_eq!(small, large);
    assert!(small < 500, "{small} rows");
}

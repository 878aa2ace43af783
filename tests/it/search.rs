//! Search over all history: what is found, what is said of it, and the index that follows the log.

use crate::archives::{export, import};
use crate::database::copy_store;
use crate::support::{TestApp, conversation, private_folder, prunable, soon, text};
use longhand::app::access::{Access, Credentials};
use longhand::app::access_tokens::NewAccessToken;
use longhand::app::append::{AppendRequest, RewindTo};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::search::{EntryKind, SearchPage, SearchRequest};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::{Caller, Error, Reason};
use longhand::limits;
use longhand::model::access::Scopes;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;
use longhand::model::ids::MessageId;
use longhand::model::message::{Message, MessageKind, MessageState, NewMessage, Role};
use longhand::model::part::{Media, NewPart, PartBody};
use longhand::model::time::Timestamp;
use longhand::summarizer::Extractive;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn query(query: &str) -> SearchRequest {
    SearchRequest { query: query.to_owned(), records: true, ..SearchRequest::default() }
}

/// A search of everything that is committed now.
async fn search_by(test: &TestApp, caller: &Caller, request: SearchRequest) -> Result<SearchPage, Error> {
    let min_seq = test.longhand.store().log().head_seq();
    caller.history().search(&SearchRequest { min_seq, wait: Duration::from_secs(30), ..request }).await
}

async fn search(test: &TestApp, request: SearchRequest) -> SearchPage {
    search_by(test, &test.app, request).await.expect("a page")
}

/// The client ids of the messages of a page.
fn names(page: &SearchPage) -> Vec<String> {
    let name = |message: &Message| message.client_id.clone().unwrap_or_default();
    page.hits.iter().map(|shown| name(&shown.hit.message)).collect()
}

async fn found(test: &TestApp, request: SearchRequest) -> Vec<String> {
    names(&search(test, request).await)
}

fn with(query: &SearchRequest, change: impl FnOnce(&mut SearchRequest)) -> SearchRequest {
    let mut request = query.clone();
    change(&mut request);
    request
}

const TALK: &str = "u1 \"The deploy key is stored in vault seven.\"\n\
    a1 \"Noted: vault seven.\" call=c1\n\
    t1 result=c1:E0502-borrow-of-moved-value\n\
    u2 \"请把会话压缩的阈值改成百分之八十。\"\n\
    u3 \"Rename parse_header to readHeader in src/http/parser.rs.\"\n\
    a3 \"Renamed in both files.\"";

#[tokio::test]
async fn history_is_found_by_words_names_paths_and_dense_scripts() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, TALK).await;
    for (words, expected) in [
        ("vault", &["a1", "u1"][..]),
        ("DEPLOY vault", &["u1"]),
        ("\"vault seven\"", &["a1", "u1"]),
        ("\"seven vault\"", &[]),
        ("E0502", &["t1"]),
        ("borrow-of-moved", &["t1"]),
        ("阈值", &["u2"]),
        ("parseHeader", &["u3"]),
        ("http/parser.rs", &["u3"]),
        ("renam*", &["a3", "u3"]),
        ("zebra OR NEAR(giraffe) ^x", &[]),
        ("whole : zebra", &[]),
        ("rename", &["a3", "u3"]),
        ("\"rename\"", &["u3"]),
    ] {
        let all = SearchRequest { all: true, ..query(words) };
        assert_eq!(found(&test, all).await, expected, "{words}");
    }
    for (words, expected) in [
        ("Where is the deploy key?", &["u1"][..]),
        ("deploy vault", &["u1", "a1"]),
        ("http/parser.rs zebra", &["u3"]),
        ("请把窗口改成百分之", &["u2"]),
    ] {
        assert_eq!(found(&test, query(words)).await, expected, "{words}");
    }
    let page = search(&test, query("deploy")).await;
    let [shown] = &page.hits[..] else { panic!("{page:?}") };
    assert_eq!(shown.text, "The deploy key is stored in vault seven.");
    assert!(shown.bytes == (0..40) && matches!(&shown.matches[..], [only] if *only == (4..10)), "{shown:?}");
    assert!(shown.in_view && !page.is_cut && page.next_page_token.is_empty());
    assert_eq!(page.indexed_seq, test.longhand.store().log().head_seq());
}

#[tokio::test]
async fn any_word_finds_and_all_of_them_and_quotations_come_first() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let talk = "u1 \"The deploy key is in vault seven.\"\nu2 \"key key key\"\nu3 \"seven vault key of another kind here\"\n\
        u4 \"error_5_count\"\nu5 \"error_4_count\"\nu6 \"nothing of it\"";
    test.append(&session, talk).await;
    let words = "deploy \"vault seven\" key";
    let page = search(&test, query(words)).await;
    assert_eq!(names(&page), ["u1", "u2", "u3"]);
    // Why each is where it is.
    let first = &page.hits[0];
    assert!(first.rank.has_all && first.rank.has_quotations && !page.hits[1].rank.has_all);
    let terms: Vec<&str> = first.terms.iter().map(|(term, _)| term.as_str()).collect();
    assert_eq!(terms, ["deploy", "\"vault seven\"", "key"]);
    for hit in &page.hits {
        assert_eq!(hit.terms.iter().map(|(_, score)| score).sum::<u64>(), hit.rank.score, "{hit:?}");
        assert!(hit.terms.iter().all(|(_, score)| *score > 0), "{hit:?}");
    }
    assert!(page.hits.is_sorted_by(|one, other| one.rank >= other.rank));
    assert_eq!(found(&test, SearchRequest { all: true, ..query(words) }).await, ["u1"]);
    assert_eq!(found(&test, SearchRequest { newest: true, ..query(words) }).await, ["u3", "u2", "u1"]);
    // A name alone finds itself; in a question its pieces find too.
    assert_eq!(found(&test, query("error_5_count")).await, ["u4"]);
    assert_eq!(found(&test, query("where is error_5_count")).await[..2], ["u4", "u5"]);
    // Nothing found says how far the index is.
    let nothing = search(&test, query("zebra")).await;
    assert!(nothing.hits.is_empty() && nothing.head_seq == nothing.indexed_seq && nothing.head_seq > 0);
}

#[tokio::test]
async fn an_old_answer_is_found_whatever_came_since() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"Caroline moved from Sweden four years ago\"").await;
    let lines: Vec<String> =
        (2..400).map(|at| format!("u{at} \"where did the others go, when and why {at}\"")).collect();
    for lines in lines.chunks(100) {
        test.append(&session, &lines.join("\n")).await;
    }
    let page = search(&test, SearchRequest { page_size: 10, ..query("Where did Caroline's family move from?") }).await;
    assert_eq!(names(&page)[0], "u1");
}

#[tokio::test]
async fn statistics_of_the_tenant_are_answered_and_ranked_by() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"rare\"\nu2 \"common\"\nu3 \"common\"").await;
    let both = query("rare common");
    let counted = search(&test, SearchRequest { exclude_hits: true, ..both.clone() }).await;
    assert!(counted.hits.is_empty() && !counted.next_page_token.is_empty());
    assert_eq!((counted.statistics.parts, &counted.statistics.having[..]), (3, &[1, 2][..]));
    assert_eq!(names(&search(&test, both.clone()).await), ["u1", "u3", "u2"]);
    let first = SearchRequest { page_token: counted.next_page_token, ..both.clone() };
    assert_eq!(names(&search(&test, first).await), ["u1", "u3", "u2"]);
    let mut others = counted.statistics.clone();
    others.having = vec![3, 1];
    let by_others = SearchRequest { statistics: Some(others), ..both.clone() };
    assert_eq!(names(&search(&test, by_others).await), ["u3", "u2", "u1"]);
    let of_another = SearchRequest { statistics: Some(Default::default()), ..both };
    assert_eq!(search_by(&test, &test.app, of_another).await.expect_err("refused").reason, Reason::InvalidField);
    // What is erased is not counted any more.
    let request = EraseRequest {
        target: EraseTarget::Messages(vec!["u2".to_owned()]),
        reason: "a key".to_owned(),
        dry_run: false,
        expected_revision: None,
    };
    crate::engines::erase_at_once(&test.app, &session, request).await;
    let counted = search(&test, SearchRequest { exclude_hits: true, ..query("rare common") }).await;
    assert_eq!((counted.statistics.parts, &counted.statistics.having[..]), (2, &[1, 1][..]));
}

#[tokio::test]
async fn a_search_has_the_pause_of_the_index_ended() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let search = test.longhand.store().search();
    for round in 0..20 {
        test.append(&session, &format!("u{round} \"needle\"")).await;
        let head = test.longhand.store().log().head_seq();
        let page = test.app.history().search(&query("needle")).await.expect("a page");
        // What was not in the index before is asked for, and what came in time is found.
        assert!(*search.awaited_seq().borrow() == head || page.indexed_seq == head);
        assert!(page.indexed_seq < head || page.hits.len() > round);
    }
    let head = test.longhand.store().log().head_seq();
    assert_eq!(search.wait(head + 100, Duration::from_millis(1)).await.max(head), head);
    assert!(*search.awaited_seq().borrow() <= head, "what is not in the log is not asked for");
}

#[tokio::test]
async fn parts_are_found_by_role_tool_type_and_time() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let before = test.clock.now();
    test.append(&session, "u1 \"needle\"\na1 \"needle\" call=c1\nt1 result=c1:needle\nr1 \"needle\"").await;
    let between = test.clock.now();
    let media = Media { mime_type: "image/png".to_owned(), name: "needle.png".to_owned(), ..Media::default() };
    let reasoning = NewPart::new(PartBody::Reasoning("a needle".to_owned()));
    let parts = vec![NewPart::new(PartBody::Media(media)), reasoning];
    let message = NewMessage { client_id: Some("a2".to_owned()), ..NewMessage::sealed(Role::Assistant, parts) };
    test.app.messages().append(&session, vec![message], None, None).await.expect("appended");
    let all = query("needle");
    let of = async |request: SearchRequest| {
        let mut names = found(&test, request).await;
        names.sort();
        names
    };
    assert_eq!(of(all.clone()).await, ["a1", "a2", "a2", "r1", "t1", "u1"]);
    assert_eq!(of(with(&all, |all| all.records = false)).await, ["a1", "a2", "a2", "t1", "u1"]);
    assert_eq!(of(with(&all, |all| all.roles = vec![Role::User, Role::Tool])).await, ["t1", "u1"]);
    assert_eq!(of(with(&all, |all| all.kinds = vec![EntryKind::Media])).await, ["a2"]);
    let output_or_record = vec![EntryKind::ToolResult, EntryKind::Record];
    assert_eq!(of(with(&all, |all| all.kinds = output_or_record)).await, ["r1", "t1"]);
    // A result has the tool of its call, which has it in its own name.
    let outputs = search(&test, with(&all, |all| all.kinds = vec![EntryKind::ToolResult])).await;
    let tool = outputs.hits[0].hit.tool.clone().expect("a tool");
    assert_eq!(of(with(&all, |all| all.tools = vec![tool.clone()])).await, ["t1"]);
    assert_eq!(of(with(&all, |all| all.tools = vec![tool.to_uppercase()])).await, Vec::<String>::new());
    assert_eq!(found(&test, query(&tool)).await, ["a1"], "a call is found by its tool");
    assert_eq!(of(with(&all, |all| all.since = Some(between))).await, ["a2", "a2"]);
    let until = |all: &mut SearchRequest| (all.since, all.until) = (Some(before), Some(between));
    assert_eq!(of(with(&all, until)).await.len(), 4);
    assert_eq!(of(with(&all, |all| all.until = Some(before))).await, Vec::<String>::new());
}

#[tokio::test]
async fn parts_of_an_open_message_are_found_as_they_close() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 \"first needle\" open").await;
    let one = |words: &str| vec![longhand::store::OpenPart::Whole(text(words))];
    test.app.messages().append_parts(&session, "a1", one("second needle")).await.expect("closed");
    assert_eq!(found(&test, query("needle")).await.len(), 2);
    test.app.messages().append_parts(&session, "a1", one("third needle")).await.expect("closed");
    let page = search(&test, query("needle")).await;
    let texts: Vec<&str> = page.hits.iter().map(|shown| shown.text.as_str()).collect();
    assert_eq!(texts, ["third needle", "second needle", "first needle"]);
}

#[tokio::test]
async fn a_hit_says_what_todays_view_does_with_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let app = &test.app;
    let talk = "u1 \"needle one\"\na1 \"needle two\"\nu2 \"needle three\"\na2 \"needle four\"\nu3 \"go on\"";
    test.append(&session, talk).await;
    let edit = app.messages().edit(&session, "a1", &[text("needle dos")], None).await.expect("edited");
    let summary = NewSummary { text: "a needle".to_owned(), tail_start: "a2".to_owned(), ..NewSummary::default() };
    let (compaction, _) = app.compactions().supply_summary(&session, summary).await.expect("supplied").answer;
    let state = async |name: &str| {
        let page = search(&test, query("needle")).await;
        let hit = page.hits.into_iter().find(|shown| shown.hit.message.client_id.as_deref() == Some(name));
        let shown = hit.unwrap_or_else(|| panic!("{name} is found"));
        (shown.in_view, shown.hit.status)
    };
    let (in_view, covered) = state("u1").await;
    assert!(!in_view && covered.state == MessageState::Covered && covered.by_message.is_some());
    assert_eq!(covered.by_compaction, Some(compaction.id));
    let (in_view, edited) = state("a1").await;
    assert_eq!((in_view, edited.state), (false, MessageState::Edited));
    assert_eq!(edited.by_message, Some(MessageId(edit.ids[0])));
    assert!(state("a2").await.0);
    let derived = search(&test, SearchRequest { derived: true, ..query("needle") }).await;
    assert_eq!(derived.hits.len(), 6, "the replacement, and the summary");
    assert!(derived.hits.iter().any(|shown| shown.hit.message.kind == MessageKind::Summary && shown.in_view));
    assert_eq!(search(&test, query("needle")).await.hits.len(), 5);
    let rewind = AppendRequest {
        messages: conversation("u4 \"other\""),
        rewind: Some(RewindTo::Message("u1")),
        ..AppendRequest::default()
    };
    app.compactions().undo(&session, None).await.expect("undone");
    app.messages().append_with(&session, rewind).await.expect("rewound");
    assert_eq!(state("a2").await.1.state, MessageState::Rewound);
    assert!(state("u1").await.0, "no summary stands for it any more");
}

#[tokio::test]
async fn a_shortened_output_names_its_compaction() {
    let test = TestApp::start().await;
    let session = prunable(&test).await;
    test.append(&session, "a7 \"looking\" call=c7\nt7 result=c7:whole").await;
    let mut watch = test.watch().await;
    let prune = test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Prune)).await;
    prune.expect("there is something to prune");
    watch.wait_for(EventKind::Compacted).await;
    let view = test.view(&session).await;
    let pruned = view.messages.iter().flat_map(|message| &message.parts).find(|part| part.shortened.is_some());
    let part = pruned.and_then(|part| part.source).expect("a shortened part");
    let original = test.app.messages().expand(&session, &part.to_string(), 0, "").await.expect("expanded");
    let PartBody::ToolResult(result) = &*original.messages[0].parts[0].body else { panic!("{original:?}") };
    let word: String = result.output.chars().take_while(|character| character.is_alphanumeric()).take(40).collect();
    let outputs = SearchRequest { session: Some(session), kinds: vec![EntryKind::ToolResult], ..query(&word) };
    let page = search(&test, SearchRequest { page_size: 100, ..outputs.clone() }).await;
    let shown = page.hits.iter().find(|shown| shown.hit.message.parts[0].id == part).expect("it is found");
    assert!(shown.in_view && shown.hit.shortened_by.is_some(), "{:?}", shown.hit);
    let whole = search(&test, SearchRequest { query: "whole".to_owned(), ..outputs }).await;
    assert!(whole.hits[0].in_view && whole.hits[0].hit.shortened_by.is_none());
}

/// A session with metadata that name a project.
async fn in_project(test: &TestApp, project: &str, parent: Option<String>) -> String {
    let metadata_json = Some(format!("{{\"project\": {project:?}}}"));
    test.create(NewSession { preset: "opencode@seed".to_owned(), metadata_json, parent, ..NewSession::default() }).await
}

#[tokio::test]
async fn a_search_is_bound_to_a_session_a_tree_or_a_project() {
    let test = TestApp::start().await;
    let root = in_project(&test, "red", None).await;
    test.append(&root, "u1 \"needle\"\na1 \"needle\"").await;
    let child = in_project(&test, "blue", Some(root.clone())).await;
    test.append(&child, "u2 \"needle\"").await;
    let fork = ForkPoint { message_id: Some("u1".to_owned()), ..ForkPoint::default() };
    let fork = test
        .app
        .sessions()
        .fork(&root, fork, None, String::new())
        .await
        .expect("forked")
        .answer
        .0
        .session
        .id
        .to_string();
    test.append(&fork, "u3 \"needle\"").await;
    test.append(&root, "u4 \"needle\"").await;
    let other = in_project(&test, "red", None).await;
    test.append(&other, "u5 \"needle\"").await;
    let sorted = async |request: SearchRequest| {
        let mut names = found(&test, request).await;
        names.sort();
        names
    };
    let all = query("needle");
    assert_eq!(sorted(all.clone()).await, ["a1", "u1", "u2", "u3", "u4", "u5"]);
    assert_eq!(sorted(with(&all, |all| all.session = Some(root.clone()))).await, ["a1", "u1", "u4"]);
    let of_fork = with(&all, |all| all.session = Some(fork.clone()));
    let page = search(&test, of_fork).await;
    assert_eq!(page.indexed_revision, Some(test.revision(&fork).await));
    let inherited = page.hits.iter().find(|shown| shown.hit.message.client_id.as_deref() == Some("u1"));
    assert!(inherited.expect("with what it inherits").in_view);
    assert!(names(&page).contains(&"u3".to_owned()) && !names(&page).contains(&"u4".to_owned()));
    assert_eq!(sorted(with(&all, |all| all.tree = Some(root.clone()))).await, ["a1", "u1", "u2", "u3", "u4"]);
    assert_eq!(sorted(with(&all, |all| all.tree = Some(fork.clone()))).await, ["u3"]);
    let of_project = |project: &str| with(&all, |all| all.project = Some(project.to_owned()));
    assert_eq!(sorted(of_project("red")).await, ["a1", "u1", "u3", "u4", "u5"]);
    assert_eq!(sorted(of_project("blue")).await, ["u2"]);
    assert_eq!(sorted(with(&of_project("blue"), |all| all.tree = Some(root.clone()))).await, ["u2"]);
    assert_eq!(sorted(with(&of_project("red"), |all| all.tree = Some(child.clone()))).await, Vec::<String>::new());
    // A project is what the metadata say now.
    let metadata_json = Some("{\"project\": \"blue\"}".to_owned());
    let change = SessionChange { metadata_json, ..SessionChange::default() };
    test.app.sessions().update(&other, change).await.expect("updated");
    assert_eq!(sorted(of_project("blue")).await, ["u2", "u5"]);
}

#[tokio::test]
async fn pages_have_every_hit_once_and_nothing_that_came_later() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let lines: Vec<String> = (0..25).map(|index| format!("u{index} \"needle\"")).collect();
    test.append(&session, &lines.join("\n")).await;
    let mut request = SearchRequest { page_size: 7, ..query("needle") };
    let mut all = Vec::new();
    loop {
        let page = search(&test, request.clone()).await;
        assert!(page.hits.len() <= 7);
        all.extend(names(&page));
        if page.next_page_token.is_empty() {
            break;
        }
        test.append(&session, "u \"needle\"").await;
        request.page_token = page.next_page_token;
    }
    let newest_first: Vec<String> = (0..25).rev().map(|index| format!("u{index}")).collect();
    assert_eq!(all, newest_first);
    let other = SearchRequest { query: "needles".to_owned(), ..request.clone() };
    assert_eq!(search_by(&test, &test.app, other).await.expect_err("refused").reason, Reason::PageTokenInvalid);
}

#[tokio::test]
async fn what_cannot_be_searched_is_refused() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let refused =
        async |request: SearchRequest| search_by(&test, &test.app, request).await.expect_err("a refusal").reason;
    assert_eq!(refused(query("… *")).await, Reason::InvalidField);
    assert_eq!(refused(query("a \"b")).await, Reason::InvalidField);
    assert_eq!(refused(query(&"x".repeat(limits::SEARCH_QUERY_BYTES_MAX + 1))).await, Reason::LimitExceeded);
    let many = (0..=limits::SEARCH_WORDS_MAX).map(|word| format!("x{word}")).collect::<Vec<_>>().join(" ");
    assert_eq!(refused(query(&many)).await, Reason::LimitExceeded);
    let tools = vec![String::new(); limits::SEARCH_FILTER_VALUES_MAX + 1];
    assert_eq!(refused(SearchRequest { tools, ..query("x") }).await, Reason::LimitExceeded);
    let both = SearchRequest { session: Some(session.clone()), tree: Some(session), ..query("x") };
    assert_eq!(refused(both).await, Reason::InvalidField);
    let unknown = SearchRequest { session: Some("nobody".to_owned()), ..query("x") };
    assert_eq!(refused(unknown).await, Reason::SessionNotFound);
    let foreign = SearchRequest { page_token: "AAAA".to_owned(), ..query("x") };
    assert_eq!(refused(foreign).await, Reason::PageTokenInvalid);
    // An event that never comes is waited for in vain, and the answer says so.
    let future = SearchRequest { min_seq: 1 << 40, wait: Duration::from_millis(1), ..query("x") };
    let page = test.app.history().search(&future).await.expect("a page");
    assert!(page.hits.is_empty() && page.indexed_seq < 1 << 40);
}

/// A caller by an access token that is bound.
async fn bound(test: &TestApp, project: Option<&str>, root: Option<&str>) -> Caller {
    let new = NewAccessToken {
        principal: "reader".to_owned(),
        tenant: None,
        scopes: Scopes::all(),
        project: project.map(str::to_owned),
        root: root.map(str::to_owned),
        expire_time: None,
    };
    let (_, secret) = test.app.access_tokens().create(new).await.expect("a token");
    let credentials = Credentials::Secret(&secret, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let access = test.longhand.entrance().authenticate(credentials).expect("known");
    test.longhand.caller(access, String::new(), None).expect("a caller")
}

#[tokio::test]
async fn nobody_finds_what_is_not_visible() {
    let test = TestApp::start().await;
    let ours = in_project(&test, "red", None).await;
    let message = "u1 \"needle common\"\na1 \"common common\"";
    test.append(&ours, message).await;
    let access = Access::owner().acting_in("acme").expect("an operator");
    let acme = test.longhand.caller(access, String::new(), None).expect("a caller");
    let new = NewSession { preset: "opencode@seed".to_owned(), ..NewSession::default() };
    let theirs = acme.sessions().create(new).await.expect("a session").answer.0.session.id.to_string();
    acme.messages().append(&theirs, conversation(message), None, None).await.expect("appended");
    let page = search_by(&test, &acme, SearchRequest { all: true, ..query("common needle") }).await.expect("a page");
    let sessions: Vec<String> = page.hits.iter().map(|shown| shown.hit.message.session_id.to_string()).collect();
    assert_eq!(sessions, std::slice::from_ref(&theirs));
    assert_eq!(found(&test, query("needle")).await, ["u1"], "the default tenant's alone");
    let of_theirs = SearchRequest { session: Some(theirs), ..query("needle") };
    let refused = search_by(&test, &test.app, of_theirs).await.expect_err("not there");
    assert_eq!(refused.reason, Reason::SessionNotFound);
    // Within a tenant, an access token may be bound.
    let blue = in_project(&test, "blue", None).await;
    test.append(&blue, "u2 \"needle\"").await;
    let red = bound(&test, Some("red"), None).await;
    assert_eq!(names(&search_by(&test, &red, query("needle")).await.expect("a page")), ["u1"]);
    // What others write changes neither its counts nor its scores.
    let ranked = async || {
        let page = search_by(&test, &red, query("needle common")).await.expect("a page");
        (page.statistics.having, page.hits.iter().map(|shown| shown.terms.clone()).collect::<Vec<_>>())
    };
    let before = ranked().await;
    assert_eq!(before.0, [1, 2]);
    test.append(&blue, "u3 \"needle\"").await;
    assert_eq!(ranked().await, before);
    assert_eq!(search(&test, query("needle common")).await.statistics.having, [3, 2]);
    let rooted = bound(&test, None, Some(&blue)).await;
    assert_eq!(names(&search_by(&test, &rooted, query("needle")).await.expect("a page")), ["u3", "u2"]);
    let of_red = SearchRequest { tree: Some(ours), ..query("needle") };
    let refused = search_by(&test, &rooted, of_red).await.expect_err("not there");
    assert_eq!(refused.reason, Reason::SessionNotFound);
}

/// Puts an index into a closed store's folder, or none.
fn put_index(folder: &Path, content: Option<&[u8]>) {
    let place = folder.join("longhand-search.db");
    std::fs::remove_file(&place).expect("removed");
    if let Some(content) = content {
        std::fs::write(&place, content).expect("written");
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600)).expect("private");
    }
}

#[tokio::test]
async fn the_index_goes_on_after_a_restart_and_is_made_anew_where_it_does_not_fit() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, TALK).await;
    assert_eq!(found(&test, query("vault")).await.len(), 2);
    let test = test.kill().await;
    test.append(&session, "u9 \"vault nine\"").await;
    assert_eq!(found(&test, query("vault")).await.len(), 3);
    let directory = test.stop().await;
    let of_other_store = std::fs::read(directory.path().join("longhand-search.db")).expect("an index");
    let mut damaged = of_other_store.clone();
    damaged[4_096..].fill(0x5a);
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"vault of this store\"").await;
    let mut directory = test.stop().await;
    let version = |directory: &Path| {
        let index = std::fs::read(directory.join("longhand-search.db")).expect("an index");
        u32::from_be_bytes([index[60], index[61], index[62], index[63]])
    };
    let (mut of_older_version, newest) =
        (std::fs::read(directory.path().join("longhand-search.db")).expect("an index"), version(directory.path()));
    of_older_version[60..64].copy_from_slice(&(newest - 1).to_be_bytes());
    for content in [Some(&of_other_store[..]), Some(&damaged[..]), Some(&of_older_version[..]), None] {
        put_index(directory.path(), content);
        let test = TestApp::reopen(directory, Arc::new(Extractive)).await;
        assert_eq!(found(&test, query("vault")).await, ["u1"], "its own history alone");
        directory = soon("the store to close", test.stop()).await;
        assert_eq!(version(directory.path()), newest);
    }
}

#[tokio::test]
async fn a_copy_of_a_store_without_its_index_makes_one() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, TALK).await;
    assert_eq!(found(&test, query("vault")).await.len(), 2);
    let directory = test.stop().await;
    let copy = private_folder();
    copy_store(directory.path(), copy.path()).await;
    let test = TestApp::copy_of(copy.path()).await;
    assert_eq!(found(&test, query("vault")).await.len(), 2);
}

/// True if a file of the index has a word.
fn has_in_index(test: &TestApp, word: &str) -> bool {
    let files = std::fs::read_dir(test.directory()).expect("a folder").map(|file| file.expect("a file").path());
    let mut ours = files.filter(|path| path.to_string_lossy().contains("longhand-search"));
    ours.any(|path| {
        let bytes = std::fs::read(path).expect("bytes");
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

#[tokio::test]
async fn what_is_erased_is_not_found_and_is_in_no_file_of_the_index() {
    let test = TestApp::start().await;
    let (session, other) = (test.manual_session().await, test.manual_session().await);
    test.append(&session, "u1 \"quetzalnine here\"\na1 \"zanzibarkey there\"\nu2 \"quokkaword\"").await;
    test.append(&other, "u3 \"mulgaraword\"").await;
    let fork = ForkPoint { message_id: Some("u2".to_owned()), ..ForkPoint::default() };
    let fork = test
        .app
        .sessions()
        .fork(&session, fork, None, String::new())
        .await
        .expect("forked")
        .answer
        .0
        .session
        .id
        .to_string();
    test.append(&fork, "u4 \"numbatword\"").await;
    assert_eq!(found(&test, query("quetzalnine")).await, ["u1"]);
    assert!(has_in_index(&test, "uetzalnin") && has_in_index(&test, "anzibarkey"));
    let erase = async |target: EraseTarget| {
        let request = EraseRequest { target, reason: "a key".to_owned(), dry_run: false, expected_revision: None };
        crate::engines::erase_at_once(&test.app, &session, request).await;
    };
    erase(EraseTarget::Messages(vec!["u1".to_owned()])).await;
    assert!(!has_in_index(&test, "uetzalnin") && has_in_index(&test, "anzibarkey"));
    let answer = test.history(&session).await.into_iter().find(|message| message.client_id.as_deref() == Some("a1"));
    erase(EraseTarget::Part(answer.expect("the answer").parts[0].id)).await;
    assert!(!has_in_index(&test, "anzibarkey") && has_in_index(&test, "okkaword"));
    for words in ["quetzalnine", "zanzibarkey", "erased"] {
        assert_eq!(found(&test, query(words)).await, Vec::<String>::new(), "{words}");
    }
    assert_eq!(found(&test, query("quokkaword")).await, ["u2"]);
    erase(EraseTarget::Session).await;
    assert!(!has_in_index(&test, "okkaword"));
    assert_eq!(found(&test, query("numbatword")).await, ["u4"], "a fork keeps what is its own");
    assert_eq!(found(&test, query("mulgaraword")).await, ["u3"]);
}

#[tokio::test]
async fn a_summary_of_a_fork_is_forgotten_with_the_session_that_it_was_written_from() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\nu2 \"two\"\nu3 \"three\"\nu4 \"four\"").await;
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    let fork = fork.session.id.to_string();
    let text = "quetzalnine was said".to_owned();
    let summary = NewSummary { text, tail_start: "u3".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&fork, summary).await.expect("supplied");
    test.append(&fork, "u5 \"numbatword\"").await;
    let derived = SearchRequest { derived: true, ..query("quetzalnine") };
    assert_eq!(search(&test, derived.clone()).await.hits.len(), 1);
    assert!(has_in_index(&test, "uetzalnin"));
    let request = EraseRequest {
        target: EraseTarget::Session,
        reason: "a key".to_owned(),
        dry_run: false,
        expected_revision: None,
    };
    crate::engines::erase_at_once(&test.app, &session, request).await;
    assert_eq!(search(&test, derived).await.hits, []);
    assert!(!has_in_index(&test, "uetzalnin"));
    assert_eq!(found(&test, query("numbatword")).await, ["u5"], "the fork keeps what is its own");
}

#[tokio::test]
async fn words_are_taken_out_of_the_index_although_it_was_killed_between_their_removal_and_the_end_of_the_log() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"quetzalnine here\"\nu2 \"quokkaword\"").await;
    assert_eq!(found(&test, query("quetzalnine")).await, ["u1"]);
    let directory = test.stop().await;
    let before = std::fs::read(directory.path().join("longhand-search.db")).expect("an index");
    let test = TestApp::reopen(directory, Arc::new(Extractive)).await;
    let request = EraseRequest {
        target: EraseTarget::Messages(vec!["u1".to_owned()]),
        reason: "a key".to_owned(),
        dry_run: false,
        expected_revision: None,
    };
    test.app.content().erase(&session, request).await.expect("erased");
    let directory = test.stop().await;
    // As a kill leaves it that comes behind the commit of the removal: that is in the log, and the words in the file.
    put_index(directory.path(), Some(&before));
    let index = rusqlite::Connection::open(directory.path().join("longhand-search.db")).expect("the index");
    index.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("set");
    let removal = "pragma secure_delete = on; pragma wal_autocheckpoint = 0; \
         delete from block; delete from entries; delete from segment;";
    index.execute_batch(removal).expect("removed");
    index.close().expect("closed");
    let test = TestApp::reopen(directory, Arc::new(Extractive)).await;
    test.append(&session, "u3 \"quokkaword\"").await;
    assert_eq!(found(&test, query("quokkaword")).await, ["u3"]);
    assert_eq!(found(&test, query("quetzalnine")).await, Vec::<String>::new());
    assert!(!has_in_index(&test, "uetzalnin"));
}

#[tokio::test]
async fn times_restrict_what_was_imported_and_what_was_there_before_it() {
    const DAY_MS: i64 = 86_400_000;
    let source = TestApp::start().await;
    let old = source.manual_session().await;
    source.append(&old, "u1 \"needle\"\nu2 \"needle\"\nu3 \"needle\"").await;
    let archive = export(&source.app, &old).await.expect("exported");
    let test = TestApp::start().await;
    test.clock.advance(3 * DAY_MS);
    let session = test.manual_session().await;
    test.append(&session, "u4 \"needle\"").await;
    import(&test.app, &archive).await.expect("imported");
    let yesterday = Some(Timestamp(test.clock.now().0 - DAY_MS * 1_000));
    assert_eq!(found(&test, query("needle")).await.len(), 4);
    assert_eq!(found(&test, with(&query("needle"), |all| all.since = yesterday)).await, ["u4"]);
    assert_eq!(found(&test, with(&query("needle"), |all| all.until = yesterday)).await, ["u3", "u2", "u1"]);
}

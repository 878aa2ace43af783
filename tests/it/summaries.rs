//! Additions to every summary, whoever wrote it.

use crate::support::{Line, ScriptedSummarizer, TestApp, filler, text, turns};
use futures::FutureExt as _;
use longhand::app::Reason;
use longhand::app::append::ListMessages;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::{ForkPoint, SessionChange};
use longhand::app::summary_tasks::TaskReply;
use longhand::app::views::ViewRequest;
use longhand::limits;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;
use longhand::model::layout::Placement;
use longhand::model::message::{MessageKind, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody, ToolCall};
use longhand::model::view::{Author, Provenance, ViewKind};
use longhand::policy::files::parse_tags;
use longhand::scheduler;
use longhand::store::{RequestKey, Visibility};
use std::time::Duration;

fn line(words: &str) -> Line {
    Line::Say(words.to_owned())
}

/// A reply that calls a tool on a file, and the tool's result.
fn uses(tool: &str, path: &str, number: usize) -> Vec<NewMessage> {
    let call_id = format!("{tool}{number}");
    let input_json = serde_json::json!({ "path": path }).to_string();
    let call = ToolCall { call_id: call_id.clone(), tool: tool.to_owned(), input_json, ..ToolCall::default() };
    let message = |role, parts| NewMessage::sealed(role, parts);
    vec![
        message(Role::User, vec![text(&filler("go on", 400))]),
        message(
            Role::Assistant,
            vec![NewPart::new(PartBody::ToolCall(call)), crate::support::result(&call_id, &filler(&call_id, 3_000))],
        ),
    ]
}

/// Compacts by hand; returns the text of the active summary.
async fn compacted(test: &TestApp, session: &str) -> String {
    let mut watch = test.watch().await;
    let before = test.events().await.iter().filter(|event| event.body.kind() == EventKind::Compacted).count();
    test.app.compactions().start(session, NewCompaction::of_kind(CompactionKind::Summary)).await.expect("asked");
    for _ in 0..=before {
        watch.wait_for(EventKind::Compacted).await;
    }
    summary_of(test, session).await
}

/// The text of the active summary.
async fn summary_of(test: &TestApp, session: &str) -> String {
    let key = test.longhand.store().sessions().find(&Visibility::default(), session).await.expect("the session");
    let source = test.longhand.store().views().source(key, None).await.expect("the view");
    let summary =
        source.messages.iter().find(|source| source.placement == Some(Placement::Summary)).expect("a summary");
    crate::support::words_of(&summary.message)
}

async fn change(test: &TestApp, session: &str, json: &str) {
    let change = SessionChange { policy_override_json: Some(json.to_owned()), ..SessionChange::default() };
    test.app.sessions().update(session, change).await.expect("a policy");
}

/// A tail of only the last message, so that there is always something to cover.
const SHORT_TAIL: &str = r#"{"auto":{"steps":{"0":{"summarize":{"tail":{"recent":{"keep_tokens":10}}}}}}}"#;

#[tokio::test]
async fn file_lists_follow_every_summary_and_are_carried() {
    let copied = "S2\n\n<read-files>\n/invented.ts\n</read-files>";
    let test = TestApp::with(ScriptedSummarizer::new([line("S1"), line(copied), Line::Refuse])).await;
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    change(&test, &session, SHORT_TAIL).await;
    let append = async |messages| {
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
    };
    append(uses("read", "/a.ts", 1)).await;
    append(uses("edit", "/b.ts", 2)).await;
    test.append(&session, &turns(1, 2, 3_000)).await;
    assert_eq!(
        compacted(&test, &session).await,
        "S1\n\n<read-files>\n/a.ts\n</read-files>\n\n<modified-files>\n/b.ts\n</modified-files>"
    );
    append(uses("edit", "/a.ts", 3)).await;
    append(uses("read", "/c.ts", 4)).await;
    test.append(&session, &turns(3, 4, 3_000)).await;
    let second = compacted(&test, &session).await;
    let lists = (vec!["/c.ts".to_owned()], vec!["/a.ts".to_owned(), "/b.ts".to_owned()]);
    assert!(second.starts_with("S2\n\n<read-files>\n/c.ts\n"), "what a model copied is gone: {second}");
    assert_eq!(parse_tags(&second), lists);
    // The same lists follow the built-in summarizer's text.
    test.append(&session, &turns(5, 6, 3_000)).await;
    let third = compacted(&test, &session).await;
    assert_eq!(parse_tags(&third), lists);
    assert_eq!(third.matches("<read-files>").count(), 1, "{third}");
}

#[tokio::test]
async fn file_lists_of_a_supplied_summary_are_not_carried() {
    let test = TestApp::with(ScriptedSummarizer::new([line("S1"), line("S2")])).await;
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    change(&test, &session, SHORT_TAIL).await;
    let append = async |messages| {
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
    };
    append(uses("read", "/a.ts", 1)).await;
    test.append(&session, &turns(1, 2, 3_000)).await;
    let theirs = "mine\n\n<read-files>\n/theirs.ts\n</read-files>";
    let new = NewSummary { text: theirs.to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&session, new).await.expect("supplied");
    append(uses("edit", "/b.ts", 2)).await;
    test.append(&session, &turns(3, 4, 3_000)).await;
    assert_eq!(compacted(&test, &session).await, "S1\n\n<modified-files>\n/b.ts\n</modified-files>");
    // After a summary of Longhand's own they are carried again.
    append(uses("read", "/c.ts", 3)).await;
    test.append(&session, &turns(5, 6, 3_000)).await;
    let second = compacted(&test, &session).await;
    assert_eq!(parse_tags(&second), (vec!["/c.ts".to_owned()], vec!["/b.ts".to_owned()]));
}

#[tokio::test]
async fn file_lists_follow_what_a_client_answers_but_not_what_it_supplies() {
    let options = || scheduler::Options { client_wait: Duration::from_secs(60), ..scheduler::Options::default() };
    let lists = "\n\n<modified-files>\n/b.ts\n</modified-files>";
    let answer = crate::provider::fake::summary("words");
    for (supplied, expected) in [(false, format!("{answer}{lists}")), (true, answer.clone())] {
        let test = TestApp::with_options(ScriptedSummarizer::new([]), options()).await;
        let session = test.session("pi@1.5", 400_000, 1_000).await;
        change(&test, &session, SHORT_TAIL).await;
        let messages = uses("edit", "/b.ts", 1);
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
        test.append(&session, &turns(1, 2, 3_000)).await;
        let mut watch = test.watch().await;
        let wanted = NewCompaction::of_kind(CompactionKind::Summary);
        test.app.compactions().start(&session, wanted).await.expect("asked");
        test.complete_task(TaskReply { text: answer.clone(), supplied, ..TaskReply::default() }).await;
        watch.wait_for(EventKind::Compacted).await;
        assert_eq!(summary_of(&test, &session).await, expected);
    }
}

#[tokio::test]
async fn the_record_follows_a_models_summary_where_the_policy_wants_it() {
    let facts = r#"{"auto":{"steps":{"0":{"summarize":{"summary":{"facts_tokens":200}}}}}}"#;
    for (json, line, expected) in
        [(Some(facts), line("S1"), true), (None, line("S1"), false), (Some(facts), Line::Refuse, false)]
    {
        let test = TestApp::with(ScriptedSummarizer::new([line])).await;
        let session = test.session("pi@1.5", 400_000, 1_000).await;
        change(&test, &session, SHORT_TAIL).await;
        if let Some(json) = json {
            change(&test, &session, json).await;
        }
        let messages = uses("edit", "/b.ts", 2);
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
        test.append(&session, &turns(1, 2, 3_000)).await;
        let summary = compacted(&test, &session).await;
        assert_eq!(summary.contains("# Record of what happened"), expected, "{summary}");
        if expected {
            let (words, facts) = summary.split_once("\n\n# Record of what happened\n").expect("behind the words");
            assert_eq!(words, "S1");
            let (facts, lists) = facts.split_once("\n\n<modified-files>").expect("in front of the lists");
            assert!(facts.contains("/b.ts") && facts.len() <= 200 * 4, "{facts}");
            assert!(lists.starts_with("\n/b.ts"));
        }
    }
}

/// The compaction, author and summarizer of a view's summary; its message and the view itself must agree.
async fn signed(test: &TestApp, session: &str) -> (String, Author, String) {
    let view = test.view(session).await;
    let summary = view.messages.iter().find(|message| message.kind == ViewKind::Summary).expect("a summary");
    let provenance = summary.provenance.clone().expect("it is signed");
    assert_eq!(view.provenance.as_ref(), Some(&provenance));
    let compaction = view.covered.map(|covered| covered.compaction);
    assert_eq!((provenance.summary, provenance.compaction), (summary.source, compaction));
    let others = view.messages.iter().filter(|message| message.kind != ViewKind::Summary);
    assert!(others.into_iter().all(|message| message.provenance.is_none()));
    (compaction.expect("of a compaction").to_string(), provenance.author, provenance.summarizer.clone())
}

#[tokio::test]
async fn every_view_names_the_author_of_its_summary() {
    let test = TestApp::with(ScriptedSummarizer::new([line("S1"), Line::Refuse])).await;
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    change(&test, &session, SHORT_TAIL).await;
    test.append(&session, &turns(1, 2, 3_000)).await;
    let whole = test.view(&session).await;
    assert!(whole.provenance.is_none() && whole.messages.iter().all(|message| message.provenance.is_none()));
    compacted(&test, &session).await;
    let by_model = signed(&test, &session).await;
    assert_eq!((by_model.1, by_model.2.as_str()), (Author::Model, "scripted"));
    let first = test.view(&session).await;
    test.append(&session, &turns(3, 4, 3_000)).await;
    compacted(&test, &session).await;
    let built_in = signed(&test, &session).await;
    assert_eq!((built_in.1, built_in.2.as_str()), (Author::BuiltIn, "extractive"));
    let new = NewSummary { text: "mine".to_owned(), summarizer: "an extension".to_owned(), ..NewSummary::default() };
    let (supplied, _) = test.app.compactions().supply_summary(&session, new).await.expect("supplied").answer;
    let by_client = signed(&test, &session).await;
    assert_eq!(by_client, (supplied.id.to_string(), Author::Client, "an extension".to_owned()));
    // An earlier view has its earlier provenance, also for a caller that holds its messages; a fork has its parent's.
    let known =
        ViewRequest { as_of: Some(first.revision), known_hash: Some(first.hash.to_vec()), ..ViewRequest::default() };
    let again = test.app.views().get(&session, known).await.expect("a view");
    assert_eq!((again.messages.len(), again.hash), (0, first.hash));
    assert_eq!(again.provenance.and_then(|found| found.compaction).map(|id| id.to_string()), Some(by_model.0));
    let forked = test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await;
    let fork = forked.expect("forked").0.session.id.to_string();
    assert_eq!(signed(&test, &fork).await, by_client);
}

/// The text and the provenance of the only branch summary in a view.
async fn branch_summary(test: &TestApp, session: &str) -> (String, Provenance) {
    let view = test.view(session).await;
    let mut branches = view.messages.iter().filter(|message| message.kind == ViewKind::Branch);
    let branch = branches.next().expect("it is shown");
    assert!(branches.next().is_none() && branch.role == Role::User);
    let PartBody::Text(text) = &*branch.parts[0].body else { panic!("words") };
    (text.clone(), branch.provenance.as_deref().expect("it is signed").clone())
}

#[tokio::test]
async fn a_rewind_can_summarize_the_branch_that_it_leaves() {
    let script = ScriptedSummarizer::new([line("in vain"), line("## Goal\n- a try"), Line::Refuse]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    let append = async |messages| {
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
    };
    test.append(&session, "u1 \"stay here\"").await;
    append(uses("read", "/a.ts", 1)).await;
    append(uses("edit", "/b.ts", 2)).await;
    let seen = test.view(&session).await.revision;
    let rewind = async |request_id: &str, instructions: &str, expected| {
        let request = RequestKey { id: request_id.to_owned(), payload_hash: [1; 32] };
        let caller = test
            .longhand
            .caller(longhand::app::access::Access::owner(), String::new(), Some(request))
            .expect("a caller");
        caller.messages().rewind_with_summary(&session, "u1", instructions, expected).await
    };
    let stale = rewind("stale", "", Some(1)).await.expect_err("history changed since");
    assert_eq!(stale.reason, Reason::RevisionMismatch);
    assert_eq!(test.view(&session).await.revision, seen, "nothing changed");
    let refused = rewind("long", &"x".repeat(longhand::limits::INSTRUCTIONS_BYTES_MAX + 1), None).await;
    assert_eq!(refused.expect_err("too long").reason, Reason::LimitExceeded);
    let receipt = rewind("once", "dwell on files", None).await.expect("rewound");
    let (text, provenance) = branch_summary(&test, &session).await;
    let lists = (vec!["/a.ts".to_owned()], vec!["/b.ts".to_owned()]);
    assert!(text.contains("<summary>\n## Goal\n- a try\n\n<read-files>"), "{text}");
    assert_eq!(parse_tags(&text), lists);
    assert_eq!((provenance.author, provenance.summarizer.as_str()), (Author::Model, "scripted"));
    assert_eq!((provenance.compaction, provenance.summary.map(|id| id.0)), (None, receipt.ids.first().copied()));
    let asked = script.asked();
    let input = asked.last().expect("it was asked");
    assert!(input.instructions.ends_with("\ndwell on files"), "{}", input.instructions);
    assert_eq!(input.messages.len(), 4, "what stays is not summarized");
    // A repeated request gets the same answer.
    let count = script.asked().len();
    assert_eq!(rewind("once", "dwell on files", None).await.expect("again"), receipt);
    assert_eq!(script.asked().len(), count);
    // The branch and the continuation are one history, and the view accounts for all of it.
    assert_eq!(test.findings().await, []);
    // After an undo, the branch is back and needs no summary.
    let branched = test.view(&session).await.hash;
    let before = test.view_as_of(&session, seen).await.hash;
    test.app.compactions().undo(&session, None).await.expect("undone");
    assert_eq!(test.view(&session).await.hash, before);
    test.app.compactions().redo(&session, None).await.expect("redone");
    assert_eq!(test.view(&session).await.hash, branched);
    assert_eq!(test.findings().await, []);
    let listed = test.app.messages().list(&session, ListMessages { page_size: 50, ..ListMessages::default() }).await;
    let kinds: Vec<MessageKind> = listed.expect("a page").messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds.last(), Some(&MessageKind::Branch));
    // A second branch, whose summarizer fails, gets the built-in summary, with the files of both branches.
    append(uses("edit", "/c.ts", 3)).await;
    rewind("twice", "", None).await.expect("rewound");
    let (text, provenance) = branch_summary(&test, &session).await;
    assert_eq!((provenance.author, provenance.summarizer.as_str()), (Author::BuiltIn, "extractive"));
    assert_eq!(parse_tags(&text), (vec!["/a.ts".to_owned()], vec!["/b.ts".to_owned(), "/c.ts".to_owned()]));
    // No messages after the target: no summary.
    let other = test.session("pi@1.5", 400_000, 1_000).await;
    test.append(&other, "u1 \"stay here\"").await;
    let alone = test.app.messages().rewind_with_summary(&other, "u1", "", None).await.expect("rewound");
    assert!(alone.ids.is_empty());
}

#[tokio::test]
async fn a_rewind_with_a_summary_reserves_memory_for_a_large_view() {
    let test = TestApp::with(ScriptedSummarizer::new([])).await;
    let session = test.session("pi@1.5", 40_000_000, 1_000).await;
    test.append(&session, "u1 \"stay here\"").await;
    for number in 2..=5 {
        test.append(&session, &format!("u{number} 5000000c")).await;
    }
    let views = &test.longhand.entrance().traffic().views;
    let others = views.hold(limits::VIEWS_BYTES_MAX);
    others.exempt();
    // The maximum number of waiters for memory, so that one more is refused at once.
    let wait = || Box::pin(views.wait_for(1, Duration::from_secs(600)));
    let mut waiting: Vec<_> = (0..limits::MEMORY_WAITERS_MAX).map(|_| wait()).collect();
    assert!(waiting.iter_mut().all(|waits| waits.now_or_never().is_none()));
    let rewound = test.app.messages().rewind_with_summary(&session, "u1", "", None).await;
    assert_eq!(rewound.expect_err("the memory is taken").reason, Reason::TooManyViews);
}

/// Claude Code's design leaves the last 20 messages where its model fails; OpenCode has no such step.
#[tokio::test]
async fn the_policys_fallback_replaces_the_summary_of_a_model_that_fails() {
    for (preset, has_fallback) in [("claude-code@seed", true), ("opencode@seed", false)] {
        let test = TestApp::with(ScriptedSummarizer::new([Line::Refuse])).await;
        let session = test.session(preset, 600_000, 1_000).await;
        test.append(&session, &turns(1, 40, 4_000)).await;
        let asked = NewCompaction::of_kind(CompactionKind::Summary);
        test.app.compactions().start(&session, asked).await.expect("started");
        test.settled().await;
        let view = test.view(&session).await;
        assert_eq!(view.covered.is_none(), has_fallback, "{preset}: {:?}", view.covered);
        if has_fallback {
            assert_eq!(view.messages.iter().filter(|message| message.kind == ViewKind::Shown).count(), 20, "{preset}");
        }
    }
}

//! What follows every summary, whoever wrote it.

use crate::support::{Line, ScriptedSummarizer, TestApp, filler, text, turns};
use longhand::app::compactions::{NewSummary, Wanted};
use longhand::app::context::ContextRequest;
use longhand::app::sessions::{ForkPoint, SessionChange};
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;
use longhand::model::layout::Place;
use longhand::model::message::{Finish, MessageKind, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody, ToolCall};
use longhand::model::view::{Author, Standing};
use longhand::policy::files::parse_tags;
use longhand::store::Caller;

fn say(words: &str) -> Line {
    Line::Say(words.to_owned())
}

/// A reply that uses a tool on a file, and what the tool gave back.
fn uses(tool: &str, path: &str, number: usize) -> Vec<NewMessage> {
    let call_id = format!("{tool}{number}");
    let input_json = serde_json::json!({ "path": path }).to_string();
    let call = ToolCall { call_id: call_id.clone(), tool: tool.to_owned(), input_json, ..ToolCall::default() };
    let message = |role, parts| NewMessage {
        client_id: None,
        role,
        kind: MessageKind::Normal,
        parts,
        finish: Some(Finish::default()),
        model: String::new(),
        provider: String::new(),
        origin_time: None,
        metadata_json: None,
    };
    vec![
        message(Role::User, vec![text(&filler("go on", 400))]),
        message(
            Role::Assistant,
            vec![NewPart::new(PartBody::ToolCall(call)), crate::support::result(&call_id, &filler(&call_id, 3_000))],
        ),
    ]
}

/// Compacts by hand and gives the words of the summary in force.
async fn compacted(test: &TestApp, session: &str) -> String {
    let mut watch = test.watch().await;
    let before = test.events().await.iter().filter(|event| event.body.kind() == EventKind::Compacted).count();
    test.app.start_compaction(session, Wanted::of(CompactionKind::Summary), Caller::default()).await.expect("asked");
    for _ in 0..=before {
        watch.wait_for(EventKind::Compacted).await;
    }
    let key = test.app.store().find_session(session).await.expect("the session");
    let source = test.app.store().source(key, None).await.expect("the view");
    let summary = source.messages.iter().find(|source| source.place == Some(Place::Summary)).expect("a summary");
    crate::support::words_of(&summary.message)
}

async fn change(test: &TestApp, session: &str, json: &str) {
    let change = SessionChange { policy_override_json: Some(json.to_owned()), ..SessionChange::default() };
    test.app.update_session(session, change, Caller::default()).await.expect("a policy");
}

/// A tail of nothing but the last message, so that there is always something to cover.
const SHORT_TAIL: &str = r#"{"auto":{"steps":{"0":{"summarize":{"tail":{"recent":{"keep_tokens":10}}}}}}}"#;

#[tokio::test]
async fn file_lists_follow_every_summary_and_are_carried() {
    let copied = "S2\n\n<read-files>\n/invented.ts\n</read-files>";
    let test = TestApp::with(ScriptedSummarizer::new([say("S1"), say(copied), Line::Refuse])).await;
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    change(&test, &session, SHORT_TAIL).await;
    let append = async |messages| {
        test.app.append(&session, messages, None, None, Caller::default()).await.expect("appended");
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
    // The built-in summarizer's words are followed by the same lists.
    test.append(&session, &turns(5, 6, 3_000)).await;
    let third = compacted(&test, &session).await;
    assert_eq!(parse_tags(&third), lists);
    assert_eq!(third.matches("<read-files>").count(), 1, "{third}");
}

#[tokio::test]
async fn facts_follow_a_models_summary_where_the_policy_wants_them() {
    let facts = r#"{"auto":{"steps":{"0":{"summarize":{"summary":{"facts_tokens":200}}}}}}"#;
    for (json, line, expected) in
        [(Some(facts), say("S1"), true), (None, say("S1"), false), (Some(facts), Line::Refuse, false)]
    {
        let test = TestApp::with(ScriptedSummarizer::new([line])).await;
        let session = test.session("pi@1.5", 400_000, 1_000).await;
        change(&test, &session, SHORT_TAIL).await;
        if let Some(json) = json {
            change(&test, &session, json).await;
        }
        let messages = uses("edit", "/b.ts", 2);
        test.app.append(&session, messages, None, None, Caller::default()).await.expect("appended");
        test.append(&session, &turns(1, 2, 3_000)).await;
        let summary = compacted(&test, &session).await;
        assert_eq!(summary.contains("# Facts from the record"), expected, "{summary}");
        if expected {
            let (words, facts) = summary.split_once("\n\n# Facts from the record\n\n").expect("behind the words");
            assert_eq!(words, "S1");
            let (facts, lists) = facts.split_once("\n\n<modified-files>").expect("in front of the lists");
            assert!(facts.contains("/b.ts") && facts.len() <= 200 * 4, "{facts}");
            assert!(lists.starts_with("\n/b.ts"));
        }
    }
}

/// What a view says of its summary: in its message, and beside the view.
async fn signed(test: &TestApp, session: &str) -> (String, Author, String) {
    let context = test.context(session).await;
    let summary = context.messages.iter().find(|message| message.standing == Standing::Summary).expect("a summary");
    let provenance = summary.provenance.clone().expect("it is signed");
    assert_eq!(context.provenance.as_ref(), Some(&provenance));
    assert_eq!(
        (provenance.summary, Some(provenance.compaction)),
        (summary.source, context.covered.map(|c| c.compaction))
    );
    let others = context.messages.iter().filter(|message| message.standing != Standing::Summary);
    assert!(others.into_iter().all(|message| message.provenance.is_none()));
    (provenance.compaction.to_string(), provenance.author, provenance.summarizer.clone())
}

#[tokio::test]
async fn every_view_says_whose_words_its_summary_is() {
    let test = TestApp::with(ScriptedSummarizer::new([say("S1"), Line::Refuse])).await;
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    change(&test, &session, SHORT_TAIL).await;
    test.append(&session, &turns(1, 2, 3_000)).await;
    let whole = test.context(&session).await;
    assert!(whole.provenance.is_none() && whole.messages.iter().all(|message| message.provenance.is_none()));
    compacted(&test, &session).await;
    let by_model = signed(&test, &session).await;
    assert_eq!((by_model.1, by_model.2.as_str()), (Author::Model, "scripted"));
    let first = test.context(&session).await;
    test.append(&session, &turns(3, 4, 3_000)).await;
    compacted(&test, &session).await;
    let built_in = signed(&test, &session).await;
    assert_eq!((built_in.1, built_in.2.as_str()), (Author::BuiltIn, "extractive"));
    let new = NewSummary { text: "mine".to_owned(), summarizer: "an extension".to_owned(), ..NewSummary::default() };
    let (supplied, _) = test.app.supply_summary(&session, new, Caller::default()).await.expect("supplied");
    let by_client = signed(&test, &session).await;
    assert_eq!(by_client, (supplied.id.to_string(), Author::Client, "an extension".to_owned()));
    // A view of before says what it said, in a fork too, and also to whoever holds its messages already.
    let known = ContextRequest {
        as_of: Some(first.revision),
        known_hash: Some(first.hash.to_vec()),
        ..ContextRequest::default()
    };
    let again = test.app.context(&session, known).await.expect("a view");
    assert_eq!((again.messages.len(), again.hash), (0, first.hash));
    assert_eq!(again.provenance.expect("beside the view").compaction.to_string(), by_model.0);
    let forked = test.app.fork_session(&session, ForkPoint::default(), None, String::new(), Caller::default()).await;
    let fork = forked.expect("forked").0.session.id.to_string();
    assert_eq!(signed(&test, &fork).await, by_client);
}

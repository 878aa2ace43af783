//! P9: equal call ids of several writers are not mixed up, a result may name its call's message, and a call that runs
//! keeps its input.

use crate::support::{TestApp, block_on, call, cases, conversation, result, text, window};
use longhand::app::append::OpenPart;
use longhand::app::compactions::NewSummary;
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::views::ServedView;
use longhand::app::{Error, Reason};
use longhand::model::message::{Message, NewMessage, Role};
use longhand::model::part::{Answers, NewPart, PartBody};
use longhand::model::view::{SourceMessage, ViewPart};
use longhand::policy::calls::Calls;
use longhand::policy::pairing;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

async fn write(test: &TestApp, session: &str, actor: &str, messages: Vec<NewMessage>) -> Result<(), Error> {
    test.by(actor).messages().append(session, messages, None, None).await.map(drop)
}

async fn append(test: &TestApp, session: &str, actor: &str, talk: &str) {
    write(test, session, actor, conversation(talk)).await.expect("appended");
}

/// A message with the result of a call in the given message.
fn answer(name: &str, id: &str, output: &str, message: &str) -> NewMessage {
    let mut new = conversation(&format!("{name} \"x\"")).remove(0);
    new.parts = vec![naming(id, output, message)];
    new
}

fn naming(id: &str, output: &str, message: &str) -> NewPart {
    let mut part = result(id, output);
    if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut part.body) {
        result.answers = Answers::In(message.to_owned());
    }
    part
}

/// The outputs after each message with calls.
fn outputs(view: &ServedView) -> Vec<(String, Vec<String>)> {
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    let mut outputs: Vec<(String, Vec<String>)> = Vec::new();
    for message in &view.messages {
        for part in &message.parts {
            match (&*part.body, outputs.last_mut()) {
                (PartBody::Text(words), _) if message.role == Role::Assistant => {
                    outputs.push((words.clone(), Vec::new()))
                }
                (PartBody::ToolResult(result), Some((_, found))) => found.push(result.output.clone()),
                _ => {}
            }
        }
    }
    outputs
}

fn expected(pairs: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    pairs
        .iter()
        .map(|(call, found)| ((*call).to_owned(), found.iter().map(|one| (*one).to_owned()).collect()))
        .collect()
}

#[tokio::test]
async fn two_agents_with_the_same_call_ids_get_their_own_results() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "a1 \"one\" call=call_0").await;
    append(&test, &session, "two", "a2 \"two\" call=call_0").await;
    append(&test, &session, "one", "t1 result=call_0:first").await;
    append(&test, &session, "two", "t2 result=call_0:second").await;
    append(&test, &session, "one", "a3 \"again\" call=call_0").await;
    append(&test, &session, "two", "a4 \"and again\" call=call_0\nt4 result=call_0:fourth").await;
    append(&test, &session, "one", "t3 result=call_0:third").await;
    let all = expected(&[("one", &["first"]), ("two", &["second"]), ("again", &["third"]), ("and again", &["fourth"])]);
    assert_eq!(outputs(&test.view(&session).await), all);
    let forked = test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await;
    let forked = forked.expect("forked").0.session.id.to_string();
    assert_eq!(outputs(&test.view(&forked).await), all);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_runner_names_the_call_that_it_answers() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "a1 \"one\" call=c").await;
    append(&test, &session, "two", "a2 \"two\" call=c").await;
    let first = test.history(&session).await[0].id.to_string();
    let answers = vec![answer("t1", "c", "first", &first), answer("t2", "c", "second", "a2")];
    write(&test, &session, "runner", answers.clone()).await.expect("appended");
    let all = expected(&[("one", &["first"]), ("two", &["second"])]);
    assert_eq!(outputs(&test.view(&session).await), all);
    // The reference is stored as the message's own id, and a repeated request is the same with either id.
    let stored = test.history(&session).await;
    let PartBody::ToolResult(kept) = &*stored[3].parts[0].body else { panic!("a result") };
    assert_eq!(kept.answers, Answers::In(stored[1].id.to_string()));
    write(&test, &session, "runner", answers).await.expect("there already");
    let by_id = vec![answer("t2", "c", "second", &stored[1].id.to_string())];
    write(&test, &session, "runner", by_id).await.expect("there already");
    assert_eq!(test.history(&session).await, stored);
}

#[tokio::test]
async fn a_call_and_its_result_may_come_in_one_request() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut batch = conversation("a1 \"one\" call=c\na2 \"two\" call=c");
    batch.push(answer("t1", "c", "first", "a1"));
    batch.push(answer("t2", "c", "second", "a2"));
    write(&test, &session, "importer", batch.clone()).await.expect("appended");
    write(&test, &session, "importer", batch).await.expect("there already");
    assert_eq!(outputs(&test.view(&session).await), expected(&[("one", &["first"]), ("two", &["second"])]));
    // Parts of an open message may do so too.
    append(&test, &session, "one", "a5 \"open\" open").await;
    let parts = [call("d"), naming("d", "fifth", "a5")].map(OpenPart::Whole).to_vec();
    test.by("one").messages().append_parts(&session, "a5", parts).await.expect("added");
    assert_eq!(outputs(&test.view(&session).await)[2], ("open".to_owned(), vec!["fifth".to_owned()]));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_name_without_such_a_call_is_refused_whole() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "a1 \"one\" call=c\nu2 \"two\"").await;
    let before = test.revision(&session).await;
    for (message, id, reason) in [
        ("a1", "other", Reason::CallNotFound),
        ("u2", "c", Reason::CallNotFound),
        ("nobody", "c", Reason::MessageNotFound),
        ("", "c", Reason::InvalidField),
    ] {
        let batch = vec![conversation("u9 \"beside it\"").remove(0), answer("t9", id, "x", message)];
        let refused = write(&test, &session, "one", batch).await.expect_err("refused");
        assert_eq!(refused.reason, reason, "{message} {id}");
        let parts = [naming(id, "x", message)];
        let refused = test.by("one").messages().edit(&session, "u2", &parts, None).await.expect_err("refused");
        assert_eq!(refused.reason, reason, "{message} {id}");
    }
    assert_eq!(test.revision(&session).await, before);
}

#[tokio::test]
async fn an_edit_of_a_message_with_calls_keeps_their_results() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "a1 \"one\" call=c").await;
    append(&test, &session, "two", "a2 \"two\" call=c").await;
    append(&test, &session, "one", "t1 result=c:first").await;
    write(&test, &session, "runner", vec![answer("t2", "c", "second", "a2")]).await.expect("appended");
    for (message, words) in [("a1", "uno"), ("a2", "dos"), ("a2", "deux")] {
        let parts = [text(words), call("c")];
        test.by("editor").messages().edit(&session, message, &parts, None).await.expect("edited");
    }
    assert_eq!(outputs(&test.view(&session).await), expected(&[("uno", &["first"]), ("deux", &["second"])]));
    // A result that names the edit answers the original's call, also if that is edited again.
    append(&test, &session, "one", "a3 \"three\" call=e").await;
    let edit =
        test.by("editor").messages().edit(&session, "a3", &[text("tres"), call("e")], None).await.expect("edited").ids
            [0];
    let edit = longhand::model::ids::MessageId(edit).to_string();
    write(&test, &session, "runner", vec![answer("t3", "e", "third", &edit)]).await.expect("appended");
    test.by("editor").messages().edit(&session, "a3", &[text("trois"), call("e")], None).await.expect("edited");
    assert_eq!(outputs(&test.view(&session).await)[2], ("trois".to_owned(), vec!["third".to_owned()]));
    assert_eq!(test.findings().await, []);
}

/// The outputs of the calls in the message with this text.
async fn answers_to(test: &TestApp, session: &str, words: &str) -> Vec<String> {
    let found = outputs(&test.view(session).await);
    found.into_iter().find(|(text, _)| text == words).map(|(_, outputs)| outputs).expect("it is in the view")
}

const INTERRUPTED: &str = "[Tool execution was interrupted]";

#[tokio::test]
async fn a_result_whose_call_was_rewound_answers_no_other_call() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "u1 \"go\"\na1 \"one\" call=c").await;
    append(&test, &session, "one", "a2 \"left\" call=c").await;
    append(&test, &session, "two", "a3 \"two\" call=c").await;
    test.by("one").messages().rewind(&session, "a1", None).await.expect("rewound");
    append(&test, &session, "three", "a4 \"three\" call=c").await;
    append(&test, &session, "two", "t3 result=c:of-two").await;
    append(&test, &session, "one", "t2 result=c:of-left").await;
    assert_eq!(answers_to(&test, &session, "one").await, [INTERRUPTED]);
    assert_eq!(answers_to(&test, &session, "three").await, [INTERRUPTED]);
    append(&test, &session, "one", "t1 result=c:of-one").await;
    assert_eq!(answers_to(&test, &session, "one").await, ["of-one"]);
    append(&test, &session, "runner", "t4 result=c:of-three").await;
    assert_eq!(answers_to(&test, &session, "three").await, ["of-three"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_result_whose_call_is_covered_answers_no_other_call() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "u1 \"go\"\na1 \"one\" call=c").await;
    append(&test, &session, "one", "u2 \"never mind\"\na3 \"well\"\nu4 \"on\"").await;
    let new = NewSummary { text: "What was said.".to_owned(), tail_start: "u4".to_owned(), ..NewSummary::default() };
    test.by("one").compactions().supply_summary(&session, new).await.expect("supplied");
    append(&test, &session, "two", "a5 \"two\" call=c").await;
    append(&test, &session, "one", "t1 result=c:of-one").await;
    assert_eq!(answers_to(&test, &session, "two").await, [INTERRUPTED]);
    append(&test, &session, "two", "t5 result=c:of-two").await;
    assert_eq!(answers_to(&test, &session, "two").await, ["of-two"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_pinned_call_keeps_its_result_and_takes_no_other() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "u1 \"go\"\na1 \"one\" call=c\nt1 result=c:first\na2 \"so\"\nu2 \"on\"").await;
    test.by("one").messages().pin(&session, "a1").await.expect("pinned");
    let new = NewSummary { text: "What was said.".to_owned(), tail_start: "u2".to_owned(), ..NewSummary::default() };
    test.by("one").compactions().supply_summary(&session, new).await.expect("supplied");
    assert_eq!(answers_to(&test, &session, "one").await, ["first"]);
    append(&test, &session, "one", "t3 result=c:again").await;
    assert_eq!(answers_to(&test, &session, "one").await, ["first"]);
}

#[tokio::test]
async fn calls_and_results_are_pinned_together_whichever_is_named() {
    let test = TestApp::start().await;
    for named in ["a1", "t1", "t2"] {
        let session = test.manual_session().await;
        let one = "u1 \"go\"\na1 \"one\" call=c call=d\nt1 result=c:of-c\nt2 result=d:of-d\na2 \"so\"";
        append(&test, &session, "one", &format!("{one} call=e\nt3 result=e:of-e\nu2 \"on\"")).await;
        let new =
            NewSummary { text: "What was said.".to_owned(), tail_start: "u2".to_owned(), ..NewSummary::default() };
        test.by("one").compactions().supply_summary(&session, new).await.expect("supplied");
        let alone = test.view(&session).await.messages;
        test.by("one").messages().pin(&session, named).await.expect("pinned");
        assert_eq!(answers_to(&test, &session, "one").await, ["of-c", "of-d"], "{named}");
        let pinned = test.revision(&session).await;
        test.by("one").messages().pin(&session, "t1").await.expect("pinned already");
        assert_eq!(test.revision(&session).await, pinned, "each is pinned once");
        test.by("one").messages().unpin(&session, "t2").await.expect("unpinned");
        assert_eq!(test.view(&session).await.messages, alone, "{named}");
        assert_eq!(test.findings().await, []);
    }
}

#[tokio::test]
async fn a_call_whose_result_was_rewound_waits_again_in_forks_too() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "u1 \"go\"\na1 \"one\" call=c\nt1 result=c:first\nu2 \"on\"").await;
    let at = ForkPoint { message_id: Some("a1".to_owned()), ..ForkPoint::default() };
    let behind = test.app.sessions().fork(&session, at, None, String::new()).await.expect("forked").answer;
    let whole = test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await;
    let (behind, whole) = (behind.0.session.id.to_string(), whole.expect("forked").0.session.id.to_string());
    test.by("one").messages().rewind(&whole, "a1", None).await.expect("rewound");
    test.by("one").messages().rewind(&session, "a1", None).await.expect("rewound");
    for session in [&behind, &whole, &session] {
        assert_eq!(answers_to(&test, session, "one").await, [INTERRUPTED]);
        append(&test, session, "one", "t2 result=c:second\na3 \"then\" call=c").await;
        append(&test, session, "one", "t3 result=c:third").await;
        assert_eq!(answers_to(&test, session, "one").await, ["second"]);
        assert_eq!(answers_to(&test, session, "then").await, ["third"]);
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_edited_result_answers_what_the_original_does() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "u1 \"go\"\na1 \"one\" call=c\nt1 result=c:first\na2 \"two\" call=c").await;
    test.by("editor").messages().edit(&session, "t1", &[result("c", "shorter")], None).await.expect("edited");
    assert_eq!(answers_to(&test, &session, "one").await, ["shorter"]);
    // A call added by an edit waits for its result.
    test.by("editor")
        .messages()
        .edit(&session, "a2", &[text("zwei"), call("c"), call("d")], None)
        .await
        .expect("edited");
    append(&test, &session, "one", "t2 result=d:of-d result=c:of-c").await;
    assert_eq!(answers_to(&test, &session, "zwei").await, ["of-c", "of-d"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_reader_sees_which_call_a_result_answers() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, "one", "a1 \"one\" call=c\na2 \"two\" call=d\nt1 result=c:first").await;
    let stored = test.history(&session).await;
    let PartBody::ToolResult(found) = &*stored[2].parts[0].body else { panic!("a result") };
    assert_eq!(found.answers, Answers::In(stored[0].id.to_string()));
}

/// A line of a conversation with two call ids.
fn line() -> impl Strategy<Value = String> {
    let id = || prop_oneof![2 => Just("c"), 1 => Just("d")];
    prop_oneof![
        2 => id().prop_map(|id| format!("a \"calls\" call={id}")),
        1 => (id(), id()).prop_map(|(one, two)| format!("a \"calls\" call={one} call={two}")),
        3 => id().prop_map(|id| format!("t result={id}:x")),
        1 => (id(), id()).prop_map(|(one, two)| format!("t result={one}:x result={two}:x")),
        1 => Just("u \"words\"".to_owned()),
    ]
}

/// The message of the call that each result answers: as the store found it, and by the rule for the whole history.
fn found_and_expected(history: &[Message]) -> (Vec<Option<String>>, Vec<Option<String>>) {
    let mut found = Vec::new();
    let mut sources: Vec<SourceMessage> = Vec::new();
    for message in history {
        let mut message = message.clone();
        for part in &mut message.parts {
            if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut part.body) {
                found.push(std::mem::take(&mut result.answers).message().map(str::to_owned));
            }
        }
        sources.push(SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None });
    }
    let calls = Calls::from_messages(&sources);
    let answered = calls.by_result();
    let parts = sources.iter().flat_map(|source| &source.message.parts);
    let results = parts.filter(|part| matches!(*part.body, PartBody::ToolResult(_)));
    let expected = results.map(|part| answered.get(&part.id).map(|called| called.source.message.id.to_string()));
    (found, expected.collect())
}

/// The inputs of the calls in the view, in its order.
async fn inputs(test: &TestApp, session: &str) -> Vec<String> {
    let view = test.view(session).await;
    let parts = view.messages.iter().flat_map(|message| &message.parts);
    let input = |part: &ViewPart| match &*part.body {
        PartBody::ToolCall(call) => Some(call.input_json.clone()),
        _ => None,
    };
    parts.filter_map(input).collect()
}

#[tokio::test]
async fn a_call_that_runs_keeps_its_input_and_no_other() {
    let long = format!("{{\"query\": \"{}\"}}", "word ".repeat(200));
    let test = TestApp::start().await;
    // Qwen-Agent truncates the first call that is larger than the excess.
    for (more, expected) in [
        ("t1 result=c:ok", ["{}", &long]),
        ("t1 result=d:ok", [&long, &long]),
        // The model has gone on without the results.
        ("u2 \"go on\"\na2 \"z\"", ["{}", &long]),
    ] {
        let limit = r#"{"auto": {"threshold": {"limit": {"tokens": 300}}}, "guards": {"minimum_gain_tokens": 1}}"#;
        let new = NewSession {
            preset: "qwen-agent@0.0.34".to_owned(),
            policy_override_json: limit.to_owned(),
            window: window(10_000, 1_000),
            ..NewSession::default()
        };
        let session = test.create(new).await;
        let mut messages = conversation("u1 \"x\"\na1 \"y\" call=c call=d");
        for part in &mut messages[1].parts {
            if let PartBody::ToolCall(call) = std::sync::Arc::make_mut(&mut part.body) {
                call.input_json.clone_from(&long);
            }
        }
        write(&test, &session, "one", messages).await.expect("appended");
        append(&test, &session, "one", more).await;
        test.settled().await;
        assert_eq!(inputs(&test, &session).await, expected, "{more}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_answers_the_call_of_the_rule_in_any_order_of_arrival() {
    let batches = prop::collection::vec((0_usize..3, prop::collection::vec(line(), 1..6)), 1..10);
    let config = Config { cases: cases(48), max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&(batches, any::<bool>()), |(batches, forks)| {
        block_on(async {
            let test = TestApp::start().await;
            let mut session = test.manual_session().await;
            for (number, (actor, lines)) in batches.iter().enumerate() {
                let actor = ["one", "two", "three"][*actor];
                let numbered = lines.iter().enumerate().map(|(line, line_text)| {
                    let (role, rest) = line_text.split_at(1);
                    format!("{role}{number}x{line}{rest}")
                });
                let talk: Vec<String> = numbered.collect();
                append(&test, &session, actor, &talk.join("\n")).await;
                if forks && number == batches.len() / 2 {
                    let at = ForkPoint::default();
                    let fork = test.app.sessions().fork(&session, at, None, String::new()).await;
                    session = fork.expect("forked").0.session.id.to_string();
                }
            }
            let (found, expected) = found_and_expected(&test.history(&session).await);
            prop_assert_eq!(found, expected);
            Ok(())
        })
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

//! Prompts with what belongs to the same change: a rewind before them, and the calls that their results answer.

use super::{acquire, ended, newest, prompt, queue, submit};
use crate::support::{TestApp, call, conversation, result, shown, text};
use longhand::app::append::RewindTo;
use longhand::app::prompts::{Delivery, NewPrompt, PromptChoice};
use longhand::app::{Caller, Error, Reason};
use longhand::model::event::{Event, EventKind};
use longhand::model::message::{FinishReason, Role};
use longhand::model::part::{Answers, NewPart, PartBody};
use longhand::model::run::RunEndReason;

fn again(words: &str, to: RewindTo<'static>) -> NewPrompt<'static> {
    NewPrompt { rewind: Some(to), ..prompt(words, Delivery::Queue) }
}

async fn refused(caller: &Caller, session: &str, new: NewPrompt<'_>) -> Error {
    caller.prompts().submit(session, new).await.expect_err("it is refused")
}

#[tokio::test]
async fn a_message_is_sent_again_in_one_change() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"first\"\nu2 \"two\"\na2 \"second\"").await;
    let waits = submit(&test.app, &session, "waits", Delivery::Queue).await;
    let run = acquire(&test.by("ada"), &session).await;
    let ada = test.by("ada").in_run(run.epoch);
    ada.messages().append(&session, conversation("a3 \"third\" call=c1 open"), None, None).await.expect("appended");
    let before = test.revision(&session).await;
    let pat = test.once("edit", "u2");
    let sent =
        pat.prompts().submit(&session, again("two, better", RewindTo::Message("a1"))).await.expect("it waits").answer;

    let events: Vec<Event> = test.events().await.into_iter().filter(|event| event.revision > before).collect();
    let kinds: Vec<EventKind> = events.iter().map(|event| event.body.kind()).collect();
    let all = [EventKind::MessageFinished, EventKind::RunEnded, EventKind::SessionRewound, EventKind::PromptSubmitted];
    assert_eq!(kinds, all);
    assert!(events.iter().rev().skip(1).all(|event| !event.ends_mutation), "one change");
    assert_eq!(shown(&test.view(&session).await), ["user shown: one", "assistant shown: first"]);
    assert_eq!(queue(&test, &session).await, [waits, sent.0.to_string()], "others keep their turn");
    // The run was at work on what is left out.
    assert_eq!(ended(&newest(&test, &session).await), Some(RunEndReason::Cancelled));
    assert_eq!(
        test.app.messages().get(&session, "a3").await.expect("kept").0.finish.reason,
        Some(FinishReason::Aborted)
    );
    let late =
        ada.messages().append(&session, conversation("a4 \"late\""), None, None).await.expect_err("its run is over");
    assert_eq!(late.reason, Reason::RunLost);

    let before = test.revision(&session).await;
    let repeated =
        test.once("edit", "u2").prompts().submit(&session, again("two, better", RewindTo::Message("a1"))).await;
    assert_eq!(repeated.expect("the first answer").answer, sent);
    assert_eq!(test.revision(&session).await, before, "nothing is left out twice");

    drop((ada, pat));
    let test = test.restart().await;
    assert_eq!(shown(&test.view(&session).await), ["user shown: one", "assistant shown: first"]);
    test.app.compactions().undo(&session, None).await.expect("undone");
    assert_eq!(shown(&test.view(&session).await).len(), 6, "history was kept, with a note for the call");
    test.app.compactions().redo(&session, None).await.expect("redone");
    let epoch = acquire(&test.app, &session).await.epoch;
    test.app.prompts().take(&session, epoch, PromptChoice::Named(&sent.0.to_string())).await.expect("taken");
    let view = shown(&test.view(&session).await);
    assert_eq!(view, ["user shown: one", "assistant shown: first", "user shown: two, better"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_prompt_may_begin_a_conversation_anew() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"first\"").await;
    let interrupting = NewPrompt { delivery: Delivery::Interrupt, ..again("anew", RewindTo::Start) };
    test.app.prompts().submit(&session, interrupting).await.expect("it waits");
    assert_eq!(shown(&test.view(&session).await), Vec::<String>::new());
    let taken = test.app.runs().acquire(&session, None, true).await.expect("acquired").prompt.expect("the prompt");
    assert_eq!(test.history(&session).await.last().map(|message| message.id), taken.message());
    assert_eq!(shown(&test.view(&session).await), ["user shown: anew"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_rewind_that_cannot_be_is_refused_with_its_prompt() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 call=c1\nu2 \"two\"\na2 \"be\" open").await;
    let read = test.revision(&session).await;
    test.app.messages().pin(&session, "u1").await.expect("pinned");
    let before = test.revision(&session).await;
    acquire(&test.app, &session).await;
    let stale = NewPrompt { expected_revision: Some(read), ..again("x", RewindTo::Start) };
    let plain = NewPrompt { expected_revision: Some(read), ..prompt("x", Delivery::Queue) };
    let future = NewPrompt { expected_revision: Some(read + 99), ..prompt("x", Delivery::Queue) };
    let both = NewPrompt { rewind: Some(RewindTo::Start), ..NewPrompt::from_parts(vec![result("c1", "x")]) };
    for (new, reason) in [
        (again("x", RewindTo::Message("nobody")), Reason::MessageNotFound),
        (again("x", RewindTo::Message("")), Reason::InvalidField),
        (again("x", RewindTo::Message("a2")), Reason::MessageOpen),
        (stale, Reason::RevisionMismatch),
        (plain, Reason::RevisionMismatch),
        (future, Reason::RevisionOutOfRange),
        (both, Reason::InvalidField),
    ] {
        assert_eq!(refused(&test.app, &session, new.clone()).await.reason, reason, "{new:?}");
    }
    assert_eq!(test.revision(&session).await, before + 1, "only the run began");
    assert_eq!(ended(&newest(&test, &session).await), None);
    // What is no change of history, such as the run, is none to the precondition.
    let read = NewPrompt { expected_revision: Some(before), ..again("x", RewindTo::Message("u1")) };
    test.app.prompts().submit(&session, read).await.expect("it waits");
    assert_eq!(test.findings().await, []);
}

fn naming(id: &str, output: &str, message: &str) -> NewPart {
    let mut part = result(id, output);
    if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut part.body) {
        result.answers = Answers::In(message.to_owned());
    }
    part
}

#[tokio::test]
async fn results_of_a_front_end_wait_for_a_run_that_goes_on_with_them() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.app.messages().append(&session, conversation("u1 \"where?\""), None, None).await.expect("appended");
    let reply = conversation("a1 \"I ask\" call=c1 call=c2");
    test.by("ada").messages().append(&session, reply, None, None).await.expect("appended");
    let asks = test.history(&session).await[1].id;
    let metadata_json = Some("{\"of\":\"the page\"}".to_owned());
    // One names its call, the other is paired when it is sent.
    let parts = vec![result("c1", "first"), naming("c2", "second", "a1")];
    let (sent, _) = test
        .by("pat")
        .prompts()
        .submit(&session, NewPrompt { metadata_json: metadata_json.clone(), ..NewPrompt::from_parts(parts) })
        .await
        .expect("they wait")
        .answer;
    let waiting = test.app.prompts().list(&session, false, 0, "").await.expect("the queue").0;
    for part in &waiting[0].parts {
        let PartBody::ToolResult(result) = &*part.body else { panic!("{part:?}") };
        assert_eq!(result.answers, Answers::In(asks.to_string()), "an answer knows its call");
    }
    assert!(shown(&test.view(&session).await)[2].contains("interrupted"), "a prompt is in no view");
    let words = submit(&test.app, &session, "and then?", Delivery::Queue).await;

    let test = test.restart().await;
    let acquired = test.by("bob").runs().acquire(&session, None, true).await.expect("acquired");
    assert_eq!(acquired.prompt.map(|taken| taken.id), Some(sent));
    let message = test.history(&session).await.pop().expect("their message");
    assert_eq!((message.role, message.actor.as_str()), (Role::Tool, "pat"));
    assert_eq!((message.id, message.metadata_json), (sent.message(), metadata_json));
    let view = shown(&test.view(&session).await);
    assert_eq!(view[2..], ["tool shown: result c1 first result c2 second"]);
    assert_eq!(queue(&test, &session).await, [words]);
    let copy = longhand_copy(&test, &session).await;
    assert_eq!(copy, view, "an archive has them");
    assert_eq!(test.findings().await, []);
}

/// The view of a session in a store to which it was copied.
async fn longhand_copy(test: &TestApp, session: &str) -> Vec<String> {
    use crate::archives::{export, import};
    let target = TestApp::start().await;
    import(&target.app, &export(&test.app, session).await.expect("exported")).await.expect("imported");
    assert_eq!(target.findings().await, []);
    shown(&target.view(session).await)
}

#[tokio::test]
async fn a_call_is_answered_by_one_prompt() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"where?\"\na1 call=c1\nt1 result=c1:here\na2 call=c1 call=c2").await;
    let before = test.revision(&session).await;
    let words = |id: &str| NewPrompt::from_parts(vec![result(id, "x")]);
    for (new, reason) in [
        (words("c9"), Reason::CallNotFound),
        (NewPrompt::from_parts(vec![naming("c9", "x", "a2")]), Reason::CallNotFound),
        (NewPrompt::from_parts(vec![naming("c1", "x", "nobody")]), Reason::MessageNotFound),
        (NewPrompt::from_parts(vec![naming("c1", "x", "a1")]), Reason::CallAnswered),
        (NewPrompt::from_parts(vec![result("c1", "x"), naming("c1", "y", "a2")]), Reason::CallAnswered),
        (NewPrompt::from_parts(vec![text("x"), result("c1", "x")]), Reason::InvalidField),
        (NewPrompt::from_parts(vec![result("c1", "x"), call("c3")]), Reason::InvalidField),
    ] {
        assert_eq!(refused(&test.app, &session, new.clone()).await.reason, reason, "{new:?}");
    }
    assert_eq!(test.revision(&session).await, before, "nothing was written");
    // Two pages have the result of one tool.
    let first = test.app.prompts().submit(&session, words("c1")).await.expect("it waits").answer.0.to_string();
    let answered = refused(&test.app, &session, words("c1")).await;
    assert_eq!((answered.reason, answered.metadata["call_id"].as_str()), (Reason::CallAnswered, "c1"));
    test.app.prompts().submit(&session, words("c2")).await.expect("the other call waits");
    // What is withdrawn answers nothing.
    test.app.prompts().withdraw(&session, &first).await.expect("withdrawn");
    test.app.prompts().submit(&session, words("c1")).await.expect("it waits");
    let epoch = acquire(&test.app, &session).await.epoch;
    for _ in 0..2 {
        test.app.prompts().take(&session, epoch, PromptChoice::First).await.expect("taken");
    }
    let named = NewPrompt::from_parts(vec![naming("c1", "x", "a2")]);
    assert_eq!(refused(&test.app, &session, named).await.reason, Reason::CallAnswered);
    assert_eq!(refused(&test.app, &session, words("c2")).await.reason, Reason::CallNotFound, "none waits");
    // A rewind behind the calls has them wait again, in a fork, too.
    let fork = test.app.sessions().fork(&session, longhand::app::sessions::ForkPoint::default(), None, String::new());
    let fork = fork.await.expect("forked").0.session.id.to_string();
    for session in [&fork, &session] {
        test.app.messages().rewind(session, "a2", None).await.expect("rewound");
        test.app
            .prompts()
            .submit(session, NewPrompt::from_parts(vec![naming("c2", "anew", "a2")]))
            .await
            .expect("it waits");
        test.app.runs().acquire(session, None, true).await.map(drop).or_else(busy).expect("acquired");
    }
    assert!(shown(&test.view(&fork).await).contains(&"tool shown: result c2 anew".to_owned()));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn results_for_what_a_rewind_leaves_out_are_withdrawn() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"where?\"\na1 call=c1\nu2 \"and?\"\na2 call=c2").await;
    let fork = test.app.sessions().fork(&session, longhand::app::sessions::ForkPoint::default(), None, String::new());
    let fork = fork.await.expect("forked").0.session.id.to_string();
    for session in [&session, &fork] {
        let mut ids = Vec::new();
        for call in ["c1", "c2"] {
            let sent = test
                .app
                .prompts()
                .submit(session, NewPrompt::from_parts(vec![result(call, "x")]))
                .await
                .expect("it waits")
                .answer;
            ids.push(sent.0.to_string());
        }
        ids.push(submit(&test.app, session, "words", Delivery::Queue).await);
        let before = test.revision(session).await;
        test.app.messages().rewind(session, "a1", None).await.expect("rewound");
        assert_eq!(queue(&test, session).await, [ids[0].clone(), ids[2].clone()], "the others stay");
        let key = session.parse().expect("an id");
        let events = test.events().await.into_iter().filter(|event| event.session_id == key);
        let kinds: Vec<(EventKind, bool)> = events
            .filter(|event| event.revision > before)
            .map(|event| (event.body.kind(), event.ends_mutation))
            .collect();
        assert_eq!(kinds, [(EventKind::PromptWithdrawn, false), (EventKind::SessionRewound, true)]);
        test.app.prompts().submit(session, again("anew", RewindTo::Start)).await.expect("it waits");
        assert_eq!(queue(&test, session).await.len(), 2, "the words, and the new ones");
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_prompt_takes_the_place_of_results_that_its_rewind_withdraws() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"where?\"\na1 call=c1").await;
    let first = submit(&test.app, &session, "first", Delivery::Steer).await;
    test.app.prompts().submit(&session, NewPrompt::from_parts(vec![result("c1", "x")])).await.expect("it waits");
    let last = submit(&test.app, &session, "last", Delivery::Queue).await;
    let steering = NewPrompt { delivery: Delivery::Steer, ..again("anew", RewindTo::Message("u1")) };
    let sent = test.app.prompts().submit(&session, steering).await.expect("it waits").answer.0.to_string();
    assert_eq!(queue(&test, &session).await, [first, sent, last], "behind what steers, before what queues");
    assert_eq!(test.findings().await, []);
}

/// The session's run is still there: its prompt waits.
fn busy(error: Error) -> Result<(), Error> {
    if error.reason == Reason::RunActive { Ok(()) } else { Err(error) }
}

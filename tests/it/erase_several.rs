//! Erasures of several messages at once, and erasures that expect a revision.

use crate::support::{TestApp, conversation, text, turns};
use longhand::app::erase::{EraseAnswer, EraseRequest, EraseTarget};
use longhand::app::sessions::ForkPoint;
use longhand::app::{Caller, Error, Reason};
use longhand::limits;
use longhand::model::Revision;
use longhand::model::event::{ErasedTarget, EventBody, EventKind};
use longhand::model::message::{Message, NewMessage, Role};

fn several(ids: &[&str]) -> EraseRequest {
    let target = EraseTarget::Messages(ids.iter().map(|id| (*id).to_owned()).collect());
    EraseRequest { target, reason: "keys were pasted".to_owned(), dry_run: false, expected_revision: None }
}

fn expecting(request: EraseRequest, revision: Revision) -> EraseRequest {
    EraseRequest { expected_revision: Some(revision), ..request }
}

async fn erase(caller: &Caller, session: &str, request: EraseRequest) -> Result<EraseAnswer, Error> {
    let erased = caller.content().erase(session, request).await;
    // What of a server or of a reader may still have bytes is not what these tests are about.
    erased.map(|erased| EraseAnswer { pending_files: Vec::new(), ..erased })
}

async fn refused(caller: &Caller, session: &str, request: EraseRequest) -> Reason {
    erase(caller, session, request).await.expect_err("refused").reason
}

/// The client ids of the messages that lost all their parts.
async fn gone(test: &TestApp, session: &str) -> Vec<String> {
    let is_gone = |message: &Message| message.parts.iter().all(|part| part.body.is_erased());
    let history = test.history(session).await;
    history.iter().filter(|message| is_gone(message)).filter_map(|message| message.client_id.clone()).collect()
}

#[tokio::test]
async fn several_messages_go_in_one_change_with_everything_that_replaced_them() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    test.app.messages().edit(&session, "u2", &[text("another text")], None).await.expect("edited");
    let before = test.revision(&session).await;
    let would = EraseRequest { dry_run: true, ..several(&["u2", "a4", "u1"]) };
    let would = erase(&test.app, &session, would).await.expect("a preview");
    let mut watch = test.watch().await;
    let once = || test.once("several", "u2 a4 u1");
    let erased = erase(&once(), &session, several(&["u2", "a4", "u1"])).await.expect("erased");
    assert_eq!(erased.sizes, would.sizes);
    assert_eq!((erased.sizes.messages, erased.existed), (4, false), "the edit of u2 goes too");
    assert_eq!(test.revision(&session).await, before + 1, "one event");
    let event = watch.wait_for(EventKind::Erased).await;
    assert_eq!(erased.event, Some((event.revision, event.seq)));
    let EventBody::Erased { target, messages, .. } = event.body else { panic!("an erasure") };
    assert_eq!((target, messages.len()), (ErasedTarget::Messages, 4));
    assert_eq!(gone(&test, &session).await, ["u1", "u2", "a4"]);
    // The same request, and others for the same.
    for (caller, ids) in
        [(once(), &["u2", "a4", "u1"][..]), (test.app.clone(), &["a4", "u1"]), (test.app.clone(), &["u2"])]
    {
        let again = erase(&caller, &session, several(ids)).await.expect("answered");
        assert_eq!(again, EraseAnswer { existed: true, ..erased.clone() });
    }
    // Of those that are partly gone, the rest goes; later the answer is that of the newest erasure.
    let rest = erase(&test.app, &session, several(&["u1", "u3"])).await.expect("erased");
    assert_eq!((rest.sizes.messages, rest.existed), (1, false));
    let again = erase(&test.app, &session, several(&["u1", "u3"])).await.expect("answered");
    assert_eq!(again, EraseAnswer { existed: true, ..rest });
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn several_messages_are_refused_as_a_whole() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 3, 100)).await;
    let before = test.revision(&session).await;
    assert_eq!(refused(&test.app, &session, several(&["u1", "u7"])).await, Reason::MessageNotFound);
    assert_eq!(refused(&test.app, &session, several(&[])).await, Reason::InvalidField);
    assert_eq!(refused(&test.app, &session, several(&["u1", ""])).await, Reason::InvalidField);
    let many = vec!["u1"; limits::ERASE_MESSAGES_MAX + 1];
    assert_eq!(refused(&test.app, &session, several(&many)).await, Reason::LimitExceeded);
    // A fork's own messages, or those of one session that it has them from.
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    let fork = fork.session.id.to_string();
    test.append(&fork, "u8 \"of the fork\"\na8 \"so is this\"").await;
    assert_eq!(refused(&test.app, &fork, several(&["u8", "u1"])).await, Reason::InvalidField);
    assert_eq!((gone(&test, &fork).await, test.revision(&session).await), (Vec::new(), before), "nothing is erased");
    let inherited = erase(&test.app, &fork, several(&["u1", "a2"])).await.expect("erased");
    assert_eq!((inherited.session.to_string(), inherited.sizes.forks), (session.clone(), 1));
    let own = erase(&test.app, &fork, several(&["u8", "a8"])).await.expect("erased");
    assert_eq!((own.session.to_string(), own.sizes.messages), (fork.clone(), 2));
    assert_eq!(gone(&test, &session).await, ["u1", "a2"]);
    assert_eq!(test.findings().await, []);
}

/// Their content counts as far as it is there.
#[tokio::test]
async fn several_messages_have_no_more_content_than_one_change_takes() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let part = 4 << 20;
    for id in ["u1", "u2", "u3", "u4"] {
        let mut message = conversation(&format!("{id} \"x\""));
        message[0].parts = vec![text(&"x".repeat(part))];
        test.app.messages().append(&session, message, None, None).await.expect("appended");
    }
    let all = several(&["u1", "u2", "u3", "u4"]);
    let would = EraseRequest { dry_run: true, ..all.clone() };
    for request in [would, all] {
        assert_eq!(refused(&test.app, &session, request).await, Reason::LimitExceeded);
    }
    let erased = erase(&test.app, &session, several(&["u1", "u3"])).await.expect("erased");
    assert_eq!(erased.sizes.messages, 2);
    let erased = erase(&test.app, &session, several(&["u1", "u2", "u3", "u4"])).await.expect("erased");
    assert_eq!(erased.sizes.messages, 2, "what is left is not too much");
}

#[tokio::test]
async fn an_erasure_is_refused_if_the_history_changed_after_the_expected_revision() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"a\"\na1 \"b\"\nu2 \"c\"").await;
    let seen = test.revision(&session).await;
    test.append(&session, "a2 \"meanwhile\"").await;
    let session_target = || EraseRequest { target: EraseTarget::Session, ..several(&[]) };
    let part = test.history(&session).await[0].parts[0].id;
    let part_target = || EraseRequest { target: EraseTarget::Part(part), ..several(&[]) };
    for request in [several(&["u1"]), several(&["u1", "u2"]), part_target(), session_target()] {
        let stale = expecting(request.clone(), seen);
        assert_eq!(refused(&test.app, &session, stale).await, Reason::RevisionMismatch);
        assert_eq!(refused(&test.app, &session, expecting(request, seen + 90)).await, Reason::RevisionOutOfRange);
    }
    assert_eq!(gone(&test, &session).await, Vec::<String>::new());
    // Labels and runs do not count, nor does what a dry run expects.
    let seen = test.revision(&session).await;
    test.app.sessions().add_label(&session, "keep".to_owned()).await.expect("added");
    test.app.runs().acquire(&session, None, false).await.expect("a run");
    let would = EraseRequest { dry_run: true, ..expecting(several(&["u1"]), 1) };
    erase(&test.app, &session, would).await.expect("a preview");
    let once = || test.once("expecting", "u1 u2");
    let erased = erase(&once(), &session, expecting(several(&["u1", "u2"]), seen)).await.expect("erased");
    // What is erased is answered whatever has changed, to the same request and to another one.
    for caller in [once(), test.app.clone()] {
        let again = erase(&caller, &session, expecting(several(&["u1", "u2"]), seen)).await.expect("answered");
        assert_eq!(again, EraseAnswer { existed: true, ..erased.clone() });
    }
    assert_eq!(refused(&test.app, &session, expecting(session_target(), seen)).await, Reason::RevisionMismatch);
    let head = test.revision(&session).await;
    let once = || test.once("expecting the session", "all of it");
    let erased = erase(&once(), &session, expecting(session_target(), head)).await.expect("erased");
    for caller in [once(), test.app.clone()] {
        let again = erase(&caller, &session, expecting(session_target(), head)).await.expect("answered");
        assert_eq!(again, EraseAnswer { existed: true, ..erased.clone() });
    }
    assert_eq!(test.findings().await, []);
}

/// A draft goes on while its eraser waits for its turn: what it has by then was not seen.
#[tokio::test]
async fn an_open_message_that_went_on_refuses_its_erasure_and_stays_open() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"a\"\na1 \"begin\" open").await;
    let seen = test.revision(&session).await;
    let more = vec![longhand::app::append::OpenPart::Whole(text("more"))];
    test.app.messages().append_parts(&session, "a1", more).await.expect("added");
    let request = || several(&["u1", "a1"]);
    assert_eq!(refused(&test.app, &session, expecting(request(), seen)).await, Reason::RevisionMismatch);
    assert_eq!(test.history(&session).await[1].sealed_revision, None);
    let now = test.revision(&session).await;
    erase(&test.app, &session, expecting(request(), now)).await.expect("erased");
    assert_eq!(gone(&test, &session).await, ["u1", "a1"]);
    assert_eq!(test.findings().await, []);
}

/// Who erases what is gone, and a message that nothing was written to yet, does not end that message.
#[tokio::test]
async fn an_open_message_without_content_stays_open() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"a\"").await;
    let begun = NewMessage {
        client_id: Some("a1".to_owned()),
        finish: None,
        ..NewMessage::sealed(Role::Assistant, Vec::new())
    };
    test.app.messages().append(&session, vec![begun], None, None).await.expect("begun");
    let erased = erase(&test.app, &session, several(&["u1"])).await.expect("erased");
    let again = erase(&test.app, &session, several(&["u1", "a1"])).await.expect("the same answer");
    assert_eq!((again.event, again.existed), (erased.event, true));
    assert_eq!(refused(&test.app, &session, several(&["a1"])).await, Reason::NothingToErase);
    assert_eq!(test.history(&session).await[1].sealed_revision, None);
    assert_eq!(test.revision(&session).await, erased.event.expect("an event").0);
    // Nor does who erases something else with it.
    test.append(&session, "u2 \"b\"").await;
    erase(&test.app, &session, several(&["u2", "a1"])).await.expect("erased");
    assert_eq!(test.history(&session).await[1].sealed_revision, None);
    assert_eq!(test.findings().await, []);
}

//! A dry run of an erasure says what the erasure says.

use crate::support::{TestApp, turns};
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::erase::{EraseAnswer, EraseRequest, EraseTarget, part_target};
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::{Caller, Error, Reason};
use longhand::limits;
use longhand::model::draft::DraftKind;
use longhand::model::ids::SessionId;
use longhand::model::session::SessionState;

fn request(target: EraseTarget) -> EraseRequest {
    EraseRequest { target, reason: "a key was pasted".to_owned(), dry_run: false, expected_revision: None }
}

fn messages(ids: &[&str]) -> EraseTarget {
    EraseTarget::Messages(ids.iter().map(|id| (*id).to_owned()).collect())
}

/// What both say besides the event that only one of them has.
fn said(answer: Result<EraseAnswer, Error>) -> Result<EraseAnswer, Reason> {
    let without_event = |erased| EraseAnswer { event: None, pending_files: Vec::new(), ..erased };
    answer.map(without_event).map_err(|error| error.reason)
}

/// Erases something after a dry run, which must have said the same and changed nothing.
async fn erase(test: &TestApp, session: &str, what: &str, target: EraseTarget) -> Result<EraseAnswer, Reason> {
    let events = test.number("select count(*) from event");
    let dry_run = EraseRequest { dry_run: true, ..request(target.clone()) };
    let would = said(test.app.content().erase(session, dry_run).await);
    assert_eq!(test.number("select count(*) from event"), events, "{what}: a dry run changes nothing");
    let erased = said(test.app.content().erase(session, request(target)).await);
    assert_eq!(would, erased, "{what}");
    erased
}

async fn draft(test: &TestApp, session: &str, client_id: &str, kind: DraftKind, delta: &str) -> String {
    let (client_id, delta) = (Some(client_id.to_owned()), delta.to_owned());
    let words = NewDraftText { part: None, client_id, kind, offset: 0, delta };
    test.app.messages().append_draft(session, "a9", words).await.expect("a draft").part.to_string()
}

/// A session with a branch that has a summary, a fork, and an open message with a part and drafts, also a large one.
async fn drafting(test: &TestApp) -> (String, String) {
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 300)).await;
    test.append(&session, "a9 open").await;
    let input = DraftKind::ToolInput { call_id: "c1".to_owned(), tool: "t".to_owned() };
    let part = draft(test, &session, "d1", DraftKind::Text, "some words").await;
    draft(test, &session, "d2", input, "{\"a\": 1").await;
    draft(test, &session, "d3", DraftKind::Reasoning, &"large ".repeat(limits::BLOB_BYTES_MIN)).await;
    test.app
        .sessions()
        .fork(&session, ForkPoint::default(), Some(format!("f{session}")), String::new())
        .await
        .expect("f");
    (session, part)
}

#[tokio::test]
async fn a_dry_run_counts_the_drafts_that_the_erasure_closes() {
    let test = TestApp::start().await;
    let (session, part) = drafting(&test).await;
    let alone = erase(&test, &session, "a draft", part_target(&part).expect("an id")).await;
    assert_eq!(alone.expect_err("it is no part yet"), Reason::MessageNotFound);

    let (session, _) = drafting(&test).await;
    let parts = vec![OpenPart::Whole(crate::support::text("a part"))];
    test.app.messages().append_parts(&session, "a9", parts).await.expect("added");
    let all = erase(&test, &session, "the message", messages(&["a9"])).await.expect("erased");
    assert_eq!(
        (all.sizes.messages, all.sizes.parts, all.sizes.blobs),
        (1, 4, 1),
        "no other session has the large text"
    );
    let again = erase(&test, &session, "again", messages(&["a9"])).await.expect("it was");
    assert_eq!(again, EraseAnswer { existed: true, ..all });

    let (session, _) = drafting(&test).await;
    let several = erase(&test, &session, "several", messages(&["u1", "a9", "u2"])).await.expect("erased");
    assert_eq!((several.sizes.messages, several.sizes.parts, several.existed), (3, 5, false));
    let whole = erase(&test, &session, "the session", EraseTarget::Session).await.expect("erased");
    assert_eq!((whole.sizes.forks, whole.existed), (1, false));
    let again = erase(&test, &session, "again", EraseTarget::Session).await.expect("it was");
    assert_eq!(again, EraseAnswer { existed: true, ..whole });
    let gone = erase(&test, &session, "a message of it", messages(&[&part_owner(&test, &session).await])).await;
    assert!(gone.expect("it was").existed);
    assert_eq!(test.findings().await, []);
}

/// The id of a message of a session.
async fn part_owner(test: &TestApp, session: &str) -> String {
    test.history(session).await[0].id.to_string()
}

#[tokio::test]
async fn a_dry_run_counts_what_was_derived_and_refuses_what_the_erasure_refuses() {
    let test = TestApp::start().await;
    for open in [false, true] {
        let session = test.manual_session().await;
        test.append(&session, &turns(1, 6, 400)).await;
        test.append(&session, "a9 open").await;
        draft(&test, &session, "d1", DraftKind::Text, "some words").await;
        let rewound = test.app.messages().rewind_with_summary(&session, "a3", "", None).await.expect("rewound");
        assert_eq!(rewound.ids.len(), 1, "the branch has a summary");
        let target = if open { messages(&["a9"]) } else { messages(&["u5"]) };
        let erased = erase(&test, &session, "a branch", target).await.expect("erased");
        assert_eq!((erased.sizes.messages, erased.sizes.summaries), (1, 1), "with the summary of its branch");
    }
    let session = test.manual_session().await;
    test.append(&session, "a8 open").await;
    let nothing = erase(&test, &session, "an empty message", messages(&["a8"])).await;
    assert_eq!(nothing, Err(Reason::NothingToErase));
    let missing = erase(&test, &session, "none", messages(&["u7"])).await;
    assert_eq!(missing, Err(Reason::MessageNotFound));
}

/// A session with the sessions that work for it, one below the other, and one beside them: their ids.
async fn family(test: &TestApp) -> Vec<SessionId> {
    let (mut ids, mut parent) = (Vec::new(), None);
    for name in ["top", "middle", "bottom"] {
        let new = NewSession { client_id: Some(name.to_owned()), parent: parent.clone(), ..NewSession::default() };
        let session = test.create(new).await;
        test.append(&session, &format!("u1 \"words of the {name}\"\na1 open")).await;
        ids.push(session.parse().expect("an id"));
        parent = Some(name.to_owned());
    }
    test.create(NewSession { client_id: Some("beside".to_owned()), ..NewSession::default() }).await;
    ids
}

#[tokio::test]
async fn the_erasure_of_a_session_names_those_of_sub_agents_and_takes_them_with_their_tree() {
    let test = TestApp::start().await;
    let ids = family(&test).await;
    let tree = async |caller: &Caller, dry_run| {
        let request = EraseRequest { dry_run, ..request(EraseTarget::Session) };
        said(caller.content().erase_tree("top", request).await)
    };
    let refused = test.app.content().erase_tree("top", request(messages(&["u1"]))).await;
    assert_eq!(said(refused), Err(Reason::InvalidField), "a message has no sub-agents");
    let staying = EraseRequest { dry_run: true, ..request(EraseTarget::Session) };
    let staying = said(test.app.content().erase("top", staying).await).expect("a preview");
    assert_eq!((staying.sizes.messages, &staying.sub_agents), (1, &ids[1..].to_vec()));

    let would = tree(&test.app, true).await.expect("a preview");
    assert_eq!((would.sizes.messages, &would.sub_agents, would.existed), (3, &ids[1..].to_vec(), false));
    let once = || test.once("tree", "top");
    let erased = said(once().content().erase_tree("top", request(EraseTarget::Session)).await).expect("erased");
    assert_eq!(erased, would);
    for id in &ids {
        assert_eq!(
            test.app.sessions().get(&id.to_string()).await.expect("it is there").session.state,
            SessionState::Erased
        );
    }
    assert_eq!(test.app.sessions().get("beside").await.expect("it is there").session.state, SessionState::Active);
    let events = test.number("select count(*) from event");
    let again = said(once().content().erase_tree(&ids[0].to_string(), request(EraseTarget::Session)).await);
    assert_eq!(again, Ok(EraseAnswer { existed: true, ..erased }));
    assert_eq!(test.number("select count(*) from event"), events, "nothing is erased twice");
    let late = NewSession { parent: Some(ids[0].to_string()), ..NewSession::default() };
    let late = test.app.sessions().create(late).await.map(drop).expect_err("it is erased");
    assert_eq!(late.reason, Reason::SessionErased, "nothing begins to work for it");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn those_of_sub_agents_that_stay_are_named_and_go_later() {
    let test = TestApp::start().await;
    let ids = family(&test).await;
    let erased = erase(&test, "top", "the session", EraseTarget::Session).await.expect("erased");
    assert_eq!((erased.sizes.messages, &erased.sub_agents), (1, &ids[1..].to_vec()));
    erase(&test, "middle", "a sub-agent's", EraseTarget::Session).await.expect("erased");
    let again = erase(&test, &ids[0].to_string(), "again", EraseTarget::Session).await.expect("it was");
    assert_eq!((again.existed, &again.sub_agents), (true, &ids[2..].to_vec()), "one is left");
    let rest =
        said(test.app.content().erase_tree(&ids[0].to_string(), request(EraseTarget::Session)).await).expect("erased");
    assert_eq!((rest.existed, rest.sizes.messages, &rest.sub_agents), (false, 3, &ids[1..].to_vec()));
}

//! Forks share history up to a point, and none after it.

use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, prunable, shown, text, turns, window, words_of};
use longhand::app::Reason;
use longhand::app::append::OpenPart;
use longhand::app::compactions::NewCompaction;
use longhand::app::events::ListEvents;
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::model::Revision;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;
use longhand::model::message::Finish;

async fn fork(test: &TestApp, session: &str, at: ForkPoint) -> String {
    let forked = test.app.sessions().fork(session, at, None, String::new()).await;
    forked.expect("forked").0.session.id.to_string()
}

fn behind(message: &str) -> ForkPoint {
    ForkPoint { message_id: Some(message.to_owned()), ..ForkPoint::default() }
}

fn at(revision: Revision) -> ForkPoint {
    ForkPoint { as_of_revision: Some(revision), ..ForkPoint::default() }
}

async fn names(test: &TestApp, session: &str) -> Vec<String> {
    test.history(session).await.into_iter().filter_map(|message| message.client_id).collect()
}

#[tokio::test]
async fn a_fork_has_the_history_up_to_its_point() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\" usage=5/1\nu2 \"three\"").await;
    let third = test.history(&session).await[2].revision;
    let by_message = fork(&test, &session, behind("a1")).await;
    let by_revision = fork(&test, &session, at(third)).await;
    let newest = fork(&test, &session, ForkPoint::default()).await;
    test.append(&session, "u3 \"later\"").await;
    assert_eq!(names(&test, &by_message).await, ["u1", "a1"]);
    assert_eq!(names(&test, &by_revision).await, ["u1", "a1", "u2"]);
    assert_eq!(names(&test, &newest).await, ["u1", "a1", "u2"], "what its parent goes on with is not its own");
    test.append(&by_message, "u2b \"another way\"").await;
    let deeper = fork(&test, &by_message, ForkPoint::default()).await;
    test.append(&deeper, "a2b \"and on\"").await;
    assert_eq!(names(&test, &deeper).await, ["u1", "a1", "u2b", "a2b"]);
    let sideways = fork(&test, &deeper, behind("u1")).await;
    assert_eq!(names(&test, &sideways).await, ["u1"]);
    assert_eq!(names(&test, &session).await, ["u1", "a1", "u2", "u3"]);
    assert_eq!(shown(&test.view(&deeper).await).len(), 4);
    // Messages and their ids are the same, by either id.
    let original = test.history(&session).await.remove(0);
    for id in [original.id.to_string(), "u1".to_owned()] {
        assert_eq!(test.app.messages().get(&deeper, &id).await.expect("inherited").0, original);
    }
    for unseen in ["u2", "u3"] {
        let error = test.app.messages().get(&deeper, unseen).await.expect_err("behind the fork");
        assert_eq!(error.reason, Reason::MessageNotFound);
    }
    let info = test.app.sessions().get(&deeper).await.expect("a session").session;
    assert_eq!(info.fork.expect("a fork").0.to_string(), by_message);
    assert_eq!(test.findings().await, []);
}

/// A fork or a rewind to any message shows a view that ends in it, also where the policy has left it out of the view.
#[tokio::test]
async fn every_message_that_a_compaction_left_out_can_be_gone_back_to() {
    let limit = r#"{"auto": {"threshold": {"limit": {"tokens": 700}}}}"#;
    for preset in ["joyagent", "qwen-agent@old", "qwen-agent@0.0.34", "suna@2025-07"] {
        let test = TestApp::start().await;
        let new = NewSession {
            preset: preset.to_owned(),
            policy_override_json: limit.to_owned(),
            window: window(100_000, 1_000),
            ..NewSession::default()
        };
        let session = test.create(new).await;
        for turn in 0..12 {
            test.append(&session, &format!("u{turn} 300c\na{turn} 300c")).await;
            test.settled().await;
        }
        let omitted = test.view(&session).await.omitted;
        assert!(!omitted.is_empty(), "{preset} left nothing out");
        let before = shown(&test.view(&session).await);
        for message in test.history(&session).await {
            let id = message.id.to_string();
            let fork = fork(&test, &session, behind(&id)).await;
            test.app.messages().rewind(&session, &id, None).await.expect("rewound");
            test.settled().await;
            for found in [test.view(&fork).await, test.view(&session).await] {
                let last = found.messages.last().and_then(|last| last.source);
                assert_eq!(last, Some(message.id), "{preset}: {:?}", message.client_id);
            }
            while shown(&test.view(&session).await) != before {
                test.app.compactions().undo(&session, None).await.expect("undone");
            }
        }
        assert_eq!(test.findings().await, []);
    }
}

#[tokio::test]
async fn a_fork_of_forks_reads_as_one_history() {
    let test = TestApp::start().await;
    let mut session = test.manual_session().await;
    let mut expected = Vec::new();
    for depth in 0..12 {
        let name = format!("u{depth}");
        // Every third segment has no messages.
        if depth % 3 != 2 {
            test.append(&session, &format!("{name} \"{depth}\"")).await;
            expected.push(name);
        }
        session = fork(&test, &session, ForkPoint::default()).await;
    }
    assert_eq!(names(&test, &session).await, expected);
    assert_eq!(shown(&test.view(&session).await).len(), expected.len());
    let list = ListEvents { session: Some(session.clone()), page_size: 3, ..ListEvents::default() };
    let mut revisions = Vec::new();
    let mut after = String::new();
    loop {
        let (events, next) = test.app.events().list(ListEvents { after, ..list.clone() }).await.expect("a page");
        revisions.extend(events.iter().map(|served| served.event.revision));
        if next.is_empty() {
            break;
        }
        after = next;
    }
    assert_eq!(revisions, (1..=test.revision(&session).await).collect::<Vec<_>>(), "one time axis");
    for at in 1..=test.revision(&session).await {
        assert_eq!(
            test.view_as_of(&session, at).await.messages.len(),
            test.history_as_of(&session, Some(at)).await.len()
        );
    }
}

#[tokio::test]
async fn open_messages_are_not_inherited() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"half\" open\nu2 \"two\"").await;
    let forked = fork(&test, &session, ForkPoint::default()).await;
    let part = vec![OpenPart::Whole(text("and the rest"))];
    test.app.messages().append_parts(&session, "a1", part).await.expect("added");
    test.app.messages().finish(&session, "a1", Finish::default(), None).await.expect("sealed");
    assert_eq!(names(&test, &forked).await, ["u1", "u2"]);
    assert_eq!(shown(&test.view(&forked).await), ["user shown: one", "user shown: two"]);
    let error = test.app.messages().get(&forked, "a1").await.expect_err("not inherited");
    assert_eq!(error.reason, Reason::MessageNotFound);
    let error = test.app.messages().finish(&forked, "a1", Finish::default(), None).await;
    assert_eq!(error.expect_err("not its own").reason, Reason::MessageNotFound);
    let sealed = fork(&test, &session, behind("a1")).await;
    assert_eq!(words_of(&test.history(&sealed).await[1]), "halfand the rest", "behind its seal it is whole");
}

#[tokio::test]
async fn a_fork_may_begin_only_where_its_parent_was() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let newest = test.append(&session, "u1 \"one\"\na1 open").await.revision;
    for (point, reason) in [
        (at(0), Reason::RevisionOutOfRange),
        (at(-1), Reason::RevisionOutOfRange),
        (at(newest + 1), Reason::RevisionOutOfRange),
        (behind("a1"), Reason::MessageOpen),
        (behind("nobody"), Reason::MessageNotFound),
        (ForkPoint { as_of_revision: Some(1), ..behind("u1") }, Reason::InvalidField),
    ] {
        let refused = test.app.sessions().fork(&session, point.clone(), None, String::new()).await;
        assert_eq!(refused.expect_err("refused").reason, reason, "{point:?}");
    }
    let again = |point| test.app.sessions().fork(&session, point, Some("f".to_owned()), String::new());
    let (first, existed) = again(at(2)).await.expect("forked").answer;
    assert!(!existed);
    let (second, existed) = again(at(2)).await.expect("found").answer;
    assert_eq!((second.session.id, existed), (first.session.id, true));
    for point in [at(1), ForkPoint::default(), behind("u1")] {
        assert_eq!(again(point).await.expect_err("another point").reason, Reason::ClientIdReused);
    }
    let title = "another title".to_owned();
    let other = test.app.sessions().fork(&session, at(2), Some("f".to_owned()), title).await;
    assert_eq!(other.expect_err("another title").reason, Reason::ClientIdReused);
    let made = NewSession { client_id: Some("f".to_owned()), ..NewSession::default() };
    let made = test.app.sessions().create(made).await.expect_err("a fork is there");
    assert_eq!(made.reason, Reason::ClientIdReused);
    test.app.sessions().archive(&session).await.expect("archived");
    fork(&test, &session, ForkPoint::default()).await;
}

#[tokio::test]
async fn marks_of_a_fork_do_not_affect_its_parent() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 50)).await;
    test.app.messages().pin(&session, "u1").await.expect("pinned");
    let before = test.view(&session).await;
    let forked = fork(&test, &session, ForkPoint::default()).await;
    assert_eq!(test.view(&forked).await.hash, before.hash, "it begins with its parent's view");
    let app = &test.app;
    app.messages().edit(&forked, "u2", &[text("better")], None).await.expect("edited");
    app.messages().unpin(&forked, "u1").await.expect("unpinned");
    app.messages().rewind(&forked, "a3", None).await.expect("rewound");
    assert_eq!(shown(&test.view(&forked).await)[2], "user shown: better");
    assert_eq!(shown(&test.view(&forked).await).len(), 6);
    assert_eq!(test.view(&session).await.hash, before.hash);
    app.messages().rewind(&session, "u1", None).await.expect("rewound");
    assert_eq!(shown(&test.view(&forked).await).len(), 6, "nor the other way round");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_inherited_compaction_can_be_undone_in_the_fork_alone() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Say("S1".to_owned())])).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let mut watch = test.watch().await;
    let whole = test.append(&session, &turns(1, 9, 1_100)).await.revision;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let compacted = test.view(&session).await.hash;
    let forked = fork(&test, &session, ForkPoint::default()).await;
    assert_eq!(test.view(&forked).await.hash, compacted);
    test.app.compactions().undo(&forked, None).await.expect("undone");
    assert_eq!(test.view(&forked).await.hash, test.view_as_of(&session, whole).await.hash);
    assert_eq!(test.view(&session).await.hash, compacted);
    // The fork is as full as its parent was then, and may be compacted at once, so that its first view is read.
    let earlier = fork(&test, &session, at(whole)).await;
    let begun = test.app.sessions().get(&earlier).await.expect("a session").session.fork.expect("a fork").1;
    assert!(test.view_as_of(&earlier, begun).await.covered.is_none(), "before the compaction there was none");
    test.settled().await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_inherited_prune_can_be_undone_in_the_fork_alone() {
    let test = TestApp::start().await;
    let session = prunable(&test).await;
    let whole = test.view(&session).await.hash;
    let mut watch = test.watch().await;
    let asked = test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Prune)).await;
    asked.expect("there is something to prune");
    watch.wait_for(EventKind::Compacted).await;
    let pruned = test.view(&session).await.hash;
    let forked = fork(&test, &session, ForkPoint::default()).await;
    let deeper = fork(&test, &forked, ForkPoint::default()).await;
    assert_eq!(test.view(&deeper).await.hash, pruned);
    test.app.compactions().undo(&deeper, None).await.expect("undone");
    assert_eq!(test.view(&deeper).await.hash, whole);
    for other in [&session, &forked] {
        assert_eq!(test.view(other).await.hash, pruned);
    }
    // A prune after the fork point is not visible in the fork.
    let point = test.history(&session).await.last().expect("messages").revision;
    let before = fork(&test, &session, at(point)).await;
    assert_eq!(test.view(&before).await.hash, whole);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_forks_chain_goes_on_from_its_parents() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 3, 20)).await;
    let forked = fork(&test, &session, behind("a2")).await;
    test.append(&session, "u9 \"later\"").await;
    test.append(&forked, "u9 \"elsewhere\"").await;
    let point = test.app.sessions().get(&forked).await.expect("a session").session.fork.expect("a fork").1;
    let head = async |session: &str, revision| {
        let at = [(session.to_owned(), revision)];
        test.app.daemon().list_heads(None, 0, "", &at).await.expect("heads").0.remove(0).hash.expect("a hash")
    };
    assert_eq!(head(&session, point).await, head(&forked, point).await);
    assert_ne!(head(&session, point + 1).await, head(&forked, point + 1).await);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_fork_has_the_policy_and_the_window_of_its_point() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 50_000, 1_000).await;
    let before = test.append(&session, "u1 \"one\"").await.revision;
    let change = SessionChange { preset: Some("pi@1.5".to_owned()), ..SessionChange::default() };
    test.app.sessions().update(&session, change).await.expect("changed");
    let info = |id: String| async { test.app.sessions().get(&{ id }).await.expect("a session") };
    let parent = info(session.clone()).await;
    let late = info(fork(&test, &session, ForkPoint::default()).await).await;
    assert_eq!((&late.policy_json, &late.session.window), (&parent.policy_json, &parent.session.window));
    let early = info(fork(&test, &session, at(before)).await).await;
    assert_eq!(early.session.preset, "opencode@seed");
    assert_ne!(early.policy_json, parent.policy_json);
}

#[tokio::test]
async fn a_fork_has_the_window_of_the_revision_that_it_begins_at() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 50_000, 1_000).await;
    let before = test.append(&session, "u1 \"one\"").await.revision;
    let other = |context| SessionChange { window: Some(window(context, 500)), ..SessionChange::default() };
    test.app.sessions().update(&session, other(70_000)).await.expect("changed");
    let early = fork(&test, &session, at(before)).await;
    let late = fork(&test, &session, ForkPoint::default()).await;
    let of_fork = fork(&test, &early, ForkPoint::default()).await;
    test.app.sessions().update(&session, other(90_000)).await.expect("changed again");
    test.app.sessions().update(&late, other(20_000)).await.expect("changed in the fork");
    for (id, context) in [(&session, 90_000), (&early, 50_000), (&of_fork, 50_000), (&late, 20_000)] {
        let info = test.app.sessions().get(id).await.expect("a session");
        assert_eq!((info.session.window.context, test.view(id).await.window_tokens), (context, context));
        assert_eq!(test.view_as_of(id, before).await.window_tokens, 50_000, "what is shared is as it was");
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_fork_knows_the_client_ids_that_it_inherited() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"\na0 \"half\" open\nu2 \"three\"").await;
    let forked = fork(&test, &session, behind("u2")).await;
    test.append(&session, "u3 \"later\"").await;
    let deeper = fork(&test, &forked, ForkPoint::default()).await;
    let original = test.history(&session).await;
    for session in [&forked, &deeper] {
        let again = test.append(session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"").await;
        assert_eq!(again.existed_count, 3);
        assert_eq!(again.ids, [0, 1, 3].map(|index: usize| original[index].id.0));
        assert_eq!(names(&test, session).await, ["u1", "a1", "u2"], "nothing is there twice");
        let other = conversation("a1 \"something else\"");
        let error = test.app.messages().append(session, other, None, None).await.expect_err("reused");
        assert_eq!(error.reason, Reason::ClientIdReused);
    }
    // Messages after the fork point, and messages open at it, are not part of its history.
    let fresh = test.append(&forked, "a0 \"mine\"\nu3 \"mine too\"").await;
    assert_eq!(fresh.existed_count, 0);
    assert_eq!(names(&test, &forked).await, ["u1", "a1", "u2", "a0", "u3"]);
    assert_eq!(test.findings().await, []);
}

//! Undo and redo: every change of the view can be undone and redone, byte for byte.

use crate::support::{Line, ScriptedSummarizer, TestApp, shown, text, turns};
use longhand::app::Reason;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::ForkPoint;
use longhand::app::undo::ReversedChange;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::{EventBody, EventKind, Rewrite, RewriteOf};

async fn supply(test: &TestApp, session: &str, summary: &str, tail_start: &str) {
    let new = NewSummary { text: summary.to_owned(), tail_start: tail_start.to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(session, new).await.expect("supplied");
}

async fn undo(test: &TestApp, session: &str) -> ReversedChange {
    test.app.compactions().undo(session, None).await.expect("undone").0
}

async fn redo(test: &TestApp, session: &str) -> ReversedChange {
    test.app.compactions().redo(session, None).await.expect("redone").0
}

async fn refused_redo(test: &TestApp, session: &str) -> longhand::app::Error {
    test.app.compactions().redo(session, None).await.expect_err("refused")
}

/// A session that was pruned, compacted, edited, rewound and compacted again; and the hashes of its views, that of the
/// original view first.
async fn changed(test: &TestApp) -> (String, Vec<[u8; 32]>) {
    let session = crate::support::prunable(test).await;
    let mut watch = test.watch().await;
    let mut hashes = vec![test.view(&session).await.hash];
    let app = &test.app;
    app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Prune)).await.expect("something to prune");
    watch.wait_for(EventKind::Compacted).await;
    hashes.push(test.view(&session).await.hash);
    supply(test, &session, "the beginning", "u2").await;
    hashes.push(test.view(&session).await.hash);
    app.messages().edit(&session, "u3", &[text("in other words")], None).await.expect("edited");
    hashes.push(test.view(&session).await.hash);
    app.messages().rewind(&session, "ax5", None).await.expect("rewound");
    hashes.push(test.view(&session).await.hash);
    supply(test, &session, "more of it", "u4").await;
    hashes.push(test.view(&session).await.hash);
    assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]), "every change shows");
    (session, hashes)
}

fn kind(reversed: &ReversedChange) -> &'static str {
    match reversed {
        ReversedChange::Compaction(compaction) if compaction.request.kind == CompactionKind::Prune => "prune",
        ReversedChange::Compaction(_) => "compaction",
        ReversedChange::Rewrite(Rewrite { of: RewriteOf::Edit(_), .. }) => "edit",
        ReversedChange::Rewrite(Rewrite { of: RewriteOf::Rewind, .. }) => "rewind",
        ReversedChange::Rewrite(Rewrite { of: RewriteOf::Words(_), .. }) => "words",
    }
}

#[tokio::test]
async fn every_change_is_taken_back_and_brought_back_byte_for_byte() {
    let test = TestApp::start().await;
    let (session, hashes) = changed(&test).await;
    for _ in 0..2 {
        let mut kinds = Vec::new();
        for before in hashes.iter().rev().skip(1) {
            kinds.push(kind(&undo(&test, &session).await));
            assert_eq!(&test.view(&session).await.hash, before, "behind {kinds:?}");
        }
        assert_eq!(kinds, ["compaction", "rewind", "edit", "compaction", "prune"]);
        let error = test.app.compactions().undo(&session, None).await.expect_err("that was all");
        assert_eq!(error.reason, Reason::NothingToUndo);
        let mut kinds = Vec::new();
        for after in &hashes[1..] {
            kinds.push(kind(&redo(&test, &session).await));
            assert_eq!(&test.view(&session).await.hash, after, "behind {kinds:?}");
        }
        assert_eq!(kinds, ["prune", "compaction", "edit", "rewind", "compaction"]);
        assert_eq!(refused_redo(&test, &session).await.reason, Reason::NothingToRedo);
    }
    assert_eq!(test.findings().await, []);
    let test = test.restart().await;
    undo(&test, &session).await;
    assert_eq!(test.view(&session).await.hash, hashes[4], "the marks say it all");
}

#[tokio::test]
async fn a_request_that_is_repeated_later_is_answered_as_it_was_then() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    let summary =
        || NewSummary { text: "the beginning".to_owned(), tail_start: "u3".to_owned(), ..NewSummary::default() };
    let supplied =
        test.once("supply", "s").compactions().supply_summary(&session, summary()).await.expect("supplied").answer;
    let undone = test.once("undo", "u").compactions().undo(&session, None).await.expect("undone");
    let redone = test.once("redo", "r").compactions().redo(&session, None).await.expect("redone");
    for last in ["nothing", "undone once more", "redone once more", "its tail's start was rewound"] {
        match last {
            "undone once more" => drop(undo(&test, &session).await),
            "redone once more" => drop(redo(&test, &session).await),
            "its tail's start was rewound" => {
                drop(test.app.messages().rewind(&session, "u2", None).await.expect("rewound"));
            }
            _ => {}
        }
        assert_eq!(test.once("undo", "u").compactions().undo(&session, None).await.expect("again"), undone, "{last}");
        assert_eq!(test.once("redo", "r").compactions().redo(&session, None).await.expect("again"), redone, "{last}");
        let again =
            test.once("supply", "s").compactions().supply_summary(&session, summary()).await.expect("again").answer;
        assert_eq!(again, supplied, "{last}");
    }
}

#[tokio::test]
async fn events_and_the_list_of_compactions_include_undo_and_redo() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    let original = test.app.messages().get(&session, "u4").await.expect("a message").0.id;
    test.app.messages().edit(&session, "u4", &[text("better")], None).await.expect("edited");
    let mark = test.revision(&session).await;
    supply(&test, &session, "the beginning", "u3").await;
    let listed = async || {
        let (mut page, _) = test.app.compactions().list(&session, 0, "").await.expect("a page");
        page.remove(0)
    };
    let compaction = listed().await.id;
    let mut compactions = Vec::new();
    for reverse in [true, true, false, false, true] {
        let reversed = if reverse { undo(&test, &session).await } else { redo(&test, &session).await };
        let at = test.revision(&session).await;
        if let ReversedChange::Compaction(found) = reversed {
            assert_eq!((found.id, found.undone_revision), (compaction, reverse.then_some(at)));
            assert_eq!(listed().await, *found);
        }
        compactions.push(test.events().await.pop().expect("an event").body);
    }
    let edit = Rewrite { mark, of: RewriteOf::Edit(original) };
    assert_eq!(
        compactions,
        [
            EventBody::CompactionUndone { compaction },
            EventBody::RewriteUndone(edit),
            EventBody::RewriteRedone(edit),
            EventBody::CompactionRedone { compaction },
            EventBody::CompactionUndone { compaction },
        ]
    );
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn later_messages_follow_what_an_undo_or_a_redo_brings_back() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"\na2 \"four\"").await;
    test.app.messages().rewind(&session, "a1", None).await.expect("rewound");
    test.append(&session, "u3 \"five\"").await;
    undo(&test, &session).await;
    let words = |lines: Vec<String>| -> Vec<String> {
        lines.iter().filter_map(|line| line.rsplit(' ').next().map(str::to_owned)).collect()
    };
    assert_eq!(words(shown(&test.view(&session).await)), ["one", "two", "three", "four", "five"]);
    test.append(&session, "a3 \"six\"").await;
    redo(&test, &session).await;
    assert_eq!(words(shown(&test.view(&session).await)), ["one", "two", "five", "six"]);
}

#[tokio::test]
async fn a_change_behind_an_undo_makes_redo_impossible() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    assert_eq!(refused_redo(&test, &session).await.reason, Reason::NothingToRedo);
    supply(&test, &session, "the beginning", "u3").await;
    undo(&test, &session).await;
    test.append(&session, "u5 \"go on\"").await;
    test.app.messages().pin(&session, "u1").await.expect("pinned");
    test.app.messages().edit(&session, "u5", &[text("go on then")], None).await.expect("edited");
    let edit = test.revision(&session).await;
    let error = refused_redo(&test, &session).await;
    assert_eq!(error.reason, Reason::RedoOvertaken);
    assert_eq!(error.metadata.get("revision"), Some(&edit.to_string()));
    assert_eq!(test.revision(&session).await, edit, "nothing was written");
    undo(&test, &session).await;
    assert_eq!(kind(&redo(&test, &session).await), "edit", "what came since can itself be brought back");
    assert_eq!(refused_redo(&test, &session).await.reason, Reason::RedoOvertaken);
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_answered_as_before() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    test.app.messages().edit(&session, "u1", &[text("better")], None).await.expect("edited");
    supply(&test, &session, "the beginning", "u3").await;
    let before = test.revision(&session).await;
    let undone = test.once("undo", "1").compactions().undo(&session, Some(before)).await.expect("undone");
    let again = test.once("undo", "1").compactions().undo(&session, Some(before)).await.expect("answered");
    assert_eq!(again, undone);
    assert_eq!(test.revision(&session).await, before + 1);
    let error = test.app.compactions().redo(&session, Some(before)).await.expect_err("history changed");
    assert_eq!(error.reason, Reason::RevisionMismatch);
    let redone = test.once("redo", "2").compactions().redo(&session, None).await.expect("redone");
    assert_eq!(test.once("redo", "2").compactions().redo(&session, None).await.expect("answered"), redone);
    assert_eq!(test.revision(&session).await, before + 2);
}

/// A session over its threshold that was compacted once.
async fn edited_behind_a_compaction(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    session
}

fn begun(events: &[longhand::model::event::Event]) -> usize {
    events.iter().filter(|event| event.body.kind() == EventKind::CompactionStarted).count()
}

#[tokio::test]
async fn automatic_compactions_wait_behind_every_kind_of_undo() {
    let lines = ["S1", "S2"].map(|text| Line::Say(text.to_owned()));
    let test = TestApp::with(ScriptedSummarizer::new(lines)).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 8, 1_100)).await;
    test.settled().await;
    // The rewound messages would exceed the threshold, and undoing the rewind does not make a compaction due at once.
    test.app.messages().rewind(&session, "u1", None).await.expect("rewound");
    test.append(&session, "a10 3000c").await;
    test.settled().await;
    undo(&test, &session).await;
    assert!(test.view(&session).await.estimated_tokens > 5_000, "the test needs it to be due");
    test.append(&session, "a11 \"more\"").await;
    test.settled().await;
    assert_eq!(begun(&test.events().await), 0);
    let mut watch = test.watch().await;
    test.append(&session, "u12 \"go on\"").await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_redo_of_everything_leaves_nothing_to_wait_for() {
    let lines = ["S1", "S2"].map(|text| Line::Say(text.to_owned()));
    let test = TestApp::with(ScriptedSummarizer::new(lines)).await;
    let session = edited_behind_a_compaction(&test).await;
    test.app.messages().edit(&session, "u9", &[text("better")], None).await.expect("edited");
    test.settled().await;
    undo(&test, &session).await;
    undo(&test, &session).await;
    redo(&test, &session).await;
    test.settled().await;
    test.append(&session, "a10 9000c\na11 9000c").await;
    test.settled().await;
    assert_eq!(begun(&test.events().await), 1, "the edit is still taken back");
    redo(&test, &session).await;
    let mut watch = test.watch().await;
    watch.wait_for(EventKind::CompactionStarted).await;
    watch.wait_for(EventKind::CompactionStarted).await;
    test.settled().await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn inherited_changes_are_taken_back_and_brought_back_in_the_fork_alone() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 100)).await;
    let whole = test.view(&session).await.hash;
    test.app.messages().edit(&session, "u2", &[text("better")], None).await.expect("edited");
    let edited = test.view(&session).await.hash;
    test.app.messages().rewind(&session, "a3", None).await.expect("rewound");
    let rewound = test.view(&session).await.hash;
    let fork = async |of: &str| {
        let forked = test.app.sessions().fork(of, ForkPoint::default(), None, String::new()).await;
        forked.expect("a fork").0.session.id.to_string()
    };
    let forked = fork(&session).await;
    assert_eq!(kind(&undo(&test, &forked).await), "rewind");
    assert_eq!(test.view(&forked).await.hash, edited);
    assert_eq!(kind(&undo(&test, &forked).await), "edit");
    assert_eq!(test.view(&forked).await.hash, whole);
    assert_eq!(test.view(&session).await.hash, rewound, "the parent keeps what it did");
    // A change that the parent undid can be redone in a fork of it, and only there.
    undo(&test, &session).await;
    let later = fork(&session).await;
    assert_eq!(kind(&redo(&test, &later).await), "rewind");
    assert_eq!(test.view(&later).await.hash, rewound);
    assert_eq!(test.view(&session).await.hash, edited);
    redo(&test, &forked).await;
    assert_eq!(test.view(&forked).await.hash, edited);
    assert_eq!(test.findings().await, []);
}

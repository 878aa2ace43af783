//! Summaries by hand that say where their tail starts.

use crate::support::{Line, ScriptedSummarizer, TestApp, once, shown, text, turns};
use longhand::app::Reason;
use longhand::app::compactions::Wanted;
use longhand::model::compaction::{CompactionKind, CompactionState};
use longhand::model::event::EventKind;
use longhand::store::Caller;

fn from(tail_start: &str) -> Wanted {
    Wanted { tail_start: tail_start.to_owned(), ..Wanted::of(CompactionKind::Summary) }
}

#[tokio::test]
async fn a_summary_by_hand_ends_where_it_is_told_to() {
    let script = ScriptedSummarizer::new(["S1", "S2"].map(|text| Line::Say(text.to_owned())));
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    test.app.edit(&session, "u5", &[text("in other words")], None, Caller::default()).await.expect("edited");
    let mut watch = test.watch().await;
    for (tail_start, summary, first) in
        [("a2", "s1", "assistant shown: a2 was here and"), ("u5", "s2", "user shown: in other words")]
    {
        let planned = test.app.plan_compaction(&session, &from(tail_start)).await.expect("a plan");
        let started =
            test.app.start_compaction(&session, from(tail_start), once(tail_start, "")).await.expect("started");
        watch.wait_for(EventKind::Compacted).await;
        test.settled().await;
        let lines = shown(&test.context(&session).await);
        assert_eq!(lines[1..3], [format!("assistant summary: {summary}"), first.to_owned()], "{lines:?}");
        let outcome = test.app.get_compaction(&started.0.id.to_string()).await.expect("done").outcome.expect("done");
        assert_eq!((planned.covered, planned.tail_start), (outcome.covered, outcome.tail_start), "as it was planned");
        // Sent again, it is answered as before, although the message starts the tail already.
        let again =
            test.app.start_compaction(&session, from(tail_start), once(tail_start, "")).await.expect("answered");
        assert_eq!((again.0.id, again.0.state), (started.0.id, CompactionState::Done));
    }
    assert_eq!(script.asked().iter().map(|input| input.messages.len()).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(shown(&test.context(&session).await).len(), 2 + 4, "nothing else is covered");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_tail_that_cannot_start_there_is_refused() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 3, 1_100)).await;
    test.append(&session, "u4 \"go\"\na4 call=c4\nu5 \"wait\"\nt5 result=c4:ok\na5 \"so\"").await;
    test.append(&session, "u6 \"on\"\na6 call=c6\nu7 \"wait\"\nr1 \"{}\"").await;
    let before = test.revision(&session).await;
    let prune = Wanted { tail_start: "u2".to_owned(), ..Wanted::of(CompactionKind::Prune) };
    for (wanted, reason) in [
        (from("nobody"), Reason::MessageNotFound),
        (from("u1"), Reason::NothingToCompact),
        (from("u5"), Reason::BoundaryInvalid),
        (from("u7"), Reason::BoundaryInvalid),
        (from("r1"), Reason::BoundaryInvalid),
        (prune, Reason::InvalidField),
    ] {
        let refused = test.app.start_compaction(&session, wanted.clone(), Caller::default()).await;
        assert_eq!(refused.expect_err("refused").reason, reason, "{wanted:?}");
    }
    assert_eq!(test.revision(&session).await, before);
    test.app.rewind(&session, "a2", None, Caller::default()).await.expect("rewound");
    let refused = test.app.start_compaction(&session, from("u3"), Caller::default()).await;
    assert_eq!(refused.expect_err("it is rewound").reason, Reason::BoundaryInvalid);
}

#[tokio::test]
async fn requests_for_different_tails_are_not_the_same() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    let start = async |tail_start: &str| {
        let (compaction, joined) =
            test.app.start_compaction(&session, from(tail_start), Caller::default()).await.expect("started");
        (compaction.id, joined)
    };
    let (first, _) = start("u3").await;
    script.held().await;
    assert_eq!(start("u3").await, (first, true));
    let (other, joined) = start("u5").await;
    assert!(other != first && !joined);
    let mut watch = test.watch().await;
    script.release();
    watch.wait_for(EventKind::Compacted).await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    assert_eq!(shown(&test.context(&session).await).len(), 2 + 4);
}

#[tokio::test]
async fn a_tail_that_is_gone_when_its_turn_comes_is_left_alone() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    let start = async |tail_start: &str| {
        test.app.start_compaction(&session, from(tail_start), Caller::default()).await.expect("started").0.id
    };
    start("u3").await;
    script.held().await;
    let late = start("u5").await;
    test.app.rewind(&session, "a3", None, Caller::default()).await.expect("rewound");
    script.release();
    test.settled().await;
    let late = test.app.get_compaction(&late.to_string()).await.expect("a compaction");
    assert_eq!(late.state, CompactionState::Cancelled);
    assert_eq!(late.failure.expect("a reason").reason, "NOTHING_TO_COMPACT");
    assert_eq!(shown(&test.context(&session).await).len(), 2 + 2, "the first one holds");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_pinned_part_stays_in_view_with_its_message() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Say("S1".to_owned())])).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    let history = test.history(&session).await;
    let message = history.iter().find(|message| message.client_id.as_deref() == Some("u2")).expect("u2");
    let part = message.parts[0].id.to_string();
    let pin = async |part: &str, unpin| test.app.pin(&session, part, unpin, Caller::default()).await;
    pin(&part, false).await.expect("pinned");
    test.app.start_compaction(&session, from("u5"), Caller::default()).await.expect("started");
    test.settled().await;
    let shows = async || test.context(&session).await.messages.iter().any(|shown| shown.source == Some(message.id));
    assert!(shows().await, "beside the summary that covers what is around it");
    pin(&part, true).await.expect("unpinned");
    assert!(!shows().await);
    let error = pin("prt_00000000000000000000000000000001", false).await.expect_err("of no message");
    assert_eq!(error.reason, Reason::MessageNotFound);
}

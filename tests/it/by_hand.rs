//! Summaries by hand of a chosen range.

use crate::support::{Line, ScriptedSummarizer, TestApp, shown, text, turns};
use longhand::app::Reason;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::model::compaction::{CompactionKind, CompactionState};
use longhand::model::event::EventKind;

fn from(tail_start: &str) -> NewCompaction {
    NewCompaction { tail_start: tail_start.to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) }
}

#[tokio::test]
async fn a_summary_by_hand_ends_where_requested() {
    let script = ScriptedSummarizer::new(["S1", "S2"].map(|text| Line::Say(text.to_owned())));
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    test.app.messages().edit(&session, "u5", &[text("in other words")], None).await.expect("edited");
    let mut watch = test.watch().await;
    for (tail_start, summary, first) in
        [("a2", "s1", "assistant shown: a2 was here and"), ("u5", "s2", "user shown: in other words")]
    {
        let planned = test.app.compactions().plan(&session, &from(tail_start)).await.expect("a plan");
        let started =
            test.once(tail_start, "").compactions().start(&session, from(tail_start)).await.expect("started").answer;
        watch.wait_for(EventKind::Compacted).await;
        test.settled().await;
        // Behind a summary in the assistant's words, somebody asks for a reply.
        let is_own = |line: &String| !line.starts_with("user filler");
        let lines: Vec<String> = shown(&test.view(&session).await).into_iter().filter(is_own).collect();
        assert_eq!(lines[1..3], [format!("assistant summary: {summary}"), first.to_owned()], "{lines:?}");
        let outcome = test.app.compactions().get(&started.0.id.to_string()).await.expect("done").outcome.expect("done");
        assert_eq!((planned.covered, planned.tail_start), (outcome.covered, outcome.tail_start), "as it was planned");
        // A repeated request gets the same answer, although the tail already begins at the message.
        let again =
            test.once(tail_start, "").compactions().start(&session, from(tail_start)).await.expect("answered").answer;
        assert_eq!((again.0.id, again.0.state), (started.0.id, CompactionState::Done));
    }
    assert_eq!(script.asked().iter().map(|input| input.messages.len()).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(shown(&test.view(&session).await).len(), 2 + 4, "nothing else is covered");
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
    let prune = NewCompaction { tail_start: "u2".to_owned(), ..NewCompaction::of_kind(CompactionKind::Prune) };
    for (wanted, reason) in [
        (from("nobody"), Reason::MessageNotFound),
        (from("u1"), Reason::NothingToCompact),
        (from("u5"), Reason::BoundaryInvalid),
        (from("u7"), Reason::BoundaryInvalid),
        (from("r1"), Reason::BoundaryInvalid),
        (prune, Reason::InvalidField),
        (within("nobody", ""), Reason::MessageNotFound),
        (within("u5", "u6"), Reason::BoundaryInvalid),
        (within("u3", "u2"), Reason::NothingToCompact),
        (within("u3", "u3"), Reason::NothingToCompact),
    ] {
        let refused = test.app.compactions().start(&session, wanted.clone()).await;
        assert_eq!(refused.expect_err("refused").reason, reason, "{wanted:?}");
    }
    assert_eq!(test.revision(&session).await, before);
    test.app.messages().rewind(&session, "a2", None).await.expect("rewound");
    let refused = test.app.compactions().start(&session, from("u3")).await;
    assert_eq!(refused.expect_err("it is rewound").reason, Reason::BoundaryInvalid);
}

fn within(head_start: &str, tail_start: &str) -> NewCompaction {
    NewCompaction { head_start: head_start.to_owned(), ..from(tail_start) }
}

#[tokio::test]
async fn messages_before_a_summary_by_hand_stay() {
    let script = ScriptedSummarizer::new(["S1", "S2"].map(|text| Line::Say(text.to_owned())));
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    test.app.messages().edit(&session, "u1", &[text("in other words")], None).await.expect("edited");
    let before = shown(&test.view(&session).await);
    let planned = test.app.compactions().plan(&session, &within("u2", "u5")).await.expect("a plan");
    let (started, _) = test.app.compactions().start(&session, within("u2", "u5")).await.expect("started").answer;
    test.settled().await;
    let lines = shown(&test.view(&session).await);
    let expected = [&before[..2], &lines[2..4], &before[8..]].concat();
    assert_eq!((lines.clone(), lines[3].as_str()), (expected, "assistant summary: s1"));
    let done = test.app.compactions().get(&started.id.to_string()).await.expect("done");
    let outcome = done.outcome.expect("an outcome");
    assert_eq!((outcome.covered.clone(), outcome.covered_count), (planned.covered, planned.covered_count));
    assert_eq!((outcome.covered_count, planned.retained.len()), (8, 2), "what stays is covered as well");
    let asked = script.asked();
    let first = asked[0].messages.first().and_then(|source| source.message.client_id.clone());
    assert_eq!((asked[0].messages.len(), first.as_deref()), (6, Some("u2")), "nobody tells of what stays");

    // The next summary covers everything.
    let again = test.app.compactions().start(&session, within("u5", "u6")).await;
    assert_eq!(again.expect_err("there is a summary").reason, Reason::BoundaryInvalid);
    test.app.compactions().start(&session, from("u6")).await.expect("started");
    test.settled().await;
    assert_eq!(script.asked()[1].messages.len(), 4, "two that stayed, and two more");
    assert_eq!(shown(&test.view(&session).await).len(), 2 + 2);
    assert_eq!(test.findings().await, []);
    for _ in 0..2 {
        test.app.compactions().undo(&session, None).await.expect("undone");
    }
    assert_eq!(shown(&test.view(&session).await), before);
}

#[tokio::test]
async fn pins_in_front_of_a_summary_by_hand_may_go() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Say("S1".to_owned())])).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    test.app.messages().edit(&session, "a1", &[text("in other words")], None).await.expect("edited");
    test.app.messages().pin(&session, "u1").await.expect("pinned");
    test.app.compactions().start(&session, within("u2", "u5")).await.expect("started");
    test.settled().await;
    // Pinned messages follow the summary. Each is shown once, and unpinning removes nothing.
    let heads = |lines: &[String]| {
        let own = lines.iter().filter(|line| !line.starts_with("user filler"));
        own.map(|line| line[..line.len().min(22)].to_owned()).collect::<Vec<_>>()
    };
    let lines = shown(&test.view(&session).await);
    assert!(lines[0].starts_with("user filler"), "a view begins with the user: {lines:?}");
    let lines = heads(&lines);
    let [edit, marker, summary, request, tail @ ..] = &lines[..] else { panic!("{lines:?}") };
    assert!(edit.starts_with("assistant shown: in ot") && request.starts_with("user shown: u1"), "{lines:?}");
    let with = |front: &[&String], behind: &[&String]| -> Vec<String> {
        let tail: Vec<&String> = tail.iter().collect();
        [front, &[marker, summary], behind, &tail].concat().into_iter().cloned().collect()
    };
    let seen = async || heads(&shown(&test.view(&session).await));
    test.app.messages().pin(&session, "a1").await.expect("pinned");
    assert_eq!(seen().await, with(&[], &[request, edit]));
    test.app.messages().unpin(&session, "u1").await.expect("unpinned");
    assert_eq!(seen().await, with(&[request], &[edit]));
    test.app.messages().unpin(&session, "a1").await.expect("unpinned");
    assert_eq!(seen().await, with(&[request, edit], &[]));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn nothing_replaces_a_summary_by_hand_of_a_part_of_the_view() {
    // The fallback of Claude Code is its last messages, at any position.
    let test = TestApp::start().await;
    let session = test.session("claude-code@seed", 600_000, 1_000).await;
    test.append(&session, &turns(1, 40, 1)).await;
    test.settled().await;
    let before = shown(&test.view(&session).await);
    for wanted in [within("u20", "u22"), within("u2", "u4")] {
        let (started, _) = test.app.compactions().start(&session, wanted).await.expect("started").answer;
        test.settled().await;
        let ended = test.app.compactions().get(&started.id.to_string()).await.expect("an end");
        assert_eq!(ended.failure.expect("a reason").reason.as_str(), "NO_GAIN");
    }
    assert_eq!(shown(&test.view(&session).await), before);
}

#[tokio::test]
async fn only_the_head_is_sent_if_the_policy_chooses_the_tail() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Say("S1".to_owned())])).await;
    // Codex also keeps the newest requests, each of them once, and truncates the first that is too long.
    let session = test.session("codex@2026-08", 600_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    test.append(&session, "u7 120000c\na7 \"read\"").await;
    test.app.compactions().start(&session, within("u3", "")).await.expect("started");
    test.settled().await;
    let view = test.view(&session).await;
    let ids = view.messages.iter().filter_map(|message| message.source);
    let history = test.history(&session).await;
    let name = |id| history.iter().find(|message| message.id == id).and_then(|message| message.client_id.clone());
    let names: Vec<String> = ids.filter_map(name).collect();
    assert_eq!(names, ["u1", "a1", "u2", "a2", "u7"]);
    let long = &view.messages[4].parts[0];
    assert!(long.shortened.is_some(), "{long:?}");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_summary_that_is_brought_along_begins_no_tail_under_the_one_in_force() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Say("S1".to_owned())])).await;
    let session = test.session("codex@2026-08", 600_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Summary)).await.expect("started");
    test.settled().await;
    test.append(&session, &turns(7, 8, 1_100)).await;
    let before = shown(&test.view(&session).await);
    let supply = async |tail_start: &str| {
        let new = NewSummary { text: "S2".to_owned(), tail_start: tail_start.to_owned(), ..NewSummary::default() };
        test.app.compactions().supply_summary(&session, new).await
    };
    // The requests stay beside the summary, the replies do not, and no message is between them and the tail.
    for tail_start in ["u1", "u3", "a4", "u7"] {
        let refused = supply(tail_start).await.expect_err("it covers nothing anew");
        assert_eq!(refused.reason, Reason::BoundaryInvalid, "{tail_start}");
    }
    assert_eq!(shown(&test.view(&session).await), before);
    supply("u8").await.expect("supplied");
    assert_eq!(shown(&test.view(&session).await).len(), 1 + 2);
}

#[tokio::test]
async fn requests_for_different_tails_are_not_the_same() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    let start = async |tail_start: &str| {
        let (compaction, joined) =
            test.app.compactions().start(&session, from(tail_start)).await.expect("started").answer;
        (compaction.id, joined)
    };
    let (first, _) = start("u3").await;
    script.held().await;
    assert_eq!(start("u3").await, (first, true));
    let other_head = test.app.compactions().start(&session, within("u2", "u3")).await;
    let (other_head, joined) = other_head.expect("queued").answer;
    assert!(!joined);
    test.app.compactions().cancel(&other_head.id.to_string()).await.expect("cancelled");
    let (other, joined) = start("u5").await;
    assert!(other != first && !joined);
    let mut watch = test.watch().await;
    script.release();
    watch.wait_for(EventKind::Compacted).await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    assert_eq!(shown(&test.view(&session).await).len(), 2 + 4);
}

#[tokio::test]
async fn a_tail_that_is_gone_when_its_turn_comes_is_left_alone() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned()), Line::Say("S2".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    let start = async |tail_start: &str| {
        test.app.compactions().start(&session, from(tail_start)).await.expect("started").answer.0.id
    };
    start("u3").await;
    script.held().await;
    let late = start("u5").await;
    test.app.messages().rewind(&session, "a3", None).await.expect("rewound");
    script.release();
    test.settled().await;
    let late = test.app.compactions().get(&late.to_string()).await.expect("a compaction");
    assert_eq!(late.state, CompactionState::Cancelled);
    assert_eq!(late.failure.expect("a reason").reason.as_str(), "NOTHING_TO_COMPACT");
    assert_eq!(shown(&test.view(&session).await).len(), 2 + 2, "the first one holds");
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
    test.app.messages().pin(&session, &part).await.expect("pinned");
    test.app.compactions().start(&session, from("u5")).await.expect("started");
    test.settled().await;
    let shows = async || test.view(&session).await.messages.iter().any(|shown| shown.source == Some(message.id));
    assert!(shows().await, "beside the summary that covers what is around it");
    test.app.messages().unpin(&session, &part).await.expect("unpinned");
    assert!(!shows().await);
    let error =
        test.app.messages().pin(&session, "prt_00000000000000000000000000000001").await.expect_err("of no message");
    assert_eq!(error.reason, Reason::MessageNotFound);
}

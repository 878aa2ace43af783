//! P6, I8: watchers receive the text of a summary while it is written, and no view contains it.

use crate::support::{Line, ScriptedSummarizer, TestApp, Watch, shown, turns};
use longhand::app::events::{Frame, SubscribeRequest};
use longhand::model::event::EventKind;
use longhand::scheduler::SummaryDelta;

/// A stream of one session, or of all, optionally with live text.
async fn watch(test: &TestApp, session: Option<&str>, live: bool) -> Watch {
    let sessions = session.into_iter().map(str::to_owned).collect();
    let request = SubscribeRequest { sessions, live, ..SubscribeRequest::default() };
    let mut watch = Watch::new(test.app.events().subscribe(request).await.expect("a stream"));
    assert!(matches!(watch.frame().await, Frame::Ready { .. }));
    watch
}

/// The next piece of a summary's text.
async fn words(watch: &mut Watch) -> (String, SummaryDelta) {
    loop {
        if let Frame::SummaryDelta { session, delta } = watch.frame().await {
            return (session.to_string(), delta);
        }
    }
}

#[tokio::test]
async fn watchers_receive_a_summary_as_it_is_written() {
    let chunks = ["## Goal\n", "- naïve", " words"].map(str::to_owned);
    let script = ScriptedSummarizer::new([Line::Stream(chunks.to_vec())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 8, 1_100)).await;
    let other = test.manual_session().await;
    let mut mine = watch(&test, Some(&session), true).await;
    let mut all = watch(&test, None, true).await;
    let mut deaf = watch(&test, Some(&session), false).await;
    let mut elsewhere = watch(&test, Some(&other), true).await;
    test.append(&session, &turns(9, 9, 1_100)).await;
    script.held().await;
    let pending = test.view(&session).await.pending.expect("it is being written");
    for watch in [&mut mine, &mut all] {
        let mut offset = 0;
        for expected in ["", "## Goal\n", "- naïve", " words"] {
            let (id, delta) = words(watch).await;
            assert_eq!((id, delta.compaction, delta.summarizer.as_str()), (session.clone(), pending, "scripted"));
            assert_eq!((delta.offset, delta.delta.as_str()), (offset, expected));
            offset += i64::try_from(expected.len()).expect("short");
        }
    }
    let view = shown(&test.view(&session).await).join("\n");
    assert!(!view.contains("goal"), "no view shows what is not in force: {view}");
    script.release();
    mine.wait_for(EventKind::Compacted).await;
    test.append(&other, "u1 \"hello\"").await;
    // Watchers without live text, and watchers of another session, get none.
    while deaf.count(EventKind::Compacted) == 0 {
        assert!(!matches!(deaf.frame().await, Frame::SummaryDelta { .. }));
    }
    while elsewhere.count(EventKind::MessageAppended) == 0 {
        assert!(!matches!(elsewhere.frame().await, Frame::SummaryDelta { .. }));
    }
}

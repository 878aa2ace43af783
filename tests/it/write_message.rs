//! Messages that are written as streams: coalesced, held back, gone on with, and ended from outside.

use crate::support::{TestApp, Watch, call, conversation, shown, soon, text, words_of};
use futures::channel::mpsc;
use futures::{StreamExt as _, stream};
use longhand::app::access::Access;
use longhand::app::append::{DraftEnd, DraftName, NewDraftText, OpenPart};
use longhand::app::events::{Frame, Start, SubscribeRequest};
use longhand::app::quotas::Quota;
use longhand::app::writing::{DraftWords, MessageEnd, WriteAnswer, WriteFrame, WriteStart, WriteTarget};
use longhand::app::{Caller, Error, Reason};
use longhand::limits;
use longhand::model::draft::{Draft, DraftKind};
use longhand::model::ids::PartId;
use longhand::model::message::{Finish, FinishReason, NewFinish};
use longhand::model::part::{PartBody, ResultStatus};
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::JoinHandle;

type Frames = mpsc::UnboundedSender<Result<WriteFrame, Error>>;

fn start(session: &str, target: WriteTarget) -> WriteStart {
    WriteStart { session: session.to_owned(), target, request_id: String::new() }
}

fn existing(session: &str) -> WriteStart {
    start(session, WriteTarget::Open("a1".to_owned()))
}

/// A message to open, from a line of a conversation.
fn new(session: &str, line: &str) -> WriteStart {
    start(session, WriteTarget::New(Box::new(conversation(line).remove(0))))
}

fn words(name: &str, offset: Option<i64>, delta: &str) -> WriteFrame {
    WriteFrame::Words(DraftWords { client_id: name.to_owned(), kind: None, offset, delta: delta.to_owned() })
}

fn begins(name: &str, kind: DraftKind, delta: &str) -> WriteFrame {
    WriteFrame::Words(DraftWords {
        client_id: name.to_owned(),
        kind: Some(kind),
        offset: None,
        delta: delta.to_owned(),
    })
}

fn closes(name: &str, status: Option<ResultStatus>) -> WriteFrame {
    WriteFrame::DraftEnd(DraftEnd {
        draft: DraftName::Client(name.to_owned()),
        status,
        metadata_json: None,
        received: None,
    })
}

fn ends(reason: FinishReason) -> WriteFrame {
    let finish = NewFinish { reason: Some(reason), ..NewFinish::default() };
    WriteFrame::End(Box::new(MessageEnd { finish, window: None, hash: [reason as u8; 32] }))
}

fn stops() -> WriteFrame {
    ends(FinishReason::Stop)
}

/// Writes frames that have all come already.
async fn write(caller: &Caller, start: WriteStart, frames: Vec<WriteFrame>) -> Result<WriteAnswer, Error> {
    let written = caller.messages().write(start, stream::iter(frames.into_iter().map(Ok)));
    soon("the stream to end", written).await.map(|written| written.answer)
}

/// A call whose frames are sent one by one.
fn call_with(caller: &Caller, start: WriteStart) -> (Frames, JoinHandle<Result<WriteAnswer, Error>>) {
    let (frames, stream) = mpsc::unbounded();
    let caller = caller.clone();
    (frames, tokio::spawn(async move { caller.messages().write(start, stream).await.map(|written| written.answer) }))
}

async fn answer(call: JoinHandle<Result<WriteAnswer, Error>>) -> Result<WriteAnswer, Error> {
    soon("the answer of the stream", call).await.expect("no panic")
}

fn send(frames: &Frames, frame: WriteFrame) {
    frames.unbounded_send(Ok(frame)).expect("the call reads");
}

async fn watch(test: &TestApp, session: &str, start: Start) -> Watch {
    let request = SubscribeRequest { sessions: vec![session.to_owned()], live: true, start, ..Default::default() };
    Watch::new(test.app.events().subscribe(request).await.expect("a stream"))
}

/// The next text of a draft: the draft, the offset, the text.
async fn delta(watch: &mut Watch) -> (PartId, usize, String) {
    loop {
        if let Frame::DraftDelta { delta, .. } = watch.frame().await {
            return (delta.part, usize::try_from(delta.offset).expect("an offset"), delta.delta);
        }
    }
}

async fn drafts(test: &TestApp, session: &str) -> Vec<Draft> {
    test.app.messages().get(session, "a1").await.expect("the message").1
}

async fn is_open(test: &TestApp, session: &str) -> bool {
    test.app.messages().get(session, "a1").await.expect("the message").0.sealed_revision.is_none()
}

#[tokio::test]
async fn a_message_arrives_whole_and_what_waits_is_committed_together() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"hello\"").await;
    let mut watch = watch(&test, &session, Start::Now).await;
    let mut frames = vec![begins("r", DraftKind::Reasoning, "hm")];
    let tokens: Vec<String> = (0..500).map(|index| format!("grüß{index} ")).collect();
    for (index, token) in tokens.iter().enumerate() {
        frames.push(words("t", None, token));
        if index % 5 == 0 {
            frames.push(words("r", None, "m"));
        }
    }
    let mut part = call("c1");
    part.client_id = Some("c".to_owned());
    frames.extend([
        closes("r", None),
        WriteFrame::Part(part),
        WriteFrame::Heartbeat,
        stops(),
        words("t", None, "late"),
    ]);
    let written = write(&test.app, new(&session, "a1 open"), frames).await.expect("written");
    assert!(written.sealed);
    let (message, left, _) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!((message.id, left), (written.message, Vec::new()));
    assert_eq!(message.finish.reason, Some(FinishReason::Stop));
    assert_eq!(written.newest.revision, test.revision(&session).await);
    let whole = (format!("hm{}", "m".repeat(100)), tokens.concat());
    let bodies: Vec<_> = message.parts.iter().map(|part| (part.client_id.as_deref(), (*part.body).clone())).collect();
    assert_eq!(bodies[0], (Some("r"), PartBody::Reasoning(whole.0.clone())));
    assert_eq!(bodies[1].0, Some("c"), "in the order in which they close");
    assert_eq!(bodies[2], (Some("t"), PartBody::Text(whole.1.clone())));
    let lengths: Vec<_> = written.drafts.iter().map(|(name, receipt)| (name.as_str(), receipt.length)).collect();
    assert_eq!(lengths, [("r", 102), ("t", i64::try_from(whole.1.len()).expect("short"))]);
    // One commit, and one frame for each draft.
    assert_eq!(delta(&mut watch).await, (message.parts[0].id, 0, whole.0));
    assert_eq!(delta(&mut watch).await, (message.parts[2].id, 0, whole.1));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_lost_call_goes_on_without_a_gap_or_a_repeat() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut watch = watch(&test, &session, Start::Now).await;
    let (frames, writing) = call_with(&test.app, new(&session, "a1 open"));
    send(&frames, words("t", Some(0), "grüß"));
    let (part, _, mut heard) = delta(&mut watch).await;
    send(&frames, words("t", None, " dich"));
    heard.push_str(&delta(&mut watch).await.2);
    let gone = Error::new(Reason::RequestMalformed, "the client is gone");
    frames.unbounded_send(Err(gone.clone())).expect("the call reads");
    assert_eq!(answer(writing).await.expect_err("broken"), gone);
    assert!(is_open(&test, &session).await);
    let left =
        Draft { id: part, client_id: Some("t".to_owned()), kind: DraftKind::Text, text: "grüß dich".to_owned() };
    assert_eq!(drafts(&test, &session).await, [left], "what was committed stays, with the name to go on by");

    drop(watch);
    // The next call begins somewhere in what is there, with another cut; the one after it from the first frame.
    let test = test.restart().await;
    let mut watch = self::watch(&test, &session, Start::Now).await;
    let resumed = vec![words("t", Some(6), " di"), words("t", None, "ch, Wel")];
    let resumed = write(&test.app, existing(&session), resumed).await.expect("left open");
    assert_eq!((resumed.sealed, resumed.drafts[0].1.length), (false, 16));
    let whole = vec![words("t", Some(0), "grüß dich, "), words("t", None, "Welt"), closes("t", None), stops()];
    assert!(write(&test.app, new(&session, "a1 open"), whole).await.expect("sealed").sealed);
    while heard.len() < 17 {
        let (id, offset, delta) = delta(&mut watch).await;
        assert_eq!((id, offset), (part, heard.len()), "no gap and no repeat");
        heard.push_str(&delta);
    }
    assert_eq!(heard, "grüß dich, Welt");
    assert_eq!(words_of(&test.history(&session).await[0]), heard);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_writer_that_leaves_does_not_keep_committed_words_from_watchers() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let mut watch = watch(&test, &session, Start::Now).await;
    let (frames, stream) = mpsc::unbounded();
    send(&frames, words("t", None, "last words"));
    // Dropped once the write is committed and before its answer is taken, as the transport does with a stream that is
    // reset.
    let mut writing = Box::pin(test.app.messages().write(existing(&session), stream));
    tokio::select! {
        biased;
        () = test.until("the words", async || test.number("select count(*) from draft") == 1) => {}
        ended = &mut writing => panic!("it waits for more: {ended:?}"),
    }
    drop(writing);
    assert_eq!(delta(&mut watch).await.2, "last words");
}

#[tokio::test]
async fn other_words_are_refused_with_the_place_to_go_on_from() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    write(&test.app, existing(&session), vec![words("t", None, "abc")]).await.expect("left open");
    for frame in [
        words("t", Some(0), "abd"),
        words("t", Some(2), "x"),
        words("t", Some(4), "x"),
        words("t", Some(-1), "x"),
        words("new", Some(1), "x"),
    ] {
        let before = words("u", Some(0), "before");
        let refused = write(&test.app, existing(&session), vec![before, frame.clone(), words("u", None, "!")]).await;
        let refused = refused.expect_err("refused");
        let length = if format!("{frame:?}").contains("new") { "0" } else { "3" };
        assert_eq!((refused.reason, refused.metadata["length_bytes"].as_str()), (Reason::OffsetMismatch, length));
        assert!(refused.metadata.contains_key("client_id") && refused.metadata.contains_key("message_id"));
    }
    let kept: Vec<_> = drafts(&test, &session).await.into_iter().map(|draft| draft.text).collect();
    assert_eq!(kept, ["abc", "before!"], "what came before a refused frame is there");
    let refused = async |frame, reason: Reason| {
        let error = write(&test.app, existing(&session), vec![frame]).await.expect_err("refused");
        assert_eq!(error.reason, reason, "{error}");
        error
    };
    refused(begins("t", DraftKind::Reasoning, "abc"), Reason::ClientIdReused).await;
    refused(words("", None, "x"), Reason::InvalidField).await;
    refused(WriteFrame::Part(text("no name")), Reason::InvalidField).await;
    refused(closes("nobody", None), Reason::DraftNotFound).await;
    let input = |call_id: &str, tool: &str| DraftKind::ToolInput { call_id: call_id.into(), tool: tool.into() };
    assert_eq!(refused(begins("i", input("", "bash"), "{"), Reason::InvalidField).await.metadata["field"], "call_id");
    assert_eq!(refused(begins("i", input("c", ""), "{"), Reason::InvalidField).await.metadata["field"], "tool");
    let large = refused(words("t", Some(3), &"x".repeat(limits::DRAFT_BYTES_MAX)), Reason::LimitExceeded).await;
    assert_eq!(large.metadata["client_id"], "t");
    // A closed draft takes the same words, and no more.
    write(&test.app, existing(&session), vec![closes("t", None), closes("t", None)]).await.expect("it closes once");
    write(&test.app, existing(&session), vec![words("t", Some(1), "bc")]).await.expect("the same again");
    let longer = refused(words("t", Some(3), "d"), Reason::OffsetMismatch).await;
    assert_eq!(longer.metadata["length_bytes"], "3");
    assert_eq!(test.history(&session).await[0].parts.len(), 1);
}

#[tokio::test]
async fn a_message_to_open_has_a_name_and_is_open() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    for (line, field) in [("a open", "target.new_message.client_id"), ("a1 \"sealed\"", "target.new_message.open")] {
        let refused = write(&test.app, new(&session, line), Vec::new()).await.expect_err("refused");
        assert_eq!((refused.reason, refused.metadata["field"].as_str()), (Reason::InvalidField, field));
    }
    assert_eq!(test.history(&session).await, []);
    let refused = write(&test.app, existing(&session), Vec::new()).await.expect_err("there is none");
    assert_eq!(refused.reason, Reason::MessageNotFound);
}

#[tokio::test]
async fn a_late_watcher_gets_the_message_as_it_stands_and_then_what_follows() {
    let test = TestApp::start().await;
    let text = "Grüße an alle, die später kommen: nichts fehlt, und nichts kommt doppelt. ".repeat(4);
    let characters: Vec<char> = text.chars().collect();
    for seed in 0..24_usize {
        let session = test.manual_session().await;
        let (frames, writing) = call_with(&test.app, new(&session, "a1 open"));
        // Cuts and the time of the watcher, different for each seed.
        let tokens: Vec<String> = characters.chunks(1 + seed % 7).map(|piece| piece.iter().collect()).collect();
        let comes = (seed * 37 + 5) % tokens.len();
        let mut early = watch(&test, &session, Start::Now).await;
        let (mut late, mut sent, mut committed) = (None, 0, 0);
        for (index, token) in tokens.iter().enumerate() {
            if index == comes {
                // Some of the words before are committed, others are on their way.
                late = Some(watch(&test, &session, Start::Snapshot).await);
            }
            send(&frames, words("t", None, token));
            sent += token.len();
            while index % (seed + 2) == 0 && committed < sent {
                committed += delta(&mut early).await.2.len();
            }
        }
        let mut late = late.expect("it comes");
        let mut heard = String::new();
        while heard.len() < text.len() {
            match late.frame().await {
                Frame::SnapshotOpen(open) => {
                    assert_eq!(heard, "");
                    heard = open.drafts.first().map(|draft| draft.text.clone()).unwrap_or_default();
                }
                Frame::DraftDelta { delta, .. } => {
                    let offset = usize::try_from(delta.offset).expect("an offset");
                    assert_eq!(offset, heard.len(), "seed {seed}: a gap or a repeat");
                    heard.push_str(&delta.delta);
                }
                _ => {}
            }
        }
        assert_eq!(heard, text, "seed {seed}");
        send(&frames, stops());
        assert!(answer(writing).await.expect("sealed").sealed);
    }
}

#[tokio::test]
async fn a_lost_run_ends_its_call() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let lease = Some(Duration::from_secs(10));
    let acquired = test.app.runs().acquire(&session, lease, false).await.expect("a run");
    let in_run = test.app.clone().in_run(acquired.run.epoch);
    let mut watch = watch(&test, &session, Start::Now).await;
    let (frames, writing) = call_with(&in_run, new(&session, "a1 open"));
    send(&frames, words("t", None, "half a w"));
    delta(&mut watch).await;
    test.clock.skip_to(test.clock.now().plus_millis(10_000));
    test.longhand.store().jobs().wake().await.expect("done");
    let lost = answer(writing).await.expect_err("another agent may begin");
    assert_eq!((lost.reason, lost.metadata["epoch"].as_str()), (Reason::RunLost, "1"));
    assert_eq!((lost.metadata["client_id"].as_str(), lost.metadata["length_bytes"].as_str()), ("t", "8"));
    let refused = write(&in_run, existing(&session), vec![words("t", Some(8), "ord")]).await.expect_err("fenced");
    assert_eq!(refused.reason, Reason::RunLost);
    assert_eq!(words_of(&test.history(&session).await[0]), "half a w");

    // A run that does not write the message, and whose own call does.
    test.append(&session, "a2 open").await;
    let next = test.app.runs().acquire(&session, lease, false).await.expect("a run");
    let in_next = test.app.clone().in_run(next.run.epoch);
    let (frames, writing) = call_with(&in_next, start(&session, WriteTarget::Open("a2".to_owned())));
    send(&frames, words("t", None, "so far"));
    test.until("the call to begin", async || test.number("select count(*) from draft") == 1).await;
    test.app.runs().release(&session, next.run.epoch, None).await.expect("released");
    assert_eq!(answer(writing).await.expect_err("it ended").reason, Reason::RunLost);
}

#[tokio::test]
async fn an_idle_call_ends_with_its_message() {
    let test = TestApp::start().await;
    for (end, expected) in [
        ("sealed", Reason::MessageSealed),
        ("expired", Reason::MessageExpired),
        ("archived", Reason::SessionArchived),
        ("stopping", Reason::ShuttingDown),
    ] {
        let session = test.manual_session().await;
        let mut watch = watch(&test, &session, Start::Now).await;
        let (frames, writing) = call_with(&test.app, new(&session, "a1 open"));
        send(&frames, words("t", None, "so far"));
        delta(&mut watch).await;
        match end {
            "sealed" => {
                test.append(&session, "a2 open").await;
                test.app.messages().finish(&session, "a2", Finish::default(), None).await.expect("another one");
                let finish = Finish { reason: Some(FinishReason::Aborted), ..Finish::default() };
                test.app.messages().finish(&session, "a1", finish, None).await.map(drop).expect("sealed");
            }
            "expired" => {
                test.clock.skip_to(test.clock.now().plus_millis(limits::OPEN_TIMEOUT_MS_DEFAULT));
                test.longhand.store().jobs().wake().await.expect("done");
            }
            "archived" => test.app.sessions().archive(&session).await.map(drop).expect("archived"),
            _ => test.begin_stop(),
        }
        let ended = answer(writing).await.expect_err("it takes nothing more");
        assert_eq!((ended.reason, ended.metadata["length_bytes"].as_str()), (expected, "6"), "{end}");
    }
}

#[tokio::test]
async fn an_end_that_is_sent_again_gets_its_answer() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let once = |id: &str| WriteStart { request_id: id.to_owned(), ..new(&session, "a1 open") };
    let mut part = text("one");
    part.client_id = Some("p".to_owned());
    let all = || vec![words("t", None, "words"), WriteFrame::Part(part.clone()), stops()];
    let first = write(&test.app, once("w1"), all()).await.expect("written");
    let revision = test.revision(&session).await;
    let again = write(&test.app, once("w1"), all()).await.expect("the same answer");
    assert_eq!((again.sealed, again.message), (true, first.message));
    assert_eq!((again.newest.revision, again.newest.seq), (first.newest.revision, first.newest.seq));
    assert_eq!(test.revision(&session).await, revision, "and nothing is written");
    for (start, frames, reason) in [
        (once("w1"), vec![ends(FinishReason::Length)], Reason::RequestIdReused),
        (once("w1"), vec![words("t", Some(5), "more")], Reason::MessageSealed),
        (once("w2"), all(), Reason::MessageSealed),
        (once(""), all(), Reason::MessageSealed),
    ] {
        assert_eq!(write(&test.app, start, frames).await.expect_err("refused").reason, reason);
    }
    assert_eq!(test.history(&session).await[0].parts.len(), 2);
}

#[tokio::test]
async fn a_call_whose_message_was_closed_waits_for_the_end_alone_and_not_for_ever() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let once = || WriteStart { request_id: "w1".to_owned(), ..new(&session, "a1 open") };
    write(&test.app, once(), vec![words("t", None, "words"), stops()]).await.expect("written");
    let (frames, writing) = call_with(&test.app, once());
    send(&frames, words("t", None, "words"));
    tokio::time::pause();
    let refused = writing.await.expect("no panic").expect_err("the end does not come");
    assert_eq!(refused.reason, Reason::MessageSealed);
    drop(frames);
}

#[tokio::test]
async fn whoever_may_write_no_more_writes_nothing_of_what_waits() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let access = Access { principal: "agent".into(), ..Access::owner() };
    let revoked = access.revoked.clone();
    let agent = test.longhand.caller(access, String::new(), None).expect("a caller");
    let frames = [words("t", None, "one"), words("t", None, " two"), stops()];
    // The access ends while the frames are gathered for a commit.
    let frames = frames.into_iter().enumerate().map(|(index, frame)| {
        if index == 1 {
            revoked.cancel();
        }
        Ok(frame)
    });
    let written: Result<_, Error> =
        soon("the end", agent.messages().write(new(&session, "a1 open"), stream::iter(frames))).await;
    assert_eq!(written.expect_err("revoked").reason, Reason::AccessTokenInvalid);
    assert!(is_open(&test, &session).await);
    assert_eq!(test.number("select count(*) from draft"), 0);
}

#[tokio::test]
async fn a_frame_that_cannot_be_read_ends_the_call_where_it_is() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let odd = WriteFrame::Refused(Error::field("kind", "is none"));
    let frames = vec![words("t", None, "words"), odd, stops()];
    let refused = write(&test.app, new(&session, "a1 open"), frames).await.expect_err("refused");
    assert_eq!((refused.reason, refused.metadata["field"].as_str()), (Reason::InvalidField, "kind"));
    assert_eq!((refused.metadata["client_id"].as_str(), refused.metadata["length_bytes"].as_str()), ("t", "5"));
    assert_eq!(refused.metadata["message_id"], test.history(&session).await[0].id.to_string());
}

#[tokio::test]
async fn tools_have_their_input_and_output_as_they_come() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"list\"").await;
    let mut watch = watch(&test, &session, Start::Now).await;
    let input = DraftKind::ToolInput { call_id: "c1".into(), tool: "bash".into() };
    let frames = vec![begins("i", input.clone(), "{\"a\":"), words("i", None, "1}"), closes("i", None), stops()];
    write(&test.app, new(&session, "a1 open"), frames).await.expect("the call");
    let shown_input = loop {
        if let Frame::DraftDelta { delta, .. } = watch.frame().await {
            break delta;
        }
    };
    drop(watch);
    assert_eq!((shown_input.kind, shown_input.delta.as_str()), (input, "{\"a\":1}"));
    let output = |message: Option<&str>| DraftKind::ToolOutput {
        call_id: "c1".into(),
        call_message: message.map(str::to_owned),
    };
    let start_result = || new(&session, "t1 open");
    let refused = write(&test.app, start_result(), vec![begins("o", output(Some("u1")), "x")]).await;
    assert_eq!(refused.expect_err("no call is there").reason, Reason::CallNotFound);
    write(&test.app, start_result(), vec![begins("o", output(Some("a1")), "line 1\n")]).await.expect("it runs");
    let view =
        ["user shown: list", "assistant shown: call c1", "tool paired: result c1 [tool execution was interrupted]"];
    assert_eq!(shown(&test.view(&session).await), view, "no view shows output before it closes");
    let test = test.restart().await;
    let more =
        vec![begins("o", output(Some("a1")), "line 1\nline 2\n"), closes("o", Some(ResultStatus::Error)), stops()];
    write(&test.app, start_result(), more.clone()).await.expect("the result");
    let history = test.history(&session).await;
    let PartBody::ToolCall(made) = &*history[1].parts[0].body else { panic!("a call") };
    assert_eq!((made.call_id.as_str(), made.tool.as_str(), made.input_json.as_str()), ("c1", "bash", "{\"a\":1}"));
    let PartBody::ToolResult(result) = &*history[2].parts[0].body else { panic!("a result") };
    assert_eq!((result.status, result.output.as_str()), (ResultStatus::Error, "line 1\nline 2\n"));
    assert_eq!(result.answers.message(), Some(history[1].id.to_string().as_str()), "paired as any other result");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_tool_that_nobody_ended_was_interrupted_and_calls_of_one_request_do_the_same() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"go\"\na1 call=c1 call=c2 open\nt1 open").await;
    let output = |call_id: &str| NewDraftText {
        part: None,
        client_id: Some(call_id.to_owned()),
        kind: DraftKind::ToolOutput { call_id: call_id.to_owned(), call_message: None },
        offset: 0,
        delta: "so far".to_owned(),
    };
    let receipt = test.app.messages().append_draft(&session, "t1", output("c1")).await.expect("a draft");
    test.app.messages().append_draft(&session, "t1", output("c2")).await.expect("a draft");
    let status = Some(ResultStatus::Error);
    let end =
        DraftEnd { draft: DraftName::Id(receipt.part), status, metadata_json: Some("{".to_owned()), received: None };
    let refused = test.app.messages().append_parts(&session, "t1", vec![OpenPart::Ended(end.clone())]).await;
    assert_eq!(refused.expect_err("no JSON").metadata["field"], "metadata_json");
    let end = DraftEnd { metadata_json: None, ..end };
    test.app.messages().append_parts(&session, "t1", vec![OpenPart::Ended(end)]).await.expect("closed");
    for message in ["a1", "t1"] {
        test.app.messages().finish(&session, message, Finish::default(), None).await.expect("sealed");
    }
    let history = test.history(&session).await;
    let statuses = history[2].parts.iter().filter_map(|part| match &*part.body {
        PartBody::ToolResult(result) => Some((result.call_id.as_str(), result.status, result.answers.message())),
        _ => None,
    });
    let call = history[1].id.to_string();
    let expected =
        [("c1", ResultStatus::Error, Some(call.as_str())), ("c2", ResultStatus::Interrupted, Some(call.as_str()))];
    assert_eq!(statuses.collect::<Vec<_>>(), expected);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_tenants_calls_count_as_streams_and_its_appends_hold_them_back() {
    let test = TestApp::start().await;
    let quota = Quota { streams: Some(1), appends_per_second: Some(2), ..Quota::default() };
    let session = test.manual_session().await;
    test.append(&session, "a2 open").await;
    test.longhand.hold_to_quotas(HashMap::from([(String::new(), quota)])).await.expect("held");
    let (frames, writing) = call_with(&test.app, new(&session, "a1 open"));
    send(&frames, words("t", None, "one"));
    test.until("the first words", async || test.number("select count(*) from draft") == 1).await;
    let refused = write(&test.app, existing(&session), Vec::new()).await.expect_err("one is open");
    assert_eq!((refused.reason, refused.metadata["quota"].as_str()), (Reason::QuotaExceeded, "streams"));
    // Both appends of this second are used up: the call waits for the next one, and takes it.
    send(&frames, words("t", None, " two"));
    send(&frames, stops());
    let refused = test.app.messages().append_parts(&session, "a2", Vec::new()).await.expect_err("too soon");
    assert_eq!(refused.reason, Reason::RateLimited);
    test.clock.skip_to(test.clock.now().plus_millis(500));
    assert!(answer(writing).await.expect("sealed").sealed);
    assert_eq!(words_of(&test.history(&session).await[1]), "one two");
    let refused = test.app.messages().append_parts(&session, "a2", Vec::new()).await.expect_err("it was taken");
    assert_eq!(refused.reason, Reason::RateLimited);
    test.clock.skip_to(test.clock.now().plus_millis(1_000));
    let refused = write(&test.app, existing(&session), Vec::new()).await.expect_err("its place is free again");
    assert_eq!(refused.reason, Reason::MessageSealed);
}

#[tokio::test]
async fn no_more_messages_are_written_at_once_than_may_be() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    // A call that reads from its frames has its place.
    let (reads, mut reading) = mpsc::unbounded();
    let mut calls: Vec<_> = (0..limits::WRITE_CALLS_MAX)
        .map(|_| {
            let (caller, start, reads) = (test.app.clone(), existing(&session), reads.clone());
            let frames = stream::once(async move {
                reads.unbounded_send(()).expect("the test counts");
                futures::future::pending::<Result<WriteFrame, Error>>().await
            });
            tokio::spawn(async move { caller.messages().write(start, frames).await })
        })
        .collect();
    for _ in &calls {
        soon("every call to begin", reading.next()).await.expect("a call");
    }
    let refused = write(&test.app, existing(&session), vec![words("t", None, "late")]).await.expect_err("one too many");
    assert_eq!(refused.reason, Reason::TooManyStreams);
    assert_eq!(refused.metadata["limit"], limits::WRITE_CALLS_MAX.to_string());
    assert_eq!(drafts(&test, &session).await, [], "nothing was written");

    // A writer that is gone leaves its place to the next.
    let gone = calls.swap_remove(0);
    gone.abort();
    soon("the writer to go", gone).await.expect_err("it was aborted");
    write(&test.app, existing(&session), vec![words("t", None, "in time")]).await.expect("written");
    calls.iter().for_each(JoinHandle::abort);
}

//! Drafts with text that a rule refuses: nothing of them stays.

use super::{holders, rules, start};
use crate::support::{TestApp, Watch, conversation, soon};
use futures::stream;
use longhand::app::append::{DraftEnd, DraftName, NewDraftText, OpenPart};
use longhand::app::events::{Frame, SubscribeRequest};
use longhand::app::secrets::Action;
use longhand::app::writing::{DraftWords, MessageEnd, WriteFrame, WriteStart, WriteTarget};
use longhand::app::{Error, Reason};
use longhand::model::draft::DraftKind;
use longhand::model::message::NewFinish;

/// No two of its characters that follow each other are anywhere in the other texts of these tests.
const HUSH: &str = "hush-0a1b2c3d4e5f6789";
/// What comes before it.
const BEFORE: &str = "the key is: ";

fn kinds() -> [DraftKind; 4] {
    [
        DraftKind::Text,
        DraftKind::Reasoning,
        DraftKind::ToolInput { call_id: "c1".to_owned(), tool: "t".to_owned() },
        DraftKind::ToolOutput { call_id: "c0".to_owned(), call_message: None },
    ]
}

fn words(kind: &DraftKind, offset: usize, delta: &str) -> NewDraftText {
    let offset = i64::try_from(offset).expect("an offset");
    NewDraftText { part: None, client_id: Some("d".to_owned()), kind: kind.clone(), offset, delta: delta.to_owned() }
}

/// What is left of the draft in what can be read: every two characters of the secret that are in it.
fn left_in(text: &str) -> Vec<&'static str> {
    let letters = text.replace("hush", "");
    (4..HUSH.len() - 1).map(|at| &HUSH[at..at + 2]).filter(|two| letters.contains(two)).collect()
}

/// Everything that a reader of the session gets, without ids and times.
async fn read(test: &TestApp, session: &str) -> String {
    let (message, drafts, _) = test.app.messages().get(session, "a1").await.expect("the message");
    let parts: Vec<_> = message.parts.iter().map(|part| (&part.body, &part.client_id)).collect();
    let drafts: Vec<_> = drafts.iter().map(|draft| (&draft.text, &draft.kind)).collect();
    let view = crate::support::shown(&test.view(session).await);
    format!("{parts:?} {drafts:?} {view:?}")
}

/// The ways in which a message with a refused draft ends.
const ENDS: [&str; 3] = ["sealed", "expired", "cancelled"];

async fn end(test: &TestApp, session: &str, how: &str) {
    match how {
        "sealed" => drop(test.app.messages().finish(session, "a1", NewFinish::default(), None).await.expect("sealed")),
        "expired" => {
            test.clock.advance(3_600_000);
            test.longhand.store().jobs().wake().await.expect("what is over ends");
        }
        _ => drop(
            test.app.runs().cancel(session, longhand::app::runs::CancelRun { force: true, ..Default::default() }).await,
        ),
    }
}

/// A message of a run that has a call, so that a tool's output has where it belongs.
async fn open(test: &TestApp) -> String {
    let session = test.manual_session().await;
    let epoch = test.app.runs().acquire(&session, None, false).await.expect("a run").run.epoch;
    let messages = conversation("u1 \"go\"\na0 call=c0\na1 open");
    test.app.clone().in_run(epoch).messages().append(&session, messages, None, None).await.expect("appended");
    session
}

#[tokio::test]
async fn of_a_draft_that_is_refused_nothing_stays_however_the_secret_is_cut() {
    let mut test = start(Action::Refuse).await;
    // More may follow on what ends a text, so that the rule waits for it.
    let whole = format!("{BEFORE}{HUSH}.");
    for (number, kind) in kinds().iter().enumerate() {
        for cut in 1..HUSH.len() {
            let session = open(&test).await;
            let bytes = "select sum(content_bytes) from session";
            let before = test.number(bytes);
            let live = SubscribeRequest { sessions: vec![session.clone()], live: true, ..Default::default() };
            let at = BEFORE.len() + cut;
            test.app.messages().append_draft(&session, "a1", words(kind, 0, &whole[..at])).await.expect("it may go on");
            if cut % 7 == number {
                test = test.kill().await;
                test.longhand.store().apply_secret_rules(rules(Action::Refuse)).expect("the key is there");
            }
            let mut watch = Watch::new(test.app.events().subscribe(live).await.expect("a stream"));
            let refused = test.app.messages().append_draft(&session, "a1", words(kind, at, &whole[at..])).await;
            let error = refused.expect_err("a secret");
            assert_eq!((error.reason, error.metadata["rule"].as_str()), (Reason::SecretRefused, "hush"));
            let what = format!("{kind:?} cut at {cut}");
            assert_eq!(left_in(&read(&test, &session).await), Vec::<&str>::new(), "{what}");
            let rows = "select coalesce(sum(octet_length(body) + coalesce(octet_length(hidden), 0)), 0) from draft d \
                 join message m on m.id = d.message_id where m.sealed_revision is null";
            assert_eq!(test.number(rows), 0, "{what}");
            // It takes nothing more, and does not close.
            for (offset, delta) in [(whole.len(), " more"), (at, "x"), (0, "from the beginning")] {
                let more = test.app.messages().append_draft(&session, "a1", words(kind, offset, delta)).await;
                assert_eq!(more.expect_err("it is refused").reason, Reason::SecretRefused, "{what}: {delta}");
            }
            let draft = DraftName::Client("d".to_owned());
            let ended = DraftEnd { draft, status: None, metadata_json: None, received: None };
            let closed = test.app.messages().append_parts(&session, "a1", vec![OpenPart::Ended(ended)]).await;
            assert_eq!(closed.expect_err("it is refused").reason, Reason::SecretRefused, "{what}");
            end(&test, &session, ENDS[cut % ENDS.len()]).await;
            let message = test.app.messages().get(&session, "a1").await.expect("the message").0;
            assert!(message.sealed_revision.is_some() && message.parts.is_empty(), "{what}: {message:?}");
            assert_eq!(test.number(bytes), before, "{what}: it counts for nothing");
            assert_eq!(left_in(&read(&test, &session).await), Vec::<&str>::new(), "{what}");
            while let Some(frame) = futures::FutureExt::now_or_never(watch.frame()) {
                if let Frame::DraftDelta { delta, .. } = frame {
                    assert_eq!(left_in(&delta.delta), Vec::<&str>::new(), "{what}");
                }
            }
        }
    }
    assert_eq!(holders(test.directory(), &HUSH[..6]), Vec::<String>::new());
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_stream_that_a_rule_ends_leaves_nothing_of_the_draft_and_keeps_the_others() {
    let test = start(Action::Refuse).await;
    for cut in 1..HUSH.len() {
        let session = open(&test).await;
        let frame = |name: &str, delta: &str| {
            let (client_id, delta) = (name.to_owned(), delta.to_owned());
            Ok::<_, Error>(WriteFrame::Words(DraftWords { client_id, kind: None, offset: None, delta }))
        };
        let end = MessageEnd { finish: NewFinish::default(), window: None, hash: [1; 32] };
        let frames = [
            frame("e", "what stays"),
            frame("d", BEFORE),
            frame("d", &HUSH[..cut]),
            // One commit for each piece, so that the draft has what came before.
            Ok(WriteFrame::Heartbeat),
            frame("d", &format!("{}.", &HUSH[cut..])),
            Ok(WriteFrame::End(Box::new(end))),
        ];
        let target = WriteTarget::Open("a1".to_owned());
        let begin = WriteStart { session: session.clone(), target, request_id: String::new() };
        let written = soon("the answer", test.app.messages().write(begin, stream::iter(frames))).await;
        let error = written.expect_err("a secret");
        assert_eq!((error.reason, error.metadata["client_id"].as_str()), (Reason::SecretRefused, "d"), "{error:?}");
        test.app.messages().finish(&session, "a1", NewFinish::default(), None).await.expect("sealed");
        let message = test.app.messages().get(&session, "a1").await.expect("the message").0;
        let names: Vec<_> = message.parts.iter().filter_map(|part| part.client_id.as_deref()).collect();
        assert_eq!((names, left_in(&read(&test, &session).await)), (vec!["e"], Vec::new()), "cut at {cut}");
    }
    assert_eq!(test.findings().await, []);
}

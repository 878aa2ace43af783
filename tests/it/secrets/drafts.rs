//! Secrets in text that comes piece by piece.

use super::{BEGIN, OTHER, SECRET, finding, holders, plain, restart, rules, start};
use crate::support::{TestApp, soon, words_of};
use futures::stream;
use longhand::app::Reason;
use longhand::app::append::{DraftEnd, DraftName, NewDraftText, OpenPart};
use longhand::app::events::{Frame, Start, SubscribeRequest};
use longhand::app::secrets::Action;
use longhand::app::writing::{DraftWords, MessageEnd, WriteFrame, WriteStart, WriteTarget};
use longhand::model::draft::DraftKind;
use longhand::model::message::NewFinish;
use longhand::model::part::{NewPart, PartBody};
use longhand::secrets::Syntax;

fn named(kind: DraftKind, offset: usize, delta: &str) -> NewDraftText {
    let offset = i64::try_from(offset).expect("an offset");
    NewDraftText { part: None, client_id: Some("d".to_owned()), kind, offset, delta: delta.to_owned() }
}

fn piece(offset: usize, delta: &str) -> NewDraftText {
    named(DraftKind::Text, offset, delta)
}

fn ended() -> Vec<OpenPart> {
    let draft = DraftName::Client("d".to_owned());
    vec![OpenPart::Ended(DraftEnd { draft, status: None, metadata_json: None, received: None })]
}

/// The text of the draft that readers see.
async fn shown(test: &TestApp, session: &str) -> String {
    let drafts = test.app.messages().get(session, "a1").await.expect("the message").1;
    drafts.first().map(|draft| draft.text.clone()).unwrap_or_default()
}

/// The text of the sealed or closed part.
async fn stored(test: &TestApp, session: &str) -> String {
    let message = test.app.messages().get(session, "a1").await.expect("the message").0;
    match &*message.parts[0].body {
        PartBody::ToolCall(call) => call.input_json.clone(),
        PartBody::ToolResult(result) => result.output.clone(),
        _ => words_of(&message),
    }
}

/// Pieces of a text, the same for each seed.
fn pieces(text: &str, seed: u64) -> Vec<(usize, String)> {
    let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let mut byte = [0];
        random.fill(&mut byte);
        let mut end = (at + 1 + usize::from(byte[0]) % if seed.is_multiple_of(2) { 3 } else { 23 }).min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        pieces.push((at, text[at..end].to_owned()));
        at = end;
    }
    pieces
}

#[tokio::test]
async fn however_text_is_cut_and_interrupted_it_becomes_the_redaction_of_the_whole() {
    let mut test = start(Action::Redact).await;
    let json = format!(r#"{{"a": "é {SECRET}\n\u0068ush-abcdef0123456789", "hush-": "{SECRET}", "n": 12"#);
    let texts = [
        (DraftKind::Text, Syntax::Text, format!("héllo hush-ab no, {SECRET}{OTHER} and hush-abcdef01 {SECRET}")),
        (DraftKind::ToolInput { call_id: "c".to_owned(), tool: "t".to_owned() }, Syntax::Json, json),
        (DraftKind::ToolOutput { call_id: "c".to_owned(), call_message: None }, Syntax::Text, format!("{{{SECRET}")),
    ];
    for seed in 0..9_u64 {
        let (kind, syntax, text) = &texts[usize::try_from(seed / 3).expect("an index")];
        let session = test.manual_session().await;
        test.append(&session, "u1 \"go\"\na1 open").await;
        let live = SubscribeRequest { sessions: vec![session.clone()], live: true, ..Default::default() };
        let mut watch = crate::support::Watch::new(test.app.events().subscribe(live.clone()).await.expect("a stream"));
        let mut seen = String::new();
        for (index, (at, delta)) in pieces(text, seed).into_iter().enumerate() {
            let receipt =
                test.app.messages().append_draft(&session, "a1", named(kind.clone(), at, &delta)).await.expect("taken");
            assert_eq!(
                receipt.length,
                i64::try_from(at + delta.len()).expect("a length"),
                "nothing is asked for again"
            );
            seen.push_str(&receipt.shown);
            assert_eq!(shown(&test, &session).await, seen);
            assert!(!seen.contains(BEGIN) && text.len() + 60 * 4 > seen.len(), "{seen}");
            // What the writer does not know to be written is sent again, from wherever.
            for from in [0, at / 2, at] {
                if text.is_char_boundary(from) {
                    let again = named(kind.clone(), from, &text[from..at + delta.len()]);
                    let again = test.app.messages().append_draft(&session, "a1", again).await.expect("a repetition");
                    assert_eq!((again.length, again.added_at), (receipt.length, None));
                }
            }
            if index % 7 == 6 {
                drop(watch);
                test = test.kill().await;
                test.longhand.store().apply_secret_rules(rules(Action::Redact)).expect("the key is there");
                watch = crate::support::Watch::new(test.app.events().subscribe(live.clone()).await.expect("a stream"));
            }
        }
        match seed % 3 {
            0 => drop(test.app.messages().append_parts(&session, "a1", ended()).await.expect("closed")),
            1 => drop(test.app.messages().finish(&session, "a1", NewFinish::default(), None).await.expect("sealed")),
            // Nobody writes any more.
            _ => {
                test.clock.advance(3_600_000);
                test.longhand.store().jobs().wake().await.expect("what is over ends");
            }
        }
        let whole = rules(Action::Redact).redact(test.longhand.store().secrets().salt(), *syntax, text);
        assert_eq!(stored(&test, &session).await, whole.text.expect("it is redacted"), "seed {seed}");
        for _ in 0..200 {
            match futures::FutureExt::now_or_never(watch.frame()) {
                Some(Frame::DraftDelta { delta, .. }) => assert!(!delta.delta.contains("hush-abcdef"), "{delta:?}"),
                Some(_) => {}
                None => break,
            }
        }
        // The draft has closed meanwhile.
        for (at, delta) in pieces(text, seed + 1) {
            let again = test.app.messages().append_draft(&session, "a1", named(kind.clone(), at, &delta)).await;
            again.unwrap_or_else(|error| panic!("{error}: {delta:?} at {at} of {text}"));
        }
        let other = named(kind.clone(), 0, &text.replace(SECRET, OTHER));
        assert!(test.app.messages().append_draft(&session, "a1", other).await.is_err(), "another text");
    }
    assert_eq!(holders(test.directory(), BEGIN), Vec::<String>::new());
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn what_readers_see_is_what_is_sent_to_them() {
    let test = start(Action::Redact).await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let request =
        SubscribeRequest { sessions: vec![session.clone()], live: true, start: Start::Now, ..Default::default() };
    let mut watch = crate::support::Watch::new(test.app.events().subscribe(request).await.expect("a stream"));
    let text = format!("one {SECRET} two h three");
    for (at, character) in text.char_indices() {
        test.app.messages().append_draft(&session, "a1", piece(at, &character.to_string())).await.expect("taken");
    }
    let mut seen = String::new();
    while !seen.ends_with("three") {
        if let Frame::DraftDelta { delta, .. } = watch.frame().await {
            assert_eq!(delta.offset, i64::try_from(seen.len()).expect("a length"), "no gap");
            seen.push_str(&delta.delta);
        }
    }
    assert_eq!((plain(&seen).as_str(), &seen), ("one <hush> two h three", &shown(&test, &session).await));
}

#[tokio::test]
async fn a_refused_piece_takes_its_draft_with_it() {
    let test = start(Action::Refuse).await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    test.app.messages().append_draft(&session, "a1", piece(0, "a hush-abc")).await.expect("taken");
    assert_eq!(shown(&test, &session).await, "a ");
    let error =
        test.app.messages().append_draft(&session, "a1", piece(10, "def0123456789 more")).await.expect_err("refused");
    assert_eq!((error.reason, error.metadata["rule"].as_str()), (Reason::SecretRefused, "hush"));
    let error =
        test.app.messages().append_draft(&session, "a1", piece(10, "xyz and more")).await.expect_err("it is gone");
    assert_eq!((error.reason, shown(&test, &session).await.as_str()), (Reason::SecretRefused, ""));
    // What was acknowledged whole cannot be refused when a draft closes.
    let other = |offset, delta: &str| NewDraftText { client_id: Some("e".to_owned()), ..piece(offset, delta) };
    test.app.messages().append_draft(&session, "a1", other(0, &format!("more {SECRET}"))).await.expect("it may go on");
    let draft = DraftName::Client("e".to_owned());
    let ended = DraftEnd { draft, status: None, metadata_json: None, received: None };
    let closed = test.app.messages().append_parts(&session, "a1", vec![OpenPart::Ended(ended)]).await.expect("closed");
    assert_eq!(closed.secrets, [finding("drafts", 1, Action::Refuse)], "the answer has it");
    assert_eq!(plain(&stored(&test, &session).await), "more <hush>");
    assert_eq!(holders(test.directory(), BEGIN), Vec::<String>::new());
}

#[tokio::test]
async fn the_answer_to_a_seal_has_what_the_end_of_drafts_brings() {
    let test = start(Action::Redact).await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let taken = test.app.messages().append_draft(&session, "a1", piece(0, SECRET)).await.expect("taken");
    assert_eq!(taken.secrets, [], "it waits");
    test.app
        .messages()
        .append_draft(&session, "a1", NewDraftText { client_id: None, ..piece(0, OTHER) })
        .await
        .expect("taken");
    let finish = NewFinish { detail: SECRET.to_owned(), ..NewFinish::default() };
    let sealed = test.app.messages().finish(&session, "a1", finish, None).await.expect("sealed");
    let found = [finding("finish.detail", 1, Action::Redact), finding("drafts", 2, Action::Redact)];
    assert_eq!(sealed.secrets, found);
}

#[tokio::test]
async fn a_draft_that_is_closed_again_is_recognised_under_other_rules() {
    let mut test = start(Action::Redact).await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let text = format!("a {SECRET} b {OTHER}");
    test.app.messages().append_draft(&session, "a1", piece(0, &text)).await.expect("taken");
    let close = |secret: &str| {
        let draft = DraftName::Client("d".to_owned());
        let metadata_json = Some(format!("[\"{secret}\"]"));
        vec![OpenPart::Ended(DraftEnd { draft, status: None, metadata_json, received: None })]
    };
    let whole = |text: &str, secret: &str| {
        vec![OpenPart::Whole(NewPart {
            client_id: Some("d".to_owned()),
            metadata_json: Some(format!("[\"{secret}\"]")),
            ..crate::support::text(text)
        })]
    };
    let closed = test.app.messages().append_parts(&session, "a1", close(SECRET)).await.expect("closed");
    for action in [Some(Action::Redact), None, Some(Action::Warn), None] {
        test = restart(test, action).await;
        for again in [close(SECRET), whole(&text, SECRET)] {
            let again = test.app.messages().append_parts(&session, "a1", again).await.expect("a repetition");
            assert_eq!((&again.ids, again.existed_count), (&closed.ids, 1), "{action:?}");
        }
        let swapped = format!("a {OTHER} b {SECRET}");
        let others =
            [close(OTHER), whole(&swapped, SECRET), whole(&text, OTHER), whole(&text[..text.len() - 1], SECRET)];
        for other in others {
            let error = test.app.messages().append_parts(&session, "a1", other).await.expect_err("another part");
            assert_eq!(error.reason, Reason::ClientIdReused, "{action:?}");
        }
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn placeholders_count_with_their_own_length_and_have_a_maximum() {
    let test = start(Action::Redact).await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let secrets = |count: usize| format!("{}end", format!("{SECRET} ").repeat(count));
    let error =
        test.app.messages().append_draft(&session, "a1", piece(0, &secrets(1_001))).await.expect_err("too many");
    assert_eq!((error.reason, error.metadata["limit"].as_str()), (Reason::LimitExceeded, "1000"), "{error}");
    let taken = test.app.messages().append_draft(&session, "a1", piece(0, &secrets(1_000))).await.expect("taken");
    let length = usize::try_from(taken.length).expect("a length");
    let error =
        test.app.messages().append_draft(&session, "a1", piece(length, &secrets(1))).await.expect_err("one more");
    assert_eq!(error.reason, Reason::LimitExceeded);
    test.app.messages().append_draft(&session, "a1", piece(length, " text")).await.expect("text goes on");
    // What is received would fit, what is stored does not.
    test.append(&session, "a2 open").await;
    let rest = secrets(200).len() + 500;
    let fill = "x".repeat(longhand::limits::MESSAGE_BYTES_MAX / 2 - rest / 2);
    for _ in 0..2 {
        let part = vec![OpenPart::Whole(crate::support::text(&fill))];
        test.app.messages().append_parts(&session, "a2", part).await.expect("taken");
    }
    let error = test.app.messages().append_draft(&session, "a2", piece(0, &secrets(200))).await.expect_err("too long");
    assert_eq!((error.reason, error.metadata["limit"].as_str()), (Reason::LimitExceeded, "8388608"), "{error}");
    test.app.messages().append_draft(&session, "a2", piece(0, &"x".repeat(secrets(200).len()))).await.expect("it fits");
}

#[tokio::test]
async fn what_waits_of_a_draft_is_of_no_use_for_another() {
    let test = start(Action::Redact).await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open\na2 open").await;
    for message in ["a1", "a2"] {
        test.app.messages().append_draft(&session, message, piece(0, "hush-abc")).await.expect("taken");
    }
    let copy = "update draft set hidden = (select hidden from draft order by id desc limit 1) \
         where id = (select min(id) from draft)";
    assert_eq!(test.database().execute(copy), Ok(1));
    let error = test.app.messages().append_draft(&session, "a1", piece(8, "def")).await.expect_err("nothing waits");
    assert_eq!((error.reason, error.metadata["length_bytes"].as_str()), (Reason::OffsetMismatch, "0"));
    test.app.messages().append_draft(&session, "a2", piece(8, "def")).await.expect("its own waits");
}

#[tokio::test]
async fn a_stream_of_frames_passes_the_rules_too() {
    let test = start(Action::Redact).await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let frame = |delta: &str| {
        WriteFrame::Words(DraftWords { client_id: "d".to_owned(), kind: None, offset: None, delta: delta.to_owned() })
    };
    let mut frames: Vec<WriteFrame> = SECRET.chars().map(|character| frame(&character.to_string())).collect();
    frames.insert(0, frame("a "));
    frames.push(frame(" b"));
    let finish = NewFinish { detail: SECRET.to_owned(), ..NewFinish::default() };
    frames.push(WriteFrame::End(Box::new(MessageEnd { finish, window: None, hash: [1; 32] })));
    let target = WriteTarget::Open("a1".to_owned());
    let begin = || WriteStart { session: session.clone(), target: target.clone(), request_id: "w".to_owned() };
    let written =
        test.app.messages().write(begin(), stream::iter(frames.clone().into_iter().map(Ok::<_, longhand::app::Error>)));
    let written = soon("the answer", written).await.expect("written");
    assert!(written.sealed);
    let fields: Vec<String> = written.secrets.iter().map(|found| found.field.clone()).collect();
    assert_eq!(fields, ["draft_text.delta", "finish.detail"]);
    assert_eq!(plain(&stored(&test, &session).await), "a <hush> b");
    let again = test.app.messages().write(begin(), stream::iter(frames.into_iter().map(Ok::<_, longhand::app::Error>)));
    assert_eq!(soon("the answer", again).await.expect("a repetition").newest.revision, written.newest.revision);
    assert_eq!(holders(test.directory(), BEGIN), Vec::<String>::new());
}

#[tokio::test]
async fn a_draft_outlives_changes_of_the_rules_and_the_loss_of_its_key() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    test.app.messages().append_draft(&session, "a1", piece(0, "before whisper")).await.expect("taken");
    let test = restart(test, Some(Action::Redact)).await;
    test.app
        .messages()
        .append_draft(&session, "a1", piece(14, &format!("-1234 {SECRET} hush-abc")))
        .await
        .expect("taken");
    assert_eq!(plain(&shown(&test, &session).await), "before whisper-1234 <hush> ");
    let test = restart(test, None).await;
    test.app.messages().append_draft(&session, "a1", piece(50, "def")).await.expect("taken without rules");
    assert_eq!(plain(&shown(&test, &session).await), "before whisper-1234 <hush> hush-abcdef");
    let test = restart(test, Some(Action::Redact)).await;
    test.app.messages().append_draft(&session, "a1", piece(53, " and hush-00")).await.expect("taken");
    // A backup has no key: what waited is lost with it, and the writer learns from where to go on.
    let directory = test.stop().await;
    std::fs::remove_file(directory.path().join("draft-key")).expect("there is one");
    let test = TestApp::reopen(directory, std::sync::Arc::new(longhand::summarizer::Extractive)).await;
    test.longhand.store().apply_secret_rules(rules(Action::Redact)).expect("another key");
    let error = test.app.messages().append_draft(&session, "a1", piece(65, "0")).await.expect_err("a gap");
    assert_eq!(error.reason, Reason::OffsetMismatch);
    let length: usize = error.metadata["length_bytes"].parse().expect("a length");
    assert_eq!(length, shown(&test, &session).await.len());
    test.app.messages().append_draft(&session, "a1", piece(length, "hush-00")).await.expect("it goes on");
    // Nor needs a daemon without rules one, and a draft of which nothing waits goes on there.
    let directory = test.stop().await;
    std::fs::remove_file(directory.path().join("draft-key")).expect("there is one");
    let test = TestApp::reopen(directory, std::sync::Arc::new(longhand::summarizer::Extractive)).await;
    let length = shown(&test, &session).await.len();
    test.app.messages().append_draft(&session, "a1", piece(length, "hush-00")).await.expect("it goes on without rules");
    test.app.messages().append_draft(&session, "a1", piece(length + 7, "1")).await.expect("and on");
    test.app.messages().finish(&session, "a1", NewFinish::default(), None).await.expect("sealed");
    assert_eq!(plain(&stored(&test, &session).await), "before whisper-1234 <hush> hush-abcdef and hush-001");
}

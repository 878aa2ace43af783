//! Requests that a provider refused because of what their view contains: each kind of refusal has its own recovery.

use crate::support::{TestApp, conversation, shown, turns};
use longhand::app::Reason;
use longhand::app::compactions::Overflow;
use longhand::model::compaction::{Compaction, CompactionKind, Trigger};
use longhand::model::event::EventBody;
use longhand::model::message::{FinishReason, NewFinish, NewMessage};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};

/// Refusals because of media, as providers write them.
const MEDIA: [&str; 7] = [
    "messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 \
     pixels",
    "messages.1.content.2.image.source.base64: image exceeds 5 MB maximum: 6275800 bytes > 5242880 bytes",
    "too many images and documents: 104 + 1 > 100",
    "Too much media: 0 document pages + 101 images > 100",
    "At most 5 image(s) may be provided in one request.",
    // What cannot be read is refused in every later request too.
    "Could not process image",
    "messages.0.content.1.pdf.source.base64.data: The PDF specified was not valid.",
];

fn refused(status: u16, message: &str) -> Overflow {
    Overflow { status: Some(status), message: message.to_owned(), ..Overflow::default() }
}

fn image(name: &str) -> Media {
    let source = MediaSource::Uri(format!("file:{name}"));
    Media { mime_type: "image/png".to_owned(), name: name.to_owned(), source }
}

/// A request with an image.
fn question(name: &str) -> Vec<NewMessage> {
    let mut request = conversation(&format!("{name} \"what does it show?\""));
    request[0].parts.push(NewPart::new(PartBody::Media(image(&format!("{name}.png")))));
    request
}

/// A call, and its result with an image.
fn screenshot(name: &str) -> Vec<NewMessage> {
    let mut messages = conversation(&format!("a{name} \"looking\" call={name}\nt{name} result={name}:8c"));
    let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut messages[1].parts[0].body) else {
        panic!("a result")
    };
    result.attachments.push(image(&format!("{name}.png")));
    messages
}

/// A reply that failed with these words.
fn failed(name: &str, detail: &str) -> Vec<NewMessage> {
    let mut reply = conversation(&format!("{name} \"\""));
    let finish = NewFinish { reason: Some(FinishReason::Error), detail: detail.to_owned(), ..NewFinish::default() };
    reply[0].finish = Some(finish);
    reply
}

/// A session that has much to compact, an image in a result and one in the last request.
async fn session(test: &TestApp, preset: &str) -> String {
    let session = test.session(preset, 200_000, 8_000).await;
    test.append(&session, &turns(1, 6, 4_000)).await;
    append(test, &session, screenshot("s1")).await;
    append(test, &session, conversation("a7 \"done\"")).await;
    append(test, &session, question("u90")).await;
    session
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>) {
    test.app.messages().append(session, messages, None, None).await.expect("appended");
}

/// Number of media in the view.
async fn media(test: &TestApp, session: &str) -> usize {
    let view = test.view(session).await;
    let parts = view.messages.iter().flat_map(|message| &message.parts);
    let of = |body: &PartBody| match body {
        PartBody::Media(_) => 1,
        PartBody::ToolResult(result) => result.attachments.len(),
        _ => 0,
    };
    parts.map(|part| of(&part.body)).sum()
}

async fn report(test: &TestApp, session: &str, overflow: Overflow) -> Result<Compaction, Reason> {
    let (compaction, _) =
        test.app.compactions().report_overflow(session, overflow).await.map_err(|error| error.reason)?;
    test.settled().await;
    Ok(test.app.compactions().get(&compaction.id.to_string()).await.expect("a compaction"))
}

/// The kinds of the compactions for overflows that began, and the reasons of those that failed.
async fn outcomes(test: &TestApp) -> (Vec<CompactionKind>, Vec<String>) {
    test.settled().await;
    let events = test.events().await;
    let began = events.iter().filter_map(|event| match &event.body {
        EventBody::CompactionStarted { trigger: Trigger::Overflow, kind, .. } => Some(*kind),
        _ => None,
    });
    let failed = events.iter().filter_map(|event| match &event.body {
        EventBody::CompactionFailed { failure, .. } => Some(failure.reason.as_str().to_owned()),
        _ => None,
    });
    (began.collect(), failed.collect())
}

/// Checks that all media left a view that still has all of its messages, and that the originals can be expanded.
async fn check_without_media(test: &TestApp, session: &str, before: usize) {
    let view = test.view(session).await;
    let lines = shown(&view);
    assert_eq!(media(test, session).await, 0, "{lines:?}");
    assert!(view.covered.is_none(), "no summary: {lines:?}");
    assert_eq!(view.messages.len(), before, "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("[attached image/png: u90.png]")), "{lines:?}");
    let results = view.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match &*part.body {
        PartBody::ToolResult(result) => Some((part, result)),
        _ => None,
    });
    let (part, result) = results.into_iter().next().expect("a result");
    assert!(result.output.ends_with("[Attached image/png: s1.png]") && part.shortened.is_some(), "{lines:?}");
    let id = part.source.expect("a stored result").to_string();
    let original = test.app.messages().expand(session, &id, 0, "").await.expect("expanded");
    let parts = original.messages.iter().flat_map(|message| &message.parts);
    assert!(
        parts
            .into_iter()
            .any(|part| matches!(&*part.body, PartBody::ToolResult(result) if !result.attachments.is_empty()))
    );
}

#[tokio::test]
async fn refused_media_leave_the_view_without_a_summary() {
    // Some presets count nothing for an image, so that its note is longer.
    for preset in ["opencode@seed", "pi@0.73", "pi@1.5", "claude-code@seed", "gemini-cli", "codex"] {
        let test = TestApp::start().await;
        let session = session(&test, preset).await;
        test.settled().await;
        let before = test.view(&session).await.messages.len();
        let done = report(&test, &session, refused(400, MEDIA[0])).await.expect("taken");
        assert_eq!((done.request.kind, done.request.level), (CompactionKind::Prune, None), "{preset}");
        assert!(done.outcome.is_some() && done.requests.is_empty(), "{preset}: {done:?}");
        check_without_media(&test, &session, before).await;
        assert_eq!(report(&test, &session, refused(400, MEDIA[0])).await, Err(Reason::OverflowAgain), "{preset}");
        assert_eq!(outcomes(&test).await, (vec![CompactionKind::Prune], vec![]), "{preset}");
        assert_eq!(test.findings().await, []);
    }
}

#[tokio::test]
async fn a_reply_that_failed_because_of_media_reports_it() {
    for words in MEDIA {
        let test = TestApp::start().await;
        let session = session(&test, "opencode@seed").await;
        let before = test.view(&session).await.messages.len();
        append(&test, &session, failed("a91", words)).await;
        assert_eq!(outcomes(&test).await, (vec![CompactionKind::Prune], vec![]), "{words}");
        check_without_media(&test, &session, before).await;
        append(&test, &session, failed("a92", words)).await;
        assert_eq!(outcomes(&test).await.1, ["OVERFLOW_AGAIN"], "nothing is left to remove: {words}");
    }
}

#[tokio::test]
async fn each_new_image_of_a_turn_can_be_refused() {
    let test = TestApp::start().await;
    let session = session(&test, "opencode@seed").await;
    for round in 0..3 {
        append(&test, &session, screenshot(&format!("n{round}"))).await;
        assert!(media(&test, &session).await > 0);
        report(&test, &session, refused(400, MEDIA[1])).await.expect("taken");
        assert_eq!(media(&test, &session).await, 0, "round {round}");
    }
    assert_eq!(outcomes(&test).await, (vec![CompactionKind::Prune; 3], vec![]));
}

#[tokio::test]
async fn a_body_that_is_too_large_loses_its_media_first() {
    let test = TestApp::start().await;
    let session = session(&test, "opencode@seed").await;
    let before = test.view(&session).await.messages.len();
    report(&test, &session, refused(413, "Payload Too Large")).await.expect("taken");
    check_without_media(&test, &session, before).await;
    report(&test, &session, refused(413, "Payload Too Large")).await.expect("the view is still too large");
    assert!(test.view(&session).await.covered.is_some(), "what is left is compacted");
    assert_eq!(report(&test, &session, refused(413, "Payload Too Large")).await, Err(Reason::OverflowAgain));
}

#[tokio::test]
async fn media_do_not_answer_for_a_view_that_is_too_long() {
    let test = TestApp::start().await;
    let session = session(&test, "opencode@seed").await;
    report(&test, &session, refused(400, MEDIA[2])).await.expect("taken");
    report(&test, &session, refused(400, "prompt is too long: 9 tokens")).await.expect("another refusal");
    assert!(test.view(&session).await.covered.is_some());
    assert_eq!(report(&test, &session, refused(400, "prompt is too long")).await, Err(Reason::OverflowAgain));
}

#[tokio::test]
async fn media_that_are_not_there_start_nothing() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 200_000, 8_000).await;
    test.append(&session, &turns(1, 6, 4_000)).await;
    assert_eq!(report(&test, &session, refused(400, MEDIA[3])).await, Err(Reason::NothingToCompact));
    for others in ["Invalid API key", "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens"]
    {
        assert_eq!(report(&test, &session, refused(400, others)).await, Err(Reason::OverflowNotRecognized), "{others}");
    }
    assert_eq!(outcomes(&test).await, (vec![], vec![]));
}

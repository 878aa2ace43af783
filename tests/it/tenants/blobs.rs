//! Large bodies and media: equal ones of two tenants are kept twice, so that nothing tells one that the other has them.

use super::quotas::of;
use crate::archives::{acting, export, import, sealed, unsealed};
use crate::support::{TestApp, conversation, text};
use longhand::app::append::ListMessages;
use longhand::app::erase::{EraseAnswer, EraseRequest, EraseTarget};
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::{Caller, Reason};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};

/// A secret that may be guessed: a body and an attachment, each large enough to be a blob.
fn guessed() -> (String, Vec<u8>) {
    let words = (0..60_000).map(|number| format!("{number} ")).collect::<String>();
    (words, (0..300_000_u32).flat_map(u32::to_be_bytes).collect())
}

async fn create(app: &Caller) -> String {
    app.sessions().create(NewSession::default()).await.expect("a session").answer.0.session.id.to_string()
}

/// Appends the body and the attachment as one message.
async fn append(app: &Caller, session: &str) {
    let (words, bytes) = guessed();
    let media = Media { mime_type: "image/png".to_owned(), source: MediaSource::Bytes(bytes), ..Media::default() };
    let mut messages = conversation("u1 \"look\"\nu2 \"done\"");
    messages[0].parts.extend([text(&words), NewPart::new(PartBody::Media(media))]);
    app.messages().append(session, messages, None, None).await.expect("appended");
}

async fn erase(app: &Caller, session: &str, dry_run: bool) -> EraseAnswer {
    let target = EraseTarget::Messages(vec!["u1".to_owned()]);
    let request = EraseRequest { target, reason: "a key".to_owned(), dry_run, expected_revision: None };
    app.content().erase(session, request).await.expect("erased")
}

fn count(test: &TestApp) -> i64 {
    test.number("select count(*) from blob")
}

#[tokio::test]
async fn an_erasure_does_not_tell_what_another_tenant_has() {
    let test = TestApp::start().await;
    let (acme, other) = (of(&test, "acme"), of(&test, "other"));
    let (theirs, guess) = (create(&acme).await, create(&other).await);
    append(&other, &guess).await;
    let nobodys = erase(&other, &guess, true).await.sizes;
    append(&acme, &theirs).await;
    assert_eq!(count(&test), 4, "each tenant has its own");
    assert_eq!(erase(&other, &guess, true).await.sizes, nobodys);
    assert_eq!((nobodys.blobs, erase(&other, &guess, false).await.sizes.blobs), (2, 2));
    assert_eq!(count(&test), 2);
    let (words, bytes) = guessed();
    let page = acme.messages().list(&theirs, ListMessages::default()).await.expect("a page");
    let parts: Vec<_> = page.messages[0].parts.iter().map(|part| &*part.body).collect();
    assert!(parts.iter().any(|body| **body == PartBody::Text(words.clone())));
    assert!(
        parts.iter().any(
            |body| matches!(body, PartBody::Media(Media { source: MediaSource::Bytes(read), .. }) if *read == bytes)
        )
    );
    assert_eq!(test.findings().await, []);
    assert_eq!((erase(&acme, &theirs, false).await.sizes.blobs, count(&test)), (2, 0));
}

#[tokio::test]
async fn sessions_of_one_tenant_share_what_they_have() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    let (first, second) = (create(&acme).await, create(&acme).await);
    append(&acme, &first).await;
    append(&acme, &second).await;
    acme.sessions().fork(&first, ForkPoint::default(), None, String::new()).await.expect("a fork");
    assert_eq!(count(&test), 2);
    assert_eq!((erase(&acme, &first, false).await.sizes.blobs, count(&test)), (0, 2));
    assert_eq!((erase(&acme, &second, false).await.sizes.blobs, count(&test)), (2, 0));
    assert_eq!(test.findings().await, []);
}

/// Whoever knows the hash of an attachment must not get its bytes by an archive that only names it.
#[tokio::test]
async fn an_archive_without_its_blobs_finds_none_of_another_tenant() {
    let source = TestApp::start().await;
    let session = create(&source.app).await;
    append(&source.app, &session).await;
    let mut lines = unsealed(&export(&source.app, &session).await.expect("exported"));
    lines.retain(|line| !line.starts_with(r#"{"table":"blob""#));
    let hollow = sealed(&lines);
    let target = TestApp::start().await;
    let (acme, other) = (acting(&target, "acme"), acting(&target, "other"));
    let nobodys = import(&other, &hollow).await.expect_err("nobody has the bytes");
    let theirs = create(&acme).await;
    append(&acme, &theirs).await;
    let refused = import(&other, &hollow).await.expect_err("another tenant has the bytes");
    assert_eq!((refused.reason, &refused.message), (Reason::ArchiveInvalid, &nobodys.message));
    assert_eq!(count(&target), 2);
    // In the tenant that has them, the archive names what is its own.
    import(&acme, &hollow).await.expect("imported");
    assert_eq!((count(&target), target.findings().await), (2, vec![]));
}

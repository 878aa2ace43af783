//! Stored bytes of every version: what a version wrote, all later ones read in the same way.
//!
//! `tests/formats/VERSION` has a store with every kind of row, and its content as the version that wrote it read it.
//! Until the first release, `LONGHAND_BLESS=1` writes both anew after a change of the formats. Those of a released
//! version never change again.

use crate::support::{TestApp, private_folder};
use crate::tamper;
use longhand::app::events::ListEvents;
use longhand::store::Visibility;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

/// A hash of a text, as far as a reader can compare it.
fn short(text: impl AsRef<[u8]>) -> String {
    blake3::hash(text.as_ref()).to_hex()[..16].to_owned()
}

/// All that is read from a store: messages, events, and every view of every session at every revision. Values that a
/// later version may add to have no place in it.
pub(crate) async fn content(test: &TestApp) -> String {
    let mut out = String::new();
    let (mut sessions, _) = test.app.sessions().list(&crate::support::all_sessions(100)).await.expect("the sessions");
    sessions.sort_by_key(|info| info.session.id);
    for info in sessions {
        let session = info.session;
        let id = session.id.to_string();
        writeln!(out, "session {id} {:?} {:?} {:?}", session.title, session.client_id, session.preset).expect("text");
        for message in test.history(&id).await {
            let (role, kind) = (message.role, message.kind);
            let revisions = (message.revision, message.sealed_revision);
            writeln!(out, "  {} {revisions:?} {role:?} {kind:?} {:?}", message.id, message.client_id).expect("text");
            for part in &message.parts {
                let words = crate::support::body_text(&part.body).map(short);
                writeln!(out, "    {} {} {words:?}", part.id, part.body.kind()).expect("text");
            }
        }
        for at in 0..=session.revision {
            let view = test.view_as_of(&id, at).await;
            let (_, hash) =
                test.longhand.store().log().chain_hash(key(test, &id).await, Some(at)).await.expect("a hash");
            let (view, chain) = (short(view.hash), short(hash.unwrap_or_default()));
            writeln!(out, "  at {at}: view {view}, chain {chain}").expect("text");
        }
        let list = ListEvents { session: Some(id), page_size: 1_000, ..ListEvents::default() };
        for served in test.app.events().list(list).await.expect("the events").0 {
            let event = served.event;
            writeln!(out, "  event {} {} {:?}", event.revision, event.seq, event.body.kind()).expect("text");
        }
    }
    out
}

async fn key(test: &TestApp, id: &str) -> longhand::store::SessionKey {
    test.longhand.store().sessions().find(&Visibility::default(), id).await.expect("the session")
}

/// A folder with the unpacked store of a version.
fn unpacked(version: &Path) -> tempfile::TempDir {
    let packed = fs::read(version.join("longhand.db.zst")).expect("a store");
    let directory = private_folder();
    let store = directory.path().join("longhand.db");
    fs::write(&store, zstd::decode_all(&*packed).expect("a packed store")).expect("written");
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&store, owner_only).expect("closed to others");
    directory
}

async fn read(version: &Path) -> String {
    let directory = unpacked(version);
    let test = TestApp::copy_of(directory.path()).await;
    let content = content(&test).await;
    assert_eq!(test.findings().await, [], "{}", version.display());
    content
}

/// Writes the store of this version anew.
async fn write(version: &Path) {
    let directory = tamper::closed().await;
    let bytes = fs::read(directory.path().join("longhand.db")).expect("a store");
    fs::create_dir_all(version).expect("a folder");
    fs::write(version.join("longhand.db.zst"), zstd::encode_all(&*bytes, 19).expect("packed")).expect("written");
    fs::write(version.join("content.txt"), read(version).await).expect("written");
}

#[tokio::test]
async fn the_stores_of_all_versions_are_read_as_they_were_written() {
    let own = folder().join(env!("CARGO_PKG_VERSION"));
    if std::env::var_os("LONGHAND_BLESS").is_some_and(|value| value == "1") {
        write(&own).await;
    }
    assert!(own.exists(), "there is no store of this version: LONGHAND_BLESS=1 writes it");
    for version in fs::read_dir(folder()).expect("the folder") {
        let version = version.expect("a version").path();
        let expected = fs::read_to_string(version.join("content.txt")).expect("its content");
        let found = read(&version).await;
        let difference = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
        assert_eq!(difference, None, "{}", version.display());
        assert_eq!(expected.lines().count(), found.lines().count(), "{}", version.display());
    }
}

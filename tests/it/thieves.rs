//! Who has a copy of what a store is kept in, and what is in it: content lies there in plain, until it is erased.

use crate::archives::acting;
use crate::backups::finish;
use crate::database::stored;
use crate::engines::erase_at_once;
use crate::support::{TestApp, conversation, private_folder};
use longhand::app::Caller;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::sessions::NewSession;
use std::path::Path;

// Too short to be compressed.
const KEPT: &str = "kept:W8rT2zLq9XbN4vJc7Y";
const ERASED: &str = "erased:mK1sHd6PgF3wQyE5Ra";

fn holders(directory: &Path, text: &str) -> Vec<String> {
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    stored(directory).into_iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
}

async fn session(caller: &Caller, text: &str) -> String {
    let created = caller.sessions().create(NewSession::default()).await.expect("a session");
    let id = created.answer.0.session.id.to_string();
    caller.messages().append(&id, conversation(&format!("u1 \"{text}\"")), None, None).await.expect("appended");
    id
}

async fn erase(caller: &Caller, session: &str) {
    let (target, reason) = (EraseTarget::Session, "it is over".to_owned());
    let request = EraseRequest { target, reason, dry_run: false, expected_revision: None };
    erase_at_once(caller, session, request).await;
}

#[tokio::test]
async fn files_and_backups_show_what_is_stored_and_older_backups_what_was_erased_since() {
    let test = TestApp::start().await;
    let folder = private_folder();
    session(&test.app, KEPT).await;
    let gone = session(&test.app, ERASED).await;
    finish(&test, &folder.path().join("before.db")).await.expect("a backup");
    erase(&test.app, &gone).await;
    finish(&test, &folder.path().join("after.db")).await.expect("a backup");
    assert_ne!(holders(test.directory(), KEPT), Vec::<String>::new(), "nothing is encrypted");
    assert_eq!(holders(test.directory(), ERASED), Vec::<String>::new());
    let mut backups = holders(folder.path(), KEPT);
    backups.sort();
    assert_eq!(backups, ["after.db", "before.db"]);
    assert_eq!(holders(folder.path(), ERASED), ["before.db"]);
}

#[tokio::test]
async fn a_tenant_that_leaves_has_its_sessions_erased_and_another_one_keeps_the_same_content() {
    let test = TestApp::start().await;
    let (leaving, staying) = (acting(&test, "acme"), acting(&test, "other"));
    let (first, second) = (session(&leaving, ERASED).await, session(&leaving, KEPT).await);
    session(&staying, KEPT).await;
    for gone in [&first, &second] {
        erase(&leaving, gone).await;
    }
    assert_eq!(holders(test.directory(), ERASED), Vec::<String>::new());
    assert_ne!(holders(test.directory(), KEPT), Vec::<String>::new(), "it is the other tenant's as well");
}

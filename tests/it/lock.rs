//! A data directory is used by one daemon at a time.

use crate::support::TestApp;
use longhand::clock::Clock;
use longhand::store::{Durability, Options, Store};

#[tokio::test]
async fn a_second_daemon_gets_an_error_that_the_directory_is_taken() {
    let test = TestApp::start().await;
    let options = || Options { directory: test.directory().to_owned(), durability: Durability::Full };
    let error = Store::open(options(), Clock::default()).await.err().expect("refused").to_string();
    assert_eq!(error, format!("another daemon has the data directory {}", test.directory().display()));
    let session = test.manual_session().await;
    test.append(&session, "u1 \"the first one goes on\"").await;
    let directory = test.stop().await;
    let options = Options { directory: directory.path().to_owned(), durability: Durability::Full };
    let (store, _writer) = Store::open(options, Clock::default()).await.expect("the lock ends with its daemon");
    assert_eq!(store.durability(), Durability::Full);
}

//! Erasures in their short form: every byte of every file is read for what was erased.

use crate::ATTACK;
use longhand_attack::erasures::{self, Options};
use std::path::Path;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_what_was_erased_is_left_in_any_file() {
    let options =
        Options { seed: Some(1), erasures: 120, seconds: 120, interval: 10, life_ms: 4_000, ..Options::default() };
    let report = erasures::run(Path::new(ATTACK), options).await.expect("the attack runs");
    assert!(report.erasures > 0 && report.kills > 0, "{report}");
    assert!(report.seen.0 > 0 && report.seen.1 > 0, "the files had it before: {report}");
    assert_eq!(report.findings, Vec::<String>::new(), "{report}");
}

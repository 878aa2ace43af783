//! The history checker in its short form: few clients, few kills, one round.

use crate::ATTACK;
use longhand_attack::history::{self, Options};
use std::path::Path;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn received_answers_hold_while_the_daemon_is_killed() {
    let options = Options {
        seed: Some(1),
        kills: 10,
        round: 10,
        writers: 5,
        rewriters: 2,
        watchers: 3,
        readers: 1,
        summarizers: 1,
        sessions: 4,
        answers: 80,
        ..Options::default()
    };
    let report = history::run(Path::new(ATTACK), options).await.expect("the attack runs");
    assert!(report.kills >= 10 && report.events > 0, "{report}");
    assert_eq!(report.findings, Vec::<String>::new(), "{report}");
}

//! The attacks in their short forms.

#[path = "short/damage.rs"]
mod damage;
#[path = "short/erasures.rs"]
mod erasures;
#[path = "short/fuzz.rs"]
mod fuzz;
#[path = "short/history.rs"]
mod history;
#[path = "short/overload.rs"]
mod overload;

use longhand_attack::daemon::Daemon;
use std::path::Path;

/// The path of the `attack` program, which is both the attacker and the daemon under attack.
pub(crate) const ATTACK: &str = env!("CARGO_BIN_EXE_attack");

#[tokio::test]
async fn the_daemon_under_attack_is_the_real_one_and_stops_when_it_is_asked() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(Path::new(ATTACK), directory.path(), |_| {}).await.expect("the daemon starts");
    assert!(daemon.socket().exists(), "it listens");
    assert!(daemon.stop().await.expect("the daemon ends").success(), "it stopped cleanly");
}

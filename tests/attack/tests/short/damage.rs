//! Damaged files in short forms. Tests that need a mount print SKIP where mounting is not permitted.

use crate::ATTACK;
use longhand_attack::damage::{self, LogDamage, Loss};
use std::path::Path;

const SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_loses_its_files_stops_acknowledging_and_reports_it() {
    for loss in Loss::ALL {
        damage::lost(Path::new(ATTACK), loss).await.unwrap_or_else(|error| panic!("{loss:?}: {error:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_sync_failed_is_uncertain_and_there_once_when_it_is_asked_for_again() {
    damage::failed_sync(Path::new(ATTACK)).await.expect("it holds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_has_its_own_reason_and_writes_are_taken_again() {
    damage::full(Path::new(ATTACK)).await.expect("it holds");
    println!("{}", damage::disk_full(Path::new(ATTACK)).await.expect("it holds"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_checkpoint_is_reported_until_one_succeeds() {
    damage::failed_checkpoint(Path::new(ATTACK)).await.expect("it holds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_file_system_is_refused_with_a_sentence() {
    println!("{}", damage::read_only(Path::new(ATTACK)).await.expect("it holds"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_leaves_a_whole_prefix() {
    for damage in LogDamage::ALL {
        damage::log_damage(Path::new(ATTACK), damage, SEED)
            .await
            .unwrap_or_else(|error| panic!("{damage:?}: {error:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_daemons_one_has_a_store() {
    damage::two_daemons(Path::new(ATTACK)).await.expect("it holds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_is_found_and_reported_for_its_row_only() {
    damage::one_flip(Path::new(ATTACK), SEED).await.expect("it holds");
    println!("{}", damage::flips(Path::new(ATTACK), SEED, 5).await.expect("it holds"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_of_an_altered_database_names_what_it_lacks() {
    let exports = damage::exports(Path::new(ATTACK), SEED, 60).await.expect("it holds");
    println!("{exports}");
    assert!(exports.named > 0 && exports.whole > 0, "{exports}");
}

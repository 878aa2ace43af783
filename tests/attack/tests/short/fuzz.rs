//! Mutation fuzzing in its short form: every input that once failed, and some mutations of every decoder.

use clap::ValueEnum as _;
use longhand_attack::fuzz::{self, Target};
use std::path::Path;

/// Number of mutations of one target: few if each attempt reads a whole store.
fn mutations(target: Target) -> u64 {
    match target {
        Target::Rows => 60,
        Target::Rpc | Target::Cursors | Target::Policies => 400,
        Target::Disk | Target::Import | Target::Lines | Target::Settings | Target::Replies => 2_000,
    }
}

#[test]
fn inputs_that_failed_before_are_answered() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in Target::value_variants() {
        let failed = fuzz::replay(*target, &corpus).expect("the corpus is read");
        assert_eq!(failed, [], "{}", target.name());
    }
}

#[test]
fn altered_inputs_of_every_decoder_are_taken_or_refused_and_nothing_else() {
    let seed = 1;
    let keep = tempfile::tempdir().expect("a temporary folder");
    for target in Target::value_variants() {
        let statistics = fuzz::fuzz(*target, seed, mutations(*target), keep.path()).expect("the fuzzer runs");
        let failures: Vec<String> =
            statistics.failures.iter().map(|(input, why)| format!("{why}: {input:?}")).collect();
        assert_eq!(failures, Vec::<String>::new(), "{}, seed {seed}", target.name());
        assert_eq!(statistics.tried, mutations(*target));
        assert!(statistics.taken < statistics.tried, "{}: nothing was refused, so nothing was altered", target.name());
    }
}

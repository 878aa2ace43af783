//! False claims in summaries, and true ones beside them, about one history.

use super::Talk;
use crate::carried::what_happened;
use crate::{Covered, Evidence, contradictions};
use longhand_model::compaction::ContradictionKind::{self, Check, Commit, File};
use serde_json::json;

/// A session with two commits, edits after the last one, checks that passed and failed, and a deletion.
fn talk() -> Talk {
    let edit = |path: &str| json!({"file_path": path, "old_string": "a", "new_string": "let b = 1;"});
    Talk::default()
        .user("make the importer survive empty rows, and keep the old column names")
        .works("Edit", edit("/w/quay/src/reader.rs"), "ok")
        .runs("cargo test -p quay", "test result: ok. 41 passed; 0 failed; 0 ignored")
        .runs("git commit -am 'Skip empty rows'", "[main 5d1e0af] Skip empty rows\n 1 file changed")
        .works("Edit", edit("/w/quay/src/columns.rs"), "ok")
        .runs("cargo fmt && cargo clippy -- -D warnings", "Finished dev profile")
        .runs("git commit -am 'Keep the names of columns'", "[main 77c20be] Keep the names of columns\n 1 file changed")
        .works("Edit", edit("/w/quay/src/export.rs"), "ok")
        .works("Edit", edit("/w/quay/tests/rows.rs"), "ok")
        .runs("rm /w/quay/old_notes.md", "")
        .fails("bash", json!({"command": "./seed.sh && npm run lint"}), "src/a.ts:3:1: error no-unused-vars")
        .fails("bash", json!({"command": "mix credo --strict"}), "** (Mix) 3 issues found")
        .runs("cargo test -p quay", "test result: ok. 43 passed; 0 failed; 0 ignored")
        .user("now look at the export again")
}

#[test]
fn false_claims_are_reported_and_true_ones_are_not() {
    let cases: [(&str, Option<ContradictionKind>); 40] = [
        ("`npm run lint` passes.", Some(Check)),
        ("Lint is clean: `npm run lint` passed without errors.", Some(Check)),
        ("`npm run lint` 通过", Some(Check)),
        ("The linter (`mix credo --strict`) is green.", Some(Check)),
        ("npm run lint now succeeds", Some(Check)),
        ("mix credo passes", Some(Check)),
        ("All 52 tests pass.", Some(Check)),
        ("`cargo test -p quay`: 41 passed", Some(Check)),
        ("The suite passes with 430 tests", Some(Check)),
        ("Committed as `9e8d7c6`.", Some(Commit)),
        ("The last commit is 1f2e3d4 (Keep the names of columns)", Some(Commit)),
        ("Everything was pushed in abcdef12", Some(Commit)),
        ("提交 0a9b8c7 修复了空行", Some(Commit)),
        ("All changes are committed.", Some(Commit)),
        ("Everything is committed, and the working tree is clean.", Some(Commit)),
        ("`export.rs` is committed", Some(Commit)),
        ("所有改动已提交", Some(Commit)),
        ("Updated `src/parser.rs` to skip empty rows", Some(File)),
        ("Created tests/empty_rows_test.rs with three cases", Some(File)),
        ("Refactored `lib/report.ex`", Some(File)),
        // True, open, or beyond what results can tell.
        ("`cargo test -p quay` passes with 43 tests.", None),
        ("43 tests pass.", None),
        ("`npm run lint` failed with an unused variable.", None),
        ("`npm run lint` passed before the last edit", None),
        ("Make sure that `npm run lint` passes", None),
        ("`npm run lint` must pass before the release.", None),
        ("`npm run lint` does not pass yet.", None),
        ("Commit `77c20be` keeps the names of columns.", None),
        ("The first commit 5d1e0af skips empty rows", None),
        ("`reader.rs` was committed in 5d1e0af", None),
        ("`export.rs` is not committed", None),
        ("All changes up to 77c20be are committed, but the export is not", None),
        ("Updated `src/export.rs`", None),
        ("Edited tests/rows.rs and src/columns.rs", None),
        ("Will update `src/parser.rs` next", None),
        ("`cargo clippy -- -D warnings` is clean.", None),
        ("The import passes rows of 41 columns to the writer", None),
        ("The user wants green buttons", None),
        ("The session began at 2031-03-04 with id deadbeef01", None),
        ("Removed `old_notes.md`", None),
    ];
    let input = talk().input("longhand@1");
    let mut wrong = Vec::new();
    for knows_more in [false, true] {
        let evidence = Evidence { knows_more, ..Evidence::from_input(&input, &[]) };
        for (claim, expected) in &cases {
            let found = contradictions(&evidence, &format!("## Done\n- The importer was changed.\n- {claim}\n"));
            let kinds: Vec<ContradictionKind> = found.iter().map(|found| found.kind).collect();
            // A writer with a context of its own may know files that nobody here named.
            let expected = expected.filter(|kind| !knows_more || *kind != File);
            if kinds != expected.into_iter().collect::<Vec<_>>() {
                wrong.push(format!("{claim} ({knows_more}): {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_record_states_what_happened() {
    let input = talk().input("longhand@1");
    let record = what_happened(&Covered::new(&input), 1_000);
    for line in [
        "- Last words of the user: “now look at the export again”",
        "- Not committed: `src/export.rs`, `tests/rows.rs`",
        "- `npm run lint` failed",
        "- `mix credo --strict` failed",
        "- `cargo test -p quay` passed (`test result: ok. 43 passed; 0 failed; 0 ignored`)",
        "- Commit `77c20be` on `main`: Keep the names of columns",
        "- Commit `5d1e0af` on `main`: Skip empty rows",
        "- Deleted: `old_notes.md`",
    ] {
        assert!(record.contains(line), "{line} in\n{record}");
    }
    assert!((500..3_000).contains(&record.len()), "{}", record.len());
    let small = what_happened(&Covered::new(&input), 60);
    assert!(small.len() < record.len() && small.contains("Last words"), "{small}");
    let nothing = Talk::default().input("longhand@1");
    assert_eq!(what_happened(&Covered::new(&nothing), 1_000), "");
}

//! The lists of files that pi appends to every summary, by the document that describes its seed.

use super::Talk;
use crate::{Covered, completed};
use longhand_core::policy::summary::{SummaryInput, SummaryOutput};
use serde_json::json;

fn text(input: &SummaryInput, words: &str) -> String {
    completed(SummaryOutput::new(words, "test"), &Covered::new(input), &[]).text
}

#[test]
fn lists_of_files_follow_every_summary() {
    let input = Talk::default()
        .user("go")
        .works("read", json!({"path": "/b.ts"}), "ok")
        .works("read", json!({"path": "/a.ts"}), "ok")
        .works("read", json!({"path": "/e.ts"}), "ok")
        .works("edit", json!({"path": "/e.ts"}), "ok")
        .works("write", json!({"path": "/d.ts"}), "ok")
        .works("Read", json!({"path": "/other.ts"}), "ok")
        .works("read", json!({"file_path": "/field.ts"}), "ok")
        .works("bash", json!({"path": "/shell.ts"}), "ok")
        .input("pi@1.5");
    let lists = "\n\n<read-files>\n/a.ts\n/b.ts\n</read-files>\n\n<modified-files>\n/d.ts\n/e.ts\n</modified-files>";
    assert_eq!(text(&input, "S"), format!("S{lists}"), "by the names that pi's tools have, and no others");
    // The next summary inherits the lists, unless a client supplied the previous one.
    let mut next = SummaryInput { previous: Some(format!("S{lists}")), messages: Vec::new(), ..input };
    assert_eq!(text(&next, "T"), format!("T{lists}"));
    next.previous_is_supplied = true;
    assert_eq!(text(&next, "T"), "T");
}

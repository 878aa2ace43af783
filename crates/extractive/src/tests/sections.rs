//! Tests of the contents of each section.

use super::{Talk, assert_says, extract, section};
use longhand_core::policy::summary::SummaryInput;
use serde_json::json;

#[test]
fn empty_input_gives_every_section_its_empty_text() {
    let text = Talk::default().summary();
    let rules = Talk::default().input("opencode@seed").rules;
    for one in &rules.sections {
        let name = one.heading.trim_start_matches('#').trim();
        let expected: &[&str] = if one.topic.is_some() { &["- (none)"] } else { &[] };
        assert_eq!(section(&text, name), expected, "{name}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), rules.sections.len());
}

#[test]
fn done_names_commits_checks_and_conclusions() {
    let text = Talk::default()
        .user("fix the rounding bug in invoices")
        .model("Let me look at the totals.")
        .works("edit", json!({"path": "src/invoice.py", "oldText": "a", "newText": "b"}), "ok")
        .runs("pytest -q tests/test_invoice.py 2>&1 | tail -5", "....\n12 passed in 0.31s")
        .runs("git commit -am 'round half up'", "[main 1a2b3c4] round half up\n 1 file changed")
        .model("Done! The totals are rounded half up in `Invoice.total`, and the tests cover negative amounts.")
        .user("thanks")
        .summary();
    assert_says(&text, "Done", "Commit `1a2b3c4` on `main`: round half up");
    assert_says(&text, "Done", "`pytest -q tests/test_invoice.py` passed (`12 passed in 0.31s`)");
    assert_says(&text, "Constraints & Preferences", "To “The totals are rounded half up in `Invoice.total`, and");
    assert_eq!(section(&text, "In Progress"), ["- (none)"], "{text}");
}

#[test]
fn unfinished_work_is_in_progress() {
    let text = Talk::default()
        .user("add pagination to the user list")
        .model("Now add the page parameter to the route.")
        .works("Edit", json!({"file_path": "/srv/app/web/routes.go", "old_string": "a", "new_string": "b"}), "ok")
        .model("Next, let me render the page links in the template:")
        .works("Edit", json!({"file_path": "/srv/app/web/list.html", "old_string": "a", "new_string": "b"}), "ok")
        .summary();
    assert_says(&text, "In Progress", "let me render the page links in the template");
    assert_says(&text, "Relevant Files", "`./`: `list.html`, `routes.go`");
}

#[test]
fn a_question_to_the_user_is_said() {
    let text = Talk::default().user("deploy it").model("Two regions are possible. Which region do you want?").summary();
    assert_says(&text, "Critical Context", "Which region do you want?");
}

#[test]
fn a_failing_check_blocks_and_a_list_has_the_next_steps() {
    let edit = || json!({"file_path": "/src/lib.rs", "old_string": "a", "new_string": "b"});
    let talk = || Talk::default().user("make the parser faster");
    let failing = talk().fails("bash", json!({"command": "cargo test --lib"}), "error[E0502]: cannot borrow `tokens`");
    let text = failing.works("edit", edit(), "ok").summary();
    assert_says(&text, "Blocked", "cannot borrow `tokens`");
    let todos = json!({"todos": [{"content": "Write the benchmark", "status": "pending"}]});
    let passed = talk().runs("cargo test --lib", "test result: ok. 3 passed");
    let planned = passed.works("edit", edit(), "ok").works("TodoWrite", todos, "ok").summary();
    assert_says(&planned, "Next Steps", "To do: Write the benchmark");
}

#[test]
fn a_kept_list_gives_done_active_and_next_tasks() {
    let first = json!({"todos": [
        {"content": "Sketch the schema", "status": "in_progress"}, {"content": "Obsolete step", "status": "pending"},
    ]});
    let second = json!({"todos": [
        {"content": "Sketch the schema", "status": "completed"},
        {"content": "Write the migration", "status": "in_progress"},
        {"content": "Backfill old rows", "status": "pending"},
        {"content": "Drop the legacy column", "status": "cancelled"},
    ]});
    let text = Talk::default()
        .user("move prices to integers")
        .works("TodoWrite", first, "ok")
        .works("todowrite", second, "ok")
        .summary();
    assert_says(&text, "Done", "Sketch the schema");
    assert_says(&text, "In Progress", "Write the migration");
    assert_says(&text, "Next Steps", "Backfill old rows");
    assert!(!text.contains("Obsolete step") && !text.contains("Drop the legacy column"), "{text}");
}

#[test]
fn failing_checks_are_blockers_and_fixed_ones_are_not() {
    let failing = Talk::default().user("make the suite pass").fails(
        "bash",
        json!({"command": "cargo test -p core"}),
        "error[E0308]: mismatched types\n --> src/lib.rs:4:9",
    );
    let text = failing.clone().summary();
    assert_says(&text, "Blocked", "`cargo test -p core` failed: `error[E0308]: mismatched types`");
    let text = failing
        .model("The return type of `parse_line` is wrong.")
        .works("edit", json!({"path": "src/lib.rs", "oldText": "a", "newText": "b"}), "ok")
        .runs("cargo test -p core", "test result: ok. 9 passed; 0 failed")
        .model("The suite passes now, all nine tests of it.")
        .summary();
    assert_eq!(section(&text, "Blocked"), ["- (none)"], "{text}");
    assert!(!text.contains("mismatched types"), "{text}");
}

#[test]
fn a_failure_that_its_tool_calls_a_success_is_seen() {
    let text = Talk::default()
        .user("check it")
        .runs("npm run check", "src/a.ts(3,1): error TS2304: Cannot find name 'x'.")
        .summary();
    assert_says(&text, "Blocked", "error TS2304: Cannot find name 'x'.");
    let text =
        Talk::default().user("look").runs("grep -rn error src", "src/a.ts: error TS2304 is documented here").summary();
    assert_eq!(section(&text, "Blocked"), ["- (none)"], "{text}");
}

#[test]
fn files_are_listed_with_their_changes_and_relative_to_one_directory() {
    let text = Talk::default()
        .user("add retries to the client; see docs/retry.md")
        .works("Read", json!({"file_path": "/home/ann/shop/src/client.rs"}), "fn send_request() {}")
        .model("Add a backoff to the request loop in the client.")
        .works(
            "Edit",
            json!({
                "file_path": "/home/ann/shop/src/client.rs",
                "old_string": "x",
                "new_string": "fn retry_backoff() { send_request() }",
            }),
            "ok",
        )
        .works(
            "Write",
            json!({"file_path": "/home/ann/shop/tests/retry_test.rs", "content": "fn retries_three_times() {}"}),
            "ok",
        )
        .works("Grep", json!({"pattern": "retry"}), "src/config.rs\nsrc/client.rs\nnode_modules/retry/index.js")
        .summary();
    assert_says(&text, "Relevant Files", "Working directory: `/home/ann/shop`");
    assert_says(&text, "Relevant Files", "`src/client.rs`");
    assert_says(&text, "Relevant Files", "`tests/retry_test.rs` (new)");
    assert_says(
        &text,
        "In Progress",
        "Add a backoff to the request loop in the client. → `src/client.rs`: `fn retry_backoff()",
    );
    assert!(!text.contains("node_modules"), "{text}");
    assert_eq!(text.matches("/home/ann/shop").count(), 1, "{text}");
}

#[test]
fn a_summary_whose_originals_are_not_at_hand_is_a_source_like_others() {
    let previous = "## Key Technical Concepts\n   - WebRTC data channels with `RTCPeerConnection`\n\n\
        ## Files and Code Sections\n   - **`src/clock.ts`** — The clock itself, with `startClock`\n\
        ```ts\n     # not a heading\n     ```";
    let talk = Talk::default().user("also vibrate on flag fall");
    let text = extract(&SummaryInput { previous: Some(previous.to_owned()), ..talk.input("opencode@seed") });
    assert_says(&text, "Critical Context", "WebRTC data channels with `RTCPeerConnection`");
    assert_says(&text, "Critical Context", "`src/clock.ts` — The clock itself");
    assert!(!text.contains("not a heading"), "{text}");
}

#[test]
fn sections_can_be_elements() {
    let input = Talk::default()
        .user("Add a `--dry-run` flag to the deploy command and keep the old output format")
        .runs("cargo test", "test result: ok. 12 passed")
        .input("gemini-cli@0.26");
    let text = extract(&input);
    assert!(text.starts_with("<state_snapshot>\n<overall_goal>\n") && text.ends_with("</state_snapshot>"), "{text}");
    for section in &input.rules.sections {
        let name = &section.heading;
        assert_eq!(text.matches(&format!("<{name}>\n")).count(), 1, "{name} in {text}");
        assert_eq!(text.matches(&format!("</{name}>\n")).count(), 1, "{name} in {text}");
    }
    assert!(text.split("</overall_goal>").next().unwrap_or_default().contains("--dry-run"), "{text}");
}

#[test]
fn requests_are_quoted_without_what_agents_put_around_them() {
    let text = Talk::default()
        .user("Write a CSV importer for the ledger app")
        .model("The importer reads rows now.")
        .user("<system-reminder>never shown</system-reminder>also accept semicolons as separators")
        .model("Semicolons are accepted.")
        .user("<task-notification>done</task-notification> Read the output file")
        .user("now write the documentation for it")
        .summary();
    assert_says(&text, "Goal", "First request: “Write a CSV importer for the ledger app”");
    assert_says(&text, "Constraints & Preferences", "“also accept semicolons as separators”");
    assert_says(&text, "Goal", "Latest request: “now write the documentation for it”");
    assert!(!text.contains("never shown") && !text.contains("Read the output file"), "{text}");
}

/// What agents and terminals put into a message is not what a person typed.
#[test]
fn pictures_and_pasted_lines_are_not_quoted() {
    let padded = "+ 8 - the tide table is sorted by    \n  harbour and by hour of the tide     \n".repeat(3);
    let text = Talk::default()
        .user("draw the tide table")
        .model("It is drawn.")
        .user("'/var/folders/x1/Screenshot 2031-03-02 at 01.39.27.png'\n\nwhy is the quay grey?")
        .model("It is grey stone.")
        .user(&format!("{padded}\ntake that out again\nthrow new TideError(`${{hour}}`);"))
        .model("It is out.")
        .user("now print it")
        .summary();
    assert_says(&text, "Constraints & Preferences", "why is the quay grey?”");
    assert_says(&text, "Constraints & Preferences", "take that out again");
    for pasted in ["Screenshot", "sorted by", "harbour and by hour", "TideError"] {
        assert!(!text.contains(pasted), "{pasted}:\n{text}");
    }
}

/// An unknown agent wraps each request in the same lines, with others between them.
#[test]
fn what_recurs_around_requests_is_no_request() {
    let asked = ["paint the quay in grey", "move the crane to berth 4", "count the bollards", "close the lock at ten"];
    let wrapped = |(number, words): (usize, &&str)| {
        format!(
            "# Workspace state\nopen: src/file_{number}.rs\n# What the person wants\n{words}\n\nAnswer in the pane on the right."
        )
    };
    let talk =
        asked.iter().enumerate().fold(Talk::default(), |talk, request| talk.user(&wrapped(request)).model("Done so."));
    let text = talk.summary();
    for words in &asked[1..] {
        assert!(text.contains(&format!("“{words}”")), "{words}:\n{text}");
    }
    assert!(!text.contains("src/file_2.rs") && text.matches("Answer in the pane").count() <= 1, "{text}");
}

#[test]
fn instructions_decide_what_is_kept_in_a_small_budget() {
    let mut talk = Talk::default().user("review the service");
    for name in ["login", "billing", "search", "export", "upload", "report", "invite", "logout"] {
        talk = talk.model(&format!("The {name} handler returns too early when the load of the {name} queue is heavy."));
    }
    let scarce = SummaryInput { budget_tokens: 100, ..talk.input("opencode@seed") };
    assert!(!extract(&scarce).contains("logout handler"), "{}", extract(&scarce));
    let focused = SummaryInput { instructions: "dwell on logout".to_owned(), ..scarce };
    assert!(extract(&focused).contains("logout handler"), "{}", extract(&focused));
}

#[test]
fn the_newest_step_and_what_changed_outside_of_files_are_told() {
    let edit = |at: usize, line: &str| json!({"path": format!("/w/p/pier{at}.py"), "oldText": "a", "newText": line});
    let mut talk = Talk::default().user("Give every pier its own name");
    for at in 0..60 {
        let words = format!("Pier {at} gets the name that the harbour {} gave it.", at * 7919 % 1_000);
        talk = talk.model(&words).works("edit", edit(at, &format!("name_{at} = harbour_{}", at * 7919 % 1_000)), "ok");
    }
    let talk = talk
        .works("bash", json!({"command": "git add tests/piers.py"}), "")
        .works("bash", json!({"command": "bd close piers.4"}), "closed")
        .model("The harbour gave every pier its name.")
        // It is long, and has no new word.
        .works("edit", edit(0, "pier = harbour.pier(name, harbour(pier, name), pier(harbour, name), name(pier, harbour), harbour(name, pier))\n        name = harbour.name(pier)"), "ok");
    let input = talk.input("longhand@1");
    for budget_tokens in (350..800).step_by(25) {
        let text = extract(&SummaryInput { budget_tokens, ..input.clone() });
        assert_says(
            &text,
            "In Progress",
            "The harbour gave every pier its name. → `pier0.py`: `pier = harbour.pier(name, ",
        );
    }
    let text = extract(&SummaryInput { budget_tokens: 700, ..input });
    assert_says(&text, "Done", "Ran `bd close` on `piers.4`");
    assert!(!text.contains("git add"), "{text}");
}

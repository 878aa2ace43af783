//! What follows a summary by a model or a client: the record of what happened until it took effect, and what people said.

use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, filler, shown, text};
use longhand::app::Reason;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::sessions::ForkPoint;
use longhand::app::undo::ReversedChange;
use longhand::model::compaction::{CompactionKind, Contradiction, Outcome};
use longhand::model::event::{EventBody, EventKind, Rewrite, RewriteOf};
use longhand::model::mark::WordsStance;
use longhand::model::message::{NewMessage, Role};
use longhand::model::part::{NewPart, PartBody, ResultStatus, ToolCall};
use longhand::store::Visibility;

/// A call of a tool with its result, in one message.
fn works(call_id: &str, tool: &str, input: serde_json::Value, failed: bool, output: &str) -> NewMessage {
    let call = ToolCall {
        call_id: call_id.to_owned(),
        tool: tool.to_owned(),
        input_json: input.to_string(),
        ..ToolCall::default()
    };
    let mut result = crate::support::result(call_id, output);
    if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut result.body) {
        result.status = if failed { ResultStatus::Error } else { ResultStatus::Completed };
    }
    NewMessage::sealed(Role::Assistant, vec![NewPart::new(PartBody::ToolCall(call)), result])
}

fn runs(call_id: &str, command: &str, failed: bool, output: &str) -> NewMessage {
    works(call_id, "bash", serde_json::json!({ "command": command }), failed, output)
}

fn edits(call_id: &str, path: &str, new: &str) -> NewMessage {
    let input = serde_json::json!({ "file_path": path, "old_string": "old", "new_string": new });
    works(call_id, "edit", input, false, "The file was edited.")
}

fn says(id: &str, words: &str) -> NewMessage {
    NewMessage { client_id: Some(id.to_owned()), ..NewMessage::sealed(Role::User, vec![text(words)]) }
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>) {
    test.app.messages().append(session, messages, None, None).await.expect("appended");
}

const ASKED: &str = "Teach the parser ISO dates; the tide tables stay in feet.";

/// A piece of work: a commit, edits behind it, a test that fails last, a check that passes, and a file that is gone.
fn work() -> Vec<NewMessage> {
    vec![
        says("u1", ASKED),
        NewMessage::sealed(Role::Assistant, vec![text(&filler("a plan", 6_000))]),
        edits("e1", "/w/src/dates.rs", "fn iso() {}"),
        runs("k1", "cargo test -p parser", false, "test result: ok. 11 passed; 0 failed; 0 ignored"),
        runs("g1", "git commit -am 'Parse ISO dates'", false, "[main 4f2c9d1] Parse ISO dates\n 1 file changed"),
        edits("e2", "/w/src/lexer.rs", "fn lex() {}"),
        runs("d1", "rm src/old_tables.rs", false, ""),
        runs("k2", "npm run lint", false, "0 problems"),
        runs(
            "k3",
            "cargo test -p parser",
            true,
            "test dates::leap ... FAILED\ntest result: FAILED. 9 passed; 2 failed",
        ),
        says("u2", "Do not push before Ana has looked at it."),
    ]
}

async fn session(test: &TestApp) -> String {
    test.session("longhand@1", 400_000, 1_000).await
}

/// The parts of the active summary.
async fn parts(test: &TestApp, session: &str) -> Vec<String> {
    let key = test.longhand.store().sessions().find(&Visibility::default(), session).await.expect("the session");
    let (_, _, words) = test.longhand.store().views().session(key).await.expect("read");
    let summary = words.summary.expect("a summary");
    summary.parts.iter().map(|part| crate::support::body_text(&part.body).expect("a text").to_owned()).collect()
}

/// The lines of what people said.
async fn said_lines(test: &TestApp, session: &str) -> Vec<String> {
    let (_, words) = test.app.sessions().with_words(session).await.expect("the session");
    words.lines.into_iter().map(|(line, _)| line).collect()
}

/// Has everything summarized but for the messages from the one with this id on.
async fn compact(test: &TestApp, session: &str, tail_start: &str) {
    let wanted = NewCompaction { tail_start: tail_start.to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(session, wanted).await.expect("asked");
    test.settled().await;
}

async fn supply(test: &TestApp, session: &str, words: &str, tail_start: &str) {
    let new = NewSummary { text: words.to_owned(), tail_start: tail_start.to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(session, new).await.expect("supplied");
}

/// The claims that the newest summary was reported for.
async fn reported(test: &TestApp, session: &str) -> Vec<Contradiction> {
    newest_outcome(test, session).await.contradictions
}

async fn newest_outcome(test: &TestApp, session: &str) -> Outcome {
    let of = |event: &longhand::model::event::Event| event.session_id.to_string() == session;
    let events = test.events().await;
    let newest = events.iter().rev().filter(|event| of(event)).find_map(|event| match &event.body {
        EventBody::Compacted { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    *newest.expect("a compaction")
}

async fn erase(test: &TestApp, session: &str, id: &str) -> i64 {
    let target = EraseTarget::Messages(vec![id.to_owned()]);
    let request =
        EraseRequest { target, reason: "a key was pasted".to_owned(), dry_run: false, expected_revision: None };
    crate::engines::erase_at_once(&test.app, session, request).await.sizes.summaries
}

#[tokio::test]
async fn the_record_has_what_happened_while_the_summary_was_written() {
    let summarizer = ScriptedSummarizer::new([Line::Hold("The dates are parsed.".to_owned())]);
    let test = TestApp::with(summarizer.clone()).await;
    let session = session(&test).await;
    append(&test, &session, work()).await;
    append(&test, &session, conversation("u3 \"go on\"")).await;
    let mut watch = test.watch().await;
    let wanted = NewCompaction { tail_start: "u3".to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(&session, wanted).await.expect("asked");
    summarizer.held().await;
    let passes = runs("k4", "cargo test -p parser", false, "test result: ok. 11 passed; 0 failed; 0 ignored");
    append(&test, &session, vec![passes, says("u4", "Ana says it can go out with the Zanzibar build.")]).await;
    summarizer.release();
    watch.wait_for(EventKind::Compacted).await;
    let summary = parts(&test, &session).await.remove(0);
    let (_, record) = summary.split_once("# Record of what happened\n").expect("a record");
    assert!(record.contains("`cargo test -p parser` passed"), "{record}");
    assert!(record.contains("Zanzibar build") && !record.contains("` failed"), "{record}");
    let u4 = test.app.messages().get(&session, "u4").await.expect("a message").0.revision;
    assert_eq!(newest_outcome(&test, &session).await.quoted_until, Some(u4));
    // What the record quotes takes the summary with it; what came behind it does not.
    append(&test, &session, conversation("u5 \"a later one\"")).await;
    assert_eq!(erase(&test, &session, "u5").await, 0);
    assert_eq!(erase(&test, &session, "u4").await, 1);
    let view = test.view(&session).await;
    assert!(view.covered.is_none() && !shown(&view).iter().any(|line| line.contains("Zanzibar")), "{view:?}");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_supplied_summary_stays_as_it_is_and_is_followed_by_the_record_up_to_now() {
    let test = TestApp::start().await;
    let of_agent = test.session("pi@1.5", 400_000, 1_000).await;
    append(&test, &of_agent, work()).await;
    supply(&test, &of_agent, "The dates are parsed.", "u2").await;
    assert_eq!(parts(&test, &of_agent).await, ["The dates are parsed."]);
    assert_eq!(newest_outcome(&test, &of_agent).await.quoted_until, None);
    assert_eq!(erase(&test, &of_agent, "u2").await, 0, "it quotes nothing of the tail");
    let session = session(&test).await;
    append(&test, &session, work()).await;
    supply(&test, &session, "The dates are parsed.", "u2").await;
    let found = parts(&test, &session).await;
    assert_eq!(found[0], "The dates are parsed.");
    let record = found.last().expect("a record");
    assert!(record.starts_with("# Record of what happened\n"), "{found:?}");
    assert!(record.contains("Do not push before Ana"), "{record}");
    assert_eq!(erase(&test, &session, "u2").await, 1);
    assert_eq!(test.findings().await, []);
}

/// False claims in summaries of `work`, each with words of the record that refute it; none if it is reported.
const FALSE: [(&str, Option<&str>); 20] = [
    ("`cargo test -p parser` passes.", None),
    ("All tests pass.", None),
    ("The ISO dates are done and the test suite is green.", Some("`cargo test -p parser` failed")),
    ("The parser has full coverage, 11 tests passed in the last run of `cargo test -p parser`.", None),
    ("Everything is committed.", None),
    ("All changes were reviewed and are committed to main.", Some("`lexer.rs`")),
    ("The new lexer.rs is committed.", None),
    ("The working tree is clean.", None),
    ("The work went in as commit 9e8d7c6.", None),
    ("HEAD is commit 77ab01c with the date parser.", None),
    ("The last commit 0badc0d4 has the leap years.", None),
    ("Nothing was committed so far.", Some("`4f2c9d1`")),
    ("The commit 4f2c9d1 has the change of the lexer.", Some("`lexer.rs`")),
    ("The user wants it pushed at once.", Some("Do not push before Ana has looked at it.")),
    ("Ana has approved the change.", Some("before Ana has looked at it.")),
    ("`npm run lint` still fails.", Some("`npm run lint` passed")),
    ("The tests were never run.", Some("`cargo test -p parser` failed")),
    ("The leap year test is fixed.", Some("`cargo test -p parser` failed")),
    ("old_tables.rs has the tables that remain to be moved.", Some("old_tables.rs")),
    ("No file was touched after the last commit.", Some("`lexer.rs`")),
];

/// A summary as models write them, with a claim in it.
fn summary_with(claim: &str) -> String {
    format!(
        "## Goal\n- Teach the parser ISO dates\n\n## Done\n- Added `iso` to `dates.rs`\n- {claim}\n\n## Next Steps\n- Release notes"
    )
}

#[tokio::test]
async fn twenty_false_claims_are_reported_or_refuted_by_the_record_beside_them() {
    let lines = FALSE.map(|(claim, _)| Line::Say(summary_with(claim)));
    let test = TestApp::with(ScriptedSummarizer::new(lines)).await;
    let mut missed = Vec::new();
    for supplied in [false, true] {
        for (claim, refuted) in FALSE {
            let session = session(&test).await;
            append(&test, &session, work()).await;
            append(&test, &session, conversation("a9 \"I go on.\"")).await;
            match supplied {
                true => supply(&test, &session, &summary_with(claim), "a9").await,
                false => compact(&test, &session, "a9").await,
            }
            let found = parts(&test, &session).await.join("\n\n");
            let (text, record) = found.split_once("# Record of what happened\n").expect("a record");
            assert!(text.contains(claim), "{text}");
            let reports = reported(&test, &session).await;
            let is_right = match refuted {
                Some(words) => record.contains(words),
                None => reports.iter().any(|report| report.claim.contains(claim.trim_end_matches('.'))),
            };
            if !is_right {
                missed.push(format!("supplied {supplied}: {claim}\n{reports:?}\n{record}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

#[tokio::test]
async fn what_people_said_follows_the_summary_of_a_model_in_their_words() {
    let script = ["S1", "S2", "S3"].map(|words| Line::Say(words.to_owned()));
    let test = TestApp::with(ScriptedSummarizer::new(script)).await;
    let of_agent = test.session("pi@1.5", 400_000, 1_000).await;
    append(&test, &of_agent, work()).await;
    compact(&test, &of_agent, "u2").await;
    assert_eq!(parts(&test, &of_agent).await, ["S1"], "an agent's preset has it off");
    assert!(said_lines(&test, &of_agent).await.is_empty());
    let session = session(&test).await;
    append(&test, &session, work()).await;
    append(&test, &session, vec![NewMessage::sealed(Role::Assistant, vec![text(&filler("more", 4_000))])]).await;
    append(&test, &session, conversation("u3 \"The moon phases are next, in Sonoran time.\"")).await;
    compact(&test, &session, "u3").await;
    let quoted = |words: &str| format!("“{words}”");
    let said = said_lines(&test, &session).await;
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains(&quoted(ASKED)) && said[1].contains(&quoted("Do not push before Ana has looked at it.")));
    let second = parts(&test, &session).await.into_iter().nth(1).expect("a part of its own");
    assert!(second.starts_with("# What people said\n") && said.iter().all(|line| second.contains(line)), "{second}");
    // The next summary has those of both.
    append(&test, &session, vec![NewMessage::sealed(Role::Assistant, vec![text(&filler("again", 8_000))])]).await;
    append(&test, &session, conversation("u4 \"and the names\"")).await;
    compact(&test, &session, "u4").await;
    let said = said_lines(&test, &session).await;
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains(&quoted(ASKED)) && said[2].contains("Sonoran time"), "{said:?}");
    // It goes with its sources.
    assert_eq!(erase(&test, &session, "u1").await, 2);
    assert!(said_lines(&test, &session).await.is_empty());
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_client_strikes_out_and_adds_lines_of_what_people_said() {
    let script = ["S1", "S2", "S3", "S4"].map(|words| Line::Say(words.to_owned()));
    let test = TestApp::with(ScriptedSummarizer::new(script)).await;
    let session = session(&test).await;
    append(&test, &session, [vec![says("u0", "Continue")], work()].concat()).await;
    append(&test, &session, conversation("a3 \"Go on.\"")).await;
    compact(&test, &session, "a3").await;
    let (info, words) = test.app.sessions().with_words(&session).await.expect("the session");
    let of = async |id: &str| test.app.messages().get(&session, id).await.expect("a message").0.id;
    let (u0, u1, u2) = (of("u0").await, of("u1").await, of("u2").await);
    let messages: Vec<_> = words.lines.iter().map(|(_, message)| *message).collect();
    assert_eq!((messages, words.marked.len()), (vec![Some(u1), Some(u2)], 0), "{:?}", words.lines);
    // It changes neither the view nor what is there of the summary, and is said to watchers.
    let view = test.view(&session).await;
    let marked = test.app.messages().mark_words(&session, "u1", Some(WordsStance::Struck)).await.expect("marked");
    assert!(marked.revision > info.session.revision);
    assert_eq!(test.view(&session).await.hash, view.hash);
    let event = test.events().await.pop().expect("an event");
    assert_eq!(event.body, EventBody::WordsMarked { message: u1, stance: Some(WordsStance::Struck) });
    let again = test.app.messages().mark_words(&session, "u1", Some(WordsStance::Struck)).await.expect("marked");
    assert_eq!(again.revision, marked.revision, "the same is said once");
    let now = async || test.app.sessions().with_words(&session).await.expect("the session").1;
    assert_eq!((now().await.lines, now().await.marked), (words.lines, vec![(u1, WordsStance::Struck)]));
    // An undo takes back the mark, not the summary, and nothing waits for it; a redo brings it back.
    let (undone, _) = test.app.compactions().undo(&session, None).await.expect("undone");
    assert!(
        matches!(undone, ReversedChange::Rewrite(Rewrite { of: RewriteOf::Words(id), .. }) if id == u1),
        "{undone:?}"
    );
    assert_eq!((now().await.lines.len(), now().await.marked.len()), (2, 0));
    let guards = test.app.sessions().get(&session).await.expect("the session").session.guards;
    assert_eq!(guards.hold_turns, 0, "{guards:?}");
    test.app.compactions().redo(&session, None).await.expect("redone");
    test.app.messages().mark_words(&session, "u0", Some(WordsStance::Kept)).await.expect("marked");
    // Only what people said can be kept.
    let refused =
        test.app.messages().mark_words(&session, "a3", Some(WordsStance::Kept)).await.expect_err("an agent's");
    assert_eq!(refused.reason, Reason::BoundaryInvalid);
    let refused =
        test.app.messages().mark_words(&session, "nothing", Some(WordsStance::Struck)).await.expect_err("unknown");
    assert_eq!(refused.reason, Reason::MessageNotFound);
    let summary = async |id: &str| {
        append(&test, &session, vec![NewMessage::sealed(Role::Assistant, vec![text(&filler("more", 4_000))])]).await;
        append(&test, &session, conversation(&format!("{id} \"On.\""))).await;
        compact(&test, &session, id).await;
        said_lines(&test, &session).await
    };
    let said = summary("a4").await;
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("“Continue”") && said[1].contains("Do not push"), "{said:?}");
    let summary_parts = parts(&test, &session).await.join("\n");
    assert!(!summary_parts.contains("tide tables") && summary_parts.contains("“Continue”"), "{summary_parts}");
    // A fork has the marks.
    let fork = test
        .app
        .sessions()
        .fork(&session, ForkPoint::default(), None, String::new())
        .await
        .expect("forked")
        .answer
        .0
        .session;
    let of_fork = test.app.sessions().with_words(&fork.id.to_string()).await.expect("the fork").1;
    assert_eq!(of_fork.marked, [(u0, WordsStance::Kept), (u1, WordsStance::Struck)]);
    // What is left to the summarizer again is as before.
    for id in ["u0", "u1"] {
        test.app.messages().mark_words(&session, id, None).await.expect("marked");
    }
    let said = summary("a5").await;
    assert!(said.len() == 2 && said[0].contains(ASKED) && said[1].contains("Do not push"), "{said:?}");
    // A mark goes with what was said.
    test.app.messages().mark_words(&session, "u0", Some(WordsStance::Kept)).await.expect("marked");
    erase(&test, &session, "u0").await;
    let said = summary("a6").await;
    assert!(said.len() == 2 && !said.concat().contains("Continue"), "{said:?}");
    assert_eq!(test.findings().await, []);
}

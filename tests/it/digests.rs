//! A summary is made from the originals of what the summary before it covers: by the digest that is kept with it, or by
//! reading them again.

use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, filler, result, text};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::sessions::ForkPoint;
use longhand::model::compaction::CompactionKind;
use longhand::model::layout::Placement;
use longhand::model::message::{NewMessage, Role};
use longhand::model::part::{NewPart, PartBody, ToolCall};
use longhand::store::Visibility;

const ROUNDS: usize = 5;

/// What happens in a round: something is said and done, and a value changes twice on the way.
fn round(number: usize) -> Vec<NewMessage> {
    let passes = number >= 4;
    let said = format!("Depot {number} keeps its ledgers in /srv/depot{number}.");
    let call = |id: &str, command: &str| {
        NewPart::new(PartBody::ToolCall(ToolCall {
            call_id: format!("{id}{number}"),
            tool: "bash".to_owned(),
            input_json: serde_json::json!({ "command": command }).to_string(),
            ..ToolCall::default()
        }))
    };
    let outcome =
        if passes { "test result: ok. 9 passed; 0 failed" } else { "test result: FAILED. 8 passed; 1 failed" };
    let reply = NewMessage::sealed(
        Role::Assistant,
        vec![
            call("look", &format!("cat depot{number}.toml")),
            result(&format!("look{number}"), &filler(&format!("depot{number}"), 2_000)),
            call("check", "cargo test"),
            result(&format!("check{number}"), outcome),
            text(&filler(&format!("answer{number}"), 1_000)),
        ],
    );
    let request =
        NewMessage { client_id: Some(format!("u{number}")), ..NewMessage::sealed(Role::User, vec![text(&said)]) };
    let limit = match number {
        1 => "The retry limit is 3 attempts for every depot.",
        4 => "The retry limit is 7 attempts for every depot.",
        _ => return vec![request, reply],
    };
    vec![request, reply, NewMessage::sealed(Role::User, vec![text(limit)])]
}

fn tail(number: usize) -> Vec<NewMessage> {
    conversation(&format!("u-tail{number} \"go on with number {number}\""))
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>) {
    test.app.messages().append(session, messages, None, None).await.expect("appended");
}

/// Adds a round to a session, and summarizes all but the last message.
async fn summarized(test: &TestApp, session: &str, number: usize) -> String {
    append(test, session, round(number)).await;
    append(test, session, tail(number)).await;
    compact(test, session, number).await
}

async fn compact(test: &TestApp, session: &str, number: usize) -> String {
    let wanted =
        NewCompaction { tail_start: format!("u-tail{number}"), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(session, wanted).await.expect("asked");
    test.settled().await;
    summary_of(test, session).await
}

/// The text of the active summary.
async fn summary_of(test: &TestApp, session: &str) -> String {
    let key = test.longhand.store().sessions().find(&Visibility::default(), session).await.expect("the session");
    let source = test.longhand.store().views().source(key, None).await.expect("the view");
    let summary = source.messages.iter().find(|source| source.placement == Some(Placement::Summary));
    crate::support::words_of(&summary.expect("a summary").message)
}

async fn session(test: &TestApp) -> String {
    test.session("longhand@1", 400_000, 1_000).await
}

/// A session with these rounds, and one summary of all of them.
async fn at_once(test: &TestApp, rounds: std::ops::RangeInclusive<usize>) -> String {
    let (session, last) = (session(test).await, *rounds.end());
    for number in rounds {
        append(test, &session, round(number)).await;
        append(test, &session, tail(number)).await;
    }
    compact(test, &session, last).await
}

fn assert_current(summary: &str) {
    assert!(summary.contains("retry limit is 7 attempts"), "{summary}");
    let old = summary.lines().filter(|line| line.contains("retry limit is 3 attempts"));
    assert!(old.into_iter().all(|line| line.contains("(replaced below)")), "{summary}");
    assert!(summary.contains("`cargo test` passed") && !summary.contains("`cargo test` failed"), "{summary}");
    for number in 1..=ROUNDS {
        assert!(summary.contains(&format!("/srv/depot{number}")), "{number}: {summary}");
    }
}

#[tokio::test]
async fn five_rounds_keep_what_one_keeps() {
    let test = TestApp::start().await;
    let once = at_once(&test, 1..=ROUNDS).await;
    assert_current(&once);
    let session = session(&test).await;
    for number in 1..ROUNDS {
        summarized(&test, &session, number).await;
    }
    // Only the newest summary has a digest.
    assert_eq!(test.number("select count(*) from job where digest is not null"), 2);
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    let fork = fork.session.id.to_string();
    assert_eq!(summarized(&test, &session, ROUNDS).await, once);
    // A fork goes on from the same originals, although the digest that it would go on from is gone.
    assert_eq!(summarized(&test, &fork, ROUNDS).await, once);
    // So does what comes behind an undo.
    test.app.compactions().undo(&session, None).await.expect("undone");
    assert_ne!(summary_of(&test, &session).await, once);
    assert_eq!(compact(&test, &session, ROUNDS).await, once);
    // An archive has no digests.
    let lines = crate::archives::export(&test.app, &fork).await.expect("exported");
    let other = TestApp::start().await;
    crate::archives::import(&other.app, &lines).await.expect("imported");
    other.app.compactions().undo(&fork, None).await.expect("undone");
    assert_eq!(compact(&other, &fork, ROUNDS).await, once);
    assert_eq!(test.findings().await, []);
    assert_eq!(other.findings().await, []);
}

#[tokio::test]
async fn the_tenth_summary_reads_no_originals_of_the_others() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    for number in 1..=9 {
        summarized(&test, &session, number).await;
    }
    append(&test, &session, round(10)).await;
    append(&test, &session, tail(10)).await;
    let rows_of_compaction = async || {
        test.settled().await;
        let before = test.longhand.store().upkeep().rows_read();
        compact(&test, &session, 10).await;
        test.longhand.store().upkeep().rows_read() - before
    };
    let with_digest = rows_of_compaction().await;
    // Behind an undo the digest is gone, and the originals are read: 29 messages of nine rounds.
    test.app.compactions().undo(&session, None).await.expect("undone");
    let without = rows_of_compaction().await;
    assert!(with_digest + 25 < without, "{with_digest} and {without}");
}

#[tokio::test]
async fn what_was_changed_since_is_read_as_it_is_now() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    summarized(&test, &session, 1).await;
    summarized(&test, &session, 2).await;
    test.app
        .messages()
        .edit(&session, "u1", &[text("Depot 1 was moved to /mnt/elsewhere.")], None)
        .await
        .expect("edited");
    let third = summarized(&test, &session, 3).await;
    assert!(third.contains("/mnt/elsewhere") && third.contains("/srv/depot2"), "{third}");
    assert!(!third.contains("/srv/depot1"), "{third}");
    // The rewind leaves what the second round had.
    test.app.messages().rewind(&session, "u-tail2", None).await.expect("rewound");
    let fourth = summarized(&test, &session, 4).await;
    assert!(fourth.contains("/mnt/elsewhere") && fourth.contains("/srv/depot4"), "{fourth}");
    assert!(!fourth.contains("/srv/depot3"), "{fourth}");
}

#[tokio::test]
async fn what_is_erased_is_in_no_digest() {
    let test = TestApp::start().await;
    let session = session(&test).await;
    for number in 1..=2 {
        summarized(&test, &session, number).await;
    }
    let digests: Vec<Vec<u8>> = test.database().column("select digest from job where digest is not null");
    assert_eq!(digests.len(), 1);
    let request = |target| EraseRequest {
        target,
        reason: "a key was pasted".to_owned(),
        dry_run: false,
        expected_revision: None,
    };
    let pieces: Vec<&[u8]> = digests[0].chunks_exact(24).collect();
    let holders = || {
        let holds = |bytes: &[u8]| bytes.windows(24).any(|window| pieces.contains(&window));
        crate::database::stored(test.directory()).into_iter().filter(|(_, bytes)| holds(bytes)).count()
    };
    assert!(holders() > 0, "it is found while it is there");
    let erased = EraseTarget::Messages(vec!["u1".to_owned()]);
    crate::engines::erase_at_once(&test.app, &session, request(erased)).await;
    assert_eq!(test.number("select count(*) from job where digest is not null"), 0);
    assert_eq!(holders(), 0, "no file has it either");
    let third = summarized(&test, &session, 3).await;
    assert!(third.contains("/srv/depot2") && !third.contains("/srv/depot1"), "{third}");
    crate::engines::erase_at_once(&test.app, &session, request(EraseTarget::Session)).await;
    assert_eq!(test.number("select count(*) from job where digest is not null"), 0);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_summaries_of_others_are_sources_beside_the_originals() {
    let script = [Line::Refuse, Line::Say("## Goal\n- The harbour is called Falmouth Quay.".to_owned())];
    let test = TestApp::with(ScriptedSummarizer::new(script)).await;
    let session = session(&test).await;
    summarized(&test, &session, 1).await;
    let second = summarized(&test, &session, 2).await;
    assert!(second.starts_with("## Goal\n- The harbour"), "{second}");
    append(&test, &session, round(3)).await;
    append(&test, &session, tail(3)).await;
    let summary = NewSummary {
        text: "The lighthouse keeper is Imogen Tregarthen.".to_owned(),
        tail_start: "u-tail3".to_owned(),
        ..NewSummary::default()
    };
    test.app.compactions().supply_summary(&session, summary).await.expect("supplied");
    summarized(&test, &session, 4).await;
    let last = summarized(&test, &session, ROUNDS).await;
    assert_current(&last);
    assert!(last.contains("Imogen Tregarthen"), "{last}");
}

//! Maintenance: the scheduler evaluates it by itself, and reads only the new part of the view for it.

use crate::support::{TestApp, conversation, window};
use longhand::app::Reason;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::sessions::SessionChange;
use longhand::model::compaction::{CompactionKind, Trigger};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::NewMessage;
use longhand::model::part::PartBody;
use longhand::model::time::Timestamp;
use longhand::presets;
use std::cell::Cell;
use std::fmt::Write as _;

/// A window that no test here fills.
const ROOMY: i64 = 1_000_000_000;

/// Turns, each with a tool call and its result.
fn turns(tool: &str, from: usize, to: usize) -> Vec<NewMessage> {
    let mut text = String::new();
    for turn in from..=to {
        writeln!(text, "u{turn} \"request {turn}\"\na{turn}x \"looking\" call=c{turn}").expect("it is a string");
        writeln!(text, "t{turn} result=c{turn}:300c\na{turn} \"done with {turn}\"").expect("it is a string");
    }
    let mut messages = conversation(&text);
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let PartBody::ToolCall(call) = std::sync::Arc::make_mut(&mut part.body) {
            tool.clone_into(&mut call.tool);
        }
    }
    messages
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>) {
    test.app.messages().append(session, messages, None, None).await.expect("appended");
}

#[tokio::test]
async fn a_session_is_cleared_when_it_has_been_idle_for_long_enough() {
    let test = TestApp::start().await;
    let session = test.session("qwen-code@0.24", ROOMY, 0).await;
    append(&test, &session, turns("read_file", 1, 10)).await;
    test.settled().await;
    let waits = "select wake_time from session where wake_time is not null";
    let until = test.number(waits);
    assert!(until >= test.clock.now().0 + 3_500 * 1_000_000, "an hour from the last reply");

    // Too early.
    test.clock.skip_to(Timestamp(until - 600_000_000));
    test.wake.wake();
    test.settled().await;
    let begun = "select count(*) from job";
    assert_eq!(test.number(begun), 0);

    // A restart keeps the timer.
    let test = test.restart().await;
    let mut watch = test.watch().await;
    test.clock.skip_to(Timestamp(until));
    test.wake.wake();
    let EventBody::CompactionStarted { trigger, .. } = watch.wait_for(EventKind::CompactionStarted).await.body else {
        panic!("it began");
    };
    assert_eq!(trigger, Trigger::Maintenance);
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let cleared = "select count(*) from pruned";
    assert_eq!(test.number(cleared), 5, "all outputs but the last five");
    assert_eq!(test.number("select count(*) from session where wake_time is not null"), 0);
}

#[tokio::test]
async fn outputs_are_cleared_when_the_turns_that_protected_them_have_passed() {
    let test = TestApp::start().await;
    // OpenCode protects the last two turns, and of the outputs before them the newest 40 000 tokens.
    let session = test.session("opencode@seed", ROOMY, 0).await;
    let mut turn = "u1 \"read it all\"\n".to_owned();
    for file in 1..=3 {
        writeln!(turn, "a1{file} \"looking\" call=c{file}\nt{file} result=c{file}:120000c").expect("it is a string");
    }
    test.append(&session, &(turn + "a1 \"I have read it\"")).await;
    for (number, cleared) in [(2, 0), (3, 2), (4, 2)] {
        test.append(&session, &format!("u{number} \"and?\"")).await;
        test.settled().await;
        test.append(&session, &format!("a{number} \"so it is\"")).await;
        test.settled().await;
        assert_eq!(test.number("select count(*) from pruned"), cleared, "at the end of turn {number}");
    }
}

#[tokio::test]
async fn a_view_that_fits_when_truncated_is_truncated_once_it_does_not_fit() {
    let test = TestApp::start().await;
    let mut watch = test.watch().await;
    let session = test.session("suna@2026", ROOMY, 0).await;
    let change = SessionChange {
        policy_override_json: Some("{\"guards\": {\"minimum_gain_tokens\": 1}}".to_owned()),
        ..SessionChange::default()
    };
    test.app.sessions().update(&session, change).await.expect("updated");
    append(&test, &session, turns("bash", 1, 80)).await;
    test.settled().await;
    assert_eq!(test.number("select count(*) from job"), 0, "320 messages may stay");

    append(&test, &session, turns("bash", 81, 81)).await;
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let shown = test.view(&session).await.messages.len();
    assert!(shown <= 320, "{shown} messages are left");

    // A text that repeats its arguments is sufficient on its own.
    let text = "{\\\"tool_execution\\\": {\\\"arguments\\\": {\\\"a\\\": 1}, \\\"result\\\": 2}}".replace('\\', "");
    let mut messages = conversation("a \"text\"");
    messages[0].parts[0].body = PartBody::Text(text.clone()).into();
    append(&test, &session, messages).await;
    watch.wait_for(EventKind::Compacted).await;
    let last = test.view(&session).await.messages.pop().expect("a message");
    assert_eq!(*last.parts[0].body, PartBody::Text("{\"tool_execution\": {\"result\": 2}}".to_owned()));
}

#[tokio::test]
async fn a_decision_behind_an_append_reads_what_is_new() {
    let test = TestApp::start().await;
    let store = test.longhand.store();
    // Under a policy with retrieval, new messages are read once more for the index.
    for preset in presets::all().iter().filter(|preset| preset.policy().retrieval.is_none()) {
        let mut rows = Vec::new();
        for length in [10, 70] {
            let session = test.session(&preset.name, ROOMY, 0).await;
            append(&test, &session, turns("bash", 1, length)).await;
            test.settled().await;
            let before = store.upkeep().rows_read();
            // Each check of the scheduler reads a row itself.
            let asked = Cell::new(0);
            let settled = async || {
                asked.update(|asked| asked + 1);
                test.is_settled().await
            };
            for more in conversation("u \"one more\"\na \"an answer\"\nu \"and another\"") {
                append(&test, &session, vec![more]).await;
                test.until("the scheduler to settle", &settled).await;
            }
            rows.push(store.upkeep().rows_read() - before - asked.get());
        }
        // Some rows identify the session and the compactions that ended; the scheduler polls for work, a few rows each
        // time. The messages of the longer session and their parts are 560.
        assert!(rows.iter().all(|rows| *rows < 280), "{}: {rows:?} rows for three appends", preset.name);
    }
}

#[tokio::test]
async fn the_tokens_of_a_message_are_estimated_once_for_each_way_of_counting() {
    let test = TestApp::start().await;
    let session = test.session("suna@2026", ROOMY, 0).await;
    append(&test, &session, turns("bash", 1, 4)).await;
    let kept = "select (select count(counts) from message) + (select count(*) from message_token_count)";
    let ways = "select count(*) from (select counting from message where counting is not null \
         union select counting from message_token_count) ways";
    assert_eq!(test.number(kept), 16, "an append keeps what it counted");

    // The first decision under another counting method counts the messages for it.
    let change = SessionChange {
        preset: Some("neovate@2026".to_owned()),
        window: Some(window(60_000, 0)),
        ..SessionChange::default()
    };
    test.app.sessions().update(&session, change).await.expect("another policy");
    test.settled().await;
    let wanted = NewCompaction::of_kind(CompactionKind::Summary);
    test.app.compactions().start(&session, wanted).await.expect("there is something to compact");
    test.settled().await;
    // The summary is counted in memory; the first decision that reads it from its rows keeps that.
    assert_eq!((test.number(kept), test.number(ways)), (32, 2));
}

#[tokio::test]
async fn tokens_that_were_counted_before_an_erasure_count_no_more() {
    let test = TestApp::start().await;
    let session = test.session("suna@2026", ROOMY, 0).await;
    append(
        &test,
        &session,
        conversation("u1 \"The deploy key is stored in vault seven.\"\na1 \"Noted.\"\nu2 \"go on\""),
    )
    .await;
    test.settled().await;
    let counting = test.number("select max(counting) from message");
    let message = test.history(&session).await[0].id.0.simple().to_string();
    let target = EraseTarget::Messages(vec!["u1".to_owned()]);
    let erase = EraseRequest { target, reason: "private".to_owned(), dry_run: false, expected_revision: None };
    test.app.content().erase(&session, erase).await.expect("erased");
    test.settled().await;
    let at = test.revision(&session).await;
    let estimate = async || test.view_as_of(&session, at).await.estimated_tokens;
    let erased = estimate().await;
    // A decision that read the message before keeps what it counted behind the erasure: 9999 tokens.
    let late = format!(
        "delete from message_token_count where message_id = x'{message}'; \
         insert into message_token_count (counting, message_id, body) \
         values ({counting}, x'{message}', x'088f4e12028f4e1a0100')"
    );
    test.database().execute_batch(&late).expect("a row");
    assert_eq!(estimate().await, erased);
    // Nor does it count where the rows are read.
    let test = test.restart().await;
    append(&test, &session, conversation("a2 \"done\"")).await;
    test.settled().await;
    assert_eq!(test.view_as_of(&session, at).await.estimated_tokens, erased);
    let with_row = test.view(&session).await.estimated_tokens;
    test.database().execute_batch("delete from message_token_count").expect("no rows");
    let test = test.restart().await;
    assert_eq!(test.view(&session).await.estimated_tokens, with_row);
}

/// A law of supplied summaries: whatever else is compacted meanwhile, one that expects no revision is applied, or covers
/// nothing any more.
#[tokio::test(flavor = "multi_thread")]
async fn summaries_that_are_brought_along_beside_prunes_and_others_are_all_applied() {
    let test = TestApp::start().await;
    let session = test.session("qwen-code@0.24", ROOMY, 0).await;
    let supply = async |turn: usize, text: &str| {
        let (text, tail_start) = (text.to_owned(), format!("u{turn}"));
        test.app.compactions().supply_summary(&session, NewSummary { text, tail_start, ..NewSummary::default() }).await
    };
    let mut taken = 0;
    for round in 0..10 {
        let first = round * 10 + 1;
        append(&test, &session, turns("read_file", first, first + 9)).await;
        // A worker prunes meanwhile.
        let wanted = NewCompaction::of_kind(CompactionKind::Prune);
        test.app.compactions().start(&session, wanted).await.expect("there are outputs to clear");
        // In every other round it is done before: whoever is faster may win every race.
        if round % 2 == 1 {
            test.settled().await;
        }
        for turn in first + 2..first + 6 {
            let (one, other) = tokio::join!(supply(turn, "one"), supply(turn, "other"));
            for supplied in [one, other] {
                match supplied {
                    Ok(_) => taken += 1,
                    Err(error) => assert_eq!(error.reason, Reason::BoundaryInvalid, "{error}"),
                }
            }
        }
        test.settled().await;
    }
    assert_eq!(taken, 10 * 4, "of two for the same range, one covers nothing any more");
    assert!(test.number("select count(*) from pruned") > 0, "nothing was pruned");
    assert_eq!(test.findings().await, []);
}

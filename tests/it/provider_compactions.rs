//! Compactions that providers make themselves: boundaries for their own provider, and nothing for any other.

use crate::cli::Daemon;
use crate::support::{Line, ScriptedSummarizer, TestApp, text, turns};
use longhand::app::append::{AppendAnswer, AppendRequest};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::formatted::{Format, ProviderContent};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::views::{ServedView, ViewRequest};
use longhand::model::compaction::CompactionKind;
use longhand::model::session::OverWindowReason;
use longhand::model::usage::ModelWindow;
use serde_json::Value;

/// The replies in which a provider compacted a view: the format, what was received, and the JSON that goes back first.
const KINDS: [(&str, Format, &str, &[&str]); 5] = [
    ("Anthropic on demand", Format::Anthropic, ON_DEMAND, &[ON_DEMAND_MESSAGE]),
    ("Anthropic at a threshold", Format::Anthropic, THRESHOLD, &[THRESHOLD_MESSAGE]),
    ("OpenAI at a threshold", Format::OpenAiResponses, ITEM, &[ITEM_ALONE, ITEM_TEXT]),
    ("OpenAI on demand", Format::OpenAiResponses, WINDOW, &[WINDOW_USER, WINDOW_ITEM]),
    ("OpenAI in a request", Format::OpenAiResponses, REQUEST, &[ITEM_ALONE]),
];
const ON_DEMAND: &str = r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"compaction", "content":"They read the gauges.","signature":"sig==","tool_changes":[]}}

data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"compaction"},"usage":{"input_tokens":0,"output_tokens":0,"iterations":[{"type":"compaction","input_tokens":9000,"output_tokens":90}]}}

data: {"type":"message_stop"}

"#;
const ON_DEMAND_MESSAGE: &str = r#"{"role":"assistant","content":[{"type":"compaction", "content":"They read the gauges.","signature":"sig==","tool_changes":[]}]}"#;
const THRESHOLD: &str = r#"data: {"type":"message_start","message":{"id":"msg_2","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"usage":{"input_tokens":120,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"They read the gauges.","encrypted_content":"e=="}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Going on."}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}

data: {"type":"message_stop"}

"#;
const THRESHOLD_MESSAGE: &str = r#"{"role":"assistant","content":[{"type":"compaction","content":"They read the gauges.","encrypted_content":"e=="},{"type":"text","text":"Going on."}]}"#;
const ITEM: &str = r#"data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"gpt-5.6","output":[]}}

data: {"type":"response.compaction.compacting","output_index":0}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"compaction","id":"cmp_1", "encrypted_content":"c=="}}

data: {"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Going on.","annotations":[]}]}}

data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","model":"gpt-5.6","output":[],"usage":{"input_tokens":9000,"output_tokens":9,"total_tokens":9009}}}

"#;
const ITEM_ALONE: &str = r#"{"type":"compaction","id":"cmp_1", "encrypted_content":"c=="}"#;
const ITEM_TEXT: &str = r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Going on.","annotations":[]}]}"#;
const WINDOW: &str = r#"{"id":"resp_2","object":"response.compaction","created_at":1,"output":[{"type":"message","id":"msg_3","role":"user","status":"completed","content":[{"type":"input_text","text":"How high?"}]},{"type":"compaction","id":"cmp_2","encrypted_content":"w=="}],"usage":{"input_tokens":9000,"output_tokens":90,"total_tokens":9090}}"#;
const WINDOW_USER: &str = r#"{"type":"message","id":"msg_3","role":"user","status":"completed","content":[{"type":"input_text","text":"How high?"}]}"#;
const WINDOW_ITEM: &str = r#"{"type":"compaction","id":"cmp_2","encrypted_content":"w=="}"#;
const REQUEST: &str = r#"{"input":[{"type":"message","role":"user","content":"Once more."},{"type":"message","role":"assistant","content":"Yes."},{"type":"compaction","id":"cmp_1", "encrypted_content":"c=="},{"type":"compaction_trigger"}]}"#;
const FAILED: &str =
    r#"{"role":"assistant","content":[{"type":"compaction","content":null}],"stop_reason":"compaction"}"#;

async fn give(test: &TestApp, session: &str, format: Format, json: &str, view_token: Option<String>) -> AppendAnswer {
    let provider_content = Some(ProviderContent { format, json: json.to_owned(), view_token, provider: None });
    let request = AppendRequest { provider_content, ..AppendRequest::default() };
    test.app.messages().append_with(session, request).await.expect("appended").answer
}

async fn ask(test: &TestApp, session: &str, format: Option<Format>) -> ServedView {
    test.app.views().get(session, ViewRequest { format, ..ViewRequest::default() }).await.expect("a view")
}

fn texts(view: &ServedView) -> Vec<String> {
    let formatted = view.formatted.as_ref().expect("a format");
    formatted.messages.iter().map(|message| message.json.clone()).collect()
}

fn window(model: &str, context: i64) -> ModelWindow {
    ModelWindow { model: model.to_owned(), context, ..ModelWindow::default() }
}

fn model_of(format: Format) -> &'static str {
    if format == Format::Anthropic { "claude-opus-5-5" } else { "gpt-5.6" }
}

/// A session with six long turns and a block.
async fn compacted(test: &TestApp, format: Format, json: &str, window: ModelWindow) -> String {
    let session = test.create(NewSession { preset: "opencode@seed".to_owned(), window, ..NewSession::default() }).await;
    test.append(&session, &turns(1, 6, 2_000)).await;
    give(test, &session, format, json, None).await;
    test.append(&session, "u7 \"and now?\"\na8 \"now\"").await;
    session
}

fn erase_of(message: &str) -> EraseRequest {
    let target = EraseTarget::Messages(vec![message.to_owned()]);
    EraseRequest { target, reason: "a key was pasted".to_owned(), dry_run: false, expected_revision: None }
}

fn others(format: Format) -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(move |other| *other != format)
}

#[tokio::test]
async fn a_block_goes_first_for_its_provider_and_the_originals_go_to_others() {
    let test = TestApp::start().await;
    for (kind, format, json, first) in KINDS {
        let session = compacted(&test, format, json, window(model_of(format), 200_000)).await;
        let own = ask(&test, &session, Some(format)).await;
        let shown = texts(&own);
        assert_eq!(shown[..first.len()], *first, "{kind}: byte for byte");
        assert!(shown.len() <= first.len() + 2 && shown.concat().contains("and now?"), "{kind}: {shown:?}");
        let compaction = own.provider_compaction.clone().expect("a compaction");
        assert!(!compaction.covered.is_empty(), "{kind}");
        let native = ask(&test, &session, None).await;
        assert!(
            native.context_tokens < 300 && native.provider_compaction.is_some(),
            "{kind}: {}",
            native.context_tokens
        );
        for other in others(format) {
            let view = ask(&test, &session, Some(other)).await;
            let words = texts(&view).concat();
            assert!(words.contains("u1 was here") && words.contains("a6 was here"), "{kind} for {other:?}");
            assert!(words.len() > 24_000 && !words.contains("compaction"), "{kind} for {other:?}");
            assert!(view.formatted.expect("a format").left_out.len() <= 1, "{kind} for {other:?}");
            assert!(view.context_tokens > 5_000 && view.provider_compaction.is_none(), "{kind}");
        }
    }
}

#[tokio::test]
async fn a_summary_of_ours_covers_the_originals_under_a_block() {
    for (kind, format, json, _) in KINDS {
        let summarizer = ScriptedSummarizer::new([Line::Say("They read the gauges, says Longhand.".to_owned())]);
        let test = TestApp::with(summarizer.clone()).await;
        let session = compacted(&test, format, json, window(model_of(format), 200_000)).await;
        test.append(&session, &turns(9, 12, 2_000)).await;
        test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Summary)).await.expect("started");
        test.settled().await;
        let read: usize = summarizer.asked()[0].messages.len();
        assert!(read >= 13, "{kind}: the originals are read, and not the block: {read}");
        for to in Format::ALL {
            let view = ask(&test, &session, Some(to)).await;
            let words = texts(&view).concat();
            assert!(words.contains("says Longhand"), "{kind} for {to:?}: {words}");
            assert!(!words.contains("compaction") && view.provider_compaction.is_none(), "{kind} for {to:?}");
            let covered = view.covered.expect("a summary");
            let first = test.history(&session).await[0].revision;
            assert!(covered.ranges.iter().any(|range| range.contains(first)), "{kind}: from the beginning");
        }
        test.app.compactions().undo(&session, None).await.expect("undone");
        let own = ask(&test, &session, Some(format)).await;
        assert!(own.provider_compaction.is_some(), "{kind}: the block is back");
        assert!(test.findings().await.is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn a_block_after_a_summary_stands_for_it_too() {
    for (kind, format, json, first) in KINDS {
        let test = TestApp::with(ScriptedSummarizer::new([Line::Say("Says Longhand.".to_owned())])).await;
        let window = window(model_of(format), 200_000);
        let session =
            test.create(NewSession { preset: "opencode@seed".to_owned(), window, ..NewSession::default() }).await;
        test.append(&session, &turns(1, 6, 2_000)).await;
        let summary = NewSummary { text: "Says Longhand.".to_owned(), ..NewSummary::default() };
        test.app.compactions().supply_summary(&session, summary).await.expect("supplied");
        give(&test, &session, format, json, None).await;
        test.append(&session, "u7 \"and now?\"\na8 \"now\"").await;
        let own = ask(&test, &session, Some(format)).await;
        assert_eq!(texts(&own)[..first.len()], *first, "{kind}");
        let compaction = own.provider_compaction.expect("a compaction");
        let first = test.history(&session).await[0].revision;
        assert!(own.covered.is_none() && compaction.covered[0].contains(first), "{kind}: {:?}", compaction.covered);
        for other in others(format) {
            let view = ask(&test, &session, Some(other)).await;
            assert!(texts(&view).concat().contains("Says Longhand") && view.covered.is_some(), "{kind} for {other:?}");
        }
    }
}

#[tokio::test]
async fn a_session_that_changes_its_provider_is_compacted_if_the_originals_do_not_fit() {
    for (kind, format, json, _) in KINDS {
        let test = TestApp::with(ScriptedSummarizer::new([Line::Say("Says Longhand.".to_owned())])).await;
        let session = compacted(&test, format, json, window(model_of(format), 200_000)).await;
        test.settled().await;
        let small = window(model_of(format), 5_000);
        let update = SessionChange { window: Some(small), ..SessionChange::default() };
        test.app.sessions().update(&session, update).await.expect("updated");
        test.settled().await;
        let own = ask(&test, &session, Some(format)).await;
        assert!(own.fits && own.provider_compaction.is_some() && own.covered.is_none(), "{kind}: nothing to do");
        let other = ask(&test, &session, Some(Format::Gemini)).await;
        let reason = other.over_window.map(|over| over.reason);
        assert_eq!((other.fits, reason), (false, Some(OverWindowReason::OtherWindow)), "{kind}");
        let moved = SessionChange { window: Some(window("gemini-2.5-pro", 5_000)), ..SessionChange::default() };
        test.app.sessions().update(&session, moved).await.expect("updated");
        test.settled().await;
        let view = ask(&test, &session, Some(Format::Gemini)).await;
        assert!(view.fits && view.covered.is_some(), "{kind}: a summary was made");
        assert!(texts(&view).concat().contains("Says Longhand"), "{kind}");
    }
}

#[tokio::test]
async fn a_compaction_that_failed_is_a_block_without_effect() {
    let test = TestApp::start().await;
    let session = compacted(&test, Format::Anthropic, FAILED, window("claude-opus-5-5", 200_000)).await;
    let own = ask(&test, &session, Some(Format::Anthropic)).await;
    let words = texts(&own).concat();
    assert!(words.contains(r#"{"type":"compaction","content":null}"#) && words.len() > 24_000);
    assert!(own.provider_compaction.is_none());
    assert!(!texts(&ask(&test, &session, Some(Format::Gemini)).await).concat().contains("compaction"));
}

#[tokio::test]
async fn what_came_behind_the_view_of_a_block_stays_beside_it() {
    let test = TestApp::start().await;
    let window = window("claude-opus-5-5", 200_000);
    let session = test.create(NewSession { preset: "opencode@seed".to_owned(), window, ..NewSession::default() }).await;
    test.append(&session, &turns(1, 4, 500)).await;
    let asked = ask(&test, &session, Some(Format::Anthropic)).await;
    test.append(&session, "u5 \"kept\"\na6 \"too\"").await;
    give(&test, &session, Format::Anthropic, ON_DEMAND, Some(asked.token)).await;
    let own = texts(&ask(&test, &session, Some(Format::Anthropic)).await);
    assert_eq!(own[0], ON_DEMAND_MESSAGE);
    assert!(own.len() == 3 && own[1].contains("kept") && own[2].contains("too"), "{own:?}");
}

#[tokio::test]
async fn changes_of_what_a_block_stands_for_void_it() {
    let test = TestApp::start().await;
    let session = compacted(&test, Format::Anthropic, ON_DEMAND, window("claude-opus-5-5", 200_000)).await;
    let block = async |session: &str| ask(&test, session, Some(Format::Anthropic)).await.provider_compaction;
    let (fork, _) =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer;
    assert!(block(&session).await.is_some() && block(&fork.session.id.to_string()).await.is_some());
    for (change, voids) in
        [("edit", true), ("leave out", true), ("erase", true), ("rewind", true), ("later edit", false)]
    {
        let session = compacted(&test, Format::Anthropic, ON_DEMAND, window("claude-opus-5-5", 200_000)).await;
        match change {
            "edit" => drop(test.app.messages().edit(&session, "u2", &[text("other")], None).await.expect("edited")),
            "leave out" => drop(test.app.messages().edit(&session, "u2", &[], None).await.expect("left out")),
            "rewind" => drop(test.app.messages().rewind(&session, "a6", None).await.expect("rewound")),
            "later edit" => {
                drop(test.app.messages().edit(&session, "u7", &[text("other")], None).await.expect("edited"))
            }
            _ => drop(test.app.content().erase(&session, erase_of("u2")).await.expect("erased")),
        }
        assert_eq!(block(&session).await.is_none(), voids, "{change}");
        if change != "erase" {
            test.app.compactions().undo(&session, None).await.expect("undone");
            assert!(block(&session).await.is_some(), "{change} is undone");
        }
    }
}

#[test]
fn the_command_line_shows_a_compaction_by_the_provider() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let session = daemon.text(&["create"]);
    let session = session.trim_end();
    for (name, json) in [("request", r#"{"role":"user","content":"How high?"}"#), ("reply", ON_DEMAND_MESSAGE)] {
        let file = home.path().join(name);
        std::fs::write(&file, json).expect("written");
        daemon.text(&["append", session, "--format", "anthropic", file.to_str().expect("a path")]);
    }
    assert!(
        daemon.text(&["show", session]).contains("[compaction by anthropic: "),
        "{}",
        daemon.text(&["show", session])
    );
    assert!(daemon.text(&["replay", session]).contains("[compaction by anthropic: "));
    assert!(daemon.text(&["status", session]).contains("covered by a compaction by anthropic in msg_"));
    let request: Value = serde_json::from_str(&daemon.text(&["view", session, "--format", "anthropic"])).expect("JSON");
    assert_eq!(request["messages"].as_array().map(Vec::len), Some(1));
    assert!(daemon.text(&["view", session, "--format", "gemini", "--degrade"]).contains("How high?"));
}

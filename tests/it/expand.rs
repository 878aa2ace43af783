//! Everything that a view shortens, covers or leaves out can be read by the id in its place.

use crate::support::{TestApp, conversation, turns, window};
use longhand::app::Reason;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::views::ServedView;
use longhand::model::compaction::{CompactionKind, Level};
use longhand::model::ids::MessageId;
use longhand::model::message::{Message, MessageKind};
use longhand::model::part::{Part, PartBody};
use longhand::presets;
use regex::Regex;
use std::collections::{BTreeSet, HashMap};

/// All messages that an id expands to, read in pages of three.
async fn expand(test: &TestApp, session: &str, id: &str) -> Vec<Message> {
    let (mut messages, mut token) = (Vec::new(), String::new());
    loop {
        let page =
            test.app.messages().expand(session, id, 3, &token).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        assert!(page.messages.len() <= 3);
        messages.extend(page.messages);
        token = page.next_page_token;
        if token.is_empty() {
            return messages;
        }
    }
}

/// A session of twelve turns with long requests, replies and outputs, without automatic compactions.
pub(crate) async fn long_session(test: &TestApp, preset: &str) -> String {
    // Gemini CLI keeps outputs up to this length.
    let output = if preset.starts_with("gemini-cli") { 60_000 } else { 9_000 };
    let session = test
        .create(NewSession {
            preset: preset.to_owned(),
            policy_override_json: r#"{"trigger": {"auto": false}}"#.to_owned(),
            window: window(30_000, 1_000),
            ..NewSession::default()
        })
        .await;
    for turn in 1..=12 {
        let text =
            format!("u{turn} 4000c\na{turn} \"looking\" call=c{turn}\nt{turn} result=c{turn}:{output}c\nb{turn} 3000c");
        let text = text.replace("\nb", "\na0");
        test.append(&session, &text).await;
    }
    session
}

/// The ids in the text of a view.
fn ids_in_words(view: &ServedView) -> BTreeSet<String> {
    let id = Regex::new("(msg|prt)_[0-9a-f]{32}").expect("a pattern");
    let words = |body: &PartBody| match body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.clone(),
        PartBody::ToolCall(call) => call.input_json.clone(),
        PartBody::ToolResult(result) => result.output.clone(),
        _ => String::new(),
    };
    let parts = view.messages.iter().flat_map(|message| &message.parts);
    let texts: Vec<String> = parts.map(|part| words(&part.body)).collect();
    texts.iter().flat_map(|text| id.find_iter(text)).map(|found| found.as_str().to_owned()).collect()
}

/// Checks that every original message of a session can be read by the ids of its view; returns the number of ids in
/// text that a model reads.
async fn check(test: &TestApp, session: &str, what: &str) -> usize {
    let history = test.history(session).await;
    let parts: HashMap<String, &Part> =
        history.iter().flat_map(|message| &message.parts).map(|part| (part.id.to_string(), part)).collect();
    let by_id: HashMap<MessageId, &Message> = history.iter().map(|message| (message.id, message)).collect();
    let view = test.view(session).await;
    let mut found: BTreeSet<MessageId> = view.messages.iter().filter_map(|message| message.source).collect();
    for part in view.messages.iter().flat_map(|message| &message.parts).filter(|part| part.shortened.is_some()) {
        let id = part.source.expect("a part that was shortened names its original").to_string();
        let alone = expand(test, session, &id).await;
        assert_eq!(alone.len(), 1, "{what}: {id}");
        assert_eq!(alone[0].parts.iter().collect::<Vec<_>>(), [parts[&id]], "{what}: {id}");
    }
    let named = ids_in_words(&view);
    for id in &named {
        let originals = expand(test, session, id).await;
        assert_eq!(originals.len(), 1, "{what}: {id}");
        let known = by_id[&originals[0].id];
        assert!(originals[0].parts.iter().all(|part| known.parts.contains(part)), "{what}: {id}");
        assert!(!originals[0].parts.is_empty(), "{what}: {id}");
    }
    if let Some(covered) = &view.covered {
        let behind = expand(test, session, &covered.compaction.to_string()).await;
        let is_covered = |message: &&Message| covered.ranges.iter().any(|range| range.contains(message.revision));
        for message in history.iter().filter(is_covered) {
            assert!(behind.contains(message), "{what}: {} is covered and cannot be expanded", message.revision);
        }
        let summary = view.messages.iter().find(|message| message.revision == covered.summary);
        let summary = summary.and_then(|message| message.source).expect("the summary is in the view");
        assert_eq!(expand(test, session, &summary.to_string()).await, behind, "{what}");
        found.extend(behind.iter().map(|message| message.id));
    }
    for by in &view.omitted_by {
        let id = by.expect("only compactions leave anything out here").to_string();
        found.extend(expand(test, session, &id).await.iter().map(|message| message.id));
    }
    for message in &history {
        assert!(found.contains(&message.id), "{what}: {} is nowhere", message.revision);
    }
    named.len()
}

#[tokio::test]
async fn every_preset_leaves_ids_that_bring_the_originals_back() {
    let test = TestApp::start().await;
    let mut named = Vec::new();
    let mut compacted = 0;
    for preset in presets::all() {
        let levels = [Level::Micro, Level::Auto, Level::Deep].map(|level| (CompactionKind::Summary, Some(level)));
        for (kind, level) in levels.into_iter().chain([(CompactionKind::Prune, None)]) {
            if level.is_some_and(|level| preset.policy().level(level).is_none()) {
                continue;
            }
            let session = long_session(&test, &preset.name).await;
            let before = test.view(&session).await.hash;
            let wanted = NewCompaction { level, ..NewCompaction::of_kind(kind) };
            match test.app.compactions().start(&session, wanted).await {
                Err(error) => assert_eq!(error.reason, Reason::NothingToCompact, "{} {kind:?} {level:?}", preset.name),
                Ok(_) => {
                    test.settled().await;
                    compacted += usize::from(test.view(&session).await.hash != before);
                }
            }
            let what = format!("{} {kind:?} {level:?}", preset.name);
            if check(&test, &session, &what).await > 0 {
                named.push(preset.name.as_str());
            }
        }
    }
    assert!(compacted > presets::all().len(), "only {compacted} compactions to look at");
    // These agents tell their model how to read removed content.
    for name in ["suna@2025-07", "suna@2026", "gemini-cli@0.26"] {
        assert!(named.contains(&name), "{name} names no id; these do: {named:?}");
    }
}

#[tokio::test]
async fn chained_forked_undone_and_archived_compactions_can_be_expanded() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let cover = async |session: &str, tail_start: &str| {
        let summary =
            NewSummary { text: "Talk.".to_owned(), tail_start: tail_start.to_owned(), ..NewSummary::default() };
        let (done, _) = test.app.compactions().supply_summary(session, summary).await.expect("supplied").answer;
        done.id.to_string()
    };
    let names = async |session: &str, id: &str| -> Vec<String> {
        expand(&test, session, id).await.into_iter().filter_map(|message| message.client_id).collect()
    };
    test.append(&session, &turns(1, 3, 40)).await;
    let first = cover(&session, "u3").await;
    let old_summary = test.view(&session).await.messages[1].source.expect("the summary").to_string();
    test.append(&session, &turns(4, 5, 40)).await;
    let second = cover(&session, "u5").await;
    assert_eq!(names(&session, &first).await, ["u1", "a1", "u2", "a2"]);
    assert_eq!(names(&session, &second).await, ["u1", "a1", "u2", "a2", "u3", "a3", "u4", "a4"]);
    // The summary that the second compaction covered still covers the same messages.
    assert_eq!(names(&session, &old_summary).await, ["u1", "a1", "u2", "a2"]);
    let fork = async |session: &str, point: ForkPoint| {
        let forked = test.app.sessions().fork(session, point, None, String::new()).await;
        forked.expect("forked").0.session.id.to_string()
    };
    let forked = fork(&session, ForkPoint::default()).await;
    let then = test.app.messages().get(&session, "a4").await.expect("it is there").0.revision;
    let early = fork(&session, ForkPoint { as_of_revision: Some(then), ..ForkPoint::default() }).await;
    test.append(&session, &turns(6, 7, 40)).await;
    let third = cover(&session, "u7").await;
    assert_eq!(names(&forked, &second).await, names(&session, &second).await);
    assert_eq!(names(&early, &first).await, names(&session, &first).await);
    for (other, unseen) in [(&forked, &third), (&early, &second)] {
        let error = test.app.messages().expand(other, unseen, 0, "").await.expect_err("behind the fork");
        assert_eq!(error.reason, Reason::CompactionNotFound);
    }
    test.app.compactions().undo(&session, None).await.expect("undone");
    assert_eq!(names(&session, &third).await.len(), 12);
    test.app.sessions().archive(&session).await.expect("archived");
    assert_eq!(names(&session, &first).await, ["u1", "a1", "u2", "a2"]);
    assert_eq!(names(&session, "u2").await, ["u2"]);
}

#[tokio::test]
async fn ids_that_cannot_be_expanded_are_refused() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let other = test.manual_session().await;
    test.append(&session, &turns(1, 8, 40)).await;
    let message = test.history(&session).await.remove(0);
    assert_eq!((message.kind, message.parts.len()), (MessageKind::Normal, 1));
    let part = message.parts[0].id.to_string();
    let page = test.app.messages().expand(&session, &part, 0, "").await.expect("the part");
    assert_eq!(page.messages, std::slice::from_ref(&message));
    let nobody = "0123456789abcdef0123456789abcdef";
    for (session, id, reason) in [
        ("nobody", part.clone(), Reason::SessionNotFound),
        (&session, format!("prt_{nobody}"), Reason::MessageNotFound),
        (&session, format!("msg_{nobody}"), Reason::MessageNotFound),
        (&session, format!("cmp_{nobody}"), Reason::CompactionNotFound),
        (&session, "whatever".to_owned(), Reason::MessageNotFound),
        (&other, part.clone(), Reason::MessageNotFound),
        (&other, message.id.to_string(), Reason::MessageNotFound),
    ] {
        let error = test.app.messages().expand(session, &id, 0, "").await.expect_err(&id);
        assert_eq!(error.reason, reason, "{id}");
    }
    let error = test.app.messages().expand(&session, &part, 0, "x").await.expect_err("no token");
    assert_eq!(error.reason, Reason::PageTokenInvalid);
    let error = test.app.messages().expand(&session, &part, -1, "").await.expect_err("no size");
    assert_eq!(error.reason, Reason::InvalidField);
    // A page token is valid only for its own list.
    let messages = conversation("u9 \"more\"");
    test.app.messages().append(&session, messages, None, None).await.expect("appended");
    let summary = NewSummary { text: "Talk.".to_owned(), tail_start: "u8".to_owned(), ..NewSummary::default() };
    let (done, _) = test.app.compactions().supply_summary(&session, summary).await.expect("supplied").answer;
    let page = test.app.messages().expand(&session, &done.id.to_string(), 5, "").await.expect("a page");
    assert_eq!(page.messages.len(), 5);
    let other_list =
        test.app.messages().expand(&session, &part, 5, &page.next_page_token).await.expect_err("another list");
    assert_eq!(other_list.reason, Reason::PageTokenInvalid);
}

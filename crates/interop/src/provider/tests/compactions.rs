//! Compactions that providers make themselves, from what is received to what goes back.

use super::super::{Format, RefusalKind, read, write, write_degraded};
use super::{form_of, json, list, translated, view_in};
use Format::{Anthropic, OpenAiResponses};
use longhand_core::fold::form::Form;
use longhand_model::message::{FinishReason, Role};
use longhand_model::part::PartBody;
use longhand_model::provider_compaction::Compactor;
use serde_json::Value;

const TALK: &str = r#"{"system":"Be brief.","messages":[{"role":"user","content":"How high?"},
  {"role":"assistant","content":"4.2 m."},{"role":"user","content":"And now?"}]}"#;
const NEXT: &str = r#"{"role":"user","content":"And then?"}"#;
const ON_DEMAND: &str = r#"{"role":"assistant","content":[{"type":"compaction", "content":"They read.","signature":"s==","tool_changes":null}],"stop_reason":"compaction","usage":{"input_tokens":0,"output_tokens":0,"iterations":[{"type":"compaction","input_tokens":90}]}}"#;
const WINDOW: &str = r#"{"id":"resp_1","object":"response.compaction","output":[{"type":"message","role":"user","content":[{"type":"input_text","text":"How high?"}]},{"type":"compaction","id":"cmp_1", "encrypted_content":"c=="}],"usage":{"input_tokens":90,"output_tokens":9,"total_tokens":99}}"#;

fn messages(format: Format, texts: &[&str]) -> Vec<Value> {
    let written = translated(Anthropic, texts, format).expect("written");
    list(&written).as_array().expect("a list").clone()
}

/// The parts of a reply, by their kinds, with the data of the block.
fn block_of(format: Format, text: &str) -> (Vec<&'static str>, String) {
    let reply = read(format, text).expect("a reply").pop().expect("a message");
    let data = reply.parts.iter().find_map(|part| match &*part.body {
        PartBody::Opaque(opaque) => Some(String::from_utf8(opaque.data.clone()).expect("UTF-8")),
        _ => None,
    });
    (reply.parts.iter().map(|part| part.body.kind()).collect(), data.expect("a block"))
}

#[test]
fn a_block_on_demand_is_alone_and_first_as_it_came() {
    let shown = messages(Anthropic, &[TALK, ON_DEMAND, NEXT]);
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert_eq!(
        shown[0],
        json(
            r#"{"role":"assistant","content":[{"type":"compaction","content":"They read.","signature":"s==","tool_changes":null}]}"#
        )
    );
    let written = translated(Anthropic, &[TALK, ON_DEMAND, NEXT], Anthropic).expect("written");
    assert!(
        written.messages[0]
            .json
            .contains(r#"[{"type":"compaction", "content":"They read.","signature":"s==","tool_changes":null}]"#)
    );
    assert!(written.system_json.expect("instructions").contains("Be brief."));
    let reply = read(Anthropic, ON_DEMAND).expect("a reply").remove(0);
    let finish = reply.finish.expect("an end");
    assert_eq!((finish.reason, finish.detail.as_str()), (Some(FinishReason::Stop), "compaction"));
}

#[test]
fn a_reply_behind_a_block_that_is_alone_follows_a_word_of_the_user() {
    let shown = messages(Anthropic, &[TALK, ON_DEMAND, r#"{"role":"assistant","content":"Low water."}"#]);
    let roles: Vec<_> = shown.iter().map(|message| message["role"].as_str().expect("a role")).collect();
    assert_eq!(roles, ["assistant", "user", "assistant"]);
}

#[test]
fn for_every_other_format_the_originals_stand() {
    for format in Format::ALL.into_iter().filter(|format| *format != Anthropic) {
        let with_block = messages(format, &[TALK, ON_DEMAND, NEXT]);
        assert_eq!(with_block, messages(format, &[TALK, NEXT]), "{format:?}: as if there was no block");
    }
}

#[test]
fn a_streamed_block_is_whole() {
    let event = |json: &str| format!("data: {json}\n\n");
    let start = event(r#"{"type":"message_start","message":{"role":"assistant","content":[]}}"#);
    let alone = event(
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":"They read.","signature":"s"}}"#,
    );
    let (kinds, data) = block_of(Anthropic, &format!("{start}{alone}"));
    assert_eq!(
        (kinds, data.as_str()),
        (vec!["opaque"], r#"{"type":"compaction","content":"They read.","signature":"s"}"#)
    );
    let begun =
        event(r#"{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null}}"#);
    let delta = event(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"They read.","encrypted_content":"e"}}"#,
    );
    let text = event(r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"On."}}"#);
    let (kinds, data) = block_of(Anthropic, &format!("{start}{begun}{delta}{text}"));
    assert_eq!(kinds, ["opaque", "text"]);
    assert_eq!(data, r#"{"type":"compaction","content":"They read.","encrypted_content":"e"}"#);
    let failed =
        event(r#"{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":null}}"#);
    let (_, data) = block_of(Anthropic, &format!("{start}{begun}{failed}{text}"));
    assert_eq!(data, r#"{"type":"compaction","content":null}"#);
}

#[test]
fn a_window_of_openais_replaces_all_before_it_item_by_item() {
    let texts = [TALK, NEXT].map(|text| read(Anthropic, text).expect("a text").into_iter());
    let [talk, next] = texts;
    let window = read(OpenAiResponses, WINDOW).expect("a window");
    assert_eq!((window.len(), window[0].role), (1, Role::Assistant), "its messages of the user are no new ones");
    let all: Vec<_> = talk.chain(window).chain(next).collect();
    let written = write(OpenAiResponses, &view_in(form_of(OpenAiResponses), all.clone())).expect("written");
    let items: Vec<&str> = written.messages.iter().map(|message| message.json.as_str()).collect();
    assert_eq!(items.len(), 4);
    // Instructions are no part of it.
    assert!(items[0].contains("Be brief.") && items[3].contains("And then?"));
    assert_eq!(items[1], r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"How high?"}]}"#);
    assert_eq!(items[2], r#"{"type":"compaction","id":"cmp_1", "encrypted_content":"c=="}"#);
    let others = write(Anthropic, &view_in(form_of(Anthropic), all)).expect("written");
    assert_eq!(list(&others).as_array().map(Vec::len), Some(3));
}

#[test]
fn what_asks_for_a_compaction_is_no_content() {
    let request = r#"{"input":[{"role":"user","content":"How high?"},{"type":"compaction_trigger"}]}"#;
    let read = read(OpenAiResponses, request).expect("a request");
    assert_eq!(read.iter().map(|message| message.role).collect::<Vec<_>>(), [Role::User]);
}

#[test]
fn items_of_the_user_before_an_item_in_a_request_go_back_with_it() {
    let request = r#"{"input":[{"type":"message","role":"user","content":"How high?"},{"type":"compaction","encrypted_content":"c"},{"type":"message","role":"user","content":"And now?"}]}"#;
    let written = translated(OpenAiResponses, &[request], OpenAiResponses).expect("written");
    assert_eq!(list(&written), json(request)["input"]);
    let others = list(&translated(OpenAiResponses, &[request], Format::OpenAiChat).expect("written"));
    assert_eq!(others.as_array().map(Vec::len), Some(2), "{others}");
}

#[test]
fn a_block_in_a_view_for_another_provider_is_refused_like_any_other() {
    let messages: Vec<_> = [TALK, ON_DEMAND].iter().flat_map(|text| read(Anthropic, text).expect("a text")).collect();
    let view = view_in(Form::Of(Compactor::Anthropic), messages);
    let refused = write(OpenAiResponses, &view).expect_err("what it stands for is not there");
    assert!(matches!(refused.kind, RefusalKind::ForeignBlock { .. }), "{refused}");
    let degraded = write_degraded(OpenAiResponses, &view).expect("a line of text");
    assert!(degraded.messages[1].json.contains("a compaction block of anthropic"));
}

//! Tests of Claude Code's format.

use crate::tests::{check, compactions, ids, messages, problems, read, record_kinds, texts};
use crate::{Format, Transcript, expectations, parse_child};
use longhand_model::message::{FinishReason, Role};
use longhand_model::part::{Marker, MediaSource, NOTE, Opaque, PartBody, ResultStatus};
use longhand_model::time::Timestamp;
use serde_json::{Value, json};

fn session(lines: &[Value]) -> Transcript {
    let text: Vec<_> = lines.iter().map(Value::to_string).collect();
    let text = text.join("\n");
    let transcript = read(&text, Format::ClaudeCode);
    check(&text, &transcript);
    transcript
}

fn line(kind: &str, uuid: &str, parent: Option<&str>) -> Value {
    json!({"parentUuid":parent,"isSidechain":false,"sessionId":"s","type":kind,"uuid":uuid,
        "timestamp":"2026-01-02T03:04:05.250Z"})
}

fn with(mut line: Value, more: Value) -> Value {
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line
}

fn user(uuid: &str, parent: Option<&str>, content: Value) -> Value {
    with(line("user", uuid, parent), json!({"message":{"role":"user","content":content}}))
}

/// One line of a reply: one block, and the usage so far.
fn reply(uuid: &str, parent: Option<&str>, id: &str, block: Value, output: i64) -> Value {
    let message = json!({"id":id,"type":"message","role":"assistant","model":"claude","content":[block],
        "stop_reason":null,"usage":{"input_tokens":3,"output_tokens":output,"cache_read_input_tokens":100,
        "cache_creation_input_tokens":20}});
    with(line("assistant", uuid, parent), json!({"requestId":"r","message":message}))
}

fn text(text: &str) -> Value {
    json!({"type":"text","text":text})
}

fn call(id: &str) -> Value {
    json!({"type":"tool_use","id":id,"name":"Read","input":{"file_path":"/a"},"caller":{"type":"direct"}})
}

fn result(uuid: &str, parent: Option<&str>, call: &str) -> Value {
    let block = json!({"type":"tool_result","tool_use_id":call,"content":"found"});
    with(user(uuid, parent, json!([block])), json!({"toolUseResult":{"stdout":"found"}}))
}

fn kinds(transcript: &Transcript) -> Vec<Vec<&'static str>> {
    let messages = messages(&transcript.branches[0]);
    messages.iter().map(|message| message.parts.iter().map(|part| part.body.kind()).collect()).collect()
}

#[test]
fn the_lines_of_one_reply_are_one_message_before_its_results() {
    let transcript = session(&[
        user("u1", None, json!("look")),
        reply("a1", Some("u1"), "m1", json!({"type":"thinking","thinking":"hm","signature":"c2ln"}), 1),
        reply("a2", Some("a1"), "m1", call("c1"), 2),
        line("progress", "p1", Some("a2")),
        result("r1", Some("a2"), "c1"),
        reply("a3", Some("a2"), "m1", call("c2"), 70),
        result("r2", Some("a3"), "c2"),
        reply("a4", Some("r2"), "m2", text("done"), 5),
    ]);
    assert_eq!(transcript.problems, []);
    assert_eq!(transcript.branches.len(), 1);
    assert_eq!(ids(&transcript.branches[0]), ["u1", "a1", "p1", "r1", "r2", "a4"]);
    let messages = messages(&transcript.branches[0]);
    let joined = messages[1];
    assert_eq!(kinds(&transcript)[1], ["reasoning", "tool_call", "tool_call"]);
    let parts: Vec<_> = joined.parts.iter().map(|part| part.client_id.as_deref().unwrap()).collect();
    assert_eq!(parts, ["a1", "a2", "a3"]);
    assert_eq!(joined.parts[0].metadata_json.as_deref(), Some(r#"{"signature":"c2ln"}"#));
    assert_eq!(joined.parts[1].metadata_json.as_deref(), Some(r#"{"caller":{"type":"direct"}}"#));
    let finish = joined.finish.as_ref().unwrap();
    let usage = finish.usage.unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (3, 70, 100, 20));
    assert_eq!(finish.reason, Some(FinishReason::ToolCalls));
    assert_eq!(messages[4].finish.as_ref().unwrap().reason, Some(FinishReason::Stop));
    assert_eq!((joined.model.as_str(), joined.provider.as_str()), ("claude", "anthropic"));
    assert_eq!(joined.origin_time, Some(Timestamp(1_767_323_045_250_000)));
    assert_eq!((messages[2].role, messages[3].role), (Role::Tool, Role::Tool));
}

#[test]
fn every_stop_reason_has_its_own() {
    for (stop, reason, detail) in [
        ("end_turn", FinishReason::Stop, ""),
        ("stop_sequence", FinishReason::Stop, ""),
        ("tool_use", FinishReason::ToolCalls, ""),
        ("pause_turn", FinishReason::ToolCalls, ""),
        ("max_tokens", FinishReason::Length, ""),
        ("refusal", FinishReason::ContentFilter, ""),
        ("strange", FinishReason::Stop, "strange"),
    ] {
        let mut second = reply("a2", Some("a1"), "m1", text("b"), 2);
        second["message"]["stop_reason"] = stop.into();
        let transcript = session(&[reply("a1", None, "m1", text("a"), 1), second]);
        let finish = messages(&transcript.branches[0])[0].finish.clone().unwrap();
        assert_eq!((finish.reason, finish.detail.as_str()), (Some(reason), detail));
    }
}

#[test]
fn an_error_of_the_provider_ends_its_reply() {
    let mut line = reply("a", None, "x", text("API Error: overloaded"), 0);
    line["isApiErrorMessage"] = true.into();
    line["message"]["model"] = "<synthetic>".into();
    line["message"]["usage"] = json!({"input_tokens":0,"output_tokens":0});
    let transcript = session(&[line]);
    let message = messages(&transcript.branches[0])[0];
    assert_eq!(message.parts, [], "nobody said it");
    let finish = message.finish.as_ref().unwrap();
    assert_eq!((finish.reason, finish.detail.as_str()), (Some(FinishReason::Error), "API Error: overloaded"));
    assert_eq!((finish.usage, message.model.as_str(), message.provider.as_str()), (None, "<synthetic>", ""));
}

#[test]
fn results_have_text_media_and_status() {
    let image = json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}});
    let content = json!([
        {"type":"tool_result","tool_use_id":"c1","content":[text("a"), image]},
        {"type":"tool_result","tool_use_id":"c2","content":[text("a"), text("b")],"is_error":true},
        {"type":"tool_result","tool_use_id":"c3"},
    ]);
    let calls = [reply("a1", None, "m", call("c1"), 1), reply("a2", Some("a1"), "m", call("c2"), 1)];
    let last = reply("a3", Some("a2"), "m", call("c3"), 1);
    let transcript = session(&[calls[0].clone(), calls[1].clone(), last, user("r", Some("a3"), content)]);
    let message = messages(&transcript.branches[0])[1];
    let results: Vec<_> = message
        .parts
        .iter()
        .map(|part| match &*part.body {
            PartBody::ToolResult(result) => (part.client_id.as_deref().unwrap(), result.output.as_str(), result.status),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        results,
        [
            ("r:0", "a", ResultStatus::Completed),
            ("r:1", "a\nb", ResultStatus::Error),
            ("r:2", "", ResultStatus::Completed),
        ]
    );
    let PartBody::ToolResult(first) = &*message.parts[0].body else { panic!() };
    assert_eq!(first.attachments[0].source, MediaSource::Bytes(b"hi".to_vec()));
    assert_eq!(message.role, Role::Tool);
}

#[test]
fn a_users_text_beside_a_result_is_a_message_after_it() {
    let block = json!({"type":"tool_result","tool_use_id":"c1","content":"no"});
    let transcript =
        session(&[reply("a", None, "m", call("c1"), 1), user("r", Some("a"), json!([text("rather this"), block]))]);
    assert_eq!(ids(&transcript.branches[0]), ["a", "r", "r:text"]);
    assert_eq!(kinds(&transcript)[1..], [["tool_result"], ["text"]]);
    let roles: Vec<_> = messages(&transcript.branches[0]).iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool, Role::User]);
}

#[test]
fn blocks_of_the_user_and_of_the_provider_are_kept() {
    let redacted = json!({"type":"redacted_thinking","data":"xyz"});
    let web = json!({"type":"image","source":{"type":"url","url":"https://example.org/a.png"}});
    let document = json!({"type":"document","title":"t","source":{"type":"base64","media_type":"application/pdf",
        "data":"aGk="}});
    let broken = json!({"type":"tool_use","name":"no id"});
    let transcript = session(&[
        user("u", None, json!([text("see"), web, document])),
        reply("a", Some("u"), "m", redacted.clone(), 1),
        reply("b", Some("a"), "m", broken, 1),
    ]);
    let messages = messages(&transcript.branches[0]);
    assert_eq!(kinds(&transcript), [vec!["text", "media", "media"], vec!["opaque", "opaque"]]);
    let PartBody::Media(web) = &*messages[0].parts[1].body else { panic!() };
    assert_eq!(web.source, MediaSource::Uri("https://example.org/a.png".into()));
    let PartBody::Media(document) = &*messages[0].parts[2].body else { panic!() };
    assert_eq!((document.name.as_str(), document.mime_type.as_str()), ("t", "application/pdf"));
    let data = redacted.to_string().into_bytes();
    let opaque = Opaque { provider: "anthropic".into(), kind: "redacted_thinking".into(), data };
    assert_eq!(*messages[1].parts[0].body, PartBody::Opaque(opaque));
    assert_eq!(problems(&transcript), [(3, "block 0 does not match its type; kept as it is")]);
}

#[test]
fn other_lines_are_records() {
    let transcript = session(&[
        json!({"type":"summary","summary":"Old","leafUuid":"x"}),
        json!({"type":"file-history-snapshot","messageId":"m","snapshot":{}}),
        with(user("u", None, json!("caveat")), json!({"isMeta":true})),
        line("progress", "p", Some("u")),
        with(line("system", "y", Some("p")), json!({"subtype":"turn_duration","durationMs":5})),
        json!({"type":"custom-title","customTitle":"Given","sessionId":"s"}),
    ]);
    assert_eq!(ids(&transcript.branches[0]), ["line:1", "line:2", "u", "p", "y", "line:6"]);
    assert_eq!(
        record_kinds(&transcript.branches[0]),
        ["summary", "file-history-snapshot", "progress", "system/turn_duration", "custom-title",]
    );
    let note = &*messages(&transcript.branches[0])[0].parts[0].body;
    let expected = PartBody::Marker(Marker { name: NOTE.to_owned(), text: "caveat".to_owned() });
    assert_eq!(*note, expected, "nobody asked for anything");
    assert_eq!((transcript.title.as_str(), transcript.source_id.as_str()), ("Given", "s"));
}

#[test]
fn damaged_lines_are_reported_and_kept() {
    let text = ["{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"s\"}", "half {", "{\"a\":1}", "[]"].join("\n");
    let transcript = read(&text, Format::ClaudeCode);
    check(&text, &transcript);
    assert_eq!(record_kinds(&transcript.branches[0]), ["malformed"; 4]);
    assert_eq!(problems(&transcript).into_iter().map(|(line, _)| line).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(problems(&transcript)[0].1, "the line has no message; kept as a record");
    assert_eq!(problems(&transcript)[2].1, "the line has no type; kept as a record");
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_reported() {
    let bytes = b"{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"s\",\"message\":{\"content\":\"a\xffb\"}}";
    let transcript = crate::parse(&bytes[..], &crate::Options::default()).unwrap();
    assert_eq!(texts(messages(&transcript.branches[0])[0]), ["a\u{fffd}b"]);
    assert_eq!(problems(&transcript).len(), 1);
}

fn forks(transcript: &Transcript) -> Vec<(&str, usize, Option<&str>, Vec<&str>)> {
    let branches = transcript.branches.iter();
    branches.map(|branch| (branch.name.as_str(), branch.from, branch.fork_after.as_deref(), ids(branch))).collect()
}

#[test]
fn an_edited_prompt_leaves_a_branch_behind() {
    let transcript = session(&[
        user("u1", None, json!("start")),
        reply("a1", Some("u1"), "m1", text("one"), 1),
        line("progress", "p1", Some("a1")),
        user("u2", Some("p1"), json!("wrong")),
        reply("a2", Some("u2"), "m2", text("two"), 1),
        json!({"type":"file-history-snapshot","messageId":"u3"}),
        user("u3", Some("a1"), json!("right")),
        reply("a3", Some("u3"), "m3", text("three"), 1),
    ]);
    assert_eq!(
        forks(&transcript),
        [("main", 0, None, vec!["u1", "a1", "p1", "line:6", "u3", "a3"]), ("u2", 0, Some("p1"), vec!["u2", "a2"]),]
    );
}

#[test]
fn edits_inside_an_abandoned_branch_are_branches_of_it() {
    let transcript = session(&[
        user("u1", None, json!("1")),
        reply("a1", Some("u1"), "m1", text("one"), 1),
        user("x1", Some("a1"), json!("given up")),
        reply("x2", Some("x1"), "m2", text("two"), 1),
        user("y1", Some("x2"), json!("given up earlier")),
        user("x3", Some("x2"), json!("given up later")),
        reply("x4", Some("x3"), "m3", text("three"), 1),
        // The late output of a hook does not show the current position of the conversation.
        line("progress", "late", Some("y1")),
        user("u2", Some("a1"), json!("2")),
    ]);
    assert_eq!(
        forks(&transcript),
        [
            ("main", 0, None, vec!["u1", "a1", "u2"]),
            ("x1", 0, Some("a1"), vec!["x1", "x2", "x3", "x4"]),
            ("y1", 1, Some("x2"), vec!["y1", "late"]),
        ]
    );
}

#[test]
fn going_back_to_an_older_branch_gives_up_the_newer_one() {
    let transcript = session(&[
        user("u1", None, json!("1")),
        reply("a1", Some("u1"), "m1", text("one"), 1),
        user("u2", Some("a1"), json!("2")),
        reply("a2", Some("u2"), "m2", text("two"), 1),
        user("x1", Some("a1"), json!("given up")),
        reply("x2", Some("x1"), "m3", text("three"), 1),
        user("u3", Some("a2"), json!("3")),
    ]);
    assert_eq!(
        forks(&transcript),
        [("main", 0, None, vec!["u1", "a1", "u2", "a2", "u3"]), ("x1", 0, Some("a1"), vec!["x1", "x2"]),]
    );
}

#[test]
fn an_edited_first_prompt_shares_nothing() {
    let transcript = session(&[
        user("x", None, json!("wrong")),
        user("u", None, json!("right")),
        reply("a", Some("u"), "m", text("yes"), 1),
    ]);
    assert_eq!(forks(&transcript), [("main", 0, None, vec!["u", "a"]), ("x", 0, None, vec!["x"])]);
}

#[test]
fn tools_hooks_and_chains_that_break_give_nothing_up() {
    let meta = |uuid: &str| with(user(uuid, Some("a2"), json!("hook says")), json!({"isMeta":true}));
    let cases: [Vec<Value>; 4] = [
        // Results of parallel calls have different lines of one reply as parents, and progress has any parent.
        vec![
            user("u1", None, json!("1")),
            reply("a1", Some("u1"), "m1", call("c1"), 1),
            reply("a2", Some("a1"), "m1", call("c2"), 1),
            line("progress", "p1", Some("a2")),
            result("r2", Some("a2"), "c2"),
            result("r1", Some("a1"), "c1"),
            reply("a3", Some("r1"), "m2", text("done"), 1),
            user("u2", Some("a3"), json!("2")),
        ],
        // A hook's text with the user's role is no prompt.
        vec![
            user("u1", None, json!("1")),
            reply("a2", Some("u1"), "m1", text("a"), 1),
            meta("h1"),
            meta("h2"),
            user("u2", Some("a2"), json!("2")),
        ],
        // If none of the prompts after one message leads on, the tree branches for another reason.
        vec![
            user("u1", None, json!("1")),
            reply("a1", Some("u1"), "m1", call("c1"), 1),
            user("u2", Some("a1"), json!("/status")),
            user("u3", Some("a1"), json!("/cost")),
            result("r1", Some("a1"), "c1"),
        ],
        // Parents that are not in the file.
        vec![user("u1", Some("gone"), json!("1")), user("u2", Some("lost"), json!("2")), user("u3", None, json!("3"))],
    ];
    for lines in cases {
        let transcript = session(&lines);
        assert_eq!(transcript.branches.len(), 1, "{lines:?}");
        assert_eq!(transcript.problems, []);
    }
}

fn boundary(uuid: &str, logical: &str, metadata: Value) -> Value {
    with(
        line("system", uuid, None),
        json!({"logicalParentUuid":logical,"subtype":"compact_boundary",
        "content":"Conversation compacted","compactMetadata":metadata}),
    )
}

fn summary(uuid: &str, parent: &str, text: &str) -> Value {
    with(user(uuid, Some(parent), json!(text)), json!({"isCompactSummary":true}))
}

#[test]
fn a_boundary_and_its_summary_are_a_compaction() {
    let transcript = session(&[
        user("u1", None, json!("1")),
        reply("a1", Some("u1"), "m1", text("one"), 1),
        boundary("b1", "a1", json!({"trigger":"auto","preTokens":167094})),
        json!({"type":"file-history-snapshot","messageId":"x"}),
        summary("s1", "b1", "so far"),
        user("u2", Some("s1"), json!("2")),
        boundary("b2", "u2", json!({"trigger":"manual","preTokens":5})),
        summary("s2", "b2", "so far again"),
        reply("a9", Some("s2"), "m1", text("one again"), 1),
    ]);
    assert_eq!(transcript.problems, []);
    assert_eq!(ids(&transcript.branches[0]), ["u1", "a1", "b1", "line:4", "u2", "b2", "a9"]);
    let compactions = compactions(&transcript.branches[0]);
    let first = compactions[0];
    assert_eq!((first.summary_text.as_str(), first.trigger.as_str(), first.tokens_before), ("so far", "auto", 167_094));
    assert_eq!((first.covers_until_client_id.as_str(), &first.first_kept_client_id), ("a1", &None));
    assert_eq!(compactions[1].covers_until_client_id, "u2");
    let PartBody::Record(record) = &*first.record.parts[0].body else { panic!() };
    assert_eq!((record.kind.as_str(), record.data.lines().count()), ("compact_boundary", 2));
}

#[test]
fn an_edit_is_found_across_a_boundary() {
    let transcript = session(&[
        user("u1", None, json!("1")),
        reply("a1", Some("u1"), "m1", text("one"), 1),
        user("x", Some("a1"), json!("wrong")),
        user("u2", Some("a1"), json!("right")),
        boundary("b", "u2", json!({"trigger":"auto"})),
        summary("s", "b", "so far"),
        user("u3", Some("s"), json!("3")),
    ]);
    assert_eq!(forks(&transcript)[1], ("x", 0, Some("a1"), vec!["x"]));
    assert_eq!(ids(&transcript.branches[0]), ["u1", "a1", "u2", "b", "u3"]);
}

#[test]
fn preserved_messages_of_a_compaction_follow_it() {
    // The second line of a reply stands for the whole reply.
    for kept in [
        json!({"preservedSegment":{"headUuid":"a2","anchorUuid":"s1","tailUuid":"u2"}}),
        json!({"preservedMessages":{"anchorUuid":"s1","uuids":["u2","a2"]}}),
    ] {
        let transcript = session(&[
            user("u1", None, json!("1")),
            reply("a1", Some("u1"), "m1", text("one"), 1),
            reply("a2", Some("a1"), "m1", text("more"), 1),
            user("u2", Some("a2"), json!("2")),
            boundary("b1", "u2", kept),
            summary("s1", "b1", "so far"),
        ]);
        let compaction = compactions(&transcript.branches[0])[0];
        assert_eq!(compaction.covers_until_client_id, "u1");
        assert_eq!(compaction.first_kept_client_id.as_deref(), Some("a1"));
    }
}

#[test]
fn halves_of_a_compaction() {
    let transcript = session(&[
        user("u1", None, json!("1")),
        summary("s1", "u1", "a summary alone"),
        boundary("b1", "s1", json!({})),
        user("u2", Some("b1"), json!("2")),
        boundary("b2", "u2", json!({})),
        summary("s2", "b2", ""),
    ]);
    assert_eq!(compactions(&transcript.branches[0])[0].client_id, "s1");
    assert_eq!(record_kinds(&transcript.branches[0]), ["system/compact_boundary", "malformed", "malformed"]);
    assert_eq!(
        problems(&transcript),
        [(5, "the compaction has no summary; kept as a record"), (6, "the summary has no text; kept as a record"),]
    );
    let transcript = session(&[boundary("b", "gone", json!({})), summary("s", "b", "of nothing")]);
    assert_eq!(record_kinds(&transcript.branches[0]), ["compact_boundary"]);
    assert_eq!(problems(&transcript).len(), 1);
}

#[test]
fn side_chains_are_separated_by_agent() {
    let side = |line: Value, agent: Option<&str>| with(line, json!({"isSidechain":true,"agentId":agent}));
    let transcript = session(&[
        user("u1", None, json!("main")),
        side(user("x1", None, json!("for x")), Some("x")),
        side(user("old1", None, json!("for an old one")), None),
        side(reply("x2", Some("x1"), "m1", text("x says"), 1), Some("x")),
        side(reply("old2", Some("old1"), "m2", text("the old one says"), 1), None),
        reply("a1", Some("u1"), "m3", text("done"), 1),
    ]);
    assert_eq!(ids(&transcript.branches[0]), ["u1", "a1"]);
    let children: Vec<_> = transcript
        .children
        .iter()
        .map(|child| (child.source_id.as_str(), child.title.as_str(), ids(&child.branches[0])))
        .collect();
    assert_eq!(children, [("x", "for x", vec!["x1", "x2"]), ("old1", "for an old one", vec!["old1", "old2"])]);
}

#[test]
fn a_sub_agents_file_is_a_conversation_of_its_own() {
    let side = |line: Value| with(line, json!({"isSidechain":true,"agentId":"x"}));
    let lines = [side(user("u", Some("elsewhere"), json!("do"))), side(reply("a", Some("u"), "m", text("did"), 1))];
    let text = lines.map(|line| line.to_string()).join("\n");
    let child = parse_child(text.as_bytes(), &crate::Options::default()).unwrap();
    check(&text, &child);
    assert_eq!((child.source_id.as_str(), ids(&child.branches[0])), ("x", vec!["u", "a"]));
    assert_eq!(read(&text, Format::ClaudeCode), child);
}

fn queued(uuid: &str, parent: &str, prompt: Value, mode: &str) -> Value {
    let attachment = json!({"type":"queued_command","prompt":prompt,"commandMode":mode});
    with(line("attachment", uuid, Some(parent)), json!({"attachment":attachment}))
}

fn operation(operation: &str, more: Value) -> Value {
    let row = json!({"type":"queue-operation","operation":operation,"sessionId":"s",
        "timestamp":"2026-01-02T03:04:06.250Z"});
    with(row, more)
}

fn words(transcript: &Transcript, role: Role) -> Vec<String> {
    let messages = messages(&transcript.branches[0]).into_iter().filter(|message| message.role == role);
    messages.flat_map(|message| texts(message).into_iter().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn a_prompt_that_was_typed_while_a_call_ran_is_a_message() {
    let notice = "<task-notification>done</task-notification>";
    let transcript = session(&[
        user("u1", None, json!("make it")),
        reply("a1", Some("u1"), "m1", call("c1"), 1),
        operation("enqueue", json!({"content":"optional, please"})),
        result("r1", Some("a1"), "c1"),
        operation("remove", json!({})),
        queued("q1", "r1", json!("optional, please"), "prompt"),
        queued("q2", "q1", json!([{"type":"text","text":"and blue"}]), "prompt"),
        queued("q3", "q2", json!(notice), "task-notification"),
        reply("a2", Some("q3"), "m2", text("so be it"), 5),
    ]);
    assert_eq!(transcript.problems, []);
    assert_eq!(words(&transcript, Role::User), ["make it", "optional, please", "and blue"]);
    assert_eq!(ids(&transcript.branches[0]), ["u1", "a1", "line:3", "r1", "line:5", "q1", "q2", "q3", "a2"]);
    assert_eq!(kinds(&transcript)[5], ["marker"], "nobody typed the notice");
}

#[test]
fn a_prompt_that_left_its_queue_for_no_row_is_a_message_before_the_reply() {
    let rows = [
        user("u1", None, json!("make it")),
        reply("a1", Some("u1"), "m1", call("c1"), 1),
        operation("enqueue", json!({"content":"first"})),
        operation("enqueue", json!({"content":"<task-notification>done</task-notification>"})),
        operation("enqueue", json!({"content":"/mcp"})),
        operation("enqueue", json!({"content":"taken back"})),
        operation("enqueue", json!({"content":"last"})),
        operation("enqueue", json!({"content":"given up"})),
        result("r1", Some("a1"), "c1"),
        // Without a text: "first" and the command. The notice waits until what was typed is gone.
        operation("remove", json!({})),
        operation("remove", json!({})),
        operation("remove", json!({"content":"last","reason":"absorbed_mid_turn"})),
        operation("remove", json!({"content":"given up","reason":"user"})),
        operation("popAll", json!({})),
        reply("a2", Some("r1"), "m2", text("so be it"), 5),
        operation("enqueue", json!({"content":"too late"})),
    ];
    let transcript = session(&rows);
    assert_eq!(transcript.problems, []);
    assert_eq!(words(&transcript, Role::User), ["make it", "first", "last"]);
    // What an earlier reading of the file has is the beginning of what a later one has.
    for length in 1..rows.len() {
        let (before, whole) = (session(&rows[..length]), ids(&transcript.branches[0]));
        assert_eq!(ids(&before.branches[0]), whole[..ids(&before.branches[0]).len()], "{length} rows");
    }
}

#[test]
fn what_was_typed_into_the_queue_is_there_once_whichever_row_has_it() {
    let typed = |text: &str| json!({ "content": text });
    let attached = |uuid: &str, text: &str| queued(uuid, "r1", json!(text), "prompt");
    let blocks =
        json!([{"type":"text","text":"<ide_opened_file>a.rs</ide_opened_file>"}, {"type":"text","text":"one"}]);
    let enqueue = |text: &str| operation("enqueue", typed(text));
    let cases: [(&str, Vec<Value>, &[&str]); 6] = [
        (
            "an attachment before the removal",
            vec![enqueue("one"), attached("q", "one"), operation("remove", json!({}))],
            &["one"],
        ),
        (
            "a row of blocks",
            vec![enqueue("one"), operation("remove", json!({})), user("q", Some("r1"), blocks)],
            &["<ide_opened_file>a.rs</ide_opened_file>", "one"],
        ),
        (
            "a row before the removal",
            vec![
                enqueue("one"),
                enqueue("two"),
                user("q", Some("r1"), json!("one")),
                operation("remove", typed("one")),
                attached("p", "two"),
            ],
            &["one", "two"],
        ),
        (
            "twice the same",
            vec![
                enqueue("one"),
                enqueue("one"),
                operation("dequeue", json!({})),
                user("q", Some("r1"), json!("one")),
                operation("remove", json!({})),
            ],
            &["one", "one"],
        ),
        (
            "a removal of what is not there",
            vec![
                enqueue("one"),
                operation("remove", typed("other")),
                operation("dequeue", json!({})),
                attached("q", "one"),
            ],
            &["one"],
        ),
        ("one that is absorbed", vec![enqueue("one"), operation("remove", typed("one"))], &["one"]),
    ];
    for (what, rows, expected) in cases {
        let head = [
            user("u1", None, json!("make it")),
            reply("a1", Some("u1"), "m1", call("c1"), 1),
            result("r1", Some("a1"), "c1"),
        ];
        let last = [reply("a2", Some("r1"), "m2", text("so be it"), 5)];
        let transcript = session(&[&head[..], &rows, &last].concat());
        assert_eq!(words(&transcript, Role::User)[1..], *expected, "{what}");
    }
}

#[test]
fn usage_counts_once_for_what_a_resume_copied() {
    let usage = |transcript: &Transcript| expectations(transcript).usage.output;
    let original = [user("u1", None, json!("go")), reply("a1", Some("u1"), "m1", text("went"), 7)];
    let copied = [user("u2", None, json!("go")), reply("a2", Some("u2"), "m1", text("went"), 7)];
    // Copied with its chain, the original is abandoned; it keeps the usage, which an earlier import may have written.
    let resumed = session(&[original.as_slice(), &copied, &[user("u3", Some("a2"), json!("on"))]].concat());
    assert_eq!((resumed.branches.len(), usage(&resumed)), (2, 7));
    let paid = messages(&resumed.branches[1]).into_iter().find(|message| message.role == Role::Assistant).unwrap();
    assert!(paid.finish.as_ref().unwrap().usage.is_some());
    // Copied behind the original, it is no second text of the reply.
    let behind = session(&[&original[..], &[reply("a2", Some("a1"), "m1", text("went"), 7)]].concat());
    assert_eq!((usage(&behind), words(&behind, Role::Assistant)), (7, vec!["went".to_owned()]));
    assert_eq!(record_kinds(&behind.branches[0]), ["repeated"]);
    // The whole turn copied behind the original.
    let turn = [user("u2", Some("a1"), json!("go")), reply("a2", Some("u2"), "m1", text("went"), 7)];
    let twice = session(&[original.as_slice(), &turn, &[user("u3", Some("a2"), json!("on"))]].concat());
    assert_eq!((usage(&twice), words(&twice, Role::User)), (7, vec!["go".to_owned(), "on".to_owned()]));
    // Asked again at another time, it is another request.
    let later = with(user("u2", Some("a1"), json!("go")), json!({"timestamp":"2026-01-02T00:00:00.000Z"}));
    assert_eq!(words(&session(&[&original[..], &[later]].concat()), Role::User), ["go", "go"]);
    // Copied behind a boundary.
    let boundary = with(line("system", "k", None), json!({"subtype":"compact_boundary","logicalParentUuid":"a1"}));
    let summary = with(user("s", Some("k"), json!("it went")), json!({"isCompactSummary":true}));
    let again = reply("a2", Some("s"), "m1", text("went"), 7);
    assert_eq!(usage(&session(&[&original[..], &[boundary, summary, again]].concat())), 7);
}

#[test]
fn a_summary_row_gives_the_title() {
    let title = |rows: &[Value]| session(rows).title;
    let summary = |title: &str, leaf: &str| json!({"type":"summary","summary":title,"leafUuid":leaf});
    let asked = || user("u", None, json!("fix the parser"));
    assert_eq!(title(&[summary("Parser", "u"), summary("Elsewhere", "x"), asked()]), "Parser");
    assert_eq!(title(&[summary("Elsewhere", "x"), asked()]), "fix the parser", "it is another conversation's");
    assert_eq!(title(&[summary("Alone", "x"), user("u", None, json!("/clear"))]), "Alone");
    let given = json!({"type":"custom-title","customTitle":"Given","sessionId":"s"});
    assert_eq!(title(&[summary("Parser", "u"), asked(), given]), "Given");
}

#[test]
fn the_folder_is_the_first_one() {
    let at = |uuid: &str, folder: &str| with(user(uuid, None, json!("go")), json!({"cwd":folder}));
    assert_eq!(session(&[at("u1", "/work"), at("u2", "/work/crates")]).folder, "/work");
}

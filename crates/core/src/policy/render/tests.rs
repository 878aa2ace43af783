use super::*;
use crate::model::part::ResultStatus;
use crate::policy::PolicyStep;
use crate::policy::{LengthUnit, ViewStyle, dsl, samples};

fn policy(name: &str) -> Policy {
    samples::policy(name)
}

/// A view in short: a line for each message with its role, kind and parts.
fn sketch(view: &View) -> Vec<String> {
    let part = |part: &ViewPart| {
        let body = match &*part.body {
            PartBody::Text(text) => format!("{text:?}"),
            PartBody::Reasoning(text) => format!("({text})"),
            PartBody::ToolCall(call) => format!("+{}", call.call_id),
            PartBody::ToolResult(result) => {
                format!("={}:{:?}+{}", result.call_id, result.output, result.attachments.len())
            }
            PartBody::Marker(marker) => format!("<{}>", marker.text),
            other => other.kind().to_owned(),
        };
        match part.shortened {
            Some(PartShortening::Pruned { original_length }) => format!("{body} pruned {original_length}"),
            Some(PartShortening::Truncated { omitted_length }) => format!("{body} cut {omitted_length}"),
            Some(PartShortening::Erased) => format!("{body} erased"),
            None => body,
        }
    };
    let message = |message: &ViewMessage| {
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        format!("{:?} {:?}: {}", message.role, message.kind, parts.join(", "))
    };
    view.messages.iter().map(message).collect()
}

fn check(policy: &Policy, conversation: &str, expected: &[&str]) {
    let messages = dsl::parse(conversation);
    let view = render(policy, &messages);
    assert_eq!(sketch(&view), expected, "{conversation}");
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    assert_eq!(view.estimated_tokens, tokens::estimate_messages(policy, &view.messages));
    assert_eq!(render(policy, &messages), view, "again");
}

#[test]
fn what_says_nothing_is_left_out() {
    let conversation = r#"
s1 "rules"
u2 ""
u3 "hi"
  marker note ""
  marker note "look"
  media image/png
a4 "hello"
  reasoning ""
  reasoning "hm"
  opaque "data"
a5
  marker bare ""
"#;
    let expected =
        [r#"System Shown: "rules""#, r#"User Shown: "hi", <look>, media"#, r#"Assistant Shown: "hello", (hm), opaque"#];
    check(&policy("opencode@seed"), conversation, &expected);
    let mut steps = dsl::parse("u1 \"done\"\nu2 \"a record\"");
    let id = steps[0].message.parts[0].id;
    for body in [PartBody::Step(Default::default()), PartBody::Record(Default::default())] {
        let part = Part { id, client_id: None, revision: 1, body: body.into(), metadata_json: None };
        steps[0].message.parts.push(part);
    }
    steps[1].message.kind = MessageKind::Record;
    assert_eq!(sketch(&render(&policy("pi@1.5"), &steps)), [r#"User Shown: "done""#]);
}

#[test]
fn marker_and_summary_are_placed_as_the_policy_says() {
    let conversation = r#"
u9 marker at=30 "What did we do so far?"
a9 summary at=31 "S1"
u4 pinned at=4 "keep this"
u8 edit=7 at=29 "better"
"#;
    let expected = [
        r#"User Marker: "What did we do so far?""#,
        r#"Assistant Summary: "S1""#,
        r#"User Shown: "keep this""#,
        r#"User Shown: "better""#,
    ];
    check(&policy("opencode@seed"), conversation, &expected);
    let mut wrapping = policy("opencode@seed");
    wrapping.view = ViewStyle {
        summary_role: SummaryRole::User,
        summary_prefix: "before\n".to_owned(),
        summary_suffix: "\nafter".to_owned(),
        ..wrapping.view
    };
    check(&wrapping, "a9 summary \"S1\"", &[r#"User Summary: "before\nS1\nafter""#]);
    let parts = "a9 summary \"S1\"\n  media image/png\n  text \"S2\"";
    check(&wrapping, parts, &[r#"User Summary: "before\nS1", media, "S2\nafter""#]);
}

#[test]
fn nobody_but_the_user_begins() {
    let policy = policy("pi@1.5");
    let request = r#"User Filler: "[The conversation continues here]""#;
    let (greeting, answer) = (r#"Assistant Shown: "hello""#, r#"User Shown: "hi""#);
    check(&policy, "a1 \"hello\"\nu2 \"hi\"", &[request, greeting, answer]);
    check(&policy, "s1 \"be brief\"\na2 \"hello\"", &[r#"System Shown: "be brief""#, request, greeting]);
    check(&policy, "s1 \"be brief\"", &[r#"System Shown: "be brief""#]);
    check(&policy, "u1 \"\"\na2 \"hello\"", &[request, greeting]);
    // A summary in the user's role is the user's message; one in the assistant's role is none.
    check(
        &policy,
        "a9 summary \"S\"\na2 \"hello\"",
        &[
            &format!("User Summary: {:?}", format!("{}S{}", policy.view.summary_prefix, policy.view.summary_suffix)),
            greeting,
        ],
    );
    let opencode = self::policy("opencode@seed");
    let marker = r#"User Marker: "?""#;
    let summary = r#"Assistant Summary: "S""#;
    let talk = "u9 marker \"?\"\na9 summary \"S\"\ns2 \"rule\"\na3 \"hello\"\nu4 \"hi\"";
    check(&opencode, talk, &[marker, summary, r#"System Shown: "rule""#, request, greeting, answer]);
    check(&opencode, "a9 summary \"S\"\nu4 \"hi\"", &[request, summary, answer]);
}

#[test]
fn a_reply_behind_an_acknowledgement_is_asked_for() {
    let mut policy = policy("opencode@seed");
    policy.view = ViewStyle {
        summary_role: SummaryRole::User,
        summary_suffix: "!".to_owned(),
        acknowledgement: Some("understood".to_owned()),
        resume_text: Some("go on".to_owned()),
        ..policy.view
    };
    let (summary, answer) = (r#"User Summary: "S1!""#, r#"Assistant Filler: "understood""#);
    let tail = "a2 \"running\"\nu3 \"x\"";
    let shown = [r#"Assistant Shown: "running""#, r#"User Shown: "x""#];
    let asked = [[summary, answer, r#"User Filler: "go on""#].as_slice(), &shown].concat();
    check(&policy, &format!("a9 summary \"S1\"\n{tail}"), &asked);
    check(&policy, "a9 summary \"S1\"\nu3 \"x\"", &[summary, answer, shown[1]]);
    // The summary's attachments have the role `user`, so no resume text is needed.
    let carried = [[summary, answer, r#"User Summary: "file", media"#].as_slice(), &shown].concat();
    check(&policy, &format!("a9 summary \"S1\"\n  text \"file\"\n  media image/png\n{tail}"), &carried);
}

#[test]
fn pruned_results_become_placeholders() {
    let conversation = r#"
u0 "hi"
a1
  tool read#c1 out="äö🙂" media=image/png done pruned
  tool read#c2 out="kept" media=image/png done
"#;
    let expected = |placeholder: &str, length: i64| {
        [
            r#"User Shown: "hi""#.to_owned(),
            "Assistant Shown: +c1".to_owned(),
            format!(r#"Tool Shown: =c1:"{placeholder}"+0 pruned {length}"#),
            "Assistant Shown: +c2".to_owned(),
            r#"Tool Shown: =c2:"kept"+1"#.to_owned(),
        ]
    };
    let mut policy = policy("opencode@seed");
    let messages = dsl::parse(conversation);
    assert_eq!(sketch(&render(&policy, &messages)), expected("[Old tool result content cleared]", 4));
    policy.counting.unit = LengthUnit::Bytes;
    if let Some(PolicyStep::Prune(prune)) = policy.maintenance.first_mut() {
        prune.replacement = crate::policy::Replacement::text("gone");
    }
    assert_eq!(sketch(&render(&policy, &messages)), expected("gone", 8));
    policy.maintenance.clear();
    assert_eq!(sketch(&render(&policy, &messages)), expected("[Old tool result content cleared]", 8));
}

#[test]
fn long_results_are_truncated_and_nothing_else_is() {
    let mut policy = policy("opencode@seed");
    let rule = policy.truncate.as_mut().expect("the preset truncates");
    (rule.max_units, rule.marker) = (3, "…{omitted}".to_owned());
    let conversation = r#"
u1 "a long request"
a2 "a long answer"
  tool read#c1 out="abcdefgh" media=image/png error
  tool read#c2 out="abc" done
"#;
    let expected = [
        r#"User Shown: "a long request""#,
        r#"Assistant Shown: "a long answer", +c1"#,
        r#"Tool Shown: =c1:"abc…5"+1 cut 5"#,
        "Assistant Shown: +c2",
        r#"Tool Shown: =c2:"abc"+0"#,
    ];
    check(&policy, conversation, &expected);
    let view = render(&policy, &dsl::parse(conversation));
    let PartBody::ToolResult(result) = &*view.messages[2].parts[0].body else { panic!("a result") };
    assert_eq!(result.status, ResultStatus::Error);
}

#[test]
fn views_are_paired() {
    let conversation = r#"
u0 "hi"
a1
  call read#c1
  call read#c2
u2 "still there?"
t3
  result c2 out="found" done
"#;
    let expected = [
        r#"User Shown: "hi""#,
        "Assistant Shown: +c1, +c2",
        r#"Tool Paired: =c1:"[Tool execution was interrupted]"+0"#,
        r#"Tool Shown: =c2:"found"+0"#,
        r#"User Shown: "still there?""#,
    ];
    check(&policy("opencode@seed"), conversation, &expected);
}

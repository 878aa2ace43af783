//! Tests of presets against the essay on several frameworks: Suna before and after July 2025, Qwen-Agent, smolagents,
//! JoyAgent, and Gemini CLI, of which Qwen Code was a copy.

use super::{Stage, asked, check, deviates, dsl, in_order, noticed, row, words};
use crate::model::compaction::Level;
use crate::model::layout::Layout;
use crate::model::message::Role;
use crate::model::time::Timestamp;
use crate::policy::plan::{self, PlanningInput};
use crate::policy::prompt::Scope;
use crate::policy::summary::SummaryInput;
use crate::presets;

/// Sets the minimum gain to one token: the numbers here are small.
const ANY_GAIN: &str = r#"{"guards": {"minimum_gain_tokens": 1}}"#;

#[test]
fn early_suna_summarizes_everything_between_its_markers() {
    // Three tokens for the list, and four for each message beside its text.
    let talk = |tokens: usize| format!("u1 {:?}\na2 \"a\"\nu3 \"a\"\na4 \"a\"", words(tokens - 22));
    let stage = Stage::new("suna@2025-04", 200_000);
    let rows = [row("from 120 000 tokens on", [(talk(119_999), ""), (talk(120_000), "auto summary")])];
    check(|talk| stage.play(talk).compactions, &rows);
    let played = stage.play(&talk(120_000));
    assert_eq!(
        played.texts(),
        [
            "\n======== CONVERSATION HISTORY SUMMARY ========\n\nSUMMARY1\n\n======== END OF SUMMARY ========\n\nThe above is a \
          summary of the conversation history. The conversation continues below.\n"
        ]
    );
    assert_eq!(played.view.messages[0].role, Role::User);
    let input = &played.asked[0];
    assert_eq!((input.budget_tokens, input.messages.len()), (10_000, 4));
    in_order(
        &played.prompt(0).user,
        &[
            "in the order in which things happened",
            "Tools and their results",
            "Decisions",
            "Latest state",
            "how things stand now",
        ],
    );
    // The previous summary is not in the input of the next one.
    let again = stage.play(&format!("{}\nu5 {:?}\na6 \"a\"\nu7 \"a\"\na8 \"a\"", talk(120_000), words(120_000)));
    assert_eq!((again.asked.len(), again.asked[1].previous.as_deref()), (2, None));
    let two = stage.play(&format!("u1 {:?}\na2 \"a\"", words(120_000)));
    assert_eq!(two.compactions, "", "fewer than three messages are none");
    deviates(
        "suna@2025-04",
        &["It is on", "When a model makes no summary", "How a model is asked, such as at a temperature"],
    );
}

fn suna() -> Stage {
    let limit = r#"{"auto": {"threshold": {"limit": {"models": {"otherwise_tokens": 9000}}}}}"#;
    Stage::new("suna@2025-07", 20_000).with(limit)
}

const EXPAND: &str = "\"\nUse expand-message tool to see contents";

#[test]
fn suna_of_july_goes_by_the_models_name() {
    let talk = |tokens: usize| format!("u1 {:?}\na2 \"a\"", words(tokens - 58));
    let stage = Stage::new("suna@2025-07", 200_000).model("claude-sonnet-4");
    let rows = [row("Sonnet: 200 000 less 64 000 and 28 000", [(talk(108_000), ""), (talk(108_001), "auto prune")])];
    check(|talk| stage.play(talk).compactions, &rows);
    assert!(stage.play(&talk(108_001)).asked.is_empty(), "no model is asked");
}

#[test]
fn suna_of_july_shortens_outputs_then_requests_then_replies_but_not_the_newest() {
    let long = words(5_000);
    let shape = |texts: Vec<String>| {
        let of = |text: &String| match text {
            text if text.ends_with(EXPAND) => {
                let (kept, marker) = text.split_once("... (truncated)\n\nmessage_id \"").unwrap_or_default();
                assert!(marker.starts_with("msg_"), "{marker}");
                kept.len().to_string()
            }
            text if text.contains("\n\n... (middle truncated) ...\n\n") => "middle".to_owned(),
            text if text.len() > 1_000 => "whole".to_owned(),
            text => text.clone(),
        };
        texts.iter().map(of).collect::<Vec<_>>().join(" ")
    };
    let rows = [
        row(
            "an older request over the threshold is truncated to three characters for each token, with its id; the \
             measure halves",
            [
                (format!("u1 {long:?}\na2 \"x\"\nu3 {long:?}\na4 \"done\""), "6144 x whole done"),
                (format!("u1 {:?}\na2 \"x\"\nu3 {long:?}\na4 \"done\"", words(3_000)), "whole x whole done"),
            ],
        ),
        row(
            "outputs come first, and nothing else goes when that is enough",
            [(
                format!(
                    "u1 {long:?}\na2\n  call bash#c1\nt2\n  result c1 out={long:?} done\na3 \"so\"\nu4 \"x\"\na4\n  call bash#c2\n\
                     t4\n  result c2 out=\"ok\" done\na5 \"done\""
                ),
                "whole 6144 so x ok done",
            )],
        ),
        row(
            "then requests before replies",
            [(format!("u1 {long:?}\na2 {long:?}\nu3 \"x\"\na4 \"done\""), "6144 whole x done")],
        ),
        row(
            "the newest is truncated in the middle, where it alone is too long",
            [(format!("u1 \"x\"\na2 \"y\"\nu3 {:?}\na4 \"done\"", words(9_500)), "x y middle done")],
        ),
    ];
    let stage = suna().with(ANY_GAIN);
    check(|talk| shape(stage.after(talk)), &rows);
    let roomier = stage.with(r#"{"auto": {"threshold": {"limit": {"models": {"otherwise_tokens": 12000}}}}}"#);
    let once = roomier.after(&format!("u1 {:?}\na2 \"x\"\nu3 {long:?}\na4 \"done\"", words(7_000)));
    assert_eq!(shape(once), "12288 x whole done", "three characters for each of 4 096 tokens");
    let truncated = roomier.after(&format!("u1 \"x\"\na2 \"y\"\nu3 {:?}\na4 \"done\"", words(12_500)));
    assert!(
        truncated[2].ends_with("This message is too long, repeat relevant information in your response to remember it")
    );
    deviates(
        "suna@2025-07",
        &["A result of edit_file is truncated as any other", "A compaction begins with what the last one left"],
    );
}

#[test]
fn suna_of_july_takes_arguments_out_and_keeps_320_messages() {
    let stage = Stage::new("suna@2025-07", 200_000).with(ANY_GAIN);
    let result = r#"u1 "{\"tool_execution\": {\"arguments\": {\"path\": \"a.rs\"}, \"result\": \"ok\"}}""#;
    let texts = stage.play(&format!("{result}\na2 \"done\"")).texts();
    assert_eq!(texts[0], r#"{"tool_execution": {"result": "ok"}}"#, "whatever the fill");
    let talk = |count: usize| -> String {
        (0..count).map(|at| format!("{}{at} \"m\"\n", if at.is_multiple_of(2) { "u" } else { "a" })).collect()
    };
    assert_eq!(stage.after(&talk(320)).len(), 320);
    let shown = stage.play(&talk(322)).shown;
    assert_eq!(shown.split(' ').count(), 320);
    assert!(shown.starts_with("u0 a1") && shown.contains("a159 ") && shown.ends_with("u320 a321"), "both ends stay");
}

#[test]
fn qwen_agent_keeps_the_newest_that_fit() {
    let stage = Stage::new("qwen-agent@old", 131_072).with(ANY_GAIN);
    let stage = stage.with(r#"{"auto": {"threshold": {"limit": {"tokens": 20}}}}"#);
    let a = words;
    let said = |talk: &str| {
        let texts = stage.after(talk);
        texts.iter().map(|text| text.replace(' ', "")).collect::<Vec<_>>().join(" ")
    };
    let talk = |first: &str, rest: &str| format!("s0 {:?}\n{first}\na2 {:?}\n{rest}", a(5), a(3));
    let rest = format!("u3 {:?}\na4 {:?}", a(4), a(4));
    let calls = |output: &str| {
        format!(
            "s0 {:?}\nu1 {:?}\na2\n  call bash#c1 in={{}}\nt2\n  result c1 out={output:?} done\na3 {:?}\nu4 {:?}\na5 {:?}",
            a(5),
            a(1),
            a(2),
            a(2),
            a(2)
        )
    };
    let rows = [
        row("what fits stays", [(talk(&format!("u1 {:?}", a(4)), &rest), "aaaaa aaaa aaa aaaa aaaa")]),
        row(
            "a request that does not fit keeps its beginning, and is the last of the walk",
            [
                (talk(&format!("u1 {:?}", a(10)), &rest), "aaaaa aaaa aaa aaaa aaaa"),
                (talk(&format!("u1 {:?}\na1 {:?}\nu1b {:?}", a(1), a(1), a(10)), &rest), "aaaaa aaaa aaa aaaa aaaa"),
            ],
        ),
        row("a result that does not fit keeps both ends", [(calls(&a(30)), "aaaaa a aaaa...aaaa aa aa aa")]),
    ];
    check(said, &rows);
    deviates(
        "qwen-agent@old",
        &["An assistant's message that does not fit ends the walk", "What is truncated and left out is recorded once"],
    );
}

#[test]
fn qwen_agents_retrieval_is_named_where_it_asks_no_model() {
    deviates("qwen-agent@dialogue-retrieval", &["No model picks the question out of a long request"]);
    assert!(presets::policy("qwen-agent@0.0.34").retrieval.is_none(), "the assistant retrieves nothing");
}

#[test]
fn smolagents_truncates_the_middle_of_outputs() {
    let stage = Stage::new("smolagents", 200_000);
    let shown = |talk: &str| {
        let output = stage.play(talk).outputs.remove("c1").unwrap_or_default();
        let marker = "\n..._This content has been truncated to stay below 20000 characters_...\n";
        match output.split_once(marker) {
            Some((head, tail)) => format!("{} and {}", head.chars().count(), tail.chars().count()),
            None => output.chars().count().to_string(),
        }
    };
    let output = |words: &str| format!("u1 \"x\"\na1\n  tool f#c1 {words} done\na2 \"y\"");
    let rows = [row(
        "20 000 characters",
        [
            (output("out=20000c"), "20000"),
            (output("out=20001c"), "10000 and 10000"),
            (output(&format!("out={:?}", "é".repeat(20_001))), "10000 and 10000"),
        ],
    )];
    check(shown, &rows);
    assert_eq!(stage.play("u1 40000t\na1 \"y\" usage=250000/0").compactions, "", "nothing happens by itself");
}

#[test]
fn joyagent_keeps_the_newest_that_fit_from_a_request_on() {
    let talk = "s0 \"sys\"\nu1 \"u1\"\na1 \"a1\"\nt1 \"t1\"\nu2 \"u2\"\na2 \"a2\"\nt2 \"t2\"";
    let limit = |tokens: i64| format!(r#"{{"auto": {{"threshold": {{"limit": {{"tokens": {tokens}}}}}}}}}"#);
    let stage = |tokens| Stage::new("joyagent", 200_000).with(ANY_GAIN).with(&limit(tokens));
    // The estimates are 13 for the system message, subtracted twice, and 10, 15, 10, 10, 15, 10.
    for (tokens, expected) in [(96, "sys u1 a1 t1 u2 a2 t2"), (60, "sys u2 a2 t2"), (48, "sys u2 a2 t2")] {
        assert_eq!(stage(tokens).after(talk).join(" "), expected, "{tokens}");
    }
    deviates("joyagent", &["The last request and what follows it always stay", "The omission of messages is applied"]);
}

#[test]
fn joyagent_summarizes_what_exceeds_its_window_only_if_nothing_can_be_left_out() {
    let limit = r#"{"auto": {"threshold": {"limit": {"tokens": 1000}}}}"#;
    let stage = Stage::new("joyagent", 2_000).with(ANY_GAIN).with(limit);
    // Beside its text a request has 8 tokens, a reply 13, and a list 2.
    let one_turn = |letters: usize| format!("s0 \"sys\"\nu1 100c\na1 {letters}c");
    let two_turns = |letters: usize| format!("s0 \"sys\"\nu1 500c\na1 100c\nu2 100c\na2 {letters}c");
    let rows = [
        row("over the limit the last request stays, and what follows it", [(one_turn(1_864), "")]),
        row("over the window they are summarized", [(one_turn(1_865), "deep summary")]),
        row("what can be left out goes instead", [(two_turns(1_864), "auto omission")]),
        row("as far as that helps", [(two_turns(1_865), "auto omission, deep summary")]),
    ];
    check(|talk| stage.play(talk).compactions, &rows);
    assert_eq!(stage.play(&two_turns(1_864)).shown, "s0 u2 a2");
    assert_eq!(stage.play(&one_turn(1_865)).shown, "summary");
    deviates("joyagent", &["That summary also replaces a view"]);
}

#[test]
fn joyagent_renders_a_task_with_short_outputs() {
    let stage = Stage::new("joyagent", 200_000);
    let output = |length: usize| format!("u1 \"x\"\na1\n  tool f#c1 out={length}c done\na2 \"y\"");
    for (length, limit) in [(1_500, 1_500), (1_501, 1_500)] {
        let sources = dsl::parse(&output(length));
        let layout = Layout::everything();
        let Stage { policy, window, .. } = &stage;
        let planning = PlanningInput {
            policy,
            window,
            layout: &layout,
            sources: &sources,
            covered: &[],
            base: 3,
            now: Timestamp(0),
        };
        let level_policy = policy.level(Level::Deep).expect("a summary by hand");
        let summary = plan::apply(planning, &plan::by_hand(level_policy), 0).summary.expect("a summary");
        let input = SummaryInput::from_plan(&summary, &policy.counting, "");
        let user = asked(&input, Scope::History, &input.messages, None).user;
        assert!(user.matches('x').count() > limit, "{length}");
        assert_eq!(user.contains("[truncated]"), length > limit, "{length}");
    }
    deviates("joyagent", &["Requests and replies are given whole when a task is summarized"]);
}

#[test]
fn gemini_cli_keeps_the_newer_three_tenths_from_a_request_on() {
    // In the JSON of the contents 7 tenths are reached in a2 or, with a longer request, in u2.
    let talk = |second: usize| format!("u1 100c\na1 6000c\nu2 {second}c\na2 1000c\nu3 1000c\na3 1000c usage=7000/0");
    let rows = [
        row(
            "behind 7 tenths of the characters, and never before a reply",
            [(talk(900), "summary u3 a3"), (talk(1_200), "summary u2 a2 u3 a3")],
        ),
        row(
            "nor before a result",
            [(
                "u1 100c\na1 6000c\n  call f#c1\nt1\n  result c1 out=2000c done\na1b 40c\nu3 1000c\na3 1000c usage=7000/0"
                    .to_owned(),
                "summary u3 a3",
            )],
        ),
    ];
    for preset in ["gemini-cli@2025-08", "qwen-code@2025-08"] {
        let stage = Stage::new(preset, 10_000);
        check(|talk| stage.play(talk).shown, &rows);
        let below = talk(900).replace("7000/0", "6999/0");
        assert_eq!(stage.play(&below).compactions, "", "{preset}");
        let played = stage.play(&talk(900));
        let texts: Vec<(Role, String)> =
            played.view.messages.iter().map(|message| message.role).zip(played.texts()).take(3).collect();
        let (request, reply) = ("SUMMARY1".to_owned(), "Got it. Thanks for the additional context!".to_owned());
        assert_eq!(texts[..2], [(Role::User, request), (Role::Assistant, reply)]);
        let prompt = played.prompt(0);
        assert!(prompt.system.contains("<scratchpad>"), "it thinks first");
        in_order(
            &prompt.user,
            &[
                "<state_snapshot>",
                "<overall_goal>",
                "<key_knowledge>",
                "<file_system_state>",
                "<recent_actions>",
                "<current_plan>",
                "</state_snapshot>",
            ],
        );
        deviates(
            preset,
            &[
                "A summary that is empty or frees nothing is refused",
                "What the model thinks in its scratchpad is taken off",
            ],
        );
    }
}

#[test]
fn another_value_is_noticed() {
    let patches: [(&str, &str, fn()); 12] = [
        (
            "suna@2025-04",
            r#"{"auto": {"threshold": {"inclusive": false}}}"#,
            early_suna_summarizes_everything_between_its_markers,
        ),
        (
            "suna@2025-04",
            r#"{"auto": {"steps": {"0": {"summarize": {"summary": {"max_tokens": 10001}}}}}}"#,
            early_suna_summarizes_everything_between_its_markers,
        ),
        (
            "suna@2025-07",
            r#"{"auto": {"threshold": {"limit": {"models": {"models": {"0": {"tokens": 108001}}}}}}}"#,
            suna_of_july_goes_by_the_models_name,
        ),
        (
            "suna@2025-07",
            r#"{"auto": {"steps": {"1": {"omit": {"per_role": {"tiers": {"1": {"passes": {"0": {"keep_units": 12289}}}}}}}}}}"#,
            suna_of_july_shortens_outputs_then_requests_then_replies_but_not_the_newest,
        ),
        (
            "suna@2025-07",
            r#"{"maintenance": {"1": {"omit": {"middle_out": {"max_messages": 321}}}}}"#,
            suna_of_july_takes_arguments_out_and_keeps_320_messages,
        ),
        ("qwen-agent@old", r#"{"auto": {"steps": {"0": {"omit": "suffix"}}}}"#, qwen_agent_keeps_the_newest_that_fit),
        ("smolagents", r#"{"truncate": {"max_units": 20001}}"#, smolagents_truncates_the_middle_of_outputs),
        ("smolagents", r#"{"truncate": {"head_ratio": 0.6}}"#, smolagents_truncates_the_middle_of_outputs),
        (
            "joyagent",
            r#"{"deep": {"steps": {"0": {"summarize": {"summary": {"transcript": {"output_units": 1501}}}}}}}"#,
            joyagent_renders_a_task_with_short_outputs,
        ),
        (
            "gemini-cli@2025-08",
            r#"{"auto": {"threshold": {"inclusive": false}}}"#,
            gemini_cli_keeps_the_newer_three_tenths_from_a_request_on,
        ),
        (
            "gemini-cli@2025-08",
            r#"{"auto": {"steps": {"0": {"summarize": {"tail": {"fraction": {"summarize_ratio": 0.6}}}}}}}"#,
            gemini_cli_keeps_the_newer_three_tenths_from_a_request_on,
        ),
        (
            "qwen-code@2025-08",
            r#"{"view": {"acknowledgement": null}}"#,
            gemini_cli_keeps_the_newer_three_tenths_from_a_request_on,
        ),
    ];
    for (preset, patch, test) in patches {
        noticed(preset, &[(patch, test)]);
    }
}

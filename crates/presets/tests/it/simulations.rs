//! Conversations that are played message by message under presets.

use crate::fold::guards::RETRY_GROWTH_DIVISOR;
use crate::model::compaction::CompactionKind;
use crate::model::message::{FinishReason, NewFinish, NewMessage, Role};
use crate::model::part::{Answers, NewPart, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, Usage};
use crate::policy::summary::SummaryInput;
use crate::policy::{Policy, plan};
use crate::presets;
use crate::simulation::*;
use proptest::prelude::*;

/// Plays a conversation with a writer that reads no digests.
fn simulate(policy: &Policy, window: &ModelWindow, entries: &[TranscriptEntry], writer: WriteSummary<'_>) -> Outcome {
    crate::simulation::simulate(policy, window, entries, writer, &|_| String::new())
}

fn summary(_: &SummaryInput) -> String {
    "The work goes on.".to_owned()
}

fn message(role: Role, bodies: Vec<PartBody>, finish: Option<NewFinish>) -> TranscriptEntry {
    TranscriptEntry::Message(Box::new(NewMessage {
        finish: Some(finish.unwrap_or_default()),
        ..NewMessage::sealed(role, bodies.into_iter().map(NewPart::new).collect())
    }))
}

fn text(tokens: usize) -> PartBody {
    PartBody::Text("word ".repeat(tokens.div_ceil(5) * 4))
}

fn user(tokens: usize) -> TranscriptEntry {
    message(Role::User, vec![text(tokens)], None)
}

fn reply(tokens: usize) -> TranscriptEntry {
    message(Role::Assistant, vec![text(tokens)], Some(finish(FinishReason::Stop, None)))
}

fn finish(reason: FinishReason, usage: Option<i64>) -> NewFinish {
    let usage = usage.map(|input| Usage { input, ..Usage::default() });
    NewFinish { reason: Some(reason), usage, ..NewFinish::default() }
}

/// A call, and its result in a message of its own.
fn tool(number: usize, tokens: usize) -> [TranscriptEntry; 2] {
    let call_id = format!("c{number}");
    let call =
        ToolCall { call_id: call_id.clone(), tool: "bash".into(), input_json: "{}".into(), ..ToolCall::default() };
    let output = "line\n".repeat(tokens * 4 / 5);
    let status = ResultStatus::Completed;
    let result = ToolResult {
        call_id,
        status,
        output,
        attachments: Vec::new(),
        start_time: None,
        end_time: None,
        answers: Answers::Nearest,
    };
    [
        message(Role::Assistant, vec![PartBody::ToolCall(call)], Some(finish(FinishReason::ToolCalls, None))),
        message(Role::Tool, vec![PartBody::ToolResult(result)], None),
    ]
}

fn window(context: i64) -> ModelWindow {
    ModelWindow { context, output: Some(context / 10), ..ModelWindow::default() }
}

fn preset(name: &str) -> Policy {
    presets::policy(name)
}

fn fired(outcome: &Outcome) -> Vec<(usize, CompactionKind)> {
    outcome.compactions().map(|compaction| (compaction.message, compaction.kind)).collect()
}

#[test]
fn a_summary_fires_when_the_threshold_is_passed_and_the_tail_stays() {
    let policy = preset("pi@1.5");
    let talk: Vec<TranscriptEntry> = (0..8).flat_map(|_| [user(100), reply(5_000)]).collect();
    let outcome = simulate(&policy, &window(50_000), &talk, &summary);
    // 50000 - 16384 is passed by the seventh reply: 7 * 5100.
    assert_eq!(outcome.due_tokens, Some(33_617));
    assert_eq!(fired(&outcome), [(14, CompactionKind::Summary)]);
    let compaction = &outcome.simulated[0];
    assert_eq!(compaction.summarized + compaction.kept, 14);
    assert!(compaction.kept >= 7 && compaction.after_tokens < 24_000, "{compaction:?}");
    assert_eq!(compaction.reread_tokens, compaction.after_tokens, "a summary stands at the very beginning");
    assert_eq!(outcome.highest_tokens(), compaction.before_tokens);
    // One point for each message, and one for the compaction.
    assert_eq!(outcome.context_usage.len(), 17);
}

#[test]
fn qwen_agents_pass_is_not_made_again_on_its_own_result() {
    for preset_name in ["qwen-agent@old", "qwen-agent@0.0.34"] {
        for (requests, size) in [(1, 9_000), (4, 12_000)] {
            let mut number = 0;
            let mut talk = Vec::new();
            for _ in 0..8 {
                talk.push(user(300));
                for _ in 0..requests {
                    number += 1;
                    talk.extend(tool(number, size));
                }
                talk.push(reply(2_000));
            }
            let outcome = simulate(&preset(preset_name), &window(131_072), &talk, &summary);
            let fired = fired(&outcome);
            assert!(!fired.is_empty(), "{preset_name}: {requests} of {size}");
            let again = fired.windows(2).find(|pair| pair[0].0 == pair[1].0);
            assert_eq!(again, None, "{preset_name}: {requests} of {size}: {fired:?}");
        }
    }
}

/// Agents that cut before every request never send more than their limit, however large the window is.
#[test]
fn a_limit_of_the_agents_own_is_kept_in_every_window() {
    let talk: Vec<TranscriptEntry> = (0..12)
        .flat_map(|turn| {
            let calls = (0..4).flat_map(move |call| tool(turn * 4 + call, 4_000));
            [user(300)].into_iter().chain(calls).chain([reply(1_500)])
        })
        .collect();
    for (name, model, limit) in [
        ("qwen-agent@0.0.34", "", 58_000),
        ("joyagent", "", 100_000),
        ("suna@2025-07", "claude-sonnet-4", 108_000),
        ("suna@2025-07", "", 31_000),
        ("suna@2026", "", 168_000),
    ] {
        let policy = preset(name);
        for context in [200_000, 1_000_000].into_iter().filter(|context| *context == 200_000 || name != "suna@2026") {
            let window = ModelWindow { model: model.to_owned(), ..window(context) };
            let mut session = Session::new(&policy, &window, &summary);
            let mut most = 0;
            for entry in &talk {
                let TranscriptEntry::Message(message) = entry else { continue };
                session.append(message, message.role == Role::Assistant);
                most = most.max(session.view().estimated_tokens);
                while session.compact_once() {}
                let tokens = session.view().estimated_tokens;
                // What stands in place of a message, or may not go, can exceed the limit by a little.
                assert!(tokens <= limit + limit / 100, "{name} sends {tokens} of {limit} in a window of {context}");
            }
            assert!(most > limit || limit > 108_000, "{name} was never above its limit");
        }
    }
}

#[test]
fn the_overhead_of_requests_is_counted_and_its_usage_is_left_alone() {
    let policy = preset("pi@1.5");
    let talk: Vec<TranscriptEntry> = (0..8).flat_map(|_| [user(100), reply(5_000)]).collect();
    let with = |overhead| simulate(&policy, &ModelWindow { overhead, ..window(50_000) }, &talk, &summary);
    // 50000 - 16384 is passed by the fifth reply: 5 * 5100 + 10000.
    let outcome = with(10_000);
    assert_eq!(fired(&outcome).first(), Some(&(10, CompactionKind::Summary)));
    assert_eq!(outcome.simulated[0].context_tokens, 5 * 5_100 + 10_000);
    // The overhead alone reaches the threshold: only growth, or a view that exceeds its window, leads to another summary.
    let outcome = with(33_617);
    assert!(fired(&outcome).iter().all(|(_, kind)| *kind == CompactionKind::Summary), "{:?}", fired(&outcome));
    assert!((1..=8).contains(&outcome.simulated.len()) && outcome.final_tokens() <= 50_000, "{:?}", fired(&outcome));
    // It leaves too little space for a view, which stays small nevertheless.
    assert!(with(45_000).final_tokens() <= 45_000 + 2 * 5_100);
    // Reported usage includes the overhead.
    let usage = |input| message(Role::Assistant, vec![text(100)], Some(finish(FinishReason::Stop, Some(input))));
    let entries: Vec<TranscriptEntry> = (1..=8).flat_map(|turn| [user(100), usage(20_000 + turn)]).collect();
    let outcome = simulate(&policy, &ModelWindow { overhead: 15_000, ..window(50_000) }, &entries, &summary);
    assert_eq!((fired(&outcome), outcome.final_tokens()), (vec![], 20_008));
}

#[test]
fn old_outputs_are_cleared_long_before_the_window_is_full() {
    let policy = preset("opencode@seed");
    let mut talk = vec![user(10)];
    talk.extend((0..70).flat_map(|number| tool(number, 1_000)));
    talk.extend([reply(10), user(10), reply(10), user(10), reply(10)]);
    let outcome = simulate(&policy, &window(1_000_000), &talk, &summary);
    let compaction = &outcome.simulated[0];
    assert_eq!((compaction.kind, compaction.level, compaction.summarized), (CompactionKind::Prune, None, 0));
    assert_eq!(compaction.cleared, 30, "40000 tokens stay");
    assert!(compaction.reread_tokens > 0 && compaction.reread_tokens < compaction.before_tokens + 1);
    assert_eq!(outcome.simulated.len(), 1);
}

#[test]
fn reported_usage_counts_until_something_was_reduced() {
    let policy = preset("pi@1.5");
    let usage = |input| message(Role::Assistant, vec![text(2_000)], Some(finish(FinishReason::Stop, Some(input))));
    let mut talk: Vec<TranscriptEntry> = (1..=15).flat_map(|turn| [user(10), usage(1_900 * turn)]).collect();
    let without_compactions = simulate(&policy, &window(50_000), &talk, &summary);
    assert_eq!((fired(&without_compactions), without_compactions.final_tokens()), (vec![], 28_500));
    talk.push(user(10));
    talk.push(usage(38_000));
    talk.push(user(10));
    talk.push(usage(38_000));
    let outcome = simulate(&policy, &window(50_000), &talk, &summary);
    // The second report of 38000 is about a context that was never compacted, and is not trusted.
    assert_eq!(fired(&outcome), [(32, CompactionKind::Summary)]);
    assert_eq!(outcome.simulated[0].context_tokens, 38_000);
    talk.insert(30, TranscriptEntry::Compaction);
    let outcome = simulate(&policy, &window(50_000), &talk, &summary);
    // The agent's own compaction ends the trust in reported usage: from there on the estimate counts.
    assert_eq!(fired(&outcome), [(34, CompactionKind::Summary)]);
    assert_eq!(outcome.simulated[0].context_tokens, outcome.simulated[0].before_tokens);
}

#[test]
fn a_view_that_cannot_shrink_opens_the_breaker() {
    let policy = preset("pi@1.5");
    let mut talk = vec![user(60_000)];
    talk.extend((0..40).map(|_| reply(10)));
    let outcome = simulate(&policy, &window(50_000), &talk, &summary);
    assert!(outcome.simulated.len() <= 4, "{:?}", outcome.simulated);
    assert!(outcome.final_tokens() >= 60_000 || !outcome.simulated.is_empty());
}

#[test]
fn a_cooldown_is_waited_for_unless_the_window_is_exceeded() {
    let mut policy = preset("pi@1.5");
    policy.guards.cooldown_seconds = 60;
    let second = |second: i64, entry: TranscriptEntry| match entry {
        TranscriptEntry::Message(message) => {
            let origin_time = Some(Timestamp::from_millis(second * 1_000));
            TranscriptEntry::Message(Box::new(NewMessage { origin_time, ..*message }))
        }
        TranscriptEntry::Compaction => TranscriptEntry::Compaction,
    };
    let talk = |pace: i64| -> Vec<TranscriptEntry> {
        let turn = |at: i64| [second(at * pace, user(100)), second(at * pace, reply(3_000))];
        (0..30).flat_map(turn).collect()
    };
    let at = |pace| {
        fired(&simulate(&policy, &window(50_000), &talk(pace), &summary)).iter().map(|(at, _)| *at).collect::<Vec<_>>()
    };
    let (slow, fast) = (at(60), at(1));
    assert_eq!(slow[0], fast[0]);
    assert!(fast[1] > slow[1], "{slow:?} {fast:?}");
}

/// A conversation: for each entry its kind (request, reply or tool output) and its size in tokens.
fn talks() -> impl Strategy<Value = Vec<(u8, usize)>> {
    prop::collection::vec((0_u8..3, prop_oneof![0_usize..200, 0_usize..5_000, Just(20_000_usize)]), 0..40)
}

fn entries_of(talk: &[(u8, usize)]) -> Vec<TranscriptEntry> {
    let one = |(number, (kind, tokens)): (usize, &(u8, usize))| match kind {
        0 => vec![user(*tokens)],
        1 => vec![reply(*tokens)],
        _ => tool(number, *tokens).into(),
    };
    talk.iter().enumerate().flat_map(one).collect()
}

proptest! {
    // Every case runs under every preset.
    #![proptest_config(ProptestConfig::with_cases(3))]

    /// No preset loops on any conversation: compactions after one message are bounded, every compaction makes the view
    /// smaller, a compaction that was given up is not tried again until the view has grown, and an applied compaction
    /// has the measured size.
    #[test]
    fn no_preset_loops(talk in talks(), context in prop_oneof![Just(250_i64), Just(1_000), Just(3_000)]) {
        let window = window(context);
        for preset in presets::all() {
            let policy = preset.policy();
            let mut session = Session::new(&policy, &window, &summary);
            let (mut count, mut context_usage) = (0, Vec::new());
            for entry in entries_of(&talk) {
                let TranscriptEntry::Message(message) = entry else { continue };
                session.append(&message, false);
                let before = session.simulated().len();
                count += 1;
                context_usage.push(session.context_tokens());
                while session.compact_once() {
                    context_usage.push(session.context_tokens());
                }
                let fired = &session.simulated()[before..];
                prop_assert!(fired.len() <= count + 2, "{}: {} after one message", preset.name, fired.len());
                let shrinks = |compaction: &SimulatedCompaction| compaction.refused || compaction.after_tokens < compaction.before_tokens;
                prop_assert!(fired.iter().all(shrinks), "{}: {fired:?}", preset.name);
                if let Some(last) = fired.iter().rfind(|compaction| !compaction.refused) {
                    let view = plan::view(&policy, session.sources());
                    prop_assert_eq!(view.estimated_tokens, last.after_tokens, "{}", preset.name);
                }
            }
            let given_up = session.simulated().iter().filter(|compaction| compaction.refused).count();
            let growth: i64 = context_usage.windows(2).map(|pair| (pair[1] - pair[0]).max(0)).sum();
            let steps = usize::try_from(growth / (context / RETRY_GROWTH_DIVISOR).max(1)).unwrap_or(usize::MAX);
            let most = 1 + steps.min(count) + session.simulated().len() - given_up;
            prop_assert!(given_up <= most, "{}: gave up {given_up} times", preset.name);
        }
    }
}

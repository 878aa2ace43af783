//! Duration of a decision under every preset: the first one over a long history, and the one after one more append.
//!
//! It prints a table of medians, and marks the presets that miss a goal. A first decision over 100 000 messages should
//! take less than 100 ms, and one after one more append to a loaded session of 1 000 messages less than 1 ms: its fold,
//! guards, decision and the condition of the next one. The table also has the duration of the plan that follows the
//! first decision. Messages are in memory, with the counts that the store keeps of them; reading both is not measured.

use crate::report::Report;
use crate::source;
use longhand::fold::guards::{self, GuardInput, Guards};
use longhand::fold::{Fold, FoldInput, wake};
use longhand::model::layout::Layout;
use longhand::model::message::{FinishReason, Message, Role};
use longhand::model::part::{PartBody, ToolCall};
use longhand::model::time::Timestamp;
use longhand::model::usage::ModelWindow;
use longhand::model::view::{Counts, SourceMessage};
use longhand::policy::plan::{self, PlanningInput};
use longhand::policy::{Policy, tokens};
use longhand::presets::{self, Preset};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LENGTHS: [usize; 2] = [1_000, 100_000];
const RUNS: usize = 7;
/// Maximum length of a history for which the decision after one more append has a goal, in messages.
const NEXT_LENGTH: usize = 1_000;
const FIRST_MAX: Duration = Duration::from_millis(100);
const NEXT_MAX: Duration = Duration::from_millis(1);

/// Messages as coding agents write them: a request, a call, its result, a reply.
fn history(length: usize) -> Vec<SourceMessage> {
    (0..length).map(message).collect()
}

fn message(index: usize) -> SourceMessage {
    let turn = index / 4;
    let words = |words: &str| PartBody::Text(words.replace('#', &turn.to_string()));
    let call_id = format!("call_{turn}");
    let (role, reason, bodies) = match index % 4 {
        0 => (Role::User, None, vec![words("Please look at module_#.rs and fix what the test says about it.")]),
        1 => {
            let input_json = format!("{{\"command\": \"cargo test module_{turn} 2>&1 | tail -20\"}}");
            let call = ToolCall { call_id, tool: "bash".to_owned(), input_json, ..ToolCall::default() };
            let bodies = vec![words("I run the tests of module_# first."), PartBody::ToolCall(call)];
            (Role::Assistant, Some(FinishReason::ToolCalls), bodies)
        }
        2 => {
            let line = format!("test module_{turn}::works ... ok\n");
            (Role::Tool, None, vec![source::result(call_id, line.repeat(4 + turn % 7))])
        }
        _ => {
            let bodies = vec![words("The tests of module_# pass now; the reason was a missing bound check in line #.")];
            (Role::Assistant, Some(FinishReason::Stop), bodies)
        }
    };
    source::message(index, role, reason, bodies)
}

fn count(policy: &Policy, message: &Message) -> Counts {
    let bodies: Vec<&PartBody> = message.parts.iter().map(|part| &*part.body).collect();
    tokens::count(policy, message.role, &bodies)
}

/// The messages with the counts that the store keeps of them for a policy.
fn counted(policy: &Policy, messages: &[SourceMessage]) -> Vec<SourceMessage> {
    let is_kept = tokens::basis(policy).is_some();
    let counts = |source: &SourceMessage| is_kept.then(|| Arc::new(count(policy, &source.message)));
    messages.iter().map(|source| SourceMessage { counts: counts(source), ..source.clone() }).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Median duration of several runs.
fn measure<T>(mut run: impl FnMut() -> T) -> Duration {
    let once = |_| {
        let start = Instant::now();
        let result = black_box(run());
        let elapsed = start.elapsed();
        drop(result);
        elapsed
    };
    median((0..RUNS).map(once).collect())
}

/// Durations under one preset at one length.
struct Figures {
    /// Making the view and estimating its size.
    estimate: Duration,
    /// The decision, in a window that is full many times over.
    first: Duration,
    /// The plan that follows this decision.
    work: Duration,
    /// The decision in a window that is far from full.
    idle: Duration,
    /// The decision after one more append.
    next: Duration,
}

fn figures(preset: &Preset, messages: &[SourceMessage]) -> Figures {
    let policy = preset.policy();
    let messages = &counted(&policy, messages);
    let layout = Layout::everything();
    let base = messages.last().map_or(0, |source| source.message.revision);
    let estimated = plan::view(&policy, messages).estimated_tokens;
    let window = |context| ModelWindow { context, output: Some(16_000), ..ModelWindow::default() };
    let now = Timestamp((base + 1) * 1_000_000);
    let decide = |window: &ModelWindow| {
        let planning =
            PlanningInput { policy: &policy, window, layout: &layout, sources: messages, covered: &[], base, now };
        plan::decide(planning, estimated, |_| true, |_, _| true)
    };
    let (full, roomy) = (window(200_000), window(1_000_000_000));
    let decision = decide(&full);
    let work = || {
        let planning = PlanningInput {
            policy: &policy,
            window: &full,
            layout: &layout,
            sources: messages,
            covered: &[],
            base,
            now,
        };
        decision.map(|decision| plan::work_of(planning, decision, estimated))
    };
    let mut grown = messages.clone();
    let mut fold = Fold::new(FoldInput { policy: &policy, messages: &grown, changed_revision: 0, window: &full }, None);
    let next = measure(|| {
        grown.extend(counted(&policy, &[message(grown.len())]));
        let sources = grown.as_slice();
        fold.extend(
            FoldInput { policy: &policy, messages: sources, changed_revision: 0, window: &full },
            sources.len() - 1,
        );
        let planning =
            PlanningInput { policy: &policy, window: &roomy, layout: &layout, sources, covered: &[], base, now };
        let guards = Guards::new(planning, &fold, GuardInput::default());
        (guards::decide(planning, &fold, &guards), wake::condition(planning, &fold, &guards))
    });
    Figures {
        estimate: measure(|| plan::view(&policy, messages)),
        first: measure(|| decide(&full)),
        work: measure(work),
        idle: measure(|| decide(&roomy)),
        next,
    }
}

/// Measures the presets whose names contain one of these texts; all presets if there are none.
pub(crate) fn run(only: &[String], short: bool, report: &mut Report) {
    let lengths = if short { &LENGTHS[..1] } else { &LENGTHS };
    let histories: Vec<Vec<SourceMessage>> = lengths.iter().map(|length| history(*length)).collect();
    println!(
        "decisions; a first decision should take less than 100 ms, the next one over 1 000 messages less than 1 ms"
    );
    let is_wanted = |preset: &Preset| only.is_empty() || only.iter().any(|name| preset.name.contains(name.as_str()));
    for preset in presets::all().iter().filter(|preset| is_wanted(preset)) {
        for messages in &histories {
            let Figures { estimate, first, work, idle, next } = figures(preset, messages);
            let millis = |time: Duration| time.as_secs_f64() * 1e3;
            let is_next_fast = messages.len() > NEXT_LENGTH || next < NEXT_MAX;
            let holds = first < FIRST_MAX && idle < FIRST_MAX && is_next_fast;
            let what = format!("{}, {} messages", preset.name, messages.len());
            let figures = [
                ("estimate_ms", millis(estimate)),
                ("decide_ms", millis(first)),
                ("work_ms", millis(work)),
                ("idle_ms", millis(idle)),
                ("next_ms", millis(next)),
            ];
            report.figures(&what, if holds { "targets hold" } else { "TARGET MISSED" }, &figures);
        }
    }
}

//! What a decision costs under every preset: the first one over a long history, and the one after one more append.
//!
//! `cargo bench --bench policies` prints a table of medians, and says which preset misses a goal. A first decision over
//! 100 000 messages should take less than 100 ms, and one after one more append less than 1 ms at any length: for that
//! one the daemon weighs the message and compares running totals with what the policy's rule says. Beside them stands
//! what the job has to work out that the first decision asks for. Messages are in memory, with the counts that the store
//! keeps of them; reading both is the store's business.

use longhand::model::Revision;
use longhand::model::ids::{MessageId, PartId, SessionId};
use longhand::model::layout::Layout;
use longhand::model::message::{Finish, FinishReason, Message, MessageKind, Role};
use longhand::model::part::{Answers, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand::model::time::Timestamp;
use longhand::model::usage::ModelWindow;
use longhand::model::view::{Counts, SourceMessage};
use longhand::policy::plan::{self, Scene};
use longhand::policy::presets::{self, Preset};
use longhand::policy::{Policy, tokens};
use longhand::scheduler;
use longhand::store::{RoutineTotals, Rule};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

const LENGTHS: [usize; 2] = [1_000, 100_000];
const RUNS: usize = 7;
const APPENDS: u32 = 200;
const FIRST_MAX: Duration = Duration::from_millis(100);
const NEXT_MAX: Duration = Duration::from_millis(1);

/// Turns as coding agents have them: a request, a call, its result, a reply.
fn history(length: usize) -> Vec<SourceMessage> {
    (0..length).map(source).collect()
}

fn source(index: usize) -> SourceMessage {
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
            let status = ResultStatus::Completed;
            let output = line.repeat(4 + turn % 7);
            let result = ToolResult {
                call_id,
                status,
                output,
                attachments: Vec::new(),
                start_time: None,
                end_time: None,
                answers: Answers::Nearest,
            };
            (Role::Tool, None, vec![PartBody::ToolResult(result)])
        }
        _ => {
            let bodies = vec![words("The tests of module_# pass now; the reason was a missing bound check in line #.")];
            (Role::Assistant, Some(FinishReason::Stop), bodies)
        }
    };
    let revision = Revision::try_from(index + 1).unwrap_or(Revision::MAX);
    let id = |part: usize| Uuid::from_u128(((index as u128) << 8) + part as u128);
    let part =
        |(number, body)| Part { id: PartId(id(number + 1)), client_id: None, revision, body, metadata_json: None };
    let message = Message {
        id: MessageId(id(0)),
        session_id: SessionId(Uuid::nil()),
        client_id: None,
        revision,
        role,
        kind: MessageKind::Normal,
        parts: bodies.into_iter().enumerate().map(part).collect(),
        replaces: None,
        sealed_revision: Some(revision),
        finish: Finish { reason, ..Finish::default() },
        model: String::new(),
        provider: String::new(),
        create_time: Timestamp(revision * 1_000_000),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
    };
    SourceMessage { message: message.into(), place: None, pruned: Vec::new(), counts: None }
}

fn count(policy: &Policy, message: &Message) -> Counts {
    let bodies: Vec<&PartBody> = message.parts.iter().map(|part| &part.body).collect();
    tokens::count(policy, message.role, &bodies)
}

/// The same with what the store keeps beside them for a policy.
fn counted(policy: &Policy, messages: &[SourceMessage]) -> Vec<SourceMessage> {
    let is_kept = tokens::basis(policy).is_some();
    let counts = |source: &SourceMessage| is_kept.then(|| Arc::new(count(policy, &source.message)));
    messages.iter().map(|source| SourceMessage { counts: counts(source), ..source.clone() }).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How long something takes, the median of several runs.
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

/// The totals that the daemon keeps beside a session.
struct Totals {
    view_tokens: i64,
    routine: RoutineTotals,
}

impl Totals {
    fn of(policy: &Policy, messages: &[SourceMessage]) -> Self {
        let view_tokens = plan::view(policy, messages).estimated_tokens;
        Self { view_tokens, routine: scheduler::totals(policy, messages) }
    }

    /// Takes in one more message; whether anything is due then.
    fn append(&mut self, policy: &Policy, rule: &Rule, source: &SourceMessage) -> bool {
        let bodies: Vec<&PartBody> = source.message.parts.iter().map(|part| &part.body).collect();
        let weight = tokens::weigh_new(policy, source.message.role, &bodies);
        self.view_tokens += weight.tokens;
        self.routine.output_tokens += weight.output_tokens;
        self.routine.routine_count += weight.routine_count;
        self.routine.view_count += 1;
        let RoutineTotals { output_tokens, routine_count, view_count } = self.routine;
        let passes = |number: i64, least: Option<i64>| least.is_some_and(|least| number > least);
        rule.due_tokens.is_some_and(|due| self.view_tokens >= due)
            || passes(output_tokens, rule.prune_tokens)
            || passes(routine_count, rule.routine_count)
            || passes(view_count, rule.view_count)
            || passes(self.view_tokens, rule.routine_tokens)
    }
}

/// What was measured of a preset at one length.
struct Figures {
    /// Making the view and weighing it.
    weigh: Duration,
    /// The decision, in a window that is full many times over.
    first: Duration,
    /// What exactly it comes to.
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
        let scene = Scene { policy: &policy, window, layout: &layout, sources: messages, base, now };
        plan::decide(scene, estimated, |_| true)
    };
    let (full, roomy) = (window(200_000), window(1_000_000_000));
    let decision = decide(&full);
    let work = || {
        let scene = Scene { policy: &policy, window: &full, layout: &layout, sources: messages, base, now };
        decision.map(|decision| plan::decided(scene, decision, estimated))
    };
    let rule = scheduler::rule(&policy, &full);
    let mut totals = Totals::of(&policy, messages);
    let mut index = messages.len();
    let next = measure(|| {
        for _ in 0..APPENDS {
            let message = source(index);
            index += 1;
            black_box(totals.append(&policy, &rule, &message));
        }
    });
    Figures {
        weigh: measure(|| plan::view(&policy, messages)),
        first: measure(|| decide(&full)),
        work: measure(work),
        idle: measure(|| decide(&roomy)),
        next: next / APPENDS,
    }
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let histories = LENGTHS.map(history);
    println!(
        "{:<33} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10}  goals",
        "preset", "messages", "weigh ms", "decide ms", "work ms", "idle ms", "next us"
    );
    let is_wanted = |preset: &Preset| only.is_empty() || only.iter().any(|name| preset.name.contains(name.as_str()));
    for preset in presets::all().iter().filter(|preset| is_wanted(preset)) {
        for messages in &histories {
            let Figures { weigh, first, work, idle, next } = figures(preset, messages);
            let millis = |time: Duration| time.as_secs_f64() * 1e3;
            let holds = first < FIRST_MAX && idle < FIRST_MAX && next < NEXT_MAX;
            println!(
                "{:<33} {:>8} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2}  {}",
                preset.name,
                messages.len(),
                millis(weigh),
                millis(first),
                millis(work),
                millis(idle),
                next.as_secs_f64() * 1e6,
                if holds { "hold" } else { "MISSED" }
            );
        }
    }
}

//! Hooks: the operator's programs that are notified of compactions, and may change or refuse them.
//!
//! A program is started directly, never through a shell, as the leader of a process group of its own. That and whatever
//! else it has started is killed when its time is up or the compaction is given up; what a program left running when it
//! ended is killed when the daemon stops. It gets one JSON object on standard input.

use super::client::Assignment;
use super::error::interrupted;
use super::hook_messages::{self, GivenMessage, ReturnedMessage};
use super::processes::{self, HookRun, ProcessMark};
use super::worker::Worker;
use crate::clock::fresh_id;
use crate::config::Hook;
use crate::fold::attempt::Answer;
use crate::limits;
use crate::model::compaction::{CompactionState, Failure, FailureReason, RevisionRange};
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::summary::SummaryInput;
use crate::store::{self, Claim};
use serde::{Deserialize, Serialize};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Input of a program. Fields may be added.
#[derive(Serialize)]
struct HookInput<'a> {
    hook: &'static str,
    session_id: String,
    compaction_id: String,
    /// `micro`, `auto` or `deep`; null for none.
    level: Option<&'static str>,
    /// `threshold`, `maintenance`, `manual` or `overflow`.
    trigger: &'static str,
    /// From 1.
    attempt: i64,
    /// The revision whose view is compacted.
    base_revision: i64,
    window_tokens: i64,
    covered: Vec<HookRange>,
    /// Number of messages that are covered anew.
    covered_count: i64,
    tail_start_message_id: Option<String>,
    #[serde(flatten)]
    phase: Phase<'a>,
}

#[derive(Serialize)]
struct HookRange {
    first_revision: i64,
    last_revision: i64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Phase<'a> {
    Before {
        /// Context usage in tokens.
        context_tokens: i64,
        /// Maximum size of the summary in tokens.
        budget_tokens: i64,
        instructions: &'a str,
        /// What the summarizer is to read, for a program that asks for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        material: Option<HookMaterial<'a>>,
    },
    After {
        tokens_before: i64,
        tokens_after: i64,
        summarizer: &'a str,
        duration_ms: i64,
        summary_message_id: String,
        summary: String,
    },
}

/// Output of `pre_compact`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HookOutput {
    /// Added to the summarizer's instructions.
    instructions: String,
    /// The request for the summary, instead of the policy's.
    prompt: Option<String>,
    /// Reason for refusing the compaction.
    refuse: Option<String>,
    /// False prevents the continuation, which asks the model to go on.
    auto_continue: Option<bool>,
    /// What the summarizer reads instead of the messages.
    messages: Option<Vec<ReturnedMessage>>,
    /// What it reads instead of the front of a split turn.
    split_turn: Option<Vec<ReturnedMessage>>,
}

/// The history that a summarizer is to read.
#[derive(Serialize)]
struct HookMaterial<'a> {
    messages: Vec<GivenMessage>,
    /// The front of a split turn, which gets a summary of its own.
    split_turn: Vec<GivenMessage>,
    previous_summary: Option<&'a str>,
}

fn ranges(ranges: &[RevisionRange]) -> Vec<HookRange> {
    let range = |range: &RevisionRange| HookRange { first_revision: range.first, last_revision: range.last };
    ranges.iter().map(range).collect()
}

/// Changes by `pre_compact` to the summaries of one attempt.
#[derive(Debug, Default)]
pub(super) struct HookChanges {
    /// Added to the summarizer's instructions.
    instructions: String,
    /// The request for the summary, instead of the policy's.
    prompt: Option<String>,
    /// The replaced messages.
    material: Option<ReturnedMaterial>,
    /// True if no continuation may follow.
    pub(super) vetoes_continuation: bool,
}

/// Messages that a program returned, and those that it was given.
#[derive(Debug)]
struct ReturnedMaterial {
    given: [Vec<SourceMessage>; 2],
    read: [Vec<SourceMessage>; 2],
}

impl ReturnedMaterial {
    /// The replaced messages; none if the program returned none.
    fn from_output(input: &SummaryInput, output: &HookOutput) -> Result<Option<Self>, String> {
        if output.messages.is_none() && output.split_turn.is_none() {
            return Ok(None);
        }
        let read = |field: &str, given: &Vec<SourceMessage>, returned: &Option<Vec<ReturnedMessage>>| match returned {
            Some(returned) => hook_messages::replacement_messages(field, given, returned),
            None => Ok(given.clone()),
        };
        let read = [
            read("messages", &input.messages, &output.messages)?,
            read("split_turn", &input.split_turn, &output.split_turn)?,
        ];
        Ok(Some(Self { given: [input.messages.clone(), input.split_turn.clone()], read }))
    }

    /// The note on the replacement that the summary keeps.
    fn note(&self) -> String {
        let count = |messages: &[Vec<SourceMessage>; 2]| messages.iter().map(Vec::len).sum::<usize>();
        serde_json::json!({"pre_compact": {
            "given_messages": count(&self.given), "read_messages": count(&self.read),
        }})
        .to_string()
    }
}

impl HookChanges {
    /// True if the program replaced other messages than these. A smaller tail leaves more of them.
    pub(super) fn is_for_other(&self, input: &SummaryInput) -> bool {
        self.material.as_ref().is_some_and(|ReturnedMaterial { given: [messages, split_turn], .. }| {
            *messages != input.messages || *split_turn != input.split_turn
        })
    }

    /// Applies the changes to the request for a summary.
    pub(super) fn apply(&self, assignment: &mut Assignment) {
        if let Some(material) = &self.material {
            [assignment.input.messages, assignment.input.split_turn] = material.read.clone();
            assignment.details_json = Some(material.note());
        }
        let input = &mut assignment.input;
        if !self.instructions.is_empty() {
            if !input.instructions.is_empty() {
                input.instructions.push('\n');
            }
            input.instructions.push_str(&self.instructions);
        }
        if let Some(prompt) = &self.prompt {
            input.rules.prompt.task = Some(prompt.clone());
        }
    }
}

impl Worker {
    /// Calls `pre_compact` for a summary that is to be written. A program that fails changes nothing, unless it is
    /// required.
    pub(super) async fn pre_compact(
        &self,
        claim: &Claim,
        assignment: &Assignment,
    ) -> Result<HookChanges, Answer<'static>> {
        let Some(hook) = &self.hooks.pre_compact else { return Ok(HookChanges::default()) };
        let (session, _) = self.store.sessions().get(claim.session).await.map_err(interrupted)?;
        let plan = &assignment.plan;
        let count = plan.covered_count();
        let input = HookInput {
            hook: "pre_compact",
            session_id: session.id.to_string(),
            compaction_id: claim.compaction.to_string(),
            level: claim.request.level.map(crate::model::compaction::Level::name),
            trigger: claim.request.trigger.name(),
            attempt: claim.attempt,
            base_revision: claim.base,
            window_tokens: claim.window.context,
            covered: ranges(&plan.covered),
            covered_count: i64::try_from(count).unwrap_or(i64::MAX),
            tail_start_message_id: plan.tail_message.map(|id| id.to_string()),
            phase: Phase::Before {
                context_tokens: claim.context_tokens,
                budget_tokens: assignment.input.budget_tokens,
                instructions: &assignment.input.instructions,
                material: hook.messages.then(|| HookMaterial {
                    messages: hook_messages::given_messages(&assignment.input.messages),
                    split_turn: hook_messages::given_messages(&assignment.input.split_turn),
                    previous_summary: assignment.input.previous.as_deref(),
                }),
            },
        };
        let answer = ask(hook, ProcessMark(self.owner), &input).await.and_then(|output| {
            let output = read_output(&output, &assignment.input.instructions)?;
            Ok((ReturnedMaterial::from_output(&assignment.input, &output)?, output))
        });
        let (material, output) = match answer {
            Ok(answer) => answer,
            Err(why) if hook.required => {
                let failure = Failure::new(FailureReason::HookFailed, format!("pre_compact {why}"));
                return Err(Answer::Refused(failure));
            }
            Err(why) => {
                tracing::warn!(compaction = %claim.compaction, "pre_compact {why}; it changes nothing");
                return Ok(HookChanges::default());
            }
        };
        if let Some(why) = output.refuse {
            let why = if why.is_empty() { "pre_compact refused it".to_owned() } else { why };
            return Err(Answer::Refused(Failure::new(FailureReason::HookRefused, why)));
        }
        let vetoes_continuation = output.auto_continue == Some(false);
        Ok(HookChanges { instructions: output.instructions, prompt: output.prompt, material, vetoes_continuation })
    }

    /// Notifies `post_compact` of a compaction that is done. The program can no longer change it.
    pub(super) async fn post_compact(&self, claim: &Claim) -> store::Result<()> {
        let Some(hook) = &self.hooks.post_compact else { return Ok(()) };
        let compaction = self.store.compactions().get(claim.compaction).await?;
        // A later attempt is notified by its own worker.
        let is_mine = compaction.state == CompactionState::Done && compaction.attempt == claim.attempt;
        let Some(outcome) = compaction.outcome.filter(|_| is_mine) else { return Ok(()) };
        let Some(summary) = outcome.summary_message else { return Ok(()) };
        let message = self.store.history().get(claim.session, &summary.to_string()).await?;
        let text = message.parts.into_iter().find_map(|part| match Arc::unwrap_or_clone(part.body) {
            PartBody::Text(text) => Some(text),
            _ => None,
        });
        let input = HookInput {
            hook: "post_compact",
            session_id: compaction.session_id.to_string(),
            compaction_id: claim.compaction.to_string(),
            level: claim.request.level.map(crate::model::compaction::Level::name),
            trigger: claim.request.trigger.name(),
            attempt: claim.attempt,
            base_revision: claim.base,
            window_tokens: claim.window.context,
            covered: ranges(&outcome.covered),
            covered_count: outcome.covered_count,
            tail_start_message_id: outcome.tail_start.map(|id| id.to_string()),
            phase: Phase::After {
                tokens_before: outcome.tokens_before,
                tokens_after: outcome.tokens_after,
                summarizer: &outcome.summarizer,
                duration_ms: outcome.duration_ms,
                summary_message_id: summary.to_string(),
                summary: text.unwrap_or_default(),
            },
        };
        if let Err(why) = ask(hook, ProcessMark(self.owner), &input).await {
            tracing::warn!(compaction = %claim.compaction, "post_compact {why}");
        }
        Ok(())
    }
}

/// Parses a program's output, for the fuzzer of `tests/attack` only. It is not part of the library's interface, and
/// goes when the fuzzer goes.
#[doc(hidden)]
pub fn read_hook_output(output: &[u8]) -> Result<(), String> {
    read_output(output, "").map(drop)
}

/// Parses a program's output; empty output means no changes.
fn read_output(output: &[u8], instructions: &str) -> Result<HookOutput, String> {
    if output.trim_ascii().is_empty() {
        return Ok(HookOutput::default());
    }
    let output: HookOutput = serde_json::from_slice(output).map_err(|error| {
        // The error's own text would quote the output.
        format!("printed what cannot be understood, at line {} column {}", error.line(), error.column())
    })?;
    let bytes = output.instructions.len() + instructions.len();
    if bytes > limits::INSTRUCTIONS_BYTES_MAX {
        return Err(format!("makes instructions of {bytes} bytes, over {}", limits::INSTRUCTIONS_BYTES_MAX));
    }
    let is_usable = |prompt: &String| !prompt.trim().is_empty() && prompt.len() <= limits::INSTRUCTIONS_BYTES_MAX;
    if !output.prompt.as_ref().is_none_or(is_usable) {
        return Err(format!("printed a prompt that is empty or over {} bytes", limits::INSTRUCTIONS_BYTES_MAX));
    }
    Ok(output)
}

/// Runs a program with JSON on standard input; returns its output, or the reason why the output is unusable.
async fn ask(hook: &Hook, mark: ProcessMark, input: &HookInput<'_>) -> Result<Vec<u8>, String> {
    let [program, arguments @ ..] = hook.command.as_slice() else { return Err("names no program".to_owned()) };
    let input = serde_json::to_vec(input).map_err(|error| format!("its input cannot be encoded: {error}"))?;
    if input.len() > limits::HOOK_INPUT_BYTES_MAX {
        return Err(format!("would get {} bytes, over {}", input.len(), limits::HOOK_INPUT_BYTES_MAX));
    }
    let mark = mark.of_run(fresh_id());
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Standard error could contain keys of the environment, and the text of a failure stays in the history for
        // ever.
        .stderr(Stdio::null())
        .env(processes::VARIABLE, &mark)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let run = HookRun::new(child.id(), mark);
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let send = async {
        if let Some(mut stdin) = stdin {
            // A program may not read its input.
            drop(stdin.write_all(&input).await);
        }
    };
    let talk = async {
        let ((), output) = tokio::join!(send, read_bounded(stdout, limits::HOOK_OUTPUT_BYTES_MAX));
        (output, child.wait().await)
    };
    let limit = Duration::from_secs(hook.timeout_seconds);
    let Ok((output, ended)) = tokio::time::timeout(limit, talk).await else {
        return Err(format!("did not end within {} s", hook.timeout_seconds));
    };
    run.note_ended();
    let status = ended.map_err(|error| format!("cannot be waited for: {error}"))?;
    if !status.success() {
        return Err(format!("failed with {status}; what it wrote to standard error is not kept"));
    }
    match output {
        (_, true) => Err(format!("printed more than {} bytes", limits::HOOK_OUTPUT_BYTES_MAX)),
        (output, false) => Ok(output),
    }
}

/// The input up to a bound, and true if there was more. All of it is read, so that the writer does not block.
async fn read_bounded(from: Option<impl AsyncRead + Unpin>, bytes_max: usize) -> (Vec<u8>, bool) {
    let Some(mut from) = from else { return (Vec::new(), false) };
    let mut output = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    drop((&mut from).take(limit).read_to_end(&mut output).await);
    let more = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    (output, more.is_ok_and(|more| more > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{MessageId, SessionId};
    use crate::model::message::{Finish, Message, MessageKind, Role};
    use crate::model::time::Timestamp;
    use crate::policy::{Counting, Summary};
    use uuid::Uuid;

    #[test]
    fn the_output_of_a_program_is_parsed_strictly() {
        let parse = |text: &str| read_output(text.as_bytes(), "old");
        assert_eq!(parse(" \n"), Ok(HookOutput::default()));
        assert_eq!(parse("{}"), Ok(HookOutput::default()));
        let expected = HookOutput { instructions: "be brief".to_owned(), ..HookOutput::default() };
        assert_eq!(parse("{\"instructions\": \"be brief\"}"), Ok(expected));
        assert_eq!(parse("{\"refuse\": \"no\"}").expect("read").refuse.as_deref(), Some("no"));
        assert_eq!(parse("{\"auto_continue\": false}").expect("read").auto_continue, Some(false));
        for bad in ["no", "[]x", "{\"refuze\": \"no\"}", "{\"instructions\": 1}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let long = format!("{{\"instructions\": \"{}\"}}", "w".repeat(limits::INSTRUCTIONS_BYTES_MAX - 2));
        assert!(parse(&long).is_err());
    }

    #[test]
    fn replaced_messages_are_for_the_range_that_they_replace() {
        let message = |revision| -> SourceMessage {
            let message = Message {
                id: MessageId(Uuid::from_u128(revision)),
                session_id: SessionId(Uuid::nil()),
                client_id: None,
                revision: i64::try_from(revision).expect("small"),
                role: Role::User,
                kind: MessageKind::Normal,
                parts: Vec::new(),
                sealed_revision: Some(1),
                finish: Finish::default(),
                model: String::new(),
                provider: String::new(),
                create_time: Timestamp(0),
                origin_time: None,
                actor: String::new(),
                metadata_json: None,
                replaces: None,
            };
            SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
        };
        let input = |messages| SummaryInput {
            messages,
            split_turn: Vec::new(),
            previous: None,
            previous_digest: None,
            words: crate::model::mark::Words::new(),
            previous_is_supplied: false,
            rules: Summary::default(),
            counting: Counting::default(),
            instructions: String::new(),
            budget_tokens: 1,
        };
        let (less, more) = (input(vec![message(1)]), input(vec![message(1), message(2)]));
        let output = read_output(br#"{"messages": [{"role": "user", "parts": [{"text": "x"}]}]}"#, "").expect("read");
        let material = ReturnedMaterial::from_output(&less, &output).expect("usable");
        let changes = HookChanges { material, ..HookChanges::default() };
        assert!(!changes.is_for_other(&less) && changes.is_for_other(&more));
        assert!(!HookChanges::default().is_for_other(&more), "a program that replaced none is not asked again");
    }
}

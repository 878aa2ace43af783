//! Writes summaries of conversations in JSON, for `benches/summaries`.
//!
//! Each line of the input is an object: `messages` with `role`, `text` and `calls` (`tool`, `input`, `output`,
//! `failed`), `preset`, and a limit in `tokens` by the preset's counting or the one in `counting`, or in `characters`
//! without headings. With `rounds`, the messages come in as many pieces, and each summary replaces the one before it.
//! Each line of the output is an object with the `text` of its last summary and the `times` that it took, of which its
//! digest is a part.

use longhand_core::policy::Counting;
use longhand_core::policy::summary::SummaryInput;
use longhand_extractive::{Covered, extract};
use longhand_model::compaction::Level;
use longhand_model::ids::{MessageId, PartId, SessionId};
use longhand_model::mark::Words;
use longhand_model::message::{Finish, Message, MessageKind, Role};
use longhand_model::part::{Answers, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand_model::time::Timestamp;
use longhand_model::view::SourceMessage;
use longhand_presets as presets;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::BufRead;
use std::time::Instant;
use uuid::Uuid;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let messages = messages(request["messages"].as_array().map_or(&[], Vec::as_slice));
        let rounds = usize::try_from(request["rounds"].as_u64().unwrap_or(1))?.max(1);
        let policy = presets::policy(request["preset"].as_str().unwrap_or("longhand@1"));
        let rules = policy.summarize(Level::Auto).ok_or("a preset that does not summarize")?.summary.clone();
        let mut input = SummaryInput {
            messages: Vec::new(),
            split_turn: Vec::new(),
            previous: None,
            previous_digest: None,
            words: Words::new(),
            previous_is_supplied: false,
            rules,
            counting: match request.get("counting") {
                Some(counting) => Counting::deserialize(counting)?,
                None => policy.counting,
            },
            instructions: String::new(),
            budget_tokens: request["tokens"].as_i64().unwrap_or(4_096),
        };
        // Without digests, each summary is made from the text of the one before it.
        let carries = request["digests"] != false;
        let (mut milliseconds, mut digest_milliseconds) = (0.0, 0.0);
        for piece in pieces(&messages, rounds) {
            input.messages = piece.to_vec();
            if let Some(characters) = request["characters"].as_u64() {
                input.budget_tokens = tokens_for(&input, usize::try_from(characters)?);
            }
            let began = Instant::now();
            let text = extract(&input);
            milliseconds = began.elapsed().as_secs_f64() * 1_000.0;
            let began = Instant::now();
            let read = Covered::new(&input).digest();
            digest_milliseconds = began.elapsed().as_secs_f64() * 1_000.0;
            input.previous_digest = carries.then(|| read.to_json());
            input.previous = Some(text);
        }
        let times = json!({ "milliseconds": milliseconds, "digest_milliseconds": digest_milliseconds });
        println!("{}", json!({ "text": input.previous, "times": times }));
    }
    Ok(())
}

/// The largest limit whose summary has at most so many characters, headings apart.
fn tokens_for(input: &SummaryInput, characters: usize) -> i64 {
    let length = |tokens: i64| {
        let text = extract(&SummaryInput { budget_tokens: tokens, ..input.clone() });
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(|line| line.chars().count() + 1).sum::<usize>()
    };
    let (mut fits, mut exceeds) = (0, i64::try_from(characters).unwrap_or(i64::MAX / 2) + 200);
    while exceeds - fits > 1 {
        let middle = i64::midpoint(fits, exceeds);
        if length(middle) <= characters { fits = middle } else { exceeds = middle }
    }
    fits
}

/// The messages in about equal pieces, none of which begins with results.
fn pieces(messages: &[SourceMessage], count: usize) -> Vec<&[SourceMessage]> {
    let mut rest = messages;
    let mut pieces = Vec::new();
    for left in (1..=count).rev() {
        let mut end = rest.len() / left;
        while rest.get(end).is_some_and(|source| source.message.role == Role::Tool) {
            end += 1;
        }
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

fn messages(given: &[Value]) -> Vec<SourceMessage> {
    let mut messages: Vec<SourceMessage> = Vec::new();
    for entry in given {
        let role = match entry["role"].as_str() {
            Some("user") => Role::User,
            Some("system") => Role::System,
            _ => Role::Assistant,
        };
        let mut parts = Vec::new();
        let mut results = Vec::new();
        if let Some(text) = entry["text"].as_str().filter(|text| !text.is_empty()) {
            parts.push(PartBody::Text(text.to_owned()));
        }
        for (index, call) in entry["calls"].as_array().into_iter().flatten().enumerate() {
            let call_id = format!("call-{}-{index}", messages.len());
            let status = if call["failed"] == true { ResultStatus::Error } else { ResultStatus::Completed };
            if let Some(output) = call["output"].as_str() {
                results.push(PartBody::ToolResult(ToolResult {
                    call_id: call_id.clone(),
                    status,
                    output: output.to_owned(),
                    attachments: Vec::new(),
                    start_time: None,
                    end_time: None,
                    answers: Answers::Nearest,
                }));
            }
            let tool = call["tool"].as_str().unwrap_or_default().to_owned();
            let input_json = call["input"].to_string();
            parts.push(PartBody::ToolCall(ToolCall { call_id, tool, input_json, ..ToolCall::default() }));
        }
        for (role, parts) in [(role, parts), (Role::Tool, results)] {
            if !parts.is_empty() {
                messages.push(message(messages.len(), role, parts));
            }
        }
    }
    messages
}

fn message(index: usize, role: Role, parts: Vec<PartBody>) -> SourceMessage {
    let revision = i64::try_from(index).unwrap_or_default() + 1;
    let part = |(number, body): (usize, PartBody)| {
        let id = PartId(Uuid::from_u128(((index as u128) << 64) | number as u128));
        Part { id, client_id: None, revision, body: body.into(), metadata_json: None }
    };
    let message = Message {
        id: MessageId(Uuid::from_u128(revision.unsigned_abs().into())),
        session_id: SessionId(Uuid::nil()),
        client_id: None,
        revision,
        role,
        kind: MessageKind::Normal,
        parts: parts.into_iter().enumerate().map(part).collect(),
        sealed_revision: Some(revision),
        finish: Finish::default(),
        model: String::new(),
        provider: String::new(),
        create_time: Timestamp::default(),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    };
    SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
}

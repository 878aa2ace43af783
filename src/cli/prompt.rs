//! `longhand prompt`: the queue of a session.

use super::changes::{rewind_before, text_or_input};
use super::failure::note_secrets;
use super::globals::PAGE_SIZE;
use super::output::{Output, one_line, shorten, word};
use super::table::{Column, Table};
use super::{Globals, ids};
use crate::pb;
use longhand_client::message::text_part;
use std::process::ExitCode;

/// Maximum width of a prompt's text on a line, in characters.
const WORDS_WIDTH: usize = 80;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Submit a prompt to a session's queue, and print its id
    Submit {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Text of the prompt; default: standard input
        text: Option<String>,
        /// Hand it to the active run
        #[arg(long, conflicts_with = "interrupt")]
        steer: bool,
        /// Ask the active run to stop, and be the next one
        #[arg(long)]
        interrupt: bool,
        /// The text is the result of this call of a tool, which an agent left to its front end
        #[arg(long, value_name = "CALL_ID", conflicts_with_all = ["rewind_to", "rewind_all"])]
        result: Option<String>,
        /// Leave everything after this message out of views first, by id, client id or revision; ends the active run
        #[arg(long, value_name = "MESSAGE")]
        rewind_to: Option<String>,
        /// Leave all messages out of views first; ends the active run
        #[arg(long, conflicts_with = "rewind_to")]
        rewind_all: bool,
    },
    /// List the prompts that wait, in the order of the queue
    List {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// All prompts, newest first
        #[arg(long)]
        all: bool,
    },
    /// Have a run take a prompt, and print the id of its message
    Take {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Number of the run
        epoch: i64,
        /// Prompt; default: the first of the queue
        prompt: Option<String>,
        /// Only if it steers
        #[arg(long, conflicts_with = "prompt")]
        steering: bool,
    },
    /// Move a prompt in the queue
    Move {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Prompt
        prompt: String,
        /// Prompt that it is to be before; default: the end of the queue
        #[arg(long, value_name = "PROMPT")]
        before: Option<String>,
    },
    /// Take a prompt out of the queue, without a message
    Withdraw {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Prompt
        prompt: String,
    },
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let request_id = String::new();
    match arguments.command {
        Command::Submit { session, text, steer, interrupt, result, rewind_to, rewind_all } => {
            let delivery = match (steer, interrupt) {
                (true, _) => pb::Delivery::Steer,
                (_, true) => pb::Delivery::Interrupt,
                (false, false) => pb::Delivery::Queue,
            };
            let text = text_or_input(text)?;
            let part = match result {
                Some(call_id) => result_part(call_id, text),
                None => text_part(text),
            };
            let session_id = ids::session(&client, &session).await?;
            let rewind = rewind_before(&client, &session_id, rewind_to, rewind_all).await?;
            let request = pb::SubmitPromptRequest {
                session_id,
                parts: vec![part],
                delivery: delivery.into(),
                request_id,
                rewind,
                ..pb::SubmitPromptRequest::default()
            };
            let added = client.call(request).await?;
            note_secrets(&added.secret_findings);
            output.answer(&added, &added.prompt_id)?;
        }
        Command::List { session, all } => {
            let session_id = ids::session(&client, &session).await?;
            let page_token = String::new();
            let request = pb::ListPromptsRequest { session_id, include_ended: all, page_size: PAGE_SIZE, page_token };
            let prompts = client.pages(request).all(|page| page.prompts).await?;
            print(&mut output, &prompts)?;
        }
        Command::Take { session, epoch, prompt, steering } => {
            let session_id = ids::session(&client, &session).await?;
            let request =
                pb::TakePromptRequest { session_id, epoch, prompt_id: prompt, steering_only: steering, request_id };
            let answer = client.call(request).await?;
            let end = answer.prompt.as_ref().and_then(|prompt| prompt.end.as_ref());
            let message = end.and_then(|end| end.message_id.clone()).unwrap_or_default();
            output.answer(&answer, &message)?;
        }
        Command::Move { session, prompt, before } => {
            let session_id = ids::session(&client, &session).await?;
            let request = pb::MovePromptRequest { session_id, prompt_id: prompt, before_prompt_id: before, request_id };
            let moved = client.call(request).await?;
            output.answer(&moved, &done("moved", moved.revision))?;
        }
        Command::Withdraw { session, prompt } => {
            let session_id = ids::session(&client, &session).await?;
            let request = pb::WithdrawPromptRequest { session_id, prompt_id: prompt, request_id };
            let withdrawn = client.call(request).await?;
            output.answer(&withdrawn, &done("withdrawn", withdrawn.revision))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The line for a change without an id of its own.
pub(super) fn done(what: &str, revision: i64) -> String {
    format!("{what}, at revision {revision}")
}

fn result_part(call_id: String, output: String) -> pb::Part {
    let status = pb::ToolResultStatus::Completed.into();
    let result = pb::ToolResultPart { call_id, status, output, ..pb::ToolResultPart::default() };
    pb::Part { body: Some(pb::part::Body::ToolResult(result)), ..pb::Part::default() }
}

fn prompt_text(prompt: &pb::Prompt) -> String {
    let text = |part: &pb::Part| match &part.body {
        Some(pb::part::Body::Text(text)) => one_line(&text.text),
        Some(pb::part::Body::Media(media)) => format!("[{}]", one_line(&media.mime_type)),
        Some(pb::part::Body::ToolResult(result)) => {
            format!("[result of {}] {}", one_line(&result.call_id), one_line(&result.output))
        }
        _ => String::new(),
    };
    shorten(&prompt.parts.iter().map(text).collect::<Vec<_>>().join(" "), WORDS_WIDTH)
}

fn delivery(prompt: &pb::Prompt) -> String {
    word(prompt.delivery().as_str_name(), "DELIVERY_")
}

/// Description of a prompt, in one line.
pub(super) fn line(prompt: &pb::Prompt) -> String {
    let from = if prompt.actor.is_empty() { String::new() } else { format!(" of {}", one_line(&prompt.actor)) };
    format!("prompt {}{from} ({}): {}", prompt.prompt_id, delivery(prompt), prompt_text(prompt))
}

fn print(output: &mut Output, prompts: &[pb::Prompt]) -> anyhow::Result<()> {
    if output.json() {
        return prompts.iter().try_for_each(|prompt| output.message(prompt));
    }
    let mut table = Table::new(&[
        Column::word("PROMPT"),
        Column::word("DELIVERY"),
        Column::word("STATE"),
        Column::text("SENDER").optional(1),
        Column::text("TEXT"),
    ]);
    for prompt in prompts {
        let state = match prompt.end.as_ref().map(|end| end.epoch) {
            None => "waits".to_owned(),
            Some(None) => "withdrawn".to_owned(),
            Some(Some(epoch)) => format!("taken by {epoch}"),
        };
        let sender = if prompt.actor.is_empty() { "-".to_owned() } else { one_line(&prompt.actor) };
        table.row(vec![prompt.prompt_id.clone(), delivery(prompt), state, sender, prompt_text(prompt)]);
    }
    Ok(table.print(output)?)
}

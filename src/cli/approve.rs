//! `longhand approve`: questions of agents, and their answers.

use super::failure::{Usage, note_secrets};
use super::globals::PAGE_SIZE;
use super::output::{Output, one_line, shorten};
use super::prompt::done;
use super::table::{Column, Table};
use super::times::seconds;
use super::{Globals, ids};
use crate::pb;
use longhand_client::Client;
use std::process::ExitCode;

/// Maximum width of a question on a line, in characters.
const WORDS_WIDTH: usize = 80;
/// Prefix of the ids of questions.
const PREFIX: &str = "apr_";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the questions of a session that wait for an answer, newest first
    List {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// All questions, with their answers
        #[arg(long)]
        all: bool,
    },
    /// Ask a question, and print its id
    Ask(AskArguments),
    /// Answer a question
    Answer {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Question, as `longhand approve list` prints it, if several wait; and the choice, unless a text is the answer
        #[arg(value_names = ["QUESTION", "CHOICE"], num_args = 0..=2)]
        answer: Vec<String>,
        /// Text, if the question accepts one
        #[arg(long, default_value = "")]
        text: String,
    },
    /// Withdraw a question
    Withdraw {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Question, as `longhand approve list` prints it; default: the only one that waits
        approval: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct AskArguments {
    /// Session, by id, client id, or the last or first digits of its id
    session: String,
    /// Text of the question
    text: String,
    /// One of the answers to choose from; default: yes and no
    #[arg(long = "choice", value_name = "CHOICE")]
    choices: Vec<String>,
    /// Accept a text as the answer
    #[arg(long)]
    accept_text: bool,
    /// Tool whose use needs the approval
    #[arg(long, value_name = "NAME", default_value = "")]
    tool: String,
    /// JSON on which the answer depends, such as the tool's input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Choice that holds when the time is up
    #[arg(long, value_name = "CHOICE", requires = "timeout")]
    default: Option<String>,
    /// Seconds for an answer
    #[arg(long, value_name = "SECONDS", requires = "default")]
    timeout: Option<i64>,
    /// Id of your own for the request; the same command again finds the question with its answer
    #[arg(long, value_name = "ID", default_value = "")]
    request_id: String,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    match arguments.command {
        Command::List { session, all } => {
            let session_id = ids::session(&client, &session).await?;
            print(&mut output, &list(&client, &session_id, all).await?)?;
        }
        Command::Ask(asked) => {
            let session_id = ids::session(&client, &asked.session).await?;
            let request_id = asked.request_id.clone();
            let request = pb::RequestApprovalRequest { session_id, question: Some(question(asked)), request_id };
            let answered = client.call(request).await?;
            note_secrets(&answered.secret_findings);
            let approval = answered.approval.clone().unwrap_or_default();
            let said = if approval.end.is_some() { line(&approval) } else { approval.approval_id };
            output.answer(&answered, &said)?;
        }
        Command::Answer { session, answer, text } => {
            let (approval, choice) = parse_answer(answer, !text.is_empty())?;
            let session_id = ids::session(&client, &session).await?;
            let approval_id = approval_or_only(&client, &session_id, approval).await?;
            let request = pb::AnswerApprovalRequest { session_id, approval_id, choice, text, ..Default::default() };
            let answered = client.call(request).await?;
            note_secrets(&answered.secret_findings);
            output.answer(&answered, &line(&answered.approval.clone().unwrap_or_default()))?;
        }
        Command::Withdraw { session, approval } => {
            let session_id = ids::session(&client, &session).await?;
            let approval_id = approval_or_only(&client, &session_id, approval).await?;
            let request = pb::WithdrawApprovalRequest { session_id, approval_id, request_id: String::new() };
            let withdrawn = client.call(request).await?;
            output.answer(&withdrawn, &done("withdrawn", withdrawn.revision))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The questions of a session that wait, or all.
async fn list(client: &Client, session_id: &str, include_ended: bool) -> anyhow::Result<Vec<pb::Approval>> {
    let (session_id, page_token) = (session_id.to_owned(), String::new());
    let request = pb::ListApprovalsRequest { session_id, include_ended, page_size: PAGE_SIZE, page_token };
    Ok(client.pages(request).all(|page| page.approvals).await?)
}

/// The question and the choice that an answer names; the choice may be missing beside a text.
fn parse_answer(answer: Vec<String>, has_text: bool) -> Result<(Option<String>, Option<String>), Usage> {
    let (mut ids, mut choices): (Vec<_>, Vec<_>) = answer.into_iter().partition(|word| word.starts_with(PREFIX));
    if ids.len() > 1 || choices.len() > 1 || (choices.is_empty() && !has_text) {
        return Err(Usage(format!("an answer is [QUESTION] CHOICE or --text TEXT; a question begins with {PREFIX}")));
    }
    Ok((ids.pop(), choices.pop()))
}

/// The named question; without a name, the only one that waits.
async fn approval_or_only(client: &Client, session_id: &str, named: Option<String>) -> anyhow::Result<String> {
    if let Some(named) = named {
        return Ok(named);
    }
    let mut waiting = list(client, session_id, false).await?;
    let ids: Vec<&str> = waiting.iter().map(|approval| approval.approval_id.as_str()).collect();
    match ids.len() {
        1 => Ok(waiting.remove(0).approval_id),
        0 => Err(Usage("no question waits there".to_owned()).into()),
        _ => Err(Usage(format!("several questions wait, of which one must be named: {}", ids.join(", "))).into()),
    }
}

fn question(asked: AskArguments) -> pb::Question {
    let AskArguments { session: _, text, choices, accept_text, tool, input, default, timeout, request_id: _ } = asked;
    let ids = match (choices.is_empty(), accept_text) {
        (true, false) => vec!["yes".to_owned(), "no".to_owned()],
        _ => choices,
    };
    pb::Question {
        text,
        tool,
        call_id: String::new(),
        input_json: input,
        choices: ids.into_iter().map(|id| pb::Choice { id, label: String::new() }).collect(),
        accepts_text: accept_text,
        default_choice: default,
        answer_timeout: timeout.map(seconds),
    }
}

/// The answer to a question; none while it waits.
fn answer(approval: &pb::Approval) -> Option<String> {
    let end = approval.end.as_ref()?;
    let by = if end.actor.is_empty() { String::new() } else { format!(" by {}", one_line(&end.actor)) };
    let text = if end.text.is_empty() { String::new() } else { format!(": {}", one_line(&end.text)) };
    let choice = end.choice.as_deref().map_or_else(|| "a text".to_owned(), one_line);
    Some(match end.reason() {
        pb::ApprovalEndReason::Withdrawn => format!("withdrawn{by}"),
        pb::ApprovalEndReason::Expired => format!("{choice}, since the time was up"),
        pb::ApprovalEndReason::Answered | pb::ApprovalEndReason::Unspecified => format!("{choice}{by}{text}"),
    })
}

fn question_line(approval: &pb::Approval) -> String {
    let question = approval.question.clone().unwrap_or_default();
    let tool = if question.tool.is_empty() { String::new() } else { format!("[{}] ", one_line(&question.tool)) };
    shorten(&format!("{tool}{}", one_line(&question.text)), WORDS_WIDTH)
}

/// Description of an approval, in one line.
pub(super) fn line(approval: &pb::Approval) -> String {
    let answer = answer(approval).unwrap_or_else(|| "waits for an answer".to_owned());
    format!("question {}: {}: {answer}", approval.approval_id, question_line(approval))
}

fn print(output: &mut Output, approvals: &[pb::Approval]) -> anyhow::Result<()> {
    if output.json() {
        return approvals.iter().try_for_each(|approval| output.message(approval));
    }
    let mut table = Table::new(&[
        Column::word("QUESTION"),
        Column::text("AGENT").optional(1),
        Column::text("TEXT"),
        Column::text("CHOICES"),
        Column::text("ANSWER"),
    ]);
    for approval in approvals {
        let choices = approval.question.iter().flat_map(|question| &question.choices);
        let choices: Vec<String> = choices.map(|choice| one_line(&choice.id)).collect();
        let agent = if approval.actor.is_empty() { "-".to_owned() } else { one_line(&approval.actor) };
        let answer = answer(approval).unwrap_or_else(|| "-".to_owned());
        table.row(vec![approval.approval_id.clone(), agent, question_line(approval), choices.join(", "), answer]);
    }
    Ok(table.print(output)?)
}

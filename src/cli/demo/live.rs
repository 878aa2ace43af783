//! The demo for people: two agents at a pace that can be followed, in the terminal and in the console.

use super::agent::{Agent, Pace};
use super::daemon::Daemon;
use super::sample;
use super::watcher::wait_until_idle;
use crate::cli::output::{HEADING, Output, one_line};
use crate::cli::watch::EventPrinter;
use crate::cli::{Globals, console, failure, welcome};
use crate::pb;
use crate::pb::event::Body;
use crate::pb::subscribe_events_response::Frame;
use anyhow::Context as _;
use longhand_client::Client;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Plays the sample for about this time, and leaves the daemon there until the demo is interrupted.
pub(super) async fn run(
    globals: &Globals,
    daemon: Daemon,
    session_id: &str,
    time: Duration,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<ExitCode> {
    let mut output = globals.output();
    tokio::pin!(interrupted);
    tokio::select! {
        shown = show(&daemon, session_id, time, &mut output) => shown?,
        () = &mut interrupted => return end(daemon, output).await,
    }
    interrupted.await;
    end(daemon, output).await
}

/// Stops the daemon, whose data goes with it.
async fn end(daemon: Daemon, mut output: Output) -> anyhow::Result<ExitCode> {
    let folder = daemon.folder().display().to_string();
    let is_clean = daemon.stop().await?;
    output.line("")?;
    output.line(&format!("The demo's daemon is stopped, and {folder} removed."))?;
    output.flush()?;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what two agents do, answers their question with what is typed, and says at the end what to do next.
async fn show(daemon: &Daemon, session_id: &str, time: Duration, output: &mut Output) -> anyhow::Result<()> {
    let connect = async |name| daemon.connect(name).await;
    let person = connect("you").await?;
    let link = console::link(&person, &daemon.address).await?;
    for line in [
        "Two agents, one in a terminal and one in an editor, work on one session; its daemon compacts the view that they \
         get while they do. Open this link in a browser, within two minutes, to see history and view side by side:",
        &link,
        "Ctrl-C ends the demo and removes its data.",
        "",
    ] {
        output.wrapped_line(line, "")?;
    }
    let scripts = [sample::TERMINAL, sample::EDITOR];
    let pace = Pace::for_time(time, &scripts);
    let mut following = EventPrinter::begin(connect("terminal").await?, Some(session_id.to_owned()), output).await?;
    let agent = async |name| anyhow::Ok(Agent::new(name, connect(name).await?, session_id).at_pace(pace));
    let (terminal, editor) = (agent("terminal").await?, agent("editor").await?);
    let onlooker = connect("demo").await?;
    let playing = async {
        tokio::try_join!(terminal.play(scripts[0]), editor.play(scripts[1]))?;
        wait_until_idle(&onlooker, session_id).await
    };
    tokio::pin!(playing);
    let mut typed = typed_lines();
    let mut waiting = None;
    let (mut seen, mut last) = (0, None);
    while last.is_none_or(|last| seen < last) {
        tokio::select! {
            played = &mut playing, if last.is_none() => last = Some(played?),
            response = following.next() => {
                let response = response?.context("the event stream ended")?;
                following.print(output, &response).await?;
                let Some(Frame::Events(batch)) = response.frame else { continue };
                for event in batch.events {
                    seen = event.revision;
                    match event.body {
                        Some(Body::ApprovalRequested(asked)) => {
                            waiting = ask(&person, session_id, asked.approval_id, output).await?;
                        }
                        Some(Body::ApprovalEnded(_)) => waiting = None,
                        Some(_) | None => {}
                    }
                }
            }
            Some(line) = typed.recv(), if waiting.is_some() => if let Some(approval) = &waiting {
                answer(&person, approval, &line).await;
            }
        }
    }
    for line in
        ["", "The agents are done; the console shows their session until Ctrl-C. What is next, in another terminal:"]
    {
        output.wrapped_line(line, "")?;
    }
    let server = format!("--server {}", daemon.address);
    for command in ["view demo", "search nodal"] {
        output.line(&format!("  {} {server} {command}", welcome::program()))?;
    }
    output.line("And with sessions of your own:")?;
    welcome::print_next(output)?;
    Ok(output.flush()?)
}

/// Lines that are typed. A thread of its own reads them, for whose end nobody waits.
fn typed_lines() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    if io::stdin().is_terminal() {
        std::thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    }
    lines
}

/// Prints a question, unless somebody answered it meanwhile.
async fn ask(
    client: &Client,
    session_id: &str,
    approval_id: String,
    output: &mut Output,
) -> anyhow::Result<Option<pb::Approval>> {
    let request = pb::GetApprovalRequest { session_id: session_id.to_owned(), approval_id };
    let approval = client.call(request).await?.approval.unwrap_or_default();
    if approval.end.is_some() {
        return Ok(None);
    }
    let question = approval.question.clone().unwrap_or_default();
    let choices: Vec<String> = question.choices.iter().map(|choice| one_line(&choice.id)).collect();
    let seconds = question.answer_timeout.unwrap_or_default().seconds;
    let default = one_line(question.default_choice());
    output.styled_line(&[(HEADING, format!("The agent in the {} asks: {}", approval.actor, question.text))])?;
    let how = format!(
        "Type {} and Enter, or answer in the console; after {seconds} s it is {default}.",
        choices.join(" or ")
    );
    output.wrapped_line(&how, "")?;
    output.flush()?;
    Ok(Some(approval))
}

/// Answers with the choice that begins with what was typed.
async fn answer(client: &Client, approval: &pb::Approval, typed: &str) {
    let typed = typed.trim().to_lowercase();
    let choices = approval.question.iter().flat_map(|question| &question.choices);
    let choice = choices.map(|choice| &choice.id).find(|id| !typed.is_empty() && id.starts_with(&typed));
    let Some(choice) = choice else { return failure::note("That is none of the answers.") };
    let request = pb::AnswerApprovalRequest {
        session_id: approval.session_id.clone(),
        approval_id: approval.approval_id.clone(),
        choice: Some(choice.clone()),
        ..pb::AnswerApprovalRequest::default()
    };
    // Somebody else may have been faster.
    if let Err(refused) = client.call(request).await {
        failure::note(&failure::sentence(&refused));
    }
}

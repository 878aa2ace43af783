//! `longhand run`: who answers in a session, and what that waits for.

use super::failure::{Usage, note_secrets};
use super::globals::PAGE_SIZE;
use super::output::{BAD, Output, PENDING, PLAIN, one_line, word};
use super::table::{Column, Table};
use super::times::{Times, seconds};
use super::{Globals, ids, prompt};
use crate::pb;
use crate::pb::watch_run_response::Frame;
use longhand_client::Client;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print what happens in a session: its newest run, and what that waits for
    Show {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
    },
    /// List the runs of a session, or the active ones of every session, newest first
    List {
        /// Session, by id, client id, or the last or first digits of its id
        session: Option<String>,
        /// Only active runs: of the session and of those that work for it
        #[arg(long, requires = "session")]
        tree: bool,
    },
    /// Acquire the right to answer a session's next prompt, and print the number of the run
    Acquire {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Take the first prompt of the queue; fails if none waits
        #[arg(long)]
        take: bool,
        /// Seconds after which the run is lost unless it is renewed
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        lease: i64,
    },
    /// Renew the lease of a run
    Renew {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Number of the run; default: whichever is active
        epoch: Option<i64>,
        /// Seconds after which the run is lost unless it is renewed again
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        lease: i64,
    },
    /// End a run as its agent
    Release {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Number of the run; default: whichever is active
        epoch: Option<i64>,
        /// Say that it failed, and why
        #[arg(long, value_name = "TEXT")]
        failure: Option<String>,
    },
    /// Ask the active run of a session to stop
    Cancel {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Number of the run; default: whichever is active
        #[arg(conflicts_with = "tree")]
        epoch: Option<i64>,
        /// End it at once
        #[arg(long)]
        force: bool,
        /// Also those of the sessions that work for this one
        #[arg(long)]
        tree: bool,
    },
    /// Follow what concerns a run, until it ends
    Watch {
        /// Session, by id, client id, or the last or first digits of its id
        session: String,
        /// Number of the run
        epoch: i64,
    },
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    match arguments.command {
        Command::Show { session } => {
            let session_id = ids::session(&client, &session).await?;
            let run = client.call(pb::GetRunRequest { session_id }).await?;
            if output.json() { output.message(&run)? } else { show(&mut output, &run)? }
        }
        Command::List { session, tree } => {
            let session_id = ids::optional_session(&client, session).await?;
            let page_token = String::new();
            let request = pb::ListRunsRequest { session_id, tree, page_size: PAGE_SIZE, page_token };
            let runs = client.pages(request).all(|page| page.runs).await?;
            print(&mut output, &runs)?;
        }
        Command::Acquire { session, take, lease } => {
            let session_id = ids::session(&client, &session).await?;
            let lease_timeout = Some(seconds(lease));
            let request =
                pb::AcquireRunRequest { session_id, lease_timeout, take_prompt: take, request_id: String::new() };
            let acquired = client.call(request).await?;
            let epoch = acquired.run.as_ref().map_or(0, |run| run.epoch);
            output.answer(&acquired, &epoch.to_string())?;
        }
        Command::Renew { session, epoch, lease } => {
            let session_id = ids::session(&client, &session).await?;
            let epoch = epoch_or_own(globals, &client, &session_id, epoch).await?;
            let request = pb::RenewRunRequest { session_id, epoch, lease_timeout: Some(seconds(lease)) };
            let renewed = client.call(request).await?;
            print(&mut output, &renewed.run.into_iter().collect::<Vec<_>>())?;
        }
        Command::Release { session, epoch, failure } => {
            let session_id = ids::session(&client, &session).await?;
            let epoch = epoch_or_own(globals, &client, &session_id, epoch).await?;
            let request = pb::ReleaseRunRequest { session_id, epoch, failure, request_id: String::new() };
            let released = client.call(request).await?;
            note_secrets(&released.secret_findings);
            print(&mut output, &released.run.into_iter().collect::<Vec<_>>())?;
        }
        Command::Cancel { session, epoch, force, tree } => {
            let session_id = ids::session(&client, &session).await?;
            let request = pb::CancelRunRequest { session_id, epoch, force, tree, request_id: String::new() };
            let cancelled = client.call(request).await?;
            print(&mut output, &cancelled.runs)?;
        }
        Command::Watch { session, epoch } => {
            let session_id = ids::session(&client, &session).await?;
            let request = pb::WatchRunRequest { session_id, epoch, after_cursor: String::new() };
            let mut frames = client.follow(request);
            while let Some(response) = frames.next().await? {
                signal(&mut output, &response)?;
                output.flush()?;
            }
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The given number of a run; that of `--run`, or of the active one of the same actor, if none is given.
async fn epoch_or_own(globals: &Globals, client: &Client, session_id: &str, given: Option<i64>) -> anyhow::Result<i64> {
    if let Some(epoch) = given.or(globals.run) {
        return Ok(epoch);
    }
    let request = pb::GetRunRequest { session_id: session_id.to_owned() };
    let run = client.call(request).await?.run.filter(|run| run.end.is_none());
    let run = run.ok_or_else(|| Usage("no run is active there".to_owned()))?;
    if run.actor != globals.actor {
        return Err(Usage(format!("run {} is of {:?}: its number says that it is meant", run.epoch, run.actor)).into());
    }
    Ok(run.epoch)
}

/// Prints what happens in a session.
fn show(output: &mut Output, found: &pb::GetRunResponse) -> anyhow::Result<()> {
    let style = match found.activity() {
        pb::Activity::Failed => BAD,
        pb::Activity::WaitingForApproval | pb::Activity::Compacting => PENDING,
        pb::Activity::Unspecified | pb::Activity::Idle | pb::Activity::Running => PLAIN,
    };
    let activity = word(found.activity().as_str_name(), "ACTIVITY_");
    output.styled_line(&[(style, activity)])?;
    let waiting = found.approval_ids.iter().map(|id| format!("question {id} waits for an answer"));
    let compaction = found.compaction_id.iter().map(|id| format!("compaction {id} waits or is made"));
    let prompts = (found.queued_prompt_count > 0).then(|| match found.queued_prompt_count {
        1 => "1 prompt waits".to_owned(),
        count => format!("{count} prompts wait"),
    });
    for line in waiting.chain(compaction).chain(prompts) {
        output.line(&line)?;
    }
    match &found.run {
        Some(run) => print(output, std::slice::from_ref(run)),
        None => Ok(()),
    }
}

/// Prints runs as a table, or as lines of JSON.
fn print(output: &mut Output, runs: &[pb::Run]) -> anyhow::Result<()> {
    if output.json() {
        return runs.iter().try_for_each(|run| output.message(run));
    }
    Ok(table(runs, Globals::times(output)).print(output)?)
}

fn table(runs: &[pb::Run], times: Times) -> Table {
    let style = |state: &str| match state {
        "lost" | "failed" => BAD,
        "stopping" => PENDING,
        _ => PLAIN,
    };
    let mut table = Table::new(&[
        Column::word("SESSION"),
        Column::number("RUN"),
        Column::word("STATE").styled(style),
        Column::text("AGENT"),
        Column::word("STARTED"),
        Column::word("ENDED").optional(2),
        Column::text("FAILURE").optional(1),
    ]);
    for run in runs {
        let state = match &run.end {
            Some(end) => word(end.reason().as_str_name(), "RUN_END_REASON_"),
            None if run.cancel_revision.is_some() => "stopping".to_owned(),
            None => "active".to_owned(),
        };
        let or_absent = |text: &str| if text.is_empty() { "-".to_owned() } else { one_line(text) };
        let end = run.end.as_ref();
        table.row(vec![
            run.session_id.clone(),
            run.epoch.to_string(),
            state,
            or_absent(&run.actor),
            times.text(run.start_time.as_ref()),
            end.map_or_else(|| "-".to_owned(), |end| times.text(end.end_time.as_ref())),
            or_absent(end.map_or("", |end| &end.failure)),
        ]);
    }
    table
}

/// Prints a frame of a run's stream.
fn signal(output: &mut Output, response: &pb::WatchRunResponse) -> anyhow::Result<()> {
    if output.json() {
        return output.message(response);
    }
    match &response.frame {
        Some(Frame::Prompt(prompt)) => Ok(output.line(&prompt::line(prompt))?),
        Some(Frame::Run(run)) => match &run.end {
            Some(end) => {
                let how = word(end.reason().as_str_name(), "RUN_END_REASON_");
                Ok(output.line(&format!("run {} ended: {how}", run.epoch))?)
            }
            None => Ok(output.line(&format!("run {} is to stop", run.epoch))?),
        },
        Some(Frame::Approval(approval)) => Ok(output.line(&super::approve::line(approval))?),
        Some(Frame::Progress(_)) | None => Ok(()),
    }
}

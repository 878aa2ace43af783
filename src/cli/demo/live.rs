//! `longhand demo --console`: the sample session at a pace that people can follow in the console.

use super::agent::Agent;
use super::daemon::Daemon;
use super::sample;
use crate::cli::client::{Client, Target};
use crate::cli::{Globals, console};
use std::process::ExitCode;
use std::time::Duration;

/// Time between two acts of an agent.
const PACE: Duration = Duration::from_millis(900);

/// Plays the sample while the console watches, and leaves the daemon there until it is interrupted.
pub(super) async fn run(globals: &Globals, daemon: Daemon, session_id: &str) -> anyhow::Result<ExitCode> {
    let mut client = Client::connect(&Target::local(&daemon.address), "demo").await?;
    let link = console::link(&mut client, &daemon.address).await?;
    let mut output = globals.output();
    output.line(&link)?;
    for line in [
        "",
        "Open the link in a browser, within two minutes. Two agents, one in a terminal and one in an editor, work on one \
         session, and its view is compacted while they do.",
        "Ctrl-C ends the demo and removes its data.",
    ] {
        output.wrapped_line(line, "")?;
    }
    output.flush()?;
    let agent = async |name: &'static str| {
        let client = Client::connect(&Target::local(&daemon.address), name).await?;
        anyhow::Ok(Agent::new(name, client, session_id).at_pace(PACE))
    };
    let (terminal, editor) = (agent("terminal").await?, agent("editor").await?);
    let playing = async { tokio::try_join!(terminal.play(sample::TERMINAL), editor.play(sample::EDITOR)) };
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    tokio::select! {
        played = playing => {
            played?;
            output.wrapped_line("The agents are done. The console shows their session until Ctrl-C.", "")?;
            output.flush()?;
            interrupted.await?;
        }
        ended = &mut interrupted => ended?,
    }
    drop(client);
    daemon.stop().await?;
    Ok(ExitCode::SUCCESS)
}

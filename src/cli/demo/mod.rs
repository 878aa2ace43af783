//! `longhand demo`: runs a daemon, two agents and a user interface on a sample session, in a temporary folder.

mod agent;
mod checks;
mod daemon;
mod live;
mod sample;
mod watcher;

use super::Globals;
use super::message_text::part_lines;
use super::output::{Output, count, one_line, truncate};
use super::signals::{INTERRUPTED, Signals};
use super::view::{heading, headline};
use crate::pb;
use crate::pb::event::Body;
use agent::{Agent, AgentRecord};
use anyhow::Context;
use checks::Check;
use daemon::Daemon;
use longhand_client::{Client, View};
use serde::Serialize;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use watcher::WatchedEvents;

/// Window of the model that the sample's agents report, in tokens: small, so that a short session fills it.
const WINDOW_TOKENS: i64 = 14_000;
/// Part of the window that is reserved for replies, in tokens.
const OUTPUT_TOKENS: i64 = 3_000;
/// The preset; its prune does nothing in so short a session without the override.
const PRESET: &str = "opencode@seed";
/// Smaller limits for the prune.
const POLICY_OVERRIDE: &str = r#"{"maintenance":{"0":{"prune":{"keep":{"tokens":2000},"minimum_tokens":1000}}}}"#;
/// Timeout for the agents and the compactions that they cause.
const PLAY_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of messages of a view that are shown at its beginning, and at its end.
const OUTLINE: usize = 4;
/// Maximum width of a line of a view's outline without a terminal, in columns.
const OUTLINE_WIDTH: usize = 90;
/// Maximum number of lines of a summary that are shown.
const SUMMARY_LINES: usize = 24;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Leave the daemon running, after the checks
    #[arg(long)]
    keep: bool,
    /// Let the agents work slowly enough to be watched, here and in the console; default: on a terminal
    #[arg(long, conflicts_with_all = ["json", "keep", "checks"])]
    live: bool,
    /// Let the agents work as fast as they can, and check the result; default: without a terminal
    #[arg(long)]
    checks: bool,
    /// Time in which the agents that are watched do their work, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

impl Arguments {
    /// True if people watch.
    fn is_live(&self, globals: &Globals) -> bool {
        self.live || !(self.checks || self.keep || globals.json) && std::io::stdout().is_terminal()
    }
}

#[derive(Serialize)]
struct DemoResult<'a> {
    passed: bool,
    session_id: &'a str,
    server: String,
    checks: &'a [Check],
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    // The daemon is in a group of its own, so that a signal to the demo must not end it before the daemon.
    let mut signals = Signals::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let interrupted = async {
        tokio::select! {
            () = signals.next() => (),
            _ = hangup.recv() => (),
        }
    };
    let daemon = Daemon::start().await?;
    let client = daemon.connect("demo").await?;
    let session = create_session(&client).await?;
    if arguments.is_live(globals) {
        let time = Duration::from_secs(arguments.seconds);
        return live::run(globals, daemon, &session.session_id, time, interrupted).await;
    }
    tokio::select! {
        checked = check(globals, daemon, client, &session.session_id, arguments.keep) => checked,
        () = interrupted => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// Plays the sample as fast as it goes, and checks what came of it.
async fn check(
    globals: &Globals,
    daemon: Daemon,
    client: Client,
    session_id: &str,
    keep: bool,
) -> anyhow::Result<ExitCode> {
    let mut output = globals.output();
    introduce(&mut output, &daemon, session_id)?;
    let (played, watched) = play(&daemon, &client, session_id, output).await?;
    let WatchedEvents { events, mut output } = watched;
    show_compaction(&client, session_id, &events, &mut output).await?;
    let mut checks = vec![
        checks::history(&client, session_id, &played).await?,
        checks::events(&client, session_id, &events).await?,
        checks::views(&played),
        checks::same_views(&client, session_id, &played).await?,
        checks::compactions(&events),
        checks::integrity(&client).await?,
    ];
    let server = daemon.address.to_string();
    let kept = if keep {
        let farewell_lines = farewell(&daemon, session_id);
        daemon.keep();
        farewell_lines
    } else {
        drop(client);
        checks.push(checks::stopped(daemon.stop().await?));
        Vec::new()
    };
    let passed = checks.iter().all(|check| check.holds);
    if output.json() {
        output.value(&DemoResult { passed, session_id, server, checks: &checks })?;
    } else {
        verdict(&checks, passed).iter().try_for_each(|line| output.wrapped_line(line, "       "))?;
        kept.iter().try_for_each(|line| output.line(line))?;
    }
    output.flush()?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn create_session(client: &Client) -> anyhow::Result<pb::Session> {
    let request = pb::CreateSessionRequest {
        client_id: Some("demo".to_owned()),
        title: "tidewater: the next tide".to_owned(),
        preset: PRESET.to_owned(),
        policy_override_json: POLICY_OVERRIDE.to_owned(),
        window: Some(pb::ModelWindow {
            max_context_tokens: WINDOW_TOKENS,
            max_output_tokens: Some(OUTPUT_TOKENS),
            ..pb::ModelWindow::default()
        }),
        ..pb::CreateSessionRequest::default()
    };
    Ok(client.call(request).await?.session.unwrap_or_default())
}

fn introduce(output: &mut Output, daemon: &Daemon, session_id: &str) -> anyhow::Result<()> {
    if output.json() {
        return Ok(());
    }
    for line in [
        format!("A daemon listens on {}.", daemon.address),
        format!("Two agents, one in a terminal and one in an editor, work on {session_id} at the same time."),
        format!("Its preset is {PRESET}, its window {WINDOW_TOKENS} tokens, {OUTPUT_TOKENS} of them for replies."),
        format!("So that a short session shows a prune, its policy has smaller numbers: {POLICY_OVERRIDE}."),
        "A user interface follows the events:".to_owned(),
    ] {
        output.wrapped_line(&line, "  ")?;
    }
    Ok(output.flush()?)
}

/// Runs both agents while the user interface watches, until no compaction is pending.
async fn play(
    daemon: &Daemon,
    client: &Client,
    session_id: &str,
    output: Output,
) -> anyhow::Result<([AgentRecord; 2], WatchedEvents)> {
    let terminal = Agent::new("terminal", daemon.connect("terminal").await?, session_id);
    let editor = Agent::new("editor", daemon.connect("editor").await?, session_id);
    let interface = daemon.connect("interface").await?;
    let (last, last_seen) = watch::channel(None);
    let watching = watcher::follow(interface, session_id.to_owned(), last_seen, output);
    let working = async {
        let played = tokio::try_join!(terminal.play(sample::TERMINAL), editor.play(sample::EDITOR))?;
        let revision = watcher::wait_until_idle(client, session_id).await?;
        last.send_replace(Some(revision));
        anyhow::Ok(played)
    };
    let playing = async { tokio::try_join!(working, watching) };
    let ((terminal, editor), watched) =
        tokio::time::timeout(PLAY_TIMEOUT, playing).await.context("the agents did not come to an end")??;
    Ok(([terminal, editor], watched))
}

/// Shows the view before the first compaction, and after it.
async fn show_compaction(
    client: &Client,
    session_id: &str,
    events: &[pb::Event],
    output: &mut Output,
) -> anyhow::Result<()> {
    let Some((before, after)) = first_compaction(events).filter(|_| !output.json()) else { return Ok(()) };
    for (when, revision) in [("before", before), ("after", after)] {
        let request = pb::GetViewRequest {
            session_id: session_id.to_owned(),
            as_of_revision: Some(revision),
            ..pb::GetViewRequest::default()
        };
        let view = client.view(request).await?;
        output.line("")?;
        output.wrapped_line(&format!("The view {when} the first compaction: {}", headline(&view.header)), "  ")?;
        if !view.header.fits {
            output.wrapped_line(&too_large(), "  ")?;
        }
        let columns = output.columns().unwrap_or(OUTLINE_WIDTH);
        outline(&view, columns).iter().try_for_each(|line| output.line(line))?;
    }
    output.line("")?;
    Ok(output.flush()?)
}

/// Explanation of a view that does not fit, and of what happens then.
fn too_large() -> String {
    format!(
        "It leaves less than the {OUTPUT_TOKENS} tokens that the window reserves for a reply: no agent was given it. An \
         agent that asks for its view now waits for the compaction, which has already started."
    )
}

/// The revisions before and after the first compaction.
fn first_compaction(events: &[pb::Event]) -> Option<(i64, i64)> {
    let (done, after) = events.iter().find_map(|event| match &event.body {
        Some(Body::Compacted(compacted)) if compacted.kind() == pb::CompactionKind::Summary => {
            Some((&compacted.compaction_id, event.revision))
        }
        Some(_) | None => None,
    })?;
    let before = events.iter().find_map(|event| match &event.body {
        Some(Body::CompactionStarted(started)) if started.compaction_id == *done => Some(started.base_revision),
        Some(_) | None => None,
    })?;
    Some((before, after))
}

/// The first and the last messages of a view, one line each, and its summary in more lines, none of more columns than
/// given.
fn outline(view: &View, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let total = view.messages.len();
    for (index, message) in view.messages.iter().enumerate() {
        if message.kind() == pb::ViewMessageKind::Summary {
            lines.push(format!("  {}", heading(message)));
            let parts = message.parts.iter().filter_map(|part| part.part.as_ref());
            let text: Vec<String> = parts.flat_map(|part| part_lines(part, false)).collect();
            lines.extend(text.iter().take(SUMMARY_LINES).map(|line| format!("    {line}")));
            if text.len() > SUMMARY_LINES {
                lines.push(format!("    … {} more", count((text.len() - SUMMARY_LINES) as i64, "line")));
            }
        } else if index < OUTLINE || index + OUTLINE >= total {
            lines.push(format!("  {}", in_a_line(message)));
        } else if index == OUTLINE {
            lines.push("  …".to_owned());
        }
    }
    lines.iter().map(|line| truncate(line, columns)).collect()
}

fn in_a_line(message: &pb::ViewMessage) -> String {
    let words = message.parts.iter().filter_map(|part| part.part.as_ref());
    let text: Vec<String> = words.flat_map(|part| part_lines(part, false)).collect();
    one_line(&format!("{}: {}", heading(message), text.join(" ")))
}

fn verdict(checks: &[Check], passed: bool) -> Vec<String> {
    let mut lines: Vec<String> = checks
        .iter()
        .map(|check| format!("{} {}: {}", if check.holds { "ok    " } else { "FAILED" }, check.what, check.detail))
        .collect();
    lines.push(if passed { "All checks passed." } else { "Some checks failed." }.to_owned());
    lines
}

/// Instructions for the daemon that keeps running.
fn farewell(daemon: &Daemon, session_id: &str) -> Vec<String> {
    let server = format!("--server {}", daemon.address);
    let mut lines = vec![
        String::new(),
        format!("The daemon keeps running in {}. For example:", daemon.folder().display()),
        format!("  longhand {server} view {session_id}"),
        format!("  longhand {server} replay {session_id}"),
    ];
    lines.extend(daemon.process_id().map(|id| format!("  kill {id}   # stops it")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_override_is_json() {
        assert!(serde_json::from_str::<serde_json::Value>(POLICY_OVERRIDE).is_ok_and(|value| value.is_object()));
    }

    #[test]
    fn the_first_compaction_is_found_by_its_id() {
        let event = |revision: i64, body: Body| pb::Event { revision, body: Some(body), ..pb::Event::default() };
        let started = |id: &str, base_revision: i64| {
            Body::CompactionStarted(pb::CompactionStarted {
                compaction_id: id.into(),
                base_revision,
                ..Default::default()
            })
        };
        let compacted = |id: &str, kind: pb::CompactionKind| {
            Body::Compacted(pb::Compacted { compaction_id: id.into(), kind: kind.into(), ..Default::default() })
        };
        let events = [
            event(4, started("prune", 3)),
            event(5, compacted("prune", pb::CompactionKind::Prune)),
            event(8, started("summary", 7)),
            event(12, compacted("summary", pb::CompactionKind::Summary)),
        ];
        assert_eq!(first_compaction(&events), Some((7, 12)));
        assert_eq!(first_compaction(&events[..3]), None);
    }
}

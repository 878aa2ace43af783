//! What to begin with.

use super::output::{Output, PLAIN};
use crate::config::Config;
use std::io;

/// The commands that matter at first, and what they are for.
const COMMANDS: [(&str, &str); 4] = [
    ("demo", "two agents at work, to watch; leaves nothing behind"),
    ("up", "runs the daemon as a service; `serve` runs it in this terminal"),
    ("import ~/.claude/projects", "reads transcripts of Claude Code, or those of pi in ~/.pi/agent/sessions"),
    ("console", "prints a link that shows all sessions in a browser"),
];

/// The program, as it was called; what is below the home directory is shorter with `~`.
pub(super) fn program() -> String {
    let called = std::env::args().next().unwrap_or_else(|| "longhand".to_owned());
    let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
    let below =
        home.and_then(|home| Some(format!("~{}", called.strip_prefix(&home).filter(|rest| rest.starts_with('/'))?)));
    below.unwrap_or(called)
}

/// True on a machine on which nothing of this user's has begun: there is no store, and no daemon is named.
pub(super) fn is_due() -> bool {
    let named = ["LONGHAND_SERVER", "LONGHAND_DATABASE"].iter().any(|name| std::env::var_os(name).is_some());
    !named && !Config::default().data_dir.exists()
}

/// Prints the commands that come after the demo.
pub(super) fn print_next(output: &mut Output) -> io::Result<()> {
    print(output, &COMMANDS[1..])
}

fn print(output: &mut Output, commands: &[(&str, &str)]) -> io::Result<()> {
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    commands.iter().try_for_each(|(command, purpose)| {
        output.line_beside(&format!("  {} {command:width$}  ", program()), PLAIN, purpose)
    })
}

/// Prints the commands to begin with, and where all of them are.
pub(super) fn greet() -> io::Result<()> {
    let mut output = Output::new(false, false, clap::ColorChoice::Auto);
    let purpose = "Longhand keeps the sessions of agents, and serves the view of each that fits a model's window.";
    output.wrapped_line(purpose, "")?;
    output.line("Begin with:")?;
    print(&mut output, &COMMANDS)?;
    output.line(&format!("All commands: {} --help", program()))?;
    output.flush()
}

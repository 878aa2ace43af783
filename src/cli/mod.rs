//! The command line: thin clients of the daemon, and the daemon itself as `serve`.
//!
//! Each command has a file of its own: its arguments, and a `run` that sends requests to the daemon and prints the
//! answers as text or, with `--json`, as JSON. The other files hold code that several commands share.

mod approve;
mod audit;
mod backup;
mod changes;
mod cluster;
mod compactions;
mod completions;
mod consent;
mod console;
mod demo;
mod detail;
mod diff;
mod doctor;
mod erase;
mod erasures;
mod evaluate;
mod event_text;
mod events;
mod expand;
mod export;
mod failure;
mod globals;
mod help;
mod ids;
mod import;
mod json;
mod label;
mod message_text;
mod migrate;
mod output;
mod pairing;
mod plan_text;
mod policy_file;
mod presets;
mod progress;
mod prompt;
mod provider_format;
mod replay;
mod requests;
mod retain;
mod run;
mod run_text;
mod said;
mod search;
mod secrets;
mod serve;
mod service;
mod sessions;
mod show;
mod signals;
pub mod simulate;
mod start;
mod status;
mod table;
mod times;
mod token;
mod tokens;
mod view;
mod watch;
mod welcome;
mod who;

use clap::{CommandFactory as _, FromArgMatches as _};
use globals::Globals;
pub use help::GROUPS as COMMAND_GROUPS;
use std::process::ExitCode;

/// The parsed command line.
#[derive(Debug, clap::Parser)]
#[command(name = "longhand", version, max_term_width = 100)]
#[command(about = "Keeps the longhand of every agent session and serves the shorthand that fits a model's window")]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the daemon
    Serve(serve::Arguments),
    /// Show the daemon on a sample session in a temporary folder
    Demo(demo::Arguments),
    /// Make the daemon a service of your own systemd, and start it
    Up(service::UpArguments),
    /// Stop the service that `up` made, and remove it; sessions stay
    Down,
    /// Import a transcript of pi or Claude Code, or a file of `longhand export`
    Import(import::Arguments),
    /// Write a session as a file that another daemon imports, as one of pi or Claude Code, as Markdown, or as HTML
    Export(export::Arguments),
    /// Create a session, and print its id
    Create(changes::CreateArguments),
    /// Append a message, or messages as JSON lines, and print their ids
    Append(changes::AppendArguments),
    /// Finish an open message
    Finish(changes::FinishArguments),
    /// Set a session's title
    Title(changes::TitleArguments),
    /// Archive a session, or restore it from the archive
    Archive(changes::ArchiveArguments),
    /// Add labels to a session, remove them, or print them
    Label(label::Arguments),
    /// Fork a session, and print the fork's id
    Fork(changes::ForkArguments),
    /// Leave everything after a message out of views
    Rewind(changes::RewindArguments),
    /// Replace a message in views, and print the id of the replacement
    Edit(changes::EditArguments),
    /// Pin a message, so that every view shows it verbatim
    Pin(changes::PinArguments),
    /// Print what people said, as it follows the summary, strike out a line, or add one
    Said(said::Arguments),
    /// List sessions, newest first, or follow the list
    Sessions(sessions::Arguments),
    /// Find parts of messages by their words, in all history
    Search(search::Arguments),
    /// Print the original history of a session
    Show(show::Arguments),
    /// Print a session's view for the model
    View(view::Arguments),
    /// Print the originals of an id in a view
    Expand(expand::Arguments),
    /// Print the changes of a session's view between two revisions
    Diff(diff::Arguments),
    /// List events, or follow them
    Events(events::Arguments),
    /// Follow sessions: who speaks, the words as they are written, and other events
    Watch(watch::Arguments),
    /// Print a session's audit log
    Replay(replay::Arguments),
    /// Print who is at work in a session: who watches, types and runs
    Who(who::Arguments),
    /// Say who answers in a session: acquire, renew, release, cancel and follow runs
    Run(run::Arguments),
    /// Submit prompts to a session's queue, list, move, withdraw and take them
    Prompt(prompt::Arguments),
    /// Ask questions, and answer those of agents
    Approve(approve::Arguments),
    /// Request a compaction by hand, and wait for its end
    Compact(compactions::StartArguments),
    /// List a session's compactions, or its requests to models, newest first
    Compactions(compactions::ListArguments),
    /// Undo the newest active compaction, rewind, edit or mark of words
    Undo(compactions::ReversalArguments),
    /// Redo the change that was undone last
    Redo(compactions::ReversalArguments),
    /// Retry a compaction that failed or waits for its next attempt
    Retry(compactions::RetryArguments),
    /// Confirm a compaction that waits for confirmation
    Confirm(compactions::ConfirmArguments),
    /// Cancel a compaction that has not ended
    Cancel(compactions::CancelArguments),
    /// Print a link that opens the console in a browser, once
    Console(console::Arguments),
    /// Erase a part, a message or a session for good
    Erase(erase::Arguments),
    /// Print what was erased, and erase it in a restored backup or an imported archive too
    Erasures(erasures::Arguments),
    /// Erase the sessions that the rules of retention name
    Retain(retain::Arguments),
    /// Find secrets in files, without a daemon, or in what is stored; exit code 3 for findings
    Secrets(secrets::Arguments),
    /// Create, list and revoke access tokens, with which clients on the network prove who they are
    Token(token::Arguments),
    /// List the presets, print one, or compare two
    Presets(presets::Arguments),
    /// Simulate presets on a transcript, without a daemon and without a model
    Simulate(simulate::Arguments),
    /// Measure the quality of summaries on transcripts
    ///
    /// From the rest of a transcript it takes the names that are used again (files, identifiers, commands, errors, figures,
    /// open items), and counts how many of them a compaction keeps. PRECISION is the reverse: the share of names in the
    /// summary that are used later. Further columns have the share of bare lists, contradictions of the history, and the age
    /// of the stated next steps. Whether work can go on from a summary takes an exam: one party answers from the summary
    /// alone, and another grades.
    Evaluate(evaluate::Arguments),
    /// Check hash chains, or export their heads; exit code 3 for findings
    Audit(audit::Arguments),
    /// Examine the store of a stopped daemon; exit code 3 for findings that are not repaired
    Doctor(doctor::Arguments),
    /// Make a verified backup of the running daemon's store in a new file
    Backup(backup::BackupArguments),
    /// Make a store from a backup, in a new data directory and without a daemon
    Restore(backup::RestoreArguments),
    /// Move the store of a stopped daemon between a data directory and a PostgreSQL database
    Migrate(migrate::Arguments),
    /// List the daemons and the shards of a PostgreSQL database
    Cluster(cluster::ClusterArguments),
    /// Have a daemon own a shard of a PostgreSQL database
    Move(cluster::MoveArguments),
    /// Print the state of the daemon, or the guards of a session
    Status(status::Arguments),
    /// Print a script that completes commands and options in a shell
    Completions(completions::Arguments),
}

/// Parses the command line. Help and parse errors are printed, and their exit code is returned as the error.
pub fn parse() -> Result<Cli, ExitCode> {
    let parsed =
        help::group_commands(Cli::command()).try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let error = help::advise(error);
        let code = if error.use_stderr() { failure::USAGE } else { 0 };
        if std::env::args_os().len() == 1 && welcome::is_due() {
            drop(welcome::greet());
            return ExitCode::from(code);
        }
        // A failed write to the terminal cannot be reported anywhere.
        let _ = error.print();
        ExitCode::from(code)
    })
}

/// Runs a command to its end, in a runtime of its own. A failure is reported in one line on standard error.
///
/// The runtime is here and not in `main`, so that the code of all commands is compiled with the library, whose units
/// are compiled side by side.
#[tokio::main]
pub async fn run(cli: Cli) -> ExitCode {
    match dispatch(cli).await {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}

async fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let globals = &cli.globals;
    match cli.command {
        Command::Serve(arguments) => serve::run(globals, arguments).await,
        Command::Demo(arguments) => demo::run(globals, arguments).await,
        Command::Up(arguments) => service::up(globals, arguments).await,
        Command::Down => service::down(globals).await,
        Command::Import(arguments) => import::run(globals, arguments).await,
        Command::Export(arguments) => export::run(globals, arguments).await,
        Command::Create(arguments) => changes::create(globals, arguments).await,
        Command::Append(arguments) => changes::append(globals, arguments).await,
        Command::Finish(arguments) => changes::finish(globals, arguments).await,
        Command::Title(arguments) => changes::title(globals, arguments).await,
        Command::Archive(arguments) => changes::archive(globals, arguments).await,
        Command::Label(arguments) => label::run(globals, arguments).await,
        Command::Fork(arguments) => changes::fork(globals, arguments).await,
        Command::Rewind(arguments) => changes::rewind(globals, arguments).await,
        Command::Edit(arguments) => changes::edit(globals, arguments).await,
        Command::Said(arguments) => said::run(globals, arguments).await,
        Command::Pin(arguments) => changes::pin(globals, arguments).await,
        Command::Sessions(arguments) => sessions::run(globals, arguments).await,
        Command::Search(arguments) => search::run(globals, arguments).await,
        Command::Show(arguments) => show::run(globals, arguments).await,
        Command::View(arguments) => view::run(globals, arguments).await,
        Command::Expand(arguments) => expand::run(globals, arguments).await,
        Command::Diff(arguments) => diff::run(globals, arguments).await,
        Command::Events(arguments) => events::run(globals, arguments).await,
        Command::Watch(arguments) => watch::run(globals, arguments).await,
        Command::Replay(arguments) => replay::run(globals, arguments).await,
        Command::Who(arguments) => who::run(globals, arguments).await,
        Command::Run(arguments) => run::run(globals, arguments).await,
        Command::Prompt(arguments) => prompt::run(globals, arguments).await,
        Command::Approve(arguments) => approve::run(globals, arguments).await,
        Command::Compact(arguments) => compactions::start(globals, arguments).await,
        Command::Compactions(arguments) => compactions::list(globals, arguments).await,
        Command::Undo(arguments) => compactions::undo(globals, arguments).await,
        Command::Redo(arguments) => compactions::redo(globals, arguments).await,
        Command::Retry(arguments) => compactions::retry(globals, arguments).await,
        Command::Confirm(arguments) => compactions::confirm(globals, arguments).await,
        Command::Cancel(arguments) => compactions::cancel(globals, arguments).await,
        Command::Console(arguments) => console::run(globals, arguments).await,
        Command::Erase(arguments) => erase::run(globals, arguments).await,
        Command::Erasures(arguments) => erasures::run(globals, arguments).await,
        Command::Retain(arguments) => retain::run(globals, arguments).await,
        Command::Secrets(arguments) => secrets::run(globals, arguments).await,
        Command::Token(arguments) => token::run(globals, arguments).await,
        Command::Presets(arguments) => presets::run(globals, arguments).await,
        Command::Simulate(arguments) => simulate::run(globals, arguments),
        Command::Evaluate(arguments) => evaluate::run(globals, arguments).await,
        Command::Doctor(arguments) => doctor::run(globals, arguments).await,
        Command::Backup(arguments) => backup::backup(globals, arguments).await,
        Command::Restore(arguments) => backup::restore(globals, arguments).await,
        Command::Migrate(arguments) => migrate::run(globals, arguments).await,
        Command::Audit(arguments) => audit::run(globals, arguments).await,
        Command::Cluster(arguments) => cluster::cluster(globals, arguments).await,
        Command::Move(arguments) => cluster::move_shard(globals, arguments).await,
        Command::Status(arguments) => status::run(globals, arguments).await,
        Command::Completions(arguments) => completions::run(globals, &arguments, &mut Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::collections::BTreeSet;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let command = Cli::command();
        let all: BTreeSet<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let grouped: Vec<&str> = help::GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<&str>>(), all);
        assert_eq!(grouped.len(), all.len(), "a command is in two groups");
        assert!(help::SYNONYMS.iter().all(|(synonym, command)| all.contains(command) && !all.contains(synonym)));
    }

    #[test]
    fn flags_for_all_commands_are_accepted_anywhere() {
        for line in [
            "longhand --json --server unix:/s --actor ada events --content",
            "longhand events --content --json --server unix:/s --actor ada",
            "longhand audit verify ses_1 --expect heads --json --server unix:/s --actor ada",
            "longhand import a --live --views v --window 9 --max-output 3 --client-id x --json --server unix:/s --actor ada",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).expect(line);
            assert!(cli.globals.json, "{line}");
            assert_eq!((cli.globals.server.as_deref(), cli.globals.actor.as_str()), (Some("unix:/s"), "ada"), "{line}");
        }
    }

    #[test]
    fn flags_that_make_no_sense_together_are_refused() {
        for line in [
            "longhand events --new --after x",
            "longhand events --raw --json",
            "longhand import a.jsonl --pace 5",
            "longhand view s --wait --shorten",
            "longhand compact s --prune --instructions x",
            "longhand compact s --dry-run --detach",
            "longhand compact s --wait",
            "longhand sessions --limit 0",
            "longhand events --new --limit 3",
            "longhand sessions --color sometimes",
            "longhand status ses_1 --metrics",
            "longhand search",
            "longhand search x --session s --tree t",
            "longhand export ses_1 --format word",
            "longhand",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}

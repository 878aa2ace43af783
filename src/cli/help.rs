//! What the command line says of itself: its commands in groups, and advice on commands that it does not have.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt::Write as _;

/// The commands in the groups in which help lists them.
pub const GROUPS: [(&str, &[&str]); 8] = [
    ("Begin", &["demo", "serve", "up", "down", "console", "completions"]),
    ("Sessions", &["create", "sessions", "import", "export", "title", "label", "archive", "fork", "erase"]),
    ("Messages", &["append", "finish", "show", "search", "expand", "edit", "pin", "rewind"]),
    (
        "Views and compactions",
        &["view", "diff", "compact", "compactions", "said", "confirm", "cancel", "retry", "undo", "redo"],
    ),
    ("Working together", &["watch", "events", "replay", "who", "run", "prompt", "approve"]),
    ("Policies", &["presets", "simulate", "evaluate"]),
    ("The store", &["status", "audit", "backup", "restore", "erasures", "doctor", "migrate", "cluster", "move"]),
    ("Secrets, retention and access", &["secrets", "retain", "token"]),
];

/// Words of other programs, and the command that does the same.
pub(super) const SYNONYMS: [(&str, &str); 12] = [
    ("delete", "erase"),
    ("history", "show"),
    ("list", "sessions"),
    ("log", "replay"),
    ("ls", "sessions"),
    ("new", "create"),
    ("rename", "title"),
    ("rm", "erase"),
    ("start", "serve"),
    ("stop", "down"),
    ("tail", "watch"),
    ("ui", "console"),
];

/// Widest line of help, as for the options.
const COLUMNS_MAX: usize = 100;

/// The command line, whose help has its commands in groups.
pub(super) fn group_commands(mut command: clap::Command) -> clap::Command {
    let listed = command_list(&command);
    // Only the list of all commands in one is left out.
    for name in GROUPS.iter().flat_map(|(_, names)| *names) {
        command = command.mut_subcommand(name, |one| one.hide(true));
    }
    command
        .override_usage("longhand [OPTIONS] <COMMAND>")
        .help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{{all-args}}"))
}

/// The groups with their commands, and what each one does.
fn command_list(command: &clap::Command) -> String {
    let heading = clap::builder::Styles::styled().get_header().to_owned();
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0) + 4;
    let columns = terminal_size::terminal_size().map_or(COLUMNS_MAX, |(columns, _)| usize::from(columns.0));
    let columns = columns.clamp(2 * width, COLUMNS_MAX);
    let mut listed = String::new();
    for (title, names) in GROUPS {
        // Writing to a text does not fail.
        let _ = writeln!(listed, "{heading}{title}:{heading:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let margin = " ".repeat(width);
            let options = textwrap::Options::new(columns).subsequent_indent(&margin);
            let line = format!("  {name:0$}{1}", width - 2, about);
            let _ = writeln!(listed, "{}", textwrap::fill(&line, options));
        }
        listed.push('\n');
    }
    listed
}

/// An error with better advice: the command that a word of others means, and the option that given ones go with.
pub(super) fn advise(mut error: clap::Error) -> clap::Error {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word)), _) => {
            let meant = SYNONYMS.iter().find(|(synonym, _)| synonym == word).map(|(_, command)| (*command).to_owned());
            // Below a command, a word has another meaning.
            let is_first = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).as_ref() == Some(word);
            if let Some(meant) = meant.filter(|_| is_first) {
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
            }
            error
        }
        (ErrorKind::MissingRequiredArgument, _, Some(ContextValue::Strings(missing)))
            if missing.iter().all(|argument| argument.starts_with("--")) =>
        {
            let advice = format!("what is given needs {} too", missing.join(" and ")).into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice]));
            error
        }
        _ => error,
    }
}

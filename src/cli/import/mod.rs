//! `longhand import`: writes transcripts of other agents through the protocol that agents use.

mod convert;
mod live;
mod plan;
mod play;
mod report;
mod source;

use super::Globals;
use super::failure::note;
use anyhow::Context;
use plan::Combination;
use play::Player;
use report::Report;
use source::Source;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A pi session file, or a Claude Code transcript; its sub-agents' transcripts are found beside it
    file: PathBuf,
    /// Write message by message as an agent would, and let the daemon do the compacting
    #[arg(long)]
    live: bool,
    /// Wait this long between messages, in milliseconds
    #[arg(long, value_name = "MS", requires = "live", default_value_t = 0)]
    pace: u64,
    /// Leave out the usage that the transcript records: views are measured by their estimate alone
    #[arg(long, requires = "live")]
    no_usage: bool,
    /// The preset; default: the daemon's
    #[arg(long, value_name = "PRESET", default_value = "", hide_default_value = true)]
    preset: String,
    /// The model window, in tokens; default: unknown, which triggers nothing
    #[arg(long, value_name = "TOKENS", default_value_t = 0, hide_default_value = true)]
    window: i64,
    /// The most the model writes in one reply, in tokens
    #[arg(long, value_name = "TOKENS", requires = "window")]
    output: Option<i64>,
    /// Write nothing if anything is wrong with a line
    #[arg(long)]
    strict: bool,
    /// The client id of the session; default: made from the file and the choices
    #[arg(long = "as", value_name = "CLIENT_ID")]
    own_id: Option<String>,
    /// Note here the view that each reply was given, as JSON lines
    #[arg(long, value_name = "FILE", requires = "live")]
    views: Option<PathBuf>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let sources = source::read(&arguments.file)?;
    let problems = tell_problems(&sources);
    if arguments.strict && problems > 0 {
        anyhow::bail!("--strict: nothing was written");
    }
    let combination = Combination {
        preset: arguments.preset,
        window: arguments.window,
        output: arguments.output,
        live: arguments.live,
        no_usage: arguments.no_usage,
    };
    let views = match &arguments.views {
        Some(path) => {
            let file = File::options().create(true).append(true).open(path);
            Some(file.with_context(|| format!("cannot write {}", path.display()))?)
        }
        None => None,
    };
    let report = Report::expecting(&sources, problems);
    let groups = plan::groups(sources, &combination, arguments.own_id);
    let client = globals.client().await?;
    let mut player = Player::new(client, combination, report, views, Duration::from_millis(arguments.pace));
    player.play(groups).await?;
    player.into_report().print(&mut globals.output())?;
    Ok(ExitCode::SUCCESS)
}

/// Reports faulty lines of the files on standard error. Returns their number.
fn tell_problems(sources: &[Source]) -> usize {
    let problems =
        sources.iter().flat_map(|source| source.transcript.problems.iter().map(move |problem| (source, problem)));
    problems.map(|(source, problem)| note(&format!("{}:{}: {}", source.file, problem.line, problem.message))).count()
}

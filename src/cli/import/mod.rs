//! `longhand import`: writes transcripts of other agents through the protocol that agents use.
//!
//! Of several files, one that cannot be imported is named, and the others are imported nevertheless.

mod archive;
mod live;
mod paths;
mod plan;
mod play;
mod report;
mod source;

use super::Globals;
use super::failure::{self, Usage, note};
use super::policy_file::PolicyChoice;
use super::times;
use super::tokens::tokens;
use crate::clock::Clock;
use crate::model::ids::client_id_defect;
use anyhow::Context;
use plan::Combination;
use play::Player;
use report::ImportReport;
use source::Sources;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Session files of pi, transcripts of Claude Code, with the transcripts of sub-agents beside them, files of
    /// `longhand export`, which take no options, or folders with any of them; `*` and `?` in a name stand for any letters
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write message by message like an agent, with compactions by the daemon
    #[arg(long)]
    live: bool,
    /// Delay between messages, in milliseconds
    #[arg(long, value_name = "MS", requires = "live", default_value_t = 0)]
    pace: u64,
    /// Leave out the recorded usage; context usage is then only estimated
    #[arg(long, requires = "live")]
    no_usage: bool,
    /// Preset, with or without its version, or a file with a policy (.toml or .json); default: the daemon's
    #[arg(long, value_name = "PRESET", default_value = "", hide_default_value = true)]
    preset: String,
    /// Model window, in tokens; default: that of the model of the newest reply, if it is known
    #[arg(long, value_name = "TOKENS", default_value_t = 0, hide_default_value = true, value_parser = tokens)]
    window: i64,
    /// Maximum length of a reply, in tokens
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    max_output: Option<i64>,
    /// Write nothing if a line or a file has an error
    #[arg(long)]
    strict: bool,
    /// Project of the sessions, in their metadata; default: the name of the folder in which the agent worked
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Client id of the session, for one file; default: derived from the file and the options
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// File for the view of each reply, as JSON lines; for one file
    #[arg(long, value_name = "FILE", requires = "live")]
    views: Option<PathBuf>,
    /// Bring back what was erased since an earlier import
    #[arg(long)]
    again: bool,
}

impl Arguments {
    /// True if there are options, which are for transcripts.
    fn is_with_options(&self) -> bool {
        let Self {
            paths: _,
            live,
            pace,
            no_usage,
            preset,
            window,
            max_output,
            strict,
            project,
            client_id,
            views,
            again,
        } = self;
        let has_value = max_output.is_some() || client_id.is_some() || views.is_some() || !preset.is_empty();
        *live || *no_usage || *strict || *again || *pace > 0 || *window != 0 || project.is_some() || has_value
    }
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(defect) = arguments.client_id.as_deref().and_then(client_id_defect) {
        return Err(Usage(format!("--client-id {defect}")).into());
    }
    let files = paths::files(&arguments.paths)?;
    if let [file] = files.as_slice() {
        let report = import_file(globals, &arguments, file).await?;
        let mut output = globals.output();
        if let Some(report) = report {
            report.print(&mut output)?;
            note(&report.next_step());
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.client_id.is_some() || arguments.views.is_some() {
        return Err(Usage("--client-id and --views are for one file".to_owned()).into());
    }
    // Without a daemon, no file could be imported.
    globals.client().await?;
    let (mut sum, mut failed) = (report::ImportSum::default(), 0);
    for (index, file) in files.iter().enumerate() {
        note(&format!("{} of {}: {}", index + 1, files.len(), file.display()));
        match import_file(globals, &arguments, file).await {
            Ok(Some(report)) => {
                report.print(&mut globals.output())?;
                sum.add(&report);
            }
            Ok(None) => {}
            Err(error) => {
                note(&format!("left out: {}", failure::line(&error)));
                failed += 1;
            }
        }
    }
    note(&sum.line(files.len(), failed));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Imports a file. There is no report of an archive.
async fn import_file(globals: &Globals, arguments: &Arguments, file: &Path) -> anyhow::Result<Option<ImportReport>> {
    if archive::is_archive(file) {
        if arguments.is_with_options() {
            return Err(Usage("a file of `longhand export` is imported as it is, without options".to_owned()).into());
        }
        archive::run(globals, file).await?;
        return Ok(None);
    }
    let sources = source::read_transcripts(file)?;
    let problems = report_problems(&sources);
    if arguments.strict && problems > 0 {
        anyhow::bail!("--strict: nothing was written");
    }
    let policy = PolicyChoice::from_name(arguments.preset.clone())?;
    let combination = Combination {
        preset: policy.name.clone(),
        window: arguments.window,
        output: arguments.max_output,
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
    let report = ImportReport::with_totals(&sources.files, problems);
    let clock = Clock::default();
    // The request of an erased session makes no other one, so this one says when it is made.
    let again = arguments.again.then(|| times::rfc_3339(clock.now()));
    let chosen = plan::ImportChoices {
        client_id: arguments.client_id.clone(),
        project: arguments.project.clone(),
        again: again.clone(),
    };
    let groups = plan::groups(sources.files, &combination, &chosen);
    let client = globals.client().await?;
    let pace = Duration::from_millis(arguments.pace);
    let mut player = Player::new((client, clock), combination, policy, report, (views, pace), again);
    player.play(groups).await?;
    Ok(Some(player.into_report()))
}

/// Reports faulty lines and files on standard error. Returns their number.
fn report_problems(sources: &Sources) -> usize {
    let lines =
        sources.files.iter().flat_map(|source| source.transcript.problems.iter().map(move |problem| (source, problem)));
    let lines = lines.map(|(source, problem)| format!("{}:{}: {}", source.file, problem.line, problem.message));
    lines.chain(sources.left_out.iter().cloned()).map(|problem| note(&problem)).count()
}

//! `longhand doctor`: examines the store of a stopped daemon, repairs what follows from other rows, and exports what can
//! be read.

mod export;

use super::failure;
use super::output::{Output, count};
use super::progress::Progress;
use super::{Globals, backup};
use crate::daemon::offline::{self, Diagnosis, DoctorTotals, ExaminationMode};
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Data directory; no daemon may have it
    data_dir: PathBuf,
    /// Repair rows and indexes that follow from other rows; without it, nothing is changed
    #[arg(long)]
    repair: bool,
    /// New or empty folder for an export of everything that can be read, in place of an examination; exit code 3 if
    /// anything is missing, which lost.jsonl then names
    #[arg(long, value_name = "FOLDER", conflicts_with = "repair")]
    export: Option<PathBuf>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut output = globals.output();
    if let Some(folder) = &arguments.export {
        return export::run(&mut output, &arguments.data_dir, folder).await;
    }
    let mut diagnoses = Vec::new();
    let mut note = |diagnosis| diagnoses.push(diagnosis);
    let progress = Mutex::new(Progress::new());
    let show = |now| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(|| backup::line(now));
        }
    };
    let mode = if arguments.repair { ExaminationMode::Repair } else { ExaminationMode::Report };
    let examined = offline::examine(&arguments.data_dir, mode, &mut note, &show).await;
    drop(progress);
    let examined = examined.with_context(|| format!("cannot examine {}", arguments.data_dir.display()))?;
    diagnoses.iter().try_for_each(|diagnosis| print(&mut output, diagnosis))?;
    end(&mut output, examined)?;
    output.flush()?;
    let is_whole = examined.findings == examined.repaired;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
}

fn print(output: &mut Output, diagnosis: &Diagnosis) -> anyhow::Result<()> {
    let Diagnosis { table, row, message, repaired } = diagnosis;
    if output.json() {
        return output.value(&serde_json::json!({
            "table": table, "row": row, "message": message, "repaired": repaired,
        }));
    }
    let subject = if row.is_empty() { table.clone() } else { format!("{table} {row}") };
    let end = if *repaired { " (repaired)" } else { "" };
    Ok(output.line(&format!("{subject}: {message}{end}"))?)
}

fn end(output: &mut Output, examined: DoctorTotals) -> anyhow::Result<()> {
    let DoctorTotals { sessions, events, findings, repaired } = examined;
    if output.json() {
        return output.value(&serde_json::json!({
            "sessionCount": sessions, "eventCount": events, "findingCount": findings, "repairedCount": repaired,
        }));
    }
    let extent = format!("{} and {} checked", count(sessions, "session"), count(events, "event"));
    let verdict = if findings == 0 {
        "no findings".to_owned()
    } else {
        format!("{}, {repaired} repaired", count(findings, "finding"))
    };
    Ok(output.line(&format!("{extent}: {verdict}"))?)
}

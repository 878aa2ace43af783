//! `longhand erasures`: what was erased, for copies of a store that were made before.

use super::Globals;
use super::failure::Usage;
use super::json;
use super::output::count;
use crate::pb;
use crate::pb::erase_content_request::Target;
use anyhow::Context as _;
use longhand_client::{Client, Reason};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Events requested per page.
const PAGE_SIZE: i32 = 1_000;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print all erasures as JSON lines, without anything of what was erased
    Export,
    /// Erase what a file says, where it is still there: in a restored backup, or in an imported archive
    Apply {
        /// File with the output of `erasures export`; - for standard input
        file: PathBuf,
        /// Do not ask before
        #[arg(long, short)]
        yes: bool,
    },
}

/// What became of the erasures of a file.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct AppliedErasures {
    /// Erasures of a part, a message or a session that took content now.
    erased_count: i64,
    /// Those of which nothing was left.
    existed_count: i64,
    /// Those of what is not in this store.
    missing_count: i64,
    /// Files that may still have bytes of them.
    pending_files: Vec<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Export => export(globals).await,
        Command::Apply { file, yes } => apply(globals, &file, yes).await,
    }
}

async fn export(globals: &Globals) -> anyhow::Result<ExitCode> {
    let client = globals.client().await?;
    let mut output = globals.output();
    let kinds = vec![pb::EventKind::Erased.into()];
    let mut request = pb::ListEventsRequest { kinds, page_size: PAGE_SIZE, ..pb::ListEventsRequest::default() };
    loop {
        let page = client.call(request.clone()).await?;
        page.events.iter().try_for_each(|event| output.message(event))?;
        if page.next_cursor.is_empty() {
            output.flush()?;
            return Ok(ExitCode::SUCCESS);
        }
        request.after_cursor = page.next_cursor;
    }
}

async fn apply(globals: &Globals, file: &Path, yes: bool) -> anyhow::Result<ExitCode> {
    let requests = requests(&read_file(file)?)?;
    if !yes {
        let many = count(i64::try_from(requests.len()).unwrap_or(i64::MAX), "erasure");
        super::erase::confirm(&format!("apply {many} of {} for good?", file.display()))?;
    }
    let client = globals.client().await?;
    let mut applied = AppliedErasures::default();
    for request in requests {
        erase(&client, request, &mut applied).await?;
    }
    let mut output = globals.output();
    match output.json() {
        true => output.value(&applied)?,
        false => output.line(&line(&applied))?,
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn read_file(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The erasures of a file, oldest first. What a fork lost goes with the session that it had it from.
fn requests(text: &str) -> anyhow::Result<Vec<pb::EraseContentRequest>> {
    let mut requests = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let refused = |why: String| Usage(format!("line {number} is no erasure of `longhand erasures export`: {why}"));
        let event: pb::Event = json::decode(line).map_err(|error| refused(format!("{error:#}")))?;
        let Some(pb::event::Body::Erased(erased)) = event.body else {
            return Err(refused("it is another event".to_owned()).into());
        };
        if erased.source_session_id.is_some() {
            continue;
        }
        let targets = match erased.target() {
            pb::ErasedTarget::Session => vec![Target::WholeSession(true)],
            pb::ErasedTarget::Part | pb::ErasedTarget::Message | pb::ErasedTarget::Messages => {
                erased.messages.into_iter().flat_map(of_message).collect()
            }
            pb::ErasedTarget::Unspecified => return Err(refused("its target is unknown".to_owned()).into()),
        };
        let request = |target| pb::EraseContentRequest {
            session_id: event.session_id.clone(),
            target: Some(target),
            reason: erased.reason.clone(),
            ..pb::EraseContentRequest::default()
        };
        requests.extend(targets.into_iter().map(request));
    }
    Ok(requests)
}

fn of_message(message: pb::ErasedMessage) -> Vec<Target> {
    match message.part_ids.is_empty() {
        true => vec![Target::MessageId(message.message_id)],
        false => message.part_ids.into_iter().map(Target::PartId).collect(),
    }
}

async fn erase(client: &Client, request: pb::EraseContentRequest, applied: &mut AppliedErasures) -> anyhow::Result<()> {
    match client.call(request).await {
        Ok(erased) if erased.existed => applied.existed_count += 1,
        Ok(erased) => {
            applied.erased_count += 1;
            // The newest answer has the files of all before it.
            applied.pending_files = erased.pending_files;
        }
        Err(error) => match error.reason() {
            Some(Reason::SessionNotFound | Reason::MessageNotFound) => applied.missing_count += 1,
            Some(Reason::NothingToErase | Reason::SessionErased) => applied.existed_count += 1,
            _ => return Err(error.into()),
        },
    }
    Ok(())
}

fn line(applied: &AppliedErasures) -> String {
    let AppliedErasures { erased_count, existed_count, missing_count, pending_files } = applied;
    let mut line = format!(
        "applied {}; of {existed_count} more nothing was left, and of {missing_count} the content is not in this store",
        count(*erased_count, "erasure")
    );
    if !pending_files.is_empty() {
        line.push_str(&format!("; bytes of them may still be in {}", pending_files.join(", ")));
    }
    line
}

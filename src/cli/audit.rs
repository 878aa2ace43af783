//! `longhand audit`: verifies the hash chains, also against exported heads, scrubs the store, and exports heads.

use super::failure::{self, Usage};
use super::output::{Output, count, hex};
use super::progress::Progress;
use super::{Client, Globals, ids, json};
use crate::access_log::{self, Verified};
use crate::config::Config;
use crate::pb::check_integrity_response::Item;
use crate::{daemon, pb};
use anyhow::Context;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Heads requested per page.
const PAGE_SIZE: i32 = 1000;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check the hash chains against all content of views and audit logs; exit code 3 for findings
    Verify {
        /// Only this session, by id, client id, or the last or first digits of its id
        session: Option<String>,
        /// File with the output of `audit head`, to check against
        #[arg(long, value_name = "FILE")]
        expect: Option<PathBuf>,
    },
    /// Begin a scrub of the store now, or follow the running one; exit code 3 for findings
    Scrub,
    /// Verify the access log, which says who read what over the network, and print it as JSON lines; exit code 3 for a
    /// line that is not as it was written. Needs no daemon
    Access {
        /// Directory of the database; default: the platform's data directory
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Print the newest hash of each chain as JSON lines, for storage elsewhere
    Head {
        /// Only this session, by id, client id, or the last or first digits of its id
        session: Option<String>,
    },
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut output = globals.output();
    match arguments.command {
        Command::Verify { session, expect } => {
            // An unreadable file is reported before anything is checked.
            let expected = expect.as_deref().map(read_heads).transpose()?;
            let mut client = globals.client().await?;
            let session = ids::optional_session(&mut client, session).await?;
            let mut findings = check(&mut client, session.clone(), &mut output).await?;
            if let Some(expected) = expected {
                findings += compare(&mut client, session, &expected, &mut output).await?;
            }
            output.flush()?;
            Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
        }
        Command::Scrub => {
            let mut client = globals.client().await?;
            let findings = scrub(&mut client, &mut output).await?;
            output.flush()?;
            Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
        }
        Command::Access { data_dir } => {
            let directory = daemon::access_log_path(&data_dir.unwrap_or_else(|| Config::default().data_dir));
            let verified = access_log::verify(&directory, |line| output.text(&format!("{line}\n")))
                .with_context(|| directory.display().to_string())?;
            output.flush()?;
            let Verified { lines, last_number, last_hash, fault } = verified;
            failure::note(&format!(
                "{} verified; number {last_number}, hash {last_hash}",
                count(i64::try_from(lines)?, "line")
            ));
            let Some(fault) = fault else { return Ok(ExitCode::SUCCESS) };
            failure::note(&format!("{}:{}: not as it was written", fault.file.display(), fault.line));
            Ok(ExitCode::from(failure::FINDINGS))
        }
        Command::Head { session } => {
            let mut client = globals.client().await?;
            let session = ids::optional_session(&mut client, session).await?;
            print_heads(&mut client, session, &mut output).await?;
            output.flush()?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Checks the chains and prints the findings. Returns their number.
async fn check(client: &mut Client, session: Option<String>, output: &mut Output) -> anyhow::Result<i64> {
    let request = pb::CheckIntegrityRequest { session_id: session };
    let mut responses = client.admin.check_integrity(request).await?.into_inner();
    let mut progress = Progress::new();
    let mut findings = 0;
    while let Some(response) = progress.waiting("checks the hash chains", responses.message()).await? {
        progress.clear();
        match &response.item {
            Some(Item::Finding(finding)) => {
                findings += 1;
                report(output, finding)?;
            }
            Some(Item::End(end)) => {
                print_end(output, end)?;
                return Ok(findings.max(end.finding_count));
            }
            None => {}
        }
    }
    anyhow::bail!("the check ended before it was complete")
}

/// Follows a scrub and prints its findings. Returns their number.
async fn scrub(client: &mut Client, output: &mut Output) -> anyhow::Result<i64> {
    use pb::start_scrub_response::Item;
    let mut responses = client.admin.start_scrub(pb::StartScrubRequest {}).await?.into_inner();
    let mut progress = Progress::new();
    while let Some(response) = progress.waiting("scrubs the store", responses.message()).await? {
        match &response.item {
            Some(Item::Progress(now)) => progress.show(|| {
                let (sessions, events) = (count(now.session_count, "session"), count(now.event_count, "event"));
                let findings = count(now.finding_count, "finding");
                format!("scrubs the store: {sessions}, {events}, {} MiB, {findings}", now.content_bytes >> 20)
            }),
            Some(Item::Finding(finding)) => {
                progress.clear();
                report(output, finding)?;
                output.flush()?;
            }
            Some(Item::End(end)) => {
                progress.clear();
                print_end(output, end)?;
                return Ok(end.finding_count);
            }
            None => {}
        }
    }
    anyhow::bail!("the scrub ended before it was complete")
}

fn report(output: &mut Output, finding: &pb::IntegrityFinding) -> anyhow::Result<()> {
    if output.json() {
        let item = Some(Item::Finding(finding.clone()));
        return output.message(&pb::CheckIntegrityResponse { item });
    }
    let subject = if finding.session_id.is_empty() {
        "store".to_owned()
    } else {
        format!("{} #{}", finding.session_id, finding.revision)
    };
    Ok(output.line(&format!("{subject}: {}", finding.message))?)
}

fn print_end(output: &mut Output, end: &pb::IntegrityEnd) -> anyhow::Result<()> {
    if output.json() {
        return output.message(&pb::CheckIntegrityResponse { item: Some(Item::End(*end)) });
    }
    let (sessions, events) = (count(end.session_count, "session"), count(end.event_count, "event"));
    let verdict = match end.finding_count {
        0 => "no findings".to_owned(),
        findings => count(findings, "finding"),
    };
    Ok(output.line(&format!("{sessions} and {events} checked: {verdict}"))?)
}

async fn print_heads(client: &mut Client, session: Option<String>, output: &mut Output) -> anyhow::Result<()> {
    let mut request = pb::ListHeadsRequest { session_id: session, page_size: PAGE_SIZE, ..Default::default() };
    loop {
        let page = client.admin.list_heads(request.clone()).await?.into_inner();
        page.heads.iter().try_for_each(|head| output.message(head))?;
        if page.next_page_token.is_empty() {
            return Ok(());
        }
        request.page_token = page.next_page_token;
    }
}

/// Reads the heads that `audit head` wrote to a file.
fn read_heads(path: &Path) -> anyhow::Result<Vec<pb::Head>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            json::decode::<pb::Head>(line)
                .map_err(|error| Usage(format!("{}:{}: not a head: {error}", path.display(), index + 1)).into())
        })
        .collect()
}

/// Compares exported heads with the chains at the same revisions and prints the differences. Returns their number.
async fn compare(
    client: &mut Client,
    session: Option<String>,
    expected: &[pb::Head],
    output: &mut Output,
) -> anyhow::Result<i64> {
    let wanted: Vec<pb::Head> = expected
        .iter()
        .filter(|head| session.as_ref().is_none_or(|session| *session == head.session_id))
        .cloned()
        .collect();
    let mut findings = 0;
    for chunk in wanted.chunks(PAGE_SIZE as usize) {
        let found = heads_at(client, chunk).await?;
        for finding in differences(chunk, &found) {
            findings += 1;
            report(output, &finding)?;
        }
    }
    if !output.json() {
        let verdict = if findings == 0 { "no differences".to_owned() } else { count(findings, "finding") };
        output.line(&format!("{} compared: {verdict}", count(wanted.len() as i64, "head")))?;
    }
    Ok(findings)
}

/// Hashes at the revisions of the given heads. A session that is gone has none.
async fn heads_at(client: &mut Client, heads: &[pb::Head]) -> Result<Vec<pb::Head>, tonic::Status> {
    let request = |at: &[pb::Head]| pb::ListHeadsRequest {
        page_size: PAGE_SIZE,
        at: at.to_vec(),
        ..pb::ListHeadsRequest::default()
    };
    let answer = client.admin.list_heads(request(heads)).await;
    match answer {
        Err(status) if is_missing_session(&status) => {}
        answer => return Ok(answer?.into_inner().heads),
    }
    // At least one session is gone. Requests for single heads still succeed for the others.
    let mut found = Vec::new();
    for head in heads {
        match client.admin.list_heads(request(std::slice::from_ref(head))).await {
            Err(status) if is_missing_session(&status) => {}
            answer => found.extend(answer?.into_inner().heads),
        }
    }
    Ok(found)
}

fn is_missing_session(status: &tonic::Status) -> bool {
    failure::reason(status).as_deref() == Some("SESSION_NOT_FOUND")
}

/// Findings for the expected heads that the chains lack or contradict.
fn differences(expected: &[pb::Head], found: &[pb::Head]) -> Vec<pb::IntegrityFinding> {
    let found: HashMap<(&str, i64), &[u8]> =
        found.iter().map(|head| ((head.session_id.as_str(), head.revision), head.hash.as_slice())).collect();
    let finding = |head: &pb::Head, message: String| pb::IntegrityFinding {
        session_id: head.session_id.clone(),
        revision: head.revision,
        message,
    };
    let mut findings = Vec::new();
    for head in expected {
        match found.get(&(head.session_id.as_str(), head.revision)) {
            None => findings.push(finding(head, "the session is gone".to_owned())),
            Some([]) => findings.push(finding(head, "the session ends before this revision".to_owned())),
            Some(hash) if *hash != head.hash => {
                let message = format!("the chain's hash is {}, not {}", hex(hash), hex(&head.hash));
                findings.push(finding(head, message));
            }
            Some(_) => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(session: &str, revision: i64, hash: &[u8]) -> pb::Head {
        pb::Head { session_id: session.into(), revision, hash: hash.to_vec() }
    }

    #[test]
    fn differences_name_session_and_revision() {
        let expected = [head("a", 3, b"x"), head("b", 4, b"y"), head("c", 5, b"z"), head("d", 6, b"w")];
        let found = [head("d", 6, b"w"), head("b", 4, b"!"), head("c", 5, b"")];
        let findings = differences(&expected, &found);
        let reported: Vec<_> = findings.iter().map(|finding| (finding.session_id.as_str(), finding.revision)).collect();
        assert_eq!(reported, [("a", 3), ("b", 4), ("c", 5)]);
        assert!(findings[0].message.contains("gone") && findings[2].message.contains("ends before"));
    }

    #[test]
    fn exported_heads_are_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("heads");
        let heads = [head("ses_1", 7, &[1, 2]), head("ses_2", 9, &[3])];
        let text: Vec<String> = heads.iter().map(|head| json::encode(head).expect("JSON")).collect();
        std::fs::write(&file, format!("{}\n\n{}\n", text[0], text[1])).expect("a file");
        assert_eq!(read_heads(&file).expect("heads"), heads);
        std::fs::write(&file, format!("{}\nnonsense\n", text[0])).expect("a file");
        let error = read_heads(&file).expect_err("a refusal");
        assert!(error.to_string().contains("heads:2: not a head"), "{error}");
    }
}

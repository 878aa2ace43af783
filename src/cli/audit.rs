//! `longhand audit`: verifies the hash chains, also against exported heads, scrubs the store, and exports heads.

mod check;
mod heads;
mod keys;

use super::failure;
use super::output::{Output, count, hex};
use super::progress::Progress;
use super::{Globals, ids};
use crate::access_log::{self, VerifiedLog};
use crate::clock::Clock;
use crate::config::Config;
use crate::pb::check_integrity_response::Item;
use crate::{daemon, pb};
use anyhow::Context;
use heads::Heads;
use longhand_client::{Client, Error, Reason};
use std::collections::HashMap;
use std::path::PathBuf;
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
        /// File with the public key of who signed them: they must be signed then
        #[arg(long, value_name = "FILE", requires = "expect")]
        key: Option<PathBuf>,
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
        /// File with the private key that signs them, in a line behind the others
        #[arg(long, value_name = "FILE")]
        sign: Option<PathBuf>,
    },
    /// Make a key pair for signed heads: the private key in a new file, the public key beside it in FILE.pub
    Key {
        /// File for the private key
        file: PathBuf,
    },
    /// Check a file of `longhand export`, also against signed heads, without a daemon; exit code 3 for findings
    Check(check::Arguments),
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut output = globals.output();
    match arguments.command {
        Command::Verify { session, expect, key } => {
            // An unreadable file is reported before anything is checked.
            let expected = expect.as_deref().map(Heads::read).transpose()?;
            let key = key.as_deref().map(keys::read_public).transpose()?;
            let client = globals.client().await?;
            let session = ids::optional_session(&client, session).await?;
            let mut findings = check(&client, session.clone(), &mut output).await?;
            if let Some(expected) = expected {
                if let Some(message) = key.and_then(|key| expected.defect(&key)) {
                    findings += 1;
                    report(&mut output, &pb::IntegrityFinding { message, ..pb::IntegrityFinding::default() })?;
                }
                findings += compare(&client, session, &expected.heads, &mut output).await?;
            }
            output.flush()?;
            Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
        }
        Command::Scrub => {
            let client = globals.client().await?;
            let findings = scrub(&client, &mut output).await?;
            output.flush()?;
            Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
        }
        Command::Access { data_dir } => {
            let directory = daemon::access_log_path(&data_dir.unwrap_or_else(|| Config::default().data_dir));
            let verified = access_log::verify(&directory, |line| output.text(&format!("{line}\n")))
                .with_context(|| directory.display().to_string())?;
            output.flush()?;
            let VerifiedLog { lines, last_number, last_hash, fault } = verified;
            failure::note(&format!(
                "{} verified; number {last_number}, hash {last_hash}",
                count(i64::try_from(lines)?, "line")
            ));
            let Some(fault) = fault else { return Ok(ExitCode::SUCCESS) };
            failure::note(&format!("{}:{}: not as it was written", fault.file.display(), fault.line));
            Ok(ExitCode::from(failure::FINDINGS))
        }
        Command::Key { file } => {
            let public = keys::make(&file)?;
            let (private, public_file) = (file.display(), keys::public_path(&file));
            output.line(&format!("{private}, {}: Ed25519 {}", public_file.display(), hex(&public)))?;
            output.flush()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Check(arguments) => check::run(globals, arguments).await,
        Command::Head { session, sign } => {
            let client = globals.client().await?;
            let session = ids::optional_session(&client, session).await?;
            let heads = list_heads(&client, session).await?;
            // A key that cannot be read is reported before anything is printed.
            let signature = sign.map(|key| {
                let now = jiff::Timestamp::from_microsecond(Clock::default().now().0)?;
                Heads::sign(&heads, &key, now.to_string())
            });
            let signature = signature.transpose()?;
            heads.iter().try_for_each(|head| output.message(head))?;
            if let Some(signature) = signature {
                output.text(&format!("{signature}\n"))?;
            }
            output.flush()?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Checks the chains and prints the findings. Returns their number.
async fn check(client: &Client, session: Option<String>, output: &mut Output) -> anyhow::Result<i64> {
    let request = pb::CheckIntegrityRequest { session_id: session };
    let mut responses = client.stream(request).await?;
    let mut progress = Progress::new();
    let mut findings = 0;
    while let Some(response) = progress.waiting("checks the hash chains", responses.next()).await? {
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
async fn scrub(client: &Client, output: &mut Output) -> anyhow::Result<i64> {
    use pb::start_scrub_response::Item;
    let mut responses = client.stream(pb::StartScrubRequest {}).await?;
    let mut progress = Progress::new();
    while let Some(response) = progress.waiting("scrubs the store", responses.next()).await? {
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

async fn list_heads(client: &Client, session: Option<String>) -> anyhow::Result<Vec<pb::Head>> {
    let request = pb::ListHeadsRequest { session_id: session, page_size: PAGE_SIZE, ..Default::default() };
    Ok(client.pages(request).all(|page| page.heads).await?)
}

/// Compares exported heads with the chains at the same revisions and prints the differences. Returns their number.
async fn compare(
    client: &Client,
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
        let heads = heads_at(client, chunk).await?;
        for finding in differences(chunk, &heads) {
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
async fn heads_at(client: &Client, heads: &[pb::Head]) -> Result<Vec<pb::Head>, Error> {
    let request = |at: &[pb::Head]| pb::ListHeadsRequest {
        page_size: PAGE_SIZE,
        at: at.to_vec(),
        ..pb::ListHeadsRequest::default()
    };
    let answer = client.call(request(heads)).await;
    match answer {
        Err(error) if is_missing_session(&error) => {}
        answer => return Ok(answer?.heads),
    }
    // At least one session is gone. Requests for single heads still succeed for the others.
    let mut heads_found = Vec::new();
    for head in heads {
        match client.call(request(std::slice::from_ref(head))).await {
            Err(error) if is_missing_session(&error) => {}
            answer => heads_found.extend(answer?.heads),
        }
    }
    Ok(heads_found)
}

fn is_missing_session(error: &Error) -> bool {
    error.reason() == Some(Reason::SessionNotFound)
}

/// Findings for the expected heads that the chains lack or contradict.
fn differences(expected: &[pb::Head], found: &[pb::Head]) -> Vec<pb::IntegrityFinding> {
    let hashes: HashMap<(&str, i64), &[u8]> =
        found.iter().map(|head| ((head.session_id.as_str(), head.revision), head.hash.as_slice())).collect();
    let finding = |head: &pb::Head, message: String| pb::IntegrityFinding {
        session_id: head.session_id.clone(),
        revision: head.revision,
        message,
    };
    let mut findings = Vec::new();
    for head in expected {
        match hashes.get(&(head.session_id.as_str(), head.revision)) {
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
}

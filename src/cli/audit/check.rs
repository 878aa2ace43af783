//! The check of an archive against signed heads, without a daemon and without its store.

use super::heads::Heads;
use super::keys;
use crate::cli::Globals;
use crate::cli::failure;
use crate::cli::output::{Output, count, hex};
use crate::daemon::offline::{self, ArchiveError, CheckedArchive};
use crate::pb;
use anyhow::Context;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// File that `longhand export` wrote
    export: PathBuf,
    /// File with the output of `audit head`
    #[arg(long, value_name = "FILE")]
    head: Option<PathBuf>,
    /// File with the public key of who signed the heads
    #[arg(long, value_name = "FILE", requires = "head")]
    key: Option<PathBuf>,
}

/// What a check found out about a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Proof {
    session_id: String,
    /// The newest revision in the archive.
    revision: i64,
    /// The revision up to which it is as the head says; none without a head.
    proven_revision: Option<i64>,
    /// True if the head is signed with the given key.
    signed: bool,
    finding: Option<String>,
}

pub(super) async fn run(globals: &Globals, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let heads = arguments.head.as_deref().map(Heads::read).transpose()?;
    let key = arguments.key.as_deref().map(keys::read_public).transpose()?;
    let lines =
        std::fs::read(&arguments.export).with_context(|| format!("cannot read {}", arguments.export.display()))?;
    let mut output = globals.output();
    let no_heads = Vec::new();
    let points = heads.as_ref().map_or(&no_heads, |heads| &heads.heads);
    let at: Vec<(String, i64)> = points.iter().map(|head| (head.session_id.clone(), head.revision)).collect();
    let checked = match offline::check_archive(&lines, &at).await {
        Ok(checked) => checked,
        Err(ArchiveError::Refused(why)) => {
            finding(&mut output, &why)?;
            output.flush()?;
            return Ok(ExitCode::from(failure::FINDINGS));
        }
        Err(error) => return Err(error.into()),
    };
    let defect = match (&heads, &key) {
        (Some(heads), Some(key)) => heads.defect(key),
        _ => None,
    };
    let mut findings = 0;
    if let Some(defect) = &defect {
        findings += 1;
        finding(&mut output, defect)?;
    }
    let is_signed = key.is_some() && defect.is_none();
    for proof in proofs(&checked, points, is_signed) {
        findings += i64::from(proof.finding.is_some());
        print(&mut output, &proof)?;
    }
    if !output.json() {
        let sessions = count(i64::try_from(checked.sessions.len())?, "session");
        let verdict = if findings == 0 { "no findings".to_owned() } else { count(findings, "finding") };
        output.line(&format!("{sessions} checked: {verdict}"))?;
    }
    output.flush()?;
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(failure::FINDINGS) })
}

fn finding(output: &mut Output, message: &str) -> anyhow::Result<()> {
    if output.json() {
        return output.value(&serde_json::json!({ "finding": message }));
    }
    Ok(output.line(message)?)
}

/// What the heads prove about each session of an archive.
fn proofs(checked: &CheckedArchive, points: &[pb::Head], is_signed: bool) -> Vec<Proof> {
    let mut proofs = Vec::new();
    for (session, revision) in &checked.sessions {
        let of_session = points.iter().zip(&checked.hashes).filter(|(head, _)| head.session_id == *session);
        let mut proof = Proof {
            session_id: session.clone(),
            revision: *revision,
            proven_revision: None,
            signed: false,
            finding: None,
        };
        for (head, hash) in of_session {
            match hash {
                Some(hash) if *hash == head.hash => {
                    proof.proven_revision = proof.proven_revision.max(Some(head.revision));
                    proof.signed = is_signed;
                }
                Some(hash) => {
                    let (hash, expected) = (hex(hash), hex(&head.hash));
                    let message = format!("the hash at revision {} is {hash}, not {expected}", head.revision);
                    proof.finding = Some(message);
                }
                None => {
                    proof.finding = Some(format!("the session ends before revision {} of its head", head.revision));
                }
            }
        }
        proofs.push(proof);
    }
    proofs
}

fn print(output: &mut Output, proof: &Proof) -> anyhow::Result<()> {
    if output.json() {
        return output.value(proof);
    }
    let Proof { session_id, revision, proven_revision, signed, finding } = proof;
    if let Some(finding) = finding {
        output.line(&format!("{session_id} #{revision}: {finding}"))?;
    }
    let line = match proven_revision {
        None => "whole by its own chain; no head names it".to_owned(),
        Some(proven) => {
            let by = if *signed { "signed" } else { "exported, without a checked signature" };
            let rest = match revision - proven {
                0 => String::new(),
                later => format!("; {} after it are whole by the chain alone", count(later, "revision")),
            };
            format!("everything up to revision {proven} is as it was when its head was {by}{rest}")
        }
    };
    Ok(output.line(&format!("{session_id} #{revision}: {}", line))?)
}

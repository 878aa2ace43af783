//! What an erasure of a session takes besides its messages: its title, metadata and client id, prompts, questions, and the
//! texts in its events. First everything ends that is at work in it.

use super::rows::{self, OpenedRevisions};
use crate::engine::{self, Connection, values};
use crate::error::Result;
use crate::ledger::codec;
use crate::ledger::head::Receipt;
use crate::ledger::jobs::give_up_all;
use crate::ledger::tx::{Requester, Tx};
use crate::ledger::visibility;
use crate::ledger::{approvals, erased_content, erased_sessions, prompts, runs};
use crate::model::Revision;
use crate::model::compaction::{Failure, FailureReason, RevisionRange};
use crate::model::event::EventBody;
use crate::model::run::RunEndReason;
use std::collections::BTreeSet;

const EVENTS: &str = "select revision, kind, body from event where session_id = ?1 and revision between ?2 and ?3 \
     order by revision limit 500";
const UPDATE_EVENT: &str = "update event set body = ?3 where session_id = ?1 and revision = ?2";
const PROMPTS: &str = "select id, submit_revision, parts, metadata_json from prompt where session_id = ?1 \
     and submit_revision between ?2 and ?3";
const RUNS: &str = "select epoch, end_revision from run where session_id = ?1 and failure <> '' \
     and end_revision between ?2 and ?3";
const UPDATE_RUN: &str = "update run set failure = '' where session_id = ?1 and epoch = ?2";
const JOBS: &str = "select id, failure, outcome from job where session_id = ?1";
const UPDATE_JOB: &str = "update job set instructions = '', notice = '', failure = ?2, outcome = ?3, digest = null \
     where id = ?1";
const ROW: &str = "select client_id, create_hash, tenant from session where id = ?1";
const FREE: &str = "update session set client_id = null, create_hash = null where id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[EVENTS, UPDATE_EVENT, PROMPTS, RUNS, UPDATE_RUN, JOBS, UPDATE_JOB, ROW, FREE];

/// Ends what is at work in a session, as a mutation of its own: its run, compactions, prompts and questions.
pub(super) fn end_work(tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<()> {
    let sealed = runs::end(tx, key, caller, RunEndReason::Cancelled, String::new())?;
    prompts::withdraw_all(tx, key, caller)?;
    approvals::withdraw_all(tx, key, caller)?;
    let why = Failure::new(FailureReason::Superseded, "the session was erased");
    give_up_all(tx, key, caller, &why)?;
    tx.end_mutation(key, caller, Receipt::default())?;
    sealed.into_iter().try_for_each(|sealed| sealed.write(tx))?;
    tx.flush_with_heads()
}

/// Takes what a session has besides its messages in a range of its revisions: the texts of its events, prompts, questions.
pub(super) fn erase_range(
    tx: &mut Tx<'_>,
    opened: &mut OpenedRevisions<'_>,
    key: i64,
    range: RevisionRange,
) -> Result<()> {
    let conn = tx.conn;
    let titles = events(conn, opened, key, range)?;
    let mut bytes = 0;
    for row in engine::query(PROMPTS).bind(key).bind(range.first).bind(range.last).all(conn)? {
        bytes += rows::erase_prompt(opened, key, &row, None)?;
    }
    bytes += rows::erase_approvals(opened, key, range)?;
    let mut runs = Vec::new();
    for row in engine::query(RUNS).bind(key).bind(range.first).bind(range.last).all(conn)? {
        let (epoch, end): (i64, Revision) = (row.get(0)?, row.get(1)?);
        opened.open(key, end)?;
        runs.push(values![key, epoch]);
    }
    opened.write()?;
    engine::run_for_each(conn, UPDATE_RUN, runs)?;
    tx.count(key, -bytes)?;
    inherited_titles(tx, opened, key, &titles)
}

/// Takes what a session has for itself: its title, its metadata, its client id, and what its jobs and requests have.
pub(super) fn erase(tx: &mut Tx<'_>, opened: &mut OpenedRevisions<'_>, key: i64) -> Result<()> {
    let conn = tx.conn;
    let fork = tx.loaded(key)?.fork_revision.unwrap_or(0);
    jobs(conn, key)?;
    rows::salt_requests(opened, key)?;
    let row = engine::query(ROW).bind(key).one(conn)?;
    let (client_id, request, tenant): (Option<String>, Option<Vec<u8>>, String) =
        (row.get(0)?, row.get(1)?, row.get(2)?);
    if let (Some(client_id), Some(request)) = (client_id, request) {
        erased_sessions::add(conn, key, &tenant, &client_id, &request)?;
    }
    opened.open(key, fork + 1)?;
    opened.write()?;
    engine::query(FREE).bind(key).run(conn)?;
    let head = tx.loaded(key)?;
    if let Some(receipt) = opened.receipts.of_session(head.metadata_json()) {
        erased_content::add(conn, &[receipt])?;
    }
    let of_head = head.title().len() + head.metadata_json().map_or(0, str::len);
    head.retitle("");
    if let Some(metadata) = head.metadata_json().map(visibility::project_alone) {
        head.set_metadata(&metadata);
    }
    tx.count(key, -i64::try_from(of_head).unwrap_or(i64::MAX))
}

/// Takes the texts of a session's events in a range. Returns its titles.
fn events(
    conn: &Connection,
    opened: &mut OpenedRevisions<'_>,
    key: i64,
    range: RevisionRange,
) -> Result<BTreeSet<String>> {
    let mut titles = BTreeSet::new();
    let mut first = range.first;
    loop {
        let rows = engine::query(EVENTS).bind(key).bind(first).bind(range.last).all(conn)?;
        let Some(last) = rows.last() else { return Ok(titles) };
        first = last.get::<Revision>(0)? + 1;
        let mut changed = Vec::new();
        for row in &rows {
            let body = codec::decode_event(row.get(1)?, row.get(2)?)?;
            let mut without = body.clone();
            titles.extend(take_texts(&mut without).filter(|title| !title.is_empty()));
            if without != body {
                let revision: Revision = row.get(0)?;
                opened.open(key, revision)?;
                changed.push(values![key, revision, codec::encode_event(&without)]);
            }
        }
        opened.write()?;
        engine::run_for_each(conn, UPDATE_EVENT, changed)?;
    }
}

/// Takes the texts that clients, agents and providers brought. Returns its title. No kind of event is left out unseen: a
/// new one with a text belongs to those that lose it.
fn take_texts(body: &mut EventBody) -> Option<String> {
    match body {
        EventBody::SessionCreated { title, .. } | EventBody::SessionForked { title, .. } => {
            return Some(std::mem::take(title));
        }
        EventBody::SessionUpdated { title, metadata_json, .. } => {
            *metadata_json = metadata_json.take().map(|metadata| visibility::project_alone(&metadata));
            return title.take();
        }
        EventBody::MessageAppended { client_id, .. } => *client_id = None,
        EventBody::CompactionProposed { notice, .. } => notice.clear(),
        EventBody::CompactionRetried { failure, .. }
        | EventBody::CompactionFailed { failure, .. }
        | EventBody::CompactionCancelled { failure, .. } => failure.message.clear(),
        EventBody::Compacted { notice, outcome, .. } => {
            notice.clear();
            outcome.contradictions.clear();
            if let Some(stopped) = &mut outcome.stopped {
                stopped.message.clear();
            }
        }
        EventBody::RunEnded { failure, .. } => failure.clear(),
        EventBody::ApprovalEnded { choice, .. } => *choice = None,
        EventBody::SessionArchived
        | EventBody::SessionRestored
        | EventBody::LabelAdded { .. }
        | EventBody::LabelRemoved { .. }
        | EventBody::PolicyChanged { .. }
        | EventBody::PartsClosed { .. }
        | EventBody::MessageFinished { .. }
        | EventBody::UsageRecorded { .. }
        | EventBody::SessionRewound { .. }
        | EventBody::MessageEdited { .. }
        | EventBody::MessagePinned { .. }
        | EventBody::MessageUnpinned { .. }
        | EventBody::WordsMarked { .. }
        | EventBody::CompactionStarted { .. }
        | EventBody::PartsPruned { .. }
        | EventBody::CompactionUndone { .. }
        | EventBody::CompactionRedone { .. }
        | EventBody::RewriteUndone(_)
        | EventBody::RewriteRedone(_)
        | EventBody::RunStarted { .. }
        | EventBody::RunCancelRequested { .. }
        | EventBody::PromptSubmitted { .. }
        | EventBody::PromptMoved { .. }
        | EventBody::PromptTaken { .. }
        | EventBody::PromptWithdrawn { .. }
        | EventBody::ApprovalRequested { .. }
        | EventBody::Erased { .. } => {}
    }
    None
}

/// Takes instructions, notices and messages of compactions.
fn jobs(conn: &Connection, key: i64) -> Result<()> {
    let mut changed = Vec::new();
    for row in engine::query(JOBS).bind(key).all(conn)? {
        let failure: Option<&[u8]> = row.get(1)?;
        let failure = failure.map(codec::decode_failure).transpose()?;
        let failure = failure.map(|failure| codec::encode_failure(&Failure { message: String::new(), ..failure }));
        let outcome: Option<&[u8]> = row.get(2)?;
        let mut outcome = outcome.map(codec::decode_outcome).transpose()?;
        if let Some(outcome) = &mut outcome {
            outcome.contradictions.clear();
            outcome.stopped.iter_mut().for_each(|stopped| stopped.message.clear());
        }
        let outcome = outcome.as_ref().map(codec::encode_outcome);
        changed.push(values![row.get::<i64>(0)?, failure, outcome]);
    }
    engine::run_for_each(conn, UPDATE_JOB, changed)
}

/// Titles that forks have from the session that they were forked from.
fn inherited_titles(
    tx: &mut Tx<'_>,
    opened: &mut OpenedRevisions<'_>,
    key: i64,
    titles: &BTreeSet<String>,
) -> Result<()> {
    for fork in opened.sessions().into_iter().filter(|session| *session != key) {
        let Some(at) = tx.head(fork)?.fork_revision else { continue };
        let row = engine::query(EVENTS).bind(fork).bind(at + 1).bind(at + 1).all(tx.conn)?.into_iter().next();
        let Some(row) = row else { continue };
        let mut body = codec::decode_event(row.get(1)?, row.get(2)?)?;
        let EventBody::SessionForked { title, .. } = &mut body else { continue };
        if !titles.contains(title) {
            continue;
        }
        let inherited = std::mem::take(title);
        opened.open(fork, at + 1)?;
        opened.write()?;
        engine::query(UPDATE_EVENT).bind(fork).bind(at + 1).bind(codec::encode_event(&body)).run(tx.conn)?;
        let head = tx.loaded(fork)?;
        if head.title() == inherited {
            head.retitle("");
        }
    }
    Ok(())
}

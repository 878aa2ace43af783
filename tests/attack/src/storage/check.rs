//! The checks of a store after a fault, against a client's record.

use super::client::{Act, Answer, Client, Entry, Reply, Request, carry_out, nothing_was_written, requester};
use super::faults::copy_files;
use super::running::{Running, panics, soon};
use crate::vfs::scratch;
use anyhow::{Context as _, Result};
use longhand::app::append::ListMessages;
use longhand::app::views::ViewRequest;
use longhand::app::{Caller, Durability, Reason};
use longhand::model::Revision;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::Event;
use longhand::model::message::{FinishReason, Message, MessageKind, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody};
use longhand::policy::pairing;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The promise that a check verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Everything acknowledged is present.
    All,
    /// The newest acknowledged writes may be lost, but none before one that is present.
    Beginning,
}

/// The faults of a store; empty if there are none.
pub type Findings = Vec<String>;

/// State of a check.
struct Check<'a> {
    running: &'a Running,
    client: &'a Client,
    promise: Promise,
    /// The revision of each session before the store was reopened, since the scheduler continues at once.
    left: BTreeMap<String, Revision>,
    findings: Findings,
}

/// Opens the store in a directory, compares it with the record, sends every request again, and makes new requests.
pub async fn check(directory: &Path, client: &Client, promise: Promise) -> Result<Findings> {
    let left = if promise == Promise::Beginning { revisions(directory)? } else { BTreeMap::new() };
    let running = match Running::open(directory, Durability::Full).await? {
        Ok(running) => running,
        Err(error) => return Ok(vec![format!("does not open again: {error}")]),
    };
    let mut check = Check { running: &running, client, promise, left, findings: Findings::new() };
    check.is_sound(directory, "after the fault").await?;
    let lost = check.requests().await?;
    check.views().await?;
    check.histories(&lost).await?;
    check.send_again(&lost).await?;
    check.goes_on().await?;
    check.is_sound(directory, "after working on").await?;
    let mut findings = check.findings;
    running.stop().await?;
    findings.extend(panics().into_iter().map(|panic| format!("panicked: {panic}")));
    Ok(findings)
}

fn app_of<'a>(check: &Check<'a>) -> &'a Caller {
    &check.running.app
}

impl Check<'_> {
    fn found(&mut self, what: impl Into<String>) {
        self.findings.push(what.into());
    }

    /// Runs the database's own check, and that of the hash chains.
    async fn is_sound(&mut self, directory: &Path, when: &str) -> Result<()> {
        let database = Connection::open(directory.join("longhand.db")).context("another connection")?;
        let column = |sql| -> Result<Vec<String>> {
            Ok(database.prepare(sql)?.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?)
        };
        let (report, dangling) = (column("pragma integrity_check")?, column("pragma foreign_key_check")?);
        drop(database);
        if report != ["ok"] {
            self.found(format!("{when}, integrity_check says {report:?}"));
        }
        if !dangling.is_empty() {
            self.found(format!("{when}, {} references lead nowhere", dangling.len()));
        }
        let (found, mut items) = tokio::sync::mpsc::channel(10_000);
        let checked =
            soon("the check of the chains", self.running.longhand.store().upkeep().verify(None, found)).await?;
        if let Err(error) = checked {
            self.found(format!("{when}, the chains cannot be checked: {error}"));
        }
        while let Some(finding) = items.recv().await {
            self.found(format!("{when}, the chains: {finding:?}"));
        }
        Ok(())
    }

    /// Compares every request with the store. Returns the acknowledged requests that are lost, if the promise allows
    /// any.
    async fn requests(&mut self) -> Result<BTreeSet<usize>> {
        let mut lost = BTreeSet::new();
        for (index, entry) in self.client.entries.iter().enumerate() {
            let Request { key, session, .. } = &entry.request;
            let there = soon("a kept answer", self.there(&entry.request)).await?;
            match (&entry.reply, there) {
                (Some((_, Reply::Done(_))), None) => {
                    lost.insert(index);
                }
                (Some((_, Reply::Done(answer))), Some(there)) => {
                    if there != *answer {
                        self.found(format!("{key} in {session} was answered {answer:?}, and {there:?} is there"));
                    }
                    self.gone_before(&lost, index);
                }
                (Some((_, Reply::Refused(error))), Some(_)) if nothing_was_written(error) => {
                    self.found(format!("{key} in {session} was refused ({error:?}), and it is there"));
                }
                (Some((_, Reply::Refused(error))), None) if error.reason == Reason::AnswerLost => {
                    lost.insert(index);
                }
                (Some((_, Reply::Refused(_))) | None, _) => {}
            }
        }
        if self.promise == Promise::All {
            for index in std::mem::take(&mut lost) {
                let Entry { request, .. } = &self.client.entries[index];
                self.found(format!(
                    "{} in {} was acknowledged and is gone: {:.200?}",
                    request.key, request.session, request.act
                ));
            }
        }
        Ok(lost)
    }

    /// Reports a request that is present although an earlier one is lost.
    fn gone_before(&mut self, lost: &BTreeSet<usize>, index: usize) {
        let entry = &self.client.entries[index];
        let before = |lost: &&usize| {
            let reply = self.client.entries[**lost].reply.as_ref().map_or(usize::MAX, |(when, _)| *when);
            // Concurrent requests have no order.
            reply <= entry.sent && self.client.entries[**lost].sent < entry.sent
        };
        if let Some(gone) = lost.iter().find(before) {
            let gone = &self.client.entries[*gone].request.key;
            self.found(format!("{} is there, and {gone}, which was done before, is gone", entry.request.key));
        }
    }

    /// The answer to a request according to the store; none if the request was never carried out.
    async fn there(&self, request: &Request) -> Option<Answer> {
        let store = self.running.longhand.store();
        if let Act::Create(_) | Act::Fork(_) = &request.act {
            let name = if let Act::Fork(name) = &request.act { name } else { &request.session };
            let session = app_of(self).sessions().get(name).await.ok()?.session;
            return Some(Answer { ids: vec![session.id.0], revision: None });
        }
        let session = store.sessions().find(&longhand::store::Visibility::default(), &request.session).await.ok()?;
        match &request.act {
            Act::Draft(message, draft, before, delta) => {
                let text = self.draft(&request.session, message, draft).await?;
                let (id, text) = text;
                text.starts_with(&format!("{before}{delta}")).then(|| Answer { ids: vec![id], revision: None })
            }
            Act::Compact(_) => {
                let receipt = store.sessions().kept_answer(session, &requester(request)).await.ok()??;
                Some(Answer { ids: receipt.ids, revision: None })
            }
            _ => {
                let receipt = store.sessions().kept_answer(session, &requester(request)).await.ok()??;
                Some(Answer { ids: receipt.ids, revision: Some(receipt.revision) })
            }
        }
    }

    /// The text of a draft, or of the part that it became.
    async fn draft(&self, session: &str, message: &str, draft: &str) -> Option<(uuid::Uuid, String)> {
        let (message, drafts, _) = app_of(self).messages().get(session, message).await.ok()?;
        let closed = message.parts.into_iter().find(|part| part.client_id.as_deref() == Some(draft));
        match closed.map(|part| (part.id.0, Arc::unwrap_or_clone(part.body))) {
            Some((id, PartBody::Text(text))) => Some((id, text)),
            Some(_) => None,
            // The workload has one draft in a message.
            None => drafts.into_iter().next().map(|draft| (draft.id.0, draft.text)),
        }
    }

    /// Checks that every view that was read is unchanged as of its revision, and that the current view is valid and
    /// equals the view as of the newest revision.
    async fn views(&mut self) -> Result<()> {
        let app = app_of(self);
        for seen in &self.client.views {
            let left = self.left.get(&seen.session).copied().unwrap_or_default();
            if self.promise == Promise::Beginning && seen.revision > left {
                continue;
            }
            let at = ViewRequest { as_of: Some(seen.revision), ..ViewRequest::default() };
            let name = format!("the view of {} at {}", seen.session, seen.revision);
            match soon("a view", app.views().get(&seen.session, at)).await? {
                Ok(view) if view.hash == seen.hash => {}
                Ok(view) => {
                    let (was, is) = (&seen.messages, &view.messages);
                    let same = was.iter().zip(is).take_while(|(was, is)| was == is).count();
                    let (was, is) = (was.get(same), is.get(same));
                    self.found(format!("{name} is not what it was: {is:?} at {same} in place of {was:?}"));
                }
                Err(error) => self.found(format!("{name} is gone: {error:?}")),
            }
        }
        for session in self.sessions() {
            let now = soon("a view", app.views().get(&session, ViewRequest::default())).await?;
            let Ok(now) = now else { continue };
            let at = ViewRequest { as_of: Some(now.revision), ..ViewRequest::default() };
            let then = soon("a view", app.views().get(&session, at)).await?;
            if then.map(|then| then.hash).ok() != Some(now.hash) {
                self.found(format!("the view of {session} is not that of its newest revision"));
            }
            for violation in pairing::violations(&now.messages) {
                self.found(format!("the view of {session}: {violation}"));
            }
        }
        Ok(())
    }

    /// The sessions that the client knows.
    fn sessions(&self) -> BTreeSet<String> {
        let named = |entry: &Entry| match &entry.request.act {
            Act::Fork(name) => name.clone(),
            _ => entry.request.session.clone(),
        };
        self.client.entries.iter().map(named).collect()
    }

    /// Checks that each history has the appended messages, unaltered and once each, and that each request made one
    /// change.
    async fn histories(&mut self, lost: &BTreeSet<usize>) -> Result<()> {
        for session in self.sessions() {
            let Ok(messages) = history(app_of(self), &session).await? else { continue };
            let mut by_name: BTreeMap<String, Vec<Message>> = BTreeMap::new();
            for message in messages {
                by_name.entry(message.client_id.clone().unwrap_or_default()).or_default().push(message);
            }
            for (index, entry) in self.client.entries.iter().enumerate() {
                let Act::Append(sent) = &entry.request.act else { continue };
                if entry.request.session != session || lost.contains(&index) {
                    continue;
                }
                let done = matches!(entry.reply, Some((_, Reply::Done(_))));
                for sent in sent {
                    let name = sent.client_id.as_deref().unwrap_or_default();
                    match by_name.get(name).map(Vec::as_slice) {
                        None if done => self.found(format!("{name} is not in the history of {session}")),
                        None => {}
                        Some([there]) if is_same(sent, there) => {}
                        Some([_]) => self.found(format!("{name} in {session} is not what was sent")),
                        Some(_) => self.found(format!("{name} is in the history of {session} more than once")),
                    }
                }
            }
            self.events(&session).await?;
        }
        Ok(())
    }

    /// Checks that no request made more than one change, and that a refused one made none.
    async fn events(&mut self, session: &str) -> Result<()> {
        let mut changes: BTreeMap<String, usize> = BTreeMap::new();
        let Ok(events) = own_events(self.running, session).await? else { return Ok(()) };
        for event in events.iter().filter(|event| event.ends_mutation && !event.request_id.is_empty()) {
            *changes.entry(event.request_id.clone()).or_default() += 1;
        }
        for entry in self.client.entries.iter().filter(|entry| entry.request.session == session) {
            let key = &entry.request.key;
            let count = changes.get(key).copied().unwrap_or_default();
            let refused = matches!(&entry.reply, Some((_, Reply::Refused(error))) if nothing_was_written(error));
            if count > 1 || (refused && count > 0) {
                self.found(format!("{key} in {session} made {count} changes: {:?}", entry.reply));
            }
        }
        Ok(())
    }

    /// Sends every request again, in order: a finished one gets the same answer, and an uncertain one is carried out
    /// once.
    async fn send_again(&mut self, lost: &BTreeSet<usize>) -> Result<()> {
        for (index, entry) in self.client.entries.iter().enumerate() {
            let Request { key, session, act } = &entry.request;
            let done = match &entry.reply {
                Some((_, Reply::Done(answer))) if !lost.contains(&index) => Some(answer),
                Some((_, Reply::Refused(error))) if nothing_was_written(error) => continue,
                _ => None,
            };
            if matches!(act, Act::Draft(..)) && done.is_some() {
                continue;
            }
            let before = soon("a kept answer", self.there(&entry.request)).await?;
            let again = soon("a request that is sent again", carry_out(&self.running.longhand, &entry.request)).await?;
            match (again, done.or(before.as_ref())) {
                (Ok(again), Some(answer)) if again == *answer => {}
                (Ok(again), Some(answer)) => {
                    self.found(format!("{key} in {session} is sent again: {again:?} instead of {answer:?}"));
                }
                (Ok(first), None) if matches!(act, Act::Draft(..)) => drop(first),
                (Ok(first), None) => {
                    let second =
                        soon("a request that is sent again", carry_out(&self.running.longhand, &entry.request)).await?;
                    if second.as_ref().ok() != Some(&first) {
                        self.found(format!("{key} in {session} is done, and then {second:?} instead of {first:?}"));
                    }
                }
                (Err(error), Some(_)) => self.found(format!("{key} in {session} is sent again and refused: {error:?}")),
                (Err(error), None) if !nothing_was_written(&error) || error.reason == Reason::Internal => {
                    self.found(format!("{key} in {session} cannot be sent again: {error:?}"));
                }
                (Err(_), None) => {}
            }
        }
        for session in self.sessions() {
            self.events(&session).await?;
        }
        Ok(())
    }

    /// Checks that the store continues: it accepts appends, and compactions end.
    async fn goes_on(&mut self) -> Result<()> {
        self.running.settle_for_sure().await?;
        for session in self.sessions() {
            // Skips a session that was never created, or that is archived.
            let Ok(info) = app_of(self).sessions().get(&session).await else { continue };
            if info.session.state != longhand::model::session::SessionState::Active {
                continue;
            }
            let new_message = |name: &str, role| NewMessage {
                client_id: Some(format!("after-{session}-{name}")),
                role,
                kind: MessageKind::Normal,
                parts: vec![NewPart::new(PartBody::Text("And then we went on.".to_owned()))],
                finish: Some(longhand::model::message::Finish {
                    reason: Some(FinishReason::Stop),
                    ..Default::default()
                }),
                model: String::new(),
                provider: String::new(),
                origin_time: None,
                open_timeout_ms: None,
                metadata_json: None,
                replace_existing: false,
            };
            let request = |key: &str, act| Request { session: session.clone(), key: format!("after-{key}"), act };
            let append =
                request("append", Act::Append(vec![new_message("u", Role::User), new_message("a", Role::Assistant)]));
            if let Err(error) = soon("an append", carry_out(&self.running.longhand, &append)).await? {
                self.found(format!("{session} takes no appends any more: {error:?}"));
            }
            let compact = request("compact", Act::Compact(CompactionKind::Summary));
            match soon("a compaction", carry_out(&self.running.longhand, &compact)).await? {
                Ok(_) => {}
                Err(error) if error.reason == Reason::NothingToCompact => {}
                Err(error) => self.found(format!("{session} cannot be compacted any more: {error:?}")),
            }
        }
        self.running.settle_for_sure().await
    }
}

/// The newest revision of each session, from files not opened since the fault; empty if there is no store yet.
fn revisions(directory: &Path) -> Result<BTreeMap<String, Revision>> {
    let copy = scratch()?;
    copy_files(directory, copy.path())?;
    let Ok(database) = Connection::open(copy.path().join("longhand.db")) else { return Ok(BTreeMap::new()) };
    let sql = "select client_id, revision from session where client_id is not null";
    let Ok(mut statement) = database.prepare(sql) else { return Ok(BTreeMap::new()) };
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>().unwrap_or_default())
}

/// True if a message equals the sent one; a message that was sent open may have more parts.
fn is_same(sent: &NewMessage, there: &Message) -> bool {
    let parts = sent.parts.iter().zip(&there.parts).all(|(sent, there)| there.body.is_as_sent(&sent.body));
    let whole = sent.finish.is_none() || (sent.parts.len() == there.parts.len() && there.sealed_revision.is_some());
    sent.role == there.role && sent.kind == there.kind && parts && whole && sent.parts.len() <= there.parts.len()
}

/// All messages that clients wrote to a session; an error if there is no such session.
async fn history(app: &Caller, session: &str) -> Result<Result<Vec<Message>, longhand::app::Error>> {
    let mut messages = Vec::new();
    let mut list = ListMessages { page_size: 100, records: true, ..ListMessages::default() };
    loop {
        let page = match soon("a page", app.messages().list(session, list.clone())).await? {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        messages.extend(page.messages);
        if page.next_page_token.is_empty() {
            return Ok(Ok(messages));
        }
        list.page_token = page.next_page_token;
    }
}

/// A session's own events, without the inherited ones of a fork; an error if there is no such session.
async fn own_events(running: &Running, session: &str) -> Result<Result<Vec<Event>, longhand::app::Error>> {
    let info = match soon("a session", running.app.sessions().get(session)).await? {
        Ok(info) => info,
        Err(error) => return Ok(Err(error)),
    };
    let key = running.longhand.store().sessions().find(&longhand::store::Visibility::default(), session).await?;
    let mut events = Vec::new();
    let mut first = 1;
    while first <= info.session.revision {
        let range = (first, info.session.revision);
        let (page, _) = soon("events", running.longhand.store().log().of_history(key, &[], range, 500)).await??;
        let Some(last) = page.last() else { break };
        first = last.revision + 1;
        events.extend(page.into_iter().filter(|event| event.session_id == info.session.id));
    }
    Ok(Ok(events))
}

//! Execution of an import plan: sessions, forks, batches, summaries and edits.

use super::plan::{self, Combination, Edit, Group, ImportStep, PlannedSession, SessionOrigin, Supply};
use super::report::{ImportProgress, ImportReport};
use crate::cli::compactions::{self, is_active};
use crate::cli::failure::{self, note};
use crate::cli::json;
use crate::cli::policy_file::PolicyChoice;
use crate::clock::Clock;
use crate::limits;
use crate::pb;
use crate::pb::fork_session_request::Point;
use anyhow::Context;
use longhand_client::{Client, Error, Reason};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::time::Duration;

/// Maximum number of looks whether compactions have ended.
const TRIES_MAX: u32 = 200;
/// Delay between two looks.
const RETRY_WAIT: Duration = Duration::from_millis(100);

/// Kind of a record that holds a message which the daemon refuses.
const REFUSED_RECORD: &str = "refused";

/// Daemon ids of the entries of one file, by client id.
pub(super) type DaemonIds = HashMap<String, String>;

/// Writes sessions to a daemon.
pub(super) struct Player {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) report: ImportReport,
    pub(super) progress: ImportProgress,
    pub(super) views: Option<File>,
    pub(super) pace: Duration,
    combination: Combination,
    policy: PolicyChoice,
    /// The time of an import that brings back what was erased.
    again: Option<String>,
    /// Client ids of planned sessions that were erased, and are not written again.
    erased_sessions: HashSet<String>,
    /// The entries of the current session that lack content, because it was erased.
    pub(super) erased: HashSet<String>,
    /// Models of which it was looked whether their limits are known.
    models: HashSet<String>,
}

impl Player {
    /// Creates a player for one import; with its time, if it brings back what was erased.
    pub(super) fn new(
        (client, clock): (Client, Clock),
        combination: Combination,
        policy: PolicyChoice,
        report: ImportReport,
        (views, pace): (Option<File>, Duration),
        again: Option<String>,
    ) -> Self {
        let progress = ImportProgress::new(report.entries());
        let (erased_sessions, erased, models) = (HashSet::new(), HashSet::new(), HashSet::new());
        Self {
            client,
            clock,
            report,
            progress,
            views,
            pace,
            combination,
            policy,
            again,
            erased_sessions,
            erased,
            models,
        }
    }

    /// Writes all groups. Existing sessions and entries stay as they are.
    pub(super) async fn play(&mut self, groups: Vec<Group>) -> anyhow::Result<()> {
        let began = self.clock.now();
        let result = self.play_groups(groups).await;
        self.progress.clear();
        result.context("the import stopped; the same command continues it")?;
        self.report.close(began, self.clock.now());
        Ok(())
    }

    /// Report of the import.
    pub(super) fn into_report(self) -> ImportReport {
        self.report
    }

    async fn play_groups(&mut self, groups: Vec<Group>) -> anyhow::Result<()> {
        for group in groups {
            let mut ids = DaemonIds::new();
            self.erased.clear();
            for planned in group {
                let Some(session) = self.session(&planned, &ids).await? else { continue };
                let model = planned.model.clone();
                let window = self.window(&planned);
                if self.combination.live {
                    let session = self.ensure_window(session, window).await?;
                    let turns = plan::turns(planned.entries, self.combination.no_usage);
                    self.play_live(&session, turns, &mut ids).await?;
                    // The report has their ends.
                    self.wait_for_compactions(&session.session_id).await?;
                    self.note_model(model, &session);
                    self.close(session).await?;
                } else {
                    let session = self.play_steps(session, plan::steps(planned.entries), window, &mut ids).await?;
                    self.note_model(model, &session);
                    self.close(session).await?;
                }
            }
        }
        Ok(())
    }

    /// The planned session: the existing one with its client id, or a new one; none if it was erased, or if the session
    /// that it belongs to was.
    async fn session(&mut self, planned: &PlannedSession, ids: &DaemonIds) -> anyhow::Result<Option<pb::Session>> {
        let request = pb::GetSessionRequest { session_id: planned.client_id.clone() };
        match self.client.call(request).await {
            Err(error) if error.reason() == Some(Reason::SessionNotFound) => {}
            found => return Ok(found?.session),
        }
        let above = match &planned.origin {
            SessionOrigin::New { parent } => parent.as_ref(),
            SessionOrigin::Fork { of, .. } => Some(of),
        };
        let is_erased = above.is_some_and(|above| self.erased_sessions.contains(above));
        let made = if is_erased { Ok(None) } else { self.make(planned, ids).await };
        let erased = match made {
            Err(error) if error.reason() == Some(Reason::SessionErased) => true,
            Ok(None) => is_erased,
            Ok(session) => return Ok(session),
            Err(error) => return Err(error.into()),
        };
        anyhow::ensure!(erased, "the daemon made no session");
        note(&format!("{}: it was erased, and is left out; --again brings it back", planned.client_id));
        self.report.erased_sessions += 1;
        self.progress.add(planned.entries.len(), None);
        self.erased_sessions.insert(planned.client_id.clone());
        Ok(None)
    }

    async fn make(&mut self, planned: &PlannedSession, ids: &DaemonIds) -> Result<Option<pb::Session>, Error> {
        let (of, after) = match &planned.origin {
            SessionOrigin::New { parent } => return self.create(planned, parent.clone()).await,
            SessionOrigin::Fork { of, after } => (of, after),
        };
        // The fork starts at the revision that sealed the last shared entry: later edits and summaries of the agent do not
        // belong to the branch.
        let (session_id, message_id) = (of.clone(), daemon_id(ids, after));
        let request = pb::GetMessageRequest { session_id, message_id };
        let message = self.client.call(request).await?.message;
        let mut request = pb::ForkSessionRequest {
            session_id: of.clone(),
            point: message.and_then(|message| message.sealed_revision).map(Point::AsOfRevision),
            client_id: Some(planned.client_id.clone()),
            title: planned.title.clone(),
        };
        let mut forked = self.client.call(request.clone()).await;
        // The request of an erased fork makes no other one, and nothing but its title can tell this one from it.
        if let (Err(error), Some(time)) = (&forked, &self.again)
            && error.reason() == Some(Reason::SessionErased)
        {
            let suffix = format!(" ({time})");
            let most = limits::TITLE_BYTES_MAX - suffix.len();
            request.title.truncate(request.title.floor_char_boundary(most));
            request.title.push_str(&suffix);
            forked = self.client.call(request).await;
        }
        Ok(forked?.session)
    }

    async fn create(&mut self, planned: &PlannedSession, parent: Option<String>) -> Result<Option<pb::Session>, Error> {
        let window_now = self.combination.live || !plan::has_compactions(&planned.entries);
        let request = pb::CreateSessionRequest {
            client_id: Some(planned.client_id.clone()),
            title: planned.title.clone(),
            preset: self.policy.preset(),
            policy_json: self.policy.policy_json.clone(),
            policy_override_json: String::new(),
            window: self.window(planned).filter(|_| window_now),
            metadata_json: Some(planned.metadata_json.clone()),
            parent_session_id: parent,
            keep_erased: self.again.is_none(),
        };
        Ok(self.client.call(request).await?.session)
    }

    /// The window of a session: the chosen one, or that of the model that wrote its newest reply; none if neither is
    /// there.
    fn window(&self, planned: &PlannedSession) -> Option<pb::ModelWindow> {
        let window = pb::ModelWindow {
            model: planned.model.clone(),
            max_context_tokens: self.combination.window,
            max_output_tokens: self.combination.output,
            ..pb::ModelWindow::default()
        };
        (window != pb::ModelWindow::default()).then_some(window)
    }

    /// Says once of each model that no limits of it are known.
    fn note_model(&mut self, model: String, session: &pb::Session) {
        let window = session.window.clone().unwrap_or_default();
        if window.model == model && self.models.insert(model) {
            failure::note_unknown_model(&window);
        }
    }

    async fn ensure_window(
        &mut self,
        session: pb::Session,
        window: Option<pb::ModelWindow>,
    ) -> Result<pb::Session, Error> {
        let Some(wanted) = &window else { return Ok(session) };
        let is_set = session.window.as_ref().is_some_and(|window| {
            let is_same = wanted.max_context_tokens == 0
                || (wanted.max_context_tokens, wanted.max_output_tokens)
                    == (window.max_context_tokens, window.max_output_tokens);
            wanted.model == window.model && is_same
        });
        if is_set {
            return Ok(session);
        }
        let session_id = session.session_id;
        let request = pb::UpdateSessionRequest { session_id, window, ..pb::UpdateSessionRequest::default() };
        Ok(self.client.call(request).await?.session.unwrap_or_default())
    }

    async fn play_steps(
        &mut self,
        session: pb::Session,
        steps: Vec<ImportStep>,
        window: Option<pb::ModelWindow>,
        ids: &mut DaemonIds,
    ) -> anyhow::Result<pb::Session> {
        let mut session = session;
        for step in steps {
            match step {
                ImportStep::Append(messages) => self.append(&session.session_id, messages, ids).await?,
                // What a summary covers follows from what stands before it: behind its record it would be another one.
                ImportStep::Supply(supply) if self.is_there(&session.session_id, &supply.client_id).await? => {}
                ImportStep::Supply(supply) => self.supply(&session.session_id, supply, ids).await?,
                ImportStep::Edit(edit) if self.is_there(&session.session_id, &edit.client_id).await? => {}
                ImportStep::Edit(edit) => self.edit(&session.session_id, edit, ids).await?,
                ImportStep::SetWindow => session = self.ensure_window(session, window.clone()).await?,
            }
        }
        Ok(session)
    }

    /// Appends messages; those that exist already are not written again. A message that the daemon can never accept,
    /// such as a call of a tool whose name is too long, is kept as a record, so that the messages after it are written
    /// too.
    pub(super) async fn append(
        &mut self,
        session_id: &str,
        messages: Vec<pb::NewMessage>,
        ids: &mut DaemonIds,
    ) -> anyhow::Result<()> {
        let mut waiting = vec![messages];
        while let Some(mut messages) = waiting.pop() {
            let Err(error) = self.append_all(session_id, messages.clone(), ids).await else { continue };
            if !matches!(failure::reason(&error), Some(Reason::InvalidField | Reason::LimitExceeded)) {
                return Err(error);
            }
            if messages.len() > 1 {
                let second = messages.split_off(messages.len() / 2);
                waiting.push(second);
                waiting.push(messages);
                continue;
            }
            let records = messages.pop().map(as_records).transpose()?.unwrap_or_default();
            if records.is_empty() {
                return Err(error);
            }
            note(&format!("kept as a record: {}", failure::line(&error)));
            waiting.extend(records.into_iter().rev().map(|record| vec![record]));
        }
        Ok(())
    }

    async fn append_all(
        &mut self,
        session_id: &str,
        messages: Vec<pb::NewMessage>,
        ids: &mut DaemonIds,
    ) -> anyhow::Result<()> {
        let own: Vec<String> = messages.iter().map(|message| message.client_id.clone().unwrap_or_default()).collect();
        let request = pb::AppendMessagesRequest {
            session_id: session_id.to_owned(),
            messages,
            keep_erased: self.again.is_none(),
            ..Default::default()
        };
        let response = self.client.call(request).await.with_context(|| range(&own))?;
        failure::note_secrets(&response.secret_findings);
        self.report.existed += i64::from(response.existed_count);
        self.report.written += own.len() as i64 - i64::from(response.existed_count);
        self.progress.add(own.len(), response.context_usage.as_ref());
        self.report.erased += response.erased_message_ids.len() as i64;
        let erased: HashSet<String> = response.erased_message_ids.into_iter().collect();
        let named = own.into_iter().zip(response.message_ids);
        for (own, id) in named {
            if erased.contains(&id) {
                self.erased.insert(own.clone());
            }
            ids.insert(own, id);
        }
        Ok(())
    }

    /// True if an entry exists already.
    async fn is_there(&mut self, session_id: &str, client_id: &str) -> anyhow::Result<bool> {
        let (session_id, message_id) = (session_id.to_owned(), client_id.to_owned());
        match self.client.call(pb::GetMessageRequest { session_id, message_id }).await {
            Ok(_) => Ok(true),
            Err(error) if error.reason() == Some(Reason::MessageNotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Applies an edit of the agent, without what was erased of it. An edit that does not match the history is reported,
    /// and kept as a record only.
    pub(super) async fn edit(&mut self, session_id: &str, edit: Edit, ids: &DaemonIds) -> anyhow::Result<()> {
        // A message is erased with its edits.
        if self.again.is_none() && self.erased.contains(&edit.target) {
            return Ok(());
        }
        let request = pb::EditMessageRequest {
            session_id: session_id.to_owned(),
            message_id: daemon_id(ids, &edit.target),
            remove: edit.parts.is_empty(),
            parts: edit.parts,
            expected_revision: None,
            request_id: request_id(&edit.client_id),
            metadata_json: None,
            keep_erased: self.again.is_none(),
        };
        let refused = match self.client.call(request).await {
            Ok(edited) => {
                self.report.erased += i64::from(edited.erased);
                return Ok(());
            }
            Err(refused) => refused,
        };
        match refused.reason() {
            Some(Reason::BoundaryInvalid | Reason::MessageNotFound | Reason::LimitExceeded | Reason::InvalidField) => {
                let why = failure::sentence(&refused);
                note(&format!("line {}: the agent's edit is kept as a record only: {why}", edit.line));
                Ok(())
            }
            Some(_) | None => Err(refused).with_context(|| format!("line {}", edit.line)),
        }
    }

    /// Applies a summary of the agent. A summary that does not match the history is reported, and kept as a record
    /// only.
    async fn supply(&mut self, session_id: &str, supply: Supply, ids: &DaemonIds) -> anyhow::Result<()> {
        // A message is erased with the summaries of it. Those of the tail are not counted apart: what the summary says of
        // them is not known.
        if self.again.is_none() && !self.erased.is_empty() {
            note(&format!("line {}: the agent's summary is left out: content before it was erased", supply.line));
            return Ok(());
        }
        let request = pb::SupplySummaryRequest {
            session_id: session_id.to_owned(),
            text: supply.text,
            tail_start_message_id: supply.tail_start.map(|id| daemon_id(ids, &id)).unwrap_or_default(),
            until_message_id: daemon_id(ids, &supply.until),
            summarizer: "imported".to_owned(),
            request_id: request_id(&supply.client_id),
            keep_erased: self.again.is_none(),
            include_open_calls: true,
            ..pb::SupplySummaryRequest::default()
        };
        let Err(refused) = self.client.call(request).await else { return Ok(()) };
        match refused.reason() {
            Some(
                Reason::NothingToCompact
                | Reason::BoundaryInvalid
                | Reason::MessageNotFound
                | Reason::LimitExceeded
                | Reason::InvalidField
                | Reason::ContentErased,
            ) => {
                let why = failure::sentence(&refused);
                note(&format!("line {}: the agent's summary is kept as a record only: {why}", supply.line));
                Ok(())
            }
            Some(_) | None => Err(refused).with_context(|| format!("line {}", supply.line)),
        }
    }

    async fn wait_for_compactions(&mut self, session_id: &str) -> anyhow::Result<()> {
        for _ in 0..TRIES_MAX {
            if !compactions::list_all(&self.client, session_id).await?.iter().any(is_active) {
                return Ok(());
            }
            tokio::time::sleep(RETRY_WAIT).await;
        }
        anyhow::bail!("a compaction of {session_id} does not end")
    }

    async fn close(&mut self, session: pb::Session) -> anyhow::Result<()> {
        let compactions = compactions::list_all(&self.client, &session.session_id).await?;
        self.report.session(&session, &compactions);
        Ok(())
    }
}

/// Records in place of a message or a record that the daemon can never accept. Its JSON may exceed the maximum size of
/// a record and is split into pieces. Empty for a message that is such a record already.
fn as_records(message: pb::NewMessage) -> anyhow::Result<Vec<pb::NewMessage>> {
    let is_refused =
        |part: &pb::Part| matches!(&part.body, Some(pb::part::Body::Record(record)) if record.kind == REFUSED_RECORD);
    if message.parts.iter().any(is_refused) {
        return Ok(Vec::new());
    }
    let text = json::encode(&message)?;
    let mut rest = text.as_str();
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(limits::MESSAGE_BYTES_MAX / 2));
        rest = more;
        let number = records.len() + 1;
        let client_id = message.client_id.as_ref();
        let client_id =
            client_id.map(|id| if number == 1 { id.clone() } else { format!("{id}:{REFUSED_RECORD}:{number}") });
        let record = pb::RecordPart { kind: REFUSED_RECORD.to_owned(), data: piece.to_owned() };
        records.push(pb::NewMessage {
            client_id,
            role: pb::Role::System.into(),
            kind: pb::MessageKind::Record.into(),
            parts: vec![pb::Part { body: Some(pb::part::Body::Record(record)), ..pb::Part::default() }],
            finish: Some(pb::Finish::default()),
            ..pb::NewMessage::default()
        });
    }
    Ok(records)
}

/// The daemon's id of an entry. An unknown entry keeps its client id, for the daemon to resolve or refuse.
fn daemon_id(ids: &DaemonIds, own: &str) -> String {
    ids.get(own).cloned().unwrap_or_else(|| own.to_owned())
}

/// Request id of an agent's summary or edit: the same in every import, so that a repeated import applies it once.
fn request_id(client_id: &str) -> String {
    blake3::hash(format!("import:{client_id}").as_bytes()).to_hex().to_string()
}

/// Description of a failed request's messages.
fn range(ids: &[String]) -> String {
    match ids {
        [first, .., last] => format!("entries {first} to {last}"),
        [only] => format!("entry {only}"),
        [] => "no entry".to_owned(),
    }
}

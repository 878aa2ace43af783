//! Live import: writes a transcript as an agent would, one message at a time, and requests a view before each reply.

use super::plan::ImportTurn;
use super::play::{DaemonIds, Player};
use crate::cli::output::hex;
use crate::cli::pairing;
use crate::pb;
use anyhow::Context;
use longhand_client::View;
use serde::Serialize;
use std::io::Write;

/// Timeout of a view request that waits for a pending compaction, in seconds: longer than any preset waits for
/// confirmation.
const WAIT_SECONDS: i64 = 90;
/// Messages requested per page when existing entries are listed.
const PAGE_SIZE: i32 = 1000;

/// The view that a reply was given, as a line of the views file.
#[derive(Debug, Serialize)]
struct ViewLine<'a> {
    session_id: &'a str,
    message_client_id: &'a str,
    revision: i64,
    view_hash: String,
    context_tokens: i64,
    fits: bool,
    messages: usize,
}

impl Player {
    /// Writes messages one by one; those that exist already are skipped.
    pub(super) async fn play_live(
        &mut self,
        session: &pb::Session,
        turns: Vec<ImportTurn>,
        ids: &mut DaemonIds,
    ) -> anyhow::Result<()> {
        let there = self.known_entries(&session.session_id).await?;
        let mut view = View::default();
        for ImportTurn { edit, message } in turns {
            let own = message.client_id.clone().unwrap_or_default();
            if let Some(id) = there.get(&own) {
                self.report.erased += i64::from(self.erased.contains(&own));
                ids.insert(own, id.clone());
                self.report.existed += 1;
                self.progress.add(1, None);
                continue;
            }
            if let Some(edit) = edit {
                self.edit(&session.session_id, edit, ids).await?;
            }
            let is_reply = message.role() == pb::Role::Assistant && message.kind() == pb::MessageKind::Normal;
            if is_reply {
                view = self.ask(&session.session_id, view).await?;
            }
            self.append(&session.session_id, vec![message], ids).await?;
            if is_reply {
                self.note_view(&session.session_id, &own, &view)?;
            }
            if !self.pace.is_zero() {
                tokio::time::sleep(self.pace).await;
            }
        }
        Ok(())
    }

    /// Ids of the entries that an earlier, interrupted import wrote.
    async fn known_entries(&mut self, session_id: &str) -> anyhow::Result<DaemonIds> {
        let request = pb::ListMessagesRequest {
            session_id: session_id.to_owned(),
            page_size: PAGE_SIZE,
            ..pb::ListMessagesRequest::default()
        };
        let mut entries = DaemonIds::new();
        let mut pages = self.client.pages(request);
        while let Some(page) = pages.next().await? {
            // Messages that a fork inherited belong to another session; this import does not write them.
            let own = page.messages.into_iter().filter(|message| message.session_id == session_id);
            for message in own {
                let Some(client_id) = message.client_id else { continue };
                if message.parts.iter().any(|part| part.erased) {
                    self.erased.insert(client_id.clone());
                }
                entries.insert(client_id, message.message_id);
            }
        }
        Ok(entries)
    }

    /// Requests the view as an agent does before a reply. If it does not fit, the request waits for the pending
    /// compaction.
    async fn ask(&mut self, session_id: &str, held: View) -> anyhow::Result<View> {
        let request = pb::GetViewRequest {
            session_id: session_id.to_owned(),
            overflow_action: pb::OverflowAction::Wait.into(),
            wait_timeout: Some(prost_types::Duration { seconds: WAIT_SECONDS, nanos: 0 }),
            ..pb::GetViewRequest::default()
        };
        let (began, held_count) = (self.clock.now(), held.messages.len());
        let view = self.client.refresh_view(request, &held).await.context("the view was refused")?;
        let micros = self.clock.now().0 - began.0;
        let faults = pairing::faults(&view.messages);
        self.report.views.add(view.header.fits, faults.len(), micros);
        let kept_count = usize::try_from(view.header.known_message_count)?;
        self.report.views.changed_prefixes += usize::from(kept_count < held_count);
        self.report.views.excepted += usize::from(view.header.over_window.as_ref().is_some_and(is_excepted));
        Ok(view)
    }

    fn note_view(&mut self, session_id: &str, own: &str, view: &View) -> anyhow::Result<()> {
        let Some(file) = &mut self.views else { return Ok(()) };
        let served = ViewLine {
            session_id,
            message_client_id: own,
            revision: view.header.revision,
            view_hash: hex(&view.header.view_hash),
            context_tokens: view.header.context_tokens,
            fits: view.header.fits,
            messages: view.messages.len(),
        };
        writeln!(file, "{}", serde_json::to_string(&served)?).context("cannot write the view")
    }
}

/// True for a reason that no compaction of a daemon could remove.
fn is_excepted(over_window: &pb::OverWindow) -> bool {
    use pb::OverWindowReason as Reason;
    matches!(over_window.reason(), Reason::AutomaticOff | Reason::FixedContent | Reason::UndoHold)
}

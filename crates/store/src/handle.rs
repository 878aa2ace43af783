//! An open store, and its handles: one for each kind of caller.

use super::access::AccessTokens;
use super::archive::Archives;
use super::compactions::Compactions;
use super::engine::{Durability, files};
use super::erasures::Erasures;
use super::error::Result;
use super::history::History;
use super::index::Index;
use super::jobs::Jobs;
use super::ledger::secrets::Secrets;
use super::log::Log;
use super::runs::Runs;
use super::search::Search;
use super::sessions::Sessions;
use super::shared::StoreParts;
use super::upkeep::Upkeep;
use super::views::Views;
use super::write_state::WriteState;
use super::writer::WriterShutdown;
use crate::secrets::Rules;
use std::sync::Arc;
use uuid::Uuid;

/// The store: cheap to clone, and shared by all readers and writers.
#[derive(Clone)]
pub struct Store {
    handles: Arc<Handles>,
}

/// One handle for each kind of caller.
struct Handles {
    shared: Arc<StoreParts>,
    sessions: Sessions,
    history: History,
    views: Views,
    log: Log,
    compactions: Compactions,
    runs: Runs,
    jobs: Jobs,
    index: Index,
    search: Search,
    upkeep: Upkeep,
    access_tokens: AccessTokens,
    archives: Archives,
    erasures: Erasures,
}

impl Store {
    /// The store with these parts.
    pub(super) fn new(shared: StoreParts) -> Self {
        let shared = Arc::new(shared);
        let handles = Handles {
            sessions: Sessions(Arc::clone(&shared)),
            history: History(Arc::clone(&shared)),
            views: Views(Arc::clone(&shared)),
            log: Log(Arc::clone(&shared)),
            compactions: Compactions(Arc::clone(&shared)),
            runs: Runs(Arc::clone(&shared)),
            jobs: Jobs(Arc::clone(&shared)),
            index: Index(Arc::clone(&shared)),
            search: Search(Arc::clone(&shared)),
            upkeep: Upkeep(Arc::clone(&shared)),
            access_tokens: AccessTokens(Arc::clone(&shared)),
            archives: Archives(Arc::clone(&shared)),
            erasures: Erasures(Arc::clone(&shared)),
            shared,
        };
        Self { handles: Arc::new(handles) }
    }

    /// The store's id; cursors name it.
    pub fn id(&self) -> Uuid {
        self.handles.shared.identity.id
    }

    /// True if the store is a restored backup of the store with this id.
    pub fn was_restored_from(&self, id: Uuid) -> bool {
        self.handles.shared.identity.earlier.contains(&id)
    }

    /// The secret key of the store's view tokens; no answer contains it.
    pub fn view_key(&self) -> &[u8; 32] {
        &self.handles.shared.identity.view_key
    }

    /// The secret key of the store's page tokens.
    pub fn page_key(&self) -> &[u8; 32] {
        &self.handles.shared.identity.page_key
    }

    /// The rules for secrets, and the keys for what they find.
    pub fn secrets(&self) -> &Secrets {
        &self.handles.shared.secrets
    }

    /// Applies rules for secrets from now on; called before anything is written. Makes the key for drafts, a file beside
    /// the store, if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be made, or is not one that only its owner can read.
    pub fn apply_secret_rules(&self, rules: impl Into<Arc<Rules>>) -> Result<()> {
        let shared = &self.handles.shared;
        shared.secrets.set_draft_key(&files::make_draft_key(&shared.keys)?);
        shared.secrets.apply(rules.into());
        Ok(())
    }

    /// The kind of crash that an acknowledged write survives.
    pub fn durability(&self) -> Durability {
        self.handles.shared.engine.durability()
    }

    /// True for a store that another daemon can take; files are this one's until it ends.
    pub fn is_leased(&self) -> bool {
        self.handles.shared.engine.is_leased()
    }

    /// An error if another daemon may own the store by now: nothing that was read of it since may be served.
    pub fn check_owned(&self) -> Result<()> {
        self.handles.shared.engine.check_owned()
    }

    /// The state of writes, with the reason if none are taken.
    pub fn write_state(&self) -> WriteState {
        self.handles.shared.health.writes()
    }

    /// Waits until writes are stopped for the rest of the process, and returns the reason.
    pub async fn stopped(&self) -> WriteState {
        let mut writes = self.handles.shared.health.watch();
        let state = writes.wait_for(|state| state.is_final()).await.map(|state| *state);
        // The store itself holds the sender, so there always is an answer.
        state.unwrap_or_default()
    }

    /// Drops this clone of the store, and closes the readers of all clones. The writer ends when all clones are gone, or is
    /// ended.
    pub fn close(self) -> WriterShutdown {
        self.handles.shared.readers.close();
        self.handles.shared.search.close();
        self.handles.shared.writer.ending()
    }

    /// Sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.handles.sessions
    }

    /// Messages and the marks of clients on them.
    pub fn history(&self) -> &History {
        &self.handles.history
    }

    /// The rows that views are made of.
    pub fn views(&self) -> &Views {
        &self.handles.views
    }

    /// The log of events.
    pub fn log(&self) -> &Log {
        &self.handles.log
    }

    /// Compactions, as clients see them.
    pub fn compactions(&self) -> &Compactions {
        &self.handles.compactions
    }

    /// Runs, prompts and approvals.
    pub fn runs(&self) -> &Runs {
        &self.handles.runs
    }

    /// Jobs, as the scheduler sees them.
    pub fn jobs(&self) -> &Jobs {
        &self.handles.jobs
    }

    /// The index of hidden words.
    pub fn index(&self) -> &Index {
        &self.handles.index
    }

    /// The full-text search over all history.
    pub fn search(&self) -> &Search {
        &self.handles.search
    }

    /// Archives of sessions: written and read.
    pub fn archives(&self) -> &Archives {
        &self.handles.archives
    }

    /// Access tokens.
    pub fn access_tokens(&self) -> &AccessTokens {
        &self.handles.access_tokens
    }

    /// Erasures.
    pub fn erasures(&self) -> &Erasures {
        &self.handles.erasures
    }

    /// Checks, backups and figures.
    pub fn upkeep(&self) -> &Upkeep {
        &self.handles.upkeep
    }
}

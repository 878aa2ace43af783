//! The store of sessions: it records and reads, and decides nothing.
//!
//! `ledger` has the rows that a change adds and what is read from them; `integrity` has the checks, copies and rescues. The
//! files here put them together: the writer, and one handle for each kind of caller. `longhand_engine` is beneath. Start
//! at `migrations/`, then `writer`, then `ledger::messages`.

use longhand_engine::{self as engine, error, write_state};
use longhand_model as model;
use longhand_runtime::{background, clock, limits, telemetry, turns};
use longhand_secrets as secrets;

mod access;
mod archive;
mod checked;
mod compactions;
mod erasure;
mod erasures;
mod handle;
mod history;
mod index;
mod integrity;
mod jobs;
mod ledger;
mod log;
mod mailbox;
mod migrate;
mod open;
mod pace;
#[cfg(test)]
#[path = "../tests/unit/portable.rs"]
mod portable;
mod registry;
mod restore;
mod runs;
mod search;
mod sessions;
mod shared;
#[cfg(test)]
pub(crate) mod tests;
mod upkeep;
mod views;
mod writer;

pub use access::AccessTokens;
pub use archive::{Archive, ArchiveImport, ArchivePlan, ArchiveWriter, Archives};
pub use checked::{CheckedInput, Findings, RefusedSecret, ScreenResult, SecretFinding, SecretScreen};
pub use compactions::Compactions;
pub use engine::Durability;
pub use engine::database::LeasedPlace;
pub use engine::figures::{COMMIT_BOUNDS_MICROS, CommitDurations, Figures};
pub use engine::files::paths;
pub use engine::health::Checkpoints;
pub use engine::write_state::WriteState;
pub use erasure::apply::Erasure;
pub use erasure::candidates::{RetentionCandidate, SubAgent};
pub use erasure::plan::EraseTarget;
pub use erasure::rows::Sizes as ErasedSizes;
pub use erasures::{Erasures, PendingErasures};
pub use error::{Error, Kind, Result};
pub use handle::Store;
pub use history::History;
pub use index::Index;
pub use integrity::copies::{CheckedCopy, CopyProgress, OnProgress};
pub use integrity::doctor::{Diagnosis, DoctorTotals, ExaminationMode, examine};
pub use integrity::export::{ExportItem, Gap, NamedRow, export};
#[doc(hidden)]
pub use integrity::log_check::Finding;
pub use integrity::reread::{DiskForm, reread};
pub use integrity::scrub_state::ScrubState;
pub use integrity::verify::CheckedChains;
pub use jobs::{EvaluationRequest, Jobs};
pub use ledger::access_tokens::StoredToken;
pub use ledger::append::{AppendInput, Seal};
pub use ledger::approvals::bytes as approval_bytes;
pub use ledger::claims::{Claim, PlannedRange};
pub use ledger::commits::{CommitObserver, Newest, SessionChange, SessionCommit};
pub use ledger::compactions::{Commit, CommitOutcome, SuppliedSummary};
pub use ledger::counts::MessageCounts;
pub use ledger::digests::pack_digest;
pub use ledger::draft_batch::DraftsWritten;
pub use ledger::drafts::{DraftReceipt, NewDraftText};
pub use ledger::events::{EventFilter, EventPage, PagedEvent, ScannedTo};
pub use ledger::head::{PendingWork, Receipt, SessionKey};
pub use ledger::jobs::{AttemptEnd, Condition, EnqueuedJob, Evaluation, GuardRows, WindowUsage};
pub use ledger::labels::LabelChange;
pub use ledger::message_sizes::{body_bytes, message_bytes};
pub use ledger::messages::{Order, PageOf, VIEW_BYTES};
pub use ledger::open_drafts::{DraftEnd, DraftName, OpenPart};
pub use ledger::policies::PolicyText;
pub use ledger::position::MessagePosition;
pub use ledger::prompts::{QueueChange, bytes as prompt_bytes};
pub use ledger::quotas::{ContentQuota, ContentUse};
pub use ledger::replace::{AppendChanges, NewEnd};
pub use ledger::rewrites::{BranchSummary, NewEdit};
pub use ledger::search::{Lookup, UnindexedMessages};
pub use ledger::secrets::Secrets;
pub use ledger::session_filter::{MetadataTerm, SessionFilter, TimeRange};
pub use ledger::session_list::{ListPosition, ListedSession, SessionList, SessionOrder, SessionPage};
pub use ledger::sessions::{
    CreateSession, ForkAt, ForkSession, LogSnapshot, NewClientId, SessionSnapshot, UpdateSession,
};
pub use ledger::shared_event::SharedEvent;
pub use ledger::sources::{NewMessages, Source};
pub use ledger::spending::SummarizerSpending;
pub use ledger::statistics::{CompactionCounter, Statistics};
pub use ledger::submit::NewPrompt;
pub use ledger::tx::{RequestKey, Requester};
pub use ledger::visibility::{Visibility, names_project};
pub use ledger::words::SessionWords;
pub use log::Log;
pub use migrate::{MigratedStore, MigrationProgress, StorePlace, migrate};
pub use open::{Options, ShardPlace, claim_directory, remove_search_index};
pub use registry::access_tokens_of;
pub use restore::{RestoredStore, restore};
pub use runs::Runs;
pub use search::{Hit, HitQuery, Indexer, Page, Search};
pub use sessions::Sessions;
pub use upkeep::{ScrubOptions, Upkeep};
pub use views::Views;
pub use writer::WriterShutdown;

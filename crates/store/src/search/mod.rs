//! Full-text search over the whole history: the index, what it is filled with, and what it finds.
//!
//! The index is a database of its own beside the store, which only follows from the log: appends never wait for it, a
//! backup does not have it, and it is made anew wherever it does not fit the store. `file`, `lists` and `find` have its SQL
//! and are all that another engine would have in its own way; `source` reads from the log what is to be indexed, `hits` the
//! messages of what was found. What a word is, is decided elsewhere.

mod file;
mod find;
mod forgotten;
mod handle;
pub(super) mod hits;
mod indexer;
mod lists;
pub(super) mod source;
pub(super) mod state;
mod wanted;

pub use handle::Search;
pub use hits::{Hit, HitOf};
pub use indexer::Indexer;
pub use source::{EntryKind, Page, Unindexed};
pub use wanted::{Census, Entry, Found, OwnRange, Phrase, Ranked, Wanted, phrases};

//! The search index of a store: what it is filled with, and the messages of what it finds.
//!
//! The index is a database of its own beside the store, which only follows from the log: appends never wait for it, a
//! backup does not have it, and it is made anew wherever it does not fit the store. It is another crate's; `source` reads
//! from the log what is to be indexed, `indexer` fills it, and `hits` are the messages of what was found.

mod handle;
pub(super) mod hits;
mod indexer;
pub(super) mod source;
pub(super) mod state;

pub use handle::Search;
pub use hits::{Hit, HitQuery};
pub use indexer::{Indexer, Page};

//! The engine: SQLite. Connections and statements, files, the pool of readers, checkpoints and the state of the disk.
//!
//! The rooms above it see connections, statements, rows and readers, and no engine's types.

pub(crate) mod checkpoint;
pub(crate) mod connect;
pub(crate) mod figures;
pub(crate) mod files;
pub(crate) mod health;
mod insert;
mod reader;
pub(crate) mod shrink;
pub(crate) mod readers;
mod sqlite;

pub use connect::Durability;
pub(crate) use insert::{Insert, values};
pub(crate) use reader::Reader;
pub(crate) use sqlite::{Cell, Connection, IntoValue, List, Query, Row, add_lists, below, query, scalar};

//! The engine: SQLite. Connections and statements, files, the pool of readers, checkpoints and the state of the disk.
//!
//! The rooms above it see connections, statements, rows and readers, and no engine's types.

pub(crate) mod checkpoint;
pub(crate) mod connect;
mod connection;
pub(crate) mod copy;
pub(crate) mod figures;
pub(crate) mod files;
pub(crate) mod gaps;
pub(crate) mod health;
pub(crate) mod home;
mod insert;
pub(crate) mod pack;
pub(crate) mod postgres;
mod reader;
pub(crate) mod shrink;
pub(crate) mod readers;
mod sqlite;
mod statement;
mod value;
pub(crate) mod words;

pub use connect::Durability;
pub(crate) use connection::Connection;
pub(crate) use insert::{Insert, run_for_each, values};
pub(crate) use reader::Reader;
pub(crate) use statement::{Query, below, query, scalar};
pub(crate) use value::{Cell, IntoValue, List, Parameter, Row};

//! The database engines under the store, SQLite and PostgreSQL: connections and statements, files, the pool of readers,
//! checkpoints, and the state of the disk.
//!
//! What is above it sees connections, statements, rows and readers, and no type of an engine.

use longhand_model as model;
use longhand_runtime::{clock, limits, telemetry, turns};

pub mod checkpoint;
pub mod connect;
mod connection;
pub mod copy;
pub mod figures;
pub mod files;
pub mod gaps;
pub mod health;
pub mod home;
pub mod error;
mod insert;
pub mod pack;
pub mod postgres;
mod reader;
pub mod shrink;
pub mod readers;
mod sqlite;
mod statement;
mod value;
pub mod words;
pub mod write_state;

pub use connect::Durability;
pub use connection::Connection;
pub use insert::{Insert, run_for_each};
pub use reader::Reader;
pub use statement::{Query, below, query, scalar};
pub use value::{Cell, IntoValue, List, Parameter, Row};

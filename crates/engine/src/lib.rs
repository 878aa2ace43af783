//! What is between the store and its databases: connections and statements, the pool of readers, and what an engine does
//! beside statements (`database`). SQLite is here, with its files, its checkpoints and what is erased from its pages; an
//! engine with a server is a crate above, which implements `server` and `database`.
//!
//! What is above it sees connections, statements, rows and readers, and no type of an engine.

use longhand_model as model;
use longhand_runtime::{clock, limits, telemetry, turns};

pub mod checkpoint;
pub mod connect;
mod connection;
pub mod copy;
pub mod database;
pub mod error;
pub mod figures;
pub mod file_store;
pub mod files;
pub mod gaps;
pub mod health;
mod insert;
pub mod pack;
mod reader;
pub mod readers;
pub mod server;
mod shrink;
mod sqlite;
mod statement;
pub mod value;
pub mod words;
pub mod write_state;

pub use connect::Durability;
pub use connection::Connection;
pub use insert::{Insert, run_for_each};
pub use reader::Reader;
pub use statement::{Query, below, query, scalar};
pub use value::{Cell, IntoValue, List, Parameter, Row};

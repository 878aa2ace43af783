//! Where a shard is: a database, and a schema in it.

use super::client::Client;
use super::lease::{AcknowledgedState, Trust};
use crate::error::{Error, Result};
use sqlx::postgres::PgConnectOptions;
use std::str::FromStr as _;
use std::sync::Arc;

/// Bytes of the longest name of a shard.
const NAME_BYTES_MAX: usize = 32;

/// Settings of all connections. A plan made for empty tables would keep reading them whole when they have grown, so
/// sequential scans are off: every read of the ledger has an index, which a test proves. A scan that remains then has a
/// cost so high that the server would compile it, and compiling takes longer than running.
const SETTINGS: [(&str, &str); 7] = [
    ("client_min_messages", "warning"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("standard_conforming_strings", "on"),
];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The only one that writes.
    Writer,
    /// It only reads. A transaction reads one snapshot.
    Reader,
}

/// A shard.
#[derive(Debug, Clone)]
pub struct Shard {
    options: PgConnectOptions,
    name: String,
    /// What this process acknowledged during an earlier ownership.
    acknowledged: Arc<AcknowledgedState>,
}

impl Shard {
    /// A shard of a database. The address is that of libpq (`postgres://user@host:port/database?sslmode=…`); what it leaves
    /// out comes from the variables `PG…` and the password file. The name is of lower-case letters, digits and `_`.
    ///
    /// # Errors
    ///
    /// `Error::Open` for an address or a name that is none.
    pub fn new(url: &str, name: &str) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            return Err(Error::Open(format!(
                "{name:?} is no name of a shard: 1 to {NAME_BYTES_MAX} lower-case letters, digits and _"
            )));
        }
        // The error of the parser may have the password.
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| Error::Open("the address of the database is not a valid postgres:// URL".to_owned()))?;
        Ok(Self { options: options.application_name("longhand"), name: name.to_owned(), acknowledged: Arc::default() })
    }

    /// The shard, of which this process acknowledged this before.
    #[must_use]
    pub fn with_acknowledged(self, acknowledged: Arc<AcknowledgedState>) -> Self {
        Self { acknowledged, ..self }
    }

    pub(super) fn acknowledged(&self) -> Arc<AcknowledgedState> {
        Arc::clone(&self.acknowledged)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema with its tables.
    pub fn schema(&self) -> String {
        format!("lh_{}", self.name)
    }

    /// The schema that keeps a store after its migration elsewhere. No name of a shard leads to it.
    pub fn aside(name: &str) -> String {
        format!("migrated_lh_{name}")
    }

    fn options(&self, role: Role) -> PgConnectOptions {
        let options = self.options.clone().options(SETTINGS).options([("search_path", self.schema())]);
        match role {
            Role::Writer => options,
            Role::Reader => options
                .options([("default_transaction_read_only", "on")])
                .options([("default_transaction_isolation", "repeatable read")]),
        }
    }

    /// Connects a thread that has no runtime of its own.
    pub fn connect_alone(&self, role: Role, trust: Option<Arc<Trust>>) -> Result<Client> {
        Client::connect_alone(&self.options(role), trust)
    }

    /// Connects what renews the lease, in a thread that has no runtime of its own.
    pub(super) fn connect_keeper(&self) -> Result<Client> {
        Client::connect_alone(&self.options(Role::Writer), None)
    }

    /// Connects a thread that may have a runtime.
    pub fn connect_shared(&self, role: Role, trust: Option<Arc<Trust>>) -> Result<Client> {
        Client::connect_shared(&self.options(role), trust)
    }
}

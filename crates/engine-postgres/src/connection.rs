//! A client as a connection of the engine.

use super::client::Client;
use super::schema;
use crate::error::Result;
use longhand_engine::connect::MIGRATIONS;
use longhand_engine::server::ServerConnection;
use longhand_engine::{Parameter, Row};

const HAS_TABLE: &str = "select to_regclass(?1) is not null";
const VERSION: &str = "select 'PostgreSQL ' || current_setting('server_version')";
const USED_BYTES: &str = "select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class \
     where relnamespace = current_schema()::regnamespace and relkind = 'r'";
/// A copy that replaces a store must be on disk, whatever durability the daemon is configured for.
const DURABLE: &str = "select set_config('synchronous_commit', 'on', false) \
     where current_setting('synchronous_commit') = 'off'";

impl Client {
    /// Runs several statements in a transaction of their own.
    fn transact(&self, statements: &str) -> Result<()> {
        self.begin()?;
        if let Err(error) = self.execute_batch(statements) {
            self.roll_back()?;
            return Err(error);
        }
        self.commit(None)
    }
}

impl ServerConnection for Client {
    fn for_each(&self, sql: &str, values: &[Parameter<'_>], each: &mut dyn FnMut(Row) -> bool) -> Result<()> {
        self.for_each(sql, values, each)
    }

    fn first(&self, sql: &str, values: &[Parameter<'_>], each: &mut dyn FnMut(Row) -> bool) -> Result<()> {
        self.first(sql, values, each)
    }

    fn changed(&self, sql: &str, values: &[Parameter<'_>]) -> Result<usize> {
        self.changed(sql, values)
    }

    fn execute_batch(&self, statements: &str) -> Result<()> {
        self.execute_batch(statements)
    }

    fn make_schema(&self, statements: &str) -> Result<()> {
        self.execute_batch(&schema::translate(statements))
    }

    fn insert(&self, into: &'static str, conflict: &'static str, rows: &[Vec<Parameter<'_>>]) -> Result<()> {
        self.insert(into, conflict, rows)
    }

    fn update(&self, sql: &'static str, rows: &[Vec<Parameter<'_>>]) -> Result<()> {
        self.update(sql, rows)
    }

    fn send_queued(&self) -> Result<()> {
        self.flush()
    }

    fn read_ahead(&self, sql: &'static str, keys: &[Vec<Parameter<'_>>]) -> Result<()> {
        self.read_ahead(sql, keys)
    }

    fn begin(&self) -> Result<()> {
        self.begin()
    }

    fn commit(&self) -> Result<()> {
        self.commit(None)
    }

    fn roll_back(&self) -> Result<()> {
        self.roll_back()
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn has_table(&self) -> &'static str {
        HAS_TABLE
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn used_bytes(&self) -> &'static str {
        USED_BYTES
    }

    /// Foreign keys are dropped and triggers disabled, until `end_copy` brings both back.
    fn begin_copy(&self) -> Result<()> {
        self.execute_batch(DURABLE)?;
        self.transact(schema::UNBIND)
    }

    fn end_copy(&self) -> Result<()> {
        self.transact(&schema::bind(MIGRATIONS.iter().map(|(_, statements)| *statements)))
    }

    fn round_trips(&self) -> u64 {
        self.round_trips()
    }

    /// The lease of an owner is given back before.
    fn close(self: Box<Self>) -> Result<()> {
        self.release()?;
        (*self).close()
    }
}

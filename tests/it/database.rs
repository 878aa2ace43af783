//! A tool of tests at the database of a store, beside the store's own code: it reads the rows as they are, and its writes
//! are tampering. Statements are those of SQLite; on PostgreSQL, what differs is rewritten or has a function of the tool's.

use crate::engines::{open_store, shard_of};
use longhand::clock::Clock;
use regex::Regex;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Column as _, ConnectOptions as _, Executor as _, Row as _, TypeInfo as _};
use std::path::Path;
use std::sync::{LazyLock, OnceLock};
use tokio::runtime::Runtime;

/// A connection of the tool.
pub(crate) enum Database {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Remote>),
}

/// What waits for PostgreSQL, in threads without a runtime: those of tests have one.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A connection to PostgreSQL.
pub(crate) struct Remote {
    conn: PgConnection,
    shard: String,
}

/// Functions that SQLite has, for the tool's statements.
const FUNCTIONS: &str = "create schema if not exists tool;
create or replace function tool.hex(bytes bytea) returns text language sql immutable as 'select upper(encode(bytes, ''hex''))';
create or replace function tool.zeroblob(length integer) returns bytea language sql immutable as 'select decode(repeat(''00'', length), ''hex'')';
create or replace function tool.randomblob(length integer) returns bytea language sql as 'select uuid_send(gen_random_uuid())';
create or replace function tool.length(number bigint) returns integer language sql immutable as 'select length(number::text)';";

/// A value of the first column.
pub(crate) trait Read: rusqlite::types::FromSql + Send {
    /// That of a row of PostgreSQL.
    fn read(row: &PgRow) -> Self;
}

impl Read for i64 {
    fn read(row: &PgRow) -> Self {
        match row.column(0).type_info().name() {
            "INT4" => i64::from(row.get::<i32, _>(0)),
            _ => row.get(0),
        }
    }
}

impl Read for String {
    fn read(row: &PgRow) -> Self {
        row.get(0)
    }
}

impl Read for Vec<u8> {
    fn read(row: &PgRow) -> Self {
        row.get(0)
    }
}

impl Remote {
    fn wait<T: Send>(
        &mut self,
        work: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T> + Send,
    ) -> sqlx::Result<T> {
        let conn = &mut self.conn;
        std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(work(conn))).join()).expect("no panic")
    }

    fn connect((url, shard): (String, String)) -> Self {
        static TOOLS: OnceLock<()> = OnceLock::new();
        let connect = async |url: &str, path: &str| -> sqlx::Result<PgConnection> {
            let options: sqlx::postgres::PgConnectOptions = url.parse()?;
            options.options([("search_path", path)]).connect().await
        };
        let make = || {
            let conn = RUNTIME.block_on(async {
                let mut conn = connect(&url, &format!("lh_{shard},tool")).await?;
                if TOOLS.get().is_none() {
                    // Two of them may come here at once.
                    let locked = format!("select pg_advisory_lock(1); {FUNCTIONS} select pg_advisory_unlock(1)");
                    conn.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(locked))).await?;
                    TOOLS.get_or_init(|| ());
                }
                Ok::<_, sqlx::Error>(conn)
            });
            conn.expect("connected")
        };
        let conn = std::thread::scope(|scope| scope.spawn(make).join()).expect("no panic");
        Self { conn, shard }
    }
}

/// A statement as PostgreSQL has it.
fn translated(sql: &str) -> String {
    static RULES: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let rules = [
            (r"\bx'([0-9a-fA-F]*)'", r"'\x$1'::bytea"),
            (r#""?\bwindow\b"?"#, r#""window""#),
            (r"\bbegin immediate\b", "begin"),
        ];
        rules.map(|(pattern, replacement)| (Regex::new(pattern).expect("a pattern"), replacement)).into()
    });
    rules.iter().fold(sql.to_owned(), |sql, (pattern, form)| pattern.replace_all(&sql, *form).into_owned())
}

impl Database {
    /// Connects to the database of a store, which lies in this folder if it is not in PostgreSQL.
    pub(crate) fn of(directory: &Path) -> Self {
        match shard_of(directory) {
            Some(shard) => Self::Postgres(Box::new(Remote::connect(shard))),
            None => Self::Sqlite(crate::support::connect(directory)),
        }
    }

    /// Runs statements.
    pub(crate) fn execute_batch(&mut self, sql: &str) -> Result<(), String> {
        match self {
            Self::Sqlite(database) => database.execute_batch(sql).map_err(|error| error.to_string()),
            Self::Postgres(remote) => {
                let sql = translated(sql);
                let done = remote.wait(async |conn| conn.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await);
                done.map(drop).map_err(|error| error.to_string())
            }
        }
    }

    /// Runs statements. Returns the number of rows that they changed.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<u64, String> {
        match self {
            Self::Sqlite(database) => {
                let before = database.total_changes();
                database.execute_batch(sql).map_err(|error| error.to_string())?;
                Ok(database.total_changes() - before)
            }
            Self::Postgres(remote) => {
                let sql = translated(sql);
                let done = remote.wait(async |conn| conn.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await);
                done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
            }
        }
    }

    /// The values of the first column of all rows.
    pub(crate) fn column<T: Read>(&mut self, sql: &str) -> Vec<T> {
        match self {
            Self::Sqlite(database) => {
                let mut statement = database.prepare(sql).expect(sql);
                let values = statement.query_map((), |row| row.get(0)).expect(sql);
                values.collect::<Result<_, _>>().expect(sql)
            }
            Self::Postgres(remote) => {
                let text = translated(sql);
                let rows = remote.wait(async |conn| conn.fetch_all(sqlx::raw_sql(sqlx::AssertSqlSafe(text))).await);
                rows.expect(sql).iter().map(T::read).collect()
            }
        }
    }

    /// The first value.
    pub(crate) fn value<T: Read>(&mut self, sql: &str) -> T {
        self.column(sql).into_iter().next().expect(sql)
    }

    /// The number that a query has. A sum is no integer on PostgreSQL.
    pub(crate) fn number(&mut self, sql: &str) -> i64 {
        match self {
            Self::Sqlite(_) => self.value(sql),
            Self::Postgres(_) => self.value(&format!("select ({sql})::bigint")),
        }
    }

    /// Has the writer of the store wait until `unlock`.
    pub(crate) fn lock_writes(&mut self) {
        let lock = match self {
            Self::Sqlite(_) => "begin immediate".to_owned(),
            Self::Postgres(remote) => {
                format!("begin; select 1 from lh.shard where name = '{}' for update", remote.shard)
            }
        };
        self.execute_batch(&lock).expect("the lock of writes");
    }

    /// Lets the writer go on.
    pub(crate) fn unlock(&mut self) {
        self.execute_batch("rollback").expect("unlocked");
    }

    /// Lets later statements change what the database protects.
    pub(crate) fn drop_protection(&mut self) {
        if let Self::Postgres(_) = self {
            return self.execute_batch("set session_replication_role = replica").expect("a superuser");
        }
        for trigger in self.column::<String>("select name from sqlite_master where type = 'trigger'") {
            self.execute_batch(&format!("drop trigger {trigger}")).expect("dropped");
        }
    }

    /// Has a shard open although its last event was removed or has another number.
    pub(crate) fn set_head(&mut self) {
        if let Self::Postgres(remote) = self {
            let name = remote.shard.clone();
            let head = format!(
                "update lh.shard set head_seq = (select coalesce(max(seq), 0) from event) where name = '{name}'"
            );
            self.execute_batch(&head).expect("set");
        }
    }

    /// All bytes and texts in the tables of a shard, by table; none on SQLite, whose files have them.
    pub(crate) fn contents(&mut self) -> Vec<(String, Vec<u8>)> {
        if let Self::Sqlite(_) = self {
            return Vec::new();
        }
        let columns = "select table_name || '.' || column_name from information_schema.columns \
             where table_schema = current_schema() and data_type in ('text', 'bytea')";
        let columns: Vec<String> = self.column(columns);
        let of = |column: String| {
            let (table, name) = column.split_once('.').expect("a table");
            let values = format!(
                "select case pg_typeof(\"{name}\")::text when 'text' then convert_to(\"{name}\"::text, 'UTF8') \
                 else \"{name}\"::text::bytea end from \"{table}\" where \"{name}\" is not null"
            );
            let bytes: Vec<Vec<u8>> = self.column(&values);
            (table.to_owned(), bytes.concat())
        };
        columns.into_iter().map(of).collect()
    }
}

/// The content of the files in a folder and of the tables of its shard, by name.
pub(crate) fn stored(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).expect("the folder").map(|entry| entry.expect("an entry").path());
    let files = entries.filter(|path| path.is_file()).map(|path| {
        (path.file_name().expect("a name").to_string_lossy().into_owned(), std::fs::read(&path).expect("a file"))
    });
    let mut stored: Vec<_> = files.collect();
    if shard_of(directory).is_some() {
        stored.extend(Database::of(directory).contents());
    }
    stored
}

/// Makes the store of one folder, which no daemon has open, what that of another one is.
pub(crate) async fn copy_store(from: &Path, to: &Path) {
    let (Some((_, from)), Some((_, shard))) = (shard_of(from), shard_of(to)) else {
        return crate::support::copy_database(from, to);
    };
    let (store, writer) = open_store(to, Clock::default()).await;
    drop(store);
    writer.await;
    let mut database = Database::of(to);
    database.drop_protection();
    let tables =
        "select relname::text from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace";
    let tables: Vec<String> = database.column(tables);
    let copy = |table: String| {
        format!(
            "delete from lh_{shard}.\"{table}\"; insert into lh_{shard}.\"{table}\" select * from lh_{from}.\"{table}\";"
        )
    };
    // The words of what is copied are not names of the tool's statements.
    let copies: String = tables.into_iter().map(copy).collect();
    let Database::Postgres(remote) = &mut database else { panic!("a shard") };
    remote
        .wait(async |conn| conn.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(copies))).await)
        .expect("the rows are copied");
    database.set_head();
}

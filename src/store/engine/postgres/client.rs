//! A connection to PostgreSQL, used by one thread at a time. Its statements are synchronous: the thread waits.

use super::super::value::{Parameter, Row};
use super::{dialect, encode};
use crate::limits;
use crate::store::error::{Error, Result};
use futures::TryStreamExt as _;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgTypeInfo};
use sqlx::{Arguments as _, AssertSqlSafe, Column as _, ConnectOptions as _, Connection as _, Executor as _};
use sqlx::{Row as _, Statement as _};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use tokio::runtime::{Builder, Runtime};

/// What waits for the sockets of readers: these are used by threads that have a runtime already.
static SHARED: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("postgres").enable_all().build());

/// What waits for a connection's socket.
enum Driver {
    /// The thread itself, which has no runtime.
    Own(Runtime),
    /// A thread for all connections.
    Shared(&'static Runtime),
}

impl Driver {
    fn shared() -> Result<Self> {
        match &*SHARED {
            Ok(runtime) => Ok(Self::Shared(runtime)),
            Err(error) => Err(Error::Open(format!("no thread for connections to the database: {error}"))),
        }
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Own(runtime) => runtime.block_on(work),
            Self::Shared(runtime) => {
                let _entered = runtime.enter();
                // The budget of the task that runs this is not for its statements: none of them gives way.
                futures::executor::block_on(tokio::task::unconstrained(work))
            }
        }
    }
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    InTransaction,
    /// A statement of the transaction failed: the server would answer a commit by undoing it.
    Failed,
    /// Nothing more can be done with it.
    Lost,
}

/// A statement in PostgreSQL's words, with the types of its parameters.
struct Prepared {
    text: Arc<str>,
    kinds: Vec<PgTypeInfo>,
}

/// A connection to PostgreSQL.
pub(crate) struct Client {
    conn: RefCell<PgConnection>,
    driver: Driver,
    state: Cell<State>,
    /// By the statement's own text.
    prepared: RefCell<HashMap<String, Arc<Prepared>>>,
    /// The statements that insert rows into a table, by what stands behind `insert into`.
    inserts: RefCell<HashMap<&'static str, Arc<Inserting>>>,
    round_trips: Cell<u64>,
}

/// An insert of any number of rows.
struct Inserting {
    text: Arc<str>,
    /// The types of its columns.
    kinds: Vec<String>,
}

impl Client {
    /// Connects a thread that has no runtime.
    pub(crate) fn connect_alone(options: &PgConnectOptions) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Open(format!("no runtime for the database: {error}")))?;
        Self::connect(options, Driver::Own(runtime))
    }

    /// Connects a thread that may have a runtime.
    pub(crate) fn connect_shared(options: &PgConnectOptions) -> Result<Self> {
        Self::connect(options, Driver::shared()?)
    }

    fn connect(options: &PgConnectOptions, driver: Driver) -> Result<Self> {
        let options = options.clone().statement_cache_capacity(limits::STATEMENTS_KEPT).disable_statement_logging();
        let conn = driver.wait(PgConnection::connect_with(&options))?;
        Ok(Self {
            conn: RefCell::new(conn),
            driver,
            state: Cell::new(State::Idle),
            prepared: RefCell::default(),
            inserts: RefCell::default(),
            round_trips: Cell::new(0),
        })
    }

    /// Messages to the server that were answered, each after a wait.
    #[cfg(test)]
    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips.get()
    }

    /// True if it is in no transaction and can be used.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.get() == State::Idle
    }

    /// Has the server do something, and notes what its answer means for the connection.
    fn ask<T>(&self, work: impl AsyncFnOnce(&mut PgConnection) -> std::result::Result<T, sqlx::Error>) -> Result<T> {
        if self.state.get() == State::Lost {
            return Err(Error::Unreachable("the connection to the database is lost".to_owned()));
        }
        let mut conn = self.conn.try_borrow_mut().map_err(|_| Error::Bug("a statement runs within another one"))?;
        self.round_trips.set(self.round_trips.get() + 1);
        let answer = self.driver.wait(work(&mut conn)).map_err(Error::from);
        match &answer {
            Err(Error::Unreachable(_)) => self.state.set(State::Lost),
            Err(_) if self.state.get() == State::InTransaction => self.state.set(State::Failed),
            _ => {}
        }
        answer
    }

    /// The form of a statement for the server.
    fn prepare(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Arc<Prepared>> {
        let listed = dialect::key_with_lists(sql, parameters);
        let key = listed.as_deref().unwrap_or(sql);
        if let Some(found) = self.prepared.borrow().get(key) {
            return Ok(Arc::clone(found));
        }
        let text: Arc<str> = dialect::of(sql, parameters).into();
        let kinds = self.kinds(&text)?;
        let prepared = Arc::new(Prepared { text, kinds });
        let mut all = self.prepared.borrow_mut();
        if all.len() >= 2 * limits::STATEMENTS_KEPT {
            all.clear();
        }
        all.insert(key.to_owned(), Arc::clone(&prepared));
        Ok(prepared)
    }

    /// The types of the parameters of a text, as the server finds them.
    fn kinds(&self, text: &Arc<str>) -> Result<Vec<PgTypeInfo>> {
        let text = AssertSqlSafe(Arc::clone(text));
        self.ask(async move |conn| {
            let statement = conn.prepare(sqlx::SqlSafeStr::into_sql_str(text)).await?;
            Ok(match statement.parameters() {
                Some(sqlx::Either::Left(kinds)) => kinds.to_vec(),
                _ => Vec::new(),
            })
        })
    }

    /// Has the server prepare a statement, with lists of the kinds of these.
    #[cfg(test)]
    pub(crate) fn prepare_for_test(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize> {
        Ok(self.prepare(sql, parameters)?.kinds.len())
    }

    fn arguments(prepared: &Prepared, parameters: &[Parameter<'_>]) -> Result<PgArguments> {
        if prepared.kinds.len() != parameters.len() {
            return Err(Error::Bug("a statement has another number of parameters than values"));
        }
        let mut arguments = PgArguments::default();
        for (parameter, kind) in parameters.iter().zip(&prepared.kinds) {
            let value = encode::encode(parameter, kind)?;
            arguments.add(value).map_err(|error| Error::Database(error.to_string()))?;
        }
        Ok(arguments)
    }

    /// Calls `each` with the rows of a statement, until it returns false; the statement is run to its end.
    pub(crate) fn for_each(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        mut each: impl FnMut(Row) -> bool,
    ) -> Result<()> {
        let prepared = self.prepare(sql, parameters)?;
        let arguments = Self::arguments(&prepared, parameters)?;
        let query = sqlx::query_with(AssertSqlSafe(Arc::clone(&prepared.text)), arguments);
        let mut failure = None;
        let mut goes_on = true;
        self.ask(async |conn| {
            let mut rows = conn.fetch(query);
            let mut columns: Option<Rc<[String]>> = None;
            while let Some(row) = rows.try_next().await? {
                if !goes_on {
                    continue;
                }
                let columns = columns
                    .get_or_insert_with(|| row.columns().iter().map(|column| column.name().to_owned()).collect());
                match encode::decode(&row) {
                    Ok(values) => goes_on = each(Row::new(columns, values)),
                    Err(error) => (failure, goes_on) = (Some(error), false),
                }
            }
            Ok(())
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Calls `each` with the first row of a statement.
    pub(crate) fn first(&self, sql: &str, parameters: &[Parameter<'_>], each: impl FnMut(Row) -> bool) -> Result<()> {
        match dialect::first_of(sql) {
            Some(first) => self.for_each(&first, parameters, each),
            None => self.for_each(sql, parameters, each),
        }
    }

    /// Runs a statement without rows. Returns the number of rows that it changed.
    pub(crate) fn changed(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize> {
        let prepared = self.prepare(sql, parameters)?;
        let arguments = Self::arguments(&prepared, parameters)?;
        self.execute(&prepared.text, arguments)
    }

    fn execute(&self, text: &Arc<str>, arguments: PgArguments) -> Result<usize> {
        let query = sqlx::query_with(AssertSqlSafe(Arc::clone(text)), arguments);
        let done = self.ask(async |conn| conn.execute(query).await)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    /// Runs several statements without parameters.
    pub(crate) fn execute_batch(&self, statements: &str) -> Result<()> {
        let query = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        self.ask(async |conn| conn.execute(query).await.map(drop))?;
        // A savepoint undoes the failure with what failed.
        if statements.starts_with("rollback to") && self.state.get() == State::Failed {
            self.state.set(State::InTransaction);
        }
        Ok(())
    }

    /// Inserts rows by one statement, which has an array for each column. `into` is what stands behind `insert into`, the
    /// table with its columns, and `conflict` the clause for a row whose key exists.
    pub(crate) fn insert(&self, into: &'static str, conflict: &str, rows: &[Vec<Parameter<'_>>]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let insert = self.inserting(into, conflict)?;
        // Two rows with the same key cannot be changed by one statement.
        let together = if conflict.contains("do update") { 1 } else { rows.len() };
        for rows in rows.chunks(together) {
            let mut arguments = PgArguments::default();
            for (index, kind) in insert.kinds.iter().enumerate() {
                let values = rows.iter().map(|row| row.get(index).unwrap_or(&Parameter::Null));
                let value = encode::column(kind, values)?;
                arguments.add(value).map_err(|error| Error::Database(error.to_string()))?;
            }
            self.execute(&insert.text, arguments)?;
        }
        Ok(())
    }

    fn inserting(&self, into: &'static str, conflict: &str) -> Result<Arc<Inserting>> {
        if let Some(found) = self.inserts.borrow().get(into) {
            return Ok(Arc::clone(found));
        }
        let (table, columns) = into.split_once(" (").ok_or(Error::Bug("an insert names no columns"))?;
        let mut types: HashMap<String, String> = HashMap::new();
        let mut failure = None;
        self.for_each(COLUMNS, &[Parameter::Text(table.into())], |row| {
            let column = row.get::<String>(0).and_then(|name| Ok((name, row.get::<String>(1)?)));
            match column {
                Ok((name, kind)) => drop(types.insert(name, kind)),
                Err(error) => failure = Some(error),
            }
            true
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        let kinds =
            columns.trim_end_matches(')').split(", ").map(|column| types.get(column.trim_matches('"')).cloned());
        let kinds =
            kinds.collect::<Option<Vec<_>>>().ok_or(Error::Bug("an insert names a column that is not there"))?;
        let arrays: Vec<String> = (1..).zip(&kinds).map(|(number, kind)| format!("${number}::{kind}[]")).collect();
        let text = format!("insert into {into} select * from unnest({}) {conflict}", arrays.join(", "));
        let insert = Arc::new(Inserting { text: text.into(), kinds });
        self.inserts.borrow_mut().insert(into, Arc::clone(&insert));
        Ok(insert)
    }

    /// Begins a transaction.
    pub(crate) fn begin(&self) -> Result<()> {
        self.execute_batch("begin")?;
        self.state.set(State::InTransaction);
        Ok(())
    }

    /// Commits the transaction. The server would answer the commit of one that failed without an error.
    pub(crate) fn commit(&self) -> Result<()> {
        if self.state.get() == State::Failed {
            self.roll_back()?;
            return Err(Error::Database("a statement of the transaction failed".to_owned()));
        }
        self.execute_batch("commit")?;
        self.state.set(State::Idle);
        Ok(())
    }

    /// Undoes the transaction.
    pub(crate) fn roll_back(&self) -> Result<()> {
        if self.state.get() == State::Idle {
            return Ok(());
        }
        self.execute_batch("rollback")?;
        self.state.set(State::Idle);
        Ok(())
    }

    /// Closes the connection.
    pub(crate) fn close(self) -> Result<()> {
        let Self { conn, driver, .. } = self;
        Ok(driver.wait(conn.into_inner().close())?)
    }
}

const COLUMNS: &str = "select attname::text, format_type(atttypid, -1) from pg_attribute \
     where attrelid = ?1::text::regclass and attnum > 0 and not attisdropped";

//! A connection to PostgreSQL, used by one thread at a time. Its statements are synchronous: the thread waits.

use super::dialect;
use super::encode::{self, EncodedValue};
use super::errors;
use super::lease::{self, Lease, Trust};
use super::primary;
use super::warnings::with_warning;
use crate::error::{Error, Result};
use crate::limits;
use futures::TryStreamExt as _;
use longhand_engine::value::{Cell as Key, Parameter, Row, Value};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgTypeInfo};
use sqlx::{Arguments as _, AssertSqlSafe, Column as _, ConnectOptions as _, Connection as _, Executor as _};
use sqlx::{Row as _, Statement as _};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Time to wait for a connection, and for a statement while no lease is trusted.
const PATIENCE: Duration = Duration::from_millis(limits::DATABASE_ANSWER_MS);
/// Time between two looks at the lease while an answer is waited for.
const STEP: Duration = Duration::from_secs(1);

/// Drives the sockets of readers: their threads belong to a runtime already, and cannot block on one of their own.
static SHARED: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("postgres").enable_all().build());

/// What waits for a connection's socket.
enum Driver {
    /// The thread itself, which has no runtime.
    Own(Option<Runtime>),
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

    /// Connects. sqlx yields while it hashes a password, and a reader's thread, which blocks here, would not resume it: so
    /// the shared runtime connects.
    fn connect(&self, options: PgConnectOptions) -> Result<PgConnection> {
        let connecting = async move {
            let mut conn = PgConnection::connect_with(&options).await?;
            primary::check(&mut conn).await?;
            Ok::<_, sqlx::Error>(conn)
        };
        let connecting = async { timeout(PATIENCE, connecting).await };
        let made = match self {
            Self::Own(_) => self.wait(connecting),
            Self::Shared(runtime) => self
                .wait(runtime.spawn(connecting))
                .map_err(|error| Error::Open(format!("a connection to the database ended in a panic: {error}")))?,
        };
        let made = made.map_err(|_| Error::Unreachable("the database does not answer".to_owned()))?;
        made.map_err(refused)
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Own(Some(runtime)) => runtime.block_on(work),
            // Only a driver that is dropped has none.
            Self::Own(None) => futures::executor::block_on(work),
            Self::Shared(runtime) => {
                let _entered = runtime.enter();
                // The budget of the task that runs this is not for its statements: none of them gives way.
                futures::executor::block_on(tokio::task::unconstrained(work))
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A thread with a runtime of its own may not wait for the end of another.
        if let Self::Own(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}

/// The error of a failed connection. A refusal that no retry can change, such as a wrong password, is reported as it is.
fn refused(error: sqlx::Error) -> Error {
    let refused = error.as_database_error().and_then(|refused| refused.code());
    // It stops, starts, or has too many connections.
    let passes = refused.is_none_or(|code| code.starts_with("57P") || code.starts_with("08") || code == "53300");
    if passes { errors::engine_error(error) } else { Error::Database(error.to_string()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// An owner is in a transaction of which the server knows nothing yet: it has only read, and nobody else writes.
    Begun,
    InTransaction,
    /// A statement of the transaction failed: the server would answer a commit by undoing it.
    Failed,
    /// Nothing more can be done with it.
    Lost,
}

/// The texts of several statements as one, by their numbers, and whether that is a whole transaction.
type JoinedTexts = HashMap<(bool, Vec<usize>), Arc<str>>;

/// A statement in PostgreSQL's words, with the types of its parameters.
struct PreparedStatement {
    text: Arc<str>,
    kinds: Vec<PgTypeInfo>,
}

/// A connection to PostgreSQL.
pub struct Client {
    conn: RefCell<PgConnection>,
    driver: Driver,
    state: Cell<State>,
    /// By the statement's own text.
    prepared: RefCell<HashMap<String, Arc<PreparedStatement>>>,
    /// The statements that take many rows, by their text or by what stands behind `insert into`.
    batch_statements: RefCell<HashMap<&'static str, Arc<BatchStatement>>>,
    /// What was not sent yet. It goes out as one statement, before any other one.
    queue: RefCell<Vec<QueuedRows>>,
    joined_texts: RefCell<JoinedTexts>,
    /// Answers that were read ahead, by the statement and its values.
    ahead: RefCell<AnswersAhead>,
    round_trips: Cell<u64>,
    is_doubted: Cell<bool>,
    /// The right to write of the owner's connection.
    pub(super) lease: RefCell<Option<Lease>>,
    /// The trust in the lease of the shard, of a connection that is only of use to the owner.
    pub(super) trust: Option<Arc<Trust>>,
}

/// An answer that was read ahead: the names of its columns, and its rows.
type AnswerAhead = (Arc<[String]>, Vec<Vec<Value>>);
/// By the statement and its values; the same may be asked for several times.
type AnswersAhead = HashMap<(&'static str, Vec<Key>), Vec<AnswerAhead>>;

/// A statement that takes any number of rows, as an array for each column.
struct BatchStatement {
    /// Its number among those of the connection.
    number: usize,
    table: &'static str,
    form: Form,
    /// The types of its columns.
    kinds: Vec<String>,
}

/// What is done with the rows.
enum Form {
    /// They are inserted: the table with its columns, and the clause for a row whose key exists.
    Insert(&'static str, &'static str),
    /// Each changes a row.
    Update(&'static str),
    /// Each is the values of a read.
    Read(&'static str),
}

impl BatchStatement {
    /// Its text, with parameters from this number on.
    fn text(&self, first: usize) -> Result<String> {
        let text = match self.form {
            Form::Insert(into, conflict) => Some(dialect::insert_of_many(into, conflict, &self.kinds, first)),
            Form::Update(sql) => dialect::update_of_many(sql, &self.kinds, first),
            Form::Read(sql) => Some(dialect::read_of_many(sql, &self.kinds)),
        };
        text.ok_or(Error::Bug("an update has no condition"))
    }
}

/// Rows on their way to the server.
struct QueuedRows {
    statement: Arc<BatchStatement>,
    columns: Vec<EncodedValue>,
}

impl Client {
    /// Connects a thread that has no runtime.
    pub fn connect_alone(options: &PgConnectOptions, trust: Option<Arc<Trust>>) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Open(format!("no runtime for the database: {error}")))?;
        Self::connect(options, Driver::Own(Some(runtime)), trust)
    }

    /// Connects a thread that may have a runtime.
    pub fn connect_shared(options: &PgConnectOptions, trust: Option<Arc<Trust>>) -> Result<Self> {
        Self::connect(options, Driver::shared()?, trust)
    }

    fn connect(options: &PgConnectOptions, driver: Driver, trust: Option<Arc<Trust>>) -> Result<Self> {
        let options = options.clone().statement_cache_capacity(limits::STATEMENTS_KEPT).disable_statement_logging();
        Ok(Self {
            conn: RefCell::new(driver.connect(options)?),
            driver,
            state: Cell::new(State::Idle),
            prepared: RefCell::default(),
            batch_statements: RefCell::default(),
            queue: RefCell::default(),
            joined_texts: RefCell::default(),
            ahead: RefCell::default(),
            round_trips: Cell::new(0),
            is_doubted: Cell::new(false),
            lease: RefCell::default(),
            trust,
        })
    }

    /// Messages to the server that were answered, each after a wait.
    #[doc(hidden)]
    pub fn round_trips(&self) -> u64 {
        self.round_trips.get()
    }

    /// True if nothing more can be done with it.
    pub fn is_lost(&self) -> bool {
        self.state.get() == State::Lost
    }

    /// True if it is in no transaction and can be used.
    pub fn is_idle(&self) -> bool {
        self.state.get() == State::Idle
    }

    /// Has the server do something, and notes what its answer means for the connection.
    fn ask<T>(&self, work: impl AsyncFnOnce(&mut PgConnection) -> std::result::Result<T, sqlx::Error>) -> Result<T> {
        if self.state.get() == State::Lost {
            return Err(connection_lost());
        }
        let mut conn = self.conn.try_borrow_mut().map_err(|_| Error::Bug("a statement runs within another one"))?;
        self.round_trips.set(self.round_trips.get() + 1);
        let answer = match self.driver.wait(self.patiently(work(&mut conn))) {
            Some(answer) => answer.map_err(errors::engine_error),
            None => Err(Error::Unreachable("the database does not answer".to_owned())),
        };
        if let (Err(Error::Stopped(_)), Some(trust)) = (&answer, &self.trust) {
            trust.lose();
        }
        match &answer {
            Err(Error::Unreachable(_)) => self.state.set(State::Lost),
            Err(_) if self.state.get() == State::InTransaction => self.state.set(State::Failed),
            _ => {}
        }
        answer
    }

    /// Waits for an answer, which may take long while the lease is renewed: as long as that goes on, the server can be
    /// reached. None if it takes too long: no error comes from a network that lets nothing through.
    async fn patiently<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let holds = || self.trust.as_ref().is_some_and(|trust| trust.holds());
        let (mut waited, mut was_trusted) = (Duration::ZERO, false);
        loop {
            if let Ok(answer) = timeout(STEP, &mut work).await {
                return Some(answer);
            }
            waited += STEP;
            let is_trusted = holds();
            if !is_trusted && (was_trusted || waited >= PATIENCE) {
                return None;
            }
            was_trusted = is_trusted;
        }
    }

    /// The form of a statement for the server.
    fn prepare(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Arc<PreparedStatement>> {
        let listed = dialect::key_with_lists(sql, parameters);
        let key = listed.as_deref().unwrap_or(sql);
        if let Some(found) = self.prepared.borrow().get(key) {
            return Ok(Arc::clone(found));
        }
        let text: Arc<str> = dialect::translate_bound(sql, parameters).into();
        let kinds = self.kinds(&text)?;
        let prepared = Arc::new(PreparedStatement { text, kinds });
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
    #[doc(hidden)]
    pub fn prepare_for_test(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize> {
        Ok(self.prepare(sql, parameters)?.kinds.len())
    }

    fn arguments(prepared: &PreparedStatement, parameters: &[Parameter<'_>]) -> Result<PgArguments> {
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

    /// Reads the answers to a read with each of these values, as one statement. Each is there once, for the next query with
    /// its values, and all are forgotten with whatever changes something.
    pub fn read_ahead(&self, sql: &'static str, keys: &[Vec<Parameter<'_>>]) -> Result<()> {
        self.flush()?;
        let Some(first) = keys.first() else { return Ok(()) };
        let read = self.batch_statement(sql, first, Form::Read(sql))?;
        let columns = read.kinds.iter().enumerate().map(|(index, kind)| {
            encode::column(kind, keys.iter().map(|key| key.get(index).unwrap_or(&Parameter::Null)))
        });
        let mut arguments = PgArguments::default();
        for column in columns.collect::<Result<Vec<_>>>()? {
            arguments.add(column).map_err(|error| Error::Database(error.to_string()))?;
        }
        let query = sqlx::query_with(AssertSqlSafe(read.text(1)?), arguments);
        let rows = self.ask(async |conn| conn.fetch_all(query).await)?;
        let mut answers: Vec<Vec<Vec<Value>>> = keys.iter().map(|_| Vec::new()).collect();
        let names = rows.first().map(|row| row.columns().iter().map(|column| column.name().to_owned()));
        // The first column is the number of the key, and the last one that of its row.
        let names: Vec<String> = names.into_iter().flatten().skip(1).collect();
        let names: Arc<[String]> = names.into_iter().rev().skip(1).rev().collect();
        for row in &rows {
            let mut values = encode::decode(row)?.into_iter();
            values.next_back();
            let number = match values.next() {
                Some(Value::Integer(number)) => usize::try_from(number - 1).ok(),
                _ => None,
            };
            let answer = number.and_then(|number| answers.get_mut(number)).ok_or(Error::Bug("an answer has no key"))?;
            answer.push(values.collect());
        }
        let mut ahead = self.ahead.borrow_mut();
        for (key, answer) in keys.iter().zip(answers) {
            ahead
                .entry((sql, key.iter().filter_map(Parameter::cell).collect()))
                .or_default()
                .push((Arc::clone(&names), answer));
        }
        Ok(())
    }

    /// What was read ahead for a query.
    fn take_ahead(&self, sql: &str, parameters: &[Parameter<'_>]) -> Option<Vec<Row>> {
        let mut ahead = self.ahead.borrow_mut();
        if ahead.is_empty() {
            return None;
        }
        let key = parameters.iter().map(Parameter::cell).collect::<Option<Vec<Key>>>()?;
        let (sql, _) = ahead.keys().find(|(known, _)| *known == sql)?;
        let sql = *sql;
        let mut answers = ahead.remove(&(sql, key.clone()))?;
        let (names, rows) = answers.pop()?;
        if !answers.is_empty() {
            ahead.insert((sql, key), answers);
        }
        let names: Rc<[String]> = names.iter().cloned().collect();
        Some(rows.into_iter().map(|values| Row::new(&names, values)).collect())
    }

    /// Calls `each` with the rows of a statement, until it returns false; the statement is run to its end.
    pub fn for_each(&self, sql: &str, parameters: &[Parameter<'_>], mut each: impl FnMut(Row) -> bool) -> Result<()> {
        if let Some(rows) = self.take_ahead(sql, parameters) {
            rows.into_iter().all(each);
            return Ok(());
        }
        self.flush()?;
        if !dialect::only_reads(sql) {
            self.ahead.borrow_mut().clear();
            self.enter()?;
        }
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
    pub fn first(&self, sql: &str, parameters: &[Parameter<'_>], each: impl FnMut(Row) -> bool) -> Result<()> {
        if let Some(rows) = self.take_ahead(sql, parameters) {
            rows.into_iter().all(each);
            return Ok(());
        }
        match dialect::first_of(sql) {
            Some(first) => self.for_each(&first, parameters, each),
            None => self.for_each(sql, parameters, each),
        }
    }

    /// Runs a statement without rows. Returns the number of rows that it changed.
    pub fn changed(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize> {
        self.flush()?;
        self.ahead.borrow_mut().clear();
        self.enter()?;
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
    pub fn execute_batch(&self, statements: &str) -> Result<()> {
        self.flush()?;
        self.ahead.borrow_mut().clear();
        self.enter()?;
        self.simple(statements)?;
        // A savepoint undoes the failure with what failed.
        if statements.starts_with("rollback to") && self.state.get() == State::Failed {
            self.state.set(State::InTransaction);
        }
        Ok(())
    }

    fn simple(&self, statements: &str) -> Result<()> {
        let query = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        self.ask(async |conn| conn.execute(query).await.map(drop))
    }

    /// Inserts rows. `into` is what stands behind `insert into`, the table with its columns, and `conflict` the clause for a
    /// row whose key exists. Within a transaction they are sent with what follows.
    pub fn insert(&self, into: &'static str, conflict: &'static str, rows: &[Vec<Parameter<'_>>]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let insert = match self.cached_statement(into) {
            Some(known) => known,
            None => self.cache_statement(into, Form::Insert(into, conflict), self.columns_of(into)?),
        };
        // Two rows with the same key cannot be changed by one statement.
        if conflict.contains("do update") && rows.len() > 1 {
            return rows.iter().try_for_each(|row| self.send(&insert, std::slice::from_ref(row)));
        }
        self.send(&insert, rows)
    }

    /// Runs an update of one row for each of these values. Within a transaction they are sent with what follows.
    pub fn update(&self, sql: &'static str, rows: &[Vec<Parameter<'_>>]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let update =
            self.batch_statement(sql, rows.first().map(Vec::as_slice).unwrap_or_default(), Form::Update(sql))?;
        self.send(&update, rows)
    }

    /// The form of a statement with the values of its parameters that takes many such values.
    fn batch_statement(&self, sql: &'static str, values: &[Parameter<'_>], form: Form) -> Result<Arc<BatchStatement>> {
        if let Some(known) = self.cached_statement(sql) {
            return Ok(known);
        }
        let prepared = self.prepare(sql, values)?;
        let kinds = prepared.kinds.iter().map(encode::kind_name);
        let kinds = kinds.map(|kind| kind.map(str::to_owned)).collect::<Result<_>>()?;
        Ok(self.cache_statement(sql, form, kinds))
    }

    fn cached_statement(&self, key: &'static str) -> Option<Arc<BatchStatement>> {
        self.batch_statements.borrow().get(key).map(Arc::clone)
    }

    fn cache_statement(&self, key: &'static str, form: Form, kinds: Vec<String>) -> Arc<BatchStatement> {
        let mut all = self.batch_statements.borrow_mut();
        let statement = Arc::new(BatchStatement { number: all.len(), table: dialect::table(key), form, kinds });
        all.insert(key, Arc::clone(&statement));
        statement
    }

    /// Queues rows. Two statements on the same table are not sent as one: it would not see its own rows, and of two changes of
    /// a row the server makes one.
    fn send(&self, statement: &Arc<BatchStatement>, rows: &[Vec<Parameter<'_>>]) -> Result<()> {
        self.ahead.borrow_mut().clear();
        if self.queue.borrow().iter().any(|queued| queued.statement.table == statement.table) {
            self.flush()?;
        }
        let columns = statement.kinds.iter().enumerate().map(|(index, kind)| {
            let values = rows.iter().map(|row| row.get(index).unwrap_or(&Parameter::Null));
            encode::column(kind, values)
        });
        let columns = columns.collect::<Result<_>>()?;
        self.queue.borrow_mut().push(QueuedRows { statement: Arc::clone(statement), columns });
        if matches!(self.state.get(), State::Begun | State::InTransaction) { Ok(()) } else { self.flush() }
    }

    /// Sends what is queued, as one statement.
    pub fn flush(&self) -> Result<()> {
        if self.queue.borrow().is_empty() {
            return Ok(());
        }
        self.enter()?;
        self.send_queue(None)
    }

    /// Sends what is queued, as one statement; with a lease, all that a transaction does: the statement fails unless the
    /// connection has the right to write.
    fn send_queue(&self, all: Option<(&Lease, i64)>) -> Result<()> {
        let queue = std::mem::take(&mut *self.queue.borrow_mut());
        let numbers: Vec<usize> = queue.iter().map(|queued| queued.statement.number).collect();
        let numbers = (all.is_some(), numbers);
        let cached = self.joined_texts.borrow().get(&numbers).map(Arc::clone);
        let text = match cached {
            Some(text) => text,
            None => {
                let mut first = 1;
                let mut texts = Vec::with_capacity(queue.len());
                for QueuedRows { statement, .. } in &queue {
                    texts.push(statement.text(first)?);
                    first += statement.kinds.len();
                }
                let text: Arc<str> = match all {
                    Some(_) => dialect::transaction(&texts, lease::OWNED, first).into(),
                    None => dialect::join(texts).into(),
                };
                self.joined_texts.borrow_mut().insert(numbers, Arc::clone(&text));
                text
            }
        };
        let mut arguments = PgArguments::default();
        for column in queue.into_iter().flat_map(|queued| queued.columns) {
            arguments.add(column).map_err(|error| Error::Database(error.to_string()))?;
        }
        if let Some((lease, head)) = all {
            lease.bind(head, &mut arguments).map_err(|error| Error::Database(error.to_string()))?;
        }
        self.execute(&text, arguments).map(drop)
    }

    /// The types of the columns that an insert names.
    fn columns_of(&self, into: &'static str) -> Result<Vec<String>> {
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
        let columns = columns.trim_end_matches(')').split(", ");
        let kinds = columns.map(|column| types.get(column.trim_matches('"')).cloned());
        kinds.collect::<Option<_>>().ok_or(Error::Bug("an insert names a column that is not there"))
    }

    /// Begins a transaction. The server learns of that of an owner with the first statement that is more than a read.
    pub fn begin(&self) -> Result<()> {
        self.ahead.borrow_mut().clear();
        match self.state.get() {
            State::Idle => {}
            State::Lost => return Err(connection_lost()),
            // What was given up may have left one: what follows would be part of it.
            State::Begun | State::InTransaction | State::Failed => self.roll_back()?,
        }
        if self.lease.borrow().is_some() {
            self.state.set(State::Begun);
            return Ok(());
        }
        self.state.set(State::InTransaction);
        self.simple("begin")
    }

    /// Begins a transaction on the server, if this one is begun: with the fence, which fails if another daemon has the shard.
    fn enter(&self) -> Result<()> {
        if self.state.get() != State::Begun {
            return Ok(());
        }
        let text = self.lease.borrow().as_ref().map_or_else(|| "begin".to_owned(), Lease::begin);
        self.state.set(State::InTransaction);
        self.simple(&text)
    }

    /// Commits the transaction, behind which the newest event is the one with this number; none for the same as before. What
    /// was not begun on the server is one statement, if it has an event by which it is found should the answer be lost.
    /// The server would answer the commit of a transaction that failed without an error.
    pub fn commit(&self, head: Option<i64>) -> Result<()> {
        if self.lease.borrow().is_none() {
            return self.commit_here(head);
        }
        let (done, warning) = with_warning(|| self.commit_here(head));
        self.heed(warning);
        done
    }

    /// Doubts a commit of which the server warned.
    pub(super) fn heed(&self, warning: Option<String>) {
        if let Some(warning) = warning {
            tracing::warn!(warning, "the database warns of a commit");
            self.doubt();
        }
    }

    /// True once after a commit of an owner of which the server warned: that it was told to wait no more for the standby
    /// that has to have it, say. It is there, and may be lost with this server.
    pub fn was_doubted(&self) -> bool {
        self.is_doubted.take()
    }

    /// Notes that a commit is doubted, which may have been that of a connection before.
    pub fn doubt(&self) {
        self.is_doubted.set(true);
    }

    fn commit_here(&self, head: Option<i64>) -> Result<()> {
        if self.state.get() == State::Begun {
            let lease = self.lease.borrow().clone().ok_or(Error::Bug("a transaction of nobody"))?;
            let newest = head.filter(|head| *head > lease.head);
            match (self.queue.borrow().is_empty(), newest) {
                (true, None) => {
                    self.state.set(State::Idle);
                    return Ok(());
                }
                (true, Some(_)) => return Err(Error::Bug("an event was not written")),
                (false, _) => {}
            }
            if let Some(newest) = newest {
                self.send_queue(Some((&lease, newest)))?;
                self.committed(head);
                return Ok(());
            }
        }
        self.flush()?;
        if self.state.get() == State::Failed {
            self.roll_back()?;
            return Err(Error::Database("a statement of the transaction failed".to_owned()));
        }
        let text = match &*self.lease.borrow() {
            Some(lease) => lease.commit(head.unwrap_or(lease.head)),
            None => "commit".to_owned(),
        };
        self.simple(&text)?;
        self.committed(head);
        Ok(())
    }

    /// Sends what is queued of a transaction without an event, so that a lost connection is noticed before the commit.
    pub fn before_commit(&self, head: i64) -> Result<()> {
        let is_new = self.lease.borrow().as_ref().is_some_and(|lease| head > lease.head);
        if is_new { Ok(()) } else { self.flush() }
    }

    fn committed(&self, head: Option<i64>) {
        self.state.set(State::Idle);
        if let Some(lease) = &mut *self.lease.borrow_mut() {
            lease.head = head.unwrap_or(lease.head);
            if let Some(trust) = &self.trust {
                trust.acknowledged().note(lease);
            }
        }
    }

    /// Undoes the transaction.
    pub fn roll_back(&self) -> Result<()> {
        self.queue.borrow_mut().clear();
        self.ahead.borrow_mut().clear();
        match self.state.get() {
            State::Idle => return Ok(()),
            State::Begun => {}
            _ => self.simple("rollback")?,
        }
        self.state.set(State::Idle);
        Ok(())
    }

    /// Closes the connection.
    pub fn close(self) -> Result<()> {
        let Self { conn, driver, .. } = self;
        let closed = driver.wait(async { timeout(PATIENCE, conn.into_inner().close()).await });
        closed.map_err(|_| Error::Unreachable("the database does not answer".to_owned()))?.map_err(errors::engine_error)
    }
}

fn connection_lost() -> Error {
    Error::Unreachable("the connection to the database is lost".to_owned())
}

const COLUMNS: &str = "select attname::text, format_type(atttypid, -1) from pg_attribute \
     where attrelid = ?1::text::regclass and attnum > 0 and not attisdropped";

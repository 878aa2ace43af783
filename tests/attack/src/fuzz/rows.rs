//! Rows of a database while it is read, altered by a person with a tool or by a faulty disk.

use super::instance::{Copy, Instance, Template, once};
use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::Result;
use longhand::app::append::ListMessages;
use longhand::app::events::{Frame, ListEvents, Start, SubscribeRequest};
use longhand::app::views::ViewRequest;
use longhand::app::{Caller, Error, Longhand, Reason};
use longhand::store::SessionKey;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _};

/// Columns to alter: all that readers decode or rely on. Those after the bar identify or order rows, so that another
/// row may be found in their place; a decoder must handle that too, but the damage is then not limited to one row.
const COLUMNS: [(&str, &str); 46] = [
    ("event", "body"),
    ("event", "kind"),
    ("event", "hash"),
    ("event", "time"),
    ("event", "actor"),
    ("event", "ends_mutation"),
    ("message", "head"),
    ("message", "seal"),
    ("message", "role"),
    ("message", "kind"),
    ("message", "create_time"),
    ("message", "client_id"),
    ("message", "sealed_revision"),
    ("message", "parts"),
    ("message", "parts_length"),
    ("part", "body"),
    ("part", "codec"),
    ("part", "length"),
    ("part", "kind"),
    ("part", "client_id"),
    ("mark", "body"),
    ("mark", "kind"),
    ("layout", "body"),
    ("draft", "body"),
    ("draft", "kind"),
    ("job", "outcome"),
    ("job", "failure"),
    ("job", "state"),
    ("job", "kind"),
    ("job", "trigger"),
    ("job", "window"),
    ("job", "level"),
    ("session", "window"),
    ("session", "metadata_json"),
    ("session", "state"),
    ("session", "title"),
    ("request", "receipt"),
    ("request", "payload_hash"),
    ("pruned", "truncation"),
    ("pruned", "compaction_id"),
    // | Columns that identify or order rows.
    ("event", "revision"),
    ("message", "revision"),
    ("message", "class"),
    ("part", "revision"),
    ("part", "number"),
    ("session", "revision"),
];

/// Number of columns before the bar.
const OF_ONE_ROW: usize = 40;

/// Maximum number of rows of a table whose columns are altered, from its first.
const ROWS_MAX: usize = 60;

/// Altered rows. The head is a table, a column and the number of a row of `s1`, from 0: `event body 7`. The body is the
/// new value of the column: its bytes, a text, or digits, by the type of the column.
pub(super) struct Rows {
    copy: Copy,
    database: Connection,
    /// The undamaged answers of `s2`.
    other: String,
}

impl Rows {
    pub(super) fn open() -> Result<Self> {
        let copy = Template::new()?.copy()?;
        let database = copy.database()?;
        let triggers: Vec<String> = database
            .prepare("select name from sqlite_master where type = 'trigger'")?
            .query_map((), |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for trigger in triggers {
            database.execute_batch(&format!("drop trigger {trigger}"))?;
        }
        database.execute_batch("pragma ignore_check_constraints = on")?;
        let app = copy.instance().map_err(anyhow::Error::msg)?.app.clone();
        let other = copy.block_on(answers_of_other(&app)).map_err(|error| anyhow::anyhow!("s2: {error}"))?;
        Ok(Self { copy, database, other })
    }
}

/// The condition for the rows of `s1` in a table.
fn of_session(table: &str) -> &'static str {
    match table {
        "session" => "client_id = 's1'",
        "part" | "draft" => "message_id in (select id from message where session_id = 1)",
        _ => "session_id = 1",
    }
}

/// The column that identifies a row while another of its columns is altered.
fn key_of(table: &str) -> &'static str {
    match table {
        "request" => "request_id",
        "pruned" => "message_id",
        "part" => "rowid",
        "mark" | "layout" => "revision",
        "event" => "seq",
        _ => "id",
    }
}

/// Makes every call that reads `s1` and the table; returns the refusals.
async fn read_all(longhand: &Longhand, table: &str) -> Vec<(&'static str, Error)> {
    let app = &longhand.caller(longhand::app::access::Access::owner(), String::new(), None).expect("a caller");
    let mut refused = Vec::new();
    let mut note = |what: &'static str, answer: Result<(), Error>| {
        if let Err(error) = answer {
            refused.push((what, error));
        }
    };
    note("session", app.sessions().get("s1").await.map(drop));
    match table {
        "event" => note("events", all_events(app).await),
        "draft" | "session" => {}
        "request" => {
            let again = once(longhand, "undo").compactions().undo("s1", None).await;
            note("request", again.map(drop));
        }
        "job" => {
            note("compactions", app.compactions().list("s1", 50, "").await.map(drop));
            note("view", app.views().get("s1", ViewRequest::default()).await.map(drop));
        }
        _ => {
            note("view", app.views().get("s1", ViewRequest::default()).await.map(drop));
            let as_of = ViewRequest { as_of: Some(20), ..ViewRequest::default() };
            note("view then", app.views().get("s1", as_of).await.map(drop));
            for reverse in [false, true] {
                let list =
                    ListMessages { page_size: 1_000, reverse, records: true, derived: true, ..Default::default() };
                note("messages", app.messages().list("s1", list).await.map(drop));
            }
            note("fork", app.views().get("f1", ViewRequest::default()).await.map(drop));
        }
    }
    if matches!(table, "draft" | "message" | "part") {
        note("open", app.messages().get("s1", "o1").await.map(drop));
    }
    note("snapshot", snapshot(app).await);
    note("verify", verify(longhand).await);
    refused
}

async fn all_events(app: &Caller) -> Result<(), Error> {
    let session = Some("s1".to_owned());
    app.events().list(ListEvents { session, content: true, page_size: 1_000, ..ListEvents::default() }).await.map(drop)
}

async fn snapshot(app: &Caller) -> Result<(), Error> {
    let sessions = vec!["s1".to_owned()];
    let request = SubscribeRequest { sessions, start: Start::Snapshot, ..SubscribeRequest::default() };
    let mut stream = app.events().subscribe(request).await?;
    while !matches!(stream.next().await?, Frame::SnapshotEnd { .. }) {}
    Ok(())
}

async fn verify(longhand: &Longhand) -> Result<(), Error> {
    let key: SessionKey = longhand.store().sessions().find(&longhand::store::Visibility::default(), "s1").await?;
    let (found, mut items) = tokio::sync::mpsc::channel(10_000);
    longhand.store().upkeep().verify(Some(key), found).await?;
    while items.recv().await.is_some() {}
    Ok(())
}

/// All answers of the other session, as text.
async fn answers_of_other(app: &Caller) -> Result<String, Error> {
    let session = app.sessions().get("s2").await?;
    let view = app.views().get("s2", ViewRequest::default()).await?;
    let list = ListMessages { records: true, derived: true, ..ListMessages::default() };
    let messages = app.messages().list("s2", list).await?;
    Ok(format!("{session:?} {view:?} {messages:?}"))
}

/// The first difference between two answers, with some context.
fn difference(usual: &str, now: &str) -> Option<String> {
    let position = usual.bytes().zip(now.bytes()).position(|(a, b)| a != b).unwrap_or(usual.len().min(now.len()));
    let around = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[position.saturating_sub(80)..text.len().min(position + 80)])
            .into_owned()
    };
    (usual != now).then(|| format!("at first {:?}, now {:?}", around(usual), around(now)))
}

/// Writes a value into a column, converted to the type of the column.
fn write(
    database: &Connection,
    (table, column): (&str, &str),
    (key, row): (&str, &str),
    kind: &str,
    value: Option<&[u8]>,
) -> rusqlite::Result<usize> {
    let sql = format!("update {table} set {column} = ?1 where {key} = ?2 and {}", of_session(table));
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let value = match (kind, value) {
        (_, None) => Value::Null,
        ("integer", Some(value)) => Value::Integer(text(value).trim().parse::<i64>().unwrap_or(i64::MIN)),
        ("text", Some(value)) => Value::Text(text(value)),
        (_, Some(value)) => Value::Blob(value.to_vec()),
    };
    let row = match row.parse::<i64>() {
        Ok(number) if key != "request_id" => Value::Integer(number),
        _ => Value::Text(row.to_owned()),
    };
    database.execute(&sql, (value, row))
}

type Original = (String, String, Option<Vec<u8>>);

impl Rows {
    /// The key of a row, the type of the column, and its value.
    fn original(&mut self, (table, column): (&str, &str), number: usize) -> rusqlite::Result<Option<Original>> {
        let (key, mine) = (key_of(table), of_session(table));
        let sql = format!(
            "select cast({key} as text), typeof({column}), cast({column} as blob) from {table} where {mine} \
             order by {key} limit 1 offset {number}"
        );
        self.database.query_row(&sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
    }
}

impl Decoder for Rows {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let mut seeds = Vec::new();
        for (table, column) in COLUMNS {
            for number in 0..ROWS_MAX {
                let Some((_, _, value)) = self.original((table, column), number)? else { break };
                if let Some(value) = value
                    && value.len() < 64 * 1024
                {
                    seeds.push(Input::new(format!("{table} {column} {number}"), value));
                }
            }
        }
        Ok(seeds)
    }

    fn shape(&self, head: &str) -> Shape {
        match head.split(' ').nth(1).unwrap_or_default() {
            "body" | "head" | "seal" | "outcome" | "failure" | "window" | "receipt" | "truncation" => Shape::Wire,
            "metadata_json" => Shape::Json,
            _ => Shape::Bytes,
        }
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let mut words = input.head.split(' ');
        let (table, column) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some(position) = COLUMNS.iter().position(|known| *known == (table, column)) else {
            return Ok(Outcome::Refused);
        };
        let number = words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let found = self.original((table, column), number).map_err(|error| error.to_string())?;
        let Some((row, kind, original)) = found else { return Ok(Outcome::Refused) };
        let key = (key_of(table), row.as_str());
        let Instance { longhand, app, .. } = self.copy.instance()?;
        let (longhand, app) = (longhand.clone(), app.clone());
        let Self { copy, database, other: usual } = self;
        let altered = write(database, (table, column), key, &kind, Some(&input.body));
        // A tool cannot write a value that a strict table or a unique index refuses.
        if !matches!(altered, Ok(1)) {
            return Ok(Outcome::Refused);
        }
        let refused = copy.block_on(read_all(&longhand, table));
        let other = copy.block_on(answers_of_other(&app));
        let restored = write(database, (table, column), key, &kind, original.as_deref());
        if !matches!(restored, Ok(1)) {
            return Err(format!("{table}.{column} was not restored: {restored:?}"));
        }
        if position < OF_ONE_ROW {
            let difference = match &other {
                Ok(answers) => difference(usual, answers),
                Err(error) => Some(error.to_string()),
            };
            if let Some(difference) = difference {
                return Err(format!("{table}.{column} of one session changes another one's answers: {difference}"));
            }
        }
        for (what, error) in &refused {
            if error.reason == Reason::Internal {
                return Err(format!("{what} with another {table}.{column} is answered with INTERNAL: {error}"));
            }
        }
        Ok(if refused.is_empty() { Outcome::Taken } else { Outcome::Refused })
    }
}

//! The form of an archive: JSON lines. The first is a header, the last one counts and hashes those before it, and each
//! between them is one row of a table.

use super::tables::{TABLES, Table};
use crate::engine::Cell;
use crate::error::{Error, Result};
use crate::model::Revision;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the form.
const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// The version of the form. The field comes first, so that a file is recognized by its first bytes.
    pub(crate) longhand_archive: u32,
    /// The newest migration of the store that wrote it.
    pub(crate) schema: i64,
    /// That store's id.
    pub(crate) store_id: String,
    /// The session that it is the archive of.
    pub(crate) session_id: String,
    /// The sessions in it: that one, and those that it hangs on.
    pub(crate) sessions: Vec<ArchivedHead>,
}

/// The newest state of a session in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchivedHead {
    /// The session.
    pub(crate) session_id: String,
    /// Its newest revision.
    pub(crate) revision: Revision,
    /// The chain's hash there, as hex digits.
    pub(crate) hash: String,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Footer {
    /// The number of rows.
    rows: u64,
    /// BLAKE3 of all lines before this one, with their ends, as hex digits.
    hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    table: String,
    row: Map<String, Value>,
}

/// An archive that was read: its rows by the number of their table.
#[derive(Debug)]
pub struct Archive {
    pub(crate) header: Header,
    pub(super) rows: Vec<Vec<Vec<Cell>>>,
}

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Lines {
    hasher: blake3::Hasher,
    rows: u64,
    /// What was written and not taken yet.
    pub(super) bytes: Vec<u8>,
}

fn invalid(message: impl std::fmt::Display) -> Error {
    Error::ArchiveInvalid(message.to_string())
}

fn to_json(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) => Value::from(*number),
        Cell::Text(text) => Value::from(text.as_str()),
        Cell::Bytes(bytes) => Value::Array(vec![Value::from(STANDARD.encode(bytes))]),
    }
}

fn from_json(value: Value) -> Option<Cell> {
    Some(match value {
        Value::Null => Cell::Null,
        Value::Number(number) => Cell::Integer(number.as_i64()?),
        Value::String(text) => Cell::Text(text),
        Value::Array(mut one) if one.len() == 1 => Cell::Bytes(STANDARD.decode(one.pop()?.as_str()?).ok()?),
        Value::Array(_) | Value::Object(_) | Value::Bool(_) => return None,
    })
}

impl Lines {
    fn add(&mut self, line: &impl Serialize) -> Result<()> {
        let start = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, line).map_err(|_| Error::Bug("a line of an archive is no JSON"))?;
        self.bytes.push(b'\n');
        self.hasher.update(&self.bytes[start..]);
        Ok(())
    }

    /// Adds the first line.
    pub(super) fn begin(&mut self, header: &Header) -> Result<()> {
        self.add(header)
    }

    pub(super) fn row(&mut self, table: &Table, cells: &[Cell]) -> Result<()> {
        #[derive(Serialize)]
        struct Row<'a> {
            table: &'a str,
            row: Map<String, Value>,
        }
        let columns = table.columns.iter().zip(cells);
        let row = columns.map(|((name, _), cell)| ((*name).to_owned(), to_json(cell))).collect();
        self.rows += 1;
        self.add(&Row { table: table.name, row })
    }

    /// Adds the last line.
    pub(super) fn end(&mut self) -> Result<()> {
        let footer = Footer { rows: self.rows, hash: self.hasher.finalize().to_hex().to_string() };
        self.add(&footer)
    }
}

impl Header {
    /// A header of this version.
    pub(super) fn new(schema: i64, store_id: String, session_id: String, sessions: Vec<ArchivedHead>) -> Self {
        Self { longhand_archive: FORMAT, schema, store_id, session_id, sessions }
    }

    fn read(line: &[u8], schema: i64) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            longhand_archive: u32,
        }
        let Version { longhand_archive: version } =
            serde_json::from_slice(line).map_err(|error| invalid(format_args!("line 1 is no header: {error}")))?;
        if version != FORMAT {
            return Err(invalid(format_args!("its form is {version}, and {FORMAT} is the one that is read here")));
        }
        let header: Self =
            serde_json::from_slice(line).map_err(|error| invalid(format_args!("line 1 is no header: {error}")))?;
        if header.schema > schema {
            return Err(invalid(format_args!(
                "a newer version of Longhand wrote it: its schema is {}, and this one's {schema}",
                header.schema
            )));
        }
        Ok(header)
    }
}

impl Archive {
    /// The ids of the sessions that the first line of an archive names: the one that it is of, and then all; none if it is no
    /// such line.
    pub fn sessions(line: &[u8]) -> Vec<String> {
        let Ok(header) = serde_json::from_slice::<Header>(line) else { return Vec::new() };
        std::iter::once(header.session_id).chain(header.sessions.into_iter().map(|head| head.session_id)).collect()
    }

    /// Reads an archive. Its lines must be as they were written; what they say is checked when they are imported.
    ///
    /// # Errors
    ///
    /// `ArchiveInvalid`.
    pub fn read(bytes: &[u8], schema: i64) -> Result<Self> {
        let text = bytes.strip_suffix(b"\n").ok_or_else(|| invalid("its last line has no end"))?;
        let last = text.iter().rposition(|byte| *byte == b'\n').ok_or_else(|| invalid("it ends after its header"))?;
        let (body, footer) = (&bytes[..=last], &text[last + 1..]);
        let footer: Footer =
            serde_json::from_slice(footer).map_err(|_| invalid("its last line is missing: the file was cut off"))?;
        if blake3::hash(body).to_hex().as_str() != footer.hash {
            return Err(invalid("its lines are not those that were written"));
        }
        let mut lines = body[..last].split(|byte| *byte == b'\n');
        let header = Header::read(lines.next().unwrap_or_default(), schema)?;
        let mut archive = Self { header, rows: TABLES.iter().map(|_| Vec::new()).collect() };
        let mut rows = 0;
        for (number, line) in (2..).zip(lines) {
            archive.add(line, schema).map_err(|error| invalid(format_args!("line {number}: {error}")))?;
            rows += 1;
        }
        if rows != footer.rows {
            return Err(invalid(format_args!("it has {rows} rows, and {} were written", footer.rows)));
        }
        Ok(archive)
    }

    /// Its sessions, each with its newest revision.
    pub fn heads(&self) -> impl Iterator<Item = (&str, Revision)> {
        self.header.sessions.iter().map(|head| (head.session_id.as_str(), head.revision))
    }

    fn add(&mut self, line: &[u8], schema: i64) -> std::result::Result<(), String> {
        let Line { table, mut row } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let index = Table::index(&table).ok_or_else(|| format!("there is no table {table:?}"))?;
        let mut cells = Vec::with_capacity(TABLES[index].columns.len());
        for (name, _) in TABLES[index].columns {
            cells.push(match row.remove(*name) {
                Some(value) => from_json(value).ok_or_else(|| format!("{table}.{name} is no value of a column"))?,
                // The column is newer than the archive.
                None if self.header.schema < schema => Cell::Null,
                None => return Err(format!("{table}.{name} is missing")),
            });
        }
        match row.keys().next() {
            Some(other) => Err(format!("{table} has no column {other:?}")),
            None => {
                self.rows[index].push(cells);
                Ok(())
            }
        }
    }
}

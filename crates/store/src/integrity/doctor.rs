//! The examination of a store without a daemon, and the repair of what follows from other rows.

use super::copies::{self, CopyProgress, OnProgress};
use super::log_check::{Finding, LogCheck};
use super::verify::{self, CheckedChains, SessionCheck};
use crate::clock::Clock;
use crate::engine::Reader;
use crate::engine::connect::{self, Access};
use crate::engine::files::{self, DATABASE};
use crate::engine::readers::Readers;
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Revision;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

/// Something wrong in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The table; the name of the database if it is none in particular.
    pub table: String,
    /// The row by its key, or the session and revision by their ids; empty if it is none in particular.
    pub row: String,
    /// A description.
    pub message: String,
    /// True if it was repaired.
    pub repaired: bool,
}

/// The extent of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DoctorTotals {
    /// Checked sessions.
    pub sessions: i64,
    /// Checked events.
    pub events: i64,
    /// Diagnoses.
    pub findings: i64,
    /// Diagnoses that were repaired.
    pub repaired: i64,
}

/// Rows that follow from others.
struct Invariant {
    table: &'static str,
    message: &'static str,
    /// Returns the keys of the rows that break it.
    find: &'static str,
    /// Makes all of them follow from the others again; none if they cannot.
    repair: Option<&'static str>,
}

/// The invariants, in the order in which they are repaired. What a chain commits to is never repaired.
const INVARIANTS: [Invariant; 11] = [
    Invariant {
        table: "session",
        message: "its number of messages is wrong",
        find: "select id from session s where message_count is not \
             (select count(*) from message m where m.session_id = s.id and m.kind = 1)",
        repair: Some(
            "update session set message_count = \
             (select count(*) from message m where m.session_id = session.id and m.kind = 1)",
        ),
    },
    Invariant {
        table: "session",
        message: "its update_period is not that of its update_time",
        find: "select id from session where update_period is not \
             (update_time - (update_time % 1000000 + 1000000) % 1000000) / 1000000",
        repair: Some(
            "update session set update_period = \
             (update_time - (update_time % 1000000 + 1000000) % 1000000) / 1000000",
        ),
    },
    Invariant {
        table: "open_message",
        message: "its message is sealed or not there",
        find: "select message_id from open_message o where not exists \
             (select 1 from message m where m.id = o.message_id and m.sealed_revision is null)",
        repair: Some(
            "delete from open_message where not exists \
             (select 1 from message m where m.id = open_message.message_id and m.sealed_revision is null)",
        ),
    },
    Invariant {
        table: "open_message",
        message: "the row of an open message is missing",
        find: "select id from message m where sealed_revision is null \
             and not exists (select 1 from open_message o where o.message_id = m.id)",
        // It has expired: the next start of a daemon gives it its full timeout again. Those of archived sessions have
        // no time.
        repair: Some(
            "insert into open_message (message_id, session_id, timeout_ms, expire_time) \
             select id, session_id, 600000, case (select state from session s where s.id = m.session_id) \
             when 2 then null else 0 end from message m where sealed_revision is null \
             and not exists (select 1 from open_message o where o.message_id = m.id)",
        ),
    },
    Invariant {
        table: "draft",
        message: "its message is sealed",
        find: "select id from draft d where exists \
             (select 1 from message m where m.id = d.message_id and m.sealed_revision is not null)",
        repair: Some(
            "delete from draft where exists \
             (select 1 from message m where m.id = draft.message_id and m.sealed_revision is not null)",
        ),
    },
    Invariant {
        table: "draft",
        message: "its message is not there",
        find: "select id from draft d where not exists (select 1 from message m where m.id = d.message_id)",
        // Its text may be all that is left of the message.
        repair: None,
    },
    Invariant {
        table: "message_token_count",
        message: "its message is not there",
        find: "select hex(message_id) from message_token_count c where not exists \
             (select 1 from message m where m.public_id = c.message_id)",
        repair: Some(
            "delete from message_token_count where not exists \
             (select 1 from message m where m.public_id = message_token_count.message_id)",
        ),
    },
    Invariant {
        table: "search_progress",
        message: "the index is ahead of the session",
        find: "select p.session_id from search_progress p join session s on s.id = p.session_id \
             where p.revision > s.revision",
        repair: Some(
            "update search_progress set revision = (select revision from session s where s.id = session_id) \
             where revision > (select revision from session s where s.id = session_id)",
        ),
    },
    Invariant {
        table: "job",
        message: "its session has more than one current compaction",
        find: "select id from job j where +state in (1, 2) and +queued = 0 and exists \
             (select 1 from job o where +o.session_id = j.session_id and o.id <> j.id and +o.state in (1, 2) \
             and +o.queued = 0)",
        repair: None,
    },
    Invariant {
        table: "job",
        message: "it runs without a lease",
        find: "select id from job where +state = 2 and (lease_owner is null or lease_until is null)",
        // A lease that ran out: the next start of a daemon takes the job up again.
        repair: Some(
            "update job set lease_owner = coalesce(lease_owner, zeroblob(16)), lease_until = coalesce(lease_until, 0) \
             where +state = 2 and (lease_owner is null or lease_until is null)",
        ),
    },
    Invariant {
        table: "job",
        message: "its state contradicts its other columns",
        find: "select id from job where +state not between 1 and 7 or (queued <> 0 and +state = 2) \
             or (+state in (1, 2)) <> (end_time is null) or (+state <> 2 and lease_owner is not null)",
        repair: None,
    },
];

const LAST_EVENT: &str = "select coalesce(max(seq), 0) from event";
const HEADS: &str = "select s.id, s.revision, max(e.revision) from session s join event e on e.session_id = s.id \
     group by s.id having s.revision is not max(e.revision) \
     or s.chain_hash is not (select hash from event where session_id = s.id order by revision desc limit 1)";
const REPAIR_HEAD: &str = "update session set (revision, chain_hash) = (select revision, hash from event \
     where session_id = session.id order by revision desc limit 1) where id = ?1";
const REBUILD_SEARCH: &str =
    "insert into search (search) values ('delete-all'); update search_progress set revision = 0";
const INTEGRITY: &str = "pragma integrity_check(1000)";
const FOREIGN_KEYS: &str = "select \"table\", coalesce(rowid, ''), parent from pragma_foreign_key_check";

/// What an examination does about what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExaminationMode {
    /// It changes nothing.
    Report,
    /// Rows and indexes that follow from other rows are made to follow from them; nothing that a chain commits to is
    /// changed.
    Repair,
}

impl ExaminationMode {
    fn access(self) -> Access {
        match self {
            Self::Report => Access::Read,
            Self::Repair => Access::Write,
        }
    }
}

struct Examination<'a> {
    mode: ExaminationMode,
    found: &'a mut (dyn FnMut(Diagnosis) + Send),
    progress: OnProgress<'a>,
    examined: DoctorTotals,
}

/// Examines the store in a directory, which no daemon may have; `found` gets each diagnosis, and `progress` the
/// progress.
pub async fn examine(
    directory: &Path,
    mode: ExaminationMode,
    found: &mut (dyn FnMut(Diagnosis) + Send),
    progress: OnProgress<'_>,
) -> Result<DoctorTotals> {
    let directory = files::plain(directory)?;
    if !directory.join(DATABASE).is_file() {
        return Err(Error::Open(format!("{} has no {DATABASE}", directory.display())));
    }
    let (_held, state) = connect::claim(&directory).await?;
    if state != files::DatabaseState::Ours {
        return Err(Error::Open(format!("the database in {} is empty", directory.display())));
    }
    let mut examination = Examination { mode, found, progress, examined: DoctorTotals::default() };
    match examination.run(&directory).await {
        // Without a readable schema there is nothing more to examine.
        Err(error @ Error::Corrupt { .. }) => {
            examination.diagnose(DATABASE, "", format_args!("it cannot be read: {error}"), false);
        }
        outcome => outcome?,
    }
    Ok(examination.examined)
}

/// True if a line of SQLite's integrity check is about an index whose pages and table are whole.
fn is_of_index(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["missing from index", "entries in index", "entry in index", "values differ from index", "fts5"]
        .iter()
        .any(|form| line.contains(form))
}

impl Examination<'_> {
    fn repairs(&self) -> bool {
        self.mode == ExaminationMode::Repair
    }

    async fn run(&mut self, directory: &Path) -> Result<()> {
        let conn = connect::connect_existing(directory, self.mode.access())?;
        connect::check_version(&conn)?;
        match connect::applied(&conn, directory) {
            Err(error @ Error::Corrupt { .. }) => {
                self.diagnose(DATABASE, "", format_args!("its version cannot be read: {error}"), false);
            }
            known => drop(known?),
        }
        let (conn, lines) = self.pages(conn).await?;
        self.rows(&conn, lines)?;
        let events = engine::scalar(LAST_EVENT).one(&conn).unwrap_or(0);
        conn.close()?;
        let directory = directory.to_owned();
        let readers =
            Readers::new(1, Clock::default(), Box::new(move || connect::connect_existing(&directory, Access::Read)))?;
        self.chains(&readers, events).await
    }

    /// The findings of SQLite's integrity check, which can take minutes without a row.
    async fn pages(&self, conn: Connection) -> Result<(Connection, Vec<String>)> {
        let mut check = pin!(copies::blocking(move || {
            let lines = integrity(&conn);
            Ok((conn, lines))
        }));
        loop {
            match tokio::time::timeout(Duration::from_millis(limits::COPY_PROGRESS_MS), &mut check).await {
                Ok(done) => return done,
                Err(_) => (self.progress)(CopyProgress::Checking),
            }
        }
    }

    fn diagnose(&mut self, table: &str, row: impl ToString, message: impl ToString, repaired: bool) {
        self.examined.findings += 1;
        self.examined.repaired += i64::from(repaired);
        let (row, message) = (row.to_string(), message.to_string());
        (self.found)(Diagnosis { table: table.to_owned(), row, message, repaired });
    }

    /// Pages, indexes and constraints by the findings of SQLite, and rows that follow from others.
    fn rows(&mut self, conn: &Connection, mut lines: Vec<String>) -> Result<()> {
        if self.repairs() && !lines.iter().all(|line| is_of_index(line)) {
            // A write could take a page that is listed as free and holds rows. And indexes may name rows that are lost.
            self.mode = ExaminationMode::Report;
            self.diagnose(DATABASE, "", "pages are damaged, so nothing is repaired: export what can be read", false);
        }
        if self.repairs() && !lines.is_empty() {
            let before = lines;
            // Indexes follow from their tables. Damage elsewhere stays, and may keep an index from being built.
            drop(conn.execute_batch("reindex"));
            if before.iter().any(|line| line.to_ascii_lowercase().contains("fts5")) {
                // The daemon fills the index of words from the messages again.
                drop(conn.execute_batch(REBUILD_SEARCH));
            }
            lines = integrity(conn);
            for line in before.iter().filter(|line| !lines.contains(line)) {
                self.diagnose(DATABASE, "", line, true);
            }
        }
        for line in &lines {
            self.diagnose(DATABASE, "", line, false);
        }
        if let Err(error) = self.heads(conn) {
            self.diagnose("session", "", format_args!("heads cannot be compared: {error}"), false);
        }
        for invariant in &INVARIANTS {
            if let Err(error) = self.invariant(conn, invariant) {
                self.diagnose(invariant.table, "", format_args!("it cannot be read: {error}"), false);
            }
        }
        match engine::query(FOREIGN_KEYS).all(conn) {
            Ok(rows) => {
                for row in rows {
                    let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
                    // Tables without row ids have no number here.
                    let key = row.get::<i64>(1).unwrap_or_default();
                    self.diagnose(&table, key, format_args!("it refers to a row of {parent} that is not there"), false);
                }
            }
            Err(error) => self.diagnose(DATABASE, "", format_args!("foreign keys cannot be checked: {error}"), false),
        }
        Ok(())
    }

    fn invariant(&mut self, conn: &Connection, invariant: &Invariant) -> Result<()> {
        let keys = format!("select cast(key as text) from ({})", keyed(invariant));
        let rows = engine::query(&keys).all(conn)?;
        let repair = invariant.repair.filter(|_| self.repairs());
        if let Some(repair) = repair.filter(|_| !rows.is_empty()) {
            engine::query(repair).run(conn)?;
        }
        for row in rows {
            self.diagnose(invariant.table, row.get::<String>(0)?, invariant.message, repair.is_some());
        }
        Ok(())
    }

    /// The heads of sessions. A head is moved to the last event only if the session's events follow from each other and
    /// none is missing at the end: a repair must not make damage look whole.
    fn heads(&mut self, conn: &Connection) -> Result<()> {
        for row in engine::query(HEADS).all(conn)? {
            let (key, head, last): (i64, Revision, Revision) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let refusal = if head > last {
                Some(format!("events up to revision {head} are missing behind revision {last}"))
            } else {
                let broken = verify::broken_link(&mut Reader::new(conn), key)?;
                broken.map(|revision| format!("the chain is broken at revision {revision}"))
            };
            let repaired = self.repairs() && refusal.is_none();
            if repaired {
                engine::query(REPAIR_HEAD).bind(key).run(conn)?;
            }
            let refusal = refusal.map_or_else(String::new, |why| format!(", and cannot be moved there: {why}"));
            self.diagnose("session", key, format_args!("its head is not where its events end{refusal}"), repaired);
        }
        Ok(())
    }

    /// The hash chains. A session that cannot be read is a diagnosis, and the others are still checked.
    async fn chains(&mut self, readers: &Readers, total: i64) -> Result<()> {
        let mut last = 0;
        loop {
            let keys = match verify::sessions_after(readers, last).await {
                Ok(keys) => keys,
                Err(error) => {
                    self.diagnose("session", "", format_args!("sessions cannot be listed: {error}"), false);
                    return Ok(());
                }
            };
            let Some(newest) = keys.last().copied() else { break };
            for key in keys {
                self.chain(readers, key, total).await;
            }
            last = newest;
        }
        let mut log = LogCheck::default();
        let mut has_more = true;
        while has_more {
            match log.page(readers).await {
                Ok((findings, more)) => {
                    has_more = more;
                    self.report(findings);
                }
                Err(error) => {
                    has_more = false;
                    self.diagnose("event", "", format_args!("the log cannot be read: {error}"), false);
                }
            }
        }
        Ok(())
    }

    async fn chain(&mut self, readers: &Readers, key: i64, total: i64) {
        let mut check = SessionCheck::new(key);
        let mut checked = CheckedChains::default();
        let mut has_more = true;
        while has_more {
            match check.page(readers).await {
                Ok(page) => {
                    has_more = page.has_more;
                    checked.events += page.events;
                    let events = self.examined.events + checked.events;
                    (self.progress)(CopyProgress::Verifying { events, total });
                    self.report(page.findings);
                }
                Err(error) => {
                    has_more = false;
                    self.diagnose("session", key, format_args!("its history cannot be read: {error}"), false);
                }
            }
        }
        self.examined.sessions += 1;
        self.examined.events += checked.events;
    }

    fn report(&mut self, findings: Vec<Finding>) {
        for Finding { session, revision, message } in findings {
            let row = session.map_or_else(String::new, |session| format!("{session} #{revision}"));
            self.diagnose("event", row, message, false);
        }
    }
}

/// The keys of the rows that break an invariant, as a column `key`.
fn keyed(invariant: &Invariant) -> String {
    format!("with broken (key) as ({}) select key from broken", invariant.find)
}

/// The findings of SQLite's integrity check.
fn integrity(conn: &Connection) -> Vec<String> {
    match engine::scalar::<String>(INTEGRITY).all(conn) {
        Ok(lines) => lines.into_iter().filter(|line| line != "ok").collect(),
        Err(error) => vec![format!("it cannot be checked: {error}")],
    }
}

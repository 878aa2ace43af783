//! What an archive has of each table: one list, from which rows are read, written as lines, and inserted again.

/// A column of an archived table.
pub(super) enum Column {
    /// The value as it is.
    Same,
    /// The value, unless this revision, at which it was set, is after the archive's: null then.
    Until(&'static str),
    /// An expression in place of the column.
    As(&'static str),
    /// The key of a session, which is another one in another store.
    Session,
    /// The key of a message, which is another one in another store.
    Message,
    /// The number of an event, which is another one in another store.
    Seq,
    /// The seq of an answer, which is another one in another store.
    Receipt,
    /// A value of a table of imports, which is not inserted with the row.
    Origin(&'static str),
}

use Column::{As, Message, Origin, Receipt, Same, Seq, Session, Until};

/// A table of which an archive has rows.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The table as `t`, with what it is joined to.
    from: &'static str,
    /// The rows: of the session ?1, up to the revision ?2.
    rows: &'static str,
    /// The columns that order them without two equal rows.
    order: &'static [&'static str],
    pub(super) columns: &'static [(&'static str, Column)],
    /// Columns that are made anew where an archive is read, or never needed.
    #[cfg(test)]
    left_out: &'static [&'static str],
    /// Whose rows they are.
    pub(super) shared: RowSharing,
}

/// Whose rows a table has. A row that is there already is the same one if its key is a hash of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowSharing {
    /// Each is of one session.
    No,
    /// Each is of all sessions of a tenant, by its hash.
    InTenant,
    /// Each is of all sessions of the store, by its hash.
    InStore,
}

macro_rules! table {
    ($name:literal from $from:literal, rows $rows:literal, order $order:expr, columns $columns:expr, without $without:expr) => {
        table!($name from $from, rows $rows, order $order, columns $columns, without $without, shared RowSharing::No)
    };
    ($name:literal from $from:literal, rows $rows:literal, order $order:expr, columns $columns:expr, without $without:expr,
        shared $shared:expr) => {
        Table {
            name: $name,
            from: $from,
            rows: $rows,
            order: &$order,
            columns: &$columns,
            #[cfg(test)]
            left_out: &$without,
            shared: $shared,
        }
    };
}

/// The tables, each behind those that its rows refer to. A new table of a session's content is one entry.
pub(super) static TABLES: &[Table] = &[
    // Decisions and their conditions are made anew: an imported session is due.
    table!("session" from "session t left join import i on i.session_id = t.id",
    rows "t.id = ?1 and ?2 >= 0",
    order ["t.id"],
    columns [
        ("id", Session), ("public_id", Same), ("tenant", Origin("coalesce(i.tenant, t.tenant)")),
        ("client_id", Same), ("create_hash", Same), ("parent_id", Session), ("fork_id", Session),
        ("fork_revision", Same), ("create_time", Same), ("title", Same), ("state", Same), ("metadata_json", Same),
        ("window", Same), ("revision", Same), ("history_revision", Same), ("compaction_revision", Same),
        ("guard_revision", Same), ("undo_revision", Same), ("chain_hash", Same), ("message_count", Same),
        ("update_time", Same), ("appended_bytes", Same), ("content_bytes", Same), ("actor", Same),
        ("usage", Same), ("project", Same), ("directory", Same), ("origin_start_time", Same),
        ("origin_end_time", Same)
    ],
    without [
        "wake_bytes", "wake_on_reply", "wake_on_request", "wake_time", "due_revision", "due_time", "context_tokens",
        "context_revision", "failures", "hold_turns", "hold_breaker", "cooldown_end", "overhead_tokens", "over_window",
        "update_period"
    ]),
    table!("policy_text" from "policy_text t", rows "t.hash = ?1 and ?2 >= 0", order ["t.hash"],
        columns [("hash", Same), ("preset", Same), ("json", Same)], without [], shared RowSharing::InStore),
    table!("blob" from "blob t",
        rows "t.hash = ?1 and t.tenant = (select tenant from session where id = ?2)", order ["t.hash"],
        columns [("hash", Same), ("codec", Same), ("length", Same), ("data", Same)], without ["tenant"],
        shared RowSharing::InTenant),
    table!("segment" from "segment t", rows "t.session_id = ?1 and ?2 >= 0", order ["t.first_revision"],
        columns [
            ("session_id", Session), ("owner_id", Session), ("first_revision", Same), ("last_revision", Same),
            ("has_messages", Same)
        ],
        without []),
    table!("event" from "event t left join import_event o on o.session_id = t.session_id and o.revision = t.revision",
        rows "t.session_id = ?1 and t.revision <= ?2", order ["t.revision"],
        columns [
            ("seq", Seq), ("session_id", Session), ("revision", Same), ("kind", Same), ("ends_mutation", Same),
            ("time", Same), ("actor", Same), ("request_id", Same), ("body", Same), ("digest", Same), ("hash", Same),
            ("chain_seq", Origin("coalesce(o.seq, t.seq)"))
        ],
        without []),
    // Counted tokens are derived, and decisions are the same without them.
    table!("message" from "message t", rows "t.session_id = ?1 and t.revision <= ?2", order ["t.class", "t.revision"],
        columns [
            ("id", Message), ("session_id", Session), ("revision", Same), ("public_id", Same), ("client_id", Same),
            ("role", Same), ("kind", Same), ("class", Same), ("create_time", Same), ("head", Same),
            ("sealed_revision", Until("sealed_revision")), ("seal", Until("sealed_revision")), ("parts", Same),
            ("parts_length", Same)
        ],
        without ["counting", "counts"]),
    table!("part" from "message m join part t on t.message_id = m.id",
        rows "m.session_id = ?1 and t.revision <= ?2", order ["m.class", "m.revision", "t.position"],
        columns [
            ("message_id", Message), ("position", Same), ("number", Same), ("revision", Same), ("client_id", Same),
            ("kind", Same), ("codec", Same), ("length", Same), ("salt", Same), ("body", Same), ("blob_hash", Same),
            ("call_message", Same)
        ],
        without []),
    table!("mark" from "mark t", rows "t.session_id = ?1 and t.revision <= ?2", order ["t.revision"],
        columns [
            ("session_id", Session), ("revision", Same), ("kind", Same), ("body", Same),
            ("voided_revision", Until("voided_revision"))
        ],
        without []),
    table!("pruned" from "pruned t", rows "t.session_id = ?1 and t.revision <= ?2",
        order ["t.revision", "t.message_id", "t.number"],
        columns [
            ("message_id", Message), ("number", Same), ("session_id", Session), ("revision", Same),
            ("compaction_id", Same), ("truncation", Same)
        ],
        without []),
    table!("layout" from "layout t", rows "t.session_id = ?1 and t.revision <= ?2", order ["t.revision"],
        columns [("session_id", Session), ("revision", Same), ("body", Same)], without []),
    table!("policy" from "policy t", rows "t.session_id = ?1 and t.revision <= ?2", order ["t.revision"],
        columns [("session_id", Session), ("revision", Same), ("hash", Same)], without []),
    table!("window" from "\"window\" t", rows "t.session_id = ?1 and t.revision <= ?2", order ["t.revision"],
        columns [("session_id", Session), ("revision", Same), ("body", Same)], without []),
    // Its time begins anew, as after a restart.
    table!("open_message" from "open_message t", rows "t.session_id = ?1 and ?2 >= 0", order ["t.message_id"],
        columns [("message_id", Message), ("session_id", Session), ("timeout_ms", Same)], without ["expire_time"]),
    table!("draft" from "open_message m join draft t on t.message_id = m.message_id",
        rows "m.session_id = ?1 and ?2 >= 0", order ["t.id"],
        columns [
            ("message_id", Message), ("number", Same), ("client_id", Same), ("kind", Same), ("body", Same),
            ("call_id", Same), ("tool", Same), ("call_message", Same), ("hidden", Same), ("refused", Same)
        ],
        without ["id"]),
    table!("tool_call" from "tool_call t", rows "t.session_id = ?1 and t.revision <= ?2",
        order ["t.call_id", "t.writer", "t.revision", "t.position"],
        columns [
            ("session_id", Session), ("call_id", Same), ("writer", Same), ("revision", Same), ("position", Same),
            ("message", Same), ("answered_revision", Until("answered_revision"))
        ],
        without []),
    // A job that has not ended waits for a worker again, as after a restart.
    table!("job" from "job t", rows "t.session_id = ?1 and t.requested_revision <= ?2", order ["t.id"],
        columns [
            ("public_id", Same), ("session_id", Session), ("kind", Same), ("trigger", Same), ("level", Same),
            ("state", As("case when t.state = 2 or t.ended_revision > ?2 then 1 else t.state end")), ("queued", Same),
            ("proposed", Same), ("notice", Same), ("instructions", Same), ("head_start", Same), ("tail_start", Same),
            ("actor", Same), ("base_revision", Until("base_revision")), ("requested_revision", Same),
            ("tokens_at_request", Same), ("window", Same), ("attempt", Same), ("lost_attempts", Same),
            ("lease_epoch", Same), ("run_at", Same), ("started_revision", Until("started_revision")),
            ("ended_revision", Until("ended_revision")), ("undone_revision", Until("undone_revision")),
            ("outcome", Until("ended_revision")),
            // One that never began has an end without a revision.
            ("failure", As("case when t.ended_revision > ?2 then null else t.failure end")), ("create_time", Same),
            ("start_time", Until("started_revision")),
            ("end_time", As("case when t.ended_revision > ?2 then null else t.end_time end"))
        ],
        // A digest follows from messages, and is made again where it is missing.
        without ["id", "lease_owner", "lease_until", "digest"]),
    // The lease of an active run begins anew, as after a restart.
    table!("run" from "run t", rows "t.session_id = ?1 and t.start_revision <= ?2", order ["t.epoch"],
        columns [
            ("session_id", Session), ("epoch", Same), ("public_id", Same), ("actor", Same), ("lease_ms", Same),
            ("lease_until", As("case when t.end_revision <= ?2 then null else coalesce(t.lease_until, 0) end")),
            ("start_revision", Same), ("start_time", Same), ("cancel_revision", Until("cancel_revision")),
            ("end_reason", Until("end_revision")), ("end_revision", Until("end_revision")),
            ("end_time", Until("end_revision")),
            ("failure", As("case when t.end_revision <= ?2 then t.failure else '' end"))
        ],
        without []),
    table!("prompt" from "prompt t", rows "t.session_id = ?1 and t.submit_revision <= ?2", order ["t.id"],
        columns [
            ("session_id", Session), ("public_id", Same), ("delivery", Same), ("actor", Same), ("metadata_json", Same),
            ("parts", Same), ("create_time", Same), ("submit_revision", Same),
            ("rank", As("case when t.end_revision <= ?2 then null else coalesce(t.rank, t.id) end")),
            ("end_epoch", Until("end_revision")), ("end_revision", Until("end_revision"))
        ],
        without ["id"]),
    table!("approval" from "approval t", rows "t.session_id = ?1 and t.request_revision <= ?2", order ["t.id"],
        columns [
            ("session_id", Session), ("public_id", Same), ("epoch", Same), ("actor", Same), ("create_time", Same),
            ("request_revision", Same), ("timeout_ms", Same), ("salt", Same), ("question", Same),
            ("end_reason", Until("end_revision")), ("end_revision", Until("end_revision")),
            ("end_time", Until("end_revision")), ("end_actor", Until("end_revision")),
            ("answer_salt", Until("end_revision")), ("answer", Until("end_revision"))
        ],
        without ["id", "expire_time"]),
    table!("tombstone" from "tombstone t", rows "t.session_id = ?1 and t.erase_revision <= ?2",
        order ["t.revision", "t.erase_revision"],
        columns [
            ("session_id", Session), ("revision", Same), ("erase_revision", Same), ("digest", Same), ("hash", Same)
        ],
        without []),
    table!("erasure" from "erasure t", rows "t.session_id = ?1 and t.revision <= ?2", order ["t.revision"],
        columns [
            ("public_id", Same), ("session_id", Session), ("revision", Same), ("target", Same), ("message_id", Same),
            ("part_number", Same), ("time", Same), ("messages", Same), ("parts", Same), ("bytes", Same),
            ("summaries", Same), ("forks", Same), ("blobs", Same), ("is_clean", As("1"))
        ],
        without ["id"]),
    table!("request" from "request t", rows "t.session_id = ?1 and ?2 >= 0", order ["t.request_id"],
        columns [("session_id", Session), ("request_id", Same), ("payload_hash", Same), ("receipt", Receipt)],
        without []),
];

/// Tables of which an archive has nothing, with the reason.
#[cfg(test)]
const NOT_ARCHIVED: [(&str, &str); 20] = [
    ("migration", "of the store; the header of an archive names the newest one"),
    ("store", "of the store"),
    ("access_token", "of the store"),
    ("import", "the line of a session has the tenant that its chain commits to"),
    ("import_event", "the line of an event has the number that its hash commits to"),
    ("session_label", "follows from the events"),
    ("compaction_count", "totals of the store"),
    ("summarizer_spending", "totals of the store"),
    ("contradiction_count", "totals of the store"),
    ("summary_request", "the daemon that sent them has counted and paid them, and the quota of a day has them"),
    ("message_token_count", "derived: tokens are counted again"),
    ("search", "derived: messages are indexed again"),
    ("search_progress", "derived, with the index"),
    ("scrub", "of the store"),
    ("clock_segment", "of the store's clock"),
    ("erased_session", "keyed with the store's secret"),
    ("erased_content", "keyed with the store's secret"),
    ("erasing", "of the store, and the session has no archive until it is gone"),
    ("blob_use", "follows from the parts"),
    ("blob_use_missing", "of the store"),
];

impl Table {
    /// The number of a table in the list, by its name.
    pub(super) fn index(name: &str) -> Option<usize> {
        TABLES.iter().position(|table| table.name == name)
    }

    /// The number of a column, by its name.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|(column, _)| *column == name)
    }

    /// The number of columns that order the rows; their values follow those of the columns in a row that is read.
    pub(super) fn order_len(&self) -> usize {
        self.order.len()
    }

    /// The statement for a page of rows: of the session ?1 (or with the hash ?1), as of the revision ?2, behind the row with the
    /// values ?3 and so on of the columns that order them, if it is not the first page.
    pub(super) fn select(&self, is_first: bool) -> String {
        let value = |(name, column): &(&str, Column)| match column {
            Column::Until(revision) => format!("case when t.{revision} <= ?2 then t.\"{name}\" end"),
            Column::As(expression) | Column::Origin(expression) => (*expression).to_owned(),
            Column::Same | Column::Session | Column::Message | Column::Seq | Column::Receipt => format!("t.\"{name}\""),
        };
        let values: Vec<String> = self.columns.iter().map(value).collect();
        let (from, rows, order) = (self.from, self.rows, self.order.join(", "));
        let behind: Vec<String> = (0..self.order.len()).map(|index| format!("?{}", index + 3)).collect();
        let behind = match self.order {
            _ if is_first => String::new(),
            // An index leads to the first two of the columns.
            [first, second, _, ..] => {
                format!(" and ({first}, {second}) >= (?3, ?4) and ({order}) > ({})", behind.join(", "))
            }
            _ => format!(" and ({order}) > ({})", behind.join(", ")),
        };
        format!("select {}, {order} from {from} where {rows}{behind} order by {order}", values.join(", "))
    }

    /// The columns that are inserted with a row.
    pub(super) fn inserted(&self) -> impl Iterator<Item = (usize, &'static str, &'static Column)> {
        let columns = self.columns.iter().enumerate().map(|(index, (name, column))| (index, *name, column));
        columns.filter(|(_, _, column)| !matches!(column, Column::Origin(_)))
    }

    /// The statement that inserts a row. The tenant is behind the columns of those that only a tenant shares.
    pub(super) fn insert(&self) -> String {
        let mut names: Vec<String> = self.inserted().map(|(_, name, _)| format!("\"{name}\"")).collect();
        let conflict = match self.shared {
            RowSharing::No => "",
            RowSharing::InTenant => " on conflict (tenant, hash) do nothing",
            RowSharing::InStore => " on conflict (hash) do nothing",
        };
        names.extend((self.shared == RowSharing::InTenant).then(|| "tenant".to_owned()));
        let values: Vec<String> = (1..=names.len()).map(|number| format!("?{number}")).collect();
        format!("insert into \"{}\" ({}) values ({}){conflict}", self.name, names.join(", "), values.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{self, Connection};
    use std::collections::BTreeSet;

    /// A database with the schema of this version.
    fn database() -> Connection {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
        let mut files: Vec<_> =
            std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
        files.sort();
        let conn = Connection::open_in_memory().expect("a database");
        for file in files {
            conn.execute_batch(&std::fs::read_to_string(file).expect("a migration")).expect("migrated");
        }
        conn
    }

    fn names(conn: &Connection, sql: &str) -> BTreeSet<String> {
        engine::scalar(sql).all(conn).expect("names").into_iter().collect()
    }

    #[test]
    fn an_archive_has_every_table_and_column_or_a_reason_not_to() {
        let conn = database();
        let there = names(
            &conn,
            "select name from pragma_table_list where schema = 'main' and type in ('table', 'virtual') \
             and name not like 'sqlite_%'",
        );
        let listed = TABLES.iter().map(|table| table.name).chain(NOT_ARCHIVED.iter().map(|(name, _)| *name));
        let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
        assert_eq!(listed, there, "the tables of an archive, and those of which it has nothing");
        for table in TABLES {
            let columns = names(&conn, &format!("select name from pragma_table_info('{}')", table.name));
            let archived = table.columns.iter().filter(|(name, column)| {
                // A session has a tenant of its own; the number in the chain is no column of the event.
                !matches!(column, Column::Origin(_)) || columns.contains(*name)
            });
            let listed = archived.map(|(name, _)| *name).chain(table.left_out.iter().copied());
            let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
            assert_eq!(listed, columns, "the columns of {}", table.name);
        }
    }

    #[test]
    fn the_statements_of_all_tables_can_be_prepared_and_read_no_table_whole() {
        let conn = database();
        for table in TABLES {
            for is_first in [true, false] {
                let select = table.select(is_first);
                let mut plan = conn
                    .sqlite()
                    .expect("a file")
                    .prepare(&format!("explain query plan {select}"))
                    .unwrap_or_else(|error| panic!("{error}: {select}"));
                let mut rows = plan.raw_query();
                while let Some(row) = rows.next().expect("a step") {
                    let step: String = row.get(3).expect("a text");
                    assert!(!step.starts_with("SCAN"), "{}: {step}", table.name);
                }
            }
            conn.sqlite()
                .expect("a file")
                .prepare(&table.insert())
                .unwrap_or_else(|error| panic!("{error}: {}", table.insert()));
        }
    }
}

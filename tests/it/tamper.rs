//! P13: everything altered, dropped or inserted without the store is found, with its location.

use crate::database::Database;
use crate::support::{Line, ScriptedSummarizer, TestApp, call, connect, filler, result, text, turns, window};
use longhand::app::admin::ChainHead;
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::model::compaction::CompactionKind;
use longhand::model::draft::DraftKind;
use longhand::model::event::EventKind;
use longhand::model::mark::WordsStance;
use longhand::model::message::{Finish, FinishReason};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};
use longhand::model::usage::Usage;
use longhand::store::Finding;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A store with every kind of row.
pub(crate) async fn rich() -> TestApp {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Say("S1".to_owned()), Line::Say("S2".to_owned())])).await;
    let session = test
        .create(NewSession {
            client_id: Some("main".to_owned()),
            title: "everything".to_owned(),
            window: window(6_000, 1_000),
            metadata_json: Some("{\"a\": 1}".to_owned()),
            ..NewSession::default()
        })
        .await;
    let app = &test.app;
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    watch.wait_for(EventKind::Compacted).await;
    app.compactions().undo(&session, None).await.expect("undone");
    app.compactions().redo(&session, None).await.expect("redone");
    app.compactions().undo(&session, None).await.expect("undone again");
    test.append(&session, "u10 \"go on\"\nr1 \"{}\"").await;
    watch.wait_for(EventKind::Compacted).await;
    test.once("large", "large").messages().append(&session, large(), None, None).await.expect("appended");
    test.append(&session, "a11 \"be\" open").await;
    let words =
        NewDraftText { part: None, client_id: None, kind: DraftKind::Reasoning, offset: 0, delta: "hm".to_owned() };
    let draft = app.messages().append_draft(&session, "a11", words).await.expect("drafted");
    let mut parts = vec![OpenPart::draft(draft.part, None), OpenPart::Whole(text("gin"))];
    parts.extend(large().remove(0).parts.into_iter().chain([call("c1"), result("c1", "done")]).map(OpenPart::Whole));
    test.by("bob").messages().append_parts(&session, "a11", parts).await.expect("added");
    let usage = Usage { input: 9, output: 1, ..Usage::default() };
    let finish = Finish { reason: Some(FinishReason::Stop), usage: Some(usage), ..Finish::default() };
    test.by("bob").messages().finish(&session, "a11", finish, None).await.expect("sealed");
    app.messages().edit(&session, "a11", &[text("better")], None).await.expect("edited");
    app.messages().edit(&session, "u10", &[], None).await.expect("left out");
    app.messages().pin(&session, "u2").await.expect("pinned");
    app.messages().pin(&session, "u3").await.expect("pinned");
    app.messages().unpin(&session, "u3").await.expect("unpinned");
    app.messages().mark_words(&session, "u3", Some(WordsStance::Struck)).await.expect("marked");
    test.append(&session, "u12 \"a wrong turn\"\na12 \"indeed\"").await;
    app.messages().rewind(&session, "u10", None).await.expect("rewound");
    let policy = SessionChange { preset: Some("pi@1.5".to_owned()), ..SessionChange::default() };
    app.sessions().update(&session, policy).await.expect("changed");
    app.sessions().archive(&session).await.expect("archived");
    app.sessions().restore(&session).await.expect("restored");
    let pruned = crate::support::prunable(&test).await;
    app.compactions().start(&pruned, NewCompaction::of_kind(CompactionKind::Prune)).await.expect("something to prune");
    watch.wait_for(EventKind::PartsPruned).await;
    test.settled().await;
    let fork = app.sessions().fork(&pruned, ForkPoint::default(), Some("fork".to_owned()), String::new()).await;
    let fork = fork.expect("forked").0.session.id.to_string();
    test.append(&fork, "u20 \"elsewhere\"").await;
    app.compactions().undo(&fork, None).await.expect("undone");
    let summary = NewSummary { text: "brought".to_owned(), tail_start: "u20".to_owned(), ..NewSummary::default() };
    app.compactions().supply_summary(&fork, summary).await.expect("supplied");
    let deeper = app.sessions().fork(&fork, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    let child = NewSession { parent: Some(deeper.session.id.to_string()), ..NewSession::default() };
    let child = test.create(child).await;
    test.append(&child, "u1 \"for somebody\"").await;
    test.settled().await;
    test
}

/// A message with a text and an image that are blobs, and a compressed text.
fn large() -> Vec<longhand::model::message::NewMessage> {
    let mut messages = crate::support::conversation("u11 \"look\"");
    let bytes = (0..100_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let image =
        Media { mime_type: "image/png".to_owned(), name: "x.png".to_owned(), source: MediaSource::Bytes(bytes) };
    let body = NewPart {
        client_id: Some("body".to_owned()),
        metadata_json: Some("{}".to_owned()),
        ..NewPart::new(PartBody::Text(filler("blob", 100_000)))
    };
    messages[0].parts = vec![body, NewPart::new(PartBody::Media(image)), text(&filler("packed", 5_000))];
    messages[0].metadata_json = Some("[1]".to_owned());
    messages
}

pub(crate) async fn closed() -> Arc<TempDir> {
    let test = rich().await;
    assert_eq!(test.findings().await, []);
    let directory = test.stop().await;
    let again = TestApp::copy_of(directory.path()).await;
    assert_eq!(again.findings().await, [], "an untouched copy is whole");
    directory
}

/// An alteration of a value.
#[derive(Debug, Clone, Copy)]
enum Alter {
    /// Adds one.
    Step,
    /// Adds a lot, where a small step could be another row's value.
    Jump,
    /// Appends a letter.
    Letter,
    /// Changes the last byte.
    Byte,
    /// Sets the value to null.
    Toggle,
    /// Inverts a truth value.
    Flip,
    /// Sets a truth value to neither.
    Neither,
    /// Sets the parts of a message and their length to null.
    Remove,
}

impl Alter {
    fn expression(self, column: &str) -> String {
        match self {
            Self::Step => format!("{column} + 1"),
            Self::Jump => format!("{column} + 1000"),
            Self::Letter => format!("{column} || 'x'"),
            Self::Byte => {
                if crate::engines::is_sqlite() {
                    let other = format!("iif(hex(substr({column}, -1)) = 'FE', '01', 'FE')");
                    return format!("unhex(hex(substr({column}, 1, length({column}) - 1)) || {other})");
                }
                let last = format!("octet_length({column}) - 1");
                format!("set_byte({column}, {last}, 255 - get_byte({column}, {last}))")
            }
            Self::Toggle => "null".to_owned(),
            Self::Flip => format!("1 - {column}"),
            Self::Neither => "2".to_owned(),
            Self::Remove => "null, parts_length = null".to_owned(),
        }
    }
}

use Alter::{Byte, Flip, Jump, Letter, Neither, Remove, Step, Toggle};

/// Every column that a view or a replay reads, with its alterations. Not included: `id` of `message`, which only
/// identifies rows of parts and of prune marks and is altered from their side, and rows outside of the history: jobs,
/// drafts, requests, running totals.
const COLUMNS: &[(&str, &str, &[Alter])] = &[
    ("event", "seq", &[Jump]),
    ("event", "session_id", &[Jump]),
    ("event", "revision", &[Jump]),
    ("event", "kind", &[Step]),
    ("event", "ends_mutation", &[Flip]),
    ("event", "time", &[Step]),
    ("event", "actor", &[Letter]),
    ("event", "request_id", &[Letter]),
    ("event", "body", &[Byte]),
    ("event", "digest", &[Byte]),
    ("event", "hash", &[Byte]),
    ("message", "session_id", &[Jump]),
    ("message", "revision", &[Jump]),
    ("message", "public_id", &[Byte]),
    ("message", "client_id", &[Letter, Toggle]),
    ("message", "role", &[Step]),
    ("message", "kind", &[Step]),
    ("message", "class", &[Step]),
    ("message", "create_time", &[Step]),
    ("message", "head", &[Byte]),
    ("message", "sealed_revision", &[Step, Toggle]),
    ("message", "seal", &[Byte, Toggle]),
    ("message", "parts", &[Byte, Remove]),
    ("message", "parts_length", &[Step]),
    ("part", "message_id", &[Jump]),
    ("part", "position", &[Jump]),
    ("part", "revision", &[Step]),
    ("part", "number", &[Step]),
    ("part", "client_id", &[Letter, Toggle]),
    ("part", "kind", &[Step]),
    ("part", "codec", &[Flip]),
    ("part", "length", &[Step]),
    ("part", "salt", &[Byte]),
    ("part", "body", &[Byte, Toggle]),
    ("part", "blob_hash", &[Byte, Toggle]),
    ("part", "call_message", &[Byte, Toggle]),
    ("blob", "hash", &[Byte]),
    ("blob", "codec", &[Flip]),
    ("blob", "length", &[Step]),
    ("blob", "data", &[Byte]),
    ("mark", "session_id", &[Jump]),
    ("mark", "revision", &[Jump]),
    ("mark", "kind", &[Step]),
    ("mark", "body", &[Byte]),
    ("mark", "voided_revision", &[Step, Toggle]),
    ("pruned", "message_id", &[Jump]),
    ("pruned", "number", &[Step]),
    ("pruned", "session_id", &[Jump]),
    ("pruned", "revision", &[Jump]),
    ("pruned", "compaction_id", &[Byte]),
    ("pruned", "truncation", &[Byte]),
    ("layout", "session_id", &[Jump]),
    ("layout", "revision", &[Jump]),
    ("layout", "body", &[Byte]),
    ("policy", "session_id", &[Jump]),
    ("policy", "revision", &[Jump]),
    ("policy", "hash", &[Byte]),
    ("window", "session_id", &[Jump]),
    ("window", "revision", &[Jump]),
    ("window", "body", &[Byte]),
    ("policy_text", "hash", &[Byte]),
    ("policy_text", "preset", &[Letter]),
    ("policy_text", "json", &[Letter]),
    ("segment", "session_id", &[Jump]),
    ("segment", "owner_id", &[Jump]),
    ("segment", "first_revision", &[Step]),
    ("segment", "last_revision", &[Step]),
    ("segment", "has_messages", &[Flip, Neither]),
    ("session", "id", &[Jump]),
    ("session", "public_id", &[Byte]),
    ("session", "client_id", &[Letter, Toggle]),
    ("session", "parent_id", &[Toggle]),
    ("session", "fork_id", &[Toggle]),
    ("session", "fork_revision", &[Step, Toggle]),
    ("session", "create_time", &[Step]),
    ("session", "title", &[Letter]),
    ("session", "state", &[Step]),
    ("session", "metadata_json", &[Letter, Toggle]),
    ("session", "window", &[Byte]),
    ("session", "revision", &[Step]),
    ("session", "chain_hash", &[Byte]),
    ("session", "history_revision", &[Step]),
    ("session", "update_time", &[Step]),
];

/// The key columns of a table.
fn key(table: &str) -> &'static str {
    match table {
        "event" => "seq",
        "message" | "session" => "id",
        "part" => "message_id, position",
        "blob" | "policy_text" => "hash",
        "mark" | "layout" | "policy" | "window" => "session_id, revision",
        "pruned" => "message_id, number, session_id, revision",
        "segment" => "session_id, first_revision",
        other => panic!("no key is known of {other}"),
    }
}

/// A condition for the first or the last row of a table with a value in this column.
fn pick(table: &str, column: &str, last: bool) -> String {
    let key = key(table);
    let order = if last { key.replace(", ", " desc, ") + " desc" } else { key.to_owned() };
    format!(
        "({key}) = (select {key} from {table} where {column} is not null and length({column}) > 0 \
         order by {order} limit 1)"
    )
}

/// The session of a row, as findings name it; none for rows that sessions share.
fn owner(database: &mut Database, table: &str, row: &str) -> Option<String> {
    let owner = match table {
        "blob" | "policy_text" => return None,
        "session" => "id",
        "part" => "(select session_id from message m where m.id = message_id)",
        _ => "session_id",
    };
    let sql = format!("select lower(hex(public_id)) from session where id = (select {owner} from {table} where {row})");
    let id: String = database.value(&sql);
    Some(format!("ses_{id}"))
}

/// The findings of a check after an alteration.
async fn found(directory: &Path, sql: &str) -> Vec<Finding> {
    let test = TestApp::altered(directory, sql).await;
    let findings = test.findings().await;
    test.stop().await;
    findings
}

fn names(findings: &[Finding], owner: Option<&str>) -> bool {
    let is_it = |finding: &Finding| match (finding.session, owner) {
        (Some(session), Some(owner)) => session.to_string() == owner,
        (Some(_), None) => true,
        (None, _) => false,
    };
    findings.iter().any(is_it)
}

#[tokio::test]
async fn an_alteration_of_any_column_is_found_and_named() {
    let directory = closed().await;
    let mut database = Database::of(directory.path());
    let mut undetected = Vec::new();
    for (table, column, alterations) in COLUMNS {
        for alter in *alterations {
            for last in [false, true] {
                let row = pick(table, column, last);
                let mut owner = owner(&mut database, table, &row);
                if (*table, *column) == ("session", "public_id") {
                    // The session can only be reported by its present name.
                    owner = None;
                }
                let sql = format!("update {table} set {column} = {} where {row}", alter.expression(column));
                let findings = found(directory.path(), &sql).await;
                if !names(&findings, owner.as_deref()) {
                    undetected.push(format!("{sql}\nwas not found for {owner:?}: {findings:?}"));
                }
            }
        }
    }
    assert_eq!(undetected, Vec::<String>::new());
}

/// An alteration of a table that leaves an index as it was, as by damage to a page of the table.
fn beside_index(folder: &Path, index: &str, sql: &str) {
    let database = connect(folder);
    database.execute_batch("pragma writable_schema = on").expect("a pragma");
    let saved = format!("create table kept as select * from sqlite_master where name = '{index}'");
    database.execute_batch(&saved).expect("kept");
    database.execute_batch(&format!("delete from sqlite_master where name = '{index}'")).expect("hidden");
    database.close().expect("closed");
    let database = connect(folder);
    for trigger in crate::support::column(&database, "select name from sqlite_master where type = 'trigger'") {
        database.execute_batch(&format!("drop trigger {trigger}")).expect("dropped");
    }
    assert_eq!(database.execute(sql, ()).expect(sql), 1, "{sql}");
    database.execute_batch("pragma writable_schema = on").expect("a pragma");
    database.execute_batch("insert into sqlite_master select * from kept").expect("shown again");
    database.close().expect("closed");
}

#[tokio::test]
async fn an_alteration_that_an_index_does_not_have_is_found() {
    let directory = closed().await;
    for (index, sql) in [
        ("message_class", "update message set revision = 7000 where id = 5"),
        ("message_class", "update message set session_id = 77 where id = 5"),
        ("message_class", "update message set class = 1 where id = 5"),
        ("event_revision", "update event set revision = 7000 where seq = 9"),
        ("event_revision", "update event set session_id = 2 where seq = 9"),
    ] {
        let folder = crate::support::private_folder();
        crate::support::copy_database(directory.path(), folder.path());
        beside_index(folder.path(), index, sql);
        assert_ne!(TestApp::copy_of(folder.path()).await.findings().await, [], "{sql}");
    }
}

#[tokio::test]
async fn an_alteration_is_found_at_its_revision() {
    let directory = closed().await;
    let mut database = Database::of(directory.path());
    for (table, column) in [
        ("event", "body"),
        ("message", "head"),
        ("part", "salt"),
        ("mark", "body"),
        ("pruned", "compaction_id"),
        ("layout", "body"),
        ("policy", "hash"),
        ("window", "body"),
    ] {
        for last in [false, true] {
            let row = pick(table, column, last);
            let sql = format!("select revision from {table} where {row}");
            let revision: i64 = database.value(&sql);
            let sql = format!("update {table} set {column} = {} where {row}", Alter::Byte.expression(column));
            let findings = found(directory.path(), &sql).await;
            let at: Vec<i64> = findings.iter().map(|finding| finding.revision).collect();
            assert!(at.contains(&revision), "{sql}\nis at {revision}, found at {at:?}");
        }
    }
}

#[tokio::test]
async fn a_row_that_is_gone_is_found_and_named() {
    let directory = closed().await;
    let mut database = Database::of(directory.path());
    for table in
        ["event", "message", "part", "blob", "mark", "pruned", "layout", "policy", "policy_text", "window", "segment"]
    {
        for last in [false, true] {
            let row = pick(table, key(table).split(", ").next().expect("a key"), last);
            let owner = owner(&mut database, table, &row);
            let sql = format!("delete from {table} where {row}");
            let findings = found(directory.path(), &sql).await;
            assert!(names(&findings, owner.as_deref()), "{sql}\nwas not found for {owner:?}: {findings:?}");
        }
    }
    for last in [false, true] {
        let sql = format!("delete from session where {}", pick("session", "id", last));
        let findings = found(directory.path(), &sql).await;
        assert!(!findings.is_empty(), "{sql}\nnobody is left to be named, but the log is not whole");
    }
}

#[tokio::test]
async fn a_row_that_nobody_wrote_is_found_and_named() {
    let directory = closed().await;
    let mut database = Database::of(directory.path());
    let id = "randomblob(16)";
    for (table, columns) in [
        (
            "event",
            "select (select max(seq) + 1 from event), session_id, 5000, kind, ends_mutation, time, actor, request_id, \
             body, digest, hash"
                .to_owned(),
        ),
        (
            "message",
            format!(
                "select 90000, session_id, 5000, {id}, 'x', role, kind, class, create_time, head, sealed_revision, seal, \
                 parts, parts_length, null, null"
            ),
        ),
        (
            "part",
            "select message_id, 5000, 5000, revision, null, kind, codec, length, salt, body, blob_hash, null"
                .to_owned(),
        ),
        ("part", "select message_id, 5000, 5000, 1, null, kind, codec, length, salt, body, blob_hash, null".to_owned()),
        ("mark", "select session_id, 1, kind, body, null".to_owned()),
        ("pruned", "select message_id - 1, number, session_id, revision, compaction_id, truncation".to_owned()),
        ("pruned", "select message_id, number, session_id, 1, compaction_id, truncation".to_owned()),
        ("layout", "select session_id, 2, body".to_owned()),
        ("policy", "select session_id, 5000, hash".to_owned()),
        ("window", "select session_id, 5000, body".to_owned()),
        ("segment", "select session_id, owner_id, 5000, 5001, 1".to_owned()),
    ] {
        let row = pick(table, key(table).split(", ").next().expect("a key"), true);
        let owner = owner(&mut database, table, &row);
        let sql = format!("insert into {table} {columns} from {table} where {row}");
        let findings = found(directory.path(), &sql).await;
        assert!(names(&findings, owner.as_deref()), "{sql}\nwas not found for {owner:?}: {findings:?}");
    }
}

#[tokio::test]
async fn a_check_of_one_session_reads_only_that_one() {
    let directory = closed().await;
    let sql =
        format!("update part set salt = {} where {}", Alter::Byte.expression("salt"), pick("part", "salt", false));
    let test = TestApp::altered(directory.path(), &sql).await;
    for (session, expected) in [("main", 1), ("fork", 0)] {
        let mut items = test.app.daemon().check_integrity(Some(session)).await.expect("it begins");
        let mut findings = Vec::new();
        let mut end = None;
        while let Some(item) = items.recv().await {
            match item.expect("it goes on") {
                longhand::app::admin::CheckItem::Finding(finding) => findings.push(finding),
                longhand::app::admin::CheckItem::End(checked) => end = Some(checked),
            }
        }
        let end = end.expect("it ends");
        assert_eq!((findings.len(), end.findings, end.sessions), (expected, i64::try_from(expected).expect("few"), 1));
        assert!(end.events > 0);
    }
}

#[tokio::test]
async fn a_check_whose_findings_nobody_takes_keeps_no_reader() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    for turn in 0..300 {
        test.append(&session, &format!("u{turn} \"word\"")).await;
    }
    let directory = test.stop().await;
    // More findings than fit between a check and its client.
    let test = TestApp::altered(directory.path(), "update event set actor = 'somebody else'").await;
    let mut checks = Vec::new();
    for _ in 0..longhand::limits::READERS + 1 {
        checks.push(test.app.daemon().check_integrity(None).await.expect("it begins"));
    }
    for check in &mut checks {
        let first = crate::support::soon("a finding", check.recv()).await;
        first.expect("an item").expect("it goes on");
    }
    crate::support::soon("a view", test.view(&session)).await;
}

async fn heads(test: &TestApp, at: &[(String, i64)]) -> Vec<ChainHead> {
    test.app.daemon().list_heads(None, 0, "", at).await.expect("heads").0
}

#[tokio::test]
async fn a_removed_end_shows_in_exported_heads_only() {
    let directory = closed().await;
    let test = TestApp::copy_of(directory.path()).await;
    let exported = heads(&test, &[]).await;
    assert_eq!(exported.len(), 5, "one for each session");
    let at: Vec<(String, i64)> = exported.iter().map(|head| (head.session.to_string(), head.revision)).collect();
    assert_eq!(heads(&test, &at).await, exported);
    test.append("main", "u99 \"histories only grow\"").await;
    assert_eq!(heads(&test, &at).await, exported, "what comes later changes nothing");
    drop(test);
    // The newest message of the newest session is removed, and its session made consistent.
    let truncated = TestApp::altered(
        directory.path(),
        "update session set revision = revision - 1, history_revision = revision - 1, message_count = 0, \
         update_time = (select time from event order by seq desc limit 1 offset 1), \
         chain_hash = (select hash from event order by seq desc limit 1 offset 1) \
         where id = (select session_id from event order by seq desc limit 1); \
         delete from part where message_id = (select max(id) from message); \
         delete from message where id = (select max(id) from message); \
         delete from event where seq = (select max(seq) from event)",
    )
    .await;
    assert_eq!(truncated.findings().await, [], "what is left is a whole chain");
    let now = heads(&truncated, &at).await;
    assert_eq!(now.iter().filter(|head| !exported.contains(head)).count(), 1);
    assert!(now[0].hash.is_none(), "that revision is gone: {:?}", now[0]);
    let session = at[0].0.clone();
    truncated.append(&session, "u1 \"another story\"").await;
    let rewritten = heads(&truncated, &at).await;
    assert!(rewritten[0].hash.is_some() && rewritten[0] != exported[0], "another revision in its place is noticed too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_while_others_write_finds_nothing() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let checked = std::cell::Cell::new(false);
    let write = async {
        while !checked.get() {
            test.append(&session, "u \"one\"\na \"two\"").await;
        }
    };
    let check = async {
        let mut findings = Vec::new();
        for _ in 0..20 {
            findings.extend(test.findings().await);
        }
        checked.set(true);
        findings
    };
    let ((), findings) = futures::future::join(write, check).await;
    assert_eq!(findings, Vec::new());
}

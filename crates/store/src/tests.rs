//! Every statement of the store against a migrated database: it can be prepared, and no read of it scans a table.

use super::engine::{self, files};
use super::erasure::{apply, candidates, plan, rows, session, steps};
use super::integrity::{committed, log_check, run_rows, verify};
use super::ledger::{
    access_tokens, ahead, ancestry, append, approvals, blob_uses, by_client_id, by_hand, calls, cancels, chain,
    claiming, clock_segments, compactions, conversation, counts, digests, drafts, erased_content, erased_sessions,
    events, expand, expiry, head, identity, jobs, labels, layouts, marks, messages, open_drafts, open_messages,
    pairing, policies, position, prompts, prunes, quotas, receipts, received, requests, rewrites, runs, search,
    session_filter, session_list, sessions, sources, spending, statistics, statuses, submit, tombstones, tx,
    usage_totals, visibility, windows,
};
use super::search::{hits, source};
use super::upkeep::scrub;
use super::writer::Mutation;
use super::*;
use crate::clock::Clock;
use crate::limits;
use crate::model::event::{EventBody, EventKind};
use crate::model::ids::MessageId;
use crate::model::message::{NewMessage, Role};
use crate::model::part::{NewPart, PartBody};
use crate::model::session::{ContextSize, OriginTimes, OverWindowReason, SessionState};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;

/// Statements that scan a whole table on purpose: a count for the status page, its counters, and the sums for quotas.
/// There is one counter for each way in which a compaction can end, one for each model up to a limit, and one for each
/// subject of a claim; a store has one identity for each time that it was restored, and the scrub has one row.
/// There are a few sessions that are being erased in steps. Blobs that nothing uses are deleted once, after a migration.
const WHOLE: [&str; 12] = [
    clock_segments::ALL,
    quotas::CONTENT,
    blob_uses::UNUSED,
    access_tokens::ALL,
    identity::IDENTITIES,
    statistics::COUNTERS,
    statistics::CONTRADICTIONS,
    spending::SPENT,
    scrub::LOAD,
    steps::ALL,
    erasures::PENDING,
    "select count(*) from session",
];

/// All statements of the store. Each file lists its own under `cfg(test)`, so that tests can prepare them on both
/// engines.
pub(super) fn statements() -> Vec<&'static str> {
    let files = [
        access_tokens::STATEMENTS,
        erasures::STATEMENTS,
        ahead::STATEMENTS,
        append::STATEMENTS,
        approvals::STATEMENTS,
        by_client_id::STATEMENTS,
        by_hand::STATEMENTS,
        cancels::STATEMENTS,
        pairing::STATEMENTS,
        policies::STATEMENTS,
        prunes::STATEMENTS,
        claiming::STATEMENTS,
        expiry::STATEMENTS,
        receipts::STATEMENTS,
        received::STATEMENTS,
        counts::STATEMENTS,
        drafts::STATEMENTS,
        open_drafts::STATEMENTS,
        events::STATEMENTS,
        expand::STATEMENTS,
        head::STATEMENTS,
        identity::STATEMENTS,
        jobs::STATEMENTS,
        labels::STATEMENTS,
        layouts::STATEMENTS,
        blob_uses::STATEMENTS,
        clock_segments::STATEMENTS,
        erased_content::STATEMENTS,
        erased_sessions::STATEMENTS,
        tombstones::STATEMENTS,
        apply::STATEMENTS,
        candidates::STATEMENTS,
        plan::STATEMENTS,
        rows::STATEMENTS,
        session::STATEMENTS,
        steps::STATEMENTS,
        ancestry::STATEMENTS,
        marks::STATEMENTS,
        messages::STATEMENTS,
        open_messages::STATEMENTS,
        position::STATEMENTS,
        prompts::STATEMENTS,
        submit::STATEMENTS,
        compactions::STATEMENTS,
        digests::STATEMENTS,
        conversation::STATEMENTS,
        ledger::read_ahead::STATEMENTS,
        requests::STATEMENTS,
        run_rows::STATEMENTS,
        runs::STATEMENTS,
        scrub::STATEMENTS,
        search::STATEMENTS,
        hits::STATEMENTS,
        source::STATEMENTS,
        session_filter::STATEMENTS,
        session_list::STATEMENTS,
        sessions::STATEMENTS,
        usage_totals::STATEMENTS,
        spending::STATEMENTS,
        statistics::STATEMENTS,
        statuses::STATEMENTS,
        log_check::STATEMENTS,
        verify::STATEMENTS,
        committed::STATEMENTS,
        sources::STATEMENTS,
        quotas::STATEMENTS,
        visibility::STATEMENTS,
        windows::STATEMENTS,
        ledger::words::STATEMENTS,
        archive::STATEMENTS[0],
        archive::STATEMENTS[1],
        archive::STATEMENTS[2],
        writer::STATEMENTS,
        engine::words::STATEMENTS,
    ];
    let inserts = [
        blob_uses::INSERTS.as_slice(),
        calls::INSERTS.as_slice(),
        compactions::INSERTS.as_slice(),
        erased_content::INSERTS.as_slice(),
        tombstones::INSERTS.as_slice(),
        tx::INSERTS.as_slice(),
    ]
    .concat();
    let inserts = inserts.into_iter().map(|insert| &*insert.text(1).leak());
    files.concat().into_iter().chain(inserts).collect()
}

/// A migrated database.
async fn database() -> (tempfile::TempDir, engine::Connection) {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let options = Options { directory: directory.path().join("store"), durability: Durability::ProcessCrash };
    let (store, writer) = Store::open(options, crate::clock::Clock::default()).await.expect("the store opens");
    drop(store);
    writer.await;
    let path = directory.path().join("store").join(files::DATABASE);
    let connection = engine::Connection::open(path).expect("the database opens");
    connection.add_lists().expect("the module of lists");
    (directory, connection)
}

/// The steps of a statement's plan, in SQLite's words.
fn plan(database: &engine::Connection, statement: &str) -> Vec<String> {
    let explain = format!("explain query plan {statement}");
    let rows = engine::query(&explain).all(database).unwrap_or_else(|error| panic!("{error}: {statement}"));
    rows.iter().map(|row| row.get("detail").expect("a text")).collect()
}

/// Indexes that contain only due, waiting or running rows: scanning one costs what it returns.
fn partial_indexes(database: &engine::Connection) -> Vec<String> {
    let sql = "select name from sqlite_master where type = 'index' and sql like '% where %'";
    engine::scalar(sql).all(database).expect("the indexes")
}

/// True if a step of these scans all rows of a table or of an index.
fn walks(steps: &[String], partial: &[String]) -> bool {
    // The results of a subquery were read by steps of their own, which are checked too.
    let is_subquery = |name: &str| {
        let made = [format!("CO-ROUTINE {name}"), format!("MATERIALIZE {name}")];
        name.starts_with("(subquery-") || steps.iter().any(|step| made.contains(step))
    };
    let is_walk = |step: &String| {
        let scanned = step.strip_prefix("SCAN ")?;
        let index = scanned.rsplit(' ').next().unwrap_or_default();
        let harmless = scanned.contains("VIRTUAL TABLE")
            || scanned == "CONSTANT ROW"
            // A bisection has few rows.
            || scanned == "bisection"
            || is_subquery(scanned)
            || partial.iter().any(|name| name == index);
        (!harmless).then_some(())
    };
    steps.iter().filter_map(is_walk).next().is_some()
}

#[tokio::test]
async fn every_statement_fits_the_schema_and_none_walks_a_table() {
    let (_directory, database) = database().await;
    let partial = partial_indexes(&database);
    let statements = statements();
    assert!(statements.len() > 70, "the lists of statements are gone");
    for statement in statements {
        let steps = plan(&database, statement);
        // The plan of an insert includes a scan for rows that reference this one, which happens only after a violation.
        let walking = !statement.starts_with("insert") && walks(&steps, &partial);
        assert_eq!(walking, WHOLE.contains(&statement), "{statement}\n{steps:#?}");
        // SQLite prepares a statement again for each value of a bare limit.
        assert!(!statement.contains("limit ?"), "{statement}\nneeds `limit +?`");
    }
}

#[tokio::test]
async fn a_table_scan_fails_the_check() {
    let (_directory, database) = database().await;
    let partial = partial_indexes(&database);
    for (statement, expected) in [
        ("select * from message where role = ?1", true),
        ("select count(*) from part", true),
        ("select id from job order by session_id, id", true),
        ("select id from job where state = 2 order by lease_until", false),
        ("select count(*) from (select 1 from message limit +?1)", true),
        ("select count(*) from (select 1 from job where state = 2 limit +?1)", false),
        ("select * from message where session_id = ?1 and revision = ?2", false),
        ("select m.id from json_each(?1) wanted join message m on m.id = wanted.value", false),
    ] {
        let steps = plan(&database, statement);
        assert_eq!(walks(&steps, &partial), expected, "{statement}: {steps:?}");
    }
}

#[tokio::test]
async fn open_messages_are_found_without_reading_sealed_ones() {
    let (_directory, database) = database().await;
    let steps = plan(&database, crate::ledger::sources::NOW);
    assert!(steps.iter().any(|step| step.contains("message_open")), "{steps:?}");
}

async fn sessions(store: &Store) -> i64 {
    let count = |reader: &mut engine::Reader<'_>| engine::scalar("select count(*) from session").one(reader.conn);
    store.history().0.snapshot(count).await.expect("it is read")
}

pub(crate) fn new_session() -> CreateSession {
    CreateSession {
        tenant: "".into(),
        client_id: None,
        title: String::new(),
        policy: PolicyText { preset: "pi@1.5".to_owned(), json: "{}".to_owned() },
        window: ModelWindow::default(),
        metadata_json: None,
        parent: None,
        keeps_erased: false,
    }
}

/// A store whose writer runs, and its folder.
pub(crate) async fn opened(clock: Clock) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let options = Options { directory: directory.path().join("store"), durability: Durability::ProcessCrash };
    let (store, writer) = Store::open(options, clock).await.expect("the store opens");
    tokio::spawn(writer);
    (directory, store)
}

pub(crate) async fn created(store: &Store) -> SessionKey {
    let created = store.sessions().create(CheckedInput::trusted(new_session()), Requester::default()).await;
    created.expect("a session").0
}

/// An empty message of a user, or one of these words.
fn said(words: &[&str]) -> AppendInput {
    let part = |words: &&str| NewPart::new(PartBody::Text((*words).to_owned()));
    AppendInput {
        message: NewMessage::sealed(Role::User, words.iter().map(part).collect()),
        token_counts: None,
        reports_overflow: false,
        received: None,
        keeps_erased: false,
    }
}

/// SQLite ends a transaction by itself if it cannot read from the disk.
#[tokio::test]
async fn a_transaction_that_ends_by_itself_leaves_no_old_snapshot() {
    let (_directory, store) = opened(Clock::default()).await;
    // Enough repetitions to use every reader.
    let often = 2 * limits::READERS;
    for _ in 0..often {
        let failing = |reader: &mut engine::Reader<'_>| -> Result<()> {
            reader.conn.execute_batch("rollback")?;
            Err(Error::corrupt("database", "disk I/O error"))
        };
        let failed = store.history().0.snapshot(failing).await.expect_err("it fails");
        assert!(matches!(failed, Error::Corrupt { .. }), "its own error is returned: {failed:?}");
    }
    for count in 0..3 {
        for _ in 0..often {
            assert_eq!(sessions(&store).await, count, "every reader sees what was committed");
        }
        store.sessions().create(CheckedInput::trusted(new_session()), Requester::default()).await.expect("created");
    }
}

#[tokio::test]
async fn a_full_disk_stops_the_time_of_open_messages() {
    let directory = tempfile::tempdir().expect("a folder");
    let clock = Clock::fixed_at(Timestamp(1_000_000));
    let options = Options { directory: directory.path().join("store"), durability: Durability::Full };
    let (store, writer) = Store::open(options, clock.clone()).await.expect("a store");
    tokio::spawn(writer);
    let (key, _) =
        store.sessions().create(CheckedInput::trusted(new_session()), Requester::default()).await.expect("a session");
    let open =
        NewMessage { finish: None, open_timeout_ms: Some(1_000), ..NewMessage::sealed(Role::Assistant, Vec::new()) };
    let entry =
        AppendInput { message: open, token_counts: None, reports_overflow: false, received: None, keeps_erased: false };
    store
        .history()
        .append(key, Requester::default(), None, CheckedInput::trusted((vec![entry], AppendChanges::default())))
        .await
        .expect("appended");
    let is_open = async || store.views().source(key, None).await.expect("read").first_open.is_some();

    clock.advance(999);
    store.log().0.health.set(WriteState::StorageFull);
    clock.advance(10_000);
    store.jobs().wake().await.expect("done");
    assert!(is_open().await, "heartbeats were refused");
    store.log().0.health.set(WriteState::Accepted);
    clock.advance(999);
    store.jobs().wake().await.expect("done");
    assert!(is_open().await);
    clock.advance(1);
    store.jobs().wake().await.expect("done");
    assert!(!is_open().await);
}

#[tokio::test]
async fn commits_reads_and_waiting_mutations_are_measured() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let options = Options { directory: directory.path().join("store"), durability: Durability::ProcessCrash };
    let clock = Clock::fixed_at(Timestamp(1_000_000));
    let (store, writer) = Store::open(options, clock.clone()).await.expect("the store opens");
    let writer = tokio::spawn(writer);
    assert_eq!(store.upkeep().figures().commits, CommitDurations::default());
    for (millis, refused) in [(3, false), (20, false), (50, true), (2_000, false)] {
        let (inside, moving) = (store.clone(), clock.clone());
        let change = move |_: &mut tx::Tx<'_>| {
            moving.advance(millis);
            let queued = inside.upkeep().figures().queued_mutations;
            if refused { Err(Error::Database("refused".to_owned())) } else { Ok(queued) }
        };
        let queued = store.history().0.write(Mutation::change("test"), change).await;
        assert_eq!(queued.ok(), (!refused).then_some(1), "it is counted until it is durable");
    }
    let commits = store.upkeep().figures().commits;
    assert_eq!((commits.count, commits.total_micros), (3, 2_023_000), "a transaction that is undone is no commit");
    assert_eq!(commits.within, [0, 0, 1, 1, 2, 2, 2]);
    let ages = store.history().0.reading(|_| {
        clock.advance(7_000);
        Ok(store.upkeep().figures().oldest_read_ms)
    });
    assert_eq!(ages.await.expect("read"), 7_000);
    clock.advance(1);
    assert_eq!(store.upkeep().figures().oldest_read_ms, 0, "a read that ended has no age");
    drop(store);
    writer.await.expect("no panic in the writer");
}

/// A change that an update of the row leaves out would be lost with the head in memory.
#[tokio::test]
async fn the_row_of_a_session_is_as_its_head_whatever_has_changed() {
    let (_directory, store) = opened(Clock::fixed_at(Timestamp(1_000_000))).await;
    let key = created(&store).await.0;
    type Change = (&'static str, fn(&mut head::Head));
    let changes: [Change; 20] = [
        ("usage", |head| head.usage.input += 1),
        ("revision", |head| head.revision += 1),
        ("history_revision", |head| head.history_revision += 1),
        ("chain_hash", |head| head.chain_hash[0] ^= 1),
        ("message_count", |head| head.message_count += 1),
        ("update_time", |head| head.update_time.0 += 1),
        ("appended_bytes", |head| head.appended_bytes += 1),
        ("content_bytes", |head| head.content_bytes += 1),
        ("origin", |head| head.origin = Some(OriginTimes { start: Timestamp(1), end: Timestamp(2) })),
        ("context", |head| head.context = Some(ContextSize { tokens: 1, revision: 1 })),
        ("compaction_revision", |head| head.compaction_revision += 1),
        ("guard_revision", |head| head.guard_revision += 1),
        ("undo_revision", |head| head.undo_revision = Some(1)),
        ("guards", |head| head.guards.hold_turns += 1),
        ("wake", |head| head.wake.time = Some(Timestamp(9))),
        ("over_window", |head| head.over_window = Some(OverWindowReason::Retry)),
        ("window", |head| head.window.context += 1),
        ("due", head::Head::mark_due),
        ("not due", head::Head::clear_due),
        ("state", |head| head.state = SessionState::Archived),
    ];
    for (what, change) in changes {
        let write = move |tx: &mut tx::Tx<'_>| {
            let before = format!("{:?}", tx.head(key)?.columns());
            change(tx.head(key)?);
            Ok(before != format!("{:?}", tx.head(key)?.columns()))
        };
        let has_changed = store.history().0.write(Mutation::change("test"), write).await.expect("written");
        assert!(has_changed, "{what}");
        let read = move |tx: &mut tx::Tx<'_>| {
            let row = format!("{:?}", head::Head::load(tx.conn, key)?.columns());
            Ok((row, format!("{:?}", tx.read_head(key)?.columns())))
        };
        let (row, head) = store.history().0.write(Mutation::change("test"), read).await.expect("read");
        assert_eq!(row, head, "{what}");
    }
}

/// An event that is not linked would be in the chain of whatever mutation follows in the same transaction.
#[tokio::test]
async fn an_event_joins_no_chain_but_that_of_its_own_mutation() {
    let (_directory, store) = opened(Clock::default()).await;
    let create = async || store.sessions().create(CheckedInput::trusted(new_session()), Requester::default()).await;
    let (one, other) = (create().await.expect("a session").0, create().await.expect("a session").0);
    let restore = |key: SessionKey, ends: Option<SessionKey>| {
        move |tx: &mut tx::Tx<'_>| {
            tx.head(key.0)?;
            let body = EventBody::SessionRestored;
            tx.event(key.0, &Requester::default(), &body, &chain::Digest::default())?;
            match ends {
                Some(ends) => tx.end_mutation(ends.0, &Requester::default(), head::Receipt::default()).map(drop),
                None => Err(Error::Archived),
            }
        }
    };
    let write = |apply| store.history().0.write(Mutation::change("test"), apply);
    let is_bug = |outcome: Result<()>| matches!(outcome, Err(Error::Bug(_)));
    // The writer waits, so that what follows is one batch.
    let (go, waits) = std::sync::mpsc::channel::<()>();
    let waits = std::sync::Mutex::new(waits);
    let first = store.history().0.write(Mutation::change("test"), move |_| {
        drop(waits.lock().map(|waits| waits.recv()));
        Ok(())
    });
    let rest = async {
        let go = async { drop(go) };
        let all = tokio::join!(
            write(restore(one, None)),
            write(restore(one, Some(one))),
            write(restore(one, Some(other))),
            go
        );
        assert!(is_bug(all.0), "refused behind its event");
        all.1.expect("a mutation of its own");
        assert!(is_bug(all.2), "an event of another session");
    };
    tokio::join!(first, rest).0.expect("it waited");
    for key in [one, other] {
        let (found, mut findings) = tokio::sync::mpsc::channel(9);
        let checked = store.upkeep().verify(Some(key), found).await.expect("verified");
        assert_eq!((checked.findings, findings.recv().await), (0, None));
    }
    let revision = async |key| store.sessions().get(key).await.expect("a session").0.revision;
    assert_eq!((revision(one).await, revision(other).await), (2, 1));
}

/// Pages of the log from memory and from the database, at every cursor and for filters of every kind: both are equal,
/// and memory leaves only pages that split a mutation to the database.
#[tokio::test]
async fn the_newest_events_are_the_same_from_memory_and_from_the_database() {
    let (_directory, store) = opened(Clock::fixed_at(Timestamp(1_000_000))).await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(created(&store).await);
    }
    let caller = || Requester { actor: "someone".to_owned(), ..Requester::default() };
    // The last mutation of the list is longer than a page.
    for (session, messages) in [(0, 1), (1, 2), (0, 3), (2, 1), (1, 120), (2, 90), (0, 70), (1, 1), (0, 300)] {
        let entries = (0..messages).map(|_| said(&[])).collect();
        store
            .history()
            .append(keys[session], caller(), None, CheckedInput::trusted((entries, AppendChanges::default())))
            .await
            .expect("appended");
    }
    let head = store.log().head_seq();
    let memberships = &store.log().0.memberships;
    let mut from_memory = 0;
    for sessions in [vec![], vec![keys[0]], vec![keys[2], keys[1]]] {
        for kinds in [vec![], vec![EventKind::SessionCreated], vec![EventKind::MessageAppended]] {
            let filter = EventFilter { sessions: sessions.clone(), kinds, visibility: None };
            for after in 0..=head {
                let until = head.min(after + 400);
                let of_database =
                    store.history().0.reading(|reader| events::tail(reader, memberships, &filter, after, until)).await;
                let of_database = of_database.expect("a page of the database");
                let newest =
                    events::newest(&store.log().0.ring, memberships, &filter, after, until).expect("a page of memory");
                assert_eq!(newest.clone().unwrap_or(of_database.clone()), of_database, "{filter:?} after {after}");
                from_memory += i64::from(newest.is_some());
                assert_eq!(store.log().tail(&filter, after, until).await.expect("a page"), of_database);
            }
        }
    }
    assert!(from_memory > head * 4, "of {} pages, {from_memory} came from memory", 9 * head);
    for seq in 1..=head {
        let of_database = store.history().0.brief(|reader| events::hash_at_seq(reader, seq)).await.expect("a hash");
        assert_eq!(store.log().0.ring.hash_at(seq).map(|hash| hash.to_vec()), of_database);
    }
}

#[tokio::test]
async fn a_long_append_is_encoded_in_its_order_wherever_it_is_halved() {
    let (_directory, store) = opened(Clock::default()).await;
    let least = usize::try_from(limits::ENCODED_ASIDE_BYTES_MIN).expect("a length") * 2;
    for lengths in [vec![least], vec![1, least], vec![least, 1], vec![least / 2; 3], (1..=400).collect()] {
        let key = created(&store).await;
        let texts: Vec<String> = lengths.iter().map(|length| format!("{length} {}", "x".repeat(*length))).collect();
        let inputs = texts.iter().map(|text| said(&[text])).collect();
        let append = CheckedInput::trusted((inputs, AppendChanges::default()));
        let receipt = store.history().append(key, Requester::default(), None, append).await.expect("appended");
        for (id, text) in receipt.ids.into_iter().zip(&texts) {
            let message = store.history().get(key, &MessageId(id).to_string()).await.expect("a message");
            assert_eq!(*message.parts[0].body, PartBody::Text(text.clone()));
        }
    }
}

#[tokio::test]
async fn what_is_erased_by_the_transaction_that_wrote_it_is_not_in_memory() {
    let (_directory, store) = opened(Clock::fixed_at(Timestamp(1_000_000))).await;
    let session = created(&store).await;
    let both = move |tx: &mut tx::Tx<'_>| {
        let update = sessions::UpdateSession { title: Some("a secret".to_owned()), ..Default::default() };
        update.apply(tx, session, &Requester::default())?;
        let (caller, target) = (Requester::default(), plan::EraseTarget::Session);
        let expected = apply::ErasePrecondition::History(None);
        apply::Erase { session, caller, target, reason: "a test".to_owned(), expected }.apply(tx).map(drop)
    };
    let before = store.log().head_seq();
    store.history().0.write(Mutation::change("test"), both).await.expect("written");
    let (head, filter) = (store.log().head_seq(), EventFilter::default());
    let told = store.log().tail(&filter, before, head).await.expect("a page");
    assert!(!format!("{told:?}").contains("a secret"), "{told:?}");
    // What comes next is in memory again.
    store.sessions().create(CheckedInput::trusted(new_session()), Requester::default()).await.expect("another session");
    let (ring, memberships) = (&store.log().0.ring, &store.log().0.memberships);
    assert!(events::newest(ring, memberships, &filter, head, store.log().head_seq()).expect("a page").is_some());
}

#[tokio::test]
async fn a_fork_whose_segments_do_not_fit_its_layout_is_damaged_and_ends_its_reader() {
    let (_directory, store) = opened(Clock::fixed_at(Timestamp(1_000_000))).await;
    let session = created(&store).await;
    let entries = CheckedInput::trusted(((0..6).map(|_| said(&["words"])).collect(), AppendChanges::default()));
    let appended = store.history().append(session, Requester::default(), None, entries).await.expect("appended");
    let part = NewPart::new(PartBody::Text("other words".to_owned()));
    let parts = vec![(part.clone(), tx::PartInput::from_client(&part))];
    let replacement = rewrites::Replacement { parts, metadata_json: None, keeps_erased: false };
    let change = rewrites::Change::Edit { message: MessageId(appended.ids[3]).to_string(), replacement };
    let edit = rewrites::Rewrite { session, caller: Requester::default(), expected_revision: None, change };
    store.history().0.write(Mutation::change("test"), move |tx| edit.apply(tx)).await.expect("edited");
    let fork = ForkSession { client_id: None, at: ForkAt::Newest, title: String::new() };
    let (fork, _) =
        store.sessions().fork(session, CheckedInput::trusted(fork), Requester::default()).await.expect("a fork");
    assert_eq!(store.views().source(fork, None).await.expect("a view").messages.len(), 6);
    let damage = move |tx: &mut tx::Tx<'_>| {
        tx.conn.execute_batch("drop trigger segment_is_final")?;
        engine::query("update segment set last_revision = 2 where session_id = ?1").bind(fork.0).run(tx.conn)
    };
    store.history().0.write(Mutation::change("test"), damage).await.expect("damaged");
    let damaged = store.views().source(fork, None).await.map(|source| source.messages.len());
    assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{damaged:?}");
}

/// Random rewrites, some of which are rolled back after they were applied: after each of them, the rows of the newest
/// layout give what follows from all marks.
#[tokio::test]
async fn the_rows_of_layouts_give_what_follows_from_all_marks() {
    let (_directory, store) = opened(Clock::fixed_at(Timestamp(1_000_000))).await;
    let session = created(&store).await;
    let mut ids = Vec::new();
    let mut random = 7_u64;
    let mut choose = |count: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).expect("31 bits") % count
    };
    let part = || NewPart::new(PartBody::Text("words".to_owned()));
    for step in 0..600 {
        if step < 20 || choose(4) == 0 {
            let entry = said(&["words"]);
            let appended = store
                .history()
                .append(
                    session,
                    Requester::default(),
                    None,
                    CheckedInput::trusted((vec![entry], AppendChanges::default())),
                )
                .await
                .expect("appended");
            ids.push(MessageId(appended.ids[0]));
            continue;
        }
        let message = ids[choose(ids.len())].to_string();
        let near = ids[ids.len() - 1 - choose(5)].to_string();
        let change = match choose(10) {
            0 | 1 => rewrites::Change::Pin { message },
            2 => rewrites::Change::Unpin { message },
            3 | 4 => {
                let parts = vec![(part(), tx::PartInput::from_client(&part()))];
                rewrites::Change::Edit {
                    message,
                    replacement: rewrites::Replacement { parts, metadata_json: None, keeps_erased: false },
                }
            }
            5 => {
                let replacement = rewrites::Replacement { parts: Vec::new(), metadata_json: None, keeps_erased: false };
                rewrites::Change::Edit { message, replacement }
            }
            6 => rewrites::Change::Rewind { message: Some(near), summary: None },
            7 | 8 => rewrites::Change::Undo,
            _ => rewrites::Change::Redo,
        };
        let rewrite = rewrites::Rewrite { session, caller: Requester::default(), expected_revision: None, change };
        let is_rolled_back = choose(5) == 0;
        let written = store.history().0.write(Mutation::change("test"), move |tx| {
            let written = rewrite.apply(tx)?;
            if is_rolled_back { Err(Error::Database("refused".to_owned())) } else { Ok(written) }
        });
        // Refusals are as good as any other step.
        drop(written.await);
        let (stored, derived) = store
            .history()
            .0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                let marks = marks::read_all(reader, &ancestry)?;
                let derived = crate::model::layouts::layout_at(&marks, ancestry.revision);
                Ok((layouts::at(reader, &ancestry, ancestry.revision)?, derived))
            })
            .await
            .expect("read");
        assert_eq!(stored, derived, "after step {step}");
    }
}

//! The statements of the ledger are one text for SQLite and PostgreSQL. What only one engine accepts is named here.

use super::Store;
use super::checked::CheckedInput;
use super::engine::database::LeasedPlace as _;
use super::engine::{Connection, List, Parameter, connect, scalar, words};
use super::erasure::plan::EraseTarget;
use super::ledger::append::AppendInput;
use super::ledger::replace::AppendChanges;
use super::ledger::sessions::{ForkAt, ForkSession};
use super::ledger::tx::{RequestKey, Requester};
use super::tests::{new_session, statements};
use super::writer::Mutation;
use crate::clock::Clock;
use crate::model::message;
use crate::model::part::{Media, MediaSource, NewPart, PartBody};
use longhand_engine_postgres::Shard;
use longhand_engine_postgres::client::Client;
use longhand_engine_postgres::schema;
use longhand_engine_postgres::shard::Role;
use regex::Regex;
use std::sync::Arc;

#[expect(dead_code, reason = "tests of daemons use the rest")]
#[path = "../../../../tests/it/postgres.rs"]
mod server;

/// Words that only SQLite accepts, with the reason why a statement has them. A statement of the ledger with another such
/// word fails the test.
const OF_SQLITE: [(&str, &str); 2] = [
    (SEARCH, "the index of words is FTS5: PostgreSQL has a table of postings"),
    (r"as blob\)", "the bytes of a draft's text, which the dialect of PostgreSQL has in another form"),
];
const SEARCH: &str = r"\bsearch\b";

/// Words that have a form which both engines accept.
const HAS_ANOTHER_FORM: [(&str, &str); 9] = [
    (r"\biif\(", "case when … then … else … end"),
    (r"json_each\(", "rarray(?N), with a `List`"),
    (r"\b(min|max)\([^()]+,", "case when … then … else … end"),
    (r"\bis not \?", "is distinct from"),
    (r"on conflict do update", "on conflict (columns) do update"),
    (r"\binsert or\b", "on conflict (columns) do …"),
    (r"\b(unhex|hex|zeroblob|glob|ifnull)\b", "a value that the caller computes"),
    (r"\?\D", "numbered parameters"),
    (r"\b(pragma|indexed by)\b", "`engine` has what is for one engine"),
];

/// A statement that PostgreSQL refuses.
const REFUSED: &str = "select iif(1 = 1, 1, 2)";

fn has(pattern: &str, statement: &str) -> bool {
    Regex::new(pattern).expect("a pattern").is_match(statement)
}

/// The reason for which a statement is for SQLite alone.
fn exception(statement: &str) -> Option<&'static str> {
    OF_SQLITE.iter().find(|(pattern, _)| has(pattern, statement)).map(|(_, reason)| *reason)
}

#[test]
fn statements_of_the_ledger_are_portable() {
    let mut used = [false; OF_SQLITE.len()];
    for statement in statements() {
        for (used, (pattern, _)) in used.iter_mut().zip(OF_SQLITE) {
            *used |= has(pattern, statement);
        }
        if exception(statement).is_none() {
            let other = HAS_ANOTHER_FORM.iter().find(|(pattern, _)| has(pattern, statement));
            assert!(other.is_none(), "{statement}\nboth engines accept: {}", other.map_or("", |(_, form)| form));
        }
    }
    assert_eq!(used, [true; OF_SQLITE.len()], "an exception is no longer needed");
}

/// A shard with all tables; none without a server.
fn migrated(name: &str) -> Option<Client> {
    let shard = Shard::new(&server::Server::shared()?.url(), name).expect("an address");
    let client = shard.connect_shared(Role::Writer, None).expect("connected");
    client.set_up(name, &shard.schema()).expect("a schema");
    for (_, statements) in connect::MIGRATIONS {
        client.execute_batch(&schema::translate(statements)).expect("migrated");
    }
    Some(client)
}

#[tokio::test]
async fn postgresql_prepares_every_statement_of_the_ledger() {
    let Some(client) = migrated("statements") else { return };
    let lists = [List::of_integers([1]), List::of_texts(["a"]), List::of_bytes([&b"a"[..]])];
    let attempt = |statement: &str, list: &List| {
        let parameters: Vec<Parameter<'_>> = (0..40).map(|_| Parameter::List(list.clone())).collect();
        client.prepare_for_test(statement, &parameters)
    };
    let mut count = 0;
    let ours = statements().into_iter().filter(|statement| !has(SEARCH, statement));
    for statement in ours.chain(words::POSTINGS.iter().copied()) {
        // The type of a list is that of the value which is bound.
        let outcomes: Vec<_> = lists.iter().map(|list| attempt(statement, list)).collect();
        assert!(outcomes.iter().any(Result::is_ok), "{statement}\n{outcomes:?}");
        count += 1;
    }
    assert!(count > 200, "of {count} statements");
    assert!(attempt(REFUSED, &lists[0]).is_err(), "refusals are seen");
}

/// The tables of both engines have the same columns, and their indexes and triggers the same names.
#[tokio::test]
async fn the_schemas_of_both_engines_are_equal() {
    let Some(client) = migrated("schemas") else { return };
    let theirs = Connection::Server(Box::new(client));
    let ours = Connection::open_in_memory().expect("a database");
    for (_, statements) in connect::MIGRATIONS {
        ours.execute_batch(statements).expect("migrated");
    }
    let lines = |conn: &Connection, sql: &str| -> Vec<String> { scalar(sql).all(conn).expect("lines") };
    for (of_sqlite, of_postgresql) in SAME {
        let found = lines(&theirs, of_postgresql);
        assert_eq!(lines(&ours, of_sqlite), found);
        assert!(found.len() > 20, "{found:?}");
    }
    let refused = theirs.execute_batch(
        "insert into policy_text (hash, preset, json) values ('\\x00', 'a', '{}'); update policy_text set json = '[]'",
    );
    assert!(refused.expect_err("a trigger").to_string().contains("never changes"));
}

/// Statements whose lines are the same on both engines: of columns, foreign keys, indexes, and triggers.
const SAME: [(&str, &str); 4] = [
    (
        "select m.name || '.' || f.\"from\" || ' ' || f.\"table\" || '.' || f.\"to\" from sqlite_master m \
         join pragma_foreign_key_list(m.name) f where m.type = 'table' order by 1",
        "select c.relname || '.' || a.attname || ' ' || t.relname || '.' || b.attname from pg_constraint k \
         join pg_class c on c.oid = k.conrelid join pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1] \
         join pg_class t on t.oid = k.confrelid join pg_attribute b on b.attrelid = t.oid and b.attnum = k.confkey[1] \
         where k.contype = 'f' and c.relnamespace = current_schema()::regnamespace order by 1",
    ),
    (
        "select t.name || '.' || c.name || ' ' || c.type || ' ' || (c.\"notnull\" or c.pk > 0) from sqlite_master t \
         join pragma_table_info(t.name) c where t.type = 'table' and (t.name = 'search_progress' or t.name not like 'search%') \
         and t.name not like 'sqlite%' order by 1",
        "select table_name || '.' || column_name || ' ' || case data_type when 'bigint' then 'INTEGER' \
         when 'text' then 'TEXT' when 'bytea' then 'BLOB' else data_type end || ' ' || \
         case is_nullable when 'NO' then 1 else 0 end from information_schema.columns \
         where table_schema = current_schema() and table_name <> 'search' order by 1",
    ),
    (
        "select name from sqlite_master where type = 'index' and sql is not null order by 1",
        "select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid \
         left join pg_constraint k on k.conindid = c.oid where c.relnamespace = current_schema()::regnamespace \
         and k.oid is null and c.relname <> 'search_row' order by 1",
    ),
    (
        "select name || ' ' || tbl_name from sqlite_master where type = 'trigger' order by 1",
        "select t.tgname || ' ' || c.relname from pg_trigger t join pg_class c on c.oid = t.tgrelid \
         where not t.tgisinternal and c.relnamespace = current_schema()::regnamespace order by 1",
    ),
];

/// A shard of its own; none without a server.
async fn opened(name: &str, folder: &tempfile::TempDir) -> Option<(Store, tokio::task::JoinHandle<()>)> {
    let shard = Shard::new(&server::Server::shared()?.url(), name).expect("an address");
    let lease = std::time::Duration::from_secs(60);
    let opened = Store::open_shard(Arc::new(shard), folder.path().to_owned(), lease, Clock::default()).await;
    let (store, writer) = opened.expect("the shard opens");
    Some((store, tokio::spawn(writer)))
}

fn own_folder() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a folder")
}

/// Messages to the server of the connection that writes. The count itself asks nothing of the server.
async fn round_trips(store: &Store) -> u64 {
    store.history().0.write(Mutation::change("test"), |tx| Ok(tx.conn.round_trips())).await.expect("counted")
}

/// A message with a body in its row; of so many one with a body that is a blob, one with parts that are rows, and one with a
/// picture.
fn entry_of(number: usize, every: usize) -> AppendInput {
    let text = |text: String| NewPart::new(PartBody::Text(text));
    let parts = match number % every {
        0 => vec![text(format!("{number} ").repeat(20_000))],
        2 => (0..4).map(|part| text(format!("{number} {part} ").repeat(200))).collect(),
        4 => {
            let (mime_type, name) = ("image/png".to_owned(), String::new());
            let source = MediaSource::Bytes(format!("{number:8}").repeat(9_000).into_bytes());
            vec![NewPart::new(PartBody::Media(Media { mime_type, name, source }))]
        }
        _ => vec![text("words".to_owned())],
    };
    let mut entry = entry(Some(format!("m{number}")));
    entry.message.parts = parts;
    entry
}

fn entry(client_id: Option<String>) -> AppendInput {
    let parts = vec![NewPart::new(PartBody::Text("words".to_owned()))];
    AppendInput {
        message: message::NewMessage { client_id, ..message::NewMessage::sealed(message::Role::User, parts) },
        received: None,
        token_counts: None,
        reports_overflow: false,
        keeps_erased: false,
    }
}

/// The transaction of an append: one look-up for the id of the request, and all rows in one statement, which is fenced and
/// commits. More would be waited for by all callers of the store.
#[tokio::test]
async fn an_append_takes_two_round_trips() {
    let folder = own_folder();
    let Some((store, writer)) = opened("round_trips", &folder).await else { return };
    let (session, _) =
        store.sessions().create(CheckedInput::trusted(new_session()), Requester::default()).await.expect("a session");
    let mut took = 0;
    // Statements are prepared at first.
    for id in ["first", "second", "third"] {
        let request = RequestKey { id: id.to_owned(), payload_hash: [7; 32] };
        let caller = Requester { request: Some(request), ..Requester::default() };
        let before = round_trips(&store).await;
        store
            .history()
            .append(session, caller, None, CheckedInput::trusted((vec![entry(None)], AppendChanges::default())))
            .await
            .expect("appended");
        took = round_trips(&store).await - before;
    }
    assert_eq!(took, 2);
    drop(store);
    writer.await.expect("no panic in the writer");
}

/// A fork, and erasures of messages and of a session: others wait for each transaction, and it may not take longer because
/// there is much to change. What takes several steps takes as many for each.
#[tokio::test]
async fn erasures_and_forks_take_no_more_round_trips_for_many_messages() {
    const STEP: usize = crate::limits::ERASE_STEP_REVISIONS_SERVER as usize;
    let folder = own_folder();
    let Some((store, writer)) = opened("many_rows", &folder).await else { return };
    let stopping = tokio_util::sync::CancellationToken::new();
    let caller = Requester::default;
    for count in [1, 50, 5_000_usize] {
        let (session, _) =
            store.sessions().create(CheckedInput::trusted(new_session()), caller()).await.expect("a session");
        let ids: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
        let numbers: Vec<usize> = (0..count).collect();
        for some in numbers.chunks(50) {
            let entries = some.iter().map(|number| entry_of(*number, (count / 50).clamp(10, 100))).collect();
            store
                .history()
                .append(session, caller(), None, CheckedInput::trusted((entries, AppendChanges::default())))
                .await
                .expect("appended");
        }
        let before = round_trips(&store).await;
        let fork = ForkSession { client_id: None, at: ForkAt::Newest, title: String::new() };
        store.sessions().fork(session, CheckedInput::trusted(fork), caller()).await.expect("forked");
        let forked = round_trips(&store).await;
        // Every other one: a range is no list.
        let named: Vec<String> = ids.iter().step_by(2).take(300).cloned().collect();
        let what = (EraseTarget::Messages(named), CheckedInput::trusted("test".to_owned()), None);
        let erasure = store.erasures().erase(session, caller(), what, &stopping).await.expect("erased");
        assert_eq!(erasure.sizes.messages, i64::try_from(count.div_ceil(2).min(300)).expect("few"));
        let erased = round_trips(&store).await;
        let what = (EraseTarget::Session, CheckedInput::trusted("test".to_owned()), None);
        store.erasures().erase(session, caller(), what, &stopping).await.expect("erased");
        let gone = round_trips(&store).await;
        let steps = u64::try_from(count.div_ceil(STEP)).expect("few") + 1;
        let took = (forked - before, erased - forked, (gone - erased) / steps);
        println!(
            "{count} messages: a fork {}, messages {}, a session {} in each of {steps} steps",
            took.0, took.1, took.2
        );
        assert!(took.0 <= 30 && took.1 <= 130 && took.2 <= 75, "{count} messages: {took:?}");
    }
    drop(store);
    writer.await.expect("no panic in the writer");
}

/// What follows a transaction that was given up, after an error say, is no part of it.
#[test]
fn a_transaction_that_was_given_up_is_over_when_the_next_one_begins() {
    let Some(server) = server::Server::shared() else { return };
    let shard = Shard::new(&server.url(), "given_up").expect("an address");
    let taken = shard.take_lease("somebody".to_owned(), std::time::Duration::from_secs(60));
    let held = taken.expect("reached").expect("taken");
    let client = held.connection().server::<Client>().expect("a client");
    client.execute_batch("create table given (number bigint)").expect("made");
    for number in [1, 2] {
        client.begin().expect("begun");
        client.execute_batch(&format!("insert into given values ({number})")).expect("inserted");
    }
    client.commit(Some(0)).expect("committed");
    let numbers = scalar::<i64>("select number from given").all(held.connection()).expect("read");
    assert_eq!(numbers, [2]);
    let giving_back = held.giving_back();
    drop(held);
    giving_back().expect("given back");
}

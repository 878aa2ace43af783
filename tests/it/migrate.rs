//! Stores that move between files and shards stay what they are, and are never served twice. Skipped with a line where
//! the machine has no PostgreSQL.

mod kills;

use crate::cli::longhand;
use crate::database::Database;
use crate::engines::{erase_at_once, place};
use crate::postgres::Server;
use crate::support::{TestApp, conversation, private_folder, text, window};
use longhand::app::access::Credentials;
use longhand::app::access_tokens::NewAccessToken;
use longhand::app::append::NewDraftText;
use longhand::app::approvals::{Choice, Question};
use longhand::app::compactions::NewSummary;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::events::{Frame, Start, SubscribeRequest};
use longhand::app::prompts::NewPrompt;
use longhand::app::sessions::NewSession;
use longhand::app::views::ViewRequest;
use longhand::daemon::offline::{self, MigratedStore, MigrationProgress, StorePlace};
use longhand::model::access::Scope;
use longhand::model::draft::DraftKind;
use longhand::postgres::Shard;
use longhand::summarizer::Extractive;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Retrieval without automatic compactions.
const RETRIEVAL: &str = r#"{"trigger": {"auto": false}, "retrieval": {"budget_tokens": 60, "passage_tokens": 30,
    "query_units": 1000, "heading": "Earlier:"}}"#;

fn files(directory: &Path) -> StorePlace {
    StorePlace::Directory(directory.to_owned())
}

fn shard(server: &Server, name: &str) -> StorePlace {
    StorePlace::Shard(Arc::new(Shard::new(&server.url(), name).expect("a shard")))
}

/// The first shard of a database, which a daemon serves.
fn of_daemons(server: &Server, database: &str) -> StorePlace {
    StorePlace::Shard(Arc::new(Shard::new(&server.database(database), "s1").expect("a shard")))
}

async fn migrate(from: &StorePlace, to: &StorePlace) -> Result<MigratedStore, String> {
    offline::migrate(from, to, &|_| {}).await.map_err(|error| error.to_string())
}

/// The store of a stopped daemon in files, with every kind of row, and what its clients hold of it.
struct Full {
    directory: Arc<TempDir>,
    cursor: String,
    secret: String,
    head: i64,
    sessions: i64,
}

/// Appends with a request id: the answer is the same whenever it is asked for.
async fn append_once(test: &TestApp) -> String {
    let appended = test.once("once", "words").messages().append("main", conversation("u70 \"once\""), None, None).await;
    let appended = appended.expect("appended");
    format!("{} {:?}", appended.revision, appended.ids)
}

async fn full() -> Full {
    let test = crate::tamper::rich().await;
    append_once(&test).await;
    // Words of hidden messages, of which some are erased again.
    let retrieval = NewSession {
        client_id: Some("retrieval".to_owned()),
        preset: "opencode@seed".to_owned(),
        policy_override_json: RETRIEVAL.to_owned(),
        window: window(0, 0),
        ..NewSession::default()
    };
    test.create(retrieval).await;
    test.append(
        "retrieval",
        "u1 \"The deploy key is in vault seven.\"\na1 \"Noted.\"\nu2 \"forget crocodiles\"\nu5 \"go on\"",
    )
    .await;
    let summary = NewSummary { text: "We talked.".to_owned(), tail_start: "u5".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary("retrieval", summary).await.expect("supplied");
    test.append("retrieval", "u6 \"Where is the deploy key?\"").await;
    assert!(format!("{:?}", test.view("retrieval").await.messages).contains("vault seven"));
    let target = EraseTarget::Messages(vec!["u2".to_owned()]);
    let erase = EraseRequest { target, reason: "a test".to_owned(), dry_run: false, expected_revision: None };
    erase_at_once(&test.app, "retrieval", erase).await;
    // The summary went with what it was made of.
    let summary = NewSummary { text: "We met.".to_owned(), tail_start: "u5".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary("retrieval", summary).await.expect("supplied");
    assert!(format!("{:?}", test.view("retrieval").await.messages).contains("vault seven"));
    // What is under way.
    test.app.sessions().add_label("main", "kept".to_owned()).await.expect("labelled");
    test.append("main", "a71 \"be\" open").await;
    let delta = "with U+0000: \0 and U+FDD0: \u{FDD0}".to_owned();
    let words = NewDraftText { part: None, client_id: None, kind: DraftKind::Text, offset: 0, delta };
    test.app.messages().append_draft("main", "a71", words).await.expect("drafted");
    test.by("ada").runs().acquire("main", Some(Duration::from_secs(600)), false).await.expect("a run");
    test.app.prompts().submit("main", NewPrompt::from_parts(vec![text("wait \0 here")])).await.expect("it waits");
    let choices = vec![Choice { id: "yes".to_owned(), label: String::new() }];
    let question = Question { text: "May I?".to_owned(), choices, ..Question::default() };
    test.app.approvals().request("main", question).await.expect("asked");
    let scopes = [Scope::Read].into_iter().collect();
    let token = NewAccessToken { principal: "guest".to_owned(), scopes, ..NewAccessToken::default() };
    let (_, secret) = test.app.access_tokens().create(token).await.expect("a token");
    test.settled().await;
    assert_eq!(test.findings().await, []);
    let cursor = cursor(&test).await;
    let (head, sessions) = (test.number("select max(seq) from event"), test.number("select count(*) from session"));
    Full { directory: test.stop().await, cursor, secret, head, sessions }
}

/// The cursor of the newest event.
async fn cursor(test: &TestApp) -> String {
    let request = SubscribeRequest { start: Start::Now, ..SubscribeRequest::default() };
    let mut stream = crate::support::Watch::new(test.app.events().subscribe(request).await.expect("a stream"));
    match stream.frame().await {
        Frame::Ready { cursor, .. } => cursor,
        frame => panic!("not ready: {frame:?}"),
    }
}

/// The store of a folder, open.
async fn open(directory: &Arc<TempDir>) -> TestApp {
    TestApp::reopen(Arc::clone(directory), Arc::new(Extractive)).await
}

/// Everything that clients read: messages, events, chains, and the views of every session at every revision.
async fn read(test: &TestApp) -> String {
    assert_eq!(test.findings().await, []);
    let mut content = crate::formats::content(test).await;
    let run = test.app.runs().of_session("main").await.expect("the session").run.expect("a run");
    let prompts = test.app.prompts().list("main", false, 0, "").await.expect("the queue");
    let drafts = test.app.messages().get("main", "a71").await.expect("the open message").1;
    let labels = test.app.sessions().get("main").await.expect("the session").session.labels;
    let approvals = test.app.approvals().list("main", false, 0, "").await.expect("questions").0;
    let approvals: Vec<_> = approvals.iter().map(|asked| (asked.id, asked.question.text.clone())).collect();
    let compactions = test.app.compactions().list("main", 100, "").await.expect("compactions").0;
    writeln!(content, "{} {} {:?}", run.epoch, run.actor, run.id).expect("text");
    writeln!(content, "{prompts:?}\n{drafts:?}\n{labels:?}\n{approvals:?}\n{compactions:?}").expect("text");
    content
}

/// The rows of a file, by table, but for times that begin anew at each start.
fn rows(directory: &Path) -> Vec<String> {
    let database = crate::support::connect(directory);
    let tables = "select name from pragma_table_list where schema = 'main' and type = 'table' \
         and name not like 'sqlite%' order by name";
    let mut all = Vec::new();
    for table in crate::support::column(&database, tables) {
        let columns = format!(
            "select group_concat('quote(\"' || name || '\")', ' || '' '' || ') from pragma_table_info('{table}') \
             where name not in ('expire_time', 'lease_until')"
        );
        let columns: String = crate::support::value(&database, &columns);
        let rows = crate::support::column(&database, &format!("select {columns} from \"{table}\" order by 1"));
        all.extend(rows.into_iter().map(|row| format!("{table} {row}")));
    }
    database.execute_batch("create virtual table temp.posting using fts5vocab(main, search, instance)").expect("words");
    let postings = "select 'search ' || term || ' ' || doc from temp.posting order by 1";
    let postings = crate::support::column(&database, postings);
    assert!(postings.len() > 5 && !postings.iter().any(|word| word.contains("crocodiles")), "{postings:?}");
    all.extend(postings);
    all
}

fn assert_same(before: &[String], after: &[String]) {
    let difference = before.iter().zip(after).find(|(before, after)| before != after);
    assert_eq!(difference, None);
    assert_eq!(before.len(), after.len());
}

#[tokio::test]
async fn every_row_of_a_file_comes_back_from_a_shard_and_from_another_one() {
    let Some(server) = Server::shared() else { return };
    let full = full().await;
    let directory = full.directory.path();
    let before = rows(directory);
    assert!(before.len() > 300, "{}", before.len());
    let steps = Mutex::new(Vec::new());
    let note = |step| steps.lock().expect("no panic").push(step);
    let there = offline::migrate(&files(directory), &shard(server, "rows_a"), &note).await.expect("migrated");
    assert_eq!((there.head_seq, there.sessions), (full.head, full.sessions));
    let steps = steps.into_inner().expect("no panic");
    assert!(steps.iter().any(|step| matches!(step, MigrationProgress::Rows { copied, total } if copied == total)));
    assert!(matches!(steps.last(), Some(MigrationProgress::Check(_))), "{:?}", steps.last());

    let along = migrate(&shard(server, "rows_a"), &shard(server, "rows_b")).await.expect("migrated");
    assert_eq!((along.store_id, &*along.set_aside), (there.store_id, "the schema migrated_lh_rows_a"));
    let back = private_folder();
    let place = files(&back.path().join("new"));
    let returned = migrate(&shard(server, "rows_b"), &place).await.expect("migrated");
    assert_eq!((returned.store_id, returned.head_seq), (there.store_id, there.head_seq));
    assert_same(&before, &rows(&back.path().join("new")));
}

/// The tables of a shard that a store was copied into are those of one that a daemon made.
#[tokio::test]
async fn a_shard_has_the_schema_that_a_daemon_makes() {
    let Some(server) = Server::shared() else { return };
    let test = TestApp::start().await;
    test.manual_session().await;
    let directory = test.stop().await;
    migrate(&files(directory.path()), &shard(server, "schema_copied")).await.expect("migrated");
    let other = Arc::new(private_folder());
    place(other.path(), Some((server.url(), "schema_made")));
    open(&other).await.stop().await;
    place(directory.path(), Some((server.url(), "schema_copied")));
    let described = |directory: &Path| -> Vec<String> {
        let constraints = "select conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(oid) \
             || convalidated from pg_constraint where connamespace = current_schema()::regnamespace order by 1";
        let triggers = "select tgrelid::regclass::text || ' ' || tgname || ' ' || tgenabled::text from pg_trigger \
             join pg_class c on c.oid = tgrelid where not tgisinternal \
             and c.relnamespace = current_schema()::regnamespace order by 1";
        let columns = "select table_name || ' ' || column_name || ' ' || data_type || ' ' || coalesce(collation_name, '') \
             || coalesce(column_default, '') from information_schema.columns where table_schema = current_schema() \
             order by 1";
        let mut database = Database::of(directory);
        [constraints, triggers, columns].into_iter().flat_map(|sql| database.column::<String>(sql)).collect()
    };
    assert_same(&described(other.path()), &described(directory.path()));
    let mut database = Database::of(directory.path());
    let refused = database.execute("update event set kind = 1").expect_err("it is protected");
    assert!(refused.contains("an event never changes"), "{refused}");
}

#[tokio::test]
async fn a_store_goes_into_a_shard_and_back_and_its_clients_go_on() {
    let Some(server) = Server::shared() else { return };
    let full = full().await;
    let directory = full.directory.path();
    let test = open(&full.directory).await;
    let (before, once) = (read(&test).await, append_once(&test).await);
    let token = test.view("main").await.token;
    let id = test.app.daemon().info().await.expect("the state").store_id;
    test.stop().await;

    migrate(&files(directory), &shard(server, "clients")).await.expect("migrated");
    place(directory, Some((server.url(), "clients")));
    let test = open(&full.directory).await;
    assert!(test.longhand.store().is_leased());
    assert_eq!(test.app.daemon().info().await.expect("the state").store_id, id, "the same store");
    assert_eq!(read(&test).await, before);
    assert_eq!(append_once(&test).await, once, "the answer of a repeated request");
    assert_eq!(test.view("main").await.token, token);
    test.longhand.load_access_tokens("of the owner").await.expect("the tokens are read");
    let proof = Credentials::Secret(&full.secret, std::net::Ipv4Addr::LOCALHOST.into());
    assert_eq!(&*test.longhand.entrance().authenticate(proof).expect("it is known").principal, "guest");
    // A cursor goes on with what comes next.
    let after = SubscribeRequest { start: Start::After(full.cursor.clone()), ..SubscribeRequest::default() };
    let mut stream = crate::support::Watch::new(test.app.events().subscribe(after).await.expect("the cursor is known"));
    test.append("retrieval", "u80 \"in the shard\"").await;
    while stream.log.is_empty() {
        stream.frame().await;
    }
    assert_eq!(stream.log[0].seq, full.head + 1);
    assert!(format!("{:?}", test.view("retrieval").await.messages).contains("in the shard"));
    let (before, cursor) = (read(&test).await, cursor(&test).await);
    drop(stream);
    test.stop().await;

    // The original is beside the place to which the store comes back.
    migrate(&shard(server, "clients"), &files(directory)).await.expect("migrated back");
    place(directory, None);
    let test = open(&full.directory).await;
    assert!(!test.longhand.store().is_leased());
    assert_eq!(test.app.daemon().info().await.expect("the state").store_id, id, "the same store");
    assert_eq!(read(&test).await, before);
    assert_eq!(append_once(&test).await, once);
    let after = SubscribeRequest { start: Start::After(cursor), ..SubscribeRequest::default() };
    test.app.events().subscribe(after).await.map(drop).expect("the cursor is known");
    assert_eq!(test.app.views().get("main", ViewRequest::default()).await.expect("a view").token, token);
    test.stop().await;
    let again = migrate(&files(directory), &shard(server, "clients_c")).await.expect_err("a place is taken");
    assert!(
        again.contains("longhand.db.migrated was set aside by an earlier migration, and is not replaced"),
        "{again}"
    );
}

#[tokio::test]
async fn places_that_do_not_fit_are_refused_before_anything_is_written() {
    let Some(server) = Server::shared() else { return };
    let test = TestApp::start().await;
    test.manual_session().await;
    let occupied = TestApp::start().await;
    occupied.manual_session().await;
    let (folder, running) = (private_folder(), test.directory().to_owned());
    // Both are served.
    for (from, to) in [(running.clone(), folder.path().join("x")), (running.clone(), running.clone())] {
        let error = migrate(&files(&from), &files(&to)).await.expect_err("refused");
        assert!(error.contains("move the data directory"), "{error}");
    }
    let error = migrate(&files(&running), &shard(server, "refused")).await.expect_err("served");
    assert!(error.contains("another daemon has the data directory"), "{error}");
    let (directory, occupied) = (test.stop().await, occupied.stop().await);
    let shared = Arc::new(private_folder());
    place(shared.path(), Some((server.url(), "refused_served")));
    let served = open(&shared).await;
    served.manual_session().await;
    let error = migrate(&shard(server, "refused_served"), &files(&folder.path().join("x"))).await.expect_err("served");
    assert!(error.contains("a daemon has the shard refused_served"), "{error}");
    served.stop().await;
    for (from, to, expected) in [
        (files(directory.path()), shard(server, "refused_served"), "the destination has a store"),
        (shard(server, "refused_served"), files(directory.path()), "the destination has a store"),
        (shard(server, "refused_served"), shard(server, "refused_served"), "cannot be migrated to where it is"),
        (files(&folder.path().join("none")), shard(server, "refused"), "there is no store in"),
        (shard(server, "refused_none"), files(directory.path()), "there is no store in the shard refused_none"),
    ] {
        let error = migrate(&from, &to).await.expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }
    assert!(!folder.path().join("none").exists() && !folder.path().join("x").exists(), "nothing was made");
    let mut database = Database::of(shared.path());
    let schemas = "select count(*) from pg_namespace where nspname in ('lh_refused', 'lh_refused_none')";
    assert_eq!(database.number(schemas), 0, "nothing was made");
    // All are as they were.
    assert_eq!(open(&directory).await.findings().await, []);
    assert_eq!(open(&occupied).await.findings().await, []);
    assert_eq!(open(&shared).await.findings().await, []);
}

/// What is set aside is served by nobody, and comes back by its name.
#[tokio::test]
async fn what_is_set_aside_is_not_served_and_can_be_taken_back() {
    let Some(server) = Server::shared() else { return };
    let home = private_folder();
    let directory = home.path().join("store");
    let daemon = crate::cli::Daemon::start(home.path());
    let session = daemon.text(&["create", "--title", "kept"]).trim().to_owned();
    daemon.stop();
    let url = server.database("aside");
    let command = |arguments: &[&str]| longhand(home.path()).args(arguments).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let path = directory.to_str().expect("UTF-8");
    let migrated = command(&["migrate", path, &url]);
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));
    let printed = text(&migrated.stdout);
    assert!(printed.contains("1 session and") && printed.contains("longhand.db.migrated"), "{printed}");
    let serve = |arguments: &[&str]| {
        let mut command = longhand(home.path());
        command.args(["serve", "--data-dir", path, "--listen", "off"]).args(arguments);
        command
    };
    assert!(!kills::is_served(serve(&[]), "was set aside by `longhand migrate`"));
    assert!(!directory.join("longhand.db").exists(), "no store is made in its place");
    // The same call again has nothing to do.
    let again = command(&["migrate", path, &url, "--json"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let other = command(&["migrate", path, &url, "--shard", "s2"]);
    assert!(
        text(&other.stderr).contains("was migrated before, and not to this destination"),
        "{}",
        text(&other.stderr)
    );

    let back = command(&["migrate", &url, home.path().join("back").to_str().expect("UTF-8")]);
    assert!(back.status.success(), "{}", text(&back.stderr));
    let in_shard = serve(&["--database", &url]);
    assert!(!kills::is_served(in_shard, "set aside in the schema migrated_lh_s1"));
    // Taken back by hand.
    place(&directory, Some((url.clone(), "s1")));
    let taken = "drop schema lh_s1; alter schema migrated_lh_s1 rename to lh_s1";
    Database::of(&directory).execute_batch(taken).expect("renamed");
    let daemon = crate::cli::Daemon::start(home.path());
    assert!(daemon.text(&["sessions"]).contains("kept"));
    daemon.stop();
    place(&directory, None);
    std::fs::rename(directory.join("longhand.db.migrated"), directory.join("longhand.db")).expect("renamed");
    let daemon = crate::cli::Daemon::start(home.path());
    daemon.text(&["append", &session, "words"]);
}

/// The backup of a shard is a file like every other backup, of one moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_shard_is_of_one_moment_while_others_write() {
    let Some(server) = Server::shared() else { return };
    let full = full().await;
    migrate(&files(full.directory.path()), &shard(server, "backup")).await.expect("migrated");
    place(full.directory.path(), Some((server.url(), "backup")));
    let test = open(&full.directory).await;
    let id = test.app.daemon().info().await.expect("the state").store_id;
    let (before, once) = (read(&test).await, append_once(&test).await);
    let folder = private_folder();
    let quiet = folder.path().join("quiet.db");
    crate::backups::finish(&test, &quiet).await.expect("a backup");
    let path = folder.path().join("backup.db");
    let mut items = test.app.daemon().create_backup(path.to_str().expect("UTF-8")).expect("it begins");
    let mut appended = 0;
    let copy = loop {
        let messages = conversation("u \"meanwhile\"\na \"yes\" call=c1\nt result=c1:x");
        test.app.messages().append("retrieval", messages, None, None).await.expect("appended");
        appended += 1;
        match items.try_recv() {
            Ok(Ok(longhand::app::backup::BackupItem::End(copy))) => break copy,
            Ok(Err(error)) => panic!("{error}"),
            Ok(Ok(longhand::app::backup::BackupItem::Progress(_))) | Err(_) => {}
        }
    };
    assert!(appended > 1);
    assert_eq!(copy.checked.events, copy.head_seq, "no event is missing before the newest");
    assert_eq!(
        crate::backups::finish(&test, &path).await.expect_err("taken").reason,
        longhand::app::Reason::BackupExists
    );
    assert_eq!(crate::backups::names(&folder).len(), 2, "nothing is beside them");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);

    let restored = |backup: PathBuf, name: &str| {
        let directory = folder.path().join(name);
        async move {
            offline::restore(&backup, &directory, &|_| {}).await.expect("restored");
            TestApp::copy_of(&directory).await
        }
    };
    let store = restored(path, "restored").await;
    assert_eq!(store.findings().await, []);
    assert_eq!(store.number("select max(seq) from event"), copy.head_seq);
    let store = restored(quiet, "quiet").await;
    assert_eq!(read(&store).await, before);
    assert_eq!(append_once(&store).await, once);
    assert_ne!(store.app.daemon().info().await.expect("the state").store_id, id, "another store");
    // And into a shard.
    let directory = store.stop().await;
    migrate(&files(directory.path()), &shard(server, "backup_restored")).await.expect("migrated");
    place(directory.path(), Some((server.url(), "backup_restored")));
    assert_eq!(read(&open(&directory).await).await, before);
}

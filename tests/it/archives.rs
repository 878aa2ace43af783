//! Archives: a session that was exported and imported is the same one, and an altered archive writes nothing.

mod command;

use crate::support::{Line, ScriptedSummarizer, TestApp, all_sessions, cases, conversation, shown, text, turns};
use crate::tamper;
use longhand::app::access::Access;
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::approvals::{Answer, Choice, Question};
use longhand::app::archives::ImportedArchive;
use longhand::app::compactions::NewCompaction;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::prompts::{NewPrompt, PromptChoice};
use longhand::app::quotas::Quota;
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::{Caller, Error, Reason};
use longhand::model::access::Binding;
use longhand::model::compaction::CompactionKind;
use longhand::model::draft::DraftKind;
use longhand::model::event::{Event, EventKind};
use longhand::model::message::{Finish, FinishReason};
use longhand::store::ContentQuota;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use std::collections::HashMap;

/// The archive of a session, as lines.
pub(crate) async fn export(app: &Caller, session: &str) -> Result<Vec<u8>, Error> {
    let mut pieces = app.archives().export(session).await?;
    let mut lines = Vec::new();
    while let Some(piece) = pieces.recv().await {
        let piece = piece?;
        assert!(piece.len() <= longhand::limits::ARCHIVE_PIECE_BYTES);
        lines.extend(piece);
    }
    Ok(lines)
}

/// Imports an archive, compressed.
pub(crate) async fn import(app: &Caller, lines: &[u8]) -> Result<ImportedArchive, Error> {
    app.archives().import(zstd::stream::encode_all(lines, 1).expect("compressed")).await
}

/// The sessions of a store, oldest first.
async fn sessions(test: &TestApp) -> Vec<String> {
    let (listed, _) = test.app.sessions().list(&all_sessions(1_000)).await.expect("a list");
    listed.iter().rev().map(|info| info.session.id.to_string()).collect()
}

/// What a store answers about a session up to a revision: every view, every history, and the audit log.
async fn answers(test: &TestApp, session: &str, newest: i64) -> Vec<String> {
    let mut answers = Vec::new();
    for at in 1..=newest {
        let view = test.view_as_of(session, at).await;
        answers.push(format!(
            "#{at} {:?} {} {:?} {:?} {:?} {:?}",
            view.hash, view.estimated_tokens, view.messages, view.covered, view.omitted, view.provenance
        ));
        answers.push(format!("{:?}", test.history_as_of(session, Some(at)).await));
    }
    let of_session = |event: &Event| event.session_id.to_string() == session && event.revision <= newest;
    let events = test.events().await.into_iter().filter(of_session).map(|event| Event { seq: 0, ..event });
    answers.extend(events.map(|event| format!("{event:?}")));
    let (found, words) = test.app.sessions().with_words(session).await.expect("a session");
    answers.push(format!("{words:?}"));
    let found = found.session;
    answers.push(format!("{:?} {:?} {:?} {:?}", found.id, found.client_id, found.fork, found.parent));
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_imported_session_is_the_one_that_was_exported() {
    let source = tamper::rich().await;
    let empty = TestApp::start().await;
    let used = TestApp::start().await;
    let others = used.manual_session().await;
    used.append(&others, "u1 \"something else\"\na1 open\nu2 \"more\"").await;
    // Children come before those that they hang on, so that one archive has several sessions.
    let all = sessions(&source).await;
    let mut newest = HashMap::new();
    for target in [&empty, &used] {
        let mut written = Vec::new();
        for session in all.iter().rev() {
            let lines = export(&source.app, session).await.expect("exported");
            let imported = import(&target.app, &lines).await.expect("imported");
            assert_eq!(imported.info.session.id.to_string(), *session);
            written.extend(imported.written.iter().map(ToString::to_string));
            let again = import(&target.app, &lines).await.expect("imported again");
            assert!(again.written.is_empty() && again.info.session.id == imported.info.session.id);
            newest.insert(session.clone(), source.revision(session).await);
        }
        written.sort();
        let mut expected = all.clone();
        expected.sort();
        assert_eq!(written, expected, "each is written once");
        assert_eq!(target.findings().await, []);
    }
    for session in &all {
        let expected = answers(&source, session, newest[session]).await;
        for target in [&empty, &used] {
            let found = answers(target, session, newest[session]).await;
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "{session}");
            }
            assert_eq!(found.len(), expected.len());
        }
    }
    // A request that was answered there is answered here, with the number of the event in this log.
    let repeat = async |test: &TestApp| {
        test.once("large", "large")
            .messages()
            .append(&all[0], conversation("u11 \"look\""), None, None)
            .await
            .expect("answered")
    };
    let (first, second) = (repeat(&source).await, repeat(&used).await);
    assert_eq!((&first.ids, first.revision), (&second.ids, second.revision));
    let event = used.events().await.into_iter().find(|event| event.seq == second.seq).expect("an event");
    assert_eq!((event.session_id.to_string(), event.revision), (all[0].clone(), second.revision));
    // Both go on by themselves.
    empty.append(&all[0], "u30 \"here\"").await;
    let empty = empty.restart().await;
    assert_eq!(empty.findings().await, []);
}

/// Words that fill many pieces of an archive: a text, and another one that is used twice.
async fn large(test: &TestApp) -> String {
    let session = test.manual_session().await;
    let words = |seed: usize| (seed..seed + 700_000).map(|number| number.to_string()).collect::<String>();
    for message in ["u1", "a1", "u2"] {
        let mut messages = conversation(&format!("{message} \"short\""));
        messages[0].parts.push(text(&words(if message == "a1" { 1 } else { 2 })));
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
    }
    session
}

fn erasure(message: &str) -> EraseRequest {
    EraseRequest {
        target: EraseTarget::Messages(vec![message.to_owned()]),
        reason: "a key".to_owned(),
        dry_run: false,
        expected_revision: None,
    }
}

fn blobs(test: &TestApp) -> i64 {
    test.number("select count(*) from blob")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_has_tombstones_and_what_was_imported_can_be_erased() {
    let source = TestApp::start().await;
    let session = large(&source).await;
    source.app.content().erase(&session, erasure("a1")).await.expect("erased");
    let target = TestApp::start().await;
    let lines = export(&source.app, &session).await.expect("exported");
    import(&target.app, &lines).await.expect("imported");
    assert_eq!(target.findings().await, []);
    let newest = source.revision(&session).await;
    assert_eq!(answers(&target, &session, newest).await, answers(&source, &session, newest).await);
    assert_eq!(blobs(&target), 1, "the one that two messages use");
    target.app.content().erase(&session, erasure("u1")).await.expect("erased");
    assert_eq!(blobs(&target), 1, "another message uses it");
    target.app.content().erase(&session, erasure("u2")).await.expect("erased");
    assert_eq!((blobs(&target), target.findings().await), (0, vec![]));
    // What was erased here does not come back with an archive of what it was.
    assert!(import(&target.app, &lines).await.expect("imported again").written.is_empty());
    assert_eq!(blobs(&target), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erasure_ends_an_archive_that_is_being_written() {
    let source = TestApp::start().await;
    let session = large(&source).await;
    let mut pieces = source.app.archives().export(&session).await.expect("begun");
    pieces.recv().await.expect("a piece").expect("begun");
    source.app.content().erase(&session, erasure("u2")).await.expect("erased");
    let mut reason = None;
    while let Some(piece) = pieces.recv().await {
        reason = piece.err().map(|error| error.reason);
    }
    assert_eq!(reason, Some(Reason::ArchiveOvertaken));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_get_the_events_of_an_import_in_order() {
    let source = TestApp::start().await;
    let session = source.manual_session().await;
    source.append(&session, "u1 \"hello\"\na1 \"hi\"").await;
    let fork =
        source.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    source.append(&session, "u2 \"more\"").await;
    source.append(&fork.session.id.to_string(), "u3 \"elsewhere\"").await;
    let target = TestApp::start().await;
    let mut watch = target.watch().await;
    target.manual_session().await;
    watch.wait_for(EventKind::SessionCreated).await;
    let lines = export(&source.app, &fork.session.id.to_string()).await.expect("exported");
    import(&target.app, &lines).await.expect("imported");
    let expected: Vec<_> = source.events().await.iter().map(|event| (event.session_id, event.revision)).collect();
    while watch.log.len() < 1 + expected.len() {
        watch.frame().await;
    }
    let found: Vec<_> = watch.log[1..].iter().map(|event| (event.session_id, event.revision)).collect();
    assert_eq!(found, expected);
    assert!(watch.log.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq));
    drop(watch);
    // The log has them after a restart, too.
    let target = target.restart().await;
    let found: Vec<_> = target.events().await[1..].iter().map(|event| (event.session_id, event.revision)).collect();
    assert_eq!(found, expected);
}

fn question() -> Question {
    let choice = |id: &str| Choice { id: id.to_owned(), label: String::new() };
    Question { text: "May I?".to_owned(), choices: vec![choice("yes"), choice("no")], ..Question::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_goes_on_in_the_copy() {
    let source = TestApp::start().await;
    let session = source.manual_session().await;
    source.append(&session, "u1 \"hello\"").await;
    let epoch = source.by("ada").runs().acquire(&session, None, false).await.expect("acquired").run.epoch;
    source.append(&session, "a1 \"be\" open").await;
    let words = |offset, delta: &str| NewDraftText {
        part: None,
        client_id: Some("d1".to_owned()),
        kind: DraftKind::Text,
        offset,
        delta: delta.to_owned(),
    };
    let draft = source.app.messages().append_draft(&session, "a1", words(0, "gin")).await.expect("drafted");
    let new = |words: &str| NewPrompt::from_parts(vec![text(words)]);
    for words in ["first", "second"] {
        source.app.prompts().submit(&session, new(words)).await.expect("it waits");
    }
    let asked = source.app.approvals().request(&session, question()).await.expect("asked").answer.0.id.to_string();

    let target = TestApp::start().await;
    import(&target.app, &export(&source.app, &session).await.expect("exported")).await.expect("imported");
    assert_eq!(target.findings().await, []);
    assert_eq!(target.number("select count(*) from open_message where expire_time is not null"), 1);
    let run = target.app.runs().renew(&session, epoch, None).await.expect("the run is active");
    assert!(run.lease_end_time.is_some());
    assert_eq!(target.app.prompts().take(&session, epoch, PromptChoice::First).await.expect("taken").0.parts.len(), 1);
    let more = NewDraftText { part: Some(draft.part), ..words(3, "ning") };
    target.app.messages().append_draft(&session, "a1", more).await.expect("it goes on with the words");
    target.app.messages().append_parts(&session, "a1", vec![OpenPart::draft(draft.part, None)]).await.expect("closed");
    let finish = Finish { reason: Some(FinishReason::Stop), ..Finish::default() };
    target.app.messages().finish(&session, "a1", finish, None).await.expect("sealed");
    let answer = Answer { choice: Some("yes".to_owned()), text: String::new() };
    target.app.approvals().answer(&session, &asked, answer).await.expect("answered");
    target.app.runs().release(&session, epoch, None).await.expect("released");
    assert!(
        shown(&target.view(&session).await).iter().any(|line| line.contains("beginning") || line.contains("ginning"))
    );
    assert_eq!(target.findings().await, []);
    assert_eq!(target.restart().await.findings().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_has_the_end_of_a_compaction_that_never_began() {
    let script = ScriptedSummarizer::new([Line::Hold("a summary".to_owned())]);
    let source = TestApp::with_one_worker(script.clone()).await;
    let (busy, session) = (source.manual_session().await, source.manual_session().await);
    let start = async |session: &str| {
        source.append(session, &turns(1, 8, 400)).await;
        let wanted = NewCompaction::of_kind(CompactionKind::Summary);
        source.app.compactions().start(session, wanted).await.expect("there is something to compact").answer.0
    };
    start(&busy).await;
    script.held().await;
    // The only worker is busy.
    let waiting = start(&session).await.id.to_string();
    source.app.compactions().cancel(&waiting).await.expect("cancelled");
    let ended = source.app.compactions().get(&waiting).await.expect("the compaction");
    assert!(ended.failure.is_some() && ended.end_time.is_some() && ended.end_revision.is_none(), "{ended:?}");
    let lines = export(&source.app, &session).await.expect("exported");
    script.release();
    let target = TestApp::start().await;
    import(&target.app, &lines).await.expect("imported");
    assert_eq!(target.app.compactions().get(&waiting).await.expect("the compaction"), ended);
}

#[tokio::test]
async fn a_few_bytes_do_not_become_a_large_archive() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut lines = unsealed(&export(&test.app, &session).await.expect("exported"));
    let row = lines.iter().find(|line| line.starts_with(r#"{"table":"event""#)).expect("an event").clone();
    lines.extend(std::iter::repeat_n(row, 200_000));
    let bomb = zstd::stream::encode_all(sealed(&lines).as_slice(), 3).expect("compressed");
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let target = TestApp::start().await;
    let refused = target.app.archives().import(bomb).await.expect_err("it says too much");
    assert_eq!((refused.reason, refused.metadata["what"].as_str()), (Reason::LimitExceeded, "data"));
}

/// Lines with the last one as it belongs to them.
pub(crate) fn sealed(lines: &[String]) -> Vec<u8> {
    let body = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let hash = blake3::hash(body.as_bytes()).to_hex();
    format!("{body}{{\"rows\":{},\"hash\":\"{hash}\"}}\n", lines.len() - 1).into_bytes()
}

/// The lines of an archive without the last one.
pub(crate) fn unsealed(archive: &[u8]) -> Vec<String> {
    let text = String::from_utf8(archive.to_vec()).expect("UTF-8");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop();
    assert_eq!(sealed(&lines), archive);
    lines
}

/// Columns that the chains do not commit to: keys and numbers that are other ones in another store, what is derived, and
/// what follows no event.
fn is_free(table: &str, column: &str) -> bool {
    match table {
        "tool_call" | "job" | "draft" | "open_message" | "request" => true,
        "session" => matches!(
            column,
            "id" | "create_hash"
                | "compaction_revision"
                | "guard_revision"
                | "undo_revision"
                | "appended_bytes"
                | "content_bytes"
        ),
        "event" => column == "seq",
        "message" => column == "id",
        "run" => matches!(column, "lease_ms" | "lease_until"),
        "prompt" => column == "rank",
        "approval" => column == "timeout_ms",
        _ => false,
    }
}

/// Another value of a column.
fn altered(value: &Value, seed: u64) -> Value {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    match value {
        Value::Null => Value::from(7),
        Value::Number(number) => {
            Value::from(number.as_i64().expect("an integer") + 1 + i64::try_from(seed % 3).expect("small"))
        }
        Value::String(text) if text.is_empty() => Value::from("x"),
        Value::String(text) => Value::from(format!("{text}x")),
        Value::Array(one) => {
            let mut bytes = STANDARD.decode(one[0].as_str().expect("a text")).expect("bytes");
            match bytes.len() {
                0 => bytes.push(1),
                length => bytes[usize::try_from(seed).expect("a number") % length] ^= 1 << (seed % 8),
            }
            Value::Array(vec![Value::from(STANDARD.encode(bytes))])
        }
        other => panic!("{other} is no value of a column"),
    }
}

#[test]
fn an_altered_archive_writes_nothing() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (source, target) = runtime.block_on(async { (tamper::rich().await, TestApp::start().await) });
    let archives: Vec<Vec<u8>> = runtime.block_on(async {
        let mut archives = Vec::new();
        for session in sessions(&source).await {
            archives.push(export(&source.app, &session).await.expect("exported"));
        }
        archives
    });
    let mut runner = TestRunner::new(Config {
        cases: cases(300),
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    });
    let refuse = |archive: Vec<u8>, what: &str| {
        runtime.block_on(async {
            let error = import(&target.app, &archive).await.expect_err(what);
            let reason = error.reason;
            assert!(matches!(reason, Reason::ArchiveInvalid | Reason::ClientIdReused), "{what}: {error}");
            assert_eq!(target.number("select count(*) from session"), 0, "{what}");
            assert_eq!(target.number("select count(*) from blob"), 0, "{what}");
        });
    };
    let outcome = runner.run(&(0..archives.len(), any::<u64>(), any::<u64>(), 0..8_u8), |(archive, at, seed, kind)| {
        let archive = &archives[archive];
        let mut lines = unsealed(archive);
        // The header is the first line.
        let index = 1 + usize::try_from(at % (lines.len() as u64 - 1)).expect("an index");
        let row: Value = serde_json::from_str(&lines[index]).expect("a row");
        let (table, columns) = (row["table"].as_str().expect("a table"), row["row"].as_object().expect("columns"));
        match kind {
            // Any byte, by somebody who does not know the form.
            0 => {
                let mut bytes = archive.clone();
                let at = usize::try_from(at).unwrap_or(usize::MAX) % bytes.len();
                bytes[at] ^= 1 << (seed % 8);
                refuse(bytes, "a byte");
            }
            // The end is cut off.
            1 => {
                let length = usize::try_from(at).unwrap_or(usize::MAX) % archive.len();
                refuse(archive[..length].to_vec(), "cut off");
            }
            // Two lines are swapped.
            2 => {
                let other = 1 + usize::try_from(seed % (lines.len() as u64 - 1)).expect("an index");
                prop_assume!(other != index);
                lines.swap(other, index);
                let footer =
                    String::from_utf8(archive.clone()).expect("UTF-8").lines().last().expect("a line").to_owned();
                refuse(format!("{}\n{footer}\n", lines.join("\n")).into_bytes(), "swapped");
            }
            // A row is dropped, or there twice, by somebody who computes the last line anew.
            3 | 4 => {
                prop_assume!(!is_free(table, ""));
                let what = format!("{kind}: {}", lines[index]);
                if kind == 3 {
                    lines.remove(index);
                } else if matches!(table, "blob" | "policy_text") {
                    return Ok(());
                } else {
                    lines.insert(index, lines[index].clone());
                }
                refuse(sealed(&lines), &what);
            }
            // A value is altered, by somebody who computes the last line anew.
            _ => {
                let column = usize::try_from(seed % columns.len() as u64).expect("an index");
                let (name, value) = columns.iter().nth(column).expect("a column");
                prop_assume!(!is_free(table, name));
                let mut row = row.clone();
                row["row"][name.as_str()] = altered(value, seed / 64);
                let what = format!("{table}.{name} of {}", lines[index]);
                lines[index] = row.to_string();
                refuse(sealed(&lines), &what);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    // As they were written, they are taken.
    runtime.block_on(async {
        for archive in &archives {
            import(&target.app, &sealed(&unsealed(archive))).await.expect("imported");
        }
        assert_eq!(target.findings().await, []);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_there_is_never_replaced() {
    let source = TestApp::start().await;
    let named = |client_id: &str| NewSession { client_id: Some(client_id.to_owned()), ..NewSession::default() };
    let session = source.create(named("mine")).await;
    source.append(&session, "u1 \"hello\"").await;
    let earlier = export(&source.app, &session).await.expect("exported");
    source.append(&session, "u2 \"more\"").await;
    let later = export(&source.app, &session).await.expect("exported");
    let target = TestApp::start().await;
    import(&target.app, &earlier).await.expect("imported");
    let refused = import(&target.app, &later).await.expect_err("the copy is older");
    assert_eq!((refused.reason, refused.metadata["session_id"].clone()), (Reason::ArchiveConflict, session.clone()));
    target.append(&session, "u3 \"another way\"").await;
    let revision = target.revision(&session).await;
    assert!(import(&target.app, &earlier).await.expect("it is there").written.is_empty(), "with more since");
    assert_eq!(import(&target.app, &later).await.expect_err("it went another way").reason, Reason::ArchiveConflict);
    assert_eq!(target.revision(&session).await, revision);
    assert!(import(&source.app, &earlier).await.expect("it is there").written.is_empty(), "into its own store");
    // A client id that another session has.
    let third = TestApp::start().await;
    third.create(named("mine")).await;
    let refused = import(&third.app, &later).await.expect_err("the client id is taken");
    assert_eq!((refused.reason, refused.metadata["client_id"].as_str()), (Reason::ClientIdReused, "mine"));
    assert_eq!(third.number("select count(*) from session"), 1);
    assert_eq!(third.findings().await, []);
}

fn caller(test: &TestApp, tenant: &str, binding: Binding) -> Caller {
    let access =
        Access { principal: "agent".into(), tenant: tenant.into(), binding: binding.into(), ..Access::owner() };
    test.longhand.caller(access, String::new(), None).expect("a caller")
}

/// The operator, who acts in a tenant.
pub(crate) fn acting(test: &TestApp, tenant: &str) -> Caller {
    let access = Access::owner().acting_in(tenant).expect("an operator");
    test.longhand.caller(access, String::new(), None).expect("a caller")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_is_of_the_caller_s_tenant_and_within_its_quotas() {
    let source = TestApp::start().await;
    let acme = acting(&source, "acme");
    let session =
        acme.sessions().create(NewSession::default()).await.expect("a session").answer.0.session.id.to_string();
    acme.messages().append(&session, conversation("u1 \"hello\""), None, None).await.expect("appended");
    assert_eq!(export(&source.app, &session).await.expect_err("another tenant's").reason, Reason::SessionNotFound);
    let lines = export(&acme, &session).await.expect("exported");
    // In another tenant, and from there in a third one, the chain is still the one of the first.
    let target = TestApp::start().await;
    let other = acting(&target, "other");
    import(&other, &lines).await.expect("imported");
    assert_eq!(
        target.app.sessions().get(&session).await.expect_err("another tenant's").reason,
        Reason::SessionNotFound
    );
    other.messages().append(&session, conversation("u2 \"more\""), None, None).await.expect("appended");
    assert_eq!(import(&target.app, &lines).await.expect_err("it is another tenant's").reason, Reason::ArchiveConflict);
    assert_eq!(target.findings().await, []);
    let again = export(&other, &session).await.expect("exported");
    let third = TestApp::start().await;
    import(&third.app, &again).await.expect("imported");
    assert_eq!(third.findings().await, []);
    let heads = async |app: &Caller| app.daemon().list_heads(Some(&session), 0, "", &[]).await.expect("a head").0;
    assert_eq!(heads(&third.app).await, heads(&other).await);
    // What the chain was written with is under it.
    drop(other);
    let directory = target.stop().await;
    for sql in [
        "update import set tenant = 'other'",
        "update import_event set seq = seq + 1 where revision = 2",
        "delete from import",
    ] {
        assert_ne!(TestApp::altered(directory.path(), sql).await.findings().await, [], "{sql}");
    }
    // Quotas hold for imports, and a refused one uses nothing.
    let small = TestApp::start().await;
    let content = ContentQuota { sessions: Some(1), ..ContentQuota::default() };
    let quota = Quota { content, ..Quota::default() };
    small.longhand.hold_to_quotas(HashMap::from([("acme".to_owned(), quota)])).await.expect("quotas");
    let within = acting(&small, "acme");
    let broken = [&lines[..lines.len() - 3], b"7}\n"].concat();
    assert_eq!(import(&within, &broken).await.expect_err("broken").reason, Reason::ArchiveInvalid);
    import(&within, &lines).await.expect("the first");
    import(&within, &lines).await.expect("it is there");
    let second = source.manual_session().await;
    let second = export(&source.app, &second).await.expect("exported");
    assert_eq!(import(&within, &second).await.expect_err("the second").reason, Reason::QuotaExceeded);
    // An archive that hides its size has it nevertheless.
    acme.messages().append(&session, conversation("u3 5000c"), None, None).await.expect("appended");
    let mut lines = unsealed(&export(&acme, &session).await.expect("exported"));
    let row = lines.iter_mut().find(|line| line.starts_with(r#"{"table":"session""#)).expect("a session");
    let mut hidden: Value = serde_json::from_str(row).expect("JSON");
    hidden["row"]["content_bytes"] = Value::from(0);
    *row = hidden.to_string();
    let full = TestApp::start().await;
    let content = ContentQuota { bytes: Some(4_000), ..ContentQuota::default() };
    let quota = Quota { content, ..Quota::default() };
    full.longhand.hold_to_quotas(HashMap::from([("acme".to_owned(), quota)])).await.expect("quotas");
    let within = acting(&full, "acme");
    assert_eq!(import(&within, &sealed(&lines)).await.expect_err("too much").reason, Reason::QuotaExceeded);
    assert_eq!(sessions(&full).await, Vec::<String>::new());
}

/// What no chain commits to is compared with what one commits to, or has the bounds that it has for callers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_with_rows_that_contradict_its_events_writes_nothing() {
    let source = tamper::rich().await;
    let target = TestApp::start().await;
    let more = |by: i64| move |value: &Value| Some(Value::from(value.as_i64()? + by));
    let set = |number: i64| move |value: &Value| (value.as_i64() != Some(number)).then(|| Value::from(number));
    type Forge = Box<dyn Fn(&Value) -> Option<Value>>;
    let of_ended = |row: &Value| !row["ended_revision"].is_null() && !row["started_revision"].is_null();
    let forgeries: Vec<(&str, &str, Forge)> = vec![
        ("job", "kind", Box::new(set(9))),
        ("job", "state", Box::new(set(4))),
        ("job", "state", Box::new(set(1))),
        ("job", "trigger", Box::new(set(9))),
        ("job", "tokens_at_request", Box::new(more(1))),
        ("job", "ended_revision", Box::new(|_| Some(Value::Null))),
        ("job", "undone_revision", Box::new(|value| value.is_null().then(|| Value::from(1)))),
        ("job", "end_time", Box::new(|_| Some(Value::Null))),
        ("job", "attempt", Box::new(set(-1))),
        ("open_message", "timeout_ms", Box::new(set(-1))),
        ("open_message", "timeout_ms", Box::new(set(i64::MAX))),
        ("draft", "kind", Box::new(set(9))),
        ("draft", "number", Box::new(set(0))),
        ("run", "lease_ms", Box::new(set(i64::MAX))),
        ("approval", "timeout_ms", Box::new(set(-1))),
        ("tool_call", "revision", Box::new(more(1_000))),
        ("tool_call", "answered_revision", Box::new(set(1 << 40))),
        ("session", "compaction_revision", Box::new(set(1 << 40))),
        ("session", "guard_revision", Box::new(set(-1))),
        ("session", "appended_bytes", Box::new(set(-1))),
        ("request", "receipt", Box::new(|value| Some(altered(value, 0)))),
    ];
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for session in sessions(&source).await {
        let lines = unsealed(&export(&source.app, &session).await.expect("exported"));
        for (index, line) in lines.iter().enumerate().skip(1) {
            let row: Value = serde_json::from_str(line).expect("a row");
            let table = row["table"].as_str().expect("a table");
            let mut forged: Vec<(String, Option<Value>)> = Vec::new();
            for (_, column, forge) in forgeries.iter().filter(|(of, ..)| *of == table) {
                let new = forge(&row["row"][column]).filter(|_| table != "job" || of_ended(&row["row"]));
                let Some(new) = new else { continue };
                let mut row = row.clone();
                row["row"][column] = new;
                forged.push((format!("{table}.{column}"), Some(row)));
            }
            // A compaction of the log without its row.
            forged.extend((table == "job" && of_ended(&row["row"])).then(|| ("no job".to_owned(), None)));
            for (what, row) in forged {
                let mut lines = lines.clone();
                match row {
                    Some(row) => lines[index] = row.to_string(),
                    None => drop(lines.remove(index)),
                }
                match import(&target.app, &sealed(&lines)).await {
                    Err(error) => {
                        assert_eq!(error.reason, Reason::ArchiveInvalid, "{what}: {error}");
                        refused += 1;
                    }
                    Ok(_) => accepted.push(format!("{what} of {line}")),
                }
            }
            if !accepted.is_empty() {
                break;
            }
        }
    }
    assert!(accepted.is_empty() && refused > 100, "{refused} were refused, and these not: {accepted:#?}");
    assert_eq!(target.number("select count(*) from session"), 0);
}

/// Whether an archive can be written tells which ids are there, whosever they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_tells_no_tenant_which_ids_another_one_has() {
    let source = TestApp::start().await;
    let session = source.manual_session().await;
    source.append(&session, "u1 \"hello\"").await;
    let archive = export(&source.app, &session).await.expect("exported");
    let probe = async |target: &TestApp| {
        let refused = import(&caller(target, "other", Binding::default()), &archive).await.expect_err("no operator");
        (refused.reason, refused.message.clone(), refused.metadata.clone())
    };
    let target = TestApp::start().await;
    let nobodys = probe(&target).await;
    import(&acting(&target, "acme"), &archive).await.expect("the operator imports");
    assert_eq!(probe(&target).await, nobodys);
    assert_eq!(nobodys.0, Reason::ScopeMissing);
    let own = caller(&target, "acme", Binding::default());
    own.sessions().get(&session).await.expect("it is the tenant's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_does_not_see_is_in_no_archive_of_its_own() {
    let test = TestApp::start().await;
    let above = test.manual_session().await;
    test.append(&above, "u1 \"for others\"").await;
    let child = NewSession { parent: Some(above.clone()), ..NewSession::default() };
    let child = test.create(child).await;
    let fork =
        test.app.sessions().fork(&child, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    let bound = Binding { root: Some(child.parse().expect("an id")), ..Binding::default() };
    let bound = caller(&test, "", bound);
    for session in [&child, &fork.session.id.to_string()] {
        assert_eq!(export(&bound, session).await.expect_err("it hangs on another one").reason, Reason::ScopeMissing);
    }
    assert_eq!(export(&bound, &above).await.expect_err("hidden").reason, Reason::SessionNotFound);
    let lines = export(&test.app, &above).await.expect("exported");
    assert_eq!(import(&bound, &lines).await.expect_err("bound").reason, Reason::ScopeMissing);
    // One that hangs on nothing else is its own.
    let own = Binding { root: Some(above.parse().expect("an id")), ..Binding::default() };
    export(&caller(&test, "", own), &above).await.expect("exported");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_is_of_one_moment_while_its_session_grows() {
    let source = TestApp::start().await;
    let session = source.manual_session().await;
    // Several pieces, so that the rest is read after the first.
    source.append(&session, &turns(1, 20, 60_000)).await;
    source.append(&session, "az \"be\" open").await;
    let revision = source.revision(&session).await;
    let mut pieces = source.app.archives().export(&session).await.expect("it begins");
    let mut lines = pieces.recv().await.expect("a piece").expect("bytes");
    // The rest is read while it grows, and while the open message is sealed and edited.
    source.append(&session, "u100 \"more\"").await;
    let finish = Finish { reason: Some(FinishReason::Stop), ..Finish::default() };
    source.app.messages().append_parts(&session, "az", vec![OpenPart::Whole(text("gin"))]).await.expect("added");
    source.app.messages().finish(&session, "az", finish, None).await.expect("sealed");
    source
        .once("late", "late")
        .messages()
        .append(&session, conversation("u101 \"late\""), None, None)
        .await
        .expect("appended");
    source.app.runs().acquire(&session, None, false).await.expect("acquired");
    source.app.messages().rewind(&session, "u3", None).await.expect("rewound");
    while let Some(piece) = pieces.recv().await {
        lines.extend(piece.expect("bytes"));
    }
    let target = TestApp::start().await;
    import(&target.app, &lines).await.expect("imported");
    assert_eq!(target.revision(&session).await, revision);
    assert_eq!(target.findings().await, []);
    assert_eq!(target.number("select count(*) from request"), 0);
    target
        .app
        .messages()
        .append_parts(&session, "az", vec![OpenPart::Whole(text("side"))])
        .await
        .expect("it is open there");
    // A caller that leaves ends it.
    let mut left = source.app.archives().export(&session).await.expect("it begins");
    left.recv().await.expect("a piece").expect("bytes");
    drop(left);
    source.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_archive_is_refused_with_its_reason() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let lines = unsealed(&export(&test.app, &session).await.expect("exported"));
    let header = |from: &str, to: &str| {
        let mut lines = lines.clone();
        lines[0] = lines[0].replace(from, to);
        assert!(lines[0].contains(to), "{}", lines[0]);
        sealed(&lines)
    };
    let target = TestApp::start().await;
    let zeros = vec![0; longhand::limits::ARCHIVE_BYTES_MAX + 1];
    let too_large = import(&target.app, &zeros).await.expect_err("too large");
    assert_eq!(too_large.reason, Reason::LimitExceeded);
    let plain = target.app.archives().import(b"{\"longhand_archive\":1}\n".to_vec()).await.expect_err("not compressed");
    assert!(plain.reason == Reason::ArchiveInvalid && plain.message.contains("Zstandard"), "{plain}");
    for (archive, why) in [
        (Vec::new(), "has no end"),
        (b"hello\n".to_vec(), "ends after its header"),
        (header("\"longhand_archive\":1", "\"longhand_archive\":2"), "its form is 2"),
        (header("\"schema\":2", "\"schema\":9"), "a newer version of Longhand wrote it"),
    ] {
        let refused = import(&target.app, &archive).await.expect_err(why);
        assert!(refused.reason == Reason::ArchiveInvalid && refused.message.contains(why), "{refused}");
    }
    assert_eq!(sessions(&target).await, Vec::<String>::new());
}

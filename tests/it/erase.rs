//! Erasures: what is erased is in no view, no list, no event and no file; everything else is as it was, and the chains
//! are whole.

use crate::database::Database;
use crate::engines::erase_at_once as erase;
use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, shown, text, turns, window};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use longhand::app::Reason;
use longhand::app::append::ListMessages;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::erase::{EraseAnswer, EraseRequest, EraseTarget, part_target};
use longhand::app::error;
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::model::compaction::CompactionKind;
use longhand::model::event::{ErasedTarget, EventBody, EventKind};
use longhand::model::message::{MessageKind, NewMessage, Role};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};
use longhand::model::session::SessionState;
use longhand::model::view::{PartShortening, ViewKind};
use std::collections::HashSet;
use std::path::Path;

fn request(target: EraseTarget) -> EraseRequest {
    EraseRequest { target, reason: "a key was pasted".to_owned(), dry_run: false, expected_revision: None }
}

fn message(id: &str) -> EraseRequest {
    request(EraseTarget::Messages(vec![id.to_owned()]))
}

/// Text that no compression makes shorter by much, with a beginning that names it.
fn noise(name: &str, bytes: usize) -> String {
    let mut noise = format!("{name}:");
    let mut state = blake3::Hasher::new_derive_key("noise");
    state.update(name.as_bytes());
    let mut random = vec![0; bytes];
    state.finalize_xof().fill(&mut random);
    noise.extend(random.iter().map(|byte| char::from(b'!' + byte % 90)));
    noise
}

/// The files, and the tables of PostgreSQL, that have some of the bytes that these values of the database have: from each of them, pieces of 24 bytes.
fn holders(directory: &Path, values: &[Vec<u8>]) -> Vec<String> {
    let pieces: HashSet<&[u8]> = values.iter().flat_map(|value| value.chunks_exact(24)).collect();
    let holds = |bytes: &[u8]| bytes.windows(24).any(|window| pieces.contains(window));
    crate::database::stored(directory).into_iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
}

/// The encoded contents of messages, as the database has them: compressed ones and large ones too.
fn contents(test: &TestApp, sql: &str) -> Vec<Vec<u8>> {
    test.database().column(sql)
}

#[tokio::test]
async fn an_erased_message_is_in_no_view_no_list_and_no_file() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut messages = conversation("u1 \"hello\"\nu2 \"x\"\na2 \"done\"");
    let image = Media {
        mime_type: "image/png".to_owned(),
        name: "k.png".to_owned(),
        source: MediaSource::Bytes(noise("image", 90_000).into()),
    };
    messages[1].parts = vec![
        text(&noise("short", 200)),
        text(&noise("packed", 4_000)),
        text(&noise("large", 100_000)),
        NewPart { metadata_json: Some(format!("{:?}", noise("metadata", 99))), ..NewPart::new(PartBody::Media(image)) },
    ];
    messages[1].metadata_json = Some(format!("{:?}", noise("note", 99)));
    test.app.messages().append(&session, messages, None, None).await.expect("appended");
    let before = test.history(&session).await;
    let view = test.view(&session).await;
    let mut stored =
        contents(&test, "select parts from message where revision = (select max(revision) - 1 from message)");
    stored.extend(contents(&test, "select data from blob"));
    stored.extend(["short", "packed", "large", "image", "metadata", "note"].map(|name| noise(name, 90).into_bytes()));
    assert_ne!(holders(test.directory(), &stored), Vec::<String>::new(), "the search finds what is there");
    let mut watch = test.watch().await;
    let would =
        test.app.content().erase(&session, EraseRequest { dry_run: true, ..message("u2") }).await.expect("a preview");
    assert_eq!(test.history(&session).await, before, "a dry run changes nothing");
    let erased = erase(&test.by("dana"), &session, message("u2")).await;
    assert_eq!(would.sizes, erased.sizes);
    assert_eq!((erased.sizes.messages, erased.sizes.parts, erased.sizes.blobs), (1, 4, 2));
    assert!(erased.sizes.bytes > 194_000, "{:?}", erased.sizes);
    assert_eq!(holders(test.directory(), &stored), Vec::<String>::new(), "bytes are left");
    let after = test.history(&session).await;
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]), "nothing else changes");
    let gone = &after[1];
    assert_eq!((gone.id, gone.revision, &gone.client_id), (before[1].id, before[1].revision, &before[1].client_id));
    assert_eq!(gone.parts.len(), 4);
    assert!(gone.parts.iter().all(|part| part.body.is_erased() && part.metadata_json.is_none()));
    assert_eq!(gone.metadata_json, None);
    for shown in [test.view(&session).await, test.view_as_of(&session, view.revision).await] {
        assert_eq!(shown.messages.len(), view.messages.len());
        let part = &shown.messages[1].parts[0];
        assert_eq!(part.shortened, Some(PartShortening::Erased));
        assert!(part.body.is_erased());
    }
    assert_ne!(test.view(&session).await.hash, view.hash);
    let event = watch.wait_for(EventKind::Erased).await;
    assert_eq!(event.actor, "dana");
    let EventBody::Erased { target, reason, from, messages, .. } = event.body else { panic!("an erasure") };
    assert_eq!((target, reason.as_str(), from), (ErasedTarget::Message, "a key was pasted", None));
    assert_eq!(messages.iter().map(|erased| erased.message).collect::<Vec<_>>(), [gone.id]);
    assert_eq!(test.findings().await, []);
    // The session goes on, and a restart finds the same.
    test.append(&session, "u3 \"next\"").await;
    let view = test.view(&session).await;
    drop(watch);
    let test = test.restart().await;
    assert_eq!(test.view(&session).await.hash, view.hash);
    assert_eq!(test.findings().await, []);
    assert_eq!(holders(test.directory(), &stored), Vec::<String>::new(), "nothing comes back");
}

#[tokio::test]
async fn one_part_of_a_message_is_erased_and_the_others_stay() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let text_of = |name: &str| noise(name, 300);
    test.append(&session, "u1 \"run it\"\na1 \"looking\" call=c1\nt1 result=c1:3000c\na2 \"done\"").await;
    test.append(&session, "a3 \"begin\" open").await;
    let parts = vec![text(&text_of("first")), text(&text_of("second"))];
    let parts = parts.into_iter().map(longhand::app::append::OpenPart::Whole).collect();
    test.app.messages().append_parts(&session, "a3", parts).await.expect("added");
    let open = test.app.messages().get(&session, "a3").await.expect("open").0;
    let result = test.app.messages().get(&session, "t1").await.expect("a result").0;
    let call = test.app.messages().get(&session, "a1").await.expect("a call").0;
    let stored = contents(&test, "select body from part where position = 1");
    for part in [open.parts[1].id, result.parts[0].id, call.parts[1].id] {
        let erased = erase(&test.app, &session, request(part_target(&part.to_string()).expect("an id"))).await;
        assert_eq!((erased.sizes.messages, erased.sizes.parts, erased.existed), (1, 1, false));
    }
    assert_eq!(holders(test.directory(), &stored), Vec::<String>::new());
    let history = test.history(&session).await;
    let erased: Vec<Vec<bool>> =
        history.iter().map(|message| message.parts.iter().map(|part| part.body.is_erased()).collect()).collect();
    assert_eq!(erased, [vec![false], vec![false, true], vec![true], vec![false], vec![false, true, false]]);
    assert!(history[4].sealed_revision.is_some(), "an open message is sealed first");
    let view = shown(&test.view(&session).await);
    assert_eq!(view[1..3], ["assistant shown: looking call c1", "tool shown: result c1 [erased from the history]"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_repeated_erasure_gets_the_same_answer_and_a_repeated_append_brings_nothing_back() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let secret = || conversation("u1 \"secret\"");
    test.once("first", "one").messages().append(&session, secret(), None, None).await.expect("appended");
    let once = || test.once("erase", "u1");
    let erased = erase(&once(), &session, message("u1")).await;
    assert!(!erased.existed);
    let head = test.revision(&session).await;
    for caller in [once(), test.app.clone(), test.once("other", "u1")] {
        let again = erase(&caller, &session, message("u1")).await;
        assert_eq!(again, EraseAnswer { existed: true, ..erased.clone() });
    }
    assert_eq!(test.revision(&session).await, head, "nothing is written again");
    let repeated = test.once("first", "one").messages().append(&session, secret(), None, None).await.expect("answered");
    let by_client_id = test.app.messages().append(&session, secret(), None, None).await.expect("answered");
    assert_eq!((repeated.answer.ids, by_client_id.existed_count), (by_client_id.answer.ids, 1));
    assert_eq!(test.revision(&session).await, head);
    assert!(test.history(&session).await[0].parts[0].body.is_erased());
    let refused = |error: error::Error| error.reason;
    let missing = test.app.content().erase(&session, message("u7")).await.map_err(refused);
    assert_eq!(missing, Err(Reason::MessageNotFound));
    let silent = EraseRequest { reason: String::new(), ..message("u1") };
    assert_eq!(test.app.content().erase(&session, silent).await.map_err(refused), Err(Reason::InvalidField));
    let forged = NewPart::new(PartBody::Text("x".to_owned()).erased());
    let mut fake = conversation("u5 \"x\"");
    fake[0].parts = vec![forged];
    assert_eq!(
        test.app.messages().append(&session, fake, None, None).await.map_err(refused).err(),
        Some(Reason::InvalidField)
    );
}

/// Supplies a summary of everything before a message.
async fn supply(test: &TestApp, session: &str, text: &str, tail_start: &str) {
    let summary = NewSummary { text: text.to_owned(), tail_start: tail_start.to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(session, summary).await.expect("supplied");
}

#[tokio::test]
async fn every_summary_of_what_is_erased_is_void_and_loses_its_text() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 6, 200)).await;
    supply(&test, &session, &noise("of u1 and u2", 500), "u3").await;
    supply(&test, &session, &noise("of all of it", 500), "u4").await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    let texts = contents(&test, "select parts from message where kind = 4");
    let text_of = |name: &str| noise(name, 90).into_bytes();
    let texts = [texts, vec![text_of("of u1 and u2"), text_of("of all of it")]].concat();
    // A message of the tail leaves the summary as it is.
    let late = erase(&test.app, &session, message("a5")).await;
    assert_eq!(late.sizes.summaries, 0);
    assert_eq!(test.view(&session).await.messages.len(), 2 + 8);
    let erased = erase(&test.app, &session, message("u1")).await;
    assert_eq!(erased.sizes.summaries, 2, "the undone one too");
    assert_eq!(holders(test.directory(), &texts), Vec::<String>::new());
    let view = test.view(&session).await;
    assert_eq!(view.messages.len(), 12, "nothing stands for the history any more");
    assert!(view.covered.is_none());
    let redone = test.app.compactions().redo(&session, None).await;
    assert_eq!(redone.expect_err("it has no text").reason, Reason::NothingToRedo);
    // The next one is made from what is left.
    supply(&test, &session, "anew", "u3").await;
    assert_eq!(test.view(&session).await.messages.len(), 2 + 8);
    // It has nothing of what was erased, and an erasure that is asked for again leaves it.
    let would = EraseRequest { dry_run: true, ..message("u1") };
    let would = test.app.content().erase(&session, would).await.expect("a preview");
    // It waits for no file, so it names none.
    let before = EraseAnswer { existed: true, event: None, pending_files: Vec::new(), ..erased.clone() };
    assert_eq!(would, before, "it says what was erased before");
    let again = erase(&test.app, &session, message("u1")).await;
    assert_eq!(again, EraseAnswer { existed: true, ..erased });
    assert_eq!(test.view(&session).await.messages.len(), 2 + 8);
    assert_eq!(test.findings().await, []);
}

/// A summary that goes on from another one has its text, whatever messages both stand for.
#[tokio::test]
async fn the_erasure_of_a_summary_takes_those_that_go_on_from_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 6, 200)).await;
    supply(&test, &session, &noise("of u1 and u2", 500), "u3").await;
    let view = test.view(&session).await;
    let first = view.messages.iter().find_map(|message| message.source.filter(|_| message.kind == ViewKind::Summary));
    let first = first.expect("a summary").to_string();
    supply(&test, &session, &noise("of u1 to u3", 500), "u4").await;
    let erased = erase(&test.app, &session, message(&first)).await;
    assert_eq!(erased.sizes.summaries, 2);
    let view = test.view(&session).await;
    assert_eq!((view.messages.len(), view.covered), (12, None), "the view shows the history again");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_erasure_reaches_forks_and_their_summaries_in_both_directions() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 200)).await;
    let fork = async |from: &str| {
        let forked = test.app.sessions().fork(from, ForkPoint::default(), None, String::new()).await;
        forked.expect("forked").0.session.id.to_string()
    };
    let child = fork(&session).await;
    test.append(&child, "u5 \"elsewhere\"").await;
    supply(&test, &child, &noise("of the fork", 300), "u3").await;
    let grandchild = fork(&child).await;
    let before = fork(&session).await;
    test.append(&session, "u6 \"later\"").await;
    for view in [&child, &grandchild] {
        assert!(test.view(view).await.covered.is_some());
    }
    let mut watch = test.watch().await;
    // By the fork's fork: the row is that of the first session.
    let erased = erase(&test.by("dana"), &grandchild, message("a2")).await;
    assert_eq!((erased.session.to_string(), erased.sizes.forks), (session.clone(), 3));
    assert_eq!((erased.sizes.messages, erased.sizes.summaries), (1, 1));
    for each in [&session, &child, &grandchild, &before] {
        let history = test.history(each).await;
        assert!(history[3].parts[0].body.is_erased(), "{history:?}");
        assert!(test.view(each).await.covered.is_none());
    }
    assert_eq!(holders(test.directory(), &[noise("of the fork", 200).into_bytes()]), Vec::<String>::new());
    for _ in 0..4 {
        let event = watch.wait_for(EventKind::Erased).await;
        let EventBody::Erased { from, messages, .. } = event.body else { panic!("an erasure") };
        let is_owner = event.session_id.to_string() == session;
        assert_eq!(from.is_none(), is_owner);
        let has_summary = [&child, &grandchild].contains(&&event.session_id.to_string());
        assert_eq!(messages.len(), if has_summary { 2 } else { 1 });
    }
    assert_eq!(watch.count(EventKind::Erased), 4);
    // Messages of a fork are its own.
    let own = erase(&test.app, &child, message("u5")).await;
    assert_eq!((own.session.to_string(), own.sizes.forks), (child.clone(), 1));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_running_compaction_does_not_bring_back_what_is_erased() {
    let summarizer = ScriptedSummarizer::new([Line::Hold("it has the key".to_owned()), Line::Say("anew".to_owned())]);
    let test = TestApp::with(summarizer.clone()).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 10, 1_100)).await;
    summarizer.held().await;
    let erased = erase(&test.app, &session, message("u1")).await;
    // The end of the compaction is in the same change, behind the event that the answer names.
    let again = erase(&test.app, &session, message("u1")).await;
    assert_eq!(again, EraseAnswer { existed: true, ..erased });
    summarizer.release();
    watch.wait_for(EventKind::CompactionCancelled).await;
    // The view is still too large, so that another summary is made, of what is left.
    watch.wait_for(EventKind::Compacted).await;
    test.settled().await;
    let asked = summarizer.asked();
    let words = format!("{:?}", asked.last().expect("asked again"));
    assert!(!words.contains("u1 was here"), "{words}");
    assert!(shown(&test.view(&session).await).iter().any(|line| line.contains("anew")));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_erased_session_has_nothing_left_and_its_client_id_is_free() {
    let test = TestApp::start().await;
    let new = || NewSession {
        client_id: Some("mine".to_owned()),
        title: noise("title", 60),
        metadata_json: Some(format!("{{\"project\": \"p\", \"x\": {:?}}}", noise("metadata", 60))),
        window: window(6_000, 1_000),
        ..NewSession::default()
    };
    let session = test.create(new()).await;
    test.append(&session, &turns(1, 4, 300)).await;
    supply(&test, &session, &noise("a summary", 400), "u3").await;
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    let fork = fork.session.id.to_string();
    test.append(&fork, "u5 \"of the fork\"").await;
    test.append(&session, "a5 \"open\" open").await;
    let lease = test.app.runs().acquire(&session, None, false).await;
    assert!(lease.is_ok(), "{lease:?}");
    let retitled = SessionChange { title: Some(noise("second", 60)), ..SessionChange::default() };
    test.app.sessions().update(&session, retitled).await.expect("changed");
    let mut stored = contents(&test, "select parts from message where parts is not null");
    stored.extend(["title", "metadata", "a summary", "second"].map(|name| noise(name, 48).into_bytes()));
    let would = EraseRequest { dry_run: true, ..request(EraseTarget::Session) };
    let would = test.app.content().erase(&session, would).await.expect("a preview");
    let erased = erase(&test.app, &session, request(EraseTarget::Session)).await;
    assert_eq!(would.sizes, erased.sizes);
    assert_eq!((erased.sizes.messages, erased.sizes.summaries, erased.sizes.forks), (9, 1, 1));
    let left: Vec<Vec<u8>> = contents(&test, "select parts from message where client_id = 'u5'");
    stored.retain(|value| !left.contains(value));
    assert_eq!(holders(test.directory(), &stored), Vec::<String>::new());
    let info = test.app.sessions().get(&session).await.expect("it is there").session;
    assert_eq!((info.state, info.title.as_str(), info.client_id), (SessionState::Erased, "", None));
    assert_eq!(info.metadata_json.as_deref(), Some("{\"project\":\"p\"}"), "tokens are bound by it");
    let of_fork = test.app.sessions().get(&fork).await.expect("it is there").session;
    assert_eq!(of_fork.title, "", "it was the other's");
    let history = test.history(&fork).await;
    let erased_parts = history.iter().map(|message| message.parts.iter().all(|part| part.body.is_erased()));
    assert_eq!(erased_parts.collect::<Vec<_>>(), [vec![true; 8], vec![false]].concat());
    for refused in [
        test.app.messages().append(&session, conversation("u9 \"x\""), None, None).await.map(drop),
        test.app.sessions().restore(&session).await.map(drop),
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.map(drop),
        test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Prune)).await.map(drop),
        test.app.sessions().create(new()).await.map(drop),
    ] {
        assert_eq!(refused.expect_err("it is erased").reason, Reason::SessionErased);
    }
    let again = erase(&test.app, &session, request(EraseTarget::Session)).await;
    assert_eq!(again, EraseAnswer { existed: true, ..erased });
    let other = NewSession { title: "another".to_owned(), ..new() };
    let other = test.create(other).await;
    assert_ne!(other, session);
    test.append("mine", "u1 \"new\"").await;
    assert_eq!(test.history(&other).await.len(), 1);
    assert_eq!(
        test.app.sessions().create(new()).await.map(drop).expect_err("its own request").reason,
        Reason::SessionErased
    );
    test.settled().await;
    assert_eq!(test.findings().await, []);
    let test = test.restart().await;
    assert_eq!(test.findings().await, []);
    test.append(&fork, "u6 \"goes on\"").await;
    assert_eq!(test.app.sessions().get(&session).await.expect("it is there").session.state, SessionState::Erased);
}

#[tokio::test]
async fn while_a_reader_needs_an_earlier_state_the_answer_names_the_files() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &format!("u1 \"hello\"\nu2 \"{}\"", noise("held", 300).replace('"', "'"))).await;
    let stored = contents(&test, "select parts from message where client_id = 'u2'");
    let mut reader = test.database();
    reader.execute_batch("begin; select count(*) from message").expect("a snapshot");
    let erased = test.app.content().erase(&session, message("u2")).await.expect("erased");
    assert_eq!(erased.pending_files, ["longhand.db", "longhand.db-wal"]);
    let pending = test.app.daemon().info().await.expect("the state").erasures;
    assert_eq!((pending.count, pending.files), (1, erased.pending_files), "it is shown until then");
    assert_ne!(holders(test.directory(), &stored), Vec::<String>::new(), "the reader needs it");
    // A daemon that dies meanwhile does it after its next start.
    let test = test.kill().await;
    assert_eq!(test.number("select count(*) from erasure where is_clean = 0"), 1);
    reader.execute_batch("rollback").expect("it ends");
    drop(reader);
    let erased = erase(&test.app, &session, message("u2")).await;
    assert!(erased.existed);
    assert_eq!(holders(test.directory(), &stored), Vec::<String>::new());
    assert_eq!(test.app.daemon().info().await.expect("the state").erasures.count, 0);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn words_of_erased_messages_are_found_no_more() {
    let test = TestApp::start().await;
    let policy = r#"{"trigger": {"auto": false}, "retrieval": {"budget_tokens": 60, "passage_tokens": 30,
        "query_units": 1000, "heading": "Earlier:"}}"#;
    let new = NewSession {
        preset: "opencode@seed".to_owned(),
        policy_override_json: policy.to_owned(),
        ..NewSession::default()
    };
    let session = test.create(new).await;
    let talk = "u1 \"The zanzibarkey is in vault quetzalnine.\"\na1 \"Noted.\"\nu2 \"The quokkaword stays.\"\na2 \"ok\"\nu3 \"go on\"";
    test.append(&session, talk).await;
    supply(&test, &session, "We talked.", "u3").await;
    let ask = async |question: &str| {
        test.append(&session, &format!("u \"{question}\"")).await;
        format!("{:?}", test.view(&session).await.messages)
    };
    assert!(ask("where is the zanzibarkey?").await.contains("quetzalnine"));
    test.settled().await;
    let blocks = match test.database() {
        Database::Sqlite(_) => "select block from search_data",
        Database::Postgres(_) => "select convert_to(word, 'UTF8') from search",
    };
    let indexed = contents(&test, blocks).concat();
    assert!(indexed.windows(10).any(|window| window == b"uetzalnine"));
    erase(&test.app, &session, message("u1")).await;
    let index = contents(&test, blocks).concat();
    let has = |word: &str| index.windows(word.len()).any(|window| window == word.as_bytes());
    assert!(has("quokkaword") && !has("uetzalnine"), "the index has the words of what is left");
    supply(&test, &session, "We talked again.", "u3").await;
    assert!(!ask("where is the zanzibarkey?").await.contains("quetzalnine"));
    assert!(ask("what is the quokkaword?").await.contains("stays"), "other messages are found");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn prompts_and_questions_lose_what_their_messages_lose() {
    use longhand::app::approvals::Question;
    use longhand::app::prompts::{NewPrompt, PromptChoice};
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let metadata_json = Some(format!("{:?}", noise("wish", 60)));
    let prompt = NewPrompt { metadata_json, ..NewPrompt::from_parts(vec![text(&noise("prompt", 400))]) };
    let (prompt, _) = test.app.prompts().submit(&session, prompt).await.expect("submitted").answer;
    let run = test.app.runs().acquire(&session, None, false).await.expect("a run").run;
    test.app.prompts().take(&session, run.epoch, PromptChoice::First).await.expect("taken");
    test.append(&session, "a1 \"may I?\" call=c1").await;
    let question = Question {
        text: noise("question", 200),
        tool: "bash".to_owned(),
        call_id: "c1".to_owned(),
        input_json: Some("{}".to_owned()),
        accepts_text: true,
        ..Question::default()
    };
    let (approval, _) = test.app.approvals().request(&session, question).await.expect("asked").answer;
    let answer = longhand::model::approval::Answer { choice: None, text: noise("answer", 100) };
    test.app.approvals().answer(&session, &approval.id.to_string(), answer).await.expect("answered");
    let mut stored = contents(&test, "select parts from prompt");
    stored.extend(["wish", "prompt", "question", "answer"].map(|name| noise(name, 48).into_bytes()));
    assert_ne!(holders(test.directory(), &stored), Vec::<String>::new());
    erase(&test.app, &session, message(&prompt.message().to_string())).await;
    erase(&test.app, &session, message("a1")).await;
    assert_eq!(holders(test.directory(), &stored), Vec::<String>::new());
    let (prompts, _) = test.app.prompts().list(&session, true, 9, "").await.expect("prompts");
    assert!(prompts[0].parts[0].body.is_erased() && prompts[0].metadata_json.is_none());
    assert_eq!(test.number("select content_bytes from session"), 0, "nothing is counted any more");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_erased_session_counts_no_content_of_its_prompts_and_questions() {
    use longhand::app::approvals::Question;
    use longhand::app::prompts::{NewPrompt, PromptChoice};
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    for name in ["taken", "waits", "waits too"] {
        let prompt = NewPrompt::from_parts(vec![text(&noise(name, 400))]);
        test.app.prompts().submit(&session, prompt).await.expect("submitted");
    }
    let run = test.app.runs().acquire(&session, None, false).await.expect("a run").run;
    let taken = test.app.prompts().take(&session, run.epoch, PromptChoice::First).await;
    taken.expect("taken");
    test.append(&session, "a1 \"may I?\" call=c1").await;
    for call in ["c1", "c2"] {
        let question =
            Question { text: noise(call, 200), call_id: call.to_owned(), accepts_text: true, ..Question::default() };
        test.app.approvals().request(&session, question).await.expect("asked");
    }
    // What is gone with the message is not counted twice.
    erase(&test.app, &session, message("a1")).await;
    assert!(test.number("select content_bytes from session") > 1_800);
    erase(&test.app, &session, request(EraseTarget::Session)).await;
    assert_eq!(test.number("select content_bytes from session"), 0);
    assert_eq!(test.findings().await, []);
}

/// An erasure takes the choices of a question. Nobody is told that a choice which was offered is none.
#[tokio::test]
async fn an_answer_to_a_question_of_an_erased_session_is_refused_for_that() {
    use longhand::app::approvals::{Choice, Question};
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let choice = Choice { id: "yes".to_owned(), label: "Yes".to_owned() };
    let question = Question { text: "May I?".to_owned(), choices: vec![choice], ..Question::default() };
    let (approval, _) = test.app.approvals().request(&session, question).await.expect("asked").answer;
    erase(&test.app, &session, request(EraseTarget::Session)).await;
    let answer = longhand::model::approval::Answer { choice: Some("yes".to_owned()), text: String::new() };
    let refused = test.app.approvals().answer(&session, &approval.id.to_string(), answer).await;
    assert_eq!(refused.expect_err("it is erased").reason, Reason::SessionErased);
}

#[tokio::test]
async fn a_bound_caller_erases_what_it_sees_and_nothing_else() {
    use longhand::app::access::Credentials;
    use longhand::app::access_tokens::NewAccessToken;
    use longhand::model::access::Scopes;
    let test = TestApp::start().await;
    let parent = test.manual_session().await;
    test.append(&parent, "u1 \"shared\"").await;
    let fork =
        test.app.sessions().fork(&parent, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    let root = fork.session.id;
    test.append(&root.to_string(), "u2 \"own\"").await;
    let new = NewAccessToken {
        principal: "agent".to_owned(),
        scopes: Scopes::all(),
        root: Some(root.to_string()),
        ..NewAccessToken::default()
    };
    let (_, secret) = test.app.access_tokens().create(new).await.expect("a token");
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    let access = test.longhand.entrance().authenticate(Credentials::Secret(&secret, address)).expect("it is valid");
    let bound = test.longhand.caller(access, String::new(), None).expect("a caller");
    let refused = |error: error::Error| error.reason;
    let shared = bound.content().erase(&root.to_string(), message("u1")).await.map_err(refused);
    assert_eq!(shared, Err(Reason::MessageNotFound), "it is of a session that the caller does not see");
    let of_parent = bound.content().erase(&parent, message("u1")).await.map_err(refused);
    assert_eq!(of_parent, Err(Reason::SessionNotFound));
    assert!(!test.history(&parent).await[0].parts[0].body.is_erased());
    erase(&bound, &root.to_string(), message("u2")).await;
    assert!(test.history(&root.to_string()).await[1].parts[0].body.is_erased());
}

/// Has one transaction do some writes, in this order.
async fn together(test: &TestApp, writes: Vec<BoxFuture<'_, ()>>) {
    let busy = test.manual_session().await;
    test.settled().await;
    let first: BoxFuture<'_, ()> = Box::pin(test.append(&busy, "u \"first\"").map(drop));
    let mut database = test.database();
    // The writer waits with the first one, and the others gather behind it.
    database.lock_writes();
    let mut sent = Vec::new();
    for write in std::iter::once(first).chain(writes) {
        sent.push(write);
        let wanted = i64::try_from(sent.len()).expect("a few");
        loop {
            // All of them: one that was counted too early, beside a mutation of the daemon's own, is sent all the same.
            for write in &mut sent {
                assert!(write.now_or_never().is_none(), "the commit waits for the lock");
            }
            if test.app.daemon().info().await.expect("the figures").figures.queued_mutations >= wanted {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    database.unlock();
    futures::future::join_all(sent).await;
}

/// What the same transaction wrote before an erasure is under it.
#[tokio::test]
async fn an_erasure_takes_what_was_written_in_the_same_transaction() {
    let test = TestApp::start().await;
    let late = || noise("late", 200);
    for case in ["a message", "an edit", "a summary"] {
        let session = test.manual_session().await;
        test.append(&session, &turns(1, 3, 40)).await;
        let write = async || match case {
            "a message" => {
                let message = NewMessage::sealed(Role::User, vec![text(&late())]);
                // It is written, and its answer may say that the session is erased since.
                drop(test.app.messages().append(&session, vec![message], None, None).await);
            }
            "an edit" => drop(test.app.messages().edit(&session, "u1", &[text(&late())], None).await.expect("edited")),
            _ => supply(&test, &session, &late(), "u3").await,
        };
        let target =
            if case == "a message" { EraseTarget::Session } else { EraseTarget::Messages(vec!["u1".to_owned()]) };
        let erasure = async || {
            let erased = erase(&test.app, &session, request(target)).await;
            assert!(!erased.existed);
        };
        together(&test, vec![Box::pin(write()), Box::pin(erasure())]).await;
        assert_eq!(holders(test.directory(), &[late().into_bytes()]), Vec::<String>::new(), "{case}");
        let list = ListMessages { derived: true, page_size: 100, ..ListMessages::default() };
        let mut messages = test.app.messages().list(&session, list).await.expect("a page").messages;
        messages.retain(|message| message.kind != MessageKind::Marker);
        assert_eq!(messages.len(), 7, "{case} is written");
        messages.retain(|message| message.parts.iter().any(|part| !part.body.is_erased()));
        assert_eq!(messages.len(), if case == "a message" { 0 } else { 5 }, "{case}");
    }
    assert_eq!(test.findings().await, []);
}

/// Messages of many sizes, with drafts that grew, in a store that other messages fill: no page keeps a copy of what was
/// moved or replaced.
#[tokio::test]
async fn no_page_of_the_files_keeps_what_was_erased_among_others() {
    use longhand::app::append::{NewDraftText, OpenPart};
    use longhand::model::draft::DraftKind;
    let test = TestApp::start().await;
    assert_eq!(test.number("select auto_vacuum from pragma_auto_vacuum"), 2, "pages can be given back");
    let session = test.manual_session().await;
    let other = test.manual_session().await;
    let size = |number: usize| 40 + (number * 7_919) % 3_000;
    for number in 0..150 {
        let mut messages = conversation(&format!("u{number} \"x\""));
        messages[0].parts = vec![text(&noise(&format!("text {number}"), size(number)))];
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
        test.append(&other, &format!("u \"{}\"", "y".repeat(size(number + 1)))).await;
        if number % 10 != 0 {
            continue;
        }
        let name = format!("a{number}");
        test.append(&session, &format!("{name} \"begun\" open")).await;
        let words = noise(&format!("draft {number}"), 900);
        let (mut part, mut offset) = (None, 0);
        for delta in words.as_bytes().chunks(90).map(|piece| String::from_utf8_lossy(piece).into_owned()) {
            let length = delta.len();
            let new = NewDraftText { part, client_id: None, kind: DraftKind::Text, offset, delta };
            part = Some(test.app.messages().append_draft(&session, &name, new).await.expect("drafted").part);
            offset += i64::try_from(length).expect("a length");
        }
        if number % 20 == 0 {
            let closed = vec![OpenPart::draft(part.expect("a draft"), None)];
            test.app.messages().append_parts(&session, &name, closed).await.expect("closed");
        }
    }
    let parts = "select parts from message where session_id = 1 and parts is not null";
    let mut stored = contents(&test, parts);
    stored.extend((0..150).map(|number| noise(&format!("text {number}"), size(number)).into_bytes()));
    stored.extend((0..150).step_by(10).map(|number| noise(&format!("draft {number}"), 900).into_bytes()));
    let used = "select page_count - freelist_count from pragma_page_count, pragma_freelist_count";
    let before = test.number(used);
    for number in (0..150).rev() {
        erase(&test.app, &session, message(&format!("u{number}"))).await;
    }
    for number in (0..150).step_by(10) {
        erase(&test.app, &session, message(&format!("a{number}"))).await;
    }
    assert_eq!(holders(test.directory(), &stored), Vec::<String>::new());
    assert_eq!(test.findings().await, []);
    // Nor does a page stay for what is left of a message.
    let after = test.number(used);
    assert!(after < before * 9 / 10, "{before} pages were used, and are {after}");
}

#[tokio::test]
async fn what_stands_for_erased_content_is_under_the_chain_too() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\nu2 \"two\"\nu3 \"three\"").await;
    erase(&test.app, &session, message("u1")).await;
    erase(&test.app, &session, message("u2")).await;
    let directory = test.stop().await;
    for altered in [
        "update tombstone set digest = zeroblob(32) where revision = 2",
        "update tombstone set hash = zeroblob(32) where revision = 2",
        "delete from tombstone where revision = 2",
        "insert into tombstone select session_id, 4, erase_revision, digest, hash from tombstone where revision = 2",
        "update message set parts = (select parts from message where client_id = 'u2'), parts_length = \
         (select parts_length from message where client_id = 'u2') where client_id = 'u1'",
        "update message set parts = (select parts from message where client_id = 'u1'), parts_length = \
         (select parts_length from message where client_id = 'u1') where client_id = 'u3'",
        "update event set actor = 'somebody else' where revision = 2",
        "update event set body = (select body from event where revision = 6) where revision = 5",
    ] {
        let copy = TestApp::altered(directory.path(), altered).await;
        assert_ne!(copy.findings().await, [], "{altered}");
    }
    assert_eq!(TestApp::copy_of(directory.path()).await.findings().await, []);
}

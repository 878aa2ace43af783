//! Erasures: what is erased is in no view, no list, no event and no file; everything else is as it was, and the chains
//! are whole.

use crate::support::{TestApp, conversation, shown, text};
use longhand::app::Reason;
use longhand::app::erase::{EraseRequest, EraseTarget, Erased, part_target};
use longhand::app::{Caller, error};
use longhand::model::event::{ErasedTarget, EventBody, EventKind};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};
use longhand::model::view::Shortened;
use std::collections::HashSet;
use std::path::Path;

fn request(target: EraseTarget) -> EraseRequest {
    EraseRequest { target, reason: "a key was pasted".to_owned(), dry_run: false }
}

fn message(id: &str) -> EraseRequest {
    request(EraseTarget::Message(id.to_owned()))
}

async fn erase(caller: &Caller, session: &str, request: EraseRequest) -> Erased {
    let erased = caller.erase(session, request).await.expect("erased");
    assert_eq!(erased.pending_files, Vec::<String>::new(), "nobody reads an earlier state");
    erased
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

/// All bytes of all files of a store.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).expect("the folder");
    entries
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file")))
        .collect()
}

/// The files that have some of the bytes that these values of the database have: from each of them, pieces of 24 bytes.
fn holders(directory: &Path, values: &[Vec<u8>]) -> Vec<String> {
    let pieces: HashSet<&[u8]> = values.iter().flat_map(|value| value.chunks_exact(24)).collect();
    let holds = |bytes: &[u8]| bytes.windows(24).any(|window| pieces.contains(window));
    files(directory).into_iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
}

/// The encoded contents of messages, as the database has them: compressed ones and large ones too.
fn contents(test: &TestApp, sql: &str) -> Vec<Vec<u8>> {
    let database = test.database();
    let mut statement = database.prepare(sql).expect(sql);
    let values = statement.query_map((), |row| row.get(0)).expect(sql);
    values.collect::<Result<_, _>>().expect(sql)
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
    test.app.append(&session, messages, None, None).await.expect("appended");
    let before = test.history(&session).await;
    let view = test.context(&session).await;
    let mut stored =
        contents(&test, "select parts from message where revision = (select max(revision) - 1 from message)");
    stored.extend(contents(&test, "select data from blob"));
    stored.extend(["short", "packed", "large", "image", "metadata", "note"].map(|name| noise(name, 90).into_bytes()));
    assert_ne!(holders(test.directory(), &stored), Vec::<String>::new(), "the search finds what is there");
    let mut watch = test.watch().await;
    let would = test.app.erase(&session, EraseRequest { dry_run: true, ..message("u2") }).await.expect("a preview");
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
    for context in [test.context(&session).await, test.context_as_of(&session, view.revision).await] {
        assert_eq!(context.messages.len(), view.messages.len());
        let part = &context.messages[1].parts[0];
        assert_eq!(part.shortened, Some(Shortened::Erased));
        assert!(part.body.is_erased());
    }
    assert_ne!(test.context(&session).await.hash, view.hash);
    let event = watch.wait_for(EventKind::Erased).await;
    assert_eq!(event.actor, "dana");
    let EventBody::Erased { target, reason, from, messages, .. } = event.body else { panic!("an erasure") };
    assert_eq!((target, reason.as_str(), from), (ErasedTarget::Message, "a key was pasted", None));
    assert_eq!(messages.iter().map(|erased| erased.message).collect::<Vec<_>>(), [gone.id]);
    assert_eq!(test.findings().await, []);
    // The session goes on, and a restart finds the same.
    test.append(&session, "u3 \"next\"").await;
    let view = test.context(&session).await;
    let test = test.restart().await;
    assert_eq!(test.context(&session).await.hash, view.hash);
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
    test.app.append_parts(&session, "a3", parts).await.expect("added");
    let open = test.app.get_message(&session, "a3").await.expect("open").0;
    let result = test.app.get_message(&session, "t1").await.expect("a result").0;
    let call = test.app.get_message(&session, "a1").await.expect("a call").0;
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
    let view = shown(&test.context(&session).await);
    assert_eq!(view[1..3], ["assistant shown: looking call c1", "tool shown: result c1 [erased from the history]"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_repeated_erasure_gets_the_same_answer_and_a_repeated_append_brings_nothing_back() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let secret = || conversation("u1 \"secret\"");
    test.once("first", "one").append(&session, secret(), None, None).await.expect("appended");
    let once = || test.once("erase", "u1");
    let erased = erase(&once(), &session, message("u1")).await;
    assert!(!erased.existed);
    let head = test.revision(&session).await;
    for caller in [once(), test.app.clone(), test.once("other", "u1")] {
        let again = erase(&caller, &session, message("u1")).await;
        assert_eq!(again, Erased { existed: true, ..erased.clone() });
    }
    assert_eq!(test.revision(&session).await, head, "nothing is written again");
    let other = once().erase(&session, message("u9")).await;
    assert!(other.is_ok(), "a repeated request gets its answer");
    let repeated = test.once("first", "one").append(&session, secret(), None, None).await.expect("answered");
    let by_client_id = test.app.append(&session, secret(), None, None).await.expect("answered");
    assert_eq!((repeated.ids, by_client_id.existed_count), (by_client_id.ids, 1));
    assert_eq!(test.revision(&session).await, head);
    assert!(test.history(&session).await[0].parts[0].body.is_erased());
    let refused = |error: error::Error| error.reason;
    let missing = test.app.erase(&session, message("u7")).await.map_err(refused);
    assert_eq!(missing, Err(Reason::MessageNotFound));
    let silent = EraseRequest { reason: String::new(), ..message("u1") };
    assert_eq!(test.app.erase(&session, silent).await.map_err(refused), Err(Reason::InvalidField));
    let forged = NewPart::new(PartBody::Text("x".to_owned()).erased());
    let mut fake = conversation("u5 \"x\"");
    fake[0].parts = vec![forged];
    assert_eq!(test.app.append(&session, fake, None, None).await.map_err(refused).err(), Some(Reason::InvalidField));
}

//! P2, P4: newer versions of records, where a client asks for them.

use crate::support::{TestApp, conversation, result};
use longhand::app::append::{AppendAnswer, AppendRequest};
use longhand::app::erase::{EraseAnswer, EraseRequest, EraseTarget};
use longhand::app::sessions::ForkPoint;
use longhand::app::{Error, Reason};
use longhand::model::Revision;
use longhand::model::ids::MessageId;
use longhand::model::message::{Message, MessageKind, NewMessage, Role};
use longhand::model::part::{NewPart, Opaque, Part, PartBody, Record};

fn record(id: &str, data: &str) -> NewMessage {
    let body = PartBody::Record(Record { kind: "state".to_owned(), data: data.to_owned() });
    NewMessage {
        client_id: Some(id.to_owned()),
        kind: MessageKind::Record,
        ..NewMessage::sealed(Role::System, vec![NewPart::new(body)])
    }
}

fn version(id: &str, data: &str) -> NewMessage {
    NewMessage { replace_existing: true, ..record(id, data) }
}

fn data(message: &Message) -> &str {
    match message.parts.first().map(|part| &*part.body) {
        Some(PartBody::Record(record)) => &record.data,
        other => panic!("no record: {other:?}"),
    }
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>) -> Result<AppendAnswer, Error> {
    test.app.messages().append(session, messages, None, None).await.map(|appended| appended.answer)
}

/// The data of the newest version of a record, by its client id.
async fn newest(test: &TestApp, session: &str, id: &str) -> String {
    data(&test.app.messages().get(session, id).await.expect("a record").0).to_owned()
}

#[tokio::test]
async fn a_newer_version_of_a_record_is_what_its_client_id_names() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let first = append(&test, &session, vec![version("todo", "1")]).await.expect("there is none yet");
    let without = append(&test, &session, vec![record("todo", "2")]).await.expect_err("nobody asked for a version");
    assert_eq!(without.reason, Reason::ClientIdReused);
    let second = append(&test, &session, vec![version("todo", "2"), record("other", "x")]).await.expect("a version");
    assert_eq!(second.existed_count, 0);
    assert_ne!(second.ids[0], first.ids[0]);
    assert_eq!(newest(&test, &session, "todo").await, "2");
    let by_id = test.app.messages().get(&session, &MessageId(first.ids[0]).to_string()).await.expect("kept").0;
    assert_eq!((data(&by_id), by_id.client_id.as_deref()), ("1", Some("todo")), "the history keeps the original");
    assert_eq!(test.history(&session).await.iter().map(data).collect::<Vec<_>>(), ["1", "2", "x"]);
    // The newest version is the one that a repetition is compared with, with the flag and without it.
    for again in [version("todo", "2"), record("todo", "2")] {
        let again = append(&test, &session, vec![again]).await.expect("again");
        assert_eq!((again.existed_count, &again.ids[..], again.revision), (1, &second.ids[..1], second.revision));
    }
    let older = append(&test, &session, vec![record("todo", "1")]).await.expect_err("it is not the newest");
    assert_eq!(older.reason, Reason::ClientIdReused);
    let back = append(&test, &session, vec![version("todo", "1")]).await.expect("the old content as a new version");
    assert_ne!(back.ids[0], first.ids[0]);
    assert_eq!(newest(&test, &session, "todo").await, "1");
    assert!(test.view(&session).await.messages.is_empty(), "no view shows a record");
    assert_eq!(test.findings().await, []);
    let test = test.kill().await;
    assert_eq!(newest(&test, &session, "todo").await, "1");
    assert_eq!(test.history(&session).await.iter().map(data).collect::<Vec<_>>(), ["1", "2", "x", "1"]);
    assert_eq!(test.findings().await, []);
}

async fn erase(test: &TestApp, session: &str, target: EraseTarget) -> EraseAnswer {
    let request = EraseRequest { target, reason: "a key".to_owned(), dry_run: false, expected_revision: None };
    test.app.content().erase(session, request).await.expect("erased")
}

/// The erasure of a version ends no record; and what was erased is no newer version.
#[tokio::test]
async fn an_erased_version_has_newer_ones_with_other_content() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    append(&test, &session, vec![version("todo", "1")]).await.expect("appended");
    for (number, other) in [("1", "2"), ("2", "3")] {
        // As a message, and as a part, which leaves the rest of its message.
        let target = match number {
            "1" => EraseTarget::Messages(vec!["todo".to_owned()]),
            _ => {
                let (found, ..) = test.app.messages().get(&session, "todo").await.expect("a record");
                EraseTarget::Part(found.parts[0].id)
            }
        };
        erase(&test, &session, target).await;
        for keep_erased in [false, true] {
            let request =
                AppendRequest { messages: vec![version("todo", number)], keep_erased, ..AppendRequest::default() };
            let same = test.app.messages().append_with(&session, request).await.expect("it is there");
            assert_eq!((same.existed_count, &same.erased), (1, &same.ids), "{number}");
        }
        let newer = append(&test, &session, vec![version("todo", other)]).await.expect("a version");
        assert_eq!((newer.existed_count, newer.erased.len()), (0, 0), "{other}");
        assert_eq!(newest(&test, &session, "todo").await, other);
    }
    // What an older version had is erased only where it is to stay so.
    let request = |keep_erased| {
        let messages = vec![version("todo", "1")];
        test.app.messages().append_with(&session, AppendRequest { messages, keep_erased, ..AppendRequest::default() })
    };
    let kept = request(true).await.expect("a version");
    assert_eq!((kept.existed_count, &kept.erased), (0, &kept.ids));
    append(&test, &session, vec![version("todo", "4")]).await.expect("a version");
    let back = request(false).await.expect("a version");
    assert_eq!((back.existed_count, back.erased.len()), (0, 0));
    assert_eq!(newest(&test, &session, "todo").await, "1");

    // What an older version had is newer again, although both were erased.
    append(&test, &session, vec![version("list", "none")]).await.expect("appended");
    append(&test, &session, vec![version("list", "a key")]).await.expect("a version");
    erase(&test, &session, EraseTarget::Messages(vec!["list".to_owned()])).await;
    let same = append(&test, &session, vec![version("list", "a key")]).await.expect("it is there");
    assert_eq!(same.existed_count, 1);
    let cleared = append(&test, &session, vec![version("list", "none")]).await.expect("a version");
    assert_eq!((cleared.existed_count, newest(&test, &session, "list").await.as_str()), (0, "none"));
    assert_eq!(test.findings().await, []);
}

/// A version of which a part was erased is repeated by the same content, and by nothing else.
#[tokio::test]
async fn a_partly_erased_version_is_known_again() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let sent = |bytes: &[u8], metadata: &str| {
        let opaque = Opaque { provider: "graphs".to_owned(), kind: "msgpack".to_owned(), data: bytes.to_vec() };
        let mut state = version("state", "about it");
        state.metadata_json = Some(metadata.to_owned());
        state.parts.push(NewPart::new(PartBody::Opaque(opaque)));
        state
    };
    append(&test, &session, vec![sent(b"hush", "{}")]).await.expect("appended");
    let (found, ..) = test.app.messages().get(&session, "state").await.expect("a record");
    erase(&test, &session, EraseTarget::Part(found.parts[1].id)).await;
    for keep_erased in [false, true] {
        let request = AppendRequest { messages: vec![sent(b"hush", "{}")], keep_erased, ..AppendRequest::default() };
        let same = test.app.messages().append_with(&session, request).await.expect("it is there");
        assert_eq!((same.existed_count, &same.erased), (1, &same.ids));
    }
    for other in [sent(b"hush", "{\"a\":1}"), sent(b"else", "{\"a\":1}"), version("state", "about it")] {
        assert_eq!(append(&test, &session, vec![other]).await.expect("a version").existed_count, 0);
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn only_a_record_with_a_client_id_has_versions() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let seen = test.append(&session, "u1 \"one\"").await.revision;
    let field = |message: NewMessage| async {
        let error = append(&test, &session, vec![record("fresh", "x"), message]).await.expect_err("refused");
        (error.reason, error.metadata.get("field").cloned().unwrap_or_default())
    };
    let mut normal = conversation("u1 \"two\"").remove(0);
    normal.replace_existing = true;
    let expected = (Reason::InvalidField, "messages[1].replace_existing".to_owned());
    assert_eq!(field(normal).await, expected);
    assert_eq!(field(NewMessage { client_id: None, ..version("r1", "x") }).await, expected);
    // A message of the conversation is never the older version of a record.
    let error = append(&test, &session, vec![record("fresh", "x"), version("u1", "x")]).await.expect_err("refused");
    assert_eq!(error.reason, Reason::ClientIdReused);
    let mut mixed = version("r1", "x");
    mixed.parts.push(result("c1", "x"));
    assert_eq!(field(mixed).await.0, Reason::InvalidField);
    assert_eq!(test.revision(&session).await, seen, "a refused batch leaves nothing behind");
}

#[tokio::test]
async fn a_version_by_request_id_comes_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let ask = async |id: &str, data: &str| {
        test.once(id, data)
            .messages()
            .append(&session, vec![version("todo", data)], None, None)
            .await
            .expect("appended")
    };
    let one = ask("a", "1").await;
    let two = ask("b", "2").await;
    // The answer of the first was lost: sent again, it does not come after the second.
    let again = ask("a", "1").await;
    assert_eq!((&again.ids, again.revision), (&one.ids, one.revision));
    assert_eq!((newest(&test, &session, "todo").await, test.revision(&session).await), ("2".to_owned(), two.revision));
}

#[tokio::test]
async fn a_fork_has_the_versions_that_came_before_it_and_its_own() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let at = append(&test, &session, vec![version("todo", "1")]).await.expect("appended").revision;
    append(&test, &session, vec![version("todo", "2")]).await.expect("appended");
    let fork = async |point: Revision| {
        let point = ForkPoint { as_of_revision: Some(point), ..ForkPoint::default() };
        test.app
            .sessions()
            .fork(&session, point, None, String::new())
            .await
            .expect("forked")
            .answer
            .0
            .session
            .id
            .to_string()
    };
    let (early, late) = (fork(at).await, fork(at + 1).await);
    append(&test, &session, vec![version("todo", "3")]).await.expect("appended");
    assert_eq!(newest(&test, &early, "todo").await, "1");
    assert_eq!(newest(&test, &late, "todo").await, "2");
    let repeated = append(&test, &late, vec![record("todo", "2")]).await.expect("the inherited one");
    assert_eq!(repeated.existed_count, 1);
    let own = append(&test, &early, vec![version("todo", "mine")]).await.expect("a version of the fork's own");
    assert_eq!(own.existed_count, 0);
    let found = [newest(&test, &early, "todo").await, newest(&test, &late, "todo").await];
    assert_eq!(found, ["mine", "2"]);
    assert_eq!(newest(&test, &session, "todo").await, "3");
    let point = ForkPoint::default();
    let third = test
        .app
        .sessions()
        .fork(&early, point, None, String::new())
        .await
        .expect("forked")
        .answer
        .0
        .session
        .id
        .to_string();
    assert_eq!(newest(&test, &third, "todo").await, "mine", "of several owners, the last counts");
    let error = append(&test, &third, vec![record("todo", "1")]).await.expect_err("the newest is another");
    assert_eq!(error.reason, Reason::ClientIdReused);
    assert_eq!(test.findings().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_of_several_writers_at_the_same_time_are_all_kept() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..40 {
        let (caller, session) = (test.by(&writer.to_string()), session.clone());
        let messages = vec![version("todo", &writer.to_string())];
        writers.spawn(async move {
            caller.messages().append(&session, messages, None, None).await.expect("appended").revision
        });
    }
    let mut revisions = writers.join_all().await;
    revisions.sort_unstable();
    let history = test.history(&session).await;
    assert_eq!(history.iter().map(|message| message.revision).collect::<Vec<_>>(), revisions);
    let last = history.last().map(data).expect("versions");
    assert_eq!(newest(&test, &session, "todo").await, last);
    assert_eq!(test.findings().await, []);
}

/// Bytes of a record come back as they were, in its row and as a blob; a search has none of them.
#[tokio::test]
async fn a_record_has_bytes_as_opaque_parts() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let small: Vec<u8> = (0..=255).collect();
    let large = small.repeat(2_000);
    let opaque = |data: &[u8]| {
        let (provider, kind, data) = ("graphs".to_owned(), "msgpack".to_owned(), data.to_vec());
        NewPart::new(PartBody::Opaque(Opaque { provider, kind, data }))
    };
    let mut state = record("state", "about it");
    state.parts.extend([opaque(&small), opaque(&large)]);
    let known = append(&test, &session, vec![state.clone()]).await.expect("appended");
    let again = append(&test, &session, vec![state]).await.expect("it is there");
    assert_eq!((again.existed_count, again.ids), (1, known.ids));
    let bytes = |message: &Message| -> Vec<Vec<u8>> {
        let opaque = |part: &Part| match &*part.body {
            PartBody::Opaque(opaque) => Some(opaque.data.to_vec()),
            _ => None,
        };
        message.parts.iter().filter_map(opaque).collect()
    };
    let found = test.app.messages().get(&session, "state").await.expect("a record").0;
    assert_eq!((data(&found), bytes(&found)), ("about it", vec![small, large]));
    assert_eq!(test.view(&session).await.messages, []);
    let erased = erase(&test, &session, EraseTarget::Messages(vec!["state".to_owned()])).await;
    assert_eq!((erased.sizes.parts, erased.sizes.blobs), (3, 1));
    let found = test.app.messages().get(&session, "state").await.expect("a record").0;
    assert!(found.parts.iter().all(|part| part.body.is_erased()));
    let alone = NewMessage { parts: vec![NewPart::new(PartBody::Text("x".to_owned()))], ..record("other", "x") };
    assert_eq!(append(&test, &session, vec![alone]).await.expect_err("refused").reason, Reason::InvalidField);
    assert_eq!(test.findings().await, []);
}

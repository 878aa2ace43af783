//! P11: lists of the messages whose client ids begin with a prefix.

use crate::support::{TestApp, conversation, text};
use longhand::app::append::{ListMessages, MessagePage};
use longhand::app::sessions::ForkPoint;
use longhand::app::{Error, Reason};
use longhand::limits;
use longhand::model::message::{MessageKind, MessageState, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody, Record};

fn record(id: &str, data: &str) -> NewMessage {
    let body = PartBody::Record(Record { kind: "state".to_owned(), data: data.to_owned() });
    NewMessage {
        client_id: Some(id.to_owned()),
        kind: MessageKind::Record,
        replace_existing: true,
        ..NewMessage::sealed(Role::System, vec![NewPart::new(body)])
    }
}

/// A message of a conversation with another client id than its line has.
fn said(line: &str, id: &str) -> NewMessage {
    let message = conversation(line).pop().expect("a message");
    NewMessage { client_id: Some(id.to_owned()), ..message }
}

async fn say(test: &TestApp, session: &str, line: &str, id: &str) {
    test.app.messages().append(session, vec![said(line, id)], None, None).await.expect("appended");
}

fn list(prefix: &str) -> ListMessages {
    ListMessages { client_id_prefix: prefix.to_owned(), records: true, ..ListMessages::default() }
}

async fn page(test: &TestApp, session: &str, list: &ListMessages) -> Result<MessagePage, Error> {
    test.app.messages().list(session, list.clone()).await
}

/// The client ids and revisions of a list, read in pages of this many messages.
async fn ids(test: &TestApp, session: &str, mut list: ListMessages, page_size: i64) -> Vec<(String, i64)> {
    let mut ids = Vec::new();
    list.page_size = page_size;
    loop {
        let page = page(test, session, &list).await.expect("a page");
        assert!(page.messages.len() <= usize::try_from(page_size).expect("a size"));
        ids.extend(page.messages.iter().map(|message| (message.client_id.clone().expect("an id"), message.revision)));
        if page.next_page_token.is_empty() {
            return ids;
        }
        list.page_token = page.next_page_token;
    }
}

/// What such a list must have, from the list of all messages.
async fn expected(test: &TestApp, session: &str, list: &ListMessages) -> Vec<(String, i64)> {
    let all = ListMessages { page_size: 1_000, client_id_prefix: String::new(), ..list.clone() };
    let all = page(test, session, &all).await.expect("a page").messages;
    let ids = all.into_iter().filter_map(|message| Some((message.client_id?, message.revision)));
    let mut ids: Vec<_> = ids.filter(|(id, _)| id.starts_with(&list.client_id_prefix)).collect();
    ids.sort();
    if list.reverse {
        ids.reverse();
    }
    ids
}

/// Records, some in versions, and messages, with another session that has the same ids.
async fn filled(test: &TestApp) -> String {
    let (session, other) = (test.manual_session().await, test.manual_session().await);
    for session in [&session, &other] {
        for number in [7, 3, 11, 5, 2] {
            let batch = vec![record(&format!("c/{number:02}"), "x"), record(&format!("w/{number:02}"), "y")];
            test.app.messages().append(session, batch, None, None).await.expect("appended");
        }
        say(test, session, "u \"a question\"", "c/u1").await;
        say(test, session, "a \"an answer\"", "c/a1").await;
        let again = vec![record("c/03", "newer"), record("c/\u{10ffff}", "z"), record("c", "short")];
        test.app.messages().append(session, again, None, None).await.expect("appended");
    }
    session
}

#[tokio::test]
async fn a_prefix_selects_messages_in_the_order_of_their_client_ids() {
    let test = TestApp::start().await;
    let session = filled(&test).await;
    let newest = test.revision(&session).await;
    for prefix in ["c/", "c/0", "w/", "c", "x", "c/\u{10ffff}", "\u{10ffff}"] {
        for reverse in [false, true] {
            for records in [false, true] {
                for as_of in [None, Some(newest), Some(newest - 3), Some(6)] {
                    let list = ListMessages { reverse, as_of, records, ..list(prefix) };
                    let wanted = expected(&test, &session, &list).await;
                    for page_size in [1, 2, 1_000] {
                        assert_eq!(ids(&test, &session, list.clone(), page_size).await, wanted, "{list:?}");
                    }
                }
            }
        }
    }
    let found = ids(&test, &session, list("c/"), 1_000).await;
    let found: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(found, ["c/02", "c/03", "c/03", "c/05", "c/07", "c/11", "c/a1", "c/u1", "c/\u{10ffff}"]);
}

#[tokio::test]
async fn messages_that_a_prefix_selects_have_the_states_that_every_list_gives_them() {
    let test = TestApp::start().await;
    let session = filled(&test).await;
    test.app.messages().edit(&session, "c/u1", &[text("another question")], None).await.expect("edited");
    say(&test, &session, "u \"more\"", "c/u2").await;
    test.app.messages().rewind(&session, "c/a1", None).await.expect("rewound");
    let found = page(&test, &session, &list("c/")).await.expect("a page");
    let states: Vec<_> = found
        .messages
        .iter()
        .zip(&found.statuses)
        .map(|(message, status)| (message.client_id.as_deref().unwrap_or_default(), status.state))
        .collect();
    let of = |id: &str| states.iter().filter(|(other, _)| *other == id).map(|(_, state)| *state).collect::<Vec<_>>();
    assert_eq!(of("c/03"), [MessageState::Superseded, MessageState::Record]);
    assert_eq!(of("c/u1"), [MessageState::Edited]);
    assert_eq!(of("c/u2"), [MessageState::Rewound]);
    assert_eq!(of("c/a1"), [MessageState::Active]);
}

#[tokio::test]
async fn a_fork_lists_what_it_inherits_among_its_own() {
    let test = TestApp::start().await;
    let session = filled(&test).await;
    say(&test, &session, "a \"begin\" open", "c/open").await;
    let fork = async |of: &str| {
        let forked = test.app.sessions().fork(of, ForkPoint::default(), None, String::new()).await;
        forked.expect("forked").0.session.id.to_string()
    };
    let child = fork(&session).await;
    test.app
        .messages()
        .append(&child, vec![record("c/03", "of the fork"), record("c/04", "own")], None, None)
        .await
        .expect("own");
    test.app.messages().append(&session, vec![record("c/05", "later")], None, None).await.expect("later");
    let grandchild = fork(&child).await;
    test.app.messages().append(&grandchild, vec![record("c/01", "own")], None, None).await.expect("own");
    for session in [&session, &child, &grandchild] {
        for reverse in [false, true] {
            let list = ListMessages { reverse, ..list("c/") };
            let wanted = expected(&test, session, &list).await;
            for page_size in [1, 3, 1_000] {
                assert_eq!(ids(&test, session, list.clone(), page_size).await, wanted);
            }
        }
    }
    let inherited = ids(&test, &grandchild, list("c/03"), 1_000).await;
    assert_eq!(inherited.len(), 3, "{inherited:?}");
}

/// A page costs a bounded number of look-ups, also where none of what they find is wanted.
#[tokio::test]
async fn a_page_can_be_short_before_the_end() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let count = limits::PREFIX_SCAN_MAX + 10;
    let records: Vec<NewMessage> = (0..count).map(|number| record(&format!("c/{number:05}"), "x")).collect();
    for batch in records.chunks(limits::BATCH_MESSAGES_MAX) {
        test.app.messages().append(&session, batch.to_vec(), None, None).await.expect("appended");
    }
    say(&test, &session, "u \"the only message\"", "c/z").await;
    let mut list = ListMessages { records: false, ..list("c/") };
    let first = page(&test, &session, &list).await.expect("a page");
    assert_eq!(first.messages, []);
    assert!(!first.next_page_token.is_empty());
    list.page_token = first.next_page_token;
    let second = page(&test, &session, &list).await.expect("a page");
    assert_eq!((second.messages.len(), second.next_page_token.as_str()), (1, ""));
}

#[tokio::test]
async fn a_prefix_has_the_bounds_of_a_client_id_and_its_pages_are_of_it_alone() {
    let test = TestApp::start().await;
    let session = filled(&test).await;
    let refused = async |list: ListMessages| page(&test, &session, &list).await.expect_err("refused").reason;
    assert_eq!(refused(list(&"c".repeat(129))).await, Reason::LimitExceeded);
    assert_eq!(refused(list("a\0")).await, Reason::InvalidField);
    let first = page(&test, &session, &ListMessages { page_size: 2, ..list("c/") }).await.expect("a page");
    let of_other = ListMessages { page_token: first.next_page_token, ..list("w/") };
    assert_eq!(refused(of_other).await, Reason::PageTokenInvalid);
}

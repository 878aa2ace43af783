//! P8, P11: what each message of the history is to the conversation and to the view, and messages by their ids.

use crate::support::{TestApp, conversation, filler, text, words_of};
use longhand::app::append::{AppendRequest, ListMessages, RewindTo};
use longhand::app::compactions::{NewSummary, Overflow};
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::{Error, Reason};
use longhand::limits;
use longhand::model::Revision;
use longhand::model::ids::MessageId;
use longhand::model::message::{Message, MessageKind, MessageState, MessageStatus, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody, Record};

/// All messages of a history with their statuses, derived ones too, read in small pages.
async fn listed(test: &TestApp, session: &str, as_of: Option<Revision>) -> Vec<(Message, MessageStatus)> {
    let mut list = ListMessages { page_size: 3, as_of, derived: true, records: true, ..ListMessages::default() };
    let mut all = Vec::new();
    loop {
        let page = test.app.messages().list(session, list.clone()).await.expect("a page");
        assert_eq!(page.messages.len(), page.statuses.len());
        all.extend(page.messages.into_iter().zip(page.statuses));
        if page.next_page_token.is_empty() {
            return all;
        }
        list.page_token = page.next_page_token;
    }
}

/// The states of a history, by client id or kind.
async fn states(test: &TestApp, session: &str, as_of: Option<Revision>) -> Vec<(String, MessageState)> {
    let name = |message: &Message| match &message.client_id {
        Some(id) => id.clone(),
        None => format!("{:?}", message.kind),
    };
    let all = listed(test, session, as_of).await;
    if as_of.is_none() {
        for (message, status) in &all {
            let got = test.app.messages().get(session, &message.id.to_string()).await.expect("it is there");
            assert_eq!(got.2, *status, "a message alone has the status that a list has");
        }
    }
    all.iter().map(|(message, status)| (name(message), status.state)).collect()
}

fn of<const N: usize>(expected: [(&str, MessageState); N]) -> Vec<(String, MessageState)> {
    expected.into_iter().map(|(name, state)| (name.to_owned(), state)).collect()
}

async fn status(test: &TestApp, session: &str, id: &str) -> MessageStatus {
    test.app.messages().get(session, id).await.expect("a message").2
}

async fn id(test: &TestApp, session: &str, id: &str) -> MessageId {
    test.app.messages().get(session, id).await.expect("a message").0.id
}

#[tokio::test]
async fn rewinds_and_edits_say_which_mark_and_which_message() {
    use MessageState::{Active, Edited, Removed, Rewound, Undone};
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let app = &test.app;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"\na2 \"four\"").await;
    let active = of([("u1", Active), ("a1", Active), ("u2", Active), ("a2", Active)]);
    assert_eq!(states(&test, &session, None).await, active);
    assert_eq!(status(&test, &session, "u1").await, MessageStatus::from_state(Active));
    let before = test.revision(&session).await;

    let edit = app.messages().edit(&session, "a1", &[text("dos")], None).await.expect("edited");
    let replacement = MessageId(edit.ids[0]);
    let expected = MessageStatus {
        by_revision: Some(edit.revision),
        by_message: Some(replacement),
        ..MessageStatus::from_state(Edited)
    };
    assert_eq!(status(&test, &session, "a1").await, expected);
    let again = app.messages().edit(&session, "a1", &[text("deux")], None).await.expect("edited again");
    let newest = MessageId(again.ids[0]);
    for id in ["a1", &replacement.to_string()] {
        let status = status(&test, &session, id).await;
        assert_eq!((status.state, status.by_message, status.by_revision), (Edited, Some(newest), Some(again.revision)));
    }
    let removal = app.messages().edit(&session, "u2", &[], None).await.expect("removed").revision;
    let removed = MessageStatus { by_revision: Some(removal), ..MessageStatus::from_state(Removed) };
    assert_eq!(status(&test, &session, "u2").await, removed);
    let rewind = AppendRequest {
        messages: conversation("u3 \"five\""),
        rewind: Some(RewindTo::Message("a1")),
        ..AppendRequest::default()
    };
    let rewound = app.messages().append_with(&session, rewind).await.expect("replaced").revision - 1;
    let now = of([
        ("u1", Active),
        ("a1", Edited),
        ("u2", Rewound),
        ("a2", Rewound),
        // It is not in force, and came after the point; the newest edit stays with the message that it replaces.
        ("Edit", Rewound),
        ("Edit", Active),
        ("u3", Active),
    ]);
    assert_eq!(states(&test, &session, None).await, now);
    let left = MessageStatus { by_revision: Some(rewound), ..MessageStatus::from_state(Rewound) };
    assert_eq!(status(&test, &session, "a2").await, left);
    assert_eq!(states(&test, &session, Some(before)).await, active, "a list of a revision has its states");

    // A fork has the marks of its source, and its own.
    let fork = app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer;
    let fork = fork.0.session.id.to_string();
    assert_eq!(states(&test, &fork, None).await, now);
    for _ in 0..3 {
        app.compactions().undo(&fork, None).await.expect("undone");
    }
    let undone = test.revision(&fork).await;
    let expected = of([
        ("u1", Active),
        ("a1", Edited),
        ("u2", Active),
        ("a2", Active),
        ("Edit", Active),
        ("Edit", Undone),
        ("u3", Active),
    ]);
    assert_eq!(states(&test, &fork, None).await, expected);
    let taken_back = MessageStatus { by_revision: Some(undone), ..MessageStatus::from_state(Undone) };
    assert_eq!(status(&test, &fork, &newest.to_string()).await, taken_back);
    assert_eq!(states(&test, &session, None).await, now, "the source is as it was");
    let test = test.restart().await;
    assert_eq!(states(&test, &fork, None).await, expected);
}

#[tokio::test]
async fn a_summary_covers_all_but_pinned_messages() {
    use MessageState::{Active, Covered, Edited, Inactive};
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let app = &test.app;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"\na2 \"four\"\nu3 \"five\"").await;
    app.messages().pin(&session, "u1").await.expect("pinned");
    app.messages().edit(&session, "a1", &[text("dos")], None).await.expect("edited");
    let supply = async |words: &str, tail: &str| {
        let summary = NewSummary { text: words.to_owned(), tail_start: tail.to_owned(), ..NewSummary::default() };
        app.compactions().supply_summary(&session, summary).await.expect("supplied").answer
    };
    let (compaction, _) = supply("so far", "u2").await;
    let all = listed(&test, &session, None).await;
    let summary = all.iter().find(|(message, _)| message.kind == MessageKind::Summary).expect("a summary").0.id;
    let edit = all.iter().find(|(message, _)| message.kind == MessageKind::Edit).expect("an edit");
    assert_eq!(edit.1.state, Covered);
    assert_eq!((edit.1.by_message, edit.1.by_compaction), (Some(summary), Some(compaction.id)));
    let covered = test.view(&session).await.covered.expect("a summary");
    assert_eq!(edit.1.by_revision, Some(covered.mark));
    let pinned = MessageStatus { is_pinned: true, ..MessageStatus::from_state(Active) };
    assert_eq!(status(&test, &session, "u1").await, pinned, "it is shown, and covered as well");
    let edited = status(&test, &session, "a1").await;
    assert_eq!((edited.state, edited.by_message), (Edited, Some(edit.0.id)), "what replaced it is covered");
    assert_eq!(status(&test, &session, "u2").await, MessageStatus::from_state(Active));
    supply("more", "u3").await;
    let summaries = async || {
        let all = listed(&test, &session, None).await.into_iter();
        let summaries = all.filter(|(message, _)| message.kind == MessageKind::Summary);
        summaries.map(|(_, status)| status.state).collect::<Vec<_>>()
    };
    assert_eq!(summaries().await, [Inactive, Active]);
    assert_eq!(status(&test, &session, "a2").await.state, Covered);
    app.compactions().undo(&session, None).await.expect("undone");
    assert_eq!(summaries().await, [Active, Inactive]);
    assert_eq!(status(&test, &session, "a2").await.state, Active);
    app.messages().unpin(&session, "u1").await.expect("unpinned");
    let status = status(&test, &session, "u1").await;
    assert_eq!((status.state, status.is_pinned), (Covered, false));
    let expanded = app.messages().expand(&session, &compaction.id.to_string(), 0, "").await.expect("expanded");
    assert_eq!(expanded.messages.len(), expanded.statuses.len());
    assert!(expanded.statuses.iter().all(|status| status.state == Covered), "{:?}", expanded.statuses);
}

#[tokio::test]
async fn what_a_compaction_leaves_out_names_the_compaction() {
    let test = TestApp::start().await;
    let session = test.create(NewSession { preset: "joyagent".to_owned(), ..NewSession::default() }).await;
    test.append(&session, "a1 \"welcome\"\nu2 300c\na3 1600c").await;
    let overflow = Overflow { status: Some(413), ..Overflow::default() };
    test.app.compactions().report_overflow(&session, overflow).await.expect("taken");
    test.settled().await;
    let omitted = test.view(&session).await;
    let (omitted, by) = (&omitted.omitted[0], omitted.omitted_by[0]);
    let status = status(&test, &session, "a1").await;
    assert_eq!(status.state, MessageState::Omitted);
    assert_eq!((status.by_revision, status.by_compaction), (Some(omitted.mark), by));
    assert!(by.is_some() && status.by_message.is_none());
}

fn version(data: &str) -> NewMessage {
    let body = PartBody::Record(Record { kind: "state".to_owned(), data: data.to_owned() });
    NewMessage {
        client_id: Some("todo".to_owned()),
        kind: MessageKind::Record,
        replace_existing: true,
        ..NewMessage::sealed(Role::System, vec![NewPart::new(body)])
    }
}

#[tokio::test]
async fn a_record_says_whether_it_is_the_newest_version() {
    use MessageState::{Active, Record, Superseded};
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let append = async |session: &str, data: &str| {
        test.app.messages().append(session, vec![version(data)], None, None).await.expect("appended")
    };
    test.append(&session, "u1 \"one\"\nr1 \"alone\"").await;
    let first = append(&session, "1").await;
    let fork = ForkPoint { as_of_revision: Some(first.revision), ..ForkPoint::default() };
    let fork = test
        .app
        .sessions()
        .fork(&session, fork, None, String::new())
        .await
        .expect("forked")
        .answer
        .0
        .session
        .id
        .to_string();
    append(&session, "2").await;
    let third = append(&session, "3").await;
    let now = of([("u1", Active), ("r1", Record), ("todo", Superseded), ("todo", Superseded), ("todo", Record)]);
    assert_eq!(states(&test, &session, None).await, now);
    let old = status(&test, &session, &MessageId(first.ids[0]).to_string()).await;
    assert_eq!((old.by_message, old.by_revision), (Some(MessageId(third.ids[0])), Some(third.revision)));
    let then = of([("u1", Active), ("r1", Record), ("todo", Superseded), ("todo", Record)]);
    assert_eq!(states(&test, &session, Some(third.revision - 1)).await, then);
    assert_eq!(states(&test, &fork, None).await, of([("u1", Active), ("r1", Record), ("todo", Record)]));
    let own = append(&fork, "mine").await;
    let inherited = status(&test, &fork, &MessageId(first.ids[0]).to_string()).await;
    assert_eq!((inherited.state, inherited.by_message), (Superseded, Some(MessageId(own.ids[0]))));
    test.app.messages().rewind(&session, RewindTo::Start, None).await.expect("rewound");
    assert_eq!(
        status(&test, &session, "todo").await,
        MessageStatus::from_state(Record),
        "rewinds do not concern records"
    );
}

#[tokio::test]
async fn messages_come_in_the_order_of_their_ids() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"\na2 \"be\" open").await;
    let a1 = id(&test, &session, "a1").await.to_string();
    test.app.messages().rewind(&session, "a1", None).await.expect("rewound");
    let get = async |session: &str, ids: &[&str]| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        test.app.messages().batch_get(session, ids).await
    };
    let batch = get(&session, &["u2", &a1, "a2", "u1", "u2"]).await.expect("all of them");
    assert_eq!(batch.messages.iter().map(words_of).collect::<Vec<_>>(), ["three", "two", "be", "one", "three"]);
    let states: Vec<MessageState> = batch.statuses.iter().map(|status| status.state).collect();
    let (active, rewound) = (MessageState::Active, MessageState::Rewound);
    assert_eq!(states, [rewound, active, rewound, active, rewound]);
    assert_eq!(batch.remaining_ids, [""; 0]);
    for (ids, reason, name, value) in [
        (vec!["u1", "u9", "u8"], Reason::MessageNotFound, "message_id", "u9"),
        (vec![], Reason::InvalidField, "field", "message_ids"),
        (vec!["u1"; limits::BATCH_GET_MESSAGES_MAX + 1], Reason::LimitExceeded, "what", "message_ids"),
    ] {
        let error: Error = get(&session, &ids).await.expect_err("refused");
        assert_eq!((error.reason, error.metadata.get(name).map(String::as_str)), (reason, Some(value)));
    }
    assert_eq!(get(&session, &["u1"; limits::BATCH_GET_MESSAGES_MAX]).await.expect("as many").messages.len(), 100);
    // A fork has what it inherited, and what was still open then is not there.
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer;
    let fork = fork.0.session.id.to_string();
    assert_eq!(get(&fork, &["u2", "u1"]).await.expect("inherited").messages.len(), 2);
    let error = get(&fork, &["u1", "a2"]).await.expect_err("it is not inherited");
    assert_eq!(
        (error.reason, error.metadata.get("message_id").map(String::as_str)),
        (Reason::MessageNotFound, Some("a2"))
    );
    let other = test.manual_session().await;
    assert_eq!(get(&other, &[&a1]).await.expect_err("another session's").reason, Reason::MessageNotFound);
}

#[tokio::test]
async fn a_batch_ends_where_a_page_would() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let large = limits::PAGE_BYTES_MAX / 2;
    for name in ["u1", "u2", "u3"] {
        let message = NewMessage {
            client_id: Some(name.to_owned()),
            ..NewMessage::sealed(Role::User, vec![text(&filler(name, large - 4_096))])
        };
        test.app.messages().append(&session, vec![message], None, None).await.expect("appended");
    }
    test.append(&session, "u4 \"small\"").await;
    let mut ids: Vec<String> = ["u3", "u1", "u2", "u4"].map(str::to_owned).to_vec();
    let mut answers = Vec::new();
    while !ids.is_empty() {
        let batch = test.app.messages().batch_get(&session, ids).await.expect("a part of them");
        assert_eq!(batch.messages.len(), batch.statuses.len());
        answers.push(batch.messages.iter().filter_map(|message| message.client_id.clone()).collect::<Vec<_>>());
        ids = batch.remaining_ids;
    }
    assert_eq!(answers, [vec!["u3", "u1"], vec!["u2", "u4"]]);
    // One that is larger than a page comes alone.
    let parts = vec![text(&filler("x", limits::PAGE_BYTES_MAX + 1))];
    let whole = NewMessage { client_id: Some("u5".to_owned()), ..NewMessage::sealed(Role::User, parts) };
    test.app.messages().append(&session, vec![whole], None, None).await.expect("appended");
    let ids = vec!["u5".to_owned(), "u4".to_owned()];
    let batch = test.app.messages().batch_get(&session, ids).await.expect("the first of them");
    assert_eq!((batch.messages.len(), batch.remaining_ids), (1, vec!["u4".to_owned()]));
}

#[tokio::test]
async fn messages_stay_readable_when_their_statuses_are_not() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nr1 \"entry\"").await;
    test.app.messages().edit(&session, "a1", &[], None).await.expect("removed");
    let folder = test.stop().await;
    let unknown = MessageStatus::from_state(MessageState::Unknown);
    for sql in ["update layout set body = x'00'", "update mark set body = x'00'"] {
        let test = TestApp::altered(folder.path(), sql).await;
        let all = listed(&test, &session, None).await;
        assert_eq!(
            all.iter().map(|(message, _)| words_of(message)).take(2).collect::<Vec<_>>(),
            ["one", "two"],
            "{sql}"
        );
        assert_eq!(all.len(), 3, "{sql}");
        assert!(all.iter().all(|(_, status)| *status == unknown), "{sql}: {all:?}");
        assert_eq!(status(&test, &session, "a1").await, unknown, "{sql}");
        let batch = test.app.messages().batch_get(&session, vec!["u1".to_owned()]).await.expect("the message");
        assert_eq!(batch.messages.len(), 1, "{sql}");
    }
}

//! P8: an id from a view means the same position in every call that takes one.

use crate::support::{Line, ScriptedSummarizer, TestApp, block_on, cases, shown, text, turns};
use longhand::app::append::OpenPart;
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::ForkPoint;
use longhand::app::views::ServedView;
use longhand::app::{Error, Reason};
use longhand::model::compaction::CompactionKind;
use longhand::model::message::{Finish, Role};
use longhand::model::part::PartBody;
use longhand::model::view::{ViewKind, ViewMessage};
use longhand::policy::pairing;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn behind(message: &str) -> ForkPoint {
    ForkPoint { message_id: Some(message.to_owned()), ..ForkPoint::default() }
}

async fn fork(test: &TestApp, session: &str, point: ForkPoint) -> String {
    let forked = test.app.sessions().fork(session, point, None, String::new()).await;
    forked.expect("forked").0.session.id.to_string()
}

async fn fork_behind(test: &TestApp, session: &str, message: &str) -> Result<String, Error> {
    let forked = test.app.sessions().fork(session, behind(message), None, String::new()).await?.answer;
    Ok(forked.0.session.id.to_string())
}

/// The id of the message with this text in a view.
fn saying(view: &ServedView, words: &str) -> String {
    let has_text =
        |message: &&ViewMessage| message.parts.iter().any(|part| *part.body == PartBody::Text(words.to_owned()));
    let found = view.messages.iter().find(has_text).and_then(|message| message.source);
    found.expect("the view says it").to_string()
}

/// Four messages, the second of which was edited twice after all were appended.
async fn edited(test: &TestApp) -> (String, String) {
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na2 \"two\"\nu3 \"three\"\na4 \"four\"").await;
    test.app.messages().edit(&session, "a2", &[text("dos")], None).await.expect("edited");
    let first = saying(&test.view(&session).await, "dos");
    test.app.messages().edit(&session, &first, &[text("deux")], None).await.expect("edited again");
    let edit = saying(&test.view(&session).await, "deux");
    (session, edit)
}

#[tokio::test]
async fn a_fork_behind_an_edited_message_shows_the_edit_and_nothing_behind_it() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let view = test.view(&session).await;
    let part = view.messages[1].parts[0].source.expect("a part").to_string();
    // By the edit's id in the view, by the id of its part, and by the original's client id.
    for id in [edit.as_str(), &part, "a2"] {
        let forked = fork(&test, &session, behind(id)).await;
        assert_eq!(test.view(&forked).await.messages, view.messages[..2], "{id}");
        test.append(&forked, "u9 \"another way\"").await;
        assert_eq!(
            shown(&test.view(&forked).await),
            ["user shown: one", "assistant shown: deux", "user shown: another way"]
        );
    }
    // Messages before the fork point are edited in the fork too, and a fork of the fork begins with the same messages.
    let later = fork(&test, &session, behind("u3")).await;
    assert_eq!(test.view(&later).await.messages, view.messages[..3]);
    let deeper = fork(&test, &later, behind(&edit)).await;
    assert_eq!(test.view(&deeper).await.messages, view.messages[..2]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_rewind_to_an_edited_message_leaves_what_follows_it() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let view = test.view(&session).await;
    test.app.messages().rewind(&session, &edit, None).await.expect("rewound");
    assert_eq!(test.view(&session).await.messages, view.messages[..2]);
}

#[tokio::test]
async fn a_supplied_tail_begins_at_the_position_of_an_edited_message() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let view = test.view(&session).await;
    let summary = |tail_start: &str, until: &str| NewSummary {
        text: "in short".to_owned(),
        tail_start: tail_start.to_owned(),
        until: until.to_owned(),
        ..NewSummary::default()
    };
    let ends = fork(&test, &session, ForkPoint::default()).await;
    let (compaction, _) =
        test.app.compactions().supply_summary(&session, summary(&edit, "")).await.expect("supplied").answer;
    assert_eq!(compaction.outcome.expect("done").tail_start.map(|id| id.to_string()), Some(edit.clone()));
    let after = test.view(&session).await;
    assert_eq!(after.messages[after.messages.len() - 3..], view.messages[1..]);
    // The last message before it is identified in the same way.
    test.app.compactions().supply_summary(&ends, summary("", &edit)).await.expect("supplied");
    let after = test.view(&ends).await;
    assert_eq!(after.messages[after.messages.len() - 2..], view.messages[2..]);
    assert!(after.messages[..after.messages.len() - 2].iter().all(|message| message.kind != ViewKind::Shown));
}

#[tokio::test]
async fn a_pin_is_one_pin_whichever_id_names_it() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let revision = async || test.revision(&session).await;
    test.app.messages().pin(&session, "a2").await.expect("pinned");
    let pinned = revision().await;
    test.app.messages().pin(&session, &edit).await.expect("pinned already");
    assert_eq!(revision().await, pinned, "one pin");
    test.app.messages().unpin(&session, &edit).await.expect("unpinned");
    test.app
        .compactions()
        .supply_summary(
            &session,
            NewSummary { text: "in short".to_owned(), tail_start: "a4".to_owned(), ..NewSummary::default() },
        )
        .await
        .expect("supplied");
    let view = test.view(&session).await;
    assert!(!shown(&view).iter().any(|line| line.ends_with("deux")), "{:?}", shown(&view));
    let summary = view.messages.iter().find(|message| message.kind == ViewKind::Summary).expect("a summary");
    let id = summary.source.expect("an id").to_string();
    let refused = test.app.messages().pin(&session, &id).await.expect_err("it goes when the next one comes");
    assert_eq!(refused.reason, Reason::BoundaryInvalid);
}

#[tokio::test]
async fn a_summary_means_the_end_of_what_it_covers() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 50)).await;
    let new = NewSummary { text: "in short".to_owned(), tail_start: "u3".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&session, new).await.expect("supplied");
    let view = test.view(&session).await;
    let tail = view.messages.iter().position(|message| message.kind == ViewKind::Shown).expect("a tail");
    let marks: Vec<String> =
        view.messages[..tail].iter().map(|message| message.source.expect("an id").to_string()).collect();
    for id in &marks {
        let forked = fork(&test, &session, behind(id)).await;
        assert_eq!(test.view(&forked).await.messages, view.messages[..tail], "{:?}", shown(&view));
    }
    // After a message of the tail, the summary still precedes it.
    let forked = fork(&test, &session, behind("u3")).await;
    assert_eq!(test.view(&forked).await.messages, view.messages[..=tail]);
    test.app.messages().rewind(&session, &marks[0], None).await.expect("rewound");
    assert_eq!(test.view(&session).await.messages, view.messages[..tail]);
}

#[tokio::test]
async fn a_message_that_a_rewind_left_has_no_position_but_can_be_forked() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let view = test.view(&session).await;
    test.app.messages().rewind(&session, "u1", None).await.expect("rewound");
    test.append(&session, "a5 \"five\"").await;
    let app = &test.app;
    let new = NewSummary { text: "in short".to_owned(), tail_start: "u3".to_owned(), ..NewSummary::default() };
    let refusals = [
        app.messages().rewind(&session, "u3", None).await.expect_err("it cannot stay"),
        app.messages().rewind(&session, &edit, None).await.expect_err("nor can that"),
        app.compactions().supply_summary(&session, new).await.expect_err("no tail begins there"),
    ];
    assert!(refusals.iter().all(|error| error.reason == Reason::BoundaryInvalid), "{refusals:?}");
    // The fork has the state right before the rewind.
    let forked = fork(&test, &session, behind("u3")).await;
    assert_eq!(test.view(&forked).await.messages, view.messages[..3]);
}

#[tokio::test]
async fn no_undo_goes_behind_the_point_of_a_fork() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let forked = fork(&test, &session, behind(&edit)).await;
    let begun = test.view(&forked).await.messages;
    test.append(&forked, "u9 \"nine\"").await;
    test.app.messages().rewind(&forked, &edit, None).await.expect("rewound");
    test.app.compactions().undo(&forked, None).await.expect("the rewind");
    test.app.compactions().undo(&forked, None).await.expect("the second edit");
    test.app.compactions().undo(&forked, None).await.expect("the first edit");
    assert_eq!(shown(&test.view(&forked).await), ["user shown: one", "assistant shown: two", "user shown: nine"]);
    let refused = test.app.compactions().undo(&forked, None).await.expect_err("nothing of its own is left");
    assert_eq!(refused.reason, Reason::NothingToUndo);
    for _ in 0..3 {
        test.app.compactions().redo(&forked, None).await.expect("redone");
    }
    assert_eq!(test.view(&forked).await.messages, begun);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_fork_that_is_asked_for_again_is_found_whatever_was_marked_since() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let app = &test.app;
    let ask =
        |at: &str, client: &str| app.sessions().fork(&session, behind(at), Some(client.to_owned()), String::new());
    let (first, _) = ask(&edit, "cut").await.expect("forked").answer;
    let (last, _) = ask("a4", "last").await.expect("forked").answer;
    app.messages().edit(&session, "u1", &[text("uno")], None).await.expect("edited");
    app.messages().rewind(&session, "u1", None).await.expect("rewound");
    for (at, client, expected) in [(edit.as_str(), "cut", &first), ("a4", "last", &last)] {
        let (again, existed) = ask(at, client).await.expect("found").answer;
        assert_eq!((again.session.id, existed), (expected.session.id, true), "{at}");
    }
    assert_eq!(ask("u3", "cut").await.expect_err("another place").reason, Reason::ClientIdReused);
    assert_eq!(ask("u3", "last").await.expect_err("another place").reason, Reason::ClientIdReused);
}

#[tokio::test]
async fn a_fork_inherits_what_was_being_written_in_front_of_its_point_once_it_is_sealed() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na2 \"so\" open\nu3 \"three\"\nu4 \"four\"").await;
    let part = vec![OpenPart::Whole(text("far"))];
    test.app.messages().append_parts(&session, "a2", part).await.expect("added");
    test.app.messages().finish(&session, "a2", Finish::default(), None).await.expect("sealed");
    let view = test.view(&session).await;
    for (id, count) in [("u3", 3), ("a2", 2), ("u1", 1)] {
        let forked = fork(&test, &session, behind(id)).await;
        assert_eq!(test.view(&forked).await.messages, view.messages[..count], "{id}");
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_summary_of_a_branch_covers_only_what_the_view_loses() {
    let script = ScriptedSummarizer::new([Line::Say("a try".to_owned()), Line::Say("a try".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 50)).await;
    let new = NewSummary { text: "in short".to_owned(), tail_start: "u3".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&session, new).await.expect("supplied");
    test.app.messages().edit(&session, "u3", &[text("tres")], None).await.expect("edited");
    let edit = saying(&test.view(&session).await, "tres");
    test.app.messages().rewind_with_summary(&session, &edit, "", None).await.expect("rewound");
    let asked = &script.asked()[0].messages;
    let clients: Vec<&str> = asked.iter().filter_map(|source| source.message.client_id.as_deref()).collect();
    assert_eq!(clients, ["a3", "u4", "a4"], "neither the summary, which stays, nor the edit");
}

/// An action on a session. The numbers choose among the messages of the view.
#[derive(Debug, Clone)]
enum Action {
    Say,
    /// A call with its result, and the model's reply to that.
    Tool,
    Begin,
    End,
    Edit(usize),
    TakeOut(usize),
    Pin(usize),
    Rewind(usize),
    Undo,
    Redo,
    Supply(usize),
    Summarize(usize),
    Fork(usize),
    ForkNow,
}

fn act() -> impl Strategy<Value = Action> {
    let pick = || 0_usize..100;
    prop_oneof![
        5 => Just(Action::Say),
        3 => Just(Action::Tool),
        1 => Just(Action::Begin),
        1 => Just(Action::End),
        4 => pick().prop_map(Action::Edit),
        1 => pick().prop_map(Action::TakeOut),
        1 => pick().prop_map(Action::Pin),
        1 => pick().prop_map(Action::Rewind),
        2 => Just(Action::Undo),
        1 => Just(Action::Redo),
        1 => pick().prop_map(Action::Supply),
        1 => pick().prop_map(Action::Summarize),
        1 => pick().prop_map(Action::Fork),
        1 => Just(Action::ForkNow),
    ]
}

/// A session under test.
struct Life<'a> {
    test: &'a TestApp,
    session: String,
    count: usize,
    open: Vec<String>,
}

impl Life<'_> {
    async fn view(&self) -> ServedView {
        self.test.view(&self.session).await
    }

    /// The id at an index among those in the view.
    async fn chosen(&self, number: usize) -> String {
        let view = self.view().await;
        let ids: Vec<String> =
            view.messages.iter().filter_map(|message| message.source).map(|id| id.to_string()).collect();
        ids.get(number % ids.len().max(1)).cloned().unwrap_or_default()
    }

    async fn seal(&mut self) {
        for open in self.open.drain(..) {
            // Messages that a fork did not inherit cannot be sealed there.
            drop(self.test.app.messages().finish(&self.session, &open, Finish::default(), None).await);
        }
    }

    async fn take(&mut self, act: &Action) -> Result<(), Error> {
        self.count += 1;
        let (app, session, count) = (&self.test.app, self.session.clone(), self.count);
        match *act {
            Action::Say => drop(
                self.test.append(&session, &format!("u{count} \"say {count}\"\na{count} \"answer {count}\"")).await,
            ),
            Action::Tool => {
                let talk = format!("a{count} \"look\" call=c\nt{count} result=c:output{count}\naa{count} \"seen\"");
                self.test.append(&session, &talk).await;
            }
            Action::Begin => {
                self.test.append(&session, &format!("a{count} \"begun\" open")).await;
                self.open.push(format!("a{count}"));
            }
            Action::End => self.seal().await,
            Action::Edit(number) => {
                let parts = [text(&format!("edit {count}"))];
                app.messages().edit(&session, &self.chosen(number).await, &parts, None).await?;
            }
            Action::TakeOut(number) => {
                drop(app.messages().edit(&session, &self.chosen(number).await, &[], None).await?)
            }
            Action::Pin(number) if number % 3 == 0 => {
                drop(app.messages().unpin(&session, &self.chosen(number).await).await?)
            }
            Action::Pin(number) => drop(app.messages().pin(&session, &self.chosen(number).await).await?),
            Action::Rewind(number) => drop(app.messages().rewind(&session, &self.chosen(number).await, None).await?),
            Action::Undo => drop(app.compactions().undo(&session, None).await?),
            Action::Redo => drop(app.compactions().redo(&session, None).await?),
            Action::Supply(number) => {
                let tail_start = self.chosen(number).await;
                let text = format!("supplied {count}");
                app.compactions()
                    .supply_summary(&session, NewSummary { text, tail_start, ..NewSummary::default() })
                    .await?;
            }
            Action::Summarize(number) => {
                let tail_start = self.chosen(number).await;
                let wanted = NewCompaction { tail_start, ..NewCompaction::of_kind(CompactionKind::Summary) };
                app.compactions().start(&session, wanted).await?;
                self.test.settled().await;
            }
            Action::Fork(number) => {
                let at = self.chosen(number).await;
                let forked = app.sessions().fork(&session, behind(&at), None, String::new()).await?.answer;
                self.session = forked.0.session.id.to_string();
                self.open.clear();
            }
            Action::ForkNow => {
                self.seal().await;
                self.session = fork(self.test, &session, ForkPoint::default()).await;
            }
        }
        Ok(())
    }

    /// Checks the position of every id in the view.
    async fn check(&mut self) {
        self.seal().await;
        let view = self.view().await;
        let fresh = || fork(self.test, &self.session, ForkPoint::default());
        for (index, message) in view.messages.iter().enumerate() {
            let Some(source) = message.source else { continue };
            let id = source.to_string();
            let covered = view.covered.as_ref().is_some_and(|covered| {
                covered.ranges.iter().any(|range| range.contains(message.revision)) && message.kind == ViewKind::Shown
            });
            let forked = fork_behind(self.test, &self.session, &id).await.expect("whatever is shown can be forked");
            let forked = self.test.view(&forked).await;
            let rewound = fresh().await;
            self.test.app.messages().rewind(&rewound, &id, None).await.expect("whatever is shown can stay");
            let rewound = self.test.view(&rewound).await;
            assert_eq!(forked.messages, rewound.messages, "{id}: a fork begins where a rewind ends");
            if covered {
                // It is shown in addition to a summary, and its position is within the covered range. A call whose result
                // comes after it is an interrupted one.
                let last = forked.messages.iter().rfind(|message| message.kind != ViewKind::Paired);
                assert_eq!(last.and_then(|last| last.source), Some(source));
                continue;
            }
            let expected = up_to(&view, index);
            let (paired, found) = forked
                .messages
                .split_at_checked(expected.len())
                .map_or((&[][..], &forked.messages[..]), |(found, paired)| (paired, found));
            assert_eq!(found, expected, "{id}: {:#?}", shown(&view));
            // A call whose result comes after it is an interrupted one.
            assert!(paired.iter().all(|message| message.kind == ViewKind::Paired), "{id}: {paired:?}");
            assert_eq!(pairing::violations(&forked.messages), Vec::<String>::new());
            // A tail may begin between a call and its result, which is then rendered as text.
            if message.role != Role::Tool {
                self.check_tail(&view, index, &id, fresh().await).await;
            }
        }
    }

    /// Checks that the tail of a summary that begins at a message equals the view from there on.
    async fn check_tail(&self, view: &ServedView, index: usize, id: &str, session: String) {
        let text = "brought along".to_owned();
        let new = NewSummary { text, tail_start: id.to_owned(), ..NewSummary::default() };
        let supplied = self.test.app.compactions().supply_summary(&session, new).await;
        match supplied {
            Ok(_) => {}
            Err(error) if error.reason == Reason::BoundaryInvalid => return,
            Err(error) => panic!("{id}: {error}"),
        }
        let after = self.test.view(&session).await;
        let first =
            view.messages.iter().position(|message| message.source == view.messages[index].source).expect("there");
        let expected = &view.messages[first..];
        let tail = after.messages.len().checked_sub(expected.len()).map(|from| &after.messages[from..]);
        assert_eq!(tail, Some(expected), "{id}: {:#?} {:#?}", shown(view), shown(&after));
        let front = &after.messages[..after.messages.len() - expected.len()];
        let stays = |message: &ViewMessage| message.kind != ViewKind::Shown || is_pinned(&after, message);
        assert!(front.iter().all(stays), "{id}: {:#?}", shown(&after));
    }
}

/// True if a message is shown beside the summary that covers it.
fn is_pinned(view: &ServedView, message: &ViewMessage) -> bool {
    view.covered.as_ref().is_some_and(|covered| covered.ranges.iter().any(|range| range.contains(message.revision)))
}

/// The view up to a message: everything rendered from it, and for a summary everything shown beside it.
fn up_to(view: &ServedView, index: usize) -> &[ViewMessage] {
    let message = &view.messages[index];
    let last = match message.kind {
        ViewKind::Summary | ViewKind::Marker => {
            let beside = |other: &ViewMessage| other.kind != ViewKind::Shown || is_pinned(view, other);
            let count = view.messages.iter().take_while(|other| beside(other)).count();
            // A request in the user's place belongs to the message after it.
            let last = &view.messages[count - 1];
            count - usize::from(last.kind == ViewKind::Filler && last.role == Role::User)
        }
        _ => view.messages.iter().rposition(|other| other.source == message.source).expect("it is there") + 1,
    };
    &view.messages[..last]
}

const REFUSALS: [Reason; 8] = [
    Reason::NothingToUndo,
    Reason::NothingToRedo,
    Reason::RedoOvertaken,
    Reason::NothingToCompact,
    Reason::BoundaryInvalid,
    Reason::MessageOpen,
    Reason::MessageNotFound,
    Reason::InvalidField,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_means_one_position_whatever_was_done_before() {
    let acts = prop::collection::vec(act(), 3..16);
    let config = Config { cases: cases(24), max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&acts, |acts| {
        block_on(async {
            let lines = (0..acts.len()).map(|number| Line::Say(format!("summary {number}")));
            let test = TestApp::with(ScriptedSummarizer::new(lines)).await;
            let session = test.manual_session().await;
            let mut life = Life { test: &test, session, count: 0, open: Vec::new() };
            life.take(&Action::Say).await.expect("said");
            for act in &acts {
                match life.take(act).await {
                    Ok(()) => {}
                    Err(error) if REFUSALS.contains(&error.reason) => {}
                    Err(error) => panic!("{act:?}: {error:?}"),
                }
            }
            life.check().await;
            assert_eq!(test.findings().await, []);
        });
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[tokio::test]
async fn an_edit_expands_to_what_it_replaces_and_is_no_position_for_half_a_message() {
    let test = TestApp::start().await;
    let (session, edit) = edited(&test).await;
    let expanded = test.app.messages().expand(&session, &edit, 0, "").await.expect("expanded").messages;
    let words: Vec<String> = expanded.iter().map(crate::support::words_of).collect();
    assert_eq!(words, ["two", "deux"]);
    let part = expanded[0].parts[0].id.to_string();
    let refused = test.app.messages().edit(&session, &part, &[text("x")], None).await.expect_err("a part");
    assert_eq!(refused.reason, Reason::InvalidField);
}

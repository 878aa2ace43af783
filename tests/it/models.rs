//! Windows and costs by the names of models.

use crate::cli::Daemon;
use crate::support::{TestApp, conversation, window};
use longhand::app::compactions::Overflow;
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::views::ViewRequest;
use longhand::model::message::{FinishReason, NewFinish, NewMessage};
use longhand::model::usage::{ModelWindow, Usage, WindowSource};

/// A model of 200 000 tokens with 64 000 of output, at 3 dollars for a million tokens read and 15 for a million written.
const SONNET: &str = "claude-sonnet-4-5";

fn of_model(model: &str) -> ModelWindow {
    ModelWindow { model: model.to_owned(), ..ModelWindow::default() }
}

async fn of_session(test: &TestApp, session: &str) -> ModelWindow {
    test.app.sessions().get(session).await.expect("the session").session.window
}

async fn change(test: &TestApp, session: &str, window: ModelWindow) -> ModelWindow {
    let change = SessionChange { window: Some(window), ..SessionChange::default() };
    test.app.sessions().update(session, change).await.expect("changed").answer.info.session.window
}

#[tokio::test]
async fn the_name_of_a_model_is_enough_for_a_window() {
    let test = TestApp::start().await;
    let new = || NewSession { client_id: Some("s".to_owned()), window: of_model(SONNET), ..NewSession::default() };
    let session = test.create(new()).await;
    let known = ModelWindow { context: 200_000, source: WindowSource::Models, ..of_model(SONNET) };
    assert_eq!(of_session(&test, &session).await, known);
    assert!(!test.app.sessions().get(&session).await.expect("the session").thresholds.is_empty(), "it can become due");
    let (again, existed) = test.app.sessions().create(new()).await.expect("the same request again").answer;
    assert_eq!((again.session.id.to_string(), existed), (session.clone(), true));

    // What a client says counts first, and a call may name another model.
    let own = ModelWindow { model: SONNET.to_owned(), ..window(50_000, 2_000) };
    assert_eq!(change(&test, &session, own.clone()).await, own);
    let request = ViewRequest { window: Some(of_model("gpt-4o")), ..ViewRequest::default() };
    assert_eq!(test.app.views().get(&session, request).await.expect("a view").window_tokens, 128_000);
    assert_eq!(of_session(&test, &session).await, own);
    assert_eq!(change(&test, &session, of_model(SONNET)).await, known);
    let unknown = of_model("nobody's");
    assert_eq!(change(&test, &session, unknown.clone()).await, unknown);
    assert!(test.app.sessions().get(&session).await.expect("the session").thresholds.is_empty());
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_refusal_that_names_the_window_is_believed_before_the_table() {
    let test = TestApp::start().await;
    let refused = |message: &str| Overflow { status: Some(400), message: message.to_owned(), ..Overflow::default() };
    let named = "prompt is too long: 219898 tokens > 150000 maximum";
    for (given, message, expected) in [
        (of_model(SONNET), named, (150_000, WindowSource::ProviderError)),
        (of_model("nobody's"), named, (150_000, WindowSource::ProviderError)),
        (of_model(SONNET), "prompt is too long", (200_000, WindowSource::Models)),
        (window(50_000, 2_000), named, (50_000, WindowSource::Client)),
    ] {
        let session = test.create(NewSession { window: given.clone(), ..NewSession::default() }).await;
        test.append(&session, "u1 800c\na1 800c\nu2 800c\na2 800c\nu3 \"and now?\"").await;
        // Whether there is something to compact is another matter.
        let _ = test.app.compactions().report_overflow(&session, refused(message)).await;
        let window = of_session(&test, &session).await;
        assert_eq!((window.context, window.source), expected, "{given:?} {message}");
        assert_eq!(window.output, given.output);
    }
    assert_eq!(test.findings().await, []);
}

/// A reply of a model, with a million tokens read and a hundred thousand written.
fn reply(id: &str, model: &str, cost_usd: Option<f64>) -> NewMessage {
    let mut messages = conversation(&format!("{id} \"done\""));
    let usage = Usage { input: 1_000_000, output: 100_000, cost_usd, ..Usage::default() };
    messages[0].finish =
        Some(NewFinish { reason: Some(FinishReason::Stop), usage: Some(usage), ..NewFinish::default() });
    messages[0].model = model.to_owned();
    messages.remove(0)
}

#[tokio::test]
async fn costs_are_computed_where_a_client_gives_none() {
    let test = TestApp::start().await;
    let session = test.create(NewSession { window: of_model(SONNET), ..NewSession::default() }).await;
    let append = async |message: NewMessage| test.app.messages().append(&session, vec![message], None, None).await;
    for (id, model, given, expected) in [
        ("a1", SONNET, None, Some((4_500_000, true))),
        ("a2", "", None, Some((4_500_000, true))),
        ("a3", SONNET, Some(0.5), Some((500_000, false))),
        ("a4", "nobody's", None, None),
    ] {
        let first = append(reply(id, model, given)).await.expect("appended");
        let again = append(reply(id, model, given)).await.expect("it is the same");
        assert_eq!((again.answer.ids, again.answer.existed_count), (first.answer.ids, 1));
        let (message, ..) = test.app.messages().get(&session, id).await.expect("the reply");
        let usage = message.finish.usage.expect("its usage");
        assert_eq!(usage.cost_micros().map(|cost| (cost, usage.cost_is_computed)), expected, "{id}");
    }
    // The model of an open message is known since it began.
    let open = NewMessage { finish: None, ..reply("a5", SONNET, None) };
    append(open).await.expect("begun");
    let finish = reply("a5", "", None).finish.expect("an end");
    test.app.messages().finish(&session, "a5", finish, None).await.expect("sealed");
    let (message, ..) = test.app.messages().get(&session, "a5").await.expect("the reply");
    assert_eq!(message.finish.usage.and_then(|usage| usage.cost_micros()), Some(4_500_000));
    let totals = test.app.sessions().get(&session).await.expect("the session").session.usage;
    assert_eq!(totals.cost_micros, 3 * 4_500_000 + 500_000);
    assert_eq!(test.findings().await, []);
}

#[test]
fn the_command_line_says_where_limits_come_from() {
    let home = tempfile::tempdir().expect("a folder");
    let table = home.path().join("models.tsv");
    let header = "model\tprovider\tcontext_tokens\toutput_tokens\tinput\toutput\tcache_read\tcache_write\tabove_tokens\t\
                  input_above\toutput_above\tcache_read_above\tcache_write_above\n";
    std::fs::write(&table, format!("{header}ours\tus\t90000\t8000\n")).expect("a table");
    let (daemon, _) = Daemon::start_as(home.path(), |command| {
        command.arg("--models").arg(&table);
    });
    let session = daemon.text(&["create", "--model", "ours"]);
    let limits = |session: &str| {
        let status = daemon.text(&["status", session]);
        let line = status.lines().find_map(|line| Some(line.strip_prefix("limits")?.trim().to_owned()));
        line.expect("a line about its limits")
    };
    assert_eq!(limits(session.trim()), "90000 tokens, 8000 of output of ours, by the table of models");
    let unknown = daemon.run(&["create", "--model", SONNET]);
    let note = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        unknown.status.success() && note.contains("the limits of the model claude-sonnet-4-5 are not known"),
        "{note}"
    );
    let session = String::from_utf8_lossy(&unknown.stdout).into_owned();
    assert_eq!(limits(session.trim()), "those of claude-sonnet-4-5 are unknown, so that nothing is compacted");
}

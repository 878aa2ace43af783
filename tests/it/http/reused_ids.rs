//! Ids of requests and of clients that come again behind an erasure.
//!
//! Every mutation of the protocol is sent once in one session, and then what they wrote is erased. A true repetition gets
//! the answer that it had; whatever else comes under its id is refused, and nothing is written.

use super::{Served, router};
use crate::support::{ScriptedSummarizer, TestApp, text, turns};
use futures::stream;
use http::StatusCode;
use longhand::app::erase::{EraseRequest, EraseTarget, part_target};
use longhand::app::writing::{DraftWords, MessageEnd, WriteAnswer, WriteFrame, WriteStart, WriteTarget};
use longhand::app::{Error, Reason};
use longhand::limits;
use longhand::model::message::{NewFinish, NewMessage, Role};
use longhand::pb;
use longhand::scheduler;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// A mutation that was answered.
struct Sent {
    method: &'static str,
    verb: &'static str,
    uri: String,
    body: Value,
    /// Another request to the same method.
    other: (String, Value),
    promised: Value,
}

/// What an answer says that never changes: revisions, numbers of events, and ids.
fn promised(answer: &Value) -> Value {
    fn ids(value: &Value, found: &mut Vec<Value>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            if name.ends_with("Id") || name.ends_with("Ids") || name == "epoch" {
                found.push(json!([name, value]));
            } else if name != "contextUsage" {
                ids(value, found);
            }
        }
    }
    let mut found = Vec::new();
    ids(answer, &mut found);
    // A part that is erased, and a client id that is free, are not named any more.
    found.retain(|pair| !matches!(pair[0].as_str(), Some("clientId" | "defaultChoice")));
    json!([answer["revision"], answer["seq"], found])
}

/// A session to which every mutation of the protocol was sent.
struct Script {
    served: Served,
    session: String,
    sent: Vec<Sent>,
}

/// A part of text with a client's id.
fn part(client_id: &str, words: &str) -> Value {
    json!({"clientId": client_id, "text": {"text": words}})
}

fn question(words: &str) -> Value {
    let choices = json!([{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]);
    json!({"question": {"text": words, "choices": choices}})
}

impl Script {
    async fn start() -> Self {
        // Compactions wait for a client.
        let client_wait = Duration::from_secs(1_000);
        let options = scheduler::Options { client_wait, ..scheduler::Options::default() };
        let test = TestApp::with_options(ScriptedSummarizer::new([]), options).await;
        let (routes, health) = longhand::grpc::router(test.longhand.clone()).await;
        let served = Served { test, router: router(routes.in_process()), health };
        let new = json!({"clientId": "mine", "title": "first", "preset": "opencode@seed"});
        let made = served.post("/v1/sessions", new).await;
        let session = made["session"]["sessionId"].as_str().expect("an id").to_owned();
        Self { served, session, sent: Vec::new() }
    }

    fn uri(&self, path: &str) -> String {
        if path.starts_with("/v1") { path.to_owned() } else { format!("/v1/sessions/{}{path}", self.session) }
    }

    /// Sends a mutation, of which another one under the same id differs in these fields.
    async fn send(&mut self, method: &'static str, path: &str, body: Value, other: Value) -> Value {
        self.send_beside(method, path, body, (path, other)).await
    }

    /// The same with the path of the other one.
    async fn send_beside(
        &mut self,
        method: &'static str,
        path: &str,
        mut body: Value,
        (other_path, other): (&str, Value),
    ) -> Value {
        body["requestId"] = json!(format!("r{}", self.sent.len()));
        let mut other_body = body.clone();
        for (name, value) in other.as_object().expect("fields") {
            other_body[name] = value.clone();
        }
        let verb = if method == "UpdateSession" { "PATCH" } else { "POST" };
        let (uri, other) = (self.uri(path), (self.uri(other_path), other_body));
        let answer = self.served.send(verb, &uri, &[], &body.to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{method} {body}: {}", answer.text);
        let answer = answer.json();
        self.sent.push(Sent { method, verb, uri, body, other, promised: promised(&answer) });
        answer
    }

    async fn history(&mut self) {
        let test = &self.served.test;
        test.append(&self.session, &turns(1, 9, 1_100)).await;
        let append = |words: &str| {
            let parts = json!([part("p", words)]);
            json!({"messages": [
                {"clientId": "w1", "role": "ROLE_USER", "parts": parts, "metadataJson": "{\"a\":1}"},
                {"clientId": "w2", "role": "ROLE_ASSISTANT", "open": true},
            ]})
        };
        self.send("AppendMessages", "/messages", append("hush"), append("other words")).await;
        let draft = json!({"clientId": "d1", "kind": "DRAFT_KIND_TEXT", "delta": "a draft"});
        self.served.post(&self.uri("/messages/w2/drafts"), draft).await;
        let parts = |words: &str| json!({"parts": [part("p1", words)]});
        self.send("AppendParts", "/messages/w2/parts", parts("a part"), parts("another part")).await;
        let finish = |detail: &str| json!({"finish": {"detail": detail}});
        self.send("FinishMessage", "/messages/w2:finish", finish("over"), finish("other")).await;
        self.send("PinMessage", "/messages/u2:pin", json!({}), json!({"unpin": true})).await;
        let (struck, kept) = (json!({"stance": "WORDS_STANCE_STRUCK"}), json!({"stance": "WORDS_STANCE_KEPT"}));
        self.send("MarkWords", "/messages/u2:markWords", struck, kept).await;
        let edit = |words: &str| json!({"parts": [{"text": {"text": words}}]});
        self.send("EditMessage", "/messages/u3:edit", edit("edited"), edit("otherwise")).await;
        let expecting = json!({"expectedRevision": "1"});
        self.send("UndoChange", ":undo", json!({}), expecting.clone()).await;
        self.send("RedoChange", ":redo", json!({}), expecting).await;
    }

    async fn compactions(&mut self) {
        let supply = |words: &str| json!({"text": words, "tailStartMessageId": "u4"});
        let supplied = self.send("SupplySummary", ":supplySummary", supply("summed up"), supply("otherwise")).await;
        let supplied = supplied["compaction"]["compactionId"].as_str().expect("an id").to_owned();
        let start = json!({"kind": "COMPACTION_KIND_SUMMARY"});
        let started =
            self.send("StartCompaction", "/compactions", start.clone(), json!({"instructions": "briefly"})).await;
        let started = started["compaction"]["compactionId"].as_str().expect("an id").to_owned();
        self.served.post(&format!("/v1/compactions/{started}:cancel"), json!({})).await;
        let other = format!("/v1/compactions/{supplied}:retry");
        let retry = format!("/v1/compactions/{started}:retry");
        self.send_beside("RetryCompaction", &retry, json!({}), (&other, json!({}))).await;
        let refused = json!({"statusCode": 400, "code": "context_length_exceeded", "message": "too long"});
        self.send("ReportOverflow", ":reportOverflow", refused, json!({"message": "much too long"})).await;
        self.send("RewindSession", ":rewind", json!({"messageId": "w1"}), json!({"messageId": "a9"})).await;
    }

    async fn runs(&mut self) {
        let mut prompts = Vec::new();
        for words in ["first", "second", "third"] {
            let prompt = |words: &str| json!({"parts": [{"text": {"text": words}}]});
            let submitted = self.send("SubmitPrompt", "/prompts", prompt(words), prompt("otherwise")).await;
            prompts.push(submitted["promptId"].as_str().expect("an id").to_owned());
        }
        let moved = |before: usize| json!({"beforePromptId": prompts[before]});
        self.send("MovePrompt", &format!("/prompts/{}:move", prompts[1]), moved(0), moved(2)).await;
        let lease = |seconds: i64| json!({"leaseTimeout": format!("{seconds}s")});
        let run = self.send("AcquireRun", "/runs", lease(600), lease(601)).await;
        let epoch = run["run"]["epoch"].as_str().expect("a number").to_owned();
        let take = |prompt: usize| json!({"epoch": epoch, "promptId": prompts[prompt]});
        self.send("TakePrompt", "/prompts:take", take(1), take(0)).await;
        let withdraw = |prompt: usize| format!("/prompts/{}:withdraw", prompts[prompt]);
        self.send_beside("WithdrawPrompt", &withdraw(0), json!({}), (&withdraw(2), json!({}))).await;
        let mut approvals = Vec::new();
        for words in ["may I?", "and now?"] {
            let asked = self.send("RequestApproval", "/approvals", question(words), question("otherwise")).await;
            approvals.push(asked["approval"]["approvalId"].as_str().expect("an id").to_owned());
        }
        let answer = format!("/approvals/{}:answer", approvals[0]);
        self.send("AnswerApproval", &answer, json!({"choice": "yes"}), json!({"choice": "no"})).await;
        let withdraw = |approval: usize| format!("/approvals/{}:withdraw", approvals[approval]);
        self.send_beside("WithdrawApproval", &withdraw(1), json!({}), (&withdraw(0), json!({}))).await;
        self.send("CancelRun", "/runs:cancel", json!({"epoch": epoch}), json!({"force": true})).await;
        let release = format!("/runs/{epoch}:release");
        self.send("ReleaseRun", &release, json!({}), json!({"failure": "it failed"})).await;
    }

    async fn session(&mut self) {
        self.send("UpdateSession", "", json!({"title": "second"}), json!({"title": "third"})).await;
        self.send("AddLabel", "/labels:add", json!({"label": "x"}), json!({"label": "y"})).await;
        // One without an effect has no event by which its request could be found.
        self.send("AddLabel", "/labels:add", json!({"label": "x"}), json!({"label": "z"})).await;
        self.send("RemoveLabel", "/labels:remove", json!({"label": "x"}), json!({"label": "y"})).await;
        let again_otherwise =
            json!({"messages": [{"clientId": "w9", "role": "ROLE_USER", "parts": [part("p", "other")]}]});
        let again = json!({"messages": [{"clientId": "w1", "role": "ROLE_USER", "parts": [part("p", "hush")],
            "metadataJson": "{\"a\":1}"}]});
        self.send("AppendMessages", "/messages", again, again_otherwise).await;
        let erase = |message: &str| json!({"messageId": message, "reason": "a key"});
        self.send("EraseContent", ":erase", erase("u1"), erase("u2")).await;
        self.send("ArchiveSession", ":archive", json!({}), json!({"restore": true})).await;
        self.send("ArchiveSession", ":archive", json!({"restore": true}), json!({"restore": false})).await;
    }

    /// A message that is written as a stream, with these words and this end.
    async fn write(&self, words: &str, end: [u8; 32]) -> Result<WriteAnswer, Error> {
        let message = NewMessage {
            client_id: Some("w3".to_owned()),
            finish: None,
            ..NewMessage::sealed(Role::Assistant, Vec::new())
        };
        let words = DraftWords { client_id: "d".to_owned(), kind: None, offset: None, delta: words.to_owned() };
        let end = Box::new(MessageEnd { finish: NewFinish::default(), window: None, hash: end });
        let target = WriteTarget::New(Box::new(message));
        let start = WriteStart { session: self.session.clone(), target, request_id: "write".to_owned() };
        let frames = [WriteFrame::Words(words), WriteFrame::End(end)].map(Ok::<_, Error>);
        let written = self.served.test.app.messages().write(start, stream::iter(frames));
        crate::support::soon("an answer", written).await.map(|written| written.answer)
    }

    /// Sends everything again, and other requests under the same ids.
    async fn send_all_again(&self, what: &str) {
        for Sent { method, verb, uri, body, other, promised: before } in &self.sent {
            let again = self.served.send(verb, uri, &[], &body.to_string()).await;
            assert_eq!(again.status, StatusCode::OK, "{what}: {method} {body}: {}", again.text);
            assert_eq!(promised(&again.json()), *before, "{what}: {method} {body}: {}", again.text);
            let label = ("POST", self.uri("/labels:add"), json!({"label": "l", "requestId": body["requestId"]}));
            let title = ("PATCH", self.uri(""), json!({"title": "t", "requestId": body["requestId"]}));
            let method_other = if *method == "AddLabel" { title } else { label };
            for (verb, uri, body) in [(*verb, other.0.clone(), other.1.clone()), method_other] {
                let answer = self.served.send(verb, &uri, &[], &body.to_string()).await;
                assert_ne!(answer.status, StatusCode::OK, "{what}: {method} {body}: {}", answer.text);
                assert_eq!(answer.reason(), "REQUEST_ID_REUSED", "{what}: {method} {uri} {body}: {}", answer.text);
            }
        }
    }

    /// What comes under the ids of clients: the status or the reason of each.
    async fn client_ids(&self) -> Vec<(&'static str, String)> {
        let message = |words: &str, metadata: &str| {
            let message =
                json!({"clientId": "w1", "role": "ROLE_USER", "parts": [part("p", words)], "metadataJson": metadata});
            json!({"messages": [message]})
        };
        let draft = |words: &str| json!({"clientId": "d1", "kind": "DRAFT_KIND_TEXT", "delta": words});
        let (a, b) = ("{\"a\":1}", "{\"a\":2}");
        let session = |title: &str| json!({"clientId": "mine", "title": title, "preset": "opencode@seed"});
        let requests = [
            ("the same message", self.uri("/messages"), message("hush", a)),
            ("another message", self.uri("/messages"), message("hash", a)),
            ("other metadata", self.uri("/messages"), message("hush", b)),
            ("another part", self.uri("/messages/w2/parts"), json!({"parts": [part("p1", "another")]})),
            ("another draft", self.uri("/messages/w2/drafts"), draft("another")),
            ("the same session", "/v1/sessions".to_owned(), session("first")),
        ];
        let mut answers = Vec::new();
        for (what, uri, body) in requests {
            let answer = self.served.send("POST", &uri, &[], &body.to_string()).await;
            let is_answered = answer.status == StatusCode::OK;
            answers.push((what, if is_answered { "OK".to_owned() } else { answer.reason() }));
        }
        answers
    }

    async fn erase(&self, target: EraseTarget) {
        let request = EraseRequest { target, reason: "a key".to_owned(), dry_run: false, expected_revision: None };
        match self.served.test.app.content().erase(&self.session, request).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.reason, Reason::NothingToErase),
        }
    }
}

#[tokio::test]
async fn every_mutation_with_an_id_of_its_request_is_tried() {
    let pool = pb::DESCRIPTORS.clone();
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let with_id = methods.filter(|method| method.input().get_field_by_name("request_id").is_some());
    let names: BTreeSet<String> = with_id.map(|method| method.name().to_owned()).collect();
    let sent: BTreeSet<String> = whole().await.sent.iter().map(|sent| sent.method.to_owned()).collect();
    assert_eq!(sent, names, "a new one is to be tried here");
}

/// Every mutation, sent once.
async fn whole() -> Script {
    let mut script = Script::start().await;
    script.history().await;
    script.compactions().await;
    script.runs().await;
    script.session().await;
    script
}

#[tokio::test]
async fn behind_an_erasure_only_a_true_repetition_gets_an_answer() {
    for what in ["nothing", "parts", "messages", "session", "steps"] {
        let script = whole().await;
        let written = script.write("words of a stream", [1; 32]).await.expect("written");
        let test = &script.served.test;
        if what == "steps" {
            let words = |number: i64| format!("u{number} \"words\"");
            let lines: Vec<String> = (1_000..1_050 + 2 * limits::ERASE_STEP_REVISIONS_SERVER).map(words).collect();
            for lines in lines.chunks(100) {
                test.append(&script.session, &lines.join("\n")).await;
            }
        }
        let ids: Vec<String> = test.history(&script.session).await.iter().map(|of| of.id.to_string()).collect();
        match what {
            "parts" => {
                for message in test.history(&script.session).await {
                    for part in message.parts {
                        script.erase(part_target(&part.id.to_string()).expect("an id")).await;
                    }
                }
            }
            "messages" => script.erase(EraseTarget::Messages(ids)).await,
            "session" | "steps" => script.erase(EraseTarget::Session).await,
            _ => {}
        }
        // More than once, as an erasure that goes on from another one.
        if what == "parts" {
            let ids: Vec<String> = test.history(&script.session).await.iter().map(|of| of.id.to_string()).collect();
            script.erase(EraseTarget::Messages(ids)).await;
        }
        test.settled().await;
        let events = test.number("select count(*) from event");
        script.send_all_again(what).await;
        let is_session = matches!(what, "session" | "steps");
        let reused = if is_session { "SESSION_ERASED" } else { "CLIENT_ID_REUSED" };
        let sealed = if is_session { "SESSION_ERASED" } else { "MESSAGE_SEALED" };
        let same = if is_session { "SESSION_ERASED" } else { "OK" };
        let expected = [
            ("the same message", same),
            ("another message", reused),
            ("other metadata", reused),
            ("another part", sealed),
            ("another draft", sealed),
            ("the same session", same),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(name, reason)| (name, reason.to_owned())).collect();
        assert_eq!(script.client_ids().await, expected, "{what}");
        let other_end = script.write("words of a stream", [2; 32]).await.expect_err("another request");
        let expected = match what {
            "nothing" => Reason::RequestIdReused,
            // There is nothing left to compare the words with.
            "parts" | "messages" => Reason::MessageSealed,
            _ => Reason::SessionErased,
        };
        assert_eq!(other_end.reason, expected, "{what}");
        let other_words = script.write("other words", [1; 32]).await.expect_err("other words");
        assert_eq!(other_words.reason, if is_session { expected } else { Reason::MessageSealed }, "{what}");
        if what == "nothing" {
            let again = script.write("words of a stream", [1; 32]).await.expect("a repetition");
            assert_eq!((again.message, again.newest.seq), (written.message, written.newest.seq));
        }
        assert_eq!(test.number("select count(*) from event"), events, "{what}: nothing is written");
        assert_eq!(test.findings().await, [], "{what}");
    }
}

#[tokio::test]
async fn the_hash_of_a_request_is_no_hash_of_what_was_erased() {
    let script = whole().await;
    let test = &script.served.test;
    let plain = "select count(*) from request where octet_length(payload_hash) = 32";
    assert!(test.number(plain) > 20);
    script.erase(EraseTarget::Session).await;
    assert_eq!(test.number(plain), 0);
}

#[tokio::test]
async fn another_session_s_erased_words_are_other_words_here() {
    let test = TestApp::start().await;
    let (first, second) = (test.manual_session().await, test.manual_session().await);
    test.append(&first, "u1 \"one\"").await;
    test.append(&second, "u1 \"two\"").await;
    for session in [&first, &second] {
        let target = EraseTarget::Messages(vec!["u1".to_owned()]);
        let request = EraseRequest { target, reason: "a key".to_owned(), dry_run: false, expected_revision: None };
        test.app.content().erase(session, request).await.expect("erased");
    }
    for (session, words, is_same) in
        [(&first, "one", true), (&first, "two", false), (&second, "two", true), (&second, "one", false)]
    {
        let message =
            NewMessage { client_id: Some("u1".to_owned()), ..NewMessage::sealed(Role::User, vec![text(words)]) };
        let answer = test.app.messages().append(session, vec![message], None, None).await;
        match is_same {
            true => assert_eq!(answer.expect("a repetition").existed_count, 1),
            false => assert_eq!(answer.expect_err("other words").reason, Reason::ClientIdReused),
        }
    }
}

//! Streams of messages as JSON, and views that a client holds.

use super::{Served, piece};
use http::StatusCode;
use serde_json::{Value, json};

#[tokio::test]
async fn a_view_is_an_array_of_its_frames_or_one_a_line() {
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    served.append("s", "hello").await;
    let array = served.get("/v1/sessions/s/view").await;
    let frames = array.json();
    assert!(frames[0]["header"]["viewToken"].is_string(), "{frames}");
    assert_eq!(frames[1]["messages"]["messages"][0]["parts"][0]["part"]["text"]["text"], "hello");
    assert_eq!(frames[2], json!({"end": {}}));

    let lines = served.send("GET", "/v1/sessions/s/view", &[("accept", "application/x-ndjson")], "").await;
    assert_eq!(lines.headers["content-type"], "application/x-ndjson");
    let frames_by_line: Vec<Value> = lines.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(Value::from(frames_by_line), frames);
}

#[tokio::test]
async fn a_view_that_the_client_holds_is_not_sent_again() {
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    served.append("s", "hello").await;
    let view = served.get("/v1/sessions/s/view").await;
    let tag = view.headers["etag"].to_str().expect("text").to_owned();
    let header = &view.json()[0]["header"];
    let hash = header["viewHash"].as_str().expect("a hash");
    assert_eq!(tag, format!("\"{hash};r{}\"", header["revision"].as_str().expect("a revision")));
    assert_eq!(view.headers["cache-control"], "private, no-cache");

    let held = served.send("GET", "/v1/sessions/s/view", &[("if-none-match", &tag)], "").await;
    assert_eq!((held.status, held.text.as_str()), (StatusCode::NOT_MODIFIED, ""));
    assert_eq!(held.headers["etag"], tag.as_str());

    // What a cache holds in one form is not what is asked for in another, though it asks with the tag that it has.
    let lines = [("accept", "application/x-ndjson"), ("if-none-match", &tag)];
    let lines = served.send("GET", "/v1/sessions/s/view", &lines, "").await;
    assert_eq!(lines.status, StatusCode::OK);
    assert_ne!(lines.headers["etag"], tag.as_str());
    assert!([&view, &held, &lines].iter().all(|answer| answer.headers["vary"] == "Accept"));

    // What shows the same may leave out something else.
    let appended = served.append("s", "gone").await;
    let id = appended["messageIds"][0].as_str().expect("an id");
    served.post(&format!("/v1/sessions/s/messages/{id}:edit"), json!({"remove": true})).await;
    let rewound = served.send("GET", "/v1/sessions/s/view", &[("if-none-match", &tag)], "").await;
    assert_eq!(rewound.status, StatusCode::OK);
    assert_eq!(rewound.json()[0]["header"]["viewHash"], hash);

    served.append("s", "more").await;
    let changed = served.send("GET", "/v1/sessions/s/view", &[("if-none-match", &tag)], "").await;
    assert_eq!(changed.status, StatusCode::OK);
    assert_ne!(changed.headers["etag"], tag.as_str());
    assert!(served.get("/v1/sessions/s").await.headers.get("etag").is_none());
}

#[tokio::test]
async fn a_stream_is_written_as_its_messages_come() {
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    let response = served.begin("GET", "/v1/events:subscribe?sessionIds=s", &[], "").await;
    let mut body = response.into_body().into_data_stream();
    let ready = piece(&mut body).await;
    assert!(ready.starts_with("[{\"ready\":"), "{ready}");
    let appended = served.append("s", "hello").await;
    let events = piece(&mut body).await;
    let events: Value = serde_json::from_str(events.strip_prefix(",\n").expect("an element")).expect("JSON");
    assert_eq!(events["events"]["events"][0]["seq"], appended["seq"]);

    // The daemon stops: the stream ends as one JSON text whose last element says why.
    served.test.begin_stop();
    let end = piece(&mut body).await;
    let end = end.strip_prefix(",\n").and_then(|end| end.strip_suffix(']')).expect("the last element");
    let end: Value = serde_json::from_str(end).expect("JSON");
    assert_eq!(end["error"]["details"][0]["reason"], "SHUTTING_DOWN");
}

#[tokio::test]
async fn a_stream_that_fails_at_once_has_the_status_of_its_failure() {
    let served = Served::start().await;
    let answer = served.get("/v1/sessions/none/view").await;
    assert_eq!((answer.status, answer.reason().as_str()), (StatusCode::NOT_FOUND, "SESSION_NOT_FOUND"));
    let answer = served.get("/v1/events:subscribe?afterCursor=x").await;
    assert_eq!((answer.status, answer.reason().as_str()), (StatusCode::BAD_REQUEST, "CURSOR_INVALID"));
}

//! Events and views for browsers, and the read side of Durable Streams.

use super::{Answer, Served, piece};
use axum::body::BodyDataStream;
use http::StatusCode;
use serde_json::{Value, json};

const SSE: [(&str, &str); 1] = [("accept", "text/event-stream")];

/// One event of a stream.
#[derive(Debug, PartialEq)]
struct SentEvent {
    name: String,
    id: Option<String>,
    data: Value,
}

/// A client that reads events as they come, and remembers the last id as a browser does.
struct EventSource {
    body: BodyDataStream,
    text: String,
    last_id: String,
}

impl EventSource {
    async fn open(served: &Served, uri: &str, last_id: &str) -> Self {
        let mut headers = SSE.to_vec();
        if !last_id.is_empty() {
            headers.push(("last-event-id", last_id));
        }
        let response = served.begin("GET", uri, &headers, "").await;
        assert_eq!(response.status(), StatusCode::OK, "{uri}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { body: response.into_body().into_data_stream(), text: String::new(), last_id: last_id.to_owned() }
    }

    async fn next(&mut self) -> SentEvent {
        while !self.text.contains("\n\n") {
            self.text.push_str(&piece(&mut self.body).await);
        }
        let (event, rest) = self.text.split_once("\n\n").expect("the end of an event");
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let data = serde_json::from_str(&field("data:").expect("data")).expect("JSON");
        let found = SentEvent { name: field("event: ").expect("a name"), id: field("id: "), data };
        self.last_id = found.id.clone().unwrap_or_else(|| std::mem::take(&mut self.last_id));
        self.text = rest.to_owned();
        found
    }

    /// The next event, which must have this name.
    async fn expect(&mut self, name: &str) -> SentEvent {
        let found = self.next().await;
        assert_eq!(found.name, name, "{}", found.data);
        found
    }

    /// True if nothing more comes.
    async fn is_over(&mut self) -> bool {
        use futures::StreamExt as _;
        self.text.is_empty() && super::soon("the end of a stream", self.body.next()).await.is_none()
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().expect("text"))
}

fn seqs(events: &Value) -> Vec<String> {
    events.as_array().expect("an array").iter().map(|event| event["seq"].as_str().expect("a seq").to_owned()).collect()
}

async fn two_sessions() -> Served {
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    served.post("/v1/sessions", json!({"clientId": "other"})).await;
    served.append("s", "one").await;
    served.append("other", "else").await;
    served
}

#[tokio::test]
async fn a_browser_follows_events_and_resumes_behind_the_last() {
    let served = two_sessions().await;
    let mut events = EventSource::open(&served, "/v1/events?fromBeginning=true&includeContent=true", "").await;
    events.expect("ready").await;
    let created = events.expect("session_created").await;
    assert_eq!((created.data["seq"].as_str(), created.id.as_deref()), (Some("1"), created.data["cursor"].as_str()));
    events.expect("session_created").await;
    let appended = events.expect("message_appended").await;
    assert_eq!(appended.data["message"]["parts"][0]["text"]["text"], "one");
    let last_id = events.last_id.clone();
    drop(events);

    for (uri, id) in [("/v1/events".to_owned(), last_id.as_str()), (format!("/v1/events?after={last_id}"), "")] {
        let mut resumed = EventSource::open(&served, &uri, id).await;
        assert_eq!(resumed.expect("ready").await.id.as_deref(), Some(last_id.as_str()));
        assert_eq!(resumed.expect("message_appended").await.data["seq"], "4");
    }
    // A browser sends its last id to the address that it opened, which still says where to begin.
    let mut resumed = EventSource::open(&served, "/v1/events?fromBeginning=true", &last_id).await;
    resumed.expect("ready").await;
    assert_eq!(resumed.expect("message_appended").await.data["seq"], "4");
}

#[tokio::test]
async fn a_session_s_events_and_its_snapshot_are_its_own() {
    let served = two_sessions().await;
    let mut events = EventSource::open(&served, "/v1/sessions/s/events?snapshot=true", "").await;
    events.expect("ready").await;
    assert_eq!(events.expect("snapshot_item").await.data["session"]["clientId"], "s");
    assert!(events.expect("snapshot_item").await.data["message"].is_object());
    let end = events.expect("snapshot_end").await;
    assert!(end.id.is_some());
    served.append("other", "more").await;
    let appended = served.append("s", "two").await;
    assert_eq!(events.expect("message_appended").await.data["seq"], appended["seq"]);

    let refused = served.send("GET", "/v1/sessions/none/events", &SSE, "").await;
    assert_eq!((refused.status, refused.reason().as_str()), (StatusCode::NOT_FOUND, "SESSION_NOT_FOUND"));
    let refused = served.send("GET", "/v1/sessions/s/events?sessionIds=other", &SSE, "").await;
    assert_eq!((refused.status, refused.reason().as_str()), (StatusCode::BAD_REQUEST, "INVALID_FIELD"));
}

#[tokio::test]
async fn a_browser_follows_a_list_of_sessions_and_resumes_behind_the_last() {
    let served = two_sessions().await;
    served.post("/v1/sessions/s/labels:add", json!({"label": "x"})).await;
    let uri = "/v1/sessions:watch?filter.labels=x";
    let mut list = EventSource::open(&served, uri, "").await;
    let page = list.expect("snapshot_page").await;
    assert_eq!((page.id, page.data["sessions"][0]["clientId"].as_str()), (None, Some("s")));
    list.expect("snapshot_end").await;
    served.post("/v1/sessions/other/labels:add", json!({"label": "x"})).await;
    let change = list.expect("change").await;
    assert_eq!(change.data["changedSessions"][0]["clientId"], "other");
    let last_id = list.last_id.clone();
    drop(list);

    let removed = served.post("/v1/sessions/s/labels:remove", json!({"label": "x"})).await;
    let mut list = EventSource::open(&served, uri, &last_id).await;
    let change = list.expect("change").await;
    assert_eq!(change.data["removedSessionIds"][0], removed["session"]["sessionId"]);

    let refused = served.send("GET", "/v1/sessions:watch?filter.labels=a%20b", &SSE, "").await;
    assert_eq!((refused.status, refused.reason().as_str()), (StatusCode::BAD_REQUEST, "INVALID_FIELD"));
    let lost = EventSource::open(&served, uri, "nonsense").await.expect("resync").await;
    assert_eq!(lost.data["error"]["details"][0]["reason"], "CURSOR_INVALID");
}

#[tokio::test]
async fn a_cursor_that_cannot_be_served_is_one_resync() {
    let served = two_sessions().await;
    let foreign = two_sessions().await;
    let theirs = foreign.get("/v1/events:list").await.json()["events"][3]["cursor"].as_str().expect("text").to_owned();
    for uri in ["/v1/events", "/v1/sessions/s/events", "/v1/sessions/s/view/events"] {
        for (lost, reason) in [(theirs.as_str(), "CURSOR_FOREIGN"), ("x", "CURSOR_INVALID")] {
            let mut events = EventSource::open(&served, uri, lost).await;
            let resync = events.expect("resync").await;
            assert_eq!(resync.data["error"]["details"][0]["reason"], reason);
            assert_eq!(resync.id.as_deref(), resync.data["head"].as_str());
            assert!(events.is_over().await);
            // A browser that connects again comes with the id of that event.
            let last_id = events.last_id.clone();
            EventSource::open(&served, "/v1/events", &last_id).await.expect("ready").await;
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_daemon_that_stops_ends_with_the_reason() {
    let served = two_sessions().await;
    let mut events = EventSource::open(&served, "/v1/events", "").await;
    events.expect("ready").await;
    served.test.begin_stop();
    let failure = events.expect("failure").await;
    assert_eq!((&failure.data["details"][0]["reason"], failure.id), (&json!("SHUTTING_DOWN"), None));
    assert!(events.is_over().await);
}

#[tokio::test]
async fn a_view_is_followed_by_what_changes_behind_the_messages_that_stay() {
    let served = two_sessions().await;
    let mut views = EventSource::open(&served, "/v1/sessions/s/view/events", "").await;
    let whole = views.expect("view").await;
    assert_eq!(whole.data["messages"].as_array().expect("messages").len(), 1);
    assert_eq!(whole.data["header"]["messageCount"], 1);
    served.append("other", "nothing to it").await;
    served.append("s", "two").await;
    let changed = views.expect("view").await;
    assert_eq!((&changed.data["header"]["knownMessageCount"], changed.data["end"].is_object()), (&json!(1), true));
    assert_eq!(changed.data["messages"][0]["parts"][0]["part"]["text"]["text"], "two");

    // Resumed at the same place, nothing is sent until something changes, and then the whole view.
    let last_id = views.last_id.clone();
    let mut resumed = EventSource::open(&served, "/v1/sessions/s/view/events", &last_id).await;
    served.post("/v1/sessions/s:rewind", json!({"toStart": true})).await;
    let rewound = resumed.expect("view").await;
    assert_eq!((&rewound.data["messages"], rewound.data["header"].get("messageCount")), (&json!([]), None));
    assert_eq!(views.expect("view").await.data["messages"], json!([]));
    let mut late = EventSource::open(&served, "/v1/sessions/s/view/events", &last_id).await;
    assert_eq!(late.expect("view").await.data["messages"], json!([]));

    for uri in ["/v1/sessions/s/view/events?asOfRevision=1", "/v1/sessions/s/view/events?offset=-1"] {
        assert_eq!(served.get(uri).await.reason(), "INVALID_FIELD", "{uri}");
    }
}

#[tokio::test]
async fn a_durable_stream_is_read_in_pages_up_to_its_tail() {
    let served = two_sessions().await;
    let all = served.get("/v1/events").await;
    assert_eq!(seqs(&all.json()), ["1", "2", "3", "4"]);
    assert_eq!((header(&all, "content-type"), header(&all, "stream-up-to-date")), ("application/json", "true"));
    assert!(header(&all, "cache-control").starts_with("private"));
    let tail = header(&all, "stream-next-offset").to_owned();
    assert_eq!(tail, all.json()[3]["cursor"]);
    assert_eq!(served.get("/v1/events?offset=-1").await.text, all.text);

    let tag = header(&all, "etag").to_owned();
    let held = served.send("GET", "/v1/events?offset=-1", &[("if-none-match", &tag)], "").await;
    assert_eq!((held.status, held.text.as_str()), (StatusCode::NOT_MODIFIED, ""));
    assert_eq!(header(&held, "stream-next-offset"), tail);

    let own = served.get("/v1/sessions/s/events").await;
    assert_eq!(seqs(&own.json()), ["1", "3"]);
    // An offset is a place in the log, whoever's event is there.
    let after = format!("/v1/sessions/s/events?offset={tail}");
    let nothing = served.get(&after).await;
    assert_eq!((nothing.text.as_str(), header(&nothing, "stream-next-offset")), ("[]", tail.as_str()));
    let second = all.json()[1]["cursor"].as_str().expect("text").to_owned();
    assert_eq!(seqs(&served.get(&format!("/v1/sessions/s/events?offset={second}")).await.json()), ["3"]);

    let now = served.get("/v1/events?offset=now").await;
    assert_eq!((now.text.as_str(), header(&now, "cache-control")), ("[]", "no-store"));
    assert_eq!(header(&now, "stream-next-offset"), tail);
    let head = served.send("HEAD", "/v1/events", &[], "").await;
    assert_eq!(
        (head.status, header(&head, "stream-next-offset"), head.text.as_str()),
        (StatusCode::OK, tail.as_str(), "")
    );
    assert_eq!(header(&head, "content-type"), "application/json");

    let kinds = served.get("/v1/events?kinds=EVENT_KIND_MESSAGE_APPENDED&offset=-1").await;
    assert_eq!(seqs(&kinds.json()), ["3", "4"]);
}

#[tokio::test]
async fn a_page_before_the_tail_says_that_there_is_more() {
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    let message = json!({"role": "ROLE_USER", "parts": [{"text": {"text": "x"}}]});
    let messages = json!({"messages": vec![message; 300]});
    for _ in 0..2 {
        served.post("/v1/sessions/s/messages", messages.clone()).await;
    }
    let mut uri = "/v1/sessions/s/events?offset=-1".to_owned();
    let mut found = Vec::new();
    let mut offsets = Vec::new();
    for is_last in [false, true] {
        let page = served.get(&uri).await;
        found.extend(seqs(&page.json()));
        assert_eq!(header(&page, "stream-up-to-date"), if is_last { "true" } else { "" });
        offsets.push(header(&page, "stream-next-offset").to_owned());
        uri = format!("/v1/sessions/s/events?offset={}", header(&page, "stream-next-offset"));
    }
    assert_eq!(found, (1..=601).map(|seq| seq.to_string()).collect::<Vec<_>>());
    assert!(offsets.is_sorted());
}

#[tokio::test]
async fn a_long_poll_waits_for_one_answer() {
    let served = two_sessions().await;
    let past = served.get("/v1/events?offset=-1&live=long-poll").await;
    assert_eq!((seqs(&past.json()).len(), header(&past, "stream-cursor")), (4, "0"));
    let tail = header(&past, "stream-next-offset");
    let nothing = served.get(&format!("/v1/events?offset={tail}&live=long-poll&timeout=0&cursor=7")).await;
    assert_eq!((nothing.status, nothing.text.as_str()), (StatusCode::NO_CONTENT, ""));
    let found = ["stream-next-offset", "stream-up-to-date", "stream-cursor"].map(|name| header(&nothing, name));
    assert_eq!(found, [tail, "true", "8"]);

    let waiting = served.get("/v1/sessions/s/events?offset=now&live=long-poll");
    let appending = async {
        served.append("other", "not this").await;
        // The poll may begin after this; then it gets one of the next.
        served.test.until("the poll waits", async || served.test.app.events().stream_count() > 0).await;
        served.append("s", "this").await
    };
    let (polled, appended) = tokio::join!(waiting, appending);
    assert_eq!(
        (polled.status, seqs(&polled.json())),
        (StatusCode::OK, vec![appended["seq"].as_str().expect("seq").to_owned()])
    );
}

#[tokio::test]
async fn a_live_read_goes_on_where_the_pages_end() {
    let served = two_sessions().await;
    let mut live = EventSource::open(&served, "/v1/sessions/s/events?offset=-1&live=sse&cursor=3", "").await;
    assert_eq!(seqs(&live.expect("data").await.data), ["1", "3"]);
    let control = live.expect("control").await.data;
    assert_eq!((&control["streamCursor"], &control["upToDate"]), (&json!("4"), &json!(true)));
    let appended = served.append("s", "two").await;
    let data = live.expect("data").await.data;
    assert_eq!(data[0]["seq"], appended["seq"]);
    assert_eq!(live.expect("control").await.data["streamNextOffset"], data[0]["cursor"]);

    let mut tail = EventSource::open(&served, "/v1/events?offset=now&live=sse", "").await;
    let control = tail.expect("control").await.data;
    assert_eq!((&control["streamNextOffset"], &control["upToDate"]), (&data[0]["cursor"], &json!(true)));
}

#[tokio::test]
async fn what_a_durable_stream_does_not_offer_is_refused() {
    let served = two_sessions().await;
    let foreign = two_sessions().await;
    let theirs = header(&foreign.get("/v1/events").await, "stream-next-offset").to_owned();
    let cases = [
        (format!("/v1/events?offset={theirs}"), 410, "CURSOR_FOREIGN"),
        (format!("/v1/events?offset={theirs}&live=sse"), 410, "CURSOR_FOREIGN"),
        ("/v1/events?offset=x".to_owned(), 400, "CURSOR_INVALID"),
        ("/v1/events?offset=".to_owned(), 400, "INVALID_FIELD"),
        ("/v1/events?live=long-poll".to_owned(), 400, "INVALID_FIELD"),
        ("/v1/events?offset=-1&live=maybe".to_owned(), 400, "INVALID_FIELD"),
        ("/v1/events?offset=-1&sessionIds=s".to_owned(), 400, "INVALID_FIELD"),
        ("/v1/events?offset=-1&includeDeltas=true".to_owned(), 400, "INVALID_FIELD"),
        ("/v1/events?offset=-1&nothing=x".to_owned(), 400, "INVALID_FIELD"),
        ("/v1/sessions/none/events?offset=-1".to_owned(), 404, "SESSION_NOT_FOUND"),
        ("/v1/sessions/none/events?offset=now&live=sse".to_owned(), 404, "SESSION_NOT_FOUND"),
    ];
    for (uri, status, reason) in cases {
        let answer = served.get(&uri).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (status, reason), "{uri}: {}", answer.text);
    }
    for method in ["PUT", "POST", "DELETE", "PATCH"] {
        let answer = served.send(method, "/v1/events", &[], "").await;
        assert_eq!((answer.status, header(&answer, "allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"));
    }
    let answer = served.send("POST", "/v1/sessions/s/view/events", &[], "").await;
    assert_eq!((answer.status, header(&answer, "allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET"));
}

#[tokio::test]
async fn a_fork_s_stream_begins_with_what_it_inherited() {
    let served = two_sessions().await;
    served.post("/v1/sessions/s:fork", json!({"clientId": "fork"})).await;
    served.append("fork", "two").await;
    assert_eq!(seqs(&served.get("/v1/sessions/fork/events").await.json()), ["1", "3", "5", "6"]);
    let middle = served.get("/v1/events").await.json()[3]["cursor"].as_str().expect("text").to_owned();
    assert_eq!(seqs(&served.get(&format!("/v1/sessions/fork/events?offset={middle}")).await.json()), ["5", "6"]);
}

//! The API over HTTP with JSON, through its router over the services of a daemon's store, without a network.

mod errors;
mod json;
mod openapi;
mod operations;
mod reused_ids;
mod streaming;
mod streams;

use crate::support::{TestApp, soon};
use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use futures::StreamExt as _;
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt as _;

/// A store with its routes over HTTP.
struct Served {
    test: TestApp,
    router: axum::Router,
    health: tonic_health::server::HealthReporter,
}

fn router(routes: longhand::grpc::GuardedServices) -> axum::Router {
    let guard = routes.clone();
    longhand::http::router(routes, move |path, head| guard.check(path, head))
}

/// An answer that has come whole.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{:?} is no JSON: {error}", self.text))
    }

    /// The reason of a failure.
    fn reason(&self) -> String {
        let details = self.json()["details"].as_array().cloned().unwrap_or_default();
        details.iter().find_map(|detail| detail["reason"].as_str().map(str::to_owned)).unwrap_or_default()
    }
}

impl Served {
    async fn start() -> Self {
        let test = TestApp::start().await;
        let (routes, health) = longhand::grpc::router(test.longhand.clone()).await;
        Self { test, router: router(routes.in_process()), health }
    }

    /// The same for callers that have to prove who they are.
    async fn on_tcp() -> Self {
        let test = TestApp::start().await;
        let (routes, health) = longhand::grpc::router(test.longhand.clone()).await;
        Self { test, router: router(routes), health }
    }

    /// Has the daemon report that it takes no work.
    async fn stop_health(&self) {
        self.health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    }

    /// Sends a request and returns the answer without its body.
    async fn begin(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = Request::builder().method(method).uri(uri);
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        match soon(uri, self.router.clone().oneshot(request)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    async fn send(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let (head, body) = self.begin(method, uri, headers, body).await.into_parts();
        let bytes = soon(uri, axum::body::to_bytes(body, usize::MAX)).await.expect("a body");
        let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Answer { status: head.status, headers: head.headers, text }
    }

    async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, &[], "").await
    }

    /// Posts an object, and returns the answer's, which must be one of a success.
    async fn post(&self, uri: &str, body: Value) -> Value {
        let answer = self.send("POST", uri, &[], &body.to_string()).await;
        assert_eq!(answer.status, StatusCode::OK, "{uri}: {}", answer.text);
        answer.json()
    }

    /// Appends a user's message.
    async fn append(&self, session: &str, words: &str) -> Value {
        let message = serde_json::json!({"role": "ROLE_USER", "parts": [{"text": {"text": words}}]});
        let uri = format!("/v1/sessions/{session}/messages");
        self.post(&uri, serde_json::json!({"messages": [message]})).await
    }
}

/// The next piece of a body as text.
async fn piece(body: &mut BodyDataStream) -> String {
    let next = soon("the next piece of an answer", body.next()).await.expect("more to come").expect("bytes");
    String::from_utf8(next.to_vec()).expect("UTF-8")
}

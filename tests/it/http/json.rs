//! Calls with one response: reachability, conversion, idempotency.

use super::Served;
use http::StatusCode;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use regex::Regex;
use serde_json::json;

/// The method and the template of an RPC's rule.
fn rule(pool: &DescriptorPool, rpc: &MethodDescriptor) -> (String, String) {
    let extension = pool.get_extension_by_name("google.api.http").expect("the extension");
    let options = rpc.options();
    let rule = options.get_extension(&extension);
    let rule = rule.as_message().expect("a rule");
    let methods = ["get", "put", "post", "delete", "patch"].map(|method| (method, rule.get_field_by_name(method)));
    let found = methods.into_iter().find_map(|(method, path)| {
        let path = path?.as_str()?.to_owned();
        (!path.is_empty()).then(|| (method.to_uppercase(), path))
    });
    found.unwrap_or_else(|| panic!("{} has no rule", rpc.full_name()))
}

#[tokio::test]
async fn every_rpc_is_reached_by_its_rule() {
    let served = Served::start().await;
    let pool = longhand::pb::DESCRIPTORS.clone();
    let variable = Regex::new(r"\{[a-z_.]+\}").expect("a pattern");
    let mut count = 0;
    for rpc in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        // A call over HTTP has one request; the rules of the protocol say which calls do the same.
        if rpc.is_client_streaming() {
            continue;
        }
        let (method, template) = rule(&pool, &rpc);
        let path = variable.replace_all(&template, "nothing");
        let response = served.begin(&method, &path, &[], "").await;
        assert_eq!(response.headers()["content-type"], "application/json", "{}", rpc.name());
        assert!(!response.status().is_server_error(), "{}: {}", rpc.name(), response.status());
        if response.status() == StatusCode::OK {
            count += 1;
            continue;
        }
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        let failure: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let reason = &failure["details"][0]["reason"];
        assert!(reason.is_string() && reason != "METHOD_UNKNOWN", "{}: {failure}", rpc.name());
    }
    assert!(count > 5, "only {count} calls without a named thing succeeded");
}

#[tokio::test]
async fn a_session_is_made_read_changed_and_forked() {
    let served = Served::start().await;
    let made = served.post("/v1/sessions", json!({"clientId": "a/b:c ä", "title": "mine"})).await;
    assert_eq!(made["session"]["state"], "SESSION_STATE_ACTIVE");
    assert!(made.get("existed").is_none(), "a default is left out");

    let by_client_id = "/v1/sessions/a%2Fb%3Ac%20%C3%A4";
    let read = served.get(by_client_id).await;
    assert_eq!(read.json()["session"], made["session"], "{}", read.text);
    assert_eq!(read.headers["cache-control"], "no-store");

    let changed = served.send("PATCH", by_client_id, &[], r#"{"title": "yours"}"#).await.json();
    assert_eq!((&changed["session"]["title"], &changed["revision"]), (&json!("yours"), &json!("2")));

    let id = made["session"]["sessionId"].as_str().expect("an id");
    let appended = served.append(id, "hello").await;
    let message = appended["messageIds"][0].as_str().expect("an id").to_owned();
    let fork = served.post(&format!("/v1/sessions/{id}:fork"), json!({"message_id": message})).await;
    assert_eq!(fork["session"]["sourceSessionId"], made["session"]["sessionId"]);

    let listed = served.get("/v1/sessions?pageSize=1").await.json();
    assert_eq!(listed["sessions"].as_array().expect("a list").len(), 1);
    let next = format!("/v1/sessions?page_token={}", listed["nextPageToken"].as_str().expect("a token"));
    assert_eq!(served.get(&next).await.json()["sessions"][0]["sessionId"], made["session"]["sessionId"]);

    let found = served.get(&format!("/v1/sessions/{id}/messages/{message}")).await.json();
    assert_eq!(found["message"]["parts"][0]["text"]["text"], "hello");
    assert_eq!(found["message"]["status"], json!({"state": "MESSAGE_STATE_ACTIVE"}));
    let batch = format!("/v1/sessions/{id}/messages:batchGet?message_ids={message}&messageIds={message}");
    let batch = served.get(&batch).await.json();
    assert_eq!(batch, json!({"messages": [found["message"], found["message"]]}));
}

#[tokio::test]
async fn the_actor_of_a_change_is_the_header_s() {
    let served = Served::start().await;
    let made = served.send("POST", "/v1/sessions", &[("longhand-actor", "somebody")], "{}").await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text);
    let events = served.get("/v1/events:list").await.json();
    assert_eq!(events["events"][0]["actor"], "somebody");
}

#[tokio::test]
async fn an_idempotency_key_is_the_request_id() {
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    let body = r#"{"messages": [{"role": "ROLE_USER", "parts": [{"text": {"text": "once"}}]}]}"#;
    let uri = "/v1/sessions/s/messages";
    let first = served.send("POST", uri, &[("idempotency-key", "k1")], body).await;
    let again = served.send("POST", uri, &[("idempotency-key", "\"k1\"")], body).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.text);
    assert_eq!(first.json()["messageIds"], again.json()["messageIds"]);
    let same = body.replacen('{', r#"{"requestId": "k1", "#, 1);
    assert_eq!(served.send("POST", uri, &[("idempotency-key", "k1")], &same).await.json()["seq"], first.json()["seq"]);

    let other = served.send("POST", uri, &[("idempotency-key", "k2")], &same).await;
    assert_eq!((other.status, other.reason().as_str()), (StatusCode::BAD_REQUEST, "INVALID_FIELD"));
    let reused = served.send("POST", uri, &[("idempotency-key", "k1")], &body.replace("once", "twice")).await;
    assert_eq!((reused.status, reused.reason().as_str()), (StatusCode::BAD_REQUEST, "REQUEST_ID_REUSED"));
    // A call that cannot be repeated by an id has no use for the header.
    let read = served.send("GET", "/v1/sessions/s", &[("idempotency-key", "k1")], "").await;
    assert_eq!(read.status, StatusCode::OK);
}

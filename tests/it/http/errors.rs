//! Failures: status, form and reason.

use super::Served;
use http::StatusCode;
use serde_json::json;

#[tokio::test]
async fn a_failure_has_its_status_its_code_and_its_reason() {
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    let cases = [
        ("GET", "/v1/sessions/none", "", 404, 5, "SESSION_NOT_FOUND"),
        ("GET", "/v1/nothing", "", 404, 12, "METHOD_UNKNOWN"),
        ("GET", "/", "", 404, 12, "METHOD_UNKNOWN"),
        ("GET", "/v1/sessions/", "", 404, 12, "METHOD_UNKNOWN"),
        ("DELETE", "/v1/sessions/s", "", 405, 12, "METHOD_UNKNOWN"),
        ("GET", "/v1/sessions/%ff", "", 400, 3, "REQUEST_MALFORMED"),
        ("GET", "/v1/sessions?pages=2", "", 400, 3, "INVALID_FIELD"),
        ("GET", "/v1/sessions/s/view?asOfRevision=99", "", 400, 11, "REVISION_OUT_OF_RANGE"),
        ("POST", "/v1/sessions", "{", 400, 3, "REQUEST_MALFORMED"),
        ("POST", "/v1/sessions", r#"{"preset": "none"}"#, 404, 5, "PRESET_NOT_FOUND"),
        ("POST", "/v1/sessions", r#"{"clientId": "s", "title": "x"}"#, 409, 6, "CLIENT_ID_REUSED"),
        ("PATCH", "/v1/sessions/s", r#"{"title": "x", "expectedRevision": 0}"#, 409, 10, "REVISION_MISMATCH"),
        ("POST", "/v1/sessions/s:undo", "", 400, 9, "NOTHING_TO_UNDO"),
        ("POST", "/v1/store:backup", r#"{"path": "/x"}"#, 403, 7, "SOCKET_REQUIRED"),
    ];
    for (method, uri, body, status, code, reason) in cases {
        let answer = served.send(method, uri, &[], body).await;
        let failure = answer.json();
        let found = (answer.status.as_u16(), failure["code"].as_i64(), answer.reason());
        assert_eq!(found, (status, Some(code), reason.to_owned()), "{method} {uri}: {}", answer.text);
        assert_eq!(failure["details"][0]["domain"], "longhand");
        assert_eq!(failure["details"][0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
        assert_eq!(answer.headers["content-type"], "application/json");
    }
}

#[tokio::test]
async fn a_failure_of_a_service_has_its_facts() {
    let served = Served::start().await;
    let failure = served.get("/v1/sessions/none").await.json();
    assert_eq!(failure["details"][0]["metadata"]["session_id"], "none");
    let failure = served.send("POST", "/v1/sessions", &[], r#"{"metadataJson": "{"}"#).await.json();
    assert_eq!(failure["details"][1]["@type"], "type.googleapis.com/google.rpc.BadRequest");
    assert_eq!(failure["details"][1]["fieldViolations"][0]["field"], "metadata_json");
}

#[tokio::test]
async fn another_method_is_told_those_of_the_path() {
    let served = Served::start().await;
    let answer = served.send("DELETE", "/v1/sessions/s", &[], "").await;
    assert_eq!(
        (answer.status, answer.headers["allow"].as_bytes()),
        (StatusCode::METHOD_NOT_ALLOWED, &b"GET, PATCH"[..])
    );
    let answer = served.send("POST", "/openapi.json", &[], "{}").await;
    assert_eq!(
        (answer.status, answer.headers["allow"].as_bytes()),
        (StatusCode::METHOD_NOT_ALLOWED, &b"GET, HEAD"[..])
    );
    let answer = served.send("GET", "/v1/store:scrub", &[], "").await;
    assert_eq!(answer.headers["allow"], "POST");
}

#[tokio::test]
async fn a_body_without_its_type_is_not_read() {
    let served = Served::start().await;
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"] {
        let answer = served.send("POST", "/v1/sessions", &[("content-type", media_type)], "{}").await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{media_type}");
    }
    for media_type in ["application/json", "Application/JSON; charset=utf-8"] {
        let answer = served.send("POST", "/v1/sessions", &[("content-type", media_type)], "{}").await;
        assert_eq!(answer.status, StatusCode::OK, "{media_type}");
    }
    // Without a body there is no type.
    assert_eq!(served.send("POST", "/v1/sessions", &[], "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_without_being_kept() {
    let served = Served::start().await;
    let large = format!(r#"{{"title": "{}"}}"#, "x".repeat(longhand::limits::REQUEST_BYTES_MAX));
    let answer = served.send("POST", "/v1/sessions", &[], &large).await;
    assert_eq!((answer.status, answer.reason().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE"));
}

/// The text of an append with as many messages, of as many parts each.
fn batch(messages: usize, parts: usize) -> String {
    let part = r#"{"text": {"text": "a"}}"#;
    let message = format!(r#"{{"role": "ROLE_USER", "parts": [{}]}}"#, vec![part; parts].join(","));
    format!(r#"{{"messages": [{}]}}"#, vec![message.as_str(); messages].join(","))
}

#[tokio::test]
async fn the_largest_batch_passes_and_no_body_has_more_values() {
    use longhand::limits::{BATCH_MESSAGES_MAX, MESSAGE_PARTS_MAX, METADATA_BYTES_MAX};
    use longhand::pb::measure::REQUEST_VALUES_MAX;
    let served = Served::start().await;
    served.post("/v1/sessions", json!({"clientId": "s"})).await;
    let uri = "/v1/sessions/s/messages";
    let largest = batch(BATCH_MESSAGES_MAX, MESSAGE_PARTS_MAX);
    let answer = served.send("POST", uri, &[], &largest).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let metadata = format!("[{}0]", "{},".repeat(METADATA_BYTES_MAX / 3 - 1));
    let message = json!({"role": "ROLE_USER", "parts": [{"text": {"text": "a"}}], "metadataJson": metadata});
    served.post(uri, json!({"messages": [message]})).await;
    let messages = served.get("/v1/sessions/s/messages?pageSize=1").await.json();
    let floods = [
        format!(r#"{{"messages": [{}{{}}]}}"#, "{},".repeat(REQUEST_VALUES_MAX)),
        format!(r#"{{"messages": [{{"parts": [{}{{}}]}}]}}"#, r#"{"text":{}},"#.repeat(REQUEST_VALUES_MAX / 2)),
        format!(r#"{{"messages": [{}0]}}"#, "0,".repeat(REQUEST_VALUES_MAX)),
    ];
    for flood in floods {
        let answer = served.send("POST", uri, &[], &flood).await;
        assert_eq!((answer.status, answer.reason().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE"));
        assert_eq!(answer.json()["details"][0]["metadata"]["limit"], REQUEST_VALUES_MAX.to_string());
    }
    // What has one message more is refused for what it is.
    let more = served.send("POST", uri, &[], &batch(BATCH_MESSAGES_MAX + 1, 1)).await;
    assert_eq!(more.reason(), "LIMIT_EXCEEDED");
    assert_eq!(served.get("/v1/sessions/s/messages?pageSize=1").await.json(), messages, "nothing was written");
}

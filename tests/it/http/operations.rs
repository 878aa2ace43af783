//! Health, readiness and metrics.

use super::Served;
use http::StatusCode;

#[tokio::test]
async fn operators_ask_over_http_how_the_daemon_is() {
    let served = Served::start().await;
    for uri in ["/healthz", "/readyz"] {
        let answer = served.get(uri).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, "ok\n"), "{uri}");
    }
    served.post("/v1/sessions", serde_json::json!({"clientId": "one"})).await;
    let metrics = served.get("/metrics").await;
    assert_eq!(metrics.status, StatusCode::OK, "{}", metrics.text);
    assert!(metrics.headers["content-type"].to_str().expect("text").starts_with("application/openmetrics-text"));
    assert!(metrics.text.contains("\nlonghand_sessions 1\n") && metrics.text.ends_with("# EOF\n"), "{}", metrics.text);
    assert_eq!(served.send("POST", "/metrics", &[], "").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_not_ready_and_lives() {
    let served = Served::start().await;
    served.stop_health().await;
    assert_eq!(served.get("/healthz").await.status, StatusCode::OK);
    let answer = served.get("/readyz").await;
    assert_eq!((answer.status, answer.reason().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "STORE_STOPPED"));
}

#[tokio::test]
async fn a_caller_without_credentials_gets_no_metrics_and_is_told_how() {
    let served = Served::on_tcp().await;
    assert_eq!(served.get("/healthz").await.status, StatusCode::OK);
    assert_eq!(served.get("/readyz").await.status, StatusCode::OK);
    for uri in ["/metrics", "/v1/sessions", "/v1/events?offset=-1", "/v1/sessions/x/view/events"] {
        let answer = served.get(uri).await;
        assert_eq!((answer.status, answer.reason().as_str()), (StatusCode::UNAUTHORIZED, "ACCESS_TOKEN_MISSING"));
        assert_eq!(answer.headers["www-authenticate"], "Bearer", "{uri}");
    }
}

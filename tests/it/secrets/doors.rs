//! Every text field of every call that writes passes the rules: the descriptor has the fields, and each has a request
//! here that is refused for a secret in it, over HTTP.

use super::{SECRET, start};
use axum::body::Body;
use http::Request;
use longhand::app::secrets::Action;
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor, ReflectMessage as _, Value,
};
use serde_json::json;
use std::collections::BTreeSet;
use tower::ServiceExt as _;

/// Fields that are names or ids by their own names.
const NAMES: [&str; 29] = [
    "actor",
    "choice",
    "client_id_prefix",
    "code",
    "default_choice",
    "directory",
    "id",
    "kind",
    "known_view_hash",
    "labels",
    "lease_token",
    "metadata_terms",
    "mime_type",
    "model",
    "page_token",
    "path",
    "preset",
    "presets",
    "principal",
    "project",
    "provider",
    "query",
    "shard",
    "summarizer",
    "tenant",
    "title_prefix",
    "tool",
    "tools",
    "view_token",
];

/// Further fields that no rule reads, with the reason.
const UNREAD: [(&str, &str); 7] = [
    ("Head.hash", "it is no text"),
    ("AddLabelRequest.label", "a name"),
    ("RemoveLabelRequest.label", "a name"),
    ("MarkerPart.name", "a name"),
    ("ImportSessionRequest.data", "an archive comes as it was, with its chain"),
    ("ReportOverflowRequest.message", "it is not stored"),
    ("CheckSummaryTaskRequest.text", "it is not stored"),
];

fn short(message: &MessageDescriptor, field: &str) -> String {
    format!("{}.{field}", message.name())
}

fn is_text(message: &MessageDescriptor, field: &str) -> bool {
    let is_name = NAMES.contains(&field) || ["_id", "_ids", "_cursor"].iter().any(|end| field.ends_with(end));
    !is_name && !UNREAD.iter().any(|(unread, _)| *unread == short(message, field))
}

/// The text fields at and below a message.
fn texts(message: &MessageDescriptor, seen: &mut BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if !message.full_name().starts_with("longhand.") || !seen.insert(message.full_name().to_owned()) {
        return found;
    }
    for field in message.fields() {
        match field.kind() {
            Kind::String | Kind::Bytes if is_text(message, field.name()) => {
                found.insert(short(message, field.name()));
            }
            Kind::Message(below) => found.extend(texts(&below, seen)),
            _ => {}
        }
    }
    found
}

/// True if a value has the secret.
fn has_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(SECRET),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).contains(SECRET),
        Value::Message(below) => below.fields().any(|(_, value)| has_secret(value)),
        Value::List(values) => values.iter().any(has_secret),
        _ => false,
    }
}

/// The text fields that have the secret, at and below a message.
fn with_secret(message: &DynamicMessage) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (field, value) in message.fields().filter(|(_, value)| has_secret(value)) {
        let values = value.as_list().map_or(std::slice::from_ref(value), |values| values);
        let below: Vec<&DynamicMessage> = values.iter().filter_map(Value::as_message).collect();
        if below.is_empty() {
            found.insert(short(&message.descriptor(), field.name()));
        }
        found.extend(below.into_iter().flat_map(with_secret));
    }
    found
}

/// The requests, each with the secret in one text.
fn requests() -> Vec<(&'static str, serde_json::Value)> {
    let secret = format!("a {SECRET} b");
    let in_json = format!("[\"{secret}\"]");
    let object = format!("{{\"a\": \"{secret}\"}}");
    let base64 = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let result = |more: serde_json::Value| {
        let mut result = json!({"callId": "c", "status": "TOOL_RESULT_STATUS_COMPLETED"});
        result.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"toolResult": result})
    };
    let parts = vec![
        json!({"text": {"text": secret}}),
        json!({"text": {"text": "x"}, "metadataJson": in_json}),
        json!({"reasoning": {"text": secret}}),
        json!({"toolCall": {"callId": "c", "tool": "t", "inputJson": object}}),
        result(json!({"output": secret})),
        result(json!({"attachments": [{"mimeType": "text/x", "data": base64(&secret)}]})),
        json!({"media": {"mimeType": "image/png", "name": secret, "uri": "file:x"}}),
        json!({"media": {"mimeType": "application/json", "data": base64(&in_json)}}),
        json!({"media": {"mimeType": "image/png", "uri": secret}}),
        json!({"marker": {"name": "m", "text": secret}}),
        json!({"step": {"finishReason": secret}}),
        json!({"opaque": {"provider": "p", "kind": "k", "data": base64(&object)}}),
    ];
    let message = |part: &serde_json::Value| json!({"role": "ROLE_ASSISTANT", "parts": [part]});
    let fine = message(&json!({"text": {"text": "fine"}}));
    let append = |message: serde_json::Value| ("AppendMessages", json!({"messages": [message]}));
    let mut requests: Vec<_> = parts.iter().map(|part| append(message(part))).collect();
    let record = json!({"role": "ROLE_USER", "kind": "MESSAGE_KIND_RECORD", "parts": [{"record": {"kind": "k", "data": secret}}]});
    let provider = json!({"format": "MESSAGE_FORMAT_ANTHROPIC", "json": format!("{{\"role\":\"user\",\"content\":\"{secret}\"}}")});
    requests.extend([
        append(record),
        append(json!({"role": "ROLE_USER", "metadataJson": in_json, "parts": [{"text": {"text": "x"}}]})),
        append(json!({"role": "ROLE_USER", "finish": {"detail": secret}, "parts": [{"text": {"text": "x"}}]})),
        ("AppendMessages", json!({"messages": [fine], "title": secret})),
        ("AppendMessages", json!({"messages": [fine], "metadataJson": object})),
        ("AppendMessages", json!({"providerContent": provider})),
        ("AppendParts", json!({"message_id": "a2", "parts": [parts[0]]})),
        ("AppendDraft", json!({"message_id": "a2", "clientId": "d", "delta": secret})),
        ("FinishMessage", json!({"message_id": "a2", "finish": {"detail": secret}})),
        ("EditMessage", json!({"message_id": "a1", "parts": [parts[0]]})),
        ("EditMessage", json!({"message_id": "a1", "parts": [{"text": {"text": "x"}}], "metadataJson": in_json})),
        ("RewindSession", json!({"toStart": true, "branchSummary": {"instructions": secret}})),
        ("CreateSession", json!({"title": secret})),
        ("CreateSession", json!({"metadataJson": object})),
        ("CreateSession", json!({"policyOverrideJson": object})),
        ("CreateSession", json!({"policyJson": object})),
        ("UpdateSession", json!({"title": secret})),
        ("UpdateSession", json!({"metadataJson": object})),
        ("UpdateSession", json!({"policyOverrideJson": object})),
        ("UpdateSession", json!({"policyJson": object})),
        ("ForkSession", json!({"title": secret})),
        ("StartCompaction", json!({"kind": "COMPACTION_KIND_SUMMARY", "instructions": secret})),
        ("SupplySummary", json!({"text": secret})),
        ("EditSummaryTask", json!({"compaction_id": "cmp", "instructions": secret})),
        ("EditSummaryTask", json!({"compaction_id": "cmp", "detailsJson": object})),
        ("CompleteSummaryTask", json!({"compaction_id": "cmp", "text": secret})),
        ("SubmitPrompt", json!({"parts": [parts[0]]})),
        ("SubmitPrompt", json!({"parts": [result(json!({"output": secret}))]})),
        ("SubmitPrompt", json!({"parts": [{"text": {"text": "x"}}], "metadataJson": in_json})),
        ("RequestApproval", json!({"question": {"text": secret, "acceptsText": true}})),
        ("RequestApproval", json!({"question": {"text": "x", "acceptsText": true, "inputJson": object}})),
        ("RequestApproval", json!({"question": {"text": "x", "choices": [{"id": "y", "label": secret}]}})),
        ("AnswerApproval", json!({"text": secret})),
        ("ReleaseRun", json!({"failure": secret})),
        ("EraseContent", json!({"wholeSession": true, "reason": secret})),
    ]);
    requests
}

/// The method and the template of an RPC's rule; none for one that has no rule.
fn rule(pool: &DescriptorPool, rpc: &MethodDescriptor) -> Option<(String, String)> {
    let extension = pool.get_extension_by_name("google.api.http").expect("the extension");
    let options = rpc.options();
    let rule = options.get_extension(&extension);
    let rule = rule.as_message().expect("a rule");
    ["get", "put", "post", "delete", "patch"].into_iter().find_map(|method| {
        let path = rule.get_field_by_name(method)?.as_str()?.to_owned();
        (!path.is_empty()).then(|| (method.to_uppercase(), path))
    })
}

#[tokio::test]
async fn every_text_of_every_call_that_writes_passes_the_rules() {
    let test = start(Action::Refuse).await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"go\"\na1 \"x\"\na2 open").await;
    let question = super::question("ok?");
    let approval = test.app.approvals().request(&session, question).await.expect("asked").answer.0.id.to_string();
    let (routes, _health) = longhand::grpc::router(test.longhand.clone()).await;
    let guard = routes.in_process();
    let router = longhand::http::router(guard.clone(), move |path, head| guard.check(path, head));
    let pool = longhand::pb::DESCRIPTORS.clone();
    let all: Vec<MethodDescriptor> =
        pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let events = test.number("select count(*) from event");
    let (mut tried, mut doors) = (BTreeSet::new(), BTreeSet::new());
    for (name, mut body) in requests() {
        let rpc = all.iter().find(|rpc| rpc.name() == name).unwrap_or_else(|| panic!("{name}"));
        let (method, mut path) = rule(&pool, rpc).expect("a rule");
        let fields = body.as_object_mut().expect("an object");
        for (field, value) in [("session_id", session.as_str()), ("approval_id", &approval), ("epoch", "1")] {
            path = path.replace(&format!("{{{field}}}"), value);
        }
        for field in ["message_id", "compaction_id"] {
            if let Some(value) = fields.remove(field) {
                path = path.replace(&format!("{{{field}}}"), value.as_str().expect("an id"));
            }
        }
        let text = body.to_string();
        let request = Request::builder().method(method.as_str()).uri(&path).header("content-type", "application/json");
        let response = router.clone().oneshot(request.body(Body::from(text.clone())).expect("a request")).await;
        let body = axum::body::to_bytes(response.expect("an answer").into_body(), 1 << 20).await.expect("a body");
        let answer: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(answer["details"][0]["reason"], "SECRET_REFUSED", "{name} {text}: {answer}");
        assert!(!answer.to_string().contains(SECRET), "{answer}");
        let mut json = serde_json::Deserializer::from_str(&text);
        let request = DynamicMessage::deserialize(rpc.input(), &mut json).expect("a request");
        let found = with_secret(&request);
        assert_eq!(found.len(), 1, "{name} {text} tries one field: {found:?}");
        tried.extend(found);
        let tops = request.fields().filter(|(_, value)| has_secret(value));
        doors.extend(tops.map(|(field, _)| format!("{name}.{}", field.name())));
    }
    assert_eq!(test.number("select count(*) from event"), events, "nothing was written");
    for rpc in &all {
        // A stream of frames has tests of its own.
        if rpc.is_client_streaming() || rule(&pool, rpc).is_none_or(|(method, _)| method == "GET") {
            continue;
        }
        for field in rpc.input().fields() {
            let (found, name) = match field.kind() {
                Kind::Message(below) => (texts(&below, &mut BTreeSet::new()), below.name().to_owned()),
                Kind::String | Kind::Bytes if is_text(&rpc.input(), field.name()) => {
                    (BTreeSet::from([short(&rpc.input(), field.name())]), String::new())
                }
                _ => continue,
            };
            let untried: Vec<&String> = found.difference(&tried).collect();
            assert_eq!(untried, Vec::<&String>::new(), "{}: no request has a secret in them", rpc.name());
            let door = format!("{}.{}", rpc.name(), field.name());
            assert!(found.is_empty() || doors.contains(&door), "no request has a secret in {door} ({name})");
        }
    }
}

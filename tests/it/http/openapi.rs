//! The OpenAPI description.

use super::Served;
use serde_json::Value;
use std::collections::BTreeSet;

/// Calls a function with every value of a JSON text.
fn visit(value: &Value, seen: &mut impl FnMut(&Value)) {
    seen(value);
    match value {
        Value::Object(fields) => fields.values().for_each(|value| visit(value, seen)),
        Value::Array(values) => values.iter().for_each(|value| visit(value, seen)),
        _ => {}
    }
}

#[tokio::test]
async fn the_description_has_every_rpc_with_its_comment_and_no_loose_reference() {
    let served = Served::start().await;
    let answer = served.get("/openapi.json").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    let description = answer.json();
    assert_eq!(description["openapi"], "3.1.0");
    let operations: Vec<&Value> = description["paths"]
        .as_object()
        .expect("paths")
        .values()
        .flat_map(|path| path.as_object().expect("operations"))
        .filter(|(method, operation)| *method != "parameters" && operation["tags"][0] != "Stream")
        .map(|(_, operation)| operation)
        .collect();
    let streams = ["/v1/events", "/v1/sessions/{session_id}/events", "/v1/sessions/{session_id}/view/events"];
    assert!(streams.iter().all(|path| description["paths"][path]["get"]["responses"]["200"].is_object()));
    let found: BTreeSet<&str> = operations.iter().filter_map(|found| found["operationId"].as_str()).collect();
    let pool = longhand::pb::DESCRIPTORS.clone();
    let rpcs: Vec<_> = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let served = rpcs.iter().filter(|rpc| !rpc.is_client_streaming());
    assert_eq!(found, served.map(|rpc| rpc.name()).collect());
    for operation in operations {
        let id = &operation["operationId"];
        assert!(operation["description"].as_str().is_some_and(|text| text.contains("Errors:")), "{id}");
        for parameter in operation["parameters"].as_array().expect("parameters") {
            assert!(parameter["description"].as_str().is_some_and(|text| !text.is_empty()), "{id}: {parameter}");
        }
    }
    let mut references = BTreeSet::new();
    visit(&description, &mut |value| {
        references.extend(value.get("$ref").and_then(Value::as_str).map(str::to_owned));
    });
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("a reference within the description");
        assert!(description.pointer(pointer).is_some_and(Value::is_object), "{reference} leads nowhere");
    }
}

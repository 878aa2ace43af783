//! The OpenAPI description, made from the table of routes and the protocol's descriptor.

use super::answers::{JSON, LINES};
use super::protocol;
use super::request;
use super::routes::{BodyRule, Route, RouteTable};
use super::schema::Schemas;
use super::views;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Statuses of failures, with what they mean. Every call may end with each: the status follows from the reason's code.
const FAILURES: [(&str, &str); 14] = [
    ("400", "The request cannot be served as it is, or not in the current state."),
    ("401", "The request has no valid credentials."),
    ("403", "The caller may not do this."),
    ("404", "What the request names does not exist."),
    ("405", "The path has other methods."),
    ("409", "What the request creates exists, or the store changed since the caller read it."),
    ("413", "The request is too large."),
    ("415", "The body is not application/json."),
    ("429", "A bound is reached."),
    ("499", "The caller left."),
    ("500", "The daemon failed, or stored content is damaged."),
    ("501", "The daemon has no such operation."),
    ("503", "The daemon cannot serve this now."),
    ("504", "The deadline has passed."),
];

/// The description of all routes.
pub(super) fn description(routes: &RouteTable) -> Value {
    let mut schemas = Schemas::new(&protocol::DESCRIPTORS);
    let mut paths: Map<String, Value> = Map::new();
    let mut all: Vec<&Route> = routes.routes().iter().collect();
    all.sort_by_key(|route| route.template.to_string());
    for route in all {
        let path = paths.entry(route.template.to_string()).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route, &mut schemas);
    }
    for (path, item) in streams(&mut schemas) {
        paths.insert(path, item);
    }
    let mut components = schemas.into_components();
    components.insert("Status".to_owned(), status());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Longhand",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A session store for LLM agents. Bodies are protobuf's JSON mapping of `longhand.v1`.",
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "bearer": [] }],
    })
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let rpc = &route.rpc;
    let file = rpc.parent_service().parent_file();
    let comment = schemas.comment(&file, rpc.path()).to_owned();
    let summary = comment.split_inclusive(['.', '\n']).next().unwrap_or_default().trim_end_matches(['.', '\n']);
    let bound: BTreeSet<&str> = route.template.fields().collect();
    let mut parameters: Vec<Value> = Vec::new();
    let input = rpc.input();
    for field in input.fields().filter(|field| bound.contains(field.name())) {
        let mut schema = schemas.described_field(&field);
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        schema["minLength"] = 1.into();
        parameters.push(json!({
            "name": field.name(), "in": "path", "required": true, "description": description, "schema": schema,
        }));
    }
    if let BodyRule::Empty | BodyRule::Field(_) = &route.body {
        let body = match &route.body {
            BodyRule::Field(field) => Some(field.name().to_owned()),
            BodyRule::Empty | BodyRule::Whole => None,
        };
        let fields = input.fields().filter(|field| !bound.contains(field.name()));
        for field in fields.filter(|field| body.as_deref() != Some(field.name())) {
            query_parameters("", &field, schemas, &mut parameters);
        }
    }
    if input.get_field_by_name("request_id").is_some() {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "The `requestId`, for clients that make requests idempotent by a header.",
            "schema": { "type": "string", "maxLength": 128, "pattern": "^[!-~]*$" },
        }));
    }
    let mut operation = json!({
        "operationId": rpc.name(),
        "tags": [rpc.parent_service().name().trim_end_matches("Service")],
        "summary": summary,
        "description": comment,
        "parameters": parameters,
        "responses": responses(route, schemas),
    });
    let body = match &route.body {
        BodyRule::Empty => None,
        BodyRule::Whole => Some(schemas.object(&input, &bound)),
        BodyRule::Field(field) => Some(schemas.described_field(field)),
    };
    if let Some(schema) = body {
        operation["requestBody"] = json!({ "required": false, "content": { JSON: { "schema": schema } } });
    }
    operation
}

/// The query parameters of a field: one, or those of the fields in it.
fn query_parameters(prefix: &str, field: &FieldDescriptor, schemas: &mut Schemas, parameters: &mut Vec<Value>) {
    let name = format!("{prefix}{}", field.json_name());
    if !request::is_parameter(field) {
        return;
    }
    if let Kind::Message(inner) = field.kind()
        && !is_string(&inner)
    {
        // No request has a message in itself; one that had would be described up to here.
        if prefix.is_empty() {
            for field in inner.fields() {
                query_parameters(&format!("{name}."), &field, schemas, parameters);
            }
        }
        return;
    }
    let mut schema = schemas.described_field(field);
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    parameters
        .push(json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema }));
}

fn is_string(message: &MessageDescriptor) -> bool {
    message.full_name().starts_with("google.protobuf.")
}

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let schema = schemas.message(&route.rpc.output());
    let mut responses = Map::new();
    let done = if route.rpc.is_server_streaming() {
        let cut = json!({
            "type": "object",
            "properties": { "error": { "$ref": "#/components/schemas/Status" } },
            "required": ["error"],
            "additionalProperties": false,
        });
        let element = json!({ "anyOf": [schema, cut] });
        json!({
            "description": "The messages of the stream, as they come. A failure after the first is the last element.",
            "content": {
                JSON: { "schema": { "type": "array", "items": element } },
                LINES: { "schema": { "type": "string", "description": "One message a line." } },
            },
        })
    } else {
        json!({ "description": "Done.", "content": { JSON: { "schema": schema } } })
    };
    responses.insert("200".to_owned(), done);
    if views::has_tag(&route.rpc) {
        let tag = json!({ "ETag": { "description": "The view's hash.", "schema": { "type": "string" } } });
        responses["200"]["headers"] = tag;
        responses.insert("304".to_owned(), json!({ "description": "The client holds this view." }));
    }
    responses.extend(failures());
    Value::Object(responses)
}

fn failures() -> impl Iterator<Item = (String, Value)> {
    FAILURES.iter().map(|(status, meaning)| {
        let content = json!({ JSON: { "schema": { "$ref": "#/components/schemas/Status" } } });
        ((*status).to_owned(), json!({ "description": meaning, "content": content }))
    })
}

/// The paths that are no RPC's: events and views as they come.
fn streams(schemas: &mut Schemas) -> [(String, Value); 3] {
    let session = json!({
        "name": "session_id", "in": "path", "required": true, "description": "The session's id or client id.",
        "schema": { "type": "string", "minLength": 1 },
    });
    let resume = [
        header_parameter("Last-Event-ID", "The id of the last event that a browser got."),
        query_parameter("after", "The cursor after which to begin, for a client that has no `Last-Event-ID` yet."),
    ];
    let everything = follow("FollowEvents", EVENTS, "SubscribeEventsRequest", &["after_cursor"], schemas);
    let own =
        follow("FollowSessionEvents", EVENTS, "SubscribeEventsRequest", &["after_cursor", "session_ids"], schemas);
    let held = ["session_id", "as_of_revision", "known_view_hash", "known_revision"];
    let view = follow("FollowView", VIEWS, "GetViewRequest", &held, schemas);
    let event = schemas.reference("Event");
    let mut paths = [
        ("/v1/events".to_owned(), everything),
        ("/v1/sessions/{session_id}/events".to_owned(), own),
        ("/v1/sessions/{session_id}/view/events".to_owned(), view),
    ];
    for (path, item) in &mut paths {
        if path.contains('{') {
            item["parameters"] = json!([session]);
        }
        let is_view = path.contains("/view/");
        let operation = &mut item["get"];
        if let Some(parameters) = operation["parameters"].as_array_mut() {
            parameters.extend(resume.clone());
            if !is_view {
                parameters.extend(durable_parameters());
            }
        }
        if !is_view {
            operation["responses"]["200"]["content"][JSON] = json!({ "schema": { "type": "array", "items": event } });
            operation["responses"]["204"] = json!({ "description": "A long poll waited in vain." });
            operation["responses"]["304"] = json!({ "description": "The client holds this page." });
            operation["responses"]["410"] = json!({
                "description": "The log does not have the offset.",
                "content": { JSON: { "schema": { "$ref": "#/components/schemas/Status" } } },
            });
            // The answer has no body, whatever it is.
            let statuses = operation["responses"].as_object().into_iter().flatten();
            let bare =
                statuses.map(|(status, response)| (status.clone(), json!({ "description": response["description"] })));
            let mut head = operation.clone();
            head["responses"] = Value::Object(bare.collect());
            head["operationId"] = format!("{}Tail", operation["operationId"].as_str().unwrap_or_default()).into();
            head["summary"] = "The offset of the newest event".into();
            item["head"] = head;
        }
    }
    paths
}

/// What an event stream is, for people.
const EVENTS: &str = "Events as they come. With `Accept: text/event-stream` and neither `offset` nor `live`, each event \
    is one Server-Sent Event with its cursor as id: `ready` first, then each event under its kind's name, `heartbeat` \
    while nothing comes, `resync` if the cursor cannot be served, `failure` with the reason of an early end. Else the \
    read side of the Durable Streams protocol in JSON mode.";
/// What a stream of views is, for people.
const VIEWS: &str = "The session's view, whole at first, and after each change what is behind the first \
    `header.knownMessageCount` messages. Each is one Server-Sent Event, `view`, with a cursor as id.";

/// The description of a stream that begins like an RPC's.
fn follow(id: &str, description: &str, request: &str, without: &[&str], schemas: &mut Schemas) -> Value {
    let mut parameters = Vec::new();
    let message = protocol::DESCRIPTORS.get_message_by_name(&format!("longhand.v1.{request}"));
    let fields = message.iter().flat_map(MessageDescriptor::fields);
    for field in fields.filter(|field| !without.contains(&field.name())) {
        query_parameters("", &field, schemas, &mut parameters);
    }
    let mut responses = Map::from_iter(failures());
    let text = json!({ "text/event-stream": { "schema": { "type": "string" } } });
    responses.insert("200".to_owned(), json!({ "description": "The stream.", "content": text }));
    let summary = if id == "FollowView" { "Follow a view" } else { "Follow events" };
    json!({ "get": {
        "operationId": id,
        "tags": ["Stream"],
        "summary": summary,
        "description": description,
        "parameters": parameters,
        "responses": responses,
    } })
}

fn durable_parameters() -> [Value; 4] {
    let mut live = query_parameter("live", "How to wait for more: `long-poll` or `sse`. Needs `offset`.");
    live["schema"]["enum"] = json!(["long-poll", "sse"]);
    let mut timeout = query_parameter("timeout", "Seconds for which a long poll waits; at most 30.");
    timeout["schema"] = json!({ "type": "integer", "minimum": 0 });
    let mut cursor = query_parameter("cursor", "The client's last `Stream-Cursor`.");
    cursor["schema"] = json!({ "type": "integer", "minimum": 0 });
    let mut offset =
        query_parameter("offset", "`-1` for the beginning, `now` for the tail, or a `Stream-Next-Offset`.");
    offset["schema"]["minLength"] = 1.into();
    [offset, live, timeout, cursor]
}

fn query_parameter(name: &str, description: &str) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": description, "schema": { "type": "string" } })
}

fn header_parameter(name: &str, description: &str) -> Value {
    json!({ "name": name, "in": "header", "required": false, "description": description, "schema": { "type": "string" } })
}

/// The schema of `google.rpc.Status` in JSON.
fn status() -> Value {
    json!({
        "type": "object",
        "description": "A failure: `google.rpc.Status`. Its details have a `google.rpc.ErrorInfo` with the reason.",
        "properties": {
            "code": { "type": "integer", "description": "The number of the `google.rpc.Code`." },
            "message": { "type": "string" },
            "details": {
                "type": "array",
                "items": { "type": "object", "properties": { "@type": { "type": "string" } }, "required": ["@type"] },
            },
        },
        "required": ["code"],
        "additionalProperties": false,
    })
}

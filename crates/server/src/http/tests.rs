//! The request message that a path, a query and a body make.

use super::protocol::DESCRIPTORS;
use super::request::{self, Parts};
use super::routes::{BodyRule, Route, RouteMatch, RouteTable};
use crate::app::{Error, Reason};
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{Duration, Timestamp};
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};
use std::sync::LazyLock;

static TABLE: LazyLock<RouteTable> =
    LazyLock::new(|| RouteTable::from_pool(&DESCRIPTORS).expect("the rules of the protocol"));

/// What a request becomes: its RPC and the JSON of its message, or the refused field.
fn read_in(table: &RouteTable, method: &str, uri: &str, body: &str) -> Result<(String, Json), Error> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let RouteMatch::Route(route, variables) = table.find(&method, path)? else { panic!("{method} {uri} is no route") };
    let parts = Parts { variables: &variables, query, body: body.as_bytes(), idempotency_key: None };
    let encoded = request::encoded(route, parts)?;
    let message = DynamicMessage::decode(route.rpc.input(), encoded.as_slice()).expect("a message");
    Ok((route.rpc.name().to_owned(), serde_json::to_value(&message).expect("JSON")))
}

fn route_request(method: &str, uri: &str, body: &str) -> Result<(String, Json), Error> {
    read_in(&TABLE, method, uri, body)
}

#[test]
fn a_request_is_its_path_its_query_and_its_body() {
    let cases = [
        ("GET", "/v1/sessions/a", "", "GetSession", json!({"sessionId": "a"})),
        ("GET", "/v1/sessions/a%2Fb:c", "", "GetSession", json!({"sessionId": "a/b:c"})),
        ("GET", "/v1/sessions?page_size=3", "", "ListSessions", json!({"pageSize": 3})),
        (
            "GET",
            "/v1/sessions?pageSize=3&includeArchived=true&parentSessionId=",
            "",
            "ListSessions",
            json!({"pageSize": 3, "includeArchived": true, "parentSessionId": ""}),
        ),
        (
            "GET",
            "/v1/sessions/a/view?window.model=gpt%205&window.maxContextTokens=9007199254740993&wait_timeout=1.5s\
             &knownViewHash=AP8%3D&overflowAction=OVERFLOW_ACTION_WAIT",
            "",
            "GetView",
            json!({
                "sessionId": "a",
                "window": {"model": "gpt 5", "maxContextTokens": "9007199254740993"},
                "waitTimeout": "1.500s",
                "knownViewHash": "AP8=",
                "overflowAction": "OVERFLOW_ACTION_WAIT",
            }),
        ),
        (
            "GET",
            "/v1/events:list?kinds=7&kinds=EVENT_KIND_COMPACTED",
            "",
            "ListEvents",
            json!({"kinds": ["EVENT_KIND_MESSAGE_APPENDED", "EVENT_KIND_COMPACTED"]}),
        ),
        ("GET", "/v1/sessions/a/messages/b:expand", "", "ExpandMessage", json!({"sessionId": "a", "id": "b"})),
        ("POST", "/v1/sessions/a:fork", r#"{"title": "t"}"#, "ForkSession", json!({"sessionId": "a", "title": "t"})),
        ("POST", "/v1/sessions/a:fork", "", "ForkSession", json!({"sessionId": "a"})),
        ("POST", "/v1/sessions/a:fork", r#"{"session_id": "a"}"#, "ForkSession", json!({"sessionId": "a"})),
        (
            "PATCH",
            "/v1/sessions/a",
            r#"{"title": null, "expected_revision": 7}"#,
            "UpdateSession",
            json!({"sessionId": "a", "expectedRevision": "7"}),
        ),
    ];
    for (method, uri, body, rpc, message) in cases {
        let (found_rpc, found) = route_request(method, uri, body).unwrap_or_else(|error| panic!("{uri}: {error}"));
        assert_eq!((found_rpc.as_str(), found), (rpc, message), "{method} {uri}");
    }
}

#[test]
fn what_a_request_cannot_have_is_refused_by_name() {
    let cases = [
        ("GET", "/v1/sessions?pageSiz=3", "", "pageSiz"),
        ("GET", "/v1/sessions?page_size=x", "", "page_size"),
        ("GET", "/v1/sessions?page_size=1&pageSize=1", "", "pageSize"),
        ("GET", "/v1/sessions?includeArchived=yes", "", "include_archived"),
        ("GET", "/v1/sessions/a?sessionId=b", "", "sessionId"),
        ("GET", "/v1/sessions/a/view?window=x", "", "window"),
        ("GET", "/v1/sessions/a/view?window.size=1", "", "window.size"),
        ("GET", "/v1/sessions/a/view?window.model.x=1", "", "window.model.x"),
        ("GET", "/v1/sessions/a/view?waitTimeout=soon", "", "wait_timeout"),
        ("GET", "/v1/sessions/a/view?knownViewHash=%21", "", "known_view_hash"),
        ("GET", "/v1/sessions/a/view?overflowAction=PANIC", "", "overflow_action"),
        ("POST", "/v1/sessions?title=x", "", "title"),
        ("POST", "/v1/sessions", r#"{"titel": "x"}"#, "titel"),
        ("POST", "/v1/sessions", r#"{"window": {"maxContextTokens": "many"}}"#, "window.maxContextTokens"),
        ("POST", "/v1/sessions/a:fork", r#"{"sessionId": "b"}"#, "session_id"),
        ("POST", "/v1/sessions/a:fork", r#"{"messageId": "b", "asOfRevision": 1}"#, "point"),
    ];
    for (method, uri, body, field) in cases {
        let error = route_request(method, uri, body).expect_err(uri);
        let found = (error.reason, error.metadata.get("field").map(String::as_str));
        assert_eq!(found, (Reason::InvalidField, Some(field)), "{method} {uri} {body}: {error}");
    }
    let error = route_request("GET", "/v1/sessions", "{}").expect_err("a body");
    assert_eq!(error.reason, Reason::RequestMalformed);
}

/// A pool with a rule whose body is one field, which the protocol has none of.
fn pool_with(rule: &str) -> DescriptorPool {
    let source = format!(
        "syntax = \"proto3\"; package test; import \"google/api/annotations.proto\";
         service Things {{ rpc Put(PutRequest) returns (PutRequest) {{ option (google.api.http) = {{ {rule} }}; }} }}
         message PutRequest {{ Thing thing = 1; string view = 2; map<string, int64> sizes = 3; repeated Thing more = 4; }}
         message Thing {{ string name = 1; repeated string tags = 2; }}"
    );
    struct TestProto(String);
    impl protox::file::FileResolver for TestProto {
        fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
            match name {
                "test.proto" => protox::file::File::from_source(name, &self.0),
                _ => Err(protox::Error::file_not_found(name)),
            }
        }
    }
    let mut resolver = protox::file::ChainFileResolver::new();
    resolver.add(TestProto(source));
    resolver.add(protox::file::IncludeFileResolver::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto").into()));
    resolver.add(protox::file::GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).open_file("test.proto").expect("the proto compiles");
    DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).expect("descriptors")
}

#[test]
fn a_body_can_be_one_field_and_a_variable_a_field_of_a_field() {
    let table = RouteTable::from_pool(&pool_with(r#"put: "/things/{thing.name}" body: "thing""#)).expect("a rule");
    let (_, message) = read_in(&table, "PUT", "/things/a?view=full", r#"{"tags": ["x"]}"#).expect("a request");
    assert_eq!(message, json!({"thing": {"name": "a", "tags": ["x"]}, "view": "full"}));
    for (uri, body) in [("/things/a?thing.tags=x", ""), ("/things/a", r#"{"name": "b"}"#), ("/things/a?sizes=1", "")] {
        assert_eq!(read_in(&table, "PUT", uri, body).expect_err(uri).reason, Reason::InvalidField, "{uri}");
    }
}

#[test]
fn rules_that_cannot_be_served_are_found_at_the_start() {
    let refused = |rule: &str| RouteTable::from_pool(&pool_with(rule)).expect_err(rule).to_string();
    assert!(refused("").contains("no HTTP rule"));
    assert!(refused(r#"get: "things""#).contains("template"));
    assert!(refused(r#"get: "/things/{name}""#).contains("\"name\""));
    assert!(refused(r#"get: "/things/{thing}""#).contains("\"thing\""));
    assert!(refused(r#"post: "/things" body: "names""#).contains("\"names\""));
    assert!(refused(r#"post: "/things" body: "more""#).contains("\"more\""));
    let twice = r#"get: "/things/{view}" additional_bindings { get: "/things/all" }"#;
    assert!(refused(twice).contains("same path"));
    let bound_twice = r#"get: "/things/{view}" additional_bindings { get: "/all/things" }"#;
    assert_eq!(RouteTable::from_pool(&pool_with(bound_twice)).expect("two rules").routes().len(), 2);
}

/// A random message, as deep as a request can be.
pub(super) fn random(random_numbers: &mut StdRng, descriptor: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    match descriptor.full_name() {
        "google.protobuf.Timestamp" => {
            let seconds = random_numbers.random_range(-60_000_000_000_i64..250_000_000_000);
            let time = Timestamp { seconds, nanos: random_numbers.random_range(0..1_000_000_000) };
            message.transcode_from(&time).expect("a time");
            return message;
        }
        "google.protobuf.Duration" => {
            let seconds = random_numbers.random_range(0..300_000_000_000_i64);
            let span = Duration { seconds, nanos: random_numbers.random_range(0..1_000_000_000) };
            message.transcode_from(&span).expect("a span");
            return message;
        }
        _ => {}
    }
    for field in descriptor.fields() {
        if random_numbers.random_bool(0.4) || depth == 0 && field.kind().as_message().is_some() {
            continue;
        }
        if field.is_list() {
            let count = random_numbers.random_range(0..3);
            let values = (0..count).map(|_| random_value(random_numbers, &field.kind(), depth)).collect();
            message.set_field(&field, Value::List(values));
        } else if field.is_map() {
            let entries = [(MapKey::String("k".into()), Value::I64(random_numbers.random()))];
            message.set_field(&field, Value::Map(entries.into()));
        } else {
            message.set_field(&field, random_value(random_numbers, &field.kind(), depth));
        }
    }
    message
}

fn random_value(random_numbers: &mut StdRng, kind: &Kind, depth: usize) -> Value {
    match kind {
        Kind::Double => Value::F64(f64::from(random_numbers.random::<i32>()) / 7.0),
        Kind::Int32 => Value::I32(random_numbers.random()),
        Kind::Int64 => Value::I64(random_numbers.random()),
        Kind::Bool => Value::Bool(random_numbers.random()),
        Kind::String => Value::String(random_text(random_numbers)),
        Kind::Bytes => {
            let count = random_numbers.random_range(0..40);
            Value::Bytes((0..count).map(|_| random_numbers.random::<u8>()).collect())
        }
        Kind::Enum(declared) => {
            let values: Vec<_> = declared.values().collect();
            Value::EnumNumber(values[random_numbers.random_range(0..values.len())].number())
        }
        Kind::Message(inner) => Value::Message(random(random_numbers, inner, depth - 1)),
        other => panic!("the protocol has no {other:?}"),
    }
}

fn random_text(random_numbers: &mut StdRng) -> String {
    let characters: Vec<char> = "ab/:?&=%+#.. \"\\\n\u{0}äß€😀true1".chars().collect();
    let count = random_numbers.random_range(1..8);
    (0..count).map(|_| characters[random_numbers.random_range(0..characters.len())]).collect()
}

/// The query parameters of a JSON object.
fn flatten(prefix: &str, value: &Json, pairs: &mut Vec<(String, String)>) {
    match value {
        Json::Object(fields) => {
            let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}.") };
            fields.iter().for_each(|(name, value)| flatten(&format!("{prefix}{name}"), value, pairs));
        }
        Json::Array(values) => values.iter().for_each(|value| flatten(prefix, value, pairs)),
        Json::String(text) => pairs.push((prefix.to_owned(), text.clone())),
        other => pairs.push((prefix.to_owned(), other.to_string())),
    }
}

/// Removes the messages that have no field: a query has no parameter for them.
fn without_empty(message: &mut DynamicMessage) {
    for field in message.descriptor().fields().filter(|field| !field.is_list()) {
        if field.kind().as_message().is_some_and(|inner| !inner.full_name().starts_with("google."))
            && message.has_field(&field)
            && serde_json::to_value(message.get_field(&field).as_message()).expect("JSON") == json!({})
        {
            message.clear_field(&field);
        }
    }
}

/// Writes a message as a request of a route, and reads it.
fn round_trip(route: &Route, seed: u64) {
    let mut random_numbers = StdRng::seed_from_u64(seed);
    let mut message = random(&mut random_numbers, &route.rpc.input(), 3);
    let mut path = route.template.to_string();
    for field in route.template.fields() {
        let is_number = message.descriptor().get_field_by_name(field).is_some_and(|field| field.kind() == Kind::Int64);
        let (value, text) = if is_number {
            let number: i64 = random_numbers.random();
            (Value::I64(number), number.to_string())
        } else {
            let text = random_text(&mut random_numbers);
            (Value::String(text.clone()), text)
        };
        path = path.replace(&format!("{{{field}}}"), &utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string());
        message.set_field_by_name(field, value);
    }
    let mut json = serde_json::to_value(&message).expect("JSON");
    for field in route.template.fields() {
        let field = message.descriptor().get_field_by_name(field).expect("a field");
        json.as_object_mut().expect("an object").remove(field.json_name());
    }
    let (query, body) = match route.body {
        BodyRule::Empty => {
            without_empty(&mut message);
            let mut pairs = Vec::new();
            flatten("", &json, &mut pairs);
            (form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish(), String::new())
        }
        BodyRule::Whole | BodyRule::Field(_) => (String::new(), json.to_string()),
    };
    let Ok(RouteMatch::Route(found, variables)) = TABLE.find(&route.method, &path) else {
        panic!("{path} is no route")
    };
    assert_eq!(found.rpc, route.rpc, "{path}");
    let parts = Parts { variables: &variables, query: &query, body: body.as_bytes(), idempotency_key: None };
    let read = request::encoded(found, parts).unwrap_or_else(|error| panic!("{path}?{query} {body}: {error}"));
    let read = DynamicMessage::decode(message.descriptor(), read.as_slice()).expect("a message");
    // Fields without presence are the same whether they have their default or nothing.
    assert!(read.encode_to_vec() == message.encode_to_vec(), "{path}?{query} {body}: {read} is not {message}");
}

proptest! {
    #[test]
    fn every_request_survives_its_way_through_http(seed: u64) {
        for route in TABLE.routes() {
            round_trip(route, seed);
        }
    }
}

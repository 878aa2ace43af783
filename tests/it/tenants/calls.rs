//! Calls of every method by reflection, over gRPC and under each of its HTTP routes.

use super::FRAMES_MAX;
use super::world::{Side, World};
use crate::support::soon;
use bytes::{Buf as _, Bytes};
use futures::StreamExt as _;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use longhand::pb;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::Value;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::ServiceExt as _;

/// What came back, as text.
#[derive(Debug, Default, Clone)]
pub(super) struct Answer {
    /// The messages, as JSON.
    pub(super) messages: Vec<Value>,
    /// The failure; none for a success.
    failure: Option<String>,
}

impl Answer {
    fn text(&self) -> String {
        let messages: Vec<String> = self.messages.iter().map(Value::to_string).collect();
        format!("{}\n{}", messages.join("\n"), self.failure.as_deref().unwrap_or_default())
    }
}

/// Answers that can be compared.
pub(super) trait Said {
    /// The failures, without the id that was asked for.
    fn outcome(&self, id: &str) -> Vec<Option<String>>;
    /// Everything that was said.
    fn texts(&self) -> Vec<String>;
}

impl Said for Vec<Answer> {
    fn outcome(&self, id: &str) -> Vec<Option<String>> {
        self.iter().map(|answer| answer.failure.as_ref().map(|text| super::without(text, id))).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.iter().map(Answer::text).collect()
    }
}

/// Every method of the protocol.
pub(super) fn methods() -> Vec<MethodDescriptor> {
    let pool = pb::DESCRIPTORS.clone();
    let ours = pool.services().filter(|service| service.package_name() == "longhand.v1");
    ours.flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

fn failure(status: &Status) -> Option<String> {
    let details = status.get_error_details();
    (status.code() != Code::Ok).then(|| format!("{:?} {} {details:?}", status.code(), status.message()))
}

/// True once a stream that does not end by itself is complete.
fn is_complete(method: &MethodDescriptor, message: &Value) -> bool {
    // Nothing changes a list while it is followed here.
    let is_list = method.name() == "WatchSessions" && message.get("snapshotEnd").is_some();
    is_list || message.get("progress").is_some()
}

impl World {
    /// Calls a method over gRPC. A stream is read until it is idle.
    pub(super) async fn call(&self, side: &Side, method: &MethodDescriptor, request: &DynamicMessage) -> Answer {
        let message = request.encode_to_vec();
        let length = u32::try_from(message.len()).expect("a length").to_be_bytes();
        let framed = [&[0], &length[..], &message].concat();
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let request = Request::post(&path).header("content-type", "application/grpc").header("te", "trailers");
        let request = request.header("authorization", format!("Bearer {}", side.secret));
        let mut request = request.body(tonic::body::Body::new(Full::new(framed.into()))).expect("a request");
        request.extensions_mut().insert(Self::peer());
        let Ok(response) = soon(&path, self.grpc.clone().oneshot(request)).await;
        let (head, mut body) = response.into_parts();
        let mut answer = Answer::default();
        if let Some(status) = Status::from_header_map(&head.headers) {
            answer.failure = failure(&status);
            return answer;
        }
        let mut bytes = Vec::new();
        while let Some(frame) = soon(&path, body.frame()).await {
            match frame.expect("a frame").into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => {
                    let trailers: HeaderMap = frame.into_trailers().unwrap_or_default();
                    answer.failure = Status::from_header_map(&trailers).as_ref().and_then(failure);
                    return answer;
                }
            }
            while let Some(message) = take(&mut bytes) {
                let message = DynamicMessage::decode(method.output(), message).expect("a message");
                answer.messages.push(serde_json::to_value(&message).expect("JSON"));
            }
            if answer.messages.last().is_some_and(|message| is_complete(method, message))
                || answer.messages.len() > FRAMES_MAX
            {
                break;
            }
        }
        answer
    }

    /// Calls a method under each of its HTTP routes that can carry the request.
    pub(super) async fn http(&self, side: &Side, method: &MethodDescriptor, request: &DynamicMessage) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (verb, template, has_body) in rules(method) {
            let Value::Object(mut fields) = serde_json::to_value(request).expect("JSON") else { panic!("no object") };
            let Some(mut uri) = filled(&template, &mut fields) else { continue };
            let mut body = String::new();
            if has_body {
                body = Value::Object(fields).to_string();
            } else {
                let Some(query) = query(&fields) else { continue };
                uri = format!("{uri}?{query}");
            }
            answers.push(self.send(side, verb, &uri, body, "application/json").await);
        }
        answers
    }

    /// Sends a request over HTTP. A stream is read until it is idle.
    pub(super) async fn send(&self, side: &Side, verb: Method, uri: &str, body: String, accept: &str) -> Answer {
        let request = Request::builder().method(verb).uri(uri).header("accept", accept);
        let request = request.header("authorization", format!("Bearer {}", side.secret));
        let request = request.header("content-type", "application/json");
        let mut request = request.body(axum::body::Body::from(body)).expect("a request");
        request.extensions_mut().insert(Self::peer());
        let Ok(response) = soon(uri, self.http.clone().oneshot(request)).await;
        let (head, body) = response.into_parts();
        let mut pieces = body.into_data_stream();
        let mut text = String::new();
        while let Some(piece) = soon(uri, pieces.next()).await {
            text.push_str(&String::from_utf8_lossy(&piece.expect("bytes")));
            // A view that is followed is one event, which ends with the view.
            let ends = ["\"progress\":", "event: heartbeat", "\"upToDate\":true", "],\"end\":"];
            let is_list = uri.starts_with("/v1/sessions:watch");
            let ends_list = text.contains("\"snapshotEnd\":") || text.contains("event: snapshot_end");
            if is_list && ends_list || ends.iter().any(|end| text.contains(end)) {
                break;
            }
        }
        if head.status.is_client_error() || head.status.is_server_error() {
            return Answer { messages: Vec::new(), failure: Some(format!("{} {text}", head.status)) };
        }
        Answer { messages: vec![Value::String(format!("{:?}\n{text}", head.headers))], failure: None }
    }
}

/// Takes the first whole message of what came.
fn take(bytes: &mut Vec<u8>) -> Option<Bytes> {
    let (mut head, _) = bytes.split_first_chunk::<5>().map(|(head, rest)| (&head[1..], rest))?;
    let length = usize::try_from(head.get_u32()).expect("a length");
    (bytes.len() >= 5 + length).then(|| Bytes::from(bytes.drain(..5 + length).skip(5).collect::<Vec<u8>>()))
}

/// The HTTP rules of a method: verb, template, and whether there is a body. One that takes a stream has none.
fn rules(method: &MethodDescriptor) -> Vec<(Method, String, bool)> {
    if method.is_client_streaming() {
        return Vec::new();
    }
    let pool = method.parent_pool();
    let extension = pool.get_extension_by_name("google.api.http").expect("it is declared");
    let options = method.options();
    let rule = options.get_extension(&extension);
    let rule = rule.as_message().expect("a rule");
    let more = rule.get_field_by_name("additional_bindings").map(|more| more.into_owned());
    let more = more.and_then(|more| more.as_list().map(<[_]>::to_vec)).unwrap_or_default();
    let all = std::iter::once(rule.clone()).chain(more.iter().filter_map(|rule| rule.as_message().cloned()));
    let read = |rule: DynamicMessage| {
        let text = |name: &str| {
            let value = rule.get_field_by_name(name)?;
            value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let verbs = ["get", "put", "post", "delete", "patch"];
        let (verb, template) = verbs.iter().find_map(|verb| Some((verb, text(verb)?))).expect("a verb");
        let verb = Method::from_bytes(verb.to_uppercase().as_bytes()).expect("a verb");
        (verb, template, text("body").is_some())
    };
    all.map(read).collect()
}

/// The path of a template, with the fields that it takes; none if one is empty.
fn filled(template: &str, fields: &mut serde_json::Map<String, Value>) -> Option<String> {
    let mut path = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (variable, after) = behind.split_once('}')?;
        let name = variable.split('=').next().unwrap_or_default();
        let value = fields.remove(&camel(name))?;
        let value = value.as_str().filter(|value| !value.is_empty())?;
        path = format!("{path}{before}{}", escaped(value));
        rest = after;
    }
    Some(path + rest)
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

fn escaped(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// Fields as query parameters; none if one of them is a message.
fn query(fields: &serde_json::Map<String, Value>) -> Option<String> {
    let mut pairs = Vec::new();
    for (name, value) in fields {
        let values = match value {
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        for value in values {
            let text = match value {
                Value::String(text) => text,
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            pairs.push(format!("{name}={}", escaped(&text)));
        }
    }
    Some(pairs.join("&"))
}

//! Requests of every method, through the real services with what surrounds each call.

use super::instance::{Copy, Template};
use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use longhand::grpc;
use longhand::pb;
use prost::Message as _;
use prost_reflect::{Cardinality, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};
use std::io::Write as _;
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Number of calls after which the store is made anew: it grows, and requests archive its sessions.
const CALLS_MAX: usize = 3_000;

/// Milliseconds without a frame after which a stream has been read enough.
const IDLE_MS: u64 = 3;

/// Maximum number of frames read of a stream.
const FRAMES_MAX: usize = 64;

/// Maximum time of a method that waits for nothing.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Methods that may wait: for events, for a compaction, for a task, for the search index.
const WAITING: [&str; 6] =
    ["SubscribeEvents", "WatchSessions", "WatchRun", "GetView", "LeaseSummaryTask", "SearchHistory"];

/// Elements of a list of numbers in a seed, as they are sent, and in a compressed one.
const ELEMENTS: [usize; 2] = [10_000, 1_000_000];

/// The services. The head is a method's path, followed by ` raw` if the body is already framed, or by ` gzip` if it is
/// also compressed.
pub(super) struct Rpc {
    template: Template,
    copy: Option<Copy>,
    calls: usize,
}

impl Rpc {
    pub(super) fn open() -> Result<Self> {
        Ok(Self { template: Template::new()?, copy: None, calls: 0 })
    }

    /// The current copy of the store; a new one after many calls.
    fn copy(&mut self) -> Result<&Copy, String> {
        if self.calls >= CALLS_MAX {
            self.check()?;
            self.copy = None;
        }
        if self.copy.is_none() {
            self.copy = Some(self.template.copy().map_err(|error| format!("no fresh store: {error:#}"))?);
            self.calls = 0;
        }
        self.calls += 1;
        self.copy.as_ref().ok_or_else(|| "there is no instance".to_owned())
    }

    /// Checks that the hash chains are intact, whatever was sent.
    fn check(&self) -> Result<(), String> {
        let Some(copy) = &self.copy else { return Ok(()) };
        match copy.findings()?.first() {
            Some(finding) => Err(format!("the store is damaged: {finding}")),
            None => Ok(()),
        }
    }
}

/// A message in gRPC framing.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// A list of numbers in a field, each of one byte.
fn packed(field: &FieldDescriptor, elements: usize) -> Vec<u8> {
    let mut message = Vec::new();
    prost::encoding::encode_key(field.number(), prost::encoding::WireType::LengthDelimited, &mut message);
    prost::encoding::encode_varint(elements as u64, &mut message);
    message.resize(message.len() + elements, 1);
    message
}

/// The same in gRPC framing, compressed.
fn compressed(message: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(message)?;
    let mut frame = framed(&encoder.finish()?);
    frame[0] = 1;
    Ok(frame)
}

/// Calls a method; returns its status, or none for a stream that goes on.
async fn call(copy: &Copy, path: &str, encoding: &str, body: Vec<u8>) -> Result<Option<Status>, String> {
    let routes = copy.instance()?.routes.clone();
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", encoding)
        .body(Body::new(Full::new(Bytes::from(body))));
    // No method has such a path.
    let Ok(request) = request else { return Ok(Some(Status::unimplemented(""))) };
    let may_wait = WAITING.iter().any(|method| path.ends_with(method));
    let timeout = if may_wait { Duration::from_millis(IDLE_MS) } else { ANSWER_MAX };
    let response = match tokio::time::timeout(timeout, grpc::answer(&routes, request)).await {
        Ok(response) => response,
        Err(_) if may_wait => return Ok(None),
        Err(_) => return Err(format!("{path} does not answer")),
    };
    if let Some(status) = Status::from_header_map(response.headers()) {
        return Ok(Some(status));
    }
    let mut body = response.into_body();
    for _ in 0..FRAMES_MAX {
        let frame = match tokio::time::timeout(timeout, body.frame()).await {
            Ok(frame) => frame,
            Err(_) if may_wait => return Ok(None),
            Err(_) => return Err(format!("{path} does not end")),
        };
        match frame {
            Some(Ok(frame)) => {
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    return Ok(Some(status));
                }
            }
            Some(Err(error)) => return Err(format!("{path} breaks off: {error}")),
            None => return Err(format!("{path} ends without a status")),
        }
    }
    Ok(None)
}

/// The fault of a refusal; none if there is none.
fn wrong(status: &Status) -> Option<String> {
    if matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss) {
        return Some(format!("{:?}: {}", status.code(), status.message()));
    }
    let details = status.get_error_details();
    match details.error_info() {
        Some(info) if !info.reason.is_empty() && info.domain == "longhand" => None,
        _ => Some(format!("{:?} without a reason: {}", status.code(), status.message())),
    }
}

impl Decoder for Rpc {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let known = self.known()?;
        let pool = pb::DESCRIPTORS.clone();
        let mut seeds = Vec::new();
        for service in pool.services().filter(|service| service.package_name().starts_with("longhand")) {
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                let is_number = |field: &FieldDescriptor| {
                    !matches!(field.kind(), Kind::String | Kind::Bytes | Kind::Message(_)) && field.is_list()
                };
                for field in method.input().fields().filter(is_number) {
                    seeds.push(Input::new(path.clone(), packed(&field, ELEMENTS[0])));
                    seeds.push(Input::new(format!("{path} gzip"), compressed(&packed(&field, ELEMENTS[1]))?));
                }
                for variant in 0..6 {
                    let message = filled(&method.input(), variant, 0, &known).encode_to_vec();
                    if variant == 0 {
                        seeds.push(Input::new(format!("{path} raw"), framed(&message)));
                    }
                    seeds.push(Input::new(path.clone(), message));
                }
            }
        }
        Ok(seeds)
    }

    fn shape(&self, head: &str) -> Shape {
        if head.contains(' ') { Shape::Bytes } else { Shape::Wire }
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let (path, encoding, body) = match input.head.split_once(' ') {
            Some((path, "gzip")) => (path.to_owned(), "gzip", input.body.clone()),
            Some((path, _)) => (path.to_owned(), "identity", input.body.clone()),
            None => (input.head.clone(), "identity", framed(&input.body)),
        };
        let copy = self.copy()?;
        match copy.block_on(call(copy, &path, encoding, body))? {
            None => Ok(Outcome::Taken),
            Some(status) if status.code() == Code::Ok => Ok(Outcome::Taken),
            Some(status) => match wrong(&status) {
                None => Ok(Outcome::Refused),
                Some(why) => Err(format!("{path}: {why}")),
            },
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.check()?;
        // The services still work.
        let copy = self.copy()?;
        let path = "/longhand.v1.AdminService/GetServerInfo";
        match copy.block_on(call(copy, path, "identity", framed(b"")))? {
            Some(status) if status.code() == Code::Ok => Ok(()),
            other => Err(format!("it serves no longer: {other:?}")),
        }
    }
}

/// Ids of the template that requests can contain.
struct Known {
    compaction: String,
    part: String,
    draft: String,
    cursor: String,
}

impl Rpc {
    fn known(&mut self) -> Result<Known> {
        let copy = self.copy().map_err(anyhow::Error::msg)?;
        let app = &copy.instance().map_err(anyhow::Error::msg)?.app;
        copy.block_on(async {
            let (compactions, _) = app.compactions().list("s1", 10, "").await?;
            let (message, drafts, _) = app.messages().get("s1", "o1").await?;
            let (events, _) = app.events().list(longhand::app::events::ListEvents::default()).await?;
            Ok(Known {
                compaction: compactions.last().context("a compaction")?.id.to_string(),
                part: message.parts.first().context("a part")?.id.to_string(),
                draft: drafts.first().context("a draft")?.id.to_string(),
                cursor: events.first().context("an event")?.cursor.to_string(),
            })
        })
    }
}

/// A request with values in its fields, in one of several variants.
fn filled(kind: &MessageDescriptor, variant: usize, depth: usize, known: &Known) -> DynamicMessage {
    let mut message = DynamicMessage::new(kind.clone());
    for (index, field) in kind.fields().enumerate() {
        let one_of = field.containing_oneof().filter(|one_of| !one_of.is_synthetic());
        if let Some(one_of) = one_of {
            let chosen = (variant + depth) % one_of.fields().len();
            if one_of.fields().position(|other| other.number() == field.number()) != Some(chosen) {
                continue;
            }
        } else if field.supports_presence() && (variant + index) % 2 == 1 {
            continue;
        }
        if let Some(value) = value(&field, variant, depth, known) {
            let value = if field.cardinality() == Cardinality::Repeated { Value::List(vec![value]) } else { value };
            message.set_field(&field, value);
        }
    }
    message
}

fn value(field: &FieldDescriptor, variant: usize, depth: usize, known: &Known) -> Option<Value> {
    let name = field.name();
    Some(match field.kind() {
        Kind::String => Value::String(word(name, variant, known)?),
        Kind::Bytes => Value::Bytes(vec![7; if name.ends_with("hash") { 32 } else { 5 }].into()),
        Kind::Bool => Value::Bool(variant % 3 == 1),
        Kind::Double => Value::F64(0.5),
        Kind::Float => Value::F32(0.5),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(if name == "page_size" { 3 } else { 1 }),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number(name)?),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(1),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(1),
        Kind::Enum(kind) => {
            let values: Vec<i32> = kind.values().map(|value| value.number()).collect();
            Value::EnumNumber(values[(1 + variant) % values.len()])
        }
        Kind::Message(kind) if depth < 5 => match kind.full_name() {
            "google.protobuf.Timestamp" | "google.protobuf.Duration" => {
                let mut time = DynamicMessage::new(kind.clone());
                time.set_field_by_name("seconds", Value::I64(1));
                Value::Message(time)
            }
            _ => Value::Message(filled(&kind, variant, depth + 1, known)),
        },
        Kind::Message(_) => return None,
    })
}

fn number(name: &str) -> Option<i64> {
    match name {
        // With a value, most requests would be refused.
        "expected_revision" => None,
        "as_of_revision" | "known_revision" | "to_revision" => Some(12),
        "offset_bytes" => Some(0),
        _ => Some(2_000),
    }
}

fn word(name: &str, variant: usize, known: &Known) -> Option<String> {
    let text = match name {
        "session_id" | "session_ids" | "parent_session_id" => ["s1", "s2", "f1"][variant % 3],
        "message_id" if variant.is_multiple_of(2) => "o1",
        "message_id" | "tail_start_message_id" | "retained_message_ids" => "u5",
        "covered_start_message_id" => "u3",
        "until_message_id" => "b6",
        "id" => ["u2", known.part.as_str(), known.compaction.as_str()][variant % 3],
        "part_id" if variant.is_multiple_of(2) => known.draft.as_str(),
        "compaction_id" => known.compaction.as_str(),
        "after_cursor" => known.cursor.as_str(),
        // They belong to a list; the target `cursors` covers page tokens.
        "page_token" | "policy_json" | "part_id" => return None,
        "policy_override_json" => "{\"trigger\":{\"auto\":false}}",
        "metadata_json" | "details_json" | "input_json" => "{\"a\":[1,2]}",
        "preset" => "opencode@seed",
        "model" => "m",
        "message" => "prompt is too long: 9 tokens > 8 maximum",
        "mime_type" => "image/png",
        "client_id" | "request_id" => return Some(format!("{name}-{variant}")),
        _ => "words",
    };
    Some(text.to_owned())
}

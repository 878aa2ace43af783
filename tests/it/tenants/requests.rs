//! Requests by reflection: the fields that take an id, and what the other fields have.

use super::world::{Kind, Side};
use prost_reflect::{Cardinality, DynamicMessage, FieldDescriptor, Kind as Type, MessageDescriptor, Value};
use std::fmt;

/// A field that takes an id, by the fields that lead to it.
#[derive(Debug, Clone)]
pub(super) struct Slot(Vec<FieldDescriptor>);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(FieldDescriptor::name).collect();
        f.write_str(&names.join("."))
    }
}

/// True for a field with an id of something in the store: a request's own id names nothing.
fn takes_id(field: &FieldDescriptor) -> bool {
    let name = field.name().trim_end_matches('s');
    matches!(field.kind(), Type::String) && name.ends_with("_id") && name != "request_id"
}

/// The kind of what a field names.
fn kind(field: &FieldDescriptor) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| field.name().contains(kind.word()))
}

impl Slot {
    /// Every slot of a request, at any depth.
    pub(super) fn all(message: &MessageDescriptor) -> Vec<Self> {
        let mut found = Vec::new();
        collect(message, &mut Vec::new(), &takes_id, &mut found);
        found
    }

    /// The fields of a request with this name, at any depth.
    pub(super) fn named(message: &MessageDescriptor, name: &str) -> Vec<Self> {
        let mut found = Vec::new();
        collect(message, &mut Vec::new(), &|field| field.name() == name, &mut found);
        found
    }

    /// True for an id that the client gives to what it makes.
    pub(super) fn is_given(&self) -> bool {
        self.0.last().is_some_and(|field| matches!(field.name(), "client_id" | "call_id"))
    }

    /// The request with this id in the slot.
    pub(super) fn with(&self, base: &DynamicMessage, id: &str) -> DynamicMessage {
        let mut request = base.clone();
        put(&mut request, &self.0, id);
        request
    }
}

fn collect(
    message: &MessageDescriptor,
    path: &mut Vec<FieldDescriptor>,
    is_wanted: &dyn Fn(&FieldDescriptor) -> bool,
    found: &mut Vec<Slot>,
) {
    for field in message.fields() {
        let is_inner = path.iter().any(|before| before.kind() == field.kind() && field.kind().as_message().is_some());
        path.push(field.clone());
        if is_wanted(&field) {
            found.push(Slot(path.clone()));
        }
        if let (Some(inner), false) = (field.kind().as_message(), is_inner) {
            collect(inner, path, is_wanted, found);
        }
        path.pop();
    }
}

fn put(message: &mut DynamicMessage, path: &[FieldDescriptor], id: &str) {
    let Some((field, rest)) = path.split_first() else { return };
    let one = match field.kind() {
        Type::Message(inner) => {
            let mut value = match message.get_field(field).as_ref() {
                Value::Message(there) if message.has_field(field) => there.clone(),
                _ => filled(&inner),
            };
            put(&mut value, rest, id);
            Value::Message(value)
        }
        _ => Value::String(id.to_owned()),
    };
    let value = if field.cardinality() == Cardinality::Repeated { Value::List(vec![one]) } else { one };
    message.set_field(field, value);
}

/// A part of a request on the way to a slot: its enums have their first meaning.
fn filled(message: &MessageDescriptor) -> DynamicMessage {
    let mut made = DynamicMessage::new(message.clone());
    for field in message.fields().filter(|field| !field.is_list() && field.containing_oneof().is_none()) {
        if matches!(field.kind(), Type::Enum(_)) {
            made.set_field(&field, Value::EnumNumber(1));
        }
    }
    made
}

/// Makes requests of a side.
pub(super) struct Filler<'a> {
    side: &'a Side,
    state: u64,
}

impl<'a> Filler<'a> {
    pub(super) fn new(side: &'a Side, seed: u64) -> Self {
        Self { side, state: seed }
    }

    fn chance(&mut self) -> bool {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 63 == 1
    }

    /// A request whose fields besides the slot are the side's own, or are not given.
    pub(super) fn request(&mut self, message: &MessageDescriptor, slot: &Slot) -> DynamicMessage {
        let mut request = filled(message);
        for field in message.fields().filter(|field| !field.is_list() && field.containing_oneof().is_none()) {
            if slot.0.first().is_some_and(|first| first.name() == field.name()) {
                continue;
            }
            let required = !field.supports_presence();
            match field.kind() {
                Type::String if takes_id(&field) && (required || self.chance()) => {
                    let own = kind(&field).and_then(|kind| self.side.own(kind));
                    request.set_field(&field, Value::String(own.unwrap_or_default()));
                }
                Type::String if field.name() == "lease_token" => {
                    request.set_field(&field, Value::String("0".repeat(32)));
                }
                Type::String if matches!(field.name(), "text" | "summarizer" | "principal" | "delta" | "query") => {
                    request.set_field(&field, Value::String("words".to_owned()));
                }
                Type::Bool => request.set_field(&field, Value::Bool(self.chance())),
                _ => {}
            }
            if let Some(seconds) = duration(&field) {
                request.set_field(&field, seconds);
            }
        }
        request
    }
}

/// A request for everything: no ids, and whatever makes the answer larger.
pub(super) fn everything(message: &MessageDescriptor) -> DynamicMessage {
    let mut request = DynamicMessage::new(message.clone());
    for field in message.fields().filter(|field| !field.is_list()) {
        let is_first = field.containing_oneof().is_none_or(|oneof| {
            oneof.is_synthetic() || oneof.fields().find(|field| field.kind() == Type::Bool).as_ref() == Some(&field)
        });
        match field.kind() {
            Type::Bool if is_first => request.set_field(&field, Value::Bool(true)),
            // A word of every text.
            Type::String if field.name() == "query" => request.set_field(&field, Value::String("words".to_owned())),
            Type::Int32 if field.name() == "page_size" => request.set_field(&field, Value::I32(7)),
            _ => {}
        }
        if let Some(seconds) = duration(&field) {
            request.set_field(&field, seconds);
        }
    }
    request
}

/// The shortest wait or interval that a field takes.
fn duration(field: &FieldDescriptor) -> Option<Value> {
    let kind = field.kind();
    let message = kind.as_message().filter(|message| message.full_name() == "google.protobuf.Duration")?;
    let mut duration = DynamicMessage::new(message.clone());
    if !field.name().starts_with("wait") {
        duration.set_field_by_name("seconds", Value::I64(1));
    }
    Some(Value::Message(duration))
}

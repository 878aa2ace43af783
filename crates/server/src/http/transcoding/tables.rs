//! The messages of the protocol as tables: a descriptor's look-ups take and drop a handle of the whole pool each.

use super::super::protocol;
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Fields of a message at most: each has a bit.
const FIELDS_MAX: usize = 128;

/// The messages of all requests and answers.
static MESSAGES: LazyLock<Messages> = LazyLock::new(Messages::read);

/// Messages, and their places by their names.
#[derive(Default)]
pub(super) struct Messages {
    all: Vec<Message>,
    places: HashMap<String, usize>,
}

/// What is known of a message.
#[derive(Default)]
pub(super) struct Message {
    /// Its fields, in the order of their numbers.
    pub(super) fields: Vec<Field>,
    /// Places of the fields by their names in JSON and in the protocol.
    names: HashMap<String, usize>,
}

/// What is known of a field.
pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in JSON with quotes and colon.
    pub(super) key: String,
    pub(super) content: Content,
    pub(super) is_list: bool,
    /// True if it can be there with its default.
    pub(super) has_presence: bool,
    /// The bit of the field.
    pub(super) bit: u128,
    /// The bits of the fields that it cannot be there with, its own among them.
    pub(super) excluded: u128,
}

/// What a field has in it.
pub(super) enum Content {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    Enum(Values),
    Timestamp(MessageDescriptor),
    Duration(MessageDescriptor),
    /// The message at this place.
    Message(usize),
    /// What the protocol does not have, and the tables neither.
    Other,
}

/// The values of an enum.
pub(super) struct Values {
    names: Vec<(i32, String)>,
    numbers: Vec<(String, i32)>,
}

impl Values {
    fn of(declared: &EnumDescriptor) -> Self {
        let name = |number| declared.get_value(number).map(|value| (number, value.name().to_owned()));
        Self {
            names: declared.values().filter_map(|value| name(value.number())).collect(),
            numbers: declared.values().map(|value| (value.name().to_owned(), value.number())).collect(),
        }
    }

    pub(super) fn name(&self, number: i32) -> Option<&str> {
        self.names.iter().find(|(known, _)| *known == number).map(|(_, name)| name.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Option<i32> {
        self.numbers.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }
}

impl Messages {
    /// The message with a full name, if it is in a request or an answer.
    pub(super) fn find(name: &str) -> Option<&'static Message> {
        MESSAGES.places.get(name).map(|place| Self::at(*place))
    }

    /// The message at a place.
    pub(super) fn at(place: usize) -> &'static Message {
        &MESSAGES.all[place]
    }

    fn read() -> Self {
        let mut messages = Self::default();
        for method in protocol::DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
            messages.add(&method.input());
            messages.add(&method.output());
        }
        messages
    }

    fn add(&mut self, descriptor: &MessageDescriptor) -> usize {
        if let Some(place) = self.places.get(descriptor.full_name()) {
            return *place;
        }
        let place = self.all.len();
        self.all.push(Message::default());
        self.places.insert(descriptor.full_name().to_owned(), place);
        let mut descriptors: Vec<FieldDescriptor> = descriptor.fields().collect();
        descriptors.sort_by_key(FieldDescriptor::number);
        assert!(descriptors.len() <= FIELDS_MAX, "{} has more fields than bits", descriptor.full_name());
        let mut message = Message::default();
        for (at, of) in descriptors.iter().enumerate() {
            let mut excluded = 1 << at;
            for (other, _) in descriptors.iter().enumerate().filter(|(_, other)| {
                of.containing_oneof().is_some_and(|choice| other.containing_oneof().is_some_and(|own| own == choice))
            }) {
                excluded |= 1 << other;
            }
            message.fields.push(Field {
                number: of.number(),
                key: format!("{:?}:", of.json_name()),
                content: self.content(of),
                is_list: of.is_list(),
                has_presence: of.supports_presence(),
                bit: 1 << at,
                excluded,
            });
        }
        // A field's name in JSON precedes another one's name in the protocol.
        for (at, of) in descriptors.iter().enumerate() {
            message.names.insert(of.name().to_owned(), at);
        }
        for (at, of) in descriptors.iter().enumerate() {
            message.names.insert(of.json_name().to_owned(), at);
        }
        self.all[place] = message;
        place
    }

    fn content(&mut self, field: &FieldDescriptor) -> Content {
        match field.kind() {
            Kind::String => Content::Text,
            Kind::Bytes => Content::Bytes,
            Kind::Bool => Content::Bool,
            Kind::Int32 => Content::Int32,
            Kind::Int64 => Content::Int64,
            Kind::Double => Content::Double,
            Kind::Enum(declared) if !is_of_library(declared.full_name()) => Content::Enum(Values::of(&declared)),
            Kind::Message(inner) if inner.full_name() == "google.protobuf.Timestamp" => Content::Timestamp(inner),
            Kind::Message(inner) if inner.full_name() == "google.protobuf.Duration" => Content::Duration(inner),
            Kind::Message(inner) if !field.is_map() && !is_of_library(inner.full_name()) => {
                Content::Message(self.add(&inner))
            }
            _ => Content::Other,
        }
    }
}

/// True for types that have a form of their own in JSON.
fn is_of_library(name: &str) -> bool {
    name.starts_with("google.protobuf.")
}

impl Message {
    /// The field with a name in JSON or in the protocol.
    pub(super) fn named(&self, name: &str) -> Option<&Field> {
        self.names.get(name).map(|place| &self.fields[*place])
    }

    /// The place of the field with a number.
    pub(super) fn numbered(&self, number: u32) -> Option<usize> {
        // Most fields are numbered without gaps.
        let likely = (number as usize).wrapping_sub(1);
        match self.fields.get(likely) {
            Some(field) if field.number == number => Some(likely),
            _ => self.fields.binary_search_by_key(&number, |field| field.number).ok(),
        }
    }
}

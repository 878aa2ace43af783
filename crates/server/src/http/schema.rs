//! JSON schemas of protocol messages, with the protocol's comments as descriptions.

use super::protocol;
use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Schemas by the names of their messages and enums, each made when it is first referred to.
pub(super) struct Schemas {
    comments: Comments,
    made: BTreeMap<String, Value>,
}

/// The comments of a descriptor by file and path.
struct Comments(BTreeMap<(String, Vec<i32>), String>);

impl Comments {
    fn from_pool(pool: &DescriptorPool) -> Self {
        let mut comments = BTreeMap::new();
        for file in pool.files() {
            let name = file.name().to_owned();
            let Some(source) = &file.file_descriptor_proto().source_code_info else { continue };
            for location in &source.location {
                let text = paragraph(location.leading_comments());
                if !text.is_empty() {
                    comments.insert((name.clone(), location.path.clone()), text);
                }
            }
        }
        Self(comments)
    }

    fn comment_at(&self, file: &FileDescriptor, path: &[i32]) -> &str {
        self.0.get(&(file.name().to_owned(), path.to_vec())).map_or("", String::as_str)
    }
}

/// The text of a comment without the breaks of its lines; empty lines still separate paragraphs.
fn paragraph(comment: &str) -> String {
    let paragraphs = comment.trim().split("\n\n");
    let joined = paragraphs.map(|text| text.lines().map(str::trim).collect::<Vec<_>>().join(" "));
    joined.collect::<Vec<_>>().join("\n\n")
}

impl Schemas {
    /// No schemas, with the comments of all files of a pool.
    pub(super) fn new(pool: &DescriptorPool) -> Self {
        Self { comments: Comments::from_pool(pool), made: BTreeMap::new() }
    }

    /// The comment at a path of a file.
    pub(super) fn comment(&self, file: &FileDescriptor, path: &[i32]) -> &str {
        self.comments.comment_at(file, path)
    }

    /// The schemas that were referred to.
    pub(super) fn into_components(self) -> Map<String, Value> {
        self.made.into_iter().collect()
    }

    /// The schema of a message without some of its fields, written in place. No other fields may be there.
    pub(super) fn object(&mut self, message: &MessageDescriptor, without: &BTreeSet<&str>) -> Value {
        let mut properties = Map::new();
        for field in message.fields().filter(|field| !without.contains(field.name())) {
            properties.insert(field.json_name().to_owned(), self.described_field(&field));
        }
        let oneofs = message.oneofs().filter(|oneof| !oneof.is_synthetic()).flat_map(|oneof| {
            let names: Vec<String> = oneof.fields().map(|field| field.json_name().to_owned()).collect();
            let pairs =
                names.iter().enumerate().flat_map(|(at, left)| names[..at].iter().map(move |right| [left, right]));
            pairs.map(|pair| json!({ "required": pair })).collect::<Vec<_>>()
        });
        let oneofs: Vec<Value> = oneofs.collect();
        let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !oneofs.is_empty() {
            schema["not"] = json!({ "anyOf": oneofs });
        }
        schema
    }

    /// The schema of a field with its comment.
    pub(super) fn described_field(&mut self, field: &FieldDescriptor) -> Value {
        let mut schema = self.field(field);
        let comment = self.comments.comment_at(&field.parent_file(), field.path());
        if !comment.is_empty() {
            schema["description"] = comment.into();
        }
        schema
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_list() {
            return json!({ "type": "array", "items": self.kind(&field.kind()) });
        }
        if field.is_map() {
            let Kind::Message(entry) = field.kind() else { return json!({ "type": "object" }) };
            return json!({ "type": "object", "additionalProperties": self.kind(&entry.map_entry_value_field().kind()) });
        }
        self.kind(&field.kind())
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Double | Kind::Float => json!({ "type": "number" }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                json!({ "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX })
            }
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => json!({
                "anyOf": [
                    { "type": "string", "pattern": "^-?[0-9]{1,19}$" },
                    { "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX },
                ],
            }),
            Kind::Uint64 | Kind::Fixed64 => json!({
                "anyOf": [
                    { "type": "string", "pattern": "^[0-9]{1,20}$" },
                    { "type": "integer", "minimum": 0, "maximum": u64::MAX },
                ],
            }),
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => {
                json!({ "type": "string", "contentEncoding": "base64", "pattern": "^[A-Za-z0-9+/_-]*={0,2}$" })
            }
            Kind::Enum(declared) => self.enumeration(declared),
            Kind::Message(message) => self.message(message),
        }
    }

    /// The schema of a message of ours by its name.
    pub(super) fn reference(&mut self, name: &str) -> Value {
        match protocol::DESCRIPTORS.get_message_by_name(&format!("longhand.v1.{name}")) {
            Some(message) => self.message(&message),
            None => json!({}),
        }
    }

    /// The schema of a message: a reference to a component, or the string that a message of Google's is in JSON.
    pub(super) fn message(&mut self, message: &MessageDescriptor) -> Value {
        match message.full_name() {
            "google.protobuf.Timestamp" => return json!({ "type": "string", "format": "date-time" }),
            "google.protobuf.Duration" => {
                return json!({ "type": "string", "pattern": "^-?[0-9]{1,12}(\\.[0-9]{1,9})?s$" });
            }
            _ => {}
        }
        let name = message.name().to_owned();
        if !self.made.contains_key(&name) {
            // In its place before its fields are read, for a message that has itself in it.
            self.made.insert(name.clone(), Value::Null);
            let mut schema = self.object(message, &BTreeSet::new());
            let comment = self.comments.comment_at(&message.parent_file(), message.path());
            schema["description"] = comment.into();
            self.made.insert(name.clone(), schema);
        }
        reference(&name)
    }

    fn enumeration(&mut self, declared: &EnumDescriptor) -> Value {
        let name = declared.name().to_owned();
        if !self.made.contains_key(&name) {
            let names: Vec<String> = declared.values().map(|value| value.name().to_owned()).collect();
            let values = declared.values().map(|value| {
                let comment = self.comments.comment_at(&declared.parent_file(), value.path());
                format!("- `{}`: {comment}", value.name())
            });
            let comment = self.comments.comment_at(&declared.parent_file(), declared.path());
            let description = format!("{comment}\n\n{}", values.collect::<Vec<_>>().join("\n"));
            self.made.insert(name.clone(), json!({ "type": "string", "enum": names, "description": description }));
        }
        reference(&name)
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

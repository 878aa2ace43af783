//! The request message of a call: what its path, its query and its body say.

use super::routes::{BodyRule, Route};
use super::{json, transcoding, values};
use crate::app::{Error, Result};
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value};
use serde_json::{Map, Value as Json};

/// The field that makes a request idempotent.
const REQUEST_ID: &str = "request_id";

/// Messages that JSON writes as one string, so that they can be a query parameter.
const STRINGS: [&str; 2] = ["google.protobuf.Timestamp", "google.protobuf.Duration"];

/// The parts of an HTTP request that say what the request message is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    /// The values of the path's variables, by field.
    pub(super) variables: &'a [(&'a str, String)],
    /// The query, without its question mark.
    pub(super) query: &'a str,
    /// The body; empty for none.
    pub(super) body: &'a [u8],
    /// The value of the header `Idempotency-Key`.
    pub(super) idempotency_key: Option<&'a str>,
}

/// The encoded request message of a route.
///
/// # Errors
///
/// `INVALID_FIELD` for a field that the request does not have, cannot have there, or that has another type, and for one
/// that is given twice with different values; `REQUEST_MALFORMED` for a body that is no JSON object, or not expected;
/// `REQUEST_TOO_LARGE` for a body with more values than any may have.
pub(super) fn encoded(route: &Route, parts: Parts<'_>) -> Result<Vec<u8>> {
    check(route, parts)?;
    match transcoded(route, parts) {
        Some(encoded) => Ok(encoded),
        None => Ok(message(route, parts)?.encode_to_vec()),
    }
}

/// Refuses what no request of the route has, before anything is made of it.
fn check(route: &Route, parts: Parts<'_>) -> Result<()> {
    match &route.body {
        BodyRule::Whole => {
            if let Some((name, _)) = form_urlencoded::parse(parts.query.as_bytes()).next() {
                return Err(Error::field(name, "is a query parameter; the fields of this call are in its body"));
            }
        }
        BodyRule::Empty if !parts.body.is_empty() => {
            return Err(Error::new(crate::app::Reason::RequestMalformed, "the call has no body"));
        }
        BodyRule::Empty | BodyRule::Field(_) => {}
    }
    if parts.body.is_empty() { Ok(()) } else { values::check(parts.body) }
}

/// The encoded request message, made without reflection; none if it takes it.
fn transcoded(route: &Route, parts: Parts<'_>) -> Option<Vec<u8>> {
    let input = route.rpc.input();
    let text = match &route.body {
        BodyRule::Whole if !parts.body.is_empty() => parts.body,
        BodyRule::Whole | BodyRule::Empty if parts.query.is_empty() => b"{}",
        _ => return None,
    };
    let mut fields = transcoding::encode(input.full_name(), text)?;
    for (name, value) in parts.variables {
        fields = fields.with(name, value)?;
    }
    if let Some(key) = parts.idempotency_key
        && input.get_field_by_name(REQUEST_ID).is_some()
    {
        fields = fields.with(REQUEST_ID, unquoted(key))?;
    }
    Some(fields.into_bytes())
}

/// The request message, by reflection.
fn message(route: &Route, parts: Parts<'_>) -> Result<DynamicMessage> {
    let input = route.rpc.input();
    let mut message = match &route.body {
        BodyRule::Whole => decode(&input, parts.body)?,
        BodyRule::Empty => json::from_fields(&input, query(route, parts.query)?)?,
        BodyRule::Field(field) => {
            let mut message = json::from_fields(&input, query(route, parts.query)?)?;
            if let (Kind::Message(inner), false) = (field.kind(), parts.body.is_empty()) {
                message.set_field(field, Value::Message(decode(&inner, parts.body)?));
            }
            message
        }
    };
    bind_all(&mut message, parts)?;
    Ok(message)
}

fn decode(descriptor: &MessageDescriptor, body: &[u8]) -> Result<DynamicMessage> {
    if body.is_empty() { Ok(DynamicMessage::new(descriptor.clone())) } else { json::decode(descriptor, body) }
}

/// Sets the fields that are neither in the query nor in the body.
fn bind_all(message: &mut DynamicMessage, parts: Parts<'_>) -> Result<()> {
    for (path, value) in parts.variables {
        bind(message, path, value)?;
    }
    if let Some(key) = parts.idempotency_key
        && message.descriptor().get_field_by_name(REQUEST_ID).is_some()
    {
        bind(message, REQUEST_ID, unquoted(key)).map_err(|_| Error::field(REQUEST_ID, "is not the Idempotency-Key"))?;
    }
    Ok(())
}

/// An idempotency key, whose header is a quoted string by its draft, and a plain one by custom.
fn unquoted(key: &str) -> &str {
    key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(key)
}

/// Sets a field that has no value yet, or this one.
fn bind(message: &mut DynamicMessage, path: &str, text: &str) -> Result<()> {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let unknown = || Error::field(path, "is no field of the request");
    let field = message.descriptor().get_field_by_name(name).ok_or_else(unknown)?;
    if let Some(rest) = rest {
        let inner = message.get_field_mut(&field).as_message_mut().ok_or_else(unknown)?;
        return bind(inner, rest, text);
    }
    let fields = Map::from_iter([(field.name().to_owned(), scalar(&field, text)?)]);
    let parsed = json::from_fields(&message.descriptor(), fields)?;
    let value = parsed.get_field(&field).into_owned();
    if message.has_field(&field) && *message.get_field(&field) != value {
        return Err(Error::field(path, "differs between the path and the body"));
    }
    message.set_field(&field, value);
    Ok(())
}

/// The fields of the query parameters, as JSON.
fn query(route: &Route, query: &str) -> Result<Map<String, Json>> {
    let input = route.rpc.input();
    let mut fields = Map::new();
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        let path = path_of(&input, &name)?;
        let full = path.iter().map(FieldDescriptor::name).collect::<Vec<_>>().join(".");
        if route.template.fields().any(|variable| variable == full) {
            return Err(Error::field(&name, "is given by the path"));
        }
        if let BodyRule::Field(body) = &route.body
            && path[0] == *body
        {
            return Err(Error::field(&name, "is given by the body"));
        }
        parameter(&input, &mut fields, &name, &text)?;
    }
    Ok(fields)
}

/// Adds the field of a query parameter to others, as JSON.
///
/// # Errors
///
/// `INVALID_FIELD` for a name that is no field, or one that is given twice.
pub(super) fn parameter(
    input: &MessageDescriptor,
    fields: &mut Map<String, Json>,
    name: &str,
    text: &str,
) -> Result<()> {
    let path = path_of(input, name)?;
    let (field, parents) = path.split_last().ok_or_else(|| Error::field(name, "is no field of the request"))?;
    let mut inner = fields;
    for parent in parents {
        let entry = inner.entry(parent.name()).or_insert_with(|| Json::Object(Map::new()));
        inner = entry.as_object_mut().ok_or_else(|| Error::field(name, "is no field of the request"))?;
    }
    let value = scalar(field, text)?;
    if field.is_list() {
        let list = inner.entry(field.name()).or_insert_with(|| Json::Array(Vec::new()));
        list.as_array_mut().ok_or_else(|| Error::field(name, "is not repeated"))?.push(value);
    } else if inner.insert(field.name().to_owned(), value).is_some() {
        return Err(Error::field(name, "is given twice"));
    }
    Ok(())
}

/// The fields that lead to a query parameter, named as the protocol or as JSON names them.
fn path_of(message: &MessageDescriptor, path: &str) -> Result<Vec<FieldDescriptor>> {
    let unknown = || Error::field(path, "is no field of the request that a query parameter can have");
    let mut message = message.clone();
    let mut fields = Vec::new();
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let field = message.get_field_by_name(name).or_else(|| message.get_field_by_json_name(name));
        let field = field.filter(|field| !field.is_map()).ok_or_else(unknown)?;
        fields.push(field.clone());
        match (field.kind(), names.peek()) {
            (Kind::Message(inner), None) if !STRINGS.contains(&inner.full_name()) => return Err(unknown()),
            (_, None) => {}
            (Kind::Message(inner), Some(_)) if !field.is_list() => message = inner,
            (_, Some(_)) => return Err(unknown()),
        }
    }
    Ok(fields)
}

/// The JSON value of one text for a field.
fn scalar(field: &FieldDescriptor, text: &str) -> Result<Json> {
    match field.kind() {
        Kind::Bool => match text {
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            _ => Err(Error::field(field.name(), "is neither true nor false")),
        },
        Kind::Enum(_) if let Ok(number) = text.parse::<i32>() => Ok(number.into()),
        _ => Ok(Json::String(text.to_owned())),
    }
}

/// True if a field can be a query parameter, or hold some.
pub(super) fn is_parameter(field: &FieldDescriptor) -> bool {
    match field.kind() {
        _ if field.is_map() => false,
        Kind::Message(inner) => STRINGS.contains(&inner.full_name()) || !field.is_list(),
        _ => true,
    }
}

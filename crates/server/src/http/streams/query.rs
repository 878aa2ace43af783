//! The query parameters of streams: those of the RPC that is followed, and a few of HTTP's own.

use crate::app::{Error, Result};
use crate::http::json;
use crate::http::protocol;
use crate::http::request;
use http::HeaderName;
use http::request::Parts;
use prost_reflect::prost::{Message, Name};
use serde_json::{Map, Value};

/// The header with which a browser resumes.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Whose events a stream has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// All that the caller may see.
    Everything,
    /// One session's, by any of its ids.
    Session(String),
}

/// Where a client of Durable Streams begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Offset {
    /// With the first event.
    Beginning,
    /// With the next event.
    Now,
    /// After the event with this cursor.
    After(String),
}

/// How a client of Durable Streams waits for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    /// For one answer.
    LongPoll,
    /// In one answer that goes on.
    Sse,
}

/// The parameters of a stream.
#[derive(Debug, Default)]
pub(super) struct Query {
    /// The fields of the RPC's request, as JSON.
    fields: Map<String, Value>,
    /// The cursor with which a client resumes: the header's, which a browser keeps up to date, else the parameter's.
    pub(super) after: Option<String>,
    pub(super) offset: Option<Offset>,
    pub(super) live: Option<Live>,
    /// Seconds to wait for an answer to a long poll.
    pub(super) timeout: Option<u64>,
    /// The client's last `Stream-Cursor`.
    pub(super) stream_cursor: Option<u64>,
}

impl Query {
    /// Reads the parameters of a request; all others must be fields of a message.
    ///
    /// # Errors
    ///
    /// `INVALID_FIELD` with the parameter's name.
    pub(super) fn from_head(head: &Parts, message: &str) -> Result<Self> {
        let descriptor = protocol::DESCRIPTORS.get_message_by_name(message);
        let descriptor = descriptor.ok_or_else(|| Error::internal(format_args!("the protocol has no {message}")))?;
        let mut query = Self::default();
        for (name, text) in form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()) {
            match name.as_ref() {
                "after" => query.after = Some(text.into_owned()),
                "offset" => {
                    query.offset = Some(match text.as_ref() {
                        "" => return Err(Error::field("offset", "is empty")),
                        "-1" => Offset::Beginning,
                        "now" => Offset::Now,
                        cursor => Offset::After(cursor.to_owned()),
                    });
                }
                "live" => {
                    query.live = Some(match text.as_ref() {
                        "long-poll" => Live::LongPoll,
                        "sse" => Live::Sse,
                        _ => return Err(Error::field("live", "is neither long-poll nor sse")),
                    });
                }
                "timeout" => query.timeout = Some(number("timeout", &text)?),
                "cursor" => query.stream_cursor = Some(number("cursor", &text)?),
                _ => request::parameter(&descriptor, &mut query.fields, &name, &text)?,
            }
        }
        if let Some(id) = head.headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
            let id = id.to_str().map_err(|_| Error::field("Last-Event-ID", "is no cursor"))?;
            query.after = Some(id.to_owned());
        }
        if query.live.is_some() && query.offset.is_none() {
            return Err(Error::field("offset", "is not given; a live read needs one"));
        }
        Ok(query)
    }

    /// True if the parameters are those of Durable Streams.
    pub(super) fn is_durable(&self) -> bool {
        self.offset.is_some() || self.live.is_some()
    }

    /// The fields of the request.
    ///
    /// # Errors
    ///
    /// `INVALID_FIELD` for values of another type.
    pub(super) fn request<M: Message + Name + Default>(&self) -> Result<M> {
        json::decode_fields(self.fields.clone())
    }
}

fn number(name: &str, text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::field(name, "is no number"))
}

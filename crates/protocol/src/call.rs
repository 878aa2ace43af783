//! The calls of the protocol by the types of their requests, each of which belongs to one call.

use super::generated::*;
use prost::{Message, Name};

/// A request, with what answers it.
pub trait Call: Message + Name + Clone + Default + 'static {
    /// The answer, or one of the answers of a stream.
    type Answer: Message + Name + Default + 'static;
    /// The path of the call.
    const PATH: &'static str;

    /// The id by which the daemon carries the change out once; none for a call that takes none.
    fn request_id(&mut self) -> Option<&mut String> {
        None
    }
}

/// A request with one answer.
pub trait Unary: Call {}

/// A request with a stream of answers.
pub trait ServerStreaming: Call {}

/// One of a stream of requests, which has one answer.
pub trait ClientStreaming: Call {}

/// A request of a list that comes in pages.
pub trait PagedRequest: Unary {
    /// Asks for the page with this token.
    fn set_page_token(&mut self, token: String);

    /// The token of the page after this one; empty after the last one.
    fn next_page_token(page: &Self::Answer) -> &str;
}

include!(concat!(env!("OUT_DIR"), "/calls.rs"));

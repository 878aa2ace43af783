//! The entity tag of a view: its hash, as the header of the view has it in JSON, its revision, since what is not shown
//! is in the answer too, and the form of the answer if it is not the usual one. A browser's cache asks with the tag of whatever it holds for an address, also when it now accepts another
//! form, and gives out what it holds when the tag is answered as held.

use super::answers::StreamForm;
use crate::pb;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use pb::get_view_response::Frame;
use prost_reflect::MethodDescriptor;
use prost_reflect::prost::Message as _;

/// The RPC whose answer has a hash.
const RPC: &str = "longhand.v1.ViewService.GetView";

/// True if answers of the RPC have an entity tag.
pub(super) fn has_tag(rpc: &MethodDescriptor) -> bool {
    rpc.full_name() == RPC
}

/// The entity tag of an answer in this form by its first message; none if the RPC serves no view.
pub(super) fn entity_tag(rpc: &MethodDescriptor, form: StreamForm, first: Option<&Bytes>) -> Option<HeaderValue> {
    if !has_tag(rpc) {
        return None;
    }
    match pb::GetViewResponse::decode(first?.clone()).ok()?.frame? {
        Frame::Header(header) => {
            let form = match form {
                StreamForm::Array => "",
                StreamForm::Lines => ";lines",
            };
            let hash = STANDARD.encode(header.view_hash);
            HeaderValue::from_str(&format!("\"{hash};r{}{form}\"", header.revision)).ok()
        }
        Frame::Messages(_) | Frame::End(_) => None,
    }
}

/// True if the client holds what the tag stands for.
pub(super) fn is_held(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let tag = tag.as_bytes();
    let held = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // No tag of ours has a comma in it.
    held.flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|held| held == "*" || held.strip_prefix("W/").unwrap_or(held).as_bytes() == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_view_is_recognized_in_every_form_of_the_header() {
        let tag = HeaderValue::from_static("\"AP+/=\"");
        for (held, expected) in [
            ("\"AP+/=\"", true),
            ("W/\"AP+/=\"", true),
            ("\"x\", \"AP+/=\"", true),
            ("*", true),
            ("\"x\"", false),
            ("AP+/=", false),
        ] {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(held))]);
            assert_eq!(is_held(&headers, &tag), expected, "{held}");
        }
        assert!(!is_held(&HeaderMap::new(), &tag));
    }
}

//! View tokens: identify the view that a caller was given, in a form that only this store can write. The store keeps no
//! state for them: a token is verified with the store's key alone.

use super::error::{Error, Reason, Result};
use crate::limits;
use crate::model::ids::SessionId;
use crate::model::message::GivenView;
use crate::model::usage::{ModelWindow, WindowSource};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// Version of the token format, the first byte of a token.
const FORM: u8 = 1;
/// Length of the keyed hash at the end of a token, in bytes.
const CHECK_BYTES: usize = 32;

const IS_SHORTENED: u8 = 1;
const HAS_INPUT: u8 = 2;
const HAS_OUTPUT: u8 = 4;
/// The source of the limits: none of both is the client.
const IS_OF_MODELS: u8 = 8;
const IS_OF_ERROR: u8 = 16;

/// The token of a view of a session.
pub(super) fn write(key: &[u8; 32], session: SessionId, view: &GivenView) -> String {
    let GivenView { revision, hash, window, shortened } = view;
    let flags = [
        (*shortened, IS_SHORTENED),
        (window.input.is_some(), HAS_INPUT),
        (window.output.is_some(), HAS_OUTPUT),
        (window.source == WindowSource::Models, IS_OF_MODELS),
        (window.source == WindowSource::ProviderError, IS_OF_ERROR),
    ];
    let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).sum();
    let mut bytes = vec![FORM, flags];
    bytes.extend_from_slice(session.0.as_bytes());
    bytes.extend_from_slice(hash);
    let counts = [window.context, window.input.unwrap_or(0), window.output.unwrap_or(0), window.overhead];
    for number in std::iter::once(*revision).chain(counts) {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(window.model.as_bytes());
    let check = blake3::keyed_hash(key, &bytes);
    bytes.extend_from_slice(check.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Parses a token, and refuses one that was not written with this key.
pub(super) fn read(key: &[u8; 32], text: &str) -> Result<(SessionId, GivenView)> {
    authentic_bytes(key, text).and_then(|bytes| parse(&bytes)).ok_or_else(unknown_token)
}

/// The refusal of a token that is none for the caller.
pub(super) fn unknown_token() -> Error {
    Error::new(Reason::ViewTokenInvalid, "the view token is not one that the caller was given by this store")
}

/// The bytes before the keyed hash; none if the hash is wrong. The comparison takes constant time.
fn authentic_bytes(key: &[u8; 32], text: &str) -> Option<Vec<u8>> {
    if text.len() > limits::VIEW_TOKEN_BYTES_MAX {
        return None;
    }
    let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let check = bytes.split_off(bytes.len().checked_sub(CHECK_BYTES)?);
    let check: [u8; CHECK_BYTES] = check.try_into().ok()?;
    (blake3::keyed_hash(key, &bytes) == blake3::Hash::from_bytes(check)).then_some(bytes)
}

fn parse(bytes: &[u8]) -> Option<(SessionId, GivenView)> {
    let (&[form, flags], rest) = bytes.split_first_chunk()?;
    let (session, rest) = rest.split_first_chunk::<16>()?;
    let (hash, mut rest) = rest.split_first_chunk::<32>()?;
    let mut numbers = [0; 5];
    for number in &mut numbers {
        let (bytes, behind) = rest.split_first_chunk()?;
        *number = i64::from_le_bytes(*bytes);
        rest = behind;
    }
    let [revision, context, input, output, overhead] = numbers;
    let model = String::from_utf8(rest.to_vec()).ok()?;
    let window = ModelWindow {
        model,
        context,
        input: (flags & HAS_INPUT != 0).then_some(input),
        output: (flags & HAS_OUTPUT != 0).then_some(output),
        overhead,
        source: match flags & (IS_OF_MODELS | IS_OF_ERROR) {
            IS_OF_MODELS => WindowSource::Models,
            IS_OF_ERROR => WindowSource::ProviderError,
            _ => WindowSource::Client,
        },
    };
    let view = GivenView { revision, hash: *hash, window, shortened: flags & IS_SHORTENED != 0 };
    (form == FORM).then_some((SessionId(Uuid::from_bytes(*session)), view))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> GivenView {
        let window = ModelWindow {
            model: "m".repeat(limits::NAME_BYTES_MAX),
            context: i64::MAX,
            input: Some(i64::MAX),
            output: Some(0),
            overhead: 7,
            source: WindowSource::ProviderError,
        };
        GivenView { revision: i64::MAX, hash: [9; 32], window, shortened: true }
    }

    #[test]
    fn a_token_contains_its_view_within_its_bound() {
        let session = SessionId(Uuid::from_bytes([3; 16]));
        let plain = GivenView { window: ModelWindow::default(), shortened: false, ..view() };
        for view in [view(), plain] {
            let token = write(&[1; 32], session, &view);
            assert!(token.len() <= limits::VIEW_TOKEN_BYTES_MAX, "{}", token.len());
            assert_eq!(read(&[1; 32], &token), Ok((session, view)));
        }
    }

    #[test]
    fn a_token_with_any_character_changed_or_of_another_key_is_refused() {
        let key = [1; 32];
        let token = write(&key, SessionId(Uuid::nil()), &view());
        for at in 0..token.len() {
            let other = if &token[at..=at] == "A" { "B" } else { "A" };
            let altered = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            assert_eq!(read(&key, &altered).expect_err("altered").reason, Reason::ViewTokenInvalid);
            assert!(read(&key, &token[..at]).is_err(), "cut off at {at}");
        }
        assert!(read(&[2; 32], &token).is_err());
        for garbage in ["", "A", "no token", &"A".repeat(limits::VIEW_TOKEN_BYTES_MAX + 1)] {
            assert_eq!(read(&key, garbage).expect_err("garbage").reason, Reason::ViewTokenInvalid, "{garbage:?}");
        }
    }
}

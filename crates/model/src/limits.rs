//! Bounds of messages, which writers and readers of messages share. `limits` has the others.

use std::borrow::Cow;

/// Maximum number of failures in a row that the breaker of a policy may count.
pub const BREAKER_FAILURES_MAX: u32 = 32;

/// Bytes of a client id, a request id or an actor.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes of a call id.
pub const CALL_ID_BYTES_MAX: usize = 256;
/// Bytes of a media part's file name.
pub const MEDIA_NAME_BYTES_MAX: usize = 1_024;
/// Maximum count of tokens that is accepted for one message, reply or request: sums of larger ones could overflow.
pub const TOKENS_MAX: i64 = 1 << 50;
/// Maximum cost of one reply or request that is accepted, in US dollars.
pub const COST_USD_MAX: f64 = 1e9;
/// Bytes of the free JSON of a message or a part.
pub const METADATA_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one message with all its parts.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Segments by which times of events are dated: one more for each leap of a clock. The oldest go first.
pub const CLOCK_SEGMENTS_MAX: usize = 256;
/// Messages and elements of lists that a request has at most, inside of each other: each takes memory, whatever its bytes.
pub const REQUEST_VALUES_MAX: usize = 266_240;

/// A name from elsewhere as one that is accepted: without the character U+0000, which no engine's text holds, and up to
/// `NAME_BYTES_MAX` bytes.
pub fn name_within(name: &str) -> Cow<'_, str> {
    let name = if name.contains('\0') { Cow::Owned(name.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(name) };
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    Cow::Owned(name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_shortened_or_cleaned() {
        for (name, within) in [
            ("gpt-5".to_owned(), "gpt-5".to_owned()),
            ("a\0b".to_owned(), "a\u{fffd}b".to_owned()),
            ("é".repeat(100), "é".repeat(64)),
            (format!("{}\0", "x".repeat(NAME_BYTES_MAX - 1)), "x".repeat(NAME_BYTES_MAX - 1)),
        ] {
            assert_eq!(name_within(&name), within);
        }
    }
}

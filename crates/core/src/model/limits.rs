//! Bounds of messages, which writers and readers of messages share. `limits` has the others.

/// Bytes of a client id, a request id or an actor.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes of a call id.
pub const CALL_ID_BYTES_MAX: usize = 256;
/// Bytes of a media part's file name.
pub const MEDIA_NAME_BYTES_MAX: usize = 1_024;
/// Maximum count of tokens that is accepted for one message, reply or request: sums of larger ones could overflow.
pub const TOKENS_MAX: i64 = 1 << 50;
/// Bytes of one message with all its parts.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

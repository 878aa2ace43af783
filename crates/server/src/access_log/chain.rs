//! The chain of lines: each commits to the one before it.

use crate::model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A call, as the log names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The proved principal; empty for the owner, and for a caller that proved nothing, which the outcome says.
    pub principal: String,
    /// The id of the access token; empty for the owner.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// The tenant, also of an operator that acts in it; empty for the default one.
    pub tenant: String,
    /// The address of the client; empty for one on the Unix socket.
    pub address: String,
    /// The called method.
    pub method: String,
    /// The sessions that the call named, as it named them; empty for a call about all that the caller sees.
    pub sessions: Vec<String>,
    /// `OK`, the reason of the refusal, or `BEGUN` for a call that is about to be carried out.
    pub outcome: String,
    /// The number of calls: more than one for refusals, which are counted.
    #[serde(skip_serializing_if = "is_one")]
    pub count: u64,
}

/// By reference, as serde calls it.
fn is_one(count: &u64) -> bool {
    *count == 1
}

/// Bytes of a hash.
pub(super) const HASH_BYTES: usize = 32;

/// What comes before the hash in a line.
const HASH_KEY: &str = ",\"hash\":\"";

/// The position behind a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) number: u64,
    pub(super) hash: [u8; HASH_BYTES],
}

/// The fields of a line that the chain needs.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) before: Option<String>,
    pub(super) hash: String,
}

#[derive(Serialize)]
struct Line<'a> {
    number: u64,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(flatten)]
    entry: &'a Entry,
}

impl Chain {
    /// The position before the first line.
    pub(super) fn new() -> Self {
        Self { number: 0, hash: [0; HASH_BYTES] }
    }

    /// The next line, with its end.
    pub(super) fn line(&mut self, entry: &Entry, now: Timestamp, begins_file: bool) -> String {
        let before = begins_file.then(|| hex(&self.hash));
        let time = jiff::Timestamp::from_microsecond(now.0).map(|time| time.to_string()).unwrap_or_default();
        let line = Line { number: self.number + 1, time, before, entry };
        // Strings and numbers always have a JSON text.
        let text = serde_json::to_string(&line).unwrap_or_default();
        self.advance(&text);
        format!("{}{HASH_KEY}{}\"}}\n", text.strip_suffix('}').unwrap_or(&text), hex(&self.hash))
    }

    fn advance(&mut self, text: &str) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.hash);
        hasher.update(text.as_bytes());
        *self = Self { number: self.number + 1, hash: *hasher.finalize().as_bytes() };
    }

    /// The position behind a line that follows this one; none if it does not follow, or was altered.
    pub(super) fn behind(&self, line: &str) -> Option<Self> {
        let fields: Fields = serde_json::from_str(line).ok()?;
        let (text, _) = line.rsplit_once(HASH_KEY)?;
        let mut next = self.clone();
        next.advance(&format!("{text}}}"));
        (next.number == fields.number && hex(&next.hash) == fields.hash).then_some(next)
    }

    /// The position before the first line of a file, as the line states it.
    pub(super) fn before(line: &str) -> Option<Self> {
        let fields: Fields = serde_json::from_str(line).ok()?;
        Some(Self { number: fields.number.checked_sub(1)?, hash: unhex(&fields.before?)? })
    }

    /// The position behind a line, as the line states it.
    pub(super) fn stated(line: &str) -> Option<Self> {
        let fields: Fields = serde_json::from_str(line).ok()?;
        Some(Self { number: fields.number, hash: unhex(&fields.hash)? })
    }
}

pub(super) fn hex(bytes: &[u8; HASH_BYTES]) -> String {
    blake3::Hash::from_bytes(*bytes).to_hex().to_string()
}

fn unhex(text: &str) -> Option<[u8; HASH_BYTES]> {
    blake3::Hash::from_hex(text).ok().map(|hash| *hash.as_bytes())
}

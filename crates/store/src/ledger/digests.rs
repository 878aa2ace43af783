//! Digests of what summaries cover, in the rows of their compactions.
//!
//! They follow from the originals: they are under no event's hash, in no view and in no archive, and one that is missing
//! is made again. Only the newest summary of a session needs one.

use super::codec;
use crate::engine::{self, Connection, Reader};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::ids::CompactionId;
use std::io::Read as _;

const KEEP: &str = "update job set digest = ?2 where id = ?1";
const DROP_OTHERS: &str = "update job set digest = null where session_id = ?1 and id <> ?2 and digest is not null";
const OF: &str = "select digest from job where public_id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[KEEP, DROP_OTHERS, OF];

/// The stored form of a digest.
///
/// # Errors
///
/// If there is no memory for it.
pub fn pack_digest(json: &str) -> Result<Vec<u8>> {
    let packed = zstd::bulk::compress(json.as_bytes(), zstd::DEFAULT_COMPRESSION_LEVEL);
    packed.map(codec::with_check).map_err(|error| Error::corrupt("job", error))
}

/// Keeps the digest of the newest summary of a session, and no other one of it. The summaries of a session that this one was
/// forked from keep theirs: that one goes on too.
pub(super) fn keep(conn: &Connection, (session, job): (i64, i64), digest: Option<Vec<u8>>) -> Result<()> {
    let Some(digest) = digest else { return Ok(()) };
    engine::query(KEEP).bind(job).bind(digest).run(conn)?;
    engine::query(DROP_OTHERS).bind(session).bind(job).run(conn)
}

/// The digest of what the summary of a compaction covers; none if none is kept, or it cannot be read.
pub(crate) fn read(reader: &mut Reader<'_>, compaction: CompactionId) -> Result<Option<String>> {
    let row = reader.one(engine::query(OF).bind(compaction.0.as_bytes().to_vec()))?;
    let packed: Option<Vec<u8>> = row.map(|row| row.get(0)).transpose()?.flatten();
    Ok(packed.and_then(|packed| {
        let plain = codec::without_check("job", &packed).ok()?;
        let mut json = String::new();
        let most = u64::try_from(limits::DECOMPRESS_BYTES_MAX).unwrap_or(u64::MAX);
        zstd::Decoder::new(plain).ok()?.take(most).read_to_string(&mut json).ok()?;
        Some(json)
    }))
}

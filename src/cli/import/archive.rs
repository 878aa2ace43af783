//! Archives of Longhand: sent whole, and checked by the daemon.

use crate::cli::Globals;
use crate::cli::failure::Usage;
use crate::cli::output::count;
use crate::limits;
use crate::pb;
use anyhow::Context;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The first bytes of an archive.
const BEGINNING: &[u8] = b"{\"longhand_archive\":";

/// Compression of what is sent: higher levels cost several times the time for a few percent.
const LEVEL: i32 = 3;

/// True for an archive of Longhand. A file that cannot be read is reported by whoever reads it.
pub(super) fn is_archive(path: &Path) -> bool {
    // To open a pipe would wait for its writer.
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut beginning = Vec::new();
    let read = File::open(path).map(|file| file.take(BEGINNING.len() as u64).read_to_end(&mut beginning));
    matches!(read, Ok(Ok(_))) && beginning == BEGINNING
}

pub(super) async fn run(globals: &Globals, path: &Path) -> anyhow::Result<()> {
    let compress = || -> io::Result<Vec<u8>> {
        let mut encoder = zstd::stream::read::Encoder::new(File::open(path)?, LEVEL)?;
        let mut data = Vec::new();
        encoder.read_to_end(&mut data)?;
        Ok(data)
    };
    let data = compress().with_context(|| format!("cannot read {}", path.display()))?;
    if data.len() > limits::REQUEST_BYTES_MAX {
        let (bytes, limit) = (data.len(), limits::REQUEST_BYTES_MAX);
        return Err(Usage(format!("{}: {bytes} bytes after compression, and {limit} at most", path.display())).into());
    }
    let client = globals.client().await?;
    let answer = client.call(pb::ImportSessionRequest { data }).await?;
    let session = answer.session.as_ref().map(|session| session.session_id.clone()).unwrap_or_default();
    let written = i64::try_from(answer.session_ids.len()).unwrap_or(i64::MAX);
    let line = match answer.existed {
        true => format!("{session}: was there"),
        false => format!("{session}: {} written and verified", count(written, "session")),
    };
    let mut output = globals.output();
    output.answer(&answer, &line)?;
    Ok(output.flush()?)
}

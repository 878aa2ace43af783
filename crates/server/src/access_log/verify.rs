//! Verification of a log.

use super::chain::{Chain, hex};
use super::files;
use std::io::{BufRead as _, BufReader, Result};
use std::path::{Path, PathBuf};

/// The first place at which a log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
}

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedLog {
    /// Lines that are as they were written.
    pub lines: u64,
    /// Number of the last of them; a log that ends earlier than it did is found by keeping number and hash elsewhere.
    pub last_number: u64,
    /// Its hash, in hexadecimal digits.
    pub last_hash: String,
    /// The first fault; none if there is none.
    pub fault: Option<Fault>,
}

/// Verifies the log in a folder, and hands each line that is as it was written to the caller.
///
/// # Errors
///
/// If a file cannot be read.
pub fn verify(directory: &Path, mut each: impl FnMut(&str) -> Result<()>) -> Result<VerifiedLog> {
    let mut position: Option<Chain> = None;
    let mut lines = 0;
    let mut fault = None;
    'files: for file in files::list(directory)? {
        let reader = BufReader::new(std::fs::File::open(&file)?);
        for (index, line) in reader.lines().enumerate() {
            // Bytes that are no text are a fault, too.
            let checked = line.ok().and_then(|line| {
                let stated = if index == 0 { Some(Chain::before(&line)?) } else { None };
                let before = match (&position, stated) {
                    (Some(position), Some(stated)) => Some(stated).filter(|stated| stated == position)?,
                    (Some(position), None) => position.clone(),
                    (None, stated) => stated?,
                };
                Some((before.behind(&line)?, line))
            });
            let Some((next, line)) = checked else {
                fault = Some(Fault { file, line: index + 1 });
                break 'files;
            };
            each(&line)?;
            position = Some(next);
            lines += 1;
        }
    }
    let position = position.unwrap_or_else(Chain::new);
    Ok(VerifiedLog { lines, last_number: position.number, last_hash: hex(&position.hash), fault })
}

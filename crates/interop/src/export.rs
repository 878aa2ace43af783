//! Writers of a session in the formats of other agents and in forms for people.
//!
//! The input is a session as the API lists it. A message that was imported from a file of the same format is written as
//! the lines it came from; everything else is composed. What a format cannot carry is left out, and counted by name in
//! the [`Report`].

mod claude_code;
mod html;
mod lines;
mod markdown;
mod pi;
mod session;
#[cfg(test)]
mod tests;
mod visible;

use crate::Format;
use std::io::{self, Write};

pub use html::write as html;
pub use markdown::write as markdown;
pub use session::{Compaction, Look, Message, Report, Session, Status};

/// Writes a session as a session file of pi or a transcript of Claude Code.
///
/// # Errors
///
/// The writer failed.
pub fn file(session: &Session, format: Format, out: &mut dyn Write) -> io::Result<Report> {
    let (lines, mut report) = match format {
        Format::Pi => pi::lines(session),
        Format::ClaudeCode => claude_code::lines(session),
    };
    for line in lines {
        report.lines += 1;
        writeln!(out, "{}", line.text)?;
    }
    Ok(report)
}

//! Files of a transcript: the main file, and those of its sub-agents.

use crate::interop::{self, Format, Options, Transcript};
use crate::limits;
use anyhow::Context;
use std::io;
use std::path::{Path, PathBuf};

// What is read as one message can be written as one.
const _: () = assert!(interop::MESSAGE_BYTES_MAX == limits::MESSAGE_BYTES_MAX);

/// The folder in which Claude Code keeps the transcripts of sub-agents.
const CHILDREN_FOLDER: &str = "subagents";

/// A transcript and its file.
#[derive(Debug)]
pub(super) struct Source {
    /// File name without the folder.
    pub(super) file: String,
    /// Hash of the file's content, in hex digits.
    pub(super) content_hash: String,
    /// The parsed transcript.
    pub(super) transcript: Transcript,
}

/// Reads a transcript, followed by those of its sub-agents.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Source>> {
    let main = read_file(path, |bytes, options| interop::parse(bytes, options))?;
    let children = match main.transcript.format {
        Format::ClaudeCode => child_files(path, &main.transcript.source_id)?,
        Format::Pi => Vec::new(),
    };
    let mut sources = vec![main];
    for child in children {
        sources.push(read_file(&child, |bytes, options| interop::parse_child(bytes, options))?);
    }
    Ok(sources)
}

fn read_file(
    path: &Path,
    parse: impl Fn(&[u8], &Options) -> Result<Transcript, interop::ReadError>,
) -> anyhow::Result<Source> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let transcript = parse(&bytes, &Options::default()).with_context(|| path.display().to_string())?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Source { file, content_hash: blake3::hash(&bytes).to_hex().to_string(), transcript })
}

/// Transcripts of a session's sub-agents, each group ordered by name: all files in the session's own folder, then the
/// files in the shared folder that name the session.
fn child_files(path: &Path, session: &str) -> io::Result<Vec<PathBuf>> {
    let shared = path.parent().unwrap_or(Path::new("")).join(CHILDREN_FOLDER);
    let mut files = transcripts_in(&path.with_extension("").join(CHILDREN_FOLDER))?;
    files.extend(transcripts_in(&shared)?.into_iter().filter(|file| belongs_to(file, session)));
    Ok(files)
}

fn transcripts_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().map_or(true, |path| path.extension().is_some_and(|kind| kind == "jsonl")))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// True if the first line that names a session names this one.
fn belongs_to(file: &Path, session: &str) -> bool {
    // Other fields are skipped: they may contain text that cannot be represented.
    #[derive(serde::Deserialize)]
    struct Named {
        #[serde(rename = "sessionId")]
        session: String,
    }
    let Ok(bytes) = std::fs::read(file) else { return false };
    let named = bytes.split(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice::<Named>(line).ok());
    named.is_some_and(|named| named.session == session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transcripts_of_sub_agents_are_found_by_folder_and_by_session() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(&path, text).expect("a file");
            path
        };
        let main = write("one.jsonl", "");
        let own = write("one/subagents/agent-b.jsonl", "{\"sessionId\":\"anything\"}\n");
        let shared = write("subagents/agent-a.jsonl", "not JSON\n{\"sessionId\":\"one\"}\n");
        write("subagents/agent-c.jsonl", "{\"sessionId\":\"two\"}\n");
        write("subagents/notes.txt", "{\"sessionId\":\"one\"}\n");
        assert_eq!(child_files(&main, "one").expect("files"), [own, shared]);
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let error = read(Path::new("/nowhere/at all.jsonl")).expect_err("an error");
        assert!(error.to_string().contains("/nowhere/at all.jsonl"), "{error}");
    }
}

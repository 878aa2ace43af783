//! Files of a transcript: the main file, and those of its sub-agents.

use crate::interop::{self, Format, Options, Transcript};
use anyhow::Context;
use std::io;
use std::path::{Path, PathBuf};

/// The folder in which Claude Code keeps the transcripts of sub-agents.
pub(super) const CHILDREN_FOLDER: &str = "subagents";

/// Reason why a file is not read.
const IRREGULAR: &str = "it is no regular file";

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

/// The files of an import.
#[derive(Debug)]
pub(super) struct Sources {
    /// The transcript, followed by those of its sub-agents.
    pub(super) files: Vec<Source>,
    /// Files of sub-agents that were left out, with the reasons.
    pub(super) left_out: Vec<String>,
}

/// Reads a transcript and those of its sub-agents. Only the transcript itself must be readable.
pub(super) fn read_transcripts(path: &Path) -> anyhow::Result<Sources> {
    // A pipe or a device may never end.
    let metadata = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(metadata.is_file(), "{}: {IRREGULAR}", path.display());
    let main = read_file(path, |bytes, options| interop::parse(bytes, options))?;
    let mut left_out = Vec::new();
    let children = match main.transcript.format {
        Format::ClaudeCode => child_files(path, &main.transcript.source_id, &mut left_out),
        Format::Pi => Vec::new(),
    };
    let mut files = vec![main];
    for child in children {
        match read_file(&child, |bytes, options| interop::parse_child(bytes, options)) {
            Ok(source) => files.push(source),
            Err(error) => left_out.push(format!("{error:#}: it is left out")),
        }
    }
    Ok(Sources { files, left_out })
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
fn child_files(path: &Path, session: &str, left_out: &mut Vec<String>) -> Vec<PathBuf> {
    let shared = path.parent().unwrap_or(Path::new("")).join(CHILDREN_FOLDER);
    let mut files = transcripts_in(&path.with_extension("").join(CHILDREN_FOLDER), left_out);
    files.extend(transcripts_in(&shared, left_out).into_iter().filter(|file| belongs_to(file, session)));
    files
}

/// Regular files alone: a link may lead out of the folder, to files that the user did not name.
fn transcripts_in(folder: &Path, left_out: &mut Vec<String>) -> Vec<PathBuf> {
    if !folder.is_dir() {
        return Vec::new();
    }
    let paths = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>());
    let mut files = paths.unwrap_or_else(|error| {
        left_out.push(format!("cannot read {}: {error}: it is left out", folder.display()));
        Vec::new()
    });
    files.retain(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    files.sort();
    files.retain(|path| {
        let regular = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        if !regular {
            left_out.push(format!("{}: {IRREGULAR}: it is left out", path.display()));
        }
        regular
    });
    files
}

/// True if the first line that names a session names this one.
fn belongs_to(file: &Path, session: &str) -> bool {
    // Other fields are skipped: they may contain text that cannot be represented.
    #[derive(serde::Deserialize)]
    struct SessionLine {
        #[serde(rename = "sessionId")]
        session: String,
    }
    let Ok(bytes) = std::fs::read(file) else { return false };
    // A line may have more than one object.
    let first = |line| serde_json::Deserializer::from_slice(line).into_iter::<SessionLine>().next()?.ok();
    let named = bytes.split(|byte| *byte == b'\n').find_map(first);
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
        assert_eq!(child_files(&main, "one", &mut Vec::new()), [own, shared]);
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let error = read_transcripts(Path::new("/nowhere/at all.jsonl")).expect_err("an error");
        assert!(error.to_string().contains("/nowhere/at all.jsonl"), "{error}");
    }
}

//! The files that a conversation read and modified.

use super::FileTools;
use crate::model::part::{PartBody, ToolCall};
use crate::model::view::SourceMessage;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Files by operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileOperations {
    /// Files that were read.
    pub read: BTreeSet<String>,
    /// Files that were written whole.
    pub written: BTreeSet<String>,
    /// Files that were edited in part.
    pub edited: BTreeSet<String>,
}

/// The operation of a call on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOperation {
    /// Reads the file.
    Read,
    /// Writes the whole file.
    Write,
    /// Edits part of the file.
    Edit,
}

const READ_TAG: &str = "read-files";
const MODIFIED_TAG: &str = "modified-files";

/// Input fields with a path, in order of preference.
const PATH_FIELDS: [&str; 5] = ["path", "file_path", "filePath", "notebook_path", "absolute_path"];

impl FileOperations {
    /// The file operations of all calls in the messages, with or without a result.
    pub fn collect(tools: FileTools, messages: &[SourceMessage]) -> Self {
        let mut operations = Self::default();
        messages.iter().for_each(|source| operations.add_all(tools, source));
        operations
    }

    /// Adds the operations of the calls in one message.
    pub fn add_all(&mut self, tools: FileTools, source: &SourceMessage) {
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &*part.body {
                self.add(tools, call);
            }
        }
    }

    /// Adds the operation of one call, if it is a file operation.
    pub fn add(&mut self, tools: FileTools, call: &ToolCall) {
        match operation(tools, call) {
            Some((FileOperation::Read, path)) => self.read.insert(path),
            Some((FileOperation::Write, path)) => self.written.insert(path),
            Some((FileOperation::Edit, path)) => self.edited.insert(path),
            None => false,
        };
    }

    /// Adds the lists of an earlier summary. Its modified files count as edited.
    pub fn inherit(&mut self, read: impl IntoIterator<Item = String>, modified: impl IntoIterator<Item = String>) {
        self.read.extend(read);
        self.edited.extend(modified);
    }

    /// The files that were only read, and the files that were modified; each sorted by UTF-16 code units.
    pub fn lists(&self) -> (Vec<String>, Vec<String>) {
        let modified: BTreeSet<&String> = self.written.union(&self.edited).collect();
        let read = self.read.iter().filter(|path| !modified.contains(path)).cloned().collect();
        (sorted(read), sorted(modified.into_iter().cloned().collect()))
    }
}

/// The file operation of a call and its path; none if the call is no file operation.
pub fn operation(tools: FileTools, call: &ToolCall) -> Option<(FileOperation, String)> {
    let operation = match tools {
        FileTools::Pi => operation_by_name(&call.tool)?,
        FileTools::Any => operation_by_any_name(&call.tool)?,
    };
    let input: Map<String, Value> = serde_json::from_str(&call.input_json).ok()?;
    let fields = match tools {
        FileTools::Pi => &PATH_FIELDS[..1],
        FileTools::Any => &PATH_FIELDS[..],
    };
    let path = fields.iter().filter_map(|field| input.get(*field)?.as_str()).find(|path| !path.is_empty())?;
    Some((operation, path.to_owned()))
}

fn operation_by_name(tool: &str) -> Option<FileOperation> {
    match tool {
        "read" => Some(FileOperation::Read),
        "write" => Some(FileOperation::Write),
        "edit" => Some(FileOperation::Edit),
        _ => None,
    }
}

/// The operation by the tool names of other agents, regardless of case and of separators between words.
fn operation_by_any_name(tool: &str) -> Option<FileOperation> {
    let name: String = tool.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match name.as_str() {
        "read" | "readfile" | "fileread" | "view" | "viewfile" | "openfile" => Some(FileOperation::Read),
        "write" | "writefile" | "filewrite" | "create" | "createfile" => Some(FileOperation::Write),
        "edit" | "editfile" | "fileedit" | "multiedit" | "notebookedit" | "replace" | "strreplace" | "patchfile" => {
            Some(FileOperation::Edit)
        }
        _ => None,
    }
}

fn sorted(mut paths: Vec<String>) -> Vec<String> {
    paths.sort_by(|left, right| left.encode_utf16().cmp(right.encode_utf16()));
    paths
}

/// The lists as they end a summary, with a blank line before each; empty if both lists are.
pub fn tags(read: &[String], modified: &[String]) -> String {
    [(READ_TAG, read), (MODIFIED_TAG, modified)]
        .iter()
        .filter(|(_, paths)| !paths.is_empty())
        .map(|(tag, paths)| format!("\n\n<{tag}>\n{}\n</{tag}>", paths.join("\n")))
        .collect()
}

/// The read and the modified files in the tags of a summary.
pub fn parse_tags(summary_text: &str) -> (Vec<String>, Vec<String>) {
    (tagged(summary_text, READ_TAG), tagged(summary_text, MODIFIED_TAG))
}

/// The summary without its tags and without the blank lines before them.
pub fn strip_tags(summary_text: &str) -> String {
    let mut text = summary_text.to_owned();
    for tag in [READ_TAG, MODIFIED_TAG] {
        if let Some((start, end)) = tag_range(&text, tag) {
            let before = text[..start].trim_end().len();
            text.replace_range(before..end, "");
        }
    }
    text
}

fn tagged(text: &str, tag: &str) -> Vec<String> {
    let Some((start, end)) = tag_range(text, tag) else {
        return Vec::new();
    };
    // The first and the last line are the tags.
    let lines: Vec<&str> = text[start..end].lines().collect();
    let paths = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default();
    paths.iter().filter(|path| !path.is_empty()).map(|path| (*path).to_owned()).collect()
}

/// Byte range of the last block with this tag; a summary may quote another block before it.
fn tag_range(text: &str, tag: &str) -> Option<(usize, usize)> {
    let close = format!("\n</{tag}>");
    let end = text.rfind(&close)?;
    let start = text[..end].rfind(&format!("<{tag}>\n"))?;
    Some((start, end + close.len()))
}

#[cfg(test)]
mod tests;

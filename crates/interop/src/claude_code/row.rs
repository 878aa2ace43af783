//! The lines of a Claude Code transcript.

use super::blocks::has_results;
use crate::name_index::Line;
use crate::raw::Object;
use crate::transcript::REPEATED_RECORD;

/// The type of an attachment with a prompt from the queue.
const QUEUED: &str = "queued_command";

/// A line, with the fields that decide its position.
pub(super) struct Row<'a> {
    pub(super) line: &'a Line,
    /// The parsed line; none if it is not an object with a type, and then `problem` has the reason.
    pub(super) object: Option<Object<'a>>,
    pub(super) problem: String,
    pub(super) kind: String,
    pub(super) uuid: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) sidechain: bool,
    /// True if it is a message of the conversation.
    pub(super) talks: bool,
    /// True if it is a message with which a person, or a program in the user's role, started a turn.
    pub(super) prompts: bool,
    /// True if it is a prompt that was typed while a call ran, and that no row with the user's role has.
    pub(super) queued: bool,
    /// True if Claude Code wrote it with the user's role: a caveat, the text of a skill.
    pub(super) meta: bool,
    /// True if it is the boundary of a compaction.
    pub(super) boundary: bool,
    /// True if it is the summary of a compaction.
    pub(super) summary: bool,
}

impl<'a> Row<'a> {
    pub(super) fn read(line: &'a Line) -> Self {
        let parsed = line.object().and_then(|object| match object.id("type") {
            Some(kind) => Ok((object, kind)),
            None => Err("the line has no type".to_owned()),
        });
        let mut row = Self {
            line,
            object: None,
            problem: String::new(),
            kind: String::new(),
            uuid: None,
            parent: None,
            sidechain: false,
            talks: false,
            prompts: false,
            queued: false,
            meta: false,
            boundary: false,
            summary: false,
        };
        match parsed {
            Ok((object, kind)) => {
                row.uuid = object.id("uuid");
                row.boundary = kind == "system" && object.string("subtype") == "compact_boundary";
                // A boundary has no parent, but names the line before it.
                row.parent = object.id("parentUuid").or_else(|| object.id("logicalParentUuid"));
                row.sidechain = object.flag("isSidechain");
                row.queued = kind == "attachment"
                    && object.object("attachment").is_some_and(|attachment| {
                        attachment.string("type") == QUEUED && attachment.get("prompt").is_some()
                    });
                row.talks = kind == "user" || kind == "assistant" || row.queued;
                row.summary = kind == "user" && object.flag("isCompactSummary");
                // The text of a skill comes from a tool call.
                row.meta = kind == "user" && (object.flag("isMeta") || object.id("sourceToolUseID").is_some());
                row.prompts = kind == "user" && !row.meta && !row.summary && !has_results(&object);
                row.object = Some(object);
                row.kind = kind;
            }
            Err(problem) => row.problem = problem,
        }
        row
    }

    /// What two rows with the same id have in common if they are the same row: Claude Code repeats rows after a
    /// compaction, and then other members may differ.
    pub(super) fn content(&self) -> &'a str {
        let message = self.object.as_ref().filter(|_| self.talks).and_then(|object| object.object("message"));
        match message.and_then(|message| message.get("content")) {
            Some(content) => content.get(),
            None if self.boundary => "",
            None => self.line.text().trim(),
        }
    }

    /// Turns a row into a record that takes part in nothing.
    pub(super) fn retire(&mut self) {
        (self.kind, self.uuid) = (REPEATED_RECORD.to_owned(), None);
        (self.talks, self.prompts, self.queued) = (false, false, false);
        (self.boundary, self.summary) = (false, false);
    }

    /// The kind of a record of the line.
    pub(super) fn record_kind(&self) -> String {
        match self.object.as_ref().and_then(|object| object.id("subtype")) {
            Some(subtype) => format!("{}/{subtype}", self.kind),
            None => self.kind.clone(),
        }
    }
}

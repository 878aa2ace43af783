//! The protocol's own rules, checked on the compiled protos, and its surface, compared with the reviewed one.
//!
//! Numbers in the findings are those of the rules in `CONTRIBUTING.md`, section "The protocol".

use crate::tidy::assert_reviewed;
use longhand::app::Reason;
use prost_reflect::prost_types;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::source_code_info::Location;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const PACKAGE: &str = "longhand.v1";

/// What an RPC's name begins with.
const VERBS: [&str; 16] = [
    "Create", "Get", "List", "Update", "Archive", "Fork", "Append", "Finish", "Rewind", "Edit", "Pin", "Start",
    "Supply", "Cancel", "Undo", "Subscribe",
];

/// `CheckIntegrity` is a verb and a noun too; it stands alone because nothing else is checked.
const VERB_CHECK: &str = "Check";

/// What never stands in an RPC's name: prepositions, and how it is called.
const NO_WORDS: [&str; 13] =
    ["Of", "For", "To", "At", "By", "With", "From", "In", "On", "Into", "After", "Before", "Async"];

/// Units stand last in a field's name.
const UNITS: [&str; 6] = ["tokens", "bytes", "ms", "count", "usd", "json"];

/// Fields that read as if they broke rule 5, and why they do not.
const NAMES: [(&str, &str); 14] = [
    ("Compaction.tokens_at_request", "the noun is `tokens`; the rest says when"),
    ("CompactionOutcome.tokens_before", "the noun is `tokens`; the rest says when"),
    ("CompactionOutcome.tokens_after", "the noun is `tokens`; the rest says when"),
    ("CompactionOutcome.covered", "a participle: the ranges covered"),
    ("GetContextResponse.messages", "one frame of several messages"),
    ("SubscribeEventsResponse.events", "one frame of several events"),
    ("ContextEnd.omitted", "a participle: the ranges omitted"),
    ("ContextHeader.fits", "a state in the words of the design, not an action"),
    ("ListHeadsRequest.at", "where to read: the points themselves"),
    ("Preset.notes", ""),
    ("CompactionCancelled.failure", ""),
    ("ToolResultPart.status", "a singular that ends in s"),
    ("ToolResultPart.attachments", ""),
    ("ContextEnd.covered", "a participle: what is covered"),
];

/// Lists without pages, and lists that page by another name.
const LISTS: [(&str, &str); 2] = [
    ("ListPresets", "the presets are built in and few: they come whole"),
    ("ListEvents", "pages of the log are read by its cursors: after_cursor and next_cursor"),
];

/// Reasons that any call may end with; comments need not name them.
const ANYWHERE: [Reason; 5] =
    [Reason::StoreReadOnly, Reason::RowCorrupt, Reason::Internal, Reason::ShuttingDown, Reason::StoreBusy];

/// One compiled file, and what is wrong with it.
struct Lint<'a> {
    file: &'a FileDescriptorProto,
    locations: BTreeMap<&'a [i32], &'a Location>,
    findings: Vec<String>,
}

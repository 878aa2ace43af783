//! The rules of the protocol, checked on the compiled protos, and its surface, compared with the reviewed one.
//!
//! Linters of protos are programs outside of the crates registry, and do not know the limits, error reasons and verbs that
//! are compared here. The rules, by the numbers that findings have:
//!
//! - **1** One file per resource; its service first, requests and responses in the order of the RPCs.
//! - **2** Numbers are signed: `int32` for page sizes, indexes, attempts, status codes and counts within one answer; `int64`
//!   for tokens, bytes, revisions, sequence numbers, costs and totals of the store. Ids are strings; bytes are hashes or data.
//! - **3** Services end in `Service`. An RPC is a verb and a noun, without prepositions.
//! - **4** Each RPC has its own `XRequest` and `XResponse`, used nowhere else.
//! - **5** Fields are in lower_snake_case, plural if and only if they are repeated, with the unit last. `_time` is a
//!   `Timestamp`; `_timeout` and `_interval` are `Duration`s.
//! - **7** Enums begin with `…_UNSPECIFIED = 0`, their values have the enum's name as prefix, and their comment contains "New
//!   values may appear."
//! - **14** Lists take `page_size` and `page_token`; field 1 of the response is the list, field 2 `next_page_token`.
//! - **20** Everything has a comment in sentences, with meaning, limits and default. An RPC's comment ends with `Errors:` and
//!   the reasons, which must exist.
//! - **21** An RPC has a `scope` and a `google.api.http` rule: resources below `/v1`, a verb after a colon for what is no
//!   create, get, list or update, `body: "*"` for everything but a get. An RPC that takes a stream has no HTTP rule,
//!   and there are RPCs of one request each that do the same.

mod options;

use crate::tidy::assert_reviewed;
use longhand::app::Reason;
use longhand::model::compaction::FailureReason;
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

/// First words of RPC names.
const VERBS: [&str; 49] = [
    "Acquire",
    "Add",
    "Answer",
    "Apply",
    "Append",
    "Archive",
    "Batch",
    "Cancel",
    "Check",
    "Complete",
    "Confirm",
    "Create",
    "Delegate",
    "Edit",
    "Erase",
    "Expand",
    "Export",
    "Extend",
    "Fail",
    "Finish",
    "Fork",
    "Get",
    "Import",
    "Lease",
    "List",
    "Mark",
    "Move",
    "Pin",
    "Redo",
    "Release",
    "Remove",
    "Renew",
    "Report",
    "Request",
    "Retry",
    "Revoke",
    "Rewind",
    "Search",
    "Simulate",
    "Start",
    "Submit",
    "Subscribe",
    "Supply",
    "Take",
    "Undo",
    "Update",
    "Watch",
    "Withdraw",
    "Write",
];

/// Words that an RPC's name must not contain: prepositions, and "Async".
const NO_WORDS: [&str; 13] =
    ["Of", "For", "To", "At", "By", "With", "From", "In", "On", "Into", "After", "Before", "Async"];

/// Units, which must come last in a field's name.
const UNITS: [&str; 7] = ["tokens", "bytes", "ms", "us", "count", "usd", "json"];

/// Fields that appear to violate rule 5, with the reason why they do not.
const NAMES: [(&str, &str); 23] = [
    ("BranchSummary.instructions", "one text"),
    ("Compaction.instructions", "one text"),
    ("CompactionOutcome.context_tokens_before", "the noun is `tokens`; the rest is the time"),
    ("CompactionOutcome.estimated_tokens_before", "the noun is `tokens`; the rest is the time"),
    ("CompactionOutcome.estimated_tokens_after", "the noun is `tokens`; the rest is the time"),
    ("CompactionPlan.estimated_tokens_before", "the noun is `tokens`; the rest is the time"),
    ("CompactionPlan.estimated_tokens_after", "the noun is `tokens`; the rest is the time"),
    ("ViewEnd.omitted", "a participle: the ranges omitted"),
    ("ViewHeader.fits", "a state, in the words of the design"),
    ("DraftEnd.status", "a singular that ends in s"),
    ("EditSummaryTaskRequest.instructions", "one text"),
    ("GetViewResponse.messages", "one frame that holds several messages"),
    ("ListAccessTokensResponse.access_tokens", "secrets of callers, not the unit"),
    ("ListHeadsRequest.at", "the points to read at"),
    ("ListSessionsResponse.page_tokens", "marks of places in a list, not the unit"),
    ("StartCompactionRequest.instructions", "one text"),
    ("SubscribeEventsResponse.events", "one frame that holds several events"),
    ("SummaryTask.instructions", "one text"),
    ("ToolResultPart.status", "a singular that ends in s"),
    ("Message.status", "a singular that ends in s"),
    ("SearchHistoryRequest.statistics", "one message, the field's plural"),
    ("SearchHistoryResponse.statistics", "one message, the field's plural"),
    ("SearchHit.status", "a singular that ends in s"),
];

/// Lists without the usual paging, with the reason.
const LISTS: [(&str, &str); 3] = [
    ("ListAccessTokens", "a store has a bounded number of them, and revokes more than it adds: they come whole"),
    ("ListPresets", "the presets are built in and few: they come whole"),
    ("ListEvents", "the log is paged by its cursors: after_cursor and next_cursor"),
];

/// One compiled file, and its findings.
struct Lint<'a> {
    file: &'a FileDescriptorProto,
    locations: BTreeMap<&'a [i32], &'a Location>,
    findings: Vec<String>,
}

impl<'a> Lint<'a> {
    fn new(file: &'a FileDescriptorProto) -> Self {
        let locations = file.source_code_info.as_ref().expect("protox keeps where things are");
        let locations = locations.location.iter().map(|location| (location.path.as_slice(), location)).collect();
        Self { file, locations, findings: Vec::new() }
    }

    fn line(&self, path: &[i32]) -> i32 {
        self.locations.get(path).and_then(|location| location.span.first()).map_or(0, |line| line + 1)
    }

    fn comment(&self, path: &[i32]) -> &'a str {
        self.locations.get(path).map_or("", |location| location.leading_comments()).trim()
    }

    fn find(&mut self, path: &[i32], message: impl std::fmt::Display) {
        let finding = format!("proto/{}:{}: {message}", self.file.name(), self.line(path));
        self.findings.push(finding);
    }

    fn expect(&mut self, holds: bool, path: &[i32], message: impl std::fmt::Display) {
        if !holds {
            self.find(path, message);
        }
    }

    /// Rule 20: everything has a comment, in sentences.
    fn commented(&mut self, path: &[i32], name: &str) {
        let comment = self.comment(path);
        self.expect(!comment.is_empty(), path, format!("rule 20: {name} has no comment"));
        let sentence = comment.is_empty() || comment.ends_with('.') || comment.ends_with(')');
        self.expect(sentence, path, format!("rule 20: the comment of {name} does not end like a sentence"));
    }

    fn run(mut self) -> Vec<String> {
        let file = self.file;
        self.expect(file.package() == PACKAGE, &[2], format!("rule 1: the package is not {PACKAGE}"));
        self.expect(file.syntax() == "proto3", &[12], "rule 2: the syntax is not proto3");
        let named = Regex::new(r"^longhand/v1/[a-z][a-z_]*\.proto$").expect("a pattern");
        self.expect(named.is_match(file.name()), &[], "rule 1: a file is longhand/v1/resource.proto");
        // Options of RPCs belong to no resource.
        let services = usize::from(file.extension.is_empty());
        self.expect(file.service.len() == services, &[], "rule 1: a file has one service, or options");
        for (at, extension) in (0..).zip(&file.extension) {
            self.commented(&[7, at], extension.name());
        }
        for (at, service) in (0..).zip(&file.service) {
            self.service(&[6, at], service);
        }
        for (at, message) in (0..).zip(&file.message_type) {
            self.message(&[4, at], message);
        }
        for (at, declared) in (0..).zip(&file.enum_type) {
            self.enumeration(&[5, at], declared);
        }
        self.findings
    }

    fn service(&mut self, path: &[i32], service: &ServiceDescriptorProto) {
        self.commented(path, service.name());
        self.expect(service.name().ends_with("Service"), path, "rule 3: a service's name ends in Service");
        let first = (0..).zip(&self.file.message_type).map(|(at, _)| self.line(&[4, at])).min().unwrap_or(i32::MAX);
        self.expect(self.line(path) < first, path, "rule 1: the service comes before the messages");
        let mut before = 0;
        for (at, method) in (0..).zip(&service.method) {
            let path = [path, &[2, at]].concat();
            let name = method.name();
            self.commented(&path, name);
            let words = words(name);
            let verb = words.first().is_some_and(|word| VERBS.contains(&word.as_str())) && words.len() > 1;
            self.expect(verb, &path, format!("rule 3: {name} is no verb and noun; the verbs are {VERBS:?}"));
            for word in words.iter().filter(|word| NO_WORDS.contains(&word.as_str())) {
                self.find(&path, format!("rule 3: {name} has {word:?} in it"));
            }
            for (used, suffix) in [(method.input_type(), "Request"), (method.output_type(), "Response")] {
                let own = format!(".{PACKAGE}.{name}{suffix}");
                self.expect(used == own, &path, format!("rule 4: {name} uses {used}, not its own {own}"));
                let declared = self.declared_at(&format!("{name}{suffix}"));
                self.expect(declared > before, &path, format!("rule 1: {name}{suffix} is not where its RPC is"));
                before = declared.max(before);
            }
        }
    }

    /// The line of one of the file's messages; 0 if it has no such message.
    fn declared_at(&self, name: &str) -> i32 {
        let position = (0..).zip(&self.file.message_type).find(|(_, message)| message.name() == name);
        position.map_or(0, |(at, _)| self.line(&[4, at]))
    }

    fn message(&mut self, path: &[i32], message: &DescriptorProto) {
        let name = message.name();
        self.commented(path, name);
        let pascal = Regex::new("^(?:[A-Z][a-z0-9]*)+$").expect("a pattern");
        self.expect(pascal.is_match(name), path, format!("rule 1: {name} is not in PascalCase"));
        for (at, field) in (0..).zip(&message.field) {
            self.field(&[path, &[2, at]].concat(), name, field);
        }
        for (at, oneof) in (0..).zip(&message.oneof_decl) {
            let synthetic = |field: &FieldDescriptorProto| field.oneof_index == Some(at) && field.proto3_optional();
            if !message.field.iter().any(synthetic) {
                self.commented(&[path, &[8, at]].concat(), oneof.name());
            }
        }
        for (at, nested) in (0..).zip(&message.nested_type) {
            self.message(&[path, &[3, at]].concat(), nested);
        }
        for (at, declared) in (0..).zip(&message.enum_type) {
            self.enumeration(&[path, &[4, at]].concat(), declared);
        }
    }

    fn field(&mut self, path: &[i32], message: &str, field: &FieldDescriptorProto) {
        let name = field.name();
        let shown = format!("{message}.{name}");
        self.commented(path, &shown);
        let snake = Regex::new("^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$").expect("a pattern");
        self.expect(snake.is_match(name), path, format!("rule 5: {shown} is not in lower_snake_case"));
        self.expect(!name.starts_with("is_"), path, format!("rule 5: {shown} begins with is_"));
        let excepted = NAMES.iter().any(|(field, _)| *field == shown);
        let mut segments: Vec<&str> = name.split('_').collect();
        let last = segments.pop().unwrap_or_default();
        for unit in segments.iter().filter(|segment| UNITS.contains(segment) && !excepted) {
            self.find(path, format!("rule 5: in {shown} the unit {unit:?} does not come last"));
        }
        let repeated = field.label() == Label::Repeated;
        let switch = name.starts_with("include_") || name.starts_with("exclude_");
        let plural = last.ends_with('s') && !last.ends_with("ss") && !UNITS.contains(&last) && !switch;
        self.expect(plural == repeated || excepted, path, format!("rule 5: {shown} is plural or repeated, not both"));
        self.types(path, &shown, field);
    }

    /// Rules 2 and 5: a field's type agrees with its name.
    fn types(&mut self, path: &[i32], shown: &str, field: &FieldDescriptorProto) {
        let name = field.name();
        let is = |types: &[Type]| types.contains(&field.r#type());
        let unsigned = is(&[Type::Uint32, Type::Uint64, Type::Fixed32, Type::Fixed64]);
        self.expect(!unsigned, path, format!("rule 2: {shown} is unsigned"));
        let counts = ["page_size", "attempt", "status_code"].contains(&name)
            || ["_count", "_index", "_number"].iter().any(|suffix| name.ends_with(suffix));
        let small = !is(&[Type::Int32, Type::Sint32, Type::Sfixed32]) || counts;
        self.expect(small, path, format!("rule 2: {shown} is no int64"));
        let fraction = !is(&[Type::Double, Type::Float]) || name == "ratio";
        self.expect(fraction, path, format!("rule 2: {shown} is a fraction"));
        let id = !(name.ends_with("_id") || name.ends_with("_ids")) || is(&[Type::String]);
        self.expect(id, path, format!("rule 2: the id {shown} is no string"));
        let blob = !is(&[Type::Bytes]) || ["hash", "data"].contains(&name) || name.ends_with("_hash");
        self.expect(blob, path, format!("rule 2: {shown} is bytes, but neither a hash nor data"));
        let instant = field.type_name() == ".google.protobuf.Timestamp";
        self.expect(instant == name.ends_with("_time"), path, format!("rule 5: {shown}: `_time` is for instants"));
        let span = field.type_name() == ".google.protobuf.Duration";
        let timed = name.ends_with("_timeout") || name.ends_with("_interval");
        self.expect(span == timed, path, format!("rule 5: {shown}: `_timeout` and `_interval` are for spans"));
        for unclear in [".google.protobuf.Struct", ".google.protobuf.Any", ".google.protobuf.Empty"] {
            self.expect(field.type_name() != unclear, path, format!("rule 2: {shown} is {unclear}"));
        }
    }

    fn enumeration(&mut self, path: &[i32], declared: &EnumDescriptorProto) {
        let name = declared.name();
        self.commented(path, name);
        let open = self.comment(path).contains("New values may appear.");
        self.expect(open, path, format!("rule 7: {name} does not contain \"New values may appear.\""));
        let prefix = words(name).join("_").to_uppercase();
        let zero = format!("{prefix}_UNSPECIFIED");
        let first = declared.value.first().is_some_and(|value| value.name() == zero && value.number() == 0);
        self.expect(first, path, format!("rule 7: {name} does not begin with {zero} = 0"));
        let mut numbers = BTreeSet::new();
        for (at, value) in (0..).zip(&declared.value) {
            let path = [path, &[2, at]].concat();
            self.commented(&path, value.name());
            let prefixed = value.name().strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('_'));
            self.expect(prefixed, &path, format!("rule 7: {} does not begin with {prefix}_", value.name()));
            self.expect(numbers.insert(value.number()), &path, format!("rule 7: {} is an alias", value.name()));
        }
    }
}

/// The words of a name in PascalCase.
fn words(name: &str) -> Vec<String> {
    Regex::new("[A-Z][a-z0-9]*").expect("a pattern").find_iter(name).map(|word| word.as_str().to_owned()).collect()
}

/// All messages of the files by name.
fn messages(files: &[FileDescriptorProto]) -> BTreeMap<&str, &DescriptorProto> {
    files.iter().flat_map(|file| &file.message_type).map(|message| (message.name(), message)).collect()
}

/// Rule 4, the part that needs all files: a request or response belongs to one RPC, and is part of nothing else.
fn lint_shared(files: &[FileDescriptorProto]) -> Vec<String> {
    let mut uses: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for method in files.iter().flat_map(|file| &file.service).flat_map(|service| &service.method) {
        uses.entry(method.input_type()).or_default().push(method.name().to_owned());
        uses.entry(method.output_type()).or_default().push(method.name().to_owned());
    }
    let owned: BTreeSet<String> = uses.keys().map(|name| (*name).to_owned()).collect();
    for message in messages(files).values() {
        for field in message.field.iter().filter(|field| owned.contains(field.type_name())) {
            uses.entry(field.type_name()).or_default().push(format!("{}.{}", message.name(), field.name()));
        }
    }
    let shared = uses.into_iter().filter(|(_, users)| users.len() > 1);
    shared.map(|(name, users)| format!("rule 4: {name} is shared by {users:?}")).collect()
}

/// Rule 14: all lists have the same paging fields.
fn lint_lists(files: &[FileDescriptorProto]) -> Vec<String> {
    let messages = messages(files);
    let mut findings = Vec::new();
    for method in files.iter().flat_map(|file| &file.service).flat_map(|service| &service.method) {
        let name = method.name();
        if !name.starts_with("List") || LISTS.iter().any(|(list, _)| *list == name) {
            continue;
        }
        let has = |message: String, name: &str, kind: Type| {
            let message = messages.get(message.as_str());
            message
                .is_some_and(|message| message.field.iter().any(|field| field.name() == name && field.r#type() == kind))
        };
        let (request, response) = (format!("{name}Request"), format!("{name}Response"));
        let fields = [
            (has(request.clone(), "page_size", Type::Int32), "an int32 page_size in its request"),
            (has(request, "page_token", Type::String), "a string page_token in its request"),
            (has(response.clone(), "next_page_token", Type::String), "a string next_page_token in its response"),
        ];
        findings
            .extend(fields.iter().filter(|(found, _)| !found).map(|(_, what)| format!("rule 14: {name} lacks {what}")));
        let numbered = |number: i32| {
            messages
                .get(response.as_str())
                .and_then(|message| message.field.iter().find(|field| field.number() == number))
        };
        if numbered(1).is_none_or(|field| field.label() != Label::Repeated) {
            findings.push(format!("rule 14: field 1 of {response} is not the list"));
        }
        if numbered(2).is_none_or(|field| field.name() != "next_page_token") {
            findings.push(format!("rule 14: field 2 of {response} is not next_page_token"));
        }
    }
    findings
}

/// All findings in the files.
fn lint(files: &[FileDescriptorProto]) -> Vec<String> {
    let mut findings: Vec<String> = files.iter().flat_map(|file| Lint::new(file).run()).collect();
    findings.extend(lint_shared(files));
    findings.extend(lint_lists(files));
    findings
}

/// Compiles the files of the resolver, which may import those of the project.
fn compiler(resolver: impl FileResolver + 'static, names: &[String]) -> protox::Compiler {
    let mut all = ChainFileResolver::new();
    all.add(resolver);
    all.add(IncludeFileResolver::new(folder()));
    all.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(all);
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(names).expect("the protos compile");
    compiler
}

/// The files of our package.
fn files(compiler: &protox::Compiler) -> Vec<FileDescriptorProto> {
    compiler.file_descriptor_set().file.into_iter().filter(|file| !file.name().starts_with("google/")).collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("proto")
}

pub(crate) fn ours_compiled() -> protox::Compiler {
    let mut names: Vec<String> = std::fs::read_dir(folder().join("longhand/v1"))
        .expect("the protos are there")
        .map(|entry| format!("longhand/v1/{}", entry.expect("an entry").file_name().to_string_lossy()))
        .collect();
    names.sort_unstable();
    compiler(IncludeFileResolver::new(folder()), &names)
}

fn ours() -> Vec<FileDescriptorProto> {
    files(&ours_compiled())
}

/// The name of a field's type, without our package.
fn type_name(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    }
}

/// The surface: one line for each element visible to clients, in an order independent of the files'.
fn surface(files: &[FileDescriptorProto]) -> String {
    let mut lines: BTreeMap<(String, i32), String> = BTreeMap::new();
    for (file, service) in files.iter().flat_map(|file| file.service.iter().map(move |service| (file, service))) {
        for method in &service.method {
            let stream = |streaming: bool| if streaming { "stream " } else { "" };
            let name = format!("{}.{}.{}", file.package(), service.name(), method.name());
            let (input, output) = (method.input_type(), method.output_type());
            let line = format!(
                "{name}({}{}) -> {}{}",
                stream(method.client_streaming()),
                input.trim_start_matches('.'),
                stream(method.server_streaming()),
                output.trim_start_matches('.'),
            );
            lines.insert((name, 0), line);
        }
    }
    for (file, message) in files.iter().flat_map(|file| file.message_type.iter().map(move |message| (file, message))) {
        let parent = format!("{}.{}", file.package(), message.name());
        lines.insert((parent.clone(), 0), parent.clone());
        for field in &message.field {
            let oneof = field.oneof_index.filter(|_| !field.proto3_optional());
            let oneof = oneof.and_then(|at| message.oneof_decl.get(usize::try_from(at).unwrap_or(usize::MAX)));
            let label = match (field.label(), field.proto3_optional()) {
                (Label::Repeated, _) => "repeated ",
                (_, true) => "optional ",
                _ => "",
            };
            let suffix = oneof.map_or(String::new(), |oneof| format!(" (oneof {})", oneof.name()));
            let line = format!("{parent}.{} = {} {label}{}{suffix}", field.name(), field.number(), type_name(field));
            lines.insert((parent.clone(), field.number()), line);
        }
    }
    for (file, declared) in files.iter().flat_map(|file| file.enum_type.iter().map(move |declared| (file, declared))) {
        let parent = format!("{}.{}", file.package(), declared.name());
        for value in &declared.value {
            let line = format!("{parent}.{} = {}", value.name(), value.number());
            lines.insert((parent.clone(), value.number()), line);
        }
    }
    lines.into_values().map(|line| format!("{line}\n")).collect()
}

/// The documented errors of the RPCs, from their comments, by RPC.
fn documented_errors(files: &[FileDescriptorProto]) -> BTreeMap<String, String> {
    let mut errors = BTreeMap::new();
    for file in files {
        let lint = Lint::new(file);
        for (at, method) in file.service.iter().flat_map(|service| (0..).zip(&service.method)) {
            let (_, text) = lint.comment(&[6, 0, 2, at]).split_once("Errors:").unwrap_or_default();
            errors.insert(method.name().to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    errors
}

#[test]
fn the_protos_keep_their_rules() {
    let files = ours();
    assert!(files.len() > 1, "the protos were not found");
    let findings = lint(&files);
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn every_list_in_a_request_says_how_long_it_may_be() {
    let pool = ours_compiled().descriptor_pool();
    let declared = pool.get_extension_by_name("longhand.v1.elements_max").expect("the extension");
    let lists = longhand::pb::measure::lists();
    assert!(lists.len() > 20, "{}", lists.len());
    let mut findings = Vec::new();
    for list in lists {
        let name = list.full_name();
        let message = pool.get_message_by_name(list.parent_message().full_name()).expect("a message");
        let field = message.get_field(list.number()).expect("a field");
        let most = field.options().get_extension(&declared).as_i32().unwrap_or_default();
        if field.is_map() || most < 1 {
            findings.push(format!("{name} is part of a request, and has no `elements_max`"));
        }
        let file = message.parent_file();
        let mut locations = file.file_descriptor_proto().source_code_info.iter().flat_map(|info| &info.location);
        let location = locations.find(|location| location.path == field.path());
        let comment = location.map_or("", |location| location.leading_comments()).split_whitespace();
        let comment = comment.collect::<Vec<_>>().join(" ");
        if !["t most", " to"].iter().any(|words| comment.contains(&format!("{words} {most}"))) {
            findings.push(format!("the comment of {name} does not say \"at most {most}\": {comment}"));
        }
        if longhand::pb::measure::elements_max(&list) != usize::try_from(most).ok() {
            findings.push(format!("the descriptors in the program have another limit of {name}"));
        }
    }
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn exceptions_to_the_rules_are_still_needed() {
    let files = ours();
    let messages = messages(&files);
    for (field, why) in NAMES {
        let (message, name) = field.split_once('.').expect("an exception names a message and a field");
        let found = messages.get(message).is_some_and(|message| message.field.iter().any(|field| field.name() == name));
        assert!(found, "{field} is excepted ({why}), but is gone");
    }
    let methods: BTreeSet<&str> =
        files.iter().flat_map(|file| &file.service).flat_map(|service| &service.method).map(|rpc| rpc.name()).collect();
    for (list, why) in LISTS {
        assert!(methods.contains(list), "{list} is excepted ({why}), but is gone");
    }
}

#[test]
fn the_surface_is_the_reviewed_one() {
    let why = "the protocol changed; a line that goes or changes breaks clients";
    assert_reviewed("tests/snapshots/proto_surface.txt", &surface(&ours()), why);
}

#[test]
fn every_answer_to_a_write_has_its_durability() {
    // Drafts, leases, the ends of tasks, presence and links to the console are not stored before they are acknowledged, and
    // where a shard is to go is no content of a store.
    const NOT_STORED: [&str; 8] = [
        "AppendDraft",
        "EditSummaryTask",
        "CompleteSummaryTask",
        "FailSummaryTask",
        "DelegateSummaryTask",
        "ReportTyping",
        "CreateConsoleLink",
        "MoveShard",
    ];
    // A scrub and a backup answer with their progress.
    const READING: [&str; 14] = [
        "Get",
        "BatchGet",
        "List",
        "Expand",
        "Export",
        "Subscribe",
        "Watch",
        "Search",
        "Simulate",
        "Check",
        "Lease",
        "Extend",
        "StartScrub",
        "CreateBackup",
    ];
    let files = ours();
    let messages = messages(&files);
    let has_durability = |name: &str| {
        let fields = &messages[name.rsplit('.').next().expect("a name")].field;
        fields.iter().any(|field| field.name() == "durability" && field.type_name() == ".longhand.v1.Durability")
    };
    for method in files.iter().flat_map(|file| &file.service).flat_map(|service| &service.method) {
        let name = method.name();
        let reads = READING.iter().any(|verb| name.starts_with(verb));
        let writes = !reads && !NOT_STORED.contains(&name);
        assert_eq!(has_durability(method.output_type()), writes || name == "GetServerInfo", "{name}");
    }
}

#[test]
fn documented_reasons_exist_and_reasons_are_documented() {
    let known: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    let (reason, as_another) =
        (Regex::new(r"\b[A-Z]+(?:_[A-Z]+)+\b").expect("a pattern"), Regex::new(r"\bas ([A-Z]\w+)").expect("a pattern"));
    let errors = documented_errors(&ours());
    let mut named = BTreeSet::new();
    for (rpc, text) in &errors {
        for found in reason.find_iter(text).map(|found| found.as_str()) {
            assert!(known.contains(found), "the comment of {rpc} names {found}, which is no reason");
            named.insert(found);
        }
        for other in as_another.captures_iter(text).map(|found| found[1].to_owned()) {
            assert!(errors.contains_key(&other), "the comment of {rpc} points to {other}, which is no RPC");
        }
    }
    let (anywhere, others) = reason_table();
    let listed: BTreeSet<&str> = anywhere.union(&others).copied().collect();
    assert_eq!(listed, known, "the table in session.proto");
    let silent: Vec<&&str> = others.difference(&named).collect();
    assert!(silent.is_empty(), "no comment of an RPC names these reasons: {silent:?}");
}

/// The reasons in the table of session.proto: those that any call may end with, and those that comments of RPCs name.
fn reason_table() -> (BTreeSet<&'static str>, BTreeSet<&'static str>) {
    let source = include_str!("../../proto/longhand/v1/session.proto");
    let (table, _) = source.split_once("syntax =").expect("a syntax");
    let (anywhere, others) = table.split_once("the comments of the calls name").expect("two parts");
    let reasons = |part: &'static str| {
        let rows = part.lines().filter_map(|line| line.strip_prefix("//   "));
        rows.filter_map(|row| row.split_whitespace().next()).collect()
    };
    (reasons(anywhere), reasons(others))
}

#[test]
fn the_reasons_of_failures_are_those_that_are_documented() {
    let source = include_str!("../../proto/longhand/v1/compaction.proto");
    let (_, text) = source.split_once("message CompactionFailure {").expect("it is there");
    let (text, _) = text.split_once("string reason").expect("it has a reason");
    let name = Regex::new(r"\b(?:[A-Z]{2,}(?:_[A-Z]+)+|[A-Z]{4,})\b").expect("a pattern");
    let documented: BTreeSet<&str> = name.find_iter(text).map(|found| found.as_str()).collect();
    assert_eq!(documented, FailureReason::ALL.iter().map(|reason| reason.as_str()).collect());
}

/// One file made for a test.
struct Made(String);

impl FileResolver for Made {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == "longhand/v1/thing.proto" {
            return File::from_source(name, &self.0);
        }
        Err(protox::Error::file_not_found(name))
    }
}

/// Tests of the lint: each rule finds its violations.
mod checker {
    use super::*;

    const SOUND: &str = r#"syntax = "proto3";
package longhand.v1;
import "google/protobuf/timestamp.proto";
// Keeps things.
service ThingService {
  // List things.
  rpc ListThings(ListThingsRequest) returns (ListThingsResponse);
}
// A request for things.
message ListThingsRequest {
  // At most this many.
  int32 page_size = 1;
  // Where the page before ended.
  string page_token = 2;
}
// Things.
message ListThingsResponse {
  // The things.
  repeated Thing things = 1;
  // Where the next page begins.
  string next_page_token = 2;
}
// A thing.
message Thing {
  // Its id.
  string thing_id = 1;
  // When it was made.
  google.protobuf.Timestamp create_time = 2;
  // What it is like.
  Likeness likeness = 3;
  // What it holds.
  oneof body {
    // Words.
    string text = 4;
  }
  // How long it may be read.
  optional int64 read_tokens = 5;
}
// What a thing is like. New values may appear.
enum Likeness {
  // Not given.
  LIKENESS_UNSPECIFIED = 0;
  // Itself.
  LIKENESS_SELF = 1;
}
"#;

    fn findings(source: String) -> Vec<String> {
        lint(&files(&compiler(Made(source), &["longhand/v1/thing.proto".to_owned()])))
    }

    /// Changes the valid file in one place and expects exactly the findings with these texts.
    #[track_caller]
    fn check(before: &str, after: &str, expected: &[&str]) {
        assert!(SOUND.contains(before), "the sound file has no {before:?}");
        let found = findings(SOUND.replace(before, after));
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (finding, part) in found.iter().zip(expected) {
            assert!(finding.contains(part), "{finding:?} does not contain {part:?}");
        }
    }

    #[test]
    fn a_sound_file_has_no_findings() {
        check("A thing", "A thing", &[]);
    }

    #[test]
    fn findings_have_their_position() {
        let found = findings(SOUND.replace("  // Its id.\n", ""));
        assert_eq!(found, ["proto/longhand/v1/thing.proto:25: rule 20: Thing.thing_id has no comment"]);
    }

    #[test]
    fn everything_needs_a_comment_in_sentences() {
        for comment in
            ["// Keeps things.\n", "// List things.\n", "// Things.\n", "// Itself.\n", "// What it holds.\n"]
        {
            check(comment, "", &["has no comment"]);
        }
        check("// Itself.", "// Itself", &["does not end like a sentence"]);
    }

    #[test]
    fn services_and_calls_are_named_and_placed_by_the_rules() {
        check("service ThingService", "service Things", &["rule 3: a service's name"]);
        check(
            "package longhand.v1;",
            "package longhand.v1;\n// Late.\nmessage Late {}",
            &["rule 1: the service comes before"],
        );
        let both = |from: &str| SOUND.replace("ListThings", from);
        for (name, rule) in
            [("ShowThings", "verb and noun"), ("GetThingsByName", "\"By\" in it"), ("Create", "verb and noun")]
        {
            let found = findings(both(name));
            assert!(found.len() == 1 && found[0].contains(rule), "{name}: {found:?}");
        }
        check(
            "returns (ListThingsResponse)",
            "returns (Thing)",
            &["rule 4: ListThings uses .longhand.v1.Thing", "is shared"],
        );
        check("string text = 4;", "ListThingsRequest text = 4;", &["rule 4: .longhand.v1.ListThingsRequest is shared"]);
    }

    #[test]
    fn fields_are_named_and_typed_by_the_rules() {
        for (field, rule) in [
            ("string isText = 4;", "lower_snake_case"),
            ("string is_text = 4;", "begins with is_"),
            ("string texts = 4;", "plural or repeated"),
            ("int64 tokens_read = 4;", "does not come last"),
            ("uint64 size = 4;", "unsigned"),
            ("fixed32 size = 4;", "unsigned"),
            ("int32 size = 4;", "no int64"),
            ("double size = 4;", "a fraction"),
            ("int64 text_id = 4;", "no string"),
            ("bytes text = 4;", "neither a hash nor data"),
            ("google.protobuf.Timestamp made = 4;", "for instants"),
            ("string make_time = 4;", "for instants"),
            ("int64 idle_timeout = 4;", "for spans"),
        ] {
            check("string text = 4;", field, &[rule]);
        }
        check("repeated Thing things = 1;", "repeated Thing thing = 1;", &["plural or repeated"]);
    }

    #[test]
    fn enums_are_open_and_prefixed() {
        check(" New values may appear.", "", &["does not contain"]);
        check("LIKENESS_UNSPECIFIED", "LIKENESS_NONE", &["does not begin with LIKENESS_UNSPECIFIED"]);
        check("LIKENESS_SELF", "SELF", &["does not begin with LIKENESS_"]);
    }

    #[test]
    fn lists_page_alike() {
        check("int32 page_size", "int64 page_size", &["an int32 page_size"]);
        check("string page_token", "string token", &["a string page_token"]);
        check("next_page_token = 2", "next_page_token = 3", &["field 2"]);
        check("repeated Thing things = 1", "Thing things = 1", &["plural or repeated", "field 1"]);
    }
}

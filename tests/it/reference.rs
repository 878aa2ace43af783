//! The pages of `docs/reference`, made of what the program itself says: commands, configuration, errors, protocol, policies,
//! presets, metrics and limits. They are committed, and compared here; `LONGHAND_BLESS=1` writes them.

mod options;
mod rust;

use crate::mappings_page::tables;
use crate::proto::ours_compiled;
use crate::tidy::{assert_reviewed, root, sources};
use clap::CommandFactory as _;
use longhand::app::Reason;
use longhand::cli::{COMMAND_GROUPS, Cli};
use longhand::pb;
use longhand::presets;
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

/// Methods of HTTP rules.
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// Presets with a deviation from which on it is a common one.
const COMMON_DEVIATION_MIN: usize = 6;

fn assert_page(name: &str, title: &str, source: &str, text: &str) {
    let page = format!("# {title}\n\nGenerated from {source}.\n\n{}\n", text.trim());
    assert_reviewed(&format!("docs/reference/{name}.md"), &page, "its source says something else");
}

/// A text in a line of Markdown: no HTML, no end of a cell.
fn line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pieces = text.split('`').enumerate();
    let shown = pieces.map(|(at, piece)| if at % 2 == 0 { piece.replace('<', "&lt;") } else { piece.to_owned() });
    shown.collect::<Vec<_>>().join("`").replace('|', "\\|")
}

fn sentence(text: &str) -> String {
    let text = line(text);
    if text.is_empty() || text.ends_with(['.', ':', '…']) { text } else { format!("{text}.") }
}

/// What an option takes, and what it means.
fn option_row(argument: &clap::Arg) -> String {
    let takes = argument.get_action().takes_values();
    let names = argument.get_value_names().unwrap_or_default();
    let value = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let value = if value.is_empty() { argument.get_id().as_str().to_uppercase() } else { value };
    let short = argument.get_short().map_or(String::new(), |short| format!("`-{short}`, "));
    let name = match argument.get_long() {
        Some(long) if takes => format!("{short}`--{long} {value}`"),
        Some(long) => format!("{short}`--{long}`"),
        None => format!("`{value}`"),
    };
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = sentence(&help);
    let values = argument.get_possible_values();
    if takes && !values.is_empty() && !argument.is_hide_possible_values_set() {
        let values = values.iter().map(|value| format!("`{}`", value.get_name())).collect::<Vec<_>>().join(", ");
        let _ = write!(meaning, " One of {values}.");
    }
    let defaults = argument.get_default_values();
    if takes && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let defaults = defaults.iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let _ = write!(meaning, " Default: `{defaults}`.");
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(meaning, " Variable: `{}`.", variable.to_string_lossy());
    }
    format!("| {name} | {} |\n", meaning.trim())
}

fn option_table<'a>(arguments: impl Iterator<Item = &'a clap::Arg>) -> String {
    let rows: String = arguments.filter(|argument| !argument.is_hide_set()).map(option_row).collect();
    if rows.is_empty() { rows } else { format!("\n| option | meaning |\n| --- | --- |\n{rows}") }
}

fn command_section(command: &clap::Command, path: &str, depth: usize) -> String {
    let path = format!("{path}{}", command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let mut text = format!("\n{} `{path}`\n\n{}\n", "#".repeat(depth), sentence(&about));
    let own =
        |argument: &&clap::Arg| !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = write!(text, "\n```\n{usage}\n```\n{}", option_table(command.get_arguments().filter(own)));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        text.push_str(&command_section(below, &format!("{path} "), depth + 1));
    }
    text
}

#[test]
fn commands() {
    let mut command = Cli::command();
    command.build();
    let mut text =
        fs::read_to_string(root().join("tests/it/reference/commands.md")).expect("the words before the list");
    text.push_str(&option_table(command.get_arguments().filter(|argument| argument.is_global_set())));
    for (title, names) in COMMAND_GROUPS {
        let _ = write!(text, "\n## {title}\n");
        for name in names {
            text.push_str(&command_section(command.find_subcommand(name).expect("a command"), "", 3));
        }
    }
    assert_page("commands", "Commands", "what `longhand --help` says", &text);
}

#[test]
fn configuration() {
    let example = fs::read_to_string(root().join("longhand.example.toml")).expect("the example");
    let mut text = String::new();
    for block in example.split("\n\n") {
        let is_comment = |line: &&str| line.starts_with("# ") || *line == "#";
        let lines: Vec<&str> = block.lines().collect();
        let (comment, code) = lines.split_at(lines.iter().take_while(|line| is_comment(line)).count());
        if let Some(first) = code.first() {
            let option = first.trim_start_matches('#');
            let name = option.split_once(" =").map_or(option, |(name, _)| name);
            let _ = write!(text, "\n## `{name}`\n");
        }
        let comment = comment.iter().map(|line| line.trim_start_matches('#').trim()).collect::<Vec<_>>().join("\n");
        for paragraph in comment.split("\n\n") {
            let _ = writeln!(text, "\n{}", line(paragraph));
        }
        if !code.is_empty() {
            let is_off = code[0].starts_with('#');
            let uncommented = |line: &&str| {
                if is_comment(line) { (*line).to_owned() } else { line.trim_start_matches('#').to_owned() }
            };
            let code = code.iter().map(uncommented).collect::<Vec<_>>().join("\n");
            let _ = write!(text, "\n{}:\n\n```toml\n{code}\n```\n", if is_off { "Example" } else { "Default" });
        }
    }
    assert_page("configuration", "Configuration", "`longhand.example.toml`", &text);
}

/// Code, outcome and metadata of each reason, by the table in the protocol.
fn reasons_of_protocol() -> BTreeMap<String, [String; 3]> {
    let proto = fs::read_to_string(root().join("proto/longhand/v1/session.proto")).expect("a proto");
    let row = Regex::new(r"(?m)^//   ([A-Z_]+) +([A-Z_]+) +(nothing|unknown|done) *(.*)$").expect("a pattern");
    let rows = row
        .captures_iter(&proto)
        .map(|found| (found[1].to_owned(), [found[2].to_owned(), found[3].to_owned(), found[4].to_owned()]));
    rows.collect()
}

#[test]
fn errors() {
    let table = reasons_of_protocol();
    let mut text = String::from(
        "Every error has a reason, in `google.rpc.ErrorInfo` with the domain `longhand`. A reason never changes its \
         meaning; new ones may appear. *Outcome* says what became of a call that writes: nothing was written; it is \
         unknown, so send the call again with the same `request_id`; or it is done, and the same call returns the \
         answer.\n\n| reason | meaning | code | outcome | metadata |\n| --- | --- | --- | --- | --- |\n",
    );
    for reason in Reason::ALL {
        let name = reason.as_str();
        let [code, outcome, metadata] = table.get(name).unwrap_or_else(|| panic!("the protocol lacks {name}"));
        let _ =
            writeln!(text, "| `{name}` | {} | `{code}` | {outcome} | {} |", sentence(reason.meaning()), line(metadata));
    }
    assert_page("errors", "Errors", "the reasons in the code, and their table in the protocol", &text);
}

/// The comment of an item of the protocol.
fn comment(pool_file: &prost_reflect::FileDescriptor, path: &[i32]) -> String {
    let mut locations = pool_file.file_descriptor_proto().source_code_info.iter().flat_map(|info| &info.location);
    let location = locations.find(|location| location.path == path);
    location.map_or(String::new(), |location| location.leading_comments().to_owned())
}

fn rpc_section(pool: &DescriptorPool, rpc: &MethodDescriptor) -> String {
    let options = rpc.options();
    let http = pool.get_extension_by_name("google.api.http").expect("the extension");
    let rule = options.get_extension(&http);
    let path = |method: &&str| {
        let value = rule.as_message()?.get_field_by_name(method)?;
        value.as_str().filter(|path| !path.is_empty()).map(|path| format!("`{} {path}`", method.to_uppercase()))
    };
    let path = METHODS.iter().find_map(path).unwrap_or_else(|| "gRPC alone".to_owned());
    let scope = pool.get_extension_by_name("longhand.v1.scope").expect("the extension");
    let scope = options.get_extension(&scope).as_enum_number().and_then(|number| pb::Scope::try_from(number).ok());
    let scope = scope.map_or(String::new(), |scope| scope.as_str_name().trim_start_matches("SCOPE_").to_lowercase());
    let streams = match (rpc.is_client_streaming(), rpc.is_server_streaming()) {
        (true, _) => ", takes a stream",
        (false, true) => ", answers with a stream",
        (false, false) => "",
    };
    let said = comment(&rpc.parent_service().parent_file(), rpc.path());
    format!("\n### {}\n\n{path}, scope `{scope}`{streams}\n\n{}\n", rpc.name(), line(&said))
}

#[test]
fn protocol() {
    let pool = ours_compiled().descriptor_pool();
    let ours = |service: &ServiceDescriptor| service.package_name() == "longhand.v1";
    let services: Vec<ServiceDescriptor> = pool.services().filter(ours).collect();
    assert!(services.len() > 10, "{} services", services.len());
    let mut text = String::from(
        "Each service has a file, whose comments describe the fields of requests and answers. Over HTTP a call is JSON in \
         protobuf's mapping, and `/openapi.json` describes it.\n",
    );
    for service in services {
        let file = service.parent_file();
        let _ = write!(text, "\n## {}\n\n{}\n", service.name(), line(&comment(&file, service.path())));
        let _ = writeln!(text, "Fields: [{0}](../../proto/{0}).", file.name());
        text.extend(service.methods().map(|rpc| rpc_section(&pool, &rpc)));
    }
    assert_page("protocol", "Protocol", "`proto/longhand/v1`", &text);
}

#[test]
fn preset_list() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for deviation in presets::all().iter().flat_map(presets::Preset::deviations) {
        *counts.entry(deviation).or_default() += 1;
    }
    let is_common = |deviation: &&str| counts[deviation] >= COMMON_DEVIATION_MIN;
    let mut text = String::from(
        "`longhand presets show NAME` prints each value with its source. A name without a version means the last one of \
         its agent in this list. `@seed` follows an agent's published design, `@observed` its product where that differs; \
         other versions are releases, or months and years of the code.\n\n| preset | what it is |\n| --- | --- |\n",
    );
    for preset in presets::all() {
        let _ = writeln!(text, "| `{}` | {} |", preset.name, sentence(&preset.description));
    }
    text.push_str("\n## Deliberate differences from the agents\n\nMany presets have these:\n\n");
    for deviation in counts.keys().copied().filter(|deviation| is_common(deviation)) {
        let _ = writeln!(text, "- {}", sentence(deviation));
    }
    for preset in presets::all() {
        let own: Vec<&str> = preset.deviations().into_iter().filter(|deviation| !is_common(deviation)).collect();
        if !own.is_empty() {
            let _ = write!(text, "\n### `{}`\n\n", preset.name);
            text.extend(own.into_iter().map(|deviation| format!("- {}\n", sentence(deviation))));
        }
    }
    assert_page("presets", "Presets", "the files of the presets", &text);
}

/// What the comments of the metrics say of their labels, by the metric.
fn labels_of_metrics() -> BTreeMap<String, String> {
    let source = fs::read_to_string(root().join("crates/server/src/metrics.rs")).expect("the metrics");
    let family = Regex::new(r#"((?:/// [^\n]*\n)+)const [A-Z_]+: Family =[^"]*"(\w+)""#).expect("a pattern");
    let labels = family.captures_iter(&source).map(|found| (found[2].to_owned(), line(&found[1].replace("///", ""))));
    let labels: BTreeMap<String, String> = labels.collect();
    assert!(labels.len() > 5, "{} metrics with labels", labels.len());
    labels
}

#[test]
fn metrics() {
    let shown = longhand::metrics::text(&pb::GetServerInfoResponse::default());
    let labels = labels_of_metrics();
    let mut kinds = BTreeMap::new();
    let mut text = String::from("| metric | type | meaning |\n| --- | --- | --- |\n");
    for row in shown.lines() {
        if let Some((name, kind)) = row.strip_prefix("# TYPE ").and_then(|row| row.split_once(' ')) {
            kinds.insert(name.to_owned(), kind.to_owned());
        }
    }
    for row in shown.lines() {
        if let Some((name, help)) = row.strip_prefix("# HELP ").and_then(|row| row.split_once(' ')) {
            let kind = kinds.get(name).map_or("", String::as_str);
            let suffix = if kind == "counter" { "_total" } else { "" };
            let meaning =
                format!("{} {}", sentence(help.trim_end_matches("..")), labels.get(name).map_or("", String::as_str));
            let _ = writeln!(text, "| `{name}{suffix}` | {kind} | {} |", meaning.trim());
        }
    }
    assert!(kinds.len() > 30, "{} metrics", kinds.len());
    assert_page("metrics", "Metrics", "what `/metrics` says of itself; the names are stable", &text);
}

#[test]
fn mappings() {
    let code = |words: &[String]| words.iter().map(|word| format!("`{}`", line(word))).collect::<Vec<_>>().join(" ");
    let mut text = String::from("[Working together](../working-together.md#other-protocols) says how rows are read.\n");
    for (protocol, table) in tables() {
        let _ = write!(text, "\n## {protocol}\n\n| Longhand | where | sent | fields |\n| --- | --- | --- | --- |\n");
        for row in table.rows {
            let (conditions, fields) = (code(&row.conditions), code(&row.fields));
            let _ = writeln!(text, "| `{}` | {conditions} | {} | {fields} |", row.step, row.target);
        }
        text.push_str("\nNot sent:\n\n");
        for list in table.not_sent {
            let _ = writeln!(text, "- {}: {}", code(&list.steps), list.reason);
        }
    }
    assert_page("mappings", "Mappings to other protocols", "`docs/mappings.json`", &text);
}

/// The decisions, by the titles of their pages.
#[test]
fn decisions() {
    let mut list = String::from(
        "# Decisions\n\nEach page is a decision that somebody would otherwise undo: what holds, what was rejected, and why.\n\
         Figures are of the date of the page, on a machine with 2 cores.\nA decision that changes gets a new page, and the \
         old one goes.\n\n",
    );
    let folder = root().join("docs/decisions");
    let names = fs::read_dir(&folder).expect("the decisions").map(|entry| entry.expect("an entry").file_name());
    let names: BTreeSet<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    for name in names.iter().filter(|name| *name != "README.md") {
        let page = fs::read_to_string(folder.join(name)).expect("a page");
        let title = page.lines().next().unwrap_or_default().trim_start_matches("# ");
        let _ = writeln!(list, "- [{title}]({name})");
    }
    assert_reviewed("docs/decisions/README.md", &list, "a decision was added, renamed or removed");
}

#[test]
fn limits() {
    let mut text = String::from(
        "An error names the limit that was exceeded (`LIMIT_EXCEEDED`). Sizes are bytes, and times milliseconds, unless \
         the name says otherwise.\n\n| limit | value | of |\n| --- | --- | --- |\n",
    );
    let files =
        sources("crates").into_iter().filter(|(file, _)| file.ends_with("/limits.rs") && !file.contains("secrets"));
    let mut count = 0;
    for (name, value, documented) in files.flat_map(|(_, source)| rust::constants(&source)) {
        count += 1;
        let _ = writeln!(text, "| `{name}` | `{value}` | {} |", sentence(&documented));
    }
    assert!(count > 100, "{count} limits");
    assert_page("limits", "Limits", "`limits.rs`", &text);
}

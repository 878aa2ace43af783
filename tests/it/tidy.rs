//! The project's own rules, checked on the sources: the layers of modules, the access to the outside world, the length
//! of files, and the agreement of documentation with the code.
//!
//! Rules apply to paths, not text: comments and literals are blanked first, `use` trees are flattened, imported names
//! and `super` are resolved. The rules about layers ignore everything under `#[cfg(test)]`. A syntax tree (`syn`) has no
//! paths within macros, where much of the code is; tokens have them.

mod circles;
mod paths;

use paths::{absolute, module_of, paths};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that each module may use. `ARCHITECTURE.md` has the same table. The compiler holds the arrows between the
/// crates; this test holds those within one, and keeps the table true.
const LAYERS: [(&str, &str); 31] = [
    ("model", ""),
    ("policy", "model"),
    ("fold", "model policy"),
    ("simulation", "model policy fold"),
    ("words", ""),
    ("extractive", "model policy"),
    ("interop", "model"),
    ("secrets", ""),
    ("limits", "model policy pb"),
    ("clock", "model limits"),
    ("config", "model policy limits secrets"),
    ("telemetry", ""),
    ("traffic", "limits"),
    ("turns", ""),
    ("access_log", "model limits clock"),
    ("store", "model words limits secrets clock telemetry turns"),
    ("bus", "model limits store"),
    ("search", "model words limits clock store"),
    ("loaded", "model policy fold limits config turns store"),
    ("summarizer", "model policy extractive limits clock config telemetry"),
    ("scheduler", "model policy fold extractive limits clock config telemetry store loaded summarizer"),
    (
        "app",
        "model policy fold simulation words extractive interop limits secrets clock telemetry traffic turns access_log \
         store bus search loaded summarizer scheduler",
    ),
    ("pb", "model"),
    ("metrics", "pb"),
    ("transport", "limits telemetry traffic store app"),
    ("grpc", "model limits telemetry traffic turns app pb transport"),
    ("http", "limits traffic app pb metrics"),
    ("cluster", "model limits turns store app pb grpc http"),
    (
        "daemon",
        "limits clock config policy secrets access_log store search summarizer scheduler app pb transport grpc http cluster",
    ),
    (
        "cli",
        "model policy simulation extractive interop limits secrets clock config telemetry access_log summarizer pb metrics daemon",
    ),
    ("main", "cli"),
];

/// Files that yield to other tasks, with the reason. Everything else waits for what it needs.
const YIELDS: [(&str, &str); 6] = [
    ("src/traffic/memory.rs", "a single yield starts the tasks of a test"),
    ("src/loaded/counts.rs", "other tasks run between the encodings of two texts"),
    ("tests/it/backups.rs", "a backup whose caller is gone has nobody to notify of its end"),
    ("tests/it/erase.rs", "a write that waits for its commit shows in a figure alone"),
    ("tests/it/interrupted.rs", "the end of an offer to clients is noticed by its absence"),
    ("tests/it/provider/fake.rs", "the reader takes each piece of an answer before the next is sent"),
];

/// A path that only the named modules may use.
struct Only {
    path: &'static str,
    modules: &'static [&'static str],
    rule: &'static str,
}

const ONLY: [Only; 27] = [
    Only { path: "rusqlite", modules: &["store"], rule: "SQL is in `store` only" },
    Only {
        path: "tonic",
        modules: &["pb", "transport", "grpc", "http", "cluster", "daemon", "cli"],
        rule: "gRPC stays at the edge",
    },
    Only { path: "tonic_prost", modules: &["pb"], rule: "gRPC stays at the edge" },
    Only { path: "tonic_types", modules: &["grpc", "http", "cluster", "cli"], rule: "gRPC stays at the edge" },
    Only { path: "tonic_health", modules: &["grpc", "http", "daemon", "cli"], rule: "gRPC stays at the edge" },
    Only { path: "tonic_reflection", modules: &["grpc"], rule: "gRPC stays at the edge" },
    // A provider's response can be read from a value of this crate.
    Only {
        path: "http",
        modules: &["transport", "grpc", "http", "cluster", "daemon", "cli", "summarizer"],
        rule: "HTTP stays at the edge",
    },
    Only { path: "http_body", modules: &["transport", "grpc", "cluster"], rule: "HTTP stays at the edge" },
    Only { path: "http_body_util", modules: &["transport", "grpc", "http", "cluster"], rule: "HTTP stays at the edge" },
    Only { path: "h2", modules: &["transport"], rule: "HTTP stays at the edge" },
    Only { path: "hyper", modules: &["transport"], rule: "HTTP stays at the edge" },
    Only { path: "hyper_util", modules: &["transport", "cli"], rule: "HTTP stays at the edge" },
    Only { path: "axum", modules: &["transport", "grpc", "http", "cluster", "daemon"], rule: "HTTP stays at the edge" },
    Only {
        path: "tower",
        modules: &["transport", "grpc", "http", "cluster", "daemon", "cli"],
        rule: "HTTP stays at the edge",
    },
    Only {
        path: "prost",
        modules: &["pb", "grpc", "cluster", "cli", "store"],
        rule: "protobuf is for the wire, and for the disk in `store`",
    },
    Only {
        path: "prost_types",
        modules: &["pb", "grpc", "metrics", "cluster", "cli"],
        rule: "protobuf is for the wire",
    },
    Only { path: "prost_reflect", modules: &["pb", "http", "cli"], rule: "the JSON mapping is for people" },
    Only { path: "form_urlencoded", modules: &["http"], rule: "HTTP stays at the edge" },
    Only { path: "percent_encoding", modules: &["http"], rule: "HTTP stays at the edge" },
    Only { path: "clap", modules: &["cli"], rule: "only `cli` reads flags" },
    Only { path: "anyhow", modules: &["cli", "main"], rule: "errors below `cli` have kinds" },
    Only { path: "std::time::SystemTime", modules: &["clock"], rule: "only `clock` reads the time" },
    Only { path: "std::time::Instant", modules: &["clock"], rule: "only `clock` reads the time" },
    Only { path: "jiff::Timestamp::now", modules: &["clock"], rule: "only `clock` reads the time" },
    Only { path: "jiff::Zoned::now", modules: &["clock"], rule: "only `clock` reads the time" },
    Only { path: "uuid::Uuid::now_v7", modules: &["clock"], rule: "only `clock` draws ids" },
    Only { path: "uuid::Uuid::new_v4", modules: &["clock"], rule: "only `clock` draws ids" },
];

/// Paths to the outside world that the named modules must not use.
const NEVER: [(&[&str], &str, &str); 2] = [
    (
        &["model", "policy", "fold", "simulation", "words", "extractive"],
        "std::fs std::io std::net std::env std::process std::thread std::time std::sync::Mutex std::sync::RwLock \
         std::sync::atomic std::sync::mpsc std::sync::Condvar std::sync::Barrier",
        "the pure crates do not meet the outside world",
    ),
    (
        &["interop"],
        "std::fs std::net std::env std::process std::thread",
        "`interop` has no input or output beyond what it is given",
    ),
];

/// The rooms of the store: a folder, and what its files must not use, with the reason.
const ROOMS: [(&str, &str, &str); 3] = [
    (
        "src/store/engine/",
        "crate::store::ledger crate::store::integrity crate::store::shared crate::store::writer",
        "the engine knows no rows",
    ),
    (
        "src/store/ledger/",
        "rusqlite crate::store::integrity crate::store::shared crate::store::writer crate::store::engine::files \
         crate::store::engine::connect",
        "the ledger names no engine and nothing above it",
    ),
    ("src/store/integrity/", "crate::store::shared crate::store::writer", "integrity checks files, and serves nobody"),
];

const FILE_LINES_MAX: usize = 800;

/// One breach of a rule, with its location.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Breach {
    file: String,
    line: usize,
    rule: String,
}

impl std::fmt::Display for Breach {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// True if reviewed files are to be rewritten instead of compared.
fn blessing() -> bool {
    std::env::var_os("LONGHAND_BLESS").is_some_and(|value| value == "1")
}

/// Compares a reviewed file with its expected text, or rewrites it if `LONGHAND_BLESS=1`.
pub(crate) fn assert_reviewed(file: &str, expected: &str, why: &str) {
    let path = root().join(file);
    if blessing() {
        fs::write(&path, expected).unwrap_or_else(|error| panic!("{file} cannot be written: {error}"));
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    if found == expected {
        return;
    }
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (found.lines().collect(), expected.lines().collect());
    let removed = found.lines().filter(|line| !new.contains(line)).map(|line| format!("- {line}\n"));
    let added = expected.lines().filter(|line| !old.contains(line)).map(|line| format!("+ {line}\n"));
    let changes: String = removed.chain(added).collect();
    panic!("{file} is not up to date: {why}\nLONGHAND_BLESS=1 rewrites it.\n{changes}");
}

/// All Rust files below a folder, by their paths from the root.
fn sources(folder: &str) -> BTreeMap<String, String> {
    fn visit(directory: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(directory).expect("the folder can be read") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned();
                found.insert(name, fs::read_to_string(&path).expect("a source is text"));
            }
        }
    }
    let mut found = BTreeMap::new();
    visit(&root().join(folder), &mut found);
    assert!(!found.is_empty(), "{folder} holds no sources");
    found
}

/// The source with comments and literals blanked; line numbers stay the same.
fn code_of(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let Some(end) = literal_end(&chars, at) else {
            code.push(chars[at]);
            at += 1;
            continue;
        };
        code.extend(chars[at..end].iter().map(|&char| if char == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    code
}

/// The end of the comment or literal that begins here; none if none begins here.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = |offset: usize| chars.get(at + offset).copied();
    match chars[at] {
        '/' if next(1) == Some('/') => {
            Some(chars[at..].iter().position(|&char| char == '\n').map_or(chars.len(), |length| at + length))
        }
        '/' if next(1) == Some('*') => Some(block_comment_end(chars, at)),
        '"' => Some(quoted_end(chars, at + 1, '"')),
        '\'' if next(1) == Some('\\') => Some(quoted_end(chars, at + 1, '\'')),
        '\'' if next(2) == Some('\'') => Some(at + 3),
        'r' if at == 0 || !is_word(chars[at - 1]) || "bc".contains(chars[at - 1]) => {
            let hashes = chars[at + 1..].iter().take_while(|&&char| char == '#').count();
            (next(hashes + 1) == Some('"')).then(|| raw_end(chars, at + hashes + 2, hashes))
        }
        _ => None,
    }
}

fn is_word(char: char) -> bool {
    char == '_' || char.is_alphanumeric()
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            char if char == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_end(chars: &[char], start: usize, hashes: usize) -> usize {
    (start..chars.len())
        .find(|&at| {
            chars[at] == '"' && chars[at + 1..].iter().take(hashes).filter(|&&char| char == '#').count() == hashes
        })
        .map_or(chars.len(), |at| at + 1 + hashes)
}

/// The code without everything under `#[cfg(test)]`, and the names of test modules in separate files.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let module = Regex::new(r"^\s*(?:pub(?:\([a-z ]+\))?\s+)?mod\s+(\w+)\s*;").expect("a pattern");
    let mut kept = String::with_capacity(code.len());
    let mut files = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find(ATTRIBUTE) {
        let item = &rest[start + ATTRIBUTE.len()..];
        files.extend(module.captures(item).map(|found| found[1].to_owned()));
        let end = start + ATTRIBUTE.len() + item_length(item);
        kept.push_str(&rest[..start]);
        kept.extend(rest[start..end].chars().filter(|&char| char == '\n'));
        rest = &rest[end..];
    }
    kept.push_str(rest);
    (kept, files)
}

/// The length of the item that begins here: up to its `;`, or to its closing brace.
fn item_length(item: &str) -> usize {
    let (mut braces, mut others) = (0_i32, 0_i32);
    for (at, char) in item.char_indices() {
        match char {
            '{' => braces += 1,
            '}' => braces -= 1,
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            _ => {}
        }
        if matches!(char, '}' | ';') && braces <= 0 && others <= 0 {
            return at + 1;
        }
    }
    item.len()
}

/// Checks one source file of the package against the rules about paths and words.
fn check_source(file: &str, code: &str) -> Vec<Breach> {
    let Some(own) = module_of(file).into_iter().next() else { return Vec::new() };
    let mut breaches = Vec::new();
    let mut breach = |line, rule: String| breaches.push(Breach { file: file.to_owned(), line, rule });
    let Some((_, allowed)) = LAYERS.iter().find(|(module, _)| *module == own) else {
        breach(1, format!("`{own}` is not in the table of layers"));
        return breaches;
    };
    for path in paths(file, code) {
        let shown = path.segments.join("::");
        if path.segments[0] == "crate" && path.segments.len() > 1 {
            let target = path.segments[1].as_str();
            if target != own && !allowed.split(' ').any(|name| name == target) {
                breach(path.line, format!("`{own}` may not use `{shown}`: of ours it may use [{allowed}]"));
            }
        }
        for only in ONLY.iter().filter(|only| path.reaches(only.path) && !only.modules.contains(&own.as_str())) {
            breach(path.line, format!("`{own}` may not use `{shown}`: {}", only.rule));
        }
        for (room, never, rule) in ROOMS {
            if file.starts_with(room) && never.split(' ').any(|prefix| path.reaches(prefix)) {
                breach(path.line, format!("a file of `{room}` may not use `{shown}`: {rule}"));
            }
        }
        for (modules, never, rule) in NEVER {
            if modules.contains(&own.as_str()) && never.split(' ').any(|prefix| path.reaches(prefix)) {
                breach(path.line, format!("`{own}` may not use `{shown}`: {rule}"));
            }
        }
    }
    let asynchronous = Regex::new(r"\basync\b|\.\s*await\b").expect("a pattern");
    if ["model", "policy", "fold", "simulation", "words", "extractive", "interop", "secrets"].contains(&own.as_str()) {
        for (at, _) in code.lines().enumerate().filter(|(_, line)| asynchronous.is_match(line)) {
            breach(at + 1, format!("`{own}` has nothing asynchronous"));
        }
    }
    breaches
}

/// Checks the rules for every Rust file, tests included.
fn check_text(file: &str, source: &str) -> Vec<Breach> {
    // Attackers may sleep; the tests that run them may not.
    let is_test = (file.contains("tests/") && !file.starts_with("tests/attack/src/")) || file.ends_with("tests.rs");
    let words = [
        // The lint of clippy does not read attributes of whole modules.
        (r"#!\[\s*allow\s*\(", "say `#[expect(…, reason = …)]`, which ends with its cause, not `#[allow]`"),
        (
            match is_test {
                true => r"\bsleep(?:_ms|_until)?\s*\(",
                // The load generator begins calls at a rate, in a separate thread.
                false if file.starts_with("benches/") => r"\btime\s*::\s*sleep\b",
                false => r"\bthread\s*::\s*sleep\b",
            },
            "wait for an event, not for a time",
        ),
        (r"#\[\s*ignore\b", "a test that does not run tests nothing"),
    ]
    .map(|(pattern, rule)| (Regex::new(pattern).expect("a pattern"), rule));
    let yields = Regex::new(r"\byield_now\s*\(").expect("a pattern");
    let may_yield = YIELDS.iter().any(|(path, _)| *path == file);
    // The layer under SQLite uses C interfaces.
    let unsafe_word = Regex::new(r"\bunsafe\b").expect("a pattern");
    let speaks_c = file.starts_with("tests/attack/src/vfs/");
    let note = Regex::new(r"//.*\b(?:FIX[M]E|TO[D]O|X[X]X)\b").expect("a pattern");
    let mut breaches = Vec::new();
    let mut breach = |line, rule: &str| breaches.push(Breach { file: file.to_owned(), line, rule: rule.to_owned() });
    let count = source.lines().count();
    if count > FILE_LINES_MAX {
        breach(
            count,
            &format!("{count} lines; a file of more than {FILE_LINES_MAX} lacks a name for one of its parts"),
        );
    }
    for (at, line) in code_of(source).lines().enumerate() {
        for (_, rule) in words.iter().filter(|(word, _)| word.is_match(line)) {
            breach(at + 1, rule);
        }
        if !may_yield && yields.is_match(line) {
            breach(at + 1, "wait for a commit, an event or a notification instead of polling");
        }
        if !speaks_c && unsafe_word.is_match(line) {
            breach(at + 1, "the library has no unsafe code");
        }
    }
    for (at, _) in source.lines().enumerate().filter(|(_, line)| note.is_match(line)) {
        breach(at + 1, "nothing is left for later in what is committed");
    }
    breaches
}

/// Permissions of the table of layers that no file uses.
fn unused_permissions(code: &BTreeMap<String, String>) -> Vec<Breach> {
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for (file, code) in code {
        let Some(own) = module_of(file).into_iter().next() else { continue };
        let ours = paths(file, code).into_iter().filter(|path| path.segments[0] == "crate" && path.segments.len() > 1);
        used.extend(ours.map(|path| (own.clone(), path.segments[1].clone())));
    }
    let permissions = LAYERS.iter().flat_map(|(own, allowed)| allowed.split_whitespace().map(move |name| (*own, name)));
    let unused = permissions.filter(|(own, name)| !used.contains(&((*own).to_owned(), (*name).to_owned())));
    let breach = |(own, name): (&str, &str)| Breach {
        file: "tests/it/tidy.rs".to_owned(),
        line: 1,
        rule: format!("`{own}` may use `{name}`, but does not"),
    };
    unused.map(breach).collect()
}

/// The sources of the packages without test modules. A crate beside the root is a module of that name; those of the core
/// are modules of the root, as `src/lib.rs` exports them.
fn product_code() -> BTreeMap<String, String> {
    let mut code = BTreeMap::new();
    let mut tests = Vec::new();
    let all = [
        "src",
        "crates/core/src",
        "crates/extractive/src",
        "crates/interop/src",
        "crates/protocol/src",
        "crates/secrets/src",
    ]
    .map(sources);
    for (file, source) in all.into_iter().flatten().filter(|(file, _)| file != "crates/core/src/lib.rs") {
        let (kept, test_modules) = without_tests(&code_of(&source));
        let (file, kept) = as_module(&file, kept);
        let folder = match file.strip_suffix("/mod.rs").or(file.strip_suffix("/lib.rs")) {
            Some(folder) => folder.to_owned(),
            None => file.trim_end_matches(".rs").to_owned(),
        };
        tests.extend(test_modules.into_iter().map(|module| format!("{folder}/{module}")));
        code.insert(file, kept);
    }
    code.retain(|file, _| {
        !tests.iter().any(|test| file == &format!("{test}.rs") || file.starts_with(&format!("{test}/")))
    });
    code
}

/// A source file of a crate beside the root as one of the root's modules.
fn as_module(file: &str, code: String) -> (String, String) {
    let Some((name, below)) = file.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else {
        let ours = code.replace("longhand_extractive", "crate::extractive").replace("longhand_core", "crate");
        let ours = ours.replace("longhand_interop", "crate::interop").replace("longhand_protocol", "crate::pb");
        return (file.to_owned(), ours.replace("longhand_secrets", "crate::secrets"));
    };
    if name == "core" {
        return (format!("src/{below}"), code);
    }
    let name = if name == "protocol" { "pb" } else { name };
    let file = format!("src/{name}/{}", if below == "lib.rs" { "mod.rs" } else { below });
    let own = code.replace("crate::", &format!("crate::{name}::"));
    (file, own.replace("longhand_core", "crate"))
}

fn assert_none(breaches: Vec<Breach>) {
    let lines: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    assert!(breaches.is_empty(), "{} breaches of the rules of the house:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn modules_use_only_the_layers_below_them() {
    assert_none(product_code().iter().flat_map(|(file, code)| check_source(file, code)).collect());
}

#[test]
fn every_permission_is_used() {
    assert_none(unused_permissions(&product_code()));
}

#[test]
fn files_are_short_and_finished() {
    let all = ["src", "crates", "tests", "benches", "conformance"].map(sources).into_iter().flatten();
    assert_none(all.flat_map(|(file, source)| check_text(&file, &source)).collect());
}

#[test]
fn every_exception_to_waiting_is_used() {
    let yields = |file: &str| fs::read_to_string(root().join(file)).is_ok_and(|source| source.contains("yield_now"));
    let unused: Vec<&str> = YIELDS.iter().map(|(file, _)| *file).filter(|file| !yields(file)).collect();
    assert_eq!(unused, [""; 0], "these files yield no more: take them out of the list");
}

#[test]
fn the_crate_documentation_lists_the_modules_in_reading_order() {
    let listed = |file: &str| -> Vec<String> {
        let source = fs::read_to_string(root().join(file)).expect("lib.rs is there");
        let names = |pattern: &str| -> Vec<String> {
            let pattern = Regex::new(pattern).expect("a pattern");
            pattern.captures_iter(&source).map(|found| found[1].to_owned()).collect()
        };
        let documented = names(r"(?m)^//! - \[`(\w+)`\]: \S.*$");
        // The formatter sorts the declarations; the documentation has the reading order.
        let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        let declared = names(r"(?m)^(?:pub )?mod (\w+);$");
        assert_eq!(sorted(&documented), sorted(&declared), "{file}: the map and the modules differ");
        documented
    };
    let documented = [listed("crates/core/src/lib.rs"), listed("src/lib.rs")].concat();
    let is_module = |module: &&str| !["extractive", "interop", "pb", "secrets", "main"].contains(module);
    let layers: Vec<&str> = LAYERS.iter().map(|(module, _)| *module).filter(is_module).collect();
    assert_eq!(documented, layers, "the modules of lib.rs and the table of layers differ");
}

#[test]
fn the_architecture_page_has_the_table_of_layers() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    for (module, allowed) in LAYERS {
        let names: Vec<String> = allowed.split_whitespace().map(|name| format!("`{name}`")).collect();
        let allowed = if names.is_empty() { "nothing of ours".to_owned() } else { names.join(", ") };
        let row = format!("| `{module}` | {allowed} |");
        assert!(page.lines().any(|line| line == row), "ARCHITECTURE.md lacks this row of the table of layers:\n{row}");
    }
}

/// Source files that no `mod` declares, so that they would not be compiled.
fn orphans(files: &BTreeMap<String, String>, root: &str) -> Vec<Breach> {
    let declaration = Regex::new(r"\bmod\s+(\w+)\s*;").expect("a pattern");
    let mut declared = BTreeSet::from([format!("{root}.rs"), "src/main.rs".to_owned()]);
    for (file, source) in files {
        let folder = match file.strip_suffix("/mod.rs").or(file.strip_suffix("/lib.rs")) {
            Some(folder) => folder,
            None if *file == format!("{root}.rs") => file.rsplit_once('/').map_or("", |(folder, _)| folder),
            None => file.trim_end_matches(".rs"),
        };
        for found in declaration.captures_iter(&code_of(source)) {
            declared.insert(format!("{folder}/{}.rs", &found[1]));
            declared.insert(format!("{folder}/{}/mod.rs", &found[1]));
        }
    }
    let rule = "no `mod` brings this file in, so nobody compiles it".to_owned();
    let orphan = |file: &String| Breach { file: file.clone(), line: 1, rule: rule.clone() };
    files.keys().filter(|file| !declared.contains(*file)).map(orphan).collect()
}

#[test]
fn every_file_is_compiled() {
    let roots = ["src", "crates/core/src", "crates/extractive/src", "crates/interop/src", "crates/secrets/src"];
    let libraries = roots.iter().flat_map(|root| orphans(&sources(root), &format!("{root}/lib")));
    assert_none(libraries.chain(orphans(&sources("tests/it"), "tests/it/main")).collect());
}

#[test]
fn every_limit_is_used() {
    let code = product_code();
    let limit = Regex::new(r"(?m)^pub const (\w+):").expect("a pattern");
    let files = ["src/limits.rs", "src/model/limits.rs", "src/secrets/limits.rs"];
    let all = files.iter().flat_map(|file| limit.captures_iter(&code[*file]).map(move |found| (*file, found)));
    let unused: Vec<Breach> = all
        .filter(|(_, found)| {
            let word = Regex::new(&format!(r"\b{}\b", &found[1])).expect("a pattern");
            let count: usize = code.values().map(|code| word.find_iter(code).count()).sum();
            count < 2
        })
        .map(|(file, found)| Breach {
            file: file.to_owned(),
            line: code[file][..found.get(0).expect("the match").start()].lines().count() + 1,
            rule: format!("{} bounds nothing: nobody reads it", &found[1]),
        })
        .collect();
    assert_none(unused);
}

#[test]
fn migrations_are_as_they_landed() {
    let folder = root().join("migrations");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("migrations can be read")
        .map(|entry| entry.expect("the entry can be read").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".sql"))
        .collect();
    names.sort_unstable();
    let timestamped = Regex::new(r"^\d{14}_[a-z_]+\.sql$").expect("a pattern");
    let mut sums = String::new();
    for name in names {
        assert!(timestamped.is_match(&name), "migrations/{name}: the name is a time and a subject");
        let text = fs::read(folder.join(&name)).expect("a migration can be read");
        sums.push_str(&format!("{}  {name}\n", blake3::hash(&text).to_hex()));
    }
    assert_reviewed("migrations/CHECKSUMS", &sums, "a migration that has landed is never edited; add another one");
}

#[test]
fn the_example_configuration_is_the_default_one() {
    use longhand::config::Config;
    let example = fs::read_to_string(root().join("longhand.example.toml")).expect("the example is there");
    let parsed: Config = toml::from_str(&example).expect("the example can be parsed");
    assert_eq!(parsed, Config::default(), "longhand.example.toml: what it sets is not the default");

    // Options after the first table are in tables, whose headers name the options.
    let first_table =
        Regex::new(r"(?m)^#?\[").expect("a pattern").find(&example).map_or(example.len(), |at| at.start());
    let (options, tables) = example.split_at(first_table);
    let option = Regex::new(r"(?m)^#?(\w+) = ").expect("a pattern");
    let header = Regex::new(r"(?m)^#?\[+(\w+)").expect("a pattern");
    let found = option.captures_iter(options).chain(header.captures_iter(tables));
    let named: BTreeSet<String> = found.map(|found| found[1].to_owned()).collect();
    let uncommented = Regex::new(r"(?m)^#(\w+ = |\[)").expect("a pattern").replace_all(&example, "$1").into_owned();
    toml::from_str::<Config>(&uncommented).expect("what the example has commented out can be parsed too");

    let source = fs::read_to_string(root().join("src/config.rs")).expect("config.rs is there");
    let (_, fields) = source.split_once("pub struct Config {").expect("config.rs has the options");
    let (fields, _) = fields.split_once("\n}").expect("the options end");
    let field = Regex::new(r"(?m)^    pub (\w+):").expect("a pattern");
    let fields: BTreeSet<String> = field.captures_iter(fields).map(|found| found[1].to_owned()).collect();
    assert_eq!(named, fields, "longhand.example.toml: the options it names are not those there are");
}

/// Tests of the checker: each rule finds its violations, and accepts valid code.
mod checker {
    use super::*;

    #[track_caller]
    fn check(file: &str, source: &str, expected: &[(usize, &str)]) {
        let (code, _) = without_tests(&code_of(source));
        let found = check_source(file, &code).into_iter().chain(check_text(file, source));
        let found: Vec<(usize, String)> = found.map(|breach| (breach.line, breach.rule)).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for ((line, rule), (expected_line, part)) in found.iter().zip(expected) {
            assert_eq!(line, expected_line, "{rule}");
            assert!(rule.contains(part), "{rule:?} does not say {part:?}");
        }
    }

    #[test]
    fn an_arrow_against_the_table_is_caught_however_it_is_written() {
        let rule: &[(usize, &str)] = &[(1, "`store` may not use `crate::policy")];
        check("src/store/jobs.rs", "use crate::policy::Policy;", rule);
        check("src/store/jobs.rs", "use crate::{model::Seq, policy::{self, tokens}};", &[rule[0], rule[0]]);
        check("src/store/jobs.rs", "fn f(p: &crate::policy::Policy) {}", rule);
        check("src/store/jobs.rs", "use super::super::policy;", rule);
        check("src/store/mod.rs", "use super::policy;", rule);
        check("src/store/mod.rs", "use crate as longhand;\nuse longhand::policy;", &[(2, rule[0].1)]);
        check("src/store.rs", "pub(crate) use crate::policy as p;", rule);
        check("src/store.rs", "use crate::*;", &[(1, "`crate::*`")]);
        check("src/elsewhere.rs", "", &[(1, "not in the table")]);
    }

    #[test]
    fn an_arrow_along_the_table_passes() {
        check("src/store/jobs.rs", "use super::codec;\nuse crate::model::{Revision, Seq};\nuse crate::limits;", &[]);
        check("src/store/a/b.rs", "use super::super::codec::X;", &[]);
        check("src/store/ledger/a.rs", "use crate::store::engine::{self, Row};", &[]);
        let rule = "a file of `src/store/ledger/` may not use `crate::store::writer`: the ledger names no engine and \
                    nothing above it";
        check("src/store/ledger/a.rs", "use crate::store::writer;", &[(1, rule)]);
        check(
            "src/policy/presets/pi.rs",
            "use crate::policy::{\n    Policy,\n    tokens,\n};\nfn f() { super::find(); }",
            &[],
        );
        check("src/main.rs", "use longhand::cli;\nfn main() { cli::run::<u8>() }", &[]);
        check("src/lib.rs", "pub mod model;", &[]);
    }

    #[test]
    fn a_permission_that_nothing_uses_is_caught() {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let files = [file("src/policy/a.rs", "use crate::model::Seq;"), file("src/fold.rs", "use crate::model::Seq;")];
        let found: Vec<String> = unused_permissions(&files.into()).into_iter().map(|breach| breach.rule).collect();
        assert!(found.contains(&"`fold` may use `policy`, but does not".to_owned()), "{found:?}");
        assert!(!found.iter().any(|rule| rule.contains("`policy` may use") || rule.contains("`fold` may use `model`")));
    }

    #[test]
    fn comments_literals_and_tests_are_no_code() {
        check("src/model/a.rs", "// crate::store, rusqlite::query\n/* tokio::x /* async */ anyhow::y */", &[]);
        check("src/model/a.rs", "const A: &str = \"crate::store todo!\\\" rusqlite::x\"; const B: char = '\"';", &[]);
        check(
            "src/model/a.rs",
            "const A: &str = r#\"a \" crate::store\"#;\nfn f<'a>(x: &'a str) { std::fs::read(x) }",
            &[(2, "outside world")],
        );
        check(
            "src/model/a.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::store::X;\n}\nuse crate::bus::Y;",
            &[(5, "crate::bus")],
        );
        check(
            "src/model/a.rs",
            "#[cfg(test)]\nuse crate::store::{X, Y};\n#[cfg(test)]\nfn f(x: [u8; 4]) { rusqlite::a(); }",
            &[],
        );
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_found() {
        let code = "#[cfg(test)]\nmod tests;\nmod real;\n#[cfg(test)]\npub(crate) mod dsl;";
        assert_eq!(without_tests(code).1, ["tests", "dsl"]);
    }

    #[test]
    fn files_that_nobody_declares_are_found() {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let files = [
            file("src/lib.rs", "pub mod a;\n// mod c;"),
            file("src/a.rs", "mod b;"),
            file("src/a/b.rs", ""),
            file("src/b.rs", ""),
            file("src/c.rs", ""),
        ];
        let found: Vec<String> = orphans(&files.into(), "src/lib").into_iter().map(|breach| breach.file).collect();
        assert_eq!(found, ["src/b.rs", "src/c.rs"]);
    }

    #[test]
    fn crates_stay_where_they_belong() {
        check("src/app/a.rs", "use rusqlite::Row;", &[(1, "SQL is in `store` only")]);
        check("src/app/a.rs", "fn f() -> tonic::Status { x }", &[(1, "gRPC stays at the edge")]);
        check("src/store/codec.rs", "#[derive(prost::Message)]\nstruct Row;", &[]);
        check("src/bus.rs", "use prost::Message;", &[(1, "protobuf is for the wire")]);
        check("src/scheduler/step.rs", "fn f() -> anyhow::Result<()> { x }", &[(1, "errors below `cli` have kinds")]);
        check("src/cli/mod.rs", "use anyhow::Context;\nuse prost_reflect::DynamicMessage;", &[]);
    }

    #[test]
    fn time_and_the_outside_world_come_in_at_one_place() {
        let clock = "only `clock` reads the time";
        check("src/clock.rs", "use std::time::{Instant, SystemTime};", &[]);
        check("src/app/a.rs", "use std::time::{Duration, SystemTime};", &[(1, clock)]);
        check("src/app/a.rs", "use std::time;\nfn f() { time::Instant::now(); }", &[(2, clock)]);
        check("src/app/a.rs", "use std::time::*;", &[(1, clock), (1, clock)]);
        check("src/app/a.rs", "use tokio::time::Instant;\nfn f() { Instant::now(); }", &[]);
        check("src/app/a.rs", "use uuid::Uuid;\nfn f() { Uuid::now_v7(); }", &[(2, "only `clock` draws ids")]);
        check("src/policy/a.rs", "use std::time::Duration;", &[(1, "outside world")]);
        check("src/policy/a.rs", "use std::{fmt, fs};", &[(1, "outside world")]);
        check("src/interop/a.rs", "use std::io::Read;\nfn f() { std::fs::read(x); }", &[(2, "`interop` has no input")]);
    }

    #[test]
    fn words_that_put_things_off_are_caught() {
        check("src/app/a.rs", "#![allow(dead_code)]", &[(1, "#[expect")]);
        check("src/model/a.rs", "pub async fn f() {}", &[(1, "asynchronous")]);
        check("src/app/a.rs", "fn f() { std::thread::sleep(x); }", &[(1, "wait for an event")]);
        check("src/app/a.rs", "async fn f() { tokio::time::sleep(x).await; }", &[]);
        check("src/app/a/tests.rs", "async fn f() { tokio::time::sleep(x).await; }", &[(1, "wait for an event")]);
        check("src/app/a.rs", "async fn f() { while g() { yield_now().await; } }", &[(1, "instead of polling")]);
        check("src/app/a.rs", &format!("// {}: later", ["FIX", "ME"].concat()), &[(1, "left for later")]);
        check("src/app/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}", &[(2, "tests nothing")]);
        check("src/app/a.rs", &"\n".repeat(FILE_LINES_MAX + 1), &[(FILE_LINES_MAX + 1, "lacks a name")]);
        check("src/app/a.rs", &"\n".repeat(FILE_LINES_MAX), &[]);
    }
}

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

/// The crates of the product, with the folder of each. What one may use of another is in their `Cargo.toml`s, so that the
/// compiler holds it; which of them may use a library like `rusqlite` is in `deny.toml`.
const CRATES: [(&str, &str); 17] = [
    ("model", "crates/model/src"),
    ("words", "crates/words/src"),
    ("client", "crates/client/src"),
    ("core", "crates/core/src"),
    ("presets", "crates/presets/src"),
    ("extractive", "crates/extractive/src"),
    ("interop", "crates/interop/src"),
    ("protocol", "crates/protocol/src"),
    ("secrets", "crates/secrets/src"),
    ("runtime", "crates/runtime/src"),
    ("engine", "crates/engine/src"),
    ("engine-postgres", "crates/engine-postgres/src"),
    ("search", "crates/search/src"),
    ("store", "crates/store/src"),
    ("scheduler", "crates/scheduler/src"),
    ("server", "crates/server/src"),
    ("longhand", "src"),
];

/// Files that yield to other tasks, with the reason. Everything else waits for what it needs.
const YIELDS: [(&str, &str); 6] = [
    ("crates/runtime/src/traffic/memory.rs", "a single yield starts the tasks of a test"),
    ("crates/scheduler/src/loaded/counts.rs", "other tasks run between the encodings of two texts"),
    ("tests/it/backups.rs", "a backup whose caller is gone has nobody to notify of its end"),
    ("tests/it/erase.rs", "a write that waits for its commit shows in a figure alone"),
    ("tests/it/interrupted.rs", "the end of an offer to clients is noticed by its absence"),
    ("tests/it/provider/fake.rs", "the reader takes each piece of an answer before the next is sent"),
];

/// What is everywhere in a crate.
const ALL: &[&str] = &[""];

/// Paths that files of a crate must not use: the crate (`*` for all but that of the clock), the beginnings of its modules,
/// the paths, and the reason.
const NEVER: [(&str, &[&str], &str, &str); 11] = [
    ("model", ALL, OUTSIDE, "the pure crates do not meet the outside world"),
    ("words", ALL, OUTSIDE, "the pure crates do not meet the outside world"),
    ("core", ALL, OUTSIDE, "the pure crates do not meet the outside world"),
    ("presets", ALL, OUTSIDE, "the pure crates do not meet the outside world"),
    ("extractive", ALL, OUTSIDE, "the pure crates do not meet the outside world"),
    (
        "interop",
        ALL,
        "std::fs std::net std::env std::process std::thread",
        "`interop` has no input or output beyond what it is given",
    ),
    ("core", &["policy"], "crate::fold crate::simulation", "a policy knows no session"),
    (
        "store",
        &["ledger"],
        "crate::integrity crate::shared crate::writer crate::engine::files crate::engine::connect",
        "the ledger names no engine and nothing above it",
    ),
    ("store", &["integrity"], "crate::shared crate::writer", "integrity checks files, and serves nobody"),
    (
        "server",
        &["access_log", "bus", "search", "app"],
        "crate::pb crate::metrics crate::transport crate::grpc crate::http crate::cluster crate::daemon tonic \
         tonic_types tonic_health tonic_reflection prost prost_types prost_reflect http http_body http_body_util h2 hyper \
         hyper_util axum tower form_urlencoded percent_encoding",
        "the network stays at the doors",
    ),
    (
        "*",
        ALL,
        "std::time::SystemTime std::time::Instant jiff::Timestamp::now jiff::Zoned::now uuid::Uuid::now_v7 \
         uuid::Uuid::new_v4",
        "only `clock` reads the time and draws ids",
    ),
];

/// The outside world.
const OUTSIDE: &str = "std::fs std::io std::net std::env std::process std::thread std::time std::sync::Mutex \
     std::sync::RwLock std::sync::atomic std::sync::mpsc std::sync::Condvar std::sync::Barrier";

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

pub(crate) fn root() -> PathBuf {
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
pub(crate) fn sources(folder: &str) -> BTreeMap<String, String> {
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

/// Checks one source file of a crate against the rules about paths and words.
fn check_source(name: &str, file: &str, code: &str) -> Vec<Breach> {
    let own = module_of(file);
    let module = own.first().map_or("", String::as_str);
    let mut breaches = Vec::new();
    let mut breach = |line, rule: String| breaches.push(Breach { file: format!("{name}: {file}"), line, rule });
    let holds = |(of, modules, ..): &(&str, &[&str], &str, &str)| {
        let is_of = *of == name || (*of == "*" && (name, module) != ("runtime", "clock"));
        is_of && modules.iter().any(|prefix| prefix.is_empty() || *prefix == module)
    };
    let rules: Vec<_> = NEVER.into_iter().filter(holds).collect();
    for path in paths(file, code) {
        for (_, _, never, rule) in &rules {
            if never.split_whitespace().any(|prefix| path.reaches(prefix)) {
                breach(path.line, format!("`{name}::{module}` may not use `{}`: {rule}", path.segments.join("::")));
            }
        }
    }
    let asynchronous = Regex::new(r"\basync\b|\.\s*await\b").expect("a pattern");
    if ["model", "words", "core", "presets", "extractive", "interop", "secrets"].contains(&name) {
        for (at, _) in code.lines().enumerate().filter(|(_, line)| asynchronous.is_match(line)) {
            breach(at + 1, format!("`{name}` has nothing asynchronous"));
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

/// The sources of a crate without test modules, by their paths as if its folder were the root's.
fn product_code(folder: &str) -> BTreeMap<String, String> {
    let mut code = BTreeMap::new();
    let mut tests = Vec::new();
    for (file, source) in sources(folder) {
        let file = format!("src{}", file.strip_prefix(folder).expect("it is in the folder"));
        let (kept, test_modules) = without_tests(&code_of(&source));
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

fn assert_none(breaches: Vec<Breach>) {
    let lines: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    assert!(breaches.is_empty(), "{} breaches of the rules of the house:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn files_use_nothing_that_is_kept_from_them() {
    let check = |(name, folder): (&str, &str)| -> Vec<Breach> {
        product_code(folder).iter().flat_map(|(file, code)| check_source(name, file, code)).collect()
    };
    assert_none(CRATES.into_iter().flat_map(check).collect());
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
fn the_documentation_of_a_crate_lists_its_modules() {
    for name in ["core", "runtime", "scheduler", "server"] {
        let file = format!("crates/{name}/src/lib.rs");
        let source = fs::read_to_string(root().join(&file)).expect("lib.rs is there");
        let names = |pattern: &str| -> BTreeSet<String> {
            let pattern = Regex::new(pattern).expect("a pattern");
            pattern.captures_iter(&source).map(|found| found[1].to_owned()).collect()
        };
        let documented = names(r"(?m)^//! - \[`(\w+)`\]: \S.*$");
        let declared = names(r"(?m)^(?:pub )?mod (\w+);$");
        assert_eq!(documented, declared, "{file}: the map and the modules differ");
    }
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    for (name, _) in CRATES {
        let row = if name == "longhand" { "| `longhand` |".to_owned() } else { format!("| `longhand-{name}` |") };
        assert!(page.lines().any(|line| line.starts_with(&row)), "ARCHITECTURE.md lacks the row {row} of its crates");
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
    let libraries = CRATES.iter().flat_map(|(_, root)| orphans(&sources(root), &format!("{root}/lib")));
    assert_none(libraries.chain(orphans(&sources("tests/it"), "tests/it/main")).collect());
}

#[test]
fn every_limit_is_used() {
    let all = CRATES.map(|(name, folder)| (name, product_code(folder)));
    let code: BTreeMap<String, &String> = all
        .iter()
        .flat_map(|(name, code)| code.iter().map(move |(file, code)| (format!("{name}: {file}"), code)))
        .collect();
    let limit = Regex::new(r"(?m)^pub const (\w+):").expect("a pattern");
    let files = ["runtime: src/limits.rs", "model: src/limits.rs", "secrets: src/limits.rs"];
    let all = files.iter().flat_map(|file| limit.captures_iter(code[*file]).map(move |found| (*file, found)));
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

    let source = fs::read_to_string(root().join("crates/scheduler/src/config.rs")).expect("config.rs is there");
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
    fn check(name: &str, file: &str, source: &str, expected: &[(usize, &str)]) {
        let (code, _) = without_tests(&code_of(source));
        let found = check_source(name, file, &code).into_iter().chain(check_text(file, source));
        let found: Vec<(usize, String)> = found.map(|breach| (breach.line, breach.rule)).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for ((line, rule), (expected_line, part)) in found.iter().zip(expected) {
            assert_eq!(line, expected_line, "{rule}");
            assert!(rule.contains(part), "{rule:?} does not say {part:?}");
        }
    }

    #[test]
    fn what_is_kept_from_a_file_is_found_however_it_is_written() {
        let rule: &[(usize, &str)] = &[(1, "may not use `crate::writer")];
        check("store", "src/ledger/a.rs", "use crate::writer::Mutation;", rule);
        check("store", "src/ledger/a.rs", "use crate::{engine::Row, writer::{self, Mutation}};", &[rule[0], rule[0]]);
        check("store", "src/ledger/a.rs", "fn f(p: &crate::writer::Mutation) {}", rule);
        check("store", "src/ledger/a.rs", "use super::super::writer;", rule);
        check("store", "src/ledger/mod.rs", "use super::writer as w;", rule);
        check("store", "src/ledger/a.rs", "use crate::*;", &[(1, "`crate::*`")]);
        check("store", "src/ledger/a/b.rs", "use super::super::codec::X;\nuse crate::engine::{self, Row};", &[]);
        check("store", "src/views.rs", "use crate::writer::Mutation;", &[]);
        check("server", "src/app/a.rs", "fn f() -> tonic::Status { x }", &[(1, "the network stays at the doors")]);
        check("server", "src/grpc/a.rs", "fn f() -> tonic::Status { x }", &[]);
    }

    #[test]
    fn comments_literals_and_tests_are_no_code() {
        check("core", "src/policy/a.rs", "// std::fs, crate::policy\n/* std::io::x /* async */ std::net::y */", &[]);
        check(
            "core",
            "src/policy/a.rs",
            "const A: &str = \"crate::policy todo!\\\" std::fs::x\"; const B: char = '\"';",
            &[],
        );
        check(
            "core",
            "src/policy/a.rs",
            "const A: &str = r#\"a \" crate::policy\"#;\nfn f<'a>(x: &'a str) { std::fs::read(x) }",
            &[(2, "outside world")],
        );
        check(
            "core",
            "src/policy/a.rs",
            "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\nuse std::env;",
            &[(5, "outside world")],
        );
        check(
            "core",
            "src/policy/a.rs",
            "#[cfg(test)]\nuse crate::policy::{X, Y};\n#[cfg(test)]\nfn f(x: [u8; 4]) { std::fs::a(); }",
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
    fn time_and_the_outside_world_come_in_at_one_place() {
        let clock = "only `clock` reads the time";
        check("runtime", "src/clock.rs", "use std::time::{Instant, SystemTime};", &[]);
        check("server", "src/app/a.rs", "use std::time::{Duration, SystemTime};", &[(1, clock)]);
        check("server", "src/app/a.rs", "use std::time;\nfn f() { time::Instant::now(); }", &[(2, clock)]);
        check("server", "src/app/a.rs", "use std::time::*;", &[(1, clock)]);
        check("server", "src/app/a.rs", "use tokio::time::Instant;\nfn f() { Instant::now(); }", &[]);
        check("server", "src/app/a.rs", "use uuid::Uuid;\nfn f() { Uuid::now_v7(); }", &[(2, "draws ids")]);
        check("core", "src/policy/a.rs", "use std::time::Duration;", &[(1, "outside world")]);
        check("core", "src/policy/a.rs", "use std::{fmt, fs};", &[(1, "outside world")]);
        check(
            "interop",
            "src/a.rs",
            "use std::io::Read;\nfn f() { std::fs::read(x); }",
            &[(2, "`interop` has no input")],
        );
    }

    #[test]
    fn words_that_put_things_off_are_caught() {
        check("server", "src/app/a.rs", "#![allow(dead_code)]", &[(1, "#[expect")]);
        check("core", "src/policy/a.rs", "pub async fn f() {}", &[(1, "asynchronous")]);
        check("server", "src/app/a.rs", "fn f() { std::thread::sleep(x); }", &[(1, "wait for an event")]);
        check("server", "src/app/a.rs", "async fn f() { tokio::time::sleep(x).await; }", &[]);
        check(
            "server",
            "src/app/a/tests.rs",
            "async fn f() { tokio::time::sleep(x).await; }",
            &[(1, "wait for an event")],
        );
        check(
            "server",
            "src/app/a.rs",
            "async fn f() { while g() { yield_now().await; } }",
            &[(1, "instead of polling")],
        );
        check("server", "src/app/a.rs", &format!("// {}: later", ["FIX", "ME"].concat()), &[(1, "left for later")]);
        check("server", "src/app/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}", &[(2, "tests nothing")]);
        check("server", "src/app/a.rs", &"\n".repeat(FILE_LINES_MAX + 1), &[(FILE_LINES_MAX + 1, "lacks a name")]);
        check("server", "src/app/a.rs", &"\n".repeat(FILE_LINES_MAX), &[]);
    }
}

//! `docs/policies.md` against the types of policies: every option, its default, and the examples.

use longhand::policy::validate::validate;
use longhand::policy::{Counting, LevelPolicy, Policy, Prune, Summarize};
use longhand::presets;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Fields, GenericArgument, Item, PathArguments, Type};

/// The groups of options: the heading on the page and the type. An option whose type has a group of its own is described
/// there.
const GROUPS: [(&str, &str); 6] = [
    ("Policy", "Policy"),
    ("Levels", "LevelPolicy"),
    ("Prune", "Prune"),
    ("Omit", "Omission"),
    ("Summarize", "Summarize"),
    ("Counting", "Counting"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/policies.md")).expect("the page")
}

/// The files with the parameters of one agent each, relative to the root.
fn agent_files() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("crates/presets/src")).expect("the presets");
    let files = folders.map(|folder| folder.expect("a folder").path().join("parameters.rs"));
    files.filter(|file| file.exists()).map(|file| file.strip_prefix(root()).expect("below").to_owned()).collect()
}

/// The types with general options, by name. Parameters of one agent are not among them.
fn types() -> BTreeMap<String, Item> {
    let mut types = BTreeMap::new();
    for file in fs::read_dir(root().join("crates/core/src/policy/parameters")).expect("the parameters") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("a source");
        for item in syn::parse_file(&text).expect("Rust").items {
            match &item {
                Item::Struct(item_struct) => types.insert(item_struct.ident.to_string(), item.clone()),
                Item::Enum(item_enum) => types.insert(item_enum.ident.to_string(), item.clone()),
                _ => None,
            };
        }
    }
    types
}

/// The name of a type, or of the type in an `Option`, a list or a box.
fn type_name(mut of: &Type) -> String {
    loop {
        let Type::Path(path) = of else { return String::new() };
        let last = path.path.segments.last().expect("a segment");
        match &last.arguments {
            PathArguments::AngleBracketed(inner) => match inner.args.first() {
                Some(GenericArgument::Type(inner)) => of = inner,
                _ => return String::new(),
            },
            _ => return last.ident.to_string(),
        }
    }
}

/// The argument of a `serde` attribute such as `rename`; empty for one without a value.
fn serde(attributes: &[syn::Attribute], name: &str) -> Option<String> {
    let mut found = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute
            .parse_nested_meta(|meta| {
                let value = match meta.value() {
                    Ok(value) => value.parse::<syn::LitStr>()?.value(),
                    Err(_) => String::new(),
                };
                found = found.take().or(meta.path.is_ident(name).then_some(value));
                Ok(())
            })
            .expect("an attribute of serde");
    }
    found
}

fn snake_case(name: &str) -> String {
    Regex::new("(.)([A-Z])").expect("a pattern").replace_all(name, "${1}_$2").to_lowercase()
}

/// The options of a type, as paths in its JSON, and the words that are values of options.
#[derive(Default)]
struct Options {
    paths: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl Options {
    fn collect(&mut self, types: &BTreeMap<String, Item>, name: &str, path: &str, outer: &[&str]) {
        let is_described_elsewhere = !outer.is_empty() && (name == "Step" || GROUPS.iter().any(|(_, of)| *of == name));
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let inner = [outer, &[name]].concat();
        let mut fields = |fields: &Fields, path: &dyn Fn(&str) -> String| {
            for field in fields.iter().filter(|field| serde(&field.attrs, "skip").is_none()) {
                let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                self.collect(types, &type_name(&field.ty), &path(&name), &inner);
            }
        };
        match types.get(name) {
            Some(Item::Struct(item)) if !is_described_elsewhere && !outer.contains(&name) => {
                fields(&item.fields, &join)
            }
            Some(Item::Enum(item))
                if !is_described_elsewhere && !outer.contains(&name) && serde(&item.attrs, "untagged").is_none() =>
            {
                // What another crate supplies is no option of this one.
                let is_option = |variant: &&syn::Variant| {
                    !matches!(variant.fields, Fields::Unit) && serde(&variant.attrs, "skip").is_none()
                };
                for variant in item.variants.iter().filter(is_option) {
                    let renamed = serde(&variant.attrs, "rename");
                    let name = join(&renamed.unwrap_or_else(|| snake_case(&variant.ident.to_string())));
                    let below = |field: &str| if field.is_empty() { name.clone() } else { format!("{name}.{field}") };
                    fields(&variant.fields, &below);
                }
                let units = item.variants.iter().filter(|variant| matches!(variant.fields, Fields::Unit));
                let words: Vec<String> = units.map(|variant| snake_case(&variant.ident.to_string())).collect();
                if words.len() == item.variants.len() {
                    self.paths.insert(path.to_owned());
                }
                self.words.extend(words);
            }
            _ => {
                self.paths.insert(path.to_owned());
            }
        }
    }
}

/// The options of a group that are strategies of a single agent.
fn supplied(heading: &str) -> Vec<String> {
    let strategies = presets::strategies();
    match heading {
        "Omit" => strategies.omissions.iter().map(|reader| reader.name.to_owned()).collect(),
        "Counting" => strategies.counts.iter().map(|reader| format!("per.{}", reader.name)).collect(),
        _ => Vec::new(),
    }
}

/// A row of a table: the options that it describes, and their default.
struct Row {
    paths: Vec<String>,
    default: String,
}

fn rows(section: &str) -> Vec<Row> {
    let option = Regex::new(r"`([^`]+)`(?: \{([^}]*)\})?").expect("a pattern");
    let cells =
        section.lines().filter(|line| line.starts_with("| `")).map(|line| line.split(" | ").collect::<Vec<_>>());
    let row = |cells: Vec<&str>| {
        let mut paths = Vec::new();
        for found in option.captures_iter(cells[0]) {
            match found.get(2) {
                Some(inner) => {
                    let names = inner.as_str().split(", ").map(|name| name.trim_matches('`'));
                    paths.extend(names.map(|name| format!("{}.{name}", &found[1])));
                }
                None => paths.push(found[1].to_owned()),
            }
        }
        Row { paths, default: cells.get(1).unwrap_or(&"").trim_start_matches("| ").to_owned() }
    };
    cells.map(row).collect()
}

fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, behind) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    behind.split("\n## ").next().unwrap_or(behind)
}

#[test]
fn the_page_names_every_option_and_no_other() {
    let (page, types) = (page(), types());
    let mut words_of_all = BTreeSet::new();
    for (heading, name) in GROUPS {
        let mut options = Options::default();
        options.collect(&types, name, "", &[]);
        let text = section(&page, heading);
        let named: Vec<String> = rows(text).into_iter().flat_map(|row| row.paths).collect();
        let supplied = supplied(heading);
        assert!(options.paths.len() + supplied.len() > 2, "{name} has options");
        // A strategy without options is named as one.
        let exists =
            |path: &String| options.paths.contains(path) || options.words.contains(path) || supplied.contains(path);
        let unknown: Vec<&String> = named.iter().filter(|path| !exists(path)).collect();
        let all = options.paths.iter().chain(&supplied);
        let missing: Vec<&String> = all.filter(|path| !named.contains(path)).collect();
        assert!(unknown.is_empty() && missing.is_empty(), "{heading}: unknown {unknown:?}, missing {missing:?}");
        let unnamed = options.words.iter().filter(|word| !text.contains(&format!("`{word}`")));
        assert_eq!(unnamed.collect::<Vec<_>>(), Vec::<&String>::new(), "{heading}: values");
        words_of_all.extend(options.words);
    }
    assert!(words_of_all.contains("until_pruned") && words_of_all.contains("blocked"), "{words_of_all:?}");
}

/// The default of an option as the page states it; none for a value that a table has no room for.
fn stated(defaults: &Value, path: &str) -> Option<String> {
    let mut value = defaults;
    for name in path.split('.') {
        match value {
            Value::Object(fields) => value = fields.get(name)?,
            _ => break,
        }
    }
    match value {
        Value::Null => Some("none".to_owned()),
        Value::Array(items) => items.is_empty().then(|| "none".to_owned()),
        Value::String(text) if text.is_empty() => Some("none".to_owned()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(format!("`{value}`")),
        Value::Object(_) => None,
    }
}

#[test]
fn the_page_states_the_defaults() {
    let page = page();
    let level = r#"{"threshold": {"limit": {"ratio": 0.5}}, "steps": []}"#;
    let level: LevelPolicy = serde_json::from_str(level).expect("a level");
    let json = |value: serde_json::Result<Value>| value.expect("JSON");
    let mut compared = 0;
    for (heading, defaults) in [
        ("Policy", json(serde_json::to_value(Policy::default()))),
        ("Levels", json(serde_json::to_value(level))),
        ("Prune", json(serde_json::to_value(Prune::default()))),
        ("Summarize", json(serde_json::to_value(Summarize::default()))),
        ("Counting", json(serde_json::to_value(Counting::default()))),
    ] {
        for Row { paths, default } in rows(section(&page, heading)) {
            let is_value = default == "none" || default.starts_with('`');
            for path in paths.iter().filter(|_| is_value) {
                assert_eq!(Some(&default), stated(&defaults, path).as_ref(), "{heading}: {path}");
                compared += 1;
            }
        }
    }
    assert!(compared > 80, "{compared} options have a default");
}

#[test]
fn the_examples_are_valid() {
    let page = page();
    let (_, behind) = page.split_once("```json\n").expect("an example");
    let (whole, _) = behind.split_once("```").expect("its end");
    let policy = presets::read(whole).expect("a policy");
    assert_eq!(validate(&policy), []);
    assert!(policy.micro.is_some() && policy.auto.is_some());
    let patch = Regex::new(r"`(\{.*\})`\.").expect("a pattern").captures(&page).expect("a patch")[1].to_owned();
    let (_, behind) = page.split_once("```toml\n").expect("a file");
    presets::parse(behind.split("```").next().expect("its text")).expect("a valid file");
    let seed = presets::policy("opencode@seed");
    assert_ne!(seed.with_overrides(&patch).expect("a valid patch"), seed);
}

#[test]
fn the_page_points_to_the_options_of_each_agent() {
    let page = page();
    let files = agent_files();
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        assert!(page.contains(&format!("(../{})", file.display())), "{} is not linked", file.display());
    }
}

#[test]
fn the_readme_lists_every_preset() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the page");
    let table = readme.split("| agent | presets |").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a table");
    let listed: BTreeSet<&str> = table.split('`').skip(1).step_by(2).collect();
    let there: BTreeSet<&str> = presets::all().iter().map(|preset| preset.name.as_str()).collect();
    assert_eq!(listed, there);
}

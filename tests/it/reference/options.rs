//! The options of policies, by the types that a policy is read into.

use super::{assert_page, line, rust, sentence};
use crate::tidy::sources;
use longhand::policy::{LevelPolicy, Policy, Prune, Summarize};
use longhand::presets;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use syn::{Attribute, Fields, GenericArgument, Item, PathArguments, Type};

/// True for a type that is read from JSON.
fn is_read(attributes: &[Attribute]) -> bool {
    let mut derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    derives.any(|attribute| {
        let mut is_read = false;
        let _ = attribute.parse_nested_meta(|meta| {
            is_read |= meta.path.segments.last().is_some_and(|last| last.ident == "Deserialize");
            Ok(())
        });
        is_read
    })
}

/// The types of options by name. They are in modules with this name.
fn types() -> BTreeMap<String, Item> {
    let mut types = BTreeMap::new();
    for source in
        sources("crates").into_iter().filter(|(file, _)| file.contains("/parameters")).map(|(_, source)| source)
    {
        for item in syn::parse_file(&source).expect("Rust").items {
            match &item {
                Item::Struct(one) if is_read(&one.attrs) => types.insert(one.ident.to_string(), item.clone()),
                Item::Enum(one) if is_read(&one.attrs) => types.insert(one.ident.to_string(), item.clone()),
                _ => None,
            };
        }
    }
    types
}

/// The name of a type, or of the type in an `Option`, a list or a box, and what is around it.
fn type_name(of: &Type) -> (String, &'static str) {
    let Type::Path(path) = of else { return (String::new(), "") };
    let last = path.path.segments.last().expect("a segment");
    let PathArguments::AngleBracketed(inner) = &last.arguments else { return (last.ident.to_string(), "") };
    let Some(GenericArgument::Type(inner)) = inner.args.first() else { return (String::new(), "") };
    let around = if last.ident == "Vec" { "list of " } else { "" };
    let (name, within) = type_name(inner);
    (name, if within.is_empty() { around } else { within })
}

/// The argument of a `serde` attribute such as `rename`; empty for one without a value.
fn serde(attributes: &[Attribute], name: &str) -> Option<String> {
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

fn default_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Object(_)) => String::new(),
        Some(Value::Null) => "none".to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "none".to_owned(),
        Some(Value::Array(_)) => "see type".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "none".to_owned(),
        Some(value) => format!("`{}`", line(&value.to_string())),
    }
}

/// The reference in the making: sections, and the types that they name.
struct Reference {
    types: BTreeMap<String, Item>,
    due: VecDeque<(String, Option<Value>)>,
    done: Vec<String>,
    text: String,
    rows: usize,
}

impl Reference {
    /// A type as a cell shows it, with a link to its section.
    fn shown(&mut self, of: &Type, value: Option<&Value>) -> String {
        let (name, around) = type_name(of);
        if self.types.contains_key(&name) {
            self.due.push_back((name.clone(), value.filter(|value| value.is_object()).cloned()));
            return format!("{around}[{name}](#{})", name.to_lowercase());
        }
        let plain = match name.as_str() {
            "String" => "text",
            "bool" => "yes or no",
            "f64" => "ratio",
            _ => "number",
        };
        format!("{around}{plain}")
    }

    fn row(&mut self, name: &str, of: &str, default: &str, meaning: &str) {
        self.rows += 1;
        let _ = writeln!(self.text, "| `{name}` | {of} | {default} | {} |", sentence(meaning));
    }

    fn fields(&mut self, fields: &Fields, prefix: &str, defaults: Option<&Value>) {
        for field in fields.iter().filter(|field| serde(&field.attrs, "skip").is_none()) {
            let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let value = defaults.and_then(|defaults| defaults.get(&name));
            let of = self.shown(&field.ty, value);
            // A struct has its defaults in its own section.
            let is_choice = matches!(self.types.get(&type_name(&field.ty).0), Some(Item::Enum(_)));
            let default = match value {
                Some(choice @ Value::Object(_)) if is_choice => format!("`{}`", line(&choice.to_string())),
                _ => default_text(value),
            };
            self.row(&format!("{prefix}{name}"), &of, &default, &rust::documented(&field.attrs));
        }
    }

    /// The strategies that only agents have, among the values of an enum: their readers are listed beside the presets.
    fn strategies(&mut self, of: &str) {
        let strategies = presets::strategies();
        let (kind, readers): (_, Vec<&str>) = match of {
            "Omission" => ("omission", strategies.omissions.iter().map(|reader| reader.name).collect()),
            "CountPer" => ("count", strategies.counts.iter().map(|reader| reader.name).collect()),
            "Replacement" => ("excerpt", strategies.excerpts.iter().map(|reader| reader.name).collect()),
            _ => return,
        };
        let source = &sources("crates")["crates/presets/src/lib.rs"];
        let reader = Regex::new(&format!(r"Reader::{kind}::<(\w+)>")).expect("a pattern");
        let types: Vec<&str> =
            reader.captures_iter(source).map(|found| found.get(1).map_or("", |name| name.as_str())).collect();
        assert_eq!(types.len(), readers.len(), "{of}");
        for (name, type_name) in readers.into_iter().zip(types) {
            let attributes = match self.types.get(type_name) {
                Some(Item::Struct(item)) => item.attrs.clone(),
                _ => Vec::new(),
            };
            let of = format!("[{type_name}](#{})", type_name.to_lowercase());
            self.row(name, &of, "", &rust::documented(&attributes));
        }
    }

    fn section(&mut self, name: &str, defaults: Option<&Value>) {
        let item = self.types.get(name).cloned().expect("a type");
        let (Item::Struct(syn::ItemStruct { attrs, .. }) | Item::Enum(syn::ItemEnum { attrs, .. })) = &item else {
            return;
        };
        let _ = write!(self.text, "\n## {name}\n\n{}\n", sentence(&rust::documented(attrs)));
        match &item {
            Item::Struct(item) => {
                self.text.push_str("\n| option | type | default | meaning |\n| --- | --- | --- | --- |\n");
                self.fields(&item.fields, "", defaults);
            }
            Item::Enum(item) => {
                self.text.push_str("\nOne of:\n\n| value | type | default | meaning |\n| --- | --- | --- | --- |\n");
                for variant in item.variants.iter().filter(|variant| serde(&variant.attrs, "skip").is_none()) {
                    let name =
                        serde(&variant.attrs, "rename").unwrap_or_else(|| snake_case(&variant.ident.to_string()));
                    let meaning = rust::documented(&variant.attrs);
                    match &variant.fields {
                        Fields::Unit => self.row(&name, "word", "", &meaning),
                        Fields::Unnamed(fields) => {
                            let of = self.shown(&fields.unnamed[0].ty, None);
                            self.row(&name, &of, "", &meaning);
                        }
                        Fields::Named(_) => {
                            self.row(&name, "object", "", &meaning);
                            self.fields(&variant.fields, &format!("{name}."), None);
                        }
                    }
                }
                self.strategies(name);
            }
            _ => {}
        }
    }
}

#[test]
fn policy_options() {
    let level = r#"{"threshold": {"limit": {"ratio": 0.5}}, "steps": []}"#;
    let level: LevelPolicy = serde_json::from_str(level).expect("a level");
    let json = |value: serde_json::Result<Value>| Some(value.expect("JSON"));
    let mut level = json(serde_json::to_value(level));
    // Both are required.
    for required in ["threshold", "steps"] {
        level.as_mut().and_then(Value::as_object_mut).expect("an object").remove(required);
    }
    let first = [
        ("Policy", json(serde_json::to_value(Policy::default()))),
        ("LevelPolicy", level),
        ("Prune", json(serde_json::to_value(Prune::default()))),
        ("Summarize", json(serde_json::to_value(Summarize::default()))),
    ];
    let due = first.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut reference = Reference { types: types(), due, done: Vec::new(), text: String::new(), rows: 0 };
    reference.text.push_str(
        "[Policies](../policies.md) explains how a policy is written. Options with a default may be missing; unknown ones are \
         refused. Names end in their unit: `_tokens` by the policy's counting, `_units` in `counting.unit`, `_ratio` between \
         0 and 1. A limit of 0 is none.\n",
    );
    // Types that no other one names are parameters that a preset's own code reads.
    let all: Vec<String> = reference.types.keys().cloned().collect();
    while let Some((name, defaults)) = reference.due.pop_front().or_else(|| {
        let left = all.iter().find(|name| !reference.done.contains(name))?;
        Some((left.clone(), None))
    }) {
        if !reference.done.contains(&name) {
            reference.done.push(name.clone());
            reference.section(&name, defaults.as_ref());
        }
    }
    assert!(reference.rows > 150, "{} options", reference.rows);
    assert_page("policy", "Policy options", "the types that a policy is read into", &reference.text);
}

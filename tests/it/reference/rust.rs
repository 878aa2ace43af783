//! What sources say in doc comments.

use regex::Regex;
use syn::{Attribute, Expr, Item, Lit, Meta};

/// The doc comment of an item in one line, without links of rustdoc.
pub(super) fn documented(attributes: &[Attribute]) -> String {
    let link = Regex::new(r"\[(`[^`]+`)\](?:\([^)]*\))?").expect("a pattern");
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(meta) = &attribute.meta
            && let Expr::Lit(literal) = &meta.value
            && let Lit::Str(text) = &literal.lit
        {
            lines.push(text.value());
        }
    }
    link.replace_all(&lines.join(" "), "$1").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Name, value and comment of each public constant of a source.
pub(super) fn constants(source: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for item in syn::parse_file(source).expect("Rust").items {
        if let Item::Const(item) = item
            && matches!(item.vis, syn::Visibility::Public(_))
        {
            let name = item.ident.to_string();
            // The text of the source is what a reader knows: `8 * 1024 * 1024`.
            let value = Regex::new(&format!(r"(?s)\bconst {name}: [^=]+ = (.*?);\n")).expect("a pattern");
            let value = value.captures(source).map_or("", |found| found.get(1).map_or("", |value| value.as_str()));
            found.push((name, value.split_whitespace().collect::<Vec<_>>().join(" "), documented(&item.attrs)));
        }
    }
    found
}

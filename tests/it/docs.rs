//! The documents: their links lead somewhere, and they stay short.

use crate::tidy::root;
use regex::Regex;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Most words of a page, and of all that is written by hand.
const WORDS_MAX: [(&str, usize); 4] =
    [("README.md", 1_000), ("ARCHITECTURE.md", 3_500), ("CONTRIBUTING.md", 1_000), ("", 28_000)];
const DECISION_WORDS_MAX: usize = 150;

/// Folders without pages of ours, beside the hidden ones.
const FOREIGN: [&str; 4] = ["target", "node_modules", "venv", "dist"];

fn is_generated(name: &str) -> bool {
    name.starts_with("docs/reference/") || name == "docs/decisions/README.md"
}

/// All pages by their paths from the root.
fn pages() -> BTreeMap<String, String> {
    fn visit(folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !FOREIGN.contains(&name.as_str()) {
                visit(&path, found);
            } else if path.is_file() && (name.ends_with(".md") || name == "llms.txt") {
                let shown = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
                found.insert(shown, fs::read_to_string(&path).expect("a page is text"));
            }
        }
    }
    let mut found = BTreeMap::new();
    visit(&root(), &mut found);
    assert!(found.len() > 30, "{} pages", found.len());
    found
}

/// The page without its blocks of code.
fn prose(page: &str) -> String {
    Regex::new(r"(?ms)^ *```.*?^ *```").expect("a pattern").replace_all(page, "").into_owned()
}

/// The anchors that a forge makes of a page's headings.
fn anchors(page: &str) -> Vec<String> {
    let text = prose(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let mut anchors: Vec<String> = Vec::new();
    for heading in headings {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
        let anchor: String = kept.collect::<String>().replace(' ', "-");
        let same = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    anchors
}

/// Links of a page that lead nowhere.
fn lost_links(name: &str, page: &str, pages: &BTreeMap<String, String>) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let code = Regex::new("`[^`\n]*`").expect("a pattern");
    let text = prose(page);
    let text = code.replace_all(&text, "");
    let mut lost = Vec::new();
    for target in link.captures_iter(&text).map(|found| found[1].to_owned()) {
        if target.contains("://") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        let path = if file.is_empty() { PathBuf::from(name) } else { folder.join(file) };
        let mut plain = PathBuf::new();
        for piece in &path {
            if piece == ".." {
                plain.pop();
            } else {
                plain.push(piece);
            }
        }
        let there = root().join(&plain).exists();
        let page = pages.get(plain.to_string_lossy().as_ref());
        let has_anchor = anchor.is_empty() || page.is_some_and(|page| anchors(page).iter().any(|one| one == anchor));
        if !there || !has_anchor {
            lost.push(format!("{name}: {target}"));
        }
    }
    lost
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let pages = pages();
    let lost: Vec<String> = pages.iter().flat_map(|(name, page)| lost_links(name, page, &pages)).collect();
    assert!(lost.is_empty(), "these links lead nowhere:\n{}", lost.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let pages = BTreeMap::from([("README.md".to_owned(), "# Words\n\n## One, and two\n".to_owned())]);
    let page = "[a](README.md#one-and-two) [b](README.md#three) [c](gone.md) [d](https://example.org) `[e](gone.md)`";
    assert_eq!(lost_links("README.md", page, &pages), ["README.md: README.md#three", "README.md: gone.md"]);
}

#[test]
fn documents_stay_short() {
    // What separates cells of a table is no word.
    let words = |text: &str| text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    let written = pages().into_iter().filter(|(name, _)| !is_generated(name) && name.ends_with(".md"));
    let counts: Vec<(String, usize)> = written.map(|(name, page)| (name, words(&page))).collect();
    for (name, most) in WORDS_MAX {
        let count: usize =
            counts.iter().filter(|(page, _)| name.is_empty() || page == name).map(|(_, count)| count).sum();
        assert!(count <= most, "{name} has {count} words, and may have {most}");
    }
    for (name, count) in counts.iter().filter(|(name, _)| name.starts_with("docs/decisions/")) {
        let is_page = !["README.md", "erasure-by-key.md"].iter().any(|other| name.ends_with(other));
        assert!(
            !is_page || *count <= DECISION_WORDS_MAX,
            "{name} has {count} words, and may have {DECISION_WORDS_MAX}"
        );
    }
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = fs::read_to_string(root().join("llms.txt")).expect("the contents");
    let pages = pages();
    let ours = pages.keys().filter(|name| name.starts_with("docs/") && !name.starts_with("docs/decisions/"));
    let missing: Vec<&String> = ours.filter(|name| !contents.contains(&format!("({name})"))).collect();
    assert!(missing.is_empty(), "llms.txt lacks {missing:?}");
}

//! `docs/trouble.md` against the tests: every kind of trouble has a public thread and tests that exist.

use regex::Regex;
use std::fs;
use std::path::Path;

/// Number of kinds of trouble that the page has at least.
const KINDS: usize = 20;

#[test]
fn every_trouble_has_a_thread_and_tests_that_exist() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = fs::read_to_string(docs.join("trouble.md")).expect("the page");
    let thread = Regex::new(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+").expect("a pattern");
    let named = Regex::new(r"`(\w+)` \(\[[^]]+\]\(([^)]+)\)\)").expect("a pattern");
    let sections: Vec<&str> = page.split("\n### ").skip(1).collect();
    assert!(sections.len() >= KINDS, "{} kinds", sections.len());
    let mut missing = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let title = section.lines().next().unwrap_or_default();
        assert!(title.starts_with(&format!("{}. ", index + 1)), "{title}: not numbered");
        assert!(thread.is_match(section), "{title}: no thread");
        let tests: Vec<_> = named.captures_iter(section).collect();
        assert!(!tests.is_empty(), "{title}: no test");
        for test in tests {
            let file = docs.join(&test[2]);
            let source = fs::read_to_string(&file).unwrap_or_default();
            let definition = Regex::new(&format!(r"#\[(tokio::)?test[^\n]*\]\n(async )?fn {}\(\)", &test[1]));
            let definition = definition.expect("a pattern");
            let indented = source.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
            if !definition.is_match(&indented) {
                missing.push(format!("{title}: {} has no test {}", &test[2], &test[1]));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

//! The examples of `docs/policies.md`. Its options are in a page that is made of the types.

use crate::tidy::root;
use longhand::policy::validate::validate;
use longhand::presets;
use regex::Regex;
use std::fs;

fn page() -> String {
    fs::read_to_string(root().join("docs/policies.md")).expect("the page")
}

#[test]
fn the_examples_are_valid() {
    let page = page();
    let (_, behind) = page.split_once("```json\n").expect("an example");
    let (whole, _) = behind.split_once("```").expect("its end");
    let policy = presets::read_policy(whole).expect("a policy");
    assert_eq!(validate(&policy), []);
    assert!(policy.micro.is_some() && policy.auto.is_some());
    let patch = Regex::new(r"`(\{.*\})`\.").expect("a pattern").captures(&page).expect("a patch")[1].to_owned();
    let (_, behind) = page.split_once("```toml\n").expect("a file");
    presets::parse(behind.split("```").next().expect("its text")).expect("a valid file");
    let seed = presets::policy("opencode@seed");
    assert_ne!(seed.with_overrides(&patch).expect("a valid patch"), seed);
}

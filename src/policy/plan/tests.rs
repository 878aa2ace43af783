use super::*;
use crate::policy::{dsl, presets};

#[test]
fn a_history_is_as_long_as_what_it_says() {
    let policy = presets::find("qwen-code@0.24").expect("a preset").policy();
    let steps = policy.auto.iter().flat_map(|rung| &rung.steps);
    let rule = steps.filter_map(|step| if let Step::Summarize(rule) = step { Some(rule) } else { None }).next();
    let rule = rule.expect("it summarizes");
    assert_eq!(rule.minimum_messages, 2);
    let (window, layout) = (ModelWindow { context: 100_000, ..ModelWindow::default() }, Layout::everything());
    for (text, expected) in [
        ("a1 \"x\"", false),
        ("u1 \"\"\na2 \"x\"", false),
        ("u1 \"y\"\na2 \"\"", false),
        ("u1 \"y\"\na2 \"x\"", true),
        ("u1 \"y\"\na2 \"\"\na3 \"x\"", true),
    ] {
        let sources = dsl::parse(text);
        let scene =
            Scene { policy: &policy, window: &window, layout: &layout, sources: &sources, base: 9, now: Timestamp(0) };
        assert_eq!(summary(scene, rule).is_some(), expected, "{text}");
    }
}

//! The limits from which the maintenance of presets may have something to do.

use crate::model::usage::ModelWindow;
use crate::policy::maintenance::{MaintenanceCounts, MaintenanceLimits};
use crate::policy::{FailedOutputs, PolicyStep, Target};
use crate::{dsl, presets};

fn watch(preset: &str, context: i64) -> MaintenanceLimits {
    let policy = presets::policy(preset);
    MaintenanceLimits::from_policy(&policy, &ModelWindow { context, ..ModelWindow::default() })
}

#[test]
fn each_maintenance_waits_for_what_it_needs() {
    let none = MaintenanceLimits::default();
    for (preset, expected) in [
        ("opencode@seed", MaintenanceLimits { output_tokens: Some(40_000), ..none.clone() }),
        ("opencode@1.18", none.clone()),
        ("gemini-cli@0.26", MaintenanceLimits { output_tokens: Some(50_000), ..none.clone() }),
        (
            "qwen-code@0.24",
            MaintenanceLimits { output_tokens: Some(125_000), idle_seconds: Some(3_600), ..none.clone() },
        ),
        ("goose@0.8", MaintenanceLimits { parts: Some(16 + 3), ..none.clone() }),
        ("anthropic-context-editing@2025-10", MaintenanceLimits { parts: Some(0), ..none.clone() }),
        ("suna@2026", MaintenanceLimits { parts: Some(0), messages: Some(320), ..none.clone() }),
    ] {
        assert_eq!(watch(preset, 200_000), expected, "{preset}");
    }
    let mut policy = presets::policy("suna@2026");
    policy.trigger.auto = false;
    assert_eq!(MaintenanceLimits::from_policy(&policy, &ModelWindow::default()), none);
}

#[test]
fn only_what_the_maintenance_acts_on_is_counted() {
    let sources = dsl::parse(
        "u1 \"a\"\na2 \"b\"\n  call bash#c1 in={}\nt3\n  result c1 out=40c done\n\
         a4 \"{\\\"tool_execution\\\": {\\\"arguments\\\": 1, \\\"result\\\": 2}}\"",
    );
    for (preset, expected) in [("goose@0.8", 1), ("opencode@seed", 0), ("suna@2026", 1), ("pi@1.5", 0)] {
        let policy = presets::policy(preset);
        let counts = sources.iter().fold(MaintenanceCounts::default(), |sum, source| sum.with(&policy, source));
        assert_eq!((counts.parts, counts.messages), (expected, 4), "{preset}");
    }
}

#[test]
fn failures_that_count_as_kept_announce_a_prune_of_something_else() {
    let sources = dsl::parse(
        "u1 \"a\"\na2 \"b\"\n  call bash#c1 in={}\nt3\n  result c1 out=40c error\n\
         a4 \"c\"\n  call bash#c2 in={}\nt5\n  result c2 out=40c error",
    );
    let mut policy = presets::policy("goose@0.8");
    let Some(PolicyStep::Prune(prune)) = policy.maintenance.first_mut() else { panic!("a prune") };
    prune.target = Target::Attachments;
    for (failed_outputs, expected) in [(FailedOutputs::Count, 2), (FailedOutputs::Skip, 0)] {
        let Some(PolicyStep::Prune(prune)) = policy.maintenance.first_mut() else { panic!("a prune") };
        prune.failed_outputs = failed_outputs;
        let counts = sources.iter().fold(MaintenanceCounts::default(), |sum, source| sum.with(&policy, source));
        assert_eq!(counts.parts, expected, "{failed_outputs:?}");
    }
}

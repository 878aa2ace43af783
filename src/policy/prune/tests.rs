use super::*;
use crate::policy::{dsl, presets};
use proptest::prelude::*;

/// One turn: outputs of a length in tokens, each by a protected tool or not.
fn turn(number: usize, outputs: &[(u16, bool)]) -> String {
    let mut text = format!("u{number} \"x\"\na{number}\n");
    for (index, (tokens, is_protected)) in outputs.iter().enumerate() {
        let tool = if *is_protected { "skill" } else { "bash" };
        text.push_str(&format!("  tool {tool}#c{number}-{index} out={tokens}t done\n"));
    }
    text
}

fn small_policy() -> Policy {
    let overrides = r#"{"prune":{"protect_tokens":400,"minimum_tokens":200}}"#;
    presets::opencode::seed().with_overrides(overrides).expect("valid")
}

fn apply(messages: &mut [SourceMessage], plan: &PrunePlan) {
    for source in messages {
        let ids = source.message.parts.iter().map(|part| part.id).filter(|id| plan.parts.contains(id));
        source.pruned.extend(ids.map(|id| (id, dsl::PRUNED_BY)));
    }
}

proptest! {
    #[test]
    fn what_is_protected_stays_and_a_second_prune_finds_nothing(
        turns in prop::collection::vec(prop::collection::vec((0_u16..300, prop::bool::weighted(0.2)), 0..4), 0..12)
    ) {
        let policy = small_policy();
        let text: String = turns.iter().enumerate().map(|(number, outputs)| turn(number, outputs)).collect();
        let mut messages = dsl::parse(&text);
        let plan = select(&policy, &messages);
        let names = dsl::part_names(&messages);
        let mut kept = 0_i64;
        for (number, outputs) in turns.iter().enumerate() {
            for (index, (tokens, is_protected)) in outputs.iter().enumerate() {
                let is_pruned = plan.parts.iter().any(|id| names[id] == format!("c{number}-{index}:result"));
                prop_assert!(!is_pruned || (!is_protected && number + 2 < turns.len()));
                if !is_pruned && !is_protected && number + 2 < turns.len() {
                    kept += i64::from(*tokens);
                }
            }
        }
        prop_assert!(plan.parts.is_empty() || (plan.freed_tokens > 200 && kept <= 400));
        apply(&mut messages, &plan);
        prop_assert!(plan.parts.is_empty() || select(&policy, &messages) == PrunePlan::default());
    }
}

#[test]
fn without_a_rule_nothing_is_cleared() {
    let messages = dsl::parse("a1\n  tool bash#c1 out=90000t done\nu2 \"x\"\nu3 \"x\"");
    assert_eq!(select(&presets::pi::v1_5(), &messages), PrunePlan::default());
    assert_eq!(select(&presets::opencode::seed(), &messages).freed_tokens, 90_000);
}

#[test]
fn a_rule_without_protection_clears_the_newest_output_too() {
    let overrides = r#"{"prune":{"protect_tokens":0,"minimum_tokens":0,"protect_turns":0}}"#;
    let policy = presets::opencode::seed().with_overrides(overrides).expect("valid");
    let messages = dsl::parse("u1 \"x\"\na1\n  tool bash#c1 out=1t done");
    assert_eq!(select(&policy, &messages).freed_tokens, 1);
}

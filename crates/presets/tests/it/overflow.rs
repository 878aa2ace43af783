//! The thresholds of the presets, window by window.

use crate::model::compaction::Level;
use crate::model::usage::ModelWindow;
use crate::policy::overflow::*;
use crate::policy::{LevelPolicy, Limit, Policy, Threshold};
use crate::policy::{ModelLimit, WindowStep};
use crate::presets;

fn window(context: i64, input: Option<i64>, output: Option<i64>) -> ModelWindow {
    ModelWindow { context, input, output, ..ModelWindow::default() }
}

fn preset(name: &str) -> Policy {
    presets::policy(name)
}

#[test]
fn opencode_keeps_the_output_limit_free_or_the_buffer_under_an_input_limit() {
    let policy = preset("opencode@seed");
    for (context, input, output, expected) in [
        (200_000, None, Some(32_000), 168_000),
        (200_000, None, Some(64_000), 168_000),
        (200_000, None, None, 168_000),
        (200_000, None, Some(0), 168_000),
        (20_000, None, None, 15_000),
        (20_000, None, Some(0), 15_000),
        (32_000, None, Some(4_000), 28_000),
        (400_000, Some(272_000), Some(128_000), 252_000),
        (400_000, Some(272_000), Some(8_000), 264_000),
        (400_000, Some(0), Some(8_000), 392_000),
        (16_000, None, Some(32_000), 0),
        (0, Some(100), Some(10), 0),
    ] {
        let window = window(context, input, output);
        assert_eq!(main_limit(&policy, &window), expected, "{window:?}");
    }
}

/// The agent's own limit, regardless of the space in the window.
fn main_limit(policy: &Policy, window: &ModelWindow) -> i64 {
    policy.auto.as_ref().expect("a level").threshold.limit(window)
}

#[test]
fn no_level_is_due_later_than_a_view_exceeds_its_window() {
    for (name, window, due, levels) in [
        ("pi@1.5", window(200_000, None, Some(8_000)), 183_617, "auto"),
        ("pi@1.5", window(200_000, None, Some(64_000)), 183_617, "auto"),
        ("pi@1.5", window(200_000, Some(136_000), Some(64_000)), 136_001, "auto"),
        ("qwen-agent@0.0.34", window(64_000, None, Some(4_000)), 58_001, "auto"),
        ("qwen-agent@0.0.34", window(32_000, None, Some(8_000)), 32_001, "auto"),
        ("claude-code@seed", window(32_000, None, Some(8_000)), 17_601, "micro"),
    ] {
        let policy = preset(name);
        assert_eq!(due_at(&policy, &window), Some(due), "{name}");
        let levels_at = |tokens| {
            let names = reached(&policy, &window, tokens).map(|(level, _)| level.name());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(levels_at(due - 1), "", "{name}");
        assert_eq!(levels_at(due), levels, "{name}");
    }
    let (policy, window) = (preset("claude-code@seed"), window(32_000, None, Some(8_000)));
    let names: Vec<_> = reached(&policy, &window, 32_001).map(|(level, _)| level.name()).collect();
    assert_eq!(names, ["deep", "auto", "micro"]);
    let (policy, small) = (preset("joyagent"), ModelWindow { context: 32_000, ..window.clone() });
    let names: Vec<_> = reached(&policy, &small, 32_001).map(|(level, _)| level.name()).collect();
    assert_eq!(names, ["auto", "deep"], "those that are reached first, and then the others");
}

#[test]
fn opencode_is_due_when_the_usable_window_is_reached() {
    let policy = preset("opencode@seed");
    assert_eq!(due_at(&policy, &window(200_000, None, Some(32_000))), Some(168_000));
    assert_eq!(due_at(&policy, &window(16_000, None, Some(32_000))), Some(1));
}

#[test]
fn pi_is_due_when_the_reserve_is_entered() {
    let policy = preset("pi@1.5");
    let window = window(200_000, None, Some(64_000));
    assert_eq!(main_limit(&policy, &window), 183_616);
    assert_eq!(policy.auto.expect("a level").threshold.due_at(&window), Some(183_617));
}

#[test]
fn nothing_is_due_without_a_window_or_when_switched_off() {
    let mut policy = preset("opencode@seed");
    assert_eq!(due_at(&policy, &ModelWindow::default()), None);
    policy.trigger.auto = false;
    assert_eq!(due_at(&policy, &window(200_000, None, None)), None);
}

/// The tokens at which each level is due, lowest level first.
fn all_due(name: &str, window: &ModelWindow) -> Vec<i64> {
    thresholds(&preset(name), window).map(|(_, due)| due).collect()
}

/// The agents' own thresholds, which the output limit moves in none but OpenCode.
#[test]
fn each_agent_has_its_own_threshold_whatever_the_output_limit_is() {
    for (name, context, input, output, expected) in [
        ("opencode@seed", 200_000, None, 64_000, &[168_000][..]),
        ("opencode@1.18", 200_000, None, 64_000, &[168_000]),
        ("opencode@1.18", 200_000, None, 8_192, &[191_808]),
        ("opencode@1.18", 128_000, None, 16_384, &[111_616]),
        ("opencode@1.18", 400_000, Some(272_000), 128_000, &[252_000]),
        ("pi@1.5", 200_000, None, 64_000, &[183_617]),
        ("pi@0.73", 200_000, None, 64_000, &[183_617]),
        ("pi@1.5", 1_000_000, None, 128_000, &[983_617]),
        ("pi@1.5", 32_000, None, 8_192, &[15_617]),
        ("codex@2026-08", 200_000, None, 64_000, &[180_000]),
        ("codex@2026-08", 272_000, None, 128_000, &[244_800]),
        ("longhand@1", 200_000, None, 64_000, &[168_000]),
        ("longhand@1", 200_000, None, 8_192, &[191_808]),
        ("longhand@1", 400_000, Some(272_000), 128_000, &[252_000]),
        ("longhand@1", 32_000, None, 8_000, &[24_000]),
        ("claude-code@seed", 200_000, None, 64_000, &[110_001, 150_001, 180_001]),
        ("claude-code@observed", 200_000, None, 64_000, &[167_000]),
        ("claude-code@observed", 272_000, None, 64_000, &[239_000]),
        ("claude-code@observed", 1_000_000, None, 64_000, &[967_000]),
        ("neovate@2026", 200_000, None, 64_000, &[140_001]),
        ("neovate@2026", 32_000, None, 8_192, &[25_600]),
        ("neovate@2026-fixed", 32_000, None, 8_192, &[22_401]),
        ("gemini-cli@2025-08", 1_048_576, None, 65_536, &[734_004]),
        ("gemini-cli@0.26", 1_048_576, None, 65_536, &[524_288]),
        ("goose@0.8", 200_000, None, 64_000, &[160_001]),
        ("qwen-code@2025-08", 1_048_576, None, 65_536, &[734_004]),
        ("qwen-code@0.15", 200_000, None, 64_000, &[140_000]),
        ("qwen-code@0.24", 200_000, None, 64_000, &[147_000, 167_000, 177_000]),
        ("qwen-code@0.24", 1_000_000, None, 65_536, &[830_000, 850_000, 977_000]),
        ("qwen-code@0.24", 32_000, None, 8_192, &[7_200, 27_200, 30_200]),
        ("qwen-agent@old", 200_000, None, 64_000, &[58_001]),
        ("qwen-agent@0.0.34", 1_000_000, None, 64_000, &[58_001]),
        ("qwen-agent@dialogue-retrieval", 64_000, None, 8_192, &[58_001]),
        ("joyagent", 200_000, None, 64_000, &[100_001, 200_001]),
        ("suna@2025-04", 200_000, None, 64_000, &[120_000]),
        ("suna@2025-07", 200_000, None, 64_000, &[31_001]),
        ("suna@2026", 1_000_000, None, 64_000, &[700_001]),
        ("suna@2026", 400_000, None, 64_000, &[336_001]),
        ("suna@2026", 200_000, None, 64_000, &[168_001]),
        ("suna@2026", 128_000, None, 16_384, &[112_001]),
        ("suna@2026", 64_000, None, 8_192, &[56_001]),
        ("anthropic-context-editing@2025-10", 200_000, None, 64_000, &[100_001]),
        ("smolagents", 200_000, None, 64_000, &[]),
    ] {
        let window = window(context, input, Some(output));
        assert_eq!(all_due(name, &window), expected, "{name} in {window:?}");
    }
    let sonnet = ModelWindow { model: "claude-sonnet-4".to_owned(), ..window(200_000, None, Some(64_000)) };
    assert_eq!(all_due("suna@2025-07", &sonnet), [108_001]);
    assert!(presets::all().len() == 25, "a new preset has a line above");
}

#[test]
fn opencode_has_a_reserve_of_its_own_under_an_input_limit() {
    let mut policy = preset("opencode@1.18");
    for (reserved, input, output, expected) in [
        (50_000, Some(272_000), Some(8_000), 222_000),
        (0, Some(272_000), Some(64_000), 272_000),
        (300_000, Some(272_000), Some(64_000), 0),
        (50_000, None, Some(8_000), 392_000),
    ] {
        let limit = Limit::Usable { buffer_tokens: 20_000, output_cap_tokens: 32_000, reserved_tokens: Some(reserved) };
        policy.auto.as_mut().expect("a level").threshold.limit = limit;
        assert_eq!(main_limit(&policy, &window(400_000, input, output)), expected, "{reserved} {input:?} {output:?}");
    }
}

#[test]
fn a_reserve_for_an_unknown_output_is_at_most_a_quarter_of_the_window() {
    for (name, context, expected) in [
        ("opencode@seed", 8_192, &[6_144][..]),
        ("opencode@seed", 16_384, &[12_288]),
        ("opencode@seed", 32_768, &[24_576]),
        ("opencode@seed", 200_000, &[168_000]),
        ("pi@1.5", 20_000, &[15_001]),
        ("pi@1.5", 65_536, &[49_153]),
        ("pi@1.5", 200_000, &[183_617]),
        ("claude-code@observed", 20_000, &[15_000]),
        ("claude-code@observed", 200_000, &[167_000]),
        ("qwen-code@0.24", 20_000, &[12_000, 17_000, 20_000]),
        ("qwen-code@0.24", 40_000, &[20_000, 30_000, 33_000]),
        ("qwen-code@0.24", 200_000, &[147_000, 167_000, 177_000]),
        ("suna@2026", 20_000, &[15_001]),
        ("suna@2026", 1_000_000, &[700_001]),
    ] {
        assert_eq!(all_due(name, &window(context, None, None)), expected, "{name} in {context}");
        assert_eq!(all_due(name, &window(context, None, Some(0))), expected, "{name} in {context}");
    }
}

/// Windows in which a preset is due below a quarter of them because its agent says so: the preset, the smallest and
/// the largest such window, whether only with a known output limit, and the reason.
const EARLY: [(&str, i64, i64, bool, &str); 11] = [
    ("pi@0.73", 0, 21_845, true, "compaction.reserveTokens is 16384 in every window"),
    ("pi@1.5", 0, 21_845, true, "compaction.reserveTokens is 16384 in every window"),
    ("qwen-code@0.24", 0, 70_666, true, "its warning is 20000 tokens below its threshold, and compacts nothing short"),
    ("suna@2026", 0, 10_666, true, "it keeps 8000 free in every window below 100000"),
    ("qwen-agent@old", 232_004, i64::MAX, false, "DEFAULT_MAX_INPUT_TOKENS is 58000"),
    ("qwen-agent@0.0.34", 232_004, i64::MAX, false, "DEFAULT_MAX_INPUT_TOKENS is 58000"),
    ("qwen-agent@dialogue-retrieval", 232_004, i64::MAX, false, "DEFAULT_MAX_INPUT_TOKENS is 58000"),
    ("joyagent", 400_004, i64::MAX, false, "max_input_tokens is 100000"),
    ("suna@2025-04", 480_000, i64::MAX, false, "DEFAULT_TOKEN_THRESHOLD is 120000"),
    ("suna@2025-07", 124_004, i64::MAX, false, "31000 for every model that it does not name"),
    ("anthropic-context-editing@2025-10", 400_004, i64::MAX, false, "the trigger is 100000 input tokens"),
];

const WINDOWS: [i64; 24] = [
    2_000, 3_000, 4_096, 6_000, 8_192, 12_000, 16_384, 20_000, 24_000, 32_000, 32_768, 40_000, 54_000, 64_000, 65_536,
    100_000, 128_000, 200_000, 262_144, 400_000, 500_000, 1_000_000, 1_048_576, 2_000_000,
];

#[test]
fn no_window_is_due_below_a_quarter_unless_its_agent_says_so() {
    for (preset, context) in presets::all().iter().flat_map(|preset| WINDOWS.map(|context| (preset, context))) {
        for output in [None, Some(0), Some(context / 32), Some((context / 5).min(64_000)), Some(context / 4)] {
            let window = window(context, None, output);
            let Some(due) = due_at(&preset.policy(), &window) else {
                assert!(!preset.policy().trigger.auto, "{}", preset.name);
                continue;
            };
            let is_known = window.known_output().is_some();
            let reason = EARLY.iter().find(|(name, first, last, known, _)| {
                *name == preset.name && (*first..=*last).contains(&context) && (is_known || !known)
            });
            assert_eq!(due < context / 4, reason.is_some(), "{} is due at {due} of {window:?}", preset.name);
            assert!(due <= context + 1, "{} is due at {due} of {window:?}", preset.name);
        }
    }
}

#[test]
fn a_window_that_is_too_small_for_a_level_is_named() {
    for (name, context, output, expected) in [
        (
            "opencode@seed",
            16_000,
            Some(32_000),
            "level auto is due at 1 of the window's 16000 tokens, and its compactions keep 2000 of them",
        ),
        (
            "opencode@seed",
            33_000,
            Some(32_000),
            "level auto is due at 1000 of the window's 33000 tokens, and its compactions keep 2000 of them",
        ),
        ("opencode@seed", 100_000, Some(32_000), ""),
        ("opencode@seed", 20_000, None, ""),
        (
            "pi@1.5",
            20_000,
            Some(4_000),
            "level auto is due at 3617 of the window's 20000 tokens, and its compactions keep 20000 of them",
        ),
        (
            "pi@1.5",
            20_000,
            None,
            "level auto is due at 15001 of the window's 20000 tokens, and its compactions keep 20000 of them",
        ),
        ("pi@1.5", 200_000, Some(64_000), ""),
        (
            "qwen-code@0.24",
            20_000,
            Some(4_000),
            "level micro is due at 1 of the window's 20000 tokens, because the policy reserves the rest",
        ),
        (
            "suna@2026",
            8_192,
            Some(1_024),
            "level auto is due at 193 of the window's 8192 tokens, because the policy reserves the rest",
        ),
        ("qwen-agent@0.0.34", 2_000_000, None, ""),
        ("smolagents", 2_000, None, ""),
        ("pi@1.5", 0, None, ""),
    ] {
        let found = level_thresholds(&preset(name), &window(context, None, output));
        let sentences: Vec<String> = found.iter().filter_map(|it| Some(it.unmet?.to_string())).collect();
        assert_eq!(sentences.join("; "), expected, "{name} in {context}");
    }
}

fn due(limit: Limit, inclusive: bool, minimum_tokens: i64, window: &ModelWindow) -> Option<i64> {
    Threshold { limit, inclusive, minimum_tokens }.due_at(window)
}

#[test]
fn each_limit_follows_from_the_window() {
    let small = window(200_000, None, Some(8_192));
    let large = window(1_048_576, None, Some(8_192));
    let none = ModelWindow::default();
    for (limit, inclusive, minimum, window, expected) in [
        (Limit::Ratio(0.7), false, 0, &small, Some(140_001)),
        (Limit::Ratio(0.7), true, 0, &small, Some(140_000)),
        (Limit::Ratio(0.7), true, 150_000, &small, Some(150_000)),
        (Limit::Ratio(0.7), true, 0, &none, None),
        (Limit::Tokens(100), false, 0, &none, Some(101)),
        (Limit::Buffered { ratio: 0.85, reserve_tokens: 33_000, floor_ratio: 0.0 }, true, 0, &small, Some(167_000)),
        (Limit::Ratio(0.7), true, 0, &large, Some(734_004)),
        (Limit::Ratio(0.7), false, 0, &large, Some(734_004)),
    ] {
        let name = format!("{limit:?}");
        assert_eq!(due(limit, inclusive, minimum, window), expected, "{name}");
    }
    let models = Limit::Models {
        models: vec![
            ModelLimit { contains: "sonnet".into(), tokens: 108_000 },
            ModelLimit { contains: "gpt".into(), tokens: 100_000 },
        ],
        otherwise_tokens: 31_000,
    };
    for (model, expected) in [("Claude-Sonnet", 108_001), ("gpt-5", 100_001), ("", 31_001)] {
        let window = ModelWindow { model: model.to_owned(), ..ModelWindow::default() };
        assert_eq!(due(models.clone(), false, 0, &window), Some(expected), "{model}");
    }
    let steps = Limit::Steps {
        steps: vec![
            WindowStep { context_tokens: 400_000, reserve_tokens: 64_000 },
            WindowStep { context_tokens: 200_000, reserve_tokens: 32_000 },
        ],
        otherwise_reserve_tokens: 8_000,
    };
    for (context, expected) in [(1_000_000, 936_000), (200_000, 168_000), (100_000, 92_000), (4_000, 1)] {
        assert_eq!(due(steps.clone(), true, 0, &window(context, None, Some(1))), Some(expected), "{context}");
    }
}

#[test]
fn a_warning_and_a_hard_limit_are_beside_a_buffered_limit() {
    let auto = Limit::Buffered { ratio: 0.85, reserve_tokens: 33_000, floor_ratio: 0.85 };
    let beside = |offset_tokens, reserve_tokens| Limit::Relative {
        limit: Box::new(auto.clone()),
        offset_tokens,
        reserve_tokens,
    };
    let (warn, hard) = (beside(-20_000, None), beside(3_000, Some(23_000)));
    // In Qwen Code the limit falls from 28050 to 1 just above its reserve; here it stays.
    for (context, expected) in [
        (8_192, [1, 6_964, 8_192]),
        (32_000, [7_200, 27_200, 30_200]),
        (33_000, [8_050, 28_050, 31_050]),
        (40_000, [8_050, 28_050, 31_050]),
        (54_050, [8_050, 28_050, 31_050]),
        (61_049, [8_050, 28_050, 38_049]),
        (61_050, [8_050, 28_050, 38_050]),
        (65_536, [12_536, 32_536, 42_536]),
        (131_072, [78_072, 98_072, 108_072]),
        (200_000, [147_000, 167_000, 177_000]),
        (262_144, [202_823, 222_823, 239_144]),
        (1_000_000, [830_000, 850_000, 977_000]),
    ] {
        let window = window(context, None, Some(1));
        let due = |limit: &Limit| {
            let limit = limit.clone();
            Threshold { limit, inclusive: true, minimum_tokens: 0 }.due_at(&window)
        };
        assert_eq!([&warn, &auto, &hard].map(due), expected.map(Some), "{context}");
    }
    let unknown = Threshold { limit: warn, inclusive: true, minimum_tokens: 0 };
    assert_eq!(unknown.due_at(&window(0, None, None)), None);
}

/// The windows in which the preset's limit is not that of the agent are the ones that its deviation names.
#[test]
fn the_limit_of_qwen_code_differs_only_where_its_deviation_says() {
    let preset = presets::find("qwen-code@0.24").expect("a preset");
    let policy = preset.policy();
    let differs = |context: &i64| {
        let share = *context as f64 * 0.85;
        let agents = if *context > 33_000 { share.min((context - 33_000) as f64) } else { share };
        let agents = agents.ceil() as i64;
        let window = window(*context, None, Some(1));
        let auto = policy.auto.as_ref().expect("a level");
        let ours = auto.threshold.due_at(&window).expect("a window");
        assert!(ours == agents || ours == 28_050, "{ours} of {context}");
        ours != agents
    };
    let held: Vec<i64> = (1..200_000).filter(differs).collect();
    assert_eq!((held[0], held[held.len() - 1], held.len()), (33_001, 61_049, 61_049 - 33_000));
    let named = |numbers: &[&str]| {
        preset.deviations().iter().any(|deviation| numbers.iter().all(|number| deviation.contains(number)))
    };
    assert!(named(&["33000", "61050", "28050"]), "{:?}", preset.deviations());
}

#[test]
fn levels_are_tried_from_the_top() {
    let mut policy = preset("pi@1.5");
    let level_policy = policy.auto.clone().expect("a level");
    let at = |ratio| LevelPolicy {
        threshold: Threshold { limit: Limit::Ratio(ratio), inclusive: false, minimum_tokens: 0 },
        ..level_policy.clone()
    };
    (policy.micro, policy.auto, policy.deep) = (Some(at(0.55)), Some(at(0.75)), Some(at(0.9)));
    let window = window(1_000, None, None);
    let levels = |tokens| reached(&policy, &window, tokens).map(|(level, _)| level).collect::<Vec<_>>();
    assert_eq!(levels(550), []);
    assert_eq!(levels(551), [Level::Micro]);
    assert_eq!(levels(800), [Level::Auto, Level::Micro]);
    assert_eq!(levels(901), [Level::Deep, Level::Auto, Level::Micro]);
    assert_eq!(due_at(&policy, &window), Some(551));
    let all = |policy: &Policy, window: &ModelWindow| thresholds(policy, window).collect::<Vec<_>>();
    assert_eq!(all(&policy, &window), [(Level::Micro, 551), (Level::Auto, 751), (Level::Deep, 901)]);
    assert_eq!(all(&policy, &ModelWindow::default()), [], "no window is known");
    policy.trigger.auto = false;
    assert_eq!(all(&policy, &window), [], "nothing is automatic");
}

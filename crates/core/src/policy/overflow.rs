//! Thresholds: limits of a window, and the levels that a view reaches.

use super::{LevelPolicy, Limit, Policy, Threshold};
use crate::model::compaction::Level;
use crate::model::usage::ModelWindow;

/// Denominator of the share of the window that stays free after steps that must bring a view into its window.
pub(super) const FREE_PARTS: i64 = 20;

impl Threshold {
    /// The limit under a window in whole tokens, without regard to `inclusive`; 0 if the window is unknown or too
    /// small.
    pub fn limit(&self, window: &ModelWindow) -> i64 {
        self.limit.tokens(window).floor() as i64
    }

    /// The smallest number of tokens at which the level is due; none if the window is unknown.
    ///
    /// It is at least 1, so that an empty view is never due: a threshold of 0 would start compactions for ever.
    pub fn due_at(&self, window: &ModelWindow) -> Option<i64> {
        if window.context <= 0 && self.limit.needs_window() {
            return None;
        }
        // A share need not be a whole number, but the number of tokens is.
        let limit = self.limit.tokens(window);
        let due = if self.inclusive { limit.ceil() as i64 } else { (limit.floor() as i64).saturating_add(1) };
        Some(due.max(self.minimum_tokens).max(1))
    }
}

impl Limit {
    fn needs_window(&self) -> bool {
        match self {
            Self::Tokens { .. } | Self::Models { .. } => false,
            Self::Usable { .. }
            | Self::Reserve { .. }
            | Self::Ratio { .. }
            | Self::Buffered { .. }
            | Self::Relative { .. }
            | Self::Steps { .. } => true,
        }
    }

    fn tokens(&self, window: &ModelWindow) -> f64 {
        let context = window.context.max(0);
        let limit = match self {
            Self::Tokens(tokens) => *tokens as f64,
            Self::Models { models, otherwise_tokens } => {
                let name = window.model.to_lowercase();
                let model = models.iter().find(|model| name.contains(&model.contains));
                model.map_or(*otherwise_tokens, |model| model.tokens) as f64
            }
            _ if context == 0 => 0.0,
            Self::Usable { buffer_tokens, output_cap_tokens } => {
                let output = match window.output {
                    Some(output) if output > 0 => output.min(*output_cap_tokens),
                    _ => *output_cap_tokens,
                };
                // As in OpenCode, the buffer counts only under an input limit; without one, the output is the reserve.
                let usable = match window.input {
                    Some(input) if input > 0 => input.saturating_sub(output.min(*buffer_tokens)),
                    _ => context.saturating_sub(output),
                };
                usable as f64
            }
            Self::Reserve(reserve_tokens) => context.saturating_sub(*reserve_tokens) as f64,
            Self::Ratio(ratio) => share(context, *ratio),
            Self::Buffered { ratio, reserve_tokens, floor_ratio } => {
                let free = context.saturating_sub(*reserve_tokens) as f64;
                share(context, *ratio).min(free).max(share(context.min(*reserve_tokens), *floor_ratio))
            }
            Self::Relative { limit, offset_tokens, reserve_tokens } => {
                let least = reserve_tokens.map_or(0, |reserve| context.saturating_sub(reserve)) as f64;
                (limit.tokens(window) + *offset_tokens as f64).max(least).min(context as f64)
            }
            Self::Steps { steps, otherwise_reserve_tokens } => {
                let step = steps.iter().find(|step| context >= step.context_tokens);
                context.saturating_sub(step.map_or(*otherwise_reserve_tokens, |step| step.reserve_tokens)) as f64
            }
        };
        limit.max(0.0)
    }
}

/// A share of a number of tokens.
fn share(tokens: i64, ratio: f64) -> f64 {
    tokens as f64 * ratio
}

/// The maximum input that leaves space for a reply, in tokens; none if the window is unknown.
pub fn input_max(window: &ModelWindow) -> Option<i64> {
    (window.context > 0).then(|| window.input.unwrap_or(window.context - window.output.unwrap_or(0)).max(0))
}

/// Tokens by which a view must grow after the newest compaction started by a level, before a level starts another one.
pub fn rearm_tokens(policy: &Policy, window: &ModelWindow) -> i64 {
    share(window.context.max(0), policy.guards.rearm_ratio).ceil() as i64
}

/// Tokens that the main level allows in a view; 0 if the window is unknown or too small for the policy. If they exceed
/// the window, a twentieth of it stays free beside the space for a reply, as in the last resort.
pub fn usable(policy: &Policy, window: &ModelWindow) -> i64 {
    let main = policy.auto.as_ref().or(policy.deep.as_ref()).or(policy.micro.as_ref());
    let limit = main.map_or(window.context.max(0), |level_policy| level_policy.threshold.limit(window));
    match input_max(window) {
        Some(most) if limit > most => most.saturating_sub(window.context / FREE_PARTS).max(0),
        _ => limit,
    }
}

/// The smallest number of tokens at which any level is due; none if nothing is automatic or the window is unknown.
pub fn due_at(policy: &Policy, window: &ModelWindow) -> Option<i64> {
    thresholds(policy, window).map(|(_, due)| due).min()
}

/// The smallest number of tokens at which each level is due, lowest level first; none if nothing is automatic or the
/// window is unknown.
pub fn thresholds<'a>(policy: &'a Policy, window: &'a ModelWindow) -> impl Iterator<Item = (Level, i64)> + 'a {
    let levels = policy.levels().filter(|_| policy.trigger.auto);
    levels.filter_map(|(level, level_policy)| Some((level, level_policy.due_at(window)?)))
}

/// The levels that this number of tokens reaches, highest first. If the tokens exceed the window, all other levels
/// follow, lowest first.
pub fn reached<'a>(
    policy: &'a Policy,
    window: &'a ModelWindow,
    tokens: i64,
) -> impl Iterator<Item = (Level, &'a LevelPolicy)> + 'a {
    let over_window = input_max(window).is_some_and(|most| tokens > most);
    let reaches =
        move |level_policy: &LevelPolicy| level_policy.threshold.due_at(window).is_some_and(|due| tokens >= due);
    let others = policy.levels().filter(move |(_, level_policy)| over_window && !reaches(level_policy));
    policy.levels().rev().filter(move |(_, level_policy)| reaches(level_policy)).chain(others)
}

impl LevelPolicy {
    /// The tokens at which the level is due: at its threshold, or as soon as a view exceeds its window; none if the
    /// window is unknown.
    pub fn due_at(&self, window: &ModelWindow) -> Option<i64> {
        let due = self.threshold.due_at(window)?;
        Some(input_max(window).map_or(due, |most| due.min(most.saturating_add(1))))
    }
}

/// The tokens for messages: a share of the main level's limit, without the overhead of a request; none if the window is
/// unknown.
pub(super) fn message_target(policy: &Policy, window: &ModelWindow, ratio: f64) -> Option<i64> {
    let limit = usable(policy, window);
    let share = (limit as f64 * ratio) as i64;
    (limit > 0 || window.context > 0).then(|| share.saturating_sub(window.overhead).max(0))
}

/// The tokens for messages under the main level's limit, without the instructions and the overhead of a request.
pub(super) fn message_room(policy: &Policy, window: &ModelWindow, instructions: i64) -> i64 {
    usable(policy, window).saturating_sub(instructions).saturating_sub(window.overhead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::presets;
    use crate::policy::presets::suna::parameters::{ModelLimit, WindowStep};

    fn window(context: i64, input: Option<i64>, output: Option<i64>) -> ModelWindow {
        ModelWindow { model: String::new(), context, input, output, overhead: 0 }
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
            ("pi@1.5", window(200_000, None, Some(64_000)), 136_001, "auto"),
            ("qwen-agent@0.0.34", window(64_000, None, Some(4_000)), 58_001, "auto"),
            ("qwen-agent@0.0.34", window(32_000, None, Some(8_000)), 24_001, "auto"),
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
        let names: Vec<_> = reached(&policy, &window, 24_001).map(|(level, _)| level.name()).collect();
        assert_eq!(names, ["auto", "micro", "deep"], "those that are reached first, and then the others");
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

    fn due(limit: Limit, inclusive: bool, minimum_tokens: i64, window: &ModelWindow) -> Option<i64> {
        Threshold { limit, inclusive, minimum_tokens }.due_at(window)
    }

    #[test]
    fn each_limit_follows_from_the_window() {
        let small = window(200_000, None, None);
        let large = window(1_048_576, None, None);
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
            assert_eq!(due(steps.clone(), true, 0, &window(context, None, None)), Some(expected), "{context}");
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
            let window = window(context, None, None);
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
        let preset = crate::policy::presets::find("qwen-code@0.24").expect("a preset");
        let policy = preset.policy();
        let differs = |context: &i64| {
            let share = *context as f64 * 0.85;
            let agents = if *context > 33_000 { share.min((context - 33_000) as f64) } else { share };
            let agents = agents.ceil() as i64;
            let window = window(*context, None, None);
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
}

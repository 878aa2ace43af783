//! Thresholds: limits of a window, the levels that a view reaches, and those that no view can.

use super::{LevelPolicy, Limit, Policy, PolicyStep, Tail, Threshold};
use crate::model::compaction::{Level, LevelThreshold, UnmetLevel};
use crate::model::usage::{ModelWindow, WindowSource};

/// Denominator of the share of the window that stays free after steps that must bring a view into its window.
pub(super) const FREE_PARTS: i64 = 20;

/// The largest share of a window that is reserved for an output whose limit is not known: the window divided by this
/// number. Agents have reserves for their own large windows, and a small one would have next to nothing left.
const RESERVE_PARTS: i64 = 4;

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
            Self::Usable { buffer_tokens, output_cap_tokens, reserved_tokens } => {
                let known = window.known_output().map(|output| output.min(*output_cap_tokens));
                let output = known.unwrap_or_else(|| reserve(window, *output_cap_tokens));
                // The buffer and its replacement count only under an input limit; without one, the
                // output is the reserve.
                let usable = match window.input {
                    Some(input) if input > 0 => {
                        let buffer = || output.min(*buffer_tokens);
                        input.saturating_sub(reserved_tokens.unwrap_or_else(buffer))
                    }
                    _ => context.saturating_sub(output),
                };
                usable as f64
            }
            Self::Reserve(reserve_tokens) => context.saturating_sub(reserve(window, *reserve_tokens)) as f64,
            Self::Ratio(ratio) => share(context, *ratio),
            Self::Buffered { ratio, reserve_tokens, floor_ratio } => {
                let free = context.saturating_sub(reserve(window, *reserve_tokens)) as f64;
                share(context, *ratio).min(free).max(share(context.min(*reserve_tokens), *floor_ratio))
            }
            Self::Relative { limit, offset_tokens, reserve_tokens } => {
                let least = reserve_tokens.map_or(0, |tokens| context.saturating_sub(reserve(window, tokens))) as f64;
                let offset = if *offset_tokens < 0 { -reserve(window, -offset_tokens) } else { *offset_tokens };
                (limit.tokens(window) + offset as f64).max(least).min(context as f64)
            }
            Self::Steps { steps, otherwise_reserve_tokens } => {
                // A step is for windows of its own size.
                let step = steps.iter().find(|step| context >= step.context_tokens);
                let otherwise = || reserve(window, *otherwise_reserve_tokens);
                context.saturating_sub(step.map_or_else(otherwise, |step| step.reserve_tokens)) as f64
            }
        };
        limit.max(0.0)
    }
}

/// A reserve in a window: at most a quarter of it as long as no client said how much a reply may have.
fn reserve(window: &ModelWindow, tokens: i64) -> i64 {
    match window.known_output() {
        Some(_) if window.source == WindowSource::Client => tokens,
        _ => tokens.min(window.context / RESERVE_PARTS),
    }
}

/// A share of a number of tokens.
fn share(tokens: i64, ratio: f64) -> f64 {
    tokens as f64 * ratio
}

/// Tokens by which a view must grow after the newest compaction started by a level, before a level starts another one.
pub fn rearm_tokens(policy: &Policy, window: &ModelWindow) -> i64 {
    share(window.context.max(0), policy.guards.rearm_ratio).ceil() as i64
}

/// Tokens that the main level allows in a view; 0 if the window is unknown or too small for the policy. If they exceed
/// the window, a twentieth of it stays free, as in the last resort.
pub fn usable(policy: &Policy, window: &ModelWindow) -> i64 {
    let main = policy.auto.as_ref().or(policy.deep.as_ref()).or(policy.micro.as_ref());
    let limit = main.map_or(window.context.max(0), |level_policy| level_policy.threshold.limit(window));
    match window.input_max() {
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
    let over_window = window.input_max().is_some_and(|most| tokens > most);
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
        Some(window.input_max().map_or(due, |most| due.min(most.saturating_add(1))))
    }

    /// The tokens that a compaction of the level keeps in every window, as far as the policy has a number for it: those
    /// of the tail beside its summary, or else those that its prunes protect.
    fn kept_tokens(&self) -> i64 {
        let tail = self.steps.iter().rev().find_map(|step| match step {
            PolicyStep::Summarize(rule) => Some(match &rule.tail {
                Tail::Turns(tail) if tail.turns != Some(0) => tail.minimum_budget_tokens,
                Tail::Recent(tail) => tail.keep_tokens,
                Tail::Requests(tail) => tail.keep_tokens.unwrap_or(0),
                Tail::Turns(_) | Tail::Nothing | Tail::Whole { .. } | Tail::Fraction(_) | Tail::Last(_) => 0,
            }),
            PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
        });
        let protected = || {
            let tokens = self.steps.iter().map(|step| match step {
                PolicyStep::Prune(prune) => prune.keep.tokens,
                PolicyStep::Omit(_) | PolicyStep::Summarize(_) => 0,
            });
            tokens.min().unwrap_or(0)
        };
        tail.unwrap_or_else(protected)
    }
}

/// The threshold of each level, lowest level first; empty if nothing is automatic or the window is unknown. A window is
/// too small for a level if the policy's reserve leaves less than a twentieth of it, the usual minimum gain of a compaction,
/// or if the level keeps as much as makes it due.
pub fn level_thresholds(policy: &Policy, window: &ModelWindow) -> Vec<LevelThreshold> {
    let levels = policy.levels().filter(|_| policy.trigger.auto);
    let thresholds = levels.filter_map(|(level, level_policy)| {
        let due_tokens = level_policy.due_at(window)?;
        let kept_tokens = level_policy.kept_tokens();
        let is_at_once = level_policy.threshold.limit.needs_window() && due_tokens < window.context / FREE_PARTS;
        let is_unmet = window.context > 0 && (is_at_once || kept_tokens >= due_tokens);
        let unmet = UnmetLevel { level, due_tokens, kept_tokens, window_tokens: window.context };
        Some(LevelThreshold { level, due_tokens, unmet: is_unmet.then_some(unmet) })
    });
    thresholds.collect()
}

/// The tokens for messages: a share of the main level's limit, without the overhead of a request; none if the window is
/// unknown.
pub fn message_target(policy: &Policy, window: &ModelWindow, ratio: f64) -> Option<i64> {
    let limit = usable(policy, window);
    let share = (limit as f64 * ratio) as i64;
    (limit > 0 || window.context > 0).then(|| share.saturating_sub(window.overhead).max(0))
}

/// The tokens for messages under the main level's limit, without the instructions and the overhead of a request.
pub fn message_room(policy: &Policy, window: &ModelWindow, instructions: i64) -> i64 {
    usable(policy, window).saturating_sub(instructions).saturating_sub(window.overhead)
}

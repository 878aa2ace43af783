//! Overhead: everything in a request that no compaction removes, such as a system prompt, descriptions of tools and
//! pinned messages.

use super::plan::PlanningInput;
use super::tokens;
use crate::model::layout::Placement;
use crate::model::part::PartBody;
use crate::model::usage::UsageSample;
use crate::model::view::SourceMessage;

/// Tokens that no compaction removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overhead {
    /// Tokens that no view shows, as far as usage and the window indicate them.
    pub unseen_tokens: i64,
    /// Tokens of pinned messages.
    pub pinned_tokens: i64,
}

impl Overhead {
    /// The sum of both.
    pub fn tokens(self) -> i64 {
        self.unseen_tokens.saturating_add(self.pinned_tokens)
    }
}

/// Maximum real tokens per estimated token, in scripts with a token for every character.
pub const UNDERESTIMATE_MAX: i64 = 4;

/// Minimum fall of the estimate between two usable samples: the earlier estimate divided by this number.
const FALL_PARTS: i64 = 4;

/// The overhead of a session: the value stated by its window, or the value that its current usage sample and the one
/// before the newest compaction prove.
///
/// Usage beyond an estimate can result from a poor estimate as well as from a system prompt, so a single sample counts
/// only as far as no poor estimate explains it. A sample from before a compaction separates the two: a poorly estimated
/// view shrank, and the overhead did not.
pub fn overhead(planning: PlanningInput<'_>, before: Option<UsageSample>, now: Option<UsageSample>) -> Overhead {
    let unseen = now.map_or(0, |now| {
        let alone = if planning.sources.iter().any(has_rough_estimate) { 0 } else { beyond_estimate(now) };
        let since = before.map_or(0, |before| intercept(before, now));
        alone.max(since).clamp(0, now.usage_tokens.max(0))
    });
    // Usage that leaves less space beside the view overrides the value of the window.
    let headroom_tokens = now.map(|now| now.usage_tokens.saturating_sub(now.view_tokens).max(0));
    let known = planning.window.overhead;
    let unseen = unseen.max(headroom_tokens.map_or(known, |headroom_tokens| known.min(headroom_tokens)));
    let is_pinned = |source: &&SourceMessage| {
        source.placement == Some(Placement::Pinned) || planning.layout.pinned.contains(&source.message.revision)
    };
    let pinned = planning.sources.iter().filter(is_pinned);
    let pinned_tokens = pinned.map(|source| tokens::estimate_source(planning.policy, source)).sum();
    Overhead { unseen_tokens: unseen, pinned_tokens }
}

/// Tokens that the worst estimate of the view does not explain.
fn beyond_estimate(now: UsageSample) -> i64 {
    now.usage_tokens.saturating_sub(now.view_tokens.saturating_mul(UNDERESTIMATE_MAX))
}

/// True if the view became much smaller between two samples, and usage did not.
pub fn did_not_fall(before: UsageSample, now: UsageSample) -> bool {
    fell_enough(before, now) && now.usage_tokens >= before.usage_tokens
}

/// True if the view became so much smaller that two samples prove something.
fn fell_enough(before: UsageSample, now: UsageSample) -> bool {
    let fell = before.view_tokens.saturating_sub(now.view_tokens);
    fell > 0 && fell >= before.view_tokens / FALL_PARTS
}

/// Usage of an empty view, extrapolated from both samples; 0 if they prove nothing.
fn intercept(before: UsageSample, now: UsageSample) -> i64 {
    let fell = before.view_tokens.saturating_sub(now.view_tokens);
    let usage_fell = before.usage_tokens.saturating_sub(now.usage_tokens);
    // If usage rose while the view shrank, something else changed, and the line means nothing.
    if !fell_enough(before, now) || usage_fell < 0 {
        return 0;
    }
    let slope = usage_fell as f64 / fell as f64;
    now.usage_tokens.saturating_sub((slope * now.view_tokens as f64).ceil() as i64)
}

/// True if a message contains media or provider blocks, which are estimated only roughly.
pub fn has_rough_estimate(source: &SourceMessage) -> bool {
    has_media(source) || source.message.parts.iter().any(|part| matches!(*part.body, PartBody::Opaque(_)))
}

/// True if a message contains media.
pub fn has_media(source: &SourceMessage) -> bool {
    source.message.parts.iter().any(|part| part.body.brings_media())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;
    use crate::model::time::Timestamp;
    use crate::model::usage::ModelWindow;
    use crate::policy::samples;

    fn unseen(before: Option<(i64, i64)>, now: Option<(i64, i64)>) -> i64 {
        let policy = samples::policy("opencode@seed");
        let sample = |(usage_tokens, view_tokens)| UsageSample { usage_tokens, view_tokens };
        let (window, layout) = (ModelWindow::default(), Layout::everything());
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout: &layout,
            sources: &[],
            covered: &[],
            base: 1,
            now: Timestamp::default(),
        };
        let found = overhead(planning, before.map(sample), now.map(sample));
        assert_eq!(found.pinned_tokens, 0);
        found.unseen_tokens
    }

    #[test]
    fn what_the_window_says_counts_as_far_as_usage_leaves_room_for_it() {
        let policy = samples::policy("opencode@seed");
        let window = ModelWindow { overhead: 5_000, ..ModelWindow::default() };
        let layout = Layout::everything();
        let now = Timestamp::default();
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout: &layout,
            sources: &[],
            covered: &[],
            base: 1,
            now,
        };
        let unseen = |now: Option<(i64, i64)>| {
            let sample = |(usage_tokens, view_tokens)| UsageSample { usage_tokens, view_tokens };
            overhead(planning, None, now.map(sample)).unseen_tokens
        };
        assert_eq!(unseen(None), 5_000);
        assert_eq!(unseen(Some((50_000, 40_000))), 5_000);
        assert_eq!(unseen(Some((43_000, 40_000))), 3_000);
        assert_eq!(unseen(Some((30_000, 40_000))), 0);
        assert_eq!(unseen(Some((30_000, 5_000))), 10_000, "usage may also tell of more");
    }

    #[test]
    fn only_what_no_poor_estimate_explains_is_overhead() {
        for (before, now, expected, why) in [
            (None, None, 0, "no usage is trusted"),
            (None, Some((5_600, 100)), 5_200, "a short view cannot be that much"),
            (None, Some((40_000, 10_000)), 0, "a script with a token for every character can"),
            (Some((100_000, 25_000)), Some((40_000, 10_000)), 0, "and so it turns out to be"),
            (Some((35_000, 20_000)), Some((19_000, 4_000)), 15_000, "what did not shrink with the view"),
            (Some((35_000, 20_000)), Some((31_000, 18_000)), 0, "the view has hardly shrunk"),
            (Some((35_000, 20_000)), Some((36_000, 10_000)), 0, "something else has grown"),
            (Some((35_000, 20_000)), Some((35_000, 10_000)), 35_000, "nothing of it shrank"),
            (None, Some((100, 400)), 0, "less usage than estimate"),
        ] {
            assert_eq!(unseen(before, now), expected, "{why}");
        }
    }
}

//! How much of a window may be used.

use super::{Policy, Threshold};
use crate::model::usage::ModelWindow;

/// Tokens that may be used before a summary is due; 0 when the window is unknown or too small for the policy.
pub fn usable(policy: &Policy, window: &ModelWindow) -> i64 {
    if window.context <= 0 {
        return 0;
    }
    let usable = match policy.trigger.threshold {
        Threshold::Usable { buffer_tokens, output_cap_tokens } => {
            let output = match window.output {
                Some(output) if output > 0 => output.min(output_cap_tokens),
                _ => output_cap_tokens,
            };
            // The buffer counts only under an input limit, as in OpenCode: without one the output limit is the reserve.
            match window.input {
                Some(input) if input > 0 => input.saturating_sub(output.min(buffer_tokens)),
                _ => window.context.saturating_sub(output),
            }
        }
        Threshold::Reserve { reserve_tokens } => window.context.saturating_sub(reserve_tokens),
    };
    usable.max(0)
}

/// The smallest number of tokens at which a summary is due; none when nothing is automatic or the window is unknown.
///
/// It is at least 1, so that an empty view is never due: there a threshold of 0 would start a reduction for ever.
pub fn due_at(policy: &Policy, window: &ModelWindow) -> Option<i64> {
    if !policy.trigger.auto || window.context <= 0 {
        return None;
    }
    let usable = usable(policy, window);
    let due = match policy.trigger.threshold {
        Threshold::Usable { .. } => usable,
        Threshold::Reserve { .. } => usable.saturating_add(1),
    };
    Some(due.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::presets;

    fn window(context: i64, input: Option<i64>, output: Option<i64>) -> ModelWindow {
        ModelWindow { model: String::new(), context, input, output }
    }

    #[test]
    fn opencode_keeps_the_output_limit_free_or_the_buffer_under_an_input_limit() {
        let policy = presets::opencode::seed();
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
            assert_eq!(usable(&policy, &window), expected, "{window:?}");
        }
    }

    #[test]
    fn opencode_is_due_when_the_usable_window_is_reached() {
        let policy = presets::opencode::seed();
        assert_eq!(due_at(&policy, &window(200_000, None, Some(32_000))), Some(168_000));
        assert_eq!(due_at(&policy, &window(16_000, None, Some(32_000))), Some(1));
    }

    #[test]
    fn pi_is_due_when_the_reserve_is_entered() {
        let policy = presets::pi::v1_5();
        let window = window(200_000, None, Some(64_000));
        assert_eq!(usable(&policy, &window), 183_616);
        assert_eq!(due_at(&policy, &window), Some(183_617));
    }

    #[test]
    fn nothing_is_due_without_a_window_or_when_switched_off() {
        let mut policy = presets::opencode::seed();
        assert_eq!(due_at(&policy, &ModelWindow::default()), None);
        policy.trigger.auto = false;
        assert_eq!(due_at(&policy, &window(200_000, None, None)), None);
    }
}

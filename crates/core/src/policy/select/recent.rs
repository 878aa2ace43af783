//! A tail: from the newest message back until a budget is reached, then forward to an allowed boundary.

use crate::model::message::{Message, Role};
use crate::model::view::SourceMessage;
use crate::policy::tokens::estimate_source;
use crate::policy::turns::only_brings_results;
use crate::policy::{LargeResults, Policy, Recent};

impl Recent {
    pub(super) fn boundary(&self, policy: &Policy, messages: &[SourceMessage]) -> usize {
        let points: Vec<usize> = (0..messages.len()).filter(|&index| is_boundary(&messages[index].message)).collect();
        let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
            return 0;
        };
        let mut kept = 0_i64;
        for (index, source) in messages.iter().enumerate().rev() {
            let tokens = estimate_source(policy, source);
            kept = kept.saturating_add(tokens);
            if tokens > 0 && kept >= self.keep_tokens {
                return points.iter().copied().find(|&point| point >= index).unwrap_or(match self.large_results {
                    LargeResults::WithCall => last,
                    LargeResults::WithEverything => first,
                });
            }
        }
        first
    }

    /// Indexes of the covered messages that the view still shows: system messages, which stay apart from the
    /// conversation.
    pub(super) fn retained(head: &[SourceMessage]) -> Vec<usize> {
        (0..head.len()).filter(|&index| head[index].message.role == Role::System).collect()
    }

    pub(super) fn smaller(&self) -> Option<Self> {
        (self.keep_tokens >= 2).then(|| Self { keep_tokens: self.keep_tokens / 2, ..self.clone() })
    }
}

/// True if a boundary may be before the message: a user message or a reply, unless it only has tool results.
fn is_boundary(message: &Message) -> bool {
    match message.role {
        Role::User | Role::Assistant => !only_brings_results(message),
        Role::Tool | Role::System => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::usage::ModelWindow;
    use crate::policy::select::{Selection, Tail, select};
    use crate::policy::{dsl, samples};

    fn selected(keep_tokens: i64, large_results: LargeResults, text: &str) -> Selection {
        let tail = Tail::Recent(Recent { keep_tokens, large_results });
        select(&samples::policy("pi@1.5"), &tail, &ModelWindow::default(), &dsl::parse(text))
    }

    fn check(keep_tokens: i64, text: &str, head_end: usize, split_turn_start: Option<usize>) {
        let selection = selected(keep_tokens, LargeResults::WithCall, text);
        let found = (selection.head_end, selection.split_turn_start);
        assert_eq!(found, (head_end, split_turn_start), "{keep_tokens} of {text}");
    }

    const TURNS: &str = "u1 400c\na2 400c\nu3 400c\na4 400c";

    #[test]
    fn nothing_is_summarized_where_everything_stays() {
        for text in ["", "u1 \"hi\"", TURNS, "s1 400c\nu2 400c\na3 400c"] {
            for large_results in [LargeResults::WithCall, LargeResults::WithEverything] {
                assert_eq!(selected(20_000, large_results, text), Selection::default(), "{text}");
            }
        }
    }

    #[test]
    fn the_boundary_is_where_the_budget_is_reached() {
        check(100, TURNS, 3, Some(2));
        check(101, TURNS, 2, None);
        check(200, TURNS, 2, None);
        check(201, TURNS, 1, Some(0));
        check(401, TURNS, 0, None);
    }

    #[test]
    fn a_boundary_before_a_request_splits_no_turn() {
        // In pi an entry between a2 and u3 that no view shows would make this the middle of the turn of u1.
        check(200, TURNS, 2, None);
    }

    #[test]
    fn large_results_keep_their_call_or_everything() {
        let text = "u1 400c\na2 400c\nu3 400c\na4\n  call bash#c1\nt5\n  result c1 out=4000c done\na6 \"ok\"";
        let before_reply = &text[..text.find("\na6").unwrap_or_default()];
        let boundaries = |text| {
            [LargeResults::WithCall, LargeResults::WithEverything].map(|rule| selected(500, rule, text).head_end)
        };
        assert_eq!(boundaries(before_reply), [3, 0]);
        // A boundary is allowed before the reply after the results, so the results make no difference.
        assert_eq!(boundaries(text), [5, 5]);
    }

    #[test]
    fn instructions_stay_beside_the_summary() {
        let selection = selected(100, LargeResults::WithCall, "s1 400c\nu2 400c\na3 400c\ns4 4c\nu5 400c\na6 400c");
        assert_eq!((selection.head_end, selection.retained), (5, vec![0, 3]));
        // A summary that covers only system messages would replace nothing.
        assert_eq!(selected(100, LargeResults::WithCall, "s1 400c\na2 400c"), Selection::default());
    }

    #[test]
    fn a_smaller_tail_has_half_the_budget() {
        let recent = Recent { keep_tokens: 5, large_results: LargeResults::WithEverything };
        let halves = std::iter::successors(Some(recent), Recent::smaller);
        assert_eq!(halves.map(|recent| recent.keep_tokens).collect::<Vec<_>>(), [5, 2, 1]);
    }
}

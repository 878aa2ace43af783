//! The plan of a summary: its boundary, what it covers, and its attachments.

use super::input::{PlanningInput, SummaryPlan};
use super::sources::{active_summary, covered, inline, slot};
use crate::model::layout::Placement;
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::select::{self, Selection};
use crate::policy::summary::{SAID_HEADING, without_record};
use crate::policy::{LevelPolicy, Policy, PolicyStep, Summarize, Summary, attachments, turns};
use std::borrow::Cow;

/// The text of the active summary, with its attachments, and without what was recorded when it took effect.
pub fn previous(sources: &[SourceMessage]) -> Option<String> {
    let texts =
        active_summary(sources)?.message.parts.iter().enumerate().filter_map(|(index, part)| match &*part.body {
            // The first one is the writer's own, whatever it begins with.
            PartBody::Text(text) if index > 0 && text.lines().next() == Some(SAID_HEADING) => None,
            PartBody::Text(text) => Some(without_record(text)).filter(|text| !text.is_empty()),
            _ => None,
        });
    Some(texts.collect::<Vec<_>>().join("\n\n"))
}

/// The summary by a rule of the policy; none if there is nothing to cover.
pub fn planned_summary(planning: PlanningInput<'_>, rule: &Summarize) -> Option<SummaryPlan> {
    let inline = inline(planning.sources);
    is_long_enough(planning, rule, &inline)
        .then(|| selected(planning, rule, &inline))
        .and_then(|selection| summary_of(planning, rule, &inline, 0, selection))
}

/// True if a rule of the policy leads to a summary.
pub(in crate::policy) fn can_summarize(planning: PlanningInput<'_>, rule: &Summarize) -> bool {
    let inline = inline(planning.sources);
    is_long_enough(planning, rule, &inline) && covers_something(&inline, 0, &selected(planning, rule, &inline))
}

/// True if the view has the minimum number of messages of a rule; after a summary there is no minimum.
pub(in crate::policy) fn is_long_enough(
    planning: PlanningInput<'_>,
    rule: &Summarize,
    inline: &[SourceMessage],
) -> bool {
    let least = rule.minimum_messages as usize;
    let shown = inline.iter().filter(|source| turns::says_something(&source.message));
    active_summary(planning.sources).is_some() || shown.take(least).count() >= least
}

/// True if a summary of the selection would cover anything that is neither covered already nor kept before the summary.
pub(in crate::policy) fn covers_something(inline: &[SourceMessage], front: usize, selection: &Selection) -> bool {
    let retained = inline.iter().filter(|source| source.placement == Some(Placement::Retained)).count();
    selection.head_end > retained.max(front)
}

/// The selection of a rule among the messages that a summary could cover.
pub(in crate::policy) fn selected(
    planning: PlanningInput<'_>,
    rule: &Summarize,
    inline: &[SourceMessage],
) -> Selection {
    let active = active_summary(planning.sources);
    select::select_behind(planning.policy, &rule.tail, planning.window, active, inline)
}

/// The summary of a selection among the messages that it could cover, without the first `front` messages, which stay
/// before it.
pub(in crate::policy) fn summary_of(
    planning: PlanningInput<'_>,
    rule: &Summarize,
    inline: &[SourceMessage],
    front: usize,
    selection: Selection,
) -> Option<SummaryPlan> {
    let PlanningInput { policy, layout, sources, base, .. } = planning;
    if !covers_something(inline, front, &selection) {
        return None;
    }
    let (selection, inline) = with_covered(planning, selection, inline);
    let (under, tail) = inline.split_at(selection.head_end.min(inline.len()));
    let (front, head) = under.split_at(front);
    let tail_start = tail.first().map_or(base + 1, slot);
    let split = selection
        .split_turn_start
        .filter(|_| rule.summary.split_turn.is_some())
        .map_or(head.len(), |start| start.saturating_sub(front.len()).min(head.len()));
    // Pinned messages stay anyway. Messages before the range are in no summary, so they are retained even after their
    // pin is removed.
    let kept = selection.retained.iter().filter_map(|&index| under.get(index).filter(|_| index >= front.len()));
    let retained = front.iter().chain(kept.filter(|source| !layout.pinned.contains(&slot(source))));
    let retained = retained.map(|source| source.message.revision);
    Some(SummaryPlan {
        front: front.to_vec(),
        covered: covered(layout, under),
        head: head[..split].to_vec(),
        split_turn: head[split..].to_vec(),
        previous: previous(sources).or_else(|| previous(planning.covered)).filter(|_| rule.summary.carry_previous),
        rules: rule.summary.clone(),
        tail_start,
        tail_message: tail.first().map(|source| source.message.id),
        retained: retained.collect(),
        retained_first: rule.retained_first || !front.is_empty(),
        removals: selection.removals,
        attachments: attached(policy, &rule.summary, head),
        fallback: rule.fallback.clone(),
    })
}

/// A selection with the messages before it that a provider's own compaction stands for.
fn with_covered<'a>(
    planning: PlanningInput<'_>,
    selection: Selection,
    selected: &'a [SourceMessage],
) -> (Selection, Cow<'a, [SourceMessage]>) {
    if planning.covered.is_empty() {
        return (selection, Cow::Borrowed(selected));
    }
    let covered = inline(planning.covered);
    let more = covered.len();
    let selection = Selection {
        head_end: selection.head_end + more,
        split_turn_start: selection.split_turn_start.map(|start| start + more),
        retained: selection.retained.into_iter().map(|index| index + more).collect(),
        ..selection
    };
    (selection, Cow::Owned([&*covered, selected].concat()))
}

/// The attachments of a new summary, from the messages that it covers.
pub(in crate::policy) fn attached(policy: &Policy, rules: &Summary, head: &[SourceMessage]) -> Vec<PartBody> {
    rules.attachments.as_ref().map_or_else(Vec::new, |rules| attachments::attachments(rules, policy, head))
}

/// Maximum number of times that a tail is halved for a summary that would free too little.
pub(in crate::policy) const TAIL_FALLBACKS_MAX: usize = 5;

/// The level, followed by tail fallbacks: the same level with smaller and smaller tails. An automatic summary uses them
/// if the policy's tail leaves too little to remove although the view is too large.
pub fn tail_fallbacks(level_policy: &LevelPolicy) -> Vec<LevelPolicy> {
    let mut level_policies = vec![level_policy.clone()];
    for _ in 0..TAIL_FALLBACKS_MAX {
        let Some(smaller) = level_policies.last().and_then(with_smaller_tail) else { break };
        level_policies.push(smaller);
    }
    level_policies
}

pub(in crate::policy) fn with_smaller_tail(level_policy: &LevelPolicy) -> Option<LevelPolicy> {
    let mut level_policy = level_policy.clone();
    let mut is_smaller = false;
    for step in &mut level_policy.steps {
        if let PolicyStep::Summarize(rule) = step
            && let Some(tail) = rule.tail.smaller()
        {
            rule.tail = tail;
            is_smaller = true;
        }
    }
    is_smaller.then_some(level_policy)
}

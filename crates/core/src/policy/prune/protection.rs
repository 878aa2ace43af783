//! Finds the parts that may be pruned, and skips the protected ones.

use crate::model::ids::PartId;
use crate::model::message::MessageKind;
use crate::model::part::{Part, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::truncation::Truncation;
use crate::model::usage::ModelWindow;
use crate::model::view::{PrunedPart, SourceMessage};
use crate::policy::calls::{CallWithResult, Calls};
use crate::policy::tokens::{estimate_part_of, estimate_text, estimate_words_of, estimated_output, length};
use crate::policy::turns::{is_request, says_something};
use crate::policy::{Condition, CountPer, FailedOutputs, Policy, PolicyStep, Prune, Replacement, Target, Walk, select};
use std::borrow::Cow;

/// Result of the walk.
pub(super) struct Search<'a> {
    /// The parts that may be pruned, in the order of the walk.
    pub(super) free: Vec<PrunablePart<'a>>,
    /// Number of parts of the kind in the view that were not pruned earlier, protected ones included.
    pub(super) parts: u64,
    /// Length of their texts, in the policy's unit.
    pub(super) units: u64,
}

/// A part that may be pruned.
pub(super) struct PrunablePart<'a> {
    pub(super) source: &'a SourceMessage,
    pub(super) part: &'a Part,
    /// The call that an output answers.
    pub(super) call: Option<Call<'a>>,
    /// Estimate of the part.
    pub(super) tokens: i64,
    /// Length of its text, in the policy's unit.
    pub(super) units: u64,
}

/// A call, and its message.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) source: &'a SourceMessage,
    pub(super) part: &'a Part,
    pub(super) call: &'a ToolCall,
}

/// Walks from the newest message to the oldest.
pub(super) fn search<'a>(
    policy: &Policy,
    prune: &Prune,
    window: &ModelWindow,
    messages: &'a [SourceMessage],
) -> Search<'a> {
    let mut walker = Walker {
        policy,
        prune,
        parts_kept: prune.keep.parts.in_window(window),
        answered: answered(messages),
        turns: 0,
        turns_with_parts: 0,
        last_turn_with_parts: None,
        tokens_seen: 0,
        parts_seen: 0,
        found: Search { free: Vec::new(), parts: 0, units: 0 },
    };
    let read = select::read(messages);
    let summaries = messages.iter().filter(|source| source.message.kind == MessageKind::Summary);
    let summarized = summaries.map(|source| source.message.revision).max().filter(|_| prune.walk == Walk::UntilPruned);
    let mut behind = 0;
    for (index, source) in messages.iter().enumerate().rev() {
        if summarized.is_some_and(|summary| source.message.revision <= summary) {
            break;
        }
        let is_near = walker.turns < prune.keep.turns || behind < prune.keep.messages;
        let is_fixed = is_near || index >= read || source.message.sealed_revision.is_none();
        if !source.message.kind.is_derived() && walker.message(source, is_fixed) == WalkControl::Stop {
            break;
        }
        walker.turns = walker.turns.saturating_add(u32::from(is_request(&source.message)));
        behind = behind.saturating_add(u32::from(says_something(&source.message)));
    }
    walker.found
}

#[derive(PartialEq)]
enum WalkControl {
    On,
    Stop,
}

struct Walker<'a, 'p> {
    policy: &'p Policy,
    prune: &'p Prune,
    parts_kept: u64,
    /// The calls with results, sorted by the ids of the result parts.
    answered: Vec<(PartId, Call<'a>)>,
    /// Number of requests after the current message.
    turns: u32,
    /// Number of turns, from the newest to the current one, that have a part of the kind.
    turns_with_parts: u32,
    last_turn_with_parts: Option<u32>,
    /// Totals of the parts that turns and messages do not protect.
    tokens_seen: i64,
    parts_seen: u64,
    found: Search<'a>,
}

impl<'a> Walker<'a, '_> {
    /// Visits the parts of one message; if the message is fixed, they are only counted.
    fn message(&mut self, source: &'a SourceMessage, is_fixed: bool) -> WalkControl {
        let parts = &source.message.parts;
        for index in 0..parts.len() {
            let part = match self.prune.walk {
                Walk::All | Walk::UntilPruned => &parts[parts.len() - 1 - index],
                Walk::PartsAsWritten(_) => &parts[index],
            };
            if !self.is_wanted(part) {
                self.parts_seen += u64::from(!is_fixed && self.is_kept_failure(part));
                continue;
            }
            let pruned = source.pruned_part(part.id);
            if is_pruned(self.prune, source, part) {
                match self.prune.walk {
                    Walk::All => continue,
                    Walk::UntilPruned | Walk::PartsAsWritten(_) if is_fixed => continue,
                    Walk::PartsAsWritten(rule) if !rule.ends_at_pruned => return WalkControl::On,
                    Walk::UntilPruned | Walk::PartsAsWritten(_) => return WalkControl::Stop,
                }
            }
            self.part(source, part, pruned, is_fixed);
        }
        WalkControl::On
    }

    fn part(&mut self, source: &'a SourceMessage, part: &'a Part, pruned: Option<&PrunedPart>, is_fixed: bool) {
        let call = self.call_of(part);
        let (tokens, units) = measure(self.policy, source, part, pruned, call);
        if units == 0 && self.passes_over_silence(&part.body) {
            return;
        }
        self.found.parts += 1;
        self.found.units = self.found.units.saturating_add(units);
        if self.last_turn_with_parts != Some(self.turns) {
            self.last_turn_with_parts = Some(self.turns);
            self.turns_with_parts = self.turns_with_parts.saturating_add(1);
        }
        if is_fixed || self.turns_with_parts <= self.prune.keep.turns_with_parts {
            return;
        }
        self.tokens_seen = self.tokens_seen.saturating_add(tokens);
        self.parts_seen += 1;
        let tokens_kept = self.prune.keep.tokens;
        if (tokens_kept == 0 || self.tokens_seen > tokens_kept) && self.parts_seen > self.parts_kept {
            self.found.free.push(PrunablePart { source, part, call, tokens, units });
        }
    }

    /// The call that a result answers.
    fn call_of(&self, part: &Part) -> Option<Call<'a>> {
        let found = self.answered.binary_search_by_key(&part.id, |(result, _)| *result).ok()?;
        Some(self.answered[found].1)
    }

    /// True if the step prunes parts of this kind and of this tool.
    fn is_wanted(&self, part: &Part) -> bool {
        match (self.prune.target, &*part.body) {
            (Target::Outputs, PartBody::ToolResult(result)) => self.is_wanted_result(part, result),
            (Target::Attachments, PartBody::ToolResult(result)) => {
                !result.attachments.is_empty() && self.is_wanted_result(part, result)
            }
            (Target::Reasoning, PartBody::Reasoning(_)) | (Target::Media, PartBody::Media(_)) => true,
            (Target::Outputs | Target::Attachments | Target::Reasoning | Target::Media, _) => false,
        }
    }

    fn is_wanted_result(&self, part: &Part, result: &ToolResult) -> bool {
        let has_ended_well = result.status == ResultStatus::Completed;
        (has_ended_well || self.prune.failed_outputs == FailedOutputs::Prune) && self.is_of_wanted_tool(part)
    }

    /// True if the step prunes outputs of the result's tool.
    fn is_of_wanted_tool(&self, part: &Part) -> bool {
        self.prune.tools.contain(self.call_of(part).map(|found| found.call.tool.as_str()))
    }

    /// True if a part without text is skipped; if the condition is a length, it always is.
    fn passes_over_silence(&self, body: &PartBody) -> bool {
        matches!(self.prune.condition, Condition::Length { .. }) || (self.prune.skip_empty && brings_no_media(body))
    }

    /// True if the part is a failed output that is never pruned, but counts as one of the protected parts.
    fn is_kept_failure(&self, part: &Part) -> bool {
        match &*part.body {
            PartBody::ToolResult(result) if result.status != ResultStatus::Completed => {
                self.prune.failed_outputs == FailedOutputs::Count && self.is_of_wanted_tool(part)
            }
            _ => false,
        }
    }
}

/// True if a mark has pruned the part, and not only shortened it. For an excerpt any mark is enough: a second excerpt
/// could only be made of the same text.
pub(in crate::policy) fn is_pruned(prune: &Prune, source: &SourceMessage, part: &Part) -> bool {
    let Some(pruned) = source.pruned_part(part.id) else { return false };
    match &prune.replacement {
        Replacement::Placeholder(_) => pruned.truncation.as_ref().is_none_or(Truncation::keeps_nothing),
        Replacement::Named(_) => true,
    }
}

/// The tokens and the units of a part. Those of a truncated output follow from the rule that truncates it; where a request
/// has outputs as JSON, the tokens are those of that JSON.
fn measure(
    policy: &Policy,
    source: &SourceMessage,
    part: &Part,
    pruned: Option<&PrunedPart>,
    call: Option<Call<'_>>,
) -> (i64, u64) {
    let words = part_text(policy, &part.body, pruned);
    let units = words.as_deref().map_or(0, |words| length(policy.counting.unit, words) as u64);
    let tokens = match &words {
        Some(words) if policy.counting.per != CountPer::Contents => estimate_words_of(policy, source, part, words),
        Some(_) | None => estimate_part_of(policy, source, part, call.map(|found| found.call.tool.as_str())),
    };
    (tokens, units)
}

/// At least the tokens that the prunes of maintenance can find in a part. The call of an output need not be known: where
/// its name counts, it counts with the call.
pub(in crate::policy) fn most_tokens(policy: &Policy, source: &SourceMessage, part: &Part) -> i64 {
    let names_count = policy.counting.per == CountPer::Contents;
    match &*part.body {
        PartBody::ToolResult(_) => {
            let is_open = |step: &PolicyStep| match step {
                PolicyStep::Prune(prune) => !is_pruned(prune, source, part),
                PolicyStep::Omit(_) | PolicyStep::Summarize(_) => false,
            };
            if !policy.maintenance.iter().any(is_open) {
                return 0;
            }
            // Rounding may come before or after the name is added.
            measure(policy, source, part, source.pruned_part(part.id), None).0.saturating_add(i64::from(names_count))
        }
        PartBody::ToolCall(call) if names_count => estimate_text(&policy.counting, &call.tool),
        PartBody::ToolCall(_)
        | PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::Media(_)
        | PartBody::Marker(_)
        | PartBody::Step(_)
        | PartBody::Opaque(_)
        | PartBody::Record(_) => 0,
    }
}

/// The text of a part that counts: as its marks show it, or without marks as the policy says.
fn part_text<'a>(policy: &Policy, body: &'a PartBody, pruned: Option<&PrunedPart>) -> Option<Cow<'a, str>> {
    let truncation = pruned.and_then(|pruned| pruned.truncation.as_ref());
    let text = match body {
        PartBody::ToolResult(result) if truncation.is_none() => return Some(estimated_output(policy, result)),
        PartBody::ToolResult(result) => &result.output,
        PartBody::Text(text) | PartBody::Reasoning(text) => text,
        PartBody::ToolCall(_)
        | PartBody::Media(_)
        | PartBody::Marker(_)
        | PartBody::Step(_)
        | PartBody::Opaque(_)
        | PartBody::Record(_) => return None,
    };
    Some(truncation.map_or(Cow::Borrowed(text.as_str()), |truncation| Cow::Owned(truncation.apply(text))))
}

/// True if the part is an output without media.
fn brings_no_media(body: &PartBody) -> bool {
    matches!(body, PartBody::ToolResult(result) if result.attachments.is_empty())
}

/// The calls with results, sorted by the ids of the result parts: mostly the order in which they were written.
fn answered(messages: &[SourceMessage]) -> Vec<(PartId, Call<'_>)> {
    let calls = Calls::from_messages(messages);
    let answered = calls.iter().filter_map(|called| {
        let CallWithResult { source, part, call, answer, .. } = *called;
        Some((answer?.part.id, Call { source, part, call }))
    });
    let mut answered: Vec<(PartId, Call<'_>)> = answered.collect();
    answered.sort_by_key(|(result, _)| *result);
    answered
}

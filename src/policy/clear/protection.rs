//! Finds the parts that may be cleared, and skips the protected ones.

use crate::model::ids::PartId;
use crate::model::message::MessageKind;
use crate::model::part::{Part, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::truncation::Truncation;
use crate::model::usage::ModelWindow;
use crate::model::view::{Pruned, SourceMessage};
use crate::policy::calls::{Called, Calls};
use crate::policy::tokens::{estimate_part_of, estimate_words_of, length};
use crate::policy::turns::{is_request, says_something};
use crate::policy::{Clear, EstimateOf, Instead, PartOrder, PastCleared, Policy, Target, When, select};
use std::borrow::Cow;

/// Result of the walk.
pub(super) struct Search<'a> {
    /// The clearable parts, in the order of the walk.
    pub(super) free: Vec<Found<'a>>,
    /// Number of uncleared parts of the kind in the view, protected ones included.
    pub(super) items: u64,
    /// Length of their texts, in the policy's unit.
    pub(super) units: u64,
}

/// A part that may be cleared.
pub(super) struct Found<'a> {
    /// The message of the part.
    pub(super) source: &'a SourceMessage,
    /// The part.
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
    clear: &Clear,
    window: &ModelWindow,
    messages: &'a [SourceMessage],
) -> Search<'a> {
    let mut walk = Walk {
        policy,
        clear,
        items_kept: clear.keep.items.of(window),
        answered: answered(messages),
        turns: 0,
        turns_with_any: 0,
        last_turn_with_any: None,
        tokens_seen: 0,
        items_seen: 0,
        found: Search { free: Vec::new(), items: 0, units: 0 },
    };
    let read = select::read(messages);
    let summaries = messages.iter().filter(|source| source.message.kind == MessageKind::Summary);
    let summarized = summaries.map(|source| source.message.revision).max().filter(|_| clear.ends_at_summary);
    let mut behind = 0;
    for (index, source) in messages.iter().enumerate().rev() {
        if summarized.is_some_and(|summary| source.message.revision <= summary) {
            break;
        }
        let is_near = walk.turns < clear.keep.turns || behind < clear.keep.messages;
        let is_fixed = is_near || index >= read || source.message.sealed_revision.is_none();
        if !source.message.kind.is_derived() && walk.message(source, is_fixed) == Going::Stop {
            break;
        }
        walk.turns = walk.turns.saturating_add(u32::from(is_request(&source.message)));
        behind = behind.saturating_add(u32::from(says_something(&source.message)));
    }
    walk.found
}

/// Control of the walk.
#[derive(PartialEq)]
enum Going {
    On,
    Stop,
}

struct Walk<'a, 'p> {
    policy: &'p Policy,
    clear: &'p Clear,
    items_kept: u64,
    /// The calls with results, sorted by the ids of the result parts.
    answered: Vec<(PartId, Call<'a>)>,
    /// Number of requests after the current message.
    turns: u32,
    /// Number of turns, from the newest to the current one, that have a part of the kind.
    turns_with_any: u32,
    last_turn_with_any: Option<u32>,
    /// Totals of the parts that turns and messages do not protect.
    tokens_seen: i64,
    items_seen: u64,
    found: Search<'a>,
}

impl<'a> Walk<'a, '_> {
    /// Visits the parts of one message; if the message is fixed, they are only counted.
    fn message(&mut self, source: &'a SourceMessage, is_fixed: bool) -> Going {
        let parts = &source.message.parts;
        for index in 0..parts.len() {
            let part = match self.clear.part_order {
                PartOrder::NewestFirst => &parts[parts.len() - 1 - index],
                PartOrder::AsWritten => &parts[index],
            };
            if !self.is_wanted(part) {
                self.items_seen += u64::from(!is_fixed && self.is_kept_failure(part));
                continue;
            }
            let pruned = source.pruned_part(part.id);
            if pruned.is_some_and(|pruned| is_cleared(self.clear, pruned)) {
                match self.clear.past_cleared {
                    PastCleared::Stop if !is_fixed => return Going::Stop,
                    PastCleared::NextMessage if !is_fixed => return Going::On,
                    PastCleared::Stop | PastCleared::NextMessage | PastCleared::GoOn => continue,
                }
            }
            self.part(source, part, pruned, is_fixed);
        }
        Going::On
    }

    fn part(&mut self, source: &'a SourceMessage, part: &'a Part, pruned: Option<&Pruned>, is_fixed: bool) {
        let call = self.call_of(part);
        let (tokens, units) = measure(self.policy, self.clear, source, part, pruned, call);
        if units == 0 && self.passes_over_silence(&part.body) {
            return;
        }
        self.found.items += 1;
        self.found.units = self.found.units.saturating_add(units);
        if self.last_turn_with_any != Some(self.turns) {
            self.last_turn_with_any = Some(self.turns);
            self.turns_with_any = self.turns_with_any.saturating_add(1);
        }
        if is_fixed || self.turns_with_any <= self.clear.keep.turns_with_any {
            return;
        }
        self.tokens_seen = self.tokens_seen.saturating_add(tokens);
        self.items_seen += 1;
        let tokens_kept = self.clear.keep.tokens;
        if (tokens_kept == 0 || self.tokens_seen > tokens_kept) && self.items_seen > self.items_kept {
            self.found.free.push(Found { source, part, call, tokens, units });
        }
    }

    /// The call that a result answers.
    fn call_of(&self, part: &Part) -> Option<Call<'a>> {
        let found = self.answered.binary_search_by_key(&part.id, |(result, _)| *result).ok()?;
        Some(self.answered[found].1)
    }

    /// True if the step clears parts of this kind and of this tool.
    fn is_wanted(&self, part: &Part) -> bool {
        match (self.clear.target, &*part.body) {
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
        (has_ended_well || self.clear.failed_too) && self.is_of_wanted_tool(part)
    }

    /// True if the step clears outputs of the result's tool.
    fn is_of_wanted_tool(&self, part: &Part) -> bool {
        let tool = self.call_of(part).map(|found| found.call.tool.as_str());
        let is_protected = tool.is_some_and(|tool| self.clear.protected_tools.iter().any(|name| name == tool));
        !is_protected && self.clear.only_tools.contain(tool)
    }

    /// True if a part without text is skipped; if the condition is a length, it always is.
    fn passes_over_silence(&self, body: &PartBody) -> bool {
        matches!(self.clear.when, When::Units { .. }) || (!self.clear.empty_too && brings_no_media(body))
    }

    /// True if the part is a failed output that is never cleared, but counts as one of the protected items.
    fn is_kept_failure(&self, part: &Part) -> bool {
        match &*part.body {
            PartBody::ToolResult(result) if result.status != ResultStatus::Completed => {
                self.clear.keep.failed_items && !self.clear.failed_too && self.is_of_wanted_tool(part)
            }
            _ => false,
        }
    }
}

/// True if a mark has cleared the part, and not only shortened it. For an excerpt any mark is enough: a second excerpt
/// could only be made of the same text.
fn is_cleared(clear: &Clear, pruned: &Pruned) -> bool {
    match &clear.instead {
        Instead::Words(_) => pruned.truncation.as_ref().is_none_or(Truncation::keeps_nothing),
        Instead::Excerpt(_) => true,
    }
}

/// The tokens and the units of a part.
fn measure(
    policy: &Policy,
    clear: &Clear,
    source: &SourceMessage,
    part: &Part,
    pruned: Option<&Pruned>,
    call: Option<Call<'_>>,
) -> (i64, u64) {
    let words = words(&part.body, pruned);
    let units = words.as_deref().map_or(0, |words| length(policy.counting.unit, words) as u64);
    let tokens = match (clear.estimate, &words) {
        (EstimateOf::Words, Some(words)) => estimate_words_of(policy, source, part, words),
        (EstimateOf::Words, None) | (EstimateOf::Part, _) => {
            estimate_part_of(policy, source, part, call.map(|found| found.call.tool.as_str()))
        }
    };
    (tokens, units)
}

/// The text of a part after its marks; the limit on outputs in views is not a mark.
fn words<'a>(body: &'a PartBody, pruned: Option<&Pruned>) -> Option<Cow<'a, str>> {
    let text = match body {
        PartBody::ToolResult(result) => &result.output,
        PartBody::Text(text) | PartBody::Reasoning(text) => text,
        PartBody::ToolCall(_)
        | PartBody::Media(_)
        | PartBody::Marker(_)
        | PartBody::Step(_)
        | PartBody::Opaque(_)
        | PartBody::Record(_) => return None,
    };
    let truncation = pruned.and_then(|pruned| pruned.truncation.as_ref());
    Some(truncation.map_or(Cow::Borrowed(text.as_str()), |truncation| Cow::Owned(truncation.apply(text))))
}

/// True if the part is an output without media.
fn brings_no_media(body: &PartBody) -> bool {
    matches!(body, PartBody::ToolResult(result) if result.attachments.is_empty())
}

/// The calls with results, sorted by the ids of the result parts: mostly the order in which they were written.
fn answered(messages: &[SourceMessage]) -> Vec<(PartId, Call<'_>)> {
    let calls = Calls::of(messages);
    let answered = calls.iter().filter_map(|called| {
        let Called { source, part, call, answer, .. } = *called;
        Some((answer?.part.id, Call { source, part, call }))
    });
    let mut answered: Vec<(PartId, Call<'_>)> = answered.collect();
    answered.sort_by_key(|(result, _)| *result);
    answered
}

//! What may be cleared: what the walk finds, and what it leaves alone.

use super::condition::{Count, When};
use super::{Clear, Instead, Target, Weigh};
use crate::model::cut::Cut;
use crate::model::ids::PartId;
use crate::model::message::MessageKind;
use crate::model::part::{Part, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::usage::ModelWindow;
use crate::model::view::{Pruned, SourceMessage};
use crate::policy::calls::{Called, Calls};
use crate::policy::tokens::{estimate_part_of, estimate_words_of, length};
use crate::policy::turns::{is_request, says_something};
use crate::policy::{Policy, select};
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What a clearing leaves alone, counted from the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// The last turns, begun by requests.
    pub turns: u32,
    /// The last turns that hold anything of what is cleared.
    pub turns_with_any: u32,
    /// The last messages of the view; one that says nothing is not in it.
    pub messages: u32,
    /// Of what turns and messages do not protect, the newest up to this many tokens; the one that crosses the limit
    /// goes.
    pub tokens: i64,
    /// Of what turns and messages do not protect, so many of the newest.
    pub items: Count,
    /// Whether outputs of calls that failed are among these, although they are never cleared.
    pub failed_items: bool,
}

/// What the walk does at a part that was cleared before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastCleared {
    /// It ends: what lies behind was judged then.
    Stop,
    /// It goes on with the message before.
    NextMessage,
    /// It goes on with the next part.
    GoOn,
}

/// In which order the walk looks at the parts of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartOrder {
    /// The last first.
    NewestFirst,
    /// The first first, although the messages are walked from the last.
    AsWritten,
}

/// What the walk found.
pub(super) struct Search<'a> {
    /// What may go, in the order of the walk.
    pub(super) free: Vec<Found<'a>>,
    /// How many parts of the kind stand in the view uncleared, protected ones included.
    pub(super) items: u64,
    /// The length of their words, in the policy's unit.
    pub(super) units: u64,
}

/// A part that may be cleared.
pub(super) struct Found<'a> {
    /// Its message.
    pub(super) source: &'a SourceMessage,
    /// The part.
    pub(super) part: &'a Part,
    /// For an output, the call it answers.
    pub(super) call: Option<Call<'a>>,
    /// What it weighs.
    pub(super) tokens: i64,
    /// The length of its words, in the policy's unit.
    pub(super) units: u64,
}

/// A call, and the message it stands in.
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
        calls: calls(messages),
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

/// Whether the walk goes on.
#[derive(PartialEq)]
enum Going {
    On,
    Stop,
}

struct Walk<'a, 'p> {
    policy: &'p Policy,
    clear: &'p Clear,
    items_kept: u64,
    /// By the parts of their results.
    calls: HashMap<PartId, Call<'a>>,
    /// Requests behind the message that is looked at.
    turns: u32,
    /// Turns up to it that hold anything of what is cleared.
    turns_with_any: u32,
    last_turn_with_any: Option<u32>,
    /// What was found where turns and messages protect nothing.
    tokens_seen: i64,
    items_seen: u64,
    found: Search<'a>,
}

impl<'a> Walk<'a, '_> {
    /// Looks at the parts of one message; they are only counted when the message is fixed.
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
        let call = self.calls.get(&part.id).copied();
        let (tokens, units) = weigh(self.policy, self.clear, source, part, pruned, call);
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

    /// Whether the part is of the kind that is cleared, and of a tool whose outputs are.
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

    /// Whether a result is of a tool whose outputs are cleared.
    fn is_of_wanted_tool(&self, part: &Part) -> bool {
        let tool = self.calls.get(&part.id).map(|found| found.call.tool.as_str());
        let is_protected = tool.is_some_and(|tool| self.clear.protected_tools.iter().any(|name| name == tool));
        !is_protected && self.clear.only_tools.contain(tool)
    }

    /// Whether a part without words is passed over; where their length decides, it always is.
    fn passes_over_silence(&self, body: &PartBody) -> bool {
        matches!(self.clear.when, When::Units { .. }) || (!self.clear.empty_too && brings_no_media(body))
    }

    /// Whether the part is a failure that is never cleared and yet is one of the items that are kept.
    fn is_kept_failure(&self, part: &Part) -> bool {
        match &*part.body {
            PartBody::ToolResult(result) if result.status != ResultStatus::Completed => {
                self.clear.keep.failed_items && !self.clear.failed_too && self.is_of_wanted_tool(part)
            }
            _ => false,
        }
    }
}

/// Whether a mark has cleared the part already, or only shortened it. An excerpt is cleared once any mark is on it:
/// it could only be made of the same words.
fn is_cleared(clear: &Clear, pruned: &Pruned) -> bool {
    match &clear.instead {
        Instead::Words(_) => pruned.cut.as_ref().is_none_or(Cut::keeps_nothing),
        Instead::Excerpt(_) => true,
    }
}

/// The tokens and the units of a part.
fn weigh(
    policy: &Policy,
    clear: &Clear,
    source: &SourceMessage,
    part: &Part,
    pruned: Option<&Pruned>,
    call: Option<Call<'_>>,
) -> (i64, u64) {
    let words = words(&part.body, pruned);
    let units = words.as_deref().map_or(0, |words| length(policy.counting.unit, words) as u64);
    let tokens = match (clear.weigh, &words) {
        (Weigh::Words, Some(words)) => estimate_words_of(policy, source, part, words),
        (Weigh::Words, None) | (Weigh::Part, _) => {
            estimate_part_of(policy, source, part, call.map(|found| found.call.tool.as_str()))
        }
    };
    (tokens, units)
}

/// The words of a part as marks have left them; the limit on outputs in views is not a mark.
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
    let cut = pruned.and_then(|pruned| pruned.cut.as_ref());
    Some(cut.map_or(Cow::Borrowed(text.as_str()), |cut| Cow::Owned(cut.apply(text))))
}

/// Whether the part is an output without media.
fn brings_no_media(body: &PartBody) -> bool {
    matches!(body, PartBody::ToolResult(result) if result.attachments.is_empty())
}

/// The call of each result, by the result's part.
fn calls(messages: &[SourceMessage]) -> HashMap<PartId, Call<'_>> {
    let calls = Calls::of(messages);
    let answered = calls.iter().filter_map(|called| {
        let Called { source, part, call, answer, .. } = *called;
        Some((answer?.part.id, Call { source, part, call }))
    });
    answered.collect()
}

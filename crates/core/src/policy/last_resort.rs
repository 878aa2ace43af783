//! The last resort, after the steps of every policy: truncations and omissions that bring a view into its window. The
//! same procedure shortens a view for one call.
//!
//! It removes as little as possible, in this order. A stored view is reduced until a twentieth of the window is
//! free, so that the next message does not require it again:
//!
//! 1. outputs of tools and inputs of calls are truncated, the longest first; inputs stay valid JSON;
//! 2. turns before the newest request are omitted, the oldest first, calls together with their results; the request of a
//!    turn goes last, and stays with an open message or a running call;
//! 3. outputs and inputs are truncated further;
//! 4. messages after the newest request are omitted, except for the newest reply with its results;
//! 5. the active summary is truncated, by no more than needed, and then requests of older turns;
//! 6. for one call only, all texts are truncated, also that of the newest request;
//! 7. the newest reply and requests of older turns are omitted.
//!
//! System messages, pins, a provider's own compaction, the newest request, open messages and running calls stay. If these and the overhead alone do
//! not fit, everything else is reduced to a twentieth of the window: the newest replies stay, and the view remains
//! bounded. The next summary is made from the whole text of a truncated one.

use super::calls::Calls;
use super::plan::{self, PlanningInput};
use super::{LengthUnit, Policy, overflow, tokens, truncate, turns};
use crate::model::Revision;
use crate::model::ids::{CompactionId, PartId};
use crate::model::layout::Placement;
use crate::model::message::Role;
use crate::model::part::{Part, PartBody};
use crate::model::truncation::{Removals, Truncation};
use crate::model::view::{PrunedPart, SourceMessage};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use uuid::Uuid;

/// Length of a truncated output, in the policy's unit: in the first pass and in the second one.
const KEPT_UNITS: [usize; 2] = [1_000, 200];

/// Minimum length of a truncated summary, and length of a truncated request of an older turn, in the policy's unit.
const TEXT_UNITS: usize = 400;

/// Lengths of texts that are truncated for one call, in the policy's unit; tried in order, so that no more is removed
/// than necessary. Outputs are truncated to the last one.
const CALL_UNITS: [usize; 4] = [4_000, 1_000, 300, 60];

/// Text after a truncated output.
const OUTPUT_MARKER: &str = "\n[Tool output truncated: omitted {omitted} chars]";

/// Text after any other truncated text.
const TEXT_MARKER: &str = "\n[Text truncated: omitted {omitted} chars]";

/// The tokens of a request with a view.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// All tokens of the request.
    pub context_tokens: i64,
    /// Tokens of the view, by the policy's estimate.
    pub estimated_tokens: i64,
    /// Tokens that no view shows, as far as they are known.
    pub overhead_tokens: i64,
}

/// The result of the last resort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduction {
    /// The truncations and omissions; none if they are not needed, or free too little.
    pub removals: Removals,
    /// The estimated tokens of the view after them.
    pub estimated_tokens: i64,
    /// True if that view fits its window.
    pub fits: bool,
}

/// The reduction that brings a view of this size into its window, or as close to it as possible.
///
/// If what stays does not fit, a reduction frees at least a twentieth of the window, so that no message causes another
/// one that hardly frees anything.
pub fn reduction(planning: PlanningInput<'_>, size: Size) -> Reduction {
    let unchanged = |fits| Reduction { removals: Removals::default(), estimated_tokens: size.estimated_tokens, fits };
    let limit = planning.window.input_max().filter(|limit| size.context_tokens > *limit);
    let Some(limit) = limit else { return unchanged(true) };
    let free = planning.window.context / overflow::FREE_PARTS;
    let (removals, estimated_tokens) =
        reduced(planning, size.estimated_tokens, size.target(limit.saturating_sub(free)), Extent::Stored);
    if estimated_tokens <= size.target(limit) {
        return Reduction { removals, estimated_tokens, fits: true };
    }
    let (removals, estimated_tokens) =
        reduced(planning, size.estimated_tokens, estimated_tokens.saturating_add(free), Extent::Stored);
    if size.estimated_tokens.saturating_sub(estimated_tokens) < free.max(1) {
        return unchanged(false);
    }
    Reduction { removals, estimated_tokens, fits: false }
}

/// The removals that reduce the estimate of a view to a target for one call, as far as possible.
pub fn removals_for_call(planning: PlanningInput<'_>, target: i64) -> Removals {
    let estimated_tokens = plan::view(planning.policy, planning.sources).estimated_tokens;
    reduced(planning, estimated_tokens, target, Extent::Call).0
}

/// The lengths by which these removals truncate parts of the messages, in the policy's unit.
pub fn omitted_lengths(policy: &Policy, messages: &[SourceMessage], removals: &Removals) -> HashMap<PartId, i64> {
    let truncations: HashMap<PartId, &Truncation> = removals.parts.iter().map(|(id, how)| (*id, how)).collect();
    let parts = messages.iter().flat_map(|source| &source.message.parts);
    let omitted = parts.filter_map(|part| {
        let text = [Texts::Outputs, Texts::All].into_iter().find_map(|texts| text_of(texts, &part.body))?;
        let omitted = text.get(truncations.get(&part.id)?.head..).unwrap_or_default();
        Some((part.id, i64::try_from(tokens::length(policy.counting.unit, omitted)).unwrap_or(i64::MAX)))
    });
    omitted.collect()
}

/// The view that is reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// The session's own.
    Stored,
    /// That of one call.
    Call,
}

/// The removals that reduce the estimate of a view to a target, as far as possible, and the estimate of the result.
fn reduced(planning: PlanningInput<'_>, estimated_tokens: i64, target: i64, extent: Extent) -> (Removals, i64) {
    let mut excess = estimated_tokens.saturating_sub(target);
    let mut correction = 1;
    loop {
        let mut last_resort = LastResort::new(planning, excess);
        let is_enough = last_resort.run(extent);
        let removals = last_resort.removals();
        let after = plan::with_removals(planning.sources, &removals, CompactionId(Uuid::nil()));
        let estimated_tokens = plan::view(planning.policy, &after).estimated_tokens;
        if estimated_tokens <= target || !is_enough {
            return (removals, estimated_tokens);
        }
        // Savings are estimated message by message; the estimate of the resulting view decides.
        excess = excess.saturating_add(correction * (estimated_tokens - target));
        correction *= 2;
    }
}

/// The estimated tokens of all messages that the last resort leaves as they are, by kind.
pub fn fixed(planning: PlanningInput<'_>) -> Vec<(&'static str, i64)> {
    let mut last_resort = LastResort::new(planning, i64::MAX / 2);
    last_resort.truncate_summary();
    let mut fixed =
        ["system messages", "pinned messages", "summaries", "open messages", "the newest request", "calls that run"]
            .map(|what| (what, 0_i64));
    for (index, source) in last_resort.sources.iter().enumerate().filter(|(index, _)| last_resort.is_fixed[*index]) {
        let is_pinned =
            source.placement == Some(Placement::Pinned) || planning.layout.pinned.contains(&plan::slot(source));
        let which = match source {
            _ if source.message.role == Role::System => 0,
            _ if is_pinned => 1,
            source if is_elsewhere(source) => 2,
            source if source.message.sealed_revision.is_none() => 3,
            source if index == last_resort.request && turns::is_request(&source.message) => 4,
            _ => 5,
        };
        fixed[which].1 = fixed[which].1.saturating_add(tokens::estimate_source(planning.policy, source));
    }
    fixed.to_vec()
}

impl Size {
    /// The largest estimate of a view for a request of at most `context_tokens` tokens; negative if the overhead alone
    /// exceeds them. Usage beyond the estimate and the overhead is assumed to shrink with the view.
    pub fn estimate_of(self, context_tokens: i64) -> i64 {
        let real = i128::from(context_tokens.saturating_sub(self.overhead()));
        let estimate = real * i128::from(self.estimated()) / i128::from(self.real());
        i64::try_from(estimate).unwrap_or(i64::MAX)
    }

    /// The tokens of a request whose view has this estimate, rounded up.
    pub fn context_tokens_of(self, estimate: i64) -> i64 {
        let (real, estimated) = (i128::from(self.real()), i128::from(self.estimated()));
        let tokens = (i128::from(estimate.max(0)) * real + estimated - 1) / estimated;
        i64::try_from(tokens).unwrap_or(i64::MAX).saturating_add(self.overhead())
    }

    /// The largest estimate of a view after which a request has at most `limit` tokens; negative if the overhead alone
    /// exceeds them. After a change of the view no usage is valid, so the estimate alone must fit too.
    fn target(self, limit: i64) -> i64 {
        self.estimate_of(limit).min(limit.saturating_sub(self.overhead()))
    }

    fn overhead(self) -> i64 {
        self.overhead_tokens.clamp(0, self.context_tokens.max(0))
    }

    /// The tokens of the view as the provider counts them.
    fn real(self) -> i64 {
        self.context_tokens.saturating_sub(self.overhead()).max(1)
    }

    fn estimated(self) -> i64 {
        self.estimated_tokens.max(1)
    }
}

/// The texts to truncate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texts {
    /// Outputs of tools, and inputs of calls.
    Outputs,
    /// Requests of older turns.
    OlderRequests,
    /// Texts of people and models, also of the newest request and beside running calls.
    All,
}

/// State of the last resort: a view that is being reduced.
struct LastResort<'a> {
    planning: PlanningInput<'a>,
    sources: Vec<SourceMessage>,
    /// For each message, the indexes of messages that must be kept or omitted together with it.
    partners: Vec<Vec<usize>>,
    /// True for each message that stays as it is.
    is_fixed: Vec<bool>,
    /// True for each omitted message.
    is_omitted: Vec<bool>,
    /// Indexes of the requests of older turns.
    older_requests: Vec<usize>,
    /// Index of the newest request; 0 if there is none.
    request: usize,
    /// Index of the newest reply after it; the number of messages if there is none.
    reply: usize,
    truncated: HashMap<PartId, Truncation>,
    /// Estimated tokens that are still to be removed.
    excess: i64,
}

impl<'a> LastResort<'a> {
    fn new(planning: PlanningInput<'a>, excess: i64) -> Self {
        let sources = planning.sources.to_vec();
        let is_request = |source: &SourceMessage| turns::is_request(&source.message) && !is_elsewhere(source);
        let mut older_requests: Vec<usize> = (0..sources.len()).filter(|index| is_request(&sources[*index])).collect();
        let newest_request = older_requests.pop();
        let request = newest_request.unwrap_or(0);
        let reply = sources.iter().rposition(|source| source.message.role == Role::Assistant);
        let mut partners = vec![Vec::new(); sources.len()];
        let mut is_fixed: Vec<bool> = sources.iter().map(|source| is_fixed(planning, source)).collect();
        if let Some(request) = newest_request {
            is_fixed[request] = true;
        }
        let calls = Calls::from_messages(planning.sources);
        let running = calls.unfinished(planning.sources).running;
        for called in calls.iter() {
            match called.answer {
                Some(answer) => {
                    partners[called.index].push(answer.index);
                    partners[answer.index].push(called.index);
                }
                None => is_fixed[called.index] |= running.is_some_and(|first| called.index >= first),
            }
        }
        Self {
            reply: reply.filter(|reply| *reply > request).unwrap_or(sources.len()),
            is_omitted: vec![false; sources.len()],
            truncated: HashMap::new(),
            planning,
            sources,
            partners,
            is_fixed,
            older_requests,
            request,
            excess,
        }
    }

    /// Takes all steps, each until enough is removed. Returns true if it is.
    fn run(&mut self, extent: Extent) -> bool {
        self.truncate(Texts::Outputs, KEPT_UNITS[0]);
        self.omit_turns();
        self.truncate(Texts::Outputs, KEPT_UNITS[1]);
        self.omit(self.request..self.reply);
        self.truncate_summary();
        self.truncate(Texts::OlderRequests, TEXT_UNITS);
        if extent == Extent::Call {
            CALL_UNITS.into_iter().for_each(|units| self.truncate(Texts::All, units));
            self.truncate(Texts::Outputs, CALL_UNITS[CALL_UNITS.len() - 1]);
        }
        self.omit(self.reply..self.sources.len());
        self.omit(0..self.request);
        self.excess <= 0
    }

    /// Truncates texts to `units` units, the longest first.
    fn truncate(&mut self, texts: Texts, units: usize) {
        let unit = self.planning.policy.counting.unit;
        let mut longest: Vec<(Reverse<usize>, usize, usize)> = Vec::new();
        for (index, source) in self.sources.iter().enumerate().filter(|(index, _)| self.may_truncate(texts, *index)) {
            for (position, part) in source.message.parts.iter().enumerate() {
                let length = text_of(texts, &part.body).map_or(0, |text| tokens::length(unit, text));
                if length > units {
                    longest.push((Reverse(length), index, position));
                }
            }
        }
        longest.sort_unstable();
        for (_, index, position) in longest {
            if self.excess <= 0 {
                return;
            }
            self.truncate_part(index, position, units);
        }
    }

    fn may_truncate(&self, texts: Texts, index: usize) -> bool {
        let is_allowed = match texts {
            Texts::Outputs => !self.is_fixed[index],
            Texts::OlderRequests => !self.is_fixed[index] && self.older_requests.binary_search(&index).is_ok(),
            Texts::All => !is_fixed(self.planning, &self.sources[index]),
        };
        is_allowed && !self.is_omitted[index]
    }

    fn truncate_part(&mut self, index: usize, position: usize, units: usize) {
        let policy = self.planning.policy;
        let source = &self.sources[index];
        let Some(part) = source.message.parts.get(position) else { return };
        let Some(truncation) = truncation(policy.counting.unit, part, units) else { return };
        let mut shorter = source.clone();
        shorter.pruned.retain(|pruned| pruned.part != part.id);
        let id = part.id;
        shorter.pruned.push(PrunedPart {
            part: id,
            compaction: CompactionId(Uuid::nil()),
            truncation: Some(truncation.clone()),
        });
        let freed = tokens::estimate_source(policy, source).saturating_sub(tokens::estimate_source(policy, &shorter));
        if freed > 0 {
            self.excess -= freed;
            self.sources[index] = shorter;
            self.truncated.insert(id, truncation);
        }
    }

    /// Truncates the active summary to its beginning, by no more than needed.
    fn truncate_summary(&mut self) {
        let policy = self.planning.policy;
        let unit = policy.counting.unit;
        let Some(index) = self.sources.iter().position(|source| source.placement == Some(Placement::Summary)) else {
            return;
        };
        let (whole, before) = (self.sources[index].clone(), self.excess);
        for part in &whole.message.parts {
            let PartBody::Text(text) = &*part.body else { continue };
            let length = tokens::length(unit, text);
            let mut units = length;
            while self.excess > 0 && units > TEXT_UNITS {
                units = (units - units.div_ceil(8)).max(TEXT_UNITS);
                let Some(truncation) = truncation(unit, part, units) else { break };
                let source = &mut self.sources[index];
                let had = tokens::estimate_source(policy, source);
                source.pruned.retain(|pruned| pruned.part != part.id);
                let compaction = CompactionId(Uuid::nil());
                source.pruned.push(PrunedPart { part: part.id, compaction, truncation: Some(truncation.clone()) });
                self.excess -= had.saturating_sub(tokens::estimate_source(policy, source));
                self.truncated.insert(part.id, truncation);
            }
        }
        // A summary that is already short, or was truncated further before, stays as it is.
        if self.excess >= before {
            whole.message.parts.iter().for_each(|part| drop(self.truncated.remove(&part.id)));
            (self.sources[index], self.excess) = (whole, before);
        }
    }

    /// Omits the turns before the newest request, the oldest first. Of each turn the request goes last, and only if nothing
    /// else of the turn is left, so that the rest of a turn begins with its request.
    fn omit_turns(&mut self) {
        let mut requests = self.older_requests.clone();
        self.omit(0..requests.first().copied().unwrap_or(self.request));
        requests.push(self.request);
        for turn in requests.windows(2) {
            let rest = turn[0] + 1..turn[1];
            self.omit(rest.clone());
            let stays = |index: usize| !self.is_omitted[index] && self.sources[index].message.role != Role::System;
            if !rest.into_iter().any(stays) {
                self.omit(turn[0]..turn[0] + 1);
            }
        }
    }

    /// Omits messages of a range, the oldest first.
    fn omit(&mut self, range: Range<usize>) {
        for index in range {
            if self.excess <= 0 {
                return;
            }
            let together = self.together(index);
            if together.iter().any(|index| self.is_fixed[*index] || self.is_omitted[*index]) {
                continue;
            }
            for index in together {
                let source = &self.sources[index];
                self.excess -= tokens::estimate_source(self.planning.policy, source);
                // An omitted message need not be truncated as well.
                source.message.parts.iter().for_each(|part| drop(self.truncated.remove(&part.id)));
                self.is_omitted[index] = true;
            }
        }
    }

    fn removals(mut self) -> Removals {
        let parts = self.sources.iter().flat_map(|source| &source.message.parts);
        let parts = parts.filter_map(|part| Some((part.id, self.truncated.remove(&part.id)?))).collect();
        let omitted = self.sources.iter().zip(&self.is_omitted).filter(|(_, is_omitted)| **is_omitted);
        let mut omitted: Vec<Revision> = omitted.map(|(source, _)| source.message.revision).collect();
        omitted.sort_unstable();
        Removals { parts, omitted }
    }

    /// The message and all messages that must be kept or omitted with it.
    fn together(&self, index: usize) -> Vec<usize> {
        let mut found = vec![index];
        let mut next = 0;
        while let Some(&index) = found.get(next) {
            let others = self.partners[index].iter().filter(|other| !found.contains(other));
            let others: Vec<usize> = others.copied().collect();
            found.extend(others);
            next += 1;
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// True for a message that represents others or is outside its own position: a summary, a provider's compaction, a marker,
/// a pin or a continuation.
fn is_elsewhere(source: &SourceMessage) -> bool {
    !matches!(source.placement, None | Some(Placement::Edit(_) | Placement::Retained))
}

fn is_fixed(planning: PlanningInput<'_>, source: &SourceMessage) -> bool {
    is_elsewhere(source)
        || source.message.role == Role::System
        || source.message.sealed_revision.is_none()
        || planning.layout.pinned.contains(&plan::slot(source))
}

fn text_of(texts: Texts, body: &PartBody) -> Option<&str> {
    match (body, texts) {
        (PartBody::ToolResult(result), Texts::Outputs) => Some(&result.output),
        (PartBody::ToolCall(call), Texts::Outputs) => Some(&call.input_json),
        (PartBody::Text(text), Texts::OlderRequests | Texts::All) => Some(text),
        (PartBody::Reasoning(text), Texts::All) => Some(text),
        _ => None,
    }
}

/// The truncation of a part: the beginning of a text, or a JSON object with the length of an input.
fn truncation(unit: LengthUnit, part: &Part, units: usize) -> Option<Truncation> {
    let beginning = |text: &str, marker: &str| {
        let (kept, kept_units) = truncate::prefix(unit, text, units);
        let omitted = tokens::length(unit, text) - kept_units;
        let after = marker.replace(truncate::OMITTED, &omitted.to_string());
        Some(Truncation { head: kept.len(), after, ..Truncation::default() })
    };
    match &*part.body {
        PartBody::ToolResult(result) => beginning(&result.output, OUTPUT_MARKER),
        PartBody::Text(text) | PartBody::Reasoning(text) => beginning(text, TEXT_MARKER),
        PartBody::ToolCall(call) => {
            let length = tokens::length(unit, &call.input_json);
            Some(Truncation::placeholder(format!(
                r#"{{"truncated":"[Tool input truncated: omitted {length} chars]"}}"#
            )))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;
    use crate::model::time::Timestamp;
    use crate::model::usage::ModelWindow;
    use crate::policy::{dsl, samples};

    /// The names of the messages that the last resort leaves, and the estimate of their view.
    fn left(talk: &str, context: i64, alter: impl FnOnce(&mut Vec<SourceMessage>, &mut Layout)) -> (Vec<String>, i64) {
        let policy = samples::policy("pi@1.5");
        let mut sources = dsl::parse(talk);
        let mut layout = Layout::everything();
        alter(&mut sources, &mut layout);
        let window = ModelWindow { context, ..ModelWindow::default() };
        let (base, now) = (sources.last().map_or(0, |source| source.message.revision), Timestamp(0));
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout: &layout,
            sources: &sources,
            covered: &[],
            base,
            now,
        };
        let estimated = plan::view(&policy, &sources).estimated_tokens;
        let Reduction { removals, .. } = reduction(planning, size(estimated));
        let after = plan::with_removals(&sources, &removals, CompactionId(Uuid::nil()));
        for source in &after {
            for part in &source.message.parts {
                if let (PartBody::ToolCall(call), Some(pruned)) = (&*part.body, source.pruned_part(part.id)) {
                    let shorter = pruned.truncation.as_ref().expect("a truncation").apply(&call.input_json);
                    serde_json::from_str::<serde_json::Value>(&shorter).expect("inputs stay valid JSON");
                }
            }
        }
        let names = after.iter().map(|source| dsl::name(source).to_owned()).collect();
        (names, plan::view(&policy, &after).estimated_tokens)
    }

    fn size(tokens: i64) -> Size {
        Size { context_tokens: tokens, estimated_tokens: tokens, overhead_tokens: 0 }
    }

    const TALK: &str = "u1 400c\na1 \"looking\"\n  call bash#c1 in=40c\nt1\n  result c1 out=8000c done\na2 400c\n\
                        u2 400c\na3 \"more\"\n  call bash#c2 in=8000c\nt2\n  result c2 out=4000c done\na4 400c\n";

    fn check(talk: &str, context: i64, expected: &[&str], alter: impl FnOnce(&mut Vec<SourceMessage>, &mut Layout)) {
        let (names, tokens) = left(talk, context, alter);
        assert_eq!(names, expected, "in {context}");
        assert!(tokens <= context - context / overflow::FREE_PARTS, "{tokens} of {context}");
    }

    #[test]
    fn outputs_and_inputs_go_first_then_what_is_old_then_what_is_new() {
        let all = ["u1", "a1", "t1", "a2", "u2", "a3", "t2", "a4"];
        let nothing = |_: &mut Vec<SourceMessage>, _: &mut Layout| ();
        // The whole view has about 5 500 tokens.
        check(TALK, 8_000, &all, nothing);
        check(TALK, 5_000, &all, nothing);
        check(TALK, 1_500, &all, nothing);
        check(TALK, 900, &["u1", "a2", "u2", "a3", "t2", "a4"], nothing);
        check(TALK, 600, &all[4..], nothing);
        check(TALK, 300, &all[4..], nothing);
        check(TALK, 250, &["u2", "a4"], nothing);
        check(TALK, 120, &["u2"], nothing);
    }

    #[test]
    fn what_may_not_go_stays() {
        let pinned = |_: &mut Vec<SourceMessage>, layout: &mut Layout| layout.pinned = vec![1];
        check(TALK, 250, &["u1", "u2"], pinned);
        let system = |sources: &mut Vec<SourceMessage>, _: &mut Layout| sources[0].message.role = Role::System;
        check(TALK, 250, &["u1", "u2"], system);
        let open = |sources: &mut Vec<SourceMessage>, _: &mut Layout| sources[3].message.sealed_revision = None;
        check(TALK, 250, &["a2", "u2"], open);
        // A running call stays, one of an earlier turn does not. A call and its result are omitted together.
        let talk = "u1 400c\na1 \"looking\"\n  call bash#c1 in=40c\nu2 400c\na2 \"more\"\n  call bash#c2 in=40c\n\
                    a3 400c\n  call bash#c3 in=40c\nt3\n  result c3 out=400c done\n";
        check(talk, 250, &["u2", "a2"], |_, _| ());
        // No reply follows the newest request yet.
        let talk = "u1 400c\na1 \"looking\"\n  call bash#c1 in=40c\nu2 400c\n";
        check(talk, 200, &["a1", "u2"], |_, _| ());
        // A message with results only is not a request, even if its role is user.
        let talk = "u1 400c\na1 \"looking\"\n  call bash#c1 in=40c\nu2\n  result c1 out=8000c done\na2 400c\n";
        check(talk, 500, &["u1", "a1", "u2", "a2"], |_, _| ());
        check(talk, 240, &["u1", "a2"], |_, _| ());
    }

    /// The reduction of `TALK` in a window with this overhead.
    fn reduced(talk: &str, context: i64, overhead_tokens: i64) -> (Reduction, i64) {
        let policy = samples::policy("pi@1.5");
        let (sources, layout, now) = (dsl::parse(talk), Layout::everything(), Timestamp(0));
        let window = ModelWindow { context, ..ModelWindow::default() };
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout: &layout,
            sources: &sources,
            covered: &[],
            base: 8,
            now,
        };
        let before = plan::view(&policy, &sources).estimated_tokens;
        let size = Size { context_tokens: before + overhead_tokens, estimated_tokens: before, overhead_tokens };
        (reduction(planning, size), before)
    }

    #[test]
    fn a_view_that_fits_is_left_alone() {
        for context in [0, 8_000] {
            let (reduction, before) = reduced(TALK, context, 0);
            let removals = Removals::default();
            assert_eq!(reduction, Reduction { removals, estimated_tokens: before, fits: true }, "in {context}");
        }
    }

    #[test]
    fn what_cannot_fit_becomes_small_and_stays_so() {
        let newest = "u2 400c\n";
        let long = TALK.replace(newest, "u2 40000c\n");
        // An overhead that fills the window, and a newest request that does.
        for (talk, request, overhead) in [(TALK, 100, 9_100), (&*long, 10_000, 0)] {
            let (reduction, before) = reduced(talk, 9_000, overhead);
            assert!(!reduction.fits && !reduction.removals.is_empty());
            let left = reduction.estimated_tokens - request;
            assert!((200..=450).contains(&left), "{left} tokens are left of {before}");
            // The same view with a little more has nothing that is worth another reduction.
            let small = format!("u1 400c\na1 400c\nu2 {}c\na2 1000c\n", 4 * request);
            let (again, before) = reduced(&small, 9_000, overhead);
            let removals = Removals::default();
            assert_eq!(again, Reduction { removals, estimated_tokens: before, fits: false });
        }
    }

    #[test]
    fn usage_shrinks_with_the_view_and_the_estimate_must_fit_as_well() {
        for (limit, overhead, context, estimated, expected) in [
            (900, 0, 2_000, 2_000, 1_100),
            (900, 100, 2_000, 1_900, 1_100),
            // Twice as many tokens as estimated.
            (1_000, 0, 4_000, 2_000, 1_500),
            // Fewer tokens than estimated: no usage confirms that after a change of the view.
            (1_000, 0, 1_500, 3_000, 2_000),
        ] {
            let size = Size { context_tokens: context, estimated_tokens: estimated, overhead_tokens: overhead };
            assert_eq!(size.target(limit), estimated - expected);
        }
    }
}

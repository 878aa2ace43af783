//! Plans of compactions: the result of the steps, computed from a view before anything is claimed or written.

mod by_hand;
mod changes;
mod edit;
#[cfg(test)]
mod tests;

pub use by_hand::{head_can_start, summary_within, tail_can_start};
pub use changes::{Written, changes};
pub use edit::{PlanEdit, edited};

use super::select::Selection;
use super::{
    LevelPolicy, Omission, Policy, Step, Summarize, Summary, attachments, clear, gain, omission, overflow, render,
    select, tokens, turns,
};
use crate::model::Revision;
use crate::model::compaction::{CompactionKind, Level, RevisionRange};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::{Layout, Placement};
use crate::model::message::{Finish, Message, MessageKind, Role};
use crate::model::part::{Marker, Media, Part, PartBody};
use crate::model::ranges::{disjoint, subtract};
use crate::model::time::Timestamp;
use crate::model::truncation::{Removals, Truncation};
use crate::model::usage::ModelWindow;
use crate::model::view::{Pruned, SourceMessage, View};
use foldhash::{HashMap, HashSet};
use std::borrow::Cow;
use uuid::Uuid;

/// Planning input: a view, its messages, and the rules.
#[derive(Debug, Clone, Copy)]
pub struct PlanningInput<'a> {
    /// The active policy.
    pub policy: &'a Policy,
    /// The window to which the view is compared.
    pub window: &'a ModelWindow,
    /// The layout of the view.
    pub layout: &'a Layout,
    /// The messages of the view, in the order of the layout.
    pub sources: &'a [SourceMessage],
    /// The revision of the view.
    pub base: Revision,
    /// The current time, for placeholders that contain it and for conditions on idle time.
    pub now: Timestamp,
}

/// The result of the steps of a compaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// The truncations and omissions.
    pub removals: Removals,
    /// The summary to be made, from the messages after these truncations and omissions.
    pub summary: Option<SummaryPlan>,
}

impl Work {
    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.summary.is_none()
    }
}

/// A summary to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryPlan {
    /// Messages before the range of a summary by hand; they stay in the view.
    pub front: Vec<SourceMessage>,
    /// Newly covered messages, oldest first.
    pub head: Vec<SourceMessage>,
    /// The front of a split turn, if the policy gives it a summary of its own; it follows `head`.
    pub split_turn: Vec<SourceMessage>,
    /// The text of the active summary, which the new one replaces; none if the policy does not carry it on.
    pub previous: Option<String>,
    /// The form of the summary.
    pub rules: Summary,
    /// All ranges that the new summary covers.
    pub covered: Vec<RevisionRange>,
    /// The first position kept verbatim.
    pub tail_start: Revision,
    /// The message at that position, if there is one.
    pub tail_message: Option<MessageId>,
    /// Covered messages that the view still shows, by revision, ascending.
    pub retained: Vec<Revision>,
    /// True if the retained messages are before the summary.
    pub retained_first: bool,
    /// The truncations of retained messages and of the tail.
    pub removals: Removals,
    /// The attachments of the summary.
    pub attachments: Vec<PartBody>,
    /// The steps if no summary can be made.
    pub fallback: Vec<Omission>,
}

impl SummaryPlan {
    /// Number of covered messages at their own positions before the tail.
    pub fn covered_count(&self) -> usize {
        self.front.len() + self.head.len() + self.split_turn.len()
    }

    /// The boundary of the summary, with the retained messages.
    pub fn boundary(&self) -> Boundary<'_> {
        Boundary { tail_start: self.tail_start, retained: &self.retained, retained_first: self.retained_first }
    }
}

/// An automatic compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A level is applied.
    Level(Level),
    /// Maintenance runs.
    Maintenance,
}

impl Decision {
    /// The level; none for maintenance.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Level(level) => Some(level),
            Self::Maintenance => None,
        }
    }
}

/// The kind of a compaction by these steps: the strongest of their kinds.
pub fn kind(steps: &[Step]) -> CompactionKind {
    let rank = |step: &Step| match step {
        Step::Clear(_) => CompactionKind::Prune,
        Step::Omit(_) => CompactionKind::Omission,
        Step::Summarize(_) => CompactionKind::Summary,
    };
    steps.iter().map(rank).max().unwrap_or(CompactionKind::Prune)
}

/// The automatic compaction of a view with `context_tokens` tokens: the highest reached level that `allowed` permits
/// and whose steps are worth their cost, or else maintenance, or none.
pub fn decide(planning: PlanningInput<'_>, context_tokens: i64, allowed: impl Fn(Level) -> bool) -> Option<Decision> {
    let PlanningInput { policy, window, .. } = planning;
    if !policy.trigger.auto {
        return None;
    }
    let mut reached = overflow::reached(policy, window, context_tokens).filter(|(level, _)| allowed(*level));
    let level = reached.find(|(_, level_policy)| worthy(planning, level_policy, context_tokens).is_some());
    let maintenance_pays = || gain::is_enough(planning, &policy.maintenance, &maintenance(planning), context_tokens);
    level.map(|(level, _)| Decision::Level(level)).or_else(|| maintenance_pays().then_some(Decision::Maintenance))
}

/// The result of a decision in a view with `context_tokens` tokens.
pub fn decided(planning: PlanningInput<'_>, decision: Decision, context_tokens: i64) -> Work {
    match decision {
        Decision::Level(level) => {
            let level_policy = planning.policy.level(level);
            level_policy.and_then(|level_policy| worthy(planning, level_policy, context_tokens)).unwrap_or_default()
        }
        Decision::Maintenance => maintenance(planning),
    }
}

/// True if a level has something to do, with its own tail or a smaller one.
fn level_has_work(planning: PlanningInput<'_>, level_policy: &LevelPolicy) -> bool {
    tail_fallbacks(level_policy).iter().any(|level_policy| steps_have_work(planning, &level_policy.steps))
}

/// True if the steps have something to do: then one of them has, without the changes of the earlier ones. So they can
/// be evaluated in any order, and those that depend only on the number of messages come first.
fn steps_have_work(planning: PlanningInput<'_>, steps: &[Step]) -> bool {
    let has_work = |step: &&Step| match step {
        Step::Summarize(rule) => can_summarize(planning, rule),
        Step::Clear(_) | Step::Omit(_) => !take(planning, step).is_empty(),
    };
    let is_quick = |step: &&Step| matches!(step, Step::Omit(omission) if omission.goes_by_number());
    let (quick, slow): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(is_quick);
    quick.iter().any(has_work) || slow.iter().any(has_work)
}

/// The result of a level's steps, with its own tail or a smaller one, if it is worth its cost.
fn worthy(planning: PlanningInput<'_>, level_policy: &LevelPolicy, context_tokens: i64) -> Option<Work> {
    let mut works =
        tail_fallbacks(level_policy).into_iter().map(|level_policy| apply(planning, &level_policy, context_tokens));
    works.find(|work| gain::is_enough(planning, &level_policy.steps, work, context_tokens))
}

/// True if the steps of a level are worth their cost.
pub fn is_worth_it(planning: PlanningInput<'_>, level: Option<Level>, context_tokens: i64) -> bool {
    let level_policy = level.and_then(|level| planning.policy.level(level));
    level_policy.is_some_and(|level_policy| worthy(planning, level_policy, context_tokens).is_some())
}

/// The level for overflow recovery, which removes most from a view that is too large, regardless of the thresholds: the
/// highest reached level that has something to do, or else the lowest of the others.
pub fn recovery_level(planning: PlanningInput<'_>, context_tokens: i64) -> Option<(Level, CompactionKind)> {
    let PlanningInput { policy, window, .. } = planning;
    let is_reached =
        |level_policy: &LevelPolicy| level_policy.threshold.due_at(window).is_some_and(|due| context_tokens >= due);
    let reached = policy.levels().rev().filter(|(_, level_policy)| is_reached(level_policy));
    let others = policy.levels().filter(|(_, level_policy)| !is_reached(level_policy));
    let useful = |(level, level_policy): (Level, &LevelPolicy)| {
        level_has_work(planning, level_policy).then(|| (level, kind(&level_policy.steps)))
    };
    reached.chain(others).find_map(useful)
}

/// The result of a level's steps in a view with `context_tokens` tokens.
pub fn apply(planning: PlanningInput<'_>, level_policy: &LevelPolicy, context_tokens: i64) -> Work {
    let enough = level_policy.due_at(planning.window).filter(|_| level_policy.stop_when_enough);
    steps(planning, &level_policy.steps, context_tokens, enough)
}

/// The level as applied by hand: all of its steps, even if fewer would be enough.
pub fn by_hand(level_policy: &LevelPolicy) -> LevelPolicy {
    LevelPolicy { stop_when_enough: false, ..level_policy.clone() }
}

/// The result of maintenance.
pub fn maintenance(planning: PlanningInput<'_>) -> Work {
    steps(planning, &planning.policy.maintenance, 0, None)
}

/// The result of a prune by hand: every prune of the policy, regardless of context usage and conditions.
pub fn clear_all(planning: PlanningInput<'_>) -> Work {
    let level_steps = planning.policy.levels().flat_map(|(_, level_policy)| &level_policy.steps);
    let clears = planning.policy.maintenance.iter().chain(level_steps).filter_map(|step| match step {
        Step::Clear(clear) => Some(Step::Clear(clear.by_hand())),
        Step::Omit(_) | Step::Summarize(_) => None,
    });
    steps(planning, &clears.collect::<Vec<_>>(), 0, None)
}

/// Takes the steps in order, each on the result of the previous ones; stops when fewer than `enough` tokens remain.
fn steps(planning: PlanningInput<'_>, steps: &[Step], context_tokens: i64, enough: Option<i64>) -> Work {
    let mut work = Work::default();
    let mut sources = Cow::Borrowed(planning.sources);
    for (index, step) in steps.iter().enumerate() {
        let is_done = |enough| {
            let needed = context_tokens.saturating_sub(enough);
            tokens::frees_more_than(planning.policy, planning.sources, &sources, needed)
        };
        if !work.removals.is_empty() && enough.is_some_and(is_done) {
            break;
        }
        let here = PlanningInput { sources: &sources, ..planning };
        let Work { removals, summary } = take(here, step);
        work.summary = summary.or(work.summary);
        if removals.is_empty() {
            continue;
        }
        // Only a following step needs the result of this one.
        if index + 1 < steps.len() {
            sources = Cow::Owned(cut_down(sources, &removals, CompactionId(Uuid::nil())));
        }
        merge(&mut work.removals, removals);
    }
    work
}

/// The result of one step.
fn take(planning: PlanningInput<'_>, step: &Step) -> Work {
    let mut work = match step {
        Step::Clear(rule) => {
            let removals =
                clear::select(planning.policy, rule, planning.window, planning.now, planning.sources).removals;
            Work { removals, summary: None }
        }
        Step::Omit(rule) => Work { removals: removals_inline(planning, rule), summary: None },
        Step::Summarize(rule) => {
            let summary = summary(planning, rule);
            Work { removals: summary.as_ref().map(|summary| summary.removals.clone()).unwrap_or_default(), summary }
        }
    };
    spare_pinned(planning.layout, planning.sources, &mut work.removals);
    work
}

/// The truncations and omissions of a strategy among the messages at their own positions.
fn removals_inline(planning: PlanningInput<'_>, rule: &Omission) -> Removals {
    omission::removals(rule, planning.policy, planning.window, &inline(planning.sources))
}

/// Removes truncations and omissions of pinned messages, which stay verbatim.
fn spare_pinned(layout: &Layout, sources: &[SourceMessage], removals: &mut Removals) {
    if layout.pinned.is_empty() {
        return;
    }
    let is_pinned =
        |source: &&SourceMessage| source.placement == Some(Placement::Pinned) || layout.pinned.contains(&slot(source));
    let pinned: Vec<&Message> = sources.iter().filter(is_pinned).map(|source| &*source.message).collect();
    let revisions: HashSet<Revision> = pinned.iter().map(|message| message.revision).collect();
    let parts: HashSet<PartId> = pinned.iter().flat_map(|message| &message.parts).map(|part| part.id).collect();
    removals.omitted.retain(|revision| !revisions.contains(revision));
    removals.parts.retain(|(part, _)| !parts.contains(part));
}

/// Placeholders for all media that a view shows, including those of the last request: for a provider that refused the
/// view.
pub fn without_media(planning: PlanningInput<'_>) -> Removals {
    let name = |media: &Media| if media.name.is_empty() { "file".to_owned() } else { media.name.clone() };
    let note = |media: &Media| format!("[Attached {}: {}]", media.mime_type, name(media));
    let mut parts = Vec::new();
    for source in planning.sources.iter().filter(|source| source.placement != Some(Placement::Summary)) {
        for part in source.message.parts.iter().filter(|part| source.pruned_part(part.id).is_none()) {
            let words = match &*part.body {
                PartBody::Media(media) => note(media),
                PartBody::ToolResult(result) if !result.attachments.is_empty() => {
                    let notes = result.attachments.iter().map(note);
                    std::iter::once(result.output.clone()).chain(notes).collect::<Vec<_>>().join("\n")
                }
                _ => continue,
            };
            parts.push((part.id, Truncation::placeholder(words)));
        }
    }
    Removals { parts, omitted: Vec::new() }
}

/// The fallback for a summary that cannot be made.
pub fn fallback(planning: PlanningInput<'_>, omissions: &[Omission]) -> Work {
    let omissions: Vec<Step> = omissions.iter().cloned().map(Step::Omit).collect();
    steps(planning, &omissions, 0, None)
}

/// Adds later truncations and omissions to earlier ones; for the same part the later truncation holds.
pub fn merge(removals: &mut Removals, later: Removals) {
    let again: HashSet<PartId> = later.parts.iter().map(|(part, _)| *part).collect();
    removals.parts.retain(|(part, _)| !again.contains(part));
    removals.parts.extend(later.parts);
    removals.omitted.extend(later.omitted);
    removals.omitted.sort_unstable();
    removals.omitted.dedup();
}

/// The position of a message in the conversation: for a replacement, that of the message it replaces.
pub fn slot(source: &SourceMessage) -> Revision {
    match source.placement {
        Some(Placement::Edit(target)) => target,
        _ => source.message.revision,
    }
}

/// True if a message that a new summary could cover is before a position. Messages retained by the previous summary
/// always are, even a replacement that came later than that position.
fn is_in_front(source: &SourceMessage, position: Revision) -> bool {
    source.placement == Some(Placement::Retained) || slot(source) < position
}

/// The messages that a new summary could cover: the messages at their own positions, after those that the previous
/// summary retained.
fn inline(sources: &[SourceMessage]) -> Cow<'_, [SourceMessage]> {
    let has_own_position = |source: &SourceMessage| {
        matches!(source.placement, None | Some(Placement::Edit(_) | Placement::Retained | Placement::Continuation))
    };
    if sources.iter().all(has_own_position) {
        return Cow::Borrowed(sources);
    }
    sources.iter().filter(|source| has_own_position(source)).cloned().collect()
}

/// The ranges that a summary of `head` covers: those of the previous summary, and the new ones.
///
/// Adjacent messages of the view form one range, however many events lie between them. A range never extends over
/// anything that is omitted from the view.
fn covered(layout: &Layout, head: &[SourceMessage]) -> Vec<RevisionRange> {
    let mut ranges: Vec<RevisionRange> =
        layout.covered.as_ref().map(|covered| covered.ranges.clone()).unwrap_or_default();
    let mut run: Option<RevisionRange> = None;
    for source in head {
        let revision = source.message.revision;
        let alone = RevisionRange { first: revision, last: revision };
        match source.placement {
            // The active summary covers it already.
            Some(Placement::Retained) => continue,
            Some(_) => {
                ranges.push(alone);
                continue;
            }
            None => {}
        }
        run = Some(match run {
            Some(run) if !left_out_between(layout, run.last, revision) => {
                RevisionRange { first: run.first, last: revision }
            }
            Some(run) => {
                ranges.push(run);
                alone
            }
            None => alone,
        });
    }
    ranges.extend(run);
    disjoint(ranges)
}

fn left_out_between(layout: &Layout, before: Revision, after: Revision) -> bool {
    let between = RevisionRange { first: before + 1, last: after - 1 };
    between.first <= between.last && layout.omitted.iter().any(|omitted| omitted.range.overlaps(&between))
}

/// The text of the active summary, with its attachments.
fn previous(sources: &[SourceMessage]) -> Option<String> {
    let texts = active_summary(sources)?.message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Some(texts.collect::<Vec<_>>().join("\n\n"))
}

/// The text of the active summary as the view shows it, possibly truncated. Attachments are not included, since the
/// next summary has others.
pub fn shown_summary(sources: &[SourceMessage]) -> Option<String> {
    let summary = active_summary(sources)?;
    let own = summary.message.parts.iter().find_map(|part| match &*part.body {
        PartBody::Text(text) => {
            let truncation = summary.pruned_part(part.id).and_then(|pruned| pruned.truncation.as_ref());
            Some(truncation.map_or_else(|| text.clone(), |truncation| truncation.apply(text)))
        }
        _ => None,
    });
    Some(own.unwrap_or_default())
}

/// The summary by a rule of the policy; none if there is nothing to cover.
pub fn summary(planning: PlanningInput<'_>, rule: &Summarize) -> Option<SummaryPlan> {
    let inline = inline(planning.sources);
    is_long_enough(planning, rule, &inline)
        .then(|| selected(planning, rule, &inline))
        .and_then(|selection| summary_of(planning, rule, &inline, 0, selection))
}

/// True if a rule of the policy leads to a summary.
fn can_summarize(planning: PlanningInput<'_>, rule: &Summarize) -> bool {
    let inline = inline(planning.sources);
    is_long_enough(planning, rule, &inline) && covers_something(&inline, 0, &selected(planning, rule, &inline))
}

/// True if the view has the minimum number of messages of a rule; after a summary there is no minimum.
fn is_long_enough(planning: PlanningInput<'_>, rule: &Summarize, inline: &[SourceMessage]) -> bool {
    let least = rule.minimum_messages as usize;
    let shown = inline.iter().filter(|source| turns::says_something(&source.message));
    active_summary(planning.sources).is_some() || shown.take(least).count() >= least
}

/// True if a summary of the selection would cover anything that is neither covered already nor kept before the summary.
fn covers_something(inline: &[SourceMessage], front: usize, selection: &Selection) -> bool {
    let retained = inline.iter().filter(|source| source.placement == Some(Placement::Retained)).count();
    selection.head_end > retained.max(front)
}

/// The selection of a rule among the messages that a summary could cover.
fn selected(planning: PlanningInput<'_>, rule: &Summarize, inline: &[SourceMessage]) -> Selection {
    let active = active_summary(planning.sources);
    select::select_behind(planning.policy, &rule.tail, planning.window, active, inline)
}

fn active_summary(sources: &[SourceMessage]) -> Option<&SourceMessage> {
    sources.iter().find(|source| source.placement == Some(Placement::Summary))
}

/// The summary of a selection among the messages that it could cover, without the first `front` messages, which stay
/// before it.
fn summary_of(
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
    let (under, tail) = inline.split_at(selection.head_end.min(inline.len()));
    let (front, head) = under.split_at(front);
    let tail_start = tail.first().map_or(base + 1, slot);
    let split = selection
        .split_turn_start
        .filter(|_| rule.summary.split_turn_heading.is_some())
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
        previous: previous(sources).filter(|_| rule.summary.carry_previous),
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

/// The attachments of a new summary, from the messages that it covers.
fn attached(policy: &Policy, rules: &Summary, head: &[SourceMessage]) -> Vec<PartBody> {
    rules.attachments.as_ref().map_or_else(Vec::new, |rules| attachments::attachments(rules, policy, head))
}

/// Maximum number of times that a tail is halved for a summary that would free too little.
const TAIL_FALLBACKS_MAX: usize = 5;

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

fn with_smaller_tail(level_policy: &LevelPolicy) -> Option<LevelPolicy> {
    let mut level_policy = level_policy.clone();
    let mut is_smaller = false;
    for step in &mut level_policy.steps {
        if let Step::Summarize(rule) = step
            && let Some(tail) = rule.tail.smaller()
        {
            rule.tail = tail;
            is_smaller = true;
        }
    }
    is_smaller.then_some(level_policy)
}

/// True if a summary supplied by a client may extend to a boundary: it must not cover an open message or a running
/// call.
pub fn boundary_is_safe(sources: &[SourceMessage], tail_start: Revision) -> bool {
    let inline = inline(sources);
    let end = inline.iter().filter(|source| is_in_front(source, tail_start)).count();
    end <= select::last_safe_boundary(&inline)
}

/// The ranges and the number of messages that a summary supplied by a client would cover; none if all of them are
/// covered already.
pub fn supplied(layout: &Layout, sources: &[SourceMessage], tail_start: Revision) -> (Vec<RevisionRange>, i64) {
    let inline = inline(sources);
    let head: Vec<SourceMessage> = inline.iter().filter(|source| is_in_front(source, tail_start)).cloned().collect();
    // Retained messages alone are covered already, and a tail that starts among them would contain further covered
    // messages.
    if head.iter().all(|source| source.placement == Some(Placement::Retained)) {
        return (Vec::new(), 0);
    }
    let count = i64::try_from(head.len()).unwrap_or(i64::MAX);
    (covered(layout, &head), count)
}

/// A message that is not stored yet, as a view would show it.
fn derived(kind: MessageKind, role: Role, body: PartBody, placement: Placement) -> SourceMessage {
    let part = nameless(body);
    let message = Message {
        id: MessageId(Uuid::nil()),
        session_id: SessionId(Uuid::nil()),
        client_id: None,
        revision: 0,
        role,
        kind,
        parts: vec![part],
        sealed_revision: Some(0),
        finish: Finish::default(),
        model: String::new(),
        provider: String::new(),
        create_time: Timestamp(0),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    };
    SourceMessage { message: message.into(), placement: Some(placement), pruned: Vec::new(), counts: None }
}

/// A part that is not stored yet.
fn nameless(body: PartBody) -> Part {
    Part { id: PartId(Uuid::nil()), client_id: None, revision: 0, body: body.into(), metadata_json: None }
}

/// The text of the marker under a policy.
pub fn marker_text(policy: &Policy) -> Option<String> {
    policy.view.marker_text.clone()
}

/// The ranges of omitted messages. Adjacent messages of the view form one range, however many events lie between them.
/// A range never extends over anything that stays or is omitted already.
pub fn omitted_ranges(layout: &Layout, sources: &[SourceMessage], removals: &Removals) -> Vec<RevisionRange> {
    let alone = Layout { covered: None, ..layout.clone() };
    let mut ranges = Vec::new();
    let runs = sources.chunk_by(|before, after| {
        let is_left_out = |source: &SourceMessage| removals.omitted.binary_search(&source.message.revision).is_ok();
        is_left_out(before) == is_left_out(after)
    });
    for run in runs.filter(|run| removals.omitted.binary_search(&run[0].message.revision).is_ok()) {
        ranges.extend(covered(&alone, run));
        // A retained message is beside the summary, so it forms a range of its own.
        let retained = run.iter().filter(|source| source.placement == Some(Placement::Retained));
        ranges.extend(retained.map(|source| {
            let revision = source.message.revision;
            RevisionRange { first: revision, last: revision }
        }));
    }
    // A replacement is located by its own revision, which may lie between two adjacent messages although its position
    // is elsewhere.
    let stays = sources.iter().filter(|source| removals.omitted.binary_search(&source.message.revision).is_err());
    let stays = stays.map(|source| source.message.revision).map(|at| RevisionRange { first: at, last: at });
    subtract(&disjoint(ranges), &disjoint(stays.collect()))
}

/// The messages of the view after these truncations and omissions.
pub fn with_removals(sources: &[SourceMessage], removals: &Removals, compaction: CompactionId) -> Vec<SourceMessage> {
    cut_down(Cow::Borrowed(sources), removals, compaction)
}

/// The same of a list that may be the result of an earlier step, which is changed in place.
fn cut_down(sources: Cow<'_, [SourceMessage]>, removals: &Removals, compaction: CompactionId) -> Vec<SourceMessage> {
    let stays = |source: &SourceMessage| removals.omitted.binary_search(&source.message.revision).is_err();
    let mut after = match sources {
        _ if removals.omitted.is_empty() => sources.into_owned(),
        Cow::Borrowed(sources) => sources.iter().filter(|source| stays(source)).cloned().collect(),
        Cow::Owned(mut sources) => {
            sources.retain(stays);
            sources
        }
    };
    let by_part: HashMap<PartId, &Truncation> =
        removals.parts.iter().map(|(part, truncation)| (*part, truncation)).collect();
    for source in after.iter_mut().filter(|_| !by_part.is_empty()) {
        for part in &source.message.parts {
            let Some(truncation) = by_part.get(&part.id) else { continue };
            source.pruned.retain(|pruned| pruned.part != part.id);
            source.pruned.push(Pruned { part: part.id, compaction, truncation: Some((*truncation).clone()) });
        }
    }
    after
}

/// The messages of the view under a new summary with its attachments.
pub fn with_summary(
    policy: &Policy,
    layout: &Layout,
    sources: &[SourceMessage],
    boundary: &Boundary<'_>,
    text: &str,
    attachments: &[PartBody],
) -> Vec<SourceMessage> {
    let mut after = Vec::new();
    if let Some(text) = marker_text(policy) {
        let body = PartBody::Marker(Marker { name: "compaction".to_owned(), text });
        after.push(derived(MessageKind::Marker, Role::User, body, Placement::Marker));
    }
    let mut summary =
        derived(MessageKind::Summary, Role::Assistant, PartBody::Text(text.to_owned()), Placement::Summary);
    summary.message.parts.extend(attachments.iter().map(|body| nameless(body.clone())));
    let revisions: HashSet<Revision> = boundary.retained.iter().copied().collect();
    let is_retained = |source: &&SourceMessage| {
        revisions.contains(&source.message.revision) && !layout.pinned.contains(&slot(source))
    };
    let retained = sources.iter().filter(is_retained).cloned();
    let retained: Vec<SourceMessage> =
        retained.map(|source| SourceMessage { placement: Some(Placement::Retained), ..source }).collect();
    if boundary.retained_first {
        after.splice(0..0, retained.iter().cloned());
        after.push(summary);
    } else {
        after.push(summary);
        after.extend(retained);
    }
    for source in sources {
        match source.placement {
            Some(Placement::Marker | Placement::Summary | Placement::Retained) => {}
            Some(Placement::Pinned) => after.push(source.clone()),
            None | Some(Placement::Edit(_) | Placement::Continuation) if slot(source) >= boundary.tail_start => {
                after.push(source.clone());
            }
            None | Some(Placement::Edit(_) | Placement::Continuation) => {
                if layout.pinned.contains(&slot(source)) {
                    after.push(SourceMessage { placement: Some(Placement::Pinned), ..source.clone() });
                }
            }
        }
    }
    after
}

/// The messages of the view after this work. The size of a summary that is still to be written is assumed to be that of
/// the summary it replaces, as the view shows it.
pub fn foreseen<'a>(planning: PlanningInput<'a>, work: &Work) -> Cow<'a, [SourceMessage]> {
    let PlanningInput { policy, layout, sources, .. } = planning;
    let mut after = Cow::Borrowed(sources);
    // The summary comes first: messages that it covers need not be truncated.
    if let Some(summary) = &work.summary {
        let expected = summary.previous.as_ref().and_then(|_| shown_summary(sources));
        let expected = expected.as_deref().unwrap_or(" ");
        after = with_summary(policy, layout, sources, &summary.boundary(), expected, &summary.attachments).into();
    }
    if !work.removals.is_empty() {
        after = cut_down(after, &work.removals, CompactionId(Uuid::nil())).into();
    }
    after
}

/// The boundary of a summary, with the retained messages.
#[derive(Debug, Clone, Copy)]
pub struct Boundary<'a> {
    /// The first position kept verbatim.
    pub tail_start: Revision,
    /// Covered messages that stay in the view, by revision.
    pub retained: &'a [Revision],
    /// True if the retained messages are before the summary.
    pub retained_first: bool,
}

/// Tokens of tool outputs that a prune of maintenance could still examine.
pub fn output_tokens(policy: &Policy, sources: &[SourceMessage]) -> i64 {
    if !policy.maintenance.iter().any(|step| matches!(step, Step::Clear(_))) {
        return 0;
    }
    let of = |source: &SourceMessage| -> i64 {
        let open = |part: &&Part| source.pruned_part(part.id).is_none();
        let outputs = source.message.parts.iter().filter(open).filter_map(|part| match &*part.body {
            PartBody::ToolResult(result) => Some(tokens::estimate_words_of(policy, source, part, &result.output)),
            _ => None,
        });
        outputs.sum()
    };
    sources.iter().map(of).sum()
}

/// Number of messages at their own positions in the view.
pub fn message_count(sources: &[SourceMessage]) -> i64 {
    i64::try_from(inline(sources).len()).unwrap_or(i64::MAX)
}

/// Index of the first view message that differs.
pub fn first_changed(before: &View, after: &View) -> i64 {
    let same = before.messages.iter().zip(&after.messages).take_while(|(before, after)| before == after).count();
    i64::try_from(same).unwrap_or(i64::MAX)
}

/// The view of these messages under a policy.
pub fn view(policy: &Policy, sources: &[SourceMessage]) -> View {
    render::render(policy, sources)
}

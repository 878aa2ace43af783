//! What a reduction of a session would do: worked out from its view, before anything is claimed or written.

use crate::model::Revision;
use crate::model::compaction::{RevisionRange, Trigger};
use crate::model::ids::{CompactionId, MessageId, PartId};
use crate::model::layout::{Layout, Place};
use crate::model::message::{Finish, Message, MessageKind, Role};
use crate::model::part::{Marker, Part, PartBody};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::{SourceMessage, View};
use crate::policy::{self, Policy, overflow, prune, render, select, tokens};
use crate::store::Rule;
use uuid::Uuid;

/// A summary to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryPlan {
    /// What is covered anew, oldest first.
    pub head: Vec<SourceMessage>,
    /// The front of a split turn, where the policy gives it a summary of its own; it follows `head`.
    pub split_turn: Vec<SourceMessage>,
    /// The text of the live summary, which the new one replaces.
    pub previous: Option<String>,
    /// Everything the new summary stands for.
    pub covered: Vec<RevisionRange>,
    /// The first place kept verbatim.
    pub tail_start: Revision,
    /// The message that stands there, if one does.
    pub tail_message: Option<MessageId>,
}

/// The place of a message in the conversation: for a replacement, that of the message it replaces.
fn slot(source: &SourceMessage) -> Revision {
    match source.place {
        Some(Place::Edit(target)) => target,
        _ => source.message.revision,
    }
}

/// The messages that a new summary could cover: those that stand in the view at their own places.
fn inline(sources: &[SourceMessage]) -> Vec<SourceMessage> {
    let own_place = |source: &&SourceMessage| matches!(source.place, None | Some(Place::Edit(_)));
    sources.iter().filter(own_place).cloned().collect()
}

/// The ranges that stand under a summary of `head`: those of the summary before, and what is added.
///
/// Neighbours in the view make one range, however many events lie between them; a range never reaches over something
/// that is left out of the view.
fn covered(layout: &Layout, head: &[SourceMessage]) -> Vec<RevisionRange> {
    let mut ranges: Vec<RevisionRange> =
        layout.covered.as_ref().map(|covered| covered.ranges.clone()).unwrap_or_default();
    let mut run: Option<RevisionRange> = None;
    for source in head {
        let revision = source.message.revision;
        let alone = RevisionRange { first: revision, last: revision };
        if source.place.is_some() {
            ranges.push(alone);
            continue;
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
    ranges.sort_by_key(|range| range.first);
    let mut merged: Vec<RevisionRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.first <= last.last => last.last = last.last.max(range.last),
            _ => merged.push(range),
        }
    }
    merged
}

fn left_out_between(layout: &Layout, before: Revision, after: Revision) -> bool {
    let between = RevisionRange { first: before + 1, last: after - 1 };
    between.first <= between.last && layout.omitted.iter().any(|omitted| omitted.range.overlaps(&between))
}

fn previous(sources: &[SourceMessage]) -> Option<String> {
    let summary = sources.iter().find(|source| source.place == Some(Place::Summary))?;
    let texts = summary.message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Some(texts.collect::<Vec<_>>().join("\n\n"))
}

/// The summary that the policy wants, or none when there is nothing to cover.
pub fn summary(
    policy: &Policy,
    window: &ModelWindow,
    layout: &Layout,
    sources: &[SourceMessage],
    base: Revision,
) -> Option<SummaryPlan> {
    let inline = inline(sources);
    let selection = select::select(policy, window, &inline);
    if selection.head_end == 0 {
        return None;
    }
    let (head, tail) = inline.split_at(selection.head_end.min(inline.len()));
    let tail_start = tail.first().map_or(base + 1, slot);
    let split = selection
        .split_turn_start
        .filter(|_| policy.summary.split_turn_heading.is_some())
        .map_or(head.len(), |start| start.min(head.len()));
    Some(SummaryPlan {
        covered: covered(layout, head),
        head: head[..split].to_vec(),
        split_turn: head[split..].to_vec(),
        previous: previous(sources),
        tail_start,
        tail_message: tail.first().map(|source| source.message.id),
    })
}

/// How often a tail is halved for a summary that would free too little.
const NARROWER_MAX: usize = 5;

/// The policy, and the same with smaller and smaller tails: what an automatic summary falls back on when the tail that
/// the policy wants leaves too little to take away, and yet the view is too large. A request by hand gets the policy's
/// own tail only.
pub fn narrowings(policy: &Policy, trigger: Trigger) -> Vec<Policy> {
    let mut policies = vec![policy.clone()];
    let most = if trigger == Trigger::Threshold { NARROWER_MAX } else { 0 };
    for _ in 0..most {
        let Some(tail) = policies.last().and_then(|last| select::narrower(&last.tail)) else { break };
        policies.push(Policy { tail, ..policy.clone() });
    }
    policies
}

/// Whether an automatic summary has anything to cover, with the policy's tail or a smaller one.
pub fn can_summarize(
    policy: &Policy,
    window: &ModelWindow,
    layout: &Layout,
    sources: &[SourceMessage],
    base: Revision,
) -> bool {
    let possible = |policy: &Policy| summary(policy, window, layout, sources, base).is_some();
    narrowings(policy, Trigger::Threshold).iter().any(possible)
}

/// Whether a summary that somebody brings along may reach up to a boundary: it must not stand for a message that is still
/// being written, nor for a call that still runs.
pub fn boundary_is_safe(sources: &[SourceMessage], tail_start: Revision) -> bool {
    let inline = inline(sources);
    let end = inline.iter().filter(|source| slot(source) < tail_start).count();
    end <= select::last_safe_cut(&inline)
}

/// The ranges and the number of messages that a summary somebody brings along would cover.
pub fn supplied(layout: &Layout, sources: &[SourceMessage], tail_start: Revision) -> (Vec<RevisionRange>, i64) {
    let inline = inline(sources);
    let head: Vec<SourceMessage> = inline.into_iter().filter(|source| slot(source) < tail_start).collect();
    if head.is_empty() {
        return (Vec::new(), 0);
    }
    let count = i64::try_from(head.len()).unwrap_or(i64::MAX);
    (covered(layout, &head), count)
}

/// What the policy says about triggers under a window, in plain numbers.
pub fn rule(policy: &Policy, window: &ModelWindow) -> Rule {
    let prune = policy.prune.as_ref().filter(|_| policy.trigger.auto);
    Rule {
        window: window.clone(),
        due_tokens: overflow::due_at(policy, window),
        prune_tokens: prune.map(|prune| prune.protect_tokens + prune.minimum_tokens),
        prune_step_tokens: prune.map_or(0, |prune| prune.minimum_tokens / 4),
    }
}

/// A message that is not stored yet, as a view would show it.
fn derived(kind: MessageKind, role: Role, body: PartBody, place: Place) -> SourceMessage {
    let part = Part { id: PartId(Uuid::nil()), client_id: None, revision: 0, body, metadata_json: None };
    let message = Message {
        id: MessageId(Uuid::nil()),
        session_id: crate::model::ids::SessionId(Uuid::nil()),
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
    };
    SourceMessage { message, place: Some(place), pruned: Vec::new() }
}

/// The marker's words under a policy.
pub fn marker_text(policy: &Policy) -> Option<String> {
    policy.view.marker_text.clone()
}

/// What a view would be made of with a summary in force.
pub fn with_summary(
    policy: &Policy,
    layout: &Layout,
    sources: &[SourceMessage],
    tail_start: Revision,
    text: &str,
) -> Vec<SourceMessage> {
    let mut after = Vec::new();
    if let Some(text) = marker_text(policy) {
        let body = PartBody::Marker(Marker { name: "compaction".to_owned(), text });
        after.push(derived(MessageKind::Marker, Role::User, body, Place::Marker));
    }
    let body = PartBody::Text(text.to_owned());
    after.push(derived(MessageKind::Summary, Role::Assistant, body, Place::Summary));
    for source in sources {
        match source.place {
            Some(Place::Marker | Place::Summary) => {}
            Some(Place::Pinned) => after.push(source.clone()),
            None | Some(Place::Edit(_)) if slot(source) >= tail_start => after.push(source.clone()),
            None | Some(Place::Edit(_)) => {
                if layout.pinned.contains(&slot(source)) {
                    after.push(SourceMessage { place: Some(Place::Pinned), ..source.clone() });
                }
            }
        }
    }
    after
}

/// The parts that the policy would prune, each with its message; empty when nothing is to be done.
pub fn prune(policy: &Policy, sources: &[SourceMessage]) -> Vec<(MessageId, PartId)> {
    let plan = prune::select(policy, sources);
    let wanted: std::collections::HashSet<PartId> = plan.parts.into_iter().collect();
    let of = |source: &SourceMessage| {
        let message = source.message.id;
        source
            .message
            .parts
            .iter()
            .filter(|part| wanted.contains(&part.id))
            .map(move |part| (message, part.id))
            .collect::<Vec<_>>()
    };
    sources.iter().flat_map(of).collect()
}

/// What a view would be made of with parts pruned.
pub fn with_prune(
    sources: &[SourceMessage],
    parts: &[(MessageId, PartId)],
    compaction: CompactionId,
) -> Vec<SourceMessage> {
    let mut after = sources.to_vec();
    for source in &mut after {
        let here = parts.iter().filter(|(message, _)| *message == source.message.id);
        source.pruned.extend(here.map(|(_, part)| (*part, compaction)));
    }
    after
}

/// Tool output tokens that a prune could still look at.
pub fn output_tokens(policy: &Policy, sources: &[SourceMessage]) -> i64 {
    if policy.prune.is_none() {
        return 0;
    }
    let of = |source: &SourceMessage| -> i64 {
        let open = |part: &&Part| !source.pruned.iter().any(|(id, _)| *id == part.id);
        let outputs = source.message.parts.iter().filter(open).filter_map(|part| match &part.body {
            PartBody::ToolResult(result) => Some(tokens::estimate_text(&policy.counting, &result.output)),
            _ => None,
        });
        outputs.sum()
    };
    sources.iter().map(of).sum()
}

/// The index of the first view message that differs.
pub fn first_changed(before: &View, after: &View) -> i64 {
    let same = before.messages.iter().zip(&after.messages).take_while(|(before, after)| before == after).count();
    i64::try_from(same).unwrap_or(i64::MAX)
}

/// The view of these messages under a policy.
pub fn view(policy: &policy::Policy, sources: &[SourceMessage]) -> View {
    render::render(policy, sources)
}

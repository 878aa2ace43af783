//! The view after a plan, before anything is written.

use super::input::{Boundary, PlanningInput, Work};
use super::sources::{active_summary, slot};
use crate::model::Revision;
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::{Layout, Placement};
use crate::model::message::{Finish, Message, MessageKind, Role};
use crate::model::part::{Marker, Part, PartBody};
use crate::model::time::Timestamp;
use crate::model::truncation::{Removals, Truncation};
use crate::model::view::{PrunedPart, SourceMessage, View};
use crate::policy::{Policy, render};
use foldhash::{HashMap, HashSet};
use std::borrow::Cow;
use uuid::Uuid;

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

/// A message that is not stored yet, as a view would show it.
pub(in crate::policy) fn derived(kind: MessageKind, role: Role, body: PartBody, placement: Placement) -> SourceMessage {
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
pub(in crate::policy) fn nameless(body: PartBody) -> Part {
    Part { id: PartId(Uuid::nil()), client_id: None, revision: 0, body: body.into(), metadata_json: None }
}

/// The text of the marker under a policy.
pub fn marker_text(policy: &Policy) -> Option<String> {
    policy.view.marker_text.clone()
}

/// The messages of the view after these truncations and omissions.
pub fn with_removals(sources: &[SourceMessage], removals: &Removals, compaction: CompactionId) -> Vec<SourceMessage> {
    cut_down(Cow::Borrowed(sources), removals, compaction)
}

/// The same of a list that may be the result of an earlier step, which is changed in place.
pub(in crate::policy) fn cut_down(
    sources: Cow<'_, [SourceMessage]>,
    removals: &Removals,
    compaction: CompactionId,
) -> Vec<SourceMessage> {
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
            source.pruned.push(PrunedPart { part: part.id, compaction, truncation: Some((*truncation).clone()) });
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
            Some(Placement::Marker | Placement::Summary | Placement::Retained | Placement::Block) => {}
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

/// Index of the first view message that differs.
pub fn first_changed(before: &View, after: &View) -> i64 {
    let same = before.messages.iter().zip(&after.messages).take_while(|(before, after)| before == after).count();
    i64::try_from(same).unwrap_or(i64::MAX)
}

/// The view of these messages under a policy.
pub fn view(policy: &Policy, sources: &[SourceMessage]) -> View {
    render::render(policy, sources)
}

//! Which reported usage is valid, and what came after the view that it measured.

use crate::model::ids::PartId;
use crate::model::message::{Message, Role};
use crate::model::part::PartBody;
use crate::model::view::{SourceMessage, Standing, View, ViewMessage, ViewPart};
use crate::model::{FIRST_REVISION, Revision};
use crate::policy::{Policy, tokens};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Usage of a reply that is valid at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurrentUsage {
    /// The tokens that the policy reads in it.
    reported: i64,
    /// The estimate of what became visible after the view that the reply was given, without what the model wrote itself.
    after: i64,
}

impl CurrentUsage {
    pub(super) fn tokens(self) -> i64 {
        self.reported.saturating_add(self.after)
    }
}

/// The usage of the newest reply that says something about the view; none where no reply does.
///
/// A reply that names its view is valid as long as that view was whole and nothing changed since; whoever wrote behind
/// the view, and however long ago, is estimated on top. One that names none is valid until the session's first change,
/// and stands for everything that was there when it was sealed.
pub(super) fn current(
    policy: &Policy,
    messages: &[SourceMessage],
    view: &View,
    changed_revision: Revision,
) -> Option<CurrentUsage> {
    let replies = messages.iter().filter_map(|source| reply(policy, &source.message, changed_revision));
    let reply = replies.max_by_key(|reply| reply.sealed)?;
    let parts: HashMap<PartId, Revision> =
        messages.iter().flat_map(|source| &source.message.parts).map(|part| (part.id, part.revision)).collect();
    let is_after = |message: &ViewMessage, part: &ViewPart| {
        let Some(id) = part.source else { return false };
        if message.revision == reply.revision {
            return reply.unread.contains(&id);
        }
        parts.get(&id).is_some_and(|revision| *revision > reply.seen)
    };
    // Passages come back for the newest request, and are new where that is.
    let newest_request = view.messages.iter().rev().find(|message| message.role == Role::User);
    let asks_anew = newest_request.is_some_and(|request| request.parts.iter().any(|part| is_after(request, part)));
    let is_counted = |message: &ViewMessage, part: &ViewPart| match message.standing {
        Standing::Retrieved => asks_anew,
        _ => is_after(message, part),
    };
    Some(CurrentUsage { reported: reply.tokens, after: estimate(policy, messages, view, is_counted) })
}

/// The estimate of the parts that came behind a revision, as far as the view shows them at their own places.
pub(super) fn growth(policy: &Policy, messages: &[SourceMessage], view: &View, revision: Revision) -> i64 {
    let own = messages.iter().filter(|source| source.place.is_none() && !source.message.kind.is_derived());
    let parts = own.flat_map(|source| &source.message.parts).filter(|part| part.revision > revision);
    let newer: HashSet<PartId> = parts.map(|part| part.id).collect();
    if newer.is_empty() {
        return 0;
    }
    estimate(policy, messages, view, |_, part| part.source.is_some_and(|id| newer.contains(&id)))
}

/// The estimate of some of a view's parts.
fn estimate(
    policy: &Policy,
    messages: &[SourceMessage],
    view: &View,
    is_counted: impl Fn(&ViewMessage, &ViewPart) -> bool,
) -> i64 {
    let mut counted: Vec<Cow<'_, ViewMessage>> = Vec::new();
    for message in &view.messages {
        let count = message.parts.iter().filter(|part| is_counted(message, part)).count();
        if count == message.parts.len() && count > 0 {
            counted.push(Cow::Borrowed(message));
        } else if count > 0 {
            let parts = message.parts.iter().filter(|part| is_counted(message, part)).cloned().collect();
            counted.push(Cow::Owned(ViewMessage { parts, ..message.clone() }));
        }
    }
    tokens::estimate_view(policy, counted.iter().map(AsRef::as_ref), messages)
}

/// A reply with valid usage.
struct Reply {
    revision: Revision,
    sealed: Revision,
    /// The newest revision that the reported tokens stand for.
    seen: Revision,
    tokens: i64,
    /// Results in the reply itself that the model has not read: it said nothing behind them.
    unread: Vec<PartId>,
}

fn reply(policy: &Policy, message: &Message, changed_revision: Revision) -> Option<Reply> {
    let sealed = message.sealed_revision?;
    let tokens = policy.counting.usage.tokens(message.finish.usage.as_ref()?);
    let seen = match &message.finish.view {
        Some(view) => (!view.shortened && view.revision >= changed_revision).then_some(view.revision)?,
        None => (changed_revision <= FIRST_REVISION).then_some(sealed)?,
    };
    let trailing = message.parts.iter().rev().take_while(|part| !is_speech(&part.body));
    let results = trailing.filter(|part| matches!(part.body, PartBody::ToolResult(_)));
    let unread = results.map(|part| part.id).collect();
    (tokens > 0).then_some(Reply { revision: message.revision, sealed, seen, tokens, unread })
}

/// True for what a model says itself.
fn is_speech(body: &PartBody) -> bool {
    match body {
        PartBody::ToolResult(_) | PartBody::Step(_) | PartBody::Marker(_) | PartBody::Record(_) => false,
        PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::ToolCall(_)
        | PartBody::Media(_)
        | PartBody::Opaque(_) => true,
    }
}

/// True where parts of a reply hold something that the model says itself.
pub fn speaks<'a>(mut parts: impl Iterator<Item = &'a PartBody>) -> bool {
    parts.any(is_speech)
}

/// The results at the end of a reply's parts: its model said nothing behind them, so its usage does not count them.
pub fn unread_results<'a>(parts: impl DoubleEndedIterator<Item = &'a PartBody>) -> Vec<&'a PartBody> {
    let trailing = parts.rev().take_while(|body| !is_speech(body));
    trailing.filter(|body| matches!(body, PartBody::ToolResult(_))).collect()
}

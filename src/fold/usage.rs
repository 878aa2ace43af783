//! Which reported usage is valid, and what came after the view that it measured.

use crate::model::Revision;
use crate::model::message::{Message, Role};
use crate::model::view::{SourceMessage, Standing, View, ViewMessage};
use crate::policy::{Policy, tokens};
use std::collections::HashMap;

/// Usage of a reply that is valid at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurrentUsage {
    /// The tokens that the policy reads in it.
    reported: i64,
    /// The estimate of what became visible after the view that the reply was given, without the reply.
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
/// and stands for everything that was sealed before it.
pub(super) fn current(
    policy: &Policy,
    messages: &[SourceMessage],
    view: &View,
    changed_revision: Revision,
) -> Option<CurrentUsage> {
    let replies = messages.iter().filter_map(|source| reply(policy, &source.message, changed_revision));
    let reply = replies.max_by_key(|reply| reply.sealed)?;
    let sealed: HashMap<_, _> =
        messages.iter().map(|source| (source.message.id, source.message.sealed_revision)).collect();
    let came_after = |message: &ViewMessage| match message.source {
        Some(id) => {
            let is_own = message.revision == reply.revision;
            !is_own && sealed.get(&id).copied().flatten().is_some_and(|sealed| sealed > reply.seen)
        }
        None => false,
    };
    // Passages come back for the newest request, and are new where that is.
    let newest_request = view.messages.iter().rev().find(|message| message.role == Role::User);
    let asks_anew = newest_request.is_some_and(&came_after);
    let after = view.messages.iter().filter(|message| match message.standing {
        Standing::Retrieved => asks_anew,
        _ => came_after(message),
    });
    Some(CurrentUsage { reported: reply.tokens, after: tokens::estimate_messages(policy, after) })
}

/// A reply with valid usage.
struct Reply {
    revision: Revision,
    sealed: Revision,
    /// The newest revision that the reported tokens stand for.
    seen: Revision,
    tokens: i64,
}

/// The first revision of a session, at which its policy and window begin.
const FIRST: Revision = 1;

fn reply(policy: &Policy, message: &Message, changed_revision: Revision) -> Option<Reply> {
    let sealed = message.sealed_revision?;
    let tokens = policy.counting.usage.tokens(message.finish.usage.as_ref()?);
    let seen = match &message.finish.view {
        Some(view) => (!view.shortened && view.revision >= changed_revision).then_some(view.revision)?,
        None => (changed_revision <= FIRST).then_some(sealed)?,
    };
    (tokens > 0).then_some(Reply { revision: message.revision, sealed, seen, tokens })
}

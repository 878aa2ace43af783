//! Selection of the valid reported usage, and the estimate of everything after the view that it measured.

use super::ResumePoint;
use crate::model::ids::{MessageId, PartId};
use crate::model::message::{Message, Role};
use crate::model::part::PartBody;
use crate::model::view::{SourceMessage, View, ViewKind, ViewMessage, ViewPart};
use crate::model::{FIRST_REVISION, Revision};
use crate::policy::tokens::{self, RunningEstimate};
use crate::policy::{Policy, UsageCount};
use std::borrow::Cow;
use std::collections::HashSet;

/// The usage of a reply that is valid at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurrentUsage {
    /// The reported tokens, as the policy counts them.
    reported: i64,
    /// The estimate of the reply itself, if the policy reads only the tokens of its request.
    own: i64,
    /// The estimate of everything that became visible after the view that the model was given, without the model's own
    /// output.
    after: i64,
}

impl CurrentUsage {
    pub(super) fn tokens(self) -> i64 {
        self.reported.saturating_add(self.after)
    }

    /// The measure of the whole view, including the reply.
    pub(super) fn view_tokens(self) -> i64 {
        self.tokens().saturating_add(self.own)
    }
}

/// The context usage by a reply: its reported tokens, and the estimate of everything that became visible after the view
/// that it measured. Later messages continue it, so that its cost does not grow with their number.
#[derive(Debug, Clone)]
pub(super) struct RunningUsage {
    pub(super) reply: Reply,
    /// The number of view messages that the measured view had whole, all of them before the reply.
    measured: usize,
    /// The estimate of the others, as far as they came after that view.
    after: RunningEstimate,
    /// The estimate of the reply itself, if the policy reads only the tokens of its request.
    own: i64,
}

impl RunningUsage {
    /// The usage by a reply. The measured view had everything before the resume point.
    pub(super) fn new(
        policy: &Policy,
        reply: Reply,
        from: ResumePoint,
        messages: &[SourceMessage],
        view: &[ViewMessage],
    ) -> Self {
        let own = match policy.counting.usage {
            UsageCount::Prompt => {
                let is_own = |message: &ViewMessage| message.revision == reply.revision;
                let is_written =
                    |_: &ViewMessage, part: &ViewPart| part.source.is_none_or(|id| !reply.unread.contains(&id));
                estimate(policy, &messages[from.sources..], &view[from.shown..], is_own, is_written)
            }
            UsageCount::Total | UsageCount::Nothing => 0,
        };
        let mut usage = Self { reply, measured: from.shown, after: RunningEstimate::default(), own };
        usage.extend(policy, from, messages, view);
        usage
    }

    /// Counts everything after a resume point again.
    pub(super) fn extend(
        &mut self,
        policy: &Policy,
        from: ResumePoint,
        messages: &[SourceMessage],
        view: &[ViewMessage],
    ) {
        let (messages, view) = (&messages[from.sources..], &view[from.shown..]);
        let Self { reply, after, .. } = self;
        let newer = Newer::from_messages(messages.iter(), reply.seen);
        let is_after = |message: &ViewMessage, part: &ViewPart| match part.source {
            Some(id) if message.revision == reply.revision => reply.unread.contains(&id),
            Some(id) => newer.parts.contains(&id),
            None => false,
        };
        // Passages come back for the newest request, so they are new if that request is.
        let newest_request = view.iter().rev().find(|message| message.role == Role::User);
        let asks_anew = newest_request.is_some_and(|request| request.parts.iter().any(|part| is_after(request, part)));
        let is_counted = |message: &ViewMessage, part: &ViewPart| match message.kind {
            ViewKind::Retrieved => asks_anew,
            _ => is_after(message, part),
        };
        let counted: Vec<Cow<'_, ViewMessage>> = view.iter().map(|message| counted(message, is_counted)).collect();
        after.truncate(from.shown - self.measured);
        after.extend(policy, counted.iter().map(AsRef::as_ref), messages);
    }

    /// The usage as of the newest message.
    pub(super) fn current(&self, policy: &Policy) -> CurrentUsage {
        CurrentUsage { reported: self.reply.tokens, own: self.own, after: self.after.tokens(policy) }
    }
}

/// The estimate of the parts that came after a revision, as far as the view shows them at their own positions.
pub(super) fn growth(policy: &Policy, messages: &[SourceMessage], view: &View, revision: Revision) -> i64 {
    let own = messages.iter().filter(|source| source.placement.is_none() && !source.message.kind.is_derived());
    let newer = Newer::from_messages(own, revision);
    if newer.parts.is_empty() {
        return 0;
    }
    let is_counted = |_: &ViewMessage, part: &ViewPart| part.source.is_some_and(|id| newer.parts.contains(&id));
    estimate(policy, messages, &view.messages, |message| newer.is_shown_by(message), is_counted)
}

/// Parts that came after a revision, and their messages.
struct Newer {
    parts: HashSet<PartId>,
    messages: HashSet<MessageId>,
}

impl Newer {
    fn from_messages<'a>(messages: impl Iterator<Item = &'a SourceMessage>, revision: Revision) -> Self {
        let mut newer = Self { parts: HashSet::new(), messages: HashSet::new() };
        for source in messages {
            for part in source.message.parts.iter().filter(|part| part.revision > revision) {
                newer.parts.insert(part.id);
                newer.messages.insert(source.message.id);
            }
        }
        newer
    }

    fn is_shown_by(&self, message: &ViewMessage) -> bool {
        !self.messages.is_empty() && message.source.is_some_and(|id| self.messages.contains(&id))
    }
}

/// The estimate of some parts of some of a view's messages.
fn estimate(
    policy: &Policy,
    messages: &[SourceMessage],
    view: &[ViewMessage],
    may_count: impl Fn(&ViewMessage) -> bool,
    is_counted: impl Fn(&ViewMessage, &ViewPart) -> bool,
) -> i64 {
    let counted = view.iter().filter(|message| may_count(message)).map(|message| counted(message, &is_counted));
    let counted: Vec<Cow<'_, ViewMessage>> = counted.filter(|message| !message.parts.is_empty()).collect();
    let shown: HashSet<MessageId> = counted.iter().filter_map(|message| message.source).collect();
    let sources = messages.iter().filter(|source| shown.contains(&source.message.id));
    tokens::estimate_view(policy, counted.iter().map(AsRef::as_ref), sources)
}

/// A message with only some of its parts.
fn counted<'a>(message: &'a ViewMessage, is_counted: impl Fn(&ViewMessage, &ViewPart) -> bool) -> Cow<'a, ViewMessage> {
    if message.parts.iter().all(|part| is_counted(message, part)) {
        return Cow::Borrowed(message);
    }
    let parts = message.parts.iter().filter(|part| is_counted(message, part)).cloned().collect();
    Cow::Owned(ViewMessage { parts, ..message.clone() })
}

/// A reply with valid usage.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// The index of its message.
    pub(super) index: usize,
    revision: Revision,
    pub(super) sealed: Revision,
    /// The newest revision that the reported tokens include.
    pub(super) seen: Revision,
    pub(super) tokens: i64,
    /// Results in the reply itself that the model has not read: it wrote nothing after them.
    unread: Vec<PartId>,
}

/// A reply that reports usage of a whole view, and true if that is the present view, apart from later messages. None if
/// the policy does not count by usage, or the reply reports none.
///
/// The usage of a reply that names its view is valid as long as that view was whole and nothing changed since;
/// everything after the view, by any writer and of any age, is estimated on top. The usage of a reply without a view is
/// valid until the session's first change, and includes everything that was there when the reply was sealed. The usage of a
/// reply in which its provider compacted the view can be that of the view before, and no view before the block at
/// `block_revision` is the present one.
pub(super) fn reply(
    policy: &Policy,
    index: usize,
    message: &Message,
    changed_revision: Revision,
    block_revision: impl FnOnce() -> Revision,
) -> Option<(Reply, bool)> {
    let sealed = message.sealed_revision?;
    if message.parts.iter().any(|part| part.body.stands_for_history()) {
        return None;
    }
    let tokens = policy.counting.usage.tokens(message.finish.usage.as_ref()?);
    let (seen, is_current) = match &message.finish.view {
        Some(view) if view.shortened => return None,
        Some(view) => (view.revision, view.revision >= changed_revision.max(block_revision())),
        None => (sealed, changed_revision <= FIRST_REVISION),
    };
    let trailing = message.parts.iter().rev().take_while(|part| !is_speech(&part.body));
    let results = trailing.filter(|part| matches!(*part.body, PartBody::ToolResult(_)));
    let unread = results.map(|part| part.id).collect();
    let reply = Reply { index, revision: message.revision, sealed, seen, tokens, unread };
    (tokens > 0).then_some((reply, is_current))
}

/// True for content that the model wrote itself.
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

//! The fold: everything that follows from a session's rows, as one pure function. A view, its running hash, its
//! estimate and the context usage of a request with it are the same for every caller and at every revision.

mod carried;
pub mod guards;
mod hash;
#[cfg(test)]
mod laws;
mod resume;
#[cfg(test)]
mod tests;
pub mod usage;
pub mod wake;

use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::usage::{ModelWindow, UsageSample};
use crate::model::view::{SourceMessage, View, ViewMessage};
use crate::policy::last_resort::Size;
use crate::policy::plan::PlanningInput;
use crate::policy::tokens::RunningEstimate;
use crate::policy::{Policy, overflow, recall, render, shorten};
use resume::ResumePoints;
use usage::{CurrentUsage, Reply};

pub use resume::ResumePoint;

/// A session's rows at one revision.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The policy that is active at the revision.
    pub policy: &'a Policy,
    /// The messages of the layout, in its order.
    pub messages: &'a [SourceMessage],
    /// The revision of the newest mark, policy or window. The usage of an older view is not valid.
    pub changed_revision: Revision,
}

/// Passages of hidden messages, and the request before which the view shows them.
#[derive(Debug, Clone)]
pub struct Passages {
    /// The request.
    pub request: MessageId,
    /// The message that contains them.
    pub message: ViewMessage,
}

/// The fold of a session's rows at one revision.
#[derive(Debug, Clone)]
pub struct Fold {
    /// The view.
    pub view: View,
    /// The running hash of the view after each of its messages.
    pub hashes: Vec<[u8; 32]>,
    usage: Option<CurrentUsage>,
    /// The state from which later messages are folded; none if the view contains passages.
    incremental: Option<Incremental>,
}

/// The state of a fold besides its view, from which later messages are folded.
#[derive(Debug, Clone, Default)]
struct Incremental {
    resume_points: ResumePoints,
    estimate: RunningEstimate,
    reply: Option<Reply>,
}

impl Fold {
    /// The fold of these rows, from scratch.
    pub fn new(rows: Rows<'_>, passages: Option<Passages>) -> Self {
        let mut fold =
            Self { view: View::default(), hashes: Vec::new(), usage: None, incremental: Some(Incremental::default()) };
        fold.extend(rows, 0);
        if let Some(Passages { request, message }) = passages {
            fold.view = recall::join(rows.policy, fold.view, request, message);
            fold.hashes = hash::hashes(&fold.view.messages);
            let reply = fold.incremental.take().and_then(|incremental| incremental.reply);
            fold.usage = reply.map(|reply| usage::current(rows.policy, rows.messages, &fold.view, &reply));
        }
        fold
    }

    /// Folds later rows of the same session, the first `kept` messages of which were folded before; the result equals
    /// the fold from scratch. Returns the resume point up to which the view has not changed.
    pub fn extend(&mut self, rows: Rows<'_>, kept: usize) -> ResumePoint {
        let Rows { policy, messages, changed_revision } = rows;
        let mut incremental = self.incremental.take().unwrap_or_default();
        let from = incremental.resume_points.behind(messages, kept);
        let behind = &messages[from.sources..];
        let rendered = render::render_behind(policy, Some(incremental.resume_points.earlier(from)), behind);
        incremental.resume_points.extend(from, &rendered, behind.len());
        self.view.messages.truncate(from.shown);
        self.view.messages.extend(rendered.messages.into_iter().map(|(_, message)| message));
        carried::carry(behind, &mut self.view.messages[from.shown..]);
        self.hashes.truncate(from.shown);
        hash::extend(&mut self.hashes, &self.view.messages);
        incremental.estimate.truncate(from.shown);
        incremental.estimate.extend(policy, &self.view.messages[from.shown..], behind);
        self.view.estimated_tokens = incremental.estimate.tokens(policy);
        let known = incremental.reply.take().filter(|reply| reply.index < from.sources);
        incremental.reply = usage::newest_reply(policy, messages, from.sources, changed_revision, known);
        self.usage = incremental.reply.as_ref().map(|reply| usage::current(policy, messages, &self.view, reply));
        self.incremental = Some(incremental);
        from
    }

    /// The hash of the whole view.
    pub fn hash(&self) -> [u8; 32] {
        self.hashes.last().copied().unwrap_or(hash::EMPTY)
    }

    /// Tokens of a request with the view for a model of this window: valid reported usage plus the estimate of
    /// everything that became visible after the view that it measured; without valid usage, the estimate plus the
    /// window's overhead.
    pub fn context_tokens(&self, window: &ModelWindow) -> i64 {
        self.usage.map_or(self.view.estimated_tokens + window.overhead, |usage| usage.tokens())
    }

    /// The usage of the view and its estimate, if usage is valid. The newest reply is part of both, even under a policy
    /// that reads only the tokens of requests.
    pub fn usage_sample(&self) -> Option<UsageSample> {
        let usage = self.usage?;
        Some(UsageSample { usage_tokens: usage.view_tokens(), view_tokens: self.view.estimated_tokens })
    }

    /// The estimate of messages that joined the view after a revision at their own positions.
    pub fn growth_since(&self, planning: PlanningInput<'_>, revision: Revision) -> i64 {
        usage::growth(planning.policy, planning.sources, &self.view, revision)
    }

    /// True if a request with the view leaves room for a reply in this window. An unknown window has room for any
    /// request.
    pub fn fits(&self, window: &ModelWindow) -> bool {
        overflow::room(window).is_none_or(|room| self.context_tokens(window) <= room)
    }

    /// The view shortened until it fits the window, as far as possible.
    ///
    /// Usage beyond the estimate and the window's overhead counts as shrinking with the view, because it is the error
    /// of the estimate of the text.
    pub fn shortened(self, policy: &Policy, window: &ModelWindow) -> Shortened {
        let size = Size {
            context_tokens: self.context_tokens(window),
            estimated_tokens: self.view.estimated_tokens,
            overhead_tokens: window.overhead,
        };
        let room = overflow::room(window).unwrap_or(i64::MAX);
        let shorter = shorten::shorten(policy, self.view, size.estimate_of(room).max(0));
        let context_tokens = size.context_tokens_of(shorter.view.estimated_tokens);
        let hashes = hash::hashes(&shorter.view.messages);
        Shortened { context_tokens, fits: context_tokens <= room, omitted: shorter.omitted, view: shorter.view, hashes }
    }
}

/// A view that was shortened for one call.
#[derive(Debug, Clone)]
pub struct Shortened {
    /// The view.
    pub view: View,
    /// Its running hash after each of its messages.
    pub hashes: Vec<[u8; 32]>,
    /// Tokens of a request with it.
    pub context_tokens: i64,
    /// True if it leaves room for a reply.
    pub fits: bool,
    /// The revisions of the omitted messages, ascending.
    pub omitted: Vec<Revision>,
}

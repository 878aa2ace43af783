//! The fold: a pure function from a session's messages and policy at a revision to its view, the view's running hash, its
//! estimate and the context usage. `Fold::extend` folds newer messages with the same result as a fold from scratch.

pub mod attempt;
pub mod guards;
pub mod form;
pub mod hash;
mod input;
mod original_fields;
pub mod over_window;
mod prepared;
mod reports;
mod resume;
#[cfg(test)]
mod tests;
pub mod usage;
pub mod wake;

use crate::model::Revision;
use crate::model::ids::{CompactionId, MessageId};
use crate::model::usage::{ModelWindow, UsageDoubt, UsageSample};
use crate::model::view::{self, SourceMessage, View, ViewMessage};
use crate::policy::last_resort::Size;
use crate::policy::maintenance::MaintenanceCounts;
use crate::policy::plan::PlanningInput;
use crate::policy::tokens::RunningEstimate;
use crate::policy::{Policy, last_resort, plan, recall, render};
use reports::Reports;
use resume::ResumePoints;
use usage::{CurrentUsage, RunningUsage};
use uuid::Uuid;

pub use input::FoldInput;
pub use prepared::PreparedCompaction;
pub use resume::ResumePoint;

/// Passages that are retrieved from hidden messages, and the user's request before which the view shows them.
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
    /// The running hash of the view: the entry of a message covers it and all messages before it.
    pub hashes: Vec<[u8; 32]>,
    usage: Option<CurrentUsage>,
    usage_doubt: Option<UsageDoubt>,
    reports_overflow: bool,
    maintenance_counts: MaintenanceCounts,
    /// The state from which later messages are folded; none if the view contains passages.
    incremental: Option<Incremental>,
}

/// The state of a fold besides its view, from which later messages are folded.
#[derive(Debug, Clone, Default)]
struct Incremental {
    resume_points: ResumePoints,
    estimate: RunningEstimate,
    reports: Reports,
    usage: Option<RunningUsage>,
    /// Running sums, including each stored message.
    maintenance: Vec<MaintenanceCounts>,
}

impl Fold {
    /// The fold of these rows, from scratch.
    pub fn new(input: FoldInput<'_>, passages: Option<Passages>) -> Self {
        let mut fold = Self {
            view: View::default(),
            hashes: Vec::new(),
            usage: None,
            usage_doubt: None,
            reports_overflow: false,
            maintenance_counts: MaintenanceCounts::default(),
            incremental: Some(Incremental::default()),
        };
        fold.extend(input, 0);
        match passages {
            Some(passages) => fold.with_passages(input, passages),
            None => fold,
        }
    }

    /// The fold of the same rows with passages in the view. Nothing before their position is computed again.
    pub fn with_passages(mut self, input: FoldInput<'_>, passages: Passages) -> Self {
        let FoldInput { policy, messages, .. } = input;
        let Passages { request, message } = passages;
        let Some(at) = recall::position(&self.view, request) else { return self };
        let Incremental { estimate, usage, .. } = self.incremental.take().unwrap_or_default();
        self.view.estimated_tokens = estimate.tokens_with(policy, &message);
        self.view.messages.insert(at, message);
        self.hashes.truncate(at);
        hash::extend(&mut self.hashes, &self.view.messages);
        let whole = |reply| RunningUsage::new(policy, reply, ResumePoint::default(), messages, &self.view.messages);
        self.usage = usage.map(|running| whole(running.reply).current(policy));
        self
    }

    /// Folds a later state of the same session, of which the first `unchanged` messages were folded before; the result
    /// equals the fold from scratch. Returns the resume point up to which the view has not changed.
    ///
    /// Not for a fold with passages: these are retrieved anew for each view.
    pub fn extend(&mut self, input: FoldInput<'_>, unchanged: usize) -> ResumePoint {
        debug_assert!(self.incremental.is_some(), "the view has passages");
        let FoldInput { policy, messages, .. } = input;
        let mut incremental = self.incremental.take().unwrap_or_default();
        // Everything from this point on is replaced.
        let from = incremental.resume_points.before(messages, unchanged);
        let newer = &messages[from.sources..];
        let earlier = Some(incremental.resume_points.calls_before(from)).filter(|_| from.sources > 0);
        let rendered = render::render_behind(policy, earlier, newer);
        incremental.resume_points.extend(from, &rendered, newer.len());
        self.view.messages.truncate(from.shown);
        self.view.messages.extend(rendered.messages.into_iter().map(|(_, message)| message));
        original_fields::copy(newer, &mut self.view.messages[from.shown..]);
        self.hashes.truncate(from.shown);
        hash::extend(&mut self.hashes, &self.view.messages);
        incremental.estimate.truncate(from.shown);
        incremental.estimate.extend(policy, &self.view.messages[from.shown..], newer);
        self.view.estimated_tokens = incremental.estimate.tokens(policy);
        incremental.extend_usage(input, from, &self.view.messages);
        self.maintenance_counts = incremental.extend_maintenance(policy, from, newer);
        self.usage = incremental.usage.as_ref().map(|usage| usage.current(policy));
        self.usage_doubt = incremental.reports.newest_doubt();
        self.reports_overflow = incremental.reports.newest_is_overflow();
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

    /// What the view has of that which maintenance acts on.
    pub fn maintenance_counts(&self, window: &ModelWindow) -> MaintenanceCounts {
        // Some steps go by the estimate, and some by usage.
        let estimated_tokens = self.view.estimated_tokens.saturating_add(window.overhead);
        MaintenanceCounts { tokens: self.context_tokens(window).max(estimated_tokens), ..self.maintenance_counts }
    }

    /// The reason for which the newest reported usage is not believed; none if it is, or if there is none.
    pub fn usage_doubt(&self) -> Option<UsageDoubt> {
        self.usage_doubt
    }

    /// True if the newest reported usage is more than the window holds, and the view fills enough of it that the provider
    /// cannot have read all of the view.
    pub fn reports_overflow(&self) -> bool {
        self.reports_overflow
    }

    /// The usage of the view and its estimate, if usage is valid. Both include the newest reply, also under a policy whose
    /// usage is that of the request alone.
    pub fn usage_sample(&self) -> Option<UsageSample> {
        let usage = self.usage?;
        Some(UsageSample { usage_tokens: usage.view_tokens(), view_tokens: self.view.estimated_tokens })
    }

    /// The estimate of the messages after a revision that the view shows, without summaries, pins and edits.
    pub fn growth_since(&self, planning: PlanningInput<'_>, revision: Revision) -> i64 {
        usage::growth(planning.policy, planning.sources, &self.view, revision)
    }

    /// True if a request with the view fits this window. An unknown window allows any request.
    pub fn fits(&self, window: &ModelWindow) -> bool {
        window.input_max().is_none_or(|limit| self.context_tokens(window) <= limit)
    }

    /// The view shortened by the last resort until it fits the window, as far as possible.
    ///
    /// Usage beyond the estimate and the window's overhead is taken as the error of the estimate, and therefore shrinks
    /// with the view.
    pub fn shortened(&self, planning: PlanningInput<'_>) -> ShortenedView {
        let PlanningInput { policy, window, .. } = planning;
        let size = Size {
            context_tokens: self.context_tokens(window),
            estimated_tokens: self.view.estimated_tokens,
            overhead_tokens: window.overhead,
        };
        let limit = window.input_max().unwrap_or(i64::MAX);
        let removals = last_resort::removals_for_call(planning, size.estimate_of(limit).max(0));
        let messages = plan::with_removals(planning.sources, &removals, CompactionId(Uuid::nil()));
        let rows = FoldInput { policy, messages: &messages, changed_revision: 0, window };
        let mut view = Self::new(rows, None).view;
        let omitted_lengths = last_resort::omitted_lengths(policy, &messages, &removals);
        for part in view.messages.iter_mut().flat_map(|message| &mut message.parts) {
            if let Some(&omitted_length) = part.source.and_then(|id| omitted_lengths.get(&id)) {
                // No mark shortens the part.
                part.shortened = Some(view::PartShortening::Truncated { omitted_length });
            }
        }
        let hashes = hash::hashes(&view.messages);
        let context_tokens = size.context_tokens_of(view.estimated_tokens);
        ShortenedView { view, hashes, context_tokens, fits: context_tokens <= limit, omitted: removals.omitted }
    }
}

impl Incremental {
    /// Counts the messages behind a resume point; returns the sums of all messages.
    fn extend_maintenance(&mut self, policy: &Policy, from: ResumePoint, newer: &[SourceMessage]) -> MaintenanceCounts {
        self.maintenance.truncate(from.sources);
        let mut sum = self.maintenance.last().copied().unwrap_or_default();
        self.maintenance.extend(newer.iter().map(|source| {
            sum = sum.with(policy, source);
            sum
        }));
        sum
    }

    /// Continues the usage behind a resume point, by the same reply or by a newer one.
    fn extend_usage(&mut self, input: FoldInput<'_>, from: ResumePoint, view: &[ViewMessage]) {
        let FoldInput { policy, messages, .. } = input;
        self.reports.extend(input, from.sources);
        let known = self.usage.take().filter(|usage| usage.reply.index < from.sources);
        self.usage = self.reports.believed().map(|reply| match known {
            Some(mut usage) if usage.reply.index == reply.index => {
                usage.extend(policy, from, messages, view);
                usage
            }
            _ => {
                let measured = self.resume_points.last(self.reports.unchanged_since(reply.seen).min(reply.index));
                RunningUsage::new(policy, reply.clone(), measured, messages, view)
            }
        });
    }
}

/// A view that was shortened for one call.
#[derive(Debug, Clone)]
pub struct ShortenedView {
    /// The view.
    pub view: View,
    /// Its running hash after each of its messages.
    pub hashes: Vec<[u8; 32]>,
    /// Tokens of a request with it.
    pub context_tokens: i64,
    /// True if it fits the window.
    pub fits: bool,
    /// The revisions of the omitted messages, ascending.
    pub omitted: Vec<Revision>,
}

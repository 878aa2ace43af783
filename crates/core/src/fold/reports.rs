//! Reports of usage, and the doubt about each that cannot be the size of the view that its model was given.
//!
//! Providers, proxies and local servers report zero, partial, summed, cumulative, stale and impossible usage. A report is
//! believed if it has an input count, does not repeat the one before it, is no more than its window holds, no less than a
//! quarter of the estimate of what it measured, and above the one before it by no more than four times the estimate of
//! what came since and a twentieth of the window, unless media came, whose size no estimate knows. More than the window
//! holds is an overflow if half the window is full without it. Everything here depends on the messages up to a report
//! alone, so that a later message changes no verdict.

use super::input::FoldInput;
use super::usage::{Reply, reply};
use crate::model::Revision;
use crate::model::usage::{Usage, UsageDoubt};
use crate::model::view::SourceMessage;
use crate::policy::tokens::{self, RunningEstimate};
use crate::policy::{Policy, UsageCount, overhead};
use std::cell::LazyCell;

/// Most estimated tokens for a token that a provider counts: repeated letters, long runs of blanks.
const OVERESTIMATE_MAX: i64 = 4;

/// Divisor of the window. A report that is above the one before it by no more than this share is no sum.
const SUM_DIVISOR: i64 = 20;

/// Divisor of the window. Below this share of it, a report of more than the window holds is no overflow.
const OVERFLOW_DIVISOR: i64 = 2;

/// Growth of what was measured up to which a report may repeat the one before it, in estimated tokens. One that is stale
/// by so little does no harm.
const STALE_TOKENS: i64 = 16;

/// A report of usage by a reply of the view.
#[derive(Debug, Clone)]
struct Report {
    reply: Reply,
    usage: Usage,
    /// The estimate of what it measured.
    measured: i64,
    /// The estimate of the reply itself if the report does not include it.
    own: i64,
    /// True if it measured the present view, with later messages: no other change came since.
    is_current: bool,
    doubt: Option<UsageDoubt>,
    /// True if the provider cannot have read the whole view.
    is_overflow: bool,
}

/// The reports of a view, by the order of their messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Reports {
    reports: Vec<Report>,
    /// The estimate of the stored messages, and of those of them whose estimate is not rough.
    whole: RunningEstimate,
    firm: RunningEstimate,
    /// For each message, the newest revision of a part of it or of an earlier message.
    newest_parts: Vec<Revision>,
}

impl Reports {
    /// Reads the reports of all messages from an index on.
    pub(super) fn extend(&mut self, input: FoldInput<'_>, from: usize) {
        let FoldInput { policy, messages, .. } = input;
        self.reports.truncate(self.reports.partition_point(|report| report.reply.index < from));
        self.whole.truncate(from);
        self.whole.extend_stored(policy, &messages[from..]);
        self.firm.truncate(from);
        self.firm.extend_like(&self.whole, |index| !overhead::has_rough_estimate(&messages[index]));
        self.newest_parts.truncate(from);
        let mut newest = self.newest_parts.last().copied().unwrap_or_default();
        self.newest_parts.extend(messages[from..].iter().map(|source| {
            newest = source.message.parts.iter().map(|part| part.revision).fold(newest, Revision::max);
            newest
        }));
        // It is looked for once: a view can begin with any number of messages before the block, or without one.
        let block_revision = LazyCell::new(|| input.block_revision());
        for index in from..messages.len() {
            if let Some(report) = self.read(input, index, || *block_revision) {
                self.reports.push(report);
            }
        }
    }

    /// The newest report that is believed.
    pub(super) fn believed(&self) -> Option<&Reply> {
        let believed = self.reports.iter().filter(|report| report.is_current && report.doubt.is_none());
        believed.map(|report| &report.reply).max_by_key(|reply| reply.sealed)
    }

    /// The doubt about the newest report on the present view.
    pub(super) fn newest_doubt(&self) -> Option<UsageDoubt> {
        let current = self.reports.iter().filter(|report| report.is_current);
        current.max_by_key(|report| report.reply.sealed)?.doubt
    }

    /// True if the newest report on the present view is an overflow.
    pub(super) fn newest_is_overflow(&self) -> bool {
        let current = self.reports.iter().filter(|report| report.is_current);
        current.max_by_key(|report| report.reply.sealed).is_some_and(|report| report.is_overflow)
    }

    /// The number of messages at the beginning that have no part newer than a revision.
    pub(super) fn unchanged_since(&self, revision: Revision) -> usize {
        self.newest_parts.partition_point(|newest| *newest <= revision)
    }

    fn read(&self, input: FoldInput<'_>, index: usize, block_revision: impl FnOnce() -> Revision) -> Option<Report> {
        let FoldInput { policy, messages, changed_revision, window } = input;
        let message = &messages[index].message;
        let (reply, is_current) = reply(policy, index, message, changed_revision, block_revision)?;
        let usage = message.finish.usage?;
        let named = message.finish.view.as_ref().map(|view| view.window.context).filter(|context| *context > 0);
        let context = named.unwrap_or(window.context);
        let newer = self.newer_tokens(policy, messages, &reply);
        let own = match policy.counting.usage {
            UsageCount::Prompt => tokens::estimate_source(policy, &messages[index]),
            UsageCount::Total | UsageCount::Nothing => 0,
        };
        let without = |estimate: &RunningEstimate| estimate.tokens_of(policy, index + 1).saturating_sub(newer + own);
        let (measured, firm) = (without(&self.whole), without(&self.firm));
        let previous = self.reports.iter().rev().find(|report| report.usage.prompt_tokens() > 0);
        let grown = previous.map(|previous| {
            let before = self.whole.tokens_of(policy, previous.reply.index + 1).saturating_sub(previous.own);
            self.whole.tokens_of(policy, index + 1).saturating_sub(own).saturating_sub(before)
        });
        let doubt = if usage.prompt_tokens() <= 0 {
            Some(UsageDoubt::NoInput)
        } else if self.first_with(&usage).is_some_and(|first| measured.saturating_sub(first.measured) > STALE_TOKENS) {
            Some(UsageDoubt::Stale)
        } else if context > 0 && reply.tokens > context {
            Some(UsageDoubt::AboveWindow)
        } else if previous.zip(grown).is_some_and(|(previous, grown)| {
            let more = reply.tokens.saturating_sub(previous.reply.tokens);
            let explained = grown.saturating_mul(overhead::UNDERESTIMATE_MAX).saturating_add(context / SUM_DIVISOR);
            // A low report before this one says nothing about it.
            let is_low = previous.reply.tokens.saturating_mul(2) < previous.measured;
            let since = &messages[previous.reply.index + 1..=index];
            let has_media = || since.iter().any(overhead::has_media);
            context > 0 && !is_low && more > explained && more >= measured / 2 && !has_media()
        }) {
            Some(UsageDoubt::Sum)
        } else if reply.tokens.saturating_mul(most_estimated(policy)) < firm {
            Some(UsageDoubt::BelowView)
        } else {
            None
        };
        let believed = previous.filter(|previous| previous.doubt.is_none()).zip(grown);
        let known = believed.map_or(0, |(previous, grown)| previous.reply.tokens.saturating_add(grown));
        let is_full = measured.max(known) >= context / OVERFLOW_DIVISOR;
        let is_overflow = context > 0 && reply.tokens > context && is_full;
        Some(Report { reply, usage, measured, own, is_current, doubt, is_overflow })
    }

    /// The first of the newest reports on the present view that all have this usage.
    fn first_with(&self, usage: &Usage) -> Option<&Report> {
        let is_same = |report: &&Report| report.is_current && report.usage.as_reported() == usage.as_reported();
        self.reports.iter().rev().filter(|report| report.usage.prompt_tokens() > 0).take_while(is_same).last()
    }

    /// The estimate of what came after the view that a reply was given, at positions before the reply.
    fn newer_tokens(&self, policy: &Policy, messages: &[SourceMessage], reply: &Reply) -> i64 {
        let first = self.unchanged_since(reply.seen).min(reply.index);
        let newer = messages[first..reply.index].iter().map(|source| {
            let parts = source.message.parts.iter().enumerate();
            let newer: Vec<usize> = parts.filter(|(_, part)| part.revision > reply.seen).map(|(at, _)| at).collect();
            match newer.len() {
                0 => 0,
                count if count == source.message.parts.len() => tokens::estimate_source(policy, source),
                _ => tokens::estimate_parts(policy, source, &newer),
            }
        });
        newer.fold(0, i64::saturating_add)
    }
}

/// Most tokens of a policy's estimate for a token that a provider counts. Some policies count characters.
fn most_estimated(policy: &Policy) -> i64 {
    const USUAL_UNITS: i64 = 4;
    let units = i64::from(policy.counting.units_per_token.max(1));
    let is_of_texts = tokens::basis(policy).is_some();
    if is_of_texts { OVERESTIMATE_MAX } else { OVERESTIMATE_MAX * (USUAL_UNITS / units).max(1) }
}

//! Resume points: positions from which the rendering of a view can be resumed, because later messages do not change the
//! view before them.

use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::calls::Earlier;
use crate::policy::render::{RenderedCall, RenderedMessages};
use std::collections::HashSet;

/// A position between two stored messages that separates no call from its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResumePoint {
    /// The number of stored messages before it.
    pub sources: usize,
    /// The number of view messages that show these.
    pub shown: usize,
}

/// The resume points of a view, with the state for rendering the messages after one.
#[derive(Debug, Clone, Default)]
pub(super) struct ResumePoints {
    /// The resume points, ascending.
    points: Vec<ResumePoint>,
    /// Calls without a result, in order: the index of the call's message, and the call's id.
    waiting: Vec<(usize, String)>,
    earlier: Earlier,
}

impl ResumePoints {
    /// The point from which the messages must be rendered again if the first `unchanged` of them were rendered before. If a
    /// new result answers a waiting call, the message of that call is rendered again as well.
    pub(super) fn before(&self, messages: &[SourceMessage], unchanged: usize) -> ResumePoint {
        let parts = messages[unchanged..].iter().flat_map(|source| &source.message.parts);
        let answered: HashSet<&str> = parts.filter_map(|part| result_id(&part.body)).collect();
        if answered.is_empty() {
            return self.last(unchanged);
        }
        let waiting = self.waiting.iter().filter(|(_, call_id)| answered.contains(call_id.as_str()));
        self.last(waiting.map(|(index, _)| *index).fold(unchanged, usize::min))
    }

    /// The last point with at most this number of stored messages before it.
    pub(super) fn last(&self, sources: usize) -> ResumePoint {
        self.points[..self.count(sources)].last().copied().unwrap_or_default()
    }

    fn count(&self, sources: usize) -> usize {
        self.points.partition_point(|point| point.sources <= sources)
    }

    /// The calls before a resume point; those after it are forgotten.
    pub(super) fn calls_before(&mut self, from: ResumePoint) -> &Earlier {
        self.earlier.end_at(from.sources);
        &self.earlier
    }

    /// Replaces all resume points after `from` by those of the `count` messages that were rendered after it.
    pub(super) fn extend(&mut self, from: ResumePoint, rendered: &RenderedMessages<'_>, count: usize) {
        self.points.truncate(self.count(from.sources));
        self.waiting.truncate(self.waiting.partition_point(|(index, _)| *index < from.sources));
        let mut calls = rendered.calls.iter().peekable();
        let mut answered_by = 0;
        // Before that message, the view depends on what comes next.
        let first = rendered.opened.map(|opened| opened + 1);
        for sources in 1..=count {
            while let Some(RenderedCall { answer, .. }) = calls.next_if(|call| call.index < sources) {
                answered_by = answered_by.max(answer.map_or(0, |answer| answer + 1));
            }
            if answered_by <= sources && first.is_some_and(|first| sources >= first) {
                let shown = rendered.messages.partition_point(|(index, _)| *index < sources);
                self.points.push(ResumePoint { sources: from.sources + sources, shown: from.shown + shown });
            }
        }
        for RenderedCall { index, answer, call_id, writer } in &rendered.calls {
            let index = from.sources + index;
            self.earlier.add(index, call_id, writer);
            if answer.is_none() {
                self.waiting.push((index, (*call_id).to_owned()));
            }
        }
    }
}

fn result_id(body: &PartBody) -> Option<&str> {
    if let PartBody::ToolResult(result) = body { Some(&result.call_id) } else { None }
}

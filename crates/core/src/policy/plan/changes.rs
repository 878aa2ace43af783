//! The changes that a plan makes, as the store or a simulation writes them.

use super::after::marker_text;
use super::input::{PlanningInput, SummaryPlan};
use super::sources::omitted_ranges;
use crate::model::Revision;
use crate::model::changes::{Changes, SummaryChange};
use crate::model::compaction::Contradiction;
use crate::model::ids::PartId;
use crate::model::part::{Part, PartBody};
use crate::model::truncation::{Removals, Truncation};
use crate::model::usage::Usage;
use crate::model::view::SourceMessage;
use foldhash::HashMap;

/// A summary that was written for a plan.
#[derive(Debug, Clone, Copy)]
pub struct WrittenSummary<'a> {
    /// The plan.
    pub plan: &'a SummaryPlan,
    /// Text of the summary.
    pub text: &'a str,
    /// Name of the summarizer that wrote it.
    pub summarizer: &'a str,
    /// Usage of the requests for it.
    pub usage: Option<Usage>,
    /// True if a client wrote it on its own, false if a summarizer was asked.
    pub supplied: bool,
    /// Free JSON that is kept with it.
    pub details_json: Option<&'a str>,
    /// Its claims that the history contradicts.
    pub contradictions: &'a [Contradiction],
    /// Texts that follow it, as parts of their own behind the attachments.
    pub beside: &'a [PartBody],
    /// The packed digest of what it covers.
    pub digest: Option<&'a [u8]>,
    /// The last revision behind the covered messages that it may quote; none if it quotes none of them.
    pub quoted_until: Option<Revision>,
    /// The message of each line of people's words that follow it.
    pub said_in: &'a [Revision],
}

impl<'a> WrittenSummary<'a> {
    /// A text without an author.
    pub fn new(plan: &'a SummaryPlan, text: &'a str) -> Self {
        Self {
            plan,
            text,
            summarizer: "",
            usage: None,
            supplied: false,
            details_json: None,
            contradictions: &[],
            beside: &[],
            digest: None,
            quoted_until: None,
            said_in: &[],
        }
    }

    /// The parts of its message behind its text.
    pub fn parts(&self) -> Vec<PartBody> {
        self.plan.attachments.iter().chain(self.beside).cloned().collect()
    }
}

/// Returns the changes of truncations, omissions and a summary.
pub fn changes(planning: PlanningInput<'_>, removals: &Removals, summary: Option<WrittenSummary<'_>>) -> Changes {
    let by_part: HashMap<PartId, &Truncation> =
        removals.parts.iter().map(|(part, truncation)| (*part, truncation)).collect();
    let truncations_of = |source: &SourceMessage| {
        let message = source.message.id;
        let truncation =
            |part: &Part| by_part.get(&part.id).map(|truncation| (message, part.id, (*truncation).clone()));
        source.message.parts.iter().filter_map(truncation).collect::<Vec<_>>()
    };
    Changes {
        parts: planning.sources.iter().flat_map(truncations_of).collect(),
        omitted: omitted_ranges(planning.layout, planning.sources, removals),
        omitted_count: i64::try_from(removals.omitted.len()).unwrap_or(i64::MAX),
        replay: None,
        summary: summary.map(|written| summary_change(planning, written)),
        continuation: None,
    }
}

fn summary_change(planning: PlanningInput<'_>, written: WrittenSummary<'_>) -> SummaryChange {
    let attachments = written.parts();
    let WrittenSummary { plan, text, summarizer, usage, supplied, details_json, contradictions, .. } = written;
    SummaryChange {
        text: text.to_owned(),
        marker_text: marker_text(planning.policy),
        tail_start: plan.tail_start,
        tail_message: plan.tail_message,
        covered: plan.covered.clone(),
        covered_count: i64::try_from(plan.covered_count()).unwrap_or(i64::MAX),
        retained: plan.retained.clone(),
        retained_first: plan.retained_first,
        attachments,
        summarizer: summarizer.to_owned(),
        usage,
        supplied,
        details_json: details_json.map(str::to_owned),
        contradictions: contradictions.to_vec(),
        digest: written.digest.map(<[u8]>::to_vec),
        quoted_until: written.quoted_until,
        said_in: written.said_in.to_vec(),
    }
}

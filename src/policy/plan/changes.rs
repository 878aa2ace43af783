//! The changes that a plan makes, as the store or a simulation writes them.

use super::{Scene, SummaryPlan, marker_text, omitted_ranges};
use crate::model::changes::{Changes, SummaryChange};
use crate::model::cut::{Cut, Cuts};
use crate::model::ids::PartId;
use crate::model::part::Part;
use crate::model::usage::Usage;
use crate::model::view::SourceMessage;
use foldhash::HashMap;

/// A summary that was written for a plan.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// The plan.
    pub plan: &'a SummaryPlan,
    /// Text of the summary.
    pub text: &'a str,
    /// Name of the summarizer that wrote it.
    pub summarizer: &'a str,
    /// Usage of the requests for it.
    pub usage: Option<Usage>,
}

/// Returns the changes of truncations, omissions and a summary.
pub fn changes(scene: Scene<'_>, cuts: &Cuts, summary: Option<Written<'_>>) -> Changes {
    let by_part: HashMap<PartId, &Cut> = cuts.parts.iter().map(|(part, cut)| (*part, cut)).collect();
    let cut_of = |source: &SourceMessage| {
        let message = source.message.id;
        let cut = |part: &Part| by_part.get(&part.id).map(|cut| (message, part.id, (*cut).clone()));
        source.message.parts.iter().filter_map(cut).collect::<Vec<_>>()
    };
    Changes {
        parts: scene.sources.iter().flat_map(cut_of).collect(),
        omitted: omitted_ranges(scene.layout, scene.sources, cuts),
        omitted_count: i64::try_from(cuts.omitted.len()).unwrap_or(i64::MAX),
        replay: None,
        summary: summary.map(|written| summary_change(scene, written)),
        continuation: None,
    }
}

fn summary_change(scene: Scene<'_>, written: Written<'_>) -> SummaryChange {
    let Written { plan, text, summarizer, usage } = written;
    SummaryChange {
        text: text.to_owned(),
        marker_text: marker_text(scene.policy),
        tail_start: plan.tail_start,
        tail_message: plan.tail_message,
        covered: plan.covered.clone(),
        covered_count: i64::try_from(plan.covered_count()).unwrap_or(i64::MAX),
        retained: plan.retained.clone(),
        retained_first: plan.retained_first,
        attachments: plan.attachments.clone(),
        summarizer: summarizer.to_owned(),
        usage,
        supplied: false,
        details_json: None,
        contradictions: Vec::new(),
    }
}

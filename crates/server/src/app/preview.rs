//! Plans of compactions by hand, made without writing anything.

use super::compactions::NewCompaction;
use super::error::{Error, Reason, Result};
use super::nouns::Compactions;
use super::validate;
use crate::loaded;
use crate::model::Revision;
use crate::model::changes::Changes;
use crate::model::compaction::{CompactionKind, CompactionRequest, Level, RevisionRange};
use crate::model::ids::{MessageId, PartId};
use crate::model::layout::Placement;
use crate::model::part::{MediaSource, PartBody};
use crate::model::session::SessionState;
use crate::model::view::SourceMessage;
use crate::scheduler::{self, Preview};
use crate::summarizer::Forecast;

/// The plan of a compaction by hand of the current view.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The largest kind of work that it would do.
    pub kind: CompactionKind,
    /// The level that it would apply; none for a prune.
    pub level: Option<Level>,
    /// The revision whose view it is made for.
    pub base: Revision,
    /// The parts that it would shorten.
    pub truncations: Vec<PlannedTruncation>,
    /// The messages that it would leave out; sorted and disjoint.
    pub omitted: Vec<RevisionRange>,
    /// Number of messages that it would leave out.
    pub omitted_count: i64,
    /// All messages that the summary would cover, including those of earlier summaries.
    pub covered: Vec<RevisionRange>,
    /// Number of messages that it would cover anew.
    pub covered_count: i64,
    /// The first message that stays verbatim after the summary; none if none does.
    pub tail_start: Option<MessageId>,
    /// Covered messages that the view would still show.
    pub retained: Vec<MessageId>,
    /// Messages that stay because they are pinned.
    pub pinned: Vec<MessageId>,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// Tokens of the view after, by the same estimate; assumes a summary of the maximum length.
    pub tokens_after: i64,
    /// Maximum length of the summary in tokens; zero without one.
    pub summary_tokens: i64,
    /// Index of the first view message that would change.
    pub first_changed_index: i64,
    /// The requests to a model for the summary; none without a summary.
    pub forecast: Option<Forecast>,
}

/// A part that would be shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTruncation {
    /// Its message.
    pub message: MessageId,
    /// The part.
    pub part: PartId,
    /// Bytes of the original.
    pub original_bytes: i64,
    /// Bytes that a view would show instead.
    pub shown_bytes: i64,
}

/// The text of a part, and its size in bytes, which for media is more than the text.
fn text_and_size(body: &PartBody) -> (&str, usize) {
    let text = match body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.as_str(),
        PartBody::ToolCall(call) => &call.input_json,
        PartBody::ToolResult(result) => &result.output,
        PartBody::Media(media) => {
            return match &media.source {
                MediaSource::Bytes(bytes) => ("", bytes.len()),
                MediaSource::Uri(uri) => ("", uri.len()),
            };
        }
        PartBody::Opaque(opaque) => return ("", opaque.data.len()),
        PartBody::Marker(_) | PartBody::Step(_) | PartBody::Record(_) => "",
    };
    (text, text.len())
}

/// The parts that a compaction would shorten.
fn planned_truncations(changes: &Changes, sources: &[SourceMessage]) -> Vec<PlannedTruncation> {
    let bytes = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let parts = sources.iter().flat_map(|source| &source.message.parts);
    let by_id: std::collections::HashMap<PartId, &PartBody> = parts.map(|part| (part.id, &*part.body)).collect();
    let planned = |(message, part, truncation): &(MessageId, PartId, crate::model::truncation::Truncation)| {
        let (words, original) = by_id.get(part).map_or(("", 0), |body| text_and_size(body));
        let shown_bytes = bytes(truncation.apply(words).len());
        PlannedTruncation { message: *message, part: *part, original_bytes: bytes(original), shown_bytes }
    };
    changes.parts.iter().map(planned).collect()
}

impl Compactions<'_> {
    /// The plan of a compaction by hand of the current view. Nothing is written, and no model is asked.
    pub async fn plan(self, session: &str, wanted: &NewCompaction) -> Result<Plan> {
        validate::instructions(&wanted.instructions)?;
        let key = self.caller.session_key(session).await?;
        let (info, _) = self.caller.store().sessions().get(key).await?;
        if info.state == SessionState::Archived {
            return Err(Error::new(Reason::SessionArchived, "the session is archived"));
        }
        let (source, _held) = self.caller.views().reserved_source(key, None).await?;
        let policy = self.caller.parse_policy(&source.policy)?;
        let formed = loaded::formed(&source);
        let planning =
            scheduler::planning_input(&policy, &source.window, &source, &formed, self.caller.shared.clock.now());
        let request = wanted.request(&policy, self.bounds(key, &source, &policy, wanted).await?);
        let fold = loaded::fold(&policy, &source, &formed);
        let preview = request.and_then(|request| {
            let preview = self.caller.shared.scheduler.preview(planning, &fold, &request)?;
            Some((preview, request))
        });
        let Some((preview, CompactionRequest { kind, level, .. })) = preview else {
            return Err(Error::new(
                Reason::NothingToCompact,
                "nothing in the view can be pruned, omitted or summarized",
            ));
        };
        let source_layout = &source.layout;
        let is_pinned = |source: &&SourceMessage| {
            source.placement == Some(Placement::Pinned) || source_layout.pinned.contains(&source.message.revision)
        };
        let pinned = source.messages.iter().filter(is_pinned).map(|source| source.message.id).collect();
        let by_revision = |revision: &Revision| {
            let found = source.messages.iter().find(|source| source.message.revision == *revision);
            found.map(|source| source.message.id)
        };
        let Preview { changes, tokens_before, tokens_after, first_changed_index, summary_tokens, forecast } = preview;
        let truncations = planned_truncations(&changes, &source.messages);
        let summary = changes.summary.as_ref();
        Ok(Plan {
            kind,
            level,
            base: source.at,
            truncations,
            omitted_count: changes.omitted_count,
            covered: summary.map(|summary| summary.covered.clone()).unwrap_or_default(),
            covered_count: summary.map_or(0, |summary| summary.covered_count),
            tail_start: summary.and_then(|summary| summary.tail_message),
            retained: summary.iter().flat_map(|summary| &summary.retained).filter_map(by_revision).collect(),
            pinned,
            tokens_before,
            tokens_after,
            summary_tokens,
            first_changed_index,
            forecast,
            omitted: changes.omitted,
        })
    }
}

//! Searches and hits.

use super::message::{message_status, read_role};
use super::{not_given, read_duration, read_enum, read_optional_time};
use crate::app::search::{EntryKind, SearchPage, SearchRequest, ShownHit, Statistics};
use crate::app::{Error, Result};
use crate::grpc::wire;
use crate::pb;
use std::fmt::Display;
use std::ops::Range;
use std::time::Duration;

/// A search.
pub(in crate::grpc) fn read_request(request: pb::SearchHistoryRequest) -> Result<SearchRequest> {
    let wait = request.wait_timeout.map(|wait| read_duration("wait_timeout", wait)).transpose()?;
    let roles = request.roles.iter().map(|role| read_role("roles", *role)).collect::<Result<_>>()?;
    let kinds = request.part_types.iter().map(|kind| read_kind("part_types", *kind)).collect::<Result<_>>()?;
    Ok(SearchRequest {
        query: request.query,
        session: request.session_id,
        tree: request.tree_session_id,
        project: request.project,
        roles,
        tools: request.tools,
        kinds,
        since: read_optional_time("start_time", request.start_time)?,
        until: read_optional_time("end_time", request.end_time)?,
        derived: request.include_derived,
        records: !request.exclude_records,
        page_size: request.page_size.into(),
        page_token: request.page_token,
        min_seq: request.min_seq,
        wait: wait.unwrap_or(Duration::ZERO),
        all: request.require_every_term,
        newest: request.newest_first,
        statistics: request.statistics.map(read_statistics).transpose()?,
        exclude_hits: request.exclude_hits,
    })
}

/// What was counted for a ranking.
fn read_statistics(statistics: pb::SearchStatistics) -> Result<Statistics> {
    let count = |count: i64| u64::try_from(count).map_err(|_| Error::field("statistics", "has a negative number"));
    let having = statistics.part_counts.into_iter().map(count).collect::<Result<_>>()?;
    Ok(Statistics { parts: count(statistics.part_count)?, words: count(statistics.word_count)?, having })
}

fn statistics(statistics: Statistics) -> pb::SearchStatistics {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let Statistics { parts, words, having } = statistics;
    let part_counts = having.into_iter().map(count).collect();
    pb::SearchStatistics { part_count: count(parts), word_count: count(words), part_counts }
}

fn read_kind(field: impl Display + Copy, number: i32) -> Result<EntryKind> {
    Ok(match read_enum(field, number)? {
        pb::PartType::Unspecified => return Err(not_given(field)),
        pb::PartType::Text => EntryKind::Text,
        pb::PartType::Reasoning => EntryKind::Reasoning,
        pb::PartType::ToolCall => EntryKind::ToolCall,
        pb::PartType::ToolResult => EntryKind::ToolResult,
        pb::PartType::Media => EntryKind::Media,
        pb::PartType::Marker => EntryKind::Marker,
        pb::PartType::Record => EntryKind::Record,
    })
}

fn kind(kind: EntryKind) -> pb::PartType {
    match kind {
        EntryKind::Text => pb::PartType::Text,
        EntryKind::Reasoning => pb::PartType::Reasoning,
        EntryKind::ToolCall => pb::PartType::ToolCall,
        EntryKind::ToolResult => pb::PartType::ToolResult,
        EntryKind::Media => pb::PartType::Media,
        EntryKind::Marker => pb::PartType::Marker,
        EntryKind::Record => pb::PartType::Record,
    }
}

/// A page of hits.
pub(in crate::grpc) fn page(page: SearchPage) -> pb::SearchHistoryResponse {
    pb::SearchHistoryResponse {
        hits: page.hits.into_iter().map(hit).collect(),
        next_page_token: page.next_page_token,
        indexed_seq: page.indexed_seq,
        indexed_revision: page.indexed_revision,
        cut_off: page.is_cut,
        head_seq: page.head_seq,
        statistics: Some(statistics(page.statistics)),
    }
}

fn bytes(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn hit(shown: ShownHit) -> pb::SearchHit {
    let ShownHit { hit, in_view, text, bytes: range, matches, rank, terms, .. } = shown;
    let message = hit.message;
    let place =
        |place: Range<usize>| pb::SnippetMatch { offset_bytes: bytes(place.start), length_bytes: bytes(place.len()) };
    let score = |score: u64| i64::try_from(score).unwrap_or(i64::MAX);
    pb::SearchHit {
        session_id: message.session_id.to_string(),
        message_id: message.id.to_string(),
        part_id: message.parts.first().map(|part| part.id.to_string()).unwrap_or_default(),
        revision: message.revision,
        role: wire::role(message.role).into(),
        kind: wire::message_kind(message.kind).into(),
        part_type: kind(shown.kind).into(),
        tool: hit.tool.unwrap_or_default(),
        create_time: Some(wire::timestamp(message.create_time)),
        origin_time: message.origin_time.map(wire::timestamp),
        actor: message.actor,
        in_view,
        status: Some(message_status(hit.status)),
        shortened_by_compaction_id: hit.shortened_by.map(|id| id.to_string()),
        snippet: Some(pb::Snippet {
            text,
            offset_bytes: bytes(range.start),
            matches: matches.into_iter().map(place).collect(),
        }),
        rank: Some(pb::SearchRank {
            has_every_term: rank.has_all,
            has_every_quotation: rank.has_quotations,
            score: score(rank.score),
            terms: terms.into_iter().map(|(term, says)| pb::SearchRankTerm { term, score: score(says) }).collect(),
        }),
    }
}

//! Search over all shards, as one index would answer: what is counted for the ranking is summed up first, so that a hit's
//! score does not depend on its shard, and the shards' hits are merged by their ranks.

use super::cursor;
use super::shard::{Shard, client};
use crate::app::Error;
use crate::cluster::Cluster;
use crate::cluster::call::ShardCall;
use crate::cluster::reply;
use crate::limits;
use crate::pb;
use crate::pb::search_service_client::SearchServiceClient;
use futures::future::try_join_all;
use http::Response;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tonic::Status;
use tonic::body::Body;

/// The shards that may have more hits: the token of the page at which each goes on, and how many of its hits were taken.
type SearchPlace = BTreeMap<String, (String, usize)>;

/// A page of hits.
pub(super) async fn history(cluster: Arc<Cluster>, call: ShardCall) -> Result<Response<Body>, Status> {
    let request: pb::SearchHistoryRequest = call.opened.as_message();
    if let Some(session) = request.session_id.as_ref().or(request.tree_session_id.as_ref()) {
        return cluster.at_session(&session.clone(), call).await;
    }
    if request.min_seq > 0 {
        let message = "events of several shards have no common numbers: it goes with session_id or tree_session_id";
        return Err(Error::field("min_seq", message).into());
    }
    let shards = Shard::all_of(&cluster, &call);
    let place: Option<SearchPlace> = cursor::place(&request.page_token)?;
    let counting =
        pb::SearchHistoryRequest { exclude_hits: true, statistics: None, page_token: String::new(), ..request.clone() };
    let counts = try_join_all(shards.iter().map(|shard| ask(shard, counting.clone()))).await?;
    let mut answer = pb::SearchHistoryResponse { indexed_seq: i64::MAX, ..Default::default() };
    let mut begin = SearchPlace::new();
    let mut statistics = pb::SearchStatistics::default();
    for (shard, count) in shards.iter().zip(counts) {
        answer.cut_off |= count.cut_off;
        answer.indexed_seq = answer.indexed_seq.min(count.indexed_seq);
        // The shard that is the furthest behind says how far all are.
        if count.indexed_seq <= answer.indexed_seq {
            answer.head_seq = count.head_seq;
        }
        add(&mut statistics, &count.statistics.unwrap_or_default());
        begin.insert(shard.name.clone(), (count.next_page_token, 0));
    }
    answer.statistics = Some(statistics.clone());
    if request.exclude_hits {
        if place.is_none() {
            answer.next_page_token = cursor::token(&begin)?;
        }
        return Ok(reply::unary(answer));
    }
    let mut place = place.unwrap_or(begin);
    let size = match i64::from(request.page_size) {
        0 => limits::SEARCH_PAGE_DEFAULT,
        size => size.min(limits::SEARCH_PAGE_MAX),
    };
    // One that is no size is refused by the shards.
    let size = usize::try_from(size).unwrap_or_default();
    let by = request.statistics.clone().unwrap_or(statistics);
    let next = |(name, (page_token, taken)): (&String, &(String, usize))| {
        let shard = shards.iter().find(|shard| shard.name == *name).cloned();
        let most = i64::try_from(size + taken).unwrap_or(i64::MAX).min(limits::SEARCH_PAGE_MAX);
        let page_size = i32::try_from(most).unwrap_or(i32::MAX);
        let statistics = Some(by.clone());
        let request =
            pb::SearchHistoryRequest { page_token: page_token.clone(), page_size, statistics, ..request.clone() };
        let (name, taken) = (name.clone(), *taken);
        async move {
            let unknown =
                || Status::from(Error::new(crate::app::Reason::PageTokenInvalid, "the page token names another shard"));
            let page = ask(&shard.ok_or_else(unknown)?, request).await?;
            Ok::<_, Status>((name, taken, page))
        }
    };
    let mut pages = Vec::new();
    for (name, taken, page) in try_join_all(place.iter().map(next)).await? {
        answer.cut_off |= page.cut_off;
        let left = page.hits.into_iter().skip(taken).collect();
        pages.push(ShardHits { name, taken, left, next: page.next_page_token });
    }
    // What comes next of a shard may be better than what the others have.
    while answer.hits.len() < size && !pages.iter().any(|page| page.left.is_empty() && !page.next.is_empty()) {
        let heads = pages.iter_mut().filter(|page| !page.left.is_empty());
        let best = heads.max_by(|one, other| compare(&one.left[0], &other.left[0], request.newest_first));
        let Some(best) = best else { break };
        answer.hits.extend(best.left.pop_front());
        best.taken += 1;
    }
    for ShardHits { name, taken, left, next } in pages {
        match (left.is_empty(), next.is_empty()) {
            (true, true) => place.remove(&name),
            (true, false) => place.insert(name, (next, 0)),
            (false, _) => place.get(&name).cloned().and_then(|(token, _)| place.insert(name, (token, taken))),
        };
    }
    if !place.is_empty() {
        answer.next_page_token = cursor::token(&place)?;
    }
    Ok(reply::unary(answer))
}

/// A shard's page of hits, while pages are merged.
struct ShardHits {
    name: String,
    /// Hits of the page that are on this or an earlier one of all shards.
    taken: usize,
    left: VecDeque<pb::SearchHit>,
    /// The token of its next page.
    next: String,
}

async fn ask(shard: &Shard, request: pb::SearchHistoryRequest) -> Result<pb::SearchHistoryResponse, Status> {
    Ok(client!(SearchServiceClient<Shard>, shard).search_history(request).await?.into_inner())
}

fn add(sum: &mut pb::SearchStatistics, other: &pb::SearchStatistics) {
    sum.part_count += other.part_count;
    sum.word_count += other.word_count;
    sum.part_counts.resize(sum.part_counts.len().max(other.part_counts.len()), 0);
    for (sum, other) in sum.part_counts.iter_mut().zip(&other.part_counts) {
        *sum += other;
    }
}

/// The better hit is the greater one: by rank, and of equals the newer one.
fn compare(one: &pb::SearchHit, other: &pb::SearchHit, is_newest_first: bool) -> Ordering {
    let rank = |hit: &pb::SearchHit| hit.rank.clone().unwrap_or_default();
    let (mine, others) = (rank(one), rank(other));
    let tiers = |rank: &pb::SearchRank| (rank.has_every_term, rank.has_every_quotation);
    let by_rank = tiers(&mine).cmp(&tiers(&others)).then(mine.score.cmp(&others.score));
    let place = |hit: &pb::SearchHit| {
        let time = hit.create_time.map(|time| (time.seconds, time.nanos));
        (time, Reverse(hit.session_id.clone()), hit.revision, hit.part_id.clone())
    };
    let by_time = place(one).cmp(&place(other));
    if is_newest_first { by_time } else { by_rank.then(by_time) }
}

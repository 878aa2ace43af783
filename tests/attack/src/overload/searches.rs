//! Hostile queries: beginnings that every word has, as many as a query may have, from callers that leave.

use super::Target;
use super::faults::{Committed, Counts, count, info, newcomer, soon};
use crate::daemon::connect;
use crate::seed::generator;
use anyhow::{Context as _, Result};
use longhand::limits;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::search_service_client::SearchServiceClient;
use rand::Rng as _;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tonic::{Code, Request, Status};

/// Deadline of the attackers' calls.
const PATIENCE: Duration = Duration::from_secs(5);
/// Processor time of one query in the full attack, in seconds: about a second in a release build.
const PROCESSOR_MAX: f64 = 8.0;
/// Units of times in `/proc`, which are the same on all Linux systems.
const TICKS_A_SECOND: f64 = 100.0;
/// The word that only one message has.
const NEEDLE: &str = "zquetzalneedle";

/// The worst queries of a kibibyte.
fn queries() -> [String; 4] {
    let letters = || "etaoinshrdlucmfwypvbgkjqxz0123456789".chars();
    let repeated = |what: &str| what.repeat(limits::SEARCH_QUERY_BYTES_MAX / what.len()).trim_end().to_owned();
    let pairs = letters().take(8).flat_map(|first| letters().take(8).map(move |second| format!("{first}{second}*")));
    [
        // As many as there are words in a query; the issue had 30.
        repeated("w* ").split_inclusive(' ').take(limits::SEARCH_WORDS_MAX).collect(),
        letters().map(|letter| format!("{letter}* ")).collect(),
        pairs.collect::<Vec<_>>().join(" "),
        format!("{NEEDLE} e* t* a*"),
    ]
}

/// Fills the index with messages of words of every beginning, of which few are common.
pub(super) async fn fill(target: &Target, session: &str) -> Result<()> {
    let mut draw = generator(7, "words");
    let letters: Vec<char> = ('a'..='z').collect();
    let mut word = || (0..draw.random_range(2..9)).map(|_| letters[draw.random_range(0..26)]).collect::<String>();
    let vocabulary: Vec<String> = (0..50_000).map(|_| word()).collect();
    let mut draw = generator(8, "texts");
    let mut client = MessageServiceClient::new(connect(target.daemon.socket()));
    let mut left = target.scale.searched;
    while left > 0 {
        let batch = left.min(500);
        left -= batch;
        let messages = (0..batch).map(|number| {
            let mut text: Vec<&str> = Vec::new();
            for _ in 0..80 {
                // The lower the number, the more common the word.
                let at = (vocabulary.len() as f64).powf(draw.random_range(0.0..1.0)) as usize;
                text.push(&vocabulary[at.min(vocabulary.len() - 1)]);
            }
            let needle = (left == 0 && number == 0).then_some(NEEDLE);
            text.extend(needle);
            let body = Some(pb::part::Body::Text(pb::TextPart { text: text.join(" ") }));
            let part = pb::Part { body, ..Default::default() };
            pb::NewMessage { role: pb::Role::User.into(), parts: vec![part], ..Default::default() }
        });
        let messages = messages.collect();
        let request = pb::AppendMessagesRequest { session_id: session.to_owned(), messages, ..Default::default() };
        client.append_messages(request).await?;
    }
    // Everything is indexed before the attack begins.
    let head = info(target).await?.head_seq;
    let indexed = async {
        while search(target, NEEDLE, head).await?.indexed_seq < head {}
        Ok::<_, Status>(())
    };
    tokio::time::timeout(Duration::from_secs(1_800), indexed).await.context("the index")??;
    Ok(())
}

async fn search(target: &Target, query: &str, min_seq: i64) -> Result<pb::SearchHistoryResponse, Status> {
    let mut client = SearchServiceClient::new(connect(target.daemon.socket()));
    let wait_timeout = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    // Most words of the needle's query are everywhere.
    let require_every_term = query.starts_with(NEEDLE);
    let request = pb::SearchHistoryRequest {
        query: query.to_owned(),
        min_seq,
        wait_timeout,
        require_every_term,
        ..Default::default()
    };
    Ok(client.search_history(request).await?.into_inner())
}

/// Seconds of a processor that the daemon has used.
fn processor_seconds(target: &Target) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", target.daemon.id()?.as_raw_nonzero()))?;
    let (_, fields) = stat.rsplit_once(')').context("a name")?;
    let ticks = |field: usize| fields.split_whitespace().nth(field).and_then(|ticks| ticks.parse::<f64>().ok());
    let ticks = ticks(11).zip(ticks(12)).map(|(user, system)| user + system).context("times")?;
    Ok(ticks / TICKS_A_SECOND)
}

pub(super) async fn attack(target: &Target) -> Result<Committed> {
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    for (number, query) in queries().into_iter().enumerate() {
        let (before, began) = (processor_seconds(target)?, Instant::now());
        let page = soon("a search", search(target, &query, 0)).await?;
        let (used, took) = (processor_seconds(target)? - before, began.elapsed());
        println!("    query {number}: {used:.2} s of a processor, {took:.2?}");
        if used > PROCESSOR_MAX && !target.scale.is_short() {
            broken.push(format!("query {number} took {used:.2} s of a processor"));
        }
        match page {
            Ok(page) if query.contains(NEEDLE) && page.hits.len() > 1 => broken.push("hits without a term".to_owned()),
            Ok(_) => count(&mut answers, "OK"),
            Err(status) => broken.push(format!("query {number}: {status}")),
        }
    }
    let mut calls = JoinSet::new();
    for number in 0..target.scale.streams {
        let [_, query, pairs, _] = queries();
        let query = if number % 2 == 0 { query } else { pairs };
        let mut client = SearchServiceClient::new(connect(target.daemon.socket()));
        calls.spawn(async move {
            let mut request = Request::new(pb::SearchHistoryRequest { query, ..Default::default() });
            request.set_timeout(PATIENCE);
            client.search_history(request).await.map(drop)
        });
    }
    newcomer(target, &mut broken).await?;
    while let Some(ended) = soon("a search to end", calls.join_next()).await? {
        match ended? {
            Ok(()) => count(&mut answers, "OK"),
            Err(status) if status.code() == Code::DeadlineExceeded => count(&mut answers, "DEADLINE_EXCEEDED"),
            Err(status) if status.code() == Code::Cancelled => count(&mut answers, "CANCELLED"),
            Err(status) if super::bystander::reason_of(&status) == "TOO_MANY_REQUESTS" => {
                count(&mut answers, "TOO_MANY_REQUESTS");
            }
            Err(status) => broken.push(format!("a search got the error: {status}")),
        }
    }
    // Nobody waits for them any more: the readers are free.
    let began = Instant::now();
    let page = soon("the needle", search(target, NEEDLE, 0)).await??;
    if page.hits.len() != 1 || (began.elapsed() > PATIENCE && !target.scale.is_short()) {
        broken.push(format!("{} hits after {:?}", page.hits.len(), began.elapsed()));
    }
    Ok((4 + target.scale.streams, answers, broken))
}

//! Questions over texts that others wrote: how many have an answer among the first ten hits, ours and those of the
//! plainest rival, FTS5 of any word by Porter's stems.
//!
//! A set is a file of lines of JSON: `{"id", "session", "text"}` for each text, and `{"question", "answers": [id]}`.
//! `benches/recall-sets` makes sets of public ones.

use crate::fleet::Daemon;
use crate::report::{Latencies, Report};
use crate::target::{connect, name, request, session};
use clap::Args;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::search_service_client::SearchServiceClient;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

/// Messages of an append.
const BATCH: usize = 100;
/// Hits that are looked at.
const FIRST: usize = 10;

/// Questions over texts that others wrote.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Files with texts and questions.
    #[arg(required = true)]
    sets: Vec<PathBuf>,
    /// Shards of a daemon on a database.
    #[arg(long, default_value_t = 1)]
    shards: u32,
}

struct Set {
    /// The texts with their ids, by session.
    sessions: BTreeMap<String, Vec<(String, String)>>,
    /// Questions with the ids of their answers.
    questions: Vec<(String, HashSet<String>)>,
}

impl Set {
    fn read(path: &Path) -> Self {
        let lines = std::fs::read_to_string(path).expect("a file with a set");
        let mut set = Self { sessions: BTreeMap::new(), questions: Vec::new() };
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            match line["answers"].as_array() {
                Some(ids) => {
                    let ids = ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect();
                    set.questions.push((text("question"), ids));
                }
                None => set.sessions.entry(text("session")).or_default().push((text("id"), text("text"))),
            }
        }
        set
    }

    /// The share of the questions of which a hit among the first ones is an answer.
    fn recall(&self, found: &[Vec<String>]) -> f64 {
        let asked = self.questions.iter().zip(found);
        let answered = asked.filter(|((_, answers), found)| found.iter().any(|id| answers.contains(id))).count();
        answered as f64 / self.questions.len() as f64
    }
}

pub(crate) async fn run(binaries: &[String], options: &Options, report: &mut Report) {
    for path in &options.sets {
        let set = Set::read(path);
        let what = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let texts: usize = set.sessions.values().map(Vec::len).sum();
        println!("{what}: {texts} texts in {} sessions, {} questions", set.sessions.len(), set.questions.len());
        let rival = [("recall_of_ten", set.recall(&rival(&set)))];
        report.figures(&what, "FTS5, any word, Porter", &rival);
        for binary in binaries {
            let folder = tempfile::tempdir().expect("a folder");
            let shards = if options.shards > 1 {
                format!("cluster = {{ shards = {} }}\n", options.shards)
            } else {
                String::new()
            };
            let daemon = Daemon::start(binary, folder.path(), &shards);
            let channel = connect(&daemon.socket).await;
            let ids = fill(&channel, &set).await;
            let mut latencies = Latencies::default();
            let any = ask(&channel, &set, &ids, false, &mut latencies).await;
            let all = ask(&channel, &set, &ids, true, &mut Latencies::default()).await;
            let figures = [("recall_of_ten", set.recall(&any)), ("recall_with_all_terms", set.recall(&all))];
            report.row(&what, &name(binary), None, &latencies, &figures);
        }
    }
}

/// What the rival finds.
fn rival(set: &Set) -> Vec<Vec<String>> {
    let index = rusqlite::Connection::open_in_memory().expect("a database");
    index
        .execute_batch("create virtual table f using fts5 (id unindexed, t, tokenize = 'porter unicode61')")
        .expect("fts5");
    let mut insert = index.prepare("insert into f (id, t) values (?1, ?2)").expect("prepared");
    for (id, text) in set.sessions.values().flatten() {
        insert.execute([id, text]).expect("inserted");
    }
    let mut find = index.prepare("select id from f where f match ?1 order by bm25(f) limit 10").expect("prepared");
    let words = |question: &str| {
        let words = question.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ")
    };
    let of = |(question, _): &(String, HashSet<String>)| {
        let rows = find.query_map([words(question)], |row| row.get(0)).expect("a search");
        rows.map(|id| id.expect("a row")).collect()
    };
    set.questions.iter().map(of).collect()
}

/// Appends all texts, and waits until each has been indexed. Returns the ids of the texts by those of their messages.
async fn fill(channel: &Channel, set: &Set) -> BTreeMap<String, String> {
    let mut messages = MessageServiceClient::new(channel.clone());
    let mut search = SearchServiceClient::new(channel.clone());
    let mut ids = BTreeMap::new();
    for texts in set.sessions.values() {
        let id = session(channel).await;
        let mut seq = 0;
        for texts in texts.chunks(BATCH) {
            let new = texts.iter().map(|(_, text)| crate::target::message(text.clone())).collect();
            let appended = messages.append_messages(request(&id, new)).await.expect("appended").into_inner();
            ids.extend(appended.message_ids.into_iter().zip(texts.iter().map(|(id, _)| id.clone())));
            seq = appended.seq;
        }
        let mut indexed = pb::SearchHistoryResponse::default();
        while indexed.indexed_seq < seq {
            let request = pb::SearchHistoryRequest {
                query: "zzz".to_owned(),
                session_id: Some(id.clone()),
                min_seq: seq,
                wait_timeout: Some(Duration::from_secs(30).try_into().expect("a length of time")),
                ..pb::SearchHistoryRequest::default()
            };
            indexed = search.search_history(request).await.expect("answered").into_inner();
        }
    }
    ids
}

/// The ids of the texts of the first hits of each question.
async fn ask(
    channel: &Channel,
    set: &Set,
    ids: &BTreeMap<String, String>,
    all: bool,
    latencies: &mut Latencies,
) -> Vec<Vec<String>> {
    let mut search = SearchServiceClient::new(channel.clone());
    let mut found = Vec::new();
    for (question, _) in &set.questions {
        let request = pb::SearchHistoryRequest {
            query: question.clone(),
            page_size: i32::try_from(FIRST).expect("a few"),
            require_every_term: all,
            ..pb::SearchHistoryRequest::default()
        };
        let began = Instant::now();
        let page = search.search_history(request).await.map(tonic::Response::into_inner).unwrap_or_default();
        latencies.record(began.elapsed());
        let of = |hit: &pb::SearchHit| ids.get(&hit.message_id).cloned();
        found.push(page.hits.iter().filter_map(of).collect());
    }
    found
}

//! Processor time of the index for each message, beside FTS5 alone in the same run: `cargo bench -p longhand-search`, with
//! the number of messages and a file whose lines are messages behind `--` where others than made-up ones are meant.
//!
//! FTS5 alone is the plainest rival: one column of whole words (`unicode61`), without contents, stems, pieces of names and
//! anything to restrict a search by.

use longhand_engine::{Connection, Reader, connect, files, query};
use longhand_model::compaction::RevisionRange;
use longhand_model::message::Role;
use longhand_model::part::PartBody;
use longhand_model::session::SessionKey;
use longhand_model::time::Timestamp;
use longhand_search::{
    Batch, EntryKind, ErasedRows, ForgottenRows, IndexReader as _, IndexSearch, IndexWriter as _, Part, Postings,
    PostingsReader, Progress, phrases,
};
use longhand_words::Query;
use mimalloc::MiMalloc;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// The daemon's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Messages if no number is given.
const MESSAGES: usize = 50_000;
/// Bytes of a made-up message, about.
const BYTES: usize = 750;
const SESSION_MESSAGES: usize = 500;
/// Words of made-up messages.
const WORDS: usize = 50_000;
/// Messages of a commit.
const COMMITS: [usize; 2] = [64, 1_000];
/// Erasures and searches that are measured.
const REPEATS: i64 = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let only_index = std::env::var_os("ONLY_INDEX").is_some();
    let number = arguments.iter().find_map(|argument| argument.parse().ok());
    let file = arguments.iter().find(|argument| argument.parse::<usize>().is_err());
    let texts: Vec<String> = match file {
        Some(file) => {
            let text = std::fs::read_to_string(file).expect("a file of messages");
            text.lines().map(str::to_owned).cycle().take(number.unwrap_or(text.lines().count())).collect()
        }
        None => made_up(number.unwrap_or(MESSAGES)),
    };
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{} messages of {} bytes", texts.len(), bytes / texts.len().max(1));
    for commit in COMMITS {
        if !only_index {
            let folder = tempfile::tempdir().expect("a folder");
            report("FTS5 alone", commit, &texts, bytes, folder.path(), || fts5(folder.path(), &texts, commit));
        }
        let folder = tempfile::tempdir().expect("a folder");
        report("the index", commit, &texts, bytes, folder.path(), || drop(fill(folder.path(), &texts, commit)));
        used(folder.path(), &texts);
    }
}

/// Processor time of this process, in microseconds.
fn spent() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

fn report(what: &str, commit: usize, texts: &[String], bytes: usize, folder: &Path, fill: impl FnOnce()) {
    let before = spent();
    fill();
    let micros = (spent() - before) as f64 / texts.len() as f64;
    let files = std::fs::read_dir(folder).expect("a folder");
    let on_disk: u64 = files.map(|file| file.expect("a file").metadata().expect("a length").len()).sum();
    let share = on_disk as f64 / bytes as f64;
    let log: u64 = on_disk_log(folder);
    println!(
        "{what}, commits of {commit}: {micros:.1} µs a message, {share:.2} bytes for a byte, {:.2} without the log",
        (on_disk - log) as f64 / bytes as f64
    );
}

/// Bytes of the log of a folder's database.
fn on_disk_log(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file"));
    let logs = files.filter(|file| file.path().extension().is_some_and(|end| end.to_string_lossy().ends_with("-wal")));
    logs.map(|file| file.metadata().expect("a length").len()).sum()
}

fn part(number: usize, text: &str) -> Part {
    let owner = SessionKey((number / SESSION_MESSAGES) as i64 + 1);
    Part {
        owner,
        tenant: "".into(),
        above: [owner].into(),
        message: (number % SESSION_MESSAGES) as i64 + 1,
        number: 1,
        role: if number.is_multiple_of(2) { Role::User } else { Role::Assistant },
        is_derived: false,
        time: Timestamp(1_700_000_000_000_000 + number as i64 * 1_000_000),
        kind: EntryKind::Text,
        body: Arc::new(PartBody::Text(text.to_owned())),
        tool: None,
    }
}

fn fill(folder: &Path, texts: &[String], commit: usize) -> Postings {
    files::make_search(folder).expect("a file");
    let mut index = Postings::open(folder).expect("an index").expect("a new one");
    let mut batch = Batch::default();
    for (number, texts) in texts.chunks(commit).enumerate() {
        let parts = texts.iter().enumerate().map(|(at, text)| part(number * commit + at, text));
        let progress = Progress { store: Uuid::nil(), seq: number as i64 + 1, hash: vec![1; 32] };
        Postings::cut(&mut batch, &parts.collect::<Vec<_>>());
        index.add(number as i64, &progress, &mut batch).expect("added");
        index.join(false).expect("joined");
    }
    index
}

/// Erases messages of a filled index, and searches in it.
fn used(folder: &Path, texts: &[String]) {
    let conn = connect::connect_search_reader(folder).expect("an index");
    for words in
        [&Prose::word(10)[..], &Prose::word(20_000), &format!("{} {}", Prose::word(3), Prose::word(700)), "the"]
    {
        let Ok(query) = Query::parse(words) else { continue };
        let wanted = IndexSearch { terms: query.terms, phrases: phrases(&query), limit: 101, ..IndexSearch::default() };
        let before = spent();
        let mut found = 0;
        for _ in 0..REPEATS {
            let mut reader = Reader::new(&conn);
            found = PostingsReader::new(&mut reader).find(&wanted, 2_000).expect("an answer").entries.len();
        }
        println!("  a search for {words:?}: {} µs, {found} hits", (spent() - before) / REPEATS);
    }
    drop(conn);
    let mut index = Postings::open(folder).expect("an index").expect("the same");
    let before = spent();
    for erasure in 0..REPEATS {
        let number = texts.len() / 11 * usize::try_from(erasure).expect("a number");
        let Part { owner, message, tenant, .. } = part(number, "");
        let what = ForgottenRows::Messages(RevisionRange { first: message, last: message });
        assert!(index.forget(&[ErasedRows { tenant, owner, what }]).expect("forgotten"));
        index.wipe().expect("wiped");
    }
    println!("  an erasure of a message: {} µs", (spent() - before) / REPEATS);
}

fn fts5(folder: &Path, texts: &[String], commit: usize) {
    let conn = Connection::open(folder.join("fts5.db")).expect("a database");
    let schema = "pragma journal_mode = wal; pragma synchronous = normal; \
         create virtual table words using fts5 (text, content = '', tokenize = unicode61)";
    conn.execute_batch(schema).expect("a table");
    for texts in texts.chunks(commit) {
        let transaction = conn.transaction().expect("a transaction");
        for text in texts {
            query("insert into words (text) values (?1)").bind(text).run(&transaction).expect("added");
        }
        transaction.commit().expect("a commit");
    }
}

/// Texts of prose, names of code and paths, in which few words are frequent and most are rare.
struct Prose {
    random: StdRng,
    number: usize,
}

fn made_up(messages: usize) -> Vec<String> {
    let mut prose = Prose { random: StdRng::seed_from_u64(1), number: 0 };
    (0..messages).map(|_| prose.text()).collect()
}

impl Prose {
    /// A word by its rank, from 0.
    fn word(rank: usize) -> String {
        const PIECES: [&str; 16] =
            ["ka", "lo", "mi", "ter", "on", "se", "view", "par", "na", "dek", "ru", "is", "bel", "tor", "fa", "qu"];
        let (mut word, mut left) = (String::new(), rank + 16);
        while left > 0 {
            word.push_str(PIECES[left % 16]);
            left /= 16;
        }
        word
    }

    /// A rank: half as often for twice the rank, about.
    fn rank(&mut self) -> usize {
        let exponent: f64 = self.random.random_range(0.0..1.0);
        (WORDS as f64).powf(exponent) as usize - 1
    }

    fn text(&mut self) -> String {
        let mut text = String::with_capacity(BYTES + 64);
        while text.len() < BYTES {
            let (one, other) = (Self::word(self.rank()), Self::word(self.rank()));
            match self.random.random_range(0..12) {
                0 => text.push_str(&format!("{one}_{other}() ")),
                1 => text.push_str(&format!("src/{one}/{other}.rs:{} ", self.number % 500)),
                2 => text.push_str(&format!("{one}.\n")),
                _ => text.push_str(&format!("{one} {other} ")),
            }
        }
        self.number += 1;
        text
    }
}

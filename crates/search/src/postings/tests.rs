use super::lists::TenantWords;
use super::{Batch, Postings, PostingsReader, file};
use crate::engine::{self, Connection, Reader, files};
use crate::error::{Error, Result};
use crate::forgotten::{ErasedRows, ForgottenRows};
use crate::model::Seq;
use crate::model::compaction::RevisionRange;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::session::SessionKey;
use crate::model::time::Timestamp;
use crate::part::{EntryKind, Part};
use crate::progress::Progress;
use crate::wanted::{FoundEntries, IndexSearch, OwnRange, Phrase};
use crate::words::{Column, Form, Query, Rank, Scores, Statistics, cut, tool};
use crate::{IndexReader as _, IndexWriter as _};
use proptest::prelude::*;
use std::sync::Arc;
use uuid::Uuid;

/// An index in memory.
fn index() -> Postings {
    let file = Connection::open_in_memory().expect("a database");
    assert!(file::prepare(&file).expect("tables"));
    Postings::new(file)
}

fn entry(tenant: &str, owner: i64, message: i64) -> Part {
    Part {
        owner: SessionKey(owner),
        tenant: tenant.into(),
        above: [SessionKey(owner)].into(),
        message,
        number: 1,
        role: Role::User,
        is_derived: false,
        time: Timestamp(message * 10),
        kind: EntryKind::Text,
        body: Arc::new(PartBody::Text(String::new())),
        tool: None,
    }
}

fn at(seq: Seq) -> Progress {
    Progress { store: Uuid::from_u128(1), seq, hash: vec![7; 32] }
}

/// Adds parts of the events up to one. Returns how far the index is.
fn add(index: &mut Postings, after: Seq, upto: Seq, parts: &[Part]) -> Progress {
    let mut batch = Batch::default();
    Postings::cut(&mut batch, parts);
    index.add(after, &at(upto), &mut batch).expect("added")
}

fn fill(index: &mut Postings, seq: Seq, entries: Vec<(Part, &str)>) {
    let parts =
        entries.into_iter().map(|(part, text)| Part { body: Arc::new(PartBody::Text(text.to_owned())), ..part });
    let after = index.progress().expect("read").map_or(0, |before| before.seq);
    assert_eq!(add(index, after, seq, &parts.collect::<Vec<_>>()), at(seq));
    index.join(false).expect("joined");
}

fn search(index: &Postings, wanted: &IndexSearch, pages: i64) -> Result<FoundEntries> {
    PostingsReader::new(&mut Reader::new(&index.file)).find(wanted, pages)
}

fn forget(index: &mut Postings, owner: i64, what: ForgottenRows) -> bool {
    let erased = ErasedRows { tenant: "".into(), owner: SessionKey(owner), what };
    index.forget(&[erased]).expect("forgotten")
}

fn word(word: &str) -> Phrase {
    Phrase { whole: vec![word.to_owned()], pieces: Vec::new(), stem: None, is_prefix: false, is_quoted: false }
}

/// A search for parts that have all of some phrases.
fn wanted(tenant: &str, phrases: Vec<Phrase>) -> IndexSearch {
    IndexSearch {
        tenant: tenant.into(),
        terms: phrases.len(),
        phrases,
        all: true,
        limit: 100,
        ..IndexSearch::default()
    }
}

/// The sessions and revisions of what is found, in order.
fn found(index: &Postings, wanted: &IndexSearch) -> Vec<(i64, i64)> {
    let found = search(index, wanted, i64::MAX).expect("a search");
    assert!(!found.may_lack_terms);
    found.entries.iter().map(|found| (found.entry.owner.0, found.entry.message)).collect()
}

#[test]
fn words_phrases_pieces_and_prefixes_are_found() {
    let mut index = index();
    let name = (entry("", 1, 1), "the parse_header moved");
    fill(&mut index, 1, vec![name, (entry("", 1, 2), "header parse"), (entry("", 2, 3), "parser")]);
    let phrase = |whole: &[&str], pieces: &[&str], is_prefix| {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        wanted("", vec![Phrase { whole: own(whole), pieces: own(pieces), is_prefix, ..word("") }])
    };
    assert_eq!(found(&index, &phrase(&["header"], &[], false)), [(1, 2), (1, 1)], "the shorter one first");
    assert_eq!(found(&index, &phrase(&["parse_header"], &["parse", "header"], false)), [(1, 1)]);
    assert_eq!(found(&index, &phrase(&["parseheader"], &["parse", "header"], false)), [(1, 1)]);
    assert_eq!(found(&index, &phrase(&["header", "parse"], &[], false)), [(1, 2)]);
    assert_eq!(found(&index, &phrase(&["parse", "header"], &[], false)), []);
    assert_eq!(found(&index, &phrase(&["pars"], &[], true)).len(), 3);
    assert_eq!(found(&index, &phrase(&["header", "par"], &[], true)), [(1, 2)]);
    assert_eq!(found(&index, &wanted("", vec![word("parse"), word("moved")])), [(1, 1)], "all of them");
    for no_word in ["a\"b", "a b", "*", ""] {
        let refused = search(&index, &wanted("", vec![word(no_word)]), i64::MAX);
        assert!(matches!(refused, Err(Error::Bug(_))), "{no_word}");
    }
}

#[test]
fn a_search_is_restricted_by_all_of_its_filters() {
    let mut index = index();
    let mut entries = Vec::new();
    for message in 1..=8 {
        entries.push((entry("", if message > 4 { 2 } else { 1 }, message), "word"));
    }
    entries[1].0.role = Role::Tool;
    entries[1].0.kind = EntryKind::ToolResult;
    entries[1].0.tool = Some("a1b2".to_owned());
    entries[2].0.is_derived = true;
    entries[3].0.kind = EntryKind::Record;
    entries[7].0.above = (2..40).map(SessionKey).collect();
    fill(&mut index, 9, entries);
    let all = wanted("", vec![word("word")]);
    let with = |change: &dyn Fn(&mut IndexSearch)| {
        let mut wanted = all.clone();
        change(&mut wanted);
        found(&index, &wanted).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    assert_eq!(with(&|_| {}), [8, 7, 6, 5, 2, 1], "the newest of equals first, without derived ones and records");
    assert_eq!(with(&|wanted| wanted.derived = true), [8, 7, 6, 5, 3, 2, 1]);
    assert_eq!(with(&|wanted| (wanted.derived, wanted.records) = (true, true)), [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(with(&|wanted| wanted.roles = vec![Role::Tool]), [2]);
    assert_eq!(with(&|wanted| wanted.kinds = vec![EntryKind::ToolResult, EntryKind::Media]), [2]);
    assert_eq!(with(&|wanted| wanted.tools = vec![tool("a1b2")]), [2]);
    assert_eq!(with(&|wanted| wanted.since = Some(Timestamp(60))), [8, 7, 6]);
    assert_eq!(with(&|wanted| wanted.until = Some(Timestamp(60))), [5, 2, 1]);
    assert_eq!(with(&|wanted| (wanted.since, wanted.until) = (Some(Timestamp(11)), Some(Timestamp(21)))), [2]);
    assert_eq!(with(&|wanted| wanted.since = Some(Timestamp(81))), Vec::<i64>::new());
    let range = OwnRange { owner: SessionKey(1), revisions: 0..=1 };
    assert_eq!(
        with(&|wanted| wanted.ranges = vec![range.clone()]),
        [2, 1],
        "of the session; the caller compares the rest"
    );
    // More above it than the index names: the caller compares.
    assert_eq!(with(&|wanted| wanted.below = Some(SessionKey(1))), [8, 2, 1]);
    assert_eq!(with(&|wanted| wanted.upto = Some(5)), [5, 2, 1]);
    assert_eq!(with(&|wanted| (wanted.offset, wanted.limit) = (1, 2)), [7, 6]);
}

#[test]
fn a_tenants_ranking_depends_on_its_own_entries_alone() {
    let mut index = index();
    fill(&mut index, 1, vec![(entry("a", 1, 1), "rare common"), (entry("a", 1, 2), "common common")]);
    let of_a = wanted("a", vec![word("common")]);
    let before = search(&index, &of_a, i64::MAX).expect("a search");
    let others = (3..300).map(|message| (entry("b", 2, message), "rare rare rare")).collect();
    fill(&mut index, 2, others);
    let after = search(&index, &of_a, i64::MAX).expect("a search");
    assert_eq!((after.entries, after.statistics), (before.entries, before.statistics));
    assert_eq!(found(&index, &wanted("c", vec![word("common")])), []);
}

#[test]
fn an_event_is_indexed_once_and_progress_comes_with_it() {
    let mut index = index();
    assert_eq!(index.progress().expect("none"), None);
    fill(&mut index, 4, vec![(entry("", 1, 1), "word")]);
    // What was committed is given again where its answer was lost, and what the log got since comes with it.
    for upto in [4, 5] {
        let again = Part { body: Arc::new(PartBody::Text("word other".to_owned())), ..entry("", 1, 1) };
        assert_eq!(add(&mut index, 0, upto, &[again]), at(4), "{upto}");
    }
    fill(&mut index, 5, vec![(entry("", 1, 2), "-- ")]);
    assert_eq!(index.progress().expect("read"), Some(at(5)));
    assert_eq!(found(&index, &wanted("", vec![word("word")])), [(1, 1)]);
    assert_eq!(found(&index, &wanted("", vec![word("other")])), []);
    assert!(file::prepare(&index.file).expect("an index"), "of this version");
    index.file.execute_batch("pragma user_version = 99").expect("set");
    assert!(!file::prepare(&index.file).expect("an index"), "of another version");
}

#[test]
fn a_damaged_index_is_told_apart_from_one_that_finds_nothing() {
    let mut index = index();
    fill(&mut index, 1, (0..50).map(|at| (entry("", 1, at), "words of a part")).collect());
    let damages = ["update block set data = substr(data, 1, length(data) - 7)", "update block set data = x'0105'"];
    let more = ["update entries set data = x'80'", "update entries set data = x''"];
    for (number, damage) in damages.into_iter().chain(more).enumerate() {
        index.file.execute_batch("savepoint whole").expect("a savepoint");
        index.file.execute_batch(damage).expect("damaged");
        let answer = super::find::find(&mut Reader::new(&index.file), &wanted("", vec![word("words")]), i64::MAX);
        match number {
            // Its entries are gone.
            3 => assert_eq!(answer.expect("an answer").entries, []),
            _ => assert!(matches!(answer, Err(Error::Corrupt { .. })), "{damage}: {answer:?}"),
        }
        index.file.execute_batch("rollback to whole; release whole").expect("as before");
    }
}

/// True if a word is in one of the files of an index.
fn is_in_files(folder: &std::path::Path, word: &str) -> bool {
    let files = std::fs::read_dir(folder).expect("a folder");
    let contents = files.map(|file| std::fs::read(file.expect("a file").path()).expect("bytes"));
    contents.into_iter().any(|bytes| bytes.windows(word.len()).any(|window| window == word.as_bytes()))
}

#[test]
fn what_is_forgotten_is_in_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    files::make_search(folder.path()).expect("a file");
    let mut index = Postings::open(folder.path()).expect("an index").expect("a new one");
    // Enough commits for segments of several levels, which have been joined in between.
    for batch in 0..75 {
        let entries = (0..20).map(|index| batch * 20 + index);
        let lines: Vec<(Part, String)> =
            entries.map(|at| (entry("", 1 + at % 3, at), format!("common secretword{at} filler{}", at * 7))).collect();
        fill(&mut index, batch + 1, lines.iter().map(|(entry, line)| (entry.clone(), line.as_str())).collect());
    }
    let levels = "select count(distinct level) from segment";
    assert_eq!(engine::scalar::<i64>(levels).one(&index.file).expect("read"), 3);
    let is_in_files = |word| is_in_files(folder.path(), word);
    assert!(is_in_files("secretword"));
    let all = |index: &Postings| {
        let found = search(index, &wanted("", vec![word("common")]), i64::MAX).expect("a search");
        (found.entries.len(), found.statistics.parts, found.statistics.words)
    };
    assert_eq!(all(&index), (100, 1_500, 4_500));
    assert!(forget(&mut index, 2, ForgottenRows::Part(1, 1)));
    assert!(!forget(&mut index, 2, ForgottenRows::Part(1, 2)), "another part");
    assert!(!forget(&mut index, 1, ForgottenRows::Part(4, 1)), "another session");
    index.wipe().expect("wiped");
    // A block keeps only the rest of a word that begins as the word before it.
    assert_eq!(found(&index, &wanted("", vec![word("secretword1")])), []);
    assert_eq!(found(&index, &wanted("", vec![word("secretword10")])), [(2, 10)]);
    assert!(forget(&mut index, 2, ForgottenRows::Messages(RevisionRange { first: 4, last: 4 })));
    assert_eq!(found(&index, &wanted("", vec![word("filler28")])), []);
    assert_eq!(all(&index), (100, 1_498, 4_494));
    let everything = ForgottenRows::Messages(RevisionRange { first: 0, last: i64::MAX });
    for owner in 1..=3 {
        assert!(forget(&mut index, owner, everything));
    }
    assert_eq!(all(&index), (0, 0, 0));
    assert!(is_in_files("SQLite format"), "the files are read");
    index.wipe().expect("wiped");
    for gone in ["secret", "filler", "common"] {
        assert!(!is_in_files(gone), "{gone}");
    }
    assert!(!forget(&mut index, 1, everything), "again");
    // Numbers of entries are never given again: pages of hits name them.
    fill(&mut index, 100, vec![(entry("", 1, 9), "common")]);
    let last = search(&index, &wanted("", vec![word("common")]), i64::MAX).expect("a search");
    assert_eq!(last.entries.iter().map(|found| found.entry.id).collect::<Vec<_>>(), [1_501]);
}

/// Texts of names, paths and a script without blanks, which share words and pieces.
fn pieces_of_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "parse",
        "header",
        "parse_header",
        "parseHeader",
        "HEADER",
        "src/http.rs",
        "会话",
        "压缩",
        "会话压缩",
        "会",
        "v1.18",
        "x86_64",
        "sha256sum",
        "é",
        "e\u{301}",
        "ｶﾞ",
        "ガ",
        "-",
        "\"",
        "*",
    ]);
    let joined = (piece, prop::sample::select(vec![" ", " ", "", ".", "_"]));
    prop::collection::vec(joined, 1..6)
        .prop_map(|pieces| pieces.into_iter().map(|(piece, end)| piece.to_owned() + end).collect())
}

/// An index of texts, one entry each, from 1, some of them in a commit.
fn of_texts(texts: &[String], commit: usize) -> Postings {
    let mut index = index();
    for (number, texts) in texts.chunks(commit).enumerate() {
        let first = number * commit;
        let of = |(at, text): (usize, &String)| {
            let message = i64::try_from(first + at + 1).expect("a number");
            Part { body: Arc::new(PartBody::Text(text.clone())), ..entry("", 1, message) }
        };
        let parts: Vec<Part> = texts.iter().enumerate().map(of).collect();
        let number = i64::try_from(number).expect("a number");
        add(&mut index, number, number + 1, &parts);
        // Some commits come while more is left.
        index.join(number % 16 < 9).expect("joined");
    }
    index
}

/// The number of whole words.
fn count(text: &str) -> u32 {
    let mut count = 0;
    cut(text, Form::Plain, &mut |column, _, _| count += u32::from(column == Column::Whole));
    count
}

/// What a reader of all texts finds, by the rules as they are documented: the ranks with the numbers of the texts.
fn scanned(query: &Query, texts: &[String], all: bool) -> Vec<(Rank, i64)> {
    let counts: Vec<u32> = texts.iter().map(|text| count(text)).collect();
    let often: Vec<Vec<u32>> = texts.iter().map(|text| query.often(text, Form::Plain)).collect();
    let having = |clue: usize| often.iter().filter(|often| often[clue] > 0).count() as u64;
    let statistics = Statistics {
        parts: counts.iter().filter(|count| **count > 0).count() as u64,
        words: counts.iter().map(|count| u64::from(*count)).sum(),
        having: (0..query.clues.len()).map(having).collect(),
    };
    let scores = Scores::from_statistics(&statistics);
    let mut found = Vec::new();
    for ((number, often), count) in (1..).zip(&often).zip(&counts) {
        let has = |clue: &usize| often[*clue] > 0;
        let rank = Rank {
            has_all: (0..query.terms).all(|term| has(&term)),
            has_quotations: (0..query.terms).filter(|term| query.clues[*term].is_quoted).all(|term| has(&term)),
            score: (0..often.len()).filter(has).map(|clue| scores.score(clue, often[clue], *count)).sum(),
        };
        let is_found = if all { rank.has_all } else { often.iter().any(|often| *often > 0) };
        if is_found {
            found.push((rank, number));
        }
    }
    found.sort_by(|one, other| other.cmp(one));
    found
}

/// A query of some texts, quoted or not, and beginnings.
fn query_of_texts() -> impl Strategy<Value = String> {
    let term = (pieces_of_text(), any::<bool>(), any::<bool>()).prop_map(|(text, is_quoted, is_prefix)| {
        let (quote, star) = (if is_quoted { "\"" } else { "" }, if is_prefix { "*" } else { "" });
        format!("{quote}{}{quote}{star}", text.trim().replace(['"', '*'], " "))
    });
    prop::collection::vec(term, 1..4).prop_map(|terms| terms.join(" "))
}

proptest! {
    #[test]
    fn the_index_finds_what_a_reader_would_in_the_same_order(
        texts in prop::collection::vec(pieces_of_text(), 1..24),
        query in query_of_texts(),
        all: bool,
        shards in 1_usize..4,
        commit in 1_usize..12,
        forgotten in 0_i64..24,
    ) {
        let Ok(query) = Query::parse(&query) else { return Ok(()) };
        let expected = scanned(&query, &texts, all);
        let wanted = IndexSearch { terms: query.terms, all, ..wanted("", crate::phrases(&query)) };
        let ranks = |index: &Postings, wanted: &IndexSearch| {
            let found = search(index, wanted, i64::MAX).expect("a search");
            let ranks = found.entries.iter().map(|found| (found.rank, found.entry.message));
            (ranks.collect::<Vec<_>>(), found.statistics)
        };
        let mut index = of_texts(&texts, commit);
        let (found, statistics) = ranks(&index, &wanted);
        prop_assert_eq!(&found, &expected, "{:?} in {:?}", query, &texts);
        // Several indexes with the statistics of all of them say the same of each.
        let mut all_found = Vec::new();
        for shard in 0..shards {
            let is_here = |at: usize| at % shards == shard;
            let here: Vec<String> =
                texts.iter().enumerate().map(|(at, text)| if is_here(at) { text.clone() } else { String::new() }).collect();
            let wanted = IndexSearch { statistics: Some(statistics.clone()), ..wanted.clone() };
            all_found.extend(ranks(&of_texts(&here, commit), &wanted).0);
        }
        all_found.sort_by(|one, other| other.cmp(one));
        prop_assert_eq!(&all_found, &expected);
        // What comes in pages is the same.
        let first = ranks(&index, &IndexSearch { limit: 2, ..wanted.clone() }).0;
        let rest = ranks(&index, &IndexSearch { offset: 2, ..wanted.clone() }).0;
        prop_assert_eq!([first, rest].concat(), found);
        let newest = ranks(&index, &IndexSearch { newest: true, ..wanted.clone() }).0;
        prop_assert!(newest.is_sorted_by(|one, other| one.1 > other.1) && newest.len() == expected.len());
        // Without a text it is as if that had never been there.
        forget(&mut index, 1, ForgottenRows::Part(forgotten, 1));
        let mut left = texts;
        if let Some(text) = usize::try_from(forgotten - 1).ok().and_then(|at| left.get_mut(at)) {
            text.clear();
        }
        prop_assert_eq!(ranks(&index, &wanted).0, scanned(&query, &left, all));
    }
}

/// Words as people use them: few are in most texts, and most in few.
fn common(number: i64) -> String {
    let words = (0..40_i64).map(|at| {
        let drawn = (number * 7_919 + at * 104_729) % 9_973;
        format!("w{}", drawn * drawn / 9_973)
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_search_reads_no_more_of_the_lists_than_it_may() {
    let mut index = index();
    for page in 0..20 {
        let text = |at| common(at) + if at == 700 { " rare_x" } else { "" };
        let texts: Vec<String> = (page * 100..page * 100 + 100).map(text).collect();
        let entries = texts.iter().zip(page * 100..).map(|(text, at)| (entry("", 1, at), text.as_str()));
        fill(&mut index, page + 1, entries.collect());
    }
    let prefix = |begin: &str| Phrase { is_prefix: true, ..word(begin) };
    let words = TenantWords::new(&index.file, 1).expect("segments");
    let all = words.pages(&prefix("w")).expect("read");
    let on_disk: i64 = engine::scalar("select count(*) from block").one(&index.file).expect("read");
    assert!(all > on_disk / 2 && all <= on_disk, "{all} of {on_disk}");
    assert!(words.pages(&word("rare")).expect("read") < all / 4);
    let search = |wanted: &IndexSearch, pages| search(&index, wanted, pages).expect("a search");
    let messages = |found: &FoundEntries| found.entries.iter().map(|found| found.entry.message).collect::<Vec<_>>();
    // The rare term is searched for, and the other one left to the texts.
    let both = wanted("", vec![prefix("w"), word("rare")]);
    let without = search(&both, all - 1);
    assert_eq!((messages(&without), without.may_lack_terms, without.is_cut), (vec![700], true, true));
    let within = search(&both, all);
    assert_eq!((messages(&within), within.may_lack_terms, within.is_cut), (vec![700], false, false));
    // Without a term that is rare enough, the newest come first, also of what is restricted.
    let none = wanted("", vec![prefix("w")]);
    let newest = search(&none, all - 1);
    assert_eq!((messages(&newest), newest.is_cut), ((1_900..2_000).rev().collect(), true));
    let of_assistants = IndexSearch { roles: vec![Role::Assistant], ..none.clone() };
    assert_eq!(messages(&search(&of_assistants, 1)), [0; 0]);
    let upto = IndexSearch { upto: Some(10), ..none };
    assert_eq!(messages(&search(&upto, 1)), (0..10).rev().collect::<Vec<_>>());
    // A word that few parts have is read whatever lies beside it, and alone or in a phrase.
    let few = wanted("", vec![word("rare")]);
    let beside = search(&few, 0);
    assert_eq!((messages(&beside), beside.is_cut, beside.statistics.having), (vec![700], false, vec![1]));
}

#[test]
fn a_common_word_changes_the_order_and_hides_nothing_old() {
    let mut index = index();
    for page in 0..20 {
        let common = if page < 2 { "other" } else { "common" };
        let entries = (0..100).map(|number| {
            let rare = if [3, 150, 1_999].contains(&(page * 100 + number)) { "rare" } else { "filler" };
            (entry("", 1, page * 100 + number), format!("{} {rare} word{number}", [common; 50].join(" ")))
        });
        let entries: Vec<_> = entries.collect();
        fill(&mut index, page + 1, entries.iter().map(|(entry, text)| (entry.clone(), text.as_str())).collect());
    }
    let words = TenantWords::new(&index.file, 1).expect("segments");
    let [rare, common] = ["rare", "common"].map(|one| words.pages(&word(one)).expect("read"));
    assert!(rare < common, "{rare} {common}");
    let any = IndexSearch { all: false, ..wanted("", vec![word("common"), word("rare")]) };
    let messages = |pages| {
        let found = search(&index, &any, pages).expect("a search");
        (found.entries.iter().map(|found| found.entry.message).collect::<Vec<_>>(), found.is_cut)
    };
    // Only what has the rare one is found; that which has the common one too comes first, and the oldest is there.
    assert_eq!(messages(rare), (vec![1_999, 150, 3], true));
    let (all, is_cut) = messages(rare + common);
    assert_eq!((&all[..1], all.len(), is_cut), (&[1_999][..], 100, false));
    // A common word alone finds its newest; of a few parts those that have it.
    let newest = |index: &Postings, wanted: &IndexSearch| {
        let found = search(index, wanted, 0).expect("a search");
        (found.entries.iter().map(|found| found.entry.message).collect::<Vec<_>>(), found.is_cut)
    };
    let alone = IndexSearch { all: false, ..wanted("", vec![word("common")]) };
    assert_eq!(newest(&index, &alone), ((1_900..2_000).rev().collect(), true));
    fill(&mut index, 21, vec![(entry("", 2, 1), "common words"), (entry("", 2, 2), "other words")]);
    let of_session = OwnRange { owner: SessionKey(2), revisions: 1..=9 };
    let restricted = IndexSearch { ranges: vec![of_session], ..alone };
    assert_eq!(newest(&index, &restricted), (vec![1], false));
}

#[test]
fn joined_segments_have_what_one_commit_has() {
    let fill_by = |commit: usize| {
        let mut index = index();
        // Two tenants in turn, so that each commit has both.
        let all: Vec<(Part, String)> = (0..3_000)
            .map(|at| {
                (entry(if at % 2 == 0 { "" } else { "b" }, 1, at), format!("everywhere only{} {}", at / 30, common(at)))
            })
            .collect();
        for (seq, entries) in (1..).zip(all.chunks(commit)) {
            fill(&mut index, seq, entries.iter().map(|(part, text)| (part.clone(), text.as_str())).collect());
        }
        index
    };
    let (joined, whole) = (fill_by(30), fill_by(3_000));
    let segments = |index: &Postings| file::segments(&index.file).expect("read").len();
    assert!(segments(&joined) < 20 && segments(&whole) == 1);
    let blocks = |index: &Postings| TenantWords::new(&index.file, 1).expect("segments").pages(&word("everywhere"));
    assert!(blocks(&whole).expect("counted") > 0, "a list of several blocks");
    for tenant in ["", "b"] {
        for phrase in ["everywhere", "only7", "w0", "w1", "w17", "absent"] {
            let all = IndexSearch { limit: 3_000, ..wanted(tenant, vec![word(phrase)]) };
            let [one, other] = [&joined, &whole].map(|index| search(index, &all, i64::MAX).expect("a search"));
            assert_eq!(one, other, "{tenant} {phrase}");
            let number = file::tenant(&joined.file, tenant).expect("read").expect("a tenant");
            let [one_count, other_count] = [&joined, &whole].map(|index| {
                let words = TenantWords::new(&index.file, number).expect("segments");
                words.count(&word(phrase)).expect("counted")
            });
            assert_eq!(one_count, other_count, "{tenant} {phrase}");
            assert_eq!(one.entries.is_empty(), phrase == "absent", "{phrase}");
            assert_eq!(one.statistics.parts, 1_500);
        }
    }
}

#[test]
fn a_list_of_several_blocks_that_one_segment_has_alone_is_moved_whole() {
    let mut index = index();
    fill(&mut index, 1, (0..4_000).map(|at| (entry("", 1, at), "solo")).collect());
    for seq in 2..9 {
        fill(&mut index, seq, vec![(entry("", 2, seq), "tail")]);
    }
    assert_eq!(file::segments(&index.file).expect("read").len(), 1);
    let words = TenantWords::new(&index.file, 1).expect("segments");
    assert!(words.pages(&word("solo")).expect("counted") > 0, "it has several blocks");
    assert_eq!(words.count(&word("solo")).expect("counted"), 4_000);
    assert_eq!(words.having(&word("solo")).expect("a list").len(), 4_000);
}

#[test]
fn what_was_added_is_there_whether_segments_can_be_joined_or_not() {
    let mut index = index();
    let refuse = "create temp trigger refused before delete on main.segment begin select raise(abort, 'full'); end";
    index.file.execute_batch(refuse).expect("a trigger");
    let segments = |index: &Postings| file::segments(&index.file).expect("read").len();
    for seq in 1..=9 {
        let part = Part { body: Arc::new(PartBody::Text("word".to_owned())), ..entry("", 1, seq) };
        assert_eq!(add(&mut index, seq - 1, seq, &[part]), at(seq));
        index.join(false).expect("put off");
    }
    assert_eq!((segments(&index), index.failed_joins), (9, 2));
    index.file.execute_batch("drop trigger refused").expect("as before");
    fill(&mut index, 10, vec![(entry("", 1, 10), "word")]);
    assert_eq!((segments(&index), index.failed_joins), (1, 0));
    assert_eq!(found(&index, &wanted("", vec![word("word")])).len(), 10);
    // What is damaged is no matter of a later attempt.
    for seq in 11..18 {
        fill(&mut index, seq, vec![(entry("", 1, seq), "word")]);
    }
    index.file.execute_batch("update block set data = x'0105'").expect("damaged");
    let part = Part { body: Arc::new(PartBody::Text("word".to_owned())), ..entry("", 1, 18) };
    add(&mut index, 17, 18, &[part]);
    assert!(matches!(index.join(false), Err(Error::Corrupt { .. })));
}

#[test]
fn a_restricted_search_holds_and_reads_what_is_searched() {
    let mut index = index();
    for seq in 1..=5 {
        let of_seq = (0..500).map(|at| (entry("", 1, seq * 500 + at), "common words"));
        fill(&mut index, seq, of_seq.collect());
    }
    let phrase = Phrase { whole: vec!["common".to_owned(), "words".to_owned()], ..word("") };
    let stem = Phrase { stem: Some("common".to_owned()), ..word("common") };
    // No entry of the third segment is searched: it is not read.
    let damage = "update block set data = x'0105' where segment = 3";
    index.file.execute_batch(damage).expect("damaged");
    let words = TenantWords::new(&index.file, 1).expect("segments");
    // Of the second segment the ends are searched, and nothing between.
    let among = [2, 510, 990, 2_499, 4_000];
    for clue in [word("common"), phrase, stem, word("absent")] {
        let list = words.having_among(&clue, &among).expect("a list");
        let ids: Vec<i64> = list.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, if clue.whole == ["absent"] { &[][..] } else { &among[..4] }, "{clue:?}");
        assert!(list.capacity() <= 8, "{clue:?} has room for {}", list.capacity());
        assert_eq!(words.having_among(&clue, &[]).expect("a list"), []);
    }
}

#[test]
fn an_erasure_of_many_sessions_writes_a_segment_once() {
    let mut index = index();
    for seq in 0..2 {
        let of_seq = (0..60).map(|at| (entry(if at % 2 == 0 { "" } else { "b" }, at % 20, seq * 60 + at), "common"));
        fill(&mut index, seq + 1, of_seq.collect());
    }
    let count = "create temp table written (segment integer) strict;
        create temp trigger counted after insert on main.segment begin insert into written values (new.number); end";
    index.file.execute_batch(count).expect("a trigger");
    let what = ForgottenRows::Messages(RevisionRange { first: 0, last: i64::MAX });
    let erased = |owner: i64| {
        let tenant = if owner % 2 == 0 { "" } else { "b" };
        ErasedRows { tenant: tenant.into(), owner: SessionKey(owner), what }
    };
    assert!(index.forget(&(0..18).map(erased).collect::<Vec<_>>()).expect("forgotten"));
    assert_eq!(engine::scalar::<i64>("select count(*) from written").one(&index.file).expect("read"), 2);
    for (tenant, owner) in [("", 18), ("b", 19)] {
        let left = found(&index, &wanted(tenant, vec![word("common")]));
        assert_eq!((left.len(), left.iter().all(|(of, _)| *of == owner)), (6, true), "{left:?}");
    }
}

#[test]
fn a_large_page_leaves_its_memory() {
    let (mut index, mut batch) = (index(), Batch::default());
    let part = |at| Part { body: Arc::new(PartBody::Text("word".to_owned())), ..entry("", 1, at) };
    Postings::cut(&mut batch, &(0..9_000).map(part).collect::<Vec<_>>());
    assert!(batch.entries.capacity() > 4_096);
    index.add(0, &at(1), &mut batch).expect("added");
    assert!(batch.entries.capacity() <= 4_096, "{}", batch.entries.capacity());
}

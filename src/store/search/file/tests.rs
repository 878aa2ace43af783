use super::*;
use crate::model::part::PartBody;
use crate::model::time::Timestamp;
use crate::words::{Form, Query, Words};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// An index in memory.
fn index() -> Connection {
    let conn = Connection::open_in_memory().expect("a database");
    conn.add_lists().expect("lists");
    assert!(prepare(&conn).expect("tables"));
    conn
}

fn entry(tenant: &str, owner: i64, message: i64) -> Unindexed {
    Unindexed {
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

fn fill(conn: &Connection, seq: Seq, entries: Vec<(Unindexed, &str, &str)>) {
    let progress = Progress { store: Uuid::from_u128(1), seq, hash: vec![7; 32] };
    let entries: Vec<_> =
        entries.into_iter().map(|(entry, whole, pieces)| (entry, [whole.to_owned(), pieces.to_owned()])).collect();
    add(conn, &progress, &entries).expect("added");
}

fn word(word: &str) -> Phrase {
    Phrase { whole: vec![word.to_owned()], pieces: Vec::new(), is_prefix: false }
}

fn wanted(tenant: &str, phrases: Vec<Phrase>) -> Wanted {
    Wanted { tenant: tenant.into(), phrases, limit: 100, ..Wanted::default() }
}

/// The sessions and revisions of what is found, in order.
fn found(conn: &Connection, wanted: &Wanted) -> Vec<(i64, i64)> {
    let found = find(&mut Reader::new(conn), wanted, i64::MAX).expect("a search");
    assert!(!found.may_lack_terms);
    found.entries.iter().map(|entry| (entry.owner.0, entry.message)).collect()
}

#[test]
fn words_phrases_pieces_and_prefixes_are_found() {
    let conn = index();
    let name = (entry("", 1, 1), "the parse_header moved", "parse header");
    fill(&conn, 1, vec![name, (entry("", 1, 2), "header parse", ""), (entry("", 2, 3), "parser", "")]);
    let phrase = |whole: &[&str], pieces: &[&str], is_prefix| {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        wanted("", vec![Phrase { whole: own(whole), pieces: own(pieces), is_prefix }])
    };
    assert_eq!(found(&conn, &phrase(&["header"], &[], false)), [(1, 2), (1, 1)], "a whole word is worth more");
    assert_eq!(found(&conn, &phrase(&["parse_header"], &["parse", "header"], false)), [(1, 1)]);
    assert_eq!(found(&conn, &phrase(&["parseheader"], &["parse", "header"], false)), [(1, 1)]);
    assert_eq!(found(&conn, &phrase(&["header", "parse"], &[], false)), [(1, 2)]);
    assert_eq!(found(&conn, &phrase(&["parse", "header"], &[], false)), []);
    assert_eq!(found(&conn, &phrase(&["pars"], &[], true)).len(), 3);
    assert_eq!(found(&conn, &phrase(&["header", "par"], &[], true)), [(1, 2)]);
    assert_eq!(found(&conn, &wanted("", vec![word("parse"), word("moved")])), [(1, 1)], "all of them");
    for no_word in ["a\"b", "a b", "*", ""] {
        let refused = find(&mut Reader::new(&conn), &wanted("", vec![word(no_word)]), i64::MAX);
        assert!(matches!(refused, Err(Error::Bug(_))), "{no_word}");
    }
}

#[test]
fn a_search_is_restricted_by_all_of_its_filters() {
    let conn = index();
    let mut entries = Vec::new();
    for message in 1..=8 {
        entries.push((entry("", if message > 4 { 2 } else { 1 }, message), "word", ""));
    }
    entries[1].0.role = Role::Tool;
    entries[1].0.kind = EntryKind::ToolResult;
    entries[1].0.tool = Some("a1b2".to_owned());
    entries[2].0.is_derived = true;
    entries[3].0.kind = EntryKind::Record;
    entries[7].0.above = (2..40).map(SessionKey).collect();
    fill(&conn, 9, entries);
    let all = wanted("", vec![word("word")]);
    let with = |change: &dyn Fn(&mut Wanted)| {
        let mut wanted = all.clone();
        change(&mut wanted);
        found(&conn, &wanted).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    assert_eq!(with(&|_| {}), [7, 6, 5, 2, 1, 8], "the newest of equals first, without derived ones and records");
    assert_eq!(with(&|wanted| wanted.derived = true), [7, 6, 5, 3, 2, 1, 8]);
    assert_eq!(with(&|wanted| (wanted.derived, wanted.records) = (true, true)), [7, 6, 5, 4, 3, 2, 1, 8]);
    assert_eq!(with(&|wanted| wanted.roles = vec![Role::Tool]), [2]);
    assert_eq!(with(&|wanted| wanted.kinds = vec![EntryKind::ToolResult, EntryKind::Media]), [2]);
    assert_eq!(with(&|wanted| wanted.tools = vec!["a1b2".to_owned()]), [2]);
    assert_eq!(with(&|wanted| wanted.since = Some(Timestamp(60))), [7, 6, 8]);
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
    assert_eq!(with(&|wanted| wanted.below = Some(SessionKey(1))), [2, 1, 8]);
    assert_eq!(with(&|wanted| wanted.upto = Some(5)), [5, 2, 1]);
    assert_eq!(with(&|wanted| (wanted.offset, wanted.limit) = (1, 2)), [6, 5]);
}

#[test]
fn a_tenants_ranking_depends_on_its_own_entries_alone() {
    let conn = index();
    fill(&conn, 1, vec![(entry("a", 1, 1), "rare common", ""), (entry("a", 1, 2), "common common", "")]);
    let search = wanted("a", vec![word("common")]);
    let score = |conn: &Connection| {
        let score: f64 = conn
            .sqlite()
            .expect("a file")
            .query_row(
                "select bm25(words_1, 1.0, 0.5, 0.0) from words_1 where words_1 match 'common' limit 1",
                [],
                |row| row.get(0),
            )
            .expect("a score");
        score.to_bits()
    };
    let (before, score_before) = (found(&conn, &search), score(&conn));
    let others = (3..300).map(|message| (entry("b", 2, message), "rare rare rare", "")).collect();
    fill(&conn, 2, others);
    assert_eq!((found(&conn, &search), score(&conn)), (before, score_before));
    assert_eq!(found(&conn, &wanted("c", vec![word("common")])), []);
}

#[test]
fn a_part_is_indexed_once_and_progress_comes_with_it() {
    let conn = index();
    assert_eq!(progress(&conn).expect("none"), None);
    fill(&conn, 4, vec![(entry("", 1, 1), "word", "")]);
    fill(&conn, 5, vec![(entry("", 1, 1), "other", "")]);
    assert_eq!(progress(&conn).expect("read").expect("there").seq, 5);
    assert_eq!(found(&conn, &wanted("", vec![word("word")])), [(1, 1)]);
    assert_eq!(found(&conn, &wanted("", vec![word("other")])), []);
    assert!(prepare(&conn).expect("an index"), "of this version");
    conn.execute_batch("pragma user_version = 99").expect("set");
    assert!(!prepare(&conn).expect("an index"), "of another version");
}

/// True if a word is in one of the files of an index.
fn is_in_files(folder: &std::path::Path, word: &str) -> bool {
    let files = std::fs::read_dir(folder).expect("a folder");
    let contents = files.map(|file| std::fs::read(file.expect("a file").path()).expect("bytes"));
    contents.into_iter().any(|bytes| bytes.windows(word.len()).any(|window| window == word.as_bytes()))
}

#[test]
fn what_is_forgotten_is_in_no_file() {
    use crate::store::engine::{checkpoint, connect, files};
    let folder = tempfile::tempdir().expect("a folder");
    files::make_search(folder.path()).expect("a file");
    let conn = connect::connect_search_writer(folder.path()).expect("an index");
    assert!(prepare(&conn).expect("tables"));
    // Enough batches for lists of several levels, which have been merged in between.
    for batch in 0..40 {
        let entries = (0..20).map(|index| batch * 20 + index);
        let lines: Vec<(Unindexed, String)> =
            entries.map(|at| (entry("", 1 + at % 3, at), format!("common secretword{at} filler{}", at * 7))).collect();
        let lines = lines.iter().map(|(entry, line)| (entry.clone(), line.as_str(), "")).collect();
        fill(&conn, batch, lines);
    }
    assert!(is_in_files(folder.path(), "secretword"));
    let last = |conn: &Connection| found(conn, &wanted("", vec![word("common")])).len();
    let before = last(&conn);
    assert_eq!(forget(&conn, SessionKey(2), Forgotten::Part(1, 1)).expect("forgotten"), 1);
    merge(&conn, "").expect("merged");
    assert!(checkpoint::empty_log(&conn, Duration::ZERO, Duration::ZERO).expect("a checkpoint"));
    // FTS5 keeps only the rest of a word that begins as the word before it.
    assert_eq!(found(&conn, &wanted("", vec![word("secretword1")])), []);
    assert_eq!(
        forget(&conn, SessionKey(2), Forgotten::Messages(RevisionRange { first: 4, last: 4 })).expect("forgotten"),
        1
    );
    assert_eq!(found(&conn, &wanted("", vec![word("filler28")])), []);
    let all = Forgotten::Messages(RevisionRange { first: 0, last: i64::MAX });
    for owner in 1..=3 {
        forget(&conn, SessionKey(owner), all).expect("forgotten");
    }
    merge(&conn, "").expect("merged");
    assert_eq!((before, last(&conn)), (100, 0));
    assert!(is_in_files(folder.path(), "SQLite format"), "the files are read");
    assert!(checkpoint::empty_log(&conn, Duration::ZERO, Duration::ZERO).expect("a checkpoint"));
    for gone in ["secret", "filler", "common"] {
        assert!(!is_in_files(folder.path(), gone), "{gone}");
    }
    assert_eq!(forget(&conn, SessionKey(1), all).expect("nothing"), 0, "again");
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

proptest! {
    #[test]
    fn the_index_finds_what_a_reader_would(
        texts in prop::collection::vec(pieces_of_text(), 1..8),
        wanted_text in pieces_of_text(),
        is_quoted: bool,
        is_prefix: bool,
    ) {
        let quote = if is_quoted { "\"" } else { "" };
        let star = if is_prefix { "*" } else { "" };
        let plain = wanted_text.trim().replace(['"', '*'], " ");
        let Ok(query) = Query::parse(&format!("{quote}{plain}{quote}{star}")) else { return Ok(()) };
        let conn = index();
        let mut entries = Vec::new();
        let mut expected = Vec::new();
        for (message, text) in (1..).zip(&texts) {
            let mut words = Words::default();
            words.add(text, Form::Plain);
            // What has no word is not indexed.
            if !words.is_empty() {
                entries.push((entry("", 1, message), [words.whole, words.pieces]));
            }
            if query.matches(text, Form::Plain) {
                expected.push((1, message));
            }
        }
        add(&conn, &Progress { store: Uuid::nil(), seq: 1, hash: Vec::new() }, &entries).expect("added");
        let mut found = found(&conn, &wanted("", crate::search::phrases(&query)));
        found.sort_unstable();
        prop_assert_eq!(found, expected, "{:?} in {:?}", query, texts);
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
    let conn = index();
    for page in 0..20 {
        let entries: Vec<String> = (0..100).map(|number| common(page * 100 + number)).collect();
        let entries = entries.iter().zip(page * 100..).map(|(words, at)| (entry("", 1, at), words.as_str(), "rare x"));
        let entries =
            entries.map(|(of, words, pieces)| (of.clone(), words, if of.message == 700 { pieces } else { "" }));
        fill(&conn, page + 1, entries.collect());
    }
    let prefix = |begin: &str| Phrase { is_prefix: true, ..word(begin) };
    let all = list_pages(&conn, "words_1", &prefix("w")).expect("read");
    let on_disk: i64 = engine::scalar("select count(*) from words_1_data").one(&conn).expect("read");
    assert!(all > on_disk / 2 && all <= on_disk, "{all} of {on_disk}");
    assert!(list_pages(&conn, "words_1", &word("rare")).expect("read") < all / 4);
    let search = |phrases: &[Phrase], pages| {
        find(&mut Reader::new(&conn), &wanted("", phrases.to_vec()), pages).expect("a search")
    };
    let messages = |found: &Found| found.entries.iter().map(|entry| entry.message).collect::<Vec<_>>();
    // The rare term is searched for, and the other one left to the texts.
    let both = search(&[prefix("w"), word("rare")], all);
    assert_eq!((messages(&both), both.may_lack_terms, both.is_cut), (vec![700], true, true));
    let within = search(&[prefix("w"), word("rare")], 2 * all);
    assert_eq!((messages(&within), within.may_lack_terms, within.is_cut), (vec![700], false, false));
    // Without a term that is rare enough, the newest come first, also of what is restricted.
    let none = search(&[prefix("w")], all - 1);
    assert_eq!((messages(&none), none.is_cut), ((1_900..2_000).rev().collect(), true));
    let of_assistants = Wanted { roles: vec![Role::Assistant], ..wanted("", vec![prefix("w")]) };
    assert_eq!(messages(&find(&mut Reader::new(&conn), &of_assistants, 1).expect("a search")), [0; 0]);
    let upto = Wanted { upto: Some(10), ..wanted("", vec![prefix("w")]) };
    assert_eq!(
        messages(&find(&mut Reader::new(&conn), &upto, 1).expect("a search")),
        (0..10).rev().collect::<Vec<_>>()
    );
}

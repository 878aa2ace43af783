use super::*;
use crate::model::ids::CompactionId;
use crate::model::layout::{CoveredHistory, OmittedHistory};
use crate::policy::{Retrieval, dsl, pairing, plan, samples};
use uuid::Uuid;

fn range(first: Revision, last: Revision) -> RevisionRange {
    RevisionRange { first, last }
}

/// pi's policy, which counts four characters as a token, with retrieval of at most `budget_tokens` tokens.
fn policy(budget_tokens: i64) -> Policy {
    let heading = "Earlier:".to_owned();
    let rule = Retrieval { budget_tokens, passage_tokens: 20, query_units: 200, heading };
    Policy { retrieval: Some(rule), ..samples::policy("pi@1.5") }
}

fn covered(ranges: &[RevisionRange], omitted: &[(RevisionRange, OmitReason)]) -> Layout {
    let covered =
        CoveredHistory { compaction: CompactionId(Uuid::nil()), mark: 50, summary: 49, ranges: ranges.to_vec() };
    let omitted = omitted.iter().map(|(range, reason)| OmittedHistory { range: *range, mark: 60, reason: *reason });
    Layout { covered: Some(covered), omitted: omitted.collect(), ..Layout::everything() }
}

#[test]
fn covered_and_compacted_messages_are_searched_and_removed_or_shown_ones_are_not() {
    let view = dsl::parse("u5 at=5 pinned \"stays\"\nu40 at=40 \"what about the parser?\"");
    let at = view[0].message.revision;
    let compacted = (range(20, 25), OmitReason::Compacted);
    for (layout, expected, by) in [
        (covered(&[range(1, 10)], &[]), vec![range(1, at - 1), range(at + 1, 10)], 50),
        (covered(&[range(11, 15)], &[compacted]), vec![range(11, 15), range(20, 25)], 60),
        (covered(&[range(11, 19)], &[compacted]), vec![range(11, 25)], 60),
        (covered(&[range(11, 13)], &[(range(14, 30), OmitReason::Rewound)]), vec![range(11, 13)], 50),
        (covered(&[range(11, 11)], &[(range(12, 12), OmitReason::Edited)]), vec![range(11, 11)], 50),
        // A replacement is in the position of its target, although it was written in a rewound range.
        (
            covered(&[range(11, 13), range(17, 17)], &[(range(14, 30), OmitReason::Rewound)]),
            vec![range(11, 13), range(17, 17)],
            50,
        ),
    ] {
        let wanted = wanted(&policy(100), &layout, &view).expect("something is hidden");
        let expected: Vec<_> = expected.into_iter().filter(|range| range.first <= range.last).collect();
        assert_eq!((wanted.hidden, wanted.hidden_by), (expected, by), "{layout:?}");
        assert_eq!(wanted.words, ["what", "about", "the", "parser"]);
        assert_eq!(wanted.request, view[1].message.id);
    }
    for layout in [Layout::everything(), covered(&[range(at, at)], &[]), covered(&[], &[])] {
        assert_eq!(wanted(&policy(100), &layout, &view), None, "nothing is hidden: {layout:?}");
    }
    let hidden = covered(&[range(11, 15)], &[]);
    assert_eq!(wanted(&samples::policy("pi@1.5"), &hidden, &view), None, "the policy wants nothing back");
    for silent in ["a1 \"nobody asks\"", "u1 \"…\"", "u1\n  media image/png"] {
        assert_eq!(wanted(&policy(100), &hidden, &dsl::parse(silent)), None, "{silent}");
    }
}

#[test]
fn the_last_words_of_a_user_are_the_request_though_results_came_behind_them() {
    let view =
        dsl::parse("u1 \"first\"\nu2 \"second\"\na3 \"hm\"\n  tool bash#c1 in=4t out=\"third\" done\nt4 \"fourth\"");
    let wanted = wanted(&policy(100), &covered(&[range(90, 99)], &[]), &view).expect("something is hidden");
    assert_eq!(wanted.words, ["second"]);
}

#[test]
fn pairs_represent_their_characters_and_a_long_query_its_ends() {
    let looked_up = |text: &str| lookups(&retrieval::terms(text)).join(" ");
    assert_eq!(looked_up("压缩 a fix 的"), "压缩 a fix 的");
    assert_eq!(looked_up("é né"), "é né");
    let long: Vec<String> = (0..1_000).map(|number| format!("w{number}")).collect();
    let ends = lookups(&long);
    assert_eq!((ends.len(), ends[0].as_str(), ends[WORDS_MAX - 1].as_str()), (WORDS_MAX, "w0", "w999"));
}

#[test]
fn rare_words_make_a_message_promising_and_of_equals_the_later_one() {
    assert_eq!(promising(&[vec![9, 8, 7, 6], vec![2], vec![7, 3]]), [2, 7, 3, 9, 8, 6]);
    assert_eq!(promising(&[vec![1, 2, 3]]), [3, 2, 1]);
    assert_eq!(promising(&[vec![], vec![]]), Vec::<Revision>::new());
    let many: Vec<Revision> = (1..=500).collect();
    assert_eq!(promising(&[many]).len(), MESSAGES_MAX);
}

const HISTORY: &str = "s1 \"parser rules\"\n\
     u2 \"The invoice parser fails on umlauts.\"\n\
     a3 \"I renamed parseHeader to read_header in src/http.rs\"\n  reasoning \"parser, parser, parser\"\n  \
       tool bash#c1 in=\"parser\" out=\"error: the writer is busy\" done\n\
     u4 \"请把会话压缩的阈值改成百分之八十\"\n\
     a5 \"好的，阈值已经改了\"\n\
     r6 \"parser\"\n";

fn messages() -> Vec<Message> {
    let history = HISTORY.replace("r6 \"parser\"\n", "");
    dsl::parse(&history).into_iter().map(|source| source.message.into()).collect()
}

fn recalled(policy: &Policy, question: &str) -> Vec<String> {
    let recalled = recall(policy, &terms(question), &messages(), i64::MAX);
    let parts = recalled.into_iter().flat_map(|message| message.parts);
    let shown = parts.map(|part| match &*part.body {
        PartBody::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    });
    shown.collect()
}

#[test]
fn the_best_passages_come_back_with_their_role_in_the_order_of_the_history() {
    let roomy = policy(1_000);
    for (question, expected) in [
        ("Which parser failed?", &["user: The invoice parser fails on umlauts."][..]),
        ("find readHeader", &["assistant: I renamed parseHeader to read_header in src/http.rs"]),
        ("阈值是多少", &["user: 请把会话压缩的阈值改成百分之八十", "assistant: 好的，阈值已经改了"]),
        ("writer busy, umlauts", &["user: The invoice parser fails on umlauts.", "tool: error: the writer is busy"]),
        ("unheard of", &[]),
    ] {
        let found = recalled(&roomy, question);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let expected: Vec<&str> =
            ["Earlier:"].into_iter().filter(|_| !expected.is_empty()).chain(expected.iter().copied()).collect();
        assert_eq!(found, expected, "{question}");
    }
    assert_eq!(recalled(&policy(14), "parser writer busy"), ["Earlier:", "tool: error: the writer is busy"], "budget");
    assert_eq!(recalled(&policy(5), "parser"), Vec::<String>::new(), "the heading alone is no help");
    assert_eq!(recalled(&samples::policy("pi@1.5"), "parser"), Vec::<String>::new());
}

#[test]
fn a_passage_of_a_long_text_names_its_part_and_what_it_leaves_out() {
    let text = format!("{}\n\nThe needle is here.\n\n{}", "hay ".repeat(40), "straw ".repeat(40));
    let messages: Vec<Message> = dsl::parse("u1 \"x\"").into_iter().map(|source| source.message.into()).collect();
    let mut message = messages[0].clone();
    message.parts[0].body = PartBody::Text(text.clone()).into();
    let recalled = recall(&policy(100), &["needle".to_owned()], &[message.clone()], i64::MAX).expect("a passage");
    let [_, passage] = &recalled.parts[..] else { panic!("{recalled:?}") };
    assert_eq!(passage.source, Some(message.parts[0].id));
    let PartBody::Text(shown) = &*passage.body else { panic!("{passage:?}") };
    let words = shown.strip_prefix("user: ").expect("who spoke");
    assert!(text.contains(words) && words.contains("needle") && words.len() < text.len() / 2, "{words}");
    let Some(PartShortening::Truncated { omitted_length }) = passage.shortened else { panic!("{passage:?}") };
    let left_out = text.len() as i64 - words.len() as i64;
    // Blanks at the edges of a passage do not count.
    assert!((left_out - 4..=left_out).contains(&omitted_length), "{omitted_length} of {left_out}");
    assert_eq!((recalled.role, recalled.kind, recalled.source), (Role::User, ViewKind::Retrieved, None));
}

#[test]
fn a_message_is_found_by_what_was_said_and_given_back_each_word_once() {
    let words: Vec<Vec<String>> = messages().iter().map(message_words).collect();
    assert_eq!(words[0], Vec::<String>::new(), "a rule is no dialogue");
    assert_eq!(words[1].join(" "), "the invoice parser fails on umlauts");
    assert!(!words[2].contains(&"parser".to_owned()), "neither thoughts nor calls: {:?}", words[2]);
    assert!(words[2].contains(&"busy".to_owned()) && words[2].contains(&"parseheader".to_owned()));
    assert_eq!(words[2].iter().filter(|word| *word == "read").count(), 1);
}

#[test]
fn recalled_messages_are_before_their_request() {
    let policy = policy(1_000);
    let view = dsl::parse("u1 \"go on\"\na2 \"yes\"\n  tool bash#c1 in=4t out=40t done\nu3 \"umlauts?\"\na4 \"well\"");
    let mut messages = plan::view(&policy, &view).messages;
    let at = |id| position(&View { messages: messages.clone(), estimated_tokens: 0 }, id);
    assert_eq!(at(MessageId(Uuid::nil())), None, "the view has no such message");
    let request = at(view[2].message.id).expect("it is there");
    assert_eq!(messages[request].source, Some(view[2].message.id));
    messages.insert(request, recall(&policy, &["umlauts".to_owned()], &self::messages(), i64::MAX).expect("a passage"));
    assert_eq!(pairing::violations(&messages), Vec::<String>::new());
}

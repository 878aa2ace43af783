//! What people said, as it follows the summaries of others.

use super::Talk;
use super::digest;
use crate::carried::what_happened;
use crate::{Covered, what_people_said};
use longhand_core::policy::summary::{SAID_HEADING, SummaryInput};
use longhand_core::policy::tokens;
use longhand_model::layout::Placement;
use longhand_model::mark::{Words, WordsStance};
use longhand_model::message::Role;
use longhand_model::part::{Part, PartBody};
use serde_json::json;

const NAMES: [&str; 12] = [
    "Falmouth",
    "Zanzibar",
    "Tregarthen",
    "Quetzal",
    "Okafor",
    "Sonora",
    "Kampala",
    "Miro",
    "Hedda",
    "Bernd",
    "Farida",
    "Ines",
];

fn talk() -> Talk {
    NAMES.iter().enumerate().fold(Talk::default(), |talk, (number, name)| {
        talk.user(&format!("The harbour of {name} has {} berths, and its tables stay in feet.", number + 31))
            .works("read", json!({"path": format!("/w/{name}.rs")}), "fn berth() {}")
            .model(&format!("I read the file of {name}."))
    })
}

#[test]
fn what_people_said_is_verbatim_in_order_and_within_its_budget() {
    let input = talk().input("longhand@1");
    let covered = Covered::new(&input);
    for budget in [0, 3, 60, 120, 200, 2_000] {
        let (text, messages) = what_people_said(&covered, budget);
        assert!(tokens::estimate_text(&input.counting, &text) <= budget, "{budget}: {text}");
        let places = NAMES.map(|name| text.find(&format!("The harbour of {name} has ")));
        let shown: Vec<usize> = places.into_iter().flatten().collect();
        assert!(shown.is_sorted(), "{text}");
        assert_eq!(text.is_empty(), shown.is_empty(), "{budget}: {text}");
        assert!(text.is_empty() || text.starts_with(&format!("{SAID_HEADING}\n")), "{text}");
        assert!(!text.contains("I read") && !text.contains(".rs"), "{text}");
        assert_eq!(shown.len() == NAMES.len(), budget == 2_000, "{budget}: {text}");
        assert_eq!(messages.len(), shown.len(), "{budget}: {text}");
    }
    let nobody = Talk::default().model("I begin.").input("longhand@1");
    assert_eq!(what_people_said(&Covered::new(&nobody), 2_000), (String::new(), Vec::new()));
}

#[test]
fn struck_words_are_nowhere_and_kept_ones_come_before_all_others() {
    let mut input = Talk::default().user("go").input("longhand@1");
    input.messages.extend(talk().0);
    for (revision, source) in (1..).zip(&mut input.messages) {
        source.message.revision = revision;
    }
    let of = |name: &str| {
        let has = |part: &Part| matches!(&*part.body, PartBody::Text(text) if text.contains(name));
        let found = input.messages.iter().find(|source| source.message.parts.iter().any(has));
        found.expect("a message").message.revision
    };
    let (sonora, okafor) = (of("Sonora"), of("Okafor"));
    let said = |words: Words, tokens: i64| {
        let marked = SummaryInput { words, ..input.clone() };
        (what_people_said(&Covered::new(&marked), tokens), Covered::new(&marked).write())
    };
    let ((text, messages), _) = said(Words::new(), 2_000);
    assert_eq!(text.lines().count() - 1, messages.len());
    assert!(!text.contains("“go”"), "a word to go on says nothing: {text}");
    for (line, message) in text.lines().skip(1).zip(messages) {
        let name = NAMES.iter().find(|name| line.contains(**name)).expect("a name");
        assert_eq!(of(name), message, "{line}");
    }
    let struck = Words::from([(sonora, WordsStance::Struck)]);
    let ((text, messages), own) = said(struck, 2_000);
    assert!(!text.contains("Sonora") && !messages.contains(&sonora) && messages.len() == NAMES.len() - 1, "{text}");
    assert!(!own.contains("harbour of Sonora") && own.contains("harbour of Okafor"), "{own}");
    // In little room what is kept is there, and in all room also what says nothing.
    let ((scarce, _), _) = said(Words::new(), 60);
    assert!(!scarce.contains("Okafor"), "{scarce}");
    let kept = Words::from([(okafor, WordsStance::Kept), (1, WordsStance::Kept)]);
    let ((scarce, _), _) = said(kept.clone(), 60);
    assert!(scarce.contains("Okafor"), "{scarce}");
    let ((text, messages), _) = said(kept, 2_000);
    assert!(text.contains("“go”") && messages.first() == Some(&1), "{text}");
}

#[test]
fn a_sentence_in_a_script_without_spaces_is_no_single_word() {
    for words in ["ห้ามลบไฟล์ในโฟลเดอร์ภาพถ่าย", "月末までは本番に触らないこと"]
    {
        let input =
            Talk::default().user("print the tide table").model("It is printed.").user(words).input("longhand@1");
        let (text, _) = what_people_said(&Covered::new(&input), 2_000);
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn striking_the_newest_words_makes_no_others_the_newest() {
    let input = Talk::default()
        .user("Paint the boathouse of Zennor green.")
        .works("write", json!({"path": "/w/boathouse.txt", "content": "colour: green"}), "ok")
        .user("And the jetty of Lamorna blue.")
        .input("longhand@1");
    let newest = input.messages.last().expect("a message").message.revision;
    let record = |words: Words| {
        let marked = SummaryInput { words, ..input.clone() };
        let record = what_happened(&Covered::new(&marked), 2_000);
        (record, Covered::new(&marked).write())
    };
    let (text, own) = record(Words::new());
    assert!(
        text.contains("Last words of the user: “And the jetty") && own.contains("Latest request: “And"),
        "{text}{own}"
    );
    let (text, own) = record(Words::from([(newest, WordsStance::Struck)]));
    assert!(!text.contains("Last words") && text.contains("boathouse.txt"), "{text}");
    assert!(own.contains("“Paint the boathouse") && !own.contains("Latest request") && !own.contains("jetty"), "{own}");
}

#[test]
fn all_texts_of_a_kept_message_stay() {
    let texts = |texts: &[&str]| texts.iter().map(|text| PartBody::Text((*text).to_owned())).collect();
    let talk = Talk::default()
        .add(Role::User, texts(&["The mole of Zennor is closed.", "go", "Its lamp stays lit, whatever the season."]))
        .add(Role::User, texts(&["The quay of Lamorna has nine rings.", "They are of iron, and all are numbered."]));
    let input = talk.user(&"The tables stay in feet. ".repeat(40)).input("longhand@1");
    for (at, wanted) in
        [(0, ["“The mole of", "“go”", "“Its lamp stays"].as_slice()), (1, &["“The quay of", "“They are of"])]
    {
        let words = Words::from([(input.messages[at].message.revision, WordsStance::Kept)]);
        let marked = SummaryInput { words, ..input.clone() };
        let (text, _) = what_people_said(&Covered::new(&marked), 90);
        assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{text}");
    }
}

#[test]
fn a_digest_in_order_has_edits_at_their_positions() {
    let mut input = Talk::default().user("The first one.").model("I see.").user("The third one.").input("longhand@1");
    let expected = digest(&input);
    let mut edited = input.messages.remove(0);
    let target = edited.message.revision;
    edited.message.revision = 9;
    edited.placement = Some(Placement::Edit(target));
    input.messages.push(edited);
    assert_ne!(digest(&input), expected);
    assert_eq!(digest(&input).in_order(), expected);
}

#[test]
fn two_texts_of_one_message_are_two_texts() {
    let long: String = (0..300).map(|n| format!("The {n}th harbour of {} has {n} berths. ", NAMES[n % 12])).collect();
    for short in ["Zip the logs of Kampala.", "Archive the logs of Kampala."] {
        let parts = [&*long, short].map(|words| PartBody::Text(words.to_owned()));
        let input = Talk::default().user("Begin with it.").add(Role::User, parts.to_vec()).input("longhand@1");
        let (text, _) = what_people_said(&Covered::new(&input), 300);
        assert!(text.contains(short) && text.contains("harbour of"), "{text}");
    }
}

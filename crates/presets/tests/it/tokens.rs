//! Counts of messages under every preset.

use crate::model::ids::CompactionId;
use crate::model::truncation::{Removals, Truncation};
use crate::model::view::SourceMessage;
use crate::policy::bpe::Encoding;
use crate::policy::tokens::{RangeEstimate, freed, frees_more_than};
use crate::policy::{CountPer, Counting, MediaUnits, Policy, TextUnits, plan};
use crate::presets::suna::parameters::ChatFormat;
use crate::{dsl, presets};
use uuid::Uuid;

#[test]
fn a_range_has_the_same_estimate_by_every_method() {
    let messages =
        dsl::parse("u1 \"a\"\na2 7c\nu3\na4 11c\n  call bash#c1 in={\"a\": 1}\nt5\n  result c1 out=33c done");
    for preset in presets::all() {
        let policy = preset.policy();
        let estimates = RangeEstimate::from_messages(&policy, &messages);
        for start in 0..=messages.len() {
            for end in start..=messages.len() {
                let alone = RangeEstimate::from_messages(&policy, &messages[start..end]);
                assert_eq!(
                    estimates.tokens(start..end),
                    alone.tokens(0..end - start),
                    "{} {start}..{end}",
                    preset.name
                );
            }
        }
    }
}

#[test]
fn truncations_free_the_difference_between_the_estimates() {
    let messages = dsl::parse(
        "u1 \"some words\"\na2\n  call read#c1 in=31c\nt3\n  result c1 out=77c done\na4 \"more words\"\nu5 33c\na6 \"done\"",
    );
    let truncation = |index: usize| (messages[index].message.parts[0].id, Truncation::placeholder("[gone]"));
    let revision = |index: usize| messages[index].message.revision;
    let shortened = Removals { parts: vec![truncation(2), truncation(3)], omitted: Vec::new() };
    let left_out = Removals { parts: vec![truncation(2)], omitted: vec![revision(0), revision(4)] };
    let everything = Removals { parts: Vec::new(), omitted: (0..messages.len()).map(revision).collect() };
    for preset in presets::all() {
        let policy = preset.policy();
        for removals in [&Removals::default(), &shortened, &left_out, &everything] {
            let after = plan::with_removals(&messages, removals, CompactionId(Uuid::nil()));
            let tokens = |list: &[SourceMessage]| RangeEstimate::from_messages(&policy, list).tokens(0..list.len());
            let expected = tokens(&messages) - tokens(&after);
            assert_eq!(freed(&policy, &messages, &after), expected, "{}", preset.name);
            for limit in [expected - 1_000, expected - 1, expected, expected + 1_000] {
                let frees_more = frees_more_than(&policy, &messages, &after, limit);
                assert_eq!(frees_more, expected > limit, "{}: {expected} and {limit}", preset.name);
            }
        }
    }
}

fn exact(text: TextUnits, per: CountPer) -> Policy {
    let counting = Counting { text, per, units_per_token: 1, media: MediaUnits::same(0), ..Counting::default() };
    Policy { counting, ..presets::policy("pi@1.5") }
}

#[test]
fn a_chat_counts_its_texts_and_their_envelope() {
    let format = ChatFormat { message_units: 3 };
    let policy = exact(TextUnits::Bpe { encoding: Encoding::Cl100kBase }, format.into());
    let estimate = |text: &str| {
        let messages = dsl::parse(text);
        RangeEstimate::from_messages(&policy, &messages).tokens(0..messages.len())
    };
    // The counts of litellm 1.72.2.
    assert_eq!(estimate("u1 \"hello world\""), 9);
    assert_eq!(estimate("u1 \"hello world\"\nu2 \"hello world\""), 15);
    assert_eq!(estimate(""), 0);
    assert_eq!(estimate("u1"), 0, "what says nothing is in no view");
    // Its texts and the input of its call, then the output and the id of the call: `c1` is two tokens.
    let call = "a1 \"hello\"\n  text \"world\"\n  reasoning \"hm hm\"\n  call bash#c1 in={\"path\":\"/a\"}";
    assert_eq!(estimate(call), 3 + 3 + 1 + 1 + 1 + 5);
    assert_eq!(estimate("t1\n  result c1 out=\"hello\" done"), 3 + 3 + 1 + 1 + 2);
}

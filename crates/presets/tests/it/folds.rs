//! The fold under every preset: it may be extended, and its view shortened.

use crate::fold::{Fold, FoldInput, Passages, ResumePoint, ShortenedView, hash};
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::layout::Layout;
use crate::model::message::{GivenView, Role};
use crate::model::part::PartBody;
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, UsageDoubt};
use crate::model::view::{SourceMessage, View, ViewKind, ViewMessage, ViewPart};
use crate::policy::maintenance::MaintenanceCounts;
use crate::policy::plan::PlanningInput;
use crate::policy::{Policy, pairing, tokens};
use crate::{dsl, presets};
use std::sync::Arc;
use uuid::Uuid;

/// Two turns; the second reply reports 1 000 tokens in and 10 out.
const TALK: &str = "u1 400c\na1 400c\nu2 400c\na2 usage=1000/10 400c\nu3 400c\nu4 800c";

fn window(context: i64) -> ModelWindow {
    ModelWindow { context, overhead: 50, ..ModelWindow::default() }
}

fn fold(policy: &Policy, messages: &[SourceMessage], changed_revision: Revision) -> Fold {
    Fold::new(FoldInput { policy, messages, changed_revision, window: &window(60_000) }, None)
}

fn shortened(fold: &Fold, policy: &Policy, sources: &[SourceMessage], window: &ModelWindow) -> ShortenedView {
    let layout = Layout::everything();
    fold.shortened(PlanningInput {
        policy,
        window,
        layout: &layout,
        sources,
        covered: &[],
        base: 1_000,
        now: Timestamp(0),
    })
}

fn given(revision: Revision) -> GivenView {
    GivenView { revision, hash: [7; 32], window: window(60_000), shortened: false }
}

/// Everything else goes, and then the summary is truncated by no more than needed.
#[test]
fn a_long_summary_is_truncated_for_one_call_under_every_preset() {
    let sentence = "The parser of invoices fails on umlauts; src/parse.rs has the fix. ";
    for preset in presets::all() {
        let policy = preset.policy();
        let mut messages =
            dsl::parse("u9 marker at=1 \"?\"\na9 summary at=2 \"S\"\nu3 400c\na3 400c\nu4 400c\na4 400c\n");
        messages[1].message.parts[0].body = PartBody::Text(sentence.repeat(5_000)).into();
        let fold = fold(&policy, &messages, 1);
        for limit in [2_000, 8_000] {
            let shorter = shortened(&fold, &policy, &messages, &window(limit));
            assert!(shorter.fits, "{}: {} of {limit}", preset.name, shorter.context_tokens);
            assert!(shorter.context_tokens > limit / 3, "{}: {} of {limit}", preset.name, shorter.context_tokens);
            assert_eq!(pairing::violations(&shorter.view.messages), Vec::<String>::new(), "{}", preset.name);
        }
    }
}

/// The results of a fold.
fn facts(fold: &Fold) -> (&[[u8; 32]], &View, (i64, MaintenanceCounts)) {
    (&fold.hashes, &fold.view, (fold.context_tokens(&window(60_000)), fold.maintenance_counts(&window(60_000))))
}

#[test]
fn a_fold_that_is_extended_is_the_one_from_scratch() {
    let talk = format!(
        "{TALK}\na4 10c\n  tool bash#c1 in=4t out=90t done\n  call read#c2\nu6 10c\nt1\n  result c2 out=9t done\n\
         a7 usage=2000/10 10c\n  call read#c3\n  call read#c4\nt2\n  result c4 out=9t done\nu8 10c\nt3\n  \
         result c4 out=9t done\n  result c3 out=9t done"
    );
    let (talk, window) = (dsl::parse(&talk), window(60_000));
    for policy in presets::all().iter().map(|preset| preset.policy()) {
        for before in 0..=talk.len() {
            let known = fold(&policy, &talk[..before], 1);
            for after in before..=talk.len() {
                let rows =
                    FoldInput { policy: &policy, messages: &talk[..after], changed_revision: 1, window: &window };
                let scratch = Fold::new(rows, None);
                // Any part of the known messages may have changed.
                for kept in 0..=before {
                    let mut extended = known.clone();
                    extended.extend(rows, kept);
                    assert_eq!(facts(&extended), facts(&scratch), "{}: {kept}, {before}, {after}", policy.preset);
                }
            }
        }
    }
}

#[test]
fn passages_change_only_what_follows_them() {
    let (talk, window) = (dsl::parse(TALK), window(60_000));
    let part = ViewPart::new(None, PartBody::Text("Earlier: a key.".to_owned()), None);
    let passage = ViewMessage {
        source: None,
        revision: 0,
        role: Role::User,
        kind: ViewKind::Retrieved,
        parts: vec![part],
        original_fields: None,
        provenance: None,
    };
    for policy in presets::all().iter().map(|preset| preset.policy()) {
        for kept in 0..talk.len() {
            let rows = FoldInput { policy: &policy, messages: &talk, changed_revision: 1, window: &window };
            let mut extended = fold(&policy, &talk[..kept], 1);
            extended.extend(rows, kept);
            let passages = |at: usize| Passages { request: talk[at].message.id, message: passage.clone() };
            let plain = facts(&extended);
            let joined = extended.clone().with_passages(rows, passages(4));
            let at = joined.view.messages.iter().position(|message| message.kind == ViewKind::Retrieved);
            let at = at.expect("it is there");
            assert_eq!(joined.view.messages[at + 1].source, Some(talk[4].message.id));
            assert_eq!(joined.view.messages[..at], extended.view.messages[..at]);
            assert_eq!(joined.view.messages[at + 1..], extended.view.messages[at..]);
            assert_eq!(joined.hashes, hash::hashes(&joined.view.messages));
            assert_eq!(joined.view.estimated_tokens, tokens::estimate_messages(&policy, &joined.view.messages));
            assert!(joined.context_tokens(&window) >= plain.2.0, "{}", policy.preset);
            assert_eq!(facts(&joined), facts(&Fold::new(rows, Some(passages(4)))), "{}: {kept}", policy.preset);
            let elsewhere = Passages { request: MessageId(Uuid::nil()), message: passage.clone() };
            assert_eq!(facts(&extended.clone().with_passages(rows, elsewhere)), plain);
        }
    }
}

/// Everything before a resume point is replaced by other words that came later: nobody who reads it gets the same result.
fn forged(
    policy: &Policy,
    known: &Fold,
    messages: &[SourceMessage],
    before: ResumePoint,
) -> (Fold, Vec<SourceMessage>) {
    let words = || Arc::new(PartBody::Text("forged ".repeat(1_000)));
    let (mut known, mut messages) = (known.clone(), messages.to_vec());
    for source in &mut messages[..before.sources] {
        source.counts = None;
        for part in &mut source.message.parts {
            (part.body, part.revision) = (words(), Revision::MAX);
        }
    }
    for part in known.view.messages[..before.shown].iter_mut().flat_map(|message| &mut message.parts) {
        part.body = words();
    }
    assert!(fold(policy, &messages, 1).view.estimated_tokens > known.view.estimated_tokens, "the words are others");
    (known, messages)
}

/// The cost of an append does not grow with the view: everything before it is not read.
#[test]
fn an_extension_reads_nothing_of_the_view_before_it() {
    let talk: String = (2..40).map(|turn| format!("u{turn} 400c\na{turn} 40c\n")).collect();
    let talk = format!("u1 400c\na1 usage=1000/10 400c\n{talk}");
    for policy in presets::all().iter().map(|preset| preset.policy()) {
        for (newest, behind) in [
            ("u40 80c", 0),
            ("a40 80c\n  call read#c1", 0),
            // The usage of this reply leaves three messages to be estimated.
            ("a40 usage=9000/10 80c", 3),
        ] {
            let mut messages = dsl::parse(&format!("{talk}{newest}"));
            let unchanged = messages.len() - 1;
            messages[1].message.finish.view = Some(given(1));
            if behind > 0 {
                messages[unchanged].message.finish.view =
                    Some(given(messages[unchanged - behind - 1].message.revision));
            }
            let known = fold(&policy, &messages[..unchanged], 1);
            let first = unchanged - behind;
            let before =
                ResumePoint { sources: first, shown: fold(&policy, &messages[..first], 1).view.messages.len() };
            let (mut blind, forged) = forged(&policy, &known, &messages, before);
            let mut extended = known;
            extended.extend(
                FoldInput { policy: &policy, messages: &messages, changed_revision: 1, window: &window(60_000) },
                unchanged,
            );
            blind.extend(
                FoldInput { policy: &policy, messages: &forged, changed_revision: 1, window: &window(60_000) },
                unchanged,
            );
            let (hashes, view, tokens) = facts(&extended);
            let (blind_hashes, blind_view, blind_tokens) = facts(&blind);
            let name = &policy.preset;
            assert_eq!(blind_tokens, tokens, "{name}: {newest}");
            assert_eq!(blind_view.estimated_tokens, view.estimated_tokens, "{name}: {newest}");
            assert_eq!(blind_view.messages[before.shown..], view.messages[before.shown..], "{name}: {newest}");
            assert_eq!(blind_hashes, hashes, "{name}: {newest}");
        }
    }
}

/// Under a policy that counts prompts, a long reply is in the next prompt and not in its own.
#[test]
fn a_prompt_that_grows_by_the_reply_before_it_is_no_sum() {
    let talk = dsl::parse("u1 400c\na1 40000c usage=120/10000\nu2 \"and?\"\na2 \"y\" usage=10150/2");
    for policy in presets::all().iter().map(|preset| preset.policy()) {
        assert_eq!(fold(&policy, &talk, 0).usage_doubt(), None, "{}", policy.preset);
    }
    let summed = dsl::parse("u1 400c\na1 40000c usage=120/10000\nu2 \"and?\"\na2 \"y\" usage=55000/2");
    assert_eq!(fold(&presets::policy("gemini-cli@0.26"), &summed, 0).usage_doubt(), Some(UsageDoubt::Sum));
}

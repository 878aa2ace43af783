use super::usage::RunningUsage;
use super::{Fold, FoldInput, ResumePoint, ShortenedView};
use crate::model::Revision;
use crate::model::layout::{Layout, Placement};
use crate::model::message::{GivenView, MessageKind};
use crate::model::part::PartBody;
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, UsageDoubt};
use crate::model::view::{self, SourceMessage, View};
use crate::policy::maintenance::MaintenanceCounts;
use crate::policy::plan::PlanningInput;
use crate::policy::{Policy, dsl, pairing, samples};
use proptest::prelude::*;

/// Two turns; the second reply reports 1 000 tokens in and 10 out.
const TALK: &str = "u1 400c\na1 400c\nu2 400c\na2 usage=1000/10 400c\nu3 400c\nu4 800c";

fn window(context: i64) -> ModelWindow {
    ModelWindow { context, overhead: 50, ..ModelWindow::default() }
}

fn fold(policy: &Policy, messages: &[SourceMessage], changed_revision: Revision) -> Fold {
    Fold::new(FoldInput { policy, messages, changed_revision, window: &window(60_000) }, None)
}

/// The results of a fold.
fn facts(fold: &Fold) -> (&[[u8; 32]], &View, (i64, MaintenanceCounts)) {
    (&fold.hashes, &fold.view, (fold.context_tokens(&window(60_000)), fold.maintenance_counts(&window(60_000))))
}

/// The context tokens of `TALK` if the model was given this view for its reply.
fn tokens(view: Option<(Revision, bool)>, changed_revision: Revision, alter: impl FnOnce(&mut [SourceMessage])) -> i64 {
    let mut messages = dsl::parse(TALK);
    messages[3].message.finish.view =
        view.map(|(revision, shortened)| GivenView { revision, hash: [7; 32], window: window(60_000), shortened });
    alter(&mut messages);
    fold(&samples::policy("pi@1.5"), &messages, changed_revision).context_tokens(&window(60_000))
}

#[test]
fn usage_counts_from_the_view_that_it_measured() {
    // pi counts four characters as a token.
    let estimate = 100 + 100 + 100 + 100 + 100 + 200 + 50;
    let cases = [
        (Some((3, false)), 1, 1_010 + 100 + 200, "what came behind the view, without the reply"),
        (Some((2, false)), 1, 1_010 + 100 + 100 + 200, "a request that the view did not have"),
        (Some((2, false)), 2, 1_010 + 100 + 100 + 200, "a change that the view had"),
        (Some((2, false)), 3, estimate, "a change behind the view"),
        (Some((3, true)), 1, estimate, "a view that was shortened"),
        (None, 1, 1_010 + 100 + 200, "no view is named, and nothing has changed yet"),
        (None, 2, estimate, "no view is named, and something has changed"),
    ];
    for (view, changed, expected, why) in cases {
        assert_eq!(tokens(view, changed, |_| ()), expected, "{why}");
    }
    let late = |messages: &mut [SourceMessage]| {
        messages[1].message.sealed_revision = Some(9);
        messages[1].message.parts[0].revision = 9;
    };
    let late = tokens(Some((3, false)), 1, late);
    assert_eq!(late, 1_010 + 100 + 100 + 200, "words that were closed behind the view came behind it");
    let seen = tokens(Some((3, false)), 1, |messages| messages[1].message.sealed_revision = Some(9));
    assert_eq!(seen, 1_010 + 100 + 200, "a message whose words the view had, and that was sealed behind it");
    let open = tokens(Some((3, false)), 1, |messages| messages[5].message.sealed_revision = None);
    assert_eq!(open, 1_010 + 100 + 200, "words of a message that is still open");
    let none = tokens(Some((3, false)), 1, |messages| messages[3].message.finish.usage = None);
    assert_eq!(none, estimate);
}

#[test]
fn results_that_the_model_has_not_read_come_on_top_of_its_usage() {
    let policy = samples::policy("pi@1.5");
    let reply = |parts: &str| dsl::parse(&format!("u1 400c\na1 usage=1000/10\n{parts}"));
    let context_tokens = |parts| fold(&policy, &reply(parts), 1).context_tokens(&window(60_000));
    let unread = context_tokens("  tool bash#c1 in=10t out=500t done");
    assert!((1_510..1_530).contains(&unread), "{unread}");
    assert_eq!(context_tokens("  tool bash#c1 in=10t out=500t done\n  text 10t"), 1_010, "it went on behind them");
}

/// Otherwise text of the reply, which the view has and the usage of its request has not, could be taken for overhead.
#[test]
fn a_sample_compares_the_view_with_the_usage_of_all_of_it() {
    let messages = dsl::parse("u1 400c\na1 usage=1000/500 2000c\nu2 400c");
    for (policy, reported, all) in
        [(samples::policy("gemini-cli@0.26"), 1_000, 1_500), (samples::policy("pi@1.5"), 1_500, 1_500)]
    {
        let fold = fold(&policy, &messages, 1);
        let after = fold.context_tokens(&window(60_000)) - reported;
        assert!((90..=110).contains(&after), "{after}");
        let sample = fold.usage_sample().expect("usage").usage_tokens;
        assert!((all + 90..=all + 110).contains(&sample), "{}: {sample}", policy.preset);
    }
}

#[test]
fn the_newest_valid_usage_counts() {
    let policy = samples::policy("pi@1.5");
    let talk = format!("{TALK}\na4 usage=5000/0 400c\nu5 400c");
    let mut messages = dsl::parse(&talk);
    assert_eq!(fold(&policy, &messages, 1).context_tokens(&window(60_000)), 5_000 + 100);
    // The newer reply was given a view from before a change, the older one a newer view.
    messages[3].message.finish.view = Some(given(3));
    messages[6].message.finish.view = Some(given(2));
    assert_eq!(fold(&policy, &messages, 3).context_tokens(&window(60_000)), 1_010 + 100 + 200 + 100 + 100);
}

#[test]
fn a_figure_that_repeats_is_stale_only_where_more_was_measured() {
    let policy = samples::policy("gemini-cli@0.26");
    for (request, believed) in [("1c", true), ("10c", true), ("400c", false)] {
        let talk = format!("u1 4000c\na1 usage=2000/1 \"\"\nu2 {request}\na2 usage=2000/1 400c");
        let fold = fold(&policy, &dsl::parse(&talk), 1);
        assert_eq!(fold.context_tokens(&window(60_000)) == 2_000, believed, "{request}");
    }
    // Little by little it becomes stale too.
    let talk: String = (2..20).map(|turn| format!("u{turn} 20c\na{turn} usage=2000/1 20c\n")).collect();
    let messages = dsl::parse(&format!("u1 4000c\na1 usage=2000/1 \"\"\n{talk}"));
    assert!(fold(&policy, &messages, 1).context_tokens(&window(60_000)) > 2_100);
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

#[test]
fn a_shortened_view_fits_for_any_usage_above_the_estimate() {
    let talk: String = (1..60).map(|turn| format!("u{turn} 400c\na{turn} 4000c\n")).collect();
    for (reported, limit) in [(100_000, 64_900), (250_000, 30_000), (250_000, 2_000), (70_000, 9_000)] {
        let talk = format!("{talk}u60 40c\na60 usage={reported}/0 40c\nu61 40c");
        for policy in [samples::policy("pi@1.5"), samples::policy("opencode@seed")] {
            let messages = dsl::parse(&talk);
            let fold = fold(&policy, &messages, 1);
            let window = window(limit);
            assert!(!fold.fits(&window));
            let estimated = fold.view.estimated_tokens;
            let shorter = shortened(&fold, &policy, &messages, &window);
            assert!(shorter.fits, "{} of {limit} of {reported}", shorter.context_tokens);
            assert!(shorter.context_tokens <= limit);
            assert!(shorter.view.estimated_tokens < estimated);
            // All that fits remains, except for less than a turn.
            let real = reported - window.overhead;
            let left = shorter.view.estimated_tokens * real / estimated;
            let turn = 1_200 * real / estimated;
            assert!(left + window.overhead + turn > limit.min(reported), "{left} of {limit} of {reported}");
        }
    }
}

#[test]
fn a_view_with_usage_below_its_estimate_is_not_shortened_too_much() {
    let talk: String = (1..60).map(|turn| format!("u{turn} 400c\na{turn} 4000c\n")).collect();
    let talk = format!("{talk}u60 40c\na60 usage=40000/0 40c");
    let policy = samples::policy("pi@1.5");
    let messages = dsl::parse(&talk);
    let fold = fold(&policy, &messages, 1);
    let before = fold.view.estimated_tokens;
    let shorter = shortened(&fold, &policy, &messages, &window(20_000));
    assert!(shorter.fits);
    assert!(shorter.view.estimated_tokens > before / 2 - 1_200, "{} of {before}", shorter.view.estimated_tokens);
}

/// A request with many calls, and a system message before it.
fn one_long_turn() -> String {
    let step = |step: usize| format!("a{step} \"step\"\n  tool bash#t{step} in=10t out=900t done\n");
    let steps: String = (1..=30).map(step).collect();
    format!("s1 \"be brief\"\nu1 3000t\na0 2000t\n{steps}")
}

#[test]
fn one_long_turn_fits_whatever_it_takes() {
    for policy in [samples::policy("pi@1.5"), samples::policy("opencode@seed")] {
        let messages = dsl::parse(&one_long_turn());
        let fold = fold(&policy, &messages, 1);
        let whole = &fold.view;
        let revisions = |view: &View| view.messages.iter().map(|message| message.revision).collect::<Vec<_>>();
        for limit in [20_000, 5_000, 3_500, 1_000, 250] {
            let shorter = shortened(&fold, &policy, &messages, &window(limit + 50));
            let View { messages, estimated_tokens } = &shorter.view;
            assert!(shorter.fits && *estimated_tokens <= limit, "{estimated_tokens} of {limit}");
            assert_eq!(pairing::violations(messages), Vec::<String>::new());
            let mut all = [revisions(&shorter.view), shorter.omitted.clone()].concat();
            all.sort_unstable();
            all.dedup();
            let mut before = revisions(whole);
            before.dedup();
            assert_eq!(all, before, "what is not shown is named");
            assert!(messages.starts_with(&whole.messages[..1]), "a system message stays whole");
            let lengths = |view: &View| {
                let parts = view.messages.iter().flat_map(|message| &message.parts);
                let shown = parts.filter_map(|part| match &*part.body {
                    PartBody::ToolResult(result) => Some((part.source?, (result.output.len(), part.shortened))),
                    PartBody::Text(text) => Some((part.source?, (text.len(), part.shortened))),
                    _ => None,
                });
                shown.collect::<std::collections::HashMap<_, _>>()
            };
            let before_lengths = lengths(whole);
            for (part, (length, truncated)) in lengths(&shorter.view) {
                let omitted = match truncated {
                    Some(view::PartShortening::Truncated { omitted_length }) => omitted_length as usize,
                    _ => 0,
                };
                let added = length + omitted - before_lengths[&part].0;
                // The lengths of the two markers without their number.
                let is_marked = [33, 40].contains(&(added - omitted.to_string().len().min(added)));
                let is_whole = policy.truncate.is_none();
                assert!(
                    !is_whole || if omitted > 0 { is_marked } else { added == 0 },
                    "{added} added, {omitted} omitted"
                );
            }
            assert_eq!(messages[1].revision, 2, "the request stays");
            assert_eq!(messages[1] == whole.messages[1], limit >= 3_500, "and is whole as long as that can be");
            assert_eq!(revisions(&shorter.view).last(), before.last(), "the newest calls stay");
        }
    }
}

/// The doubt about the newest usage of a conversation in a window of 60 000 tokens, and whether it is an overflow.
fn verdict(talk: &str) -> (Option<UsageDoubt>, bool) {
    let fold = fold(&samples::policy("pi@1.5"), &dsl::parse(talk), 0);
    (fold.usage_doubt(), fold.reports_overflow())
}

/// Four times the 1 001 tokens of what came since, and a twentieth of the window.
#[test]
fn a_jump_is_believed_as_far_as_it_is_explained() {
    let jump = |tokens: i64, media: &str| {
        verdict(&format!("u1 40000c\na1 \"y\" usage=9999/1\nu2 4000c\n{media}a2 \"y\" usage={}/1", tokens - 1))
    };
    let explained = 10_000 + 4 * 1_001 + 3_000;
    assert_eq!(jump(explained, ""), (None, false));
    assert_eq!(jump(explained + 1, ""), (Some(UsageDoubt::Sum), false));
    // No estimate knows how many tokens a document has.
    assert_eq!(jump(50_000, "  media application/pdf\n"), (None, false));
    assert_eq!(jump(60_000, "  media application/pdf\n"), (None, false));
    assert_eq!(jump(60_001, "  media application/pdf\n").0, Some(UsageDoubt::AboveWindow));
}

#[test]
fn more_than_the_window_holds_is_an_overflow_if_half_of_it_is_full() {
    // By the estimate of what was measured, and by the usage before it with the estimate of what came since.
    let estimated = |characters: i64| verdict(&format!("u1 {characters}c\na1 \"y\" usage=70000/1"));
    let known = |tokens: i64| {
        verdict(&format!("u1 400c\na1 \"y\" usage={}/1\nu2 \"and?\"\na2 \"y\" usage=70000/1", tokens - 1))
    };
    let above = Some(UsageDoubt::AboveWindow);
    assert_eq!(estimated(4 * 29_999), (above, true));
    assert_eq!(estimated(4 * 29_998), (above, false));
    assert_eq!(known(29_998), (above, true));
    assert_eq!(known(29_997), (above, false));
}

fn given(revision: Revision) -> GivenView {
    GivenView { revision, hash: [7; 32], window: window(60_000), shortened: false }
}

/// Messages of two writers with few call ids, so that ids are reused and results come late, twice or without a call.
fn tangled() -> impl Strategy<Value = Vec<SourceMessage>> {
    let part = (0..4_u8, 0..3_u8).prop_map(|(kind, id)| match kind {
        0 => format!("  call read#c{id}"),
        1 | 2 => format!("  result c{id} out=9t done"),
        _ => "  text 10c".to_owned(),
    });
    let message = (0..4_u8, prop::collection::vec(part, 0..4), any::<bool>());
    prop::collection::vec(message, 1..14).prop_map(|messages| {
        let mut text = String::new();
        for (number, (role, parts, _)) in messages.iter().enumerate() {
            let number = number + 1;
            match role {
                0 => text += &format!("u{number} 10c\n"),
                1 => text += &format!("t{number}\n{}\n", parts.join("\n")),
                _ => text += &format!("a{number} usage={}/1 10c\n{}\n", 100 * number, parts.join("\n")),
            }
        }
        let mut sources = dsl::parse(&text);
        for (source, (.., other)) in sources.iter_mut().zip(&messages) {
            source.message.actor = if *other { "one" } else { "two" }.to_owned();
        }
        sources
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_fold_may_be_extended_message_by_message(messages in tangled(), summary in any::<bool>(), open in 1..4_usize) {
        let (mut messages, window) = (messages, window(60_000));
        if summary {
            messages[0].placement = Some(Placement::Summary);
            messages[0].message.kind = MessageKind::Summary;
        }
        for policy in [samples::policy("opencode@seed"), samples::policy("gemini-cli@0.26")] {
            let mut known = fold(&policy, &[], 1);
            for count in 1..=messages.len() {
                let rows = FoldInput { policy: &policy, messages: &messages[..count], changed_revision: 1, window: &window };
                // The newest messages may be open, and then they are read again.
                known.extend(rows, (count - 1).saturating_sub(open - 1));
                let scratch = Fold::new(rows, None);
                prop_assert_eq!(facts(&known), facts(&scratch));
            }
        }
    }

    /// Of the messages, some stay open while others come, and replies answer views of some time before.
    #[test]
    fn usage_runs_on_as_if_it_were_counted_anew(
        messages in tangled(),
        late in prop::collection::vec((0..5_usize, 0..6_usize), 14),
    ) {
        let at = |time: usize| 10 * Revision::try_from(time).expect("few") + 1;
        let mut messages = messages;
        for (index, source) in messages.iter_mut().enumerate() {
            source.message.revision = at(index);
            source.message.parts.iter_mut().for_each(|part| part.revision = at(index));
            let (open, lag) = late[index];
            source.message.sealed_revision = Some(at(index + open));
            if let Some(last) = source.message.parts.last_mut() {
                last.revision = at(index + open);
            }
            source.message.finish.view = (lag > 0).then(|| given(at(index.saturating_sub(lag))));
        }
        // The messages as they were when the newest of them came.
        let then = |count: usize| -> Vec<SourceMessage> {
            let mut messages = messages[..count].to_vec();
            for (_, source) in messages.iter_mut().enumerate().filter(|(index, _)| index + late[*index].0 >= count) {
                source.message.sealed_revision = None;
                source.message.parts.pop();
            }
            messages
        };
        for policy in [samples::policy("opencode@seed"), samples::policy("gemini-cli@0.26")] {
            let mut known = fold(&policy, &[], 1);
            for count in 1..=messages.len() {
                let rows = then(count);
                let open = |index: &usize| index + late[*index].0 >= count - 1;
                let unchanged = (0..count - 1).find(open).unwrap_or(count - 1);
                known.extend(FoldInput { policy: &policy, messages: &rows, changed_revision: 1, window: &window(60_000) }, unchanged);
                let scratch = fold(&policy, &rows, 1);
                prop_assert_eq!(facts(&known), facts(&scratch));
                let running = known.incremental.as_ref().and_then(|incremental| incremental.usage.as_ref());
                let whole = running.map(|usage| {
                    let reply = usage.reply.clone();
                    RunningUsage::new(&policy, reply, ResumePoint::default(), &rows, &known.view.messages).current(&policy)
                });
                prop_assert_eq!(known.usage, whole);
            }
        }
    }
}

#[test]
fn the_hash_runs_along_the_view() {
    let policy = samples::policy("pi@1.5");
    let messages = dsl::parse(TALK);
    let whole = fold(&policy, &messages, 1);
    let before = fold(&policy, &messages[..4], 1);
    assert_eq!(whole.hashes[3], before.hash());
    assert_eq!(whole.hash(), whole.hashes[5]);
    assert_eq!(fold(&policy, &[], 1).hash(), [0; 32]);
}

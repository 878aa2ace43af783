//! Overflow recovery: a compaction after a provider refused a view as too large, and a replay of the last request
//! without its media.

use super::Policy;
use super::plan::{self, PlanningInput};
use super::provider_errors::{self, Recovery};
use super::render;
use super::turns::is_request;
use crate::model::compaction::{Compaction, CompactionKind, CompactionRequest, CompactionState, Level, Trigger};
use crate::model::ids::{CompactionId, MessageId};
use crate::model::layout::Placement;
use crate::model::message::{Finish, FinishReason, MessageKind};
use crate::model::part::{Part, PartBody};
use crate::model::truncation::Removals;
use crate::model::usage::{ModelWindow, Usage};
use crate::model::view::SourceMessage;
use crate::model::{FIRST_REVISION, Revision};
use uuid::Uuid;

/// A request for the replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedRequest {
    /// The message of the request in the current view.
    pub message: MessageId,
    /// The position of the request: that of its original.
    pub target: Revision,
    /// The parts of the request, with notes in place of its media.
    pub bodies: Vec<PartBody>,
}

/// The outcome of a request whose view was too large for its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The request has no answer, and the session cannot continue without this recovery.
    Unanswered(Recovery),
    /// The provider dropped part of the input and answered the rest.
    Answered,
}

/// The overflow that a reply indicates; none without one, and under a policy without automatic compaction.
pub fn overflow<View>(policy: &Policy, window: &ModelWindow, finish: &Finish<View>) -> Option<Overflow> {
    if !policy.trigger.auto {
        return None;
    }
    if finish.reason == Some(FinishReason::Error) {
        return provider_errors::kind_of_text(&finish.detail)?.recovery().map(Overflow::Unanswered);
    }
    let is_silent = policy.trigger.silent_overflow
        && finish
            .reason
            .zip(finish.usage.as_ref())
            .is_some_and(|(reason, usage)| provider_errors::is_silent(reason, usage, window.context));
    if is_silent || is_truncated_reply(policy, window, finish) {
        let is_answered = finish.reason == Some(FinishReason::Stop);
        return Some(if is_answered { Overflow::Answered } else { Overflow::Unanswered(Recovery::Compaction) });
    }
    // More usage than the window holds is no size: the provider dropped part of the input.
    let is_complete = !matches!(finish.reason, Some(FinishReason::Aborted | FinishReason::ContentFilter));
    (is_complete && exceeds(policy, window, finish)).then_some(Overflow::Answered)
}

/// True if a reply reports more usage than the window holds.
fn exceeds<View>(policy: &Policy, window: &ModelWindow, finish: &Finish<View>) -> bool {
    let tokens = |usage| policy.counting.usage.tokens(usage);
    let has_input = |usage: &&Usage| usage.prompt_tokens() > 0;
    window.context > 0 && finish.usage.as_ref().filter(has_input).is_some_and(|usage| tokens(usage) > window.context)
}

/// True for a reply that ended because of its length and is shorter than the model may write, under a policy that
/// recovers from this: the request left no room for more.
fn is_truncated_reply<View>(policy: &Policy, window: &ModelWindow, finish: &Finish<View>) -> bool {
    let most = window.output.filter(|_| policy.trigger.recovers_length && finish.reason == Some(FinishReason::Length));
    let written = finish.usage.as_ref().map(|usage| usage.output.saturating_add(usage.reasoning));
    most.zip(written).is_some_and(|(most, written)| written < most)
}

/// The truncations and omissions in a view that was too large, before any step: media that the provider refused, and a
/// reply that was cut off, so that its request has no answer any more. If only usage indicates the overflow, media
/// stay.
pub fn given_up(planning: PlanningInput<'_>) -> Removals {
    let PlanningInput { policy, window, layout, sources, .. } = planning;
    let Some(source) = last(sources).filter(|_| overflow_of(planning).is_some()) else {
        // A client reported the overflow for the provider.
        return plan::without_media(planning);
    };
    let finish = &source.message.finish;
    if finish.reason == Some(FinishReason::Error) {
        return plan::without_media(planning);
    }
    let goes = is_truncated_reply(policy, window, finish) && !layout.pinned.contains(&plan::slot(source));
    Removals { parts: Vec::new(), omitted: if goes { vec![source.message.revision] } else { Vec::new() } }
}

/// The reaction to the end of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// None: the last message is no reply with an overflow, or the reply belongs to another view.
    Nothing,
    /// A compaction of the view.
    Recover(Overflow),
    /// An error report: the view was already compacted for the same request, and nothing more can be done.
    GiveUp,
}

/// The reaction to the end of a view, given the newest compactions of its session.
///
/// A reply to a view from before a compaction says nothing about the current view. Neither does usage of a view from
/// before `changed_revision`, the newest change of the view. If the request was answered in spite of the overflow, the
/// thresholds decide after any later compaction, and after an overflow compaction for the same request.
pub fn reaction(
    planning: PlanningInput<'_>,
    context_tokens: i64,
    compactions: &[Compaction],
    changed_revision: Revision,
) -> Reaction {
    let PlanningInput { policy, window, layout, sources, .. } = planning;
    let last = last(sources).map(|source| &source.message);
    let found = last.and_then(|reply| Some((reply, overflow(policy, window, &reply.finish)?)));
    let Some((reply, overflow)) = found else { return Reaction::Nothing };
    let is_reported = reply.finish.reason == Some(FinishReason::Error);
    // A reply that does not name its view may have been given any of them.
    let seen = reply.finish.given_revision().unwrap_or(FIRST_REVISION);
    if !is_reported && seen < changed_revision {
        return Reaction::Nothing;
    }
    let given = reply.finish.given_revision().unwrap_or(reply.revision);
    let settles = |compaction: &Compaction| {
        (compaction.request.trigger == Trigger::Overflow || overflow == Overflow::Answered)
            && compaction.state != CompactionState::Superseded
            && (compaction.state.is_active() || compaction.end_revision.is_some_and(|end| end > given))
    };
    // Figures that stay above the window, whatever the view is, say nothing of its size.
    let is_repeated = overflow == Overflow::Answered
        && compactions.iter().any(|compaction| {
            compaction.request.trigger == Trigger::Overflow
                && !compaction.state.is_active()
                && compaction.end_revision.is_some_and(|end| !has_credible_usage(planning, end))
        });
    let is_settled = compactions.iter().any(settles) || is_repeated;
    if layout.covered.as_ref().is_some_and(|covered| covered.mark > given) || is_settled {
        return Reaction::Nothing;
    }
    match overflow {
        _ if !has_recovered(sources, compactions) => Reaction::Recover(overflow),
        Overflow::Answered => Reaction::Nothing,
        Overflow::Unanswered(recovery) => match recovery_request(planning, context_tokens, recovery, compactions) {
            Some(_) => Reaction::Recover(overflow),
            None => Reaction::GiveUp,
        },
    }
}

/// True if a reply after a revision reports usage that its window holds.
fn has_credible_usage(planning: PlanningInput<'_>, after: Revision) -> bool {
    let PlanningInput { policy, window, sources, .. } = planning;
    let messages = sources.iter().map(|source| &source.message);
    let mut replies = messages.filter(|message| message.sealed_revision.is_some_and(|sealed| sealed > after));
    replies.any(|reply| {
        let has_input = reply.finish.usage.as_ref().is_some_and(|usage| usage.prompt_tokens() > 0);
        has_input && !exceeds(policy, window, &reply.finish)
    })
}

/// The compaction for a view that a provider refused, given the newest compactions of its session; none if nothing can
/// be removed, or nothing more for the same request. Media that are refused start no other step.
pub fn recovery_request(
    planning: PlanningInput<'_>,
    context_tokens: i64,
    recovery: Recovery,
    compactions: &[Compaction],
) -> Option<CompactionRequest> {
    let is_new = |request: &CompactionRequest| !is_answered(planning, compactions, request.level);
    let media = || Some(of_media()).filter(|_| !given_up(planning).is_empty()).filter(is_new);
    let compaction = || {
        let (level, kind) = plan::recovery_level(planning, context_tokens)?;
        Some(CompactionRequest { kind, level: Some(level), ..of_media() }).filter(is_new)
    };
    match recovery {
        Recovery::Compaction => compaction().or_else(media),
        Recovery::MediaFirst => media().or_else(compaction),
        Recovery::Media => media(),
    }
}

/// The compaction that only removes media from a view.
pub fn of_media() -> CompactionRequest {
    CompactionRequest::new(CompactionKind::Prune, Trigger::Overflow, None)
}

/// True if a compaction only removed media from a view that a provider refused.
pub fn is_of_media(request: &CompactionRequest) -> bool {
    request.trigger == Trigger::Overflow && request.level.is_none()
}

/// True if a recovery of a level, or of media alone, was made for the view's last request and would achieve nothing
/// more: a level is applied once, media are removed as long as there are any.
pub fn is_answered(planning: PlanningInput<'_>, compactions: &[Compaction], level: Option<Level>) -> bool {
    let mut made = recoveries(planning.sources, compactions);
    match level {
        Some(_) => made.any(|compaction| compaction.request.level.is_some()),
        None => made.next().is_some() && given_up(planning).parts.is_empty(),
    }
}

/// True if one of these compactions was a recovery from an overflow of the view's last request.
pub fn has_recovered(sources: &[SourceMessage], compactions: &[Compaction]) -> bool {
    recoveries(sources, compactions).next().is_some()
}

/// The recoveries from overflows of the view's last request. A replay is no request of its own.
fn recoveries<'a>(
    sources: &[SourceMessage],
    compactions: &'a [Compaction],
) -> impl Iterator<Item = &'a Compaction> + use<'a> {
    let requests =
        sources.iter().filter(|source| is_request(&source.message) && source.message.kind != MessageKind::Continuation);
    let came = |source: &SourceMessage| match source.message.kind {
        MessageKind::Replay => plan::slot(source),
        _ => source.message.revision,
    };
    let request = requests.map(came).max().unwrap_or(0);
    compactions.iter().filter(move |compaction| {
        compaction.request.trigger == Trigger::Overflow
            && compaction.state == CompactionState::Done
            && compaction.base_revision.is_some_and(|base| base >= request)
    })
}

/// The last request after truncations that remove media from it. None if they remove none, if the request was answered
/// in spite of the overflow, or if it is pinned, because pinned messages stay as they are.
pub fn replay(planning: PlanningInput<'_>, removals: &Removals) -> Option<ReplayedRequest> {
    if overflow_of(planning) == Some(Overflow::Answered) {
        return None;
    }
    let speaks = |source: &&SourceMessage| in_conversation(source) && is_request(&source.message);
    let source = planning.sources.iter().rev().find(speaks)?;
    let loses = |part: &Part| {
        matches!(*part.body, PartBody::Media(_)) && removals.parts.iter().any(|(truncation, _)| *truncation == part.id)
    };
    if planning.layout.pinned.contains(&plan::slot(source)) || !source.message.parts.iter().any(loses) {
        return None;
    }
    let after = plan::with_removals(std::slice::from_ref(source), removals, CompactionId(Uuid::nil()));
    let after = after.first()?;
    let said = |part: &Part| match after.pruned_part(part.id) {
        Some(pruned) => render::shortened(planning.policy, &part.body, pruned),
        None => (*part.body).clone(),
    };
    let bodies = after.message.parts.iter().map(said).collect();
    Some(ReplayedRequest { message: source.message.id, target: plan::slot(source), bodies })
}

/// The overflow that the last message of a view indicates.
pub fn overflow_of(planning: PlanningInput<'_>) -> Option<Overflow> {
    overflow(planning.policy, planning.window, &last(planning.sources)?.message.finish)
}

/// The last message at its own position in a view.
fn last(sources: &[SourceMessage]) -> Option<&SourceMessage> {
    sources.iter().rev().find(|source| in_conversation(source))
}

/// True if a message is in the view at its own position or replaces another one; records are excluded.
fn in_conversation(source: &SourceMessage) -> bool {
    matches!(source.placement, None | Some(Placement::Edit(_))) && source.message.kind != MessageKind::Record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::SessionId;
    use crate::model::layout::{CoveredHistory, Layout};
    use crate::model::message::GivenView;
    use crate::model::time::Timestamp;
    use crate::policy::{dsl, samples};

    const TOO_LONG: Overflow = Overflow::Unanswered(Recovery::Compaction);

    fn window() -> ModelWindow {
        ModelWindow { model: String::new(), context: 100, ..ModelWindow::default() }
    }

    /// The view of a revision, as given to a reply.
    fn given(revision: Revision) -> GivenView {
        GivenView { revision, hash: [0; 32], window: window(), shortened: false }
    }

    fn policy(auto: bool, silent_overflow: bool) -> Policy {
        let mut policy = samples::policy("opencode@seed");
        (policy.trigger.auto, policy.trigger.silent_overflow) = (auto, silent_overflow);
        policy
    }

    #[test]
    fn only_a_reply_that_speaks_of_the_size_or_shows_it_is_an_overflow() {
        let failed = |detail: &str| Finish { detail: detail.to_owned(), ..finished(FinishReason::Error, 0, 0) };
        let [words, read, full] = [
            failed("prompt is too long: 9 tokens"),
            finished(FinishReason::Stop, 101, 5),
            finished(FinishReason::Length, 99, 0),
        ];
        for (finish, spoken, silent) in [
            (&words, Some(TOO_LONG), Some(TOO_LONG)),
            (
                &failed("413 Payload Too Large"),
                Some(Overflow::Unanswered(Recovery::MediaFirst)),
                Some(Overflow::Unanswered(Recovery::MediaFirst)),
            ),
            (
                &failed("Too much media: 0 document pages + 101 images > 100"),
                Some(Overflow::Unanswered(Recovery::Media)),
                Some(Overflow::Unanswered(Recovery::Media)),
            ),
            (&failed("rate limit reached, too many requests"), None, None),
            (&Finish { detail: "prompt is too long".to_owned(), ..finished(FinishReason::Stop, 0, 0) }, None, None),
            (&read, Some(Overflow::Answered), Some(Overflow::Answered)),
            (&full, None, Some(TOO_LONG)),
            (&finished(FinishReason::Stop, 95, 5), None, None),
            (&finished(FinishReason::Stop, 95, 6), Some(Overflow::Answered), Some(Overflow::Answered)),
            (&Finish { usage: None, ..read.clone() }, None, None),
            (&Finish { reason: None, ..read.clone() }, Some(Overflow::Answered), Some(Overflow::Answered)),
            (&finished(FinishReason::ToolCalls, 101, 5), Some(Overflow::Answered), Some(Overflow::Answered)),
            (&finished(FinishReason::Aborted, 101, 5), None, None),
        ] {
            assert_eq!(overflow(&policy(true, false), &window(), finish), spoken, "{finish:?}");
            assert_eq!(overflow(&policy(true, true), &window(), finish), silent, "{finish:?}");
            assert_eq!(
                overflow(&policy(false, true), &window(), finish),
                None,
                "nothing happens by itself: {finish:?}"
            );
        }
    }

    #[test]
    fn a_reply_that_its_request_left_no_room_for_is_recovered() {
        let of = |preset: &str, reason, output, reasoning, most| {
            let policy = samples::policy(preset);
            let window = ModelWindow { output: most, context: 200_000, ..ModelWindow::default() };
            let usage = Usage { input: 1_000, output, reasoning, ..Usage::default() };
            let finish: Finish = Finish { reason: Some(reason), usage: Some(usage), ..Finish::default() };
            overflow(&policy, &window, &finish)
        };
        let is = Some(TOO_LONG);
        for (preset, reason, output, reasoning, most, expected) in [
            ("pi@1.5", FinishReason::Length, 7_999, 0, Some(8_000), is),
            ("pi@1.5", FinishReason::Length, 8_000, 0, Some(8_000), None),
            ("pi@1.5", FinishReason::Length, 4_000, 3_999, Some(8_000), is),
            ("pi@1.5", FinishReason::Length, 4_000, 4_000, Some(8_000), None),
            // A model with an unknown output limit may have written all it can.
            ("pi@1.5", FinishReason::Length, 7_999, 0, None, None),
            ("pi@1.5", FinishReason::Stop, 7_999, 0, Some(8_000), None),
            ("pi@0.73", FinishReason::Length, 7_999, 0, Some(8_000), None),
            ("opencode@seed", FinishReason::Length, 7_999, 0, Some(8_000), None),
        ] {
            assert_eq!(
                of(preset, reason, output, reasoning, most),
                expected,
                "{preset}: {output} and {reasoning} of {most:?}"
            );
        }
    }

    #[test]
    fn what_is_given_up_depends_on_how_the_overflow_shows() {
        let policy = samples::policy("pi@1.5");
        let window = ModelWindow { context: 100, output: Some(50), ..ModelWindow::default() };
        let layout = Layout::everything();
        let mut sources = dsl::parse("u1 \"x\"\n  media image/png\na1 \"y\"");
        let mut given_up_by = |finish: Finish| {
            sources[1].message.finish = finish;
            let planning = PlanningInput {
                policy: &policy,
                window: &window,
                layout: &layout,
                sources: &sources,
                covered: &[],
                base: 2,
                now: Timestamp(0),
            };
            let Removals { parts, omitted } = given_up(planning);
            (parts.len(), omitted)
        };
        let refused = Finish { detail: "prompt is too long".to_owned(), ..finished(FinishReason::Error, 0, 0) };
        assert_eq!(given_up_by(refused), (1, vec![]), "media that a provider refused");
        assert_eq!(given_up_by(finished(FinishReason::Stop, 101, 5)), (0, vec![]), "images stay, as in pi");
        assert_eq!(given_up_by(finished(FinishReason::Length, 60, 30)), (0, vec![2]), "the reply that was cut short");
        assert_eq!(given_up_by(finished(FinishReason::Stop, 10, 5)), (1, vec![]), "reported by somebody else");
    }

    fn finished(reason: FinishReason, input: i64, output: i64) -> Finish {
        Finish { reason: Some(reason), usage: Some(Usage { input, output, ..Usage::default() }), ..Finish::default() }
    }

    /// The reaction to the end of a view under a policy that evaluates usage too.
    fn answered(layout: &Layout, sources: &[SourceMessage], compactions: &[Compaction]) -> Reaction {
        let (policy, window) = (policy(true, true), window());
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout,
            sources,
            covered: &[],
            base: 100,
            now: Timestamp(0),
        };
        let done = compactions.iter().filter(|compaction| compaction.state == CompactionState::Done);
        let changed =
            done.filter_map(|compaction| compaction.end_revision).chain(layout.covered.iter().map(|it| it.mark));
        // No compaction precedes the first revision of a session.
        let changed = changed.map(|revision| revision.max(FIRST_REVISION + 1));
        reaction(planning, 0, compactions, changed.max().unwrap_or(FIRST_REVISION))
    }

    /// A layout under a summary with this mark.
    fn summed_up(mark: Revision) -> Layout {
        let covered = CoveredHistory { compaction: CompactionId(Uuid::nil()), mark, summary: mark, ranges: Vec::new() };
        Layout { covered: Some(covered), ..Layout::default() }
    }

    /// Checks a session that ends in a failed reply, with compactions because of an overflow: the base revision, the
    /// end and the final state of each.
    fn check(
        failed: Finish,
        layout: &Layout,
        compactions: &[(Revision, Revision, CompactionState)],
        expected: Reaction,
    ) {
        let mut messages = dsl::parse("u1 \"x\"\na1 \"y\"\nu2 \"z\"\na2 \"\" finish=error");
        messages[3].message.finish = failed;
        let revisions: Vec<Revision> = messages.iter().map(|source| source.message.revision).collect();
        assert!(revisions.is_sorted() && revisions[3] < 100, "the test counts on it: {revisions:?}");
        let compactions: Vec<Compaction> = compactions
            .iter()
            .map(|&(base, end, state)| Compaction {
                id: CompactionId(Uuid::nil()),
                session_id: SessionId(Uuid::nil()),
                request: CompactionRequest { level: Some(Level::Auto), ..of_media() },
                state,
                base_revision: Some(base),
                tokens_at_request: 0,
                window_tokens: 0,
                attempt: 1,
                outcome: None,
                proposed_until: None,
                next_attempt_time: None,
                failure: None,
                end_revision: (!state.is_active()).then_some(end),
                undone_revision: None,
                requests: Vec::new(),
                actor: String::new(),
                create_time: Timestamp(0),
                end_time: None,
            })
            .collect();
        assert_eq!(answered(layout, &messages, &compactions), expected, "{compactions:?}");
    }

    #[test]
    fn a_failure_is_answered_once_for_each_request_and_each_view() {
        let failed = |at: Option<Revision>| Finish {
            reason: Some(FinishReason::Error),
            detail: "prompt is too long".to_owned(),
            view: at.map(given),
            ..Finish::default()
        };
        let plain = Layout::default();
        let done = |base, end| (base, end, CompactionState::Done);
        check(Finish::default(), &plain, &[], Reaction::Nothing);
        check(failed(None), &plain, &[], Reaction::Recover(TOO_LONG));
        check(failed(None), &summed_up(1), &[], Reaction::Recover(TOO_LONG));
        check(failed(None), &summed_up(200), &[], Reaction::Nothing);
        // One for the previous request, one that ended after the failure, and one that the failed reply already saw.
        check(failed(None), &plain, &[done(0, 0)], Reaction::Recover(TOO_LONG));
        check(failed(None), &plain, &[done(100, 200)], Reaction::Nothing);
        check(failed(Some(300)), &plain, &[done(100, 200)], Reaction::GiveUp);
        check(failed(Some(150)), &plain, &[done(100, 200)], Reaction::Nothing);
        check(failed(Some(300)), &plain, &[(100, 200, CompactionState::Failed)], Reaction::Recover(TOO_LONG));
        check(failed(None), &plain, &[(100, 200, CompactionState::Failed)], Reaction::Nothing);
        check(failed(None), &plain, &[(100, 200, CompactionState::Superseded)], Reaction::Recover(TOO_LONG));
        check(failed(None), &plain, &[(100, 200, CompactionState::Running)], Reaction::Nothing);
    }

    #[test]
    fn an_overflow_with_an_answer_is_settled_by_any_compaction_and_reported_once() {
        let reply = |reason, at: Option<Revision>| Finish { view: at.map(given), ..finished(reason, 200, 0) };
        let read = |at| reply(FinishReason::Stop, at);
        let full = |at| reply(FinishReason::Length, at);
        let plain = Layout::default();
        let done = [(100, 200, CompactionState::Done)];
        check(read(None), &plain, &[], Reaction::Recover(Overflow::Answered));
        check(full(None), &plain, &[], Reaction::Recover(TOO_LONG));
        check(read(None), &plain, &done, Reaction::Nothing);
        check(full(None), &plain, &[(0, 1, CompactionState::Done)], Reaction::Nothing);
        check(full(None), &summed_up(1), &[], Reaction::Nothing);
        check(full(Some(300)), &summed_up(1), &[], Reaction::Recover(TOO_LONG));
        check(read(Some(300)), &plain, &done, Reaction::Nothing);
        check(full(Some(300)), &plain, &done, Reaction::GiveUp);
    }

    #[test]
    fn what_came_behind_a_failure_settles_it() {
        let mut messages = dsl::parse("u1 \"x\"\na1 \"y\" finish=error");
        messages[1].message.finish.detail = "prompt is too long".to_owned();
        assert_eq!(answered(&Layout::default(), &messages, &[]), Reaction::Recover(TOO_LONG));
        messages.extend(dsl::parse("u2 \"z\""));
        assert_eq!(answered(&Layout::default(), &messages, &[]), Reaction::Nothing);
        assert_eq!(answered(&Layout::default(), &[], &[]), Reaction::Nothing);
    }
}

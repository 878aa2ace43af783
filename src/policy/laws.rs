//! P8, P9, P10 and P12 as laws of every preset, on conversations that nobody would think of.
//!
//! A test plays the daemon: it asks for decisions, carries them out as real marks, folds these, and reads the view that
//! comes of it. Time is the only thing that is simpler: a reduction is in force before anybody goes on.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::Value;
use uuid::Uuid;

use crate::model::Revision;
use crate::model::compaction::Level;
use crate::model::cut::Cuts;
use crate::model::ids::{CompactionId, MessageId};
use crate::model::layouts;
use crate::model::mark::{Mark, MarkBody};
use crate::model::message::{FinishReason, MessageKind, Role};
use crate::model::part::PartBody;
use crate::model::usage::ModelWindow;
use crate::model::view::{Shortened, SourceMessage, Standing, View};
use crate::policy::overflow;
use crate::policy::plan::{self, Decision, Scene, SummaryPlan, Work};
use crate::policy::{Policy, Rung, gain, pairing, presets, tokens, validate};

mod world;

use world::{Picture, Step, World, step};

/// Decisions after one thing that happened: a rung can find something more to do after a lower one, but not for ever.
const DECISIONS_MAX: usize = 8;

/// A preset with all its large numbers divided, so that a short conversation means as much to it as a long one.
fn small(policy: &Policy, divisor: u64) -> Policy {
    fn divide(value: &mut Value, divisor: u64) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(|value| divide(value, divisor)),
            Value::Array(items) => items.iter_mut().for_each(|value| divide(value, divisor)),
            Value::Number(number) => {
                if let Some(large) = number.as_u64().filter(|large| *large >= 400) {
                    *value = Value::from((large / divisor).max(16));
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    let mut value = serde_json::to_value(policy).expect("a policy is JSON");
    divide(&mut value, divisor);
    let small: Policy = serde_json::from_value(value).expect("still a policy");
    assert_eq!(validate::validate(&small), [], "{}", policy.preset);
    small
}

/// A conversation and the circumstances under which it is had.
#[derive(Debug, Clone)]
struct Talk {
    divisor: u64,
    context: i64,
    /// Tokens that no estimate sees, in windows.
    overhead: i64,
    /// The length of the summaries that somebody writes; none where every summary is refused.
    summary: Option<usize>,
    steps: Vec<Step>,
}

fn talk() -> impl Strategy<Value = Talk> {
    let divisor = prop_oneof![1 => Just(1_u64), 4 => Just(40_u64)];
    let overhead = prop_oneof![4 => Just(0_i64), 1 => Just(2_i64)];
    let summary =
        prop_oneof![4 => (1_usize..60).prop_map(Some), 1 => (60_usize..2_000).prop_map(Some), 1 => Just(None)];
    let steps = prop::collection::vec(step(), 5..45);
    (divisor, 1_000_i64..9_000, overhead, summary, steps)
        .prop_map(|(divisor, context, overhead, summary, steps)| Talk { divisor, context, overhead, summary, steps })
}

/// What happened in all talks under a preset.
#[derive(Debug, Default)]
struct Counts {
    shortened: usize,
    omitted: usize,
    summaries: usize,
    refused: usize,
    most_decisions: usize,
}

/// The same messages with what they weigh, as the store keeps it.
fn counted(policy: &Policy, sources: &[SourceMessage]) -> Vec<SourceMessage> {
    let with_counts = |source: &SourceMessage| {
        let bodies: Vec<_> = source.message.parts.iter().map(|part| &part.body).collect();
        let counts = tokens::count(policy, source.message.role, &bodies);
        SourceMessage { counts: Some(Arc::new(counts)), ..source.clone() }
    };
    sources.iter().map(with_counts).collect()
}

/// A reduction that frees something, before it is in force.
struct Draft {
    cuts: Cuts,
    summary: Option<(SummaryPlan, String)>,
    after: View,
}

/// A session that is looked after as the scheduler does it.
struct Session<'a> {
    world: World,
    /// What the view weighed when a rung last came to nothing.
    failed_tokens: Option<i64>,
    pictures: Vec<Picture>,
    counts: &'a mut Counts,
}

impl Session<'_> {
    fn play(mut self, steps: &[Step]) {
        for step in steps {
            let wrote = self.world.take(step);
            let before = self.world.look();
            accounted(&self.world, &before);
            self.pictures.push(before.clone());
            let mut burst = vec![before];
            match step {
                Step::Clear => {
                    let work = plan::clear_all(self.world.scene(&burst[0]));
                    self.by_hand(work, &mut burst);
                }
                Step::Climb => self.climb_by_hand(&mut burst),
                _ if wrote => self.reduce(&mut burst),
                _ => {}
            }
            self.undo(&burst);
            self.pictures.extend(burst.into_iter().skip(1));
        }
        self.look_back();
        self.undo_everything();
    }

    /// Does what the policy wants done by itself, until it wants nothing more.
    fn reduce(&mut self, burst: &mut Vec<Picture>) {
        for decisions in 0.. {
            let before = self.world.look();
            let estimated = before.view.estimated_tokens;
            let tokens = estimated + self.world.overhead;
            let grown = self.world.window.context / 20;
            let may_climb = self.failed_tokens.is_none_or(|failed| estimated >= failed + grown);
            let scene = self.world.scene(&before);
            let decision = plan::decide(scene, tokens, |_| may_climb);
            assert_eq!(decision, plan::decide(scene, tokens, |_| may_climb), "the same is decided of the same");
            let counted = counted(&self.world.policy, scene.sources);
            let of_counts = plan::decide(Scene { sources: &counted, ..scene }, tokens, |_| may_climb);
            assert_eq!(decision, of_counts, "counts change no decision");
            self.check_decision(scene, decision, tokens, may_climb);
            let Some(decision) = decision else { break };
            let work = plan::decided(scene, decision, tokens);
            assert_eq!(work.cuts, plan::decided(Scene { sources: &counted, ..scene }, decision, tokens).cuts);
            assert!(decisions < DECISIONS_MAX, "no end of it: {decision:?}");
            self.counts.most_decisions = self.counts.most_decisions.max(decisions + 1);
            let draft = match decision {
                Decision::Climb(level) => self.climb(&before, level, tokens),
                Decision::Routine => {
                    let least = gain::least(scene.policy, scene.window, &scene.policy.routine, false);
                    self.draft(&before, work.cuts, None, least)
                }
            };
            match (draft, decision.level()) {
                (Some(draft), _) => self.commit(&before, draft, burst),
                (None, Some(_)) => {
                    self.counts.refused += 1;
                    self.failed_tokens = Some(estimated);
                }
                (None, None) => break,
            }
        }
    }

    /// What is decided is the first thing that is worth its price, and nothing where nothing is.
    fn check_decision(&self, scene: Scene<'_>, decision: Option<Decision>, tokens: i64, may_climb: bool) {
        let policy = scene.policy;
        if !policy.trigger.auto {
            return;
        }
        let reached = overflow::reached(policy, scene.window, tokens).filter(|_| may_climb);
        let rungs = reached.flat_map(|(level, rung)| plan::narrowings(rung).into_iter().map(move |rung| (level, rung)));
        let works = rungs.map(|(level, rung)| {
            let work = plan::climb(scene, &rung, tokens);
            (Decision::Climb(level), rung.steps, work)
        });
        let routine = (Decision::Routine, policy.routine.clone(), plan::routine(scene));
        for (candidate, steps, work) in works.chain([routine]) {
            let least = gain::least(policy, scene.window, &steps, work.summary.is_some());
            let freed = foreseen(scene, &work);
            if decision == Some(candidate) && plan::decided(scene, candidate, tokens) == work {
                assert!(freed >= least, "{candidate:?} frees {freed} of {least}");
                return;
            }
            let is_free = policy.guards.reread_per_freed_max.is_none();
            let passed_over = work.is_empty() || freed < least || !is_free;
            assert!(passed_over, "{decision:?} and not {candidate:?}, which frees {freed} of {least}");
        }
        assert_eq!(decision, None);
    }

    /// A rung's work with its summary written: by its own tail or a smaller one, or else what stands in for it.
    fn climb(&self, before: &Picture, level: Level, tokens: i64) -> Option<Draft> {
        let rung = self.world.policy.rung(level).expect("the rung that was decided on").clone();
        let mut stand_in = None;
        for rung in plan::narrowings(&rung) {
            let scene = self.world.scene(before);
            let work = plan::climb(scene, &rung, tokens);
            let least = gain::least(scene.policy, scene.window, &rung.steps, work.summary.is_some());
            let draft = self.propose(before, &work, least);
            if draft.is_some() {
                return draft;
            }
            if stand_in.is_none() {
                stand_in = self.stand_in(before, work, least);
            }
        }
        stand_in
    }

    fn propose(&self, before: &Picture, work: &Work, least: i64) -> Option<Draft> {
        let Some(planned) = &work.summary else { return self.draft(before, work.cuts.clone(), None, least) };
        let text = self.world.summary.clone()?;
        self.draft(before, work.cuts.clone(), Some((planned, text)), least)
    }

    fn stand_in(&self, before: &Picture, work: Work, least: i64) -> Option<Draft> {
        let summary = work.summary?;
        let fallback = plan::fallback(self.world.scene(before), &summary.fallback);
        let mut others = work.cuts;
        others.parts.retain(|(part, _)| !summary.cuts.parts.iter().any(|(other, _)| other == part));
        self.draft(before, fallback.cuts, None, least).or_else(|| self.draft(before, others, None, least))
    }

    /// What cuts and a summary would do; none where they would free too little.
    fn draft(
        &self,
        before: &Picture,
        cuts: Cuts,
        summary: Option<(&SummaryPlan, String)>,
        least: i64,
    ) -> Option<Draft> {
        if cuts.is_empty() && summary.is_none() {
            return None;
        }
        let policy = &self.world.policy;
        let mut sources = plan::with_cuts(&before.sources, &cuts, CompactionId(Uuid::nil()));
        if let Some((planned, text)) = &summary {
            let (boundary, attachments) = (planned.boundary(), &planned.attachments);
            sources = plan::with_summary(policy, &before.layout, &sources, &boundary, text, attachments);
        }
        let after = plan::view(policy, &sources);
        let summary = summary.map(|(planned, text)| (planned.clone(), text));
        (before.view.estimated_tokens - after.estimated_tokens >= least).then_some(Draft { cuts, summary, after })
    }

    fn by_hand(&mut self, work: Work, burst: &mut Vec<Picture>) {
        let before = self.world.look();
        if let Some(draft) = self.propose(&before, &work, 1) {
            self.commit(&before, draft, burst);
        }
    }

    fn climb_by_hand(&mut self, burst: &mut Vec<Picture>) {
        let policy = &self.world.policy;
        let Some(rung) = policy.ladder().next_back().map(|(_, rung)| rung) else { return };
        let rung = Rung { stop_when_enough: false, ..rung.clone() };
        let work = plan::climb(self.world.scene(&burst[0]), &rung, burst[0].view.estimated_tokens);
        self.by_hand(work, burst);
    }

    /// Puts a reduction in force, and holds what comes of it against the laws.
    fn commit(&mut self, before: &Picture, draft: Draft, burst: &mut Vec<Picture>) {
        let Draft { cuts, summary, after } = draft;
        self.counts.shortened += usize::from(!cuts.parts.is_empty());
        self.counts.omitted += usize::from(!cuts.omitted.is_empty());
        self.counts.summaries += usize::from(summary.is_some());
        let summary = summary.as_ref().map(|(planned, text)| (planned, text.as_str()));
        self.world.commit(before, &cuts, summary);
        self.failed_tokens = None;
        let picture = self.world.look();
        assert_eq!(said(&picture.view), said(&after), "what was measured is what is in force");
        assert!(picture.view.estimated_tokens < before.view.estimated_tokens, "a reduction adds nothing");
        accounted(&self.world, &picture);
        unfinished_stays(before, &picture);
        pairs_stay_together(before, &picture);
        burst.push(picture);
    }

    /// Takes back what was just done, the newest first: each view is again what it was.
    fn undo(&self, burst: &[Picture]) {
        let mut marks = self.world.marks.clone();
        let mut at = self.world.revision;
        for earlier in burst.iter().rev().skip(1) {
            let mark = layouts::newest_change(&marks, at).expect("a reduction to take back").target;
            at += 1;
            marks.push(Mark { revision: at, body: MarkBody::Undone { mark } });
            assert_eq!(self.world.picture(&marks, at).view, earlier.view, "the view as it was before");
        }
    }

    /// Asks again for everything that was ever read.
    fn look_back(&self) {
        for picture in &self.pictures {
            assert_eq!(&self.world.picture(&self.world.marks, picture.at), picture);
        }
    }

    /// Without any reduction the view is what was written.
    fn undo_everything(&mut self) {
        while let Some(found) = layouts::newest_change(&self.world.marks, self.world.revision) {
            self.world.mark(MarkBody::Undone { mark: found.target });
        }
        let whole = self.world.picture(&[], self.world.revision);
        assert_eq!(self.world.look().view, whole.view, "everything is there again");
    }
}

/// The tokens that the view loses by what steps come to, with a summary as long as the one that it replaces.
fn foreseen(scene: Scene<'_>, work: &Work) -> i64 {
    let Scene { policy, layout, sources, .. } = scene;
    let mut after = plan::with_cuts(sources, &work.cuts, CompactionId(Uuid::nil()));
    if let Some(summary) = &work.summary {
        let expected = summary.previous.as_deref().unwrap_or(" ");
        after = plan::with_summary(policy, layout, &after, &summary.boundary(), expected, &summary.attachments);
    }
    plan::view(policy, sources).estimated_tokens - plan::view(policy, &after).estimated_tokens
}

/// What a view says, whatever the messages in it are called.
/// Who speaks, what the message is, and its parts with what was taken from each.
type Said = (Role, Standing, Vec<(PartBody, Option<Shortened>)>);

fn said(view: &View) -> (i64, Vec<Said>) {
    let messages = view.messages.iter().map(|message| {
        let parts = message.parts.iter().map(|part| (part.body.clone(), part.shortened)).collect();
        (message.role, message.standing, parts)
    });
    (view.estimated_tokens, messages.collect())
}

/// P8 and P9: every message is shown, shortened, covered by the summary that is in the view, or left out by a mark; and
/// a model can be given the view.
fn accounted(world: &World, picture: &Picture) {
    let Picture { layout, sources, view, .. } = picture;
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    let summaries: Vec<Revision> = view
        .messages
        .iter()
        .filter(|message| message.standing == Standing::Summary)
        .map(|message| message.revision)
        .collect();
    match &layout.covered {
        Some(covered) => assert!(!summaries.is_empty() && summaries.iter().all(|summary| *summary == covered.summary)),
        None => assert!(summaries.is_empty(), "a summary without its mark"),
    }
    let shown: BTreeSet<MessageId> = view.messages.iter().filter_map(|message| message.source).collect();
    let mut stands: HashMap<MessageId, &SourceMessage> = HashMap::new();
    for source in sources {
        assert!(stands.insert(source.message.id, source).is_none(), "{:?} stands there twice", source.message);
    }
    for message in world.originals().filter(|message| message.revision <= picture.at) {
        let revision = message.revision;
        let is_covered =
            layout.covered.iter().flat_map(|covered| &covered.ranges).any(|range| range.contains(revision));
        let is_omitted = layout.omitted.iter().any(|omitted| omitted.range.contains(revision));
        let is_pinned = layout.pinned.contains(&revision);
        let Some(source) = stands.get(&message.id) else {
            assert!(!is_pinned, "{message:?} is pinned and gone");
            assert!(is_covered || is_omitted, "{message:?} is nowhere: {layout:?}");
            continue;
        };
        assert_eq!(is_covered, source.place.is_some(), "{message:?} stands at {:?}: {layout:?}", source.place);
        assert!(!is_omitted, "{message:?} is shown and left out: {layout:?}");
        assert!(!is_pinned || source.pruned.is_empty(), "{message:?} is pinned and shortened");
        let is_silent =
            |body: &PartBody| matches!(body, PartBody::Text(text) | PartBody::Reasoning(text) if text.is_empty());
        let mut speaking = source.message.parts.iter().filter(|part| !is_silent(&part.body));
        let is_shortened = speaking.all(|part| source.pruned_part(part.id).is_some());
        assert!(shown.contains(&message.id) || is_shortened, "{message:?} is not in the view");
    }
    inputs_are_json(world, view);
}

/// What was a call's input in JSON is still.
fn inputs_are_json(world: &World, view: &View) {
    let parts = world.messages.values().flat_map(|message| &message.parts);
    let originals: BTreeMap<_, _> = parts.map(|part| (part.id, &part.body)).collect();
    let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    for part in view.messages.iter().flat_map(|message| &message.parts) {
        if let (PartBody::ToolCall(call), Some(id)) = (&part.body, part.source)
            && let Some(PartBody::ToolCall(original)) = originals.get(&id)
            && is_json(&original.input_json)
        {
            assert!(is_json(&call.input_json), "{original:?} became {call:?}");
        }
    }
}

fn stands_at_its_place(source: &&SourceMessage) -> bool {
    source.place.is_none() && source.message.kind == MessageKind::Normal
}

/// The messages of the view that no reduction may take away: what is being written, what the model has not answered yet,
/// and calls that still run.
fn unfinished(sources: &[SourceMessage]) -> BTreeSet<Revision> {
    let inline: Vec<&SourceMessage> = sources.iter().filter(stands_at_its_place).collect();
    let is_reply = |source: &&SourceMessage| {
        let message = &source.message;
        message.role == Role::Assistant
            && message.sealed_revision.is_some()
            && message.finish.reason != Some(FinishReason::Error)
    };
    let last_reply = inline.iter().rposition(is_reply);
    let unanswered = unanswered_calls(&inline);
    let mut unfinished = BTreeSet::new();
    for (index, source) in inline.iter().enumerate() {
        let is_open = source.message.sealed_revision.is_none();
        let is_unread = last_reply.is_none_or(|reply| index > reply);
        if is_open || is_unread || unanswered.contains(&index) && runs(&inline[index..]) {
            unfinished.insert(source.message.revision);
        }
    }
    unfinished
}

/// Whether a call without a result in the first message still runs: the model has not spoken since it heard something.
fn runs(inline: &[&SourceMessage]) -> bool {
    let has_result =
        |source: &SourceMessage| source.message.parts.iter().any(|part| matches!(part.body, PartBody::ToolResult(_)));
    let heard = inline.iter().position(|source| source.message.role != Role::Assistant || has_result(source));
    heard.is_none_or(|heard| inline[heard + 1..].iter().all(|source| source.message.role != Role::Assistant))
}

/// Which message answers which call, by index.
fn answered_calls(messages: &[&SourceMessage]) -> (Vec<(usize, usize)>, BTreeSet<usize>) {
    let mut waiting: Vec<(&str, usize)> = Vec::new();
    let mut answered = Vec::new();
    for (index, source) in messages.iter().enumerate() {
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &part.body {
                waiting.push((&call.call_id, index));
            } else if let PartBody::ToolResult(result) = &part.body
                && let Some(at) = waiting.iter().rposition(|(id, _)| *id == result.call_id)
            {
                answered.push((waiting.remove(at).1, index));
            }
        }
    }
    (answered, waiting.into_iter().map(|(_, index)| index).collect())
}

fn unanswered_calls(messages: &[&SourceMessage]) -> BTreeSet<usize> {
    answered_calls(messages).1
}

/// What is unfinished stays where it is, and open messages stay as they are.
fn unfinished_stays(before: &Picture, after: &Picture) {
    let stays: HashMap<Revision, &SourceMessage> =
        after.sources.iter().filter(stands_at_its_place).map(|source| (source.message.revision, source)).collect();
    for revision in unfinished(&before.sources) {
        assert!(stays.contains_key(&revision), "{revision} was not finished, and is gone");
    }
    for source in before.sources.iter().filter(|source| source.message.sealed_revision.is_none()) {
        assert_eq!(stays.get(&source.message.revision), Some(&source), "an open message was shortened");
    }
}

/// No reduction parts a result from its call: both stay in the view or both go, except that pinned messages stay.
fn pairs_stay_together(before: &Picture, after: &Picture) {
    let messages: Vec<&SourceMessage> = before.sources.iter().collect();
    let there: BTreeSet<Revision> = after.sources.iter().map(|source| source.message.revision).collect();
    for (call, result) in answered_calls(&messages).0 {
        let (call, result) = (messages[call].message.revision, messages[result].message.revision);
        let is_pinned = [call, result].iter().any(|revision| after.layout.pinned.contains(revision));
        assert!(
            is_pinned || there.contains(&call) == there.contains(&result),
            "the call in {call} was parted from its result in {result}"
        );
    }
}

/// How many conversations each preset is tried with.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12)
}

#[test]
fn the_laws_hold_under_every_preset() {
    let mut failures = Vec::new();
    for preset in presets::all() {
        let counts = RefCell::new(Counts::default());
        let config = Config { cases: cases(), max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&talk(), |talk| {
            let window =
                ModelWindow { context: talk.context, output: Some(talk.context / 5), ..ModelWindow::default() };
            let summary = talk.summary.map(|length| "摘要 summary \u{1F680} ".chars().cycle().take(length).collect());
            let policy = small(&preset.policy(), talk.divisor);
            let world = World::new(policy, window, talk.overhead * talk.context, summary);
            let counts = &mut *counts.borrow_mut();
            Session { world, failed_tokens: None, pictures: Vec::new(), counts }.play(&talk.steps);
            Ok(())
        });
        match outcome {
            Ok(()) => println!("{} {:?}", preset.name, counts.borrow()),
            Err(TestError::Fail(why, talk)) => failures.push(format!("{}: {why}\n{talk:?}", preset.name)),
            Err(TestError::Abort(why)) => failures.push(format!("{}: {why}", preset.name)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

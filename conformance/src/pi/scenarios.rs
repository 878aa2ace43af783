//! Scenarios: a conversation grows message by message, and each side decides by itself when it compacts, and what.
//!
//! Our side is the driver of `longhand simulate` over `fold`; theirs is pi's own AgentSession. Replies report the usage
//! of the view that they got, both sides get the same texts for a summary, and after each compaction the scenario continues
//! with ours, so that one difference does not hide the next.

use super::explain_view;
use super::scenario::{Form, Made, Moment, Next, Ours, Scenario, lines, position_of, whole_lines};
use super::session::flat_context;
use crate::harm;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Reason, Report};
use longhand::policy::summary::SummaryInput;
use longhand::presets;
use serde_json::{Value, json};
use std::cell::Cell;

/// The scenarios of one version of pi.
pub(crate) struct Scenarios {
    name: &'static str,
    packages: &'static str,
    preset: &'static str,
    /// True if pi also checks between the requests of a run.
    evaluates_between: bool,
    /// True if the transcript includes reasoning and the user's images do not count.
    is_early: bool,
    classes: &'static [Class],
}

pub(crate) const V0_73: Scenarios = Scenarios {
    name: "pi-0.73-scenarios",
    packages: "pi-0.73",
    preset: "pi@0.73",
    evaluates_between: false,
    is_early: true,
    classes: &[MOMENT, super::UNANSWERED, super::PAIRED, super::OPENING, KEPT, GAIN, FITS, WHOLE, PREVIOUS],
};

pub(crate) const V1_5: Scenarios = Scenarios {
    name: "pi-1.5-scenarios",
    packages: "pi-1.5",
    preset: "pi@1.5",
    evaluates_between: true,
    is_early: false,
    classes: &[MOMENT, super::UNANSWERED, super::PAIRED, super::OPENING, KEPT, GAIN, FITS, LISTS],
};

const MOMENT: Class = Class {
    name: "every message is a moment",
    reason: Reason::Named("The threshold is looked at after every message"),
    explanation: "The context is above the threshold by pi's own functions, but pi does not look before the run goes on \
                  or ends; we do.",
    test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
};

pub(super) const WHOLE: Class = Class {
    name: "a character stays whole",
    reason: Reason::InvalidText,
    explanation: "pi 0.73 cuts a long output between the halves of a surrogate pair; we leave the whole character out.",
    test: ("crates/core/src/policy/truncate.rs", "a_character_is_never_split"),
};

const FITS: Class = Class {
    name: "a view fits its window",
    reason: Reason::P15,
    explanation: "Where the context exceeds the window pi waits for the provider to refuse it; our last resort takes the \
                  longest outputs out, and the scenario ends there.",
    test: ("crates/core/src/policy/last_resort.rs", "outputs_and_inputs_go_first_then_what_is_old_then_what_is_new"),
};

const KEPT: Class = Class {
    name: "a tail may be narrower",
    reason: Reason::Named("In a window where pi's tail holds everything"),
    explanation: "The context is above the threshold by pi's own functions, and pi prepares nothing, as its tail holds all \
                  that the summary before does not cover; we halve the tail.",
    test: ("crates/core/src/policy/select/recent.rs", "a_smaller_tail_has_half_the_budget"),
};

const GAIN: Class = Class {
    name: "a compaction is worth it",
    reason: Reason::Named("A compaction that would free less than a twentieth of the window is not made"),
    explanation: "pi also compacts where that frees less than a twentieth of the window; we halve the tail until it \
                  frees as much, or wait.",
    test: ("crates/core/src/policy/select/recent.rs", "a_smaller_tail_has_half_the_budget"),
};

const LISTS: Class = Class {
    name: "lists of files stand once",
    reason: Reason::Named("Lists of files are given once"),
    explanation: "Where only the front of a turn is summarized, pi takes the summary before along with its lists and \
                  puts new ones behind; we take it along without them.",
    test: ("crates/extractive/src/tests/laws.rs", "file_tags_follow_the_text_and_are_carried"),
};

const PREVIOUS: Class = Class {
    name: "an earlier summary is never lost",
    reason: Reason::Named("What an earlier summary says is never lost"),
    explanation: "Where only the front of a turn is summarized, pi 0.73 forgets the summary before; we keep it.",
    test: (
        "crates/extractive/src/tests/sections.rs",
        "a_summary_whose_originals_are_not_at_hand_is_a_source_like_others",
    ),
};

impl System for Scenarios {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static str {
        self.packages
    }

    fn classes(&self) -> &'static [Class] {
        self.classes
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        for index in run.scenario_indexes() {
            let scenario = self.draw(run.seed, index);
            let scenario = if run.daemon.is_some() { scenario.with_sections().with_words() } else { scenario };
            let words = Cell::new(0);
            let writer = |input: &SummaryInput| match run.daemon {
                Some(_) => scenario.answer(words.get(), input),
                None => scenario.text(words.get(), input),
            };
            let mut ours = scenario.ours(run.daemon, &writer)?;
            self.course(&mut *peer, &mut *report, &scenario).run(&mut ours, &words)?;
        }
        Ok(())
    }
}

impl Scenarios {
    /// The scenario with this index.
    pub(super) fn draw(&self, seed: u64, index: u64) -> Scenario {
        Scenario::draw(seed, index, presets::policy(self.preset), self.is_early)
    }

    /// A scenario before its first message.
    pub(super) fn course<'a>(&self, peer: &'a mut Peer, report: &'a mut Report, scenario: &'a Scenario) -> Course<'a> {
        Course {
            evaluates_between: self.evaluates_between,
            peer,
            report,
            scenario,
            refused_at: None,
            first: 0,
            compacted: 0,
        }
    }
}

/// A running scenario.
pub(super) struct Course<'a> {
    /// True if pi checks between the requests of a run.
    evaluates_between: bool,
    peer: &'a mut Peer,
    report: &'a mut Report,
    scenario: &'a Scenario,
    /// The index of the message after which a compaction of ours was refused last.
    refused_at: Option<usize>,
    /// The index of the first message after the summary.
    first: usize,
    /// Number of messages at the last compaction of ours.
    compacted: usize,
}

impl Course<'_> {
    /// Runs the scenario to its end; `words` counts the summaries.
    pub(super) fn run(&mut self, ours: &mut Ours<'_>, words: &Cell<usize>) -> Result<(), PeerFailure> {
        let scenario = self.scenario;
        self.ask("scenarioStart", json!({ "window": scenario.window.context, "settings": scenario.settings() }))?;
        for position in 0..scenario.len() {
            let moment = self.moment(position);
            let message = ours.append(position)?;
            let step = json!({
                "place": position, "message": message, "moment": moment.name(), "words": scenario.words(words.get()),
            });
            let theirs = self.ask("scenarioStep", step.clone())?;
            let mut is_open = true;
            while let Some(next) = ours.next()? {
                match next {
                    Next::Made(made) => {
                        self.compare(moment, position, &theirs, is_open, &made, words.get())?;
                        words.set(words.get() + 1);
                        is_open = false;
                        self.refused_at = None;
                    }
                    Next::Refused => self.refused_at = Some(position),
                    // The histories have diverged, and the scenario ends.
                    Next::LastResort => return self.last_resort(&step, position),
                    Next::Over => return Ok(()),
                }
            }
            if is_open {
                let why = if theirs["compacts"] == true { self.refusal(position, &theirs, words.get())? } else { None };
                self.record("moment", &step, json!(false), theirs["compacts"].clone(), why);
            }
        }
        let theirs = self.ask("scenarioContext", json!({}))?;
        self.view(&json!({}), &ours.lines(), &theirs);
        Ok(())
    }

    /// Reports our last resort, which pi does not have: the context exceeds the window by pi's own estimate, or by that
    /// with the results that a view adds.
    fn last_resort(&mut self, step: &Value, position: usize) -> Result<(), PeerFailure> {
        let window = self.scenario.window.context;
        let theirs = self.ask("scenarioTokens", json!({}))?;
        let why = match theirs.as_i64() {
            Some(tokens) if tokens > window => Some(&FITS),
            _ => self.exceeds_with_results(position, window)?.then_some(&super::PAIRED),
        };
        self.record("moment", step, json!("last resort"), json!(false), why);
        Ok(())
    }

    /// True if pi's estimate of the context exceeds `limit` with the results that a view adds to calls without any. If a
    /// reply has reported usage since the last compaction, that decides, and such results count nothing.
    fn exceeds_with_results(&mut self, position: usize, limit: i64) -> Result<bool, PeerFailure> {
        let scenario = self.scenario;
        if (self.compacted..=position).any(|position| scenario.usage(position, 0).is_some()) {
            return Ok(false);
        }
        let theirs = self.ask("scenarioTokens", json!({}))?;
        Ok(theirs.as_i64().is_some_and(|tokens| tokens + scenario.interrupted_tokens(self.first..position + 1) > limit))
    }

    /// The moment for pi that a message causes.
    fn moment(&self, position: usize) -> Moment {
        match self.scenario.moment(position) {
            Moment::Between if !self.evaluates_between => Moment::None,
            moment => moment,
        }
    }

    fn ask(&mut self, function: &str, mut arguments: Value) -> Result<Value, PeerFailure> {
        arguments["id"] = json!(self.scenario.index);
        // Every value read from the answer then differs.
        let failed = |error: String| json!({ "compacts": { "error": error }, "first": { "error": error } });
        self.peer.ask(function, arguments, failed)
    }

    fn record(&mut self, what: &'static str, input: &Value, ours: Value, theirs: Value, why: Option<&'static Class>) {
        self.report.compare(what, self.scenario.index, input, &ours, &Ok(theirs), |_, _| why);
    }

    /// Compares a compaction of ours with pi's, or with the one that pi would make if it checked here.
    fn compare(
        &mut self,
        moment: Moment,
        position: usize,
        theirs: &Value,
        is_open: bool,
        made: &Made,
        number: usize,
    ) -> Result<(), PeerFailure> {
        let input = json!({ "place": position, "moment": moment.name(), "keep": self.scenario.keep_tokens });
        let words = self.scenario.words(number);
        let compacts = is_open && theirs["compacts"] == true;
        let evaluates =
            matches!(moment, Moment::Between) || matches!(moment, Moment::End) && !self.scenario.is_aborted(position);
        // pi checks before it adds a prompt.
        let is_theirs = compacts && !matches!(moment, Moment::Prompt);
        let prepared = if is_theirs { theirs.clone() } else { self.ask("scenarioPrepare", json!({ "words": words }))? };
        let why = match evaluates && is_open {
            false => Some(&MOMENT),
            // pi checks, and has nothing to summarize.
            true => prepared.is_null().then_some(&KEPT),
        };
        let why = match theirs["exceeds"] == true {
            true => why,
            false => self.exceeds_with_results(position, self.scenario.threshold())?.then_some(&super::PAIRED),
        };
        self.record("moment", &input, json!(true), json!(compacts), why);
        let (why, prepared) = self.other_boundary(made, prepared, number)?;
        let ours = made.prepared();
        self.record("boundary", &input, ours.clone(), boundary_of(&prepared), why);
        if boundary_of(&prepared) == ours {
            let theirs = transcripts(&prepared);
            let why = (made.transcripts == whole(&theirs)).then_some(&WHOLE);
            self.record("transcripts", &input, made.transcripts.clone(), theirs, why);
            let why = other_text(self.scenario, number, made, &prepared["summary"]);
            self.record("summary", &input, json!(made.text), prepared["summary"].clone(), why);
        }
        let details = made.details();
        let compaction = json!({ "first": ours["first"], "summary": made.text, "details": details });
        let theirs = self.ask("scenarioCompact", compaction)?;
        (self.first, self.compacted) = (made.first, position + 1);
        self.view(&input, &made.view, &theirs);
        Ok(())
    }

    fn view(&mut self, input: &Value, ours: &Value, theirs: &Value) {
        let theirs = flat_context(theirs);
        let why = explain_view(ours, &theirs);
        self.record("view", input, ours.clone(), theirs, why);
    }

    /// The class of another boundary, and pi's plan with our tail: pi's boundary does harm, or frees too little.
    fn other_boundary(
        &mut self,
        made: &Made,
        prepared: Value,
        number: usize,
    ) -> Result<(Option<&'static Class>, Value), PeerFailure> {
        let ours = made.prepared();
        if boundary_of(&prepared) == ours {
            return Ok((None, prepared));
        }
        let mut smaller = prepared.clone();
        for halvings in 0..=HALVINGS {
            if halvings > 0 {
                if self.scenario.freed(&smaller, number) >= self.scenario.least_gain() && !smaller.is_null() {
                    break;
                }
                smaller = self.prepared_with(halvings, number)?;
            }
            if boundary_of(&smaller) == ours {
                return Ok((Some(&GAIN), prepared));
            }
            if let Some(harmless) = self.harmless(made, &smaller).filter(|harmless| *harmless == ours) {
                let why = if halvings == 0 { &super::UNANSWERED } else { &GAIN };
                return Ok((Some(why).filter(|_| harmless != boundary_of(&smaller)), prepared));
            }
        }
        Ok((None, prepared))
    }

    fn prepared_with(&mut self, halvings: u32, number: usize) -> Result<Value, PeerFailure> {
        let keep = self.scenario.keep_tokens >> halvings;
        self.ask("scenarioPrepare", json!({ "keepRecentTokens": keep, "words": self.scenario.words(number) }))
    }

    /// The safe boundary nearest to pi's, computed without our functions.
    fn harmless(&self, made: &Made, theirs: &Value) -> Option<Value> {
        let first = theirs["first"].as_u64()? as usize;
        let cut = made.inline.iter().take_while(|source| position_of(source) < first).count();
        self.scenario.boundary_at(&made.inline, harm::nearest(&made.inline, cut), theirs["previous"].clone())
    }

    /// The class if we do not compact although pi does: it frees too little with any tail, or did so shortly before.
    fn refusal(
        &mut self,
        position: usize,
        theirs: &Value,
        number: usize,
    ) -> Result<Option<&'static Class>, PeerFailure> {
        let least = self.scenario.least_gain();
        if let Some(refused_at) = self.refused_at.filter(|refused_at| *refused_at < position) {
            let growth = self.scenario.tokens(refused_at + 1..position + 1);
            return Ok((growth < least).then_some(&GAIN));
        }
        let mut most = self.scenario.freed(theirs, number);
        for halvings in 1..=HALVINGS {
            let smaller = self.prepared_with(halvings, number)?;
            most = most.max(self.scenario.freed(&smaller, number));
        }
        Ok((most < least).then_some(&GAIN))
    }
}

/// The class if a summary with the same text differs: the previous summary is carried on in another form.
fn other_text(scenario: &Scenario, number: usize, made: &Made, theirs: &Value) -> Option<&'static Class> {
    if made.text != made.expected(scenario, number, Form::Ours) {
        return None;
    }
    let is = |form: Form| made.expected(scenario, number, form) == *theirs;
    let forms = [(Form::Whole, &LISTS), (Form::Forgotten, &PREVIOUS)];
    forms.into_iter().find(|(form, _)| is(*form)).map(|(_, class)| class)
}

/// Maximum number of halvings of a tail.
const HALVINGS: u32 = 5;

/// Transcripts without the half characters that pi 0.73 leaves where it truncates an output.
fn whole(transcripts: &Value) -> Value {
    let mut whole = transcripts.clone();
    for name in ["history", "front"] {
        whole[name] = whole_lines(&transcripts[name]);
    }
    whole
}

/// The boundary of a plan of pi's; null if there is none.
fn boundary_of(prepared: &Value) -> Value {
    if prepared["first"].is_null() {
        return Value::Null;
    }
    let field = |name: &str| prepared[name].clone();
    json!({
        "first": field("first"), "summarize": field("summarize"), "prefix": field("prefix"), "previous": field("previous"),
    })
}

/// The transcripts in pi's requests to its model: those of the history and of the beginning of a split turn, with the
/// text of the previous summary.
fn transcripts(prepared: &Value) -> Value {
    let mut found = json!({ "history": null, "front": null, "previous": null });
    for prompt in prepared["prompts"].as_array().into_iter().flatten() {
        let text = prompt["text"].as_str().unwrap_or_default();
        let (begin, end) = if text.starts_with("# Conversation\n") {
            ("# Conversation\n", "\n\n# Instructions\n")
        } else {
            ("<conversation>\n", "\n</conversation>\n\n")
        };
        let inside = text.strip_prefix(begin).and_then(|rest| rest.rsplit_once(end));
        let Some((transcript, rest)) = inside else { continue };
        found[if prompt["front"] == true { "front" } else { "history" }] = lines(transcript);
        let previous = rest.strip_prefix("<previous-summary>\n").and_then(|it| it.rsplit_once("\n</previous-summary>"));
        if let Some((previous, _)) = previous {
            found["previous"] = json!(previous);
        }
    }
    found
}

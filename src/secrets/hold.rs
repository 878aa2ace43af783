//! The end of a text that may be the begin of a match, and therefore waits for what comes behind it.

use crate::limits;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Hir, HirKind, Repetition};
use std::sync::{Mutex, PoisonError};

/// Automata that have the same matches as all rules together, and more: without conditions on what is around a match.
/// So where they can no longer match, no rule can.
pub(super) struct Hold {
    automaton: DFA,
    cache: Mutex<Cache>,
    /// Bytes of the longest match.
    longest: usize,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hold").field("longest", &self.longest).finish_non_exhaustive()
    }
}

impl Hold {
    /// The automaton of these patterns; none if it would be too large.
    pub(super) fn new(patterns: &[Hir]) -> Option<Self> {
        let longest = patterns.iter().filter_map(|pattern| pattern.properties().maximum_len()).max().unwrap_or(0);
        let free: Vec<Hir> = patterns.iter().map(without_looks).collect();
        let size = thompson::Config::new()
            .nfa_size_limit(Some(limits::SECRET_PATTERN_BYTES_MAX))
            .which_captures(thompson::WhichCaptures::None);
        let automata = thompson::Compiler::new().configure(size).build_many_from_hir(&free).ok()?;
        // A match of one rule does not end the search for longer ones.
        let config = Config::new()
            .match_kind(MatchKind::All)
            .skip_cache_capacity_check(true)
            .cache_capacity(limits::SECRET_STATES_BYTES_MAX);
        let automaton = DFA::builder().configure(config).build_from_nfa(automata).ok()?;
        Some(Self { cache: Mutex::new(automaton.create_cache()), automaton, longest })
    }

    /// Bytes of the longest match.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The first character from `from` on at which a match may begin that the text does not decide, or the end of the
    /// text, and false if no match begins before it.
    pub(super) fn begin(&self, text: &str, from: usize) -> (usize, bool) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // A match that began before would have ended.
        let mut begin = from.max(text.len().saturating_sub(self.longest));
        while !text.is_char_boundary(begin) {
            begin -= 1;
        }
        let begin = begin.max(from);
        let mut steps = limits::SECRET_HOLD_STEPS;
        let mut may_match = begin > from;
        for (at, _) in text[begin..].char_indices() {
            match self.is_matched(&mut cache, text, begin + at, &mut steps) {
                Some(is_matched) => may_match |= is_matched,
                None => return (begin + at, may_match),
            }
        }
        (text.len(), may_match)
    }

    /// True if there may be a match that begins here; none if one may go on beyond the text, or that takes too long to
    /// find out.
    fn is_matched(&self, cache: &mut Cache, text: &str, at: usize, steps: &mut usize) -> Option<bool> {
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        let mut state = self.automaton.start_state_forward(cache, &input).ok()?;
        let mut is_matched = false;
        for byte in &text.as_bytes()[at..] {
            *steps = steps.checked_sub(1)?;
            match self.automaton.next_state(cache, state, *byte) {
                Ok(next) if next.is_dead() => return Some(is_matched),
                Ok(next) if !next.is_quit() => state = next,
                _ => return None,
            }
            is_matched |= state.is_match();
        }
        None
    }
}

/// A pattern without its conditions on what is around: it matches wherever the pattern does.
fn without_looks(pattern: &Hir) -> Hir {
    match pattern.kind() {
        HirKind::Look(_) => Hir::empty(),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => pattern.clone(),
        HirKind::Capture(capture) => without_looks(&capture.sub),
        HirKind::Repetition(repetition) => {
            Hir::repetition(Repetition { sub: Box::new(without_looks(&repetition.sub)), ..repetition.clone() })
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(without_looks).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(without_looks).collect()),
    }
}

//! The end of a text that may be the begin of a match, and therefore waits for what comes behind it.

use super::limits;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Hir, HirKind, Repetition};
use std::sync::{Mutex, PoisonError};

/// Automata that have the same matches as some rules together, and more: without conditions on what is around a match.
/// So where they can no longer match, no rule can.
pub(super) struct Hold {
    automaton: DFA,
    cache: Mutex<Cache>,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hold").finish_non_exhaustive()
    }
}

impl Hold {
    /// The automaton of these patterns; none if it would be too large.
    pub(super) fn new(patterns: &[Hir]) -> Option<Self> {
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
        Some(Self { cache: Mutex::new(automaton.create_cache()), automaton })
    }

    /// The first character from `from` on at which a match may begin that the text does not decide, or the end of the
    /// text.
    pub(super) fn begin(&self, text: &str, from: usize, steps: &mut usize) -> usize {
        let mut begins = text[from..].char_indices().map(|(at, _)| from + at);
        begins.find(|at| self.is_open(text, *at, steps)).unwrap_or(text.len())
    }

    /// True if a match that begins here may go on beyond the text, or if it takes too long to find out.
    pub(super) fn is_open(&self, text: &str, at: usize, steps: &mut usize) -> bool {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        let Ok(mut state) = self.automaton.start_state_forward(&mut cache, &input) else { return true };
        for byte in &text.as_bytes()[at..] {
            if *steps == 0 {
                return true;
            }
            *steps -= 1;
            match self.automaton.next_state(&mut cache, state, *byte) {
                Ok(next) if next.is_dead() => return false,
                Ok(next) if !next.is_quit() => state = next,
                _ => return true,
            }
        }
        true
    }
}

/// A pattern without its conditions on what is around: it matches wherever the pattern does.
pub(super) fn without_looks(pattern: &Hir) -> Hir {
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

//! Whose turn it is to search the index.
//!
//! A search may take a reader of the index for a second. So each caller has one search that runs and a few that wait, and
//! the searches of all callers take turns as their calls do.

use super::error::{Error, Reason, Result};
use crate::limits;
use crate::turns::{Gate, Pass, Share};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of all callers.
pub(super) struct SearchTurns {
    gate: Arc<Gate>,
    callers: Mutex<HashMap<Share, SearchingCaller>>,
}

struct SearchingCaller {
    /// One for the search that runs, or is its next one.
    turn: Arc<Semaphore>,
    searches: usize,
}

/// A search of a caller, until it is dropped.
struct Search<'t> {
    turns: &'t SearchTurns,
    of: Share,
}

/// A turn, for as long as it is kept.
pub(super) struct Turn<'t> {
    _pass: Option<Pass<'t>>,
    _of_caller: OwnedSemaphorePermit,
    _search: Search<'t>,
}

impl Default for SearchTurns {
    fn default() -> Self {
        Self { gate: Gate::new(limits::SEARCH_READERS), callers: Mutex::default() }
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        let mut callers = self.turns.callers();
        let Some(caller) = callers.get_mut(&self.of) else { return };
        caller.searches -= 1;
        if caller.searches == 0 {
            callers.remove(&self.of);
        }
    }
}

impl SearchTurns {
    /// The sums are consistent at any time, so a poisoned lock does no harm.
    fn callers(&self) -> MutexGuard<'_, HashMap<Share, SearchingCaller>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    ///
    /// # Errors
    ///
    /// `TOO_MANY_REQUESTS` for a caller with too many searches that wait.
    pub(super) async fn wait(&self, of: &Share) -> Result<Turn<'_>> {
        let (search, turn) = self.begin(of)?;
        let of_caller = turn.acquire_owned().await.map_err(Error::internal)?;
        Ok(Turn { _pass: self.gate.pass(of).await, _of_caller: of_caller, _search: search })
    }

    fn begin(&self, of: &Share) -> Result<(Search<'_>, Arc<Semaphore>)> {
        let mut callers = self.callers();
        let new = || SearchingCaller { turn: Arc::new(Semaphore::new(1)), searches: 0 };
        let caller = callers.entry(of.clone()).or_insert_with(new);
        if caller.searches > limits::SEARCH_WAITING_MAX {
            return Err(Error::new(Reason::TooManyRequests, "as many searches of this caller wait as may")
                .with("limit", limits::SEARCH_WAITING_MAX));
        }
        caller.searches += 1;
        Ok((Search { turns: self, of: of.clone() }, Arc::clone(&caller.turn)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    fn share_of(tenant: &str, token: u8) -> Share {
        Share::new(tenant.into(), token.to_string().into())
    }

    type WaitingSearch<'t> = BoxFuture<'t, Result<Turn<'t>>>;

    /// A search that waits, or was refused.
    fn wait<'t>(turns: &'t SearchTurns, of: &'t Share) -> WaitingSearch<'t> {
        turns.wait(of).boxed()
    }

    /// The turn of a search that has it.
    fn turn_of<'t>(search: &mut WaitingSearch<'t>) -> Option<Turn<'t>> {
        search.now_or_never().map(|turn| turn.expect("room"))
    }

    #[test]
    fn a_caller_has_one_search_at_a_time_and_few_that_wait() {
        let turns = SearchTurns::default();
        let (busy, other) = (share_of("a", 1), share_of("a", 2));
        let running = turn_of(&mut wait(&turns, &busy)).expect("its turn");
        let mut waiting: Vec<_> = (0..limits::SEARCH_WAITING_MAX).map(|_| wait(&turns, &busy)).collect();
        assert!(waiting.iter_mut().all(|search| turn_of(search).is_none()), "a reader is left to others");
        let refused = wait(&turns, &busy).now_or_never().expect("an answer").err().expect("one too many");
        assert_eq!(refused.reason, Reason::TooManyRequests);
        assert!(turn_of(&mut wait(&turns, &other)).is_some());
        drop(running);
        let running = turn_of(&mut waiting[0]).expect("its turn");
        drop(running);
        // Whoever leaves makes room, and holds nothing.
        drop(waiting);
        assert!(turn_of(&mut wait(&turns, &busy)).is_some());
        assert!(turns.callers().is_empty());
    }

    #[test]
    fn tenants_take_turns_and_the_callers_of_a_tenant() {
        let names = [("a", 1), ("a", 1), ("a", 2), ("a", 3), ("b", 1)];
        let shares = names.map(|(tenant, token)| share_of(tenant, token));
        let (turns, busy) = (SearchTurns::default(), [share_of("x", 1), share_of("x", 2)]);
        let mut held: Vec<Turn<'_>> = busy.iter().map(|of| turn_of(&mut wait(&turns, of)).expect("its turn")).collect();
        let mut waiting: Vec<_> = names.into_iter().zip(shares.iter().map(|of| wait(&turns, of))).collect();
        let mut order = Vec::new();
        while !waiting.is_empty() {
            waiting.retain_mut(|(name, search)| match turn_of(search) {
                Some(turn) => {
                    order.push(*name);
                    held.push(turn);
                    false
                }
                None => true,
            });
            held.remove(0);
        }
        assert_eq!(order, [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 1)]);
        drop(held);
        assert!(turns.callers().is_empty());
    }
}

//! Whose turn it is to search the index.
//!
//! A search may take a reader of the index for a second. So each caller has one search that runs and a few that wait, and
//! tenants take turns, and the callers of a tenant.

use super::access::Access;
use super::error::{Error, Reason, Result};
use crate::limits;
use crate::model::ids::AccessTokenId;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Who searches: an access token, or the owner, in a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Searcher {
    tenant: Arc<str>,
    token: Option<AccessTokenId>,
}

impl Searcher {
    pub(super) fn of(access: &Access) -> Self {
        Self { tenant: Arc::clone(&access.tenant), token: access.token }
    }
}

/// The searches of a caller that wait.
type Waiting = VecDeque<oneshot::Sender<Turn>>;

#[derive(Debug, Default)]
struct State {
    running: Vec<Searcher>,
    /// By tenant and caller, in the order in which they are next.
    tenants: VecDeque<VecDeque<(Searcher, Waiting)>>,
}

/// The turns of all callers.
#[derive(Debug, Default, Clone)]
pub(super) struct SearchTurns(Arc<Mutex<State>>);

/// A turn, for as long as it is kept.
#[derive(Debug)]
pub(super) struct Turn {
    turns: SearchTurns,
    /// None once it is given back.
    of: Option<Searcher>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(of) = self.of.take() else { return };
        let mut state = self.turns.state();
        if let Some(at) = state.running.iter().position(|running| *running == of) {
            state.running.swap_remove(at);
        }
        self.turns.grant(&mut state);
    }
}

impl State {
    /// The searches of a caller that wait, without those whose caller has left.
    fn waiting_of(&mut self, of: &Searcher) -> &mut Waiting {
        let tenant = self.tenants.iter().position(|callers| callers.iter().any(|(known, _)| known.tenant == of.tenant));
        let tenant = tenant.unwrap_or_else(|| {
            self.tenants.push_back(VecDeque::new());
            self.tenants.len() - 1
        });
        let callers = &mut self.tenants[tenant];
        let caller = callers.iter().position(|(known, _)| known == of).unwrap_or_else(|| {
            callers.push_back((of.clone(), Waiting::new()));
            callers.len() - 1
        });
        let waiting = &mut callers[caller].1;
        waiting.retain(|search| !search.is_closed());
        waiting
    }

    /// The next search; its tenant and its caller are last then.
    fn next(&mut self) -> Option<(Searcher, oneshot::Sender<Turn>)> {
        let Self { running, tenants } = self;
        let may_run = |(of, waiting): &(Searcher, Waiting)| !waiting.is_empty() && !running.contains(of);
        let at = tenants.iter().position(|callers| callers.iter().any(may_run))?;
        let mut callers = tenants.remove(at)?;
        let (of, mut waiting) = callers.remove(callers.iter().position(may_run)?)?;
        let search = waiting.pop_front()?;
        if !waiting.is_empty() {
            callers.push_back((of.clone(), waiting));
        }
        callers.retain(|(_, waiting)| !waiting.is_empty());
        if !callers.is_empty() {
            tenants.push_back(callers);
        }
        Some((of, search))
    }
}

impl SearchTurns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    ///
    /// # Errors
    ///
    /// `TOO_MANY_REQUESTS` for a caller with too many searches that wait.
    pub(super) async fn wait(&self, of: Searcher) -> Result<Turn> {
        let turn = self.queue(&of)?;
        turn.await.map_err(Error::internal)
    }

    fn queue(&self, of: &Searcher) -> Result<oneshot::Receiver<Turn>> {
        let (sender, turn) = oneshot::channel();
        let mut state = self.state();
        let waiting = state.waiting_of(of);
        if waiting.len() >= limits::SEARCH_WAITING_MAX {
            return Err(Error::new(Reason::TooManyRequests, "as many searches of this caller wait as may")
                .with("limit", limits::SEARCH_WAITING_MAX));
        }
        waiting.push_back(sender);
        self.grant(&mut state);
        Ok(turn)
    }

    /// Gives turns while readers are free.
    fn grant(&self, state: &mut State) {
        while state.running.len() < limits::SEARCH_READERS
            && let Some((of, search)) = state.next()
        {
            match search.send(Turn { turns: self.clone(), of: Some(of.clone()) }) {
                Ok(()) => state.running.push(of),
                // Its caller has left. The state is locked here.
                Err(mut turn) => turn.of = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn searcher(tenant: &str, token: u128) -> Searcher {
        Searcher { tenant: tenant.into(), token: Some(AccessTokenId(Uuid::from_u128(token))) }
    }

    /// The turn of a search that has it.
    fn taken(search: &mut oneshot::Receiver<Turn>) -> Option<Turn> {
        search.try_recv().ok()
    }

    #[test]
    fn a_caller_has_one_search_at_a_time_and_few_that_wait() {
        let turns = SearchTurns::default();
        let (busy, other) = (searcher("a", 1), searcher("a", 2));
        let mut first = turns.queue(&busy).expect("room");
        let running = taken(&mut first).expect("its turn");
        let mut waiting: Vec<_> = (0..limits::SEARCH_WAITING_MAX).map(|_| turns.queue(&busy).expect("room")).collect();
        assert!(waiting.iter_mut().all(|search| taken(search).is_none()), "a reader is left to others");
        let refused = turns.queue(&busy).expect_err("one too many");
        assert_eq!(refused.reason, Reason::TooManyRequests);
        let mut others = turns.queue(&other).expect("room");
        assert!(taken(&mut others).is_some());
        drop(running);
        assert!(taken(&mut waiting[0]).is_some());
        // Whoever leaves makes room, and holds nothing.
        drop(waiting.split_off(1));
        let mut next = turns.queue(&busy).expect("room");
        assert!(taken(&mut next).is_some());
    }

    #[test]
    fn tenants_take_turns_and_the_callers_of_a_tenant() {
        let turns = SearchTurns::default();
        let running: Vec<Turn> = [searcher("x", 1), searcher("x", 2)]
            .iter()
            .map(|of| taken(&mut turns.queue(of).expect("room")).expect("its turn"))
            .collect();
        let mut waiting = Vec::new();
        for token in [1, 1, 2, 3] {
            waiting.push((("a", token), turns.queue(&searcher("a", token)).expect("room")));
        }
        waiting.push((("b", 1), turns.queue(&searcher("b", 1)).expect("room")));
        let mut order = Vec::new();
        let mut held: VecDeque<Turn> = running.into();
        while let Some(done) = held.pop_front() {
            drop(done);
            for (name, search) in &mut waiting {
                if let Some(turn) = taken(search) {
                    order.push(*name);
                    held.push_back(turn);
                }
            }
        }
        assert_eq!(order, [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 1)]);
        assert!(turns.state().running.is_empty() && turns.state().tenants.is_empty());
    }
}

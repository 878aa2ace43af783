//! Bounded memory for data of clients that are not done: answers that are not written, requests that are not answered,
//! views that are not taken.
//!
//! Each holder counts its bytes here until they are gone. If a budget is used up, newcomers wait if they can, and holders
//! without progress for `IDLE_HOLDER_MS` give up, the one without progress for the longest time first. Bytes that exist
//! already and cannot wait are admitted in any case; beyond twice the budget, holders with progress have to give up too.

use crate::limits;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Multiple of the budget up to which holders with progress do not have to give up.
const OVERFULL: usize = 2;

/// A bounded number of bytes, shared by holders.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes_max: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of all holders.
    held: usize,
    /// Bytes of the holders that were asked to give up and have not left yet.
    leaving: usize,
    /// The holders by their turn: the one without progress for the longest time comes first.
    holders: BTreeMap<u64, Holder>,
    next_turn: u64,
    waiting: usize,
}

#[derive(Debug)]
struct Holder {
    bytes: usize,
    /// The last progress.
    since: Instant,
    give_up: CancellationToken,
    /// True if the holder can be asked to give up.
    is_idle: bool,
}

/// A holder's share of the budget, until it is dropped.
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    turn: AtomicU64,
    give_up: CancellationToken,
}

impl State {
    fn fits(&self, bytes: usize, bytes_max: usize) -> bool {
        // A request for more than the budget is admitted alone.
        self.holders.is_empty() || self.held.saturating_add(bytes) <= bytes_max
    }

    /// Makes holders give up until this number of bytes fits, the one without progress for the longest time first.
    fn reclaim(&mut self, bytes: usize, bytes_max: usize) {
        let reserved = self.held - self.leaving;
        let mut wanted = reserved.saturating_add(bytes).saturating_sub(bytes_max);
        // Holders with progress are spared up to a bound.
        let mut urgent = reserved.saturating_sub(bytes_max.saturating_mul(OVERFULL));
        let timeout = Duration::from_millis(limits::IDLE_HOLDER_MS);
        for holder in self.holders.values_mut() {
            if wanted == 0 || (urgent == 0 && holder.since.elapsed() < timeout) {
                return;
            }
            if !holder.is_idle || holder.bytes == 0 {
                continue;
            }
            holder.is_idle = false;
            holder.give_up.cancel();
            self.leaving += holder.bytes;
            wanted = wanted.saturating_sub(holder.bytes);
            urgent = urgent.saturating_sub(holder.bytes);
        }
    }

    /// Moves a holder to the end of the order, because it made progress. Returns its new turn.
    fn touch(&mut self, turn: u64) -> u64 {
        let Some(mut holder) = self.holders.remove(&turn) else { return turn };
        holder.since = Instant::now();
        let turn = self.next_turn;
        self.next_turn += 1;
        self.holders.insert(turn, holder);
        turn
    }
}

impl MemoryBudget {
    /// A budget for this number of bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default(), freed: Notify::new() })
    }

    /// Bytes that are currently held.
    pub fn held_bytes(&self) -> usize {
        self.state().held
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds bytes that exist already, without waiting.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Reservation {
        let mut state = self.state();
        let reservation = self.admit(&mut state, bytes);
        state.reclaim(0, self.bytes_max);
        reservation
    }

    /// Holds bytes if there is room for them. Their holder is never asked to give up.
    pub fn try_hold(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let mut state = self.state();
        let reservation = state.fits(bytes, self.bytes_max).then(|| self.admit(&mut state, bytes))?;
        drop(state);
        reservation.exempt();
        Some(reservation)
    }

    /// Waits for free memory, at most for `wait`; none after that.
    pub async fn wait_for(self: &Arc<Self>, bytes: usize, wait: Duration) -> Option<Reservation> {
        let _waiter = Waiter::enter(self)?;
        tokio::time::timeout(wait, self.admitted(bytes)).await.ok()
    }

    /// Waits for free memory.
    async fn admitted(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.wait_until(bytes, |state| state.fits(bytes, self.bytes_max).then(|| self.admit(state, bytes))).await
    }

    /// Evaluates a condition until it returns a value, again whenever bytes are freed. Meanwhile holders without
    /// progress give up until this number of bytes fits.
    async fn wait_until<T>(&self, bytes: usize, mut condition: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(found) = condition(&mut state) {
                    return found;
                }
                state.reclaim(bytes, self.bytes_max);
            }
            // A holder with progress now may stop soon: evaluate again after a while.
            let recheck_after = Duration::from_millis(limits::IDLE_HOLDER_MS) / 4;
            drop(tokio::time::timeout(recheck_after, freed).await);
        }
    }

    fn admit(self: &Arc<Self>, state: &mut State, bytes: usize) -> Reservation {
        let turn = state.next_turn;
        state.next_turn += 1;
        state.held += bytes;
        let give_up = CancellationToken::new();
        let holder = Holder { bytes, since: Instant::now(), give_up: give_up.clone(), is_idle: true };
        state.holders.insert(turn, holder);
        Reservation { budget: self.clone(), turn: AtomicU64::new(turn), give_up }
    }
}

/// One of a limited number of waiters.
struct Waiter<'a>(&'a MemoryBudget);

impl<'a> Waiter<'a> {
    fn enter(budget: &'a MemoryBudget) -> Option<Self> {
        let mut state = budget.state();
        (state.waiting < limits::MEMORY_WAITERS_MAX).then(|| {
            state.waiting += 1;
            Self(budget)
        })
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

impl Reservation {
    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let state = self.budget.state();
        state.holders.get(&self.turn.load(Ordering::Relaxed)).map_or(0, |holder| holder.bytes)
    }

    /// True if it is one of this budget.
    pub(super) fn is_of(&self, budget: &Arc<MemoryBudget>) -> bool {
        Arc::ptr_eq(&self.budget, budget)
    }

    /// Holds this many bytes instead of fewer, if there is room for them or nobody else holds any.
    pub(super) fn try_grow(&self, bytes: usize) -> bool {
        let mut state = self.budget.state();
        let (others, is_alone) = (state.held, state.holders.len() == 1);
        let Some(holder) = state.holders.get_mut(&self.turn.load(Ordering::Relaxed)) else { return false };
        let more = bytes.saturating_sub(holder.bytes);
        if holder.give_up.is_cancelled() || (others.saturating_add(more) > self.budget.bytes_max && !is_alone) {
            return false;
        }
        holder.bytes += more;
        state.held += more;
        true
    }

    /// Sets the number of bytes that it holds.
    pub fn resize(&self, bytes: usize) {
        self.change(|_| bytes);
    }

    /// Holds more bytes.
    pub fn grow(&self, bytes: usize) {
        self.change(|held| held.saturating_add(bytes));
    }

    /// Holds fewer bytes.
    pub fn shrink(&self, bytes: usize) {
        self.change(|held| held.saturating_sub(bytes));
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut state = self.budget.state();
        let turn = self.turn.load(Ordering::Relaxed);
        let Some(holder) = state.holders.get_mut(&turn) else { return };
        let bytes = change(holder.bytes);
        let before = std::mem::replace(&mut holder.bytes, bytes);
        let leaves = holder.give_up.is_cancelled();
        state.held = state.held - before + bytes;
        if leaves {
            state.leaving = state.leaving - before + bytes;
        }
        if before == 0 {
            // A holder without bytes could not make progress: its idle time starts now.
            self.turn.store(state.touch(turn), Ordering::Relaxed);
        }
        if bytes > before {
            state.reclaim(0, self.budget.bytes_max);
        }
        drop(state);
        if bytes < before {
            self.budget.freed.notify_waiters();
        }
    }

    /// True if the budget is used up and this holder has bytes in it.
    pub fn has_to_wait(&self) -> bool {
        self.has_to_wait_in(&self.budget.state())
    }

    fn has_to_wait_in(&self, state: &State) -> bool {
        let holder = state.holders.get(&self.turn.load(Ordering::Relaxed));
        state.held >= self.budget.bytes_max && holder.is_some_and(|holder| holder.bytes > 0)
    }

    /// True if it has to give up, because others need the memory.
    pub fn is_revoked(&self) -> bool {
        self.give_up.is_cancelled()
    }

    /// Waits while the budget is used up and this holder has bytes in it, at most for `IDLE_HOLDER_MS`, after which it may
    /// add more. A holder without bytes is up to date, and does not wait for others.
    pub async fn wait_while_full(&self) {
        let timeout = Duration::from_millis(limits::IDLE_HOLDER_MS);
        let may_add = |state: &mut State| (!self.has_to_wait_in(state)).then_some(());
        drop(tokio::time::timeout(timeout, self.budget.wait_until(0, may_add)).await);
    }

    /// Records progress.
    pub fn touch(&self) {
        let mut state = self.budget.state();
        self.turn.store(state.touch(self.turn.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// From now on the holder is not asked to give up: it no longer waits for a client.
    pub fn exempt(&self) {
        if let Some(holder) = self.budget.state().holders.get_mut(&self.turn.load(Ordering::Relaxed)) {
            holder.is_idle = false;
        }
    }

    /// Sets the number of bytes, which wait for a client from now on: the holder can be asked to give up again.
    pub fn wait_for_client(&self, bytes: usize) {
        self.touch();
        self.resize(bytes);
        if let Some(holder) = self.budget.state().holders.get_mut(&self.turn.load(Ordering::Relaxed)) {
            holder.is_idle = !holder.give_up.is_cancelled();
        }
    }

    /// Resolves when it has to give up, because others need the memory.
    pub async fn revoked(&self) {
        self.give_up.cancelled().await;
    }
}

/// Prints the size alone: an answer with a reservation would otherwise print all holders.
impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reservation").field(&self.bytes()).finish()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        if let Some(holder) = state.holders.remove(&self.turn.load(Ordering::Relaxed)) {
            state.held -= holder.bytes;
            if holder.give_up.is_cancelled() {
                state.leaving -= holder.bytes;
            }
        }
        drop(state);
        self.budget.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    fn is_revoked(held: &Reservation) -> bool {
        held.give_up.is_cancelled()
    }

    async fn stay_idle() {
        tokio::time::advance(Duration::from_millis(limits::IDLE_HOLDER_MS)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_holder_with_the_oldest_progress_gives_up_first() {
        let budget = MemoryBudget::new(100);
        let (first, second, third) = (budget.hold(40), budget.hold(30), budget.hold(30));
        first.touch();
        stay_idle().await;
        let _fourth = budget.hold(20);
        assert!(is_revoked(&second) && !is_revoked(&first) && !is_revoked(&third));
        let _fifth = budget.hold(5);
        assert!(!is_revoked(&first) && !is_revoked(&third), "what is about to be freed counts as free");
        drop(second);
        assert_eq!(budget.held_bytes(), 95);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_with_progress_gives_up_only_beyond_twice_the_budget() {
        let budget = MemoryBudget::new(100);
        let (first, second) = (budget.hold(90), budget.hold(90));
        assert!(!is_revoked(&first) && !is_revoked(&second));
        let third = budget.hold(30);
        assert!(is_revoked(&first) && !is_revoked(&second) && !is_revoked(&third), "the one that moved longest ago");
        drop(first);
        stay_idle().await;
        second.touch();
        third.grow(1);
        assert!(is_revoked(&third) && !is_revoked(&second), "the one that stands still");
    }

    #[tokio::test(start_paused = true)]
    async fn growth_of_an_empty_reservation_starts_its_idle_time() {
        let budget = MemoryBudget::new(100);
        let answer = budget.hold(0);
        stay_idle().await;
        answer.grow(80);
        let _other = budget.hold(80);
        assert!(!is_revoked(&answer));
        answer.shrink(80);
        assert_eq!(budget.held_bytes(), 80);
    }

    #[tokio::test(start_paused = true)]
    async fn growth_over_a_full_budget_waits_for_the_holders_own_bytes_and_for_a_bounded_time() {
        let budget = MemoryBudget::new(100);
        let (other, mut answers) = (budget.hold(90), Vec::new());
        other.exempt();
        for _ in 0..3 {
            let answer = Arc::new(budget.hold(20));
            answer.exempt();
            answers.push(answer);
        }
        let waiting: Vec<_> = answers
            .iter()
            .map(|answer| {
                let answer = answer.clone();
                tokio::spawn(async move {
                    let began = Instant::now();
                    answer.wait_while_full().await;
                    began.elapsed()
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        answers[1].shrink(20);
        let mut waited = Vec::new();
        for waiting in waiting {
            waited.push(waiting.await.expect("no panic"));
        }
        let timeout = Duration::from_millis(limits::IDLE_HOLDER_MS);
        assert!(waited[1] < timeout && waited[0] >= timeout && waited[2] >= timeout, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_waits_for_holders_with_progress_and_replaces_those_without() {
        let budget = MemoryBudget::new(100);
        let silent = budget.hold(60);
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.wait_for(60, WAIT).await.map(|held| held.budget.held_bytes()) }
        });
        silent.revoked().await;
        drop(silent);
        assert_eq!(waiting.await.expect("no panic"), Some(60));
        let working = budget.hold(60);
        working.exempt();
        assert!(budget.wait_for(60, WAIT).await.is_none(), "what works is not disturbed");
        assert!(!is_revoked(&working));
        assert!(budget.wait_for(40, WAIT).await.is_some());
        working.wait_for_client(50);
        let waiting = budget.wait_for(60, WAIT);
        let (_, waited) = tokio::join!(
            async {
                working.revoked().await;
                drop(working)
            },
            waiting
        );
        assert!(waited.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reservation_above_the_budget_is_granted_alone() {
        let budget = MemoryBudget::new(100);
        let large = budget.wait_for(1_000, WAIT).await.expect("nobody else is there");
        large.exempt();
        assert!(budget.wait_for(1, WAIT).await.is_none());
        large.resize(10);
        assert!(budget.wait_for(90, WAIT).await.is_some());
    }
}

//! A number of passes, for which those who wait take turns by tenant and access token.

use super::queue::Queue;
use super::share::{Share, Tenant};
use foldhash::HashMap;
use futures::task::AtomicWaker;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Passes of one tenant in a row after which it counts as alone: some seconds on a busy machine.
const ALONE: usize = 16_384;

/// A gate that some may have passed at a time.
pub struct Gate {
    count: usize,
    /// The number of passes while several tenants pass, and for a while after.
    shared_count: usize,
    /// True if a tenant without a pass need not wait for other tenants.
    each_tenant_has_one: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those who have passed, by tenant.
    passed: HashMap<Tenant, usize>,
    /// Their sum. More than the gate's count only where each tenant has one.
    sum: usize,
    last: Option<Tenant>,
    /// Passes in a row after which this tenant is alone; 0 if it is.
    until_alone: usize,
    waiting: Queue<Arc<Seat>>,
    is_closed: bool,
}

/// One that waits.
struct Seat {
    tenant: Tenant,
    /// True once it has a pass, or the gate is closed. Written under the lock of the gate.
    is_called: AtomicBool,
    /// True once nobody waits there any more. Used under the lock of the gate.
    is_left: AtomicBool,
    waker: AtomicWaker,
}

/// A pass, until it is dropped.
pub struct Pass<'g> {
    gate: &'g Gate,
    tenant: Tenant,
}

/// A place at a gate, of one that passes it again and again.
pub(super) struct GatePlace {
    gate: Arc<Gate>,
    /// Present while it waits.
    seat: Option<Arc<Seat>>,
}

impl Gate {
    /// A gate with this number of passes.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { count, shared_count: count, each_tenant_has_one: false, state: Mutex::default() })
    }

    /// A gate with this number of passes, and with `shared_count` while several tenants are there, at which nobody waits
    /// for other tenants: one of a tenant that has none passes whatever others have.
    pub fn with_one_for_each_tenant(count: usize, shared_count: usize) -> Arc<Self> {
        Arc::new(Self { count, shared_count, each_tenant_has_one: true, state: Mutex::default() })
    }

    /// A pass, when it is this share's turn; none once the gate is closed.
    pub async fn pass(self: &Arc<Self>, share: &Share) -> Option<Pass<'_>> {
        let mut place = GatePlace::new(self.clone());
        let is_open = std::future::poll_fn(|context| place.poll_pass(share, false, context)).await;
        is_open.then(|| Pass { gate: self, tenant: share.tenant.clone() })
    }

    /// Refuses those who wait, and everybody from now on.
    pub fn close(&self) {
        let mut waiting = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        while let Some((_, seat)) = waiting.pop() {
            seat.call();
        }
    }

    /// True once it is closed.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Takes a pass back, and wakes those who may pass now: several if their tenant is alone from now on.
    fn give_back(&self, tenant: &Tenant) {
        let mut called = Vec::new();
        {
            let mut state = self.state();
            state.leave(tenant);
            while let Some((_, seat)) = self.next_waiter(&mut state, tenant) {
                if !seat.is_left.load(Ordering::Relaxed) {
                    state.enter(&seat.tenant);
                    seat.is_called.store(true, Ordering::Release);
                    called.push(seat);
                }
            }
        }
        for seat in called {
            seat.waker.wake();
        }
    }

    /// The next waiter after one of a tenant has left. Where each tenant has a pass of its own, this tenant gets it
    /// back first if it waits.
    fn next_waiter(&self, state: &mut State, left: &Tenant) -> Option<(Tenant, Arc<Seat>)> {
        if state.waiting.is_empty() {
            return None;
        }
        if self.each_tenant_has_one && !state.passed.contains_key(left) && state.waiting.has_tenant(left) {
            return state.waiting.pop_of(left);
        }
        if state.sum < self.count_now(state) { state.waiting.pop() } else { None }
    }

    /// The number of passes at present.
    fn count_now(&self, state: &State) -> usize {
        if state.until_alone > 0 { self.shared_count } else { self.count }
    }

    /// The state is consistent at any time, so a poisoned lock does no harm.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enter(&mut self, tenant: &Tenant) {
        *self.passed.entry(tenant.clone()).or_default() += 1;
        self.sum += 1;
        if self.last.as_ref() == Some(tenant) {
            self.until_alone = self.until_alone.saturating_sub(1);
        } else if self.last.replace(tenant.clone()).is_some() {
            self.until_alone = ALONE;
        }
    }

    fn leave(&mut self, tenant: &Tenant) {
        self.sum -= 1;
        let Entry::Occupied(mut passed) = self.passed.entry(tenant.clone()) else { return };
        *passed.get_mut() -= 1;
        if *passed.get() == 0 {
            passed.remove();
        }
    }
}

impl Seat {
    fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.gate.give_back(&self.tenant);
    }
}

impl GatePlace {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        Self { gate, seat: None }
    }

    /// True with a pass, which its taker has to wrap ([`Self::pass`]); false if the gate is closed. One that `has_begun`
    /// comes before those of its share that have not.
    pub(super) fn poll_pass(&mut self, share: &Share, has_begun: bool, context: &mut Context<'_>) -> Poll<bool> {
        if let Some(seat) = &self.seat {
            seat.waker.register(context.waker());
            if !seat.is_called.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            self.seat = None;
            return Poll::Ready(!self.gate.is_closed());
        }
        let mut state = self.gate.state();
        if state.is_closed {
            return Poll::Ready(false);
        }
        let has_one = |state: &State| self.gate.each_tenant_has_one && !state.passed.contains_key(&share.tenant);
        if state.sum < self.gate.count_now(&state) || has_one(&state) {
            state.enter(&share.tenant);
            return Poll::Ready(true);
        }
        let seat = Arc::new(Seat {
            tenant: share.tenant.clone(),
            is_called: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        seat.waker.register(context.waker());
        match has_begun {
            true => state.waiting.push_begun(share, seat.clone()),
            false => state.waiting.push(share, seat.clone()),
        }
        drop(state);
        self.seat = Some(seat);
        Poll::Pending
    }

    /// The pass that this place got for a share.
    pub(super) fn pass(&self, share: &Share) -> Pass<'_> {
        Pass { gate: &self.gate, tenant: share.tenant.clone() }
    }
}

impl Drop for GatePlace {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let has_pass = {
            let state = self.gate.state();
            seat.is_left.store(true, Ordering::Relaxed);
            seat.is_called.load(Ordering::Relaxed) && !state.is_closed
        };
        if has_pass {
            self.gate.give_back(&seat.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use proptest::prelude::*;

    fn share(tenant: &str) -> Share {
        Share::new(tenant.into(), "token".into())
    }

    #[test]
    fn passes_go_round_and_who_leaves_is_left_out() {
        let gate = Gate::new(1);
        let (loud, quiet) = (share("loud"), share("quiet"));
        let held = gate.pass(&loud).now_or_never().flatten().expect("one is free");
        let mut of_loud: Vec<_> = (0..1_000).map(|_| Box::pin(gate.pass(&loud))).collect();
        assert!(of_loud.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let mut of_quiet = Box::pin(gate.pass(&quiet));
        assert!((&mut of_quiet).now_or_never().is_none());
        drop(held);
        assert!((&mut of_quiet).now_or_never().is_none(), "one of the other tenant is before it");
        let first = of_loud.remove(0).now_or_never().flatten().expect("its turn");
        // One that waited, and one that was called, leave.
        drop(of_loud.remove(0));
        drop(first);
        let pass = of_quiet.now_or_never().flatten().expect("the next turn");
        drop(pass);
        drop(of_loud);
        assert!(gate.pass(&quiet).now_or_never().flatten().is_some(), "nobody holds anything");
    }

    #[test]
    fn a_gate_that_is_closed_refuses_those_who_wait() {
        let gate = Gate::new(1);
        let of = share("any");
        let held = gate.pass(&of).now_or_never().flatten().expect("one is free");
        let mut waiting = Box::pin(gate.pass(&of));
        assert!((&mut waiting).now_or_never().is_none());
        gate.close();
        assert!(waiting.now_or_never().expect("an answer").is_none());
        drop(held);
        assert!(gate.pass(&of).now_or_never().expect("an answer").is_none());
    }

    #[test]
    fn a_tenant_has_fewer_passes_once_another_one_is_there() {
        let gate = Gate::with_one_for_each_tenant(3, 1);
        let (loud, quiet) = (share("loud"), share("quiet"));
        let of_loud = || gate.pass(&loud).now_or_never().flatten();
        let mut held: Vec<_> = std::iter::from_fn(of_loud).collect();
        assert_eq!(held.len(), 3, "it is alone from the start");
        drop(gate.pass(&quiet).now_or_never().flatten().expect("its own"));
        held.truncate(1);
        assert!(of_loud().is_none(), "the others are there");
        held.clear();
        (0..=ALONE).for_each(|_| drop(of_loud().expect("a pass")));
        assert_eq!(std::iter::from_fn(of_loud).collect::<Vec<_>>().len(), 3, "they left");
    }

    #[test]
    fn those_who_wait_have_all_passes_once_their_tenant_is_alone() {
        let gate = Gate::with_one_for_each_tenant(3, 1);
        let loud = share("loud");
        drop(gate.pass(&share("quiet")).now_or_never().flatten().expect("a pass"));
        let held = gate.pass(&loud).now_or_never().flatten().expect("a pass");
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(gate.pass(&loud))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()), "the other one was there just now");
        gate.state().until_alone = 1;
        drop(held);
        let passed: Vec<_> = waiting.iter_mut().filter_map(|one| one.now_or_never().flatten()).collect();
        assert_eq!(passed.len(), 3);
    }

    #[test]
    fn who_has_none_passes_at_once_where_each_tenant_has_one_and_others_share_the_rest() {
        let gate = Gate::with_one_for_each_tenant(1, 1);
        let (loud, other, quiet) = (share("loud"), share("other"), share("quiet"));
        let of_loud = gate.pass(&loud).now_or_never().flatten().expect("one is free");
        let mut waiting = Box::pin(gate.pass(&loud));
        assert!((&mut waiting).now_or_never().is_none(), "the only one is passed");
        let of_quiet = gate.pass(&quiet).now_or_never().flatten().expect("its own");
        let of_other = gate.pass(&other).now_or_never().flatten().expect("its own");
        let mut more = Box::pin(gate.pass(&other));
        assert!((&mut more).now_or_never().is_none(), "it has one");
        drop(of_quiet);
        assert!((&mut waiting).now_or_never().is_none(), "more have passed than may");
        drop(of_loud);
        let of_loud = waiting.now_or_never().flatten().expect("the own one of its tenant");
        assert!((&mut more).now_or_never().is_none());
        drop(of_loud);
        assert!((&mut more).now_or_never().is_none(), "its tenant has the only one");
        drop(of_other);
        drop(more.now_or_never().flatten().expect("its turn"));
        let state = gate.state();
        assert!(state.sum == 0 && state.passed.is_empty());
    }

    proptest! {
        /// At most as many have passed as may, but for one of each tenant; nobody waits without need; and each token's
        /// are called in their order.
        #[test]
        fn as_many_have_passed_as_may(
            (count, shared_count) in (1_usize..4).prop_flat_map(|count| (Just(count), 1..=count)),
            each_tenant_has_one: bool,
            steps in prop::collection::vec((0_u8..4, 0_u8..2, 0_usize..4), 1..200),
        ) {
            let gate = match each_tenant_has_one {
                true => Gate::with_one_for_each_tenant(count, shared_count),
                false => Gate::new(count),
            };
            let shares: Vec<Share> = (0..4_u8)
                .flat_map(|tenant| (0..2_u8).map(move |token| (tenant, token)))
                .map(|(tenant, token)| Share::new(tenant.to_string().into(), token.to_string().into()))
                .collect();
            let mut passed: Vec<(u8, Pass<'_>)> = Vec::new();
            let mut waiting: Vec<(u8, u8, BoxFuture<'_, Option<Pass<'_>>>)> = Vec::new();
            for (tenant, token, leave) in steps {
                if leave == 0 {
                    waiting.push((tenant, token, gate.pass(&shares[usize::from(tenant * 2 + token)]).boxed()));
                } else if leave == 1 && !waiting.is_empty() {
                    drop(waiting.remove(usize::from(tenant) % waiting.len()));
                } else if !passed.is_empty() {
                    drop(passed.remove(usize::from(tenant) % passed.len()));
                }
                let mut left: Vec<(u8, u8)> = Vec::new();
                for (tenant, token, mut one) in std::mem::take(&mut waiting) {
                    match (&mut one).now_or_never() {
                        Some(pass) => {
                            prop_assert!(!left.contains(&(tenant, token)), "an earlier one of its token waits");
                            passed.push((tenant, pass.expect("it is open")));
                        }
                        None => {
                            left.push((tenant, token));
                            waiting.push((tenant, token, one));
                        }
                    }
                }
                let of = |tenant: u8| passed.iter().filter(|(of, _)| *of == tenant).count();
                let beyond_one: usize = (0..4).map(|tenant| of(tenant).saturating_sub(1)).sum();
                prop_assert!(passed.len() <= count || (each_tenant_has_one && beyond_one < count));
                let least = if each_tenant_has_one { shared_count } else { count };
                prop_assert!(waiting.is_empty() || passed.len() >= least);
                prop_assert!(!each_tenant_has_one || waiting.iter().all(|(tenant, ..)| of(*tenant) > 0));
            }
            drop((waiting, passed));
            let state = gate.state();
            prop_assert!(state.sum == 0 && state.passed.is_empty());
        }
    }
}

//! Calls, and their turns.

use super::gate::{Gate, GatePlace};
use super::room::{Room, TakenRoom};
use super::share::Share;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// The turns of all calls.
pub struct Turns {
    gate: Arc<Gate>,
    calls: Arc<Room>,
}

impl Turns {
    /// Room for `calls` calls. `at_a_time` of them are worked on, `shared` while there are several tenants, and always
    /// one of each tenant.
    pub fn new(at_a_time: usize, shared: usize, calls: usize) -> Self {
        Self { gate: Gate::with_one_for_each_tenant(at_a_time, shared), calls: Room::new(calls) }
    }

    /// The turns of a new call; none if its token or its tenant has too many.
    pub fn begin(&self, share: &Share) -> Option<Turn> {
        let room = self.calls.take(share, 1)?;
        Some(Turn(Arc::new(Call { gate: self.gate.clone(), share: share.clone(), _room: room })))
    }
}

/// The turns of a call. Clones are of the same call, which ends with the last one.
#[derive(Clone)]
pub struct Turn(Arc<Call>);

struct Call {
    gate: Arc<Gate>,
    share: Share,
    _room: TakenRoom,
}

tokio::task_local! {
    /// The call that is worked on.
    static CURRENT: Turn;
}

impl Turn {
    /// Polls a part of the call, only in its turns.
    pub async fn take_turns<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut steps = Steps::new(self);
        std::future::poll_fn(|context| steps.poll(context, |context| work.as_mut().poll(context))).await
    }
}

/// What is done of a call step by step, each in a turn.
pub struct Steps {
    turn: Turn,
    place: GatePlace,
    has_begun: bool,
}

impl Steps {
    /// Steps of a call, before the first one.
    pub fn new(turn: Turn) -> Self {
        Self { place: GatePlace::new(turn.0.gate.clone()), turn, has_begun: false }
    }

    /// Takes a step, when it is the call's turn.
    pub fn poll<T>(&mut self, context: &mut Context<'_>, step: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let Self { turn, place, has_begun } = self;
        if CURRENT.try_with(|current| Arc::ptr_eq(&current.0.gate, &turn.0.gate)).unwrap_or(false) {
            // This call is made within another one, which lends its turn. Waiting for a second turn could deadlock.
            return step(context);
        }
        // The gate of calls is never closed.
        ready!(place.poll_pass(&turn.0.share, *has_begun, context));
        let _pass = place.pass(&turn.0.share);
        *has_begun = true;
        CURRENT.sync_scope(turn.clone(), || step(context))
    }
}

/// The share of the current call; the daemon's own outside of calls.
pub fn share() -> Share {
    CURRENT.try_with(|turn| turn.0.share.clone()).unwrap_or_default()
}

/// True within a call.
pub fn is_call() -> bool {
    CURRENT.try_with(|_| ()).is_ok()
}

/// Starts a task for the current call, in the turns of that call.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    match CURRENT.try_with(Turn::clone) {
        Ok(turn) => tokio::spawn(turn.take_turns(work)),
        Err(_) => tokio::spawn(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::sync::Mutex;

    fn of(tenant: &str) -> Share {
        Share::new(tenant.into(), "token".into())
    }

    /// Waits for something that is there at once.
    async fn wait() {
        let mut is_there = false;
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::replace(&mut is_there, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[tokio::test]
    async fn a_call_waits_for_none_of_another_tenant_and_those_of_a_tenant_go_in_their_order() {
        let turns = Turns::new(1, 1, 10_000);
        let held = turns.gate.pass(&of("loud")).await.expect("the turn");
        let order = Mutex::new(Vec::new());
        let call = |tenant: &'static str, number: usize| {
            let order = &order;
            let turn = turns.begin(&of(tenant)).expect("room");
            Box::pin(turn.take_turns(async move {
                for step in 0..2 {
                    order.lock().expect("an order").push((tenant, number, step));
                    wait().await;
                }
            }))
        };
        let mut calls: Vec<_> = (0..100).map(|number| call("loud", number)).collect();
        assert!(calls.iter_mut().all(|call| call.now_or_never().is_none()), "they wait");
        call("quiet", 0).await;
        drop(held);
        futures::future::join_all(calls).await;
        let order = order.into_inner().expect("an order");
        assert_eq!(order[..2], [("quiet", 0, 0), ("quiet", 0, 1)]);
        let begun =
            order.iter().filter(|(tenant, _, step)| *tenant == "loud" && *step == 0).map(|(_, number, _)| *number);
        assert!(begun.eq(0..100));
        assert_eq!(order.len(), 202);
    }

    #[tokio::test]
    async fn what_a_call_starts_has_its_share_and_a_turn_that_is_lent_ends_with_its_step() {
        let turns = Turns::new(1, 1, 10);
        let turn = turns.begin(&of("one")).expect("room");
        let (inner, nested) = (turn.clone(), turn.clone());
        let (own, of_task, of_inner) = turn
            .take_turns(async {
                let of_task = spawn(async { share() }).await.expect("a task");
                (share(), of_task, inner.take_turns(async { share() }).await)
            })
            .await;
        assert_eq!([own, of_task, of_inner], [of("one"), of("one"), of("one")]);
        assert_eq!(share(), Share::default(), "the daemon's own");
        nested.take_turns(async {}).now_or_never().expect("nobody holds the turn");
    }

    #[test]
    fn a_token_with_its_share_of_calls_in_progress_begins_no_more_and_others_do() {
        let turns = Turns::new(1, 1, 30);
        let mut begun: Vec<Turn> = std::iter::from_fn(|| turns.begin(&of("loud"))).collect();
        assert_eq!(begun.len(), 10);
        assert!(turns.begin(&of("quiet")).is_some());
        begun.pop();
        assert!(turns.begin(&of("loud")).is_some(), "one has ended");
    }
}

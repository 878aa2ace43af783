//! Room in memory for what belongs to clients that are not done: answers that wait to be taken, requests that are not
//! complete.
//!
//! Holders count their bytes here. Where there are too many, the holder without progress for the longest time is told to
//! give up: one that does not move must not stand in the way of those that do.

use crate::limits;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes that may be held together.
#[derive(Debug)]
pub struct Room {
    bytes_max: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of all holders.
    held: usize,
    /// Bytes of those that were told to give up, and are about to.
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
    /// Whether it can be told to give up.
    is_idle: bool,
}

/// A part of the room, until it is dropped.
#[derive(Debug)]
pub struct Held {
    room: Arc<Room>,
    turn: AtomicU64,
    give_up: CancellationToken,
}

impl State {
    fn fits(&self, bytes: usize, bytes_max: usize) -> bool {
        // What is larger than the room comes in alone.
        self.holders.is_empty() || self.held.saturating_add(bytes) <= bytes_max
    }

    /// Has holders give up until the bytes fit, the ones without progress for the longest time first. Holders that moved
    /// after `before` are spared.
    fn make_room(&mut self, bytes: usize, bytes_max: usize, before: Instant, spared: Option<u64>) {
        let mut wanted = (self.held - self.leaving).saturating_add(bytes).saturating_sub(bytes_max);
        for (turn, holder) in &mut self.holders {
            if wanted == 0 || holder.since > before {
                return;
            }
            if !holder.is_idle || Some(*turn) == spared || holder.bytes == 0 {
                continue;
            }
            holder.is_idle = false;
            holder.give_up.cancel();
            self.leaving += holder.bytes;
            wanted = wanted.saturating_sub(holder.bytes);
        }
    }
}

impl Room {
    /// Room for so many bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default(), freed: Notify::new() })
    }

    /// Bytes that are held now.
    pub fn held_bytes(&self) -> usize {
        self.state().held
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds bytes that are there already, without waiting. Where they are too many, other holders give up.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        let mut state = self.state();
        let held = self.admit(&mut state, bytes);
        state.make_room(0, self.bytes_max, Instant::now(), Some(held.turn.load(Ordering::Relaxed)));
        held
    }

    /// Waits for room, but not for longer than `wait`: none then. Holders that have not moved for a while give up
    /// meanwhile.
    pub async fn wait_for(self: &Arc<Self>, bytes: usize, wait: Duration) -> Option<Held> {
        let deadline = Instant::now() + wait;
        let _place = Place::take(self)?;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let look_again = {
                let mut state = self.state();
                if state.fits(bytes, self.bytes_max) {
                    return Some(self.admit(&mut state, bytes));
                }
                let patience = Duration::from_millis(limits::IDLE_HOLDER_MS);
                let now = Instant::now();
                if let Some(before) = now.checked_sub(patience) {
                    state.make_room(bytes, self.bytes_max, before, None);
                }
                now + patience / 4
            };
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep_until(look_again.min(deadline)) => if Instant::now() >= deadline { return None },
            }
        }
    }

    fn admit(self: &Arc<Self>, state: &mut State, bytes: usize) -> Held {
        let turn = state.next_turn;
        state.next_turn += 1;
        state.held += bytes;
        let give_up = CancellationToken::new();
        let holder = Holder { bytes, since: Instant::now(), give_up: give_up.clone(), is_idle: true };
        state.holders.insert(turn, holder);
        Held { room: self.clone(), turn: AtomicU64::new(turn), give_up }
    }
}

/// A place among those that wait.
struct Place<'a>(&'a Room);

impl<'a> Place<'a> {
    fn take(room: &'a Room) -> Option<Self> {
        let mut state = room.state();
        (state.waiting < limits::ROOM_WAITERS_MAX).then(|| {
            state.waiting += 1;
            Self(room)
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

impl Held {
    /// Changes what is held.
    pub fn resize(&self, bytes: usize) {
        let mut state = self.room.state();
        let Some(holder) = state.holders.get_mut(&self.turn.load(Ordering::Relaxed)) else { return };
        let before = std::mem::replace(&mut holder.bytes, bytes);
        let leaves = holder.give_up.is_cancelled();
        state.held = state.held - before + bytes;
        if leaves {
            state.leaving = state.leaving - before + bytes;
        }
        drop(state);
        if bytes < before {
            self.room.freed.notify_waiters();
        }
    }

    /// Notes progress.
    pub fn touch(&self) {
        let mut state = self.room.state();
        let Some(mut holder) = state.holders.remove(&self.turn.load(Ordering::Relaxed)) else { return };
        let turn = state.next_turn;
        state.next_turn += 1;
        self.turn.store(turn, Ordering::Relaxed);
        holder.since = Instant::now();
        state.holders.insert(turn, holder);
    }

    /// From here on it is not told to give up: nobody outside keeps it waiting.
    pub fn settle(&self) {
        if let Some(holder) = self.room.state().holders.get_mut(&self.turn.load(Ordering::Relaxed)) {
            holder.is_idle = false;
        }
    }

    /// So many bytes are left, and wait for a client: it can be told to give up again.
    pub fn wait_for_client(&self, bytes: usize) {
        self.resize(bytes);
        self.touch();
        if let Some(holder) = self.room.state().holders.get_mut(&self.turn.load(Ordering::Relaxed)) {
            holder.is_idle = !holder.give_up.is_cancelled();
        }
    }

    /// Resolves when it has to give up, because others need the room.
    pub async fn has_to_give_up(&self) {
        self.give_up.cancelled().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.room.state();
        if let Some(holder) = state.holders.remove(&self.turn.load(Ordering::Relaxed)) {
            state.held -= holder.bytes;
            if holder.give_up.is_cancelled() {
                state.leaving -= holder.bytes;
            }
        }
        drop(state);
        self.room.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    fn gives_up(held: &Held) -> bool {
        held.give_up.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn the_holder_without_progress_for_the_longest_time_gives_up_first() {
        let room = Room::new(100);
        let (first, second, third) = (room.hold(40), room.hold(30), room.hold(30));
        first.touch();
        let _fourth = room.hold(20);
        assert!(gives_up(&second) && !gives_up(&first) && !gives_up(&third));
        let _fifth = room.hold(5);
        assert!(!gives_up(&first) && !gives_up(&third), "what is about to be freed counts as free");
        drop(second);
        assert_eq!(room.held_bytes(), 95);
    }

    #[tokio::test(start_paused = true)]
    async fn who_needs_room_waits_for_those_that_move_and_not_for_those_that_do_not() {
        let room = Room::new(100);
        let silent = room.hold(60);
        let waiting = tokio::spawn({
            let room = room.clone();
            async move { room.wait_for(60, WAIT).await.map(|held| held.room.held_bytes()) }
        });
        silent.has_to_give_up().await;
        drop(silent);
        assert_eq!(waiting.await.expect("no panic"), Some(60));
        let working = room.hold(60);
        working.settle();
        assert!(room.wait_for(60, WAIT).await.is_none(), "what works is not disturbed");
        assert!(!gives_up(&working));
        assert!(room.wait_for(40, WAIT).await.is_some());
        working.wait_for_client(50);
        let waiting = room.wait_for(60, WAIT);
        let (_, waited) = tokio::join!(
            async {
                working.has_to_give_up().await;
                drop(working)
            },
            waiting
        );
        assert!(waited.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_larger_than_the_room_comes_in_alone() {
        let room = Room::new(100);
        let large = room.wait_for(1_000, WAIT).await.expect("nobody else is there");
        large.settle();
        assert!(room.wait_for(1, WAIT).await.is_none());
        large.resize(10);
        assert!(room.wait_for(90, WAIT).await.is_some());
    }
}

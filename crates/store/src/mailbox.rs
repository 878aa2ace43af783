//! The writer's mailbox: mutations, by turns of those who send them, and signs that there is other work.

use crate::turns::{Queue, Share, Tenant};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// The content of a mailbox.
struct State<T> {
    letters: Queue<T>,
    /// True if its owner is to look after something.
    is_rung: bool,
    /// True once nothing more comes in.
    is_closed: bool,
}

struct Mailbox<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// The sending side. The mailbox closes with the last sender.
pub(super) struct Sender<T>(Arc<Slot<T>>);

/// A sender that does not keep the mailbox open.
pub(super) struct Bell<T>(Weak<Slot<T>>);

struct Slot<T>(Arc<Mailbox<T>>);

/// The receiving side. Dropping it closes and empties the mailbox.
pub(super) struct Receiver<T> {
    mailbox: Arc<Mailbox<T>>,
    /// The tenant whose letter was taken last.
    last: Tenant,
}

/// What was taken out at once.
pub(super) struct Batch<T> {
    pub(super) letters: Vec<T>,
    /// True if its owner is to look after something.
    pub(super) is_rung: bool,
    /// True if it is of several tenants, or of another one than the last batch.
    pub(super) is_shared: bool,
}

pub(super) fn mailbox<T>() -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { letters: Queue::default(), is_rung: false, is_closed: false });
    let mailbox = Arc::new(Mailbox { state, changed: Condvar::new() });
    (Sender(Arc::new(Slot(mailbox.clone()))), Receiver { mailbox, last: None })
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Mailbox<T> {
    /// The state is consistent at any time, so a poisoned lock does no harm.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        change(&mut self.state());
        self.changed.notify_one();
    }
}

impl<T> Sender<T> {
    /// Puts a letter in, on behalf of a share. False if the mailbox is closed.
    pub(super) fn send(&self, share: &Share, letter: T) -> bool {
        let mut state = self.0.0.state();
        if state.is_closed {
            return false;
        }
        state.letters.push(share, letter);
        drop(state);
        self.0.0.changed.notify_one();
        true
    }

    /// A sender that does not keep the mailbox open.
    pub(super) fn bell(&self) -> Bell<T> {
        Bell(Arc::downgrade(&self.0))
    }
}

impl<T> Bell<T> {
    /// Wakes the owner for other work, unless no sender is left.
    pub(super) fn ring(&self) {
        if let Some(slot) = self.0.upgrade() {
            slot.0.change(|state| state.is_rung = true);
        }
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = true);
    }
}

impl<T> Receiver<T> {
    /// Takes as many letters as `most` says for the number of tenants that have some, and may wait for some, which blocks
    /// its thread; none once the mailbox is closed and empty.
    pub(super) fn take_batch(&mut self, waits: bool, most: impl FnOnce(usize) -> usize) -> Option<Batch<T>> {
        let mut state = self.mailbox.state();
        while waits && state.letters.is_empty() && !state.is_rung && !state.is_closed {
            state = self.mailbox.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.letters.is_empty() && !state.is_rung && state.is_closed {
            return None;
        }
        let most = most(state.letters.tenants());
        let mut batch = Batch { letters: Vec::new(), is_rung: std::mem::take(&mut state.is_rung), is_shared: false };
        while batch.letters.len() < most
            && let Some((tenant, letter)) = state.letters.pop()
        {
            // Letters of the daemon itself do not make a batch shared.
            if tenant.is_some() && tenant != self.last {
                batch.is_shared |= self.last.is_some();
                self.last = tenant;
            }
            batch.letters.push(letter);
        }
        Some(batch)
    }

    /// Lets nothing more in. What is in it can still be taken.
    pub(super) fn close(&self) {
        self.mailbox.state().is_closed = true;
    }

    /// True if no letter waits.
    pub(super) fn is_empty(&self) -> bool {
        self.mailbox.state().letters.is_empty()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let letters = {
            let mut state = self.mailbox.state();
            state.is_closed = true;
            std::mem::take(&mut state.letters)
        };
        // Their senders hear of it, outside of the lock.
        drop(letters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(tenant: &str) -> Share {
        Share::new(tenant.into(), "token".into())
    }

    #[test]
    fn a_tenant_s_mutation_is_in_the_next_batch_whatever_another_one_has_queued() {
        let (sender, mut receiver) = mailbox();
        for number in 0..1_000 {
            assert!(sender.send(&share("loud"), number));
        }
        let batch = receiver.take_batch(true, |tenants| 3 * tenants).expect("letters");
        assert!(batch.letters == [0, 1, 2] && !batch.is_shared);
        assert!(sender.send(&share("quiet"), 5_000));
        let batch = receiver.take_batch(true, |tenants| 2 * tenants).expect("letters");
        assert!(batch.letters.contains(&5_000) && batch.is_shared, "{:?}", batch.letters);
        assert_eq!(batch.letters.len(), 4, "and the loud one has the rest of it");
        assert!(sender.send(&Share::default(), 9_000));
        let batch = receiver.take_batch(true, |tenants| tenants).expect("letters");
        assert!(!batch.is_shared, "the daemon's own work is no other tenant's: {:?}", batch.letters);
    }

    #[test]
    fn the_owner_is_called_for_what_it_has_to_look_after_and_at_the_end() {
        let (sender, mut receiver) = mailbox::<i32>();
        let bell = sender.bell();
        bell.ring();
        bell.ring();
        let batch = receiver.take_batch(true, |_| 10).expect("a sign");
        assert!(batch.is_rung && batch.letters.is_empty());
        let other = sender.clone();
        assert!(sender.send(&Share::default(), 1));
        drop(sender);
        assert!(other.send(&Share::default(), 2));
        receiver.close();
        assert!(!other.send(&Share::default(), 3), "it is closed");
        drop(other);
        bell.ring();
        assert_eq!(receiver.take_batch(true, |_| 10).expect("what was in it").letters, [1, 2]);
        assert!(receiver.take_batch(true, |_| 10).is_none());
    }
}

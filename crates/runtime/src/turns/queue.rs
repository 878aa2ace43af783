//! Those who wait, in rounds: each round takes one of every tenant that waits, by turns of its access tokens.

use super::share::{Share, Tenant};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// Waiters in rounds. However many one access token has, another tenant waits for at most one of them a round.
pub struct Queue<T> {
    tenants: Ring<Tenant, Ring<Arc<str>, Line<T>>>,
}

/// What waits with one access token.
struct Line<T> {
    /// Waiters that have begun come before the others.
    begun: VecDeque<T>,
    others: VecDeque<T>,
}

/// Keys that take turns, with what waits for each.
struct Ring<K, V> {
    order: VecDeque<K>,
    waiting: HashMap<K, V>,
}

impl<K, V> Default for Ring<K, V> {
    fn default() -> Self {
        Self { order: VecDeque::new(), waiting: HashMap::new() }
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { begun: VecDeque::new(), others: VecDeque::new() }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { tenants: Ring::default() }
    }
}

impl<K: Clone + Eq + Hash, V: Default> Ring<K, V> {
    /// The waiters of a key. A key without waiters joins the order at its end.
    fn entry(&mut self, key: &K) -> &mut V {
        if !self.waiting.contains_key(key) {
            self.order.push_back(key.clone());
        }
        self.waiting.entry(key.clone()).or_default()
    }

    /// Takes from the key whose turn it is. The key then moves to the end of the order, or leaves it without waiters.
    fn take_next<T>(
        &mut self,
        take: impl FnOnce(&mut V) -> Option<T>,
        is_empty: impl FnOnce(&V) -> bool,
    ) -> Option<(K, T)> {
        let key = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&key)?;
        let taken = take(waiting);
        if is_empty(waiting) {
            self.waiting.remove(&key);
        } else {
            self.order.push_back(key.clone());
        }
        taken.map(|taken| (key, taken))
    }
}

impl<T> Line<T> {
    fn take_first(&mut self) -> Option<T> {
        self.begun.pop_front().or_else(|| self.others.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.others.is_empty()
    }
}

impl<T> Queue<T> {
    /// Adds one that waits, behind those of its access token.
    pub fn push(&mut self, share: &Share, one: T) {
        self.tenants.entry(&share.tenant).entry(&share.token).others.push_back(one);
    }

    /// Adds one that has begun and goes on, before those of its access token that have not.
    pub fn push_begun(&mut self, share: &Share, one: T) {
        self.tenants.entry(&share.tenant).entry(&share.token).begun.push_back(one);
    }

    /// The next one, and its tenant.
    pub fn pop(&mut self) -> Option<(Tenant, T)> {
        self.tenants.take_next(Self::next_of, |tokens| tokens.order.is_empty())
    }

    /// The next one of a tenant, which then comes last.
    pub fn pop_of(&mut self, tenant: &Tenant) -> Option<(Tenant, T)> {
        let place = self.tenants.order.iter().position(|waits| waits == tenant)?;
        let tenant = self.tenants.order.remove(place)?;
        self.tenants.order.push_front(tenant);
        self.pop()
    }

    fn next_of(tokens: &mut Ring<Arc<str>, Line<T>>) -> Option<T> {
        let (_, one) = tokens.take_next(Line::take_first, Line::is_empty)?;
        Some(one)
    }

    /// True if one of a tenant waits.
    pub fn has_tenant(&self, tenant: &Tenant) -> bool {
        self.tenants.waiting.contains_key(tenant)
    }

    /// The number of tenants that wait: of a round.
    pub fn tenants(&self) -> usize {
        self.tenants.order.len()
    }

    /// True if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.tenants.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn share((tenant, token): (u8, u8)) -> Share {
        Share::new(tenant.to_string().into(), token.to_string().into())
    }

    #[test]
    fn a_round_takes_one_of_every_tenant_by_turns_of_its_tokens() {
        let mut queue = Queue::default();
        for number in 0..100 {
            queue.push(&share((1, 1)), (1, 1, number));
        }
        queue.push(&share((1, 2)), (1, 2, 0));
        queue.push(&share((2, 1)), (2, 1, 0));
        queue.push(&Share::default(), (0, 0, 0));
        let first: Vec<_> = (0..6).filter_map(|_| queue.pop()).map(|(_, one)| one).collect();
        assert_eq!(first, [(1, 1, 0), (2, 1, 0), (0, 0, 0), (1, 2, 0), (1, 1, 1), (1, 1, 2)]);
        queue.push_begun(&share((1, 1)), (1, 1, 1_000));
        assert_eq!(queue.pop().map(|(_, one)| one), Some((1, 1, 1_000)), "what has begun goes on first");
    }

    proptest! {
        /// However much others have in the queue, nobody waits for more than one round of the tenants, and within a
        /// tenant for more than one of its tokens; and each token's are in order.
        #[test]
        fn nobody_waits_for_more_than_a_round(
            pushed in prop::collection::vec(((0_u8..5, 0_u8..4), 0_usize..3), 1..200),
        ) {
            let mut queue = Queue::default();
            let mut waiting: BTreeMap<(u8, u8), VecDeque<usize>> = BTreeMap::new();
            // Who waits, and who had a turn since the last one of that one.
            let (mut passed, mut passed_tokens) = (BTreeSet::new(), BTreeSet::new());
            for (number, (of, pops)) in pushed.into_iter().enumerate() {
                queue.push(&share(of), (of, number));
                waiting.entry(of).or_default().push_back(number);
                for _ in 0..pops {
                    let Some((_, (of, number))) = queue.pop() else { break };
                    prop_assert_eq!(waiting.get_mut(&of).and_then(VecDeque::pop_front), Some(number), "in order");
                    waiting.retain(|_, left| !left.is_empty());
                    passed.retain(|(who, _)| *who != of.0);
                    passed_tokens.retain(|(who, _)| *who != of);
                    let others: BTreeSet<u8> = waiting.keys().map(|(tenant, _)| *tenant).filter(|who| *who != of.0).collect();
                    for other in others {
                        prop_assert!(passed.insert((other, of.0)), "{} had two turns before {}", of.0, other);
                    }
                    for other in waiting.keys().filter(|who| who.0 == of.0 && **who != of) {
                        prop_assert!(passed_tokens.insert((*other, of)), "{:?} had two turns before {:?}", of, other);
                    }
                }
            }
            while queue.pop().is_some() {}
            prop_assert!(queue.is_empty());
        }
    }
}

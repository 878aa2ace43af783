//! The views that were shortened for one call, by their hashes.
//!
//! A provider reports usage of what it was given. When that was a shortened view, the figure is no measure of the view
//! that the session has, and must not stand for it. The hashes are kept in memory: a reply that outlives the daemon is
//! taken for one to the whole view.

use crate::limits;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Hashes of shortened views, the newest of them.
#[derive(Default)]
pub(super) struct ShortenedViews {
    hashes: Mutex<Hashes>,
}

#[derive(Default)]
struct Hashes {
    known: HashSet<[u8; 32]>,
    /// The same, the oldest first.
    order: VecDeque<[u8; 32]>,
}

impl ShortenedViews {
    /// Keeps a hash, and forgets the oldest when there are too many.
    pub(super) fn remember(&self, hash: [u8; 32]) {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if !hashes.known.insert(hash) {
            // It was handed out again, so it counts as new.
            hashes.order.retain(|other| *other != hash);
        }
        hashes.order.push_back(hash);
        if hashes.order.len() > limits::SHORTENED_VIEWS_MAX
            && let Some(oldest) = hashes.order.pop_front()
        {
            hashes.known.remove(&oldest);
        }
    }

    /// Whether a view with this hash was a shortened one.
    pub(super) fn contains(&self, hash: &[u8]) -> bool {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner).known.contains(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> [u8; 32] {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    #[test]
    fn the_oldest_is_forgotten_and_what_is_handed_out_again_is_new() {
        let views = ShortenedViews::default();
        for number in 0..limits::SHORTENED_VIEWS_MAX {
            views.remember(hash(number));
        }
        views.remember(hash(0));
        assert!(views.contains(&hash(1)));
        views.remember(hash(limits::SHORTENED_VIEWS_MAX));
        assert!(!views.contains(&hash(1)));
        assert!(views.contains(&hash(0)) && views.contains(&hash(limits::SHORTENED_VIEWS_MAX)));
        assert_eq!(views.hashes.lock().expect("no panic").order.len(), limits::SHORTENED_VIEWS_MAX);
    }
}

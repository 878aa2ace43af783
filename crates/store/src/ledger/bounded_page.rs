//! Pages of entries that may be large.

use crate::limits;

/// The entries of a page, bounded in number and in bytes. The first one always has room.
pub(crate) struct BoundedPage<T> {
    pub(crate) entries: Vec<T>,
    most: usize,
    bytes: usize,
}

impl<T> BoundedPage<T> {
    /// An empty page of at most this many entries.
    pub(crate) fn new(limit: i64) -> Self {
        Self { entries: Vec::new(), most: usize::try_from(limit).unwrap_or(usize::MAX), bytes: 0 }
    }

    /// Adds an entry with its bytes; false if the page has no room for it.
    pub(crate) fn add(&mut self, entry: T, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let is_full = self.entries.len() == self.most || self.bytes > limits::PAGE_BYTES_MAX;
        if is_full && !self.entries.is_empty() {
            return false;
        }
        self.entries.push(entry);
        true
    }
}

//! The merge of the bytes of a piece to tokens.

use super::pauses::Pauses;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Joins the bytes of a piece to tokens: always the adjacent pair whose union has the lowest rank, and the first of
/// equals. The buffers are reused for the next piece.
#[derive(Debug, Default)]
pub(super) struct Merger {
    /// For the first byte of each current part, the end of the part.
    ends: Vec<usize>,
    /// For the first byte of each current part, the first byte of the previous part.
    before: Vec<usize>,
    /// For the first byte of each current part, the rank of its union with the next part; none if that is no token.
    unions: Vec<Option<u32>>,
    /// Unions at the time they were added: rank, and the first byte. Those that differ from `unions` are outdated.
    queue: BinaryHeap<Reverse<(u32, usize)>>,
    pauses: Pauses,
}

impl Merger {
    /// Calls `emit` with the end of each token of a piece that is not empty; `rank_of` has the ranks of the tokens.
    pub(super) fn each_end(
        &mut self,
        piece: &[u8],
        rank_of: impl Fn(&[u8]) -> Option<u32>,
        mut emit: impl FnMut(usize),
    ) {
        self.pauses.pass(piece.len());
        // Most pieces are one token.
        if rank_of(piece).is_some() {
            return emit(piece.len());
        }
        self.begin(piece, &rank_of);
        while let Some(Reverse((rank, start))) = self.queue.pop() {
            self.pauses.pass(1);
            // One of the two parts may have been joined to another one since.
            if self.unions[start] != Some(rank) {
                continue;
            }
            let middle = self.ends[start];
            let end = self.ends[middle];
            self.ends[start] = end;
            self.unions[middle] = None;
            if end < piece.len() {
                self.before[end] = start;
            }
            self.update(piece, start, &rank_of);
            if start > 0 {
                self.update(piece, self.before[start], &rank_of);
            }
        }
        let mut end = 0;
        while end < piece.len() {
            end = self.ends[end];
            emit(end);
        }
    }

    /// Makes each byte a part.
    fn begin(&mut self, piece: &[u8], rank_of: &impl Fn(&[u8]) -> Option<u32>) {
        self.ends.clear();
        self.ends.extend(1..=piece.len());
        self.before.clear();
        self.before.extend((0..piece.len()).map(|start| start.saturating_sub(1)));
        self.unions.clear();
        let pauses = &mut self.pauses;
        self.unions.extend(piece.windows(2).map(|pair| {
            pauses.pass(1);
            rank_of(pair)
        }));
        self.unions.push(None);
        // To make a heap of all unions is faster than to add one after the other.
        let mut queue = std::mem::take(&mut self.queue).into_vec();
        queue.clear();
        let unions = self.unions.iter().enumerate();
        queue.extend(unions.filter_map(|(start, rank)| rank.map(|rank| Reverse((rank, start)))));
        self.queue = queue.into();
    }

    /// Determines the union of the part that starts at `start` with the next one.
    fn update(&mut self, piece: &[u8], start: usize, rank_of: &impl Fn(&[u8]) -> Option<u32>) {
        let middle = self.ends[start];
        let rank = self.ends.get(middle).and_then(|end| rank_of(&piece[start..*end]));
        self.unions[start] = rank;
        if let Some(rank) = rank {
            self.queue.push(Reverse((rank, start)));
        }
    }
}

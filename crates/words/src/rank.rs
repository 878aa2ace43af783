//! The order of hits: how much each of a query's clues says for a part.
//!
//! BM25 over all clues that a part has: a rare one says more, and so does one that a part has often, or that a short part
//! has. The statistics are those of all parts of a tenant, in all shards, so that a part's score does not depend on where
//! it is.

/// How fast further occurrences of a clue say less.
const SATURATION: f64 = 1.2;
/// How much the length of a part counts. The usual 0.75 prefers short answers in dialogues too much: see the figures.
const LENGTH: f64 = 0.6;

/// What is counted in all parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The parts.
    pub parts: u64,
    /// Their words.
    pub words: u64,
    /// The parts that have each clue of a query.
    pub having: Vec<u64>,
}

/// What clues say, by statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    rarity: Vec<f64>,
    length: f64,
}

impl Scores {
    /// By these statistics.
    pub fn from_statistics(statistics: &Statistics) -> Self {
        let parts = statistics.parts.max(1) as f64;
        let rarity = |having: &u64| {
            let having = (*having as f64).min(parts);
            ((parts - having + 0.5) / (having + 0.5)).ln_1p()
        };
        let length = (statistics.words as f64 / parts).max(1.0);
        Self { rarity: statistics.having.iter().map(rarity).collect(), length }
    }

    /// What a clue says for a part of some words that has it so often: in millionths, one at least, so that sums are the
    /// same in every order.
    pub fn score(&self, clue: usize, often: u32, words: u32) -> u64 {
        let length = 1.0 - LENGTH + LENGTH * f64::from(words) / self.length;
        self.weighted(clue, often, length)
    }

    /// The most that it says, for a part of any length.
    pub fn score_max(&self, clue: usize, often: u32) -> u64 {
        self.weighted(clue, often, 1.0 - LENGTH)
    }

    fn weighted(&self, clue: usize, often: u32, length: f64) -> u64 {
        let often = f64::from(often);
        let rarity = self.rarity.get(clue).copied().unwrap_or_default();
        let score = rarity * often * (SATURATION + 1.0) / (often + SATURATION * length);
        // Below 50 millions: a rarity is a logarithm of a count.
        (score * 1e6).round().max(1.0) as u64
    }
}

/// The place of a part among others, ascending: first those with all terms, then those with all quotations, then by score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// It has every term of the query.
    pub has_all: bool,
    /// It has every quotation.
    pub has_quotations: bool,
    /// The sum of what its clues say.
    pub score: u64,
}

//! Words of texts, for full-text search: what a text is indexed by, and what a query looks for.
//!
//! Everything that decides what is found is here, and the same for texts and queries: [`cut()`] has the words of a text
//! with their places in it, [`Query`] the terms of a query and the clues by which it finds, [`Scores`] what a clue says for
//! a text, and [`fn@snippet`] the passage of a text that shows them. An index only has to know words, their order and three
//! columns.

mod cut;
mod query;
mod rank;
mod snippet;
mod stem;
#[cfg(test)]
mod tests;

pub use cut::{Column, Form, cut, cut_unstemmed, tool};
pub use query::{Query, QueryError, Term};
pub use rank::{Rank, Scores, Statistics};
pub use snippet::{Snippet, snippet};
pub use stem::stem;

//! A transcript in one piece, for summarizers that are asked only once.

use super::chunks::{chunks, condensed};
use super::data::GAP;
use super::transcript::{Detail, entries};
use crate::model::view::SourceMessage;
use crate::policy::Transcript;

/// Number of pieces to keep if not even the shortest transcript fits: the first, and the newest.
const PARTS_MAX: usize = 4;
const PARTS: i64 = 4;

/// The transcript in one piece of about `room` tokens at most: with shorter outputs if needed, and in the end without
/// the middle of long entries or the pieces between its beginning and its end.
pub fn whole(rules: &Transcript, messages: &[&SourceMessage], room: i64) -> String {
    let mut least = Vec::new();
    for detail in Detail::levels(rules) {
        least = entries(rules, detail, messages);
        if chunks(&least, room).len() <= 1 {
            return least.join(GAP);
        }
    }
    condensed(&least, room / PARTS, PARTS_MAX).join(GAP)
}

//! A transcript in one piece, for who is asked once.

use super::{Detail, GAP, Style, chunks, condensed, entries};
use crate::model::view::SourceMessage;

/// Where not even the shortest transcript fits, it is made of so many parts: the first, and the newest.
const PARTS_MAX: usize = 4;
const PARTS: i64 = 4;

/// The transcript in one piece that weighs about `room` at most: with shorter outputs if need be, and in the end without
/// the middle of long entries or a stretch between its beginning and its end.
pub fn whole(style: Style, messages: &[&SourceMessage], room: i64) -> String {
    for detail in Detail::LADDER {
        let texts = entries(style, detail, messages);
        if chunks(&texts, room).len() <= 1 {
            return texts.join(GAP);
        }
    }
    condensed(&entries(style, Detail::LEAST, messages), room / PARTS, PARTS_MAX).join(GAP)
}

//! What is known of each entry beside its words: rows of some entries each, in the order of their numbers.

use super::block::{damaged, put_number, take_number};
use crate::error::Result;
use crate::model::Revision;
use crate::model::message::Role;
use crate::model::session::SessionKey;

pub(super) const ROW_ENTRIES: usize = 64;

/// What is known of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownEntry {
    pub(super) id: i64,
    pub(super) tenant: u32,
    pub(super) owner: SessionKey,
    /// The revision of its message.
    pub(super) message: Revision,
    /// The number of the part in the message.
    pub(super) number: u16,
    /// When it was written, elsewhere or here: microseconds since 1970.
    pub(super) time: i64,
    /// The number of the message's role.
    pub(super) role: u8,
    /// The number of the part's kind.
    pub(super) kind: u8,
    /// True if Longhand derived the message.
    pub(super) is_derived: bool,
    /// Its whole words.
    pub(super) words: u32,
}

/// The number of a role in the index.
pub(super) fn role_number(role: Role) -> u8 {
    match role {
        Role::User => 1,
        Role::Assistant => 2,
        Role::Tool => 3,
        Role::System => 4,
    }
}

/// Numbers near zero are short, also below it.
fn put_difference(out: &mut Vec<u8>, one: i64, before: i64) {
    let difference = one.wrapping_sub(before);
    put_number(out, (difference << 1 ^ difference >> 63).cast_unsigned());
}

fn take_difference(bytes: &mut &[u8], before: i64) -> Result<i64> {
    let number = take_number(bytes)?;
    Ok(before.wrapping_add((number >> 1).cast_signed() ^ -(number & 1).cast_signed()))
}

/// The row of some entries, of which there is one at least.
pub(super) fn encode(entries: &[KnownEntry]) -> Vec<u8> {
    let (mut row, mut before) = (Vec::with_capacity(entries.len() * 12), ZERO);
    for entry in entries {
        put_difference(&mut row, entry.id, before.id);
        put_number(&mut row, u64::from(entry.tenant));
        put_difference(&mut row, entry.owner.0, before.owner.0);
        put_difference(&mut row, entry.message, before.message);
        put_number(&mut row, u64::from(entry.number));
        put_difference(&mut row, entry.time, before.time);
        put_number(&mut row, u64::from(entry.kind) << 4 | u64::from(entry.role) << 1 | u64::from(entry.is_derived));
        put_number(&mut row, u64::from(entry.words));
        before = *entry;
    }
    row
}

const ZERO: KnownEntry = KnownEntry {
    id: 0,
    tenant: 0,
    owner: SessionKey(0),
    message: 0,
    number: 0,
    time: 0,
    role: 0,
    kind: 0,
    is_derived: false,
    words: 0,
};

/// The entries of a row.
pub(super) fn decode(mut row: &[u8]) -> Result<Vec<KnownEntry>> {
    let (mut entries, mut before) = (Vec::with_capacity(ROW_ENTRIES), ZERO);
    while !row.is_empty() {
        let small = |number: u64| u32::try_from(number).map_err(|_| damaged("a number of an entry is too large"));
        let id = take_difference(&mut row, before.id)?;
        let tenant = small(take_number(&mut row)?)?;
        let owner = SessionKey(take_difference(&mut row, before.owner.0)?);
        let message = take_difference(&mut row, before.message)?;
        let number = u16::try_from(take_number(&mut row)?).map_err(|_| damaged("the number of a part is too large"))?;
        let time = take_difference(&mut row, before.time)?;
        let flags = u8::try_from(take_number(&mut row)?).map_err(|_| damaged("the kind of a part is too large"))?;
        let words = small(take_number(&mut row)?)?;
        before = KnownEntry {
            id,
            tenant,
            owner,
            message,
            number,
            time,
            role: flags >> 1 & 7,
            kind: flags >> 4,
            is_derived: flags & 1 != 0,
            words,
        };
        entries.push(before);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_read_as_they_were_written(
            numbers in prop::collection::vec((any::<[i64; 4]>(), any::<(u32, u16, u32)>(), any::<bool>()), 1..9),
        ) {
            let of = |([id, owner, message, time], (tenant, number, words), is_derived): &([i64; 4], (u32, u16, u32), bool)| {
                let role = (words % 5) as u8;
                let (tenant, number, words, is_derived) = (*tenant, *number, *words, *is_derived);
                let (id, owner, message, time) = (*id, SessionKey(*owner), *message, *time);
                KnownEntry { id, tenant, owner, message, number, time, role, kind: 7, is_derived, words }
            };
            let entries: Vec<KnownEntry> = numbers.iter().map(of).collect();
            let row = encode(&entries);
            prop_assert_eq!(decode(&row).expect("a row"), entries);
            // What is cut off is no row.
            prop_assert!((1..8).all(|end| decode(&row[..end]).is_err()));
        }
    }
}

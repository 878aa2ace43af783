//! Messages that are read together before they are asked for.

use super::ancestry::AsOf;
use super::messages::{Budget, FoundMessage, fill_parts, select_message};
use crate::engine::{self, List, Reader};
use crate::error::Result;
use crate::model::ids::MessageId;
use crate::model::message::Message;

const BY_IDS: &str = select_message!("where m.public_id in (select value from rarray(?2))");

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[BY_IDS];

/// Those of some messages that are there, in no order, as they were written, and the ids of others that are there and would
/// have been more than these bytes. The caller has bounded their number.
pub(crate) fn those_of(
    reader: &mut Reader<'_>,
    ids: &[MessageId],
    bytes: usize,
) -> Result<(Vec<Message>, Vec<MessageId>)> {
    let ids = List::of_bytes(ids.iter().map(|id| &id.0.as_bytes()[..]));
    let rows = reader.all(engine::query(BY_IDS).bind(AsOf::Newest.last()).bind(ids))?;
    let mut found = rows.iter().map(|row| FoundMessage::from_row(row, AsOf::Newest)).collect::<Result<Vec<_>>>()?;
    let filled = fill_parts(reader, &mut found, AsOf::Newest, &mut Budget::new(bytes))?;
    let others = found.split_off(filled).into_iter().map(|found| found.message.id).collect();
    Ok((found.into_iter().map(|found| found.message).collect(), others))
}

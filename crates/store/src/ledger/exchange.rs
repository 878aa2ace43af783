//! Calls and results that belong together. A view with a call alone would tell the model that the call has no result.

use super::ancestry::Ancestry;
use super::messages::{self, Order, PageOf};
use super::{marks, tx::Tx};
use crate::engine::Reader;
use crate::error::Result;
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::layouts::Position;
use crate::model::message::Message;
use crate::model::part::{Answers, PartBody};
use std::collections::{BTreeMap, HashSet};

/// Messages behind a call among which its results are looked for; results are written soon after their calls.
const BEHIND_A_CALL: i64 = 1_000;

/// The most messages of one exchange. More linked messages are not a conversation.
const TOGETHER: usize = 256;

/// A message and all that are linked to it, directly or through others: by the results of its calls, or the calls of
/// its results. By their positions, ascending, with the ids of the originals there.
pub(crate) fn around(
    tx: &mut Tx<'_>,
    ancestry: &Ancestry,
    position: Revision,
) -> Result<BTreeMap<Revision, MessageId>> {
    let mut exchange = Exchange { tx, ancestry, found: BTreeMap::new(), to_visit: vec![position] };
    while let Some(position) = exchange.to_visit.pop() {
        if exchange.found.len() < TOGETHER && !exchange.found.contains_key(&position) {
            exchange.visit(position)?;
        }
    }
    Ok(exchange.found)
}

struct Exchange<'a, 't> {
    tx: &'a mut Tx<'t>,
    ancestry: &'a Ancestry,
    found: BTreeMap<Revision, MessageId>,
    to_visit: Vec<Revision>,
}

impl Exchange<'_, '_> {
    fn position(&mut self, revision: Revision) -> Result<Position> {
        Ok(marks::session_marks(self.tx, self.ancestry.key)?.position(revision))
    }

    fn visit(&mut self, position: Revision) -> Result<()> {
        let shown = self.position(position)?.shown;
        let (mut revisions, at) = (vec![position, shown], self.ancestry.revision);
        revisions.dedup();
        let mut reader = Reader::new(self.tx.conn);
        let versions = messages::at_revisions(&mut reader, self.ancestry, &revisions, at, usize::MAX)?;
        let Some(original) = versions.first().map(|message| message.id) else { return Ok(()) };
        self.found.insert(position, original);
        let bodies = || versions.iter().flat_map(|message| &message.parts).map(|part| &*part.body);
        let mut calls: HashSet<String> = HashSet::new();
        for body in bodies() {
            match body {
                PartBody::ToolCall(call) => calls.extend([call.call_id.clone()]),
                PartBody::ToolResult(result) => {
                    if let Answers::In(message) = &result.answers {
                        let named = messages::named(&mut Reader::new(self.tx.conn), self.ancestry, message)?;
                        let position = self.position(named.revision)?.first;
                        self.to_visit.push(position);
                    }
                }
                _ => {}
            }
        }
        self.add_results(position, original, calls)
    }

    /// Finds the messages with results of these calls.
    fn add_results(&mut self, position: Revision, caller: MessageId, mut calls: HashSet<String>) -> Result<()> {
        let caller = caller.to_string();
        let (mut from, mut left) = (Some(position + 1), BEHIND_A_CALL);
        while let Some(first) = from.filter(|_| left > 0 && !calls.is_empty()) {
            let page = PageOf {
                from: Some(first),
                at: None,
                order: Order::OldestFirst,
                // Most results come in the next messages.
                limit: if left == BEHIND_A_CALL { 8 } else { 200 },
                derived: false,
                records: false,
            };
            let (messages, next, _) = messages::page(&mut Reader::new(self.tx.conn), self.ancestry, &page)?;
            (from, left) = (next, left - page.limit);
            for message in &messages {
                let position = self.position(message.revision)?;
                let is_there = position.left_by.is_none() && message.sealed_revision.is_some();
                let answered: Vec<&str> = answers(message, &caller).filter(|call| calls.remove(*call)).collect();
                if is_there && !answered.is_empty() {
                    self.to_visit.push(position.first);
                } else {
                    // A call may have another result than one that a rewind left out.
                    calls.extend(answered.into_iter().map(str::to_owned));
                }
            }
        }
        Ok(())
    }
}

/// The calls of a message that are answered in another one.
fn answers<'m>(message: &'m Message, caller: &str) -> impl Iterator<Item = &'m str> {
    message.parts.iter().filter_map(move |part| match &*part.body {
        PartBody::ToolResult(result) => match &result.answers {
            Answers::In(message) if message == caller => Some(&*result.call_id),
            _ => None,
        },
        _ => None,
    })
}

//! Results that name their call's message: the name is checked, and written as that message's own id.

use super::codec;
use super::error::{Error, Kind, Result};
use super::lineage::{self, Reader};
use super::messages;
use super::tx::{PartInput, Tx, salt};
use crate::model::ids::MessageId;
use crate::model::part::{NewPart, PartBody, ToolResult};
use std::collections::{HashMap, HashSet};

/// The messages that results of one request name.
#[derive(Default)]
pub(super) struct NamedCalls {
    known: HashMap<String, Known>,
}

/// A message that may hold calls.
struct Known {
    id: MessageId,
    call_ids: HashSet<String>,
}

/// The result in a part that names its call's message, with that name.
fn naming(part: &NewPart) -> Option<(&ToolResult, &String)> {
    match &part.body {
        PartBody::ToolResult(result) => result.call_message_id.as_ref().map(|name| (result, name)),
        _ => None,
    }
}

/// Whether any of these parts names a call's message.
pub(super) fn names_calls<'a>(parts: impl IntoIterator<Item = &'a NewPart>) -> bool {
    parts.into_iter().any(|part| naming(part).is_some())
}

fn call_ids<'a>(bodies: impl IntoIterator<Item = &'a PartBody>) -> impl Iterator<Item = String> {
    bodies.into_iter().filter_map(|body| match body {
        PartBody::ToolCall(call) => Some(call.call_id.clone()),
        _ => None,
    })
}

impl NamedCalls {
    /// Makes a message known that the same request writes, or writes more of.
    pub(super) fn add<'a>(&mut self, name: String, id: MessageId, parts: impl IntoIterator<Item = &'a NewPart>) {
        let known = self.known.entry(name).or_insert_with(|| Known { id, call_ids: HashSet::new() });
        known.call_ids.extend(call_ids(parts.into_iter().map(|part| &part.body)));
    }

    /// Makes a message of the history known; its id, or that of the one in whose place it stands.
    async fn add_stored(&mut self, tx: &mut Tx<'_>, key: i64, name: &str) -> Result<MessageId> {
        tx.flush().await?;
        let mut reader = Reader::new(tx.conn);
        let lineage = lineage::by_key(&mut reader, key).await?;
        let message = messages::get(&mut reader, &lineage, name).await?;
        // An edit stands in the place of the original, and the next edit of that takes its place.
        let id = message.replaces.as_ref().map_or(message.id, |replaced| replaced.message);
        let known = self.known.entry(name.to_owned()).or_insert_with(|| Known { id, call_ids: HashSet::new() });
        known.call_ids.extend(call_ids(message.parts.iter().map(|part| &part.body)));
        Ok(id)
    }

    /// Looks up the messages that these parts name; `own` is the one that they join.
    pub(super) async fn add_named(
        &mut self,
        tx: &mut Tx<'_>,
        key: i64,
        own: MessageId,
        parts: &[NewPart],
    ) -> Result<()> {
        for (_, name) in parts.iter().filter_map(naming) {
            if !self.known.contains_key(name) && self.add_stored(tx, key, name).await? == own {
                self.add(name.clone(), own, parts);
            }
        }
        Ok(())
    }

    /// Writes the message's own id in place of the name that a part has for it, if it has one.
    pub(super) async fn resolve(
        &mut self,
        tx: &mut Tx<'_>,
        key: i64,
        part: &mut NewPart,
        input: &mut PartInput,
    ) -> Result<()> {
        let Some((result, name)) = naming(part) else { return Ok(()) };
        let (call_id, name) = (result.call_id.clone(), name.clone());
        if !self.known.contains_key(&name) {
            self.add_stored(tx, key, &name).await?;
        }
        let known = self.known.get(&name).filter(|known| known.call_ids.contains(&call_id));
        let id = known.ok_or_else(|| Error::not_found(Kind::Call, &call_id))?.id.to_string();
        if id == name {
            return Ok(());
        }
        if let PartBody::ToolResult(result) = &mut part.body {
            result.call_message_id = Some(id);
        }
        input.encoded = codec::encode_part(&part.body, part.metadata_json.as_deref(), salt());
        Ok(())
    }
}

//! Metadata, times and names of originals, as fields of view messages.

use crate::model::ids::{MessageId, PartId};
use crate::model::message::Message;
use crate::model::part::{Part, PartBody};
use crate::model::view::{OriginalFields, SourceMessage, ViewKind, ViewMessage, ViewPart};
use std::collections::HashMap;
use std::mem::discriminant;
use std::sync::Arc;

/// Sets on every message that shows an original the original's other fields: its client's id and free JSON, its model,
/// its times, and the same of its parts. They are all in the rows that were read for the text, and cost no read.
pub(super) fn copy(sources: &[SourceMessage], messages: &mut [ViewMessage]) {
    let originals: HashMap<MessageId, &Message> =
        sources.iter().map(|source| (source.message.id, &*source.message)).collect();
    // A message that pairing split is in the view several times.
    let mut copies: HashMap<MessageId, Arc<OriginalFields>> = HashMap::new();
    for message in messages.iter_mut().filter(|message| message.kind == ViewKind::Shown) {
        let Some(original) = message.source.and_then(|id| originals.get(&id)) else { continue };
        let of_message = copies.entry(original.id).or_insert_with(|| Arc::new(OriginalFields::from(*original)));
        message.original_fields = Some(of_message.clone());
        let parts: HashMap<PartId, &Part> = original.parts.iter().map(|part| (part.id, part)).collect();
        for shown in &mut message.parts {
            if let Some(part) = shown.source.and_then(|id| parts.get(&id)) {
                copy_part(part, shown);
            }
        }
    }
}

fn copy_part(part: &Part, shown: &mut ViewPart) {
    // A result without its call is shown as text, with its media after it; neither is the stored part.
    let is_itself = discriminant(&*shown.body) == discriminant(&*part.body);
    shown.client_id = part.client_id.clone().filter(|_| is_itself);
    let has_its_words = shown.shortened.is_none() || matches!(*part.body, PartBody::ToolResult(_));
    shown.metadata_json = part.metadata_json.clone().filter(|_| is_itself && has_its_words);
}

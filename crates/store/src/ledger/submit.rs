//! A prompt that joins the queue, with what belongs to the same mutation: a rewind before it, and the calls that its
//! results answer.

use super::ancestry::Ancestry;
use super::blob_uses::{self, Holder};
use super::cancels::request_cancel;
use super::chain::{self, Digest};
use super::claiming;
use super::codec::{self, Number as _};
use super::head::{Receipt, SessionKey};
use super::marks::ancestry_of;
use super::pairing::{self, NamedCalls};
use super::prompts::{self, QueuedPrompt};
use super::receipts::admitted;
use super::replace::NewEnd;
use super::rewrites;
use super::runs;
use super::tx::{PartInput, Requester, Tx};
use crate::clock::fresh_message_id;
use crate::engine;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::ids::PromptId;
use crate::model::part::{NewPart, PartBody};
use crate::model::prompt::Delivery;
use crate::model::run::RunEndReason;

const INSERT: &str = "insert into prompt (session_id, public_id, delivery, actor, metadata_json, parts, create_time, \
     submit_revision, rank) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0) returning id";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT];

/// A prompt for a session's queue.
#[derive(Debug, Clone)]
pub struct NewPrompt {
    /// The content.
    pub parts: Vec<NewPart>,
    /// The sender's wish.
    pub delivery: Delivery,
    /// Free JSON.
    pub metadata_json: Option<String>,
    /// The conversation ends here before the prompt waits; none for no rewind.
    pub rewind: Option<NewEnd>,
}

/// Adds a prompt to a session's queue.
#[derive(Clone)]
pub(crate) struct SubmitPrompt {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) expected_revision: Option<Revision>,
    /// The conversation ends here before the prompt waits; none for no rewind.
    pub(crate) rewind: Option<NewEnd>,
    pub(crate) delivery: Delivery,
    pub(crate) metadata_json: Option<String>,
    pub(crate) parts: Vec<(NewPart, PartInput)>,
}

impl SubmitPrompt {
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|(_, part)| part.bytes()).sum()
    }

    /// Validates first, then writes. The receipt has the prompt's id.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let key = self.session.0;
        if let Some(receipt) = admitted(tx, key, &self.caller, self.expected_revision)? {
            return Ok(receipt);
        }
        let Self { ref caller, ref rewind, delivery, ref metadata_json, ref parts, .. } = *self;
        let queue = prompts::queue(tx, key)?;
        if queue.len() >= limits::QUEUED_PROMPTS_MAX {
            let count = |number| i64::try_from(number).unwrap_or(i64::MAX);
            let (limit, actual) = (count(limits::QUEUED_PROMPTS_MAX), count(queue.len() + 1));
            return Err(Error::LimitExceeded { what: "prompts that wait in one session", limit, actual });
        }
        let parts = answering(tx, key, caller, parts.clone())?;
        tx.admit_in(key, parts.iter().map(|part| part.encoded.bytes()).sum())?;
        let id = PromptId(fresh_message_id().0);
        let rewind = rewind.as_ref().map(|end| rewound(tx, key, end)).transpose()?;
        let has_rewind = rewind.is_some();
        let sealed = match rewind {
            Some((ancestry, after)) => {
                tx.flush()?;
                let sealed = runs::end(tx, key, caller, RunEndReason::Cancelled, String::new())?;
                rewrites::rewind(tx, &ancestry, caller, after, None)?;
                sealed
            }
            None => Vec::new(),
        };
        // The rewind may have taken results out of it.
        let queue = if has_rewind { prompts::queue(tx, key)? } else { queue };
        add(tx, key, caller, id, &queue, Content { delivery, metadata_json: metadata_json.clone(), parts })?;
        if delivery == Delivery::Interrupt {
            request_cancel(tx, key, caller)?;
        }
        if has_rewind {
            claiming::recheck(tx, key, caller, None)?;
        }
        let receipt = tx.end_mutation(key, caller, Receipt { ids: vec![id.0], ..Receipt::default() })?;
        sealed.into_iter().try_for_each(|sealed| sealed.write(tx))?;
        Ok(receipt)
    }
}

/// The history with its last position that a rewind keeps. An error if no conversation can end there.
fn rewound(tx: &mut Tx<'_>, key: i64, end: &NewEnd) -> Result<(Ancestry, Revision)> {
    let ancestry = ancestry_of(tx, key)?;
    let after = rewrites::new_end(tx, &ancestry, end.message())?;
    Ok((ancestry, after))
}

/// The parts of a prompt, its results with the messages of the calls that they answer. An error if one answers none, or
/// one that has a result or will get one from a prompt that waits: a front end may be there twice.
fn answering(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    parts: Vec<(NewPart, PartInput)>,
) -> Result<Vec<PartInput>> {
    let (mut written, mut inputs): (Vec<NewPart>, Vec<PartInput>) = parts.into_iter().unzip();
    if !written.iter().any(|part| matches!(*part.body, PartBody::ToolResult(_))) {
        return Ok(inputs);
    }
    tx.flush()?;
    let mut answered = prompts::answered_calls(tx, key)?;
    let mut named = NamedCalls::default();
    for (part, input) in written.iter_mut().zip(&mut inputs) {
        named.resolve(tx, key, part, input)?;
        let PartBody::ToolResult(result) = &*part.body else { continue };
        let message = pairing::waiting_call(tx, key, &caller.actor, &result.call_id, input.call_message)?;
        let call = (message, result.call_id.clone());
        if answered.contains(&call) {
            return Err(Error::CallAnswered { call_id: call.1 });
        }
        input.call_message = Some(message);
        answered.insert(call);
    }
    Ok(inputs)
}

/// What a prompt says.
struct Content {
    delivery: Delivery,
    metadata_json: Option<String>,
    parts: Vec<PartInput>,
}

/// Adds the prompt's row at its position of the queue. The caller ends the mutation.
fn add(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    id: PromptId,
    queue: &[QueuedPrompt],
    content: Content,
) -> Result<()> {
    let Content { delivery, metadata_json, parts } = content;
    let mut digest = Digest::default();
    let columns = chain::PromptColumns {
        public_id: id.0.as_bytes(),
        delivery: delivery.number(),
        actor: &caller.actor,
        metadata_json: metadata_json.as_deref(),
        create_time: tx.now,
    };
    chain::prompt(&mut digest, &columns);
    let bytes = parts.iter().map(|part| part.encoded.bytes()).sum();
    let blobs: Vec<[u8; 32]> = parts.iter().flat_map(|part| &part.encoded.blobs).map(|blob| blob.hash).collect();
    let tenant = tx.read_head(key)?.tenant.clone();
    let parts = tx.whole_parts(&tenant, &mut digest, id.message(), parts);
    let revision = tx.event(key, caller, &EventBody::PromptSubmitted { prompt: id, delivery }, &digest)?;
    tx.count(key, bytes)?;
    let row: i64 = engine::scalar(INSERT)
        .bind(key)
        .bind(id.0.as_bytes().as_slice())
        .bind(delivery.number())
        .bind(&caller.actor)
        .bind(metadata_json)
        .bind(codec::encode_parts(parts))
        .bind(tx.now.0)
        .bind(revision)
        .one(tx.conn)?;
    blob_uses::add(tx.conn, blobs.iter().map(|hash| (&*tenant, Holder::Prompt(row), hash.as_slice())))?;
    let position = match delivery {
        Delivery::Queue => queue.len(),
        Delivery::Steer => queue.iter().take_while(|queued| queued.is_urgent()).count(),
        Delivery::Interrupt => 0,
    };
    prompts::insert(tx, queue, row, position)
}

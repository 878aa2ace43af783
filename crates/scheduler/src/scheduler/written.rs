//! Summaries as they take effect: with the record of what happened until then, and with the digest from which the next one
//! is made.

use super::error::interrupted;
use super::worker::Worker;
use crate::background;
use crate::fold::attempt::Answer;
use crate::limits;
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::layout::{CoveredHistory, Placement};
use crate::model::message::{Message, MessageKind, Role};
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::summary::{SummaryInput, SummaryOutput};
use crate::store::{self, Claim, SessionKey, Store};
use longhand_extractive::{self as extractive, Covered, Digest};

/// A summary with all that goes with it.
pub struct SummaryInEffect {
    /// Its text, with its claims that the record contradicts.
    pub output: SummaryOutput,
    /// Parts that follow its text.
    pub beside: Vec<PartBody>,
    /// The packed digest of what it covers.
    pub digest: Option<Vec<u8>>,
    /// The last revision behind the covered messages that it may quote.
    pub quoted_until: Option<Revision>,
    /// The message of each line of people's words beside it.
    pub said_in: Vec<Revision>,
}

impl SummaryInEffect {
    /// A summary of what is covered that takes effect before the messages `behind`, which were read at `seen`. With
    /// `supplied`, a client wrote it on its own: its text stays as it is.
    pub fn new(
        covered: Covered<'_>,
        output: SummaryOutput,
        (behind, seen): (&[SourceMessage], Revision),
        supplied: bool,
    ) -> store::Result<Self> {
        let is_own = output.summarizer == extractive::NAME;
        let written = (!is_own).then(|| output.text.clone());
        let (output, record) = match supplied {
            true => extractive::beside_supplied(output, &covered, behind),
            false => (extractive::completed(output, &covered, behind), None),
        };
        let rules = &covered.input.rules;
        let (said, said_in) = match is_own {
            true => (String::new(), Vec::new()),
            false => extractive::what_people_said(&covered, rules.words_tokens),
        };
        let quotes = !behind.is_empty() && extractive::may_quote(&output, rules);
        let digest = covered.digest();
        let digest = if let Some(text) = written { digest.with_summary(&text) } else { digest };
        let digest = store::pack_digest(&digest.to_json())?;
        let beside = Some(said).filter(|said| !said.is_empty()).into_iter().chain(record).map(PartBody::Text).collect();
        Ok(Self { output, beside, digest: Some(digest), quoted_until: quotes.then_some(seen), said_in })
    }
}

impl Worker {
    /// A summary of an input, as it takes effect now before the tail; without one, the built-in summarizer writes it.
    pub(super) async fn as_written(
        &self,
        claim: &Claim,
        (input, tail_start): (&SummaryInput, Revision),
        output: Option<SummaryOutput>,
        supplied: bool,
    ) -> Result<SummaryInEffect, Answer<'static>> {
        let (behind, seen) = match output.as_ref().is_none_or(|output| output.summarizer == extractive::NAME) {
            true => (Vec::new(), 0),
            false => self.store.views().behind(claim.session, tail_start).await.map_err(interrupted)?,
        };
        let written = background::compute(|| {
            let covered = Covered::new(input);
            let output = output.unwrap_or_else(|| SummaryOutput::new(covered.write(), extractive::NAME));
            SummaryInEffect::new(covered, output, (&behind, seen), supplied)
        });
        written.map_err(interrupted)
    }
}

/// The digest of what an active summary covers: as it was kept with the summary, or made from the originals.
pub async fn digest_of(
    store: &Store,
    session: SessionKey,
    covered: &CoveredHistory,
    summary: &str,
) -> store::Result<String> {
    let kept = store.compactions().digest(covered.compaction).await?;
    if let Some(json) = kept.filter(|json| json.starts_with(extractive::FORM)) {
        return Ok(json);
    }
    let mut digest = Digest::default();
    let (mut messages, mut from) = (Vec::new(), 0);
    loop {
        let page = store.compactions().originals(session, &covered.ranges, from, limits::PAGE_SIZE_MAX).await?;
        let (found, next) = page;
        for message in found.into_iter().filter(is_conversation) {
            messages.push(source(store, session, message).await?);
        }
        // A call is read with its result, which is in the same turn.
        let is_start = |source: &SourceMessage| source.message.role == Role::User;
        let end = match next {
            Some(_) => messages.iter().rposition(is_start).filter(|start| *start > 0).unwrap_or(messages.len()),
            None => messages.len(),
        };
        digest = background::compute(|| digest.merged(Digest::from_messages(&messages[..end])));
        messages.drain(..end);
        let Some(next) = next else { break };
        from = next;
    }
    let event = store.log().event_at(session, covered.mark).await?;
    let is_own = event.is_some_and(|event| match event.body {
        EventBody::Compacted { outcome, .. } => outcome.summarizer == extractive::NAME,
        _ => false,
    });
    let digest = digest.in_order();
    let digest = if is_own { digest } else { digest.with_summary(summary) };
    Ok(digest.to_json())
}

/// A message with the position of the one that it replaces, by which clients' marks of words know it.
async fn source(store: &Store, session: SessionKey, message: Message) -> store::Result<SourceMessage> {
    let original = match message.kind {
        MessageKind::Edit => store.history().replaced(session, message.revision).await?,
        _ => None,
    };
    let placement = original.map(|original| Placement::Edit(original.revision));
    Ok(SourceMessage { message: message.into(), placement, pruned: Vec::new(), counts: None })
}

/// True for a message that a summary is made from.
fn is_conversation(message: &Message) -> bool {
    matches!(message.kind, MessageKind::Normal | MessageKind::Edit | MessageKind::Branch | MessageKind::Replay)
}

//! A source that is read again behind a change of its view: the messages that its reader has are not read again.

use super::messages;
use super::prunes;
use super::sources::{Source, frame, now};
use crate::engine::Reader;
use crate::error::Result;
use crate::model::Revision;
use crate::model::layout::{Layout, Placement, Span};
use crate::model::view::SourceMessage;
use std::collections::HashMap;

/// A piece of a layout.
enum Piece<'a> {
    /// Messages that are known, as they were.
    Known(&'a [SourceMessage]),
    /// A known message at another position.
    Placed(SourceMessage),
    /// What must be read.
    Span(Span),
}

/// The newest source of a session, of which an earlier one is known; none if it must be read whole. The messages that are
/// read may have `bytes_max` bytes.
pub(crate) fn renewed(reader: &mut Reader<'_>, known: &Source, bytes_max: usize) -> Result<Option<Renewed>> {
    let now = now(reader, known.session)?;
    let ancestry = now.ancestry;
    let source = frame(reader, now, ancestry.revision)?;
    // What came before it was sealed when the known one was read, and never changes.
    let from = known.first_open.unwrap_or(known.at + 1).min(known.at + 1);
    // A prune that is undone may uncover an earlier one.
    if ancestry.fork_revision.is_some_and(|fork| from <= fork)
        || source.layout.undone_prunes != known.layout.undone_prunes
    {
        return Ok(None);
    }
    let is_earlier = |source: &&SourceMessage| source.message.revision < from;
    let earlier = known.messages.iter().filter(is_earlier).map(|source| (source.message.revision, source)).collect();
    let pieces = source.layout.spans.iter().flat_map(|span| match *span {
        Span::Placed { revision, placement } => vec![placed(&earlier, revision, placement)],
        Span::Inline { first, last } => inline(known, (first, last), from),
    });
    let pieces: Vec<Piece<'_>> = pieces.collect();
    let spans = pieces.iter().filter_map(|piece| if let Piece::Span(span) = piece { Some(span.clone()) } else { None });
    let unknown = Layout { spans: spans.collect(), ..source.layout.clone() };
    let read = messages::sources(reader, &ancestry, &unknown, source.at, bytes_max)?;
    let pruned = prunes::since(reader, known.session.0, &source.layout, known.at)?;
    let mut read = read.into_iter().peekable();
    let mut messages = Vec::new();
    for piece in pieces {
        let begun = messages.len();
        match piece {
            Piece::Known(known) => messages.extend_from_slice(known),
            Piece::Placed(message) => messages.push(message),
            Piece::Span(span) => {
                messages.extend(std::iter::from_fn(|| read.next_if(|source| is_in(source, &span))));
                continue;
            }
        }
        for source in messages[begun..].iter_mut().filter(|_| !pruned.is_empty()) {
            let of = |part| pruned.get(&part).or_else(|| source.pruned_part(part)).cloned();
            source.pruned = source.message.parts.iter().filter_map(|part| of(part.id)).collect();
        }
    }
    let is_fork = ancestry.fork_revision.is_some();
    Ok(Some(Renewed { source: Source { messages, ..source }, is_fork }))
}

/// A source that was made of a known one and of rows.
#[derive(Debug)]
pub struct Renewed {
    /// The source.
    pub source: Source,
    /// True if it may have messages of another session.
    pub is_fork: bool,
}

/// A message at a position that is not its own.
fn placed<'a>(earlier: &HashMap<Revision, &SourceMessage>, revision: Revision, placement: Placement) -> Piece<'a> {
    match earlier.get(&revision) {
        Some(found) => Piece::Placed(SourceMessage { placement: Some(placement), ..(*found).clone() }),
        None => Piece::Span(Span::Placed { revision, placement }),
    }
}

/// The pieces of a range, in order: of what came before `from`, the known source has all that its layout shows.
fn inline(known: &Source, (first, last): (Revision, Option<Revision>), from: Revision) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut next = first;
    let known_end = from.min(last.map_or(from, |last| last + 1));
    while next < known_end {
        let shown = known.layout.spans.iter().filter_map(|span| match *span {
            Span::Inline { first, last } => Some((first, last.map_or(from, |last| last + 1).min(known_end))),
            Span::Placed { .. } => None,
        });
        let (begin, end) = shown.filter(|(_, end)| *end > next).min().unwrap_or((known_end, known_end));
        let begin = begin.clamp(next, known_end);
        if begin > next {
            pieces.push(Piece::Span(Span::Inline { first: next, last: Some(begin - 1) }));
        }
        if end > begin {
            // Inline messages of one range follow each other, in the order of their revisions.
            let is_before = |source: &SourceMessage| source.placement.is_some() || source.message.revision < begin;
            let is_inside = |source: &SourceMessage| source.placement.is_none() && source.message.revision < end;
            let start = known.messages.iter().position(|source| !is_before(source) && is_inside(source));
            let inside = start.map_or(&[][..], |start| &known.messages[start..]);
            let count = inside.iter().take_while(|source| is_inside(source)).count();
            pieces.push(Piece::Known(&inside[..count]));
        }
        next = end.max(begin);
    }
    if last.is_none_or(|last| last >= next) {
        pieces.push(Piece::Span(Span::Inline { first: next, last }));
    }
    pieces
}

fn is_in(source: &SourceMessage, span: &Span) -> bool {
    match *span {
        Span::Placed { revision, placement } => {
            source.placement == Some(placement) && source.message.revision == revision
        }
        Span::Inline { first, last } => {
            let revision = source.message.revision;
            source.placement.is_none() && first <= revision && last.is_none_or(|last| revision <= last)
        }
    }
}

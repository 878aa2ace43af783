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
    let Some(ranges) = known_ranges(known, from) else { return Ok(None) };
    let pieces = source.layout.spans.iter().flat_map(|span| match *span {
        Span::Placed { revision, placement } => vec![placed(&earlier, revision, placement)],
        Span::Inline { first, last } => inline(&ranges, (first, last), from),
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

/// A range that the known layout shows in place, with its messages.
struct KnownRange<'a> {
    first: Revision,
    /// The revision behind its last.
    end: Revision,
    messages: &'a [SourceMessage],
}

/// The ranges that the known layout shows in place up to `from`, in order, as its messages are. None if it has other ones.
fn known_ranges(known: &Source, from: Revision) -> Option<Vec<KnownRange<'_>>> {
    let mut messages = known.messages.as_slice();
    let mut ranges = Vec::new();
    for span in &known.layout.spans {
        let shown = messages.iter().take_while(|source| is_in(source, span)).count();
        let (of_span, behind) = messages.split_at(shown);
        messages = behind;
        if let Span::Inline { first, last } = *span {
            let end = last.map_or(from, |last| last + 1).min(from);
            ranges.push(KnownRange { first, end, messages: of_span });
        }
    }
    messages.is_empty().then_some(ranges)
}

/// The pieces of a range, in order: of what came before `from`, the known source has all that its layout shows.
fn inline<'a>(known: &[KnownRange<'a>], (first, last): (Revision, Option<Revision>), from: Revision) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let mut next = first;
    let known_end = from.min(last.map_or(from, |last| last + 1));
    for range in &known[known.partition_point(|range| range.end <= first)..] {
        let (begin, end) = (range.first.max(next), range.end.min(known_end));
        if begin >= known_end {
            break;
        }
        if begin > next {
            pieces.push(Piece::Span(Span::Inline { first: next, last: Some(begin - 1) }));
        }
        if end > begin {
            let at = |revision| range.messages.partition_point(|source| source.message.revision < revision);
            pieces.push(Piece::Known(&range.messages[at(begin)..at(end)]));
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

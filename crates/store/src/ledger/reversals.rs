//! Undo and redo as rewrites: one mark each, with the event that names the undone or redone change.

use super::ancestry::Ancestry;
use super::chain::Digest;
use super::claiming;
use super::jobs;
use super::marks;
use super::messages;
use super::tx::{Requester, Tx};
use crate::engine::Reader;
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::event::{EventBody, Rewrite, RewriteOf};
use crate::model::ids::CompactionId;
use crate::model::layouts::{Redo, Reversal};
use crate::model::mark::MarkBody;

enum Change {
    Compaction(CompactionId),
    Rewrite(Rewrite),
}

/// Undoes the newest active change.
pub(crate) fn undo(tx: &mut Tx<'_>, ancestry: &Ancestry, caller: &Requester) -> Result<()> {
    let reversal = marks::session_marks(tx, ancestry.key)?.newest_change().ok_or(Error::NothingToUndo)?;
    let (body, compaction) = match change(tx, ancestry, reversal.change)? {
        Change::Compaction(compaction) => (EventBody::CompactionUndone { compaction }, Some(compaction)),
        Change::Rewrite(rewrite) => (EventBody::RewriteUndone(rewrite), None),
    };
    if is_of_words(&body) {
        return reverse(tx, ancestry, caller, reversal, &body).map(drop);
    }
    // Before the event of the undo, which the receipt names.
    claiming::end_for_undo(tx, ancestry.key, caller)?;
    let at = reverse(tx, ancestry, caller, reversal, &body)?;
    if let Some(compaction) = compaction {
        jobs::undone(tx, ancestry.key, compaction, Some(at))?;
    }
    // An undo must not be followed by the next compaction at once.
    tx.loaded(ancestry.key)?.undo_revision = Some(at);
    Ok(())
}

/// Redoes the change that was undone last.
pub(crate) fn redo(tx: &mut Tx<'_>, ancestry: &Ancestry, caller: &Requester) -> Result<()> {
    let reversal = match marks::session_marks(tx, ancestry.key)?.newest_undone() {
        Redo::Possible(reversal) => reversal,
        Redo::Overtaken(by) => return Err(Error::RedoOvertaken(by)),
        Redo::Nothing => return Err(Error::NothingToRedo),
    };
    let (body, compaction) = match change(tx, ancestry, reversal.change)? {
        Change::Compaction(compaction) => (EventBody::CompactionRedone { compaction }, Some(compaction)),
        Change::Rewrite(rewrite) => (EventBody::RewriteRedone(rewrite), None),
    };
    // Before the event of the redo, which the receipt names.
    claiming::recheck(tx, ancestry.key, caller, Some(MarkBody::Undone { mark: reversal.target }))?;
    reverse(tx, ancestry, caller, reversal, &body)?;
    if let Some(compaction) = compaction {
        jobs::undone(tx, ancestry.key, compaction, None)?;
    }
    // If no change is undone any more, the hold ends.
    let is_last = marks::session_marks(tx, ancestry.key)?.newest_undone() == Redo::Nothing;
    let head = tx.loaded(ancestry.key)?;
    if is_last {
        head.undo_revision = None;
    }
    Ok(())
}

/// Writes the mark with its event, and returns their revision.
fn reverse(
    tx: &mut Tx<'_>,
    ancestry: &Ancestry,
    caller: &Requester,
    reversal: Reversal,
    body: &EventBody,
) -> Result<Revision> {
    let mut digest = Digest::default();
    marks::write(tx, &mut digest, ancestry.key, MarkBody::Undone { mark: reversal.target })?;
    let at = tx.event(ancestry.key, caller, body, &digest)?;
    marks::changed(tx, ancestry.key, at)?;
    Ok(at)
}

/// True for a change that the next compaction is the first to see: the view stays the same.
fn is_of_words(body: &EventBody) -> bool {
    use EventBody::{RewriteRedone, RewriteUndone};
    matches!(
        body,
        RewriteUndone(Rewrite { of: RewriteOf::Words(_), .. }) | RewriteRedone(Rewrite { of: RewriteOf::Words(_), .. })
    )
}

fn change(tx: &mut Tx<'_>, ancestry: &Ancestry, mark: Revision) -> Result<Change> {
    let mut reader = Reader::new(tx.conn);
    let found = marks::session_marks(tx, ancestry.key)?.get(mark);
    let found = found.ok_or_else(|| Error::corrupt("mark", format_args!("there is no mark at {mark}")))?;
    Ok(match &found.body {
        MarkBody::Compacted(compacted) => Change::Compaction(compacted.compaction),
        MarkBody::Pruned { compaction, .. } => Change::Compaction(*compaction),
        MarkBody::Edited { target, .. } => {
            let edited = messages::id_at(&mut reader, ancestry, *target)?;
            Change::Rewrite(Rewrite { mark, of: RewriteOf::Edit(edited) })
        }
        MarkBody::Words { target, .. } => {
            let message = messages::id_at(&mut reader, ancestry, *target)?;
            Change::Rewrite(Rewrite { mark, of: RewriteOf::Words(message) })
        }
        MarkBody::Rewound { .. } | MarkBody::Pinned { .. } | MarkBody::Undone { .. } | MarkBody::Erased { .. } => {
            Change::Rewrite(Rewrite { mark, of: RewriteOf::Rewind })
        }
    })
}

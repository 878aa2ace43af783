//! Undo and redo as rewrites: one mark each, with the event that names the undone or redone change.

use super::ancestry::{Ancestry, Reader};
use super::chain::Digest;
use super::claiming;
use super::error::{Error, Result};
use super::jobs;
use super::marks;
use super::messages;
use super::tx::{Requester, Tx};
use crate::model::Revision;
use crate::model::event::{EventBody, Rewrite};
use crate::model::ids::CompactionId;
use crate::model::layouts::{self, Redo, Reversal};
use crate::model::mark::{Mark, MarkBody};

/// The change of a mark.
enum Change {
    Compaction(CompactionId),
    Rewrite(Rewrite),
}

/// Undoes the newest active change.
pub(super) fn undo(tx: &mut Tx<'_>, ancestry: &Ancestry, caller: &Requester, marks: &mut Vec<Mark>) -> Result<()> {
    let reversal = layouts::newest_change(marks, ancestry.revision).ok_or(Error::NothingToUndo)?;
    let (body, compaction) = match change(tx, ancestry, marks, reversal.change)? {
        Change::Compaction(compaction) => (EventBody::CompactionUndone { compaction }, Some(compaction)),
        Change::Rewrite(rewrite) => (EventBody::RewriteUndone(rewrite), None),
    };
    // Before the event of the undo, which the receipt names.
    claiming::end_for_undo(tx, ancestry.key, caller)?;
    let at = reverse(tx, ancestry, caller, marks, reversal, &body)?;
    if let Some(compaction) = compaction {
        jobs::undone(tx, ancestry.key, compaction, Some(at))?;
    }
    // An undo must not be followed by the next compaction at once.
    tx.loaded(ancestry.key)?.undo_revision = Some(at);
    Ok(())
}

/// Redoes the change that was undone last.
pub(super) fn redo(tx: &mut Tx<'_>, ancestry: &Ancestry, caller: &Requester, marks: &mut Vec<Mark>) -> Result<()> {
    let reversal = match layouts::newest_undone(marks, ancestry.revision) {
        Redo::Possible(reversal) => reversal,
        Redo::Overtaken(by) => return Err(Error::RedoOvertaken(by)),
        Redo::Nothing => return Err(Error::NothingToRedo),
    };
    let (body, compaction) = match change(tx, ancestry, marks, reversal.change)? {
        Change::Compaction(compaction) => (EventBody::CompactionRedone { compaction }, Some(compaction)),
        Change::Rewrite(rewrite) => (EventBody::RewriteRedone(rewrite), None),
    };
    // Before the event of the redo, which the receipt names.
    let mut after = marks.clone();
    let revision = tx.next_revision(ancestry.key)?;
    after.push(Mark { revision, body: MarkBody::Undone { mark: reversal.target } });
    claiming::recheck(tx, ancestry.key, caller, &after)?;
    let at = reverse(tx, ancestry, caller, marks, reversal, &body)?;
    if let Some(compaction) = compaction {
        jobs::undone(tx, ancestry.key, compaction, None)?;
    }
    // If no change is undone any more, the hold ends.
    let is_last = layouts::newest_undone(marks, at) == Redo::Nothing;
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
    marks: &mut Vec<Mark>,
    reversal: Reversal,
    body: &EventBody,
) -> Result<Revision> {
    let mut digest = Digest::default();
    marks::write(tx, &mut digest, ancestry.key, marks, MarkBody::Undone { mark: reversal.target })?;
    let at = tx.event(ancestry.key, caller, body, &digest)?;
    marks::changed(tx, ancestry.key, at)?;
    Ok(at)
}

/// The change that the mark at a revision made.
fn change(tx: &mut Tx<'_>, ancestry: &Ancestry, marks: &[Mark], mark: Revision) -> Result<Change> {
    let found = marks.iter().find(|other| other.revision == mark);
    let found = found.ok_or_else(|| Error::corrupt("mark", format_args!("there is no mark at {mark}")))?;
    Ok(match &found.body {
        MarkBody::Compacted(compacted) => Change::Compaction(compacted.compaction),
        MarkBody::Pruned { compaction, .. } => Change::Compaction(*compaction),
        MarkBody::Edited { target, .. } => {
            let edited = messages::id_at(&mut Reader::new(tx.conn), ancestry, *target)?;
            Change::Rewrite(Rewrite { mark, edited: Some(edited) })
        }
        MarkBody::Rewound { .. } | MarkBody::Pinned { .. } | MarkBody::Undone { .. } => {
            Change::Rewrite(Rewrite { mark, edited: None })
        }
    })
}

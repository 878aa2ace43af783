//! A summary whose tail starts where somebody wants it to.

use super::edit::splits_pair;
use super::{Scene, Work, inline, slot, summary_of};
use crate::model::Revision;
use crate::model::cut::Cuts;
use crate::model::layout::Place;
use crate::model::view::SourceMessage;
use crate::policy::select::{self, Selection};
use crate::policy::{Rung, Step};

/// The place at which a view shows the message that came at a revision, or what stands for it.
pub fn tail_place(sources: &[SourceMessage], revision: Revision) -> Option<Revision> {
    let inline = inline(sources);
    let found = inline.iter().find(|source| source.message.revision == revision || slot(source) == revision);
    found.filter(|source| source.place != Some(Place::Retained)).map(slot)
}

/// Whether a tail can start at a place: the view shows a message there, and in front of it nothing is still being written
/// or run, and no call that has its result behind it.
pub fn tail_can_start(sources: &[SourceMessage], tail_start: Revision) -> bool {
    let inline = inline(sources);
    let head_end = head_end(&inline, tail_start);
    inline.get(head_end).is_some_and(|source| slot(source) == tail_start)
        && head_end <= select::last_safe_cut(&inline)
        && !splits_pair(&inline, |source| slot(source) < tail_start)
}

/// The summary that a rung ends in, of everything in front of a place in the view and of nothing behind it, without what
/// else the rung does. Nothing when there is nothing to cover, or when a tail cannot start there.
pub fn summary_until(scene: Scene<'_>, rung: &Rung, tail_start: Revision) -> Work {
    let rule = rung.steps.iter().rev().find_map(|step| match step {
        Step::Summarize(rule) => Some(rule.as_ref()),
        Step::Clear(_) | Step::Fit(_) => None,
    });
    let Some(rule) = rule.filter(|_| tail_can_start(scene.sources, tail_start)) else { return Work::default() };
    let inline = inline(scene.sources);
    let selection = Selection { head_end: head_end(&inline, tail_start), ..Selection::default() };
    Work { summary: summary_of(scene, rule, &inline, selection), cuts: Cuts::default() }
}

/// How many messages stand in front of a place.
fn head_end(inline: &[SourceMessage], tail_start: Revision) -> usize {
    inline.iter().filter(|source| slot(source) < tail_start).count()
}

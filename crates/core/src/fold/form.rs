//! The form of a view for a provider: where that provider compacted the conversation itself, its block goes first, and
//! what the block stands for is not shown. For any other provider the originals stand in their places, and no view has a
//! block that is not its provider's newest.
//!
//! A block stands for the view that its reply was given: for all before it, but for instructions at the beginning, pins,
//! and what came later than the view that the reply names. It is void as soon as anything of that was edited or erased, or
//! a summary stands for more; then the one before it counts. All of it follows from the rows of the view, so that no row
//! says it.

use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::layout::{Layout, OmitReason, Placement};
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::provider_compaction::{Compactor, ProviderCompaction, WINDOW};
use crate::model::ranges::union;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::models::Models;
use crate::policy::plan::slot;

#[cfg(test)]
mod tests;

/// The provider that a view is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// It is not known, and taken to be the one that compacted the conversation last.
    #[default]
    Newest,
    /// One that makes compactions itself.
    Of(Compactor),
    /// Any other.
    Originals,
}

impl Form {
    /// The form for the model of a window.
    pub fn of_window(window: &ModelWindow) -> Self {
        let name = window.model.to_lowercase();
        let plain = name.rsplit('/').next().unwrap_or_default();
        let is_numbered = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
        let is_openai = ["gpt-", "chatgpt", "codex"].iter().any(|begin| plain.starts_with(begin));
        match () {
            () if name.contains("claude") => Self::Of(Compactor::Anthropic),
            () if is_openai || plain.strip_prefix('o').is_some_and(is_numbered) => Self::Of(Compactor::OpenAi),
            () if !name.is_empty() && Models::built_in().find("", &name).is_some() => Self::Originals,
            () => Self::Newest,
        }
    }
}

/// The messages of a view in a form.
#[derive(Debug, Clone, Default)]
pub struct FormedView {
    /// The messages that the view shows; none if they are those of the layout.
    shown: Option<Vec<SourceMessage>>,
    /// The messages that the block stands for, in the order of the layout.
    covered: Vec<SourceMessage>,
    compaction: Option<ProviderCompaction>,
    /// The provider that the view is for, if that matters.
    compactor: Option<Compactor>,
    /// The number of messages of the layout, and of those up to the last that is not shown as it is.
    count: usize,
    changed: usize,
}

/// A provider's block among the messages of a layout.
#[derive(Debug, Clone, Copy)]
struct Block {
    message: usize,
    part: usize,
    compactor: Compactor,
    stands: bool,
    failed: bool,
}

impl FormedView {
    /// The messages of a layout in a form.
    pub fn new(form: Form, layout: &Layout, sources: &[SourceMessage]) -> Self {
        let blocks: Vec<Block> = blocks(sources).collect();
        let Some(newest) = blocks.last() else { return Self::default() };
        let compactor = match form {
            Form::Newest => Some(newest.compactor),
            Form::Of(compactor) => Some(compactor),
            Form::Originals => None,
        };
        let is_own = |block: &Block| Some(block.compactor) == compactor;
        let may_stand = |block: &&Block| is_own(block) && block.stands && holds(layout, sources, block);
        let first = blocks.iter().rev().find(may_stand).copied();
        // A block that failed is no content, and goes back as it came.
        let stays =
            |block: &Block| is_own(block) && block.failed && first.is_none_or(|first| block.message > first.message);
        let is_window = first.is_some_and(|first| is_window(sources, first));
        let instructions = sources.iter().take_while(|source| source.message.role == Role::System).count();
        let is_covered = |index: usize| {
            let front = first.filter(|first| !is_window && (instructions..first.message).contains(&index));
            front.is_some_and(|first| covers(layout, &sources[first.message], &sources[index]))
        };
        let mut formed = Self { compactor, count: sources.len(), changed: newest.message + 1, ..Self::default() };
        let (mut shown, mut at) = (Vec::new(), None);
        for (index, source) in sources.iter().enumerate() {
            if is_covered(index) {
                formed.covered.push(source.clone());
                continue;
            }
            let mut source = source.clone();
            let gone = blocks.iter().filter(|block| block.message == index && !stays(block));
            let gone: Vec<usize> = gone.map(|block| block.part).collect();
            if let Some(first) = first.filter(|first| first.message == index) {
                if first.part > 0 {
                    formed.covered.push(with_parts(&source, |part| part < first.part && !gone.contains(&part)));
                }
                source =
                    with_parts(&source, |part| part >= first.part && (part == first.part || !gone.contains(&part)));
                source.placement = Some(Placement::Block);
                at = Some(shown.len());
            } else if !gone.is_empty() {
                source = with_parts(&source, |part| !gone.contains(&part));
            }
            shown.push(source);
        }
        if let (Some(first), Some(at)) = (first, at) {
            let message = &sources[first.message].message;
            let part = &message.parts[first.part];
            formed.compaction = Some(ProviderCompaction {
                compactor: first.compactor,
                message: message.id,
                part: part.id,
                covered: ranges(layout, &formed.covered, message.revision),
                revision: part.revision,
            });
            if !is_window {
                shown[instructions.min(at)..=at].rotate_right(1);
            }
        }
        formed.shown = Some(shown);
        formed
    }

    /// The messages of a later state of the same session, of which the first `unchanged` messages of the layout are the
    /// same. Returns the number of messages at the beginning that are shown as before.
    pub fn extend(
        &mut self,
        form: impl FnOnce() -> Form,
        layout: &Layout,
        sources: &[SourceMessage],
        unchanged: usize,
    ) -> usize {
        let newer = &sources[unchanged..];
        let has_block = blocks(newer).next().is_some();
        match &mut self.shown {
            None if !has_block => unchanged,
            Some(shown) if !has_block && unchanged >= self.changed => {
                // From there on, each message of the layout is shown.
                shown.truncate(shown.len() - (self.count - unchanged));
                let kept = shown.len();
                shown.extend_from_slice(newer);
                self.count = sources.len();
                kept
            }
            None | Some(_) => {
                *self = Self::new(form(), layout, sources);
                0
            }
        }
    }

    /// The messages that the view shows, of those of the layout.
    pub fn shown<'a>(&'a self, sources: &'a [SourceMessage]) -> &'a [SourceMessage] {
        self.shown.as_deref().unwrap_or(sources)
    }

    /// The messages that the provider's compaction stands for, in the order of the layout.
    pub fn covered(&self) -> &[SourceMessage] {
        &self.covered
    }

    /// The provider's compaction that the view begins with.
    pub fn compaction(&self) -> Option<&ProviderCompaction> {
        self.compaction.as_ref()
    }

    /// True if it stands for the active summary too, which the view does not show then.
    pub fn covers_summary(&self) -> bool {
        self.covered.iter().any(|source| source.placement == Some(Placement::Summary))
    }

    /// True if the view would be the same in another form.
    pub fn is_as_in(&self, form: Form) -> bool {
        match form {
            _ if self.shown.is_none() => true,
            Form::Newest => false,
            Form::Of(compactor) => self.compactor == Some(compactor),
            Form::Originals => self.compactor.is_none(),
        }
    }
}

/// The blocks of messages in which providers compacted, in order.
fn blocks(sources: &[SourceMessage]) -> impl Iterator<Item = Block> {
    sources.iter().enumerate().flat_map(|(message, source)| {
        source.message.parts.iter().enumerate().filter_map(move |(part, stored)| match &*stored.body {
            PartBody::Opaque(opaque) => {
                let compactor = opaque.compactor()?;
                // A view shows nothing of a block that was shortened.
                let is_whole = source.placement.is_none() && source.pruned_part(stored.id).is_none();
                let failed = !opaque.stands_for_history();
                Some(Block { message, part, compactor, stands: is_whole && !failed, failed })
            }
            _ => None,
        })
    })
}

/// The newest revision that a block can stand for.
fn base(source: &SourceMessage) -> Revision {
    let revision = source.message.revision;
    source.message.finish.view.as_ref().map_or(revision, |view| view.revision.min(revision))
}

/// True if nothing of what a block stands for was edited or erased since, and no summary stands for more.
fn holds(layout: &Layout, sources: &[SourceMessage], block: &Block) -> bool {
    let (before, own) = (&sources[..block.message], &sources[block.message]);
    let base = base(own);
    let is_edited =
        |source: &SourceMessage| matches!(source.placement, Some(Placement::Edit(_))) && source.message.revision > base;
    let is_erased = |source: &SourceMessage| source.message.parts.iter().any(|part| part.body.is_erased());
    // What a compaction left out since may have been erased since, and is not among the messages that tell.
    let is_gone = |reason| matches!(reason, OmitReason::Edited | OmitReason::Replayed | OmitReason::Compacted);
    let mut omitted = layout.omitted.iter().filter(|omitted| omitted.mark > base && is_gone(omitted.reason));
    let mut summarized = layout.covered.iter().flat_map(|covered| &covered.ranges);
    !before.iter().any(|source| is_edited(source) || is_erased(source))
        && !summarized.any(|range| range.last > base)
        && !omitted.any(|omitted| omitted.range.first < own.message.revision)
}

/// True if a block stands for a message before it.
fn covers(layout: &Layout, own: &SourceMessage, source: &SourceMessage) -> bool {
    let is_pinned = source.placement == Some(Placement::Pinned) || layout.pinned.contains(&slot(source));
    let is_later =
        matches!(source.placement, None | Some(Placement::Continuation)) && source.message.revision > base(own);
    !is_pinned && !is_later
}

/// True for an item of OpenAI's with nothing but the user's messages before it: they are the window that the provider
/// made, and belong to it.
fn is_window(sources: &[SourceMessage], block: Block) -> bool {
    let own = &sources[block.message].message.parts[block.part];
    let is_item = matches!(&*own.body, PartBody::Opaque(opaque) if opaque.kind != WINDOW);
    let is_kept =
        |source: &SourceMessage| source.placement.is_none() && matches!(source.message.role, Role::System | Role::User);
    block.compactor == Compactor::OpenAi && is_item && sources[..block.message].iter().all(is_kept)
}

/// The message with some of its parts.
fn with_parts(source: &SourceMessage, stays: impl Fn(usize) -> bool) -> SourceMessage {
    let mut source = SourceMessage { counts: None, ..source.clone() };
    let mut index = 0;
    source.message.parts.retain(|_| {
        index += 1;
        stays(index - 1)
    });
    source
}

/// The ranges of covered messages, with those of a summary among them. The message of the block itself, of which earlier
/// parts may be covered, is none.
fn ranges(layout: &Layout, covered: &[SourceMessage], own: Revision) -> Vec<RevisionRange> {
    let stands_for = |placement| matches!(placement, Some(Placement::Marker | Placement::Summary));
    let originals = covered.iter().filter(|source| !stands_for(source.placement));
    let revisions = originals.map(|source| source.message.revision).filter(|revision| *revision != own);
    let alone = revisions.map(|at| RevisionRange { first: at, last: at });
    let has_summary = covered.iter().any(|source| source.placement == Some(Placement::Summary));
    let summary = layout.covered.iter().filter(|_| has_summary).flat_map(|covered| covered.ranges.iter().copied());
    union(alone.chain(summary).collect())
}

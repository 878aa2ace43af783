//! The input of a fold.

use crate::model::Revision;
use crate::model::layout::Placement;
use crate::model::message::Role;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::Policy;

/// The messages and the policy of a session at one revision.
#[derive(Debug, Clone, Copy)]
pub struct FoldInput<'a> {
    /// The policy that is active at the revision.
    pub policy: &'a Policy,
    /// The messages that the layout selects, in its order.
    pub messages: &'a [SourceMessage],
    /// The newest change of the view by anything but an append: a mark, a policy, a window. Usage that was reported for an
    /// older view is not valid.
    pub changed_revision: Revision,
    /// The session's window. More usage than it holds is not believed, unless a reply names the view of a larger one.
    pub window: &'a ModelWindow,
}

impl FoldInput<'_> {
    /// The revision of the provider's own compaction that the view begins with; zero without one. No earlier view was so.
    pub(super) fn block_revision(&self) -> Revision {
        let is_block = |source: &&SourceMessage| source.placement == Some(Placement::Block);
        let may_precede = |source: &&SourceMessage| matches!(source.message.role, Role::System | Role::User);
        let mut begin = self.messages.iter().take_while(|source| is_block(source) || may_precede(source));
        let block = begin.find(is_block).and_then(|source| source.message.parts.iter().map(|part| part.revision).min());
        block.unwrap_or_default()
    }
}

//! The input of a fold.

use crate::model::Revision;
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

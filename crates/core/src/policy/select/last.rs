//! A tail of a fixed number of messages.

use crate::model::view::SourceMessage;
use crate::policy::LastMessages;

impl LastMessages {
    pub(super) fn boundary(&self, messages: &[SourceMessage]) -> usize {
        messages.len().saturating_sub(self.messages as usize)
    }

    pub(super) fn smaller(&self) -> Option<Self> {
        (self.messages >= 2).then_some(Self { messages: self.messages / 2 })
    }
}

//! What a caller does, by what it does it with: small values that borrow the caller. Their methods are in the files of
//! their subjects.

use super::Caller;

/// Declares nouns, each with the method that leads to it.
macro_rules! nouns {
    ($($(#[$about:meta])* $method:ident: $noun:ident,)*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy)]
            pub struct $noun<'a> {
                pub(super) caller: &'a Caller,
            }
        )*

        impl Caller {
            $(
                $(#[$about])*
                pub fn $method(&self) -> $noun<'_> {
                    $noun { caller: self }
                }
            )*
        }
    };
}

nouns! {
    /// The messages of sessions: what writes, reads and changes them.
    messages: Messages,
    /// The views of sessions.
    views: Views,
    /// Sessions and lists of them.
    sessions: Sessions,
    /// Compactions, their previews, and the undoing of changes.
    compactions: Compactions,
    /// Summaries that clients write for compactions.
    summary_tasks: SummaryTasks,
    /// The right to answer in sessions.
    runs: Runs,
    /// The queues of prompts.
    prompts: Prompts,
    /// The questions of agents.
    approvals: Approvals,
    /// The log: streams and pages of events.
    events: Events,
    /// Who is at work in sessions.
    presence: Presence,
    /// Everything that was written, for searches.
    history: History,
    /// The erasure of what was written.
    content: Content,
    /// Sessions as files.
    archives: Archives,
    /// Access tokens, and links to the console.
    access_tokens: Tokens,
    /// The daemon and its store, for operators.
    daemon: Daemon,
}

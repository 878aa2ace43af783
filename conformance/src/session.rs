//! Our side of a growing conversation: the driver of `longhand simulate`, or a session of the daemon's binary behind its
//! socket. Both have the same methods, so that each system with growing conversations is compared with both.

use crate::daemon::Daemon;
use crate::daemon::session::InDaemon;
use crate::harness::PeerFailure;
use longhand::model::Revision;
use longhand::model::message::{Finish, NewMessage, Role};
use longhand::model::part::NewPart;
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::{SourceMessage, View};
use longhand::policy::Policy;
use longhand::policy::plan::SummaryPlan;
use longhand::policy::prompt::{self, Detail, GAP, MARGIN, ends_line};
use longhand::simulation::{self, SimulatedCompaction, WriteSummary};

/// Text of a summary with the length that a daemon demands of a model's answer without the sections that it asked for.
pub(crate) const SUBSTANCE: &str = "It has what was asked for, what was found and decided, which files were read and \
    written, and what is left to be done, at the length that the summary of a conversation has at least: a few plain \
    sentences, which nobody reads, but which take the room that they would take in a real view, so that a conversation \
    that is no longer than they are is not summarized.";

/// A session of either driver.
pub(crate) enum Session<'a> {
    /// With `fold` alone.
    Simulated(Box<simulation::Session<'a>>),
    /// In a daemon.
    InDaemon(Box<InDaemon<'a>>),
}

/// A summary that was made.
#[derive(Debug, Clone)]
pub(crate) struct SummaryMade {
    /// Newly covered messages, oldest first.
    pub(crate) head: Vec<SourceMessage>,
    /// The front of a split turn with a summary of its own; it follows `head`.
    pub(crate) split_turn: Vec<SourceMessage>,
    /// The text of the summary that this one replaces; none if it is not carried on.
    pub(crate) previous: Option<String>,
    /// The first position kept verbatim.
    pub(crate) tail_start: Revision,
    /// The material of the summarizer.
    pub(crate) material: Material,
}

/// The texts that a summarizer reads, without margins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Material {
    /// The transcript of `head`.
    pub(crate) history: Option<String>,
    /// The transcript of `split_turn`.
    pub(crate) front: Option<String>,
    /// The previous summary beside the transcript of `head`.
    pub(crate) previous: Option<String>,
}

impl<'a> Session<'a> {
    /// A session without messages, in a daemon if one is given. A daemon calls `writer` for each request to its model,
    /// with an input that has nothing but a message among those that the request is about.
    pub(crate) fn new(
        daemon: Option<&'a Daemon>,
        policy: &'a Policy,
        window: &'a ModelWindow,
        writer: WriteSummary<'a>,
    ) -> Result<Self, PeerFailure> {
        Ok(match daemon {
            None => Self::Simulated(Box::new(simulation::Session::new(policy, window, writer))),
            Some(daemon) => Self::InDaemon(Box::new(InDaemon::new(daemon, policy, window, writer)?)),
        })
    }

    /// Appends a message. A reply may name the newest view as the one that it was given.
    pub(crate) fn append(&mut self, new: &NewMessage<Option<String>>, names_view: bool) -> Result<(), PeerFailure> {
        match self {
            Self::Simulated(session) => session.append(new, names_view),
            Self::InDaemon(session) => session.append(new, names_view)?,
        }
        Ok(())
    }

    /// Makes the next decision. True if a compaction was applied or failed, so that another decision follows.
    pub(crate) fn compact_once(&mut self) -> Result<bool, PeerFailure> {
        match self {
            Self::Simulated(session) => Ok(session.compact_once()),
            Self::InDaemon(session) => session.compact_once(),
        }
    }

    /// True if the daemon's own summarizer wrote a summary, because the given one was refused: the session then has
    /// another text than its scenario, and is not compared any further. The newest compaction counts as refused.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Simulated(_) => false,
            Self::InDaemon(session) => session.is_over(),
        }
    }

    /// The first summary applied since the last call.
    pub(crate) fn take_summary(&mut self) -> Option<SummaryMade> {
        match self {
            Self::Simulated(session) => session.take_summary().map(SummaryMade::from),
            Self::InDaemon(session) => session.take_summary(),
        }
    }

    /// The compactions so far, also those given up.
    pub(crate) fn simulated(&self) -> &[SimulatedCompaction] {
        match self {
            Self::Simulated(session) => session.simulated(),
            Self::InDaemon(session) => session.compactions(),
        }
    }

    /// The messages of the view, in the order of the layout.
    pub(crate) fn sources(&self) -> &[SourceMessage] {
        match self {
            Self::Simulated(session) => session.sources(),
            Self::InDaemon(session) => session.sources(),
        }
    }

    /// The view.
    pub(crate) fn view(&self) -> &View {
        match self {
            Self::Simulated(session) => session.view(),
            Self::InDaemon(session) => session.view(),
        }
    }

    /// Context usage, in tokens.
    pub(crate) fn context_tokens(&self) -> i64 {
        match self {
            Self::Simulated(session) => session.context_tokens(),
            Self::InDaemon(session) => session.context_tokens(),
        }
    }
}

impl From<SummaryPlan> for SummaryMade {
    fn from(plan: SummaryPlan) -> Self {
        let rules = &plan.rules.transcript;
        let transcript = |messages: &[SourceMessage]| {
            let messages: Vec<&SourceMessage> =
                messages.iter().filter(|source| source.message.role != Role::System).collect();
            let entries = || prompt::entries(rules, Detail::full(rules), &messages).join(GAP);
            (!messages.is_empty()).then(|| without_margins(&entries()))
        };
        let history = transcript(&plan.head);
        let previous = plan.previous.clone().filter(|_| history.is_some());
        let material = Material { history, front: transcript(&plan.split_turn), previous };
        let SummaryPlan { head, split_turn, previous, tail_start, .. } = plan;
        Self { head, split_turn, previous, tail_start, material }
    }
}

/// A stored message as a client appends it, with the usage that a reply reports.
pub(crate) fn as_appended(source: &SourceMessage, usage: Option<Usage>) -> NewMessage<Option<String>> {
    let message = &source.message;
    let parts = message.parts.iter().map(|part| NewPart::new(part.body.clone()));
    NewMessage {
        finish: Some(Finish { reason: message.finish.reason, usage, ..Finish::default() }),
        origin_time: message.origin_time,
        ..NewMessage::sealed(message.role, parts.collect())
    }
}

/// A text without the margins after its line ends.
pub(crate) fn without_margins(text: &str) -> String {
    let pieces = text.split_inclusive(ends_line);
    let bare = |(at, piece): (usize, &str)| {
        if at == 0 { piece.to_owned() } else { piece.strip_prefix(MARGIN).unwrap_or(piece).to_owned() }
    };
    pieces.enumerate().map(bare).collect()
}

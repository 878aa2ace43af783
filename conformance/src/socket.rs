//! Systems with growing conversations once more, with the daemon's binary behind its socket in place of the driver of
//! `longhand simulate`: its store, its fold of one event after the other, the condition that wakes its scheduler, its
//! jobs, the requests to its model, and its views.

use crate::daemon::Daemon;
use crate::harness::{Peer, PeerFailure, Run, System};
use crate::report::{Class, Report};

/// The twin of a system.
pub(crate) struct Socket {
    pub(crate) name: &'static str,
    pub(crate) system: &'static dyn System,
}

impl System for Socket {
    fn name(&self) -> &'static str {
        self.name
    }

    fn packages(&self) -> &'static str {
        self.system.packages()
    }

    fn program(&self) -> &'static str {
        self.system.program()
    }

    fn classes(&self) -> &'static [Class] {
        self.system.classes()
    }

    fn missing(&self) -> Option<String> {
        self.system.missing()
    }

    fn run(&self, peer: &mut Peer, run: Run<'_>, report: &mut Report) -> Result<(), PeerFailure> {
        let daemon = Daemon::start(&std::env::temp_dir())?;
        self.system.run(peer, Run { scenarios: run.lives, daemon: Some(&daemon), ..run }, report)
    }
}

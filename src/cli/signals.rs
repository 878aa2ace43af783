//! The signals that ask a program to end.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of an interrupted process, as shells report it.
pub(super) const INTERRUPTED: u8 = 130;

/// The signals that stop a program: from now on they do not end it by themselves.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to receive them.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

//! Event streams on their way to their clients.
//!
//! A task reads each stream. The task first waits for its client without holding anything, and then reads: a client
//! that does not read therefore blocks no reader of the store, no lock and no snapshot.

use super::error::{Error, Reason, Result};
use super::events::{EventStream, Frame};
use crate::traffic::{MemoryBudget, Reservation};
use crate::turns;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Frames that are read ahead of their client. More would be memory held by a client that does not read.
const FRAMES_AHEAD: usize = 1;

/// The frames of an event stream, as its client takes them.
pub struct EventFeed {
    frames: mpsc::Receiver<Result<(Frame, Reservation)>>,
    is_over: bool,
}

impl EventFeed {
    /// Starts a task that reads the stream. It ends when the feed is dropped, or after an error.
    pub(super) fn new(stream: EventStream, budget: Arc<MemoryBudget>) -> Self {
        let (sender, frames) = mpsc::channel(FRAMES_AHEAD);
        turns::spawn(read_frames(stream, budget, sender));
        Self { frames, is_over: false }
    }

    /// The next frame, or the error that ends the stream; none after that.
    pub async fn next(&mut self) -> Option<Result<Frame>> {
        let read = match self.frames.recv().await {
            Some(read) => read.map(|(frame, _)| frame),
            None if self.is_over => return None,
            None => {
                let message = "the client took nothing of a snapshot while others needed its memory; ask for it again";
                Err(Error::new(Reason::ReaderStalled, message))
            }
        };
        self.is_over = read.is_err();
        Some(read)
    }
}

impl EventStream {
    /// Starts a task that reads the stream ahead of a client that may be slow or silent.
    pub fn feed(self) -> EventFeed {
        let budget = self.app.shared.entrance.traffic().answers.clone();
        EventFeed::new(self, budget)
    }
}

/// Reads a frame whenever the client has taken the one before.
async fn read_frames(
    mut stream: EventStream,
    budget: Arc<MemoryBudget>,
    sender: mpsc::Sender<Result<(Frame, Reservation)>>,
) {
    loop {
        let slot = tokio::select! {
            slot = sender.reserve() => slot,
            () = stream.revoked() => return,
        };
        let Ok(slot) = slot else { return };
        let read = tokio::select! {
            read = stream.next() => read,
            () = sender.closed() => return,
        };
        let ends = read.is_err();
        slot.send(read.map(|frame| {
            let reservation = budget.hold(frame.bytes());
            // The transport waits for the client, so the transport's holder is the one that gives up.
            reservation.exempt();
            (frame, reservation)
        }));
        if ends {
            return;
        }
    }
}

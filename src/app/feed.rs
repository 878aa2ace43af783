//! An event stream on its way to its client.
//!
//! A stream is read by a task of its own. The task waits for its client first, holding nothing, and reads then: a client
//! that takes nothing therefore keeps no reader of the store, no lock and no snapshot from anybody.

use super::error::{Error, Reason, Result};
use super::events::{EventStream, Frame};
use super::room::{Held, Room};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Frames that were read ahead of their client. More would be memory that a client who does not read takes for nothing.
const FRAMES_AHEAD: usize = 1;

/// The frames of an event stream, as its client takes them.
pub struct EventFeed {
    frames: mpsc::Receiver<Result<(Frame, Held)>>,
    is_over: bool,
}

impl EventFeed {
    /// Has a task read the stream. It ends when the feed is dropped, or behind an error.
    pub(super) fn new(stream: EventStream, room: Arc<Room>) -> Self {
        let (sender, frames) = mpsc::channel(FRAMES_AHEAD);
        tokio::spawn(read(stream, room, sender));
        Self { frames, is_over: false }
    }

    /// The next frame, or why the stream ends; none behind that.
    pub async fn next(&mut self) -> Option<Result<Frame>> {
        let read = match self.frames.recv().await {
            Some(read) => read.map(|(frame, _)| frame),
            None if self.is_over => return None,
            None => {
                let message = "the client took nothing of a snapshot while others needed its room; ask for it again";
                Err(Error::new(Reason::ReaderStalled, message))
            }
        };
        self.is_over = read.is_err();
        Some(read)
    }
}

/// Reads a stream whenever its client has taken what was read before.
async fn read(mut stream: EventStream, room: Arc<Room>, sender: mpsc::Sender<Result<(Frame, Held)>>) {
    loop {
        let place = tokio::select! {
            place = sender.reserve() => place,
            () = stream.has_to_give_up() => return,
        };
        let Ok(place) = place else { return };
        let read = tokio::select! {
            read = stream.next() => read,
            () = sender.closed() => return,
        };
        let ends = read.is_err();
        place.send(read.map(|frame| {
            let held = room.hold(frame.bytes());
            // It is the transport that waits for the client, and that is told to give up.
            held.settle();
            (frame, held)
        }));
        if ends {
            return;
        }
    }
}

//! The access log: who read, exported or administered what over the network, apart from the store and its writer.
//!
//! It is a folder with a file of JSON lines for each day. Every line has a number and a hash that commits to the line
//! and to the hash before it, so that [`verify()`] finds what was altered, dropped or inserted; the first line of a file
//! repeats the hash before it, so that old files can go. A thread of its own writes the lines of all waiting callers
//! together, before they get their answers. A line survives a crash of the daemon; of a crash of the machine the last
//! second may be lost.

mod chain;
mod files;
mod verify;

pub use chain::Entry;
pub use files::Options;
pub use verify::{Fault, VerifiedLog, verify};

use crate::clock::Clock;
use crate::limits;
use crate::model::time::Timestamp;
use chain::Chain;
use files::Files;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The log could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the access log cannot be written: {0}")]
pub struct WriteFailed(String);

/// A line that waits to be written, and its caller.
type WaitingLine = (Entry, oneshot::Sender<Result<(), WriteFailed>>);

/// The way to the log: cheap to clone.
#[derive(Clone)]
pub struct AccessLog {
    queue: async_channel::Sender<WaitingLine>,
    is_failing: Arc<AtomicBool>,
}

impl AccessLog {
    /// Opens the log, goes on behind its last line, and starts the thread that writes it until all handles are dropped.
    ///
    /// # Errors
    ///
    /// If the folder or its newest file cannot be used.
    pub fn open(options: Options, clock: Clock) -> io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (files, chain) = Files::open(options)?;
        let (queue, waiting) = async_channel::bounded(limits::ACCESS_LOG_QUEUE_MAX);
        let is_failing = Arc::new(AtomicBool::new(false));
        let writer = Writer { files, chain, clock, is_failing: is_failing.clone(), synced: Instant::now() };
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        let thread = thread.spawn(move || writer.run(&waiting))?;
        Ok((Self { queue, is_failing }, thread))
    }

    /// Writes a line, and waits until it is written.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub async fn record(&self, entry: Entry) -> Result<(), WriteFailed> {
        let gone = || WriteFailed("its thread has ended".to_owned());
        let (written, answer) = oneshot::channel();
        self.queue.send((entry, written)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// True if the last line could not be written.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }
}

struct Writer {
    files: Files,
    chain: Chain,
    clock: Clock,
    is_failing: Arc<AtomicBool>,
    /// The time of the last sync.
    synced: Instant,
}

impl Writer {
    fn run(mut self, waiting: &async_channel::Receiver<WaitingLine>) {
        while let Ok(first) = waiting.recv_blocking() {
            let mut batch = vec![first];
            while batch.len() < limits::ACCESS_LOG_BATCH_MAX
                && let Ok(next) = waiting.try_recv()
            {
                batch.push(next);
            }
            let written = self.write(&batch, self.clock.present());
            let was_failing = self.is_failing.swap(written.is_err(), Ordering::Relaxed);
            if let Err(error) = &written
                && !was_failing
            {
                tracing::error!(%error, "the access log cannot be written");
            }
            let written = written.map_err(|error| WriteFailed(error.to_string()));
            for (_, caller) in batch {
                drop(caller.send(written.clone()));
            }
        }
        drop(self.files.sync());
    }

    /// Writes lines whole or not at all.
    fn write(&mut self, batch: &[WaitingLine], now: Timestamp) -> io::Result<()> {
        let begins = self.files.turn_to(now)?;
        self.files.delete_old(self.clock.certain())?;
        let mut chain = self.chain.clone();
        let mut text = String::new();
        for (number, (entry, _)) in batch.iter().enumerate() {
            text += &chain.line(entry, now, begins && number == 0);
        }
        self.files.append(text.as_bytes())?;
        self.chain = chain;
        if self.synced.elapsed() >= Duration::from_millis(limits::ACCESS_LOG_SYNC_MS) {
            self.files.sync()?;
            self.synced = Instant::now();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

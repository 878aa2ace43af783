//! What lies between a daemon and its database, or the other daemons: a socket that passes everything on, until it holds back
//! what goes one way, or both, without a word to either side, as a network does that loses everything; and that ends
//! connections.

use super::record::lock;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Maximum number of bytes that are passed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What a wire holds back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// What goes to whoever listens.
    pub(super) requests: bool,
    /// What comes from there.
    pub(super) replies: bool,
}

/// The connections to a socket.
#[derive(Debug)]
pub(super) struct Wire {
    /// The socket in its place.
    pub(super) socket: PathBuf,
    held: watch::Sender<Held>,
    /// Incremented to end all connections.
    cuts: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

/// The socket itself. That of the database is another one after a failover.
pub(super) type Target = Arc<Mutex<PathBuf>>;

impl Wire {
    /// Listens on a socket.
    pub(super) fn start(socket: PathBuf, target: &Target) -> Result<Self> {
        std::fs::create_dir_all(socket.parent().context("a folder")?)?;
        let listener = UnixListener::bind(&socket).context("a wire")?;
        let (held, cuts) = (watch::Sender::default(), watch::Sender::default());
        let (of_all, ends, target) = (held.clone(), cuts.clone(), target.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let to = lock(&target).clone();
                tokio::spawn(connection(from, to, of_all.subscribe(), ends.subscribe()));
            }
        });
        Ok(Self { socket, held, cuts, accepting })
    }

    /// Holds back what goes these ways, from now on.
    pub(super) fn hold(&self, held: Held) {
        self.held.send_replace(held);
    }

    /// Ends all connections, with what is held back.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Passes on what two sides say to each other, until one of them ends or the connection is cut.
async fn connection(from: UnixStream, to: PathBuf, held: watch::Receiver<Held>, mut cuts: watch::Receiver<u64>) {
    let Ok(to) = UnixStream::connect(to).await else { return };
    let ((from_read, from_write), (to_read, to_write)) = (from.into_split(), to.into_split());
    tokio::select! {
        biased;
        _ = cuts.changed() => {}
        () = pass(from_read, to_write, held.clone(), |held| held.requests) => {}
        () = pass(to_read, from_write, held, |held| held.replies) => {}
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut held: watch::Receiver<Held>,
    is_held: fn(&Held) -> bool,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length) = from.read(&mut piece).await {
        let is_open = held.wait_for(|held| !is_held(held)).await.is_ok();
        if length == 0 || !is_open || to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

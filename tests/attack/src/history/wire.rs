//! What lies between a daemon and its database: a socket that passes everything on, until it holds back what goes one way,
//! or both, without a word to either side, as a network does that loses everything; and that ends connections.

use super::record::lock;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The name of the database's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";
/// Maximum number of bytes that are passed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What a wire holds back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// What goes to the database.
    pub(super) requests: bool,
    /// What comes from it.
    pub(super) replies: bool,
}

/// The connections of one daemon.
#[derive(Debug)]
pub(super) struct Wire {
    /// The folder of the socket.
    pub(super) folder: PathBuf,
    held: watch::Sender<Held>,
    /// Incremented to end all connections.
    cuts: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

/// The folder of the database's own socket, which is another one after a failover.
pub(super) type Target = Arc<Mutex<PathBuf>>;

impl Wire {
    /// Listens in a folder.
    pub(super) fn start(folder: &Path, target: &Target) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let listener = UnixListener::bind(folder.join(SOCKET)).context("a wire")?;
        let (held, cuts) = (watch::Sender::default(), watch::Sender::default());
        let (of_all, ends, target) = (held.clone(), cuts.clone(), target.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let to = lock(&target).join(SOCKET);
                tokio::spawn(connection(from, to, of_all.subscribe(), ends.subscribe()));
            }
        });
        Ok(Self { folder: folder.to_owned(), held, cuts, accepting })
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
        () = pass(from_read, to_write, held.clone(), |held| held.requests) => {}
        () = pass(to_read, from_write, held, |held| held.replies) => {}
        _ = cuts.changed() => {}
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

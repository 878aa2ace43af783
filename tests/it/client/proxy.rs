//! A connection between a client and a daemon that can be cut, and of which the answers can be withheld.

use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// A socket that leads to a daemon's.
pub(super) struct Proxy {
    /// The socket.
    pub(super) socket: PathBuf,
    /// True while answers are withheld.
    withheld: watch::Sender<bool>,
    /// The number of times that all connections were cut.
    cuts: watch::Sender<usize>,
}

impl Proxy {
    pub(super) fn start(home: &Path, daemon: &Path) -> Self {
        let socket = home.join("proxy.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (withheld, is_withheld) = watch::channel(false);
        let (cuts, cut) = watch::channel(0);
        let daemon = daemon.to_owned();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let daemon = UnixStream::connect(&daemon).await.expect("a daemon");
                let ((from_client, to_client), (from_daemon, to_daemon)) = (client.into_split(), daemon.into_split());
                let mut cut = cut.clone();
                cut.mark_unchanged();
                let (is_cut, is_withheld) = (cut.clone(), is_withheld.clone());
                tokio::spawn(async move {
                    let withheld = move || *is_withheld.borrow() || is_cut.has_changed().unwrap_or(true);
                    tokio::select! {
                        () = pass(from_client, to_daemon, || false) => {}
                        () = pass(from_daemon, to_client, withheld) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { socket, withheld, cuts }
    }

    /// Withholds answers that come from now on until the connections are cut.
    pub(super) fn withhold(&self) {
        self.withheld.send_replace(true);
    }

    /// Cuts all connections. What is withheld of them never comes; the answers of later ones are passed on.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
        self.withheld.send_replace(false);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_withheld: impl Fn() -> bool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if !is_withheld() && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

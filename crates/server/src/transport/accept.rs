//! Accepting connections up to a maximum, and refusing further ones.

use super::connection;
use super::connections::{Connection, Holder};
use super::io::CountedIo;
use super::peer::Peer;
use super::server::Server;
use super::tls::Tls;
use crate::limits;
use crate::telemetry::Seldom;
use rustix::net::sockopt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

/// When the log last told of other users at the socket.
static OTHERS: Seldom = Seldom::new();

/// A listener for connections.
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener, Option<Tls>),
}

enum AcceptedConnection {
    Unix(UnixStream),
    Tcp(TcpStream, SocketAddr, Option<TlsAcceptor>),
}

impl Listener {
    async fn accept(&self) -> io::Result<AcceptedConnection> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(connection, _)| AcceptedConnection::Unix(connection)),
            Self::Tcp(listener, tls) => {
                let (connection, address) = listener.accept().await?;
                connection.set_nodelay(true)?;
                find_loss(&connection)?;
                Ok(AcceptedConnection::Tcp(connection, address, tls.as_ref().map(Tls::acceptor)))
            }
        }
    }
}

/// Lets the system end a connection whose client is lost, by a network that carries nothing any more.
fn find_loss(connection: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(connection, true)?;
    sockopt::set_tcp_keepidle(connection, Duration::from_secs(limits::PROBE_AFTER_SECONDS))?;
    sockopt::set_tcp_keepintvl(connection, Duration::from_secs(limits::PROBE_INTERVAL_SECONDS))?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(connection, limits::UNACKNOWLEDGED_MS_MAX)?;
    Ok(())
}

/// Accepts connections until the daemon stops.
pub(super) async fn run(listener: Listener, server: Arc<Server>) {
    // Clients can cause it again and again: it is counted, and told now and then.
    let failing = Seldom::new();
    loop {
        let accepted = tokio::select! {
            () = server.options.stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => accept(&server, accepted),
            Err(error) if is_exhausted(&error) => {
                server.options.traffic.failed_accepts.add(1);
                if failing.is_due() {
                    tracing::warn!(%error, "no connection can be accepted; the daemon tries again until one can");
                }
                // A connection is closed to free a descriptor. Until then the error would recur in a busy loop.
                server.connections.free_one(&server.options.traffic);
                tokio::time::sleep(Duration::from_millis(limits::ACCEPT_RETRY_MS)).await;
            }
            // A client that was gone before it was accepted.
            Err(error) => tracing::debug!(%error, "a connection was not accepted"),
        }
    }
}

/// True if the system lacks the resources to accept a connection.
fn is_exhausted(error: &io::Error) -> bool {
    let aborted = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted];
    !aborted.contains(&error.kind())
}

fn accept(server: &Arc<Server>, accepted: AcceptedConnection) {
    let holder = match &accepted {
        AcceptedConnection::Unix(io) if !is_owners(io) => {
            server.options.traffic.refused_connections.add(1);
            if OTHERS.is_due() {
                tracing::warn!("connections of another user to the socket are refused");
            }
            return;
        }
        AcceptedConnection::Unix(_) => Holder::Owner,
        AcceptedConnection::Tcp(_, address, _) => Holder::stranger(address.ip()),
    };
    let Some(connection) = server.connections.open(holder, &server.options.traffic) else {
        server.options.traffic.refused_connections.add(1);
        let refusal = refusal();
        drop(match &accepted {
            AcceptedConnection::Unix(io) => io.try_write(&refusal),
            AcceptedConnection::Tcp(io, _, None) => io.try_write(&refusal),
            AcceptedConnection::Tcp(_, _, Some(_)) => Ok(0),
        });
        return;
    };
    match accepted {
        AcceptedConnection::Unix(io) => {
            let io = CountedIo { io, connection: connection.clone() };
            server.tasks.spawn(connection::serve(io, Peer::Owner, connection, server.clone()));
        }
        AcceptedConnection::Tcp(io, address, tls) => {
            let io = CountedIo { io, connection: connection.clone() };
            let peer = Peer::Tcp { address, is_encrypted: tls.is_some() };
            match tls {
                None => server.tasks.spawn(connection::serve(io, peer, connection, server.clone())),
                Some(tls) => server.tasks.spawn(serve_encrypted(tls, io, peer, connection, server.clone())),
            };
        }
    }
}

/// Serves a connection of TLS, whose handshake has the time of a greeting.
async fn serve_encrypted(
    tls: TlsAcceptor,
    io: CountedIo<TcpStream>,
    peer: Peer,
    connection: Arc<Connection>,
    server: Arc<Server>,
) {
    let greeting = tokio::time::timeout(Duration::from_millis(limits::HANDSHAKE_MS_MAX), tls.accept(io));
    let io = tokio::select! {
        () = server.options.stopping.cancelled() => return,
        () = connection.has_to_close() => return,
        greeting = greeting => match greeting {
            Ok(Ok(io)) => io,
            Ok(Err(error)) => return tracing::debug!(%error, "a client does not speak TLS"),
            Err(_) => return tracing::debug!("a client did not greet in time"),
        },
    };
    connection::serve(io, peer, connection, server).await;
}

/// True if the process at the other end belongs to the daemon's user, or to the administrator, who may read its files
/// anyway.
fn is_owners(io: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    io.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// The answer to a refused connection: empty settings, which have to come first, and GOAWAY. A client of HTTP/1.1 finds
/// no answer in it, as if the connection had been closed.
fn refusal() -> Vec<u8> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GO_AWAY: u8 = 7;
    const ENHANCE_YOUR_CALM: u8 = 11;
    const WHY: &[u8] = b"too many connections";
    let mut frames = SETTINGS.to_vec();
    frames.extend([0, 0, 8 + WHY.len() as u8, GO_AWAY, 0, 0, 0, 0, 0]);
    frames.extend([0, 0, 0, 0, 0, 0, 0, ENHANCE_YOUR_CALM]);
    frames.extend(WHY);
    frames
}

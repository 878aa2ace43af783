//! A connection: HTTP/2, its calls, and its end.

use super::call;
use super::server::{ConnectionEntry, Server};
use crate::grpc::OwnerSocket;
use crate::limits;
use bytes::Bytes;
use h2::server::{Builder, Connection};
use h2::{Ping, PingPong, Reason};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits::CONNECTION_STREAMS_MAX)
        .max_header_list_size(limits::HEADERS_BYTES_MAX)
        .max_send_buffer_size(limits::SEND_BUFFER_BYTES);
    builder
}

/// Serves a connection to its end. All its calls end with it. `is_owners` is true on the Unix socket.
pub(super) async fn serve<Io>(io: Io, is_owners: bool, entry: ConnectionEntry, server: Arc<Server>)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = tokio::time::timeout(millis(limits::HANDSHAKE_MS_MAX), builder().handshake::<_, Bytes>(io));
    let connection = tokio::select! {
        () = server.closing.cancelled() => return,
        () = entry.has_to_close() => return,
        handshake = handshake => match handshake {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%error, "a client does not speak HTTP/2"),
            Err(_) => return tracing::debug!("a client did not greet in time"),
        },
    };
    tokio::select! {
        () = server.aborting.cancelled() => {}
        () = calls(connection, is_owners, &entry, &server) => {}
    }
}

/// Accepts calls until the client is gone, or the connection has to close and its calls have ended.
async fn calls<Io>(
    mut connection: Connection<Io, Bytes>,
    is_owners: bool,
    entry: &ConnectionEntry,
    server: &Arc<Server>,
) where
    Io: AsyncRead + AsyncWrite + Unpin,
{
    let mut calls = JoinSet::new();
    let mut gone = pin!(keep_alive(connection.ping_pong()));
    let mut stopping = pin!(server.stopping.cancelled());
    let mut is_stopping = false;
    loop {
        tokio::select! {
            // Ended calls are handled first, so that consecutive calls do not accumulate.
            biased;
            Some(ended) = calls.join_next() => {
                // The rest of the call's answer is dropped with the connection.
                if matches!(ended, Ok(call::End::Stuck)) {
                    return tracing::info!("a connection ends: its client does not read");
                }
                if calls.is_empty() {
                    entry.is_idle(true);
                }
            }
            accepted = connection.accept() => match accepted {
                Some(Ok((mut request, respond))) => {
                    if is_owners {
                        request.extensions_mut().insert(OwnerSocket);
                    }
                    if calls.is_empty() {
                        entry.is_idle(false);
                    }
                    calls.spawn(call::run(request, respond, server.clone()));
                }
                Some(Err(error)) => return tracing::debug!(%error, "a connection ends"),
                None => return,
            },
            () = &mut stopping, if !is_stopping => {
                is_stopping = true;
                connection.graceful_shutdown();
            }
            // The connection does not wait for a client that ignores its end, once the client's calls have ended.
            () = server.closing.cancelled(), if calls.is_empty() => break,
            () = entry.has_to_close(), if calls.is_empty() => break,
            () = &mut gone => return tracing::debug!("a client is gone"),
        }
    }
    connection.abrupt_shutdown(Reason::NO_ERROR);
    let closed = std::future::poll_fn(|context| connection.poll_closed(context));
    drop(tokio::time::timeout(millis(limits::ACCEPT_RETRY_MS), closed).await);
}

/// Pings the client at intervals. Returns when it does not answer.
async fn keep_alive(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(millis(limits::KEEPALIVE_INTERVAL_MS)).await;
        match tokio::time::timeout(millis(limits::KEEPALIVE_TIMEOUT_MS), pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

//! The begin of a connection, which says the version of its protocol.

use super::connections::Connection;
use super::io::Io;
use crate::limits;
use bytes::{Buf as _, Bytes, BytesMut};
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What a client of HTTP/2 sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A socket of which some bytes were read.
pub(super) struct GreetedSocket<T> {
    first: Bytes,
    io: T,
    /// Over HTTP/1.1: the end of what the client sends.
    end: Option<HalfClosed>,
}

/// The end of what a client sends. One that waits for an answer is not told apart from one that has left: its call goes
/// on for a while, and then it has left.
struct HalfClosed {
    connection: Arc<Connection>,
    /// None before the end has come.
    patience: Option<Pin<Box<Sleep>>>,
}

impl HalfClosed {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let patience = Duration::from_millis(limits::HALF_CLOSED_MS_MAX);
        let sleep = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match self.connection.poll_answered(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => sleep.as_mut().poll(context),
        }
    }
}

impl<T> GreetedSocket<T> {
    /// The same socket of a client over HTTP/1.1, whose calls are answered if it only stopped sending.
    pub(super) fn half_closed(self, connection: Arc<Connection>) -> Self {
        Self { end: Some(HalfClosed { connection, patience: None }), ..self }
    }
}

/// Reads until the version is known: true for HTTP/2.
///
/// # Errors
///
/// Those of the socket.
pub(super) async fn read<T: Io>(mut io: T) -> Result<(bool, GreetedSocket<T>)> {
    let mut first = BytesMut::with_capacity(PREFACE.len());
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        let missing = (PREFACE.len() - first.len()) as u64;
        if (&mut io).take(missing).read_buf(&mut first).await? == 0 {
            break;
        }
    }
    let is_http2 = first == PREFACE;
    Ok((is_http2, GreetedSocket { first: first.freeze(), io, end: None }))
}

impl<T: Io> AsyncRead for GreetedSocket<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.first.is_empty() {
            let (before, Self { io, end, .. }) = (buffer.filled().len(), &mut *self);
            let Some(end) = end else { return Pin::new(io).poll_read(context, buffer) };
            if end.patience.is_none() {
                ready!(Pin::new(io).poll_read(context, buffer))?;
                if buffer.filled().len() > before || buffer.remaining() == 0 {
                    return Poll::Ready(Ok(()));
                }
            }
            return end.poll(context).map(Ok);
        }
        let bytes = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..bytes]);
        self.first.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<T: Io> AsyncWrite for GreetedSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    /// What is read of bytes that come in pieces of at most this size.
    async fn version(bytes: &[u8], piece_max: usize) -> (bool, Vec<u8>) {
        let (mut ours, theirs) = tokio::io::duplex(piece_max);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move { ours.write_all(&bytes).await });
        let (is_http2, mut greeted) = read(theirs).await.expect("read");
        let mut all = Vec::new();
        greeted.read_to_end(&mut all).await.expect("read");
        writing.await.expect("no panic").expect("sent");
        (is_http2, all)
    }

    #[tokio::test]
    async fn the_first_bytes_say_the_version_and_are_read_again() {
        let whole = [PREFACE, b"more"].concat();
        for piece_max in [1, 7, 100] {
            assert_eq!(version(&whole, piece_max).await, (true, whole.clone()));
        }
        for other in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/1.1\r\n\r\nbut then another", b"PR", b""] {
            assert_eq!(version(other, 100).await, (false, other.to_vec()));
        }
    }
}

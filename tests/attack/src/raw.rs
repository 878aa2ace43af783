//! A client over bare HTTP/2: it sets its own windows, and reads only on request. It answers pings like any other
//! client, so that only its silence distinguishes it from one.

use anyhow::{Context as _, Result, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message;
use std::path::Path;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// Length of the prefix of a gRPC message: one byte for compression, and four for the length.
const PREFIX_BYTES: usize = 5;

/// Number of bytes that the daemon may send before the client reads some.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    /// Per stream.
    pub stream: u32,
    /// For all streams of the connection.
    pub connection: u32,
}

impl Windows {
    /// The default windows of HTTP/2.
    pub const SMALL: Self = Self { stream: 65_535, connection: 65_535 };
    /// No bytes on any stream.
    pub const NONE: Self = Self { stream: 0, connection: 65_535 };
}

/// A connection. Its pings are answered until it is dropped.
pub struct RawClient {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<()>,
}

impl Drop for RawClient {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// A request that was sent, or begun.
pub struct Call {
    /// The stream for the rest of the request.
    pub request: SendStream<Bytes>,
    response: ResponseFuture,
}

/// An answer that is read in steps, or not at all.
pub struct Answer {
    /// The answer's headers.
    pub headers: HeaderMap,
    body: RecvStream,
}

/// The end of a call, from the trailers or the headers of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The gRPC code.
    pub code: tonic::Code,
    /// The reason in the error's details; empty for none.
    pub reason: String,
    /// The other facts in the details.
    pub facts: std::collections::HashMap<String, String>,
}

impl RawClient {
    /// Connects to the daemon behind a socket.
    pub async fn connect(socket: &Path, windows: Windows) -> Result<Self> {
        let stream = UnixStream::connect(socket).await?;
        let (requests, connection) = h2::client::Builder::new()
            .initial_window_size(windows.stream)
            .initial_connection_window_size(windows.connection)
            .handshake::<_, Bytes>(stream)
            .await?;
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { requests, connection })
    }

    /// Begins a call, without its message.
    pub async fn begin(&mut self, method: &str, headers: &[(&'static str, &str)]) -> Result<Call> {
        let mut request = Request::post(format!("http://localhost/longhand.v1.{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut requests = self.requests.clone().ready().await?;
        let (response, request) = requests.send_request(request.body(())?, false)?;
        Ok(Call { request, response })
    }

    /// Sends a whole request.
    pub async fn call(&mut self, method: &str, message: &impl Message) -> Result<Call> {
        let mut call = self.begin(method, &[]).await?;
        call.request.send_data(framed(message), true)?;
        Ok(call)
    }
}

/// Frames of HTTP/2, byte by byte, for what no library sends.
pub mod frames {
    /// Type of a frame with content.
    pub const DATA: u8 = 0;
    /// Type of a frame with a head.
    pub const HEADERS: u8 = 1;
    /// Type of a frame with settings.
    const SETTINGS: u8 = 4;
    /// Type of a ping.
    pub const PING: u8 = 6;
    /// Flag of an acknowledgement.
    pub const ACK: u8 = 1;
    /// Flag of a head that is complete.
    const END_HEADERS: u8 = 4;

    /// A frame.
    pub fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
    }

    /// What a client sends first.
    pub fn greeting() -> Vec<u8> {
        [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat()
    }

    /// The head of a call of gRPC without credentials, whose content follows.
    pub fn head(stream: u32, path: &str) -> Vec<u8> {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap_or(127)], text.as_bytes()].concat();
        let block: Vec<u8> =
            fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect();
        frame(HEADERS, END_HEADERS, stream, &block)
    }
}

/// A message in gRPC framing.
pub fn framed(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.encoded_len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    frame.put(message.encode_to_vec().as_slice());
    frame.freeze()
}

impl Call {
    /// Waits until the daemon answers.
    pub async fn answer(self) -> Result<Answer> {
        let (head, body) = self.response.await?.into_parts();
        Ok(Answer { headers: head.headers, body })
    }
}

impl Answer {
    /// Reads until the answer ends: the messages and the end.
    pub async fn rest<T: Message + Default>(&mut self) -> Result<(Vec<T>, End)> {
        let mut bytes = BytesMut::new();
        while let Some(data) = self.next().await {
            bytes.put(data?);
        }
        let end = self.end().await?;
        Ok((messages(bytes)?, end))
    }

    /// Reads until the connection breaks: the messages that came whole.
    pub async fn until_broken<T: Message + Default>(&mut self) -> Result<Vec<T>> {
        let mut bytes = BytesMut::new();
        loop {
            match self.next().await {
                Some(Ok(data)) => bytes.put(data),
                Some(Err(_)) => return messages(bytes),
                None => anyhow::bail!("the answer has a regular end"),
            }
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes>> {
        let data = self.body.data().await?;
        Some(data.map_err(Into::into).and_then(|data| {
            self.body.flow_control().release_capacity(data.len())?;
            Ok(data)
        }))
    }

    /// The end of the answer, once everything else of it is read.
    async fn end(&mut self) -> Result<End> {
        let trailers = match self.headers.contains_key("grpc-status") {
            true => self.headers.clone(),
            false => self.body.trailers().await?.context("the answer has no trailers")?,
        };
        let status = tonic::Status::from_header_map(&trailers).context("the trailers have no status")?;
        let details = tonic_types::StatusExt::get_error_details(&status);
        let info = details.error_info().cloned();
        let (reason, facts) = info.map(|info| (info.reason, info.metadata)).unwrap_or_default();
        ensure!(status.code() == tonic::Code::Ok || !reason.is_empty(), "a failure without a reason: {status}");
        Ok(End { code: status.code(), reason, facts })
    }
}

/// The messages that came whole.
fn messages<T: Message + Default>(mut bytes: BytesMut) -> Result<Vec<T>> {
    let mut messages = Vec::new();
    while bytes.len() >= PREFIX_BYTES {
        let length = u32::from_be_bytes(bytes[1..PREFIX_BYTES].try_into()?) as usize;
        if bytes.len() < PREFIX_BYTES + length {
            break;
        }
        let frame = bytes.split_to(PREFIX_BYTES + length);
        messages.push(T::decode(&frame[PREFIX_BYTES..])?);
    }
    Ok(messages)
}

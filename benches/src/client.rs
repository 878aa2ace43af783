//! A client that costs little, on HTTP/2 itself: the load generator shares its processors with the server, and a general
//! client spends as much time on a call as the server's own HTTP/2.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Length of the flags and the length before a message.
const PREFIX_BYTES: usize = 5;
/// Bytes that the server may send, and ours may be on their way, before either waits.
const WINDOW_BYTES: u32 = 1 << 20;

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Client {
    send: SendRequest<Bytes>,
    /// The access token of its calls.
    credentials: Option<HeaderValue>,
}

/// The body of a request.
pub(crate) fn encode(request: &impl Message) -> Bytes {
    let length = request.encoded_len();
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + length);
    body.put_u8(0);
    body.put_u32(u32::try_from(length).expect("a request is short"));
    request.encode(&mut body).expect("a buffer takes all");
    body.freeze()
}

/// The number of a call's status: 0 for a call that was answered.
fn status(headers: &HeaderMap) -> Option<u16> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

impl Client {
    /// Connects to a Unix socket.
    pub(crate) async fn connect(address: &str) -> Self {
        let path = address.strip_prefix("unix:").expect("the address of a Unix socket");
        Self::over(UnixStream::connect(path).await.expect("it listens"), None).await
    }

    /// Connects over TCP, with an access token.
    pub(crate) async fn connect_tcp(url: &str, secret: &str) -> Self {
        let stream = TcpStream::connect(url.strip_prefix("http://").expect("a URL")).await.expect("it listens");
        stream.set_nodelay(true).expect("a connection");
        let credentials = HeaderValue::from_str(&format!("Bearer {secret}")).expect("a secret");
        Self::over(stream, Some(credentials)).await
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        credentials: Option<HeaderValue>,
    ) -> Self {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        let (send, connection) = builder.handshake::<_, Bytes>(stream).await.expect("HTTP/2");
        tokio::spawn(async move { drop(connection.await) });
        Self { send, credentials }
    }

    /// Sends a request that is encoded. It is appended when the call returns.
    pub(crate) async fn append(&mut self, body: Bytes) {
        let status = self.call("MessageService/AppendMessages", body).await;
        assert_eq!(status, 0, "not appended");
    }

    /// Sends a request that is encoded, and takes the whole answer. Returns the number of its status.
    pub(crate) async fn call(&mut self, method: &str, body: Bytes) -> u16 {
        let mut request = Request::post(format!("http://localhost/longhand.v1.{method}"))
            .header("te", "trailers")
            .header("content-type", "application/grpc");
        if let Some(credentials) = &self.credentials {
            request = request.header(AUTHORIZATION, credentials);
        }
        let request = request.body(()).expect("a request");
        let mut send = self.send.clone().ready().await.expect("it is connected");
        let (answer, mut stream) = send.send_request(request, false).expect("it is connected");
        // A server that refuses a call need not take its body.
        drop(stream.send_data(body, true));
        let answer = answer.await.expect("an answer");
        if let Some(status) = status(answer.headers()) {
            return status;
        }
        let mut body = answer.into_body();
        while let Some(data) = body.data().await {
            let data = data.expect("an answer");
            body.flow_control().release_capacity(data.len()).expect("they were received");
        }
        let trailers = body.trailers().await.expect("an end");
        trailers.as_ref().and_then(status).expect("a status")
    }
}

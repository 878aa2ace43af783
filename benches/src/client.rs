//! A client of `AppendMessages` that costs little, on HTTP/2 itself: the load generator shares its processors with the
//! server, and a general client spends as much time on a call as the server's own HTTP/2.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use longhand::pb;
use prost::Message as _;
use tokio::net::UnixStream;

/// Length of the flags and the length before a message.
const PREFIX_BYTES: usize = 5;
/// Bytes that the server may send, and ours may be on their way, before either waits.
const WINDOW_BYTES: u32 = 1 << 20;

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Client(SendRequest<Bytes>);

/// The body of a request.
pub(crate) fn encode(request: &pb::AppendMessagesRequest) -> Bytes {
    let length = request.encoded_len();
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + length);
    body.put_u8(0);
    body.put_u32(u32::try_from(length).expect("a request is short"));
    request.encode(&mut body).expect("a buffer takes all");
    body.freeze()
}

fn is_ok(headers: &HeaderMap) -> bool {
    headers.get("grpc-status").is_some_and(|status| status == "0")
}

impl Client {
    /// Connects to a Unix socket.
    pub(crate) async fn connect(address: &str) -> Self {
        let path = address.strip_prefix("unix:").expect("the address of a Unix socket");
        let stream = UnixStream::connect(path).await.expect("it listens");
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        let (send, connection) = builder.handshake::<_, Bytes>(stream).await.expect("HTTP/2");
        tokio::spawn(async move { drop(connection.await) });
        Self(send)
    }

    /// Sends a request that is encoded. It is appended when the call returns.
    pub(crate) async fn append(&mut self, body: Bytes) {
        let request = Request::post("http://localhost/longhand.v1.MessageService/AppendMessages")
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(())
            .expect("a request");
        let mut send = self.0.clone().ready().await.expect("it is connected");
        let (answer, mut stream) = send.send_request(request, false).expect("it is connected");
        stream.send_data(body, true).expect("it is connected");
        let answer = answer.await.expect("an answer");
        let headers = answer.headers().clone();
        let mut body = answer.into_body();
        let mut received = 0;
        while let Some(data) = body.data().await {
            let data = data.expect("an answer");
            received += data.len();
            body.flow_control().release_capacity(data.len()).expect("they were received");
        }
        let trailers = body.trailers().await.expect("an end");
        let is_appended = trailers.as_ref().is_some_and(is_ok) && received > PREFIX_BYTES;
        assert!(is_appended, "not appended: {headers:?} {trailers:?}");
    }
}

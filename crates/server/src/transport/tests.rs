//! Clients over HTTP/2, and a service, with small memory budgets and a paused clock.

use super::accept::{self, Listener};
use super::connection;
use super::connections::Holder;
use super::io::CountedIo;
use super::{ClientStanding, Options, Peer, RequestBody, RequestClass, Server, Service};
use crate::app::Error;
use crate::traffic::{MemoryBudget, Traffic};
use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::FutureExt as _;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Bytes of a page in the service's answers.
const PAGE_BYTES: usize = 50_000;
/// Bytes of a large request.
const LARGE: usize = 900_000;
/// Memory for one large request.
const ROOM: usize = 1_000_000;
/// A window for less than a page.
const NARROW: u32 = 20_000;
/// A window for a page.
const WIDE: u32 = 65_535;

/// Reads a request whole, and answers according to the method's name.
async fn answer(request: Request<RequestBody>) -> Response<Body> {
    let method = request.uri().path().trim_start_matches('/').to_owned();
    if let Err(error) = request.into_body().collect().await {
        return refuse(error);
    }
    let bytes = match method.as_str() {
        "kept" | "frames" => 0,
        "page" => PAGE_BYTES,
        // Other methods never answer.
        _ => std::future::pending().await,
    };
    Response::new(Body::from(vec![0; bytes]))
}

fn refuse(error: Error) -> Response<Body> {
    let response = Response::builder().header("reason", error.reason.as_str());
    response.body(Body::empty()).expect("a response")
}

fn server(traffic: Traffic) -> Arc<Server> {
    server_of(traffic, Box::new(|request| Box::pin(answer(request))))
}

fn server_of(traffic: Traffic, service: Service) -> Arc<Server> {
    let options = Options {
        service,
        admit: Box::new(|_: &mut http::request::Parts| Ok(ClientStanding::Proven)),
        class: |path| match path {
            path if path.contains("short") => RequestClass::Short,
            path if path.contains("frames") => RequestClass::Frames,
            _ => RequestClass::Kept,
        },
        refuse: |_, error| refuse(error),
        trailers: |_| None,
        traffic: Arc::new(traffic),
        stall: Duration::from_secs(600),
        stopping: CancellationToken::new(),
    };
    let server = Arc::new(Server::new(options, 10));
    tokio::spawn(server.clone().watch());
    server
}

/// A served connection, over a socket with a buffer of this many bytes. Serving ends with the connection.
fn serve(server: &Arc<Server>, bytes: usize) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(bytes);
    let connection = server.connections.open(Holder::Owner, &server.options.traffic).expect("a place");
    let theirs = CountedIo { io: theirs, connection: connection.clone() };
    tokio::spawn(connection::serve(theirs, Peer::Owner, connection, server.clone()));
    ours
}

/// A client that grants each answer a window of this size.
async fn client<Io>(io: Io, window: u32) -> SendRequest<Bytes>
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = h2::client::Builder::new();
    let (client, connection) = builder.initial_window_size(window).handshake(io).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Starts a request with a message of this many bytes, and sends only the length.
async fn begin(client: &SendRequest<Bytes>, method: &str, bytes: usize) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://localhost/{method}"));
    let request = request.header("content-type", "application/grpc").body(()).expect("a request");
    let mut client = client.clone().ready().await.expect("a connection");
    let (response, mut stream) = client.send_request(request, false).expect("begun");
    let mut prefix = BytesMut::new();
    prefix.put_u8(0);
    prefix.put_u32(u32::try_from(bytes).expect("a length"));
    stream.send_data(prefix.freeze(), false).expect("sent");
    (response, stream)
}

async fn call(client: &SendRequest<Bytes>, method: &str, bytes: usize) -> ResponseFuture {
    let (response, mut stream) = begin(client, method, bytes).await;
    stream.send_data(Bytes::from(vec![0; bytes]), true).expect("sent");
    response
}

/// Lets the other tasks run and time pass.
async fn pass(seconds: u64) {
    let never = tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>()).await;
    assert!(never.is_err());
}

/// Reason of the error; empty if the answer is no error.
async fn reason(response: ResponseFuture) -> String {
    let response = response.await.expect("an answer");
    let reason = response.headers().get("reason").map(|reason| reason.to_str().expect("a name"));
    reason.unwrap_or_default().to_owned()
}

/// Bytes of an answer, once its client has taken them all.
async fn read_bytes(mut answer: RecvStream) -> usize {
    let mut bytes = 0;
    while let Some(data) = answer.data().await {
        let data = data.expect("it goes on");
        answer.flow_control().release_capacity(data.len()).expect("released");
        bytes += data.len();
    }
    assert!(answer.trailers().await.expect("an end").is_none(), "nothing went wrong");
    bytes
}

fn with_a_small_request_budget() -> Arc<Server> {
    server(Traffic { requests: MemoryBudget::new(ROOM), ..Traffic::default() })
}

#[tokio::test(start_paused = true)]
async fn a_request_with_progress_is_not_refused_while_others_wait_for_its_memory() {
    let server = with_a_small_request_budget();
    let client = client(serve(&server, 1 << 16), NARROW).await;
    let (slow, mut stream) = begin(&client, "kept", LARGE).await;
    pass(1).await;
    let waiting = call(&client, "kept", LARGE).await;
    for _ in 0..9 {
        stream.send_data(Bytes::from(vec![0; LARGE / 9]), false).expect("sent");
        pass(1).await;
    }
    stream.send_data(Bytes::new(), true).expect("sent");
    assert_eq!((reason(slow).await, reason(waiting).await), (String::new(), String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_slow_to_be_complete_in_time_makes_way() {
    let server = with_a_small_request_budget();
    let client = client(serve(&server, 1 << 16), NARROW).await;
    let (slow, mut stream) = begin(&client, "kept", LARGE).await;
    pass(1).await;
    let waiting = call(&client, "kept", LARGE).await;
    // Sends until the call ends; nothing more can be sent then.
    while stream.send_data(Bytes::from(vec![0; 1_000]), false).is_ok() {
        pass(1).await;
    }
    assert_eq!((reason(slow).await.as_str(), reason(waiting).await.as_str()), ("TOO_MANY_REQUESTS", ""));
}

#[tokio::test(start_paused = true)]
async fn a_request_of_which_nothing_is_kept_holds_no_memory_while_it_waits() {
    let server = with_a_small_request_budget();
    let client = client(serve(&server, 1 << 16), NARROW).await;
    let _parked = call(&client, "short", LARGE).await;
    pass(1).await;
    assert_eq!(reason(call(&client, "kept", LARGE).await).await, "");
    let _writing = call(&client, "kept-and-working", LARGE).await;
    pass(1).await;
    assert_eq!(reason(call(&client, "kept", LARGE).await).await, "TOO_MANY_REQUESTS", "what is kept is held");
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_frames_waits_between_them_and_not_within_one() {
    let server = server(Traffic { small_requests: MemoryBudget::new(10_000), ..Traffic::default() });
    let client = client(serve(&server, 65_536), WIDE).await;
    let frame = |bytes: usize| Bytes::from(vec![7; bytes]);
    let prefix = Bytes::from_static(&[0, 0, 0, 0, 100]);
    let held = || server.options.traffic.state().request_bytes;
    let (idle, mut stream) = begin(&client, "frames", 100).await;
    pass(29).await;
    stream.send_data(frame(100), false).expect("sent");
    pass(600).await;
    // Another request takes all of the memory while it waits.
    let other = begin(&client, "kept", 60_000).await;
    pass(25).await;
    drop(other);
    pass(1).await;
    let between = held();
    stream.send_data(prefix.clone(), false).expect("sent");
    pass(1).await;
    assert_eq!(held() - between, 100, "a frame that has begun is counted");
    stream.send_data(frame(100), true).expect("sent");
    assert_eq!(reason(idle).await, "", "a stream may be idle");

    let (slow, mut stream) = begin(&client, "frames", 100).await;
    stream.send_data(frame(100), false).expect("sent");
    pass(600).await;
    stream.send_data(prefix, false).expect("sent");
    pass(29).await;
    stream.send_data(frame(99), false).expect("sent");
    pass(2).await;
    assert_eq!(reason(slow).await, "REQUEST_TIMED_OUT", "a frame has its time");
    let (silent, _stream) = begin(&client, "frames", 100).await;
    pass(31).await;
    assert_eq!(reason(silent).await, "REQUEST_TIMED_OUT", "and so has the first");
    assert_eq!(held(), 0);
}

#[tokio::test(start_paused = true)]
async fn large_frames_wait_for_memory_and_give_it_back() {
    let server = with_a_small_request_budget();
    let client = client(serve(&server, 1 << 16), NARROW).await;
    let held = || server.options.traffic.requests.held_bytes();
    let (silent, _stream) = begin(&client, "frames", LARGE).await;
    pass(1).await;
    assert_eq!(held(), LARGE, "a frame has its memory before it comes");
    let (going_on, mut stream) = begin(&client, "frames", LARGE).await;
    stream.send_data(Bytes::from(vec![0; LARGE]), false).expect("sent");
    pass(0).await;
    assert_eq!(held(), LARGE, "and another waits for it");
    pass(3).await;
    assert_eq!(reason(silent).await, "TOO_MANY_REQUESTS", "one that stands still makes way");
    pass(1).await;
    assert_eq!(held(), 0, "whoever reads on has taken it");
    stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 1, 7]), true).expect("sent");
    assert_eq!(reason(going_on).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_no_longer_than_announced() {
    let server = with_a_small_request_budget();
    let client = client(serve(&server, 1 << 16), NARROW).await;
    let (short, mut stream) = begin(&client, "kept", 0).await;
    pass(1).await;
    // The start of a second message, which would be kept until it is complete.
    stream.send_data(Bytes::from_static(&[0, 0, 200, 0, 0]), false).expect("sent");
    assert_eq!(reason(short).await, "REQUEST_MALFORMED");
}

#[tokio::test(start_paused = true)]
async fn readers_that_take_their_answers_are_not_disconnected_by_each_other() {
    let server = server(Traffic { answers: MemoryBudget::new(PAGE_BYTES * 3 / 2), ..Traffic::default() });
    let mut answers = Vec::new();
    for _ in 0..2 {
        let client = client(serve(&server, 1 << 16), NARROW).await;
        answers.push(call(&client, "page", 0).await.await.expect("an answer").into_body());
    }
    for answer in answers {
        assert_eq!(read_bytes(answer).await, PAGE_BYTES);
    }
    pass(1).await;
    assert_eq!(server.options.traffic.answers.held_bytes(), 0);
}

/// A client's end of a connection, which it does not read.
struct Unread(DuplexStream);

impl AsyncRead for Unread {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Unread {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[tokio::test(start_paused = true)]
async fn an_unread_answer_is_held_until_others_need_the_memory() {
    let server = server(Traffic { answers: MemoryBudget::new(ROOM), ..Traffic::default() });
    let client = client(Unread(serve(&server, 1_024)), WIDE).await;
    let _answer = call(&client, "page", 0).await;
    pass(3).await;
    let held = server.options.traffic.answers.held_bytes();
    assert!((PAGE_BYTES - 4_096..=PAGE_BYTES).contains(&held), "the window took it, and the socket did not: {held}");
    let _other = server.options.traffic.answers.hold(ROOM);
    pass(5).await;
    assert_eq!(
        server.options.traffic.answers.held_bytes(),
        ROOM,
        "the connection ended with what was left of its answers"
    );
    assert_eq!(server.options.traffic.connections.get(), 0);
}

#[tokio::test]
async fn the_owner_is_answered_while_others_have_every_connection_that_they_can() {
    let (begins, mut begun) = mpsc::unbounded_channel();
    let announce = move |request| {
        begins.send(()).expect("the test goes on");
        answer(request).boxed()
    };
    let server = server_of(Traffic::default(), Box::new(announce));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = tcp.local_addr().expect("an address");
    tokio::spawn(accept::run(Listener::Tcp(tcp, None), server.clone()));
    tokio::spawn(accept::run(Listener::Unix(UnixListener::bind(&path).expect("a listener")), server.clone()));
    let mut others = Vec::new();
    for _ in 0..8 {
        let mut other = TcpStream::connect(address).await.expect("a connection");
        other.write_all(b"POST /kept HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf").await.expect("sent");
        begun.recv().await.expect("the request begins");
        others.push(other);
    }
    let mut refused = TcpStream::connect(address).await.expect("accepted by the system");
    let mut refusal = Vec::new();
    refused.read_to_end(&mut refusal).await.expect("an end");
    assert!(refusal.ends_with(b"too many connections"), "{refusal:?}");
    assert_eq!(server.options.traffic.refused_connections.get(), 1);
    let owner = client(UnixStream::connect(&path).await.expect("a connection"), WIDE).await;
    assert_eq!(read_bytes(call(&owner, "page", 0).await.await.expect("an answer").into_body()).await, PAGE_BYTES);
    drop(others);
}

/// A server whose methods with `later` in their names read nothing of their requests until they may.
fn reading_later(traffic: Traffic) -> (Arc<Server>, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let may_read = go.clone();
    let service = move |request: Request<RequestBody>| {
        let go = request.uri().path().contains("later").then(|| may_read.clone());
        async move {
            if let Some(go) = go {
                go.notified().await;
            }
            let path = request.uri().path().replace("-later", "");
            match path.as_str() {
                "/refused" => Response::builder().header("reason", "REFUSED").body(Body::empty()).expect("a response"),
                _ => {
                    let (mut head, body) = request.into_parts();
                    head.uri = path.parse().expect("a path");
                    answer(Request::from_parts(head, body)).await
                }
            }
        }
        .boxed()
    };
    (server_of(traffic, Box::new(service)), go)
}

#[tokio::test(start_paused = true)]
async fn small_frames_behind_a_reader_that_waits_are_held_by_the_window() {
    let (server, go) = reading_later(Traffic::default());
    let client = client(serve(&server, 1 << 16), WIDE).await;
    let (waiting, mut stream) = begin(&client, "frames-later", 1).await;
    stream.send_data(Bytes::from_static(&[7]), false).expect("sent");
    // More than a window of them.
    for _ in 0..60_000 {
        stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 1, 7]), false).expect("sent");
    }
    pass(1).await;
    assert_eq!(reason(call(&client, "kept", 10).await).await, "", "other calls of the connection go on");
    stream.send_data(Bytes::new(), true).expect("sent");
    go.notify_one();
    assert_eq!(reason(waiting).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_request_in_small_frames_waits_for_memory() {
    let server = with_a_small_request_budget();
    let client = client(serve(&server, 1 << 16), NARROW).await;
    let (slow, mut rest) = begin(&client, "kept", LARGE).await;
    let (waiting, mut stream) = begin(&client, "kept", LARGE).await;
    for _ in 0..LARGE / 10 {
        stream.send_data(Bytes::from_static(&[0; 10]), false).expect("sent");
    }
    stream.send_data(Bytes::new(), true).expect("sent");
    pass(1).await;
    rest.send_data(Bytes::from(vec![0; LARGE]), true).expect("sent");
    assert_eq!((reason(slow).await, reason(waiting).await), (String::new(), String::new()));
}

#[tokio::test(start_paused = true)]
async fn small_frames_of_refused_requests_end_nobody_elses() {
    let (server, _) = reading_later(Traffic::default());
    let client = client(serve(&server, 1 << 16), WIDE).await;
    for _ in 0..10 {
        let (refused, mut stream) = begin(&client, "refused", 2_000).await;
        for _ in 0..2_000 {
            stream.send_data(Bytes::from_static(&[7]), false).expect("sent");
        }
        assert_eq!(reason(refused).await, "REFUSED");
    }
    assert_eq!(reason(call(&client, "kept", 10).await).await, "");
}

/// What a client of HTTP/1.1 hears that sends some bytes and then nothing more.
async fn half_closed(server: &Arc<Server>, request: &[u8]) -> String {
    let mut client = serve(server, 1 << 16);
    client.write_all(request).await.expect("sent");
    client.shutdown().await.expect("it sends nothing more");
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.expect("an end");
    String::from_utf8_lossy(&heard).into_owned()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_more_is_answered() {
    let (server, go) = reading_later(Traffic::default());
    let post = |path: &str| format!("POST /{path} HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc").into_bytes();
    go.notify_one();
    let answer = half_closed(&server, &post("kept-later")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let page = half_closed(&server, &post("page")).await;
    assert!(page.len() > PAGE_BYTES, "all of it");
    // Nobody waits for ever for one that may have left.
    assert_eq!(half_closed(&server, &post("kept-later")).await, "");
    assert_eq!(server.options.traffic.connections.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_request_that_was_not_read_says_that_the_connection_ends() {
    let (server, _) = reading_later(Traffic::default());
    let mut client = serve(&server, 1 << 16);
    let mut heard = [0; 1_000];
    for (request, ends) in [
        ("POST /kept HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", false),
        ("GET /refused HTTP/1.1\r\n\r\n", false),
        ("POST /refused HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc", true),
    ] {
        client.write_all(request.as_bytes()).await.expect("sent");
        let bytes = client.read(&mut heard).await.expect("an answer");
        let answer = String::from_utf8_lossy(&heard[..bytes]).into_owned();
        assert_eq!(answer.contains("connection: close"), ends, "{request}: {answer}");
    }
    assert_eq!(client.read(&mut heard).await.expect("an end"), 0);
}

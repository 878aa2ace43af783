//! A client of HTTP/1.1 that costs little, over TCP: one connection, one request at a time, and of an answer no more
//! than its status and its body.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The end of a head.
const BLANK: &[u8] = b"\r\n\r\n";

/// A connection that is kept alive.
pub(crate) struct Http1 {
    stream: TcpStream,
    /// The lines of every head that say where the request goes and who asks.
    lines: String,
    answer: Vec<u8>,
}

impl Http1 {
    /// Connects to a URL, with an access token if there is one.
    pub(crate) async fn connect(url: &str, secret: Option<&str>) -> Self {
        let host = url.strip_prefix("http://").expect("a URL");
        let stream = TcpStream::connect(host).await.expect("it listens");
        stream.set_nodelay(true).expect("a connection");
        let credentials = secret.map_or(String::new(), |secret| format!("authorization: Bearer {secret}\r\n"));
        Self { stream, lines: format!("host: {host}\r\n{credentials}"), answer: Vec::new() }
    }

    /// The bytes of a request.
    pub(crate) fn request(&self, method: &str, path: &str, media_type: &str, body: &str) -> Vec<u8> {
        let (lines, length) = (&self.lines, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\n{lines}content-type: {media_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Sends a request and takes its answer, which has to be a success.
    pub(crate) async fn call(&mut self, request: &[u8]) -> &[u8] {
        self.stream.write_all(request).await.expect("it is connected");
        self.answer.clear();
        let head = loop {
            self.read().await;
            if let Some(head) = self.answer.windows(BLANK.len()).position(|window| window == BLANK) {
                break head;
            }
        };
        let text = std::str::from_utf8(&self.answer[..head]).expect("a head");
        assert!(text.starts_with("HTTP/1.1 2"), "{}", String::from_utf8_lossy(&self.answer));
        let length = text.lines().find_map(|line| {
            let (name, length) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| length.parse::<usize>().expect("a length"))
        });
        let body = head + BLANK.len();
        let end = body + length.unwrap_or_default();
        while self.answer.len() < end {
            self.read().await;
        }
        &self.answer[body..end]
    }

    async fn read(&mut self) {
        self.answer.reserve(4_096);
        let count = self.stream.read_buf(&mut self.answer).await.expect("an answer");
        assert_ne!(count, 0, "the server is gone: {}", String::from_utf8_lossy(&self.answer));
    }
}

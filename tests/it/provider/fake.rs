//! A provider for tests: it speaks the real protocols over HTTP on a loopback port, with scripted faults.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The four protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Gemini's generateContent.
    Gemini,
}

impl Protocol {
    /// All protocols.
    pub(crate) const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    /// The name in the configuration.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// JSON pointer to the text of the user message in a request.
    fn words(self) -> &'static str {
        match self {
            Self::Chat => "/messages/1/content",
            Self::Responses => "/input/0/content/0/text",
            Self::Messages => "/messages/0/content",
            Self::Gemini => "/contents/0/parts/0/text",
        }
    }
}

/// A summary with this goal, with the sections that most agents require.
pub(crate) fn summary(goal: &str) -> String {
    format!(
        "## Goal\n- {goal}\n\n## Constraints & Preferences\n- (none)\n\n## Progress\n\n### Done\n- [x] found it\n\n\
         ### In Progress\n- (none)\n\n## Next Steps\n1. mend it\n\n## Critical Context\n- it is on line 7"
    )
}

/// The scripted answer to one request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// A reply, streamed.
    Say(String),
    /// A reply in one piece, as from a server that does not stream.
    Whole(String),
    /// A reply in one piece, whose model has a very long name and whose usage is beyond all limits.
    Absurd(String),
    /// A streamed reply, sent byte by byte.
    Slow(String),
    /// An error response: status, headers, code and message.
    Status(u16, Vec<(&'static str, String)>, &'static str, &'static str),
    /// The protocol's own error for a request that is too long.
    Overflow,
    /// No response at all, for ever.
    Hang,
    /// Some text, then nothing, for ever.
    Stall(String),
    /// Keep-alive comments for ever, and no text.
    Drip,
    /// Some text, then the connection breaks.
    Break(String),
    /// Some text, then a regular end of the connection.
    Fade(String),
    /// Text truncated by the output limit.
    Length(String),
    /// A reply without text.
    Empty,
    /// Some text, then a tool call.
    ToolCall,
    /// A reply stopped by a content filter.
    Filtered,
    /// An error in the middle of a reply.
    Broken(&'static str, &'static str),
    /// An HTML page instead of a reply, with status 200.
    Page,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The path, with the query.
    pub(crate) path: String,
    /// The head, in lower case.
    pub(crate) head: String,
    /// The body as received.
    pub(crate) raw: String,
    /// The body.
    pub(crate) body: Value,
    /// The text of the user message.
    pub(crate) words: String,
}

/// Chooses the answer to a request.
type Director = Box<dyn Fn(&Asked) -> Reaction + Send + Sync>;

struct Inner {
    protocol: Protocol,
    director: Director,
    asked: Mutex<Vec<Asked>>,
    /// A permit for every connection that hangs.
    hanging: Semaphore,
    /// A permit for every finished connection.
    left: Semaphore,
}

/// The provider. It ends with its last handle.
pub(crate) struct FakeProvider {
    inner: Arc<Inner>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl FakeProvider {
    /// A provider that plays scenes in order, and then answers with a [`summary`] about `last`.
    pub(crate) async fn playing(protocol: Protocol, reactions: impl IntoIterator<Item = Reaction>) -> Self {
        let reactions: Mutex<VecDeque<Reaction>> = Mutex::new(reactions.into_iter().collect());
        let next = move |_: &Asked| {
            reactions.lock().expect("no panic").pop_front().unwrap_or_else(|| Reaction::Say(summary("last")))
        };
        Self::directed(protocol, Box::new(next)).await
    }

    /// A provider whose scenes depend on the request.
    pub(crate) async fn directed(protocol: Protocol, director: Director) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (hanging, left) = (Semaphore::new(0), Semaphore::new(0));
        let inner = Arc::new(Inner { protocol, director, asked: Mutex::default(), hanging, left });
        let shared = inner.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move {
                    // The client may leave at any time.
                    drop(shared.serve(stream).await);
                    shared.left.add_permits(1);
                });
            }
        });
        Self { inner, address, accepting }
    }

    /// Its address, as a base URL.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.inner.asked.lock().expect("no panic").clone()
    }

    /// Waits until a request hangs.
    pub(crate) async fn hangs(&self) {
        self.inner.hanging.acquire().await.expect("never closed").forget();
    }

    /// Waits until a connection has ended.
    pub(crate) async fn is_left(&self) {
        self.inner.left.acquire().await.expect("never closed").forget();
    }
}

impl Inner {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let Some(asked) = read_request(&mut stream, self.protocol).await? else { return Ok(()) };
        let reaction = (self.director)(&asked);
        self.asked.lock().expect("no panic").push(asked);
        self.play(&mut stream, reaction).await
    }

    async fn play(&self, stream: &mut TcpStream, reaction: Reaction) -> std::io::Result<()> {
        let protocol = self.protocol;
        match reaction {
            Reaction::Say(text) => send(stream, &streamed(protocol, &text, End::Done), true).await,
            Reaction::Whole(text) => answer(stream, 200, &[], "application/json", &whole(protocol, &text)).await,
            Reaction::Absurd(text) => {
                let whole = whole(protocol, &text).replace("fake-1", &"m\\u0000".repeat(40_000));
                answer(stream, 200, &[], "application/json", &whole.replace(":100", &format!(":{}", i64::MAX))).await
            }
            Reaction::Slow(text) => {
                begin(stream).await?;
                for byte in streamed(protocol, &text, End::Done).bytes() {
                    chunk(stream, &[byte]).await?;
                    tokio::task::yield_now().await;
                }
                stream.write_all(b"0\r\n\r\n").await
            }
            Reaction::Status(status, headers, code, message) => {
                let body = error(protocol, status, code, message).to_string();
                answer(stream, status, &headers, "application/json", &body).await
            }
            Reaction::Overflow => {
                let (code, message) = overflow(protocol);
                let body = error(protocol, 400, code, message).to_string();
                answer(stream, 400, &[], "application/json", &body).await
            }
            Reaction::Hang => self.hang(stream).await,
            Reaction::Stall(text) => {
                send(stream, &streamed(protocol, &text, End::Never), false).await?;
                self.hang(stream).await
            }
            Reaction::Drip => {
                begin(stream).await?;
                loop {
                    chunk(stream, b": still here\n\n").await?;
                    tokio::task::yield_now().await;
                }
            }
            Reaction::Break(text) => send(stream, &streamed(protocol, &text, End::Never), false).await,
            Reaction::Fade(text) => send(stream, &streamed(protocol, &text, End::Never), true).await,
            Reaction::Length(text) => send(stream, &streamed(protocol, &text, End::Length), true).await,
            Reaction::Empty => send(stream, &streamed(protocol, "", End::Done), true).await,
            Reaction::ToolCall => send(stream, &streamed(protocol, "## Goal\n- look", End::ToolCall), true).await,
            Reaction::Filtered => send(stream, &streamed(protocol, "I", End::Filtered), true).await,
            Reaction::Broken(code, message) => {
                let events = streamed(protocol, "## Goal", End::Never);
                let error = event(match protocol {
                    Protocol::Responses => json!({"type": "error", "code": code, "message": message}),
                    Protocol::Chat | Protocol::Messages | Protocol::Gemini => error(protocol, 500, code, message),
                });
                send(stream, &format!("{events}{error}"), true).await
            }
            Reaction::Page => answer(stream, 200, &[], "text/html", "<html><body>Log in first</body></html>").await,
        }
    }

    /// Sends nothing until the client closes the connection.
    async fn hang(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        self.hanging.add_permits(1);
        let mut rest = [0; 64];
        while stream.read(&mut rest).await? > 0 {}
        Ok(())
    }
}

async fn read_request(stream: &mut TcpStream, protocol: Protocol) -> std::io::Result<Option<Asked>> {
    let mut bytes = Vec::new();
    let mut more = [0; 16 * 1024];
    loop {
        let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = head_end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let small = head.to_lowercase();
            let length = small.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if let Some(body) = bytes.get(end + 4..end + 4 + length) {
                let raw = String::from_utf8_lossy(body).into_owned();
                let body: Value = serde_json::from_str(&raw).expect("the body is JSON");
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let words = body.pointer(protocol.words()).and_then(Value::as_str).unwrap_or_default().to_owned();
                return Ok(Some(Asked { path, head: small, raw, body, words }));
            }
        }
        match stream.read(&mut more).await? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&more[..count]),
        }
    }
}

async fn answer(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&'static str, String)],
    kind: &str,
    body: &str,
) -> std::io::Result<()> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.flush().await
}

async fn begin(stream: &mut TcpStream) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await
}

async fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
    stream.write_all(bytes).await?;
    stream.write_all(b"\r\n").await?;
    stream.flush().await
}

/// Streams events; `ends` is true for a properly ended body.
async fn send(stream: &mut TcpStream, events: &str, ends: bool) -> std::io::Result<()> {
    begin(stream).await?;
    // Pieces that end in the middle of lines and of characters.
    for piece in events.as_bytes().chunks(37) {
        chunk(stream, piece).await?;
    }
    if ends { stream.write_all(b"0\r\n\r\n").await } else { Ok(()) }
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Length,
    ToolCall,
    Filtered,
    Never,
}

fn event(value: Value) -> String {
    match value.get("type").and_then(Value::as_str) {
        Some(name) => format!("event: {name}\ndata: {value}\n\n"),
        None => format!("data: {value}\n\n"),
    }
}

/// A reply as the protocol streams it, in pieces of a few characters. Every reply has read 100 tokens, 40 of them from
/// a cache, and written 30, of which 10 were reasoning if the protocol reports it.
fn streamed(protocol: Protocol, text: &str, end: End) -> String {
    let letters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = letters.chunks(7).map(|piece| piece.iter().collect()).collect();
    let events = match protocol {
        Protocol::Chat => chat(&pieces, end),
        Protocol::Responses => responses(&pieces, text, end),
        Protocol::Messages => messages(&pieces, end),
        Protocol::Gemini => gemini(&pieces, end),
    };
    let mut out: String = events.into_iter().map(event).collect();
    if protocol == Protocol::Chat && end != End::Never {
        out.push_str("data: [DONE]\n\n");
    }
    out
}

fn chat(pieces: &[String], end: End) -> Vec<Value> {
    let choice = |delta: Value, reason: Option<&str>| {
        json!({"object": "chat.completion.chunk", "model": "fake-1",
               "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let mut events = vec![choice(json!({"role": "assistant", "content": ""}), None)];
    events.extend(pieces.iter().map(|piece| choice(json!({"content": piece}), None)));
    match end {
        End::Never => return events,
        End::Done => events.push(choice(json!({}), Some("stop"))),
        End::Length => events.push(choice(json!({}), Some("length"))),
        End::Filtered => events.push(choice(json!({}), Some("content_filter"))),
        End::ToolCall => {
            let call = json!([{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{}"}}]);
            events.push(choice(json!({"tool_calls": call}), None));
            events.push(choice(json!({}), Some("tool_calls")));
        }
    }
    events.push(json!({"model": "fake-1", "choices": [], "usage": {
        "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 10}}}));
    events
}

fn response(text: &str, end: End) -> Value {
    let (status, reason) = match end {
        End::Done | End::ToolCall | End::Never => ("completed", Value::Null),
        End::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
        End::Filtered => ("incomplete", json!({"reason": "content_filter"})),
    };
    json!({"object": "response", "status": status, "incomplete_details": reason, "model": "fake-1",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 30,
                  "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 130}})
}

fn responses(pieces: &[String], text: &str, end: End) -> Vec<Value> {
    let mut events = vec![json!({"type": "response.created", "response": {"status": "in_progress"}})];
    events.extend(pieces.iter().map(|piece| json!({"type": "response.output_text.delta", "delta": piece})));
    if end == End::ToolCall {
        events.push(json!({"type": "response.output_item.added", "item": {"type": "function_call", "name": "read"}}));
    }
    let last = if matches!(end, End::Length | End::Filtered) { "response.incomplete" } else { "response.completed" };
    if end != End::Never {
        events.push(json!({"type": last, "response": response(text, end)}));
    }
    events
}

fn messages(pieces: &[String], end: End) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"type": "message", "model": "fake-1", "content": [], "usage": {
            "input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
    ];
    let delta =
        |piece| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}});
    events.extend(pieces.iter().map(delta));
    let reason = match end {
        End::Never => return events,
        End::Done => "end_turn",
        End::Length => "max_tokens",
        End::Filtered => "refusal",
        End::ToolCall => {
            let block = json!({"type": "tool_use", "id": "c", "name": "read", "input": {}});
            events.push(json!({"type": "content_block_start", "index": 1, "content_block": block}));
            "tool_use"
        }
    };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 30}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn gemini(pieces: &[String], end: End) -> Vec<Value> {
    let chunk = |parts: Value, reason: Option<&str>| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}],
               "modelVersion": "fake-1", "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 40,
               "candidatesTokenCount": 20, "thoughtsTokenCount": 10, "totalTokenCount": 130}})
    };
    let mut events: Vec<Value> = pieces.iter().map(|piece| chunk(json!([{"text": piece}]), None)).collect();
    match end {
        End::Never => {}
        End::Done => events.push(chunk(json!([]), Some("STOP"))),
        End::Length => events.push(chunk(json!([]), Some("MAX_TOKENS"))),
        End::Filtered => events.push(chunk(json!([]), Some("SAFETY"))),
        End::ToolCall => events.push(chunk(json!([{"functionCall": {"name": "read", "args": {}}}]), Some("STOP"))),
    }
    events
}

/// A reply in one piece.
fn whole(protocol: Protocol, text: &str) -> String {
    match protocol {
        Protocol::Chat => json!({"object": "chat.completion", "model": "fake-1",
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
                "prompt_tokens_details": {"cached_tokens": 40},
                "completion_tokens_details": {"reasoning_tokens": 10}}}),
        Protocol::Responses => response(text, End::Done),
        Protocol::Messages => json!({"type": "message", "model": "fake-1", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}],
            "usage": {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 30}}),
        Protocol::Gemini => Value::Array(gemini(&[text.to_owned()], End::Done)),
    }
    .to_string()
}

/// An error in the form of the protocol.
fn error(protocol: Protocol, status: u16, code: &str, message: &str) -> Value {
    match protocol {
        Protocol::Chat | Protocol::Responses => {
            json!({"error": {"message": message, "type": "some_error", "param": null, "code": code}})
        }
        Protocol::Messages => json!({"type": "error", "error": {"type": code, "message": message}}),
        Protocol::Gemini => json!({"error": {"code": status, "status": code.to_uppercase(), "message": message}}),
    }
}

fn overflow(protocol: Protocol) -> (&'static str, &'static str) {
    match protocol {
        Protocol::Chat => ("context_length_exceeded", "This model's maximum context length is 8192 tokens."),
        Protocol::Responses => ("context_length_exceeded", "Your input exceeds the context window of this model."),
        Protocol::Messages => ("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
        Protocol::Gemini => (
            "invalid_argument",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        ),
    }
}

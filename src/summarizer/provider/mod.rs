//! Providers: a model behind an address, in one of four protocols.
//!
//! A provider is asked one thing at a time and answers with a summary or with a fault that says what it means for the
//! next attempt. Replies are streamed, so that no gateway takes a long one for a dead one.

mod anthropic;
pub(super) mod fault;
pub(super) mod gate;
mod gemini;
mod openai_chat;
mod openai_responses;
mod protocol;
mod reply;
mod retry_after;
mod sse;
#[cfg(test)]
mod tests;

use super::secret::Secret;
use super::witness::{Call, Texts, Witness};
use crate::clock::Clock;
use crate::config::{Prices, SummarizerKind, SummarizerSettings, Timeouts};
use crate::limits;
use crate::model::usage::Usage;
use crate::policy::prompt::{Expected, Prompt};
use crate::telemetry::failpoint;
use fault::{Class, Fault, shortened};
use gate::{Gate, Standing};
use protocol::{Ask, Protocol, Wire};
use reply::{Reply, Stop};
use reqwest::header::{CONTENT_TYPE, HeaderName};
use reqwest::{Client, Response, redirect};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The summary in a reply that is whole; refused if it cannot be one.
pub(super) fn readable(text: &str, expected: &Expected<'_>) -> Result<String, Fault> {
    Reply { text: text.to_owned(), stop: Some(Stop::Done), ..Reply::default() }.summary(expected)
}

/// Bytes of an error's body that are read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a reply that does not come as a stream.
const WHOLE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Attempts of one request, the first included.
const TRIES_MAX: u32 = 3;

/// The longest wait between them, in milliseconds. A job that must wait longer gives its worker back.
const WAIT_MS_MAX: i64 = 20_000;

/// The first wait where the provider names none, in milliseconds; it doubles.
const WAIT_MS_MIN: i64 = 500;

/// What a provider wrote.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// The summary.
    pub(super) text: String,
    /// The model that wrote it.
    pub(super) model: String,
}

/// A model behind an address.
pub(super) struct Provider {
    name: String,
    protocol: Protocol,
    client: Client,
    base_url: String,
    model: String,
    key: Option<Secret>,
    max_output: i64,
    timeouts: Timeouts,
    prices: Option<Prices>,
    extra: Map<String, Value>,
    record_text: bool,
    gate: Gate,
    clock: Clock,
}

impl Provider {
    /// A provider as it is configured; an error is a sentence fragment about what cannot be used.
    pub(super) fn new(
        name: &str,
        settings: &SummarizerSettings,
        key: Option<Secret>,
        clock: Clock,
    ) -> Result<Option<Self>, String> {
        let protocol = match settings.kind {
            SummarizerKind::OpenaiChat => protocol::OPENAI_CHAT,
            SummarizerKind::OpenaiResponses => protocol::OPENAI_RESPONSES,
            SummarizerKind::Anthropic => protocol::ANTHROPIC,
            SummarizerKind::Gemini => protocol::GEMINI,
            SummarizerKind::Extractive => return Ok(None),
        };
        let base_url = settings.base_url.as_deref().unwrap_or(protocol.base_url).trim_end_matches('/').to_owned();
        let extra = match serde_json::to_value(&settings.extra) {
            Ok(Value::Object(extra)) => extra,
            Ok(_) | Err(_) => return Err("extra cannot be written as JSON".to_owned()),
        };
        if key.as_ref().is_some_and(|key| key.header("").is_none()) {
            return Err("the key has characters that no header can have".to_owned());
        }
        Ok(Some(Self {
            name: name.to_owned(),
            protocol,
            client: client(&base_url, settings.timeouts)?,
            base_url,
            model: settings.model.clone(),
            key,
            max_output: settings.max_output,
            timeouts: settings.timeouts,
            prices: settings.prices,
            extra,
            record_text: settings.record_text,
            gate: Gate::new(settings.concurrency),
            clock,
        }))
    }

    /// The name it has in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The model that it asks, as the configuration names it.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// How it stands with its gate now.
    pub(super) fn standing(&self) -> Standing {
        self.gate.standing(Instant::now())
    }

    /// Asks, and asks again after a while when that may help. `streams` says whether the words are the summary's, for
    /// the witness to hear; who begins anew says so.
    pub(super) async fn ask(
        &self,
        prompt: &Prompt,
        expected: &Expected<'_>,
        witness: &dyn Witness,
        streams: bool,
    ) -> Result<Answer, Fault> {
        let mut tries = 0;
        loop {
            tries += 1;
            let fault = match self.ask_once(prompt, expected, witness, streams).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            let backoff = WAIT_MS_MIN << (tries - 1).min(16);
            let wait = fault.retry_after_ms.unwrap_or_else(|| rand::random_range(backoff / 2..=backoff));
            if fault.class != Class::Transient || tries >= TRIES_MAX || wait > WAIT_MS_MAX {
                return Err(fault);
            }
            tracing::debug!(summarizer = %self.name, %fault, wait_ms = wait, "asking again");
            tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
            if streams {
                witness.begins(&self.name);
            }
        }
    }

    async fn ask_once(
        &self,
        prompt: &Prompt,
        expected: &Expected<'_>,
        witness: &dyn Witness,
        streams: bool,
    ) -> Result<Answer, Fault> {
        let ask = Ask {
            base_url: &self.base_url,
            model: &self.model,
            prompt,
            max_output: self.max_output,
            extra: &self.extra,
        };
        let wire = (self.protocol.request)(&ask);
        let body = wire.body.to_string();
        let request_hash = *blake3::hash(body.as_bytes()).as_bytes();
        let recorded = self.record_text.then(|| body.clone());
        let place = self.gate.enter().await?;
        let mut entry = Entry {
            provider: self,
            witness,
            request_hash,
            recorded,
            began: Instant::now(),
            reply: Reply::default(),
            is_closed: false,
        };
        let listener = streams.then_some(witness);
        let conversation = self.converse(wire, body, &mut entry.reply, listener);
        let ended = match timeout(Duration::from_millis(self.timeouts.total_ms), conversation).await {
            Ok(ended) => ended,
            Err(_) => Err(Fault::new(Class::Transient, "the reply took longer than it may")),
        };
        let outcome = ended.and_then(|()| entry.reply.summary(expected)).map_err(|fault| {
            // Words that came in pieces have the key in pieces too.
            Fault { message: self.scrubbed(&fault.message).into_owned(), ..fault }
        });
        self.gate.ended(outcome.as_ref().map(|_| ()), Instant::now());
        drop(place);
        entry.close(outcome.as_ref().err().map(|fault| fault.message.clone()));
        let model = entry.model().to_owned();
        outcome.map(|text| Answer { text, model })
    }

    /// Sends the request and reads the reply, until the reply has ended or the connection has.
    async fn converse(
        &self,
        wire: Wire,
        body: String,
        reply: &mut Reply,
        listener: Option<&dyn Witness>,
    ) -> Result<(), Fault> {
        let mut request = self.client.post(&wire.url).header(CONTENT_TYPE, "application/json").body(body);
        for (name, value) in wire.headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = &self.key {
            let (name, prefix) = self.protocol.key_header;
            if let Some(value) = key.header(prefix) {
                request = request.header(HeaderName::from_static(name), value);
            }
        }
        let response = self.patiently(request.send()).await?;
        self.read(response, reply, listener).await
    }

    /// Reads a response to its end.
    async fn read(&self, response: Response, reply: &mut Reply, listener: Option<&dyn Witness>) -> Result<(), Fault> {
        let status = response.status().as_u16();
        if status != 200 {
            let headers = response.headers().clone();
            let body = self.whole(response, ERROR_BYTES_MAX).await.unwrap_or_default();
            return Err(Fault::of_response(status, &headers, &body, self.clock.now()));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.contains("event-stream") {
            self.read_stream(response, reply, listener).await
        } else {
            let body = self.whole(response, WHOLE_BYTES_MAX).await?;
            self.read_whole(&body, reply, listener)
        }
    }

    async fn read_stream(
        &self,
        mut response: Response,
        reply: &mut Reply,
        listener: Option<&dyn Witness>,
    ) -> Result<(), Fault> {
        let mut reader = sse::Reader::default();
        loop {
            let bytes = match self.patiently(response.chunk()).await {
                Ok(bytes) => bytes,
                // What matters has come; how the connection ends does not.
                Err(_) if reply.stop.is_some() => return Ok(()),
                Err(fault) => return Err(fault),
            };
            let Some(bytes) = bytes else { break };
            let events = reader.read(&bytes).map_err(|_| Fault::new(Class::Permanent, "the reply has no end"))?;
            for event in events {
                if self.read_event(&event, reply, listener)? {
                    return Ok(());
                }
            }
        }
        match reader.finish() {
            Some(event) => self.read_event(&event, reply, listener).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Reads an event; whether it is the last one.
    fn read_event(&self, event: &sse::Event, reply: &mut Reply, listener: Option<&dyn Witness>) -> Result<bool, Fault> {
        if event.data == "[DONE]" {
            return Ok(true);
        }
        if event.data.is_empty() {
            return Ok(false);
        }
        let data = self.scrubbed(&event.data);
        match serde_json::from_str::<Value>(&data) {
            Ok(value) => self.take(&value, reply, listener)?,
            Err(_) if event.name == "error" => return Err(Fault::of_code("", &data)),
            Err(error) => {
                return Err(Fault::new(Class::Transient, format!("the reply cannot be read: {error}")));
            }
        }
        Ok(event.name == "message_stop")
    }

    /// Reads a reply that came in one piece, because the server does not stream or because it is something else.
    fn read_whole(&self, body: &str, reply: &mut Reply, listener: Option<&dyn Witness>) -> Result<(), Fault> {
        if let Ok(value) = serde_json::from_str::<Value>(body) {
            return self.take(&value, reply, listener);
        }
        // Some servers stream without saying so.
        let mut reader = sse::Reader::default();
        let mut events = reader.read(body.as_bytes()).unwrap_or_default();
        events.extend(reader.finish());
        if events.is_empty() {
            let body = body.trim();
            let mut fault = Fault::of_code("", body);
            fault.message = shortened(&format!("the answer is not in the protocol: {body}"));
            if body.starts_with('<') {
                fault.class = Class::Permanent;
            }
            return Err(fault);
        }
        for event in events {
            if self.read_event(&event, reply, listener)? {
                break;
            }
        }
        Ok(())
    }

    fn take(&self, value: &Value, reply: &mut Reply, listener: Option<&dyn Witness>) -> Result<(), Fault> {
        let mut hear = |words: &str| {
            failpoint::reach("work.words");
            if let Some(listener) = listener {
                listener.hears(words);
            }
        };
        (self.protocol.read)(value, reply, &mut hear)?;
        if reply.text.len() > limits::SUMMARY_BYTES_MAX {
            return Err(Fault::new(Class::Refused, "the summary is longer than any may be"));
        }
        Ok(())
    }

    /// The first bytes of a body, as text.
    async fn whole(&self, mut response: Response, bytes_max: usize) -> Result<String, Fault> {
        let mut body = Vec::new();
        while body.len() < bytes_max {
            let Some(bytes) = self.patiently(response.chunk()).await? else { break };
            body.extend_from_slice(&bytes);
        }
        body.truncate(bytes_max);
        Ok(self.scrubbed(&String::from_utf8_lossy(&body)).into_owned())
    }

    /// Waits for the other side, but not for ever.
    async fn patiently<T>(&self, step: impl Future<Output = Result<T, reqwest::Error>>) -> Result<T, Fault> {
        match timeout(Duration::from_millis(self.timeouts.idle_ms), step).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(broken(error)),
            Err(_) => Err(Fault::new(Class::Transient, "the provider said nothing for longer than it may")),
        }
    }

    /// Usage with what it costs, as far as the provider has said or prices are configured.
    pub(super) fn priced(&self, usage: Usage) -> Usage {
        Usage { cost_usd: usage.cost_usd.or_else(|| self.prices.map(|prices| prices.cost_usd(&usage))), ..usage }
    }

    /// What a provider said, without the key, should it have repeated it. This comes before anything is cut off, so
    /// that no part of a key is left.
    fn scrubbed<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.key.as_ref().map_or(Cow::Borrowed(text), |key| key.scrub(text))
    }
}

/// Reads responses as a provider's are read, without a network: a door for the fuzzer of `tests/attack`. Nothing else may
/// use it: it is no part of the library's interface, and goes when the fuzzer goes.
#[doc(hidden)]
pub struct ReplyReader(Provider);

impl ReplyReader {
    /// A reader of what providers of a kind say; none for the built-in summarizer, which asks nobody.
    pub fn new(kind: SummarizerKind) -> Option<Self> {
        // Any kind will do for the other fields' defaults, and nobody listens at the address.
        let settings = "kind = \"extractive\"\nbase_url = \"http://127.0.0.1:9\"\nmodel = \"fuzzed\"";
        let settings = SummarizerSettings { kind, ..toml::from_str(settings).ok()? };
        Provider::new("fuzzed", &settings, None, Clock::default()).ok().flatten().map(Self)
    }

    /// The summary in a response, held to a measure, or what the provider's fault means.
    pub async fn read(&self, response: http::Response<Vec<u8>>, expected: &Expected<'_>) -> Result<String, Fault> {
        let mut reply = Reply::default();
        self.0.read(Response::from(response), &mut reply, None).await?;
        reply.summary(expected)
    }
}

/// One request in the books. It is entered even when it is given up on the way: it was sent, and may cost.
struct Entry<'a> {
    provider: &'a Provider,
    witness: &'a dyn Witness,
    request_hash: [u8; 32],
    recorded: Option<String>,
    began: Instant,
    reply: Reply,
    is_closed: bool,
}

impl Entry<'_> {
    fn model(&self) -> &str {
        if self.reply.model.is_empty() { &self.provider.model } else { &self.reply.model }
    }

    fn close(&mut self, failure: Option<String>) {
        self.is_closed = true;
        let reply = &self.reply.text;
        self.witness.called(&Call {
            summarizer: self.provider.name.clone(),
            model: self.model().to_owned(),
            request_hash: self.request_hash,
            reply_hash: *blake3::hash(reply.as_bytes()).as_bytes(),
            usage: self.reply.usage.map(|usage| self.provider.priced(usage)),
            duration_ms: i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX),
            failure,
            texts: self.recorded.take().map(|request| Texts {
                request: self.provider.scrubbed(&request).into_owned(),
                reply: self.provider.scrubbed(reply).into_owned(),
            }),
        });
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            self.close(Some("the request was given up".to_owned()));
        }
    }
}

/// What an error of the connection means. Its address stays out of the message: it may hold more than a host.
fn broken(error: reqwest::Error) -> Fault {
    let class = if error.is_builder() { Class::Permanent } else { Class::Transient };
    let error = error.without_url();
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Fault::new(class, shortened(&format!("the provider cannot be reached, or broke off: {message}")))
}

/// A client that follows no redirect, since a key must not go where nobody said.
fn client(base_url: &str, timeouts: Timeouts) -> Result<Client, String> {
    let url = reqwest::Url::parse(base_url).map_err(|error| format!("base_url cannot be read: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("base_url holds a name or a password; a key belongs into a file or a variable".to_owned());
    }
    // Another part of the process may have chosen already; any choice will do.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        .user_agent(concat!("longhand/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_millis(timeouts.connect_ms));
    match url.scheme() {
        "https" => {}
        // The certificates of the system are of no use here, and there may be none.
        "http" => builder = builder.tls_certs_only([]),
        scheme => return Err(format!("base_url begins with {scheme}, not with http or https")),
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| format!("no client can be made: {error}"))
}

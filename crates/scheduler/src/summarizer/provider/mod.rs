//! Providers: a model at an address, with one of four protocols.
//!
//! A provider gets one request at a time and returns a summary, or a fault that states its meaning for the next
//! attempt. Replies are streamed, so that no gateway takes a slow reply for a dead connection.

mod anthropic;
pub(super) mod fault;
pub(super) mod gate;
mod gemini;
mod openai_chat;
mod openai_responses;
mod protocol;
mod reply;
mod request;
mod retry_after;
mod sse;
#[cfg(test)]
mod tests;

use super::observer::{Observer, RecordedTexts, RequestRecord};
use super::secret::Secret;
use crate::clock::Clock;
use crate::config::{Prices, SummarizerKind, SummarizerSettings, Timeouts};
use crate::limits;
use crate::model::limits::name_within;
use crate::model::usage::Usage;
use crate::policy::models::Models;
use crate::policy::prompt::{AnswerRequirements, Prompt};
use crate::telemetry::failpoint;
use fault::{Class, Fault, shortened};
use gate::{Gate, GateState};
use protocol::Protocol;
use reply::{Reply, Stop};
use request::{ModelRequest, Wire};
use reqwest::header::{CONTENT_TYPE, HeaderName};
use reqwest::{Client, Response, redirect};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The summary in a whole reply; refused if the text cannot be a summary.
pub(super) fn readable(text: &str, expected: &AnswerRequirements<'_>) -> Result<String, Fault> {
    Reply { text: text.to_owned(), stop: Some(Stop::Done), ..Reply::default() }.summary(expected)
}

/// Maximum number of bytes read of an error's body.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of bytes read of a reply that is not streamed.
const WHOLE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Attempts of one request, including the first.
const TRIES_MAX: u32 = 3;

/// Longest wait between attempts, in milliseconds. A job that must wait longer releases its worker.
const WAIT_MS_MAX: i64 = 20_000;

/// First wait if the provider names none, in milliseconds; it doubles with each attempt.
const WAIT_MS_MIN: i64 = 500;

/// A provider's answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Completion {
    /// The summary.
    pub(super) text: String,
    /// The model that wrote it.
    pub(super) model: String,
}

/// A model at an address.
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
    /// Prices by the model's name, at the address of its maker alone: what a gateway or a server of one's own takes is not
    /// known.
    models: Option<Arc<Models>>,
    extra: Map<String, Value>,
    record_text: bool,
    gate: Gate,
    clock: Clock,
}

impl Provider {
    /// Creates a provider from its configuration; none for the built-in summarizer. An error is a sentence fragment
    /// about an invalid setting.
    pub(super) fn new(
        name: &str,
        settings: &SummarizerSettings,
        key: Option<Secret>,
        models: &Arc<Models>,
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
            models: (base_url == protocol.base_url).then(|| models.clone()),
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

    /// The name in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The requested model, as the configuration names it.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// The present state of its gate.
    pub(super) fn gate_state(&self) -> GateState {
        self.gate.state_at(Instant::now())
    }

    /// Sends a request, and again after a wait if that may help. With `streams` the text is the summary's and goes to
    /// the observer, which is notified of each new start.
    pub(super) async fn ask(
        &self,
        prompt: &Prompt,
        expected: &AnswerRequirements<'_>,
        observer: &dyn Observer,
        streams: bool,
    ) -> Result<Completion, Fault> {
        let mut tries = 0;
        loop {
            tries += 1;
            let fault = match self.ask_once(prompt, expected, observer, streams).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            // No crate for retries: the provider's own delay counts, and one that is too long is left to the job's next
            // attempt, whose delays are in `scheduler::retry`.
            let backoff = WAIT_MS_MIN << (tries - 1).min(16);
            let wait = fault.retry_after_ms.unwrap_or_else(|| rand::random_range(backoff / 2..=backoff));
            if fault.class != Class::Transient || tries >= TRIES_MAX || wait > WAIT_MS_MAX {
                return Err(fault);
            }
            tracing::debug!(summarizer = %self.name, %fault, wait_ms = wait, "asking again");
            tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
            if streams {
                observer.on_start(&self.name);
            }
        }
    }

    async fn ask_once(
        &self,
        prompt: &Prompt,
        expected: &AnswerRequirements<'_>,
        observer: &dyn Observer,
        streams: bool,
    ) -> Result<Completion, Fault> {
        let ask = ModelRequest {
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
        let slot = self.gate.acquire().await?;
        let mut entry = RequestLogEntry {
            provider: self,
            observer,
            request_hash,
            recorded,
            began: Instant::now(),
            reply: Reply::default(),
            is_closed: false,
        };
        let listener = streams.then_some(observer);
        let conversation = self.send_and_read(wire, body, &mut entry.reply, listener);
        let ended = match timeout(Duration::from_millis(self.timeouts.total_ms), conversation).await {
            Ok(ended) => ended,
            Err(_) => Err(Fault::new(Class::Transient, "the reply took longer than it may")),
        };
        let outcome = ended.and_then(|()| entry.reply.summary(expected)).map_err(|fault| {
            // Streamed text may have split the key into pieces, so that the joined text needs the check again.
            Fault { message: self.without_key(&fault.message).into_owned(), ..fault }
        });
        self.gate.record_outcome(outcome.as_ref().map(|_| ()), Instant::now());
        drop(slot);
        entry.close(outcome.as_ref().err().map(|fault| fault.message.clone()));
        let model = entry.model();
        outcome.map(|text| Completion { text: self.without_key(&text).into_owned(), model })
    }

    /// Sends the request and reads the reply, until the reply or the connection has ended.
    async fn send_and_read(
        &self,
        wire: Wire,
        body: String,
        reply: &mut Reply,
        listener: Option<&dyn Observer>,
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
        let response = self.within_idle_timeout(request.send()).await?;
        self.read_response(response, reply, listener).await
    }

    async fn read_response(
        &self,
        response: Response,
        reply: &mut Reply,
        listener: Option<&dyn Observer>,
    ) -> Result<(), Fault> {
        let status = response.status().as_u16();
        if status != 200 {
            let headers = response.headers().clone();
            let body = self.body_text(response, ERROR_BYTES_MAX).await.unwrap_or_default();
            return Err(Fault::of_response(status, &headers, &body, self.clock.present()));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.contains("event-stream") {
            self.read_stream(response, reply, listener).await
        } else {
            let body = self.body_text(response, WHOLE_BYTES_MAX).await?;
            self.read_whole(&body, reply, listener)
        }
    }

    async fn read_stream(
        &self,
        mut response: Response,
        reply: &mut Reply,
        listener: Option<&dyn Observer>,
    ) -> Result<(), Fault> {
        let mut reader = sse::Reader::default();
        loop {
            let bytes = match self.within_idle_timeout(response.chunk()).await {
                Ok(bytes) => bytes,
                // The reply is complete, so that an error of the connection does not matter.
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

    /// Reads an event; returns true if it is the last one.
    fn read_event(
        &self,
        event: &sse::Event,
        reply: &mut Reply,
        listener: Option<&dyn Observer>,
    ) -> Result<bool, Fault> {
        if event.data == "[DONE]" {
            return Ok(true);
        }
        if event.data.is_empty() {
            return Ok(false);
        }
        let data = self.without_key(&event.data);
        match serde_json::from_str::<Value>(&data) {
            Ok(value) => self.read_value(&value, reply, listener)?,
            Err(_) if event.name == "error" => return Err(Fault::of_code("", &data)),
            Err(error) => {
                return Err(Fault::new(Class::Transient, format!("the reply cannot be read: {error}")));
            }
        }
        Ok(event.name == "message_stop")
    }

    /// Reads a reply that is not declared as a stream: one JSON value, or events all the same.
    fn read_whole(&self, body: &str, reply: &mut Reply, listener: Option<&dyn Observer>) -> Result<(), Fault> {
        if let Ok(value) = serde_json::from_str::<Value>(body) {
            return self.read_value(&value, reply, listener);
        }
        // Some servers stream without declaring it.
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

    fn read_value(&self, value: &Value, reply: &mut Reply, listener: Option<&dyn Observer>) -> Result<(), Fault> {
        let mut on_text = |words: &str| {
            failpoint::reach("work.words");
            if let Some(listener) = listener {
                listener.on_text(words);
            }
        };
        (self.protocol.read)(value, reply, &mut on_text)?;
        if reply.text.len() > limits::SUMMARY_BYTES_MAX {
            return Err(Fault::new(Class::Refused, "the summary is longer than any may be"));
        }
        Ok(())
    }

    /// The first bytes of a body, as text.
    async fn body_text(&self, mut response: Response, bytes_max: usize) -> Result<String, Fault> {
        let mut body = Vec::new();
        while body.len() < bytes_max {
            let Some(bytes) = self.within_idle_timeout(response.chunk()).await? else { break };
            body.extend_from_slice(&bytes);
        }
        body.truncate(bytes_max);
        Ok(self.without_key(&String::from_utf8_lossy(&body)).into_owned())
    }

    /// Waits for a step of the connection, up to the idle timeout.
    async fn within_idle_timeout<T>(&self, step: impl Future<Output = Result<T, reqwest::Error>>) -> Result<T, Fault> {
        match timeout(Duration::from_millis(self.timeouts.idle_ms), step).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(broken(error)),
            Err(_) => Err(Fault::new(Class::Transient, "the provider sent nothing for longer than it may")),
        }
    }

    /// Usage with its cost, if the provider reported it, prices are configured, or the table of models has them.
    pub(super) fn with_cost(&self, usage: Usage) -> Usage {
        let cost_usd = usage.cost_usd.or_else(|| self.prices.map(|prices| prices.cost_usd(&usage)));
        let usage = Usage { cost_usd, ..usage };
        self.models.as_ref().map_or(usage, |models| models.priced("", &self.model, usage))
    }

    /// A provider's text without the key, in case the provider repeated it. Callers do this before they shorten a text,
    /// so that no part of a key remains.
    fn without_key<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.key.as_ref().map_or(Cow::Borrowed(text), |key| key.scrub(text))
    }
}

/// Reads responses like a provider's, without a network, for the fuzzer of `tests/attack`. Nothing else may use it: it
/// is not part of the library's interface, and goes with the fuzzer.
#[doc(hidden)]
pub struct ReplyReader(Provider);

impl ReplyReader {
    /// Creates a reader for providers of a kind; none for the built-in summarizer, which has no provider.
    pub fn new(kind: SummarizerKind) -> Option<Self> {
        // Any kind works for the defaults of the other fields, and nothing listens at the address.
        let settings = "kind = \"extractive\"\nbase_url = \"http://127.0.0.1:9\"\nmodel = \"fuzzed\"";
        let settings = SummarizerSettings { kind, ..toml::from_str(settings).ok()? };
        Provider::new("fuzzed", &settings, None, &Models::built_in(), Clock::default()).ok().flatten().map(Self)
    }

    /// The summary in a response, checked against the expected form, or the provider's fault.
    pub async fn read(
        &self,
        response: http::Response<Vec<u8>>,
        expected: &AnswerRequirements<'_>,
    ) -> Result<String, Fault> {
        let mut reply = Reply::default();
        self.0.read_response(Response::from(response), &mut reply, None).await?;
        reply.summary(expected)
    }
}

/// One entry of the request log. It is added even if the request is given up, since the request was sent and may cost.
struct RequestLogEntry<'a> {
    provider: &'a Provider,
    observer: &'a dyn Observer,
    request_hash: [u8; 32],
    recorded: Option<String>,
    began: Instant,
    reply: Reply,
    is_closed: bool,
}

impl RequestLogEntry<'_> {
    /// The model, within the limits of names, as those of clients.
    fn model(&self) -> String {
        let model = if self.reply.model.is_empty() { &self.provider.model } else { &self.reply.model };
        name_within(model).into_owned()
    }

    /// The reported usage with its cost; none if it has a figure that no client's may have.
    fn usage(&self) -> Option<Usage> {
        let usage = self.provider.with_cost(self.reply.usage?);
        let defect = usage.defect();
        if let Some((field, defect)) = &defect {
            tracing::warn!(summarizer = self.provider.name, field, defect, "the provider's usage is left out");
        }
        defect.is_none().then_some(usage)
    }

    fn close(&mut self, failure: Option<String>) {
        self.is_closed = true;
        let reply = &self.reply.text;
        self.observer.on_request(&RequestRecord {
            summarizer: self.provider.name.clone(),
            model: self.model(),
            request_hash: self.request_hash,
            reply_hash: *blake3::hash(reply.as_bytes()).as_bytes(),
            usage: self.usage(),
            duration_ms: i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX),
            failure,
            texts: self.recorded.take().map(|request| RecordedTexts {
                request: self.provider.without_key(&request).into_owned(),
                reply: self.provider.without_key(reply).into_owned(),
            }),
        });
    }
}

impl Drop for RequestLogEntry<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            self.close(Some("the request was given up".to_owned()));
        }
    }
}

/// The fault for a connection error. The message omits the address, which may contain more than a host.
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

/// Builds an HTTP client that follows no redirects, so that a key never goes to an address that is not configured.
fn client(base_url: &str, timeouts: Timeouts) -> Result<Client, String> {
    let url = reqwest::Url::parse(base_url).map_err(|error| format!("base_url cannot be read: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("base_url holds a name or a password; a key belongs into a file or a variable".to_owned());
    }
    // Another part of the process may have installed a provider already; any one works.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        .user_agent(concat!("longhand/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_millis(timeouts.connect_ms));
    match url.scheme() {
        "https" => {}
        // Plain HTTP needs no certificates, and the system may have none.
        "http" => builder = builder.tls_certs_only([]),
        scheme => return Err(format!("base_url begins with {scheme}, not with http or https")),
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| format!("no client can be made: {error}"))
}

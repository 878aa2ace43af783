//! The read side of the Durable Streams protocol, version 1.0, in its JSON mode: an offset is a cursor, a message is an
//! event.
//!
//! A session's stream begins with what it inherited, as its list of events does.

use super::events::{is_lost, subscribe};
use super::query::{Live, Offset, Query, Scope};
use super::sse;
use super::subscription::{EventSubscription, list};
use crate::app::{self, Error};
use crate::http::calls::{CallFailure, GrpcRoutes, Origin};
use crate::http::failure::Failure;
use crate::http::{answers, json, views};
use crate::limits;
use crate::pb;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use pb::subscribe_events_request::Start;
use pb::subscribe_events_response::Frame;
use serde_json::json;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");

struct StreamReader<S> {
    grpc: S,
    origin: Origin,
    /// The filter, without a start.
    request: pb::SubscribeEventsRequest,
    /// The parameter `offset`, as it was given, for the entity tag.
    offset: Offset,
    /// The value of `Stream-Cursor`, which only has to differ from the client's last one.
    stream_cursor: u64,
}

/// Some events in a row, and the offset after them.
struct Batch {
    events: Vec<pb::Event>,
    next_offset: String,
    is_up_to_date: bool,
}

/// The tail of a stream, for `HEAD`.
///
/// # Errors
///
/// Those of `SubscribeEvents`.
pub(super) async fn tail<S: GrpcRoutes>(
    grpc: S,
    origin: Origin,
    scope: &Scope,
    query: Query,
) -> Result<Response, Failure> {
    let reader = StreamReader::new(grpc, origin, scope, &query)?;
    let batch = Batch { events: Vec::new(), next_offset: reader.position(None).await?, is_up_to_date: true };
    let mut response = reader.response(&batch, "no-store", None)?;
    *response.body_mut() = Body::empty();
    Ok(response)
}

/// Reads a stream from an offset, or waits for more.
///
/// # Errors
///
/// Those of `ListEvents` and `SubscribeEvents`; `410` for an offset that the log does not have.
pub(super) async fn read<S: GrpcRoutes>(
    grpc: S,
    origin: Origin,
    scope: &Scope,
    query: Query,
) -> Result<Response, Failure> {
    let reader = StreamReader::new(grpc, origin, scope, &query)?;
    match query.live {
        None => reader.page().await,
        Some(Live::LongPoll) => {
            let seconds = query.timeout.map(Duration::from_secs);
            let wait = Duration::from_millis(limits::LONG_POLL_MS_MAX);
            reader.long_poll(seconds.map_or(wait, |seconds| seconds.min(wait))).await
        }
        Some(Live::Sse) => reader.follow().await,
    }
    .map_err(|failed| match failed {
        CallFailure::Status(status) if is_lost(&status) => {
            let is_invalid = status.code() == tonic::Code::InvalidArgument;
            let failure = Failure::from(status);
            if is_invalid { failure } else { failure.with_status(StatusCode::GONE) }
        }
        failed => failed.into(),
    })
}

impl<S: GrpcRoutes> StreamReader<S> {
    fn new(grpc: S, origin: Origin, scope: &Scope, query: &Query) -> app::Result<Self> {
        let request = subscribe(scope, query)?;
        let unusable = [
            ("session_ids", *scope == Scope::Everything && !request.session_ids.is_empty()),
            ("after", request.start.is_some()),
            ("include_deltas", request.include_deltas),
        ];
        if let Some((field, _)) = unusable.iter().find(|(_, given)| *given) {
            return Err(Error::field(field, "is no parameter of a read from an offset"));
        }
        Ok(Self {
            grpc,
            origin,
            request,
            offset: query.offset.clone().unwrap_or(Offset::Beginning),
            stream_cursor: query.stream_cursor.map_or(0, |cursor| cursor.saturating_add(1)),
        })
    }

    /// The cursor of the tail, or of another start.
    async fn position(&self, start: Option<Start>) -> Result<String, CallFailure> {
        EventSubscription::position(self.grpc.clone(), &self.origin, self.request.clone(), start).await
    }

    /// The events after a cursor, or from the beginning, as many as a page has.
    async fn batch(&self, after: Option<&str>) -> Result<Batch, CallFailure> {
        let request = pb::ListEventsRequest {
            session_id: self.request.session_ids.first().cloned(),
            kinds: self.request.kinds.clone(),
            after_cursor: after.unwrap_or_default().to_owned(),
            page_size: limits::STREAM_PAGE_EVENTS,
            include_content: self.request.include_content,
            ..pb::ListEventsRequest::default()
        };
        let page = list(self.grpc.clone(), &self.origin, &request).await?;
        let is_up_to_date = page.next_cursor.is_empty();
        let next_offset = match (is_up_to_date, page.events.last(), after) {
            (false, ..) => page.next_cursor,
            (true, Some(last), _) => last.cursor.clone(),
            (true, None, Some(after)) => after.to_owned(),
            (true, None, None) => self.position(Some(Start::FromBeginning(true))).await?,
        };
        Ok(Batch { events: page.events, next_offset, is_up_to_date })
    }

    /// The events after the given offset; none for `now`.
    async fn first_batch(&self) -> Result<Batch, CallFailure> {
        match &self.offset {
            Offset::Beginning => self.batch(None).await,
            Offset::After(cursor) => self.batch(Some(cursor)).await,
            Offset::Now => {
                let next_offset = self.position(None).await?;
                Ok(Batch { events: Vec::new(), next_offset, is_up_to_date: true })
            }
        }
    }

    async fn page(&self) -> Result<Response, CallFailure> {
        let batch = self.first_batch().await?;
        let (offset, caching) = match &self.offset {
            // The tail moves, and nobody may take it for a page.
            Offset::Now => return Ok(self.response(&batch, "no-store", None)?),
            Offset::Beginning => ("-1", batch.is_up_to_date),
            Offset::After(cursor) => (cursor.as_str(), batch.is_up_to_date),
        };
        let caching = if caching { "private, no-cache" } else { "private, max-age=60, stale-while-revalidate=300" };
        let tag = format!("\"{offset}:{}\"", batch.next_offset);
        Ok(self.response(&batch, caching, HeaderValue::try_from(tag).ok())?)
    }

    async fn long_poll(&self, wait: Duration) -> Result<Response, CallFailure> {
        let mut batch = self.first_batch().await?;
        if batch.events.is_empty() && batch.is_up_to_date {
            let mut subscription = self.subscription(&batch.next_offset).await?;
            let end = Instant::now() + wait;
            while batch.events.is_empty()
                && let Ok(next) = tokio::time::timeout_at(end, next_batch(&mut subscription)).await
                && let Some(next) = next?
            {
                batch = next;
            }
        }
        let mut response = self.response(&batch, "no-store", None)?;
        if batch.events.is_empty() && batch.is_up_to_date {
            *response.status_mut() = StatusCode::NO_CONTENT;
            *response.body_mut() = Body::empty();
            response.headers_mut().remove(header::CONTENT_TYPE);
        }
        response.headers_mut().insert(CURSOR, self.stream_cursor.into());
        Ok(response)
    }

    async fn subscription(&self, after: &str) -> Result<EventSubscription, CallFailure> {
        let mut request = self.request.clone();
        request.start = Some(Start::AfterCursor(after.to_owned()));
        EventSubscription::open(self.grpc.clone(), &self.origin, &request).await
    }

    fn response(&self, batch: &Batch, caching: &'static str, tag: Option<HeaderValue>) -> app::Result<Response> {
        let is_held = tag.as_ref().is_some_and(|tag| views::is_held(&self.origin.headers, tag));
        let mut response = if is_held {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let mut response = Response::new(Body::from(array(&batch.events)?));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(answers::JSON));
            response
        };
        let headers = response.headers_mut();
        let next_offset = HeaderValue::try_from(&batch.next_offset).map_err(Error::internal)?;
        headers.insert(NEXT_OFFSET, next_offset);
        if batch.is_up_to_date {
            headers.insert(UP_TO_DATE, HeaderValue::from_static("true"));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        if let Some(tag) = tag {
            headers.insert(header::ETAG, tag);
        }
        Ok(response)
    }

    /// Pages up to the tail, and then events as they come, until it is time for the client to come again.
    async fn follow(self) -> Result<Response, CallFailure> {
        let first = self.first_batch().await?;
        let end = Instant::now() + Duration::from_millis(limits::DURABLE_STREAM_MS);
        let waiting = VecDeque::from(self.texts(&first)?);
        let phase = if first.is_up_to_date { Phase::Tail(None) } else { Phase::Pages };
        let feed = LiveRead { reader: self, offset: first.next_offset, waiting, phase, end };
        Ok(sse::response(stream::unfold(feed, async |mut feed| {
            let text = feed.next().await?;
            Some((text, feed))
        })))
    }

    /// A batch as events of a stream: the data if there are any, and the offset after them.
    fn texts(&self, batch: &Batch) -> app::Result<Vec<Bytes>> {
        let mut texts = Vec::new();
        if !batch.events.is_empty() {
            texts.push(sse::event("data", None, &array(&batch.events)?));
        }
        let mut control = json!({
            "streamNextOffset": batch.next_offset,
            "streamCursor": self.stream_cursor.to_string(),
        });
        if batch.is_up_to_date {
            control["upToDate"] = true.into();
        }
        texts.push(sse::event("control", None, &control.to_string()));
        Ok(texts)
    }
}

struct LiveRead<S> {
    reader: StreamReader<S>,
    /// The offset after what was written.
    offset: String,
    waiting: VecDeque<Bytes>,
    phase: Phase,
    end: Instant,
}

enum Phase {
    /// Pages of the past.
    Pages,
    /// Events as they come, from a subscription that is opened when the client has everything before.
    Tail(Option<Box<EventSubscription>>),
}

impl<S: GrpcRoutes> LiveRead<S> {
    /// The next text; none at the end, also if that is a failure: the client comes again with its offset, and then gets
    /// the status of the failure.
    async fn next(&mut self) -> Option<Bytes> {
        while self.waiting.is_empty() {
            let next = tokio::time::timeout_at(self.end, self.batch()).await.ok()?;
            let texts = next.and_then(|batch| batch.map(|batch| Ok(self.reader.texts(&batch)?)).transpose());
            match texts {
                Ok(texts) => self.waiting.extend(texts?),
                Err(failed) => {
                    tracing::debug!(%failed, "a live read ends");
                    return None;
                }
            }
        }
        self.waiting.pop_front()
    }

    async fn batch(&mut self) -> Result<Option<Batch>, CallFailure> {
        let batch = match &mut self.phase {
            Phase::Pages => {
                let batch = self.reader.batch(Some(&self.offset)).await?;
                if batch.is_up_to_date {
                    self.phase = Phase::Tail(None);
                }
                Some(batch)
            }
            Phase::Tail(subscription) => {
                if subscription.is_none() {
                    *subscription = Some(Box::new(self.reader.subscription(&self.offset).await?));
                }
                match subscription {
                    Some(subscription) => next_batch(subscription).await?,
                    None => None,
                }
            }
        };
        if let Some(batch) = &batch {
            self.offset.clone_from(&batch.next_offset);
        }
        Ok(batch)
    }
}

/// The next events of a subscription, or none of them and how far an idle one is complete; nothing at the end.
async fn next_batch(subscription: &mut EventSubscription) -> Result<Option<Batch>, CallFailure> {
    while let Some(frame) = subscription.next().await? {
        let (events, next_offset, more) = match frame {
            Frame::Events(pb::EventBatch { events, cursor, more }) => (events, cursor, more),
            Frame::Progress(pb::Progress { cursor, .. }) => (Vec::new(), cursor, false),
            _ => continue,
        };
        return Ok(Some(Batch { events, next_offset, is_up_to_date: !more }));
    }
    Ok(None)
}

/// Events as one JSON array on one line.
fn array(events: &[pb::Event]) -> app::Result<String> {
    let texts = events.iter().map(json::text_of).collect::<app::Result<Vec<_>>>()?;
    Ok(format!("[{}]", texts.join(",")))
}

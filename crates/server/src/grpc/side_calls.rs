//! Open calls of health and reflection. Such a stream may last for ever, so each tenant has a bounded number of them.

use crate::app::{self, Error, Reason};
use crate::limits;
use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;

/// The number of open calls by tenant.
#[derive(Default)]
pub(super) struct SideCalls(Mutex<HashMap<Arc<str>, usize>>);

/// An open call, which counts until it is dropped.
pub(super) struct SideCall {
    of: Arc<SideCalls>,
    tenant: Arc<str>,
}

impl SideCalls {
    fn open(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of a tenant.
    ///
    /// # Errors
    ///
    /// `LIMIT_EXCEEDED` for one too many.
    pub(super) fn begin(self: &Arc<Self>, tenant: &Arc<str>) -> app::Result<SideCall> {
        let mut open = self.open();
        let count = open.entry(tenant.clone()).or_default();
        if *count >= limits::SIDE_CALLS_MAX {
            let limit = limits::SIDE_CALLS_MAX;
            let message = format!("the tenant has {limit} open calls of health and reflection");
            let error = Error::new(Reason::LimitExceeded, message).with("what", "calls of health and reflection");
            return Err(error.with("limit", limit).with("actual", limit + 1));
        }
        *count += 1;
        Ok(SideCall { of: self.clone(), tenant: tenant.clone() })
    }
}

impl SideCall {
    /// The answer, which counts as long as it is sent.
    pub(super) fn held_by(self, answer: Response<Body>) -> Response<Body> {
        answer.map(|body| Body::new(CountedBody { body, _call: self }))
    }
}

impl Drop for SideCall {
    fn drop(&mut self) {
        let mut open = self.of.open();
        if let Some(count) = open.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}

/// The body of an answer with its call.
struct CountedBody {
    body: Body,
    _call: SideCall,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! The bytes of a request that is a stream of frames, over any time. Between frames it holds next to nothing and waits
//! for nobody; a frame that has begun is bounded in its size and its time, and is dropped for others if it stands still.
//! A frame that is larger than a small request waits for its memory, and holds it until its reader asks for what follows.

use super::incoming::RequestBytes;
use super::request::{self, PREFIX_BYTES, length, sent_length};
use crate::app::{Error, Reason};
use crate::limits;
use crate::traffic::{MemoryBudget, Reservation, Traffic};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

/// The content of a request that is a stream of frames.
pub struct FrameBody {
    stream: RequestBytes,
    held: Arc<Reservation>,
    meter: Meter,
    requests: Arc<MemoryBudget>,
    closing: Arc<CancellationToken>,
    /// The memory of a large frame.
    large: Option<Arc<Reservation>>,
    /// Bytes that wait for such memory.
    waiting: Option<(FrameAdmission, Bytes)>,
    /// The end of the time for the frame that has begun. The first one begins with the request.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Resolves when the request has to end for a reason of the daemon's.
    broken: Pin<Box<dyn Future<Output = Error> + Send>>,
    is_over: bool,
}

/// Memory for a large frame, once there is some.
type FrameAdmission = Pin<Box<dyn Future<Output = Result<Reservation, Error>> + Send>>;

/// Where the bytes of a stream are within its frames.
#[derive(Default)]
struct Meter {
    /// The begin of the frame: its flag and its length.
    prefix: Vec<u8>,
    /// Bytes of the frame that are still to come behind its prefix.
    left: usize,
    /// Bytes of memory of the largest frame that was passed since this was reset.
    largest: usize,
}

/// What bytes have done to the frame.
#[derive(Debug, PartialEq, Eq)]
enum FrameProgress {
    /// The stream is between two frames.
    Between,
    /// A frame is incomplete; true if it has begun with these bytes.
    Within(bool),
}

impl Meter {
    /// Passes bytes.
    ///
    /// # Errors
    ///
    /// `REQUEST_TOO_LARGE` for a frame that is longer than any may be.
    fn pass(&mut self, mut data: &[u8]) -> Result<FrameProgress, Error> {
        let mut has_begun = false;
        while !data.is_empty() {
            if self.left > 0 {
                let count = self.left.min(data.len());
                self.left -= count;
                data = &data[count..];
                if self.left == 0 {
                    self.prefix.clear();
                }
                continue;
            }
            has_begun |= self.prefix.is_empty();
            let count = (PREFIX_BYTES - self.prefix.len()).min(data.len());
            self.prefix.extend_from_slice(&data[..count]);
            data = &data[count..];
            if self.prefix.len() < PREFIX_BYTES {
                break;
            }
            self.left = sent_length(&self.prefix);
            if self.left > limits::WRITE_FRAME_BYTES {
                let message = format!("a frame of {} bytes is longer than any may be", self.left);
                return Err(Error::new(Reason::RequestTooLarge, message).with("limit", limits::WRITE_FRAME_BYTES));
            }
            self.largest = self.largest.max(self.bytes());
            if self.left == 0 {
                self.prefix.clear();
            }
        }
        Ok(if self.prefix.is_empty() { FrameProgress::Between } else { FrameProgress::Within(has_begun) })
    }

    /// Bytes of memory that the frame takes while it is incomplete.
    fn bytes(&self) -> usize {
        if self.prefix.len() < PREFIX_BYTES { 0 } else { length(&self.prefix).min(limits::WRITE_FRAME_BYTES) }
    }
}

impl FrameBody {
    pub(super) fn new(stream: RequestBytes, traffic: &Traffic, closing: &Arc<CancellationToken>) -> Self {
        let held = Arc::new(traffic.small_requests.hold(limits::REQUEST_BYTES_MIN));
        Self {
            stream,
            meter: Meter::default(),
            requests: traffic.requests.clone(),
            closing: closing.clone(),
            large: None,
            waiting: None,
            deadline: Some(Box::pin(tokio::time::sleep(time_for_a_frame()))),
            broken: broken(held.clone(), None, closing.clone()),
            held,
            is_over: false,
        }
    }

    /// The memory reserved for the request, until it is answered.
    pub(super) fn reservation(&self) -> Arc<Reservation> {
        self.held.clone()
    }

    /// Passes bytes that came. False if they wait for memory first.
    fn pass(&mut self, data: &Bytes) -> Result<bool, Error> {
        let has_begun = match self.meter.pass(data)? {
            FrameProgress::Between => None,
            FrameProgress::Within(has_begun) => Some(has_begun),
        };
        let largest = self.meter.largest;
        if largest > limits::SMALL_REQUEST_BYTES && self.large.as_ref().is_none_or(|large| large.bytes() < largest) {
            // The memory of a frame before it counts no more: whoever waits holds none.
            self.hold_large(None);
            self.held.resize(limits::REQUEST_BYTES_MIN);
            self.held.exempt();
            let admission = request::large(largest, self.requests.clone(), self.closing.clone());
            self.waiting = Some((Box::pin(admission), data.clone()));
            return Ok(false);
        }
        self.wait_for_frame(has_begun);
        Ok(true)
    }

    /// Sets what is held and how long is waited for the rest of a frame; true if it has begun just now, none between two
    /// frames.
    fn wait_for_frame(&mut self, has_begun: Option<bool>) {
        let Some(has_begun) = has_begun else {
            self.deadline = None;
            self.held.resize(limits::REQUEST_BYTES_MIN);
            self.held.exempt();
            if let Some(large) = &self.large {
                large.exempt();
            }
            return;
        };
        match &self.large {
            Some(large) => large.touch(),
            None => self.held.wait_for_client(limits::REQUEST_BYTES_MIN + self.meter.bytes()),
        }
        let end = Instant::now() + time_for_a_frame();
        match &mut self.deadline {
            Some(deadline) if has_begun => deadline.as_mut().reset(end),
            Some(_) => {}
            None => self.deadline = Some(Box::pin(tokio::time::sleep_until(end))),
        }
    }

    fn hold_large(&mut self, large: Option<Arc<Reservation>>) {
        if large.is_some() || self.large.is_some() {
            self.broken = broken(self.held.clone(), large.clone(), self.closing.clone());
            self.large = large;
        }
    }

    /// Bytes that came, once they may be read on.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some((admission, _)) = &mut self.waiting {
            let admitted = std::task::ready!(admission.as_mut().poll(context));
            let data = self.waiting.take().map(|(_, data)| data).unwrap_or_default();
            let admitted = match admitted {
                Ok(large) => Some(Arc::new(large)),
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            self.hold_large(admitted);
            self.wait_for_frame((!self.meter.prefix.is_empty()).then_some(true));
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        // Whoever reads asks for what follows: the frames before it were taken.
        self.meter.largest = self.meter.bytes();
        if self.meter.largest <= limits::SMALL_REQUEST_BYTES {
            self.hold_large(None);
        }
        match std::task::ready!(Pin::new(&mut self.stream).poll_frame(context)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => match self.pass(&data) {
                    Ok(true) => Poll::Ready(Some(Ok(Frame::data(data)))),
                    Ok(false) => self.poll_data(context),
                    Err(error) => Poll::Ready(Some(Err(error))),
                },
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
            },
            // Nobody reads the answer to a request that its client broke off.
            Some(Err(error)) => Poll::Ready(Some(Err(Error::new(Reason::RequestMalformed, error.to_string())))),
            None => Poll::Ready(None),
        }
    }

    /// The reason why a frame is not waited for any longer.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            let limit = limits::WRITE_FRAME_MS_MAX;
            let message = format!("a frame of the request was not complete after {limit} ms");
            return Poll::Ready(Error::new(Reason::RequestTimedOut, message).with("limit_ms", limit));
        }
        self.broken.as_mut().poll(context)
    }
}

/// Resolves when a request has to end: others need its memory, or the daemon stops.
fn broken(
    held: Arc<Reservation>,
    large: Option<Arc<Reservation>>,
    closing: Arc<CancellationToken>,
) -> Pin<Box<dyn Future<Output = Error> + Send>> {
    Box::pin(async move {
        let large_revoked = async {
            match &large {
                Some(large) => large.revoked().await,
                None => std::future::pending().await,
            }
        };
        let stood_still = || Error::new(Reason::TooManyRequests, "a frame stood still while others needed its memory");
        tokio::select! {
            () = held.revoked() => stood_still(),
            () = large_revoked => stood_still(),
            () = closing.cancelled() => Error::stopping(),
        }
    })
}

fn time_for_a_frame() -> Duration {
    Duration::from_millis(limits::WRITE_FRAME_MS_MAX)
}

impl Body for FrameBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = match self.poll_data(context) {
            Poll::Ready(next) => next,
            // The time does not run while the bytes wait for memory, which has a time of its own.
            Poll::Pending if self.waiting.is_some() => return Poll::Pending,
            // What has come counts before the time is over: it may have waited for a commit.
            Poll::Pending => match self.poll_end(context) {
                Poll::Ready(error) => Some(Err(error)),
                Poll::Pending => return Poll::Pending,
            },
        };
        if !matches!(next, Some(Ok(_))) {
            self.is_over = true;
            self.held.exempt();
            if let Some(large) = &self.large {
                large.exempt();
            }
        }
        Poll::Ready(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_followed_however_their_bytes_come() {
        let frames = [0, 0, 0, 0, 3, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7];
        for piece in 1..=frames.len() {
            let mut meter = Meter::default();
            let mut at = 0;
            for bytes in frames.chunks(piece) {
                at += bytes.len();
                let passed = meter.pass(bytes).expect("short frames");
                let is_between = [8, 13, 19].contains(&at);
                assert_eq!(passed == FrameProgress::Between, is_between, "pieces of {piece}, after {at}");
            }
        }
        let mut meter = Meter::default();
        assert_eq!(meter.pass(&[0, 0]).expect("a begin"), FrameProgress::Within(true));
        assert_eq!((meter.pass(&[0, 0, 9, 1]).expect("more"), meter.bytes()), (FrameProgress::Within(false), 9));
        assert_eq!(meter.pass(&[1; 9]).expect("the next begins"), FrameProgress::Within(true));
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_length() {
        let mut meter = Meter::default();
        let refused = meter.pass(&[0, 0, 16, 0, 1]).expect_err("1 MiB and a byte");
        assert_eq!(refused.reason, Reason::RequestTooLarge);
        assert_eq!(Meter::default().pass(&[0, 0, 16, 0, 0]).expect("1 MiB"), FrameProgress::Within(true));
    }
}

//! Events, one by one.

use crate::client::Client;
use crate::error::Result;
use crate::follow::Follow;
use longhand_protocol as v1;
use std::collections::VecDeque;
use v1::subscribe_events_response::Frame;

/// The events of a stream, which goes on where it was when it is lost.
#[derive(Debug)]
pub struct Events {
    frames: Follow<v1::SubscribeEventsRequest>,
    waiting: VecDeque<v1::Event>,
}

impl Client {
    /// Events one by one, as [`Client::follow`] follows their frames: every matching event after the start, in order, none
    /// missed and none twice, also across a restart of the daemon.
    pub fn events(&self, request: v1::SubscribeEventsRequest) -> Events {
        Events { frames: self.follow(request), waiting: VecDeque::new() }
    }
}

impl Events {
    /// The next event, whose `cursor` is the position after it; none at the end of the stream, which the daemon never
    /// ends without an error. Nothing is lost if it is not waited for.
    ///
    /// # Errors
    ///
    /// As [`Follow::next`].
    pub async fn next(&mut self) -> Result<Option<v1::Event>> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(event));
            }
            match self.frames.next().await? {
                Some(v1::SubscribeEventsResponse { frame: Some(Frame::Events(batch)) }) => {
                    self.waiting = batch.events.into();
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The number of times that the stream was lost.
    pub fn resume_count(&self) -> usize {
        self.frames.resume_count()
    }
}

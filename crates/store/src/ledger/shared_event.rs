//! A committed event, and what its readers make of it once for all of them.

use crate::model::event::Event;
use bytes::Bytes;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A committed event that its readers share.
#[derive(Debug)]
pub struct SharedEvent {
    event: Event,
    cursor: OnceLock<Arc<str>>,
    encoded: OnceLock<Bytes>,
}

impl SharedEvent {
    /// The cursor after the event, as the first reader makes it. Every reader would make the same.
    pub fn cursor(&self, make: impl FnOnce() -> String) -> Arc<str> {
        Arc::clone(self.cursor.get_or_init(|| make().into()))
    }

    /// The event as clients get it, as the first reader encodes it. Every reader would encode the same.
    pub fn encoded(&self, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        self.encoded.get_or_init(|| encode().into()).clone()
    }

    /// The event itself; a copy while others share it.
    pub fn unwrap_or_clone(self: Arc<Self>) -> Event {
        Arc::try_unwrap(self).map_or_else(|shared| shared.event.clone(), |shared| shared.event)
    }
}

impl From<Event> for SharedEvent {
    fn from(event: Event) -> Self {
        Self { event, cursor: OnceLock::new(), encoded: OnceLock::new() }
    }
}

impl Deref for SharedEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

impl PartialEq for SharedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.event == other.event
    }
}

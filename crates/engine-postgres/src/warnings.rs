//! Warnings that the server sends with an answer. sqlx only logs them, so they are read from the log.

use std::cell::RefCell;
use std::sync::LazyLock;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

/// The target of the events that sqlx makes of them.
const TARGET: &str = "sqlx::postgres::notice";

static WATCHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Watcher));

thread_local! {
    static WARNING: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a call of this thread, and returns its last warning with its answer. Nothing of the call reaches the daemon's
/// log.
pub(super) fn with_warning<T>(work: impl FnOnce() -> T) -> (T, Option<String>) {
    WARNING.take();
    let answer = dispatcher::with_default(&WATCHER, work);
    (answer, WARNING.take())
}

struct Watcher;

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET && *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            WARNING.set(Some(format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            WARNING.set(Some(value.to_owned()));
        }
    }
}

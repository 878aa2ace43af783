//! Conversion between the protocol's types and the domain's. A function named `read_…` converts from the protocol; the
//! others convert to it.
//!
//! Only the form of a request is checked here: missing values, and unknown enum numbers. `app` checks the values. Every
//! refusal names the field by its path in the request.

pub(in crate::grpc) mod compaction;
pub(in crate::grpc) mod draft;
pub(in crate::grpc) mod erase;
pub(in crate::grpc) mod event;
pub(in crate::grpc) mod message;
pub(in crate::grpc) mod run;
pub(in crate::grpc) mod search;
pub(in crate::grpc) mod secret;
pub(in crate::grpc) mod session;
pub(in crate::grpc) mod summary_task;
pub(in crate::grpc) mod view;

use crate::app::{Error, Result};
use crate::model::compaction::RevisionRange;
use crate::model::time::Timestamp;
use crate::pb;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The seconds that a protocol timestamp may have: the years 1 to 9999.
const SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const MICROS: i64 = 1_000_000;
const NANOS: RangeInclusive<i32> = 0..=999_999_999;

/// An instant, truncated to microseconds.
fn read_time(field: impl Display + Copy, time: prost_types::Timestamp) -> Result<Timestamp> {
    if !SECONDS.contains(&time.seconds) || !NANOS.contains(&time.nanos) {
        return Err(Error::field(field, "is no point in time between the years 1 and 9999"));
    }
    Ok(Timestamp(time.seconds * MICROS + i64::from(time.nanos / 1_000)))
}

fn read_optional_time(field: impl Display + Copy, time: Option<prost_types::Timestamp>) -> Result<Option<Timestamp>> {
    time.map(|time| read_time(field, time)).transpose()
}

/// A duration, which must not be negative.
pub(in crate::grpc) fn read_duration(field: impl Display + Copy, duration: prost_types::Duration) -> Result<Duration> {
    match (u64::try_from(duration.seconds), u32::try_from(duration.nanos)) {
        (Ok(seconds), Ok(nanos)) if NANOS.contains(&duration.nanos) => Ok(Duration::new(seconds, nanos)),
        _ => Err(Error::field(field, "is no length of time")),
    }
}

/// An enum's value. A number that this version does not know is refused.
fn read_enum<T: TryFrom<i32>>(field: impl Display + Copy, number: i32) -> Result<T> {
    T::try_from(number).map_err(|_| Error::field(field, format!("{number} is no value that this version knows")))
}

fn not_given(field: impl Display + Copy) -> Error {
    Error::field(field, "is not given")
}

/// A count, capped at 32 bits.
pub(in crate::grpc) fn count(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

/// An id that may be absent.
fn id(id: Option<impl ToString>) -> Option<String> {
    id.map(|id| id.to_string())
}

fn range(range: RevisionRange) -> pb::RevisionRange {
    pb::RevisionRange { first_revision: range.first, last_revision: range.last }
}

/// The bytes of a message of this length inside another one: its tag, its length and its content.
fn framed_len(len: usize) -> usize {
    1 + prost::length_delimiter_len(len) + len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Reason;
    use crate::grpc::wire;
    use crate::model::usage::Usage;
    use proptest::prelude::*;

    fn proto_time(seconds: i64, nanos: i32) -> prost_types::Timestamp {
        prost_types::Timestamp { seconds, nanos }
    }

    proptest! {
        #[test]
        fn times_come_back(micros in *SECONDS.start() * MICROS..=(*SECONDS.end() + 1) * MICROS - 1) {
            let written = wire::timestamp(Timestamp(micros));
            prop_assert!(NANOS.contains(&written.nanos));
            prop_assert_eq!(read_time("t", written), Ok(Timestamp(micros)));
        }

        #[test]
        fn usage_comes_back(
            counts in any::<[i64; 5]>(),
            total in any::<Option<i64>>(),
            micros in proptest::option::of(0..9_000_000_i64),
        ) {
            let [input, output, reasoning, cache_read, cache_write] = counts;
            let cost_usd = micros.map(|micros| micros as f64 / 1e6);
            let given = Usage { input, output, reasoning, cache_read, cache_write, total, cost_usd, cost_is_computed: false };
            prop_assert_eq!(wire::usage(given).cost_micro_usd, micros);
            prop_assert_eq!(wire::read_usage(wire::usage(given)), given);
        }
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for (seconds, nanos) in [(0, -1), (0, 1_000_000_000), (SECONDS.end() + 1, 0), (i64::MIN, 0), (i64::MAX, 0)] {
            let error = read_time("origin_time", proto_time(seconds, nanos)).expect_err("a refusal");
            assert_eq!((error.reason, error.metadata["field"].as_str()), (Reason::InvalidField, "origin_time"));
        }
        assert_eq!(read_time("t", proto_time(-1, 999_999_999)), Ok(Timestamp(-1)));
    }

    #[test]
    fn durations_are_not_negative() {
        let read = |seconds, nanos| read_duration("wait_timeout", prost_types::Duration { seconds, nanos });
        assert_eq!(read(1, 500_000_000), Ok(Duration::from_millis(1_500)));
        assert_eq!(read(0, 0), Ok(Duration::ZERO));
        for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (1, -1)] {
            let error = read(seconds, nanos).expect_err("a refusal");
            assert_eq!((error.reason, error.metadata["field"].as_str()), (Reason::InvalidField, "wait_timeout"));
        }
    }
}

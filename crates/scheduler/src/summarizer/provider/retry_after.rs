//! The delay that a provider asks for before the next request.

use crate::limits;
use crate::model::time::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// Maximum delay that is accepted; longer ones are reduced to it.
const WAIT_MS_MAX: i64 = limits::RETRY_AFTER_MS_MAX;

/// The delay in the headers, in milliseconds: `retry-after-ms`, else `retry-after` in seconds or as a date.
pub(super) fn of_headers(headers: &HeaderMap, now: Timestamp) -> Option<i64> {
    let text = |name| headers.get(name).and_then(|value: &reqwest::header::HeaderValue| value.to_str().ok());
    let from_ms = text("retry-after-ms").and_then(|value| millis(value, 1.0));
    from_ms.or_else(|| {
        let value = text(RETRY_AFTER.as_str())?;
        millis(value, 1_000.0).or_else(|| until(value, now))
    })
}

/// The delay in the body, in milliseconds: Gemini's `retryDelay`, such as `"34.5s"`.
pub(super) fn of_body(error: &Value) -> Option<i64> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    millis(delay.strip_suffix('s')?, 1_000.0)
}

/// Converts a number of units to milliseconds, rounded up, since a request that comes too early is refused again.
fn millis(value: &str, unit: f64) -> Option<i64> {
    let number: f64 = value.trim().parse().ok()?;
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    // The cast saturates, and the bound is far below the precision of a float.
    Some(((number * unit).ceil() as i64).min(WAIT_MS_MAX))
}

/// The time until an HTTP date, in milliseconds; 0 if it is past.
fn until(value: &str, now: Timestamp) -> Option<i64> {
    let at = DateTimeParser::new().parse_timestamp(value.trim()).ok()?;
    let micros = at.as_microsecond().saturating_sub(now.0);
    Some((micros.saturating_add(999) / 1_000).clamp(0, WAIT_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 1994-11-06 08:49:37 UTC.
    const NOW: Timestamp = Timestamp(784_111_777_000_000);

    fn check(headers: &[(&'static str, &str)], expected: Option<i64>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header"));
        }
        assert_eq!(of_headers(&map, NOW), expected, "{headers:?}");
    }

    #[test]
    fn every_form_is_understood() {
        check(&[], None);
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", " 0.25 ")], Some(250));
        check(&[("retry-after", "0")], Some(0));
        check(&[("retry-after-ms", "1500.2"), ("retry-after", "7")], Some(1_501));
        check(&[("retry-after-ms", "soon"), ("retry-after", "7")], Some(7_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT")], Some(20_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT")], Some(0));
        check(&[("retry-after", "later")], None);
        check(&[("retry-after", "-3")], None);
        check(&[("retry-after", "inf")], None);
        check(&[("retry-after", "1e300")], Some(WAIT_MS_MAX));
        check(&[("retry-after", "Fri, 06 Nov 2099 08:49:57 GMT")], Some(WAIT_MS_MAX));
    }

    #[test]
    fn a_body_can_ask_too() {
        let error = json!({"details": [{"@type": "help"}, {"@type": "retry", "retryDelay": "34.5s"}]});
        assert_eq!(of_body(&error), Some(34_500));
        assert_eq!(of_body(&json!({"details": [{"retryDelay": 3}]})), None);
        assert_eq!(of_body(&json!({})), None);
    }
}

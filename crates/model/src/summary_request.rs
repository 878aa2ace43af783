//! Requests to models for a summary, as they are kept for an audit.

use super::ids::{CompactionId, MessageId};
use super::time::Timestamp;
use super::usage::Usage;

/// One request that was sent, whatever its result.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRequest {
    /// The number of the compaction's attempt, from 1.
    pub attempt: i64,
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// The model as the provider named it, or else as it was requested.
    pub model: String,
    /// BLAKE3 of the request's body, which does not contain the key.
    pub request_hash: [u8; 32],
    /// BLAKE3 of the reply's text as far as it was received.
    pub reply_hash: [u8; 32],
    /// The token usage, as far as the provider reported it.
    pub usage: Option<Usage>,
    /// The cost in millionths of a US dollar; none if it is unknown.
    pub cost_micros: Option<i64>,
    /// The duration in milliseconds.
    pub duration_ms: i64,
    /// The reason for which there is no summary; none if there is one.
    pub failure: Option<String>,
    /// The time at which it ended.
    pub end_time: Timestamp,
    /// The request's body and the reply's text, if the configuration records them and the caller asked for them.
    pub texts: Option<(String, String)>,
}

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A compaction.
    Compaction(CompactionId),
    /// The summary of a branch; a message with this id exists if the rewind was made.
    Branch(MessageId),
}

/// The sum of the requests of one compaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spending {
    /// The number of requests.
    pub requests: i64,
    /// The models that were asked, each once, in the order of their first requests.
    pub models: Vec<String>,
    /// The total token usage, as far as providers reported it.
    pub usage: Option<Usage>,
    /// The known part of the cost, in millionths of a US dollar; none if nothing of it is known.
    pub cost_micros: Option<i64>,
    /// Requests of unknown cost.
    pub unpriced: i64,
    /// The sum of their durations, in milliseconds. Time of parallel requests counts twice.
    pub duration_ms: i64,
}

impl Spending {
    /// Adds up requests.
    pub fn sum(requests: &[SummaryRequest]) -> Self {
        let mut sum = Self::default();
        for request in requests {
            sum.requests += 1;
            if !sum.models.contains(&request.model) {
                sum.models.push(request.model.clone());
            }
            sum.usage = match (sum.usage, request.usage) {
                (Some(so_far), Some(usage)) => Some(so_far.plus(usage)),
                (so_far, usage) => so_far.or(usage),
            };
            match request.cost_micros {
                Some(cost) => sum.cost_micros = Some(sum.cost_micros.unwrap_or(0).saturating_add(cost)),
                None => sum.unpriced += 1,
            }
            sum.duration_ms = sum.duration_ms.saturating_add(request.duration_ms);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(model: &str, input: Option<i64>, cost_micros: Option<i64>) -> SummaryRequest {
        SummaryRequest {
            attempt: 1,
            summarizer: "strong".to_owned(),
            model: model.to_owned(),
            request_hash: [0; 32],
            reply_hash: [0; 32],
            usage: input.map(|input| Usage { input, ..Usage::default() }),
            cost_micros,
            duration_ms: 5,
            failure: None,
            end_time: Timestamp(0),
            texts: None,
        }
    }

    #[test]
    fn requests_add_up_and_what_is_unknown_stays_unknown() {
        assert_eq!(Spending::sum(&[]), Spending::default());
        let free = Spending::sum(&[request("a", None, None)]);
        assert_eq!((free.cost_micros, free.unpriced, free.usage), (None, 1, None));
        let sum =
            Spending::sum(&[request("a", Some(3), Some(10)), request("b", None, None), request("a", Some(4), Some(0))]);
        assert_eq!((sum.requests, sum.models, sum.duration_ms), (3, vec!["a".to_owned(), "b".to_owned()], 15));
        assert_eq!((sum.cost_micros, sum.unpriced), (Some(10), 1));
        assert_eq!(sum.usage.map(|usage| usage.input), Some(7));
    }
}

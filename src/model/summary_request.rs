//! Requests to models that were to write a summary, as they are kept for an audit.

use super::ids::{CompactionId, MessageId};
use super::time::Timestamp;
use super::usage::Usage;

/// One request that was sent, whatever became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRequest {
    /// Which attempt of the reduction it belongs to, from 1.
    pub attempt: i64,
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// The model, as the provider named it, or else as it was asked for.
    pub model: String,
    /// BLAKE3 of the request's body. The key is not in it.
    pub request_hash: [u8; 32],
    /// BLAKE3 of the reply's words as far as they came.
    pub reply_hash: [u8; 32],
    /// What it used, as far as the provider said.
    pub usage: Option<Usage>,
    /// What it cost, in millionths of a US dollar; none where nobody knows.
    pub cost_micros: Option<i64>,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// Why there is no summary in it; none if there is one.
    pub failure: Option<String>,
    /// When it ended.
    pub end_time: Timestamp,
    /// The request's body and the reply's words, where the configuration has them recorded and somebody asked for them.
    pub texts: Option<(String, String)>,
}

/// What a request was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A reduction.
    Reduction(CompactionId),
    /// The summary of a branch, which is there under this id if the rewind was made.
    Branch(MessageId),
}

/// What the requests of one reduction come to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spending {
    /// How many there were.
    pub requests: i64,
    /// The models that were asked, each once, in the order in which they were first asked.
    pub models: Vec<String>,
    /// What was used in all, as far as providers said.
    pub usage: Option<Usage>,
    /// What is known of the cost, in millionths of a US dollar; none where nothing is.
    pub cost_micros: Option<i64>,
    /// Requests whose cost nobody knows.
    pub unpriced: i64,
    /// How long they took together, in milliseconds. Requests at the same time count twice.
    pub duration_ms: i64,
}

impl Spending {
    /// Adds up requests.
    pub fn of(requests: &[SummaryRequest]) -> Self {
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
        assert_eq!(Spending::of(&[]), Spending::default());
        let free = Spending::of(&[request("a", None, None)]);
        assert_eq!((free.cost_micros, free.unpriced, free.usage), (None, 1, None));
        let sum =
            Spending::of(&[request("a", Some(3), Some(10)), request("b", None, None), request("a", Some(4), Some(0))]);
        assert_eq!((sum.requests, sum.models, sum.duration_ms), (3, vec!["a".to_owned(), "b".to_owned()], 15));
        assert_eq!((sum.cost_micros, sum.unpriced), (Some(10), 1));
        assert_eq!(sum.usage.map(|usage| usage.input), Some(7));
    }
}

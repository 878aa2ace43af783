//! Parameters of the tail beside a summary.

use super::omission::LastMessages;
use serde::{Deserialize, Serialize};

/// The tail: messages kept verbatim beside a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tail {
    /// No tail, apart from messages without an answer.
    Nothing,
    /// No tail either, unless the messages since the last summary are fewer than the minimum: then all of them stay,
    /// without a summary.
    Whole {
        /// Minimum number of messages for a summary.
        minimum_messages: u32,
    },
    /// The last turns within a budget; a turn that does not fit is split between its messages, unless whole ones are enough.
    Turns(LastTurns),
    /// The newest messages whose tokens reach a budget; the tail does not begin with a tool result.
    Recent(Recent),
    /// The messages after a share of the history's characters.
    Fraction(Fraction),
    /// The last messages, by number.
    Last(LastMessages),
    /// The newest requests, without the replies and results for them.
    Requests(Requests),
}

/// The last turns that fit a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastTurns {
    /// Maximum number of turns; 0 keeps nothing. Absent: as many as fit.
    pub turns: Option<u32>,
    /// The budget as a share of the usable window.
    pub budget_ratio: f64,
    /// Minimum of the budget, in tokens.
    pub minimum_budget_tokens: i64,
    /// Maximum of the budget, in tokens.
    pub max_budget_tokens: i64,
    /// Keeps whole turns, so that the tail begins where the work on a request ended: a turn is split only if the turns
    /// behind it fill less than half of the budget.
    #[serde(default)]
    pub whole: bool,
}

/// The newest messages whose tokens reach a budget. System messages always stay, beside the summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recent {
    /// The budget in tokens.
    pub keep_tokens: i64,
    /// The tail if the results of the last calls alone exceed the budget.
    #[serde(default)]
    pub large_results: LargeResults,
}

/// The tail if the results of the last calls alone exceed its budget: no boundary may be before any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LargeResults {
    /// The results and the reply that made the calls.
    #[default]
    WithCall,
    /// Everything, so that there is nothing to summarize.
    WithEverything,
}

/// The tail after a share of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fraction {
    /// The share of the history's characters that is summarized, more than 0 and less than 1.
    pub summarize_ratio: f64,
    /// Rule for the exact boundary.
    pub boundary: FractionBoundary,
    /// Nothing is summarized if the boundary covers less than this share.
    #[serde(default)]
    pub minimum_ratio: f64,
}

/// Rule for the exact boundary of a tail by share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FractionBoundary {
    /// Before the message that reaches the share, or before the next request if that message is a reply or a result. If
    /// there is none, everything is summarized.
    Reached,
    /// Before the first request that has the share before it. If there is none, everything is summarized if the last
    /// message is a reply without tool calls, and otherwise everything before the last request.
    Request,
    /// The same, except for two cases: if the history ends in tool calls, the boundary is before its last rounds of
    /// calls and results; if it ends in results, everything is summarized.
    Rounds {
        /// Number of rounds that stay, besides the calls at the end.
        rounds: u32,
    },
}

/// The newest requests, as many as fit a budget. Everything else is summarized, apart from messages without a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Maximum number of requests; absent: as many as fit.
    pub messages: Option<u32>,
    /// The budget in tokens; the request that crosses it is truncated, those before it are summarized. Absent: no
    /// limit.
    pub keep_tokens: Option<i64>,
    /// True if requests with parts other than text are skipped.
    #[serde(default)]
    pub text_only: bool,
    /// Text between the beginning and the end of the truncated request; `{omitted}` becomes the number of omitted
    /// units.
    #[serde(default)]
    pub marker: String,
}

//! Parameters of a threshold.

use serde::{Deserialize, Serialize};

/// The number of tokens at which a level is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The limit, computed from the window.
    pub limit: Limit,
    /// True if the level is due at the limit itself; otherwise only above it.
    #[serde(default)]
    pub inclusive: bool,
    /// Minimum number of tokens: with fewer the level is never due, however small the window is. It is for models with
    /// small windows, where a share of the window would be due after a few messages.
    #[serde(default)]
    pub minimum_tokens: i64,
}

/// The computation of a limit from a window.
///
/// A reserve is at most a quarter of the window as long as no client said how much a reply may have: agents chose
/// theirs for their own large windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Limit {
    /// `input - reserved` if the model has an input limit, else `context - output`.
    ///
    /// `reserved` is the smaller of `buffer_tokens` and the output limit.
    Usable {
        /// Maximum tokens kept free under an input limit.
        buffer_tokens: i64,
        /// Maximum of the output limit; also its value if the model states none.
        output_cap_tokens: i64,
        /// Tokens kept free under an input limit, whatever the output limit is.
        /// Absent: the smaller of `buffer_tokens` and the output limit.
        #[serde(default)]
        reserved_tokens: Option<i64>,
    },
    /// The context without this number of tokens, which are kept free.
    #[serde(rename = "reserve_tokens")]
    Reserve(i64),
    /// A share of the context, between 0 and 1.
    Ratio(f64),
    /// A number of tokens, independent of the window.
    Tokens(i64),
    /// The smaller of a share of the context and the context without a reserve.
    Buffered {
        /// The share, between 0 and 1.
        ratio: f64,
        /// Tokens kept free.
        reserve_tokens: i64,
        /// Lower bound: this share of the context, or of the reserve if that is smaller, so that a window hardly larger
        /// than the reserve is not due at once.
        floor_ratio: f64,
    },
    /// Another limit with an offset, at most the context.
    Relative {
        /// The other limit.
        limit: Box<Limit>,
        /// Tokens above the other limit; negative: below it, like a reserve.
        offset_tokens: i64,
        /// Lower bound: the context without this reserve; absent: 0.
        #[serde(default)]
        reserve_tokens: Option<i64>,
    },
    /// By the model's name: the first entry whose text is part of the name in lower case.
    Models {
        /// The entries, in order.
        models: Vec<ModelLimit>,
        /// The limit of all other models.
        otherwise_tokens: i64,
    },
    /// The context without a reserve that depends on the size of the context.
    Steps {
        /// The steps, largest context first.
        steps: Vec<WindowStep>,
        /// The reserve of a context that is smaller than every step.
        otherwise_reserve_tokens: i64,
    },
}

/// The limit of models whose name contains a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelLimit {
    /// The text, in lower case.
    pub contains: String,
    /// The limit in tokens.
    pub tokens: i64,
}

/// The reserve of contexts from a minimum size on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowStep {
    /// The minimum size of the context, in tokens.
    pub context_tokens: i64,
    /// The reserve in tokens.
    pub reserve_tokens: i64,
}

//! Token usage and model windows.

use super::limits;

/// The token usage and cost of one reply as the provider reported it. Counts are tokens and never negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Tokens read that no cache served.
    pub input: i64,
    /// Tokens written, reasoning excluded.
    pub output: i64,
    /// Tokens spent on reasoning.
    pub reasoning: i64,
    /// Tokens read from the provider's prompt cache.
    pub cache_read: i64,
    /// Tokens written to the provider's prompt cache.
    pub cache_write: i64,
    /// The provider's own total, where it gives one. Zero counts as absent.
    pub total: Option<i64>,
    /// The cost of the reply in US dollars, if it is known.
    pub cost_usd: Option<f64>,
    /// True if the cost was computed from the prices of the model, because nobody reported one.
    pub cost_is_computed: bool,
}

impl Usage {
    /// The provider's total, or else the sum of input, output and both cache counts.
    ///
    /// Reasoning is left out of the sum.
    pub fn context_tokens(&self) -> i64 {
        match self.total {
            Some(total) if total > 0 => total,
            // A provider may report any number.
            _ => self.prompt_tokens().saturating_add(self.output),
        }
    }

    /// The sum of two usages. A cost that only one of them has is kept; a missing total is computed from the other
    /// counts.
    pub fn plus(self, other: Self) -> Self {
        let total = match (self.total, other.total) {
            (None, None) => None,
            _ => Some(
                self.total
                    .unwrap_or_else(|| self.context_tokens())
                    .saturating_add(other.total.unwrap_or_else(|| other.context_tokens())),
            ),
        };
        let cost_usd = match (self.cost_usd, other.cost_usd) {
            (None, None) => None,
            (one, another) => Some(one.unwrap_or(0.0) + another.unwrap_or(0.0)),
        };
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            total,
            cost_usd,
            cost_is_computed: self.cost_is_computed || other.cost_is_computed,
        }
    }

    /// The usage as it was reported, without a cost that was computed.
    pub fn as_reported(self) -> Self {
        let cost_usd = self.cost_usd.filter(|_| !self.cost_is_computed);
        Self { cost_usd, cost_is_computed: false, ..self }
    }

    /// The cost in millionths of a US dollar, rounded; none if it is unknown.
    pub fn cost_micros(&self) -> Option<i64> {
        let cost = self.cost_usd.filter(|cost| cost.is_finite())?;
        Some((cost * 1e6).round() as i64)
    }

    /// The first figure that no reply can have, by its name in the protocol, with what is wrong with it. Whatever comes
    /// from a client, a provider or a file passes this.
    pub fn defect(&self) -> Option<(&'static str, String)> {
        let counts = [
            ("input_tokens", self.input),
            ("output_tokens", self.output),
            ("reasoning_tokens", self.reasoning),
            ("cache_read_tokens", self.cache_read),
            ("cache_write_tokens", self.cache_write),
            ("total_tokens", self.total.unwrap_or(0)),
        ];
        let count = counts.into_iter().find_map(|(field, count)| Some((field, tokens_defect(count)?)));
        let cost = self.cost_usd.filter(|cost| !(0.0..=limits::COST_USD_MAX).contains(cost));
        count.or_else(|| cost.map(|cost| ("cost_micro_usd", format!("{cost} US dollars is no price"))))
    }

    /// Tokens sent: input and both cache counts.
    pub fn prompt_tokens(&self) -> i64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

/// What is wrong with a count of tokens that is added to others; none if nothing is.
pub fn tokens_defect(count: i64) -> Option<String> {
    (!(0..=limits::TOKENS_MAX).contains(&count)).then(|| format!("{count} is no count of tokens"))
}

/// The sum of the usage of a session's replies, as their providers reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotals {
    /// Tokens read that no cache served.
    pub input: i64,
    /// Tokens written, reasoning excluded.
    pub output: i64,
    /// Tokens spent on reasoning.
    pub reasoning: i64,
    /// Tokens read from the providers' prompt caches.
    pub cache_read: i64,
    /// Tokens written to the providers' prompt caches.
    pub cache_write: i64,
    /// The cost in millionths of a US dollar, as far as it is known; each reply's is rounded.
    pub cost_micros: i64,
}

impl UsageTotals {
    /// Adds the usage of a reply.
    pub fn add(&mut self, usage: &Usage) {
        let Self { input, output, reasoning, cache_read, cache_write, cost_micros } = self;
        for (sum, more) in [
            (input, usage.input),
            (output, usage.output),
            (reasoning, usage.reasoning),
            (cache_read, usage.cache_read),
            (cache_write, usage.cache_write),
            (cost_micros, usage.cost_micros().unwrap_or(0)),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The reason for which reported usage is not believed to be the size of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UsageDoubt {
    /// It has no input count.
    NoInput,
    /// It is less than the view can have, such as the input that no cache served.
    BelowView,
    /// It is more than the window holds: a report of overflow, and no size.
    AboveWindow,
    /// It is above the report before it by a whole context, as a sum of all requests is.
    Sum,
    /// It is the report before it once more, although the view has grown.
    Stale,
}

impl UsageDoubt {
    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoInput => "no_input",
            Self::BelowView => "below_view",
            Self::AboveWindow => "above_window",
            Self::Sum => "sum",
            Self::Stale => "stale",
        }
    }
}

/// Where the limits of a window come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WindowSource {
    /// The client named them, or nobody did.
    #[default]
    Client,
    /// The table of models, by the model's name.
    Models,
    /// A provider named its limit when it refused a request.
    ProviderError,
}

/// The token limits of a model. Zero context means "unknown", which never triggers anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelWindow {
    /// The model's name, as the provider spells it; empty if it does not matter.
    pub model: String,
    /// Input and output together.
    pub context: i64,
    /// A separate limit on input, if the model has one.
    pub input: Option<i64>,
    /// The most the model writes in one reply.
    pub output: Option<i64>,
    /// Tokens of every request besides the view, such as a system prompt and descriptions of tools. They are added to
    /// estimates; usage includes them.
    pub overhead: i64,
    /// Where the limits come from.
    pub source: WindowSource,
}

impl ModelWindow {
    /// The most tokens that a request may have: the input limit, or else the context; none if the window is unknown.
    /// No output is subtracted: what stays free for a reply is the business of the policy's thresholds.
    pub fn input_max(&self) -> Option<i64> {
        (self.context > 0).then(|| self.input.filter(|input| *input > 0).unwrap_or(self.context))
    }

    /// The most that the model writes in one reply, if it is known.
    pub fn known_output(&self) -> Option<i64> {
        self.output.filter(|output| *output > 0)
    }
}

/// The size of a context at one time, by the usage that a reply reported and by the policy's estimate of its view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageSample {
    /// Trusted usage plus the estimate of everything after it.
    pub usage_tokens: i64,
    /// The estimate of the whole view.
    pub view_tokens: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_all_bounds_are_as_much_as_there_can_be() {
        let usage = Usage { input: i64::MAX, output: 1, cache_read: i64::MAX, ..Usage::default() };
        assert_eq!((usage.context_tokens(), usage.prompt_tokens()), (i64::MAX, i64::MAX));
        let other = Usage { total: Some(1), ..Usage::default() };
        assert_eq!(usage.plus(other).total, Some(i64::MAX));
    }
}

//! Token usage and model windows.

/// What a provider said one reply cost. Counts are tokens and never negative.
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
    /// What the reply cost in US dollars, where it is known.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// The provider's total, or else the sum of input, output and both cache counts.
    ///
    /// Reasoning is left out of the sum, as OpenCode and pi do.
    pub fn context_tokens(&self) -> i64 {
        match self.total {
            Some(total) if total > 0 => total,
            // What a provider says may be any number.
            _ => self.prompt_tokens().saturating_add(self.output),
        }
    }

    /// What two replies cost together. What only one of them tells counts as if the other had cost nothing.
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
        }
    }

    /// The cost in millionths of a US dollar, rounded; none where it is unknown.
    pub fn cost_micros(&self) -> Option<i64> {
        let cost = self.cost_usd.filter(|cost| cost.is_finite())?;
        Some((cost * 1e6).round() as i64)
    }

    /// What was sent: input and both cache counts.
    pub fn prompt_tokens(&self) -> i64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

/// How much a model can take. Counts are tokens; zero context means "unknown", which never triggers anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelWindow {
    /// The model's name, as the provider spells it; empty when it does not matter.
    pub model: String,
    /// Input and output together.
    pub context: i64,
    /// A separate limit on input, where the model has one.
    pub input: Option<i64>,
    /// The most the model writes in one reply.
    pub output: Option<i64>,
    /// What every request carries beside the view, such as a system prompt and descriptions of tools. It is added to
    /// estimates; usage has it in it.
    pub overhead: i64,
}

impl ModelWindow {
    /// The most tokens that a request may have at all, with no more room for a reply than its provider gives by itself;
    /// none when the window is unknown.
    pub fn request_max(&self) -> Option<i64> {
        (self.context > 0).then(|| self.input.unwrap_or(self.context))
    }
}

/// How large a context was once, by what a reply reported and by what the policy estimates of its view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageSample {
    /// Trusted usage plus the estimate of what came after it.
    pub usage_tokens: i64,
    /// The estimate of the whole view.
    pub view_tokens: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_all_bounds_are_as_much_as_there_can_be() {
        let said = Usage { input: i64::MAX, output: 1, cache_read: i64::MAX, ..Usage::default() };
        assert_eq!((said.context_tokens(), said.prompt_tokens()), (i64::MAX, i64::MAX));
        let other = Usage { total: Some(1), ..Usage::default() };
        assert_eq!(said.plus(other).total, Some(i64::MAX));
    }
}

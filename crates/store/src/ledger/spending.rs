//! Usage and cost of requests to models in the whole store: counters in rows, for the status page.

use crate::engine::Reader;
use crate::engine::{self, Connection};
use crate::error::Result;
use crate::limits;
use crate::model::summary_request::SummaryRequest;
use crate::model::usage::Usage;

/// Usage and cost of the requests of one summarizer to one model, since the store was made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SummarizerSpending {
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// The model as the provider named it, or else as it was requested. Empty for models that came after the maximum
    /// number of names was reached.
    pub model: String,
    /// The number of requests.
    pub requests: i64,
    /// The number of requests without a summary.
    pub failures: i64,
    /// Their usage, as far as the provider reported it, without total and cost.
    pub usage: Usage,
    /// The known part of the cost, in millionths of a US dollar.
    pub cost_micros: i64,
    /// Requests of unknown cost.
    pub unpriced: i64,
    /// The sum of their durations, in milliseconds. Time of parallel requests counts twice.
    pub duration_ms: i64,
}

const ADD: &str = "insert into summarizer_spending (summarizer, model, requests, failures, input_tokens, output_tokens, \
     reasoning_tokens, cache_read_tokens, cache_write_tokens, cost_micros, unpriced, duration_ms) \
     values (?1, case when (select count(*) from summarizer_spending) < ?12 \
     or exists (select 1 from summarizer_spending where summarizer = ?1 and model = ?2) then ?2 else '' end, \
     1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
     on conflict (summarizer, model) do update set requests = summarizer_spending.requests + 1, failures = summarizer_spending.failures + excluded.failures, \
     input_tokens = summarizer_spending.input_tokens + excluded.input_tokens, output_tokens = summarizer_spending.output_tokens + excluded.output_tokens, \
     reasoning_tokens = summarizer_spending.reasoning_tokens + excluded.reasoning_tokens, \
     cache_read_tokens = summarizer_spending.cache_read_tokens + excluded.cache_read_tokens, \
     cache_write_tokens = summarizer_spending.cache_write_tokens + excluded.cache_write_tokens, \
     cost_micros = summarizer_spending.cost_micros + excluded.cost_micros, unpriced = summarizer_spending.unpriced + excluded.unpriced, \
     duration_ms = summarizer_spending.duration_ms + excluded.duration_ms";
pub(crate) const SPENT: &str = "select summarizer, model, requests, failures, input_tokens, output_tokens, \
     reasoning_tokens, cache_read_tokens, cache_write_tokens, cost_micros, unpriced, duration_ms from summarizer_spending \
     order by summarizer, model";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ADD, SPENT];

/// Counts a request, in the transaction that writes it to the request log.
pub(crate) fn add(conn: &Connection, request: &SummaryRequest) -> Result<()> {
    // A provider may report any number; figures are clamped so that their sums can be stored.
    let figure = |reported: i64| reported.clamp(0, limits::SPENDING_FIGURE_MAX);
    let usage = request.usage.unwrap_or_default();
    let model = &request.model[..request.model.floor_char_boundary(limits::SPENDING_MODEL_BYTES_MAX)];
    engine::query(ADD)
        .bind(&request.summarizer)
        .bind(model)
        .bind(i64::from(request.failure.is_some()))
        .bind(figure(usage.input))
        .bind(figure(usage.output))
        .bind(figure(usage.reasoning))
        .bind(figure(usage.cache_read))
        .bind(figure(usage.cache_write))
        .bind(figure(request.cost_micros.unwrap_or(0)))
        .bind(i64::from(request.cost_micros.is_none()))
        .bind(figure(request.duration_ms))
        .bind(limits::SPENDING_MODELS_MAX)
        .run(conn)?;
    Ok(())
}

/// Usage and cost, by summarizer and model. Reads a bounded number of rows, however many requests there were.
pub(crate) fn spent(reader: &mut Reader<'_>) -> Result<Vec<SummarizerSpending>> {
    let rows = reader.all(engine::query(SPENT))?;
    rows.iter()
        .map(|row| {
            Ok(SummarizerSpending {
                summarizer: row.get("summarizer")?,
                model: row.get("model")?,
                requests: row.get("requests")?,
                failures: row.get("failures")?,
                usage: Usage {
                    input: row.get("input_tokens")?,
                    output: row.get("output_tokens")?,
                    reasoning: row.get("reasoning_tokens")?,
                    cache_read: row.get("cache_read_tokens")?,
                    cache_write: row.get("cache_write_tokens")?,
                    total: None,
                    cost_usd: None,
                    cost_is_computed: false,
                },
                cost_micros: row.get("cost_micros")?,
                unpriced: row.get("unpriced")?,
                duration_ms: row.get("duration_ms")?,
            })
        })
        .collect()
}

//! `longhand compactions --requests`: lists a session's requests to models, with their costs.

use super::Globals;
use super::output::{Output, dollars, one_line};
use super::table::{Column, Table};
use super::times::Times;
use crate::pb;
use longhand_client::Client;

/// Requests listed per page.
const PAGE_SIZE: i32 = 200;

/// Prints a session's newest requests, newest first.
pub(super) async fn print(
    client: &Client,
    output: &mut Output,
    session_id: String,
    limit: usize,
) -> anyhow::Result<()> {
    let request = pb::ListSummaryRequestsRequest { session_id, page_size: PAGE_SIZE, ..Default::default() };
    let mut requests = Vec::new();
    let mut pages = client.pages(request);
    while let Some(page) = pages.next().await? {
        requests.extend(page.summary_requests);
        requests.truncate(limit);
        if requests.len() == limit {
            break;
        }
    }
    if output.json() {
        requests.iter().try_for_each(|request| output.message(request))?;
    } else {
        table(&requests, Globals::times(output)).print(output)?;
    }
    Ok(output.flush()?)
}

fn table(requests: &[pb::SummaryRequest], times: Times) -> Table {
    let mut table = Table::new(&[
        Column::word("ENDED"),
        Column::word("FOR").optional(1),
        Column::word("SUMMARIZER").optional(4),
        Column::text("MODEL"),
        Column::number("IN"),
        Column::number("OUT"),
        Column::number("COST"),
        Column::number("DURATION").optional(2),
        Column::text("RESULT"),
    ]);
    for request in requests {
        let branch = request.branch_message_id.as_ref().map(|message| format!("branch {message}"));
        let tokens = |of: fn(&pb::Usage) -> i64| {
            request.usage.as_ref().map_or_else(|| "-".to_owned(), |usage| of(usage).to_string())
        };
        let result = if request.failure.is_empty() { "a summary" } else { &request.failure };
        table.row(vec![
            times.text(request.end_time.as_ref()),
            request.compaction_id.clone().or(branch).unwrap_or_else(|| "-".to_owned()),
            request.summarizer.clone(),
            request.model.clone(),
            tokens(|usage| usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens),
            tokens(|usage| usage.output_tokens + usage.reasoning_tokens),
            request.cost_micro_usd.map_or_else(|| "?".to_owned(), dollars),
            format!("{}.{:03} s", request.duration_ms / 1_000, request.duration_ms % 1_000),
            one_line(result),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_purpose_of_its_request() {
        let usage = pb::Usage { input_tokens: 60, cache_read_tokens: 40, output_tokens: 20, ..pb::Usage::default() };
        let compaction = pb::SummaryRequest {
            compaction_id: Some("cmp_1".into()),
            usage: Some(usage),
            cost_micro_usd: Some(140),
            duration_ms: 1_005,
            ..pb::SummaryRequest::default()
        };
        let branch = pb::SummaryRequest {
            branch_message_id: Some("msg_1".into()),
            failure: "slow down".into(),
            ..pb::SummaryRequest::default()
        };
        let lines = table(&[compaction, branch], Times::Absolute).lines(None);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[1]), "- cmp_1 100 20 $0.0001 1.005 s a summary");
        assert_eq!(words(&lines[2]), "- branch msg_1 - - ? 0.000 s slow down");
    }
}

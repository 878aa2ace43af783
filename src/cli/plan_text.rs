//! Text form of compaction plans.

use super::event_text::compaction;
use super::output::{Output, count, dollars};
use super::view::range;
use crate::pb;

/// Prints the changes that a compaction would make, and the requests that a model would get.
pub(super) fn print(output: &mut Output, plan: &pb::CompactionPlan) -> anyhow::Result<()> {
    if output.json() {
        return output.message(plan);
    }
    for line in lines(plan) {
        output.line(&line)?;
    }
    for (at, request) in plan.requests.iter().enumerate() {
        let which = format!("request {} of {}", at + 1, plan.requests.len());
        for (part, text) in [("system", &request.system), ("user", &request.user)] {
            output.line("")?;
            output.line(&format!("--- {which}, {part} ---"))?;
            output.block(text)?;
        }
    }
    Ok(())
}

/// Lines of the plan, without the requests.
fn lines(plan: &pb::CompactionPlan) -> Vec<String> {
    let (about, has_summary) = if plan.covered_ranges.is_empty() { ("", false) } else { ("about ", true) };
    let mut lines = vec![format!(
        "{} of the view at revision {}: {} → {about}{}",
        compaction(plan.kind(), plan.level()),
        plan.base_revision,
        plan.estimated_tokens_before,
        count(plan.estimated_tokens_after, "token")
    )];
    if has_summary {
        let behind =
            plan.tail_start_message_id.as_ref().map_or("nothing".to_owned(), |id| format!("{id} and later messages"));
        lines.push(format!(
            "covers {}: revisions {}",
            count(plan.covered_count, "more message"),
            plan.covered_ranges.iter().map(range).collect::<Vec<_>>().join(", ")
        ));
        lines.push(format!("keeps {behind}, beside a summary of at most {}", count(plan.max_summary_tokens, "token")));
    }
    for (ids, why) in [(&plan.retained_message_ids, "retains"), (&plan.pinned_message_ids, "keeps as pinned")] {
        if !ids.is_empty() {
            lines.push(format!("{why} {}", ids.join(", ")));
        }
    }
    if plan.omitted_count > 0 {
        lines.push(format!(
            "omits {}: revisions {}",
            count(plan.omitted_count, "message"),
            plan.omitted_ranges.iter().map(range).collect::<Vec<_>>().join(", ")
        ));
    }
    if !plan.truncations.is_empty() {
        lines.push(format!("shortens {}:", count(plan.truncations.len() as i64, "part")));
        lines.extend(plan.truncations.iter().map(|truncation| {
            let (part, message) = (&truncation.part_id, &truncation.message_id);
            format!("  {part} of {message}: {} → {}", truncation.original_bytes, count(truncation.shown_bytes, "byte"))
        }));
    }
    lines.extend(requests_text(plan));
    lines
}

/// Summarizer of the plan, with the number, size and cost of its requests.
fn requests_text(plan: &pb::CompactionPlan) -> Option<String> {
    if plan.summarizer.is_empty() {
        return None;
    }
    if plan.requests.is_empty() {
        return Some(format!("written by {}, without a model", plan.summarizer));
    }
    let merged = if plan.chunked { ", and more to merge the answers" } else { "" };
    let cost = plan.cost_micro_usd.map_or(String::new(), |micros| format!(", about {}", dollars(micros)));
    let requests = count(plan.requests.len() as i64, "request");
    let tokens = count(plan.request_tokens, "token");
    Some(format!("written by {}: {requests} of {tokens} together{merged}{cost}", plan.summarizer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_lists_removed_and_kept_messages() {
        let mut plan = pb::CompactionPlan {
            kind: pb::CompactionKind::Summary.into(),
            level: pb::CompactionLevel::Auto.into(),
            base_revision: 9,
            estimated_tokens_before: 900,
            estimated_tokens_after: 400,
            covered_ranges: vec![pb::RevisionRange { first_revision: 1, last_revision: 6 }],
            covered_count: 5,
            tail_start_message_id: Some("msg_7".into()),
            max_summary_tokens: 100,
            summarizer: "fake".into(),
            requests: vec![pb::PlannedRequest::default()],
            request_tokens: 700,
            cost_micro_usd: Some(10_000),
            ..pb::CompactionPlan::default()
        };
        assert_eq!(
            lines(&plan),
            [
                "summary (auto) of the view at revision 9: 900 → about 400 tokens",
                "covers 5 more messages: revisions 1–6",
                "keeps msg_7 and later messages, beside a summary of at most 100 tokens",
                "written by fake: 1 request of 700 tokens together, about $0.01",
            ]
        );
        (plan.requests, plan.summarizer) = (Vec::new(), "extractive".into());
        assert_eq!(lines(&plan).last().map(String::as_str), Some("written by extractive, without a model"));
    }

    #[test]
    fn a_plan_without_a_summary_lists_the_parts() {
        let plan = pb::CompactionPlan {
            kind: pb::CompactionKind::Prune.into(),
            base_revision: 9,
            estimated_tokens_before: 900,
            estimated_tokens_after: 400,
            truncations: vec![pb::CompactionTruncation {
                message_id: "msg_2".into(),
                part_id: "prt_2".into(),
                original_bytes: 2_000,
                shown_bytes: 1,
            }],
            omitted_ranges: vec![pb::RevisionRange { first_revision: 3, last_revision: 4 }],
            omitted_count: 2,
            pinned_message_ids: vec!["msg_1".into()],
            ..pb::CompactionPlan::default()
        };
        assert_eq!(
            lines(&plan),
            [
                "prune of the view at revision 9: 900 → 400 tokens",
                "keeps as pinned msg_1",
                "omits 2 messages: revisions 3–4",
                "shortens 1 part:",
                "  prt_2 of msg_2: 2000 → 1 byte",
            ]
        );
    }
}

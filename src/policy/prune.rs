//! Which old tool outputs are cleared.

use super::tokens::estimate_text;
use super::turns::is_request;
use super::{Policy, Prune};
use crate::model::ids::PartId;
use crate::model::message::MessageKind;
use crate::model::part::{PartBody, ResultStatus, ToolResult};
use crate::model::view::SourceMessage;
use std::collections::HashMap;

/// What a prune would do. Empty when nothing is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrunePlan {
    /// The tool results whose outputs are cleared, newest first.
    pub parts: Vec<PartId>,
    /// What their outputs weigh, whole. A view that cuts long outputs gains less.
    pub freed_tokens: i64,
}

/// Walks from the newest output to the oldest, keeps what is protected, and collects the rest if that is worth it.
///
/// This is OpenCode's walk. It ends at the first output that was cleared before: what lies behind was judged then. It
/// also ends at the live summary, that is at everything written before it, the tail included, wherever the view puts
/// these messages. Only completed outputs are looked at, and attachments and inputs are not counted.
pub fn select(policy: &Policy, messages: &[SourceMessage]) -> PrunePlan {
    let Some(prune) = &policy.prune else {
        return PrunePlan::default();
    };
    let walk = walk(policy, prune, messages);
    if walk.freed_tokens > prune.minimum_tokens { walk } else { PrunePlan::default() }
}

fn walk(policy: &Policy, prune: &Prune, messages: &[SourceMessage]) -> PrunePlan {
    let tools = tools_by_call(messages);
    let summaries = messages.iter().filter(|source| source.message.kind == MessageKind::Summary);
    let summarized = summaries.map(|source| source.message.revision).max();
    let mut plan = PrunePlan::default();
    let mut seen_tokens = 0_i64;
    let mut turns = 0_u32;
    for source in messages.iter().rev() {
        if summarized.is_some_and(|summary| source.message.revision <= summary) {
            break;
        }
        turns += u32::from(is_request(&source.message));
        if turns < prune.protect_turns {
            continue;
        }
        for part in source.message.parts.iter().rev() {
            let Some(result) = completed(&part.body) else {
                continue;
            };
            let tool = tools.get(result.call_id.as_str());
            if tool.is_some_and(|tool| prune.protected_tools.iter().any(|name| name == tool)) {
                continue;
            }
            if source.pruned.iter().any(|(id, _)| *id == part.id) {
                return plan;
            }
            let tokens = estimate_text(&policy.counting, &result.output);
            seen_tokens = seen_tokens.saturating_add(tokens);
            if seen_tokens > prune.protect_tokens {
                plan.freed_tokens = plan.freed_tokens.saturating_add(tokens);
                plan.parts.push(part.id);
            }
        }
    }
    plan
}

fn completed(body: &PartBody) -> Option<&ToolResult> {
    match body {
        PartBody::ToolResult(result) if result.status == ResultStatus::Completed => Some(result),
        _ => None,
    }
}

fn tools_by_call(messages: &[SourceMessage]) -> HashMap<&str, &str> {
    let bodies = messages.iter().flat_map(|source| &source.message.parts).map(|part| &part.body);
    bodies
        .filter_map(|body| match body {
            PartBody::ToolCall(call) => Some((call.call_id.as_str(), call.tool.as_str())),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;

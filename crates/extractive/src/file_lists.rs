//! Lists of the files that a history touched, after the text of its summary.

use super::compose::Budget;
use super::text::{clean, one_line};
use longhand_core::policy::files::{self, FileOperations};
use longhand_core::policy::summary::SummaryInput;
use longhand_model::part::PartBody;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Share of the budget that the file lists may take, in percent.
const SHARE: usize = 25;

/// Maximum size of the lists, in tokens.
pub(super) fn most_tokens(input: &SummaryInput) -> i64 {
    if input.rules.file_lists.is_some() { input.budget_tokens.saturating_mul(SHARE as i64) / 100 } else { 0 }
}

/// The file lists that follow the text, if the policy has some: modified files before read ones, newer first.
pub(super) fn file_lists(input: &SummaryInput) -> String {
    let Some(tools) = input.rules.file_lists else { return String::new() };
    let budget = Budget::new(&input.counting, input.budget_tokens);
    let mut operations = FileOperations::default();
    let mut newest: HashMap<String, usize> = HashMap::new();
    if let Some(previous) = input.previous.as_ref().filter(|_| !input.previous_is_supplied) {
        let (read, modified) = files::parse_tags(previous);
        operations.inherit(read, modified);
    }
    for (at, source) in input.messages.iter().chain(&input.split_turn).enumerate() {
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &*part.body
                && let Some((_, path)) = files::operation(tools, call)
            {
                operations.add(tools, call);
                newest.insert(path, at + 1);
            }
        }
    }
    let (mut read, mut modified) = operations.lists();
    let frame = budget.measure(&files::tags(&[String::new()], &[String::new()]));
    let mut left = (budget.units * SHARE / 100).saturating_sub(frame);
    for paths in [&mut modified, &mut read] {
        let mut order: Vec<&String> = paths.iter().filter(|path| is_plain(path)).collect();
        order.sort_by_key(|path| Reverse(newest.get(*path).copied().unwrap_or(0)));
        let mut kept: HashSet<String> = HashSet::new();
        for path in order {
            let cost = budget.measure(path) + 1;
            if cost > left {
                break;
            }
            left -= cost;
            kept.insert(path.clone());
        }
        paths.retain(|path| kept.contains(path));
    }
    files::tags(&read, &modified)
}

/// True if a path in a list of lines between tags can be taken neither for a tag nor for two paths.
fn is_plain(path: &str) -> bool {
    one_line(&clean(path)) == path && !path.contains(['<', '>'])
}

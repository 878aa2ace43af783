//! The ranges that the compactions of an imported conversation cover.

use super::transcript::{Branch, Entry, Problem};

/// Sets the first and last messages of every compaction's range.
///
/// Before this, a compaction names the first entry that the agent kept, of any kind, and no end of its range. A
/// compaction with no message before the kept entries covers nothing and becomes a record.
pub(super) fn finish_branches(branches: &mut [Branch], problems: &mut Vec<Problem>) {
    for branch in 0..branches.len() {
        for index in 0..branches[branch].entries.len() {
            let Entry::Compaction(compaction) = &branches[branch].entries[index] else { continue };
            let mut compaction = compaction.clone();
            let before = ancestors(branches, branch, index);
            let tail = compaction.first_kept_client_id.take();
            let position = tail.as_ref().map(|tail| before.iter().position(|entry| entry.client_id() == *tail));
            let start = position.flatten().unwrap_or(before.len());
            if position == Some(None) {
                let message = "what the compaction kept does not stand before it: it is taken to keep nothing".into();
                problems.push(Problem { line: compaction.line, message });
            }
            let message_id =
                |entry: &&Entry| matches!(entry, Entry::Message { .. }).then(|| entry.client_id().to_owned());
            compaction.first_kept_client_id = before[start..].iter().find_map(message_id);
            let covered = before[..start].iter().rev().find_map(message_id);
            let line = compaction.line;
            let entry = match covered {
                Some(covered) => {
                    compaction.covers_until_client_id = covered;
                    Entry::Compaction(compaction)
                }
                None => {
                    let message = "the compaction has no message before what it kept: it stays as a record".into();
                    problems.push(Problem { line, message });
                    Entry::Record { line, message: compaction.record }
                }
            };
            branches[branch].entries[index] = entry;
        }
    }
}

/// The entries before an entry, in its branch and in the branches that it leaves.
fn ancestors(branches: &[Branch], branch: usize, end: usize) -> Vec<&Entry> {
    let mut before = Vec::new();
    let (mut branch, mut end) = (&branches[branch], end);
    loop {
        before.extend(branch.entries[..end].iter().rev());
        let Some(shared) = &branch.fork_after else { break };
        branch = &branches[branch.from];
        end = branch.entries.iter().position(|entry| entry.client_id() == shared).map_or(0, |position| position + 1);
    }
    before.reverse();
    before
}

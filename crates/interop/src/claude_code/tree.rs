//! Abandoned branches of a Claude Code transcript.
//!
//! When a person edits a prompt, the new one gets the same parent as the old one, and the conversation continues after
//! it. So of several prompts that follow the same message, the one that leads to the current position of the
//! conversation was kept, and the others start abandoned branches. If none leads there, the tree branches for another
//! reason, and nothing was abandoned.

use super::row::Row;
use std::collections::HashMap;

/// An abandoned branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fork {
    /// Its number; the main branch is 0.
    pub(super) branch: usize,
    /// The branch that it leaves.
    pub(super) from: usize,
    /// Index of the first line that the two do not share.
    pub(super) leaves_at: usize,
}

/// The lines of a conversation, sorted into branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    /// The branch of each line.
    pub(super) branch_of: Vec<usize>,
    /// The branches without the main one, in the order of their numbers.
    pub(super) forks: Vec<Fork>,
}

/// The message that a prompt follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Predecessor {
    Line(usize),
    /// None: the prompt is the first message of its chain.
    Nothing,
}

impl Tree {
    /// Sorts lines into branches.
    pub(super) fn grow(rows: &[Row<'_>]) -> Self {
        let parents = parents(rows);
        let latest = latest(rows, &parents);
        // A reply always has a parent, so that parents are missing where one has none: then prompts without one are no
        // edits of each other.
        let answers = |row: &Row<'_>| row.talks && !row.prompts && !row.queued && !row.meta && !row.summary;
        let chained =
            parents.iter().any(Option::is_some) && !rows.iter().any(|row| answers(row) && row.parent.is_none());
        let mut rivals: HashMap<Predecessor, Vec<usize>> = HashMap::new();
        for index in (0..rows.len()).filter(|index| rows[*index].prompts) {
            if let Some(before) =
                before(rows, &parents, index).filter(|before| chained || *before != Predecessor::Nothing)
            {
                rivals.entry(before).or_default().push(index);
            }
        }
        rivals.retain(|_, prompts| prompts.len() > 1);
        let groups = rivals.iter().flat_map(|(before, prompts)| prompts.iter().map(|prompt| (*prompt, *before)));
        let group_of: HashMap<usize, Predecessor> = groups.collect();
        let mut tree = Self { branch_of: Vec::with_capacity(rows.len()), forks: Vec::new() };
        // The current position of each branch.
        let mut tips = vec![rows.iter().rposition(|row| row.talks)];
        for index in 0..rows.len() {
            // A line without a position in the tree belongs to the main branch.
            let from = parents[index].map_or(0, |parent| tree.branch_of[parent]);
            let group = group_of.get(&index);
            let kept = group.and_then(|group| leading(*group, &group_of, &parents, tips[from]));
            let Some(group) = group.filter(|_| kept.is_some_and(|kept| kept != index)) else {
                tree.branch_of.push(from);
                continue;
            };
            let branch = tips.len();
            tree.forks.push(Fork { branch, from, leaves_at: rivals[group][0] });
            tips.push(Some(latest[index]));
            tree.branch_of.push(branch);
        }
        tree
    }

    /// The line with the summary of a boundary: the next message of the conversation on its branch.
    pub(super) fn summary_of(&self, rows: &[Row<'_>], boundary: usize) -> Option<usize> {
        let branch = self.branch_of[boundary];
        let next = (boundary + 1..rows.len())
            .find(|index| self.branch_of[*index] == branch && (rows[*index].talks || rows[*index].boundary));
        next.filter(|index| rows[*index].summary)
    }
}

/// The line that each line follows. A named parent that is not before the line does not count.
fn parents(rows: &[Row<'_>]) -> Vec<Option<usize>> {
    let mut by_uuid: HashMap<&str, usize> = HashMap::new();
    let mut parents = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        parents.push(row.parent.as_deref().and_then(|parent| by_uuid.get(parent)).copied());
        if let Some(uuid) = &row.uuid {
            by_uuid.entry(uuid).or_insert(index);
        }
    }
    parents
}

/// The last message of the conversation that follows each line, or the line itself.
fn latest(rows: &[Row<'_>], parents: &[Option<usize>]) -> Vec<usize> {
    let mut latest: Vec<usize> = (0..rows.len()).collect();
    for index in (0..rows.len()).rev() {
        if let Some(parent) = parents[index].filter(|_| rows[index].talks || latest[index] > index) {
            latest[parent] = latest[parent].max(latest[index]);
        }
    }
    latest
}

/// The message or boundary that a prompt follows, skipping hooks and progress; none if the chain to it is broken.
fn before(rows: &[Row<'_>], parents: &[Option<usize>], prompt: usize) -> Option<Predecessor> {
    let mut index = prompt;
    loop {
        match parents[index] {
            Some(parent) if rows[parent].talks || rows[parent].boundary => return Some(Predecessor::Line(parent)),
            Some(parent) => index = parent,
            None => return rows[index].parent.is_none().then_some(Predecessor::Nothing),
        }
    }
}

/// The prompt of a group that leads to the current position of a branch.
fn leading(
    group: Predecessor,
    group_of: &HashMap<usize, Predecessor>,
    parents: &[Option<usize>],
    tip: Option<usize>,
) -> Option<usize> {
    let mut next = tip;
    while let Some(index) = next {
        if group_of.get(&index) == Some(&group) {
            return Some(index);
        }
        next = parents[index];
    }
    None
}

//! Context edits: a later entry replaces an earlier one in the model's context, or omits it. pi makes one at the
//! request of an extension, and to hide a reply that failed because the context was too large.

use super::{Content, Reader, outputs};
use crate::content;
use crate::draft::MessageDraft;
use crate::name_index::{Line, NameIndex};
use crate::raw::Object;
use crate::{Entry, Format};
use longhand_model::message::{NewMessage, Role};
use longhand_model::part::{NewPart, PartBody};

/// Position of an edit's target, relative to the edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EditTarget {
    /// On the edit's path through the conversation, visible in pi's context.
    Shown,
    /// On the path, but covered by the newest compaction.
    Covered,
    /// On another path.
    Elsewhere,
}

impl Reader {
    /// An edit of an earlier entry. An edit that pi would refuse, or that has no visible effect, becomes a record.
    pub(super) fn edit<'a>(&mut self, line: &'a Line, entry: &Object<'a>, parent: Option<usize>) -> Content<'a> {
        match self.target_and_parts(line, entry, parent) {
            Ok((target, parts)) => Content::Edit { target, parts },
            Err(problem) => {
                self.names.report(line, format!("{problem}: the edit stays as a record"));
                Content::Record("context_edit".to_owned())
            }
        }
    }

    fn target_and_parts<'a>(
        &mut self,
        line: &'a Line,
        entry: &Object<'a>,
        parent: Option<usize>,
    ) -> Result<(String, Vec<NewPart>), String> {
        let named = entry.id("targetId").ok_or("the context edit names no target")?;
        let node = self.by_id.get(&named).copied();
        let node = node.ok_or_else(|| format!("the target {named} stands nowhere before it"))?;
        let target = match self.nodes[node].entries.first() {
            Some(Entry::Message { message, .. }) if self.nodes[node].editable => message.clone(),
            Some(_) | None => return Err(format!("the target {named} is nothing that pi lets anybody edit")),
        };
        match self.find(node, parent) {
            EditTarget::Shown => {}
            EditTarget::Covered => return Err(format!("the target {named} stands under a compaction")),
            EditTarget::Elsewhere => return Err(format!("the target {named} is not on the branch of the edit")),
        }
        let parts = match (entry.object("replacement"), entry.get("replacement")) {
            (Some(replacement), _) => self.replacement(line, &replacement, &target)?,
            (None, Some(_)) => return Err("the replacement is neither null nor an object".to_owned()),
            (None, None) if entry.members().any(|(name, _)| name == "replacement") => Vec::new(),
            (None, None) => return Err("the context edit has no replacement".to_owned()),
        };
        Ok((target.client_id.unwrap_or_default(), parts))
    }

    /// Searches for the target on the path from an entry's parent to the root.
    fn find(&self, target: usize, parent: Option<usize>) -> EditTarget {
        let mut at = parent;
        // The first entry kept by the newest compaction; the inner value is none if it kept nothing.
        let mut newest: Option<Option<&str>> = None;
        let mut found = EditTarget::Shown;
        while let Some(node) = at {
            if node == target {
                return found;
            }
            let here = &self.nodes[node];
            let entry = here.entries.first();
            if let (Some(Entry::Compaction(compaction)), None) = (entry, newest) {
                newest = Some(compaction.first_kept_client_id.as_deref());
            }
            let keeps_no_more = newest.is_some_and(|kept| kept.is_none() || kept == entry.map(Entry::client_id));
            if keeps_no_more {
                found = EditTarget::Covered;
            }
            at = here.parent;
        }
        EditTarget::Elsewhere
    }

    /// The parts that replace those of the target; the target's role and call id stay.
    fn replacement<'a>(
        &mut self,
        line: &'a Line,
        replacement: &Object<'a>,
        target: &NewMessage,
    ) -> Result<Vec<NewPart>, String> {
        let mut draft = MessageDraft::new(Format::Pi, self.metadata_bytes, target.role, line);
        let answered = target.parts.iter().find_map(|part| match &*part.body {
            PartBody::ToolResult(result) if target.role == Role::Tool => Some(result),
            _ => None,
        });
        match answered {
            Some(result) => {
                let value = replacement.get("content").ok_or("the replacement has no content")?;
                content::result(&mut draft, result.call_id.clone(), result.status, outputs(value)?);
            }
            None => {
                let provider = if target.provider.is_empty() { "pi" } else { &target.provider };
                // Calls that stay have the ids of the target's calls.
                self.blocks(&mut draft, replacement, "/replacement/content", provider, NameIndex::answered)?;
            }
        }
        Ok(draft.parts)
    }
}

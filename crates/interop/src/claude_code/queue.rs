//! Prompts that a person typed while a call ran.
//!
//! A prompt waits in a queue, of which each change is a row. It leaves the queue for a row with the user's role
//! (`dequeue`), for an attachment or, in older versions, for nothing that the file has (`remove`), or for the editor
//! (`popAll`).

use super::row::Row;
use crate::name_index::Line;
use crate::raw::Object;
use longhand_core::model::harness::{command, is_notice};
use std::collections::VecDeque;

/// The reason of a removal by which a model read the prompt, where a row has one.
const ABSORBED: &str = "absorbed_mid_turn";

/// A prompt in the row that put it into the queue.
pub(super) struct Prompt<'a> {
    pub(super) line: &'a Line,
    pub(super) object: Object<'a>,
    pub(super) text: String,
}

/// The queue as far as the rows were read.
#[derive(Default)]
pub(super) struct Queue<'a> {
    waiting: VecDeque<Prompt<'a>>,
    /// Prompts that were removed, and are in no other row so far.
    removed: VecDeque<Prompt<'a>>,
}

impl<'a> Queue<'a> {
    /// Reads a row of any kind.
    pub(super) fn read(&mut self, row: &Row<'a>) {
        let Some(object) = &row.object else { return };
        if row.queued {
            let prompt = object.object("attachment").map(|attachment| attachment.string("prompt")).unwrap_or_default();
            take(&mut self.removed, &prompt);
            return;
        }
        if row.kind != "queue-operation" {
            // Notices leave the queue without a row of their own.
            if let Some(text) =
                object.object("message").filter(|_| row.prompts).and_then(|message| message.id("content"))
            {
                self.waiting.retain(|prompt| prompt.text != text);
                self.removed.retain(|prompt| prompt.text != text);
            }
            return;
        }
        let text = object.string("content");
        match object.string("operation").as_str() {
            "enqueue" => self.waiting.push_back(Prompt { line: row.line, object: object.clone(), text }),
            "dequeue" => drop(take(&mut self.waiting, &text)),
            "remove" => {
                let is_read = object.id("reason").is_none_or(|reason| reason == ABSORBED);
                self.removed.extend(take(&mut self.waiting, &text).filter(|_| is_read));
            }
            "popAll" => self.waiting.clear(),
            _ => {}
        }
    }

    /// The prompts that were removed and that no other row has, once a model replies: it read them.
    pub(super) fn absorbed(&mut self) -> impl Iterator<Item = Prompt<'a>> {
        std::mem::take(&mut self.removed).into_iter().filter(|prompt| {
            let text = prompt.text.trim();
            // Commands of the agent are no words for a model.
            !text.is_empty() && !text.contains('\0') && !is_notice(text) && command(text).is_none()
        })
    }
}

/// Takes the prompt with a text out of a queue. If none has it, it is the first one that a person typed: notices wait
/// until those are gone.
fn take<'a>(prompts: &mut VecDeque<Prompt<'a>>, text: &str) -> Option<Prompt<'a>> {
    let named = prompts.iter().position(|prompt| prompt.text == text);
    let typed = || prompts.iter().position(|prompt| !is_notice(&prompt.text));
    let at = named.or_else(typed).unwrap_or(0);
    prompts.remove(at)
}

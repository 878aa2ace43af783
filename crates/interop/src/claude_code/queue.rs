//! Prompts that a person typed while a call ran.
//!
//! A prompt waits in a queue, of which each change is a row. It leaves the queue for a row with the user's role
//! (`dequeue`), for an attachment or, in older versions, for nothing that the file has (`remove`), or for the editor
//! (`popAll`).

use super::row::Row;
use crate::name_index::Line;
use crate::raw::{self, Object};
use longhand_model::harness::{command, is_notice};
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
    /// Prompts that left it for a row of their own, which comes behind.
    dequeued: VecDeque<Prompt<'a>>,
    /// Prompts that were removed, and are in no other row so far.
    removed: VecDeque<Prompt<'a>>,
}

impl<'a> Queue<'a> {
    /// Reads a row of any kind.
    pub(super) fn read(&mut self, row: &Row<'a>) {
        let Some(object) = &row.object else { return };
        if row.kind != "queue-operation" {
            // Notices, and what an attachment has, leave the queue without a row that says so.
            for text in own_texts(row, object) {
                let queues = [&mut self.dequeued, &mut self.removed, &mut self.waiting];
                if queues.into_iter().any(|queue| take_equal(queue, &text).is_some()) {
                    break;
                }
            }
            return;
        }
        let text = object.string("content");
        match object.string("operation").as_str() {
            "enqueue" => self.waiting.push_back(Prompt { line: row.line, object: object.clone(), text }),
            "dequeue" => self.dequeued.extend(take_prompt(&mut self.waiting, &text)),
            "remove" => {
                let is_read = object.id("reason").is_none_or(|reason| reason == ABSORBED);
                self.removed.extend(take_prompt(&mut self.waiting, &text).filter(|_| is_read));
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

/// What a row has that may have been in the queue: its text, or one of its blocks beside what the agent adds.
fn own_texts(row: &Row<'_>, object: &Object<'_>) -> Vec<String> {
    let (holder, content) = if row.queued { ("attachment", "prompt") } else { ("message", "content") };
    let Some(holder) = object.object(holder).filter(|_| row.queued || row.prompts) else { return Vec::new() };
    if let Some(text) = holder.text(content) {
        return vec![text.text];
    }
    let blocks = holder.list(content).unwrap_or_default();
    let texts: Vec<String> = blocks.into_iter().filter_map(raw::object).filter_map(|block| block.id("text")).collect();
    [vec![texts.join("\n")], texts].concat()
}

fn take_equal<'a>(prompts: &mut VecDeque<Prompt<'a>>, text: &str) -> Option<Prompt<'a>> {
    prompts.remove(prompts.iter().position(|prompt| prompt.text == text)?)
}

/// Takes the prompt with a text out of a queue. Where no text says which, it is the first one that a person typed: notices
/// wait until those are gone.
fn take_prompt<'a>(prompts: &mut VecDeque<Prompt<'a>>, text: &str) -> Option<Prompt<'a>> {
    if !text.is_empty() {
        return take_equal(prompts, text);
    }
    prompts.remove(prompts.iter().position(|prompt| !is_notice(&prompt.text)).unwrap_or(0))
}

// What undo and redo would change, from the events of a session. Pure.
import type { EventJson } from '../gen/longhand/v1/event_pb';
import { num } from '../lib/format';

export interface Reversals {
  /** The change that an undo takes back, in words; none if nothing is active. */
  undo: string;
  /** The change that a redo brings back. */
  redo: string;
}

interface Change {
  id: string;
  name: string;
}

/** The changes are named by their compaction, or by the revision of their mark. */
export function reversals(events: EventJson[]): Reversals {
  let active: Change[] = [];
  let undone: Change[] = [];
  const moved = (id: string, from: Change[]): Change[] => from.filter((change) => change.id === id);
  for (const event of events) {
    const revision = num(event.revision);
    const made = event.compacted
      ? { id: event.compacted.compactionId ?? '', name: `${event.compacted.kind === 'COMPACTION_KIND_PRUNE' ? 'prune' : 'compaction'} of r${revision}` }
      : event.sessionRewound
        ? { id: `r${revision}`, name: `rewind of r${revision}` }
        : event.messageEdited
          ? { id: `r${revision}`, name: `edit of r${revision}` }
          : event.wordsMarked
            ? { id: `r${revision}`, name: `words of r${revision}` }
            : null;
    if (made) {
      active.push(made);
      // A change that is made on the view after an undo overtakes the redo.
      undone = [];
      continue;
    }
    const rewrite = event.rewriteUndone?.rewrite ?? event.rewriteRedone?.rewrite;
    const id = event.compactionUndone?.compactionId ?? event.compactionRedone?.compactionId ?? (rewrite ? `r${num(rewrite.markRevision)}` : '');
    if (event.compactionUndone || event.rewriteUndone) {
      undone.push(...moved(id, active));
      active = active.filter((change) => change.id !== id);
    } else if (event.compactionRedone || event.rewriteRedone) {
      active.push(...moved(id, undone));
      undone = undone.filter((change) => change.id !== id);
    }
  }
  return { undo: active.at(-1)?.name ?? '', redo: undone.at(-1)?.name ?? '' };
}

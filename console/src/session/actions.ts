// What a person does in a session.
import type { MessageJson, PartJson } from '../gen/longhand/v1/message_pb';
import { patch, post, requestId, sessionPath } from '../lib/api';
import { inertLine } from '../lib/inert';
import { session as login } from '../lib/login.svelte';
import { router, toSession } from '../lib/router.svelte';
import type { SessionModel } from './model.svelte';

/** What is said after an action; with a way back, or on. */
export interface Notice {
  text: string;
  failed?: boolean;
  action?: { label: string; run: () => Promise<Notice | void> };
}

const path = (model: SessionModel, message: MessageJson, verb: string) => `${sessionPath(model.id)}/messages/${message.messageId}:${verb}`;

export async function undo(model: SessionModel): Promise<Notice> {
  const answer = await post<{ change?: { rewrite?: unknown } }>(`${sessionPath(model.id)}:undo`, { request_id: requestId() });
  return { text: answer.change?.rewrite ? 'The newest rewind, edit or mark of words is undone.' : 'The newest compaction is undone.', action: { label: 'Redo', run: () => redo(model) } };
}

export async function redo(model: SessionModel): Promise<Notice> {
  await post(`${sessionPath(model.id)}:redo`, { request_id: requestId() });
  return { text: 'Redone.', action: { label: 'Undo', run: () => undo(model) } };
}

/** A change with its way back; whoever may not undo is asked before it is made. */
async function reversible(model: SessionModel, question: string, words: string, change: () => Promise<unknown>): Promise<Notice> {
  const made = async (): Promise<Notice> => {
    await change();
    return login.can('compact') ? { text: words, action: { label: 'Undo', run: () => undo(model) } } : { text: words };
  };
  if (login.can('compact')) return made();
  return { text: `${question} Nobody with your scopes can undo it.`, action: { label: 'Do it', run: made } };
}

export async function pin(model: SessionModel, message: MessageJson): Promise<Notice> {
  const unpin = message.status?.pinned ?? false;
  await post(path(model, message, 'pin'), { unpin, request_id: requestId() });
  return { text: unpin ? 'The pin is removed.' : 'Pinned: every view shows it verbatim.' };
}

/** Asks first: a session that was made by one key stays. */
export async function fork(model: SessionModel, message: MessageJson): Promise<Notice> {
  // Characters, of which none has more than four bytes: a title has 512.
  const title = `${[...(model.session?.title || 'Untitled')].slice(0, 110).join('')} (fork at r${message.revision})`;
  const make = async () => {
    const made = await post<{ session: { sessionId: string } }>(`${sessionPath(model.id)}:fork`, { message_id: message.messageId, title });
    router.go(toSession(made.session.sessionId));
  };
  return { text: `A session of its own goes on after r${message.revision}, and this one stays as it is.`, action: { label: 'Fork', run: make } };
}

export const rewind = (model: SessionModel, message: MessageJson): Promise<Notice> =>
  reversible(model, 'Rewind to this message?', `Rewound to r${message.revision}: later messages are out of the conversation.`, () =>
    post(`${sessionPath(model.id)}:rewind`, { message_id: message.messageId, request_id: requestId() }),
  );

/** Replaces a message's texts by one; its other parts stay. An empty text removes the message from views. */
export function edit(model: SessionModel, message: MessageJson, text: string): Promise<Notice> {
  if (!text.trim()) {
    return reversible(model, 'Remove the message from views?', 'Removed from views.', () => post(path(model, message, 'edit'), { remove: true, request_id: requestId() }));
  }
  const others = (message.parts ?? []).filter((part) => !part.text).map(({ partId: _id, revision: _revision, clientId: _client, ...part }): PartJson => part);
  return reversible(model, 'Replace the message in views?', 'Edited: views show the new text.', () => post(path(model, message, 'edit'), { parts: [{ text: { text } }, ...others], request_id: requestId() }));
}

export async function rename(model: SessionModel, title: string): Promise<Notice> {
  await patch(sessionPath(model.id), { title, request_id: requestId() });
  return { text: `Renamed to “${inertLine(title, 80)}”.` };
}

export async function archive(model: SessionModel, restore: boolean): Promise<Notice> {
  await post(`${sessionPath(model.id)}:archive`, { restore, request_id: requestId() });
  const other = { label: restore ? 'Archive' : 'Restore', run: () => archive(model, !restore) };
  return { text: restore ? 'Restored.' : 'Archived: it can be read, and not written.', action: other };
}

export async function stop(model: SessionModel): Promise<Notice | void> {
  const run = model.work.run;
  if (!run || run.end || run.cancelRevision) return { text: 'No run is there to stop.' };
  await post(`${sessionPath(model.id)}/runs:cancel`, { epoch: run.epoch, request_id: requestId() });
}

export const textOf = (message: MessageJson) => (message.parts ?? []).filter((part) => part.text).map((part) => part.text?.text ?? '').join('\n\n');

// What a person does with a message.
import type { MessageJson, PartJson } from '../gen/longhand/v1/message_pb';
import { post, requestId, sessionPath } from '../lib/api';
import { router, toSession } from '../lib/router.svelte';
import type { SessionModel } from './model.svelte';

const path = (model: SessionModel, message: MessageJson, verb: string) => `${sessionPath(model.id)}/messages/${message.messageId}:${verb}`;

export async function pin(model: SessionModel, message: MessageJson): Promise<string> {
  const unpin = message.status?.pinned ?? false;
  await post(path(model, message, 'pin'), { unpin, request_id: requestId() });
  return unpin ? 'The pin is removed.' : 'Pinned: every view shows it verbatim.';
}

export async function fork(model: SessionModel, message: MessageJson): Promise<void> {
  const made = await post<{ session: { sessionId: string } }>(`${sessionPath(model.id)}:fork`, { message_id: message.messageId });
  router.go(toSession(made.session.sessionId));
}

export async function rewind(model: SessionModel, message: MessageJson): Promise<string> {
  await post(`${sessionPath(model.id)}:rewind`, { message_id: message.messageId, request_id: requestId() });
  return 'Rewound: later messages are out of the conversation. Undo takes it back.';
}

/** Replaces a message's texts by one; its other parts stay. An empty text removes the message from views. */
export async function edit(model: SessionModel, message: MessageJson, text: string): Promise<string> {
  if (!text.trim()) {
    await post(path(model, message, 'edit'), { remove: true, request_id: requestId() });
    return 'Removed from views. Undo takes it back.';
  }
  const others = (message.parts ?? []).filter((part) => !part.text).map(({ partId: _id, revision: _revision, clientId: _client, ...part }): PartJson => part);
  await post(path(model, message, 'edit'), { parts: [{ text: { text } }, ...others], request_id: requestId() });
  return 'Edited: views show the new text. Undo takes it back.';
}

export const textOf = (message: MessageJson) => (message.parts ?? []).filter((part) => part.text).map((part) => part.text?.text ?? '').join('\n\n');

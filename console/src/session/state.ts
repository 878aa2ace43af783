// A session at one revision: its history, its view, and what both need to be rows. Pure: a state follows from the one
// before, the events that came, and the view after them.
import type { ViewEndJson, ViewHeaderJson, ViewMessageJson } from '../gen/longhand/v1/view_pb';
import type { EventJson } from '../gen/longhand/v1/event_pb';
import type { ListMessagesResponseJson, MessageJson } from '../gen/longhand/v1/message_pb';
import type { GetRunResponseJson } from '../gen/longhand/v1/run_pb';
import { num } from '../lib/format';

export interface View {
  revision: number;
  header: ViewHeaderJson;
  messages: ViewMessageJson[];
  end: ViewEndJson;
}

export interface SessionState {
  /** The revision of all of it. */
  revision: number;
  /** The newest messages, oldest first, as they were read: some may have parts of later revisions, which `asOf` leaves out. */
  messages: MessageJson[];
  /** Token of the page before them; empty if they are all. */
  olderToken: string;
  view: View;
  /** The replacements of edited messages, by their originals. */
  replacements: Map<string, string>;
  /** The revision at which the present run began; infinite if the newest run has ended, none if no run is known. */
  runFrom: number | null;
}

/** The oldest messages, where those between them and the newest are not here. */
export interface Beginning {
  messages: MessageJson[];
  newerToken: string;
}

/** The frames of `GetView`, as an array of JSON. */
export type ViewFrame = { header?: ViewHeaderJson; messages?: { messages?: ViewMessageJson[] }; end?: ViewEndJson };

/** The view of an answer; where the answer names a beginning that is known, it is the one that is held. */
export function viewOf(frames: ViewFrame[], held: View | null): View {
  const header = frames.find((frame) => frame.header)?.header ?? {};
  const messages = frames.flatMap((frame) => frame.messages?.messages ?? []);
  const end = frames.find((frame) => frame.end)?.end ?? {};
  return { revision: num(header.revision), header, messages: [...(held?.messages.slice(0, num(header.knownMessageCount)) ?? []), ...messages], end };
}

/** What of a message was there at a revision. */
export function asOf(message: MessageJson, revision: number): MessageJson {
  if (message.sealedRevision && num(message.sealedRevision) <= revision) return message;
  const parts = (message.parts ?? []).filter((part) => num(part.revision) <= revision);
  if (!message.sealedRevision && parts.length === (message.parts ?? []).length) return message;
  const { sealedRevision: _sealed, finish: _finish, ...rest } = message;
  return { ...rest, parts };
}

function replaced(before: Map<string, string>, messages: MessageJson[]): Map<string, string> {
  const after = new Map(before);
  for (const { messageId = '', status } of messages) {
    if (status?.state === 'MESSAGE_STATE_EDITED' && status.byMessageId) after.set(messageId, status.byMessageId);
    else if (status) after.delete(messageId);
  }
  return after;
}

/** The state after its parts were read, of which the page may be older or newer than the view. */
export function begun(newestFirst: ListMessagesResponseJson, view: View, work: GetRunResponseJson): SessionState {
  const messages = [...(newestFirst.messages ?? [])].reverse();
  const runFrom = !work.run ? null : work.run.end ? Infinity : num(work.run.startRevision);
  return { revision: view.revision, messages, olderToken: newestFirst.nextPageToken ?? '', view, replacements: replaced(new Map(), messages), runFrom };
}

/** The state with the page before its messages. */
export function withOlder(state: SessionState, newestFirst: ListMessagesResponseJson): SessionState {
  const known = new Set(state.messages.map((message) => message.messageId));
  const before = [...(newestFirst.messages ?? [])].reverse().filter((message) => !known.has(message.messageId));
  return { ...state, messages: [...before, ...state.messages], olderToken: newestFirst.nextPageToken ?? '', replacements: replaced(state.replacements, before) };
}

const BESIDE_VIEW = /^EVENT_KIND_(LABEL_|WORDS_MARKED|APPROVAL_|PROMPT_(SUBMITTED|MOVED|WITHDRAWN)|SESSION_(ARCHIVED|RESTORED|FORKED)|RUN_(STARTED|CANCEL_REQUESTED)|COMPACTION_(STARTED|PROPOSED|RETRIED))/;

/** Whether the view after the event may be another one. */
export const changesView = (event: EventJson) => !BESIDE_VIEW.test(event.kind ?? '');

/** Whether the statuses of messages have to be read again: what a rewind, an edit and a pin change in messages is the daemon's to say. */
export const changesStatuses = (event: EventJson) => !!(event.sessionRewound ?? event.messageEdited ?? event.messagePinned ?? event.messageUnpinned ?? event.rewriteUndone ?? event.rewriteRedone);

function put(messages: MessageJson[], message: MessageJson, hasOlder: boolean): void {
  if (message.origin === 'ORIGIN_DERIVED' && message.kind !== 'MESSAGE_KIND_BRANCH_SUMMARY') return;
  const revision = num(message.revision);
  let place = messages.length;
  while (place > 0 && num(messages[place - 1]?.revision) > revision) place -= 1;
  const held = messages[place - 1];
  // An event has no status.
  if (held && num(held.revision) === revision) messages[place - 1] = { ...message, status: message.status ?? held.status };
  else if (place > 0 || !hasOlder) messages.splice(place, 0, message);
}

const withStatusesOf = (messages: MessageJson[], read: MessageJson[]): MessageJson[] => {
  const statuses = new Map(read.map(({ messageId, status }) => [messageId, status]));
  return messages.map((message) => ({ ...message, status: statuses.get(message.messageId) ?? message.status }));
};

/** The oldest messages after events. */
export function withEvents({ messages, newerToken }: Beginning, events: EventJson[], withStatuses: MessageJson[]): Beginning {
  const read = new Map(events.map(({ message }) => [message?.messageId, message]));
  const after = messages.map((message) => ({ ...message, ...read.get(message.messageId), status: message.status }));
  return { messages: withStatusesOf(after, withStatuses), newerToken };
}

/** The state after events, in their order; with the view after the last one if any changes it, and with messages that have their
 *  statuses then if any changes those. */
export function advanced(state: SessionState, events: EventJson[], view = state.view, withStatuses: MessageJson[] = []): SessionState {
  let messages = state.messages.slice();
  let { runFrom } = state;
  for (const event of events) {
    if (event.message) put(messages, event.message, !!state.olderToken);
    if (event.runStarted) runFrom = num(event.revision);
    else if (event.runEnded) runFrom = Infinity;
  }
  if (withStatuses.length) messages = withStatusesOf(messages, withStatuses);
  const revision = Math.max(state.revision, view.revision, ...events.map((event) => num(event.revision)));
  return { ...state, revision, messages, view, replacements: replaced(state.replacements, withStatuses), runFrom };
}

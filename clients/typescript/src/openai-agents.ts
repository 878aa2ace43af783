/**
 * A `Session` of the OpenAI Agents SDK: the agents' memory is a Longhand session, which others can share.
 *
 * `run(agent, "Hello", { session: new LonghandSession("tidewater", { client: await connect() }) })`
 *
 * Texts, calls and results are kept as such, so that views, compactions and other agents see them; what the types have
 * no place for is in the messages' metadata, and an item comes back equal. Everything else is kept as a block that no
 * one else reads. `getItems` is the view: after a compaction the SDK gets a summary and what follows.
 *
 * @module
 */

import type {
  AgentInputItem,
  OpenAIResponsesCompactionArgs,
  SessionHistoryRewriteArgs,
  SessionHistoryTransactionArgs,
} from "@openai/agents-core";
import type { Client } from "./client.js";
import { compactNow, NotCompacted } from "./compaction.js";
import { hasReason } from "./errors.js";
import * as v1 from "./gen/v1.js";
import { canonical, digest } from "./json.js";
import * as parts from "./parts.js";
import { newId } from "./requests.js";
import { type Session, START, type View } from "./session.js";

/** Who gets the opaque blocks back, and where an item's other fields are. */
const PROVIDER = "openai-agents-js";
/** Where the metadata of an edit has the position of the message that it replaces. */
const POSITION = "openai-agents-js-position";
/** Views are read again when the session changed between a read and a rewind. */
const ATTEMPTS = 16;
/** The largest metadata of a message, in bytes. */
const METADATA_BYTES = 256 * 1024;

type Item = Record<string, unknown>;

/** A session by its client id, made when it is first used. `window` is that of the agents' model, in tokens. */
export class LonghandSession {
  private readonly name: string;
  private readonly client: Client;
  private readonly options: { window?: parts.Window; preset?: string };
  private opened: Promise<Session> | undefined;

  constructor(sessionId: string, options: { client: Client; window?: parts.Window; preset?: string }) {
    const { client, ...rest } = options;
    this.name = sessionId;
    this.client = client;
    this.options = rest;
  }

  /** The session, for everything that the SDK has no word for. */
  longhand(): Promise<Session> {
    if (!this.opened) {
      const opened = this.client.openSession(this.name, { ...this.options, metadata: { agent: "openai-agents" } });
      this.opened = opened;
      // The next use tries again.
      opened.catch(() => {
        this.opened = undefined;
      });
    }
    return this.opened;
  }

  async getSessionId(): Promise<string> {
    return this.name;
  }

  /** The items that the model should see, oldest first; with a limit the latest ones. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    if (limit !== undefined && limit <= 0) return [];
    const view = await (await this.longhand()).view();
    const items = inWrittenOrder(view).flatMap(itemsOf) as AgentInputItem[];
    return limit === undefined ? items : items.slice(-limit);
  }

  /** Appends items, all or none. */
  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length > 0) await (await this.longhand()).append(items.map((item) => messageOf({ ...item })));
  }

  /** Takes the newest item out of the conversation; history keeps it. */
  async popItem(): Promise<AgentInputItem | undefined> {
    const session = await this.longhand();
    for (let attempt = 1; ; attempt++) {
      const view = await session.view();
      const messages = inWrittenOrder(view);
      let last = messages.length - 1;
      while (last >= 0 && itemsOf(messages[last] as v1.ViewMessage).length === 0) last--;
      const newest = messages[last];
      if (!newest) return undefined;
      const items = itemsOf(newest);
      const before = messages.slice(0, last).findLast(({ messageId }) => messageId !== "");
      const end = before?.messageId ?? START;
      const expectedRevision = view.header.revision;
      try {
        // Another agent's message can have several items in it.
        const rest = items.slice(0, -1).map(messageOf);
        if (rest.length > 0) await session.append(rest, { rewindTo: end, expectedRevision });
        else await session.rewind(end, { expectedRevision });
        return items.at(-1) as AgentInputItem;
      } catch (error) {
        if (!hasReason(error, "REVISION_MISMATCH") || attempt === ATTEMPTS) throw error;
      }
    }
  }

  /**
   * Appends items, or puts others in the place of the last ones, once for each operation: the operation's id is a record
   * of the same change. An operation that was applied with another transaction, and a suffix that is not what is expected,
   * fail, and nothing is changed.
   */
  async applyHistoryTransaction({ operationId, transaction }: SessionHistoryTransactionArgs): Promise<void> {
    if (typeof operationId !== "string" || !operationId.trim()) throw new TypeError("an operation needs an id");
    const session = await this.longhand();
    const written = canonical(transaction);
    // What is cleared takes the operations that were applied to it along.
    const cleared = (await recordOf(session, CLEARED))?.messageId ?? "";
    const clientId = `operation:${await digest(cleared + operationId)}`;
    const operation = parts.record("operation", await digest(written), { clientId });
    for (let attempt = 1; ; attempt++) {
      const view = await session.view();
      const expectedRevision = view.header.revision;
      if (await isApplied(session, clientId, operation)) return;
      const { items, keep, rewindTo } = changeOf(transaction, inWrittenOrder(view));
      const messages = [...keep, ...items].map((item) => messageOf({ ...(item as Item) }));
      try {
        await session.append([...messages, operation], {
          expectedRevision,
          ...(rewindTo === undefined ? {} : { rewindTo }),
        });
        return;
      } catch (error) {
        if (!hasReason(error, "REVISION_MISMATCH") || attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Puts other calls in the place of calls, at their position; history keeps both. */
  async applyHistoryMutations({ mutations }: SessionHistoryRewriteArgs): Promise<void> {
    for (const mutation of mutations) {
      // The only kind that there is.
      if (mutation.type !== "replace_function_call") throw new TypeError(`${mutation.type} is not known`);
      await this.replaceCall(mutation.callId, { ...mutation.replacement });
    }
  }

  /** Puts a compaction of the provider, and what it retains, in the place of the conversation; history keeps that. */
  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const session = await this.longhand();
    const messages = items.map((item) => messageOf({ ...item }));
    if (messages.length > 0) await session.append(messages, { rewindTo: START });
    else await session.rewind(START);
  }

  /**
   * Longhand compacts by itself, when the session's policy says so. With `force` it does now, and the call waits for the
   * end; where there is nothing to compact, nothing happens. A compaction of the provider is not asked for.
   */
  async runCompaction(args?: OpenAIResponsesCompactionArgs): Promise<null> {
    if (!args?.force) return null;
    try {
      await compactNow(await this.longhand(), undefined);
    } catch (error) {
      if (!(error instanceof NotCompacted)) throw error;
    }
    return null;
  }

  private async replaceCall(callId: string, replacement: Item): Promise<void> {
    const session = await this.longhand();
    for (let attempt = 1; ; attempt++) {
      const view = await session.view();
      const isCall = (item: Item) => item["type"] === "function_call" && item["callId"] === callId;
      const expectedRevision = view.header.revision;
      const found = inWrittenOrder(view).filter((message) => itemsOf(message).some(isCall));
      const [first, ...others] = found;
      if (!first) return;
      const last = others.at(-1);
      try {
        if (last) {
          // Further ones go first, and each is a change of its own.
          const rest = partsOf(last).filter((part) => !hasCall(part, callId));
          const metadata = rest.length > 0 ? editMetadata(last, view) : undefined;
          await session.edit(last.messageId, rest.length > 0 ? rest : undefined, { metadata, expectedRevision });
          continue;
        }
        const { content, metadata } = replaced(first, view, callId, messageOf(replacement));
        await session.edit(first.messageId, content, { metadata, expectedRevision });
        return;
      } catch (error) {
        if (!hasReason(error, "REVISION_MISMATCH") || attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Empties the conversation; history keeps it. `erase` of the session deletes for good. */
  async clearSession(): Promise<void> {
    const record = parts.record("cleared", newId(), { clientId: CLEARED, replace: true });
    await (await this.longhand()).append(record, { rewindTo: START });
  }
}

/** The record that the newest clearing leaves behind. */
const CLEARED = "cleared";

/** A record by its client id; undefined if there is none. */
async function recordOf(session: Session, clientId: string): Promise<v1.Message | undefined> {
  try {
    return await session.getMessage(clientId);
  } catch (error) {
    if (hasReason(error, "MESSAGE_NOT_FOUND")) return undefined;
    throw error;
  }
}

/**
 * The messages of a view as they were written: a view has a result directly after its call, and the SDK wants the order
 * in which it added them. What Longhand wrote, a summary above all, stays where it is. What a view adds for a call
 * without a result, or before a reply at its begin, is left out: the SDK may still be about to add it.
 */
function inWrittenOrder({ messages }: View): v1.ViewMessage[] {
  const kinds = v1.ViewMessageKind;
  const summarized = messages.some(({ kind }) => kind === kinds.SUMMARY);
  const kept = messages.filter(
    ({ kind }) => kind !== kinds.MISSING_RESULT && (summarized || kind !== kinds.POLICY_TEXT),
  );
  const positions = positionsOf(messages);
  const position = (message: v1.ViewMessage) => positions.get(message) ?? message.revision;
  const shown = kept.filter(({ kind }) => kind === kinds.SHOWN).sort((a, b) => Number(position(a) - position(b)));
  let next = 0;
  return kept.map((message) => (message.kind === kinds.SHOWN ? (shown[next++] ?? message) : message));
}

/**
 * Where the messages of a view were written. An edit of ours says where; one of others is before everything that the view
 * has behind it, of which only results are out of their order.
 */
function positionsOf(messages: readonly v1.ViewMessage[]): Map<v1.ViewMessage, bigint> {
  const positions = new Map<v1.ViewMessage, bigint>();
  let next: bigint | undefined;
  for (const message of [...messages].reverse()) {
    if (message.kind !== v1.ViewMessageKind.SHOWN) continue;
    const known = metadataOf(message)[POSITION];
    const position = typeof known === "string" ? BigInt(known) : message.revision;
    next = next === undefined || position < next ? position : next;
    positions.set(message, message.role === v1.Role.TOOL ? position : next);
  }
  return positions;
}

/** The metadata of an edit, which has what the message had that it replaces. */
function editMetadata(message: v1.ViewMessage, view: View): Item {
  const position = positionsOf(view.messages).get(message) ?? message.revision;
  return { ...metadataOf(message), [POSITION]: String(position) };
}

/** What a message becomes with another call in the place of one. */
function replaced(
  message: v1.ViewMessage,
  view: View,
  callId: string,
  call: v1.NewMessage,
): { content: v1.Part[]; metadata: Item } {
  const metadata = editMetadata(message, view);
  const before = partsOf(message);
  const own: Item = JSON.parse(call.metadataJson ?? "{}");
  // A message that is the call is made anew; in another one the part has what else the call has.
  if (before.length === 1) {
    return { content: call.parts, metadata: { ...without(metadata, PROVIDER, "content", "output"), ...own } };
  }
  const put = call.parts.map((part) => ({ ...part, metadataJson: JSON.stringify(own) }));
  return { content: before.flatMap((part) => (hasCall(part, callId) ? put : [part])), metadata };
}

function metadataOf({ metadataJson }: { metadataJson?: string | undefined }): Item {
  const metadata: unknown = metadataJson ? JSON.parse(metadataJson) : undefined;
  return typeof metadata === "object" && metadata !== null && !Array.isArray(metadata) ? (metadata as Item) : {};
}

function partsOf(message: v1.ViewMessage): v1.Part[] {
  return message.parts.flatMap(({ part }) => (part ? [part] : []));
}

function hasCall({ body }: v1.Part, callId: string): boolean {
  if (body.case === "toolCall") return body.value.callId === callId;
  return body.case === "opaque" && body.value.provider === PROVIDER && opaqueItem(body.value)["callId"] === callId;
}

function opaqueItem({ data }: v1.OpaquePart): Item {
  return JSON.parse(new TextDecoder().decode(data));
}

/** True if the operation was applied; throws if another transaction was, by this id. */
async function isApplied(session: Session, clientId: string, operation: v1.NewMessage): Promise<boolean> {
  const known = await recordOf(session, clientId);
  if (!known) return false;
  const data = ({ body }: v1.Part) => (body.case === "record" ? body.value.data : "");
  if (known.parts.map(data).join() === operation.parts.map(data).join()) return true;
  throw new Error("the operation was already applied with a different transaction");
}

/** What a transaction adds, what of the conversation it must add again, and where the conversation ends before. */
function changeOf(
  transaction: SessionHistoryTransactionArgs["transaction"],
  messages: readonly v1.ViewMessage[],
): { items: readonly unknown[]; keep: readonly Item[]; rewindTo?: string } {
  if (transaction.type === "append_items") return { items: transaction.items, keep: [] };
  const { expectedSuffix, replacement } = transaction;
  const all = messages.map(itemsOf);
  const flat = all.flat();
  const start = flat.length - expectedSuffix.length;
  if (start < 0 || canonical(flat.slice(start)) !== canonical(expectedSuffix)) {
    throw new Error("the suffix of the history is not what the transaction expects");
  }
  if (expectedSuffix.length === 0) return { items: replacement, keep: [] };
  // The message in which the suffix begins goes whole, and what it has before comes again.
  let count = flat.length;
  let index = messages.length;
  while (count > start) count -= all[--index]?.length ?? 0;
  const before = messages.slice(0, index).findLast(({ messageId }) => messageId !== "");
  return { items: replacement, keep: flat.slice(count, start), rewindTo: before?.messageId ?? START };
}

/** One message for an item. */
function messageOf(item: Item): v1.NewMessage {
  const typed = typedMessage(item);
  if (typed && new TextEncoder().encode(typed.metadataJson ?? "").length <= METADATA_BYTES) return typed;
  // Whatever the types have no place for: a block that comes back as it was.
  const type = String(item["type"] ?? item["role"] ?? "item");
  const result = type.endsWith("_result") || type.endsWith("_output");
  const role = result ? v1.Role.TOOL : (roleOf(item["role"]) ?? v1.Role.ASSISTANT);
  const data = new TextEncoder().encode(JSON.stringify(item));
  return parts.message(role, parts.opaque(PROVIDER, type.slice(0, 100), data));
}

function typedMessage(item: Item): v1.NewMessage | undefined {
  const { type = "message", callId, name, arguments: input, output, content, ...rest } = item;
  const { STOP, TOOL_CALLS } = v1.FinishReason;
  if (type === "function_call" && isName(callId) && isName(name) && typeof input === "string") {
    const metadata = { [PROVIDER]: without(item, "callId", "name", "arguments") };
    return parts.assistant(parts.toolCall(callId, name, input), { metadata, reason: TOOL_CALLS });
  }
  const written = typeof output === "string" ? output : plainOutput(output);
  if (type === "function_call_result" && isName(callId) && written !== undefined) {
    const shape = typeof output === "string" ? {} : { output: true };
    const metadata = { [PROVIDER]: without(item, "callId", "output"), ...shape };
    return parts.tool(parts.toolResult(callId, written), { metadata });
  }
  const role = roleOf(rest["role"]);
  if (type !== "message" || role === undefined) return undefined;
  const pieces = typeof content === "string" ? [{ text: content }] : content;
  if (!Array.isArray(pieces) || pieces.length === 0 || !pieces.every(isTextPiece)) return undefined;
  const metadata = {
    [PROVIDER]: without(item, "content"),
    ...(typeof content === "string" ? {} : { content: pieces.map((piece: Item) => without(piece, "text")) }),
  };
  const texts = pieces.map((piece: Item) => String(piece["text"]));
  const finish = role === v1.Role.ASSISTANT ? { reason: STOP } : undefined;
  return parts.message(role, texts, { metadata, finish });
}

/** The items that a message of a view is to the model: that which it was made from, or those that say the same. */
function itemsOf(message: v1.ViewMessage): Item[] {
  const shown = message.parts.flatMap(({ part }) => (part ? [part] : []));
  const restored = message.kind === v1.ViewMessageKind.SHOWN ? restore(message, shown) : undefined;
  if (restored) return [restored];
  return shown.flatMap((part): Item[] => {
    const { body } = part;
    switch (body.case) {
      case "text":
      case "marker":
        return body.value.text ? [textItem(message.role, body.value.text)] : [];
      case "toolCall": {
        const { callId, tool: name, inputJson } = body.value;
        const own = metadataOf(part)[PROVIDER] ?? { type: "function_call", status: "completed" };
        return [{ ...(own as Item), callId, name, arguments: inputJson }];
      }
      case "toolResult": {
        const { callId, output } = body.value;
        return [{ type: "function_call_result", callId, name: "", output, status: "completed" }];
      }
      case "opaque":
        return body.value.provider === PROVIDER ? [JSON.parse(new TextDecoder().decode(body.value.data))] : [];
      default:
        return [];
    }
  });
}

function textItem(role: v1.Role, text: string): Item {
  if (role === v1.Role.ASSISTANT) {
    return { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] };
  }
  return { type: "message", role: role === v1.Role.SYSTEM ? "system" : "user", content: text };
}

/** The item that a message was made from, with the texts that the view has; undefined if none was. */
function restore(message: v1.ViewMessage, shown: v1.Part[]): Item | undefined {
  const [first] = shown;
  if (!first) return undefined;
  const metadata = metadataOf(message);
  const item = metadata[PROVIDER] as Item | undefined;
  if (typeof item !== "object" || item === null) return undefined;
  const { body } = first;
  if (body.case === "toolCall") {
    const { callId, tool: name, inputJson } = body.value;
    return { ...item, callId, name, arguments: inputJson };
  }
  if (body.case === "toolResult") {
    const { callId, output: text } = body.value;
    return { ...item, callId, output: metadata["output"] ? { type: "text", text } : text };
  }
  // A result whose call is not in the view any more is a text there.
  if ((item["type"] ?? "message") !== "message") return undefined;
  const texts = shown.flatMap((part) => (part.body.case === "text" ? [part.body.value.text] : []));
  const pieces = metadata["content"];
  if (!Array.isArray(pieces)) return { ...item, content: texts.join("") };
  if (pieces.length !== texts.length) return undefined;
  return { ...item, content: pieces.map((piece, index) => ({ ...piece, text: texts[index] })) };
}

function roleOf(role: unknown): v1.Role | undefined {
  const roles: Record<string, v1.Role> = {
    user: v1.Role.USER,
    assistant: v1.Role.ASSISTANT,
    system: v1.Role.SYSTEM,
  };
  return roles[String(role)];
}

/** The text of an output that is one text and nothing else. */
function plainOutput(output: unknown): string | undefined {
  if (typeof output !== "object" || output === null || Object.keys(output).sort().join() !== "text,type") return;
  const { type, text } = output as Item;
  return type === "text" && typeof text === "string" ? text : undefined;
}

function isTextPiece(piece: unknown): boolean {
  const { type = "input_text", text } = (piece ?? {}) as Item;
  return isName(text) && (type === "input_text" || type === "output_text");
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function without(item: Item, ...names: string[]): Item {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !names.includes(name)));
}

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

import type { AgentInputItem } from "@openai/agents-core";
import type { Client } from "./client.js";
import { hasReason } from "./errors.js";
import * as v1 from "./gen/v1.js";
import * as parts from "./parts.js";
import { type Session, START, type View } from "./session.js";

/** Who gets the opaque blocks back, and where an item's other fields are. */
const PROVIDER = "openai-agents-js";
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
      while (last >= 0 && itemsOf(messages[last] as v1.ContextMessage).length === 0) last--;
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

  /** Empties the conversation; history keeps it. `erase` of the session deletes for good. */
  async clearSession(): Promise<void> {
    await (await this.longhand()).rewind(START);
  }
}

/**
 * The messages of a view as they were written: a view has a result directly after its call, and the SDK wants the order
 * in which it added them. What Longhand wrote, a summary above all, stays where it is. What a view adds for a call
 * without a result, or before a reply at its begin, is left out: the SDK may still be about to add it.
 */
function inWrittenOrder({ messages }: View): v1.ContextMessage[] {
  const kinds = v1.ContextMessageKind;
  const summarized = messages.some(({ kind }) => kind === kinds.SUMMARY);
  const kept = messages.filter(
    ({ kind }) => kind !== kinds.MISSING_RESULT && (summarized || kind !== kinds.POLICY_TEXT),
  );
  const shown = kept.filter(({ kind }) => kind === kinds.SHOWN).sort((a, b) => Number(a.revision - b.revision));
  let next = 0;
  return kept.map((message) => (message.kind === kinds.SHOWN ? (shown[next++] ?? message) : message));
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
function itemsOf(message: v1.ContextMessage): Item[] {
  const shown = message.parts.flatMap(({ part }) => (part ? [part] : []));
  const restored = message.kind === v1.ContextMessageKind.SHOWN ? restore(message, shown) : undefined;
  if (restored) return [restored];
  return shown.flatMap(({ body }): Item[] => {
    switch (body.case) {
      case "text":
      case "marker":
        return body.value.text ? [textItem(message.role, body.value.text)] : [];
      case "toolCall": {
        const { callId, tool: name, inputJson } = body.value;
        return [{ type: "function_call", callId, name, arguments: inputJson, status: "completed" }];
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
function restore(message: v1.ContextMessage, shown: v1.Part[]): Item | undefined {
  const [first] = shown;
  if (!first || !message.metadataJson) return undefined;
  const metadata = JSON.parse(message.metadataJson);
  const item: Item | undefined = metadata?.[PROVIDER];
  if (typeof item !== "object" || item === null) return undefined;
  const { body } = first;
  if (body.case === "toolCall") {
    const { callId, tool: name, inputJson } = body.value;
    return { ...item, callId, name, arguments: inputJson };
  }
  if (body.case === "toolResult") {
    const { callId, output: text } = body.value;
    return { ...item, callId, output: metadata.output ? { type: "text", text } : text };
  }
  // A result whose call is not in the view any more is a text there.
  if ((item["type"] ?? "message") !== "message") return undefined;
  const texts = shown.flatMap((part) => (part.body.case === "text" ? [part.body.value.text] : []));
  const pieces = metadata.content;
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

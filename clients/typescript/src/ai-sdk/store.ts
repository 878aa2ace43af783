/** UI messages of a session: read from its history, and written to it. */

import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import * as v1 from "../gen/v1.js";
import * as parts from "../parts.js";
import type { Session } from "../session.js";
import { filePart, fileUrl, type MessageFacts, messageFacts, messageMetadata } from "./pieces.js";
import { ReplyReader } from "./reader.js";
import { StepWriter } from "./writer.js";

/** What a rewind or an edit took out of the conversation is not shown; what a compaction covers is. */
const HIDDEN = new Set([
  v1.MessageState.REWOUND,
  v1.MessageState.REMOVED,
  v1.MessageState.UNDONE,
  v1.MessageState.RECORD,
  v1.MessageState.SUPERSEDED,
  v1.MessageState.INACTIVE,
]);

/** Messages that are one message to a user interface. */
export interface Group {
  id: string;
  role: UIMessage["role"];
  messages: v1.Message[];
}

/**
 * The conversation of a session as UI messages, whole, whatever a compaction did to its view; also what other agents and
 * people wrote, and last the prompts that wait. A reply that is being written is there as far as its parts are closed.
 */
export async function loadChat<M extends UIMessage = UIMessage>(session: Session): Promise<M[]> {
  const messages = await Promise.all((await readGroups(session)).map(uiMessage));
  for await (const prompt of session.listPrompts()) {
    messages.push(userMessage("user", promptFacts(prompt), prompt.parts));
  }
  return messages as M[];
}

/**
 * Writes UI messages that the session does not have yet, by their ids, for routes that answer without a queue: call it
 * with the messages of `onEnd`. `viewToken` is that of the view that the last one answers. Throws before anything is
 * written if a reply that the session has went on: `serveChats` writes those.
 */
export async function saveChat(
  session: Session,
  messages: readonly UIMessage[],
  options: { viewToken?: string } = {},
): Promise<void> {
  const known = new Map((await readGroups(session)).map((group) => [group.id, group]));
  for (const message of messages) {
    const group = message.role === "assistant" ? known.get(message.id) : undefined;
    if (group && isLonger(message, await uiMessage(group))) {
      throw new Error(`the reply ${message.id} went on since it was saved: let \`serveChats\` answer such chats`);
    }
  }
  const added = messages.filter(({ id }) => !known.has(id));
  for (const message of added) {
    if (message.role !== "assistant") {
      await session.append(promptMessage(message));
      continue;
    }
    const token = message === added.at(-1) ? options.viewToken : undefined;
    const writer = new StepWriter(session, message.id, () => (token === undefined ? undefined : { token }));
    for (const chunk of chunksOfMessage(message)) await writer.take(chunk);
    await writer.end();
  }
}

/** True for a reply with parts, or results of tools, that what is stored of it does not have. */
function isLonger(message: UIMessage, stored: UIMessage): boolean {
  const count = ({ parts: all }: UIMessage) => {
    const ended = all.filter((part) => "state" in part && /^output-(available|error)$/.test(String(part.state)));
    return [all.length, ended.length] as const;
  };
  const [length, results] = count(message);
  const [storedLength, storedResults] = count(stored);
  return length > storedLength || results > storedResults;
}

/** What the interface shows of the history, message by message. */
export async function readGroups(session: Session): Promise<Group[]> {
  const all: v1.Message[] = [];
  for await (const message of session.history({ excludeRecords: true, pageSize: 1000 })) all.push(message);
  const byId = new Map(all.map((message) => [message.messageId, message]));
  const groups: Group[] = [];
  for (const written of all) {
    if (written.kind === v1.MessageKind.EDIT || HIDDEN.has(written.status?.state ?? 0)) continue;
    const edited = written.status?.state === v1.MessageState.EDITED;
    const message = (edited && byId.get(written.status?.byMessageId ?? "")) || written;
    const role = roleOf(message.role);
    const facts = messageFacts(message.metadataJson);
    const last = groups.at(-1);
    const same = facts && role === "assistant" ? groups.findLast(({ id }) => id === facts.id) : undefined;
    const joins = role === "assistant" && last?.role === "assistant" && !facts ? last : same;
    if (joins) joins.messages.push(message);
    else groups.push({ id: facts?.id ?? message.messageId, role, messages: [message] });
  }
  return groups;
}

function roleOf(role: v1.Role): UIMessage["role"] {
  if (role === v1.Role.USER) return "user";
  return role === v1.Role.SYSTEM ? "system" : "assistant";
}

async function uiMessage({ id, role, messages }: Group): Promise<UIMessage> {
  if (role !== "assistant") {
    const [message] = messages;
    const facts = messageFacts(message?.metadataJson) ?? { id };
    return userMessage(role, facts, message?.parts ?? []);
  }
  const reader = new ReplyReader(id);
  const chunks = messages.flatMap((message) => reader.absorb(message, []));
  let last: UIMessage = { id, role, parts: [] };
  const stream = streamOf(chunks);
  for await (const state of readUIMessageStream({ stream, terminateOnError: true })) last = state;
  return { ...last, id };
}

function streamOf(chunks: UIMessageChunk[]): ReadableStream<UIMessageChunk> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

// Messages of users

/** A user's message, or an instruction, as its parts and metadata: texts and files are parts. */
export function promptOf(message: UIMessage): { parts: v1.Part[]; metadata: string } {
  const content: v1.Part[] = [];
  const shapes = message.parts.map((part) => {
    if (part.type === "text" && part.text !== "") {
      content.push(parts.text(part.text));
      return { ...part, text: null };
    }
    if (part.type === "file") {
      content.push(filePart(part, {}));
      return { ...part, url: null };
    }
    return part;
  });
  const { id, role: _role, ...rest } = message;
  return { parts: content, metadata: messageMetadata({ id, message: { ...rest, parts: shapes } }) };
}

function promptMessage(message: UIMessage): v1.NewMessage {
  const { parts: content, metadata } = promptOf(message);
  return parts.message(message.role === "system" ? v1.Role.SYSTEM : v1.Role.USER, content, { metadata });
}

/** The UI message of a prompt that waits. */
export function promptFacts(prompt: v1.Prompt): MessageFacts {
  return messageFacts(prompt.metadataJson) ?? { id: prompt.promptId };
}

function userMessage(role: "user" | "system", facts: MessageFacts, content: readonly v1.Part[]): UIMessage {
  const rest = [...content];
  const { parts: shapes, ...members } = (facts.message ?? {}) as { parts?: Record<string, unknown>[] };
  const restored = shapes?.map((shape) => {
    if (shape["text"] !== null && shape["url"] !== null) return shape;
    const next = rest.shift();
    if (next?.body.case === "text") return { ...shape, text: next.body.value.text };
    if (next?.body.case === "media") return { ...shape, url: fileUrl(next.body.value, next.metadataJson) };
    return undefined;
  });
  const plain = rest.flatMap(({ body, metadataJson }): Record<string, unknown>[] => {
    if (body.case === "text" || body.case === "marker") return [{ type: "text", text: body.value.text }];
    if (body.case !== "media") return [];
    const { mimeType: mediaType, name: filename } = body.value;
    return [{ type: "file", mediaType, ...(filename ? { filename } : {}), url: fileUrl(body.value, metadataJson) }];
  });
  const all = [...(restored ?? []), ...plain].filter((part) => part !== undefined);
  return { ...members, id: facts.id, role, parts: all as unknown as UIMessage["parts"] };
}

// Replies that are there whole

/** The chunks that make a reply. */
function chunksOfMessage(message: UIMessage): UIMessageChunk[] {
  const chunks: UIMessageChunk[] = [];
  if (message.metadata !== undefined) chunks.push({ type: "start", messageMetadata: message.metadata });
  let number = 0;
  for (const part of message.parts as (UIMessage["parts"][number] & Record<string, unknown>)[]) {
    const id = typeof part["id"] === "string" ? part["id"] : String(number);
    number++;
    const { providerMetadata } = part as { providerMetadata?: never };
    const provider = providerMetadata === undefined ? {} : { providerMetadata };
    if (part.type === "step-start") {
      if (number > 1) chunks.push({ type: "finish-step" });
      chunks.push({ type: "start-step" });
    } else if (part.type === "text" || part.type === "reasoning") {
      const kind = part.type;
      chunks.push({ type: `${kind}-start`, id, ...provider } as UIMessageChunk);
      chunks.push({ type: `${kind}-delta`, id, delta: part.text } as UIMessageChunk);
      chunks.push({ type: `${kind}-end`, id } as UIMessageChunk);
    } else if (part.type === "dynamic-tool" || part.type.startsWith("tool-")) {
      chunks.push(...chunksOfCall(part as unknown as ToolPart));
    } else {
      chunks.push(part as unknown as UIMessageChunk);
    }
  }
  return chunks;
}

interface ToolPart extends Record<string, unknown> {
  type: string;
  toolName?: string;
  toolCallId: string;
  state: string;
}

function chunksOfCall(part: ToolPart): UIMessageChunk[] {
  const { type, toolCallId, state, title, toolMetadata, providerExecuted } = part;
  const dynamic = type === "dynamic-tool";
  const toolName = dynamic ? String(part.toolName) : type.slice("tool-".length);
  const common = defined({ toolCallId, providerExecuted, toolMetadata, ...(dynamic ? { dynamic } : {}) });
  const call = defined({ ...common, toolName, title, providerMetadata: part["callProviderMetadata"] });
  const input = part["input"] ?? part["rawInput"] ?? {};
  const result = defined({ ...common, providerMetadata: part["resultProviderMetadata"] });
  const calls = [{ ...call, type: "tool-input-available", input }];
  if (state === "output-available") {
    const { output, preliminary } = part;
    return [...calls, defined({ ...result, type: "tool-output-available", output, preliminary })] as UIMessageChunk[];
  }
  if (state === "output-error") {
    const { errorText } = part;
    return [...calls, { ...result, type: "tool-output-error", errorText }] as UIMessageChunk[];
  }
  if (state === "input-streaming" || state === "input-available") return calls as UIMessageChunk[];
  throw new Error(`a call in the state ${state} cannot be kept: ask with \`session.ask\` in the tool instead`);
}

function defined(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

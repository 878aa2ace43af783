/** UI messages of a session: read from its history, and written to it. */

import { create } from "@bufbuild/protobuf";
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { batches } from "../batches.js";
import { hasReason } from "../errors.js";
import * as v1 from "../gen/v1.js";
import { canonical, digest } from "../json.js";
import * as parts from "../parts.js";
import type { Session } from "../session.js";
import {
  APPROVALS,
  type ChunkOf,
  callPart,
  chunksOf,
  filePart,
  fileUrl,
  hiddenReasoning,
  type MessageFacts,
  marker,
  messageFacts,
  messageMetadata,
  resultPart,
  wholePart,
  wordsDraft,
  wordsMetadata,
} from "./pieces.js";
import { ReplyReader } from "./reader.js";

/** A chat is read again when another call saved it meanwhile. */
const ATTEMPTS = 16;
/** What a rewind or an edit took out of the conversation is not shown; what a compaction covers is. */
const HIDDEN = new Set([
  v1.MessageState.REWOUND,
  v1.MessageState.REMOVED,
  v1.MessageState.UNDONE,
  v1.MessageState.RECORD,
  v1.MessageState.SUPERSEDED,
  v1.MessageState.INACTIVE,
]);

/** True for what is not shown. */
function isHidden(status: v1.MessageStatus | undefined): boolean {
  return HIDDEN.has(status?.state ?? 0);
}

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
  const history = await readHistory(session);
  const waiting: v1.Prompt[] = [];
  for await (const prompt of session.listPrompts()) waiting.push(prompt);
  const results = waiting.filter(({ parts: all }) => isResults(all));
  const messages = await Promise.all(groupsOf([...history, ...results.map(resultsMessage)]).map(uiMessage));
  for (const prompt of waiting) {
    if (!isResults(prompt.parts)) messages.push(userMessage("user", promptFacts(prompt), prompt.parts));
  }
  return messages as M[];
}

/**
 * Writes what the session does not have yet of UI messages, for routes that answer without a queue: call it with the
 * messages of `onEnd`, as often as you like. A reply that went on is written behind what is stored of it: results of
 * tools, parts, steps, and metadata, which is merged as the SDK merges it. `viewToken` is that of the view that the last
 * one answers. What the session has already stays as it is, whatever the messages say. Throws before anything is written
 * if a reply went on that is another one in the session, or that others have written behind.
 */
export async function saveChat(
  session: Session,
  messages: readonly UIMessage[],
  options: { viewToken?: string } = {},
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      const added = await missingMessages(session, messages, options.viewToken);
      for (const batch of batches(added, (message) => message)) await session.append(batch);
      return;
    } catch (error) {
      // Another call was a little faster, with more of a reply, or less.
      if (!hasReason(error, "CLIENT_ID_REUSED") || attempt === ATTEMPTS) throw error;
    }
  }
}

/** The messages that the session lacks of a conversation. Their client ids follow from those of the UI messages. */
async function missingMessages(
  session: Session,
  messages: readonly UIMessage[],
  viewToken: string | undefined,
): Promise<v1.NewMessage[]> {
  const history = await readHistory(session);
  const groups = groupsOf(history);
  const gone = new Set(history.flatMap(({ clientId, status }) => (isHidden(status) && clientId ? [clientId] : [])));
  const added: v1.NewMessage[] = [];
  for (const message of messages) {
    const index = groups.findIndex(({ id }) => id === message.id);
    const group = groups[index];
    if (group && message.role !== "assistant") continue;
    const stored = group && (await uiMessage(group));
    const token = message === messages.at(-1) ? viewToken : undefined;
    const own = message.role === "assistant" ? replyMessages(message, group, stored, token) : [promptMessage(message)];
    if (stored && index < groups.length - 1 && own.some(({ parts: all }) => all.some(isContent))) {
      throw new Error(`the reply ${message.id} went on, but others have written behind it`);
    }
    const name = `chat:${await digest(message.id)}`;
    const count = group?.messages.length ?? 0;
    for (const [number, one] of own.entries()) {
      let clientId = `${name}:${count + number}`;
      // A message of a rewind keeps its id.
      for (let again = 2; gone.has(clientId); again++) clientId = `${name}:${count + number}~${again}`;
      added.push({ ...one, clientId });
    }
  }
  return added;
}

/** The messages of a reply, behind what is stored of it. */
function replyMessages(
  message: UIMessage,
  group: Group | undefined,
  stored: UIMessage | undefined,
  viewToken: string | undefined,
): v1.NewMessage[] {
  const { id } = message;
  // Words that are empty are in no message.
  const all = message.parts.filter((part) => part.type !== "text" || part.text !== "");
  const before = stored?.parts ?? [];
  if (all.length > before.length && before.some((part, index) => nameOf(part) !== nameOf(all[index]))) {
    throw new Error(`the session has another reply ${id}`);
  }
  const steps: { begins: boolean; content: v1.Part[] }[] = [];
  const content = () => {
    if (steps.length === 0) steps.push({ begins: false, content: [] });
    return (steps.at(-1) as { content: v1.Part[] }).content;
  };
  const results = group ? newResults(message, group) : [];
  // The results of a provider's own tools are blocks of a reply.
  const blocks = results.filter(({ body }) => body.case !== "toolResult");
  if (blocks.length > 0) content().push(...blocks);
  for (const [index, part] of all.entries()) {
    if (index < before.length) continue;
    if (part.type === "step-start") steps.push({ begins: true, content: [] });
    else content().push(...partsOf(part, index));
  }
  const { metadata } = message;
  if (metadata !== undefined && !covers(stored?.metadata, metadata)) {
    if (steps.length === 0) content();
    steps[0]?.content.unshift(marker({ type: "message-metadata", messageMetadata: metadata }));
  }
  const written = steps.map(({ begins, content: own }, index) =>
    parts.assistant(own, {
      metadata: messageMetadata({ id, ...(begins ? {} : { continues: true }) }),
      ...(index === steps.length - 1 && viewToken !== undefined ? { viewToken } : {}),
    }),
  );
  const answers = results.filter(({ body }) => body.case === "toolResult");
  return [...(answers.length > 0 ? [parts.tool(answers, { metadata: messageMetadata({ id }) })] : []), ...written];
}

/** What the interface shows of the history, message by message. */
export async function readGroups(session: Session): Promise<Group[]> {
  return groupsOf(await readHistory(session));
}

async function readHistory(session: Session): Promise<v1.Message[]> {
  const all: v1.Message[] = [];
  for await (const message of session.history({ excludeRecords: true, pageSize: 1000 })) all.push(message);
  return all;
}

function groupsOf(all: readonly v1.Message[]): Group[] {
  const byId = new Map(all.map((message) => [message.messageId, message]));
  const groups: Group[] = [];
  for (const written of all) {
    if (written.kind === v1.MessageKind.EDIT || isHidden(written.status)) continue;
    const edited = written.status?.state === v1.MessageState.EDITED;
    const message = (edited && byId.get(written.status?.byMessageId ?? "")) || written;
    const role = roleOf(message.role);
    const facts = messageFacts(message.metadataJson);
    const last = groups.at(-1);
    const same = facts && role === "assistant" ? groups.findLast(({ id }) => id === facts.id) : undefined;
    const called = message.role === v1.Role.TOOL && !facts ? withCall(groups, message.parts) : undefined;
    const joins = called ?? (role === "assistant" && last?.role === "assistant" && !facts ? last : same);
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

/** True for the content of a prompt that answers calls. */
export function isResults(content: readonly v1.Part[]): boolean {
  return content.some(({ body }) => body.case === "toolResult");
}

/** The group with the call that one of these results answers. */
export function withCall(groups: readonly Group[], results: readonly v1.Part[]): Group | undefined {
  const calls = new Set(results.map(({ body }) => (body.case === "toolResult" ? body.value.callMessageId : undefined)));
  return groups.findLast(({ messages }) => messages.some(({ messageId }) => calls.has(messageId)));
}

/** Results that wait, as a message. */
function resultsMessage({ promptId: messageId, parts: content, metadataJson, submitRevision }: v1.Prompt): v1.Message {
  const shown = { messageId, role: v1.Role.TOOL, kind: v1.MessageKind.NORMAL, sealedRevision: submitRevision };
  return create(v1.MessageSchema, { ...shown, parts: content, metadataJson });
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

type UIPart = UIMessage["parts"][number];

/** What tells a part from another one at its place. */
function nameOf(part: UIPart | undefined): string {
  return part && "toolCallId" in part ? `${part.type} ${part.toolCallId}` : String(part?.type);
}

/** True for what has its place in the conversation: results move up to their calls. */
function isContent({ body }: v1.Part): boolean {
  return body.case !== "marker" && body.case !== "toolResult";
}

/** True if merging the other value into the one changes nothing. */
function covers(one: unknown, other: unknown): boolean {
  if (!isObject(one) || !isObject(other)) return canonical(one) === canonical(other);
  return Object.entries(other).every(([name, value]) => value === undefined || covers(one[name], value));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The parts for a part of a reply: none for words that are empty, two for a call with its result. */
function partsOf(part: UIPart, number: number): v1.Part[] {
  if (part.type === "text" || part.type === "reasoning") {
    const { type: kind, text, providerMetadata } = part;
    const id = "id" in part && typeof part.id === "string" ? part.id : String(number);
    if (text === "") return kind === "reasoning" ? [hiddenReasoning(id, providerMetadata)] : [];
    const clientId = wordsDraft(kind, id, number);
    const metadata = wordsMetadata(kind, providerMetadata);
    return [kind === "text" ? parts.text(text, { clientId, metadata }) : parts.reasoning(text, { clientId, metadata })];
  }
  return isCall(part) ? callParts(part) : [wholePart(part as UIMessageChunk)];
}

function callParts(part: CallPart): v1.Part[] {
  const { toolName, providerExecuted, dynamic, ...common } = factsOf(part);
  const call = { ...common, ...defined({ providerExecuted, dynamic, title: part["title"] }) };
  const providerMetadata = part["callProviderMetadata"];
  const input = part["input"] ?? part["rawInput"] ?? {};
  const chunk = { ...call, toolName, type: "tool-input-available", input, ...defined({ providerMetadata }) };
  const result = resultOf(part);
  return [
    callPart(chunk as ChunkOf<"tool-input-available">),
    ...(result ? [resultPart(result, { toolName, providerExecuted })] : []),
  ];
}

type CallPart = Record<string, unknown> & { type: string; toolCallId: string; state: string };

function isCall(part: object): part is CallPart {
  return "toolCallId" in part;
}

function factsOf({ type, toolName, toolCallId, providerExecuted, toolMetadata }: CallPart) {
  const dynamic = type === "dynamic-tool";
  return {
    toolName: dynamic ? String(toolName) : type.slice("tool-".length),
    ...(providerExecuted === true ? { providerExecuted } : {}),
    ...(dynamic ? { dynamic } : {}),
    ...defined({ toolCallId, toolMetadata }),
  };
}

/** The result that a call has; undefined if it waits for one. Throws for approvals. */
function resultOf(part: CallPart): ChunkOf<"tool-output-available"> | ChunkOf<"tool-output-error"> | undefined {
  const { state, output, errorText, preliminary } = part;
  const { toolName: _toolName, ...facts } = factsOf(part);
  const common = { ...facts, ...defined({ providerMetadata: part["resultProviderMetadata"] }) };
  switch (state) {
    case "output-available":
      if (preliminary) return undefined;
      return { ...common, type: "tool-output-available", output } as ChunkOf<"tool-output-available">;
    case "output-error":
      return { ...common, type: "tool-output-error", errorText } as ChunkOf<"tool-output-error">;
    case "input-streaming":
    case "input-available":
      return undefined;
    default:
      throw new Error(APPROVALS);
  }
}

/** The results that a reply has, and what is stored of it has not, nor prompts that wait. */
export function newResults(message: UIMessage, { messages }: Group, waiting: readonly v1.Prompt[] = []): v1.Part[] {
  const calls = new Map<string, string>();
  const answered = new Set<string>();
  for (const { messageId, parts: all } of [...messages, ...waiting.map(resultsMessage)]) {
    for (const chunk of all.flatMap((part) => chunksOf(part, undefined))) {
      if (chunk.type === "tool-input-available" || chunk.type === "tool-input-error") {
        calls.set(chunk.toolCallId, messageId);
      } else if (chunk.type === "tool-output-available" || chunk.type === "tool-output-error") {
        answered.add(chunk.toolCallId);
      }
    }
  }
  return message.parts.flatMap((part) => {
    if (!isCall(part)) return [];
    const callMessageId = calls.get(part.toolCallId);
    const result = resultOf(part);
    if (!result || callMessageId === undefined || answered.has(part.toolCallId)) return [];
    return [resultPart(result, factsOf(part), callMessageId)];
  });
}

function defined(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

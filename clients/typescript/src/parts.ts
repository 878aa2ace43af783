/** Messages and parts in few words. Every function makes a plain message of the protocol. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import * as v1 from "./gen/v1.js";

/** A text, a part, or several of both. */
export type Content = string | v1.Part | readonly (string | v1.Part)[];
/** A field that takes any JSON: text is taken as it is, everything else becomes compact JSON. */
export type Json = unknown;

/** The client's fields of a part. */
export interface PartOptions {
  clientId?: string;
  metadata?: Json;
}

/** The client's fields of a message. */
export interface MessageOptions {
  clientId?: string;
  metadata?: Json;
  model?: string;
  provider?: string;
  finish?: MessageInitShape<typeof v1.FinishSchema>;
}

/** JSON as it was given, if it is text already; else as compact JSON. */
export function asJson(value: Json): string;
export function asJson(value: Json | undefined): string | undefined;
export function asJson(value: Json | undefined): string | undefined {
  return value === undefined || typeof value === "string" ? value : JSON.stringify(value);
}

function part(body: v1.Part["body"], options: PartOptions): v1.Part {
  const { clientId, metadata } = options;
  return create(v1.PartSchema, { body, clientId, metadataJson: asJson(metadata) });
}

/** A text. */
export function text(value: string, options: PartOptions = {}): v1.Part {
  return part({ case: "text", value: create(v1.TextPartSchema, { text: value }) }, options);
}

/** Reasoning of a model. */
export function reasoning(value: string, options: PartOptions = {}): v1.Part {
  return part({ case: "reasoning", value: create(v1.ReasoningPartSchema, { text: value }) }, options);
}

/** A call of a tool. Text in `input` is the input as the model wrote it; everything else becomes JSON. */
export function toolCall(callId: string, tool: string, input: Json, options: PartOptions = {}): v1.Part {
  const value = create(v1.ToolCallPartSchema, { callId, tool, inputJson: asJson(input) });
  return part({ case: "toolCall", value }, options);
}

/** The result of a call. */
export function toolResult(
  callId: string,
  output: string,
  options: PartOptions & { status?: v1.ToolResultStatus; callMessageId?: string } = {},
): v1.Part {
  const { status = v1.ToolResultStatus.COMPLETED, callMessageId } = options;
  const value = create(v1.ToolResultPartSchema, { callId, output, status, callMessageId });
  return part({ case: "toolResult", value }, options);
}

/** A block that its provider gets back byte for byte. */
export function opaque(provider: string, kind: string, data: Uint8Array, options: PartOptions = {}): v1.Part {
  return part({ case: "opaque", value: create(v1.OpaquePartSchema, { provider, kind, data }) }, options);
}

/** An image, a document or a sound: its bytes, or where they are. */
export function media(
  mimeType: string,
  source: Uint8Array | string,
  options: PartOptions & { name?: string } = {},
): v1.Part {
  const from =
    typeof source === "string" ? ({ case: "uri", value: source } as const) : ({ case: "data", value: source } as const);
  const value = create(v1.MediaPartSchema, { mimeType, name: options.name, source: from });
  return part({ case: "media", value }, options);
}

/** The usage of a reply: a token is in one count only. */
export function usage(counts: {
  inputTokens?: number;
  outputTokens?: number;
  reasoningTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  totalTokens?: number;
}): v1.Usage {
  const { totalTokens } = counts;
  return create(v1.UsageSchema, {
    inputTokens: BigInt(counts.inputTokens ?? 0),
    outputTokens: BigInt(counts.outputTokens ?? 0),
    reasoningTokens: BigInt(counts.reasoningTokens ?? 0),
    cacheReadTokens: BigInt(counts.cacheReadTokens ?? 0),
    cacheWriteTokens: BigInt(counts.cacheWriteTokens ?? 0),
    totalTokens: totalTokens === undefined ? undefined : BigInt(totalTokens),
  });
}

/** A message to append. */
export function message(role: v1.Role, content: Content, options: MessageOptions = {}): v1.NewMessage {
  const { clientId, metadata, finish } = options;
  return create(v1.NewMessageSchema, {
    role,
    parts: partsOf(content),
    model: options.model,
    provider: options.provider,
    clientId,
    metadataJson: asJson(metadata),
    finish,
  });
}

/** A user's message. */
export function user(content: Content, options: MessageOptions = {}): v1.NewMessage {
  return message(v1.Role.USER, content, options);
}

/** Instructions to the model. */
export function system(content: Content, options: MessageOptions = {}): v1.NewMessage {
  return message(v1.Role.SYSTEM, content, options);
}

/** The results of tools. */
export function tool(content: Content, options: MessageOptions = {}): v1.NewMessage {
  return message(v1.Role.TOOL, content, options);
}

/** What a model's reply says of itself. */
export interface ReplyFacts {
  /** The view that it answers, which makes its usage count. */
  viewToken?: string;
  usage?: v1.Usage;
  /** By default, that it waits for tools if it calls some, else that it has ended. */
  reason?: v1.FinishReason;
}

/** A model's reply. */
export function assistant(content: Content, options: Omit<MessageOptions, "finish"> & ReplyFacts = {}): v1.NewMessage {
  const parts = partsOf(content);
  const calls = parts.some((part) => part.body.case === "toolCall");
  const reason = options.reason ?? (calls ? v1.FinishReason.TOOL_CALLS : v1.FinishReason.STOP);
  const { usage, viewToken } = options;
  const finish = create(v1.FinishSchema, { reason, usage, viewToken });
  return message(v1.Role.ASSISTANT, parts, { ...options, finish });
}

/** An entry that no view shows. With `replace` it is a newer version of the record with its client id. */
export function record(
  kind: string,
  data: string,
  options: { clientId?: string; replace?: boolean } = {},
): v1.NewMessage {
  const { clientId, replace = false } = options;
  return create(v1.NewMessageSchema, {
    role: v1.Role.USER,
    kind: v1.MessageKind.RECORD,
    parts: [part({ case: "record", value: create(v1.RecordPartSchema, { kind, data }) }, {})],
    replaceExisting: replace,
    clientId,
  });
}

/** The parts of a content. */
export function partsOf(content: Content): v1.Part[] {
  const several = typeof content === "string" || !isList(content) ? [content] : content;
  return several.map((one) => (typeof one === "string" ? text(one) : one));
}

function isList(content: Exclude<Content, string>): content is readonly (string | v1.Part)[] {
  return Array.isArray(content);
}

/** The texts of a message, without its other parts. */
export function plainText(message: v1.ViewMessage | v1.Message): string {
  const parts =
    message.$typeName === "longhand.v1.Message"
      ? message.parts
      : message.parts.flatMap((shown) => (shown.part ? [shown.part] : []));
  return parts.map((part) => (part.body.case === "text" ? part.body.value.text : "")).join("");
}

/** A window of which only the size is known, or the name of the model, whose limits the daemon knows. */
export function modelWindow(window: Window | undefined): v1.ModelWindow | undefined {
  if (window === undefined) return undefined;
  if (typeof window === "string") return create(v1.ModelWindowSchema, { model: window });
  const init = typeof window === "number" ? { maxContextTokens: BigInt(window) } : window;
  return create(v1.ModelWindowSchema, init);
}

/** A model's window: its size in tokens, the model's name, or all of its fields. */
export type Window = number | string | MessageInitShape<typeof v1.ModelWindowSchema>;

/**
 * Chunks of the AI SDK as parts of messages, and back.
 *
 * What a model reads has a part of its kind. Everything else (sources, data, metadata) is a marker without a text, which
 * no view shows, and whose metadata has the chunk as it was.
 */

import { create } from "@bufbuild/protobuf";
import type { JSONValue, UIMessageChunk } from "ai";
import * as v1 from "../gen/v1.js";
import { canonical } from "../json.js";
import * as parts from "../parts.js";

/** The name of our metadata, of messages and of parts. */
const OWN = "ai_sdk_ui";
/** The daemon's name of the format: metadata under it, and blocks of it, go back to the SDK as they were. */
const FORMAT = "ai_sdk";

type Members = Record<string, unknown>;
export type ChunkOf<T extends UIMessageChunk["type"]> = Extract<UIMessageChunk, { type: T }>;

/** What a message is to a user interface. */
export interface MessageFacts {
  /** The id of the UI message; the messages of a reply's steps share one. */
  id: string;
  /** A message of a reply that begins no step: it goes on with what is before it. */
  continues?: true;
  /** A user's message without its texts and files, which are its parts. */
  message?: Members;
}

/** Metadata of a message. */
export function messageMetadata(facts: MessageFacts): string {
  return JSON.stringify({ [OWN]: facts });
}

/** What the metadata of a message says; undefined if another writer made it. */
export function messageFacts(metadataJson: string | undefined): MessageFacts | undefined {
  const facts = ownOf(metadataJson) as Partial<MessageFacts> | undefined;
  return typeof facts?.id === "string" ? (facts as MessageFacts) : undefined;
}

function ownOf(metadataJson: string | undefined): Members | undefined {
  if (!metadataJson) return undefined;
  const metadata: unknown = JSON.parse(metadataJson);
  const own = typeof metadata === "object" && metadata !== null ? (metadata as Members)[OWN] : undefined;
  return typeof own === "object" && own !== null ? (own as Members) : undefined;
}

/** Metadata of a part: that of the provider for the SDK's messages, and ours. */
function metadataOf(block: Members, providerMetadata: unknown, own: Members): string | undefined {
  const metadata = {
    ...(providerMetadata === undefined ? {} : { [FORMAT]: { ...block, providerOptions: providerMetadata } }),
    ...(Object.keys(own).length === 0 ? {} : { [OWN]: own }),
  };
  return Object.keys(metadata).length === 0 ? undefined : JSON.stringify(metadata);
}

/** Metadata of a text or of reasoning. */
export function wordsMetadata(kind: "text" | "reasoning", providerMetadata: unknown): string | undefined {
  const own = providerMetadata === undefined ? {} : { providerMetadata };
  return metadataOf({ type: kind, text: null }, providerMetadata, own);
}

/** Reasoning without words, of which only its provider can make anything. */
export function hiddenReasoning(id: string, providerMetadata: unknown): v1.Part {
  return block({ type: "reasoning", text: "", providerOptions: providerMetadata }, { id, providerMetadata });
}

/** The client id of a draft of words, of which chunks have the id in it; the number makes it unique. */
export function wordsDraft(kind: "text" | "reasoning", id: string, number: number): string {
  return `${kind}:${number}:${id.slice(0, 24)}`;
}

/** The id of the chunks of a draft, or of the part that it became. */
export function chunkId(part: { partId: string; clientId?: string | undefined }): string {
  return /^(text|reasoning):\d+:(.+)$/s.exec(part.clientId ?? "")?.[2] ?? part.partId;
}

/** A chunk that no model reads. */
export function marker(chunk: UIMessageChunk): v1.Part {
  const value = create(v1.MarkerPartSchema, { name: chunk.type.slice(0, 100) });
  return create(v1.PartSchema, { body: { case: "marker", value }, metadataJson: JSON.stringify({ [OWN]: chunk }) });
}

/** The part for a chunk that comes whole and belongs to no call. */
export function wholePart(chunk: UIMessageChunk): v1.Part {
  switch (chunk.type) {
    case "file": {
      const { type: _type, url: _url, mediaType: _mediaType, ...own } = chunk;
      return filePart(chunk, own);
    }
    case "reasoning-file": {
      const { type, url: data, mediaType, providerMetadata } = chunk;
      return block({ type, data, mediaType, providerOptions: providerMetadata }, { ...chunk });
    }
    case "custom": {
      const { type, kind, providerMetadata } = chunk;
      return block({ type, kind, providerOptions: providerMetadata }, { ...chunk });
    }
    case "tool-approval-request":
    case "tool-approval-response":
    case "tool-output-denied":
      throw new Error(APPROVALS);
    case "reset-step":
    case "steering-message":
      throw new Error(`a stream with ${chunk.type} cannot be kept`);
    default:
      return marker(chunk);
  }
}

/** Why approvals are refused. */
export const APPROVALS = "approvals of the AI SDK are not kept: ask with `session.ask` in the tool's execute";

/** The metadata of a call, whose input is `written`. */
export function callMetadata(
  chunk: ChunkOf<"tool-input-available"> | ChunkOf<"tool-input-error">,
  written: string,
): string | undefined {
  const { toolCallId, toolName, input, ...rest } = chunk;
  const own: Members = { ...rest };
  if (canonical(parsed(written)) !== canonical(input)) own["input"] = input;
  return metadataOf({ type: "tool-call", toolCallId, toolName, input: null }, rest.providerMetadata, own);
}

/** A call that came whole. */
export function callPart(chunk: ChunkOf<"tool-input-available"> | ChunkOf<"tool-input-error">): v1.Part {
  const { toolCallId, toolName, input, providerExecuted, providerMetadata } = chunk;
  if (providerExecuted) {
    // Its provider wants it back in the reply, with its result.
    const call = {
      type: "tool-call",
      toolCallId,
      toolName,
      input,
      providerExecuted,
      providerOptions: providerMetadata,
    };
    return block(call, { ...chunk });
  }
  const written = typeof input === "string" ? input : JSON.stringify(input ?? {});
  return parts.toolCall(toolCallId, toolName, written, { metadata: callMetadata(chunk, written) });
}

/** The result of a call. */
export function resultPart(
  chunk: ChunkOf<"tool-output-available"> | ChunkOf<"tool-output-error">,
  call: { toolName: string; providerExecuted?: boolean | undefined },
  callMessageId?: string,
): v1.Part {
  const { COMPLETED, ERROR } = v1.ToolResultStatus;
  const { toolCallId, providerMetadata } = chunk;
  const failed = chunk.type === "tool-output-error";
  const value = failed ? chunk.errorText : chunk.output;
  if (call.providerExecuted) {
    const type = failed ? "error-text" : typeof value === "string" ? "text" : "json";
    const output = { type, value: value ?? null };
    const result = {
      type: "tool-result",
      toolCallId,
      toolName: call.toolName,
      output,
      providerOptions: providerMetadata,
    };
    return block(result, { ...chunk });
  }
  const { output: _output, errorText: _errorText, ...own } = chunk as Members & UIMessageChunk;
  const isText = typeof value === "string";
  if (!isText) own["json"] = value === undefined ? "none" : "json";
  const metadata = JSON.stringify({ [OWN]: own });
  const status = failed ? ERROR : COMPLETED;
  return parts.toolResult(toolCallId, isText ? value : (JSON.stringify(value) ?? ""), {
    status,
    metadata,
    callMessageId,
  });
}

/** A file. */
export function filePart(
  file: { url: string; mediaType: string; filename?: string | undefined },
  own: Members,
): v1.Part {
  const [prefix] = /^data:[^,]*;base64,/.exec(file.url) ?? [];
  const source =
    prefix === undefined ? file.url : Uint8Array.from(atob(file.url.slice(prefix.length)), (c) => c.charCodeAt(0));
  // The form of the address, for what would be written otherwise.
  const kept = typeof source === "string" || file.url === dataUrl(file.mediaType, source) ? {} : { prefix };
  const all = { ...own, ...kept };
  const metadata = Object.keys(all).length === 0 ? undefined : { [OWN]: all };
  return parts.media(file.mediaType, source, { name: file.filename ?? "", metadata });
}

/** The address of a file. */
export function fileUrl(media: v1.MediaPart, metadataJson: string | undefined): string {
  if (media.source.case === "uri") return media.source.value;
  const bytes = media.source.case === "data" ? media.source.value : new Uint8Array();
  const prefix = ownOf(metadataJson)?.["prefix"];
  return dataUrl(media.mimeType, bytes, typeof prefix === "string" ? prefix : undefined);
}

function dataUrl(mediaType: string, bytes: Uint8Array, prefix = `data:${mediaType};base64,`): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return prefix + btoa(text);
}

/** A block of a reply that only the SDK's messages have. */
function block(content: Members, own: Members): v1.Part {
  const data = new TextEncoder().encode(JSON.stringify(content));
  return parts.opaque(FORMAT, String(content["type"]), data, { metadata: { [OWN]: own } });
}

/** The chunks of a part, of which the first `skip` bytes of words were sent. */
export function chunksOf(shown: v1.Part, skip: number | undefined): UIMessageChunk[] {
  const own = ownOf(shown.metadataJson);
  const id = chunkId(shown);
  switch (shown.body.case) {
    case "text":
    case "reasoning": {
      const kind = shown.body.case;
      const delta = skip ? after(shown.body.value.text, skip) : shown.body.value.text;
      const provider = own?.["providerMetadata"];
      const end = { type: `${kind}-end`, id, ...(provider === undefined ? {} : { providerMetadata: provider }) };
      const begin = skip === undefined ? [{ type: `${kind}-start`, id }] : [];
      const words = delta === "" ? [] : [{ type: `${kind}-delta`, id, delta }];
      return [...begin, ...words, end] as UIMessageChunk[];
    }
    case "toolCall": {
      const { callId: toolCallId, tool: toolName, inputJson } = shown.body.value;
      const { input = parsed(inputJson), ...rest } = own ?? { type: "tool-input-available", dynamic: true };
      return [{ ...rest, toolCallId, toolName, input } as ChunkOf<"tool-input-available">];
    }
    case "toolResult":
      return [resultChunk(shown.body.value, own)];
    case "media": {
      const { mimeType: mediaType } = shown.body.value;
      const { prefix: _prefix, ...rest } = own ?? {};
      return [
        { ...rest, type: "file", url: fileUrl(shown.body.value, shown.metadataJson), mediaType } as UIMessageChunk,
      ];
    }
    case "marker": {
      const { text } = shown.body.value;
      if (own) return [own as UIMessageChunk];
      return text === "" ? [] : whole(id, text);
    }
    case "opaque": {
      const { provider, kind } = shown.body.value;
      if (provider !== FORMAT || !own) return [];
      if (kind !== "reasoning") return [own as UIMessageChunk];
      const providerMetadata = own["providerMetadata"] as ChunkOf<"reasoning-start">["providerMetadata"];
      const hidden = String(own["id"]);
      return [
        { type: "reasoning-start", id: hidden, ...(providerMetadata ? { providerMetadata } : {}) },
        { type: "reasoning-end", id: hidden },
      ];
    }
    default:
      return [];
  }
}

function resultChunk(result: v1.ToolResultPart, own: Members | undefined): UIMessageChunk {
  const { callId: toolCallId, output: text, status } = result;
  if (status !== v1.ToolResultStatus.COMPLETED) {
    const rest = own ?? { dynamic: true };
    return { ...rest, type: "tool-output-error", toolCallId, errorText: text } as UIMessageChunk;
  }
  const { json, ...rest } = own ?? { type: "tool-output-available", dynamic: true };
  const output = json === "json" ? parsed(text) : json === "none" ? undefined : text;
  return { ...rest, type: "tool-output-available", toolCallId, output } as UIMessageChunk;
}

function whole(id: string, delta: string): UIMessageChunk[] {
  return [
    { type: "text-start", id },
    { type: "text-delta", id, delta },
    { type: "text-end", id },
  ];
}

/** The text behind some of its bytes. */
export function after(text: string, bytes: number): string {
  return new TextDecoder().decode(new TextEncoder().encode(text).subarray(bytes));
}

/** The value of a JSON text; the text itself if it is none, as that of a call that was cut off. */
export function parsed(text: string): JSONValue {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** How the client ids of drafts begin whose tools the interface has types for. */
export const STATIC = "tool:";

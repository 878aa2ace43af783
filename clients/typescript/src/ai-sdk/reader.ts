/** A reply, as the chunks of a UI message: whole, or as it comes. */

import type { UIMessageChunk } from "ai";
import * as v1 from "../gen/v1.js";
import { after, chunkId, chunksOf, messageFacts, STATIC } from "./pieces.js";

/**
 * What was sent of a reply, so that every state of it, read at any time, gives what is new in it and nothing twice.
 * Drafts and their parts share ids; the bytes of their words are counted.
 */
export class ReplyReader {
  readonly id: string;
  private begun = false;
  /** Its messages; those that are no steps have none to end. */
  private readonly steps = new Map<string, "open" | "ended">();
  /** The bytes that were sent of each draft; those of closed parts do not matter any more. */
  private readonly sent = new Map<string, number | "whole">();
  private readonly calls = new Set<string>();
  /** The ids of chunks, by those of drafts. */
  private readonly ids = new Map<string, string>();

  constructor(id: string) {
    this.id = id;
  }

  /** True if the message is one of the reply. */
  has(messageId: string): boolean {
    return this.steps.has(messageId);
  }

  /** The chunks for what is new in a message; its drafts come after its parts. */
  absorb(message: v1.Message, drafts: readonly v1.Draft[]): UIMessageChunk[] {
    const chunks: UIMessageChunk[] = [];
    if (!this.begun) chunks.push({ type: "start", messageId: this.id });
    this.begun = true;
    if (!this.steps.has(message.messageId)) {
      const begins = message.role === v1.Role.ASSISTANT && !messageFacts(message.metadataJson)?.continues;
      this.steps.set(message.messageId, begins ? "open" : "ended");
      if (begins) chunks.push({ type: "start-step" });
    }
    for (const part of message.parts) chunks.push(...this.part(part));
    for (const draft of drafts) chunks.push(...this.draft(draft));
    if (message.sealedRevision !== undefined && this.steps.get(message.messageId) === "open") {
      this.steps.set(message.messageId, "ended");
      chunks.push({ type: "finish-step" });
    }
    return chunks;
  }

  /** What is known without its chunks being sent again: the reader of the stream has them already. */
  skip(message: v1.Message): void {
    this.absorb(message, []);
  }

  /** The chunks for words that come; undefined if what is before them is not known. */
  delta(frame: v1.DraftDelta): UIMessageChunk[] | undefined {
    const sent = this.sent.get(frame.partId);
    if (sent === "whole") return [];
    const offset = Number(frame.offsetBytes);
    if (sent === undefined || offset > sent) return undefined;
    return this.words(frame, frame.delta, sent - offset);
  }

  private part(part: v1.Part): UIMessageChunk[] {
    const sent = this.sent.get(part.partId);
    if (sent === "whole") return [];
    this.sent.set(part.partId, "whole");
    const { body } = part;
    // The SDK knows only calls of the message itself.
    if (body.case === "toolResult" && !this.calls.has(body.value.callId)) return [];
    if (body.case === "toolCall") this.calls.add(body.value.callId);
    const chunks = chunksOf(part, sent);
    for (const chunk of chunks) if (chunk.type === "tool-input-available") this.calls.add(chunk.toolCallId);
    return chunks;
  }

  private draft(draft: v1.Draft): UIMessageChunk[] {
    const { partId, kind, callId, tool, text } = draft;
    const sent = this.sent.get(partId);
    if (sent === "whole") return [];
    if (sent !== undefined) return this.words(draft, text, sent);
    this.sent.set(partId, 0);
    const dynamic = draft.clientId?.startsWith(STATIC) ? {} : { dynamic: true };
    const id = chunkId(draft);
    this.ids.set(partId, id);
    const begin: Partial<Record<v1.DraftKind, UIMessageChunk>> = {
      [v1.DraftKind.TEXT]: { type: "text-start", id },
      [v1.DraftKind.REASONING]: { type: "reasoning-start", id },
      [v1.DraftKind.TOOL_INPUT]: { type: "tool-input-start", toolCallId: callId, toolName: tool, ...dynamic },
    };
    if (kind === v1.DraftKind.TOOL_INPUT) this.calls.add(callId);
    const first = begin[kind];
    return [...(first ? [first] : []), ...this.words(draft, text, 0)];
  }

  /** The words behind the first bytes of a text. */
  private words({ partId, kind, callId }: v1.Draft | v1.DraftDelta, text: string, skip: number): UIMessageChunk[] {
    const delta = after(text, skip);
    if (delta === "") return [];
    const sent = this.sent.get(partId);
    const id = this.ids.get(partId) ?? partId;
    this.sent.set(partId, (typeof sent === "number" ? sent : 0) + new TextEncoder().encode(delta).length);
    switch (kind) {
      case v1.DraftKind.TOOL_INPUT:
        return [{ type: "tool-input-delta", toolCallId: callId, inputTextDelta: delta }];
      case v1.DraftKind.REASONING:
        return [{ type: "reasoning-delta", id, delta }];
      // The SDK takes an output that is whole.
      case v1.DraftKind.TOOL_OUTPUT:
        return [];
      default:
        return [{ type: "text-delta", id, delta }];
    }
  }
}

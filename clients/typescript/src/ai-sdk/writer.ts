/** A reply, as the SDK streams it, into a session: a message for each step, with the results of its calls. */

import type { UIMessageChunk } from "ai";
import * as v1 from "../gen/v1.js";
import type { Reply } from "../reply.js";
import type { Session } from "../session.js";
import {
  type ChunkOf,
  callMetadata,
  callPart,
  hiddenReasoning,
  marker,
  messageMetadata,
  resultPart,
  STATIC,
  wholePart,
  wordsDraft,
  wordsMetadata,
} from "./pieces.js";

/** Words that are being written. */
interface Words {
  kind: "text" | "reasoning";
  draft: string;
  text: string;
  providerMetadata: unknown;
}

/** A call whose input is being written, or was. */
interface Call {
  toolName: string;
  providerExecuted?: boolean | undefined;
  dynamic?: boolean | undefined;
  draft?: string;
  written: string;
}

/** The writer of one UI message. */
export class StepWriter {
  readonly id: string;
  /** The words of an error that the stream had. */
  error: string | undefined;
  aborted = false;
  private readonly session: Session;
  private readonly view: () => { token: string } | undefined;
  private reply: Reply | undefined;
  private finish: v1.FinishReason | undefined;
  private first: v1.Part | undefined;
  private drafts = 0;
  private readonly words = new Map<string, Words>();
  private readonly calls = new Map<string, Call>();

  constructor(session: Session, id: string, view: () => { token: string } | undefined) {
    this.session = session;
    this.id = id;
    this.view = view;
  }

  /** The usages of the steps, as far as they are known. */
  readonly usages: v1.Usage[] = [];
  private steps = 0;

  /** Writes a chunk. */
  async take(chunk: UIMessageChunk): Promise<void> {
    switch (chunk.type) {
      case "start-step":
        await this.seal();
        this.open();
        return;
      case "finish-step":
        // What follows may belong to it: it is sealed by `seal`, by the next step, or at the end.
        return;
      case "start":
      case "finish":
        if (chunk.type === "finish") this.finish = reasons[chunk.finishReason ?? ""];
        if (chunk.messageMetadata !== undefined) {
          const metadata = marker({ type: "message-metadata", messageMetadata: chunk.messageMetadata });
          // The first step begins behind it.
          if (chunk.type === "start") this.first = metadata;
          else await this.open().part(metadata);
        }
        return;
      case "abort":
        this.aborted = true;
        return;
      case "error":
        this.error = chunk.errorText;
        return;
      default:
        await this.content(chunk);
    }
  }

  /** Seals the message of a step that has ended; a view has the step then. */
  async seal(): Promise<void> {
    const { reply } = this;
    if (!reply) return;
    this.reply = undefined;
    const { ABORTED, ERROR, TOOL_CALLS } = v1.FinishReason;
    // A call that its provider ran waits for nobody.
    const calls = [...this.calls.values()].some(({ providerExecuted }) => !providerExecuted);
    const usual = calls ? TOOL_CALLS : this.finish;
    const reason = this.aborted ? ABORTED : this.error !== undefined ? ERROR : usual;
    this.calls.clear();
    this.words.clear();
    await reply.finish({ reason, usage: this.usages[this.steps++], detail: this.error });
  }

  /** Ends the message. */
  end(): Promise<void> {
    return this.seal();
  }

  /** Ends the message because of a failure. */
  async abort(failure: unknown): Promise<void> {
    const { reply } = this;
    this.reply = undefined;
    await reply?.abort(failure);
  }

  private open(): Reply {
    if (this.reply) return this.reply;
    this.reply = this.session.openReply(this.view(), { metadata: messageMetadata({ id: this.id }) });
    // What fails fails what follows, too.
    if (this.first) this.reply.part(this.first).catch(() => {});
    this.first = undefined;
    return this.reply;
  }

  private async content(chunk: UIMessageChunk): Promise<void> {
    switch (chunk.type) {
      case "text-start":
      case "reasoning-start":
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end":
        return this.wordsChunk(chunk);
      case "tool-input-start":
      case "tool-input-delta":
        return this.inputChunk(chunk);
      case "tool-input-available":
      case "tool-input-error":
        return this.call(chunk);
      case "tool-output-available":
      case "tool-output-error":
        return this.result(chunk);
      default:
        // Data that is transient is for whoever reads the stream of the agent itself.
        if (!("transient" in chunk && chunk.transient)) await this.open().part(wholePart(chunk));
    }
  }

  private async wordsChunk(chunk: UIMessageChunk & { id: string; providerMetadata?: unknown }): Promise<void> {
    const [kind, event] = chunk.type.split("-") as ["text" | "reasoning", string];
    const key = `${kind}:${chunk.id}`;
    let words = this.words.get(key);
    if (event === "start" || !words) {
      words = { kind, draft: wordsDraft(kind, chunk.id, this.drafts++), text: "", providerMetadata: undefined };
      this.words.set(key, words);
    }
    words.providerMetadata = chunk.providerMetadata ?? words.providerMetadata;
    const reply = this.open();
    if ("delta" in chunk && typeof chunk.delta === "string" && chunk.delta !== "") {
      words.text += chunk.delta;
      await (kind === "text" ? reply.text(chunk.delta, words.draft) : reply.reasoning(chunk.delta, words.draft));
    }
    if (event !== "end") return;
    this.words.delete(key);
    const { providerMetadata } = words;
    if (words.text !== "") {
      await reply.endDraft(words.draft, { metadata: wordsMetadata(kind, providerMetadata) });
    } else if (kind === "reasoning" && providerMetadata !== undefined) {
      await reply.part(hiddenReasoning(chunk.id, providerMetadata));
    }
  }

  private async inputChunk(chunk: ChunkOf<"tool-input-start"> | ChunkOf<"tool-input-delta">): Promise<void> {
    if (chunk.type === "tool-input-start") {
      const { toolCallId, toolName, providerExecuted, dynamic } = chunk;
      this.calls.set(toolCallId, { toolName, providerExecuted, dynamic, written: "" });
      return;
    }
    const call = this.calls.get(chunk.toolCallId);
    // The call of a provider comes whole, because its block does.
    if (!call || call.providerExecuted || chunk.inputTextDelta === "") return;
    call.draft ??= `${call.dynamic ? "call:" : STATIC}${chunk.toolCallId.slice(0, 60)}:${this.drafts++}`;
    call.written += chunk.inputTextDelta;
    await this.open().toolInput(chunk.toolCallId, call.toolName, chunk.inputTextDelta, call.draft);
  }

  private async call(chunk: ChunkOf<"tool-input-available"> | ChunkOf<"tool-input-error">): Promise<void> {
    const { toolCallId, toolName, providerExecuted } = chunk;
    const begun = this.calls.get(toolCallId);
    this.calls.set(toolCallId, { toolName, providerExecuted, written: "" });
    const reply = this.open();
    if (begun?.draft) await reply.endDraft(begun.draft, { metadata: callMetadata(chunk, begun.written) });
    else await reply.part(callPart(chunk));
  }

  private async result(chunk: ChunkOf<"tool-output-available"> | ChunkOf<"tool-output-error">): Promise<void> {
    if ("preliminary" in chunk && chunk.preliminary) return;
    const call = this.calls.get(chunk.toolCallId) ?? { toolName: "tool" };
    await this.open().part(resultPart(chunk, call));
  }
}

const reasons: Record<string, v1.FinishReason> = {
  stop: v1.FinishReason.STOP,
  length: v1.FinishReason.LENGTH,
  "content-filter": v1.FinishReason.CONTENT_FILTER,
  "tool-calls": v1.FinishReason.TOOL_CALLS,
  error: v1.FinishReason.ERROR,
};

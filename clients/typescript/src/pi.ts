/**
 * An extension of the coding agent pi that lets Longhand do the compaction.
 *
 * `~/.pi/agent/extensions/longhand.ts`: `export { default } from "file:///…/node_modules/longhand/dist/pi.js";`
 *
 * Every conversation of pi is mirrored in a session, branches included. Each request to the model has the session's view;
 * where pi would compact, by itself or by `/compact`, Longhand's summary and the entry where its tail begins become pi's
 * own compaction entry; and what Longhand compacted in the background becomes one as soon as pi is idle. So pi shows
 * each compaction as its own, and another agent or a person on the session sees the same conversation.
 *
 * @module
 */

import { createHash } from "node:crypto";
import type { Client } from "./client.js";
import { NotCompacted } from "./compaction.js";
import * as v1 from "./gen/v1.js";
import { connect } from "./index.js";
import { type Done, inputOf, type Limits, Mirror, type Mirrored, textOfFailure, windowOf } from "./mirror.js";
import * as parts from "./parts.js";
import type { View } from "./session.js";

// The interface of pi, as far as it is used: that of 0.73 and of what came after it.

interface PiBlock {
  type: string;
  text?: string;
  thinking?: string;
  thinkingSignature?: string;
  id?: string;
  name?: string;
  arguments?: unknown;
  data?: string;
  mimeType?: string;
}

interface PiMessage {
  role: string;
  timestamp?: number;
  content?: string | PiBlock[];
  [member: string]: unknown;
}

interface PiEntry {
  type: string;
  id: string;
  message?: PiMessage;
  [member: string]: unknown;
}

interface PiContext {
  hasUI: boolean;
  cwd: string;
  ui: {
    notify(message: string, type?: "info" | "warning" | "error"): void;
    setStatus(key: string, text: string | undefined): void;
  };
  sessionManager: { getSessionId(): string; getBranch(): unknown[] };
  model: { contextWindow: number; maxTokens: number } | undefined;
  isIdle(): boolean;
  compact(options?: { onComplete?: () => void; onError?: (error: Error) => void }): void;
}

interface PiCompaction {
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  details?: unknown;
}

interface Handlers {
  context(event: { messages: unknown[] }, ctx: PiContext): Promise<{ messages: never[] } | undefined>;
  message_end(event: { message: unknown }, ctx: PiContext): Promise<undefined>;
  agent_end(event: object, ctx: PiContext): undefined;
  session_before_compact(
    event: { preparation: { tokensBefore: number }; customInstructions?: string | undefined; signal: AbortSignal },
    ctx: PiContext,
  ): Promise<{ cancel: true } | { compaction: PiCompaction } | undefined>;
  session_compact(event: object, ctx: PiContext): undefined;
  session_start(event: object, ctx: PiContext): undefined;
  session_shutdown(event: object, ctx: PiContext): Promise<undefined>;
}

/** What pi gives an extension. */
export interface PiExtensionApi {
  // biome-ignore lint/suspicious/noExplicitAny: pi has an overload for each event.
  on(event: any, handler: any): void;
}

/** How the extension works. */
export interface PiOptions {
  /** Connects to the daemon; by default as `connect` of `longhand` does. */
  client?: () => Promise<Client>;
  /** The preset of the sessions, which decides when to compact, and what: `pi` by default. */
  preset?: string;
  /** The time that a request to the model waits for a compaction that is needed; 30 seconds by default. */
  waitMs?: number;
}

/** The name of pi in the client ids of sessions, and of what our metadata has. */
const NAME = "pi";
const STATUS = "longhand";
/** The time after a reply in which pi decides whether it compacts by itself. */
const QUIET_MS = 200;
/** How often is looked whether pi has disposed of its session. */
const WATCH_MS = 500;
/**
 * The most that pi up to 0.73 asks a model for, whatever its limit is. Later versions ask for what fits; a reply that
 * ended at this length may have been cut off by either, and is not taken for one that the view left no room for.
 */
const OUTPUT_TOKENS_MAX = 32_000;

/** The extension, with options. */
export function longhandExtension(options: PiOptions = {}): (pi: PiExtensionApi) => void {
  return (pi) => {
    const own = new Extension(options);
    const on = <E extends keyof Handlers>(event: E, handler: Handlers[E]) => pi.on(event, handler);
    on("session_start", (_event, ctx) => own.begin(ctx));
    on("context", (event, ctx) => own.context(event.messages as PiMessage[], ctx));
    on("message_end", (event, ctx) => own.messageEnd(event.message as PiMessage, ctx));
    on("agent_end", (_event, ctx) => own.idle(ctx));
    on("session_before_compact", (event, ctx) => own.beforeCompact(event, ctx));
    on("session_compact", () => own.compacted());
    on("session_shutdown", () => own.end());
  };
}

export default longhandExtension();

/** One conversation of pi. */
interface Conversation {
  id: string;
  mirror: Mirror;
  following: AbortController;
  /** False once following failed; the next request that succeeds begins again. */
  followed: boolean;
}

class Extension {
  private readonly options: PiOptions;
  private client: Promise<Client> | undefined;
  private conversation: Conversation | undefined;
  private view: View | undefined;
  /** The newest summary that pi has no entry of. */
  private pending: Done | undefined;
  private recording = false;
  /** pi is about to write an entry: two compactions of it at once are one too many. */
  private compacting = false;
  /** Compactions of which pi has an entry, or is about to. */
  private readonly recorded = new Set<string>();

  constructor(options: PiOptions) {
    this.options = options;
  }

  begin(ctx: PiContext): undefined {
    this.mirror(ctx);
    this.followAgain(ctx);
  }

  /** The messages of the next request: the view. */
  async context(messages: PiMessage[], ctx: PiContext): Promise<{ messages: never[] } | undefined> {
    const mirror = this.mirror(ctx);
    try {
      // The model may have been changed since the session was made, here or before a restart.
      await mirror.fit(limitsOf(ctx));
      const conversation = conversationOf(ctx, messages);
      await mirror.write(conversation.map(({ mirrored }) => mirrored));
      const view = await mirror.view({ overflow: v1.OverflowAction.WAIT, waitMs: this.options.waitMs ?? 30_000 });
      this.view = view;
      this.followAgain(ctx);
      const originals = new Map(conversation.map(({ mirrored, message }) => [mirrored.key, message]));
      return { messages: view.messages.flatMap((shown) => piMessages(shown, mirror, originals)) as never[] };
    } catch (failure) {
      // Without Longhand pi goes on with what it has.
      ctx.ui.notify(`Longhand: ${textOfFailure(failure)}`, "error");
      return undefined;
    }
  }

  /** A reply belongs to the view that was served for it, whose usage then counts. */
  async messageEnd(message: PiMessage, ctx: PiContext): Promise<undefined> {
    if (message.role !== "assistant" || !isKept(message)) return;
    const mirrored = mirroredOf(message);
    if (mirrored.message.finish && this.view) mirrored.message.finish.viewToken = this.view.token;
    // If it cannot be written now, the next request writes it.
    await this.mirror(ctx)
      .add(mirrored)
      .catch(() => {});
  }

  /** Makes pi's own entry of what Longhand did in the background, once pi is idle. */
  idle(ctx: PiContext): undefined {
    if (this.recording || !this.pending) return;
    this.recording = true;
    const record = () => {
      if (!this.pending || !isActive(ctx)) {
        this.recording = false;
      } else if (ctx.isIdle() && !this.compacting) {
        ctx.compact({
          onComplete: () => {
            this.recording = false;
            // Another compaction may have ended meanwhile.
            if (!this.isRecorded()) this.idle(ctx);
          },
          onError: () => {
            this.recording = false;
          },
        });
      } else {
        setTimeout(record, QUIET_MS).unref();
      }
    };
    setTimeout(record, QUIET_MS).unref();
  }

  async beforeCompact(
    event: Parameters<Handlers["session_before_compact"]>[0],
    ctx: PiContext,
  ): Promise<{ cancel: true } | { compaction: PiCompaction } | undefined> {
    const mirror = this.mirror(ctx);
    const { customInstructions, signal, preparation } = event;
    this.compacting = true;
    try {
      // pi writes its log a little later than it says that a message has ended.
      const conversation = conversationOf(ctx, []);
      await mirror.write(
        conversation.map(({ mirrored }) => mirrored),
        { grow: true },
      );
      const waiting = this.pending;
      const done = waiting && !customInstructions ? waiting : await mirror.compact(customInstructions, signal);
      if (done.summary === undefined) throw new NotCompacted("outputs were shortened, and a summary was not needed");
      const view = await mirror.view();
      const firstKept = view.messages.map((shown) => mirror.keyOf(shown)).find((key) => key !== undefined);
      const entry = conversation.find(({ mirrored }) => mirrored.key === firstKept)?.entryId;
      const { compactionId, sessionId, outcome } = done.compaction;
      this.recorded.add(compactionId);
      // A summary with instructions stands for the one that waited, too.
      if (waiting) this.recorded.add(waiting.compaction.compactionId);
      return {
        compaction: {
          summary: done.summary,
          // No entry has this id: then pi keeps none, as the view does.
          firstKeptEntryId: entry ?? compactionId,
          tokensBefore: Number(outcome?.contextTokensBefore ?? preparation.tokensBefore),
          details: { longhand: { compactionId, sessionId } },
        },
      };
    } catch (failure) {
      if (signal.aborted) return { cancel: true };
      if (failure instanceof NotCompacted) {
        ctx.ui.notify(`Longhand did not compact: ${failure.message}`, "info");
        return { cancel: true };
      }
      ctx.ui.notify(`Longhand: ${textOfFailure(failure)}`, "error");
      return undefined;
    } finally {
      this.compacting = false;
    }
  }

  /** An entry was written: the newest summary may be another one by now, which waits for its own. */
  compacted(): undefined {
    if (this.isRecorded()) this.pending = undefined;
  }

  private isRecorded(): boolean {
    return this.pending === undefined || this.recorded.has(this.pending.compaction.compactionId);
  }

  async end(): Promise<undefined> {
    this.conversation?.following.abort();
    this.conversation = undefined;
    const client = this.client;
    this.client = undefined;
    (await client?.catch(() => undefined))?.close();
  }

  private mirror(ctx: PiContext): Mirror {
    const id = ctx.sessionManager.getSessionId();
    if (this.conversation?.id === id) return this.conversation.mirror;
    this.conversation?.following.abort();
    this.view = undefined;
    this.pending = undefined;
    const following = new AbortController();
    const limits = limitsOf(ctx);
    const mirror = new Mirror(() => this.connected(), `${NAME}:`, `${NAME}:${id}`, {
      preset: this.options.preset ?? NAME,
      metadata: { agent: NAME, cwd: ctx.cwd },
      ...(limits ? { window: windowOf(limits) } : {}),
    });
    this.conversation = { id, mirror, following, followed: false };
    const watch = setInterval(() => {
      if (!isActive(ctx)) void this.end();
    }, WATCH_MS).unref();
    following.signal.addEventListener("abort", () => clearInterval(watch));
    return mirror;
  }

  /** The client; a daemon that was not there is asked again. */
  private connected(): Promise<Client> {
    if (!this.client) {
      const client = this.options.client?.() ?? connect({ actor: NAME });
      this.client = client;
      client.catch(() => {
        if (this.client === client) this.client = undefined;
      });
    }
    return this.client;
  }

  private followAgain(ctx: PiContext): void {
    const { conversation } = this;
    if (!conversation || conversation.followed) return;
    conversation.followed = true;
    void this.follow(conversation.mirror, conversation.following.signal, ctx).finally(() => {
      conversation.followed = false;
    });
  }

  /** Shows what happens to the session in pi's interface. */
  private async follow(mirror: Mirror, signal: AbortSignal, ctx: PiContext): Promise<void> {
    const kinds = [
      v1.EventKind.COMPACTION_STARTED,
      v1.EventKind.COMPACTED,
      v1.EventKind.COMPACTION_FAILED,
      v1.EventKind.COMPACTION_CANCELLED,
      v1.EventKind.COMPACTION_UNDONE,
    ];
    try {
      const session = await mirror.session();
      for await (const { body } of session.events({ kinds, signal })) {
        if (body.case === "compactionStarted") {
          ctx.ui.setStatus(STATUS, "Longhand compacts…");
          continue;
        }
        ctx.ui.setStatus(STATUS, undefined);
        if (body.case === "compactionUndone") this.pending = undefined;
        if (body.case === "compactionFailed") {
          ctx.ui.notify(`Longhand could not compact: ${body.value.failure?.message}`, "warning");
        }
        if (body.case !== "compacted") continue;
        const { compactionId, outcome } = body.value;
        const tokens = `${outcome?.estimatedTokensBefore} to ${outcome?.estimatedTokensAfter} tokens`;
        ctx.ui.notify(`Longhand compacted the conversation: ${tokens}`, "info");
        const { compaction } = await session.call(v1.CompactionService.method.getCompaction, { compactionId });
        if (!compaction?.outcome?.summaryMessageId || this.recorded.has(compactionId)) continue;
        this.pending = await mirror.done(session, compaction);
        if (ctx.isIdle()) this.idle(ctx);
      }
    } catch (failure) {
      if (!signal.aborted && isActive(ctx)) ctx.ui.notify(`Longhand: ${textOfFailure(failure)}`, "error");
    }
  }
}

/**
 * False once pi's session was disposed of. Extensions are not told, but every use of its context throws; a program that
 * has pi as a library would not end while the session is followed.
 */
function isActive(ctx: PiContext): boolean {
  try {
    ctx.isIdle();
    return true;
  } catch {
    return false;
  }
}

// Messages of pi in the session

/** A message of pi's conversation. */
interface Kept {
  mirrored: Mirrored;
  message: PiMessage;
  /** The entry of pi's log; undefined until it is written. */
  entryId: string | undefined;
}

/** The limits of the model that answers next, as pi uses them. */
function limitsOf({ model }: PiContext): Limits | undefined {
  if (!model?.contextWindow) return undefined;
  return { context: model.contextWindow, output: Math.min(model.maxTokens ?? 0, OUTPUT_TOKENS_MAX) };
}

/** The conversation: the branch of pi's log, whatever pi compacted, and what the next request has that is not yet there. */
function conversationOf(ctx: PiContext, messages: readonly PiMessage[]): Kept[] {
  const kept: Kept[] = [];
  const keys = new Map<string, number>();
  const keep = (message: PiMessage, entryId: string | undefined) => {
    const mirrored = mirroredOf(message);
    const count = (keys.get(mirrored.key) ?? 0) + 1;
    keys.set(mirrored.key, count);
    if (count > 1) mirrored.key += `.${count}`;
    kept.push({ mirrored, message, entryId });
  };
  for (const entry of ctx.sessionManager.getBranch() as PiEntry[]) {
    const message = messageOf(entry);
    if (message && isKept(message)) keep(message, entry.id);
  }
  for (const message of messages) {
    if (isKept(message) && !keys.has(keyOf(message))) keep(message, undefined);
  }
  return kept;
}

/** The message of an entry; undefined for entries that no request has. */
function messageOf(entry: PiEntry): PiMessage | undefined {
  if (entry.type === "message") return entry.message;
  const timestamp = Date.parse(String(entry["timestamp"]));
  const { content, customType, display, details, summary, fromId } = entry as unknown as Record<string, never>;
  if (entry.type === "custom_message") return { role: "custom", customType, content, display, details, timestamp };
  if (entry.type === "branch_summary" && summary) return { role: "branchSummary", summary, fromId, timestamp };
  return undefined;
}

/** True for what a model sees. A reply that failed is sent again. */
function isKept(message: PiMessage): boolean {
  if (message.role === "assistant") {
    const { stopReason, content } = message;
    return stopReason !== "error" && !(stopReason === "aborted" && content?.length === 0);
  }
  if (message.role === "bashExecution") return message["excludeFromContext"] !== true;
  return ["user", "toolResult", "custom", "branchSummary"].includes(message.role);
}

function blocksOf(message: PiMessage): PiBlock[] {
  const { content } = message;
  return typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
}

/** The same whenever the message is seen: live, and read from pi's log. */
function keyOf(message: PiMessage): string {
  const { role, timestamp } = message;
  const blocks = blocksOf(message).map(({ type, text, thinking, id, data }) => [
    type,
    text ?? thinking ?? id,
    data?.length,
  ]);
  const rest = [message["toolCallId"], message["customType"], message["command"], message["summary"]];
  const hash = createHash("sha256")
    .update(JSON.stringify([role, blocks, rest]))
    .digest("hex")
    .slice(0, 20);
  // pi's log has another time of these than the message has.
  const time = role === "custom" || role === "branchSummary" ? "" : `${timestamp}:`;
  return `${NAME}:${role}:${time}${hash}`;
}

function mirroredOf(message: PiMessage): Mirrored {
  return { key: keyOf(message), message: newMessage(message) };
}

function newMessage(message: PiMessage): v1.NewMessage {
  const content = blocksOf(message).flatMap(partOf);
  switch (message.role) {
    case "assistant": {
      const { model, provider, stopReason, usage } = message as unknown as {
        model: string;
        provider: string;
        stopReason: string;
        usage?: Record<string, number>;
      };
      const counts = usage && {
        inputTokens: usage["input"],
        outputTokens: usage["output"],
        cacheReadTokens: usage["cacheRead"],
        cacheWriteTokens: usage["cacheWrite"],
        ...(usage["totalTokens"] ? { totalTokens: usage["totalTokens"] } : {}),
      };
      // By this name the daemon finds the signatures of thinking, which go back to their provider.
      const facts = {
        metadata: { format: NAME },
        model,
        provider,
        usage: counts && parts.usage(counts),
        reason: REASONS[stopReason],
      };
      return parts.assistant(content, facts);
    }
    case "toolResult": {
      const { toolCallId, isError } = message as unknown as { toolCallId: string; isError: boolean };
      const status = isError ? v1.ToolResultStatus.ERROR : v1.ToolResultStatus.COMPLETED;
      const result = parts.toolResult(toolCallId, textOf(blocksOf(message)), { status });
      const media = content.flatMap(({ body }) => (body.case === "media" ? [body.value] : []));
      if (result.body.case === "toolResult") result.body.value.attachments = media;
      return parts.tool(result);
    }
    case "bashExecution":
      return parts.user(`Ran \`${message["command"]}\`\n\`\`\`\n${message["output"] || "(no output)"}\n\`\`\``);
    case "branchSummary":
      return parts.user(`Summary of a branch that this conversation came back from:\n\n${message["summary"]}`);
    default:
      return parts.user(content.length > 0 ? content : "(empty)");
  }
}

const REASONS: Record<string, v1.FinishReason> = {
  stop: v1.FinishReason.STOP,
  toolUse: v1.FinishReason.TOOL_CALLS,
  length: v1.FinishReason.LENGTH,
  aborted: v1.FinishReason.ABORTED,
};

function partOf(block: PiBlock): v1.Part[] {
  switch (block.type) {
    case "text":
      return block.text ? [parts.text(block.text)] : [];
    case "thinking": {
      const { thinkingSignature } = block;
      return [
        parts.reasoning(block.thinking ?? "", { metadata: thinkingSignature ? { thinkingSignature } : undefined }),
      ];
    }
    case "toolCall":
      return [parts.toolCall(block.id ?? "", block.name ?? "", block.arguments ?? {})];
    case "image":
      return [parts.media(block.mimeType ?? "image/png", new Uint8Array(Buffer.from(block.data ?? "", "base64")))];
    default:
      return [];
  }
}

function textOf(blocks: readonly PiBlock[]): string {
  return blocks.map(({ type, text }) => (type === "text" ? (text ?? "") : "")).join("");
}

// Messages of a view for pi

/** What a message of a view is to pi: its own one, unless the view shortened it, or another writer made it. */
function piMessages(shown: v1.ViewMessage, mirror: Mirror, originals: Map<string, PiMessage>): PiMessage[] {
  const key = mirror.keyOf(shown);
  const original = key === undefined ? undefined : originals.get(key);
  const shortened = shown.parts.some(({ shortening }) => shortening !== v1.Shortening.UNSPECIFIED);
  if (original && !shortened) return [original];
  const timestamp = original?.timestamp ?? Number(shown.createTime?.seconds ?? 0n) * 1000;
  const content = shown.parts.flatMap(({ part }) => (part ? blockOf(part) : []));
  if (original?.role === "toolResult") return [{ ...original, ...resultOf(shown), timestamp }];
  if (original) return [{ ...original, content }];
  if (shown.role === v1.Role.TOOL || shown.kind === v1.ViewMessageKind.MISSING_RESULT) {
    return shown.parts.flatMap(({ part }) => {
      if (part?.body.case !== "toolResult") return [];
      const one = { ...shown, parts: [{ part }] } as unknown as v1.ViewMessage;
      return [
        { role: "toolResult", toolName: "tool", toolCallId: part.body.value.callId, ...resultOf(one), timestamp },
      ];
    });
  }
  if (shown.role !== v1.Role.ASSISTANT) return [{ role: "user", content, timestamp }];
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const calls = content.some(({ type }) => type === "toolCall");
  const { provider, model } = shown;
  const stopReason = calls ? "toolUse" : "stop";
  return [{ role: "assistant", content, api: "longhand", provider, model, usage, stopReason, timestamp }];
}

function resultOf(shown: v1.ViewMessage): { content: PiBlock[]; isError: boolean } {
  const body = shown.parts[0]?.part?.body;
  if (body?.case !== "toolResult")
    return { content: shown.parts.flatMap(({ part }) => (part ? blockOf(part) : [])), isError: false };
  const { output: text, status, attachments } = body.value;
  const images = attachments.flatMap(imageOf);
  return { content: [{ type: "text", text }, ...images], isError: status !== v1.ToolResultStatus.COMPLETED };
}

function blockOf({ body }: v1.Part): PiBlock[] {
  switch (body.case) {
    case "text":
    case "marker":
      return body.value.text ? [{ type: "text", text: body.value.text }] : [];
    case "reasoning":
      return [{ type: "thinking", thinking: body.value.text }];
    case "toolCall":
      return [
        { type: "toolCall", id: body.value.callId, name: body.value.tool, arguments: inputOf(body.value.inputJson) },
      ];
    case "toolResult":
      return [{ type: "text", text: body.value.output }];
    case "media":
      return imageOf(body.value);
    default:
      return [];
  }
}

function imageOf({ mimeType, source }: v1.MediaPart): PiBlock[] {
  if (source.case !== "data" || !mimeType.startsWith("image/")) return [{ type: "text", text: `[${mimeType}]` }];
  return [{ type: "image", data: Buffer.from(source.value).toString("base64"), mimeType }];
}

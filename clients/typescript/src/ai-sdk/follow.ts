/** A reply, from where it is written to where it is read. */

import type { UIMessageChunk } from "ai";
import * as v1 from "../gen/v1.js";
import type { Session } from "../session.js";
import { either } from "../times.js";
import { messageFacts } from "./pieces.js";
import { ReplyReader } from "./reader.js";

/** Where a reply begins: with the run that takes a prompt, or with a run. */
export type ReplyBegin = { promptId: string } | { epoch: bigint };

const KINDS = [
  v1.EventKind.PROMPT_TAKEN,
  v1.EventKind.PROMPT_WITHDRAWN,
  v1.EventKind.RUN_ENDED,
  v1.EventKind.MESSAGE_APPENDED,
  v1.EventKind.PARTS_CLOSED,
  v1.EventKind.MESSAGE_FINISHED,
  v1.EventKind.COMPACTED,
];

/**
 * The chunks of a reply. The stream of events is there before `begin` is called, so that nothing of the reply is missed,
 * and it resumes when it is lost. With `whole`, messages of the reply before the run are in it, too.
 */
export async function replyChunks(
  session: Session,
  begin: () => Promise<ReplyBegin | undefined>,
  abort: AbortSignal | undefined,
  options: { whole?: boolean } = {},
): Promise<ReadableStream<UIMessageChunk>> {
  const own = new AbortController();
  const signal = either(own.signal, abort);
  const frames = session.frames({ kinds: KINDS, includeDeltas: true, signal });
  await frames.next();
  const follower = new Follower(session, options.whole ?? false);
  try {
    await follower.begin(await begin());
  } catch (failure) {
    own.abort();
    throw failure;
  }
  const chunks = follower.chunks(frames);
  return new ReadableStream({
    async pull(controller) {
      try {
        const { value, done } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
        if (done) own.abort();
      } catch (failure) {
        // The reader went away: its stream has an end.
        if (abort?.aborted) controller.close();
        else controller.error(failure);
      }
    },
    cancel() {
      own.abort();
    },
  });
}

class Follower {
  private readonly session: Session;
  private readonly whole: boolean;
  private promptId: string | undefined;
  private epoch: bigint | undefined;
  private run: v1.Run | undefined;
  private reader: ReplyReader | undefined;
  private finish: v1.FinishReason | undefined;
  private end: { reason: v1.RunEndReason; failure: string } | undefined;
  private withdrawn = false;

  constructor(session: Session, whole: boolean) {
    this.session = session;
    this.whole = whole;
  }

  async begin(begin: ReplyBegin | undefined): Promise<void> {
    // It ended while the stream was opened.
    if (!begin) this.withdrawn = true;
    else if ("promptId" in begin) this.promptId = begin.promptId;
    else this.epoch = begin.epoch;
    if (this.promptId) await this.find(this.promptId);
  }

  async *chunks(frames: AsyncIterable<v1.SubscribeEventsResponse>): AsyncGenerator<UIMessageChunk> {
    if (this.epoch !== undefined) yield* this.synchronize();
    if (!this.ended) {
      for await (const { frame } of frames) {
        // After a new connection deltas may be missing.
        if (frame.case === "ready") yield* this.synchronize();
        else if (frame.case === "events") yield* this.events(frame.value.events);
        else if (frame.case === "draftDelta") yield* this.delta(frame.value);
        if (this.ended) break;
      }
    }
    yield* this.last();
  }

  private get ended(): boolean {
    return this.end !== undefined || this.withdrawn;
  }

  private async *events(events: readonly v1.Event[]): AsyncGenerator<UIMessageChunk> {
    for (const event of events) {
      yield* this.event(event);
      // What comes behind the end is another reply's.
      if (this.ended) return;
    }
  }

  private async *event({ body, revision }: v1.Event): AsyncGenerator<UIMessageChunk> {
    switch (body.case) {
      case "promptTaken":
        if (body.value.promptId !== this.promptId) return;
        this.epoch ??= body.value.epoch;
        return yield* this.synchronize();
      case "promptWithdrawn":
        this.withdrawn ||= body.value.promptId === this.promptId;
        return;
      case "messageAppended":
        if (this.epoch === undefined || !isStep(body.value)) return;
        // The first message says which reply it is, of which there may be steps before the run.
        if (!this.run || !this.reader) return yield* this.synchronize();
        if (revision > this.run.startRevision) yield* this.read(body.value.messageId);
        return;
      case "partsClosed":
      case "messageFinished":
        if (this.reader?.has(body.value.messageId)) yield* this.read(body.value.messageId);
        return;
      case "compacted":
        // For `onData`; it is no part of the message.
        yield { type: "data-compaction", transient: true, data: { compactionId: body.value.compactionId } };
        return;
      case "runEnded":
        if (body.value.epoch !== this.epoch) return;
        yield* this.synchronize();
        this.end ??= body.value;
    }
  }

  private async *delta(frame: v1.DraftDelta): AsyncGenerator<UIMessageChunk> {
    if (!this.reader?.has(frame.messageId)) return;
    const chunks = this.reader.delta(frame);
    if (chunks) yield* chunks;
    else yield* this.read(frame.messageId);
  }

  /** The chunks for what is new in a message. */
  private async *read(messageId: string): AsyncGenerator<UIMessageChunk> {
    const { message, drafts } = await this.session.readMessage(messageId);
    if (message) yield* this.absorb(message, drafts);
  }

  private *absorb(message: v1.Message, drafts: readonly v1.Draft[]): Generator<UIMessageChunk> {
    this.reader ??= new ReplyReader(messageFacts(message.metadataJson)?.id ?? message.messageId);
    yield* this.reader.absorb(message, drafts);
    this.finish = message.finish?.reason ?? this.finish;
  }

  /** The chunks for everything that is new in the reply. */
  private async *synchronize(): AsyncGenerator<UIMessageChunk> {
    if (this.promptId && this.epoch === undefined) await this.find(this.promptId);
    if (this.epoch === undefined || this.withdrawn) return;
    this.run ??= await this.readRun(this.epoch);
    const start = this.run?.startRevision ?? 0n;
    const ended = (await this.readRun(this.epoch))?.end;
    const { before, messages: written } = await this.readMessages(start);
    // Another run may have written since, if this one has ended.
    const bound = (ended ?? (await this.readRun(this.epoch))?.end)?.endRevision;
    const messages = bound === undefined ? written : written.filter(({ revision }) => revision <= bound);
    const id = messages.map(({ metadataJson }) => messageFacts(metadataJson)?.id).find((known) => known !== undefined);
    if (id !== undefined && !this.reader) {
      this.reader = new ReplyReader(id);
      const earlier = before.filter(({ metadataJson }) => messageFacts(metadataJson)?.id === id);
      for (const message of earlier) {
        if (this.whole) yield* this.absorb(message, []);
        else this.reader.skip(message);
      }
    }
    for (const message of messages) {
      // Results with which the run goes on; the message behind them says which reply it is.
      if (!this.reader && message.role === v1.Role.TOOL) continue;
      if (message.sealedRevision === undefined) yield* this.read(message.messageId);
      else yield* this.absorb(message, []);
    }
    // Read before the messages: what it wrote is among them.
    if (ended) this.end ??= ended;
  }

  /** A run as it is now. */
  private async readRun(epoch: bigint): Promise<v1.Run | undefined> {
    const { run: newest } = await this.session.getRun();
    if (!newest || newest.epoch <= epoch) return newest?.epoch === epoch ? newest : undefined;
    let pageToken = "";
    do {
      const request = { sessionId: this.session.id, pageToken };
      const page = await this.session.call(v1.RunService.method.listRuns, request);
      const run = page.runs.find((one) => one.epoch === epoch);
      if (run) return run;
      pageToken = page.nextPageToken;
    } while (pageToken);
    return undefined;
  }

  /** The messages of the run, and those of the reply before it. */
  private async readMessages(start: bigint): Promise<{ before: v1.Message[]; messages: v1.Message[] }> {
    const before: v1.Message[] = [];
    const messages: v1.Message[] = [];
    for await (const message of this.session.history({ reverse: true, excludeRecords: true })) {
      if (message.kind !== v1.MessageKind.NORMAL) continue;
      if (message.revision > start) {
        if (isStep(message)) messages.unshift(message);
      } else {
        if (message.role === v1.Role.USER) break;
        before.unshift(message);
      }
    }
    return { before, messages };
  }

  private async find(promptId: string): Promise<void> {
    for await (const prompt of this.session.listPrompts({ includeEnded: true })) {
      if (prompt.promptId !== promptId) continue;
      this.epoch ??= prompt.end?.epoch;
      this.withdrawn ||= prompt.end !== undefined && prompt.end.epoch === undefined;
      return;
    }
  }

  private *last(): Generator<UIMessageChunk> {
    const { CANCELLED, FAILED, LOST } = v1.RunEndReason;
    if (!this.end) return;
    if (this.end.reason === FAILED) yield { type: "error", errorText: this.end.failure || "the agent failed" };
    else if (this.end.reason === LOST) yield { type: "error", errorText: "the agent is gone" };
    else if (this.end.reason === CANCELLED) yield { type: "abort" };
    else yield { type: "finish", finishReason: FINISH[this.finish ?? 0] ?? "other" };
  }
}

/** True for a message of a reply: no summary, edit or record is one, whoever makes it meanwhile. */
function isStep({ role, kind }: { role: v1.Role; kind: v1.MessageKind }): boolean {
  return role !== v1.Role.USER && kind === v1.MessageKind.NORMAL;
}

const FINISH: Partial<Record<v1.FinishReason, "stop" | "length" | "content-filter" | "tool-calls" | "error">> = {
  [v1.FinishReason.STOP]: "stop",
  [v1.FinishReason.LENGTH]: "length",
  [v1.FinishReason.CONTENT_FILTER]: "content-filter",
  [v1.FinishReason.TOOL_CALLS]: "tool-calls",
  [v1.FinishReason.ERROR]: "error",
};

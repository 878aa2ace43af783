/** Messages that are written while they come. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { errorOf, hasReason, type LonghandError, words } from "./errors.js";
import * as v1 from "./gen/v1.js";
import { asJson, type Json, message } from "./parts.js";
import { newId } from "./requests.js";
import type { Session } from "./session.js";
import { duration } from "./times.js";
import { FrameStream, remainder } from "./write.js";

/** A message that is written while it comes. */
export interface ReplyOptions {
  role?: v1.Role;
  clientId?: string;
  model?: string;
  provider?: string;
  metadata?: Json;
  /** The time without a write after which the daemon seals the message as aborted. */
  openMs?: number;
  /** Sends a request for each piece, where a stream could be used. */
  unary?: boolean;
}

/** The end of a reply. */
export interface FinishOptions {
  usage?: v1.Usage;
  /** By default, that it waits for tools if it calls some, else that it has ended. */
  reason?: v1.FinishReason;
  detail?: string;
}

type Answer = v1.WriteMessageResponse | v1.FinishMessageResponse;

/** How the pieces of a message reach the daemon. */
interface Writer {
  write(frame: v1.WriteMessageRequest): Promise<void>;
  /** Writes the last frame, and returns the answer to the whole. */
  end(finish: v1.Finish): Promise<Answer>;
  readonly resumeCount: number;
}

/**
 * A message that is open until `finish` or `abort`. Drafts grow text by text; other parts come whole. Calls are carried
 * out in their order, whether they are awaited or not; one that failed fails the following ones.
 */
export class Reply {
  private readonly open: v1.NewMessage;
  private readonly viewToken: string | undefined;
  private readonly writer: Writer;
  private readonly lengths = new Map<string, number>();
  /** Halves of characters at the ends of drafts, which go with the text that follows. */
  private readonly halves = new Map<string, { text: string; rest: DraftInit }>();
  private calls = false;
  private before: Promise<unknown> = Promise.resolve();
  private ended: Promise<Answer> | undefined;
  /** The reply's usage, for an end that names none. */
  usage: v1.Usage | undefined;

  constructor(session: Session, viewToken: string | undefined, options: ReplyOptions) {
    this.viewToken = viewToken;
    this.open = message(options.role ?? v1.Role.ASSISTANT, [], {
      clientId: options.clientId ?? newId("js-"),
      model: options.model,
      provider: options.provider,
      metadata: options.metadata,
    });
    this.open.open = true;
    this.open.openTimeout = duration(options.openMs);
    const stream = session.client.requestStreams && !options.unary;
    this.writer = stream ? new StreamWriter(session, this.open) : new UnaryWriter(session, this.open);
  }

  /** The message's client id, by which it can be read while it is written. */
  get clientId(): string {
    return this.open.clientId ?? "";
  }

  /** The number of times that the stream was lost, and went on. */
  get resumeCount(): number {
    return this.writer.resumeCount;
  }

  /** Adds text to a draft, which is named by its client id. */
  text(delta: string, draft = "text"): Promise<void> {
    return this.draft(delta, { clientId: draft, kind: v1.DraftKind.TEXT });
  }

  /** Adds text to the reasoning. */
  reasoning(delta: string, draft = "reasoning"): Promise<void> {
    return this.draft(delta, { clientId: draft, kind: v1.DraftKind.REASONING });
  }

  /** Adds text to the input of a call. */
  toolInput(callId: string, tool: string, delta: string, draft = `call:${callId}`): Promise<void> {
    this.calls = true;
    return this.draft(delta, { clientId: draft, kind: v1.DraftKind.TOOL_INPUT, callId, tool });
  }

  /** Adds text to the output of a tool. */
  toolOutput(callId: string, delta: string, options: { callMessageId?: string; draft?: string } = {}): Promise<void> {
    const { callMessageId, draft = `result:${callId}` } = options;
    return this.draft(delta, { clientId: draft, kind: v1.DraftKind.TOOL_OUTPUT, callId, callMessageId });
  }

  /** Adds a whole part. It gets a client id if it has none, so that it can be sent again. */
  part(part: v1.Part): Promise<void> {
    const value = { ...part, clientId: part.clientId || newId("part:") };
    this.calls ||= part.body.case === "toolCall";
    return this.write({ case: "part", value });
  }

  /** Closes a draft before the end of the message. */
  async endDraft(draft: string, options: { status?: v1.ToolResultStatus; metadata?: Json } = {}): Promise<void> {
    await this.flush(draft);
    const value = create(v1.DraftEndSchema, {
      clientId: draft,
      status: options.status,
      metadataJson: asJson(options.metadata),
    });
    await this.write({ case: "draftEnd", value });
  }

  /** Keeps the message open while nothing else is written. */
  heartbeat(): Promise<void> {
    return this.write({ case: "heartbeat", value: create(v1.HeartbeatSchema) });
  }

  /** Seals the message; a second call has the answer of the first. */
  finish(options: FinishOptions = {}): Promise<Answer> {
    this.ended ??= this.end(options);
    return this.ended;
  }

  /** Seals the message as aborted. */
  async abort(failure: unknown): Promise<void> {
    await this.finish({ reason: v1.FinishReason.ABORTED, detail: words(failure) });
  }

  private async end(options: FinishOptions): Promise<Answer> {
    for (const draft of [...this.halves.keys()]) await this.flush(draft);
    const usual = this.calls ? v1.FinishReason.TOOL_CALLS : v1.FinishReason.STOP;
    const reason = options.reason ?? (this.open.role === v1.Role.ASSISTANT ? usual : undefined);
    const finish = create(v1.FinishSchema, {
      reason,
      usage: options.usage ?? this.usage,
      detail: options.detail,
      viewToken: this.viewToken,
    });
    return this.inOrder(() => this.writer.end(finish));
  }

  private draft(delta: string, rest: DraftInit): Promise<void> {
    const draft = rest.clientId;
    let text = (this.halves.get(draft)?.text ?? "") + delta;
    this.halves.delete(draft);
    // A pair of surrogates is one character in UTF-8, and models send its halves apart.
    const last = text.charCodeAt(text.length - 1);
    if (last >= 0xd800 && last < 0xdc00) {
      this.halves.set(draft, { text: text.slice(-1), rest });
      text = text.slice(0, -1);
      if (!text && this.lengths.has(draft)) return Promise.resolve();
    }
    return this.writeDraft(text, rest);
  }

  private async flush(draft: string): Promise<void> {
    const half = this.halves.get(draft);
    this.halves.delete(draft);
    if (half) await this.writeDraft(half.text, half.rest);
  }

  private writeDraft(delta: string, rest: DraftInit): Promise<void> {
    const offset = this.lengths.get(rest.clientId) ?? 0;
    this.lengths.set(rest.clientId, offset + new TextEncoder().encode(delta).length);
    const value = create(v1.DraftTextSchema, { ...rest, delta, offsetBytes: BigInt(offset) });
    return this.write({ case: "draftText", value });
  }

  private write(frame: v1.WriteMessageRequest["frame"]): Promise<void> {
    return this.inOrder(() => this.writer.write(create(v1.WriteMessageRequestSchema, { frame })));
  }

  private inOrder<T>(step: () => Promise<T>): Promise<T> {
    const result = this.before.then(step);
    this.before = result;
    // Whoever does not await a piece learns of its failure by the next one, or by the end.
    result.catch(() => {});
    return result;
  }
}

type DraftInit = MessageInitShape<typeof v1.DraftTextSchema> & { clientId: string };

/** One stream of frames; a lost stream goes on with what the daemon has not got. */
class StreamWriter implements Writer {
  resumeCount = 0;
  private readonly session: Session;
  /** Everything that was sent, for the case that the stream is lost: until the end, nothing is acknowledged. */
  private readonly frames: v1.WriteMessageRequest[];
  private stream: FrameStream | undefined;

  constructor(session: Session, newMessage: v1.NewMessage) {
    this.session = session;
    const value = create(v1.WriteTargetSchema, {
      sessionId: session.id,
      message: { case: "newMessage", value: newMessage },
      requestId: newId(),
    });
    this.frames = [create(v1.WriteMessageRequestSchema, { frame: { case: "target", value } })];
  }

  async write(frame: v1.WriteMessageRequest): Promise<void> {
    const first = this.stream === undefined;
    this.stream ??= this.openStream();
    const sent = first ? [...this.frames, frame] : [frame];
    if (frame.frame.case !== "heartbeat") this.frames.push(frame);
    try {
      for (const one of sent) await this.stream.push(one);
    } catch (failure) {
      await this.resume(errorOf(failure));
    }
  }

  async end(finish: v1.Finish): Promise<Answer> {
    const value = create(v1.MessageEndSchema, { finish });
    await this.write(create(v1.WriteMessageRequestSchema, { frame: { case: "messageEnd", value } }));
    let failure: LonghandError | undefined;
    return this.session.client.retry(async () => {
      if (failure) await this.resume(failure);
      try {
        return await (this.stream ?? this.openStream()).finish();
      } catch (error) {
        failure = errorOf(error);
        throw failure;
      }
    });
  }

  private openStream(): FrameStream {
    return new FrameStream(this.session.client, this.session.headers);
  }

  /** Opens another stream, and sends what the daemon has not got. */
  private async resume(failure: LonghandError): Promise<void> {
    if (!failure.temporary) throw failure;
    await this.session.client.retry(async () => {
      this.resumeCount++;
      this.stream?.cancel();
      const frames = await this.missing();
      const stream = this.openStream();
      this.stream = stream;
      for (const frame of frames) await stream.push(frame);
    });
  }

  /** The frames of which the daemon has nothing, or not all. */
  private async missing(): Promise<v1.WriteMessageRequest[]> {
    const [target, ...written] = this.frames;
    const { frame } = target ?? {};
    if (!target || frame?.case !== "target" || frame.value.message.case !== "newMessage") return this.frames;
    let answer: v1.GetMessageResponse;
    try {
      answer = await this.session.readMessage(frame.value.message.value.clientId ?? "");
    } catch (error) {
      if (hasReason(error, "MESSAGE_NOT_FOUND")) return this.frames;
      throw error;
    }
    // With its `requestId` the end gets its answer again; a message that another one sealed is refused.
    if (answer.message?.sealedRevision !== undefined) {
      return [target, ...written.filter((one) => one.frame.case === "messageEnd")];
    }
    return [target, ...remainder(written, answer)];
  }
}

/** A request for each piece: stored when the call returns. */
class UnaryWriter implements Writer {
  readonly resumeCount = 0;
  private readonly session: Session;
  private readonly newMessage: v1.NewMessage;
  private readonly partIds = new Map<string, string>();
  private begun = false;

  constructor(session: Session, newMessage: v1.NewMessage) {
    this.session = session;
    this.newMessage = newMessage;
  }

  async write({ frame }: v1.WriteMessageRequest): Promise<void> {
    await this.begin();
    switch (frame.case) {
      case "draftText": {
        const { $typeName, offsetBytes = 0n, ...rest } = frame.value;
        const request = { ...this.target(), ...rest, offsetBytes };
        const answer = await this.session.call(v1.MessageService.method.appendDraft, request);
        this.partIds.set(frame.value.clientId, answer.partId);
        return;
      }
      case "draftEnd": {
        const { clientId, status, metadataJson } = frame.value;
        const value = create(v1.ToolResultPartSchema, { status });
        const body = status ? ({ case: "toolResult", value } as const) : undefined;
        return this.appendParts([create(v1.PartSchema, { partId: this.partIds.get(clientId), metadataJson, body })]);
      }
      case "part":
        return this.appendParts([frame.value]);
      case "heartbeat":
        return this.appendParts([]);
    }
  }

  async end(finish: v1.Finish): Promise<Answer> {
    await this.begin();
    return this.session.call(v1.MessageService.method.finishMessage, { ...this.target(), finish });
  }

  private async begin(): Promise<void> {
    if (!this.begun) await this.session.append(this.newMessage);
    this.begun = true;
  }

  private async appendParts(parts: v1.Part[]): Promise<void> {
    await this.session.call(v1.MessageService.method.appendParts, { ...this.target(), parts });
  }

  private target() {
    return { sessionId: this.session.id, messageId: this.newMessage.clientId ?? "" };
  }
}

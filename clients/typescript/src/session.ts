/** A session, as one program uses it. */

import type { DescMethodUnary } from "@bufbuild/protobuf";
import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { requests } from "./batches.js";
import type {
  CallHeaders,
  CallOptions,
  Client,
  FollowOptions,
  FrameOptions,
  SearchOptions,
  WithOptions,
} from "./client.js";
import * as v1 from "./gen/v1.js";
import { asJson, type Content, type Json, modelWindow, partsOf, user, type Window } from "./parts.js";
import { Reply, type ReplyOptions } from "./reply.js";
import { newId, pages } from "./requests.js";
import { Run, type RunOptions } from "./run.js";
import { duration } from "./times.js";

/** The beginning of a conversation, where the last message that stays is asked for: nothing stays. */
export const START = "";

/** What a model should see now. Its messages are shared with the next view: do not change them. */
export interface View {
  /** Its facts: revision, tokens, whether it fits. */
  readonly header: v1.ViewHeader;
  /** Its messages, in order. */
  readonly messages: readonly v1.ViewMessage[];
  /** What it does not show, and why. */
  readonly end: v1.ViewEnd;
  /** The number of messages that the daemon did not send again. */
  readonly knownCount: number;
  /** What a reply to this view carries, which makes its usage count. */
  readonly token: string;
}

/** A view as the messages of a request to a provider: JSON that goes into the request as it is. */
export interface FormattedView<T = unknown> {
  readonly header: v1.ViewHeader;
  /** Its messages in the format. Shared with the next view: do not change them. */
  readonly messages: readonly T[];
  /** What a request has apart from its messages: `system` of Anthropic, `systemInstruction` of Gemini. */
  readonly system: unknown;
  readonly end: v1.ViewEnd;
  readonly knownCount: number;
  readonly token: string;
}

/** A view, as it is asked for. */
export interface ViewOptions {
  asOfRevision?: bigint;
  window?: Window;
  overflow?: v1.OverflowAction;
  /** The time to wait for what is pending, with `OverflowAction.WAIT`. */
  waitMs?: number;
  /** Of a view in a format: a line of text stands for what the format cannot carry, and `leftOutParts` names it. */
  degrade?: boolean;
  signal?: AbortSignal;
  /** The time for the call, beside that for what is pending. */
  timeoutMs?: number;
}

/** Conditions and further changes of an append. */
export interface AppendOptions {
  requestId?: string;
  expectedRevision?: bigint;
  expectedLastMessageId?: string;
  /** What comes after this message, or everything with `START`, is left out in the same change. */
  rewindTo?: string;
  title?: string;
  metadata?: Json;
  window?: Window;
}

/** What comes with a prompt. */
export interface SubmitOptions {
  delivery?: v1.Delivery;
  metadata?: Json;
  rewindTo?: string;
  expectedRevision?: bigint;
  requestId?: string;
}

/** A question. */
export interface AskOptions {
  tool?: string;
  callId?: string;
  input?: Json;
  acceptsText?: boolean;
  defaultChoice?: string;
  answerMs?: number;
  requestId?: string;
}

/** A session. Keeps its newest view, so that the daemon sends only what changed since. */
export class Session {
  readonly client: Client;
  /** Its id or client id. */
  readonly id: string;
  /** What the daemon said of it when it was made; undefined if nothing was asked. `get` asks. */
  info: v1.Session | undefined;
  /** Headers of its calls: the number of the run that makes them. */
  readonly headers: CallHeaders;
  private known: View | undefined;
  private readonly knownFormats = new Map<string, FormattedView>();

  constructor(client: Client, id: string, info?: v1.Session, headers: CallHeaders = {}) {
    this.client = client;
    this.id = id;
    this.info = info;
    this.headers = headers;
  }

  /** The same session, whose calls have these headers, too. */
  withHeaders(headers: CallHeaders): Session {
    return new Session(this.client, this.id, this.info, { ...this.headers, ...headers });
  }

  /**
   * The same session, whose calls end with this signal or after this time:
   * `session.with({ signal, timeoutMs: 3_000 }).append("Hello")`.
   */
  with(options: WithOptions): Session {
    const made = new Session(this.client.with(options), this.id, this.info, this.headers);
    made.known = this.known;
    return made;
  }

  /** One call with this session's headers: `client.call`. */
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    return this.client.call(method, request, { ...options, headers: { ...this.headers, ...options.headers } });
  }

  /** Its current state. */
  async get(): Promise<v1.Session> {
    return found(await this.call(v1.SessionService.method.getSession, { sessionId: this.id }));
  }

  // History

  /**
   * Appends messages, all or none; a string is a user's message.
   *
   * More than one request takes, 500 messages or 8 MiB, are several changes, one after the other: what is expected and
   * left out belongs to the first, title and metadata to the last. Nobody else's change can come between them if
   * `expectedRevision` is given.
   */
  async append(
    messages: v1.NewMessage | string | readonly (v1.NewMessage | string)[],
    options: AppendOptions = {},
  ): Promise<v1.AppendMessagesResponse> {
    const several = Array.isArray(messages) ? messages : [messages];
    const made = several.map((one: v1.NewMessage | string) => (typeof one === "string" ? user(one) : one));
    const { rewindTo, title, metadata, window, requestId, expectedLastMessageId } = options;
    let { expectedRevision } = options;
    const answers: v1.AppendMessagesResponse[] = [];
    const batches = requests(made);
    for (const [number, batch] of batches.entries()) {
      const [first, last] = [number === 0, number === batches.length - 1];
      const answer = await this.call(v1.MessageService.method.appendMessages, {
        sessionId: this.id,
        messages: batch,
        requestId: requestId && !first ? `${requestId}:${number}` : requestId,
        expectedRevision,
        expectedLastMessageId: first ? expectedLastMessageId : undefined,
        title: last ? title : undefined,
        metadataJson: last ? asJson(metadata) : undefined,
        window: modelWindow(window),
        rewind: first && rewindTo !== undefined ? { target: rewindTarget(rewindTo) } : undefined,
      });
      if (expectedRevision !== undefined) expectedRevision = answer.revision;
      answers.push(answer);
    }
    const newest = answers.at(-1) ?? create(v1.AppendMessagesResponseSchema);
    return {
      ...newest,
      messageIds: answers.flatMap(({ messageIds }) => messageIds),
      existedCount: answers.reduce((count, { existedCount }) => count + existedCount, 0),
      secretFindings: answers.flatMap(({ secretFindings }) => secretFindings),
      erasedMessageIds: answers.flatMap(({ erasedMessageIds }) => erasedMessageIds),
    };
  }

  /**
   * Writes a message while it comes: `await session.reply(view, async (reply) => { await reply.text("…"); })`. Its end
   * seals the message, and an exception of `write` seals it as aborted. Returns the answer to the end.
   */
  async reply(
    view: { readonly token: string } | undefined,
    write: (reply: Reply) => Promise<void>,
    options: ReplyOptions = {},
  ): Promise<v1.WriteMessageResponse | v1.FinishMessageResponse> {
    const reply = this.openReply(view, options);
    try {
      await write(reply);
    } catch (failure) {
      // The caller's own failure says more; a message that cannot be sealed is so when its time is over.
      await reply.abort(failure).catch(() => {});
      throw failure;
    }
    return reply.finish();
  }

  /**
   * A message that is written while it comes, until `finish` or `abort`. It is one stream, which goes on at its offset
   * when it is lost; in browsers, or with `unary`, a request for each piece, which is stored when its call returns.
   */
  openReply(view?: { readonly token: string }, options: ReplyOptions = {}): Reply {
    return new Reply(this, view?.token, options);
  }

  /** Every message as it was written, page by page. */
  history(
    options: Omit<MessageInitShape<typeof v1.ListMessagesRequestSchema>, "sessionId" | "pageToken" | "$typeName"> = {},
  ): AsyncGenerator<v1.Message> {
    return pages(async (pageToken) => {
      const request = { ...options, sessionId: this.id, pageToken };
      const page = await this.call(v1.MessageService.method.listMessages, request);
      return [page.messages, page.nextPageToken];
    });
  }

  /** A message by its id or client id, as it was written. */
  async getMessage(messageId: string): Promise<v1.Message> {
    const { message } = await this.readMessage(messageId);
    return message ?? create(v1.MessageSchema);
  }

  /** A message by its id or client id, with what is written of it now. */
  readMessage(messageId: string): Promise<v1.GetMessageResponse> {
    return this.call(v1.MessageService.method.getMessage, { sessionId: this.id, messageId });
  }

  /** Messages by their ids, in this order. */
  async getMessages(messageIds: readonly string[]): Promise<v1.Message[]> {
    const messages: v1.Message[] = [];
    let waiting = [...messageIds];
    while (waiting.length > 0) {
      const request = { sessionId: this.id, messageIds: waiting.slice(0, 100) };
      const answer = await this.call(v1.MessageService.method.batchGetMessages, request);
      messages.push(...answer.messages);
      waiting = [...answer.remainingMessageIds, ...waiting.slice(100)];
    }
    return messages;
  }

  /** The originals behind an id in a view. */
  expand(id: string): AsyncGenerator<v1.Message> {
    return pages(async (pageToken) => {
      const page = await this.call(v1.MessageService.method.expandMessage, { sessionId: this.id, id, pageToken });
      return [page.messages, page.nextPageToken];
    });
  }

  /** Parts of its messages by their words, as `Client.search` finds them. */
  search(query: string, options: SearchOptions = {}): AsyncGenerator<v1.SearchHit> {
    return this.client.search(query, { ...options, sessionId: this.id });
  }

  /**
   * Leaves out what comes after a message, or everything with `START`. With `summarize`, which may be empty or name
   * topics, a summary of it stays.
   */
  rewind(
    messageId: string,
    options: { expectedRevision?: bigint; summarize?: string; requestId?: string } = {},
  ): Promise<v1.RewindSessionResponse> {
    return this.call(v1.MessageService.method.rewindSession, {
      sessionId: this.id,
      requestId: options.requestId,
      target: rewindTarget(messageId),
      expectedRevision: options.expectedRevision,
      branchSummary: options.summarize === undefined ? undefined : { instructions: options.summarize },
    });
  }

  /** Puts another message in the place of one; undefined leaves it out. `metadata` is the other message's. */
  edit(
    messageId: string,
    content: Content | undefined,
    options: { metadata?: Json; expectedRevision?: bigint; requestId?: string } = {},
  ): Promise<v1.EditMessageResponse> {
    const { metadata, ...rest } = options;
    return this.call(v1.MessageService.method.editMessage, {
      ...rest,
      metadataJson: asJson(metadata),
      sessionId: this.id,
      messageId,
      parts: content === undefined ? [] : partsOf(content),
      remove: content === undefined,
    });
  }

  /** Pins a message, so that every view shows it verbatim, or removes the pin. */
  async pin(messageId: string, options: { unpin?: boolean } = {}): Promise<void> {
    await this.call(v1.MessageService.method.pinMessage, { ...options, sessionId: this.id, messageId });
  }

  // Views

  /**
   * What a model should see now, or saw at a revision. The daemon sends only what is not in the newest view that this
   * object has.
   */
  async view(options: ViewOptions = {}): Promise<View> {
    const current = options.asOfRevision === undefined;
    const known = current ? this.known : undefined;
    const request = viewRequest(this.id, options, known?.header);
    const view = await this.client.retry(
      (left) => this.readView(request, known, { signal: options.signal, timeoutMs: left }),
      this.inTime(options),
    );
    // A view that was shortened for a call is no revision's, and nothing is known by it.
    if (current && !view.header.shortened) this.known = view;
    return view;
  }

  /** A view in the format of a provider. Throws `LonghandError` with CONTENT_NOT_IN_FORMAT for what it cannot carry. */
  async formattedView<T = unknown>(format: v1.MessageFormat, options: ViewOptions = {}): Promise<FormattedView<T>> {
    const current = options.asOfRevision === undefined;
    const name = `${format} ${options.degrade ?? false}`;
    const known = current ? this.knownFormats.get(name) : undefined;
    const request = viewRequest(this.id, options, known?.header);
    request.format = format;
    request.degrade = options.degrade ?? false;
    const view = await this.client.retry(async (left) => {
      const read = new ViewReader<unknown>(known?.messages);
      const call = { headers: this.headers, signal: options.signal, timeoutMs: left };
      for await (const { frame } of this.client.stream(v1.ViewService.method.getView, request, call)) {
        read.take(frame, ({ formattedMessages }) => formattedMessages.map(({ json }) => JSON.parse(json)));
      }
      const { systemJson } = read.header;
      return { ...read.view(), system: systemJson === undefined ? undefined : JSON.parse(systemJson) };
    }, this.inTime(options));
    if (current && !view.header.shortened) this.knownFormats.set(name, view);
    return view as FormattedView<T>;
  }

  private inTime({ signal, timeoutMs = this.client.timeoutMs, ...view }: ViewOptions): CallOptions {
    const pending = view.overflow === v1.OverflowAction.WAIT ? (view.waitMs ?? 30_000) : 0;
    return { signal, timeoutMs: timeoutMs + pending };
  }

  private async readView(
    request: v1.GetViewRequest,
    known: View | undefined,
    options: { signal?: AbortSignal | undefined; timeoutMs?: number | undefined },
  ): Promise<View> {
    const read = new ViewReader<v1.ViewMessage>(known?.messages);
    const call = { ...options, headers: this.headers };
    for await (const { frame } of this.client.stream(v1.ViewService.method.getView, request, call)) {
      read.take(frame, ({ messages }) => messages);
    }
    return read.view();
  }

  // The session itself

  /** Changes what is given. */
  async update(options: {
    title?: string;
    metadata?: Json;
    window?: Window;
    preset?: string;
    policyOverride?: Json;
    expectedRevision?: bigint;
  }): Promise<v1.Session> {
    const { metadata, policyOverride, window, ...rest } = options;
    return found(
      await this.call(v1.SessionService.method.updateSession, {
        ...rest,
        sessionId: this.id,
        metadataJson: asJson(metadata),
        policyOverrideJson: asJson(policyOverride),
        window: modelWindow(window),
      }),
    );
  }

  /** Archives the session, or restores it. */
  async archive(options: { restore?: boolean } = {}): Promise<v1.Session> {
    return found(await this.call(v1.SessionService.method.archiveSession, { ...options, sessionId: this.id }));
  }

  /** Adds a label. */
  async addLabel(label: string): Promise<v1.Session> {
    return found(await this.call(v1.SessionService.method.addLabel, { sessionId: this.id, label }));
  }

  /** Removes a label. */
  async removeLabel(label: string): Promise<v1.Session> {
    return found(await this.call(v1.SessionService.method.removeLabel, { sessionId: this.id, label }));
  }

  /** A session that shares this one's history up to a message, a revision, or now. */
  async fork(
    clientId?: string,
    options: { messageId?: string; asOfRevision?: bigint; title?: string } = {},
  ): Promise<Session> {
    const { messageId, asOfRevision, title } = options;
    const answer = await this.call(v1.SessionService.method.forkSession, {
      sessionId: this.id,
      clientId: clientId ?? newId("js-"),
      title,
      point:
        messageId !== undefined
          ? { case: "messageId", value: messageId }
          : asOfRevision !== undefined
            ? { case: "asOfRevision", value: asOfRevision }
            : { case: undefined },
    });
    return new Session(this.client, found(answer).sessionId, answer.session, this.headers);
  }

  /**
   * Erases content for good: a message, up to 512 messages, a part, or without these the whole session. The reason is
   * kept, and must not have what is erased. Forks lose the same content. `expectedRevision` refuses it if the history
   * changed after that revision.
   */
  erase(
    reason: string,
    options: {
      messageId?: string;
      messageIds?: string[];
      partId?: string;
      expectedRevision?: bigint;
      dryRun?: boolean;
    } = {},
  ): Promise<v1.EraseContentResponse> {
    const { messageId, messageIds, partId, expectedRevision, dryRun } = options;
    if (!dryRun) {
      this.known = undefined;
      this.knownFormats.clear();
    }
    return this.call(v1.EraseService.method.eraseContent, {
      sessionId: this.id,
      reason,
      dryRun,
      expectedRevision,
      target:
        messageId !== undefined
          ? { case: "messageId", value: messageId }
          : messageIds !== undefined
            ? { case: "messageSet", value: { messageIds } }
            : partId !== undefined
              ? { case: "partId", value: partId }
              : { case: "wholeSession", value: true },
    });
  }

  /** Follows its events, as `Client.events` does. */
  events(options: FollowOptions = {}): AsyncGenerator<v1.Event> {
    return this.client.events([this.id], options);
  }

  /** Follows its events with all that a stream has, as `Client.frames` does. */
  frames(options: FrameOptions = {}): AsyncGenerator<v1.SubscribeEventsResponse> {
    return this.client.frames([this.id], options);
  }

  // Compactions

  /** Asks for a compaction; it is made in the background. */
  compact(
    options: { instructions?: string; level?: v1.CompactionLevel; tailStartMessageId?: string } = {},
  ): Promise<v1.StartCompactionResponse> {
    return this.call(v1.CompactionService.method.startCompaction, { ...options, sessionId: this.id });
  }

  /** Undoes the newest compaction, rewind or edit, or makes it active again. */
  async undo(options: { redo?: boolean } = {}): Promise<void> {
    const request = { sessionId: this.id };
    if (options.redo) await this.call(v1.CompactionService.method.redoChange, request);
    else await this.call(v1.CompactionService.method.undoChange, request);
  }

  // Working together

  /**
   * Takes the right to answer, for as long as `work` lasts: the run is renewed in the background, released at the end,
   * and released as failed by an exception. What is written through `run.session` is refused with `RunLost` once the
   * run is not the active one.
   */
  async run<T>(work: (run: Run) => Promise<T>, options: RunOptions = {}): Promise<T> {
    const run = await this.acquireRun(options);
    let result: T;
    try {
      result = await work(run);
    } catch (failure) {
      // The caller's own failure says more.
      await run.release(failure).catch(() => {});
      throw failure;
    }
    await run.release();
    return result;
  }

  /** The right to answer, which is renewed until `release`. */
  acquireRun(options: RunOptions = {}): Promise<Run> {
    return Run.acquire(this, options);
  }

  /** What happens in the session: its newest run, and what that waits for. */
  getRun(): Promise<v1.GetRunResponse> {
    return this.call(v1.RunService.method.getRun, { sessionId: this.id });
  }

  /** Asks the active run to stop. */
  async cancelRun(options: { epoch?: bigint; force?: boolean; tree?: boolean } = {}): Promise<v1.Run[]> {
    return (await this.call(v1.RunService.method.cancelRun, { ...options, sessionId: this.id })).runs;
  }

  /**
   * Puts a prompt in the queue: what a user says, or results of tools that an agent left to its front end. The answer is
   * its id. With `rewindTo`, what comes after that message, or everything with `START`, is left out in the same change,
   * and the active run ends.
   */
  async submit(content: Content, options: SubmitOptions = {}): Promise<string> {
    const { delivery = v1.Delivery.QUEUE, metadata, rewindTo, ...rest } = options;
    const answer = await this.call(v1.PromptService.method.submitPrompt, {
      ...rest,
      sessionId: this.id,
      parts: partsOf(content),
      delivery,
      metadataJson: asJson(metadata),
      rewind: rewindTo === undefined ? undefined : { target: rewindTarget(rewindTo) },
    });
    return answer.promptId;
  }

  /** The prompts that wait, in their order, or all, newest first. */
  listPrompts(options: { includeEnded?: boolean } = {}): AsyncGenerator<v1.Prompt> {
    return pages(async (pageToken) => {
      const page = await this.call(v1.PromptService.method.listPrompts, { ...options, sessionId: this.id, pageToken });
      return [page.prompts, page.nextPageToken];
    });
  }

  /** Gives a prompt the place before another one, or the last one. */
  async movePrompt(promptId: string, options: { before?: string } = {}): Promise<void> {
    const request = { sessionId: this.id, promptId, beforePromptId: options.before };
    await this.call(v1.PromptService.method.movePrompt, request);
  }

  /** Takes a prompt out of the queue. */
  async withdrawPrompt(promptId: string): Promise<void> {
    await this.call(v1.PromptService.method.withdrawPrompt, { sessionId: this.id, promptId });
  }

  /**
   * Asks a question that any client answers, once. `waitForAnswer` waits for it. An agent that was restarted asks again
   * with the same `requestId`, and finds its question with the answer.
   */
  async ask(
    text: string,
    choices: readonly (string | { id: string; label: string })[] = [],
    options: AskOptions = {},
  ): Promise<v1.Approval> {
    const { input, answerMs, requestId, ...rest } = options;
    const answer = await this.call(v1.ApprovalService.method.requestApproval, {
      sessionId: this.id,
      requestId,
      question: {
        ...rest,
        text,
        choices: choices.map((choice) => (typeof choice === "string" ? { id: choice } : choice)),
        inputJson: asJson(input),
        answerTimeout: duration(answerMs),
      },
    });
    return answer.approval ?? create(v1.ApprovalSchema);
  }

  /** A question, with its answer. */
  async getApproval(approvalId: string): Promise<v1.Approval> {
    const request = { sessionId: this.id, approvalId };
    const { approval } = await this.call(v1.ApprovalService.method.getApproval, request);
    return approval ?? create(v1.ApprovalSchema);
  }

  /** Waits until a question has ended, however that happens. */
  async waitForAnswer(approvalId: string, options: { signal?: AbortSignal } = {}): Promise<v1.ApprovalEnd> {
    const kinds = [v1.EventKind.APPROVAL_ENDED];
    // The first frame says that the stream has begun: from here on no end is missed.
    for await (const { frame } of this.frames({ kinds, signal: options.signal })) {
      const events = frame.case === "events" ? frame.value.events : [];
      const ended = events.some(({ body }) => body.case === "approvalEnded" && body.value.approvalId === approvalId);
      if (frame.case !== "ready" && !ended) continue;
      const { end } = await this.getApproval(approvalId);
      if (end) return end;
    }
    throw new Error("a stream of events has no end");
  }

  /** The questions that wait, newest first, or all. */
  listApprovals(options: { includeEnded?: boolean } = {}): AsyncGenerator<v1.Approval> {
    return pages(async (pageToken) => {
      const request = { ...options, sessionId: this.id, pageToken };
      const page = await this.call(v1.ApprovalService.method.listApprovals, request);
      return [page.approvals, page.nextPageToken];
    });
  }

  /** Answers a question; a second answer is refused with APPROVAL_ENDED. */
  async answer(approvalId: string, choice?: string, options: { text?: string } = {}): Promise<v1.Approval> {
    const request = { ...options, sessionId: this.id, approvalId, choice };
    const { approval } = await this.call(v1.ApprovalService.method.answerApproval, request);
    return approval ?? create(v1.ApprovalSchema);
  }

  /** Withdraws a question. */
  async withdrawApproval(approvalId: string): Promise<void> {
    await this.call(v1.ApprovalService.method.withdrawApproval, { sessionId: this.id, approvalId });
  }

  /** Says that the caller types, for 10 seconds, or that it stopped. */
  async reportTyping(typing = true): Promise<void> {
    await this.call(v1.EventService.method.reportTyping, { sessionId: this.id, typing });
  }
}

function viewRequest(sessionId: string, options: ViewOptions, known?: v1.ViewHeader): v1.GetViewRequest {
  return create(v1.GetViewRequestSchema, {
    sessionId,
    asOfRevision: options.asOfRevision,
    window: modelWindow(options.window),
    overflowAction: options.overflow,
    waitTimeout: duration(options.waitMs),
    knownViewHash: known?.viewHash,
    knownRevision: known?.revision,
  });
}

/** A view, as its frames come. */
class ViewReader<T> {
  header = create(v1.ViewHeaderSchema);
  private end = create(v1.ViewEndSchema);
  private readonly messages: T[] = [];
  private readonly known: readonly T[];

  constructor(known: readonly T[] = []) {
    this.known = known;
  }

  take(frame: v1.GetViewResponse["frame"], messagesOf: (messages: v1.ViewMessages) => T[]): void {
    if (frame.case === "header") {
      this.header = frame.value;
      this.messages.push(...this.known.slice(0, this.header.knownMessageCount));
    } else if (frame.case === "messages") {
      this.messages.push(...messagesOf(frame.value));
    } else if (frame.case === "end") {
      this.end = frame.value;
    }
  }

  view() {
    const { header, messages, end } = this;
    return { header, messages, end, knownCount: header.knownMessageCount, token: header.viewToken };
  }
}

function found(answer: { session?: v1.Session }): v1.Session {
  return answer.session ?? create(v1.SessionSchema);
}

function rewindTarget(messageId: string) {
  return messageId === START
    ? ({ case: "toStart", value: true } as const)
    : ({ case: "messageId", value: messageId } as const);
}

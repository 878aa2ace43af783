/// <reference lib="esnext.disposable" preserve="true" />
/** A daemon, whatever the transport to it. */

import type { DescMethodServerStreaming, DescMethodUnary } from "@bufbuild/protobuf";
import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { Code, type Transport } from "@connectrpc/connect";
import { ClientClosed, errorOf, hasReason, LonghandError, overdue, Unreachable, VersionMismatch } from "./errors.js";
import * as v1 from "./gen/v1.js";
import { asJson, type Json, modelWindow, type Window } from "./parts.js";
import { afterCursor, identify, newId, pages } from "./requests.js";
import { Session } from "./session.js";
import { SummaryTask } from "./summary.js";
import { Attempts, duration, either, inTime, sleep, until } from "./times.js";
import { sameProtocol, VERSION } from "./version.js";

/** Headers of a call. */
export type CallHeaders = Readonly<Record<string, string>>;

/** How one call is made. */
export interface CallOptions {
  headers?: CallHeaders;
  /** Ends the call, which throws the signal's reason. */
  signal?: AbortSignal;
  /** The time for the call with all its attempts; that of the client by default. Streams of events have none. */
  timeoutMs?: number;
  /** The time in which the call is tried again while the daemon does not answer. */
  retryMs?: number;
}

/** What a copy of a client or of a session does otherwise in all its calls. */
export type WithOptions = Pick<CallOptions, "signal" | "timeoutMs" | "retryMs">;

/** How events are followed. */
export interface FollowOptions {
  /** The cursor after which to begin. */
  afterCursor?: string;
  fromBeginning?: boolean;
  kinds?: v1.EventKind[];
  /** Sends the messages themselves beside their ids. */
  includeContent?: boolean;
  /** This session with its sub-agents. */
  rootSessionId?: string;
  project?: string;
  /** Ends the stream: its iteration throws the signal's reason. */
  signal?: AbortSignal;
  /** The time in which a lost stream is tried again; without an end by default. */
  retryMs?: number;
}

/** How frames are followed. */
export interface FrameOptions extends FollowOptions {
  /** Begins with the sessions as they are. */
  snapshot?: boolean;
  /** Sends the words of open parts and summaries as they come. */
  includeDeltas?: boolean;
  includePresence?: boolean;
  /** The interval of frames on an idle stream. */
  progressMs?: number;
}

/** A new session. */
export interface NewSession {
  title?: string;
  preset?: string;
  /** The model's window; a number is its size in tokens. */
  window?: Window;
  metadata?: Json;
  policyOverride?: Json;
  parentSessionId?: string;
}

/** What is searched for, beside the words. */
export type SearchOptions = Omit<
  MessageInitShape<typeof v1.SearchHistoryRequestSchema>,
  "query" | "pageToken" | "waitTimeout" | "excludeHits" | "$typeName"
> & {
  /** The time to wait until the index holds `minSeq`. */
  waitMs?: number;
};

/** What a client is made of. */
export interface ClientOptions {
  transport: Transport;
  /** For messages to people. */
  address: string;
  /** Recorded with every change. */
  actor: string;
  token?: string;
  tenant?: string;
  /** The time in which a call is tried again while the daemon does not answer: 30 seconds by default. */
  retryMs?: number;
  /** The time for a call with all its attempts: `retryMs` by default, or 30 seconds if that is nothing. */
  timeoutMs?: number;
  /** Ends every call. */
  signal?: AbortSignal;
  /** True if the transport carries streams of requests, which browsers cannot. */
  requestStreams: boolean;
  close?: () => void;
}

/**
 * A daemon. What most programs need has a method of its own; `call` has every RPC.
 *
 * Every change gets a `requestId` unless it has one, and is sent again with it while the daemon does not answer: it is
 * carried out once. Closing ends the connection; the daemon goes on.
 */
export class Client {
  readonly transport: Transport;
  readonly address: string;
  readonly actor: string;
  readonly retryMs: number;
  /** The time for a call with all its attempts, beside what the call asks the daemon to wait. */
  readonly timeoutMs: number;
  /** Ends every call; undefined for none. */
  readonly signal: AbortSignal | undefined;
  readonly requestStreams: boolean;
  private readonly own: CallHeaders;
  private readonly options: ClientOptions;
  private readonly state: { closed: boolean };

  constructor(options: ClientOptions, state = { closed: false }) {
    this.options = options;
    this.state = state;
    this.transport = options.transport;
    this.address = options.address;
    this.actor = options.actor;
    this.retryMs = options.retryMs ?? 30_000;
    this.timeoutMs = options.timeoutMs ?? (this.retryMs || 30_000);
    this.signal = options.signal;
    this.requestStreams = options.requestStreams;
    this.own = {
      "longhand-actor": options.actor,
      ...(options.token ? { authorization: `Bearer ${options.token}` } : {}),
      ...(options.tenant ? { "longhand-tenant": options.tenant } : {}),
    };
  }

  /** Ends the connection, without which a program in Node does not end. */
  close(): void {
    this.state.closed = true;
    this.options.close?.();
  }

  /** The same client, over the same connection, whose calls end with this signal or after this time. */
  with(options: WithOptions): Client {
    const signal = joined(this.signal, options.signal);
    const { timeoutMs = this.options.timeoutMs, retryMs = this.retryMs } = options;
    return new Client({ ...this.options, timeoutMs, retryMs, signal }, this.state);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** What every call carries: actor, access token, tenant; and what is given. */
  headers(more: CallHeaders = {}): Headers {
    return new Headers({ ...this.own, ...more });
  }

  /**
   * One call, such as `client.call(v1.SessionService.method.getSession, { sessionId })`. Gives a change its `requestId`,
   * and sends it again while the daemon does not answer. Throws `LonghandError`.
   */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    init: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    const request = create(method.input, init);
    identify(request);
    const signal = joined(this.signal, options.signal);
    const timeoutMs = (options.timeoutMs ?? this.timeoutMs) + waitMs(request);
    return this.retry(
      async (left) => {
        const header = this.headers(options.headers);
        const answer = await this.transport.unary(method, signal, left, header, request);
        return answer.message;
      },
      { ...options, timeoutMs },
    );
  }

  /**
   * Makes an attempt until one succeeds, the failure is lasting, or the time is over; it gets the time that is left.
   * Throws `LonghandError`.
   */
  async retry<T>(attempt: (leftMs: number | undefined) => Promise<T>, options: CallOptions = {}): Promise<T> {
    const signal = joined(this.signal, options.signal);
    const { timeoutMs = this.timeoutMs } = options;
    const attempts = new Attempts(options.retryMs ?? this.retryMs, timeoutMs);
    for (;;) {
      this.check();
      signal?.throwIfAborted();
      try {
        const left = attempts.left();
        // Whatever the transport makes of it: one that has no answer does not always see that its time is over.
        return await inTime(attempt(left), left === undefined ? left : left + 50, () => overdue(timeoutMs));
      } catch (failure) {
        signal?.throwIfAborted();
        this.check();
        const error = errorOf(failure);
        const isOverdue = error.code === Code.DeadlineExceeded && error.reason === "";
        await sleep(attempts.next(isOverdue ? overdue(timeoutMs) : error), signal);
      }
    }
  }

  /** Throws `ClientClosed` for a client that makes no call any more. */
  private check(): void {
    if (this.state.closed) throw new ClientClosed("the client is closed", { code: Code.Canceled });
  }

  /** The answers of one call, without another attempt. Leaving the iteration ends the call. Throws `LonghandError`. */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): AsyncGenerator<MessageShape<O>> {
    this.check();
    const own = new AbortController();
    const signal = either(own.signal, joined(this.signal, options.signal));
    const header = this.headers(options.headers);
    try {
      const requests = only(create(method.input, request));
      const answer = await this.transport.stream(method, signal, options.timeoutMs, header, requests);
      yield* until(answer.message, signal);
    } catch (failure) {
      this.signal?.throwIfAborted();
      options.signal?.throwIfAborted();
      this.check();
      throw errorOf(failure);
    } finally {
      own.abort();
    }
  }

  /** A stream that goes on where it was when it is lost: `resume` changes the request to begin after an answer. */
  async *follow<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageShape<I>,
    resume: (request: MessageShape<I>, frame: MessageShape<O>) => void,
    options: CallOptions = {},
  ): AsyncGenerator<MessageShape<O>> {
    const retryMs = options.retryMs ?? Number.POSITIVE_INFINITY;
    let attempts = new Attempts(retryMs);
    for (;;) {
      try {
        for await (const frame of this.stream(method, request as MessageInitShape<I>, options)) {
          attempts = new Attempts(retryMs);
          // Before the caller has it: what it throws or leaves is its own.
          resume(request, frame);
          yield frame;
        }
        return;
      } catch (failure) {
        if (!(failure instanceof LonghandError)) throw failure;
        // The stream of a reader that was too slow resumes, too.
        const stalled = failure.reason === "READER_STALLED";
        await sleep(stalled ? 50 : attempts.next(failure), joined(this.signal, options.signal));
      }
    }
  }

  /** The daemon's version and state. */
  serverInfo(options: CallOptions = {}): Promise<v1.GetServerInfoResponse> {
    return this.call(v1.AdminService.method.getServerInfo, {}, options);
  }

  /**
   * Creates a session, or finds the one that the same request with this client id made. Without a client id the session
   * gets one by chance, so that a request whose answer was lost creates no second session.
   */
  async createSession(clientId?: string, options: NewSession = {}): Promise<Session> {
    const answer = await this.call(v1.SessionService.method.createSession, {
      clientId: clientId ?? newId("js-"),
      title: options.title,
      preset: options.preset,
      window: modelWindow(options.window),
      metadataJson: asJson(options.metadata),
      policyOverrideJson: asJson(options.policyOverride),
      parentSessionId: options.parentSessionId,
    });
    return new Session(this, answer.session?.sessionId ?? "", answer.session);
  }

  /** A session by its id or client id. Nothing is asked of the daemon before its first use. */
  session(sessionId: string): Session {
    return new Session(this, sessionId);
  }

  /**
   * The session with this client id, whoever made it, however it has changed, and also if one before was erased.
   * Everything but the client id is for the case that it must be made.
   */
  async openSession(
    clientId: string,
    options: NewSession & { metadata?: Record<string, unknown> } = {},
  ): Promise<Session> {
    for (let attempt = 0; ; attempt++) {
      const found = this.session(clientId);
      try {
        found.info = await found.get();
        if (found.info.state !== v1.SessionState.ERASED) return found;
      } catch (error) {
        if (!hasReason(error, "SESSION_NOT_FOUND")) throw error;
      }
      // An erased session's request makes no other one, so this one differs.
      const metadata = { ...options.metadata, made: newId() };
      try {
        return await this.createSession(clientId, { ...options, metadata });
      } catch (error) {
        // Another client was faster.
        if (!hasReason(error, "CLIENT_ID_REUSED") || attempt === 7) throw error;
      }
    }
  }

  /** Sessions, newest first unless another order is asked for, page by page. */
  async *listSessions(
    options: Omit<MessageInitShape<typeof v1.ListSessionsRequestSchema>, "pageToken" | "$typeName"> = {},
  ): AsyncGenerator<v1.Session> {
    yield* pages(async (pageToken) => {
      const page = await this.call(v1.SessionService.method.listSessions, { ...options, pageToken });
      return [page.sessions, page.nextPageToken];
    });
  }

  /** Follows a list of sessions: the list, and then its changes. A lost stream goes on where it was. */
  watchSessions(
    options: Omit<MessageInitShape<typeof v1.WatchSessionsRequestSchema>, "$typeName"> = {},
    call: CallOptions = {},
  ): AsyncGenerator<v1.WatchSessionsResponse> {
    const request = create(v1.WatchSessionsRequestSchema, options);
    return this.follow(v1.SessionService.method.watchSessions, request, afterCursor, call);
  }

  /**
   * Follows events, of these sessions or of all, without an end: after a cursor, from the beginning, or from now.
   *
   * Every event has its cursor. A stream that is lost, also by a restart of the daemon, goes on after the last one, so
   * that no event is missed and none comes twice.
   */
  async *events(sessionIds: string[] = [], options: FollowOptions = {}): AsyncGenerator<v1.Event> {
    for await (const frame of this.frames(sessionIds, options)) {
      if (frame.frame.case === "events") yield* frame.frame.value.events;
    }
  }

  /**
   * Follows events as `events` does, with everything that a stream has: snapshots, deltas, presence, progress. `ready`
   * comes again with every new connection. A snapshot that is lost before its end begins anew.
   */
  frames(sessionIds: string[] = [], options: FrameOptions = {}): AsyncGenerator<v1.SubscribeEventsResponse> {
    const request = create(v1.SubscribeEventsRequestSchema, {
      sessionIds,
      start: startOf(options),
      kinds: options.kinds,
      includeContent: options.includeContent,
      includeDeltas: options.includeDeltas,
      includePresence: options.includePresence,
      rootSessionId: options.rootSessionId,
      project: options.project,
      progressInterval: duration(options.progressMs),
    });
    return this.follow(v1.EventService.method.subscribeEvents, request, afterFrame, {
      signal: options.signal,
      retryMs: options.retryMs,
    });
  }

  /** Parts of messages by their words, best first, page by page. */
  async *search(query: string, options: SearchOptions = {}): AsyncGenerator<v1.SearchHit> {
    const { waitMs, ...request } = options;
    yield* pages(async (pageToken) => {
      const waitTimeout = duration(waitMs);
      const page = await this.call(v1.SearchService.method.searchHistory, {
        ...request,
        query,
        waitTimeout,
        pageToken,
      });
      return [page.hits, page.nextPageToken];
    });
  }

  /**
   * Waits for a summary that is to be written, and leases it; undefined if there was none in time.
   *
   * `window` is that of the model that will write it, in tokens. The lease is extended until the task is completed or
   * given back: `task.use(work)` does the latter if the work fails.
   */
  async leaseSummaryTask(
    sessionIds: string[] = [],
    options: { levels?: v1.CompactionLevel[]; waitMs?: number; leaseMs?: number; window?: number } = {},
  ): Promise<SummaryTask | undefined> {
    const { waitMs = 30_000, leaseMs = 60_000, window = 0 } = options;
    const answer = await this.call(v1.SummaryTaskService.method.leaseSummaryTask, {
      sessionIds,
      levels: options.levels,
      waitTimeout: duration(waitMs),
      leaseTimeout: duration(leaseMs),
      windowTokens: BigInt(window),
    });
    return answer.task && new SummaryTask(this, answer.task, answer.leaseToken, leaseMs, window);
  }
}

/** A signal that is aborted with the first of these that are there. */
export function joined(one: AbortSignal | undefined, other: AbortSignal | undefined): AbortSignal | undefined {
  return one ? either(one, other) : other;
}

/** The time that a request has the daemon wait for something, or work on it. */
function waitMs(request: object): number {
  const {
    $typeName: name,
    waitTimeout,
    branchSummary,
  } = request as {
    $typeName?: string;
    waitTimeout?: { seconds: bigint; nanos: number };
    branchSummary?: unknown;
  };
  // Bytes leave the files before the answer; a model writes a summary.
  if (name === v1.EraseContentRequestSchema.typeName || branchSummary !== undefined) return SLOW_MS;
  return waitTimeout ? Number(waitTimeout.seconds) * 1000 + waitTimeout.nanos / 1e6 : 0;
}

/** What calls get more that have much to do. */
const SLOW_MS = 300_000;

/**
 * The first call, which finds out if there is a daemon. `start` starts one where none answers; the answer says why that
 * one ended, once it has. Throws `Unreachable` and `VersionMismatch`.
 */
export async function greet(
  client: Client,
  options: { checkVersion?: boolean; start?: () => (() => string | undefined) | undefined },
): Promise<void> {
  const info = await firstAnswer(client, options.start);
  if (options.checkVersion === false || sameProtocol(info.version)) return;
  const text = `the daemon at ${client.address} is version ${info.version}, and this client ${VERSION}`;
  throw new VersionMismatch(`${text}: use those of one version`, { reason: "VERSION_MISMATCH" });
}

/** The time for the start of a daemon, and for another one to answer if ours has ended. */
const START_MS = { start: 30_000, ended: 5_000 };

async function firstAnswer(client: Client, start?: () => (() => string | undefined) | undefined) {
  const began = performance.now();
  let started: (() => string | undefined) | undefined;
  for (;;) {
    try {
      return await client.serverInfo({ retryMs: 0 });
    } catch (failure) {
      const error = errorOf(failure);
      if (error.reason || error.code !== Code.Unavailable) throw error;
      const details = { code: error.code, cause: error };
      if (!started) {
        started = start?.();
        const why = `no daemon answers at ${client.address} (${error.text}); \`longhand serve\` starts one`;
        if (!started) throw new Unreachable(why, details);
      }
      // A daemon that finds another in its place ends, and that one answers soon.
      const ended = started();
      const limit = ended === undefined ? START_MS.start : START_MS.ended;
      const why = `the daemon did not start: ${ended ?? "it does not answer"}`;
      if (performance.now() - began > limit) throw new Unreachable(why, details);
    }
    await sleep(50);
  }
}

async function* only<T>(message: T): AsyncGenerator<T> {
  yield message;
}

function startOf(options: FrameOptions): v1.SubscribeEventsRequest["start"] {
  if (options.afterCursor !== undefined) return { case: "afterCursor", value: options.afterCursor };
  if (options.fromBeginning) return { case: "fromBeginning", value: true };
  return options.snapshot ? { case: "snapshot", value: true } : { case: undefined };
}

/** Where a stream of events goes on. Within a snapshot there is no position: it begins at `ready`. */
function afterFrame(request: v1.SubscribeEventsRequest, { frame }: v1.SubscribeEventsResponse): void {
  const snapshot = request.start.case === "snapshot";
  const positioned = frame.case === "events" || frame.case === "progress" || frame.case === "snapshotEnd";
  if (positioned || (frame.case === "ready" && !snapshot)) {
    if (frame.value.cursor) request.start = { case: "afterCursor", value: frame.value.cursor };
  }
}

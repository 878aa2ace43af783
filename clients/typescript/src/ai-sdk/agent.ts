/** The agent of chats: takes prompts, and writes the replies while they come. */

import type { ModelMessage, UIMessageChunk } from "ai";
import type { Client } from "../client.js";
import { hasReason, RunLost } from "../errors.js";
import * as v1 from "../gen/v1.js";
import * as parts from "../parts.js";
import { newId } from "../requests.js";
import type { Run } from "../run.js";
import type { FormattedView, Session, ViewOptions } from "../session.js";
import { messageFacts } from "./pieces.js";
import { isResults, readGroups, withCall } from "./store.js";
import { StepWriter } from "./writer.js";

/** What a prompt is answered with. */
export interface ChatRequest {
  /**
   * Options for `streamText`, all of which it needs: the view of the session as messages, a view for every further step,
   * the usage of steps, and the signal of a stop.
   */
  request: {
    messages: ModelMessage[];
    abortSignal: AbortSignal;
    prepareStep: (step: { stepNumber: number }) => Promise<{ messages?: ModelMessage[] }>;
    onStepFinish: (step: { usage: StepUsage }) => void;
  };
  session: Session;
  run: Run;
}

interface StepUsage {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  totalTokens?: number | undefined;
  inputTokenDetails?: { cacheReadTokens?: number | undefined; cacheWriteTokens?: number | undefined } | undefined;
  outputTokenDetails?: { reasoningTokens?: number | undefined } | undefined;
}

type Chunks = ReadableStream<UIMessageChunk>;

/** Begins a reply: what `streamText` returns, or a stream of UI message chunks. */
export type Answer = (chat: ChatRequest) => Streamed | Promise<Streamed>;
type Streamed = Chunks | { toUIMessageStream(): Chunks };

/** How prompts are answered. */
export interface AnswerOptions {
  /** How views are asked for: by default they wait for a compaction that is due. */
  view?: ViewOptions;
  /** The time after which a prompt is another agent's when this process is gone; 30 seconds by default. */
  leaseMs?: number;
}

/** Which chats are served. */
export interface ServeOptions extends AnswerOptions {
  /** Only chats whose ids begin so. */
  chatIdPrefix?: string;
  /** Ends the service once the replies that it writes are done. */
  signal?: AbortSignal;
  /** Learns of replies that failed, which the chats show as errors. */
  onError?: (failure: unknown, session: Session) => void;
}

/**
 * Answers the prompts of chats, as they come, several chats at a time, until the signal ends it. Several agents can
 * serve: each prompt is answered by one.
 */
export async function serveChats(client: Client, answer: Answer, options: ServeOptions = {}): Promise<void> {
  const { chatIdPrefix, signal, onError } = options;
  const working = new Map<string, Promise<void>>();
  const again = new Set<string>();
  const work = async (session: Session) => {
    do {
      again.delete(session.id);
      try {
        while (!signal?.aborted && (await answerChat(session, answer, options))) {}
      } catch (failure) {
        // The end of its run wakes it again for what else waits.
        onError?.(failure, session);
      }
    } while (again.has(session.id) && !signal?.aborted);
    working.delete(session.id);
  };
  const wake = (session: Session) => {
    if (working.has(session.id)) again.add(session.id);
    else working.set(session.id, work(session));
  };
  const ours = new Map<string, boolean>();
  const isOurs = async (session: Session) => {
    if (!chatIdPrefix) return true;
    let known = ours.get(session.id);
    if (known === undefined) {
      known = ((await session.get()).clientId ?? "").startsWith(chatIdPrefix);
      ours.set(session.id, known);
    }
    return known;
  };
  const kinds = [v1.EventKind.PROMPT_SUBMITTED, v1.EventKind.RUN_ENDED];
  try {
    for await (const { frame } of client.frames([], { kinds, signal })) {
      if (frame.case === "ready") {
        // What came before, or while the connection was lost.
        const filter = chatIdPrefix ? { clientIdPrefix: chatIdPrefix } : {};
        for await (const { sessionId } of client.listSessions({ filter })) {
          const session = client.session(sessionId);
          if (await isWaiting(session)) wake(session);
        }
      } else if (frame.case === "events") {
        for (const { sessionId } of frame.value.events) {
          const session = client.session(sessionId);
          if (await isOurs(session)) wake(session);
        }
      }
    }
  } catch (failure) {
    if (!signal?.aborted) throw failure;
  } finally {
    await Promise.all(working.values());
  }
}

/**
 * Answers the first prompt that waits: a message, or results of a page's tools, with which the reply that called them
 * goes on. False if none waits, or another agent is at work. Throws what the answer throws; the chat shows it as an error.
 */
export async function answerChat(session: Session, answer: Answer, options: AnswerOptions = {}): Promise<boolean> {
  const { leaseMs } = options;
  let run: Run;
  try {
    run = await session.acquireRun({ takePrompt: true, leaseMs });
  } catch (error) {
    const reasons = ["NO_PROMPT", "RUN_ACTIVE", "SESSION_ARCHIVED"];
    if (reasons.some((reason) => hasReason(error, reason))) return false;
    throw error;
  }
  try {
    await write(run, await replyId(run), answer, options);
  } catch (failure) {
    await run.release(failure instanceof Error ? failure.message : failure);
    // Somebody stopped it.
    if (run.stopped && failure instanceof RunLost) return true;
    throw failure;
  }
  await run.release();
  return true;
}

/** True if a prompt waits for an agent. */
async function isWaiting(session: Session): Promise<boolean> {
  const { run, queuedPromptCount } = await session.getRun();
  return queuedPromptCount > 0 && (!run || run.end !== undefined);
}

/** The id of the reply that a run writes: results belong to the reply that made their calls. */
async function replyId({ session, prompt }: Run): Promise<string> {
  if (!prompt || !isResults(prompt.parts)) return newId("msg-");
  const known = messageFacts(prompt.metadataJson)?.id;
  return known ?? withCall(await readGroups(session), prompt.parts)?.id ?? newId("msg-");
}

async function write(run: Run, id: string, answer: Answer, options: AnswerOptions): Promise<void> {
  const { session } = run;
  const viewOptions = { overflow: v1.OverflowAction.WAIT, ...options.view };
  const readView = () => session.formattedView<ModelMessage>(v1.MessageFormat.AI_SDK, viewOptions);
  let view: FormattedView<ModelMessage> = await readView();
  const writer = new StepWriter(session, id, () => view);
  const steps = new Steps();
  const request: ChatRequest["request"] = {
    messages: [...view.messages],
    abortSignal: run.signal,
    prepareStep: async ({ stepNumber }) => {
      if (stepNumber === 0) return {};
      // The step before is in the view once its message is sealed.
      await steps.wait(stepNumber);
      await writer.seal();
      view = await readView();
      return { messages: [...view.messages] };
    },
    onStepFinish: ({ usage }) => void writer.usages.push(usageOf(usage)),
  };
  try {
    const streamed = await answer({ request, session, run });
    const chunks = streamed instanceof ReadableStream ? streamed : streamed.toUIMessageStream();
    const reader = chunks.getReader();
    // A model that does not hear of it holds up nobody.
    const stopped = once(run.signal);
    for (;;) {
      const read = await Promise.race([reader.read(), stopped]);
      if (read === undefined) {
        writer.aborted = true;
        void reader.cancel(run.signal.reason).catch(() => {});
        break;
      }
      const { value, done } = read;
      if (done) break;
      await writer.take(value);
      if (value.type === "finish-step") steps.end();
    }
    steps.stop();
    await writer.end();
  } catch (failure) {
    steps.stop();
    await writer.abort(failure).catch(() => {});
    throw failure;
  }
  if (writer.error !== undefined) throw new Error(writer.error);
}

function once(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

/** The steps of a reply that have come. */
class Steps {
  private count = 0;
  private stopped = false;
  private wake = () => {};

  /** Waits until so many have come, or no more will. */
  async wait(count: number): Promise<void> {
    while (this.count < count && !this.stopped) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }

  end(): void {
    this.count++;
    this.wake();
  }

  stop(): void {
    this.stopped = true;
    this.wake();
  }
}

/** Usage in the SDK's counts, of which the first has those of the caches in it. */
function usageOf(usage: StepUsage): v1.Usage {
  const { cacheReadTokens = 0, cacheWriteTokens = 0 } = usage.inputTokenDetails ?? {};
  const { reasoningTokens = 0 } = usage.outputTokenDetails ?? {};
  const count = (tokens: number | undefined) => Math.max(0, Math.floor(tokens ?? 0));
  return parts.usage({
    inputTokens: count((usage.inputTokens ?? 0) - cacheReadTokens - cacheWriteTokens),
    outputTokens: count((usage.outputTokens ?? 0) - reasoningTokens),
    reasoningTokens: count(reasoningTokens),
    cacheReadTokens: count(cacheReadTokens),
    cacheWriteTokens: count(cacheWriteTokens),
    ...(usage.totalTokens ? { totalTokens: usage.totalTokens } : {}),
  });
}

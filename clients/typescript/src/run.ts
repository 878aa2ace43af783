/// <reference lib="esnext.disposable" preserve="true" />
/** Runs: the right of one agent to answer. */

import { create } from "@bufbuild/protobuf";
import { RunLost, words } from "./errors.js";
import * as v1 from "./gen/v1.js";
import { afterCursor } from "./requests.js";
import type { Session } from "./session.js";
import { duration, sleep } from "./times.js";

/** The header with a run's number, by which the daemon refuses what a lost run writes. */
const EPOCH = "longhand-run-epoch";

/** How a run is acquired. */
export interface RunOptions {
  /** Takes the first prompt of the queue; without one the run is refused with NO_PROMPT. */
  takePrompt?: boolean;
  /** The time after which the run is lost when its process is gone; 30 seconds by default. */
  leaseMs?: number;
}

/** A run: renewed in the background until it is released. */
export class Run {
  /** The run, as it was acquired. */
  readonly info: v1.Run;
  /** The prompt that it took; its message is in the view. */
  readonly prompt: v1.Prompt | undefined;
  /** The session, for what is written on the run's behalf. */
  readonly session: Session;
  private readonly leaseMs: number;
  private readonly stop = new AbortController();
  private readonly end = new AbortController();
  private readonly background: Promise<void>[];

  private constructor(outer: Session, answer: v1.AcquireRunResponse, leaseMs: number) {
    this.info = answer.run ?? create(v1.RunSchema);
    this.prompt = answer.prompt;
    this.leaseMs = leaseMs;
    this.session = outer.withHeaders({ [EPOCH]: String(this.epoch) });
    this.background = [this.renew(), this.learnStop()];
  }

  static async acquire(session: Session, options: RunOptions): Promise<Run> {
    const { takePrompt, leaseMs = 30_000 } = options;
    const request = { sessionId: session.id, takePrompt, leaseTimeout: duration(leaseMs) };
    return new Run(session, await session.call(v1.RunService.method.acquireRun, request), leaseMs);
  }

  /** Its number in the session. */
  get epoch(): bigint {
    return this.info.epoch;
  }

  /** Aborted once the run was asked to stop, or has ended: its agent should end, too. For `fetch`, models and tools. */
  get signal(): AbortSignal {
    return this.stop.signal;
  }

  /** True once the signal is aborted. */
  get stopped(): boolean {
    return this.stop.signal.aborted;
  }

  /** Ends the run; with a failure as failed. */
  async release(failure?: unknown): Promise<void> {
    if (this.end.signal.aborted) return;
    this.end.abort();
    await Promise.all(this.background);
    const request = {
      sessionId: this.session.id,
      epoch: this.epoch,
      failure: failure === undefined ? undefined : words(failure),
    };
    try {
      await this.session.client.call(v1.RunService.method.releaseRun, request);
    } catch (error) {
      // It ended otherwise: it was stopped, or its lease ran out.
      if (!(error instanceof RunLost)) throw error;
    } finally {
      this.stop.abort();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** Takes a prompt of the queue; throws `LonghandError` with NO_PROMPT if there is none. */
  async takePrompt(options: { promptId?: string; steeringOnly?: boolean } = {}): Promise<v1.Prompt> {
    const request = { ...options, sessionId: this.session.id, epoch: this.epoch };
    const { prompt } = await this.session.client.call(v1.PromptService.method.takePrompt, request);
    return prompt ?? create(v1.PromptSchema);
  }

  /** Follows what concerns the run: prompts, requests to stop, answers, and its end, after which it is over. */
  watch(options: { signal?: AbortSignal } = {}): AsyncGenerator<v1.WatchRunResponse> {
    const request = create(v1.WatchRunRequestSchema, { sessionId: this.session.id, epoch: this.epoch });
    return this.session.client.follow(v1.RunService.method.watchRun, request, afterCursor, options);
  }

  /** Extends the lease three times in its time, until the run ends. */
  private async renew(): Promise<void> {
    const request = { sessionId: this.session.id, epoch: this.epoch, leaseTimeout: duration(this.leaseMs) };
    const { signal } = this.end;
    try {
      for (;;) {
        await sleep((this.leaseMs / 3) * (0.8 + Math.random() / 5), signal);
        const options = { signal, retryMs: this.leaseMs, timeoutMs: this.leaseMs };
        const { run } = await this.session.client.call(v1.RunService.method.renewRun, request, options);
        if (run?.cancelRevision !== undefined) this.stop.abort();
      }
    } catch {
      // Ended, or lost, or nobody answers; what is written from now on says so.
      if (!signal.aborted) this.stop.abort();
    }
  }

  /** Learns at once that the run is to stop. */
  private async learnStop(): Promise<void> {
    try {
      for await (const { frame } of this.watch({ signal: this.end.signal })) {
        if (frame.case === "run") this.stop.abort();
      }
    } catch {
      // The next renewal says what there is to say.
    }
  }
}

/** Summaries that a client writes with its own model. */

import type { Client } from "./client.js";
import * as v1 from "./gen/v1.js";
import { asJson, type Json } from "./parts.js";
import { duration, sleep } from "./times.js";

/** A leased task: `system` and `prompt` are a request for a model, and `complete` takes its answer. */
export class SummaryTask {
  /** The task. */
  info: v1.SummaryTask;
  private readonly client: Client;
  private readonly leaseToken: string;
  private readonly leaseMs: number;
  private readonly window: number;
  private readonly done = new AbortController();

  constructor(client: Client, task: v1.SummaryTask, leaseToken: string, leaseMs: number, window: number) {
    this.info = task;
    this.client = client;
    this.leaseToken = leaseToken;
    this.leaseMs = leaseMs;
    this.window = window;
    void this.extend();
  }

  /** The system prompt for a model. */
  get system(): string {
    return this.info.system;
  }

  /** The request for a model, with the history in it as data. */
  get prompt(): string {
    return this.info.prompt;
  }

  /** Does the work, and gives the task back if that did not complete it. */
  async use<T>(work: (task: SummaryTask) => Promise<T>): Promise<T> {
    try {
      return await work(this);
    } finally {
      // If the lease has ended, the task is with somebody else already.
      if (!this.done.signal.aborted) await this.fail().catch(() => this.done.abort());
    }
  }

  /** Completes the task with its summary; throws `LonghandError` with SUMMARY_REFUSED for one that is none. */
  async complete(
    text: string,
    options: { model?: string; reason?: v1.FinishReason; usage?: v1.Usage; supplied?: boolean } = {},
  ): Promise<v1.Compaction | undefined> {
    const request = { reason: v1.FinishReason.STOP, ...options, text, ...this.lease() };
    const answer = await this.client.call(v1.SummaryTaskService.method.completeSummaryTask, request);
    this.done.abort();
    return answer.compaction;
  }

  /** The request by which a model checks its summary; empty if the policy has none. */
  check(text: string): Promise<v1.CheckSummaryTaskResponse> {
    const request = { text, windowTokens: BigInt(this.window), ...this.lease() };
    return this.client.call(v1.SummaryTaskService.method.checkSummaryTask, request);
  }

  /** Changes the plan; `prompt` is then another one. */
  async edit(options: {
    tailStartMessageId?: string;
    retainedMessageIds?: string[];
    instructions?: string;
    details?: Json;
  }): Promise<void> {
    const { retainedMessageIds: messageIds, details, ...rest } = options;
    const answer = await this.client.call(v1.SummaryTaskService.method.editSummaryTask, {
      ...rest,
      detailsJson: asJson(details),
      retained: messageIds && { messageIds },
      windowTokens: BigInt(this.window),
      ...this.lease(),
    });
    this.info = answer.task ?? this.info;
  }

  /** Gives the task back; with `permanent` the configured summarizers write it at once. */
  async fail(options: { permanent?: boolean } = {}): Promise<void> {
    const failure = options.permanent ? v1.SummaryTaskFailure.PERMANENT : v1.SummaryTaskFailure.TRANSIENT;
    await this.client.call(v1.SummaryTaskService.method.failSummaryTask, { failure, ...this.lease() });
    this.done.abort();
  }

  /** Gives the task to the configured summarizers, with the changes that were made to it. */
  async delegate(): Promise<void> {
    await this.client.call(v1.SummaryTaskService.method.delegateSummaryTask, this.lease());
    this.done.abort();
  }

  private lease() {
    return { compactionId: this.info.compactionId, leaseToken: this.leaseToken };
  }

  /** Extends the lease three times in its time, until the task is done. */
  private async extend(): Promise<void> {
    const { signal } = this.done;
    const request = { ...this.lease(), leaseTimeout: duration(this.leaseMs) };
    try {
      for (;;) {
        await sleep(this.leaseMs / 3, signal);
        await this.client.call(v1.SummaryTaskService.method.extendSummaryTask, request, { signal });
      }
    } catch {
      // Done, or with somebody else: `complete` says so.
    }
  }
}

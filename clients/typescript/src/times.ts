/** Times and attempts. */

import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema } from "@bufbuild/protobuf/wkt";
import type { LonghandError } from "./errors.js";

/** The shortest and the longest time before another attempt. */
const RETRY_MS = { first: 50, last: 2000 };

/** A duration of the protocol; undefined stays so. */
export function duration(ms: number): Duration;
export function duration(ms: number | undefined): Duration | undefined;
export function duration(ms: number | undefined): Duration | undefined {
  if (ms === undefined) return undefined;
  const seconds = Math.floor(ms / 1000);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) });
}

/** Waits; ends early, with the signal's reason, if it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/**
 * A signal that is aborted with the first of these. Each of them holds it, so that it lives as long as they do, whatever
 * the platform keeps of what listens to it.
 */
export function either(one: AbortSignal, other: AbortSignal | undefined): AbortSignal {
  if (!other) return one;
  const first = new AbortController();
  for (const signal of [one, other]) {
    const abort = () => first.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true, signal: first.signal });
  }
  return first.signal;
}

/** What becomes of the work, or `failure`, once the time is over. */
export async function inTime<T>(work: Promise<T>, ms: number | undefined, failure: () => Error): Promise<T> {
  if (ms === undefined || ms === Number.POSITIVE_INFINITY) return work;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failure()), ms);
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}

/** The next answers until the signal is aborted, whatever the transport makes of it. */
export async function* until<T>(answers: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  signal.throwIfAborted();
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => (stop = () => reject(signal.reason)));
  aborted.catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  const iterator = answers[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { value, done } = await Promise.race([iterator.next(), aborted]);
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** The times at which a call is tried again. */
export class Attempts {
  private readonly end: number;
  private readonly last: number;
  private delay = RETRY_MS.first;

  /** With the time for all of it, beside that in which another attempt may begin. */
  constructor(retryMs: number, timeoutMs = Number.POSITIVE_INFINITY) {
    this.end = performance.now() + retryMs;
    this.last = performance.now() + timeoutMs;
  }

  /** The time that is left; undefined for no end. */
  left(): number | undefined {
    return this.last === Number.POSITIVE_INFINITY ? undefined : Math.max(Math.ceil(this.last - performance.now()), 1);
  }

  /** The time before the next attempt; throws the failure if there is none. */
  next(failure: LonghandError): number {
    const wait = failure.retryMs ?? this.delay * (0.5 + Math.random() / 2);
    if (!failure.temporary || performance.now() + wait > Math.min(this.end, this.last)) throw failure;
    this.delay = Math.min(2 * this.delay, RETRY_MS.last);
    return wait;
  }
}

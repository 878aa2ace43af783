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
  private delay = RETRY_MS.first;

  constructor(retryMs: number) {
    this.end = performance.now() + retryMs;
  }

  /** The time before the next attempt; throws the failure if there is none. */
  next(failure: LonghandError): number {
    const wait = failure.retryMs ?? this.delay * (0.5 + Math.random() / 2);
    if (!failure.temporary || performance.now() + wait > this.end) throw failure;
    this.delay = Math.min(2 * this.delay, RETRY_MS.last);
    return wait;
  }
}

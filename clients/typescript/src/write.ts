/** The stream of frames by which a message is written. */

import { create } from "@bufbuild/protobuf";
import type { CallHeaders, Client } from "./client.js";
import { errorOf, overdue } from "./errors.js";
import * as v1 from "./gen/v1.js";
import { either, inTime } from "./times.js";

/** Frames that may wait before a writer waits, too. */
const QUEUED_FRAMES = 64;

/** One call of WriteMessage, as something to push frames into. */
export class FrameStream {
  private readonly client: Client;
  private readonly queue: v1.WriteMessageRequest[] = [];
  private readonly control = new AbortController();
  private readonly answer: Promise<v1.WriteMessageResponse>;
  private failure: unknown;
  private closed = false;
  private wake: (() => void)[] = [];

  constructor(client: Client, headers: CallHeaders) {
    this.client = client;
    this.answer = this.call(client, headers);
    this.answer.then(
      () => this.signal(),
      (failure: unknown) => {
        this.failure = failure;
        this.signal();
      },
    );
  }

  /** Sends a frame; waits while the daemon takes none. Throws the call's error once it has ended. */
  async push(frame: v1.WriteMessageRequest): Promise<void> {
    if (this.failure === undefined) this.queue.push(frame);
    this.signal();
    while (this.failure === undefined && this.queue.length > QUEUED_FRAMES) await this.inTime(this.change());
    if (this.failure !== undefined) throw this.failure;
  }

  /** Ends the stream of frames, and waits for the answer. */
  finish(): Promise<v1.WriteMessageResponse> {
    this.closed = true;
    this.signal();
    return this.inTime(this.answer);
  }

  private inTime<T>(work: Promise<T>): Promise<T> {
    const { timeoutMs } = this.client;
    return inTime(work, timeoutMs, () => {
      this.cancel();
      return overdue(timeoutMs);
    });
  }

  /** Breaks the call off. */
  cancel(): void {
    this.closed = true;
    this.control.abort();
    this.signal();
  }

  private async call(client: Client, headers: CallHeaders): Promise<v1.WriteMessageResponse> {
    const method = v1.MessageService.method.writeMessage;
    try {
      const signal = either(this.control.signal, client.signal);
      const call = await client.transport.stream(method, signal, undefined, client.headers(headers), this.frames());
      let answer = create(v1.WriteMessageResponseSchema);
      for await (const message of call.message) answer = message;
      return answer;
    } catch (failure) {
      throw errorOf(failure);
    }
  }

  private async *frames(): AsyncGenerator<v1.WriteMessageRequest> {
    for (;;) {
      const frame = this.queue.shift();
      if (frame) {
        this.signal();
        yield frame;
      } else if (this.closed || this.failure !== undefined) {
        return;
      } else {
        await this.change();
      }
    }
  }

  private change(): Promise<void> {
    return new Promise((resolve) => this.wake.push(resolve));
  }

  private signal(): void {
    const wake = this.wake;
    this.wake = [];
    for (const one of wake) one();
  }
}

/** What is left of frames that a daemon with these parts and drafts may have got. */
export function remainder(frames: v1.WriteMessageRequest[], answer: v1.GetMessageResponse): v1.WriteMessageRequest[] {
  const closed = new Set(answer.message?.parts.map((part) => part.clientId));
  const lengths = new Map(answer.drafts.map((draft) => [draft.clientId, utf8(draft.text).length]));
  return frames.flatMap((one) => {
    const { frame } = one;
    if (frame.case === "part" || frame.case === "draftEnd") return closed.has(frame.value.clientId) ? [] : [one];
    if (frame.case !== "draftText") return [one];
    const draft = frame.value;
    if (closed.has(draft.clientId)) return [];
    const length = lengths.get(draft.clientId);
    const bytes = utf8(draft.delta);
    const known = (length ?? 0) - Number(draft.offsetBytes ?? 0n);
    if (length !== undefined && known >= bytes.length) return [];
    if (known <= 0) return [one];
    const value = { ...draft, offsetBytes: BigInt(length ?? 0), delta: new TextDecoder().decode(bytes.slice(known)) };
    return [create(v1.WriteMessageRequestSchema, { frame: { case: "draftText", value } })];
  });
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/**
 * A conversation that its agent keeps itself, in a session: what is new in it is appended, what the agent went back
 * behind is rewound, and the session's view is what the agent's model sees.
 */

import { batches } from "./batches.js";
import type { Client, NewSession } from "./client.js";
import { compactNow } from "./compaction.js";
import * as v1 from "./gen/v1.js";
import { plainText } from "./parts.js";
import { type Session, START, type View, type ViewOptions } from "./session.js";

/** What a session has of a conversation whose states are not in it any more. */
const GONE = new Set([v1.MessageState.REWOUND, v1.MessageState.REMOVED, v1.MessageState.UNDONE]);

/** A message of the agent. Its key is the same whenever it is seen, and no other message has it. */
export interface Mirrored {
  key: string;
  message: v1.NewMessage;
}

/** The limits of a model, as its agent uses them. */
export interface Limits {
  context: number;
  /** A limit on input, if the model has one. */
  input?: number | undefined;
  /** The most that the agent asks for in one reply, which may be less than the model can write. */
  output: number;
}

/** A compaction that is done. */
export interface Done {
  compaction: v1.Compaction;
  /** The text that stands for the history; undefined if the compaction needed none. */
  summary: string | undefined;
}

/** The conversation, as this process knows it. Calls are carried out one after the other. */
export class Mirror {
  private readonly client: () => Promise<Client>;
  private readonly prefix: string;
  private readonly name: string;
  private readonly options: NewSession & { metadata?: Record<string, unknown> };
  private opened: Promise<Session> | undefined;
  /** The conversation's messages of this agent: their keys and ids. */
  private sent: { key: string; messageId: string }[] | undefined;
  private readonly keys = new Map<string, string>();
  /** Every client id of the history, also of what was rewound: an id cannot be used again. */
  private readonly used = new Set<string>();
  private before: Promise<unknown> = Promise.resolve();

  /** Keys begin with `prefix`: by it, this agent's messages are told from those that others gave client ids. */
  constructor(
    client: () => Promise<Client>,
    prefix: string,
    name: string,
    options: NewSession & { metadata?: Record<string, unknown> },
  ) {
    this.client = client;
    this.prefix = prefix;
    this.name = name;
    this.options = options;
  }

  /** The session, made when it is first used. */
  session(): Promise<Session> {
    if (!this.opened) {
      const opened = this.client().then((client) => client.openSession(this.name, this.options));
      this.opened = opened;
      opened.catch(() => {
        this.opened = undefined;
      });
    }
    return this.opened;
  }

  /**
   * Has the session say what the agent's conversation is. With `grow`, the conversation may lack its newest messages, and
   * what the session has of them stays; with `suffix` it may lack its oldest ones. True if it is whole at its end.
   */
  write(conversation: readonly Mirrored[], options: { grow?: boolean; suffix?: boolean } = {}): Promise<boolean> {
    return this.inOrder(() => this.changing(() => this.align(conversation, options)));
  }

  /** Appends a message if the session does not have it, whatever comes before it. */
  add(one: Mirrored): Promise<void> {
    return this.inOrder(() =>
      this.changing(async () => {
        const sent = await this.load();
        if (!sent.some(({ key }) => key === one.key)) await this.append(sent, [one], undefined);
      }),
    );
  }

  /** Gives the session the window of the model that answers next, if it has another one. */
  fit(limits: Limits | undefined): Promise<void> {
    return this.inOrder(async () => {
      if (!limits) return;
      const session = await this.session();
      const known = (session.info ?? (await session.get())).window;
      const window = windowOf(limits);
      const isSame =
        known?.maxContextTokens === window.maxContextTokens &&
        known.maxInputTokens === window.maxInputTokens &&
        known.maxOutputTokens === window.maxOutputTokens;
      if (isSame) return;
      const overheadTokens = known?.overheadTokens ?? 0n;
      session.info = await session.update({ window: { ...window, model: known?.model ?? "", overheadTokens } });
    });
  }

  /** What the model should see now. */
  view(options: ViewOptions = {}): Promise<View> {
    return this.inOrder(async () => (await this.session()).view(options));
  }

  /** The key of a message in a view; undefined for one that another writer made. */
  keyOf(message: v1.ViewMessage): string | undefined {
    return message.kind === v1.ViewMessageKind.SHOWN ? this.keys.get(message.messageId) : undefined;
  }

  /** Asks for a compaction, and waits for its end. Throws `NotCompacted`. */
  async compact(instructions: string | undefined, signal: AbortSignal): Promise<Done> {
    const session = await this.session();
    return this.done(session, await compactNow(session, instructions, signal));
  }

  /** A compaction with its summary. */
  async done(session: Session, compaction: v1.Compaction): Promise<Done> {
    const id = compaction.outcome?.summaryMessageId;
    return { compaction, summary: id === undefined ? undefined : plainText(await session.getMessage(id)) };
  }

  private inOrder<T>(step: () => Promise<T>): Promise<T> {
    const result = this.before.then(step);
    this.before = result.catch(() => {});
    return result;
  }

  /** A change that fails may have been made, or not, or in part: what the session has is then read again. */
  private async changing<T>(change: () => Promise<T>): Promise<T> {
    try {
      return await change();
    } catch (failure) {
      this.sent = undefined;
      throw failure;
    }
  }

  /** What the session has, once: from then on this process is its only mirror. */
  private async load(): Promise<{ key: string; messageId: string }[]> {
    if (this.sent) return this.sent;
    const sent: { key: string; messageId: string }[] = [];
    for await (const message of (await this.session()).history({ excludeRecords: true, pageSize: 1000 })) {
      const { clientId, messageId, status } = message;
      if (!clientId) continue;
      this.used.add(clientId);
      if (!clientId.startsWith(this.prefix)) continue;
      const key = clientId.replace(/~\d+$/, "");
      this.keys.set(messageId, key);
      if (!GONE.has(status?.state ?? 0)) sent.push({ key, messageId });
    }
    this.sent = sent;
    return sent;
  }

  private async align(
    conversation: readonly Mirrored[],
    options: { grow?: boolean; suffix?: boolean },
  ): Promise<boolean> {
    const sent = await this.load();
    const found = sent.findIndex(({ key }) => key === conversation[0]?.key);
    const start = options.suffix ? (found === -1 ? sent.length : found) : 0;
    let same = start;
    while (same < sent.length && sent[same]?.key === conversation[same - start]?.key) same++;
    const added = conversation.slice(same - start);
    if (options.grow && added.length === 0) return same === sent.length;
    const rewindTo = same < sent.length ? (sent[same - 1]?.messageId ?? START) : undefined;
    if (rewindTo !== undefined && added.length === 0) await (await this.session()).rewind(rewindTo);
    sent.length = same;
    if (added.length > 0) await this.append(sent, added, rewindTo);
    return true;
  }

  private async append(
    sent: { key: string; messageId: string }[],
    added: readonly Mirrored[],
    rewindTo: string | undefined,
  ): Promise<void> {
    const session = await this.session();
    let target = rewindTo;
    for (const batch of batches(added, ({ message }) => message)) {
      const clientIds = batch.map(({ key }) => this.unused(key));
      const messages = batch.map(({ message }, index) => ({ ...message, clientId: clientIds[index] }));
      const { messageIds } = await session.append(messages, target === undefined ? {} : { rewindTo: target });
      target = undefined;
      for (const [index, { key }] of batch.entries()) {
        const messageId = messageIds[index] ?? "";
        this.used.add(clientIds[index] ?? "");
        this.keys.set(messageId, key);
        sent.push({ key, messageId });
      }
    }
  }

  private unused(key: string): string {
    if (!this.used.has(key)) return key;
    let number = 2;
    while (this.used.has(`${key}~${number}`)) number++;
    return `${key}~${number}`;
  }
}

/** The window of a session for a model with these limits. */
export function windowOf({ context, input, output }: Limits) {
  return {
    maxContextTokens: BigInt(context),
    ...(input ? { maxInputTokens: BigInt(input) } : {}),
    ...(output > 0 ? { maxOutputTokens: BigInt(output) } : {}),
  } as { maxContextTokens: bigint; maxInputTokens?: bigint; maxOutputTokens?: bigint };
}

/** The words of a failure, for people. */
export function textOfFailure(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}

/** The input of a call: an object, also where a model wrote none. */
export function inputOf(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return { invalid_json: json };
  }
}

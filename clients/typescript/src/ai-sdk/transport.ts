/** The chat of a page: sends to a session's queue, and gets the reply as it comes. */

import { create } from "@bufbuild/protobuf";
import type { AbstractChat, ChatStatus, ChatTransport, UIMessage, UIMessageChunk } from "ai";
import type { Client, NewSession } from "../client.js";
import { hasReason } from "../errors.js";
import * as v1 from "../gen/v1.js";
import type { Session } from "../session.js";
import { START } from "../session.js";
import { either, sleep } from "../times.js";
import { type ReplyBegin, replyChunks } from "./follow.js";
import { messageFacts } from "./pieces.js";
import { type Group, isResults, loadChat, newResults, promptFacts, promptOf, readGroups, withCall } from "./store.js";

/** What changes what a page shows. */
const CHANGES = [
  v1.EventKind.PROMPT_SUBMITTED,
  v1.EventKind.PROMPT_WITHDRAWN,
  v1.EventKind.RUN_STARTED,
  v1.EventKind.RUN_ENDED,
  v1.EventKind.MESSAGE_APPENDED,
  v1.EventKind.MESSAGE_EDITED,
  v1.EventKind.SESSION_REWOUND,
  v1.EventKind.REWRITE_UNDONE,
  v1.EventKind.REWRITE_REDONE,
  v1.EventKind.ERASED,
];

/**
 * The transport of a chat whose id is the client id of a session, made when it is first used. It needs no server but the
 * daemon: in a page its client is that of `longhand/browser`. In a route of a server, `sendMessages` and
 * `reconnectToStream` are the two requests of a `DefaultChatTransport`.
 *
 * The signals end the reading, not the agent: a page that is left stops nobody's reply. `stop` stops the agent.
 */
export class LonghandChatTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  /** A reply that is resumed comes from its beginning, in one chunk as far as it was. */
  readonly resumeStreamIsReplay = true;
  private readonly client: Client;
  private readonly options: NewSession & { metadata?: Record<string, unknown> };
  private readonly sessions = new Map<string, Promise<Session>>();

  constructor(client: Client, options: NewSession & { metadata?: Record<string, unknown> } = {}) {
    this.client = client;
    this.options = options;
  }

  /** The session of a chat, for everything that the SDK has no word for. */
  session(chatId: string): Promise<Session> {
    let session = this.sessions.get(chatId);
    if (!session) {
      session = this.client.openSession(chatId, this.options);
      this.sessions.set(chatId, session);
      // The next use tries again.
      session.catch(() => this.sessions.delete(chatId));
    }
    return session;
  }

  /** The conversation, for a new page. */
  async load(chatId: string): Promise<M[]> {
    return loadChat<M>(await this.session(chatId));
  }

  /** Asks the agent that answers to stop. */
  async stop(chatId: string): Promise<void> {
    try {
      await (await this.session(chatId)).cancelRun();
    } catch (error) {
      if (!hasReason(error, "RUN_NOT_FOUND")) throw error;
    }
  }

  async sendMessages(
    options: Parameters<ChatTransport<M>["sendMessages"]>[0],
  ): Promise<ReadableStream<UIMessageChunk>> {
    const { chatId, messages, trigger, messageId, abortSignal } = options;
    const session = await this.session(chatId);
    const last = messages.at(-1);
    const begin = async (): Promise<ReplyBegin> => {
      if (trigger === "regenerate-message") return this.regenerate(session, messageId ?? last?.id);
      if (!last) throw new Error("there is no message to send");
      return last.role === "assistant" ? this.sendResults(session, last) : this.sendPrompt(session, last);
    };
    return replyChunks(session, begin, abortSignal);
  }

  /** The reply that is being written, from its beginning; null if none is, or will be for a prompt that waits. */
  async reconnectToStream(
    options: Parameters<ChatTransport<M>["reconnectToStream"]>[0],
  ): Promise<ReadableStream<UIMessageChunk> | null> {
    const session = await this.session(options.chatId);
    const begin = () => activeReply(session);
    if (!(await begin())) return null;
    return replyChunks(session, begin, (options as { abortSignal?: AbortSignal }).abortSignal, { whole: true });
  }

  /**
   * Keeps a chat as the session is, whoever writes to it: other pages, other agents, people with other clients. Ends
   * with the signal.
   */
  async follow(chat: AbstractChat<M>, options: { signal?: AbortSignal } = {}): Promise<void> {
    const session = await this.session(chat.id);
    const own = new AbortController();
    const signal = either(own.signal, options.signal);
    let changed = false;
    let wake = () => {};
    const show = async () => {
      for (;;) {
        // It may have ended while the chat was read, when nobody waited.
        if (!changed && !signal.aborted) await new Promise<void>((resolve) => (wake = resolve));
        if (signal.aborted) return;
        changed = false;
        // The chat's own reply is on its way, and what follows it is shown behind it.
        while (isBusy(chat)) await sleep(30, signal);
        // Before the messages, so that what it answers is among them.
        const reply = await activeReply(session);
        const messages = await this.load(chat.id);
        if (isBusy(chat)) {
          changed = true;
          continue;
        }
        if (!same(chat.messages, messages)) chat.messages = messages;
        if (reply) void chat.resumeStream();
      }
    };
    const shown = show().catch((failure) => {
      if (!signal.aborted) own.abort(failure);
    });
    try {
      for await (const { frame } of session.frames({ kinds: CHANGES, signal })) {
        if (frame.case !== "ready" && frame.case !== "events") continue;
        changed = true;
        wake();
      }
    } catch (failure) {
      if (!options.signal?.aborted) throw own.signal.aborted ? own.signal.reason : failure;
    } finally {
      own.abort();
      wake();
      await shown;
    }
  }

  /** Puts a user's message in the queue; one that the session has already is sent again in its place, in one change. */
  private async sendPrompt(session: Session, message: UIMessage): Promise<ReplyBegin> {
    for await (const prompt of session.listPrompts()) {
      if (promptFacts(prompt).id === message.id) return { promptId: prompt.promptId };
    }
    const groups = await readGroups(session);
    const known = groups.findIndex(({ id }) => id === message.id);
    const { parts: content, metadata } = promptOf(message);
    if (known !== -1) return this.sendAgain(session, groups, known, content, metadata);
    return { promptId: await session.submit(content, { metadata }) };
  }

  /** Leaves out a reply with the message that it answers, and sends that one again, in one change. */
  private async regenerate(session: Session, messageId: string | undefined): Promise<ReplyBegin> {
    const groups = await readGroups(session);
    const reply = messageId === undefined ? groups.length - 1 : groups.findIndex(({ id }) => id === messageId);
    const asked = groups.slice(0, reply + 1).findLastIndex(({ role }) => role === "user");
    const message = groups[asked]?.messages[0];
    if (!message) throw new Error(`the session has no reply ${messageId} to a user's message`);
    const content = message.parts.map(({ body, metadataJson }) => create(v1.PartSchema, { body, metadataJson }));
    return this.sendAgain(session, groups, asked, content, message.metadataJson);
  }

  /** Sends a message in the place of a group, and leaves out what was there and behind it. */
  private async sendAgain(
    session: Session,
    groups: Group[],
    index: number,
    content: v1.Part[],
    metadata: string | undefined,
  ): Promise<ReplyBegin> {
    const rewindTo = groups[index - 1]?.messages.at(-1)?.messageId ?? START;
    return { promptId: await session.submit(content, { metadata, rewindTo }) };
  }

  /** Sends the results of tools that ran in the page, before messages that wait: a run goes on with the reply. */
  private async sendResults(session: Session, message: UIMessage): Promise<ReplyBegin> {
    const waiting: v1.Prompt[] = [];
    for await (const prompt of session.listPrompts()) if (isResults(prompt.parts)) waiting.push(prompt);
    const group = (await readGroups(session)).find(({ id }) => id === message.id);
    if (!group) throw new Error(`the session has no message ${message.id}`);
    const results = newResults(message, group, waiting);
    if (results.length === 0) {
      // Another page was faster.
      const sent = waiting.find(({ parts: all }) => withCall([group], all));
      if (sent) return { promptId: sent.promptId };
      throw new Error("the last message is a reply without new results of tools");
    }
    const metadata = messageFactsJson(group.messages);
    return { promptId: await session.submit(results, { metadata, delivery: v1.Delivery.STEER }) };
  }
}

function messageFactsJson(messages: readonly v1.Message[]): string | undefined {
  return messages.find(({ metadataJson }) => messageFacts(metadataJson))?.metadataJson;
}

/** Where the reply begins that is being written, or will be. */
async function activeReply(session: Session): Promise<ReplyBegin | undefined> {
  const { run, queuedPromptCount } = await session.getRun();
  if (run && !run.end) return { epoch: run.epoch };
  if (queuedPromptCount === 0) return undefined;
  for await (const prompt of session.listPrompts()) return { promptId: prompt.promptId };
  return undefined;
}

function isBusy(chat: { status: ChatStatus }): boolean {
  return chat.status === "submitted" || chat.status === "streaming";
}

function same(one: readonly UIMessage[], other: readonly UIMessage[]): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

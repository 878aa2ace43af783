/**
 * A plugin of the coding agent OpenCode that lets Longhand do the compaction.
 *
 * In `opencode.json`: `"plugin": ["file:///…/node_modules/longhand/dist/opencode.js"]`, or with options
 * `["file:///…", { "preset": "pi" }]`.
 *
 * Every conversation of OpenCode is mirrored in a session, and each request to the model has the session's view. Where
 * OpenCode compacts, by itself or when it is asked to, its compaction agent gets Longhand's summary as its reply; and
 * what Longhand compacted in the background is summarized so as soon as OpenCode is idle. So OpenCode shows each
 * compaction as its own.
 *
 * OpenCode takes every export of this module for a plugin: it has one.
 *
 * @module
 */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Client } from "./client.js";
import { NotCompacted } from "./compaction.js";
import * as v1 from "./gen/v1.js";
import { connect } from "./index.js";
import { type Done, inputOf, type Limits, Mirror, type Mirrored, textOfFailure, windowOf } from "./mirror.js";
import * as parts from "./parts.js";
import { newId } from "./requests.js";
import type { View } from "./session.js";

// The interface of OpenCode, as far as it is used.

type Fields = Record<string, unknown>;

interface Part extends Fields {
  id: string;
  type: string;
  text?: string;
}

interface Info extends Fields {
  id: string;
  sessionID: string;
  role: string;
}

interface Shown {
  info: Info;
  parts: Part[];
}

interface ToolState {
  status: string;
  input?: unknown;
  output?: string;
  error?: string;
}

/** The name of the summary's provider and model in OpenCode's configuration. */
const PROVIDER = "longhand";
const MODEL = "summary";
/** The most that OpenCode asks a model for, whatever its limit is: `OUTPUT_TOKEN_MAX`, also where no limit is known. */
const OUTPUT_TOKENS_MAX = Number(process.env["OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX"]) || 32_000;
/** How a request for a summary names its session. */
const MARK = "longhand-session:";
const NAME = "opencode";
/** How the keys of its messages begin. */
const PREFIX = `${NAME}:`;

/** A conversation of OpenCode. */
interface Conversation {
  mirror: Mirror;
  view: View | undefined;
  pending: Done | undefined;
  recorded: Set<string>;
  idle: boolean;
  recording: boolean;
  /** False once following failed; the next request that succeeds begins again. */
  followed: boolean;
  /** The model of the newest prompt. */
  model: { providerID: string; modelID: string } | undefined;
  /** The model whose window the session has. */
  fitted: string | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: OpenCode's own types are those of its package.
export async function LonghandPlugin(input: any, options: Fields = {}): Promise<any> {
  const preset = typeof options["preset"] === "string" ? options["preset"] : "pi";
  const waitMs = typeof options["waitMs"] === "number" ? options["waitMs"] : 30_000;
  let client: Promise<Client> | undefined;
  const conversations = new Map<string, Conversation>();
  const compacting = new Set<string>();
  const stop = new AbortController();
  const summaries = await SummaryServer.start((sessionId) => summarize(sessionId));

  const show = (message: string, variant: "info" | "warning" | "error") =>
    input.client.tui.showToast({ body: { title: "Longhand", message, variant } }).catch(() => {});

  const conversationOf = async (sessionId: string, model: Conversation["model"]): Promise<Conversation> => {
    const known = conversations.get(sessionId);
    const name = model && model.providerID !== PROVIDER ? `${model.providerID}/${model.modelID}` : undefined;
    if (known && (!name || known.fitted === name)) return known;
    const limits = await limitsOf(input.client, model);
    // Another request may have been faster.
    const conversation = conversations.get(sessionId) ?? begin(sessionId, model, limits);
    // The session may have been there already, with the window of another model.
    await conversation.mirror.fit(limits);
    conversation.fitted = name;
    return conversation;
  };

  const begin = (sessionId: string, model: Conversation["model"], limits: Limits | undefined): Conversation => {
    const mirror = new Mirror(connected, PREFIX, `${NAME}:${sessionId}`, {
      preset,
      metadata: { agent: NAME, cwd: String(input.directory ?? "") },
      ...(limits ? { window: windowOf(limits) } : {}),
    });
    const made: Conversation = {
      mirror,
      model,
      fitted: undefined,
      view: undefined,
      pending: undefined,
      recorded: new Set(),
      idle: false,
      recording: false,
      followed: false,
    };
    conversations.set(sessionId, made);
    followAgain(sessionId, made);
    return made;
  };

  /** The client; a daemon that was not there is asked again. */
  const connected = (): Promise<Client> => {
    if (!client) {
      const made = connect({ actor: NAME });
      client = made;
      made.catch(() => {
        if (client === made) client = undefined;
      });
    }
    return client;
  };

  const followAgain = (sessionId: string, conversation: Conversation) => {
    if (conversation.followed) return;
    conversation.followed = true;
    void follow(sessionId, conversation).finally(() => {
      conversation.followed = false;
    });
  };

  /** Makes OpenCode's own summary of what Longhand did in the background, once it is idle. */
  const record = async (sessionId: string, conversation: Conversation) => {
    const { pending, model } = conversation;
    if (!pending || !model || !conversation.idle || conversation.recording) return;
    conversation.recording = true;
    await input.client.session.summarize({ path: { id: sessionId }, body: model }).catch(() => {});
    conversation.recording = false;
  };

  const follow = async (sessionId: string, conversation: Conversation) => {
    const kinds = [v1.EventKind.COMPACTED, v1.EventKind.COMPACTION_FAILED, v1.EventKind.COMPACTION_UNDONE];
    try {
      const session = await conversation.mirror.session();
      for await (const { body } of session.events({ kinds, signal: stop.signal })) {
        if (body.case === "compactionUndone") conversation.pending = undefined;
        if (body.case === "compactionFailed") show(`could not compact: ${body.value.failure?.message}`, "warning");
        if (body.case !== "compacted") continue;
        const { compactionId, outcome } = body.value;
        const tokens = `${outcome?.estimatedTokensBefore} to ${outcome?.estimatedTokensAfter} tokens`;
        show(`The conversation was compacted: ${tokens}`, "info");
        const { compaction } = await session.call(v1.CompactionService.method.getCompaction, { compactionId });
        if (!compaction?.outcome?.summaryMessageId || conversation.recorded.has(compactionId)) continue;
        conversation.pending = await conversation.mirror.done(session, compaction);
        await record(sessionId, conversation);
      }
    } catch (failure) {
      if (!stop.signal.aborted) show(textOfFailure(failure), "error");
    }
  };

  /** The summary that stands for the history of a session. */
  const summarize = async (sessionId: string): Promise<string> => {
    const conversation = await conversationOf(sessionId, undefined);
    const done = conversation.pending ?? (await conversation.mirror.compact(undefined, stop.signal));
    conversation.pending = undefined;
    conversation.recorded.add(done.compaction.compactionId);
    if (done.summary === undefined) throw new NotCompacted("outputs were shortened, and a summary was not needed");
    return done.summary;
  };

  return {
    config: async (config: Fields) => {
      const models = { [MODEL]: { name: "Longhand", limit: { context: 10_000_000, output: 32_000 } } };
      const own = { npm: "@ai-sdk/openai-compatible", name: "Longhand", options: summaries.options, models };
      const agents = (config["agent"] ?? {}) as Record<string, Fields>;
      config["provider"] = { ...(config["provider"] as Fields), [PROVIDER]: own };
      config["agent"] = { ...agents, compaction: { ...agents["compaction"], model: `${PROVIDER}/${MODEL}` } };
    },
    event: async ({ event }: { event: { type: string; properties: Fields } }) => {
      const sessionId = String(event.properties?.["sessionID"]);
      const conversation = conversations.get(sessionId);
      if (!conversation) return;
      const status = (event.properties["status"] as Fields | undefined)?.["type"];
      if (event.type === "session.status") conversation.idle = status === "idle";
      if (event.type === "session.idle") conversation.idle = true;
      if (conversation.idle) void record(sessionId, conversation);
    },
    "experimental.session.compacting": async ({ sessionID }: { sessionID: string }, output: { prompt?: string }) => {
      compacting.add(sessionID);
      output.prompt = MARK + sessionID;
    },
    "experimental.chat.messages.transform": async (_input: object, output: { messages: Shown[] }) => {
      const sessionId = output.messages[0]?.info.sessionID;
      if (!sessionId) return;
      const compacts = compacting.delete(sessionId);
      const model = output.messages.findLast(({ info }) => info.role === "user")?.info["model"];
      try {
        const conversation = await conversationOf(sessionId, model as Conversation["model"]);
        const { mirror } = conversation;
        const mirrored = output.messages.flatMap((message) => mirroredOf(message, conversation.view));
        if (compacts) {
          // What is to be summarized stays as it is, but the newest step is in no request before it.
          await mirror.write(mirrored, { grow: true, suffix: true });
          return;
        }
        conversation.model = model as Conversation["model"];
        conversation.idle = false;
        // A part of the conversation, for a title say.
        if (!(await mirror.write(mirrored, { grow: true, suffix: true }))) return;
        const view = await mirror.view({ overflow: v1.OverflowAction.WAIT, waitMs });
        conversation.view = view;
        followAgain(sessionId, conversation);
        output.messages.splice(0, output.messages.length, ...shownBy(view, mirror, output.messages));
      } catch (failure) {
        // Without Longhand OpenCode goes on with what it has.
        show(textOfFailure(failure), "error");
      }
    },
    dispose: async () => {
      stop.abort();
      summaries.close();
      (await client?.catch(() => undefined))?.close();
    },
  };
}

/** The limits of a model, as OpenCode uses them. */
async function limitsOf(
  // biome-ignore lint/suspicious/noExplicitAny: OpenCode's own client.
  client: any,
  model: Conversation["model"],
): Promise<Limits | undefined> {
  if (!model) return undefined;
  const { data } = await client.config.providers();
  const provider = data?.providers?.find(({ id }: { id: string }) => id === model.providerID);
  const limit = provider?.models?.[model.modelID]?.limit;
  if (!limit?.context) return undefined;
  const output = Math.min(limit.output || OUTPUT_TOKENS_MAX, OUTPUT_TOKENS_MAX);
  return { context: limit.context, input: limit.input, output };
}

/** The provider of OpenCode's compaction agent: its only model replies with the summary of the session that is named. */
class SummaryServer {
  private readonly server: Server;
  private readonly key = newId();

  private constructor(summarize: (sessionId: string) => Promise<string>) {
    this.server = createServer(async (request, response) => {
      let body = "";
      for await (const piece of request) body += piece;
      try {
        const sessionId = new RegExp(`${MARK}([A-Za-z0-9_]+)`).exec(body)?.[1];
        if (request.headers.authorization !== `Bearer ${this.key}` || !sessionId) {
          response.writeHead(403).end();
          return;
        }
        const content = await summarize(sessionId);
        const head = { id: newId("summary-"), object: "chat.completion.chunk", created: 0, model: MODEL };
        const send = (more: object) => response.write(`data: ${JSON.stringify({ ...head, choices: [], ...more })}\n\n`);
        response.writeHead(200, { "content-type": "text/event-stream" });
        send({ choices: [{ index: 0, delta: { role: "assistant", content }, finish_reason: null }] });
        send({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
        send({ usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } });
        response.end("data: [DONE]\n\n");
      } catch (failure) {
        response.writeHead(400, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { message: `Longhand did not compact: ${textOfFailure(failure)}` } }));
      }
    });
  }

  static async start(summarize: (sessionId: string) => Promise<string>): Promise<SummaryServer> {
    const own = new SummaryServer(summarize);
    await new Promise<void>((resolve) => own.server.listen(0, "127.0.0.1", resolve));
    own.server.unref();
    return own;
  }

  get options(): { baseURL: string; apiKey: string } {
    const { port } = this.server.address() as AddressInfo;
    return { baseURL: `http://127.0.0.1:${port}/v1`, apiKey: this.key };
  }

  close(): void {
    this.server.close();
  }
}

// Messages of OpenCode in the session

/** A message, and behind it the results of its tools; nothing for what only OpenCode's own compactions need. */
function mirroredOf({ info, parts: all }: Shown, view: View | undefined): Mirrored[] {
  if (info["summary"] === true || all.some(({ type }) => type === "compaction")) return [];
  if (info.role === "user") {
    const content = all.flatMap((part) => (part["ignored"] ? [] : contentOf(part)));
    return content.length === 0 ? [] : [{ key: `${PREFIX}${info.id}`, message: parts.user(content) }];
  }
  const content = all.flatMap(contentOf);
  if (content.length === 0 || isFailed(info)) return [];
  const results = all.flatMap((part) => (part.type === "tool" ? resultOf(part) : []));
  const facts = {
    model: String(info["modelID"] ?? ""),
    provider: String(info["providerID"] ?? ""),
    usage: usageOf(info["tokens"] as Fields | undefined),
    ...(view ? { viewToken: view.token } : {}),
  };
  const said = { key: `${PREFIX}${info.id}`, message: parts.assistant(content, facts) };
  return results.length === 0 ? [said] : [said, { key: `${PREFIX}${info.id}:results`, message: parts.tool(results) }];
}

/** A reply that failed is in no request; one that was stopped is. */
function isFailed(info: Info): boolean {
  const error = info["error"] as { name?: string } | undefined;
  return error !== undefined && error.name !== "MessageAbortedError";
}

function contentOf(part: Part): v1.Part[] {
  switch (part.type) {
    case "text":
      return part.text ? [parts.text(part.text)] : [];
    case "reasoning":
      return part.text ? [parts.reasoning(part.text)] : [];
    case "file": {
      const [url, mime, name] = [part["url"], part["mime"], part["filename"]].map((value) => String(value ?? ""));
      const inline = /^data:[^,]*;base64,(.*)$/s.exec(url ?? "")?.[1];
      const bytes = inline === undefined ? (url ?? "") : new Uint8Array(Buffer.from(inline, "base64"));
      return [parts.media(mime || "application/octet-stream", bytes, { name: name ?? "" })];
    }
    case "tool": {
      const { input } = part["state"] as ToolState;
      return [parts.toolCall(String(part["callID"]), String(part["tool"]), input ?? {})];
    }
    default:
      return [];
  }
}

function resultOf(part: Part): v1.Part[] {
  const { status, output, error } = part["state"] as ToolState;
  const callId = String(part["callID"]);
  if (status === "completed") return [parts.toolResult(callId, output ?? "")];
  if (status === "error") return [parts.toolResult(callId, error ?? "", { status: v1.ToolResultStatus.ERROR })];
  return [];
}

function usageOf(tokens: Fields | undefined): v1.Usage | undefined {
  if (!tokens) return undefined;
  const cache = (tokens["cache"] ?? {}) as Record<string, number>;
  return parts.usage({
    inputTokens: Number(tokens["input"] ?? 0),
    outputTokens: Number(tokens["output"] ?? 0),
    reasoningTokens: Number(tokens["reasoning"] ?? 0),
    cacheReadTokens: cache["read"] ?? 0,
    cacheWriteTokens: cache["write"] ?? 0,
  });
}

// Messages of a view for OpenCode

/** The messages of a request: OpenCode's own, as the view shows them, and what others wrote. */
function shownBy(view: View, mirror: Mirror, given: readonly Shown[]): Shown[] {
  const originals = new Map(given.map((message) => [`${PREFIX}${message.info.id}`, message]));
  const results = new Map<string, v1.ToolResultPart>();
  for (const { parts: all } of view.messages) {
    for (const { part } of all)
      if (part?.body.case === "toolResult") results.set(part.body.value.callId, part.body.value);
  }
  const shown: Shown[] = [];
  const used = new Set<string>();
  for (const message of view.messages) {
    const key = mirror.keyOf(message);
    const original = key === undefined ? undefined : originals.get(key);
    // Pairing splits a message with several calls.
    if (key !== undefined && used.has(key)) continue;
    if (key !== undefined) used.add(key);
    // Results are with their calls.
    if (message.role === v1.Role.TOOL || message.kind === v1.ViewMessageKind.MISSING_RESULT) continue;
    const whole = message.parts.every(({ shortening }) => shortening === v1.Shortening.UNSPECIFIED);
    if (original && whole) shown.push(withResults(original, results));
    else shown.push(made(message, given, results, shown.length));
  }
  return shown;
}

/** A message with the outputs that the view has, which may be shorter. */
function withResults(message: Shown, results: Map<string, v1.ToolResultPart>): Shown {
  const all = message.parts.map((part) => {
    const state = part["state"] as ToolState | undefined;
    const result = results.get(String(part["callID"]));
    if (part.type !== "tool" || state?.status !== "completed" || !result || result.output === state.output) return part;
    return { ...part, state: { ...state, output: result.output } };
  });
  return { ...message, parts: all };
}

/** A message that OpenCode does not have: a summary, or what another writer said. */
function made(
  message: v1.ViewMessage,
  given: readonly Shown[],
  results: Map<string, v1.ToolResultPart>,
  index: number,
): Shown {
  const assistant = message.role === v1.Role.ASSISTANT;
  const user = given.find(({ info }) => info.role === "user")?.info;
  const like = given.find(({ info }) => info.role === (assistant ? "assistant" : "user"))?.info ?? user;
  const id = `msg_longhand${String(index).padStart(8, "0")}`;
  const sessionID = like?.sessionID ?? "";
  const facts = { summary: undefined, error: undefined, finish: "stop" };
  const info = { ...like, ...(assistant ? facts : {}), id, sessionID, role: assistant ? "assistant" : "user" } as Info;
  const all = message.parts.flatMap(({ part }, number): Part[] => {
    const own = { id: `prt_longhand${index}x${number}`, sessionID, messageID: id };
    const body = part?.body;
    if ((body?.case === "text" || body?.case === "marker") && body.value.text) {
      return [{ ...own, type: "text", text: body.value.text }];
    }
    if (body?.case !== "toolCall") return [];
    const { callId: callID, tool, inputJson } = body.value;
    const output = results.get(callID)?.output ?? "";
    const time = { start: 0, end: 0 };
    const state = { status: "completed", input: inputOf(inputJson), output, title: tool, metadata: {}, time };
    return [{ ...own, type: "tool", callID, tool, state }];
  });
  return { info, parts: all };
}

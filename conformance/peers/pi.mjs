// Answers questions about pi with pi's own code: 0.73, 0.87 or 1.5, whichever is installed.
//
// Entries, messages, settings and usages are pi's own JSON. A set is a sorted list. With `brief` a message is answered
// as its timestamp, so that large messages do not travel twice.

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { scenarios } from "./pi-scenarios.mjs";
import { folder, serve } from "./serve.mjs";

/** Where pi may be: unpacked from its archive, or installed under its new name or its old one. */
const PLACES = [
  ["package", "@earendil-works"],
  ["node_modules/@earendil-works/pi-coding-agent", "@earendil-works"],
  ["node_modules/@mariozechner/pi-coding-agent", "@mariozechner"],
];

const [place, scope] = PLACES.find(([place]) => existsSync(path.join(folder, place, "package.json"))) ?? [];
if (!place) throw new Error(`no pi in ${folder}`);
const AGENT = path.join(folder, place);
const MODELS = path.join(folder, "node_modules", scope, "pi-ai");

const load = (...parts) => import(pathToFileURL(path.join(...parts)).href);
const compaction = await load(AGENT, "dist/core/compaction/index.js");
const sessions = await load(AGENT, "dist/core/session-manager.js");
const { convertToLlm } = await load(AGENT, "dist/core/messages.js");
const overflow = await load(MODELS, "dist/utils/overflow.js");
const registry = existsSync(path.join(MODELS, "dist/api-registry.js"))
  ? await load(MODELS, "dist/api-registry.js")
  : undefined;
const { version } = JSON.parse(readFileSync(path.join(AGENT, "package.json"), "utf8"));

const functions = {
  version: () => version,

  estimateTokens: ({ messages }) => messages.map((message) => compaction.estimateTokens(message)),

  calculateContextTokens: ({ usages }) => usages.map((usage) => compaction.calculateContextTokens(usage)),

  estimateContextTokens: ({ messages }) => compaction.estimateContextTokens(messages),

  shouldCompact: ({ contextTokens, contextWindow, settings }) =>
    compaction.shouldCompact(contextTokens, contextWindow, settings),

  findCutPoint: ({ entries, start = 0, end = entries.length, keep }) =>
    compaction.findCutPoint(entries, start, end, keep),

  prepareCompaction: ({ entries, settings, brief }) => {
    const preparation = compaction.prepareCompaction(entries, settings);
    if (!preparation) return null;
    const { messagesToSummarize, turnPrefixMessages, fileOps } = preparation;
    return {
      ...preparation,
      messagesToSummarize: shown(messagesToSummarize, brief),
      turnPrefixMessages: shown(turnPrefixMessages, brief),
      fileOps: lists(fileOps),
    };
  },

  serializeConversation: ({ messages }) => compaction.serializeConversation(convertToLlm(messages)),

  fileOperations: ({ messages, details }) => {
    const operations = compaction.createFileOps();
    for (const file of details?.readFiles ?? []) operations.read.add(file);
    for (const file of details?.modifiedFiles ?? []) operations.edited.add(file);
    for (const message of messages) compaction.extractFileOpsFromMessage(message, operations);
    const { readFiles, modifiedFiles } = compaction.computeFileLists(operations);
    return { readFiles, modifiedFiles, text: compaction.formatFileOperations(readFiles, modifiedFiles) };
  },

  buildSessionContext: ({ entries, ...rest }) => sessions.buildSessionContext(entries, ...leaf(rest)),

  // The context as a provider would get it.
  contextForModel: ({ entries, ...rest }) =>
    convertToLlm(sessions.buildSessionContext(entries, ...leaf(rest)).messages),

  // Which entry each message of the context comes from; since 0.87.
  buildSessionProjection: ({ entries, ...rest }) => {
    const projection = present(sessions, "buildSessionProjection")(entries, ...leaf(rest));
    const source = ({ sourceEntry, messages }) => ({ id: sourceEntry.id, messages });
    return { ...projection, entries: projection.entries.map(source) };
  },

  prepareBranchEntries: ({ entries, budget, brief }) => {
    const { messages, fileOps, totalTokens } = compaction.prepareBranchEntries(entries, budget);
    return { messages: shown(messages, brief), fileOps: lists(fileOps), totalTokens };
  },

  isContextOverflow: ({ message, contextWindow }) => overflow.isContextOverflow(message, contextWindow),

  // Prepares a compaction and does it, with canned replies for a model; answers what the model was asked, too.
  compact: ({ entries, settings, model, customInstructions, thinkingLevel, replies }) =>
    withReplies(replies, model, async (canned, streamFn) => {
      const preparation = compaction.prepareCompaction(entries, settings);
      if (!preparation) return { prepared: false };
      const late = streamFn ? [undefined, thinkingLevel, streamFn] : [undefined, thinkingLevel];
      const result = await compaction.compact(preparation, canned, "key", {}, customInstructions, ...late);
      return { prepared: true, result };
    }),

  // Makes a branch summary with canned replies for a model; answers what the model was asked, too.
  generateBranchSummary: ({ entries, model, customInstructions, replaceInstructions, reserveTokens, replies }) =>
    withReplies(replies, model, async (canned, streamFn) => {
      const options = { model: canned, apiKey: "key", headers: {}, customInstructions, replaceInstructions };
      const request = { ...options, reserveTokens, streamFn, signal: new AbortController().signal };
      return { result: await compaction.generateBranchSummary(entries, request) };
    }),
};

/** The arguments that name a leaf: none means the last entry, null means the empty path. */
function leaf(rest) {
  return "leafId" in rest ? [rest.leafId] : [];
}

function present(module, name) {
  if (typeof module[name] !== "function") throw new Error(`${name} is not in ${version}`);
  return module[name];
}

/**
 * Calls `ask` with a model that gives the replies in order, and notes what it was asked.
 *
 * Versions that take no stream function look the model's interface up in a registry, where ours is entered.
 */
async function withReplies(replies, model, ask) {
  const api = "conformance";
  const canned = { id: "model", provider: "test", api, reasoning: false, maxTokens: 32000, contextWindow: 200000, ...model };
  const calls = [];
  const waiting = [...(replies ?? [])];
  const speak = (_model, context, options) => {
    const { signal, apiKey, headers, env, sessionId, ...said } = options ?? {};
    calls.push({ system: systemText(context), prompt: promptText(context), options: said });
    const reply = waiting.length > 0 ? waiting.shift() : "";
    const message = typeof reply === "string" ? { content: [{ type: "text", text: reply }] } : reply;
    return { result: async () => ({ role: "assistant", stopReason: "stop", usage: NO_USAGE, ...message }) };
  };
  registry?.registerApiProvider({ api, stream: speak, streamSimple: speak }, api);
  try {
    const takesStream = registry === undefined || scope === "@earendil-works";
    const outcome = await ask(canned, takesStream ? async (...args) => speak(...args) : undefined);
    return { ...outcome, calls };
  } catch (error) {
    return { failed: error.message, calls };
  } finally {
    registry?.unregisterApiProviders(api);
  }
}

const NO_USAGE = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

/** Since 0.87 the system prompt may be a message among the others. */
function systemText(context) {
  const message = context.messages.find(({ role }) => role === "system");
  return context.systemPrompt ?? (message ? contentText(message.content) : "");
}

function promptText(context) {
  return context.messages.filter(({ role }) => role !== "system").map(({ content }) => contentText(content)).join("\n");
}

function contentText(content) {
  return typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("");
}

function shown(messages, brief) {
  return brief ? messages.map(({ timestamp }) => timestamp) : messages;
}

function lists(fileOps) {
  return Object.fromEntries(Object.entries(fileOps).map(([name, files]) => [name, [...files].sort()]));
}

await serve({ ...functions, ...scenarios({ load, folder: AGENT, compaction, sessions, convertToLlm, registry }) });

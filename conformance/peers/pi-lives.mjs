// Sessions of pi that live: pi's own AgentSession looks at each of its own moments whether it compacts.
//
// Only what is around it is ours: a model that answers what the question says, a clock that never stands still, and a
// session file in memory. A compaction is held back until both sides have been compared, and then it is appended, or
// that of the other side in its place, so that the life goes on with one history.

import { register } from "node:module";

/** The life's clock: pi compares times of messages and compactions, and some happen in one millisecond. */
const RealDate = Date;
let now = RealDate.now();
globalThis.Date = class extends RealDate {
  constructor(...parts) {
    super(...(parts.length > 0 ? parts : [++now]));
  }
  static now() {
    return ++now;
  }
};

export function lives({ load, folder, compaction, sessions, convertToLlm, registry }) {
  const all = new Map();
  let AgentSession;

  /** The life that the model answers. Questions are answered one after the other. */
  let asking;
  const api = "conformance-lives";
  const speak = (_model, context) => {
    const text = promptText(context);
    const isFront = text.startsWith("# Conversation\n") || text.includes("PREFIX of a turn");
    asking.prompts.push({ front: isFront, text });
    const content = [{ type: "text", text: asking.words[isFront ? 1 : 0] }];
    return { result: async () => ({ role: "assistant", stopReason: "stop", content, usage: NOTHING }) };
  };
  registry?.registerApiProvider({ api, stream: speak, streamSimple: speak }, api);

  const start = async ({ id, window, settings }) => {
    if (!AgentSession) {
      register("./partial.mjs", import.meta.url);
      ({ AgentSession } = await load(folder, "dist/core/agent-session.js"));
    }
    const manager = sessions.SessionManager.inMemory("/");
    const life = Object.create(AgentSession.prototype);
    const model = { id: "model", provider: "test", api, contextWindow: window, maxTokens: 0, reasoning: false };
    const own = {
      agent: {
        state: { model, messages: [] },
        hasQueuedMessages: () => false,
        // The life goes on by itself.
        continue: async () => {},
        streamFunction: async (...it) => speak(...it),
      },
      settingsManager: { getCompactionSettings: () => settings, getRetrySettings: () => ({ enabled: false }) },
      sessionManager: new Proxy(manager, {
        get: (target, name) => {
          if (name === "appendCompaction") return (...parts) => void (life.pending = parts);
          const value = target[name];
          return typeof value === "function" ? value.bind(target) : value;
        },
      }),
      _modelRegistry: { getApiKeyAndHeaders: async () => ({ ok: true, apiKey: "key", headers: {} }) },
      _extensionRunner: { hasHandlers: () => false, emit: async () => {} },
      _entryIdsByMessage: new WeakMap(),
      _overflowRecoveryAttempted: false,
      _emit: ({ errorMessage }) => errorMessage && life.problems.push(errorMessage),
      _emitSessionCompactFailed: async () => {},
      _resolveIdleWaitIfIdle: () => {},
      _getSummarizationRequestAuth: async () => ({ model, apiKey: "key", headers: {} }),
      _summarizationRetryCallbacks: () => undefined,
    };
    for (const [name, value] of Object.entries(own)) Object.defineProperty(life, name, { value, writable: true });
    Object.assign(life, { manager, settings, window, places: new Map(), problems: [], pending: undefined });
    all.clear();
    all.set(id, life);
  };

  /** The effect of a compaction, as places in the life. */
  const prepared = (life, keepRecentTokens = life.settings.keepRecentTokens) => {
    const preparation = compaction.prepareCompaction(life.manager.getBranch(), { ...life.settings, keepRecentTokens });
    if (!preparation) return null;
    const place = ({ place }) => place;
    const { messagesToSummarize, turnPrefixMessages, previousSummary } = preparation;
    const head = [...messagesToSummarize, ...turnPrefixMessages];
    return {
      first: life.places.get(preparation.firstKeptEntryId),
      summarize: messagesToSummarize.map(place),
      prefix: turnPrefixMessages.map(place),
      previous: previousSummary ?? null,
      headTokens: head.reduce((sum, message) => sum + compaction.estimateTokens(message), 0),
    };
  };

  /** Has pi's model asked for the summary of such a compaction. */
  const summarized = async (life, preparation, words) => {
    asking = { words, prompts: [] };
    const { model } = life.agent.state;
    const late = registry && !life._compactBeforeNextAssistantResponse ? [] : [life.agent.streamFunction];
    const made = await compaction.compact(preparation, model, "key", {}, undefined, undefined, "off", ...late);
    return { prompts: asking.prompts, summary: made.summary, details: made.details };
  };

  /** The context by pi's own estimate. */
  const tokensOf = (life) => {
    const messages = sessions.buildSessionContext(life.manager.getEntries()).messages;
    const { tokens } = compaction.estimateProjectedContextTokens
      ? compaction.estimateProjectedContextTokens(life.manager.buildSessionProjection(), life.manager.getBranch())
      : compaction.estimateContextTokens(messages);
    return tokens;
  };

  /** True where that is above pi's threshold. */
  const exceeds = (life) => compaction.shouldCompact(tokensOf(life), life.window, life.settings);

  const decide = async (life, moment, words) => {
    life.pending = undefined;
    asking = { words, prompts: [] };
    const entries = life.manager.getEntries();
    const { messages } = sessions.buildSessionContext(entries);
    life.agent.state.messages = messages;
    const last = messages.findLast(({ role }) => role === "assistant");
    if (moment === "between") await life._compactBeforeNextAssistantResponse?.({ messages });
    if (moment === "end" && last) await life._checkCompaction(last);
    if (moment === "prompt" && last) await life._checkCompaction(last, false);
    if (life.problems.length > 0) throw new Error(life.problems.join("; "));
    if (!life.pending) return { compacts: false, exceeds: exceeds(life) };
    const [summary, , , details] = life.pending;
    return { compacts: true, exceeds: exceeds(life), ...prepared(life), prompts: asking.prompts, summary, details };
  };

  const of = (id) => {
    const life = all.get(id);
    if (!life) throw new Error(`there is no life ${id}`);
    return life;
  };

  return {
    lifeStart: start,

    // Appends a message, and lets pi look at the moment that it makes, if it makes one.
    lifeStep: async ({ id, place, message, moment, words }) => {
      const life = of(id);
      if (moment === "prompt") {
        // pi looks before what the user says is appended.
        const decision = await decide(life, moment, words);
        // One recovery for each request of the user.
        life._overflowRecoveryAttempted = false;
        life.places.set(life.manager.appendMessage({ ...message, place, timestamp: Date.now() }), place);
        return { ...decision, exceeds: exceeds(life) };
      }
      life.places.set(life.manager.appendMessage({ ...message, place, timestamp: Date.now() }), place);
      return decide(life, moment, words);
    },

    // The compaction that would be made now, whatever the moment, with another tail if one is named.
    lifePrepare: async ({ id, keepRecentTokens, words }) => {
      const life = of(id);
      const found = prepared(life, keepRecentTokens);
      if (!found) return null;
      const settings = { ...life.settings, keepRecentTokens: keepRecentTokens ?? life.settings.keepRecentTokens };
      const preparation = compaction.prepareCompaction(life.manager.getBranch(), settings);
      return { ...found, ...(await summarized(life, preparation, words)) };
    },

    // Makes a compaction part of the session, and gives the context behind it.
    lifeCompact: async ({ id, first, summary, details }) => {
      const life = of(id);
      const kept = [...life.places].find(([, place]) => place >= first);
      const none = registry ? "none" : null;
      life.manager.appendCompaction(summary, kept ? kept[0] : none, 1, details, false);
      life.pending = undefined;
      return convertToLlm(sessions.buildSessionContext(life.manager.getEntries()).messages);
    },

    lifeTokens: async ({ id }) => tokensOf(of(id)),

    lifeContext: async ({ id }) => convertToLlm(sessions.buildSessionContext(of(id).manager.getEntries()).messages),
  };
}

const NOTHING = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

function promptText(context) {
  const text = (content) => (typeof content === "string" ? content : content.map(({ text }) => text ?? "").join(""));
  return context.messages.filter(({ role }) => role === "user").map(({ content }) => text(content)).join("\n");
}

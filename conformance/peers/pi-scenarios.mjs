// Sessions of pi that live: pi's own AgentSession looks at each of its own moments whether it compacts.
//
// Only what is around it is ours: a model that answers what the question says, a clock that never stands still, and a
// session file in memory. A compaction is held back until both sides have been compared, and then it is appended, or
// that of the other side in its place, so that the scenario goes on with one history.

import { register } from "node:module";

/** The scenario's clock: pi compares times of messages and compactions, and some happen in one millisecond. */
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

export function scenarios({ load, folder, compaction, sessions, convertToLlm, registry }) {
  const all = new Map();
  let AgentSession;

  /** The scenario that the model answers. Questions are answered one after the other. */
  let asking;
  const api = "conformance-scenarios";
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
    const scenario = Object.create(AgentSession.prototype);
    const model = { id: "model", provider: "test", api, contextWindow: window, maxTokens: 0, reasoning: false };
    const own = {
      agent: {
        state: { model, messages: [] },
        hasQueuedMessages: () => false,
        // The scenario goes on by itself.
        continue: async () => {},
        streamFunction: async (...it) => speak(...it),
      },
      settingsManager: { getCompactionSettings: () => settings, getRetrySettings: () => ({ enabled: false }) },
      sessionManager: new Proxy(manager, {
        get: (target, name) => {
          if (name === "appendCompaction") return (...parts) => void (scenario.pending = parts);
          const value = target[name];
          return typeof value === "function" ? value.bind(target) : value;
        },
      }),
      _modelRegistry: { getApiKeyAndHeaders: async () => ({ ok: true, apiKey: "key", headers: {} }) },
      _extensionRunner: { hasHandlers: () => false, emit: async () => {} },
      _entryIdsByMessage: new WeakMap(),
      _overflowRecoveryAttempted: false,
      _emit: ({ errorMessage }) => errorMessage && scenario.problems.push(errorMessage),
      _emitSessionCompactFailed: async () => {},
      _resolveIdleWaitIfIdle: () => {},
      _getSummarizationRequestAuth: async () => ({ model, apiKey: "key", headers: {} }),
      _summarizationRetryCallbacks: () => undefined,
    };
    for (const [name, value] of Object.entries(own)) Object.defineProperty(scenario, name, { value, writable: true });
    Object.assign(scenario, { manager, settings, window, places: new Map(), problems: [], pending: undefined });
    all.clear();
    all.set(id, scenario);
  };

  /** The effect of a compaction, as places in the scenario. */
  const prepared = (scenario, keepRecentTokens = scenario.settings.keepRecentTokens) => {
    const preparation = compaction.prepareCompaction(scenario.manager.getBranch(), { ...scenario.settings, keepRecentTokens });
    if (!preparation) return null;
    const place = ({ place }) => place;
    const { messagesToSummarize, turnPrefixMessages, previousSummary } = preparation;
    const head = [...messagesToSummarize, ...turnPrefixMessages];
    return {
      first: scenario.places.get(preparation.firstKeptEntryId),
      summarize: messagesToSummarize.map(place),
      prefix: turnPrefixMessages.map(place),
      previous: previousSummary ?? null,
      headTokens: head.reduce((sum, message) => sum + compaction.estimateTokens(message), 0),
    };
  };

  /** Has pi's model asked for the summary of such a compaction. */
  const summarized = async (scenario, preparation, words) => {
    asking = { words, prompts: [] };
    const { model } = scenario.agent.state;
    const late = registry && !scenario._compactBeforeNextAssistantResponse ? [] : [scenario.agent.streamFunction];
    const made = await compaction.compact(preparation, model, "key", {}, undefined, undefined, "off", ...late);
    return { prompts: asking.prompts, summary: made.summary, details: made.details };
  };

  /** The context by pi's own estimate. */
  const tokensOf = (scenario) => {
    const messages = sessions.buildSessionContext(scenario.manager.getEntries()).messages;
    const { tokens } = compaction.estimateProjectedContextTokens
      ? compaction.estimateProjectedContextTokens(scenario.manager.buildSessionProjection(), scenario.manager.getBranch())
      : compaction.estimateContextTokens(messages);
    return tokens;
  };

  /** True where that is above pi's threshold. */
  const exceeds = (scenario) => compaction.shouldCompact(tokensOf(scenario), scenario.window, scenario.settings);

  const decide = async (scenario, moment, words) => {
    scenario.pending = undefined;
    asking = { words, prompts: [] };
    const entries = scenario.manager.getEntries();
    const { messages } = sessions.buildSessionContext(entries);
    scenario.agent.state.messages = messages;
    const last = messages.findLast(({ role }) => role === "assistant");
    if (moment === "between") await scenario._compactBeforeNextAssistantResponse?.({ messages });
    if (moment === "end" && last) await scenario._checkCompaction(last);
    if (moment === "prompt" && last) await scenario._checkCompaction(last, false);
    if (scenario.problems.length > 0) throw new Error(scenario.problems.join("; "));
    if (!scenario.pending) return { compacts: false, exceeds: exceeds(scenario) };
    const [summary, , , details] = scenario.pending;
    return { compacts: true, exceeds: exceeds(scenario), ...prepared(scenario), prompts: asking.prompts, summary, details };
  };

  const of = (id) => {
    const scenario = all.get(id);
    if (!scenario) throw new Error(`there is no scenario ${id}`);
    return scenario;
  };

  return {
    scenarioStart: start,

    // Appends a message, and lets pi look at the moment that it makes, if it makes one.
    scenarioStep: async ({ id, place, message, moment, words }) => {
      const scenario = of(id);
      if (moment === "prompt") {
        // pi looks before what the user says is appended.
        const decision = await decide(scenario, moment, words);
        // One recovery for each request of the user.
        scenario._overflowRecoveryAttempted = false;
        scenario.places.set(scenario.manager.appendMessage({ ...message, place, timestamp: Date.now() }), place);
        return { ...decision, exceeds: exceeds(scenario) };
      }
      scenario.places.set(scenario.manager.appendMessage({ ...message, place, timestamp: Date.now() }), place);
      return decide(scenario, moment, words);
    },

    // The compaction that would be made now, whatever the moment, with another tail if one is named.
    scenarioPrepare: async ({ id, keepRecentTokens, words }) => {
      const scenario = of(id);
      const found = prepared(scenario, keepRecentTokens);
      if (!found) return null;
      const settings = { ...scenario.settings, keepRecentTokens: keepRecentTokens ?? scenario.settings.keepRecentTokens };
      const preparation = compaction.prepareCompaction(scenario.manager.getBranch(), settings);
      return { ...found, ...(await summarized(scenario, preparation, words)) };
    },

    // Makes a compaction part of the session, and gives the context behind it.
    scenarioCompact: async ({ id, first, summary, details }) => {
      const scenario = of(id);
      const kept = [...scenario.places].find(([, place]) => place >= first);
      const none = registry ? "none" : null;
      scenario.manager.appendCompaction(summary, kept ? kept[0] : none, 1, details, false);
      scenario.pending = undefined;
      return convertToLlm(sessions.buildSessionContext(scenario.manager.getEntries()).messages);
    },

    scenarioTokens: async ({ id }) => tokensOf(of(id)),

    scenarioContext: async ({ id }) => convertToLlm(sessions.buildSessionContext(of(id).manager.getEntries()).messages),
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

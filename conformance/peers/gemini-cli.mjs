// Runs Gemini CLI's own compression code on conversations that are sent to it, one JSON object per line.
//
// The first argument is the folder where the packages of gemini-cli.packages are installed.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { folder, serve } from './serve.mjs';

const load = (packageName, file) =>
  import(pathToFileURL(join(folder, 'node_modules', packageName, 'dist/src', file)).href);

const current = '@google/gemini-cli-core';
const seed = 'gemini-cli-core-2025-08';
const compression = await load(current, 'context/chatCompressionService.js');
const environment = await load(current, 'utils/environmentContext.js');
const masking = await load(current, 'context/toolOutputMaskingService.js');
const { estimateTokenCountSync } = await load(current, 'utils/tokenCalculation.js');
const { formatTruncatedToolOutput } = await load(current, 'utils/fileUtils.js');
const { tokenLimit } = await load(current, 'core/tokenLimits.js');
const { GeminiClient, findIndexAfterFraction } = await load(seed, 'core/client.js');

/** What the services ask of the application; everything that is not named answers nothing. */
function configOf(members) {
  const config = new Proxy(members, {
    get(target, name) {
      if (name in target) return target[name];
      if (name === 'config') return config;
      if (name === 'then') return undefined;
      return () => undefined;
    },
  });
  return config;
}

/** Runs the work with a folder for outputs that are written to files. Its name is short: it is counted as tokens. */
async function withFolder(work) {
  const spill = mkdtempSync(join(tmpdir(), 'g'));
  try {
    return await work(spill);
  } finally {
    rmSync(spill, { recursive: true, force: true });
  }
}

/** What a model reads in place of outputs that were written to files, by the id of the call. */
function shortened(history, spill) {
  const responses = history.flatMap(({ parts }) => parts.map((part) => part.functionResponse)).filter(Boolean);
  const texts = responses.map(({ id, response }) => [id, response.output ?? '']);
  const naming = new RegExp(`${spill}[^\\s]*`, 'g');
  return Object.fromEntries(
    texts.filter(([, text]) => text.includes(spill)).map(([id, text]) => [id, text.replace(naming, 'FILE')]),
  );
}

/** What a description of the environment asks of the application, with the folder for outputs. */
function surroundings(spill) {
  return {
    storage: { getProjectTempDir: () => spill },
    getIncludeDirectoryTree: () => false,
    getSessionMemory: () => '',
  };
}

/** The estimate of the description of the environment, which begins every request. */
function environmentTokens() {
  return withFolder(async (spill) => {
    const contents = await environment.getInitialChatHistory(configOf(surroundings(spill)), []);
    return estimateTokenCountSync(contents.flatMap((content) => (content.content ?? content).parts));
  });
}

/** `history` and what the model answers, in order; gives the outcome and every request that was made. */
function compress(args) {
  return withFolder(async (spill) => {
    const requests = [];
    const answers = [...(args.answers ?? [])];
    let truncations = 0;
    const chat = {
      getHistory: () => structuredClone(args.history),
      getLastPromptTokenCount: () => args.originalTokenCount,
    };
    const config = configOf({
      getBaseLlmClient: () => ({
        generateContent: async (request) => {
          requests.push(request);
          const text = answers.shift() ?? '';
          return { candidates: [{ content: { role: 'model', parts: [{ text }] } }] };
        },
      }),
      getCompressionThreshold: async () => args.threshold,
      ...surroundings(spill),
      getTruncateToolOutputThreshold: () => args.maxChars ?? 40000,
      getNextCompressionTruncationId: () => ++truncations,
      getModel: () => args.model,
      getActiveModel: () => args.model,
      getSkillManager: () => ({ getSkills: () => [] }),
      getToolRegistry: () => ({ getAllToolNames: () => [], getAllTools: () => [] }),
      getContentGenerator: () => ({
        countTokens: async ({ contents }) => ({ totalTokens: estimateTokenCountSync(contents[0].parts) }),
      }),
    });
    const service = new compression.ChatCompressionService();
    const result = await service.compress(
      chat, 'p', args.force ?? false, args.model ?? 'gemini-2.5-pro', config, args.failed ?? false,
      new AbortController().signal,
    );
    const [summary, answer, ...tail] = result.newHistory ?? [];
    return {
      status: result.info.compressionStatus,
      newTokenCount: result.info.newTokenCount,
      // Every request repeats the history that is summarized, and asks something behind it.
      requests: requests.map(({ promptId, contents, modelConfigKey: { model } }) => (
        { promptId, contents: contents.length, model }
      )),
      summarized: requests.length > 0 ? requests[0].contents.length - 1 : 0,
      summary: summary?.parts[0].text,
      answer: answer?.parts[0].text,
      kept: tail.length,
      changed: shortened(tail, spill),
      ...(args.whole ? { history: result.newHistory } : {}),
    };
  });
}

/** What the budget for tool results changes, through the one path that gives the history back whole. */
function truncateHistoryToBudget({ history, maxChars }) {
  const run = async (spill) => {
    let truncations = 0;
    const config = configOf({
      ...surroundings(spill),
      getTruncateToolOutputThreshold: () => maxChars,
      getNextCompressionTruncationId: () => ++truncations,
    });
    const chat = {
      getHistory: () => structuredClone(history),
      getLastPromptTokenCount: () => Number.MAX_SAFE_INTEGER,
    };
    const service = new compression.ChatCompressionService();
    const { newHistory } = await service.compress(chat, 'p', false, 'gemini-2.5-pro', config, true);
    return shortened(newHistory ?? history, spill);
  };
  return withFolder(run);
}

function mask({ history, protectionThresholdTokens, minPrunableThresholdTokens, protectLatestTurn }) {
  return withFolder(async (spill) => {
    const config = configOf({
      getToolOutputMaskingConfig: async () => ({
        protectionThresholdTokens: protectionThresholdTokens ?? masking.DEFAULT_TOOL_PROTECTION_THRESHOLD,
        minPrunableThresholdTokens: minPrunableThresholdTokens ?? masking.DEFAULT_MIN_PRUNABLE_TOKENS_THRESHOLD,
        protectLatestTurn: protectLatestTurn ?? masking.DEFAULT_PROTECT_LATEST_TURN,
      }),
      getSessionId: () => 'peer',
      getUsageStatisticsEnabled: () => false,
      storage: { getProjectTempDir: () => spill },
    });
    const result = await new masking.ToolOutputMaskingService().mask(structuredClone(history), config);
    return Object.keys(shortened(result.newHistory, spill));
  });
}

/** The estimates of outputs, whole and with an excerpt of their words, by the masking's own functions. */
function maskedEstimates({ outputs }) {
  const service = new masking.ToolOutputMaskingService();
  return outputs.map(({ part, reference }) => {
    const { id, name, response } = part.functionResponse;
    const [field, words] = Object.entries(response)[0];
    const cut = words.length > 500 ? `${words.slice(0, 250)}\n... [TRUNCATED] ...\n${words.slice(-250)}` : words;
    const preview = name === 'run_shell_command' ? service.formatShellPreview({ output: words }) : cut;
    const text = service.formatMaskedSnippet({ filePath: reference, preview });
    const masked = { ...part, functionResponse: { ...part.functionResponse, response: { [field]: text } } };
    return { id, whole: estimateTokenCountSync([part]), masked: estimateTokenCountSync([masked]) };
  });
}

/**
 * The compression of July and August 2025; `tokens` are the counts before and after, `answer` the model's summary.
 * Gives how many contents are summarized and how many stay, and the new history if `whole`; null when nothing is done.
 */
async function tryCompressChat({ history, tokens, force, answer, model, threshold, preserve, whole }) {
  const counts = [...tokens];
  let held = structuredClone(history);
  let summarized = 0;
  const chat = {
    getHistory: () => held,
    setHistory: (head) => { held = head; },
    sendMessage: async () => {
      summarized = held.length;
      return { text: answer };
    },
  };
  const client = Object.create(GeminiClient.prototype);
  Object.assign(client, { chat, config: { getModel: () => model ?? 'gemini-2.5-pro' } });
  client.getChat = () => client.chat;
  client.getContentGenerator = () => ({ countTokens: async () => ({ totalTokens: counts.shift() }) });
  client.startChat = async (extra) => ({ getHistory: () => extra });
  // The constants are fields that the constructor sets; a bare object has to take them from its source.
  const source = GeminiClient.toString();
  for (const name of ['COMPRESSION_TOKEN_THRESHOLD', 'COMPRESSION_PRESERVE_THRESHOLD']) {
    const match = source.match(new RegExp(`\\b${name}\\s*=\\s*([0-9.]+)`));
    if (!match) throw new Error(`${name} is not in this package`);
    client[name] = Number(match[1]);
  }
  if (threshold != null) client.COMPRESSION_TOKEN_THRESHOLD = threshold;
  if (preserve != null) client.COMPRESSION_PRESERVE_THRESHOLD = preserve;
  const result = await client.tryCompressChat('p', force ?? false);
  const after = client.chat.getHistory();
  return result && { summarized, kept: after.length - 2, ...(whole ? { history: after } : {}) };
}

await serve({
  findCompressSplitPoint: ({ contents, fraction }) => compression.findCompressSplitPoint(contents, fraction),
  findIndexAfterFraction: ({ contents, fraction }) => findIndexAfterFraction(contents, fraction),
  estimateTokenCountSync: ({ parts }) => estimateTokenCountSync(parts),
  formatTruncatedToolOutput: ({ text, file, maxChars }) => formatTruncatedToolOutput(text, file, maxChars),
  tokenLimit: ({ model }) => tokenLimit(model),
  environmentTokens,
  truncateHistoryToBudget,
  mask,
  maskedEstimates,
  compress,
  tryCompressChat,
});

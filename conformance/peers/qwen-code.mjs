// Runs Qwen Code's own compression code on conversations that are sent to it, one JSON object per line.
//
// The first argument is the folder where the packages of qwen-code.packages are installed. Versions 0.15 and 0.24 are
// published as bundles that export next to nothing, so the wanted sections are read from the installed bundle and
// evaluated here, with stand-ins for the application around them. Nothing of them is kept.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { folder, serve } from './serve.mjs';

const packaged = (...parts) => join(folder, 'node_modules', ...parts);

/** The text of one source file inside a bundle: from its heading to the next. */
function section(bundle, name) {
  const heading = `// packages/core/src/${name}\n`;
  const texts = [];
  for (let start = bundle.indexOf(heading); start >= 0; start = bundle.indexOf(heading, start + 1)) {
    const rest = bundle.slice(start + heading.length);
    const end = rest.search(/^\/\/ (?:packages|node_modules)\/|^export \{/m);
    texts.push(end < 0 ? rest : rest.slice(0, end));
  }
  if (texts.length === 0) throw new Error(`${name} is not in this bundle`);
  return texts.join('\n');
}

/** Evaluates sections with the given names in reach, and gives the wanted ones. */
function evaluate(sections, surroundings, wanted) {
  const imported = {};
  const code = sections.join('\n').replace(/^import \{([^}]*)\} from "(node:[^"]+)";$/gm, (_line, names, module) => {
    for (const name of names.split(',')) {
      const [original, local] = name.trim().split(/\s+as\s+/);
      imported[local ?? original] = surroundings.modules[module]?.[original] ?? (() => undefined);
    }
    return '';
  });
  const reach = { ...imported, ...surroundings.names };
  const body = `${code}\nreturn {${wanted.join(',')}};`;
  return new Function(...Object.keys(reach), body)(...Object.values(reach));
}

const silent = new Proxy(() => undefined, { get: () => () => undefined });
const NOW = 1_700_000_000_000;

/** What every section may name, whichever bundle it comes from. */
const common = {
  __name: (value) => value,
  init_esbuild_shims: () => undefined,
  createDebugLogger: () => silent,
  logChatCompression: () => undefined,
  makeChatCompressionEvent: (event) => event,
  getCompressionPrompt: () => 'system',
  process: { env: {} },
  Date: class extends Date { static now() { return NOW; } },
};

const v15 = loadOld();
const v24 = await loadNew();
const august = await import(
  pathToFileURL(packaged('@qwen-code/qwen-code-core/dist/src/core/client.js')).href
);

function loadOld() {
  const bundle = readFileSync(packaged('qwen-code-0.15', 'cli.js'), 'utf8');
  // Sections of this bundle are initialised on demand; the last expression runs what these two need.
  const initialise = (modules) => () => { for (const run of Object.values(modules)) run(); };
  const idle = Object.fromEntries(
    ['turn', 'tokenLimits', 'prompts', 'partUtils', 'loggers', 'types4', 'types6'].map(
      (name) => [`init_${name}`, () => undefined],
    ),
  );
  const limits = section(bundle, 'core/tokenLimits.ts').match(/DEFAULT_TOKEN_LIMIT = ([0-9e_]+)/);
  return evaluate(
    [
      section(bundle, 'tools/tool-names.ts'),
      section(bundle, 'services/microcompaction/microcompact.ts'),
      section(bundle, 'services/chatCompressionService.ts'),
      'init_tool_names(); init_microcompact(); init_chatCompressionService();',
    ],
    {
      modules: {},
      names: {
        ...common,
        ...idle,
        __esm: initialise,
        DEFAULT_TOKEN_LIMIT: Number(limits[1].replaceAll('_', '')),
        getResponseText: (response) => response.text,
      },
    },
    ['findCompressSplitPoint', 'microcompactHistory', 'ChatCompressionService'],
  );
}

async function loadNew() {
  const chunks = packaged('qwen-code-0.24', 'chunks');
  const texts = new Map();
  for (const name of readdirSync(chunks).filter((name) => name.startsWith('chunk-') && name.endsWith('.js'))) {
    texts.set(name, readFileSync(join(chunks, name), 'utf8'));
  }
  const holding = (source) => {
    for (const text of texts.values()) {
      if (text.includes(`// packages/core/src/${source}\n`)) return text;
    }
    throw new Error(`${source} is in no chunk`);
  };
  const parts = [
    'tools/tool-names.ts',
    'services/compactionInputSlimming.ts',
    'services/tokenEstimation.ts',
    'config/clearContextDefaults.ts',
    'services/microcompaction/microcompact.ts',
    'services/postCompactAttachments.ts',
    'services/chatCompressionService.ts',
  ];
  const files = new Map();
  const sideQueries = [];
  const answers = [];
  const loaded = evaluate(
    parts.map((part) => section(holding(part), part)),
    {
      modules: {
        // Files that the conversation names are given with the question; nothing is read from this machine.
        'node:fs/promises': {
          stat: async (path) => ({ size: fileOf(files, path).length }),
          readFile: async (path) => fileOf(files, path),
        },
        'node:fs': { realpathSync: (path) => path },
        'node:path': { resolve: (path) => path, sep: '/' },
      },
      names: {
        ...common,
        DEFAULT_TOKEN_LIMIT: 200_000,
        escapeXml: (text) => text,
        resolveModelId: () => undefined,
        supportsOpenAIPrefixCaching: () => false,
        runSideQuery: async (_config, request) => {
          sideQueries.push(request);
          const answer = answers.shift();
          if (!answer) throw new Error('the model does not answer');
          return answer;
        },
      },
    },
    [
      'computeThresholds', 'computeCompactionOutputBudget', 'microcompactHistory', 'postProcessSummary',
      'stripAnalysisBlock', 'hasStateSnapshot', 'composePostCompactHistory', 'extractRecentFilePaths',
      'slimCompactionInput', 'estimateContentTokens', 'estimatePromptTokens', 'ChatCompressionService',
    ],
  );
  return { ...loaded, files, sideQueries, answers };
}

function fileOf(files, path) {
  if (!files.has(path)) throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
  return Buffer.from(files.get(path), 'utf8');
}

/** What 0.15 asks of the application. */
function oldConfig({ window, threshold, answers, requests }) {
  return {
    getChatCompression: () => ({ contextPercentageThreshold: threshold }),
    getContentGeneratorConfig: () => ({ contextWindowSize: window }),
    getHookSystem: () => undefined,
    getDebugLogger: () => silent,
    getApprovalMode: () => 'default',
    getContentGenerator: () => ({
      generateContent: async (request) => {
        requests.push(request.contents);
        return answers.shift();
      },
    }),
  };
}

/** `answers` are `{text, usageMetadata}`; gives the outcome and the contents of every request. */
async function compress15(args) {
  const requests = [];
  const config = oldConfig({ ...args, answers: [...(args.answers ?? [])], requests });
  const result = await new v15.ChatCompressionService().compress(
    { getHistory: () => structuredClone(args.history) },
    {
      promptId: 'p', force: args.force ?? false, model: 'qwen3-coder-plus', config,
      hasFailedCompressionAttempt: args.failed ?? false, originalTokenCount: args.originalTokenCount,
    },
  );
  return { ...outcome(args.history, result, requests[0]), ...(args.whole ? { history: result.newHistory } : {}) };
}

/**
 * How many contents are summarized and how many of the others stay, and who speaks in front of these; null without a
 * new history.
 */
function outcome(history, { newHistory, info }, request) {
  if (!newHistory) return { status: info.compressionStatus, summarized: null };
  const summarized = request.length - 1;
  const kept = history.length - summarized;
  const joined = newHistory.length === 2 && kept === 1;
  const roles = newHistory.slice(0, newHistory.length - (joined ? 0 : kept)).map(({ role }) => role[0]);
  return { status: info.compressionStatus, summarized, kept, roles: roles.join(''), joined };
}

/** `answers` are `{text, usage}`; `files` maps paths to the contents they have now. */
async function compress24(args) {
  setFiles(args.files);
  v24.answers.splice(0, v24.answers.length, ...(args.answers ?? []));
  v24.sideQueries.length = 0;
  const history = structuredClone(args.history);
  const config = {
    getChatCompression: () => args.settings,
    getContentGeneratorConfig: () => ({ contextWindowSize: args.window, authType: 'openai' }),
    getAutoCompactThreshold: () => args.threshold,
    getHookSystem: () => undefined,
    getDebugLogger: () => silent,
    getModel: () => 'qwen3-coder-plus',
    getAllConfiguredModels: () => [],
    getTargetDir: () => args.workspace,
    getApprovalMode: () => 'default',
  };
  const result = await new v24.ChatCompressionService().compress(
    { getHistoryShallow: () => history },
    {
      promptId: 'p', force: args.force ?? false, config, consecutiveFailures: args.failures ?? 0,
      originalTokenCount: args.originalTokenCount, trigger: args.trigger,
      precomputedEffectiveTokens: args.effectiveTokens, pendingUserMessage: args.pending,
      requestPayloadTooLarge: args.payloadTooLarge ?? false,
    },
  );
  const found = outcome(args.history, result, v24.sideQueries[0]?.contents);
  return args.whole ? { ...found, status: result.info.compressionStatus, history: result.newHistory,
    newTokenCount: result.info.newTokenCount } : found;
}

/**
 * A request of 0.24 on its way: its estimate with what was not sent before, whether that is enough for a compression, and
 * the history behind it; `now` asks for a compression whatever that frees.
 */
async function send24(args) {
  const { history, pending, prompt, output, window, share, words, files, now } = args;
  const effective = v24.estimatePromptTokens(prompt > 0 ? [] : history, pending, prompt, output);
  const { auto, hard } = v24.computeThresholds(window, share);
  // A summary whose request held so much saves enough, whatever stands behind it.
  const usage = now ? { promptTokenCount: 1e9, candidatesTokenCount: 1 } : undefined;
  const made = await compress24({
    history, window, threshold: share, files, whole: true, force: now || effective >= hard, trigger: 'auto',
    originalTokenCount: now ? 2e9 : effective, effectiveTokens: effective,
    pending: pending.parts.length > 0 ? pending : undefined, answers: [{ text: words, usage }],
    settings: { enableScreenshotTrigger: false },
  });
  if (!now || !made.history) return { ...made, effective, auto };
  const unseen = Math.max(0, effective - v24.estimateContentTokens(history));
  return { ...made, newTokenCount: unseen + v24.estimateContentTokens(made.history), effective, auto };
}

/**
 * The history behind the clearing of a request on its way: after a pause before a prompt of the user, and with what was
 * not sent before.
 */
function clear24({ history, pending, idleMilliseconds, settings }) {
  let held = history;
  if (idleMilliseconds !== undefined) {
    held = v24.microcompactHistory(held, completedAt(idleMilliseconds), settings, {}).history;
  }
  return v24.microcompactHistory(held, null, settings, { sizeOnly: true, pendingContent: pending }).history;
}

function setFiles(files) {
  v24.files.clear();
  for (const [path, content] of Object.entries(files ?? {})) v24.files.set(path, content);
}

/** Which files are named and which are shown whole, in order, and how many images there are. */
async function restored({ history, files, maxFiles, maxImages }) {
  setFiles(files);
  const after = await v24.composePostCompactHistory(structuredClone(history), 'SUMMARY', { maxFiles, maxImages });
  const parts = after.slice(2).flatMap((content) => content.parts);
  const texts = parts.map(({ text }) => text ?? '');
  const named = texts.filter((text) => text.startsWith('The following files'));
  const whole = texts.filter((text) => text.startsWith('Recently accessed file'));
  const lines = named.flatMap((text) => text.split('\n'));
  return {
    named: lines.filter((line) => line.startsWith('- ')).map((line) => line.slice(2)),
    whole: whole.map((text) => text.match(/^## (.*)$/m)[1]),
    images: parts.filter((part) => part.inlineData).length,
  };
}

/** The calls whose responses a clearing has changed, and how many media it has. */
function cleared(before, { history }) {
  const parts = (contents) => contents.flatMap((content) => content.parts ?? []);
  const now = parts(history);
  const different = parts(before).filter((part, index) => JSON.stringify(part) !== JSON.stringify(now[index]));
  return {
    calls: different.filter((part) => part.functionResponse).map((part) => part.functionResponse.id),
    media: different.filter((part) => !part.functionResponse).length,
  };
}

/** `idleMilliseconds` since the model last answered; null when it never did. */
const completedAt = (idleMilliseconds) => (idleMilliseconds == null ? null : NOW - idleMilliseconds);

/**
 * The compression of August 2025; `tokens` are the counts before and after, `answer` the model's summary. Gives how
 * many contents are summarized, or null when nothing is done.
 */
async function tryCompressChat({ history, tokens, force, failed, answer, model }) {
  const counts = [...tokens];
  let held = structuredClone(history);
  let summarized = 0;
  const client = Object.create(august.GeminiClient.prototype);
  client.hasFailedCompressionAttempt = failed ?? false;
  const chat = {
    getHistory: () => held,
    setHistory: (head) => { held = head; },
    sendMessage: async () => {
      summarized = held.length;
      return { text: answer };
    },
  };
  client.chat = chat;
  client.config = new Proxy({ getModel: () => model ?? 'qwen3-coder-plus', getChatCompression: () => undefined }, {
    get: (target, name) => target[name] ?? (() => undefined),
  });
  client.getChat = () => client.chat;
  client.getContentGenerator = () => ({ countTokens: async () => ({ totalTokens: counts.shift() }) });
  client.startChat = async (extra) => ({ getHistory: () => extra });
  await client.tryCompressChat('p', force ?? false);
  return client.chat === chat ? null : summarized;
}

await serve({
  findIndexAfterFraction: ({ contents, fraction }) => august.findIndexAfterFraction(contents, fraction),
  tryCompressChat,
  findCompressSplitPoint15: ({ contents, fraction, retainCount }) =>
    v15.findCompressSplitPoint(contents, fraction, retainCount),
  microcompact15: ({ history, idleMilliseconds, settings }) =>
    cleared(history, v15.microcompactHistory(history, completedAt(idleMilliseconds), settings ?? {})),
  compress15,
  computeThresholds: ({ window, pct }) => v24.computeThresholds(window, pct ?? undefined),
  computeCompactionOutputBudget: ({ input, window }) => v24.computeCompactionOutputBudget(input, window),
  microcompact24: ({ history, idleMilliseconds, settings, options }) =>
    cleared(history, v24.microcompactHistory(history, completedAt(idleMilliseconds), settings ?? {}, options ?? {})),
  postProcessSummary: ({ text }) => v24.postProcessSummary(text),
  stripAnalysisBlock: ({ text }) => v24.stripAnalysisBlock(text),
  hasStateSnapshot: ({ text }) => v24.hasStateSnapshot(text),
  extractRecentFilePaths: ({ history, maxFiles }) => v24.extractRecentFilePaths(history, maxFiles),
  slimCompactionInput: ({ history, maxTextChars }) =>
    v24.slimCompactionInput(history, undefined, maxTextChars == null ? undefined : { maxTextChars }),
  estimateContentTokens: ({ contents }) => v24.estimateContentTokens(contents),
  estimatePromptTokens: ({ history, message, lastPrompt, lastOutput, conservative }) =>
    v24.estimatePromptTokens(history, message, lastPrompt, lastOutput, undefined, conservative),
  restored,
  compress24,
  send24,
  clear24,
});

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, test } from "node:test";
import type { Model } from "@mariozechner/pi-ai";
import {
  type AgentSession,
  type AgentSessionEvent,
  AuthStorage,
  createAgentSession,
  DefaultResourceLoader,
  type ExtensionFactory,
  ModelRegistry,
  SessionManager,
  SettingsManager,
} from "@mariozechner/pi-coding-agent";
import * as longhand from "../../src/index.js";
import { longhandExtension } from "../../src/pi.js";
import * as v1 from "../../src/v1.js";
import { all, startForTests } from "../daemon.js";
import { type Asked, checkPairs, checkTypes, FakeOpenAi, type Reply, textsOf } from "./fake-openai.js";

const { daemon, client } = await startForTests("person");
const directory = mkdtempSync(join(tmpdir(), "longhand-pi-"));
after(() => rmSync(directory, { recursive: true }));
// One that a failed test leaves would follow its session for ever.
let end = async () => {};
afterEach(() => end());

interface Pi {
  session: AgentSession;
  events: AgentSessionEvent[];
  notices: string[];
  fake: FakeOpenAi;
  under: longhand.Session;
}

/** pi itself, with the extension and a fake provider. */
async function startPi(
  answer: (asked: Asked) => Reply,
  window: number,
  compaction: object,
  file?: string,
): Promise<Pi> {
  const fake = await FakeOpenAi.start(answer);
  const authStorage = AuthStorage.inMemory();
  authStorage.setRuntimeApiKey("fake", "key");
  const model: Model<"openai-completions"> = {
    id: "small",
    name: "small",
    api: "openai-completions",
    provider: "fake",
    baseUrl: fake.url,
    reasoning: false,
    input: ["text"],
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    contextWindow: window,
    maxTokens: 1000,
  };
  const settingsManager = SettingsManager.inMemory({ compaction });
  const extension: ExtensionFactory = longhandExtension({
    preset: "pi",
    client: () => longhand.connect({ address: daemon.address, actor: "pi" }),
  });
  const resourceLoader = new DefaultResourceLoader({
    cwd: directory,
    agentDir: directory,
    settingsManager,
    ...(file ? { additionalExtensionPaths: [file] } : { extensionFactories: [extension] }),
    noExtensions: true,
    noSkills: true,
    noPromptTemplates: true,
    noThemes: true,
    noContextFiles: true,
    systemPrompt: "Be brief",
  });
  await resourceLoader.reload();
  const { session, extensionsResult } = await createAgentSession({
    cwd: directory,
    agentDir: directory,
    model,
    thinkingLevel: "off",
    authStorage,
    modelRegistry: ModelRegistry.inMemory(authStorage),
    resourceLoader,
    tools: ["ls"],
    sessionManager: SessionManager.inMemory(directory),
    settingsManager,
  });
  assert.deepEqual(extensionsResult.errors, []);
  const events: AgentSessionEvent[] = [];
  const notices: string[] = [];
  session.subscribe((event) => events.push(event));
  // The interface of an editor or a terminal.
  const ui = new Proxy({} as never, {
    get: (_target, name) => (name === "notify" ? (text: string) => notices.push(text) : () => undefined),
  });
  await session.bindExtensions({ uiContext: ui });
  end = async () => {
    session.dispose();
    fake.close();
    // Nobody tells the extension.
    while ((await client.serverInfo()).subscriberCount > 0n) await soon();
  };
  return { session, events, notices, fake, under: client.session(`pi:${session.sessionId}`) };
}

const compactions = (pi: Pi) =>
  pi.session.sessionManager.getEntries().flatMap((entry) => (entry.type === "compaction" ? [entry] : []));

/** The compactions of the session that made a summary, as Longhand has them. */
async function summaries(pi: Pi): Promise<string[]> {
  const history = await all(pi.under.history({ includeDerived: true }));
  return history.filter(({ kind }) => kind === v1.MessageKind.SUMMARY).map(longhand.plainText);
}

/** Asks, and waits until pi has written the answer to its log. */
async function ask(pi: Pi, words: string): Promise<void> {
  const { length } = pi.session.sessionManager.getEntries();
  await pi.session.prompt(words);
  const written = () => pi.session.sessionManager.getEntries().slice(length);
  while (!written().some((entry) => entry.type === "message" && entry.message.role === "assistant")) await soon();
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 5));

/**
 * Asks, and waits until pi is idle and its newest entry is what Longhand did last. Where two compactions end before pi is
 * idle, the second one's summary stands for the first one's, too; and directly after an entry pi writes no other one: the
 * next summary waits for the next turn.
 */
async function prompt(pi: Pi, words: string): Promise<void> {
  await pi.session.prompt(words);
  await pi.session.agent.waitForIdle();
  const { compactionId } = await pi.under.getRun();
  if (compactionId) await pi.under.view({ overflow: v1.OverflowAction.WAIT });
  const isLast = () => pi.session.sessionManager.getEntries().at(-1)?.type === "compaction";
  while (!isLast() && compactions(pi).at(-1)?.summary !== (await summaries(pi)).at(-1)) await soon();
}

const equal = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
const reply = (turn: number, count = 120): Reply => ({ text: `Answer ${turn}: ${"words of a model ".repeat(count)}` });

test("a long conversation of pi is compacted by Longhand, and pi shows it as its own", async () => {
  let turn = 0;
  const pi = await startPi(
    (asked) => {
      if (asked.messages.at(-1)?.role === "tool") return reply(turn, 900);
      return { text: "I look. ", calls: [{ id: `call_${turn}`, name: "ls", input: { path: "." } }] };
    },
    50_000,
    { enabled: false },
  );
  const turns = 20;
  for (turn = 0; turn < turns; turn++) await prompt(pi, `Question ${turn}: ${"words of a person ".repeat(40)}`);
  const entries = compactions(pi);
  assert.ok(entries.length > 1, pi.notices.join());
  // pi's entries are Longhand's summaries in their order, up to the newest or the one before it, and its interface had each as a compaction.
  const written = entries.map(({ summary }) => summary);
  const made = await summaries(pi);
  assert.ok(
    equal(
      written,
      made.filter((summary) => written.includes(summary)),
    ),
  );
  assert.ok(made.slice(-2).includes(written.at(-1) ?? ""));
  const ended = pi.events.filter((event) => event.type === "compaction_end");
  assert.deepEqual(
    ended.map(({ errorMessage, result }) => errorMessage ?? typeof result),
    ended.map(() => "object"),
  );
  assert.ok(
    equal(
      ended.map(({ result }) => result?.summary),
      entries.map(({ summary }) => summary),
    ),
  );
  assert.ok(pi.notices.some((notice) => notice.startsWith("Longhand compacted the conversation: ")));
  // The model saw a shorter list after each compaction that was not the last thing, with its summary; the newest
  // question is always there.
  const lengths = pi.fake.asked.map(({ messages }) => messages.length);
  assert.equal(lengths.length, 2 * turns);
  const shorter = lengths.filter((length, index) => length < (lengths[index - 1] ?? 0)).length;
  assert.ok(shorter > 0 && shorter >= entries.length - 1 && Math.max(...lengths) < 3 * turns, lengths.join());
  const beginnings = entries.slice(0, -1).map(({ summary }) => summary.split("\n")[0] ?? "");
  for (const begin of beginnings) {
    assert.ok(
      pi.fake.asked.some((asked) => textsOf(asked).some((text) => text.includes(begin))),
      begin,
    );
  }
  const last = pi.fake.asked.at(-1) as Asked;
  assert.ok(textsOf(last).some((text) => text.includes(`Question ${turns - 1}:`)));
  pi.fake.asked.forEach(checkPairs);
  await checkTypes([...pi.fake.asked.slice(0, 3), ...pi.fake.asked.slice(-3)]);
  // pi's own context begins where the view does.
  const kept = pi.session.messages.filter(({ role }) => role !== "compactionSummary").length;
  const view = await pi.under.view();
  assert.equal(view.messages.filter(({ kind }) => kind === v1.ViewMessageKind.SHOWN).length, kept);
  // Nothing is lost, and nothing is there twice.
  const history = await all(pi.under.history());
  assert.equal(history.length, 4 * turns);
  assert.ok(history.filter(({ givenView }) => givenView).length >= 2 * turns - 1);
});

test("where pi compacts by itself, or is asked to, the summary is Longhand's", async () => {
  let turn = 0;
  // The provider reports nearly the whole window once.
  const answer = () => ({ ...reply(turn, 1200), input: turn === 5 ? 90_000 : 10 });
  const pi = await startPi(answer, 100_000, { enabled: true });
  for (turn = 0; turn < 6; turn++) await ask(pi, `Question ${turn}: ${"words of a person ".repeat(40)}`);
  while (compactions(pi).length === 0) await soon();
  const [automatic] = compactions(pi);
  assert.ok(automatic, pi.notices.join());
  assert.equal(automatic.fromHook, true);
  assert.ok(equal([automatic.summary], await summaries(pi)));
  for (; turn < 9; turn++) await ask(pi, `Question ${turn}: ${"words of a person ".repeat(40)}`);
  const result = await pi.session.compact("The names of people");
  assert.equal(result.summary, (await summaries(pi)).at(-1));
  const { compaction } = await pi.under.call(v1.CompactionService.method.getCompaction, {
    compactionId: (result.details as { longhand: { compactionId: string } }).longhand.compactionId,
  });
  assert.equal(compaction?.instructions, "The names of people");
  await assert.rejects(pi.session.compact(), /Already compacted/);
});

test("branches of pi are branches of the session, and others write to it, too", async () => {
  let turn = 0;
  const pi = await startPi(() => reply(turn), 100_000, { enabled: false });
  for (turn = 0; turn < 3; turn++) await ask(pi, `Question ${turn}`);
  const said = pi.session.sessionManager.getBranch().filter((entry) => entry.type === "message");
  // Back behind the second question, and forth again.
  await pi.session.navigateTree(said[2]?.id ?? "");
  turn = 7;
  await ask(pi, "Another question");
  const asked = () => textsOf(pi.fake.asked.at(-1) as Asked).filter((text) => /question|answer/i.test(text));
  assert.deepEqual(
    asked().map((text) => text.slice(0, 16).trim()),
    ["Question 0", "Answer 0: words", "Another question"],
  );
  await pi.session.navigateTree(said.at(-1)?.id ?? "");
  turn = 8;
  await pi.under.append("A question of a person");
  await ask(pi, "Question 3");
  const texts = asked();
  assert.deepEqual(
    [0, 1, 2, 3].map((number) => texts.some((text) => text.startsWith(`Question ${number}`))),
    [true, true, true, true],
  );
  assert.ok(!texts.includes("Another question"));
  await pi.under.append("A remark of a person");
  await ask(pi, "Question 4");
  assert.ok(textsOf(pi.fake.asked.at(-1) as Asked).includes("A remark of a person"));
});

test("pi loads the extension from a file, as people have it", async () => {
  const file = join(directory, "longhand.ts");
  const module = new URL("../../src/pi.js", import.meta.url).href;
  writeFileSync(file, `export { default } from "${module}";\n`);
  process.env["LONGHAND_SERVER"] = daemon.address;
  const pi = await startPi(() => reply(0), 100_000, { enabled: false }, file);
  await ask(pi, "Question 0");
  const { messages } = await pi.under.view();
  assert.deepEqual(
    messages.map((message) => longhand.plainText(message).slice(0, 10)),
    ["Question 0", "Answer 0: "],
  );
});

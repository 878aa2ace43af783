import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Plugin } from "@opencode-ai/plugin";
import * as longhand from "../../src/index.js";
import { LonghandPlugin } from "../../src/opencode.js";
import * as v1 from "../../src/v1.js";
import { all, Daemon } from "../daemon.js";
import { type Asked, checkPairs, checkTypes, FakeOpenAi, textsOf } from "./fake-openai.js";

// It is one by OpenCode's own types.
LonghandPlugin satisfies Plugin;

const root = fileURLToPath(new URL("../../..", import.meta.url));
const home = realpathSync(mkdtempSync(join(tmpdir(), "longhand-opencode-")));
let daemon: Daemon;
let client: longhand.Client;
let fake: FakeOpenAi;
let opencode: ChildProcess;
let url = "";
let turn = 0;

before(async () => {
  daemon = await Daemon.start();
  client = await longhand.connect({ address: daemon.address, actor: "person" });
  fake = await FakeOpenAi.start((asked) => {
    if (!asked.tools?.length) return { text: "A title" };
    if (asked.messages.at(-1)?.role !== "tool" && turn % 3 === 0) {
      return { text: "I look. ", calls: [{ id: `call_${turn}`, name: "glob", input: { pattern: "*.none" } }] };
    }
    return { text: `Answer ${turn}: ${"words of a model ".repeat(1400)}` };
  });
  const limit = { context: 60_000, output: 1000 };
  const config = {
    plugin: [pathToFileURL(join(root, "dist/src/opencode.js")).href],
    model: "fake/small",
    small_model: "fake/small",
    provider: {
      fake: {
        npm: "@ai-sdk/openai-compatible",
        options: { baseURL: fake.url, apiKey: "key" },
        models: { small: { name: "small", limit, tool_call: true } },
      },
    },
  };
  mkdirSync(join(home, "config/opencode"), { recursive: true });
  mkdirSync(join(home, "work"));
  writeFileSync(join(home, "config/opencode/opencode.json"), JSON.stringify(config));
  opencode = spawn(findProgram(), ["serve", "--hostname", "127.0.0.1", "--port", "0", "--print-logs"], {
    cwd: join(home, "work"),
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOME: home,
      LONGHAND_SERVER: daemon.address,
      ...Object.fromEntries(
        ["DATA", "CONFIG", "CACHE", "STATE"].map((name) => [`XDG_${name}_HOME`, join(home, name.toLowerCase())]),
      ),
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
      OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
      OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER: "1",
    },
  });
  let log = "";
  opencode.stderr?.on("data", (piece) => {
    log += piece;
  });
  if (process.env["OPENCODE_LOG"]) opencode.stderr?.pipe(process.stderr);
  for await (const piece of opencode.stdout ?? []) {
    log += piece;
    url = /listening on (http:\S+)/.exec(log)?.[1] ?? "";
    if (url) break;
  }
  assert.ok(url, log);
});

after(async () => {
  if (opencode?.exitCode === null) {
    const end = once(opencode, "exit");
    opencode.kill("SIGKILL");
    await end;
  }
  fake?.close();
  client?.close();
  await daemon?.remove();
  rmSync(home, { recursive: true });
});

function findProgram(): string {
  const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));
  const own = `opencode-${process.platform}-${process.arch}`;
  const names = readdirSync(modules)
    .filter((name) => name.startsWith(own))
    .sort();
  const found = names.map((name) => join(modules, name, "bin/opencode")).find((path) => existsSync(path));
  if (!found) throw new Error(`no program of OpenCode for ${own} in ${modules}`);
  return found;
}

// biome-ignore lint/suspicious/noExplicitAny: what OpenCode answers.
async function request(method: string, path: string, body?: unknown): Promise<any> {
  const separator = path.includes("?") ? "&" : "?";
  const response = await fetch(`${url}${path}${separator}directory=${encodeURIComponent(join(home, "work"))}`, {
    method,
    headers: { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  assert.ok(response.ok, text);
  return text ? JSON.parse(text) : undefined;
}

interface Message {
  info: { role: string; summary?: unknown; error?: { data: { message: string } } };
  parts: { type: string; text?: string }[];
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 20));

test("a long conversation of OpenCode is compacted by Longhand, and OpenCode shows it as its own", async () => {
  const { id } = await request("POST", "/session", {});
  const under = client.session(`opencode:${id}`);
  // A summary that is being written is none yet.
  const summariesOf = (messages: Message[]) =>
    messages
      .filter(({ info }) => info.role === "assistant" && info.summary === true)
      .map(({ parts }) => parts.map(({ text }) => text ?? "").join(""))
      .filter((text) => text !== "");
  const theirs = async () => (await request("GET", `/session/${id}/message`)) as Message[];
  const ours = async () => {
    const history = await all(under.history({ includeDerived: true }));
    return history.filter(({ kind }) => kind === v1.MessageKind.SUMMARY).map(longhand.plainText);
  };
  const turns = 14;
  for (turn = 0; turn < turns; turn++) {
    const text = `Question ${turn}: ${"words of a person ".repeat(40)}`;
    const answer: Message = await request("POST", `/session/${id}/message`, { parts: [{ type: "text", text }] });
    assert.equal(answer.info.error, undefined, JSON.stringify(answer.info.error));
    // OpenCode shows what Longhand did in the background once it is idle.
    await under.view({ overflow: v1.OverflowAction.WAIT });
    while (summariesOf(await theirs()).length < (await ours()).length) await soon();
  }
  const summaries = await ours();
  assert.ok(summaries.length > 1, `${summaries.length} summaries`);
  const ends = (texts: string[]) =>
    texts.map((text) => `${text.length}: ${text.trim().slice(0, 20)} ${text.trim().slice(-60)}`);
  assert.deepEqual(ends(summariesOf(await theirs())), ends(summaries));
  // The model's requests are those with tools.
  const asked = fake.asked.filter(({ tools }) => tools?.length);
  const lengths = asked.map(({ messages }) => messages.length);
  assert.ok((lengths.at(-1) ?? 0) < Math.max(...lengths), lengths.join());
  const last = textsOf(asked.at(-1) as Asked);
  assert.ok(last.some((text) => text.includes(`Question ${turns - 1}:`)));
  const line = (summaries.at(-1) ?? "").split("\n").find((one) => one.includes("Question")) ?? "never";
  assert.ok(last.some((text) => text.includes(line)));
  asked.forEach(checkPairs);
  await checkTypes([...asked.slice(0, 3), ...asked.slice(-3)]);
  // A compaction by hand, and what another one writes.
  await request("POST", `/session/${id}/summarize`, { providerID: "fake", modelID: "small" });
  assert.deepEqual(ends(summariesOf(await theirs())), ends(await ours()));
  await under.append("A remark of a person");
  await request("POST", `/session/${id}/message`, { parts: [{ type: "text", text: "The last question" }] });
  assert.ok(textsOf(fake.asked.filter(({ tools }) => tools?.length).at(-1) as Asked).includes("A remark of a person"));
  // Nothing is lost: the questions are all there, once.
  const history = (await all(under.history())).map(longhand.plainText);
  for (let number = 0; number < turns; number++) {
    assert.equal(history.filter((text) => text.startsWith(`Question ${number}:`)).length, 1, `question ${number}`);
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import * as longhand from "../src/index.js";
import { Mirror } from "../src/mirror.js";
import { LonghandPlugin } from "../src/opencode.js";
import { longhandExtension } from "../src/pi.js";
import * as v1 from "../src/v1.js";
import { all, Daemon, startForTests } from "./daemon.js";

const { daemon, client } = await startForTests("agent");

const said = (key: string) => ({ key: `pi:${key}`, message: longhand.user(key) });
const mirrorOf = (name: string) => new Mirror(async () => client, "pi:", name, {});
const shown = async (name: string) => (await client.session(name).view()).messages.map(longhand.plainText);

test("what others wrote with client ids stays when a mirror is made again", async () => {
  const name = "others";
  await mirrorOf(name).write([said("one")]);
  await client.session(name).reply(undefined, (reply) => reply.text("of another"));
  await mirrorOf(name).write([said("one"), said("two")]);
  assert.deepEqual(await shown(name), ["one", "of another", "two"]);
});

test("a branch that could not be written leaves the mirror as the session is", async () => {
  const name = "branches";
  const mirror = mirrorOf(name);
  await mirror.write([said("one"), said("two")]);
  const refused = { key: "pi:refused", message: longhand.user([]) };
  refused.message.openTimeout = { $typeName: "google.protobuf.Duration", seconds: 1n, nanos: 0 };
  refused.message.model = "m".repeat(200);
  await assert.rejects(mirror.write([said("one"), refused]), longhand.LonghandError);
  await mirror.write([said("one"), said("two"), said("three")]);
  assert.deepEqual(await shown(name), ["one", "two", "three"]);
  assert.equal((await all(client.session(name).history())).length, 3);
});

interface CompactOptions {
  onComplete: () => void;
}

/** The extension of pi, with a context of pi's own kind. */
function fakePi(id: string, connect: () => Promise<longhand.Client>) {
  const handlers = new Map<
    string,
    (
      event: unknown,
      ctx: unknown,
    ) => Promise<{ messages: unknown[]; compaction?: { details: { longhand: { compactionId: string } } } } | undefined>
  >();
  longhandExtension({ client: connect, preset: "opencode@seed" })({
    on: (event, handler) => void handlers.set(event, handler),
  });
  const notices: string[] = [];
  const state: { idle: boolean; disposed: boolean; compact: (options: CompactOptions) => void } = {
    idle: false,
    disposed: false,
    compact: () => {},
  };
  const active = <T>(value: T): T => {
    if (state.disposed) throw new Error("This extension ctx is stale");
    return value;
  };
  const message = (number: number) => ({
    role: "user",
    timestamp: number,
    content: [{ type: "text", text: `Question ${number}` }],
  });
  const branch = [0, 1].map((number) => ({ type: "message", id: `e${number}`, message: message(number) }));
  const ctx = {
    hasUI: true,
    cwd: "/",
    get ui() {
      return active({ notify: (text: string) => void notices.push(text), setStatus: () => {} });
    },
    sessionManager: { getSessionId: () => id, getBranch: () => branch },
    model: { contextWindow: 6000, maxTokens: 1000 },
    isIdle: () => active(state.idle),
    compact: (options: CompactOptions) => active(state).compact(options),
  };
  const emit = (event: string, value: object = {}) => handlers.get(event)?.(value, ctx);
  return { emit, ask: () => emit("context", { messages: [] }), notices, branch, state, ctx };
}

/** The limits of a session's window: the context, the input, and the output. */
async function windowOf(name: string): Promise<(bigint | undefined)[]> {
  const { window } = await client.session(name).get();
  return [window?.maxContextTokens, window?.maxInputTokens, window?.maxOutputTokens];
}

test("the session of pi has the window of the model that answers next, and what pi asks it for", async () => {
  const pi = fakePi("models", () => longhand.connect({ address: daemon.address, actor: "pi" }));
  await pi.ask();
  assert.deepEqual(await windowOf("pi:models"), [6000n, undefined, 1000n]);
  pi.ctx.model = { contextWindow: 1_000_000, maxTokens: 128_000 };
  await pi.ask();
  assert.deepEqual(await windowOf("pi:models"), [1_000_000n, undefined, 32_000n]);
  // After a restart, with the model of before.
  const again = fakePi("models", () => longhand.connect({ address: daemon.address, actor: "pi" }));
  await again.ask();
  assert.deepEqual(await windowOf("pi:models"), [6000n, undefined, 1000n]);
  for (const one of [pi, again]) await one.emit("session_shutdown");
});

/** Waits until the daemon has so many streams of events. */
async function followers(person: longhand.Client, count: bigint): Promise<void> {
  while ((await person.serverInfo()).subscriberCount !== count) await new Promise(setImmediate);
}

test("pi finds a daemon that starts after its first request", async () => {
  const own = await Daemon.start();
  const person = await longhand.connect({ address: own.address, actor: "person" });
  await own.stop();
  const pi = fakePi("late", () => longhand.connect({ address: own.address, actor: "pi" }));
  await pi.emit("session_start");
  assert.equal(await pi.ask(), undefined);
  assert.ok(pi.notices.length > 0);
  await own.start();
  assert.equal((await pi.ask())?.messages.length, pi.branch.length);
  // It follows the session, too.
  await followers(person, 1n);
  await pi.emit("session_shutdown");
  person.close();
  await own.remove();
});

test("a compaction that ends while pi writes the entry of another has its entry, too", {
  timeout: 60_000,
}, async () => {
  const own = await Daemon.start();
  const person = await longhand.connect({ address: own.address, actor: "person" });
  const client = await longhand.connect({ address: own.address, actor: "pi" });
  const pi = fakePi("twice", async () => client);
  await pi.emit("session_start");
  await pi.ask();
  await followers(person, 1n);
  const session = person.session("pi:twice");
  const compacted = () => pi.notices.filter((notice) => notice.includes("compacted the conversation")).length;
  const compact = async () => {
    const before = compacted();
    // In steps after which the daemon is done, so that no further compaction follows.
    for (let turn = 0; compacted() === before; turn++) {
      const words = `${turn}: ${"words of a person ".repeat(50)}`;
      await session.append([words, longhand.assistant(words)]);
      await session.view({ overflow: v1.OverflowAction.WAIT });
      while ((await session.getRun()).compactionId) await new Promise(setImmediate);
    }
    // After the notice the extension asks for the summary on this connection.
    for (let times = 0; times < 9; times++) await client.serverInfo();
  };
  const entries: string[] = [];
  const both = new Promise<void>((resolve, reject) => {
    pi.state.compact = async ({ onComplete }) => {
      try {
        const signal = new AbortController().signal;
        const answer = await pi.emit("session_before_compact", { signal, preparation: { tokensBefore: 1 } });
        entries.push(answer?.compaction?.details.longhand.compactionId ?? "none");
        if (entries.length === 1) await compact();
        await pi.emit("session_compact");
        onComplete();
        if (entries.length === 2) resolve();
      } catch (failure) {
        reject(failure);
      }
    };
  });
  pi.state.idle = true;
  await compact();
  await both;
  assert.notEqual(entries[0], entries[1]);
  await pi.emit("session_shutdown");
  person.close();
  await own.remove();
});

test("pi's session is left when it is disposed of, which nobody says", async () => {
  const own = await Daemon.start();
  const person = await longhand.connect({ address: own.address, actor: "person" });
  const pi = fakePi("disposed", () => longhand.connect({ address: own.address, actor: "pi" }));
  await pi.emit("session_start");
  await pi.ask();
  await followers(person, 1n);
  // What happens then reaches nobody, and nothing fails.
  pi.state.disposed = true;
  const session = person.session("pi:disposed");
  for (let turn = 0; turn < 12; turn++) {
    const words = `${turn}: ${"words of a person ".repeat(100)}`;
    await session.append([words, longhand.assistant(words)]);
  }
  await session.view({ overflow: v1.OverflowAction.WAIT });
  const history = await all(session.history({ includeDerived: true }));
  assert.ok(history.some(({ kind }) => kind === v1.MessageKind.SUMMARY));
  await followers(person, 0n);
  person.close();
  await own.remove();
});

/** The plugin of OpenCode, with what OpenCode gives it. */
async function fakeOpenCode(address: string, models: Record<string, { limit: object }> = {}) {
  process.env["LONGHAND_SERVER"] = address;
  const notices: string[] = [];
  const data = { providers: [{ id: "p", models }] };
  const tui = { showToast: async ({ body }: { body: { message: string } }) => void notices.push(body.message) };
  const hooks = await LonghandPlugin({
    client: { tui, config: { providers: async () => ({ data }) } },
    directory: "/",
  });
  return { hooks, transform: hooks["experimental.chat.messages.transform"], notices };
}

const openCodeMessage = (sessionID: string, id: string, role: string, text: string) => ({
  info: { id, sessionID, role },
  parts: [{ id: `${id}p`, type: "text", text }],
});

test("the session of OpenCode has the window of the model that answers next, and what OpenCode asks it for", async () => {
  const { hooks, transform } = await fakeOpenCode(daemon.address, {
    small: { limit: { context: 100_000, output: 8_000 } },
    large: { limit: { context: 400_000, input: 272_000, output: 128_000 } },
    silent: { limit: { context: 200_000, output: 0 } },
  });
  const ask = async (modelID: string, id: string) => {
    const asked = openCodeMessage("models", id, "user", "A question");
    const messages = [{ ...asked, info: { ...asked.info, model: { providerID: "p", modelID } } }];
    await transform({}, { messages });
    return windowOf("opencode:models");
  };
  assert.deepEqual(await ask("small", "m1"), [100_000n, undefined, 8_000n]);
  assert.deepEqual(await ask("large", "m2"), [400_000n, 272_000n, 32_000n]);
  assert.deepEqual(await ask("silent", "m3"), [200_000n, undefined, 32_000n]);
  assert.deepEqual(await ask("unknown", "m4"), [200_000n, undefined, 32_000n]);
  await hooks.dispose();
});

test("OpenCode finds a daemon that starts after its first request", async () => {
  const own = await Daemon.start();
  const person = await longhand.connect({ address: own.address, actor: "person" });
  await own.stop();
  const { hooks, transform, notices } = await fakeOpenCode(own.address);
  const messages = [openCodeMessage("late", "m1", "user", "A question")];
  await transform({}, { messages });
  assert.equal(messages.length, 1);
  assert.ok(notices.length > 0);
  await own.start();
  await transform({}, { messages });
  const { messages: view } = await person.session("opencode:late").view();
  assert.deepEqual(view.map(longhand.plainText), ["A question"]);
  // It follows the session, too.
  await followers(person, 1n);
  await hooks.dispose();
  await followers(person, 0n);
  person.close();
  await own.remove();
});

test("the last step before a compaction of OpenCode is in the session", async () => {
  const { hooks, transform } = await fakeOpenCode(daemon.address);
  const asked = openCodeMessage("last", "m1", "user", "A question");
  await transform({}, { messages: [asked] });
  await hooks["experimental.session.compacting"]({ sessionID: "last" }, {});
  const messages = [asked, openCodeMessage("last", "m2", "assistant", "The last step")];
  await transform({}, { messages });
  assert.equal(messages.length, 2);
  assert.deepEqual(await shown("opencode:last"), ["A question", "The last step"]);
  await hooks.dispose();
});

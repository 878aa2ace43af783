import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as longhand from "../src/index.js";
import { Mirror } from "../src/mirror.js";
import { LonghandPlugin } from "../src/opencode.js";
import { longhandExtension } from "../src/pi.js";
import * as v1 from "../src/v1.js";
import { all, Daemon } from "./daemon.js";

let daemon: Daemon;
let client: longhand.Client;
before(async () => {
  daemon = await Daemon.start();
  client = await longhand.connect({ address: daemon.address, actor: "agent" });
});
after(async () => {
  client.close();
  await daemon.remove();
});

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

test("pi finds a daemon that starts after its first request", async () => {
  const own = await Daemon.start();
  const person = await longhand.connect({ address: own.address, actor: "person" });
  await own.stop();
  const handlers = new Map<string, (event: unknown, ctx: unknown) => Promise<{ messages: unknown[] } | undefined>>();
  const extension = longhandExtension({
    client: async () => {
      const made = await longhand.connect({ address: own.address, actor: "pi" });
      await made.call(v1.AdminService.method.getServerInfo, {}, { retryMs: 0 }).catch((failure) => {
        made.close();
        throw failure;
      });
      return made;
    },
  });
  extension({ on: (event, handler) => void handlers.set(event, handler) });
  const notices: string[] = [];
  const ui = {
    notify: (text: string) => void notices.push(text),
    setStatus: () => {},
  };
  const branch = Array.from({ length: 2 }, (_, number) => ({
    type: "message",
    id: `e${number}`,
    message: {
      role: "user",
      timestamp: number,
      content: [{ type: "text", text: `Question ${number}` }],
    },
  }));
  const sessionManager = { getSessionId: () => "late", getBranch: () => branch };
  const ctx = { hasUI: true, cwd: "/", ui, sessionManager, model: undefined, isIdle: () => false };
  const ask = () => handlers.get("context")?.({ messages: [] }, ctx);
  await handlers.get("session_start")?.({}, ctx);
  assert.equal(await ask(), undefined);
  assert.ok(notices.length > 0);
  await own.start();
  assert.equal((await ask())?.messages.length, branch.length);
  // It follows the session, too.
  for (let following = 0n; following === 0n; ) {
    ({ subscriberCount: following } = await person.call(v1.AdminService.method.getServerInfo, {}));
  }
  await handlers.get("session_shutdown")?.({}, ctx);
  person.close();
  await own.remove();
});

test("the last step before a compaction of OpenCode is in the session", async () => {
  process.env["LONGHAND_SERVER"] = daemon.address;
  const tui = { showToast: async () => {} };
  const hooks = await LonghandPlugin({ client: { tui, config: { providers: async () => ({}) } }, directory: "/" });
  const message = (id: string, role: string, text: string) => ({
    info: { id, sessionID: "last", role },
    parts: [{ id: `${id}p`, type: "text", text }],
  });
  const asked = message("m1", "user", "A question");
  const transform = hooks["experimental.chat.messages.transform"];
  await transform({}, { messages: [asked] });
  await hooks["experimental.session.compacting"]({ sessionID: "last" }, {});
  const messages = [asked, message("m2", "assistant", "The last step")];
  await transform({}, { messages });
  assert.equal(messages.length, 2);
  assert.deepEqual(await shown("opencode:last"), ["A question", "The last step"]);
  await hooks.dispose();
});

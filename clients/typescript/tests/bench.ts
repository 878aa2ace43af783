/**
 * The time of the client beside that of raw stubs, and of the adapter beside the SDK's own memory, in turn, so that all meet
 * the same machine. Times are of one call, in milliseconds: median, and 95th percentile.
 */

import { connect as connectSocket } from "node:net";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { MemorySession } from "@openai/agents-core";
import * as longhand from "../src/index.js";
import { LonghandSession } from "../src/openai-agents.js";
import * as v1 from "../src/v1.js";
import { BINARY, Daemon } from "./daemon.js";

const calls = Number(process.argv[2] ?? 500);
const daemon = await Daemon.start();
const client = await longhand.connect({ address: daemon.address });
const manager = new Http2SessionManager(
  "http://localhost",
  {},
  {
    createConnection: () => connectSocket(daemon.address.slice("unix:".length)),
  },
);
const transport = createGrpcTransport({ baseUrl: "http://localhost", sessionManager: manager });
const messages = createClient(v1.MessageService, transport);
const views = createClient(v1.ViewService, transport);
// So large that no compaction shortens the views.
const window = 10_000_000;
const session = await client.createSession(undefined, { window });
const raw = await client.createSession(undefined, { window });
const adapter = new LonghandSession("bench", { client, window });
const memory = new MemorySession();
// The text of `clients/python/bench`.
const text = "words of a message that somebody wrote ".repeat(8);
const item = { role: "user", content: text } as const;

async function rawView(): Promise<void> {
  for await (const frame of views.getView({ sessionId: raw.id })) void frame;
}

const rawAppend = () =>
  messages.appendMessages({
    sessionId: raw.id,
    requestId: crypto.randomUUID(),
    messages: [{ role: v1.Role.USER, parts: [{ body: { case: "text", value: { text } } }] }],
  });

/** Calls all of them in turn, and returns their times. */
async function turns(count: number, works: Record<string, () => Promise<unknown>>): Promise<Map<string, number[]>> {
  const times = new Map<string, number[]>(Object.keys(works).map((name) => [name, []]));
  for (let call = 0; call < count; call++) {
    for (const [name, work] of Object.entries(works)) {
      const begin = performance.now();
      await work();
      times.get(name)?.push(performance.now() - begin);
    }
  }
  return times;
}

async function measure(title: string, works: Record<string, () => Promise<unknown>>): Promise<void> {
  await turns(Math.ceil(calls / 10), works);
  const times = await turns(calls, works);
  console.log(title);
  for (const [name, measured] of times) {
    measured.sort((one, other) => one - other);
    const at = (share: number) => (measured[Math.floor(measured.length * share)] ?? 0).toFixed(3).padStart(7);
    console.log(`  ${name.padEnd(42)} ${at(0.5)} ${at(0.95)}`);
  }
}

console.log(`Node ${process.version}, ${BINARY}`);
// The appends of the first series are the messages of the second one.
await measure(`append of a message of ${text.length} bytes`, {
  "raw stubs": rawAppend,
  longhand: () => session.append(text),
  "longhand/openai-agents, addItems": () => adapter.addItems([item]),
  "MemorySession, addItems": () => memory.addItems([item]),
});
await measure(`view of ${(await session.view()).messages.length} messages`, {
  "raw stubs, whole": rawView,
  "longhand, nothing new": () => session.view(),
  "longhand/openai-agents, getItems": () => adapter.getItems(),
  "MemorySession, getItems": () => memory.getItems(),
});
client.close();
manager.abort();
await daemon.remove();

/** The time of the client beside that of raw stubs, in turn, so that both meet the same machine. */

import { connect as connectSocket } from "node:net";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import * as longhand from "../src/index.js";
import * as v1 from "../src/v1.js";
import { Daemon } from "./daemon.js";

const calls = Number(process.argv[2] ?? 1000);
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
const contexts = createClient(v1.ContextService, transport);
// So large that no compaction shortens the views.
const session = await client.createSession(undefined, { window: 10_000_000 });
const raw = await client.createSession(undefined, { window: 10_000_000 });
const text = "x".repeat(1024);

async function rawView(): Promise<void> {
  for await (const frame of contexts.getContext({ sessionId: raw.id })) void frame;
}

const rawAppend = () =>
  messages.appendMessages({
    sessionId: raw.id,
    requestId: crypto.randomUUID(),
    messages: [{ role: v1.Role.USER, parts: [{ body: { case: "text", value: { text } } }] }],
  });

// The appends of the first series are the messages of the second one.
const series: [string, () => Promise<unknown>, () => Promise<unknown>][] = [
  ["append, 1 KiB", () => session.append(text), rawAppend],
  [`view of ${calls} messages (client: nothing new, raw: whole)`, () => session.view(), rawView],
];
for (const [name, ours, theirs] of series) {
  const times = { client: [] as number[], raw: [] as number[] };
  for (let call = 0; call < calls; call++) {
    for (const [kind, work] of [
      ["client", ours],
      ["raw", theirs],
    ] as const) {
      const begin = performance.now();
      await work();
      times[kind].push(performance.now() - begin);
    }
  }
  const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  console.log(`${name}: client ${median(times.client).toFixed(3)} ms, raw ${median(times.raw).toFixed(3)} ms (median)`);
}
client.close();
manager.abort();
await daemon.remove();

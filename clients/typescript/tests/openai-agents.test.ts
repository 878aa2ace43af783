import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type AgentInputItem,
  MemorySession,
  protocol,
  type Session,
  type SessionHistoryRewriteAwareSession,
  type SessionHistoryTransactionAwareSession,
} from "@openai/agents-core";
import * as longhand from "../src/index.js";
import { LonghandSession } from "../src/openai-agents.js";
import * as v1 from "../src/v1.js";
import { all, startForTests } from "./daemon.js";

const { client } = await startForTests("agent");

/** Numbers below a limit, the same for a seed. */
function numbers(seed: number): (limit: number) => number {
  let state = seed * 2654435761 + 1;
  return (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** One of each kind of item that the SDK has. */
function item(number: number, name: string): AgentInputItem {
  const providerData = { at: number, nested: { a: [1, null, "ü"] } };
  const items: unknown[] = [
    { role: "user", content: `says ${name}` },
    { type: "message", role: "user", content: [{ type: "input_text", text: name, providerData }], providerData },
    {
      type: "message",
      id: `msg_${name}`,
      role: "assistant",
      status: "completed",
      content: [
        { type: "output_text", text: `replies ${name}` },
        { type: "output_text", text: "twice" },
      ],
    },
    { type: "message", role: "system", content: `rules ${name}` },
    { type: "function_call", id: `fc_${name}`, callId: `call_${name}`, name: "shell", arguments: '{ "b":1, "a": 2}' },
    { type: "function_call_result", callId: `call_${name}`, name: "shell", status: "completed", output: name },
    {
      type: "function_call_result",
      callId: `call_${name}`,
      name: "shell",
      status: "completed",
      output: { type: "text", text: name },
    },
    { type: "reasoning", id: `rs_${name}`, content: [], providerData: { encrypted_content: "x==", number } },
    { type: "message", role: "user", content: [{ type: "input_image", image: "https://example.org/a.png" }] },
    { type: "compaction", encrypted_content: "y==" },
    { role: "user", content: "" },
  ];
  return items[number % items.length] as AgentInputItem;
}

type Whole = Session & SessionHistoryRewriteAwareSession & SessionHistoryTransactionAwareSession;

test("random operations have the results of a MemorySession", async () => {
  for (let seed = 1; seed <= 25; seed++) {
    const random = numbers(seed);
    const ours: Whole = new LonghandSession(`differential ${seed}`, { client });
    const theirs: Whole = new MemorySession();
    for (let step = 0; step < 40; step++) {
      const choice = random(14);
      const count = random(4);
      // A result has its call before it, and no second one, as in every conversation.
      const open = (await theirs.getItems()).flatMap((one) => (one.type === "function_call" ? [one.callId] : []));
      const closed = (await theirs.getItems()).flatMap((one) =>
        one.type === "function_call_result" ? [one.callId] : [],
      );
      const calls = open.filter((id) => !closed.includes(id));
      const added = Array.from({ length: count }, (_, index) => item(random(11), `${step}_${index}`)).flatMap(
        (one): AgentInputItem[] => {
          if (one.type !== "function_call_result") return [one];
          const callId = calls.shift();
          return callId === undefined ? [] : [{ ...one, callId }];
        },
      );
      const now = await theirs.getItems();
      const suffix = now.slice(now.length - Math.min(count, now.length));
      // Now and then a suffix that is not there.
      if (step % 7 === 0) suffix.push(item(0, "never"));
      // A result is not left without its call, nor a call put where its result was.
      const whole = added.filter(({ type }) => type !== "function_call_result");
      const replace = { type: "replace_suffix", expectedSuffix: suffix, replacement: whole } as const;
      const append = { type: "append_items", items: added } as const;
      const transaction = choice % 2 ? replace : append;
      const transact = async (session: Whole, id: string, change: typeof replace | typeof append) => {
        try {
          await session.applyHistoryTransaction({ operationId: id, transaction: structuredClone(change) });
          return "applied";
        } catch {
          return "refused";
        }
      };
      const callId = now.find((one) => one.type === "function_call")?.callId ?? "none";
      const replacement = { ...item(4, `new ${step}`), callId } as never;
      const works: ((session: Whole) => Promise<unknown>)[] = [
        (session) => session.addItems(structuredClone(added)),
        (session) => session.getItems(),
        (session) => session.getItems(count),
        (session) => session.popItem(),
        (session) => session.clearSession(),
        async (session) => [
          await transact(session, `op ${step}`, transaction),
          // Sent again, and with another change.
          await transact(session, `op ${step}`, transaction),
          await transact(session, `op ${step}`, { ...append, items: [item(0, "other")] }),
        ],
        async (session) =>
          session.applyHistoryMutations({ mutations: [{ type: "replace_function_call", callId, replacement }] }),
      ];
      const work = works[[0, 0, 0, 0, 1, 2, 2, 3, 3, step % 5 ? 3 : 4, 5, 5, 5, 6][choice] ?? 0] ?? works[1];
      if (!work) throw new Error("no work");
      const [got, wanted] = [await work(ours), await work(theirs)];
      assert.deepEqual(got, wanted, `seed ${seed}, step ${step}`);
    }
    assert.deepEqual(await ours.getItems(), await theirs.getItems(), `seed ${seed}`);
  }
});

test("others on the session read texts, calls and results", async () => {
  const session = new LonghandSession("shared with others", { client });
  await session.addItems([item(0, "one"), item(4, "two"), item(5, "two")]);
  await client.session("shared with others").append("from a person");
  const items = await session.getItems();
  assert.deepEqual(items.at(-1), { type: "message", role: "user", content: "from a person" });
  const { messages } = await (await session.longhand()).view();
  const kinds = messages.flatMap(({ parts }) => parts.map(({ part }) => part?.body.case));
  assert.deepEqual(kinds, ["text", "toolCall", "toolResult", "text"]);
});

test("a long conversation becomes a shorter list", async () => {
  const session = new LonghandSession("long", { client, window: 6000, preset: "opencode@seed" });
  const under = await session.longhand();
  /** A view, and the items that the SDK has of it. */
  const look = async () => {
    for (;;) {
      const view = await under.view({ overflow: v1.OverflowAction.WAIT });
      const seen = await session.getItems();
      // A compaction can come in between.
      if ((await under.view()).header.revision === view.header.revision) return { view, seen };
    }
  };
  let added = 0;
  for (let turn = 0; turn < 40; turn++) {
    const callId = `call_${turn}`;
    const output = `output ${turn} `.repeat(60);
    const items: AgentInputItem[] = [
      { role: "user", content: `Question ${turn}: ${"words of a person ".repeat(20)}` },
      { type: "function_call", callId, name: "look", arguments: '{"n":1}', status: "completed" },
      { type: "function_call_result", callId, name: "look", status: "completed", output },
      {
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: `Answer ${turn}: ${"words of a model ".repeat(20)}` }],
      },
    ];
    await session.addItems(items);
    added += items.length;
    const { view, seen } = await look();
    const ids = (type: string) => seen.flatMap((one) => (one.type === type && "callId" in one ? [one.callId] : []));
    // No call is without its result, and no result without its call.
    assert.deepEqual(ids("function_call"), ids("function_call_result"), `turn ${turn}`);
    // A compaction can cover the turn.
    const covered = view.messages.at(-1)?.kind !== v1.ViewMessageKind.SHOWN;
    if (!covered) assert.deepEqual(seen.at(-1), items.at(-1), `turn ${turn}`);
    // What the SDK sends, by its own schema, before and after compactions.
    for (const one of seen) protocol.ModelItem.parse(one);
  }
  const history = await all(under.history({ includeDerived: true }));
  assert.ok(history.filter(({ kind }) => kind === v1.MessageKind.SUMMARY).length > 1);
  const { view, seen } = await look();
  const summary = view.messages.find(({ kind }) => kind === v1.ViewMessageKind.SUMMARY);
  assert.ok(summary);
  assert.ok(seen.length < added / 2, `${seen.length} of ${added}`);
  assert.ok(JSON.stringify(seen).includes(JSON.stringify(longhand.plainText(summary)).slice(1, -1)));
  // Nothing is lost.
  assert.equal((await all(under.history())).length, added);
});

test("other writers are seen and popped", async () => {
  const session = new LonghandSession("popped", { client });
  await session.addItems([{ role: "user", content: "Begin" }]);
  await (await session.longhand()).append([
    longhand.assistant([longhand.text("I look"), longhand.toolCall("c1", "look", { x: 1 })]),
    longhand.tool(longhand.toolResult("c1", "seen")),
  ]);
  const status = "completed";
  const content = [{ type: "output_text", text: "I look" }];
  const begin = [
    { role: "user", content: "Begin" },
    { type: "message", role: "assistant", status, content },
  ];
  const call = { type: "function_call", callId: "c1", name: "look", arguments: '{"x":1}', status };
  const result = { type: "function_call_result", callId: "c1", name: "", output: "seen", status };
  assert.deepEqual(await session.getItems(), [...begin, call, result]);
  assert.deepEqual(await session.popItem(), result);
  // One message has both the text and the call.
  assert.deepEqual(await session.popItem(), call);
  assert.deepEqual(await session.getItems(), begin);
});

test("a call that is replaced keeps its place and has metadata of its own, also in another's message", async () => {
  const session = new LonghandSession("replaced", { client });
  const result = (callId: string) => ({ type: "function_call_result", callId, name: "look", output: "x" }) as const;
  const status = "completed";
  const call = (callId: string, made: object) => ({ type: "function_call", callId, name: "look", status, ...made });
  await session.addItems([
    call("c1", { arguments: "{}" }),
    call("c2", { arguments: "{}" }),
    { ...result("c1"), status },
    { ...result("c2"), status },
  ] as AgentInputItem[]);
  const under = await session.longhand();
  await under.append([
    longhand.assistant([longhand.text("I look"), longhand.toolCall("c3", "look", {})], { metadata: { mine: 1 } }),
    longhand.tool(longhand.toolResult("c3", "seen")),
  ]);
  const replacement = { arguments: '{"n": 2}', id: "fc_9", providerData: { a: 1 } };
  for (const callId of ["c2", "c3"]) {
    const made = call(callId, replacement) as never;
    await session.applyHistoryMutations({ mutations: [{ type: "replace_function_call", callId, replacement: made }] });
  }
  const items = await session.getItems();
  const ids = items.map((one) => ("callId" in one ? `${one.type} ${one.callId}` : one.type));
  const kinds = ["function_call c1", "function_call c2", "function_call_result c1", "function_call_result c2"];
  assert.deepEqual(ids, [...kinds, "message", "function_call c3", "function_call_result c3"]);
  assert.deepEqual(items[1], call("c2", replacement));
  assert.deepEqual(items[5], call("c3", replacement));
  const edits = (await all(under.history())).filter(({ kind }) => kind === v1.MessageKind.EDIT);
  const [first, second] = edits.map(({ metadataJson }) => JSON.parse(metadataJson ?? "{}"));
  assert.deepEqual(first["openai-agents-js"], { type: "function_call", ...without(replacement), status });
  assert.equal(second.mine, 1, "another's metadata stays");
});

/** What the types have no place for. */
function without({ id, providerData }: { id: string; providerData: unknown }) {
  return { id, providerData };
}

test("an edit by others keeps its place", async () => {
  const session = new LonghandSession("edited", { client });
  await session.addItems([item(0, "one"), item(4, "two"), item(5, "two"), item(2, "three")]);
  const under = await session.longhand();
  const [first, second] = await all(under.history());
  await under.edit(first?.messageId ?? "", "says it better");
  await under.edit(second?.messageId ?? "", longhand.toolCall("call_two", "shell", {}));
  const items = await session.getItems();
  assert.deepEqual(
    items.map((one) => one.type),
    ["message", "function_call", "function_call_result", "message"],
  );
  assert.deepEqual(items[0], { type: "message", role: "user", content: "says it better" });
});

test("what was cleared takes its operations along", async () => {
  const hello: AgentInputItem = { type: "message", role: "user", content: "Hello" };
  const other: AgentInputItem = { type: "message", role: "user", content: "Other" };
  const three: AgentInputItem[] = [hello, other, hello];
  const ours: Whole = new LonghandSession("cleared", { client });
  for (const session of [new MemorySession() as Whole, ours]) {
    // Also where there is nothing yet.
    await session.clearSession();
    for (const said of three) {
      const operation = { operationId: "same", transaction: { type: "append_items" as const, items: [said] } };
      await session.applyHistoryTransaction(operation);
      await session.applyHistoryTransaction(operation);
      assert.deepEqual(await session.getItems(), [said]);
      const another = { type: "append_items" as const, items: [said, said] };
      const twice = async () => session.applyHistoryTransaction({ operationId: "same", transaction: another });
      await assert.rejects(twice, /different/);
      await session.clearSession();
      assert.deepEqual(await session.getItems(), []);
    }
  }
  // A program that is started anew knows of it, too.
  const again: Whole = new LonghandSession("cleared", { client });
  await again.applyHistoryTransaction({ operationId: "same", transaction: { type: "append_items", items: [other] } });
  assert.deepEqual(await again.getItems(), [other]);
});

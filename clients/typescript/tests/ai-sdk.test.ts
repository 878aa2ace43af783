import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import type { ChatState, ChatStatus, UIMessage, UIMessageChunk } from "ai";
import * as ai7 from "ai";
import { MockLanguageModelV4 } from "ai/test";
import * as ai6 from "ai6";
import { MockLanguageModelV3 } from "ai6/test";
import { z } from "zod";
import { type Answer, answerChat, LonghandChatTransport, loadChat, saveChat, serveChats } from "../src/ai-sdk.js";
import * as browser from "../src/browser.js";
import * as longhand from "../src/index.js";
import * as v1 from "../src/v1.js";
import { all, Daemon, startForTests } from "./daemon.js";

const { daemon, client } = await startForTests("agent");

/** What a model streams: parts, and between them promises that it waits for. */
type Script = (Record<string, unknown> | Promise<unknown>)[];

function words(id: string, ...deltas: (string | Promise<unknown>)[]): Script {
  const parts = deltas.map((delta) => (typeof delta === "string" ? { type: "text-delta", id, delta } : delta));
  return [{ type: "text-start", id }, ...parts, { type: "text-end", id }];
}

function finish(reason = "stop", input = 100): Script {
  const inputTokens = { total: input, noCache: input - 10, cacheRead: 10, cacheWrite: 0 };
  const usage = { inputTokens, outputTokens: { total: 7, text: 5, reasoning: 2 } };
  return [{ type: "finish", finishReason: { unified: reason, raw: reason }, usage }];
}

function call(toolCallId: string, toolName: string, input: string): Script {
  return [
    { type: "tool-input-start", id: toolCallId, toolName },
    { type: "tool-input-delta", id: toolCallId, delta: input.slice(0, 4) },
    { type: "tool-input-delta", id: toolCallId, delta: input.slice(4) },
    { type: "tool-input-end", id: toolCallId },
    { type: "tool-call", toolCallId, toolName, input },
  ];
}

function streamed(script: Script): ReadableStream {
  const parts = [{ type: "stream-start", warnings: [] }, ...script];
  return new ReadableStream({
    async pull(controller) {
      const part = parts.shift();
      if (part === undefined) return controller.close();
      if (part instanceof Promise) await part;
      else return controller.enqueue(part);
      const next = parts.shift();
      if (next) controller.enqueue(next);
      else controller.close();
    },
  });
}

/** A promise that is resolved from outside. */
function gate(): { open: () => void; passed: Promise<void> } {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, passed };
}

/** A published SDK, with a model that plays scripts, and records what it was asked. */
interface Sdk {
  name: string;
  sdk: typeof ai7;
  model: (scripts: Script[], prompts?: unknown[]) => never;
}

const sdks: Sdk[] = [
  ["ai 7", ai7, MockLanguageModelV4],
  ["ai 6", ai6, MockLanguageModelV3],
].map(([name, sdk, Model]) => ({
  name: name as string,
  sdk: sdk as typeof ai7,
  model: (scripts, prompts = []) => {
    const waiting = [...scripts];
    const doStream = async ({ prompt }: { prompt: unknown }) => {
      prompts.push(prompt);
      return { stream: streamed(waiting.shift() ?? [...words("x", "no more"), ...finish()]) };
    };
    return new (Model as typeof MockLanguageModelV4)({ doStream: doStream as never }) as never;
  },
}));

/** A page: the chat of a front end, with its state in memory. */
function page(sdk: typeof ai7, id: string, transport: ai7.ChatTransport<UIMessage>, messages: UIMessage[] = []) {
  class State implements ChatState<UIMessage> {
    status: ChatStatus = "ready";
    error: Error | undefined = undefined;
    messages = messages;
    changed = () => {};
    pushMessage = (message: UIMessage) => {
      this.messages = [...this.messages, message];
      this.changed();
    };
    popMessage = () => {
      this.messages = this.messages.slice(0, -1);
    };
    replaceMessage = (index: number, message: UIMessage) => {
      this.messages = this.messages.with(index, structuredClone(message));
      this.changed();
    };
    snapshot = <T>(value: T): T => structuredClone(value);
  }
  class Page extends sdk.AbstractChat<UIMessage> {
    readonly own: State;
    constructor(state: State) {
      super({ id, transport, state });
      this.own = state;
    }
    /** Waits until the page shows what is wanted. */
    async until(shown: (messages: UIMessage[]) => boolean): Promise<void> {
      while (!shown(this.messages)) await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  return new Page(new State());
}

const text = (message: UIMessage | undefined) =>
  (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
const texts = (messages: readonly UIMessage[]) => messages.map(text);

for (const { name, sdk, model } of sdks) {
  describe(name, () => {
    /** An agent that answers with scripts until the test is over. */
    async function serving(
      prefix: string,
      answer: Answer,
      work: (failures: unknown[]) => Promise<void>,
    ): Promise<void> {
      const stop = new AbortController();
      const failures: unknown[] = [];
      const service = serveChats(client, answer, {
        chatIdPrefix: prefix,
        signal: stop.signal,
        onError: (failure) => failures.push(failure),
      });
      try {
        await work(failures);
      } finally {
        stop.abort();
        await service;
      }
    }

    test("two pages have one conversation, and a page that is loaded in the middle of a reply goes on with it", async () => {
      const prefix = `two pages, ${name}`;
      const [first, second] = [gate(), gate()];
      const deltas = ["Wörds ", "come \ud83d", "\ude00 ", first.passed, "and ", "go", second.passed, " on."];
      const scripts = [
        [...words("t", ...deltas), ...finish()],
        [...words("t", "Again."), ...finish()],
      ];
      const answering = model(scripts);
      const answer: Answer = ({ request }) => sdk.streamText({ model: answering, ...request });
      await serving(prefix, answer, async () => {
        // As pages do: gRPC-Web.
        const web = await browser.connect({ address: daemon.url, token: daemon.token, actor: "person" });
        const transport = new LonghandChatTransport(web);
        const one = page(sdk, prefix, transport);
        const other = page(sdk, prefix, new LonghandChatTransport(web));
        const stop = new AbortController();
        const following = new LonghandChatTransport(web).follow(other, { signal: stop.signal });
        const sent = one.sendMessage({ text: "Hello", metadata: { at: 1 } });
        const begun = "Wörds come 😀 ";
        await one.until((messages) => text(messages[1]) === begun);
        // A page that is loaded now.
        const states: string[] = [];
        const reloaded = page(sdk, prefix, transport, await transport.load(prefix));
        reloaded.own.changed = () => states.push(text(reloaded.messages[1]));
        const resumed = reloaded.resumeStream();
        await reloaded.until((messages) => text(messages[1]) === begun);
        await other.until((messages) => text(messages[1]) === begun);
        first.open();
        await reloaded.until((messages) => text(messages[1]) === `${begun}and go`);
        second.open();
        await Promise.all([sent, resumed]);
        const whole = `${begun}and go on.`;
        assert.deepEqual(texts(one.messages), ["Hello", whole]);
        assert.deepEqual(reloaded.messages, one.messages);
        // It grew, and every state of it is a beginning of the whole.
        for (const state of states) assert.ok(whole.startsWith(state), state);
        assert.deepEqual(await transport.load(prefix), one.messages);
        assert.equal(await transport.reconnectToStream({ chatId: prefix }), null);
        // The other page did nothing, and can go on.
        await other.until((messages) => text(messages[1]) === whole);
        await other.until(() => other.status === "ready");
        assert.deepEqual(other.messages, one.messages);
        await other.sendMessage({ text: "Again" });
        assert.deepEqual(texts(other.messages), ["Hello", whole, "Again", "Again."]);
        stop.abort();
        await following;
        web.close();
      });
    });

    const tools = {
      look: sdk.tool({ inputSchema: z.object({ at: z.string() }), execute: async ({ at }) => ({ seen: [at, 1] }) }),
      fail: sdk.tool({
        inputSchema: z.object({}),
        execute: async (): Promise<string> => {
          throw new Error("it broke");
        },
      }),
      pick: sdk.tool({ inputSchema: z.object({ from: z.array(z.string()) }) }),
    };
    const signed = { providerMetadata: { anthropic: { signature: "sig==" } } };
    const steps = (): Script[] => [
      [
        { type: "reasoning-start", id: "r" },
        { type: "reasoning-delta", id: "r", delta: "I look" },
        { type: "reasoning-end", id: "r", ...signed },
        { type: "reasoning-start", id: "h", providerMetadata: { anthropic: { redactedData: "x==" } } },
        { type: "reasoning-end", id: "h" },
        ...words("t", "Let me ", "see."),
        ...call("c1", "look", '{"at":"a.ts"}'),
        ...call("c2", "fail", "{}"),
        { type: "source", sourceType: "url", id: "s1", url: "https://example.org", title: "Example" },
        ...finish("tool-calls", 200),
      ],
      [...words("t", "Done."), { type: "file", mediaType: "image/png", data: png(sdk) }, ...finish("stop", 300)],
    ];

    test("a reply with steps is what the SDK makes of it, and every step is a reply to its view", async () => {
      const prefix = `steps, ${name}`;
      const prompts: unknown[] = [];
      const answering = model(steps(), prompts);
      const options = { tools, stopWhen: sdk.stepCountIs(5) };
      const answer: Answer = ({ request }) => sdk.streamText({ model: answering, ...options, ...request });
      await serving(prefix, answer, async () => {
        const transport = new LonghandChatTransport(client, { window: 100_000 });
        const chat = page(sdk, prefix, transport);
        await chat.sendMessage({ text: "Look" });
        assert.equal(chat.error, undefined);
        // The SDK's own, without a session.
        const prompt = [{ role: "user" as const, content: "Look" }];
        const theirs = sdk.streamText({ model: model(steps()), ...options, messages: prompt }).toUIMessageStream();
        let wanted: UIMessage | undefined;
        for await (const state of sdk.readUIMessageStream({ stream: theirs })) wanted = state;
        assert.deepEqual(plain(chat.messages[1]?.parts), plain(wanted?.parts));
        assert.deepEqual(plain(await transport.load(prefix)), plain(chat.messages));
        // What the model got in the second step: its first one, with the results.
        const asked = prompts[1] as { role: string; content: { type: string; providerOptions?: unknown }[] }[];
        assert.deepEqual(
          asked.map(({ role }) => role),
          ["user", "assistant", "tool"],
        );
        const types = asked[1]?.content.map(({ type }) => type);
        assert.deepEqual(types, ["reasoning", "reasoning", "text", "tool-call", "tool-call"]);
        assert.deepEqual(asked[1]?.content[0]?.providerOptions, signed.providerMetadata);
        const history = await all((await transport.session(prefix)).history());
        const replies = history.filter(({ role }) => role === v1.Role.ASSISTANT);
        assert.deepEqual(
          replies.map(({ finish, givenView }) => [finish?.reason, finish?.usage?.inputTokens, givenView !== undefined]),
          [
            [v1.FinishReason.TOOL_CALLS, 190n, true],
            [v1.FinishReason.STOP, 290n, true],
          ],
        );
        assert.ok((replies[1]?.givenView?.revision ?? 0n) > (replies[0]?.givenView?.revision ?? 0n));
      });
    });

    test("a page's own tools answer, and the same reply goes on", async () => {
      const prefix = `page's tools, ${name}`;
      const scripts = [
        [...words("t", "Pick."), ...call("p1", "pick", '{"from":["a","b"]}'), ...finish("tool-calls")],
        [...words("t", "You took b."), ...finish()],
      ];
      const prompts: unknown[] = [];
      const answering = model(scripts, prompts);
      const answer: Answer = ({ request }) => sdk.streamText({ model: answering, tools, ...request });
      await serving(prefix, answer, async () => {
        const transport = new LonghandChatTransport(client);
        const chat = page(sdk, prefix, transport);
        await chat.sendMessage({ text: "Ask me" });
        await chat.addToolOutput({ tool: "pick", toolCallId: "p1", output: "b" });
        await chat.sendMessage();
        assert.equal(chat.error, undefined);
        assert.equal(chat.messages.length, 2);
        assert.equal(text(chat.messages[1]), "Pick.You took b.");
        assert.ok(JSON.stringify(prompts[1]).includes('"value":"b"'));
        assert.deepEqual(plain(await transport.load(prefix)), plain(chat.messages));
      });
    });

    test("replies are made again, messages are edited, agents fail and are stopped", async () => {
      const prefix = `again, ${name}`;
      const never = gate();
      const scripts = [
        [...words("t", "One."), ...finish()],
        [...words("t", "Two."), ...finish()],
        [...words("t", "Three."), ...finish()],
        [{ type: "error", error: new Error("the model is gone") }],
        [...words("t", "Half", never.passed, "never"), ...finish()],
      ];
      const answering = model(scripts);
      const answer: Answer = ({ request }) =>
        sdk.streamText({ model: answering, ...request, maxRetries: 0, onError: () => {} }).toUIMessageStream({
          onError: (error) => (error instanceof Error ? error.message : String(error)),
        });
      await serving(prefix, answer, async (failures) => {
        const transport = new LonghandChatTransport(client);
        const chat = page(sdk, prefix, transport);
        await chat.sendMessage({ text: "First" });
        await chat.regenerate();
        assert.deepEqual(texts(chat.messages), ["First", "Two."]);
        const [asked] = chat.messages;
        await chat.sendMessage({ text: "Edited", messageId: asked?.id ?? "" });
        assert.deepEqual(texts(chat.messages), ["Edited", "Three."]);
        assert.deepEqual(plain(await transport.load(prefix)), plain(chat.messages));
        // History keeps what is not shown any more.
        const history = await all((await transport.session(prefix)).history());
        assert.deepEqual(history.map(longhand.plainText), ["First", "One.", "First", "Two.", "Edited", "Three."]);
        await chat.sendMessage({ text: "Fail" });
        assert.equal(chat.error?.message, "the model is gone");
        const halted = chat.sendMessage({ text: "Halt" });
        await chat.until((messages) => text(messages.at(-1)) === "Half");
        // The page hears of a failure first; the agent was told of it before it went on.
        assert.deepEqual(failures.map(String), ["Error: the model is gone"]);
        await transport.stop(prefix);
        await halted;
        assert.equal(chat.status, "ready");
        const { run } = await (await transport.session(prefix)).getRun();
        assert.equal(run?.end?.reason, v1.RunEndReason.CANCELLED);
        never.open();
      });
    });

    test("a route of a server is two lines, and other agents can answer", async () => {
      const transport = new LonghandChatTransport(client);
      const server = createServer(async (request, response) => {
        const chatId = new URL(request.url ?? "", "http://x").pathname.split("/")[2] ?? "";
        let body = "";
        for await (const piece of request) body += piece;
        const given = body ? JSON.parse(body) : {};
        const stream = body
          ? await transport.sendMessages({ ...given, chatId: given.id, abortSignal: undefined })
          : await transport.reconnectToStream({ chatId });
        if (stream) sdk.pipeUIMessageStreamToResponse({ response, stream });
        else response.writeHead(204).end();
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}/chat`;
      const id = `route-${name.replace(" ", "")}`;
      const chat = page(sdk, id, new sdk.DefaultChatTransport({ api }));
      const session = await transport.session(id);
      // An agent without the SDK: the parts of the protocol.
      const agent = async () => {
        for await (const { frame } of session.frames({ kinds: [v1.EventKind.PROMPT_SUBMITTED], fromBeginning: true })) {
          if (frame.case === "events") break;
        }
        await session.run(
          async (run) => {
            const view = await run.session.view();
            await run.session.reply(view, async (reply) => {
              await reply.text("I ");
              await reply.text("look.");
              await reply.toolInput("c1", "shell", '{"x":1}');
            });
            await run.session.append(longhand.tool(longhand.toolResult("c1", "seen")));
            await run.session.append(longhand.assistant("Done."));
          },
          { takePrompt: true },
        );
      };
      const work = agent();
      await chat.sendMessage({ text: "Go" });
      await work;
      assert.equal(chat.error, undefined);
      assert.equal(text(chat.messages[1]), "I look.Done.");
      const [used] = (chat.messages[1]?.parts ?? []).filter((part) => part.type === "dynamic-tool");
      assert.deepEqual(used?.state === "output-available" && [used.input, used.output], [{ x: 1 }, "seen"]);
      assert.deepEqual(plain(await loadChat(session)), plain(chat.messages));
      await chat.resumeStream();
      assert.equal(chat.status, "ready");
      server.close();
      server.closeAllConnections();
    });

    test("a long conversation over a small window is shorter to the model, and whole to people", async () => {
      const id = `long, ${name}`;
      const prompts: ai7.ModelMessage[][] = [];
      const transport = new LonghandChatTransport(client, { window: 3000, preset: "opencode@seed" });
      const session = await transport.session(id);
      const chat = page(sdk, id, transport);
      const turns = 14;
      for (let turn = 0; turn < turns; turn++) {
        const scripts = [
          [
            ...words("t", "I look. "),
            ...call(`c${turn}`, "look", JSON.stringify({ at: `${turn} `.repeat(90) })),
            ...finish("tool-calls", 0),
          ],
          [...words("t", `Answer ${turn}: ${"words of a model ".repeat(20)}`), ...finish("stop", 0)],
        ];
        const answering = model(scripts);
        const answer: Answer = ({ request }) => {
          prompts.push(request.messages);
          const prepareStep: typeof request.prepareStep = async (step) => {
            const prepared = await request.prepareStep(step);
            if (prepared.messages) prompts.push(prepared.messages);
            return prepared;
          };
          return sdk.streamText({ model: answering, tools, stopWhen: sdk.stepCountIs(3), ...request, prepareStep });
        };
        const sent = chat.sendMessage({ text: `Question ${turn}: ${"words of a person ".repeat(20)}` });
        while (!(await answerChat(session, answer))) await new Promise(setImmediate);
        await sent;
      }
      assert.equal(prompts.length, 2 * turns);
      // What a provider would get, by the SDK's own schema, before and after.
      for (const messages of prompts) {
        for (const message of messages) sdk.modelMessageSchema.parse(message);
        // Each is a request that the SDK makes, too: calls have results, and results calls.
        await sdk.streamText({ model: model([[...words("t", "x"), ...finish()]]), messages }).text;
      }
      const summaries = await all(session.history({ includeDerived: true }));
      assert.ok(summaries.filter(({ kind }) => kind === v1.MessageKind.SUMMARY).length > 1);
      const last = prompts.at(-1) ?? [];
      assert.ok(JSON.stringify(last).includes(`Question ${turns - 1}`));
      // Four a turn without summaries. How many turns went by during the newest summary is the machine's matter.
      assert.ok(last.length < 2 * turns, `${last.length} messages of ${turns} turns`);
      const shown = await loadChat(session);
      assert.equal(shown.length, 2 * turns);
      assert.ok(text(shown[0]).startsWith("Question 0"));
      // The page saw replies, and no summary among them.
      assert.deepEqual(plain(chat.messages), plain(shown));
    });

    test("saved messages come back equal", async () => {
      const session = await client.createSession();
      const parts: unknown[] = [
        { type: "step-start" },
        { type: "reasoning", id: "r", text: "I look", state: "done", ...signed },
        { type: "text", text: "Wörds", state: "done" },
        {
          type: "tool-look",
          toolCallId: "c1",
          state: "output-available",
          input: { b: 1, a: [2] },
          output: { x: null },
        },
        { type: "tool-look", toolCallId: "c2", state: "output-error", input: { at: 1 }, errorText: "it broke" },
        {
          type: "dynamic-tool",
          toolName: "other",
          toolCallId: "c3",
          state: "output-available",
          input: "x",
          output: "y",
        },
        {
          type: "tool-search",
          toolCallId: "c4",
          state: "output-available",
          input: { q: 1 },
          output: [{ url: "u" }],
          providerExecuted: true,
          callProviderMetadata: { p: { id: "7" } },
        },
        { type: "source-url", sourceId: "s1", url: "https://example.org", title: "Example" },
        { type: "source-document", sourceId: "s2", mediaType: "application/pdf", title: "A paper", filename: "a.pdf" },
        { type: "step-start" },
        { type: "text", text: "twice", state: "done" },
        { type: "file", mediaType: "image/png", url: "data:image/png;base64,iVBORw==" },
        { type: "data-weather", id: "w", data: { city: "Kiel", at: [1, null] } },
        { type: "tool-pick", toolCallId: "c5", state: "input-available", input: { from: ["a"] } },
      ];
      const messages = [
        { id: "s", role: "system", parts: [{ type: "text", text: "Be brief" }] },
        {
          id: "u1",
          role: "user",
          metadata: { at: [1] },
          parts: [
            { type: "text", text: "one" },
            { type: "file", mediaType: "image/png", filename: "a.png", url: "data:image/png;base64,iVBORw==" },
            { type: "data-place", data: { x: 1 } },
            { type: "text", text: "two" },
            { type: "file", mediaType: "text/plain", url: "https://example.org/a.txt" },
          ],
        },
        { id: "a1", role: "assistant", metadata: { model: "small", nested: { a: 1 } }, parts },
        { id: "u2", role: "user", parts: [{ type: "text", text: "Go on" }] },
      ] as unknown as UIMessage[];
      const stored = async () => (await all(session.history())).length;
      await saveChat(session, messages.slice(0, 2));
      // Two at once.
      await Promise.all([saveChat(session, messages), saveChat(session, messages)]);
      assert.deepEqual(plain(await loadChat(session)), plain(messages));
      const [, , reply] = messages as { parts: unknown[]; metadata: object }[];
      // What is said of a reply afterwards, also where others wrote behind it.
      Object.assign(reply?.metadata ?? {}, { tokens: 7 });
      await saveChat(session, messages);
      assert.deepEqual(plain(await loadChat(session)), plain(messages));
      // A page's tool answers the last reply, which goes on; meanwhile another call has less of it.
      const next = (id: string, ...own: unknown[]) => ({ id, role: "assistant", parts: own }) as UIMessage;
      const pick = { type: "tool-pick", toolCallId: "c6", state: "input-available", input: { from: ["a"] } };
      const picked = { ...pick, state: "output-available", output: { took: "a" } };
      const asking = next("a2", { type: "step-start" }, pick);
      await saveChat(session, [...messages, asking]);
      const more = [{ type: "step-start" }, { type: "text", text: "You took a", state: "done" }];
      const answered = next("a2", { type: "step-start" }, picked);
      const whole = { ...next("a2", { type: "step-start" }, picked, ...more), metadata: { tokens: 9 } };
      await Promise.all([answered, whole, asking].map((last) => saveChat(session, [...messages, last])));
      assert.deepEqual(plain(await loadChat(session)), plain([...messages, whole]));
      const count = await stored();
      await saveChat(session, [...messages, whole]);
      assert.equal(await stored(), count);
      // What cannot be written behind what is stored is refused, with nothing written.
      const other = structuredClone([...messages, whole]);
      other[2]?.parts.push({ type: "text", text: "late", state: "done" });
      await assert.rejects(saveChat(session, [...other, next("a3")]), /a1 went on/);
      const changed = next("a2", ...more, ...more, ...more);
      await assert.rejects(saveChat(session, [...messages, changed, next("a3")]), /another reply a2/);
      assert.equal(await stored(), count);
      // Nothing of it was there, and one call has less of it than the other.
      for (let number = 0; number < 5; number++) {
        const [less, all] = [asking, whole].map((one) => ({ ...one, id: `race${number}` })) as [UIMessage, UIMessage];
        await Promise.all([less, all, all, less].map((one) => saveChat(session, [one])));
        assert.deepEqual(plain((await loadChat(session)).at(-1)), plain(all));
      }
      // What was left out is written again.
      await session.rewind(longhand.START);
      await saveChat(session, [...messages, whole]);
      assert.deepEqual(plain(await loadChat(session)), plain([...messages, whole]));
      const { messages: asked } = await session.formattedView(v1.MessageFormat.AI_SDK);
      for (const message of asked) sdk.modelMessageSchema.parse(message);
    });
  });
}

/** A generated file, as the models of a version have it. */
function png(sdk: typeof ai7): unknown {
  return sdk === ai7 ? { type: "data", data: "iVBORw==" } : "iVBORw==";
}

/** Without members that are undefined. */
function plain<T>(value: T): T {
  return value === undefined ? value : JSON.parse(JSON.stringify(value));
}

function streamOf<T>(items: AsyncGenerator<T>): ReadableStream<T> {
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await items.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

test("a reply goes on while the daemon is started again", async () => {
  const own = await Daemon.start();
  const agent = await longhand.connect({ address: own.address, actor: "agent" });
  const [half, rest] = [gate(), gate()];
  const chunks = async function* (): AsyncGenerator<UIMessageChunk> {
    yield { type: "start" };
    yield { type: "start-step" };
    yield { type: "text-start", id: "t" };
    yield { type: "text-delta", id: "t", delta: "before " };
    await half.passed;
    yield { type: "text-delta", id: "t", delta: "between " };
    await rest.passed;
    yield { type: "text-delta", id: "t", delta: "after" };
    yield { type: "text-end", id: "t" };
    yield { type: "finish-step" };
    yield { type: "finish" };
  };
  const chat = page(ai7, "restart", new LonghandChatTransport(agent));
  const sent = chat.sendMessage({ text: "Go" });
  const session = await new LonghandChatTransport(agent).session("restart");
  const answered = (async () => {
    while (!(await answerChat(session, () => streamOf(chunks())))) await new Promise(setImmediate);
  })();
  await chat.until((messages) => text(messages[1]) === "before ");
  await own.restart("SIGKILL");
  half.open();
  await chat.until((messages) => text(messages[1]) === "before between ");
  await own.restart();
  rest.open();
  await Promise.all([sent, answered]);
  assert.deepEqual(texts(chat.messages), ["Go", "before between after"]);
  assert.deepEqual(plain(await loadChat(session)), plain(chat.messages));
  agent.close();
  await own.remove();
});

/** The texts of a stream's chunks. */
async function deltas(stream: ReadableStream<UIMessageChunk> | null): Promise<string[]> {
  const found: string[] = [];
  const reader = stream?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    if (read.value.type === "text-delta") found.push(read.value.delta);
  }
  return found;
}

const step = (id: string, ...content: (string | v1.Part)[]) =>
  longhand.assistant(content, { metadata: { ai_sdk_ui: { id } } });

test("a reply has the messages of its run, whatever is edited meanwhile and whoever answers next", async () => {
  const transport = new LonghandChatTransport(client);
  const session = await transport.session("bounds");
  const { messageIds } = await session.append([longhand.user("Before"), step("r0", "An answer")]);
  const stream = await transport.sendMessages({
    chatId: "bounds",
    trigger: "submit-message",
    messageId: undefined,
    messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "First" }] }],
    abortSignal: undefined,
  });
  let resumed: ReadableStream<UIMessageChunk> | null = null;
  await session.run(
    async (run) => {
      await run.session.append(step("r1", "One. "));
      await session.edit(messageIds[1] ?? "", "Edited");
      resumed = await transport.reconnectToStream({ chatId: "bounds" });
      await run.session.append(step("r1", "Two. "));
    },
    { takePrompt: true },
  );
  // Nobody has read of it yet.
  await session.submit("Second");
  await session.run((run) => run.session.append(step("r2", "Of the next")).then(() => {}), { takePrompt: true });
  assert.deepEqual(await deltas(stream), ["One. ", "Two. "]);
  assert.deepEqual(await deltas(resumed), ["One. ", "Two. "]);
});

/** A session with a reply whose call a page answers. */
async function callingPage(id: string): Promise<longhand.Session> {
  const session = await new LonghandChatTransport(client).session(id);
  await session.append([longhand.user("Ask me"), step("r1", "Pick. ", longhand.toolCall("p1", "pick", {}))]);
  return session;
}

/** The same, and the result waits for the run that goes on with it. */
async function waitingForRun(id: string): Promise<longhand.Session> {
  const session = await callingPage(id);
  await session.submit([longhand.toolResult("p1", "b")], { metadata: { ai_sdk_ui: { id: "r1" } } });
  return session;
}

test("a reply that is resumed before its next step has those before it", async () => {
  const session = await waitingForRun("gap");
  const transport = new LonghandChatTransport(client);
  const read = await transport.session("gap");
  const history = read.history.bind(read);
  const { open, passed } = gate();
  read.history = async function* (options) {
    try {
      yield* history(options);
    } finally {
      open();
    }
  };
  let resumed: Promise<string[]> | undefined;
  await session.run(
    async (run) => {
      resumed = deltas(await transport.reconnectToStream({ chatId: "gap" }));
      // It has read of the run what there is: the results.
      await passed;
      await run.session.append(step("r1", "Done."));
    },
    { takePrompt: true },
  );
  assert.deepEqual(await resumed, ["Pick. ", "Done."]);
});

test("results of a page are gone on with once, whatever becomes of it", async () => {
  const failing = await waitingForRun("once");
  let asked = 0;
  const fail: Answer = () => {
    asked++;
    throw new Error("the model is gone");
  };
  await assert.rejects(answerChat(failing, fail), /gone/);
  assert.equal(await answerChat(failing, fail), false);
  assert.equal(asked, 1);
  // Two agents, each of which could.
  const raced = await waitingForRun("raced");
  const settled = await Promise.allSettled([answerChat(raced, fail), answerChat(raced, fail)]);
  assert.deepEqual(settled.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
  assert.equal(asked, 2);
});

/** A model that says which results it got. */
const repeating: Answer = ({ request }) => {
  const outputs = [...JSON.stringify(request.messages).matchAll(/"value":"(.*?)"/g)].map(([, value]) => value);
  const chunks = async function* (): AsyncGenerator<UIMessageChunk> {
    yield { type: "start-step" };
    yield { type: "text-start", id: "t" };
    yield { type: "text-delta", id: "t", delta: `Got ${outputs}.` };
    yield { type: "text-end", id: "t" };
    yield { type: "finish-step" };
  };
  return streamOf(chunks());
};

test("two pages that have the result of one tool get one reply, and show the result until then", async () => {
  const session = await callingPage("twice");
  const transport = new LonghandChatTransport(client);
  const before = await transport.load("twice");
  const pages = [1, 2].map(() => page(ai7, "twice", transport, structuredClone(before)));
  for (const chat of pages) await chat.addToolOutput({ tool: "pick", toolCallId: "p1", output: "b" } as never);
  const [first, second] = pages;
  const sent = [first?.sendMessage()];
  while ((await session.getRun()).queuedPromptCount === 0) await new Promise(setImmediate);
  assert.deepEqual(plain(await transport.load("twice")), plain(first?.messages ?? []));
  sent.push(second?.sendMessage());
  while (second?.status !== "submitted") await new Promise(setImmediate);
  // Somebody's message came meanwhile: the reply goes on before it is answered.
  await session.submit("And then?");
  while (!(await answerChat(session, repeating))) await new Promise(setImmediate);
  await Promise.all(sent);
  for (const chat of pages) {
    assert.equal(chat.error, undefined);
    assert.deepEqual(texts(chat.messages), ["Ask me", "Pick. Got b."]);
  }
  assert.deepEqual(texts(await transport.load("twice")), ["Ask me", "Pick. Got b.", "And then?"]);
  assert.equal((await session.getRun()).queuedPromptCount, 1);
  // No call waits any more.
  await assert.rejects(session.submit([longhand.toolResult("p1", "c")]), { reason: "CALL_NOT_FOUND" });
});

test("a reply goes on with results of any client", async () => {
  const session = await callingPage("plain");
  await session.submit([longhand.toolResult("p1", "of a person")]);
  const resumed = await new LonghandChatTransport(client).reconnectToStream({ chatId: "plain" });
  assert.ok(await answerChat(session, repeating));
  assert.deepEqual(await deltas(resumed), ["Pick. ", "Got of a person."]);
  assert.deepEqual(texts(await loadChat(session)), ["Ask me", "Pick. Got of a person."]);
});

test("a message is sent again in one change, and results for what it leaves out are withdrawn", async () => {
  const session = await waitingForRun("one change");
  const chat = page(ai7, "one change", new LonghandChatTransport(client), await loadChat(session));
  const [asked] = chat.messages;
  const run = await session.acquireRun();
  const sent = chat.sendMessage({ text: "Ask better", messageId: asked?.id ?? "" });
  while (!(await answerChat(session, repeating))) await new Promise(setImmediate);
  await sent;
  assert.deepEqual(texts(chat.messages), ["Ask better", "Got ."]);
  assert.equal(run.stopped, true);
  const found: v1.Event[] = [];
  const kinds = [
    v1.EventKind.PROMPT_WITHDRAWN,
    v1.EventKind.RUN_ENDED,
    v1.EventKind.SESSION_REWOUND,
    v1.EventKind.PROMPT_SUBMITTED,
  ];
  for await (const { frame } of session.frames({ kinds, fromBeginning: true })) {
    if (frame.case === "events") found.push(...frame.value.events);
    if (found.length >= 6) break;
  }
  const names = found.map(({ body }) => body.case);
  const change = ["runEnded", "promptWithdrawn", "sessionRewound", "promptSubmitted"];
  assert.deepEqual(names, ["promptSubmitted", ...change, "runEnded"]);
  assert.equal(new Set(found.slice(1, 5).map(({ requestId }) => requestId)).size, 1);
});

test("a step whose calls its provider ran has ended", async () => {
  const session = await new LonghandChatTransport(client).session("provider's tools");
  await session.submit("Search");
  const chunks = async function* (): AsyncGenerator<UIMessageChunk> {
    const call = { toolCallId: "s1", providerExecuted: true } as const;
    yield { type: "start-step" };
    yield { type: "tool-input-available", ...call, toolName: "search", input: { q: 1 } };
    yield { type: "tool-output-available", ...call, output: [] };
    yield { type: "finish-step" };
    yield { type: "finish", finishReason: "stop" };
  };
  assert.ok(await answerChat(session, () => streamOf(chunks())));
  const [, reply] = await all(session.history());
  assert.equal(reply?.finish?.reason, v1.FinishReason.STOP);
});

test("a message is shown once, also while an agent takes it from the queue", async () => {
  const session = await new LonghandChatTransport(client).session("taken");
  for (const [call, shown] of [
    ["history", ["First"]],
    ["listPrompts", ["First", "Second"]],
  ] as const) {
    await session.submit(shown.at(-1) ?? "");
    let takes = 1;
    // Behind the first pages, of which there is one.
    const watched = new Proxy(session, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (name !== call) return typeof value === "function" ? value.bind(target) : value;
        return async function* (...all: unknown[]) {
          yield* value.apply(target, all);
          if (takes-- > 0) await (await target.acquireRun({ takePrompt: true })).release();
        };
      },
    });
    assert.deepEqual(texts(await loadChat(watched)), shown, call);
  }
});

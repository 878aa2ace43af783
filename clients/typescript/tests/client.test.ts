import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createRouterTransport } from "@connectrpc/connect";
import { findTarget } from "../src/address.js";
import * as browser from "../src/browser.js";
import { greet } from "../src/client.js";
import * as longhand from "../src/index.js";
import * as v1 from "../src/v1.js";
import { sameProtocol } from "../src/version.js";
import { all, BINARY, Daemon, written } from "./daemon.js";

const { LonghandError, RunLost } = longhand;

type Shown = v1.ViewMessage | v1.Message;
const texts = (messages: readonly Shown[]) => messages.map(longhand.plainText);
const reason = (name: string) => (error: unknown) => error instanceof LonghandError && error.reason === name;

let daemon: Daemon;
before(async () => {
  daemon = await Daemon.start("[summarizer]\nclient_wait_seconds = 30\n");
});
after(() => daemon.remove());

/** The same behaviour over each transport. */
const transports: Record<string, (actor: string) => Promise<longhand.Client>> = {
  "gRPC over the socket": (actor) => longhand.connect({ address: daemon.address, actor }),
  "gRPC over TCP": (actor) => longhand.connect({ address: daemon.url, token: daemon.token, actor }),
  "gRPC-Web over TCP": (actor) => browser.connect({ address: daemon.url, token: daemon.token, actor }),
};

for (const [transport, connect] of Object.entries(transports)) {
  describe(transport, () => {
    let client: longhand.Client;
    let other: longhand.Client;
    before(async () => {
      client = await connect("tester");
      other = await connect("person");
    });
    after(() => {
      client.close();
      other.close();
    });

    test("a session is shared by its client id", async () => {
      const name = `shared over ${transport}`;
      const options = { window: 64_000, metadata: { project: "tidewater" } };
      const session = await client.createSession(name, options);
      assert.equal(session.info?.window?.maxContextTokens, 64_000n);
      assert.equal((await other.createSession(name, options)).id, session.id);
      await other.session(name).append("What is 2 + 2?");
      const view = await session.view();
      assert.deepEqual(texts(view.messages), ["What is 2 + 2?"]);
      assert.equal(view.messages[0]?.actor, "person");
      const usage = longhand.usage({ inputTokens: 12, outputTokens: 3 });
      const answer = await session.append(longhand.assistant("4", { viewToken: view.token, usage }));
      assert.equal(answer.contextUsage?.contextTokens, 15n);
      const reply = await session.getMessage(answer.messageIds[0] ?? "");
      assert.equal(reply.givenView?.revision, view.header.revision);
    });

    test("a view brings only what is new", async () => {
      const session = await client.createSession();
      await session.append(["one", "two"]);
      assert.equal((await session.view()).knownCount, 0);
      await session.append("three");
      let view = await session.view();
      assert.deepEqual([view.knownCount, texts(view.messages)], [2, ["one", "two", "three"]]);
      assert.equal((await session.view()).knownCount, 3);
      // What was known and is not so any more is not kept.
      await session.rewind(view.messages[0]?.messageId ?? "");
      await session.append("four");
      view = await session.view();
      assert.deepEqual([view.knownCount, texts(view.messages)], [1, ["one", "four"]]);
      // A view of another revision is no known prefix of the next one.
      assert.deepEqual(texts((await session.view({ asOfRevision: 4n })).messages), ["one", "two", "three"]);
      assert.equal((await session.view()).knownCount, 2);
      assert.deepEqual(texts((await client.session(session.id).view()).messages), texts(view.messages));
    });

    test("errors have the daemon's reason", async () => {
      const failure = await client
        .session("nobody")
        .view()
        .catch((error: unknown) => error);
      assert.ok(failure instanceof LonghandError);
      assert.equal(failure.reason, "SESSION_NOT_FOUND");
      assert.equal(failure.code, longhand.Code.NotFound);
      assert.deepEqual(failure.metadata, { session_id: "nobody" });
      assert.equal(failure.temporary, false);
      const session = await client.createSession();
      const { revision } = await session.append("one");
      await session.append("two");
      await assert.rejects(session.append("three", { expectedRevision: revision }), reason("REVISION_MISMATCH"));
      await assert.rejects(session.view({ signal: AbortSignal.abort(new Error("mine")) }), /mine/);
    });

    test("history is paged, edited, pinned, forked and undone", async () => {
      const session = await client.createSession();
      const { messageIds: ids } = await session.append([0, 1, 2, 3, 4, 5, 6].map(String));
      assert.deepEqual(texts(await all(session.history({ pageSize: 3 }))), ["0", "1", "2", "3", "4", "5", "6"]);
      assert.equal(texts(await all(session.history({ reverse: true, pageSize: 3 })))[0], "6");
      assert.deepEqual(texts(await session.getMessages(ids.slice(2, 4))), ["2", "3"]);
      await session.edit(ids[1] ?? "", "one");
      await session.edit(ids[2] ?? "", undefined);
      await session.pin(ids[0] ?? "");
      assert.deepEqual(texts((await session.view()).messages).slice(0, 3), ["0", "one", "3"]);
      const fork = await session.fork(undefined, { messageId: ids[3] ?? "" });
      await fork.append("fork");
      assert.deepEqual(texts((await fork.view()).messages), ["0", "one", "3", "fork"]);
      await session.undo();
      assert.deepEqual(texts((await session.view()).messages).slice(0, 3), ["0", "one", "2"]);
      // The same change leaves out and adds.
      await session.append("new", { rewindTo: ids[0] ?? "", title: "A title" });
      assert.deepEqual(texts((await session.view()).messages), ["0", "new"]);
      await session.append("first", { rewindTo: longhand.START });
      assert.deepEqual(texts((await session.view()).messages), ["first"]);
      assert.equal((await session.get()).title, "A title");
    });

    test("sessions are listed, labelled, archived and watched", async () => {
      const prefix = `list ${transport} `;
      for (let number = 0; number < 5; number++) {
        await (await client.createSession(prefix + number)).addLabel(number % 2 ? "listed" : "other");
      }
      const filter = { clientIdPrefix: prefix, labels: ["listed"] };
      const found = await all(client.listSessions({ filter, pageSize: 1 }));
      assert.deepEqual(
        found.map(({ clientId }) => clientId),
        [`${prefix}3`, `${prefix}1`],
      );
      const seen: string[] = [];
      for await (const { frame } of client.watchSessions({ filter })) {
        if (frame.case === "snapshotPage") seen.push(...frame.value.sessions.map(({ clientId }) => clientId ?? ""));
        if (frame.case === "snapshotEnd") await client.session(`${prefix}0`).addLabel("listed");
        if (frame.case === "change") seen.push(...frame.value.changedSessions.map(({ clientId }) => clientId ?? ""));
        if (seen.length === 3) break;
      }
      assert.equal(seen[2], `${prefix}0`);
      await client.session(`${prefix}0`).removeLabel("listed");
      await client.session(`${prefix}1`).removeLabel("listed");
      await client.session(`${prefix}3`).archive();
      assert.deepEqual(await all(client.listSessions({ filter })), []);
      const restored = await client.session(`${prefix}3`).archive({ restore: true });
      assert.equal(restored.state, v1.SessionState.ACTIVE);
      assert.equal((await client.session(`${prefix}1`).update({ title: "A title" })).title, "A title");
    });

    test("a reply is written while it comes", async () => {
      for (const unary of [false, true]) {
        const session = await client.createSession();
        await session.append("Look");
        let id = "";
        const answer = await session.reply(
          await session.view(),
          async (reply) => {
            id = reply.clientId;
            await reply.reasoning("I lo");
            await reply.reasoning("ok");
            await reply.endDraft("reasoning", { metadata: { signature: "s" } });
            // The order of calls is that of the words, awaited or not.
            void reply.text("Wörds ");
            void reply.text("come \ud83d");
            await reply.text("\ude00");
            await reply.endDraft("text");
            await reply.toolInput("call-1", "shell", '{"command":');
            await reply.toolInput("call-1", "shell", ' "ls"}');
            await reply.heartbeat();
            await reply.part(longhand.opaque("someone", "block", Uint8Array.of(0, 1)));
            reply.usage = longhand.usage({ inputTokens: 5, outputTokens: 6 });
          },
          { model: "small", unary },
        );
        assert.ok(answer.contextUsage);
        const message = await session.getMessage(id);
        const parts = new Map(message.parts.map((part) => [part.clientId, part]));
        assert.deepEqual(message.parts.map(({ body }) => body.case).sort(), [
          "opaque",
          "reasoning",
          "text",
          "toolCall",
        ]);
        assert.equal(parts.get("reasoning")?.metadataJson, '{"signature":"s"}');
        assert.equal(longhand.plainText(message), "Wörds come 😀");
        const call = parts.get("call:call-1")?.body;
        assert.equal(call?.case === "toolCall" && call.value.inputJson, '{"command": "ls"}');
        assert.equal(message.finish?.reason, v1.FinishReason.TOOL_CALLS);
        assert.equal(message.finish?.usage?.outputTokens, 6n);
        assert.ok(message.givenView);
        assert.equal(message.model, "small");
      }
    });

    test("an exception seals a reply as aborted, and a refused piece ends it", async () => {
      const session = await client.createSession();
      let id = "";
      const writing = session.reply(undefined, async (reply) => {
        id = reply.clientId;
        await reply.text("half");
        throw new TypeError("the model is gone");
      });
      await assert.rejects(writing, /the model is gone/);
      const message = await session.getMessage(id);
      assert.equal(message.finish?.reason, v1.FinishReason.ABORTED);
      assert.equal(message.finish?.detail, "TypeError: the model is gone");
      assert.equal(longhand.plainText(message), "half");
      const refused = session.reply(undefined, async (reply) => reply.toolInput("call", "", "{}"));
      await assert.rejects(refused, reason("INVALID_FIELD"));
    });

    test("a run takes a prompt, is renewed, stopped and lost", async () => {
      const session = await client.createSession();
      await other.session(session.id).submit("Mend the build");
      await session.run(
        async (run) => {
          assert.ok(run.prompt);
          assert.deepEqual(texts((await session.view()).messages), ["Mend the build"]);
          await assert.rejects(session.acquireRun(), reason("RUN_ACTIVE"));
          // The lease is two seconds, and it is renewed.
          await delay(2_500);
          assert.equal(run.stopped, false);
          await run.session.append(longhand.assistant("Done."));
        },
        { takePrompt: true, leaseMs: 2000 },
      );
      const { activity, run } = await session.getRun();
      assert.deepEqual([activity, run?.end?.reason], [v1.Activity.IDLE, v1.RunEndReason.COMPLETED]);
      await assert.rejects(session.acquireRun({ takePrompt: true }), reason("NO_PROMPT"));
      const failing = session.run(async () => {
        throw new RangeError("it");
      });
      await assert.rejects(failing, /it/);
      assert.equal((await session.getRun()).run?.end?.failure, "RangeError: it");
      await session.run(async (lost) => {
        await other.session(session.id).cancelRun();
        if (!lost.stopped) await new Promise((resolve) => lost.signal.addEventListener("abort", resolve));
        await other.session(session.id).cancelRun({ force: true });
        await assert.rejects(lost.session.append("late"), RunLost);
        // Others write without a run.
        await session.append("others");
      });
      assert.equal(texts(await all(session.history({ reverse: true })))[0], "others");
    });

    test("prompts are queued, moved, withdrawn and taken", async () => {
      const session = await client.createSession();
      const [one, two, three] = [
        await session.submit("one"),
        await session.submit("two"),
        await session.submit("three"),
      ];
      await session.movePrompt(three, { before: one });
      await session.withdrawPrompt(two);
      assert.deepEqual(
        (await all(session.listPrompts())).map(({ promptId }) => promptId),
        [three, one],
      );
      await session.run(async (run) => {
        assert.equal((await run.takePrompt()).promptId, three);
        const steer = await other.session(session.id).submit("steer", { delivery: v1.Delivery.STEER });
        for await (const { frame } of run.watch()) {
          if (frame.case === "prompt" && frame.value.promptId === steer) break;
        }
        assert.equal((await run.takePrompt({ steeringOnly: true })).promptId, steer);
      });
    });

    test("a question is answered once", async () => {
      const session = await client.createSession();
      const { approvalId } = await session.ask("Push it?", ["yes", "no"], { tool: "git", input: { remote: "origin" } });
      const waiting = session.waitForAnswer(approvalId);
      const person = other.session(session.id);
      assert.equal((await all(person.listApprovals()))[0]?.question?.inputJson, '{"remote":"origin"}');
      await person.answer(approvalId, "yes");
      await assert.rejects(person.answer(approvalId, "no"), reason("APPROVAL_ENDED"));
      const end = await waiting;
      assert.deepEqual([end.choice, end.actor], ["yes", "person"]);
      // An end that came before is found, too.
      assert.equal((await session.waitForAnswer(approvalId)).choice, "yes");
    });

    test("what was written is found, and what is erased is not", async () => {
      const session = await client.createSession();
      const { messageIds, seq } = await session.append(["The harbour of Tidewater closes at nine", "Something else"]);
      const [hit, ...more] = await all(session.search("harb* tidewater", { minSeq: seq, waitMs: 20_000 }));
      assert.deepEqual([hit?.messageId, hit?.inView, more.length], [messageIds[0], true, 0]);
      const target = { messageId: messageIds[0] ?? "" };
      assert.equal((await session.erase("a test", { ...target, dryRun: true })).messageCount, 1n);
      await assert.rejects(session.erase("a test", { ...target, expectedRevision: 1n }), /REVISION_MISMATCH/);
      const erased = await session.erase("a test", { messageIds: [target.messageId] });
      assert.deepEqual(await all(session.search("tidewater", { minSeq: erased.seq, waitMs: 20_000 })), []);
      const name = `erased ${transport}`;
      await (await client.openSession(name)).append("secret");
      await client.session(name).erase("a test");
      await (await client.openSession(name)).append("new");
      assert.deepEqual(texts(await all((await client.openSession(name)).history())), ["new"]);
    });

    test("a summary is written by a client", async () => {
      // So large that no compaction of the policy's own comes before ours.
      const session = await client.createSession(undefined, { preset: "opencode@seed", window: 60_000 });
      for (let number = 0; number < 20; number++) {
        await session.append(`Request ${number}: ${"words of the request ".repeat(40)}`);
        await session.append(longhand.assistant(`Reply ${number}: ${"words of the reply ".repeat(40)}`));
      }
      await session.compact();
      // Given back by a failure, it is there for the next.
      const first = await client.leaseSummaryTask([session.id]);
      assert.ok(first);
      const failing = first.use(async () => Promise.reject(new Error("no model")));
      await assert.rejects(failing, /no model/);
      const task = await client.leaseSummaryTask([session.id], { leaseMs: 1000 });
      assert.ok(task);
      assert.ok(task.prompt.includes("Request 0"));
      await task.use(async () => {
        // The lease is one second, and it is extended.
        await delay(1_500);
        await assert.rejects(task.complete(""), reason("SUMMARY_REFUSED"));
        const done = Array.from({ length: 24 }, (_, index) => `- request ${index} was answered with its own reply`);
        const summary = `## Goal\n- requests were answered\n## Progress\n${done.join("\n")}\n## Next Steps\n- none left\n`;
        await task.complete(summary, { model: "mine" });
      });
      for await (const { body } of session.events({ fromBeginning: true })) {
        assert.notEqual(body.case, "compactionFailed");
        if (body.case === "compacted") break;
      }
      const { messages } = await session.view();
      const summary = messages.find(({ kind }) => kind === v1.ViewMessageKind.SUMMARY);
      assert.equal(summary?.provenance?.summarizer, "client/mine");
    });
  });
}

for (const transport of ["gRPC", "gRPC-Web"]) {
  test(`a follower and a writer over ${transport} go on over restarts`, async () => {
    const own = await Daemon.start();
    const connect = () =>
      transport === "gRPC"
        ? longhand.connect({ address: own.address })
        : browser.connect({ address: own.url, token: own.token });
    const [client, other] = [await connect(), await connect()];
    try {
      const wanted = 60;
      const session = await client.createSession("followed");
      const seen: bigint[] = [];
      const follow = async () => {
        for await (const event of other.events(["followed"], { fromBeginning: true })) {
          if (seen.push(event.revision) > wanted) return;
        }
      };
      // The writer does not know of the restarts, either.
      const write = async () => {
        for (let number = 0; number < wanted; number++) {
          await session.append(`message ${number}`);
          await delay(3);
        }
      };
      const restart = async () => {
        for (const signal of ["SIGTERM", "SIGKILL"] as const) {
          await delay(60);
          await own.restart(signal);
        }
      };
      await Promise.all([follow(), write(), restart()]);
      assert.deepEqual(
        seen,
        Array.from({ length: wanted + 1 }, (_, index) => BigInt(index + 1)),
      );
      const written = texts(await all(session.history({ pageSize: 1000 })));
      assert.deepEqual(
        written,
        Array.from({ length: wanted }, (_, index) => `message ${index}`),
      );
    } finally {
      client.close();
      other.close();
      await own.remove();
    }
  });

  test(`a reply over ${transport} goes on over restarts`, async () => {
    const own = await Daemon.start();
    const client =
      transport === "gRPC"
        ? await longhand.connect({ address: own.address })
        : await browser.connect({ address: own.url, token: own.token });
    try {
      const session = await client.createSession();
      const words = Array.from({ length: 200 }, (_, index) => `wörd${index} `);
      const reply = session.openReply();
      for (const [number, word] of words.entries()) {
        await reply.text(word);
        if (number === 80) await reply.part(longhand.opaque("someone", "block", Uint8Array.of(0)));
        if (number === 50 || number === 120) {
          await delay(30);
          await own.restart(number === 50 ? "SIGTERM" : "SIGKILL");
        }
      }
      const answer = await reply.finish();
      assert.equal((await reply.finish()).revision, answer.revision);
      if (transport === "gRPC") assert.ok(reply.resumeCount >= 2, String(reply.resumeCount));
      const message = await session.getMessage(reply.clientId);
      assert.equal(longhand.plainText(message), words.join(""));
      assert.equal(message.parts.length, 2);
      assert.equal(message.finish?.reason, v1.FinishReason.STOP);
    } finally {
      client.close();
      await own.remove();
    }
  });
}

test("a daemon is started where none answers, once", async () => {
  const own = await Daemon.start();
  await own.stop();
  const home = join(own.directory, "home");
  const environment = { XDG_DATA_HOME: home, LONGHAND_BIN: BINARY };
  const clients: longhand.Client[] = [];
  try {
    await assert.rejects(longhand.connect({ environment, start: false }), longhand.Unreachable);
    const broken = { XDG_DATA_HOME: home, LONGHAND_BIN: join(own.directory, "nothing") };
    await assert.rejects(longhand.connect({ environment: broken }), /did not start.*ENOENT/);
    clients.push(...(await Promise.all([1, 2, 3].map(() => longhand.connect({ environment })))));
    const stores = new Set(await Promise.all(clients.map(async (one) => (await one.serverInfo()).storeId)));
    assert.equal(stores.size, 1);
    const address = await written(join(home, "longhand/longhand.url"));
    const overTcp = await longhand.connect({ address, environment });
    clients.push(overTcp);
    assert.ok(stores.has((await overTcp.serverInfo()).storeId));
    const foreign = longhand.connect({ address, environment: { XDG_DATA_HOME: own.directory } });
    await assert.rejects(foreign, reason("ACCESS_TOKEN_MISSING"));
  } finally {
    for (const client of clients) client.close();
    for (const id of daemonsIn(home)) process.kill(id, "SIGTERM");
    while (daemonsIn(home).length > 0) await delay(20);
    await own.remove();
  }
});

/** The processes of daemons with this home; the one that was started outlives its client. */
function daemonsIn(home: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, "utf8").includes(`${home}/`);
      } catch {
        return false;
      }
    })
    .map(Number);
}

test("addresses are found as the command line finds them", () => {
  const socket = { XDG_DATA_HOME: "/data" };
  assert.equal(findTarget({ environment: socket }).address, "unix:/data/longhand/longhand.sock");
  assert.equal(findTarget({ environment: { HOME: "/me" } }).dataDir?.startsWith("/me/"), true);
  const named = { ...socket, LONGHAND_SERVER: "http://box:7070/", LONGHAND_TOKEN: " secret\n" };
  assert.deepEqual(findTarget({ environment: named }), {
    address: "http://box:7070",
    baseUrl: "http://box:7070",
    token: "secret",
    authorities: undefined,
  });
  assert.equal(findTarget({ environment: named, dataDir: "/other" }).address, "unix:/other/longhand.sock");
  assert.equal(findTarget({ address: "unix:///run/l.sock" }).socket, "/run/l.sock");
  assert.equal(findTarget({ address: "http://[::1]:7070", environment: {} }).baseUrl, "http://[::1]:7070");
  for (const address of [
    "localhost:7070",
    "http://localhost",
    "ftp://box:1",
    "unix:",
    "http://:1",
    "http://box:70700",
  ]) {
    assert.throws(() => findTarget({ address, environment: {} }), /unix:\/path/, address);
  }
});

test("versions are compared", async () => {
  const cases: [string, string, boolean][] = [
    ["0.1.7", "0.1.0", true],
    ["0.2.0", "0.1.0", false],
    ["1.0.0", "0.1.0", false],
    ["1.9.0", "1.2.0", true],
    ["2.0.0", "1.2.0", false],
  ];
  for (const [theirs, ours, same] of cases) assert.equal(sameProtocol(theirs, ours), same, `${theirs} ${ours}`);
  const manifest = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));
  assert.equal(longhand.VERSION, manifest.version);
  const cargo = readFileSync(new URL("../../../../../Cargo.toml", import.meta.url), "utf8");
  assert.ok(cargo.includes(`\nversion = "${longhand.VERSION}"\n`), "the client has the daemon's version");
  const client = await longhand.connect({ address: daemon.address });
  assert.ok(sameProtocol((await client.serverInfo()).version));
  client.close();
});

test("a daemon of another version is refused", async () => {
  const transport = createRouterTransport(({ service }) => {
    service(v1.AdminService, { getServerInfo: () => ({ version: "9.0.0" }) });
  });
  const client = new longhand.Client({ transport, address: "elsewhere", actor: "tester", requestStreams: true });
  const refused = await greet(client, {}).catch((error: unknown) => error);
  assert.ok(refused instanceof longhand.VersionMismatch);
  assert.match(refused.message, /daemon at elsewhere is version 9\.0\.0.*use those of one version/);
  await greet(client, { checkVersion: false });
});

test("a stopped daemon holds no call over its time, and a signal ends each", async () => {
  const daemon = await Daemon.start();
  const client = await longhand.connect({ address: daemon.address, retryMs: 250 });
  try {
    const session = await client.createSession("stopped");
    const reply = session.openReply();
    await reply.text("words");
    const during = async (work: () => Promise<unknown>, wanted: RegExp | { name: string }): Promise<number> => {
      const began = performance.now();
      await assert.rejects(work, wanted);
      return performance.now() - began;
    };
    daemon.hold(true);
    const over = /no answer in \d+ ms/;
    const works: [string, (of: longhand.Session) => Promise<unknown>][] = [
      ["append", (of) => of.append("Hello")],
      ["view", (of) => of.view()],
      ["formattedView", (of) => of.formattedView(v1.MessageFormat.ANTHROPIC)],
      ["history", (of) => all(of.history())],
      ["get", (of) => of.get()],
      ["pin", (of) => of.pin("x")],
      ["fork", (of) => of.fork()],
      ["submit", (of) => of.submit("x")],
      ["run", (of) => of.run(async () => {})],
      ["reply", (of) => of.reply(undefined, async (one) => one.text("x"))],
    ];
    for (const [name, work] of works) {
      assert.ok((await during(() => work(session), over)) < 2_000, name);
      assert.ok((await during(() => work(session.with({ timeoutMs: 50 })), over)) < 1_000, name);
      const signal = AbortSignal.timeout(50);
      assert.ok(
        (await during(() => work(session.with({ signal, timeoutMs: 60_000 })), { name: "TimeoutError" })) < 1_000,
        name,
      );
    }
    assert.ok((await during(() => reply.finish(), over)) < 2_000);
    const stopped = AbortSignal.timeout(100);
    const following = session.with({ signal: stopped }).events();
    await during(() => following.next(), { name: "TimeoutError" });
    await during(() => longhand.connect({ address: daemon.address, timeoutMs: 200 }), over);
    daemon.hold(false);
    // A copy is a copy.
    await session.append("Hello", { requestId: "once" });
    const again = await session.with({ timeoutMs: 20_000 }).append("Hello", { requestId: "once" });
    assert.equal(again.messageIds.length, 1);
    client.close();
    await assert.rejects(session.append("x"), longhand.ClientClosed);
    await assert.rejects(session.view(), longhand.ClientClosed);
    await assert.rejects(session.events().next(), longhand.ClientClosed);
  } finally {
    daemon.hold(false);
    client.close();
    await daemon.remove();
  }
});

test("more than a request takes is several changes", async () => {
  const daemon = await Daemon.start();
  const client = await longhand.connect({ address: daemon.address });
  try {
    const session = await client.createSession();
    const numbers = Array.from({ length: 1100 }, (_, number) => `${number}`);
    const { historyRevision: expectedRevision } = await session.get();
    const answer = await session.append(numbers, { expectedRevision, title: "All of them" });
    assert.equal(answer.messageIds.length, 1100);
    assert.deepEqual((await all(session.history({ pageSize: 1000 }))).map(longhand.plainText), numbers);
    assert.equal((await session.get()).title, "All of them");
    const large = Array.from({ length: 5 }, () => "x".repeat(3_000_000));
    const first = await session.append(large, { requestId: "large" });
    assert.equal(first.messageIds.length, 5);
    assert.deepEqual((await session.append(large, { requestId: "large" })).messageIds, first.messageIds);
  } finally {
    client.close();
    await daemon.remove();
  }
});

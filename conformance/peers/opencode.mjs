// The OpenCode side of the conformance run: the published binary, offline, behind JSON lines.
//
// One or two OpenCode servers serve the whole batch. A history is written straight into a server's SQLite file (the
// same binary, run as a script host, does that, because it brings the database driver), then the server is asked to do
// one thing with it, and a small model server inside this process answers its completions and keeps what it was asked.
//
// Functions, each with {config, limits, messages} and what is named here:
//   prune     which tool outputs are marked cleared after a prompt: {pruned: ["message.part", ...]}
//   select    a summary by hand: {called: bool, tail: index|null}, and with `text` what the model was asked: {request}
//   overflow  whether a summary starts, by the `usage` that the reply reports or by the `tokens` of the last message:
//             {compacted: bool}
//   view      what the model is sent on a prompt: {messages: [...]} without the system message
// A text may be {"repeat": "ab", "chars": 1000}. A part's `tail` and a message's `parent` are indexes into `messages`.

import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { scenarios } from "./opencode-scenarios.mjs";

// Each OpenCode server runs on one thread.
const SERVERS_MAX = 2;
// Questions that a server works on together.
const AT_ONCE = 8;
const PROVIDER = "fake";
const MODEL = "m";
const SUMMARY_SYSTEM = "Summarize, says the conformance peer.";
let created = 0;
const living = scenarios({ history, folderFor, prompt, request });

if (process.argv[2] === "--database") await database(process.argv[3]);
else await main(process.argv[2]);

// ---------------------------------------------------------------------------------------------- the peer

async function main(installed) {
  if (!installed) throw new Error("usage: opencode.mjs FOLDER");
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
  const binary = findBinary(installed);
  const model = await startModel();
  const starting = Array.from({ length: Math.min(SERVERS_MAX, availableParallelism()) }, () => start(binary, model));
  const peers = await Promise.all(starting);
  const waiting = [];
  const asked = deferred();
  let ended = false;
  const next = () => {
    const peer = peers.reduce((least, other) => (other.running < least.running ? other : least));
    if (peer.running >= AT_ONCE || waiting.length === 0) {
      if (ended && waiting.length === 0 && peers.every((each) => each.running === 0)) asked.resolve();
      return;
    }
    peer.running += 1;
    answer(peer, waiting.shift()).finally(() => {
      peer.running -= 1;
      next();
    });
    next();
  };
  for await (const line of lines(process.stdin)) {
    // A scenario stays with its server, and waits for itself alone.
    const { scenario } = JSON.parse(line).args;
    if (scenario === undefined) waiting.push(line);
    else answer(peers[scenario % peers.length], line);
    next();
  }
  ended = true;
  next();
  await asked.promise;
  await Promise.all(peers.map(stop));
  process.exit(0);
}

// One server with a home of its own.
async function start(binary, model) {
  const scratch = realpathSync(mkdtempSync(join(tmpdir(), "conformance-opencode-")));
  const data = join(scratch, "data");
  const environment = {
    PATH: process.env.PATH,
    HOME: scratch,
    XDG_DATA_HOME: data,
    XDG_CONFIG_HOME: join(scratch, "config"),
    XDG_CACHE_HOME: join(scratch, "cache"),
    XDG_STATE_HOME: join(scratch, "state"),
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
    OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER: "1",
  };
  const rows = startDatabase(binary, scratch, join(data, "opencode", "opencode.db"));
  const prunes = { asked: 0, found: 0, due: 0, done: 0, running: 0, inGroup: 0 };
  const peer = { scratch, model, rows, prunes, folders: new Map(), running: 0 };
  process.on("exit", () => peer.server?.kill("SIGKILL"));
  peer.server = spawn(
    binary,
    ["serve", "--hostname", "127.0.0.1", "--port", "0", "--print-logs", "--log-level", "INFO"],
    { cwd: scratch, env: environment, stdio: ["ignore", "pipe", "pipe"] },
  );
  peer.server.on("exit", (code) => {
    if (!peer.ending) fail(`the OpenCode server ended with ${code}`);
  });
  rows.send({ guard: peer.server.pid, scratch });
  peer.url = await listening(peer);
  // The first request of a fresh server migrates its database.
  await request(peer, scratch, "GET", "/session");
  return peer;
}

async function stop(peer) {
  peer.ending = true;
  const gone = new Promise((resolve) => peer.server.on("exit", resolve));
  peer.server.kill("SIGKILL");
  await gone;
  // The folder goes with the program that holds the database.
  peer.rows.end();
  await peer.rows.closed;
}

function fail(text) {
  process.stderr.write(`${text}\n`);
  process.exit(1);
}

function findBinary(installed) {
  const modules = join(installed, "node_modules");
  const names = readdirSync(modules).filter((name) => name.startsWith(`opencode-${process.platform}-${process.arch}`));
  names.sort((left, right) => left.length - right.length);
  for (const name of names) {
    const path = join(modules, name, "bin", "opencode");
    if (existsSync(path)) return realpathSync(path);
  }
  throw new Error(`no OpenCode binary for ${process.platform}-${process.arch} under ${modules}`);
}

// Lines end with \n alone: JSON texts may hold U+2028, at which `readline` would break them.
async function* lines(input) {
  input.setEncoding("utf8");
  let pieces = [];
  for await (const chunk of input) {
    const [first, ...rest] = chunk.split("\n");
    pieces.push(first);
    for (const next of rest) {
      yield pieces.join("");
      pieces = [next];
    }
  }
}

// The server prints its address on stdout, and its log on stderr. The log is the only place that tells the end of a
// prune, which the server forks and forgets.
function listening(peer) {
  createInterface({ input: peer.server.stderr }).on("line", (line) => {
    const found = / message=found pruned=(\d+)/.exec(line);
    if (found) {
      peer.prunes.found += 1;
      if (Number(found[1]) > 20_000) peer.prunes.due += 1;
    } else if (/ message=pruned /.test(line)) peer.prunes.done += 1;
    if (found || / message=pruned /.test(line)) pruneSettled(peer);
  });
  return new Promise((resolve) => {
    createInterface({ input: peer.server.stdout }).on("line", (line) => {
      const address = /listening on (http:\S+)/.exec(line);
      if (address) resolve(address[1]);
    });
  });
}

async function answer(peer, line) {
  let id = null;
  let reply;
  try {
    const asked = JSON.parse(line);
    id = asked.id;
    const act = { prune, select, overflow, view, ...living.functions }[asked.fn];
    if (!act) throw new Error(`no function ${asked.fn}`);
    reply = { id, ok: (await act(peer, asked.args)) ?? null };
  } catch (error) {
    reply = { id, error: String(error?.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

// ---------------------------------------------------------------------------------------------- the functions

async function prune(peer, args) {
  const asked = { ...args, config: { ...args.config, prune: true } };
  return withSession(peer, asked, async (session) => {
    peer.model.expect(session.id, {});
    // A prune is known to be over when as many ended as prompts did, so prompts come and go in groups.
    await pruneGroup(peer, () => prompt(peer, session, args.prompt));
    const marked = await peer.rows.send({ marked: session.id });
    return { pruned: marked.map((id) => session.partIndex.get(id)) };
  });
}

async function select(peer, args) {
  return withSession(peer, args, async (session) => {
    const seen = peer.model.expect(session.id, {});
    await request(peer, session.folder, "POST", `/session/${session.id}/summarize`, {
      providerID: PROVIDER,
      modelID: MODEL,
      auto: false,
    });
    const call = seen.calls.find((each) => each.kind === "summary");
    const tail = await peer.rows.send({ tail: session.id, known: [...session.compactions] });
    const text = call?.body.messages.filter((each) => each.role !== "system").map(contentText).join("\n\n") ?? null;
    const reply = { called: Boolean(call), tail: tail ? (session.messageIndex.get(tail) ?? tail) : null };
    if (args.text) reply.request = text;
    return reply;
  });
}

async function overflow(peer, args) {
  return withSession(peer, args, async (session) => {
    const seen = peer.model.expect(session.id, { usage: args.usage, summaryFails: true });
    await prompt(peer, session, args.prompt);
    return { compacted: seen.calls.some((call) => call.kind === "summary") };
  });
}

async function view(peer, args) {
  return withSession(peer, args, async (session) => {
    const seen = peer.model.expect(session.id, {});
    await prompt(peer, session, args.prompt);
    const call = seen.calls.find((each) => each.kind === "reply");
    if (!call) throw new Error("the model was not asked");
    return { messages: call.body.messages.filter((message) => message.role !== "system") };
  });
}

function contentText(message) {
  if (typeof message.content === "string") return message.content;
  return (message.content ?? []).map((item) => item.text ?? "").join("\n");
}

// Prompts whose prune is awaited run in groups: the group is settled when no prompt of it is running and the server
// has logged as many prunes as were asked for.
async function pruneGroup(peer, run) {
  const prunes = peer.prunes;
  while (prunes.settling) await prunes.settling;
  prunes.running += 1;
  prunes.asked += 1;
  prunes.inGroup += 1;
  if (prunes.inGroup >= AT_ONCE) closeGroup(peer);
  prunes.settled ??= deferred();
  const settled = prunes.settled;
  try {
    await run();
  } finally {
    prunes.running -= 1;
    pruneSettled(peer);
  }
  await settled.promise;
}

function closeGroup(peer) {
  const gate = deferred();
  peer.prunes.settling = gate.promise;
  peer.prunes.open = gate.resolve;
}

function pruneSettled(peer) {
  const prunes = peer.prunes;
  if (prunes.running > 0 || !prunes.settled) return;
  if (prunes.found < prunes.asked || prunes.done < prunes.due) return;
  const settled = prunes.settled;
  prunes.settled = undefined;
  prunes.inGroup = 0;
  prunes.settling = undefined;
  prunes.open?.();
  prunes.open = undefined;
  settled.resolve();
}

function deferred() {
  const made = {};
  made.promise = new Promise((resolve) => (made.resolve = resolve));
  return made;
}

// ---------------------------------------------------------------------------------------------- talking to OpenCode

async function prompt(peer, session, text = "go", { noReply, files } = {}) {
  return request(peer, session.folder, "POST", `/session/${session.id}/message`, {
    model: { providerID: PROVIDER, modelID: MODEL },
    agent: "build",
    parts: [{ type: "text", text }, ...(files ?? [])],
    ...(noReply ? { noReply } : {}),
  });
}

async function request(peer, folder, method, path, body) {
  const response = await fetch(`${peer.url}${path}?directory=${encodeURIComponent(folder)}`, {
    method,
    headers: { "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
  return text === "" ? null : JSON.parse(text);
}

async function withSession(peer, args, use) {
  const folder = folderFor(peer, args.config ?? {}, args.limits ?? {});
  const session = history(folder, args.messages ?? []);
  await peer.rows.send({ insert: session.rows });
  try {
    return await use(session);
  } finally {
    peer.model.forget(session.id);
    await peer.rows.send({ remove: session.id });
  }
}

// OpenCode reads its settings from the folder it works in: one folder for each combination of settings.
function folderFor(peer, compaction, limits, tools = {}) {
  const key = JSON.stringify([compaction, limits, tools]);
  const known = peer.folders.get(key);
  if (known) return known;
  const folder = join(peer.scratch, `work${peer.folders.size}`);
  mkdirSync(folder);
  const model = { name: MODEL, limit: { context: 1_000_000, output: 32_000, ...limits }, attachment: true };
  model.modalities = { input: ["text", "image", "pdf"], output: ["text"] };
  const settings = {
    snapshot: false,
    share: "disabled",
    autoupdate: false,
    model: `${PROVIDER}/${MODEL}`,
    small_model: `${PROVIDER}/${MODEL}`,
    enabled_providers: [PROVIDER],
    compaction,
    agent: { build: { prompt: "Build." }, compaction: { prompt: SUMMARY_SYSTEM } },
    tools: { "*": false, ...tools },
    provider: {
      [PROVIDER]: {
        npm: "@ai-sdk/openai-compatible",
        name: PROVIDER,
        options: { baseURL: peer.model.url, apiKey: "none" },
        models: { [MODEL]: model },
      },
    },
  };
  writeFileSync(join(folder, "opencode.json"), JSON.stringify(settings));
  peer.folders.set(key, folder);
  return folder;
}

// The rows of a session that holds these messages, and how its ids lead back to indexes.
function history(folder, messages) {
  // The model server tells sessions of all servers apart by this.
  const number = (created += 1);
  const tag = String(number).padStart(8, "0");
  const id = `ses_f${tag}`;
  const messageId = (index) => `msg_0${tag}${String(index).padStart(5, "0")}`;
  const session = { id, folder, messageIndex: new Map(), partIndex: new Map(), compactions: new Set() };
  const rows = { id, folder, messages: [], parts: [] };
  let lastUser = 0;
  messages.forEach((message, index) => {
    const own = messageId(index);
    session.messageIndex.set(own, index);
    const created = 1_000 + index;
    const { parts, parent, ...fields } = message;
    if (message.role === "user") lastUser = index;
    const base =
      message.role === "user"
        ? { agent: "build", model: { providerID: PROVIDER, modelID: MODEL }, time: { created } }
        : {
            parentID: messageId(parent ?? lastUser),
            modelID: MODEL,
            providerID: PROVIDER,
            mode: message.summary ? "compaction" : "build",
            agent: message.summary ? "compaction" : "build",
            path: { cwd: folder, root: "/" },
            cost: 0,
            tokens: { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } },
            time: { created, completed: created },
          };
    rows.messages.push([own, created, JSON.stringify({ ...base, ...fields })]);
    (parts ?? []).forEach((part, position) => {
      const partId = `prt_0${tag}${String(index).padStart(5, "0")}${String(position).padStart(3, "0")}`;
      session.partIndex.set(partId, `${index}.${position}`);
      if (part.type === "compaction") session.compactions.add(partId);
      rows.parts.push([partId, own, created, JSON.stringify(partData(part, messageId))]);
    });
  });
  session.rows = rows;
  return session;
}

function partData(part, messageId) {
  if (part.type === "compaction") {
    const { tail, ...fields } = part;
    return { auto: false, ...fields, ...(tail === undefined ? {} : { tail_start_id: messageId(tail) }) };
  }
  if (part.type === "reasoning") return { time: { start: 1, end: 1 }, ...part, text: expand(part.text) };
  if (part.type === "text") return { ...part, text: expand(part.text) };
  if (part.type !== "tool") return part;
  const time = { start: 1, end: 1, ...(part.compacted ? { compacted: 1 } : {}) };
  const input = part.input ?? {};
  const states = {
    pending: { status: "pending", input: {}, raw: "" },
    running: { status: "running", input, time: { start: 1 } },
    completed: { status: "completed", input, output: expand(part.output ?? ""), title: "", metadata: {}, time },
    error: { status: "error", input, error: expand(part.output ?? ""), metadata: part.metadata, time },
  };
  const state = states[part.status ?? "completed"];
  if (part.attachments) state.attachments = part.attachments;
  return { type: "tool", callID: part.call, tool: part.tool, state };
}

function expand(text) {
  if (typeof text === "string") return text;
  return text.repeat.repeat(Math.ceil(text.chars / text.repeat.length)).slice(0, text.chars);
}

// ---------------------------------------------------------------------------------------------- the model server

async function startModel() {
  const sessions = new Map();
  const server = createServer((incoming, outgoing) => {
    if (incoming.url.startsWith("/page/")) {
      const page = living.page(incoming.url);
      outgoing.writeHead(page == null ? 500 : 200, { "content-type": "text/plain; charset=utf-8" });
      return outgoing.end(page ?? "no");
    }
    const chunks = [];
    incoming.on("data", (chunk) => chunks.push(chunk));
    incoming.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
      const session = sessions.get(incoming.headers["x-session-id"]);
      if (!session) return void outgoing.writeHead(404).end("{}");
      const system = body.messages.filter((message) => message.role === "system").map(contentText).join("\n");
      const kind = system.includes(SUMMARY_SYSTEM) ? "summary" : "reply";
      if (session.live) return session.live.push({ kind, body, outgoing });
      session.calls.push({ kind, body });
      if (kind === "summary" && session.summaryFails) return error(outgoing, 401, { error: { message: "no" } });
      complete(outgoing, body.model, kind === "summary" ? "A summary." : "ok", session.usage);
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    pages: `http://127.0.0.1:${server.address().port}/page`,
    expect(id, options) {
      const session = { calls: [], ...options };
      sessions.set(id, session);
      return session;
    },
    forget: (id) => sessions.delete(id),
  };
}

function error(outgoing, status, body) {
  outgoing.writeHead(status, { "content-type": "application/json" });
  outgoing.end(typeof body === "string" ? body : JSON.stringify(body));
}

function complete(outgoing, model, text, usage) {
  const chunk = (fields) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model, ...fields })}\n\n`;
  const choice = (delta, finish) => chunk({ choices: [{ index: 0, delta, finish_reason: finish }] });
  outgoing.writeHead(200, { "content-type": "text/event-stream" });
  outgoing.write(choice({ role: "assistant", content: text }, null) + choice({}, "stop"));
  const reported = usage ?? { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  outgoing.end(`${chunk({ choices: [], usage: reported })}data: [DONE]\n\n`);
}

// ---------------------------------------------------------------------------------------------- the database

function startDatabase(binary, scratch, file) {
  const script = fileURLToPath(import.meta.url);
  const child = spawn(binary, [script, "--database", file], {
    cwd: scratch,
    env: { PATH: process.env.PATH, HOME: scratch, BUN_BE_BUN: "1" },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const waiting = [];
  const listen = async () => {
    for await (const line of lines(child.stdout)) {
      const { resolve, reject } = waiting.shift();
      const reply = JSON.parse(line);
      if (reply.error) reject(new Error(reply.error));
      else resolve(reply.ok);
    }
  };
  listen();
  return {
    send: (command) =>
      new Promise((resolve, reject) => {
        waiting.push({ resolve, reject });
        child.stdin.write(`${JSON.stringify(command)}\n`);
      }),
    end: () => child.stdin.end(),
    closed: new Promise((resolve) => child.on("exit", resolve)),
  };
}

// Runs inside the OpenCode binary. It also ends the server and removes the scratch folder when the peer goes away.
async function database(file) {
  const { Database } = await import("bun:sqlite");
  let open;
  let guarded;
  const db = () => {
    if (!open) {
      open = new Database(file);
      open.exec("pragma busy_timeout = 20000; pragma synchronous = off; pragma foreign_keys = on");
    }
    return open;
  };
  const acts = {
    insert({ id, folder, messages, parts }) {
      const session = db().query(
        "insert into session (id, project_id, slug, directory, path, title, version, time_created, time_updated) " +
          "values (?, 'global', ?, ?, ?, 'conformance', '1', 1, 1)",
      );
      const message = db().query(
        "insert into message (id, session_id, time_created, time_updated, data) values (?, ?, ?, ?, ?)",
      );
      const part = db().query(
        "insert into part (id, message_id, session_id, time_created, time_updated, data) values (?, ?, ?, ?, ?, ?)",
      );
      db()
        .transaction(() => {
          session.run(id, id, folder, folder.slice(1));
          for (const [own, time, data] of messages) message.run(own, id, time, time, data);
          for (const [own, of, time, data] of parts) part.run(own, of, id, time, time, data);
        })
        .immediate();
    },
    remove(id) {
      db()
        .transaction(() => {
          db().query("delete from event_sequence where aggregate_id = ?").run(id);
          db().query("delete from session where id = ?").run(id);
        })
        .immediate();
    },
    marked: (id) =>
      db()
        .query(
          "select id from part where session_id = ? and json_extract(data, '$.type') = 'tool' " +
            "and json_extract(data, '$.state.time.compacted') > 1 order by message_id, id",
        )
        .all(id)
        .map((row) => row.id),
    tail: (id, { known }) =>
      db()
        .query(
          "select id, json_extract(data, '$.tail_start_id') as tail from part where session_id = ? " +
            "and json_extract(data, '$.type') = 'compaction'",
        )
        .all(id)
        .find((row) => !known.includes(row.id))?.tail ?? null,
    // The results of these calls, in their order.
    results: (id, { calls }) => {
      const found = db()
        .query("select json_extract(data, '$.callID') as call, json_extract(data, '$.state') as state from part " +
          "where session_id = ? and json_extract(data, '$.type') = 'tool'")
        .all(id);
      return calls.map((call) => JSON.parse(found.find((row) => row.call === call)?.state ?? "null"));
    },
    // The parts of the newest message.
    partsOf: (id) =>
      db()
        .query("select data from part where message_id = (select id from message where session_id = ? " +
          "order by time_created desc, id desc limit 1) order by id")
        .all(id)
        .map(({ data }) => JSON.parse(data)),
    // The number of messages between the tail of the newest compaction and its marker; null without a tail.
    kept: (id) => {
      const marker = db()
        .query("select m.id, m.time_created as time, json_extract(p.data, '$.tail_start_id') as tail from part p " +
          "join message m on m.id = p.message_id where p.session_id = ? and json_extract(p.data, '$.type') = 'compaction' " +
          "order by m.time_created desc, m.id desc limit 1")
        .get(id);
      if (!marker?.tail) return null;
      const tail = db().query("select id, time_created as time from message where id = ?").get(marker.tail);
      return db()
        .query("select count(*) as count from message m where session_id = ? and (time_created, id) >= (?, ?) and " +
          "(time_created, id) < (?, ?) and coalesce(json_extract(data, '$.mode'), '') != 'compaction' and not exists " +
          "(select 1 from part p where p.message_id = m.id and json_extract(p.data, '$.type') = 'compaction')")
        .get(id, tail.time, tail.id, marker.time, marker.id).count;
    },
    guard: (pid, { scratch }) => void (guarded = { pid, scratch }),
  };
  for await (const line of lines(process.stdin)) {
    const command = JSON.parse(line);
    const [name, value] = Object.entries(command)[0];
    let reply;
    try {
      reply = { ok: acts[name](value, command) ?? null };
    } catch (error) {
      reply = { error: `${name}: ${error}` };
    }
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
  if (!guarded) return;
  try {
    process.kill(guarded.pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
  // The server may still be writing when it is killed.
  rmSync(guarded.scratch, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

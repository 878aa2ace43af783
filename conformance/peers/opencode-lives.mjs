// Sessions of OpenCode that live: the published server runs its own loop, a prompt of the user at a time.
//
// Only what is around it is ours: a model whose every answer waits for the next question, and a page for each tool call,
// which OpenCode's own `webfetch` reads. Nothing of a compaction is held back: where the life goes on with that of the
// other side, it goes on in another session, which is written as that compaction would have left it.

// The server is given so long to end a loop that nobody waits for.
const ABORTED_MS = 2_000;

// The time in which the server reads what was sent to it.
const READ_MS = 100;
const READS_MAX = 200;

export function lives({ history, folderFor, prompt, request }) {
  const all = new Map();

  // A life waits for what the server does next: it asks the model, or its loop ends.
  const begin = (session) => {
    const life = { session, events: [], waiting: [], held: undefined, pages: new Map(), calls: [] };
    life.push = (event) => (life.waiting.length > 0 ? life.waiting.shift()(event) : life.events.push(event));
    life.next = () =>
      life.events.length > 0 ? Promise.resolve(life.events.shift()) : new Promise((go) => life.waiting.push(go));
    return life;
  };

  const of = ({ life }) => {
    if (!all.has(life)) throw new Error(`there is no life ${life}`);
    return all.get(life);
  };

  const happened = async (peer, life) => {
    const { kind, body, outgoing, problem } = await life.next();
    life.held = outgoing;
    const calls = life.calls;
    life.calls = [];
    const answer = { kind, problem };
    if (body) answer.messages = body.messages.filter(({ role }) => role !== "system");
    if (calls.length > 0) answer.results = await peer.rows.send({ results: life.session.id, calls });
    if (kind === "reply") answer.kept = await peer.rows.send({ kept: life.session.id });
    return answer;
  };

  const end = async (peer, life) => {
    const session = life.session;
    if (life.turn) {
      await request(peer, session.folder, "POST", `/session/${session.id}/abort`);
      life.held?.destroy();
      await Promise.race([life.turn, new Promise((go) => setTimeout(go, ABORTED_MS))]);
    }
    peer.model.forget(session.id);
    await peer.rows.send({ remove: session.id });
  };

  // Nobody waits for a session that is left, nor for whether it can be cleared away.
  const leave = (peer, life) => void (life && end(peer, life).catch(() => undefined));

  return {
    // The page of a tool call; none for an unknown one, and null for one that fails.
    page: (path) => {
      const [, , life, call] = path.split("/");
      return all.get(Number(life))?.pages.get(call);
    },

    functions: {
      // A session with these messages, in place of the one that the life had.
      async lifeStart(peer, { life: index, config, limits, messages }) {
        leave(peer, all.get(index));
        const session = history(folderFor(peer, config, limits, { webfetch: true }), messages);
        await peer.rows.send({ insert: session.rows });
        const life = begin(session);
        all.set(index, life);
        peer.model.expect(session.id, { live: life });
        return { url: peer.model.pages };
      },

      async lifePrompt(peer, args) {
        const life = of(args);
        if (args.noReply) {
          await prompt(peer, life.session, args.text, { noReply: true, files: args.files });
          return { kind: "end" };
        }
        const running = prompt(peer, life.session, args.text, { files: args.files });
        life.turn = running.then(() => undefined, () => undefined);
        running.then(
          () => life.push({ kind: "end" }),
          (error) => life.push({ kind: "end", problem: String(error) }),
        );
        return happened(peer, life);
      },

      // The model's answer to what it was asked last.
      async lifeAnswer(peer, args) {
        const life = of(args);
        const { text, reasoning, calls, usage, fails, isCut } = args;
        for (const { id, page } of calls ?? []) life.pages.set(id, page);
        life.calls = (calls ?? []).map(({ id }) => id);
        if (fails) refuse(life.held);
        else speak(life.held, { text, reasoning, calls, usage, isCut });
        return happened(peer, life);
      },

      // The user stops the model in the middle of a text; gives what OpenCode keeps of the reply.
      async lifeStop(peer, args) {
        const life = of(args);
        const { text, reasoning } = args;
        begun(life.held, { text, reasoning });
        const parts = () => peer.rows.send({ partsOf: life.session.id });
        for (let reads = 0; reads < READS_MAX && !(await parts()).some(({ type }) => type === "text"); reads += 1) {
          await new Promise((go) => setTimeout(go, READ_MS));
        }
        await new Promise((go) => setTimeout(go, READ_MS));
        await request(peer, life.session.folder, "POST", `/session/${life.session.id}/abort`);
        const { kind, problem } = await life.next();
        life.held.destroy();
        return { kind, problem, parts: await parts() };
      },

      async lifeEnd(peer, args) {
        leave(peer, of(args));
        all.delete(args.life);
      },
    },
  };
}

function refuse(outgoing) {
  outgoing.writeHead(400, { "content-type": "application/json" });
  outgoing.end(JSON.stringify({ error: { message: "no" } }));
}

/** Sends what a model thinks and says, and leaves the reply open. */
function begun(outgoing, { text, reasoning }) {
  const head = { id: "c", object: "chat.completion.chunk", created: 1, model: "m" };
  const chunk = (fields) => outgoing.write(`data: ${JSON.stringify({ ...head, ...fields })}\n\n`);
  const delta = (content) => chunk({ choices: [{ index: 0, delta: { role: "assistant", ...content } }] });
  outgoing.writeHead(200, { "content-type": "text/event-stream" });
  if (reasoning) delta({ reasoning_content: reasoning });
  if (text) delta({ content: text });
  return { chunk, delta };
}

function speak(outgoing, { text, reasoning, calls, usage, isCut }) {
  const { chunk, delta } = begun(outgoing, { text, reasoning });
  (calls ?? []).forEach(({ id, tool, input }, index) => {
    const called = { name: tool, arguments: JSON.stringify(input) };
    delta({ tool_calls: [{ index, id, type: "function", function: called }] });
  });
  const reason = calls?.length > 0 ? "tool_calls" : isCut ? "length" : "stop";
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
  chunk({ choices: [], usage });
  outgoing.end("data: [DONE]\n\n");
}

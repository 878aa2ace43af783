// Sessions of OpenCode that live: the published server runs its own loop, a prompt of the user at a time.
//
// Only what is around it is ours: a model whose every answer waits for the next question, and a page for each tool call,
// which OpenCode's own `webfetch` reads. Nothing of a compaction is held back: where the scenario goes on with that of the
// other side, it goes on in another session, which is written as that compaction would have left it.

// The server is given so long to end a loop that nobody waits for.
const ABORTED_MS = 2_000;

// The time in which the server reads what was sent to it.
const READ_MS = 100;
const READS_MAX = 200;

export function scenarios({ history, folderFor, prompt, request }) {
  const all = new Map();

  // A scenario waits for what the server does next: it asks the model, or its loop ends.
  const begin = (session) => {
    const scenario = { session, events: [], waiting: [], held: undefined, pages: new Map(), calls: [] };
    scenario.push = (event) => (scenario.waiting.length > 0 ? scenario.waiting.shift()(event) : scenario.events.push(event));
    scenario.next = () =>
      scenario.events.length > 0 ? Promise.resolve(scenario.events.shift()) : new Promise((go) => scenario.waiting.push(go));
    return scenario;
  };

  const of = ({ scenario }) => {
    if (!all.has(scenario)) throw new Error(`there is no scenario ${scenario}`);
    return all.get(scenario);
  };

  const happened = async (peer, scenario) => {
    const { kind, body, outgoing, problem } = await scenario.next();
    scenario.held = outgoing;
    const calls = scenario.calls;
    scenario.calls = [];
    const answer = { kind, problem };
    if (body) answer.messages = body.messages.filter(({ role }) => role !== "system");
    if (calls.length > 0) answer.results = await peer.rows.send({ results: scenario.session.id, calls });
    if (kind === "reply") answer.kept = await peer.rows.send({ kept: scenario.session.id });
    return answer;
  };

  const end = async (peer, scenario) => {
    const session = scenario.session;
    if (scenario.turn) {
      await request(peer, session.folder, "POST", `/session/${session.id}/abort`);
      scenario.held?.destroy();
      await Promise.race([scenario.turn, new Promise((go) => setTimeout(go, ABORTED_MS))]);
    }
    peer.model.forget(session.id);
    await peer.rows.send({ remove: session.id });
  };

  // Nobody waits for a session that is left, nor for whether it can be cleared away.
  const leave = (peer, scenario) => void (scenario && end(peer, scenario).catch(() => undefined));

  return {
    // The page of a tool call; none for an unknown one, and null for one that fails.
    page: (path) => {
      const [, , scenario, call] = path.split("/");
      return all.get(Number(scenario))?.pages.get(call);
    },

    functions: {
      // A session with these messages, in place of the one that the scenario had.
      async scenarioStart(peer, { scenario: index, config, limits, messages }) {
        leave(peer, all.get(index));
        const session = history(folderFor(peer, config, limits, { webfetch: true }), messages);
        await peer.rows.send({ insert: session.rows });
        const scenario = begin(session);
        all.set(index, scenario);
        peer.model.expect(session.id, { live: scenario });
        return { url: peer.model.pages };
      },

      async scenarioPrompt(peer, args) {
        const scenario = of(args);
        if (args.noReply) {
          await prompt(peer, scenario.session, args.text, { noReply: true, files: args.files });
          return { kind: "end" };
        }
        const running = prompt(peer, scenario.session, args.text, { files: args.files });
        scenario.turn = running.then(() => undefined, () => undefined);
        running.then(
          () => scenario.push({ kind: "end" }),
          (error) => scenario.push({ kind: "end", problem: String(error) }),
        );
        return happened(peer, scenario);
      },

      // The model's answer to what it was asked last.
      async scenarioAnswer(peer, args) {
        const scenario = of(args);
        const { text, reasoning, calls, usage, fails, isCut } = args;
        for (const { id, page } of calls ?? []) scenario.pages.set(id, page);
        scenario.calls = (calls ?? []).map(({ id }) => id);
        if (fails) refuse(scenario.held);
        else speak(scenario.held, { text, reasoning, calls, usage, isCut });
        return happened(peer, scenario);
      },

      // The user stops the model in the middle of a text; gives what OpenCode keeps of the reply.
      async scenarioStop(peer, args) {
        const scenario = of(args);
        const { text, reasoning } = args;
        begun(scenario.held, { text, reasoning });
        const parts = () => peer.rows.send({ partsOf: scenario.session.id });
        for (let reads = 0; reads < READS_MAX && !(await parts()).some(({ type }) => type === "text"); reads += 1) {
          await new Promise((go) => setTimeout(go, READ_MS));
        }
        await new Promise((go) => setTimeout(go, READ_MS));
        await request(peer, scenario.session.folder, "POST", `/session/${scenario.session.id}/abort`);
        const { kind, problem } = await scenario.next();
        scenario.held.destroy();
        return { kind, problem, parts: await parts() };
      },

      async scenarioEnd(peer, args) {
        leave(peer, of(args));
        all.delete(args.scenario);
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

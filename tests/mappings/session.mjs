// Plays a session in a daemon and writes what an adapter would read of it: session.mjs FILE.
import { writeFileSync } from "node:fs";

const base = process.env.LONGHAND_URL;
const authorization = process.env.LONGHAND_TOKEN ? { authorization: `Bearer ${process.env.LONGHAND_TOKEN}` } : {};
const session = "/v1/sessions/mapped";

async function ask(method, path, body, headers = {}) {
    const response = await fetch(base + path, {
        method,
        headers: { ...authorization, "content-type": "application/json", ...headers },
        body: body && JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) {
        throw new Error(`${method} ${path}: ${response.status} ${text}`);
    }
    return JSON.parse(text);
}

const post = (path, body, headers) => ask("POST", session + path, body, headers);
const text = (text) => ({ text: { text } });

// The stream that an adapter reads, from the beginning. Content that an event only names is looked up as it comes.
const frames = [];
const waiters = [];
async function follow() {
    const query = "sessionIds=mapped&fromBeginning=true&includeContent=true&includeDeltas=true";
    const response = await fetch(`${base}/v1/events:subscribe?${query}`, {
        headers: { ...authorization, accept: "application/x-ndjson" },
    });
    let rest = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop();
        for (const line of lines) {
            const frame = JSON.parse(line);
            for (const event of frame.events?.events ?? []) {
                await look(event);
            }
            frames.push(frame);
            waiters.forEach((waiter) => waiter());
        }
    }
}

async function look(event) {
    const approval = event.approvalRequested ?? event.approvalEnded;
    if (approval) {
        event.approval = (await ask("GET", `${session}/approvals/${approval.approvalId}`)).approval;
    }
    if (event.usageRecorded) {
        event.session = (await ask("GET", session)).session;
    }
    if (event.promptTaken) {
        const { prompts } = await ask("GET", `${session}/prompts?includeEnded=true`);
        event.prompt = prompts.find((prompt) => prompt.promptId === event.promptTaken.promptId);
    }
}

/** Waits for an event with a body of a name, and a value in it. */
async function event(name, where = () => true) {
    for (;;) {
        for (const frame of frames) {
            const found = (frame.events?.events ?? []).find((event) => event[name] && where(event[name]));
            if (found) {
                return found[name];
            }
        }
        await new Promise((resume) => waiters.push(resume));
    }
}

async function open(role, epoch) {
    const messages = [{ role, open: true }];
    return (await post("/messages", { messages }, { "longhand-run-epoch": epoch })).messageIds[0];
}

/** Streams a part in pieces and closes it. */
async function stream(message, draft, pieces, epoch) {
    let at = { lengthBytes: "0" };
    for (const delta of pieces) {
        const body = { ...draft, partId: at.partId, offsetBytes: at.lengthBytes, delta };
        at = await post(`/messages/${message}/drafts`, body, { "longhand-run-epoch": epoch });
    }
    await post(`/messages/${message}/parts`, { parts: [{ partId: at.partId }] }, { "longhand-run-epoch": epoch });
}

const finish = (message, reason, usage) => post(`/messages/${message}:finish`, { finish: { reason, usage } });
const submit = (words, delivery) => post("/prompts", { parts: [text(words)], delivery }, { "longhand-actor": "ann" });
const acquire = async () => (await post("/runs", { takePrompt: true }, { "longhand-actor": "agent" })).run.epoch;
const choices = [{ id: "allow_once", label: "Yes" }, { id: "reject_once", label: "No" }];

/** A call that is streamed, asked for, and answered. */
async function call(message, epoch, id, input, choice, reason = "") {
    const tool = { kind: "DRAFT_KIND_TOOL_INPUT", callId: id, tool: "terminal" };
    await stream(message, tool, input, epoch);
    const asks = { text: `May I do ${id}?`, choices, acceptsText: true };
    const question = { ...asks, tool: "terminal", callId: id, inputJson: input.join("") };
    const asked = await post("/approvals", { question }, { "longhand-run-epoch": epoch });
    if (choice) {
        const answer = { choice, text: reason };
        await post(`/approvals/${asked.approval.approvalId}:answer`, answer, { "longhand-actor": "ben" });
    }
}

async function answered() {
    await submit("Mend the build, please: it has been broken since Monday.", "DELIVERY_QUEUE");
    const epoch = await acquire();
    const reply = await open("ROLE_ASSISTANT", epoch);
    const thoughts = ["First I look ", "at the log, ", "größer 🙂 as it is."];
    await stream(reply, { kind: "DRAFT_KIND_REASONING" }, thoughts, epoch);
    await stream(reply, { kind: "DRAFT_KIND_TEXT" }, ["I read ", "the log", " of the ", "build."], epoch);
    await call(reply, epoch, "call-log", ['{"command":', ' "cat lo', 'g"}'], "allow_once");
    await call(reply, epoch, "call-push", ['{"command": ', '"git push"}'], "reject_once", "not on a Monday");
    await finish(reply, "FINISH_REASON_TOOL_CALLS", { inputTokens: 900, outputTokens: 80 });
    const results = await open("ROLE_TOOL", epoch);
    const output = { kind: "DRAFT_KIND_TOOL_OUTPUT", callId: "call-log", callMessageId: reply };
    await stream(results, output, ["line 1\n", "line 2\n"], epoch);
    const refused = { toolResult: { callId: "call-push", status: "TOOL_RESULT_STATUS_ERROR", output: "not allowed" } };
    await finish(results, "FINISH_REASON_STOP");
    // A front end has the other result.
    await post("/prompts", { parts: [refused], delivery: "DELIVERY_STEER" }, { "longhand-actor": "ann" });
    await post("/prompts:take", { epoch, steeringOnly: true });
    await submit("And the warnings.", "DELIVERY_STEER");
    await post("/prompts:take", { epoch, steeringOnly: true });
    // A reply in one piece, without a draft.
    const usage = { inputTokens: 1100, outputTokens: 30 };
    const parts = [text("The build is mended, "), text("and so are its warnings.")];
    const whole = { role: "ROLE_ASSISTANT", parts, finish: { reason: "FINISH_REASON_STOP", usage } };
    await post("/messages", { messages: [whole] }, { "longhand-run-epoch": epoch });
    const question = { text: "What shall the release be called?", acceptsText: true };
    const asked = await post("/approvals", { question }, { "longhand-run-epoch": epoch });
    await post(`/approvals/${asked.approval.approvalId}:answer`, { text: "Ebb" }, { "longhand-actor": "ben" });
    await post(`/runs/${epoch}:release`, {});
}

async function cancelled() {
    await submit("Now tag a release.", "DELIVERY_QUEUE");
    const epoch = await acquire();
    const reply = await open("ROLE_ASSISTANT", epoch);
    await stream(reply, { kind: "DRAFT_KIND_TEXT" }, ["I tag ", "the release."], epoch);
    await call(reply, epoch, "call-tag", ['{"command": "git tag v1"}']);
    const cut = { kind: "DRAFT_KIND_TEXT", delta: "This breaks" };
    await post(`/messages/${reply}/drafts`, cut);
    await post("/runs:cancel", { force: true });
}

async function failed() {
    await submit("Then write the news.", "DELIVERY_QUEUE");
    const epoch = await acquire();
    await post(`/runs/${epoch}:release`, { failure: "the model is away" });
}

/** Leaves a summary that is offered to clients to the built-in summarizer. */
async function delegate() {
    const leased = await ask("POST", "/v1/summaryTasks:lease", { sessionIds: ["mapped"], waitTimeout: "20s" });
    await ask("POST", `/v1/summaryTasks/${leased.task.compactionId}:delegate`, { leaseToken: leased.leaseToken });
}

/** Compactions that are cancelled and done. */
async function compactions() {
    const lines = Array.from({ length: 40 }, (_, at) => `Station ${at} has a tide of ${at * 7} centimetres at noon.`);
    for (const at of [1, 2, 3]) {
        const parts = [text(`Chapter ${at}. ${lines.join(" ")}`)];
        const finish = { reason: "FINISH_REASON_STOP" };
        const messages = [{ role: "ROLE_USER", parts }, { role: "ROLE_ASSISTANT", parts, finish }];
        await post("/messages", { messages });
    }
    const start = async () => (await post("/compactions", { kind: "COMPACTION_KIND_SUMMARY" })).compaction.compactionId;
    const of = (id) => (body) => body.compactionId === id;
    const stopped = await start();
    await event("compactionStarted", of(stopped));
    await ask("POST", `/v1/compactions/${stopped}:cancel`, {});
    await event("compactionCancelled", of(stopped));
    const done = await start();
    await delegate();
    await event("compacted", of(done));
}

await ask("POST", "/v1/sessions", { clientId: "mapped", preset: "opencode@seed", window: { maxContextTokens: 64000 } });
follow().catch((error) => {
    console.error(error);
    process.exit(1);
});
await answered();
await compactions();
await cancelled();
await ask("PATCH", session, { title: "The build" });
await failed();
// Overhead that fills the window: nothing that is left can be made small enough.
await ask("PATCH", session, { window: { maxContextTokens: 2000, overheadTokens: 1990 } });
await delegate();
await event("compactionFailed");
await event("runEnded", (end) => end.reason === "RUN_END_REASON_FAILED");
const { messages } = await ask("GET", `${session}/messages?pageSize=1000`);
writeFileSync(process.argv[2], JSON.stringify({ frames, messages }, null, 1));
process.exit(0);

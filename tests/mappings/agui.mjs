// AG-UI: the published client verifies the order of the events of each run, and makes messages of them.
import assert from "node:assert/strict";
import { defaultApplyEvents, verifyEvents } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";
import { from, lastValueFrom, toArray } from "rxjs";
import { bodies, calls, checkCompactions, exact, results, runs, translated, written } from "./played.mjs";

export async function checkAgui(frames) {
    const sent = translated("AG-UI", frames).map(({ target, message }) => ({ type: target, ...message }));
    for (const event of sent) {
        exact(EventSchema, event);
        const schema = EventSchema.options.find(({ shape }) => shape.type.value === event.type);
        assert.deepEqual(Object.keys(event).filter((name) => !(name in schema.shape)), [], event.type);
    }
    const streams = runs(sent, "RUN_STARTED", ["RUN_FINISHED", "RUN_ERROR"]);
    let messages = [];
    for (const stream of streams) {
        messages = await applied(messages, stream);
    }
    checkMessages(messages);
    checkCalls(messages);
    const snapshots = sent.filter(({ type }) => type === "ACTIVITY_SNAPSHOT");
    checkCompactions((id) => snapshots.filter(({ messageId }) => messageId === id).map(({ content }) => content));
    // Compactions after the last run wait for the next.
    const activities = messages.filter(({ role }) => role === "activity");
    assert.deepEqual(activities.map(({ content }) => content.status), ["cancelled", "completed"]);
    checkCustom(sent);
    const last = streams.map((stream) => stream.at(-1));
    const ends = last.map(({ outcome, message }) => outcome?.type ?? message);
    assert.deepEqual(ends, ["success", "cancelled", "the model is away"]);
    assert.equal(last[2].code, "RUN_END_REASON_FAILED");
    return sent.length;
}

/** The messages of a front end after one more run. */
async function applied(messages, stream) {
    const events = await lastValueFrom(from(stream).pipe(verifyEvents(), toArray()));
    const [{ threadId, runId }] = stream;
    const input = { threadId, runId, messages, state: {}, tools: [], context: [] };
    const changes = await lastValueFrom(defaultApplyEvents(input, from(events), { messages }, []).pipe(toArray()));
    return changes.findLast((change) => change.messages)?.messages ?? messages;
}

function checkMessages(messages) {
    const of = (role) => messages.filter((message) => message.role === role && message.content !== undefined);
    const read = (role) => of(role).map(({ id, content }) => [id, content]);
    const texts = (name, role) => written(name, role).map((part) => [part.partId, part[name].text]);
    assert.deepEqual(read("user"), texts("text", "ROLE_USER"));
    assert.deepEqual(read("assistant"), texts("text", "ROLE_ASSISTANT"));
    assert.deepEqual(read("reasoning"), texts("reasoning"));
}

function checkCalls(messages) {
    assert.deepEqual(
        messages.flatMap(({ id, toolCalls = [] }) => toolCalls.map((call) => [id, call.id, call.function])),
        calls.map(({ messageId, toolCall }) => {
            return [messageId, toolCall.callId, { name: toolCall.tool, arguments: toolCall.inputJson }];
        }),
    );
    assert.deepEqual(
        messages.filter(({ role }) => role === "tool").map(({ toolCallId, content }) => [toolCallId, content]),
        [...results].map(([id, { output }]) => [id, output]),
    );
}

function checkCustom(sent) {
    const custom = (name) => sent.filter((event) => event.name === name).map(({ value }) => value);
    const asked = custom("approval_requested").map(({ approvalId }) => approvalId);
    const answered = custom("approval_ended").map(({ approvalId, end }) => [approvalId, end.reason]);
    assert.deepEqual(asked, bodies("approvalRequested").map(({ approvalId }) => approvalId));
    assert.deepEqual(answered, bodies("approvalEnded").map(({ approvalId, reason }) => [approvalId, reason]));
    const usage = custom("context_usage");
    assert.equal(usage.length, bodies("usageRecorded").length);
    assert(usage.every(({ used, size }) => used > 0 && used < size));
}

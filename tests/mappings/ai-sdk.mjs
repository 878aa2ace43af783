// The UI message stream of the AI SDK: the published reader makes one message of each run.
import assert from "node:assert/strict";
import { readUIMessageStream, uiMessageChunkSchema } from "ai";
import { bodies, calls, checkCompactions, events, messages, results, runs, translated, written } from "./played.mjs";

export async function checkAiSdk(frames) {
    const sent = translated("UI message stream of the AI SDK", frames);
    const chunks = sent.map(({ target, message }) => ({ type: target, ...message }));
    for (const chunk of chunks) {
        const { success, error } = await uiMessageChunkSchema().validate(chunk);
        assert(success, `${chunk.type}: ${error}`);
    }
    const streams = runs(chunks, "start", ["finish", "abort", "error"]);
    const { read, errors } = await readAll(streams);
    assert.deepEqual(errors, ["the model is away"]);
    assert.deepEqual(read.map(({ id }) => id), bodies("runStarted").map(({ runId }) => runId));
    const parts = read.flatMap(({ parts }) => parts);
    checkParts(parts);
    checkTools(parts.filter(({ type }) => type === "dynamic-tool"));
    checkOrder(chunks);
    checkCompactions((id) =>
        chunks.filter((chunk) => chunk.type === "data-compaction" && chunk.id === id).map((chunk) => chunk.data),
    );
    const { contextTokens, windowTokens } = read[0].metadata;
    assert(contextTokens > 0 && contextTokens < windowTokens);
    const last = streams.map((stream) => stream.at(-1));
    assert.deepEqual(last.map(({ type, reason }) => reason ?? type), ["finish", "cancelled", "error"]);
    return chunks.length;
}

async function readAll(streams) {
    const read = [];
    const errors = [];
    const onError = (error) => errors.push(error.message);
    for (const chunks of streams) {
        // The reader keeps chunks, and changes them.
        const stream = ReadableStream.from(structuredClone(chunks));
        let message;
        for await (message of readUIMessageStream({ stream, onError })) {
            // Only the last state counts.
        }
        read.push(message);
    }
    return { read, errors };
}

function checkParts(parts) {
    const of = (type) => parts.filter((part) => part.type === type);
    const texts = (name, role) => written(name, role).map((part) => part[name].text);
    assert.deepEqual(of("text").map(({ text }) => text), texts("text", "ROLE_ASSISTANT"));
    assert.deepEqual(of("reasoning").map(({ text }) => text), texts("reasoning"));
    assert([...of("text"), ...of("reasoning")].every(({ state }) => state === "done"));
    assert.equal(of("step-start").length, messages.filter(({ role }) => role === "ROLE_ASSISTANT").length);
    const steering = [{ type: "text", text: "And the warnings." }];
    assert.deepEqual(of("steering-message").map(({ parts }) => parts), [steering]);
    assert.deepEqual(of("data-compaction").map(({ data }) => data.status), ["cancelled", "completed"]);
    assert.deepEqual(of("data-approval").map(({ data }) => data.end.text), ["Ebb"]);
    assert.deepEqual(
        [...new Set(parts.map(({ type }) => type))].sort(),
        ["data-approval", "data-compaction", "dynamic-tool", "reasoning", "steering-message", "step-start", "text"],
    );
}

function checkTools(tools) {
    assert.deepEqual(
        tools.map(({ toolCallId, toolName, input }) => [toolCallId, toolName, input]),
        calls.map(({ toolCall }) => [toolCall.callId, toolCall.tool, JSON.parse(toolCall.inputJson)]),
    );
    assert.deepEqual(
        tools.map(({ state, output, errorText, approval }) => [state, output ?? errorText, approval.approved]),
        [
            ["output-available", results.get("call-log").output, true],
            ["output-error", results.get("call-push").output, false],
            ["output-error", "interrupted", false],
        ],
    );
    assert.deepEqual(
        tools.map(({ approval }) => [approval.requestReason, approval.reason]),
        [
            ["May I do call-log?", undefined],
            ["May I do call-push?", "not on a Monday"],
            ["May I do call-tag?", undefined],
        ],
    );
}

/** The chunks of each call, in order, and the begin and end of each step. */
function checkOrder(chunks) {
    for (const { toolCall } of calls) {
        const { approvalId } = events.find((event) => event.approval?.question.callId === toolCall.callId).approval;
        const life = chunks.filter((chunk) => chunk.toolCallId === toolCall.callId || chunk.approvalId === approvalId);
        const input = life.filter(({ type }) => type === "tool-input-delta").map((chunk) => chunk.inputTextDelta);
        assert.equal(input.join(""), toolCall.inputJson);
        const types = [...new Set(life.map(({ type }) => type))];
        const begin = ["tool-input-start", "tool-input-delta", "tool-input-available", "tool-approval-request"];
        assert.deepEqual(types.slice(0, 4), begin);
        const { status } = results.get(toolCall.callId) ?? {};
        const output = status === "TOOL_RESULT_STATUS_COMPLETED" ? "tool-output-available" : "tool-output-error";
        // A call that its run left is interrupted after its question was withdrawn.
        assert.deepEqual(types.slice(4), ["tool-approval-response", output]);
    }
    const steps = chunks.map(({ type }) => type).filter((type) => type.endsWith("-step"));
    const replies = messages.filter(({ role }) => role === "ROLE_ASSISTANT");
    assert.deepEqual(steps, replies.flatMap(() => ["start-step", "finish-step"]));
    assert.equal(chunks.filter(({ type }) => type === "data-approval").length, 2);
}

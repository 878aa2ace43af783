// The Agent Client Protocol: the published package is both sides of a connection.
import assert from "node:assert/strict";
import { agent, client } from "@agentclientprotocol/sdk";
// The schemas that the package itself reads by; they are not among its exports.
import * as acp from "./node_modules/@agentclientprotocol/sdk/dist/v1/schema/zod.gen.js";
import { bodies, calls, checkCompactions, exact, results, translated, written } from "./played.mjs";

export async function checkAcp(frames) {
    const sent = translated("Agent Client Protocol", frames);
    const { updates, answers } = await transmit(sent);
    checkMessages(updates);
    checkCalls(updates);
    const of = (kind) => updates.filter((update) => update.sessionUpdate === kind);
    checkCompactions((id) => of("compaction_update").filter((update) => update.compactionId === id));
    assert.deepEqual(answers, [
        ["call-log", { outcome: "selected", optionId: "allow_once" }],
        ["call-push", { outcome: "selected", optionId: "reject_once" }],
        ["call-tag", { outcome: "cancelled" }],
    ]);
    assert.deepEqual(of("session_info_update").map(({ title }) => title), ["The build"]);
    const usage = of("usage_update");
    assert.equal(usage.length, bodies("usageRecorded").length);
    assert(usage.every(({ used, size }) => used > 0 && used < size));
    const stops = sent.filter(({ target }) => target.endsWith("session/prompt"));
    assert.deepEqual(
        stops.map(({ message }) => message.stopReason ?? message.message),
        ["end_turn", "cancelled", "the model is away"],
    );
    return updates.length;
}

/** Sends everything to a client; returns what it got, and the outcomes of its permission requests. */
async function transmit(sent) {
    const updates = [];
    const questions = new Map();
    const answers = [];
    const reader = client({ name: "reader" })
        .onNotification("session/update", ({ params }) => {
            updates.push(params.update);
        })
        .onRequest("session/request_permission", ({ params }) => {
            checkQuestion(params);
            return new Promise((answer) => questions.set(params.toolCall.toolCallId, answer));
        });
    await agent({ name: "longhand" }).connectWith(reader, async (connection) => {
        const asked = [];
        for (const { target, message, step } of sent) {
            if (target === "session/request_permission") {
                exact(acp.zRequestPermissionRequest, message);
                const id = message.toolCall.toolCallId;
                asked.push(connection.request(target, message).then((answer) => answers.push([id, answer.outcome])));
            } else if (target === "answer to session/request_permission") {
                exact(acp.zRequestPermissionResponse, message);
                const id = step.approval.question.callId;
                await until(() => questions.has(id));
                questions.get(id)(message);
                questions.delete(id);
            } else if (target === "answer to session/prompt") {
                exact(acp.zPromptResponse, message);
            } else if (target !== "error of session/prompt") {
                const params = { sessionId: step.sessionId, update: { sessionUpdate: target, ...message } };
                exact(acp.zSessionNotification, params);
                await connection.notify("session/update", params);
            }
        }
        await Promise.all(asked);
        await until(() => updates.length === sent.filter(({ target }) => !target.includes("session/")).length);
    });
    return { updates, answers };
}

async function until(holds) {
    for (const end = Date.now() + 10_000; !holds(); ) {
        assert(Date.now() < end, "an answer has no request, or a request no answer");
        await new Promise(setImmediate);
    }
}

function checkQuestion({ toolCall: asked, options }) {
    const { toolCall } = calls.find(({ toolCall }) => toolCall.callId === asked.toolCallId);
    assert.deepEqual(asked.rawInput, JSON.parse(toolCall.inputJson));
    assert.equal(asked.title, `May I do ${toolCall.callId}?`);
    const choices = options.map(({ name, kind }) => [name, kind]);
    assert.deepEqual(choices, [["Yes", "allow_once"], ["No", "reject_once"]]);
}

/** The text of each message is what is stored, in the order of the messages. */
function checkMessages(updates) {
    for (const [kind, name, role] of [
        ["user_message_chunk", "text", "ROLE_USER"],
        ["agent_message_chunk", "text", "ROLE_ASSISTANT"],
        ["agent_thought_chunk", "reasoning"],
    ]) {
        const chunks = updates.filter((update) => update.sessionUpdate === kind);
        const read = joined(chunks.map(({ messageId, content }) => [messageId, content.text]));
        assert.deepEqual(read, joined(written(name, role).map((part) => [part.messageId, part[name].text])), kind);
    }
}

/** Joins the texts of entries by a key, in the order of the first ones. */
function joined(entries) {
    const texts = new Map();
    for (const [key, text] of entries) {
        texts.set(key, (texts.get(key) ?? "") + text);
    }
    return [...texts];
}

function checkCalls(updates) {
    for (const { toolCall } of calls) {
        const [begin, ...later] = updates.filter((update) => update.toolCallId === toolCall.callId);
        assert.deepEqual([begin.sessionUpdate, begin.title, begin.name], ["tool_call", toolCall.tool, toolCall.tool]);
        const state = Object.assign({}, begin, ...later);
        const result = results.get(toolCall.callId);
        assert.deepEqual(state.rawInput, JSON.parse(toolCall.inputJson));
        assert.equal(state.rawOutput, result?.output);
        const end = result?.status === "TOOL_RESULT_STATUS_COMPLETED" ? "completed" : "failed";
        assert.deepEqual([begin, ...later].map(({ status }) => status), ["pending", "in_progress", end]);
    }
}

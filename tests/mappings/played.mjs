// The session that was played, as it is stored, and what a table makes of its stream.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { rules, Steps, translate } from "./translate.mjs";

const { frames, messages: stored } = JSON.parse(readFileSync(process.argv[2], "utf8"));
export { frames };
export const messages = stored.filter((message) => message.origin === "ORIGIN_CLIENT");
export const events = frames.flatMap((frame) => frame.events?.events ?? []);
/** The bodies of a name, of all events. */
export const bodies = (name) => events.filter((event) => event[name]).map((event) => event[name]);

const parts = messages.flatMap(({ role, messageId, parts = [] }) =>
    parts.map((part) => ({ ...part, role, messageId })),
);
/** The stored parts of a kind, perhaps of one role only. */
export const written = (name, role) => parts.filter((part) => part[name] && (!role || part.role === role));
export const calls = written("toolCall");
export const results = new Map(written("toolResult").map(({ toolResult }) => [toolResult.callId, toolResult]));

const ends = { compacted: "completed", compactionFailed: "failed", compactionCancelled: "cancelled" };
/** How each compaction ended. */
const compactions = new Map(
    Object.entries(ends).flatMap(([name, end]) => bodies(name).map((body) => [body.compactionId, end])),
);
assert.deepEqual(new Set(compactions.values()), new Set(Object.values(ends)), "compactions end in every way");
const failures = new Map(bodies("compactionFailed").map((body) => [body.compactionId, body.failure.reason]));
const summaries = new Map(
    events
        .filter((event) => event.compacted?.outcome.summaryMessageId)
        .map((event) => [event.compacted.compactionId, event.message.parts[0].text.text]),
);
assert(summaries.size > 0, "a summary is read");

/** Checks that every compaction begins and ends once, in these states of it. */
export function checkCompactions(statesOf) {
    for (const [id, end] of compactions) {
        const states = statesOf(id);
        assert.deepEqual(states.map(({ status }) => status), ["in_progress", end]);
        assert.equal(states[1].error, failures.get(id));
        assert.equal(states[1].summary?.[0].text, summaries.get(id));
    }
}

/** The messages of a protocol for the frames; every rule of its table is used. */
export function translated(section, frames) {
    const table = rules(section);
    const steps = new Steps();
    const sent = frames.flatMap((frame) =>
        [...steps.of(frame)].flatMap((step) => translate(table, step).map((message) => ({ ...message, step }))),
    );
    for (const rule of table) {
        const used = sent.some(({ target, step }) => target === rule.target && step.step === rule.step);
        assert(used, `${section}: ${rule.step} to ${rule.target} is never sent`);
    }
    return sent;
}

/** Cuts messages into runs: what comes between two begins the next; what comes after all of them is left out. */
export function runs(sent, begin, ends) {
    const runs = [];
    let between = [];
    let current;
    for (const one of sent) {
        if (one.type === begin) {
            current = [one, ...between];
            between = [];
        } else {
            (current ?? between).push(one);
        }
        if (ends.includes(one.type)) {
            runs.push(current);
            current = undefined;
        }
    }
    return runs;
}

/** Parsed by a schema, nothing is lost and nothing filled in: no field has a wrong name or type. */
export function exact(schema, message) {
    assert.deepEqual(schema.parse(message), message);
}

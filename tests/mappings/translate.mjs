// A translator of an event stream by docs/mappings.json; docs/working-together.md says what its rows mean.
import { readFileSync } from "node:fs";

const tables = JSON.parse(readFileSync(new URL("../../docs/mappings.json", import.meta.url), "utf8"));

/** The rules of a protocol. */
export function rules(protocol) {
    if (!tables[protocol]) {
        throw new Error(`no protocol ${protocol}`);
    }
    return tables[protocol].rows.map(({ step, where, target, fields }) => ({
        step,
        where: where.map(condition),
        target,
        fields: fields.map((field) => {
            const [name, source] = split(field, "=");
            return { path: name.split("."), sources: source.split(" ?? ").map(value) };
        }),
    }));
}

function split(text, separator) {
    const at = text.indexOf(separator);
    return [text.slice(0, at), text.slice(at + separator.length)];
}

function condition(text) {
    if (text.startsWith("!")) {
        const get = field(text.slice(1));
        return (step) => get(step) === undefined;
    }
    if (!text.includes("=")) {
        const get = field(text);
        return (step) => get(step) !== undefined;
    }
    const [name, values] = split(text, "=");
    const get = field(name);
    return (step) => values.split(",").includes(get(step));
}

function value(text) {
    const call = text.match(/^(\w+)\(([\w.]+)\)$/);
    if (call) {
        const [, name, argument] = call;
        const get = field(argument);
        return (step) => functions[name](get(step));
    }
    if (/^("|true$|false$|\d)/.test(text)) {
        return () => JSON.parse(text);
    }
    return field(text);
}

/** A field by its path in the protos, in JSON: an empty list is none, and that of a list the first one in it. */
function field(path) {
    const names = path.split(".").map((name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()));
    return (step) => {
        const member = (of, name) => (Array.isArray(of) ? of.map((one) => one[name]).find((one) => one !== undefined) : of?.[name]);
        const found = names.reduce(member, step);
        return Array.isArray(found) && found.length === 0 ? undefined : found;
    };
}

const kinds = ["allow_once", "allow_always", "reject_once", "reject_always"];

const functions = {
    number: (text) => (text === undefined ? undefined : Number(text)),
    json(text) {
        try {
            return text === undefined ? undefined : JSON.parse(text);
        } catch {
            return text;
        }
    },
    blocks(content) {
        const parts = typeof content === "string" ? [{ text: { text: content } }] : (content?.parts ?? content);
        return parts?.filter((part) => part.text).map((part) => ({ type: "text", text: part.text.text }));
    },
    role: (role) => role.slice("ROLE_".length).toLowerCase(),
    kind(choice) {
        const kind = choice?.split(":")[0];
        return kinds.includes(kind) ? kind : "allow_once";
    },
    options: (choices) =>
        choices.map(({ id, label }) => ({ optionId: id, name: label ?? id, kind: functions.kind(id) })),
    allows: (choice) => choice !== undefined && functions.kind(choice).startsWith("allow"),
};

/** The messages for one step, in the order of the rules. */
export function translate(rules, step) {
    const fitting = rules.filter((rule) => rule.step === step.step && rule.where.every((fits) => fits(step)));
    return fitting.map(({ target, fields }) => {
        const message = {};
        for (const { path, sources } of fields) {
            const found = sources.map((source) => source(step)).find((found) => found !== undefined);
            if (found !== undefined) {
                const last = path.slice(0, -1).reduce((of, name) => (of[name] ??= {}), message);
                last[path.at(-1)] = found;
            }
        }
        return { target, message };
    });
}

const drafts = {
    DRAFT_KIND_TEXT: "text",
    DRAFT_KIND_REASONING: "reasoning",
    DRAFT_KIND_TOOL_INPUT: "toolCall",
    DRAFT_KIND_TOOL_OUTPUT: "toolResult",
};
const texts = { text: "text", reasoning: "text", toolCall: "inputJson", toolResult: "output" };
const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Makes steps of the frames of a stream. */
export class Steps {
    #roles = new Map();
    #parts = new Map();

    *of(frame) {
        if (frame.draftDelta) {
            yield* this.#delta(frame.draftDelta);
        }
        for (const event of frame.events?.events ?? []) {
            yield* this.#event(event);
        }
    }

    *#event(event) {
        const { message } = event;
        const name = Object.keys(event).find((name) => typeof event[name] === "object" && isBody(name, event));
        const step = { ...event, ...event[name], step: name[0].toUpperCase() + name.slice(1) };
        if (name === "messageAppended") {
            this.#roles.set(message.messageId, message.role);
            if (message.origin !== "ORIGIN_CLIENT") {
                return;
            }
            yield step;
            yield* this.#closed(event);
            if (event.messageAppended.sealed) {
                yield { ...event, ...message.finish, messageId: message.messageId, step: "MessageFinished" };
            }
        } else if (name === "partsClosed") {
            yield* this.#closed(event, event.partsClosed.partIds);
            yield step;
        } else if (name === "messageFinished") {
            yield* this.#closed(event);
            yield step;
        } else {
            for (const call of event.runEnded?.interruptedCalls ?? []) {
                yield { ...event, ...call, step: "InterruptedCall" };
            }
            yield step;
        }
    }

    *#delta({ kind, delta, offsetBytes = "0", ...rest }) {
        const part = this.#part(rest.partId);
        if (part.ended) {
            return;
        }
        const known = { ...rest, part: snake(drafts[kind]), role: this.#roles.get(rest.messageId) };
        if (!part.begun) {
            part.begun = true;
            yield { step: "PartBegun", ...known };
        }
        if (Number(offsetBytes) === Buffer.byteLength(part.text)) {
            part.text += delta;
            yield { step: "PartGrown", ...known, delta };
        }
    }

    /** The parts of a message that closed: those with the ids, or all. */
    *#closed({ message, sessionId }, ids) {
        for (const { partId, ...content } of message.parts ?? []) {
            const part = this.#part(partId);
            if (part.ended || (ids && !ids.includes(partId))) {
                continue;
            }
            const body = Object.keys(content).find((name) => typeof content[name] === "object");
            const known = { ...content[body], sessionId, messageId: message.messageId, partId, role: message.role };
            known.part = snake(body);
            if (!part.begun) {
                yield { step: "PartBegun", ...known };
            }
            const delta = (content[body][texts[body]] ?? "").slice(part.text.length);
            if (delta) {
                yield { step: "PartGrown", ...known, delta };
            }
            part.ended = true;
            yield { step: "PartEnded", ...known };
        }
    }

    #part(id) {
        return this.#parts.get(id) ?? this.#parts.set(id, { text: "" }).get(id);
    }
}

/** Every body of an event is named as its kind is. */
function isBody(name, event) {
    return event.kind === `EVENT_KIND_${snake(name).toUpperCase()}`;
}

// goose's compaction and its summaries of tool pairs, written out from the description of its code. Deliberately naive:
// plain loops over a whole history, and nothing of Longhand.
import { pathToFileURL } from "node:url";
import { folder, serve } from "./serve.mjs";

const { encode } = await import(pathToFileURL(`${folder}/node_modules/gpt-tokenizer/esm/encoding/o200k_base.js`).href);

const ids = (messages) => messages.map(({ id }) => id);
const isText = ({ role, parts, id }) =>
  role === "user" && id !== "summary" && parts.length > 0 && parts.every(({ type }) => type === "text");

// What the tokenizer counts where no usage is known.
function count(messages) {
  let total = 0;
  for (const { parts } of messages) {
    for (const { type, text, tool, input } of parts) {
      const words = type === "call" ? tool + JSON.stringify(input) : type === "thinking" ? "" : text;
      total += encode(words, { allowedSpecial: new Set(), disallowedSpecial: new Set() }).length;
    }
  }
  return total;
}

// The pairs that are described in the background: the oldest ones, as soon as more than a batch of them is beyond the
// cutoff, without those of the current turn.
function describe(messages, context, { tenths, share, cutoffMin, batchMin }) {
  const cutoff = Math.min(500, Math.max(cutoffMin, Math.floor((context * tenths) / share)));
  const batch = Math.max(Math.floor(cutoff / 5), batchMin);
  let turn = messages.length - 1;
  while (turn > 0 && (messages[turn].role !== "user" || messages[turn].id === "summary")) turn--;
  const old = [];
  for (const { parts } of messages.slice(0, turn)) {
    for (const part of parts) if (part.type === "result" && !part.cleared) old.push(part.id);
  }
  // One batch in each pass.
  return { cleared: old.length > cutoff + batch ? old.slice(0, batch).sort() : [], old, cutoff, batch };
}

function decide({ messages, usage, replied, later, place, round, context, config }) {
  const newest = messages.at(-1);
  const total = usage ? usage.input + usage.cacheRead + usage.output : count(messages);
  // Before a turn, and after each reply.
  const startsTurn = round === 0 && newest?.id === place && newest.role === "user";
  const isDue = (replied || startsTurn || later) && total * 10 > context * config.tenths;
  if (isDue) {
    const history = messages.filter(({ id }) => id !== "summary");
    const latest = history.filter(isText).slice(-1);
    const read = ids(history);
    return { acts: "auto", cleared: [], view: ["summary", ...ids(latest)], read, previous: read.length < messages.length, total };
  }
  const described = describe(messages, context, config);
  return described.cleared.length ? { acts: "clear", ...described, view: ids(messages), total } : { acts: null, total };
}

// A description begins with this; its words are a model's.
const shown = ({ outputs, cleared }) =>
  cleared ? outputs.map(() => "[Historical tool call summary]*") : outputs.map(({ text }) => text);

// The words of the assistant behind a summary are not told.
const frame = () => null;

serve({ decide, shown, frame });

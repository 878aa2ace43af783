// Codex CLI's local compaction, written out from the description of its code. Deliberately naive: plain loops over a
// whole history, and nothing of Longhand.
import { serve } from "./serve.mjs";

const tokens = (text) => Math.ceil(Buffer.byteLength(text, "utf8") / 4);
const textOf = ({ parts }) => parts.filter(({ type }) => type === "text").map(({ text }) => text);

// The most recent requests of the user that fit; the first that does not is truncated.
function requests(messages, most) {
  const kept = [];
  let left = most;
  for (let at = messages.length - 1; at >= 0 && left > 0; at--) {
    const { id, role } = messages[at];
    if (role !== "user" || id === "summary") continue;
    const size = textOf(messages[at]).reduce((sum, text) => sum + tokens(text), 0);
    kept.unshift(id);
    if (size > left) break;
    left -= size;
  }
  return kept;
}

function decide({ messages, usage, replied, later, place, context, config }) {
  const newest = messages.at(-1);
  const total = usage && usage.input + usage.cacheRead + usage.output;
  // In a turn only if it goes on: calls whose results the next request has.
  const goesOn = replied && newest.parts.some(({ type }) => type === "call");
  const isDue = usage && total >= Math.floor((context * config.tenths) / 10);
  const startsTurn = newest?.id === place && newest.role === "user";
  if (!isDue || !(goesOn || startsTurn || later)) return { acts: null };
  // Before a turn its request is not part of the history yet.
  const history = startsTurn ? messages.slice(0, -1) : messages;
  const view = [...requests(history, config.keep), "summary", ...(startsTurn ? [newest.id] : [])];
  const read = history.filter(({ id }) => id !== "summary").map(({ id }) => id);
  return { acts: "auto", cleared: [], view, read, previous: read.length < history.length };
}

const shown = ({ outputs }) => outputs.map(({ text }) => text);

// The words before the summary are not told.
const frame = () => null;

serve({ decide, shown, frame });

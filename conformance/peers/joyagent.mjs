// JoyAgent's truncation of messages and its count of tokens, written out from the description of its code. Lengths are
// Java's, which are JavaScript's. Deliberately naive: plain loops over a whole history, and nothing of Longhand.
import { serve } from "./serve.mjs";

const observed = (text, max) => text.substring(0, max);

// 4 for each message, its role, its content, its calls with names and arguments, and the id of the call that it answers.
function count({ role, parts }, config) {
  let tokens = 4 + role.length;
  for (const part of parts) {
    if (part.type === "text") tokens += part.text.length;
    if (part.type === "call") tokens += part.tool.length + JSON.stringify(part.input).length;
    if (part.type === "result") tokens += observed(part.text, config.observe).length + part.id.length;
  }
  return tokens;
}

function truncateMessage(messages, config) {
  const [first] = messages;
  const kept = [];
  let left = config.most;
  if (first.role === "system") left -= count(first, config);
  for (let at = messages.length - 1; at >= 0; at--) {
    const tokens = count(messages[at], config);
    if (tokens > left) break;
    kept.unshift(messages[at]);
    left -= tokens;
  }
  while (kept.length && kept[0].role !== "user") kept.shift();
  if (first.role === "system") kept.unshift(first);
  return kept;
}

// Nothing in JoyAgent calls it; it is written to be called before every request.
function decide({ messages, config }) {
  const kept = truncateMessage(messages, config);
  const total = messages.reduce((sum, message) => sum + count(message, config), 2);
  if (kept.length === messages.length) return { acts: null, total };
  // Outputs that end within a character.
  const texts = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === "result").map(({ text }) => text));
  const halves = texts.filter((text) => !observed(text, config.observe).isWellFormed()).length;
  return { acts: "auto", cleared: [], view: kept.map(({ id }) => id), total, halves };
}

const shown = ({ outputs, config }) => outputs.map(({ text }) => observed(text, config.observe));

// It makes no summaries for a model.
const frame = () => null;

serve({ decide, shown, frame });

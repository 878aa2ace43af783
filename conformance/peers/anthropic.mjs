// The context editing of Anthropic's API as its documentation describes it. Deliberately naive: plain loops over a whole
// history, and nothing of Longhand.
import { serve } from "./serve.mjs";

const ids = (messages) => messages.map(({ id }) => id);

// clear_thinking_20251015: the thoughts of the last turns that have some stay.
function thoughts(messages, keep) {
  const turns = [];
  for (const { role, parts } of messages) {
    if (role === "user" || !turns.length) turns.push([]);
    for (const part of parts) if (part.type === "thinking") turns.at(-1).push(part);
  }
  const thinking = turns.filter((turn) => turn.length);
  return thinking.slice(0, Math.max(0, thinking.length - keep)).flat();
}

// clear_tool_uses_20250919: the results of all but the last uses. It is not documented if uses of excluded tools count.
function uses(messages, excluded) {
  const results = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === "result"));
  return results.filter(({ tool }) => !excluded.includes(tool));
}

// A request has the results of all calls of the last reply, unless the user went on without them.
function isRequest(messages) {
  const { role } = messages.at(-1);
  if (role !== "tool") return role === "user";
  const reply = messages.findLast((message) => message.role === "assistant");
  const answered = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === "result").map(({ id }) => id));
  return reply.parts.every(({ type, id }) => type !== "call" || answered.includes(id));
}

// Both edits are made of the history as it came, by its tokens, and again for every request.
function decide({ messages, later, without, whole, config }) {
  if (!isRequest(messages) && !later) return { acts: null };
  const left = (parts) => parts.filter(({ cleared }) => !cleared);
  const thinking = ids(left(thoughts(messages, config.turns))).sort();
  const all = uses(messages, config.excluded);
  const old = whole > config.trigger && without !== "auto" ? left(all.slice(0, -config.uses)) : [];
  const texts = Object.fromEntries(old.map(({ id, text, tool }) => [id, { text, tool }]));
  const results = ids(left(all));
  if (old.length) return { acts: "auto", cleared: ids(old).sort(), view: ids(messages), texts, results, thinking };
  if (thinking.length) return { acts: "clear", cleared: thinking, view: ids(messages), thinking };
  return { acts: null };
}

// The words in place of a result are not told.
const shown = ({ outputs, cleared }) => (cleared ? null : outputs.map(({ text }) => text));

// The edits make no summary.
const frame = () => null;

serve({ decide, shown, frame });

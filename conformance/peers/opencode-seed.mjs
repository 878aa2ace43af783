// OpenCode's compaction as its published design describes it, with the code that the design quotes. Deliberately naive:
// plain loops over a whole history, and nothing of Longhand.
import { serve } from "./serve.mjs";

const estimate = (text) => Math.max(0, Math.round(text.length / 4));
const CLEARED = "[Old tool result content cleared]";

// Strategy 1: an output is cut before a model reads it.
function truncated(text, max) {
  if (!max || text.length <= max) return text;
  return `${text.slice(0, max)}\n[Tool output truncated: omitted ${text.length - max} chars]`;
}

const output = (part, max) => (part.cleared ? CLEARED : truncated(part.text, max));

// The messages that the AI SDK makes of a range, for the estimate of its JSON.
function modelMessages(messages, config) {
  const list = [];
  for (const { role, parts } of messages) {
    const content = [];
    const results = [];
    for (const part of parts) {
      if (part.type === "text") content.push({ type: "text", text: part.text });
      if (part.type === "thinking") content.push({ type: "reasoning", text: part.text });
      if (part.type === "call") {
        content.push({ type: "tool-call", toolCallId: part.id, toolName: part.tool, input: part.input });
      }
      if (part.type === "result") {
        const value = output(part, config.outputMax);
        const type = part.ok ? "text" : "error-text";
        results.push({ type: "tool-result", toolCallId: part.id, toolName: part.tool, output: { type, value } });
      }
    }
    if (content.length) list.push({ role, content });
    if (results.length) list.push({ role: "tool", content: results });
  }
  return list;
}

// Strategy 2. `history` is in the order in which it was written: the summary stands behind the tail that it left.
function prune(history, config) {
  const cleared = [];
  let [total, pruned, turns] = [0, 0, 0];
  loop: for (let at = history.length - 1; at >= 0; at--) {
    const message = history[at];
    if (message.role === "user" && message.id !== "summary") turns++;
    if (turns < 2) continue;
    if (message.id === "summary") break loop;
    for (let index = message.parts.length - 1; index >= 0; index--) {
      const part = message.parts[index];
      if (part.type !== "result" || !part.ok) continue;
      if (part.tool === "skill") continue;
      if (part.cleared) break loop;
      const size = estimate(part.text);
      total += size;
      if (total <= config.protect) continue;
      pruned += size;
      cleared.push(part.id);
    }
  }
  return pruned > config.minimum ? cleared : [];
}

function usable({ config, context }) {
  const most = Math.min(config.output, 32_000) || 32_000;
  if (context === 0) return 0;
  const reserved = Math.min(config.buffer, most);
  return config.input ? Math.max(0, config.input - reserved) : Math.max(0, context - most);
}

function isOverflow(usage, limits) {
  if (!usage || limits.context === 0) return false;
  return usage.input + usage.output + usage.cacheRead >= usable(limits);
}

function turnsOf(messages) {
  const result = [];
  messages.forEach((message, at) => {
    if (message.role === "user") result.push({ start: at, end: messages.length });
  });
  for (let at = 0; at < result.length - 1; at++) result[at].end = result[at + 1].start;
  return result;
}

function splitTurn(turn, budget, size) {
  if (budget <= 0 || turn.end - turn.start <= 1) return undefined;
  for (let start = turn.start + 1; start < turn.end; start++) {
    if (size(start, turn.end) <= budget) return start;
  }
  return undefined;
}

// The index of the first message that is kept.
function select(messages, limits) {
  const { config } = limits;
  if (config.tailTurns <= 0) return messages.length;
  const budget = Math.min(config.tailMax, Math.max(config.tailMin, Math.floor(usable(limits) * 0.25)));
  const recent = turnsOf(messages).slice(-config.tailTurns);
  if (!recent.length) return messages.length;
  const size = (start, end) => estimate(JSON.stringify(modelMessages(messages.slice(start, end), config)));
  let total = 0;
  let keep;
  for (let at = recent.length - 1; at >= 0; at--) {
    const turn = recent[at];
    const tokens = size(turn.start, turn.end);
    if (total + tokens <= budget) {
      total += tokens;
      keep = turn.start;
      continue;
    }
    keep = splitTurn(turn, budget - total, size) ?? keep;
    break;
  }
  return keep ? keep : messages.length;
}

// The order in which it was written: what the summary of that place left came before it.
function written(messages, place) {
  const summary = messages.filter(({ id }) => id === "marker" || id === "summary");
  const rest = messages.filter(({ id }) => id !== "marker" && id !== "summary");
  if (!summary.length) return rest;
  const next = rest.findIndex(({ id }) => typeof id !== "number" || id > place);
  const at = next < 0 ? rest.length : next;
  return [...rest.slice(0, at), ...summary, ...rest.slice(at)];
}

function decide({ messages, usage, replied, round, context, config, places }) {
  const limits = { context, config };
  const ids = (list) => list.map(({ id }) => id);
  const history = messages.filter(({ id }) => id !== "marker" && id !== "summary");
  if (replied && isOverflow(usage, limits)) {
    const start = select(history, limits);
    // A continuation behind it is compared in the daemon.
    const view = ["marker", "summary", ...ids(history.slice(start))];
    const previous = history.length < messages.length;
    return { acts: "auto", cleared: [], view, read: ids(history.slice(0, start)), previous };
  }
  // Once after each message: the walk is forked in every round of the loop.
  const cleared = round === 0 || config.afterSummary ? prune(written(messages, places.auto), config) : [];
  return cleared.length ? { acts: "clear", cleared: cleared.sort(), view: ids(messages) } : { acts: null };
}

const shown = ({ outputs, cleared, config }) =>
  outputs.map(({ text }) => (cleared ? CLEARED : truncated(text, config.outputMax)));

const frame = ({ summary }) => [["user", "What did we do so far?"], ["assistant", summary]];

serve({ decide, shown, frame });

// Claude Code's three tiers as their published design describes them. Deliberately naive: plain loops over a whole
// history, and nothing of Longhand.
import { serve } from "./serve.mjs";

const ids = (messages) => messages.map(({ id }) => id);

function shouldCompact(tokens, limit, { deep, auto, micro }) {
  const ratio = tokens / limit;
  if (ratio > deep) return "deep";
  if (ratio > auto) return "auto";
  if (ratio > micro) return "micro";
  return null;
}

// The index of the first message of the last `turns` turns: a turn begins with a request.
function recent(messages, turns) {
  let seen = 0;
  for (let at = messages.length - 1; at >= 0; at--) {
    if (messages[at].role === "user" && messages[at].id !== "summary" && ++seen === turns) return at;
  }
  return 0;
}

// What stands in the place of an output: a line about it, and how to get it again. The design gives the second line for
// a reader of files alone, so that these lives have no other tool.
function compressed({ tool, input, text }) {
  // Numbered as in the example: the end of the last one begins no other.
  const lines = text.replace(/\n$/, "").split("\n").length;
  return (
    `[Tool output compressed: ${tool} of ${input.path} (${lines} lines)]\n` +
    `Use ${tool} again with offset/limit to get specific sections.`
  );
}

function decide({ messages, usage, replied, now, times, context, config }) {
  // After every reply, by its tokens.
  if (!replied || !usage) return { acts: null };
  const until = Math.max(...Object.values(times), -Infinity) + config.cooldown * 1_000;
  const tokens = usage.input + usage.cacheRead + usage.output;
  if (now < until) return { acts: null };
  const level = shouldCompact(tokens, context, config);
  if (level === "micro") {
    const cleared = [];
    const texts = {};
    const inputs = Object.fromEntries(messages.flatMap(({ parts }) => parts).map(({ id, input }) => [id, input]).filter(([, input]) => input));
    for (const { parts } of messages.slice(0, recent(messages, config.turns))) {
      for (const part of parts) {
        if (part.type === "result" && !part.cleared) {
          cleared.push(part.id);
          texts[part.id] = { text: part.text, lines: compressed({ ...part, input: inputs[part.id] }) };
        }
      }
    }
    return cleared.length ? { acts: level, cleared: cleared.sort(), view: ids(messages), texts } : { acts: null };
  }
  if (!level) return { acts: null };
  // The summary goes on from the one before it, and is a user message before the last ones.
  const history = messages.filter(({ id }) => id !== "summary");
  const previous = history.length < messages.length;
  const kept = level === "auto" ? history.slice(-config.keep) : [];
  // The model that summarizes gets all of it.
  const read = ids(history);
  return { acts: level, cleared: [], view: ["summary", ...ids(kept)], read, previous };
}

const shown = ({ outputs, cleared }) => outputs.map((output) => (cleared ? compressed(output) : output.text));

const frame = ({ summary }) => [["user", `<conversation-summary>\n${summary}\n</conversation-summary>`]];

serve({ decide, shown, frame });

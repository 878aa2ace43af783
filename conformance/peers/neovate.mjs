// Neovate Code's compression, written out from the description of its code and from its design, because no package of it
// is published. Deliberately naive: plain loops over a whole history, and nothing of Longhand.
import { pathToFileURL } from "node:url";
import { folder, serve } from "./serve.mjs";

// The encoding o200k_base, which gpt-tokenizer has by default.
const { encode } = await import(pathToFileURL(`${folder}/node_modules/gpt-tokenizer/esm/main.js`).href);
const tokens = (text) => encode(text).length;

// The plugin that limits an output when its tool returns: lines, then bytes, from the head.
function limited(text, { lines, bytes, marker }) {
  let kept = text;
  const all = text.split("\n");
  if (all.length > lines) kept = all.slice(0, lines).join("\n");
  const encoded = Buffer.from(kept, "utf8");
  if (encoded.length > bytes) {
    // A character of several bytes that does not fit is left out.
    let end = bytes;
    while (end > 0 && (encoded[end] & 0xc0) === 0x80) end--;
    kept = encoded.subarray(0, end).toString("utf8");
  }
  return kept === text ? text : kept + marker.replace("{omitted}", String(text.length - kept.length));
}

// The outputs that a prune clears, by the ids of their calls, and the tokens that they have.
function prune(messages, config) {
  const cleared = [];
  let turns = 0;
  let total = 0;
  let freed = 0;
  walk: for (let at = messages.length - 1; at >= 0; at--) {
    const { role, parts } = messages[at];
    if (role === "user") turns++;
    if (role !== "tool" || turns < config.turns) continue;
    for (const part of parts) {
      if (part.type !== "result" || config.protectedTools.includes(part.tool)) continue;
      if (part.pruned) {
        // The design ends the walk here; the code's `break` leaves the message only.
        if (config.design) break walk;
        break;
      }
      const size = tokens(limited(part.text, config));
      total += size;
      if (total > config.protect) {
        cleared.push(part.id);
        freed += size;
      }
    }
  }
  return freed > config.minimum ? { cleared, freed } : { cleared: [], freed: 0 };
}

// What happens before the next request, by the usage of the last reply.
function compress({ messages, usage, context, config }) {
  const total = usage.input + usage.cacheRead + usage.output;
  const used = config.design ? usage.input + usage.cacheRead : total;
  const overflows = (size) => context !== 0 && size > context * config.ratio;
  if (total < config.floor || !overflows(used)) return { compresses: false, cleared: [], summarizes: false };
  const { cleared, freed } = prune(messages, config);
  // The code compares the same usage once more, so that a summary follows every time. The design has cleared outputs in
  // mind.
  const left = used - freed + cleared.length * tokens(config.placeholder);
  const summarizes = config.design ? overflows(left) : true;
  return { compresses: true, cleared, left, summarizes };
}

// What is left of outputs, and the tokens of that.
const shown = ({ texts, config }) => texts.map((text) => limited(text, config)).map((text) => [text, tokens(text)]);

serve({ compress, shown });

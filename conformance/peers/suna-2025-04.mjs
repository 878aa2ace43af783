// Suna's rolling summary of its first months, written out from the description of its code. Deliberately naive: plain
// loops over a whole history, and nothing of Longhand.
import { pathToFileURL } from "node:url";
import { folder, serve } from "./serve.mjs";

// The encoding of gpt-4, which litellm's token_counter was asked for.
const { encode } = await import(pathToFileURL(`${folder}/node_modules/gpt-tokenizer/esm/encoding/cl100k_base.js`).href);
const tokens = (text) => encode(text, { allowedSpecial: new Set(), disallowedSpecial: new Set() }).length;

// Three for each message, its role, and its words. In these lives nobody calls tools: at that time calls and results were
// words of Suna's messages.
function count({ role, parts }) {
  return 3 + tokens(role) + parts.reduce((sum, { text }) => sum + tokens(text), 0);
}

function decide({ messages, config, size }) {
  // What came after the last summary.
  const since = messages.filter(({ id }) => id !== "summary");
  // And three more for the reply that a list of messages asks for.
  const total = since.reduce((sum, message) => sum + count(message), 3);
  if (total < config.threshold || since.length < 3) return { acts: null, total };
  const read = since.map(({ id }) => id);
  // The one before is no input of the next one.
  return { acts: "auto", cleared: [], view: ["summary"], read, previous: false, total };
}

const shown = ({ outputs }) => outputs.map(({ text }) => text);

const frame = ({ summary }) => [
  [
    "user",
    `\n======== CONVERSATION HISTORY SUMMARY ========\n\n${summary}\n\n======== END OF SUMMARY ========\n\n` +
      "The above is a summary of the conversation history. The conversation continues below.\n",
  ],
];

serve({ decide, shown, frame });

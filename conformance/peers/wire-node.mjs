// Gives back what it got, and measures it, so that a text that the wire alters is found before it is blamed on a policy.
import { serve } from "./serve.mjs";

serve({
  echo: (args) => args,
  lengths: ({ texts }) => texts.map((text) => text.length),
  // The first units of a text, which may end in the middle of a character.
  heads: ({ texts, units }) => texts.map((text) => text.slice(0, units)),
  refuse: () => {
    throw new Error("no");
  },
});

// Gives a translated session to the published packages of each protocol, which read what is stored: check.mjs SESSION.
import { checkAcp } from "./acp.mjs";
import { checkAgui } from "./agui.mjs";
import { checkAiSdk } from "./ai-sdk.mjs";
import { frames } from "./played.mjs";

// Delta frames are best effort: whichever of them are missing, readers get the same.
const losses = [
    ["every delta frame", () => true],
    ["every other delta frame", (at) => at % 2 === 0],
    ["no delta frames", () => false],
];
for (const [name, keeps] of losses) {
    let at = 0;
    const kept = frames.filter((frame) => !frame.draftDelta || keeps(at++));
    const [acp, agui, ai] = [await checkAcp(kept), await checkAgui(kept), await checkAiSdk(kept)];
    console.log(`${name}: ${acp} updates of ACP, ${agui} events of AG-UI, ${ai} chunks of the AI SDK`);
}

/**
 * Chats of the AI SDK whose memory is a Longhand session, which others can share.
 *
 * A page sends by `new Chat({ id, transport: new LonghandChatTransport(client) })`, or `useChat`: its message waits in the
 * session's queue until an agent takes it, and every page that is open gets the reply as it comes, also one that was
 * loaded in the middle of it. The agent is `serveChats(client, ({ request }) => streamText({ model, ...request }))`,
 * wherever it runs; agents without the AI SDK can answer, too.
 *
 * @module
 */

export { type Answer, answerChat, type ChatRequest, type ServeOptions, serveChats } from "./ai-sdk/agent.js";
export { loadChat, saveChat } from "./ai-sdk/store.js";
export { LonghandChatTransport } from "./ai-sdk/transport.js";

// The AI SDK's messages and its stream of one, as a daemon keeps and serves them, against what the SDK makes of them itself.
import assert from 'node:assert/strict';
import { convertToModelMessages, modelMessageSchema, readUIMessageStream } from 'ai';

const headers = { 'content-type': 'application/json' };
if (process.env.LONGHAND_TOKEN) headers.authorization = `Bearer ${process.env.LONGHAND_TOKEN}`;

async function call(method, path, body) {
  const answer = await fetch(process.env.LONGHAND_URL + path, { method, headers, body: body && JSON.stringify(body) });
  const json = await answer.json();
  assert(answer.ok, JSON.stringify(json));
  return json;
}

async function append(session, given) {
  const json = typeof given === 'string' ? given : JSON.stringify(given);
  const providerContent = { format: 'MESSAGE_FORMAT_AI_SDK', json };
  return call('POST', `/v1/sessions/${session}/messages`, { providerContent });
}

async function view(session, format = 'AI_SDK') {
  const frames = await call('GET', `/v1/sessions/${session}/view?format=MESSAGE_FORMAT_${format}`);
  return frames.flatMap(frame => frame.messages?.formattedMessages ?? []).map(message => JSON.parse(message.json));
}

const create = async () => (await call('POST', '/v1/sessions', {})).session.sessionId;

const request = {
  id: 'u1',
  role: 'user',
  parts: [
    { type: 'text', text: 'How high?' },
    { type: 'file', mediaType: 'image/png', url: 'https://example.org/gauge.png' },
  ],
};
const signature = { anthropic: { signature: 'EqQBCgIYAhIM+/==' } };
const chunks = [
  { type: 'start', messageId: 'a1' },
  { type: 'start-step' },
  { type: 'reasoning-start', id: '0' },
  { type: 'reasoning-delta', id: '0', delta: 'The tide ' },
  { type: 'reasoning-delta', id: '0', delta: 'is high.' },
  { type: 'reasoning-end', id: '0', providerMetadata: signature },
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'I read ' },
  { type: 'text-delta', id: '1', delta: 'it — été.' },
  { type: 'text-end', id: '1' },
  { type: 'tool-input-start', toolCallId: 'c1', toolName: 'read_gauge' },
  { type: 'tool-input-delta', toolCallId: 'c1', inputTextDelta: '{"station":' },
  { type: 'tool-input-delta', toolCallId: 'c1', inputTextDelta: '"Brest"}' },
  { type: 'tool-input-available', toolCallId: 'c1', toolName: 'read_gauge', input: { station: 'Brest' } },
  { type: 'tool-input-available', toolCallId: 'c2', toolName: 'read_gauge', input: { station: 'Nantes' } },
  { type: 'tool-output-available', toolCallId: 'c1', output: '4.2 m' },
  { type: 'tool-output-error', toolCallId: 'c2', errorText: 'no such gauge' },
  { type: 'finish-step' },
  { type: 'start-step' },
  { type: 'tool-input-available', toolCallId: 'c3', toolName: 'read_gauge', input: {} },
  { type: 'tool-output-available', toolCallId: 'c3', output: { height: [5, 6] } },
  { type: 'finish-step' },
  { type: 'start-step' },
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'High.' },
  { type: 'text-end', id: '1' },
  { type: 'source-url', sourceId: 's1', url: 'https://example.org/tide' },
  { type: 'finish-step' },
  { type: 'finish', finishReason: 'stop' },
];

let message;
const stream = new ReadableStream({
  start(controller) {
    chunks.forEach(chunk => controller.enqueue(chunk));
    controller.close();
  },
});
for await (const state of readUIMessageStream({ stream })) message = structuredClone(state);
const expected = JSON.parse(JSON.stringify(await convertToModelMessages([request, message])));

/** In one of the forms that the SDK takes: a text is a list of one text, and a file has its data or its address alone. */
function plain(messages) {
  const part = given => (given.type === 'file' ? { ...given, data: given.data.url ?? given.data.data ?? given.data } : given);
  return messages.map(({ role, content }) => ({
    role,
    content: typeof content === 'string' ? [{ type: 'text', text: content }] : content.map(part),
  }));
}

const streamed = await create();
await append(streamed, [request]);
await append(streamed, [...chunks.map(chunk => `data: ${JSON.stringify(chunk)}`), 'data: [DONE]', ''].join('\n\n'));
const whole = await create();
await append(whole, { messages: [request, message] });
const models = await create();
await append(models, expected);
for (const [name, session] of Object.entries({ streamed, whole, models })) {
  const served = await view(session);
  modelMessageSchema.array().parse(served);
  assert.deepEqual(plain(served), plain(expected), name);
}
assert.deepEqual(await view(models), expected, 'what the SDK calls a message comes back as it was');
const anthropic = await view(streamed, 'ANTHROPIC');
assert.deepEqual(anthropic.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant', 'user', 'assistant']);
console.log('ai_sdk: a stream, a UIMessage and ModelMessages are the messages that the SDK makes of them, and its schema takes them');

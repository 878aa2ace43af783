// A property: what the page has after the events that came equals what it would read anew, after every step of sessions in
// which anything may happen. The state is the page's own; the daemon is the built one.
import { isDeepStrictEqual } from 'node:util';
import { call, result, text } from './daemon.mjs';
import { pure } from './pure.mjs';

/** Numbers that follow from a seed. */
function random(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below | 0;
  };
}

/** What someone does in a session next. What the daemon refuses, such as an undo of nothing, has happened to nobody. */
function doings(daemon, id, any) {
  const path = `/v1/sessions/${id}`;
  let calls = 0;
  let open = null;
  let epoch = null;
  const some = async () => {
    const { messages = [] } = await daemon.get(`${path}/messages?reverse=true&page_size=30`);
    return messages[any(messages.length)]?.messageId;
  };
  const doings = {
    user: () => daemon.append(id, [text('USER', `words ${any(100)} `.repeat(1 + any(300)))]),
    reply: () => daemon.append(id, [text('ASSISTANT', 'an answer '.repeat(1 + any(40)), { finish: { reason: 'FINISH_REASON_STOP' } })]),
    call: () => daemon.append(id, [call(`call-${(calls += 1)}`, 'bash', { command: 'true' })]),
    result: () => daemon.append(id, [result(`call-${calls}`, 'line\n'.repeat(any(3000)))]),
    record: () => daemon.append(id, [{ role: 'ROLE_SYSTEM', kind: 'MESSAGE_KIND_RECORD', parts: [{ record: { kind: 'progress', data: '{}' } }] }]),
    async open() {
      open = (await daemon.append(id, [{ role: 'ROLE_ASSISTANT', open: true }])).messageIds[0];
    },
    part: () => daemon.post(`${path}/messages/${open}/parts`, { parts: [{ text: { text: `part ${any(100)}` } }] }),
    finish: () => daemon.post(`${path}/messages/${open}:finish`, { finish: { reason: 'FINISH_REASON_STOP' } }),
    pin: async () => daemon.post(`${path}/messages/${await some()}:pin`, { unpin: any(3) === 0 }),
    edit: async () => daemon.post(`${path}/messages/${await some()}:edit`, any(4) ? { parts: [{ text: { text: `other words ${any(100)}` } }] } : { remove: true }),
    rewind: async () => daemon.post(`${path}:rewind`, { message_id: await some() }),
    undo: () => daemon.post(`${path}:undo`),
    redo: () => daemon.post(`${path}:redo`),
    async run() {
      if (epoch) await daemon.post(`${path}/runs/${epoch}:release`);
      epoch = epoch ? null : (await daemon.post(`${path}/runs`, { lease_timeout: '600s' })).run.epoch;
    },
    async compact() {
      await daemon.post(`${path}/compactions`, { kind: any(2) ? 'COMPACTION_KIND_SUMMARY' : 'COMPACTION_KIND_PRUNE' });
      await daemon.settled(id);
    },
    label: () => daemon.post(`${path}/labels:add`, { label: `label-${any(9)}` }),
    rename: () => daemon.call('PATCH', path, { title: `title ${any(100)}` }),
  };
  const names = ['user', 'user', 'reply', 'reply', 'call', 'call', 'result', 'result', 'part', 'part', 'finish', 'pin', 'edit', 'undo', ...Object.keys(doings)];
  return async () => {
    const name = names[any(names.length)];
    await doings[name]().catch((error) => {
      if (!/: 4\d\d /.test(error.message)) throw error;
    });
    return name;
  };
}

/** The frames of a stream of Server-Sent Events, as they come. */
async function* frames(daemon, path) {
  const response = await fetch(daemon.url + path, { headers: { authorization: `Bearer ${daemon.secret}`, accept: 'text/event-stream' } });
  let buffer = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    buffer += piece;
    const texts = buffer.split('\n\n');
    buffer = texts.pop();
    for (const one of texts) {
      const field = (name) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(one)?.[1];
      if (field('event')) yield { name: field('event'), data: JSON.parse(field('data') || 'null') };
    }
  }
}

/** Where two values differ, for a message. */
function difference(left, right, path = '') {
  if (isDeepStrictEqual(left, right)) return null;
  if (left && right && typeof left === 'object' && typeof right === 'object') {
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
      const found = difference(left[key], right[key], `${path}.${key}`);
      if (found) return found;
    }
  }
  return `${path}: ${JSON.stringify(left)?.slice(0, 300)} instead of ${JSON.stringify(right)?.slice(0, 300)}`;
}

/** Of a row, what does not depend on when its message was read. */
const seen = (row) => JSON.parse(JSON.stringify({ ...row, message: row.message && { ...row.message, status: undefined } }));

/** Follows a session with history, view and rows, through frames of one event or of several. */
export async function followsSession(daemon, seed, steps) {
  const { advanced, begun, changesStatuses, changesView, viewOf } = await pure('session/state.ts');
  const { rows } = await pure('session/rows.ts');
  const any = random(seed);
  const id = await daemon.session(`Followed ${seed}`, { window: { model: 'sonnet-4', maxContextTokens: 12000, maxOutputTokens: 1000 }, preset: 'opencode' });
  const path = `/v1/sessions/${id}`;
  const next = doings(daemon, id, any);
  const list = (query = '') => daemon.get(`${path}/messages?reverse=true&page_size=1000${query}`);
  const view = async (query, held) => viewOf(await daemon.get(`${path}/view?${query}`), held);
  const rowsOf = (state) => rows({ history: state.messages, hasOlder: !!state.olderToken, hasNewer: false, inherited: 0, view: state.view, replacements: state.replacements, questions: [], revision: state.revision, isNow: true, runFrom: state.runFrom }).map(seen);
  const stream = frames(daemon, `${path}/events?include_content=true`);
  const came = [];
  let wake = () => undefined;
  void (async () => {
    for await (const { name, data } of stream) {
      if (data?.kind) came.push(data);
      if (data?.kind || name === 'ready') wake();
    }
  })().catch(() => undefined);
  await new Promise((done) => (wake = done));
  let state = begun(await list(), await view('', null), await daemon.get(`${path}/run`));
  const log = [];
  for (let step = 0; step < steps; step += 1) {
    for (let times = 0; times <= any(3); times += 1) log.push(await next());
    const { header } = state.view;
    const after = await view(new URLSearchParams({ known_view_hash: header.viewHash, known_revision: header.revision }), state.view);
    while (Number(came.at(-1)?.revision ?? 0) < after.revision && state.revision < after.revision) await new Promise((done) => (wake = done));
    const events = came.splice(0, came.findLastIndex((event) => Number(event.revision) <= after.revision) + 1);
    for (let at = 1; at < events.length; at += 1) if (Number(events[at].revision) !== Number(events[at - 1].revision) + 1) throw new Error(`revisions ${events[at - 1].revision}, ${events[at].revision}`);
    state = advanced(state, events, events.some(changesView) ? after : state.view, events.some(changesStatuses) ? (await list(`&as_of_revision=${after.revision}`)).messages : []);
    const fresh = begun(await list(`&as_of_revision=${state.revision}`), await view(`as_of_revision=${state.revision}`, null), await daemon.get(`${path}/run`));
    const told = `of seed ${seed}, step ${step}, revision ${state.revision}, after ${log.slice(-8)}`;
    const ofView = ({ header: { viewHash, contextTokens, messageCount }, messages, end }) => ({ viewHash, contextTokens, messageCount, messages, end });
    const wrong = difference(ofView(state.view), ofView(fresh.view)) ?? difference(state.messages.map(({ messageId }) => messageId), fresh.messages.map(({ messageId }) => messageId)) ?? difference(rowsOf(state), rowsOf(fresh));
    if (wrong) throw new Error(`the page ${told} has ${wrong}`);
  }
  await stream.return();
  return { steps: log.length, revision: state.revision, compacted: !!state.view.end.covered };
}

/** Follows the list while several sessions come, change and go. */
export async function followsList(daemon, seed, steps) {
  const { changed, newestFirst, withSessions } = await pure('pages/list.ts');
  const any = random(seed);
  const stream = frames(daemon, '/v1/sessions:watch');
  const snapshot = [];
  let known;
  while (!known) {
    const { name, data } = (await stream.next()).value;
    if (name === 'snapshot_page') snapshot.push(...(data.sessions ?? []));
    if (name === 'snapshot_end') known = withSessions(snapshot);
  }
  const ids = [...known.keys()];
  const fresh = async () => (await daemon.get('/v1/sessions?page_size=1000')).sessions ?? [];
  for (let step = 0; step < steps; step += 1) {
    const id = ids[any(ids.length)];
    const doing = id ? any(5) : 0;
    if (doing === 0) ids.push(await daemon.session(`Listed ${step}`));
    else if (doing === 1) await daemon.post(`/v1/sessions/${id}:archive`, { restore: any(2) === 1 }).catch(() => undefined);
    else if (doing === 2) await daemon.call('PATCH', `/v1/sessions/${id}`, { title: `title ${step}` }).catch(() => undefined);
    else if (doing === 3) await daemon.append(id, [text('USER', `words ${step}`)]).catch(() => undefined);
    else await daemon.post(`/v1/sessions/${id}/labels:add`, { label: `label-${any(9)}` }).catch(() => undefined);
    const wanted = await fresh();
    const isThere = () => wanted.length === known.size && wanted.every((one) => known.get(one.sessionId)?.revision === one.revision);
    // Two heartbeats later, nothing more comes.
    for (let beats = 0; !isThere() && beats < 2; ) {
      const { name, data } = (await stream.next()).value;
      if (name === 'change') known = changed(known, data);
      else if (name === 'heartbeat') beats += 1;
    }
    // What follows from decisions comes with the next change.
    const seen = (sessions) => newestFirst(sessions).map(({ contextTokens: _tokens, contextRevision: _revision, guardState: _guards, ...one }) => one);
    const wrong = difference(seen([...known.values()]), seen(wanted));
    if (wrong) throw new Error(`the list of seed ${seed}, step ${step} has ${wrong}`);
  }
  await stream.return();
}
